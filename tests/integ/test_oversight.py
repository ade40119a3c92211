"""What the audit says of persons who decide (HA-09): audit approvals and audit oversight know who was asked for whom, what came of it
and how long it took, in the log of its tenant alone."""
import test_approve
from test_approve import BIG, PAY

import crib


class Oversight(test_approve.Persons):
    def rep(self, *words, **more):
        return self.crib.json("audit", *words)

    def decide(self):
        """One that is granted and runs, one that two must agree to, one that is refused, one that lapses."""
        numbers = [self.ask(), self.ask("pay_much"), self.ask(args={"amount": 5000}), self.ask(args={"amount": 6000})]
        self.must("ann", "approve", "grant", str(numbers[0]), "--reason", "PO 4711")
        self.ran = self.runs()["_meta"]["dev.toolcrib/callId"]
        self.must("ann", "approve", "grant", str(numbers[1]))
        self.must("boss", "approve", "grant", str(numbers[1]))
        self.must("root", "approve", "recall", str(numbers[1]))
        self.must("boss", "approve", "refuse", str(numbers[2]), "--reason", "too dear")
        self.crib.tool(PAY.replace("Pays an", "Pays one") % "")
        crib.wait_for("its end on record", lambda: "call.lapsed" in self.kinds())
        return numbers

    def test_ha09_approvals_and_oversight(self):
        c = self.crib
        a, b, refused, lapsed = self.decide()
        rows = self.rep("approvals", "--tenant", "acme")
        said = [(row["approval"], row["what"], row["by"], row["reason"]) for row in reversed(rows)]
        self.assertEqual(said, [
            (a, "asked", None, None), (b, "asked", None, None), (refused, "asked", None, None), (lapsed, "asked", None, None),
            (a, "granted", "ann (key ann)", "PO 4711"), (b, "agreed", "ann (key ann)", None), (b, "granted", "boss (key boss)", None),
            (b, "recalled", "key root (key root)", None), (refused, "refused", "boss (key boss)", "too dear"),
            (lapsed, "lapsed", None, "the definition or its grant changed")])
        self.assertEqual({(row["tenant"], row["principal"]) for row in rows}, {("acme", "bot")})
        for row in rows:
            self.assertEqual(row["seconds"] is None, row["what"] == "asked", row)
        self.assertEqual([row["approval"] for row in self.rep("approvals", "--tenant", "acme", "--tool", "pay_much")], [b] * 4)
        page = self.rep("approvals", "--tenant", "acme", "--limit", "3")
        self.assertEqual([row["what"] for row in page], ["lapsed", "refused", "recalled"])
        people = {row["value"]: row for row in self.rep("approvals", "--tenant", "acme", "--by", "person")}
        self.assertEqual(sorted(people), ["ann", "boss", "key root"])
        self.assertEqual([people["boss"][name] for name in ("asked", "agreed", "refused", "refused_percent")], [0, 1, 1, 50.0])
        self.assertEqual((people["ann"]["agreed"], people["ann"]["refused_percent"]), (2, 0.0))
        self.assertGreater(people["ann"]["median_seconds"], 0)
        tools = {row["value"]: row for row in self.rep("approvals", "--tenant", "acme", "--by", "tool")}
        self.assertEqual([tools["pay"][name] for name in ("asked", "agreed", "refused", "lapsed", "recalled")], [3, 1, 1, 1, 0])
        self.assertEqual([tools["pay_much"][name] for name in ("asked", "agreed", "refused", "lapsed", "recalled")], [1, 2, 0, 0, 1])
        row, = self.rep("approvals", "--tenant", "acme", "--by", "principal")
        self.assertEqual((row["value"], row["asked"]), ("bot", 4))
        seen = self.rep("oversight", "--tenant", "acme")
        self.assertEqual([(row["what"], row["answer"], row["by"], row["answered_by_caller"]) for row in reversed(seen)], [
            ("approval", "granted", "ann (key ann)", 0), ("approval", "recalled", "key root (key root)", 0),
            ("approval", "refused", "boss (key boss)", 0), ("approval", "lapsed", None, 0)])
        self.assertEqual([row["next_round"] for row in reversed(seen)], [self.ran, None, None, None])
        for report in ("approvals", "oversight"):
            self.assertEqual(self.rep(report, "--tenant", "other"), [])
        every = self.rep("approvals", "--by", "person")
        self.assertEqual({(row["tenant"], row["value"]) for row in every}, {("acme", name) for name in people})
        self.assertNotEqual(c.run("audit", "approvals", "--tenant", "acme", "--by", "day").returncode, 0)
        whole = [self.rep(*words) for words in (("approvals",), ("oversight",), ("approvals", "--tenant", "acme", "--by", "tool"))]
        c.stop()
        c.cli("migrate", "--fold")                              # the same of blocks
        self.up()
        again = [self.rep(*words) for words in (("approvals",), ("oversight",), ("approvals", "--tenant", "acme", "--by", "tool"))]
        self.assertEqual(again, whole)
        self.verified()


if __name__ == "__main__":
    crib.main()
