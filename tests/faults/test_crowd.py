"""FAULT F29: ten thousand idle connections and a storm of new ones: the caps hold, a client with a key is served, commands are
answered, and the memory of it all is bounded.  TOOLCRIB_CROWD says how many they are."""
import os
import pathlib
import resource
import socket
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integ"))
import crib

CROWD = int(os.environ.get("TOOLCRIB_CROWD", "10000"))
SOURCES = 50
RSS_MIB = 100
COMMAND_MS = float(os.environ.get("TOOLCRIB_CROWD_MS", crib.DEADLINE * 1000))  # what it may add to a command's time
SANITIZED = "-fsanitize" in (crib.BUILD / "Makefile").read_text().partition("SAN_FLAGS = ")[2].partition("\n")[0]


class Crowd(crib.Case):
    def setUp(self):
        super().setUp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < CROWD + 1000:
            self.skipTest(f"{CROWD} connections need as many descriptors; the hard limit is {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        c = self.crib.init()
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "*")
        self.crowd = []
        self.addCleanup(lambda: [sock.close() for sock in self.crowd])

    def start(self, connections):
        path = self.crib.dir / "toolcribd.yaml"

        def config(extra=""):
            path.write_text(f"""listeners:
- {{transport: http, address: "127.0.0.1:0", connections: {CROWD + 500}, idle_ms: 600000}}
- {{transport: tcp, address: "127.0.0.1:0", connections: {CROWD + 500}, credential_ms: 600000}}
connections: {{loopback: count, {connections}}}
{extra}""")
            return path
        self.crib.config = config
        self.crib.start()

    def come(self, n):
        """So many connections that say nothing, from all sources in turn; those that are refused at once as well."""
        for i in range(n):
            sock = socket.socket()
            sock.bind((f"127.0.1.{1 + i % SOURCES}", 0))
            sock.settimeout(crib.DEADLINE)
            sock.connect(self.crib.address(("http", "tcp")[i % 2]))
            self.crowd.append(sock)

    def status(self):
        return self.crib.json("status")[0]

    def command_ms(self):
        took = []
        for _ in range(7):
            begun = time.monotonic()
            self.crib.cli("status")
            took.append((time.monotonic() - begun) * 1000)
        return statistics.median(took)

    def rss_mib(self):
        pages = int(pathlib.Path(f"/proc/{self.crib.daemon.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize() / (1 << 20)

    def test_a_crowd_that_says_nothing(self):
        self.start("per_source: 0, unknown_full: 0")
        known = self.crib.http(self.key)
        known.tools(crib.MODERN)
        quiet = self.command_ms()
        begun = time.monotonic()
        self.come(CROWD)
        crib.wait_for("all of them", lambda: self.status()["counters"]["connections_open"] >= CROWD)
        took, busy = time.monotonic() - begun, self.command_ms()
        print(f"\n{CROWD} connections in {took:.1f} s, {self.rss_mib():.0f} MiB; a command took {quiet:.0f} ms before, "
              f"{busy:.0f} ms now", flush=True)
        self.assertIn("result", known.call("echo", {"text": "x"}, crib.MODERN))
        self.assertLessEqual(busy - quiet, COMMAND_MS)
        if not SANITIZED:
            self.assertLessEqual(self.rss_mib(), RSS_MIB)
        known.close()
        self.assertEqual(self.crib.stop(), 0, "and they do not hold up a stop")

    def test_a_storm(self):
        self.start("per_source: 100, unknown_start: 256, unknown_full: 1024")
        known = self.crib.http(self.key)
        known.tools(crib.MODERN)
        for _ in range(5):
            self.come(CROWD // 5)
            self.assertIn("result", known.call("echo", {"text": "x"}, crib.MODERN), "who has a key is served")
        crib.wait_for("the storm to be dealt with", lambda: self.settled())
        counters = self.status()["counters"]
        self.assertLessEqual(counters["connections_open"], 1024 + 1)
        self.assertGreater(counters["connections_dropped_early"], 0)
        self.assertGreaterEqual(counters["connections_dropped_early"] + counters["connections_over_source"], CROWD - 1024)
        print(f"\nof {CROWD} {counters['connections_open'] - 1} are in, {counters['connections_dropped_early']} were dropped early, "
              f"{counters['connections_over_source']} were too many of their source; {self.rss_mib():.0f} MiB", flush=True)
        known.close()

    def settled(self):
        counters = self.status()["counters"]
        return counters["connections_open"] - 1 + counters["connections_dropped_early"] + counters["connections_over_source"] >= CROWD


if __name__ == "__main__":
    crib.main()
