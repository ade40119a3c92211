"""The kill switch: what is blocked is blocked once the command has returned, and what ran there is answered, recorded and over
(SEC S-315, faults F42)."""
import concurrent.futures

import crib

SLOW = crib.tool_yaml("slow", "{type: builtin, function: sleep}", schema="{type: object, properties: {ms: {type: integer}}}",
                      extra="limits: {timeout: 10m}\n")
TENANT = """kind: tenant
name: {0}
---
kind: grant
tenant: {0}
tool: "*"
"""
LONG = {"name": "slow", "arguments": {"ms": 60000}}


class Kill(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        documents = c.dir / "all.yaml"
        documents.write_text("---\n".join([crib.ECHO, SLOW] + [TENANT.format(name) for name in ("acme", "other")]))
        c.cli("apply", "-f", documents)
        self.keys = {name: c.key(f"{name}/bot") for name in ("acme", "other")}
        c.start()

    def sessions(self, tenant):
        return self.crib.json("session", "list", "--tenant", tenant)

    def running(self, tenant, n):
        crib.wait_for(f"{n} running calls of {tenant}", lambda: sum(s["running"] for s in self.sessions(tenant)) == n)

    def busy(self, tenant):
        """A peer over TCP whose call runs."""
        peer = self.crib.tcp(self.keys[tenant])
        peer.initialize()
        peer.send(peer.request("tools/call", LONG, id=77))
        return peer

    def outcomes(self, tenant):
        return sorted(row["outcome"] for row in self.crib.json("audit", "calls", "--tenant", tenant) if row["tool"] == "slow")

    def test_a_suspended_tenant_is_out_at_once(self):
        c, peer, other = self.crib, self.busy("acme"), self.busy("other")
        session, modern = c.http(self.keys["acme"]), c.http(self.keys["acme"])
        session.initialize()
        stream = session.stream()
        listen = modern.stream(modern.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, crib.MODERN))
        listen.receive()
        caller = c.http(self.keys["acme"])
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(caller.call, "slow", LONG["arguments"], crib.MODERN)
            self.running("acme", 2)
            self.running("other", 1)
            row, = c.json("tenant", "suspend", "acme", "--yes")
            self.assertEqual((row["state"], row["calls"], row["connections"]), ("suspended", 2, 3))
            crib.wait_for("the end of all that acme had open", lambda: not self.sessions("acme"))
            self.assertIn("cancelled the request", str(answer.result(crib.DEADLINE)))
        self.assertIn("cancelled the request", str(peer.answer(77)))
        self.assertTrue(peer.closed())
        listen.answer(1)
        while stream.receive():         # that its list is empty now, then the end
            pass
        self.assertNotEqual(session.post("{}", session.headers())[0], 200)
        late = c.tcp(self.keys["acme"])
        self.assertTrue(late.closed())
        self.assertEqual(self.outcomes("acme"), ["cancelled", "cancelled"])
        self.running("other", 1)
        c.cli("tenant", "resume", "acme")
        back = c.tcp(self.keys["acme"])
        back.initialize()
        self.assertNotIn("error", back.call("echo", {"text": "again"}))
        kinds = [row["kind"] for row in c.json("audit", "admin", "--limit", "0")]
        self.assertTrue({"tenant.suspend", "tenant.resume"} <= set(kinds))
        for p in (peer, other, session, modern, caller, stream, listen, late, back):
            p.close()

    def test_a_suspended_principal_is_out_and_its_neighbours_are_not(self):
        c, peer = self.crib, self.busy("acme")
        second = c.tcp(c.key("acme/second"))
        second.initialize()
        self.running("acme", 1)
        row, = c.json("principal", "set", "acme/bot", "--suspended", "yes")
        self.assertEqual((row["calls"], row["connections"]), (1, 1))
        self.assertIn("cancelled the request", str(peer.answer(77)))
        self.assertTrue(peer.closed())
        self.assertNotIn("error", second.call("echo", {"text": "still here"}))
        c.cli("principal", "set", "acme/bot", "--suspended", "no")
        peer = c.tcp(self.keys["acme"])
        peer.initialize()
        for p in (peer, second):
            p.close()

    def test_a_suspended_key_is_out_and_the_principals_other_key_is_not(self):
        """What it has open is answered and over, its secret is refused in words, a stranger's guess is not; resume lets it in."""
        c, peer = self.crib, self.busy("acme")
        accessor = self.keys["acme"][4:16]
        second = c.tcp(c.key("acme/bot"))
        second.initialize()
        session, modern = c.http(self.keys["acme"]), c.http(self.keys["acme"])
        session.initialize()
        stream = session.stream()
        listen = modern.stream(modern.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, crib.MODERN))
        listen.receive()
        self.running("acme", 1)
        self.assertIn("say --yes", c.run("key", "suspend", accessor).stderr)
        for reason in ("", "x" * 400):
            self.assertIn("reason has 1 to 399 bytes", c.run("key", "suspend", accessor, "--reason", reason, "--yes").stderr)
        row, = c.json("key", "suspend", accessor, "--reason", "seen in a log" + " " * 386, "--yes")
        self.assertEqual((row["state"], row["calls"], row["connections"]), ("suspended", 1, 3))
        self.assertIn("cancelled the request", str(peer.answer(77)))
        self.assertTrue(peer.closed())
        listen.answer(1)
        while stream.receive():
            pass
        status, _, text = session.post("{}", session.headers())
        self.assertEqual((status, text), (401, "the key is suspended\n"))
        other = c.key("acme/bot")
        for wrong in (self.keys["acme"][:17] + other[17:], other[:4] + "0" * 62):
            stranger = c.http(wrong)
            status, _, text = stranger.post("{}", stranger.headers())
            self.assertEqual((status, text), (401, "invalid credential\n"))
            stranger.close()
        self.assertTrue(c.tcp(self.keys["acme"]).closed())
        self.assertNotIn("error", second.call("echo", {"text": "still here"}))
        self.assertEqual(c.json("key", "show", accessor)[0]["state"], "suspended")
        self.assertEqual([r["state"] for r in c.json("key", "list", "acme") if r["accessor"] == accessor], ["suspended"])
        self.assertIn("is suspended already", c.run("key", "suspend", accessor, "--yes").stderr)
        row, = c.json("key", "resume", accessor)
        self.assertEqual((row["state"], row["suspended"]), ("active", None))
        self.assertIn("is not suspended", c.run("key", "resume", accessor).stderr)
        back = c.tcp(self.keys["acme"])
        back.initialize()
        timeline = [r for r in c.json("audit", "credential", accessor, "--timeline") if r["kind"] in ("cred.suspend", "cred.resume")]
        self.assertEqual([r["kind"] for r in sorted(timeline, key=lambda r: r["time"])], ["cred.suspend", "cred.resume"])
        self.assertIn("seen in a log", str(timeline))
        for p in (peer, second, session, modern, stream, listen, back):
            p.close()

    def test_a_disabled_tool_ends_its_calls_when_told_to(self):
        c, peer, other = self.crib, self.busy("acme"), self.busy("other")
        self.running("acme", 1)
        self.running("other", 1)
        self.assertEqual(c.json("tool", "disable", "slow")[0]["calls"], 0)
        self.running("acme", 1)
        c.cli("tool", "enable", "slow")
        self.assertEqual(c.json("tool", "disable", "slow", "--kill")[0]["calls"], 2)
        for p in (peer, other):
            self.assertIn("cancelled the request", str(p.answer(77)))
            self.assertNotIn("error", p.call("echo", {"text": "the connection stays"}))
            self.assertIn("error", p.ask("tools/call", LONG))
            p.close()
        c.cli("tool", "enable", "slow")

    def test_one_session_is_ended_by_its_number(self):
        c, peer, second = self.crib, self.busy("acme"), self.busy("acme")
        self.running("acme", 2)
        mine = min(s["id"] for s in self.sessions("acme"))
        self.assertEqual(c.json("session", "kill", mine)[0]["calls"], 1)
        self.assertIn("cancelled the request", str(peer.answer(77)))
        self.assertTrue(peer.closed())
        self.running("acme", 1)
        done = c.run("session", "kill", mine)
        self.assertEqual((done.returncode, "not found" in done.stderr), (1, True))
        self.assertEqual(c.run("session", "kill", "first").returncode, 1)
        second.close()


if __name__ == "__main__":
    crib.main()
