#!/usr/bin/env python3
"""An independent verifier of a toolcrib store, for the sceptic: Python 3.8 and its standard library, no code of toolcrib.

    verify.py [--key KEYS] [--signer-state FILE] [--anchor NOTE] [--keys DIR] /var/lib/toolcrib/toolcrib.db
    verify.py --key KEYS --proof FILE

The file is opened read-only; the server may run.  Each record is a row of table rec.  Its bytes are the letters TCAR,
its encoding number, then each column that is not NULL as two bytes of tag, four of length and the value, tags
ascending: integers as eight bytes, ids of the dictionary and of logs as the text that they stand for.  The leaf is
SHA-256(0x00 || bytes); the leaves of a log are the leaves of a Merkle tree (RFC 6962), whose root stands in table head.

Table cp holds checkpoints: signed notes (C2SP signed-note, tlog-checkpoint) of origin, size and root of a log, with a line
of the log key under the log's origin and a line of the key of an epoch under "<instance>/e/<number>".  Table epoch holds
the epochs' keys; the key of each but the first is certified by the one before.  KEYS is a file with the keys that you
keep outside, "NAME+ID+KEY" each on a line, as "toolcrib audit keys" prints them, or such a line itself.  The signer's
state and a note that was taken outside show what a store has lost since.

What records commit to (column cm) is kept, encrypted, in table pay; with --keys it is opened and compared.  A record of a
change has the numbers of the rows that it made (tag 0103 of ext) and their digests (010c): the rows must still be those.

A proof (C2SP tlog-proof) shows one record to be in a log, without the store.

Prints a line for each finding and one for the sum.  Exit status: 0 intact, 4 damaged, 5 intact as far as could be seen,
3 the store cannot be read, 2 usage."""
import argparse
import base64
import hashlib
import hmac
import os
import re
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
BEGIN, END, RECOVERED, ALIAS, START, STOP, CRASH, ADMIN, COMMIT = 1001, 1002, 1004, 1104, 1601, 1602, 1603, 1701, 2001
PRUNE, ERASE, ERASE_DONE = 1904, 1906, 1907
# Rows of the registry: what records call them, the columns that count.  The digest is over these in this order.
ROWS = (
    ("tenant", "id, name, title, state, concurrency, rate_count, rate_per_s, created_us, sandbox, audit_level FROM tenant"),
    ("principal", "id, tenant_id, pseudonym, state, created_us FROM principal"),
    ("cred", "id, tenant_id, principal_id, accessor, hash, created_us, expires_us, revoked_us, not_before_us, scopes, cidr, "
             "arg_rules, rotated_us, old_hash, old_until_us, enrol_ttl_us, parent_id, expired_us, suspended_us FROM cred"),
    ("grant", "id, tenant_id, glob, alias, concurrency, rate_count, rate_per_s, created_us FROM tool_grant"),
    ("tool", "tool.id, name, state, tool.version, tool.created_us, kind, uri, digest, definition FROM tool "
             "LEFT JOIN tool_version v ON v.tool_id = tool.id AND v.version = tool.version"),
    ("schema", "id, uri, state, digest, definition, created_us FROM shared_schema"),
    ("upstream", "id, name, state, definition, digest, prefix, created_us FROM upstream"),
    ("secret", "id, name, created_us, changed_us FROM secret"),
    ("limit", "id, tenant_id, scope, subject, concurrency, queue, rate_count, rate_per_s, requests_count, requests_per_s, calls_day, "
              "bytes_day FROM limit_row"),
    ("level", "id, tenant_id, tool, level FROM tool_level"),
    ("upstream_tool", "id, upstream_id, remote, tool_id, pinned FROM upstream_tool"),
)
TABLES = ("rec", "dict", "log", "head", "cp", "epoch", "tenant")
GAPS = {"DANGLING", "NOT_CHECKED", "KEY_MISSING"}


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
        left, right = multiply(s, BASE), add(point(signature[:32]), multiply(h, point(key)))
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
        self.db = sqlite3.connect(f"file:{folder}/keys.db?mode=ro", uri=True)
        self.wrapping, self.known = {}, {}
        for name in os.listdir(folder):
            if name == "master.key" or re.fullmatch("secret-[0-9a-f]{16}[.]key", name):
                with open(os.path.join(folder, name), "rb") as file:
                    key = file.read()
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


def check_proof(text, keys):
    """The record, its index and the checkpoint of a proof; ValueError says what is wrong with it."""
    head, found, note = text.partition("\n\n")
    lines = head.split("\n")
    if not found or len(lines) < 3 or lines[0] != "c2sp.org/tlog-proof@v1" or not lines[1].startswith("extra ") or \
            not re.fullmatch(r"index (0|[1-9][0-9]*)", lines[2]):
        raise ValueError("not a proof")
    record, index = strict_base64(lines[1][6:]), int(lines[2][6:])
    path, note = [strict_base64(line) for line in lines[3:]], Note(note.encode())
    key = next((key for name, key in keys.items() if name == note.origin or note.origin.startswith(name + "/t/")), None)
    if not key or not note.signed_by(note.origin, key):
        raise ValueError(f"the checkpoint of {note.origin} is not signed by a key that you gave")
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


# --- the store

class Verifier:
    def __init__(self, db, keys=None, state=None, anchors=(), payload_keys=None):
        self.db, self.findings, self.records, self.logs = db, [], 0, 0
        self.entries, self.sums = {}, {}
        self.keys, self.state, self.anchors = keys, state, anchors
        self.epochs, self.instance, self.stopped, self.life = [], None, False, None
        self.payload_keys = payload_keys
        self.said = {}                  # (kind, id) of a row -> time, log, index, digest: the newest record of it
        self.changed = self.adopted = 0         # times of the first change, of the last start that took rows as they were
        self.tombs = []                 # of the log that was read: index, from, to, keys, done
        self.wanted = {}                # origin -> {size: [(code, root, detail)]}: roots that others vouch for

    def found(self, code, origin="-", idx=None, detail="", gap=None):
        """Neighbours of one kind in one log are one finding."""
        last = self.sums.get((code, origin))
        if idx is not None and last and last[3] == idx - 1:
            last[3] = idx
            return
        self.sums[code, origin] = finding = [code, origin, idx, idx, detail, code in GAPS if gap is None else gap]
        self.findings.append(finding)

    def want(self, origin, size, code, root, detail=""):
        self.wanted.setdefault(origin, {}).setdefault(size, []).append((code, root, detail))

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
        leaf = leaf_hash(out)
        if row["leaf"] is not None and row["leaf"] != leaf:
            self.found("LEAF", origin, row["idx"])
        return leaf

    def pair(self, origin, row, running, first):
        who = tuple(row[name] for name in ("cred", "prn", "tool"))
        if row["kind"] == BEGIN and row["call"] is not None and row["call"] not in running:
            running[row["call"]] = (row["idx"], who, row["ts"])
        elif row["kind"] in (END, RECOVERED):
            pruned = row["beg"] is not None and row["beg"] < first
            if running.pop(row["call"], (None,) * 3)[:2] != (row["beg"], who) and not pruned:
                self.found("PAIRING", origin, row["idx"])
        elif row["kind"] == BEGIN:
            self.found("PAIRING", origin, row["idx"])

    def may_run(self, ts):
        """Of a call without an end: it runs, when it began after the last start and no stop or crash came since."""
        return self.life is not None and self.life[0] == START and ts is not None and ts >= self.life[1]

    # --- checkpoints

    def chain(self):
        """The keys of the epochs, each certified by the one before, the first one pinned."""
        pinned = self.keys.get(f"{self.instance}/e/0") if self.keys else None
        for n, key, cert in self.db.execute("SELECT n, pk, cert FROM epoch ORDER BY n"):
            at = len(self.epochs)
            if n != at or not isinstance(key, bytes) or len(key) != 32:
                self.found("KEYCHAIN", detail=f"epoch {n}")
                return
            if at == 0 and pinned not in (None, key):
                self.found("KEYCHAIN", detail="epoch 0 is not the one that you pinned")
            if at > 0 and not (isinstance(cert, bytes) and
                               signed_by(self.epochs[-1], b"epoch" + struct.pack(">Q", n) + key, cert)):
                self.found("KEYCHAIN", detail=f"epoch {n}")
            self.epochs.append(key)

    def note(self, number, origin, size, epoch, data):
        """A stored note, if it is good."""
        try:
            note = Note(data)
            log_key = self.keys and self.keys.get(self.instance)
            good = (note.origin == origin and note.size == size and 0 <= epoch < len(self.epochs) and
                    note.signed_by(f"{self.instance}/e/{epoch}", self.epochs[epoch]) and
                    (not log_key or note.signed_by(origin, log_key)))
        except (ValueError, TypeError):
            good = False
        if not good:
            self.found("CP_SIG", origin, size)
        return note if good else None

    def checkpoints(self, number, origin):
        """What the notes of a log say; the size that the newest one covers."""
        newest, last, seen = 0, -1, set()
        for size, epoch, data in self.db.execute("SELECT size, epoch, note FROM cp WHERE log = ? ORDER BY size", (number,)):
            note = self.note(number, origin, size, epoch, data)
            if epoch < last:
                self.found("CP_ORDER", origin, size)
            last = max(last, epoch)
            seen.add(epoch)
            newest = max(newest, size)
            if note:
                self.want(origin, size, "ROOT", note.root)
        if origin == self.instance and self.epochs:
            for n in set(range(len(self.epochs))) - seen:
                self.found("EPOCH_GAP", origin, detail=f"epoch {n}")
        return newest

    def outside(self):
        """What the signer and the anchors have seen."""
        if self.state:
            for line in self.state.split("\n"):
                word = line.split(" ")
                if word[0] == "log" and int(word[1]) > 0:
                    self.want(word[3], int(word[1]), "SIGNER_AHEAD", bytes.fromhex(word[2]))
        for text in self.anchors:
            note = Note(text)
            key = self.keys and self.keys.get(self.instance)
            if key and not note.signed_by(note.origin, key):
                raise ValueError("an anchor is not signed by the key that you pinned")
            self.want(note.origin, note.size, "ANCHOR", note.root)

    def commit(self, origins, row):
        """logs.commit: heads of the other logs."""
        try:
            heads = fields(row["ext"] or b"").get(0x10A, b"")
            if len(heads) % 44:
                raise ValueError("heads")
        except (ValueError, struct.error):
            self.found("PARSE", self.instance, row["idx"])
            return
        for at in range(0, len(heads), 44):
            number, size, root = struct.unpack(">IQ32s", heads[at:at + 44])
            if number not in origins:
                self.found("LOG_MISSING", self.instance, row["idx"], f"log {number}")
            else:
                self.want(origins[number], size, "CROSS_REF", root, f"record {row['idx']} of {self.instance}")

    # --- what records commit to

    def tomb(self, row):
        """A record of an erasure, or of its end."""
        try:
            found = fields(row["ext"] or b"")
            if row["kind"] == ERASE:
                keys = found.get(0x103, b"")
                self.tombs.append([row["idx"], *struct.unpack(">QQ", found.get(0x102, bytes(16))),
                                   set(struct.unpack(f">{len(keys) // 8}Q", keys)), None])
            for tomb in self.tombs if row["kind"] == ERASE_DONE else ():
                if tomb[0] == struct.unpack(">IQ", found[0x116])[1]:
                    tomb[4] = row["idx"]
        except (KeyError, ValueError, struct.error):
            pass                        # whatever it erased is missing then

    def erased(self, idx, key, done=False):
        """done: so that nothing may be left.  What calls wrote between the record and its end is lost with the keys."""
        for at, start, end, keys, until in self.tombs:
            last = idx + 1 if until is None else until
            to = last if (start, end) == (0, at) and not keys and not done else min(end, at)
            if (until is not None or not done) and (start <= idx < to or idx < last and key in keys):
                return True
        return False

    @staticmethod
    def commitments(cm):
        """Tag -> commitment, ascending."""
        found = {struct.unpack(">H", cm[at:at + 2])[0]: cm[at + 2:at + 34] for at in range(0, len(cm), 34)}
        if not cm or len(cm) % 34 or list(found) != sorted(found) or len(found) != len(cm) // 34:
            raise ValueError("commitments")
        return found

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
            return None
        secret = self.payload_keys.find(tenant, key)
        if not secret:
            return None if self.erased(idx, key) else "KEY_MISSING"
        place = b"toolcrib/p/1\0" + salt + struct.pack(">QQ", idx, key) + origin.encode()
        values, wanted = decrypt(mac(secret, b"toolcrib/e/1\0"), nonce, place, ct), self.commitments(cm)
        values = fields(values) if values else {}
        good = sum(map(len, values.values())) == stored and (sh or len(values) == len(wanted)) and all(
            opens(secret, salt, origin, idx, ctag, value, wanted.get(ctag)) for ctag, value in values.items())
        return None if good else "PAYLOAD"

    def payloads(self, number, origin, tenant, first, size):
        for row in self.db.execute('SELECT r.idx, r.cm, r.sh, r.n_sto, r."key", p.rec, p.salt, p.nonce, p.ct FROM rec r '
                                   "LEFT JOIN pay p ON p.rec = r.id WHERE r.log = ? AND r.idx >= ? AND r.idx < ? ORDER BY r.idx",
                                   (number, first, size)):
            try:
                code = self.payload(origin, tenant, row)
            except (ValueError, TypeError, struct.error):
                code = "PAYLOAD"
            if code:
                self.found(code, origin, row[0])

    def alias(self, origin, tenant, row):
        """Whether a pseudonym is the one of its record, and of whom that says."""
        name, kind, idx, key, nonce, ct, said, cm, its_key, its_name, salt, person = row
        if said != ALIAS or name != its_name or key != its_key:
            return False
        (ctag, commitment), = self.commitments(cm).items()
        secret = self.payload_keys and self.payload_keys.find(tenant, key)
        if ctag != {1: 4, 2: 4, 3: 3, 4: 5}.get(kind) or not secret:
            return ctag == {1: 4, 2: 4, 3: 3, 4: 5}.get(kind)
        place = b"toolcrib/a/1\0" + struct.pack(">QQ", kind, key) + origin.encode() + b"\0" + name.encode()
        value = decrypt(mac(secret, b"toolcrib/e/1\0"), nonce, place, ct)
        return value is not None and opens(secret, salt, origin, idx, ctag, value, commitment) and \
            person in (None, value.decode())

    def aliases(self, number, origin, tenant, first, size):
        rows = self.db.execute('SELECT a.name, a.kind, a.idx, a."key", a.nonce, a.ct, r.kind, r.cm, r."key", d.text, '
                               "p.salt, n.name FROM alias a LEFT JOIN rec r ON r.log = a.log AND r.idx = a.idx LEFT JOIN dict d ON d.id = r.obj "
                               "LEFT JOIN pay p ON p.rec = r.id LEFT JOIN principal n ON n.pseudonym = a.name "
                               "AND n.tenant_id = ? AND a.kind = 1 WHERE a.log = ?", (tenant, number))
        for row in rows:
            try:
                good = row[2] < first or self.alias(origin, tenant, row)
            except (ValueError, TypeError, AttributeError, struct.error):
                good = False
            if not good:
                self.found("ALIAS", origin, detail=row[0])
        for idx, key in self.db.execute('SELECT r.idx, r."key" FROM rec r LEFT JOIN dict d ON d.id = r.obj LEFT JOIN alias a '
                                        "ON a.name = d.text AND a.log = r.log AND a.idx = r.idx WHERE r.log = ? "
                                        "AND r.kind = ? AND r.idx >= ? AND r.idx < ? AND a.id IS NULL ORDER BY r.idx",
                                        (number, ALIAS, first, size)):
            if not self.erased(idx, key):
                self.found("ALIAS", origin, idx)

    # --- rows of the registry

    def rows_of(self, number, idx, kind, time, ext):
        """What a record says of rows."""
        if not (1201 <= kind <= 1533 or 1908 <= kind <= 1909 or kind in (ADMIN, START)) or not isinstance(ext, bytes):
            return
        try:
            found = fields(ext)
            keys, digests = found.get(0x103, b""), found.get(0x10C, b"")
        except (ValueError, struct.error):
            return
        if not keys or len(keys) % 8 or len(keys) * 4 != len(digests):
            return
        if kind == START:
            self.adopted = max(self.adopted, time)
        else:
            self.changed = min(self.changed or time, time)
        for at in range(len(keys) // 8):
            row, = struct.unpack(">Q", keys[8 * at:8 * at + 8])
            row = row >> 48, row & (1 << 48) - 1
            before = self.said.get(row)
            if not before or time >= before[0] or before[1] == number:
                self.said[row] = time, number, idx, digests[32 * at:32 * at + 32]

    def registry(self, firsts, sizes):
        for number, size in sizes.items():      # what came since
            for row in self.db.execute("SELECT log, idx, kind, ts, ext FROM rec WHERE log = ? AND idx >= ? ORDER BY idx",
                                       (number, size)):
                self.rows_of(*row)
        if self.changed and self.adopted > self.changed:
            self.found("REGISTRY", detail="a start took rows as they were, though there were records of them")
        for kind, (name, columns) in enumerate(ROWS, 1):
            for log, idx, number, *values in self.db.execute(f"SELECT rec_log, rec_idx, {columns}"):
                text = b"TCRR\1" + struct.pack(">H", kind)
                for tag, value in enumerate((number, *values), 1):
                    if value is not None:
                        value = struct.pack(">q", value) if isinstance(value, int) else \
                            value if isinstance(value, bytes) else str(value).encode()
                        text += struct.pack(">HI", tag, len(value)) + value
                said = self.said.pop((kind, number), None)
                if not said and idx is not None and 0 <= idx < firsts.get(log, 0):
                    self.found("NOT_CHECKED", detail=f"the record of {name}/{number} was pruned")
                elif not said or said[1:] != (log, idx, hashlib.sha256(text).digest()):
                    self.found("REGISTRY", detail=f"{name}/{number}")
        for (kind, number), (*_, digest) in self.said.items():
            if digest != bytes(32) and 0 < kind <= len(ROWS):
                self.found("REGISTRY", detail=f"{ROWS[kind - 1][0]}/{number} is missing")

    # --- one log

    def cut(self, number, origin, first):
        """The tree of what was pruned, from the record that says so."""
        if first == 0:
            return Tree()
        row = self.db.execute("SELECT ext FROM rec WHERE log = ? AND kind = ? ORDER BY idx DESC", (number, PRUNE))
        for (ext,) in row:
            try:
                found = fields(ext)
                start, end = struct.unpack(">QQ", found[0x102])
                peaks = [found[0x109][at:at + 32] for at in range(0, len(found[0x109]), 32)]
                tree = Tree(first, peaks)
                if end == first and len(peaks) == bin(first).count("1") and tree.root() == found[0x108]:
                    return tree
            except (KeyError, TypeError, ValueError, struct.error):
                continue
        self.found("GAP", origin, 0, f"no record says that {first} records were pruned")
        return None

    def compare(self, origin, tree):
        for code, root, detail in self.wanted.get(origin, {}).pop(tree.size, ()):
            if root != tree.root():
                self.found(code, origin, tree.size, detail)

    def log(self, number, origin, size, root, first, origins):
        here, = self.db.execute("SELECT coalesce(max(idx) + 1, 0) FROM rec NOT INDEXED WHERE log = ?", (number,)).fetchone()
        tree, expected, running, before = self.cut(number, origin, first), first, {}, 0
        whole = tree is not None
        tree = tree or Tree()
        self.compare(origin, tree)
        self.tombs = []
        rows = self.db.execute("SELECT * FROM rec WHERE log = ? AND idx >= ? ORDER BY idx", (number, first))
        names = [column[0] for column in rows.description]
        for values in rows:
            row = dict(zip(names, values))
            for idx in range(expected, row["idx"]):
                self.found("GAP", origin, idx)
            expected = row["idx"] + 1
            tree.append(self.leaf(origin, row))
            self.compare(origin, tree)
            self.pair(origin, row, running, first)
            if number == 1 and row["kind"] in (START, STOP, CRASH):
                self.life = (row["kind"], row["ts"])
            if number == 1 and row["kind"] == COMMIT:
                self.commit(origins, row)
            if row["kind"] in (ERASE, ERASE_DONE):
                self.tomb(row)
            self.rows_of(number, row["idx"], row["kind"], row["ts"], row["ext"])
            self.records += 1
        for idx in range(here, size):
            self.found("TRUNCATED", origin, idx)
        for idx in range(size, here):
            self.found("UNCOVERED_TAIL", origin, idx)
        for idx, _, ts in sorted(running.values(), key=lambda begun: begun[0]):
            if not self.may_run(ts):
                self.found("DANGLING", origin, idx)
        if root is None:
            self.found("NOT_CHECKED", origin, detail="no tree yet")
        elif whole and root != tree.root():
            self.found("ROOT", origin)
        self.logs += 1
        return here

    def uncovered(self, origin, covered, size):
        """Records that no checkpoint covers: there are some while a server runs and after a crash, none after a stop."""
        if covered < size:
            self.found("UNCOVERED_TAIL", origin, covered, gap=not self.stopped)
            self.sums["UNCOVERED_TAIL", origin][3] = size - 1

    def leftover(self, firsts, ends):
        """Roots that no log had a tree to compare with: it is too short, or has gaps."""
        for origin, sizes in self.wanted.items():
            for size, wants in sizes.items():
                for code, _, detail in wants:
                    if origin not in firsts and code != "ROOT":
                        self.found("LOG_MISSING" if code == "CROSS_REF" else code, origin, size, detail)
                    elif origin in firsts and size > firsts[origin]:
                        short = code == "ROOT" and size > ends[origin]
                        self.found("TRUNCATED" if short else code, origin, size, detail)

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

    def store(self):
        kinds = dict(self.db.execute("SELECT name, type FROM sqlite_schema"))
        for name in TABLES:
            if kinds.get(name) != "table":
                self.found("SCHEMA", detail=f"{name} is no table")
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
        self.indexes()
        if self.db.execute("SELECT 1 FROM pay WHERE rec NOT IN (SELECT id FROM rec) LIMIT 1").fetchone():
            self.found("PAYLOAD_EXTRA", detail="payloads of records that are not there")
        logs = self.db.execute("SELECT l.id, l.origin, h.size, h.root, l.min_idx, coalesce(l.tenant_id, 0) FROM log l "
                               "JOIN head h ON h.log = l.id ORDER BY l.id").fetchall()
        origins = {number: origin for number, origin, *_ in logs}
        self.instance = origins.get(1)
        self.chain()
        covered = {number: self.checkpoints(number, origin) for number, origin in origins.items()}
        self.outside()
        last = self.db.execute("SELECT kind FROM rec WHERE log = 1 AND idx = ?", (covered.get(1, 0) - 1,)).fetchone()
        self.stopped = last == (STOP,)
        sizes = {}
        for number, origin, size, root, first, tenant in logs:
            sizes[number] = self.log(number, origin, size, root, first, origins)
            self.payloads(number, origin, tenant, first, size)
            self.aliases(number, origin, tenant, first, size)
        self.registry({number: first for number, _, _, _, first, _ in logs}, sizes)
        for number, origin in origins.items():
            if self.epochs:
                self.uncovered(origin, covered[number], sizes[number])
        self.leftover({origin: first for _, origin, _, _, first, _ in logs}, {origins[n]: size for n, size in sizes.items()})
        if not self.epochs:
            self.found("NOT_CHECKED", detail="the store has no signed checkpoints")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def prove(path, keys):
    record, index, note = check_proof(read(path), keys)
    values = fields(record)
    print(f"PROVED record {index} of {note.origin}, in a log of {note.size}")
    for name, (tag, form, *_) in COLUMNS.items():
        if tag in values:
            value = values[tag]
            shown = str(int.from_bytes(value, "big")) if form == "u" else value.hex() if form == "b" else value.decode()
            print(f"  {name} {shown}")
    return 0


def verify(args, keys):
    path = os.path.join(args.store, "toolcrib.db") if os.path.isdir(args.store) else args.store
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    verifier = Verifier(db, keys, args.signer_state and read(args.signer_state), [read(name).encode() for name in args.anchor],
                        args.keys and PayloadKeys(args.keys))
    verifier.store()
    for code, origin, first, last, detail, _ in verifier.findings:
        print(code, origin, *([first] if first == last else [first, last]) if first is not None else [], detail)
    gaps = sum(finding[5] for finding in verifier.findings)
    bad = len(verifier.findings) - gaps
    word = "DAMAGED" if bad else "INCOMPLETE" if gaps else "INTACT"
    print(f"{word} {verifier.records} records of {verifier.logs} logs: {bad} bad, {gaps} gaps")
    return 4 if bad else 5 if gaps else 0


def main():
    parser = argparse.ArgumentParser(description="Verify a toolcrib store, or a proof, without code of toolcrib.")
    parser.add_argument("--key", metavar="KEYS", help="public keys that you keep outside the store: a file, or one key")
    parser.add_argument("--signer-state", metavar="FILE", help="the file state of toolcrib-sign")
    parser.add_argument("--anchor", metavar="NOTE", action="append", default=[], help="a checkpoint that was taken outside")
    parser.add_argument("--keys", metavar="DIR", help="open payloads with keys.db and the key files of this folder")
    parser.add_argument("--proof", metavar="FILE", help="check this proof of one record")
    parser.add_argument("store", nargs="?", help="the store's folder, its toolcrib.db, or a copy of it")
    args = parser.parse_args()
    if (args.proof is None) == (args.store is None) or args.proof and not args.key:
        parser.error("a store, or --proof with --key")
    try:
        keys = args.key and parse_keys(read(args.key) if os.path.exists(args.key) else args.key)
        return prove(args.proof, keys) if args.proof else verify(args, keys)
    except ValueError as error:
        print(f"verify.py: {error}", file=sys.stderr)
        return 4 if args.proof else 3
    except (sqlite3.Error, OSError) as error:
        print(f"verify.py: {error}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
