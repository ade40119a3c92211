"""Whether records are rows or blocks is nothing that anybody is told: the same questions of the same store, before and after its
records were folded, have the same answers to the byte (SCALE SC-102, SC-401, SC-904)."""
import contextlib
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
from questions import QUESTIONS, filled, title

FILL = ("--tenants", 3, "--principals", 4, "--tools", 4, "--failures", 0.2, "--days", 5, "--level", "request")
FOLDS = ("--block", 512), ("--block", 100, "--tail", 40, "--leftovers"), ("--block", 4096, "--tail", 1, "--seed", 3)
# What the server would start: it keeps the question, and nobody gets an answer.
LISTENER = """#!{python}
import os, socket, struct
s = socket.socket(fileno=0)
head = s.recv(4, socket.MSG_WAITALL)
text = s.recv(struct.unpack(">I", head)[0], socket.MSG_WAITALL)
at = os.open({file!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
os.write(at, text + b"\\n")
"""

VARIES = re.compile(r'"(at|store_bytes|unused_bytes|bytes_per_record|free_bytes|full_in_days)":[^,}]*')


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True)


def answer(question, store, scratch):
    """Of a reporter by itself, which leaves no record: what it says, but for when, and how large the file is."""
    ours, its = socket.socketpair()
    with ours, its:
        child = subprocess.Popen([crib.BUILD / "toolcrib-report"], stdin=its, stderr=subprocess.PIPE)
        its.close()
        text = json.dumps({**question, "store": str(store), "scratch": str(scratch)}).encode()
        ours.sendall(struct.pack(">I", len(text)) + text)
        said = b""
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


class Forms(crib.Case):
    def questions(self):
        """The reviewers' questions of a filled store, as its server hands them on."""
        heard = self.crib.dir / "heard"
        listener = self.crib.dir / "listener"
        listener.write_text(LISTENER.format(python=sys.executable, file=str(heard)))
        listener.chmod(0o700)
        planted = {**self.crib.fill(1500, *FILL), "cursor": str(self.crib.dir / "cursor")}
        self.crib.cli("audit", "export", "--until", "2000-01-01", "--cursor", planted["cursor"])
        shutil.copytree(self.crib.store, self.rows)
        self.crib.env["TOOLCRIB_REPORT"] = str(listener)
        self.crib.start()
        asked = []
        for question in QUESTIONS:
            if "tables" in question[3]:         # that is about the file
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
        self.assertGreater(json.loads(done.stdout)["blocks"], 3)
        return store

    def compare(self, asked, scratch):
        with held(self.rows):
            before = [answer(question, self.rows, scratch) for _, question in asked]
        for options in FOLDS:
            store = self.folded(options)
            with held(store):
                for (words, question), was in zip(asked, before):
                    self.assertEqual(was[0], 0, (words, was[1], was[2][-300:]))
                    now = answer(question, store, scratch)
                    if now != was:
                        a, b = (said[2].splitlines() for said in (was, now))
                        differ = [pair for pair in itertools.zip_longest(a, b) if pair[0] != pair[1]]
                        self.fail(f"{options} {words}: {now[0]} {now[1]}\n{differ[:2]}")
            yield store

    def test_sc904_same_answers(self):
        """SC-904: reports, to the byte; the verifier finds the same logs whole; a proof and a bundle are the same."""
        self.rows = self.crib.dir / "rows"
        scratch = self.crib.dir / "scratch"
        os.mkdir(scratch, 0o700)
        planted, asked = self.questions()
        self.assertGreater(len(asked), 50)
        whole = run(crib.BUILD / "toolcrib-verify", *crib.evidence(self.rows), self.rows)
        self.assertEqual(whole.returncode, 0, whole.stdout)
        for store in self.compare(asked, scratch):
            done = run(crib.BUILD / "toolcrib-verify", *crib.evidence(store), store)
            self.assertEqual((done.returncode, done.stdout), (0, whole.stdout), done.stderr)


if __name__ == "__main__":
    crib.main()
