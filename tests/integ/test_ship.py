"""toolcrib-ship copies a store while it is written: what is lost with a machine, what a damaged copy says, who can open it."""
import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time
import unittest

import crib

EVERY = 0.2     # seconds between two parts, in these tests
KILLS = int(os.environ.get("TOOLCRIB_SHIP_KILLS", "3"))
SLACK = 1.0     # for a machine that is busy with other tests


class Target(crib.Case):
    """A store, a target and an identity of age."""

    def setUp(self):
        super().setUp()
        c = self.c = self.crib
        self.target, self.to, self.identity = c.dir / "target", c.dir / "back", c.dir / "identity"
        self.identity.write_text("# keys of 0x42, as in age's own tests\n"
                                 "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX\n")
        self.recipient = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"

    def words(self, *options):
        return [str(crib.BUILD / "toolcrib-ship"), "--store", str(self.c.store), "--to", str(self.target), "--recipient",
                self.recipient, *options]

    def once(self, *options, expect=0):
        done = subprocess.run(self.words("--once", *options), capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done.stderr

    def ship(self, *options):
        """One that goes on until the test ends."""
        child = subprocess.Popen(self.words("--every", f"{EVERY * 1000:.0f}ms", *options))
        self.addCleanup(lambda: (child.kill(), child.wait()))
        return child

    def configured(self, more=""):
        return f"backup: {{to: {self.target}, recipients: {self.recipient}, every: {EVERY * 1000:.0f}{more}}}\n"

    def lines(self, generation=None):
        """Of the newest manifest, or of that one."""
        paths = sorted(self.target.glob("0*/manifest.jsonl"))
        if generation:
            paths = [path for path in paths if int(path.parent.name) == generation]
        return [json.loads(line) for line in paths[-1].read_text().splitlines()] if paths else []

    def newest(self):
        lines = self.lines()
        return lines[0]["generation"] if lines else 0

    def whole(self, generation=None):
        return any(line["kind"] == "whole" for line in self.lines(generation))

    def restore(self, *options, target=None, expect=(0, 5)):
        """Rows of what was said, the last one first."""
        before = set(self.c.dir.iterdir())
        shutil.rmtree(self.to, ignore_errors=True)
        done = self.c.run("--json", "restore", "--from", target or self.target, "--to", self.to, "--identity", self.identity,
                          "--keys", self.c.store, *options)
        self.assertIn(done.returncode, expect, done.stdout + done.stderr)
        self.assertLessEqual(set(self.c.dir.iterdir()) - before, {self.to})
        if done.returncode not in (0, 5):
            self.assertFalse(self.to.exists())
        return [json.loads(line) for line in done.stdout.splitlines()][::-1] or done.stderr

    def ends(self, store=None):
        """How many calls have ended in a store."""
        back = crib.Crib(self.c.dir)
        back.store = store or self.to
        return back.rows("SELECT count(*) FROM v_records WHERE kind = 'call.end'")[0][0]

    def rows_of(self, store, sql):
        back = crib.Crib(self.c.dir)
        back.store = store
        return back.rows(sql)

    def kinds(self, store):
        return [kind for kind, in self.rows_of(store, "SELECT kind FROM v_records")]

    def load(self, seconds):
        """Calls one behind the other; when each was answered."""
        peer, answered, until = self.c.tcp(self.key), [], time.monotonic() + seconds
        peer.initialize()
        while time.monotonic() < until:
            peer.call("echo", {"text": "x" * 2000})
            answered.append(time.monotonic())
        peer.close()
        return answered


class Sealed(Target):
    def test_op508_sealed_files_are_shipped_once_and_again_when_they_change(self):
        c = self.c
        c.fill(1800, "--tenants", 2, "--days", 70, fold=("--block", "120", "--chapter", "3"))
        c.json("audit", "seal", "--tenant", "fill00000")
        c.start(self.configured() + "audit: {seal: off}\n")
        crib.wait_for("a whole copy", self.whole)
        made = c.json("audit", "seal")[0]["files"]
        self.assertGreater(made, 0)
        c.stop()
        sealed = {str(path.relative_to(c.store)): path for path in c.store.rglob("*.tcs")}
        named = [line["name"] for line in self.lines() if line["kind"] == "sealed"]
        self.assertEqual(sorted(named), sorted(sealed))
        os.utime(sealed[named[0]])
        self.once()
        files = [line["file"] for line in self.lines() if line["kind"] == "sealed"]
        self.assertEqual(len(list(self.target.glob("sealed/*.age"))), len(sealed) + 1)
        self.assertEqual(len(set(files)), len(files))
        self.restore("--verify", "quick")
        for name, path in sealed.items():
            self.assertEqual((self.to / name).read_bytes(), path.read_bytes())
        (self.target / files[-1]).unlink()
        self.assertIn("is missing", self.restore("--verify", "quick", expect=(4,))[1]["said"])


class Ship(Target):
    """A store with a tool besides."""

    def setUp(self):
        super().setUp()
        c = self.c.init()
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "echo")
        c.cli("level", "set", "request_response", "--tenant", "acme")

    @unittest.skipUnless(shutil.which("age"), "Debian's age is not installed")
    def test_op505_age_opens_what_was_shipped(self):
        self.c.cli("call", "acme", "echo", "text=before")
        self.once()
        parts = [line for line in self.lines() if "file" in line]
        self.assertGreater(len(parts), 3)
        pages = {"toolcrib.db": {}, "keys.db": {}}
        for kind in ("base", "log"):
            for line in parts:
                if line["kind"] != kind:
                    continue
                plain = subprocess.run(["age", "-d", "-i", self.identity, self.target / line["file"]], capture_output=True, check=True).stdout
                self.assertEqual(plain[:16], b"toolcrib pages\x01\n")
                for at in range(16, len(plain), 4100):
                    pages[line["of"]][int.from_bytes(plain[at:at + 4], "big")] = plain[at + 4:at + 4100]
        for name, found in pages.items():               # the store is at rest, so its file is what they say
            self.assertEqual(b"".join(found[n] for n in sorted(found)), (self.c.store / name).read_bytes(), name)
        self.assertEqual([path for path in self.target.rglob("*") if b"before" in (path.read_bytes() if path.is_file() else b"")], [])

    def test_op503_what_a_lost_machine_loses(self):
        """A server that ships is killed under load; all that was answered a moment before is in the copy, and it is whole."""
        c = self.c.start(self.configured())
        crib.wait_for("a whole copy", self.whole)
        answered = []
        caller = threading.Thread(target=lambda: answered.extend(self.load(4)))
        caller.start()
        caller.join()
        killed = time.monotonic()
        c.stop(signal.SIGKILL)
        rows = self.restore("--signer-state", c.store / "signer")
        self.assertEqual((rows[0]["bad"], len(self.lines(1))), (0, len(self.lines())), rows)
        must = sum(at < killed - EVERY - SLACK for at in answered)
        self.assertGreater(must, 100)
        self.assertGreaterEqual(self.ends(), must)
        salts = {tuple(line["log"][:2]) for line in self.lines() if line.get("of") == "toolcrib.db" and "log" in line}
        self.assertGreater(len(salts), 2, "the log never began anew, so nothing of that was tested")

    def test_op503_what_many_lost_machines_lose(self):
        """Killed with its shipper again and again, under load; each time a store is made of what is elsewhere, and compared with what
        callers had in hand (Show 5)."""
        c, lost, came_back, kinds = self.c, [], 0, collections.Counter()
        for kill in range(KILLS):
            c.start(self.configured(", keep: 5"))
            generation = self.newest() if kill else 0
            crib.wait_for("a whole copy", lambda: (self.newest() > generation or not generation or self.lines()) and self.whole())
            before = self.ends(c.store)
            answered, over, peers = [], threading.Event(), [self.c.tcp(self.key) for _ in range(2)]

            def call(peer):
                try:
                    peer.initialize()
                    while not over.is_set():
                        peer.call("echo", {"text": "x" * 500})
                        answered.append(time.monotonic())
                except (OSError, EOFError, ValueError, AssertionError, crib.Failed):
                    pass        # the machine is gone
            callers = [threading.Thread(target=call, args=(peer,)) for peer in peers]
            for caller in callers:
                caller.start()
            goal = 60 + kill * 37 % 200         # at another place of the log and of the part each time
            crib.wait_for("calls under way", lambda: len(answered) >= goal)
            parts = len(self.lines())
            crib.wait_for("a part of them", lambda: len(self.lines()) > parts)
            goal = len(answered) + kill * 13 % 50
            crib.wait_for("calls behind it", lambda: len(answered) >= goal)
            processes = [pid for pid, name in crib.below(c.daemon.pid).items() if name == "toolcrib-ship"]
            self.assertEqual(len(processes), 1)
            os.kill(processes[0], signal.SIGKILL)       # the first one that dies ships nothing of what the other leaves
            killed = time.monotonic()
            c.stop(signal.SIGKILL)
            over.set()
            for caller in callers:
                caller.join()
            for peer in peers:
                peer.close()
            row = self.restore("--signer-state", c.store / "signer")[0]
            self.assertEqual(row["bad"], 0, row)
            kinds[row["what"]] += 1
            had = sorted(at for at in answered if at <= killed)
            there = self.ends() - before
            lost.append(killed - had[there] if there < len(had) else 0.0)
            came_back += there
        lost.sort()
        print(f"{KILLS} kills, {came_back} calls came back; lost of what was answered: median {lost[len(lost) // 2] * 1000:.0f} ms, "
              f"95 % {lost[len(lost) * 95 // 100] * 1000:.0f} ms, most {lost[-1] * 1000:.0f} ms; a part each {EVERY * 1000:.0f} ms; {dict(kinds)}")
        self.assertGreater(came_back, 30 * KILLS)
        self.assertLess(lost[-1], EVERY + SLACK)

    def test_op507_what_was_erased_since_stays_erased(self):
        """A store as of before an erasure: keys.db is the newest, and the start erases again before it serves; the signer, which is
        ahead, is told what is given up."""
        c = self.c
        c.cli("approval", "policy", "one")
        roles = "roles: [" + ", ".join(f"{{role: {role}, uid: {os.geteuid()}}}" for role in ("auditor", "admin")) + "]\n"
        c.config_alone(roles)
        c.start(self.configured() + roles)
        crib.wait_for("a whole copy", self.whole)
        peer = c.tcp(self.key)
        peer.initialize()
        for text in ("a-secret-of-ada", "a-secret-of-bob"):
            peer.call("echo", {"text": text})
        peer.close()
        parts = len(self.lines())
        calls = [row["call"] for row in c.json("audit", "calls", "--tenant", "acme")]
        call = next(call for call in calls if "a-secret-of-ada" in c.cli("audit", "payload", call))
        other = next(call for call in calls if "a-secret-of-bob" in c.cli("audit", "payload", call))
        crib.wait_for("parts of it", lambda: len(self.lines()) > parts and self.lines()[-1]["kind"] == "log")
        moment = self.lines()[-1]["at_us"] + 1
        parts = len(self.lines())
        crib.wait_for("a later part", lambda: c.cli("audit", "checkpoint") and len(self.lines()) > parts)
        c.cli("--yes", "erase", "--ground", "GDPR 17", "--ticket", "E-1", "--call", call)
        crib.wait_for("keys.db behind it", lambda: any(line.get("of") == "keys.db" and line["at_us"] > moment for line in self.lines()))
        c.stop()
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment // 1000000)) + f".{moment % 1000000:06d}Z"
        self.restore("--until", when)
        self.assertEqual([kind for kind in self.kinds(self.to) if kind == "erase"], [])
        kept, = self.rows_of(self.to, "SELECT count(*) FROM pay")[0]
        shutil.copytree(c.store / "signer", self.to / "signer")
        gone = c.dir / "gone"
        c.path.rename(gone)
        self.to.rename(c.path)
        refused = c.run("status")
        self.assertEqual(refused.returncode, 3)
        self.assertIn("SIGNER_AHEAD", refused.stderr)
        c.cli("audit", "adopt", "lost:all", "--reason", "back to before the erasure")
        self.assertLess(self.rows_of(c.store, "SELECT count(*) FROM pay")[0][0], kept)
        c.start(roles)
        for words in (("audit", "payload", call), ("--json", "audit", "payload", call), ("audit", "show", call)):
            shown = c.run(*words)
            self.assertNotIn("a-secret-of-ada", shown.stdout + shown.stderr)
        self.assertIn("a-secret-of-bob", c.cli("audit", "payload", other))
        said = [row for row in c.json("audit", "erasures", "--tenant", "acme") if row["kind"] == "erase"]
        self.assertEqual({(row["ground"], row["ticket"]) for row in said}, {("GDPR 17", "E-1")})
        self.assertTrue(said and all("put back" in row["detail"] for row in said), said)
        rows = c.run("--json", "audit", "verify")
        self.assertEqual(rows.returncode, 5, rows.stdout)
        self.assertEqual({json.loads(line)["finding"] for line in rows.stdout.splitlines()}, {"RESTORED", "NOT_CHECKED", "INCOMPLETE"},
                         "by whose leave it was erased stands in what was lost: " + rows.stdout)

    def test_op502_it_goes_on_after_the_server(self):
        """What a server has committed when it dies is shipped by who lives on: nothing is lost."""
        c = self.c.start()
        shipper = self.ship()
        crib.wait_for("a whole copy", self.whole)
        answered = self.load(0.5)
        c.stop(signal.SIGKILL)
        shipper.send_signal(signal.SIGTERM)
        self.assertEqual(shipper.wait(crib.DEADLINE), 0)
        self.assertEqual(self.restore()[0]["bad"], 0)
        self.assertGreaterEqual(self.ends(), len(answered))
        log = c.store / "toolcrib.db-wal"
        salts = log.read_bytes()[16:24]
        c.start()                                       # the log is where it was, and so is the chain
        before = len(self.lines())
        shipper = self.ship()
        self.load(0.2)
        # A server that began its log anew before it was followed leaves nothing to go on with: a new base.
        crib.wait_for("more parts", lambda: len(self.lines()) > before or
                      log.read_bytes()[16:24] != salts and self.newest() > 1 and self.whole())
        shipper.send_signal(signal.SIGTERM)
        self.assertEqual(shipper.wait(crib.DEADLINE), 0)
        c.stop()
        self.once()                                     # a server that stops empties its log: a new base
        self.assertGreater(self.newest(), 1)
        self.assertEqual(self.restore()[0]["what"], "INTACT")

    def test_op506_what_is_damaged_is_named(self):
        c = self.c.start()
        shipper = self.ship()
        crib.wait_for("a whole copy", self.whole)
        for n in range(3):
            before = len(self.lines())
            self.load(0.1)
            crib.wait_for("a part more", lambda: len(self.lines()) > before)
        shipper.send_signal(signal.SIGTERM)
        shipper.wait(crib.DEADLINE)
        c.stop()
        logs = [line["file"] for line in self.lines() if line["kind"] == "log" and line["of"] == "toolcrib.db"][-2:]
        other = c.dir / "other"

        def flip(path):
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)

        def swap():
            a, b = (other / name for name in logs)
            (other / "x").write_bytes(a.read_bytes())
            a.write_bytes(b.read_bytes())
            b.write_bytes((other / "x").read_bytes())

        def change_lines(change):
            path = sorted(other.glob("0*/manifest.jsonl"))[-1]
            lines = path.read_text().splitlines(keepends=True)
            change(lines)
            path.write_text("".join(lines))

        def exchange(lines):
            lines[-1], lines[-2] = lines[-2], lines[-1]

        cases = ((lambda: flip(other / logs[1]), f"{logs[1]}, is not what was written"),
                 (lambda: (other / logs[1]).unlink(), f"{logs[1]}, is missing"), (swap, f"{logs[0]}, is not what was written"),
                 (lambda: change_lines(exchange), "it does not continue the line before"),
                 (lambda: change_lines(lambda lines: lines.pop(2)), "line 3: it does not continue the line before"),
                 (lambda: change_lines(lambda lines: lines.__setitem__(3, lines[3].replace('"pages":', '"pages":1'))), "line 5: it does not"),
                 (lambda: change_lines(lambda lines: lines.__setitem__(3, "{}\n")), "line 4: it lacks a member"))
        for damage, said in cases:
            with self.subTest(said=said):
                shutil.rmtree(other, ignore_errors=True)
                shutil.copytree(self.target, other)
                damage()
                rows = self.restore(target=other, expect=(4,))
                self.assertEqual(rows[0]["what"], "DAMAGED", rows)
                self.assertIn(said, rows[1]["said"])
        shutil.rmtree(other)
        shutil.copytree(self.target, other)
        change_lines(lambda lines: lines.append('{"n":'))       # a line that was being written is none
        self.assertEqual(self.restore(target=other)[0]["bad"], 0)

    def test_op511_until_a_time(self):
        """As of a moment that has passed; keys.db is the newest in any case, so what was erased stays erased."""
        c = self.c.start()
        shipper = self.ship()
        crib.wait_for("a whole copy", self.whole)
        self.load(0.1)
        first = self.ends(c.store)
        parts = len(self.lines())
        crib.wait_for("parts of it", lambda: len(self.lines()) > parts)
        moment = self.lines()[-1]["at_us"] + 1
        self.load(0.1)
        parts = len(self.lines())
        crib.wait_for("more", lambda: self.lines()[-1]["at_us"] > moment and len(self.lines()) > parts)
        shipper.send_signal(signal.SIGTERM)
        shipper.wait(crib.DEADLINE)
        c.stop()
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment // 1000000)) + f".{moment % 1000000:06d}Z"
        before = set(c.dir.iterdir())
        for options, needs in (((), ["master.key", "signer", "identity"]), (("--keys", c.store, "--identity", self.identity), ["signer"])):
            needed = c.json("restore", "--from", self.target, "--until", when, *options)
            self.assertEqual([row["what"] for row in needed if row["class"] == "needs"], needs)
        self.assertEqual(set(c.dir.iterdir()), before)
        self.restore("--until", when)
        self.assertAlmostEqual(needed[-1]["bytes"], sum(path.stat().st_size for path in self.to.rglob("*") if path.is_file()), delta=1 << 17)
        then = self.ends()
        self.restore()
        self.assertGreaterEqual(then, first)
        self.assertLess(then, self.ends())
        self.assertIn("nothing that was whole", self.restore("--until", "2001-01-01T00:00:00Z", expect=(1,)))
        rows = self.restore("--test", "--until", when)
        self.assertIn("tested, and removed again", rows[0]["said"])
        self.assertFalse(self.to.exists())

    def test_op515_that_a_copy_was_tested_goes_on_record(self):
        """Where the identity is it is tested, where the store is it is recorded, by whom; what is of another store is not."""
        c, result = self.c.start(self.configured()), self.c.dir / "said/tested.json"
        result.parent.mkdir()
        crib.wait_for("a whole copy", self.whole)
        self.load(0.1)
        self.restore("--result", result, expect=(1, 2))
        self.restore("--test", "--verify", "quick", "--result", result, expect=(1, 2))
        self.assertFalse(result.exists())
        row = self.restore("--test", "--result", result)[0]
        self.assertFalse(self.to.exists())
        said = json.loads(result.read_text())
        self.assertEqual((said["records"], said["bad"], said["gaps"], said["state"]), (row["records"], 0, row["gaps"], row["what"]))
        self.assertRegex(said["copy"], r"^generation 1, \d+ parts, as of 2\S+Z$")
        self.assertEqual(result.stat().st_mode & 0o777, 0o600)
        answer = c.json("audit", "restore-test", result)[0]
        self.assertEqual((answer["tested"], answer["bad"]), (said["tested"], 0))
        (kind, actor, detail), = c.rows("SELECT kind, actor, detail FROM v_records WHERE kind = 'backup.test'")
        self.assertEqual((kind, actor), ("backup.test", "uid"))
        self.assertIn(f"{said['state']}: {said['records']} records of {said['logs']} logs", detail)
        other = c.dir / "other.json"
        for member, value, word in (("instance", "x" + said["instance"][1:], "is no copy of this store"),
                                    ("system_records", said["system_records"] - 1, "is no copy of this store"),
                                    ("system_records", 1 << 40, "is no copy of this store"), ("system_records", 0, "is no copy"),
                                    ("system_records", -1, "is no number"), ("bad", "none", "is no number"),
                                    ("last_record", "2001-01-01T00:00:00Z", "is no copy of this store"),
                                    ("tested", "2199-01-01T00:00:00Z", "in the future"), ("tested", "soon", "is no time"),
                                    ("copy", "x" * 201, "a long one"), ("restore_test", 2, "is not 1")):
            other.write_text(json.dumps({**said, member: value}))
            done = c.run("audit", "restore-test", other)
            self.assertEqual(done.returncode, 1, (member, value))
            self.assertIn(word, done.stderr)
        other.write_text("[]")
        self.assertEqual(c.run("audit", "restore-test", other).returncode, 1)
        self.assertEqual(c.rows("SELECT count(*) FROM v_records WHERE kind = 'backup.test'"), [(1,)])
        self.assertEqual(c.json("audit", "verify")[-1]["finding"], "INTACT")

    def test_op502_a_server_that_stops_is_shipped_to_its_last_record(self):
        c = self.c.start(self.configured())
        crib.wait_for("a whole copy", self.whole)
        self.load(0.3)
        self.assertEqual(c.stop(), 0)
        self.assertEqual(self.restore("--signer-state", c.store / "signer", expect=(0,))[0]["what"], "INTACT")
        c.start(self.configured())
        crib.wait_for("the next generation", lambda: self.newest() == 2 and self.whole())
        c.stop()
        self.assertNotIn("not copied", c.log.read_text())

    def test_op503_a_target_that_is_away_holds_up_no_call(self):
        """The log grows to its bound, then the chain is broken; a new one begins once the target is back."""
        c = self.c.start(self.configured(", wal_max: 1"))
        crib.wait_for("a whole copy", self.whole)
        away = c.dir / "away"
        self.target.rename(away)
        self.target.write_text("no directory")
        crib.wait_for("a chain that is broken", lambda: self.load(0.5) and "was broken" in c.log.read_text())
        self.assertIn("is not copied to backup.to", c.log.read_text())
        self.assertLess((c.store / "toolcrib.db-wal").stat().st_size, 16 << 20)
        self.target.unlink()
        away.rename(self.target)
        crib.wait_for("a new generation", lambda: self.newest() > 1 and self.whole(), 30)
        said = [text for text, in c.rows("SELECT detail FROM v_records WHERE kind = 'backup.broken'")]
        self.assertTrue(said and all("was broken" in text for text in said), said)
        c.stop()
        self.assertEqual(self.restore(expect=(0,))[0]["what"], "INTACT")

    def test_op517_a_target_that_somebody_has_emptied_is_begun_anew(self):
        """What lies there no more is missed at once, also where a new folder is in its place; what is shipped then can be put back."""
        c = self.c.start(self.configured())
        for way in ("emptied", "made anew"):
            crib.wait_for("a whole copy", self.whole)
            broken = len(c.rows("SELECT 1 FROM v_records WHERE kind = 'backup.broken'"))
            if way == "emptied":
                for path in self.target.iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            else:
                shutil.rmtree(self.target)
                crib.wait_for("word of it", lambda: f"{self.target} is not there" in c.json("status")[0]["backup"])
                again = c.log.read_text().count("is copied to backup.to again")
                self.load(0.5)
                self.assertEqual(c.log.read_text().count("is copied to backup.to again"), again, "it is not")
                self.target.mkdir(0o700)
            crib.wait_for("a copy of the whole anew", lambda: self.newest() == 1 and self.whole())
            self.assertIn(f"what was in {self.target} has been taken away", c.log.read_text())
            crib.wait_for("its record", lambda: len(c.rows("SELECT 1 FROM v_records WHERE kind = 'backup.broken'")) > broken)    # noqa: B023
            self.load(0.3)
        self.assertEqual(c.stop(), 0)
        self.assertEqual(self.restore("--signer-state", c.store / "signer", expect=(0,))[0]["what"], "INTACT")

    @unittest.skipIf(crib.sanitized("toolcrib-ship"), "no filters beside sanitizers")
    def test_it_is_confined(self):
        """HARDENING 1.3: no new privileges, and a filter of system calls of its own, besides that of the launcher."""
        def status(pid):
            lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
            return dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        c = self.c.start(self.configured())
        crib.wait_for("a whole copy", self.whole)
        words = {path.parent.name: path.read_bytes().split(b"\0") for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")}
        pid, = [pid for pid, said in words.items() if {f"--store={c.store}".encode(), b"--serve"} <= set(said)]
        said = status(pid)
        self.assertEqual((said["NoNewPrivs"], said["Seccomp"]), ("1", "2"))
        self.assertEqual(int(said["Seccomp_filters"]), int(status(said["PPid"])["Seccomp_filters"]) + 1)

    def test_what_the_configuration_does_not_take(self):
        for text, said in (("{to: /x}", "who can read"), ("{to: x, recipients: age1}", "absolute"), ("{recipients: age1}", "backup.to"),
                           ("{to: /x, recipients: age1x}", "no recipient of age"),
                           (f"{{to: /x, recipients: '{','.join([self.recipient] * 17)}'}}", "more than 16")):
            with self.subTest(text=text):
                path = self.c.config(f"backup: {text}\n")
                done = subprocess.run([crib.BUILD / "toolcribd", "--store", self.c.store, "-c", path, "--check"], capture_output=True,
                                      text=True, timeout=60, check=False)
                self.assertNotEqual(done.returncode, 0, done.stdout)
                self.assertIn(said, done.stdout + done.stderr)

    def test_op504_a_new_base_while_it_goes_on(self):
        """Each base begins a generation; older ones go when they are old, and keys.db's parts of older ones at once."""
        c = self.c.start()
        shipper = self.ship("--base", "1s", "--keep", "1s")
        caller = threading.Thread(target=self.load, args=(3,))
        caller.start()
        crib.wait_for("a fourth generation", lambda: self.newest() >= 4 and self.whole(), 30)
        caller.join()
        c.stop(signal.SIGKILL)
        shipper.send_signal(signal.SIGTERM)     # it would remove what a restore is reading
        self.assertEqual(shipper.wait(20), 0)
        kept = sorted(int(path.name) for path in self.target.glob("0*"))
        self.assertGreater(kept[0], 1)
        for generation in kept[:-2]:
            keys = [line["file"] for line in self.lines(generation) if line.get("of") == "keys.db"]
            own = [name for name in keys if name.startswith(f"{generation:010d}/")]
            self.assertEqual([name for name in own if (self.target / name).exists()], [])
        self.assertEqual(self.restore()[0]["bad"], 0)

    def test_who_is_no_recipient_reads_nothing(self):
        self.once()
        other = self.c.dir / "other"
        other.write_text("AGE-SECRET-KEY-1QYQSZQGPQYQSZQGPQYQSZQGPQYQSZQGPQYQSZQGPQYQSZQGPQYQS3J4V6R\n")
        for text in (other.read_text(), "nonsense\n", ""):
            other.write_text(text)
            done = self.c.run("restore", "--from", self.target, "--to", self.to, "--identity", other)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        done = self.c.run("restore", "--from", self.target, "--to", self.to)
        self.assertIn("--identity", done.stderr)
        self.c.cli("backup", self.c.dir / "plain.db")
        for option in ("--identity", "--until"):
            done = self.c.run("restore", "--from", self.c.dir / "plain.db", "--to", self.to, option, "1h" if option == "--until" else self.identity)
            self.assertIn("a directory that toolcrib-ship wrote", done.stderr)

    def test_what_it_does_not_take(self):
        for option, value in (("--every", "99ms"), ("--every", "3601s"), ("--base", "999ms"), ("--keep", "x"), ("--log-max", "1048575"),
                              ("--recipient", "age1"), ("--recipient", ",".join([self.recipient] * 17))):
            with self.subTest(option=option, value=value):
                done = subprocess.run(self.words(option, value), capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
        for option, value in (("--every", "100ms"), ("--every", "3600s"), ("--base", "1000ms"), ("--log-max", "1MiB"),
                              ("--recipient", ",".join([self.recipient] * 16))):
            self.once(option, value)
        before = self.newest()
        self.ship()
        crib.wait_for("one that ships", lambda: self.newest() > before)
        self.assertIn("another process ships", self.once(expect=1))


if __name__ == "__main__":
    crib.main()
