"""Records in blocks, and what stands beside them, changed (T42 to T47, T51, T52 of the plan; A-T110 on are of this file alone).  The store is
the one that all tampering is tried on, folded: without its rows, or with those that wait for deletion."""
import zlib

import tamperings as t
from kinds import Kind
from tamperings import sceptic

UNREAD = ("PARSE", "ROOT", "DICT")      # what another byte of a column gives


def pick(s, rnd, where="1"):
    """A block of a tenant's log."""
    found = s.db.execute(f"SELECT b.* FROM blk b JOIN log l ON l.id = b.log WHERE l.tenant_id IS NOT NULL AND {where} ORDER BY log, first")
    names = [column[0] for column in found.description]
    rows = found.fetchall()
    return dict(zip(names, rnd.choice(rows))) if rows else None


def put(s, block, **values):
    for name, value in values.items():
        s.run(f"UPDATE blk SET {name} = ? WHERE log = ? AND first = ?", value, block["log"], block["first"])


def columns(s, rnd):
    """One bit of a block's columns."""
    block = pick(s, rnd)
    put(s, block, cols=t.flipped(block["cols"], rnd))


def hashes(s, rnd):
    """One bit of what a block does not deflate."""
    block = pick(s, rnd, "length(b.hash) > 0")
    put(s, block, hash=t.flipped(block["hash"], rnd))


def column_anew(s, rnd):
    """The outcome of a block's records is another one, the block, its zone and the head made anew."""
    anew = None
    while not anew:
        block = pick(s, rnd)
        anew = outcome_anew(block, rnd)
    put(s, block, cols=anew[0], zone=anew[1])
    reseal(s, block["log"])


def outcome_anew(block, rnd):
    """Columns and zone of the block with another outcome of a record; None: no record has one."""
    read = sceptic.Block(*(block[name] for name in ("first", "cnt", "fmt", "cols", "hash")))
    outcome = read.columns.get("outcome")
    if not outcome:
        return None
    places = [i for i, value in enumerate(outcome) if value is not None]
    outcome[rnd.choice(places)] = rnd.choice([value for value in range(12) if value not in outcome])
    head = bytes([len(places) == block["cnt"]])
    if not head[0]:
        head += sum(1 << i for i in places).to_bytes((block["cnt"] + 7) // 8, "little")
    return replaced(block["cols"], "outcome", head + b"".join(sceptic.varint_bytes(outcome[i]) for i in places)), sceptic.zone_bytes(read.zone())


def replaced(cols, name, data):
    """The columns of a block with these bytes of one, raw."""
    count, at = sceptic.varint(cols, 0, "cols")
    out = sceptic.varint_bytes(count)
    for each in sceptic.COLUMN_NAMES[:count]:
        head, start = sceptic.varint(cols, at, each, sceptic.BIG)
        out += sceptic.varint_bytes(2 * len(data) + 1) + data if each == name else cols[at:start + (head >> 1)]
        at = start + (head >> 1)
    return out


def reseal(s, log):
    """The head of a folded log, as its records are now."""
    maker = sceptic.Verifier(s.db, folder=str(s.path.parent))
    tree = sceptic.Tree()
    size = s.one("SELECT size FROM head WHERE log = ?", log)
    for _, leaf in sceptic.Forms(maker, log, s.origin(log), 0, 0).records(size):
        tree.append(leaf)
    s.run("UPDATE head SET root = ?, frontier = ? WHERE log = ?", tree.root(), b"".join(tree.peaks), log)


def zones(block):
    """The ids of each column of a zone, with their counts."""
    at, found = 0, []
    for _ in sceptic.ZONES:
        count, at = sceptic.varint(block["zone"], at, "zone")
        number, ids = 0, {}
        for _ in range(count):
            step, at = sceptic.varint(block["zone"], at, "zone")
            number += step
            ids[number], at = sceptic.varint(block["zone"], at, "zone")
        found.append(ids)
    return found


def zone(s, rnd):
    """A block's zone without an id, so that reports pass over its records."""
    block = pick(s, rnd)
    found = zones(block)
    which = rnd.choice([ids for ids in found if ids])
    del which[rnd.choice(sorted(which))]
    put(s, block, zone=sceptic.zone_bytes(found))


def counts(s, rnd):
    """A block's zone with another count."""
    block = pick(s, rnd, "b.cnt > 1")
    found = zones(block)
    which = rnd.choice([ids for ids in found if ids])
    number = rnd.choice(sorted(which))
    which[number] += 1 if which[number] == 1 else -1
    put(s, block, zone=sceptic.zone_bytes(found))


def times(s, rnd):
    """Other times beside a block than its records have, so that reports pass over them."""
    block = pick(s, rnd)
    if rnd.random() < 0.5:
        put(s, block, ts_max=block["ts_max"] - 1)
    else:
        put(s, block, ts_min=block["ts_min"] + 1)


def dropped(s, rnd):
    """A block dropped, with what is kept beside it."""
    block = pick(s, rnd)
    for table in ("blkpay", "blk"):
        s.run(f"DELETE FROM {table} WHERE log = ? AND first >= ? AND first < ?", block["log"], block["first"], block["first"] + block["cnt"])


def overlap(s, rnd):
    """A block that begins in another one."""
    block = pick(s, rnd, "b.cnt > 1")
    values = {**block, "first": block["first"] + rnd.randrange(1, block["cnt"])}
    if s.all("SELECT 1 FROM blk WHERE log = ? AND first = ?", values["log"], values["first"]):
        return False
    s.run(f"INSERT INTO blk({','.join(values)}) VALUES({','.join('?' * len(values))})", *values.values())
    return None


def exchanged(s, rnd):
    """What two blocks have exchanged, of one log or of two."""
    found = s.all("SELECT a.log, a.first, b.log, b.first FROM blk a JOIN blk b ON a.cnt = b.cnt AND (a.log, a.first) < (b.log, b.first) "
                  "WHERE a.log > 1 ORDER BY 1, 2, 3, 4")
    a, b = (lambda row: (row[:2], row[2:]))(rnd.choice(found))
    one, other = (s.all("SELECT ts_min, ts_max, cols, hash, zone FROM blk WHERE log = ? AND first = ?", *place)[0] for place in (a, b))
    for place, values in ((a, other), (b, one)):
        s.run("UPDATE blk SET ts_min = ?, ts_max = ?, cols = ?, hash = ?, zone = ? WHERE log = ? AND first = ?", *values, *place)


def text(s, rnd):
    """A text that records in blocks stand for."""
    block = pick(s, rnd)
    read = sceptic.Block(*(block[name] for name in ("first", "cnt", "fmt", "cols", "hash")))
    ids = sorted({value for name, (_, form, *_) in sceptic.COLUMNS.items() if form == "d" for value in read.columns.get(name, ())} - {None})
    number = rnd.choice(ids)
    s.run("UPDATE dict SET text = text || 'x' WHERE id = ?", number)


# --- chapters

def chapter(s, rnd, where="1"):
    found = s.db.execute(f"SELECT * FROM chap WHERE {where} ORDER BY log, first")
    names = [column[0] for column in found.description]
    return dict(zip(names, rnd.choice(found.fetchall())))


def stream(values):
    data = b"".join(map(sceptic.varint_bytes, values))
    small = zlib.compress(data)
    deflated = len(data) >= sceptic.DEFLATE_MIN and len(small) < len(data)
    return sceptic.varint_bytes(2 * len(small)) + small if deflated else sceptic.varint_bytes(2 * len(data) + 1) + data


def sums_bytes(first, sums, hist, apart, book=False):
    """What read_sums() reads."""
    named = [name for at, name in enumerate(sceptic.SUM_KEYS, 3) if any(entry[at] >= 0 for entry in sums)]
    out = sceptic.varint_bytes(2 if book else 1) + b"".join(map(sceptic.varint_bytes, (len(named), *(sceptic.COLUMNS[name][0] for name in named))))
    for words, entries in ((sceptic.SUM_WORDS, sums), (sceptic.HIST_WORDS, hist)):
        out += sceptic.varint_bytes(len(entries))
        for at, word in enumerate(words) if entries else ():
            if book and word in ("day", "night"):
                continue
            values = [entry[at] for entry in entries]
            if word == "day":
                values = [value - before for value, before in zip(values, [0] + values)]
            elif word in sceptic.SUM_KEYS and (words is sceptic.HIST_WORDS or word in named):
                values = [value + 1 for value in values]
            elif word in sceptic.SUM_KEYS:
                continue
            elif word in ("idx_max", "ts_max"):
                values = [entry[at] - entry[at - 1] for entry in entries]
            elif word == "idx_min":
                values = [value - first for value in values]
            elif word == "ts_min":
                values = [entry[at] - entry[0] * sceptic.DAY_US for entry in entries]
            out += stream(values)
    out += sceptic.varint_bytes(len(apart))
    return out + (stream([at - before for (at,), before in zip(apart, [first] + [at for at, in apart])]) if apart else b"")


def sums(s, rnd):
    """A chapter's sums with one call less, or with none."""
    row = chapter(s, rnd)
    said = sceptic.read_sums(row["sums"], row["first"], row["cnt"])
    new = [], [], []
    if said:
        assert sceptic.read_sums(sums_bytes(row["first"], *said), row["first"], row["cnt"]) == said
        count, timed = (sceptic.SUM_WORDS.index(word) for word in ("count", "timed"))
        many = [entry for entry in said[0] if entry[count] > 1]
        if many:
            old = rnd.choice(many)
            less = list(old)
            less[count] -= 1
            less[timed] = min(less[timed], less[count])
            new = [tuple(less) if entry is old else entry for entry in said[0]], *said[1:]
    s.run("UPDATE chap SET sums = ? WHERE log = ? AND first = ?", sums_bytes(row["first"], *new), row["log"], row["first"])


def chapter_zone(s, rnd):
    """A chapter's zone without an id, or other times beside it."""
    row = chapter(s, rnd)
    found = zones(row)
    which = rnd.choice([ids for ids in found if ids])
    del which[rnd.choice(sorted(which))]
    if rnd.random() < 0.3:
        s.run("UPDATE chap SET ts_max = ts_max - 1 WHERE log = ? AND first = ?", row["log"], row["first"])
    else:
        s.run("UPDATE chap SET zone = ? WHERE log = ? AND first = ?", sceptic.zone_bytes(found), row["log"], row["first"])


def chapter_place(s, rnd):
    """A chapter somewhere else, or of fewer records."""
    row = chapter(s, rnd)
    if rnd.random() < 0.5:
        s.run("UPDATE chap SET cnt = cnt - 1 WHERE log = ? AND first = ?", row["log"], row["first"])
    else:
        s.run("UPDATE chap SET first = first + 1 WHERE log = ? AND first = ?", row["log"], row["first"])


def zone_of_index(s, rnd):
    """What questions walk by says that a block or a chapter lacks an id; its row does not."""
    table = rnd.choice(("blk", "chap"))
    row = pick(s, rnd) if table == "blk" else chapter(s, rnd)
    found = zones(row)
    which = rnd.choice([ids for ids in found if ids])
    del which[rnd.choice(sorted(which))]
    said = s.one("SELECT sql FROM sqlite_schema WHERE name = ?", table + "_zone")
    elsewhere = f" WHERE log <> {row['log']} OR first <> {row['first']}"
    for sql, zone in ((said, sceptic.zone_bytes(found)), (said + elsewhere, row["zone"]), (said, row["zone"])):
        s.run("PRAGMA writable_schema = ON")
        s.run("UPDATE sqlite_schema SET sql = ? WHERE name = ?", sql, table + "_zone")
        s.run("PRAGMA writable_schema = RESET")
        if sql != said or zone != row["zone"]:
            s.run(f"UPDATE {table} SET zone = ? WHERE log = ? AND first = ?", zone, row["log"], row["first"])


# --- books

def one_less(said):
    """Entries of sums, the first one of several records with one less."""
    many = next(i for i, entry in enumerate(said[0]) if entry[sceptic.SUM_KEY] > 1)
    less = list(said[0][many])
    less[sceptic.SUM_KEY] -= 1
    less[sceptic.SUM_KEY + 1] = min(less[sceptic.SUM_KEY + 1], less[sceptic.SUM_KEY])
    return [tuple(less) if i == many else entry for i, entry in enumerate(said[0])]


def book(s, rnd):
    """A book's sums or days with one call less, or with none; of other records, or with other times; or upon another."""
    found = s.db.execute("SELECT * FROM book ORDER BY log, first")
    names = [column[0] for column in found.description]
    row = dict(zip(names, rnd.choice(found.fetchall())))
    at = row["log"], row["first"]
    said = sceptic.read_sums(row["sums"], row["first"], row["cnt"], True)
    many = [i for i, entry in enumerate(said[0]) if entry[sceptic.SUM_KEY] > 1] if said else []
    how = rnd.choice(("sums", "sums", "days", "days", "times", "fewer", "place"))
    if how == "times":
        s.run("UPDATE book SET ts_min = ts_min + 1 WHERE log = ? AND first = ?", *at)
    elif how == "fewer":
        s.run("UPDATE book SET cnt = cnt - 1 WHERE log = ? AND first = ?", *at)
    elif how == "place":
        s.run("UPDATE book SET first = first + 1 WHERE log = ? AND first = ?", *at)
    elif how == "days":
        new = sums_bytes(row["first"], one_less(sceptic.read_days(row["days"], row["first"], row["cnt"])), [], []) if row["days"] != b"\0" else \
            sums_bytes(row["first"], [], [], [])
        s.run("UPDATE book SET days = ? WHERE log = ? AND first = ?", new, *at)
    elif not many:
        s.run("UPDATE book SET sums = ? WHERE log = ? AND first = ?", sums_bytes(row["first"], [], [], [], True), *at)
    else:
        assert sceptic.read_sums(sums_bytes(row["first"], *said, True), row["first"], row["cnt"], True) == said
        s.run("UPDATE book SET sums = ? WHERE log = ? AND first = ?", sums_bytes(row["first"], one_less(said), *said[1:], True), *at)


# --- rows that wait for deletion

def leftover(s, rnd):
    """A row that a block has replaced edited, in half of the tries with its leaf."""
    row = s.pick(rnd, "idx < (SELECT max(first + cnt) FROM blk WHERE log = rec.log)")
    name = rnd.choice(("ts", "prn", "n_req", "n_res", "flags"))
    row[name] = (row[name] or 0) + 1
    s.run(f"UPDATE rec SET {name} = ? WHERE id = ?", row[name], row["id"])
    if rnd.random() < 0.5:
        s.run("UPDATE rec SET leaf = ? WHERE id = ?", sceptic.Verifier(s.db).leaf(s.origin(row["log"]), row), row["id"])


def leftover_kept(s, rnd):
    """What is kept of a row that a block has replaced edited."""
    row = s.pick(rnd, "id IN (SELECT rec FROM pay) AND idx < (SELECT max(first + cnt) FROM blk WHERE log = rec.log)")
    s.run("UPDATE pay SET salt = ? WHERE rec = ?", rnd.randbytes(16), row["id"])


def leftover_erased(s, rnd):
    """What is kept of a record gone from its block and not from its row."""
    log, first = rnd.choice(s.all("SELECT log, first FROM blkpay WHERE log > 1 ORDER BY log, first"))
    s.run("DELETE FROM blkpay WHERE log = ? AND first = ?", log, first)


# --- what is kept of records in blocks

def group(s, rnd):
    """A group of what is kept, and its payloads."""
    log, first, body = rnd.choice(s.all("SELECT * FROM blkpay WHERE log > 1 ORDER BY log, first"))
    return log, first, sceptic.read_payloads(body)


def put_group(s, log, first, payloads):
    lengths = [0 if piece is None else len(piece) + 1 for payload in payloads for piece in payload]
    body = b"".join(map(sceptic.varint_bytes, (len(payloads), *lengths))) + b"".join(piece or b"" for payload in payloads for piece in payload)
    s.run("INSERT OR REPLACE INTO blkpay(log, first, body) VALUES(?, ?, ?)", log, first, body)


def some(payloads, rnd, at=0):
    return rnd.choice([i for i, payload in enumerate(payloads) if payload[at] is not None])


def payload(s, rnd):
    """What is kept of a record in a block edited."""
    log, first, payloads = group(s, rnd)
    i = some(payloads, rnd)
    pieces = list(payloads[i])
    which = rnd.choice([k for k in range(3) if pieces[k]])
    pieces[which] = t.flipped(pieces[which], rnd)
    put_group(s, log, first, [*payloads[:i], tuple(pieces), *payloads[i + 1:]])


def payload_gone(s, rnd):
    """What is kept of a record in a block taken away."""
    log, first, payloads = group(s, rnd)
    i = some(payloads, rnd)
    put_group(s, log, first, [*payloads[:i], (None,) * 3, *payloads[i + 1:]])


def payload_exchanged(s, rnd):
    """What is kept of two records in a block exchanged."""
    log, first, payloads = group(s, rnd)
    there = [i for i, payload in enumerate(payloads) if payload[1] is not None]
    if len(there) < 2:
        return False
    a, b = rnd.sample(there, 2)
    payloads[a], payloads[b] = payloads[b], payloads[a]
    put_group(s, log, first, payloads)
    return None


def payload_extra(s, rnd):
    """Something kept of records in no block."""
    log, _, payloads = group(s, rnd)
    put_group(s, log, s.one("SELECT size FROM head WHERE log = ?", log) + rnd.randrange(1, 1000), payloads)


def payload_twice(s, rnd):
    """A second group of what is kept of records in a block, which begins within the first."""
    log, first, payloads = group(s, rnd)
    if len(payloads) < 2:
        return False
    at = rnd.randrange(1, len(payloads))
    if s.all("SELECT 1 FROM blkpay WHERE log = ? AND first = ?", log, first + at):
        return False
    put_group(s, log, first + at, payloads[at:] if rnd.random() < 0.5 else [(rnd.randbytes(16), None, None)])
    return None


def unerase(s, rnd):
    """What was erased put back beside a block."""
    gone = []
    for log, first, body in s.all("SELECT * FROM blkpay WHERE log > 1 ORDER BY log, first"):
        payloads = sceptic.read_payloads(body)
        forms = sceptic.Forms(sceptic.Verifier(s.db), log, "", 0, 0)
        gone += [(log, first, i) for i, kept in enumerate(payloads)
                 if kept[0] is None and forms.record(first + i)["cm"] is not None]
    log, first, i = rnd.choice(gone)
    payloads = sceptic.read_payloads(s.one("SELECT body FROM blkpay WHERE log = ? AND first = ?", log, first))
    payloads[i] = rnd.randbytes(16), None, None
    put_group(s, log, first, payloads)


# --- calls that have not ended

def open_call(s, rnd):
    """A call that has ended is said to run."""
    log = rnd.choice(s.tenants())
    forms = sceptic.Forms(sceptic.Verifier(s.db), log, "", 0, 0)
    row = rnd.choice(list(forms.of_kinds(t.BEGIN)))
    s.run("INSERT INTO open_call(log, idx, call) VALUES(?, ?, ?)", log, row["idx"], row["call"] if rnd.random() < 0.5 else rnd.randbytes(16))


ROOT, LEAVES = ("ROOT",), ("LEAF", "ROOT")
KINDS = [
    Kind("A-T42", columns, one_of=UNREAD, never=("LEAF",), form="blocks"),
    Kind("A-T43", hashes, each=ROOT, never=("LEAF",), form="blocks"),
    Kind("A-T44", zone, each=("INDEX",), never=LEAVES, form="blocks"),
    Kind("A-T45", sums, each=("INDEX",), never=LEAVES, form="blocks"),
    Kind("A-T46", dropped, one_of=("GAP", "TRUNCATED"), never=("LEAF",), form="blocks"),
    Kind("A-T47", overlap, each=("GAP",), never=("LEAF",), form="blocks"),
    Kind("A-T51", leftover, each=("FORM",), never=LEAVES, form="leftovers"),
    Kind("A-T52", text, each=ROOT, form="blocks"),
    Kind("A-T110", column_anew, each=ROOT, never=("LEAF",), form="blocks"),
    Kind("A-T111", counts, each=("INDEX",), never=LEAVES, form="blocks"),
    Kind("A-T112", times, each=("INDEX",), never=LEAVES, form="blocks"),
    Kind("A-T113", exchanged, one_of=UNREAD, never=("LEAF",), form="blocks"),
    Kind("A-T114", leftover_kept, each=("FORM",), never=LEAVES, form="leftovers"),
    Kind("A-T115", leftover_erased, each=("ERASED_BUT_PRESENT",), never=LEAVES, form="leftovers"),
    Kind("A-T116", payload, one_of=("PAYLOAD", "ALIAS"), never=LEAVES, form="blocks"),
    Kind("A-T117", payload_gone, one_of=("PAYLOAD_MISSING", "ALIAS"), never=LEAVES, form="blocks"),
    Kind("A-T118", payload_exchanged, each=("PAYLOAD",), never=LEAVES, form="blocks"),
    Kind("A-T119", payload_extra, each=("PAYLOAD_EXTRA",), never=LEAVES, form="blocks"),
    Kind("A-T120", unerase, each=("ERASED_BUT_PRESENT",), never=LEAVES, form="blocks"),
    Kind("A-T124", payload_twice, each=("PAYLOAD_EXTRA",), never=LEAVES, form="blocks"),
    Kind("A-T122", chapter_zone, each=("INDEX",), never=LEAVES, form="blocks"),
    Kind("A-T123", chapter_place, each=("INDEX",), never=LEAVES, form="blocks"),
    Kind("A-T145", zone_of_index, each=("INDEX",), never=LEAVES, form="blocks"),
    Kind("A-T125", book, each=("INDEX",), never=LEAVES, form="blocks"),
    Kind("A-T121", open_call, each={"tv": ("INDEX",), "py": ("INDEX",)}, never=LEAVES, form="blocks"),
]
