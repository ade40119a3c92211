"""Stores of older releases (tests/old-db, made by contrib/old-store) are opened, brought up to date, served and verified."""
import contextlib
import json
import pathlib
import sqlite3
import subprocess
import tarfile
import tempfile
import unittest

import crib

STORES = sorted((crib.SOURCE / "tests" / "old-db").glob("*.tar.xz"))


def fields(ext):
    """Where the fields of a column ext begin."""
    at = 0
    while at < len(ext):
        yield at
        at += 6 + int.from_bytes(ext[at + 2:at + 6], "big")


class OldStores(unittest.TestCase):
    def run_on(self, store, *words, code=0):
        run = subprocess.run([crib.BUILD / "toolcrib", "--store", store, *words], capture_output=True, text=True)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run.stdout

    def open_one(self, packed):
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(packed) as tar:
                tar.extractall(folder)
            store = pathlib.Path(folder) / "store"
            self.run_on(store, "migrate")
            tools = self.run_on(store, "tool", "list")
            for name in ("get_weather", "query_database", "word_count", "deploy"):
                self.assertIn(name, tools)
            self.assertIn("word_count", self.run_on(store, "audit", "calls", "--tenant", "demo"))
            self.assertIn("unknown_tool", self.run_on(store, "audit", "denied", "--tenant", "demo"))
            self.assertIn("2 words", self.run_on(store, "call", "demo", "word_count", "text=hello there"))
            self.run_on(store, "key", "list")
            self.run_on(store, "audit", "verify")
            self.both_forms(store)

    def both_forms(self, store):
        """SC-506: heads that the older release said, each with its root, and those that this one said are read by all verifiers."""
        with contextlib.closing(sqlite3.connect(store / "toolcrib.db")) as db:
            forms = [ext for ext, in db.execute("SELECT ext FROM rec WHERE kind = 2001")]
        tags = [{ext[at:at + 2].hex() for at in fields(ext) if ext[at + 2:at + 6] != bytes(4)} for ext in forms]
        self.assertTrue(any("010a" in each for each in tags) and any("0117" in each for each in tags), tags)
        self.assertFalse(any({"010a", "0117"} <= each for each in tags))
        pins = crib.evidence(store)
        for program, path in (([crib.BUILD / "toolcrib-verify"], store), (crib.sceptic(),
                                                                          store / "toolcrib.db")):
            run = subprocess.run([*program, *pins, path], capture_output=True, text=True, timeout=crib.DEADLINE)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_each(self):
        self.assertTrue(STORES)
        for packed in STORES:
            with self.subTest(release=packed.name.removesuffix(".tar.xz")):
                self.open_one(packed)

    def test_a_dry_run_of_migrate_changes_nothing(self):
        """toolcrib(8): it says from where to where, of an older schema as of today's."""
        c = crib.Crib()
        self.addCleanup(c.close)
        c.init()
        today = c.json("migrate", "--dry-run")[0]
        self.assertEqual((today["from"], today["said"]), (today["to"], "nothing to do"))
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(STORES[0]) as tar:
                tar.extractall(folder)
            path = pathlib.Path(folder) / "store" / "toolcrib.db"
            with contextlib.closing(sqlite3.connect(path)) as db:
                version = db.execute("PRAGMA user_version").fetchone()[0]
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            before = path.read_bytes()
            said = json.loads(self.run_on(path.parent, "--json", "migrate", "--dry-run"))
            self.assertEqual((said["from"], said["to"]), (version, today["to"]))
            self.assertNotEqual(said["said"], "nothing to do")
            self.assertEqual(path.read_bytes(), before)
            with contextlib.closing(sqlite3.connect(path)) as db:
                self.assertEqual(db.execute("PRAGMA user_version").fetchone()[0], version)

    def test_an_older_store_is_not_verified_by_guesswork(self):
        """toolcrib-verify(8): one of an older schema is not read, and is not called intact."""
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(STORES[0]) as tar:
                tar.extractall(folder)
            store = pathlib.Path(folder) / "store"
            for program, said in (([crib.BUILD / "toolcrib-verify"], "older release"),
                                  (crib.sceptic(), "NOT_CHECKED")):
                run = subprocess.run([*program, store], capture_output=True, text=True, timeout=crib.DEADLINE)
                self.assertIn(run.returncode, (3, 5), run.stdout + run.stderr)
                self.assertIn(said, run.stdout + run.stderr)


if __name__ == "__main__":
    crib.main()
