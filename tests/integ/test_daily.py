#!/usr/bin/env python3
"""The server verifies its own store each day (AUDIT A-803, SCALE SC-708): the result is a record, metrics, a line of status and of
the log, and a process of its own does it."""
import contextlib
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import unittest

import crib


class Daily(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(crib.ECHO)
        c.tenant("acme", "echo")
        self.folder = c.store / "verify"

    def records(self, least=1):
        """Result and words of each verification on record, the oldest first; waits for so many."""
        return crib.wait_for(f"{least} records", lambda: (rows := [tuple(row) for row in self.crib.rows(
            "SELECT status, detail FROM v_records WHERE kind = 'audit.verify' AND log_id = 1 ORDER BY idx")]) and len(rows) >= least and rows)

    def daily(self, *words):
        """Exit status and rows of `audit daily`."""
        done = self.crib.run("audit", "daily", "--json", *words)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

    def verified(self):
        return self.crib.status()["verified"]

    def said(self, event):
        return [line["event"] for line in map(json.loads, self.crib.log.read_text().splitlines()) if line["event"].startswith(event)]

    def verifiers(self):
        return [child for child, name in crib.below(self.crib.daemon.pid).items() if name == "toolcrib-verifi"]

    def tamper(self, sql):
        with contextlib.closing(sqlite3.connect(self.crib.store / "toolcrib.db")) as db:
            frozen, = db.execute("SELECT sql FROM sqlite_master WHERE name = 'rec_frozen'").fetchone()
            db.execute("DROP TRIGGER rec_frozen")
            self.assertGreater(db.execute(sql).rowcount, 0)
            db.execute(frozen)
            db.commit()

    def instead(self, script):
        """A program in the place of toolcrib-verifier."""
        path = self.crib.dir / "verifier"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return {"TOOLCRIB_VERIFIER": str(path)}

    def test_sc708_what_is_new_is_read_and_how_it_ended_is_on_record(self):
        c = self.crib
        c.start()
        self.assertIn("not yet", self.verified())
        self.assertEqual(c.run("audit", "daily", "--last").returncode, 1)
        status, rows = self.daily()
        self.assertEqual((status, [row["finding"] for row in rows]), (0, ["INTACT"]))
        whole = rows[0]["records"]
        self.assertGreater(whole, 15)
        self.assertIsNone(rows[0]["since"])
        self.assertEqual(self.records()[0][0], 0)
        self.assertRegex(self.records()[0][1], rf"^daily: INTACT, {whole} records were new, 0 read again, 0 not; "
                         r"\d+ kept values and names not opened; mark kept by the server$")
        counters = c.status()["counters"]
        self.assertGreater(counters["verify_time"], 1)
        self.assertEqual(counters["verify_findings"], 0)
        self.assertRegex(self.verified(), r"^\d{4}-\d\d-\d\dT\d\d:\d\dZ INTACT, .*; mark kept by the server; each day at 03:00 UTC$")
        for _ in range(3):
            c.cli("call", "acme", "echo", "text=hello")
        status, rows = self.daily()
        self.assertEqual((status, rows[-1]["finding"], rows[-1]["older"]), (0, "INTACT", whole))
        self.assertIsNotNone(rows[-1]["since"])
        self.assertGreater(rows[-1]["records"] - rows[-1]["again"], 6, "calls, and what was asked for")
        self.assertLess(rows[-1]["records"] - rows[-1]["again"], 24)
        self.assertEqual(len(self.records(2)), 2)
        self.assertEqual(len(self.said("verification found nothing")), 2)
        self.assertEqual(self.daily("--last")[1], rows)
        self.assertEqual([path.stat().st_mode & 0o777 for path in (self.folder, *sorted(self.folder.iterdir()))], [0o700, 0o600, 0o600, 0o600])
        c.stop()
        c.start()
        self.assertEqual(self.daily("--last")[1], rows, "also by the next server")
        self.assertEqual(c.status()["counters"]["verify_time"], int(json.loads((self.folder / "last").read_text())["sum"]["at"] / 1e6))

    def test_sc708_what_was_changed_is_named_and_the_mark_stays(self):
        c = self.crib
        c.start()
        self.assertEqual(self.daily()[0], 0)
        c.cli("call", "acme", "echo", "text=hello")
        mark = (self.folder / "mark").read_bytes()
        c.stop()
        self.tamper("UPDATE rec SET outcome = 1 WHERE kind = 1002")
        c.start()
        status, rows = self.daily()
        self.assertEqual((status, rows[-1]["finding"]), (4, "DAMAGED"))
        self.assertIn("ROOT", [row["finding"] for row in rows])
        self.assertGreater(rows[-1]["bad"], 0)
        self.assertEqual((self.folder / "mark").read_bytes(), mark)
        self.assertEqual(self.records(2)[1][0], 4)
        self.assertRegex(self.records(2)[1][1], r"^daily: DAMAGED, \d+ bad, .*ROOT .*; the mark stays what it was")
        self.assertRegex(self.said("verification found damage")[0], r"bad=\d+ gaps=\d+ first=.*ROOT ")
        self.assertRegex(self.verified(), r"Z DAMAGED, \d+ bad, .*ROOT ")
        self.assertGreater(c.status()["counters"]["verify_findings"], 0)
        c.cli("call", "acme", "echo", "text=hello")
        c.stop()
        c.start()
        self.assertIn("DAMAGED", self.verified(), "a restart forgets nothing")
        self.assertGreater(c.status()["counters"]["verify_findings"], 0)

    def test_sc708_a_process_that_dies_or_lies_is_a_failure_on_record(self):
        c = self.crib
        for n, (script, why) in enumerate((("exec sleep 600", "its process was killed"), ('''printf '{"sum":{}}\\n' >&0; exec sleep 600''', "broke the rules"),
                                           ("head -c 5000 /dev/zero >&0; exec sleep 600", "broke the rules"),
                                           ("printf 'x\\n' >&0; exec sleep 600", "broke the rules"), ("exit 0", "its process was killed"))):
            with self.subTest(script=script):
                c.start(env=self.instead(script))
                asked = subprocess.Popen([crib.BUILD / "toolcrib", "--store", c.store, "audit", "daily"], stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True, env=c.env)
                if n == 0:
                    child, = crib.wait_for("a verifier", lambda: [pid for pid, name in crib.below(c.daemon.pid).items() if name == "sleep"])
                    self.assertIn("runs since", self.verified())
                    os.kill(child, signal.SIGKILL)
                out, err = asked.communicate(timeout=crib.DEADLINE)
                self.assertEqual((asked.returncode, out), (3, ""))
                self.assertIn(why, err)
                self.assertEqual(self.records(n + 1)[n][0], 3)
                self.assertIn(why, self.records(n + 1)[n][1])
                self.assertIn("FAILED", self.verified())
                self.assertIn(why, self.said("verification came to no end")[-1])
                self.assertIn("hello", c.cli("call", "acme", "echo", "text=hello"))
                c.stop()
        c.start()
        self.assertEqual(self.daily()[0], 0)
        (self.folder / "mark").write_bytes(b"no mark")
        done = c.run("audit", "daily")
        self.assertEqual(done.returncode, 3)
        self.assertIn("no mark of toolcrib-verify", done.stderr)

    def test_sc708_a_stop_ends_it_and_the_next_start_goes_on(self):
        c = self.crib
        c.start()
        self.assertEqual(self.daily()[0], 0)
        c.stop()
        c.start(env=self.instead("exec sleep 600"))
        asked = subprocess.Popen([crib.BUILD / "toolcrib", "--store", c.store, "audit", "daily"], stderr=subprocess.PIPE, text=True, env=c.env)
        crib.wait_for("a verifier", lambda: "sleep" in crib.below(c.daemon.pid).values())
        self.assertEqual(c.stop(), 0)
        asked.communicate(timeout=crib.DEADLINE)
        self.assertNotEqual(asked.returncode, 0)
        self.assertEqual(len(self.records()), 1)
        self.assertEqual(len(self.said("verification is cut off")), 1)
        last = json.loads((self.folder / "last").read_text())
        last["sum"]["at"] -= 2 * 86400 * 10**6          # as if no server had run since
        (self.folder / "last").write_text(json.dumps(last) + "\n")
        c.start()
        self.assertEqual(self.records(2)[1][0], 0)
        c.stop()
        (self.folder / "last").unlink()                 # the first one was cut off: there is a mark, and nothing that it said
        c.start()
        self.assertEqual(self.records(3)[2][0], 0)
        c.stop()
        (self.folder / "last").write_text('{"sum":{}}\n')
        c.start()
        self.records(4)
        self.assertEqual(len(self.said("what the last verification said cannot be read")), 1)

    def test_its_time_is_checked(self):
        for value in ("24:00", "3:00", "03:60", "03:00:00", "noon", "+3:00"):
            path = self.crib.dir / "bad.yaml"
            path.write_text(f'drain_ms: 1\naudit:\n  verify_at: "{value}"\n')
            done = subprocess.run([crib.BUILD / "toolcribd", "--check-config", "-c", path], capture_output=True, text=True, timeout=crib.DEADLINE)
            self.assertNotEqual(done.returncode, 0, value)
            self.assertIn(f"{path}:3:", done.stderr)
            self.assertIn(f'audit.verify_at must be a time of the day, such as "03:00", or none, is "{value}"', done.stderr)
        self.crib.start("audit: {verify_at: none}\n")
        self.assertIn("none by itself", self.verified())
        self.assertEqual(self.daily()[0], 0)

    def test_without_a_server(self):
        done = self.crib.run("audit", "daily")
        self.assertEqual(done.returncode, 3)
        self.assertIn("hint: without one: toolcrib-verify --mark", done.stderr)

    @unittest.skipIf(crib.sanitized(), "a build with a sanitizer has no such confinement")
    def test_sc708_a_verifier_that_was_taken_over_reaches_nothing_else(self):
        c = self.crib
        c.start(env=self.instead(f"export LD_PRELOAD={crib.BUILD}/tests/integ/attack.so TOOLCRIB_TEST_STORE={c.store} TOOLCRIB_TEST_VERIFIER=1\n"
                                 f"exec {crib.BUILD}/toolcrib-verifier"))
        self.assertEqual(c.run("audit", "daily").returncode, 3)
        got = dict(pair.rsplit(":", 1) for pair in self.records()[0][1].removeprefix("daily: FAILED, ").split(","))
        self.assertNotIn("done", got.values(), got)
        for name in ("socket", "unix", "fork", "kill", "ptrace", "code"):
            self.assertEqual(got[name], "EPERM", name)
        if crib.LANDLOCK:
            for name in ("toolcrib.db", "keys.db", "master.key", "signer/state", "passwd", "new"):
                self.assertIn(got[name], ("EACCES", "EBADF"), name)


if __name__ == "__main__":
    crib.main()
