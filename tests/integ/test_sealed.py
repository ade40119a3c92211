"""Records in sealed files are in every answer as they were in blocks, to the byte; without a file an answer says so (SCALE SC-401,
SC-108, SC-002).  toolcrib-verify and verify.py, which share no code, say the same of a store with sealed files, whatever somebody has
done to it (SC-710, SC-711)."""
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import sqlite3
import subprocess
from unittest import mock

import crib
import test_forms

FILL = ("--tenants", 3, "--principals", 4, "--tools", 4, "--failures", 0.2, "--days", crib.days_back(100), "--level", "request")
FOLDS = (("--block", 300, "--chapter", 3), ("--block", 90, "--tail", 300, "--chapter", 2, "--seed", 4))
if crib.sanitized("toolcrib-report"):   # as in test_forms.py
    FOLDS = FOLDS[1:]


def change(store, *statements):
    with contextlib.closing(sqlite3.connect(store / "toolcrib.db", isolation_level=None)) as db:
        for sql in statements:
            db.execute(sql)


def adopt(c):
    """What sealed this store was no server: its records are to be taken over."""
    refused = c.run("audit", "keys")
    assert refused.returncode == 3, refused.stderr
    c.cli("audit", "adopt", *refused.stderr.rpartition("toolcrib audit adopt ")[2].split())


class Files(test_forms.Asked):
    """Stores with sealed files, and the same without."""

    def setUp(self):
        super().setUp()
        self.enterContext(mock.patch.object(test_forms, "VARIES", re.compile(  # what blocks there are is what these say
            test_forms.VARIES.pattern.replace("(at|", "(at|bytes_in_block|plain_since|"))))

    def seal(self, store, month="all", *options):
        done = test_forms.run(crib.BUILD / "tests/bench/b_fold", store, "--seal", month, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["files"]

    def sealed(self, fold, least=4):
        """The same records, and the record of each file, in blocks and in sealed files: two stores."""
        blocks = self.folded(fold)
        files = shutil.copytree(blocks, self.crib.dir / ("files" + "".join(map(str, fold))))
        self.assertGreaterEqual(self.seal(files, "all", "--leftovers"), least)
        before = shutil.copytree(files, self.crib.dir / ("before" + "".join(map(str, fold))))
        shutil.rmtree(before / "segments", ignore_errors=True)
        change(before, f"ATTACH '{blocks}/toolcrib.db' AS was", "DELETE FROM seg",
               *(sql for table in ("blk", "blkpay", "chap") for sql in (f"DELETE FROM {table}", f"INSERT INTO {table} SELECT * FROM was.{table}")))
        return before, files

    def same_in_files(self, asked, fold, scratch, least=4):
        """Files beside the blocks they were made of, then alone."""
        blocks, files = self.sealed(fold, least)
        before = self.answers(asked, blocks, scratch)
        self.same(asked, blocks, files, before, scratch, "beside their blocks")
        change(files, *(f"DELETE FROM {table} WHERE first < (SELECT max(to_idx) FROM seg WHERE seg.log = {table}.log)"
                        for table in ("blk", "blkpay")))
        self.same(asked, blocks, files, before, scratch, "alone")
        return files


class Sealed(Files):
    def setUp(self):
        super().setUp()
        self.rows = self.crib.dir / "rows"
        self.scratch = self.crib.dir / "scratch"
        os.mkdir(self.scratch, 0o700)

    def test_sc401_the_same_answers(self):
        _, asked = self.questions(3000, FILL)
        self.assertGreater(len(asked), 50)
        for fold in FOLDS:
            self.same_in_files(crib.some(asked), fold, self.scratch)

    def test_sc002_an_archive_that_is_not_here_is_said(self):
        """Exit status 5 and the month.  What is no file of this store is no better."""
        c = self.crib
        c.fill(3000, *FILL)
        done = test_forms.run(crib.BUILD / "tests/bench/b_fold", c.store, "--block", 200)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.seal(c.store)
        months = sorted((c.store / "segments/2").iterdir())
        self.assertGreater(len(months), 1)
        missing, other = months[0], months[1]
        month = f"{missing.name[:4]}-{missing.name[4:6]}"
        adopt(c)
        words = ("audit", "calls", "--tenant", "fill00000", "--format", "jsonl", "--limit", "0")
        c.start()
        whole = c.run(*words)
        self.assertEqual(whole.returncode, 0, whole.stderr)
        os.rename(missing, c.dir / "away.tcs")
        done = c.run(*words)
        self.assertEqual((done.returncode, done.stderr.splitlines()[0]), (
            5, f"toolcrib: archive {missing.name} is not here: rows of {month} are missing from this answer"))
        left, all_of = (re.findall(r'"call": ?"[^"]+"', said.stdout) for said in (done, whole))
        self.assertGreater(len(left), 100)
        self.assertTrue(set(left) < set(all_of))
        shutil.copy(other, missing)
        done = c.run(*words)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn(f"archive {missing.name} cannot be read", done.stderr)
        os.rename(c.dir / "away.tcs", missing)
        self.assertEqual(c.run(*words).returncode, 0)

    def test_sc302_files_that_are_in_no_catalog_go_at_a_start(self):
        c = self.crib
        c.fill(2000, *FILL)
        folder = c.store / "segments/2"
        folder.mkdir(parents=True)
        for name in ("202611-0.tcs", "202610-0.tcs.tmp"):
            (folder / name).write_bytes(b"half")
        (folder / "notes.txt").write_text("somebody's own")
        c.start()
        self.assertEqual([path.name for path in folder.iterdir()], ["notes.txt"])


# --- two verifiers

SMALL = ("--tenants", 2, "--principals", 3, "--tools", 3, "--failures", 0.2, "--days", 60, "--level", "request")
FINDING = re.compile(r"([A-Z_]+) (?!\d+ records)(\S+?):?(?: (-?\d+)(?:[- ](-?\d+))?:?)?(?: (.*))?")


def one_file(store, log=2, at=0):
    return sorted((store / "segments" / str(log)).iterdir())[at]


def flip(path, where):
    """Another bit of the file at a place, or of what a query gives, where that stands in the file."""
    data = bytearray(path.read_bytes())
    if isinstance(where, str):
        with contextlib.closing(sqlite3.connect(path)) as db:
            value = db.execute(where).fetchone()[0]
        where = data.index(value[:64].encode() if isinstance(value, str) else value[:64]) + min(len(value), 64) // 2
    data[where] ^= 4
    path.write_bytes(data)


def flipped(where):
    return lambda store: flip(one_file(store), where)


def in_file(*statements):
    def do(store):
        with contextlib.closing(sqlite3.connect(one_file(store), isolation_level=None)) as db:
            for sql in statements:
                db.execute(sql)
    return do


def sign_otherwise(store):
    """In the signature of the note, which is base64 still."""
    with contextlib.closing(sqlite3.connect(one_file(store), isolation_level=None)) as db:
        note, = db.execute("SELECT note FROM info").fetchone()
        letter = b"A" if note[-30:-29] != b"A" else b"B"
        db.execute("UPDATE info SET note = ?", (note[:-30] + letter + note[-29:],))


def in_store(*statements):
    return lambda store: change(store, *statements)


def in_place_of_it(other):
    def do(store):
        path = one_file(store)
        other = taken(store)
        path.unlink()
        shutil.copy(other, path)
    taken = other
    return do


def link(store):
    path = one_file(store)
    os.rename(path, store / "moved.tcs")
    path.symlink_to(store / "moved.tcs")


def a_folder(store):
    path = one_file(store)
    path.unlink()
    path.mkdir()


def cut(store):
    path = one_file(store)
    path.write_bytes(path.read_bytes()[:20000])


def two_that_cover_one_index(store):
    change(store, "INSERT INTO seg(log, from_idx, to_idx, month, ts_min, ts_max, bytes, digest, root, set_by, path) "
                  "SELECT log, from_idx + 256, to_idx, month, ts_min, ts_max, bytes, digest, root, set_by, "
                  "replace(path, '-0.', '-256.') FROM seg WHERE log = 2 AND from_idx = 0")
    shutil.copy(one_file(store), store / "segments/2" / one_file(store).name.replace("-0.", "-256."))


def record_of_it(store):
    """The record that a file was sealed says another root."""
    with contextlib.closing(sqlite3.connect(store / "toolcrib.db", isolation_level=None)) as db:
        (trigger,), = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'rec_frozen'")
        db.execute("DROP TRIGGER rec_frozen")
        db.execute("UPDATE rec SET ext = CAST(substr(ext, 1, length(ext) - 1) || x'00' AS BLOB) WHERE id = (SELECT min(id) FROM rec WHERE log = 2 AND kind = 1912)")
        db.execute(trigger)


def salt_otherwise(path, n):
    """Of the first n records that have no more than a salt, and a hash of it.  Before the bytes of all stand three lengths of each,
    which are one more, or 0."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        for first, body in db.execute("SELECT first, body FROM blkpay ORDER BY first").fetchall():
            body = bytearray(body)
            count, at = (body[0], 1) if body[0] < 128 else (body[0] - 128 + 128 * body[1], 2)
            lengths = [max(length - 1, 0) for length in body[at:at + 3 * count]]
            assert max(lengths) < 127, lengths
            for i in [i for i in range(count) if lengths[3 * i] and not lengths[3 * i + 1]][:n]:
                body[at + 3 * count + sum(lengths[:3 * i])] ^= 1
                n -= 1
            db.execute("UPDATE blkpay SET body = ? WHERE first = ?", (bytes(body), first))
    assert n == 0, n


OTHER, CALLED = "it is another file than the catalog says", "no sealed file of these records is called so"
# The first thing that is said of files, behind the file's name; None: in words of its own.
DONE = (
    ("SEGMENT_MISSING", "it is not here", lambda store: one_file(store).unlink()),
    ("SEGMENT", OTHER, in_place_of_it(lambda store: one_file(store, 3))),               # T48
    ("SEGMENT", OTHER, in_place_of_it(lambda store: one_file(store, 2, 1))),
    ("SEGMENT", CALLED, in_store("UPDATE seg SET path = '/etc/passwd' WHERE log = 2 AND from_idx = 0")),
    ("SEGMENT", CALLED, in_store("UPDATE seg SET path = 'segments/../segments/' || substr(path, 10) WHERE log = 2 AND from_idx = 0")),
    ("SEGMENT", CALLED, in_store("UPDATE seg SET path = replace(path, '-0.', '-1.') WHERE log = 2 AND from_idx = 0")),
    ("SEGMENT", OTHER, in_store("UPDATE seg SET digest = zeroblob(32) WHERE log = 2 AND from_idx = 0")),
    ("SEGMENT", OTHER, in_store("UPDATE seg SET root = zeroblob(32) WHERE log = 2 AND from_idx = 0")),
    ("SEGMENT", OTHER, in_store("UPDATE seg SET to_idx = to_idx - 256 WHERE log = 2 AND from_idx = 0")),
    ("INDEX", "its records have other times than the catalog says", in_store("UPDATE seg SET ts_max = ts_max - 1 WHERE log = 2 AND from_idx = 0")),
    ("INDEX", "its chapters are not what its records come to", in_store("UPDATE chap SET ts_max = ts_max - 1 WHERE log = 2 AND first = 0")),
    ("INDEX", "its chapters are not what its records come to", in_store("UPDATE chap SET sums = x'01' WHERE log = 2 AND first = 0")),
    ("INDEX", "its chapters are not what its records come to", in_store("DELETE FROM chap WHERE log = 2 AND first = 0")),
    ("INDEX", "its chapters are not what its records come to",
     in_store("INSERT INTO chap SELECT log, 7, -9, ts_min, ts_max, zone, sums FROM chap WHERE log = 2 AND first = 0")),
    ("SEGMENT", None, two_that_cover_one_index),
    ("SEGMENT", None, record_of_it),
    ("SEGMENT", None, in_store("UPDATE seg SET set_by = set_by + 7 WHERE log = 2 AND from_idx = 0")),
    ("DICT", None, in_store("UPDATE dict SET text = 'other' WHERE kind = 34 AND text = 'tool_001'")),
    ("SEGMENT", "the file has 20000 bytes, and says that it has {size}: it was cut, or something was added", cut),
    ("SEGMENT", "this is no sealed file", lambda store: one_file(store).write_bytes(b"")),
    ("SEGMENT", "this is no sealed file", in_place_of_it(lambda store: store / "toolcrib.db")),
    ("SEGMENT", "{path} is a link", link),
    ("SEGMENT", "{path} is no file but a directory", a_folder),
    ("SEGMENT", "the file was not made as sealed files are", flipped(18)),
    ("SEGMENT", None, flipped(8192 + 3)),                                               # a page
    ("SEGMENT", None, flipped("SELECT sql FROM sqlite_schema WHERE name = 'blk'")),
    ("ROOT", "the records do not give the root behind them", flipped("SELECT hash FROM blk")),
    ("PARSE", None, flipped("SELECT cols FROM blk")),
    ("INDEX", "the block's zone does not list what its records have", in_file("UPDATE blk SET zone = zeroblob(9) WHERE first = 0")),
    ("GAP", "a block is missing", in_file("DELETE FROM blk WHERE first = 0")),
    ("ROOT", "the records do not give the root behind them", in_file("UPDATE text SET text = 'other' WHERE text = 'tool_001'")),
    ("PAYLOAD_EXTRA", "it is damaged", in_file("UPDATE blkpay SET body = (SELECT body FROM blkpay WHERE first = 256) WHERE first = 0")),
    ("SEGMENT", "table info does not say what a sealed file is of", in_file("DELETE FROM info")),
    ("PARSE", "the note is malformed, of another log, or does not cover the records", in_file("UPDATE info SET note = x'00'")),
    ("CP_SIG", "the checkpoint is not signed by the key of its epoch", sign_otherwise),
    ("KEYCHAIN", None, flipped("SELECT pk FROM epoch WHERE n = 1")),
)


class Verified(crib.Case):
    @classmethod
    def setUpClass(cls):
        cls.made = c = crib.Crib()
        cls.addClassCleanup(c.close)
        c.fill(1800, *SMALL)
        cls.seal(c.store, ("--block", 120, "--chapter", 3))
        adopt(c)
        c.start()
        c.stop()
        cls.store = shutil.copytree(c.store, c.dir / "whole", ignore=shutil.ignore_patterns("*.sock", "*.lock"))
        cls.pins = crib.evidence(cls.store, keys=False)

    @staticmethod
    def seal(store, fold, *options):
        for words in (fold, ("--seal", "all", *options)):
            done = test_forms.run(crib.BUILD / "tests/bench/b_fold", store, *words)
            assert done.returncode == 0, done.stderr

    def copied(self):
        shutil.rmtree(self.crib.dir / "copy", ignore_errors=True)
        return pathlib.Path(shutil.copytree(self.store, self.crib.dir / "copy"))

    def said(self, program, store, *options):
        """Exit status, findings as (code, log, first, last, words), all of it."""
        done = subprocess.run([str(word) for word in (*program, *options, store)], capture_output=True, text=True, timeout=crib.DEADLINE)
        found = [FINDING.fullmatch(line).groups("") for line in done.stdout.splitlines() if re.match(r"[A-Z_]+ (?!\d+ records)\S+( |:)", line)]
        return done.returncode, found, done.stdout + done.stderr

    def both(self, store, *options):
        """What each says; in a build with a sanitizer verify.py is what it is in any other."""
        programs = ((crib.BUILD / "toolcrib-verify",), crib.sceptic())[:1 if crib.sanitized("toolcrib-verify") else 2]
        said = [self.said(program, store, *(options or self.pins)) for program in programs]
        return said[0], said[-1]

    @staticmethod
    def of_files(found, words=True):
        """What is said of sealed files, and of the rows and records that say where they are."""
        about = [one for one in found if re.match("segments/|/etc/|the catalog has|a file does not begin", one[4])]
        return about if words else [(*one[:4], one[4].split(": ")[0]) for one in about]

    def test_sc710_whole(self):
        tv, py = self.both(self.store, *crib.evidence(self.store), "--signer-state", self.store / "signer/state")
        self.assertEqual((tv[0], py[0], tv[1], py[1]), (0, 0, [], []), tv[2] + py[2])
        self.assertEqual(tv[2].splitlines()[-1], py[2].splitlines()[-1])
        self.assertRegex(py[2], "INTACT 18[0-9]{2} records of 3 logs: 0 bad, 0 gaps")
        # Without the others: what a file is, and where it begins, is still looked at.
        for options, records in ((("--from", 700, "--to", 800), 288), (("--to", 600), 1200), (("--from", 1000), 361)):
            status, found, text = self.said(crib.sceptic(), self.store, *self.pins, *options)
            self.assertEqual(status, 5, text)
            self.assertRegex(text, "INCOMPLETE [0-9]+ records of .* logs: 0 bad", records)
        store = self.copied()
        one_file(store).unlink()
        self.assertEqual(self.said(crib.sceptic(), store, *self.pins, "--from", 1100)[0], 5)     # which are in others
        self.assertEqual(self.said(crib.sceptic(), store, *self.pins, "--to", 600)[0], 4)

    def test_sc710_random_stores(self):
        """However records came to be in files, both say the same of them."""
        for seed in range(4):
            rnd = random.Random(seed)
            store = self.crib.dir / f"random{seed}"
            done = test_forms.run(crib.BUILD / "tests/bench/b_fill", store, "--records", rnd.choice((700, 1500)), *SMALL, "--seed", seed + 1)
            self.assertEqual(done.returncode, 0, done.stderr)
            fold = ("--block", rnd.choice((7, 100, 4096)), "--chapter", rnd.choice((1, 5, 64)), "--seed", seed + 1, "--tail", rnd.choice((0, 100)))
            self.seal(store, fold, *rnd.choice(((), ("--leftovers",))))
            tv, py = self.both(store, *crib.evidence(store))
            self.assertEqual([(one[0], [finding[:4] for finding in one[1]]) for one in (tv,)],
                             [(one[0], [finding[:4] for finding in one[1]]) for one in (py,)], (fold, tv[2], py[2]))
            self.assertEqual({finding[0] for finding in tv[1]}, {"UNCOVERED_TAIL"}, tv[2])         # nobody has signed what sealing added
            self.assertEqual(tv[2].splitlines()[-1], py[2].splitlines()[-1])

    def test_sc711_what_somebody_did_is_said_alike(self):
        for code, words, done in DONE:
            store = self.copied()
            path = one_file(store)
            size = path.stat().st_size
            done(store)
            tv, py = self.both(store)
            self.assertEqual((tv[0], py[0]), (4, 4), (code, words, tv[2], py[2]))
            theirs, ours = (self.of_files(one[1], words is not None) for one in (tv, py))
            self.assertEqual(theirs, ours, (code, words, tv[2], py[2]))
            self.assertEqual([one[0] for one in ours][:1], [code], (words, py[2]))
            if words:
                self.assertEqual(ours[0][4].partition(": ")[2], words.format(path=path, size=size), py[2])

    def test_sc701_files_read_side_by_side_say_the_same(self):
        """What is wrong with several files is said in their order, whoever was first."""
        store = self.copied()
        one_file(store).unlink()
        flip(one_file(store), "SELECT hash FROM blk")
        flip(one_file(store, 3), 18)
        change(store, "UPDATE seg SET ts_max = ts_max - 1 WHERE log = 3 AND from_idx > 0")
        said = [self.said((crib.BUILD / "toolcrib-verify",), store, *self.pins, "--threads", n) for n in (1, 2, 3, 32, 2, 2)]
        self.assertEqual(said[0][0], 4, said[0][2])
        files = [one[4].partition(":")[0] for one in said[0][1] if one[4].startswith("segments/")]
        self.assertEqual(files, sorted(files, key=lambda name: name.split("/")[1]), said[0][2])
        self.assertGreaterEqual(len(set(files)), 4, said[0][2])
        for other in said[1:]:
            self.assertEqual(other, said[0])

    def test_sc705_a_mark_knows_files(self):
        """A file that was read for the mark is read again when its turn comes, or when it, or its row, is another one; in no hash of the log is
        how its bytes lie, so nothing else shows that they were changed."""
        mark, pins = self.crib.dir / "mark", crib.evidence(self.store)
        def verify(*options):
            return self.said((crib.BUILD / "toolcrib-verify",), store, *pins, *options)
        store = self.copied()
        self.assertEqual(verify("--mark", mark)[0], 0)
        flip(one_file(store), "SELECT hash FROM blk")
        self.assertEqual(verify("--mark", mark)[0], 0)
        for options in ((), ("--mark", mark, "--scrub", "1/1")):
            status, found, text = verify(*options)
            self.assertEqual((status, found[0][0], found[0][4].partition(": ")[2]),
                             (4, "ROOT", "the records do not give the root behind them"), text)
        for code, words, done in DONE:
            if code not in ("SEGMENT_MISSING", "SEGMENT") or not words:
                continue
            store = self.copied()
            path = one_file(store)
            size = path.stat().st_size
            done(store)
            status, found, text = verify("--mark", mark)
            first = self.of_files(found)[0]
            self.assertEqual((status, first[0], first[4].partition(": ")[2]), (4, code, words.format(path=path, size=size)), text)

    def test_sc705_a_file_that_the_mark_does_not_have_is_read(self):
        """Its records were in blocks when the mark was made."""
        store, mark = self.crib.dir / "later", self.crib.dir / "mark"
        for words in (("b_fill", store, "--records", 700, *SMALL), ("b_fold", store, "--block", 100)):
            done = test_forms.run(crib.BUILD / "tests/bench" / words[0], *words[1:])
            self.assertEqual(done.returncode, 0, done.stderr)
        def verify(*options):
            return self.said((crib.BUILD / "toolcrib-verify",), store, *crib.evidence(store), *options)
        self.assertEqual(verify("--mark", mark)[0], 0)
        done = test_forms.run(crib.BUILD / "tests/bench/b_fold", store, "--seal", "all")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({one[0] for one in verify("--mark", mark)[1]}, {"UNCOVERED_TAIL"})     # which has no mark
        flip(one_file(store), "SELECT hash FROM blk")
        self.assertEqual(verify("--mark", mark)[1][0][0], "ROOT")

    def test_of_a_file_so_many_findings_are_told(self):
        for n, told, last in ((128, 128, "it is damaged"), (129, 128, "so much is wrong with it that 2 findings more are not told")):
            store = self.copied()
            salt_otherwise(max((store / "segments").glob("*/*"), key=lambda path: path.stat().st_size), n)
            status, found, text = self.said((crib.BUILD / "toolcrib-verify",), store, *self.pins)
            files = [one[4] for one in found if one[4].startswith("segments/")]
            self.assertEqual((status, len(files)), (4, told), text)
            self.assertEqual(files[-1].partition(": ")[2], last, text)

    def test_a_link_that_leads_elsewhere_is_not_followed(self):
        """Nothing is opened outside of the folder of the store; inside, a folder may be a link."""
        store = self.copied()
        os.rename(store / "segments", store / "moved")
        (store / "segments").symlink_to("moved")
        self.assertEqual(self.said(crib.sceptic(), store, *self.pins)[0], 5)
        os.rename(store / "moved", self.crib.dir / "elsewhere")
        (store / "segments").unlink()
        (store / "segments").symlink_to(self.crib.dir / "elsewhere")
        status, found, text = self.said(crib.sceptic(), store, *self.pins)
        self.assertEqual((status, found), (3, []), text)
        self.assertIn("leads out of the folder of the store, where nothing is opened", text)


if __name__ == "__main__":
    crib.main()
