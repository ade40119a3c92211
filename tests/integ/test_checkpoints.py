"""Signed checkpoints: what somebody outside finds with a pinned key, the signer's memory or a note taken away; what a start
refuses; what happens when the signer dies (AUDIT 7, 8; FAULT F15, F17, F18)."""
import contextlib
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import time

import crib

sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("sceptic", crib.SOURCE / "contrib/verify/verify.py")
sceptic = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sceptic)

COMMIT, EPOCH = 2001, 2003


def signer_of(pid):
    """The process number of the server's signer, or None."""
    return next((child for child, name in crib.below(pid).items() if name == "toolcrib-sign"), None)


def rotate(keys):
    """Let a signer begin an epoch as an owner that dies before it can store it (AUDIT A-734); its number."""
    state = [line.split() for line in (keys / "state").read_text().splitlines()]
    epoch = int(next(words[1] for words in state if words[0] == "epoch"))
    size, root, origin = next(words[1:] for words in state if words[0] == "log")
    head = struct.pack(">H", len(origin)) + origin.encode() + struct.pack(">Q", int(size)) + bytes.fromhex(root) + b"\0"
    request = struct.pack(">BQHH", 6, epoch, 0, 1) + head + struct.pack(">HB", 0, 0)
    ours, theirs = socket.socketpair()
    signer = subprocess.Popen([crib.BUILD / "toolcrib-sign", "--dir", keys], stdin=theirs)
    theirs.close()
    ours.sendall(struct.pack(">I", len(request)) + request)
    answer = ours.recv(65536)
    ours.close()
    assert signer.wait(crib.DEADLINE) == 0 and answer[4] == 6, answer
    return epoch + 1


class Checkpoints(crib.Case):
    pins = None

    def query(self, sql, *args):
        with contextlib.closing(sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)) as db:
            return db.execute(sql, args).fetchall()

    def verify(self, *args, store=None, pins=True):
        """toolcrib-verify: exit status and the names of what it found."""
        if self.pins is None:
            self.pins = crib.evidence(self.crib.store)
        done = subprocess.run([crib.BUILD / "toolcrib-verify", *(self.pins if pins else self.pins[2:]), *args,
                               store or self.crib.store], capture_output=True, text=True, timeout=crib.DEADLINE)
        return done.returncode, {line.split()[0] for line in done.stdout.splitlines()[:-1] if " epochs, " not in line}

    def call(self, key, text="hello"):
        peer = self.crib.http(key)
        try:
            return peer.call("echo", {"text": text}, rev=crib.MODERN)["result"]
        finally:
            peer.close()

    def serving(self, extra=""):
        c = self.crib.init().start(extra)
        c.tool(crib.ECHO)
        return c, c.tenant("acme", "echo")

    def await_signed(self):
        """Until an outsider finds nothing that is not covered."""
        crib.wait_for("all signed", lambda: self.verify() == (0, set()))

    def refused(self):
        """The start is refused; what it says."""
        done = self.crib.run("tenant", "list")
        self.assertEqual(done.returncode, 3, done.stdout)
        return done.stderr

    def test_a_record_is_signed_within_a_second_and_the_stop_at_once(self):
        c, key = self.serving()
        self.call(key)
        self.await_signed()
        self.assertEqual({log for log, in self.query("SELECT DISTINCT log FROM cp")}, {1, 2})
        self.assertGreater(self.query("SELECT count(*) FROM rec WHERE kind = ?", COMMIT)[0][0], 0)
        c.stop()
        self.assertEqual(self.verify("--signer-state", c.store / "signer"), (0, set()))
        # The newest note covers server.stop, which is the last record.
        self.assertEqual(self.query("SELECT r.kind, r.idx + 1 - (SELECT max(size) FROM cp WHERE log = 1) FROM rec r "
                                    "WHERE r.log = 1 ORDER BY r.idx DESC LIMIT 1"), [(1602, 0)])

    def test_more_tenants_than_one_beat_signs_are_signed_one_beat_after_the_other(self):
        """A-G07: 450 logs get their first record at once, and none a second one that would remind of it."""
        c = self.crib.init().start("audit: {commit_every: 60}")
        file = c.dir / "many.yaml"
        file.write_text("".join(f"---\nkind: tenant\nname: tenant{i:03}\n" for i in range(450)))
        c.cli("apply", "-f", file)
        crib.wait_for("all signed", lambda: self.query("SELECT count(*) FROM log l WHERE NOT EXISTS"
                                                       "(SELECT 1 FROM cp WHERE log = l.id)") == [(0,)])
        c.stop()
        self.assertEqual(self.verify("--signer-state", c.store / "signer"), (0, set()))

    def test_keys_are_printed_at_init_and_pinned_outside(self):
        c = self.crib
        made = json.loads(c.cli("--json", "init"))
        c.cli("tenant", "add", "acme")
        pins = c.dir / "pins"
        pins.write_text("# of the crib\n" + c.cli("audit", "keys"))
        self.assertEqual(pins.read_text().split("\n")[1:3], [made["log_key"], made["epoch_key"]])
        self.assertEqual(self.verify("--key", pins, pins=False), (0, set()))
        self.assertEqual(self.verify("--key", made["epoch_key"], "--key", made["log_key"], pins=False), (0, set()))
        self.assertEqual(self.verify(pins=False), (3, set()))
        other = crib.Crib()
        self.addCleanup(other.close)
        strange = json.loads(other.cli("--json", "init"))
        name, rest = strange["epoch_key"].split("/e/0+")
        self.assertEqual(self.verify("--key", strange["epoch_key"], pins=False), (4, {"KEYCHAIN"}))
        self.assertEqual(self.verify("--key", "no key")[0], 3)
        text = c.run("audit", "verify", "--key", made["epoch_key"]).stdout
        self.assertIn("as pinned", text)

    def test_each_start_begins_an_epoch_and_destroys_the_last_key(self):
        c = self.crib.init()
        for _ in range(3):
            c.cli("tenant", "list")
        epochs = self.query("SELECT n, length(pk), length(cert) FROM epoch ORDER BY n")
        self.assertEqual(epochs, [(n, 32, None if n == 0 else 64) for n in range(4)])
        self.assertEqual([n for n, in self.query("SELECT DISTINCT epoch FROM cp WHERE log = 1 ORDER BY epoch")], [0, 1, 2, 3])
        self.assertEqual(sorted(f.name for f in (c.store / "signer").glob("*.key")), ["epoch-3.key", "log.key"])
        self.assertEqual(self.query("SELECT count(*) FROM rec WHERE kind = ?", EPOCH), [(4,)])
        with self.tampered("DELETE FROM cp WHERE log = 1 AND epoch = 2"):
            self.assertEqual(self.verify(), (4, {"EPOCH_GAP"}))

    def test_an_epoch_that_a_crash_kept_from_the_store_is_caught_up_with(self):
        c = self.crib.init()
        for _ in range(2):
            begun = rotate(c.store / "signer")
            c.cli("tenant", "list")
            self.assertEqual(self.query("SELECT max(n) FROM epoch"), [(begun + 1,)])
            self.assertEqual(self.verify("--signer-state", c.store / "signer"), (0, set()))
        for _ in range(2):
            rotate(c.store / "signer")
        self.assertIn("SIGNER_AHEAD", self.refused())

    @contextlib.contextmanager
    def tampered(self, *statements):
        """The store with somebody else's changes, and then as it was."""
        file = self.crib.store / "toolcrib.db"
        before = file.read_bytes()
        try:
            with contextlib.closing(sqlite3.connect(file)) as db:
                trigger = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'rec_frozen'").fetchone()[0]
                db.execute("DROP TRIGGER rec_frozen")
                for statement in statements:
                    self.assertGreater(db.execute(statement).rowcount, 0, statement)
                db.execute(trigger)
                db.commit()
            yield
        finally:
            file.write_bytes(before)

    def test_what_signatures_find(self):
        c, key = self.serving()
        for i in range(3):
            self.call(key, str(i))
            c.stop()
            if i < 2:
                c.start()
        self.assertEqual(self.verify(), (0, set()))
        acme = "(SELECT id FROM log WHERE origin LIKE '%/t/acme')"
        newest = f"log = {acme} AND size = (SELECT max(size) FROM cp WHERE log = {acme})"
        # The note with another character in the middle of its last line, which is a signature.
        text = "CAST(note AS TEXT)"
        other = (f"substr({text}, 1, length({text}) - 20) || CASE substr({text}, length({text}) - 19, 1) WHEN 'A' THEN 'B' ELSE 'A' END"
                 f" || substr({text}, length({text}) - 18)")
        for statements, found in (
                # AUDIT A-T22, A-T21, a note of another log, a certificate, a forged key
                ([f"UPDATE cp SET note = CAST({other} AS BLOB) WHERE {newest}"], {"CP_SIG", "PARSE", "CP_ORDER"}),
                ([f"UPDATE cp SET note = (SELECT note FROM cp WHERE log = {acme} ORDER BY size LIMIT 1) WHERE {newest}"],
                 {"CP_SIG", "CP_ORDER"}),
                ([f"UPDATE cp SET note = (SELECT note FROM cp WHERE log = 1 ORDER BY size DESC LIMIT 1) WHERE {newest}"],
                 {"CP_SIG", "CP_ORDER"}),
                ([f"UPDATE cp SET epoch = epoch - 1 WHERE {newest}"], {"CP_SIG", "CP_ORDER"}),
                (["UPDATE epoch SET cert = zeroblob(64) WHERE n = 1"], {"KEYCHAIN"}),
                (["UPDATE epoch SET pk = zeroblob(32) WHERE n = 1"], {"KEYCHAIN", "CP_SIG"}),
                (["DELETE FROM cp", "DELETE FROM epoch"], {"KEYCHAIN"})):
            with self.subTest(statements=statements), self.tampered(*statements):
                status, got = self.verify()
                self.assertEqual(status, 4)
                self.assertTrue(got & found and got <= found | {"UNCOVERED_TAIL", "EPOCH_GAP"}, got)
        # AUDIT A-T13: the tail of a tenant with its checkpoints, and heads that say so.
        size = self.query(f"SELECT min(size) FROM cp WHERE log = {acme}")[0][0]
        with self.tampered(f"DELETE FROM cp WHERE log = {acme} AND size > {size}", f"DELETE FROM rec WHERE log = {acme} AND idx >= {size}",
                           f"UPDATE head SET size = {size}, root = zeroblob(32) WHERE log = {acme}"):
            self.assertIn("CROSS_REF", self.verify()[1])
        # AUDIT A-T14
        with self.tampered(*[f"DELETE FROM {table} WHERE log = {acme}" for table in ("cp", "rec", "head")],
                           f"DELETE FROM log WHERE id = {acme}"):
            status, got = self.verify("--signer-state", c.store / "signer")
            self.assertTrue(status == 4 and {"LOG_MISSING", "CROSS_REF"} <= got, got)

    def said(self):
        """Of each logs.commit that has heads, what it says: log -> size."""
        found = [sceptic.fields(ext).get(0x117) for ext, in self.query("SELECT ext FROM rec WHERE kind = ? ORDER BY id", COMMIT)]
        return [dict(sceptic.said_heads(heads)[0]) for heads in found if heads]

    @contextlib.contextmanager
    def cut(self, store, acme):
        """A copy of a store whose newest records of a tenant are gone with their checkpoint, and all that is not signed says so."""
        twin = store.parent / "cut.db"
        with contextlib.closing(sqlite3.connect(f"file:{store}/toolcrib.db?mode=ro", uri=True)) as db, \
                contextlib.closing(sqlite3.connect(twin)) as copy:
            db.backup(copy)
            trigger = copy.execute("SELECT sql FROM sqlite_schema WHERE name = 'rec_frozen'").fetchone()[0]
            copy.execute("DROP TRIGGER rec_frozen")
            newest, = copy.execute("SELECT max(size) FROM cp WHERE log = ?", (acme,)).fetchone()
            tree = sceptic.Tree()
            size, = copy.execute("SELECT coalesce(max(size), 0) FROM cp WHERE log = ? AND size < ?", (acme, newest)).fetchone()
            for leaf, in copy.execute("SELECT leaf FROM rec WHERE log = ? AND idx < ? ORDER BY idx", (acme, size)):
                tree.append(leaf)
            copy.execute("DELETE FROM cp WHERE log = ? AND size > ?", (acme, size))
            copy.execute("DELETE FROM pay WHERE rec IN (SELECT id FROM rec WHERE log = ? AND idx >= ?)", (acme, size))
            copy.execute("DELETE FROM alias WHERE log = ? AND idx >= ?", (acme, size))
            copy.execute("DELETE FROM rec WHERE log = ? AND idx >= ?", (acme, size))
            copy.execute("UPDATE head SET size = ?, root = ?, frontier = ? WHERE log = ?", (size, tree.root(), b"".join(tree.peaks), acme))
            copy.execute(trigger)
            copy.commit()
        yield twin
        twin.unlink()

    def test_sc506_a_dropped_tail_shows_to_the_signer_at_once_and_to_the_store_alone_when_heads_were_said(self):
        """SC-506: logs.commit at most each audit.commit_every; the note of a tenant and the signer keep their second."""
        c = self.crib.init().start()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        self.call(key)
        self.await_signed()
        acme, = self.query("SELECT id FROM log WHERE origin LIKE '%/t/acme'")[0]
        c.stop()                                # all is said; an epoch ends here, and with it a note that stays
        self.assertEqual(self.said()[-1][acme], self.query("SELECT max(idx) + 1 FROM rec WHERE log = ?", acme)[0][0])
        c.start("audit: {commit_every: 60}")
        began, before = time.monotonic(), len(self.said())
        for i in range(2):
            self.call(key, str(i))
            self.await_signed()
        with self.cut(c.store, acme) as twin:
            status, found = self.verify("--signer-state", c.store / "signer", store=twin)
            self.assertTrue(status == 4 and "SIGNER_AHEAD" in found, found)
            found = self.verify(store=twin)[1]
            said = len(self.said()) > before
            self.assertTrue(time.monotonic() - began > 50 or not said, "it was said too early")
            self.assertTrue(said or "CROSS_REF" not in found, found)
        # On demand heads are said at once, as at a stop.
        c.cli("audit", "checkpoint")
        self.assertEqual(self.said()[-1][acme], self.query("SELECT max(size) FROM cp WHERE log = ?", acme)[0][0])
        with self.cut(c.store, acme) as twin:
            self.assertIn("CROSS_REF", self.verify(store=twin)[1])
        c.stop()

    def test_sc506_a_start_behind_a_crash_says_all_heads(self):
        """SC-506: what was signed and not said when the server died is said by the next one, whoever that is."""
        c = self.crib.init().start("audit: {commit_every: 60}")
        c.tool(crib.ECHO)
        keys = [c.tenant(name, "echo") for name in ("acme", "other")]
        for key in keys:
            self.call(key)
        self.await_signed()
        c.stop(signal.SIGKILL)
        sizes = dict(self.query("SELECT log, max(idx) + 1 FROM rec WHERE log > 1 GROUP BY log"))
        before = len(self.said())
        c.cli("tenant", "list")
        after = self.said()[before:]
        self.assertTrue(after and all(after[0].get(log, 0) >= size for log, size in sizes.items()), (after, sizes))
        self.assertEqual(self.verify("--signer-state", c.store / "signer"), (0, set()))
        before = len(self.said())               # behind a stop nothing is left to say
        c.cli("tenant", "list")
        self.assertEqual(len(self.said()), before)

    def test_sc506_an_epoch_ends_with_a_commit_of_all_its_logs(self):
        """SC-506: so a verifier needs one list of heads an epoch; the notes of that size stay at the end of it (A-706)."""
        later = self.crib.dir / "later"
        later.write_text("0")
        self.crib.env.update(LD_PRELOAD=str(crib.BUILD / "tests/integ/shift.so"), TOOLCRIB_TEST_LATER=str(later),
                             ASAN_OPTIONS="verify_asan_link_order=0")
        c = self.crib.init().start("audit: {commit_every: 60}")
        c.tool(crib.ECHO)
        keys = [c.tenant(name, "echo") for name in ("acme", "other", "third")]
        for key in keys:                        # each in a commit of its own
            self.call(key)
            c.cli("audit", "checkpoint")
        old, = self.query("SELECT max(n) FROM epoch")[0]
        before = len(self.said())
        later.write_text("86401")               # a day has passed
        self.call(keys[0])
        crib.wait_for("another epoch", lambda: self.query("SELECT max(n) FROM epoch")[0][0] > old)
        self.await_signed()
        logs = {log for log, in self.query("SELECT id FROM log WHERE id > 1")}
        border, = self.query("SELECT max(size) FROM cp WHERE log = 1 AND epoch = ?", old)[0]
        last, = [ext for ext, in self.query("SELECT ext FROM rec WHERE log = 1 AND kind = ? AND idx < ? ORDER BY idx DESC LIMIT 1",
                                            COMMIT, border)]
        heads = dict(sceptic.said_heads(sceptic.fields(last)[0x117])[0])
        self.assertEqual((set(heads), len(self.said()) > before), (logs, True))
        self.assertEqual(heads, dict(self.query("SELECT log, max(size) FROM cp WHERE log > 1 AND epoch = ? GROUP BY log", old)))
        c.stop()
        self.assertEqual(self.verify("--signer-state", c.store / "signer"), (0, set()))

    def test_a_store_that_was_put_back_is_refused(self):
        c, key = self.serving()
        self.call(key)
        c.stop()
        old = (c.store / "toolcrib.db").read_bytes()
        state = (c.store / "signer" / "state").read_bytes()
        c.start()
        self.call(key)
        note = c.dir / "note"
        note.write_text(c.cli("audit", "checkpoint"))
        c.stop()
        self.assertEqual(self.verify("--anchor", note), (0, set()))
        new = (c.store / "toolcrib.db").read_bytes()
        (c.store / "toolcrib.db").write_bytes(old)
        # By itself it is in order; the signer's memory, or the note, shows the rest (AUDIT A-110, A-T25).
        self.assertEqual(self.verify(), (0, set()))
        self.assertEqual(self.verify("--signer-state", c.store / "signer"), (4, {"SIGNER_AHEAD"}))
        self.assertEqual(self.verify("--anchor", note), (4, {"ANCHOR"}))
        self.assertIn("SIGNER_AHEAD", self.refused())
        # FAULT F18: the signer's memory put back instead.
        (c.store / "toolcrib.db").write_bytes(new)
        (c.store / "signer" / "state").write_bytes(state)
        self.assertIn("signer", self.refused())

    def test_a_lost_signer_is_named(self):
        c = self.crib.init()
        shutil.move(c.store / "signer", c.dir / "away")
        said = self.refused()
        self.assertIn("has no keys", said)
        self.assertIn("put the signer's directory back", said)
        shutil.rmtree(c.store / "signer")
        shutil.move(c.dir / "away", c.store / "signer")
        c.cli("tenant", "list")

    def test_the_signer_may_die(self):
        c, key = self.serving()
        for _ in range(3):
            first = signer_of(c.daemon.pid)
            os.kill(first, signal.SIGKILL)
            self.assertEqual(self.call(key)["content"][0]["text"], "hello")
            crib.wait_for("another signer", lambda: signer_of(c.daemon.pid) not in (None, first))
            self.await_signed()
        c.stop()
        self.assertEqual(self.verify("--signer-state", c.store / "signer"), (0, set()))

    def test_a_crash_lists_its_tail(self):
        c, key = self.serving()
        self.await_signed()
        os.kill(signer_of(c.daemon.pid), signal.SIGSTOP)
        self.call(key)
        c.stop(signal.SIGKILL)
        status, found = self.verify()
        self.assertEqual((status, found), (5, {"UNCOVERED_TAIL"}))
        c.cli("tenant", "list")
        ext = self.query("SELECT ext FROM rec WHERE kind = 1603")[0][0]
        tag, length = struct.unpack(">HI", ext[:6])
        self.assertEqual((tag, length % 36), (0x0115, 0))
        log, start, end, first, last = struct.unpack(">IQQQQ", ext[6:42])
        self.assertTrue(start < end and 0 < first <= last)
        self.assertEqual(self.verify(), (0, set()))

    def test_records_that_no_server_wrote_have_to_be_adopted(self):
        c = self.crib.init()
        c.cli("tenant", "add", "acme")
        file, twin = c.store / "toolcrib.db", c.dir / "twin"
        shutil.copytree(c.store, twin)
        subprocess.run([crib.BUILD / "toolcrib", "--store", twin, "tenant", "set", "acme", "--title", "forged"], check=True,
                       capture_output=True, env=c.env)
        # As somebody would add records who has the file, and not the signer.
        with contextlib.closing(sqlite3.connect(twin / "toolcrib.db")) as db:
            newest = self.query("SELECT max(n) FROM epoch")[0][0]
            db.execute("DELETE FROM cp WHERE epoch > ?", (newest,))
            db.execute("DELETE FROM epoch WHERE n > ?", (newest,))
            db.commit()
        shutil.copy(twin / "toolcrib.db", file)
        self.assertEqual(self.verify()[0], 4)
        said = self.refused()
        self.assertIn("no server could have", said)
        tails = said.split("audit adopt")[1].split()
        self.assertTrue(any(t.startswith("system:") for t in tails), tails)
        self.assertEqual(c.run("audit", "adopt", "system:0-1").returncode, 3)
        c.cli("audit", "adopt", *tails)
        c.cli("tenant", "list")

    def test_a_signer_of_its_own(self):
        c = self.crib.init()
        keys, path = c.dir / "keys", c.dir / "sign.sock"
        shutil.move(c.store / "signer", keys)
        signer = subprocess.Popen([crib.BUILD / "toolcrib-sign", "--dir", keys, "--socket", path], stdin=subprocess.DEVNULL)
        self.addCleanup(signer.wait)
        self.addCleanup(signer.kill)
        crib.wait_for("a signer that listens", path.exists)
        twin = c.dir / "twin"
        shutil.copytree(c.store, twin)
        c.start(f"signer: {{socket: {path}}}")
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        self.call(key)
        self.await_signed()
        self.assertIsNone(signer_of(c.daemon.pid))
        c.stop()
        # Commands find it without having read the configuration (AUDIT A-603).
        c.cli("tenant", "list")
        self.assertFalse((c.store / "signer").exists())
        self.assertEqual(self.verify("--signer-state", keys), (0, set()))
        # FAULT F15: a copy elsewhere is not signed by the same signer.
        with open(c.dir / "twin.log", "wb") as log:
            second = subprocess.run([crib.BUILD / "toolcribd", "--store", twin, "-c", c.dir / "toolcribd.yaml"], stdin=subprocess.DEVNULL,
                                    stdout=log, stderr=log, timeout=crib.DEADLINE, env=c.env)
        self.assertEqual(second.returncode, 1)
        self.assertIn("SIGNER_AHEAD", (c.dir / "twin.log").read_text())

    def test_checkpoints_are_taken_outside(self):
        c = self.crib.init()
        kept, ran, program = c.dir / "anchors", c.dir / "ran", c.dir / "anchor.sh"
        program.write_text(f"#!/bin/sh\ncat > {ran}\necho taken as 4711\n")
        program.chmod(0o755)
        c.start(f"anchor: {{file: {kept}, cmd: {program}}}")
        rows = crib.wait_for("both", lambda: (lambda r: r if len(r) == 2 else None)(
            self.query("SELECT kind, size, note, receipt FROM anchor ORDER BY kind")))
        self.assertEqual([row[0] for row in rows], [1, 2])
        self.assertEqual(rows[1][3], b"taken as 4711\n")
        self.assertEqual(kept.read_bytes(), rows[0][2])
        self.assertEqual(ran.read_bytes(), rows[1][2])
        self.assertEqual(self.query("SELECT count(*) FROM rec WHERE kind = 2002"), [(2,)])
        self.assertRegex(c.log.read_text(), r"checkpoint origin=\S+ size=\d+ root=")
        c.stop()
        self.assertEqual(self.verify("--anchor", kept, "--anchor", ran, "--anchor-max-age", "1h"), (0, set()))
        # One that hangs is ended with the server, and one that fails leaves no receipt.
        for script in ("sleep 60", "cat >/dev/null; exit 1"):
            program.write_text(f"#!/bin/sh\n{script}\n")
            c.start(f"anchor: {{cmd: {program}}}")
            self.assertEqual(c.stop(), 0)
        self.assertEqual(len(self.query("SELECT * FROM anchor")), 2)
        self.assertEqual(self.verify(), (0, set()))
        for text in (b"", b"no note\n", kept.read_bytes().replace(b"\n\n", b"\n", 1)):
            kept.write_bytes(text)
            self.assertIn(self.verify("--anchor", kept)[0], (3, 4))

    def test_calls_are_refused_when_checkpoints_stay_away(self):
        """AUDIT A-715, FAULT F17: the signer hangs, or is gone; then it is there again."""
        c = self.crib.init()
        keys, path = c.dir / "keys", c.dir / "sign.sock"
        shutil.move(c.store / "signer", keys)
        words = [crib.BUILD / "toolcrib-sign", "--dir", keys, "--socket", path]
        signer = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        crib.wait_for("a signer that listens", path.exists)
        c.start(f"signer: {{socket: {path}}}\naudit: {{checkpoint_max_age: 5}}")
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        began = time.monotonic()
        self.call(key)
        signer.kill()
        signer.wait()

        def said():
            peer = self.crib.http(key)
            try:
                return peer.call("echo", {"text": "x"}, rev=crib.MODERN)
            finally:
                peer.close()
        got = said()
        self.assertTrue("result" in got or time.monotonic() - began > 5, "for a while calls go on")
        refused = crib.wait_for("a refusal", lambda: said().get("error"))
        self.assertEqual((refused["code"], refused["data"]["reason"]), (5030, "audit_unavailable"))
        status = c.run("status")
        self.assertEqual((status.returncode, "cannot be signed" in status.stdout), (1, True), status.stdout)
        signer = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        self.addCleanup(signer.wait)
        self.addCleanup(signer.kill)
        crib.wait_for("calls again", lambda: "result" in said())
        c.stop()
        self.assertEqual(self.verify("--signer-state", keys), (0, set()))

    def test_a_signer_that_listens_serves_several(self):
        c = self.crib.init()
        path = c.dir / "sign.sock"
        signer = subprocess.Popen([crib.BUILD / "toolcrib-sign", "--dir", c.store / "signer", "--socket", path], stdin=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
        self.addCleanup(signer.stderr.close)
        self.addCleanup(signer.wait)
        self.addCleanup(signer.kill)
        crib.wait_for("a signer that listens", path.exists)

        def connect():
            s = socket.socket(socket.AF_UNIX)
            self.addCleanup(s.close)
            s.settimeout(crib.DEADLINE)
            s.connect(str(path))
            return s
        idle = [connect() for _ in range(15)]
        c.start(f"signer: {{socket: {path}}}")        # the 16th
        more = connect()
        self.assertEqual(more.recv(1), b"", "the 17th")
        self.assertIn("16 connections are open", signer.stderr.readline())
        idle[0].sendall(b"\0\0")                   # a request that does not go on: it ends, and nobody waits for more
        self.assertEqual(idle[0].recv(1), b"")
        self.assertIn("did not answer in time", signer.stderr.readline())
        connect().sendall(b"\0")
        self.assertEqual(c.stop(), 0)
        self.assertEqual(self.verify("--signer-state", c.store / "signer"), (0, set()))

    def test_configuration(self):
        c = self.crib.init()
        for extra, said in (("signer: {dir: /a, socket: /b}", "signer.socket"), ("signer: {socket: relative}", "absolute"),
                            ("audit: {checkpoint_max_age: 4}", "checkpoint_max_age")):
            done = subprocess.run([crib.BUILD / "toolcribd", "--store", c.store, "-c", c.config(extra)], capture_output=True,
                                  text=True, timeout=crib.DEADLINE, env=c.env)
            self.assertEqual(done.returncode, 1)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    crib.main()
