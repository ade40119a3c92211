"""A store of the release before goes forward with a copy of what it was, may be killed at any moment, and goes back; one of a newer
release is refused by all programs (OPERATE OP-911, OP-912)."""
import contextlib
import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import tarfile
import time
import unittest

import crib

DIE = crib.BUILD / "tests/integ/die.so"
SPARE = 16 << 20                        # DB_BEFORE_SPARE
KEEP = 14 * 24 * 3600                   # DB_BEFORE_KEEP_S
PLACES = 10
STARTS = "SELECT detail FROM v_records WHERE kind = 'server.start' AND detail LIKE '%, schema %' ORDER BY time"


class Upgrade(crib.Case):
    def setUp(self):
        super().setUp()
        packed = max((crib.SOURCE / "tests" / "old-db").glob("*.tar.xz"))
        with tarfile.open(packed) as tar:
            tar.extractall(self.crib.dir / "old")
        self.crib.store = self.crib.dir / "old/store"
        self.db = self.crib.store / "toolcrib.db"
        self.bytes = self.db.read_bytes()
        self.was = int.from_bytes(self.bytes[60:64], "big")
        self.to = int(re.search(r"this one has (\d+)", self.crib.run("doctor").stdout)[1])
        self.copy, self.signer = (self.crib.store / f"before-{self.to}.{end}" for end in ("db", "signer.tar"))
        without_log = self.bytes[:18] + b"\1\1" + self.bytes[20:]
        self.sum = hashlib.sha256(without_log).hexdigest()

    def files(self):
        passing = ("lock", "-shm", "-wal")
        return {path.name: path.read_bytes() for path in self.crib.store.iterdir() if path.is_file() and not path.name.endswith(passing)}

    def migrate(self, *words, env=None, code=0):
        done = self.crib.run("--json", "migrate", *words, env=env)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout) if code == 0 else done.stderr

    def preload(self, **env):
        return {"LD_PRELOAD": str(DIE), "ASAN_OPTIONS": "verify_asan_link_order=0", **{f"TOOLCRIB_TEST_{name}": str(value)
                                                                                      for name, value in env.items()}}

    def is_there(self):
        self.assertEqual(hashlib.sha256(self.copy.read_bytes()).hexdigest(), self.sum)
        self.assertEqual([self.copy.stat().st_mode & 0o777, self.signer.stat().st_mode & 0o777], [0o600] * 2)
        starts = [detail for detail, in self.crib.rows(STARTS)]
        self.assertEqual(len(starts), 1, starts)
        self.assertIn(f", schema {self.was} -> {self.to}, copy of before {self.copy.name} sha256:{self.sum}", starts[0])
        self.assertEqual(self.crib.rows("SELECT count(*) FROM meta WHERE key = 'before'"), [(0,)])

    def verify(self):
        c = self.crib
        done = subprocess.run([crib.BUILD / "toolcrib-verify", *crib.evidence(c.store), c.store], capture_output=True, text=True,
                              timeout=crib.DEADLINE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_op911_the_store_of_before_lies_beside_it(self):
        before = self.files()
        dry = self.migrate("--dry-run")
        self.assertEqual((dry["from"], dry["to"], dry["copy_bytes"]), (self.was, self.to, len(self.bytes)))
        self.assertEqual([int(step[:4]) for step in dry["steps"]], list(range(self.was + 1, self.to + 1)))
        self.assertIn(f"a copy of before of {len(self.bytes)} bytes, for which the disk has {dry['room']}, steps 00", dry["said"])
        self.assertRegex(dry["said"], r"in about \d+ s$")
        after = self.files()
        self.assertEqual({name: after[name] for name in before}, before)
        self.assertFalse([name for name in after if name.startswith("before-")])
        self.crib.start()
        self.is_there()
        with tarfile.open(self.signer) as tar:
            self.assertIn("signer/state", tar.getnames())
        self.crib.stop()
        copied = self.copy.stat().st_mtime_ns
        self.crib.cli("tenant", "list")
        self.assertEqual((self.migrate()["said"], self.copy.stat().st_mtime_ns), ("nothing to do", copied))
        self.is_there()
        self.assertIn(f"; {self.copy.name} beside it is the store as it was on 2", self.crib.run("doctor").stdout)

    @unittest.skipUnless(DIE.exists(), "die.so is not built")
    def test_op911_no_room_is_named_and_nothing_is_done(self):
        """At the last byte that is missing, and with it."""
        before, needs = self.files(), len(self.bytes) + SPARE
        self.assertIn(": too few", self.migrate("--dry-run", env=self.preload(ROOM=needs - 1))["said"])
        for words in (["migrate"], ["tenant", "list"]):
            done = self.crib.run(*words, env=self.preload(ROOM=needs - 1))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"takes {needs} bytes, of which the disk has {needs - 1}; nothing was changed", done.stderr)
            self.assertIn("toolcrib migrate --no-copy", done.stderr)
            self.assertEqual(self.files(), before)
        self.assertNotIn("too few", self.migrate("--dry-run", env=self.preload(ROOM=needs))["said"])
        self.migrate(env=self.preload(ROOM=needs))
        self.is_there()

    def test_op911_a_person_may_go_on_without(self):
        self.assertEqual(self.migrate("--dry-run", "--no-copy")["copy_bytes"], 0)
        self.migrate("--no-copy")
        self.assertFalse(self.copy.exists() or self.signer.exists())
        self.assertIn(f", schema {self.was} -> {self.to} without a copy of before", self.crib.rows(STARTS)[0][0])
        self.assertEqual(self.crib.rows("SELECT count(*) FROM meta WHERE key = 'before'"), [(0,)])

    def test_op911_a_reader_that_is_in_the_way_is_named(self):
        """A log that cannot be emptied is no copy of the store; nothing is done until it can be."""
        with contextlib.closing(sqlite3.connect(self.db)) as other:
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM meta").fetchall()
            for change in ("INSERT INTO meta(key, value) VALUES('later', '')", "DELETE FROM meta WHERE key = 'later'"):
                with contextlib.closing(sqlite3.connect(self.db)) as writer, writer:
                    writer.execute(change)
            self.assertIn("another program reads the store, so that no copy of before can be made", self.migrate(code=1))
            self.assertFalse(self.copy.exists() or self.signer.exists())
        self.migrate()
        self.assertTrue(self.copy.exists())

    def go_on(self):
        """A start, and a stop that is signed.  One that died behind its record, before that was signed, is told of like any other."""
        done = self.crib.run("tenant", "list")
        if "were added while no server could have" in done.stderr:
            self.assertEqual(len(self.crib.rows(STARTS)), 1)
            self.crib.cli("audit", "adopt", *done.stderr.split("toolcrib audit adopt ")[1].split())
            done = self.crib.run("tenant", "list")
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(DIE.exists(), "die.so is not built")
    def test_op911_it_is_killed_anywhere_and_goes_on(self):
        """FP-12: from the first byte of the copy to the record; there is one copy, of the store before, and one record of it."""
        c, whole, flushes = self.crib, self.crib.store, self.crib.dir / "flushes"

        def fresh(name):
            c.store = c.dir / name
            shutil.copytree(whole, c.store)
            self.copy, self.signer = c.store / self.copy.name, c.store / self.signer.name

        fresh("counted")
        self.migrate(env=self.preload(FLUSHES=flushes))
        places, seen = len(flushes.read_bytes()), set()
        self.assertGreater(places, PLACES)
        for n in range(PLACES):
            fresh(f"copy{n}")
            c.run("migrate", env=self.preload(DIE=1 + n * (places - 1) // (PLACES - 1)))
            with contextlib.closing(sqlite3.connect(f"file:{c.store}/toolcrib.db?mode=ro", uri=True)) as db:
                seen.add((self.copy.exists(), db.execute("PRAGMA user_version").fetchone()[0]))
            self.migrate()
            self.go_on()
            self.is_there()
            self.verify()
            shutil.rmtree(c.store)
        self.assertIn((False, self.was), seen)                  # within the copy
        self.assertIn((True, self.was), seen)                   # between it and the first step
        self.assertTrue([at for _, at in seen if self.was < at < self.to], seen)

    def test_op911_copies_go_when_they_are_old_or_when_asked(self):
        c = self.crib
        self.assertIn("its copy is the way back", self.migrate("--drop-copy", code=1))
        self.migrate()
        names = {"before-3.db": KEEP + 5, "before-3.signer.tar": KEEP + 5, "before-4.db": KEEP - 600, "before-4.signer.tar": KEEP - 600,
                 "before-5.db.new": 0, "before-05.db": KEEP + 5, "before-5.dbx": KEEP + 5}
        now = time.time()
        for name, age in names.items():
            (c.store / name).write_bytes(b"x")
            os.utime(c.store / name, (now - age,) * 2)
        (c.store / "before-6.db").symlink_to("toolcrib.db")
        c.start()
        gone = {"before-3.db", "before-3.signer.tar", "before-5.db.new"}
        crib.wait_for("the old copies are gone", lambda: not gone & {path.name for path in c.store.iterdir()})
        here = {path.name for path in c.store.glob("before-*")}
        kept = {"before-05.db", "before-5.dbx", "before-6.db"}
        self.assertEqual(here, kept | {"before-4.db", "before-4.signer.tar", self.copy.name, self.signer.name})
        self.assertEqual(self.migrate("--drop-copy", "--dry-run")["said"], f"copies of before would be removed, up to {self.copy.name}")
        self.assertEqual(self.migrate("--drop-copy")["said"], "2 copies of before removed")
        self.assertEqual({path.name for path in c.store.glob("before-*")}, kept)
        self.assertEqual(self.migrate("--drop-copy")["said"], "nothing to do")

    def test_op912_every_program_refuses_a_newer_store(self):
        """What, where, which copy leads back; and the files of the store are what they were."""
        c = self.crib
        self.migrate()
        shutil.copy(self.copy, c.store / f"before-{self.to + 1}.db")
        with contextlib.closing(sqlite3.connect(self.db)) as db:
            db.execute(f"PRAGMA user_version = {self.to + 1}")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        files = self.files()
        newer, copy = f"made by a newer toolcrib: schema {self.to + 1}, this one knows {self.to}", f"go back to before-{self.to + 1}.db"
        backup = c.dir / "backup.db"
        for words in ("status", "tenant list", "tenant add acme", "call demo word_count text=x", "audit calls --tenant demo",
                      "audit verify", "audit tail", "reload", "migrate", "migrate --dry-run", "migrate --no-copy", "migrate --drop-copy",
                      "fsck", "fsck --quarantine tool/1", f"backup {backup}", "export"):
            done = c.run("--yes", *words.split())
            self.assertIn(done.returncode, (1, 3), words + done.stdout + done.stderr)
            self.assertIn(newer, done.stderr, words)
            self.assertIn(copy, done.stderr, words)
            self.assertEqual(done.stdout, "", words)
        self.assertFalse(backup.exists())
        self.assertIn(newer, c.run("doctor").stdout)
        restored = c.run("restore", "--from", self.db, "--to", c.dir / "back")
        self.assertIn("newer", restored.stdout + restored.stderr)
        self.assertNotEqual(restored.returncode, 0)
        self.assertFalse((c.dir / "back").exists())
        for program in ([crib.BUILD / "toolcribd", "--store", c.store, "-c", c.config()], [crib.BUILD / "toolcrib-verify", c.store],
                        [*crib.sceptic(), c.store / "toolcrib.db"]):
            done = subprocess.run(program, capture_output=True, text=True, timeout=crib.DEADLINE, env=c.env)
            self.assertIn(done.returncode, (1, 3, 5), done.stdout + done.stderr)
            self.assertRegex(done.stdout + done.stderr, "newer|is not one that this program knows")
        self.assertEqual(self.files(), files)

    def test_op912_the_way_back_is_the_manuals(self):
        """What was added since is gone, and said to be; the store is served, and goes forward again."""
        c = self.crib
        self.migrate()
        c.cli("tenant", "add", "since")
        page = (crib.SOURCE / "src/main/toolcribd.8").read_text()
        block = page.split(".Ss Going back to the release before")[1].split(".Ed")[0]
        lines = [line.replace("\\(aq", "'") for line in block.splitlines() if line and not line.startswith((".", "systemctl", "STORE="))]
        self.assertEqual(len(lines), 5)
        done = subprocess.run(["sh", "-e"], input="\n".join([f"STORE={c.store} COPY={self.copy.stem}", *lines]), capture_output=True,
                              text=True, timeout=crib.DEADLINE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.migrate("--dry-run")["from"], self.was)       # what the older program knows, to the letter
        c.start()
        self.assertNotIn("since", c.cli("tenant", "list"))
        self.assertIn("put back from a copy that ends at system:", c.rows(STARTS)[0][0])
        self.assertIn("2 words", c.cli("call", "demo", "word_count", "text=hello there"))
        c.stop()
        self.verify()
        self.is_there_again()

    def is_there_again(self):
        """A second upgrade has its own copy: of the store that was put back."""
        self.assertEqual(len(self.crib.rows(STARTS)), 1)
        digest = hashlib.sha256(self.copy.read_bytes()).hexdigest()
        self.assertIn(f"{self.copy.name} sha256:{digest}", self.crib.rows(STARTS)[0][0])


if __name__ == "__main__":
    crib.main()
