"""The 42 questions of a reviewer, each answered in a browser within three clicks of the first page, or three keys, by what the commands say
(CONSOLE 9, 20): a store with something for each, real clicks in headless Chromium, and below each page its own commands, whose answers are
compared with it cell by cell.  What a tenant's auditor is led to is asked without a browser, and so runs everywhere."""
import concurrent.futures
import html
import json
import os
import re
import shlex
import subprocess
import sys
import unittest

import crib
import test_console
import test_console_browser
import test_console_pages

FAIL = crib.tool_yaml("deploy", "{type: exec, argv: [/bin/false]}")
EXTRA = """admin:
  socket: {socket}
roles:
  - {{role: admin, uid: 0, person: root}}
  - {{role: auditor, uid: 40002}}
  - {{role: tenant-auditor, uid: 40003, tenant: acme}}
  - {{role: tenant-admin, uid: 40005, tenant: acme}}
  - {{role: approver, uid: 40006, person: ann, groups: [finance]}}
  - {{role: second, uid: 40007, person: two}}
approve: {{hold: 0}}
anchor: {{file: '{anchors}', every: 600}}
sinks:
  - {{name: local, type: file, path: '{sink}'}}
"""
OF_ACME, CALLS, KEYS = "/t/acme/questions", "/t/acme/r/calls", "/t/acme/keys"


def ask(page):
    """From the first page to what the list of questions names."""
    return [OF_ACME, page if page.startswith("/") else "/t/acme/" + page]


# Each question: what is clicked, one after another, from the first page; addresses of links, or "form ACTION" for a button.  What the page
# says of what was planted.  GROWS: of the log that the look itself, or the command that asks the same, is written to.
GROWS = True
QUESTIONS = [
    ("01", ask("r/calls"), ["get_weather", "build-bot"]),
    ("02", [KEYS, "/t/acme/principal?principal=assistant", CALLS + "?principal=assistant"], ["assistant", "deploy"]),
    ("03", [KEYS, "/t/acme/key?key={key}"], ["get_weather", "http"]),
    ("04", [CALLS, "/t/acme/call/{call}"], ["call.begin", "call.end", "grant/"]),
    ("05", [CALLS, "/t/acme/call/{call}", "/t/acme/call/{call}/proof"], ["tlog-proof"]),
    ("06", ["/evidence", "form /evidence/verify"], ["INTACT"]),
    ("07", ask("r/coverage"), ["acme"], GROWS),
    ("08", ask("sample"), ["get_weather"]),
    ("09", ask("counts"), ["unknown_tool", "schema"]),
    ("10", ask("/failures"), ["revoked"]),
    ("11", ask("r/admin"), ["audit.read", "(console)"], GROWS),
    ("12", ask("r/access"), ["audit.read"], GROWS),
    ("13", ask("r/credentials"), ["cred.create", "cred.revoke"]),
    ("14", ask("key-review"), ["acme/build-bot", "revoked"]),
    ("15", ask("key-review"), ["without an end"]),
    ("16", ask("r/after-revocation"), ["as it must be"]),
    ("17", ask("/runs"), ["daemon"], GROWS),
    ("18", ask("/runs"), ["as it must be"], GROWS),
    ("19", ask("/r/clock"), ["Clock"]),
    ("20", ask("kept"), ["retention.change"]),
    ("21", ask("kept"), ["L-17", "released"]),
    ("22", ask("r/erasures"), ["asked for"]),
    ("23", [KEYS, "/t/acme/principal?principal=assistant"], ["call.end", "assistant"], GROWS),
    ("24", ["/tools", "/tool?name=get_weather", "/definition?hash={digest}"], ["build-bot"]),
    ("25", ["/tools", "/tool?name=get_weather"], ["tool."]),
    ("26", ask("r/drift"), ["as it must be"]),
    ("27", ask("r/config"), ["onfig"]),
    ("28", ask("r/isolation"), ["as it must be"]),
    ("29", ask("r/key-history"), ["Keys"]),
    ("30", ask("r/dual-control"), ["must be empty, and is not"]),
    ("31", ask("r/reviews"), ["nothing to object"]),
    ("32", ask("r/anomalies"), [""]),
    ("33", ask("r/tool-health"), ["deploy"]),
    ("34", ask("r/sandbox"), ["deploy"]),
    ("35", ask("persons"), ["ann", "PO 4711"]),
    ("36", ask("counts"), ["cli_"]),
    ("37", ask("/room"), ["acme"], GROWS),
    ("38", ask("/outside"), ["local", "toolcrib audit export-check --cursor FILE"], GROWS),
    ("39", ["/evidence"], ["Anchors"], GROWS),
    ("40", [CALLS, "/t/acme/call/{call}", "/verify#/t/acme/call/{call}/proof"], ["Check"]),
    ("41", ask("/outside"), ["toolcrib restore --from BACKUP --to DIR --test"], GROWS),
    ("42", ask("/outside"), ["toolcrib audit drill --tenant TENANT", "audit drill tenant=acme"], GROWS),
]
# Whose commands count records, which each look adds to: nobody looks before they have been compared.
ALONE = {"/t/acme/kept"}
# What a tenant's auditor is told is for another role: what is the store's, not his tenant's.
OF_OTHERS = {"06", "17", "18", "19", "37", "38", "39", "41", "42"}
READ = r"""JSON.stringify(document.contentType === 'text/plain' ? { plain: document.body.textContent } : {
  text: [...document.querySelector('main').children].filter(e => e.tagName !== 'FOOTER').map(e => e.innerText).join('\n'),
  lines: [...document.querySelectorAll('footer pre')].map(e => e.textContent).join('\n'),
  tables: [...document.querySelectorAll('main table')].filter(t => t.tBodies[0].rows.length && !t.closest('details') && !t.classList.contains('who') && !t.querySelector('form')).map(t => ({
    head: [...t.tHead.rows[0].cells].map(c => c.textContent), rows: [...t.tBodies[0].rows].map(r => [...r.cells].map(c => {
      const time = c.querySelector('time'); return time ? time.dateTime : c.textContent; })) })),
  facts: [...document.querySelectorAll('main dl div')].filter(d => !d.closest('details')).map(d => [d.children[0].textContent, d.children[1].textContent]) })"""


def plain(value):
    """A value as pages say it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return ""
    if isinstance(value, list) and not any(isinstance(one, (list, dict)) for one in value):
        return ", ".join("-" if one is None else plain(one) for one in value) or "-"
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def fits(shown, said, grows):
    """A cell of the page is what the command says; of what grows, no more than what it says after that, but for a share of all."""
    cut = re.fullmatch(r"(.*)… and (\d+) bytes more", shown, re.S)
    if shown == said or cut and said.startswith(cut[1]) and len(said.encode()) - len(cut[1].encode()) == int(cut[2]):
        return True
    a, b = number(shown), number(said)
    if a is not None and b is not None and (a == b or grows and a - b < 1):
        return True
    return grows and re.match(r"\d{4}-\d\d-\d\dT", shown + said[:0]) is not None and shown <= said


def rows_of(command):
    """Its columns, its rows."""
    return [json.loads(line) for line in command.stdout.splitlines() if line.strip()]


class Filled(test_console_browser.Seen):
    def fill(self):
        """Something for each question."""
        self.socket = self.crib.dir / "public.sock"
        c = self.crib.init()
        c.cli("approval", "policy", "one")              # which stands in the list of what nobody else agreed to
        (c.dir / "out").mkdir()
        c.start(test_console.LISTEN.format(extra=EXTRA.format(socket=self.socket, anchors=c.dir / "out/anchors", sink=c.dir / "out/audit.jsonl")) +
                "audit: {level: request_response}\n")
        self.find()
        self.crib.let_others_in()
        for name in ("get_weather", "query_db"):
            c.tool(crib.ECHO.replace("name: echo", f"name: {name}"))
        c.tool(FAIL)
        c.tool(test_console_pages.PAY)
        self.keys = [c.tenant("acme", "get_weather", "query_db", "deploy", "pay"), c.key("acme/build-bot"), c.key("acme/assistant"), c.key("acme/leaver")]
        c.tenant("other", "get_weather")
        for n, (key, tool, text) in enumerate([(1, "get_weather", "Oslo"), (2, "get_weather", "Bergen"), (2, "deploy", "x"), (1, "query_db", 7),
                                               (1, "format_disk", "x"), (3, "get_weather", "Lom")]):
            peer = c.http(self.keys[key])
            peer.call(tool, {"text": text}, crib.MODERN, _meta={"io.modelcontextprotocol/clientInfo": {"name": "agent", "version": "7"}})
            peer.close()
        peer = c.http(self.keys[1])
        said = peer.call("pay", {"amount": 4800, "payee": "Nordwerft"}, crib.MODERN)["result"]
        self.approval = re.search(r"approval (\d+)", said["content"][0]["text"])[1]
        peer.close()
        self.as_user(40006, "approve", "grant", self.approval, "--reason", "PO 4711")
        c.tool(crib.ECHO.replace("name: echo", "name: get_weather").replace("Says", "Repeats"))
        c.cli("key", "revoke", self.keys[2].split("_")[1], "--yes")
        peer = c.http(self.keys[2])
        ping = peer.request("ping", rev=crib.MODERN)
        self.assertEqual(peer.post(json.dumps(ping), peer.headers(ping))[0], 401)
        peer.close()
        c.cli("hold", "set", "acme", "--ticket", "L-17", "--reason", "a case")
        c.cli("hold", "release", "1", "--ticket", "L-17", "--reason", "closed", "--yes")
        c.cli("retention", "set", "acme", "--min-days", "400")
        c.cli("--yes", "erase", "--principal", "acme/leaver", "--ground", "asked for", "--ticket", "P-3")
        c.cli("audit", "review", "sign", "--tenant", "acme", "--note", "third quarter, nothing to object")
        c.cli("audit", "drill", "--tenant", "acme")
        c.cli("backup", c.dir / "copy.db")
        c.cli("audit", "checkpoint")
        c.cli("reload")
        self.call_id = next(row["call"] for row in c.json("audit", "calls", "--tenant", "acme") if row["tool"] == "get_weather")
        self.places = {"call": self.call_id, "key": self.keys[1].split("_")[1],
                       "digest": c.json("audit", "show", self.call_id)[0]["definition"]}

    def as_user(self, uid, *words):
        return subprocess.run([str(crib.BUILD / "toolcrib"), "--socket", str(self.socket), *map(str, words)], user=uid, group=uid,
                              capture_output=True, text=True, timeout=60, env=self.crib.env, check=True).stdout

    def steps(self, clicks):
        for click in clicks:
            yield click.format(**self.places)


@unittest.skipUnless(os.geteuid() == 0, "needs other users to be")
class Led(Filled):
    def test_a_tenants_auditor_is_led_to_what_he_may_see(self):
        """C-101: each link of the list is a page for him, and what has none is the store's."""
        self.fill()
        for uid, others in ((40003, OF_OTHERS), (40002, set())):
            visit = self.visit_of(uid)
            page = self.get(OF_ACME, visit)
            rows = re.findall(r'<tr><th scope="row">(\d\d)</th><td>([^<]*)</td><td>\n(.*?)</td></tr>', page, re.S)
            self.assertEqual([number for number, _, _ in rows], [f"{n:02}" for n in range(1, 43)])
            self.assertEqual({number for number, _, ways in rows if "of another role" in ways}, others)
            for path in sorted(set(re.findall(r'<a href="([^"]*)"', "".join(ways for _, _, ways in rows)))):
                with self.subTest(uid=uid, path=path):
                    self.get(html.unescape(path), visit)
            for path in ("key?key=" + self.places["key"], "principal?principal=assistant", "definition?hash=" + self.places["digest"]):
                self.get("/t/acme/" + path, visit)
        of_acme = self.visit_of(40003)
        missing = self.get("/nothing", None, 404)
        for path in ("questions", "kept", "counts", "persons", "sample", "key-review", "key?key=" + self.places["key"], "principal?principal=bot"):
            self.assertEqual(self.get("/t/other/" + path, of_acme, 404), missing)
            self.assertEqual(self.get("/t/nobody/" + path, of_acme, 404), missing)
        self.assertEqual(self.get("/t/other/key?key=" + self.places["key"], self.visit(), 404), missing, "a key of another tenant")


@unittest.skipUnless(test_console_browser.PROGRAM and os.geteuid() == 0, "needs Chromium: apt-get install chromium")
class Questions(Filled):
    def press(self, b, step, key):
        """One click at where the link or the button is, or one key while it has the focus."""
        selector = f"form[action='{step[5:]}'] button" if step.startswith("form ") else f"a[href='{step}']"
        at = b.value(f"""(async () => {{ const e = [...document.querySelectorAll({json.dumps(selector)})].find(e => e.checkVisibility());
            if (!e) return null; const y = scrollY; e.scrollIntoView({{ block: 'center' }}); e.focus();
            if (scrollY !== y) await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))); const r = e.getClientRects()[0];
            return [r.x + r.width / 2, r.y + r.height / 2, document.activeElement === e]; }})()""")
        self.assertIsNotNone(at, f"no {selector} on " + b.value("location.href"))
        self.assertTrue(at[2], "the keyboard reaches it")
        if key:
            for kind in ("keyDown", "keyUp"):
                b.ask("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, **({"text": "\r"} if kind == "keyDown" else {}))
        else:
            for kind in ("mousePressed", "mouseReleased"):
                b.ask("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", clickCount=1)

    def follow(self, b, step, key):
        b.value("window.before = true; 0")
        self.press(b, step, key)
        b.arrive(step, "window.before === undefined")

    def asked(self, b, step, key, goes=False):
        """What the browser would ask the console for then, and does if it goes."""
        self.press(b, step, key)
        paused = b.event("Fetch.requestPaused")
        if goes:
            b.ask("Fetch.continueRequest", requestId=paused["requestId"])
        else:
            b.ask("Fetch.failRequest", requestId=paused["requestId"], errorReason="Aborted")
        request = paused["request"]
        return request["method"], request["url"] + request.get("urlFragment", ""), request.get("postData")

    def answers(self, lines):
        """Of commands below a page, one after another."""
        said = []
        for line in lines:
            words = shlex.split(line)
            words += ["--last"] if words[1:] == ["audit", "daily"] else []      # what the button began, and not another one
            said.append((line, words, self.crib.run("--json", *words[1:])))
        return said

    def compare(self, answers, page, grows):
        """The tables of a page, in their order, are the answers of the commands below it."""
        tables = list(page["tables"])
        for line, words, done in answers:
            self.assertEqual(words[0], "toolcrib")
            self.assertIn(done.returncode, (0, 4, 5), f"{line}: {done.stderr}")
            rows = rows_of(done)
            if words[1:3] == ["audit", "stats"] or not rows:
                continue
            if words[1:3] in (["audit", "show"], ["tool", "show"], ["tenant", "show"], ["audit", "daily"]):
                self.facts(line, rows, page, grows)
                continue
            if words[1:3] == ["audit", "keys"]:
                self.assertIn(rows[0]["content"][0]["text"].strip(), page["text"])
                continue
            self.assertTrue(tables, f"a table of {line}")
            self.rows(line, rows, tables.pop(0), grows)
        self.assertEqual(tables, [], "tables that no command says")

    def facts(self, line, rows, page, grows):
        """Records and things, as lists of facts; JSON texts of definitions are compared as JSON."""
        shown = {}
        for name, value in page["facts"]:
            shown.setdefault(name.lower(), []).append(value)
        for row in rows:
            for name, value in row.items():
                if name.replace("_", " ") in shown and plain(value):
                    self.assertTrue(any(fits(one, plain(value), grows) for one in shown[name.replace("_", " ")] + shown.get(name, [])), f"{line}: {name} {value} {shown}")

    def rows(self, line, rows, table, grows):
        """Of what grows the newest rows may have come since."""
        want = [[plain(value) for value in row.values()] for row in rows]
        names = [list(row) for row in rows]
        for new in range(len(rows) + 1 if grows else 1):
            if self.alike(table, want[new:], names[new:], grows):
                return
        self.fail(f"{line}\nsays {json.dumps(rows[:3], indent=1)}\nthe page {json.dumps(table, indent=1)[:3000]}")

    def alike(self, table, want, names, grows):
        """Each cell is a value of its row: pages have some of the columns, under titles for people."""
        if len(want) > len(table["rows"]) or not grows and len(want) != len(table["rows"]) or not want and table["rows"]:
            return False
        for shown, said, name in zip(table["rows"], want, names):
            for title, cell in zip(table["head"], shown):
                mine = [value for value, one in zip(said, name) if one == title] or said + [""]
                if not any(fits(cell, value, grows) for value in mine):
                    return False
        return True

    def test_each_question_is_answered_in_three_clicks(self):
        """Ways are a tree: each step that several share is taken once by a key and once by a click, which ask the console for the same; what they
        ask for is looked at once.  While the commands of a page say what it must, the next one is on its way."""
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            browser = pool.submit(self.browser)
            self.fill()
        b = self.open(browser=browser.result())
        self.media(b, "light", 1280)
        self.assertEqual([row[0] for row in QUESTIONS], [f"{n:02}" for n in range(1, 43)])
        self.leads, self.ends, self.other, self.due = {}, {}, b.tab(), None
        # what each look buries first; shares of all records when there are so many that a look moves them little
        for number, clicks, says, *grows in sorted(QUESTIONS, key=lambda row: (row[0] == "37", len(row) == 3, row[0] != "42")):
            self.assertLessEqual(len(clicks), 3)
            way = ("/", *self.steps(clicks))
            for n in range(1, len(way)):
                self.leads.setdefault(way[:n], dict()).setdefault(way[n])
            self.ends.setdefault(way, []).append((number, says, bool(grows)))
        self.seen = set()
        with concurrent.futures.ThreadPoolExecutor(3) as self.pool:
            self.walk(b, ("/",))
            self.settle()
        self.assertEqual(self.seen, {row[0] for row in QUESTIONS})
        for key, number in ((True, "02"), (False, "04")):       # all of a way, one page after another
            self.to(b, "/")
            for step in self.steps(QUESTIONS[int(number) - 1][1]):
                self.follow(b, step, key)
        wrong = [e for e in b.events if "Content Security Policy" in json.dumps(e) or e.get("method") == "Runtime.exceptionThrown"]
        self.assertEqual(wrong, [])

    def load(self, b, path):
        """A page from which steps lead on, as far as they are let."""
        b.ask("Fetch.disable")
        if self.due and self.due[0][-1] in ALONE:
            self.settle()
        self.to(b, path)
        b.ask("Fetch.enable", patterns=[{"resourceType": "Document"}])

    def walk(self, b, way):
        self.load(b, way[-1])
        for step in self.leads[way]:
            with self.subTest(way=(*way, step)):
                form = step.startswith("form ")
                by_key = self.asked(b, step, True)
                if form:
                    b.value("window.before = true; 0")
                by_click = self.asked(b, step, False, form)
                self.assertEqual(by_key, by_click)
                self.assertEqual(by_key[:2], ("POST" if form else "GET", self.origin + step.removeprefix("form ")))
                if form:
                    b.arrive(step, "window.before === undefined")
                    self.look(b, (*way, step))
                    self.load(b, way[-1])
                elif (*way, step) in self.ends:
                    if self.due and self.due[0][-1] in ALONE:
                        self.settle()
                    with b.within(self.other):
                        b.ask("Page.navigate", url=self.origin + step)
                        b.arrive(step, f"location.href === {json.dumps(self.origin + step)}")
                        self.look(b, (*way, step))
        b.ask("Fetch.disable")
        for step in self.leads[way]:
            if (*way, step) in self.leads:
                self.walk(b, (*way, step))

    def look(self, b, way):
        """What a way ends at says what each of its questions asks for."""
        self.seen |= {number for number, _, _ in self.ends[way]}
        page = json.loads(b.value(READ))
        self.settle()
        if "plain" in page:
            self.due = way, None, [self.pool.submit(self.proof, page["plain"])]
            return
        for number, says, _ in self.ends[way]:
            for text in says:
                self.assertIn(text, page["text"], number)
        if not way[-1].startswith("/verify#"):
            lines = page["lines"].splitlines()
            self.due = way, page, [self.pool.submit(self.answers, some) for some in ([lines] if way[-1] in ALONE else [[line] for line in lines])]

    def settle(self):
        """The page before this one is what its commands have said by now."""
        if self.due:
            (way, page, said), self.due = self.due, None
            with self.subTest(way=way):
                said = [one.result() for one in said]
                if page:
                    self.compare(sum(said, []), page, any(grows for _, _, grows in self.ends[way]))

    def proof(self, text):
        """What the page gave proves the same record as what the command gives, to who shares no code with either."""
        key, runs = self.crib.cli("audit", "keys").strip(), []
        for n, proof in enumerate((text, self.crib.cli("audit", "proof", self.call_id, "--tenant", "acme"))):
            path = self.crib.dir / f"{n}.proof"
            path.write_text(proof)
            runs.append(subprocess.Popen([sys.executable, crib.SOURCE / "contrib/verify/verify.py", "--key", key, "--proof", path],
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        said = [run.communicate()[0] for run in runs]
        self.assertEqual([run.returncode for run in runs], [0, 0], said)
        self.assertEqual(said[0].splitlines()[-1], said[1].splitlines()[-1])


if __name__ == "__main__":
    crib.main()
