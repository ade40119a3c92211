"""Records become blocks while the server serves: whatever it answers, proves, erases and prunes is what it was, and a death in
between loses nothing (SCALE 6)."""
import json
import os
import shutil
import sqlite3
import subprocess
import sys

import crib
from test_forms import LISTENER, answer, held

FAST = "audit: {fold_age: 1, plain_rows: %d}\n"
KEEP, DROP = FAST % 1000000, FAST % 0
SLOW = """#!/bin/sh
while [ ! -e "$1" ]; do sleep 0.05; done
echo done
"""


class Fold(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(crib.ECHO)
        self.keys = {name: c.tenant(name, "echo") for name in ("acme", "globex", "umbrella")}
        self.calls = {name: [] for name in self.keys}

    def call(self, n, *tenants):
        for name in tenants or self.keys:
            peer = self.crib.tcp(self.keys[name])
            for i in range(n):
                got = peer.call("echo", {"text": f"{name} {i}"}, crib.MODERN)
                self.calls[name].append(got["result"]["_meta"]["dev.toolcrib/callId"])
            peer.close()

    def counters(self):
        return {name[5:]: value for name, value in self.crib.status()["counters"].items() if name.startswith("fold_")}

    def folded(self, log):
        """Where the blocks of a log end."""
        return self.crib.rows("SELECT coalesce(max(first + cnt), 0) FROM blk WHERE log = ?", log)[0][0]

    def log(self, tenant):
        return self.crib.rows("SELECT l.id FROM log l JOIN tenant t ON t.id = l.tenant_id WHERE t.name = ?", tenant)[0][0]

    def await_blocks(self, *tenants):
        """What the tenants have called so far is in blocks, but for fewer rows than become one by their age."""
        for name in tenants or self.keys:
            log = self.log(name)
            crib.wait_for(f"blocks of {name}", lambda log=log, name=name: self.folded(log) > 2 * len(self.calls[name]) - 256)

    def left(self):
        """Rows of what is in blocks."""
        return self.crib.rows("SELECT count(*) FROM rec r WHERE idx < (SELECT max(first + cnt) FROM blk WHERE log = r.log)")[0][0]

    def said(self):
        """What is told of the tenants' calls, without headers, which say when."""
        got = {}
        for name in self.keys:
            got[name] = [self.crib.json("audit", "calls", "--tenant", name, "--limit", "0"),
                         self.crib.json("audit", "calls", "--tenant", name, "--group-by", "tool,outcome", "--limit", "0"),
                         [self.crib.json("audit", "show", call) for call in self.calls[name][::97]]]
            rows = self.crib.cli("audit", "export", "--tenant", name)
            got[name].append([line for line in rows.splitlines() if '"call.' in line])
        return got

    def verify(self, pruned=False):
        """In the server, and by who has only the store, of which no record is without a checkpoint when it was stopped."""
        done = self.crib.run("audit", "verify")
        self.assertEqual(done.returncode, 5 if pruned else 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("NOT_CHECKED"), done.stdout.count("whose records were pruned"))
        if self.crib.daemon or pruned:
            return
        done = subprocess.run([str(crib.BUILD / "toolcrib-verify"), str(self.crib.store), *crib.evidence(self.crib.store)],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def copies(self):
        """A backup has it all, and what a drill does to another copy is noticed."""
        file = self.crib.dir / "backup.db"
        file.unlink(missing_ok=True)
        self.crib.cli("backup", file)
        with sqlite3.connect(file) as db:
            self.assertGreater(db.execute("SELECT sum(cnt) FROM blk").fetchone()[0], 2400 - 3 * 256)
        db.close()
        done = self.crib.run("--json", "audit", "drill", "--tenant", "acme")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = {row["tampering"]: row["found"] for row in map(json.loads, done.stdout.splitlines())}
        self.assertEqual((found["A-T42"] in ("PARSE", "ROOT", "DICT", "PARSE ROOT"), "ROOT" in found["A-T43"]), (True, True), found)
        beside = self.crib.rows("SELECT count(*) FROM rec r JOIN blk b ON b.log = r.log AND r.idx >= b.first AND r.idx < b.first + b.cnt")[0][0]
        self.assertEqual("GAP" in found.get("A-T46", ""), beside == 0, found)

    def test_sc101_whatever_is_told_of_records_is_told_of_blocks(self):
        """SC-101, SC-102, SC-109: first rows alone, then blocks beside rows, then blocks."""
        c = self.crib
        c.start("audit: {fold_age: 86400}\n")
        self.call(400)
        rows = self.said()
        self.assertEqual(c.rows("SELECT count(*) FROM blk"), [(0,)])
        c.stop()
        c.start(KEEP)
        self.await_blocks()
        self.assertEqual(self.said(), rows)
        self.copies()
        self.assertGreater(self.left(), 2400 - 3 * 256)
        self.assertEqual(self.counters()["rows_dropped"], 0)
        self.verify()
        c.stop()
        c.start(DROP)
        crib.wait_for("rows of blocks to go", lambda: self.left() < 300)
        self.assertEqual(self.said(), rows)
        self.verify()
        self.copies()
        self.assertEqual(c.stop(), 0)
        self.verify()
        self.assertEqual(c.rows("SELECT count(*) FROM pay WHERE rec NOT IN (SELECT id FROM rec)"), [(0,)])

    def test_sc803_what_is_erased_and_pruned_goes_out_of_blocks(self):
        """SC-803, SC-804, A-903: one call, a principal, then the oldest records with a bundle; in blocks and beside them."""
        c = self.crib
        c.cli("approval", "policy", "one")
        c.cli("retention", "set", "acme", "--min-days", "0")
        for name, conf in (("keep", KEEP), ("drop", DROP)):
            c.start(conf)
            self.call(400, "acme", "globex")
            self.await_blocks("acme", "globex")
            call = self.calls["acme"][-300]
            c.cli("--yes", "erase", "--ground", "asked for", "--ticket", "E-1", "--call", call)
            crib.wait_for("the erasure", lambda: not c.rows("SELECT 1 FROM deed"))
            self.assertTrue(c.json("audit", "show", call))
            words = ["--yes", "retention", "prune", "acme", "--before", "0s"]
            crib.wait_for("a checkpoint", lambda words=words: c.run(*words, "--dry-run").returncode == 0)
            c.cli(*words, "--bundle", c.dir / f"{name}.tar")
            crib.wait_for("the prune", lambda: not c.rows("SELECT 1 FROM deed"))
            self.assertNotEqual(c.run("audit", "show", self.calls["acme"][0]).returncode, 0)
            self.assertTrue(c.json("audit", "show", self.calls["acme"][-1]))
            key = crib.evidence(c.store, False)
            done = subprocess.run([str(crib.BUILD / "toolcrib-verify"), *key, "--bundle", str(c.dir / f"{name}.tar")], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.call(300, "acme")
            self.await_blocks("acme")           # folding goes on above the cut
            c.stop()
            self.verify(pruned=True)
            self.calls["acme"] = self.calls["acme"][-1:] * len(self.calls["acme"])
        c.start(DROP)
        c.cli("--yes", "erase", "--ground", "asked for", "--ticket", "E-2", "--principal", "globex/bot")
        crib.wait_for("the erasure", lambda: not c.rows("SELECT 1 FROM deed"))
        c.stop()
        self.verify(pruned=True)                # ERASED_BUT_PRESENT, if anything of that were left in any form
        self.assertEqual(len(c.json("audit", "erasures", "--tenant", "globex")), 2)

    def test_a_report_that_waits_for_its_reader_goes_on_in_blocks(self):
        """It has begun on rows; before its reader takes the second page all records are blocks, and no row is left."""
        c, heard = self.crib, self.crib.dir / "heard"
        c.store = c.dir / "filled"
        c.fill(6000, "--tenants", 1, "--level", "metadata")
        listener = c.dir / "listener"
        listener.write_text(LISTENER.format(python=sys.executable, file=str(heard)))
        listener.chmod(0o700)
        c.env["TOOLCRIB_REPORT"] = str(listener)
        tenant = c.rows("SELECT name FROM tenant ORDER BY id LIMIT 1")[0][0]
        c.start()
        c.ask("audit calls", tenant=tenant, limit="0")
        c.stop()
        rows, scratch = c.dir / "rows", c.dir / "scratch"
        scratch.mkdir(0o700)
        shutil.copytree(c.store, rows)
        question = json.loads(heard.read_text().splitlines()[-1])
        with held(rows), held(c.store):
            was = answer(question, rows, scratch)
            now = answer(question, c.store, scratch, lambda: subprocess.run(
                [crib.BUILD / "tests/bench/b_fold", c.store], check=True, capture_output=True))
        self.assertEqual(c.rows("SELECT count(*) > 0 FROM blk"), [(1,)])
        self.assertGreater(len(was[2].splitlines()), 2500)
        self.assertEqual(was[0], 0)
        self.assertEqual(now, was)

    def test_a_walk_goes_on_in_blocks(self):
        """Decision 0054: a report that takes longer than rows stay behind the first blocks asks again before each log and each
        piece of one; here all rows go while it is held in the middle."""
        c, heard = self.crib, self.crib.dir / "heard"
        c.store = c.dir / "filled"
        c.fill(6000, "--tenants", 3, "--level", "metadata", "--days", 3)
        listener, rows, scratch, gate = (c.dir / name for name in ("listener", "rows", "scratch", "gate"))
        listener.write_text(LISTENER.format(python=sys.executable, file=str(heard)))
        listener.chmod(0o700)
        c.env["TOOLCRIB_REPORT"] = str(listener)
        tenant = c.rows("SELECT name FROM tenant ORDER BY id LIMIT 1")[0][0]
        asked = []
        c.start()
        for command, words, held_at in (("audit stats", {"since": "30d"}, "FROM rollup_hist"),
                                        ("audit calls", {"group-by": "tool,outcome", "limit": "0"}, "FROM log WHERE id > ?1"),
                                        ("audit calls", {"limit": "0"}, "FROM log WHERE id > ?1"),
                                        ("audit sample", {"tenant": tenant, "number": "5", "seed": "7"}, "SELECT count(*) FROM rec")):
            c.ask(command, **words)
            asked.append(({**json.loads(heard.read_text().splitlines()[-1]), "landlock": 0}, held_at))
        c.stop()
        shutil.copytree(c.store, rows)
        scratch.mkdir(0o700)

        def fold():
            crib.wait_for("a report that is held", lambda: gate.exists() and gate.stat().st_size)
            subprocess.run([crib.BUILD / "tests/bench/b_fold", c.store], check=True, capture_output=True)
            os.truncate(gate, 0)

        for n, (question, held_at) in enumerate(asked):
            with self.subTest(question=question["line"]):
                c.store = c.dir / f"folded{n}"
                gate.unlink(missing_ok=True)
                shutil.copytree(rows, c.store)
                env = {"LD_PRELOAD": str(crib.BUILD / "tests/integ/work.so"), "ASAN_OPTIONS": "verify_asan_link_order=0",
                       "TOOLCRIB_TEST_WORK": str(c.dir / "work"), "TOOLCRIB_TEST_GATE": str(gate), "TOOLCRIB_TEST_PAUSE": held_at}
                with held(rows), held(c.store):
                    was = answer(question, rows, scratch)
                    now = answer(question, c.store, scratch, fold, env)
                self.assertEqual(c.rows("SELECT count(*) > 0 FROM blk"), [(1,)])
                self.assertEqual(was[0], 0, was)
                self.assertEqual(now, was)

    def test_a_verification_goes_on_in_blocks(self):
        """The same of toolcrib-verify: held before the first log, and behind the last one."""
        c, gate = self.crib, self.crib.dir / "gate"
        c.store = c.dir / "filled"
        c.fill(1500, "--tenants", 2, "--level", "request")
        filled, pins = c.store, crib.evidence(c.store)
        for n, held_at in enumerate(("FROM dict NOT INDEXED", "definition, actor, created_us, kind, uri FROM tool_version")):
            with self.subTest(held_at=held_at):
                c.store = c.dir / f"folded{n}"
                shutil.copytree(filled, c.store)
                gate.unlink(missing_ok=True)
                env = {**c.env, "LD_PRELOAD": str(crib.BUILD / "tests/integ/work.so"), "ASAN_OPTIONS": "verify_asan_link_order=0",
                       "TOOLCRIB_TEST_WORK": str(c.dir / "work"), "TOOLCRIB_TEST_GATE": str(gate), "TOOLCRIB_TEST_PAUSE": held_at}
                with held(c.store):
                    run = subprocess.Popen([crib.BUILD / "toolcrib-verify", *pins, c.store], stdout=subprocess.PIPE, text=True, env=env)
                    crib.wait_for("a verification that is held", lambda: gate.exists() and gate.stat().st_size)
                    subprocess.run([crib.BUILD / "tests/bench/b_fold", c.store], check=True, capture_output=True)
                    os.truncate(gate, 0)
                    said = run.communicate()[0]
                self.assertEqual(run.returncode, 0, said)

    def test_rows_behind_the_first_blocks_stay_until_the_next_start(self):
        """Who has asked whether there are blocks just before the first one goes on with whole logs."""
        c = self.crib.start(DROP)
        self.call(300, "acme")
        self.await_blocks("acme")
        self.call(300, "acme")
        self.await_blocks("acme")
        self.assertEqual((self.counters()["rows_dropped"], self.left() > 1200 - 256), (0, True))
        c.stop()
        c.start(DROP)
        crib.wait_for("rows of blocks to go", lambda: self.left() < 300)
        self.call(300, "acme")                  # and of each new block
        self.await_blocks("acme")
        crib.wait_for("rows of new blocks to go", lambda: self.left() < 300)
        self.verify()

    def test_sc303_all_logs_are_folded_when_many_rows_have_come(self):
        """A round: also logs with a few records; meta.tail_from says up to where nothing waits."""
        c = self.crib.start("audit: {fold_age: 86400, fold_rows: 4096}\n")
        self.call(20, "globex")
        self.call(2100, "acme")
        crib.wait_for("a round", lambda: c.rows("SELECT value FROM meta WHERE key = 'tail_from'"))
        tail = int(c.rows("SELECT value FROM meta WHERE key = 'tail_from'")[0][0])
        self.assertGreaterEqual(tail, 4000)
        self.assertGreaterEqual(self.folded(self.log("globex")), 40)
        self.assertEqual(c.rows("SELECT count(*) FROM rec r WHERE id <= ? AND idx >= coalesce((SELECT max(first + cnt) FROM blk "
                                "WHERE log = r.log), 0)", tail), [(0,)])
        self.assertLess(self.counters()["waiting"], 4096)
        c.stop()
        self.verify()

    def begin(self, name):
        """A call that runs until a file is there."""
        c = self.crib
        program, end = c.dir / "slow", c.dir / name
        program.write_text(SLOW)
        program.chmod(0o755)
        if not c.rows("SELECT 1 FROM tool WHERE name = 'slow'"):
            c.tool(crib.tool_yaml("slow", f'{{type: exec, argv: ["{program}", "{end}"], stdin: none, output: text, '
                                  f'sandbox: {{read: ["{c.dir}"]}}}}', extra="limits: {timeout: 120s}\n"), "slow.yaml")
            c.cli("grant", "add", "acme", "slow")
        peer = c.tcp(self.keys["acme"])
        self.addCleanup(peer.close)
        peer.send(peer.request("tools/call", {"name": "slow", "arguments": {}}, crib.MODERN))
        crib.wait_for("the begin", lambda: c.status()["running"] == 1)
        return peer, end

    def open_calls(self):
        return self.crib.rows("SELECT log, idx FROM open_call")

    def test_sc307_a_call_that_runs_is_folded_and_ends(self):
        c = self.crib.start(DROP)
        peer, end = self.begin("end")
        self.call(300, "acme")
        self.await_blocks("acme")
        self.assertEqual(len(self.open_calls()), 1)
        call = c.json("audit", "show", self.calls["acme"][0])
        self.assertTrue(call)
        end.touch()
        self.assertIn("result", peer.receive())
        self.assertEqual(self.open_calls(), [])
        c.stop()
        self.verify()

    def test_sc307_a_call_that_runs_is_folded_and_recovered(self):
        c = self.crib.start(DROP)
        self.begin("never")
        self.call(300, "acme")
        self.await_blocks("acme")
        (log, idx), = self.open_calls()
        c.daemon.kill()
        c.daemon.wait()
        c.daemon = None
        c.start(DROP)
        self.assertEqual(self.open_calls(), [])
        crib.wait_for("rows of blocks to go", lambda: self.left() < 300)
        self.assertEqual(c.rows("SELECT log, beg FROM rec WHERE kind = 1004"), [(log, idx)])
        self.assertEqual(c.json("audit", "calls", "--tenant", "acme", "--tool", "slow")[0]["outcome"], "unknown")
        c.stop()
        self.verify()

    def test_sc204_a_log_that_cannot_be_folded_is_named_and_others_go_on(self):
        c = self.crib.start("audit: {fold_age: 86400}\n")
        self.call(300, "acme", "globex")
        c.stop()
        acme = self.log("acme")
        with sqlite3.connect(c.store / "toolcrib.db") as db:
            frozen = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'rec_frozen'").fetchone()[0]
            db.execute("DROP TRIGGER rec_frozen")
            db.execute("UPDATE rec SET dur = dur + 1 WHERE log = ? AND idx = (SELECT min(idx) FROM rec WHERE log = ? AND idx > 400 "
                       "AND kind = 1002)", (acme, acme))
            db.execute(frozen)
        db.close()
        bad = c.rows("SELECT min(idx) FROM rec WHERE log = ? AND idx > 400 AND kind = 1002", acme)[0][0]
        for _ in range(2):                      # once for each start
            c.start(KEEP)
            self.await_blocks("globex")
            crib.wait_for("a log that is given up", lambda: self.counters()["stuck"])
            self.call(300, "acme", "globex")
            self.await_blocks("globex")
            self.assertEqual(self.folded(acme), bad)
            self.assertEqual(self.counters()["stuck"], 1)
            self.assertIn(f"log/{acme}/idx/{bad}: ", c.status()["folding"])
            c.stop()
        told = [row["detail"] for row in c.json("audit", "capacity", "--events") if row["kind"] == "audit.fail"]
        self.assertEqual([f"log/{acme}/idx/{bad}: " in text for text in told], [True, True])
        done = c.run("audit", "verify")
        self.assertEqual(done.returncode, 4, done.stdout)
        self.assertIn("acme", done.stdout)


if __name__ == "__main__":
    crib.main()
