"""A backup goes into a new directory, checked on the way: what is damaged or missing is named, and nothing half done stays."""
import resource
import shutil
import signal
import sqlite3
import subprocess
import tarfile

import crib


class Restore(crib.Case):
    """A store with a call whose arguments are kept, its backup, and what the signer remembers of a later day."""

    def setUp(self):
        super().setUp()
        c = self.c = self.crib.init()
        c.tool(crib.ECHO)
        c.tenant("acme", "echo")
        c.cli("level", "set", "request_response", "--tenant", "acme")
        c.cli("call", "acme", "echo", "text=before")
        self.backup, self.keys, self.to = c.dir / "backup", c.dir / "keys", c.dir / "back"
        for folder in (self.backup, self.keys):
            folder.mkdir()
        c.cli("backup", self.backup / "toolcrib.db", "--keys", self.backup / "keys.db", "--signer", self.backup / "signer.tar")
        shutil.copy(c.store / "master.key", self.keys)

    def restore(self, *options, backup=None, expect=0):
        """Rows of what was said, the last one first; where nothing was put back, nothing is left."""
        before = set(self.c.dir.iterdir())
        done = self.c.run("--json", "restore", "--from", backup or self.backup, "--to", self.to, *options)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        if expect not in (0, 5) or "--test" in options:
            self.assertEqual(set(self.c.dir.iterdir()), before)
        rows = [crib.json.loads(line) for line in done.stdout.splitlines()]
        return rows[::-1] or done.stderr

    def damaged(self, name, change):
        """A copy of the backup, one file of it changed."""
        folder = self.c.dir / "damaged"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.backup, folder)
        content = bytearray((folder / name).read_bytes())
        content = change(content) or content
        (folder / name).write_bytes(content)
        return folder

    def test_op511_a_backup_comes_back_whole(self):
        key = crib.evidence(self.backup, keys=False)
        rows = self.restore("--keys", self.keys, *key)
        self.assertEqual((rows[0]["what"], rows[0]["missing"], rows[0]["bad"], rows[0]["gaps"]), ("INTACT", 0, 0, 0), rows)
        for name, mode in (("toolcrib.db", 0o600), ("keys.db", 0o600), ("master.key", 0o400)):
            self.assertEqual((self.to / name).stat().st_mode & 0o777, mode)
        self.assertEqual(self.to.stat().st_mode & 0o777, 0o700)
        for name in ("toolcrib.db", "keys.db"):
            self.assertEqual((self.to / name).read_bytes(), (self.backup / name).read_bytes())
        self.assertEqual([row["what"] for row in rows if row["class"] == "needs"], ["signer"])
        self.assertEqual({p.name for p in self.to.iterdir()}, {"toolcrib.db", "keys.db", "master.key"})
        content = (self.to / "toolcrib.db").read_bytes()        # a second time never goes over it, nor does any other file
        self.assertIn("never written over", self.restore(expect=1))
        self.assertEqual((self.to / "toolcrib.db").read_bytes(), content)
        shutil.rmtree(self.to)
        self.to.mkdir()
        self.restore("--verify", "quick", backup=self.backup / "toolcrib.db")         # the file alone, into what is empty
        self.assertEqual({p.name for p in self.to.iterdir()}, {"toolcrib.db"})

    def test_op511_what_it_would_take_is_said_and_nothing_is_done(self):
        c, before = self.c, set(self.c.dir.iterdir())
        rows = c.json("restore", "--from", self.backup)
        bytes_ = sum((self.backup / name).stat().st_size for name in ("toolcrib.db", "keys.db"))
        self.assertEqual((rows[-1]["class"], rows[-1]["what"], rows[-1]["bytes"]), ("sum", "NEEDED", bytes_))
        self.assertIn("about 1 s at 30 MB a second; nothing was done: say --to", rows[-1]["said"])
        self.assertEqual([row["what"] for row in rows if row["class"] == "needs"], ["master.key", "signer"])
        rows = c.json("restore", "--from", self.backup, "--keys", self.keys)
        self.assertEqual(([row["what"] for row in rows if row["class"] == "needs"], rows[-1]["bytes"]), (["signer"], bytes_ + 32))
        for words, said in ((("--test",), "--test wants --to"), (("--identity", c.dir / "x"), "is not encrypted"),
                            (("--until", "2026-01-01T00:00:00Z"), "is of one moment")):
            done = c.run("restore", "--from", self.backup, *words)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn(said, done.stderr)
        self.assertEqual(set(c.dir.iterdir()), before)

    def test_op511_what_the_signer_has_beyond_it_is_named_log_by_log(self):
        c = self.c
        was = c.rows("SELECT size FROM head WHERE log = 2")[0][0]
        options = ("--keys", self.keys, "--signer-state", c.store / "signer")
        rows = self.restore(*options, "--test", expect=5)       # what said that it was made, and the stop behind that
        self.assertEqual([row["what"].count("/t/") for row in rows if row["class"] == "gap"], [0], rows)
        c.cli("call", "acme", "echo", "text=after")
        c.cli("tenant", "add", "later")
        rows = self.restore(*options, "--test", expect=5)
        short = {row["what"].rpartition("/")[2]: row["said"] for row in rows if row["class"] == "gap"}
        self.assertEqual(len(short), 3, rows)
        self.assertRegex(short["acme"], rf"^{was} records, {was} of them signed; the signer has signed {was + 2}: "
                                        rf"records {was}-{was + 1} are missing$")
        self.assertRegex(short["later"], r"^not in the backup; the signer has signed 1 records of it$")
        self.assertEqual((rows[0]["what"], rows[0]["bad"]), ("INCOMPLETE", 0))
        self.assertGreater(rows[0]["missing"], 3)
        self.restore(*options, expect=5)                # it is put back nevertheless: it is all that there is
        self.assertTrue((self.to / "toolcrib.db").exists())
        other = crib.Crib()
        self.addCleanup(other.close)
        other.cli("init")
        shutil.rmtree(self.to)
        self.assertIn("signs for another store", self.restore("--signer-state", other.store / "signer", expect=1))

    def test_op511_what_is_damaged_is_named_and_nothing_is_left(self):
        def flip(content):
            content[content.index(b"acme")] ^= 1

        cases = (("toolcrib.db", flip, 4), ("toolcrib.db", lambda b: b[:len(b) // 2], 4), ("keys.db", lambda b: b[:len(b) // 2], 4),
                 ("toolcrib.db", lambda b: b"not a store" * 999, 4))
        for name, change, status in cases:
            for check in ("full", "quick"):
                with self.subTest(file=name, status=status, check=check):
                    if change == flip and check == "quick":
                        continue                        # a letter within a page is nothing that its structure shows
                    done = self.c.run("restore", "--from", self.damaged(name, change), "--keys", self.keys, "--to", self.to, "--verify", check)
                    self.assertEqual(done.returncode, status, done.stdout + done.stderr)
                    self.assertFalse(self.to.exists())
                    self.assertNotIn("restoring", done.stdout + done.stderr)
                    self.assertEqual([p.name for p in self.c.dir.iterdir() if "restoring" in p.name], [])
                    self.assertRegex(done.stdout, r"(?m)^bad +\w")
                    self.assertRegex(done.stdout, r"\nsum +DAMAGED .*: nothing was left; --verify none")
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        done = subprocess.run([crib.BUILD / "toolcrib", "restore", "--from", self.backup, "--to", self.to], env=self.c.env,
                              capture_output=True, text=True, preexec_fn=small_files)
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertRegex(done.stderr, r"cannot write \S+/toolcrib\.db: ")
        self.assertEqual([p.name for p in self.c.dir.iterdir() if p.name.startswith("back.")], [])
        rows = self.restore("--verify", "none", backup=self.damaged(*cases[0][:2]))
        self.assertEqual(rows[0]["what"], "NOT VERIFIED")
        self.assertTrue((self.to / "toolcrib.db").exists())

    def test_op511_a_backup_of_an_older_release_is_put_there_and_not_read(self):
        for packed in (crib.SOURCE / "tests/old-db").glob("*.tar.xz"):
            with self.subTest(store=packed.name), tarfile.open(packed) as tar:
                tar.extractall(self.c.dir / packed.stem)
                rows = self.restore(backup=self.c.dir / packed.stem / "store", expect=5)
                self.assertIn("a start carries it forward", [row["said"] for row in rows if row["class"] == "gap"][0])
                shutil.copytree(self.c.dir / packed.stem / "store/signer", self.to / "signer")
                self.assertIn("schema", self.c.cli("--store", self.to, "migrate"))
                shutil.rmtree(self.to)

    def test_op511_who_is_interrupted_leaves_nothing(self):
        c = self.c
        shutil.rmtree(c.store)
        c.fill(20000)
        for signo in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen([crib.BUILD / "toolcrib", "restore", "--from", c.store, "--to", self.to], env=c.env,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            crib.wait_for("it began", lambda: process.poll() is not None or any("restoring" in p.name for p in c.dir.iterdir()))
            process.send_signal(signo)
            done = process.wait(crib.DEADLINE) == 0             # unless it was faster: then it is whole
            self.assertIn(process.returncode, (0, -signo))
            self.assertEqual([p for p in c.dir.iterdir() if p.name.startswith("back.") or p == self.to], [self.to] if done else [])
            shutil.rmtree(self.to, ignore_errors=True)

    def test_op511_sealed_files_come_along_and_one_that_is_missing_is_damage(self):
        c = self.c
        shutil.rmtree(c.store)
        c.fill(1800, "--tenants", 2, "--days", crib.days_back(70), fold=("--block", "120", "--chapter", "3"))
        c.made_by("b_fold", "--seal", "all")
        files = sorted(p.relative_to(c.store) for p in c.store.rglob("*.tcs"))
        self.assertGreater(len(files), 3)
        rows = self.restore(backup=c.store, expect=4)           # no server has sealed these, and nobody signed it
        self.assertEqual({row["what"] for row in rows if row["class"] == "bad"}, {"UNCOVERED_TAIL"}, rows)
        c.cli("audit", "adopt", *c.run("status").stderr.split("audit adopt ")[1].split())
        self.assertEqual(self.restore(backup=c.store)[0]["what"], "INTACT")
        self.assertEqual(sorted(p.relative_to(self.to) for p in self.to.rglob("*.tcs")), files)
        shutil.move(self.to, self.backup / "whole")
        (self.backup / "whole" / files[1]).unlink()
        rows = self.restore(backup=self.backup / "whole", expect=4)
        self.assertTrue([row for row in rows if row["what"] == "SEGMENT_MISSING" and row["class"] == "bad"], rows)

    def test_op511_what_is_no_backup_is_refused(self):
        self.assertIn("is no file", self.restore(backup=self.keys, expect=3))
        folder = self.damaged("toolcrib.db", lambda content: None)
        db = sqlite3.connect(folder / "toolcrib.db")
        db.execute("PRAGMA user_version = 99")
        db.close()
        self.assertIn("made by a newer toolcrib: schema 99", self.restore(backup=folder, expect=1))
        (folder / "toolcrib.db-wal").write_bytes(b"x")
        self.assertIn("has a log beside it", self.restore(backup=folder, expect=1))
        self.assertIn("full, quick or none", self.restore("--verify", "most", expect=1))
        self.assertIn("cannot see how much room", self.c.run("restore", "--from", self.backup, "--to", self.c.dir / "no/where").stderr)


if __name__ == "__main__":
    crib.main()
