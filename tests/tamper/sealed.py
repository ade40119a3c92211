"""Sealed files of a store, and the rows that say where they are, changed (T48, T50 of the plan; A-T130 on are of this file alone).  The
store is one that b_fill made, of two tenants and some months, which are in files."""
import base64
import contextlib
import hashlib
import os
import re
import shutil
import sqlite3
import struct

import blocks
import tamperings as t
from kinds import Kind
from tamperings import sceptic

PLACE = re.compile(r"segments/(\d+)/(\d{6})-(\d+)[.]tcs")
# What a file has, and what of it is a claim that nothing hangs on.
CLAIMS = {("info", "release")}
PAGE, HEAD = 8192, (range(0, 20), range(28, 32), range(68, 72))         # of the head, what a reader looks at


def files(s):
    """Those of tenants: the path, log and first record of each."""
    listed = s.all("SELECT log, from_idx, path FROM seg ORDER BY log, from_idx")
    return [(s.path.parent / path, log, first) for log, first, path in listed]


def pick(s, rnd):
    return rnd.choice(files(s))


def other_tenants(s, rnd):
    """Another tenant's file renamed into place."""
    path, log, _ = pick(s, rnd)
    shutil.copy(rnd.choice([other for other, whose, _ in files(s) if whose != log]), path)


def other_months(s, rnd):
    """Two files of a tenant exchanged."""
    log = rnd.choice([log for log in s.tenants() if s.one("SELECT count(*) FROM seg WHERE log = ?", log) > 1])
    a, b = rnd.sample([path for path, whose, _ in files(s) if whose == log], 2)
    for old, new in ((a, a.with_suffix(".x")), (b, a), (a.with_suffix(".x"), b)):
        os.rename(old, new)


def digest(db):
    """contrib/doc/segment-format.md has it."""
    sums = hashlib.sha256()
    for row in db.execute("SELECT first, cnt, fmt, ts_min, ts_max, cols, hash, zone FROM blk ORDER BY first"):
        sums.update(b"b" + struct.pack(">5q", *row[:5]) + b"".join(struct.pack(">q", len(part)) + part for part in row[5:]))
    for number, kind, text in db.execute("SELECT id, kind, CAST(text AS BLOB) FROM text ORDER BY id"):
        sums.update(b"t" + struct.pack(">3q", number, kind, len(text)) + text)
    return sums.digest()


def forge(path, rnd):
    """An outcome in the file is another one, and all of it fits again, signed by keys of the forger: its digest and root."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        names = "first", "cnt", "fmt", "cols", "hash"
        found = [dict(zip(names, row)) for row in db.execute(f"SELECT {', '.join(names)} FROM blk ORDER BY first")]
        rnd.shuffle(found)
        block, anew = next((block, anew) for block in found if (anew := blocks.outcome_anew(block, rnd)))
        db.execute("UPDATE blk SET cols = ?, zone = ? WHERE first = ?", (*anew, block["first"]))
        file = sceptic.Sealed(str(path), None)
        file.open()
        file.info()
        for row in file.all_blocks():
            for leaf in sceptic.Block(*row[:3], *row[5:7]).leaves(file.origin, file.text):
                file.tree.append(leaf)
        file.close()
        text = f"{file.origin}\n{file.end}\n{base64.b64encode(file.tree.root()).decode()}\n"
        public, signature = t.sign(rnd.randbytes(32), text.encode())
        name = file.origin.partition("/t/")[0] + "/e/0"
        note = f"{text}\n\u2014 {name} {base64.b64encode(sceptic.key_id(name, public) + signature).decode()}\n".encode()
        db.execute("DELETE FROM epoch")
        db.execute("INSERT INTO epoch(n, pk) VALUES(0, ?)", (public,))
        db.execute("UPDATE info SET to_peaks = ?, epoch = 0, note = ?, growth = x''", (b"".join(file.tree.peaks), note))
        return digest(db), file.tree.root()


def filtered(s, rnd):
    """The catalog's row pointed to a file in which a record says something else, made anew and signed by keys of its own."""
    path, log, first = pick(s, rnd)
    month = PLACE.search(str(path))[2]
    other = path.with_name(path.name.replace(month, str(int(month) + 100)))
    shutil.copy(path, other)
    made, root = forge(other, rnd)
    if rnd.random() < 0.5:
        path.unlink()
    s.run("UPDATE seg SET path = ?, digest = ?, root = ? WHERE log = ? AND from_idx = ?", str(other.relative_to(s.path.parent)), made, root,
          log, first)


def in_place(s, rnd):
    """The same, in the place of the file, and no row is changed."""
    forge(pick(s, rnd)[0], rnd)


def outside(s, rnd):
    """The catalog's row pointed out of the store's folder, to what is the same file."""
    path, log, first = pick(s, rnd)
    away = s.path.parent / "away.tcs"
    os.rename(path, away)
    s.run("UPDATE seg SET path = ? WHERE log = ? AND from_idx = ?", rnd.choice((str(away), "segments/../away.tcs", "away.tcs")), log, first)


def bit(s, rnd):
    """One bit of a part of a file: its head, its schema, a value of a column."""
    path, _, _ = pick(s, rnd)
    data = bytearray(path.read_bytes())
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as db:
        table = rnd.choice(("head", "schema", "info", "epoch", "blk", "blkpay", "text"))
        if table == "head":
            at, size = rnd.choice(rnd.choice(HEAD)), 1
        else:
            at, size = value_of(db, table, data, rnd)
    if at is None:
        return False
    at += rnd.randrange(size)
    data[at] ^= 1 << rnd.randrange(8)
    path.write_bytes(data)
    return True


def value_of(db, table, data, rnd):
    """Where a value of the table stands in the file, and how many bytes of it stand there together; None: it cannot be told."""
    source = "sqlite_schema" if table == "schema" else table
    columns = [name for _, name, kind, *_ in db.execute(f"PRAGMA table_info({source})") if kind in ("BLOB", "TEXT")]
    column = "sql" if table == "schema" else rnd.choice([name for name in columns if (table, name) not in CLAIMS])
    values = [value.encode() if isinstance(value, str) else value for value, in db.execute(f"SELECT {column} FROM {source}") if value]
    value = rnd.choice(values)[:24] if values else b""
    return (data.index(value), len(value)) if len(value) > 3 and data.count(value) == 1 else (None, 0)


def cut(s, rnd):
    """A file cut, or longer than it was."""
    path, _, _ = pick(s, rnd)
    data = path.read_bytes()
    path.write_bytes(rnd.choice((data[:rnd.randrange(len(data))], data[:-PAGE], data + rnd.randbytes(PAGE), b"")))


def gone(s, rnd):
    """A file that is not there, or is something else."""
    path, _, _ = pick(s, rnd)
    path.unlink()
    if rnd.random() < 0.3:
        path.mkdir()
    elif rnd.random() < 0.3:
        path.symlink_to("nowhere")


def twice(s, rnd):
    """A second row of the catalog, and a second file, for records that have one."""
    path, log, first = pick(s, rnd)
    step = rnd.choice((1, 100, 256))
    other = path.with_name(path.name.replace(f"-{first}.", f"-{first + step}."))
    if other.exists():
        return False
    shutil.copy(path, other)
    s.run("INSERT INTO seg(log, from_idx, to_idx, month, ts_min, ts_max, bytes, digest, root, set_by, path) "
          "SELECT log, from_idx + ?, to_idx, month, ts_min, ts_max, bytes, digest, root, set_by, ? FROM seg "
          "WHERE log = ? AND from_idx = ?", step, str(other.relative_to(s.path.parent)), log, first)
    return True


def unlisted(s, rnd):
    """A row of the catalog dropped, in half of the tries with its file."""
    path, log, first = pick(s, rnd)
    s.run("DELETE FROM seg WHERE log = ? AND from_idx = ?", log, first)
    if rnd.random() < 0.5:
        path.unlink()


def row(s, rnd):
    """A number or a digest in a row of the catalog."""
    _, log, first = pick(s, rnd)
    column = rnd.choice(("to_idx", "digest", "root", "set_by"))
    old = s.one(f"SELECT {column} FROM seg WHERE log = ? AND from_idx = ?", log, first)
    new = t.flipped(old, rnd) if isinstance(old, bytes) else old + rnd.choice((-256, -1, 1, 256))
    s.run(f"UPDATE seg SET {column} = ? WHERE log = ? AND from_idx = ?", new, log, first)


def times(s, rnd):
    """Other times in a row of the catalog, or in a chapter of a file, so that reports pass over records."""
    _, log, first = pick(s, rnd)
    if rnd.random() < 0.5:
        s.run("UPDATE seg SET ts_max = ts_max - 1 WHERE log = ? AND from_idx = ?", log, first)
    else:
        s.run("UPDATE chap SET ts_max = ts_max - 1 WHERE log = ? AND first = ?", log, first)


def chapter(s, rnd):
    """A chapter of a file dropped, or one more of no records."""
    _, log, first = pick(s, rnd)
    if rnd.random() < 0.5:
        s.run("DELETE FROM chap WHERE log = ? AND first = ?", log, first)
    else:
        s.run("INSERT INTO chap SELECT log, ?, ?, ts_min, ts_max, zone, sums FROM chap WHERE log = ? AND first = ?",
              rnd.choice((first + 1, -9)), rnd.choice((-5, 0, 1)), log, first)


FILE = ("SEGMENT",)
OF_A_FILE = ("SEGMENT", "ROOT", "PARSE", "INDEX", "DICT", "GAP", "KEYCHAIN", "CP_SIG", "PAYLOAD", "PAYLOAD_EXTRA")
ROWS = ("LEAF",)
KINDS = [
    Kind("A-T48", other_tenants, each=FILE, never=ROWS, form="sealed"),
    Kind("A-T50", filtered, each=FILE, never=ROWS, form="sealed"),
    Kind("A-T130", other_months, each=FILE, never=ROWS, form="sealed"),
    Kind("A-T131", in_place, each=FILE, never=ROWS, form="sealed"),
    Kind("A-T132", outside, each=FILE, never=ROWS, form="sealed"),
    Kind("A-T133", bit, one_of=OF_A_FILE, never=ROWS, form="sealed"),
    Kind("A-T134", cut, each=FILE, never=ROWS, form="sealed"),
    Kind("A-T135", gone, one_of=("SEGMENT_MISSING", "SEGMENT"), never=ROWS, form="sealed"),
    Kind("A-T136", twice, each=FILE, never=ROWS, form="sealed"),
    Kind("A-T137", unlisted, one_of=("SEGMENT", "GAP", "TRUNCATED"), never=ROWS, form="sealed"),
    Kind("A-T138", row, one_of=("SEGMENT", "GAP"), never=ROWS, form="sealed"),
    Kind("A-T139", times, each=("INDEX",), never=("LEAF", "ROOT"), form="sealed"),
    Kind("A-T140", chapter, each=("INDEX",), never=("LEAF", "ROOT"), form="sealed"),
]
