"""Damaged files, copies taken at the wrong moment, an older backup put back, a full disk in the middle of a course (FAULT F13,
F43, F48, F49)."""
import contextlib
import os
import pathlib
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integ"))
import crib
from witness import Witness

DAMAGE = int(os.environ.get("TOOLCRIB_DAMAGE", "100"))
SEED = 20261121
VERIFY = crib.BUILD / "toolcrib-verify"
TABLES = ("tenant", "principal", "cred", "tool", "tool_grant")     # what the lists of commands are made of
ERASE, ERASE_DONE, PRUNE, PRUNE_DONE = 1906, 1907, 1904, 1905


def verify(*words):
    """toolcrib-verify: exit status and the names of what it found."""
    done = subprocess.run([VERIFY, *map(str, words)], capture_output=True, text=True, timeout=60)
    assert (done.stdout + done.stderr).replace("\n", "").isprintable(), "bytes of the store on a terminal"
    return done.returncode, {line.split()[0] for line in done.stdout.splitlines()[:-1] if " epochs, " not in line}


def not_evidence():
    """Columns of the store that nothing vouches for, of which reports do without."""
    rows = [line.split("\t") for line in (crib.SOURCE / "contrib/doc/vouched.tsv").read_text().splitlines()]
    found = {(row[1], column) for row in rows if row[0] == "store" and row[3] == "none" for column in row[2].split()}
    assert found
    return found


def reports(folder):
    """All that a reviewer or an administrator may read of a store and rely on, by view or table."""
    aside = not_evidence()
    with contextlib.closing(sqlite3.connect(f"file:{folder}/toolcrib.db?mode=ro", uri=True)) as db:
        views = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name")]
        columns = {name: [f'"{row[1]}"' for row in db.execute(f"PRAGMA table_info({name})") if (name, row[1]) not in aside]
                   for name in [*views, *TABLES]}
        return {name: db.execute(f"SELECT {', '.join(columns[name])} FROM {name}").fetchall() for name in columns}


class Damage(crib.Case):
    pins = None

    def setUp(self):
        super().setUp()
        self.w = Witness(self.crib.init())

    def calls(self, n, tool="echo"):
        with contextlib.closing(self.crib.tcp(self.w.key)) as peer:
            for i in range(n):
                self.assertIn("result", peer.call(tool, {"text": f"text {i}"} if tool == "echo" else {}, crib.MODERN))

    # --- F13

    def flips(self, files):
        """Seeded places, the files in turn, mostly where something is: one bit, or a byte that becomes 0, 255 or anything."""
        rng = random.Random(SEED)
        used = {name: [at for at, byte in enumerate(data) if byte] for name, data in files}
        for i in range(DAMAGE):
            name, data = files[i % len(files)]
            at = rng.choice(used[name]) if rng.random() < 0.9 else rng.randrange(len(data))
            old = data[at]
            new = rng.choice((old ^ 1 << rng.randrange(8), 0, 255, rng.randrange(256)))
            yield i, name, at, old, new if new != old else old ^ 1

    def check(self, store):
        """With all that an outsider may have: what was signed, and the keys of payloads."""
        self.pins = self.pins or crib.evidence(self.crib.store)
        return verify("--signer-state", self.crib.store / "signer", *self.pins, store)

    def found_or_harmless(self, store, want):
        """How many were found; the others show what the sound store shows."""
        paths = [path for path in (store / "toolcrib.db", store / "toolcrib.db-wal") if path.exists() and path.stat().st_size]
        files = [(path.name, path.read_bytes()) for path in paths]
        found = 0
        for i, name, at, old, new in self.flips(files):
            with self.subTest(i=i, file=name, at=at, old=old, new=new):
                for sound, data in files:
                    (store / sound).write_bytes(data)
                (store / "toolcrib.db-shm").unlink(missing_ok=True)
                with open(store / name, "r+b") as f:
                    f.seek(at)
                    f.write(bytes([new]))
                code, what = self.check(store)
                self.assertIn(code, (0, 3, 4, 5))
                if code != want[0] or what != want[1]:
                    found += 1
                elif code in (0, 5):
                    self.assertEqual(reports(store), want[2], "verified, and shows something else")
        return found

    def damaged_copies(self, running):
        c = self.crib.start()
        self.calls(30)
        self.calls(3, "effect")
        crib.wait_for("all signed", lambda: self.check(c.store) == (0, set()))
        if running:
            self.w.kill()
        else:
            self.assertEqual(c.stop(), 0)
        store = c.dir / "copy"
        store.mkdir()
        for path in c.store.glob("toolcrib.db*"):
            if not path.name.endswith("-shm"):
                shutil.copy(path, store)
        code, what = self.check(store)
        self.assertIn(code, (0, 5), what)
        found = self.found_or_harmless(store, (code, what, reports(store)))
        print(f"{DAMAGE} damages, {found} found, the others harmless", flush=True)
        self.assertGreater(found, 0)

    def test_f13_a_damaged_byte_of_a_stopped_store(self):
        self.damaged_copies(False)

    def test_f13_a_damaged_byte_after_a_crash(self):
        self.damaged_copies(True)

    # --- F48

    def test_f48_copies_taken_while_the_server_writes(self):
        c = self.crib.start()
        self.w.load()
        crib.wait_for("answers", lambda: len(self.w.answered) > 30)
        backup, both, alone = c.dir / "backup", c.dir / "both", c.dir / "alone"
        for folder in (backup, both, alone):
            folder.mkdir()
        c.cli("backup", backup / "toolcrib.db")
        shutil.copy(c.store / "toolcrib.db", alone)
        for name in ("toolcrib.db", "toolcrib.db-wal"):
            shutil.copy(c.store / name, both)
        self.w.rest()
        self.assertEqual(c.stop(), 0)
        # Calls were running: what began has not ended, and nobody had signed the last second.
        code, what = verify(*crib.evidence(c.store), backup)
        self.assertIn(code, (0, 5), what)
        self.assertLessEqual(what, {"UNCOVERED_TAIL", "DANGLING"})
        with contextlib.closing(sqlite3.connect(f"file:{backup}/toolcrib.db?immutable=1", uri=True)) as db:
            self.assertEqual(db.execute("PRAGMA integrity_check").fetchone()[0], "ok")
        # The others are found, or are the store at an earlier moment.
        for folder in (both, alone):
            with self.subTest(folder=folder.name):
                code, what = verify(*crib.evidence(c.store), folder)
                if code in (0, 5):
                    self.assertLessEqual(what, {"UNCOVERED_TAIL", "DANGLING"})
                    self.earlier(folder)
                else:
                    self.assertIn(code, (3, 4))
        self.w.testify(self)

    def earlier(self, folder):
        """Each record of the copy is the store's."""
        with contextlib.closing(sqlite3.connect(f"file:{folder}/toolcrib.db", uri=True)) as db:
            db.execute("ATTACH ? AS now", (f"file:{self.crib.store}/toolcrib.db?mode=ro",))
            strange = db.execute("SELECT count(*) FROM (SELECT log, idx, leaf FROM rec EXCEPT SELECT log, idx, leaf FROM now.rec)"
                                 ).fetchone()
        self.assertEqual(strange, (0,))

    # --- F49

    def test_f49_an_older_backup_does_not_bring_back_what_was_erased(self):
        """Whoever has not the signer's memory as well is refused; and the keys of what was erased are gone."""
        c = self.crib
        c.cli("approval", "policy", "one")
        roles = f"roles: [{{role: auditor, uid: {os.geteuid()}}}]\n"     # who has the store is no auditor by that
        c.config_alone(roles)
        c.start(roles)
        self.calls(5)
        old = c.dir / "old.db"
        crib.wait_for("all signed", lambda: self.check(c.store) == (0, set()))
        c.cli("backup", old)
        state = (c.store / "signer" / "state").read_bytes()
        call = c.json("audit", "calls", "--tenant", "acme", "--limit", "1")[0]["call"]
        shown = {row["what"]: row for row in c.json("audit", "payload", call)}
        self.assertEqual(shown["arguments"]["state"], "kept")
        c.cli("--yes", "erase", "--principal", "acme/bot", "--ground", "asked for", "--ticket", "E-1")
        crib.wait_for("all signed", lambda: self.check(c.store) == (0, set()))
        self.assertEqual(c.stop(), 0)
        for path in c.store.glob("toolcrib.db*"):
            path.unlink()
        shutil.copy(old, c.store / "toolcrib.db")
        done = c.run("tenant", "list")
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("SIGNER_AHEAD", done.stderr)
        code, what = self.check(c.store)
        self.assertEqual(code, 4)
        self.assertIn("SIGNER_AHEAD", what)
        # With the memory put back as well it may start; what was erased stays shut, since its key is destroyed.
        (c.store / "signer" / "state").write_bytes(state)
        shown = {row["what"]: row for row in c.json("audit", "payload", call)}
        self.assertEqual((shown["arguments"]["state"], shown["arguments"]["value"]), ("erased", None))


class FullDisk(crib.Case):
    """FAULT F43: the disk is full, or nearly, when something is to go.  It is done, or refused as a whole, or gone on with."""

    def setUp(self):
        self.mount = pathlib.Path(tempfile.mkdtemp(prefix="toolcrib-tmpfs-"))
        self.addCleanup(self.mount.rmdir)
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", self.mount],
                                               capture_output=True).returncode != 0:
            self.skipTest("needs the right to mount a tmpfs")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", self.mount]))
        self.crib = crib.Crib(self.mount / "crib")
        self.addCleanup(lambda: self.crib.daemon and (self.crib.daemon.kill(), self.crib.daemon.wait()))
        self.w = Witness(self.crib.init())
        self.crib.cli("approval", "policy", "one")
        self.crib.cli("retention", "set", "acme", "--min-days", "0")

    @contextlib.contextmanager
    def room(self, left):
        """A disk with so many bytes left."""
        path = self.mount / "full"
        with open(path, "wb", buffering=0) as f:
            for size in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while f.write(bytes(size)) == size:
                        pass
            f.truncate(max(0, f.tell() - left))
        try:
            yield
        finally:
            path.unlink()

    def calls(self, n):
        with contextlib.closing(self.crib.tcp(self.w.key)) as peer:
            for _ in range(n):
                self.assertIn("result", peer.call("echo", {"text": "x"}, crib.MODERN))

    def count(self, kind):
        with contextlib.closing(sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)) as db:
            return db.execute("SELECT count(*) FROM rec WHERE kind = ?", (kind,)).fetchone()[0]

    def serves(self):
        """The server is there, by itself or by a start, and runs calls."""
        def served():
            if not self.crib.daemon or self.crib.daemon.poll() is not None:
                self.crib.daemon = None
                self.crib.start("audit: {space_floor: 1}\n")
            with contextlib.closing(self.crib.http(self.w.key)) as peer, contextlib.suppress(OSError):
                return "result" in peer.call("echo", {"text": "x"}, crib.MODERN)
        crib.wait_for("service", served)

    def on_a_full_disk(self, *words, ready=tuple):
        """The command with more and more room, at last with enough; how many times it was done."""
        done = 0
        self.serves()
        for left in (0, 1 << 14, 1 << 16, 1 << 18, 1 << 20, None):
            self.calls(150)
            more = ready()
            with self.room(left) if left is not None else contextlib.nullcontext():
                got = self.crib.run(*words, *more)
                self.assertTrue(got.returncode == 0 or (got.stderr and left is not None), f"refused without a word, or reason: {got}")
                done += got.returncode == 0
            self.serves()
        return done

    def ended(self, intent, deed):
        """What the disk interrupted is gone on with by the next start."""
        self.assertEqual(self.crib.stop(), 0)
        self.crib.start()
        crib.wait_for("all deeds", lambda: self.count(intent) == self.count(deed))

    def aftermath(self, pruned=False):
        """pruned: so is the record of the period, which is a gap."""
        self.assertEqual(self.crib.stop(), 0)
        self.w.testify(self)
        done = self.crib.run("audit", "verify")
        self.assertEqual(done.returncode, 5 if pruned else 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("NOT_CHECKED"), done.stdout.count("whose records were pruned"))

    def test_f43_erase(self):
        words = ["--yes", "erase", "--principal", "acme/bot", "--ground", "asked for", "--ticket", "E-1"]
        done = self.on_a_full_disk(*words)
        self.ended(ERASE, ERASE_DONE)
        self.assertGreaterEqual(self.count(ERASE), done)
        self.aftermath()

    def test_f43_prune(self):
        """A bundle that could not be written is none: the next try takes the same name.  The others are on another disk."""
        words = ["--yes", "retention", "prune", "acme", "--before", "0s"]
        elsewhere = tempfile.TemporaryDirectory(prefix="toolcrib-bundles-")
        self.addCleanup(elsewhere.cleanup)
        bundles = [self.crib.dir / "acme.tar"] * 2 + [pathlib.Path(elsewhere.name) / f"{i}.tar" for i in range(4)]

        def ready():
            self.calls(150)
            crib.wait_for("a checkpoint", lambda: self.crib.run(*words, "--dry-run").returncode == 0)
            return ["--bundle", bundles.pop(0)]
        self.assertGreater(self.on_a_full_disk(*words, ready=ready), 0)
        self.ended(PRUNE, PRUNE_DONE)
        self.assertGreater(self.crib.json("retention", "show", "acme")[0]["pruned"], 0)
        self.aftermath(pruned=True)

    def test_f43_rekey(self):
        for i in range(20):
            self.crib.cli("secret", "set", f"s{i}", stdin=f"value {i}")
        self.on_a_full_disk("secret", "rekey")
        self.assertEqual(len(list(self.crib.store.glob("secret-*.key"))), 1)
        self.aftermath()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    crib.main()
