"""toolcrib-verify --mark: only what is new is read, and what is found is what reading all finds (SC-704, SC-705, SC-707)."""
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import sqlite3
import struct
import subprocess

import crib

VERIFY = crib.BUILD / "toolcrib-verify"
SINCE = re.compile(r"(?m)^verified ([\d,]+) new records since the mark of \d{4}-\d\d-\d\dT\d\d:\d\dZ; ([\d,]+) older ones were not "
                   r"read again(?:, [\d,]+ were)? \(oldest reading: (?:less than a|\d+) (?:minute|hour|day)s?\)$")
CALLS = 40
F_SETPIPE_SZ = 1031


class Marked(crib.Case):
    def setUp(self):
        super().setUp()
        self.mine = self.crib.dir / "auditor"
        self.mine.mkdir()
        self.mark = self.mine / "crib.mark"
        self.pins = None

    def verify(self, *words, store=None, mark=True):
        """Exit status, what was found where, and all that was said."""
        self.pins = self.pins or crib.evidence(self.crib.store)
        words = [*self.pins, *(["--mark", self.mark] if mark else []), *words, store or self.crib.store]
        done = subprocess.run([str(VERIFY), *map(str, words)], capture_output=True, text=True, timeout=crib.DEADLINE * 10)
        found = sorted(line.split(":")[0] for line in done.stdout.splitlines() if re.match(r"[A-Z_]+ \S+( [-\d]+)?: ", line))
        return done.returncode, found, done.stdout + done.stderr

    def both(self, *words):
        """With the mark and without it the same is found; how many records were new, and how many were not read."""
        plain = self.verify(*words, mark=False)
        marked = self.verify(*words)
        self.assertEqual(marked[:2], plain[:2], marked[2] + plain[2])
        said = SINCE.search(marked[2])
        new, older = (int(n.replace(",", "")) for n in said.groups()) if said else (None, None)
        if said:
            size = int(re.search(r"(?m)^[A-Z]+ (\d+) records", plain[2])[1])
            self.assertEqual(new + older, size, marked[2])
        return new, older

    def calls(self, key, n=CALLS):
        with contextlib.closing(self.crib.http(key)) as peer:
            for i in range(n):
                peer.call("echo", {"text": str(i)}, rev=crib.MODERN)

    def served(self):
        c = self.crib.init().start(f"roles: [{{role: admin, uid: {os.geteuid()}}}]\n")
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "echo")
        c.tenant("other", "echo")
        return c

    def sql(self, *statements, path=None):
        with contextlib.closing(sqlite3.connect(path or self.crib.store / "toolcrib.db")) as db:
            triggers = [sql for sql, in db.execute("SELECT sql FROM sqlite_schema WHERE type = 'trigger'")]
            for name, in db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
                db.execute(f"DROP TRIGGER {name}")
            for statement in statements:
                db.execute(statement)
            for sql in triggers:
                db.execute(sql)
            db.commit()

    def refused(self, words, *options, store=None):
        status, found, said = self.verify(*options, store=store)
        self.assertEqual((status, found), (3, []), said)
        self.assertIn(words, said)
        return said


class Life(Marked):
    def test_sc705_a_store_that_lives_is_found_as_without_a_mark(self):
        """SC-705: starts, stops, crashes, tenants, keys, holds, approvals, with what others remember of them."""
        c = self.served()
        c.stop()
        self.assertEqual(self.both(), (None, None))
        self.assertEqual(self.both()[0], 0)
        state = ("--signer-state", c.store / "signer")
        for sig in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
            c.start(f"roles: [{{role: admin, uid: {os.geteuid()}}}]\n")
            self.calls(self.key)
            c.stop(sig)
            self.assertGreaterEqual(self.both(*state)[0], 2 * CALLS)
            self.assertEqual(self.both(*state)[0], 0)
        note = self.mine / "note"
        c.start()
        note.write_text(c.cli("audit", "checkpoint"))
        self.calls(self.key)
        c.tenant("third", "echo")
        c.cli("hold", "set", "acme", "--reason", "case 7", "--ticket", "T-7")
        c.cli("retention", "set", "acme", "--min-days", "0", "--max-days", "400")
        c.stop()
        self.assertGreater(self.both(*state, "--anchor", note)[0], 2 * CALLS)
        self.assertEqual(self.both(*state, "--anchor", note)[0], 0)     # which lies below the mark now
        c.start()
        c.cli("tenant", "set", "acme", "--title", "Acme")
        c.stop()
        self.assertGreater(self.both(*state, "--anchor", note)[0], 0)

    def test_sc705_beside_a_server(self):
        """SC-705: what a server writes meanwhile is found by the next run, and nothing is found that is not there."""
        c = self.served()
        self.verify()
        for _ in range(3):
            self.calls(self.key)
            status, found, said = self.verify()
            self.assertIn(status, (0, 5), said)
            self.assertLessEqual({line.split()[0] for line in found}, {"UNCOVERED_TAIL"}, said)
        c.stop()
        self.both()

    def test_sc705_a_prune_and_an_erasure(self):
        """SC-705: a log that was pruned since is read anew behind the cut; what was erased since is known to be."""
        c = self.crib.init()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        c.cli("approval", "policy", "one")
        c.cli("retention", "set", "acme", "--min-days", "0")
        c.start()
        self.calls(key, 150)
        crib.wait_for("a checkpoint", lambda: c.run("--yes", "--json", "retention", "prune", "acme", "--before", "0s", "--dry-run").returncode == 0)
        c.stop()
        self.both()
        old = self.mark.read_bytes()
        c.start()
        self.calls(key, 150)
        c.stop()
        self.both()
        c.start()
        done = c.run("--yes", "--json", "retention", "prune", "acme", "--before", "0s", "--bundle", c.dir / "acme.tar")
        self.assertEqual(done.returncode, 0, done.stderr)
        c.stop()
        self.assertEqual(self.verify(mark=False)[0], self.verify()[0])
        self.assertEqual(self.both()[0], 0)
        c.start()
        c.cli("--yes", "erase", "--principal", "acme/bot", "--ground", "asked for", "--ticket", "T-2")
        c.stop()
        self.both()
        plain = self.verify(mark=False)
        self.assertEqual(self.verify("--scrub", "1/1")[:2], plain[:2])
        self.mark.write_bytes(old)
        self.refused("older than what was pruned")


class Tampered(Marked):
    def setUp(self):
        super().setUp()
        c = self.served()
        self.calls(self.key)
        c.stop()
        self.before = c.dir / "before"
        shutil.copytree(c.store, self.before)
        c.start()
        self.calls(self.key)
        c.stop()
        self.both()

    def found(self, *names, options=()):
        status, found, said = self.verify(*options)
        self.assertEqual(status, 4, said)
        self.assertLessEqual(set(names), {line.split()[0] for line in found}, said)
        self.assertIn("the mark stays what it was", said)

    def test_sc705_a_history_that_was_rolled_back(self):
        """SC-705: the store of before, with and without what the signer remembers."""
        kept = self.mark.read_bytes()
        state = self.mine / "state"
        shutil.copy(self.crib.store / "signer" / "state", state)
        shutil.copy(self.before / "toolcrib.db", self.crib.store / "toolcrib.db")
        for path in self.crib.store.glob("toolcrib.db-*"):
            path.unlink()
        self.found("TRUNCATED")
        self.found("TRUNCATED", "SIGNER_AHEAD", options=("--signer-state", state))
        self.assertEqual(self.mark.read_bytes(), kept)

    def test_sc705_a_history_that_was_rolled_back_and_went_on(self):
        """SC-705: another past below the mark, as many records or more."""
        shutil.rmtree(self.crib.store)
        shutil.copytree(self.before, self.crib.store)
        self.crib.start()
        self.calls(self.key, 2 * CALLS)
        self.crib.stop()
        self.assertEqual(self.verify(mark=False)[0], 0)
        self.found("ROOT")

    def test_sc705_a_history_that_was_rewritten(self):
        """SC-705: records below the mark, with the head that they give: the tree goes on from the marked one."""
        self.sql("UPDATE rec SET outcome = 1 WHERE log = 2 AND idx = 5", "UPDATE head SET root = zeroblob(32) WHERE log = 2")
        self.found("ROOT")

    def test_sc705_a_text_of_old_records(self):
        """SC-705: the dictionary hashes to the marked digest."""
        self.sql("UPDATE dict SET text = 'other' WHERE text = 'echo' AND kind = 34")
        self.found("DICT")

    def test_sc705_rows_are_compared_with_records_that_were_not_read(self):
        """SC-705: what the newest record said of each row is in the mark."""
        self.sql("UPDATE tenant SET title = 'Other' WHERE name = 'acme'")
        self.found("REGISTRY")

    def test_sc705_a_log_that_is_gone(self):
        """SC-705: the mark knows it."""
        self.sql("DELETE FROM tile WHERE log = 3", "DELETE FROM cp WHERE log = 3", "DELETE FROM rec WHERE log = 3",
                 "DELETE FROM head WHERE log = 3", "DELETE FROM log WHERE id = 3")
        self.found("LOG_MISSING")


class File(Marked):
    def setUp(self):
        super().setUp()
        self.crib.fill(600, "--tenants", 2)

    def test_sc704_the_mark_is_the_auditors_own(self):
        """SC-704: 0600, with a key beside it or elsewhere; in no store."""
        self.assertEqual(self.both(), (None, None))
        self.assertEqual([path.stat().st_mode & 0o777 for path in sorted(self.mine.iterdir())], [0o600, 0o600])
        self.assertEqual({path.name for path in self.mine.iterdir()}, {"crib.mark", "crib.mark.key"})
        self.assertEqual(self.both()[0], 0)
        key = self.mine / "key"
        (self.mine / "crib.mark.key").rename(key)
        self.assertEqual(self.verify("--mark-key", key)[0], 0)
        self.refused("crib.mark.key")
        self.mark = self.crib.store / "crib.mark"
        self.refused("must not be inside the store")
        self.assertFalse(self.mark.exists())
        self.mark = self.mine / "other.mark"
        self.refused("must not be inside the store", "--mark-key", self.crib.store / "key")
        link = self.mine / "link"
        link.symlink_to(self.crib.store)
        self.mark = link / "crib.mark"
        self.refused("must not be inside the store")
        self.assertEqual(len(list(self.mine.iterdir())), 3)

    def test_sc707_a_mark_that_does_not_fit_is_refused(self):
        """SC-707: of another store, with another MAC, cut, readable by others: exit status 3, and what to do."""
        self.verify()
        good = self.mark.read_bytes()
        for at in (0, 8, len(good) // 2, len(good) - 1):
            self.mark.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
            said = self.refused("this is no mark" if at == 0 else "the mark was changed")
            self.assertTrue(at == 0 or "hint: run once without --mark" in said, said)
        for size in (0, 20, len(good) - 1):
            self.mark.write_bytes(good[:size])
            self.refused("this is no mark" if size < 40 else "the mark was changed")
        self.mark.write_bytes(good)
        self.mark.chmod(0o644)
        self.refused("crib.mark")
        self.mark.chmod(0o600)
        other = crib.Crib()
        self.addCleanup(other.close)
        other.fill(600, "--tenants", 2, "--seed", 9)
        self.pins = crib.evidence(other.store)
        self.refused("the mark is of another store", store=other.store)
        self.pins = None
        (self.mine / "crib.mark.key").write_text("0" * 64 + "\n")
        self.refused("the mark was changed")
        (self.mine / "crib.mark.key").write_text("no key\n")
        self.refused("this is no key of a mark")

    def test_sc704_who_pinned_a_key_has_pinned_it(self):
        """SC-704: the mark has the keys that were pinned."""
        self.verify()
        done = subprocess.run([str(VERIFY), "--mark", str(self.mark), str(self.crib.store)], capture_output=True, text=True)
        self.assertIn("the first key as pinned", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^(INTACT|INCOMPLETE) 0 records")

    def test_what_options_need_each_other(self):
        for words in (("--resume",), ("--scrub", "1/3"), ("--scrub-max", "1d"), ("--mark-key", "k"), ("--mark-every", "1s"), ("--progress", "xml"), ("--mark-every", "soon", "--mark", "m"),
                      ("--bundle", "--mark", "m"), ("--proof", "--progress", "json")):
            done = subprocess.run([str(VERIFY), *words, str(self.crib.store)], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr[:6]), (2, "usage:"), words)

    def test_progress_for_programs(self):
        """A line of JSON is the first thing, also to a pipe."""
        status, _, said = self.verify("--progress", "json")
        line = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
        self.assertEqual(set(line), {"records", "of", "per_s", "kept"})
        self.assertEqual((status, line["records"], line["kept"]), (0, 0, False))
        self.assertGreater(line["of"], 600)


class Bounds(Marked):
    """include/auditor/mark.h: at the bound, and one above.  The file is written as the auditor would, with his key."""

    RANGES, FOUND, FILE = 256, 1 << 16, 1 << 29

    def parts(self):
        """What it says: numbers and texts, {log: ranges}, findings as bytes."""
        data, at = self.mark.read_bytes()[8:-32], 0

        def numbers(n):
            nonlocal at
            at += 8 * n
            return struct.unpack_from(f"<{n}Q", data, at - 8 * n)

        def text():
            nonlocal at
            size, = numbers(1)
            at += size
            return data[at - size:at]

        first, base = numbers(3), text()
        logs = {}
        for _ in range(numbers(1)[0]):
            log, n = numbers(2)
            logs[log] = [numbers(3) for _ in range(n)]
        return first, base, logs, numbers(1), text(), data[at:]

    def write(self, first, base, logs, begun, way, found):
        ranges = b"".join(struct.pack("<2Q", log, len(all)) + b"".join(struct.pack("<3Q", *one) for one in all) for log, all in logs.items())
        data = b"TCMARK1\n" + b"".join((struct.pack("<3Q", *first), struct.pack("<Q", len(base)), base, struct.pack("<Q", len(logs)), ranges,
                                        struct.pack("<2Q", *begun, len(way)), way, found))
        key = bytes.fromhex((self.mine / "crib.mark.key").read_text())
        self.mark.write_bytes(data + hashlib.blake2b(b"toolcrib/mark/1\0" + data, key=key, digest_size=32).digest())

    def test_sc707_so_many_ranges_of_a_log(self):
        c = self.served()
        self.calls(self.key, 200)
        c.stop()
        self.assertEqual(self.verify()[0], 0)
        first, base, logs, *rest = self.parts()
        (begin, end, read), = logs[2]
        self.assertEqual((begin, end > self.RANGES), (0, True))

        def ranges(n):
            """Older and older, a microsecond apart; the second and the third are nearest."""
            times = [read - 10 * i - (i > 1) + 9 * (i == 2) for i in range(n)]
            return [(i, i + 1 if i < n - 1 else end, times[i]) for i in range(n)]
        self.write(first, base, {**logs, 2: ranges(self.RANGES + 1)}, *rest)
        self.refused("the mark is malformed")
        self.write(first, base, {**logs, 2: ranges(self.RANGES)}, *rest)
        status, found, said = self.verify()
        self.assertEqual((status, found), (0, []), said)
        self.assertEqual(self.parts()[2][2], ranges(self.RANGES))
        c.start()
        self.calls(self.key, 1)
        c.stop()
        status, found, said = self.verify()
        self.assertEqual((status, found), (0, []), said)
        now, was = self.parts()[2][2], ranges(self.RANGES)
        self.assertEqual(now[:2] + now[2:-1], was[:1] + [(1, 3, min(was[1][2], was[2][2]))] + was[3:])
        self.assertEqual((len(now), now[-1][0]), (self.RANGES, end))

    def test_sc707_so_many_findings(self):
        self.crib.fill(600, "--tenants", 2)
        self.assertEqual(self.verify()[0], 0)
        *parts, none = self.parts()
        self.assertEqual(none, bytes(8))
        one = struct.pack("<Q", 4) + b"LEAF" + struct.pack("<5Q", 3, 4, 0, 0, 0)
        self.write(*parts, struct.pack("<Q", self.FOUND + 1) + one * (self.FOUND + 1))
        self.refused("the mark is malformed")
        self.write(*parts, struct.pack("<Q", self.FOUND) + one * self.FOUND)
        status, found, said = self.verify()
        self.assertEqual((status, found), (0, []), said)                # they were of a run that nobody goes on with

    def test_sc707_so_large_a_file(self):
        self.crib.fill(600, "--tenants", 2)
        self.verify()
        for size, why in ((self.FILE, "this is no mark"), (self.FILE + 1, "larger")):
            os.truncate(self.mark, 0)
            os.truncate(self.mark, size)
            self.refused(why)


class Scrub(Marked):
    def test_sc706_each_record_is_read_again_in_as_many_runs(self):
        """SC-706: the part that was read longest ago, whole tiles; what changes no head is found when its turn comes."""
        c = self.served()
        self.calls(self.key, 400)
        c.stop()
        self.both()
        read = 0
        for _ in range(4):
            status, found, said = self.verify("--scrub", "1/4")
            self.assertEqual((status, found), (0, []), said)
            old, again = (int(n.replace(",", "")) for n in re.search(r"; ([\d,]+) older ones were not read again, ([\d,]+) were", said).groups())
            read += again
            self.assertGreater(again, (old + again) // 4 - 1)
        self.assertGreaterEqual(read, old + again)
        kept = self.mark.read_bytes()
        for statement, code in (("UPDATE rec SET leaf = zeroblob(32) WHERE log = 2 AND idx = 300", "LEAF"),
                                ("DELETE FROM pay WHERE rec = (SELECT id FROM rec WHERE log = 2 AND idx = 300 AND cm IS NOT NULL)", "PAYLOAD_MISSING"),
                                ("UPDATE rec SET outcome = 3 WHERE log = 2 AND idx = 301", "ROOT"),
                                ("UPDATE tile SET hashes = zeroblob(length(hashes)) WHERE log = 2 AND level = 1", "TILE"),
                                ("DELETE FROM rec WHERE log = 2 AND idx = 302", "GAP")):
            shutil.copy(c.store / "toolcrib.db", self.mine / "good.db")
            self.sql(statement)
            status, found, said = self.verify()
            self.assertEqual((status, found), (0, []), (statement, said))       # nobody looks there
            codes = set()
            for _ in range(4):
                status, found, said = self.verify("--scrub", "1/4")
                codes |= {line.split()[0] for line in found}
                if codes:
                    break
            self.assertEqual(status, 4, (statement, said))
            self.assertIn(code, codes, (statement, said))
            shutil.copy(self.mine / "good.db", c.store / "toolcrib.db")
            self.mark.write_bytes(kept)
        self.verify("--scrub", "1/1")
        self.sql(*crib.row_indexes())
        self.assertEqual(self.verify()[0], 0)
        self.sql("DROP INDEX rec_call", "CREATE INDEX rec_call ON rec(call) WHERE kind <> 1001 AND call IS NOT NULL AND idx <> 301")
        with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db")) as db:
            db.execute("PRAGMA writable_schema = ON")
            db.execute("UPDATE sqlite_schema SET sql = replace(sql, ' AND idx <> 301', '') WHERE name = 'rec_call'")
            db.commit()
        self.assertEqual(self.verify()[0], 0)
        status, found, said = self.verify("--scrub", "1/1")
        self.assertEqual((status, {line.split()[0] for line in found}), (4, {"INDEX"}), said)

    def test_sc706_what_was_not_read_for_too_long_is_said(self):
        """SC-706: a gap, and exit status 5."""
        self.crib.fill(600, "--tenants", 2)
        self.assertEqual(self.verify("--scrub-max", "1d")[:2], (0, []))
        status, found, said = self.verify("--scrub-max", "1ms")
        self.assertEqual((status, found), (5, ["NOT_CHECKED -"]), said)
        self.assertEqual(self.verify("--scrub-max", "1d")[:2], (0, []))
        for words in (("--scrub", "30"), ("--scrub", "1/0"), ("--scrub", "1/101"), ("--scrub-max", "0s")):
            done = subprocess.run([str(VERIFY), "--mark", "m", *words, str(self.crib.store)], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr[:6]), (2, "usage:"), words)


class Resumed(Marked):
    def killed(self, *words):
        """A run that is killed when it has kept what there is once: it waits for who reads how far it is, line by line."""
        before = self.mark.read_bytes() if self.mark.exists() else None
        read, write = os.pipe2(os.O_NONBLOCK)
        fcntl.fcntl(write, F_SETPIPE_SZ, 4096)
        theirs = os.open(f"/proc/self/fd/{write}", os.O_WRONLY)         # which waits
        run = None

        def kept():
            """Or there is room for a line again."""
            if self.mark.exists() and self.mark.read_bytes() != before:
                return True
            with contextlib.suppress(BlockingIOError):
                os.read(read, 4096)
            with contextlib.suppress(BlockingIOError):
                os.write(write, b"x" * (4096 - 120))
            return run and run.poll() is not None
        kept()
        run = subprocess.Popen([str(VERIFY), *map(str, (*self.pins, "--mark", self.mark, "--mark-every", "0s", "--progress", "json", *words,
                                self.crib.store))], stdout=subprocess.PIPE, stderr=theirs, text=True)
        crib.wait_for("what is kept", kept)
        run.kill()
        run.communicate()
        for fd in (read, write, theirs):
            os.close(fd)
        self.assertEqual(run.returncode, -signal.SIGKILL)

    def test_sc707_a_run_that_was_killed_goes_on(self):
        """SC-707: what it had found is said again, the rest is read, and nothing is found twice."""
        self.crib.fill(9000, "--tenants", 2)
        self.pins = crib.evidence(self.crib.store)
        self.sql("UPDATE rec SET leaf = zeroblob(32) WHERE log = 2 AND idx IN (3, 4, 5, 9, 4500)", "DELETE FROM tile WHERE log = 3 AND n = 99",
                 "UPDATE rec SET leaf = zeroblob(32) WHERE log = 3 AND idx = 4")
        whole = self.verify(mark=False)
        self.assertEqual(whole[0], 4)
        self.assertGreater(len(whole[1]), 2)
        self.killed()
        self.killed("--resume")
        status, found, said = self.verify("--resume")
        self.assertEqual((status, found), whole[:2], said)
        self.assertEqual(re.findall(r"(?m)^DAMAGED .*", said), re.findall(r"(?m)^DAMAGED .*", whole[2]))
        self.assertFalse(self.mark.exists(), "a mark of a damaged store")
        self.assertIn("no run was cut off", self.verify("--resume")[2])

    def test_sc707_what_was_killed_leaves_the_mark_of_before(self):
        """SC-707: a run without --resume begins at the mark, and one with it ends with the same mark."""
        self.crib.fill(9000, "--tenants", 2)
        self.pins = crib.evidence(self.crib.store)
        self.killed()
        status, found, said = self.verify()
        self.assertEqual((status, found), (0, []), said)
        self.assertNotIn("new records since", said)
        self.assertEqual(self.both()[0], 0)


if __name__ == "__main__":
    crib.main()
