"""Tampering with what SQLite keeps of tables, indexes, views and triggers (A-T60 to A-T64): objects that no release makes, and
that change what the statements of a release do."""
import sqlite3

import tamperings as t
from kinds import Kind

NAMES = ("sqliteX_1", "sqlite", "sqlite0stat1", "SQLITE-sequence", "sqlite%", "sqlite\u00e9x", "\x1b]0;sqlite\x07", "helper")
# What undoes, or does besides, what a server does later, and what keeps that from the eye of the record.
TRIGGERS = (
    "AFTER UPDATE ON cred WHEN NEW.revoked_us IS NOT NULL BEGIN UPDATE cred SET revoked_us = NULL WHERE id = NEW.id; END",
    "AFTER INSERT ON tool_version BEGIN UPDATE tool_version SET definition = replace(definition, 'echo', 'time') "
    "WHERE id = NEW.id; END",
    "AFTER INSERT ON tool_grant WHEN NEW.glob <> '*' BEGIN INSERT OR IGNORE INTO tool_grant(tenant_id, glob, alias, concurrency, "
    "rate_count, rate_per_s, created_us) VALUES(NEW.tenant_id, '*', '', 0, 0, 0, NEW.created_us); END",
    "BEFORE DELETE ON pay BEGIN SELECT RAISE(IGNORE); END",
    "AFTER UPDATE ON meta WHEN NEW.key = 'audit_level' BEGIN UPDATE meta SET value = '0' WHERE key = NEW.key; END",
)
KEPT = (
    "BEFORE UPDATE ON dek WHEN NEW.box IS NULL BEGIN SELECT RAISE(IGNORE); END",
    "BEFORE UPDATE ON kek WHEN NEW.box IS NULL BEGIN SELECT RAISE(IGNORE); END",
    "BEFORE DELETE ON erased BEGIN SELECT RAISE(IGNORE); END",
    "AFTER UPDATE ON dek BEGIN UPDATE dek SET box = OLD.box WHERE id = NEW.id AND NEW.box IS NULL; END",
)


def trigger(s, rnd):
    """A trigger that undoes what a server does later, by a name that looks like SQLite's own."""
    s.triggers.append(f"CREATE TRIGGER {named(rnd)} {rnd.choice(TRIGGERS)}")


def named(rnd):
    return t.quoted(rnd.choice(NAMES))


def other_object(s, rnd):
    """A table, view or index by such a name."""
    table, column = rnd.choice((("rec", "kind"), ("cred", "revoked_us"), ("tool_grant", "glob"), ("meta", "key")))
    s.run(rnd.choice((
        f"CREATE TABLE {named(rnd)}(a, b)", f"CREATE TABLE {named(rnd)} AS SELECT * FROM cred",
        f"CREATE VIEW {named(rnd)} AS SELECT * FROM {table}", f"CREATE INDEX {named(rnd)} ON {table}({column})",
        f"CREATE UNIQUE INDEX {named(rnd)} ON {table}({column}) WHERE {column} IS NULL",
        f"CREATE INDEX {named(rnd)} ON {table}(abs({column}))")))


def keys_trigger(s, rnd):
    """A trigger in keys.db that keeps what erasure destroys, or a table to keep it in."""
    with sqlite3.connect(s.keys_db()) as db:
        if rnd.randrange(3):
            db.execute(f"CREATE TRIGGER {named(rnd)} {rnd.choice(KEPT)}")
        else:
            name = named(rnd)
            db.execute(f"CREATE TABLE {name}(id, box)")
            db.execute(f"CREATE TRIGGER sqlite1kept BEFORE UPDATE ON dek BEGIN INSERT INTO {name} VALUES(OLD.id, OLD.box); END")
    db.close()


def set_schema(s, sql, *args):
    """The table of all objects, which SQLite itself lets nobody write to."""
    s.run("PRAGMA writable_schema = ON")
    changed = s.run(sql, *args)
    s.run("PRAGMA writable_schema = RESET")
    return changed


def other_definition(s, rnd):
    """Another tbl_name or text of an object that is there, or one more index of a constraint."""
    which = rnd.randrange(4)
    if which == 0:              # a rule that is not asked for any more
        table, rule = rnd.choice((("tool_level", "CHECK(level BETWEEN 0 AND 2)"), ("tool_level", "NOT NULL"),
                                  ("cred", "REFERENCES cred(id)"), ("tenant", "CHECK(audit_level BETWEEN 0 AND 2)")))
        return set_schema(s, "UPDATE sqlite_schema SET sql = replace(sql, ?, '') WHERE name = ?", rule, table) > 0
    if which == 1:              # the same to SQLite
        name = rnd.choice(s.all("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"))[0]
        return set_schema(s, "UPDATE sqlite_schema SET tbl_name = upper(tbl_name) WHERE name = ?", name) > 0
    if which == 2:              # a trigger that never fires
        at = rnd.choice([i for i, sql in enumerate(s.triggers) if " WHEN " in sql])
        s.triggers[at] = s.triggers[at].replace(" WHEN ", " WHEN 0 AND ", 1)
        return True
    rows, sql = s.all("SELECT * FROM retention"), s.one("SELECT sql FROM sqlite_schema WHERE name = 'retention'")
    assert "PRIMARY KEY(log, set_by)" in sql
    s.run("DROP TABLE retention")
    s.run(sql.replace("PRIMARY KEY(log, set_by)", "PRIMARY KEY(log, set_by), UNIQUE(set_by, log)"))
    for row in rows:
        s.run(f"INSERT INTO retention VALUES({', '.join('?' * len(row))})", *row)
    return True


def hidden_object(s, rnd):
    """Objects that the table of all objects itself hides."""
    text = f"CREATE TRIGGER {named(rnd)} {rnd.choice(TRIGGERS)}"
    if rnd.randrange(2):
        s.later.append(lambda path: hide_by_index(path, text))
    else:
        s.later.append(hide_by_nul)


def hide_by_index(path, text):
    """An index of sqlite_schema that covers what a look at it asks for, without the trigger and itself."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("CREATE TABLE aside(type, name, tbl_name, sql)")
    db.execute("CREATE INDEX hide ON aside(type, name, tbl_name, sql)")
    db.execute("INSERT INTO aside SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT IN ('aside', 'hide')")
    db.execute(text)
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_schema SET tbl_name = 'sqlite_master', sql = 'CREATE INDEX hide ON sqlite_master(type, name, tbl_name, sql)' "
               "WHERE name = 'hide'")
    db.execute("DELETE FROM sqlite_schema WHERE name = 'aside'")
    db.close()


def hide_by_nul(path):
    """The texts of a row are followed by those of the next, behind a NUL, where SQLite ends reading; the next is dropped."""
    db = sqlite3.connect(path, isolation_level=None)
    rows = db.execute("SELECT name, sql, type FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").fetchall()
    (name, sql, _), (gone, text, _) = next(pair for pair in zip(rows, rows[1:]) if pair[1][2] == "trigger")
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (f"{sql}\0{gone}\0{text}", name))
    db.execute("DELETE FROM sqlite_schema WHERE name = ?", (gone,))
    db.close()


KINDS = [
    Kind("A-T60", trigger, each=("SCHEMA",)),
    Kind("A-T61", other_object, each=("SCHEMA",)),
    # A server has opened its keys.db before anybody verifies, and refuses it.
    Kind("A-T62", keys_trigger, each={"tv": ("SCHEMA",), "py": ("SCHEMA",)}),
    Kind("A-T63", other_definition, each=("SCHEMA",)),
    Kind("A-T64", hidden_object, each=("SCHEMA",)),
]
