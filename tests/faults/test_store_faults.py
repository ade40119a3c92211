"""The disk below the store fails, fills, hangs and lies; the file goes away or is written by others (FAULT F4 to F11, F14 to
F16).  Faults are injected by strace or libfiu into the real daemon under load."""
import os
import pathlib
import resource
import select
import shutil
import socket
import sqlite3
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integ"))
import crib
from witness import Witness

SANITIZED = "-fsanitize" in (crib.BUILD / "Makefile").read_text().partition("SAN_FLAGS = ")[2].partition("\n")[0]


def can_trace():
    return shutil.which("strace") and subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode == 0


def inject(call, fault):
    """A wrapper that lets a system call of the daemon fail, which stays our own child."""
    return ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:{fault}"]


class StoreFaults(crib.Case):
    def setUp(self):
        super().setUp()
        self.w = Witness(self.crib.init())

    def under(self, wrapper, extra=""):
        self.crib.start(extra, wrapper=wrapper)
        self.w.load()

    def aftermath(self):
        """A start without the fault serves, verifies, and has all that was acknowledged."""
        c = self.crib
        self.w.rest()
        if c.daemon and c.daemon.poll() is None:
            self.w.kill()
        self.w.restart()
        peer = c.http(self.w.key)
        self.assertIn("result", peer.call("echo", {"text": "x"}, crib.MODERN))
        peer.close()
        self.assertEqual(c.stop(), 0)
        self.w.testify(self)
        done = c.run("audit", "verify")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @unittest.skipUnless(can_trace(), "needs strace")
    def test_f5_a_failed_flush_ends_the_process(self):
        self.under(inject("fdatasync", "error=EIO:when=60+"))
        self.assertNotEqual(self.crib.daemon.wait(4 * crib.DEADLINE), 0)
        self.assertIn("the store failed", self.crib.log.read_text())
        self.aftermath()

    @unittest.skipUnless(shutil.which("fiu-run") and not SANITIZED, "needs fiu-run, and no sanitizer beside it")
    def test_f6_the_same_through_a_library(self):
        pipe = self.crib.dir / "fiu"
        self.under(["fiu-run", "-x", "-f", str(pipe)])         # a start may end by a fault as well, but it is not what is tested here
        subprocess.run(["fiu-ctrl", "-f", str(pipe), "-c", "enable_random name=posix/io/sync/fdatasync,probability=0.02",
                        str(self.crib.daemon.pid)], check=True, timeout=crib.DEADLINE)
        crib.wait_for("the end of the daemon", lambda: not self.w.crib.daemon or self.crib.daemon.poll() is not None)
        self.aftermath()

    @unittest.skipUnless(can_trace(), "needs strace")
    def test_f7_a_flush_that_hangs_refuses_calls_after_the_deadline(self):
        self.under(inject("fdatasync", "delay_enter=3000000:when=60"), "audit: {deadline_ms: 300}\n")
        crib.wait_for("refusals", lambda: self.w.refused > 3)
        answered = len(self.w.answered)
        crib.wait_for("service after the flush", lambda: len(self.w.answered) > answered + 10)
        self.w.rest()
        self.assertEqual(self.crib.stop(), 0)
        self.aftermath()

    @unittest.skipUnless(can_trace(), "needs strace")
    def test_f7_the_service_manager_is_not_told_that_all_is_well(self):
        """OP-104: while a flush hangs for longer than the writer may be silent; and again when it is done."""
        path = str(self.crib.dir / "notify.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(path)
            s.settimeout(4 * crib.DEADLINE)
            self.crib.start(wrapper=inject("fdatasync", "delay_enter=14000000:when=60"),
                            env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "400000"})
            self.w.load()
            # A manager that does not read holds nothing up.
            crib.wait_for("silence", lambda: "the writer does not answer" in self.crib.log.read_text(), 4 * crib.DEADLINE)
            while select.select([s], [], [], 0)[0]:
                s.recv(100)
            self.assertFalse(select.select([s], [], [], 0.5)[0], "well, it says")
            self.assertEqual(s.recv(100), b"WATCHDOG=1")
            crib.wait_for("the answer", lambda: "the writer answers again" in self.crib.log.read_text())
        self.w.rest()
        self.assertEqual(self.crib.stop(), 0)
        self.aftermath()

    @unittest.skipUnless(can_trace(), "needs strace")
    def test_f9_no_space_at_the_nth_write(self):
        self.under(inject("pwrite64", "error=ENOSPC:when=200..215"))
        crib.wait_for("answers after the fault", lambda: len(self.w.answered) > 100)
        self.w.rest()
        self.assertEqual(self.crib.stop(), 0)
        self.aftermath()

    def test_f10_a_file_size_limit_is_an_error_and_no_death(self):
        self.under(["prlimit", "--fsize=2097152"])
        crib.wait_for("refusals", lambda: self.w.refused > 3)
        self.assertIsNone(self.crib.daemon.poll())
        line = self.crib.tcp(self.w.key)
        self.assertEqual(line.tools(crib.MODERN), ["echo", "effect"])
        line.close()
        self.aftermath()

    def test_f11_no_descriptors_left_pauses_accepting(self):
        c = self.crib
        c.start(wrapper=["prlimit", "--nofile=96"])
        first = c.tcp(self.w.key)
        self.assertIn("result", first.call("echo", {"text": "x"}, crib.MODERN))
        held = []
        for _ in range(200):
            held.append(socket.create_connection(c.address("tcp"), crib.DEADLINE))
        for _ in range(20):
            self.assertIn("result", first.call("echo", {"text": "x"}, crib.MODERN))
        for s in held:
            s.close()
        def again():
            try:
                peer = c.tcp(self.w.key)
                got = peer.call("echo", {"text": "x"}, crib.MODERN)
                peer.close()
                return "result" in got
            except (OSError, AssertionError):
                return False
        crib.wait_for("a new connection that is served", again)
        first.close()
        self.assertEqual(c.stop(), 0)
        self.aftermath()

    def away(self, act, back):
        """Do something to the file of a store in use: calls are refused, and served again once it is as it was."""
        self.crib.start()
        peer = self.crib.http(self.w.key)
        self.assertIn("result", peer.call("effect", {}, crib.MODERN))
        act()
        effects = self.w.effects_seen()
        for _ in range(3):
            got = peer.call("effect", {}, crib.MODERN)
            self.assertEqual(got["error"]["code"], 5030)
            self.assertFalse(got["error"]["data"]["executed"])
        self.assertEqual(self.w.effects_seen(), effects, "a refused call must not run")
        back()
        crib.wait_for("service to resume", lambda: "result" in peer.call("effect", {}, crib.MODERN))
        peer.close()
        self.assertEqual(self.crib.stop(), 0)
        self.aftermath()

    @unittest.skipUnless(can_trace(), "needs strace")
    def test_f23_calls_that_are_interrupted_are_made_again(self):
        """Each third call of the system that may be interrupted says that it was."""
        calls = "read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg,epoll_wait,epoll_pwait,poll,ppoll,wait4,waitid,pread64,pwrite64"
        self.under(inject(calls, "error=EINTR:when=50+3"))
        crib.wait_for("answers", lambda: len(self.w.answered) > 50)
        self.assertIsNone(self.crib.daemon.poll())
        self.w.rest()
        self.assertEqual(self.w.refused, 0)
        self.aftermath()

    def test_f14_a_store_that_was_moved(self):
        db, other = self.crib.store / "toolcrib.db", self.crib.store / "elsewhere"
        self.away(lambda: db.rename(other), lambda: other.rename(db))

    def test_f14_a_store_that_was_replaced(self):
        db, kept = self.crib.store / "toolcrib.db", self.crib.store / "kept"

        def replace():
            os.link(db, kept)
            shutil.copy(db, self.crib.store / "copy")
            (self.crib.store / "copy").rename(db)
        self.away(replace, lambda: kept.rename(db))

    def test_f14_a_log_that_was_removed(self):
        wal, kept = self.crib.store / "toolcrib.db-wal", self.crib.store / "kept"
        self.away(lambda: wal.rename(kept), lambda: kept.rename(wal))

    def test_f15_a_second_owner_is_refused(self):
        c = self.crib.start()
        second = subprocess.run([str(crib.BUILD / "toolcribd"), "--store", str(c.store), "-c", str(c.config())],
                                capture_output=True, text=True, timeout=crib.DEADLINE, env=c.env)
        self.assertNotEqual(second.returncode, 0)
        self.assertIn(str(c.daemon.pid), second.stderr)
        self.assertEqual(c.stop(), 0)
        self.aftermath()

    def test_f16_a_foreign_writer_stops_the_daemon(self):
        c = self.crib.start()
        peer = c.http(self.w.key)
        self.assertIn("result", peer.call("echo", {"text": "x"}, crib.MODERN))
        with sqlite3.connect(c.store / "toolcrib.db", timeout=crib.DEADLINE) as db:
            trigger = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'rec_frozen'").fetchone()[0]
            db.execute("DROP TRIGGER rec_frozen")
            db.execute("UPDATE rec SET outcome = 3 WHERE kind = 1002")
            db.execute(trigger)
        db.close()
        self.assertEqual(peer.call("echo", {"text": "x"}, crib.MODERN)["error"]["code"], 5030)
        peer.close()
        self.assertNotEqual(c.daemon.wait(crib.DEADLINE), 0)
        self.assertIn("another program has written to the store", c.log.read_text())
        c.daemon = None
        done = subprocess.run([crib.BUILD / "toolcrib-verify", *crib.evidence(c.store), c.store], capture_output=True, text=True, timeout=crib.DEADLINE)
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        done = c.run("tenant", "list")
        self.assertEqual(done.returncode, 3, "started over records that are not those that were signed: " + done.stdout)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    crib.main()
