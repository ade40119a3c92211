"""Deeds that two administrators did not do (A-T75 to A-T79), as a server without this check would have recorded and had
signed: records and signatures are as they should be, and what they say is not."""
import struct

import tamperings as t
from kinds import NEVER, Kind

POLICY, LEVEL, RETENTION, REQUEST, GRANT, ADMIN, START, STOP = 1401, 1404, 1903, 1910, 1911, 1701, 1601, 1602
AFTER, APPROVER, REASON, COMMAND, ASKED = 0x101, 0x106, 0x113, 0x114, 0x12E
SECOND = 1000000


class Tale:
    """Records at the end of the system log, between a start and a stop, and all that is signed anew."""

    def __init__(self, s, rnd):
        self.s, self.rnd = s, rnd
        self.like = {kind: s.rows(t.SYSTEM, f"kind = {kind}")[-1] for kind in (START, STOP, ADMIN)}
        self.now = self.like[STOP]["ts"] + SECOND
        self.number = 1000 + rnd.randrange(1000)
        self.digest, self.asked = rnd.randbytes(32), rnd.randbytes(32)
        self.append(self.like[START], ext=None)

    def append(self, row, **changes):
        self.now += self.rnd.randrange(1, SECOND)
        self.s.append(t.SYSTEM, {**row, "ts": self.now, "mono": row["mono"] + 1, "leaf": None, **changes})

    def say(self, kind, who, obj=None, **fields):
        """A record of a command: fields by name."""
        tags = {"after": AFTER, "approver": APPROVER, "reason": REASON, "command": COMMAND, "asked": ASKED, "counts": 0x10F}
        line = {"command" if kind == ADMIN else "reason": f"{who}: something"}
        values = {tags[name]: value if isinstance(value, bytes) else value.encode() for name, value in {**line, **fields}.items()}
        self.append(self.like[ADMIN], kind=kind, ext=t.tlv(*sorted(values.items())), outcome=0 if kind == ADMIN else None, rule=None,
                    obj=self.s.word(112, obj) if obj else None)

    @property
    def obj(self):
        return f"approval/{self.number}"

    def request(self, who="uid 0", digest=None):
        self.say(REQUEST, who, self.obj, after=digest or self.digest, asked=self.asked)

    def grant(self, who="uid 1000", digest=None):
        self.say(GRANT, who, self.obj, after=digest or self.digest, asked=self.asked, approver=who)

    def deed(self, approver, digest=None):
        """New versions are free again: its record, and that of the command."""
        used = self.obj if approver.endswith(self.obj) else None
        self.say(POLICY, "uid 0", "approval/versions/free", approver=approver)
        self.say(ADMIN, "uid 0", used, after=digest or self.digest, approver=approver)

    def end(self):
        """The stop; leaves, heads, checkpoint and the signer's memory of the system log."""
        s = self.s
        self.append(self.like[STOP], ext=None)
        s.reseal(t.SYSTEM)
        tree, origin, epoch = s.tree(t.SYSTEM), s.origin(t.SYSTEM), s.one("SELECT max(n) FROM epoch")
        s.run("DELETE FROM tile WHERE log = 1")
        tiles(s, t.SYSTEM)
        note = t.note_of(s, origin, tree, epoch)
        s.run("INSERT INTO cp(log, size, epoch, ts, note, frontier) VALUES(1, ?, ?, ?, ?, ?)", tree.size, epoch, self.now, note,
              b"".join(tree.peaks))
        lines = [line if not line.startswith("log ") or line.split(" ")[3] != origin else
                 f"log {tree.size} {tree.root().hex()} {origin}" for line in s.made.state.split("\n")]
        s.state = "\n".join(lines)


def tiles(s, log):
    """Hashes of whole subtrees of 256 records and of 256 of these."""
    hashes, level = [leaf for leaf, in s.all("SELECT leaf FROM rec WHERE log = ? ORDER BY idx", log)], 1
    while len(hashes) >= 256:
        hashes = [tree_of(hashes[at:at + 256]) for at in range(0, len(hashes) - 255, 256)]
        for at in range(0, len(hashes), 256):
            s.run("INSERT INTO tile(log, level, n, hashes) VALUES(?, ?, ?, ?)", log, level, at // 256, b"".join(hashes[at:at + 256]))
        level += 1


def tree_of(hashes):
    while len(hashes) > 1:
        hashes = [t.sceptic.node(hashes[at], hashes[at + 1]) for at in range(0, len(hashes), 2)]
    return hashes[0]


def nobody_granted(s, rnd):
    """A deed with an approver of whom no record says that he granted it, or without one."""
    tale = Tale(s, rnd)
    how = rnd.randrange(4)
    if how == 0:
        tale.say(LEVEL, "uid 0", "level/acme", reason="request -> metadata")
    elif how == 1:
        tale.say(RETENTION, "uid 0", "retention", counts=struct.pack(">QQ", 9, 0))
        tale.say(RETENTION, "uid 0", "retention", counts=struct.pack(">QQ", 7, 0))
    else:
        if how == 2:
            tale.request()
        tale.deed(f"uid 1000 {tale.obj}")
    tale.end()


def granted_by_oneself(s, rnd):
    """The grant by whoever asked."""
    tale = Tale(s, rnd)
    tale.request("uid 1000")
    tale.grant("uid 1000")
    tale.deed(f"uid 1000 {tale.obj}")
    tale.end()


def granted_another(s, rnd):
    """The grant of another action."""
    tale = Tale(s, rnd)
    other = rnd.randbytes(32)
    tale.request()
    if rnd.randrange(2):
        tale.grant(digest=other)
        tale.deed(f"uid 1000 {tale.obj}")
    else:
        tale.grant()
        tale.deed(f"uid 1000 {tale.obj}", digest=other)
    tale.end()


def used_twice(s, rnd):
    """A grant that was used twice."""
    tale = Tale(s, rnd)
    tale.request()
    tale.grant()
    tale.deed(f"uid 1000 {tale.obj}")
    tale.deed(f"uid 1000 {tale.obj}")
    tale.end()


def policy_that_was_none(s, rnd):
    """A deed under the policy one, which was not in force."""
    tale = Tale(s, rnd)
    tale.say(POLICY, "uid 0", "approval/policy/two")
    tale.deed("none: approval policy one")
    tale.end()


def two_did_it(s, rnd):
    """Such records of two administrators: harmless."""
    tale = Tale(s, rnd)
    tale.request()
    tale.grant()
    tale.deed(f"uid 1000 {tale.obj}")
    tale.end()


KINDS = [Kind(number, tamper, each=("APPROVAL",), never=("LEAF", "ROOT", "CP_SIG")) for number, tamper in
         (("A-T75", nobody_granted), ("A-T76", granted_by_oneself), ("A-T77", granted_another), ("A-T78", used_twice),
          ("A-T79", policy_that_was_none))] + [Kind("A-T79b", two_did_it, found=NEVER)]
