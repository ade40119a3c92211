"""The dialect of 2024-10-07 and the words of every revision for what goes wrong (MCP section D)."""
import crib

R0 = "2024-10-07"
WEATHER = """name: get_weather
description: Weather for a place.
inputSchema:
  type: object
  properties:
    location: {type: string}
    at: {type: object, properties: {day: {type: string}}, required: [day]}
  required: [location]
handler: {type: static, result: {content: [{type: text, text: sunny}], structuredContent: {temperature: 22.5}}}
---
name: text_json
description: Says JSON as its only text.
inputSchema: {type: object}
handler: {type: static, text: '{"a": [1, 2.50, null]}'}
---
name: text_plain
description: Says a text.
inputSchema: {type: object}
handler: {type: static, text: plain words}
---
name: two_texts
description: Says two texts.
inputSchema: {type: object}
handler: {type: static, result: {content: [{type: text, text: "1"}, {type: text, text: "2"}]}}
---
name: fails
description: Fails, and says no status.
inputSchema: {type: object}
handler: {type: static, result: {content: [{type: text, text: no such city}], isError: true}}
---
name: fails_404
description: Fails with a status.
inputSchema: {type: object}
handler:
  type: static
  result: {content: [{type: text, text: no such city}], structuredContent: {status: 404}, isError: true}
"""
TOOLS = ["fails", "fails_404", "get_weather", "text_json", "text_plain", "two_texts"]
PAGE = 100


class EarlyDrafts(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init().start()
        c.tool(WEATHER)
        self.key = c.tenant("acme", "*")

    def peers(self, rev=R0):
        """A peer that has negotiated rev, on standard input and output and on TCP."""
        for make in (self.crib.stdio, self.crib.tcp):
            peer = make(self.key)
            self.assertEqual(peer.initialize(rev)["protocolVersion"], rev)
            yield peer
            peer.close()

    def result(self, peer, tool, **arguments):
        return peer.call(tool, arguments)["result"]

    def test_r0_is_spoken_when_asked_for_and_never_offered(self):
        for peer in self.peers():
            versions = peer.ask("server/discover", rev=crib.MODERN)["result"]["supportedVersions"]
            self.assertNotIn(R0, versions)
            self.assertEqual(peer.ask("resources/list")["error"]["code"], -32601)
        for asked in ("2024-10-06", "1.0", "rubbish"):
            peer = self.crib.tcp(self.key)
            self.assertEqual(peer.initialize(asked)["protocolVersion"], crib.REVS[-1])
            peer.close()

    def test_r0_success_is_a_tool_result(self):
        """Structured value, else the JSON of a single text, else the text; content goes along."""
        for peer in self.peers():
            got = self.result(peer, "get_weather", location="Oslo")
            self.assertEqual(got["toolResult"], {"temperature": 22.5})
            self.assertEqual(got["content"], [{"type": "text", "text": "sunny"}])
            self.assertNotIn("structuredContent", got)
            self.assertNotIn("isError", got)
            self.assertEqual(self.result(peer, "text_json")["toolResult"], {"a": [1, 2.5, None]})
            self.assertEqual(self.result(peer, "text_plain")["toolResult"], "plain words")
            self.assertEqual(self.result(peer, "two_texts")["toolResult"], "1\n2")

    def test_r0_failure_is_a_tool_result_with_error_and_status(self):
        for peer in self.peers():
            for tool, status in (("fails", "error"), ("fails_404", 404)):
                got = self.result(peer, tool)
                self.assertEqual(got["toolResult"], {"error": "no such city", "status": status})
                self.assertIs(got["isError"], True)
                self.assertEqual(got["content"][0]["text"], "no such city")

    def test_r0_refusals_say_invalid_params_and_a_reason(self):
        cases = (({"name": "get_weather", "arguments": {}}, "Missing required argument: location"),
                 ({"name": "get_weather"}, "Missing required argument: location"),
                 ({"name": "get_weather", "arguments": {"location": "Oslo", "at": {}}}, "Missing required argument: at.day"),
                 ({"name": "invalid_tool_name", "arguments": {}}, "Unknown tool: invalid_tool_name"))
        for peer in self.peers():
            for params, reason in cases:
                error = peer.ask("tools/call", params)["error"]
                self.assertEqual((error["code"], error["message"], error["data"]["reason"]),
                                 (-32602, "Invalid params", reason))
            error = peer.call("get_weather", {"location": 5})["error"]
            self.assertEqual((error["code"], error["message"]), (-32602, "Invalid params"))
            self.assertTrue(error["data"]["reason"].startswith("Invalid argument: location: "), error)

    def test_r0_lists_everything_at_once(self):
        """MCP T-10: no params, no pages; a cursor means nothing."""
        self.crib.tool("---\n".join(crib.tool_yaml(f"many_{i:03}", "{type: builtin, function: echo}") for i in range(PAGE)))
        names = TOOLS + [f"many_{i:03}" for i in range(PAGE)]
        for peer in self.peers():
            for params in (None, {"cursor": "rubbish"}):
                got = peer.ask("tools/list", params)["result"]
                self.assertEqual([tool["name"] for tool in got["tools"]], sorted(names))
                self.assertNotIn("nextCursor", got)
                self.assertEqual(set().union(*got["tools"]), {"name", "description", "inputSchema"})
        for peer in self.peers("2024-11-05"):
            got = peer.ask("tools/list")["result"]
            self.assertEqual(len(got["tools"]), PAGE)
            self.assertEqual(peer.ask("tools/list", {"cursor": "rubbish"})["error"]["code"], -32602)

    def test_both_dialects_on_one_pipe(self):
        """MCP B-08: a second initialize is a fresh handshake; a claim leaves it as it is."""
        for peer in self.peers():
            self.assertIn("toolResult", self.result(peer, "text_plain"))
            self.assertNotIn("toolResult", peer.call("text_plain", rev=crib.MODERN)["result"])
            self.assertIn("toolResult", self.result(peer, "text_plain"))
            peer.initialize("2024-11-05")
            self.assertNotIn("toolResult", self.result(peer, "text_plain"))

    def test_words_of_later_revisions(self):
        """Unknown tools by name; arguments as an error up to 2025-06-18, as a failed call from 2025-11-25 on (MCP B-12)."""
        for rev in [*crib.REVS, crib.MODERN]:
            for peer in self.peers(rev if rev != crib.MODERN else crib.REVS[-1]):
                claim = rev if rev == crib.MODERN else None
                error = peer.call("invalid_tool_name", rev=claim)["error"]
                self.assertEqual((error["code"], error["message"]), (-32602, "Unknown tool: invalid_tool_name"))
                self.assertEqual(error["data"]["reason"], error["message"])
                got = peer.call("get_weather", rev=claim)
                if rev <= "2025-06-18":
                    self.assertEqual((got["error"]["code"], got["error"]["message"]), (-32602, "Invalid params"))
                    self.assertEqual(got["error"]["data"]["reason"], "Missing required argument: location")
                else:
                    self.assertIs(got["result"]["isError"], True)
                    self.assertEqual(got["result"]["content"][0]["text"], "Missing required argument: location")
                got = peer.call("fails", rev=claim)["result"]
                self.assertIs(got["isError"], True)
                self.assertNotIn("toolResult", got)
                # What is no object is a malformed request in every revision (MCP T-21).
                self.assertEqual(peer.ask("tools/call", {"name": "fails", "arguments": None}, claim)["error"]["code"], -32602)


if __name__ == "__main__":
    crib.main()
