"""Tasks (io.modelcontextprotocol/tasks, TK-01 to TK-51): a call outlasts its request, its end is in the store with its record,
whoever it belongs to finds it again, and nobody else learns that there is one (MCP K5-01 to K5-07, MCP K5-10)."""
import contextlib
import json
import re
import signal
import sqlite3
import subprocess
import time

import crib

NAME = "io.modelcontextprotocol/tasks"
EXT = {"extensions": {NAME: {}}}
SLEEP = "{type: builtin, function: sleep}"
MS = "{type: object, properties: {ms: {type: integer}}}"
UNKNOWN = "A" * 22
CONF = "drain_ms: 100\n"
CAPS = {**EXT, "elicitation": {}}


def tool(name, handler, task, schema="{type: object}", extra=""):
    return crib.tool_yaml(name, handler, schema, f"task: {task}\n{extra}")


class Tasks(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        for text in (crib.ECHO, tool("slow", SLEEP, "{support: optional, after: 50ms, poll: 100ms}", MS, "limits: {timeout: 10m}\n"),
                     tool("must", SLEEP, "{support: required, ttl: 1h}", MS, "limits: {timeout: 10m}\n"),
                     tool("brief", SLEEP, "{support: required, timeout: 1s}", MS),
                     tool("plain", SLEEP, "{support: forbidden}", MS)):
            c.tool(text)
        self.key, self.other = c.tenant("acme", "*"), c.tenant("other", "*")
        c.cli("approval", "policy", "one")
        c.start(CONF)
        self.peer = c.http(self.key)

    def made(self, name="must", ms=60000, peer=None):
        got = (peer or self.peer).call(name, {"ms": ms}, crib.MODERN, EXT)["result"]
        self.assertEqual(got["resultType"], "task", got)
        return got

    def get(self, id, peer=None, caps=None):
        return (peer or self.peer).ask("tasks/get", {"taskId": id}, crib.MODERN, EXT if caps is None else caps)

    def get_raw(self, id, peer=None, method="tasks/get", **more):
        """With the header that repeats the name."""
        return (peer or self.peer).ask(method, {"taskId": id, **more}, crib.MODERN, EXT)

    def over(self, id, peer=None):
        def look():
            got = self.get(id, peer)["result"]
            return got["status"] not in ("working", "input_required") and got
        return crib.wait_for("the end of the task", look)

    def test_the_caller_goes_on_and_finds_it_again(self):
        c = self.crib
        seen = self.peer.ask("server/discover", {}, crib.MODERN)["result"]["capabilities"]
        self.assertEqual(seen["extensions"], {NAME: {}})
        self.assertNotIn("tasks", seen)
        task = self.made(ms=300)
        self.assertEqual(sorted(set(task) - {"_meta"}),
                         ["createdAt", "lastUpdatedAt", "pollIntervalMs", "resultType", "status", "taskId", "ttlMs"])
        self.assertRegex(task["taskId"], r"^[0-9A-Za-z]{22}$")
        self.assertRegex(task["createdAt"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual((task["status"], task["ttlMs"], task["pollIntervalMs"]), ("working", 3600000, 1000))
        got = self.get(task["taskId"])["result"]
        self.assertEqual((got["resultType"], got["taskId"]), ("complete", task["taskId"]))
        done = self.over(task["taskId"])
        self.assertEqual((done["status"], done["result"]["resultType"]), ("completed", "complete"))
        self.assertTrue(done["result"]["content"])
        call = done["result"]["_meta"]["dev.toolcrib/callId"]
        self.assertEqual(call, task["_meta"]["dev.toolcrib/callId"])
        self.assertNotIn("related-task", json.dumps(done))
        rows = c.rows("SELECT kind, outcome FROM v_records WHERE tenant = 'acme' AND (call = ? OR previous = ?) ORDER BY idx", call, call)
        self.assertEqual(rows, [("call.begin", None), ("task.create", None), ("call.end", "ok"), ("task.read", None)])
        self.over(task["taskId"])       # told again, not recorded again
        self.assertEqual(c.rows("SELECT count(*) FROM v_records WHERE kind = 'task.read'"), [(1,)])
        row, = c.json("task", "list", "acme")
        self.assertEqual((row["task"], row["state"], row["tool"], row["by"]), (task["taskId"], "completed", "must", "bot"))

    def test_who_is_quick_or_did_not_ask_gets_a_result(self):
        self.assertEqual(self.peer.call("slow", {"ms": 1}, crib.MODERN, EXT)["result"]["resultType"], "complete")
        self.assertEqual(self.peer.call("slow", {"ms": 200}, crib.MODERN)["result"]["resultType"], "complete")
        self.assertEqual(self.peer.call("plain", {"ms": 200}, crib.MODERN, EXT)["result"]["resultType"], "complete")
        self.assertEqual(self.made("slow", 60000)["pollIntervalMs"], 100)
        refused = self.peer.call("must", {"ms": 1}, crib.MODERN)["error"]
        self.assertEqual((refused["code"], refused["data"]["requiredCapabilities"]), (-32021, {"extensions": {NAME: {}}}))
        old = self.crib.http(self.key)
        old.initialize()
        got = old.call("must", {"ms": 1})["result"]
        self.assertTrue(got["isError"])
        self.assertIn("needs a client that can wait for tasks", got["content"][0]["text"])
        self.assertEqual(self.crib.rows("SELECT count(*) FROM v_records WHERE kind = 'call.begin' AND tool = 'must'"), [(0,)])

    def test_isolation(self):
        """TK-02, TK-03: what is not yours is unknown, byte for byte, and before that the extension is asked for."""
        c, task = self.crib, self.made()
        stranger, colleague = c.http(self.other), c.http(c.key("acme/colleague"))
        narrow = c.http(c.key("acme/bot", "--scope", "tools:call:echo"))
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            more = {"inputResponses": {}} if method == "tasks/update" else {}
            unknown = re.sub(r'"id": \d+', "", json.dumps(self.get_raw(UNKNOWN, method=method, **more)))
            self.assertIn("Task not found", unknown)
            self.assertIn("-32602", unknown)
            for peer in (stranger, colleague, narrow):
                got = self.get_raw(task["taskId"], peer, method, **more)
                self.assertEqual(re.sub(r'"id": \d+', "", json.dumps(got)), unknown, method)
            self.assertEqual(self.peer.ask(method, {"taskId": UNKNOWN, **more}, crib.MODERN)["error"]["code"], -32021)
        line = c.tcp(self.key)
        for bad in (7, None, ["x"], {"a": 1}, "", "x" * 300, "a\0b", UNKNOWN[:-1]):
            got = line.ask("tasks/get", {"taskId": bad}, crib.MODERN, EXT)["error"]
            self.assertEqual((got["code"], got["message"]), (-32602, "Task not found"), bad)
        self.assertEqual(line.ask("tasks/get", {}, crib.MODERN, EXT)["error"]["message"], "Task not found")
        second = c.http(c.key("acme/bot"))      # another key of its principal
        self.assertEqual(self.get(task["taskId"], second)["result"]["status"], "working")

    def test_cancel(self):
        c, task = self.crib, self.made()
        ack = self.get_raw(task["taskId"], method="tasks/cancel")["result"]
        self.assertEqual(sorted(ack), ["_meta", "resultType"])
        got = self.over(task["taskId"])
        self.assertEqual((got["status"], got["statusMessage"]), ("cancelled", "the call was cancelled"))
        self.assertNotIn("result", got)
        self.assertEqual(sorted(self.get_raw(task["taskId"], method="tasks/cancel")["result"]), ["_meta", "resultType"])
        self.assertEqual(self.get_raw(task["taskId"], method="tasks/update", inputResponses={"x": {}})["result"]["resultType"], "complete")
        kinds = [kind for kind, in c.rows("SELECT kind FROM v_records WHERE tenant = 'acme' AND (kind LIKE 'task.%' OR kind = 'call.end') "
                                          "ORDER BY idx")]
        self.assertEqual(kinds, ["task.create", "task.cancel", "call.end", "task.read"])
        second = self.made()
        c.cli("task", "cancel", "acme", second["taskId"], "--reason", "it is not wanted")
        self.assertEqual(self.over(second["taskId"])["status"], "cancelled")
        third = self.made()
        c.cli("tool", "disable", "must", "--kill")
        self.assertEqual(self.over(third["taskId"])["status"], "cancelled")

    def asking(self, name, task, questions=("q",), then="exec sleep 600", extra="limits: {timeout: 10m}\n"):
        """A tool that asks in its first run, and with answers does what then says."""
        asked = {q: {"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}}
                 for q in questions}
        script = ("read -r job\ncase $job in\n*'\"answers\":{'*) %s;;\n*) echo '%s';;\nesac" %
                  (then, json.dumps({"ask": {"requests": asked}}))).replace("{", "{{").replace("}", "}}")
        handler = f"{{type: exec, argv: [/bin/sh, -c, {json.dumps(script)}], stdin: json, output: stream}}"
        self.crib.tool(tool(name, handler, task, extra=extra))
        self.crib.run("grant", "add", "acme", name)

    def update(self, id, answers, peer=None):
        return self.get_raw(id, peer, "tasks/update", inputResponses=answers)

    def asks(self, id, peer=None):
        def look():
            got = self.get(id, peer)["result"]
            return got["status"] == "input_required" and got
        return crib.wait_for("a question of the task", look)

    def test_questions_before_and_inside(self):
        """TK-21: a question of a call, or of its task."""
        self.asking("early", "{support: optional, after: 10s}")
        self.asking("late", "{support: required, asks: before}")
        self.asking("inner", "{support: optional, after: 10s, asks: inside}")
        for name in ("early", "late"):
            first = self.peer.call(name, {}, crib.MODERN, CAPS)["result"]
            self.assertEqual((first["resultType"], list(first["inputRequests"])), ("input_required", ["q"]), name)
            if name == "early":
                continue
            second = self.peer.call(name, {}, crib.MODERN, CAPS, requestState=first["requestState"],
                                    inputResponses={"q": {"action": "accept", "content": {}}})["result"]
            self.assertEqual(second["resultType"], "task")
            self.get_raw(second["taskId"], method="tasks/cancel")
            self.assertEqual(self.over(second["taskId"])["status"], "cancelled")
        task = self.peer.call("inner", {}, crib.MODERN, CAPS)["result"]
        self.assertEqual(task["resultType"], "task")
        self.assertNotIn("inputRequests", task)
        self.assertEqual(list(self.asks(task["taskId"])["inputRequests"]), ["1:q"])
        # Whoever has no tasks is asked as ever.
        got = self.peer.call("inner", {}, crib.MODERN, {"elicitation": {}})["result"]
        self.assertEqual(got["resultType"], "input_required")
        for bad in ("{support: optional, asks: sometimes}", "{support: optional, asks: 1}"):
            self.assertIn("asks", self.crib.run("tool", "add", "-", stdin=tool("bad", SLEEP, bad, MS)).stderr)

    def test_answers(self):
        """TK-08, TK-09, TK-33: the run is over while it asks; answers one by one, the last one begins the next."""
        c = self.crib
        self.asking("two", "{support: required}", ("a", "b"), "echo '%s'" % json.dumps({"result": {"content": [{"type": "text", "text": "both"}]}}))
        task = self.peer.call("two", {}, crib.MODERN, CAPS)["result"]["taskId"]
        got = self.asks(task)
        self.assertEqual(sorted(got["inputRequests"]), ["1:a", "1:b"])
        self.assertEqual(got["inputRequests"]["1:a"]["method"], "elicitation/create")
        self.assertEqual(c.rows("SELECT kind, outcome FROM v_records WHERE tenant = 'acme' AND kind LIKE 'call.%' ORDER BY idx"),
                         [("call.begin", None), ("call.end", "input_required")])
        for bad in ({}, {"inputResponses": []}, {"inputResponses": None}, {"inputResponses": {"1:a": "yes"}}, {"inputResponses": {"1:a": None}}):
            got = self.peer.ask("tasks/update", {"taskId": task, **bad}, crib.MODERN, EXT)["error"]
            self.assertEqual(got["code"], -32602, bad)
            self.assertIn("inputResponses", got["data"]["reason"])
        yes = {"action": "accept", "content": {}}
        for passed in ({"a": yes}, {"2:a": yes}, {"1:c": yes}, {"01:a": yes}, {}):
            self.assertEqual(sorted(self.update(task, passed)["result"]), ["_meta", "resultType"])
        self.assertEqual(c.rows("SELECT count(*) FROM v_records WHERE kind = 'task.input'"), [(0,)])
        self.update(task, {"1:a": yes, "1:c": yes})
        self.assertEqual(sorted(self.get(task)["result"]["inputRequests"]), ["1:b"])
        self.update(task, {"1:a": yes})                 # that is answered
        stranger, colleague = c.http(self.other), c.http(c.key("acme/colleague"))
        unknown = re.sub(r'"id": \d+', "", json.dumps(self.get_raw(UNKNOWN, method="tasks/update", inputResponses={"1:b": yes})))
        for peer in (stranger, colleague):
            self.assertEqual(re.sub(r'"id": \d+', "", json.dumps(self.update(task, {"1:b": yes}, peer))), unknown)
        self.assertEqual(self.get(task)["result"]["status"], "input_required")
        self.update(task, {"1:b": yes})
        done = self.over(task)
        self.assertEqual((done["status"], done["result"]["content"][0]["text"]), ("completed", "both"))
        self.update(task, {"1:b": yes})
        self.assertEqual(c.rows("SELECT kind, detail FROM v_records WHERE kind = 'task.input' ORDER BY idx"),
                         [("task.input", "1 answered, 1 open"), ("task.input", "1 answered, 0 open")])
        begins = c.rows("SELECT call, previous FROM v_records WHERE tenant = 'acme' AND kind = 'call.begin' ORDER BY idx")
        self.assertEqual(begins[1][1], begins[0][0])
        done = c.run("audit", "verify")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def listen(self, ids, peer=None, caps=None, **more):
        """A listen of its own connection that names tasks; its acknowledgement or error, and the connection."""
        peer = peer or self.crib.tcp(self.key)
        peer.send(peer.request("subscriptions/listen", {"notifications": {"taskIds": ids, **more}}, crib.MODERN, caps or EXT))
        return peer.receive(), peer

    def told(self, peer, task, status):
        got = peer.receive()
        self.assertEqual((got["method"], got["params"]["taskId"], got["params"]["status"]), ("notifications/tasks", task, status), got)
        self.assertIn("io.modelcontextprotocol/subscriptionId", got["params"]["_meta"])
        return got["params"]

    def test_a_listen_is_told(self):
        """TK-10: of those that its caller may see, each change once; what changed before it is told at once."""
        c = self.crib
        self.asking("one", "{support: required}", then="echo '%s'" % json.dumps({"result": {"content": [{"type": "text", "text": "once"}]}}))
        task = self.peer.call("one", {}, crib.MODERN, CAPS)["result"]["taskId"]
        self.asks(task)
        foreign = self.made(peer=c.http(self.other))["taskId"]
        unknown, _ = self.listen([UNKNOWN, "x" * 300, ""], toolsListChanged=True)
        self.assertEqual(unknown["params"]["notifications"], {"toolsListChanged": True})
        for ids, key in (([foreign], self.key), ([task], self.other), ([task], c.key("acme/colleague"))):
            got, _ = self.listen(ids, c.tcp(key), toolsListChanged=True)
            self.assertEqual(re.sub(r'"(id|io.modelcontextprotocol/subscriptionId)": \d+', "", json.dumps(got)),
                             re.sub(r'"(id|io.modelcontextprotocol/subscriptionId)": \d+', "", json.dumps(unknown)))
        self.assertEqual(self.listen([task], caps={"elicitation": {}})[0]["error"]["code"], -32021)
        self.assertEqual(self.listen([UNKNOWN] * 256, toolsListChanged=True)[0]["method"], "notifications/subscriptions/acknowledged")
        self.assertIn("at most 256 of one listen", self.listen([UNKNOWN] * 257)[0]["error"]["message"])
        ack, peer = self.listen([foreign, task, UNKNOWN])
        self.assertEqual(ack["params"]["notifications"], {"taskIds": [task]})
        got = self.told(peer, task, "input_required")
        self.assertEqual(got["inputRequests"], self.get(task)["result"]["inputRequests"])
        self.update(task, {"1:q": {"action": "accept", "content": {}}})
        self.told(peer, task, "working")
        self.assertEqual(self.told(peer, task, "completed")["result"]["content"][0]["text"], "once")
        late = self.listen([task])[1]
        got, seen = self.told(late, task, "completed"), self.get(task)["result"]
        self.assertEqual({**got, "_meta": 0, "resultType": 0}, {**seen, "_meta": 0, "resultType": 0})
        self.assertEqual(c.rows("SELECT count(*) FROM v_records WHERE kind = 'task.read'"), [(1,)])
        slow = self.made()["taskId"]
        peer = self.listen([slow])[1]
        self.get_raw(slow, method="tasks/cancel")
        self.assertEqual(self.told(peer, slow, "cancelled")["statusMessage"], "the call was cancelled")

    def test_a_line_makes_it_one_and_what_it_says_is_told(self):
        """TK-23, TK-10: a line of its tool makes a call a task; what it says then is told at once, and what follows a second later at the
        earliest, the newest alone."""
        c = self.crib
        (c.dir / "go").mkdir()
        says = c.dir / "prints"
        says.write_text(f"""#!/bin/sh
read -r job
echo '{{"task":{{"message":"queued"}}}}'
for n in $(seq 40); do
	until [ -e {c.dir}/go/$n ]; do sleep 0.01; done
	echo '{{"task":{{"message":"page '$n'"}}}}'
done
exec sleep 600
""")
        says.chmod(0o755)
        c.tool(tool("prints", f'{{type: exec, argv: ["{says}"], stdin: json, output: stream, sandbox: {{read: ["{c.dir}/go"]}}}}',
                    "{support: optional, after: 1h}", extra="limits: {timeout: 1h}\n"))
        task = self.peer.call("prints", {}, crib.MODERN, EXT)["result"]
        self.assertEqual((task["resultType"], task["statusMessage"]), ("task", "queued"))
        peer = self.listen([task["taskId"]])[1]
        begun = time.monotonic()
        (c.dir / "go" / "1").touch()
        heard = [self.told(peer, task["taskId"], "working")["statusMessage"]]
        self.assertEqual(heard, ["page 1"])
        for n in range(2, 41):
            (c.dir / "go" / str(n)).touch()
        while heard[-1] != "page 40":
            heard.append(self.told(peer, task["taskId"], "working")["statusMessage"])
        self.assertLessEqual(len(heard), 2 + (time.monotonic() - begun))
        numbers = [int(said.split()[1]) for said in heard]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual(self.get(task["taskId"])["result"]["statusMessage"], "page 40")

    def test_so_many_are_listened_to(self):
        """4,096 tasks of a tenant's listens, each as often as it is named; one more is refused, another tenant's is not."""
        c = self.crib
        ids = [self.made()["taskId"] for _ in range(256)]
        peers = [self.listen(ids[:n]) for n in [256] * 15 + [255]]
        self.assertEqual([ack["params"]["notifications"]["taskIds"] for ack, _ in peers], [ids] * 15 + [ids[:255]])
        self.assertIn("4096 of all peers", self.listen(ids[:2])[0]["error"]["message"])
        peers.append(self.listen(ids[:1]))
        self.assertEqual(peers[-1][0]["params"]["notifications"], {"taskIds": ids[:1]})
        self.assertIn("4096 of all peers", self.listen(ids[:1])[0]["error"]["message"])
        theirs = self.made(peer=c.http(self.other))["taskId"]
        self.assertEqual(self.listen([theirs], c.tcp(self.other))[0]["params"]["notifications"], {"taskIds": [theirs]})
        peers[0][1].close()                             # its 256 are free again
        crib.wait_for("room", lambda: "params" in self.listen(ids)[0])

    def test_as_many_and_as_large_as_the_configuration_says(self):
        """TK-41: tasks.max, one more is a plain call or refused; tasks.bytes of a tenant, a result beyond it is lost and says so, another's is kept."""
        c = self.crib
        script = "head -c 450000 /dev/zero | base64 -w0"
        c.tool(tool("large", f"{{type: exec, argv: [/bin/sh, -c, {json.dumps(script)}], stdin: none, output: text}}", "{support: required}"))
        c.stop()
        c.start(CONF + "tasks: {max: 4, bytes: 1}\n")
        peer, stranger = c.http(self.key), c.http(self.other)
        got = [self.over(who.call("large", {}, crib.MODERN, EXT)["result"]["taskId"], who) for who in (peer, peer, stranger)]
        self.assertEqual([one["status"] for one in got], ["completed", "failed", "completed"], got[1])
        self.assertIn("too much is kept for this tenant", got[1]["error"]["message"])
        self.assertEqual(self.over(self.made(ms=1, peer=peer)["taskId"], peer)["status"], "completed")       # the fourth, and small
        self.assertEqual(peer.call("slow", {"ms": 200}, crib.MODERN, EXT)["result"]["resultType"], "complete")
        self.assertIn("error", peer.call("must", {"ms": 1}, crib.MODERN, EXT))

    def test_two_answer_at_once(self):
        """The first is kept, both are acknowledged, one record."""
        c = self.crib
        self.asking("one", "{support: required}", then="echo '%s'" % json.dumps({"result": {"content": [{"type": "text", "text": "once"}]}}))
        peers = [c.tcp(self.key) for _ in range(8)]
        task = self.peer.call("one", {}, crib.MODERN, CAPS)["result"]["taskId"]
        self.asks(task)
        for peer in peers:
            peer.send(peer.request("tasks/update", {"taskId": task, "inputResponses": {"1:q": {"action": "accept"}}}, crib.MODERN, EXT))
        for peer in peers:
            self.assertEqual(peer.receive()["result"]["resultType"], "complete")
        self.assertEqual(self.over(task)["result"]["content"][0]["text"], "once")
        self.assertEqual(c.rows("SELECT count(*) FROM v_records WHERE kind = 'task.input'"), [(1,)])
        self.assertEqual(c.rows("SELECT count(*) FROM v_records WHERE kind = 'call.begin'"), [(2,)])

    def test_parked_over_a_crash(self):
        """What asks is there after kill -9 and goes on; what an update had answered stays answered."""
        c = self.crib
        self.asking("two", "{support: required}", ("a", "b"), "echo '%s'" % json.dumps({"result": {"content": [{"type": "text", "text": "both"}]}}))
        task = self.peer.call("two", {}, crib.MODERN, CAPS)["result"]["taskId"]
        self.asks(task)
        self.update(task, {"1:a": {"action": "accept", "content": {}}})
        self.peer.close()
        c.daemon.kill()
        c.daemon.wait()
        c.daemon = None
        done = c.run("audit", "verify")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        c.start(CONF)
        self.peer = c.http(self.key)
        self.assertEqual(list(self.asks(task)["inputRequests"]), ["1:b"])
        self.update(task, {"1:b": {"action": "accept", "content": {}}})
        self.assertEqual(self.over(task)["result"]["content"][0]["text"], "both")
        self.assertEqual(c.rows("SELECT count(*) FROM v_records WHERE kind = 'task.end'"), [(0,)])

    def test_a_round_is_admitted_anew(self):
        """Whose grant went meanwhile fails; cancel, suspend and disable end what is parked, each on record."""
        c = self.crib
        self.asking("one", "{support: required}")
        ids = [self.peer.call("one", {}, crib.MODERN, CAPS)["result"]["taskId"] for _ in range(3)]
        for id in ids:
            self.asks(id)
        self.get_raw(ids[0], method="tasks/cancel")
        got = self.get(ids[0])["result"]
        self.assertEqual((got["status"], got["statusMessage"]), ("cancelled", "the call was cancelled"))
        self.assertNotIn("inputRequests", got)
        c.cli("grant", "remove", "acme", "one", "--yes")
        c.cli("grant", "remove", "acme", "*", "--yes")
        self.update(ids[1], {"1:q": {"action": "accept"}})
        got = self.over(ids[1])
        self.assertEqual((got["status"], got["error"]["code"]), ("failed", -32602))
        self.assertIn("Unknown tool", got["error"]["message"])
        c.cli("tool", "disable", "one", "--kill")
        self.assertEqual(self.over(ids[2])["status"], "cancelled")
        rows = c.rows("SELECT kind, count(*) FROM v_records WHERE tenant = 'acme' AND kind IN ('task.cancel', 'task.end', 'call.denied') "
                      "GROUP BY kind ORDER BY kind")
        self.assertEqual(rows, [("call.denied", 1), ("task.cancel", 2), ("task.end", 2)])
        done = c.run("audit", "verify")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_audit_show_follows_its_rounds(self):
        """TK-52: by the task, by its first call, by its newest one: all that is one matter, first to last, and nothing of others."""
        c = self.crib
        self.asking("one", "{support: required}", then="echo '%s'" % json.dumps({"result": {"content": []}}))
        yes = {"action": "accept", "content": {}}
        ids = [self.peer.call("one", {}, crib.MODERN, CAPS)["result"]["taskId"] for _ in range(2)]
        for id in ids:
            self.asks(id)
        self.update(ids[0], {"1:q": yes})
        self.over(ids[0])
        want = ["call.begin", "task.create", "call.end", "task.input", "call.begin", "call.end", "task.read"]
        shown = c.json("audit", "show", ids[0])
        self.assertEqual([row["kind"] for row in shown], want)
        self.assertEqual({row.get("task") for row in shown}, {None, ids[0]})
        first, newest = shown[0]["call"], shown[5]["call"]
        self.assertNotEqual(first, newest)
        self.assertEqual([shown[3]["previous"], shown[4]["previous"], shown[6]["previous"]], [first, first, newest])
        for asked in (first, newest):
            self.assertEqual([row["index"] for row in c.json("audit", "show", asked)], [row["index"] for row in shown])
        self.assertEqual([row["kind"] for row in c.json("audit", "show", ids[1], "--tenant", "acme")], want[:3])
        for words in ((UNKNOWN,), (ids[0], "--tenant", "other")):
            done = c.run("audit", "show", *words)
            self.assertEqual(done.returncode, 1)
            self.assertIn("not found", done.stderr)
        self.assertIn("is no id of a call", c.run("audit", "show", UNKNOWN[:-1] + "-").stderr)
        c.stop(signal.SIGTERM)                          # its row is gone: from the call that was asked for back to the first
        with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db")) as db:
            db.execute("DELETE FROM task WHERE tid = ?", (ids[0],))
            db.commit()
        self.assertEqual([row["kind"] for row in c.json("audit", "show", newest)], want)
        self.assertEqual([row["kind"] for row in c.json("audit", "show", first)], want[:4] + want[6:])
        self.assertEqual(c.run("audit", "show", ids[0]).returncode, 1)

    def test_audit_tasks(self):
        """TK-52: each task with its end, wherever that is on record: beside its first call, a later one, or none; of its tenant alone."""
        c = self.crib
        self.asking("one", "{support: required}", then="echo '%s'" % json.dumps({"result": {"content": []}}))
        made = [self.made(ms=1)["taskId"], self.made()["taskId"]]
        made += [self.peer.call("one", {}, crib.MODERN, CAPS)["result"]["taskId"] for _ in range(3)]
        theirs = self.made(peer=c.http(self.other))["taskId"]
        self.over(made[0])
        for id in made[2:]:
            self.asks(id)
        self.update(made[2], {"1:q": {"action": "accept", "content": {}}})
        self.over(made[2])
        for id in (made[1], made[3]):
            self.get_raw(id, method="tasks/cancel")
            self.over(id)
        want = list(zip(made, ("completed", "cancelled", "completed", "cancelled", "open"), ("must", "must", "one", "one", "one")))
        rows = list(reversed(c.json("audit", "tasks", "--tenant", "acme")))
        self.assertEqual([(row["task"], row["state"], row["tool"]) for row in rows], want)
        for row in rows:
            self.assertEqual((row["principal"], row["ended"] is None, row["seconds"] is None), ("bot", *[row["state"] == "open"] * 2))
            self.assertEqual(c.json("audit", "show", row["task"])[0]["call"], row["call"])
        self.assertEqual([row["task"] for row in c.json("audit", "tasks", "--tenant", "acme", "--open")], made[4:])
        self.assertEqual([row["task"] for row in c.json("audit", "tasks", "--open")], [theirs, made[4]])
        self.assertEqual([row["task"] for row in c.json("audit", "tasks", "--tool", "one", "--limit", "2")], [made[4], made[3]])
        c.key("acme/colleague")
        self.assertEqual([len(c.json("audit", "tasks", "--tenant", "acme", "--principal", name)) for name in ("bot", "colleague")], [5, 0])
        names = "made", "completed", "failed", "cancelled", "open"
        tools = {(row["tenant"], row["value"]): [row[name] for name in names] for row in c.json("audit", "tasks", "--by", "tool")}
        self.assertEqual(tools, {("acme", "must"): [2, 1, 0, 1, 0], ("acme", "one"): [3, 1, 0, 1, 1], ("other", "must"): [1, 0, 0, 0, 1]})
        states = {row["value"]: (row["made"], row["median_seconds"] is None) for row in c.json("audit", "tasks", "--tenant", "acme", "--by", "state")}
        self.assertEqual(states, {"completed": (2, False), "cancelled": (2, False), "open": (1, True)})
        self.assertEqual(c.json("audit", "tasks", "--tenant", "other", "--by", "principal")[0]["made"], 1)
        self.assertIn("by: ", c.run("audit", "tasks", "--by", "day").stderr)
        asked = [("tasks", "--tenant", "acme"), ("tasks", "--open"), ("tasks", "--by", "tool")]
        c.stop(signal.SIGKILL)                                  # what ran has failed, what asked is there
        c.start(CONF)
        self.assertEqual([row["state"] for row in c.json("audit", "tasks", "--tenant", "other")], ["failed"])
        self.assertEqual([row["task"] for row in c.json("audit", "tasks", "--open")], made[4:])
        whole = [c.json("audit", *words) for words in asked]
        c.stop(signal.SIGTERM)
        c.cli("migrate", "--fold")                              # the same of blocks
        c.start(CONF)
        self.assertEqual([c.json("audit", *words) for words in asked], whole)

    def test_progress_is_shown(self):
        """TK-06: what the tool says of itself last; what it prints that is no text for people is not passed on."""
        c = self.crib
        says = 'read -r job; echo \'{{"progress":{{"done":1,"total":3,"message":"copying \\u0007 1 of 3"}}}}\'; exec sleep 600'
        c.tool(tool("tells", f"{{type: exec, argv: [/bin/sh, -c, {json.dumps(says)}], stdin: json, output: stream}}",
                    "{support: required}", extra="limits: {timeout: 10m}\n"))
        task = self.peer.call("tells", {}, crib.MODERN, EXT)["result"]["taskId"]
        said = crib.wait_for(lambda: f"what it says, beside {self.get(task)}, {c.rows('SELECT kind, time, detail FROM v_records ORDER BY time DESC LIMIT 9')}",
                             lambda: self.get(task)["result"].get("statusMessage"))
        self.assertIn("1 of 3", said)
        self.assertNotIn("\a", said)
        self.assertEqual(self.get(task)["result"]["status"], "working")

    def test_a_run_ends_by_its_timeout(self):
        got = self.over(self.made("brief")["taskId"])
        self.assertEqual((got["status"], got["result"]["isError"]), ("completed", True))

    def test_it_outlives_its_peer_and_its_server(self):
        """TK-35, TK-36: what has ended is there after a restart; what ran has failed, and says so."""
        c = self.crib
        done, cut = self.made(ms=100), self.made()
        before = self.over(done["taskId"])
        self.peer.close()
        c.daemon.kill()
        c.daemon.wait()
        c.daemon = None
        c.start(CONF)
        self.peer = c.http(self.key)
        self.assertEqual(self.get(done["taskId"])["result"], before)
        got = self.get(cut["taskId"])["result"]
        self.assertEqual((got["status"], got["error"]["code"]), ("failed", -32603))
        self.assertIn("whether its work was done is not known", got["error"]["message"])
        self.assertEqual(got["error"]["data"]["callId"], cut["_meta"]["dev.toolcrib/callId"])
        self.assertEqual(c.rows("SELECT count(*) FROM v_records WHERE kind = 'task.end'"), [(1,)])
        stopped = self.made()
        c.stop(signal.SIGTERM)
        c.start(CONF)
        self.peer = c.http(self.key)
        got = self.get(stopped["taskId"])["result"]
        self.assertEqual((got["status"], got["error"]["code"]), ("failed", -32603))
        done = c.run("audit", "verify")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def again(self, name, folder, crash="rerun", hints="{idempotentHint: true}"):
        """A tool that writes a line and ends when there is a file for it."""
        script = f"echo ran >>{folder}/{name}; while ! test -e {folder}/go-{name}; do sleep 0.02; done; echo done"
        handler = f"{{type: exec, argv: [/bin/sh, -c, {json.dumps(script)}], stdin: none, output: text, sandbox: {{write: [{folder}]}}}}"
        return crib.tool_yaml(name, handler, extra=f"annotations: {hints}\nlimits: {{timeout: 10m}}\n"
                                                   f"task: {{support: required, crash: {crash}, timeout: 10m}}\n")

    def up(self):
        self.crib.start(CONF)
        self.peer = self.crib.http(self.key)

    def runs(self, path, n):
        crib.wait_for(f"run {n}", lambda: path.exists() and len(path.read_text().splitlines()) == n)

    def test_what_may_run_again_does(self):
        """TK-35: a run that a crash cut off is made again, on record before it is, and three times at most; after a stop as well."""
        c, folder = self.crib, self.crib.dir / "told"
        folder.mkdir()
        for name, crash in (("again", "rerun"), ("ends", "rerun"), ("once", "fail")):
            c.tool(self.again(name, folder, crash))
        for bad, why in ((self.again("x", folder, hints="{idempotentHint: false}"), "idempotentHint"), (self.again("x", folder, "never"), "fail or rerun"),
                         (crib.tool_yaml("x", SLEEP, extra="task: {support: required, crash: rerun}\n"), "idempotentHint")):
            done = c.run("tool", "add", "-", stdin=bad)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(why, done.stderr)
        task, ends, once = (self.peer.call(name, {}, crib.MODERN, EXT)["result"]["taskId"] for name in ("again", "ends", "once"))
        for name in ("again", "ends", "once"):
            self.runs(folder / name, 1)
        for n in range(1, 4):
            c.stop(signal.SIGKILL)
            self.up()
            for name in ("again", "ends"):
                self.runs(folder / name, 1 + n)
            self.assertEqual(self.get(task)["result"]["status"], "working")
            self.assertEqual(c.rows("SELECT count(*) FROM v_records WHERE kind = 'task.rerun'"), [(2 * n,)])
        self.assertEqual((self.over(once)["status"], len((folder / "once").read_text().splitlines())), ("failed", 1))
        (folder / "go-ends").touch()
        done = self.over(ends)
        self.assertEqual((done["status"], done["result"]["content"][0]["text"].strip()), ("completed", "done"))
        c.stop(signal.SIGTERM)                          # which is no crash: it is not counted
        self.assertEqual(c.rows("SELECT state, reruns FROM task WHERE tid = ?", task), [(7, 0)])
        self.up()
        self.runs(folder / "again", 5)
        c.stop(signal.SIGKILL)
        self.up()
        self.assertEqual(self.over(task)["error"]["code"], -32603)
        self.assertEqual(len((folder / "again").read_text().splitlines()), 5)
        shown = [row["kind"] for row in c.json("audit", "show", ends)]
        self.assertEqual(shown, ["call.begin", "task.create"] + 3 * ["call.recovered", "task.rerun", "call.begin"] + ["call.end", "task.read"])
        c.stop(signal.SIGTERM)
        for verifier in (lambda: c.run("audit", "verify"),
                         lambda: subprocess.run([*crib.sceptic(), c.store, *crib.evidence(c.store)], capture_output=True, text=True)):
            done = verifier()
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_rows_are_held_against_records(self):
        """TK-43: both verifiers find a row that says what no record says, that is missing, or that nothing began."""
        c = self.crib
        self.asking("one", "{support: required}")
        done, cut = self.made(ms=100), self.made()
        self.over(done["taskId"])
        self.asks(self.peer.call("one", {}, crib.MODERN, CAPS)["result"]["taskId"])
        c.stop(signal.SIGTERM)
        kept = (c.store / "toolcrib.db").read_bytes()
        for sql, found in (("SELECT 1", False), ("UPDATE task SET state = 1 WHERE state = 3", True), ("UPDATE task SET state = 5 WHERE state = 3", True),
                           ("UPDATE task SET state = 3 WHERE state = 4", True), ("UPDATE task SET tid = 'x' WHERE state = 3", True),
                           ("UPDATE task SET state = 1 WHERE state = 2", True), ("UPDATE task SET state = 7 WHERE state = 2", True),
                           ("UPDATE task SET state = 4 WHERE state = 2", True), ("DELETE FROM task WHERE state = 2", True),
                           ("DELETE FROM task WHERE state IN (3, 4, 5)", False)):
            (c.store / "toolcrib.db").write_bytes(kept)
            db = sqlite3.connect(c.store / "toolcrib.db")
            db.execute(sql)
            db.commit()
            db.close()
            for words in ((crib.BUILD / "toolcrib-verify",), crib.sceptic()):
                said = subprocess.run([*words, c.store, *crib.evidence(c.store)], capture_output=True, text=True)
                self.assertEqual("TASK" in said.stdout, found, (sql, words, said.stdout, said.stderr))
        self.assertTrue(cut)

    def test_erased(self):
        """Whose key is destroyed, there is no result any more."""
        c, task = self.crib, self.made(ms=100)
        self.over(task["taskId"])
        c.cli("--yes", "erase", "--principal", "acme/bot", "--ground", "asked for", "--ticket", "E-1")
        self.assertEqual(self.get(task["taskId"])["error"]["message"], "Task not found")
        done = c.run("audit", "verify")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    crib.main()
