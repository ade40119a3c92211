"""Prompts, resources, templates and completion hosted from documents: who sees them, in which form, and who is told."""
import json

import crib

PROMPTS = """kind: prompt
name: greet
title: Greeting
description: Greets somebody.
arguments:
- {name: who, title: Name, description: Whom to greet., required: true}
- {name: style}
icons: [{src: "https://example.com/icon.png"}]
complete:
  who: [Alice, Albert, Bob]
  style: {type: exec, argv: [/usr/bin/printf, '%s\\n', "{/who}-plain", "{/style}x"], stdin: none, output: text}
handler:
  type: static
  result:
    description: A greeting
    messages:
    - {role: user, content: {type: text, text: "Greet {/who} {/style} with {{braces}}"}}
    - {role: assistant, content: {type: audio, data: aGVsbG8=, mimeType: audio/wav}}
---
kind: prompt
name: run
handler: {type: exec, argv: [/bin/sh, -c, 'echo "from a program"'], stdin: none, output: text}
---
kind: prompt
name: fails
handler: {type: exec, argv: [/bin/sh, -c, 'echo "no such luck" >&2; exit 3'], stdin: none, output: text}
"""
RESOURCES = """kind: resource
name: readme
uri: docs://readme
mimeType: text/markdown
annotations: {audience: [user], lastModified: "2025-01-12T15:00:58Z"}
handler: {type: static, text: "# {not a template}"}
---
kind: resource
name: logo
uri: docs://logo.png
mimeType: image/png
handler: {type: static, result: {contents: [{blob: aGVsbG8=, _meta: {com.example/shelf: 4}}]}}
---
kind: resourceTemplate
name: page
uriTemplate: docs://pages/{section}/{name}
complete: {section: [news, old]}
handler: {type: static, text: "{/section}: {/name}"}
---
kind: resourceTemplate
name: any
uriTemplate: docs://{+path}
handler: {type: exec, argv: [/bin/cat], stdin: json, output: text}
"""


def resource(text, name="readme", uri="docs://readme"):
    return json.dumps({"kind": "resource", "name": name, "uri": uri, "handler": {"type": "static", "text": text}})


class Hosted(crib.Case):
    def setUp(self):
        super().setUp()
        self.crib.init()
        self.key = self.crib.tenant("acme")

    def add(self, noun, text):
        path = self.crib.dir / f"{noun}.yaml"
        path.write_text(text)
        return self.crib.cli(noun, "add", path)

    def both(self, *globs):
        self.add("prompt", PROMPTS)
        self.add("resource", RESOURCES)
        self.crib.cli("grant", "add", "acme", *(globs or ("prompt:*", "resource:*")))

    def refused(self, noun, text, *words):
        path = self.crib.dir / "bad.yaml"
        path.write_text(text)
        done = self.crib.run(noun, "add", path)
        self.assertEqual(done.returncode, 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    # --- what is listed and declared

    def test_capabilities_are_declared_exactly_when_there_is_something(self):
        """MCP B-15, U-01, V-09"""
        self.crib.start()
        http = self.crib.http(self.key)
        plain = {"logging": {}, "tools": {"listChanged": True}}
        tasks = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        self.assertEqual(http.ask("server/discover", rev=crib.MODERN)["result"]["capabilities"], plain | tasks)
        for method in ("prompts/list", "resources/list", "resources/templates/list", "completion/complete"):
            self.assertEqual(http.ask(method, rev=crib.MODERN)["error"]["code"], -32601, method)
        old = self.crib.tcp(self.key)
        self.assertEqual(old.initialize()["capabilities"], plain)
        self.both()
        declared = {**plain, "completions": {}, "prompts": {"listChanged": True},
                    "resources": {"listChanged": True, "subscribe": True}}
        self.assertEqual(http.ask("server/discover", rev=crib.MODERN)["result"]["capabilities"], declared | tasks)
        # What this connection was not promised is not served on it, and not announced.
        self.assertEqual(old.ask("prompts/list")["error"]["code"], -32601)
        self.assertTrue(old.quiet("notifications/prompts/list_changed"))
        first = self.crib.tcp(self.key).initialize("2024-11-05")["capabilities"]
        self.assertNotIn("completions", first, "MCP L-09: the key came with R2")
        self.crib.cli("grant", "remove", "acme", "prompt:*", "--yes")
        self.assertNotIn("prompts", http.ask("server/discover", rev=crib.MODERN)["result"]["capabilities"])

    def test_lists_show_what_a_revision_knows(self):
        """MCP table A, I-01, T-34"""
        self.both()
        self.crib.start()
        http = self.crib.http(self.key)
        got = http.ask("prompts/list", rev=crib.MODERN)["result"]
        self.assertEqual([p["name"] for p in got["prompts"]], ["fails", "greet", "run"])
        self.assertEqual(got["prompts"][1], {
            "name": "greet", "title": "Greeting", "description": "Greets somebody.",
            "arguments": [{"name": "who", "title": "Name", "description": "Whom to greet.", "required": True},
                          {"name": "style"}], "icons": [{"src": "https://example.com/icon.png"}]})
        self.assertEqual((got["ttlMs"], got["cacheScope"], got["resultType"]), (5000, "private", "complete"))
        self.assertEqual(http.ask("resources/templates/list", rev=crib.MODERN)["result"]["resourceTemplates"], [
            {"name": "any", "uriTemplate": "docs://{+path}"},
            {"name": "page", "uriTemplate": "docs://pages/{section}/{name}"}])
        old = self.crib.tcp(self.key)
        old.initialize("2025-03-26")
        self.assertEqual(old.ask("prompts/list")["result"]["prompts"][1], {
            "name": "greet", "description": "Greets somebody.",
            "arguments": [{"name": "who", "description": "Whom to greet.", "required": True}, {"name": "style"}]})
        self.assertEqual(old.ask("resources/list")["result"], {"resources": [
            {"name": "logo", "uri": "docs://logo.png", "mimeType": "image/png"},
            {"name": "readme", "uri": "docs://readme", "mimeType": "text/markdown", "annotations": {"audience": ["user"]}}]})

    def test_pages_and_cursors_belong_to_one_list(self):
        """MCP U-02, T-05"""
        self.add("prompt", "---\n".join(f"kind: prompt\nname: p{i:03}\nhandler: {{type: static, text: x}}\n"
                                        for i in range(101)))
        self.crib.cli("grant", "add", "acme", "prompt:*")
        self.crib.start()
        http = self.crib.http(self.key)
        page = http.ask("prompts/list", rev=crib.MODERN)["result"]
        self.assertEqual(len(page["prompts"]), 100)
        rest = http.ask("prompts/list", {"cursor": page["nextCursor"]}, rev=crib.MODERN)["result"]
        self.assertEqual([p["name"] for p in rest["prompts"]], ["p100"])
        self.assertNotIn("nextCursor", rest)
        self.assertEqual(http.ask("tools/list", {"cursor": page["nextCursor"]}, rev=crib.MODERN)["error"]["code"], -32602)

    def test_grants_name_the_kind_and_tools_stay_apart(self):
        self.crib.tool(crib.ECHO)
        self.both("*", "prompt:gr*")
        self.crib.start()
        http = self.crib.http(self.key)
        self.assertEqual(http.tools(crib.MODERN), ["echo"])
        self.assertEqual([p["name"] for p in http.ask("prompts/list", rev=crib.MODERN)["result"]["prompts"]], ["greet"])
        self.assertEqual(http.ask("resources/list", rev=crib.MODERN)["error"]["code"], -32601)
        self.crib.cli("grant", "add", "acme", "prompt:run", "--as", "begin")
        self.assertEqual([p["name"] for p in http.ask("prompts/list", rev=crib.MODERN)["result"]["prompts"]],
                         ["begin", "greet"])
        got = http.ask("prompts/get", {"name": "begin"}, rev=crib.MODERN)["result"]["messages"]
        self.assertEqual(got, [{"role": "user", "content": {"type": "text", "text": "from a program\n"}}])
        self.assertEqual(self.crib.json("audit", "calls", "--tenant", "acme")[0]["tool"], "prompt:begin")

    def test_two_resources_under_one_uri_are_refused(self):
        self.both()
        self.refused("resource", resource("again", "again"), "two resources with the URI docs://readme")
        self.assertEqual([r["name"] for r in self.crib.json("resource", "list")], ["any", "logo", "page", "readme"])

    # --- what they give

    def test_a_prompt_is_filled_in(self):
        self.both()
        self.crib.start()
        http = self.crib.http(self.key)
        got = http.ask("prompts/get", {"name": "greet", "arguments": {"who": "{/style}\"Eve"}}, rev=crib.MODERN)["result"]
        self.assertEqual(got["description"], "A greeting")
        self.assertEqual(got["messages"][0]["content"]["text"], "Greet {/style}\"Eve  with {braces}")
        old = self.crib.tcp(self.key)
        old.initialize("2024-11-05")
        got = old.ask("prompts/get", {"name": "greet", "arguments": {"who": "Eve", "style": "warmly"}})["result"]
        self.assertEqual(got["messages"][0]["content"]["text"], "Greet Eve warmly with {braces}")
        self.assertEqual(got["messages"][1]["content"], {"type": "text", "text": "[audio audio/wav, 5 bytes]"})

    def test_texts_have_no_control_characters_wherever_they_stand(self):
        """What a program says of its own form is cleaned as content blocks are."""
        def says(**structured):
            line = json.dumps({"result": {"structuredContent": structured}}).replace("{", "{{").replace("}", "}}")
            return json.dumps({"type": "exec", "argv": ["/bin/echo", line], "output": "stream"})
        dirty, clean = "a\x1b[31mb\x07\n\x85c", "a\ufffd[31mb\ufffd\n\ufffdc"
        self.add("prompt", f"kind: prompt\nname: dirty\ncomplete: {{x: {says(values=[dirty])}}}\narguments: [{{name: x}}]\nhandler: " + says(
            description=dirty, messages=[{"role": "user", "content": {"type": "text", "text": dirty}},
                                         {"role": "user", "content": {"type": "resource", "resource": {"uri": "docs://x", "text": dirty}}}]))
        self.add("resource", "kind: resource\nname: dirty\nuri: docs://dirty\nhandler: " + says(contents=[{"text": dirty}]))
        self.both()
        self.crib.start()
        peer = self.crib.http(self.key)
        got = peer.ask("prompts/get", {"name": "dirty"}, crib.MODERN)["result"]
        self.assertEqual((got["description"], got["messages"][0]["content"]["text"], got["messages"][1]["content"]["resource"]["text"]),
                         (clean, clean, clean))
        got = peer.ask("resources/read", {"uri": "docs://dirty"}, crib.MODERN)["result"]
        self.assertEqual(got["contents"][0]["text"], clean)
        got = peer.ask("completion/complete", {"ref": {"type": "ref/prompt", "name": "dirty"}, "argument": {"name": "x", "value": ""}},
                       crib.MODERN)["result"]
        self.assertEqual(got["completion"]["values"], [clean])

    def test_wrong_arguments_and_failures_are_errors(self):
        self.both()
        self.crib.start()
        http = self.crib.http(self.key)
        for arguments, reason in (({}, "Missing required argument: who"), ({"who": 1}, "must be a string"),
                                  ({"who": "a", "whom": "b"}, "whom")):
            e = http.ask("prompts/get", {"name": "greet", "arguments": arguments}, rev=crib.MODERN)["error"]
            self.assertEqual(e["code"], -32602, e)
            self.assertIn(reason, e["data"]["reason"])
        e = http.ask("prompts/get", {"name": "fails"}, rev=crib.MODERN)["error"]
        self.assertEqual(e["code"], -32603)
        self.assertIn("no such luck", e["message"])
        self.assertEqual(self.crib.json("audit", "calls", "--tenant", "acme")[0]["outcome"], "tool_error")

    def test_unknown_and_not_granted_are_the_same_bytes(self):
        """MCP B-13, E-09, E-10"""
        self.both("prompt:run", "resource:logo")
        self.crib.start()
        for rev, code in ((crib.MODERN, -32602), ("2025-11-25", -32002)):
            peer = self.crib.tcp(self.key)
            if rev != crib.MODERN:
                peer.initialize(rev)
            modern = rev if rev == crib.MODERN else None
            there = peer.ask("prompts/get", {"name": "greet"}, rev=modern, id="x")
            nowhere = peer.ask("prompts/get", {"name": "graet"}, rev=modern, id="x")
            self.assertEqual(json.dumps(there).replace("greet", "graet"), json.dumps(nowhere))
            self.assertEqual(there["error"]["code"], -32602)
            there = peer.ask("resources/read", {"uri": "docs://readme"}, rev=modern, id="x")
            nowhere = peer.ask("resources/read", {"uri": "docs://raedme"}, rev=modern, id="x")
            self.assertEqual(json.dumps(there).replace("readme", "raedme"), json.dumps(nowhere))
            self.assertEqual(there["error"], {"code": code, "message": "Resource not found", "data": {"uri": "docs://readme"}})
        rules = {row["rule"] for row in self.crib.json("audit", "calls", "--tenant", "acme", "--outcome", "denied")}
        self.assertEqual(rules, {"unknown_prompt", "unknown_resource"})

    def test_resources_are_read_by_uri_and_by_template(self):
        """MCP U-05, T-07"""
        self.both()
        self.crib.start()
        http = self.crib.http(self.key)

        def read(uri):
            got = http.ask("resources/read", {"uri": uri}, rev=crib.MODERN)
            return got["result"]["contents"] if "result" in got else got["error"]["code"]

        self.assertEqual(read("docs://readme"), [{"uri": "docs://readme", "mimeType": "text/markdown",
                                                  "text": "# {not a template}"}])
        self.assertEqual(read("docs://logo.png"), [{"uri": "docs://logo.png", "mimeType": "image/png", "blob": "aGVsbG8=",
                                                    "_meta": {"com.example/shelf": 4}}])
        self.assertEqual(read("docs://pages/news/a%20b"), [{"uri": "docs://pages/news/a%20b", "mimeType": "text/plain",
                                                            "text": "news: a b"}])
        job = json.loads(read("docs://other/x")[0]["text"])
        self.assertEqual(job, {"uri": "docs://other/x", "path": "other/x"})
        for uri in ("docs://../etc/passwd", "docs://a/%2e%2E/b", "docs://a%00b", "docs://%ff", "docs:readme", "x" * 3000):
            self.assertEqual(read(uri), -32602, uri)
        got = http.ask("resources/read", {"uri": "docs://readme"}, rev=crib.MODERN)["result"]
        self.assertEqual((got["ttlMs"], got["cacheScope"]), (5000, "private"))
        calls = self.crib.json("audit", "calls", "--tenant", "acme", "--outcome", "ok")
        self.assertEqual({row["tool"] for row in calls}, {"resource:readme", "resource:logo", "resource:page", "resource:any"})

    def test_definitions_are_tried_before_they_are_stored(self):
        documents = {"greet": PROMPTS.split("---\n")[0], "run": PROMPTS.split("---\n")[1], "fails": PROMPTS.split("---\n")[2],
                     "readme": RESOURCES.split("---\n")[0], "page": RESOURCES.split("---\n")[2]}
        for name, text in documents.items():
            (self.crib.dir / f"{name}.yaml").write_text(text)

        def test(noun, name, *words):
            return self.crib.run("--json", noun, "test", self.crib.dir / f"{name}.yaml", *words)

        def shown(*words):
            return json.loads(test(*words).stdout)["structuredContent"]
        for start in (False, True):
            with self.subTest(server=start):
                if start:
                    self.crib.start()
                got = shown("prompt", "greet", "who=Ann")
                self.assertEqual((got["description"], got["messages"][0]["content"]["text"]), ("A greeting", "Greet Ann  with {braces}"))
                self.assertEqual(shown("prompt", "run")["messages"][0], {"role": "user", "content": {"type": "text", "text": "from a program\n"}})
                self.assertEqual(shown("resource", "readme")["contents"], [
                    {"uri": "docs://readme", "mimeType": "text/markdown", "text": "# {not a template}"}])
                self.assertEqual(shown("resource", "page", "docs://pages/news/a%20b")["contents"][0]["text"], "news: a b")
                self.assertEqual(test("prompt", "fails").returncode, 1)
                for words, why in ((("prompt", "greet"), "who"), (("resource", "page"), "which URI of docs://pages/{section}/{name}"),
                                   (("resource", "page", "docs://x"), "docs://x is no URI of"),
                                   (("resource", "readme", "docs://other"), "is no URI of docs://readme"),
                                   (("tool", "greet"), "this is a prompt, not a tool"), (("prompt", "page"), "not a prompt")):
                    done = test(*words)
                    self.assertEqual(done.returncode, 1)
                    self.assertIn(why, done.stderr)
                self.assertEqual(self.crib.json("prompt", "list") + self.crib.json("resource", "list"), [])

    def test_the_command_line_gets_and_reads_them(self):
        self.both()
        got = self.crib.json("call", "acme", "prompt:greet", "who=Eve")[0]
        self.assertEqual(got["structuredContent"]["messages"][0]["content"]["text"], "Greet Eve  with {braces}")
        got = self.crib.json("call", "acme", "docs://pages/news/x")[0]
        self.assertEqual(got["structuredContent"]["contents"][0]["text"], "news: x")
        done = self.crib.run("call", "acme", "nowhere://x")
        self.assertIn("tenant acme has no such resource", done.stderr)

    def test_completion_from_values_and_by_a_handler(self):
        """MCP U-04"""
        self.both()
        self.crib.start()
        http = self.crib.http(self.key)

        def complete(ref, name, value, **context):
            params = {"ref": ref, "argument": {"name": name, "value": value}}
            if context:
                params["context"] = {"arguments": context}
            got = http.ask("completion/complete", params, rev=crib.MODERN)
            return got["result"]["completion"] if "result" in got else got["error"]["code"]

        greet, page = {"type": "ref/prompt", "name": "greet"}, {"type": "ref/resource", "uri": "docs://pages/{section}/{name}"}
        self.assertEqual(complete(greet, "who", "al"), {"values": ["Alice", "Albert"], "total": 2, "hasMore": False})
        self.assertEqual(complete(greet, "style", "s", who="Eve"), {"values": ["Eve-plain", "sx"], "total": 2, "hasMore": False})
        self.assertEqual(complete(greet, "nothing", "")["values"], [])
        self.assertEqual(complete(page, "section", "")["values"], ["news", "old"])
        self.assertEqual(complete({"type": "ref/resource", "uri": "docs://readme"}, "x", "")["values"], [])
        self.assertEqual(complete({"type": "ref/prompt", "name": "none"}, "x", ""), -32602)
        self.assertEqual(complete({"type": "ref/tool", "name": "none"}, "x", ""), -32602)
        self.assertEqual(len(self.crib.json("audit", "calls", "--tenant", "acme")), 1, "only the handler was a call")

    def test_a_hundred_values_at_most(self):
        self.add("prompt", json.dumps({"kind": "prompt", "name": "p", "arguments": [{"name": "a"}],
                                       "complete": {"a": [f"v{i}" for i in range(101)]},
                                       "handler": {"type": "static", "text": "x"}}))
        self.crib.cli("grant", "add", "acme", "prompt:p")
        self.crib.start()
        got = self.crib.http(self.key).ask("completion/complete", {
            "ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}, rev=crib.MODERN)
        completion = got["result"]["completion"]
        self.assertEqual((len(completion["values"]), completion["total"], completion["hasMore"]), (100, 101, True))

    # --- who is told

    def test_each_change_is_told_as_what_it_is_and_to_whom_it_concerns(self):
        self.both()
        other_key = self.crib.tenant("other")
        self.crib.cli("grant", "add", "other", "prompt:*", "resource:*")
        self.crib.start()
        mine, theirs = self.crib.tcp(self.key), self.crib.tcp(other_key)
        for peer in (mine, theirs):
            peer.initialize()
        self.crib.cli("grant", "add", "acme", "prompt:none")
        self.assertTrue(mine.quiet("notifications/prompts/list_changed"))
        self.crib.cli("prompt", "disable", "run")
        for peer in (mine, theirs):
            peer.notice("notifications/prompts/list_changed")
        self.crib.cli("grant", "remove", "acme", "resource:*", "--yes")
        mine.notice("notifications/resources/list_changed")
        for kind in ("tools", "prompts", "resources"):
            self.assertTrue(theirs.quiet(f"notifications/{kind}/list_changed"))
        self.assertTrue(mine.quiet("notifications/tools/list_changed"))

    def test_subscribers_are_told_of_another_version(self):
        """MCP U-03, N-07"""
        self.both()
        self.crib.start()
        old, silent = self.crib.tcp(self.key), self.crib.tcp(self.key)
        for peer in (old, silent):
            peer.initialize()
        self.assertEqual(old.ask("resources/subscribe", {"uri": "docs://readme"})["result"], {})
        self.assertEqual(old.ask("resources/subscribe", {"uri": "docs://pages/a/b"})["result"], {})
        self.assertEqual(old.ask("resources/subscribe", {"uri": "nowhere://x"})["error"]["code"], -32002)
        modern = self.crib.tcp(self.key)
        modern.send(modern.request("subscriptions/listen", {"notifications": {
            "resourceSubscriptions": ["docs://readme", "nowhere://x"], "promptsListChanged": True}}, rev=crib.MODERN, id="L"))
        ack = modern.notice("notifications/subscriptions/acknowledged")["params"]["notifications"]
        self.assertEqual(ack, {"promptsListChanged": True, "resourceSubscriptions": ["docs://readme"]})
        self.add("resource", resource("changed"))
        self.assertEqual(old.notice("notifications/resources/updated")["params"], {"uri": "docs://readme"})
        self.assertEqual(modern.notice("notifications/resources/updated")["params"],
                         {"uri": "docs://readme", "_meta": {"io.modelcontextprotocol/subscriptionId": "L"}})
        self.assertTrue(modern.quiet("notifications/resources/list_changed"))
        self.assertTrue(silent.quiet("notifications/resources/updated"))
        self.assertEqual(old.ask("resources/unsubscribe", {"uri": "docs://readme"})["result"], {})
        self.add("resource", resource("changed again"))
        self.assertTrue(old.quiet("notifications/resources/updated"))
        modern.notice("notifications/resources/updated")

    def test_subscriptions_are_bounded(self):
        """MCP B-21"""
        self.both()
        self.crib.start()
        peer = self.crib.tcp(self.key)
        peer.initialize()
        for i in range(256):
            self.assertIn("result", peer.ask("resources/subscribe", {"uri": f"docs://pages/a/{i}"}))
        self.assertIn("at most 256", peer.ask("resources/subscribe", {"uri": "docs://readme"})["error"]["message"])
        peer.ask("resources/unsubscribe", {"uri": "docs://pages/a/7"})
        self.assertIn("result", peer.ask("resources/subscribe", {"uri": "docs://readme"}))

    # --- documents

    def test_documents_are_checked(self):
        static = "handler: {type: static, text: x}"
        self.refused("prompt", f"name: t\ndescription: d\ninputSchema: {{type: object}}\n{static}", "t is a tool, not a prompt")
        self.refused("prompt", f"kind: prompt\nname: p\n{static}\nuri: a:b", "uri")
        self.refused("prompt", f"kind: resource\nname: r\nuri: a:b\n{static}", "r is a resource, not a prompt", "resource add")
        self.refused("tool", f"kind: prompt\nname: p\n{static}", "p is a prompt, not a tool")
        self.refused("prompt", f"kind: prompt\nname: p\narguments: [{{name: a}}, {{name: a}}]\n{static}", "a is named twice")
        self.refused("prompt", f"kind: prompt\nname: p\ncomplete: {{b: [x]}}\n{static}", "there is no argument b")
        self.refused("prompt", "kind: prompt\nname: p\nhandler: {type: static, text: 'a lone {'}", "a lone {")
        self.refused("prompt", "kind: prompt\nname: p\nhandler: {type: static, result: {contents: []}}",
                     "contents are not what a prompt gives")
        for uri in ("no-scheme", "a:b c", "a:%zz"):
            self.refused("resource", f"kind: resource\nname: r\nuri: '{uri}'\n{static}", "is no URI")
        self.refused("resource", f"kind: resource\nname: r\nuri: a:b\nmimeType: text\n{static}", "no media type")
        for template, why in (("a:{b", "brace"), ("a:{b*}", "modifier"), ("a:{b}{c}", "side by side"), ("a:b", "no variable"),
                              ("a:{b}/{b}", "twice"), ("{+b}", "no URI template"), ("a:{uri}", "whole URI")):
            self.refused("resource", f"kind: resourceTemplate\nname: r\nuriTemplate: '{template}'\n{static}", why)

    def test_versions_are_kept_and_taken_back(self):
        self.add("resource", resource("one"))
        self.add("resource", resource("two"))
        self.assertEqual(self.crib.cli("resource", "diff", "readme"), "~ /handler/text: one -> two\n")
        self.crib.cli("resource", "revert", "readme", "1")
        self.assertEqual([row["version"] for row in self.crib.json("resource", "history", "readme")], [3, 2, 1])
        self.assertEqual(self.crib.json("resource", "show", "readme")[0]["definition"]["handler"]["text"], "one")
        done = self.crib.run("resource", "show", "raedme")
        self.assertIn("resource raedme: not found; did you mean resource:readme?", done.stderr)


if __name__ == "__main__":
    crib.main()
