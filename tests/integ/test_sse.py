"""HTTP+SSE of 2024-11-05: two endpoints, every revision, and the rules of who may post where (MCP 15, C.4)."""
import json
import signal

import crib

SLEEP = crib.tool_yaml("sleep", "{type: builtin, function: sleep}", "{type: object, properties: {ms: {type: integer}}}")


class HttpSse(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init().start()
        c.tool(crib.ECHO)
        c.tool(SLEEP, "sleep.yaml")
        self.key = c.tenant("acme", "echo", "sleep")
        self.other = c.tenant("other", "echo")

    def request(self, method, path, key, headers=None, body=None):
        """Status, headers and text of one request on a connection of its own."""
        peer = self.crib.http(key, path)
        more = {"Authorization": f"Bearer {key}"} if key else {}
        peer.connection.request(method, path, body, {**(headers or {}), **more})
        response = peer.connection.getresponse()
        got = response.status, response.headers, response.read().decode()
        peer.close()
        return got

    def test_first_event_names_a_relative_endpoint(self):
        """MCP O-01, O-05."""
        peer = self.crib.sse(self.key)
        self.assertEqual(peer.response.status, 200)
        self.assertEqual(peer.response.headers["Content-Type"], "text/event-stream")
        self.assertEqual(peer.response.headers["X-Accel-Buffering"], "no")
        self.assertRegex(peer.endpoint, r"^/messages\?s=[A-Za-z0-9]{32}$")
        another = self.crib.sse(self.key)
        self.assertNotEqual(peer.endpoint, another.endpoint)
        another.close()
        peer.close()

    def test_answers_are_message_events_and_posts_say_nothing(self):
        """MCP O-02."""
        peer = self.crib.sse(self.key)
        status, headers, text = peer.post(json.dumps(peer.request("ping", id="p")))
        self.assertEqual((status, text), (202, "Accepted\n"))
        self.assertEqual(headers["Content-Type"], "text/plain")
        kind, data = peer.event()
        self.assertEqual((kind, json.loads(data)), ("message", {"jsonrpc": "2.0", "id": "p", "result": {}}))
        peer.close()

    def test_every_revision_is_negotiated_here(self):
        """MCP O-06: version and transport are separate; a claim is served like on any byte stream."""
        for rev in ["2024-10-07", *crib.REVS]:
            with self.subTest(rev=rev):
                peer = self.crib.sse(self.key)
                self.assertEqual(peer.initialize(rev)["protocolVersion"], rev)
                self.assertEqual(peer.tools(), ["echo", "sleep"])
                self.assertEqual(peer.call("echo", {"text": rev})["result"]["content"][0]["text"], rev)
                self.assertEqual(peer.tools(crib.MODERN), ["echo", "sleep"])
                peer.close()

    def test_requests_before_initialize_are_refused_as_events(self):
        peer = self.crib.sse(self.key)
        self.assertEqual(peer.ask("tools/list")["error"]["code"], -32602)
        self.assertEqual(peer.initialize("2024-11-05")["protocolVersion"], "2024-11-05")
        peer.close()

    def test_list_changed_comes_once_to_the_tenant_alone(self):
        """MCP N-01."""
        peer, foreign = self.crib.sse(self.key), self.crib.sse(self.other)
        for one in (peer, foreign):
            one.initialize("2024-11-05")
        self.crib.tool(crib.tool_yaml("more", "{type: builtin, function: echo}"), "more.yaml")
        self.crib.cli("grant", "add", "acme", "more")
        peer.notice("notifications/tools/list_changed")
        self.assertTrue(peer.quiet("notifications/tools/list_changed"))
        self.assertTrue(foreign.quiet("notifications/tools/list_changed"))
        peer.close()
        foreign.close()

    def test_what_is_not_json_is_an_error_event_and_the_stream_stays(self):
        peer = self.crib.sse(self.key)
        peer.post("{not json")
        self.assertEqual(peer.receive()["error"]["code"], -32700)
        peer.post('{"jsonrpc":"2.0","id":7}')
        self.assertEqual(peer.receive()["error"]["code"], -32600)
        peer.post('{"jsonrpc":"2.0","method":"notifications/unknown"}')         # MCP J-06
        self.assertEqual(peer.ask("ping")["result"], {})
        peer.close()

    def test_stream_ids_are_no_authority(self):
        """MCP O-05, Z-01: each POST is somebody's, and only the one that opened the stream may use it."""
        peer = self.crib.sse(self.key)
        body = json.dumps(peer.request("ping"))
        json_type = {"Content-Type": "application/json"}
        unknown = "/messages?s=" + "A" * 32
        second = self.crib.key("acme/second")
        self.assertEqual(peer.post(body, json_type)[0], 401)
        foreign = self.request("POST", peer.endpoint, self.other, json_type, body)
        self.assertEqual(foreign[0], 404)
        self.assertEqual(self.request("POST", peer.endpoint, second, json_type, body)[0], 404)
        for path in (unknown, "/messages", "/messages?s=", "/messages?" + "s=x" * 2000):
            got = self.request("POST", path, self.key, json_type, body)
            self.assertEqual((got[0], got[2]), (404, foreign[2]), path)
        # Another key of the same principal is the same principal.
        again = self.crib.key("acme/bot")
        self.assertEqual(self.request("POST", peer.endpoint, again, json_type, body)[0], 202)
        self.assertEqual(peer.receive()["result"], {})
        peer.close()

    def test_wrong_methods_and_types(self):
        """MCP B-25: a POST to /sse has no JSON-RPC body, so that clients go on to GET."""
        peer = self.crib.sse(self.key)
        json_type = {"Content-Type": "application/json"}
        body = json.dumps(peer.request("ping"))
        for method, path, headers, expected in (
                ("POST", "/sse", json_type, 405), ("DELETE", "/sse", {}, 405), ("GET", peer.endpoint, {}, 405),
                ("DELETE", peer.endpoint, {}, 405), ("POST", peer.endpoint, {"Content-Type": "text/plain"}, 415),
                ("GET", "/sse", {"Accept": "application/json"}, 406), ("GET", "/sse/", {}, 404),
                ("GET", "/sse", {"Origin": "http://evil.example.com"}, 403),
                ("POST", peer.endpoint, {**json_type, "Host": "evil.example.com"}, 403)):
            with self.subTest(method=method, path=path):
                status, got, text = self.request(method, path, self.key, headers, body if method == "POST" else None)
                self.assertEqual(status, expected)
                self.assertNotIn("jsonrpc", text)
                if status == 405:
                    self.assertEqual(got["Allow"], "GET" if path == "/sse" else "POST")
        self.assertEqual(self.request("GET", "/sse", None)[0], 401)
        peer.close()

    def test_leaving_the_stream_cancels_what_runs(self):
        """MCP C.4: nobody is left to read the answer."""
        peer = self.crib.sse(self.key)
        peer.initialize("2024-11-05")
        peer.send(peer.request("tools/call", {"name": "sleep", "arguments": {"ms": 25000}}))
        self.assertEqual(peer.ask("ping")["result"], {})        # the call has been taken
        endpoint = peer.endpoint
        peer.close()

        def ended():
            return self.crib.json("audit", "calls", "--tenant", "acme") or None
        self.assertEqual(crib.wait_for("the end of the call", ended)[0]["outcome"], "cancelled")
        late = self.request("POST", endpoint, self.key, {"Content-Type": "application/json"}, "{}")
        self.assertEqual(late[0], 404)

    def test_cancelled_notice_stops_a_call(self):
        """MCP C-01, C-02."""
        peer = self.crib.sse(self.key)
        peer.initialize("2024-11-05")
        message = peer.request("tools/call", {"name": "sleep", "arguments": {"ms": 25000}})
        peer.send(message)
        peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": message["id"]}})
        crib.wait_for("the end of the call", lambda: self.crib.json("audit", "calls", "--tenant", "acme") or None)
        self.assertEqual(peer.ask("ping")["result"], {}, "no answer to the cancelled request")
        peer.close()

    def test_a_revoked_key_ends_its_stream(self):
        key = self.crib.key("acme/short")
        peer = self.crib.sse(key)
        peer.initialize("2024-11-05")
        self.crib.cli("key", "revoke", key.split("_")[1], "--yes")
        self.assertIsNone(peer.event())
        self.assertEqual(peer.post(json.dumps(peer.request("ping")))[0], 401)
        peer.close()

    def test_sessions_are_listed_and_a_stop_ends_them(self):
        peer = self.crib.sse(self.key)
        peer.initialize("2024-11-05")
        rows = self.crib.json("session", "list")
        self.assertEqual([(row["kind"], row["revision"]) for row in rows], [("http-sse", "2024-11-05")])
        self.crib.daemon.send_signal(signal.SIGTERM)
        self.assertIsNone(peer.event())
        peer.close()
        self.assertEqual(self.crib.stop(), 0)



class OneUrl(crib.Case):
    """MCP B-25: a listener may let the MCP path serve clients of HTTP+SSE too."""

    def setUp(self):
        super().setUp()
        c = self.crib.init().start('- {transport: http, address: "127.0.0.1:0", get_opens_sse: true}\n')
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "echo")
        host, _, port = c.await_ready()["listeners"][-1]["address"].rpartition(":")
        self.address = host, int(port)

    def test_get_of_the_mcp_path_opens_the_stream(self):
        for path in ("/mcp", "/t/acme/mcp"):
            peer = crib.Sse(self.address, self.key, path)
            self.assertEqual(peer.response.status, 200, path)
            self.assertEqual(peer.initialize("2024-11-05")["protocolVersion"], "2024-11-05")
            self.assertEqual(peer.call("echo", {"text": "x"})["result"]["content"][0]["text"], "x")
            peer.close()

    def test_newer_clients_are_served_as_everywhere(self):
        """A session's stream is a session's stream, and who says a version has no use for this one."""
        peer = crib.Http(self.address, self.key)
        peer.initialize("2025-11-25")
        self.assertEqual(peer.call("echo", {"text": "x"})["result"]["content"][0]["text"], "x")
        for headers, expected in (({"MCP-Protocol-Version": "2025-11-25"}, 405), ({"Mcp-Session-Id": "A" * 32}, 404),
                                  ({"Accept": "application/json"}, 405)):
            peer.connection.request("GET", "/mcp", headers={"Authorization": f"Bearer {self.key}", **headers})
            response = peer.connection.getresponse()
            response.read()
            self.assertEqual(response.status, expected, headers)
        peer.close()

    def test_other_listeners_refuse_it(self):
        peer = crib.Sse(self.crib.address("http"), self.key, "/mcp")
        self.assertEqual(peer.response.status, 405)
        peer.close()


if __name__ == "__main__":
    crib.main()
