#!/usr/bin/env python3
"""Rows that are made in C (src/report/texts.c) are those of the views, byte for byte, whatever stands in the records."""
import contextlib
import json
import random
import re
import socket
import sqlite3
import struct

import crib

SEED = 20261123
PART = 1024         # records of one: WALK_FILTERED of src/report/rows.c
TEXTS = ("plain", "", 'quo"te\\', "line\nfeed\ttab\x01\x1f\x7f", "\u00e4\u20ac\U0001f600", "zero\u200bwidth\u202e", "cut\0here", "x" * 300)
NOT_TEXT = b"bad\xff utf\xfe"
YES_OR_NO = {"undelivered", "not_executed", "broke_schema"}
WORDS = ("boot", "cred", "prn", "obo", "peer", "client", "rev", "tool", "tdef", "build", "pol", "rule", "scope", "sbox", "obj")


def field(tag, value):
    return struct.pack(">HI", tag, len(value)) + value


def kinds():
    """Code -> name."""
    return {int(code): name for code, name in re.findall(r'X\(\w+, (\d+), "([\w.]+)"', (crib.SOURCE / "include/audit/audit.h").read_text())}


class Doctor:
    """Anything that a column can have, in records in the middle of each tenant's log."""

    def __init__(self, db):
        self.rnd, self.more = random.Random(SEED), random.Random(SEED)
        self.words = [id for id, in db.execute("SELECT id FROM dict")]
        for i, text in enumerate(TEXTS[:-1]):
            self.words.append(db.execute("INSERT INTO dict(kind, text) VALUES(34, ?) RETURNING id", (f"{text}{i}",)).fetchone()[0])
        self.words += [max(self.words) + 1000, None]
        self.kinds = [code for code in kinds() if not 1103 <= code < 1600 and not 1800 <= code < 2000]      # not what a start looks at

    def maybe(self, *values):
        return self.rnd.choice((None, *values))

    def text(self):
        return self.rnd.choice((*(text.encode() for text in TEXTS), NOT_TEXT))

    def ext(self):
        number = struct.pack(">Q", self.rnd.choice((0, 1, 41, 2**40, 2**63 - 16)))
        fields = {0x100: bytes(range(32)), 0x101: b"\xff" * 32, 0x102: number + struct.pack(">Q", 77), 0x104: self.text(), 0x105: self.text(),
                  0x106: self.text(), 0x10d: number, 0x10e: number, 0x113: self.text(), 0x114: self.text(), 0x12c: b"INTACT"}
        chosen = sorted(self.rnd.sample(sorted(fields), self.rnd.randrange(len(fields))))
        return b"".join(field(tag, fields[tag]) for tag in chosen) or None

    def columns(self, idx):
        rnd = self.rnd
        return {"kind": rnd.choice((*(1002, 1003, 1004) * 20, *self.kinds, 1999)), "ts": rnd.choice((1900000000000000, 1780000000999999, 86399999999)),
                "clk": self.maybe(1, 2, 3, 4), "call": self.maybe(rnd.randbytes(16)), "prev": self.maybe(rnd.randbytes(16)),
                "trace": self.maybe(rnd.randbytes(16), b""), "actor": self.maybe(0, 1, 5, 6), "authn": self.maybe(0, 1, 6, 7),
                "tport": self.maybe(0, 1, 2, 3, 4, 5, 6), "flags": self.maybe(0, 1, 2, 3, 32, 64, 128, 255, 1 << 20),
                "outcome": self.maybe(*range(13)), "xstat": self.maybe(0, 500), "sig": self.maybe(9), "rss": self.maybe(2048),
                "dur": self.maybe(0, 1, 10, 100, 999, 1000, 1500, 123456789, 10**15 - 1, 10**15, 10**17), "cpu": self.maybe(0, 1234567),
                "n_req": self.maybe(0, 33), "n_res": self.maybe(2**40), "n_sto": self.maybe(7), "beg": self.maybe(idx - 1, idx, 0, 2**40),
                "ext": self.ext(), **{name: rnd.choice(self.words) for name in WORDS},
                **{name: self.more.choice(self.words) for name in ("sys", "mdl")}}


class Texts(crib.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.made = crib.Crib()
        cls.addClassCleanup(cls.made.close)
        cls.made.fill(2400, "--tenants", 3, "--zipf", 1, "--failures", 0.3, "--days", 2)
        with contextlib.closing(sqlite3.connect(cls.made.store / "toolcrib.db", isolation_level=None)) as db:
            cls.edit(db)
        cls.made.start()
        cls.db = sqlite3.connect(f"file:{cls.made.store}/toolcrib.db?mode=ro", uri=True)
        cls.addClassCleanup(cls.db.close)
        cls.db.text_factory = bytes
        cls.judge = dict(re.findall(r"(?ms)^-- name: (\w+)\n(.*?);\n", (crib.SOURCE / "tests/integ/texts.sql").read_text()))

    @staticmethod
    def edit(db):
        triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name IN ('rec', 'dict')").fetchall()
        db.execute("BEGIN IMMEDIATE")
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        doctor = Doctor(db)
        # A filtered question bounds its parts by the times of the records at their ends, which go forwards in a log: those stay.
        calls = db.execute("SELECT r.id, r.idx FROM rec r JOIN head h ON h.log = r.log WHERE r.log > 1 AND r.kind BETWEEN 1001 AND 1005 "
                           f"AND r.idx < h.size - 200 AND (h.size - r.idx + 32) % {PART} > 64").fetchall()
        for id, idx in calls:
            columns = doctor.columns(idx)
            db.execute(f"UPDATE rec SET {', '.join(f'{name} = ?' for name in columns)} WHERE id = ?", (*columns.values(), id))
        for _, sql in triggers:
            db.execute(sql)
        db.execute("COMMIT")

    def said(self, command, **args):
        """The rows of an answer as they came."""
        with socket.socket(socket.AF_UNIX) as wire, wire.makefile("rwb") as f:
            wire.settimeout(crib.DEADLINE)
            wire.connect(str(self.made.path / "admin.sock"))
            f.write(json.dumps({"command": command, "args": args}).encode() + b"\n")
            f.flush()
            lines = []
            for line in f:
                lines.append(line)
                if line.startswith((b'{"done"', b'{"error"')):
                    break
        self.assertIn(b'"done"', lines[-1])
        return json.loads(lines[0])["columns"], [line for line in lines[1:] if line.startswith(b'{"row":')]

    @staticmethod
    def value(name, v):
        if isinstance(v, bytes):
            return json.dumps(v.split(b"\0")[0].decode(errors="replace"), ensure_ascii=False)
        if v is None or isinstance(v, int):
            return {None: "null", 0: "false", 1: "true"}[v] if v is None or name in YES_OR_NO else str(v)
        return f"{v:.15g}"

    def views(self, statement, *values):
        """Columns, and rows as the engine wrote them from the views."""
        sql = self.judge[statement]
        got = self.db.execute(sql, values[:max(int(n) for n in re.findall(r"\?(\d+)", sql))])
        names = [column[0] for column in got.description]
        said = [name for name in names if not name.startswith("_")]
        return said, [("{\"row\":{" + ",".join(f'"{name}":{self.value(name, v)}' for name, v in zip(names, row) if name in said) +
                       "}}\n").encode() for row in got]

    def logs(self):
        return self.db.execute("SELECT l.id, t.name FROM log l LEFT JOIN tenant t ON t.id = l.tenant_id ORDER BY l.id").fetchall()

    def same(self, got, want, why):
        self.assertEqual(len(got), len(want), why)
        for mine, views in zip(got, want):
            self.assertEqual(mine, views, why)

    def calls(self, log, outcome=-1, tool=None, key=None):
        return self.views("report_calls", log, 0, 2**62, tool, None, key, outcome, 2**62, 2**62, 0, None, 0)

    def test_calls_are_those_of_the_views(self):
        outcomes = set()
        for log, tenant in self.logs()[1:]:
            columns, rows = self.said("audit calls", tenant=tenant.decode(), limit="0")
            names, want = self.calls(log)
            self.assertEqual(columns, names)
            self.assertGreater(len(rows), 100)
            self.same(rows, want, tenant)
            outcomes.update(json.loads(row)["row"]["outcome"] for row in rows)
            self.same(self.said("audit calls", tenant=tenant.decode(), limit="0", outcome="timeout")[1], self.calls(log, 5)[1], tenant)
            self.same(self.said("audit calls", tenant=tenant.decode(), limit="7")[1], want[:7], tenant)
        self.assertGreaterEqual(outcomes, {None, "ok", "unknown", "12"}, "all that can be")
        merged = self.said("audit calls", limit="0")[1]
        self.assertEqual(sorted(merged), sorted(row for log, _ in self.logs()[1:] for row in self.calls(log)[1]))

    def test_records_are_those_of_the_views(self):
        """audit tail and export; what export has beside, the bytes of records, is no text."""
        seen = set()
        for log, tenant in self.logs()[1:]:
            columns, rows = self.said("audit tail", tenant=tenant.decode(), number="1000000")
            names, want = self.views("report_tail", log, 0, 2**62, 2**62, 2**62)
            self.assertEqual(columns, names)
            self.same(rows, want[:len(rows)], tenant)       # its own record comes later
            self.assertGreater(len(rows), 200)
            columns, rows = self.said("audit export", tenant=tenant.decode())
            names, want = self.views("report_export", log, 0, 2**62, 2**62, 2**62)
            self.assertEqual(columns, [*names, "enc", "leaf", "bytes"])
            self.same([re.sub(rb',"enc":\d+,"leaf":"[0-9a-f]{64}","bytes":"[^"]*"}}\n$', b"}}\n", row) for row in rows], want[:len(rows)], tenant)
            seen.update(json.loads(row)["row"]["kind"] for row in rows)
        self.assertGreater(len(seen), 20)
        self.assertIn("1999", seen)
        names = re.findall(r"WHEN (\d+) THEN '([\w.]+)'", self.db.execute("SELECT sql FROM sqlite_schema WHERE name = 'v_records'").fetchone()[0].decode())
        self.assertLessEqual(set(kinds().items()), {(int(code), name) for code, name in names}, "and those that no start would take from here")
        rows = self.said("audit tail", number="1000000")[1]
        self.assertTrue(any(json.loads(row)["row"]["tenant"] is None for row in rows), "the system's")


if __name__ == "__main__":
    crib.main()
