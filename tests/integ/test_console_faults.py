"""The console where something is wrong or full: a proxy before it, old tabs, double clicks, the back button, visits that have ended, a disk
that is full, roles that are taken away, and bounds (CONSOLE 16, 17, C-308, C-408): a page that says what to do, and nothing is changed."""
import concurrent.futures
import contextlib
import html
import http.client
import json
import os
import re
import signal
import subprocess
import unittest
import urllib.parse

import crib
import test_console
import test_console_pages

URL = "https://crib.example.com/audit/crib"


class Proxied(test_console.Case):
    """Behind a proxy, which has the certificate."""

    def serve_behind(self, url=URL):
        c = self.crib.init()
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "echo")
        c.start(f'console: {{listen: "127.0.0.1:0", url: "{url}"}}\n')
        self.find()
        self.host = url.split("/")[2]
        return c

    def link(self, *words):
        url = self.crib.must([*words, "console", "open"]).strip()
        self.assertTrue(url.startswith(URL + "/enter?t="), url)
        return url.partition("=")[2]

    def test_each_address_stands_below_its_path(self):
        """C-408: links, forms and redirects, whether the proxy takes the path away or not; every page that a link names is there."""
        self.serve_behind()
        self.call(2)
        base = "/audit/crib"
        for path in ("/enter", base + "/enter"):
            status, headers, text = self.ask("POST", path, "t=" + self.link())
            self.assertEqual((status, headers["Location"]), (303, base + "/"), text)
            visit = re.search(test_console.COOKIE + r"(\w{43}); Path=/; Secure", headers["Set-Cookie"])[1]
        seen, wait = {}, [base + "/"]
        while wait and len(seen) < 40:
            path = wait.pop(0)
            status, headers, text = self.ask("GET", path, visit=visit)
            self.assertEqual(headers["Strict-Transport-Security"], "max-age=31536000")
            seen[path] = status
            for kind, there in re.findall(r'(href|src|action)="([^"]*)"', text):
                there = html.unescape(there)
                if there[0] not in "?#":
                    self.assertTrue(there.startswith(base + "/"), (path, there))
                    plain = there.partition("#")[0]
                    if kind == "href" and plain not in seen and plain not in wait and "/tail" not in plain and "export" not in plain:
                        wait.append(plain)
        self.assertEqual({path: status for path, status in seen.items() if status != 200}, {})
        self.assertGreater(len(seen), 20)
        stripped = self.ask("GET", "/t/acme/r/calls", visit=visit)
        self.assertEqual(self.get("/tools", visit), self.get(base + "/tools", visit))
        call = re.search(r'href="(/audit/crib/t/acme/call/[0-9a-f-]+)"', stripped[2])[1]
        self.assertIn("#/t/acme/call/", self.get(call, visit))
        for path in ("/audit/cribx/", "/audit/", base, base + base + "/"):
            self.assertEqual(self.ask("GET", path, visit=visit)[0], 404, path)
        link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
        for path in ("/t/acme/r/calls?n=2", base + "/t/acme/r/calls?n=2"):
            self.assertIn(f'content="0; url={base}/t/acme/r/calls?n=2&amp;again=1"', self.ask("GET", path, **link)[2])
        csrf = self.csrf(self.get("/", visit).replace(base, ""), "/sign-out")
        status, headers, _ = self.ask("POST", base + "/sign-out", "c=" + csrf, visit)
        self.assertEqual((status, headers["Location"]), (303, base + "/"))

    def test_it_believes_its_proxy_and_nobody_else(self):
        """C-308: host and origin are the proxy's; the last of X-Forwarded-For is who asks, when there is one such header."""
        c = self.serve_behind()
        for host, status in (("toolcrib.localhost", 421), ("evil.example", 421), ("CRIB.example.com", 200), ("crib.example.com:443", 200)):
            self.assertEqual(self.ask("GET", "/enter", Host=host)[0], status, host)
        status, headers, _ = self.ask("GET", "/", Host="127.0.0.1")
        self.assertEqual((status, headers["Location"]), (307, URL + "/"))
        token = self.link()
        for origin, status in (("http://crib.example.com", 403), (URL, 403), ("https://crib.example.com.evil", 403), ("null", 403), (None, 403),
                               ("https://crib.example.com", 303)):
            self.assertEqual(self.ask("POST", "/enter", "t=" + token, Sec_Fetch_Site=None, Origin=origin)[0], status, origin)
        c.cli("console", "end", "--all")
        said = {}
        for forwarded in ("192.0.2.7", "203.0.113.9, 192.0.2.8", " 2001:db8::1", "192.0.2.9, nonsense", "192.0.2.9,", ["192.0.2.7", "192.0.2.8"], None):
            status, _, text = self.ask("POST", "/enter", "t=" + self.link(), X_Forwarded_For=forwarded)
            self.assertEqual(status, 303, text)
            said[str(forwarded)] = c.json("console", "visits")[0]["from"]
            c.cli("console", "end", "--all")
        self.assertEqual(list(said.values()), ["192.0.2.7", "192.0.2.8", "2001:db8::1"] + ["127.0.0.1"] * 4)

    def test_without_a_proxy_nobody_says_who_asks(self):
        c = self.serve()
        self.host = f"toolcrib.localhost:{self.port}"
        token = test_console.Case.link(self)
        self.assertEqual(self.ask("POST", "/enter", "t=" + token, X_Forwarded_For="192.0.2.7")[0], 303)
        self.assertEqual([row["from"] for row in c.json("console", "visits")], ["127.0.0.1"])
        self.assertIsNone(self.ask("GET", "/enter")[1]["Strict-Transport-Security"])

    def test_an_address_that_is_none(self):
        c = self.crib.init()
        config = c.dir / "wrong.yaml"

        def check(line):
            config.write_text(f"console: {{{line}}}\n")
            return subprocess.run([crib.BUILD / "toolcribd", "--store", c.store, "-c", config, "--check"], capture_output=True, text=True, env=c.env)
        listen = 'listen: "127.0.0.1:8811"'
        for url in ("http://crib.example.com", "https://", "https:///a", "crib.example.com", "https://crib.example.com/", "https://crib.example.com/a/",
                    "https://crib.example.com//a", "https://crib.example.com/a?b", "https://crib.example.com/a#b", "https://crib.example.com/a b",
                    "https://Crib.example.com", "https://u@crib.example.com", "https://crib.example.com:", "https://crib.example.com:123456",
                    "https://crib.example.com/..", "https://crib.example.com/%2e", "https://x/" + "a" * 191):
            done = check(f'{listen}, url: "{url}"')
            self.assertNotEqual(done.returncode, 0, url)
            self.assertIn("console.url must be https://", done.stderr)
        self.assertIn("it is for console.listen", check('url: "https://crib.example.com"').stderr)
        for url in ("https://x", "https://crib.example.com:8443/a/b-c_D", "https://x/" + "a" * 190):
            done = check(f'{listen}, url: "{url}"')
            self.assertEqual(done.returncode, 0, done.stderr)


@unittest.skipUnless(os.geteuid() == 0, "needs other users to be")
class Tabs(test_console.Case):
    send = test_console_pages.Pages.send

    def setUp(self):
        super().setUp()
        self.socket = self.crib.dir / "public.sock"
        self.roles = test_console_pages.ROLES.format(socket=self.socket)
        self.serve(self.roles)
        self.crib.let_others_in()

    def asked(self):
        """A request that waits, its page, and whoever decides about it."""
        self.crib.run("level", "set", "metadata", "--tenant", "acme")
        second = self.visit_of(40007)
        return self.get("/approvals", second), second

    def body(self, page, action, **fields):
        form = re.search(rf'<form method="post"[^>]* action="{action}">(.*?)</form>', page, re.S)[1]
        said = {name: html.unescape(value) for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form)}
        return urllib.parse.urlencode({**said, **fields})

    def asked_by_browsers(self):
        return len([line for line in self.details() if "(console)" in line])

    def state(self):
        return [(row["id"], row["state"], row["granted_by"]) for row in self.crib.json("approval", "list")]

    def test_a_double_click_does_it_once(self):
        """Two at once: one is done, the other is told that it was, and by whom."""
        page, second = self.asked()
        body = self.body(page, "/approval/grant", reason="ticket 7")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            got = list(pool.map(lambda _: self.ask("POST", "/approval/grant", body, second), range(2)))
        self.assertEqual(sorted(status for status, _, _ in got), [200, 409], got)
        self.assertIn("granted", next(text for status, _, text in got if status == 409))
        self.assertEqual(self.state()[0][2], "uid 40007 (console)")

    def test_back_and_again(self):
        """What was denied is not there any more; the page says so, and nothing is granted by the form of the page before."""
        page, second = self.asked()
        self.send(page, "/approval/deny", second, reason="no")
        before = self.state()
        for action in ("/approval/deny", "/approval/grant"):
            status, _, text = self.ask("POST", action, self.body(page, action, reason="again"), second)
            self.assertIn(status, (404, 409), text)
            self.assertIn("<h1>", text)
        self.assertEqual(self.state(), before)

    def test_an_old_tab(self):
        """Its form is of the visit that ended: refused with what to do, and nothing is done; the form of the new visit does it."""
        page, second = self.asked()
        self.ask("POST", "/sign-out", self.body(page, "/sign-out"), second)
        again = self.visit_of(40007)
        for visit in (again, self.visit()):
            status, _, text = self.ask("POST", "/approval/grant", self.body(page, "/approval/grant", reason="x"), visit)
            self.assertEqual(status, 403)
            self.assertIn("load the page again", text)
        self.assertIsNone(self.state()[0][2])
        self.send(self.get("/approvals", again), "/approval/grant", again, reason="x")
        self.assertEqual(self.state()[0][2], "uid 40007 (console)")

    def test_a_visit_that_has_ended(self):
        """Pages, forms, files and packs: how to sign in is said, and nothing is done."""
        page, second = self.asked()
        self.crib.cli("console", "end", "--all")
        for method, path, body in (("GET", "/approvals", None), ("GET", "/t/acme/r/calls", None), ("GET", "/t/acme/review/pack", None),
                                   ("GET", "/t/acme/export?as=csv", None), ("GET", "/t/acme/bundle", None), ("GET", "/t/acme/tail", None),
                                   ("POST", "/approval/grant", self.body(page, "/approval/grant", reason="x"))):
            with self.subTest(path=path):
                status, headers, text = self.ask(method, path, body, second)
                self.assertEqual(status, 403, text)
                self.assertTrue(headers["Content-Type"].startswith("text/html"))
                self.assertIn("toolcrib console open", text)
        self.assertIsNone(self.state()[0][2])

    def test_a_role_that_is_taken_away_ends_what_runs(self):
        """C-302: the next click is refused with what the role may, and a page that goes on ends with it."""
        of_acme = self.visit_of(40003)
        k = http.client.HTTPConnection("127.0.0.1", self.port, timeout=crib.DEADLINE)
        self.addCleanup(k.close)
        k.request("GET", "/t/acme/tail", headers={"Host": self.host, "Cookie": test_console.COOKIE + of_acme})
        answer = k.getresponse()
        self.assertEqual(answer.status, 200)
        self.crib.config(test_console.LISTEN.format(extra=self.roles.replace("uid: 40003, tenant: acme", "uid: 40009, tenant: acme")))
        self.crib.cli("reload")
        self.call(1)
        rest = answer.read().decode()
        self.assertTrue(rest.rstrip().endswith("</html>"), rest[-300:])
        self.get("/t/acme/r/calls", of_acme, 404)

    def test_a_link_that_stays_so(self):
        """CONSOLE 8: a relative time stays relative in the address; a link has the times of this look."""
        self.call(2)
        visit = self.visit()
        page = self.get("/t/acme/r/calls?since=1h&tool=echo", visit)
        link = html.unescape(re.search(r'href="(\?[^"]*)">These times', page)[1])
        said = urllib.parse.parse_qs(link[1:])
        self.assertEqual(said["tool"], ["echo"])
        self.assertRegex(said["since"][0] + said["until"][0], r"^(\d{4}-\d\d-\d\dT[\d:.]+Z){2}$")
        fixed = self.get("/t/acme/r/calls" + link, visit)
        self.assertEqual(fixed.count("/t/acme/call/"), page.count("/t/acme/call/"))
        self.assertNotIn("These times", fixed)
        self.assertNotIn("These times", self.get("/t/acme/r/calls", visit))

    def test_what_is_no_request_says_which_part(self):
        """400 names the parameter; nothing was asked for it."""
        visit = self.visit()
        call = "/t/acme/call/01234567-89ab-7cde-8f01-23456789abcd"
        before = self.asked_by_browsers()
        for path in ("/t/acme/r/calls?tool=%00", "/t/acme/r/calls?tool=%c3%28", "/t/acme/r/calls?tool=a&tool=a", "/t/acme/r/calls?%74ool=a&tool=b",
                     "/tool", "/tool?name=", "/t/acme/files?since=1d", "/t/acme/bundle?as=tar", "/review/pack?tool=x", call + "?x=1"):
            with self.subTest(path=path):
                status, _, text = self.ask("GET", path, visit=visit)
                self.assertEqual(status, 400, text)
                self.assertRegex(text, r"(tool|name|since|as|x): ")
        for path in ("/t/%2e%2e/r/calls", "/t/acme/%2e%2e/%2e%2e/server", "/t/acme/../../server", "/t//r/calls", "/t/acme/r/calls/"):
            self.assertIn(self.ask("GET", path, visit=visit)[0], (400, 404), path)
        self.assertEqual(self.asked_by_browsers(), before)


class NoRoom(crib.SmallDisk, test_console.Case):
    def test_what_cannot_be_recorded_is_not_shown(self):
        """Nobody signs in and nothing is shown while the log takes no record; the page says why; afterwards it goes on with the same visit."""
        c = self.crib.init()
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "echo")
        c.start(test_console.LISTEN.format(extra="audit: {space_floor: 8}\n"))
        self.find()
        visit, token = self.visit(), self.link()
        self.get("/t/acme/r/calls", visit)
        ballast = c.dir / "ballast-of-the-test"
        with open(ballast, "wb", buffering=0) as f, contextlib.suppress(OSError):
            while True:
                f.write(b"\0" * 4096)
        status, headers, text = crib.wait_for("a refusal", lambda: (lambda got: got if got[0] == 503 else None)(self.ask("GET", "/t/acme/r/calls", visit=visit)))
        self.assertEqual(headers["Retry-After"], "1")
        self.assertIn("nothing is shown", text)
        self.assertNotIn("<table", text)
        status, headers, text = self.ask("POST", "/enter", "t=" + token)
        self.assertEqual(status, 303 if headers["Set-Cookie"] else 503, text)
        ballast.unlink()
        crib.wait_for("service to resume", lambda: self.ask("GET", "/t/acme/r/calls", visit=visit)[0] == 200)
        let_in = [line for line in self.details() if line.endswith("(console): console enter")]
        self.assertEqual(len(let_in), 1 + bool(headers["Set-Cookie"]), "the small reserve may have had room for one more record")


class Hangs(test_console.Case):
    def test_one_that_hangs_is_ended(self):
        """C-203: a console that does not turn any more is ended, another one comes, and who is signed in stays."""
        c = self.serve()
        visit, pid = self.visit(), self.process()
        os.kill(pid, signal.SIGSTOP)
        crib.wait_for("its end", lambda: not crib.runs(pid), 40)
        crib.wait_for("another one", lambda: [child for child, name in crib.below(c.daemon.pid).items() if name == "toolcrib-consol"])
        self.assertIn("acme", self.get("/", visit))
        self.assertIn("it does not answer any more", c.log.read_text())


class Bounds(test_console.Server):
    def test_it_says_that_it_turns(self):
        """The byte of the server comes back, and nothing else."""
        for byte in (b"\0", b"x"):
            self.server.sendall(byte)
            self.server.settimeout(crib.DEADLINE)
            self.assertEqual(self.server.recv(2), byte)

    def ask_later(self, path, visit):
        k = http.client.HTTPConnection("127.0.0.1", self.port, timeout=crib.DEADLINE)
        self.addCleanup(k.close)
        k.request("GET", path, headers={"Host": self.host, "Cookie": test_console.COOKIE + visit})
        return k

    def counted(self):
        """What the server is told of bounds that were reached."""
        self.answers["audit denied"] = self.report()
        self.get("/t/acme/r/denied", "Z" * 43)
        return sum(line.get("limited", 0) for line in self.heard)

    def test_questions_that_wait_are_so_many(self):
        """CON_WAITING: 64 behind those that 12 doors take; one more is told to come again, and counted."""
        for n in range(38):             # two commands each
            self.ask_later("/t/acme/keys", chr(65 + n // 2) * 43)
        crib.wait_for("the doors", lambda: len(self.kept) == test_console.DOORS)
        self.ask("GET", "/enter?t=x")   # the others have been read by then
        status, headers, text = self.ask("GET", "/t/acme/keys", visit="9" * 43)
        self.assertEqual((status, headers["Retry-After"]), (503, "1"), text)
        self.assertIn("come again", text)

    def test_pages_that_go_on_are_so_many(self):
        """CON_TAILS: four in all."""
        for n, visit in enumerate("ABCD"):
            self.ask_later("/t/acme/tail", visit * 43)
            crib.wait_for("the question", lambda: len(self.kept) == n + 1)
        self.assertIn("Others", self.get("/t/acme/tail", "E" * 43, 503))
        self.assertEqual(self.counted(), 1)

    def test_a_value_is_so_long(self):
        """CON_VALUE_MAX, and one more character."""
        self.answers["audit denied"] = self.report({"time": "é" * 200, "tool": "x" * 201, "call": ""})
        page = self.get("/t/acme/r/denied", "A" * 43)
        self.assertIn("<bdi>" + "é" * 200 + "</bdi>", page)
        self.assertIn("x" * 200 + "… and 1 bytes more", page)

    def test_a_matrix_and_a_chart_are_so_large(self):
        """CON_MATRIX_ROWS and _COLUMNS, CON_BARS_MAX: at them all is shown, one beyond it is said that not all is."""
        self.answers["grant list"] = self.report()
        for people, tools in ((50, 40), (51, 40), (50, 41)):
            rows = [{"row": {"principal": f"acme/p{n}", "state": "active", "keys": 1, "tools": [f"t{k}" for k in range(tools)]}} for n in range(people)]
            self.answers["grant who"] = [*rows, {"done": True}]
            page = self.get("/t/acme/access", "A" * 43)
            self.assertEqual("not all are shown" in page, (people, tools) != (50, 40))
            self.assertEqual(page.count('<td class="may">'), 50 * 40)
        self.answers["audit calls"] = self.report()
        for bars in (240, 241):
            rows = [{"row": {"time": f"2026-07-28T{n // 60:02}:{n % 60:02}:00.000000Z", "ok": 1}} for n in range(bars)]
            self.answers["audit stats"] = [{"header": {"since": "a", "until": "b"}, "columns": ["time", "ok"]}, *rows, {"done": True}]
            page = self.get("/t/acme/r/calls", "A" * 43)
            self.assertEqual(page.count("<rect "), 240 if bars == 240 else 0)
            self.assertIn(f"{bars} calls", page)


if __name__ == "__main__":
    crib.main()
