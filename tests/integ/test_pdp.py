"""Policy decision points (PD-01 to PD-08): asked before each run over a Unix socket and TLS, what each kind of answer does to a call, what
is asked, and what is on record."""
import http.server
import json
import socketserver
import ssl
import threading

import certs
import crib

PATH = "/access/v1/evaluation"
PAY = """name: pay
description: Pays.
inputSchema: {type: object, properties: {amount: {type: integer}, payee: {type: string}, pin: {type: string}}}
annotations: {destructiveHint: true, readOnlyHint: false}
audit: {redact: [/pin]}
policy: {arguments: [/amount, /nothing, /pin]}
handler: {type: static, text: paid}
"""
ASKS = """read -r job
case $job in
*'"answers":{'*) echo '{"result":{"content":[{"type":"text","text":"done"}]}}';;
*) echo '{"ask":{"requests":{"q":{"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}}}}';;
esac""".replace("{", "{{").replace("}", "}}")
PROMPT = """kind: prompt
name: greet
description: Greets.
arguments: [{name: who}]
complete: {who: [you]}
handler: {type: static, text: hello}
"""
ALLOW, DENY = {"decision": True}, {"decision": False}
UNDECIDED = {"code": -32603, "message": "The policy could not be asked"}
TAG_DECISION, TAG_DIGEST = 0x011b, 0x011c


class Pdp:
    """A policy decision point: `say` is what it answers, an object, bytes of a whole answer, or a function of what it was asked."""

    def __init__(self, path=None, tls=None, port=0):
        point = self
        self.asked, self.say, self.head, self.lock, self.wrong = [], ALLOW, {}, threading.Lock(), []
        self.go = threading.Event()     # answers wait for it
        self.go.set()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def address_string(self):
                return "peer"

            def log_message(self, *args):
                pass

            def do_GET(self):
                point.answer(self, point.well_known() if self.path == "/.well-known/authzen-configuration" else (404, {}, b"{}"))

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                with point.lock:
                    point.asked.append((self.path, dict((k.lower(), v) for k, v in self.headers.items()), json.loads(body), body))
                point.go.wait(crib.DEADLINE)
                say = point.say(json.loads(body)) if callable(point.say) else point.say
                if isinstance(say, bytes):
                    self.wfile.write(say)
                    self.close_connection = True
                elif say is None:
                    self.close_connection = True
                else:
                    status, head, text = say if isinstance(say, tuple) else (200, {}, json.dumps(say).encode())
                    point.answer(self, (status, {**point.head, **head}, text))

        base = socketserver.ThreadingUnixStreamServer if path else socketserver.ThreadingTCPServer
        base = type("Server", (base,), {"daemon_threads": True, "allow_reuse_address": True, "request_queue_size": 64,
                                        "handle_error": lambda *args: None})
        self.server = base(str(path) if path else ("127.0.0.1", port), Handler)
        self.port = None if path else self.server.server_address[1]
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.metadata = None
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def well_known(self):
        return (404, {}, b"{}") if self.metadata is None else (200, {}, json.dumps(self.metadata).encode())

    @staticmethod
    def answer(handler, said):
        status, head, body = said
        handler.send_response(status)
        for name, value in {"content-type": "application/json", **head}.items():
            for one in value if isinstance(value, list) else [value]:
                if one is not None:
                    handler.send_header(name, one)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        try:
            handler.wfile.write(body)
        except OSError:                 # it has heard enough
            handler.close_connection = True

    def close(self):
        self.go.set()
        self.server.shutdown()
        self.server.server_close()


def fields(ext):
    """Of a record's column ext: tag -> value."""
    got, at = {}, 0
    while at < len(ext or b""):
        size = int.from_bytes(ext[at + 2:at + 6], "big")
        got[int.from_bytes(ext[at:at + 2], "big")] = ext[at + 6:at + 6 + size]
        at += 6 + size
    return got


class Case(crib.Case):
    definitions, grants = (PAY, crib.ECHO), ("*",)

    def setUp(self):
        super().setUp()
        c = self.crib.init()
        for text in self.definitions:
            path = c.dir / "definition.yaml"
            path.write_text(text)
            c.cli(text.split()[1] if text.startswith("kind:") else "tool", "add", path)
        self.key, self.other = c.tenant("acme", *self.grants), c.tenant("other", "*")
        self.socket = self.crib.dir / "pdp.sock"
        self.points = []

    def tearDown(self):
        for point in self.points:
            point.close()
        super().tearDown()

    def point(self, *args, **more):
        self.points.append(Pdp(*args, **more))
        return self.points[-1]

    def start(self, more="", rest=""):
        more += "" if "timeout" in more else ", timeout: 5s"
        self.crib.start(f"pdp:\n- {{name: opa, socket: \"{self.socket}\", tenants: [acme]{more}}}\n{rest}")
        self.peer = self.crib.http(self.key)
        self.addCleanup(self.peer.close)

    def pay(self, peer=None, rev=crib.MODERN, **arguments):
        return (peer or self.peer).call("pay", arguments or {"amount": 5}, rev)

    def assertAllowed(self, got):
        self.assertEqual([b["text"] for b in got["result"]["content"]], ["paid"], got)
        self.assertFalse(got["result"].get("isError"), got)

    def assertDenied(self, got, text="Refused by policy"):
        self.assertEqual((got["result"]["isError"], got["result"]["content"][0]["text"]), (True, text), got)

    def assertUndecided(self, got):
        error = got["error"]
        self.assertEqual({k: error[k] for k in ("code", "message")}, UNDECIDED, got)

    def denials(self):
        return self.crib.json("audit", "calls", "--tenant", "acme", "--outcome", "denied")

    def records(self, kind):
        return [(fields(ext), ext) for ext, in self.crib.rows("SELECT ext FROM rec WHERE kind = ? ORDER BY id", kind)]


class Asked(Case):
    grants = ("*", "prompt:*", "resource:*")
    definitions = (PAY, crib.ECHO, PROMPT,
                   "kind: resource\nname: page\nuri: doc://page\ndescription: A page.\nhandler: {type: static, text: words}\n")

    def test_what_is_asked_and_recorded(self):
        pdp = self.point(self.socket)
        self.start()
        self.assertAllowed(self.pay(amount=7, payee="x", pin="1234"))
        (path, head, asked, raw), = pdp.asked
        self.assertEqual(path, PATH)
        self.assertEqual(list(asked), ["subject", "action", "resource", "context"])
        self.assertEqual(asked["subject"], {"type": "identity", "id": "bot", "properties": {
            "tenant": "acme", "authn": "key", "credential": self.key[4:16]}})
        self.assertEqual(asked["action"], {"name": "tools/call"})
        resource = asked["resource"]
        self.assertEqual((resource["type"], resource["id"]), ("tool", "pay"))
        self.assertEqual(resource["properties"]["annotations"], {"destructiveHint": True, "readOnlyHint": False})
        self.assertEqual(set(asked["context"]), {"transport", "argumentsDigest"})
        self.assertNotIn(b"1234", raw)
        begin, = self.crib.json("audit", "calls", "--tenant", "acme")
        self.assertEqual(head["x-request-id"], begin["call"])
        said, digest = (self.records(1001)[0][0][tag] for tag in (TAG_DECISION, TAG_DIGEST))
        self.assertRegex(said.decode(), r"^opa allow 200 \d+ms$")
        self.assertEqual(digest, crib.hashlib.sha256(raw).digest())
        # What is redacted makes no difference to what is asked, so nobody learns it from the digest.
        self.assertAllowed(self.pay(amount=7, payee="x", pin="9"))
        self.assertEqual(pdp.asked[1][3], raw)
        self.assertAllowed(self.pay(amount=8, payee="x", pin="9"))
        self.assertNotEqual(pdp.asked[2][2]["context"], asked["context"])
        # Another tenant's calls are nobody's business here.
        self.assertAllowed(self.pay(self.crib.http(self.other)))
        self.assertEqual(len(pdp.asked), 3)
        self.assertEqual([row for row in self.records(1001) if TAG_DECISION in row[0]], self.records(1001)[:3])

    def test_prompts_resources_and_completions_are_asked_about(self):
        pdp = self.point(self.socket)
        self.start()
        ways = (("prompts/get", {"name": "greet"}, "prompt", "greet"), ("resources/read", {"uri": "doc://page"}, "resource", "doc://page"))
        for method, params, kind, name in ways:
            pdp.say = ALLOW
            self.assertIn("result", self.peer.ask(method, params, crib.MODERN))
            asked = pdp.asked[-1][2]
            self.assertEqual((asked["action"]["name"], asked["resource"]["type"], asked["resource"]["id"]), (method, kind, name))
            pdp.say = DENY
            got = self.peer.ask(method, params, crib.MODERN)
            self.assertEqual((got["error"]["code"], got["error"]["message"]), (-32600, "Refused by policy"))
            self.assertEqual(self.peer.status, 200)
            pdp.say = {}
            self.assertUndecided(self.peer.ask(method, params, crib.MODERN))
        self.assertEqual(len(self.crib.json("audit", "calls", "--tenant", "acme", "--outcome", "denied")), 4)

    def test_an_alias_goes_around_no_policy(self):
        pdp = self.point(self.socket)
        self.crib.cli("--yes", "grant", "remove", "acme", "*")
        self.crib.cli("grant", "add", "acme", "pay", "--as", "harmless")
        self.start()
        self.assertAllowed(self.peer.call("harmless", {"amount": 1}, crib.MODERN))
        self.assertEqual(pdp.asked[0][2]["resource"]["id"], "pay")
        self.assertEqual(pdp.asked[0][2]["resource"]["properties"]["alias"], "harmless")

    def test_chosen_and_all_arguments(self):
        pdp = self.point(self.socket)
        self.start(", arguments: chosen")
        self.assertAllowed(self.pay(amount=7, payee="x", pin="1234"))
        self.assertEqual(pdp.asked[0][2]["context"]["arguments"], {"/amount": 7})
        self.crib.stop()
        self.start(", arguments: all")
        self.assertAllowed(self.pay(amount=7, payee="x", pin="1234"))
        self.assertEqual(pdp.asked[1][2]["context"]["arguments"], {"amount": 7, "payee": "x"})
        self.assertUndecided(self.pay(payee="x" * 70000))
        self.assertEqual(len(pdp.asked), 2)
        self.assertIn("more than 65536 bytes", self.denials()[0]["detail"])


class Answers(Case):
    def test_a_denial_and_its_reason(self):
        pdp = self.point(self.socket)
        self.start(", reason: /context/reason_user/403")
        pdp.say = DENY
        self.assertDenied(self.pay())
        pdp.say = {"decision": False, "context": {"reason_admin": {"en": "rule 7"}, "reason_user": {"403": "ask\u200b finance\x07" + "!" * 300}}}
        got = self.pay()
        text = got["result"]["content"][0]["text"]
        self.assertTrue(text.startswith("Refused by policy: ask"), text)
        self.assertNotIn("\u200b", text)
        self.assertNotIn("\x07", text)
        self.assertLessEqual(len(text.encode()), len("Refused by policy: ") + 200)
        second, first = self.denials()
        self.assertEqual((first["rule"], second["rule"]), ("pdp/opa", "pdp/opa"))
        self.assertIn("rule 7", second["detail"])
        self.assertEqual([row[0][TAG_DECISION].decode().split()[:3] for row in self.records(1003)], [["opa", "deny", "200"]] * 2)
        self.assertEqual(self.records(1001), [])

    def test_whatever_is_no_clear_permit_refuses(self):
        pdp = self.point(self.socket)
        self.start()
        ok = {"decision": True}
        wrong = {
            "no decision": {}, "no object": [ok], "a text": "true", "a text as decision": {"decision": "true"}, "one": {"decision": 1},
            "null": {"decision": None}, "no JSON": (200, {}, b"yes"), "nothing": (200, {}, b""),
            "a member twice": (200, {}, b'{"decision":false,"decision":true}'),
            "twice by an escape": (200, {}, b'{"decision":true,"\\u0064ecision":true}'),
            "behind it": (200, {}, b'{"decision":true} {"decision":true}'), "a mark in front": (200, {}, b'\xef\xbb\xbf{"decision":true}'),
            "other names": {"Decision": True, "allow": True, "result": True},
            "another type": (200, {"content-type": "text/html"}, b'{"decision":true}'),
            "no type": (200, {"content-type": None}, b'{"decision":true}'),
            "moved": (302, {"location": "/elsewhere"}, b'{"decision":true}'), "moved for good": (308, {"location": PATH}, b'{"decision":true}'),
            "created": (201, {}, b'{"decision":true}'), "no content": (204, {}, b""), "not found": (404, {}, b'{"decision":true}'),
            "forbidden": (403, {}, b'{"decision":true}'),
            "obligations": {"decision": True, "context": {"obligations": [{"id": "log"}]}},
            "obligations of another form": {"decision": True, "context": {"obligations": "log"}},
            "a context that is none": {"decision": True, "context": "fine"},
            "another subject": lambda asked: {"decision": True, "subject": {**asked["subject"], "id": "admin"}},
            "another resource": lambda asked: {"decision": True, "resource": {"type": "tool", "id": "echo"}},
            "another request": (200, {"x-request-id": "0190b8f0-0000-7000-8000-000000000000"}, b'{"decision":true}'),
            "too deep": (200, {}, b'{"decision":true,"context":' + b'{"a":' * 80 + b"1" + b"}" * 81),
            "64 KiB and one": (200, {}, b'{"decision":true,"x":"' + b"x" * (65537 - 24) + b'"}'),
        }
        reasons = ""
        for what, say in wrong.items():
            with self.subTest(what):
                pdp.say = say
                self.assertUndecided(self.pay())
                self.assertEqual(self.peer.status, 503)
                reasons += self.crib.ask("pdp status")[0]["why"] + "\n"
        self.assertEqual({row["rule"] for row in self.denials()}, {"pdp/opa/unreachable"})
        for row in self.denials():      # as many as are recorded one by one, which is more of them where this takes longer
            self.assertRegex(row["detail"], "pdp/opa/unreachable: (its?|the (answer|context of its answer)) ")
        for words in ("status 302", "decision is a string", "obligations", "something else than was asked", "occurs twice", "X-Request-ID",
                      "no application/json", "no object", "larger than 65536 bytes"):
            self.assertIn(words, reasons)
        for say in (ok, lambda asked: {"decision": True, "subject": asked["subject"]}, {"decision": True, "context": {"obligations": []}},
                    {"decision": True, "context": {"id": "0", "reason_admin": {"en": "fine"}}},
                    (200, {"content-type": "application/json; charset=utf-8"}, b'{"decision":true}'),
                    (200, {}, b'{"decision":true,"x":"' + b"x" * (65536 - 24) + b'"}')):
            pdp.say = say
            self.assertAllowed(self.pay())
        self.assertEqual(self.crib.rows("SELECT count(*) FROM rec WHERE kind = 1001"), [(6,)])

    def test_broken_connections_refuse(self):
        pdp = self.point(self.socket)
        self.start(", timeout: 200ms")
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
        broken = {
            "closed": None, "half an answer": head + b"content-length: 500\r\n\r\n{\"decision\":true}",
            "two lengths": head + b"content-length: 17\r\ncontent-length: 18\r\n\r\n{\"decision\":true}",
            "10 MB": head + b"content-length: 10485760\r\n\r\n" + b" " * 1048576,
            "2 GiB": head + b"content-length: 2147483648\r\n\r\n{\"decision\":true}",
            "an endless head": head + b"x: y\r\n" * 10000, "no HTTP": b"{\"decision\":true}\n",
        }
        for what, say in broken.items():
            with self.subTest(what):
                pdp.say = say
                self.assertUndecided(self.pay())
                pdp.say = ALLOW
                self.assertAllowed(self.pay())
        pdp.go.clear()                  # it hangs
        self.assertUndecided(self.pay())
        pdp.go.set()
        self.assertAllowed(self.pay())
        self.assertIn("in time", " ".join(row["detail"] for row in self.denials()))

    def test_nobody_there_and_back_again(self):
        self.start()
        self.assertUndecided(self.pay())
        self.assertEqual(self.denials()[0]["rule"], "pdp/opa/unreachable")
        row, = self.crib.json("pdp", "status")
        self.assertEqual((row["name"], row["state"], row["failed"], row["place"]), ("opa", "no answer", 1, str(self.socket)))
        pdp = self.point(self.socket)
        self.assertAllowed(self.pay())
        row, = self.crib.json("pdp", "status")
        self.assertEqual((row["state"], row["asked"], row["allowed"]), ("answers", 2, 1))
        pdp.say = None
        for _ in range(5):
            self.assertUndecided(self.pay())
        asked, pdp.say = len(pdp.asked), ALLOW
        self.assertUndecided(self.pay())        # it rests: nobody knocks at a door that was shut five times
        self.assertEqual(len(pdp.asked), asked)
        self.assertAllowed(self.pay(self.crib.http(self.other)))

    def test_several_must_all_allow(self):
        a, b = self.point(self.socket), self.point(self.crib.dir / "second.sock")
        self.start("", f"- {{name: local, socket: \"{self.crib.dir}/second.sock\"}}\n")
        self.assertAllowed(self.pay())
        self.assertEqual(self.records(1001)[0][0][TAG_DECISION].decode().count("allow"), 2)
        self.assertEqual(len(self.records(1001)[0][0][TAG_DIGEST]), 64)
        b.say = DENY
        self.assertDenied(self.pay())
        self.assertEqual(self.denials()[0]["rule"], "pdp/local")
        b.say, a.say = ALLOW, {}
        self.assertUndecided(self.pay())
        asked = len(a.asked)
        b.say = DENY                    # that of all tenants
        self.assertDenied(self.pay(self.crib.http(self.other)))
        self.assertEqual(len(a.asked), asked)


class Kept(Case):
    def test_answers_that_may_be_kept(self):
        pdp = self.point(self.socket)
        self.start(", cache_max: 1h")
        kept = {"cache-control": "max-age=600"}

        def asked(say, head, *peers, **arguments):
            """How often it was asked, the same call made twice by each."""
            before, pdp.say, pdp.head = len(pdp.asked), say, head
            for peer in peers or (self.peer,):
                for _ in range(2):
                    (self.assertAllowed if say == ALLOW else self.assertDenied)(self.pay(peer, **arguments))
            return len(pdp.asked) - before

        self.assertEqual(asked(ALLOW, {}, amount=1), 2)
        self.assertEqual(asked(ALLOW, kept, amount=2), 1)
        self.assertEqual(asked(DENY, kept, amount=3), 1)
        self.assertEqual(asked(ALLOW, {"cache-control": "max-age=600, no-store"}, amount=4), 2)
        self.assertEqual(asked(ALLOW, {"cache-control": ["max-age=600", "no-cache"]}, amount=5), 2)
        self.assertEqual(asked(ALLOW, {**kept, "age": "600"}, amount=6), 2)
        self.assertEqual(asked(ALLOW, kept, amount=7, pin="1"), 1)
        said = [row[0][TAG_DECISION].decode() for row in self.records(1001)][2:4]
        self.assertRegex(said[0], r"^opa allow 200 \d+ms$")
        self.assertEqual(said[1], "opa allow 200 kept")
        digests = [row[0][TAG_DIGEST] for row in self.records(1001)][2:4]
        self.assertEqual(digests[0], digests[1])
        # Another key of the same principal, another client, another principal: each is another question.
        same, other = self.crib.key("acme/bot"), self.crib.key("acme/second")
        self.assertEqual(asked(ALLOW, kept, self.crib.http(same), self.crib.http(other), amount=2), 2)
        line = self.crib.tcp(self.key)
        line.initialize()
        self.assertEqual(asked(ALLOW, kept, line, amount=2), 1)
        # A new version is another one.
        self.crib.tool(PAY.replace("Pays.", "Pays once more."))
        self.assertEqual(asked(ALLOW, kept, amount=2), 1)
        for forget in (("pdp", "flush"), ("reload",)):
            self.assertEqual(asked(ALLOW, kept, amount=2), 0)
            self.crib.cli(*forget)
            self.assertEqual(asked(ALLOW, kept, amount=2), 1)
        pdp.say, pdp.head = {}, kept    # what is no answer is never kept
        self.assertUndecided(self.pay(amount=9))
        self.assertEqual(asked(ALLOW, kept, amount=9), 1)

    def test_nothing_is_kept_that_the_configuration_does_not_allow(self):
        pdp = self.point(self.socket)
        pdp.head = {"cache-control": "max-age=600"}
        self.start()
        for _ in range(3):
            self.assertAllowed(self.pay())
        self.assertEqual(len(pdp.asked), 3)
        self.crib.stop()
        self.start(", cache_max: 200ms")
        self.assertAllowed(self.pay())
        crib.wait_for("another question", lambda: self.pay() and len(pdp.asked) > 4)

    def test_so_many_are_kept(self):
        """The cache has a bound: the oldest answer goes."""
        pdp = self.point(self.socket)
        pdp.head = {"cache-control": "max-age=600"}
        self.start(", cache_max: 1h, timeout: 5s")
        line = self.crib.tcp(self.key)
        line.initialize()
        for first in range(0, 4097, 32):
            batch = range(first, min(first + 32, 4097))
            for n in batch:
                line.send(line.request("tools/call", {"name": "pay", "arguments": {"amount": n}}, id=f"n{n}"))
            for n in batch:
                while True:
                    got = line.receive()
                    if "id" in got:
                        self.assertAllowed(got)
                        break
        self.assertEqual(self.crib.ask("pdp status")[0]["kept"], 4096)
        self.assertEqual(len(pdp.asked), 4097)
        line.call("pay", {"amount": 4096})
        self.assertEqual(len(pdp.asked), 4097)


class Waiting(Case):
    """What happens to a call while it is decided about."""

    def hang(self, more=", timeout: 5s"):
        pdp = self.point(self.socket)
        self.start(more)
        pdp.go.clear()
        line = self.crib.tcp(self.key)
        line.initialize()
        line.send(line.request("tools/call", {"name": "pay", "arguments": {}}, id="it"))
        crib.wait_for("the question", lambda: pdp.asked)
        return pdp, line

    def test_cancelled(self):
        pdp, line = self.hang()
        line.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "it"}})
        crib.wait_for("the record", lambda: self.crib.json("audit", "calls", "--tenant", "acme", "--outcome", "cancelled"))
        row, = self.crib.json("audit", "calls", "--tenant", "acme", "--outcome", "cancelled")
        self.assertEqual(row["rule"], "pdp/cancelled")
        pdp.go.set()
        line.ask("ping")
        self.assertEqual(self.records(1001), [])

    def test_revoked_meanwhile(self):
        pdp, line = self.hang()
        self.crib.cli("--yes", "key", "revoke", self.key[4:16])
        pdp.go.set()
        row, = crib.wait_for("the record", self.denials)
        self.assertEqual(row["rule"], "standing")
        self.assertEqual(self.records(1001), [])

    def test_taken_away_meanwhile(self):
        pdp, line = self.hang()
        self.crib.cli("--yes", "grant", "remove", "acme", "*")
        pdp.go.set()
        got = line.answer("it")
        self.assertIn("Unknown tool", json.dumps(got))
        self.assertEqual(self.records(1001), [])

    def test_a_round_is_asked_about_again(self):
        """A legacy caller answers within its call, and the run that follows is a run."""
        pdp = self.point(self.socket)
        self.crib.tool(crib.tool_yaml("asks", f"{{type: exec, argv: [/bin/sh, -c, {json.dumps(ASKS)}], stdin: json, output: stream}}"))
        self.start()
        for say, words in ((ALLOW, "done"), (DENY, "Refused by policy"), ({}, "The policy could not be asked")):
            pdp.say = ALLOW
            line = self.crib.tcp(self.key)
            line.initialize(caps={"elicitation": {}})
            line.send(line.request("tools/call", {"name": "asks", "arguments": {}}, id="it"))
            question = line.notice("elicitation/create")
            asked, pdp.say = len(pdp.asked), say
            line.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"yes": True}}})
            got = line.answer("it")["result"]
            self.assertEqual(len(pdp.asked), asked + 1)
            self.assertEqual((got["content"][0]["text"].strip(), got.get("isError", False)), (words, say != ALLOW))
            line.close()
        said = [row[0].get(TAG_DECISION, b"").decode().split()[:2] for row in self.records(1002)]
        self.assertEqual(said, [["opa", "allow"], ["opa", "deny"], ["opa", "none"]])
        outcomes = self.crib.rows("SELECT outcome FROM rec WHERE kind = 1002 ORDER BY id")
        self.assertEqual(outcomes, [(0,), (3,), (3,)])

    def test_the_server_stops(self):
        pdp, line = self.hang()
        self.assertEqual(self.crib.stop(), 0)
        self.assertEqual(self.records(1001), [])
        line.close()


class Tls(Case):
    def start_tls(self, ca=None, more="", host="localhost", context=None, prepare=None):
        authority = certs.Ca(self.crib.dir)
        cert, key = authority.sign("pdp", "DNS:localhost,IP:127.0.0.1")
        context = context or ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        pdp = self.point(tls=context)
        if prepare:
            prepare(pdp)
        self.conf = f"pdp:\n- {{name: far, url: \"https://{host}:{pdp.port}\", ca: \"{ca or authority.cert}\", timeout: 3s{more}}}\n"
        self.crib.start(self.conf)
        self.peer = self.crib.http(self.key)
        return pdp

    def test_over_tls_with_a_token(self):
        self.crib.cli("secret", "set", "pdp-token", stdin="geheim-4711")
        pdp = self.start_tls(more=", auth: {secret: pdp-token}")
        self.assertAllowed(self.pay())
        self.assertEqual(pdp.asked[0][1]["authorization"], "Bearer geheim-4711")
        self.crib.cli("secret", "set", "pdp-token", stdin="geheim-0815")
        self.assertAllowed(self.pay())
        self.assertEqual(pdp.asked[1][1]["authorization"], "Bearer geheim-0815")
        self.crib.cli("secret", "remove", "pdp-token", "--yes")
        self.assertUndecided(self.pay())
        self.assertIn("secret pdp-token", self.denials()[0]["detail"])
        self.assertNotIn("geheim", self.crib.log.read_text())

    def test_what_it_says_of_itself(self):
        """/.well-known/authzen-configuration: where evaluations are; who says that he is another one is not asked."""
        def metadata(pdp, point=None, path="/eval"):
            base = f"https://localhost:{pdp.port}"
            return {"policy_decision_point": point or base, "access_evaluation_endpoint": base + path}

        pdp = self.start_tls(prepare=lambda pdp: setattr(pdp, "metadata", metadata(pdp)))
        self.assertAllowed(self.pay())
        self.assertEqual(pdp.asked[0][0], "/eval")
        for wrong in ({"policy_decision_point": "https://pdp.example.com"}, {"access_evaluation_endpoint": "https://pdp.example.com/x"}, {}):
            self.crib.stop()
            pdp.metadata = {**metadata(pdp), **wrong} if wrong else {}
            before = len(pdp.asked)
            self.crib.start(self.conf)
            self.peer = self.crib.http(self.key)
            self.assertUndecided(self.pay())
            self.assertEqual(len(pdp.asked), before)
            self.assertIn("metadata", self.denials()[0]["detail"])
        self.crib.stop()
        self.crib.start(self.conf.replace("timeout", f"path: {PATH}, timeout"))         # it is told
        self.assertAllowed(self.pay(self.crib.http(self.key)))
        self.assertEqual(pdp.asked[-1][0], PATH)

    def test_a_certificate_is_shown(self):
        authority = certs.Ca(self.crib.dir, "clients")
        cert, key = authority.sign("toolcrib", "", use="clientAuth")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.cert)
        pdp = self.start_tls(more=f", auth: {{cert: \"{cert}\", key: \"{key}\"}}", context=context)
        self.assertAllowed(self.pay())
        self.crib.stop()
        other = certs.Ca(self.crib.dir, "strangers").sign("stranger", "", use="clientAuth")
        self.crib.start(self.conf.replace(str(cert), str(other[0])).replace(str(key), str(other[1])))
        self.assertUndecided(self.pay(self.crib.http(self.key)))
        self.assertEqual(len(pdp.asked), 1)

    def test_a_certificate_of_somebody_else(self):
        (self.crib.dir / "others").mkdir()
        pdp = self.start_tls(ca=certs.Ca(self.crib.dir / "others").cert)
        self.assertUndecided(self.pay())
        self.assertEqual(pdp.asked, [])
        self.assertIn("certificate", self.denials()[0]["detail"])


class Configuration(Case):
    def refused(self, text):
        path = self.crib.config(f"pdp:\n{text}\n")
        done = crib.subprocess.run([str(crib.BUILD / "toolcribd"), "--store", str(self.crib.store), "-c", str(path), "--check-config"],
                                   capture_output=True, text=True, env=self.crib.env)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stderr + done.stdout

    def test_what_is_wrong_is_said(self):
        for text, words in (
                ("- {name: a}", "a url, or a socket"), ("- {name: a, url: 'https://x', socket: /run/x}", "a url, or a socket"),
                ("- {name: a, url: 'http://pdp.example.com'}", "must be reached by https"), ("- {name: A, socket: /run/x}", "is no name"),
                ("- {name: a, socket: run/x}", "absolute path"), ("- {name: a, socket: /run/../x}", "absolute path"),
                ("- {name: a, socket: /run/x, timeout: 6s}", "10ms to 5s"), ("- {name: a, socket: /run/x, timeout: 9ms}", "10ms to 5s"),
                ("- {name: a, socket: /run/x, cache_max: 25h}", "0s to 24h"), ("- {name: a, socket: /run/x, arguments: some}", "must be one of"),
                ("- {name: a, socket: /run/x, auth: {secret: a b}}", "no name of a secret"), ("- {name: a, socket: /run/x, auth: {}}", "cert and key"),
                ("- {name: a, socket: /run/x, reason: context}", "JSON pointer"), ("- {name: a, socket: /run/x, path: x}", "a path on the server"),
                ("- {name: a, socket: /run/x, token: y}", "token"), ("- {name: a, socket: /run/x}\n- {name: a, socket: /run/y}", "there twice"),
                ("- {name: a, url: 'https://x/?y'}", "no query"), ("- {name: " + "a" * 25 + ", socket: /run/x}", "at most 24 bytes"),
                ("  a: b", "must be a list"), ("".join(f"- {{name: p{i}, socket: /run/x}}\n" for i in range(17)), "at most 16")):
            self.assertIn(words, self.refused(text), text)

    def test_a_socket_that_others_could_replace(self):
        folder = self.crib.dir / "open"
        folder.mkdir()
        for mode in (0o775, 0o757, 0o1777):
            folder.chmod(mode)
            self.assertIn("may be changed by others", self.refused(f"- {{name: a, socket: \"{folder}/pdp.sock\"}}"))
        folder.chmod(0o755)
        self.socket = folder / "pdp.sock"
        pdp = self.point(self.socket)
        self.start()
        self.assertAllowed(self.pay())
        folder.chmod(0o777)             # also when that comes later
        self.assertUndecided(self.pay())
        self.assertEqual(len(pdp.asked), 1)


class Commands(Case):
    def test_check_asks_and_runs_nothing(self):
        pdp = self.point(self.socket)
        self.start()
        pdp.say = {"decision": False, "context": {"reason_admin": {"en": "too much"}}}
        row, = self.crib.json("pdp", "check", "acme", "bot", "pay", "amount=4800")
        self.assertEqual((row["pdp"], row["decision"], row["status"]), ("opa", "deny", 200))
        self.assertIn("too much", row["why"])
        self.assertEqual(json.loads(row["request"]), pdp.asked[0][2])
        self.assertEqual(pdp.asked[0][2]["subject"]["properties"], {"tenant": "acme", "authn": "uid"})
        self.assertEqual(self.records(1001) + self.records(1003), [])
        for words, said in ((("acme", "nobody", "pay"), "nobody"), (("acme", "bot", "nothing"), "has no such tool"),
                            (("other", "bot", "pay"), "nobody is to be asked")):
            done = self.crib.run("pdp", "check", *words)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(said, done.stderr)
        self.assertIn("answers forgotten: 0", self.crib.cli("pdp", "flush"))

    def test_a_call_of_a_command_is_asked_about_too(self):
        pdp = self.point(self.socket)
        pdp.say = DENY
        self.start()
        done = self.crib.run("call", "acme", "pay", "amount=1")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Refused by policy", done.stderr)
        self.crib.stop()
        self.crib.config_alone(f"pdp:\n- {{name: opa, socket: \"{self.socket}\"}}\n")
        done = self.crib.run("call", "acme", "pay", "amount=1")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Refused by policy", done.stderr)
        self.assertEqual(len(pdp.asked), 2)
        self.assertEqual(self.records(1001), [])


if __name__ == "__main__":
    crib.main()
