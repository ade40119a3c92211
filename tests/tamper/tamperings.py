"""The kinds of tampering of AUDIT 9 (A-T01 to A-T41), done to the files of a store by somebody who may write to them and
knows the format: where a kind reseals, every hash that carries no signature is made anew.  Later kinds stand in files
beside this one, and work on a Store as well; kinds.py says how they are listed."""
import base64
import contextlib
import hashlib
import importlib.util
import shutil
import sqlite3
import struct
import sys

import crib

sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("sceptic", crib.SOURCE / "contrib/verify/verify.py")
sceptic = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sceptic)

BEGIN, END, DENIED, ERASE, ERASE_DONE, COMMIT = 1001, 1002, 1003, 1906, 1907, 2001
RANGE, HEADS, CAUSE, ALL_HEADS = 0x102, 0x10A, 0x116, 0x117
SYSTEM = 1


def tlv(*fields):
    return b"".join(struct.pack(">HI", tag, len(value)) + value for tag, value in fields)


def sign(seed, message):
    """RFC 8032, 5.1.6."""
    h = hashlib.sha512(seed).digest()
    a = int.from_bytes(h[:32], "little") & (1 << 254) - 8 | 1 << 254

    def packed(n):
        x, y, z, _ = sceptic.multiply(n, sceptic.BASE)
        z = pow(z, sceptic.P - 2, sceptic.P)
        return (y * z % sceptic.P | (x * z % sceptic.P & 1) << 255).to_bytes(32, "little")
    public = packed(a)
    r = int.from_bytes(hashlib.sha512(h[32:] + message).digest(), "little") % sceptic.ORDER
    first = packed(r)
    k = int.from_bytes(hashlib.sha512(first + public + message).digest(), "little") % sceptic.ORDER
    return public, first + ((r + k * a) % sceptic.ORDER).to_bytes(32, "little")


class Store:
    """A copy of a store's file, open for writing.  Triggers are away until close(), which makes those of `triggers`; then
    `later` gets the file, closed, with whatever else lies beside it."""

    def __init__(self, path, made):
        self.path, self.made = path, made       # made: what else there is, made.Made
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA synchronous = OFF")
        self.state = None                       # text: what the signer remembers, where a thief has changed that
        self.keys = None                        # a folder of keys.db and key files, where they are not the store's own
        self.anchors = {}                       # "old", "new": other notes (bytes) than those that were taken away
        self.later = []                         # functions of the path, called by close()
        self.drop_triggers()

    def drop_triggers(self):
        self.triggers = [sql for sql, in self.db.execute("SELECT sql FROM sqlite_schema WHERE type = 'trigger'")]
        for name, in self.db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            self.db.execute(f"DROP TRIGGER {quoted(name)}")

    def close(self):
        for sql in self.triggers:
            self.db.execute(sql)
        self.db.close()
        for step in self.later:
            step(self.path)

    def keys_db(self):
        """The path of a copy of keys.db that may be changed; the verifiers get it with its key files."""
        if not self.keys:
            self.keys = self.path.parent / "keys"
            self.keys.mkdir()
            for path in self.made.crib.store.iterdir():
                if path.name == "keys.db" or path.suffix == ".key":
                    shutil.copy(path, self.keys)
        return self.keys / "keys.db"

    def run(self, sql, *args):
        return self.db.execute(sql, args).rowcount

    def all(self, sql, *args):
        return self.db.execute(sql, args).fetchall()

    def one(self, sql, *args):
        return self.db.execute(sql, args).fetchone()[0]

    def rows(self, log, where="1"):
        got = self.db.execute(f"SELECT * FROM rec WHERE log = ? AND {where} ORDER BY idx", (log,))
        names = [column[0] for column in got.description]
        return [dict(zip(names, values)) for values in got]

    def tenants(self):
        return [log for log, in self.all("SELECT id FROM log WHERE tenant_id IS NOT NULL ORDER BY id")]

    def origin(self, log):
        return self.one("SELECT origin FROM log WHERE id = ?", log)

    def pick(self, rnd, where="1", log=None):
        return rnd.choice(self.rows(log or rnd.choice(self.tenants()), where))

    def size(self, log):
        return self.one("SELECT coalesce(max(idx) + 1, 0) FROM rec WHERE log = ?", log)

    def word(self, kind, text):
        found = self.all("SELECT id FROM dict WHERE kind = ? AND text = ?", kind, text)
        if found:
            return found[0][0]
        self.run("INSERT INTO dict(kind, text) VALUES(?, ?)", kind, text)
        return self.one("SELECT last_insert_rowid()")

    def insert(self, row):
        row = {**row, "id": self.one("SELECT max(id) + 1 FROM rec")}
        self.run(f"INSERT INTO rec({','.join(map(quoted, row))}) VALUES({','.join('?' * len(row))})", *row.values())
        return row["id"]

    def append(self, log, row):
        """A record like another one, without what that committed to."""
        bare = dict.fromkeys(("cm", "sh", "n_sto", "key"))
        return self.insert({**row, **bare, "log": log, "idx": self.size(log)})

    def tree(self, log, size=None):
        tree = sceptic.Tree()
        for leaf, in self.db.execute("SELECT leaf FROM rec WHERE log = ? AND idx < ? ORDER BY idx",
                                     (log, self.size(log) if size is None else size)):
            tree.append(leaf)
        return tree

    def reseal(self, *logs):
        """Make leaves and heads of these logs, or of all, what their columns give."""
        for log, origin in self.all("SELECT id, origin FROM log"):
            if logs and log not in logs:
                continue
            maker = sceptic.Verifier(self.db)
            for row in self.rows(log):
                leaf = maker.leaf(origin, row)
                if leaf != row["leaf"]:
                    self.run("UPDATE rec SET leaf = ? WHERE id = ?", leaf, row["id"])
            tree = self.tree(log)
            self.run("UPDATE head SET size = ?, root = ?, frontier = ? WHERE log = ?", tree.size, tree.root(),
                     b"".join(tree.peaks), log)

    def renumber(self, log, order):
        """Give the log's records these ids, in this order, and reseal it."""
        self.run("UPDATE rec SET idx = -1 - idx WHERE log = ?", log)
        for idx, number in enumerate(order):
            self.run("UPDATE rec SET idx = ? WHERE id = ?", idx, number)
        self.reseal(log)

    def cut(self, log, size):
        self.run("DELETE FROM pay WHERE rec IN (SELECT id FROM rec WHERE log = ? AND idx >= ?)", log, size)
        self.run("DELETE FROM alias WHERE log = ? AND idx >= ?", log, size)
        self.run("DELETE FROM rec WHERE log = ? AND idx >= ?", log, size)
        self.reseal(log)

    @contextlib.contextmanager
    def loosened(self, table, *words):
        """The table without these words of its definition, and then with them again."""
        before = self.one("SELECT sql FROM sqlite_schema WHERE name = ?", table)
        after = before
        for word in words:
            assert word in after, word
            after = after.replace(word, "")
        auto = self.all("SELECT * FROM sqlite_schema WHERE tbl_name = ? AND type = 'index' AND sql IS NULL", table)
        unique = any("UNIQUE" in word for word in words)

        def define(sql):
            self.run("UPDATE sqlite_schema SET sql = ? WHERE name = ?", sql, table)
        self.run("PRAGMA writable_schema = ON")
        define(after)
        if unique:
            self.run("DELETE FROM sqlite_schema WHERE tbl_name = ? AND type = 'index' AND sql IS NULL", table)
        self.run("PRAGMA writable_schema = RESET")
        yield
        self.run("PRAGMA writable_schema = ON")
        define(before)
        for row in auto if unique else ():
            self.run("INSERT INTO sqlite_schema VALUES(?, ?, ?, ?, ?)", *row)
        self.run("PRAGMA writable_schema = RESET")


def quoted(name):
    return f'"{name}"'


# --- one record, one column

def flipped(data, rnd):
    at = rnd.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rnd.randrange(8)]) + data[at + 1:]


def flip(s, rnd):
    row = s.pick(rnd)
    for name in rnd.sample(sorted(row), len(row)):
        value = row[name]
        if name in ("id", "enc", "leaf", "log") or value is None or value == b"":
            continue
        if isinstance(value, int):
            value ^= 1 << rnd.randrange(20)
        else:
            value = flipped(value, rnd)
        with contextlib.suppress(sqlite3.IntegrityError):       # an index that is taken
            s.run(f"UPDATE rec SET {quoted(name)} = ? WHERE id = ?", value, row["id"])
            return True
    return False


def set_column(s, row, name, value):
    s.run(f"UPDATE rec SET {name} = ? WHERE id = ?", value, row["id"])


def column(s, rnd):
    row = s.pick(rnd, f"kind = {BEGIN}")
    set_column(s, row, "prn", s.word(sceptic.COLUMNS["prn"][0], "prn_somebodyelse0000"))
    return row


def principal(s, rnd):
    s.reseal(column(s, rnd)["log"])


def outcome(s, rnd):
    row = s.pick(rnd, f"kind = {END}")
    set_column(s, row, "outcome", 3)
    s.reseal(row["log"])


def time(s, rnd):
    row = s.pick(rnd)
    set_column(s, row, "ts", row["ts"] + 1)
    s.reseal(row["log"])


def encoding(s, rnd):
    row = s.pick(rnd)
    set_column(s, row, "enc", 2)
    s.reseal(row["log"])


def uncovered(s, rnd):
    s.run("ALTER TABLE rec ADD COLUMN note TEXT")
    set_column(s, s.pick(rnd), "note", "approved by the board")


def leaf_only(s, rnd):
    set_column(s, s.pick(rnd), "leaf", rnd.randbytes(32))


def rowids(s, rnd):
    log = rnd.choice(s.tenants())
    a, b = rnd.sample([row["id"] for row in s.rows(log, "id IN (SELECT rec FROM pay)")], 2)
    for old, new in ((a, -1), (b, a), (-1, b)):
        s.run("UPDATE rec SET id = ? WHERE id = ?", new, old)


# --- records that go, come and move

def delete(s, rnd):
    row = s.pick(rnd)
    s.run("DELETE FROM pay WHERE rec = ?", row["id"])
    s.run("DELETE FROM rec WHERE id = ?", row["id"])
    return row


def delete_renumber(s, rnd):
    log = delete(s, rnd)["log"]
    s.renumber(log, [row["id"] for row in s.rows(log)])


def insert(s, rnd):
    row = s.pick(rnd)
    order = [other["id"] for other in s.rows(row["log"])]
    new = s.insert({**row, "idx": len(order)})
    s.run("INSERT INTO pay SELECT ?, salt, nonce, ct FROM pay WHERE rec = ?", new, row["id"])
    order.insert(row["idx"], new)
    s.renumber(row["log"], order)


def swap(s, rnd):
    log = rnd.choice(s.tenants())
    order = [row["id"] for row in s.rows(log)]
    at = rnd.randrange(len(order) - 1)
    order[at], order[at + 1] = order[at + 1], order[at]
    s.renumber(log, order)


def move(s, where, *logs):
    """Exchange records between two logs."""
    for old, new in ((logs[0], -1), (logs[1], logs[0]), (-1, logs[1])):
        s.run(f"UPDATE rec SET log = ? WHERE log = ? AND {where}", new, old)


def cross(s, rnd):
    logs = rnd.sample(s.tenants(), 2)
    move(s, f"idx = {rnd.randrange(min(map(s.size, logs)))}", *logs)
    s.reseal(*logs)


def swap_logs(s, rnd):
    logs = rnd.sample(s.tenants(), 2)
    move(s, "1", *logs)
    for old, new in ((logs[0], -1), (logs[1], logs[0]), (-1, logs[1])):
        s.run("UPDATE cp SET log = ? WHERE log = ?", new, old)
    s.reseal(*logs)


def truncate(s, rnd):
    log = rnd.choice(s.tenants())
    s.cut(log, s.size(log) - rnd.randrange(1, 4))


def truncate_cps(s, rnd):
    log = rnd.choice(s.tenants())
    size = rnd.choice([size for size, in s.all("SELECT size FROM cp WHERE log = ?", log) if size < s.size(log)])
    s.run("DELETE FROM cp WHERE log = ? AND size > ?", log, size)
    s.cut(log, size)


def drop_log(s, rnd):
    log = rnd.choice(s.tenants())
    tenant = s.one("SELECT tenant_id FROM log WHERE id = ?", log)
    s.cut(log, 0)
    for table in ("cp", "head"):
        s.run(f"DELETE FROM {table} WHERE log = ?", log)
    s.run("DELETE FROM log WHERE id = ?", log)
    if rnd.random() < 0.5:              # and all that is known of its tenant
        for table in ("cred", "tool_grant", "principal"):
            s.run(f"DELETE FROM {table} WHERE tenant_id = ?", tenant)
        s.run("DELETE FROM tenant WHERE id = ?", tenant)


def system_log(s, rnd):
    row = s.pick(rnd, f"kind = {COMMIT}", SYSTEM)
    set_column(s, row, "ext", flipped(row["ext"], rnd))
    s.reseal(SYSTEM)


def append(s, rnd):
    log = rnd.choice(s.tenants())
    begin, end = s.rows(log, f"kind = {BEGIN}")[-1], s.rows(log, f"kind = {END}")[-1]
    call, beg = rnd.randbytes(16), s.size(log)
    s.append(log, {**begin, "call": call})
    s.append(log, {**{name: begin[name] for name in ("cred", "prn", "tool")}, **{
        name: value for name, value in end.items() if name not in ("cred", "prn", "tool")}, "call": call, "beg": beg})
    s.reseal(log)


# --- what records commit to

def kept(s, rnd, kind, where="1"):
    """A record of which something is kept."""
    return s.pick(rnd, f"kind = {kind} AND id IN (SELECT rec FROM pay WHERE {where})")


def payload(s, rnd):
    """By somebody who has the keys of payloads too, in half of the tries: then it opens, and says something else."""
    row = kept(s, rnd, BEGIN, "ct IS NOT NULL")
    salt, nonce, ct = s.all("SELECT salt, nonce, ct FROM pay WHERE rec = ?", row["id"])[0]
    new = flipped(ct, rnd)
    if rnd.random() < 0.5:
        tenant = s.one("SELECT tenant_id FROM log WHERE id = ?", row["log"])
        secret = sceptic.PayloadKeys(s.made.crib.store).find(tenant, row["key"])
        place = b"toolcrib/p/1\0" + salt + struct.pack(">QQ", row["idx"], row["key"]) + s.origin(row["log"]).encode()
        text = ct[:6] + flipped(ct[6:-16], rnd)         # behind tag and length
        new = text + sceptic.authenticator(*sceptic.inner(sceptic.mac(secret, b"toolcrib/e/1\0"), nonce), place, text)
    s.run("UPDATE pay SET ct = ? WHERE rec = ?", new, row["id"])


def payload_swap(s, rnd):
    log = rnd.choice(s.tenants())
    a, b = rnd.sample([row["id"] for row in s.rows(log, f"kind = {BEGIN} AND id IN (SELECT rec FROM pay)")], 2)
    for old, new in ((a, -1), (b, a), (-1, b)):
        s.run("UPDATE pay SET rec = ? WHERE rec = ?", new, old)


def payload_delete(s, rnd):
    s.run("DELETE FROM pay WHERE rec = ?", kept(s, rnd, END)["id"])


def payload_resalt(s, rnd):
    s.run("UPDATE pay SET salt = ? WHERE rec = ?", rnd.randbytes(16), kept(s, rnd, END)["id"])


def strip(s, rnd):
    s.run("UPDATE pay SET nonce = NULL, ct = NULL WHERE rec = ?", kept(s, rnd, BEGIN, "ct IS NOT NULL")["id"])


def unerase(s, rnd):
    gone = [row for log in s.tenants() for row in s.rows(log, "cm IS NOT NULL AND id NOT IN (SELECT rec FROM pay)")]
    row = rnd.choice(gone)
    s.run("INSERT INTO pay(rec, salt, nonce, ct) VALUES(?, ?, ?, ?)", row["id"], rnd.randbytes(16),
          *((rnd.randbytes(24), rnd.randbytes(row["n_sto"] + 16)) if row["n_sto"] else (None, None)))


def forge_tombstone(s, rnd):
    row = kept(s, rnd, END)
    log, at = row["log"], s.size(row["log"])
    s.run("DELETE FROM pay WHERE rec = ?", row["id"])
    like = {**row, "call": None, "outcome": None, "beg": None}
    s.append(log, {**like, "kind": ERASE, "ext": tlv((RANGE, struct.pack(">QQ", row["idx"], row["idx"] + 1)))})
    s.append(log, {**like, "kind": ERASE_DONE, "ext": tlv((CAUSE, struct.pack(">IQ", log, at)))})
    s.reseal(log)


def alias(s, rnd):
    how = rnd.randrange(3)
    if how == 0:
        met = s.all("SELECT id FROM principal WHERE pseudonym IN (SELECT name FROM alias)")
        s.run("UPDATE principal SET name = 'somebody-else' WHERE id = ?", rnd.choice(met)[0])
    elif how == 1:
        number, ct = rnd.choice(s.all("SELECT id, ct FROM alias"))
        s.run("UPDATE alias SET ct = ? WHERE id = ?", rnd.randbytes(len(ct)), number)
    else:
        log = rnd.choice(s.tenants())
        (a, name), (b, other) = rnd.sample(s.all("SELECT id, name FROM alias WHERE log = ?", log), 2)
        for number, text in ((a, "x"), (b, name), (a, other)):
            s.run("UPDATE alias SET name = ? WHERE id = ?", text, number)


# --- checkpoints

def newest(s, log):
    return s.all("SELECT size, epoch, note FROM cp WHERE log = ? ORDER BY size DESC LIMIT 1", log)[0]


def old_checkpoint(s, rnd):
    log = rnd.choice(s.tenants())
    epoch, note = s.all("SELECT epoch, note FROM cp WHERE log = ? ORDER BY size LIMIT 1", log)[0]
    s.run("UPDATE cp SET epoch = ?, note = ? WHERE log = ? AND size = ?", epoch, note, log, newest(s, log)[0])


def forge_root(s, rnd):
    log = rnd.choice(s.tenants())
    size, note = rnd.choice(s.all("SELECT size, note FROM cp WHERE log = ?", log))
    lines = note.split(b"\n")
    lines[2] = base64.b64encode(rnd.randbytes(32))
    s.run("UPDATE cp SET note = ? WHERE log = ? AND size = ?", b"\n".join(lines), log, size)


def drop_checkpoint(s, rnd):
    """One that is kept because it was taken outside, and has a later one of its epoch."""
    size = rnd.choice(s.all("SELECT size FROM cp c WHERE log = 1 AND size IN (SELECT size FROM anchor) AND EXISTS "
                            "(SELECT 1 FROM cp d WHERE d.log = 1 AND d.epoch = c.epoch AND d.size > c.size)"))[0]
    s.run("DELETE FROM cp WHERE log = 1 AND size = ?", size)


def put_back(s, snapshot):
    """An earlier state of the whole file."""
    s.db.close()
    shutil.copy(snapshot, s.path)
    s.__init__(s.path, s.made)


def rollback(s, rnd):
    put_back(s, rnd.choice(s.made.late))


def rollback_epoch(s, rnd):
    """What was erased since cannot be put back."""
    put_back(s, rnd.choice(s.made.early))
    for number in s.made.erased:
        s.run("DELETE FROM pay WHERE rec = ?", number)


def note_of(s, origin, tree, epoch):
    text = f"{origin}\n{tree.size}\n{base64.b64encode(tree.root()).decode()}\n"
    lines = [text]
    for name, seed in ((origin, s.made.log_seed), (f"{s.origin(SYSTEM)}/e/{epoch}", s.made.epoch_seed)):
        public, signature = sign(seed, text.encode())
        lines.append(f"\u2014 {name} {base64.b64encode(sceptic.key_id(name, public) + signature).decode()}\n")
    return "\n".join([lines[0], "".join(lines[1:])]).encode()


def number(n):
    """Seven bits in a byte, the lowest first."""
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + number(n >> 7)


def heads(entries, root):
    """Form 2 of the heads in logs.commit, of (log, size) in any order."""
    out, last, before = b"", 0, 0
    for log, size in entries:
        step, grown = log - last, size - before
        out += number(step % (1 << 64)) + number(grown << 1 if grown >= 0 else ~(grown << 1))
        last, before = log, size
    return out + root


def root_of(s, entries):
    tree = sceptic.Tree()
    for log, size in entries:
        tree.append(sceptic.head_leaf(log, size, s.tree(log, size).root()))
    return tree.root()


def commits(s):
    """Records logs.commit with heads whom only the newest epoch's key has signed: (row, fields, entries)."""
    begun = s.one("SELECT max(size) FROM cp WHERE log = 1 AND epoch < (SELECT max(n) FROM epoch)")
    for row in s.rows(SYSTEM, f"kind = {COMMIT} AND idx >= {begun}"):
        fields = sceptic.fields(row["ext"])
        if ALL_HEADS in fields:
            yield row, fields, sceptic.said_heads(fields[ALL_HEADS])[0]


def say_heads(s, row, fields, entries, root):
    set_column(s, row, "ext", tlv(*sorted({**fields, ALL_HEADS: heads(entries, root)}.items())))


def sign_again(s, ts):
    """Logs and what the signer remembers, as the newest epoch's key would sign them."""
    now = s.one("SELECT max(n) FROM epoch")
    trees = {}
    for each, origin in s.all("SELECT id, origin FROM log"):
        tree = s.tree(each)
        trees[origin] = tree
        if s.run("DELETE FROM cp WHERE log = ? AND epoch = ?", each, now):
            s.run("INSERT INTO cp(log, size, epoch, ts, note, frontier) VALUES(?, ?, ?, ?, ?, ?)", each, tree.size, now,
                  ts, note_of(s, origin, tree, now), b"".join(tree.peaks))
    lines = []
    for line in s.made.state.split("\n"):
        words = line.split(" ")
        if words[0] == "log":
            tree = trees[words[3]]
            line = f"log {tree.size} {tree.root().hex()} {words[3]}"
        lines.append(line)
    s.state = "\n".join(lines)


def steal(s, rnd, past):
    """The signer's keys are the thief's: an outcome is changed, and all signed again that they may sign."""
    now = s.one("SELECT max(n) FROM epoch")
    log = rnd.choice(s.tenants())
    border = s.one("SELECT coalesce(max(size), 0) FROM cp WHERE log = ? AND epoch < ?", log, now)
    row = s.pick(rnd, f"kind = {END} AND outcome <> 3 AND idx {'<' if past else '>='} {border}", log)
    set_column(s, row, "outcome", 3)
    s.reseal(log)
    for commit, fields, entries in commits(s):
        say_heads(s, commit, fields, entries, root_of(s, entries))
    s.reseal(SYSTEM)
    sign_again(s, row["ts"])


def key_theft_past(s, rnd):
    steal(s, rnd, True)


def key_theft_current(s, rnd):
    steal(s, rnd, False)


# --- what no leaf shows

def tool_text(s, rnd):
    """A tool's entry of the dictionary that records use."""
    return rnd.choice(s.all("SELECT id, text FROM dict WHERE id IN (SELECT tool FROM rec) ORDER BY id"))


def dictionary(s, rnd):
    s.run("UPDATE dict SET text = 'harmless' WHERE id = ?", tool_text(s, rnd)[0])
    if rnd.random() < 0.5:
        s.reseal()


def dictionary_twin(s, rnd):
    row = s.pick(rnd, f"kind = {BEGIN}")
    with s.loosened("dict", ", UNIQUE(kind, text)"):
        s.run("INSERT INTO dict(kind, text) SELECT kind, text FROM dict WHERE id = ?", row["tool"])
        set_column(s, row, "tool", s.one("SELECT last_insert_rowid()"))


def storage_class(s, rnd):
    number, text = tool_text(s, rnd)
    with s.loosened("dict", " STRICT"):
        s.run("UPDATE dict SET text = ? WHERE id = ?", text.encode(), number)


def registry(s, rnd):
    columns = "tenant_id, principal_id, hash, label, created_us, expires_us, rec_log, rec_idx"
    cred = rnd.choice(s.all("SELECT id FROM cred"))[0]
    table, change = rnd.choice((
        ("cred", f"INSERT INTO cred({columns}, accessor) SELECT {columns}, 'slippedintoo' FROM cred WHERE id = {cred}"),
        ("cred", f"UPDATE cred SET expires_us = 1 WHERE id = {cred}"),
        ("cred", f"UPDATE cred SET hash = x'{rnd.randbytes(32).hex()}' WHERE id = {cred}"),
        ("cred", f"DELETE FROM cred WHERE id = {cred}"),
        ("tool_grant", f"UPDATE tool_grant SET concurrency = concurrency + {rnd.randrange(1, 9)}"),
        ("tenant", "UPDATE tenant SET rate_count = 1000000, rate_per_s = 1"),
        ("tool_version", "UPDATE tool_version SET definition = replace(definition, 'echo', 'time')")))
    assert s.run(change) > 0, (table, change)


# --- the engine turned against its reader

def view(s, rnd):
    s.run("PRAGMA legacy_alter_table = ON")
    s.run("ALTER TABLE rec RENAME TO rec_0")
    s.run(f"CREATE VIEW rec AS SELECT * FROM rec_0 WHERE id <> {rnd.randrange(1, s.one('SELECT max(id) FROM rec_0'))}")
    s.triggers = [sql for sql in s.triggers if " ON rec " not in sql]


def index(s, rnd):
    row = s.pick(rnd, f"kind <> {BEGIN}")
    name = rnd.choice(("rec_prn", "rec_cred", "rec_tool", "rec_ts"))
    if not s.one("SELECT count(*) FROM sqlite_schema WHERE name = ?", name):
        for sql in crib.row_indexes():
            s.run(sql)
    before = s.one("SELECT sql FROM sqlite_schema WHERE name = ?", name)
    for sql, after in ((before + f" AND id <> {row['id']}", f"REINDEX {name}"), (before, "SELECT 1")):
        s.run("PRAGMA writable_schema = ON")
        s.run("UPDATE sqlite_schema SET sql = ? WHERE name = ?", sql, name)
        s.run("PRAGMA writable_schema = RESET")
        s.run(after)
