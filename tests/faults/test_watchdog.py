"""A server whose writer hangs is ended by its service manager and started anew (OP-104, SEC S-843; issue 19, shows 2): the disk below
the store does not answer any more, the server says that it is not ready and then says nothing to the manager, which kills it.

The manager is one of this file, by sd_notify(3) and systemd.service(5), with what the unit in etc/ says but for times: systemd
itself needs to be process 1."""
import contextlib
import os
import pathlib
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integ"))
import crib
import test_metrics
import test_unit
from witness import Witness

WATCHDOG_S, ABORT_S = 2, 20


class Manager:
    """Starts a service of Type=notify, ends one that does not say that it lives, and starts it anew where the unit says so."""

    def __init__(self, command, env, folder, unit):
        self.command, self.env, self.folder, self.unit = command, env, folder, unit
        self.heard, self.deaths, self.lives, self.pid = [], [], 0, 0
        self.before = lambda: None              # each start but the first
        self.over = threading.Event()
        self.path = folder / "manager.sock"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def start(self):
        log = open(self.folder / "daemon.log", "ab")
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        child = subprocess.Popen(["/bin/sh", "-c", 'WATCHDOG_PID=$$ exec "$@"', "sh", *map(str, self.command)], stdin=subprocess.DEVNULL, stdout=log,
                                 stderr=log, cwd=self.folder, start_new_session=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (hard, hard)),
                                 env={**self.env, "NOTIFY_SOCKET": str(self.path), "WATCHDOG_USEC": str(WATCHDOG_S * 1000000)})
        log.close()
        self.lives += 1
        return child

    def messages(self, seconds):
        if select.select([self.socket], [], [], seconds)[0]:
            words = self.socket.recv(4096).decode().splitlines()
            self.heard += words
            return words
        return []

    def watch(self, child):
        """Until it ends; why: exit, or watchdog."""
        alive, ready, why = time.monotonic(), False, "exit"
        while child.poll() is None and not self.over.is_set():
            words = self.messages(0.05)
            ready |= "READY=1" in words
            if {"READY=1", "WATCHDOG=1"} & set(words) or not ready:
                alive = time.monotonic()
            if ready:
                self.pid = child.pid
            if time.monotonic() - alive > WATCHDOG_S:
                why = "watchdog"
                child.send_signal(signal.SIGABRT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(ABORT_S)
                break
        return why

    def run(self):
        while not self.over.is_set():
            child = self.start()
            why = self.watch(child)
            if self.over.is_set():
                child.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(crib.DEADLINE)
            with contextlib.suppress(ProcessLookupError):       # KillMode=mixed: the rest of its processes
                os.killpg(child.pid, signal.SIGKILL)
            self.deaths.append((why, child.wait()))
            failed = why != "exit" or self.deaths[-1][1] != 0
            if self.over.is_set() or not (failed and self.unit["Restart"] == ["on-failure"]):
                return
            self.before()

    def end(self):
        self.over.set()
        self.thread.join()
        self.socket.close()


class Watchdog(crib.Case):
    def ready(self):
        status = self.crib.status()
        if not status or status.get("pid") != self.manager.pid:
            return None
        self.crib.ports = {listener["transport"]: listener["address"] for listener in status["listeners"]}
        return status

    def readyz(self):
        with contextlib.suppress(OSError):
            return test_metrics.get(self.crib, "/readyz")[::2]
        return None

    def test_one_whose_writer_hangs_is_killed_and_started_anew(self):
        unit = test_unit.settings()
        self.assertEqual((unit["Type"], unit["Restart"], unit["LimitCORE"]), (["notify"], ["on-failure"], ["0"]))
        self.assertGreaterEqual(int(unit["WatchdogSec"][0]), 2 * 10)    # the writer has 10 s
        c, hang = self.crib, self.crib.dir / "hang"
        w = Witness(c.init())
        config = c.config("metrics: {listen: '127.0.0.1:0'}\naudit: {deadline_ms: 500}\n")
        env = {**c.env, "LD_PRELOAD": str(crib.BUILD.resolve() / "tests/integ/die.so"), "ASAN_OPTIONS": "verify_asan_link_order=0",
               "TOOLCRIB_TEST_HANG": str(hang)}
        self.manager = Manager([(crib.BUILD / "toolcribd").resolve(), "--store", c.store, "-c", config], env, c.dir, unit)
        self.addCleanup(self.manager.end)
        self.manager.before = lambda: hang.unlink(missing_ok=True)
        first = crib.wait_for("a server", self.ready)["pid"]
        self.assertEqual(self.readyz(), (200, '{"ready":true}\n'))
        self.assertRegex(pathlib.Path(f"/proc/{first}/limits").read_text(), r"Max core file size +0 +0 ")
        w.load()
        crib.wait_for("calls", lambda: len(w.answered) > 20)
        hang.touch()
        crib.wait_for("refusals", lambda: w.refused > 3)
        crib.wait_for("a server that says why it is not ready",
                      lambda: self.readyz() == (503, '{"ready":false,"reasons":["audit: the disk of the store does not answer"]}\n'))
        answered = len(w.answered)
        crib.wait_for("a death", lambda: self.manager.deaths, 60)
        self.assertEqual(len(w.answered), answered, "answered while nothing was kept")
        self.assertEqual(self.manager.deaths, [("watchdog", -signal.SIGABRT)])
        self.assertNotEqual(crib.wait_for("the next one", self.ready)["pid"], first)
        crib.wait_for("calls", lambda: len(w.answered) > answered + 20)
        self.assertEqual(self.readyz(), (200, '{"ready":true}\n'))
        w.rest()
        self.assertEqual(list(c.dir.glob("*core*")) + list(c.store.glob("*core*")), [])
        self.manager.end()
        self.assertEqual((self.manager.deaths[1:], self.manager.lives), ([("exit", 0)], 2))
        self.assertIn("the writer does not answer, and the service manager is not told", (c.dir / "daemon.log").read_text())
        w.testify(self)
        self.assertEqual(c.rows("SELECT count(*) FROM v_records WHERE kind = 'server.crash'"), [(1,)])
        for words in ((crib.BUILD / "toolcrib-verify",), crib.sceptic()):
            done = subprocess.run([*words, *crib.evidence(c.store), c.store], capture_output=True, text=True, timeout=4 * crib.DEADLINE)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("INTACT", done.stdout)


if __name__ == "__main__":
    crib.main()
