"""toolcrib top: what a server does, as it does it, on a terminal and into a pipe (OP-201)."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import termios

import crib

SHARE = 16                              # ADMIN_SHARE_MAX
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


class Screen:
    """The program on a terminal of its own; what it has shown is read by who waits for it."""
    def __init__(self, c, *words, columns=100, lines=30, job=False):
        self.shown = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            if job:                     # as a shell with jobs would: a group that may be stopped
                child = os.fork()
                if child:
                    os.setpgid(child, child)
                    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
                    os.tcsetpgrp(0, child)
                    while True:
                        _, status = os.waitpid(child, os.WUNTRACED)
                        if not os.WIFSTOPPED(status):
                            os._exit(os.waitstatus_to_exitcode(status) & 0xff)
                        os.tcsetpgrp(0, os.getpid())
                        modes = termios.tcgetattr(0)[3]
                        os.write(1, b"STOPPED %d\n" % bool(modes & termios.ICANON and modes & termios.ECHO))
                        os.read(0, 1)
                        os.tcsetpgrp(0, child)
                        os.killpg(child, signal.SIGCONT)
                os.setpgid(0, 0)
                while os.tcgetpgrp(0) != os.getpgid(0):
                    os.sched_yield()
            os.execve(str(crib.BUILD / "toolcrib"), ["toolcrib", "--store", str(c.store), "top", *words],
                      {**c.env, "TERM": "xterm"})
        self.size(columns, lines)

    def size(self, columns, lines):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def read(self):
        if select.select([self.fd], [], [], 0.1)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            self.shown += data.decode()
            return bool(data)
        return True

    def until(self, pattern):
        """Wait until that is shown; all that was is forgotten."""
        crib.wait_for(f"{pattern} on the screen", lambda: re.search(pattern, self.shown) or (self.read() and False))
        found, self.shown = self.shown, ""
        return found

    def picture(self):
        """The lines of the last picture that is there whole."""
        whole = self.until("\x1b\\[H[^\x1b]*(\x1b\\[K\r\n[^\x1b]*)+\x1b\\[K\x1b\\[J")
        return whole[whole.rindex("\x1b[H") + 3:].split("\x1b[J")[0].replace("\x1b[K", "").split("\r\n")

    def modes(self):
        flags = termios.tcgetattr(self.fd)[3]
        return bool(flags & termios.ICANON), bool(flags & termios.ECHO)

    def end(self):
        """Its exit status, and what it said since the last look."""
        while self.read():
            pass
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status), self.shown

    def close(self):
        os.close(self.fd)


class Case(crib.Case):
    def serve(self, extra=""):
        c = self.crib.init()
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "echo")
        self.other = c.tenant("bolt", "echo")
        return c.start(extra)

    def call(self, times, key=None, tool="echo"):
        peer = self.crib.tcp(key or self.key)
        for _ in range(times):
            peer.call(tool, {"text": "x"}, crib.MODERN)
        peer.close()

    def screen(self, *words, **more):
        s = Screen(self.crib, *words, **more)
        self.addCleanup(s.close)
        return s


class Pipe(Case):
    def test_once_is_one_picture_of_two_samples(self):
        c = self.serve()
        self.call(3)
        for words in ([], ["--once"]):
            lines = c.cli("top", "--interval", "1s", *words).splitlines()
            self.assertRegex(lines[0], rf"^toolcrib {re.escape(c.status()['version'])}  serving 0d 00:0\d   calls [\d.]+/s  p50 .*  refused [\d.]+/s   "
                                       r"CPU .* %  RSS \d.* MiB$")
            self.assertRegex(lines[1], r"^audit   ok, .* rec/s, batch .*, commit p99 .*, WAL .*, signed \d+ s ago, free .*   pressure 0 %$")
            self.assertEqual(lines[3].split(), ["TENANT", "CALLS/s*", "P99", "RUN", "WAIT", "DENIED/s", "REFUSED/s", "FAILED", "QUOTA"])
            self.assertEqual(lines[4].split()[0], "acme")
            self.assertNotIn("\x1b", "".join(lines))

    def test_samples_are_counts_since_the_start(self):
        """With --json each is a line; two of them with --once, so that there is something to take rates of."""
        c = self.serve()
        self.call(3)
        self.call(1, tool="nothing")
        first, second = (json.loads(line) for line in c.cli("top", "--json", "--once", "--interval", "1s").splitlines())
        self.assertGreaterEqual(second["us"] - first["us"], 1000000)
        self.assertEqual(first["counters"]["calls_finished"], 3)
        acme, = (row for row in first["tenants"] if row["name"] == "acme")
        self.assertEqual(acme["outcomes"], {"ok": 3, "denied": 1})
        self.assertEqual((sum(acme["buckets"]), acme["running"], acme["waiting"]), (3, 0, 0))
        self.assertEqual(len(acme["buckets"]), len(first["bounds"]) + 1)
        self.assertEqual([row["outcomes"] for row in first["tools"] if row["name"] == "echo"], [{"ok": 3}])
        self.assertEqual(first["calls"]["outcomes"], {"ok": 3, "denied": 1})
        self.assertIsNone(first["refusing"])
        self.assertGreater(first["resident_bytes"], 1 << 20)
        self.assertGreater(first["records"], 7)
        self.assertGreaterEqual(second["counters"]["writer_batches"], first["counters"]["writer_batches"])

    def test_its_record_is_that_of_any_command(self):
        """One at its end, however many samples there were."""
        c = self.serve()
        def records():
            return c.rows("SELECT count(*) FROM v_records WHERE kind = 'admin.cmd'")[0][0]
        before = records()
        c.cli("top", "--once", "--interval", "1s")
        self.assertEqual(records(), before + 1)

    def test_what_cannot_be_watched_is_refused(self):
        c = self.crib.init()
        c.tenant("acme")
        said = c.run("top")
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("no server runs on this store", said.stderr)
        c.start()
        for words, want in ((["--interval", "999ms"], "from 1s to 60s"), (["--interval", "61s"], "from 1s to 60s"),
                            (["--interval", "soon"], "interval"), (["--tenant", "nobody"], "tenant nobody: not found")):
            done = c.run("top", "--once", *words)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(want, done.stderr)

    def test_a_sample_has_a_bound_of_rows(self):
        """The busiest of each; the one beyond the bound comes with its next call."""
        c = self.crib.init()
        c.tool(crib.ECHO)
        most = 200                                      # TOP_ROWS_MAX
        c.start()
        keys = [c.tenant(f"t{n}", "echo") for n in range(most + 1)]
        for n, key in enumerate(keys[:most]):
            self.call(1, key=key)
        def names():
            return {row["name"] for row in json.loads(c.cli("top", "--json", "--once", "--interval", "1s").splitlines()[0])["tenants"]}
        self.assertEqual(names(), {f"t{n}" for n in range(most)})
        self.call(2, key=keys[most])
        got = names()
        self.assertEqual(len(got), most)
        self.assertIn(f"t{most}", got)


class Who(Case):
    def test_a_tenant_and_nothing_of_the_others(self):
        """Whoever names a tenant gets what is that tenant's alone."""
        c = self.serve()
        self.call(2)
        self.call(5, key=self.other)
        said = c.cli("top", "--json", "--once", "--interval", "1s", "--tenant", "acme")
        for line in said.splitlines():
            sample = json.loads(line)
            self.assertEqual(set(sample), {"time", "unix_us", "us", "version", "tenant", "bounds", "tenants", "calls"})
            self.assertEqual([row["name"] for row in sample["tenants"]], ["acme"])
            self.assertEqual(sample["calls"]["outcomes"], {"ok": 2})
        self.assertNotIn("bolt", said)
        lines = c.cli("top", "--once", "--interval", "1s", "--tenant", "acme").splitlines()
        self.assertRegex(lines[0], r"^toolcrib \S+  tenant acme   calls [^C]*$")
        self.assertEqual([line.split()[0] for line in lines[2:]], ["TENANT", "acme"])


class Live(Case):
    def test_it_is_drawn_again_and_keys_do_what_help_says(self):
        c = self.serve()
        s = self.screen("--interval", "1s")
        s.until(re.escape(ENTER))
        self.assertEqual(s.modes(), (False, False))
        self.call(4)
        lines = crib.wait_for("acme", lambda: (lambda p: any(line.startswith("acme") for line in p) and p)(s.picture()))
        self.assertTrue(all(len(line) <= 100 for line in lines), lines)
        s.type("s")
        s.until(r"P99\*")
        s.type("t")
        s.until(r"TOOL +CALLS/s\* +P50")
        s.type("/ech")
        s.until("only names with: ech_")
        s.type("\r")
        s.until(r"only names with: ech[^_]")
        s.type("/zzz\r")
        s.until(r"only names with: zzz\x1b\[K\r\nTOOL[^\r]*\x1b\[K\x1b\[J")
        s.type("/\x1b")
        s.until("echo")
        s.type("?")
        s.until("sort by the next column")
        s.type("?p")
        s.until("paused: p goes on")
        s.size(40, 6)
        self.assertTrue(all(len(line) <= 40 for line in s.picture()[:6]))
        s.type("p")
        s.until("TOOL")
        s.type("q")
        code, rest = s.end()
        self.assertEqual((code, LEAVE in rest), (0, True))

    def restored(self, s, status):
        code, rest = s.end()
        self.assertEqual(code, status, rest)
        self.assertIn("\x1b[?25h" + LEAVE, rest)

    def test_signals_put_the_terminal_back(self):
        c = self.serve()
        for signo in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            s = self.screen()
            s.until(re.escape(ENTER))
            s.until("TENANT")
            if signo == signal.SIGINT:
                s.type("\x03")
            else:
                os.kill(s.pid, signo)
            self.restored(s, -signo)

    def test_a_server_that_ends_puts_it_back_and_is_told(self):
        c = self.serve()
        s = self.screen()
        s.until("TENANT")
        c.stop()
        code, rest = s.end()
        self.assertNotEqual(code, 0)
        self.assertRegex(rest, re.escape(LEAVE) + r"[^\x1b]*toolcrib: ")

    def test_a_stop_puts_it_back_and_going_on_takes_it_again(self):
        c = self.serve()
        s = self.screen(job=True)
        s.until("TENANT")
        s.type("\x1a")
        self.assertIn(LEAVE, s.until("STOPPED 1"))
        s.type("\n")
        s.until(re.escape(ENTER) + r"[\s\S]*TENANT")
        s.type("q")
        code, rest = s.end()
        self.assertEqual((code, LEAVE in rest), (0, True))

    def test_a_peer_that_is_gone_is_missed(self):
        """Its place among those who give commands is free again, however long its interval was."""
        c = self.serve()
        for s in [self.screen("--interval", "60s") for _ in range(SHARE)]:
            s.until("TENANT")
            os.kill(s.pid, signal.SIGKILL)
            s.end()
        crib.wait_for("a place", lambda: c.run("status").returncode == 0)


if __name__ == "__main__":
    crib.main()
