"""Every message that the server sends, in each revision and on each transport, against that revision's schema.json.

MCP_SCHEMA_DIR names the folder that holds REVISION/schema.json as the specification publishes them; without it the
test is skipped.  Beyond the schema: nothing is sent that the revision does not name (MCP J-13, B-14).

The validator is our own (validate.c).  With TOOLCRIB_SECOND, a program of node, that one judges all of it too, and what
becomes of each message when one thing in it is broken: the two must always agree."""
import copy
import json
import os
import pathlib
import signal
import subprocess
import sys

import crib

SCHEMAS = os.environ.get("MCP_SCHEMA_DIR") or crib.beside("mcp-schema")
SECOND = os.environ.get("TOOLCRIB_SECOND")
SECOND_SECONDS = 120
REVS = [*crib.REVS, crib.MODERN]
TRANSPORTS = ["tcp", "unix", "stdio", "http", "sse"]

RESULTS = {"initialize": "InitializeResult", "ping": "EmptyResult", "logging/setLevel": "EmptyResult",
           "server/discover": "DiscoverResult", "tools/list": "ListToolsResult", "tools/call": "CallToolResult",
           "subscriptions/listen": "SubscriptionsListenResult", "prompts/list": "ListPromptsResult",
           "prompts/get": "GetPromptResult", "resources/list": "ListResourcesResult",
           "resources/templates/list": "ListResourceTemplatesResult", "resources/read": "ReadResourceResult",
           "resources/subscribe": "EmptyResult", "resources/unsubscribe": "EmptyResult",
           "completion/complete": "CompleteResult"}
NOTICES = {"notifications/progress": "ProgressNotification", "notifications/message": "LoggingMessageNotification",
           "notifications/tools/list_changed": "ToolListChangedNotification",
           "notifications/prompts/list_changed": "PromptListChangedNotification",
           "notifications/resources/list_changed": "ResourceListChangedNotification",
           "notifications/resources/updated": "ResourceUpdatedNotification",
           "notifications/cancelled": "CancelledNotification",
           "notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification"}
REQUESTS = {"sampling/createMessage": "CreateMessageRequest", "roots/list": "ListRootsRequest",
            "elicitation/create": "ElicitRequest", "ping": "PingRequest"}
ERRORS = {-32020: "HeaderMismatchError", -32021: "MissingRequiredClientCapabilityError",
          -32022: "UnsupportedProtocolVersionError"}
ANSWERS = {"sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"},
           "roots/list": {"roots": [{"uri": "file:///srv"}]},
           "elicitation/create": {"action": "accept", "content": {"name": "Alice"}}}
CAPS = {"sampling": {}, "roots": {}, "elicitation": {}}

# What every tour must have met, so that a silent server is no good one.
COMMON = {"tools/list", "tools/call", "notifications/progress", "notifications/message",
          "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
          "notifications/resources/updated", "prompts/list", "prompts/get", "resources/list", "resources/templates/list",
          "resources/read", "completion/complete", -32700, -32600, -32601, -32602, 4290}
LEGACY = COMMON | {"initialize", "ping", "logging/setLevel", "sampling/createMessage", "roots/list", "resources/subscribe",
                   "resources/unsubscribe", -32002}
MET = {"2024-11-05": LEGACY, "2025-03-26": LEGACY, "2025-06-18": LEGACY | {"elicitation/create"},
       "2025-11-25": LEGACY | {"elicitation/create"},
       crib.MODERN: COMMON | {"server/discover", "subscriptions/listen", "notifications/subscriptions/acknowledged",
                              "notifications/cancelled", "InputRequiredResult", -32020, -32021, -32022}}

TOOLS = """name: kinds
title: All kinds
description: Returns every kind of content.
inputSchema: {type: object, properties: {n: {type: integer}}, additionalProperties: false, $defs: {x: {type: string}}}
annotations: {title: Kinds, readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false}
icons: [{src: "https://example.com/icon.png", mimeType: image/png, sizes: ["48x48"]}]
_meta: {com.example/shelf: 4}
handler:
  type: static
  result:
    content:
    - {type: text, text: plain, annotations: {audience: [user], priority: 0.5, lastModified: "2025-01-12T15:00:58Z"}}
    - {type: image, data: aGVsbG8=, mimeType: image/png, _meta: {com.example/shelf: 4}}
    - {type: audio, data: aGVsbG8=, mimeType: audio/wav}
    - {type: resource, resource: {uri: "test://a", mimeType: text/plain, text: embedded}}
    - {type: resource, resource: {uri: "test://b", blob: aGVsbG8=}}
    - type: resource_link
      uri: "test://c"
      name: c
      title: The c
      description: A link.
      mimeType: text/plain
      size: 12
      icons: [{src: "https://example.com/icon.png"}]
    _meta: {com.example/shelf: 4}
---
name: structured
description: Returns an object.
inputSchema: {type: object}
outputSchema: {type: object, properties: {n: {type: number}}, required: [n]}
handler: {type: static, result: {content: [], structuredContent: {n: 1.5}}}
---
name: structured_list
description: "Returns an array, which only the newest revision can carry as it is."
inputSchema: {type: object}
outputSchema: {type: array, items: {type: integer}}
handler: {type: static, result: {content: [], structuredContent: [1, 2]}}
---
name: structured_null
description: Returns null as its value.
inputSchema: {type: object}
outputSchema: {type: "null"}
handler: {type: static, result: {content: [], structuredContent: null}}
---
name: broken_output
description: Breaks its own schema.
inputSchema: {type: object}
outputSchema: {type: object, properties: {n: {type: number}}, required: [n]}
handler: {type: static, result: {content: [], structuredContent: {n: x}}}
---
name: fails
description: Fails.
inputSchema: {type: object}
handler: {type: static, result: {content: [{type: text, text: no}], isError: true}}
---
name: wants
description: Wants an argument.
inputSchema: {type: object, properties: {location: {type: string}}, required: [location]}
handler: {type: static, text: there}
---
name: needs_sampling
description: Needs a capability.
inputSchema: {type: object}
handler: {type: static, text: sampled}
needs: {client: [sampling]}
---
name: limited
description: May be called once a day.
inputSchema: {type: object}
handler: {type: static, text: once}
limits: {rate: 1/day}
"""
HOSTED = {
    "prompt": """kind: prompt
name: all
title: All of it
description: Every member.
arguments:
- {name: who, title: Who, description: For whom., required: true}
- {name: style}
icons: [{src: "https://example.com/icon.png", mimeType: image/png, sizes: ["48x48"], theme: dark}]
_meta: {com.example/shelf: 4}
complete: {who: [Alice, Bob]}
handler:
  type: static
  result:
    description: All of it
    messages:
    - {role: user, content: {type: text, text: "for {/who}", annotations: {audience: [user], priority: 0.5}}}
    - {role: assistant, content: {type: image, data: aGVsbG8=, mimeType: image/png}}
    - {role: user, content: {type: audio, data: aGVsbG8=, mimeType: audio/wav}}
    - {role: user, content: {type: resource, resource: {uri: "test://a", text: embedded, _meta: {com.example/shelf: 4}}}}
    - {role: user, content: {type: resource_link, uri: "test://c", name: c, icons: [{src: "https://example.com/i.png"}]}}
    _meta: {com.example/shelf: 5}
""",
    "resource": """kind: resource
name: all
uri: test://all
title: All of it
description: Every member.
mimeType: text/plain
size: 5
annotations: {audience: [user, assistant], priority: 0.5, lastModified: "2025-01-12T15:00:58Z"}
icons: [{src: "https://example.com/icon.png"}]
_meta: {com.example/shelf: 4}
handler:
  type: static
  result: {contents: [{text: hello, _meta: {com.example/shelf: 4}}, {uri: "test://b", mimeType: image/png, blob: aGVsbG8=}]}
---
kind: resourceTemplate
name: any
uriTemplate: test://any/{x}
title: Any of it
description: Every member.
mimeType: text/plain
annotations: {audience: [user], lastModified: "2025-01-12T15:00:58Z"}
icons: [{src: "https://example.com/icon.png"}]
_meta: {com.example/shelf: 4}
complete: {x: [y]}
handler: {type: static, text: "{/x}"}
"""}
REPORTS = r"""read -r job
echo '{"log":{"level":"warning","data":{"seen":true},"logger":"shelf"}}'
echo '{"progress":{"done":1}}'
sleep 0.02
echo '{"progress":{"done":2.5,"total":3,"message":"nearly"}}'
echo '{"content":{"type":"text","text":"reported"}}'
"""
ERROR = r"""read -r job
echo '{"error":{"code":-32002,"message":"no such thing","data":{"uri":"test://x"}}}'
"""
ASKS = r"""read -r job
case $job in
*'"answers"'*) echo '{"content":{"type":"text","text":"answered"}}' ;;
*) echo '{"ask":{"requests":{"q":QUESTION},"state":"one"}}' ;;
esac
"""
QUESTIONS = {
    "sampling/createMessage": {"messages": [{"role": "user", "content": {"type": "text", "text": "The capital?"}}],
                               "maxTokens": 10},
    "roots/list": {},
    "elicitation/create": {"message": "Who?", "requestedSchema": {
        "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
}


class Judge:
    """Our validator in a process of its own; it keeps every question for a second opinion."""

    def __init__(self):
        self.child = subprocess.Popen([str(crib.BUILD / "tests/integ/validate")], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
        self.asked = {}

    def ask(self, reference, value):
        """None when value is valid, else what is wrong."""
        question = f"{reference}\t{json.dumps(value)}"
        if question not in self.asked:
            self.child.stdin.write(question + "\n")
            self.child.stdin.flush()
            self.asked[question] = self.child.stdout.readline().rstrip("\n") or "no answer"
        answer = self.asked[question]
        return None if answer == "valid" else answer

    def close(self):
        self.child.stdin.close()
        self.child.stdout.close()
        return self.child.wait(crib.DEADLINE)


def broken_values(value):
    """value with one thing in it broken, in turn: a member left out or added, a value of another type."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield {key: one for key, one in value.items() if key != name}
            yield from ({**value, name: one} for one in broken_values(inner))
        yield {**value, "unheard": 1}
        yield [value]
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from (value[:at] + [one] + value[at + 1:] for one in broken_values(inner))
        yield {"list": value}
    else:
        yield f"not {value}"
        yield -1.5
        yield None


def shape(value):
    """What two messages of one kind have in common: a second one teaches nothing when it is broken."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    return [shape(inner) for inner in value] if isinstance(value, list) else type(value).__name__


class Schema:
    """One revision's definitions, twice: as published, and with every object closed that lists its members."""

    def __init__(self, rev, judge, folder):
        path = pathlib.Path(SCHEMAS) / rev / "schema.json"
        document = json.loads(path.read_text())
        self.rev, self.judge = rev, judge
        self.place = "$defs" if "$defs" in document else "definitions"
        self.published = document[self.place]
        closed = copy.deepcopy(document)
        for name, one in closed[self.place].items():
            if one.get("type") == "object" and "properties" in one and not name.endswith("MetaObject"):
                one["additionalProperties"] = False
        self.files = [path, folder / f"{rev}.closed.json"]
        self.files[1].write_text(json.dumps(closed))

    def check(self, name, value, envelope=False):
        """envelope: any result may be inside, so it stays open."""
        if name not in self.published:
            raise AssertionError(f"{self.rev} has no {name}: {value}")
        for path in self.files[:1] if envelope else self.files:
            wrong = self.judge.ask(f"{path}#/{self.place}/{name}", value)
            if wrong:
                raise AssertionError(f"{path.name} of {self.rev}, {name}: {wrong}\nin {value}")


class Oracle:
    """Judges what peers receive, and remembers which kinds have come."""

    def __init__(self, folder):
        self.judge = Judge()
        self.schemas = {rev: Schema(rev, self.judge, folder) for rev in REVS}
        self.met = {rev: set() for rev in REVS}
        self.count = 0

    def watch(self, peer, rev, *sent):
        """Look at all that peer receives from now on."""
        methods, send, receive = {}, peer.send if hasattr(peer, "send") else None, peer.receive

        def note(message):
            if "method" in message and "id" in message:
                methods[json.dumps(message["id"])] = message["method"]

        def spy_send(message):
            for one in message if isinstance(message, list) else [message]:
                note(one)
            send(message)

        def spy_receive(*deadline):
            got = receive(*deadline)
            for one in got if isinstance(got, list) else [got] if got is not None else []:
                self.message(rev, one, methods)
            return got

        for message in sent:
            note(message)
        peer.send, peer.receive = spy_send, spy_receive
        return peer

    def message(self, rev, message, methods):
        schema = self.schemas[rev]
        self.count += 1
        if "method" in message:
            kinds = REQUESTS if "id" in message else NOTICES
            schema.check("JSONRPCRequest" if "id" in message else "JSONRPCNotification", message, envelope=True)
            # The definitions up to 2025-06-18 leave the envelope out.
            drop = {"jsonrpc", "id"} - set(schema.published[kinds[message["method"]]]["properties"])
            schema.check(kinds[message["method"]], {key: value for key, value in message.items() if key not in drop})
            self.met[rev].add(message["method"])
        elif "error" in message:
            self.error(rev, schema, message)
        else:
            name = "JSONRPCResultResponse" if "JSONRPCResultResponse" in schema.published else "JSONRPCResponse"
            schema.check(name, message, envelope=True)
            method = methods.pop(json.dumps(message["id"]))
            name = RESULTS[method]
            if message["result"].get("resultType") == "input_required":
                name = "InputRequiredResult"
                self.met[rev].add(name)
            schema.check(name, message["result"])
            self.met[rev].add(method)

    def error(self, rev, schema, message):
        code = message["error"]["code"]
        if rev <= "2025-06-18" and message.get("id", 0) is None:
            # The id was unreadable and these revisions cannot leave it out: JSON-RPC's own shape (MCP J-07, B-05).
            message = {**message, "id": 0}
        schema.check("JSONRPCErrorResponse" if "JSONRPCErrorResponse" in schema.published else "JSONRPCError", message)
        if rev == crib.MODERN:
            if code in ERRORS:
                schema.check(ERRORS[code], message)
            assert code not in (-32002, -32042) and not -32019 <= code <= -32000, message       # MCP E-03, E-08
        self.met[rev].add(code)


class SchemaOracle(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init().start()
        c.tool(TOOLS)
        for name, text in [("reports", REPORTS), ("errs", ERROR)] + [
                (method.replace("/", "_"), ASKS.replace("QUESTION", json.dumps({"method": method, "params": params})))
                for method, params in QUESTIONS.items()]:
            (c.dir / f"{name}.sh").write_text(text)
            handler = f"{{type: exec, argv: [/bin/sh, {c.dir}/{name}.sh], stdin: json, output: stream}}"
            c.tool(crib.tool_yaml(name, handler), f"{name}.yaml")
        for noun, text in HOSTED.items():
            self.add(noun, text)
        self.key = c.tenant("acme", "*", "prompt:*", "resource:*")
        self.oracle = Oracle(c.dir)
        self.addCleanup(self.oracle.judge.close)

    def add(self, noun, text):
        path = self.crib.dir / f"{noun}.yaml"
        path.write_text(text)
        self.crib.cli(noun, "add", path)

    def hosted(self, peer, claim):
        for method in ("prompts/list", "resources/list", "resources/templates/list"):
            peer.ask(method, rev=claim)
        for method, params in (("prompts/get", {"name": "all", "arguments": {"who": "Eve"}}),
                               ("prompts/get", {"name": "all"}), ("prompts/get", {"name": "none"}),
                               ("resources/read", {"uri": "test://all"}), ("resources/read", {"uri": "test://any/5"}),
                               ("resources/read", {"uri": "test://none"}), ("resources/read", {"uri": "rubbish"}),
                               ("completion/complete", {"ref": {"type": "ref/prompt", "name": "all"},
                                                        "argument": {"name": "who", "value": "a"}}),
                               ("completion/complete", {"ref": {"type": "ref/resource", "uri": "test://any/{x}"},
                                                        "argument": {"name": "x", "value": ""}}),
                               ("completion/complete", {})):
            peer.ask(method, params, claim)
        if not claim:
            for method, uri in (("subscribe", "any/5"), ("unsubscribe", "any/5"), ("subscribe", "none"), ("subscribe", "all")):
                peer.ask(f"resources/{method}", {"uri": f"test://{uri}"})

    def peer(self, transport, rev):
        peer = self.oracle.watch(getattr(self.crib, transport)(self.key), rev)
        if rev != crib.MODERN:
            peer.initialize(rev, CAPS)
        return peer

    def converse(self, peer, rev, message):
        """Send a call and answer the server's questions until its answer comes."""
        source = peer
        if isinstance(peer, crib.Http):
            source = self.oracle.watch(peer.stream(message), rev, message)
        else:
            peer.send(message)
        while True:
            got = source.receive()
            self.assertIsNotNone(got, message)
            if "method" in got and "id" in got:
                peer.send({"jsonrpc": "2.0", "id": got["id"], "result": ANSWERS[got["method"]]})
            elif got.get("id") == message["id"]:
                break
        if source is not peer:
            source.close()
        return got

    def ask_tool(self, peer, rev, method, claim):
        name = method.replace("/", "_")
        message = peer.request("tools/call", {"name": name}, claim, CAPS)
        if not claim:
            got = self.converse(peer, rev, message)["result"]
        else:
            first = peer.call(name, rev=claim, caps=CAPS)["result"]
            self.assertEqual(first["resultType"], "input_required")
            got = peer.call(name, rev=claim, caps=CAPS, requestState=first["requestState"],
                            inputResponses={"q": ANSWERS[method]})["result"]
        told = method != "elicitation/create" or rev >= "2025-06-18"    # MCP X-01
        self.assertEqual(got["content"][0]["text"] == "answered", told, got)

    def calls(self, peer, rev, claim):
        for tool in ("kinds", "structured", "structured_list", "structured_null", "broken_output", "fails", "wants",
                     "needs_sampling", "errs", "no_such_tool"):
            peer.call(tool, rev=claim, caps=CAPS)
        peer.call("wants", {"location": 5}, claim)
        if claim:
            peer.call("needs_sampling", rev=claim)
        while "error" not in peer.call("limited", rev=claim):
            pass
        meta = {"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"}
        message = peer.request("tools/call", {"name": "reports", "_meta": meta}, claim)
        self.assertIn("result", self.converse(peer, rev, message))
        for method in QUESTIONS:
            self.ask_tool(peer, rev, method, claim)

    def refusals(self, peer, claim):
        for method, params in (("unknown/method", {}), ("tasks/list", {}), ("initialize", {}), ("ping", {}),
                               ("logging/setLevel", {"level": "loud"}), ("tools/list", {"cursor": "rubbish"}),
                               ("tools/call", {}), ("tools/call", {"name": "wants", "arguments": []}),
                               ("subscriptions/listen", {})):
            peer.ask(method, params, claim)
        if claim:
            peer.ask("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "v999"}}, claim)
            peer.ask("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2025-06-18"}}, claim)

    def broken(self, transport, rev):
        """What cannot be read: each on a peer of its own, since some of it ends the connection."""
        for text in ('{"jsonrpc":"2.0","id":1,"method":', '{"jsonrpc":"2.0","id":1.5,"method":"ping"}', "[]", '"text"',
                     '{"jsonrpc":"1.0","id":1,"method":"ping"}', '[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]',
                     '{"jsonrpc":"2.0","id":3,"id":4,"method":"ping"}',
                     '{"jsonrpc":"2.0","id":5,"method":"ping","params":[]}'):
            # An unreadable message says no era: it is answered for the revision that the connection speaks.
            spoken = crib.REVS[-1] if rev == crib.MODERN else rev
            peer = self.peer(transport, spoken)
            if transport == "http":
                _, headers, body = peer.post(text, {**peer.headers(), **self.modern_headers(rev)})
                if headers["Content-Type"] == "application/json":
                    got = json.loads(body)
                    for one in got if isinstance(got, list) else [got]:
                        self.oracle.message(rev, one, {"1": "tools/list"})
            elif transport == "sse":
                self.assertEqual(peer.post(text)[0], 202)
                self.hear(peer, text)
            elif transport == "stdio":
                peer.child.stdin.write(text.encode() + b"\n")
                peer.child.stdin.flush()
                self.hear(peer, text)
            else:
                peer.raw(text.encode() + b"\n")
                self.hear(peer, text)
            peer.close()

    def hear(self, peer, text):
        """The answer to a raw text: its id is not known to the spy's table."""
        try:
            peer.receive()
        except KeyError:
            self.assertIn("tools/list", text)

    @staticmethod
    def modern_headers(rev):
        return {"MCP-Protocol-Version": rev, "Mcp-Method": "ping"} if rev == crib.MODERN else {}

    def modern_http(self, peer):
        """Refusals that only the head of a request can earn."""
        message = peer.request("tools/call", {"name": "wants"}, crib.MODERN)
        good = peer.headers(message)
        for header, value in (("Mcp-Method", "tools/list"), ("Mcp-Name", "other"), ("MCP-Protocol-Version", "2025-11-25"),
                              ("MCP-Protocol-Version", "v999")):
            self.record_post(peer, message, {**good, header: value})
        for broken in ({}, {"_meta": {}}, {"_meta": {"io.modelcontextprotocol/protocolVersion": 5}}):
            self.record_post(peer, {**message, "params": broken}, good)

    def record_post(self, peer, message, headers):
        self.oracle.message(crib.MODERN, json.loads(peer.post(json.dumps(message), headers)[2]), {})

    def tour(self, transport, rev):
        claim = rev if rev == crib.MODERN else None
        peer = self.peer(transport, rev)
        if claim:
            peer.ask("server/discover", rev=claim)
        else:
            peer.ask("ping")
            peer.ask("logging/setLevel", {"level": "info"})
        peer.ask("tools/list", rev=claim)
        self.calls(peer, rev, claim)
        self.hosted(peer, claim)
        self.refusals(peer, claim)
        if claim and transport == "http":
            self.modern_http(peer)
        self.broken(transport, rev)
        return peer

    def listeners(self, peers, rev):
        """Those of the peers, or streams of theirs, that are told of changes."""
        for transport, peer in peers.items():
            if rev == crib.MODERN:
                message = peer.request("subscriptions/listen", {"notifications": {
                    "toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True,
                    "resourceSubscriptions": ["test://all", "test://none"]}}, rev)
                if transport == "http":
                    peer = self.oracle.watch(peer.stream(message), rev, message)
                else:
                    peer.send(message)
                peer.notice("notifications/subscriptions/acknowledged")
            elif transport == "http":
                peer = self.oracle.watch(peer.stream(), rev)
            yield peer

    def test_every_message_is_valid_in_its_revision(self):
        c = self.crib
        for rev in REVS:
            with self.subTest(rev=rev):
                peers = {transport: self.tour(transport, rev) for transport in TRANSPORTS}
                told = list(self.listeners(peers, rev))
                more = crib.tool_yaml("more", "{type: builtin, function: echo}", extra=f"title: As of {rev}\n")
                c.tool(more, "more.yaml")
                for noun, text in HOSTED.items():
                    self.add(noun, text.replace("title: All of it", f"title: As of {rev}"))
                for peer in told:
                    for what in ("tools/list_changed", "prompts/list_changed", "resources/list_changed", "resources/updated"):
                        peer.notice(f"notifications/{what}")
                if rev == crib.MODERN:                                  # MCP B-20
                    c.daemon.send_signal(signal.SIGTERM)
                    for peer in told:
                        while peer.receive() is not None:
                            pass
                for peer in [*peers.values(), *told]:
                    peer.close()
                self.assertEqual(MET[rev] - self.oracle.met[rev], set(), "never met")
        print(f"{self.oracle.count} messages", file=sys.stderr)
        if SECOND:
            self.second_opinion(self.oracle.judge)

    def second_opinion(self, judge):
        shapes = set()
        for question in list(judge.asked):
            reference, _, text = question.partition("\t")
            value = json.loads(text)
            key = f"{reference}\t{json.dumps(shape(value))}"
            if key not in shapes:
                shapes.add(key)
                for broken in broken_values(value):
                    judge.ask(reference, broken)
        done = subprocess.run(["node", SECOND], input="".join(f"{question}\n" for question in judge.asked),
                              capture_output=True, text=True, timeout=SECOND_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        theirs = done.stdout.splitlines()
        self.assertEqual(len(theirs), len(judge.asked))
        differ = [f"{question[:2000]}\nours: {ours}\ntheirs: {their}"
                  for (question, ours), their in zip(judge.asked.items(), theirs) if (ours == "valid") != (their == "valid")]
        valid = sum(ours == "valid" for ours in judge.asked.values())
        print(f"{len(theirs)} verdicts, {valid} of them valid; {len(differ)} differ", file=sys.stderr)
        self.assertEqual(len(differ), 0, "\n".join(differ[:5]))
        self.assertGreater(len(theirs) - valid, len(theirs) // 4, "too little was refused to compare")


if __name__ == "__main__":
    if not SCHEMAS:
        print("skipped: MCP_SCHEMA_DIR names no folder with REVISION/schema.json of "
              "https://github.com/modelcontextprotocol/modelcontextprotocol (its folder schema), nor is one in ../shared/mcp-schema")
        sys.exit(77)
    crib.main()
