"""Records in sealed files are in every answer as they were in blocks, to the byte; without a file an answer says so (SCALE SC-401,
SC-108, SC-002)."""
import contextlib
import json
import os
import re
import shutil
import sqlite3
from unittest import mock

import crib
import test_forms

FILL = ("--tenants", 3, "--principals", 4, "--tools", 4, "--failures", 0.2, "--days", 60, "--level", "request")


def change(store, *statements):
    with contextlib.closing(sqlite3.connect(store / "toolcrib.db", isolation_level=None)) as db:
        for sql in statements:
            db.execute(sql)


class Sealed(test_forms.Asked):
    def setUp(self):
        super().setUp()
        self.enterContext(mock.patch.object(test_forms, "VARIES", re.compile(  # what blocks there are is what these say
            test_forms.VARIES.pattern.replace("(at|", "(at|bytes_in_block|plain_since|"))))
        self.rows = self.crib.dir / "rows"
        self.scratch = self.crib.dir / "scratch"
        os.mkdir(self.scratch, 0o700)

    def seal(self, store, month="all", *options):
        done = test_forms.run(crib.BUILD / "tests/bench/b_fold", store, "--seal", month, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["files"]

    def sealed(self, fold):
        """The same records, and the record of each file, in blocks and in sealed files: two stores."""
        blocks = self.folded(fold)
        files = shutil.copytree(blocks, self.crib.dir / ("files" + "".join(map(str, fold))))
        self.assertGreater(self.seal(files, "all", "--leftovers"), 3)
        before = shutil.copytree(files, self.crib.dir / ("before" + "".join(map(str, fold))))
        shutil.rmtree(before / "segments")
        change(before, f"ATTACH '{blocks}/toolcrib.db' AS was", "DELETE FROM seg",
               *(sql for table in ("blk", "blkpay", "chap") for sql in (f"DELETE FROM {table}", f"INSERT INTO {table} SELECT * FROM was.{table}")))
        return before, files

    def test_sc401_the_same_answers(self):
        _, asked = self.questions(3000, FILL)
        self.assertGreater(len(asked), 50)
        for fold in ("--block", 300, "--chapter", 3), ("--block", 90, "--tail", 300, "--chapter", 2, "--seed", 4):
            blocks, files = self.sealed(fold)
            before = self.answers(asked, blocks, self.scratch)
            self.same(asked, files, before, self.scratch, "beside their blocks")
            change(files, *(f"DELETE FROM {table} WHERE first < (SELECT max(to_idx) FROM seg WHERE seg.log = {table}.log)"
                            for table in ("blk", "blkpay")))
            self.same(asked, files, before, self.scratch, "alone")

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
        self.adopt()
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

    def adopt(self):
        """What sealed this store was no server: its records are to be taken over."""
        refused = self.crib.run("audit", "keys")
        self.assertEqual(refused.returncode, 3, refused.stderr)
        self.crib.cli("audit", "adopt", *refused.stderr.rpartition("toolcrib audit adopt ")[2].split())

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


if __name__ == "__main__":
    crib.main()
