"""What a tenant may take has a bound, and at the bound that tenant alone is refused (HARDENING F-5, F-10, F-15)"""
import http.client
import json
import os
import pathlib
import resource
import select
import socket
import sys

import crib

MIB = 1 << 20
CONNECTIONS = int(os.environ.get("TOOLCRIB_TEST_BODIES", "150"))        # 4096 is what the plan measures


class Bodies(crib.Case):
    def setUp(self):
        super().setUp()
        self.crib.init()
        self.crib.tool(crib.ECHO)
        self.keys = {name: self.crib.tenant(name, "echo") for name in ("acme", "other", "third")}

    def rss(self):
        """MiB of the daemon."""
        text = pathlib.Path(f"/proc/{self.crib.daemon.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0]) / 1024

    def counter(self, name):
        return self.crib.json("status")[0]["counters"][name]

    def begin(self, key, length, bodies=b"", transport="http"):
        """A connection that has announced a body and sent some of it."""
        s = socket.create_connection(self.crib.address(transport), crib.DEADLINE)
        self.addCleanup(s.close)
        s.sendall(f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.keys[key]}\r\nContent-Type: application/json\r\n"
                  f"Accept: application/json, text/event-stream\r\nContent-Length: {length}\r\n\r\n".encode())
        self.push(s, bodies)
        return s

    @staticmethod
    def push(s, data):
        """As much as is taken: who has refused reads no more."""
        try:
            s.sendall(data)
        except (ConnectionError, TimeoutError):
            pass

    def answer(self, s):
        got = b""
        try:
            while True:
                more = s.recv(1 << 16)
                if not more:
                    break
                got += more
        except (ConnectionError, TimeoutError):
            pass
        return got.decode(errors="replace")

    def echo(self, key, text, **more):
        peer = self.crib.http(self.keys[key])
        self.addCleanup(peer.close)
        return peer.call("echo", {"text": text}, rev=crib.MODERN, **more)

    def held(self, want):
        return crib.wait_for(f"bytes that wait: {want}", lambda: want(self.counter("budget_bodies_bytes")) or None)

    def test_f5_slow_bodies_of_many_connections(self):
        """HARDENING F-5: what they hold in all is bounded; the tenant that does it is refused, others are served."""
        self.crib.http_times += ", body_ms: 600000"             # none of them gives its room back
        self.crib.start()
        self.echo("other", "x")
        before = self.rss()
        piece, hostile = b" " * (2 * MIB), []
        for i in range(CONNECTIONS):
            hostile.append(self.begin("third" if i >= 2000 else "acme", 10 * MIB, piece))
        crib.wait_for("some of it", lambda: self.rss() - before > 24)
        crib.wait_for("a refusal", lambda: self.counter("budget_bodies_refused") > 0)       # large ones are read behind all else
        after = self.rss()
        print(f"{CONNECTIONS} connections that sent {CONNECTIONS * 2} MiB of bodies: RSS {before:.0f} -> {after:.0f} MiB", file=sys.stderr)
        if not crib.sanitized():                # it keeps what was given back
            self.assertLess(after - before, 80 + CONNECTIONS / 25)
        self.assertLessEqual(self.counter("budget_bodies_bytes"), 56 * MIB)
        told, by_number = select.poll(), {s.fileno(): s for s in hostile}
        for number in by_number:
            told.register(number, select.POLLIN)
        refused = self.answer(by_number[crib.wait_for("one that is told", lambda: told.poll(50))[0][0]])
        self.assertIn(" 503 ", refused)
        self.assertIn("Retry-After: 1\r\n", refused)
        self.assertRegex(refused, r"on their way (from this tenant|to this server): \d+ with this one, allowed are \d+ \(budgets.bodies(_per_tenant)?\)")
        for s in hostile[2000:]:
            s.close()
        # The others: a large message, and a small one that comes in pieces.
        self.assertIn("result", self.echo("other", "y" * (9 * MIB // 10 * 10)))
        s = self.begin("other", 1000, b'{"json')
        self.push(s, b'rpc":"2.0","method":"notifications/initialized"}'.ljust(994))
        s.shutdown(socket.SHUT_WR)
        self.assertNotIn(" 503 ", self.answer(s))
        for s in hostile:
            s.close()
        self.held(lambda n: n == 0)

    def test_f5_an_address_and_the_server(self):
        """HARDENING F-5: one address has its bound, whatever tenants it knows; the server has one, with room for small messages."""
        self.crib.start("connections: {loopback: count}\nbudgets: {bodies: 24, bodies_per_source: 12}\n")
        self.begin("acme", 10 * MIB, b" " * (9 * MIB))
        self.held(lambda n: n == 9 * MIB)
        self.assertIn("from this address: ", self.answer(self.begin("other", 10 * MIB, b" " * (4 * MIB))))
        self.crib.config("budgets: {bodies: 12}\n")
        self.crib.daemon.send_signal(1)
        text = crib.wait_for("the budget of the server", lambda: (lambda got: "to this server: " in got and got)(
            self.answer(self.begin("other", 10 * MIB, b" " * (4 * MIB)))))
        self.assertIn("allowed are 11010048 (budgets.bodies)", text)
        small = self.begin("third", 60000, b" " * 50000)
        self.held(lambda n: n == 9 * MIB + 50000)
        self.push(small, b"{}".ljust(10000))
        small.shutdown(socket.SHUT_WR)
        self.assertNotIn(" 503 ", self.answer(small))

    def test_f5_lines(self):
        """HARDENING F-5: the same for a line that is not whole; the peer is told and hung up on."""
        self.crib.start("budgets: {bodies_per_tenant: 11}\n")
        first, second = (self.crib.tcp(self.keys["acme"]) for _ in range(2))
        for peer in (first, second):
            self.addCleanup(peer.close)
            peer.initialize()
        first.raw(b" " * (9 * MIB))
        self.held(lambda n: n == 9 * MIB)
        self.push(second.sock, b" " * (3 * MIB))
        self.assertIn("(budgets.bodies_per_tenant)", second.receive()["error"]["message"])
        self.assertTrue(second.closed())
        first.raw(json.dumps(first.request("ping", id=7)).encode() + b"\n")
        self.assertEqual(first.answer(7)["result"], {})
        self.held(lambda n: n == 0)

    def test_f5_who_is_not_known_sends_no_body(self):
        """HARDENING F-5: a body is read of known keys alone."""
        self.crib.start()
        self.keys["nobody"] = "tck_" + "a" * 43
        s = self.begin("nobody", 10 * MIB, b" " * MIB)
        self.assertIn(" 401 ", self.answer(s))
        self.assertEqual(self.counter("budget_bodies_bytes"), 0)


class Budgets(crib.Case):
    """HARDENING F-10: a tenant at its bound is refused alone, and told which it is."""

    def setUp(self):
        super().setUp()
        self.crib.init()
        self.crib.tool(crib.ECHO)
        self.keys = {name: self.crib.tenant(name, "echo") for name in ("acme", "other")}

    def budget(self, tenant, name):
        row = self.crib.json("tenant", "show", tenant)[0]
        return next(b for b in row["budgets"] if b["name"] == name)

    def echo(self, name, size):
        peer = self.crib.http(self.keys[name])
        self.addCleanup(peer.close)
        return peer.call("echo", {"text": "x" * size}, rev=crib.MODERN)

    def test_f10_what_is_recorded_in_a_day(self):
        """HARDENING F-10: audit bytes of a day: this tenant's calls and lists are refused, the other's and the administrator's are not."""
        self.crib.start("budgets: {audit_per_tenant: 1}\n")
        done = 0
        while done < 40:
            got = self.echo("acme", 100000)
            if "error" in got:
                break
            done += 1
        self.assertIn(done, range(8, 13))
        self.assertEqual((got["error"]["code"], got["error"]["data"]["reason"]), (4290, "audit"))
        self.assertRegex(json.dumps(got), r"allowed are 1048576 \(budgets.audit_per_tenant\)")
        self.assertGreater(got["error"]["data"]["retryAfterMs"], 0)
        peer = self.crib.http(self.keys["acme"])
        self.addCleanup(peer.close)
        self.assertIn("budgets.audit_per_tenant", json.dumps(peer.ask("tools/list", {}, crib.MODERN)))
        self.assertIn("result", self.echo("other", 100000))
        self.crib.cli("key", "create", "acme/second")
        used = self.budget("acme", "audit")
        self.assertGreaterEqual(used["used"], MIB)
        self.assertEqual((used["allowed"], used["changed_by"]), (MIB, "budgets.audit_per_tenant"))
        self.assertLess(self.budget("other", "audit")["used"], MIB // 2)
        # It outlives a restart, and goes with the bound.
        self.crib.stop()
        self.crib.start("budgets: {audit_per_tenant: 1}\n")
        self.assertIn("error", self.echo("acme", 10))
        self.assertIn("result", self.echo("other", 10))
        self.crib.stop()
        self.crib.start("budgets: {audit_per_tenant: 0}\n")
        self.assertIn("result", self.echo("acme", 10))

    def test_f10_results_under_way(self):
        """HARDENING F-10: arguments and results of one tenant's running calls hold a part of the memory."""
        self.crib.tool(crib.tool_yaml("nap", '{type: exec, argv: ["/bin/sleep", "60"], stdin: none, output: text}',
                                      schema="{type: object, properties: {text: {type: string}}}"))
        for name in self.keys:
            self.crib.cli("grant", "add", name, "nap")
        self.crib.start("budgets: {results_per_tenant: 1}\nlimits: {wait: 0}\n")
        first = self.crib.tcp(self.keys["acme"])
        self.addCleanup(first.close)
        first.initialize()
        first.send(first.request("tools/call", {"name": "nap", "arguments": {"text": "x" * 700000}}))
        crib.wait_for("the call to run", lambda: self.budget("acme", "results")["used"] > 700000)
        got = self.echo("acme", 400000)
        self.assertEqual((got["error"]["code"], got["error"]["data"]["reason"]), (4290, "bytes"))
        self.assertIn("allowed are 1048576 (budgets.results_per_tenant)", json.dumps(got))
        self.assertIn("result", self.echo("acme", 1000))
        self.assertIn("result", self.echo("other", 400000))

    def test_f10_each_budget_is_shown(self):
        """HARDENING F-10, SEC S-801: tenant show has each with used, allowed, what is refused and what changes it, with and without a server."""
        fixed = ("calls", "queue", "queries", "sessions", "principals", "keys", "grants")
        for running in (False, True):
            if running:
                self.crib.start()
            row = self.crib.json("tenant", "show", "acme")[0]
            self.assertEqual([b["name"] for b in row["budgets"]], ["calls", "queue", "queries", "connections", "sessions", "audit", "results",
                                                                   "bodies", "scratch", "principals", "keys", "grants"])
            for b in row["budgets"]:
                with self.subTest(running=running, budget=b["name"]):
                    self.assertGreaterEqual(b["used"], 0)
                    self.assertTrue(b["refused"] and b["changed_by"] and b["unit"])
                    self.assertEqual(b["allowed"] > 0, running or b["name"] in fixed)
            text = self.crib.cli("tenant", "show", "acme")
            for b in row["budgets"]:
                self.assertIn(f"Budget {b['name']}", text)
        self.assertEqual((self.budget("acme", "keys")["used"], self.budget("acme", "grants")["used"]), (1, 1))

    def test_f10_own_directories(self):
        """HARDENING F-10: the program of a tenant whose directory is over the bound ends and says why; the other tenant's goes on."""
        for name, script in (("fill", "head -c 700000 /dev/zero > $HOME/a; head -c 700000 /dev/zero > $HOME/b; sleep 600"), ("near", "head -c 1048576 /dev/zero > $HOME/a; cat >/dev/null; sleep 600")):
            self.crib.tool(crib.tool_yaml(name, '{type: exec, argv: [/bin/sh, -c, "%s"], stdin: none, output: text}' % script,
                                          schema="{type: object}"), name + ".yaml")
            for tenant in self.keys:
                self.crib.cli("grant", "add", tenant, name)
        scratch = self.crib.dir / "scratch"
        scratch.mkdir()
        self.crib.start("budgets: {scratch_per_tenant: 1}\n", env={"TMPDIR": str(scratch)})
        other = self.crib.tcp(self.keys["other"])
        self.addCleanup(other.close)
        other.initialize()
        other.send(other.request("tools/call", {"name": "near", "arguments": {}}, id=7))
        crib.wait_for("what the other one has", lambda: self.budget("other", "scratch")["used"] == MIB)
        got = self.call("acme", "fill")
        self.assertTrue(got["result"]["isError"])
        self.assertRegex(got["result"]["content"][0]["text"],
                         r"own directories of this tenant's programs held \d+ bytes, allowed are 1048576 \(budgets.scratch_per_tenant\)")
        # At its bound, and served in all else.
        self.assertRegex(self.call("other", "fill")["result"]["content"][0]["text"], r"not started: .* hold 1048576 bytes.*\(budgets.scratch_per_tenant\)")
        self.assertIn("result", self.echo("other", 10))
        self.assertGreaterEqual(self.counter("budget_scratch_refused"), 2)
        self.assertEqual(self.budget("acme", "scratch")["used"], 0)
        other.close()
        crib.wait_for("an empty place", lambda: not list(scratch.iterdir()))
        crib.wait_for("nothing held", lambda: self.counter("budget_scratch_bytes") == 0)

    def test_f8_memory_of_all_processes_together(self):
        """HARDENING F-8: without a cgroup, processes each within the bound are ended when they have more together; what they share counts once."""
        ballast = "import os,sys,time; n,each=int(sys.argv[1]),int(sys.argv[2]); kept=b'x'*(each*(1 << 20)); "
        own = ballast + "[os.fork() or (globals().update(more=b'y'*(each << 20)), time.sleep(600)) for i in range(n)]; time.sleep(600)"
        shared = ballast + "pids=[os.fork() or (time.sleep(3), os._exit(0)) for i in range(n)]; [os.waitpid(p, 0) for p in pids]; print('shared')"
        for name, code in (("own", own), ("shared", shared)):
            path = self.crib.dir / f"{name}.py"
            path.write_text(code.replace("; ", "\n") + "\n")
            self.crib.tool(crib.tool_yaml(name, f'{{type: exec, argv: ["/usr/bin/python3", "{path}", "4", "100"], stdin: none, output: text, '
                                          "sandbox: {memory: 300MiB}}", schema="{type: object}"), name + ".yaml")
            self.crib.cli("grant", "add", "acme", name)
        self.crib.start()
        if "cgroup" in json.dumps(self.crib.status()):
            self.skipTest("there is a cgroup, which counts")
        self.assertEqual(self.call("acme", "shared")["result"]["content"][0]["text"], "shared\n")
        got = self.call("acme", "own")["result"]
        self.assertTrue(got["isError"])
        self.assertIn("ended, because it had more than 314572800 bytes of memory in all", got["content"][0]["text"])

    def call(self, tenant, tool):
        peer = self.crib.http(self.keys[tenant])
        self.addCleanup(peer.close)
        return peer.call(tool, {}, rev=crib.MODERN)

    def counter(self, name):
        return self.crib.json("status")[0]["counters"][name]

    def test_f10_grants(self):
        """HARDENING F-10: a tenant has so many grants and not one more."""
        self.crib.start()
        words = [f"t{i}" for i in range(9999)]
        for i in range(0, len(words), 1000):
            self.assertIsNotNone(self.crib.ask("grant add", tenant="acme", tool=words[i:i + 1000]))
        self.assertEqual(self.budget("acme", "grants")["used"], 10000)
        with self.assertRaisesRegex(crib.Failed, "10000 grants, which is the limit"):
            self.crib.cli("grant", "add", "acme", "one_more")
        self.crib.cli("grant", "add", "other", "one_more")


class Memory(crib.Case):
    """HARDENING F-15, SEC S-810: a peer's megabytes for which there is no memory fail its request, wherever that is found."""

    SHORT = [int(word) for word in os.environ.get("TOOLCRIB_TEST_SHORT", "4 8 10 12 14 16 18 26 36 64").split()]

    def limit(self, more=None):
        """So many MiB of address space beside what the daemon has; None: any."""
        pid, most = self.crib.daemon.pid, resource.RLIM_INFINITY
        if more is not None:
            has = int(pathlib.Path(f"/proc/{pid}/status").read_text().split("VmSize:")[1].split()[0])
            most = has * 1024 + more * MIB
        resource.prlimit(pid, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))

    def ask(self, transport, tool, text):
        peer = self.crib.tcp(self.key) if transport == "tcp" else self.crib.http(self.key)
        self.addCleanup(peer.close)
        try:
            if transport == "tcp":
                peer.initialize()
                return peer.call(tool, {"text": text})
            return peer.call(tool, {"text": text}, rev=crib.MODERN)
        except (AssertionError, OSError, http.client.HTTPException, ValueError) as e:      # it was hung up on
            return {"gone": str(e)[:80]}

    def test_f15_without_memory_the_request_fails_and_the_server_goes_on(self):
        """HARDENING F-15: arguments and results of 9 MB, ever a little more memory, over a line and over HTTP."""
        if crib.sanitized():
            self.skipTest("a sanitizer's own memory is what runs out first, and that ends the process")
        c = self.crib.init()
        c.tool(crib.ECHO + "limits: {result: 16MiB}\n")
        c.tool(crib.tool_yaml("big", '{type: exec, argv: [/bin/sh, -c, "head -c 9000000 /dev/zero | tr \'\\\\0\' x"], stdin: none, output: text}',
                              schema="{type: object, properties: {text: {type: string}}}", extra="limits: {result: 16MiB}\n"), "big.yaml")
        self.key = c.tenant("acme", "echo", "big")
        c.start("audit: {level: request_response}\n")
        self.ask("tcp", "echo", "x")
        pid, seen = c.daemon.pid, set()
        for more in self.SHORT:
            for transport in ("tcp", "http"):
                for tool, text in (("echo", "x" * 9000000), ("big", "")):
                    with self.subTest(more=more, transport=transport, tool=tool):
                        self.limit(more)
                        got = self.ask(transport, tool, text)
                        self.limit()
                        seen.add("gone" if "gone" in got else "error" if "error" in got else "result")
                        self.assertIn("result", self.ask("http", "echo", "small"))
                        self.assertEqual((c.daemon.poll(), c.status()["pid"]), (None, pid))
        self.assertLessEqual({"error", "result"}, seen)
        self.assertGreater(c.json("status")[0]["counters"]["budget_memory_refused"], 0)
        self.assertNotIn("out of memory\n", c.log.read_text())
        self.assertEqual(c.stop(), 0)
        self.assertNotEqual(c.run("audit", "verify").returncode, 4)

    def test_f15_many_small_things_without_memory_end_nobody(self):
        """HARDENING F-15: connections and messages until nothing is left: what is small lives on a reserve, and nothing begins meanwhile."""
        if crib.sanitized():
            self.skipTest("a sanitizer's own memory is what runs out first, and that ends the process")
        c = self.crib.init()
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "echo")
        c.start()
        self.ask("http", "echo", "x")
        pid = c.daemon.pid
        for more in (0, 1, 2):
            self.limit(more)
            open_ones = []
            for i in range(400):
                try:
                    s = socket.create_connection(c.address("tcp"), crib.DEADLINE)
                    open_ones.append(s)
                    s.sendall(f"Authorization: Bearer {self.key if i % 2 else 'nobody'}\n".encode() + b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"y" * 40000)
                except OSError:
                    pass
            self.limit()
            for s in open_ones:
                s.close()
            self.assertIsNone(c.daemon.poll(), c.log.read_text()[-3000:])
            crib.wait_for("service", lambda: "result" in self.ask("http", "echo", "small"))
            self.assertEqual(c.status()["pid"], pid)
        self.assertIn("out of memory: nothing new begins", c.log.read_text())
        self.assertEqual(c.stop(), 0)


if __name__ == "__main__":
    crib.main()
