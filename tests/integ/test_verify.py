"""audit verify: on a store that is being written, after a crash, and after somebody has been at the file (AUDIT 8)."""
import concurrent.futures
import contextlib
import json
import pty
import shutil
import signal
import sqlite3
import subprocess

import crib

# What the two verifiers tell in other words when a head was changed.
OWN = {"UNCOVERED_TAIL"}
# What goes along with a change that is found by its own name (AUDIT 9).
ALONG = {"CROSS_REF", "REGISTRY", "ALIAS", "PAYLOAD", "PAYLOAD_MISSING", "PAYLOAD_EXTRA"}

FROZEN = "CREATE TRIGGER rec_frozen BEFORE UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END"


class Verify(crib.Case):
    pins = None

    def verify(self, *args, status=0):
        done = self.crib.run("--json", "audit", "verify", *args)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def evidence(self):
        """Pinned before anybody was at the store."""
        if self.pins is None:
            self.pins = crib.evidence(self.crib.store)
        return self.pins

    def outside(self, *program):
        """A verifier of its own: exit status, what it found in which log, what it says last without the findings of rows."""
        done = subprocess.run([*program, *self.evidence(), self.crib.store / "toolcrib.db"], capture_output=True, text=True, timeout=crib.DEADLINE)
        self.assertEqual(done.stderr[-600:], "")
        *findings, last = [line.split() for line in done.stdout.splitlines() if " epochs, " not in line]
        found = {(words[0], words[1].rstrip(":")) for words in findings}
        return done.returncode, found, last[:6]

    def outsiders(self):
        """toolcrib-verify and the sceptic's program, which share no code, must say the same."""
        programs = (crib.BUILD / "toolcrib-verify",), crib.sceptic()

        def look():
            looks = [self.outside(*program) for program in programs]
            # a server writes a record with each checkpoint, and others, until all is signed
            return None if self.crib.daemon and any(name in OWN for _, found, _ in looks for name, _ in found) else looks
        ours, theirs = crib.wait_for("all signed", look)
        # without what one of the two alone looks at
        self.assertEqual(*((status, {(name, log) for name, log in found if name not in OWN}, last) for status, found, last in (ours, theirs)))
        return theirs[0], {name for name, _ in theirs[1]} - ALONG

    def calls(self, key, n):
        peer = self.crib.http(key)
        for i in range(n):
            peer.call("echo", {"text": str(i)}, rev=crib.MODERN)
        peer.close()

    def tamper(self, *statements):
        with contextlib.closing(sqlite3.connect(self.crib.store / "toolcrib.db")) as db:
            db.execute("DROP TRIGGER rec_frozen")
            for statement in statements:
                self.assertGreater(db.execute(statement).rowcount, 0)
            db.execute(FROZEN)
            db.commit()

    def test_a_store_is_intact_while_it_is_written_and_after_a_crash(self):
        c = self.crib.init().start()
        c.tool(crib.ECHO)
        keys = [c.tenant("acme", "echo"), c.tenant("other", "echo")]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            work = [pool.submit(self.calls, key, 150) for key in keys * 2]
            while not all(w.done() for w in work):
                # What runs at this moment has no end yet: no gap, and no damage (HARDENING F-19).
                self.assertEqual(self.verify()[-1]["finding"], "INTACT")
            for w in work:
                w.result()
        rows = self.verify()
        self.assertEqual([(r["finding"], r["class"], r["logs"]) for r in rows], [("INTACT", "sum", 3)])
        self.assertGreaterEqual(rows[0]["records"], 2 * 2 * 300)
        self.assertEqual(self.outsiders(), (0, set()))
        c.stop(signal.SIGKILL)
        self.assertEqual(self.verify()[-1]["finding"], "INTACT")
        c.start()
        self.calls(keys[0], 3)
        self.assertEqual(self.verify("--tenant", "acme")[-1]["logs"], 1)
        read = [r for r in c.json("audit", "calls", "--tenant", "acme", "--limit", "0") if r["outcome"] == "ok"]
        self.assertEqual(len(read), 303)

    def test_sc104_heads_lag_behind_when_a_server_dies_and_nobody_is_misled(self):
        """SC-104: the records say what a log is, a head what it was; one that lies is found, and a start goes on."""
        c = self.crib.init()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        lag = "SELECT h.log FROM head h WHERE h.size <= (SELECT max(idx) FROM rec WHERE log = h.log) AND h.log > 1"

        def dies_behind():
            c.start()
            self.calls(key, 20)
            c.stop(signal.SIGKILL)
            return c.rows(lag)

        crib.wait_for("a head that lags behind", dies_behind)
        pristine = {name: (c.store / name).read_bytes() for name in ("toolcrib.db", "toolcrib.db-wal")}
        ours, theirs = (crib.BUILD / "toolcrib-verify",), crib.sceptic()
        for program in ours, theirs:
            status, found, _ = self.outside(*program)
            self.assertLessEqual({name for name, _ in found}, {"UNCOVERED_TAIL"}, "no checkpoint has the last moment")
            self.assertIn(status, (0, 5))
        for statement, name in (("UPDATE head SET root = zeroblob(32) WHERE log = 2", "ROOT"),
                                ("UPDATE head SET size = size + 5000 WHERE log = 2", "TRUNCATED"),
                                ("DELETE FROM rec WHERE log = 2 AND idx = (SELECT max(idx) - 1 FROM rec WHERE log = 2)", "GAP")):
            self.tamper(statement)
            for program in ours, theirs:
                status, found, _ = self.outside(*program)
                self.assertEqual((status, name in {code for code, _ in found}), (4, True), (statement, program))
            for name, data in pristine.items():
                (c.store / name).write_bytes(data)
            (c.store / "toolcrib.db-shm").unlink(missing_ok=True)
        c.start()
        self.calls(key, 3)
        c.stop()
        self.assertEqual(c.rows(lag), [], "a stop leaves none behind")
        self.assertEqual(self.outsiders(), (0, set()))

    def test_f19_a_busy_healthy_server_is_intact(self):
        """HARDENING F-19: calls that run are counted as running, with and without the server that runs them; and once it
        was started again they have their ends."""
        c = self.crib.init()
        c.tool(crib.tool_yaml("nap", "{type: builtin, function: sleep}", "{type: object, properties: {ms: {type: integer}}}",
                              "limits: {timeout: 10m}\n"))
        key = c.tenant("acme", "nap")
        c.start()
        peers = [c.tcp(key) for _ in range(3)]
        for i, peer in enumerate(peers):
            peer.initialize()
            peer.send(peer.request("tools/call", {"name": "nap", "arguments": {"ms": 500000}}, id=f"nap {i}"))
        row, = crib.wait_for("three calls that run", lambda: [r for r in self.verify() if r["running"] == 3])
        self.assertEqual((row["finding"], row["gaps"]), ("INTACT", 0))
        self.assertIn("3 calls running", row["detail"])
        self.assertEqual(self.verify("--tenant", "acme")[-1]["running"], 3)
        c.stop(signal.SIGKILL)
        for peer in peers:
            peer.close()
        done = subprocess.run([crib.BUILD / "toolcrib-verify", *self.evidence(), c.store], capture_output=True, text=True)
        self.assertIn("3 calls running", done.stdout)
        self.assertNotIn("DANGLING", done.stdout)
        # Nothing writes any more: what was not signed yet is a gap, the calls are none.
        status, found = self.outsiders()
        self.assertIn((status, found), ((0, set()), (5, {"UNCOVERED_TAIL"})))
        c.start()
        self.assertEqual(self.verify()[-1]["running"], 0)

    def test_f13_names_that_were_swapped(self):
        """HARDENING F-13: the store's own keys find the swap; without keys the names are said not to be verified."""
        c = self.crib.init()
        c.tenant("acme", "*")
        for name in ("alice", "bob"):
            c.key(f"acme/{name}")
        # No record has named acme/default yet.
        self.assertEqual(self.verify("--keys")[-1]["names_unverified"], 1)
        with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db")) as db:
            for was, now in (("alice", "x"), ("bob", "alice"), ("x", "bob")):
                self.assertEqual(db.execute("UPDATE principal SET name = ? WHERE name = ?", (now, was)).rowcount, 1)
            db.commit()
        for words in (["--key", self.evidence()[1]], []):
            done = subprocess.run([crib.BUILD / "toolcrib-verify", *words, c.store], capture_output=True, text=True)
            self.assertEqual(done.returncode, 5 if words else 3, done.stdout)
            self.assertRegex(done.stdout, "names of 4 principals not verified.*acme/alice")
            self.assertRegex(done.stdout, "(?m)^NOT_CHECKED -: no keys were given: [0-9]+ kept values and names were not opened$")
            self.assertRegex(done.stdout, "(?m)^INCOMPLETE " if words else "(?m)^UNPINNED ")
        rows = self.verify(status=4)
        self.assertEqual([row["finding"] for row in rows], ["ALIAS", "ALIAS", "DAMAGED"])
        self.assertEqual(rows[-1]["names_unverified"], 1)

    def test_what_was_changed_is_named(self):
        c = self.crib.init()
        c.tool(crib.ECHO)
        for tenant in ("acme", "other"):
            c.tenant(tenant, "echo")
            c.cli("call", tenant, "echo", "text=hello")
        self.assertEqual(self.verify()[-1]["bad"], 0)
        self.tamper("UPDATE rec SET outcome = 1 WHERE kind = 1002 AND log = (SELECT id FROM log WHERE origin LIKE '%/t/acme')")
        rows = self.verify(status=4)
        self.assertEqual({r["finding"] for r in rows}, {"LEAF", "ROOT", "CROSS_REF", "DAMAGED"})
        self.assertEqual(self.outsiders(), (4, {"LEAF", "ROOT"}))
        # One root is for all logs of a logs.commit: what does not fit is that record (SC-506).
        self.assertTrue(all(r["log"].endswith("/t/acme") != (r["finding"] == "CROSS_REF") for r in rows[:-1]), rows)
        leaf = next(r for r in rows if r["finding"] == "LEAF")
        self.assertEqual(leaf["from"], leaf["to"])
        # The other tenant's log is what it was, and its verification says nothing of this one's.
        alone = self.verify("--tenant", "other")
        self.assertEqual([r["finding"] for r in alone], ["INTACT"])
        self.assertIn("neither rows of the registry nor indexes were looked at", alone[0]["detail"])
        text = c.run("audit", "verify").stdout
        self.assertRegex(text, r"(?m)^FINDING +LOG +FROM +TO +DETAIL$")
        self.assertRegex(text, r"(?m)^DAMAGED ")

    def test_sc703_verbose_says_first_how_fast_this_machine_hashes(self):
        """SC-703: SHA-256 is most of what verifying costs, and some processors have no instructions for it."""
        c = self.crib.init()
        program, pins = crib.BUILD / "toolcrib-verify", crib.evidence(c.store)
        for word in ("-v", "--verbose"):
            done = subprocess.run([program, word, *pins, c.store], capture_output=True, text=True, timeout=crib.DEADLINE)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            lines = done.stdout.splitlines()
            self.assertRegex(lines[0], r"^SHA-256: [0-9]+ MB/s, [0-9]+\.[0-9]{2} us for 600 bytes$")
            self.assertRegex(lines[-3], r"^[0-9]+ records in [0-9]+\.[0-9] s, [0-9]+/s$")
            self.assertRegex(lines[-1], r"^INTACT ")
        done = subprocess.run([program, *pins, c.store], capture_output=True, text=True, timeout=crib.DEADLINE)
        self.assertNotIn("MB/s", done.stdout + done.stderr)
        done = subprocess.run([program, "-q", "-v", c.store], capture_output=True, text=True, timeout=crib.DEADLINE)
        self.assertEqual((done.returncode, done.stderr.split()[0]), (2, "usage:"))

    def test_sc701_any_number_of_threads_finds_the_same(self):
        """SC-701: the same findings in the same order, byte for byte, of rows and of blocks, whole and damaged."""
        c = self.crib.init()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        c.start()
        self.calls(key, 60)
        c.stop()
        options, acme = self.evidence(), "log = (SELECT id FROM log WHERE origin LIKE '%/t/acme')"
        middle = f"{acme} AND first = (SELECT first FROM blk WHERE {acme} ORDER BY first LIMIT 1 OFFSET 2)"
        rows, blocks = c.store, c.dir / "blocks"
        shutil.copytree(rows, blocks)
        subprocess.run([crib.BUILD / "tests/bench/b_fold", blocks, "--block", "30", "--tail", "20", "--leftovers"], check=True,
                       stdout=subprocess.DEVNULL, timeout=crib.DEADLINE)
        for store, statement, expected in (
                (rows, "", set()), (blocks, "", set()),
                (rows, f"UPDATE rec SET outcome = 1 WHERE idx % 7 = 1 AND {acme}", {"LEAF", "ROOT"}),
                (rows, f"DELETE FROM rec WHERE idx % 30 = 11 AND {acme}", {"GAP"}),
                (blocks, f"UPDATE rec SET outcome = 1 WHERE idx % 7 = 1 AND {acme}", {"FORM"}),
                (blocks, f"UPDATE blk SET ts_max = ts_max + first % 2 + 1 WHERE {acme}", {"INDEX"}),
                (blocks, f"DELETE FROM blk WHERE {middle}", {"GAP", "NOT_CHECKED"}),
                (blocks, f"UPDATE blk SET cols = x'01' WHERE {middle}", {"PARSE", "NOT_CHECKED"}),
                (blocks, "DELETE FROM dict WHERE text = 'echo'", {"DICT", "ROOT"})):
            copy = c.dir / "copy.db"
            shutil.copy(store / "toolcrib.db", copy)
            with contextlib.closing(sqlite3.connect(copy)) as db:
                db.executescript(f"DROP TRIGGER rec_frozen; {statement}; {FROZEN};")
            said = {}
            for threads in (1, 2, 5):
                done = subprocess.run([crib.BUILD / "toolcrib-verify", "--threads", str(threads), *options, copy], capture_output=True,
                                      timeout=crib.DEADLINE)
                said[threads] = done.returncode, done.stdout, done.stderr
            self.assertEqual(said[1], said[2], statement)
            self.assertEqual(said[1], said[5], statement)
            found = {line.split()[0].decode() for line in said[1][1].splitlines()}
            self.assertLessEqual(expected, found, statement)
            self.assertEqual(said[1][0], 4 if expected else 0, said[1])

    def test_sc701_threads_have_a_bound(self):
        c = self.crib.init()
        for threads, status in (("1", 0), ("32", 0), ("33", 2), ("0", 2), ("many", 2)):
            done = subprocess.run([crib.BUILD / "toolcrib-verify", "--threads", threads, *self.evidence(), c.store], capture_output=True,
                                  text=True, timeout=crib.DEADLINE)
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)

    def test_verifiers_of_their_own_find_the_same(self):
        c = self.crib.init()
        c.tool(crib.ECHO)
        for tenant in ("acme", "other"):
            c.tenant(tenant, "echo")
            for _ in range(3):
                c.cli("call", tenant, "echo", "text=hello")
        pristine = (c.store / "toolcrib.db").read_bytes()
        end = "kind = 1002 AND log = (SELECT id FROM log WHERE origin LIKE '%/t/acme')"
        for statement, expected in (
                (f"UPDATE rec SET ts = ts + 1 WHERE {end}", {"LEAF", "ROOT"}),
                (f"UPDATE rec SET leaf = zeroblob(32) WHERE {end}", {"LEAF"}),
                (f"UPDATE rec SET prn = NULL WHERE {end}", {"LEAF", "ROOT", "PAIRING"}),
                (f"UPDATE rec SET tool = 99999 WHERE {end}", {"DICT", "LEAF", "ROOT", "PAIRING"}),
                (f"UPDATE rec SET n_res = -1 WHERE {end}", {"TYPE", "LEAF", "ROOT"}),
                (f"UPDATE rec SET enc = 2 WHERE {end}", {"ENCODING"}),
                (f"DELETE FROM rec WHERE {end} AND idx = (SELECT min(idx) FROM rec WHERE {end})", {"GAP", "ROOT", "DANGLING"}),
                ("UPDATE dict SET text = 'ecco' WHERE text = 'echo'", {"LEAF", "ROOT"}),
                ("UPDATE log SET origin = origin || '2' WHERE origin LIKE '%/t/acme'", {"LEAF", "ROOT", "CP_SIG", "UNCOVERED_TAIL"}),
                ("UPDATE head SET root = zeroblob(32)", {"ROOT"}),
                ("DELETE FROM head", {"LOG_MISSING"})):
            with self.subTest(statement=statement):
                (c.store / "toolcrib.db").write_bytes(pristine)
                self.tamper(statement)
                self.assertEqual(self.outsiders(), (4, expected))

    def test_a_row_that_came_behind_the_log_is_found(self):
        """AUDIT A-417: added, changed, put back, taken away; by the verifier, and by a server before it serves."""
        c = self.crib.init()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        c.cli("grant", "set", "acme", "echo", "--concurrency", "3")
        c.cli("limit", "set", "acme/bot", "--rate", "5/s")
        c.cli("level", "set", "request", "--tenant", "acme", "--tool", "echo")
        old = c.key("acme/old")
        before = self.cred(old)
        c.cli("key", "revoke", old.split("_")[1], "--yes")
        self.assertEqual(self.verify()[-1]["finding"], "INTACT")
        pristine = c.store.with_name("pristine")
        shutil.copytree(c.store, pristine)
        columns = "tenant_id, principal_id, hash, label, created_us, expires_us, rec_log, rec_idx"
        for statement, row, starts in (
                (f"INSERT INTO cred({columns}, accessor) SELECT {columns}, 'slippedintoo' FROM cred LIMIT 1", "cred/3", False),
                ("UPDATE cred SET expires_us = NULL, rec_idx = rec_idx WHERE id = 1", "cred/1", False),
                (f"UPDATE cred SET revoked_us = NULL WHERE id = 2; UPDATE cred SET rec_log = {before[0]}, rec_idx = {before[1]} "
                 "WHERE id = 2", "cred/2", True),
                ("DELETE FROM cred WHERE id = 2", "cred/2", False),
                ("UPDATE tool_grant SET concurrency = 0", "grant/1", False),
                ("UPDATE tool_version SET definition = replace(definition, 'echo', 'time')", "version/1", False),
                ("UPDATE tenant SET rate_count = 1000000, rate_per_s = 1", "tenant/1", False),
                ("UPDATE limit_row SET rate_count = 1000000", "limit/1", False),
                ("DELETE FROM limit_row", "limit/1", False),
                ("UPDATE tool_level SET level = 0", "level/1", False)):
            with self.subTest(statement=statement):
                self.put_back(pristine)
                with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db")) as db:
                    db.executescript(statement)
                    db.commit()
                found = self.outside(crib.BUILD / "toolcrib-verify")
                self.assertEqual((found[0], {name for name, _ in found[1]}), (4, {"REGISTRY"}))
                said = subprocess.run([crib.BUILD / "toolcrib-verify", *self.evidence(), c.store], capture_output=True, text=True).stdout
                self.assertIn(row + " ", said)
                if not starts:
                    self.assertIn(f"the row {row} ", c.run("status").stderr)
        self.put_back(pristine)
        self.assertEqual(self.verify()[-1]["finding"], "INTACT")

    def put_back(self, pristine):
        """The store and what its signer remembers."""
        shutil.rmtree(self.crib.store)
        shutil.copytree(pristine, self.crib.store)

    def cred(self, key):
        with contextlib.closing(sqlite3.connect(self.crib.store / "toolcrib.db")) as db:
            return db.execute("SELECT rec_log, rec_idx FROM cred WHERE accessor = ?", (key.split("_")[1],)).fetchone()

    def test_a_store_with_missing_records_is_not_gone_on_with(self):
        c = self.crib.init()
        c.cli("tenant", "add", "acme")
        self.tamper("DELETE FROM rec WHERE log = 2 AND idx = (SELECT max(idx) FROM rec WHERE log = 2)")
        done = c.run("tenant", "list")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("hint: toolcrib-verify", done.stderr)
        self.assertEqual(self.outsiders(), (4, {"TRUNCATED", "ROOT"}))

    def test_a_drill_shows_that_tampering_is_noticed(self):
        """AUDIT A-807, A-Q42: on a copy, which is gone afterwards."""
        c = self.crib.init()
        c.tool(crib.ECHO)
        c.tool(crib.ECHO.replace("Says what", "Says all that"))
        c.tenant("acme", "echo")
        done = c.run("audit", "drill", "--tenant", "acme")
        self.assertIn("no call yet", done.stderr)
        for _ in range(2):
            c.cli("call", "acme", "echo", "text=hello")
        rows = c.json("audit", "drill", "--tenant", "acme")
        self.assertEqual([(r["what"], r["found"], r["as_expected"]) for r in rows[:1]], [("nothing was changed", None, True)])
        found = {r["tampering"]: set(r["found"].split()) for r in rows[1:]}
        self.assertTrue(all(r["as_expected"] for r in rows[1:]))
        for kind, code in (("A-T03", "ROOT"), ("A-T36", "LEAF"), ("A-T06", "GAP"), ("A-T12", "TRUNCATED"), ("A-T17", "PAYLOAD_MISSING"),
                           ("A-T22", "CP_SIG"), ("A-T60", "SCHEMA"), ("A-T65", "REGISTRY"), ("A-T68", "REGISTRY"),
                           ("A-T69", "REGISTRY"), ("A-T24", "APPROVAL")):
            self.assertIn(code, found[kind], kind)
        self.assertEqual(found["A-T60"], {"SCHEMA"}, "the schema is the release's own but for what was done to it")
        self.assertEqual((found["A-T65"], found["A-T68"]), ({"REGISTRY"}, {"REGISTRY"}))
        self.assertEqual(self.verify()[-1]["finding"], "INTACT")
        self.assertEqual([path.name for path in c.store.glob("drill*")], [])
        self.assertIn("KIND", c.cli("audit", "drill", "--tenant", "acme"))
        self.tamper("UPDATE rec SET outcome = 1 WHERE kind = 1002")
        self.assertEqual(c.run("audit", "drill", "--tenant", "acme").returncode, 4)

    def test_a_drill_that_was_cut_short_leaves_no_copy(self):
        """AUDIT A-509: the copy has what may be erased after it."""
        c = self.crib.init()
        for name in ("drill.db", "drill.db-wal", "drill.db-shm"):
            (c.store / name).write_text("a copy")
        c.start()
        self.assertEqual([path.name for path in c.store.glob("drill*")], [])

    def test_a_terminal_sees_how_far_it_is_and_a_pipe_does_not(self):
        c = self.crib.init()
        c.tenant("acme")
        master, slave = pty.openpty()
        with open(master, "rb", buffering=0) as terminal, open(slave, "wb", buffering=0) as stderr:
            done = subprocess.run([crib.BUILD / "toolcrib-verify", *self.evidence(), c.store], stdout=subprocess.PIPE, stderr=stderr, timeout=crib.DEADLINE)
            shown = terminal.read(4096).decode()
        self.assertRegex(shown, r"^\r\x1b\[K0 of [1-9][0-9]* records")
        self.assertTrue(shown.endswith("\r\x1b[K"), shown)
        self.assertIn(b" records of 2 logs", done.stdout)
        self.assertEqual(subprocess.run([crib.BUILD / "toolcrib-verify", *self.evidence(), c.store], capture_output=True).stderr, b"")

    def test_what_is_no_store(self):
        self.crib.store.mkdir(parents=True, exist_ok=True)
        path = self.crib.store / "toolcrib.db"
        for make, status in ((None, 3), (b"", 3), (b"no database at all, only text" * 99, 3)):
            if make is not None:
                path.write_bytes(make)
            done = subprocess.run([crib.BUILD / "toolcrib-verify", path], capture_output=True, text=True, timeout=crib.DEADLINE)
            self.assertEqual(done.returncode, status, done.stdout)
            self.assertRegex(done.stderr, r"^toolcrib-verify: ")
            self.assertEqual(subprocess.run([*crib.sceptic(), path], capture_output=True).returncode, status)

    def test_unknown_tenant(self):
        c = self.crib.init()
        c.cli("tenant", "add", "acme")
        done = c.run("audit", "verify", "--tenant", "acmee")
        self.assertEqual(done.returncode, 1)
        self.assertIn("did you mean acme", done.stderr)


if __name__ == "__main__":
    crib.main()
