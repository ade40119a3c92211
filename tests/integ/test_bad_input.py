"""Bad input, each with a clear error and no harm: afterwards the same daemon still answers."""
import json
import os
import resource
import socket

import crib

SAMPLE = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
          "params": {"name": "echo", "arguments": {"text": "žluťoučký \u0001 \"x\""},
                     "_meta": {"io.modelcontextprotocol/protocolVersion": crib.MODERN,
                               "io.modelcontextprotocol/clientCapabilities": {}}}}


class BadInput(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "*")

    def alive(self):
        peer = self.crib.http(self.key)
        self.assertEqual(peer.call("echo", {"text": "alive"}, crib.MODERN)["result"]["content"][0]["text"], "alive")
        peer.close()

    # --- JSON and JSON-RPC

    def test_json_cut_at_every_byte(self):
        self.crib.start()
        text = json.dumps(SAMPLE, ensure_ascii=False).encode()
        peer = self.crib.http(self.key)
        headers = peer.headers(SAMPLE)
        for cut in range(1, len(text)):
            status, _, body = peer.post(text[:cut], headers)
            self.assertEqual((status, json.loads(body)["error"]["code"]), (400, -32700), text[:cut])
        status, _, body = peer.post(text, headers)
        self.assertEqual(status, 200)
        stdio = self.crib.stdio(self.key)
        counters = self.crib.json("status")[0]["counters"]
        self.assertEqual(counters["json_refused"], len(text) - 1)
        for cut in range(1, len(text), 7):
            stdio.child.stdin.write(text[:cut] + b"\n")
            stdio.child.stdin.flush()
            self.assertEqual(stdio.receive()["error"]["code"], -32700)
        self.assertIn("result", stdio.ask("ping"))
        self.assertEqual(stdio.close(), 0)
        peer.close()

    def test_a_line_that_is_not_json_closes_a_socket(self):
        """MCP B-06: a browser's POST to a local port must not reach its body."""
        self.crib.start()
        for make in (self.crib.tcp, self.crib.unix):
            peer = make(self.key)
            peer.raw(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n" + json.dumps(SAMPLE).encode() + b"\n")
            self.assertEqual(peer.receive()["error"]["code"], -32700)
            self.assertTrue(peer.closed())
            peer.close()
        self.assertEqual(self.crib.json("audit", "calls", "--tenant", "acme"), [])
        self.alive()

    def test_wrong_shapes_are_named(self):
        self.crib.start()
        peer = self.crib.stdio(self.key)
        meta = SAMPLE["params"]["_meta"]
        for message, code in (
                ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, -32600),
                ({"id": 1, "method": "ping"}, -32600),
                ({"jsonrpc": "2.0", "id": None, "method": "ping"}, -32600),
                ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, -32600),
                ({"jsonrpc": "2.0", "id": {}, "method": "ping"}, -32600),
                ({"jsonrpc": "2.0", "id": 1, "method": 5}, -32600),
                ([], -32600),
                ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}, -32602),
                ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"_meta": meta}}, -32602),
                ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 7, "_meta": meta}}, -32602),
                ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": [], "_meta": meta}}, -32602),
                ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": None, "_meta": meta}}, -32602),
                ({"jsonrpc": "2.0", "id": 1, "method": "no/such", "params": {"_meta": meta}}, -32601),
                ({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, -32602)):
            peer.send(message)
            got = peer.receive()
            self.assertEqual(got["error"]["code"], code, message)
            self.assertTrue(got["error"]["message"])
        for text, code in ((b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32600),
                           (b'{"jsonrpc":"2.0","id":1,"\\u0069d":2,"method":"ping"}', -32600),
                           (b"\xef\xbb\xbf{}", -32700), (b'{"jsonrpc":"2.0","id":"\xff","method":"ping"}', -32700),
                           (b"[" * 65 + b"]" * 65, -32700), (b"[" * 100000, -32700)):
            peer.child.stdin.write(text + b"\n")
            peer.child.stdin.flush()
            self.assertIn(peer.receive()["error"]["code"], (code, -32600), text[:40])
        self.assertIn("result", peer.ask("ping"))
        self.assertEqual(peer.close(), 0)

    def test_arguments_that_break_the_schema_by_revision(self):
        """MCP D: a protocol error up to 2025-06-18, a tool error with the same sentence from 2025-11-25 on."""
        self.crib.start()
        peer = self.crib.tcp(self.key)
        for rev in crib.REVS[:3]:
            peer.initialize(rev)
            got = peer.call("echo", {})["error"]
            self.assertEqual((got["code"], got["message"]), (-32602, "Invalid params"))
            self.assertEqual(got["data"]["reason"], "Missing required argument: text")
        peer.initialize("2025-11-25")
        for rev in (None, crib.MODERN):
            got = peer.call("echo", {}, rev)["result"]
            self.assertTrue(got["isError"])
            self.assertEqual(got["content"][0]["text"], "Missing required argument: text")
        rows = self.crib.json("audit", "calls", "--tenant", "acme")
        self.assertEqual([row["outcome"] for row in rows], ["invalid"] * 5)

    def test_refusals_repeat_what_was_wrong_but_no_secret(self):
        """MCP D, Z-07: the value that is wrong is repeated, unless audit.redact names its place, one around or one below."""
        self.crib.tool(crib.tool_yaml(
            "pay", "{type: builtin, function: echo}",
            "{type: object, required: [units], properties: {units: {enum: [metric, imperial]}, pin: {type: integer},\n"
            "  card: {type: object, additionalProperties: {pattern: '^[0-9]+$'}}, n: {maximum: 3}}}",
            extra="audit: {redact: [/pin, /card]}\n"), "pay.yaml")
        self.crib.start()
        first = 'Invalid argument: units: must be one of "metric", "imperial"; got "kelvin"'
        wrong = {"units": "kelvin", "pin": "s3cret-1", "card": {"s3cret-2": "s3cret-3"}, "n": 5}
        peer = self.crib.tcp(self.key)
        for rev in crib.REVS[:3]:
            peer.initialize(rev)
            got = peer.call("pay", wrong)["error"]
            self.assertEqual((got["code"], got["message"], got["data"]["reason"]), (-32602, "Invalid params", first))
            self.assertEqual(peer.call("pay", {"units": "metric", "card": "s3cret-4"})["error"]["data"]["reason"],
                             "Invalid argument: card: must be an object, is a string")
        peer.initialize("2025-11-25")
        for rev in (None, crib.MODERN):
            got = peer.call("pay", wrong, rev)["result"]
            self.assertTrue(got["isError"])
            self.assertEqual(got["content"][0]["text"].splitlines(), [
                first,
                "Invalid argument: pin: must be an integer, is a string (at /pin, by /properties/pin/type)",
                "Invalid argument: card.*: must match the pattern ^[0-9]+$ (at /card/*, by /properties/card/additionalProperties/pattern)",
                "Invalid argument: n: must be at most 3; got 5 (at /n, by /properties/n/maximum)"])
        peer.close()
        self.assertNotIn("s3cret", str(self.crib.json("audit", "calls", "--tenant", "acme")))
        for path, data in self.crib.files(self.crib.dir):
            if path.name != "pay.yaml":
                self.assertNotIn(b"s3cret", data, path)

    def test_a_hostile_pattern_is_counted_apart_from_much_work(self):
        self.crib.tool(crib.tool_yaml("slow", "{type: builtin, function: echo}",
                                      "{type: object, properties: {a: {pattern: '^(a+)+$'}, b: {$ref: '#/$defs/0'}}, $defs: {" + ", ".join(
                                          f"'{i}': {{allOf: [{{$ref: '#/$defs/{i + 1}'}}, {{$ref: '#/$defs/{i + 1}'}}]}}" for i in range(24)) +
                                      ", '24': {type: integer}}}"), "slow.yaml")
        self.crib.start()
        peer = self.crib.tcp(self.key)
        peer.initialize("2025-11-25")
        for arguments, says in (({"a": "a" * 40 + "b"}, "a: takes too long to match against a pattern"), ({"b": 1}, "too large or too deeply nested")):
            self.assertIn(says, peer.call("slow", arguments)["result"]["content"][0]["text"])
        peer.close()
        counters = self.crib.json("status")[0]["counters"]
        self.assertEqual((counters["schema_match_limit"], counters["schema_step_limit"]), (1, 1))

    def test_numbers_are_judged_and_handed_on_as_written(self):
        """SEC S-205, S-207: beyond 64 bits and beyond doubles nothing is rounded, in the schema or in a call."""
        self.crib.tool(crib.tool_yaml("big", "{type: builtin, function: echo}",
                                      "{type: object, properties: {n: {type: integer, maximum: 123456789012345678901234567890}, "
                                      "x: {multipleOf: 0.1}}}"), "big.yaml")
        self.assertIn("123456789012345678901234567890", self.crib.run("tool", "show", "big").stdout)
        self.crib.start()
        peer = self.crib.tcp(self.key)
        peer.initialize("2025-11-25")
        for text, right in (('{"n":123456789012345678901234567890}', True), ('{"n": 1e29 }', True), ('{"n":123456789012345678901234567891}', False),
                            ('{"n":1e30}', False), ('{"n":-1e400,"x":12345678901234567890.1}', True),
                            ('{"x":12345678901234567890.12}', False), ('{"x":1e1000000000}', True)):
            peer.raw(b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"big","arguments":%s}}\n' % text.encode())
            got = peer.receive()["result"]
            self.assertEqual(got.get("isError", False), not right, got)
            if right:
                self.assertEqual(got["content"][0]["text"], text)
        peer.raw(b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"big","arguments":{"n":1e1000000001}}}\n')
        self.assertIn("exponent", json.dumps(peer.receive()))
        peer.close()

    # --- sizes

    def test_lines_and_bodies_at_the_limit(self):
        self.crib.start()
        limit = 10 << 20
        peer = self.crib.http(self.key)
        body = json.dumps(SAMPLE).encode()
        status, _, _ = peer.post(body + b" " * (limit - len(body)), peer.headers(SAMPLE))
        self.assertEqual(status, 200)
        head = ("POST /mcp HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
                "Content-Length: %d\r\n\r\n" % (self.crib.ports["http"], self.key, limit + 1)).encode()
        self.assertTrue(self.raw_http(head).startswith(b"HTTP/1.1 413 "))
        line = self.crib.tcp(self.key)
        line.raw(body + b" " * (limit - len(body)) + b"\n")
        self.assertIn("result", line.receive())
        try:
            line.raw(body + b" " * (limit + 1 - len(body)) + b"\n")
        except ConnectionError:
            pass
        got = line.receive()
        self.assertTrue(got is None or "error" in got)
        self.assertTrue(line.closed())
        peer.close()
        line.close()
        self.alive()

    # --- HTTP

    def test_foreign_origin_and_host_are_403(self):
        self.crib.start()
        port = self.crib.address("http")[1]
        for header, ok in (({"Origin": "http://evil.example"}, False), ({"Origin": "null"}, False),
                           ({"Origin": f"http://localhost:{port}"}, True), ({"Origin": f"http://127.0.0.1:{port}"}, True),
                           ({"Host": "evil.example"}, False), ({"Host": f"localhost:{port}"}, True)):
            peer = self.crib.http(self.key)
            status, _, _ = peer.post(json.dumps(SAMPLE), {**peer.headers(SAMPLE), **header})
            self.assertEqual(status, 200 if ok else 403, header)
            peer.close()

    def test_header_limits(self):
        self.crib.start()
        host = self.crib.ports["http"]
        base = f"GET /mcp HTTP/1.1\r\nHost: {host}\r\n"
        for extra in ("X-A: " + "a" * 9000 + "\r\n", "".join(f"X-{i}: a\r\n" for i in range(100)), ):
            got = self.raw_http((base + extra + "\r\n").encode())
            self.assertTrue(got.startswith(b"HTTP/1.1 431 "), got[:60])
        got = self.raw_http(f"GET /{'a' * 9000} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        self.assertTrue(got.startswith(b"HTTP/1.1 414 "), got[:60])
        self.alive()

    def test_two_thousand_idle_connections_and_slow_ones(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 5000:
            self.skipTest("needs 5000 descriptors")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        self.crib.start()
        idle = [socket.create_connection(self.crib.address("http"), crib.DEADLINE) for _ in range(1500)]
        idle += [socket.create_connection(self.crib.address("tcp"), crib.DEADLINE) for _ in range(500)]
        for s in idle[:200]:
            s.sendall(b"POST /mcp HTTP/1.1\r\nHost:")
        self.alive()
        for s in idle:
            s.close()
        self.alive()

    # --- definition documents

    def refused(self, text, *says):
        path = self.crib.dir / "bad.yaml"
        path.write_text(text)
        done = self.crib.run("tool", "add", path)
        self.assertEqual(done.returncode, 1, done.stderr or done.stdout)
        for word in says:
            self.assertIn(word, done.stderr)
        return done.stderr

    def test_bad_documents_name_file_line_and_column(self):
        good = crib.tool_yaml("fine", "{type: builtin, function: echo}")
        before = self.crib.json("tool", "list")
        self.refused("name: x\ndescription: d\ninputSchemas: {type: object}\nhandler: {type: static, text: x}\n",
                     "bad.yaml:3:1", "did you mean inputSchema?")
        self.refused("name: x\ndescription: d\ninputSchema: {type: objekt}\nhandler: {type: static, text: x}\n",
                     "bad.yaml:3:", "objekt")
        self.refused("name: x\ndescription: d\ninputSchema: {type: object, requird: [a]}\nhandler: {type: static, text: x}\n",
                     "bad.yaml:3:", "requird")
        self.refused("name: x\ndescription: d\ninputSchema: {type: object, additionalItems: false}\nhandler: {type: static, text: x}\n",
                     "additionalItems")
        self.refused("name: x\ndescription: d\ninputSchema: {type: object, properties: {a: {pattern: '('}}}\nhandler: {type: static, text: x}\n",
                     "bad.yaml:3:", "pattern")
        self.refused("name: x\ndescription: d\ninputSchema: {type: object, properties: {a: {$ref: 'http://example.com/x'}}}\nhandler: {type: static, text: x}\n",
                     "$ref")
        self.refused("name: x y\ndescription: d\ninputSchema: {type: object}\nhandler: {type: static, text: x}\n", "bad.yaml:1:1", "name")
        self.refused("name: x\ninputSchema: {type: object}\nhandler: {type: static, text: x}\n", "description")
        self.refused("name: x\ndescription: d\ninputSchema: {type: object}\nhandler: {type: exek}\n", "bad.yaml:4:", "did you mean exec?")
        self.refused("name: x\ndescription: d\ninputSchema: {type: object}\nhandler: {type: exec, argv: [sh]}\n", "bad.yaml:4:", "absolute")
        self.refused("name: x\nname: y\n", "bad.yaml:2:1", "name")
        self.refused("name: [\n", "bad.yaml:")
        self.refused("a: &x 1\nb: *x\n", "bad.yaml:")
        # All or nothing: a good document beside a bad one, and one name twice.
        self.refused(good + "---\n" + "name: x\n", "bad.yaml:")
        self.refused(good + "---\n" + good, "fine")
        self.assertEqual(self.crib.json("tool", "list"), before)

    # --- tools that misbehave

    def test_tools_that_hang_flood_fork_fail_and_die(self):
        c = self.crib

        def sh(name, script, extra="limits: {timeout: 1s, result: 64KiB}\n"):
            path = c.dir / name
            path.write_text("#!/bin/sh\n" + script + "\n")
            path.chmod(0o755)
            c.tool(crib.tool_yaml(name, f'{{type: exec, argv: ["{path}"], stdin: none, output: text}}', extra=extra), f"{name}.yaml")
        mark = c.dir / "orphan"
        sh("hang", "exec sleep 60")
        sh("flood", "exec yes")
        sh("noise", "yes >&2 & sleep 0.2; kill $!; echo fine", "")
        sh("fail", "echo 'the reason' >&2; exit 7")
        sh("die", "kill -SEGV $$")
        sh("orphans", f"(setsid sleep 47110815 &) ; sleep 47110815 & echo started")
        sh("gone", "echo x; rm -f \"$0\"")
        c.start()
        peer = c.http(self.key)
        for tool, word in (("hang", "in time"), ("flood", "larger than 65536"), ("fail", "the reason"), ("die", "signal")):
            with self.subTest(tool=tool):
                got = peer.call(tool, {}, crib.MODERN)["result"]
                self.assertTrue(got["isError"], got)
                self.assertIn(word, got["content"][0]["text"].lower())
        self.assertEqual(peer.call("noise", {}, crib.MODERN)["result"]["content"][0]["text"], "fine\n")
        self.assertFalse(peer.call("orphans", {}, crib.MODERN)["result"].get("isError", False))

        def orphans():
            found = []
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    if b"47110815" in open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0"):
                        found.append(pid)
                except OSError:
                    pass
            return found
        crib.wait_for("no process left of a tool", lambda: not orphans())
        peer.call("gone", {}, crib.MODERN)
        self.assertTrue(peer.call("gone", {}, crib.MODERN)["result"]["isError"], "the program is gone")
        outcomes = {row["tool"]: row["outcome"] for row in c.json("audit", "calls", "--tenant", "acme")}
        self.assertEqual(outcomes["hang"], "timeout")
        self.assertEqual(outcomes["die"], "crashed")
        self.assertEqual(outcomes["fail"], "tool_error")
        self.alive()


if __name__ == "__main__":
    crib.main()
