"""The reviewer's reports: what was refused, what administrators did, how the tools fare (AUDIT 12)."""
import csv
import io
import json
import re
import sqlite3

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
        self.assertTrue(0 <= rows["echo"]["p50_ms"] <= rows["echo"]["p95_ms"] <= rows["echo"]["max_ms"] < 20000)
        self.assertTrue(0 < rows["fail"]["p50_ms"] <= rows["fail"]["p95_ms"] <= rows["fail"]["max_ms"] < 20000, "a program takes time")
        self.assertEqual(rows["strict"]["max_ms"], 0)
        self.assertRegex(self.crib.cli("audit", "tool-health", "--tenant", "acme", "--tool", "fail"), r"(?m)^fail +1 +0 +1 ")

    ALL = ["calls --tenant acme", "calls --tenant acme --group-by client,obo,tool,principal,key,outcome,transport,revision,day",
           "denied --tenant acme", "denied --tenant acme --by rule", "auth-failures", "auth-failures --by source", "admin", "access",
           "credential {key}", "credential {key} --timeline", "credentials", "subject acme/bot", "subject acme/bot --export", "coverage",
           "coverage --tenant acme", "sample --tenant acme -n 3 --seed 7", "sample --kind tool.register", "after-revocation", "continuity",
           "continuity --executions", "clock", "erasures", "blast-radius --key {key}", "blast-radius --tool-hash 00", "drift", "config",
           "isolation", "key-history", "dual-control", "reviews", "anomalies --tenant acme", "sandbox", "oversight", "capacity",
           "capacity --events", "anchors", "tool-health --tenant acme", "stats"]

    def use(self):
        peer = self.crib.http(self.key)
        for _ in range(3):
            peer.call("echo", {"text": "x"}, rev=crib.MODERN)
        peer.call("strict", {}, rev=crib.MODERN)
        peer.call("=1+1", {}, rev=crib.MODERN)
        peer.close()

    def words(self, report):
        return ["audit", *report.format(key=self.key.split("_")[1]).split()]

    def test_every_report_has_a_header_and_its_columns(self):
        """AUDIT A-1101: what was looked at, what vouches for it, who asked; the same columns in each format."""
        self.use()
        for report in self.ALL:
            done = self.crib.run(*self.words(report), "--format", "json")
            self.assertEqual((done.returncode, done.stderr), (0, ""), report)
            said = json.loads(done.stdout)
            header = said["header"]
            for member in ("report", "asked", "at", "log", "since", "until", "records", "pruned", "erasures", "checkpoint", "anchor",
                           "verified", "must_be_empty"):
                self.assertIn(member, header, report)
            self.assertIn(self.words(report)[1], header["asked"])
            self.assertTrue(said["columns"], report)
            self.assertTrue(all(list(row) == said["columns"] for row in said["rows"]), report)
            self.assertFalse(header["must_be_empty"] and said["rows"], report)

    def test_formats_say_the_same(self):
        self.use()
        report = ("audit", "denied", "--tenant", "acme")
        whole = json.loads(self.crib.cli(*report, "--format", "json"))
        lines = [json.loads(line) for line in self.crib.cli(*report, "--format", "jsonl").splitlines()]
        self.assertEqual(lines[0]["columns"], whole["columns"])
        self.assertEqual(lines[1:], whole["rows"])
        self.assertEqual(self.crib.json(*report), whole["rows"], "--json leaves the header out")
        done = self.crib.run(*report, "--format", "csv")
        self.assertIn("audit denied of acme", done.stderr, "the header of a csv is no part of it")
        rows = list(csv.reader(io.StringIO(done.stdout)))
        self.assertEqual(rows[0], whole["columns"])
        self.assertEqual([dict(zip(rows[0], row))["rule"] for row in rows[1:]], ["unknown_tool", "schema"])
        self.crib.key("acme/formula", "--label", "=1+1")
        rows = list(csv.DictReader(io.StringIO(self.crib.cli("key", "list", "acme", "--review", "--format", "csv"))))
        self.assertEqual(next(r["label"] for r in rows if r["principal"] == "acme/formula"), "'=1+1")
        table = self.crib.cli(*report)
        self.assertTrue(table.startswith("report    audit denied of acme, log "))
        self.assertIn("\n\nTIME ", table)
        self.assertNotIn("report", self.crib.cli("--quiet", *report))

    def test_a_verification_is_in_the_headers_from_then_on(self):
        header = json.loads(self.crib.cli("audit", "coverage", "--tenant", "acme", "--format", "json"))["header"]
        self.assertEqual(header["verified"], "never")
        self.crib.cli("audit", "verify")
        header = json.loads(self.crib.cli("audit", "coverage", "--tenant", "acme", "--format", "json"))["header"]
        self.assertRegex(header["verified"], "^20")

    def test_wrong_questions_are_told(self):
        for words, said in ((["denied"], "--tenant"), (["denied", "--tenant", "acme", "--by", "size"], "one of: rule tool"),
                            (["calls", "--tenant", "acme", "--group-by", "tool,size"], '"size" is none'),
                            (["calls", "--tenant", "acme", "--format", "xml"], "table, json, jsonl or csv"),
                            (["calls", "--tenant", "acmee"], "did you mean acme?"),
                            (["calls", "--tenant", "acme", "--principal", "bott"], "did you mean bot?"),
                            (["calls", "--tenant", "acme", "--outcome", "good"], "tool_error"), (["blast-radius"], "--tool-hash"),
                            (["credential", "abcdefghijkl"], "not found"),
                            (["blast-radius", "--tenant", "other", "--key", self.key.split("_")[1]], "not found"),
                            (["calls", "--tenant", "other", "--principal", "acme/bot"], "not found"), (["sample", "--kind", "gold"], "none")):
            done = self.crib.run("audit", *words)
            self.assertIn(done.returncode, (1, 2), words)
            self.assertIn(said, done.stderr, words)

    def test_samples_can_be_taken_again(self):
        """A-Q08: by the rule in the help, from the positions alone."""
        self.use()
        rows = self.crib.json("audit", "sample", "--tenant", "acme", "-n", "2", "--seed", "7")
        again = self.crib.json("audit", "sample", "--tenant", "acme", "-n", "2", "--seed", "7")
        self.assertEqual(rows, again)
        calls = [r["index"] for r in self.crib.json("audit", "sample", "--tenant", "acme", "-n", "1000")]
        p = 2147483647

        def hashed(i, s):
            x = (48271 * i + 69621 * s + 1) % p
            return ((x * x + s) % p) ** 2 % p + x

        want = sorted(calls, key=lambda i: hashed(i, 7) % p)[:2]
        self.assertEqual([r["index"] for r in rows], sorted(want))

    def test_removed_tenants_can_still_be_asked_for(self):
        self.use()
        self.crib.cli("tenant", "remove", "acme", "--yes")
        log = next(r for r in self.crib.json("audit", "capacity") if r["tenant"] and r["tenant"].startswith("acme~"))
        self.assertEqual(len(self.crib.json("audit", "calls", "--tenant", log["tenant"])), 5)

    def test_a_chart_is_drawn(self):
        self.use()
        chart = self.crib.run("audit", "stats", "--since", "10m", "--step", "1h", env={"LC_ALL": "C", "COLUMNS": "100"}).stdout
        self.assertRegex(chart, r"(?m)#{20,}!+ +5 +2 ")
        chart = self.crib.run("audit", "stats", "--since", "10m", "--step", "1h", env={"LC_ALL": "C.UTF-8"}).stdout
        self.assertIn("\u2588", chart)
        self.assertEqual(sum(r["calls"] for r in self.crib.json("audit", "stats", "--since", "10m")), 5)


class Doctored(crib.Case):
    """Reports that must be empty, on a copy of the store in which somebody put what must not be there."""

    def setUp(self):
        super().setUp()
        c = self.crib.init().start()
        c.tool(crib.ECHO)
        self.keys = [c.tenant("acme", "echo"), c.tenant("other", "echo")]
        for key in self.keys:
            peer = c.http(key)
            peer.call("echo", {"text": "x"}, rev=crib.MODERN)
            peer.close()
        c.stop()
        copy = c.dir / "copy.db"
        c.cli("backup", copy)
        self.db = sqlite3.connect(copy)
        self.addCleanup(self.db.close)
        text = (crib.SOURCE / "sql/queries/report.sql").read_text()
        self.sql = dict(re.findall(r"(?ms)^-- name: (\w+)\n(.*?);\n", text))

    def found(self, name, log):
        values = [log, 0, 2**62, None, None, None, -1, 100, 2**62, 2**62, None, 0]
        count = max(int(n) for n in re.findall(r"\?(\d+)", self.sql[name]))
        return self.db.execute(self.sql[name], values[:count]).fetchall()

    def both(self, name):
        return sum(len(self.found(name, log)) for log in (2, 3))

    def test_a_key_in_the_log_of_another_tenant(self):
        """A-Q28."""
        self.assertEqual(self.both("report_isolation"), 0)
        self.db.execute("UPDATE cred SET tenant_id = 3 - tenant_id")
        self.assertEqual(self.both("report_isolation"), 2)

    def test_a_definition_that_was_never_stored(self):
        """A-Q26."""
        self.assertEqual(self.both("report_drift"), 0)
        self.db.execute("UPDATE tool_version SET digest = zeroblob(32)")
        self.assertEqual(self.both("report_drift"), 2)

    def test_a_call_that_began_after_its_key_was_revoked(self):
        """A-Q16: by position, whatever the clock said."""
        self.assertEqual(self.both("report_after_revocation"), 0)
        columns = "enc, ts, cred, prn, actor, authn"
        self.db.execute(f"INSERT INTO rec(log, idx, kind, {columns}) SELECT log, 0 - idx, 1203, {columns} FROM rec "
                        "WHERE kind = 1201 AND log = 2")
        self.assertEqual(self.both("report_after_revocation"), 1)

    def test_destruction_that_nobody_else_approved(self):
        """A-Q30."""
        self.db.execute("INSERT INTO rec(enc, log, idx, kind, ts) VALUES(1, 2, 1000, 1906, 5)")
        self.assertEqual(self.both("report_dual_control"), 1)
        approver = b"uid 7"
        ext = b"\x01\x06" + len(approver).to_bytes(4, "big") + approver
        self.db.execute("INSERT INTO rec(enc, log, idx, kind, ts, ext) VALUES(1, 2, 1001, 1906, 5, ?)", (ext,))
        self.assertEqual(self.both("report_dual_control"), 1)

    def test_a_call_while_the_audit_failed(self):
        """A-Q18."""
        self.assertEqual(self.both("report_continuity_executions"), 0)
        fail = "INSERT INTO rec(enc, log, idx, kind, ts, dur) SELECT 1, 1, {}, 1610, {} FROM rec WHERE kind = 1002"
        self.db.execute(fail.format(100000, "min(ts - dur) - 1, 5000000"))
        self.db.execute(fail.format(100001, "max(ts) + 5000000, 5000000 - 1"))
        self.assertEqual(self.both("report_continuity_executions"), 0)
        self.db.execute(fail.format(100002, "max(ts) + 1, max(ts) - min(ts - dur) + 2"))
        self.assertEqual(self.both("report_continuity_executions"), 2)


if __name__ == "__main__":
    crib.main()
