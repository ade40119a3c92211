"""Death at every crash point (FAULT F2): the next start finds all that was acknowledged, finishes what was begun, and the
store verifies.  Needs programs built with --enable-crash-points."""
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integ"))
import crib
from witness import Witness

HERE = pathlib.Path(__file__).resolve().parent
BUILT = "#define CRASH_POINTS 1" in (crib.BUILD / "config.h").read_text()
DEAD = 137


def points():
    """Name and scenario of each point."""
    lines = (HERE / "crash_points").read_text().splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


class Names(crib.unittest.TestCase):
    def test_the_list_and_the_code_agree(self):
        in_code = set()
        for path in (crib.SOURCE / "src").rglob("*.c"):
            for call in re.findall(r'(?:CRASH_AT|crash_around)\(([^)]*)\)', path.read_text()):
                in_code |= set(re.findall(r'"([a-z.]+)"', call))
        self.assertEqual(in_code, {name for name, _ in points()})


@crib.unittest.skipUnless(BUILT, "needs ./configure --enable-crash-points")
class CrashPoints(crib.Case):
    def die_at(self, name, n, scenario):
        c = self.crib = crib.Crib()
        self.addCleanup(c.close)
        env = {"TOOLCRIB_CRASH_AT": f"{name}:{n}"}
        if scenario == "init":
            self.assertEqual(c.run("init", env=env).returncode, DEAD)
            w = Witness(c.init())
            c.start()
            c.stop()
        else:
            w = Witness(c.init())
            c.cli("secret", "set", "one", stdin="first")
            c.cli("secret", "set", "two", stdin="second")
            c.cli("secret", "set", "three", stdin="third")
            if scenario == "recover":
                c.start()
                w.load()
                crib.wait_for("answers", lambda: len(w.answered) > 20)
                w.rest()
                self.open_calls(w, n)
                self.assertEqual(c.run("tenant", "add", "other", env=env).returncode, DEAD)
            else:
                self.live(w, env, scenario)
        crib.wait_for("no daemon", lambda: not c.daemon or c.daemon.poll() is not None)
        c.daemon = None
        c.start()
        peer = c.http(w.key)
        self.assertIn("result", peer.call("echo", {"text": "x"}, crib.MODERN))
        peer.close()
        self.assertEqual(c.stop(), 0)
        w.testify(self)
        done = c.run("audit", "verify")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def open_calls(self, w, n):
        """Kill while at least n calls have begun and not ended."""
        slow = w.crib.dir / "slow"
        slow.write_text("#!/bin/sh\nsleep 60\n")
        slow.chmod(0o755)
        w.crib.tool(crib.tool_yaml("slow", f'{{type: exec, argv: ["{slow}"], stdin: none, output: text}}'), "slow.yaml")
        w.crib.cli("grant", "add", "acme", "slow")
        crib.wait_for("no open calls", lambda: not (r := w.records())[1001] - r[1002])
        peers = [w.crib.tcp(w.key) for _ in range(n)]
        for peer in peers:
            peer.send(peer.request("tools/call", {"name": "slow", "arguments": {}}, crib.MODERN))
        crib.wait_for("open calls", lambda: len((r := w.records())[1001] - r[1002]) >= n)
        w.kill()
        for peer in peers:
            peer.close()

    def live(self, w, env, scenario):
        """A start, load, admin commands, a rekey, a stop: somewhere there the process dies."""
        c = w.crib
        c.daemon = None
        try:
            c.start(env=env)
        except AssertionError:
            self.assertEqual(c.daemon.poll(), DEAD)
            return
        if scenario in ("load", "busy"):
            w.load()
            try:
                c.daemon.wait(4 * crib.DEADLINE)
            finally:
                w.rest()
        elif scenario == "admin":
            for i in range(5):
                c.run("tenant", "add", f"t{i}")
        elif scenario == "rekey":
            c.run("secret", "rekey")
        elif scenario == "stop":
            c.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(c.daemon.wait(crib.DEADLINE), DEAD, "the point was not passed")


def add(name, scenario):
    def test(self):
        for n in (1, 2, 3) if scenario not in ("stop",) else (1,):
            with self.subTest(n=n):
                self.die_at(name, n, scenario)
    setattr(CrashPoints, f"test_{name.replace('.', '_')}", test)


for point in points():
    add(*point)

if __name__ == "__main__":
    crib.main()
