#!/usr/bin/env python3
"""An independent verifier of a toolcrib store, for the sceptic: Python 3.8 and its standard library, no code of toolcrib.

    verify.py /var/lib/toolcrib/toolcrib.db

The file is opened read-only; the server may run.  Each record is a row of table rec.  Its bytes are the letters TCAR,
its encoding number, then each column that is not NULL as two bytes of tag, four of length and the value, tags
ascending: integers as eight bytes, ids of the dictionary and of logs as the text that they stand for.  The leaf is
SHA-256(0x00 || bytes); the leaves of a log are the leaves of a Merkle tree (RFC 6962), whose root stands in table head.

Prints a line for each finding and one for the sum.  Exit status: 0 intact, 4 damaged, 5 intact as far as could be seen,
3 the store cannot be read, 2 usage."""
import argparse
import hashlib
import sqlite3
import struct
import sys

ENCODING = 1
# column: tag, form.  u integer, d dictionary id, o log id, b bytes (with their length where it is fixed)
COLUMNS = {
    "log": (0x02, "o"), "idx": (0x03, "u"), "call": (0x04, "b", 16), "ts": (0x05, "u"), "mono": (0x06, "u"),
    "boot": (0x07, "d"), "clk": (0x08, "u"), "cred": (0x10, "d"), "prn": (0x11, "d"), "actor": (0x12, "u"),
    "authn": (0x13, "u"), "obo": (0x14, "d"), "peer": (0x15, "d"), "client": (0x16, "d"), "tport": (0x18, "u"),
    "rev": (0x20, "d"), "kind": (0x21, "u"), "tool": (0x22, "d"), "tdef": (0x23, "d"), "build": (0x24, "d"),
    "pol": (0x28, "d"), "rule": (0x29, "d"), "scope": (0x2A, "d"), "cm": (0x30, "b"), "sh": (0x31, "b", 16),
    "n_req": (0x40, "u"), "n_res": (0x41, "u"), "n_sto": (0x42, "u"), "flags": (0x43, "u"), "key": (0x44, "u"),
    "outcome": (0x50, "u"), "xstat": (0x51, "u"), "sig": (0x52, "u"), "dur": (0x53, "u"), "cpu": (0x54, "u"),
    "rss": (0x55, "u"), "sbox": (0x58, "d"), "beg": (0x60, "u"), "prev": (0x61, "b", 16),
    "trace": (0x68, "b", 16), "obj": (0x70, "d"), "ext": (0x71, "b"),
}
NOT_COVERED = {"id", "enc", "leaf"}
BEGIN, END, RECOVERED = 1001, 1002, 1004
GAPS = {"DANGLING", "NOT_CHECKED"}


def node(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


class Tree:
    """The hashes of the perfect subtrees, biggest first."""

    def __init__(self):
        self.size, self.peaks = 0, []

    def append(self, leaf):
        size, self.size = self.size, self.size + 1
        while size & 1:
            leaf, size = node(self.peaks.pop(), leaf), size >> 1
        self.peaks.append(leaf)

    def root(self):
        if not self.peaks:
            return hashlib.sha256(b"").digest()
        root = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            root = node(peak, root)
        return root


class Verifier:
    def __init__(self, db):
        self.db, self.findings, self.records, self.logs = db, [], 0, 0
        self.entries, self.sums = {}, {}

    def found(self, code, origin="-", idx=None, detail=""):
        """Neighbours of one kind in one log are one finding."""
        last = self.sums.get((code, origin))
        if idx is not None and last and last[3] == idx - 1:
            last[3] = idx
            return
        self.sums[code, origin] = finding = [code, origin, idx, idx, detail]
        self.findings.append(finding)

    def entry(self, number):
        if number not in self.entries:
            if len(self.entries) > 1 << 16:
                self.entries.clear()
            self.entries[number] = self.db.execute("SELECT kind, text, typeof(text) FROM dict WHERE id = ?", (number,)).fetchone()
        return self.entries[number]

    def value(self, origin, idx, name, value):
        """The bytes of a column's value, or None when there is no way to know them."""
        tag, form, *length = COLUMNS[name]
        if form == "b":
            if not isinstance(value, bytes) or length and len(value) != length[0]:
                self.found("TYPE", origin, idx, name)
            return value if isinstance(value, bytes) else str(value).encode()
        if not isinstance(value, int) or value < 0:
            self.found("TYPE", origin, idx, name)
            return None
        if form == "u":
            return struct.pack(">Q", value)
        if form == "o":
            return origin.encode()
        entry = self.entry(value)
        if not entry or entry[0] != tag:
            self.found("DICT", origin, idx, name)
        if not entry:
            return None
        if entry[2] != "text":
            self.found("TYPE", origin, idx, name)
        return entry[1].encode() if isinstance(entry[1], str) else entry[1]

    def leaf(self, origin, row):
        out = b"TCAR" + bytes([ENCODING])
        for name, (tag, *_) in COLUMNS.items():
            if row.get(name) is None:
                continue
            value = self.value(origin, row["idx"], name, row[name])
            if value is not None:
                out += struct.pack(">HI", tag, len(value)) + value
        if row["enc"] != ENCODING:
            self.found("ENCODING", origin, row["idx"])
        for name in row.keys() - COLUMNS.keys() - NOT_COVERED:
            if row[name] is not None:
                self.found("UNSIGNED", origin, row["idx"], name)
        leaf = hashlib.sha256(b"\0" + out).digest()
        if row["leaf"] is not None and row["leaf"] != leaf:
            self.found("LEAF", origin, row["idx"])
        return leaf

    def pair(self, origin, row, running):
        who = tuple(row[name] for name in ("cred", "prn", "tool"))
        if row["kind"] == BEGIN and row["call"] is not None and row["call"] not in running:
            running[row["call"]] = (row["idx"], who)
        elif row["kind"] in (END, RECOVERED):
            if running.pop(row["call"], None) != (row["beg"], who):
                self.found("PAIRING", origin, row["idx"])
        elif row["kind"] == BEGIN:
            self.found("PAIRING", origin, row["idx"])

    def log(self, number, origin, size, here, root):
        tree, expected, running = Tree(), 0, {}
        rows = self.db.execute("SELECT * FROM rec WHERE log = ? AND idx < ? ORDER BY idx", (number, size))
        names = [column[0] for column in rows.description]
        for values in rows:
            row = dict(zip(names, values))
            for idx in range(expected, row["idx"]):
                self.found("GAP", origin, idx)
            expected = row["idx"] + 1
            tree.append(self.leaf(origin, row))
            self.pair(origin, row, running)
            self.records += 1
        for idx in range(here, size):
            self.found("TRUNCATED", origin, idx)
        for idx in range(size, here):
            self.found("UNCOVERED_TAIL", origin, idx)
        for idx, _ in sorted(running.values()):
            self.found("DANGLING", origin, idx)
        if root is None:
            self.found("NOT_CHECKED", origin, detail="no tree yet")
        elif root != tree.root():
            self.found("ROOT", origin)
        self.logs += 1

    def store(self):
        for kind, text in self.db.execute(
                "SELECT kind, CAST(text AS TEXT) FROM dict NOT INDEXED GROUP BY kind, CAST(text AS BLOB) HAVING count(*) > 1"):
            self.found("DICT", detail=f"{text!r} of kind {kind} twice")
        for (name,) in self.db.execute("SELECT name FROM tenant WHERE id NOT IN "
                                       "(SELECT tenant_id FROM log WHERE tenant_id IS NOT NULL)"):
            self.found("LOG_MISSING", detail=f"tenant {name}")
        for (origin,) in self.db.execute("SELECT origin FROM log WHERE id NOT IN (SELECT log FROM head)"):
            self.found("LOG_MISSING", detail=f"head of {origin}")
        for (number,) in self.db.execute("SELECT DISTINCT log FROM rec WHERE log NOT IN (SELECT id FROM log)"):
            self.found("LOG_MISSING", detail=f"records of log {number}")
        said = self.db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if said != "ok":
            self.found("INDEX", detail=said)
        heads = self.db.execute("SELECT l.id, l.origin, h.size, (SELECT coalesce(max(idx) + 1, 0) FROM rec WHERE log = l.id), "
                                "h.root FROM log l JOIN head h ON h.log = l.id ORDER BY l.id").fetchall()
        for head in heads:
            self.log(*head)


def main():
    args = argparse.ArgumentParser(description="Verify a toolcrib store without code of toolcrib.")
    args.add_argument("store", help="toolcrib.db, or a copy of it")
    path = args.parse_args().store
    try:
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        verifier = Verifier(db)
        verifier.store()
    except (sqlite3.Error, OSError) as error:
        print(f"verify.py: {path}: {error}", file=sys.stderr)
        return 3
    for code, origin, first, last, detail in verifier.findings:
        print(code, origin, *([first] if first == last else [first, last]) if first is not None else [], detail)
    bad = sum(finding[0] not in GAPS for finding in verifier.findings)
    gaps = len(verifier.findings) - bad
    word = "DAMAGED" if bad else "INCOMPLETE" if gaps else "INTACT"
    print(f"{word} {verifier.records} records of {verifier.logs} logs: {bad} bad, {gaps} gaps")
    return 4 if bad else 5 if gaps else 0


if __name__ == "__main__":
    sys.exit(main())
