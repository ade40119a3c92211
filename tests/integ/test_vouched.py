"""Rows that were written behind the log are refused where they are used, and a store of before says since when it is vouched for."""
import contextlib
import hashlib
import json
import pathlib
import sqlite3
import subprocess
import tarfile
import tempfile
import unittest

import crib

OLD = sorted((crib.SOURCE / "tests" / "old-db").glob("*.tar.xz"))[0]


def behind(store, *steps):
    """SQL by somebody who takes the triggers away first and puts them back."""
    with contextlib.closing(sqlite3.connect(store / "toolcrib.db", isolation_level=None)) as db:
        triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        for sql, *values in steps:
            assert db.execute(sql, values).rowcount != 0, sql
        for _, sql in triggers:
            db.execute(sql)


def verifiers(store, pins):
    """Exit status and output of both."""
    for program in ([crib.BUILD / "toolcrib-verify"], crib.sceptic()):
        done = subprocess.run([*program, "--key", pins, "--keys", store, store], capture_output=True, text=True, timeout=crib.DEADLINE)
        yield done.returncode, done.stdout + done.stderr


def digest(text):
    return hashlib.sha256(json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).digest()


class Vouched(unittest.TestCase):
    def setUp(self):
        self.crib = crib.Crib().init()
        self.addCleanup(self.crib.close)

    def pins(self, store=None):
        path = self.crib.dir / "pins"
        words = [crib.BUILD / "toolcrib", "--store", store or self.crib.store, "audit", "keys"]
        path.write_text(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
        return path

    def two_versions(self):
        for what in ("echo", "time"):
            self.crib.tool(crib.tool_yaml("echo", f"{{type: builtin, function: {what}}}"), "echo.yaml")

    def refused(self, said, *words):
        done = self.crib.run(*words)
        self.assertNotEqual(done.returncode, 0, words)
        self.assertIn(said, done.stderr, words)

    def test_an_old_version_that_was_edited_is_neither_shown_nor_put_in_force(self):
        """AUDIT A-417: its text and digest fit, and its record says something else."""
        c = self.crib
        self.two_versions()
        pins = self.pins()
        (text,), = c.rows("SELECT definition FROM tool_version WHERE version = 1")
        forged = text.replace("echo", "time")
        self.assertIn("version 1", c.cli("tool", "revert", "echo", "1"))
        behind(c.store, ("UPDATE tool_version SET definition = ?, digest = ? WHERE version = 1", forged, digest(forged)))
        said = "the version 1 of tool echo is not what its record says"
        for words in (("tool", "revert", "echo", "1"), ("tool", "diff", "echo", "1", "2"), ("tool", "history", "echo"),
                      ("tool", "show", "echo", "--version", "1")):
            self.refused(said, *words)
        self.assertEqual(len(c.json("tool", "list")), 1)
        for status, text in verifiers(c.store, pins):
            self.assertEqual(status, 4, text)
            self.assertIn("version/1", text)

    def test_settings_that_nobody_set_stop_the_start(self):
        c = self.crib
        c.cli("approval", "policy", "one")
        pins = self.pins()
        behind(c.store, ("UPDATE meta SET value = 'two' WHERE key = 'approvals'",))
        self.refused("the row setting/2 is not what its record says", "tenant", "list")
        behind(c.store, ("UPDATE meta SET value = 'one', rec_idx = NULL WHERE key = 'approvals'",))
        self.refused("the row setting/2 was written behind the log", "tenant", "list")
        for status, text in verifiers(c.store, pins):
            self.assertEqual(status, 4, text)

    def test_tenants_that_changed_their_logs_stop_the_start(self):
        c = self.crib
        for name in ("acme", "beta"):
            c.cli("tenant", "add", name)
        pins = self.pins()
        behind(c.store, *(("UPDATE log SET tenant_id = ? WHERE tenant_id = ?", new, old) for new, old in ((-1, 1), (1, 2), (2, -1))))
        self.refused("the row log/", "audit", "calls", "--tenant", "acme")
        for status, text in verifiers(c.store, pins):
            self.assertEqual(status, 4, text)
            self.assertIn("REGISTRY", text)

    def test_rows_are_taken_as_they_were_once(self):
        """Neither without the word of meta nor without the place of a record are they taken again."""
        c = self.crib
        self.two_versions()
        self.assertEqual(c.rows("SELECT count(*) FROM rec WHERE kind = 1534"), [(1,)])
        behind(c.store, ("UPDATE tool_version SET actor = 'uid 7', rec_log = NULL, rec_idx = NULL WHERE version = 1",),
               ("DELETE FROM meta WHERE key = 'vouched'",))
        self.refused("the row version/1 was written behind the log", "tool", "list")

    def test_an_old_store_says_since_when(self):
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(OLD) as tar:
                tar.extractall(folder)
            store = pathlib.Path(folder) / "store"
            run = [crib.BUILD / "toolcrib", "--store", store]
            subprocess.run([*run, "migrate"], capture_output=True, check=True)
            pins = self.pins(store)
            with contextlib.closing(sqlite3.connect(store / "toolcrib.db")) as db:
                (since,), = db.execute("SELECT ts FROM rec WHERE kind = 1534")
            said = subprocess.run([*run, "--json", "tool", "history", "word_count"], capture_output=True, text=True, check=True).stdout
            rows = [json.loads(line) for line in said.splitlines()]
            self.assertTrue(all(row["vouched_since"] for row in rows), rows)
            for status, text in verifiers(store, pins):
                self.assertEqual(status, 0, text)
                self.assertIn("not vouched for before", text)
            said = subprocess.run([*run, "--json", "audit", "verify"], capture_output=True, text=True, check=True).stdout
            self.assertIn('"vouched_since"', said)
            self.assertGreater(since, 0)

    def test_an_old_store_whose_version_was_forged_before_is_found(self):
        """What is taken as it was has at least the digest of its definition."""
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(OLD) as tar:
                tar.extractall(folder)
            store = pathlib.Path(folder) / "store"
            with contextlib.closing(sqlite3.connect(store / "toolcrib.db")) as db:
                db.execute("INSERT INTO tool_version(tool_id, version, digest, list_digest, definition, actor, created_us, kind) "
                           "SELECT tool_id, 77, digest, list_digest, replace(definition, 'a', 'b'), actor, 1, kind FROM tool_version LIMIT 1")
                db.commit()
            subprocess.run([crib.BUILD / "toolcrib", "--store", store, "migrate"], capture_output=True, check=True)
            for status, text in verifiers(store, self.pins(store)):
                self.assertEqual(status, 4, text)
                self.assertIn("has not the digest of its definition", text)


if __name__ == "__main__":
    crib.main()
