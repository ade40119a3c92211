"""What a tenant may take has a bound, and at the bound that tenant alone is refused (HARDENING F-5, F-10, F-15)"""
import json
import os
import pathlib
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
        self.crib.start()
        self.echo("other", "x")
        before = self.rss()
        piece, hostile = b" " * (2 * MIB), []
        for i in range(CONNECTIONS):
            hostile.append(self.begin("third" if i >= 2000 else "acme", 10 * MIB, piece))
        crib.wait_for("some of it", lambda: self.rss() - before > 24)
        after = self.rss()
        print(f"{CONNECTIONS} connections that sent {CONNECTIONS * 2} MiB of bodies: RSS {before:.0f} -> {after:.0f} MiB", file=sys.stderr)
        self.assertLess(after - before, 80 + CONNECTIONS / 25)
        self.assertLessEqual(self.counter("budget_bodies_bytes"), 56 * MIB)
        self.assertGreater(self.counter("budget_bodies_refused"), 0)
        refused = self.answer(hostile[-1])
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


if __name__ == "__main__":
    crib.main()
