"""What a client says twice must be the same, and what the server sealed must come back unchanged.

FAULT F38: framing (SEC S-110 to S-112) has one answer and the end.  F39: header against body (SEC S-B14, S-108).
F41: request states and cursors that are altered or somebody else's (SEC S-122)."""
import base64
import http.client
import json
import re
import socket
import sqlite3

import crib

META = {"io.modelcontextprotocol/protocolVersion": crib.MODERN, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
# Asks in its first run; with answers it is done.
ASK = """read -r job
case $job in
*'"answers":{'*) echo '{"content":{"type":"text","text":"done"}}';;
*) echo '{"ask":{"requests":{"q":{"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}}}}';;
esac""".replace("{", "{{").replace("}", "}}")
NUMBERED = "---\n".join(crib.tool_yaml(f"t{i:03}", "{type: builtin, function: echo}") for i in range(120))

SAID = 0x0113


def asking(name):
    return crib.tool_yaml(name, f"{{type: exec, argv: [/bin/sh, -c, {json.dumps(ASK)}], stdin: json, output: stream}}",
                          "{type: object, properties: {n: {type: integer}}}")


def marked(text):
    return "=?base64?" + base64.b64encode(text.encode()).decode() + "?="


class Forgeries(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(crib.ECHO)
        c.tool(asking("ask") + "---\n" + asking("other"), "ask.yaml")
        self.key = c.tenant("acme", "*")
        self.alice = c.key("acme/alice")
        self.foreign = c.tenant("other", "*")

    # --- F38

    def exchange(self, data):
        """All that comes back, with our side open: the server has to close."""
        with socket.create_connection(self.crib.address("http"), crib.DEADLINE) as s:
            try:
                s.sendall(data)
            except ConnectionError:
                pass
            got = b""
            while True:
                try:
                    more = s.recv(1 << 16)
                except ConnectionError:
                    return got
                if not more:
                    return got
                got += more

    def test_framing_has_one_answer_and_the_end(self):
        """FAULT F38: whatever another reader would make of it, nothing behind it is a request."""
        self.crib.start()
        start = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.key}\r\nContent-Type: application/json\r\n"
        chunked = start + "Transfer-Encoding: chunked\r\n\r\n"
        hidden = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                             "params": {"name": "echo", "arguments": {"text": "smuggled"}, "_meta": META}})
        behind = (start + f"MCP-Protocol-Version: {crib.MODERN}\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"
                  f"Content-Length: {len(hidden)}\r\n\r\n{hidden}")
        cases = {
            # S-110
            "length then coding": (start + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
            "coding then length": (start + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400),
            "equal lengths": (start + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
            "other lengths": (start + "Content-Length: 2\r\nContent-Length: 0\r\n\r\n{}", 400),
            "a list": (start + "Content-Length: 2, 2\r\n\r\n{}", 400),
            "a sign": (start + "Content-Length: +2\r\n\r\n{}", 400),
            "a minus": (start + "Content-Length: -2\r\n\r\n{}", 400),
            "a blank inside": (start + "Content-Length: 0 2\r\n\r\n{}", 400),
            "a leading zero": (start + "Content-Length: 02\r\n\r\n{}", 400),
            "hexadecimal": (start + "Content-Length: 0x2\r\n\r\n{}", 400),
            "empty": (start + "Content-Length:\r\n\r\n{}", 400),
            "above 2^63": (start + "Content-Length: 9223372036854775808\r\n\r\n{}", 400),
            "above 2^64": (start + "Content-Length: 18446744073709551618\r\n\r\n{}", 400),
            "coding not final": (start + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400),
            "coding not alone": (start + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
            "coding twice": (start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
            "coding identity": (start + "Transfer-Encoding: identity\r\n\r\n", 400),
            "coding with a tab": (start + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
            "coding in 1.0": (chunked.replace("HTTP/1.1", "HTTP/1.0") + "0\r\n\r\n", 400),
            # S-111
            "bare LF": (start.replace("\r\n", "\n") + "Content-Length: 0\n\n", 400),
            "bare LF behind a header": (start + "X: a\nContent-Length: 0\r\n\r\n", 400),
            "bare CR": (start + "X: a\rb\r\nContent-Length: 0\r\n\r\n", 400),
            "folded": (start + "X: a\r\n b\r\nContent-Length: 0\r\n\r\n", 400),
            "NUL": (start + "X: a\0b\r\nContent-Length: 0\r\n\r\n", 400),
            "control": (start + "X: a\x07b\r\nContent-Length: 0\r\n\r\n", 400),
            "space before the colon": (start + "Content-Length : 0\r\n\r\n", 400),
            "no name": (start + ": a\r\nContent-Length: 0\r\n\r\n", 400),
            "no token": (start.replace("POST", "P(ST") + "Content-Length: 0\r\n\r\n", 400),
            "another authority": (start.replace("/mcp", "http://evil.example/mcp") + "Content-Length: 0\r\n\r\n", 400),
            "no host": (start.replace("Host: localhost\r\n", "") + "Content-Length: 0\r\n\r\n", 400),
            "two hosts": (start + "Host: localhost\r\nContent-Length: 0\r\n\r\n", 400),
            # S-112
            "chunk: 0x": (chunked + "0x2\r\n{}\r\n0\r\n\r\n", 400),
            "chunk: sign": (chunked + "+2\r\n{}\r\n0\r\n\r\n", 400),
            "chunk: blank": (chunked + "2 \r\n{}\r\n0\r\n\r\n", 400),
            "chunk: nine digits": (chunked + "000000002\r\n{}\r\n0\r\n\r\n", 400),
            "chunk: LF": (chunked + "2\n{}\r\n0\r\n\r\n", 400),
            "chunk: LF in its extension": (chunked + "2;a\n{}\r\n0\r\n\r\n", 400),
            "chunk: long extension": (chunked + "2;" + "a" * 65 + "\r\n{}\r\n0\r\n\r\n", 400),
            "chunk: longer than it says": (chunked + "2\r\n{}}\r\n0\r\n\r\n", 400),
            "chunk: shorter than it says": (chunked + "5\r\n{}\r\n0\r\n\r\n" + behind, 400),
            "chunk: LF behind it": (chunked + "2\r\n{}\n0\r\n\r\n", 400),
            "chunk: beyond the body limit": (chunked + "ffffffff\r\n", 413),
            "trailer without a colon": (chunked + "2\r\n{}\r\n0\r\nGET / HTTP/1.1\r\n\r\n", 400),
            "trailer folded": (chunked + "2\r\n{}\r\n0\r\n a: b\r\n\r\n", 400),
            "long trailers": (chunked + "2\r\n{}\r\n0\r\n" + "a: " + "b" * 9000 + "\r\n\r\n", 431),
            # S-113, S-117
            "a body beyond the limit": (start + f"Content-Length: {(10 << 20) + 1}\r\n\r\n", 413),
            "65 headers": (start + "X: a\r\n" * 62 + "Content-Length: 0\r\n\r\n", 431),
            "a long header": (start + "X: " + "a" * 8200 + "\r\n\r\n", 431),
            "a long line": ("GET /" + "a" * 8200 + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
            "HTTP/2": ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
            "CONNECT": ("CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
            "TRACE": (start.replace("POST", "TRACE") + "Content-Length: 0\r\n\r\n", 405),
        }
        for name, (data, status) in cases.items():
            with self.subTest(name):
                got = self.exchange((data + behind).encode("latin-1"))
                self.assertTrue(got.startswith(b"HTTP/1.1 %d " % status), got[:100])
                self.assertEqual(len(re.findall(rb"HTTP/1\.1 \d", got)), 1)
                self.assertIn(b"\r\nConnection: close\r\n", got)
        self.assertEqual(self.crib.json("audit", "calls", "--tenant", "acme"), [])
        # The same client, honest: trailers and extensions are read and dropped.
        good = behind.replace(f"Content-Length: {len(hidden)}\r\n\r\n{hidden}", "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
                              f"{len(hidden):x};{'a' * 63}\r\n{hidden}\r\n0\r\nX-Trailer: Content-Length: 5\r\n\r\n")
        self.assertIn(b"smuggled", self.exchange(good.encode()))

    # --- F39

    def test_headers_that_are_not_the_body(self):
        """FAULT F39: -32020 before anything uses either; what is the same in another form passes."""
        self.crib.start()
        echo = {"jsonrpc": "2.0", "id": 7, "method": "tools/call",
                "params": {"name": "echo", "arguments": {"text": "x"}, "_meta": META}}
        lists = {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": META}}
        version, method, name = ("MCP-Protocol-Version", crib.MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")
        good = [
            (echo, [version, method, name]),
            (echo, [version, ("mcp-METHOD", "tools/call"), ("MCP-name", " echo\t")]),
            (echo, [version, method, ("Mcp-Name", marked("echo"))]),
            (lists, [version, ("Mcp-Method", "tools/list")]),
        ]
        bad = [
            (echo, [method, name]), (echo, [version, name]), (echo, [version, method]),
            (echo, [("MCP-Protocol-Version", "2025-11-25"), method, name]),
            (echo, [version, ("Mcp-Method", "tools/list"), name]), (echo, [version, ("Mcp-Method", "Tools/Call"), name]),
            (echo, [version, ("Mcp-Method", "tools/call, tools/call"), name]), (echo, [version, ("Mcp-Method", ""), name]),
            (echo, [version, method, ("Mcp-Name", "Echo")]), (echo, [version, method, ("Mcp-Name", "ask")]),
            (echo, [version, method, ("Mcp-Name", "")]), (echo, [version, method, ("Mcp-Name", "echo, echo")]),
            (echo, [version, method, ("Mcp-Name", marked("ask"))]), (echo, [version, method, ("Mcp-Name", marked("echo") + "x")]),
            (echo, [version, method, ("Mcp-Name", "=?base64?ZWNobw?=")]), (echo, [version, method, ("Mcp-Name", "=?base64?ZWNo bw==?=")]),
            (echo, [version, method, ("Mcp-Name", "=?base64?ZWNobx==?=")]), (echo, [version, method, ("Mcp-Name", "=?BASE64?ZWNobw==?=")]),
            (echo, [version, method, ("Mcp-Name", marked(marked("echo")))]),
            (echo, [version, method, name, name]), (echo, [version, method, name, ("mcp-name", "ask")]),
            (echo, [version, method, method, name]), (echo, [version, version, method, name]),
            (lists, [version, ("Mcp-Method", "tools/call")]), (lists, [version, ("Mcp-Method", "tools/list"), ("Mcp-Method", "tools/list")]),
        ]
        connection = http.client.HTTPConnection(*self.crib.address("http"), timeout=crib.DEADLINE)
        self.addCleanup(connection.close)
        for message, headers in good + bad:
            body = json.dumps(message).encode()
            connection.putrequest("POST", "/mcp")
            for header in [("Authorization", f"Bearer {self.key}"), ("Content-Type", "application/json"),
                           ("Accept", "application/json"), ("Content-Length", str(len(body))), *headers]:
                connection.putheader(*header)
            connection.endheaders(body)
            response = connection.getresponse()
            got = json.loads(response.read())
            with self.subTest(headers):
                if (message, headers) in good:
                    self.assertEqual((response.status, "result" in got), (200, True), got)
                else:
                    self.assertEqual((response.status, got["error"]["code"], got["id"]), (400, -32020, 7), got)
        done = [row["outcome"] for row in self.crib.json("audit", "calls", "--tenant", "acme")]
        self.assertEqual(done, ["ok"] * 3, "no call began for the others")

    # --- F41

    def state(self, peer, tool, arguments):
        """The sealed state of a question."""
        got = peer.call(tool, arguments, crib.MODERN, {"elicitation": {}})["result"]
        self.assertEqual(got["resultType"], "input_required")
        return got["requestState"]

    def retry(self, peer, tool, arguments, state):
        return peer.call(tool, arguments, crib.MODERN, {"elicitation": {}}, requestState=state,
                         inputResponses={"q": {"action": "accept", "content": {}}})

    def denied(self, tenant):
        """How many refusals of the tenant's calls are on record, one by one or in a summary, and the rules of the former."""
        db = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        rows = db.execute("SELECT t.kind, t.rule, r.ext FROM rec_text t JOIN rec r ON r.id = t.id JOIN log l ON l.id = t.log "
                          "WHERE t.kind IN (1003, 1005) AND l.origin LIKE ?", (f"%/t/{tenant}",)).fetchall()
        db.close()
        summed = 0
        for kind, _, ext in rows:
            at = 0
            while kind == 1005 and at < len(ext):
                tag, size = int.from_bytes(ext[at:at + 2], "big"), int.from_bytes(ext[at + 2:at + 6], "big")
                if tag == SAID:
                    summed += sum(map(int, re.findall(rb"=(\d+)", ext[at + 6:at + 6 + size])))
                at += 6 + size
        single = [rule for kind, rule, _ in rows if kind == 1003]
        return len(single) + summed, set(single)

    def test_states_of_others_and_altered_ones(self):
        """FAULT F41: one error for all, -32602 and a record; the expiry is tested by unit, with a clock that steps."""
        c = self.crib.start()
        bot, alice, foreign = c.http(self.key), c.http(self.alice), c.http(self.foreign)
        sealed = self.state(bot, "ask", {"n": 1})
        altered = [sealed[:i] + ("A" if sealed[i] != "A" else "B") + sealed[i + 1:] for i in range(0, len(sealed) - 1, len(sealed) // 7)]
        refused = []
        for state in altered + [sealed[:-1], sealed[:len(sealed) // 2], sealed + "A", sealed + "\n", "", "x", "v1.AAAA.BBBB"]:
            refused.append(self.retry(bot, "ask", {"n": 1}, state))
        refused.append(self.retry(bot, "other", {"n": 1}, sealed))
        refused.append(self.retry(bot, "ask", {"n": 2}, sealed))
        refused.append(self.retry(alice, "ask", {"n": 1}, sealed))
        mine = len(refused)
        refused.append(self.retry(foreign, "ask", {"n": 1}, sealed))
        self.assertEqual({got.get("error", {}).get("code") for got in refused}, {-32602}, refused)
        self.assertEqual(len({got["error"]["message"] for got in refused}), 1, "which of them it was is not said")
        self.assertIn("result", self.retry(bot, "ask", {"n": 1}, sealed), "as it was it is good")
        for peer in (bot, alice, foreign):
            peer.close()
        self.assertEqual(c.stop(), 0)
        self.assertEqual((self.denied("acme"), self.denied("other")), ((mine, {"state"}), (1, {"state"})))

    def test_cursors_of_others_and_altered_ones(self):
        """FAULT F41"""
        self.crib.tool(NUMBERED, "many.yaml")
        c = self.crib.start()
        bot, foreign = c.http(self.key), c.http(self.foreign)
        cursor = bot.ask("tools/list", {}, crib.MODERN)["result"]["nextCursor"]
        altered = [cursor[:i] + ("A" if cursor[i] != "A" else "B") + cursor[i + 1:] for i in range(0, len(cursor) - 1, len(cursor) // 7)]
        for peer, text in [*((bot, text) for text in altered + [cursor[:-1], cursor + "A", "", "x", "0", "v1.AAAA.BBBB"]), (foreign, cursor)]:
            got = peer.ask("tools/list", {"cursor": text}, crib.MODERN)
            self.assertEqual(got.get("error", {}).get("code"), -32602, text)
        self.assertEqual(bot.ask("prompts/list", {"cursor": cursor}, crib.MODERN)["error"]["code"] in (-32602, -32601), True)
        self.assertIn("result", bot.ask("tools/list", {"cursor": cursor}, crib.MODERN))
        for peer in (bot, foreign):
            peer.close()


if __name__ == "__main__":
    crib.main()
