"""The life of keys: scopes, rules, places, rotation, enrolment, revocation (SEC 6.1, product.md 7, faults F42)."""
import concurrent.futures
import contextlib
import datetime
import json
import sqlite3
import subprocess

import crib

SLOW = crib.tool_yaml("slow", "{type: builtin, function: sleep}", schema="{type: object, properties: {ms: {type: integer}}}",
                      extra="limits: {timeout: 10m}\n")
BEHIND = '- {transport: http, address: "127.0.0.1:0", proxies: [127.0.0.1]}\n'     # one listener more
SAY = crib.ECHO.replace("name: echo", "name: say")


class Keys(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        documents = c.dir / "all.yaml"
        documents.write_text("---\n".join([crib.ECHO, SAY, SLOW, "kind: tenant\nname: acme\n",
                                          "kind: grant\ntenant: acme\ntool: '*'\n"]))
        c.cli("apply", "-f", documents)
        c.start(BEHIND)

    def status(self, key, method="tools/list", params=None):
        """The HTTP status and the answer of one modern request."""
        peer = self.crib.http(key)
        message = peer.request(method, params, crib.MODERN)
        code, _, text = peer.post(json.dumps(message), peer.headers(message))
        peer.close()
        return code, text

    def forwarded(self, key, client):
        """The status of a request that a proxy passes on for this client."""
        address = [row["address"] for row in self.crib.json("status")[0]["listeners"] if row["transport"] == "http"][1]
        host, _, port = address.rpartition(":")
        peer = crib.Http((host, int(port)), key)
        self.addCleanup(peer.close)
        message = peer.request("tools/list", None, crib.MODERN)
        return peer.post(json.dumps(message), {**peer.headers(message), "X-Forwarded-For": client})[0]

    def works(self, key):
        return self.status(key)[0] == 200

    def raw(self, authorization):
        """What a request is answered, without its date and its own id."""
        body = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
        got = self.raw_http((f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{authorization}"
                             f"Accept: application/json, text/event-stream\r\nContent-Length: {len(body)}\r\n"
                             f"Connection: close\r\n\r\n{body}").encode()).decode()
        return [line for line in got.split("\r\n") if not line.lower().startswith(("date:", "x-request-id:"))]

    def verify(self):
        """Both verifiers know the rows of keys (AUDIT A-417)."""
        self.assertEqual(self.crib.stop(), 0)
        for program in ([crib.BUILD / "toolcrib-verify"], crib.sceptic()):
            done = subprocess.run([*program, *crib.evidence(self.crib.store), self.crib.store / "toolcrib.db"], capture_output=True, text=True, timeout=60)
            self.assertIn(done.returncode, (0, 5), done.stdout + done.stderr)
            self.assertNotIn("REGISTRY", done.stdout)

    def test_scopes_cut_what_a_key_sees_and_calls(self):
        c = self.crib
        key = c.key("acme/bot", "--scope", "tools:list tools:call:s*")
        peer = c.http(key)
        self.assertEqual(peer.tools(crib.MODERN), ["say", "slow"])
        self.assertEqual(peer.call("say", {"text": "hi"}, crib.MODERN)["result"]["content"][0]["text"], "hi")
        hidden, unknown = (peer.ask("tools/call", {"name": name, "arguments": {"text": "hi"}}, crib.MODERN, id=5)
                           for name in ("echo", "ecxo"))
        self.assertEqual(json.dumps(hidden).replace("echo", "ecxo"), json.dumps(unknown))
        peer.close()
        code, answer = self.status(c.key("acme/bot", "--scope", "tools:call"))
        data = json.loads(answer)["error"]["data"]
        self.assertEqual((code, data["reason"], data["scope"]), (403, "insufficient_scope", "tools:list"))
        line = c.tcp(c.key("acme/bot", "--scope", "tools:list"))
        line.initialize()
        self.assertEqual(line.tools(), [])
        self.assertIn("scope", line.call("say", {"text": "x"})["error"]["message"])
        line.ask("ping")
        line.close()
        rules = {row["rule"] for row in c.json("audit", "denied", "--tenant", "acme", "--limit", "0")}
        self.assertLessEqual({"scope", "unknown_tool"}, rules)
        self.assertEqual(c.json("key", "show", key[4:16])[0]["scopes"], "tools:list tools:call:s*")
        bad = c.run("key", "create", "acme/bot", "--scope", "tools:cal")
        self.assertEqual(bad.returncode, 1, bad.stderr)
        self.assertIn("tools:cal is no scope; did you mean tools:call?", bad.stderr)

    def test_arguments_and_places_are_limited(self):
        c = self.crib
        key = c.key("acme/bot", "--arg-rule", 'say /text one-of ["yes","no"]', "--arg-rule", "slow /ms range [0,10]")
        peer = c.http(key)
        self.assertNotIn("error", peer.call("say", {"text": "no"}, crib.MODERN))
        refused = str(peer.call("say", {"text": "maybe"}, crib.MODERN))
        self.assertIn("the key does not allow this value at /text", refused)
        self.assertNotIn("yes", refused)
        self.assertIn("the key allows this tool only with a value at /ms", str(peer.call("slow", {}, crib.MODERN)))
        self.assertNotIn("error", peer.call("echo", {"text": "maybe"}, crib.MODERN))
        peer.close()
        self.assertEqual({row["rule"] for row in c.json("audit", "denied", "--tenant", "acme")}, {"arg-rule"})
        here = c.key("acme/bot", "--cidr", "127.0.0.0/8", "--cidr", "2001:db8::/32")
        there = c.key("acme/bot", "--cidr", "10.0.0.0/8")
        self.assertEqual([self.works(here), self.works(there)], [True, False])
        behind = [self.forwarded(key, "10.1.2.3") for key in (here, there)]
        self.assertEqual(behind, [401, 200], "a listed proxy says where the client is")
        for words, says in (("--cidr 10.0.0.1/8", "bits beyond its length"), ("--not-before 1h", "has passed"),
                            ("--key-ttl 1h", "--one-shot")):
            bad = c.run("key", "create", "acme/bot", *words.split())
            self.assertEqual(bad.returncode, 1, bad.stderr)
            self.assertIn(says, bad.stderr)

    def test_rotation_keeps_the_key_and_ends_the_old_secret(self):
        c = self.crib
        first = c.key("acme/bot", "--scope", "tools:list", "--label", "ci")
        accessor = first[4:16]
        line = c.tcp(first)
        line.initialize()
        second = next(word for word in c.cli("key", "rotate", accessor).split() if word.startswith("tck_"))
        self.assertEqual(second[4:16], accessor)
        self.assertEqual([self.works(first), self.works(second)], [True, True])
        row, = c.json("key", "list", "acme")
        self.assertEqual((row["state"], row["label"], row["scopes"]), ("rotating", "ci", "tools:list"))
        self.assertIsNotNone(row["old_secret_until"])
        third = c.run("key", "rotate", accessor)
        self.assertIn("has two secrets already", third.stderr)
        line.ask("ping")
        third = next(word for word in c.cli("key", "rotate", accessor, "--overlap", "0s").split() if word.startswith("tck_"))
        self.assertEqual([self.works(key) for key in (first, second, third)], [False, False, True])
        self.assertTrue(line.closed())          # the first secret had opened it
        line.close()
        kinds = [row["kind"] for row in c.json("audit", "credential", accessor, "--timeline")]
        self.assertEqual(kinds.count("cred.rotate"), 2)

    def test_a_one_shot_key_makes_one_key(self):
        c = self.crib
        one = c.key("acme/new", "--one-shot", "--key-ttl", "7d", "--scope", "tools:list tools:call:say")
        self.assertFalse(self.works(one))
        done = c.run("key", "enroll", stdin=one)
        self.assertEqual(done.returncode, 0, done.stderr)
        child = done.stdout.strip()
        self.assertNotEqual(child[4:16], one[4:16])
        self.assertTrue(self.works(child))
        self.assertEqual(c.json("key", "show", child[4:16])[0]["scopes"], "tools:list tools:call:say")
        self.assertEqual(c.json("key", "show", child[4:16])[0]["parent"], one[4:16])
        self.assertIn("has made its key already", c.run("key", "enroll", stdin=one).stderr)
        wrong = {c.run("key", "enroll", stdin=text).stderr for text in (one[:-1], "tck_x", child[:16] + one[16:], one[:4] + "0" * 62)}
        self.assertEqual(wrong, {"toolcrib: invalid credential\n"})
        self.assertEqual([row["accessor"] for row in c.json("key", "revoke", one[4:16], "--yes")], [one[4:16], child[4:16]])
        self.assertFalse(self.works(child))
        whole = c.key("acme/new", "--scope", "tools:list", "--cidr", "::1/128", "--arg-rule", "x /y equals 1")
        c.cli("key", "rotate", whole[4:16])
        c.cli("key", "suspend", whole[4:16], "--yes")
        self.verify()

    def test_a_key_lives_90_days_and_365_at_most(self):
        """SEC S-307"""
        c = self.crib
        for options, days in ((), 90), (("--ttl", "365d"), 365), (("--one-shot",), 1):
            shown = c.json("key", "show", c.key("acme/bot", *options)[4:16])[0]
            made, ends = (datetime.datetime.fromisoformat(shown[name].replace("Z", "+00:00")) for name in ("created", "expires"))
            self.assertAlmostEqual((ends - made).total_seconds(), days * 86400, delta=60)
        done = c.run("key", "create", "acme/bot", "--ttl", "366d")
        self.assertEqual(done.returncode, 1)
        self.assertIn("365d", done.stderr)

    def test_the_last_use_of_a_key_survives_a_stop(self):
        """SEC S-313: in memory while it is used, in the store at the stop."""
        c = self.crib
        used, other = c.key("acme/bot"), c.key("acme/other")
        self.assertTrue(self.works(used))
        self.assertEqual(c.stop(), 0)
        self.assertIsNone(c.json("key", "show", other[4:16])[0].get("last_used"))
        self.assertTrue(c.json("key", "show", used[4:16])[0]["last_used"])

    def test_the_end_of_a_key_is_on_record(self):
        """AUDIT 1204: once, and soon after."""
        c = self.crib
        key = c.key("acme/bot", "--ttl", "1s")
        crib.wait_for("the end of a key", lambda: c.json("key", "show", key[4:16])[0]["state"] == "expired")
        self.assertIn("the key has expired", self.status(key)[1])
        self.assertTrue(self.works(c.key("acme/bot")))          # the first use of a key is stored at once, and so is this
        kinds = crib.wait_for("the record", lambda: [
            row["kind"] for row in c.json("audit", "credential", key[4:16], "--timeline") if row["kind"] == "cred.expire"])
        self.assertEqual(kinds, ["cred.expire"])
        self.verify()

    def test_a_revoked_key_is_refused_when_the_command_returns(self):
        """Without --kill what runs comes to its end, with it it is cancelled."""
        c = self.crib
        for words, says in (((), "slept"), (("--kill",), "cancelled the request")):
            key = c.key("acme/bot")
            caller = c.http(key)
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                answer = pool.submit(caller.call, "slow", {"ms": 60000 if words else 300}, crib.MODERN)
                crib.wait_for("a call that runs", lambda: answer.done() or sum(
                    row["running"] for row in c.json("session", "list", "--tenant", "acme")) == 1)
                c.cli("key", "revoke", key[4:16], "--yes", *words)
                self.assertFalse(self.works(key))
                self.assertIn(says, str(answer.result(crib.DEADLINE)))
            caller.close()

    @crib.unittest.skipIf(crib.looks_for_races(), "commands one after the other have no races")
    def test_principals_of_a_tenant_are_bounded(self):
        """10000 with a row, one more, and a key for one that is there (SEC S-801)."""
        c = self.crib
        self.assertEqual(c.stop(), 0)
        with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db")) as db:
            (acme, there), = db.execute("SELECT t.id, count(*) FROM tenant t JOIN principal p ON p.tenant_id = t.id "
                                        "WHERE t.name = 'acme'")
            db.executemany("INSERT INTO principal(tenant_id, name, pseudonym, state, created_us) VALUES (?, ?, ?, 1, 1)",
                           ((acme, f"p{n}", f"prn_{n:016}") for n in range(10000 - there - 1)))
            crib.forget_vouching(db)
            db.commit()
        c.cli("key", "create", "acme/last")
        done = c.run("key", "create", "acme/more")
        self.assertEqual(done.returncode, 1)
        self.assertIn("tenant acme has 10000 principals, which is the limit", done.stderr)
        self.assertIn("toolcrib principal list acme", done.stderr)
        c.cli("key", "create", "acme/p7")
        c.cli("tenant", "add", "globex")

    def test_who_has_no_secret_learns_nothing(self):
        """SEC S-309: unknown, wrong and malformed are one answer, byte for byte."""
        key = self.crib.key("acme/bot")
        other = self.crib.key("acme/bot")
        self.crib.cli("key", "revoke", other[4:16], "--yes")
        answers = [self.raw(f"Authorization: Bearer {text}\r\n") for text in
                   (key[:-1], key[:17] + other[17:], "tck_" + "0" * 62, "nonsense", other[:17] + key[17:], "")]
        self.assertIn(" 401 ", answers[0][0])
        for answer in answers[1:] + [self.raw(""), self.raw("Authorization: Basic dXNlcjpwYXNz\r\n")]:
            self.assertEqual(answer, answers[0])
        self.assertIn("the key is revoked", str(self.raw(f"Authorization: Bearer {other}\r\n")))


if __name__ == "__main__":
    crib.main()
