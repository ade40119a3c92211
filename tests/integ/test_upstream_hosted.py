"""Prompts, resources and completion of upstreams: from `upstream sync` to a read, a completion and an update through them."""
import json
import os
import signal
import sqlite3

import crib

ECHO = crib.BUILD.resolve() / "tests/peers/mcp_echo"
EVERYTHING = ["e_*", "prompt:*", "resource:*"]


class Hosting(crib.Case):
    """A daemon with the MCP server of tests/peers as its upstream, whose tenant sees all of it."""

    def setUp(self):
        super().setUp()
        self.crib.init()
        self.key = self.crib.tenant("acme", *EVERYTHING)
        self.salt = self.crib.dir / "salt"
        self.salt.write_text("")

    def serve(self, *options, words=(), name="e"):
        self.crib.cli("upstream", "add", name, "--read", self.salt, *words, "--command", ECHO, "--hosted", "--salt-file", self.salt,
                      *options)
        if not self.crib.daemon:
            self.crib.start()
        return {row["there"]: row for row in self.crib.json("upstream", "sync", name)}

    def peer(self, rev="2025-11-25", caps=None, key=None):
        peer = self.crib.tcp(key or self.key)
        self.addCleanup(peer.close)
        if rev != crib.MODERN:
            peer.initialize(rev, caps)
        return peer

    def read(self, peer, uri, rev=None):
        got = peer.ask("resources/read", {"uri": uri}, rev)
        return got["result"]["contents"] if "result" in got else got["error"]


class Sync(Hosting):
    def test_a_sync_stores_prompts_resources_and_templates(self):
        rows = self.serve()
        stored = {there: row["tool"] for there, row in rows.items() if ":" in there and row["said"] == "stored"}
        marked = stored["resource:memo://two"]
        self.assertRegex(marked, "^resource:e_memo-[0-9a-f]{8}$", "two resources there have one name")
        self.assertEqual(stored, {
            "prompt:greet": "prompt:e_greet", "prompt:ask first!": "prompt:e_ask-first-",
            "resource:memo://one": "resource:e_memo", "resource:memo://two": marked,
            "resource:https://example.com/page": "resource:e_A-page-of-the-web",
            "template:memo://{book}/{page}": "resource:e_page"})
        odd = rows["template:memo://all{/path*}"]
        self.assertEqual((odd["said"], odd["tool"]), ("refused", None))
        self.assertIn("modifier", odd["why"])
        shown = self.crib.json("upstream", "list")[0]
        self.assertEqual((shown["tools"], shown["prompts"], shown["resources"], shown["waiting"]), (14, 2, 4, 1))
        self.assertIn("refused (template:memo://all{/path*})", self.crib.json("upstream", "show", "e")[0]["tools"])
        self.assertEqual({row["said"] for row in self.crib.json("upstream", "sync", "e")}, {"unchanged", "refused"})

    def test_lists_and_capabilities_are_those_of_the_grants(self):
        self.serve()
        http = self.crib.http(self.key)
        self.addCleanup(http.close)
        caps = http.ask("server/discover", rev=crib.MODERN)["result"]["capabilities"]
        self.assertEqual(caps, {"logging": {}, "tools": {"listChanged": True}, "prompts": {"listChanged": True},
                                "resources": {"listChanged": True, "subscribe": True}, "completions": {},
                                "extensions": {"io.modelcontextprotocol/tasks": {}}})
        prompts = {p["name"]: p for p in http.ask("prompts/list", rev=crib.MODERN)["result"]["prompts"]}
        self.assertEqual(prompts["e_greet"], {
            "name": "e_greet", "description": "Something to try.",
            "arguments": [{"name": "who", "description": "Whom.", "required": True}, {"name": "style"}]})
        self.assertEqual(prompts["e_ask-first-"]["title"], "ask first!")
        got = {r["uri"]: r for r in http.ask("resources/list", rev=crib.MODERN)["result"]["resources"]}
        self.assertEqual(got["e+memo://one"], {"uri": "e+memo://one", "name": "e_memo", "description": "Something to try.",
                                               "mimeType": "text/plain", "annotations": {"priority": 0.5}})
        self.assertEqual(set(got), {"e+memo://one", "e+memo://two", "https://example.com/page"})
        templates = http.ask("resources/templates/list", rev=crib.MODERN)["result"]["resourceTemplates"]
        self.assertEqual([t["uriTemplate"] for t in templates], ["e+memo://{book}/{page}"])
        for glob in EVERYTHING[1:]:
            self.crib.cli("grant", "remove", "acme", glob, "--yes")
        caps = http.ask("server/discover", rev=crib.MODERN)["result"]["capabilities"]
        self.assertEqual(caps, {"logging": {}, "tools": {"listChanged": True}, "extensions": {"io.modelcontextprotocol/tasks": {}}})

    def test_two_upstreams_may_have_the_same_uris(self):
        self.serve()
        self.serve(name="f")
        peer = self.peer()
        self.assertEqual(self.read(peer, "e+memo://one")[0]["uri"], "e+memo://one")
        self.assertEqual(self.read(peer, "f+memo://one")[0]["uri"], "f+memo://one")
        rows = {row["there"]: row for row in self.crib.json("upstream", "sync", "f")}
        page = rows["resource:https://example.com/page"]
        self.assertEqual((page["said"], page["why"]), ("refused", "resource:e_A-page-of-the-web has the URI "
                                                       "https://example.com/page already"))

    def test_without_a_prefix_uris_are_as_they_are_there(self):
        self.serve(words=["--uri-prefix", ""])
        self.assertEqual(self.read(self.peer(), "memo://one")[0]["uri"], "memo://one")
        done = self.crib.run("upstream", "set", "e", "--uri-prefix", "x+")
        self.assertIn('upstream e has resources with the prefix ""', done.stderr)
        done = self.crib.run("upstream", "add", "g", "--uri-prefix", "a b", "--command", ECHO)
        self.assertIn("cannot stand before a URI", done.stderr)

    def test_what_changes_there_is_disabled_until_it_is_accepted(self):
        self.serve("--revision", "2025-11-25")
        peer = self.peer()
        self.assertIn("messages", peer.ask("prompts/get", {"name": "e_greet", "arguments": {"who": "Eve"}})["result"])
        self.salt.write_text(" Now with a catch.")
        peer.call("e_news", {"of": "prompts"})
        for kind in ("prompts", "resources", "tools"):
            peer.notice(f"notifications/{kind}/list_changed")
        states = {row["there"]: row["state"] for row in self.crib.json("upstream", "show", "e")[0]["all"]}
        self.assertEqual({there for there, state in states.items() if state == "in force"},
                         {"resource:memo://two", "resource:https://example.com/page"}, "they have no text that changed")
        self.assertEqual([r["name"] for r in peer.ask("resources/list")["result"]["resources"]][0], "e_A-page-of-the-web")
        self.assertEqual(self.read(peer, "e+memo://one")["code"], -32002)
        names = ("prompt:greet", "resource:e_memo")
        rows = self.crib.json("upstream", "accept", "e", *names, "--digest", self.crib.json("upstream", "diff", "e", *names)[-1]["digest"])
        self.assertEqual([(row["tool"], row["version"]) for row in rows], [("prompt:e_greet", 2), ("resource:e_memo", 2)])
        self.assertEqual(self.read(peer, "e+memo://one")[0]["uri"], "e+memo://one")
        self.salt.write_text("")
        self.assertEqual({row["there"]: row["said"] for row in self.crib.json("upstream", "sync", "e")}["prompt:greet"], "changed")

    def test_contents_that_change_are_no_drift(self):
        self.serve(words=["--shared", "yes"])
        peer = self.peer()
        peer.call("e_touch", {"uri": "memo://one"})
        self.assertEqual({row["there"]: row["said"] for row in self.crib.json("upstream", "sync", "e")}["resource:memo://one"],
                         "unchanged")

    def test_a_removed_upstream_takes_them_along(self):
        self.serve()
        peer = self.peer()
        self.crib.cli("--yes", "upstream", "remove", "e")
        peer.notice("notifications/prompts/list_changed")
        peer.notice("notifications/resources/list_changed")
        self.assertEqual(peer.ask("resources/list")["result"]["resources"], [])


class Use(Hosting):
    def test_every_revision_on_both_sides_gets_prompts_and_reads(self):
        for rev in crib.REVS + [crib.MODERN]:
            with self.subTest(upstream=rev):
                self.crib.run("--yes", "upstream", "remove", "e")
                self.serve("--revision", rev)
                for caller in crib.REVS + [crib.MODERN]:
                    peer, claim = self.peer(caller), crib.MODERN if caller == crib.MODERN else None
                    got = peer.ask("prompts/get", {"name": "e_greet", "arguments": {"who": "Eve", "style": "hi"}}, claim)["result"]
                    self.assertEqual(got["messages"][0]["content"]["text"], "Greet Eve hi.\ufffd")
                    self.assertEqual(got["description"], "What to say")
                    got = self.read(peer, "e+memo://red/7", claim)
                    self.assertEqual((got[0]["uri"], got[0]["text"]), ("e+memo://red/7", "memo://red/7 0\ufffd[31m"))
        calls = self.crib.json("audit", "calls", "--tenant", "acme", "--outcome", "ok")
        self.assertEqual({row["tool"] for row in calls}, {"prompt:e_greet", "resource:e_page"})

    def test_results_are_those_of_a_stranger(self):
        self.serve()
        peer = self.peer(crib.MODERN)
        message = peer.ask("prompts/get", {"name": "e_greet", "arguments": {"who": "Eve"}}, crib.MODERN)["result"]["messages"][0]
        self.assertEqual(message["content"]["_meta"], {"v.example/z": 1}, "what is the protocol's own is taken out")
        self.assertEqual(set(self.read(peer, "e+memo://one", crib.MODERN)[0]), {"uri", "text", "mimeType"})
        for page, said in (("shape", "bad contents: /0"), ("blob", "bad contents: /0/blob is not base64"), ("empty", "has no content"),
                           ("big", "is larger than 1048576 bytes")):
            with self.subTest(page=page):
                self.assertIn(said, self.read(peer, f"e+memo://bad/{page}", crib.MODERN)["message"])
        self.assertEqual(self.read(peer, "e+memo://two", crib.MODERN), [
            {"uri": "e+memo://two", "mimeType": "image/png", "blob": "aGVsbG8="}])

    def test_links_lead_to_what_the_caller_can_read(self):
        """MCP U-07"""
        self.serve()
        there = {"type": "resource_link", "uri": "e+memo://one", "name": "one", "description": "The[31m first"}
        web = {"type": "resource_link", "uri": "https://example.com/", "name": "web"}
        none = {"type": "text", "text": "[resource none: e+memo:nowhere]"}
        self.assertEqual(self.peer().call("e_links")["result"]["content"], [there, none, web])
        self.assertEqual(self.peer("2024-11-05").call("e_links")["result"]["content"][0]["text"], "[resource one: e+memo://one]")
        self.crib.cli("grant", "remove", "acme", "resource:*", "--yes")
        self.assertEqual(self.peer().call("e_links")["result"]["content"],
                         [{"type": "text", "text": "[resource one: e+memo://one]"}, none, web])

    def test_what_is_not_there_is_said_in_the_code_of_the_caller(self):
        """MCP E-09, E-10"""
        for rev in ("2025-06-18", crib.MODERN):
            self.crib.run("--yes", "upstream", "remove", "e")
            self.serve("--revision", rev)
            self.assertEqual(self.read(self.peer(crib.MODERN), "e+memo://none/1", crib.MODERN)["code"], -32602, rev)
            got = self.read(self.peer(), "e+memo://none/1")
            self.assertEqual(got["message"], "upstream e: Resource not found")

    def test_what_is_not_granted_looks_like_what_is_not_there(self):
        """MCP B-13"""
        self.serve()
        self.crib.tenant("other", "e_*", "prompt:e_ask*", "resource:e_A*")
        peer = self.peer(crib.MODERN, key=self.crib.key("other/bot2"))
        for method, member, there, nowhere in (("prompts/get", "name", "e_greet", "e_graet"),
                                               ("resources/read", "uri", "e+memo://one", "e+memo://two")):
            a, b = (json.dumps(peer.ask(method, {member: name}, crib.MODERN, id="x")).replace(there, nowhere)
                    for name in (there, nowhere))
            self.assertEqual(a, b)
        a, b = (json.dumps(peer.ask("completion/complete", {"ref": {"type": "ref/prompt", "name": name},
                                                            "argument": {"name": "who", "value": ""}}, crib.MODERN, id="x"))
                for name in ("e_greet", "e_graet"))
        self.assertEqual(a.replace("e_greet", "e_graet"), b)
        self.assertEqual(self.crib.json("upstream", "show", "e")[0]["calls"], 0)

    def test_arguments_are_completed_there(self):
        """MCP U-04"""
        self.serve()
        peer = self.peer(crib.MODERN)

        def complete(ref, name, value, **context):
            got = peer.ask("completion/complete", {"ref": ref, "argument": {"name": name, "value": value},
                                                   "context": {"arguments": context}}, crib.MODERN)
            return got["result"]["completion"]["values"]

        greet = {"type": "ref/prompt", "name": "e_greet"}
        self.assertEqual(complete(greet, "who", "Al"), ["Albert", "Alice"])
        self.assertEqual(complete(greet, "style", "x", who="Eve"), ["Eve"])
        self.assertEqual(complete({"type": "ref/resource", "uri": "e+memo://{book}/{page}"}, "book", "B"), ["Bob"])
        self.assertEqual(self.crib.json("audit", "calls", "--tenant", "acme")[0]["tool"], "resource:e_page")

    def test_a_prompt_may_ask_its_caller(self):
        caps = {"elicitation": {}}
        for rev in ("2025-06-18", crib.MODERN):
            self.crib.run("--yes", "upstream", "remove", "e")
            self.serve("--revision", rev, words=["--asks", "yes"])
            with self.subTest(upstream=rev, caller="older"):
                peer = self.peer(caps=caps)
                peer.send(peer.request("prompts/get", {"name": "e_ask-first-"}, id=5))
                got = peer.receive()
                self.assertEqual(got.get("method"), "elicitation/create", got)
                peer.send({"jsonrpc": "2.0", "id": got["id"], "result": {"action": "accept", "content": {"word": "yes"}}})
                self.assertRegex(peer.answer(5)["result"]["messages"][0]["content"]["text"], "^accept yes")
            with self.subTest(upstream=rev, caller="modern"):
                peer = self.peer(crib.MODERN)
                first = peer.ask("prompts/get", {"name": "e_ask-first-"}, crib.MODERN, caps)["result"]
                (key, _), = first["inputRequests"].items()
                got = peer.ask("prompts/get", {"name": "e_ask-first-", "requestState": first["requestState"], "inputResponses": {
                    key: {"action": "accept", "content": {"word": "yes"}}}}, crib.MODERN, caps)["result"]
                self.assertRegex(got["messages"][0]["content"]["text"], "^accept yes")

    def test_a_read_that_is_cancelled_or_late_is_over(self):
        self.serve("--revision", "2025-06-18")
        peer = self.peer()
        peer.send(peer.request("resources/read", {"uri": "e+memo://slow/0"}, id=77))
        crib.wait_for("a running read", lambda: self.crib.json("status")[0]["running"] == 1)
        peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}})
        crib.wait_for("its end", lambda: self.crib.json("status")[0]["running"] == 0)
        self.assertEqual(self.crib.json("audit", "calls", "--tenant", "acme")[0]["outcome"], "cancelled")
        definition = self.crib.json("resource", "show", "e_page")[0]["definition"]
        path = self.crib.dir / "page.json"
        path.write_text(json.dumps({"kind": "resourceTemplate", **definition, "limits": {"timeout": "1s"}}))
        self.crib.cli("resource", "add", path)
        self.assertIn("did not finish in time", self.read(peer, "e+memo://slow/0")["message"])
        self.assertEqual(self.read(peer, "e+memo://one")[0]["uri"], "e+memo://one")

    def test_log_lines_come_at_the_level_that_the_caller_wants(self):
        """MCP G-02, G-03"""
        for rev in ("2025-06-18", crib.MODERN):
            with self.subTest(upstream=rev):
                self.crib.run("--yes", "upstream", "remove", "e")
                self.serve("--revision", rev)
                peer = self.peer()
                peer.ask("logging/setLevel", {"level": "info"})
                peer.call("e_say", {"text": "x"})
                self.assertEqual(peer.notice("notifications/message")["params"]["data"], "x")


class Subscriptions(Hosting):
    """What changes there is told to whoever has subscribed here."""

    def subscribed(self, peer):
        return peer.call("e_subs")["result"]["structuredContent"]["uris"]

    def told(self):
        """Records of updates that were told."""
        db = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        try:
            return db.execute("SELECT count(*) FROM rec_text WHERE kind = 1011 AND obj = 'resources/updated'").fetchone()[0]
        finally:
            db.close()

    def test_updates_are_told_to_subscribers_of_every_revision(self):
        """MCP U-03, N-07"""
        for rev in ("2025-06-18", crib.MODERN):
            with self.subTest(upstream=rev):
                self.crib.run("--yes", "upstream", "remove", "e")
                self.serve("--revision", rev)
                old, silent, modern = self.peer(), self.peer(), self.peer(crib.MODERN)
                for uri in ("e+memo://one", "e+memo://red/7"):
                    self.assertEqual(old.ask("resources/subscribe", {"uri": uri})["result"], {})
                modern.send(modern.request("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["e+memo://one"]}},
                                           rev=crib.MODERN, id="L"))
                modern.notice("notifications/subscriptions/acknowledged")
                crib.wait_for("both there", lambda: sorted(self.subscribed(silent)) == ["memo://one", "memo://red/7"])
                silent.call("e_touch", {"uri": "memo://one"})
                self.assertEqual(old.notice("notifications/resources/updated")["params"], {"uri": "e+memo://one"})
                self.assertEqual(modern.notice("notifications/resources/updated")["params"]["uri"], "e+memo://one")
                silent.call("e_touch", {"uri": "memo://red/7"})
                self.assertEqual(old.notice("notifications/resources/updated")["params"], {"uri": "e+memo://red/7"})
                self.assertTrue(silent.quiet("notifications/resources/updated"))
                self.assertTrue(modern.quiet("notifications/resources/updated"))
                old.ask("resources/unsubscribe", {"uri": "e+memo://one"})
                old.ask("resources/unsubscribe", {"uri": "e+memo://red/7"})
                crib.wait_for("one left there", lambda: self.subscribed(silent) == ["memo://one"])
                modern.close()
                crib.wait_for("none left there", lambda: self.subscribed(silent) == [])

    def test_a_subscription_outlives_the_process_and_the_document(self):
        self.serve("--revision", "2025-06-18", words=["--env", f"MARK={self.crib.dir}", "--idle", "1s"])
        peer, other = self.peer(), self.peer()
        peer.ask("resources/subscribe", {"uri": "e+memo://one"})
        crib.wait_for("it there", lambda: self.subscribed(other) == ["memo://one"])
        for pid in self.crib.processes(ECHO):
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(peer.notice("notifications/resources/updated")["params"]["uri"], "e+memo://one",
                         "what happened meanwhile is not known")
        crib.wait_for("it there again", lambda: self.subscribed(other) == ["memo://one"])
        self.crib.cli("upstream", "set", "e", "--env", "MORE=1")
        peer.notice("notifications/resources/updated")
        crib.wait_for("it there again", lambda: self.subscribed(other) == ["memo://one"])
        peer.ask("resources/unsubscribe", {"uri": "e+memo://one"})
        crib.wait_for("no process once nobody needs it", lambda: not self.crib.processes(ECHO))

    def test_tenants_share_a_subscription_where_they_share_the_link(self):
        self.serve("--revision", "2025-06-18", words=["--shared", "yes"])
        mine, theirs = self.peer(), self.peer(key=self.crib.tenant("other", *EVERYTHING))
        for peer in (mine, theirs):
            peer.ask("resources/subscribe", {"uri": "e+memo://one"})
        crib.wait_for("it there", lambda: self.subscribed(mine) == ["memo://one"])
        mine.call("e_touch", {"uri": "memo://one"})
        for peer in (mine, theirs):
            peer.notice("notifications/resources/updated")
        mine.ask("resources/unsubscribe", {"uri": "e+memo://one"})
        self.assertEqual(self.subscribed(mine), ["memo://one"])
        mine.call("e_touch", {"uri": "memo://one"})
        theirs.notice("notifications/resources/updated")
        self.assertTrue(mine.quiet("notifications/resources/updated"))
        theirs.close()
        crib.wait_for("none there", lambda: self.subscribed(mine) == [])

    def test_who_loses_the_grant_is_told_no_more(self):
        self.serve()
        peer, other = self.peer(), self.peer()
        peer.ask("resources/subscribe", {"uri": "e+memo://one"})
        crib.wait_for("it there", lambda: self.subscribed(other) == ["memo://one"])
        self.crib.cli("grant", "remove", "acme", "resource:*", "--yes")
        peer.notice("notifications/resources/list_changed")
        crib.wait_for("none there", lambda: self.subscribed(other) == [])

    def test_a_storm_of_updates_is_told_a_few_times(self):
        self.serve("--revision", "2025-06-18")
        peer, other = self.peer(), self.peer()
        peer.ask("resources/subscribe", {"uri": "e+memo://one"})
        crib.wait_for("it there", lambda: self.subscribed(other) == ["memo://one"])
        for _ in range(100):
            other.call("e_touch", {"uri": "memo://one"})
        peer.notice("notifications/resources/updated")
        peer.ask("ping")
        self.assertLess(sum(got["method"] == "notifications/resources/updated" for got in peer.notices), 20)
        crib.wait_for("the record", lambda: 0 < self.told() < 20)


README = "kind: resource\nname: readme\nuri: docs://read%20me\nhandler: {type: static, text: TEXT}\n"
PAGE = "kind: resourceTemplate\nname: page\nuriTemplate: docs://{name}\nhandler: {type: static, text: '{/name}'}\n"
LONG = "docs://" + "\u00e4" * 300


class Remote(crib.Case):
    """An upstream by URL: another daemon of ours, which speaks everything."""

    def setUp(self):
        super().setUp()
        self.there = crib.Crib().init()
        self.addCleanup(self.there.close)
        self.inner = self.there.tenant("beta", "*", "resource:*")
        self.add(README.replace("TEXT", "one"))
        self.add(PAGE)
        self.there.start()
        self.crib.init()
        self.crib.cli("secret", "set", "inner", stdin=f"Bearer {self.inner}")
        self.key = self.crib.tenant("acme", "r_*", "resource:*")

    def add(self, text):
        path = self.there.dir / "resource.yaml"
        path.write_text(text)
        self.there.cli("resource", "add", path)

    def test_subscriptions_over_http_of_both_eras(self):
        self.crib.start()
        for path, words in (("/mcp", []), ("/sse", ["--transport", "sse"])):
            with self.subTest(path=path):
                self.crib.run("--yes", "upstream", "remove", "r")
                self.crib.cli("upstream", "add", "r", "--allow-private", "yes", "--header", "Authorization={secret:inner}", *words,
                              "--url", "http://%s:%d" % self.there.address("http") + path)
                self.crib.cli("upstream", "sync", "r")
                peer = self.crib.tcp(self.key)
                self.addCleanup(peer.close)
                peer.initialize()
                got = peer.ask("resources/read", {"uri": "r+" + LONG})["result"]["contents"][0]
                self.assertEqual((got["uri"], got["text"]), ("r+" + LONG, "\u00e4" * 300))
                peer.ask("resources/subscribe", {"uri": "r+docs://read%20me"})
                self.add(README.replace("TEXT", f"for {path}"))
                self.assertEqual(peer.notice("notifications/resources/updated")["params"]["uri"], "r+docs://read%20me")
                got = peer.ask("resources/read", {"uri": "r+docs://read%20me"})["result"]["contents"][0]["text"]
                self.assertEqual(got, f"for {path}")


if __name__ == "__main__":
    crib.main()
