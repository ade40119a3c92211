"""What logs.commit says of the other logs (A-T100 to A-T105), changed by a thief of the newest epoch's key who signs the system
log anew: its records and signatures are as they should be, and what they say of the others is not."""
import tamperings as t
from kinds import Kind


def changed(s, rnd, change):
    """change(entries, root) gives those of the newest commit anew; where it has too few of them, nothing is done."""
    row, fields, entries = list(t.commits(s))[-1]
    made = change(entries, fields[t.ALL_HEADS][-32:]) if len(entries) > 1 else None
    if not made:
        return False
    t.say_heads(s, row, fields, *made)
    s.reseal(t.SYSTEM)
    t.sign_again(s, row["ts"])
    return None


def entry(s, rnd):
    """A size in the newest logs.commit is another one, signed anew."""
    def change(entries, root):
        at = rnd.randrange(len(entries))
        log, size = entries[at]
        return [*entries[:at], (log, rnd.choice((size - 1, size + 1, 1, size + (1 << 40)))), *entries[at + 1:]], root
    return changed(s, rnd, change)


def entry_dropped(s, rnd):
    """A log is left out of the newest logs.commit, whose root stays, signed anew."""
    def change(entries, root):
        at = rnd.randrange(len(entries))
        return entries[:at] + entries[at + 1:], root
    return changed(s, rnd, change)


def entries_reordered(s, rnd):
    """Two logs of the newest logs.commit change places, or sizes, signed anew."""
    def change(entries, root):
        a, b = sorted(rnd.sample(range(len(entries)), 2))
        other = list(entries)
        if rnd.random() < 0.5 and other[a][1] != other[b][1]:
            other[a], other[b] = (other[a][0], other[b][1]), (other[b][0], other[a][1])
        else:
            other[a], other[b] = other[b], other[a]
        return other, root
    return changed(s, rnd, change)


def root(s, rnd):
    """The newest logs.commit has a root that does not fit, signed anew."""
    def change(entries, root):
        return entries, t.flipped(root, rnd)
    return changed(s, rnd, change)


def disagree(s, rnd):
    """A logs.commit says of a log more than a later one does, signed anew."""
    known, pairs = {}, []
    for row, fields, entries in t.commits(s):
        for log, size in entries:
            if log in known:
                pairs.append((known[log], log, size))
        known.update({log: (row, fields, entries) for log, _ in entries})
    if not pairs:
        return False
    (row, fields, entries), log, size = rnd.choice(pairs)
    entries = [(each, size + rnd.choice((1, 100)) if each == log else its) for each, its in entries]
    t.say_heads(s, row, fields, entries, fields[t.ALL_HEADS][-32:])
    s.reseal(t.SYSTEM)
    t.sign_again(s, row["ts"])
    return None


def two_forms(s, rnd):
    """The newest logs.commit says heads in both forms, signed anew."""
    row, fields, entries = list(t.commits(s))[-1]
    log, size = rnd.choice(entries)
    t.set_column(s, row, "ext", t.tlv(*sorted({**fields, t.HEADS: t.struct.pack(">IQ", log, size) +
                                               s.tree(log, size).root()}.items())))
    s.reseal(t.SYSTEM)
    t.sign_again(s, row["ts"])


KINDS = [Kind(number, tamper, one_of=codes, never=("LEAF", "ROOT", "CP_SIG")) for number, tamper, codes in (
    ("A-T100", entry, ("CROSS_REF",)), ("A-T101", entry_dropped, ("CROSS_REF",)),
    ("A-T102", entries_reordered, ("CROSS_REF", "PARSE")), ("A-T103", root, ("CROSS_REF",)),
    ("A-T104", disagree, ("CROSS_REF",)), ("A-T105", two_forms, ("PARSE",)))]
