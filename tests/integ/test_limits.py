"""Limits as an operator sets them and an agent meets them (SEC S-801 to S-807, S-840; MCP E-14)."""
import json
import socket
import time
import unittest

import crib

SLEEP = crib.tool_yaml("sleep", "{type: builtin, function: sleep}",
                       "{type: object, properties: {ms: {type: integer}}}", "limits: {timeout: 60s}\n")
LONG = {"ms": 50000}


class Limits(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(crib.ECHO)
        c.tool(SLEEP, "sleep.yaml")
        self.key = c.tenant("acme", "echo", "sleep")
        self.other = c.tenant("other", "echo")

    def shown(self, *who):
        return {(row["of"], row["limit"]): row for row in self.crib.json("limit", "show", *who)}

    def now(self, limit):
        return self.shown("acme")["tenant acme", limit]["now"]

    def refused(self, peer, reason, method="tools/call", params=None):
        """This message is refused, with everything that a refusal has to say."""
        got = peer.ask(method, {"name": "echo", "arguments": {"text": "x"}} if params is None else params, crib.MODERN)["error"]
        self.assertEqual((got["code"], got["data"]["reason"]), (4290, reason))
        self.assertGreater(got["data"]["retryAfterMs"], 0)
        if isinstance(peer, crib.Http):
            self.assertEqual(peer.status, 429)
            self.assertGreaterEqual(int(peer.response_headers["Retry-After"]), 1)
        return got

    def passes(self, peer):
        self.assertEqual(peer.call("echo", {"text": "x"}, crib.MODERN)["result"]["content"][0]["text"], "x")

    def test_a_rate_counts_from_the_next_message_on(self):
        c = self.crib.start()
        agent, line, other = c.http(self.key), c.tcp(self.key), c.http(self.other)
        self.passes(agent)
        self.assertEqual(c.cli("limit", "set", "acme", "--rate", "1/day"), "limits of tenant acme set\n")
        self.passes(agent)
        self.refused(agent, "rate")
        self.refused(line, "rate")
        self.passes(other)
        denied = c.json("audit", "denied", "--tenant", "acme")
        self.assertEqual({(row["outcome"], row["rule"]) for row in denied}, {("rate_limited", "tenant/rate")})
        self.assertEqual(len(c.json("audit", "calls", "--tenant", "acme", "--outcome", "ok")), 2)
        row = self.shown("acme")["tenant acme", "rate"]
        self.assertEqual((row["value"], row["from"]), ("1/day", "tenant"))
        c.cli("limit", "set", "acme", "--no-rate")
        self.passes(agent)
        changes = [r for r in c.json("audit", "admin", "--limit", "0", "--tenant", "acme") if r["kind"] == "limit.change"]
        self.assertEqual({r["detail"] for r in changes}, {"rate none -> 1/day", "rate 1/day -> none"})
        self.assertEqual({r["object"] for r in changes}, {"limit/acme"})

    def test_each_key_principal_and_tool_has_limits_of_its_own(self):
        c = self.crib.start()
        second, third = c.key("acme/bot"), c.key("acme/eve")
        c.cli("limit", "set", "--key", self.key[4:16], "--rate", "1/day")
        c.cli("limit", "set", "acme/eve", "--calls-per-day", "1")
        first, second, third = c.http(self.key), c.http(second), c.http(third)
        for peer in (first, second, third):
            self.passes(peer)
        self.refused(first, "rate")
        self.passes(second)
        self.refused(third, "quota")
        c.cli("limit", "set", "acme", "--tool", "echo", "--concurrency", "3", "--rate", "5/h")
        shown = self.shown("acme", "--tool", "echo")
        self.assertEqual([shown["echo for acme", what]["value"] for what in ("concurrency", "rate")], ["3", "5/h"])
        self.assertEqual(shown["echo for acme", "rate"]["from"], "limit")
        c.cli("grant", "set", "acme", "echo", "--concurrency", "2")
        self.assertEqual(self.shown("acme", "--tool", "echo")["echo for acme", "concurrency"]["from"], "grant")
        shown = self.shown("--key", self.key[4:16])
        self.assertEqual(shown[f"key {self.key[4:16]}", "rate"]["value"], "1/day")
        self.assertEqual(self.shown("acme/eve")["principal acme/eve", "calls-per-day"]["now"], 1)

    def test_a_refusal_says_which_limit_and_until_when(self):
        """Of the caller's own; whoever may not call a tool hears what he hears of one that is not there."""
        if time.gmtime()[3:5] >= (23, 55):
            self.skipTest("the day ends")
        c = self.crib
        c.tool(crib.ECHO.replace("name: echo", "name: gone"), "gone.yaml")
        c.start()
        agent = c.http(self.key)

        def hidden():
            return [json.dumps(agent.call(name, {"text": "x"}, crib.MODERN)["error"]).replace(name, "NAME") for name in ("gone", "none")]
        before = hidden()
        self.assertEqual(before[0], before[1])
        c.cli("limit", "set", "acme", "--calls-per-day", "1")
        self.passes(agent)
        got = self.refused(agent, "quota")
        tomorrow = time.strftime("%Y-%m-%dT00:00:00Z", time.gmtime(time.time() + 86400))
        self.assertEqual(got["message"], f"Rate limit exceeded: this tenant has used its 1 calls of today; it has more from {tomorrow}")
        self.assertEqual(got["data"]["limit"], "tenant")
        self.assertEqual(hidden(), before)
        done = c.run("call", "acme", "echo", "text=x")
        self.assertIn(f"has used its 1 calls of today; it has more from {tomorrow}", done.stderr)
        c.cli("limit", "set", "acme", "--calls-per-day", "0", "--bytes-per-day", "200")
        done = c.run("call", "acme", "echo", "text=" + 200 * "x")
        self.assertIn("the arguments are 211 bytes, more than the 200 that this tenant has for a whole day", done.stderr)
        self.assertNotIn("has used", done.stderr)
        c.cli("limit", "set", "acme", "--bytes-per-day", "0")
        c.cli("limit", "set", "acme", "--calls-per-day", "0")
        c.cli("limit", "set", "acme", "--tool", "echo", "--rate", "1/day")
        self.passes(agent)
        got = self.refused(agent, "rate")
        self.assertEqual((got["message"], got["data"]["limit"]),
                         ("Rate limit exceeded: too many calls of this tool (limit 1/day)", "tool"))
        self.assertEqual(hidden(), before)

    def test_a_call_waits_for_its_turn(self):
        c = self.crib.start("limits: {wait: 60000}\n")
        c.cli("limit", "set", "acme", "--concurrency", "1", "--queue", "1")
        agent = c.tcp(self.key)
        long = agent.request("tools/call", {"name": "sleep", "arguments": LONG}, crib.MODERN)
        agent.send(long)
        crib.wait_for("a call that runs", lambda: self.now("concurrency") == 1)
        turn = agent.request("tools/call", {"name": "echo", "arguments": {"text": "my turn"}}, crib.MODERN)
        agent.send(turn)
        crib.wait_for("a call that waits", lambda: self.now("queue") == 1)
        self.refused(c.http(self.key), "queue")
        agent.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": long["id"]}})
        self.assertEqual(agent.answer(turn["id"])["result"]["content"][0]["text"], "my turn")
        crib.wait_for("no call", lambda: (self.now("concurrency"), self.now("queue")) == (0, 0))
        calls = c.json("audit", "calls", "--tenant", "acme")
        self.assertEqual(sorted(row["outcome"] for row in calls if row["outcome"] != "rate_limited"), ["cancelled", "ok"])

    def test_a_wait_that_is_too_long_ends(self):
        c = self.crib.start("limits: {wait: 50}\n")
        c.cli("limit", "set", "acme", "--concurrency", "1")
        agent = c.tcp(self.key)
        agent.send(agent.request("tools/call", {"name": "sleep", "arguments": LONG}, crib.MODERN))
        crib.wait_for(lambda: f"a call that runs; its caller was told {agent.line(0)}", lambda: self.now("concurrency") == 1)
        self.refused(c.http(self.key), "wait")
        self.assertEqual(c.json("status")[0]["counters"]["calls_waited_too_long"], 1)

    def test_what_was_used_today_survives_a_restart(self):
        if time.gmtime()[3:5] >= (23, 55):
            self.skipTest("the day ends")
        c = self.crib
        c.cli("limit", "set", "acme", "--calls-per-day", "2", "--bytes-per-day", "1GiB")
        c.start()
        agent = c.http(self.key)
        self.passes(agent)
        self.passes(agent)
        self.refused(agent, "quota")
        used = self.now("bytes-per-day")
        self.assertGreater(used, 20)
        self.assertEqual(c.stop(), 0)
        c.start()
        agent = c.http(self.key)
        self.refused(agent, "quota")
        self.assertEqual((self.now("calls-per-day"), self.now("bytes-per-day")), (2, used))
        c.cli("limit", "set", "acme", "--calls-per-day", "0", "--bytes-per-day", used + 5)
        self.refused(agent, "storage")
        self.passes(c.http(self.other))

    def test_every_message_is_charged(self):
        c = self.crib.start()
        c.cli("limit", "set", "acme", "--requests", "3/day")
        agent, line = c.http(self.key), c.tcp(self.key)
        for _ in range(3):
            self.assertIn("result", agent.ask("tools/list", {}, crib.MODERN))
        self.refused(agent, "requests", "tools/list", {})
        self.refused(line, "requests", "prompts/list", {})
        self.refused(agent, "requests", "no/such/method", {})
        status, headers, _ = agent.post('{"jsonrpc":"2.0","method":"notifications/x"}', agent.headers())
        self.assertEqual(status, 429)
        self.assertIn("Retry-After", headers)
        self.assertIn("result", agent.ask("server/discover", {}, crib.MODERN))        # on credit
        other = c.http(self.other)
        self.assertIn("result", other.ask("tools/list", {}, crib.MODERN))
        self.assertGreaterEqual(c.json("status")[0]["counters"]["requests_rate_limited"], 4)
        row = self.shown("acme")["tenant acme", "requests"]
        self.assertEqual((row["value"], row["from"]), ("3/day", "tenant"))
        row = self.shown("other")["tenant other", "requests"]
        self.assertEqual((row["value"], row["from"]), ("5000/s", "default"))

    def test_the_server_is_full_of_streams(self):
        c = self.crib.start("limits: {streams: 2, share: 0}\n")
        agent = c.http(self.key)
        listens = [agent.stream(agent.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, crib.MODERN))]
        crib.wait_for("a stream", lambda: self.shown()["server", "streams"]["now"] == 1)
        one, two = c.tcp(self.other), c.tcp(self.other)
        self.assertIn("result", one.ask("server/discover", {}, crib.MODERN))
        got = two.ask("tools/list", {}, crib.MODERN)["error"]
        self.assertEqual(got["data"]["retryAfterMs"], 1000)
        self.assertTrue(two.closed())
        got = agent.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, crib.MODERN)["error"]
        self.assertEqual((agent.status, got["data"]["retryAfterMs"]), (503, 1000))
        self.assertEqual(self.shown()["server", "streams"]["from"], "config")
        for stream in listens:
            stream.close()
        one.close()
        crib.wait_for("no stream", lambda: self.shown()["server", "streams"]["now"] == 0)

    def test_a_server_that_fills_up_leaves_things_out_for_who_fills_it(self):
        # Of 20 places in the queue each of the two is sure of 5; acme takes those and the common 10.
        c = self.crib.start("limits: {calls: 1, queue: 20, tenant_queue: 0, wait: 60000}\n")
        counter = lambda name: c.json("status")[0]["counters"][name]  # noqa: E731
        agent, other, line, quiet = c.http(self.key), c.http(self.other), c.tcp(self.key), c.tcp(self.other)
        stranger = socket.create_connection(c.address("http"), crib.DEADLINE)
        self.addCleanup(stranger.close)
        long = [line.request("tools/call", {"name": "sleep", "arguments": LONG}, crib.MODERN) for _ in range(16)]
        for message in long:
            line.send(message)
        crib.wait_for("15 that wait", lambda: self.now("queue") == 15)

        def kept(peer):
            self.assertIn("result", peer.ask("tools/list", {}, crib.MODERN))
            return peer.response_headers["Connection"] != "close"

        self.assertTrue(kept(agent))
        waiting = [quiet.request("tools/call", {"name": "echo", "arguments": {"text": "x"}}, crib.MODERN) for _ in range(5)]
        quiet.send(waiting[0])                          # 80 %
        crib.wait_for("a server that is nearly full", lambda: counter("pressure_step") == 1)
        self.assertFalse(kept(agent))
        self.assertTrue(kept(other))
        self.assertGreaterEqual(counter("connections_not_kept"), 1)
        self.assertEqual(counter("connections_hurried"), 0)
        for message in waiting[1:]:
            quiet.send(message)
        crib.wait_for("a full server", lambda: counter("pressure_step") == 2)
        self.assertEqual(stranger.recv(1), b"", "those who have not said who they are go first")
        self.assertGreaterEqual(counter("connections_hurried"), 1)
        self.assertTrue(kept(other))
        self.assertIn("result", c.http(self.other).ask("tools/list", {}, crib.MODERN), "a new connection")
        for message in long:
            line.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": message["id"]}})
        for message in waiting:
            self.assertIn("result", quiet.answer(message["id"]))
        crib.wait_for("a calm server", lambda: counter("pressure_step") == 0)
        self.assertTrue(kept(agent))
        self.assertEqual((counter("pressure_nearly_full"), counter("pressure_full")), (1, 1))
        log = c.log.read_text()
        for said in ("nearly full, connections of those who fill it are not kept pressure=80%",
                     "full, new connections are taken slowly pressure=", "not full any more, connections are kept pressure="):
            self.assertIn(said, log)

    def test_documents_carry_the_limits_of_tenants(self):
        c = self.crib
        c.cli("limit", "set", "acme", "--concurrency", "7", "--rate", "60/min", "--queue", "9", "--requests", "100/s",
              "--calls-per-day", "5000", "--bytes-per-day", "1GiB")
        text = c.cli("export", "--tenant", "acme")
        for word in ("concurrency: 7", "rate: 60/min", "queue: 9", "requests: 100/s", "callsPerDay: 5000", "bytesPerDay:"):
            self.assertIn(word, text.replace('"', ""))
        path = c.dir / "all.yaml"
        path.write_text(text)
        self.assertEqual(c.json("apply", "-f", path)[-1]["summary"], "nothing differs")
        path.write_text("kind: tenant\nname: acme\nlimits: {queue: 3}\n")
        c.cli("apply", "-f", path)
        shown = self.shown("acme")
        self.assertEqual((shown["tenant acme", "queue"]["value"], shown["tenant acme", "calls-per-day"]["value"]), ("3", None))
        path.write_text("kind: tenant\nname: acme\nlimits: {bytesPerDay: much}\n")
        done = c.run("apply", "-f", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("much is no size", done.stderr)

    def test_mistakes_are_named(self):
        c = self.crib
        for words, code, text in (
                (("limit", "set", "acmee", "--rate", "1/s"), 1, "did you mean acme?"),
                (("limit", "set", "acme"), 1, "nothing to set"),
                (("limit", "set", "--rate", "1/s"), 1, "whose limits?"),
                (("limit", "set", "acme", "--rate", "1/s", "--no-rate"), 1, "contradict"),
                (("limit", "set", "acme/bot", "--queue", "1"), 1, "limit of tenants"),
                (("limit", "set", "acme", "--tool", "nothing", "--rate", "1/s"), 1, "not found"),
                (("limit", "set", "acme", "--bytes-per-day", "much"), 1, "no size"),
                (("limit", "set", "--key", "000000000000", "--rate", "1/s"), 1, "not found"),
                (("limit", "show", "acme", "--tool", "nothing"), 1, "not granted"),
                (("limit", "set", "acme", "--rate", "often"), 2, "")):
            done = c.run(*words)
            self.assertEqual((words, done.returncode), (words, code), done.stderr)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    crib.main()
