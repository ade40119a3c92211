"""The reviewer's reports: what was refused, what administrators did, how the tools fare (AUDIT 12)."""
import contextlib
import csv
import io
import json
import re
import sqlite3
import struct
import subprocess
import time

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
        calls = self.crib.json("audit", "calls", "--tenant", "acme")
        denied = self.crib.json("audit", "denied", "--tenant", "acme")
        rows = self.crib.json("audit", "admin", "--tenant", "acme")
        kinds = [r["kind"] for r in rows]
        self.assertEqual(kinds[:5], 5 * ["audit.read"])
        self.assertEqual([r["detail"].partition("audit ")[2] for r in rows[:5]],
                         ["admin tenant=acme", f"denied tenant=acme: done, {len(denied)} rows", "denied tenant=acme",
                          f"calls tenant=acme: done, {len(calls)} rows", "calls tenant=acme"])
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
           "coverage --tenant acme", "sample --tenant acme -n 3 --seed 7", "sample --tenant acme --method hash",
           "sample --kind tool.register", "sample --kind tool.register --method hash", "after-revocation", "continuity",
           "continuity --executions", "clock", "erasures", "blast-radius --key {key}", "blast-radius --tool-hash 00", "drift", "config",
           "isolation", "key-history", "dual-control", "reviews", "anomalies --tenant acme", "sandbox", "oversight", "approvals",
           "approvals --tenant acme --by person", "tasks", "tasks --tenant acme --open", "tasks --by state", "capacity",
           "capacity --events", "capacity --tables", "segments", "anchors", "tool-health --tenant acme", "stats"]

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
            self.assertEqual("logs" in header, header["log"] == "all", report)
            for log in header.get("logs", [header]):
                self.assertIn("verified", log, report)
                self.assertTrue(0 <= log["from"] <= log["to"] < log["records"], report)

    def test_sc002_a_report_on_several_logs_says_how_far_it_read_each(self):
        """SC-002: positions, checkpoint and verification of each log; together they stand on the one that is worst off."""
        c = self.crib
        self.use()
        c.cli("audit", "checkpoint")

        def header(*words):
            return json.loads(c.cli("audit", *words, "--format", "json"))["header"]

        sizes = dict(c.rows("SELECT l.origin, h.size FROM log l JOIN head h ON h.log = l.id"))
        said = header("access")
        self.assertEqual([(log.get("tenant"), log["from"]) for log in said["logs"]], [(None, 0), ("acme", 0), ("other", 0)])
        for log in said["logs"]:
            self.assertEqual(log["to"], log["records"] - 1)
            self.assertGreaterEqual(log["records"], sizes[log["log"]])
            self.assertGreater(log["signed"], 0)
            self.assertEqual((log["verified"], log["verified_as"]), ("never", None))
        self.assertEqual(said["records"], sum(log["records"] for log in said["logs"]))
        self.assertEqual([log["tenant"] for log in header("calls")["logs"]], ["acme", "other"], "the system's is not read")
        c.cli("audit", "verify", "--tenant", "acme")
        c.cli("audit", "checkpoint")
        one, whole = header("calls", "--tenant", "acme"), header("calls")
        self.assertEqual(one["verified_as"], "INTACT")
        self.assertNotIn("logs", one)
        self.assertEqual([log["verified_as"] for log in whole["logs"]], ["INTACT", None])
        self.assertEqual((whole["verified"], whole["verified_as"]), ("never", None), "nobody looked at the other")
        c.cli("audit", "verify")
        c.cli("audit", "checkpoint")
        whole = header("calls")
        self.assertEqual([log["verified_as"] for log in whole["logs"]], ["INTACT", "INTACT"])
        self.assertEqual(whole["verified_as"], "INTACT")
        later = header("calls", "--since", whole["at"])
        self.assertEqual([log["to"] for log in later["logs"]], [log["records"] - 1 for log in later["logs"]], "its own records")
        self.assertTrue(all(log["from"] > 0 for log in later["logs"]), later)
        table = c.cli("audit", "calls")
        self.assertRegex(table, r"(?m)^logs      2: acme 0 to \d+, other 0 to \d+$")
        self.assertRegex(c.run("audit", "calls", "--format", "csv").stderr, r"(?m)^logs      2: acme 0 to ")
        self.assertIn('"logs":[', c.cli("audit", "calls", "--format", "jsonl").splitlines()[0])
        for i in range(4):
            c.tenant(f"more{i}")
        self.assertRegex(c.cli("audit", "calls"), r"(?m)^logs      6: acme 0 to .*, more2 0 to \d+, …; json names them$")

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
        self.crib.cli("audit", "checkpoint")
        self.assertRegex(self.header()["verified"], "^20")
        self.assertEqual(self.header()["verified_as"], "INTACT")

    def header(self):
        return json.loads(self.crib.cli("audit", "coverage", "--tenant", "acme", "--format", "json"))["header"]

    def edit(self, sql, *values):
        """Somebody who writes the file, while no server runs."""
        self.crib.stop()
        with contextlib.closing(sqlite3.connect(self.crib.store / "toolcrib.db", isolation_level=None, timeout=60)) as db:
            triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'rec'").fetchall()
            db.execute("BEGIN IMMEDIATE")
            for name, _ in triggers:
                db.execute(f"DROP TRIGGER {name}")
            self.assertEqual(db.execute(sql, values).rowcount, 1, sql)
            for _, text in triggers:
                db.execute(text)
            db.execute("COMMIT")
        self.crib.start()

    def test_g12_what_came_of_a_verification_is_said_and_no_row_says_it(self):
        """FORGERY G-12: after DAMAGED the header says so, from the record, as that was signed."""
        c = self.crib
        before = c.rows("SELECT ts FROM rec WHERE log = 2 AND kind = 1405 AND idx = 1")[0][0]
        self.edit("UPDATE rec SET ts = ts + 1 WHERE log = 2 AND kind = 1405 AND idx = 1")
        self.assertEqual(c.run("audit", "verify").returncode, 4)
        c.cli("audit", "checkpoint")
        self.assertEqual(self.header()["verified_as"], "DAMAGED")
        self.assertRegex(c.cli("audit", "coverage", "--tenant", "acme"), "(?m)^verified  DAMAGED, 20")
        self.edit("UPDATE rec SET ts = ? WHERE log = 2 AND kind = 1405 AND idx = 1", before)
        self.edit("UPDATE rec SET ext = CAST(replace(ext, 'DAMAGED', 'INTACT!') AS BLOB) WHERE kind = 1803")
        header = self.header()
        self.assertEqual((header["verified"], header["verified_as"]), (None, "unknown: its record was changed"))
        self.edit("UPDATE rec SET ext = CAST(replace(ext, 'INTACT!', 'DAMAGED') AS BLOB) WHERE kind = 1803")
        self.assertEqual(self.header()["verified_as"], "DAMAGED")

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
        """A-Q08, SC-404: those of releases before 0.2, by the rule in the help, from the positions alone."""
        self.use()
        sample = ("audit", "sample", "--tenant", "acme", "--method", "hash")
        rows = self.crib.json(*sample, "-n", "2", "--seed", "7")
        again = self.crib.json(*sample, "-n", "2", "--seed", "7")
        self.assertEqual(rows, again)
        calls = [r["index"] for r in self.crib.json(*sample, "-n", "1000")]
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

    def test_spans_begin_with_their_first_moment_and_end_before_their_last(self):
        """Since is inclusive, until exclusive, whatever is asked."""
        c = self.crib
        self.use()
        rows = c.json("audit", "calls", "--tenant", "acme")
        span = ("--tenant", "acme", "--since", rows[2]["time"], "--until", rows[0]["time"])
        self.assertEqual(c.json("audit", "calls", *span), rows[1:3])
        self.assertEqual([r["call"] for r in c.json("audit", "export", *span) if r.get("kind") in ("call.end", "call.denied")],
                         [r["call"] for r in rows[2:0:-1]])
        self.assertEqual(c.json("audit", "calls", "--group-by", "tenant", *span)[0]["calls"], 2)
        c.cli("audit", "checkpoint")
        done, = c.json("audit", "bundle", "acme", c.dir / "b.tar", "--since", rows[2]["time"], "--until", rows[0]["time"])
        times = c.rows("SELECT min(ts), max(ts) FROM v_records WHERE log_id = 2 AND idx BETWEEN ? AND ? AND kind_code > 1001",
                       done["from"], done["to"])
        self.assertEqual([r["time"] for r in c.json("audit", "calls", *span)][::-1],
                         [t for t, in c.rows("SELECT time FROM v_records WHERE ts IN (?, ?) AND log_id = 2 ORDER BY ts", *times[0])])
        for words in (["calls", *span[:3], rows[0]["time"], "--until", rows[0]["time"]], ["stats", "--since", "1h", "--until", "2h"]):
            done = c.run("audit", *words)
            self.assertEqual(done.returncode, 1)
            self.assertIn("--until is not after --since", done.stderr)

    def test_n14_a_review_does_not_count_its_own_record(self):
        """N-14: `to` is the last record that was read, and the signature is one behind it."""
        c = self.crib
        row, = c.json("audit", "review", "sign", "--tenant", "acme", "--note", "seen")
        self.assertEqual(row["to"], row["index"] - 1)
        self.assertEqual(c.rows("SELECT range_from, range_to FROM v_records WHERE log_id = 2 AND kind_code = 1804"), [(0, row["index"])])
        done = c.run("audit", "review", "sign", "--tenant", "acme", "--until", "1h")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no records of that time", done.stderr)

    def test_n14_the_records_of_a_call_name_the_definition(self):
        """N-14: the table as well, by the digest that `tool history` has."""
        c = self.crib
        self.use()
        digest = c.json("tool", "history", "echo")[0]["digest"]
        call = next(r["call"] for r in c.json("audit", "calls", "--tenant", "acme") if r["tool"] == "echo")
        table = c.cli("audit", "show", call)
        self.assertIn(" DEFINITION ", table)
        self.assertIn(digest, table)

    def test_runs_of_commands_do_not_hide_those_of_the_server(self):
        c = self.crib
        c.stop()
        for _ in range(3):
            c.cli("tenant", "list")
        c.start()
        servers, all = (c.json("audit", "continuity", *more) for more in ((), ("--commands",)))
        self.assertEqual([r["how"] for r in servers], ["runs", "stop"])
        self.assertTrue(all[0]["detail"].startswith("daemon,"))
        self.assertGreaterEqual(sum(r["detail"].startswith("cli,") for r in all), 3)
        same = next(r for r in all if r["started"] == servers[1]["started"])
        self.assertGreater(servers[1]["down_s"], same["down_s"])

    def test_a_chart_is_drawn(self):
        self.use()
        chart = self.crib.run("audit", "stats", "--since", "10m", "--step", "1h", env={"LC_ALL": "C", "COLUMNS": "100"}).stdout
        self.assertRegex(chart, r"(?m)#{20,}!+ +5 +2 ")
        chart = self.crib.run("audit", "stats", "--since", "10m", "--step", "1h", env={"LC_ALL": "C.UTF-8"}).stdout
        self.assertIn("\u2588", chart)
        self.assertEqual(sum(r["calls"] for r in self.crib.json("audit", "stats", "--since", "10m")), 5)


class SeveralLogs(crib.Case):
    """Reports over every log: one list, and what a limit leaves out is the oldest of all."""

    def setUp(self):
        super().setUp()
        c = self.crib.init().start()
        c.tool(crib.ECHO)
        self.keys = {name: c.tenant(name, "echo") for name in ("acme", "other", "third")}

    def knock(self, key):
        peer = self.crib.http(key)
        ping = peer.request("ping", rev=crib.MODERN)
        self.assertEqual(peer.post(json.dumps(ping), peer.headers(ping))[0], 401)
        peer.close()

    def use(self, *names):
        peers = {name: self.crib.http(key) for name, key in self.keys.items()}
        for name in names:
            peers[name].call("echo", {"text": name}, rev=crib.MODERN)
        for peer in peers.values():
            peer.close()

    def test_n08_a_limit_takes_the_newest_of_all_logs(self):
        """N-08: the system's log came first, whatever was newer in a tenant's."""
        c = self.crib
        for name in ("acme", "other"):
            c.cli("key", "revoke", self.keys[name].split("_")[1], "--yes")
        knocks = [None, "acme", "other", None, "acme", "other", "acme"]
        for name in knocks:
            self.knock(self.keys[name] if name else "tck_" + "0" * 12 + "_" + "A" * 43)
        report = ("audit", "auth-failures", "--limit", "0")
        whole = crib.wait_for("all records", lambda: (rows := c.json(*report)) and len(rows) >= len(knocks) and rows)
        self.assertEqual([r["tenant"] for r in whole], knocks[::-1])
        self.assertEqual(sorted((r["time"] for r in whole), reverse=True), [r["time"] for r in whole])
        for n in (1, 2, 3, 6, 7, 8):
            self.assertEqual(c.json("audit", "auth-failures", "--limit", n), whole[:n], n)
        rows = c.json("audit", "auth-failures", "--by", "key")
        counted = [(r["tenant"], r["failures"]) for r in rows if r["tenant"]]
        self.assertEqual(counted, [("acme", 3), ("other", 2)])
        self.assertEqual(c.json("audit", "auth-failures", "--by", "key", "--limit", "1"), rows[:1])

    def test_n08_every_report_over_several_logs_is_by_time(self):
        """N-08: likewise what administrators and readers did."""
        c = self.crib
        for name in ("third", "acme", "other"):
            c.key(f"{name}/more")
            c.json("audit", "denied", "--tenant", name)
        for report in ("access", "credentials", "erasures", "config", "key-history", "dual-control", "reviews"):
            rows = c.json("audit", report, "--limit", "0")
            self.assertEqual(sorted((r["time"] for r in rows), reverse=True), [r["time"] for r in rows], report)
        self.assertEqual([r["tenant"] for r in c.json("audit", "credentials", "--limit", "2")], ["other", "acme"])

    def test_calls_of_all_tenants_are_one_list(self):
        """Without --tenant: merged page by page, and what was read is recorded in each log that was asked."""
        c = self.crib
        self.use(*("acme", "other", "acme", "third", "acme") * 8)
        each = {name: c.json("audit", "calls", "--tenant", name, "--limit", "0") for name in self.keys}
        whole = sorted((r for rows in each.values() for r in rows), key=lambda r: r["time"], reverse=True)
        self.assertEqual(len(whole), 40)
        for n in (1, 2, 7, 39, 40, 41, 0):
            self.assertEqual(c.json("audit", "calls", "--limit", n), whole[:n or 40], n)
        self.assertEqual(c.json("audit", "calls", "--tool", "echo", "--outcome", "ok", "--limit", "5"), whole[:5])
        key = self.keys["third"].split("_")[1]
        self.assertEqual(c.json("audit", "calls", "--key", key, "--limit", "0"), each["third"])
        self.assertEqual(c.json("audit", "admin", "--tenant", "other", "--limit", "1")[0]["kind"], "audit.read")
        self.assertRegex(c.cli("audit", "calls", "--limit", "1"), r"TIME +TENANT +TOOL[\s\S]* acme +echo +bot +ok")

    def test_counts_of_all_tenants_are_added_up(self):
        c = self.crib
        self.use("acme", "other", "acme", "third", "acme")
        row, = c.json("audit", "calls", "--group-by", "tool")
        self.assertEqual((row["tool"], row["calls"], row["not_ok"], "tenant" in row), ("echo", 5, 0, False))
        times = [r["time"] for r in c.json("audit", "calls")]
        self.assertEqual((row["first"], row["last"]), (times[-1], times[0]))
        mean = sum(r["ms"] for r in c.json("audit", "calls")) / 5
        self.assertAlmostEqual(row["average_ms"], mean, delta=0.002)
        rows = c.json("audit", "calls", "--group-by", "principal")
        self.assertEqual([(r["tenant"], r["principal"], r["calls"]) for r in rows],
                         [("acme", "bot", 3), ("other", "bot", 1), ("third", "bot", 1)], "three people of one name")
        rows = c.json("audit", "calls", "--group-by", "tool,tenant", "--limit", "1")
        self.assertEqual([(r["tenant"], r["calls"]) for r in rows], [("acme", 3)])
        self.assertEqual([(r["tenant"], r["calls"]) for r in c.json("audit", "sandbox", "--limit", "1")], [("acme", 3)])

    def test_who_cannot_set_a_limit_gets_all_rows(self):
        """An access review that leaves keys out is none."""
        for _ in range(100):
            self.crib.set_up("key create", "acme/bot", principal="acme/bot")
        self.assertEqual(len(self.crib.json("key", "list", "acme", "--review")), 101)

    def test_a_sample_has_the_defaults_that_its_help_says(self):
        c = self.crib
        self.use(*["acme"] * 26)
        sample = ("audit", "sample", "--tenant", "acme")
        self.assertEqual(len(c.json(*sample)), 25)
        self.assertEqual(c.json(*sample), c.json(*sample, "--seed", "1", "-n", "25"))


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
        # what our programs make of records, one by one, for the span of time that is asked here
        self.db.execute(f"""CREATE TEMP VIEW rollup AS SELECT e.log AS log, 0 AS since, {2**62} AS until, e.kind AS kind,
            coalesce(e.tdef, b.tdef) AS tdef, e.dur AS dur_max, e.idx AS idx_min, e.idx AS idx_max
            FROM rec e LEFT JOIN rec b ON b.log = e.log AND b.idx = e.beg WHERE e.kind <> 1001""")
        text = (crib.SOURCE / "sql/queries/report.sql").read_text()
        self.sql = dict(re.findall(r"(?ms)^-- name: (\w+)\n(.*?);\n", text))

    def found(self, name, log):
        values = [log, 0, 2**62, None, None, None, -1, 100, 2**62, 0, None, 0]
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

    def forge(self, log, idx, kind, obj=None, **fields):
        tags = {"approver": 0x106, "detail": 0x113}
        ext = b"".join(struct.pack(">HI", tags[name], len(text)) + text.encode() for name, text in fields.items())
        if obj:
            self.db.execute("INSERT OR IGNORE INTO dict(kind, text) VALUES(112, ?)", (obj,))
        self.db.execute("INSERT INTO rec(enc, log, idx, kind, ts, ext, obj) VALUES(1, ?, ?, ?, 5, ?, "
                        "(SELECT id FROM dict WHERE kind = 112 AND text = ?))", (log, idx, kind, ext, obj))

    def test_destruction_that_nobody_else_approved(self):
        """A-Q30: without an approver, with one whom no record knows, by one alone, by whoever asked; not by two."""
        self.forge(1, 2000, 1910, "approval/7", detail="uid 0: erase tenant=acme")
        self.forge(1, 2001, 1911, "approval/7", approver="uid 7", detail="uid 7: approval grant id=7")
        self.forge(1, 2002, 1910, "approval/8", detail="uid 7 (cli): erase tenant=acme")
        self.forge(1, 2003, 1911, "approval/8", approver="uid 7", detail="uid 7: approval grant id=8")
        deeds = [("uid 7 approval/7", 0), ("uid 7", 1), ("none: approval policy one", 1), ("uid 8 approval/7", 1),
                 ("uid 7 approval/8", 1), ("uid 7 approval/9", 1)]
        self.forge(2, 1000, 1906, detail="uid 0: erase")
        said = 1
        self.assertEqual(self.both("report_dual_control"), said)
        for at, (approver, more) in enumerate(deeds, 1001):
            for kind in (1902, 1904, 1906):
                self.forge(2, at * 10 + kind, kind, approver=approver, detail="uid 0: something")
                said += more
                self.assertEqual(self.both("report_dual_control"), said, (approver, kind))

    def test_a_call_while_the_audit_failed(self):
        """A-Q18."""
        self.assertEqual(self.both("report_continuity_executions"), 0)
        fail = "INSERT INTO rec(enc, log, idx, kind, ts, dur) SELECT 1, 1, {}, 1610, {} FROM rec WHERE kind = 1002"
        self.db.execute(fail.format(100000, "min(ts - dur) - 1, 5000000"))
        self.db.execute(fail.format(100001, "max(ts) + 5000000, 5000000 - 1"))
        self.assertEqual(self.both("report_continuity_executions"), 0)
        self.db.execute(fail.format(100002, "max(ts) + 1, max(ts) - min(ts - dur) + 2"))
        self.assertEqual(self.both("report_continuity_executions"), 2)


class Capacity(crib.Case):
    """How large the store is, and how long there is room (SC-606)."""

    PAGES = 300

    def asked(self, *words):
        """Header and rows, of a store that nobody serves."""
        got = json.loads(self.crib.cli("audit", "capacity", *words, "--format", "json"))
        return got["header"], got["rows"]

    def pages(self, name):
        return self.crib.rows(f"SELECT * FROM pragma_{name}")[0][0]

    def count(self, days):
        return self.crib.rows("SELECT count(*) FROM rec WHERE ts >= ?", (time.time() - 86400 * days) * 1e6)[0][0]

    def check_room(self, head, records, a_day):
        """The days follow from what the header says; its numbers are rounded down."""
        each = (head["store_bytes"] - head["unused_bytes"]) / records
        self.assertEqual(head["bytes_per_record"], int(each))
        self.assertLessEqual(abs(head["records_a_day"] - a_day), 2)
        self.assertAlmostEqual(head["full_in_days"] / ((head["free_bytes"] + head["unused_bytes"]) / (a_day * each)), 1, delta=0.05)

    def test_sc606_a_week_of_an_older_store(self):
        """Records of the last week, and pages that wait to be used; before, these counted as bytes of the records."""
        self.crib.fill(2000, "--tenants", 2, "--days", 28)
        with contextlib.closing(sqlite3.connect(self.crib.store / "toolcrib.db")) as db:
            db.executescript("CREATE TABLE ballast(x);" + "INSERT INTO ballast VALUES(randomblob(4000));" * self.PAGES +
                             "DROP TABLE ballast;")
        head, rows = self.asked()
        self.check_room(head, sum(row["records"] for row in rows), self.count(7) / 7)
        self.assertGreater(self.count(28), 3 * self.count(7))
        self.assertGreater(head["unused_bytes"], 4096 * self.PAGES // 2)

    def test_sc606_a_store_of_today(self):
        """All its records came within a day, not within a week: before, the disk lasted seven times as long."""
        self.crib.init()
        head, rows = self.asked()
        records = sum(row["records"] for row in rows)
        self.check_room(head, records, records)

    def fold(self, *options):
        subprocess.run([crib.BUILD / "tests/bench/b_fold", self.crib.store, *map(str, options)], check=True, capture_output=True)

    def check_forms(self, rows):
        """What the header says of them is what the file has; how many of the records are rows alone."""
        head, _ = self.asked()
        alone = self.crib.rows("SELECT count(*) FROM rec r WHERE idx >= coalesce((SELECT max(first + cnt) FROM blk WHERE log = r.log), 0)")[0][0]
        blocks, taken = self.crib.rows("SELECT coalesce(sum(cnt), 0), sum(length(cols) + length(hash) + length(zone)) FROM blk")[0]
        # The stop has been recorded since.
        self.assertLess(alone - head["in_rows"], 10)
        self.assertGreaterEqual(alone, head["in_rows"])
        self.assertEqual(head["in_blocks"], blocks)
        self.assertEqual(head.get("bytes_in_block"), taken // blocks if blocks else None)
        self.assertEqual(head["plain_rows"] - head["in_rows"], rows)
        return head

    def test_sc606_records_of_each_form(self):
        """SC-606, SC-109: rows, blocks beside rows, blocks alone; from when on a plain sqlite3 has every record."""
        c = self.crib
        c.fill(3000, "--tenants", 2, "--level", "request")
        self.assertNotIn("plain_since", self.check_forms(0))
        self.fold("--block", 200, "--tail", 150, "--leftovers")
        folded = c.rows("SELECT sum(cnt) FROM blk")[0][0]
        self.assertEqual(self.check_forms(folded)["plain_since"], "the first record")
        with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db")) as db, db:
            gone = {log: db.execute("SELECT first + cnt, ts_max FROM blk WHERE log = ? ORDER BY first LIMIT 1 OFFSET 2", (log,)).fetchone()
                    for log in (2, 3)}
            for log, (to, _) in gone.items():
                db.execute("DELETE FROM rec WHERE log = ? AND idx < ?", (log, to))
        head = self.check_forms(folded - sum(to for to, _ in gone.values()))
        since = max(ts for _, ts in gone.values())
        self.assertEqual(head["plain_since"][:19], time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since // 1000000)))
        tables, rows = self.asked("--tables", "--limit", "0")
        by = {(row["table"], row["index"]): row for row in rows}
        for table, records in (("rec", tables["plain_rows"]), ("blk", tables["in_blocks"])):
            self.assertAlmostEqual(by[table, None]["bytes_per_record"], by[table, None]["bytes"] / records, delta=1)

    def test_sc606_each_table_and_index(self):
        """Sizes of the tail and its indexes, which come to those of the file."""
        self.crib.fill(2000, "--tenants", 2, "--level", "request")
        head, rows = self.asked("--tables", "--limit", "0")
        self.assertEqual(sum(row["bytes"] for row in rows) + head["unused_bytes"], head["store_bytes"])
        self.assertEqual(head["store_bytes"], self.pages("page_count") * self.pages("page_size"))
        named = self.crib.rows("SELECT tbl_name, CASE type WHEN 'index' THEN name END FROM sqlite_master WHERE rootpage > 0")
        self.assertEqual({(row["table"], row["index"]) for row in rows}, {*named, ("sqlite_schema", None)})
        self.assertEqual([row["bytes"] for row in rows], sorted((row["bytes"] for row in rows), reverse=True))
        by = {(row["table"], row["index"]): row for row in rows}
        for of in (("rec", None), ("pay", None), ("rec", "rec_ts")):
            self.assertAlmostEqual(by[of]["bytes_per_record"] / (by[of]["bytes"] / self.count(365)), 1, delta=0.01)
            self.assertEqual(by[of]["percent"], round(100 * by[of]["bytes"] / head["store_bytes"], 1))
        self.assertLess(by["rec", "rec_ts"]["bytes"], by["rec", None]["bytes"])
        self.assertGreater(by["rec", None]["bytes"] - by["rec", None]["unused_bytes"], 100 * 2000)


if __name__ == "__main__":
    crib.main()
