"""A credential that is over ends what it has opened: notice streams, listens, HTTP+SSE, byte streams; what runs there comes to its end
first, and whose credential lives on stays (SEC S-306, S-410)."""
import json
import time

import crib
import test_oauth

SLOW = crib.tool_yaml("slow", "{type: builtin, function: sleep}", schema="{type: object, properties: {ms: {type: integer}}}",
                      extra="limits: {timeout: 10m}\n")
SHIFT = crib.BUILD / "tests/integ/shift.so"
LISTEN = {"notifications": {"toolsListChanged": True}}


class Expiry(test_oauth.Tokens):
    def begin(self, shifted):
        c = self.crib
        if shifted:
            if not SHIFT.exists():
                self.skipTest("shift.so is not built")
            self.file = c.dir / "shift"
            self.set(0)
            c.env.update(LD_PRELOAD=str(SHIFT), TOOLCRIB_TEST_SHIFT=str(self.file), ASAN_OPTIONS="verify_asan_link_order=0")
        self.by_file()
        c.tool(SLOW, "slow.yaml")
        return c

    def set(self, seconds):
        new = self.file.with_suffix(".new")
        new.write_text(str(seconds))
        new.rename(self.file)

    def kinds(self):
        return sorted((s["kind"], s["listening"]) for s in self.crib.json("session", "list", "--tenant", "acme"))

    def listen(self, credential):
        peer = self.http(credential)
        stream = peer.stream(peer.request("subscriptions/listen", LISTEN, crib.MODERN))
        self.addCleanup(stream.close)
        if stream.status == 200:
            self.assertEqual(stream.receive()["method"], "notifications/subscriptions/acknowledged")
        return stream

    def streams(self, credential):
        """A listen, the notice stream of a session, HTTP+SSE; and the session's peer."""
        session, sse = self.http(credential), self.crib.sse(credential)
        session.initialize()
        sse.initialize("2024-11-05")
        self.addCleanup(sse.close)
        stream = session.stream()
        self.addCleanup(stream.close)
        return self.listen(credential), stream, sse, session

    def ended(self, listen, stream, sse):
        self.assertIn("result", listen.answer(1))
        self.assertIsNone(listen.receive())
        self.assertIsNone(stream.receive())
        self.assertIsNone(sse.receive())

    def test_the_end_of_a_credential_ends_its_streams(self):
        """The clock goes on two hours: a token and a key are over, another key is not."""
        c = self.begin(shifted=True)
        short = c.key("acme/short", "--ttl", "1h")
        token = self.token()
        by_token, by_key, stays = self.streams(token), self.streams(short), self.listen(self.key)
        line, long = c.tcp(short), c.tcp(self.key)
        for peer in (line, long):
            peer.initialize()
            self.addCleanup(peer.close)
        line.send(line.request("tools/call", {"name": "slow", "arguments": {"ms": 1500}}, id=9))
        crib.wait_for("a call that runs", lambda: any(s["running"] for s in c.json("session", "list", "--tenant", "acme")))
        self.set(7200)
        for streams in (by_token, by_key):
            self.ended(*streams[:3])
        self.assertIn("slept", str(line.answer(9)))             # it was running
        self.assertTrue(line.closed())
        self.assertEqual(self.post(token)[0::2], (401, "the token has expired\n"))
        self.assertNotIn("error", long.call("echo", {"text": "still here"}))
        c.cli("grant", "remove", "acme", "*", "--yes")
        self.assertEqual(stays.receive()["method"], "notifications/tools/list_changed")
        # A session is its principal's, not its token's: alice goes on with a fresh one.
        again = self.http(self.token(exp=int(time.time()) + 7500, jti="t-2"))
        again.session, again.version = by_token[3].session, by_token[3].version
        self.assertEqual(again.tools(), [])
        stream = again.stream()
        self.addCleanup(stream.close)
        self.assertEqual(stream.status, 200)

    def test_the_end_comes_by_itself(self):
        """Nothing is asked and no clock is set: streams end when the time is over, and not before."""
        self.begin(shifted=False)
        for life in (1, 2, 4, 8, 16, 32):               # seconds: a loaded machine may need longer to open it
            end = time.time() + life
            key, token = self.crib.key("acme/short", "--ttl", f"{life}s"), self.token(exp=int(end) + 1)
            listens = self.listen(token), self.listen(key)
            if all(listen.status == 200 for listen in listens):
                break
        for listen in listens:
            self.assertIn("result", listen.answer(1))
            self.assertIsNone(listen.receive())
            self.assertGreaterEqual(time.time(), end)

    def test_streams_of_a_replaced_secret_end_with_it(self):
        """SEC S-310: with the overlap, or at once; what the new one opened stays."""
        c = self.begin(shifted=True)
        first = c.key("acme/bot")
        rotate = lambda *words: next(w for w in c.cli("key", "rotate", first[4:16], *words).split() if w.startswith("tck_"))
        opened, second = self.streams(first), rotate("--overlap", "1h")
        later = self.listen(second)
        self.set(7200)
        self.ended(*opened[:3])
        third = rotate("--overlap", "0s")
        self.assertIn("result", later.answer(1))
        self.assertIsNone(later.receive())
        self.assertEqual(self.listen(third).status, 200)


if __name__ == "__main__":
    crib.main()
