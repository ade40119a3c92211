#!/usr/bin/env python3
"""Reports run in processes of their own (SCALE D4, section 8): they stream, end with their reader, leave two records however they
end, and reach nothing but the store."""
import atexit
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

import crib

ROWS = 4000                     # of some 400 bytes: much more than all that lies between a reporter and its reader
WINDOW = 200                    # calls at once


def reporters(pid):
    return [child for child, name in crib.below(pid).items() if name == "toolcrib-report"]


class Reader:
    """A command on the admin socket whose answer is read as the test likes."""

    def __init__(self, case, command, path=None, user=None, **args):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(crib.DEADLINE)
        ours = os.getegid(), os.geteuid()
        if user:
            os.setegid(user)
            os.seteuid(user)
        try:
            self.sock.connect(str(path or case.crib.path / "admin.sock"))
        finally:
            if user:
                os.seteuid(ours[1])
                os.setegid(ours[0])
        case.addCleanup(self.sock.close)
        self.sock.sendall(json.dumps({"command": command, "args": args}).encode() + b"\n")
        self.got = b""

    def read(self, until):
        while until not in self.got:
            more = self.sock.recv(1 << 16)
            if not more:
                raise AssertionError(f"hung up behind {self.got[-300:]}")
            self.got += more
        return self

    def rest(self):
        """All lines, to the last."""
        while not re.search(rb'(?:^|\n)\{"(done|error)":.*\}\n$', self.got[-2000:]):
            more = self.sock.recv(1 << 20)
            if not more:
                raise AssertionError(f"hung up behind {self.got[-300:]}")
            self.got += more
        return [json.loads(line) for line in self.got.splitlines()]


class Case(crib.Case):
    """A store with ROWS calls of acme, made once and copied."""

    conf = ""
    as_shipped = False
    made = None

    @classmethod
    def make(cls, c):
        c.init()
        c.tool(crib.ECHO, "echo.yaml")
        key = c.tenant("acme", "echo")
        c.cli("limit", "set", "acme", "--rate", "100000/s", "--concurrency", str(2 * WINDOW))
        c.start("limits: {requests: 0}\n")
        peer = c.tcp(key)
        peer.initialize()
        for _ in range(ROWS // WINDOW):
            wanted = [peer.request("tools/call", {"name": "echo", "arguments": {"text": "one"}}) for _ in range(WINDOW)]
            peer.raw(b"".join(json.dumps(request).encode() + b"\n" for request in wanted))
            for _ in wanted:
                assert "result" in peer.receive()
        peer.close()
        c.stop()
        Case.made = tempfile.mkdtemp(prefix="toolcrib-test-")
        atexit.register(shutil.rmtree, Case.made, True)
        shutil.copytree(c.store, pathlib.Path(Case.made) / "store")

    def setUp(self):
        super().setUp()
        if not Case.made:
            self.make(self.crib)
            shutil.rmtree(self.crib.store)
        shutil.copytree(pathlib.Path(Case.made) / "store", self.crib.path)
        self.crib.store = self.crib.path
        if self.as_shipped:
            self.crib.report_class = None
        self.crib.start(self.conf)

    def records(self, tenant="acme", least=0):
        """What records say of reports that read this log, the oldest first; waits for so many."""
        sql = ("SELECT r.detail, r.kind FROM v_records r WHERE r.kind IN ('audit.read', 'audit.export') AND " +
               ("r.tenant = ?" if tenant else "r.log_id = 1 AND ? IS NULL") + " ORDER BY r.idx")
        return crib.wait_for(f"{least} records", lambda: (rows := [row[0].partition(": ")[2] for row in self.crib.rows(sql, tenant)])
                             and len(rows) >= least and rows)

    def rss(self):
        return int(re.search(r"^VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{self.crib.daemon.pid}/status").read_text(), re.M)[1])

    def blocked(self, **args):
        """A report that has begun, and whose reader does not read on."""
        reader = Reader(self, "audit calls", limit="0", **args).read(b'{"row"')
        child, = crib.wait_for("a reporter", lambda: reporters(self.crib.daemon.pid))
        return reader, child


class Streams(Case):
    def test_sc001_all_of_it_streams_and_the_server_does_not_grow(self):
        """SC-001, SC-509: no limit of size, and what lies in the server between is bounded."""
        first = Reader(self, "audit calls", tenant="acme", limit="0").rest()
        self.assertEqual(len([line for line in first if "row" in line]), ROWS)
        self.assertIn("header", first[0])
        self.assertIn("done", first[-1])
        before = self.rss()
        reader, child = self.blocked(tenant="acme")
        crib.wait_for("a reporter that waits", lambda: "S" == pathlib.Path(f"/proc/{child}/stat").read_text().split()[2])
        self.assertLess(self.rss() - before, 2048, "KiB")
        self.assertEqual(reader.rest(), reader.rest())
        self.assertEqual(len(reader.got.splitlines()), ROWS + 2)
        crib.wait_for("the reporter to be gone", lambda: not reporters(self.crib.daemon.pid))
        out = self.crib.cli("audit", "calls", "--tenant", "acme", "--limit", "0", "--format", "jsonl")
        self.assertEqual(out.count("\n"), ROWS + 1)

    @unittest.skipIf(crib.sanitized(), "what a sanitizer keeps is not the server's")
    def test_sc_g4_after_a_hundred_reports_the_server_is_as_large_as_before(self):
        """SC-G4: within 1 MiB.  What the server does beside it for the first time, such as folding, comes once; what a report left
        would come with each hundred."""
        asked = [("audit calls", {"tenant": "acme", "limit": "0"}), ("audit drift", {}), ("audit isolation", {}),
                 ("audit sandbox", {"tenant": "acme"}), ("audit denied", {"tenant": "acme", "by": "rule"})]
        grown = []
        while len(grown) < 3 and (not grown or grown[-1] >= 1024):
            before = self.rss()
            for i in range(100):
                command, args = asked[i % len(asked)]
                reader = Reader(self, command, **args)
                self.assertIn("done", reader.rest()[-1])
                reader.sock.close()
            grown.append(self.rss() - before)
        self.assertLess(grown[-1], 1024, f"KiB, of {grown}")

    def test_sc501_two_records_one_before_the_first_byte(self):
        """SC-501: the first is durable before the first byte; the second says rows and how it ended."""
        reader = Reader(self, "audit calls", tenant="acme", limit="0").read(b'{"header"')
        self.assertEqual(self.records(), ["audit calls tenant=acme limit=0"])
        self.assertEqual(len(reader.rest()), ROWS + 2)
        self.assertEqual(self.records(least=2)[1], f"audit calls tenant=acme limit=0: done, {ROWS} rows")
        Reader(self, "audit calls", tenant="acme", limit="7").rest()
        self.assertEqual(self.records(least=4)[2:], ["audit calls tenant=acme limit=7", "audit calls tenant=acme limit=7: limit, 7 rows"])
        counts, = self.crib.rows("SELECT hex(ext) FROM rec WHERE kind = (SELECT kind_code FROM v_records WHERE kind = 'audit.read' "
                                 "LIMIT 1) ORDER BY id DESC LIMIT 1")[0]
        self.assertIn("6C696D6974", counts, "limit")

    def test_sc501_a_killed_reporter_leaves_its_second_record(self):
        """SC-501, SC-508: kill -9; the client is told that the answer was cut off, and the exit status is 3."""
        reader, child = self.blocked(tenant="acme")
        os.kill(child, signal.SIGKILL)
        last = reader.rest()[-1]
        self.assertEqual(last["error"]["code"], "unreachable")
        self.assertIn("the report was cut off", last["error"]["message"])
        rows = reader.got.count(b'{"row"')
        self.assertLess(rows, ROWS)
        self.assertEqual(self.records(least=2)[1], f"audit calls tenant=acme limit=0: killed, {rows} rows")
        self.assertEqual(len(Reader(self, "audit calls", tenant="acme", limit="3").rest()), 6, "the next one runs")

    def test_sc501_a_reader_that_goes_away_ends_its_reporter(self):
        """Section 1: the report was stopped: its reader went away."""
        reader, child = self.blocked(tenant="acme")
        reader.sock.close()
        crib.wait_for("the end of the reporter", lambda: not crib.runs(child))
        self.assertRegex(self.records(least=2)[1], r"^audit calls tenant=acme limit=0: cancelled, \d+ rows$")
        self.assertIn("the report was stopped: its reader went away", self.crib.log.read_text())

    def test_sc001_ctrl_c_ends_a_report(self):
        process = subprocess.Popen([str(crib.BUILD / "toolcrib"), "--store", str(self.crib.path), "audit", "calls", "--tenant", "acme",
                                    "--limit", "0", "--format", "jsonl"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   env=self.crib.env, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))   # as a shell gives it
        self.addCleanup(process.stdout.close)
        process.stdout.readline()
        child, = crib.wait_for("a reporter", lambda: reporters(self.crib.daemon.pid))
        process.send_signal(signal.SIGINT)
        process.wait(crib.DEADLINE)
        crib.wait_for("the end of the reporter", lambda: not crib.runs(child))
        self.assertRegex(self.records(least=2)[1], ": cancelled, ")

    def test_sc501_a_stop_ends_reports_on_record(self):
        reader, child = self.blocked(tenant="acme")
        self.assertEqual(self.crib.stop(), 0)
        crib.wait_for("the end of the reporter", lambda: not crib.runs(child))
        self.assertRegex(self.records(least=2)[1], r"^audit calls tenant=acme limit=0: killed, \d+ rows$")
        reader.sock.close()

    def test_sc502_no_reporter_outlives_a_killed_server(self):
        reader, child = self.blocked(tenant="acme")
        self.crib.stop(signal.SIGKILL)
        crib.wait_for("the end of the reporter", lambda: not crib.runs(child))
        reader.sock.close()
        self.crib.start()
        self.assertEqual(self.records()[:2], ["audit calls tenant=acme limit=0"], "which names the question")


class Given_up(Case):
    """Readers that a report is not for any more."""

    def test_sc502_a_reader_that_takes_nothing_is_given_up(self):
        """SC-502: by the server's clock, which is moved on.  His connection, with its half minute, is first to end it."""
        self.crib.stop()
        later = self.crib.dir / "later"
        later.write_text("0")
        self.crib.start(env={"LD_PRELOAD": str(crib.BUILD / "tests/integ/shift.so"), "TOOLCRIB_TEST_LATER": str(later),
                             "ASAN_OPTIONS": "verify_asan_link_order=0"})
        reader, child = self.blocked(tenant="acme")
        now = 0

        def given_up():
            nonlocal now
            now += 5                    # it counts from when the reader had no room any more, whenever that was
            new = later.with_suffix(".new")
            new.write_text(str(now))
            new.rename(later)
            return not crib.runs(child)
        crib.wait_for("the end of the reporter", given_up)
        self.assertGreaterEqual(now, 30)
        crib.wait_for("a word of it", lambda: "the report was stopped: its reader" in self.crib.log.read_text())
        reader.sock.close()

    @unittest.skipUnless(os.geteuid() == 0, "needs other users to be")
    def test_sc502_a_reader_whose_role_is_taken_away(self):
        """SC-502: from the look that comes each second on."""
        c, conf, path = self.crib, "admin: {{socket: {}}}\nroles: [{{role: admin, uid: 40001}}{}]\n", self.crib.dir / "public.sock"
        c.stop()
        c.let_others_in()
        c.start(conf.format(path, ", {role: auditor, uid: 40002}"))
        reader = Reader(self, "audit calls", path=path, user=40002, tenant="acme", limit="0").read(b'{"row"')
        child, = crib.wait_for("a reporter", lambda: reporters(c.daemon.pid))
        c.config(conf.format(path, ""))
        c.cli("reload")
        crib.wait_for("the end of the reporter", lambda: not crib.runs(child))
        last = reader.rest()[-1]["error"]
        self.assertEqual(last["code"], "denied", last)
        self.assertRegex(self.records(least=2)[1], r"^audit calls tenant=acme limit=0: cancelled, \d+ rows$")


class Class(Case):
    as_shipped = True           # no class of reports that tests ask for

    def test_sc502_a_report_gives_way_as_the_configuration_says(self):
        """admin.report_class: idle where nothing is said; of all of them a kernel that is short of memory ends it first."""
        for said, policy, nice in (("", os.SCHED_IDLE, 19), ("batch", os.SCHED_BATCH, 15), ("normal", os.SCHED_OTHER, 0), ("idle", os.SCHED_IDLE, 19)):
            self.crib.stop()
            self.crib.start(f"admin: {{report_class: {said}}}\n" if said else "")
            reader, child = self.blocked(tenant="acme")
            self.assertEqual((os.sched_getscheduler(child), os.getpriority(os.PRIO_PROCESS, child)), (policy, max(nice, os.getpriority(os.PRIO_PROCESS, 0))), said)
            self.assertEqual(pathlib.Path(f"/proc/{child}/oom_score_adj").read_text(), "1000\n", said)
            reader.sock.close()
            crib.wait_for("no reporter", lambda: not reporters(self.crib.daemon.pid))

    def test_sc502_so_does_one_of_a_command_without_a_server(self):
        self.crib.stop()
        for said, policy in (("", os.SCHED_IDLE), ("normal", os.SCHED_OTHER)):
            (self.crib.dir / "config/toolcrib/toolcribd.yaml").write_text(f"admin: {{report_class: {said}}}\n" if said else "{}\n")
            with subprocess.Popen([crib.BUILD / "toolcrib", "--store", self.crib.path, "audit", "calls", "--limit", "0", "--format", "jsonl"],
                                  stdout=subprocess.PIPE, env=self.crib.env) as alone:
                alone.stdout.readline()         # of more than a pipe has room for
                child, = crib.wait_for("a reporter", lambda: reporters(alone.pid))
                self.assertEqual(os.sched_getscheduler(child), policy, said)
                alone.stdout.read()
            self.assertEqual(alone.returncode, 0)


class Bounds(Case):
    @unittest.skipUnless(os.geteuid() == 0, "needs other users to be: each has 16 connections")
    def test_sc502_sixteen_follow_and_the_next_is_told(self):
        path = self.crib.dir / "public.sock"
        self.crib.stop()
        self.crib.let_others_in()
        self.crib.start(f"admin: {{socket: {path}}}\nroles: [{{role: auditor, uid: 40002}}]\n")

        def follower(user):
            return Reader(self, "audit tail", path=path, user=user, tenant="acme", follow=True)
        follow = [follower(40002 if i % 2 else None) for i in range(16)]
        for reader in follow:
            reader.read(b'{"row"')
        last = follower(40002).rest()[-1]["error"]
        self.assertEqual((last["code"], last["message"]), ("busy", "16 commands follow a log already, which is the limit"))
        child = set(reporters(self.crib.daemon.pid))
        follow.pop().sock.close()
        crib.wait_for("an end", lambda: set(reporters(self.crib.daemon.pid)) < child)
        follow.append(follower(40002).read(b'{"row"'))
        for reader in follow:
            reader.sock.close()
        crib.wait_for("no reporter", lambda: not reporters(self.crib.daemon.pid))

    def test_sc502_two_at_once_eight_wait_and_the_next_is_told(self):
        """admin.reports: at the limit of those that run and wait, one more is told; with --wait it waits as well."""
        running = [self.blocked(tenant="acme")[0] if i == 0 else
                   Reader(self, "audit calls", tenant="acme", limit="0").read(b'{"row"') for i in range(2)]
        waiting = [Reader(self, "audit calls", tenant="acme", limit="1") for _ in range(8)]
        crib.wait_for("eight that wait", lambda: len(self.records()) >= 10)
        self.assertEqual(len(reporters(self.crib.daemon.pid)), 2)
        last = Reader(self, "audit calls", tenant="acme", limit="1").rest()[-1]
        self.assertEqual((last["error"]["code"], last["error"]["message"]), ("busy", "two reports run already; --wait waits"))
        self.assertIn(": failed, 0 rows", self.records(least=12)[11])
        waiting.append(Reader(self, "audit calls", tenant="acme", limit="1", wait=True))
        for reader in running:
            self.assertIn("done", reader.rest()[-1])
        for reader in waiting:
            self.assertEqual(len(reader.rest()), 4)

    def test_sc502_those_that_follow_take_no_turn(self):
        follow = [Reader(self, "audit tail", tenant="acme", follow=True).read(b'{"row"') for _ in range(3)]
        self.assertIn("done", Reader(self, "audit calls", tenant="acme").rest()[-1])
        for reader in follow:
            reader.sock.close()
        crib.wait_for("no reporter", lambda: not reporters(self.crib.daemon.pid))


class Taken(Case):
    """A reporter that somebody has taken over (attack.c)."""

    @unittest.skipIf(crib.sanitized(), "a build with a sanitizer has no such confinement")
    def test_sc502_a_reporter_that_was_taken_over_reaches_nothing_else(self):
        """SC-502: no foreign file, no socket, no program or process, no signal, no new code; the store is not written."""
        self.crib.stop()
        wrapper = self.crib.dir / "report"
        wrapper.write_text(f"#!/bin/sh\nexport LD_PRELOAD={crib.BUILD}/tests/integ/attack.so TOOLCRIB_TEST_STORE={self.crib.path}\n"
                           f"exec {crib.BUILD}/toolcrib-report\n")
        wrapper.chmod(0o755)
        self.crib.start(env={"TOOLCRIB_REPORT": str(wrapper)})
        got = next(line["row"] for line in Reader(self, "audit calls", tenant="acme", limit="1").rest() if "row" in line)
        self.assertNotIn("done", got.values(), got)
        for name in ("socket", "unix", "fork", "kill", "ptrace", "code"):
            self.assertEqual(got[name], "EPERM", name)
        for name in ("toolcrib.db", "toolcrib.db-wal"):
            self.assertIn(got[name], ("EBADF", "EACCES"), name)
        if crib.LANDLOCK:
            for name in ("keys.db", "master.key", "passwd", "new"):
                self.assertEqual(got[name], "EACCES", name)

    def test_sc504_what_breaks_the_rules_is_ended(self):
        """SC-504: a log that was not asked for, and frames that are none, end the reporter, on record."""
        self.crib.stop()
        for frame in (r"\0\0\0\013S[[0,0,1,1]]", r"\0\0\0\001Xx", r"\0\001\0\001R", r"\0\0\0\002E{}"):
            wrapper = self.crib.dir / "report"
            wrapper.write_text(f"#!/bin/sh\nprintf '{frame}' >&0\nexec sleep 600\n")
            wrapper.chmod(0o755)
            self.crib.start(env={"TOOLCRIB_REPORT": str(wrapper)})
            last = Reader(self, "audit calls", tenant="acme").rest()[-1]
            self.assertIn("broke the rules", last["error"]["message"], frame)
            self.assertEqual(self.records(least=2)[-1], "audit calls tenant=acme: killed, 0 rows")
            self.crib.stop()


class Alone(crib.Case):
    def test_sc507_without_a_server_the_same_process_answers(self):
        self.crib.init()
        self.crib.tenant("acme")
        rows = self.crib.json("audit", "admin", "--tenant", "acme")
        self.assertEqual(rows[0]["detail"], f"uid {os.geteuid()} (cli): audit admin tenant=acme")
        rows = self.crib.json("audit", "access", "--tenant", "acme")
        self.assertIn(": done, ", rows[1]["detail"])
        missing = self.crib.run("audit", "admin", env={"TOOLCRIB_REPORT": str(self.crib.dir / "none")})
        self.assertEqual(missing.returncode, 3)
        self.assertIn("cut off", missing.stderr)


if __name__ == "__main__":
    crib.main()
