"""A grant asks a person as a tool does, and where both ask both are met; what it asks is part of what is agreed to (HA-01)."""
import json
import re
import sqlite3

import crib
from test_approve import PAY, Persons

FREE = PAY[:PAY.index("approve:")].replace("name: pay", "name: buy")
SALES = {"by": ["group:sales"], "above": {"/amount": 500}}
TEXT_MAX = 2048


class Granted(Persons):
    PEOPLE = {**Persons.PEOPLE, "bea": "person: bea, groups: [finance, sales]"}

    def grant(self, verb, tool, *words):
        return self.crib.cli("grant", verb, "acme", tool, *words)

    def rule(self, tool, rule):
        self.grant("set", tool, "--approve", json.dumps(rule))

    def setUp(self):
        super().setUp()
        self.crib.tool(FREE)
        for tool in ("pay", "buy"):
            self.grant("add", tool)

    def test_ha01_a_grant_asks_for_its_tenant_alone(self):
        c = self.crib
        self.runs("buy")
        self.rule("buy", SALES)
        self.runs("buy", {"amount": 500})
        self.runs("buy", peer=c.http(self.other))
        number = self.ask("buy")
        self.assertEqual(self.rows("ann", "list"), [])
        row, = self.rows("eve", "list")
        self.assertEqual((row["id"], row["needs"], row["what"]), (number, "1 of sales", 'amount=4800 payee="Nordwerft" pin="[redacted]"'))
        self.assertIn("is none of them", self.by("ann", "approve", "grant", str(number)).stderr)
        self.must("eve", "approve", "grant", str(number), "--reason", "PO 4711")
        before = self.begun()
        got = self.runs("buy")
        self.assertEqual(self.begun(), before + 1)
        begin = next(row for row in c.json("audit", "show", got["_meta"]["dev.toolcrib/callId"]) if row["kind"] == "call.begin")
        self.assertRegex(begin["approved_by"], r"^eve \(key eve\) at \S+Z: PO 4711$")
        self.assertEqual(begin["approval"], number)
        listed = {row["tool"]: row["approve"] for row in c.json("grant", "list", "acme")}
        self.assertEqual(listed, {"*": None, "pay": None, "buy": SALES})
        said = c.rows("SELECT detail FROM v_records WHERE kind = 'grant.change'")
        self.assertIn('approve: {"above":{"/amount":500},"by":["group:sales"]}', said[-1][0])
        self.documents_have_it_and_bad_ones_are_refused()
        self.verified()

    def test_ha01_where_both_ask_both_are_met(self):
        c = self.crib
        self.rule("pay", {**SALES, "timeout": "1h", "show": ["/payee", "/pin"]})
        only = self.ask(args={"amount": 700})                   # below what the tool asks for
        self.assertEqual(self.rows("ann", "list"), [])
        self.must("eve", "approve", "grant", str(only))
        self.runs(args={"amount": 700})
        got = self.call()
        self.assertRegex(self.text(got), r"^The call waits for approval \d+ by finance or boss, and sales until ")
        number = self.ask()
        row, = self.rows("ann", "list")
        self.assertEqual((row["id"], row["needs"]), (number, "finance or boss, and sales"))
        asked, until = (c.rows(f"SELECT {col} FROM assent WHERE id = ?", number)[0][0] for col in ("asked_us", "due_us"))
        self.assertEqual(until - asked, 3600 * 1000000)         # the shorter one
        for name in ("ann", "boss"):                            # two of the same side are not one of each
            self.assertIn("agrees, and 1 more must", self.must(name, "approve", "grant", str(number)))
            self.assertEqual(self.ask(), number)
        self.assertIn("granted by eve", self.must("eve", "approve", "grant", str(number)))
        got = self.runs()
        begin = next(row for row in c.json("audit", "show", got["_meta"]["dev.toolcrib/callId"]) if row["kind"] == "call.begin")
        self.assertEqual(re.findall(r"(\w+) \(key", begin["approved_by"]), ["ann", "boss", "eve"])
        one = self.ask(args={"amount": 9000, "payee": "x"})     # who is of both agrees for both
        self.must("bea", "approve", "grant", str(one))
        self.runs(args={"amount": 9000, "payee": "x"})
        # A yes for one side does not stand when the role of the other is lost.
        two = self.ask(args={"amount": 9001})
        self.must("ann", "approve", "grant", str(two))
        self.must("eve", "approve", "grant", str(two))
        self.roles["eve"] = self.roles["eve"].replace("groups: [sales]", "groups: [other]")
        c.config(self.conf())
        c.cli("reload")
        crib.wait_for("its end on record", lambda: c.rows("SELECT state FROM assent WHERE id = ?", two) == [(4,)])
        self.assertNotEqual(self.ask(args={"amount": 9001}), two)
        self.verified()

    def test_ha01_another_rule_of_the_grant_is_another_request(self):
        c = self.crib
        self.rule("pay", SALES)
        waits, granted = self.ask(args={"amount": 600}), self.ask(args={"amount": 601})
        self.must("eve", "approve", "grant", str(granted))
        self.grant("set", "pay", "--concurrency", "7")          # that is none of its business
        self.assertEqual(self.ask(args={"amount": 600}), waits)
        self.rule("pay", {**SALES, "above": {"/amount": 400}})
        crib.wait_for("their ends", lambda: c.rows("SELECT state, said FROM assent ORDER BY id") ==
                      [(4, "the definition or its grant changed")] * 2)
        again = self.ask(args={"amount": 601})
        self.assertGreater(again, granted)
        self.grant("set", "pay", "--no-approve")
        crib.wait_for("its end", lambda: c.rows("SELECT state FROM assent WHERE id = ?", again) == [(4,)])
        self.runs(args={"amount": 601})
        number = self.ask()                                     # asked by the tool alone
        self.rule("pay", {**SALES, "above": {"/amount": 90000}})        # a rule that would not ask of it changes it as well
        crib.wait_for("its end", lambda: c.rows("SELECT state FROM assent WHERE id = ?", number) == [(4,)])
        number = self.ask()
        self.must("ann", "approve", "grant", str(number))       # the tool's persons alone
        c.stop()                                                # and over a start
        self.up()
        self.runs()
        self.nobody_gets_around_it()

    def documents_have_it_and_bad_ones_are_refused(self):
        c = self.crib
        text = c.cli("export", "--tenant", "acme")
        self.assertIn("group:sales", text)
        file = c.dir / "acme.yaml"
        file.write_text(text)
        self.assertNotRegex(c.cli("apply", "-f", file), "changed|added")
        file.write_text(text.replace("500", "501"))
        self.assertIn("grant", c.cli("apply", "-f", file))
        self.assertEqual(c.rows("SELECT approve FROM tool_grant WHERE approve NOT NULL"), [('{"above":{"/amount":501},"by":["group:sales"]}',)])
        frame = len(json.dumps({"by": ["group:sales"], "when": {"title": ""}}, separators=(",", ":")))
        for more, want in ((0, None), (1, "at most 2048 bytes")):
            rule = {"by": ["group:sales"], "when": {"title": "x" * (TEXT_MAX - frame + more)}}
            done = c.run("grant", "set", "acme", "buy", "--approve", json.dumps(rule))
            self.assertEqual(done.returncode == 0, want is None, done.stderr)
            self.assertIn(want or "", done.stderr)
        for tool, words, want in (("buy", ("--approve", '{"by":[]}'), "must name 1 to 16 groups and persons"),
                                  ("buy", ("--approve", '{"by":["group:x"],"asks":["tool"]}'), "--approve at /asks: is not known here"),
                                  ("buy", ("--approve", '{"by":["group:x"]}', "--no-approve"), "contradict each other"),
                                  ("prompt:x", ("--approve", '{"by":["group:x"]}'), "not of prompts and resources"),
                                  ("buy", ("--approve", "[]"), "")):
            done = c.run("grant", "set", "acme", tool, *words)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(want, done.stderr)
        done = c.run("tool", "add", "-", stdin=PAY.replace("approve: {", 'approve: {asks: [tool], ') % "")
        self.assertNotEqual(done.returncode, 0)

    def nobody_gets_around_it(self):
        """A tenant's own administrator does not take back the grant that asks, so that a broader one speaks; two administrators, where
        versions need them, ask for less; a row that was edited shows no tool."""
        c = self.crib
        self.roles["own"] = ""
        done = c.run("admin-key", "own")
        self.files["own"] = c.dir / "own.key-file"
        self.files["own"].write_text(done.stdout.strip() + "\n")
        self.files["own"].chmod(0o600)
        self.roles["own"] = "- " + done.stderr[done.stderr.index("{"):].strip().replace("operator", "tenant-admin, tenant: acme")
        c.config(self.conf())
        c.cli("reload")
        self.rule("buy", SALES)
        done = self.by("own", "grant", "remove", "acme", "buy", "--yes")
        self.assertEqual(done.returncode, 1)
        self.assertIn("asks a person, and is taken back by who may set that", done.stderr)
        self.grant("set", "pay", "--no-approve")
        self.must("own", "grant", "remove", "acme", "pay", "--yes")
        c.cli("approval", "versions", "required")
        c.cli("approval", "policy", "two")
        for words in (("set", "acme", "buy", "--no-approve"), ("remove", "acme", "buy", "--yes"),
                      ("set", "acme", "buy", "--approve", '{"by":["group:finance"]}')):
            done = c.run("grant", *words)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertRegex(done.stderr, "approval|second", words)
        c.stop()
        db = sqlite3.connect(c.store / "toolcrib.db")
        with db:
            db.execute("UPDATE tool_grant SET approve = NULL WHERE glob = 'buy'")
        db.close()
        with self.assertRaisesRegex(AssertionError, "the row grant/.* was written behind the log"):
            self.up()


if __name__ == "__main__":
    crib.main()
