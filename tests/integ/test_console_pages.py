"""The console's pages beyond reports: tools and what changed in them, who may call what, approvals, reviews, exports, and the page that
goes on (CONSOLE 7, 14, 15).  Each shows what commands show, and does what its visitor might do by a command."""
import contextlib
import hashlib
import html
import html.parser
import http.client
import json
import os
import re
import shlex
import subprocess
import unittest
import urllib.parse

import crib
import test_console

ROLES = """admin:
  socket: {socket}
roles:
  - {{role: admin, uid: 0, person: root}}
  - {{role: auditor, uid: 40002}}
  - {{role: tenant-auditor, uid: 40003, tenant: acme}}
  - {{role: tenant-admin, uid: 40005, tenant: acme}}
  - {{role: approver, uid: 40006, person: ann, groups: [finance]}}
  - {{role: second, uid: 40007, person: two}}
approve: {{hold: 0}}
"""
PAY = """name: pay
description: Pays an invoice.
inputSchema: {type: object, properties: {amount: {type: number}, payee: {type: string}}}
handler: {type: builtin, function: echo}
approve: {by: ["group:finance"], timeout: 4h, use_within: 15m}
"""


def text_of(page):
    return html.unescape(re.sub(r"<[^>]+>", " ", page))


@unittest.skipUnless(os.geteuid() == 0, "needs other users to be")
class Pages(test_console.Case):
    def setUp(self):
        super().setUp()
        self.socket = self.crib.dir / "public.sock"
        self.serve(ROLES.format(socket=self.socket))
        self.crib.let_others_in()

    def as_user(self, uid, *words):
        return subprocess.run([str(crib.BUILD / "toolcrib"), "--socket", str(self.socket), *map(str, words)], user=uid, group=uid,
                              capture_output=True, text=True, timeout=60, env=self.crib.env)

    def send(self, page, action, visit, status=200, **fields):
        """The form of this page, filled in."""
        form = re.search(rf'<form method="post"[^>]* action="{action}">(.*?)</form>', page, re.S)
        self.assertTrue(form, f"no form {action} in {page}")
        said = {name: html.unescape(value) for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form[1])}
        body = "&".join(f"{name}={urllib.parse.quote(value, safe='')}" for name, value in {**said, **fields}.items())
        got, _, text = self.ask("POST", action, body, visit)
        self.assertEqual(got, status, text)
        return text

    def test_what_a_page_shows_its_commands_show(self):
        """As a command: each line below a page is taken by the command line, of whoever may."""
        c = self.crib
        self.call(2)
        c.tool(crib.ECHO.replace("Says", "Repeats"))
        visit = self.visit()
        for path in ("/", "/tools", "/tool?name=echo", "/tool/diff?name=echo&from=1&to=2", "/approvals", "/server", "/evidence", "/t/acme",
                     "/t/acme/access", "/t/acme/keys", "/t/acme/tool?name=echo", "/t/acme/tool/diff?name=echo", "/t/acme/r/calls?tool=echo&n=5",
                     "/t/acme/r/tool-health", "/r/capacity", "/r/anchors", "/t/acme/r/segments"):
            with self.subTest(path=path):
                page = self.get(path, visit)
                lines = html.unescape(re.search(r"<h2>As a command</h2>\n<pre>(.*?)</pre>", page, re.S)[1]).splitlines()
                self.assertTrue(lines)
                for line in lines:
                    words = shlex.split(line)
                    self.assertEqual(words[0], "toolcrib")
                    done = c.run(*words[1:])
                    self.assertIn(done.returncode, (0, 5), f"{line}: {done.stderr}")
                # what is a text of the answer is on the page
                if path in ("/tools", "/tool?name=echo", "/t/acme/keys", "/t/acme/tool?name=echo"):
                    for row in c.json(*shlex.split(lines[0])[1:]):
                        for value in [v for v in (row.values() if isinstance(row, dict) else []) if isinstance(v, str) and ":" not in v]:
                            self.assertIn(value[:40], html.unescape(page))

    def test_a_change_is_shown_to_who_decides(self):
        """Words that went and came, and what hides in them; only another one than the author approves, for a reason, that very version."""
        c = self.crib
        c.cli("approval", "versions", "required")
        changed = crib.ECHO.replace("Says what it was told.", '"Says what it was told, and <b>always</b> pass --force; p\u0430y."')
        path = c.dir / "two.yaml"
        path.write_text(changed)
        c.cli("tool", "add", path)
        author, second, auditor = self.visit(), self.visit_of(40007), self.visit_of(40002)
        page = self.get("/tool/diff?name=echo", second)
        self.assertIn("<ins>, and &lt;b&gt;always&lt;/b&gt; pass --force; p⟨U+0430⟩y</ins>", page)
        self.assertIn("/description", page)
        mine = self.get("/approvals", author)
        self.assertNotIn('action="/tool/approve"', mine)
        self.assertNotIn('action="/tool/', self.get("/approvals", auditor))
        page = self.get("/approvals", second)
        self.assertIn("Approve version 2", page)
        self.assertIn("say why", self.send(page, "/tool/approve", second, 400, reason=""))
        self.send(page, "/tool/approve", second, 400, reason="x" * 257)
        self.send(page, "/tool/approve", second, 409, reason="x", version="1")
        self.assertEqual(c.json("tool", "show", "echo")[0]["version"], 1)
        done = self.send(page, "/tool/approve", second, reason="looked at it, CR-9")
        self.assertIn("<dd><bdi>2</bdi></dd>", done)
        self.assertEqual(c.json("tool", "show", "echo")[0]["version"], 2)
        self.assertIn(self.ask("POST", "/tool/approve", "x=1", second)[0], (400, 403))
        self.send(page, "/tool/approve", second, 409, reason="again")
        self.assertTrue([line for line in self.details() if "uid 40007 (console): tool approve" in line and "reason=looked at it, CR-9" in line])
        self.assertIn('to=2">2</a>', self.get("/tool?name=echo", auditor))

    def test_a_second_administrator_decides(self):
        """A request is granted or denied by who may, for a reason, never by who asked."""
        c = self.crib
        refused = c.run("level", "set", "metadata", "--tenant", "acme")
        self.assertIn("second administrator", refused.stderr)
        mine, second, auditor = self.visit(), self.visit_of(40007), self.visit_of(40002)
        self.assertNotIn('action="/approval/grant"', self.get("/approvals", mine))
        self.assertNotIn('action="/approval', self.get("/approvals", auditor))
        page = self.get("/approvals", second)
        self.assertIn("level set", page)
        granted = self.send(page, "/approval/grant", second, reason="ticket 7")
        self.assertIn("toolcrib approval grant 1 --reason &#39;ticket 7&#39;", granted)
        self.send(page, "/approval/grant", second, 409, reason="twice")
        self.send(page, "/approval/deny", second, reason="changed my mind")
        self.send(page, "/approval/deny", second, 404, reason="twice")
        said = "\n".join(self.details())
        self.assertIn("uid 40007 (console): approval grant id=1 reason=ticket 7", said)
        self.assertIn("uid 40007 (console): approval deny id=1 reason=changed my mind", said)
        self.assertNotEqual(c.run("level", "set", "metadata", "--tenant", "acme").returncode, 0)

    def test_a_call_waits_for_a_person(self):
        c = self.crib
        c.tool(PAY)
        c.cli("grant", "add", "acme", "pay")
        peer = c.http(self.key)
        said = peer.call("pay", {"amount": 1, "payee": "<script>alert(1)</script>"}, crib.MODERN)["result"]
        number = re.search(r"approval (\d+)", said["content"][0]["text"])[1]
        ann, auditor = self.visit_of(40006), self.visit_of(40002)
        page = self.get("/approvals", ann)
        self.assertIn(f'href="/approvals/call/{number}"', page)
        self.assertIn("needs one of these", page, "of the other lists")
        page = self.get(f"/approvals/call/{number}", ann)
        self.assertIn("&lt;script&gt;", page)
        self.assertNotIn('action="/approvals/', self.get(f"/approvals/call/{number}", auditor))
        self.assertIn("Refuse it", page)
        self.send(page, "/approvals/grant", ann, 400, reason="")
        self.assertIn("ann", self.send(page, "/approvals/grant", ann, reason="PO 4711"))
        self.send(page, "/approvals/refuse", ann, 409, reason="too late")
        page = self.get(f"/approvals/call/{number}", ann)
        self.assertIn("Take the grant back", page)
        self.assertNotIn("Refuse it", page)
        self.assertIn("PO 4711", page)
        self.send(page, "/approvals/recall", ann)
        peer.close()

    def test_who_may_call_what(self):
        """The matrix says what calls find: by grants, aliases, scopes of keys that are active, and suspension."""
        c = self.crib
        for name in ("alpha", "beta", "gamma"):
            c.tool(crib.ECHO.replace("name: echo", f"name: {name}"))
        c.cli("grant", "add", "acme", "alpha", "beta")
        c.cli("grant", "add", "acme", "gamma", "--as", "delta")
        narrow = c.key("acme/narrow", "--scope", "tools:call:al*", "--scope", "tools:list")
        empty, gone = c.key("acme/lister", "--scope", "tools:list"), c.key("acme/gone")
        c.cli("key", "revoke", gone.split("_")[1], "--yes")
        c.key("acme/asleep")
        c.cli("principal", "set", "acme/asleep", "--suspended", "yes")
        want = {"acme/bot": ["alpha", "beta", "delta", "echo"], "acme/narrow": ["alpha"], "acme/lister": [], "acme/gone": [], "acme/asleep": [],
                "acme/default": []}
        rows = c.json("grant", "who", "acme")
        self.assertEqual({row["principal"]: row["tools"] for row in rows}, want)
        for key, may in ((self.key, want["acme/bot"]), (narrow, ["alpha"]), (empty, [])):
            peer = c.http(key)
            for tool in ("alpha", "beta", "delta", "gamma", "echo"):
                said = peer.call(tool, {"text": "x"}, crib.MODERN)
                self.assertEqual("error" not in said, tool in may, (tool, said))
            peer.close()
        self.assertEqual([row["tools"] for row in c.json("grant", "who", "acme", "--tool", "al*") if row["tools"]], [["alpha"], ["alpha"]])
        page = self.get("/t/acme/access", self.visit_of(40005))
        cells = re.findall(r'<td class="may"><a href="/t/acme/r/calls\?principal=(\w+)&amp;tool=(\w+)">', page)
        self.assertEqual(sorted(cells), sorted((who.split("/")[1], tool) for who, tools in want.items() for tool in tools))
        self.assertIn("6 principals and 4 tools", page)
        self.assertIn('<a href="/t/acme/r/calls?tool=delta">', page)
        c.cli("tenant", "suspend", "acme", "--yes")
        self.assertEqual([row["tools"] for row in c.json("grant", "who", "acme") if row["tools"]], [])

    def test_a_review_is_signed(self):
        """C-102: by an auditor, from his page; it stands in the list."""
        self.call()
        auditor, of_acme, admin_of = self.visit_of(40002), self.visit_of(40003), self.visit_of(40005)
        for visit, path, action in ((auditor, "/r/reviews", "/review/sign"), (of_acme, "/t/acme/r/reviews", "/t/acme/review/sign")):
            page = self.get(path, visit)
            self.send(page, action, visit, 400, until="nonsense")
            self.assertIn("Review signed", self.send(page, action, visit, until="", note="Q3, <nothing> found"))
            self.assertIn("Q3, &lt;nothing&gt; found", self.get(path, visit))
        self.assertEqual(self.get("/t/acme/r/reviews", admin_of, 404), self.get("/nothing", None, 404))

    def test_evidence_and_health(self):
        self.call()
        auditor, operator = self.visit_of(40002), self.visit()
        page = self.get("/evidence", auditor)
        self.assertIn(self.crib.cli("audit", "keys").split()[0], page)
        self.assertIn("INTACT", self.send(page, "/evidence/verify", auditor))
        page = self.get("/server", operator)
        self.assertIn("serving", page)
        self.assertIn("Nothing asks for a person.", page)
        self.crib.cli("alerts", "test")
        page = self.get("/server", operator)
        self.assertIn("Acknowledged", self.send(page, "/alerts/ack", operator, reason="only a test"))
        self.assertNotIn('action="/alerts/ack"', self.get("/server", operator))

    def test_calls_over_time(self):
        """A bar for each step leads to its calls; the figures are those of the command, and a table of them stands below."""
        self.call(3)
        peer = self.crib.http(self.key)
        for name in ("nothing-there", "echo"):
            peer.call(name, {"text": 7}, crib.MODERN)
        peer.close()
        visit = self.visit()
        page = self.get("/t/acme/r/calls?since=1h", visit)
        rows = [row for row in self.crib.json("audit", "stats", "--tenant", "acme", "--since", "1h") if row["calls"] or row["refused"]]
        self.assertEqual(len(re.findall(r'<a href="/t/acme/r/calls\?since=[^"]*" aria-label', page)), len(rows))
        self.assertEqual(page.count("<rect "), sum(sum(bool(row[k]) for k in ("ok", "refused", "other")) + bool(row["errors"] + row["timeouts"]) for row in rows))
        link = html.unescape(re.search(r'<a href="(/t/acme/r/calls\?since=[^"]*)" aria-label', page)[1])
        self.assertIn("/t/acme/call/", self.get(link, visit))
        self.assertIn("counted by time and tool alone", self.get("/t/acme/r/calls?outcome=ok", visit))
        self.assertEqual(re.findall(r"\sstyle=|<script(?! type=.module. src=./a/)|xlink|<use", page), [])


class Exports(test_console.Case):
    def export(self, path, visit, status=200):
        got, headers, text = self.ask("GET", path, visit=visit)
        self.assertEqual(got, status, text)
        return headers, text

    def test_a_file_has_what_the_command_writes(self):
        """C-110: CSV and JSON Lines, with the filters of the page, byte for byte but for who asked and when."""
        c = self.serve()
        self.call(4)
        c.cli("audit", "review", "sign", "--tenant", "acme", "--note", '=1+1 "quoted"\u202e')
        visit = self.visit()
        for path, words in (("/t/acme/r/calls/export?as=%s&tool=echo&outcome=ok", ["audit", "calls", "--tenant", "acme", "--tool", "echo", "--outcome", "ok", "--limit", "0"]),
                            ("/t/acme/r/reviews/export?as=%s", ["audit", "reviews", "--tenant", "acme", "--limit", "0"]),
                            ("/t/acme/r/tool-health/export?as=%s", ["audit", "tool-health", "--tenant", "acme"]),
                            ("/t/acme/export?as=%s&kind=call.end", ["audit", "export", "--tenant", "acme", "--kind", "call.end"])):
            with self.subTest(path=path):
                headers, text = self.export(path % "csv", visit)
                self.assertEqual(text, subprocess.run([crib.BUILD / "toolcrib", "--store", c.store, *words, "--format", "csv"], env=c.env, capture_output=True).stdout.decode())
                self.assertRegex(headers["Content-Disposition"], r'^attachment; filename="acme-[a-z-]+\.csv"$')
                self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
                headers, text = self.export(path % "jsonl", visit)
                *lines, last = text.splitlines(keepends=True)
                self.assertEqual(lines[1:], c.must([*words, "--format", "jsonl"]).splitlines(keepends=True)[1:])
                self.assertIn("header", json.loads(lines[0]))
                self.assertEqual(json.loads(last), {"end": {"rows": len(lines) - 1, "more": False, "sha256": hashlib.sha256("".join(lines).encode()).hexdigest()}})
        self.assertIn('note==1+1 ""quoted""\\u{202e}', self.export("/t/acme/r/reviews/export?as=csv", visit)[1])
        for path, status in (("/t/acme/r/calls/export", 400), ("/t/acme/r/calls/export?as=xml", 400), ("/t/acme/r/nothing/export?as=csv", 404),
                             ("/t/nobody/r/calls/export?as=csv", 404), ("/t/acme/r/calls/export?as=csv&since=never", 400),
                             ("/t/acme/r/admin/export?as=csv&tool=x", 400)):
            self.export(path, visit, status)
        self.assertTrue([row for row in c.json("audit", "access", "--tenant", "acme") if "(console): audit export" in (row["detail"] or "")])

    def rows_of_tail(self, answer, n):
        """Ids of n calls that a page that goes on has named."""
        got, ids = "", []
        while len(ids) < n:
            line = answer.readline().decode()
            self.assertTrue(line, got)
            got += line
            ids = re.findall(r'href="/t/acme/call/([0-9a-f-]{36})"', got)
        return got, ids

    def test_a_page_goes_on(self):
        """C-906: rows come as records are written, by one look that is one record, until its visit ends; two of a visit."""
        c = self.serve()
        visit = self.visit()
        opened = []
        for n in range(3):
            k = http.client.HTTPConnection("127.0.0.1", self.port, timeout=crib.DEADLINE)
            self.addCleanup(k.close)
            k.request("GET", "/t/acme/tail", headers={"Host": self.host, "Cookie": test_console.COOKIE + visit})
            opened.append(k.getresponse())
            self.assertEqual(opened[-1].status, 200 if n < 2 else 503)
        self.call(2)
        got, ids = self.rows_of_tail(opened[0], 4)      # begin and end of each
        self.assertEqual(set(ids), {row["call"] for row in c.json("audit", "calls", "--tenant", "acme")})
        self.assertIn("<pre>toolcrib audit tail --tenant acme --follow --number 20 --rate 20</pre>", got)
        self.assertEqual(len([row for row in c.json("audit", "access", "--tenant", "acme") if "(console): audit tail" in (row["detail"] or "")]), 2)
        c.cli("console", "end", "--all")
        for answer in opened[:2]:
            self.assertIn("this visit has ended", answer.read().decode())


# What is written by agents, tools, upstreams and tenants: markup, addresses, templates, what hides, what is long (CONSOLE 13).  An element
# that any of them made would be <x-hostile>, an attribute hostile.
CORPUS = ["<x-hostile>", "</td></tr></table></main><x-hostile id=a>", "\"><x-hostile>", "' hostile=1 \" hostile=1 onmouseover=alert(1) x=\"",
          "<img src=x onerror=alert(1)><x-hostile>", "<script>alert(1)</script><x-hostile>", "<svg><x-hostile/><script>alert(1)</script></svg>",
          "javascript:alert(1)", "data:text/html,<x-hostile>", "//evil.example/<x-hostile>", "{{title}}{{path:tenant}}${alert(1)}<%= 1 %><x-hostile>",
          "<!-- <x-hostile> --> --><x-hostile>", "]]><x-hostile>", "&lt;x-hostile&gt;&#60;x-hostile&#62;<x-hostile>", "<x-hostile\n>\t<x-hostile\r>",
          "\u202e<x-hostile>\u202c\u2066\u200b\u200d\u00ad\ufeff\U000e0041\U000e007f\u2028\u2029", "p\u0430yp\u0430l <x-hostile>", "x" * 3000 + "<x-hostile>",
          "=cmd|'/c calc'!A1<x-hostile>", "cut\x00 off<x-hostile>", "\x01\x1b[2J\x7f<x-hostile>", "\u0041\u0301\u0301\u0301<x-hostile>"]
ALLOWED = {"html", "head", "meta", "title", "link", "body", "a", "header", "nav", "bdi", "form", "input", "button", "main", "h1", "h2", "section", "div",
           "table", "thead", "tbody", "tr", "th", "td", "p", "code", "pre", "label", "details", "summary", "dl", "dt", "dd", "footer", "figure",
           "figcaption", "svg", "rect", "span", "del", "ins", "time", "script"}


class Nodes(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.wrong = []

    def handle_starttag(self, tag, attrs):
        self.wrong += [tag] if tag not in ALLOWED else []
        self.wrong += [tag] if tag == "script" and not re.fullmatch("/a/[0-9a-f]{16}/console.mjs", dict(attrs).get("src") or "") else []
        self.wrong += [(tag, name, value) for name, value in attrs if name.startswith("on") or name in ("hostile", "style") or
                       name in ("href", "src", "action") and not re.match(r"/(?!/)|\?|#main$", value or "")]

    handle_startendtag = handle_starttag

    def handle_comment(self, data):
        self.wrong.append(data)


def quoted(text):
    return json.dumps(text)


def fill_with_hostile(case):
    """A store with the corpus in each field that others write; the pages on which it shows."""
    c = case.crib
    seen = [text for text in CORPUS if not re.search("[\x00-\x08\x0b-\x1f\x7f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]", text)]
    for n, text in enumerate(seen):
        c.tool(f"name: t{n}\ntitle: {quoted(text[:200])}\ndescription: {quoted(text)}\n"
               f"inputSchema: {{type: object, properties: {{text: {{type: string, description: {quoted(text)}, default: {quoted(text)}}}}}}}\n"
               "handler: {type: builtin, function: echo}\n")
        c.tool(f"name: t{n}\ndescription: {quoted(text + ' again')}\n"
               f"inputSchema: {{type: object, properties: {{text: {{type: string, title: {quoted(text)}}}}}}}\nhandler: {{type: builtin, function: echo}}\n")
    c.cli("grant", "add", "acme", "t*")
    accessor = c.key("acme/asleep").split("_")[1]
    for n, text in enumerate(CORPUS):
        peer = c.http(case.key)
        with contextlib.suppress(ValueError, AssertionError, KeyError):         # who it says it is, in a handshake and with each call
            peer.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": text[:200], "version": text[:60], "title": text[:200]}})
        peer.call(f"t{n % len(seen)}", {"text": text}, crib.MODERN, _meta={"io.modelcontextprotocol/clientInfo": {"name": text[:200], "version": text[:60]}})
        with contextlib.suppress(AssertionError):       # what no name of a member may have is no request
            peer.call("echo", {"text": text, text: text}, crib.MODERN)          # refused by its schema, in words of both
        with contextlib.suppress(ValueError):           # what no header takes
            peer.call(text, {}, crib.MODERN)
        peer.close()
        peer = c.http("tck_" + text[:12] + "_x") if text.isascii() and text.isprintable() else None
        with contextlib.suppress(ValueError, AssertionError, KeyError, TypeError):      # a key that is none
            peer and peer.call("echo", {"text": text}, crib.MODERN)
        peer and peer.close()
        for command, args in (("key create", {"principal": f"acme/p{n}", "label": text[:200]}),
                              ("audit review", {"action": "sign", "tenant": "acme", "note": text[:300]}),
                              ("tenant set", {"tenant": "acme", "title": text[:200]}),
                              ("hold set", {"tenant": "acme", "ticket": text[:70], "reason": text[:200]}),
                              ("hold release", {"id": str(n + 1), "ticket": text[:70], "reason": text[:200]}),
                              ("key suspend", {"accessor": [accessor], "reason": text[:200]}), ("key resume", {"accessor": [accessor]}),
                              ("principal set", {"principal": f"acme/p{n}", "system": text[:60]}),
                              ("tool test", {"tool": text[:60]}), ("audit sample", {"tenant": "acme", "kind": text[:60]})):
            c.ask(command, **args)                      # or it is refused, which is on record as well
    peer = c.http(case.key)
    peer.call("echo", {"text": "y" * 65536 + "<x-hostile>"}, crib.MODERN)       # 64 KiB without a place to break it
    peer.close()
    for n, text in enumerate(seen[:9]):
        with contextlib.suppress(crib.Failed):
            c.tool(f"kind: resource\nname: r{n}\nuri: {quoted('urn:x:' + text[:60])}\ntitle: {quoted(text[:200])}\ndescription: {quoted(text)}\n"
                   f"handler: {{type: static, text: {quoted(text)}}}\n")
    c.run("level", "set", "metadata", "--tenant", "acme")
    calls = [row["call"] for row in c.json("audit", "calls", "--tenant", "acme", "--limit", "0")]
    tenants = [path.replace(":tenant", "acme") for path in ("/t/:tenant", "/t/:tenant/access", "/t/:tenant/keys", "/t/:tenant/r/calls?n=200",
                                                            "/t/:tenant/r/denied?n=200", "/t/:tenant/r/admin?n=200", "/t/:tenant/r/access?n=200",
                                                            "/t/:tenant/r/reviews?n=200", "/t/:tenant/r/credentials", "/t/:tenant/r/config",
                                                            "/t/:tenant/r/tool-health", "/t/:tenant/r/anomalies", "/t/:tenant/r/dual-control", "/t/:tenant/questions",
                                                            "/t/:tenant/kept", "/t/:tenant/counts", "/t/:tenant/key-review", "/t/:tenant/persons",
                                                            "/t/:tenant/sample", "/t/:tenant/principal?principal=bot",
                                                            "/t/:tenant/key?key=" + case.key.split("_")[1])]
    return (["/", "/tools", "/approvals", "/server", "/evidence", "/failures", "/runs", "/room", "/outside", "/r/admin?n=200", "/r/access?n=200", "/r/config", "/r/dual-control"] + tenants +
            [f"/tool?name=t{n}" for n in range(len(seen))] + [f"/tool/diff?name=t{n}" for n in range(len(seen))] +
            [f"/t/acme/call/{call}" for call in calls[:len(CORPUS)]] +
            [f"/t/acme/r/calls?{field}={urllib.parse.quote(text[:300])}" for text in CORPUS[:9] for field in ("tool", "since", "principal")] +
            [f"/tool?name={urllib.parse.quote(text[:300])}" for text in CORPUS[:9]], calls)


class Hostile(test_console.Case):
    def test_what_others_wrote_makes_no_node(self):
        """C-801 to C-805: the corpus in every field that others write, and in every field of an address: text on every page, and no more."""
        self.serve(level="audit: {level: request_response}")
        pages, calls = fill_with_hostile(self)
        visit, found = self.visit(), 0
        for path in pages:
            with self.subTest(path=path[:80]):
                status, _, page = self.ask("GET", path, visit=visit)
                self.assertIn(status, (200, 400, 404), page[:2000])
                nodes = Nodes()
                nodes.feed(page)
                self.assertEqual(nodes.wrong, [])
                self.assertNotIn("<x-hostile", page)
                self.assertEqual(re.findall("[\x00-\x08\x0b-\x1f\x7f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]", page), [])
                found += page.count("&lt;x-hostile")
        self.assertGreater(found, 200, "it is there")


class Alone(test_console.Server):
    def test_an_export_that_breaks_is_seen_to(self):
        """Neither a last chunk nor a last line; one that is refused before its first row is a page; one that is too long says so."""
        row = {"time": "t", "tool": "x", "call": "c"}
        self.answers["audit calls"] = [*self.report(row)[:-1], {"error": {"code": "io", "message": "gone", "hint": ""}}]
        with self.assertRaises((http.client.IncompleteRead, http.client.RemoteDisconnected)):
            self.ask("GET", "/t/acme/r/calls/export?as=jsonl", visit="A" * 43)
        self.answers["audit calls"] = [{"error": {"code": "limit", "message": "too many", "hint": "fewer"}}]
        self.assertIn("too many", self.get("/t/acme/r/calls/export?as=jsonl", "A" * 43, 400))

    def test_an_export_has_so_many_rows(self):
        """CON_EXPORT_ROWS, and one more."""
        if crib.sanitized("toolcrib-console"):
            self.skipTest("a million rows take a minute there")
        head, line, done = (json.dumps(one).encode() + b"\n" for one in ({"header": {}, "columns": ["a"]}, {"row": {"a": 1}}, {"done": True}))
        for more in (0, 1):
            self.answers["audit admin"] = None
            self.kept.clear()
            k = http.client.HTTPConnection("127.0.0.1", self.port, timeout=6 * crib.DEADLINE)
            with contextlib.closing(k):
                k.request("GET", "/t/acme/r/admin/export?as=jsonl", headers={"Host": self.host, "Cookie": test_console.COOKIE + "A" * 43})
                crib.wait_for("the question", lambda: self.kept)
                sender = test_console.threading.Thread(target=self.kept[0].sendall, args=(head + line * (1000000 + more) + done,))
                sender.start()
                last = k.getresponse().read().splitlines()[-1]
                sender.join()
            self.assertEqual((json.loads(last)["end"]["rows"], json.loads(last)["end"]["more"]), (1000000, bool(more)))
        self.answers["audit denied"] = self.report()
        self.get("/t/acme/r/denied", "A" * 43)

    def test_exports_are_so_many(self):
        """One of a visit, two in all; who leaves makes room."""
        held = []
        for n, visit in enumerate("AB"):
            k = http.client.HTTPConnection("127.0.0.1", self.port, timeout=crib.DEADLINE)
            self.addCleanup(k.close)
            k.request("GET", "/t/acme/r/admin/export?as=csv", headers={"Host": self.host, "Cookie": test_console.COOKIE + visit * 43})
            held.append(k)
            crib.wait_for("the question", lambda: len(self.kept) == n + 1)
        self.assertIn("this visit", self.get("/t/acme/r/admin/export?as=csv", "A" * 43, 503))
        self.assertIn("Others", self.get("/t/acme/r/admin/export?as=csv", "C" * 43, 503))
        held[0].close()
        crib.wait_for("a stop", lambda: {"stop": True} in self.heard)
        self.answers["audit admin"] = self.report()
        self.ask("GET", "/t/acme/r/admin/export?as=csv", visit="C" * 43)


if __name__ == "__main__":
    crib.main()
