"""What verifiers say of what they did not look at, of evidence that does not fit, and of stores made by an enemy (decision 0049)."""
import contextlib
import json
import os
import re
import resource
import sqlite3
import subprocess
import time

import crib

TV, PY = (crib.BUILD / "toolcrib-verify",), crib.sceptic()
SECONDS = 10
ESCAPES = "\r\x1b[2KINTACT 9 records of 2 logs: 0 bad, 0 gaps\x1b[8m\x9b\u202e\n\nINTACT\n"


class Evidence(crib.Case):
    def said(self, program, *options, store=None):
        """A verifier within the bounds of a hostile store: exit status, codes, all that it printed."""
        def bounded():
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        done = subprocess.Popen([*program, *map(str, options), store or self.crib.store / "toolcrib.db"], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, preexec_fn=bounded)
        text, _ = done.communicate(timeout=6 * crib.DEADLINE)
        text = text.decode()
        return done.returncode, set(re.findall(r"(?m)^([A-Z_]+) (?!\d+ records)", text)), text

    def both(self, *options, store=None):
        """What both verifiers for outsiders say, which must be the same: exit status and codes."""
        (ours, found, text), (theirs, other, more) = (self.said(program, *options, store=store) for program in (TV, PY))
        self.assertEqual((ours, found), (theirs, other), text + more)
        return ours, found

    def ready(self):
        c = self.crib.init()
        c.tool(crib.ECHO)
        c.tenant("acme", "echo")
        c.cli("call", "acme", "echo", "text=hello")
        self.pins = crib.evidence(c.store)
        return c

    @contextlib.contextmanager
    def changed(self, *statements, args=()):
        """The store after somebody with the file, and then as it was."""
        file = self.crib.store / "toolcrib.db"
        before = file.read_bytes()
        try:
            with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as db:
                frozen = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'rec_frozen'").fetchone()[0]
                db.execute("DROP TRIGGER rec_frozen")
                for statement in statements:
                    self.assertGreater(db.execute(statement, args).rowcount, 0, statement)
                db.execute(frozen)
            yield
        finally:
            file.write_bytes(before)

    def test_what_was_not_looked_at_is_said(self):
        """Neither a store that nobody vouches for nor values that nobody opened are intact."""
        self.ready()
        self.assertEqual(self.both(*self.pins), (0, set()))
        self.assertEqual(self.both(*self.pins[:2]), (5, {"NOT_CHECKED"}))
        for program in (TV, PY):
            status, found, text = self.said(program, *self.pins[2:])
            self.assertEqual((status, found), (3, set()), text)
            self.assertRegex(text, r"(?m)^UNPINNED \d+ records of 2 logs: 0 bad, 0 gaps$")
            self.assertIn("no key is pinned", text)
        for change, found in (("UPDATE pay SET ct = zeroblob(length(ct)) WHERE ct IS NOT NULL", {"PAYLOAD"}),
                              ("UPDATE principal SET name = name || 'x' WHERE pseudonym IN (SELECT name FROM alias)", {"ALIAS"})):
            with self.changed(change):
                self.assertEqual(self.both(*self.pins), (4, found))
                self.assertEqual(self.both(*self.pins[:2]), (5, {"NOT_CHECKED"}))
                for program in (TV, PY):        # damage is damage, whoever vouches; without keys none is seen
                    self.assertEqual(self.said(program, *self.pins[2:])[0], 4)
                    self.assertEqual(self.said(program)[0], 3)

    def test_a_store_of_which_nothing_is_kept_needs_no_keys(self):
        c = self.crib.init()
        c.cli("tenant", "add", "acme")
        self.assertEqual(self.both(*crib.evidence(c.store, keys=False)), (0, set()))

    def test_a_foreign_store_is_not_the_pinned_one(self):
        """Nor one whose signatures are gone, nor a note of it."""
        c = self.ready()
        other = crib.Crib()
        self.addCleanup(other.close)
        other.cli("init")
        note = c.dir / "foreign.note"
        note.write_text(other.cli("audit", "checkpoint"))
        self.assertEqual(self.both(*self.pins, store=other.store / "toolcrib.db")[0], 4)
        self.assertIn("KEYCHAIN", self.both(*self.pins[:2], store=other.store / "toolcrib.db")[1])
        with self.changed("DELETE FROM cp", "DELETE FROM epoch"):
            for program in (TV, PY):
                status, found, text = self.said(program, *self.pins)
                self.assertEqual((status, "KEYCHAIN" in found), (4, True), text)
        for program in (TV, PY):
            for pins in (self.pins, self.pins[2:]):
                status, found, text = self.said(program, *pins, "--anchor", note)
                self.assertEqual((status, "LOG_MISSING" in found), (4, True), text)

    def test_a_note_whose_signer_nobody_knows_is_not_checked(self):
        c = self.ready()
        note = c.dir / "a.note"
        note.write_text(c.cli("audit", "checkpoint"))
        self.assertEqual(self.both(*self.pins, "--anchor", note), (0, set()))
        for program in (TV, PY):
            status, found, text = self.said(program, *self.pins[2:], "--anchor", note)
            self.assertEqual((status, found), (3, {"NOT_CHECKED"}), text)
        text = note.read_text()
        at = text.index("+", text.index("/e/")) if "+" in text[text.index("/e/"):] else len(text) - 20
        note.write_text(text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1:])
        self.assertEqual(self.said(TV, *self.pins, "--anchor", note)[0], 4)

    def test_the_age_of_an_anchor_is_that_of_its_record(self):
        """A row says "just now": it is found, and what is not known is too old."""
        c = self.ready()
        age = ("--anchor-max-age", "1h")
        self.assertEqual(self.said(TV, *self.pins, *age)[:2], (5, {"NO_ANCHOR"}))
        note = c.dir / "a.note"
        note.write_text(c.cli("audit", "checkpoint"))
        self.assertEqual(self.said(TV, *self.pins, *age, "--anchor", note)[:2], (0, set()))
        insert = ("INSERT INTO anchor(kind, size, note, ts) SELECT 1, size, note, (SELECT max(ts) FROM rec) + 1000000 FROM cp "
                  "WHERE log = 1 ORDER BY size DESC LIMIT 1")
        with self.changed(insert):
            self.assertEqual(self.said(TV, *self.pins, *age)[:2], (4, {"NO_ANCHOR", "REGISTRY"}))
            self.assertEqual(self.both(*self.pins), (4, {"REGISTRY"}))
        c.start(f"anchor: {{file: {c.dir}/anchors}}")
        crib.wait_for("an anchor", lambda: c.rows("SELECT 1 FROM anchor"))
        c.stop()
        self.assertEqual(self.said(TV, *self.pins, *age)[:2], (0, set()))
        with self.changed("UPDATE anchor SET ts = ts - 86400000000"):
            self.assertEqual(self.both(*self.pins), (4, {"REGISTRY"}))
        with self.changed("DELETE FROM anchor"):
            self.assertEqual(self.both(*self.pins), (4, {"REGISTRY"}))
        newest, = c.rows("SELECT ts / 1000000 FROM rec WHERE kind = 2002 ORDER BY ts DESC")[0]
        # A tenant's log says nothing of anchors, and that is said.
        done = c.run("audit", "verify", "--tenant", "acme", *age)
        self.assertEqual(done.returncode, 5, done.stdout)
        self.assertIn("NOT_CHECKED", done.stdout)
        with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db", isolation_level=None)) as db:
            db.execute(insert)
        header = json.loads(c.cli("audit", "calls", "--tenant", "acme", "--format", "json"))["header"]
        self.assertEqual(header["anchor"][:19], time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(newest)))

    def test_nothing_of_a_store_reaches_the_terminal(self):
        c = self.ready()
        for change in ("UPDATE alias SET name = ? WHERE id = 1", "UPDATE dict SET text = ? WHERE text = 'echo'", "UPDATE tenant SET name = ?",
                       "UPDATE log SET origin = ? WHERE id = 2", "UPDATE log SET origin = ? WHERE id = 1", "UPDATE tenant SET title = ?",
                       "UPDATE principal SET name = ? WHERE id = 1"):
            for text in (ESCAPES, "long" * 100000):
                with self.subTest(change=change), self.changed(change, args=(text,)):
                    for program in (TV, PY):
                        for options in ((), self.pins):
                            status, _, said = self.said(program, *options)
                            self.assertIn(status, (0, 3, 4, 5))
                            self.assertTrue(all(" " <= letter <= "~" or letter == "\n" for letter in said), repr(said))
                            self.assertLess(max(map(len, said.splitlines())), 4000)
                            self.assertEqual(len(re.findall(r"(?m)^INTACT", said)), int(status == 0), said)
        self.assertEqual(c.run("audit", "verify").returncode, 0)

    def test_no_number_of_a_store_is_a_loop(self):
        """Sizes, indexes and beginnings that no log can have, and values that no release writes: found, soon."""
        self.ready()
        for change in ("UPDATE head SET size = 1 << 60", "UPDATE rec SET idx = 1 << 60 WHERE id = (SELECT max(id) FROM rec)",
                       "UPDATE log SET min_idx = 1 << 60, pruned_by = 1 << 60", "UPDATE log SET min_idx = (1 << 62) + 256",
                       "UPDATE rec SET idx = idx - 1000000 WHERE kind = 1002", "UPDATE head SET size = -1", "UPDATE log SET min_idx = -5",
                       "UPDATE cp SET size = 9223372036854775807 WHERE size = (SELECT max(size) FROM cp)",
                       "UPDATE rec SET idx = 9223372036854775807 WHERE id = (SELECT max(id) FROM rec)",
                       "UPDATE epoch SET n = n + (1 << 60)",
                       "INSERT INTO hold(log, set_by) VALUES(2, 1 << 60)"):
            with self.subTest(change=change), self.changed(change):
                for program in (TV, PY):
                    status, found, text = self.said(program, *self.pins)
                    self.assertEqual(status, 4, text)
                    self.assertTrue(found)

    def test_large_values_are_findings(self):
        self.ready()
        for change in ("UPDATE rec SET ext = zeroblob(100000000) WHERE id = 2", "UPDATE dict SET text = hex(zeroblob(30000000)) WHERE id = 1",
                       "UPDATE cp SET note = zeroblob(100000000) WHERE log = 1", "UPDATE pay SET ct = zeroblob(100000000)"):
            with self.subTest(change=change), self.changed(change):
                for program in (TV, PY):
                    status, found, text = self.said(program, *self.pins)
                    self.assertIn(status, (3, 4), text)

    def test_a_store_may_be_written_to_while_it_is_read(self):
        c = self.ready()
        key = c.key("acme/live")
        c.start()
        with contextlib.closing(c.tcp(key)) as peer:
            peer.initialize()
            for program in (TV, PY) * 2:
                child = subprocess.Popen([*program, *self.pins, c.store / "toolcrib.db"], stdout=subprocess.PIPE, text=True)
                calls = 0
                while child.poll() is None:
                    self.assertIn("result", peer.call("echo", {"text": f"call {calls}"}))
                    calls += 1
                with child.stdout:
                    text = child.stdout.read()
                # What is not signed yet is a gap for whoever does not ask the server.
                self.assertIn(child.returncode, (0, 5), text)
                self.assertLessEqual(set(re.findall(r"(?m)^([A-Z_]+) (?!\d+ records)", text)), {"UNCOVERED_TAIL"})

    def test_a_note_that_a_newer_one_replaces_is_no_damage(self):
        """AUDIT A-706, A-722: between the reading of a head and of its notes; what then ends with a stop has gone on since."""
        c = self.ready()
        c.start()
        work, gate = c.dir / "work", c.dir / "gate"
        newest = "SELECT max(size) FROM cp WHERE log = 1"
        gate.touch()
        env = {**c.env, "LD_PRELOAD": str(crib.BUILD / "tests/integ/work.so"), "ASAN_OPTIONS": "verify_asan_link_order=0",
               "TOOLCRIB_TEST_WORK": str(work), "TOOLCRIB_TEST_GATE": str(gate), "TOOLCRIB_TEST_PAUSE": "SELECT l.id, l.origin, h.size"}
        crib.wait_for("all signed", lambda: c.rows("SELECT max(idx) + 1 FROM rec WHERE log = 1") == c.rows(newest))
        noted = c.rows(newest)
        child = subprocess.Popen([*TV, *self.pins, c.store / "toolcrib.db"], stdout=subprocess.PIPE, text=True, env=env)
        crib.wait_for("the head read", lambda: gate.stat().st_size)
        c.key("acme/later")
        crib.wait_for("a newer note", lambda: c.rows(newest) > noted)
        self.assertEqual(c.rows(f"SELECT count(*) FROM cp WHERE log = 1 AND size = {noted[0][0]}"), [(0,)])
        os.truncate(gate, 0)
        text, _ = child.communicate(timeout=crib.DEADLINE)
        self.assertEqual(child.returncode, 0, text)
        self.assertRegex(text, "(?m)^INTACT ")


if __name__ == "__main__":
    crib.main()
