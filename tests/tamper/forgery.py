"""make check-forgery: edits that nobody thought of.  Copies of a store are changed at random, anywhere: any column of any
table of toolcrib.db and keys.db, with values of any storage class, rows and tables, objects of the schema, the files
themselves, sealed files too; half of them are resealed; most of the copies have their records in blocks or sealed files.  Then
toolcrib-verify and verify.py look at each copy, with pinned keys, the signer's state and the keys of payloads.  Where one of them says that all is well, the statements of all reports are asked
of the copy: what they say must be what they said of the store before; of some copies `toolcrib audit …` prints them all as
well, so that nothing is in a report that no statement says.  A changed report with exit status 0 is a bug of that
verifier, and so is a crash, more than 10 s of CPU and more than 256 MiB.

    forgery.py [--seconds N] [--seed N] [--only N[,N…]] [--jobs N]

--only makes these mutants alone again, and shows their SQL: with the same seed and the same programs they are the same
but for keys and times; seed 0 is the time.  tests/tamper/forgery-open lists what is known and not yet mended: a line has what was changed, a
tab, and why it is there; it only gets shorter.  Exit status 1 when anything else was found."""
import argparse
import collections
import contextlib
import hashlib
import json
import multiprocessing
import os
import pathlib
import random
import re
import shutil
import sqlite3
import sys
import tempfile
import time
import types

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "integ"), str(pathlib.Path(__file__).resolve().parent)]
import crib
import made as store_and_verifiers
import tamperings as t
import blocks
import test_equal
import test_reports
from made import Made, copy_store, remember_what_is_dear, sceptics, toolcrib_verify

OPEN = pathlib.Path(__file__).resolve().parent / "forgery-open"
LARGEST = (1 << 63) - 1
PRINTED = 4                     # of how many mutants that pass one has its reports printed by the program as well
FORMS = ("rows", "rows", "blocks", "leftovers", "sealed")
OF_BLOCKS = ("blk", "blkpay", "chap", "book", "open_call", "rec", "pay", "seg")
STEPS = 20000                   # times 1,000 instructions that a statement of a report may take


class Undone(Exception):
    """This chance gives nothing to do."""


# --- what is changed

def literal(value):
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, str):
        return f"CAST(x'{value.encode().hex()}' AS TEXT)" if not value.isprintable() else "'" + value.replace("'", "''") + "'"
    return repr(value)


def name(text):
    return '"' + text.replace('"', '""') + '"'


class Forger:
    """Random edits of one copy; what was done is in `sql` and `labels`."""

    def __init__(self, store, rnd, made):
        self.store, self.rnd, self.made = store, rnd, made
        self.sql, self.labels, self.old_state = [], [], False
        self.keys = None                # a connection to the copy of keys.db
        self.sealed = {}                # sealed file -> a connection to it
        self.prefix = ""

    # the file that is changed: the store's, keys.db, or a sealed file

    def files(self):
        return sorted((self.store.path.parent / "segments").glob("*/*.tcs"))

    def choose_file(self):
        if self.files() and self.rnd.random() < 0.4:
            path = self.rnd.choice(self.files())
            self.sealed[path] = self.sealed.get(path) or sqlite3.connect(path, isolation_level=None)
            self.db, self.prefix = self.sealed[path], "sealed:"
            return
        if self.rnd.random() < 0.85:
            self.db, self.prefix = self.store.db, ""
            return
        if not self.keys:
            self.keys = sqlite3.connect(self.store.keys_db(), isolation_level=None)
        self.db, self.prefix = self.keys, "keys:"

    def do(self, sql):
        self.sql.append(self.prefix + sql)
        return self.db.execute(sql)

    def all(self, sql):
        return self.db.execute(sql).fetchall()

    def tables(self):
        """All; half of the time those of records alone, where these are in blocks."""
        tables = [row[0] for row in self.all("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
        if self.favoured and self.db is self.store.db and self.rnd.random() < 0.5:
            return [table for table in tables if table in self.favoured]
        return tables

    favoured = ()

    def columns(self, table):
        return [row[1] for row in self.all(f"PRAGMA table_info({name(table)})")]

    def key_of(self, table):
        """How a row of the table is named: by its rowid, or by the columns of its primary key."""
        keys = [row[1] for row in sorted(self.all(f"PRAGMA table_info({name(table)})"), key=lambda row: row[5]) if row[5]]
        try:
            self.all(f"SELECT rowid FROM {name(table)} LIMIT 1")
            return ["rowid"]
        except sqlite3.Error:
            return keys

    def row(self, table):
        """A condition that takes one row."""
        keys = self.key_of(table)
        rows = self.all(f"SELECT {', '.join(map(name, keys))} FROM {name(table)} ORDER BY {', '.join(map(name, keys))}")
        if not rows:
            raise Undone
        return " AND ".join(f"{name(key)} IS {literal(value)}" for key, value in zip(keys, self.rnd.choice(rows)))

    def place(self):
        """A table and a column: half of the time each column is as likely, else each table."""
        tables = self.tables()
        if self.rnd.random() < 0.5:
            return self.rnd.choice([(table, column) for table in tables for column in self.columns(table)])
        table = self.rnd.choice(tables)
        return table, self.rnd.choice(self.columns(table))

    def value(self, table, column, old):
        """Something else than what is there."""
        rnd = self.rnd
        if rnd.random() < 0.35:
            others = self.all(f"SELECT DISTINCT {name(column)} FROM {name(table)} WHERE {name(column)} IS NOT {literal(old)} ORDER BY 1")
            if others:
                return rnd.choice(others)[0]
        if rnd.random() < 0.15:
            return rnd.choice((None, 0, 1, -1, 1 << 60, LARGEST, -LARGEST - 1, 0.5, 1e300, "", "x", b"", bytes(32), "1", "\x1b[2J\r", b"\xff"))
        if isinstance(old, int):
            return rnd.choice((old + 1, old - 1, -old, old ^ 1 << rnd.randrange(62), 0, old * 2 % LARGEST, rnd.randrange(1 << 48)))
        if isinstance(old, str) and old:
            at = rnd.randrange(len(old))
            return rnd.choice((old[:at] + rnd.choice("abcxyz019-/. '\n\x1b") + old[at + 1:], old + "x", old[:at], old.upper(), old + "\0",
                               old.replace("e", "i")))
        if isinstance(old, bytes) and old:
            return rnd.choice((t.flipped(old, rnd), rnd.randbytes(len(old)), old[:-1], old + b"\0", bytes(len(old))))
        return rnd.choice((1, 1700000000000000, "somebody", rnd.randbytes(32)))

    @contextlib.contextmanager
    def loose(self, table):
        """Without STRICT and NOT NULL."""
        before = self.all(f"SELECT sql FROM sqlite_schema WHERE name = {literal(table)}")[0][0]
        after = re.sub(r" NOT NULL|(?<=\)) STRICT\b", "", before or "")
        self.define(table, after)
        self.do("PRAGMA ignore_check_constraints = ON")
        yield
        self.define(table, before)

    def define(self, what, sql):
        self.do("PRAGMA writable_schema = ON")
        self.do(f"UPDATE sqlite_schema SET sql = {literal(sql)} WHERE name = {literal(what)}")
        self.do("PRAGMA writable_schema = RESET")

    def set_cell(self, table, column, where, value):
        sql = f"UPDATE {name(table)} SET {name(column)} = {literal(value)} WHERE {where}"
        try:
            self.do(sql)
        except sqlite3.IntegrityError:
            if table.startswith("sqlite_"):
                raise
            with self.loose(table):
                self.do(sql)
        self.labels.append(f"{self.prefix}{table}.{column}")

    # edits

    def cell(self):
        table, column = self.place()
        where = self.row(table)
        old = self.all(f"SELECT {name(column)} FROM {name(table)} WHERE {where}")[0][0]
        new = self.value(table, column, old)
        if new == old and type(new) is type(old):
            raise Undone
        self.set_cell(table, column, where, new)

    def swap(self):
        """Two rows exchange what they have in a column."""
        table, column = self.place()
        a, b = self.row(table), self.row(table)
        (x,), (y,) = (self.all(f"SELECT {name(column)} FROM {name(table)} WHERE {where}")[0] for where in (a, b))
        if x == y or column in self.key_of(table):
            raise Undone
        self.set_cell(table, column, a, y)
        self.set_cell(table, column, b, x)
        self.labels.pop()

    def whole_column(self):
        table, column = self.place()
        old = self.all(f"SELECT {name(column)} FROM {name(table)} LIMIT 1")
        if not old:
            raise Undone
        self.set_cell(table, column, "1", self.value(table, column, old[0][0]))

    def delete(self):
        table = self.rnd.choice(self.tables())
        self.do(f"DELETE FROM {name(table)} WHERE {self.row(table)}")
        self.labels.append(f"{self.prefix}{table} rows")

    def empty(self):
        table = self.rnd.choice(self.tables())
        if not self.do(f"DELETE FROM {name(table)}").rowcount:
            raise Undone
        self.labels.append(f"{self.prefix}{table} rows")

    def insert(self):
        """A row like another one, but for a few columns."""
        table = self.rnd.choice(self.tables())
        columns, like = self.columns(table), self.row(table)
        values = dict(zip(columns, self.all(f"SELECT {', '.join(map(name, columns))} FROM {name(table)} WHERE {like}")[0]))
        unique = {column for index in self.all(f"PRAGMA index_list({name(table)})") if index[2]
                  for _, _, column in self.all(f"PRAGMA index_info({name(index[1])})") if column}
        alone = [row[1] for row in self.all(f"PRAGMA table_info({name(table)})") if row[5]]
        if len(alone) == 1 and isinstance(values[alone[0]], int):
            values[alone[0]] = self.all(f"SELECT max({name(alone[0])}) + {self.rnd.choice((1, 1, 77))} FROM {name(table)}")[0][0]
        for column in columns:
            if column not in alone[:1] and (column in unique or self.rnd.random() < 0.2):
                values[column] = self.value(table, column, values[column])
        self.do(f"INSERT INTO {name(table)}({', '.join(map(name, columns))}) VALUES({', '.join(map(literal, values.values()))})")
        self.labels.append(f"{self.prefix}{table} rows")

    def new_name(self):
        return self.rnd.choice(("sqliteX_{}", "sqlite{}", "z_{}", "SQLITE-{}", "rec_{}", "v_{}", "Rec{}", "sqlite_x{}", "{}")).format(
            self.rnd.choice("abcdefgh"))

    def add_object(self):
        """Something in sqlite_schema that no release makes."""
        rnd, new, table = self.rnd, self.new_name(), self.rnd.choice([table for table in self.tables() if not table.startswith("sqlite_")])
        columns = self.columns(table)
        kind = rnd.choice(("trigger", "trigger", "view", "table", "index", "copy", "virtual", "column"))
        when = f"{rnd.choice(('BEFORE', 'AFTER'))} {rnd.choice(('INSERT', 'UPDATE', 'DELETE'))} ON {name(table)}"
        sql = {"trigger": f"CREATE TRIGGER {name(new)} {when} BEGIN SELECT RAISE(IGNORE); END",
               "view": f"CREATE VIEW {name(new)} AS SELECT * FROM {name(table)} WHERE 0",
               "table": f"CREATE TABLE {name(new)}(a, b)",
               "copy": f"CREATE TABLE {name(new)} AS SELECT * FROM {name(table)}",
               "index": f"CREATE INDEX {name(new)} ON {name(table)}({name(rnd.choice(columns))})",
               "virtual": f"CREATE VIRTUAL TABLE {name(new)} USING fts5(a)",
               "column": f"ALTER TABLE {name(table)} ADD COLUMN {name(new)} TEXT"}[kind]
        reserved = new.lower().startswith("sqlite_")
        if reserved and kind == "virtual":
            raise Undone
        spare = "spare_name"
        self.do(sql.replace(name(new), name(spare), 1) if reserved else sql)
        if reserved and kind != "column":
            self.do("PRAGMA writable_schema = ON")
            self.do(f"UPDATE sqlite_schema SET name = {literal(new)}, sql = replace(sql, '{spare}', {literal(new)}), tbl_name = "
                    f"replace(tbl_name, '{spare}', {literal(new)}) WHERE name = '{spare}'")
            self.do("PRAGMA writable_schema = RESET")
        self.remake_triggers()
        self.labels.append(f"{self.prefix}schema {kind}")

    def remake_triggers(self):
        """A trigger that was made just now stays; close() makes all in its list."""
        if self.db is not self.store.db:
            return
        for trigger, sql in self.all("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"):
            self.store.triggers.append(sql)
            self.db.execute(f"DROP TRIGGER {name(trigger)}")

    def change_object(self):
        """An object's text is another one."""
        what, sql = self.rnd.choice(self.all("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"))
        new = self.rnd.choice((sql + " WHERE 0", sql.replace("SELECT", "SELECT DISTINCT", 1), sql.replace(" STRICT", ""),
                               sql.replace(" NOT NULL", "", 1), re.sub(r"\b1002\b", "1003", sql), sql + " ", sql.replace("JOIN", "CROSS JOIN", 1),
                               sql + " -- ", sql.lower(), re.sub(r"REFERENCES \w+\(\w+\)", "", sql)))
        if new == sql:
            raise Undone
        self.define(what, new)
        self.labels.append(f"{self.prefix}schema text")

    def drop_object(self):
        if self.db is self.store.db and self.store.triggers and self.rnd.random() < 0.5:
            gone = self.rnd.choice(self.store.triggers)
            self.store.triggers.remove(gone)
            self.sql.append(f"DROP TRIGGER -- {gone.split(' BEGIN')[0]}")
        else:
            kind, what = self.rnd.choice(self.all("SELECT type, name FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"))
            self.do(f"DROP {kind} {name(what)}")
        self.labels.append(f"{self.prefix}schema drop")

    def header(self):
        self.do(self.rnd.choice(("PRAGMA user_version = {}", "PRAGMA application_id = {}", "PRAGMA schema_version = {}")).format(
            self.rnd.choice((0, 1, 20, 21, 999, 1 << 30))))
        self.labels.append(f"{self.prefix}header")

    # files: done when all else is

    def file(self):
        rnd = self.rnd
        if self.files() and rnd.random() < 0.7:
            self.sealed_file()
            return
        how = rnd.choice(("old store", "old store, old state", "old keys", "bytes", "cut", "zeros", "wal", "journal", "old state"))
        if how == "wal":
            self.in_wal = True
        elif how.startswith("old") and not self.made.past:
            raise Undone
        elif how in ("old store", "old store, old state"):
            which = rnd.randrange(len(self.made.past))
            store, _, state = self.made.past[which]
            self.store.later.append(lambda path: shutil.copy(store, path))
            if "state" in how:
                self.store.state, self.old_state = state, True
        elif how == "old keys":
            _, keys, _ = rnd.choice(self.made.past)
            here = self.store.keys_db()
            self.store.later.append(lambda path: shutil.copy(keys, here))
        elif how == "old state":
            self.store.state, self.old_state = rnd.choice(self.made.past)[2], True
        else:
            at, junk = rnd.random(), rnd.randbytes(rnd.choice((1, 8, 512, 4096)))
            self.store.later.append(lambda path: spoil(path, how, at, junk))
        self.sql.append(f"-- {how}")
        self.labels.append(f"file {how}")

    def sealed_file(self):
        """A sealed file is another one, or not there, or somewhere else."""
        how = self.rnd.choice(("gone", "exchanged", "copied", "bytes", "cut", "zeros", "renamed"))
        paths = self.rnd.sample(self.files(), 2)
        at, junk = self.rnd.random(), self.rnd.randbytes(self.rnd.choice((1, 8, 512, 4096)))
        self.store.later.append(lambda _: shuffle(paths, how, at, junk))
        self.sql.append(f"-- {how} {' '.join(path.name for path in paths)}")
        self.labels.append(f"sealed file {how}")

    in_wal = False
    EDITS = {cell: 12, swap: 4, whole_column: 1, delete: 3, empty: 1, insert: 3, add_object: 3, change_object: 2, drop_object: 1,
             header: 0.5, file: 2}

    def mutate(self, n):
        """n edits; and half of the time all hashes made anew that carry no signature."""
        for _ in range(n):
            for _ in range(50):
                self.choose_file()
                done = len(self.sql), len(self.labels)
                try:
                    self.rnd.choices(list(self.EDITS), list(self.EDITS.values()))[0](self)
                    break
                except (Undone, sqlite3.Error, IndexError):
                    del self.sql[done[0]:], self.labels[done[1]:]
            else:
                raise Undone
        if self.rnd.random() < 0.5:
            with contextlib.suppress(Exception):        # what cannot be resealed is left as it is
                if self.favoured:
                    for log, in self.store.all("SELECT id FROM log"):
                        blocks.reseal(self.store, log)
                else:
                    self.store.reseal()
                self.sql.append("-- reseal")

    def close(self):
        wal = None
        if self.in_wal:
            wal = pathlib.Path(f"{self.store.path}-wal")
        for each in (self.keys, *self.sealed.values()):
            if each:
                each.close()
        if not wal:
            self.store.close()
            return
        for sql in self.store.triggers:
            self.store.db.execute(sql)
        # One more edit is in the log alone.
        self.store.db.execute("PRAGMA journal_mode = WAL")
        self.store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.store.db.execute("PRAGMA wal_autocheckpoint = 0")
        with contextlib.suppress(Undone, sqlite3.Error, IndexError):
            self.db, self.prefix = self.store.db, "in the log: "
            self.cell()
        kept = [(path, path.read_bytes()) for path in (self.store.path, wal) if path.exists()]
        self.store.db.close()
        self.store.later[:0] = [lambda path: [file.write_bytes(data) for file, data in kept]]
        for step in self.store.later:
            step(self.store.path)


def shuffle(paths, how, at, junk):
    one, other = paths
    if how in ("bytes", "cut", "zeros"):
        spoil(one, how, at, junk)
    elif how == "gone":
        one.unlink()
    elif how == "copied":
        shutil.copy(other, one)
    else:
        os.rename(one, one.with_suffix(".x"))
        if how == "exchanged":
            os.rename(other, one)
            os.rename(one.with_suffix(".x"), other)


def spoil(path, how, at, junk):
    data = bytearray(path.read_bytes())
    at = int(at * len(data))
    if how == "cut":
        del data[at:]
    elif how == "journal":
        pathlib.Path(f"{path}-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + junk)
    else:
        data[at:at + len(junk)] = junk if how == "bytes" else bytes(len(junk))
    path.write_bytes(data)


# --- what reports say

NOW = 1900000000000000
WORDS = {"report_calls_grouped": [",client,obo,tool,principal,key,outcome,transport,revision,day,"],
         "report_denied_by": ["rule", "tool", "principal", "key", "outcome", "day"],
         "report_auth_failures_by": ["source", "rule", "key", "transport", "hour"],
         "report_definition_events": [None, "tool/echo", "tool/edited"], "report_sample_kind_hash": ["1501", "1301"]}
KEYED = ("report_calls_cred", "report_credential", "report_credential_timeline", "report_blast_key")
PEOPLE = ("report_calls_prn", "report_subject", "report_subject_export")
WITHOUT = ("report_room", "report_room_in_forms", "report_capacity_tables", "report_record_time", "report_find_log", "report_find_key", "report_next_log",
           "report_word", "report_person")      # asked on the way, or bytes of the file
AT_LEAST = ("report_head_signed",)              # claims that a forger gains nothing by making smaller
KINDS_OF_HEADS = (1803, 1907)


def statements():
    text = "".join((crib.SOURCE / path).read_text() for path in ("sql/queries/report.sql", "tests/integ/texts.sql"))
    for found in re.finditer(r"(?ms)^-- name: (\w+)\n(.*?);\n", text):
        if found[1] not in WITHOUT and "row_out(" not in found[2]:     # made in C, as those of texts.sql: test_texts.py
            yield found[1], "\n".join(line for line in found[2].splitlines() if not line.startswith("--"))


def not_evidence():
    """Statement -> columns of which the report itself says that nothing vouches for them."""
    text = (crib.SOURCE / "src/report/table.c").read_text()
    found = {name.lower(): set(columns.replace(",", " ").split())
            for name, columns in re.findall(r'SQL_(REPORT_\w+)[^}]*?\.not_evidence = "([^"]*)"', text)}
    assert found, "src/report/table.c says nothing of what is no evidence"
    return found


class Reports:
    """The statements of all reports, asked as the engine asks them: of the system's log, of the log of each tenant by its name,
    and of all logs one after the other."""

    def __init__(self, path):
        self.sql, self.aside = dict(statements()), not_evidence()
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            self.tenants = [row[0] for row in db.execute("SELECT name FROM tenant ORDER BY name")]
            self.people = [row[0] for row in db.execute("SELECT pseudonym FROM principal ORDER BY id")]
            self.keys = [row[0] for row in db.execute("SELECT accessor FROM cred ORDER BY id")]
            self.hashes = [row[0] for row in db.execute("SELECT DISTINCT text FROM dict WHERE kind = 35 ORDER BY text")]
        self.before = self.of(path)

    def logs(self, db):
        """Whose report it is -> log."""
        found = {"system": 1}
        for tenant in self.tenants:
            row = db.execute("SELECT l.id FROM tenant t JOIN log l ON l.tenant_id = t.id WHERE t.name = ?", (tenant,)).fetchone()
            found[tenant] = row and row[0]
        found.update((f"all {number}", number) for number, in db.execute("SELECT id FROM log WHERE id > 0 ORDER BY id LIMIT 20"))
        return found

    def questions(self, which, sql, log):
        count = max([int(n) for n in re.findall(r"\?(\d+)", sql)] or [0])
        if which in ("report_tail", "report_export"):
            yield [log, 0, LARGEST, 1 << 20, LARGEST][:count]
            return
        if which in ("report_head_newest", "report_head_count"):
            for kind in KINDS_OF_HEADS:
                yield [log, kind][:count]
            return
        base = [log, 0, LARGEST, None, None, None, -1, 1 << 20, LARGEST, 0, None, NOW, None, None, None, None]
        if which == "report_durations":
            base[8] = base[9] = -1
        for word in self.hashes if which == "report_blast_tool" else WORDS.get(which, [None]):
            for person in self.people if which in PEOPLE else [None]:
                for key in self.keys if which in KEYED else [None]:
                    yield [*base[:4], person, key, *base[6:10], word, *base[11:]][:count]

    def answer(self, db, steps, which, sql, log):
        """A digest of all that the statement says of the log, or for a lower bound what it is; None where it fails."""
        digest, aside = hashlib.sha256(), self.aside.get(which, ())
        steps[0] = 0
        try:
            for values in self.questions(which, sql, log):
                rows = db.execute(sql, values)
                if which in AT_LEAST:
                    return rows.fetchall()
                said = [at for at, column in enumerate(rows.description) if column[0] not in aside]
                lines = [repr([row[at] for at in said]) for row in rows]
                digest.update("\n".join(sorted(lines) if aside else lines).encode() + b"\n\n")     # the order may be of what is aside
            return digest.digest()
        except (sqlite3.Error, OverflowError, UnicodeError):
            return None

    def of(self, path):
        """(statement, whose) -> digest of what it says; None where it fails, which is no report."""
        said = {}
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            steps = [0]

            def tick():
                steps[0] += 1
                return steps[0] > STEPS
            db.set_progress_handler(tick, 1000)
            db.text_factory = bytes
            try:
                logs = self.logs(db)
            except sqlite3.Error:
                return {}
            for which, sql in self.sql.items():
                answers = {log: self.answer(db, steps, which, sql, log) for log in set(logs.values())}
                said.update({(which, whose): answers[log] for whose, log in logs.items()})
        return said

    def changed(self, path):
        after = self.of(path)
        return sorted({at[0] for at in self.before.keys() | after.keys() if self.differs(at[0], self.before.get(at), after.get(at))})

    @staticmethod
    def differs(which, before, after):
        if after is None or after == before:
            return False
        return which not in AT_LEAST or not before or any(new is not None and (old is None or new > old)
                                                          for rows in zip(before, after) for old, new in zip(*rows))


class Printed:
    """What the program prints of a store's copy: all reports, without the times of today, and commands that show the registry;
    only what is the same twice."""

    COMMANDS = ("tenant show acme", "tenant list", "key list", "grant list acme", "limit show acme", "level list", "hold list",
                "tool list", "tool show edited", "tool history edited", "tool diff edited 1 2", "secret list",
                "principal list acme", "approval list", "audit keys")
    # What commands say is no evidence, wherever it stands; and who set a secret, with which key.
    ASIDE = {"label", "last_used", "generation", "budget_audit", "budgets", "now"}
    SECRETS_ASIDE = {"actor", "key"}

    HEADER = ("at", "drawn_to", "anchor_age", "anchor", "checkpoint", "signed", "verified", "records", "erasures", "logs", "store_bytes",
              "unused_bytes", "bytes_per_record", "records_a_day", "free_bytes", "full_in_days", "chapters_decoded")

    def __init__(self):
        with contextlib.closing(sqlite3.connect(f"file:{made.pristine}?mode=ro", uri=True)) as db:
            last = db.execute("SELECT max(ts) + 1 FROM rec").fetchone()[0]
        self.until = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(last // 1000000)) + f".{last % 1000000:06}Z"
        words = (report.format(key=reports["rows"].keys[0]) for report in dict.fromkeys(test_reports.Reports.ALL))
        self.asked = [["audit", *word.split(), "--until", self.until, "--format", "json"]
                      for word in words if word not in ("capacity", "capacity --tables", "capacity --events", "anchors")]     # which count what was written since
        self.asked += [["--json", *words.split()] for words in self.COMMANDS]
        path = pathlib.Path(tempfile.mkdtemp(dir=made.crib.dir)) / "toolcrib.db"
        shutil.copy(made.pristine, path)
        store = types.SimpleNamespace(path=path, keys=None, state=None)
        self.before, again = self.of(store), self.of(store)
        self.before = {report: said for report, said in self.before.items() if said is not None and again.get(report) == said}

    def of(self, store):
        """Report -> what it says, None where it says nothing."""
        said, folder = {}, pathlib.Path(tempfile.mkdtemp(dir=made.crib.dir))
        server = crib.Crib(folder)
        server.store = made.whole(store, folder / "whole")
        try:
            with contextlib.suppress(AssertionError):
                server.start()
            for words in self.asked if server.daemon.poll() is None else ():
                done = server.run(*words)
                with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                    said[" ".join(words)] = self.plain(words, done.stdout) if done.returncode in (0, 4) else None
        finally:
            server.close()
        return said

    def plain(self, words, text):
        """Rows without what is aside; a report's header first."""
        if text.startswith('{"header"'):
            text = json.loads(text)
            rows, aside = [text["header"], *text["rows"]], {*self.HEADER, *text["header"].get("not_evidence", "").replace(",", " ").split()}
        else:
            rows, aside = [json.loads(line) for line in text.splitlines()], \
                self.ASIDE | (self.SECRETS_ASIDE if "secret" in words else set())
        return [{name: value for name, value in row.items() if name not in aside} for row in rows]

    def changed(self, store):
        after = self.of(store)
        return sorted(f"`{report}`" for report, said in self.before.items() if after.get(report) not in (None, said))


def as_rows(path, form):
    """A copy whose blocks are rows again, which the statements read without a server."""
    if form == "rows":
        return path
    folder = pathlib.Path(tempfile.mkdtemp(dir=path.parent))
    for each in path.parent.glob("toolcrib.db*"):
        if each.is_file():
            shutil.copy(each, folder)
    if (path.parent / "segments").exists():
        shutil.copytree(path.parent / "segments", folder / "segments", symlinks=True)
    with contextlib.suppress(Exception):        # then no statement says what it said
        test_equal.to_rows(folder)
    return folder / "toolcrib.db"


# --- one mutant

class Store(Made):
    """That of the tampering tests, with keys and signer's state of each time."""

    def __init__(self):
        self.past = []
        super().__init__()

    def snapshot(self):
        path = super().snapshot()
        keys = path.with_suffix(".keys")
        with contextlib.closing(sqlite3.connect(self.crib.store / "keys.db")) as db, contextlib.closing(sqlite3.connect(keys)) as copy:
            db.backup(copy)
        self.past.append((path, keys, (self.crib.store / "signer/state").read_text()))
        return path


# said: verifier -> exit status, or what was dear; asked: whether the program has printed its reports.
Result = collections.namedtuple("Result", "number labels sql said changed asked")


def attempt(seed, number, drop=()):
    """Make a mutant, without these of its edits, and look at it; None: there was nothing to do."""
    with tempfile.TemporaryDirectory(dir=made.crib.dir) as folder:
        path = pathlib.Path(folder) / "toolcrib.db"
        rnd = random.Random(f"{seed} {number}")
        form = rnd.choice(FORMS)
        its = made.of(form)
        copy_store(pathlib.Path(made.forms[form]), path)
        store = t.Store(path, its)
        forger = Forger(store, rnd, its)
        forger.favoured = OF_BLOCKS if form != "rows" else ()
        try:
            forger.mutate(rnd.choices((1, 2, 3), (6, 3, 1))[0])
            forger.close()
        except (Undone, sqlite3.Error, OSError):
            store.db.close()
            return None
        options = its.evidence(store)
        options = [*options[1], *(options[3][-2:] if forger.old_state else ()), path]
        found = {"tv": toolcrib_verify(options), "py": sceptics([options])[0]}
        said = {}
        for who, (status, _, seconds, size) in found.items():
            said[who] = status
            if status not in (0, 3, 4, 5):
                said[who] = f"exit {status}"
            elif seconds > store_and_verifiers.SECONDS or size > store_and_verifiers.MEBIBYTES:
                said[who] = f"{seconds:.0f} s, {size} MiB"
        changed, asked = [], False
        if 0 in said.values():
            changed = reports[form].changed(as_rows(path, form))
            asked = not changed and number % PRINTED == 0 and its is made
            changed += printed.changed(store) if asked else []
        return Result(number, sorted({label if form == "rows" else f"{form}: {label}" for label in forger.labels}), forger.sql, said, changed, asked)


def work(seed, numbers, until, results):
    """A process's share."""
    for number in numbers:
        if time.monotonic() > until:
            break
        try:
            results.put((number, attempt(seed, number)))
        except Exception as error:
            results.put((number, f"{type(error).__name__}: {error}"))
    results.put(None)


def known():
    lines = OPEN.read_text().splitlines() if OPEN.exists() else []
    return {line.split("\t")[0] for line in lines if line and not line.startswith("#")}


def is_bug(result):
    return [who for who, status in result.said.items() if isinstance(status, str) or status == 0 and result.changed]


class Tally:
    def __init__(self, seed):
        self.seed, self.open = seed, known()
        self.tried = self.undone = self.asked = 0
        self.ends = {who: collections.Counter() for who in ("tv", "py")}
        self.quiet, self.bugs, self.met, self.broken = collections.Counter(), [], collections.Counter(), []

    def take(self, number, result):
        if isinstance(result, str):
            self.broken.append(f"{number}: {result}")
            return
        if result is None:
            self.undone += 1
            return
        self.tried += 1
        for who, status in result.said.items():
            self.ends[who][status] += 1
        self.asked += result.asked
        who = is_bug(result)
        if not who and 0 in result.said.values():
            self.quiet[" + ".join(result.labels)] += 1
        elif who and any(label in self.open for label in result.labels):
            self.met.update(label for label in result.labels if label in self.open)
        elif who:
            self.bugs.append((who, result))

    def show(self):
        for who, result in self.bugs[:40]:
            print(f"\nSEED={self.seed} ONLY={result.number}: {', '.join(who)} {result.said}: {' + '.join(result.labels)}; "
                  f"changed: {' '.join(result.changed)}")
            print("\n".join(f"    {sql[:2000]}" for sql in result.sql))
        print(f"\n{self.tried} mutants tried, {self.undone} with nothing to do, SEED={self.seed}")
        for who, ends in self.ends.items():
            print(f"{who}: " + ", ".join(f"{n} {({0: 'passed', 3: 'refused', 4: 'found', 5: 'not checked'}).get(status, status)}"
                                         for status, n in sorted(ends.items(), key=str)))
        print(f"passed by one of them or both, reports unchanged: {sum(self.quiet.values())}; changed: "
              f"{len(self.bugs) + sum(self.met.values())}, {sum(self.met.values())} of them known; of {self.asked} the program has printed all reports")
        print("unchanged: " + ", ".join(f"{label} {n}" for label, n in self.quiet.most_common(60)))
        by_label = collections.Counter(" + ".join(result.labels) + " " + ",".join(who) for who, result in self.bugs)
        for label, n in by_label.most_common():
            print(f"BUG {label} {n}")
        for label, n in self.met.most_common():
            print(f"known {label} {n}")
        for label in sorted(self.open - set(self.met)):
            print(f"known, not met: {label}")
        for line in self.broken[:10]:
            print(f"the fuzzer itself: {line}")


def search(seed, seconds, jobs, numbers):
    tally, results, until = Tally(seed), multiprocessing.get_context("fork").Queue(), time.monotonic() + seconds
    context = multiprocessing.get_context("fork")
    shares = [numbers[i::jobs] if numbers else range(i, 1 << 30, jobs) for i in range(jobs)]
    children = [context.Process(target=work, args=(seed, share, until if not numbers else float("inf"), results)) for share in shares]
    for child in children:
        child.start()
    left = jobs
    while left:
        got = results.get()
        if got is None:
            left -= 1
        else:
            tally.take(*got)
            if numbers and isinstance(got[1], Result):
                print(got[1])
    for child in children:
        child.join()
    return tally


def main():
    global made, reports, printed
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    if not (crib.BUILD / "toolcrib-verify").exists():
        print("skipped: toolcrib-verify is not built")
        return 77
    numbers = [int(number) for number in args.only.split(",") if number]
    args.seed = args.seed or int(time.time())
    made = Store()
    try:
        made.fold()
        remember_what_is_dear([[*options, made.forms[form]] for form in ("rows", "sealed") for options in made.of(form).evidence()])
        reports = {form: Reports(as_rows(pathlib.Path(path), form)) for form, path in made.forms.items()}
        failing = sorted({which for (which, whose), digest in reports["rows"].before.items() if digest is None and whose == "system"})
        if failing:
            print("statements that fail on the store itself: " + " ".join(failing))
        for form, path in made.forms.items():
            if reports[form].changed(as_rows(pathlib.Path(path), form)):
                print("a report says something else when it is asked again")
                return 1
        printed = Printed()
        print(f"{len(reports['rows'].sql)} statements of reports, {len(printed.before)} of {len(printed.asked)} reports and lists printed "
              "alike twice", flush=True)
        tally = search(args.seed, args.seconds, args.jobs, numbers)
    finally:
        made.close()
    tally.show()
    return 1 if tally.bugs or tally.broken or not tally.tried else 0


if __name__ == "__main__":
    sys.exit(main())
