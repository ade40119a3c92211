"""The wire to an upstream over HTTP: what a small server of one revision is sent, and what it may do."""
import http.server
import json
import socket
import threading
import time

import crib

ECHO = {"name": "echo", "inputSchema": {"type": "object", "properties": {
    "text": {"type": "string", "x-mcp-header": "Text"}, "count": {"type": "integer", "x-mcp-header": "Count"},
    "deep": {"type": "object", "properties": {"flag": {"type": "boolean", "x-mcp-header": "Flag"}}}}}}
LOGIN = {"name": "login", "inputSchema": {"type": "object"}}
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Server(http.server.ThreadingHTTPServer):
    """One revision, one session; `seen` holds each message with its headers, `streams` when each GET came."""
    daemon_threads = True

    def __init__(self, rev):
        super().__init__(("127.0.0.1", 0), Handler)
        self.rev, self.tools, self.seen, self.streams = rev, [ECHO, LOGIN], [], []
        self.open = threading.Event()       # set: streams stay open
        self.tell = threading.Event()       # set: an open stream says that the tools have changed
        self.over = threading.Event()
        self.logged_in = False
        self.silent, self.left = set(), []  # methods that get no answer; those whose asker went

    def result(self, method, params):
        if method == "initialize":
            return {"protocolVersion": self.rev, "capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "s", "version": "1"}}
        if method == "server/discover":
            return {"supportedVersions": [self.rev], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
        if method == "tools/list":
            return {"tools": self.tools}
        if method == "tools/call" and params["name"] == "echo":
            return {"content": [{"type": "text", "text": params["arguments"].get("text", "")}]}
        if method == "tools/call" and self.logged_in:
            return {"content": [{"type": "text", "text": "welcome"}]}
        return None

    def calls(self, method):
        return [(headers, message) for headers, message in self.seen if message.get("method") == method]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.headers, message))
        modern = self.server.rev == crib.MODERN
        if "id" not in message or "method" not in message:
            return self.say(202)
        if (message["method"] == "server/discover") != modern and message["method"] in ("server/discover", "initialize"):
            return self.say(400)
        if message["method"] in self.server.silent:
            self.connection.settimeout(crib.DEADLINE)
            if not self.rfile.read(1):
                self.server.left.append(message["method"])
            self.close_connection = True
            return None
        result = self.server.result(message["method"], message.get("params", {}))
        if result is not None:
            return self.say(200, {"jsonrpc": "2.0", "id": message["id"], "result": {**({"resultType": "complete"} if modern else {}), **result}})
        asked = {"mode": "url", "elicitationId": "e1", "url": "https://login.example/?a=1", "message": "Log in"}
        self.server.logged_in = True
        return self.say(200, {"jsonrpc": "2.0", "id": message["id"],
                              "error": {"code": -32042, "message": "Log in first", "data": {"elicitations": [asked]}}})

    def say(self, status, message=None):
        body = json.dumps(message).encode() if message else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Mcp-Session-Id", "s1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        server = self.server
        server.streams.append(time.monotonic())
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        while server.open.is_set() and not server.over.wait(0.01):
            if server.tell.is_set():
                server.tell.clear()
                self.wfile.write(b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n')

    def do_DELETE(self):
        self.say(204)

    def log_message(self, *words):
        pass


class Wire(crib.Case):
    def serve(self, rev, **more):
        self.server = Server(rev)
        for name, value in more.items():
            setattr(self.server, name, value)
        thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        thread.start()
        for step in (self.server.server_close, thread.join, self.server.shutdown, self.server.over.set):
            self.addCleanup(step)
        self.crib.init()
        self.key = self.crib.tenant("acme", "u_*")
        self.crib.cli("upstream", "add", "u", "--url", f"http://127.0.0.1:{self.server.server_address[1]}/mcp", "--allow-private", "yes",
                      "--asks", "yes", "--shared", "yes")
        self.crib.start()
        self.crib.cli("upstream", "sync", "u")
        return self.server

    def peer(self, rev=crib.MODERN, caps=None):
        peer = self.crib.tcp(self.key)
        self.addCleanup(peer.close)
        if rev != crib.MODERN:
            peer.initialize(rev, caps)
        return peer

    def text(self, answer):
        return answer["result"]["content"][0]["text"]

    def params_sent(self, rev):
        """What headers repeated of the arguments of two calls."""
        arguments = {"text": "gr\u00fc\u00df dich", "count": 42, "deep": {"flag": True}}
        server, peer = self.serve(rev), self.peer()
        self.assertEqual(self.text(peer.call("u_echo", arguments, crib.MODERN)), arguments["text"])
        self.text(peer.call("u_echo", {"text": "plain"}, crib.MODERN))
        self.assertEqual(server.calls("tools/call")[0][1]["params"]["arguments"], arguments)
        return [{name: value for name, value in headers.items() if name.lower().startswith("mcp-param")}
                for headers, _ in server.calls("tools/call")]

    def test_arguments_stand_in_headers_for_a_modern_server(self):
        """MCP T-43, T-44"""
        self.assertEqual(self.params_sent(crib.MODERN), [
            {"Mcp-Param-Text": "=?base64?Z3LDvMOfIGRpY2g=?=", "Mcp-Param-Count": "42", "Mcp-Param-Flag": "true"}, {"Mcp-Param-Text": "plain"}])

    def test_arguments_stand_in_no_headers_for_an_older_server(self):
        """MCP T-47"""
        self.assertEqual(self.params_sent("2025-11-25"), [{}, {}])

    def traces(self, rev):
        server, peer = self.serve(rev), self.peer()
        for meta, want in (({"traceparent": PARENT, "tracestate": "a=1,b=2", "baggage": "user=ann"}, (PARENT, "a=1,b=2")),
                           ({"traceparent": PARENT, "tracestate": "not one"}, (PARENT, None)),
                           ({"traceparent": "00-rubbish", "tracestate": "a=1"}, (None, None)), ({}, (None, None))):
            peer.call("u_echo", {"text": "x"}, crib.MODERN, _meta=meta)
            headers, message = server.calls("tools/call")[-1]
            sent = message["params"]["_meta"]
            self.assertEqual((sent.get("traceparent"), sent.get("tracestate")), want)
            self.assertNotIn("baggage", sent)
            self.assertIsNone(headers["baggage"])

    def test_the_trace_goes_along_to_a_modern_server(self):
        """MCP W-01, W-03"""
        self.traces(crib.MODERN)

    def test_the_trace_goes_along_to_an_older_server(self):
        """MCP W-02"""
        self.traces("2025-06-18")

    def test_the_stream_of_a_session_is_opened_again_and_what_was_missed_is_looked_at(self):
        """MCP H-15, N-03"""
        server = self.serve("2025-11-25")
        crib.wait_for("the first stream", lambda: server.streams)
        server.open.set()
        server.tools = [*server.tools, {**LOGIN, "name": "later"}]      # and nobody says so
        crib.wait_for("the stream to be opened again", lambda: len(server.streams) >= 2)
        self.assertGreater(server.streams[1] - server.streams[0], 0.9)
        crib.wait_for("what was missed to be seen", lambda: self.crib.json("upstream", "list")[0]["waiting"] == 1)
        server.tools = [*server.tools, {**LOGIN, "name": "latest"}]
        server.tell.set()
        crib.wait_for("the news to be heard", lambda: self.crib.json("upstream", "list")[0]["waiting"] == 2)
        self.assertEqual(len(server.streams), 2)

    def test_f17_a_list_that_nobody_waits_for_any_more_is_not_waited_for(self):
        """HARDENING F-17: over HTTP too, whoever waits leaves, or is sent away, and the request with him."""
        server = self.serve("2025-11-25")
        server.silent.add("tools/list")
        before = len(server.calls("tools/list"))
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(self.crib.store / "admin.sock"))
            sock.sendall(b'{"command":"upstream sync","args":{"upstream":"u"}}\n')
            crib.wait_for("the list to be asked for", lambda: len(server.calls("tools/list")) > before)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(self.crib.store / "admin.sock"))
            sock.settimeout(crib.DEADLINE)
            sock.sendall(b'{"command":"upstream sync","args":{"upstream":"u"}}\n')
            self.crib.cli("--yes", "upstream", "remove", "u")
            self.assertIn("upstream u", json.loads(sock.recv(65536).splitlines()[0])["error"]["message"])
        crib.wait_for("the request to be given up", lambda: "tools/list" in server.left)

    def test_a_question_by_url_is_carried_to_those_who_can_be_asked(self):
        """MCP X-02, X-03, B-45, E-08: -32042 of 2025-11-25 is no answer of ours."""
        caps = {"elicitation": {"form": {}, "url": {}}}
        server = self.serve("2025-11-25")
        peer = self.peer()
        first = peer.call("u_login", {}, crib.MODERN, caps)["result"]
        (key, asked), = first["inputRequests"].items()
        self.assertEqual((asked["method"], asked["params"]["mode"], asked["params"]["url"]),
                         ("elicitation/create", "url", "https://login.example/?a=1"))
        self.assertNotIn("elicitationId", asked["params"])
        second = peer.call("u_login", {}, crib.MODERN, caps, requestState=first["requestState"], inputResponses={key: {"action": "accept"}})
        self.assertEqual(self.text(second), "welcome")
        server.logged_in = False
        older = self.peer("2025-11-25", caps)
        older.send(older.request("tools/call", {"name": "u_login"}, id=7))
        asked = older.receive()
        self.assertEqual((asked["method"], asked["params"]["mode"], asked["params"]["message"]), ("elicitation/create", "url", "Log in"))
        older.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}})
        self.assertEqual(self.text(older.answer(7)), "welcome")

    def test_who_cannot_be_asked_by_url_is_told(self):
        server = self.serve("2025-11-25")
        for rev, caps in ((crib.MODERN, {"elicitation": {}}), (crib.MODERN, {}), ("2025-11-25", {"elicitation": {}}),
                          ("2025-06-18", {"elicitation": {}}), ("2024-11-05", {})):
            with self.subTest(rev=rev, caps=caps):
                server.logged_in = False
                got = self.peer(rev, caps).call("u_login", {}, rev, caps)
                said = json.dumps(got)
                self.assertNotIn("-32042", said)
                self.assertNotIn("https://login.example", said)
                self.assertTrue(got["result"]["isError"], got)
                self.assertIn("this client did not declare to answer", self.text(got))


if __name__ == "__main__":
    crib.main()
