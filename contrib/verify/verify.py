#!/usr/bin/env python3
"""An independent verifier of a toolcrib store, for the sceptic: Python 3.8 and its standard library, no code of toolcrib.

    verify.py [--key KEYS] [--signer-state FILE] [--anchor NOTE] [--keys DIR] [--from INDEX] [--to INDEX] /var/lib/toolcrib/toolcrib.db
    verify.py [--key KEYS] FILE.tcs...
    verify.py [--key KEYS] --bundle FILE
    verify.py --key KEYS --proof FILE [--opening FILE]
    verify.py --key KEYS --consistency FILE --anchor NOTE

The file is opened read-only.  The server may run, but keeps all that it writes meanwhile in its WAL: of a large store take
a copy.  Its schema has to be that of a release (SCHEMAS), down to the letter, or no record is read by it.  Each record is a
row of table rec.  Its bytes are the letters TCAR, its encoding number, then each column that is not NULL as two bytes of
tag, four of length and the value, tags ascending: integers as eight bytes, ids of the dictionary and of logs as the text
that they stand for.  The leaf is SHA-256(0x00 || bytes); the leaves of a log are the leaves of a Merkle tree (RFC 6962),
whose root stands in table head.

Below the end of a log's newest block (table blk) its records are in blocks, by columns (contrib/doc/block-format.md): the same
values, hence the same bytes.  What stands beside the columns has to be what they come to, rows of rec below that line are
leftovers and have to say what their block says, and what is kept of records in blocks is in table blkpay.  Below the end of a log's
last sealed file (table seg) its records are in these, which lie in the folder of the store: each is looked at by itself, then beside
its row and the record that says that it was sealed, then its records are read with all others.  Of a log with one that is not here, or
cannot be read, nothing behind it is.

With --from or --to the tree before the part is made of table tile, and has to lead to the checkpoints in the part; what hangs on
other records (the registry, holds, names, what logs say of each other) is not looked at, so exit status 5 is the best there is.

Table cp holds checkpoints: signed notes (C2SP signed-note, tlog-checkpoint) of origin, size and root of a log, with a line
of the log key under the log's origin and a line of the key of an epoch under "<instance>/e/<number>".  Table epoch holds
the epochs' keys; the key of each but the first is certified by the one before.  KEYS is a file with the keys that you
keep outside, "NAME+ID+KEY" each on a line, as "toolcrib audit keys" prints them, or such a line itself.  The signer's
state and a note that was taken outside show what a store has lost since.

What records commit to (column cm) is kept, encrypted, in table pay; with --keys it is opened and compared.  A record of a
change has the numbers of the rows that it made (tag 0103 of ext) and their digests (010c): the rows must still be those.

A proof (C2SP tlog-proof) shows one record to be in a log, without the store.  What it commits to is shown by the openings of
"toolcrib --json audit payload CALL --opening": the HMAC-SHA-256 of "toolcrib/c/1", a zero byte, the ctag as two bytes and the
value, under the opening, is the commitment that column cm has behind the ctag.  A bundle is a range of a log as a tar: the
records' bytes, the tree at both ends, notes and epochs of the range, and a manifest with the hashes of these.  A proof of
consistency ("toolcrib audit consistency", the body of a C2SP tlog-witness request) shows that its checkpoint's log is that of NOTE,
an older checkpoint of it, with records behind.  A sealed file
(contrib/doc/segment-format.md) is a range as blocks, in a file of SQLite of its own with the texts that they use.

Everything in the store may be a forger's.  So no loop is as long as a number in it says, what is larger than any release
writes is a finding, and texts are printed escaped and cut.

Prints a line for each finding and one for the sum.  Exit status: 0 intact, 4 damaged, 5 intact as far as could be seen,
3 what was given cannot be read, or no key was pinned, 2 usage."""
import argparse
import base64
import bisect
import collections
import datetime
import hashlib
import hmac
import itertools
import json
import os
import re
import resource
import sqlite3
import stat
import struct
import sys
import urllib.parse
import zlib

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
    "trace": (0x68, "b", 16), "obj": (0x70, "d"), "ext": (0x71, "b"), "sys": (0x72, "d"), "mdl": (0x73, "d"),
}
# What numbers in records mean (toolcrib-audit(7)).
KINDS = """
1 log.open 2 log.close 1001 call.begin 1002 call.end 1003 call.denied 1004 call.recovered 1005 call.denied.summary
1010 list 1011 notify 1012 message.dropped 1013 resource.subscribe 1014 resource.unsubscribe
1021 task.create 1022 task.input 1023 task.cancel 1024 task.end 1025 task.read 1026 task.expire 1027 task.rerun
1031 call.held 1032 call.approved 1033 call.refused 1034 call.lapsed 1035 call.recalled 1101 auth.fail
1102 auth.fail.summary 1103 cred.first_use 1104 alias.new 1201 cred.create 1202 cred.rotate 1203 cred.revoke
1204 cred.expire 1205 cred.suspend 1206 cred.resume 1301 tenant.create 1302 tenant.suspend 1303 tenant.resume
1304 tenant.delete 1305 tenant.change 1401 policy.change 1402 scope.change 1403 limit.change 1404 level.change
1405 grant.add 1406 grant.change 1407 grant.remove 1501 tool.register 1502 tool.change 1503 tool.approve
1504 tool.enable 1505 tool.disable 1506 tool.delete 1507 tool.drift 1511 upstream.add 1512 upstream.change
1513 upstream.accept 1514 upstream.remove 1521 secret.set 1522 secret.remove 1531 definition.add
1532 definition.change 1533 definition.remove 1534 registry.vouch 1535 tool.pin 1540 registry.quarantine
1601 server.start 1602 server.stop 1603 server.crash 1604 config.load 1605 clock.step 1606 time.sync
1607 sandbox.degraded 1608 space.low 1609 space.ok 1610 audit.fail 1612 backup.test 1613 store.restore 1615 backup.broken
1701 admin.cmd 1801 audit.read 1802 audit.export
1803 audit.verify 1804 audit.review 1811 alert.open 1812 alert.ack 1813 review.done 1814 alert.silence
1815 sink.change 1821 inventory.change 1822 system.change 1901 hold.set 1902 hold.release
1903 retention.change 1904 prune 1905 prune.done 1906 erase 1907 erase.done 1908 key.rotate 1909 key.destroy
1910 approval.request 1911 approval.grant 1912 segment.seal 1913 segment.move 2001 logs.commit 2002 anchor.receipt 2003 epoch.start
""".split()
KINDS = dict(zip(map(int, KINDS[::2]), KINDS[1::2]))
NAMES = {
    "kind": KINDS, "tport": {1: "stdio", 2: "tcp", 3: "unix", 4: "http", 5: "admin"},
    "outcome": dict(enumerate("ok tool_error invalid denied rate_limited timeout cancelled input_required crashed aborted overload "
                              "unknown".split())),
}
CTAGS = {1: "arguments", 2: "result", 3: "address", 4: "person", 5: "client", 6: "error", 8: "redacted", 9: "whole_arguments",
         10: "whole_result", 11: "unknown_name"}
UNITS = {"n_req": "bytes", "n_res": "bytes", "n_sto": "bytes", "dur": "us", "cpu": "us", "rss": "KiB"}
NOT_COVERED = {"id", "enc", "leaf", "span"}
# Rows by position, and those of them that no block has (0042_span.sql): what views rec_at and rec_tail are to others.  In them log = ?, and
# ORDER BY span, idx.
AT = "(SELECT s.n AS span, r.* FROM span s CROSS JOIN rec r INDEXED BY rec_order ON r.id >> 12 = +s.n)"
TAIL = AT[:-1] + " WHERE s.n >= coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'tail_from'), 0) >> 12)"
BEGIN, END, RECOVERED, ALIAS, START, STOP, CRASH, ADMIN, COMMIT = 1001, 1002, 1004, 1104, 1601, 1602, 1603, 1701, 2001
OPEN, TASK_CREATE, TASK_INPUT, TASK_RERUN, VOUCH, QUARANTINE, REVIEWED, RATED, SYSTEM = 1, 1021, 1022, 1027, 1534, 1540, 1813, 1821, 1822
INPUT_REQUIRED = 7
# A row of a task by its state, and what its newest records may say: one that runs, that asks, that waits for a run of its own,
# that follows what runs elsewhere.
TASK_STATES = {1: (None, "runs"), 2: (None, "asks", "answered"), 3: (), 4: (), 5: (), 7: (None, "answered"), 8: (None, "runs")}
HELD, APPROVED = 1031, 1032
# From which state to which an approval goes, by which kind of record: 1 waits, 2 granted, 3 refused, 4 lapsed, 5 used, 6 recalled.
ASSENTS = {(1, 1, APPROVED), (1, 2, APPROVED), (1, 3, 1033), (1, 4, 1034), (2, 4, 1034), (2, 6, 1035), (2, 5, BEGIN)}
HOLD_SET, HOLD_RELEASE, RETENTION, PRUNE, PRUNE_DONE, ERASE, ERASE_DONE = 1901, 1902, 1903, 1904, 1905, 1906, 1907
BY_SYSTEM = 5                   # column actor
RECEIPT, SEAL, MOVE, RESTORE = 2002, 1912, 1913, 1613
# Limits: no release writes more, or this program does not keep more in mind.
TEXT_MAX = 200                  # characters of a text that are printed
VALUE_MAX = 16 << 20            # bytes of a value
MEMORY_MAX = 1 << 30            # bytes of address space
FINDINGS_MAX = 10000            # that are listed; the others are counted
BUNDLE_MAX, PART_MAX, LINE_MAX = 8 << 30, 8 << 20, 1 << 20      # bytes of a bundle, of a member but the records, of a record's line
LOGS_MAX = 1000000              # that are looked at
HEADS_MAX = 1024                # logs in one logs.commit of form 2
RUNNING_MAX = 1 << 20           # begins without an end, of one log
TOMBS_MAX = 1000                # erasures of the same record or key, or of many records, of one log
BAD_NOTES_MAX = 100             # of one log; checking a signature takes long
RECEIPT_US = 60000000           # between a row of table anchor and a record that does not say its time
POLICY, LEVEL, CLOCK_STEP, REQUEST, GRANT = 1401, 1404, 1605, 1910, 1911
# Rows of the registry: number and name by which records call them, the columns that count.  The digest is over these in this
# order; before them stand the log and index of the record that speaks of the row.
SETTINGS = "CASE key WHEN 'audit_level' THEN 1 WHEN 'approvals' THEN 2 WHEN 'versions' THEN 3 END"
ROWS = {
    1: ("tenant", "id, name, title, state, concurrency, rate_count, rate_per_s, created_us, sandbox, audit_level FROM tenant"),
    2: ("principal", "id, tenant_id, pseudonym, state, created_us, system_id FROM principal"),
    3: ("cred", "id, tenant_id, principal_id, accessor, hash, created_us, expires_us, revoked_us, not_before_us, scopes, cidr, "
                "arg_rules, rotated_us, old_hash, old_until_us, enrol_ttl_us, parent_id, expired_us, suspended_us FROM cred"),
    4: ("grant", "id, tenant_id, glob, alias, concurrency, rate_count, rate_per_s, created_us, version, approve FROM tool_grant"),
    5: ("tool", "t.id, t.name, t.state, t.version, t.created_us, kind, uri, digest, definition FROM "
                "(SELECT rec_log, rec_idx, id, name, state, version, created_us FROM tool) t "
                "LEFT JOIN (SELECT tool_id, version, kind, uri, digest, definition FROM tool_version) v "
                "ON v.tool_id = t.id AND v.version = t.version"),
    6: ("schema", "id, uri, state, digest, definition, created_us FROM shared_schema"),
    7: ("upstream", "id, name, state, definition, digest, prefix, created_us FROM upstream"),
    8: ("secret", "id, name, created_us, changed_us FROM secret"),
    9: ("limit", "id, tenant_id, scope, subject, concurrency, queue, rate_count, rate_per_s, requests_count, requests_per_s, "
                 "calls_day, bytes_day FROM limit_row"),
    10: ("level", "id, tenant_id, tool, level FROM tool_level"),
    11: ("upstream_tool", "id, upstream_id, remote, tool_id, pinned FROM upstream_tool"),
    12: ("inventory", "id, subject_kind, subject_id, tenant_id, owner, contact, purpose, risk, data, oversight, review_days, "
                      "since_us, set_us, set_by, reviewed_us, reviewed_by, note, seen_version FROM inventory"),
    13: ("system", "id, tenant_id, name, provider, model, version, role, state, created_us FROM system"),
    19: ("version", "id, tool_id, version, digest, list_digest, definition, actor, created_us, kind, uri FROM tool_version"),
    20: ("setting", f"{SETTINGS}, key, value FROM meta WHERE key IN ('approvals', 'audit_level', 'versions')"),
    21: ("pending", "tool_id, version, state, actor, created_us FROM pending_version"),
    22: ("log", "id, origin, tenant_id, state FROM log"),
    23: ("hold", "id, log, from_idx, to_idx, prn, set_by, released_by FROM hold"),
    24: ("remote_state", "id, state, seen, pending, held, note FROM upstream_tool"),
}
PLACES = {24: "state_log, state_idx"}           # of the others: rec_log, rec_idx
LATER = 19                      # from here on, kinds that have records since there is registry.vouch
# What a file says it is (application_id), and by its schema's number (user_version) the digest of that schema, see schema().
STORE, KEYS, SEGMENT, LEAN = 0x54435242, 0x54434B59, 0x54435331, 0     # LEAN: a store without the indexes of rows
SCHEMAS = {
    STORE: {
        46: "cf3066b05b776c6f8e73fed4b9f604d581baeb5202f49738f8955939f57b031e",
    },
    KEYS: {
        2: "dd88495390f4175ede35372535e31fd10be1a91997bd119553e8b11116d8cf83",
    },
    LEAN: {
        46: "8b72d6ae334ff20adb2c7bfea6c60663e3da02a2f2c87a3e26dbae6c0b419ad8",
    },
    SEGMENT: {
        1: "a9130183b9a53e7fd184cb2b6bde99f14bab39721788c6dc531c3dfd818415ba",
    },
}
GAPS = {"DANGLING", "NOT_CHECKED", "KEY_MISSING", "SEGMENT_MISSING", "RESTORED"}


def safe(value):
    """A text of the store as it may be printed: ASCII, no control characters, not long."""
    text = str(value)
    return ascii(text[:TEXT_MAX])[1:-1] + ("..." if len(text) > TEXT_MAX else "")


def utc(us):
    """As records are told, with microseconds; what is no year of ours, as the number that it is."""
    try:
        return (datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except OverflowError:
        return f"{us} us"


# --- Ed25519 (RFC 8032, 5.1.7), slow and short

P = 2 ** 255 - 19
D = -121665 * pow(121666, P - 2, P) % P
ORDER = 2 ** 252 + 27742317777372353535851937790883648493


def recover_x(y, sign):
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - x2) % P or (x == 0 and sign):
        raise ValueError("not a point")
    return P - x if x & 1 != sign else x


def point(data):
    number = int.from_bytes(data, "little")
    y = number & (1 << 255) - 1
    x = recover_x(y, number >> 255)
    return x, y, 1, x * y % P


def add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def multiply(n, p):
    q = (0, 1, 1, 0)
    while n:
        if n & 1:
            q = add(q, p)
        p, n = add(p, p), n >> 1
    return q


BASE_Y = 4 * pow(5, P - 2, P) % P
BASE_X = recover_x(BASE_Y, 0)
BASE = (BASE_X, BASE_Y, 1, BASE_X * BASE_Y % P)


def signed_by(key, message, signature):
    try:
        s = int.from_bytes(signature[32:], "little")
        if len(signature) != 64 or len(key) != 32 or s >= ORDER:
            return False
        h = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % ORDER
        r, a = point(signature[:32]), point(key)
        if multiply(8, r)[0] % P == 0 or multiply(8, a)[0] % P == 0:    # of small order: anybody signs with that
            return False
        left, right = multiply(s, BASE), add(r, multiply(h, a))
        return (left[0] * right[2] - right[0] * left[2]) % P == 0 and (left[1] * right[2] - right[1] * left[2]) % P == 0
    except ValueError:
        return False


# --- XChaCha20-Poly1305 (RFC 8439, draft-irtf-cfrg-xchacha), and the keys of payloads

TURNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
         (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
CONSTANT = struct.unpack("<4I", b"expand 32-byte k")


def twenty_rounds(words):
    x = list(words)
    for a, b, c, d in TURNS * 10:
        for to, by, turned, left in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[to] = x[to] + x[by] & 0xFFFFFFFF
            mixed = x[turned] ^ x[to]
            x[turned] = mixed << left & 0xFFFFFFFF | mixed >> 32 - left
    return x


def chacha(key, nonce, counter):
    words = (*CONSTANT, *struct.unpack("<8I", key), counter, *struct.unpack("<3I", nonce))
    return struct.pack("<16I", *(a + b & 0xFFFFFFFF for a, b in zip(words, twenty_rounds(words))))


def poly1305(key, message):
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for at in range(0, len(message), 16):
        total = (total + int.from_bytes(message[at:at + 16] + b"\1", "little")) * r % ((1 << 130) - 5)
    return (total + int.from_bytes(key[16:], "little") & (1 << 128) - 1).to_bytes(16, "little")


def inner(key, nonce):
    """Key and nonce of the cipher with the short nonce."""
    words = twenty_rounds((*CONSTANT, *struct.unpack("<8I", key), *struct.unpack("<4I", nonce[:16])))
    return struct.pack("<8I", *words[:4], *words[12:]), bytes(4) + nonce[16:]


def authenticator(key, nonce, ad, text):
    told = ad + bytes(-len(ad) % 16) + text + bytes(-len(text) % 16) + struct.pack("<QQ", len(ad), len(text))
    return poly1305(chacha(key, nonce, 0)[:32], told)


def decrypt(key, nonce, ad, box):
    """What is in the box, or None."""
    if len(nonce) != 24 or len(box) < 16:
        return None
    text, (key, nonce) = box[:-16], inner(key, nonce)
    if authenticator(key, nonce, ad, text) != box[-16:]:
        return None
    stream = b"".join(chacha(key, nonce, 1 + at // 64) for at in range(0, len(text), 64))
    return bytes(a ^ b for a, b in zip(text, stream))


def mac(key, *parts):
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


class PayloadKeys:
    """keys.db and the files that its keys are wrapped with: a key of a tenant, under it a key of a subject and month."""

    def __init__(self, folder):
        self.db = open_store(os.path.join(folder, "keys.db"))
        self.schema = schema(self.db, KEYS)
        self.wrapping, self.known = {}, {}
        for name in os.listdir(folder):
            if name == "master.key" or re.fullmatch("secret-[0-9a-f]{16}[.]key", name):
                key = read_bytes(os.path.join(folder, name))
                derived = {what: hashlib.blake2b(what, key=key, digest_size=32).digest()
                           for what in (b"toolcrib/secret-id/1", b"toolcrib/kek/1")}
                self.wrapping[derived[b"toolcrib/secret-id/1"][:8].hex()] = derived[b"toolcrib/kek/1"]

    @staticmethod
    def unwrap(key, place, box):
        return key and isinstance(box, bytes) and decrypt(key, box[:24], place.encode(), box[24:]) or None

    def find(self, tenant, number):
        """The key of this number, or None: it is destroyed, another tenant's, or wrapped with a key that is not here."""
        if (tenant, number) not in self.known:
            row = self.db.execute("SELECT d.subject, d.month, d.box, k.id, k.key_id, k.box FROM dek d "
                                  "JOIN kek k ON k.id = d.kek_id WHERE d.id = ? AND k.tenant_id = ?", (number, tenant)).fetchone()
            key = None
            if row:
                subject, month, box, above, file, above_box = row
                key = self.unwrap(self.wrapping.get(file), f"kek|{above}|{tenant}|box|{file}", above_box)
                key = self.unwrap(key, f"dek|{number}|{subject}|{month}|box|{above}", box)
            self.known[tenant, number] = key
        return self.known[tenant, number]


def opens(key, salt, origin, idx, ctag, value, commitment):
    opening = mac(key, b"toolcrib/r/1\0", salt, origin.encode(), struct.pack(">QH", idx, ctag))
    return mac(opening, b"toolcrib/c/1\0", struct.pack(">H", ctag), value) == commitment


# --- notes, keys, trees

def strict_base64(text):
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError("not canonical base64")
    return data


def key_id(name, key):
    return hashlib.sha256(name.encode() + b"\n\1" + key).digest()[:4]


def parse_keys(text):
    """Name -> key, of all lines that are keys."""
    keys = {}
    for line in text.split("\n"):
        found = re.search(r"(\S+)\+([0-9a-f]{8})\+([0-9A-Za-z+/]+=*)(?:\s|$)", line)
        if not found:
            continue
        data = strict_base64(found[3])
        if len(data) != 33 or data[0] != 1 or key_id(found[1], data[1:]).hex() != found[2]:
            raise ValueError(f"not a key: {line!r}")
        keys[found[1]] = data[1:]
    if not keys:
        raise ValueError("no key in it")
    return keys


class Note:
    """A checkpoint: what is signed, and the signatures by name and id."""

    def __init__(self, data):
        text, found, lines = bytes(data).decode().rpartition("\n\n")
        if not found or not lines.endswith("\n"):
            raise ValueError("not a signed note")
        self.text, self.signatures = text + "\n", []
        for line in lines[:-1].split("\n"):
            dash, name, value = line.split(" ")
            data = strict_base64(value)
            if dash != "\u2014" or len(data) < 5:
                raise ValueError("not a signature")
            self.signatures.append((name, data[:4], data[4:]))
        self.origin, size, root, end = self.text.split("\n")
        self.size, self.root = int(size), strict_base64(root)
        if end or str(self.size) != size or len(self.root) != 32:
            raise ValueError("not a checkpoint")

    def signed_by(self, name, key):
        wanted = [sig for signer, number, sig in self.signatures if signer == name and number == key_id(name, key)]
        return len(wanted) == 1 and signed_by(key, self.text.encode(), wanted[0])


def of_log(name):
    """A log that goes on behind a restore is signed as ORIGIN/r/N from there on: its origin, and N, 0 = the origin itself."""
    origin, found, number = name.rpartition("/r/")
    if not found or not origin or not re.fullmatch("[1-9][0-9]{0,9}", number) or int(number) >= 1 << 32:
        return name, 0
    return origin, int(number)


def leaf_hash(record):
    return hashlib.sha256(b"\0" + record).digest()


def node(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


class Tree:
    """The hashes of the perfect subtrees, biggest first."""

    def __init__(self, size=0, peaks=()):
        self.size, self.peaks = size, list(peaks)

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


def head_leaf(number, size, root):
    """A log's entry in logs.commit, as a leaf of the tree of form 2."""
    return hashlib.sha256(b"\0" + struct.pack(">IQ", number, size) + root).digest()


def said_heads(data):
    """Form 2 of the heads in logs.commit: (log, size) of each, and the root.  Numbers have seven bits in a byte, the lowest
    first; log and size are differences to the entry before, of sizes 0, -1, 1, -2, ... are 0, 1, 2, 3, ..."""
    numbers, end, value, shift = [], len(data) - 32, 0, 0
    for at, byte in enumerate(data[:max(end, 0)]):
        value, shift = value | (byte & 127) << shift, shift + 7
        if byte < 128:
            if value >> 64 or byte == 0 and shift > 7:
                raise ValueError("a number of heads")
            numbers.append(value)
            value = shift = 0
    if not numbers or shift or len(numbers) % 2 or len(numbers) > 2 * HEADS_MAX:
        raise ValueError("heads")
    said, number, size = [], 0, 0
    for step, folded in zip(numbers[::2], numbers[1::2]):
        number, size = number + step, size + (folded >> 1 ^ -(folded & 1))
        if not step or number >> 32 or not 0 < size < 1 << 63:
            raise ValueError("heads")
        said.append((number, size))
    return said, data[end:]


def included(leaf, index, size, path, root):
    """RFC 9162, 2.1.3.2."""
    if not 0 <= index < size:
        return False
    last = size - 1
    for hash in path:
        if last == 0:
            return False
        if index & 1 or index == last:
            leaf = node(hash, leaf)
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            leaf = node(leaf, hash)
        index, last = index >> 1, last >> 1
    return last == 0 and leaf == root


def consistent(first, second, path, old, new):
    """RFC 9162, 2.1.4.2: does the tree of this size and root go on to be that one?"""
    if not 0 < first < second or not path:
        return first == second and old == new and not path
    path = path if first & first - 1 else [old, *path]
    one, two = first - 1, second - 1
    while one & 1:
        one, two = one >> 1, two >> 1
    left = right = path[0]
    for hash in path[1:]:
        if two == 0:
            return False
        if one & 1 or one == two:
            left, right = node(hash, left), node(hash, right)
            while not one & 1 and one:
                one, two = one >> 1, two >> 1
        else:
            right = node(right, hash)
        one, two = one >> 1, two >> 1
    return two == 0 and (left, right) == (old, new)


def trusted(note, keys):
    """The note, which a key of its log has signed, or one of the instance whose tenant's log it is."""
    key = next((key for name, key in keys.items() if name == of_log(note.origin)[0] or note.origin.startswith(name + "/t/")), None)
    if not key or not note.signed_by(note.origin, key):
        raise ValueError(f"the checkpoint of {note.origin} is not signed by a key that you gave")
    return note


def check_consistency(text, old, keys):
    """The checkpoint whose log goes on behind that of the old one; ValueError says what is wrong."""
    head, found, note = text.partition("\n\n")
    lines = head.split("\n")
    if not found or not re.fullmatch(r"old (0|[1-9][0-9]*)", lines[0]) or len(lines) > 1 + 126:
        raise ValueError("not a proof of consistency")
    path, old, note = [strict_base64(line) for line in lines[1:]], trusted(old, keys), trusted(Note(note.encode()), keys)
    if old.origin != note.origin:
        raise ValueError(f"the old checkpoint is of {old.origin}, the other of {note.origin}")
    if int(lines[0][4:]) != old.size:
        raise ValueError(f"the proof begins at {lines[0][4:]}, and the old checkpoint is of size {old.size}")
    if any(len(hash) != 32 for hash in path) or not (old.size == 0 and not path or consistent(old.size, note.size, path, old.root, note.root)):
        raise ValueError(f"the log of size {note.size} is not that of size {old.size} with records behind")
    return note


def check_proof(text, keys):
    """The record, its index and the checkpoint of a proof; ValueError says what is wrong with it."""
    head, found, note = text.partition("\n\n")
    lines = head.split("\n")
    if not found or len(lines) < 3 or lines[0] != "c2sp.org/tlog-proof@v1" or not lines[1].startswith("extra ") or \
            not re.fullmatch(r"index (0|[1-9][0-9]*)", lines[2]):
        raise ValueError("not a proof")
    record, index = strict_base64(lines[1][6:]), int(lines[2][6:])
    path, note = [strict_base64(line) for line in lines[3:]], trusted(Note(note.encode()), keys)
    if not included(leaf_hash(record), index, note.size, path, note.root):
        raise ValueError("the record is not in the log")
    return record, index, note


def fields(record):
    """Tag -> value of a record's bytes, or of ext."""
    found, at = {}, 5 if record[:4] == b"TCAR" else 0
    while at < len(record):
        tag, length = struct.unpack(">HI", record[at:at + 6])
        value = record[at + 6:at + 6 + length]
        if len(value) != length or any(tag <= other for other in found):
            raise ValueError("malformed fields")
        found[tag] = value
        at += 6 + length
    return found


def commitments(cm):
    """Tag -> commitment, ascending."""
    found = {struct.unpack(">H", cm[at:at + 2])[0]: cm[at + 2:at + 34] for at in range(0, len(cm), 34)}
    if not cm or len(cm) % 34 or list(found) != sorted(found) or len(found) != len(cm) // 34:
        raise ValueError("commitments")
    return found


# --- the files

PRAGMAS = {"integrity_check", "application_id", "user_version"}


def regular(path):
    """A pipe would never end, nor would a device."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path} is no file but a " + next(
            (what for what, test in (("directory", stat.S_ISDIR), ("FIFO", stat.S_ISFIFO), ("socket", stat.S_ISSOCK)) if test(mode)), "device"))
    return path


def read_bytes(path):
    with open(regular(path), "rb") as file:
        data = file.read(VALUE_MAX + 1)
    if len(data) > VALUE_MAX:
        raise ValueError(f"{path!r} is too long")
    return data


def read(path):
    return read_bytes(path).decode()


def only_tables(action, what, _, __, view):
    """All that may be read: no view, whatever it is called, and nothing is written."""
    may = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_TRANSACTION) or action == sqlite3.SQLITE_READ and view is None or \
        action == sqlite3.SQLITE_PRAGMA and what in PRAGMAS
    return sqlite3.SQLITE_OK if may else sqlite3.SQLITE_DENY


def open_store(path, alone=False):
    """Read-only, and so that nothing in the file runs.  alone: what lies beside it is not looked at, and no lock is taken."""
    path = os.path.realpath(path)
    for name in (path + tail for tail in ("", "-wal", "-shm", "-journal")):
        if name == path or not alone and os.path.lexists(name):
            regular(name)
    db = sqlite3.connect(f"file://{urllib.parse.quote(os.fsencode(path))}?mode=ro{'&immutable=1' * alone}", uri=True)
    if hasattr(db, "setlimit"):         # Python 3.11; before, memory is the limit
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_MAX)
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON", f"hard_heap_limit = {VALUE_MAX}",
                    *(["cache_size = -512"] if alone else [])):         # some are open at once
        db.execute(f"PRAGMA {setting}").fetchall()
    db.set_authorizer(only_tables)
    return db


def schema(db, what):
    """None when the schema is one that this program knows, else the finding and its detail.  The digest is over every column
    of every row of sqlite_schema, but of what ANALYZE makes; an index of that table, which a forger can make, is not used."""
    (application,), (version,) = (db.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version"))
    if application != what:
        raise ValueError("not a file of toolcrib, by its application_id")
    if version not in SCHEMAS[what]:
        return "NOT_CHECKED", f"schema {version} is not one that this program knows, so nothing was read by it"
    digest = hashlib.sha256()
    for row in db.execute("SELECT CAST(type AS BLOB), CAST(name AS BLOB), CAST(tbl_name AS BLOB), CAST(sql AS BLOB) "
                          "FROM sqlite_master NOT INDEXED ORDER BY type, name, tbl_name, sql"):
        if row not in STATISTICS:
            for value in row:
                digest.update(struct.pack(">I", len(value or b"")) + (value or b""))
    if digest.hexdigest() not in (SCHEMAS[what][version], what == STORE and SCHEMAS[LEAN][version]):
        return "SCHEMA", f"the schema is not that of any release that has number {version}, so nothing was read by it"
    return None


STATISTICS = [(b"table", name, name, b"CREATE TABLE " + name + columns) for name, columns in
              ((b"sqlite_stat1", b"(tbl,idx,stat)"), (b"sqlite_stat4", b"(tbl,idx,neq,nlt,ndlt,sample)"))]


# --- deeds that need two administrators

DAY, MINUTE = 86400 * 10 ** 6, 60 * 10 ** 6
REQUESTS_MAX = 1 << 16
LEVELS = (b"metadata", b"request", b"request_response")


class Approvals:
    """Each such deed against the records of a request and of its grant by somebody else, of the same action, within a day,
    used once; or against the policy that one is enough.  The system log is read first."""

    def __init__(self, found):
        self.found = found              # of Verifier
        self.requests, self.versions = {}, {}
        self.one, self.wait, self.changes = False, False, []
        self.stepped = self.full = self.unsaid = self.again = False
        self.first, self.last = None, 0
        self.freed, self.days, self.log = False, (), None       # of the record at hand; of its log, the newest periods

    @staticmethod
    def text(said, tag):
        return said.get(tag, b"").decode("utf-8", "replace")

    def late(self, ts, than):
        return not self.stepped and ts > than + MINUTE

    def granted(self, request, by, ts):
        return bool(request and request["by"] == by and not self.late(ts, request["granted"] + DAY) and
                    not self.late(request["granted"], ts))

    def request(self, number, who, said, ts):
        if number in self.requests:
            return False
        if len(self.requests) >= REQUESTS_MAX:
            self.full = True
            return True
        asked = said.get(0x12E)
        self.requests[number] = {"who": who, "digest": said.get(0x101), "asked": asked and asked[:32], "used": None,
                                 "person": asked[32:] if asked else b"", "at": ts, "by": None, "gone": False}
        return len(said.get(0x101, b"")) == 32

    def grant(self, number, who, said, ts):
        request, asked = self.requests.get(number), said.get(0x12E)
        if not request:
            return self.full
        if (request["by"] or request["gone"] or said.get(0x101) != request["digest"] or who == request["who"] or
                self.text(said, 0x106) != who or self.late(ts, request["at"] + DAY) or
                (asked and asked[:32]) != request["asked"] or request["person"] and asked[32:] == request["person"]):
            return False
        request["by"], request["granted"] = who, ts
        return True

    def use(self, number, said, ts):
        """The command's own record: what it was allowed to do is used up; without an approver it was denied."""
        request = self.requests.get(number)
        good = 0x106 not in said
        if not good:
            by, between, _ = self.text(said, 0x106).partition(" approval/")
            good = not request and self.full or bool(
                between and self.granted(request, by, ts) and not request["gone"] and said.get(0x101) == request["digest"])
        if request:
            request["gone"], request["used"] = True, ts if 0x106 in said else None
        return good

    def deed(self, system, by, number, ts):
        request = self.requests.get(number)
        if not request and self.full or not system and not (request and request["by"]) and ts > self.last:
            return True
        if request and request["gone"] and (system or request["used"] is None or self.late(ts, request["used"])):
            return False
        return self.granted(request, by, ts)

    def alone(self, system, ts):
        if system:
            return self.one
        ends = [at for at, _ in self.changes[1:]] + [1 << 63]
        return self.full or ts > self.last or any(
            one and (self.stepped or at - MINUTE <= ts <= end + MINUTE) for (at, one), end in zip(self.changes, ends))

    def claim(self, system, kind, who, obj, said, ts):
        by, needs = self.text(said, 0x106), self.needs(kind, obj, said)
        if not by:
            if needs:
                if self.first is not None and ts >= self.first:
                    return False
                self.unsaid = True
            return True
        if by.endswith("approval policy one"):
            return self.alone(system, ts)
        by, between, number = by.partition(" approval/")
        if between:
            return self.deed(system, by, int(number) if number.isascii() and number.isdigit() else 0, ts)
        author = self.versions.get((obj, said.get(0x101)))
        return not system or who == by and (author not in (None, who) or self.full and not author)

    def needs(self, kind, obj, said):
        """What always needs two, as far as the record itself says."""
        if kind == LEVEL:               # "default" may be any
            before, between, after = (said.get(0x113, b"").partition(b" -> "))
            return obj.count("/") == 1 and before in LEVELS and after in LEVELS and LEVELS.index(after) < LEVELS.index(before)
        if kind == RETENTION:           # 0: no end
            before, self.days = self.days, struct.unpack(">QQ", said[0x10F]) if len(said.get(0x10F, b"")) == 16 else ()
            return bool(before and self.days and (self.days[0] < before[0] or 0 < self.days[1] < before[1]))
        return kind in (HOLD_RELEASE, PRUNE, ERASE) or kind == POLICY and self.freed

    def change(self, ts, one):
        self.one, self.full = one, self.full or len(self.changes) >= 4096
        self.changes += [] if self.full else [(ts, one)]

    def policy(self, kind, obj, said, ts):
        if kind == COMMIT:
            word, self.first = said.get(0x12F), ts if self.first is None and 0x12F in said else self.first
            if self.first is None or word is None or len(word) != 2:
                return self.first is None
            good = (self.one or word[0] != 1) and (not self.wait or word[1] == 1)
            self.wait = self.wait or word[1] == 1       # it may ask for more: a start does not believe what is unsigned
            if self.one and word[0] != 1:
                self.change(ts, False)
            return good
        self.freed = self.wait and obj == "approval/versions/free"
        self.wait = {"approval/versions/required": True, "approval/versions/free": False}.get(obj, self.wait)
        if obj in ("approval/policy/one", "approval/policy/two"):
            self.change(ts, obj == "approval/policy/one")
        return True

    def good(self, system, kind, obj, said, ts):
        who = self.text(said, 0x113).split(":")[0].split(" (cli)")[0]
        word, _, number = obj.partition("/")
        number = int(number) if word == "approval" and number.isascii() and number.isdigit() and len(number) < 19 else 0
        if system:
            self.last, self.stepped = max(self.last, ts), self.stepped or kind == CLOCK_STEP
        if kind in (REQUEST, GRANT) and not system:
            return True
        if kind == REQUEST and number:
            return self.request(number, who, said, ts)
        if kind == REQUEST:
            self.full = self.full or len(self.versions) >= 1 << 18
            self.versions.update({} if self.full else {(obj, said.get(0x101)): who})
            return True
        if kind == GRANT:
            return self.grant(number, who, said, ts)
        if kind == ADMIN and number:
            return self.use(number, said, ts)
        return (not system or kind not in (COMMIT, POLICY) or self.policy(kind, obj, said, ts)) and \
            self.claim(system, kind, who, obj, said, ts)

    def record(self, origin, row, obj):
        kind = row["kind"]
        if self.log != row["log"]:
            self.log, self.days = row["log"], ()
        if not isinstance(kind, int) or kind < 1201 or not isinstance(row["ext"], bytes) and kind != CLOCK_STEP:
            return
        try:
            said = fields(row["ext"] or b"")
            again = kind == ERASE and row["actor"] == BY_SYSTEM and 0x106 not in said
            self.again = self.again or again            # because keys.db said so, which nobody signs
            good = again or self.good(row["log"] == 1, kind, obj(row["obj"]), said, row["ts"] if isinstance(row["ts"], int) else 0)
        except (ValueError, struct.error):
            good = False
        if not good:
            self.found("APPROVAL", origin, row["idx"])

    def finish(self):
        if self.full:
            self.found("NOT_CHECKED", detail="more approvals than their check keeps in mind")
        if self.unsaid:
            self.found("NOT_CHECKED", detail="deeds from before records said which policy was in force name nobody")
        if self.again:
            self.found("NOT_CHECKED", detail="what keys.db called erased went again: by whose leave is not on record")


# --- the store

class Findings:
    """What is told, and how much was looked at."""

    def __init__(self):
        self.findings, self.sums, self.records, self.logs = [], {}, 0, 0
        self.bad = self.gaps = 0

    def found(self, code, origin="-", idx=None, detail="", gap=None, last=None, alone=False):
        """Neighbours of one kind in one log are one finding, unless each stands alone."""
        run = None if alone else self.sums.get((code, origin))
        last = idx if last is None else last
        if idx is not None and run and run[3] == idx - 1:
            run[3] = last
            return
        finding = [code, origin, idx, last, detail, code in GAPS if gap is None else gap]
        self.gaps, self.bad = self.gaps + finding[5], self.bad + (not finding[5])
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(finding)
            if not alone:
                self.sums[code, origin] = finding

    def tell(self, unpinned=False):
        """A line for each finding and one for the sum; the exit status."""
        for code, origin, first, last, detail, _ in self.findings:
            print(code, safe(origin), *([first] if first == last else [first, last]) if first is not None else [], safe(detail))
        return self.sum(unpinned)

    def sum(self, unpinned=False):
        word, status = next((word, status) for word, status, true in (
            ("DAMAGED", 4, self.bad), ("UNPINNED", 3, unpinned), ("INCOMPLETE", 5, self.gaps), ("INTACT", 0, True)) if true)
        return status, f"{word} {self.records} records of {self.logs} logs: {self.bad} bad, {self.gaps} gaps"


class Commit:
    """A logs.commit of form 2: one root for all of its logs, whose leaves are made as these are read."""

    def __init__(self, idx, epoch, said, root):
        self.idx, self.epoch, self.said, self.root = idx, epoch, said, root
        self.leaves, self.newest = [None] * len(said), len(said)        # newest: of so many logs the newest one of its epoch

    def give(self, at, root):
        self.leaves[at] = head_leaf(*self.said[at], root)

    def fits(self):
        tree = Tree()
        for leaf in self.leaves:
            tree.append(leaf)
        return tree.root() == self.root


class Verifier(Findings):
    def __init__(self, db, keys=None, state=None, anchors=(), payload_keys=None, range=None, folder=None):
        super().__init__()
        self.range = range              # of each log, these records alone
        self.db, self.entries, self.folder = db, {}, folder     # folder: where sealed files lie, below
        self.ended = set()              # logs that were not read to their end, for lack of a sealed file
        self.keys, self.state, self.anchors = keys, state, anchors
        self.epochs, self.instance, self.stopped, self.life = [], None, False, None
        self.payload_keys, self.unread = payload_keys, False     # unread: by a foreign schema
        self.pinned, self.shut = False, 0       # is a key of the chain from outside; what was not opened for lack of keys
        self.kept = {}                  # of the log that was read: kind -> {index: ext, prn} of holds and periods
        self.intents = {}               # of the log that was read: prunes and erasures that have not ended
        self.receipts = []              # records anchor.receipt
        self.gone, self.restores = {}, set()    # origin -> rows of succession by their n; what records store.restore say
        self.commits, self.commits_many = [], 64        # of form 2, those that are needed; when to look which are
        self.newest = {}                # log -> size, root or Commit of what the newest logs.commit says
        self.signed = []                # size, epoch of each checkpoint of the system log
        self.outsiders = {}             # origin -> largest size of which somebody outside has the same root
        self.last = None                # kind of the last record of the system log
        self.said = {}                  # (kind, id) of a row -> time, log, index, digest: the newest record of it
        self.changed = self.adopted = 0         # times of the first change, of the last record that took rows as they were
        self.spoken, self.spoken_before, self.vouch = set(), set(), -2  # kinds that have records; before the last VOUCH; its end
        self.since = 0                  # when rows that are older were taken as they were
        self.adopted_rows = set()              # (kind, id) of rows that were taken as they were
        self.tombs = {}                 # of the log that was read: index -> index, from, to, keys, done
        self.places = {}                # the same by what they erase: an index, a key, a longer range
        self.two = Approvals(self.found)
        self.wanted = {}                # origin -> {size: [(code, root, detail)]}: roots that others vouch for

    def want(self, origin, size, code, root, detail=""):
        self.wanted.setdefault(origin, {}).setdefault(size, []).append((code, root, detail))

    def entry(self, number):
        if number not in self.entries:
            if len(self.entries) > 1 << 16:
                self.entries.clear()
            self.entries[number] = self.db.execute("SELECT kind, text, typeof(text) FROM dict WHERE id = ?", (number,)).fetchone()
        return self.entries[number]

    def object(self, number):
        entry = self.entry(number) if isinstance(number, int) and number < 1 << 63 else None
        return entry[1] if entry and isinstance(entry[1], str) else ""

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
        leaf = leaf_hash(out)
        if row["leaf"] is not None and row["leaf"] != leaf:
            self.found("LEAF", origin, row["idx"])
        return leaf

    def pair(self, origin, row, running, first):
        who = tuple(row[name] for name in ("cred", "prn", "tool"))
        if len(running) >= RUNNING_MAX:
            if RUNNING_MAX not in running:
                self.found("NOT_CHECKED", origin, detail="more begins without an end than this program keeps in mind")
            running[RUNNING_MAX] = None, None, None
        elif row["kind"] == BEGIN and row["call"] is not None and row["call"] not in running:
            running[row["call"]] = (row["idx"], who, row["ts"])
        elif row["kind"] in (END, RECOVERED):
            pruned = row["beg"] is not None and row["beg"] < first
            if running.pop(row["call"], (None,) * 3)[:2] != (row["beg"], who) and not pruned:
                self.found("PAIRING", origin, row["idx"])
        elif row["kind"] == BEGIN:
            self.found("PAIRING", origin, row["idx"])

    def task(self, origin, row, tasks, first):
        """Each has one record that begins it, and at most one that ends it."""
        try:
            said = fields(row["ext"] or b"")
        except (ValueError, struct.error):
            return
        name, state = said.get(0x119), said.get(0x11a)
        tasks[None] = max(tasks.get(None, 0), row["ts"] if isinstance(row["ts"], int) else 0)
        if name is None:
            return
        idx, ended, phase = tasks.get(name, (None, 0, None))
        if row["kind"] == BEGIN:
            phase = "runs"
        elif row["kind"] == END and row["outcome"] == INPUT_REQUIRED:
            phase = "asks"
        elif row["kind"] in (TASK_INPUT, TASK_RERUN, END) and phase:
            phase = "answered"
        if row["kind"] == TASK_CREATE:
            if name in tasks:
                self.found("TASK", origin, row["idx"])
            else:
                tasks[name] = row["idx"], 0, "runs"
        elif state is not None and len(state) == 1:
            idx = row["idx"] if idx is None and first else idx
            if idx is None or ended:
                self.found("TASK", origin, row["idx"])
            else:
                tasks[name] = idx, state[0], phase
        elif name in tasks:
            tasks[name] = idx, ended, phase

    def task_rows(self, origin, tenant, tasks, first):
        """What has ended by its row has its end on record, what has not has none; a row that has changed since the last record
        is another matter."""
        newest, rows = tasks.pop(None, 0), set()
        if tenant:
            for name, state, updated in self.db.execute("SELECT tid, state, updated_us FROM task WHERE tenant_id = ?", (tenant,)):
                name = str(name).encode(errors="replace")
                rows.add(name)
                idx, ended, phase = tasks.get(name, (None, 0, None))
                wrong = not first if idx is None else ended != state if ended else phase not in TASK_STATES.get(state, (phase,))
                if wrong and (not isinstance(updated, int) or updated <= newest):
                    self.found("TASK", origin, idx, "a row that is not what its records say")
        for idx in sorted(idx for name, (idx, ended, _) in tasks.items() if not ended and name not in rows):
            self.found("TASK", origin, idx)

    def assent(self, origin, row, assents, first):
        """Each is filed once, then agreed to, then used, refused, lapsed or recalled, once; of what stands in its records."""
        try:
            said = fields(row["ext"] or b"").get(0x11d)
        except (ValueError, struct.error):
            return
        if said is None:
            return
        number, digest, to, kind = said[:8], said[8:40], said[-1] if said else 0, row["kind"]
        known = assents.get(number) if len(said) == 41 else None
        if len(said) != 41:
            self.found("ASSENT", origin, row["idx"])
            return
        if known:
            fits = (known["state"], to, kind) in ASSENTS and known["digest"] == digest
        else:
            fits = to == 1 if kind == HELD else bool(first)
            known = assents[number] = {"idx": row["idx"], "digest": digest, "yes": 0, "cut": kind != HELD}
        known["state"] = to
        known["yes"] += kind == APPROVED
        if not fits:
            self.found("ASSENT", origin, row["idx"])

    def assent_rows(self, origin, tenant, assents, first, newest):
        """A row is so far as its records say, of the same digest, and as many as its rule asks for have agreed."""
        rows = set()
        query = "SELECT id, state, digest, coalesce(decided_us, asked_us), rule FROM assent WHERE tenant_id = ?"
        for number, state, digest, changed, rule in self.db.execute(query, (tenant,)) if tenant else ():
            name = struct.pack(">q", number)
            rows.add(name)
            known = assents.get(name)
            if isinstance(changed, int) and changed > newest:
                continue
            try:
                need = json.loads(rule).get("count", 1)
            except (ValueError, TypeError, AttributeError):
                need = 1
            wrong = not first if known is None else (known["state"], known["digest"]) != (state, digest) or (
                state in (2, 5) and not known["cut"] and known["yes"] < need)
            if wrong:
                self.found("ASSENT", origin, known["idx"] if known else None, "a row that is not what its records say")
        for idx in sorted(known["idx"] for name, known in assents.items() if known["state"] <= 2 and name not in rows):
            self.found("ASSENT", origin, idx)

    def may_run(self, ts):
        """Of a call without an end: it runs, when it began after the last start and no stop or crash came since."""
        return self.life is not None and self.life[0] == START and ts is not None and ts >= self.life[1]

    # --- checkpoints

    def chain(self):
        """The keys of the epochs, each certified by the one before; those that are pinned are the pinned ones."""
        for n, key, cert in self.db.execute("SELECT n, pk, cert FROM epoch ORDER BY n"):
            at = len(self.epochs)
            pin = self.keys.get(f"{self.instance}/e/{at}") if self.keys else None
            good = n == at and isinstance(key, bytes) and len(key) == 32 and pin in (None, key) and (
                cert is None if at == 0 else isinstance(cert, bytes) and
                signed_by(self.epochs[-1], b"epoch" + struct.pack(">Q", at) + key, cert))
            if not good:
                self.found("KEYCHAIN", detail=f"epoch {at} does not follow from the one before, or is not the pinned one")
                break
            self.pinned |= pin is not None
            self.epochs.append(key)
        if self.keys and not self.pinned:
            self.found("KEYCHAIN", detail="the store has no epoch of which a key is pinned")

    def note(self, number, origin, size, epoch, data):
        """A stored note, if it is good."""
        try:
            note = Note(data)
            log_key = self.keys and self.keys.get(self.instance)
            good = (self.is_name(note.origin, origin, size) and note.size == size and 0 <= epoch < len(self.epochs) and
                    note.signed_by(f"{self.instance}/e/{epoch}", self.epochs[epoch]) and
                    (not log_key or note.signed_by(note.origin, log_key)))
        except (ValueError, TypeError):
            good = False
        if not good:
            self.found("CP_SIG", origin, size)
        return note if good else None

    def checkpoints(self, number, origin, noted):
        """What the notes of a log say, up to the newest there was; the size that the newest one covers."""
        newest, last, seen, bad = 0, -1, set(), 0
        for size, epoch, data in self.db.execute("SELECT size, epoch, note FROM cp WHERE log = ? AND size <= ? ORDER BY size",
                                                  (number, noted)):
            if bad > BAD_NOTES_MAX or not isinstance(size, int) or not isinstance(epoch, int):
                self.found("PARSE", origin, detail="a checkpoint whose size or epoch is no number, or many that are not good")
                break
            note = self.note(number, origin, size, epoch, data)
            bad += note is None
            if epoch < last:
                self.found("CP_ORDER", origin, size)
            last = max(last, epoch)
            seen.add(epoch)
            if number == 1:
                self.signed.append((size, last))
            if note:
                newest = max(newest, size)
                self.want(origin, size, "ROOT", note.root)
        if origin == self.instance and self.epochs:
            lost = (range(row[5], row[6] + 1) for rows in self.gone.values() for row in rows.values())
            for n in set(range(len(self.epochs))).difference(seen, *lost):
                self.found("EPOCH_GAP", origin, detail=f"epoch {n}")
        return newest

    # --- logs that went on behind a restore

    def names(self):
        """Rows of succession: where a log goes on under its next name, and how much was signed of it before."""
        for origin, *row in self.db.execute("SELECT origin, n, size, root, lost, lost_root, epoch_from, epoch_to, idx FROM succession"):
            if not (isinstance(origin, str) and all(isinstance(row[at], int) and row[at] >= 0 for at in (0, 1, 3, 5, 6, 7)) and
                    all(isinstance(row[at], bytes) and len(row[at]) == 32 for at in (2, 4)) and 0 < row[0] and row[1] <= row[3]):
                self.found("REGISTRY", origin, detail="a row of succession that no release writes")
                continue
            self.gone.setdefault(origin, {})[row[0]] = row
            self.found("RESTORED", origin, row[1], f"signed, and lost by a restore: the log goes on as {origin}/r/{row[0]}", last=max(row[3] - 1, row[1]))

    def ends(self, name):
        """The row that began a name, and the one that ended it."""
        origin, number = of_log(name)
        rows = self.gone.get(origin, {})
        return rows.get(number), rows.get(min((n for n in rows if n > number), default=None))

    def is_name(self, name, origin, size):
        """Whether a checkpoint of this size may bear that name."""
        begun, ended = self.ends(name)
        return (of_log(name)[0] == origin and (of_log(name)[1] == 0 or begun is not None and size >= begun[1]) and
                (ended is None or size <= ended[1]))

    def said_outside(self, name, size, root, code):
        """What somebody outside has seen signed: of the tree as it is, of what was lost, or of neither."""
        begun, ended = self.ends(name)
        origin, number = of_log(name)
        known = number == 0 or begun is not None
        if known and (ended is None or size <= ended[1]):
            if size > 0:
                self.want(origin, size, code, root)
        elif ended is None or size > ended[3] or size == ended[3] and ended[0] == number + 1 and root != ended[4]:
            self.found(code, origin, size, f"records were signed that are not there, as {name}")

    def restored(self, row):
        """A record store.restore."""
        try:
            said = fields(row["ext"] or b"")[0x118]
            n, size, lost, first, last, root, lost_root = struct.unpack(">5Q32s32s", said[:104])
            origin = said[104:].decode()
        except (KeyError, TypeError, ValueError, struct.error):
            self.found("PARSE", self.instance, row["idx"])
            return
        if self.gone.get(origin, {}).get(n) != [n, size, root, lost, lost_root, first, last, row["idx"]] or origin == self.instance and row["idx"] < size:
            self.found("REGISTRY", self.instance, row["idx"])
        self.restores.add((origin, n))

    def unrestored(self, first):
        """Rows that no record made; of what was pruned nobody can tell."""
        for origin, rows in self.gone.items():
            for n, row in rows.items():
                if (origin, n) not in self.restores and row[7] >= first:
                    self.found("REGISTRY", origin, detail="a row of succession that no record knows")

    def outside(self):
        """What the signer and the anchors have seen."""
        if self.state:
            for line in self.state.split("\n"):
                word = line.split(" ")
                if word[0] == "log" and (int(word[1]) > 0 or of_log(word[3])[1]):
                    self.said_outside(word[3], int(word[1]), bytes.fromhex(word[2]), "SIGNER_AHEAD")
        for text in self.anchors:
            note, key = Note(text), self.keys and self.keys.get(self.instance)
            signers = [(f"{self.instance}/e/{n}", k) for n, k in enumerate(self.epochs)] if self.pinned else []
            signers = [(note.origin, key)] if key else [who for who in signers if who[0] in {s[0] for s in note.signatures}]
            if not self.pinned and not key:
                self.found("NOT_CHECKED", note.origin, detail="who signed the checkpoint from outside: no key was pinned")
            elif not any(note.signed_by(*who) for who in signers):
                self.found("ANCHOR", note.origin, detail="the checkpoint from outside is not signed by the log's key")
            self.said_outside(note.origin, note.size, note.root, "ANCHOR")

    def commit(self, origins, row):
        """logs.commit: heads of the other logs; each with its root, or all with one, which has to wait for them."""
        idx, place = row["idx"], f"record {row['idx']} of {self.instance}"
        try:
            said = fields(row["ext"] or b"")
            heads, all_heads = said.get(0x10A, b""), said.get(0x117)
            if len(heads) % 44 or heads and all_heads is not None:
                raise ValueError("heads")
            entries, root = said_heads(all_heads) if all_heads is not None else ([], None)
        except (ValueError, struct.error):
            self.found("PARSE", self.instance, idx)
            return
        good = True
        for at in range(0, len(heads), 44):
            number, size, root = struct.unpack(">IQ32s", heads[at:at + 44])
            last, before = self.newest.get(number, (0, root))
            good = good and (size > last or size == last and (isinstance(before, Commit) or before == root))
            self.newest[number] = size, root
            if number not in origins:
                self.found("LOG_MISSING", self.instance, idx, f"log {number}")
            else:
                self.want(origins[number], size, "CROSS_REF", root, place)
        if entries:
            at = bisect.bisect(self.signed, (idx + 1,))
            made = Commit(idx, self.signed[at][1] if at < len(self.signed) else None, entries, root)
            for number, size in entries:
                last, before = self.newest.get(number, (0, None))
                good = good and size >= last
                if isinstance(before, Commit) and before.epoch == made.epoch:
                    before.newest -= 1
                self.newest[number] = size, made
            self.commits.append(made)
            if len(self.commits) > self.commits_many:
                self.commits = [commit for commit in self.commits if commit.newest]
                self.commits_many = 2 * len(self.commits) + 64
        if not good:
            self.found("CROSS_REF", self.instance, idx, "it contradicts the commit before")

    def say(self, origins):
        """The system log was read: what commits of form 2 want of the others."""
        self.commits = [commit for commit in self.commits if commit.newest]
        for commit in self.commits:
            for at, (number, size) in enumerate(commit.said):
                if number not in origins:
                    self.found("LOG_MISSING", self.instance, commit.idx, f"log {number}")
                else:
                    self.want(origins[number], size, "CROSS_REF", (commit, at), f"record {commit.idx} of {self.instance}")

    def roots(self, firsts):
        """All logs were read: the roots of those commits.  What was pruned since has its root from a note, if there is one: that
        the others fit proves it."""
        for commit in self.commits:
            for at, (number, size) in enumerate(commit.said):
                if commit.leaves[at] is None and size < firsts.get(number, 0):
                    for data, in self.db.execute("SELECT note FROM cp WHERE log = ? AND size = ?", (number, size)):
                        try:
                            commit.give(at, Note(data).root)
                        except (TypeError, ValueError):
                            pass
            if None not in commit.leaves and not commit.fits():
                self.found("CROSS_REF", self.instance, commit.idx, "it commits other roots than its logs have")

    # --- what records commit to

    def tomb(self, row):
        """A record of an erasure, or of its end."""
        idx = row["idx"]
        try:
            found = fields(row["ext"] or b"")
            if row["kind"] == ERASE:
                start, end = struct.unpack(">QQ", found.get(0x102, bytes(16)))
                keys = {("key", key) for key, in struct.iter_unpack(">Q", found.get(0x103, b""))}
                tomb = self.tombs[idx] = [idx, start, end, keys, None]
                small = range(start, end) if not (start, end) == (0, idx) and end - start <= 16 else ()
                for place in (*keys, *(small or (("range",) if start < end else ()))):
                    if len(self.places.setdefault(place, [])) == TOMBS_MAX:
                        self.found("NOT_CHECKED", detail=f"more than {TOMBS_MAX} erasures of the same, or of many records")
                    else:
                        self.places[place].append(tomb)
            else:
                intent = self.tombs.get(struct.unpack(">IQ", found[0x116])[1])
                if intent:
                    intent[4] = idx
        except (KeyError, ValueError, struct.error):
            pass                        # whatever it erased is missing then

    def erased(self, idx, key, done=False):
        """done: so that nothing may be left.  What calls wrote between the record and its end is lost with the keys."""
        for place in (idx, ("key", key), "range"):
            for at, start, end, keys, until in self.places.get(place, ()):
                last = idx + 1 if until is None else until
                to = last if (start, end) == (0, at) and not keys and not done else min(end, at)
                if (until is not None or not done) and (start <= idx < to or idx < last and ("key", key) in keys):
                    return True
        return False

    def payload(self, origin, tenant, row):
        """The finding on what is kept of a record."""
        idx, cm, sh, stored, key, there, salt, nonce, ct = row
        if cm is None:
            return "PAYLOAD_EXTRA" if there is not None else None
        if there is None:
            return None if self.erased(idx, key) else "PAYLOAD_MISSING"
        if self.erased(idx, key, True):
            return "ERASED_BUT_PRESENT"
        if len(salt) != 16 or sh and hashlib.sha256(b"toolcrib/s/1\0" + salt).digest()[:16] != sh:
            return "PAYLOAD"
        if not stored:
            return "PAYLOAD" if ct is not None or not sh else None
        if nonce is None or ct is None:
            return "PAYLOAD_MISSING"
        if not self.payload_keys:
            self.shut += 1
            return None
        secret = self.payload_keys.find(tenant, key)
        if not secret:
            return None if self.erased(idx, key) else "KEY_MISSING"
        place = b"toolcrib/p/1\0" + salt + struct.pack(">QQ", idx, key) + origin.encode()
        values, wanted = decrypt(mac(secret, b"toolcrib/e/1\0"), nonce, place, ct), commitments(cm)
        values = fields(values) if values else {}
        good = sum(map(len, values.values())) == stored and (sh or len(values) == len(wanted)) and all(
            opens(secret, salt, origin, idx, ctag, value, wanted.get(ctag)) for ctag, value in values.items())
        return None if good else "PAYLOAD"

    def payloads(self, number, origin, tenant, first, size):
        for row in self.db.execute(f'SELECT r.idx, r.cm, r.sh, r.n_sto, r."key", p.rec, p.salt, p.nonce, p.ct FROM {TAIL} r '
                                   "LEFT JOIN pay p ON p.rec = r.id WHERE r.log = ? AND r.idx >= ? AND r.idx < ? ORDER BY r.span, r.idx",
                                   (number, max(first, self.forms.line), size)):
            self.kept_of(origin, tenant, row)

    def kept_of(self, origin, tenant, row):
        try:
            code = self.payload(origin, tenant, row)
        except (ValueError, TypeError, struct.error):
            code = "PAYLOAD"
        if code:
            self.found(code, origin, row[0])

    def alias(self, origin, tenant, row):
        """Whether a pseudonym is the one of its record, and of whom that says."""
        name, kind, idx, key, nonce, ct, person = row
        record = self.forms.record(idx)
        if not record or record["kind"] != ALIAS or name != self.object(record["obj"]) or key != record["key"]:
            return False
        (ctag, commitment), = commitments(record["cm"]).items()
        secret = self.payload_keys and self.payload_keys.find(tenant, key)
        if ctag != {1: 4, 2: 4, 3: 3, 4: 5}.get(kind):
            return False
        if not secret:
            self.shut += not self.payload_keys
            if self.payload_keys and not self.erased(idx, key):
                self.found("KEY_MISSING", origin, idx)
            return True
        place = b"toolcrib/a/1\0" + struct.pack(">QQ", kind, key) + origin.encode() + b"\0" + name.encode()
        value = decrypt(mac(secret, b"toolcrib/e/1\0"), nonce, place, ct)
        return value is not None and opens(secret, self.forms.salt(idx), origin, idx, ctag, value, commitment) and \
            person in (None, value.decode())

    def aliases(self, number, origin, tenant, first, size):
        rows = self.db.execute('SELECT a.name, a.kind, a.idx, a."key", a.nonce, a.ct, n.name FROM alias a '
                               "LEFT JOIN principal n ON n.pseudonym = a.name AND n.tenant_id = ? AND a.kind = 1 "
                               "WHERE a.log = ? ORDER BY a.idx", (tenant, number))
        for row in rows:
            try:
                good = row[2] < first or self.alias(origin, tenant, row)
            except (ValueError, TypeError, AttributeError, struct.error):
                good = False
            if not good:
                self.found("ALIAS", origin, detail=row[0])
        gone = set()
        for row in self.forms.of_kinds(ALIAS):
            idx, name = row["idx"], self.object(row["obj"])
            if idx >= size or self.db.execute("SELECT 1 FROM alias WHERE log = ? AND idx = ? AND name = ?", (number, idx, name)).fetchone():
                continue
            if self.erased(idx, row["key"]):
                gone.add(name)
            else:
                self.found("ALIAS", origin, idx)
        # Each tenant begins with a principal of that name, whom no record need have named.
        for pseudonym, in self.db.execute("SELECT pseudonym FROM principal n WHERE tenant_id = ? AND name <> 'default' AND "
                                          "NOT EXISTS (SELECT 1 FROM alias a WHERE a.name = n.pseudonym)", (tenant,)):
            if not first and pseudonym not in gone:
                self.found("NOT_CHECKED", origin, detail="a principal whose name no record has said")

    # --- rows of the registry

    def rows_of(self, number, idx, kind, time, ext):
        """What a record says of rows."""
        if not (1201 <= kind <= QUARANTINE or 1908 <= kind <= 1909 or kind in (OPEN, ADMIN, START, REVIEWED, RATED, SYSTEM)) or not isinstance(ext, bytes):
            return
        try:
            found = fields(ext)
            keys, digests = found.get(0x103, b""), found.get(0x10C, b"")
        except (ValueError, struct.error):
            return
        if len(keys) % 8 or len(keys) * 4 != len(digests):
            keys = b""
        keys = [(key >> 48, key & (1 << 48) - 1) for key, in struct.iter_unpack(">Q", keys)]
        if kind in (START, VOUCH) and number == 1:
            self.took(idx, kind, time, {row[0] for row in keys}, found.get(0x128, b""))
        elif keys and kind not in (OPEN, START, VOUCH):
            self.changed = min(self.changed or time, time)
        for at, row in enumerate(keys):
            before = self.said.get(row)
            if not before or time >= before[0] or before[1] == number:
                self.said[row] = time, number, idx, digests[32 * at:32 * at + 32]
                (self.adopted_rows.add if kind == VOUCH else self.adopted_rows.discard)(row)

    def took(self, idx, kind, time, kinds, known):
        """A record that took rows as they were: once of each kind, at the first start that knows the kind."""
        if kind == VOUCH and idx != self.vouch + 1:
            self.spoken_before = set(self.spoken)
        if kinds & (self.spoken_before if kind == VOUCH else self.spoken):
            self.found("REGISTRY", self.instance, idx, "took rows as they were, though there were records of them")
        if any(number < LATER for number in kinds):
            self.adopted = max(self.adopted, time)
        if kind == VOUCH and kinds and self.changed and self.changed < time:
            self.since = time
        if kind == VOUCH:
            self.vouch = idx
            self.spoken |= {number for number, in struct.iter_unpack(">H", known[:len(known) // 2 * 2])}

    def same_text(self, number):
        """Whether the digest of a version that was taken as it was is that of its definition; numbers are compared by nobody."""
        for digest, text in self.db.execute("SELECT digest, definition FROM tool_version WHERE id = ?", (number,)):
            try:
                doc = json.loads(text, parse_float=self.no_number)
            except ArithmeticError:
                self.found("NOT_CHECKED", detail=f"version/{number} has a fraction in it")
                return True
            except (ValueError, TypeError, RecursionError):
                return False
            text = json.dumps(doc, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() == digest
        return True

    @staticmethod
    def no_number(text):
        raise ArithmeticError(text)

    def registry(self, firsts, sizes):
        for number, size in sizes.items():      # what came since
            for row in self.db.execute(f"SELECT log, idx, kind, ts, ext FROM {AT} WHERE log = ? AND idx >= ? ORDER BY span, idx",
                                       (number, size)):
                self.rows_of(*row)
        if self.changed and self.adopted > self.changed:
            self.found("REGISTRY", detail="a start took rows as they were, though there were records of them")
        if self.db.execute("SELECT value FROM meta WHERE key = 'instance'").fetchone() != (self.instance,):
            self.found("REGISTRY", detail="meta/instance is not the name of the system log")
        unvouched = set()
        for kind, (name, columns) in ROWS.items():
            for log, idx, number, *values in self.db.execute(f"SELECT {PLACES.get(kind, 'rec_log, rec_idx')}, {columns}"):
                text = b"TCRR\1" + struct.pack(">H", kind)
                for tag, value in enumerate((number, *values), 1):
                    if value is not None:
                        value = struct.pack(">q", value) if isinstance(value, int) else \
                            value if isinstance(value, bytes) else str(value).encode()
                        text += struct.pack(">HI", tag, len(value)) + value
                said = self.said.pop((kind, number), None)
                if kind >= LATER and kind not in self.spoken and not said and idx is None:
                    unvouched.add(name)
                elif not said and idx is not None and 0 <= idx < firsts.get(log, 0):
                    self.found("NOT_CHECKED", detail=f"the record of {name}/{number} was pruned")
                elif log in self.files and self.files[log].files.away and (not said or said[1:3] != (log, idx)):
                    self.found("NOT_CHECKED", detail=f"the record of {name}/{number} may be in a file that is away")
                elif not said or said[1:] != (log, idx, hashlib.sha256(text).digest()):
                    self.found("REGISTRY", detail=f"{name}/{number}")
                if (kind, number) in self.adopted_rows and name == "version" and not self.same_text(number):
                    self.found("REGISTRY", detail=f"{name}/{number} has not the digest of its definition")
        if unvouched:
            self.found("NOT_CHECKED", detail=f"no start of this release has vouched for rows yet: {', '.join(sorted(unvouched))}")
        for (kind, number), (*_, digest) in self.said.items():
            if digest != bytes(32) and kind in ROWS:
                self.found("REGISTRY", detail=f"{ROWS[kind][0]}/{number} is missing")

    def whose(self, origin, tenant, row):
        """log.open says whose log it is; the log of an older release has it from registry.vouch."""
        try:
            said = fields(row["ext"] or b"").get(0x129)
        except (ValueError, struct.error):
            return
        if said and (len(said) < 8 or struct.unpack(">Q", said[:8])[0] != tenant):
            self.found("REGISTRY", origin, row["idx"], "the log is another tenant's")

    # --- one log

    def cut(self, origin, first):
        """The tree of what was pruned, from the record that says so."""
        if first == 0:
            return Tree()
        for row in self.forms.of_kinds(PRUNE, backwards=True):
            try:
                found = fields(row["ext"])
                start, end = struct.unpack(">QQ", found[0x102])
                peaks = [found[0x109][at:at + 32] for at in range(0, len(found[0x109]), 32)]
                tree = Tree(first, peaks)
                if end == first and first % 256 == 0 and len(peaks) == bin(first).count("1") and tree.root() == found[0x108]:
                    return tree
            except (KeyError, TypeError, ValueError, struct.error):
                continue
        self.forms.files.miss()
        self.found("GAP", origin, 0, f"no record says that {first} records were pruned")
        return None

    def compare(self, origin, tree):
        for code, root, detail in self.wanted.get(origin, {}).pop(tree.size, ()):
            if isinstance(root, tuple):
                root[0].give(root[1], tree.root())
            elif root != tree.root():
                self.found(code, origin, tree.size, detail)
            elif code in ("ANCHOR", "SIGNER_AHEAD"):
                self.outsiders[origin] = max(self.outsiders.get(origin, 0), tree.size)

    def log(self, number, origin, size, root, first, here, origins, tenant, said):
        self.forms = self.files.get(number) or Forms(self, number, origin, first, tenant)
        self.logs += 1
        try:
            return self.whole_log(number, origin, size, root, first, here, origins, tenant, said)
        except Unread as unread:
            self.ended.add(number)
            self.wanted.pop(origin, None)
            self.found("NOT_CHECKED", origin, detail=unread.args[0])
            return size

    def whole_log(self, number, origin, size, root, first, here, origins, tenant, said):
        tree, expected, running, tasks, assents = self.cut(origin, first), first, {}, {}, {}
        whole, met = tree is not None, False
        tree = tree or Tree()
        self.compare(origin, tree)
        self.tombs, self.places, self.intents, self.kept = {}, {}, set(), {HOLD_SET: {}, HOLD_RELEASE: {}, RETENTION: {}}
        forms = self.forms
        for row in forms.of_kinds(ERASE, ERASE_DONE):
            self.tomb(row)
        for row, leaf in forms.records(size):
            expected = max(expected, forms.unread)
            if row["idx"] > expected:
                self.found("GAP", origin, expected, last=row["idx"] - 1)
            expected = row["idx"] + 1
            tree.append(leaf)
            self.compare(origin, tree)
            if tree.size == said and not met:           # which lags behind while a server runs, or after it died
                met, at_head = True, tree.root()
            self.pair(origin, row, running, first)
            self.task(origin, row, tasks, first)
            self.assent(origin, row, assents, first)
            if number == 1:
                self.system(origins, row)
            self.keep(origin, row, first)
            if row["kind"] == OPEN:
                self.whose(origin, tenant, row)
            if row["kind"] in (SEAL, MOVE):
                forms.files.said(row)
            self.rows_of(number, row["idx"], row["kind"], row["ts"], row["ext"])
            self.two.record(origin, row, self.object)
            self.records += 1
        if here < size:
            self.found("TRUNCATED", origin, here, last=size - 1)
        if here > size:
            self.found("UNCOVERED_TAIL", origin, size, last=here - 1)
        expected = max(expected, forms.unread)
        if expected < min(size, here):
            self.found("GAP", origin, expected, last=min(size, here) - 1)
        self.assent_rows(origin, tenant, assents, first, tasks.get(None, 0))
        self.task_rows(origin, tenant, tasks, first)
        forms.opened(running)
        forms.files.all_said()
        for idx, _, ts in sorted(running.values(), key=lambda begun: begun[0] or 0):
            if idx is not None and not self.may_run(ts):
                self.found("DANGLING", origin, idx)
        if root is None:
            self.found("NOT_CHECKED", origin, detail="no tree yet")
        elif whole and root != (at_head if met else tree.root()):
            self.found("ROOT", origin)
        return min(size, here)

    # --- a part of each log

    def of_tiles(self, number, origin, size):
        """The tree of so many records, a multiple of 256, from hashes of whole tiles: nobody's word until a root fits."""
        def perfect(height, at):
            if height % 8 == 0:
                row = self.db.execute("SELECT hashes FROM tile WHERE log = ? AND level = ? AND n = ?", (number, height // 8, at >> 8)).fetchone()
                return (row[0] if row and isinstance(row[0], bytes) else b"")[32 * (at & 255):][:32]
            return node(perfect(height - 1, 2 * at), perfect(height - 1, 2 * at + 1))
        at, peaks = 0, []
        for height in reversed(range(8, 63)):
            if size >> height & 1:
                peaks.append(perfect(height, at >> height))
                at += 1 << height
        return Tree(size, peaks)

    def part(self, number, origin, size, first, tenant, start, end):
        """Records start to end of a log: that they are those that were signed, and what is kept of them."""
        start, end = max(first, start - start % 256), min(size, end)
        if start >= end:
            return
        self.forms = Forms(self, number, origin, first, tenant)
        self.logs += 1
        try:
            self.forms.files.check(start, end)
            self.whole_part(number, origin, first, tenant, start, end)
        except Unread as unread:
            self.found("NOT_CHECKED", origin, detail=unread.args[0])

    def whole_part(self, number, origin, first, tenant, start, end):
        tree = self.cut(origin, first) if start == first else self.of_tiles(number, origin, start)
        newest = max([at for at in self.wanted.get(origin, ()) if start < at <= end], default=start)
        self.tombs, self.places, expected, running = {}, {}, start, {}
        for row in self.forms.of_kinds(ERASE, ERASE_DONE):
            self.tomb(row)
        for row, leaf in self.forms.records(end, start):
            expected = max(expected, self.forms.unread)
            if row["idx"] > expected:
                self.found("GAP", origin, expected, last=row["idx"] - 1)
            expected = row["idx"] + 1
            tree = tree or Tree()
            tree.append(leaf)
            self.compare(origin, tree)
            self.pair(origin, row, running, start)
            self.records += 1
        if max(expected, self.forms.unread) < end:
            self.found("GAP", origin, expected, last=end - 1)
        if newest < end:
            self.found("NOT_CHECKED", origin, newest, "no checkpoint covers these records by themselves", last=end - 1)
        self.payloads(number, origin, tenant, start, end)

    def system(self, origins, row):
        """Records of the system log that others depend on."""
        self.last = row["kind"]
        if row["kind"] in (START, STOP, CRASH):
            since = fields(row["ext"] or b"").get(0x110, b"") if row["kind"] == START else b""
            self.life = (row["kind"], min(row["ts"], int.from_bytes(since, "big")) if len(since) == 8 else row["ts"])
        if row["kind"] == COMMIT:
            self.commit(origins, row)
        if row["kind"] == RESTORE:
            self.restored(row)
        if row["kind"] == RECEIPT:
            self.receipts.append((row["idx"], row["ts"], row["ext"]))

    # --- holds, periods, what is to be gone, what was taken outside

    def keep(self, origin, row, first):
        idx, kind = row["idx"], row["kind"]
        if kind in (PRUNE, ERASE):
            self.intents.add(idx)
        if kind in (PRUNE_DONE, ERASE_DONE):
            cause = fields(row["ext"] or b"").get(0x116, b"")
            intent = struct.unpack(">IQ", cause)[1] if len(cause) == 12 else None
            if intent in self.intents:
                self.intents.remove(intent)
            elif intent is None or intent >= first:
                self.found("PAIRING", origin, idx)
        if kind in self.kept:
            prn = self.entry(row["prn"]) if row["prn"] is not None else None
            self.kept[kind][idx] = fields(row["ext"] or b""), prn and prn[1]

    def vouched(self, origin, kind, idx, first, size):
        """What the record of a row says: (None, None) where there is none, or where it was pruned."""
        if isinstance(idx, int) and 0 <= idx < first:
            self.found("NOT_CHECKED", origin, detail=f"the record {idx} of a hold or period was pruned")
        elif idx in self.kept[kind]:
            return self.kept[kind].pop(idx)
        elif not (isinstance(idx, int) and idx >= size and
                  self.db.execute(f"SELECT 1 FROM log l CROSS JOIN {AT} r ON r.log = l.id WHERE l.origin = ? AND r.idx = ? AND r.kind = ?",
                                  (origin, idx, kind)).fetchone()):
            self.found("REGISTRY", origin, detail=f"a hold or period without its record {idx}")
        return None, None

    def retention(self, number, origin, first, size):
        """Rows of hold and retention against the records that made them; what was pruned is gone."""
        for at, released, *span, prn in self.db.execute(
                "SELECT set_by, released_by, from_idx, to_idx, prn FROM hold WHERE log = ?", (number,)):
            said, who = self.vouched(origin, HOLD_SET, at, first, size)
            if said is not None and (who != prn or span != list(struct.unpack(">QQ", said[0x102]) if 0x102 in said else (None, None))):
                self.found("REGISTRY", origin, at)
            if released is not None:
                self.vouched(origin, HOLD_RELEASE, released, first, size)
        for at, since, least, most in self.db.execute("SELECT set_by, from_idx, min_days, max_days FROM retention WHERE log = ?",
                                                      (number,)):
            said, _ = self.vouched(origin, RETENTION, at, first, size)
            if said is not None and (since != at or said.get(0x10F) != struct.pack(">QQ", least, most or 0)):
                self.found("REGISTRY", origin, at)
        for idx in sorted(idx for records in self.kept.values() for idx in records):
            self.found("REGISTRY", origin, idx)
        for idx in sorted(self.intents):
            self.found("DANGLING", origin, idx)
        for count, low, high in (*self.db.execute(f"SELECT count(*), min(idx), max(idx) FROM {AT} WHERE log = ? AND idx >= 0 AND idx < ?",
                                                  (number, first)),
                                 *self.db.execute("SELECT count(*), min(first), max(first + cnt - 1) FROM blk WHERE log = ? AND first < ?",
                                                  (number, first))):
            if count and not self.intents:
                self.found("ERASED_BUT_PRESENT", origin, low, "records that were pruned are still there", last=high)

    @staticmethod
    def receipt_fits(row, time, ext):
        number, kind, size, data, receipt, ts = row
        try:
            found, note = fields(ext), Note(data.rstrip(b"\n") + b"\n")
            same = found[0x110] == struct.pack(">q", ts) if 0x110 in found else abs(ts - time) <= RECEIPT_US
            return (found[0x111] == hashlib.sha256(data).digest() and found.get(0x112) == receipt and note.size == size and
                    same and kind == {b"file": 1, b"object": 3}.get(found[0x113], 2))
        except (KeyError, TypeError, ValueError, struct.error):
            return False

    def taken(self, first, size):
        """Each row of anchor has its record, in one order; of a log that was pruned the first have theirs no more."""
        rows, met = self.db.execute("SELECT id, kind, size, note, receipt, ts FROM anchor ORDER BY id"), first == 0
        for idx, time, ext in self.receipts:
            fits = next((fits for fits in (self.receipt_fits(row, time, ext) for row in rows) if fits or met), False)
            if not fits:
                self.found("REGISTRY", self.instance, idx)
            met = True
        since, = self.db.execute(f"SELECT count(*) FROM {AT} WHERE log = 1 AND kind = ? AND idx >= ?", (RECEIPT, size)).fetchone()
        if met and sum(1 for _ in rows) > since:
            self.found("REGISTRY", self.instance, detail="checkpoints taken outside that no record knows")

    # --- the end

    def uncovered(self, origin, covered, size):
        """Records that no checkpoint covers: there are some while a server runs and after a crash, none after a stop.  A start
        that is not signed is nobody's word: a server has it signed before it serves."""
        if covered < size:
            self.found("UNCOVERED_TAIL", origin, covered, gap=not self.stopped, last=size - 1)

    def leftover(self, firsts, ends):
        """Roots that no log had a tree to compare with: it is not there, too short, or has gaps, or they were pruned."""
        for origin, sizes in self.wanted.items():
            for size, wants in sizes.items():
                for code, _, detail in wants:
                    if origin not in firsts and code != "ROOT":
                        self.found("LOG_MISSING" if code in ("ANCHOR", "CROSS_REF") else code, origin,
                                   detail=f"a state at {size} was signed of a log that is not there")
                    elif origin in firsts and size > firsts[origin]:
                        short = code == "ROOT" and size > ends[origin]
                        self.found("TRUNCATED" if short else code, origin, size, detail)
                    elif code in ("ANCHOR", "SIGNER_AHEAD") and origin not in self.outsiders:
                        self.found("NOT_CHECKED", origin, detail=f"what a checkpoint from outside covers at {size} was pruned")

    def strays(self):
        """Records that stand nowhere in a log, so that no tree has them; rows of logs that are not there."""
        for log, count, low, high in self.db.execute(
                "SELECT log, count(*), min(idx), max(idx) FROM rec NOT INDEXED WHERE typeof(log) <> 'integer' OR idx < 0 OR "
                "typeof(idx) <> 'integer' OR typeof(kind) <> 'integer' OR typeof(ts) <> 'integer' GROUP BY log LIMIT ?", (FINDINGS_MAX,)):
            self.found("TYPE", detail=f"{count} records of log {log} have no place in it, or are of no kind: {low} to {high}")
        for table in ("rec", "head", "cp", "hold", "retention", "alias", "tile", "blk", "blkpay", "chap", "book", "open_call", "seg"):
            for (number,) in self.db.execute(f"SELECT DISTINCT log FROM {table} WHERE log NOT IN (SELECT id FROM log) LIMIT ?",
                                             (FINDINGS_MAX,)):
                self.found("LOG_MISSING", detail=f"rows of {table} of log {number}")

    def indexes(self):
        """Each index of rec has to have the rows that its condition takes."""
        for name, sql in self.db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'rec'").fetchall():
            where = re.search(r"\sWHERE\s.*$", sql or "", re.S)
            where = where[0] if where else ""
            try:
                here, there = (self.db.execute(f"SELECT count(*) FROM rec {how}{where}").fetchone()[0]
                               for how in ("NOT INDEXED", f"INDEXED BY {name}"))
            except sqlite3.Error:
                here, there = 0, 1
            if here != there:
                self.found("INDEX", detail=name)

    def order(self):
        """Rows are found by position span after span: each is in one, a position is there once, and those of a log ascend as they came."""
        for (row,) in self.db.execute("SELECT id FROM rec WHERE id >> 12 NOT IN (SELECT n FROM span) LIMIT 1"):
            self.found("INDEX", detail=f"row {row} is not found by its position: its span is missing")
        before = None, 0, 0
        for at in self.db.execute(f"SELECT l.id, r.idx, r.id FROM log l CROSS JOIN {AT} r ON r.log = l.id ORDER BY l.id, r.span, r.idx"):
            if at[0] == before[0] and (at[1] <= before[1] or at[2] <= before[2]):
                self.found("INDEX", detail=f"the row of record {at[1]} of log {at[0]} is there twice, or not in its place")
                break
            before = at

    def trusted(self):
        """Whether the schemas are a release's own, without which every statement may mean something else."""
        wrong = schema(self.db, STORE)
        if wrong:
            self.unread = True
            self.found(wrong[0], detail=wrong[1])
        if self.payload_keys and self.payload_keys.schema:
            self.found(self.payload_keys.schema[0], detail="keys.db: " + self.payload_keys.schema[1])
            self.payload_keys = None
        return not wrong

    def store(self):
        """All of it.  What stops this program is a value that no release writes."""
        if not self.trusted():
            return
        try:
            self.db.execute("BEGIN")    # one state of the store, whoever writes to it meanwhile
            self.look()
        except sqlite3.DataError as error:
            self.found("TYPE", detail=f"a value that is larger than any: {error}")
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error) as error:
            self.found("TYPE", detail=f"a value that no release writes: {type(error).__name__}: {error}")

    def look(self):
        for kind, text in self.db.execute(
                "SELECT kind, CAST(text AS TEXT) FROM dict NOT INDEXED GROUP BY kind, CAST(text AS BLOB) HAVING count(*) > 1"):
            self.found("DICT", detail=f"{text!r} of kind {kind} twice")
        for (name,) in self.db.execute("SELECT name FROM tenant WHERE id NOT IN "
                                       "(SELECT tenant_id FROM log WHERE tenant_id IS NOT NULL)"):
            self.found("LOG_MISSING", detail=f"tenant {name}")
        for (origin,) in self.db.execute("SELECT origin FROM log WHERE id NOT IN (SELECT log FROM head)"):
            self.found("LOG_MISSING", detail=f"head of {origin}")
        self.strays()
        said = self.db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if said != "ok":
            self.found("INDEX", detail=said)
        self.indexes()
        self.order()
        if self.db.execute("SELECT 1 FROM pay WHERE rec NOT IN (SELECT id FROM rec) LIMIT 1").fetchone():
            self.found("PAYLOAD_EXTRA", detail="payloads of records that are not there")
        logs = self.db.execute("SELECT l.id, l.origin, h.size, h.root, l.min_idx, coalesce(l.tenant_id, 0), "
                               f"max(coalesce((SELECT idx FROM {AT} WHERE log = l.id ORDER BY span DESC, idx DESC LIMIT 1), -1), "
                               "(SELECT coalesce(max(first + cnt), 0) - 1 FROM blk WHERE log = l.id), "
                               "coalesce((SELECT to_idx FROM seg WHERE log = l.id ORDER BY from_idx DESC LIMIT 1), 0) - 1), "
                               "(SELECT coalesce(max(size), 0) FROM cp WHERE log = l.id) FROM log l JOIN head h ON h.log = l.id "
                               "ORDER BY l.id LIMIT ?", (LOGS_MAX + 1,)).fetchall()
        if len(logs) > LOGS_MAX:
            self.found("NOT_CHECKED", detail=f"more than {LOGS_MAX} logs")
        for log in logs:
            if not (isinstance(log[1], str) and all(isinstance(log[at], int) and log[at] >= 0 for at in (0, 2, 4, 5))):
                self.found("TYPE", log[1], detail="a log whose name, size or beginning is none")
                return
        origins = {log[0]: log[1] for log in logs}
        name = self.db.execute("SELECT origin FROM log WHERE id = 1").fetchone()
        self.instance = name and name[0]
        self.files = {}                 # log -> Forms, of those that have sealed files, which come first
        for number, origin, _, _, first, tenant, *_ in logs if not self.range else ():
            forms = Forms(self, number, origin, first, tenant)
            if forms.files.any:
                self.files[number] = forms
                forms.files.check()
        self.names()
        self.chain()
        covered = {log[0]: self.checkpoints(log[0], log[1], log[7]) for log in logs}
        self.outside()
        if self.range:
            for number, origin, size, _, first, tenant, *_ in logs[:LOGS_MAX]:
                self.part(number, origin, size, first, tenant, *self.range)
            self.found("NOT_CHECKED", detail="records before {} and from {} on, and what hangs on them".format(*self.range))
            return
        sizes, firsts = {}, {log[0]: log[4] for log in logs}
        last = Forms(self, 1, self.instance, firsts.get(1, 0), 0).record(max([log[6] for log in logs if log[0] == 1], default=-1))
        for number, origin, said, root, first, tenant, highest, _ in logs[:LOGS_MAX]:
            size = said if last and last["kind"] == STOP else max(said, highest + 1)   # a stop leaves no head behind
            sizes[number] = self.log(number, origin, size, root, first, highest + 1, origins, tenant, said)
            if number in self.ended:
                continue
            if number == 1:
                self.say(origins)
            self.payloads(number, origin, tenant, first, size)
            self.aliases(number, origin, tenant, first, size)
            self.retention(number, origin, first, size)
        self.roots(firsts)
        if 1 not in self.ended:
            self.unrestored(firsts.get(1, 0))
            self.taken(firsts.get(1, 0), sizes.get(1, 0))
        self.registry(firsts, sizes)
        covered = {number: max(covered[number], self.outsiders.get(origin, 0)) for number, origin in origins.items()}
        last = Forms(self, 1, self.instance, firsts.get(1, 0), 0).record(covered.get(1, 0) - 1)
        self.stopped = 1 not in self.ended and STOP in (last and last["kind"], self.last)
        for number in sizes.keys() - self.ended if self.epochs else ():
            self.uncovered(origins[number], covered[number], sizes[number])
        self.two.finish()
        self.leftover({origins[n]: first for n, first in firsts.items()}, {origins[n]: size for n, size in sizes.items()})
        if not self.epochs:
            self.found("NOT_CHECKED", detail="the store has no signed checkpoints")
        if self.shut:
            self.found("NOT_CHECKED", detail=f"no keys were given: {self.shut} kept values and names were not opened")


# --- a bundle

MEMBERS = "records.jsonl", "tree.json", "notes.json", "epochs.json", "manifest.json"


class Wrong(ValueError):
    """What ends the reading of a bundle: a finding and its detail."""


class Unread(ValueError):
    """What ends the reading of a log: a sealed file that is not here, or cannot be read."""


def strict(value, *names):
    """An object of these members and no others, as a list: what is not compared with something has no place in a bundle."""
    if not isinstance(value, dict) or value.keys() != set(names):
        raise ValueError(f"not an object of {', '.join(names)}")
    return [value[name] for name in names]


def once(pairs):
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a member twice")
    return dict(pairs)


def is_time(text):
    form = "%Y-%m-%dT%H:%M:%S.%fZ"
    return datetime.datetime.strptime(text, form).strftime(form) == text


def number(value):
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError("not a number")
    return value


def root_of(value, size):
    """The tree that stands at an end of the range."""
    said, root, peaks = strict(value, "size", "root", "frontier")
    tree = Tree(size, map(strict_base64, peaks))
    if number(said) != size or len(tree.peaks) != bin(size).count("1") or any(len(peak) != 32 for peak in tree.peaks) or \
            strict_base64(root) != tree.root():
        raise ValueError("not a tree")
    return tree


def view(record):
    """What people read, and the columns; ValueError: no release writes such bytes."""
    if record[:5] != b"TCAR" + bytes([ENCODING]):
        raise ValueError("another encoding")
    values, left = {}, fields(record)
    for name, (tag, form, *size) in COLUMNS.items():
        value = left.pop(tag, None)
        if value is None:
            continue
        if form == "u":
            value = number(struct.unpack(">Q", value)[0])
        elif form == "b" and size and len(value) != size[0]:
            raise ValueError(f"column {name}")
        values[name] = value.hex() if form == "b" else value if form == "u" else value.decode()
    if left or not {"log", "idx", "ts", "kind"} <= values.keys():
        raise ValueError("unknown columns, or too few")
    return {"time": utc(values["ts"]), "event": KINDS.get(values["kind"], "unknown"), **values}


class Bundle(Findings):
    """Nothing in it is believed that does not follow from something else in it, or from a key that you have."""

    def __init__(self, path, keys):
        super().__init__()
        self.file, self.keys, self.logs = open(regular(path), "rb"), keys or {}, 1
        self.origin, self.first, self.end, self.places = "-", 0, 0, {}

    def wrong(self, code, detail):
        self.found(code, self.origin, detail=detail)

    def check(self):
        try:
            self.members()
            self.manifest()
            self.trees()
            self.chain()
            self.checkpoints()
            self.lines()
            self.covered()
        except Wrong as wrong:
            self.wrong(*wrong.args)

    def zeros(self, size):
        while size > 0:
            block = self.file.read(min(size, VALUE_MAX))
            if not block or any(block):
                raise Wrong("PARSE", "something stands between the members or behind them")
            size -= len(block)

    def members(self):
        """A ustar of regular files, each once, and zeros."""
        size = os.fstat(self.file.fileno()).st_size
        try:
            for _ in MEMBERS if size <= BUNDLE_MAX else ():
                head = self.file.read(512)
                name, length = head[:100].rstrip(b"\0").decode(), int(re.fullmatch(b"([0-7]{11})\0", head[124:136])[1], 8)
                total = int(re.fullmatch(b"([0-7]{6})\0 ", head[148:156])[1], 8)
                if total != sum(head[:148] + b" " * 8 + head[156:]) or head[257:262] != b"ustar" or head[156:157] != b"0" or \
                        any(head[157:257]) or any(head[345:500]) or name not in MEMBERS or name in self.places or \
                        length > size - self.file.tell() or name != MEMBERS[0] and length > PART_MAX:
                    raise ValueError(name)
                self.places[name] = self.file.tell(), length
                self.file.seek(length, os.SEEK_CUR)
                self.zeros(-length % 512)
        except (TypeError, ValueError) as error:
            raise error if isinstance(error, Wrong) else Wrong("PARSE", "this is no bundle: a tar of five members, each once")
        if len(self.places) < len(MEMBERS):
            raise Wrong("PARSE", "this is no bundle, or larger than any")
        self.zeros(size - self.file.tell())

    def part(self, name):
        at, size = self.places[name]
        self.file.seek(at)
        data = self.file.read(size)
        if name != "manifest.json" and hashlib.sha256(data).hexdigest() != self.hashes[name]:
            raise Wrong("PARSE", "a member is not what the manifest says")
        try:
            return json.loads(data.decode(), object_pairs_hook=once)
        except (ValueError, RecursionError):
            raise Wrong("PARSE", "a member is no JSON")

    def manifest(self):
        try:
            form, program, made, self.origin, self.first, self.end, count, *self.times, query, self.hashes = strict(
                self.part("manifest.json"), "format", "program", "made", "origin", "from", "to", "records", "first", "last", "query",
                "sha256")
            strict(self.hashes, *MEMBERS[:4])
            self.instance, _, tenant = self.origin.partition("/t/")
            if form != "toolcrib bundle 1" or not number(self.first) < number(self.end) or count != self.end - self.first or \
                    not re.fullmatch(r"toolcrib [0-9a-z.+~-]{1,54}", program) or not is_time(made) or \
                    not all(isinstance(time, str) for time in self.times) or \
                    query not in (f"audit bundle {tenant}", f"retention prune {tenant}"):
                raise ValueError("claims")
        except (AttributeError, TypeError, ValueError) as error:
            raise error if isinstance(error, Wrong) else Wrong("PARSE", "the manifest does not say what is here")

    def trees(self):
        try:
            parts = self.part("tree.json")
            self.growth = parts.pop("growth", None)
            start, end = strict(parts, "start", "end")
            self.tree, self.last = root_of(start, self.first), root_of(end, self.end)
        except (AttributeError, TypeError, ValueError) as error:
            raise error if isinstance(error, Wrong) else Wrong("TILE", "the hashes at the ends of the range contradict each other")

    def chain(self):
        """Each epoch's key is certified by the one before; one that is pinned is the pinned one."""
        self.epochs, self.pinned = [], False
        try:
            for n, value in enumerate(self.part("epochs.json")):
                said, since, key, cert = strict(value, "n", "from", "pk", "cert")
                key, pin = strict_base64(key), self.keys.get(f"{self.instance}/e/{n}")
                if number(said) != n or number(since) < 0 or len(key) != 32 or pin not in (None, key) or not (
                        cert is None if n == 0 else
                        signed_by(self.epochs[-1], b"epoch" + struct.pack(">Q", n) + key, strict_base64(cert))):
                    raise ValueError(n)
                self.pinned |= pin is not None
                self.epochs.append(key)
        except (AttributeError, TypeError, ValueError) as error:
            raise error if isinstance(error, Wrong) else \
                Wrong("KEYCHAIN", "an epoch does not follow from the one before, or is not the pinned one")

    def checkpoints(self):
        self.notes, newest = {}, self.first
        try:
            for value in self.part("notes.json"):
                size, epoch, text = strict(value, "size", "epoch", "note")
                note = Note(text.encode())
                if of_log(note.origin)[0] != self.origin or note.size != number(size) or size <= newest:
                    raise ValueError(size)
                if number(epoch) >= len(self.epochs) or not note.signed_by(f"{self.instance}/e/{epoch}", self.epochs[epoch]):
                    self.wrong("CP_SIG", f"the checkpoint at {size} is not signed by the key of its epoch")
                self.notes[size], newest = note.root, size
        except (AttributeError, TypeError, ValueError) as error:
            raise error if isinstance(error, Wrong) else Wrong("PARSE", "a note is malformed, of another log or out of order")

    def line(self, data):
        """A record: what is wrong with it, and its leaf."""
        codes, leaf, idx = [], bytes(32), self.tree.size
        try:
            value = json.loads(data.decode(), object_pairs_hook=once)
            record = strict_base64(value["bytes"])
            leaf, shown = leaf_hash(record), view(record)
        except (KeyError, TypeError, ValueError, RecursionError, struct.error):
            return ["PARSE"], leaf
        if shown["idx"] != idx or shown["log"] != self.origin:
            codes.append("GAP")
        if value.get("leaf") != leaf.hex():
            codes.append("LEAF")
        if value.keys() != {"idx", "enc", "leaf", "bytes", "view"} or (value["idx"], value["enc"]) != (shown["idx"], ENCODING) or \
                value["view"] != shown:
            codes.append("VIEW")
        self.seen = [self.seen[0] if self.records else shown["time"], shown["time"]]
        return codes, leaf

    def lines(self):
        at, left = self.places["records.jsonl"]
        digest, self.seen = hashlib.sha256(), [None, None]
        self.file.seek(at)
        while left > 0 and self.tree.size < self.end:
            data = self.file.readline(min(left, LINE_MAX + 1))
            if not data.endswith(b"\n"):
                break
            left -= len(data)
            digest.update(data)
            codes, leaf = self.line(data)
            for code in codes:
                self.found(code, self.origin, self.tree.size)
            self.tree.append(leaf)
            self.records += 1
            if self.tree.size in self.notes and self.notes[self.tree.size] != self.tree.root():
                self.found("ROOT", self.origin, self.tree.size - 1)
        if left > 0:
            self.wrong("PARSE", "more records than the manifest says, or a line without an end")
        elif digest.hexdigest() != self.hashes["records.jsonl"]:
            self.wrong("PARSE", "a member is not what the manifest says")

    def covered(self):
        if self.tree.size != self.end:
            self.found("GAP", self.origin, self.tree.size, last=self.end - 1)
            return
        if self.tree.root() != self.last.root():
            self.wrong("ROOT", "the records do not give the root at the end of the range")
        behind = [size for size in self.notes if size > self.end]
        try:
            if behind or self.growth is not None:
                size, path = strict(self.growth, "size", "proof")
                path = list(map(strict_base64, path))
                if behind != [number(size)] or not consistent(self.end, size, path, self.tree.root(), self.notes[size]):
                    raise ValueError(size)
        except (AttributeError, TypeError, ValueError):
            self.wrong("ROOT", "the records do not lead to the note behind them")
        if self.seen != self.times:
            self.wrong("VIEW", "the manifest has other times of the first and last record than these")
        if not any(size >= self.end for size in self.notes):
            self.wrong("NOT_CHECKED", "no checkpoint covers the end of the range")
        elif not self.pinned:
            self.wrong("NOT_CHECKED", "no key is pinned: the checkpoints are signed by keys of the bundle itself")


def check_bundle(path, keys):
    bundle = Bundle(path, keys)
    bundle.check()
    status, said = bundle.tell()
    print(f"bundle of {safe(bundle.origin)}, records {bundle.first}-{bundle.end - 1}")
    print(said)
    return status


# --- records by columns: blocks, zones, sums and payloads of blocks (contrib/doc/block-format.md)

BLOCK_FORMAT, BLOCK_RECORDS, CHAPTER_BLOCKS, CHAPTER_RECORDS, BOOK_CHAPTERS, BLOCK_PAYLOADS = 1, 4096, 64, 64 * 4096, 16, 256
STREAM_MAX, BODY_MAX, BLOB_MAX, DEFLATE_MIN = 4 << 20, 4 << 20, 65536, 64
ZONE_IDS, SUMS_SHARE, HIST_STEPS = 1024, 8, 320
BIG = (1 << 63) - 1
COLUMN_NAMES = list(COLUMNS)[2:]                # log and idx stand beside the block
DIFFERENCES, HASHED, MUST = ("ts", "mono"), ("call", "cm", "sh", "prev", "trace"), ("ts", "kind")
ZONES = "kind", "outcome", "prn", "cred", "tool", "tdef", "obj", "key"
SUM_KEYS = "cred", "prn", "authn", "obo", "peer", "client", "tport", "rev", "kind", "tool", "tdef", "rule", "outcome", "sbox"
HOUR_US, DAY_US = 3600 * 10 ** 6, 86400 * 10 ** 6
CLASSES = {0: 1, 7: 1, 1: 2, 5: 3, 2: 4, 3: 4, 4: 4, 10: 4}     # outcome: ok, error, timeout, refused; 5: what is none of these


NO_TEXT = object()              # what an id stands for, for a reader who goes on without


class Later(ValueError):
    """A form, or a column, that only a later release knows."""


def no_block(where, what):
    return Wrong("PARSE", f"this is no block of format 1: {where}: {what}")


def varint(data, at, where, most=BIG):
    """A number and where it ends: seven bits in a byte, the lowest first, no longer than it need be."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            if value > most or byte == 0 and shift > 7:
                break
            return value, at
    raise no_block(where, "a number is cut off, longer than it need be, or out of range")


def varints(data, at, count, where, most=BIG):
    """So many, and where they end.  Most have one byte or two."""
    some = data[at:at + count]
    if len(some) == count and (count == 0 or max(some) < 128):
        return list(some), at + count
    values, end = [0] * count, len(data) - 1
    for i in range(count):
        if at < end and data[at] < 128:
            values[i], at = data[at], at + 1
        elif at < end and 0 < data[at + 1] < 128:
            values[i], at = data[at] & 127 | data[at + 1] << 7, at + 2
        else:
            values[i], at = varint(data, at, where, most)
    return values, at


def stream(data, at, head, most, where):
    """The bytes of a stream, and where it ends: head is its length, with a bit for those that are raw."""
    length, end = head >> 1, at + (head >> 1)
    if end > len(data) or length > STREAM_MAX:
        raise no_block(where, "a stream is longer than what is there")
    if head & 1:
        out = data[at:end]
    else:
        inflater = zlib.decompressobj()
        try:
            out = inflater.decompress(data[at:end], most + 1)
        except zlib.error:
            raise no_block(where, "a stream is damaged")
        if len(out) <= most and (not inflater.eof or inflater.unused_data or len(out) < DEFLATE_MIN or len(out) <= length):
            raise no_block(where, "a stream does not end where it should, or is deflated and no shorter so")
    if len(out) > most:
        raise no_block(where, "more comes out of a stream than it can have")
    return out, end


def unzigzag(value):
    return value >> 1 ^ -(value & 1)


class Block:
    """Records of one log from `first` on, without a gap.  columns: name to a list of the records' values, None where it is NULL.
    Wrong or Later: it is no block that this program reads."""

    listed = None               # the row of the catalog, of one in a sealed file

    def __init__(self, first, cnt, fmt, cols, hashes):
        if fmt != BLOCK_FORMAT:
            raise Later("fmt")
        if not 1 <= cnt <= BLOCK_RECORDS or not 0 <= first <= BIG - BLOCK_RECORDS - cnt + 1 or len(hashes) > STREAM_MAX:
            raise no_block("block", "such a place, or so many records or hashes, no block has")
        self.first, self.cnt, self.hashes, self.hash_at, self.columns = first, cnt, hashes, 0, {}
        streams = self.streams(cols)
        for name in MUST:
            if name not in streams:
                raise no_block(name, "no record has one")
        for name in [name for name in streams if name not in HASHED] + [name for name in HASHED if name in streams]:
            self.columns[name] = self.column(name, streams[name])
        if self.hash_at != len(hashes):
            raise no_block("hash", "something stands behind the last value")

    def streams(self, cols):
        """Name to bytes of the columns that some record has."""
        count, at = varint(cols, 0, "cols", 2 * BIG + 1)
        if count > len(COLUMN_NAMES):
            raise Later("cols")
        found, head = {}, 0
        for name in COLUMN_NAMES[:count]:
            head, at = varint(cols, at, name, 2 * BIG + 1)
            if head:
                found[name], at = stream(cols, at, head, self.most(name), name)
        if at != len(cols) or head == 0:
            raise no_block("cols", "columns are listed that are empty, or something stands behind the last one")
        return found

    def most(self, name):
        """The most bytes that a column of so many records can have."""
        head = 1 + (self.cnt + 7) // 8
        if name in ("cm", "ext"):
            return STREAM_MAX
        return head + self.cnt * (7 if name == "call" else 0 if name in HASHED else 10)

    def present(self, name, data):
        """The places of the records that have a value, and where the values begin."""
        if not data or data[0] > 1:
            raise no_block(name, "a column does not begin with 0 or 1")
        if data[0]:
            return range(self.cnt), 1
        end = 1 + (self.cnt + 7) // 8
        bits = int.from_bytes(data[1:end], "little")
        places = [i for i in range(self.cnt) if bits >> i & 1]
        if len(data) < end or bits >> self.cnt or not 0 < len(places) < self.cnt or name in MUST:
            raise no_block(name, "the list of those that have a value is none")
        return places, end

    def column(self, name, data):
        places, at = self.present(name, data)
        read = {"call": self.calls, "cm": self.commitments, "ext": self.blobs}.get(
            name, self.ids if name in HASHED else self.numbers)
        values, at = read(name, data, at, places)
        if at != len(data):
            raise no_block(name, "something stands behind the last value")
        if len(places) == self.cnt:
            return values
        column = [None] * self.cnt
        for i, value in zip(places, values):
            column[i] = value
        return column

    def numbers(self, name, data, at, places):
        signed = name in DIFFERENCES or name == "beg"
        values, at = varints(data, at, len(places), name, 2 * BIG + 1 if signed else BIG)
        if name in DIFFERENCES:
            values = list(itertools.accumulate(map(unzigzag, values)))
        elif name == "beg":
            values = [self.first + i - unzigzag(value) for i, value in zip(places, values)]
        if signed and not (0 <= min(values) and max(values) <= BIG):
            raise no_block(name, "a number is out of range")
        return values, at

    def blobs(self, name, data, at, places):
        values = []
        for _ in places:
            length, at = varint(data, at, name, BLOB_MAX)
            if length > len(data) - at:
                raise no_block(name, "bytes are cut off")
            values.append(data[at:at + length])
            at += length
        return values, at

    def take(self, count):
        """So many bytes of hash."""
        start, self.hash_at = self.hash_at, self.hash_at + count
        if self.hash_at > len(self.hashes):
            raise no_block("hash", "it is cut off")
        return self.hashes[start:self.hash_at]

    def ids(self, _, __, at, places):
        return [self.take(16) for _ in places], at

    def commitments(self, name, data, at, places):
        values = []
        for _ in places:
            count, at = varint(data, at, name, BLOB_MAX // 34)
            ctags, at = varints(data, at, count, name, 0xFFFF)
            values.append(b"".join(struct.pack(">H", ctag) + self.take(32) for ctag in ctags))
        return values, at

    def calls(self, name, data, at, places):
        begins, values = self.columns.get("beg"), [None] * self.cnt
        for i in places:
            begin = begins and begins[i]
            begin = values[begin - self.first] if begin is not None and self.first <= begin < self.first + i else None
            if at >= len(data) or data[at] > 1 or data[at] and begin is None or not data[at] and len(data) - at < 7:
                raise no_block(name, "a call is cut off, or is said to be that of a begin that is not there")
            if data[at]:
                values[i], at = begin, at + 1
                continue
            values[i], at = data[at + 1:at + 7] + self.take(10), at + 7
            if values[i] == begin:
                raise no_block(name, "a call stands there twice")
        return [values[i] for i in places], at

    def records(self, origin, text):
        """The bytes of each record, as a row's are.  text(kind, id): the bytes that an id stands for, or None."""
        origin, pack = origin.encode(), struct.Struct(">HIQ").pack
        parts = [itertools.repeat(b"TCAR" + bytes([ENCODING]) + struct.pack(">HI", COLUMNS["log"][0], len(origin)) + origin),
                 [pack(COLUMNS["idx"][0], 8, self.first + i) for i in range(self.cnt)]]
        for name in COLUMN_NAMES:
            column, (tag, form, *_) = self.columns.get(name), COLUMNS[name]
            if column is None:
                continue
            if form == "u":
                part = [b"" if value is None else pack(tag, 8, value) for value in column]
            elif form == "b":
                part = [b"" if value is None else struct.pack(">HI", tag, len(value)) + value for value in column]
            else:
                part = list(map(self.texts(name, tag, text, set(column)).get, column))
            parts.append(part)
        return list(map(b"".join, zip(*parts)))

    @staticmethod
    def texts(name, tag, text, ids):
        found = {None: b""}
        for number in ids - {None}:
            value = text(tag, number)
            if value is None:
                raise no_block(name, f"the dictionary has no id {number} of this kind")
            found[number] = b"" if value is NO_TEXT else struct.pack(">HI", tag, len(value)) + value
        return found

    def leaves(self, origin, text):
        return list(map(leaf_hash, self.records(origin, text)))

    def zone(self):
        """Of each column of zones: its ids, and how many records have each."""
        return [collections.Counter(value for value in self.columns.get(name, ()) if value is not None) for name in ZONES]

    def derived(self, ts_min, ts_max, zone):
        """What stands beside the columns is what they come to, or queries would lie."""
        if (min(self.columns["ts"]), max(self.columns["ts"])) != (ts_min, ts_max):
            raise Wrong("INDEX", "the block says other times than its records have")
        if zone_bytes(self.zone()) != zone:
            raise Wrong("INDEX", "the block's zone does not list what its records have")


def varint_bytes(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def zone_bytes(counts):
    """A zone has one form; that of a chapter is that of the sums of its blocks' counts."""
    out = []
    for ids in counts:
        out.append(min(len(ids), ZONE_IDS + 1))
        before = 0
        for number in sorted(ids) if len(ids) <= ZONE_IDS else ():
            out += [number - before, ids[number]]
            before = number
    return b"".join(map(varint_bytes, out))


# --- sums of a chapter

SUM_WORDS = ("day", "night", "called", *SUM_KEYS, "count", "timed", "dur", "dur_max", "n_req", "n_res", "idx_min", "idx_max", "ts_min", "ts_max")
SUM_KEY, HIST_KEY, HIST_GROUP = 3 + len(SUM_KEYS), 5, 4
DAY_KEYS = "kind", "outcome"       # of days of books
OF_BEGIN, EITHER = ("authn", "tport"), ("obo", "peer", "client", "rev", "tdef", "rule", "sbox")
HIST_WORDS = "day", "night", "tool", "class", "step", "count"
IDX_MIN, TS_MIN = SUM_WORDS.index("idx_min"), SUM_WORDS.index("ts_min")


def is_night(ts):
    return int(not 6 <= ts % DAY_US // HOUR_US < 22)


def step_of(us):
    """An eighth of its power of two."""
    power = us.bit_length() - 1
    return us if us < 16 else min((power - 3) * 8 + (us >> power - 3 & 7) + 8, HIST_STEPS - 1)


def few(entries, records):
    return entries * SUMS_SHARE <= records


def groups(hist):
    return len({entry[:HIST_GROUP] for entry in hist})


def join_begin(record, begin):
    """What its begin says of a call that has ended: where the end says nothing, or alone."""
    joined = dict(record)
    if record["kind"] in (END, RECOVERED):
        joined.update({name: begin.get(name) for name in OF_BEGIN})
    joined.update({name: begin.get(name) for name in (*EITHER, "n_req") if record[name] is None})
    return joined


class Sums:
    """Those of a chapter, counted block by block."""

    NAMES = (*SUM_KEYS, "ts", "dur", "n_req", "n_res", "beg", "call")

    def __init__(self):
        self.sums, self.hist, self.apart, self.begins = {}, collections.Counter(), [], {}

    def add(self, block):
        columns = {name: block.columns.get(name) or [None] * block.cnt for name in self.NAMES}
        for idx, values in enumerate(zip(*columns.values()), block.first):
            record = dict(zip(self.NAMES, values))
            if record["kind"] == BEGIN:
                self.begins[idx] = columns, idx - block.first
            elif record["beg"] is not None and record["beg"] not in self.begins:
                self.apart.append((idx,))
            else:
                self.count(idx, record)

    def count(self, idx, record):
        columns, at = self.begins.get(record["beg"], ({}, 0))
        record = join_begin(record, {name: column[at] for name, column in columns.items()})
        ts, dur, called = record["ts"], record["dur"], int(record["call"] is not None)
        keys = ts // DAY_US, is_night(ts), called, *(-1 if record[name] is None else record[name] for name in SUM_KEYS)
        old = self.sums.get(keys, (0, 0, 0, 0, 0, 0, idx, idx, ts, ts))
        self.sums[keys] = (
            old[0] + 1, old[1] + (dur is not None), old[2] + (dur or 0), max(old[3], dur or 0), old[4] + (record["n_req"] or 0),
            old[5] + (record["n_res"] or 0), old[6], idx, min(old[8], ts), max(old[9], ts))
        if record["kind"] == END and called:
            tool = -1 if record["tool"] is None else record["tool"]
            self.hist[ts // DAY_US, is_night(ts), tool, CLASSES.get(record["outcome"], 5), step_of(dur or 0)] += 1

    def listed(self):
        """(sums, histogram, apart) as read_sums() has them, or None: they are partial."""
        listed = [key + value for key, value in sorted(self.sums.items())], [key + (n,) for key, n in sorted(self.hist.items())], self.apart
        records = sum(value[0] for value in self.sums.values())
        whole = all(few(n, records) for n in (len(self.sums), groups(self.hist), len(self.apart))) and \
            all(max(value[2], value[4], value[5]) <= BIG for value in self.sums.values())
        return listed if whole else None


class BookSums(Sums):
    """Those of a book: its chapters' without days and halves, in which a record stands apart when its begin is in none of them."""

    def __init__(self, first):
        super().__init__()
        self.first, self.whole = first, True

    def chapter(self, listed, find):
        """find(idx): what a record says by itself, by names."""
        if listed is None:
            self.whole = False
            return
        sums, hist, apart = listed
        for entry in sums:
            self.merge((0, 0, *entry[2:SUM_KEY]), entry[SUM_KEY:])
        for entry in hist:
            self.hist[(0, 0, *entry[2:HIST_KEY])] += entry[HIST_KEY]
        for (idx,) in apart:
            record = find(idx)
            begin = find(record["beg"]) if record["beg"] is not None and self.first <= record["beg"] < idx else None
            if begin is None or begin["kind"] != BEGIN:
                self.apart.append((idx,))
            else:
                self.one(idx, join_begin(record, begin))

    def merge(self, keys, more):
        old = self.sums.get(keys)
        self.sums[keys] = more if old is None else (
            *(a + b for a, b in zip(old[:3], more[:3])), max(old[3], more[3]), old[4] + more[4], old[5] + more[5],
            min(old[6], more[6]), max(old[7], more[7]), min(old[8], more[8]), max(old[9], more[9]))

    def one(self, idx, record):
        ts, dur, called = record["ts"], record["dur"], int(record["call"] is not None)
        self.merge((0, 0, called, *(-1 if record[name] is None else record[name] for name in SUM_KEYS)), (
            1, int(dur is not None), dur or 0, dur or 0, record["n_req"] or 0, record["n_res"] or 0, idx, idx, ts, ts))
        if record["kind"] == END and called:
            tool = -1 if record["tool"] is None else record["tool"]
            self.hist[0, 0, tool, CLASSES.get(record["outcome"], 5), step_of(dur or 0)] += 1

    def listed(self):
        many = len(self.sums) > CHAPTER_RECORDS // SUMS_SHARE or len(self.hist) > CHAPTER_RECORDS or len(self.apart) > CHAPTER_RECORDS // SUMS_SHARE
        return super().listed() if self.whole and not many else None


class BookDays(BookSums):
    """Those of a book by day, half, whether there is a call, kind and outcome: of all of its records, and no begin is asked."""

    def chapter(self, listed, find):
        self.whole = self.whole and listed is not None
        for entry in listed[0] if listed else ():
            self.merge(entry[:SUM_KEY], entry[SUM_KEY:])
        for (idx,) in listed[2] if listed else ():
            self.one(idx, find(idx))
        self.hist.clear()               # there are no steps

    def merge(self, keys, more):
        ts = more[8]
        super().merge((ts // DAY_US, is_night(ts), keys[2], *(key if name in DAY_KEYS else -1 for name, key in zip(SUM_KEYS, keys[3:]))),
                      (*more[:4], 0, *more[5:]))


def count_sums(blocks):
    sums = Sums()
    for block in blocks:
        sums.add(block)
    return sums.listed()


class SumsReader:
    def __init__(self, data, first, book):
        self.data, self.at, self.first, self.book = data, 0, first, book

    def number(self, most=BIG):
        value, self.at = varint(self.data, self.at, "sums", most)
        return value

    def entries(self, most, words, named):
        """Entries of so many words; those of keys that are not named are -1 throughout."""
        count = self.number(most)
        columns = []
        for word in words if count else ():
            if self.book and word in ("day", "night"):
                columns.append([0] * count)
                continue
            if word in SUM_KEYS and named is not None and word not in named:
                columns.append([-1] * count)
                continue
            head = self.number(2 * BIG + 1)
            if head == 0:
                raise no_block("sums", "a stream is cut off")
            data, self.at = stream(self.data, self.at, head, count * 10, "sums")
            values, end = varints(data, 0, count, "sums")
            if end != len(data):
                raise no_block("sums", "something stands behind the last number")
            if word == "day":
                values = list(itertools.accumulate(values))
            elif word in SUM_KEYS:
                values = [value - 1 for value in values]
            elif word in ("idx_max", "ts_max"):
                values = [value + before for value, before in zip(values, columns[-1])]
            elif word == "idx_min":
                values = [value + self.first for value in values]
            elif word == "ts_min":
                values = [value + day * DAY_US for value, day in zip(values, columns[0])]
            if max(values) > (BIG // DAY_US - 1 if word == "day" else BIG):
                raise no_block("sums", "a number is out of range")
            columns.append(values)
        entries = list(zip(*columns))
        key = SUM_KEY if named is not None else HIST_KEY
        if any(one[:key] >= other[:key] for one, other in zip(entries, entries[1:])):
            raise no_block("sums", "entries do not ascend")
        return entries

    def apart(self, most):
        """Records that are in no sum, each a tuple of one."""
        count = self.number(most)
        if not count:
            return []
        head = self.number(2 * BIG + 1)
        if head == 0:
            raise no_block("sums", "a stream is cut off")
        data, self.at = stream(self.data, self.at, head, count * 10, "sums")
        values, end = varints(data, 0, count, "sums")
        if end != len(data) or not all(values[1:]):
            raise no_block("sums", "records that stand apart do not ascend, or something stands behind them")
        return [(idx,) for idx in itertools.accumulate([self.first + values[0], *values[1:]])]

    def named(self):
        tags, before, named = {COLUMNS[name][0]: name for name in SUM_KEYS}, 0, []
        for _ in range(self.number(2 * BIG + 1)):
            tag = self.number(2 * BIG + 1)
            if tag <= before:
                raise no_block("sums", "the tags of its columns do not ascend")
            if tag not in tags:
                raise Later("sums")
            named.append(tags[tag])
            before = tag
        return named


def sum_is_sound(entry, first, cnt, book):
    value = dict(zip(SUM_WORDS, entry))
    return 0 < value["count"] <= cnt and value["timed"] <= value["count"] and value["dur_max"] <= value["dur"] and \
        (value["timed"] > 0 or value["dur"] == 0) and value["idx_max"] < first + cnt and \
        value["idx_max"] - value["idx_min"] >= value["count"] - 1 and value["kind"] not in (BEGIN, -1) and \
        value["called"] <= 1 and \
        (book or value["ts_max"] // DAY_US == value["day"] and is_night(value["ts_min"]) == is_night(value["ts_max"]) == value["night"])


def read_sums(data, first, cnt, book=False, days=False):
    """Of a chapter of cnt records from first on: (sums, histogram, apart), each a list of tuples in order, or None: they are
    partial."""
    whole, most = 2 if book else 1, CHAPTER_RECORDS * BOOK_CHAPTERS if book or days else CHAPTER_RECORDS
    if not 1 <= cnt <= most or not 0 <= first <= BIG - BLOCK_RECORDS - cnt + 1:
        raise no_block("sums", "such a place, or so many records, no chapter has")
    reader, listed = SumsReader(data, first, book), None
    form = reader.number(2 * BIG + 1)
    if book and form == 1:
        raise no_block("sums", "a book has the sums of a chapter")
    if form > whole:
        raise Later("sums")
    if form == whole:
        named = reader.named()
        sums = reader.entries(min(cnt, CHAPTER_RECORDS) // SUMS_SHARE, SUM_WORDS, named)
        records = sum(entry[SUM_KEY] for entry in sums)
        seen = [name for at, name in enumerate(SUM_KEYS, 3) if any(entry[at] >= 0 for entry in sums)]
        if seen != named or records > cnt or not few(len(sums), records) or \
                not all(sum_is_sound(entry, first, cnt, book) for entry in sums):
            raise no_block("sums", "entries contradict themselves")
        hist = reader.entries(min(records, CHAPTER_RECORDS), HIST_WORDS, None)
        if not few(groups(hist), records) or sum(entry[5] for entry in hist) > records or \
                not all(entry[1] <= 1 and 1 <= entry[3] <= 5 and entry[4] < HIST_STEPS and entry[5] > 0 for entry in hist):
            raise no_block("sums", "steps contradict themselves")
        apart = reader.apart(min(records, CHAPTER_RECORDS) // SUMS_SHARE)
        if len(apart) + records > cnt or apart and apart[-1][0] >= first + cnt:
            raise no_block("sums", "records that stand apart are none of the chapter's")
        listed = sums, hist, apart
    if reader.at != len(data):
        raise no_block("sums", "something stands behind it")
    return listed


def read_days(data, first, cnt):
    """Of a book: as read_sums() of a chapter, with as many records."""
    listed = read_sums(data, first, cnt, days=True)
    if listed and (listed[1] or listed[2] or any(
            entry[SUM_WORDS.index("n_req")] or any(entry[at] >= 0 and name not in DAY_KEYS for at, name in enumerate(SUM_KEYS, 3)) for entry in listed[0])):
        raise no_block("sums", "days say more than days")
    return listed


def read_payloads(body):
    """Salt, nonce and ciphertext of each record of a group, None where it has none."""
    if len(body) > BODY_MAX:
        raise no_block("blkpay", "it is longer than 4 MiB")
    count, at = varint(body, 0, "blkpay", BLOCK_PAYLOADS)
    lengths, at = varints(body, at, 3 * count, "blkpay", BODY_MAX)
    pieces = []
    for length in lengths:
        pieces.append(body[at:at + length - 1] if length else None)
        at += max(length - 1, 0)
    payloads = list(zip(pieces[::3], pieces[1::3], pieces[2::3]))
    if not payloads or at != len(body) or any(salt is None and (nonce is not None or text is not None)
                                              for salt, nonce, text in payloads):
        raise no_block("blkpay", "lengths do not make up the payloads that are there")
    return payloads


# --- the records of a log, in their forms

ROW_NAMES = ["log", "idx", *COLUMN_NAMES]
BLOCKS_KEPT = 4                 # decoded ones, for those who ask for single records
NOTHING_KEPT = (None,) * 3


class Forms:
    """Records of a log in sealed files, below the end of the last one; in blocks, below the line where the newest one ends; and rows from
    there on.  Blocks are looked at where records() reads them; who asks for kinds or single records gets what there is."""

    def __init__(self, verifier, number, origin, first, tenant):
        self.verifier, self.db, self.found = verifier, verifier.db, verifier.found
        self.number, self.origin, self.first, self.tenant = number, origin, first, tenant
        newest = self.db.execute("SELECT first + cnt FROM blk WHERE log = ? ORDER BY first DESC LIMIT 1", (number,)).fetchone()
        self.line = newest[0] if newest and isinstance(newest[0], int) else -1 << 63
        self.files = Catalog(self)
        self.line = max(self.line, self.files.end)
        self.unread = 0                 # records below cannot be read, which was told
        self.open = collections.OrderedDict()   # first -> Block, those that were asked for last
        self.looked = []                # the two blocks that records of books were looked up in last
        self.groups = 0                 # of what is kept, that were read

    # blocks

    def block(self, row):
        """A block that is open already, or is opened: Wrong or Later."""
        first, cnt, fmt, cols, hashes = row
        if first not in self.open:
            if not (all(isinstance(value, int) for value in row[:3]) and all(isinstance(value, bytes) for value in row[3:])):
                raise no_block("block", "a column has a value of another kind")
            self.open[first] = Block(first, cnt, fmt, cols, hashes)
            if len(self.open) > BLOCKS_KEPT:
                self.open.popitem(last=False)
        return self.open[first]

    def rows_of(self, block):
        """Records of a block as rows are."""
        return (dict(zip(ROW_NAMES, values)) for values in zip(
            itertools.repeat(self.number), range(block.first, block.first + block.cnt),
            *(block.columns.get(name) or itertools.repeat(None) for name in COLUMN_NAMES)))

    def leaves(self, block):
        """The leaves of a block's records; what its ids do not stand for is told."""
        wrong = {}

        def text(tag, number):
            entry = self.verifier.entry(number)
            if not entry or entry[0] != tag:
                wrong[tag, number] = "DICT"
            elif entry[2] != "text":
                wrong[tag, number] = "TYPE"
            return NO_TEXT if not entry else entry[1].encode() if isinstance(entry[1], str) else entry[1]
        leaves = block.leaves(self.origin, text)
        for tag, name in ((COLUMNS[name][0], name) for name in COLUMN_NAMES if COLUMNS[name][1] == "d") if wrong else ():
            for i, number in enumerate(block.columns.get(name, ())):
                if (tag, number) in wrong:
                    self.found(wrong[tag, number], self.origin, block.first + i, name)
        return leaves

    def blocks(self, start):
        """Those that can be read, in order, from the one on that has this record, or all, with their chapters.  Blocks join without a gap; the gaps are seen
        where records are counted."""
        yield from self.files.blocks(start)
        end, chapters = None, Chapters(self, start is not None)
        for first, cnt, fmt, ts_min, ts_max, cols, hashes, zone in self.db.execute(
                "SELECT first, cnt, fmt, ts_min, ts_max, cols, hash, zone FROM blk WHERE log = ?1 AND first >= "
                "coalesce((SELECT max(first) FROM blk WHERE log = ?1 AND first <= ?2), -1) ORDER BY first",
                (self.number, max(start or 0, self.files.end))):
            if self.is_leftover(first, cnt):
                continue
            try:
                block = self.block((first, cnt, fmt, cols, hashes))
                if end is not None and first < end:
                    self.found("GAP", self.origin, first, "the block begins before the one before it ends", last=first + cnt - 1)
                    chapters.take(first, cnt, None)
                    continue
                end = first + cnt
                try:
                    block.derived(ts_min, ts_max, zone)
                except Wrong as wrong:
                    self.found(wrong.args[0], self.origin, first, wrong.args[1], last=end - 1)
                chapters.take(first, cnt, block)
                yield block
            except (Wrong, Later) as wrong:
                place = isinstance(first, int) and isinstance(cnt, int) and first >= 0 and 0 < cnt <= BLOCK_RECORDS
                self.found("PARSE", self.origin, *([first, wrong.args[-1], None, first + cnt - 1] if place else [None, wrong.args[-1]]))
                if place:
                    chapters.take(first, cnt, None)
                    end = self.unread = first + cnt
                    self.groups += self.db.execute("SELECT count(*) FROM blkpay WHERE log = ? AND first >= ? AND first < ?",
                                                   (self.number, first, end)).fetchone()[0]
        chapters.end()
        if start is None:
            self.books()

    # books

    def books(self):
        """Each is what its chapters come to, which were counted with their blocks; those that cannot be read have findings of their own."""
        edge = 0
        for row in self.db.execute("SELECT first, cnt, ts_min, ts_max, days, sums FROM book WHERE log = ? ORDER BY first", (self.number,)).fetchall():
            try:
                what = self.wrong_book(*row, edge)
            except (Wrong, Later, LookupError):
                what = None
            if what:
                place = row[0] >= 0 and row[1] > 0
                self.found("INDEX", self.origin, row[0] if place else None, "the book " + what, last=row[0] + row[1] - 1 if place else None)
            edge = row[0] + row[1]

    def wrong_book(self, first, cnt, ts_min, ts_max, days, sums, edge):
        chapters = self.db.execute("SELECT first, cnt, ts_min, ts_max, sums FROM chap WHERE log = ? AND first >= ? AND first < ? ORDER BY first LIMIT ?",
                                   (self.number, first, first + cnt, BOOK_CHAPTERS + 1)).fetchall()
        joined = [row[0] for row in chapters] == list(itertools.accumulate((row[1] for row in chapters[:-1]), initial=first)) if chapters else False
        if first < edge or cnt < 1 or not joined or len(chapters) > BOOK_CHAPTERS or sum(row[1] for row in chapters) != cnt:
            return "is not of whole chapters, has more than one may have, or lies upon another"
        if (ts_min, ts_max) != (min(row[2] for row in chapters), max(row[3] for row in chapters)):
            return "says other times than its records have"
        counted, by_day = BookSums(first), BookDays(first)
        for row in chapters:
            listed = read_sums(row[4], row[0], row[1])
            counted.chapter(listed, self.by_itself)
            by_day.chapter(listed, self.by_itself)
        try:
            if read_days(days, first, cnt) != by_day.listed():
                return "has days that are not what its records come to"
            return None if read_sums(sums, first, cnt, True) == counted.listed() else "has sums that are not what its records come to"
        except (Wrong, Later, TypeError):
            return "has sums that no release writes"

    def by_itself(self, idx):
        """What a record in a block says, by names."""
        for block in self.looked:
            if block.first <= idx < block.first + block.cnt:
                break
        else:
            block = next(self.blocks(idx), None)
            if block is None or not block.first <= idx < block.first + block.cnt:
                raise LookupError(idx)
            self.looked = [block, *self.looked[:1]]
        return {name: (block.columns.get(name) or [None] * block.cnt)[idx - block.first] for name in Sums.NAMES}

    def is_leftover(self, first, cnt):
        """A block that waits for deletion, since a sealed file has its records.  Nobody reads it."""
        return isinstance(first, int) and isinstance(cnt, int) and 0 <= first < self.files.end >= first + cnt and 0 < cnt <= BLOCK_RECORDS

    # what is kept of records in blocks

    def group(self, first, body):
        """Wrong: it is none."""
        if not isinstance(body, bytes):
            raise no_block("blkpay", "body is of another kind")
        return first, read_payloads(body)

    def kept_of(self, block):
        """Salt, nonce and ciphertext of each record of a block.  Groups lie in one block, beside each other."""
        if block.listed:
            return self.files.kept_of(block)
        kept, at, end = [NOTHING_KEPT] * block.cnt, block.first, block.first + block.cnt
        for row in self.db.execute("SELECT first, body FROM blkpay WHERE log = ? AND first >= ? AND first < ? ORDER BY first",
                                   (self.number, max(block.first, self.files.end), end)):
            self.groups += 1
            try:
                first, payloads = self.group(*row)
            except Wrong as wrong:
                self.found("PARSE", self.origin, row[0], wrong.args[1])
                continue
            if first < at or first + len(payloads) > end:
                self.found("PAYLOAD_EXTRA", self.origin, first, "what is kept of records twice, or of several blocks in one group")
                continue
            at = first + len(payloads)
            kept[first - block.first:at - block.first] = payloads
        return kept

    def salt(self, idx):
        """Of a record in whatever form, or None."""
        if idx >= self.line:
            found = self.db.execute(f"SELECT p.salt FROM {TAIL} r JOIN pay p ON p.rec = r.id WHERE r.log = ? AND r.idx = ?",
                                    (self.number, idx)).fetchone()
            return found and found[0]
        if idx < self.files.end:
            block = self.files.block_at(idx)
            return block and self.files.kept_of(block)[idx - block.first][0]
        row = self.db.execute("SELECT first, body FROM blkpay WHERE log = ? AND first <= ? ORDER BY first DESC LIMIT 1",
                              (self.number, idx)).fetchone()
        first, payloads = self.group(*row) if row else (idx, ())
        return payloads[idx - first][0] if idx - first < len(payloads) else None

    # records

    def records(self, size, start=None):
        """Each record that counts, and its leaf, with what is kept of it and what it has replaced looked at; of a part, from
        start on."""
        low = self.first if start is None else start
        leftovers = self.leftovers(-1 << 63 if start is None else start)
        left = next(leftovers, None)
        for block in self.blocks(start) if self.line > low else ():
            if start is not None and block.first >= size:
                break
            for row, leaf, kept in zip(self.rows_of(block), self.leaves(block), self.kept_of(block)):
                idx = row["idx"]
                if idx < self.files.end and not block.listed:
                    continue            # a file has it
                while left and left[0]["idx"] < idx:
                    left = self.stray(left, leftovers)
                if left and left[0]["idx"] == idx:
                    self.compare(row, leaf, kept, *left)
                    left = next(leftovers, None)
                if low <= idx < size:
                    there = None if kept[0] is None else idx
                    self.verifier.kept_of(self.origin, self.tenant, (idx, row["cm"], row["sh"], row["n_sto"], row["key"], there, *kept))
                    yield row, leaf
        while left and start is None:
            left = self.stray(left, leftovers)
        if start is None and self.db.execute("SELECT count(*) FROM blkpay WHERE log = ? AND first >= ?",
                                             (self.number, self.files.end)).fetchone()[0] > self.groups:
            self.found("PAYLOAD_EXTRA", self.origin, detail="payloads of records that are in no block")
        rows = self.db.execute(f"SELECT * FROM {TAIL} WHERE log = ? AND idx >= ? AND idx < ? ORDER BY span, idx",
                               (self.number, max(low, self.line), size))
        names = [column[0] for column in rows.description]
        for values in rows:
            row = dict(zip(names, values))
            yield row, self.verifier.leaf(self.origin, row)

    def leftovers(self, start):
        """Rows below the line, and what is kept of them."""
        if self.line < 0:
            return
        rows = self.db.execute(f"SELECT r.*, p.rec, p.salt, p.nonce, p.ct FROM {AT} r LEFT JOIN pay p ON p.rec = r.id "
                               "WHERE r.log = ? AND r.idx >= ? AND r.idx < ? ORDER BY r.span, r.idx", (self.number, start, self.line))
        names = [column[0] for column in rows.description][:-4]
        for values in rows:
            yield dict(zip(names, values)), values[-4:]

    def stray(self, left, leftovers):
        """A leftover that no block has; of what was pruned it is told elsewhere."""
        idx = left[0]["idx"]
        if not 0 <= idx < max(self.first, self.unread):
            self.found("FORM", self.origin, idx)
        return next(leftovers, None)

    def compare(self, row, leaf, kept, left, left_kept):
        same = left["enc"] == ENCODING and left["leaf"] in (None, leaf) and all(
            left[name] == row[name] and type(left[name]) is type(row[name]) for name in ROW_NAMES)
        if not same or left_kept[0] is not None and kept[0] is not None and left_kept[1:] != kept:
            self.found("FORM", self.origin, row["idx"])
        if left_kept[0] is not None and kept[0] is None:
            self.found("ERASED_BUT_PRESENT", self.origin, row["idx"])

    def rows(self, where, *args):
        """Of the tail."""
        rows = self.db.execute(f"SELECT * FROM {TAIL} WHERE log = ? AND idx >= ? AND {where}", (self.number, max(self.first, self.line), *args))
        names = [column[0] for column in rows.description]
        return (dict(zip(names, values)) for values in rows)

    def of_kinds(self, *kinds, backwards=False):
        """Records of these kinds.  A zone that leaves one out is found where blocks are looked at."""
        way = "DESC" if backwards else "ASC"
        tail = self.rows(f"kind IN ({','.join('?' * len(kinds))}) ORDER BY span {way}, idx {way}", *kinds)
        if backwards:
            yield from tail
        if not backwards:
            yield from self.of_blocks(self.files.of_kinds(kinds, False), kinds, False)
        yield from self.of_blocks((self.open_block(first) for first, cnt, zone in self.db.execute(
            f"SELECT first, cnt, zone FROM blk WHERE log = ? ORDER BY first {way}", (self.number,))
            if not self.is_leftover(first, cnt) and zone_may_have(zone, kinds)) if self.line > 0 else (), kinds, backwards)
        if backwards:
            yield from self.of_blocks(self.files.of_kinds(kinds, True), kinds, True)
        if not backwards:
            yield from tail

    def of_blocks(self, blocks, kinds, backwards):
        for block in blocks:
            low = max(self.first, -1 << 63 if not block or block.listed else self.files.end)
            rows = [row for row in self.rows_of(block) if row["kind"] in kinds and row["idx"] >= low] if block else ()
            yield from reversed(rows) if backwards else rows

    def open_block(self, first):
        row = self.db.execute("SELECT first, cnt, fmt, cols, hash FROM blk WHERE log = ? AND first = ?", (self.number, first)).fetchone()
        try:
            return self.block(row)
        except (Wrong, Later):
            return None

    def record(self, idx):
        """The one at this index, or None."""
        if idx >= self.line:
            return next(self.rows("idx = ?", idx), None)
        if idx < self.files.end:
            block = self.files.block_at(idx)
        else:
            found = self.db.execute("SELECT first FROM blk WHERE log = ? AND first <= ? ORDER BY first DESC LIMIT 1", (self.number, idx)).fetchone()
            block = found and self.open_block(found[0])
        return next(itertools.islice(self.rows_of(block), idx - block.first, None), None) if block else None

    def opened(self, running):
        """Begins in blocks without an end are in open_call, for a start to find, and nothing else is."""
        if RUNNING_MAX in running:
            return
        wanted = {begun[0]: call for call, begun in running.items() if begun[0] < self.line}
        for idx, call in self.db.execute("SELECT idx, call FROM open_call WHERE log = ?", (self.number,)):
            if wanted.pop(idx, None) != call:
                self.found("INDEX", self.origin, idx, "open_call has a call that no block has, or that has ended")
        for idx in sorted(wanted):
            self.found("INDEX", self.origin, idx, "open_call has not a call that is in a block and has not ended")


class Counted:
    """What stands beside a chapter, counted block by block."""

    def __init__(self):
        self.sums, self.zone, self.times = Sums(), [collections.Counter() for _ in ZONES], []

    def add(self, block):
        self.sums.add(block)
        for counts, more in zip(self.zone, block.zone()):
            counts.update(more)
        self.times = [min([*self.times, *block.columns["ts"]]), max([*self.times, *block.columns["ts"]])]

    def wrong(self, first, cnt, ts_min, ts_max, zone, sums):
        """What of a chapter of these records is not so, or None."""
        try:
            if [ts_min, ts_max] != self.times:
                return "says other times than its records have"
            if zone != zone_bytes(self.zone):
                return "has a zone that does not list what its records have"
            return None if read_sums(sums, first, cnt) == self.sums.listed() else "has sums that are not what its records come to"
        except (Wrong, Later, TypeError):
            return "has sums that no release writes"


class Chapters:
    """Chapters of a log, counted while its blocks are read: they begin and end where a block does, and have 64 at most.  Those of sealed
    files are counted with the file."""

    def __init__(self, forms, part):
        self.forms, self.edge = forms, -1
        self.rows = iter(()) if part else forms.db.execute(
            "SELECT first, cnt, ts_min, ts_max, zone, sums FROM chap WHERE log = ? AND first >= ? ORDER BY first", (forms.number, forms.files.end))
        self.next()

    def next(self):
        self.row, self.blocks = next(self.rows, None), 0
        self.counted, self.whole = Counted(), True

    def tell(self, what):
        first, cnt = self.row[:2]
        self.forms.found("INDEX", self.forms.origin, first, "the chapter " + what, last=first + max(cnt, 1) - 1)

    def take(self, first, cnt, block):
        """A block that is there, None: it cannot be read, or not where it is."""
        while self.row and not self.blocks and (self.row[0] < max(first, self.edge) or self.row[1] < 1):
            self.tell("does not begin where a block does, or lies upon another")
            self.next()
        if not self.row or not self.blocks and self.row[0] != first:
            return
        self.whole = self.whole and block is not None and (not self.blocks or first == self.at)
        self.blocks, self.at = self.blocks + 1, first + cnt
        if self.whole:
            self.counted.add(block)
        if self.at - self.row[0] < self.row[1] and self.blocks < CHAPTER_BLOCKS:
            return
        wrong = self.whole and self.counted.wrong(*self.row)
        if self.at - self.row[0] != self.row[1]:
            self.tell("does not end where a block does, or has more blocks than one may have")
        elif wrong:
            self.tell(wrong)
        self.edge = self.row[0] + self.row[1]
        self.next()

    def end(self):
        while self.row:
            self.tell("has more records than there are in blocks")
            self.next()


def zone_may_have(zone, kinds):
    """Whether a block's zone says that it has records of these kinds, or cannot be read."""
    try:
        count, at = varint(zone, 0, "zone")
        values, at = varints(zone, at, 2 * count, "zone") if count <= ZONE_IDS else ([], at)
    except (Wrong, TypeError):
        return True
    return count > ZONE_IDS or not set(kinds).isdisjoint(itertools.accumulate(values[::2]))


# --- a proof, and what its record commits to

def for_people(name, form, value):
    """A column: names for numbers, UTC for times."""
    if form == "u":
        number = int.from_bytes(value, "big")
        more = NAMES[name].get(number) if name in NAMES else UNITS.get(name)
        return utc(number) if name == "ts" else f"{number} {more}" if more else str(number)
    if name == "cm":
        return ", ".join(f"{CTAGS.get(ctag, 'unknown')} {made.hex()}" for ctag, made in commitments(value).items())
    if form == "b" and name in ("call", "prev"):
        return "-".join(value.hex()[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))
    return value.hex() if form == "b" else value.decode()


TEXTS = {0x104: "ground", 0x105: "ticket", 0x106: "approver", 0x113: "reason", 0x114: "command", 0x11B: "decision",
         0x12C: "result"}


def for_people_ext(ext):
    """A line for each field; what is none, as the bytes that it is."""
    while len(ext) >= 6 and len(ext) - 6 >= struct.unpack(">I", ext[2:6])[0]:
        tag, length = struct.unpack(">HI", ext[:6])
        value, ext = ext[6:6 + length], ext[6 + length:]
        try:
            yield f"{tag:04x} {TEXTS[tag]} {safe(value.decode())}" if b"\0" not in value else f"{tag:04x} {value.hex()}"
        except (KeyError, UnicodeDecodeError):
            yield f"{tag:04x} {value.hex()}"
    if ext:
        yield ext.hex()


def openings(path, index):
    """The openings of a record, from what audit payload --opening says with --json: ctag, opening and value."""
    for line in read(path).splitlines():
        try:
            row = json.loads(line, object_pairs_hook=once)
            if row["index"] != index or row.get("opening") is None or row.get("value") is None:
                continue
            value = strict_base64(row["bytes"]) if "bytes" in row else row["value"].encode()
            key = bytes.fromhex(row["opening"])
            if key.hex() != row["opening"].lower():
                raise ValueError("blanks")
            yield number(row["ctag"]), key, value
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            raise ValueError("a line that audit payload --opening does not say")


def prove(path, opening, keys):
    record, index, note = check_proof(read(path), keys)
    values, status = fields(record), 0
    print(f"PROVED record {index} of {safe(note.origin)}, in a log of {note.size}")
    for name, (tag, form, *_) in COLUMNS.items():
        if tag in values and name == "ext":
            print("\n".join(f"  ext {line}" for line in list(for_people_ext(values[tag])) or [""]))
        elif tag in values:
            text = for_people(name, form, values[tag])
            print(f"  {name} {text if form == 'b' else safe(text)}")
    if opening:
        wanted, status = commitments(values.get(COLUMNS["cm"][0], b"")) if COLUMNS["cm"][0] in values else {}, 5
        for ctag, key, value in openings(opening, index):
            if mac(key, b"toolcrib/c/1\0", struct.pack(">H", ctag), value) != wanted.get(ctag):
                raise ValueError(f"this is not what the record commits to as its {CTAGS.get(ctag, 'value')}")
            print(f"OPENED {CTAGS.get(ctag, ctag)}: {safe(value.decode(errors='backslashreplace'))}")
            status = 0
        if status:
            print(f"verify.py: nothing opens what record {index} commits to", file=sys.stderr)
    return status


def prove_growth(path, anchor, keys):
    old = Note(read_bytes(anchor))
    note = check_consistency(read(path), old, keys)
    print(f"PROVED {safe(note.origin)} of size {note.size} goes on behind size {old.size}")
    return 0


# --- sealed files (contrib/doc/segment-format.md)

TILE, SEALED_RECORDS, SEALED_BYTES, SEALED_PAGE, SEALED_TEXT, NOTE_SIZE, PROOF_HASHES = 256, 4 << 20, 64 << 30, 8192, 512, 16384, 64


class Text(bytes):
    """A value that SQLite has as a text."""


class Sealed(Findings):
    """Records of one log, by themselves: nothing is believed that they do not lead to, or a key that you have."""

    def __init__(self, path, keys, each=None):
        super().__init__()
        self.path, self.keys, self.logs = path, keys or {}, 1
        self.db, self.each, self.ids = None, each, {}   # each: what else is to be done with each block; ids: Catalog's
        self.origin, self.first, self.end, self.epochs, self.pinned = "-", 0, 0, [], False
        self.times, self.shut, self.used, self.broken, self.misplaced = [], 0, 0, False, False

    def wrong(self, code, detail="", idx=None, last=None):
        self.found(code, self.origin, idx, detail, last=last)

    def check(self):
        try:
            self.open()
            self.info()
            self.sound()
            self.chain()
            self.checkpoint()
            self.texts()
            self.blocks()
            self.covered()
        except Wrong as wrong:
            self.wrong(*wrong.args)
        except sqlite3.DatabaseError as error:
            self.wrong("SEGMENT", f"the file cannot be read: {error}")

    def open(self):
        """What says that it is none is an error, no finding."""
        if os.path.islink(self.path):
            raise ValueError(f"{self.path} is a link")
        with open(regular(self.path), "rb") as file:
            head, size = file.read(100), os.fstat(file.fileno()).st_size
        if len(head) < 100 or head[:16] != b"SQLite format 3\0" or head[68:72] != struct.pack(">I", SEGMENT):
            raise ValueError("this is no sealed file")
        if size > SEALED_BYTES:
            raise ValueError(f"the file is larger than {SEALED_BYTES} bytes")
        if head[16:20] != b"\x20\0\1\1":
            raise Wrong("SEGMENT", "the file was not made as sealed files are")
        said = struct.unpack(">I", head[28:32])[0] * SEALED_PAGE
        if size != said:
            raise Wrong("SEGMENT", f"the file has {size} bytes, and says that it has {said}: it was cut, or something was added")
        self.db = open_store(self.path, True)
        foreign = schema(self.db, SEGMENT)
        if foreign and foreign[0] == "NOT_CHECKED":
            raise ValueError(foreign[1])
        if foreign:
            raise Wrong("SEGMENT", foreign[1])
        self.db.text_factory = Text

    def close(self):
        if self.db:
            self.db.close()

    def sound(self):
        said = self.db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if said != b"ok":
            self.wrong("SEGMENT", said.decode(errors="replace"))

    def rows(self, sql, *kinds):
        for row in self.db.execute(sql):
            if [type(value) for value in row] != list(kinds):
                raise Wrong("SEGMENT", "a column has a value of another kind")
            yield row

    def info(self):
        rows = list(itertools.islice(self.rows(
            "SELECT origin, from_idx, to_idx, from_peaks, to_peaks, epoch, note, growth, release FROM info",
            Text, int, int, bytes, bytes, int, bytes, bytes, Text), 2))
        try:
            (origin, first, end, before, after, self.epoch, self.note, growth, release), = rows
            named = origin.decode(), release.decode()
            if not 0 <= first < end <= BIG - BLOCK_RECORDS or first % TILE or end % TILE or end - first > SEALED_RECORDS or \
                    len(before) != 32 * bin(first).count("1") or len(after) != 32 * bin(end).count("1") or self.epoch < 0 or \
                    not 0 < len(origin) <= 255 or not 0 < len(release) <= 63 or any("\0" in name for name in named) or \
                    not 0 < len(self.note) <= NOTE_SIZE or len(growth) % 32 or len(growth) > 32 * PROOF_HASHES:
                raise ValueError("info")
        except ValueError:
            raise Wrong("SEGMENT", "table info does not say what a sealed file is of")
        self.origin, self.first, self.end, self.next = named[0], first, end, first
        self.tree, self.after, self.growth = Tree(first, pieces(before)), Tree(end, pieces(after)), pieces(growth)
        self.before = self.tree.root()

    def chain(self):
        self.instance = self.origin.partition("/t/")[0]
        for n, key, cert in self.db.execute("SELECT n, pk, cert FROM epoch ORDER BY n"):
            if type(n) is not int or type(key) is not bytes or len(key) != 32 or cert is not None and (
                    type(cert) is not bytes or len(cert) != 64):
                self.wrong("SEGMENT", "table epoch has what is no key")
                return
            pin = self.keys.get(f"{self.instance}/e/{n}")
            if n != len(self.epochs) or n > self.epoch or pin not in (None, key) or (cert is None) != (n == 0) or \
                    n and not signed_by(self.epochs[-1], b"epoch" + struct.pack(">Q", n) + key, cert):
                self.wrong("KEYCHAIN", "an epoch does not follow from the one before, or is not the pinned one")
                return
            self.pinned |= pin is not None
            self.epochs.append(key)

    def checkpoint(self):
        try:
            note = Note(self.note)
            if of_log(note.origin)[0] != self.origin or note.size < self.end:
                raise ValueError(note.size)
        except ValueError:
            self.wrong("PARSE", "the note is malformed, of another log, or does not cover the records")
            return
        if self.epoch >= len(self.epochs) or not note.signed_by(f"{self.instance}/e/{self.epoch}", self.epochs[self.epoch]):
            self.wrong("CP_SIG", "the checkpoint is not signed by the key of its epoch")
        if not consistent(self.end, note.size, self.growth, self.after.root(), note.root):
            self.wrong("ROOT", "the tree behind the records does not lead to the note")
        if not self.pinned:
            self.wrong("NOT_CHECKED", "no key is pinned: the checkpoint is signed by keys of the file itself")

    def texts(self):
        """How many there are, and the digest over blocks and texts."""
        digest, self.count = hashlib.sha256(), 0
        for row in self.all_blocks():
            digest.update(b"b" + struct.pack(">5q", *row[:5]) + b"".join(struct.pack(">q", len(part)) + part for part in row[5:]))
        for number, kind, text in self.rows("SELECT id, kind, text FROM text NOT INDEXED ORDER BY id", int, int, Text):
            self.count += 1
            if number != self.count:
                raise Wrong("SEGMENT", "ids of table text are not those from 1 on")
            digest.update(b"t" + struct.pack(">3q", number, kind, len(text)) + text)
        self.digest = digest.hexdigest()

    def all_blocks(self):
        return self.rows("SELECT first, cnt, fmt, ts_min, ts_max, cols, hash, zone FROM blk ORDER BY first", *[int] * 5, *[bytes] * 3)

    def text(self, tag, number):
        """What an id stands for; one that stands for nothing is told."""
        row = self.db.execute("SELECT kind, text FROM text WHERE id = ?", (number,)).fetchone()
        try:
            if row[0] == tag and type(row[1]) is Text and len(row[1]) <= SEALED_TEXT and row[1].decode():
                return bytes(row[1])
            if row[0] == tag and row[1] == b"" and type(row[1]) is Text:
                return b""
        except (TypeError, ValueError):
            pass
        self.broken = True
        self.wrong("DICT", f"no text {number} of kind {tag}")
        return NO_TEXT

    def blocks(self):
        self.beside = self.kept()
        self.left = self.next_kept()
        for row in self.all_blocks():
            first, cnt = row[:2]
            if not 1 <= cnt <= BLOCK_RECORDS or not self.next <= first < self.end or cnt > self.end - first:
                self.broken = True
                self.wrong("GAP", "a block is not where its records have to be")
                continue
            if first > self.next:
                self.broken = True
                self.wrong("GAP", "a block is missing", self.next, first - 1)
            self.next = first + cnt
            if first // BLOCK_RECORDS != (self.next - 1) // BLOCK_RECORDS:
                self.wrong("PARSE", "the block goes over a multiple of 4096", first, self.next - 1)
            try:
                block = Block(*row[:3], *row[5:7])
            except (Wrong, Later) as error:
                self.broken = True
                self.wrong(*(error.args if isinstance(error, Wrong) else ("NOT_CHECKED", "a block of a later release")), first, self.next - 1)
                continue
            self.block(block, row)

    def block(self, block, row):
        try:
            block.derived(row[3], row[4], row[7])
        except Wrong as wrong:
            self.wrong(*wrong.args, block.first, self.next - 1)
        for leaf in block.leaves(self.origin, self.text):
            self.tree.append(leaf)
        self.records += block.cnt
        self.times += [min(block.columns["ts"]), max(block.columns["ts"])]
        self.times = [min(self.times), max(self.times)]
        named = [block.columns[name] for name in COLUMN_NAMES if COLUMNS[name][1] == "d" and name in block.columns]
        named = [column for column in named if max(filter(None, column), default=0) > self.used]       # others say nothing new
        for number in (value for values in zip(*named) for value in values if value is not None):
            if number == self.used + 1:
                self.used = number
            elif number > self.used and not self.misplaced:
                self.misplaced = True
                self.wrong("DICT", "ids of texts do not ascend in the order in which records use them")
        while self.left and self.left[0] < self.next:
            idx, payload = self.left
            code = self.payload(*((block.columns.get(name) or [None] * block.cnt)[idx - block.first] for name in ("cm", "sh", "n_sto")),
                                *payload) if idx >= block.first else None
            if code:
                self.wrong(code, idx=idx)
            self.left = self.next_kept()
        if self.each and not self.broken:
            self.each(block)

    def kept(self):
        """Index, and salt, nonce and ciphertext, of each record beside which something is kept."""
        at = self.first
        for first, body in self.rows("SELECT first, body FROM blkpay ORDER BY first", int, bytes):
            payloads = read_payloads(body)
            if not at <= first < self.end or first % TILE + len(payloads) > TILE:
                raise Wrong("SEGMENT", "a group of what is kept is of no records of this file, or of more than one tile")
            at = first + len(payloads)
            for idx, payload in enumerate(payloads, first):
                if payload[0] is not None:
                    yield idx, payload

    def next_kept(self):
        try:
            return next(self.beside, None)
        except Wrong as wrong:
            self.wrong("SEGMENT", wrong.args[1])
            return None

    def payload(self, cm, sh, stored, salt, nonce, ct):
        if cm is None:
            return "PAYLOAD_EXTRA"
        if len(salt) != 16 or sh and hashlib.sha256(b"toolcrib/s/1\0" + salt).digest()[:16] != sh:
            return "PAYLOAD"
        if not stored:
            return "PAYLOAD" if ct is not None or not sh else None
        if len(nonce or b"") != 24 or len(ct or b"") < 16:
            return "PAYLOAD"
        self.shut += 1
        return None

    def covered(self):
        if self.next < self.end:
            self.broken = True
            self.wrong("GAP", "a block is missing", self.next, self.end - 1)
        if not self.broken and self.tree.root() != self.after.root():
            self.wrong("ROOT", "the records do not give the root behind them", self.first, self.end - 1)
        if not self.broken and not self.misplaced and self.used != self.count:
            self.wrong("DICT", "there are texts that no record uses")
        while self.left:
            self.left = self.next_kept()


def pieces(data):
    return [data[at:at + 32] for at in range(0, len(data), 32)]


def is_sealed(path):
    """By its name, or by what it says."""
    try:
        if path.endswith(".tcs"):
            return True
        with open(regular(path), "rb") as file:
            return file.read(72)[68:] == struct.pack(">I", SEGMENT)
    except (OSError, ValueError):
        return False


def join(files, all):
    """Of each log, those that are whole begin where the one before ends, with the tree that it ends with."""
    for origin, group in itertools.groupby(sorted(files, key=lambda file: (file.origin, file.first, file.end)), lambda file: file.origin):
        all.logs, last = all.logs + 1, None
        for file in group:
            if file.bad:
                continue
            if last and file.first > last.end:
                all.found("SEGMENT_MISSING", origin, last.end, "no file that is whole has these records", last=file.first - 1)
            elif last and file.first < last.end:
                all.found("SEGMENT", origin, file.first, "two files have these records", last=min(file.end, last.end) - 1)
            elif last and file.before != last.after.root():
                all.found("ROOT", origin, file.first, "the file does not begin with the tree that the one before it ends with")
            last = file if not last or file.end > last.end else last


def print_sealed(file):
    if file.end:
        print(f"sealed file of {safe(file.origin)}, records {file.first}-{file.end - 1}",
              *([f"from {utc(file.times[0])} to {utc(file.times[1])}"] if file.times else []), sep=", ")
        print("its digest is", getattr(file, "digest", "not known"))


def check_sealed(paths, keys):
    all, files, unread = Findings(), [], None
    for path in paths:
        file = Sealed(path, keys)
        try:
            file.check()
        except (ValueError, OSError, sqlite3.Error) as error:
            print(f"verify.py: {safe(path)}: {safe(error)}", file=sys.stderr)
            unread = 3
            continue
        file.close()
        file.tell()
        print_sealed(file)
        files.append(file)
    join(files, all)
    all.tell()
    all.records, all.bad, all.gaps = (sum(getattr(file, name) for file in (*files, all)) for name in ("records", "bad", "gaps"))
    status, said = all.sum()
    if unread and not all.bad:
        return unread
    shut = sum(file.shut for file in files)
    print(("whether calls pair, clocks and the registry were not looked at" if len(paths) > 1 else
           "alone: whether calls pair, clocks, the registry and the records around it were not looked at") +
          (f"; {shut} kept values not opened" if shut else ""))
    print(said)
    return status


# --- sealed files of a store (table seg)

FILES_OPEN = 2                  # at once
Listed = collections.namedtuple("Listed", "first end ts_min ts_max digest root set_by moved_by path")


class Counting:
    """Whether the store has the chapters that a file's records make up: each as long as it can be, none over a multiple of the most
    records that one can have."""

    def __init__(self, catalog, listed):
        self.catalog, self.file, self.same, self.lost = catalog, None, True, None
        self.first, self.end, self.counted = listed.first, listed.first, None
        self.rows = catalog.db.execute("SELECT first, cnt, ts_min, ts_max, zone, sums FROM chap WHERE log = ?1 AND first < ?3 AND "
                                       "(first >= ?2 OR first + cnt > ?2 OR ?4) ORDER BY first",
                                       (catalog.forms.number, listed.first, listed.end, listed is catalog.listed[0]))

    def add(self, block):
        try:
            self.catalog.turn(self.file, block)
        except Wrong as wrong:
            self.lost, self.file.each = wrong.args[1], None
            return
        if block.first // CHAPTER_RECORDS != self.first // CHAPTER_RECORDS:
            self.compare()
            self.first = block.first
        self.counted, self.end = self.counted or Counted(), block.first + block.cnt
        self.counted.add(block)

    def compare(self):
        row = next(self.rows, None)
        self.same = bool(self.same and row and row[:2] == (self.first, self.end - self.first) and not self.counted.wrong(*row))
        self.counted = None

    def all_same(self):
        self.compare()
        return self.same and next(self.rows, None) is None


class Catalog:
    """The sealed files of a log, and their records with ids of the store's texts."""

    def __init__(self, forms):
        self.forms, self.db, self.found = forms, forms.db, forms.found
        moved = "moved_by"
        try:
            self.db.execute("SELECT moved_by FROM seg LIMIT 0")
        except sqlite3.OperationalError:        # of an older release
            moved = "-1"
        rows = self.db.execute(f"SELECT from_idx, to_idx, ts_min, ts_max, digest, root, set_by, coalesce({moved}, -1), CAST(path AS BLOB) "
                               "FROM seg WHERE log = ? ORDER BY from_idx", (forms.number,)).fetchall()
        self.odd = any([type(value) for value in row] != [int] * 4 + [bytes] * 2 + [int, int, bytes] for row in rows)
        self.any = bool(rows)
        self.listed = [] if self.odd else [Listed(*row[:-1], row[-1].decode(errors="replace")) for row in rows]
        self.end = rows[-1][1] if rows and type(rows[-1][1]) is int and rows[-1][1] > 0 else -1 << 63
        self.why = {}                   # first -> why this file is not read
        self.by_record = {}
        for row in self.listed:
            self.by_record.setdefault(row.set_by, row)
            self.by_record.setdefault(row.moved_by, row)
        self.away = False               # a file is in an archive that is not here
        self.met, self.opened = 0, collections.OrderedDict()    # records of files; first -> Sealed
        self.recent = collections.OrderedDict()                 # first -> Block, those that were asked for last

    # each by itself, and beside its row

    def tell(self, code, row, what):
        """What the catalog lists is said to be here, unless it is in an archive: without it the store is not whole."""
        gap = self.was_moved(row) if code == "SEGMENT_MISSING" else None
        place = (row.first, row.end - 1) if row.first >= 0 else (None, None)
        self.found(code, self.forms.origin, place[0], what, gap, place[1], alone=True)

    def check(self, start=0, end=BIG):
        """Those that have records of this part."""
        if self.odd:
            self.found("SEGMENT", self.forms.origin, detail="the catalog has a row that no release writes")
        behind = self.forms.first
        for row in self.listed:
            if row.first != behind or row.end <= row.first:
                self.tell("SEGMENT", row, "a file does not begin where the one before it ends")
            behind = row.end
            if row.first < end and row.end > start:
                self.look(row)

    def look(self, row):
        try:
            path = self.place(row)
        except Wrong as wrong:
            code, what = wrong.args
            self.away |= code == "SEGMENT_MISSING" and row.path.startswith("/")
            self.tell(code, row, f"{row.path}: {what}")
            self.why[row.first] = f"the sealed file {row.path} is {'not here' if code == 'SEGMENT_MISSING' else 'called as none is'}"
            return
        counting = Counting(self, row)
        counting.file = file = Sealed(path, None, counting.add)
        try:
            file.check()
            self.compare(row, file, counting)
        except (ValueError, OSError, sqlite3.Error) as error:
            self.tell("SEGMENT", row, f"{row.path}: {error}")
        finally:
            file.close()

    def compare(self, row, file, counting):
        for code, _, idx, last, detail, gap in file.findings:
            if not gap:                 # whose keys have signed, the store says
                self.found(code, self.forms.origin, idx, f"{row.path}: {detail or 'it is damaged'}", last=last, alone=True)
        if file.bad:
            return
        if (file.origin, file.first, file.end, file.digest, file.after.root()) != (
                self.forms.origin, row.first, row.end, row.digest.hex(), row.root):
            self.tell("SEGMENT", row, f"{row.path}: it is another file than the catalog says")
            return
        if file.broken or counting.lost:        # by a block of a later release
            self.tell("DICT" if counting.lost else "NOT_CHECKED", row, f"{row.path}: {counting.lost or 'a block of a later release'}")
            return
        if not counting.all_same():
            self.tell("INDEX", row, f"{row.path}: its chapters are not what its records come to")
        if file.times != [row.ts_min, row.ts_max]:
            self.tell("INDEX", row, f"{row.path}: its records have other times than the catalog says")

    def place(self, row):
        """Its path.  A row may say anything, and links may lead anywhere: outside of the store's folder nothing is opened but what is
        called as a file in an archive, and is no link."""
        if re.fullmatch(rf"(/(?![.]{{1,2}}/)[^/]+)+(?<!/segments)/{self.forms.number}/[0-9]{{6}}-{row.first}[.]tcs", row.path) and len(row.path.encode()) < 512:
            if not os.path.lexists(row.path):
                raise Wrong("SEGMENT_MISSING", "it is not here")
            return row.path
        if not re.fullmatch(rf"segments/{self.forms.number}/[0-9]{{6}}-{row.first}[.]tcs", row.path):
            raise Wrong("SEGMENT", "no sealed file of these records is called so")
        home = os.path.realpath(self.forms.verifier.folder or "")
        folder, name = os.path.split(os.path.join(home, row.path))
        if os.path.commonpath([home, os.path.realpath(folder)]) != home:
            raise OSError(f"{folder} leads out of the folder of the store, where nothing is opened: verify a copy that has the files in it")
        path = os.path.join(os.path.realpath(folder), name)
        if not os.path.exists(path):
            raise Wrong("SEGMENT_MISSING", "it is not here")
        return path

    # the records that say that they were sealed

    def was_moved(self, row):
        """Also while its log cannot be read to its end, a record has to say that it is elsewhere."""
        try:
            record = self.forms.record(row.moved_by) if row.path.startswith("/") and row.moved_by >= 0 else None
            return bool(record and record["kind"] == MOVE and self.is_said(row, fields(record["ext"] or b""), True))
        except (Unread, ValueError, struct.error):
            return False

    @staticmethod
    def is_said(row, said, moved):
        return said.get(0x102) == struct.pack(">QQ", row.first, row.end) and \
            (said.get(0x107), said.get(0x108)) == (row.digest, row.root) and \
            (not moved or said.get(0x113) == row.path.encode(errors="replace"))

    def said(self, record):
        row, moved = self.by_record.get(record["idx"]), record["kind"] == MOVE
        try:
            said = fields(record["ext"] or b"")
            if not row and moved and any(said.get(0x102)[:8] == struct.pack(">Q", other.first) and other.moved_by > record["idx"]
                                         for other in self.listed):
                return                  # it was moved again
            if not row and struct.unpack(">QQ", said.get(0x102))[1] <= self.forms.first:
                return                  # it was pruned with its records
            good = row and self.is_said(row, said, moved) and (row.moved_by if moved else row.set_by) == record["idx"]
        except (TypeError, ValueError, struct.error):
            good = False
        if good:
            self.met += 1
        else:
            self.found("SEGMENT", self.forms.origin, record["idx"], "the catalog has no such file as this record says", alone=True)

    def all_said(self):
        if self.met < sum((row.set_by >= self.forms.first) + (row.moved_by >= self.forms.first or row.moved_by < 0 and row.path.startswith("/"))
                          for row in self.listed):
            self.found("SEGMENT", self.forms.origin, detail="the catalog has a file that no record says was sealed, or moved there")

    # reading

    def miss(self):
        """What is not found may be in a file that cannot be read."""
        for why in self.why.values():
            raise Unread(why)

    def file(self, row):
        """An open one.  Unread: it is not here, none, or of other records."""
        if row.first in self.why:
            raise Unread(self.why[row.first])
        if row.first in self.opened:
            self.opened.move_to_end(row.first)
            return self.opened[row.first]
        try:
            file = Sealed(self.place(row), None)
            file.open()
            file.info()
            if (file.origin, file.first, file.end) != (self.forms.origin, row.first, row.end):
                raise ValueError("it has other records")
        except (ValueError, OSError, sqlite3.Error) as error:
            raise Unread(f"the sealed file {row.path} cannot be read: {error.args[-1]}")
        self.opened[row.first] = file
        if len(self.opened) > FILES_OPEN:
            self.opened.popitem(last=False)[1].close()
        return file

    def block(self, row, idx):
        """The block of a file that has this record."""
        for block in self.recent.values():
            if block.listed is row and 0 <= idx - block.first < block.cnt:
                return block
        file = self.file(row)
        try:
            block = Block(*file.db.execute("SELECT first, cnt, fmt, cols, hash FROM blk WHERE first <= ? ORDER BY first DESC LIMIT 1",
                                           (idx,)).fetchone())
            if idx - block.first >= block.cnt:
                raise ValueError(f"it has no record {idx}")
            self.turn(file, block)
        except (TypeError, ValueError, sqlite3.Error) as error:
            raise Unread(f"the sealed file {row.path} cannot be read: {error.args[-1]}")
        block.listed = row
        self.recent[block.first] = block
        if len(self.recent) > BLOCKS_KEPT:
            self.recent.popitem(last=False)
        return block

    def at(self, idx):
        """The row of the file that has this record.  Unread: there is none."""
        at = bisect.bisect([row.first for row in self.listed], idx) - 1
        if at < 0 or idx >= self.listed[at].end:
            raise Unread(f"no sealed file has record {idx} of log {self.forms.number}")
        return self.listed[at]

    def block_at(self, idx):
        """The same, or None."""
        try:
            return self.block(self.at(idx), idx)
        except Unread:
            return None

    def blocks(self, start):
        """From the one on that has this record, or all."""
        at = max(self.forms.first, start or 0)
        while at < self.end:
            row = self.at(at)
            while at < row.end:
                block = self.block(row, at)
                yield block
                at = block.first + block.cnt

    def of_kinds(self, kinds, backwards):
        """Blocks that may have records of these kinds, of files that can be read."""
        for row in reversed(self.listed) if backwards else self.listed:
            try:
                firsts = [first for first, zone in self.file(row).db.execute(
                    f"SELECT first, zone FROM blk ORDER BY first {'DESC' if backwards else 'ASC'}") if zone_may_have(zone, kinds)]
            except (Unread, sqlite3.Error):
                continue
            yield from filter(None, map(self.block_at, firsts))

    def turn(self, file, block):
        """Ids of the file's texts into those of the store.  Wrong: it has no such text."""
        for name in COLUMN_NAMES:
            tag, form, *_ = COLUMNS[name]
            if form == "d" and name in block.columns:
                ids = {number: self.id(file, name, tag, number) for number in set(block.columns[name]) - {None}}
                block.columns[name] = list(map(ids.get, block.columns[name]))

    def id(self, file, name, tag, number):
        if (tag, number) not in file.ids:
            text = file.text(tag, number)
            found = text is not NO_TEXT and self.db.execute("SELECT id FROM dict WHERE kind = ? AND text = ?", (tag, text.decode())).fetchone()
            if not found:
                raise no_block(f"{name}/{number}", "the dictionary has no such id of this kind")
            if len(file.ids) > 1 << 16:
                file.ids.clear()
            file.ids[tag, number] = found[0]
        return file.ids[tag, number]

    def kept_of(self, block):
        """What is kept of each record of a block.  Groups lie in one tile, beside each other, and may lie in two blocks."""
        kept, end = [NOTHING_KEPT] * block.cnt, block.first + block.cnt
        try:
            for first, body in self.file(block.listed).db.execute(
                    "SELECT first, body FROM blkpay WHERE first >= coalesce((SELECT max(first) FROM blkpay WHERE first <= ?1), ?1) AND "
                    "first < ?2 ORDER BY first", (block.first, end)):
                for idx, payload in enumerate(read_payloads(body), first):
                    if block.first <= idx < end:
                        kept[idx - block.first] = payload
        except (TypeError, ValueError, sqlite3.Error) as error:
            raise Unread(f"the sealed file {block.listed.path} cannot be read: {error.args[-1]}")
        return kept


def verify(args, keys):
    path = os.path.join(args.store, "toolcrib.db") if os.path.isdir(args.store) else args.store
    verifier = Verifier(open_store(path), keys, args.signer_state and read(args.signer_state),
                        [read(name).encode() for name in args.anchor], args.keys and PayloadKeys(args.keys),
                        (args.start or 0, BIG if args.end is None else args.end) if (args.start, args.end) != (None, None) else None,
                        os.path.dirname(path))
    verifier.store()
    status, said = verifier.tell(not verifier.pinned and not verifier.unread)
    if verifier.since:
        print("old versions, settings, holds and tenants of logs not vouched for before",
              datetime.datetime.fromtimestamp(verifier.since / 1e6, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))
    print(said)
    if status == 3:
        print("verify.py: no key is pinned: whoever wrote the store may have signed it; --key takes those that you keep",
              file=sys.stderr)
    return status


def main():
    parser = argparse.ArgumentParser(description="Verify a toolcrib store, or a proof, without code of toolcrib.")
    parser.add_argument("--key", metavar="KEYS", help="public keys that you keep outside the store: a file, or one key")
    parser.add_argument("--signer-state", metavar="FILE", help="the file state of toolcrib-sign")
    parser.add_argument("--anchor", metavar="NOTE", action="append", default=[], help="a checkpoint that was taken outside")
    parser.add_argument("--keys", metavar="DIR", help="open payloads with keys.db and the key files of this folder")
    parser.add_argument("--from", metavar="INDEX", type=int, dest="start", help="of each log, records from this one on, or some before it")
    parser.add_argument("--to", metavar="INDEX", type=int, dest="end", help="of each log, records before this one")
    parser.add_argument("--bundle", metavar="FILE", help="check this bundle of records")
    parser.add_argument("--proof", metavar="FILE", help="check this proof of one record")
    parser.add_argument("--opening", metavar="FILE", help="with --proof: what audit payload --opening said, with --json")
    parser.add_argument("--consistency", metavar="FILE", help="check that the log only grew since the checkpoint of --anchor")
    parser.add_argument("store", nargs="*", help="the store's folder, its toolcrib.db, or a copy of it; or sealed files")
    args = parser.parse_args()
    if any(word.startswith("postgresql:") for word in args.store):
        parser.error("it reads files alone: toolcrib store move --from URL --copy makes them of a store on PostgreSQL")
    sealed = args.store if args.store and all(map(is_sealed, args.store)) else []
    if len(args.store) > 1 and not sealed:
        parser.error("one store, or sealed files")
    args.store = args.store[0] if args.store else None
    if (args.proof, args.consistency, args.bundle, args.store).count(None) != 3 or args.proof and not args.key or args.opening and not args.proof:
        parser.error("a store, or --bundle, or --proof with --key and perhaps --opening, or --consistency with --key and --anchor")
    if args.consistency and (not args.key or len(args.anchor) != 1 or args.signer_state or args.keys):
        parser.error("--consistency needs --key, and --anchor with the old checkpoint")
    if sealed and (args.signer_state or args.anchor or args.keys or (args.start, args.end) != (None, None)):
        parser.error("of a sealed file nothing but --key has a meaning")
    if (args.start, args.end) != (None, None) and (not args.store or not 0 <= (args.start or 0) < (BIG if args.end is None else args.end)):
        parser.error("--from and --to are of a store, and leave some records between them")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, resource.getrlimit(resource.RLIMIT_AS)[1]))
    try:
        keys = args.key and parse_keys(read(args.key) if os.path.exists(args.key) else args.key)
        if args.proof:
            return prove(args.proof, args.opening, keys)
        if args.consistency:
            return prove_growth(args.consistency, args.anchor[0], keys)
        return check_bundle(args.bundle, keys) if args.bundle else check_sealed(sealed, keys) if sealed else verify(args, keys)
    except (ValueError, struct.error) as error:
        print(f"verify.py: {safe(error)}", file=sys.stderr)
        return 4 if args.proof or args.consistency else 3
    except (sqlite3.Error, OSError, MemoryError) as error:
        print(f"verify.py: {safe(error) or 'a value takes too much memory'}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
