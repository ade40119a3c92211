"""The extension toolcrib_rec: the system's own sqlite3, and Python's, see all records of a store whose records are in blocks, by the
views of the release, and cannot write; what is wrong is said.  Skipped where a program loads no extensions."""
import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import unittest

import crib

FILL = ("--tenants", 2, "--principals", 4, "--tools", 4, "--failures", 0.2, "--days", 5, "--level", "request")
REC = crib.BUILD / "toolcrib_rec"
ENV = {**os.environ, "LD_BIND_NOW": "1"}        # a symbol that is nowhere fails when it is loaded
PYTHON = """
import sqlite3, sys
db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
if not hasattr(db, "enable_load_extension"):
    sys.exit(77)
db.enable_load_extension(True)
db.load_extension(sys.argv[2])
for sql in sys.argv[3:]:
    try:
        print(db.execute(sql).fetchall())
    except sqlite3.Error as error:
        print("refused:", error)
db.close()
print("closed")
"""


def ask(store, *sql, load=True):
    """The program sqlite3, read-only."""
    return subprocess.run(["sqlite3", "-readonly", *(["-cmd", f".load {REC}"] if load else []), "-json", str(store / "toolcrib.db"), *sql],
                          capture_output=True, text=True, timeout=crib.DEADLINE, env=ENV)


def by_python(store, *sql):
    """The first Python that loads extensions: this one, or the system's."""
    for python in (sys.executable, "/usr/bin/python3"):
        done = subprocess.run([python, "-c", PYTHON, str(store / "toolcrib.db"), str(REC), *sql], capture_output=True, text=True,
                              timeout=crib.DEADLINE, env=ENV)
        if done.returncode != 77:
            return done
    raise unittest.SkipTest("no Python that loads extensions")


class Extension(crib.Case):
    def setUp(self):
        super().setUp()
        if not shutil.which("sqlite3") or crib.sanitized():
            self.skipTest("no sqlite3, or an extension that it cannot load")
        self.crib.fill(1500, *FILL)
        self.rows, self.blocks = self.crib.store, self.fold("blocks", "--block", "200")
        done = ask(self.rows, "SELECT 1")
        if "not authorized" in done.stderr or "unknown command" in done.stderr:
            self.skipTest("sqlite3 loads no extensions")
        with contextlib.closing(sqlite3.connect(f"file:{self.rows}/toolcrib.db?mode=ro", uri=True)) as db:
            self.views = [name for name, in db.execute("SELECT name FROM sqlite_schema WHERE type = 'view' AND name GLOB 'v_*'")]
        self.assertGreater(len(self.views), 10)

    def fold(self, name, *options):
        store = shutil.copytree(self.crib.store, self.crib.dir / name)
        subprocess.run([str(word) for word in (crib.BUILD / "tests/bench/b_fold", store, *options)], check=True,
                       stdout=subprocess.DEVNULL, timeout=crib.DEADLINE)
        return store

    def test_sc910_sqlite3_sees_all_records_by_every_view(self):
        queries = [f"SELECT * FROM {view} ORDER BY log_id, idx" for view in self.views] + [
            "SELECT tool, outcome, count(*) AS n, max(ms) AS most FROM v_calls WHERE log_id = 2 GROUP BY tool, outcome ORDER BY 1, 2",
            "SELECT idx, kind, ts, prn, hex(leaf) AS leaf FROM rec WHERE log = 2 AND kind IN (1003, 1001) ORDER BY idx DESC LIMIT 50"]
        for form in (self.blocks, self.fold("half", "--block", "90", "--tail", "300", "--leftovers"), self.rows):
            for sql in queries:
                wanted, got = ask(self.rows, sql, load=False), ask(form, sql)
                self.assertEqual((got.returncode, got.stderr), (0, ""), sql)
                self.assertTrue(got.stdout == wanted.stdout, (form, sql, got.stdout[:300], wanted.stdout[:300]))
        plain = ask(self.blocks, "SELECT count(*) AS n FROM rec", load=False)
        self.assertLess(json.loads(plain.stdout)[0]["n"], 10)            # without it

    def test_sc910_pythons_sqlite3_sees_them_as_well_and_nobody_writes(self):
        with contextlib.closing(sqlite3.connect(f"file:{self.rows}/toolcrib.db?mode=ro", uri=True)) as db:
            wanted = db.execute("SELECT count(*), sum(ts) FROM rec").fetchall()
        done = by_python(self.blocks, "SELECT count(*), sum(ts) FROM rec", "DELETE FROM rec", "UPDATE rec SET ts = 1", "DELETE FROM main.blk",
                         "INSERT INTO pay(rec) VALUES(1)", "CREATE TEMP TABLE mine AS SELECT tool FROM v_calls",
                         "SELECT count(*) > 100 FROM mine")
        lines = done.stdout.splitlines()
        self.assertEqual((done.returncode, lines[0], lines[-2:]), (0, repr(wanted), ["[(1,)]", "closed"]), done.stdout + done.stderr)
        self.assertEqual([line.split(":")[0] for line in lines[1:5]], ["refused"] * 4, lines)

    def test_what_is_wrong_is_said(self):
        done = ask(self.blocks, "SELECT 1")
        self.assertEqual(done.returncode, 0)
        other = self.crib.dir / "other"
        other.mkdir()
        with contextlib.closing(sqlite3.connect(other / "toolcrib.db")) as db:
            db.execute("CREATE TABLE rec(a)")
        self.assertIn("open the toolcrib.db of a store first", ask(other, "SELECT 1").stderr)
        for change, message in (("CREATE TRIGGER z AFTER INSERT ON meta BEGIN SELECT 1; END", "schema"),
                                ("PRAGMA user_version = 999", "newer toolcrib")):
            store = shutil.copytree(self.blocks, self.crib.dir / "changed", dirs_exist_ok=True)
            with contextlib.closing(sqlite3.connect(store / "toolcrib.db", isolation_level=None)) as db:
                db.execute(change)
            self.assertIn(message, ask(store, "SELECT 1").stderr, change)
        store = shutil.copytree(self.blocks, self.crib.dir / "damaged")
        with contextlib.closing(sqlite3.connect(store / "toolcrib.db", isolation_level=None)) as db:
            db.execute("UPDATE blk SET cols = zeroblob(9) WHERE log = 2 AND first > 200")
        done = ask(store, "SELECT count(ts) FROM rec WHERE log = 2")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, "block [0-9]+ of log 2: this is no block of format 1")


if __name__ == "__main__":
    crib.main()
