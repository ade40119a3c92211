"""A store of a release that knew no blocks: the server refuses it when too many records wait, and toolcrib migrate puts them into
blocks offline, which may be killed anywhere (SCALE SC-305)."""
import contextlib
import json
import shutil
import sqlite3
import subprocess
import sys
import tarfile

import crib
from test_terminal import on_terminal

START_MAX = 1 << 20                     # WRITER_FOLD_START_MAX
PLACES = 10
INDEXES = {"rec_call", "rec_ts", "rec_prn", "rec_cred", "rec_tool", "rec_out", "rec_kind", "rec_pos"}
ROOTS = "SELECT l.origin, h.size, h.root FROM log l JOIN head h ON h.log = l.id ORDER BY 1"
WAITING = "SELECT count(*) FROM rec r WHERE idx >= coalesce((SELECT max(first + cnt) FROM blk WHERE log = r.log), 0)"


class Migrate(crib.Case):
    def fill(self, records=5000):
        """A store that was stopped and has no block."""
        self.crib.fill(records, "--tenants", 2, "--level", "request")
        self.crib.cli("tenant", "list")
        return self.crib

    def migrate(self, *words, env=None, code=0):
        done = subprocess.run([crib.BUILD / "toolcrib", "--store", self.crib.store, "--json", "migrate", *words], capture_output=True,
                              text=True, env={**self.crib.env, **(env or {})}, timeout=crib.DEADLINE)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout) if code == 0 else done.stderr

    def indexes(self):
        return {name for name, in self.crib.rows("SELECT name FROM sqlite_schema WHERE type = 'index'")} & INDEXES

    def verify(self):
        """In a build with a sanitizer verify.py is what it is in any other."""
        c = self.crib
        both = (([crib.BUILD / "toolcrib-verify"], c.store),
                ([sys.executable, crib.SOURCE / "contrib/verify/verify.py"], c.store / "toolcrib.db"))
        for program, store in both[:1 if crib.sanitized("toolcrib-verify") else 2]:
            done = subprocess.run([*program, *crib.evidence(c.store), store], capture_output=True, text=True, timeout=crib.DEADLINE)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def is_migrated(self, roots):
        c = self.crib
        self.assertEqual(c.rows(ROOTS), roots)
        self.assertEqual(c.rows(WAITING), [(0,)])
        self.assertEqual(self.indexes(), set())
        self.assertEqual(c.rows("PRAGMA integrity_check"), [("ok",)])
        self.verify()

    def set_waiting(self, n):
        """By the place of the newest record of a log: as many wait as that says."""
        with contextlib.closing(sqlite3.connect(self.crib.store / "toolcrib.db")) as db, db:
            frozen = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'rec_frozen'").fetchone()[0]
            others = db.execute("SELECT sum(h.size) FROM head h WHERE log <> 2").fetchone()[0]
            db.execute("DROP TRIGGER rec_frozen")
            db.execute("UPDATE rec SET idx = ? WHERE log = 2 AND idx = (SELECT max(idx) FROM rec WHERE log = 2)", (n - others - 1,))
            db.execute(frozen)

    def refused(self):
        """What the server says that does not start."""
        c = self.crib
        done = subprocess.run([crib.BUILD / "toolcribd", "--store", c.store, "-c", c.config()], capture_output=True, text=True,
                              env=c.env, timeout=crib.DEADLINE)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr

    def test_sc305_more_than_a_start_takes_asks_for_migrate(self):
        """SC-305: at the limit it goes on, and finds what the test has done to the store; with one more it refuses."""
        c = self.fill(600)
        self.set_waiting(START_MAX)
        self.assertNotIn("wait to become blocks", self.refused())
        self.assertEqual(self.migrate("--dry-run")["records"], 0)
        self.set_waiting(START_MAX + 1)
        before = (c.store / "toolcrib.db").read_bytes()
        said = self.refused()
        self.assertIn(f"{START_MAX + 1} records wait to become blocks, and a start takes {START_MAX} of them", said)
        self.assertIn("toolcrib migrate", said)
        self.assertEqual((c.store / "toolcrib.db").read_bytes(), before)
        dry = self.migrate("--dry-run")
        self.assertEqual((dry["records"], dry["indexes"]), (START_MAX + 1, len(INDEXES)))
        self.assertIn(f"would be done, {START_MAX + 1} records into blocks, 8 indexes of rows dropped, in about ", dry["said"])
        self.assertGreater(dry["seconds"], 1)

    def test_sc305_a_store_is_what_it_was(self):
        """SC-305, F45: the same roots and answers; without the indexes; and the server goes on with it."""
        c = self.fill()
        tenant = c.rows("SELECT name FROM tenant ORDER BY id LIMIT 1")[0][0]
        calls = c.json("audit", "calls", "--tenant", tenant, "--limit", "0")
        self.assertGreater(len(calls), 500)
        roots = c.rows(ROOTS)
        size = sum(row[1] for row in roots)
        dry = self.migrate("--dry-run", "--fold")
        self.assertEqual((dry["records"], c.rows("SELECT count(*) FROM blk")), (size, [(0,)]))
        self.assertEqual(self.migrate()["said"], "nothing to do")
        self.assertEqual(self.migrate("--fold")["said"], f"done, {size} records into blocks, 8 indexes of rows dropped")
        self.is_migrated(roots)
        self.assertEqual(self.migrate("--fold", "--dry-run")["said"], "nothing to do")
        self.assertEqual(c.json("audit", "calls", "--tenant", tenant, "--limit", "0"), calls)
        c.start()
        self.assertEqual(c.json("audit", "calls", "--tenant", tenant, "--limit", "0"), calls)
        c.stop()
        self.verify()

    @crib.unittest.skipIf(crib.sanitized("toolcrib"), "what a killed migration leaves is the same in any build")
    def test_sc305_it_is_killed_anywhere_and_goes_on(self):
        """SC-305: kill -9 at ten places from the first write to the last; called again it comes to the same."""
        c = self.fill(3000)
        roots = c.rows(ROOTS)
        whole, flushes = c.store, c.dir / "flushes"
        die = {"LD_PRELOAD": str(crib.BUILD / "tests/integ/die.so"), "ASAN_OPTIONS": "verify_asan_link_order=0"}

        def copy(n):
            c.store = c.dir / f"copy{n}"
            shutil.copytree(whole, c.store)

        copy("")
        self.migrate("--fold", env={**die, "TOOLCRIB_TEST_FLUSHES": str(flushes)})
        self.is_migrated(roots)
        places = len(flushes.read_bytes())
        self.assertGreater(places, PLACES)
        seen = set()
        for n in range(PLACES):
            copy(n)
            self.migrate("--fold", env={**die, "TOOLCRIB_TEST_DIE": str(1 + n * (places - 1) // (PLACES - 1))}, code=-9)
            seen.add((c.rows(WAITING)[0], len(self.indexes()), c.rows("SELECT count(*) FROM chap")[0]))
            self.migrate("--fold")
            self.is_migrated(roots)
            shutil.rmtree(c.store)
        self.assertGreater(len(seen), 3)
        self.assertTrue({left for _, left, _ in seen} & set(range(1, len(INDEXES))))    # between two indexes as well

    def test_sc305_a_store_of_the_release_before(self):
        """SC-305, F45: steps of the schema first, then records; roots of all that there was are the same."""
        c = self.crib
        packed = max((crib.SOURCE / "tests" / "old-db").glob("*.tar.xz"))
        with tarfile.open(packed) as tar:
            tar.extractall(c.dir)
        c.store = c.dir / "store"
        with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db")) as db:
            before = db.execute(ROOTS).fetchall()
        dry = self.migrate("--dry-run", "--fold")
        self.assertLess(dry["from"], dry["to"])
        self.assertGreaterEqual(dry["records"], sum(size for _, size, _ in before))
        self.migrate("--fold")
        after = {origin: (size, root) for origin, size, root in c.rows(ROOTS)}
        for origin, size, root in before:
            self.assertTrue(after[origin] == (size, root) or after[origin][0] > size, origin)
        self.is_migrated(c.rows(ROOTS))
        self.assertIn("word_count", c.cli("audit", "calls", "--tenant", "demo"))

    def test_sc305_nobody_serves_the_store_meanwhile(self):
        """A-602: a server that has the store is in the way; and one whose calls were cut off is started and stopped first."""
        c = self.fill(600)
        c.start()
        said = self.migrate("--fold", code=1)
        self.assertIn("holds the store", said)
        self.assertIn("stop the server first", said)
        c.daemon.kill()
        c.daemon.wait()
        c.daemon = None
        self.migrate("--fold")
        self.assertEqual(c.rows("SELECT count(*) FROM rec WHERE kind = 1603"), [(1,)])
        self.is_migrated(c.rows(ROOTS))

    def test_sc204_a_log_that_cannot_be_folded_is_named(self):
        """SC-204: what is below it and all other logs are done, and a server starts."""
        c = self.fill(600)
        with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db")) as db, db:
            frozen = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'rec_frozen'").fetchone()[0]
            db.execute("DROP TRIGGER rec_frozen")
            db.execute("UPDATE rec SET dur = dur + 1 WHERE log = 2 AND idx = 101")
            db.execute("UPDATE rec SET dur = 1 WHERE log = 2 AND idx = 101 AND dur IS NULL")
            db.execute(frozen)
        said = self.migrate("--fold")["said"]
        self.assertIn("; not to its end: log/2/idx/101: ", said)
        self.assertEqual(c.rows("SELECT log, max(first + cnt) FROM blk WHERE log = 2"), [(2, 101)])
        first = c.rows("SELECT id FROM rec WHERE log = 2 AND idx = 101")[0][0]
        self.assertEqual(c.rows("SELECT value FROM meta WHERE key = 'tail_from'"), [(str(first - 1),)])

    def test_how_far_it_is_is_shown_on_a_terminal(self):
        c = self.fill(600)
        code, shown = on_terminal(c, 100, "migrate", "--fold")
        self.assertEqual(code, 0, shown)
        self.assertRegex(shown, r"migrate  \[#+ *\] +\d+ %  \d+ of \d+ records")
        self.assertRegex(shown, r"migrate  \[#* *\] +\d+ %  \d+ of 8 indexes")


if __name__ == "__main__":
    crib.main()
