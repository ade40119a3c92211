"""An agent lists, calls and is told of changes over every transport, in every revision."""
import json

import crib

TOLD = 0.2      # seconds after the command returned: it has been told before


class Transports(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "echo")
        self.other = c.tenant("other", "echo")
        c.start()

    def peers(self, key):
        yield "tcp", self.crib.tcp(key)
        yield "unix", self.crib.unix(key)
        yield "stdio", self.crib.stdio(key)
        yield "http", self.crib.http(key)

    def test_both_eras_list_and_call_on_every_transport(self):
        for name, peer in self.peers(self.key):
            with self.subTest(transport=name):
                self.assertEqual(peer.tools(crib.MODERN), ["echo"])
                got = peer.call("echo", {"text": "modern"}, crib.MODERN)["result"]
                self.assertEqual(got["content"][0]["text"], "modern")
                for rev in crib.REVS:
                    self.assertEqual(peer.initialize(rev)["protocolVersion"], rev)
                    self.assertEqual(peer.tools(), ["echo"])
                    got = peer.call("echo", {"text": rev})["result"]
                    self.assertEqual(got["content"][0]["text"], rev)
                    self.assertNotIn("resultType", got)
                    # The other era, on the same connection, at once (MCP B-01).
                    self.assertEqual(peer.tools(crib.MODERN), ["echo"])
            peer.close()

    def test_discover_then_initialize_on_one_pipe(self):
        for name, peer in self.peers(self.key):
            with self.subTest(transport=name):
                got = peer.ask("server/discover", rev=crib.MODERN)["result"]
                self.assertIn(crib.MODERN, got["supportedVersions"])
                self.assertEqual(peer.initialize()["protocolVersion"], "2025-11-25")
            peer.close()

    def change(self, visible):
        """Make a change that acme sees, or one that only the other tenant sees."""
        tenant = "acme" if visible else "other"
        self.count = getattr(self, "count", 0) + 1
        self.crib.tool(crib.tool_yaml(f"new{self.count}", "{type: builtin, function: echo}"))
        self.crib.cli("grant", "add", tenant, f"new{self.count}")

    def test_list_changed_reaches_exactly_the_tenant_on_legacy_pipes(self):
        for name, peer in self.peers(self.key):
            if name == "http":
                continue
            with self.subTest(transport=name):
                peer.initialize()
                self.change(visible=False)
                self.assertTrue(peer.quiet("notifications/tools/list_changed"))
                self.change(visible=True)
                peer.notice("notifications/tools/list_changed", TOLD)
            peer.close()

    def test_list_changed_on_the_get_stream_of_a_session(self):
        peer = self.crib.http(self.key)
        peer.initialize()
        events = peer.stream()
        self.assertEqual(events.status, 200)
        self.change(visible=False)
        self.change(visible=True)
        self.assertEqual(events.receive()["method"], "notifications/tools/list_changed")
        self.assertIsNone(events.receive(0.2), "one change, one notice")
        events.close()
        peer.close()

    def test_list_changed_on_modern_listens_with_their_id(self):
        filter = {"notifications": {"toolsListChanged": True}}
        peer = self.crib.http(self.key)
        events = peer.stream(peer.request("subscriptions/listen", filter, crib.MODERN, id="sub-1"))
        ack = events.receive()
        self.assertEqual(ack["method"], "notifications/subscriptions/acknowledged")
        self.change(visible=False)
        self.change(visible=True)
        got = events.receive()
        self.assertEqual(got["method"], "notifications/tools/list_changed")
        self.assertEqual(got["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "sub-1")
        events.close()
        peer.close()
        for name, line in (("tcp", self.crib.tcp(self.key)), ("stdio", self.crib.stdio(self.key))):
            with self.subTest(transport=name):
                line.send(line.request("subscriptions/listen", filter, crib.MODERN, id=77))
                self.assertEqual(line.receive()["method"], "notifications/subscriptions/acknowledged")
                self.change(visible=True)
                got = line.notice("notifications/tools/list_changed", TOLD)
                self.assertEqual(got["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 77)
            line.close()

    def test_a_change_that_is_not_seen_tells_nobody(self):
        peer = self.crib.tcp(self.key)
        peer.initialize()
        self.crib.cli("grant", "add", "acme", "nothing-of-this-name*")
        # Another handler, the same face: nothing that tools/list shows.
        self.crib.tool(crib.ECHO.replace("function: echo", "function: time"))
        self.assertTrue(peer.quiet("notifications/tools/list_changed"))
        peer.close()

    def test_tcp_closes_on_anything_before_the_credential_line(self):
        for first in (b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', b"GET / HTTP/1.1\r\n", b"\n",
                      b"Authorization: Bearer tck_aaaaaaaaaaaa_" + b"a" * 49 + b"\n", b"x" * 5000):
            with self.subTest(first=first[:30]):
                peer = self.crib.tcp()
                peer.raw(first)
                self.assertTrue(peer.closed())
                peer.close()

    def test_http_401_is_the_same_for_unknown_wrong_and_malformed(self):
        answers = set()
        wrong = self.key[:-7] + ("a" if self.key[-7] != "a" else "b") + self.key[-6:]
        for key in (wrong, "tck_aaaaaaaaaaaa_" + "a" * 49, "rubbish", "tck_", None):
            peer = self.crib.http(key)
            body = json.dumps(peer.request("tools/list", {}, crib.MODERN))
            status, headers, text = peer.post(body, peer.headers(json.loads(body)))
            self.assertIn("WWW-Authenticate", headers)
            answers.add((status, text))
            peer.close()
        self.assertEqual(len(answers), 1)
        self.assertEqual(answers.pop()[0], 401)

    def test_revoked_key_fails_on_the_next_request_everywhere(self):
        c = self.crib
        key = c.key("acme/short")
        line, peer = c.tcp(key), c.http(key)
        line.initialize()
        self.assertEqual(peer.tools(crib.MODERN), ["echo"])
        c.cli("key", "revoke", key.split("_")[1], "--yes")
        line.send(line.request("tools/list"))
        got = line.receive()
        self.assertTrue(got is None or "error" in got, got)
        body = peer.request("tools/list", {}, crib.MODERN)
        self.assertEqual(peer.post(json.dumps(body), peer.headers(body))[0], 401)
        line.close()
        peer.close()

    def test_tenant_path_of_another_tenant_is_404(self):
        for path, status in (("/t/acme/mcp", 200), ("/t/other/mcp", 404), ("/t/nobody/mcp", 404), ("/mcp/", 404)):
            peer = self.crib.http(self.key, path)
            body = peer.request("tools/list", {}, crib.MODERN)
            self.assertEqual(peer.post(json.dumps(body), peer.headers(body))[0], status, path)
            peer.close()


class Stdio(crib.Case):
    def test_stdio_owns_the_store_when_nobody_does(self):
        c = self.crib.init()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        peer = c.stdio(key)
        peer.initialize()
        self.assertEqual(peer.call("echo", {"text": "owner"})["result"]["content"][0]["text"], "owner")
        # Commands go through the owner: it tells its peer before the command returns.
        c.tool(crib.tool_yaml("later", "{type: builtin, function: echo}"))
        c.cli("grant", "add", "acme", "later")
        peer.notice("notifications/tools/list_changed")
        self.assertEqual(peer.close(), 0)
        peer = c.stdio(None, "--tenant", "acme")
        peer.initialize()
        self.assertEqual(peer.tools(), ["echo", "later"])
        self.assertEqual(peer.close(), 0)

    def test_stdio_relays_to_the_daemon(self):
        c = self.crib.init()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        c.start()
        peer = c.stdio(key)
        peer.initialize()
        self.assertEqual(peer.call("echo", {"text": "relay"})["result"]["content"][0]["text"], "relay")
        rows = c.json("session", "list")
        self.assertIn("acme", [row["tenant"] for row in rows])
        self.assertEqual(peer.close(), 0)

    def test_answers_come_after_end_of_input(self):
        """MCP B-56: printf … | toolcribd --stdio."""
        c = self.crib.init()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        peer = c.stdio(key)
        peer.send(peer.request("tools/call", {"name": "echo", "arguments": {"text": "last"}}, crib.MODERN, id="x"))
        peer.child.stdin.close()
        self.assertEqual(peer.answer("x")["result"]["content"][0]["text"], "last")
        self.assertEqual(peer.close(), 0)

    def test_wrong_key_is_a_clear_failure_and_nothing_on_stdout(self):
        c = self.crib.init()
        c.tenant("acme")
        peer = c.stdio("tck_aaaaaaaaaaaa_" + "a" * 49)
        self.assertIsNone(peer.receive())
        self.assertNotEqual(peer.close(), 0)


if __name__ == "__main__":
    crib.main()
