"""What single verifiers missed (A-T80 to A-T91): evidence of logs that are not there, stores under other keys, times and texts
that nobody signed, records that stand nowhere, numbers that no loop may believe."""
import struct

import tamperings as t
from kinds import ALWAYS, FOUND, MISSED, UNCHECKED, Kind

START, RECEIPT, HOLD_SET, RETENTION = 1601, 2002, 1901, 1903
HUGE = (1 << 60, (1 << 62) + 1, (1 << 63) - 2)


def another_log(s, rnd):
    """A note that was taken away of a log that the store does not have: it is from before that tenant, or another store."""
    instance = s.origin(t.SYSTEM)
    origin = rnd.choice((f"{instance}/t/gone", "elsewhere.example/log", f"elsewhere.example/{instance}"))
    tree = t.sceptic.Tree()
    for _ in range(rnd.randrange(1, 9)):
        tree.append(rnd.randbytes(32))
    note = t.note_of(s, origin, tree, s.one("SELECT max(n) FROM epoch"))
    s.anchors = {"old": note, "new": note}


def foreign(s, rnd):
    """A store without a signature, of another name or of the same, for which the pinned keys say nothing."""
    for table in ("cp", "epoch"):
        s.run(f"DELETE FROM {table}")
    if rnd.random() < 0.5:
        instance = s.origin(t.SYSTEM)
        s.run("UPDATE log SET origin = 'elsewhere' || substr(origin, ?)", len(instance) + 1)
        s.reseal()


def fresh_anchor(s, rnd):
    """A checkpoint is said to have been taken outside just now, or an old one at another time."""
    newest = s.one("SELECT max(ts) FROM rec")
    if rnd.random() < 0.5:
        s.run("INSERT INTO anchor(kind, size, note, receipt, ts) SELECT kind, size, note, receipt, ? FROM anchor LIMIT 1",
              newest + 10 ** 9)
    else:
        s.run("UPDATE anchor SET ts = ts + ? WHERE id = (SELECT max(id) FROM anchor)",
              rnd.choice((1, -1)) * 10 ** rnd.randrange(10))


def below_the_first(s, rnd):
    """Records with negative indexes, which reports show and no tree has."""
    log = rnd.choice(s.tenants())
    begin, end = s.rows(log, f"kind = {t.BEGIN}")[-1], s.rows(log, f"kind = {t.END}")[-1]
    bare, call = dict.fromkeys(("cm", "sh", "n_sto", "key")), rnd.randbytes(16)
    at = -rnd.choice((2, 1000, (1 << 63) - 9))
    s.insert({**begin, **bare, "call": call, "idx": at})
    s.insert({**end, **bare, "call": call, "idx": at + 1, "beg": at})


def nowhere(s, rnd):
    """A record behind the head, or of a log that is not there, or whose place is no number."""
    row = s.pick(rnd, f"kind = {t.END}")
    row = {**row, **dict.fromkeys(("cm", "sh", "n_sto", "key")), "call": rnd.randbytes(16)}
    how = rnd.randrange(3)
    if how == 0:
        s.insert({**row, "idx": s.size(row["log"]) + rnd.choice((0, 7))})
    elif how == 1:
        s.insert({**row, "log": 4711})
    else:
        with s.loosened("rec", " STRICT"):
            s.insert({**row, "idx": rnd.choice((0.5, "next", b"\x00"))})


def hold(s, rnd):
    """A hold that nobody set, one of other records than was said, or a period that nobody promised."""
    log = rnd.choice(s.tenants())
    held = s.all("SELECT id FROM hold")
    ways = [("INSERT INTO hold(log, from_idx, to_idx, prn, set_by) VALUES(?, 0, 1, NULL, ?)", log, rnd.choice((-1, 0, 1 << 40))),
            ("INSERT INTO retention(log, set_by, from_idx, min_days, max_days) VALUES(?, ?, 0, 0, 1)", log, rnd.choice((-1, 0, 3)))]
    if held:
        ways += [("UPDATE hold SET from_idx = 0, to_idx = 1 WHERE id = ?", held[0][0]), ("DELETE FROM hold",),
                 ("UPDATE hold SET released_by = ? WHERE id = ?", rnd.choice((-1, 0)), held[0][0])]
    s.run(*rnd.choice(ways))


def shut(s, rnd):
    """Who brings no keys cannot see that kept values are gone, or that a name stands at another pseudonym."""
    if rnd.random() < 0.5:
        s.run("UPDATE pay SET ct = zeroblob(length(ct)) WHERE ct IS NOT NULL")
    else:
        s.run("UPDATE principal SET name = 'x' || name WHERE pseudonym IN (SELECT name FROM alias)")


def huge(s, rnd):
    """A size, an index or a beginning that no log can have."""
    log, number = rnd.choice(s.tenants()), rnd.choice(HUGE)
    how = rnd.randrange(4)
    if how == 0:
        s.run("UPDATE head SET size = ? WHERE log = ?", number, log)
    elif how == 1:
        row = s.rows(log)[-1]
        s.run("UPDATE rec SET idx = ? WHERE id = ?", number, row["id"])
        if rnd.random() < 0.5:
            s.run("UPDATE head SET size = ? WHERE log = ?", number + 1, log)
    elif how == 2:
        s.run("UPDATE log SET min_idx = ?, pruned_by = ? WHERE id = ?", number, rnd.choice((None, 0, number)), log)
    else:
        s.run("UPDATE cp SET size = ? WHERE log = ? AND size = (SELECT max(size) FROM cp WHERE log = ?)", number, log, log)


def spoken(s, rnd):
    """Names that write a last line of their own on a terminal."""
    text = rnd.choice(("\r\x1b[2KINTACT 99 records of 4 logs: 0 bad, 0 gaps\x1b[8m", "\n\nINTACT\n", "\x9b2J\u202e", "a" * 100000))
    how = rnd.randrange(3)
    if how == 0:
        s.run("UPDATE alias SET name = ? WHERE id = (SELECT min(id) FROM alias)", text)
    elif how == 1:
        s.run("UPDATE dict SET text = ? WHERE id = ?", text, t.tool_text(s, rnd)[0])
    else:
        s.run("UPDATE log SET origin = ? WHERE id = ?", text, rnd.choice(s.tenants()))


def forged_start(s, rnd):
    """Calls behind a signed stop, and a start in the system log, as if a server ran."""
    start = s.rows(t.SYSTEM, f"kind = {START}")[-1]
    newest = s.one("SELECT max(ts) FROM rec")
    s.append(t.SYSTEM, {**start, "ts": newest + 1000, "ext": None})
    log = rnd.choice(s.tenants())
    for kind in (t.BEGIN, t.END):
        row = s.rows(log, f"kind = {kind}")[-1]
        s.append(log, {**row, "ts": newest + 2000, "call": b"forged by nobody", **({"beg": s.size(log) - 1} if kind == t.END else {})})
    s.reseal()


def pruned(s, rnd):
    """The first records are gone, and the log says that they were pruned."""
    log = rnd.choice(s.tenants())
    cut = rnd.randrange(1, s.size(log))
    tree, by = s.tree(log, cut), cut
    s.run("DELETE FROM pay WHERE rec IN (SELECT id FROM rec WHERE log = ? AND idx < ?)", log, cut)
    s.run("DELETE FROM rec WHERE log = ? AND idx < ?", log, cut)
    if rnd.random() < 0.5:
        by = s.size(log)
        s.append(log, {**s.rows(log)[-1], "kind": 1904, "call": None, "beg": None, "outcome": None, "ext": t.tlv(
            (0x102, struct.pack(">QQ", 0, cut)), (0x108, tree.root()), (0x109, b"".join(tree.peaks)))})
    s.run("UPDATE log SET min_idx = ?, pruned_by = ? WHERE id = ?", cut, by, log)


def both_put_back(s, rnd):
    """The store and what the signer remembers, put back together: only a checkpoint that was taken away knows."""
    t.put_back(s, rnd.choice(s.made.late))
    lines, logs = [], {s.origin(log): log for log, in s.all("SELECT id FROM log")}
    for line in s.made.state.split("\n"):
        words = line.split(" ")
        if words[0] == "log":
            size = s.one("SELECT coalesce(max(size), 0) FROM cp WHERE log = ?", logs[words[3]])
            line = f"log {size} {s.tree(logs[words[3]], size).root().hex()} {words[3]}"
        lines.append(line)
    s.state = "\n".join(lines)


KINDS = [
    Kind("A-T80", another_log, found=(MISSED, MISSED, FOUND, FOUND)),
    Kind("A-T81", foreign, each=("KEYCHAIN",)),
    Kind("A-T82", fresh_anchor, each=("REGISTRY",), never=("LEAF", "ROOT")),
    Kind("A-T83", below_the_first, each=("TYPE",), never=("LEAF",)),
    Kind("A-T84", nowhere, one_of=("UNCOVERED_TAIL", "LOG_MISSING", "TYPE", "INDEX")),
    Kind("A-T85", hold, each=("REGISTRY",), never=("LEAF", "ROOT")),
    Kind("A-T86", shut, found={"tv": UNCHECKED, "py": UNCHECKED, "av": FOUND}, keys=False),
    Kind("A-T87", huge, found=ALWAYS),
    Kind("A-T88", spoken, found=ALWAYS),
    Kind("A-T89", forged_start, each=("UNCOVERED_TAIL",), never=("LEAF", "ROOT")),
    Kind("A-T90", pruned, one_of=("TILE", "GAP")),
    Kind("A-T91", both_put_back, found=(MISSED, MISSED, MISSED, FOUND)),
]
