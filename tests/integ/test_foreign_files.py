"""Files of a store that somebody else has made, or has been at: objects that no release makes (SEC S-T02), and files that are
no files, or lie about themselves.  The server refuses to start, toolcrib-verify and verify.py say what they found or that
they cannot read it; none of them hangs, falls, or takes much memory."""
import contextlib
import os
import pathlib
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile

import crib

MEBIBYTES = 256                 # that a verifier may take
REFUSED = {3, 4}
# What an enemy has prepared before a key is revoked, a version approved, a grant given, a subject erased: file, object, text.
PREPARED = {
    "a revocation is undone": ("toolcrib.db", "sqliteX_1", "TRIGGER sqliteX_1 AFTER UPDATE ON cred WHEN NEW.revoked_us IS NOT NULL "
                               "BEGIN UPDATE cred SET revoked_us = NULL WHERE id = NEW.id; END"),
    "a definition is swapped": ("toolcrib.db", "sqliteX_2", "TRIGGER sqliteX_2 AFTER INSERT ON tool_version BEGIN UPDATE tool_version "
                                "SET definition = replace(definition, 'echo', 'time') WHERE id = NEW.id; END"),
    "a grant brings another": ("toolcrib.db", "sqliteX_3", "TRIGGER sqliteX_3 AFTER INSERT ON tool_grant WHEN NEW.glob <> '*' BEGIN "
                               "INSERT INTO tool_grant(tenant_id, glob, alias, concurrency, rate_count, rate_per_s, created_us) "
                               "VALUES(NEW.tenant_id, '*', '', 0, 0, 0, NEW.created_us); END"),
    "a payload is kept": ("toolcrib.db", "sqliteX_4", "TRIGGER sqliteX_4 BEFORE DELETE ON pay BEGIN SELECT RAISE(IGNORE); END"),
    "a key is kept": ("keys.db", "sqliteX_5", "TRIGGER sqliteX_5 BEFORE UPDATE ON dek BEGIN SELECT RAISE(IGNORE); END"),
    "a report leaves out": ("toolcrib.db", "sqliteX_6", "VIEW sqliteX_6 AS SELECT * FROM rec WHERE 0"),
    "keys are copied": ("keys.db", "sqliteX_7", "TABLE sqliteX_7 AS SELECT * FROM dek"),
    "a row has a second place": ("toolcrib.db", "sqliteX_8", "INDEX sqliteX_8 ON rec(obj) WHERE obj IS NOT NULL"),
}


def database(path):
    return contextlib.closing(sqlite3.connect(path, isolation_level=None))


def execute(path, *statements):
    with database(path) as db:
        for statement in statements:
            db.execute(statement)


def patch(path, at, data):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


class Base(crib.Case):
    """One store, made once; each try is on a copy of its folder."""

    @classmethod
    def setUpClass(cls):
        cls.made = c = crib.Crib().init()
        cls.addClassCleanup(c.close)
        c.start()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        with contextlib.closing(c.http(key)) as peer:
            for i in range(3):
                peer.call("echo", {"text": str(i)}, rev=crib.MODERN)
        c.stop()
        cls.pins = c.dir / "pins"
        cls.pins.write_text(c.cli("audit", "keys"))
        (c.store / "toolcrib.lock").unlink(missing_ok=True)

    def copy(self, name="store"):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.crib.dir)) / name
        shutil.copytree(self.made.store, folder, ignore=shutil.ignore_patterns("*.sock"))
        return folder

    def verifiers(self, store, keys=None, more=()):
        """Name -> exit status, what it said.  In a build with a sanitizer verify.py is what it is in any other."""
        options = ["--key", self.pins, "--keys", keys or store, *more]
        programs = [(crib.BUILD / "toolcrib-verify",), crib.sceptic()][:1 if crib.sanitized("toolcrib-verify") else 2]
        return {program[-1].name: self.bounded([*program, *options, store]) for program in programs}

    def bounded(self, argv):
        """A program that has to end, with little memory: its exit status and all that it said."""
        with tempfile.TemporaryFile() as out:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            try:
                crib.wait_for(f"the end of {argv[0]}", lambda: self.ended(child))
            except AssertionError:
                child.kill()
                child.wait()
                raise
            out.seek(0)
            said = out.read().decode(errors="surrogateescape")
        self.assertGreaterEqual(child.returncode, 0, said)
        if not crib.sanitized("toolcrib-verify"):
            self.assertLess(self.used.ru_maxrss >> 10, MEBIBYTES, said)
        self.assertNotIn("Traceback", said)
        self.assertIsNone(re.search("[\x00-\x09\x0b-\x1f\x7f\udc80-\udcff]", said), said)
        return child.returncode, said

    def ended(self, child):
        pid, status, self.used = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
        return pid

    def serve(self, store):
        """A server on it: what it said when it refused, None when it served and was stopped."""
        c = crib.Crib(tempfile.mkdtemp(dir=self.crib.dir))
        c.store = store
        self.addCleanup(c.close)
        try:
            c.start()
        except AssertionError:
            said = c.log.read_text()
            self.assertEqual(c.daemon.poll(), 1, said)
            self.assertNotIn("\x1b", said)
            return said
        self.assertEqual(c.stop(), 0)
        return None


class Objects(Base):
    def test_nobody_has_been_at_it(self):
        store = self.copy()
        for name, (status, said) in self.verifiers(store).items():
            self.assertEqual(status, 0, name + said)
        self.assertIsNone(self.serve(store))

    def test_what_an_enemy_prepared_is_refused_and_found(self):
        self.prepared("toolcrib.db")

    def test_what_an_enemy_prepared_in_the_keys_is_refused_and_found(self):
        self.prepared("keys.db")

    def prepared(self, which):
        for name, (file, thing, text) in PREPARED.items():
            if file == which:
                with self.subTest(name):
                    store = self.copy()
                    execute(store / file, "CREATE " + text)
                    self.refused(store, file, thing)

    def refused(self, store, file, thing):
        for program, (status, said) in self.verifiers(store).items():
            self.assertEqual(status, 4, said)
            self.assertRegex(said, f"(?m)^SCHEMA.*{re.escape(file) if file == 'keys.db' else ''}")
            if program == "toolcrib-verify":
                self.assertIn(thing, said)
        said = self.serve(store)
        self.assertIsNotNone(said, "it was served")
        self.assertRegex(said, re.escape(file) + ".*schema is not this release's own.*" + thing)
        self.assertIn("from a backup", said)
        done = subprocess.run([crib.BUILD / "toolcrib", "--store", store, "audit", "verify"], capture_output=True, text=True,
                              timeout=crib.DEADLINE, env=self.made.env)        # which opens the store itself
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn(thing, done.stderr)

    def test_what_the_table_of_all_objects_hides(self):
        """An index of sqlite_schema that leaves itself out, and what stands behind a NUL."""
        sys.path.append(str(crib.SOURCE / "tests" / "tamper"))
        import objects
        store = self.copy()
        objects.hide_by_index(store / "toolcrib.db", "CREATE " + PREPARED["a revocation is undone"][2])
        self.refused(store, "toolcrib.db", "hide")
        store = self.copy()
        objects.hide_by_nul(store / "toolcrib.db")
        self.refused(store, "toolcrib.db", "_")

    def test_a_step_of_the_schema_meets_nothing_of_others(self):
        """An older store is looked at before the first step runs on it."""
        store = self.copy()
        db = store / "toolcrib.db"
        execute(db, "CREATE " + PREPARED["a revocation is undone"][2], "PRAGMA user_version = 1")
        self.assertIn("schema is not this release's own", self.serve(store) or "")
        with database(db) as opened:
            self.assertEqual(opened.execute("PRAGMA user_version").fetchone()[0], 1)

    def test_what_comes_while_a_server_runs_ends_it(self):
        """Nothing is done by a foreign trigger: the next command that writes notices who has written."""
        c = crib.Crib(tempfile.mkdtemp(dir=self.crib.dir))
        self.addCleanup(c.close)
        c.store = self.copy()
        c.start()
        key = c.key("acme/other")
        execute(c.store / "toolcrib.db", "CREATE " + PREPARED["a revocation is undone"][2])
        done = c.run("key", "revoke", key.split("_")[1], "--yes")
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("another program has written to the store", done.stderr + c.log.read_text())      # it, or a checkpoint before it
        c.close()
        self.assertIn("sqliteX_1", self.serve(c.store) or "")

    def test_what_the_file_says_it_is(self):
        """Never INTACT by a schema that the verifier does not know."""
        for pragma, want in (("application_id = 0", (3, 3)), ("user_version = 1", (4, 5)), ("user_version = 999", (3, 5)),
                             ("user_version = -1", (3, 5))):
            with self.subTest(pragma):
                store = self.copy()
                execute(store / "toolcrib.db", "PRAGMA " + pragma)
                for (status, said), wanted in zip(self.verifiers(store).values(), want):
                    self.assertIn(status, {wanted, 3}, said)
                self.assertIsNotNone(self.serve(store))

    def test_statistics_may_say_what_they_like(self):
        """ANALYZE is nobody's attack, and what it leaves changes no verdict; a table of such a name and another shape does."""
        store = self.copy()
        db = store / "toolcrib.db"
        execute(db, "ANALYZE", "UPDATE sqlite_stat1 SET stat = '1 1 1 1 unordered noskipscan sz=1'",
                "INSERT INTO sqlite_stat1 VALUES('rec', 'rec_pos', '99999999999999999999 -1 \x1b')")
        for name, (status, said) in self.verifiers(store).items():
            self.assertEqual(status, 0, name + said)
        self.assertIsNone(self.serve(store))
        execute(db, "DROP TABLE sqlite_stat1", "PRAGMA writable_schema = ON", "INSERT INTO sqlite_schema VALUES('view', 'sqlite_stat1', "
                "'sqlite_stat1', 0, 'CREATE VIEW sqlite_stat1(tbl,idx,stat) AS SELECT 1, 2, 3')")
        self.refused(store, "toolcrib.db", "sqlite_stat1")


class Files(Base):
    def tried(self, name, store, verifiers=REFUSED, served=False):
        """verifiers: the statuses that both may have; served: a server may start, and then stops."""
        with self.subTest(name):
            for status, said in self.verifiers(store).values():
                self.assertIn(status, verifiers, said)
                self.assertNotRegex(said, "(?m)^INTACT")
            said = self.serve(store)
            self.assertTrue(served or said is not None, "it was served")

    def replaced(self, name, make):
        store = self.copy()
        path = store / name
        path.unlink(missing_ok=True)
        make(path)
        return store

    def test_what_is_no_file(self):
        for name in ("toolcrib.db", "keys.db", "master.key"):
            self.tried(f"{name} is a directory", self.replaced(name, os.mkdir))
            self.tried(f"{name} is a FIFO", self.replaced(name, os.mkfifo))
            self.tried(f"{name} is a device", self.replaced(name, lambda path: path.symlink_to("/dev/zero")))
        for name in ("toolcrib.db-wal", "toolcrib.db-journal", "keys.db-wal", "keys.db-journal"):
            self.tried(f"{name} is a FIFO", self.replaced(name, os.mkfifo), served=True)
        self.tried("toolcrib.db-shm is a FIFO", self.replaced("toolcrib.db-shm", os.mkfifo), served=True)
        for name in ("toolcrib.lock", "signer/state", "signer/log.key"):        # which no verifier reads unasked
            for make in (os.mkfifo, os.mkdir):
                with self.subTest(f"{name} by {make.__name__}"):
                    self.serve(self.replaced(name, make))
        for option, name in (("--signer-state", "signer/state"), ("--anchor", "note"), ("--key", "keys")):
            store = self.replaced(name, os.mkfifo)
            with self.subTest(option):
                for status, said in self.verifiers(store, more=[option, store / name]).values():
                    self.assertEqual(status, 3, said)

    def test_what_ends_early(self):
        for name in ("toolcrib.db", "keys.db"):
            size = (self.made.store / name).stat().st_size
            for left in (1, 99, 4096, size // 2, size - 4096):
                store = self.copy()
                os.truncate(store / name, left)
                # What is missing may be pages that a server does not read to start.
                self.tried(f"{left} bytes of {name}", store, served=True)
        store = self.copy()
        os.truncate(store / "toolcrib.db", 0)
        self.tried("nothing of toolcrib.db", store)

    def test_what_says_it_is_large(self):
        for pages, size in ((0xFFFFFFFF, None), (0x10000000, 1 << 40), (0xFFFFFFFE, 1 << 43), (0x7FFFFFFF, None)):
            store = self.copy()
            path = store / "toolcrib.db"
            patch(path, 28, struct.pack(">I", pages))
            with contextlib.suppress(OSError):          # the file system has no such files
                os.truncate(path, size or path.stat().st_size)
            self.tried(f"{pages} pages of {size}", store, served=True)
        for at, data in ((16, b"\0\1"), (16, b"\2\0"), (18, b"\7\7"), (20, b"\xff"), (44, b"\0\0\0\x09"), (56, b"\0\0\0\2"),
                         (100, b"\0" * 8), (105, b"\0\0")):
            store = self.copy()
            patch(store / "toolcrib.db", at, data)
            self.tried(f"byte {at} is {data!r}", store, served=at == 105)   # SQLite passes over it, but for its own check

    def test_logs_of_others(self):
        other = self.copy()
        with database(other / "toolcrib.db") as db:
            db.execute("PRAGMA wal_autocheckpoint = 0")
            db.execute("UPDATE tenant SET title = 'another'")
            store = self.copy()
            execute(store / "toolcrib.db", "UPDATE tenant SET title = 'mine'", "PRAGMA wal_checkpoint(TRUNCATE)")
            shutil.copy(other / "toolcrib.db-wal", store)
        self.tried("the log of another store", store, served=True)
        with database(other / "keys.db") as db:
            db.execute("PRAGMA wal_autocheckpoint = 0")
            db.execute("CREATE TABLE sqliteX(a)")
            store = self.copy()
            shutil.copy(other / "keys.db-wal", store)
        self.tried("the log of another keys.db", store)

    def test_a_journal_is_not_played_back(self):
        """A reader may not, and a writer's own file is what it was before; that of another store makes it another's."""
        source = self.copy()
        path = source / "toolcrib.db"
        execute(path, "PRAGMA journal_mode = DELETE")
        with database(path) as db:
            db.execute("PRAGMA cache_size = 1")
            db.execute("BEGIN IMMEDIATE")
            for _ in range(3):
                db.execute("UPDATE dict SET text = text || 'x'")
            self.assertTrue((source / "toolcrib.db-journal").stat().st_size > 512)
            store = self.copy()
            for name in ("toolcrib.db", "toolcrib.db-journal"):
                shutil.copy(source / name, store)
            db.execute("ROLLBACK")
        patch(store / "toolcrib.db-journal", 0, bytes.fromhex("d9d505f920a163d7"))
        self.tried("a hot journal", store, served=True)

    def test_files_of_others(self):
        def notes(path):
            execute(path, "CREATE TABLE note(text)", "INSERT INTO note VALUES('mine')")

        self.tried("another program's", self.replaced("toolcrib.db", notes))
        self.tried("a text", self.replaced("toolcrib.db", lambda path: path.write_text("not a database\n" * 1000)))
        self.tried("another program's keys.db", self.replaced("keys.db", notes))

    def test_schemas_of_others(self):
        def endless(path):
            shutil.copy(self.made.store / "toolcrib.db", path)
            execute(path, "PRAGMA foreign_keys = OFF", "DROP VIEW rec_text", "DROP TRIGGER rec_frozen",
                    "CREATE TABLE kept AS SELECT * FROM rec", "DROP TABLE rec", "CREATE VIEW rec AS WITH RECURSIVE n(id) AS "
                    "(SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT n.id, k.* FROM n, kept k")

        def many(path):
            shutil.copy(self.made.store / "toolcrib.db", path)
            with database(path) as db:
                db.execute("BEGIN")
                for i in range(1000):
                    db.execute(f"CREATE VIEW sqliteX{i} AS SELECT {i}")
                db.execute("COMMIT")

        def wide(path):
            """Little text, of which SQLite makes much."""
            shutil.copy(self.made.store / "toolcrib.db", path)
            columns = ",".join("1" * 2000)
            with database(path) as db:
                db.execute("PRAGMA writable_schema = ON")
                db.execute("BEGIN")
                db.executemany("INSERT INTO sqlite_schema VALUES('view', ?1, ?1, 0, ?2)",
                               ((f"v{i}", f"CREATE VIEW v{i} AS SELECT {columns}") for i in range(1200)))
                db.execute("COMMIT")

        self.foreign(endless, many, wide)

    def test_texts_of_others(self):
        def computed(path):
            shutil.copy(self.made.store / "toolcrib.db", path)
            execute(path, "ALTER TABLE meta ADD COLUMN more TEXT AS (hex(zeroblob(500000000)))")

        def controls(path):
            shutil.copy(self.made.store / "toolcrib.db", path)
            execute(path, 'CREATE TABLE "sqliteX\x1b[2J\r\nINTACT \u202e\x07"(a)')

        def broken(path):
            shutil.copy(self.made.store / "toolcrib.db", path)
            execute(path, "PRAGMA writable_schema = ON", "INSERT INTO sqlite_schema VALUES('table', 'a\x1b[2J', 'b\r', 7, 'CREATE x\x1b')")

        self.foreign(computed, controls, broken)

    def foreign(self, *schemas):
        for make in schemas:
            store = self.replaced("toolcrib.db", make)
            with self.subTest(make.__name__):
                for status, said in self.verifiers(store).values():
                    self.assertIn(status, REFUSED, said)
                self.assertEqual(self.bounded([crib.BUILD / "toolcribd", "--store", store, "-c", self.crib.config()])[0], 1)

    def test_a_path_is_a_path(self):
        """Whatever it looks like to a URI (RFC 3986): what lies there is found, and not what lies beside it."""
        plain = self.copy("a b")
        for name in ("a%20b", "a b?mode=memory", "a b#c", "file:a b", "%", "a%00b", "\u00e9\u4e2d"):
            with self.subTest(name):
                store = plain.parent / name
                shutil.copytree(plain, store)
                execute(store / "toolcrib.db", "CREATE TABLE sqliteX(a)")
                for status, said in self.verifiers(store, plain).values():
                    self.assertEqual(status, 4, said)
        shutil.rmtree(store)
        store = plain.rename(plain.parent / "a%20b?c")
        shutil.copytree(store, plain)
        execute(plain / "keys.db", "CREATE TABLE sqliteX(a)")
        for keys, want in ((store, 0), (plain, 4)):
            for status, said in self.verifiers(store, keys).values():
                self.assertEqual(status, want, said)


if __name__ == "__main__":
    crib.main()
