"""Stores of older releases (tests/old-db, made by contrib/old-store) are opened, brought up to date, served and verified."""
import pathlib
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


if __name__ == "__main__":
    crib.main()
