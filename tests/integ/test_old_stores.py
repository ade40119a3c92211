"""Stores of older releases (tests/old-db, made by contrib/old-store) are opened, brought up to date, served and verified."""
import contextlib
import pathlib
import sqlite3
import subprocess
import tarfile
import tempfile
import unittest

import crib

STORES = sorted((crib.SOURCE / "tests" / "old-db").glob("*.tar.xz"))


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
        with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db")) as db:
            db.execute(f"PRAGMA user_version = {today['to'] - 1}")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = (c.store / "toolcrib.db").read_bytes()
        said = c.json("migrate", "--dry-run")[0]
        self.assertEqual((said["from"], said["to"]), (today["to"] - 1, today["to"]))
        self.assertNotEqual(said["said"], "nothing to do")
        self.assertEqual((c.store / "toolcrib.db").read_bytes(), before)
        with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db")) as db:
            self.assertEqual(db.execute("PRAGMA user_version").fetchone()[0], today["to"] - 1)


if __name__ == "__main__":
    crib.main()
