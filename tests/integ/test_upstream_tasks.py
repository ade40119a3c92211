"""Tasks of upstreams (TK-60 to TK-64): a server of 2026-07-28 answers a call with a task, which becomes one of ours or is waited
for; what it says of it is hostile as ever, and it is found again behind a restart of either side."""
import http.server
import json
import re
import signal
import threading

import crib
from test_tasks import CAPS, EXT, NAME, UNKNOWN, tool

ID = "t\u00e9 1\nMcp-Name: x"           # as odd as an id may be
ASKS = {"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}}
YES = {"action": "accept", "content": {}}
DONE = {"status": "completed", "result": {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}}
WORKING = {"status": "working", "statusMessage": "2 of 3"}


class There(http.server.ThreadingHTTPServer):
    """A server that answers each call with `answer` and tells `state` of its task; `seen` holds each message."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.state = {"resultType": "task", "taskId": ID, "status": "working", "ttlMs": None}, WORKING
        self.seen, self.away, self.after_update = [], False, None

    def result(self, method, params):
        if method == "server/discover":
            return {"supportedVersions": [crib.MODERN], "capabilities": {"tools": {}, "extensions": {NAME: {}}}, "ttlMs": 0,
                    "cacheScope": "private"}
        if method == "tools/list":
            return {"tools": [{"name": "job", "inputSchema": {"type": "object"}}]}
        if method == "tools/call":
            return self.answer
        if method == "tasks/get":
            return {"taskId": params["taskId"], "pollIntervalMs": 1, "ttlMs": None, **self.state}
        if method == "tasks/update" and self.after_update:
            self.state = self.after_update
        return {}

    def handle_error(self, request, client_address):
        pass            # whoever asked has gone

    def said(self, method):
        return [message["params"] for message in list(self.seen) if message.get("method") == method]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        server, message = self.server, json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if server.away and message["method"].startswith("tasks/"):
            server.away += 1
            self.close_connection = True
            return
        server.seen.append(message)
        if "id" not in message:
            return self.say(202)
        got = server.result(message["method"], message["params"])
        if "code" in got:
            return self.say(200, {"jsonrpc": "2.0", "id": message["id"], "error": got})
        return self.say(200, {"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete", **got}})

    def say(self, status, message=None):
        body = json.dumps(message).encode() if message else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


class Far(crib.Case):
    def setUp(self):
        super().setUp()
        self.there = There()
        thread = threading.Thread(target=self.there.serve_forever, args=(0.01,))
        thread.start()
        for step in (self.there.server_close, thread.join, self.there.shutdown):
            self.addCleanup(step)
        c = self.crib.init()
        self.key, self.other = c.tenant("acme", "u_*"), c.tenant("other", "u_*")
        c.cli("approval", "policy", "one")
        c.cli("upstream", "add", "u", "--url", f"http://127.0.0.1:{self.there.server_address[1]}/mcp", "--allow-private", "yes")
        c.start()
        c.cli("upstream", "sync", "u")
        self.peer = c.http(self.key)

    def made(self, peer=None, caps=None):
        got = (peer or self.peer).call("u_job", {}, crib.MODERN, caps or CAPS)["result"]
        self.assertEqual(got["resultType"], "task", got)
        return got["taskId"]

    def ask(self, id, method="tasks/get", peer=None, **more):
        return (peer or self.peer).ask(method, {"taskId": id, **more}, crib.MODERN, EXT)

    def when(self, id, what, fits):
        def look():
            got = self.ask(id)["result"]
            return fits(got) and got
        return crib.wait_for(what, look)

    def over(self, id):
        return self.when(id, "the end of the task", lambda got: got["status"] not in ("working", "input_required"))

    def asks(self, id):
        return self.when(id, "a question of the task", lambda got: got["status"] == "input_required")["inputRequests"]

    def left(self, n=1):
        crib.wait_for("the task to be cancelled there", lambda: len(self.there.said("tasks/cancel")) >= n)
        self.assertEqual(self.there.said("tasks/cancel")[-1]["taskId"], ID)

    def kinds(self):
        return self.crib.rows("SELECT kind, outcome FROM v_records WHERE tenant = 'acme' AND (kind LIKE 'call.%' OR kind LIKE 'task.%') "
                              "AND kind <> 'task.read' ORDER BY idx")

    def verified(self):
        done = self.crib.run("audit", "verify")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def restart(self, sig):
        c = self.crib
        self.peer.close()
        if sig == signal.SIGKILL:
            c.daemon.kill()
            c.daemon.wait()
            c.daemon = None
        else:
            self.assertIn(c.stop(), (0, None))
        self.verified()
        c.start()
        self.peer = c.http(self.key)

    def test_a_task_there_is_one_here(self):
        """It holds no slot; nobody else finds it, by its name here or there."""
        c, there = self.crib, self.there
        c.cli("limit", "set", "acme", "--concurrency", 1, "--queue", 0)
        id, second = self.made(), self.made()
        self.assertRegex(id, r"^[0-9A-Za-z]{22}$")
        self.assertEqual(there.said("tools/call")[0]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"], {NAME: {}})
        self.when(id, "its message", lambda got: got.get("statusMessage") == "2 of 3")
        self.assertEqual(there.said("tasks/get")[0]["taskId"], ID)
        stranger, colleague = c.http(self.other), c.http(c.key("acme/colleague"))
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            more = {"inputResponses": {}} if method == "tasks/update" else {}
            unknown = re.sub(r'"id": \d+', "", json.dumps(self.ask(UNKNOWN, method, **more)))
            for peer, name in ((stranger, id), (colleague, id), (self.peer, "t1")):
                self.assertEqual(re.sub(r'"id": \d+', "", json.dumps(self.ask(name, method, peer, **more))), unknown)
        there.state = DONE
        for task in (id, second):
            done = self.over(task)
            self.assertEqual((done["status"], done["result"]["content"][0]["text"]), ("completed", "done"))
        self.assertEqual(sorted(self.kinds(), key=str), [("call.begin", None)] * 2 + [("call.end", "ok")] * 2 + [("task.create", None)] * 2)
        self.assertEqual(there.said("tasks/cancel"), [])
        self.verified()

    def test_who_knows_no_tasks(self):
        """The server is not told of any: it answers plainly, or says what it needs; `drive` waits for it."""
        c, there = self.crib, self.there
        there.answer = {"content": [{"type": "text", "text": "plain"}]}
        self.assertEqual(self.peer.call("u_job", {}, crib.MODERN)["result"]["content"][0]["text"], "plain")
        self.assertNotIn("extensions", there.said("tools/call")[0]["_meta"]["io.modelcontextprotocol/clientCapabilities"])
        there.answer = {"code": -32021, "message": "no", "data": {"requiredCapabilities": {"extensions": {NAME: {}}}}}
        got = self.peer.call("u_job", {}, crib.MODERN)["error"]
        self.assertEqual((got["code"], got["data"]["requiredCapabilities"]), (-32021, {"extensions": {NAME: {}}}))
        there.answer = {"resultType": "task", "taskId": ID, "status": "working", "ttlMs": None}
        got = self.peer.call("u_job", {}, crib.MODERN)["result"]        # unasked for
        self.assertTrue(got["isError"])
        self.left()
        handler = "{type: mcp, upstream: u, tool: job}"
        self.assertIn("task/drive: belongs to tools of upstreams",
                      c.run("tool", "add", "-", stdin=tool("u_bad", "{type: builtin, function: echo}", "{drive: true}")).stderr)
        c.tool(tool("u_waits", handler, "{drive: true}"))
        c.run("grant", "add", "acme", "u_waits")
        there.state = {"status": "input_required", "inputRequests": {"q": ASKS}}
        first = self.peer.call("u_waits", {}, crib.MODERN, {"elicitation": {}})["result"]
        self.assertEqual((first["resultType"], first["inputRequests"]), ("input_required", {"q": ASKS}))
        there.after_update = DONE
        got = self.peer.call("u_waits", {}, crib.MODERN, {"elicitation": {}}, requestState=first["requestState"],
                             inputResponses={"q": YES})["result"]
        self.assertEqual(got["content"][0]["text"], "done")
        old = c.http(self.key)
        old.initialize()
        self.assertEqual(old.call("u_waits", {})["result"]["content"][0]["text"], "done")
        self.assertEqual(len(there.said("tasks/cancel")), 1)

    def test_questions(self):
        """Their keys come back as they were; what the server still asks a moment later is not asked again."""
        there = self.there
        there.state = {"status": "input_required", "inputRequests": {"a": ASKS, "b": ASKS}}
        id = self.made()
        self.assertEqual(sorted(self.asks(id)), ["1:a", "1:b"])
        self.ask(id, "tasks/update", inputResponses={"1:a": YES})
        self.assertEqual(sorted(self.asks(id)), ["1:b"])
        polled = len(there.said("tasks/get"))
        self.ask(id, "tasks/update", inputResponses={"1:b": YES})
        crib.wait_for("the server to be asked again", lambda: len(there.said("tasks/get")) >= polled + 2)
        self.assertEqual([params["inputResponses"] for params in there.said("tasks/update")], [{"a": YES, "b": YES}])
        there.state = {"status": "input_required", "inputRequests": {"a": ASKS, "b": ASKS, "c": ASKS}}
        self.assertEqual(sorted(self.asks(id)), ["2:c"])
        there.after_update = DONE
        self.ask(id, "tasks/update", inputResponses={"2:c": YES})
        self.assertEqual(self.over(id)["result"]["content"][0]["text"], "done")
        self.assertEqual(len(there.said("tools/call")), 1)
        self.verified()

    def test_cancel(self):
        """What is followed, and what asks: it is on record, and the server hears of it."""
        c, there = self.crib, self.there
        id = self.made()
        self.ask(id, "tasks/cancel")
        self.assertEqual(self.over(id)["status"], "cancelled")
        self.left(1)
        there.state = {"status": "input_required", "inputRequests": {"q": ASKS}}
        id = self.made()
        self.asks(id)
        self.ask(id, "tasks/cancel")
        self.assertEqual(self.ask(id)["result"]["status"], "cancelled")
        self.left(2)
        id = self.made()
        self.asks(id)
        c.cli("task", "cancel", "acme", id, "--reason", "it is not wanted")
        self.left(3)
        id = self.made()
        self.asks(id)
        c.cli("key", "suspend", self.key.split("_")[1], "--yes")
        self.left(4)
        crib.wait_for("all to be over", lambda: {row["state"] for row in c.json("task", "list", "acme")} == {"cancelled"})
        self.verified()

    def test_what_a_server_may_not_say(self):
        there = self.there
        many = {str(n): ASKS for n in range(100)}
        for state, said, cancelled in (
                ({"status": "dreaming"}, "state that is not known here", True),
                ({"status": 1}, "state that is not known here", True),
                ({"status": "completed"}, "has no result", False),
                ({"status": "completed", "result": []}, "has no result", False),
                ({"status": "failed"}, "does not say why", False),
                ({"status": "failed", "error": {"code": "x", "message": "m"}}, "does not say why", False),
                ({"status": "failed", "error": {"code": -32011, "message": "out of paper", "data": {"n": 1}}}, "out of paper", False),
                ({"status": "cancelled"}, "was cancelled there", False),
                ({"status": "input_required"}, "has no question", True),
                ({"status": "input_required", "inputRequests": many}, "too many questions", True),
                ({"status": "working", "taskId": "another"}, "about another task", True),
                ({"code": -32602, "message": "Task not found"}, "does not know its task any more", False)):
            there.state = state
            n = len(there.said("tasks/cancel"))
            with self.subTest(state=said):
                done = self.over(self.made())
                self.assertEqual(done["status"], "failed", done)
                self.assertIn(said, done["error"]["message"])
                if cancelled:
                    self.left(n + 1)
        for bad in ({"taskId": 1}, {"taskId": ""}, {"taskId": "x" * 1025}, {"taskId": "a\0b"}, {}):
            there.answer = {"resultType": "task", "status": "working", **bad}
            got = self.peer.call("u_job", {}, crib.MODERN, EXT)["result"]
            self.assertIn("a task without a name", got["content"][0]["text"])
        there.answer = {"resultType": "task", "status": "working", "taskId": "x" * 1024}
        there.state = {"status": "completed", "result": {"content": [{"type": "text", "text": "done\x1b[2J"}]}}
        self.assertEqual(self.over(self.made())["result"]["content"][0]["text"], "done\ufffd[2J")
        self.verified()

    def test_found_again_behind_a_restart_of_ours(self):
        """Killed while it follows, stopped while it follows, killed while its question waits: one call there."""
        there, id = self.there, self.made()
        self.when(id, "its message", lambda got: got.get("statusMessage") == "2 of 3")
        for sig in (signal.SIGKILL, signal.SIGTERM):
            polled = len(there.said("tasks/get"))
            self.restart(sig)
            self.assertEqual(self.ask(id)["result"]["status"], "working")
            crib.wait_for("it to be followed again", lambda: len(there.said("tasks/get")) > polled)
        there.state = {"status": "input_required", "inputRequests": {"q": ASKS}}
        self.asks(id)
        self.restart(signal.SIGKILL)
        self.assertEqual(list(self.asks(id)), ["1:q"])
        there.after_update = DONE
        self.ask(id, "tasks/update", inputResponses={"1:q": YES})
        self.assertEqual(self.over(id)["result"]["content"][0]["text"], "done")
        self.assertEqual((len(there.said("tools/call")), there.said("tasks/cancel")), (1, []))
        self.verified()

    def test_a_server_that_is_away(self):
        there = self.there
        there.away = 1
        id = self.made()
        self.when(id, "that it is away", lambda got: got.get("statusMessage") == "The server that works on it cannot be reached")
        crib.wait_for("it to be tried again", lambda: there.away > 2)
        there.state, there.away = {"status": "working"}, False
        self.when(id, "that it is back", lambda got: "statusMessage" not in got)
        there.state = DONE
        self.assertEqual(self.over(id)["result"]["content"][0]["text"], "done")


class Behind(crib.Case):
    """A second toolcribd as the upstream, killed while its task asks."""

    def test_found_again_behind_a_restart_of_theirs(self):
        inner = crib.Crib()
        self.addCleanup(inner.close)
        inner.init()
        asked = json.dumps({"ask": {"requests": {"q": ASKS}}})
        said = json.dumps({"result": {"content": [{"type": "text", "text": "deleted"}]}})
        script = f"read -r job\ncase $job in\n*'\"answers\":{{'*) echo '{said}';;\n*) echo '{asked}';;\nesac".replace("{", "{{").replace("}", "}}")
        inner.tool(tool("job", f"{{type: exec, argv: [/bin/sh, -c, {json.dumps(script)}], stdin: json, output: stream}}",
                        "{support: required, poll: 100ms}"))
        theirs = inner.tenant("t", "*")
        inner.start()
        c = self.crib.init()
        c.cli("secret", "set", "inner", stdin=f"Bearer {theirs}")
        c.cli("upstream", "add", "u", "--allow-private", "yes", "--header", "Authorization={secret:inner}",
              "--url", "http://%s:%d/mcp" % inner.address("http"))
        ours = c.tenant("acme", "u_*")
        c.start()
        c.cli("upstream", "sync", "u")
        peer = c.http(ours)
        got = peer.call("u_job", {}, crib.MODERN, CAPS)["result"]
        id = got["taskId"]

        def look(status):
            def seen():
                got = peer.ask("tasks/get", {"taskId": id}, crib.MODERN, EXT)["result"]
                return got["status"] == status and got
            return crib.wait_for(status, seen)
        key, = look("input_required")["inputRequests"]
        inner.daemon.kill()
        inner.daemon.wait()
        inner.daemon = None
        inner.start()
        c.cli("upstream", "set", "u", "--url", "http://%s:%d/mcp" % inner.address("http"))
        peer.ask("tasks/update", {"taskId": id, "inputResponses": {key: YES}}, crib.MODERN, EXT)
        self.assertEqual(look("completed")["result"]["content"][0]["text"], "deleted")
        for one, tenant in ((inner, "t"), (c, "acme")):
            done = one.run("audit", "verify")
            self.assertEqual(done.returncode, 0, tenant + done.stdout + done.stderr)


if __name__ == "__main__":
    crib.main()
