"""Upstreams that are hostile, silent or too quick: nobody's message reaches nobody, what is accepted is what was looked at."""
import json
import sqlite3

import crib

ECHO = crib.BUILD.resolve() / "tests/peers/mcp_echo"


class Hostile(crib.Case):
    """A daemon with the small MCP server of tests/peers, which its options make hostile."""

    def setUp(self):
        super().setUp()
        self.crib.init().start()
        self.key = self.crib.tenant("acme", "e_*")

    def add(self, *options, words=(), name="e"):
        self.crib.cli("upstream", "add", name, *words, "--command", ECHO, *options)

    def serve(self, *options, words=(), name="e"):
        self.add(*options, words=words, name=name)
        return self.crib.json("upstream", "sync", name)

    def peer(self, rev="2025-11-25", caps=None, key=None):
        peer = self.crib.tcp(key or self.key)
        self.addCleanup(peer.close)
        if rev != crib.MODERN:
            peer.initialize(rev, caps)
        return peer

    def text(self, answer, error=False):
        result = answer["result"]
        self.assertEqual(result.get("isError", False), error, result)
        return result["content"][0]["text"]

    def rows(self, sql, *values):
        db = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        try:
            return db.execute(sql, values).fetchall()
        finally:
            db.close()


class Late(Hostile):
    """What names no live request of one principal is nobody's (HARDENING F-3)."""

    CAPS = {"elicitation": {}}

    def running(self, n):
        crib.wait_for(f"{n} running calls", lambda: self.crib.status()["running"] == n)

    def begin(self, peer, id):
        peer.send(peer.request("tools/call", {"name": "e_slow", "arguments": {"ms": 600000}}, id=id))

    def cancel(self, peer, id):
        peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})

    def dropped(self, tenant):
        return self.rows("SELECT object, detail FROM v_records WHERE kind = 'message.dropped' AND tenant IS ?", tenant)

    def late(self, shared, other):
        """acme's call is cancelled while one of `other` runs; what the server then says reaches neither."""
        self.serve("--revision", "2025-06-18", "--late", words=["--asks", "yes", "--shared", shared])
        victim, bystander = self.peer(caps=self.CAPS), self.peer(caps=self.CAPS, key=other)
        for one in (victim, bystander):
            one.ask("logging/setLevel", {"level": "debug"})
        self.begin(victim, 50)
        self.running(1)
        self.begin(bystander, 60)
        self.running(2)
        self.cancel(victim, 50)
        self.running(1)
        bystander.send(bystander.request("tools/call", {"name": "e_echo", "arguments": {"text": "x"}}, id=61))
        got = bystander.receive()
        self.assertEqual(got.get("id"), 61, got)
        self.cancel(bystander, 60)
        self.running(0)
        for peer in (victim, bystander):
            self.assertTrue(peer.quiet("elicitation/create"), peer.notices)
            self.assertTrue(peer.quiet("notifications/message"), peer.notices)

    def test_f3_a_late_question_reaches_no_other_principal(self):
        """HARDENING F-3"""
        self.late("no", self.crib.key("acme/second"))

    def test_f3_a_late_question_reaches_no_other_tenant(self):
        """HARDENING F-3"""
        self.late("yes", self.crib.tenant("other", "e_*"))

    def test_f3_calls_of_two_principals_are_never_on_one_link(self):
        """HARDENING F-3: each that may be asked has a process of its own, which another call of the same one gets again."""
        self.serve("--revision", "2025-06-18", words=["--asks", "yes", "--shared", "yes"])
        keys = [self.key, self.crib.key("acme/second"), self.crib.tenant("other", "e_*")]
        peers = [self.peer(caps=self.CAPS, key=key) for key in keys]
        for n, peer in enumerate(peers):
            peer.send(peer.request("tools/call", {"name": "e_ask", "arguments": {"message": f"for {n}"}}, id=5))
        for n, peer in enumerate(peers):
            asked = peer.receive()
            self.assertEqual(asked["params"]["message"], f"for {n}")
            peer.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"word": str(n)}}})
            self.assertEqual(self.text(peer.answer(5)), f"accept {n}")
        for peer in peers:
            self.assertEqual(self.text(peer.call("e_echo", {"text": "again"})), "again")
        self.assertEqual(self.crib.json("upstream", "show", "e")[0]["links"], 4)       # and the one of sync

    def test_f3_calls_that_wait_for_answers_are_bounded(self):
        """HARDENING F-3: 32 of a tenant at an upstream that asks; the one too many is told, and another tenant is not."""
        self.serve("--revision", "2025-06-18", words=["--asks", "yes"])
        peer, other = self.peer(caps=self.CAPS), self.peer(caps=self.CAPS, key=self.crib.tenant("other", "e_*"))
        asked = []
        for n in range(32):
            peer.send(peer.request("tools/call", {"name": "e_ask", "arguments": {"message": str(n)}}, id=100 + n))
            asked.append(peer.receive())
            self.assertEqual(asked[n].get("method"), "elicitation/create", asked[n])
        self.assertEqual(self.text(peer.call("e_echo", {"text": "x"}), error=True),
                         "upstream e: more than 32 calls of this tenant are open there")
        self.assertEqual(self.text(other.call("e_echo", {"text": "x"})), "x")
        peer.send({"jsonrpc": "2.0", "id": asked[7]["id"], "result": {"action": "decline"}})
        self.assertEqual(self.text(peer.answer(107)), "decline -")
        self.assertEqual(self.text(peer.call("e_echo", {"text": "x"})), "x")

    def test_f3_what_is_dropped_is_on_record(self):
        """HARDENING F-3: kind 1012 message.dropped, in the log of the tenant whose link it was."""
        self.serve("--revision", "2025-06-18", "--late")
        victim, bystander = self.peer(), self.peer(key=self.crib.key("acme/second"))
        for one in (victim, bystander):
            one.ask("logging/setLevel", {"level": "debug"})
        self.begin(victim, 50)
        self.running(1)
        self.begin(bystander, 60)
        self.running(2)
        self.cancel(victim, 50)
        (row,) = crib.wait_for("the record", lambda: self.dropped("acme"))
        self.assertEqual(row, ("upstream/e", "messages=1 last=notifications/message"))
        for peer in (victim, bystander):
            self.assertTrue(peer.quiet("notifications/message"), peer.notices)
        self.assertEqual(self.dropped(None), [])
        self.cancel(bystander, 60)
        self.running(0)
        self.assertEqual(self.crib.run("audit", "verify").returncode, 0)


if __name__ == "__main__":
    crib.main()
