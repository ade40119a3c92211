"""The signer dies, hangs, cannot write, forgets; the disk loses what the signer has signed (FAULT F4, F17, F18)."""
import contextlib
import os
import pathlib
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integ"))
import crib
from test_checkpoints import signer_of
from witness import Witness

MAX_AGE = "audit: {checkpoint_max_age: 5}\n"


def can_trace():
    return shutil.which("strace") and subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode == 0


class SignerFaults(crib.Case):
    def setUp(self):
        super().setUp()
        self.w = Witness(self.crib.init())
        self.keys = self.crib.store / "signer"

    def verify(self, *args):
        """toolcrib-verify: exit status and the names of what it found."""
        done = subprocess.run([crib.BUILD / "toolcrib-verify", *crib.evidence(self.crib.store), *args, self.crib.store], capture_output=True, text=True,
                              timeout=crib.DEADLINE)
        return done.returncode, {line.split()[0] for line in done.stdout.splitlines()[:-1] if " epochs, " not in line}

    def await_signed(self):
        crib.wait_for("all signed", lambda: self.verify("--signer-state", self.keys) == (0, set()))

    def call(self):
        with contextlib.closing(self.crib.http(self.w.key)) as peer:
            return peer.call("effect", {}, crib.MODERN)

    def signer(self):
        return crib.wait_for("a signer", lambda: signer_of(self.crib.daemon.pid))

    def refused_start(self, *why):
        """The server says why it does not start."""
        self.crib.daemon = None
        with self.assertRaises(AssertionError) as refused:
            self.crib.start()
        self.assertTrue(any(word in str(refused.exception) for word in why), refused.exception)
        self.crib.daemon = None

    def aftermath(self):
        self.assertEqual(self.crib.stop(), 0)
        self.w.testify(self)
        self.assertEqual(self.verify("--signer-state", self.keys), (0, set()))

    # --- F4

    def refused_as_behind(self):
        """By itself the store is in order; the signer knows better."""
        with contextlib.closing(sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)) as db:
            self.assertEqual(db.execute("PRAGMA integrity_check").fetchone()[0], "ok")
        status, found = self.verify("--signer-state", self.keys)
        self.assertEqual(status, 4, found)
        self.assertIn("SIGNER_AHEAD", found)
        self.refused_start("SIGNER_AHEAD")

    def test_f4_the_end_of_the_log_is_lost_with_the_power(self):
        """What the disk had in its cache only is gone: whole transactions, so that SQLite finds nothing wrong."""
        c = self.crib.start()
        self.assertIn("result", self.call())
        self.await_signed()
        wal = c.store / "toolcrib.db-wal"
        kept = wal.stat().st_size
        self.assertIn("result", self.call())
        self.await_signed()
        self.w.kill()
        self.assertGreater(wal.stat().st_size, kept)
        os.truncate(wal, kept)
        self.refused_as_behind()

    @unittest.skipUnless(can_trace(), "needs strace")
    def test_f4_a_disk_that_says_done_and_does_nothing(self):
        """Its reads miss what was written, so that the server finds it by itself.  What was signed of it by then, out of the writer's
        memory, is missed, and the store starts no more (FAULT F4); otherwise nothing of it has been signed.  SQLite takes any count of
        at least what it asked for as success."""
        c = self.crib
        c.start(wrapper=["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-P", str(c.store / "toolcrib.db-wal"),
                         "-e", "trace=pwrite64", "-e", "inject=pwrite64:retval=65536:when=150+"])
        self.w.load()
        try:
            self.assertNotEqual(c.daemon.wait(4 * crib.DEADLINE), 0)
        finally:
            self.w.rest()
        self.assertIn("the store failed", c.log.read_text())
        status, found = self.verify("--signer-state", self.keys)
        if "SIGNER_AHEAD" in found:
            return self.refused_as_behind()
        self.assertIn((status, found), [(5, {"UNCOVERED_TAIL"}), (5, {"UNCOVERED_TAIL", "DANGLING"}), (0, set())])
        self.w.restart()
        self.assertIn("result", self.call())
        self.await_signed()
        self.assertEqual(c.stop(), 0)

    # --- F17

    def refuses_then_serves(self, heal):
        """Calls go on for a while, then they are refused before they run; healed, they are served again."""
        self.assertIn("result", self.call())
        got = crib.wait_for("a refusal", lambda: self.call().get("error"))
        self.assertEqual((got["code"], got["data"]["reason"], got["data"]["executed"]), (5030, "audit_unavailable", False))
        ran = self.w.effects_seen()
        self.assertIn("error", self.call())
        self.assertEqual(self.w.effects_seen(), ran, "a refused call must not run")
        status = self.crib.run("status")
        self.assertEqual((status.returncode, "cannot be signed" in status.stdout), (1, True), status.stdout)
        heal()
        crib.wait_for("service", lambda: "result" in self.call())
        self.await_signed()

    def test_f17_a_killed_signer_is_started_again(self):
        self.crib.start(MAX_AGE)
        for _ in range(3):
            first = self.signer()
            os.kill(first, signal.SIGKILL)
            self.assertIn("result", self.call())
            crib.wait_for("another signer", lambda: signer_of(self.crib.daemon.pid) not in (None, first))
            self.await_signed()
        self.aftermath()

    def test_f17_a_signer_that_is_always_killed(self):
        program, broken = self.crib.dir / "sign", self.crib.dir / "broken"
        program.write_text(f'#!/bin/sh\ntest -e {broken} && exit 1\nexec {(crib.BUILD / "toolcrib-sign").resolve()} "$@"\n')
        program.chmod(0o755)
        self.crib.start(MAX_AGE, env={"TOOLCRIB_SIGN": str(program)})
        broken.touch()
        os.kill(self.signer(), signal.SIGKILL)
        self.refuses_then_serves(broken.unlink)
        self.aftermath()

    def test_f17_a_stopped_signer_is_given_up_for_another(self):
        self.crib.start(MAX_AGE)
        first = self.signer()
        os.kill(first, signal.SIGSTOP)
        self.assertIn("result", self.call())
        crib.wait_for("another signer", lambda: signer_of(self.crib.daemon.pid) not in (None, first), 3 * crib.DEADLINE)
        crib.wait_for("service", lambda: "result" in self.call())
        self.await_signed()
        self.aftermath()

    def test_f17_a_stopped_signer_of_its_own(self):
        """Nobody but its service can start it again: calls are refused until it goes on."""
        path, self.keys = self.crib.dir / "sign.sock", self.crib.dir / "keys"
        shutil.move(self.crib.store / "signer", self.keys)
        signer = subprocess.Popen([crib.BUILD / "toolcrib-sign", "--dir", self.keys, "--socket", path], stdin=subprocess.DEVNULL)
        self.addCleanup(signer.wait)
        self.addCleanup(signer.kill)
        crib.wait_for("a signer that listens", path.exists)
        self.crib.start(f"signer: {{socket: {path}}}\n{MAX_AGE}")
        signer.send_signal(signal.SIGSTOP)
        self.refuses_then_serves(lambda: signer.send_signal(signal.SIGCONT))
        self.aftermath()

    def test_f17_a_state_that_cannot_be_written(self):
        mount = pathlib.Path(tempfile.mkdtemp(prefix="toolcrib-tmpfs-"))
        self.addCleanup(mount.rmdir)
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", mount],
                                               capture_output=True).returncode != 0:
            self.skipTest("needs the right to mount a tmpfs")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", mount]))
        shutil.copytree(self.keys, mount / "signer")
        shutil.rmtree(self.keys)
        self.keys = mount / "signer"
        self.crib.start(f"signer: {{dir: {self.keys}}}\n{MAX_AGE}")
        with open(mount / "full", "wb", buffering=0) as f, contextlib.suppress(OSError):
            while True:
                f.write(bytes(4096))
        self.refuses_then_serves((mount / "full").unlink)
        self.aftermath()

    # --- F18

    def test_f18_a_signer_that_is_behind_is_led_on(self):
        """Its memory of the logs was put back, its epoch was not: the store proves that it grew out of that."""
        self.crib.start()
        self.assertIn("result", self.call())
        self.await_signed()
        old = (self.keys / "state").read_text()
        self.assertIn("result", self.call())
        self.await_signed()
        self.w.kill()
        self.assertNotEqual((self.keys / "state").read_text(), old)
        (self.keys / "state").write_text(old)
        self.w.restart()
        self.assertIn("result", self.call())
        self.await_signed()
        self.aftermath()

    def test_f18_a_store_that_was_put_back_is_refused(self):
        c = self.crib
        c.start()
        self.assertIn("result", self.call())
        self.await_signed()
        self.assertEqual(c.stop(), 0)
        old = (c.store / "toolcrib.db").read_bytes()
        c.start()
        self.assertIn("result", self.call())
        note = c.dir / "note"
        note.write_text(c.cli("audit", "checkpoint"))
        self.assertEqual(c.stop(), 0)
        new = (c.store / "toolcrib.db").read_bytes()
        (c.store / "toolcrib.db").write_bytes(old)
        self.refused_start("SIGNER_AHEAD")
        self.assertEqual(self.verify("--anchor", note), (4, {"ANCHOR"}))
        (c.store / "toolcrib.db").write_bytes(new)
        c.start()
        self.assertIn("result", self.call())
        self.aftermath()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    crib.main()
