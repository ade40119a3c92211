"""Whether records are rows or blocks is nothing that anybody is told: the same questions of the same store, before and after its
records were folded, have the same answers to the byte (SCALE SC-102, SC-401, SC-904)."""
import contextlib
import datetime
import itertools
import json
import os
import re
import shutil
import socket
import sqlite3
import struct
import subprocess
import sys

import crib
from questions import MEETING, QUESTIONS, filled, title

FILL = ("--tenants", 3, "--principals", 4, "--tools", 4, "--failures", 0.2, "--days", 5, "--level", "request")
FOLDS = (("--block", 512, "--chapter", 2), ("--block", 100, "--tail", 40, "--leftovers", "--chapter", 16),
         ("--block", 4096, "--tail", 1, "--seed", 3, "--chapter", 1),
         ("--block", 300, "--chapter", 3, "--partial"), ("--block", 60, "--chapter", 4, "--book", 2, "--tail", 30))
if crib.sanitized("toolcrib-report"):   # which want each line of the code once; other borders are in the build that users get
    FOLDS = FOLDS[1::2]
# What the server would start: it keeps the question, and nobody gets an answer.
LISTENER = """#!{python}
import os, socket, struct
s = socket.socket(fileno=0)
head = s.recv(4, socket.MSG_WAITALL)
text = s.recv(struct.unpack(">I", head)[0], socket.MSG_WAITALL)
at = os.open({file!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
os.write(at, text + b"\\n")
"""

# When, how large the file is, in which forms its records are, and how many chapters have no sums.
VARIES = re.compile(r'"(at|store_bytes|unused_bytes|bytes_per_record|free_bytes|full_in_days|in_rows|in_blocks|bytes_in_block|'
                    r'plain_rows|plain_since|chapters_decoded)":[^,}]*,?')


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True)


def answer(question, store, scratch, meanwhile=None, env=None):
    """Of a reporter by itself, which leaves no record: what it says, but for when, and how large the file is.  What happens
    meanwhile does so behind its first words, when nobody reads on."""
    ours, its = socket.socketpair()
    with ours, its:
        child = subprocess.Popen([crib.BUILD / "toolcrib-report"], stdin=its, stderr=subprocess.PIPE, env={**os.environ, **(env or {})})
        its.close()
        text = json.dumps({**question, "store": str(store), "scratch": str(scratch)}).encode()
        ours.sendall(struct.pack(">I", len(text)) + text)
        said = ours.recv(100) if meanwhile and not env else b""
        if meanwhile:
            meanwhile()
        while more := ours.recv(1 << 20):
            said += more
    stderr = child.communicate()[1]
    lines = b""
    while said:
        size, what = struct.unpack(">Ic", said[:5])
        lines += (b"" if what == b"R" else what) + said[5:5 + size]
        said = said[5 + size:]
    return child.returncode, stderr.decode(), VARIES.sub("", lines.decode())


@contextlib.contextmanager
def held(store):
    """The store's log is there as long as somebody has it open, as the server would."""
    db = sqlite3.connect(store / "toolcrib.db")
    try:
        db.execute("SELECT count(*) FROM meta").fetchone()
        yield
    finally:
        db.close()


class Asked(crib.Case):
    """A store of rows and others of blocks, all of whom are asked the same; test_equal.py has more of them."""

    least = 3

    def questions(self, records=1500, options=FILL, then=lambda planted: None):
        """The reviewers' questions of a filled store, as its server hands them on.  then: what is done to it before."""
        heard = self.crib.dir / "heard"
        listener = self.crib.dir / "listener"
        listener.write_text(LISTENER.format(python=sys.executable, file=str(heard)))
        listener.chmod(0o700)
        planted = {**self.crib.fill(records, *options), "cursor": str(self.crib.dir / "cursor")}
        self.crib.cli("audit", "export", "--until", "2000-01-01", "--cursor", planted["cursor"])
        then(planted)
        shutil.copytree(self.crib.store, self.rows)
        self.crib.env["TOOLCRIB_REPORT"] = str(listener)
        self.crib.start()
        asked = []
        for question in [*QUESTIONS, *MEETING]:
            if "tables" in question[3] or question[2] == "audit segments":      # these are about files
                continue
            self.crib.ask(question[2], **filled(question[3], planted))
            lines = heard.read_text().splitlines() if heard.exists() else []
            if len(lines) > len(asked):
                asked.append((title(question), json.loads(lines[-1])))
        self.crib.stop()
        return planted, asked

    def folded(self, options):
        store = self.crib.dir / ("blocks" + "".join(map(str, options)))
        shutil.copytree(self.rows, store)
        done = run(crib.BUILD / "tests/bench/b_fold", store, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(json.loads(done.stdout)["blocks"], self.least)
        return store

    def answers(self, asked, store, scratch):
        with held(store):
            said = [answer(question, store, scratch) for _, question in asked]
        for (words, _), one in zip(asked, said):
            self.assertEqual(one[0], 0, (words, one[1], one[2][-300:]))
        return said

    def same(self, asked, first, store, before, scratch, what):
        """before: what the first store answered.  What has come in a day is another number a while later: what differs is asked of both
        once more."""
        for one, was, now in zip(asked, before, self.answers(asked, store, scratch)):
            words = one[0]
            if now != was:
                (was,), (now,) = (self.answers([one], of, scratch) for of in (first, store))
            if now != was:
                a, b = (said[2].splitlines() for said in (was, now))
                differ = [pair for pair in itertools.zip_longest(a, b) if pair[0] != pair[1]]
                self.fail(f"{what} {words}: {now[0]} {now[1]}\n{differ[:2]}")

    def compare(self, asked, scratch, folds=FOLDS):
        before = self.answers(asked, self.rows, scratch)
        for options in folds:
            store = self.folded(options)
            self.same(asked, self.rows, store, before, scratch, options)
            yield store


class Forms(Asked):
    def test_sc904_same_answers(self):
        """SC-904: reports, to the byte; the verifier finds the same logs whole; a proof and a bundle are the same."""
        self.rows = self.crib.dir / "rows"
        scratch = self.crib.dir / "scratch"
        os.mkdir(scratch, 0o700)
        planted, asked = self.questions()
        self.assertGreater(len(asked), 50)
        whole = run(crib.BUILD / "toolcrib-verify", *crib.evidence(self.rows), self.rows)
        self.assertEqual(whole.returncode, 0, whole.stdout)
        for store in self.compare(crib.some(asked), scratch):
            if "partial" in store.name:         # which the verifier would not take (t_verify_forms.c)
                continue
            done = run(crib.BUILD / "toolcrib-verify", *crib.evidence(store), store)
            self.assertEqual((done.returncode, done.stdout), (0, whole.stdout), done.stderr)
        self.a_start_makes_it_lean(store)

    def test_sc407_decoding_for_want_of_sums_is_said(self):
        """SC-407: of the span of time that is asked for, by reports that count, and by no other."""
        c = self.crib
        c.fill(8000, "--tenants", 1, "--principals", 1, "--tools", 1, "--failures", 0, "--days", 2)      # few sums for many calls
        whole, partial = c.store, c.dir / "partial"
        shutil.copytree(whole, partial)
        for store, options in ((whole, ()), (partial, ("--partial",))):
            self.assertEqual(run(crib.BUILD / "tests/bench/b_fold", store, "--block", 500, "--chapter", 4, *options).returncode, 0)

        def said(store, *words):
            c.store = store
            got = json.loads(c.cli("audit", *words, "--tenant", "fill00000", "--format", "json"))
            return got["header"].get("chapters_decoded"), got["rows"]

        at = c.rows("SELECT ts_max FROM chap WHERE log = 2 ORDER BY first LIMIT 1")[0][0]
        chapters = c.rows("SELECT count(*) FROM chap WHERE log = 2")[0][0]
        self.assertGreater(chapters, 2)
        since = f"{datetime.datetime.fromtimestamp((at + 1) / 1e6, datetime.timezone.utc):%Y-%m-%dT%H:%M:%S.%fZ}"
        for words, n in ((("calls", "--group-by", "outcome"), chapters), (("calls", "--group-by", "tool", "--since", since), chapters - 1),
                         (("tool-health",), chapters), (("coverage",), chapters), (("calls", "--limit", "3"), None)):
            of_sums, rows = said(whole, *words)
            self.assertEqual((of_sums, said(partial, *words)), (None, (n, rows)), words)
        c.store = partial
        self.assertIn(f"record by record, of chapters without sums: {chapters}\n", c.cli("audit", "tool-health", "--tenant", "fill00000"))

    def a_start_makes_it_lean(self, store):
        """SCALE D1: a store of blocks has no indexes but that of the order from its next start on, and nobody is told."""
        def indexes():
            return {name for name, in self.crib.rows("SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'rec'")}

        shutil.rmtree(self.crib.store)
        shutil.copytree(store, self.crib.store)
        self.assertGreater(len(indexes()), 5)
        del self.crib.env["TOOLCRIB_REPORT"]
        self.crib.start()
        self.assertEqual(indexes(), {"rec_order"})
        calls = self.crib.json("audit", "calls", "--tenant", "fill00000", "--limit", "7")
        self.assertEqual(len(calls), 7)
        self.crib.json("audit", "show", calls[0]["call"])
        self.crib.stop()
        self.crib.start()
        self.assertEqual(self.crib.json("audit", "calls", "--tenant", "fill00000", "--limit", "7"), calls)
        self.crib.stop()
        for program in (crib.BUILD / "toolcrib-verify",), crib.sceptic():
            done = run(*program, *crib.evidence(self.crib.store), self.crib.store / "toolcrib.db")
            self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    crib.main()
