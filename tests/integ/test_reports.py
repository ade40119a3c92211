"""The reviewer's reports: what was refused, what administrators did, how the tools fare (AUDIT 12)."""
import crib

FAIL = crib.tool_yaml("fail", "{type: exec, argv: [/bin/false]}")
STRICT = crib.tool_yaml("strict", "{type: builtin, function: echo}",
                        "{type: object, properties: {text: {type: string}}, required: [text]}")


class Reports(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init().start()
        for name, text in (("echo", crib.ECHO), ("fail", FAIL), ("strict", STRICT)):
            c.tool(text, f"{name}.yaml")
        self.key, self.other = c.tenant("acme", "echo", "fail", "strict"), c.tenant("other", "echo")

    def test_refusals_say_who_and_why(self):
        """A-Q09: an ungranted tool, an unknown one, and arguments against the schema; nothing of another tenant's."""
        peer = self.crib.http(self.other)
        for name in ("fail", "no_such_tool"):
            self.assertIn("error", peer.call(name, {}, rev=crib.MODERN))
        peer.close()
        peer = self.crib.http(self.key)
        peer.call("strict", {}, rev=crib.MODERN)
        peer.call("echo", {"text": "fine"}, rev=crib.MODERN)
        peer.close()
        rows = self.crib.json("audit", "denied", "--tenant", "acme")
        self.assertEqual([(r["tool"], r["outcome"], r["principal"]) for r in rows], [("strict", "invalid", "bot")])
        rows = self.crib.json("audit", "denied", "--tenant", "other")
        self.assertEqual(len(rows), 2)
        self.assertEqual(len({r["rule"] for r in rows}), 1, "an ungranted tool is recorded as what it looks like")
        self.assertEqual(len(self.crib.json("audit", "denied", "--tenant", "other", "--limit", "1")), 1)
        self.assertEqual(self.crib.json("audit", "denied", "--tenant", "other", "--until", "1h"), [])

    def test_administrators_are_seen_and_so_are_readers(self):
        """A-Q11, A-Q12: in the log of the tenant that it concerns."""
        self.crib.json("audit", "calls", "--tenant", "acme")
        self.crib.json("audit", "denied", "--tenant", "acme")
        rows = self.crib.json("audit", "admin", "--tenant", "acme")
        kinds = [r["kind"] for r in rows]
        self.assertEqual(kinds[:2], ["audit.read", "audit.read"])
        self.assertIn("audit denied", rows[0]["detail"])
        self.assertEqual(kinds.count("grant.add"), 3)
        self.assertIn("cred.create", kinds)
        self.assertNotIn("call.end", kinds)
        store = [r["kind"] for r in self.crib.json("audit", "admin")]
        self.assertEqual(store.count("tool.register"), 3)
        self.assertIn("server.start", store)
        self.assertIn("admin.cmd", store)
        self.assertNotIn("grant.add", store)

    def test_tools_are_counted_by_what_became_of_them(self):
        """A-Q33."""
        peer = self.crib.http(self.key)
        for _ in range(20):
            peer.call("echo", {"text": "x"}, rev=crib.MODERN)
        peer.call("fail", {}, rev=crib.MODERN)
        for _ in range(2):
            peer.call("strict", {}, rev=crib.MODERN)
        peer.close()
        rows = {r["tool"]: r for r in self.crib.json("audit", "tool-health", "--tenant", "acme")}
        self.assertEqual(list(rows), ["echo", "fail", "strict"])
        self.assertEqual([rows[t][m] for t, m in (("echo", "ok"), ("fail", "errors"), ("strict", "refused"))], [20, 1, 2])
        self.assertTrue(all(r["calls"] == r["ok"] + r["errors"] + r["timeouts"] + r["refused"] + r["other"]
                            for r in rows.values()))
        self.assertTrue(0 < rows["echo"]["p50_ms"] <= rows["echo"]["p95_ms"] <= rows["echo"]["max_ms"] < 20000)
        self.assertEqual(rows["strict"]["max_ms"], 0)
        self.assertRegex(self.crib.cli("audit", "tool-health", "--tenant", "acme", "--tool", "fail"), r"(?m)^fail +1 +0 +1 ")


if __name__ == "__main__":
    crib.main()
