"""Calls that a person has to agree to (HA-01 to HA-07): asked once, run once, and on record who agreed, when and why; for nobody
else's call, no other arguments, no other version, and by nobody who may not."""
import contextlib
import json
import re
import shutil
import signal
import sqlite3
import subprocess
import unittest

import certs
import crib

PAY = """name: pay
description: Pays an invoice.
inputSchema: {type: object, properties: {amount: {type: number}, payee: {type: string}, pin: {type: string}}}
handler: {type: builtin, function: echo}
audit: {redact: [/pin]}
approve: {by: ["group:finance", "person:boss"], above: {/amount: 1000}, timeout: 4h, use_within: 15m%s}
"""
TWO = PAY.replace("name: pay", "name: pay_much") % ", count: 2"
ASKED = re.compile(r"The call waits for approval (\d+) by finance or boss until \d{4}-\d\d-\d\d \d\d:\d\d UTC; nothing has run\.  "
                   r"Call again with the same arguments\.")
EXT = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
BIG = {"amount": 4800, "payee": "Nordwerft", "pin": "0815"}


@unittest.skipUnless(shutil.which("openssl"), "needs openssl(1)")
class Persons(crib.Case):
    """A server with tools that need a yes, and persons who give it by keys of their own."""
    PEOPLE = {"ann": "person: ann, groups: [finance]", "bob": "person: bob, groups: [finance], principal: acme/bot",
              "eve": "person: eve, groups: [sales]", "boss": "person: boss", "far": "person: far, groups: [finance], tenant: other",
              "ann2": "person: ann, groups: [finance]"}

    HOLD = 0
    LISTENER = ""                   # one more

    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(PAY % "")
        c.tool(TWO)
        self.key, self.other = c.tenant("acme", "*"), c.tenant("other", "*")
        self.second = c.key("acme/second")
        c.cli("approval", "policy", "one")
        self.ca = certs.Ca(c.dir)
        self.ca.sign("server", "DNS:localhost,IP:127.0.0.1")
        self.files, self.roles = {}, {}
        for name, role in {**{name: f"approver, {more}" for name, more in self.PEOPLE.items()}, "root": "admin", "eye": "auditor"}.items():
            done = c.run("admin-key", name)
            self.files[name] = c.dir / f"{name}.key-file"
            self.files[name].write_text(done.stdout.strip() + "\n")
            self.files[name].chmod(0o600)
            self.roles[name] = "- " + done.stderr[done.stderr.index("{"):].strip().replace("operator", role)
        self.up()

    def conf(self):
        d = self.crib.dir
        return (f"{self.LISTENER}admin: {{listen: \"127.0.0.1:0\", cert: {d}/server.crt, key: {d}/server.key}}\napprove: {{hold: {self.HOLD}}}\nroles:\n" +
                "\n".join(self.roles.values()) + "\n")

    def up(self, env=None):
        c = self.crib
        c.daemon = None
        c.start(self.conf(), env=env)
        self.address = next(row["address"] for row in c.json("status")[0]["listeners"] if row["transport"] == "admin")
        self.peer = c.http(self.key)

    def by(self, name, *words):
        return self.crib.run("--remote", self.address, "--ca", self.ca.cert, "--key-file", self.files[name], *words)

    def must(self, name, *words):
        done = self.by(name, *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def rows(self, name, *words):
        return [json.loads(line) for line in self.must(name, "--json", "approve", *words).splitlines()]

    def call(self, tool="pay", args=None, peer=None, rev=crib.MODERN):
        return (peer or self.peer).call(tool, BIG if args is None else args, rev)["result"]

    def text(self, result):
        return result["content"][0]["text"]

    def ask(self, tool="pay", args=None, peer=None):
        """Its call is refused and waits; the number."""
        got = self.call(tool, args, peer)
        self.assertTrue(got.get("isError"), got)
        found = re.search(r"approval (\d+) by", self.text(got))
        self.assertTrue(found, got)
        return int(found[1])

    def runs(self, tool="pay", args=None, peer=None):
        got = self.call(tool, args, peer)
        self.assertFalse(got.get("isError", False), got)
        return got

    def begun(self):
        return self.crib.rows("SELECT count(*) FROM v_records WHERE kind = 'call.begin'")[0][0]

    def kinds(self):
        return [kind for kind, in self.crib.rows("SELECT kind FROM v_records WHERE tenant = 'acme' AND kind LIKE 'call.%' ORDER BY idx")]

    def verified(self):
        self.crib.stop()
        done = self.crib.run("audit", "verify")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = subprocess.run([*crib.sceptic(), self.crib.store, *crib.evidence(self.crib.store)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Approve(Persons):
    def test_one_yes_is_one_run(self):
        c = self.crib
        self.runs(args={"amount": 1000, "payee": "x"})         # at the limit nobody is asked
        got = self.call()
        found = ASKED.fullmatch(self.text(got))
        self.assertTrue(found and got["isError"], got)
        number = int(found[1])
        self.assertEqual(got["_meta"]["dev.toolcrib/approval"]["id"], number)
        held = got["_meta"]["dev.toolcrib/callId"]
        self.assertEqual(self.ask(args=dict(reversed(BIG.items()))), number)    # an identical call joins it
        self.assertEqual(self.begun(), 1)
        row, = self.rows("ann", "list")
        self.assertEqual((row["id"], row["state"], row["tenant"], row["tool"], row["by"], row["needs"], row["what"]),
                         (number, "waits", "acme", "pay", "bot", "1 of finance or boss", 'amount=4800 payee="Nordwerft" pin="[redacted]"'))
        said = self.must("ann", "approve", "grant", str(number), "--reason", "PO 4711")
        self.assertEqual(said, f"approval {number}: granted by ann (key ann); the call runs when it is made again\n")
        got = self.runs()
        self.assertEqual(self.begun(), 2)
        second = self.ask()                                     # the next one asks again
        self.assertGreater(second, number)
        kinds = self.kinds()
        self.assertEqual(kinds, ["call.begin", "call.end", "call.held", "call.denied", "call.approved", "call.begin", "call.end",
                                 "call.held"])
        shown = c.json("audit", "show", got["_meta"]["dev.toolcrib/callId"])
        begin = next(row for row in shown if row["kind"] == "call.begin")
        self.assertEqual((begin["approval"], begin["previous"]), (number, held))
        self.assertRegex(begin["approved_by"], r"^ann \(key ann\) at \d{4}-\d\d-\d\dT\S+Z: PO 4711$")
        self.assertEqual([row["kind"] for row in shown], ["call.held", "call.approved", "call.begin", "call.end"])
        self.assertNotIn("0815", json.dumps(shown))
        self.verified()

    def test_what_differs_is_another_request(self):
        c = self.crib
        first = self.ask()
        self.must("ann", "approve", "grant", str(first))
        other = self.ask(args={**BIG, "amount": 4801})          # the argument changed after the yes
        self.assertNotEqual(other, first)
        self.assertNotEqual(self.ask(peer=c.http(self.second)), first)          # another caller
        self.assertNotEqual(self.ask("pay", BIG, c.http(self.other)), first)    # another tenant
        c.tool(PAY.replace("Pays an", "Pays one") % "")        # another version: what was granted lapses
        crib.wait_for("its end on record", lambda: self.kinds().count("call.lapsed") == 3)
        self.assertEqual(c.rows("SELECT state, said FROM assent WHERE id = ?", first), [(4, "the definition or its grant changed")])
        self.assertNotEqual(self.ask(), first)
        self.assertEqual(self.begun(), 0)
        self.verified()

    def test_who_may(self):
        """Four eyes: not whose call it is, not twice, nobody without the role or the group, nobody of another tenant."""
        c, number = self.crib, self.ask()
        unknown = self.by("far", "approve", "grant", "999")
        for name, want in (("bob", "is none of them, or the caller"), ("eve", "is none of them"), ("root", "needs one of these: approver"),
                           ("eye", "needs one of these: approver")):
            done = self.by(name, "approve", "grant", str(number))
            self.assertNotEqual(done.returncode, 0, name)
            self.assertIn(want, done.stderr, name)
        for words in (("grant",), ("refuse", "--reason", "x"), ("recall",), ("show",)):
            done = self.by("far", "approve", words[0], str(number), *words[1:])
            none = self.by("far", "approve", words[0], "999", *words[1:])
            self.assertEqual((done.returncode, done.stdout, done.stderr.replace(str(number), "999")),
                             (none.returncode, none.stdout, none.stderr))
        self.assertIn("not found", unknown.stderr)
        self.assertEqual(self.rows("far", "list"), [])
        self.assertEqual(self.rows("eve", "list"), [])
        self.assertIsNone(self.rows("root", "list")[0]["what"])
        self.assertIn("Nordwerft", self.rows("eye", "list")[0]["what"])
        done = c.run("approve", "grant", str(number))           # the owner of the store is no person of the list
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.ask(), number)
        self.assertEqual(self.begun(), 0)
        two = self.ask("pay_much")
        self.assertIn("ann (key ann) agrees, and 1 more must", self.must("ann", "approve", "grant", str(two)))
        for name in ("ann", "ann2"):                            # one person, two keys
            self.assertIn("has agreed to approval", self.by(name, "approve", "grant", str(two)).stderr)
        self.assertEqual(self.ask("pay_much"), two)
        self.assertIn("granted by boss", self.must("boss", "approve", "grant", str(two)))
        self.runs("pay_much")
        # Nor who calls tools as that principal by his user id, whatever key he decides with.
        self.assertEqual([row["id"] for row in self.rows("ann", "list")], [number])
        self.roles["ann3"] = "- {role: auditor, uid: 4711, person: ann}"
        self.LISTENER = f'- {{transport: unix, address: "{c.dir}/own.sock", uids: [{{uid: 4711, tenant: acme, principal: bot}}]}}\n'
        c.stop()
        self.up()
        self.assertEqual(self.rows("ann", "list"), [])
        self.assertIn("is none of them, or the caller", self.by("ann", "approve", "grant", str(number)).stderr)
        self.must("boss", "approve", "grant", str(number))
        self.verified()

    def test_who_lost_the_role_has_not_agreed(self):
        c, number = self.crib, self.ask()
        self.must("ann", "approve", "grant", str(number))
        del self.roles["ann"], self.roles["ann2"]
        c.config(self.conf())
        c.cli("reload")
        crib.wait_for("its end on record", lambda: "call.lapsed" in self.kinds())
        self.assertNotEqual(self.ask(), number)
        self.assertEqual(self.begun(), 0)

    def test_refused_and_recalled(self):
        number = self.ask()
        self.assertNotEqual(self.by("ann", "approve", "refuse", str(number)).returncode, 0)     # without a reason
        self.must("ann", "approve", "refuse", str(number), "--reason", "no such invoice")
        for _ in range(2):
            got = self.call()
            self.assertEqual((got["isError"], self.text(got)), (True, "Refused by ann: no such invoice"))
        self.assertIn("refused already", self.by("boss", "approve", "grant", str(number)).stderr)
        self.crib.stop()
        self.up()
        self.assertEqual(self.text(self.call()), "Refused by ann: no such invoice")
        other = self.ask(args={"amount": 5000})
        self.assertIn("it waits", self.by("ann", "approve", "recall", str(other)).stderr)
        self.must("ann", "approve", "grant", str(other))
        self.assertIn("recalled by root", self.must("root", "approve", "recall", str(other)).replace("key root", "root"))
        self.assertNotEqual(self.ask(args={"amount": 5000}), other)
        self.assertEqual(self.begun(), 0)
        kinds = self.kinds()
        self.assertEqual([kinds.count(kind) for kind in ("call.refused", "call.recalled", "call.approved")], [1, 1, 1])
        self.verified()

    def test_a_crash_loses_none_and_uses_none_twice(self):
        number = self.ask()
        self.must("ann", "approve", "grant", str(number))
        self.crib.stop(signal.SIGKILL)
        self.up()
        self.runs()
        self.crib.stop(signal.SIGKILL)
        self.up()
        self.assertNotEqual(self.ask(), number)
        self.assertEqual(self.crib.rows("SELECT state FROM assent WHERE id = ?", number), [(5,)])
        self.verified()

    def wait_as_task(self, args=None, peer=None):
        """Its call is held, and its caller has a task; that, and the number."""
        task = (peer or self.peer).call("pay", BIG if args is None else args, crib.MODERN, EXT)["result"]
        self.assertEqual((task["resultType"], task["status"]), ("task", "working"), task)
        found = re.fullmatch(r"Waiting for approval (\d+) by finance or boss until \d{4}-\d\d-\d\d \d\d:\d\d UTC", task["statusMessage"])
        self.assertTrue(found, task)
        return task["taskId"], int(found[1])

    def get(self, task, peer=None, method="tasks/get"):
        return (peer or self.peer).ask(method, {"taskId": task}, crib.MODERN, EXT)

    def over(self, task):
        def look():
            got = self.get(task)["result"]
            return got["status"] != "working" and got
        return crib.wait_for("the end of the task", look)

    def test_ha06_who_knows_tasks_waits_as_one(self):
        """HA-06: a task, whatever the tool says of tasks; it runs by itself, once, also over a crash, and ends when nobody agrees."""
        c, n = self.crib, 4
        tasks = [self.wait_as_task({**BIG, "amount": 5000 + i}) for i in range(n)]
        self.assertEqual(self.begun(), 0)
        self.assertEqual(self.ask(args={**BIG, "amount": 5000}), tasks[0][1])           # an identical call joins the request
        stranger = c.http(self.other)
        for method in ("tasks/get", "tasks/cancel"):
            mine, none = (self.get(id, stranger, method)["error"] for id in (tasks[0][0], "A" * 22))
            self.assertEqual(mine, none)
        self.assertIn(f"; the call runs as task {tasks[0][0]}\n", self.must("ann", "approve", "grant", str(tasks[0][1]), "--reason", "PO 1"))
        done = self.over(tasks[0][0])
        self.assertEqual((done["status"], done["result"].get("isError", False)), ("completed", False))
        self.assertIn("5000", self.text(done["result"]))
        shown = c.json("audit", "show", done["result"]["_meta"]["dev.toolcrib/callId"])
        begin = next(row for row in shown if row["kind"] == "call.begin")
        self.assertEqual(begin["approval"], tasks[0][1])
        self.assertRegex(begin["approved_by"], "^ann .*: PO 1$")
        self.must("ann", "approve", "refuse", str(tasks[1][1]), "--reason", "too dear")
        done = self.over(tasks[1][0])
        self.assertEqual((done["status"], done["result"]["isError"], self.text(done["result"])), ("completed", True, "Refused by ann: too dear"))
        self.assertEqual(self.get(tasks[2][0], method="tasks/cancel")["result"]["resultType"], "complete")
        self.assertEqual(self.over(tasks[2][0])["status"], "cancelled")
        crib.wait_for("its request withdrawn", lambda: c.rows("SELECT state, said FROM assent WHERE id = ?", tasks[2][1]) ==
                      [(4, "its caller does not wait any more")])
        c.stop(signal.SIGKILL)
        self.up()
        self.assertEqual(self.get(tasks[3][0])["result"]["status"], "working")
        self.assertEqual(self.begun(), 1)
        self.must("ann", "approve", "grant", str(tasks[3][1]))
        self.assertEqual(self.over(tasks[3][0])["status"], "completed")
        self.assertEqual(self.begun(), 2)
        self.assertEqual(c.rows("SELECT count(*) FROM assent WHERE state = 5"), [(2,)])
        self.verified()

    def test_ha06_a_yes_that_came_before_a_crash_is_used_behind_it(self):
        c = self.crib
        task, number = self.wait_as_task()
        other, lapses = self.wait_as_task({**BIG, "amount": 5000})
        c.tool(PAY[:PAY.index("approve:")])                     # another version, which asks nobody
        done = self.over(other)
        self.assertEqual((done["status"], done["result"]["isError"]), ("completed", True))
        self.assertIn("has lapsed; nothing has run", self.text(done["result"]))
        self.assertEqual(self.over(task)["status"], "completed")
        c.tool(PAY % "")
        task, number = self.wait_as_task()
        c.stop()
        with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db")) as db:
            self.assertEqual(db.execute("SELECT state FROM task WHERE tid = ?", (task,)).fetchall(), [(6,)])
        self.up()
        self.must("ann", "approve", "grant", str(number))
        self.assertEqual(self.over(task)["status"], "completed")
        self.assertEqual(self.begun(), 1)
        self.verified()

    def asking(self, name="ask", approve="above: {/amount: 1000}"):
        """A tool that asks, and with the answer writes a line."""
        self.ran = self.crib.dir / "told" / "ran"
        self.ran.parent.mkdir(exist_ok=True)
        script = ("read -r job\ncase $job in\n*'\"answers\":{'*) echo ran >>%s; echo '%s';;\n*) echo '%s';;\nesac" %
                  (self.ran, json.dumps({"result": {"content": [{"type": "text", "text": "paid"}]}}), json.dumps({"ask": {"requests": {
                      "q": {"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}}}}})))
        script = script.replace("{", "{{").replace("}", "}}")
        self.crib.tool(crib.tool_yaml(name, f"{{type: exec, argv: [/bin/sh, -c, {json.dumps(script)}], stdin: json, output: stream, "
                                      f"sandbox: {{write: [{self.ran.parent}]}}}}", "{type: object, properties: {amount: {type: number}}}",
                                      "task: {support: required}\napprove: {by: [\"group:finance\"], %s}\n" % approve))

    def asked(self, args, name="ask", peer=None, **more):
        """Its task, whose first run a person has agreed to, and which asks."""
        made = (peer or self.peer).call(name, args, crib.MODERN, {**EXT, "elicitation": {}})["result"]
        self.must("ann", "approve", "grant", str(self.number(made)))
        self.input(made["taskId"])
        return made["taskId"]

    def number(self, task):
        return int(re.search(r"approval (\d+) by finance until", task["statusMessage"])[1])

    def input(self, task):
        self.assertEqual(self.over(task)["status"], "input_required", self.get(task))

    def answer(self, task, key="1:q", content=None):
        """It is answered, and held for another yes: its number."""
        got = self.peer.ask("tasks/update", {"taskId": task, "inputResponses": {key: {"action": "accept", "content": content or {}}}}, crib.MODERN,
                            {**EXT, "elicitation": {}})
        self.assertEqual(got["result"]["resultType"], "complete", got)
        return crib.wait_for("another request", lambda: self.waits(task))

    def waits(self, task):
        got = self.get(task)["result"]
        self.assertEqual(got["status"], "working", got)
        return "approval" in got.get("statusMessage", "") and self.number(got)

    def lines(self):
        return len(self.ran.read_text().splitlines()) if self.ran.exists() else 0

    def test_ha06_a_further_round_has_a_yes_of_its_own(self):
        """TK-33, HA-06: what was answered is part of what is agreed to; asked once, run once, over a crash before and behind the yes."""
        c = self.crib
        self.asking()
        first, twin, refused, dropped, lapses = (self.asked({"amount": 5000}) for _ in range(5))
        numbers = [self.answer(task) for task in (first, twin, refused, dropped, lapses)]
        self.assertEqual(len(set(numbers)), 5)                  # the same arguments, the same answer: each has its own
        self.assertEqual(self.lines(), 0)
        rows = {row["id"]: row for row in self.rows("ann", "list")}
        self.assertEqual(sorted(rows), sorted(numbers))
        shown = self.must("ann", "approve", "show", str(numbers[0]))
        self.assertIn("answers of the caller", shown)
        self.assertIn("accept", shown)
        self.peer.ask("tasks/update", {"taskId": first, "inputResponses": {"1:q": {"action": "decline"}}}, crib.MODERN, EXT)
        c.stop(signal.SIGKILL)
        self.up()
        self.assertEqual([self.waits(task) for task in (first, twin)], numbers[:2])
        self.must("ann", "approve", "grant", str(numbers[0]), "--reason", "PO 1")
        done = self.over(first)
        self.assertEqual((done["status"], self.text(done["result"]), self.lines()), ("completed", "paid", 1))
        shown = c.json("audit", "show", first)
        self.assertEqual([row["kind"] for row in shown], [
            "call.held", "task.create", "call.approved", "call.begin", "call.end", "task.input", "call.held", "call.approved", "call.begin",
            "call.end", "task.read"])
        self.assertEqual({row.get("approval") for row in shown[6:9]}, {numbers[0]})
        self.assertEqual(shown[6]["previous"], shown[4]["call"])
        self.assertEqual(shown[8]["previous"], shown[6]["call"])
        self.assertRegex(shown[8]["approved_by"], "^ann .*: PO 1$")
        self.must("ann", "approve", "refuse", str(numbers[2]), "--reason", "too dear")
        done = self.over(refused)
        self.assertEqual((done["status"], done["result"]["isError"], self.text(done["result"])), ("completed", True, "Refused by ann: too dear"))
        self.get(dropped, method="tasks/cancel")
        self.assertEqual(self.over(dropped)["status"], "cancelled")
        crib.wait_for("its request withdrawn", lambda: c.rows("SELECT state FROM assent WHERE id = ?", numbers[3]) == [(4,)])
        self.must("ann", "approve", "grant", str(numbers[1]))
        c.stop(signal.SIGKILL)                                  # used or not, run or not
        self.up()
        done = self.over(twin)
        self.assertIn((done["status"], self.lines()), (("completed", 2), ("failed", 1), ("failed", 2)))
        self.asking(approve="above: {/amount: 1001}")           # another version
        done = self.over(lapses)
        self.assertEqual((done["status"], done["result"]["isError"]), ("completed", True))
        self.assertIn("has lapsed; nothing has run", self.text(done["result"]))
        self.assertEqual(c.rows("SELECT count(*) FROM assent WHERE state = 5"), [(7,)])
        self.assertEqual(c.rows("SELECT count(*) FROM assent WHERE state IN (1, 2)"), [(0,)])
        self.verified()

    def test_ha06_a_round_whose_request_finds_no_room(self):
        """At the limit of a principal the task ends with an error of its tool; nobody was asked, and nothing ran."""
        self.asking()
        task, last = self.asked({"amount": 5000}), self.asked({"amount": 5000})
        for n in range(49):
            self.ask(args={**BIG, "amount": 2000 + n})
        self.assertTrue(self.answer(last))                      # the 50th
        self.peer.ask("tasks/update", {"taskId": task, "inputResponses": {"1:q": {"action": "accept", "content": {}}}}, crib.MODERN, EXT)
        done = self.over(task)
        self.assertEqual((done["status"], done["result"]["isError"]), ("completed", True))
        self.assertIn("too many calls wait for approval", self.text(done["result"]))
        self.crib.stop()
        with contextlib.closing(sqlite3.connect(self.crib.store / "toolcrib.db")) as db:        # four hours have gone
            db.execute("UPDATE assent SET due_us = asked_us + 1 WHERE task IS NULL AND id = (SELECT max(id) FROM assent)")
            db.commit()
        self.up()
        done = self.over(last)
        self.assertEqual((done["status"], done["result"]["isError"], self.lines()), ("completed", True, 0))
        self.assertIn("has lapsed; nothing has run", self.text(done["result"]))
        self.verified()

    def test_show(self):
        number = self.ask()
        self.must("ann", "approve", "refuse", str(number), "--reason", "no")
        number = self.ask(args={**BIG, "payee": "Sud\u200bwerft"})
        row, = self.rows("ann", "show", str(number))
        self.assertEqual(row["arguments"], '{"amount":4800,"payee":"Sud\\u{200b}werft","pin":"[redacted]"}')
        self.assertEqual((row["version"], row["hints"], row["before"]), (1, "none", "granted 0, refused 1 of 1 asked for"))
        self.assertRegex(row["yours"], r"^granted 0 of your last 1, median \d+ s$")
        self.assertNotIn("0815", json.dumps(row))
        row, = self.rows("root", "show", str(number))
        self.assertEqual((row["arguments"], row["what"]), (None, None))

    def test_rows_are_held_against_records(self):
        """Both verifiers find a yes that nobody gave, a use that was none, and a row that says what no record says."""
        c = self.crib
        used, open_ = self.ask(), self.ask(args={"amount": 9000})
        self.must("ann", "approve", "grant", str(used))
        self.runs()
        c.stop()
        kept = (c.store / "toolcrib.db").read_bytes()
        for sql, found in (("SELECT 1", False), (f"UPDATE assent SET state = 2 WHERE id = {used}", True),
                           (f"UPDATE assent SET state = 2, use_by_us = 1 WHERE id = {open_}", True),
                           (f"DELETE FROM assent WHERE id = {open_}", True), (f"DELETE FROM assent WHERE id = {used}", False),
                           (f"UPDATE assent SET digest = zeroblob(32) WHERE id = {open_}", True)):
            (c.store / "toolcrib.db").write_bytes(kept)
            db = sqlite3.connect(c.store / "toolcrib.db")
            db.execute(sql)
            db.commit()
            db.close()
            for words in ((crib.BUILD / "toolcrib-verify",), crib.sceptic()):
                said = subprocess.run([*words, c.store, *crib.evidence(c.store)], capture_output=True, text=True)
                self.assertEqual("ASSENT" in said.stdout, found, (sql, words, said.stdout, said.stderr))

    def test_what_is_too_long_to_be_shown_is_asked_of_nobody(self):
        room = 65536 - len(json.dumps({"amount": 5000, "payee": ""}))
        self.ask(args={"amount": 5000, "payee": "x" * room})
        got = self.call(args={"amount": 5000, "payee": "x" * (room + 1)})
        self.assertIn("too long to be shown", self.text(got))
        self.assertEqual(self.kinds().count("call.held"), 1)

    def test_bad_definitions(self):
        c = self.crib
        for block, want in (("{by: []}", "1 to 16"), ("{by: [\"finance\"]}", "group:NAME"), ("{by: [\"group:f\"], count: 9}", "count"),
                            ("{by: [\"group:f\"], above: {amount: 1}}", "pointer"), ("{by: [\"group:f\"], above: {/amount: x}}", "number"),
                            ("{by: [\"group:f\"], timeout: 1s}", "1m to 7d"), ("{by: [\"group:f\"], show: [/pin]}", "redacted"),
                            ("{by: [\"group:f\"], when: {tipe: 1}}", "tipe"), ("{by: [\"group:f\"], who: x}", "who")):
            path = c.dir / "bad.yaml"
            path.write_text(re.sub(r"approve: .*", "approve: " + block, PAY % "").replace("name: pay", "name: bad"))
            done = c.run("tool", "add", path)
            self.assertNotEqual(done.returncode, 0, block)
            self.assertIn(want, done.stderr, block)


if __name__ == "__main__":
    crib.main()
