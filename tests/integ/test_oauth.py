"""Access tokens instead of keys: discovery, what is accepted and what is not, scopes, keys of issuers that change, opaque
tokens (SEC 7, MCP 17, FAULT F40).  The issuer is a double: tests/integ/mint signs, a thread here serves keys and answers."""
import atexit
import base64
import contextlib
import http.client
import http.server
import json
import pathlib
import shutil
import signal
import subprocess
import threading
import time
import urllib.parse

import crib

ISSUER = "https://login.example.com"
SCOPES = 'scopes: {tools.read: ["tools:list"], tools.use: ["tools:call:*"], echo.use: ["tools:call:echo"]}'
INVALID = "invalid token\n"


class Mint:
    """Keys, and tokens signed with them."""

    def __init__(self):
        self.process = subprocess.Popen([str(crib.BUILD / "tests/integ/mint")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def ask(self, *words):
        self.process.stdin.write("\t".join(words) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def key(self, name, alg="ES256"):
        return json.loads(self.ask("key", name, alg, name))

    def token(self, name, claims, **header):
        return self.ask("sign", name, json.dumps({"alg": "ES256", "kid": name, "typ": "at+jwt", **header}), json.dumps(claims))

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Server:
    """Of an issuer: answers by path, what was asked."""

    def __init__(self):
        self.answers, self.asked = {}, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                outer.asked.append((self.path, body, self.headers.get("Authorization")))
                answer = outer.answers.get(self.path)
                answer = answer(body) if callable(answer) else answer
                data = json.dumps(answer).encode()
                self.send_response(503 if answer is None else 200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            do_POST = do_GET

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = "127.0.0.1:%d" % self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Tokens(crib.Case):
    """A server that accepts tokens, and those who bring some."""

    made = None             # a store with tenants, to be copied; and a key of acme

    def setUp(self):
        super().setUp()
        self.prepare(self.crib)
        self.addCleanup(self.mint.close)

    def prepare(self, c):
        if not Tokens.made:
            made = crib.Crib().init()
            atexit.register(made.close)
            made.tool(crib.ECHO)
            Tokens.made = made.store, made.tenant("acme", "*")
            made.tenant("other", "*")
        store, self.key = Tokens.made
        shutil.copytree(store, c.store)
        self.mint = Mint()
        self.keys = c.dir / "keys.json"
        Tokens.publish(self, self.mint.key("one"))

    def publish(self, *keys):
        self.keys.write_text(json.dumps({"keys": keys}))

    def issuers(self, *entries, interval=60, more=""):
        self.crib.start(f"{more}oauth:\n  jwks_interval: {interval}\n  issuers:\n" +
                        "".join(f"  - {{issuer: \"{ISSUER}\", {entry}}}\n" for entry in entries))
        self.origin = "http://" + self.crib.ports["http"]

    def by_file(self, tenant="tenant: acme"):
        Tokens.issuers(self, f'jwks_file: "{self.keys}", {tenant}, {SCOPES}')

    def claims(self, **other):
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": self.origin + "/mcp", "exp": now + 300, "iat": now, "sub": "alice", "client_id": "editor",
                  "jti": "t-1", "scope": "tools.read tools.use", **other}
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, _key="one", _header=None, **claims):
        return self.mint.token(_key, self.claims(**claims), **(_header or {}))

    def http(self, token=None, path="/mcp"):
        peer = self.crib.http(token, path)
        self.addCleanup(peer.close)
        return peer

    def post(self, token=None, method="tools/list", path="/mcp"):
        """One request of its own: status, challenge, text."""
        peer = self.http(token, path)
        message = peer.request(method, {"name": "echo", "arguments": {"text": "x"}} if method == "tools/call" else {}, crib.MODERN)
        status, headers, text = peer.post(json.dumps(message), peer.headers(message))
        return status, headers.get("WWW-Authenticate"), text

    def get(self, path, headers=None):
        c = http.client.HTTPConnection(*self.crib.address("http"), timeout=crib.DEADLINE)
        self.addCleanup(c.close)
        c.request("GET", path, headers=headers or {})
        got = c.getresponse()
        return got.status, got.read().decode()

    def refused(self, token, text=INVALID, **more):
        status, challenge, got = self.post(token, **more)
        self.assertEqual((status, got), (401, text), token)
        self.assertIn('error="invalid_token"', challenge)

    def record(self, kind):
        """The newest record of this kind."""
        return crib.wait_for(f"a record {kind}", lambda: [row for row in self.crib.json("audit", "export")
                                                          if row.get("kind") == kind][-1:])[0]


class ByFile(Tokens):
    """Keys from a file; one server for all."""

    @classmethod
    def setUpClass(cls):
        cls.crib = crib.Crib()
        cls.addClassCleanup(cls.crib.close)
        Tokens.prepare(cls, cls.crib)
        cls.addClassCleanup(cls.mint.close)
        Tokens.by_file(cls)

    def setUp(self):
        pass

    # --- discovery

    def test_from_a_401_to_a_call(self):
        """MCP A-03, A-04, A-05: the challenge leads to the document, the document to the issuer."""
        status, challenge, text = self.post()
        self.assertEqual(status, 401)
        where = self.origin + "/.well-known/oauth-protected-resource/mcp"
        self.assertEqual(challenge, f'Bearer realm="toolcrib", scope="tools.read tools.use", resource_metadata="{where}"')
        documents = [json.loads(self.get(path)[1]) for path in ("/.well-known/oauth-protected-resource/mcp",
                                                                "/.well-known/oauth-protected-resource")]
        self.assertEqual(documents[0], documents[1])
        self.assertEqual(documents[0]["resource"], self.origin + "/mcp")
        self.assertEqual(documents[0]["authorization_servers"], [ISSUER])
        self.assertEqual(documents[0]["scopes_supported"], ["tools.read", "tools.use", "echo.use"])
        self.assertEqual(documents[0]["bearer_methods_supported"], ["header"])
        peer = self.http(self.token())
        self.assertEqual(peer.tools(crib.MODERN), ["echo"])
        self.assertFalse(peer.call("echo", {"text": "x"}, crib.MODERN)["result"].get("isError"))
        self.assertEqual(self.post(self.key)[0], 200)           # keys go on

    def test_documents_do_not_tell_which_tenants_exist(self):
        """MCP B-30: the same words for each name, there or not."""
        texts = set()
        for tenant in ("acme", "other", "nobody"):
            status, text = self.get(f"/.well-known/oauth-protected-resource/t/{tenant}/mcp")
            self.assertEqual(status, 200)
            texts.add(text.replace(tenant, "TENANT"))
            status, challenge, text = self.post(path=f"/t/{tenant}/mcp")
            texts.add((status, challenge.replace(tenant, "TENANT"), text))
        self.assertEqual(len(texts), 2)
        for path in ("/t/Acme/mcp", "/t/a/b/mcp", "/sse", "/mcp/", "x"):
            self.assertEqual(self.get("/.well-known/oauth-protected-resource" + path)[0], 404)

    # --- what is accepted

    def test_attacks(self):
        """FAULT F40, over the wire: the table is in t_oauth_jwt."""
        self.mint.key("stranger")
        good = self.token()
        head, body, signature = good.split(".")
        none = base64.urlsafe_b64encode(b'{"alg":"none","kid":"one"}').rstrip(b"=").decode()
        for bad in (good[:-1], good + "=", f"{none}.{body}.", f"{none}.{body}.{signature}", f"{head}.{body}", f"{head}..{signature}",
                    "x", "a.b.c", good.replace(".", ".."), self.mint.token("stranger", self.claims(), kid="one"),
                    self.token(_header={"alg": "HS256"}), self.token(_header={"kid": "../one"}), self.token(_header={"crit": ["exp"]}),
                    self.token(iss="https://other.example.com"), self.token(exp=None), self.token(nonce="n"),
                    self.token(iat=int(time.time()) + 120), self.token(sub=None), self.token(client_id=None)):
            self.refused(bad)
        now = int(time.time())
        self.refused(self.token(exp=now - 61, iat=now - 100), "the token has expired\n")
        for aud in (self.origin, self.origin + "/mcp/", self.origin + "/t/acme/mcp", ["https://a.example", "b"], None):
            self.refused(self.token(aud=aud), "the token is for another resource\n")
        self.assertEqual(self.post(self.token(aud=["x", self.origin + "/mcp"]))[0], 200)
        self.assertEqual(self.post("x" * 9000)[0], 431)
        self.assertIn(self.record("auth.fail")["rule"], ("malformed", "unknown", "wrong", "expired", "audience", "early"))

    def test_suspension_is_at_once(self):
        """SEC S-410"""
        token = self.token()
        self.assertEqual(self.post(token)[0], 200)
        self.crib.cli("tenant", "suspend", "acme", "--yes")
        self.refused(token, "the tenant is suspended\n")
        self.crib.cli("tenant", "resume", "acme")
        self.assertEqual(self.post(token)[0], 200)

    def test_session_is_its_subjects(self):
        """Another subject of the same client does not find it."""
        alice, bob = self.http(self.token()), self.http(self.token(sub="bob"))
        alice.initialize()
        bob.session, bob.version = alice.session, alice.version
        self.assertEqual(bob.post(json.dumps(bob.request("tools/list")), bob.headers({}))[0], 404)
        again = self.http(self.token(jti="t-2"))        # alice, with a fresh token
        again.session, again.version = alice.session, alice.version
        self.assertEqual(again.tools(), ["echo"])

    # --- scopes

    def test_step_up(self):
        """MCP A-10, A-11: too little scope names all that is needed; what is not known gives nothing."""
        little = self.token(scope="tools.read openid admin")
        self.assertEqual(self.post(little)[0], 200)
        status, challenge, _ = self.post(little, "tools/call")
        self.assertEqual(status, 403)
        self.assertIn('error="insufficient_scope", scope="tools.read tools.use", resource_metadata="', challenge)
        self.assertEqual(self.post(self.token(), "tools/call")[0], 200)
        self.assertEqual(self.post(self.token(scope="echo.use"), "tools/call")[0], 200)
        for nothing in ("", "openid", None, "TOOLS.READ", ["tools.read"], "tools.read,tools.use"):
            self.assertEqual(self.post(self.token(scope=nothing))[0], 200 if nothing == ["tools.read"] else 403, nothing)


class Others(Tokens):
    """Servers of their own."""

    def test_without_issuers_nothing_is_published(self):
        """MCP B-54"""
        self.crib.start()
        self.assertEqual(self.get("/.well-known/oauth-protected-resource")[0], 404)
        self.assertEqual(self.post()[1], 'Bearer realm="toolcrib"')


    def test_token_of_a_path_is_good_there_alone(self):
        """MCP B-30, A-08"""
        self.by_file(tenant="tenant_claim: org, tenants: {o-1: acme, o-2: other}")
        mine = self.token(org="o-1", aud=self.origin + "/t/acme/mcp")
        self.assertEqual(self.post(mine, path="/t/acme/mcp")[0], 200)
        self.refused(mine, "the token is for another resource\n")
        self.refused(mine, "the token is for another resource\n", path="/t/other/mcp")
        # The audience is right, the tenant is not: as if the path were nobody's.
        foreign = self.token(org="o-1", aud=self.origin + "/t/other/mcp")
        self.assertEqual(self.post(foreign, path="/t/other/mcp")[0::2], (404, "no such path\n"))
        for org in (None, "o-3", ["o-1"], ["o-1", "o-2"], "acme"):
            self.refused(self.token(org=org))


    def test_file_is_read_again(self):
        self.by_file()
        old = self.token()
        self.assertEqual(self.post(old)[0], 200)
        self.publish(self.mint.key("two"))
        self.refused(self.token("two"))
        self.crib.daemon.send_signal(signal.SIGHUP)
        crib.wait_for("the new keys", lambda: self.post(self.token("two"))[0] == 200)
        self.refused(old)
        self.keys.write_text("{}")
        self.crib.daemon.send_signal(signal.SIGHUP)
        crib.wait_for("the refusal", lambda: "keys of an issuer stay" in self.crib.log.read_text())
        self.assertEqual(self.post(self.token("two"))[0], 200)

    def test_fetched_keys_follow_the_issuer(self):
        """SEC S-409: one fetch for an unknown key; the rest of the rule is in t_oauth_check."""
        server = Server()
        self.addCleanup(server.close)
        server.answers["/keys"] = {"keys": [self.mint.key("one")]}
        self.issuers(f'jwks_uri: "http://{server.address}/keys", allow: ["{server.address}"], tenant: acme, {SCOPES}', interval=1)
        fetches = lambda: len(server.asked)
        self.assertEqual(fetches(), 0)
        self.assertEqual(self.post(self.token())[0], 200)       # waits for the keys
        self.assertEqual(fetches(), 1)
        # Rotation: a token by a key that nobody knows yet waits for the new set, at once behind a fetch as well.
        old = self.token()
        server.answers["/keys"] = {"keys": [self.mint.key("two")]}
        self.assertEqual(self.post(self.token("two"))[0], 200)
        self.assertEqual(fetches(), 2)
        self.mint.key("stranger")
        self.refused(self.token("stranger"))
        self.refused(old)

    def test_key_that_may_be_new_is_no_verdict(self):
        """The keys were fetched just now: not 401, or the client throws away a token that is good."""
        server = Server()
        self.addCleanup(server.close)
        server.answers["/keys"] = {"keys": [self.mint.key("one")]}
        self.issuers(f'jwks_uri: "http://{server.address}/keys", allow: ["{server.address}"], tenant: acme, {SCOPES}', interval=3600)
        self.assertEqual(self.post(self.token())[0], 200)
        server.answers["/keys"] = {"keys": [self.mint.key("two")]}
        peer = self.http(self.token("two"))
        message = peer.request("tools/list", {}, crib.MODERN)
        for _ in range(3):
            status, headers, text = peer.post(json.dumps(message), peer.headers(message))
            self.assertEqual((status, text), (503, "the issuer of the token cannot be asked now\n"))
            self.assertIn(int(headers["Retry-After"]), range(1, 3601))
            self.assertIsNone(headers.get("WWW-Authenticate"))
        self.assertEqual(self.post(self.token())[0], 200)
        self.assertEqual(len(server.asked), 1)
        self.crib.daemon.send_signal(signal.SIGHUP)             # whoever reloads wants the keys of now
        crib.wait_for("the new key", lambda: self.post(self.token("two"))[0] == 200)

    def test_unreachable_issuer_is_no_verdict(self):
        """Not 401: the token may be good."""
        server = Server()
        self.addCleanup(server.close)
        self.issuers(f'jwks_uri: "http://{server.address}/keys", allow: ["{server.address}"], tenant: acme, {SCOPES}')
        status, _, text = self.post(self.token())
        self.assertEqual((status, text), (503, "the issuer of the token cannot be asked now\n"))
        self.assertEqual(self.post(self.key)[0], 200)


    def test_introspection(self):
        """RFC 7662: asked once, with our secret, and remembered."""
        server = Server()
        self.addCleanup(server.close)
        self.crib.cli("secret", "set", "asking", stdin="s3cret &\n")
        self.issuers(f'introspection: {{uri: "http://{server.address}/ask", client: "our name", secret: asking}}, '
                     f'allow: ["{server.address}"], tenant: acme, {SCOPES}')

        def answer(body):
            token = urllib.parse.parse_qs(body)["token"][0]
            good = {"active": True, "aud": self.origin + "/mcp", "client_id": "editor", "scope": "tools.read"}
            return {"good+/==": good, "for-others": {**good, "aud": "https://x.example"}, "listed": [good],
                    "yes": {**good, "active": "true"}}.get(token, {"active": False})
        server.answers["/ask"] = answer
        for _ in range(3):
            self.assertEqual(self.post("good+/==")[0], 200)
        self.assertEqual(len(server.asked), 1)
        who = base64.b64decode(server.asked[0][2].split()[1]).decode()
        self.assertEqual(who, "our%20name:s3cret%20%26")
        self.assertEqual(self.post("good+/==", "tools/call")[0], 403)
        self.refused("for-others", "the token is for another resource\n")
        self.refused("dead")
        self.refused("yes")
        self.assertEqual(self.post("listed")[0], 503)
        asked = len(server.asked)
        self.refused("no b64token!")
        self.refused("tca_" + "a" * 43, "invalid credential\n")     # an administrator's key in the wrong place stays here
        self.assertEqual(len(server.asked), asked)
        server.answers["/ask"] = None
        self.assertEqual(self.post("another")[0], 503)
        self.assertEqual(self.post("good+/==")[0], 200)


    def test_an_issuer_is_not_asked_without_end(self):
        """SEC S-316: tokens that have just ended cost nothing, a stream of them does."""
        server = Server()
        self.addCleanup(server.close)
        server.answers["/ask"] = {"active": False}
        secret = self.crib.dir / "asking"
        secret.write_text("s3cret\n")
        secret.chmod(0o600)
        self.issuers(f'introspection: {{uri: "http://{server.address}/ask", client: us, secret_file: "{secret}"}}, '
                     f'allow: ["{server.address}"], tenant: acme, {SCOPES}', more="connections: {loopback: count}\npenalty: {failed: 300}\n")
        seen = [self.post(f"dead-{n}")[0] for n in range(60)]
        self.assertEqual(set(seen), {401})

        def knock():
            with contextlib.suppress(ConnectionError):      # it is told 429 before it has said anything
                self.post("dead")
            return self.crib.json("status")[0]["counters"]["connections_penalized"]
        crib.wait_for("a penalty", knock)
        asked = len(server.asked)
        knock()
        self.assertEqual(len(server.asked), asked)

    def test_records_name_the_token_without_it(self):
        """SEC S-411"""
        self.by_file()
        token = self.token()
        self.assertEqual(self.post(token, "tools/call")[0], 200)
        seen = self.record("cred.first_use")
        self.assertRegex(json.dumps(seen), f"issuer={ISSUER} token=[0-9a-f]{{32}} client=editor")
        self.assertNotIn("alice", json.dumps(seen))
        call = crib.wait_for("the call", lambda: self.crib.json("audit", "calls", "--tenant", "acme"))[0]
        self.assertEqual(call["outcome"], "ok")
        self.refused(token + "x")
        self.crib.stop()
        signature = token.split(".")[2].encode()
        for path in pathlib.Path(self.crib.dir).rglob("*"):
            if path.is_file():
                self.assertNotIn(signature, path.read_bytes(), path)
        self.crib.cli("audit", "verify")


if __name__ == "__main__":
    crib.main()
