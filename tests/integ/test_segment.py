"""toolcrib-verify FILE.tcs: a sealed file by itself, without the store it came from (SC-107, SC-709, SC-711)."""
import hashlib
import json
import os
import re
import sqlite3
import struct
import subprocess

import crib

VERIFY, SEAL = crib.BUILD / "toolcrib-verify", crib.BUILD / "tests/bench/b_seal"
FILL = ("--tenants", 2, "--principals", 4, "--tools", 4, "--days", 3, "--level", "request")
LOG, TO = 2, 1024
# A few of those of tests/unit/t_segment.c, one for each table and finding.
TAMPERING = (
    ("CREATE TABLE mine(x)", "SEGMENT"), ("DELETE FROM info", "SEGMENT"), ("UPDATE info SET to_peaks = zeroblob(length(to_peaks))", "ROOT"),
    ("UPDATE info SET growth = zeroblob(length(growth))", "ROOT"), ("UPDATE info SET epoch = epoch + 1", "CP_SIG"),
    ("UPDATE epoch SET pk = zeroblob(32)", "KEYCHAIN"), ("DELETE FROM epoch", "CP_SIG"),
    ("UPDATE epoch SET cert = zeroblob(1) WHERE n = 0", "SEGMENT"), ("UPDATE blk SET ts_max = ts_max + 1", "INDEX"),
    ("UPDATE blk SET cnt = cnt - 1", "PARSE"), ("UPDATE text SET kind = 99 WHERE text = 'tool_001'", "DICT"),
    ("INSERT INTO text SELECT max(id) + 1, 34, 'unused' FROM text", "DICT"),
    ("INSERT INTO text SELECT max(id) + 2, 34, 'unused' FROM text", "SEGMENT"),
    ("UPDATE text SET text = CAST(x'ff' AS TEXT) WHERE text = 'tool_001'", "DICT"),
    ("UPDATE blkpay SET body = x'00' WHERE first = 256", "SEGMENT"),
    ("UPDATE blkpay SET body = (SELECT body FROM blkpay WHERE first = 512) WHERE first = 256", "PAYLOAD"),
    ("UPDATE blkpay SET first = 257 WHERE first = 256", "SEGMENT"), ("PRAGMA journal_mode=WAL", "SEGMENT"),
)


class Segment(crib.Case):
    def verify(self, *words):
        """Exit status, names of findings, all that was said."""
        done = subprocess.run([str(VERIFY), *map(str, words)], capture_output=True, text=True, timeout=crib.DEADLINE)
        found = [line.split()[0] for line in done.stdout.splitlines() if re.match(r"[A-Z_]+ \S+( [-\d]+)?: ", line)]
        return done.returncode, found, done.stdout + done.stderr

    def both(self, *paths):
        """The same of the verifier that shares no code with it: the same verdict, for the same reasons, and the same digest."""
        status, found, said = self.verify(*self.pins, *paths)
        done = subprocess.run([*crib.sceptic(), *map(str, self.pins), *map(str, paths)], capture_output=True, text=True,
                              timeout=crib.DEADLINE)
        lines = done.stdout.splitlines()
        theirs = {line.split()[0] for line in lines if re.match(r"[A-Z_]+ (?!\d+ records)\S+ ", line)}
        self.assertEqual((done.returncode, theirs), (status, set(found)), said + done.stdout + done.stderr)
        if not found:
            alike = re.compile(r"sealed file|its digest|alone|whether|INTACT")
            self.assertEqual(list(filter(alike.match, lines)), list(filter(alike.match, said.splitlines())))
        return status, found, said

    def seal(self, name, log=LOG, start=0, end=TO):
        done = subprocess.run([str(SEAL), str(self.crib.store), str(log), str(start), str(end), str(self.crib.dir / name)],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["records"], end - start)
        return self.crib.dir / name

    def edited(self, at, sql=None):
        """A copy of the file with another byte there, or what a statement makes of it."""
        copy = self.crib.dir / "edited.tcs"
        data = bytearray(self.file.read_bytes())
        if at is not None:
            data[at] ^= 0x10
        copy.write_bytes(data)
        if sql:
            db = sqlite3.connect(copy)
            db.executescript(sql)
            db.close()
        return copy

    def filled(self):
        self.crib.fill(5000, *FILL)
        self.pins = crib.evidence(self.crib.store)[:2]
        self.assertEqual(self.pins[0], "--key")
        self.file = self.seal("202611-0.tcs")

    def test_sc709_alone(self):
        """What verifies, and what is said of it; the digest is that of the page."""
        self.filled()
        status, found, said = self.both(self.file)
        self.assertEqual((status, found), (0, []), said)
        self.assertIn(f"INTACT {TO} records of 1 logs: 0 bad, 0 gaps\n", said)
        self.assertRegex(said, rf"(?m)^sealed file of \S+/t/fill00000, records 0-{TO - 1}, from \S+Z to \S+Z$")
        self.assertIn("whether calls pair, clocks, the registry and the records around it were not looked at", said)
        self.assertIn(f"its digest is {self.digest()}\n", said)
        self.assertEqual(self.verify("-q", *self.pins, self.file)[2].count("\n"), 1)
        # Without a key nobody but the file says who signed it.
        status, found, said = self.verify(self.file)
        self.assertEqual((status, found), (5, ["NOT_CHECKED"]), said)
        # Without its name it is known by what it says.
        plain = self.crib.dir / "month"
        plain.write_bytes(self.file.read_bytes())
        self.assertEqual(self.verify(*self.pins, plain)[:2], (0, []))
        # Another tenant's log, and a piece that begins in the middle.
        for name, words in (("other.tcs", (3, 0, 512)), ("next.tcs", (LOG, 512, 768))):
            status, found, said = self.both(self.seal(name, *words))
            self.assertEqual((status, found), (0, []), said)
        said = self.verify("--progress", "json", *self.pins, self.file)[2]
        self.assertEqual(json.loads(re.search(r"(?m)^\{.*\}$", said)[0])["of"], TO)

    def digest(self):
        """contrib/doc/segment-format.md, by the plain file."""
        db, sums = sqlite3.connect(f"file:{self.file}?mode=ro&immutable=1", uri=True), hashlib.sha256()
        for row in db.execute("SELECT first, cnt, fmt, ts_min, ts_max, cols, hash, zone FROM blk ORDER BY first"):
            sums.update(b"b" + struct.pack(">5q", *row[:5]) + b"".join(struct.pack(">q", len(part)) + part for part in row[5:]))
        for number, kind, text in db.execute("SELECT id, kind, CAST(text AS BLOB) FROM text ORDER BY id"):
            sums.update(b"t" + struct.pack(">3q", number, kind, len(text)) + text)
        header = self.file.read_bytes()[:100]
        self.assertEqual((header[68:72], header[16:18], db.execute("PRAGMA integrity_check").fetchone()),
                         (b"TCS1", (8192).to_bytes(2, "big"), ("ok",)))
        db.close()
        return sums.hexdigest()

    def test_sc711_what_somebody_was_at(self):
        self.filled()
        size = self.file.stat().st_size
        hashes = sqlite3.connect(self.file).execute("SELECT hash FROM blk").fetchone()[0]
        for at, sql, want in (
                (self.file.read_bytes().index(hashes[:1000]), None, "ROOT"),
                (None, "UPDATE text SET text = 'other' WHERE text = 'tool_001'", "ROOT"),
                (None, "UPDATE blk SET zone = x'0000000000000000'", "INDEX"),
                (None, "DELETE FROM blk", "GAP"),
                (None, "UPDATE info SET note = CAST(replace(CAST(note AS TEXT), 'fill00000', 'fill00001') AS BLOB)", "PARSE"),
                (None, "UPDATE info SET origin = replace(origin, 'fill00000', 'fill00001')", "PARSE"),
                *((None, sql, want) for sql, want in TAMPERING)):
            status, found, said = self.both(self.edited(at, sql))
            self.assertEqual(status, 4, said)
            self.assertIn(want, found, (sql, said))
        cut = self.crib.dir / "cut.tcs"
        for length in (size - 8192, size - 1, size // 2, 8192, 100):
            cut.write_bytes(self.file.read_bytes()[:length])
            status, found, said = self.both(cut)
            self.assertEqual((status, found), (4, ["SEGMENT"]), said)
            self.assertIn("it was cut, or something was added", said)

    def test_what_is_no_sealed_file(self):
        """Exit status 3, and why; a FIFO is not waited for."""
        self.filled()
        here = self.crib.dir
        (here / "folder.tcs").mkdir()
        (here / "link.tcs").symlink_to(self.file)
        os.mkfifo(here / "fifo.tcs")
        (here / "empty.tcs").write_bytes(b"")
        (here / "text.tcs").write_text("records\n" * 100)
        (here / "foreign.tcs").write_bytes((self.crib.store / "toolcrib.db").read_bytes())
        for name, why in (("folder.tcs", "is no file but a directory"), ("link.tcs", "is a link\nhint: name the file that it leads to"),
                          ("fifo.tcs", "is no file but a FIFO"), ("empty.tcs", "this is no sealed file"),
                          ("text.tcs", "this is no sealed file"), ("foreign.tcs", "this is no sealed file"),
                          ("missing.tcs", "No such file or directory")):
            status, found, said = self.both(here / name)
            self.assertEqual((status, found), (3, []), (name, said))
            self.assertIn(why, said)
        # What has no meaning for one file.
        for words in (("--mark", here / "mark"), ("--anchor", here / "none"), ("--keys", self.crib.store), ("--verbose",)):
            self.assertIn(self.verify(*words, self.file)[0], (2, 3), words)

    def test_sc709_files_of_a_log_join(self):
        """Files that were given together: in whatever order, each begins with the tree that the one before ends with."""
        self.filled()
        parts = [self.seal(f"{i}.tcs", LOG, 256 * i, 256 * i + 256) for i in range(4)]
        other = self.seal("other.tcs", 3, 0, 256)
        status, found, said = self.both(parts[2], parts[0], other, parts[3], parts[1])
        self.assertEqual((status, found), (0, []), said)
        self.assertIn("INTACT 1280 records of 2 logs: 0 bad, 0 gaps\n", said)
        status, found, said = self.both(parts[0], parts[3])
        self.assertEqual((status, found), (5, ["SEGMENT_MISSING"]), said)
        self.assertRegex(said, r"(?m)^SEGMENT_MISSING \S+/t/fill00000 256-767: no file that is whole has these records$")
        status, found, said = self.both(parts[0], parts[1], self.seal("both.tcs", LOG, 0, 512))
        self.assertEqual((status, found), (4, ["SEGMENT", "SEGMENT"]), said)
        # One that is damaged joins nothing; one that cannot be read is exit status 3 at best.
        parts[1].write_bytes(parts[1].read_bytes()[:-1])
        self.assertEqual(self.both(parts[0], parts[1], parts[2])[:2], (4, ["SEGMENT", "SEGMENT_MISSING"]))
        parts[1].unlink()
        self.assertEqual(self.both(parts[0], parts[1], parts[2])[0], 3)
        self.assertEqual(self.verify(*self.pins, parts[0], self.crib.store)[0], 2)

    def test_sc709_beside_a_store(self):
        """Whether a file's records are those that the store had at their place."""
        self.filled()
        said = self.verify(*self.pins, "--with-bundle", self.file, self.crib.store)
        self.assertEqual(said[0], 5, said[2])           # names, for lack of keys of payloads
        keys = crib.evidence(self.crib.store)
        status, found, said = self.verify(*keys, "--with-bundle", self.file, self.crib.store)
        self.assertEqual((status, found), (0, []), said)
        status, found, said = self.verify(*keys, "--with-bundle", self.edited(None, "DELETE FROM blk"), self.crib.store)
        self.assertEqual((status, found), (4, ["GAP"]), said)
        other = crib.Crib()
        self.addCleanup(other.close)
        other.fill(3000, *FILL)
        status, found, said = self.verify(*crib.evidence(other.store), "--with-bundle", self.file, other.store)
        self.assertEqual((status, found), (5, ["NOT_CHECKED"]), said)
        self.assertIn("the store has no log of the bundle's origin", said)

    def test_nothing_beside_it_is_opened(self):
        """A journal that somebody puts beside it is not replayed, and nothing is written."""
        self.filled()
        before = self.file.read_bytes()
        for end in ("-journal", "-wal", "-shm"):
            self.file.with_name(self.file.name + end).write_bytes(before[:4096])
        listed = sorted(os.listdir(self.crib.dir))
        self.assertEqual(self.verify(*self.pins, self.file)[:2], (0, []))
        self.assertEqual(sorted(os.listdir(self.crib.dir)), listed)
        self.assertEqual(self.file.read_bytes(), before)


if __name__ == "__main__":
    crib.main()
