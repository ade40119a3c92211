"""The console: what a browser gets by a link, what it may see, and what its process cannot do (CONSOLE 3 to 8, decision 0160)."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import unittest
import urllib.parse

import crib
import inside
import test_take_over

LISTEN = 'console: {{listen: "127.0.0.1:0"}}\n{extra}'
ROLES = """admin:
  socket: {socket}
roles:
  - {{role: admin, uid: 0}}
  - {{role: auditor, uid: 40002}}
  - {{role: tenant-auditor, uid: 40003, tenant: acme}}
"""
COOKIE = "__Host-toolcrib="
FORM = "application/x-www-form-urlencoded"
DOORS = 12                              # include/console/console.h


class Case(crib.Case):
    def serve(self, extra="", level="", **more):
        c = self.crib.init()
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "echo")
        c.start(LISTEN.format(extra=extra) + level, **more)
        self.find()
        return c

    def find(self):
        self.port = self.crib.address("console")[1]
        self.host = f"toolcrib.localhost:{self.port}"

    def ask(self, method, path, body=None, visit=None, **headers):
        """(status, headers, text); a header of None is left out."""
        sent = {"Host": self.host, **({"Cookie": COOKIE + visit} if visit else {}),
                **({"Content-Type": FORM, "Sec-Fetch-Site": "same-origin"} if method == "POST" else {}),
                **{name.replace("_", "-"): value for name, value in headers.items()}}
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=crib.DEADLINE)
        with contextlib.closing(c):
            c.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                for one in [value] if isinstance(value, str) else value or []:
                    c.putheader(name, one)
            if body is not None:
                c.putheader("Content-Length", str(len(body)))
            c.endheaders(body.encode() if body is not None else None)
            answer = c.getresponse()
            return answer.status, answer.headers, answer.read().decode()

    def get(self, path, visit, status=200):
        got, _, text = self.ask("GET", path, visit=visit)
        self.assertEqual(got, status, text)
        return text

    def link(self, *words):
        """The token of a link, as the one who runs the command."""
        url = self.crib.must([*words, "console", "open"]).strip()
        self.assertTrue(url.startswith(f"http://{self.host}/enter?t="), url)
        return url.partition("=")[2]

    def enter(self, token):
        status, headers, text = self.ask("POST", "/enter", "t=" + token)
        self.assertEqual(status, 303, text)
        return re.search(COOKIE + r"(\w{43});", headers["Set-Cookie"])[1]

    def visit(self):
        return self.enter(self.link())

    def visit_of(self, uid):
        """Of another user, who has a role."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
                with socket.socket(socket.AF_UNIX) as s:
                    s.settimeout(crib.DEADLINE)
                    s.connect(str(self.socket))
                    s.sendall(b'{"command":"console open","args":{}}\n')
                    os.write(write, s.makefile("rb").readline())
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as f:
            url = json.loads(f.read())["row"]["url"]
        os.waitpid(child, 0)
        return self.enter(url.partition("=")[2])

    def call(self, times=1):
        peer = self.crib.http(self.key)
        for n in range(times):
            peer.call("echo", {"text": str(n)}, crib.MODERN)
        peer.close()

    def asset(self, page):
        return re.search(r'href="/a/([0-9a-f]{16})/console.css"', page)[1]

    def csrf(self, page, action):
        return re.search(f'action="{action}"><input type="hidden" name="c" value="([0-9a-f]{{64}})"', page)[1]

    def process(self):
        return next(pid for pid, name in crib.below(self.crib.daemon.pid).items() if name == "toolcrib-consol")

    def details(self):
        return [row["detail"] or "" for row in self.crib.json("audit", "admin", "--limit", "0")]


class Pages(Case):
    def test_the_first_minute(self):
        """README: a link signs in once, by its button alone; a page shows what the command below it shows; each look is on record."""
        c = self.serve()
        self.call()
        token = self.link()
        for _ in range(2):              # a preview fetches it, and nothing is used up
            status, headers, text = self.ask("GET", "/enter?t=" + token)
            self.assertEqual(status, 200)
            self.assertIn(f'name="t" value="{token}"', text)
            self.assertIsNone(headers["Set-Cookie"])
        visit = self.enter(token)
        self.assertNotEqual(visit, token)
        self.assertEqual(self.ask("POST", "/enter", "t=" + token)[0], 403, "it opens once")
        start = self.get("/", visit)
        self.assertIn('<a href="/t/acme/r/calls">', start)
        calls = self.get("/t/acme/r/calls", visit)
        self.assertIn('<td><a href="/t/acme/r/calls?tool=echo"><bdi>echo</bdi></a></td>', calls)
        self.assertIn("<pre>toolcrib audit calls --tenant acme --limit 50\ntoolcrib audit stats --tenant acme</pre>", calls)
        call = re.search(r'href="(/t/acme/call/([0-9a-f-]{36}))"', calls)
        page = self.get(call[1], visit)
        self.assertIn(f"<pre>toolcrib audit show {call[2]} --tenant acme</pre>", page)
        for kind in ("call.begin", "call.end"):
            self.assertIn(f"<h2>{kind} #", page)
        said = self.details()
        self.assertTrue([line for line in said if line.endswith("(console): console enter")], said)
        log = "\n".join(row["detail"] or "" for row in c.json("audit", "admin", "--tenant", "acme", "--limit", "0"))
        self.assertIn(f"(console): audit show call={call[2]}", log)
        for secret in (token, visit):
            self.assertNotIn(secret, "\n".join(said) + log + c.log.read_text())

    @unittest.skipUnless(os.geteuid() == 0, "needs other users to be")
    def test_what_a_call_said_is_shown_for_a_reason(self):
        """C-106: to who may read payloads, by a form of the call's page; who looked and why is on record, and a refusal is, too."""
        self.socket = self.crib.dir / "public.sock"
        c = self.serve(ROLES.format(socket=self.socket), "audit: {level: request_response}")
        self.crib.let_others_in()
        peer = c.http(self.key)
        peer.call("echo", {"text": "<b>said</b>\u202e"}, crib.MODERN)
        peer.close()
        call = c.json("audit", "calls", "--tenant", "acme")[0]["call"]
        path = f"/t/acme/call/{call}"
        admin, auditor, of_acme = self.visit(), self.visit_of(40002), self.visit_of(40003)
        for visit in (auditor, of_acme):
            csrf = self.csrf(self.get(path, visit), path + "/reveal")
            self.assertEqual(self.ask("POST", path + "/reveal", f"c={csrf}&reason=", visit)[0], 400)
            self.assertEqual(self.ask("POST", path + "/reveal", f"c={csrf}&reason=" + "x" * 401, visit)[0], 400)
            status, _, text = self.ask("POST", path + "/reveal", f"c={csrf}&reason=case+%22L-17%22", visit)
            self.assertEqual(status, 200, text)
            self.assertIn("&lt;b&gt;said&lt;/b&gt;⟨U+202E⟩", text)
            self.assertNotIn("<b>said", text)
            self.assertIn(f"toolcrib audit payload {call} --tenant acme --reason &#39;case &quot;L-17&quot;&#39;", text)
        csrf = self.csrf(self.get(path, admin), path + "/reveal")
        status, _, text = self.ask("POST", path + "/reveal", f"c={csrf}&reason=x", admin)
        self.assertEqual(status, 403)
        self.assertIn("audit payload needs one of these: auditor, tenant-auditor", text)
        csrf = self.csrf(self.get(path, of_acme), path + "/reveal")
        others = {self.ask("POST", f"/t/{tenant}/call/{call}/reveal", f"c={csrf}&reason=x", of_acme)[::2] for tenant in ("other", "nobody")}
        self.assertEqual([status for status, _ in others], [403], "of what is there and what is not, the same")
        self.assertEqual(self.ask("GET", path + "/reveal", visit=auditor)[0], 405)
        log = [row["detail"] or "" for row in c.json("audit", "access", "--tenant", "acme", "--call", call, "--limit", "0")]
        self.assertEqual(len([line for line in log if 'audit payload call=' in line and 'reason=case "L-17"' in line]), 2, log)

    def test_every_page_says_what_may_be_done_with_it(self):
        """C-402, C-403: one script of ours is there, nothing comes from elsewhere, nothing is kept."""
        self.serve()
        visit = self.visit()
        for path in ("/", "/enter?t=x", "/t/acme/r/calls", "/nothing", "/r/none"):
            with self.subTest(path=path):
                _, headers, text = self.ask("GET", path, visit=visit)
                policy = headers["Content-Security-Policy"]
                for rule in ("default-src 'none'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
                             "require-trusted-types-for 'script'", "trusted-types 'none'"):
                    self.assertIn(rule, policy)
                self.assertIn("; script-src 'self'; ", policy)
                self.assertEqual((headers["Cache-Control"], headers["X-Content-Type-Options"], headers["Referrer-Policy"]),
                                 ("no-store", "nosniff", "same-origin"))
                self.assertEqual(re.findall(r"<script[^>]*>|<style|\son\w+=|\sstyle=|javascript:", text), [f'<script type="module" src="/a/{self.asset(text)}/console.mjs">'])
        css = re.search(r'href="(/a/[0-9a-f]{16}/console.css)"', self.get("/", visit))[1]
        status, headers, text = self.ask("GET", css)
        self.assertEqual((status, headers["Content-Type"]), (200, "text/css; charset=utf-8"))
        self.assertIn("immutable", headers["Cache-Control"])
        status, headers, text = self.ask("GET", css.replace(".css", ".mjs"))
        self.assertEqual((status, headers["Content-Type"], headers["X-Content-Type-Options"]), (200, "text/javascript; charset=utf-8", "nosniff"))
        self.assertEqual(text, (crib.SOURCE / "src/console/console.mjs").read_text())
        self.assertEqual(re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|fetch\(|XMLHttp", text), [])
        self.assertEqual(self.ask("GET", "/a/0123456789abcdef/console.css")[0], 404)

    def test_each_report_has_a_page(self):
        self.serve()
        self.call(3)
        visit = self.visit()
        for verb in ("calls", "denied", "admin", "access", "auth-failures", "credentials", "after-revocation", "anomalies", "approvals",
                     "config", "coverage", "drift", "dual-control", "erasures", "isolation", "key-history", "oversight", "reviews",
                     "sandbox", "tasks"):
            with self.subTest(report=verb):
                page = self.get(f"/t/acme/r/{verb}?since=1h", visit)
                self.assertIn(f"<pre>toolcrib audit {verb} --tenant acme --since 1h --limit 50", page)
        for verb in ("admin", "continuity", "clock", "coverage"):
            self.assertIn("<table>", self.get("/r/" + verb, visit))
        self.assertIn("There are none, as it must be.", self.get("/t/acme/r/after-revocation", visit))
        self.assertEqual(self.get("/t/acme/r/verify", visit, 404), self.get("/t/acme/r/continuity", visit, 404))

    def test_filters_and_older_ones(self):
        self.serve()
        self.call(3)
        visit = self.visit()
        first = self.get("/t/acme/r/calls?n=2&tool=echo&outcome=ok", visit)
        self.assertEqual(first.count("/t/acme/call/"), 2)
        older = re.search(r'<a rel="next" href="(\?[^"]*)">Older', first)[1].replace("&amp;", "&")
        second = self.get("/t/acme/r/calls" + older, visit)
        self.assertEqual(second.count("/t/acme/call/"), 1)
        self.assertNotIn("Older", second)
        self.assertEqual(set(re.findall("/call/([0-9a-f-]+)", first)) & set(re.findall("/call/([0-9a-f-]+)", second)), set())
        self.assertIn("There are none.", self.get("/t/acme/r/calls?outcome=timeout", visit))
        self.assertIn("--tool &#39;it&#39;\\&#39;&#39;s&#39;", self.get("/t/acme/r/calls?tool=it%27s&n=5", visit))
        self.assertIn("principal acme/nobody", self.get("/t/acme/r/calls?principal=nobody", visit, 404))
        for path, says in (("/t/acme/r/calls?nope=1", "nope: this page does not know it"), ("/t/acme/r/calls?n=0", "1 to 200"),
                           ("/t/acme/r/calls?n=201", "1 to 200"), ("/t/acme/r/calls?tool=a&tool=b", "tool: it stands there twice"),
                           ("/t/acme/r/calls?tool=a&tool=", "tool: it stands there twice"), ("/t/acme/r/calls?tool", "tool: "),
                           ("/t/acme/r/calls?tool=%00", "tool: "), ("/t/acme/r/calls?tool=%ff", "tool: "), ("/t/acme/r/calls?tool=%2", "malformed"),
                           ("/t/acme/r/calls?since=yesterday-ish", "since"), ("/t/acme/r/admin?tool=echo", "no such filter"),
                           ("/t/acme/r/calls?after=AAAA", "no cursor"), ("/t/acme/r/calls?after=" + "x" * 3000, "cursor")):
            with self.subTest(path=path[:60]):
                self.assertIn(says, self.get(path, visit, 400))
        self.get("/t/acme/r/calls?n=200", visit)

    def test_hostile_texts_are_texts(self):
        """C-801, C-802: what others have written is no markup, and what hides in it is spelt out."""
        c = self.serve()
        text = "<img src=x onerror=alert(1)>\"'&{{title}}\u202egnp\u200b\U000e0041"
        c.must(["audit", "review", "sign", "--tenant", "acme", "--note", text])
        visit = self.visit()
        page = self.get("/t/acme/r/reviews", visit)
        self.assertIn("&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;{{title}}⟨U+202E⟩gnp⟨U+200B⟩⟨U+E0041⟩", page)
        self.assertNotIn("<img", page)
        field = self.get("/t/acme/r/calls?tool=" + urllib.parse.quote('"><script>'), visit)
        self.assertIn('name="tool" value="&quot;&gt;&lt;script&gt;"', field)
        self.assertEqual(field.count("<script"), 1, "ours")

    def test_templates_that_would_not_hold_are_no_build(self):
        """C-801."""
        good = self.crib.dir / "t.html"
        for text, says in (("<p>{{a}}</p>", None), ('<a href="/x/{{path:a}}">', None), ('<a href="?a={{path:a}}">', None),
                           ('<a href="{{path:a}}">', "path of ours"), ('<a href="//{{path:a}}">', "path of ours"),
                           ('<a href="/x/{{a}}">', "in href"), ("<p>{{path:a}}</p>", "in text"), ("<p title={{a}}>", "inside of a tag"), ("<p title=a>", "double quotes"),
                           ("<p title='{{a}}'>", "double quotes"), ("<p {{a}}>", "inside of a tag"), ("<{{a}}>", "inside of a tag"),
                           ('<p onclick="x()">', "onclick"), ('<p style="{{a}}">', "style"), ("<script>", "<script>"), ('<script type="module" src="/a/{{path:hash}}/console.mjs"></script>', "<script>"), ("<style>", "<style>"),
                           ("<!-- {{a}} -->", "comment"), ("<p>{{a</p>", "without"), ("<p>{{A}}</p>", "no name"), ("<p", "ends inside")):
            with self.subTest(text=text):
                good.write_text("<!-- part a -->\n" + text + "\n")
                done = subprocess.run(["awk", "-f", crib.SOURCE / "contrib/htmlgen.awk", good], capture_output=True, text=True)
                self.assertEqual(done.returncode != 0, says is not None, done.stderr)
                self.assertIn(says or "", done.stderr)


class Doors(Case):
    def test_who_comes_in_from_where(self):
        """C-401, C-305, C-405: the host is ours before anything else, methods are two, nothing is fetched ahead."""
        c = self.serve()
        visit = self.visit()
        before = len(self.details())
        for host, status in ((self.host.upper(), 200), ("evil.example", 421), ("evil.toolcrib.localhost", 421), ("", 400),
                             ("toolcrib.localhost.evil", 421), (None, 400), ([self.host, self.host], 400)):
            with self.subTest(host=host):
                self.assertEqual(self.ask("GET", "/enter", Host=host, visit=visit)[0], status)
        for host in ("localhost", f"127.0.0.1:{self.port}", "[::1]:1"):
            status, headers, _ = self.ask("GET", "/t/acme/r/calls", Host=host, visit=visit)
            self.assertEqual((status, headers["Location"]), (307, f"http://{self.host}/"))
            self.assertEqual(self.ask("POST", "/sign-out", "c=", Host=host, visit=visit)[0], 421)
        for method in ("HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"):
            self.assertEqual(self.ask(method, "/", visit=visit)[0], 405, method)
        self.assertEqual(self.ask("GET", "/sign-out", visit=visit)[0], 405)
        self.assertEqual(self.ask("POST", "/", "", visit=visit)[0], 405)
        for header in ({"Sec_Purpose": "prefetch;prerender"}, {"Purpose": "prefetch"}):
            self.assertEqual(self.ask("GET", "/", visit=visit, **header)[0], 503)
        self.assertEqual(self.ask("GET", "/enter?t=" + "x" * (4096 - len("/enter?t=")))[0], 200)
        self.assertEqual(self.ask("GET", "/enter?t=" + "x" * (4097 - len("/enter?t=")))[0], 414)
        self.assertEqual(self.ask("POST", "/enter", "t=" + "x" * 16382)[0], 403)
        self.assertEqual(self.ask("POST", "/enter", "t=" + "x" * 16383)[0], 413)
        cookie = COOKIE + visit
        for cookies in ("", cookie[:-1], cookie + "x", cookie.replace("__Host-", ""), f"{cookie}; {cookie}", [cookie, cookie],
                        COOKIE + "A" * 43, COOKIE + "é" * 43):
            with self.subTest(cookies=cookies):
                sent = cookies if isinstance(cookies, list) else cookies.encode().decode("latin-1")
                self.assertEqual(self.ask("GET", "/", Cookie=sent)[0], 403)
        self.assertEqual(self.ask("GET", "/", Cookie=f"a=b; {cookie}; c=d")[0], 200)
        self.assertEqual(len([line for line in self.details()[:-before or None] if "(console): console can" in line]), 1,
                         "what was refused asked for nothing")
        self.assertGreaterEqual(c.status()["counters"]["console_refused"], 2)

    def test_a_link_elsewhere_leads_here(self):
        """C-306: the browser keeps the cookie back, and brings it when our own page asks, once; frames and fetches get nothing."""
        self.serve()
        visit = self.visit()
        link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
        for path, again in (("/", "/?again=1"), ("/t/acme/r/calls?n=2&tool=%22%3E", "/t/acme/r/calls?n=2&amp;tool=%22%3E&amp;again=1")):
            status, _, text = self.ask("GET", path, **link)
            self.assertEqual(status, 200)
            self.assertIn(f'<meta http-equiv="refresh" content="0; url={again}">', text)
            again = again.replace("&amp;", "&")
            self.assertEqual(self.ask("GET", again, **link)[0], 403, "once")
            self.assertEqual(self.ask("GET", again, visit=visit, Sec_Fetch_Site="same-origin")[0], 200)
        for other in ({"Sec_Fetch_Dest": "iframe"}, {"Sec_Fetch_Mode": "no-cors"}, {"Sec_Fetch_Site": "same-site"}, {"Sec_Fetch_Dest": None}):
            self.assertEqual(self.ask("GET", "/", **{**link, **other})[0], 403)
        for path in ("//evil.example/", "/nothing", "/t/acme/r/calls?nope=1"):
            self.assertIn(self.ask("GET", path, **link)[0], (400, 404))

    def test_a_form_is_of_its_page_and_visit(self):
        """C-307: each other one is refused, and nothing has happened."""
        self.serve()
        visit, other = self.visit(), self.visit()
        start, theirs = self.get("/", visit), self.get("/", other)
        fits = self.csrf(start, "/end")
        ids = re.findall(r'name="id" value="(\d+)"', start)
        self.assertEqual(len(ids), 2)
        tokens = {"right": fits, "none": None, "empty": "", "wrong": fits[:-1] + ("0" if fits[-1] != "0" else "1"),
                  "other route": self.csrf(start, "/sign-out"), "other visit": self.csrf(theirs, "/end"), "longer": fits + "0"}
        sites = {"same-origin": True, "same-site": False, "cross-site": False, "none": False, "": False}
        ours = f"http://{self.host}"
        origins = {None: False, ours: True, "null": False, "http://evil.example": False, ours + "0": False, "https://" + self.host: False}
        for name, token in tokens.items():
            body = f"id={ids[1]}" + ("" if token is None else f"&c={token}")
            for site in sites:
                if name != "right" or not sites[site]:
                    self.assertEqual(self.ask("POST", "/end", body, visit, Sec_Fetch_Site=site, Origin=ours)[0], 403, (name, site))
            for origin in origins:
                if name != "right" or not origins[origin]:
                    self.assertEqual(self.ask("POST", "/end", body, visit, Sec_Fetch_Site=None, Origin=origin)[0], 403, (name, origin))
        right = f"id={ids[1]}&c={fits}"
        for type_ in (None, "text/plain", "multipart/form-data", "application/json"):
            self.assertEqual(self.ask("POST", "/end", right, visit, Content_Type=type_)[0], 415)
        self.assertEqual(self.ask("POST", "/end", right, visit, Sec_Fetch_Site=["same-origin", "same-origin"])[0], 403)
        self.assertEqual(self.ask("POST", "/end", right)[0], 403, "nobody's")
        self.get("/", other)
        self.assertEqual(self.ask("POST", "/end", right, visit, Sec_Fetch_Site=None, Origin=ours)[0], 303)
        self.get("/", other, 403)
        status, headers, _ = self.ask("POST", "/sign-out", "c=" + self.csrf(start, "/sign-out"), visit)
        self.assertEqual(status, 303)
        self.assertIn(COOKIE + "; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0", headers["Set-Cookie"])
        self.assertEqual(headers["Clear-Site-Data"], '"cache"')
        self.get("/", visit, 403)

    def test_links_and_visits_are_so_many(self):
        c = self.serve()
        tokens = [self.link() for _ in range(4)]
        with self.assertRaises(crib.Failed) as fails:
            c.cli("console", "open")
        self.assertIn("4 links of yours are open", fails.exception.err)
        visits = [self.enter(token) for token in tokens] + [self.visit() for _ in range(4)]
        status, _, text = self.ask("POST", "/enter", "t=" + self.link())
        self.assertEqual(status, 503)
        self.assertIn("8 visits of yours are open", text)
        rows = c.json("console", "visits")
        self.assertEqual(([row["who"] for row in rows], [row["from"] for row in rows]), (["uid 0"] * 8, ["127.0.0.1"] * 8))
        self.assertEqual(c.status()["counters"]["console_visits"], 8)
        c.cli("console", "end", rows[0]["id"])
        self.get("/", visits[0], 403)
        self.get("/", visits[1])
        with self.assertRaises(crib.Failed):
            c.cli("console", "end", rows[0]["id"])
        for words, says in ((["end"], "say which visit"), (["end", "x"], "no number"), (["enter"], "console open gives")):
            with self.assertRaises(crib.Failed) as fails:
                c.cli("console", *words)
            self.assertIn(says, fails.exception.err)
        c.cli("console", "end", "--all")
        self.get("/", visits[1], 403)
        self.assertEqual(c.json("console", "visits"), [])

    @unittest.skipUnless(os.geteuid() == 0, "needs other users to be")
    def test_what_one_may_not_see_is_not_there(self):
        """C-407: byte for byte; C-302: a role that is taken away is missed with the next page."""
        self.socket = self.crib.dir / "public.sock"
        c = self.serve(ROLES.format(socket=self.socket))
        self.crib.let_others_in()
        other = c.tenant("other", "echo")
        self.call()
        peer = c.http(other)
        peer.call("echo", {"text": "x"}, crib.MODERN)
        peer.close()
        theirs = c.json("audit", "calls", "--tenant", "other")[0]["call"]
        admin, auditor, of_acme = self.visit(), self.visit_of(40002), self.visit_of(40003)
        self.assertIn("/t/other/r/calls", self.get("/", auditor))
        start = self.get("/", of_acme)
        self.assertIn("/t/acme/r/calls", start)
        self.assertNotIn("other", start)
        self.assertIn("uid 40003", start)
        self.assertNotIn("uid 40002", start, "visits of others")
        self.assertIn("uid 40002", self.get("/", admin))
        self.assertIn("<bdi>echo</bdi>", self.get("/t/acme/r/calls", of_acme))
        nothing = self.get("/nothing", None, 404)
        for path in ("/t/other/r/calls", "/t/nobody/r/calls", f"/t/other/call/{theirs}", f"/t/acme/call/{theirs}",
                     "/t/acme/call/01234567-89ab-7cde-8f01-23456789abcd", "/t/ACME/r/calls", "/t/../r/calls", "/t/acme/r/", "//", "/t/acme%2fr/calls"):
            for visit in (of_acme,) if "other" in path and "nobody" not in path else (of_acme, auditor):
                with self.subTest(path=path):
                    self.assertEqual(self.get(path, visit, 404), nothing)
        self.assertIn("uid 40003 has the role tenant-auditor", self.get("/r/admin", of_acme, 403))
        rows = [row["id"] for row in c.json("console", "visits") if row["who"] == "uid 40002"]
        body = f"id={rows[0]}&c={self.csrf(start, '/end')}"
        self.assertEqual(self.ask("POST", "/end", body, of_acme)[0], 404, "another's")
        self.get("/", auditor)
        config = c.config(LISTEN.format(extra=ROLES.format(socket=self.socket).replace("40003", "40009")))
        self.assertTrue(config.exists())
        c.cli("reload")
        self.assertEqual(self.get("/t/acme/r/calls", of_acme, 404), nothing)
        self.assertIn("no administrator", self.get("/", of_acme, 403))

    def test_the_console_is_for_this_machine(self):
        c = self.crib.init()
        for address in ("0.0.0.0:8811", "192.0.2.1:8811", "localhost:8811", "8811", "[::]:1"):
            config = c.dir / "wrong.yaml"
            config.write_text(f'console: {{listen: "{address}"}}\n')
            done = subprocess.run([crib.BUILD / "toolcribd", "--store", c.store, "-c", config, "--check"], capture_output=True, text=True,
                                  env=c.env)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("the console is for this machine alone", done.stderr)
        c.start()
        with self.assertRaises(crib.Failed) as fails:
            c.cli("console", "open")
        self.assertIn("no console runs here", fails.exception.err)


class Server(Case):
    """The console with the test in the server's place."""

    def setUp(self):
        super().setUp()
        self.heard, self.answers, self.kept = [], {}, []
        listener = socket.create_server(("127.0.0.1", 0))
        self.server, theirs = socket.socketpair()
        pairs = [socket.socketpair() for _ in range(DOORS)]
        self.port = listener.getsockname()[1]
        self.host = f"toolcrib.localhost:{self.port}"
        listener.setblocking(False)
        socket.send_fds(self.server, [self.host.encode() + b"\0"], [listener.fileno(), *(b.fileno() for _, b in pairs)])
        self.console = subprocess.Popen([crib.BUILD / "toolcrib-console"], stdin=theirs, stderr=subprocess.DEVNULL)
        self.doors = [a for a, _ in pairs]
        for one in [listener, theirs, *(b for _, b in pairs)]:
            one.close()
        self.threads = [threading.Thread(target=self.attend, args=(door,), daemon=True) for door in self.doors]
        for thread in self.threads:
            thread.start()

    def tearDown(self):
        self.server.close()             # it ends with the server
        self.assertEqual(self.console.wait(crib.DEADLINE), 0)
        for thread in self.threads:
            thread.join(crib.DEADLINE)
        for door in self.doors:
            door.close()
        super().tearDown()

    def attend(self, door):
        with door.makefile("rb") as lines:
            for line in lines:
                asked = json.loads(line)
                self.heard.append(asked)
                answer = self.answers.get(asked.get("command"))
                if answer is None:
                    self.kept.append(door)
                else:
                    with contextlib.suppress(OSError):
                        door.sendall(b"".join(json.dumps(one).encode() + b"\n" for one in answer))

    def report(self, *rows, **end):
        return [{"header": {"must_be_empty": False}, "columns": ["time", "tool", "call"]}, *({"row": row} for row in rows),
                *([{"end": {"rows": len(rows), **end}}] if end else []), {"done": True}]


class Alone(Server):
    def test_a_search_that_stopped_says_how_far_back(self):
        """C-501: none so far is not none."""
        self.answers["audit stats"] = self.report()
        row = {"time": "2026-07-28T10:00:00Z", "tool": "rare", "call": "01993f2c-0000-7000-8000-000000000000"}
        for rows, end, there, absent in (([], {"next": "abc", "searched": "2026-07-01T00:00:00Z"}, ("none so far", "back to 2026-07-01", ">Go on<"), "There are none."),
                                         ([row], {"next": "abc", "searched": "2026-07-01T00:00:00Z"}, ("rare", ">Go on<"), "none"),
                                         ([row], {"next": "abc"}, ("rare", ">Older ones<"), "Searched"),
                                         ([row], {"next": None}, ("There are more",), "Older"), ([], {}, ("There are none.",), "Go on")):
            with self.subTest(rows=len(rows), end=end):
                self.answers["audit calls"] = self.report(*rows, **end)
                page = self.get("/t/acme/r/calls?tool=rare", "A" * 43)
                for text in there:
                    self.assertIn(text, page)
                self.assertNotIn(absent, page.replace('class="none"', ""))
                asked = {line["command"]: line for line in self.heard[-2:]}
                self.assertEqual(asked["audit calls"]["args"], {"tenant": "acme", "tool": "rare", "limit": "50", "look": "50000"})
                self.assertEqual(asked["audit stats"]["args"], {"tenant": "acme", "tool": "rare"})
                self.assertEqual({(line["visit"], line["from"]) for line in asked.values()}, {("A" * 43, "127.0.0.1")})

    def test_an_answer_is_bounded(self):
        """C-205: what is longer than 4 MiB is stopped and said to be too long; the door serves on."""
        row = {"time": "x" * (1 << 19), "tool": "", "call": ""}
        self.answers["audit stats"] = self.report()
        self.answers["audit calls"] = self.report(*[row] * 7)
        self.assertIn(f"{(1 << 19) - 200} bytes more", self.get("/t/acme/r/calls", "A" * 43))
        self.answers["audit calls"] = self.report(*[row] * 8)
        for _ in range(2 * DOORS):
            self.assertIn("too long for a page", self.get("/t/acme/r/calls", "A" * 43, 400))
        crib.wait_for("a stop", lambda: {"stop": True} in self.heard)
        self.answers["audit calls"] = self.report()
        for _ in range(2 * DOORS):
            self.get("/t/acme/r/calls", "A" * 43)

    def test_a_visit_has_so_many_pages_at_once(self):
        """CON_RUNNING: four; the next is told so, others are served; who leaves is no longer waited for."""
        waiting = []
        for n in range(4):
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=crib.DEADLINE)
            c.request("GET", "/t/acme/r/admin", headers={"Host": self.host, "Cookie": COOKIE + "A" * 43})
            waiting.append(c)
            crib.wait_for("the question", lambda: len(self.kept) == n + 1)
        status, headers, text = self.ask("GET", "/t/acme/r/denied", visit="A" * 43)
        self.assertEqual((status, headers["Retry-After"]), (503, "1"), text)
        self.answers["audit denied"] = self.report()
        self.get("/t/acme/r/denied", "B" * 43)
        waiting.pop().close()
        crib.wait_for("a stop", lambda: {"stop": True} in self.heard)
        self.get("/t/acme/r/denied", "A" * 43)
        for door in self.kept:
            door.sendall(b'{"error":{"code":"busy","message":"<b>busy</b>","hint":"wait"}}\n')
        for c in waiting:
            answer = c.getresponse()
            self.assertEqual(answer.status, 503)
            self.assertIn("&lt;b&gt;busy&lt;/b&gt;", answer.read().decode())
            c.close()

    def test_connections_are_so_many(self):
        """CON_CONNS: 64; one more is closed, and one that leaves makes room."""
        self.answers["console can"] = self.answers["console visits"] = [{"done": True}]
        held = []
        for _ in range(64):
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=crib.DEADLINE)
            c.request("GET", "/enter", headers={"Host": self.host})
            self.assertEqual(c.getresponse().read()[:9], b"<!doctype")
            held.append(c)
        with self.assertRaises((http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)):
            self.ask("GET", "/")
        held.pop().close()
        crib.wait_for("room", lambda: self.tried())
        for c in held:
            c.close()

    def tried(self):
        try:
            return self.ask("GET", "/enter")[0] == 200
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            return False

    def test_a_server_that_speaks_otherwise_is_none(self):
        """Neither side believes the other."""
        self.doors[0].sendall(b"hello\n")
        self.assertEqual(self.console.wait(crib.DEADLINE), 0)


ENEMY = """#!/usr/bin/python3
import array, json, os, socket, sys
server = socket.socket(fileno=0)
name, control, _, _ = server.recvmsg(64, socket.CMSG_SPACE(13 * 4))
fds = array.array("i"); fds.frombytes(control[0][2])
door = socket.socket(fileno=fds[1]); door.setblocking(True); door = door.makefile("rwb")
says = []
*lines, last = {lines}
for line in lines:
    door.write(line.encode() + b"\\n"); door.flush()
    got = b""
    while not got.startswith((b'{{"done"', b'{{"error"')):
        got = door.readline()
    says.append(got.decode())
open({out!r} + ".new", "w").write(json.dumps([name.decode(), len(fds), says]))
os.rename({out!r} + ".new", {out!r})
door.write(last.encode() + b"\\n"); door.flush()
server.recv(1)
"""


class Processes(Case):
    def proc(self, pid, name):
        return pathlib.Path(f"/proc/{pid}/{name}").read_text(errors="replace")

    def test_a_reporter_of_a_page_gives_way_to_calls(self):
        """It has what nobody else wants of a processor, and the least of the disk: class best-effort, 7."""
        c = self.serve()
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            s.sendall(f"GET /t/acme/tail HTTP/1.1\r\nHost: {self.host}\r\nCookie: {COOKIE}{self.visit()}\r\n\r\n".encode())
            s.settimeout(crib.DEADLINE)
            self.assertTrue(s.recv(1 << 16).startswith(b"HTTP/1.1 200"))
            child, = crib.wait_for("a reporter", lambda: [pid for pid, name in crib.below(c.daemon.pid).items() if name == "toolcrib-report"])
            crib.wait_for("it to step back", lambda: os.sched_getscheduler(child) == os.SCHED_IDLE)
            crib.wait_for("the disk", lambda: subprocess.check_output(["ionice", "-p", str(child)], text=True).strip() == "best-effort: prio 7")

    def test_it_has_nothing_and_cannot_get_it(self):
        """C-202: sockets alone are open, no new privileges, a filter; C-203: who is signed in stays when it dies."""
        c = self.serve()
        visit = self.visit()
        pid = self.process()
        status = dict(re.findall(r"^(\w+):\t(.*)$", self.proc(pid, "status"), re.M))
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertEqual((os.sched_getscheduler(pid), os.getpriority(os.PRIO_PROCESS, pid)),
                         (os.SCHED_IDLE, max(19, os.getpriority(os.PRIO_PROCESS, 0))), "it gives way to calls")
        if not crib.sanitized("toolcrib-console"):
            self.assertEqual(status["Seccomp"], "2")
            self.assertIn("Max address space         268435456", self.proc(pid, "limits"))
        files = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd") if fd not in "12" or len(fd) > 1}
        self.assertEqual([path for path in files if not re.match(r"(socket|anon_inode|pipe):|/dev/null$", path)], [])
        for path in ("maps", "environ"):
            self.assertNotIn(str(c.store), self.proc(pid, path))
        os.kill(pid, signal.SIGKILL)
        crib.wait_for("a console that is there again", lambda: [
            child for child, name in crib.below(c.daemon.pid).items() if name == "toolcrib-consol" and child != pid])
        self.assertIn("acme", self.get("/", visit))
        self.assertEqual(c.status()["counters"]["console_starts"], 2)
        pid = self.process()
        self.assertEqual(c.stop(), 0)
        self.assertFalse(crib.runs(pid))

    @unittest.skipUnless(inside.can(), "needs x86-64 and root")
    def test_from_inside_nothing_can_be_got(self):
        """C-202: whoever has taken the process over, and makes its system calls, opens, connects, starts and maps nothing; it serves on."""
        self.serve()
        if crib.sanitized("toolcrib-console"):
            self.skipTest("runs without its filter")
        visit, refused = self.visit(), {}
        with inside.Inside(self.process()) as process:
            self.assertEqual(process.call(39), process.pid, "getpid")
            path, here = process.string(b"/etc/passwd"), -100
            for name, number, *args in (
                    ("open", 2, path), ("openat", 257, here, path), ("openat2", 437, here, path, path, 24), ("creat", 85, path, 0o600), ("stat", 4, path, path),
                    ("socket", 41, 1, 1), ("socketpair", 53, 1, 1, 0, path), ("connect", 42, 0, path, 16), ("bind", 49, 0, path, 16), ("listen", 50, 0, 1),
                    ("execve", 59, path), ("execveat", 322, here, path), ("fork", 57), ("vfork", 58), ("clone", 56, 17), ("clone3", 435, path, 64),
                    ("ptrace", 101, 16, 1), ("process_vm_readv", 310, 1), ("kill", 62, 1), ("unlink", 87, path), ("mkdir", 83, path), ("mount", 165, path, path),
                    ("memfd_create", 319, path), ("io_uring_setup", 425, 8, path), ("bpf", 321), ("userfaultfd", 323), ("setns", 308, 0), ("unshare", 272, 0x10000000),
                    ("mmap to be run", 9, 0, 4096, 5, 0x22, -1), ("mprotect to be run", 10, process.code & ~4095, 4096, 7)):
                refused[name] = process.call(number, *args)
        self.assertEqual({name: got for name, got in refused.items() if got is None or got >= 0}, {})
        self.assertIn("acme", self.get("/", visit))

    def test_the_next_server_has_the_same_address(self):
        """OP-901: it is free when the store goes on; who was signed in, signs in again."""
        c = self.serve()
        visit, old = self.visit(), c.daemon
        listeners = "".join(f'- {{transport: {t}, address: "{a}"}}\n' for t, a in c.ports.items() if t != "console")
        (c.dir / "toolcribd.yaml").write_text(f'listeners:\n{listeners}console: {{listen: "{c.ports["console"]}"}}\n')
        with open(c.log, "ab") as log:
            done = subprocess.run([crib.BUILD / "toolcribd", "--take-over", "--store", c.store, "-c", c.dir / "toolcribd.yaml"],
                                  env=c.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=crib.DEADLINE)
        self.assertEqual(done.returncode, 0, c.log.read_text())
        self.assertEqual(old.wait(crib.DEADLINE), 0)
        c.daemon = test_take_over.Taken(c.status()["pid"])
        self.addCleanup(os.close, c.daemon.fd)
        self.get("/", visit, 403)
        self.assertIn("acme", self.get("/", self.visit()))
        self.assertEqual(c.stop(), 0)

    def test_one_that_lies_gets_what_its_visits_may(self):
        """C-204, C-205: no token, no command; what a browser may not ask for, none may; what is no line, ends it."""
        out, script = self.crib.dir / "said.json", self.crib.dir / "enemy"
        lines = [{"command": "audit calls", "args": {"tenant": "acme"}, "from": "x"},
                 {"command": "audit calls", "args": {"tenant": "acme"}, "from": "x", "visit": "A" * 43},
                 {"command": "audit calls", "args": {"tenant": "acme"}, "from": "x", "visit": ""},
                 {"command": "console enter", "args": {"link": "A" * 43}, "from": "x"},
                 {"command": "console enter", "args": {}, "from": "x"},
                 {"command": "tenant add", "args": {"tenant": "mine"}, "from": "x"},
                 {"command": "console open", "args": {}, "from": "x"},
                 {"command": "audit payload", "args": {"call": "x"}, "from": "x"},
                 {"command": "nope" * 20, "args": {}, "from": "x"},
                 {"command": "console can", "args": {}, "from": "x", "files": []}]
        script.write_text(ENEMY.format(lines=[json.dumps(line) for line in lines], out=str(out)))
        script.chmod(0o755)
        c = self.crib.init()
        c.tenant("acme")
        c.start(LISTEN.format(extra=""), env={"TOOLCRIB_CONSOLE": str(script)})
        crib.wait_for("what it heard", out.exists)
        name, fds, said = json.loads(out.read_text())
        self.assertEqual((name, fds), (f"toolcrib.localhost:{c.address('console')[1]}\0", 1 + DOORS))
        self.assertEqual([json.loads(line)["error"]["code"] for line in said], ["denied"] * 4 + ["invalid"] + ["denied"] * 4)
        crib.wait_for("its end, for files are for others", lambda: c.status()["counters"]["console_broken"])
        self.assertEqual([row["name"] for row in c.json("tenant", "list")], ["acme"])
        self.assertIn("console ended", c.log.read_text())


if __name__ == "__main__":
    crib.main()
