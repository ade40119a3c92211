"""Who gets in: sources, tenants and strangers are counted, faults cost time, a stop is told (SEC S-316, S-805, S-808, S-842).

Sources are addresses of 127/8, which `connections.loopback: count` takes for what they are."""
import http.client
import json
import signal
import socket

import crib

WRONG = "tck_aaaaaaaaaaaa_" + "a" * 49
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
    "io.modelcontextprotocol/protocolVersion": crib.MODERN, "io.modelcontextprotocol/clientCapabilities": {}}}}
NAP = crib.tool_yaml("nap", '{type: exec, argv: ["/bin/sleep", "60"], stdin: none, output: text}')


class Front(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(crib.ECHO)
        c.tool(NAP, "nap.yaml")
        self.key = c.tenant("acme", "*")

    def dial(self, source, transport="http"):
        s = socket.create_connection(self.crib.address(transport), crib.DEADLINE, (source, 0))
        self.addCleanup(s.close)
        return s

    def ask(self, sock, key=None, more=""):
        """One request; the response with its body, or None when the server has closed."""
        body = json.dumps(LIST).encode()
        head = ("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
                f"MCP-Protocol-Version: {crib.MODERN}\r\nMcp-Method: tools/list\r\nContent-Length: {len(body)}\r\n{more}")
        if key:
            head += f"Authorization: Bearer {key}\r\n"
        try:
            sock.sendall(head.encode() + b"\r\n" + body)
        except ConnectionError:
            pass                # what it said before is still there
        return self.read(sock)

    def read(self, sock):
        got = http.client.HTTPResponse(sock)
        try:
            got.begin()
        except (ConnectionError, http.client.RemoteDisconnected):
            return None
        got.text = got.read().decode()
        return got

    def status(self, source, key=None):
        """What a new connection of this source is told."""
        with self.dial(source) as s:
            got = self.ask(s, key)
            return got and got.status

    def counter(self, name):
        return self.crib.json("status")[0]["counters"][name]

    def limits(self, text):
        """Other limits, while it runs."""
        said = self.crib.log.read_text().count("configuration reloaded")
        self.crib.config(text)
        self.crib.daemon.send_signal(signal.SIGHUP)
        crib.wait_for("the new limits", lambda: self.crib.log.read_text().count("configuration reloaded") > said)

    def test_faults_cost_their_source_time(self):
        c = self.crib.start("connections: {loopback: count}\npenalty: {failed: 300, broken: 600}\n")
        kept = self.dial("127.0.0.5")
        self.assertEqual(self.ask(kept, self.key).status, 200)
        with self.dial("127.0.0.5") as s:
            got = self.ask(s, WRONG)
            self.assertEqual((got.status, got.headers["Connection"]), (401, "close"))
        with self.dial("127.0.0.5") as s:
            got = self.ask(s, self.key)
            self.assertEqual(got.status, 429)
            self.assertLessEqual(int(got.headers["Retry-After"]), 300)
        self.assertEqual(self.status("127.0.0.6", self.key), 200, "another address")
        self.assertEqual(self.ask(kept, self.key).status, 200, "who has brought a good key goes on")
        self.assertEqual(self.counter("connections_penalized"), 1)
        # Bytes that are no HTTP cost more.
        with self.dial("127.0.0.7") as s:
            s.sendall(b"\x16\x03\x01\x02\x00\x01")
            self.assertEqual(self.read(s).status, 400)
        with self.dial("127.0.0.7") as s:
            self.assertGreater(int(self.ask(s, self.key).headers["Retry-After"]), 300)
        # The first line of a byte stream.
        with self.dial("127.0.0.8", "tcp") as s:
            s.sendall(f"Authorization: Bearer {WRONG}\n".encode())
            self.assertEqual(s.recv(1), b"")
        crib.wait_for("the penalty", lambda: self.status("127.0.0.8", self.key) == 429)
        # No key, as OAuth begins, and a revoked one are no attempts.
        self.assertEqual(self.status("127.0.0.9"), 401)
        revoked = c.key("acme/bot")
        c.cli("key", "revoke", revoked.split("_")[1], "--yes")
        self.assertEqual(self.status("127.0.0.9", revoked), 401)
        self.assertEqual(self.status("127.0.0.9", self.key), 200)
        # Usually clients of one machine do not lock each other out.
        self.limits("")
        for _ in range(5):
            self.assertEqual(self.status("127.0.0.5", WRONG), 401)
            line = c.tcp(WRONG)
            self.assertTrue(line.closed())
            line.close()
        self.assertEqual(self.status("127.0.0.5", self.key), 200)

    # --- connections

    def test_connections_are_counted(self):
        c = self.crib
        other = c.tenant("other", "*")
        c.start("connections: {loopback: count, per_source: 3}\n")
        kept = [self.dial("127.0.0.5", transport) for transport in ("http", "http", "tcp")]
        crib.wait_for("three connections", lambda: self.counter("connections_open") >= 3)
        self.assertEqual(self.status("127.0.0.5", self.key), 503)
        self.assertEqual(self.status("127.0.0.6", self.key), 200)
        self.assertGreaterEqual(self.counter("connections_over_source"), 1)
        kept[1].close()
        crib.wait_for("a free place", lambda: self.status("127.0.0.5", self.key) == 200)

        crib.wait_for("those that left to be gone", lambda: self.counter("connections_open") == 2)
        self.limits("connections: {per_tenant: 2}\n")
        first, second = c.tcp(self.key), self.dial("127.0.0.1")
        self.addCleanup(first.close)
        first.initialize()
        self.assertEqual(self.ask(second, self.key).status, 200)
        self.assertEqual(self.ask(second, self.key).status, 200, "counts once")
        with self.dial("127.0.0.1") as s:
            got = self.ask(s, self.key)
            self.assertEqual((got.status, got.headers["Retry-After"], got.headers["Connection"]), (503, "1", "close"))
        line = c.tcp(self.key)
        self.assertEqual(line.receive()["error"]["data"], {"retryAfterMs": 1000})
        self.assertTrue(line.closed())
        line.close()
        self.assertEqual(self.status("127.0.0.1", other), 200, "another tenant")
        self.assertGreaterEqual(self.counter("connections_over_tenant"), 2)
        first.close()
        crib.wait_for("a free place", lambda: self.status("127.0.0.1", self.key) == 200)

        # Those who have not said who they are leave places for those with a key.
        for sock in kept:
            sock.close()
        self.limits("connections: {loopback: count, unknown_start: 8, unknown_full: 8}\n")
        known = self.dial("127.0.0.5")
        self.assertEqual(self.ask(known, self.key).status, 200)
        strangers = [self.dial("127.0.0.6") for _ in range(8)]
        crib.wait_for("eight strangers", lambda: self.status("127.0.0.7", self.key) == 503)
        self.assertEqual(self.ask(known, self.key).status, 200)
        self.assertEqual(self.ask(strangers[0], self.key).status, 200)
        self.assertEqual(self.status("127.0.0.7", self.key), 200)
        self.assertGreaterEqual(self.counter("connections_dropped_early"), 1)

    # --- the stop

    def test_a_stop_is_told(self):
        """SEC S-842, FAULT F44."""
        c = self.crib.start()
        busy = c.tcp(self.key)
        self.addCleanup(busy.close)
        busy.send(busy.request("tools/call", {"name": "nap"}, crib.MODERN, id=1))
        crib.wait_for("a running call", lambda: c.json("status")[0]["running"] == 1)
        self.assertEqual(c.json("status")[0]["state"], "serving")
        idle = self.dial("127.0.0.1")
        self.assertEqual(self.ask(idle, self.key).status, 200)
        c.daemon.send_signal(signal.SIGTERM)
        crib.wait_for("a server that says so", lambda: c.json("status")[0]["state"] == "draining")
        got = self.ask(idle, self.key)          # None: the half second for it was over
        if got:
            self.assertEqual((got.status, got.headers["Connection"], got.headers["Retry-After"]), (503, "close", "1"))
        c.daemon.send_signal(signal.SIGTERM)    # does not wait for the nap
        self.assertEqual(c.daemon.wait(crib.DEADLINE), 0)
        c.daemon = None
        self.assertEqual([row["outcome"] for row in c.json("audit", "calls", "--tenant", "acme")], ["aborted"])


if __name__ == "__main__":
    crib.main()
