"""Upstreams: MCP servers whose tools are hosted, from `upstream add` to a call through them."""
import json
import os
import signal

import crib


class Documents(crib.Case):
    """What is said of an upstream before anything is started."""

    def setUp(self):
        super().setUp()
        self.crib.init()

    def refused(self, *words, code=1):
        done = self.crib.run(*words)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr

    def definition(self, name):
        return self.crib.json("upstream", "show", name)[0]["definition"]

    def test_words_become_a_document(self):
        c = self.crib
        self.assertIn("upstream every added", c.cli("upstream", "add", "every", "--env", "A=1", "--prefix", "ev_",
                                                    "--command", "/bin/cat", "-u", "--", "--env"))
        self.assertEqual(self.definition("every"), {"kind": "upstream", "name": "every", "prefix": "ev_", "env": {"A": "1"},
                                                    "command": ["/bin/cat", "-u", "--", "--env"]})
        self.assertIn("unchanged", c.cli("upstream", "add", "every", "--env", "A=1", "--prefix", "ev_",
                                         "--command", "/bin/cat", "-u", "--", "--env"))
        c.cli("upstream", "add", "api", "--url", "https://mcp.example/mcp", "--shared", "yes")
        self.assertEqual([(row["name"], row["by"]) for row in c.json("upstream", "list")],
                         [("api", "url"), ("every", "command")])

    def test_the_program_is_found_by_path_once_when_it_is_added(self):
        self.crib.cli("upstream", "add", "every", "--command", "cat")
        self.assertRegex(self.definition("every")["command"][0], "^/.*/cat$")
        self.assertIn("no program no-such-program is in PATH",
                      self.refused("upstream", "add", "x", "--command", "no-such-program", code=2))

    def test_set_changes_what_is_named_and_an_empty_value_takes_away(self):
        c = self.crib
        c.cli("upstream", "add", "every", "--env", "A=1", "--env", "B=2", "--command", "/bin/cat")
        self.assertIn("changed", c.cli("upstream", "set", "every", "--env", "A=", "--env", "C=3", "--idle", "5s"))
        self.assertEqual(self.definition("every"), {"kind": "upstream", "name": "every", "command": ["/bin/cat"],
                                                    "env": {"B": "2", "C": "3"}, "idle": "5s"})
        c.cli("upstream", "set", "every", "--url", "https://mcp.example/mcp")
        self.assertEqual(self.definition("every"), {"kind": "upstream", "name": "every", "idle": "5s",
                                                    "url": "https://mcp.example/mcp"})
        self.assertIn("disabled", c.cli("upstream", "set", "every", "--enabled", "no"))
        self.assertEqual(c.json("upstream", "show", "every")[0]["state"], "disabled")
        self.assertIn("nothing to set", self.refused("upstream", "set", "every"))

    def test_documents_point_at_what_is_wrong_in_them(self):
        path = self.crib.dir / "upstreams.yaml"
        path.write_text("kind: upstream\nname: docs\ncommand: [/bin/cat]\nasks: maybe\n")
        self.assertIn("upstreams.yaml:4:1: asks: must be true or false", self.refused("upstream", "add", "--file", path))
        path.write_text("kind: upstream\nname: docs\ncommand: [/bin/cat]\n---\nkind: upstream\nname: b\nurl: https://b.example/\n")
        self.assertEqual(self.crib.cli("upstream", "add", "--file", path).splitlines(),
                         ["upstream docs added", "upstream b added"])

    def test_what_is_wrong_is_said(self):
        for words, said in [
                (["x", "--command", "/bin/cat", "{secret:a}"], "a secret cannot be part of a command line"),
                (["x", "--url", "ftp://b.example/"], "must be a URL that begins with https://"),
                (["x", "--url", "https://b.example/", "--env", "A=1"], "env: belongs to an upstream with command"),
                (["x"], "either command or url"),
                (["X", "--command", "/bin/cat"], "is no name of an upstream"),
                (["x", "--env", "PATH=/x", "--command", "/bin/cat"], "PATH is fixed"),
                (["x", "--env", "A={call}", "--command", "/bin/cat"], "one link serves many calls"),
                (["x", "--shared", "yes", "--env", "A={tenant}", "--command", "/bin/cat"], "a shared upstream has no {tenant}"),
                (["x", "--url", "https://b.example/", "--header", "X-Api-Key=abc"], "a credential must come from a secret"),
                (["x", "--url", "https://b.example/", "--header", "Mcp-Name=abc"], "set by the server itself"),
                (["x", "--prefix", "a b", "--command", "/bin/cat"], "is no prefix"),
                (["x", "--idle", "1ms", "--command", "/bin/cat"], "must be a duration from 1s to 24h"),
                ([], "say an upstream's name, or a file")]:
            with self.subTest(words=words):
                self.assertIn(said, self.refused("upstream", "add", *words))
        self.assertEqual(self.crib.json("upstream", "list"), [])

    def test_a_removed_name_is_free_again(self):
        c = self.crib
        c.cli("upstream", "add", "every", "--command", "/bin/cat")
        self.assertIn("upstream every removed", c.cli("--yes", "upstream", "remove", "every"))
        self.assertIn("upstream every: not found", self.refused("upstream", "show", "every"))
        self.assertIn("added", c.cli("upstream", "add", "every", "--command", "/bin/cat"))


ECHO = crib.BUILD.resolve() / "tests/peers/mcp_echo"
NAMES = ["add", "ask", "bad", "die", "echo", "env", "fill", "say", "slow", "steps"]


class Upstream(crib.Case):
    """A daemon with the small MCP server of tests/peers as its upstream."""

    def setUp(self):
        super().setUp()
        self.crib.init().start()
        self.key = self.crib.tenant("acme", "e_*")

    def serve(self, *options, words=(), name="e", sync=True):
        self.crib.cli("upstream", "add", name, *words, "--command", ECHO, *options)
        return self.crib.json("upstream", "sync", name) if sync else None

    def peer(self, rev="2025-11-25", caps=None, key=None):
        peer = self.crib.tcp(key or self.key)
        self.addCleanup(peer.close)
        if rev != crib.MODERN:
            peer.initialize(rev, caps)
        return peer

    def text(self, answer, error=False):
        result = answer["result"]
        self.assertEqual(result.get("isError", False), error, result)
        return result["content"][0]["text"]


class Calls(Upstream):
    def test_a_sync_stores_tools_that_are_called_by_every_revision(self):
        rows = self.serve()
        self.assertEqual([(row["there"], row["said"], row["tool"]) for row in rows],
                         [(name, "stored", f"e_{name}") for name in NAMES])
        for rev in crib.REVS + [crib.MODERN]:
            with self.subTest(rev=rev):
                peer = self.peer(rev)
                claim = crib.MODERN if rev == crib.MODERN else None
                self.assertEqual(peer.tools(claim), [f"e_{name}" for name in NAMES])
                self.assertEqual(self.text(peer.call("e_echo", {"text": f"from {rev}"}, claim)), f"from {rev}")
                result = peer.call("e_add", {"a": 1, "b": 2}, claim)["result"]
                if rev >= "2025-06-18":
                    self.assertEqual(result["structuredContent"], {"sum": 3})
                self.assertEqual(json.loads(result["content"][0]["text"]), {"sum": 3})

    def test_every_revision_is_spoken_with_the_upstream(self):
        for rev in crib.REVS + [crib.MODERN]:
            with self.subTest(rev=rev):
                name = "e" + rev.replace("-", "")
                self.crib.cli("grant", "add", "acme", f"{name}_*")
                self.serve("--revision", rev, name=name)
                self.assertEqual(self.crib.json("upstream", "show", name)[0]["revision"], rev)
                self.assertEqual(self.text(self.peer().call(f"{name}_echo", {"text": "x"})), "x")

    def test_a_call_is_recorded_with_the_digest_of_its_version(self):
        self.serve()
        self.peer().call("e_echo", {"text": "x"})
        call = self.crib.json("audit", "calls", "--tenant", "acme")[0]
        self.assertEqual((call["tool"], call["outcome"]), ("e_echo", "ok"))
        shown = self.crib.json("audit", "show", call["call"])
        self.assertIn(self.crib.json("tool", "show", "e_echo")[0]["digest"], json.dumps(shown))
        self.assertRegex(json.dumps(shown), r'"base[+a-z0-9:]*"', "how far its process is confined")

    def test_progress_and_log_lines_come_through(self):
        self.serve()
        peer = self.peer()
        self.assertEqual(self.text(peer.call("e_steps", {"n": 2}, _meta={"progressToken": "mine"})), "done")
        got = [got["params"] for got in peer.notices if got["method"] == "notifications/progress"]
        self.assertEqual(got[0], {"progressToken": "mine", "progress": 1, "total": 3, "message": "step"})

    def test_a_cancelled_call_is_cancelled_there(self):
        self.serve("--revision", "2025-06-18")
        peer = self.peer()
        peer.send(peer.request("tools/call", {"name": "e_slow", "arguments": {"ms": 600000}}, id=77))
        crib.wait_for("a running call", lambda: self.crib.json("status")[0]["running"] == 1)
        peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}})
        crib.wait_for("its end", lambda: self.crib.json("status")[0]["running"] == 0)
        self.assertEqual(self.crib.json("audit", "calls", "--tenant", "acme")[0]["outcome"], "cancelled")
        self.assertEqual(self.text(peer.call("e_echo", {"text": "alive"})), "alive")

    def test_each_tenant_has_a_process_of_its_own_unless_it_is_shared(self):
        other = self.crib.tenant("other", "e_*", "s_*")
        self.crib.cli("grant", "add", "acme", "s_*")
        self.serve(words=["--env", "WHO={tenant}"])
        self.serve(words=["--shared", "yes", "--env", "WHO=all"], name="s")
        a, b = self.peer(), self.peer(key=other)
        self.assertEqual(self.text(a.call("e_env", {"name": "WHO"})), "acme")
        self.assertEqual(self.text(b.call("e_env", {"name": "WHO"})), "other")
        self.assertEqual(self.text(a.call("s_env", {"name": "WHO"})), "all")
        self.assertEqual(self.text(b.call("s_env", {"name": "WHO"})), "all")

    def test_the_environment_is_what_the_document_says(self):
        self.serve(words=["--env", "A=1"])
        peer = self.peer()
        for name, value in [("A", "1"), ("PATH", "/usr/bin:/bin"), ("LANG", "C.UTF-8"), ("USER", "-"), ("TOOLCRIB_RUN", "-")]:
            self.assertEqual(self.text(peer.call("e_env", {"name": name})), value, name)

    def test_the_directory_is_its_own_or_what_the_document_says(self):
        """toolcrib-tool(5), UPSTREAMS; HOME is the own one in either case."""
        for name, words, here in (("own", (), None), ("there", ("--cwd", "/usr"), "/usr")):
            self.crib.cli("upstream", "add", name, *words, "--read", ECHO, "--command", "/bin/sh", "-c", f"HERE=$(pwd) exec {ECHO}")
            self.crib.cli("upstream", "sync", name)
            self.crib.cli("grant", "add", "acme", f"{name}_*")
            peer = self.peer()
            home = self.text(peer.call(f"{name}_env", {"name": "HOME"}))
            self.assertEqual(self.text(peer.call(f"{name}_env", {"name": "HERE"})), here or home)
            self.assertNotIn(home, ("-", "/", os.environ.get("HOME")))

    def test_the_process_is_confined_and_gets_the_secrets_that_its_document_names(self):
        self.crib.cli("secret", "set", "token", stdin="s3cr3t-value")
        self.serve(words=["--env", "TOKEN={secret:token}"])
        peer = self.peer()
        self.assertEqual(self.text(peer.call("e_env", {"name": "TOKEN"})), "[secret:token]", "known there, blanked here")
        self.assertNotEqual(self.text(peer.call("e_env", {"name": "HOME"})), os.environ.get("HOME"))
        self.assertNotIn(b"s3cr3t-value", self.crib.log.read_bytes())
        self.crib.cli("secret", "set", "token", stdin="another-value")
        self.assertEqual(self.text(peer.call("e_env", {"name": "TOKEN"})), "[secret:token]")

    def test_an_idle_process_ends_and_is_started_again(self):
        self.serve(words=["--idle", "4s", "--env", f"MARK={self.crib.dir}"])
        peer = self.peer()
        self.assertEqual(self.text(peer.call("e_echo", {"text": "one"})), "one")
        self.assertTrue(self.crib.processes(ECHO))
        crib.wait_for("no process", lambda: not self.crib.processes(ECHO))
        self.assertEqual(self.text(peer.call("e_echo", {"text": "two"})), "two")

    def test_a_disabled_upstream_says_so(self):
        self.serve()
        self.crib.cli("upstream", "set", "e", "--enabled", "no")
        self.assertEqual(self.text(self.peer().call("e_echo"), error=True), "upstream e: it is disabled")
        self.crib.cli("upstream", "set", "e", "--enabled", "yes")
        self.assertEqual(self.text(self.peer().call("e_echo", {"text": "x"})), "x")

    def test_a_removed_upstream_takes_its_tools_along(self):
        self.serve()
        peer = self.peer()
        self.crib.cli("--yes", "upstream", "remove", "e")
        peer.notice("notifications/tools/list_changed")
        self.assertEqual(peer.tools(), [])


class Questions(Upstream):
    """What an upstream wants to know goes to the caller, and the answer back."""

    CAPS = {"elicitation": {}}

    def ask_legacy(self, caps=CAPS, rev="2025-11-25"):
        peer = self.peer(rev, caps)
        peer.send(peer.request("tools/call", {"name": "e_ask", "arguments": {"message": "Sure?"}}, id=5))
        return peer

    def question(self, peer):
        got = peer.receive()
        self.assertEqual(got.get("method"), "elicitation/create", got)
        self.assertEqual(got["params"]["message"], "Sure?")
        return got["id"]

    def test_all_four_ways(self):
        """An older or a modern upstream, an older or a modern caller."""
        for rev in ["2025-06-18", crib.MODERN]:
            with self.subTest(upstream=rev, caller="older"):
                self.crib.run("--yes", "upstream", "remove", "e")
                self.serve("--revision", rev, words=["--asks", "yes"])
                peer = self.ask_legacy()
                peer.send({"jsonrpc": "2.0", "id": self.question(peer),
                           "result": {"action": "accept", "content": {"word": "yes"}}})
                self.assertRegex(self.text(peer.answer(5)), "^accept yes")
            with self.subTest(upstream=rev, caller="modern"):
                peer = self.peer(crib.MODERN)
                first = peer.call("e_ask", {"message": "Sure?"}, crib.MODERN, self.CAPS)["result"]
                self.assertEqual(first["resultType"], "input_required")
                (key, request), = first["inputRequests"].items()
                self.assertEqual((request["method"], request["params"]["message"]), ("elicitation/create", "Sure?"))
                second = peer.call("e_ask", {"message": "Sure?"}, crib.MODERN, self.CAPS, requestState=first["requestState"],
                                   inputResponses={key: {"action": "accept", "content": {"word": "yes"}}})
                self.assertRegex(self.text(second), "^accept yes")

    def test_a_caller_that_cannot_be_asked_is_not(self):
        self.serve("--revision", "2025-06-18", words=["--asks", "yes"])
        peer = self.peer()
        self.assertEqual(self.text(peer.call("e_ask")), "refused -")

    def test_without_asks_an_older_upstream_is_told_that_it_cannot_ask(self):
        self.serve("--revision", "2025-06-18")
        self.assertEqual(self.text(self.ask_legacy().answer(5)), "you cannot be asked")

    def test_others_are_served_while_one_is_asked(self):
        self.serve("--revision", "2025-06-18", words=["--asks", "yes"])
        asked, other = self.ask_legacy(), self.peer()
        number = self.question(asked)
        for n in range(20):
            self.assertEqual(self.text(other.call("e_echo", {"text": str(n)})), str(n))
        asked.send({"jsonrpc": "2.0", "id": number, "result": {"action": "decline"}})
        self.assertEqual(self.text(asked.answer(5)), "decline -")

    def test_a_state_is_good_for_its_own_tenant_only_and_once(self):
        self.serve("--revision", "2025-06-18", words=["--asks", "yes", "--shared", "yes"])
        other = self.peer(crib.MODERN, key=self.crib.tenant("other", "e_*"))
        peer = self.peer(crib.MODERN)
        first = peer.call("e_ask", {"message": "Sure?"}, crib.MODERN, self.CAPS)["result"]
        more = {"requestState": first["requestState"], "inputResponses": {"question": {"action": "accept", "content": {}}}}
        self.assertEqual(other.call("e_ask", {"message": "Sure?"}, crib.MODERN, self.CAPS, **more)["error"]["code"], -32602)
        self.assertEqual(self.text(peer.call("e_ask", {"message": "Sure?"}, crib.MODERN, self.CAPS, **more)), "accept -")
        self.assertIn("too late", self.text(peer.call("e_ask", {"message": "Sure?"}, crib.MODERN, self.CAPS, **more), error=True))


class Drift(Upstream):
    """What was accepted is what runs (SEC S-740)."""

    def setUp(self):
        super().setUp()
        self.salt = self.crib.dir / "salt"
        self.salt.write_text("")

    def said(self, rows):
        return {row["there"]: row["said"] for row in rows}

    def accept(self, *tools):
        """What was looked at just now."""
        return self.crib.json("upstream", "accept", "e", *tools, "--digest",
                              self.crib.json("upstream", "diff", "e", *tools)[-1]["digest"])

    def states(self):
        return {row["there"]: row["state"] for row in self.crib.json("upstream", "show", "e")[0]["all"]}

    def test_a_tool_that_changes_is_disabled_until_it_is_accepted(self):
        self.serve("--salt-file", self.salt, words=["--idle", "1s", "--read", self.salt])
        peer = self.peer()
        self.assertEqual(len(peer.tools()), len(NAMES))
        self.salt.write_text(" Now with a catch.")
        self.assertEqual(set(self.said(self.crib.json("upstream", "sync", "e")).values()), {"changed"})
        peer.notice("notifications/tools/list_changed")
        self.assertEqual(peer.tools(), [])
        self.assertEqual(set(self.states().values()), {"changed"})
        self.assertEqual(self.crib.json("upstream", "list")[0]["waiting"], len(NAMES))
        rows = self.accept("echo", "e_add")
        self.assertEqual(self.said(rows), {"add": "stored", "echo": "stored"})
        self.assertEqual({row["version"] for row in rows}, {2})
        self.assertEqual(peer.tools(), ["e_add", "e_echo"])
        self.salt.write_text("")
        self.assertEqual(self.said(self.crib.json("upstream", "sync", "e")),
                         {**{name: "back" for name in NAMES}, "add": "changed", "echo": "changed"})

    def test_a_call_is_refused_before_anybody_has_looked(self):
        self.serve("--salt-file", self.salt, words=["--read", self.salt])
        peer = self.peer()
        self.salt.write_text(" Now with a catch.")
        # acme's process is started by this call and lists what it lists now: not what was accepted
        self.assertIn("is not what was accepted", self.text(peer.call("e_echo", {"text": "x"}), error=True))
        peer.notice("notifications/tools/list_changed")
        self.assertEqual(set(self.states().values()), {"changed"})

    def test_an_upstream_that_says_that_its_tools_changed_is_looked_at(self):
        for rev in ["2025-11-25", crib.MODERN]:
            with self.subTest(rev=rev):
                self.crib.run("--yes", "upstream", "remove", "e")
                self.salt.write_text("")
                self.serve("--salt-file", self.salt, "--storm", "100", "--revision", rev, words=["--read", self.salt])
                peer = self.peer()
                self.text(peer.call("e_echo", {"text": "x"}))
                self.salt.write_text(" Now with a catch.")
                peer.notice("notifications/tools/list_changed")
                crib.wait_for("drift", lambda: set(self.states().values()) == {"changed"})

    def test_new_tools_wait_when_only_looked_for_and_gone_ones_are_removed_by_accept(self):
        self.serve("--tools", "2")
        self.assertIn("e_filler_0", self.peer().tools())
        self.crib.cli("upstream", "set", "e", "--command", ECHO, "--tools", "1")
        self.assertEqual(self.said(self.crib.json("upstream", "sync", "e"))["filler_1"], "gone")
        self.crib.cli("upstream", "set", "e", "--command", ECHO, "--tools", "3")
        rows = self.said(self.crib.json("upstream", "sync", "e", "--check"))
        self.assertEqual((rows["filler_1"], rows["filler_2"]), ("back", "new"))
        self.assertNotIn("e_filler_2", self.peer().tools())
        self.assertEqual(self.said(self.accept()), {"filler_2": "stored"})
        self.assertIn("e_filler_2", self.peer().tools())
        self.crib.cli("upstream", "set", "e", "--command", ECHO)
        self.crib.cli("upstream", "sync", "e")
        self.assertEqual(set(self.said(self.accept()).values()), {"removed"})
        self.assertEqual(self.states(), {name: "in force" for name in NAMES})

    def test_a_name_that_is_taken_is_refused_and_said(self):
        self.crib.tool(crib.tool_yaml("e_echo", "{type: builtin, function: echo}"))
        rows = {row["there"]: row for row in self.serve()}
        self.assertEqual((rows["echo"]["said"], rows["echo"]["why"]), ("refused", "there is a tool e_echo already"))
        self.assertEqual(rows["add"]["said"], "stored")
        self.assertEqual(self.states()["echo"], "refused")

    def test_the_prefix_is_chosen_before_tools_are_stored(self):
        self.serve(sync=False)
        self.crib.cli("upstream", "sync", "e", "--prefix", "other.")
        self.assertIn("other.echo", [row["name"] for row in self.crib.json("tool", "list")])
        done = self.crib.run("upstream", "sync", "e", "--prefix", "new_")
        self.assertEqual(done.returncode, 1)
        self.assertIn('has tools named with the prefix "other."', done.stderr)

    def test_an_operator_who_disabled_a_tool_is_not_overruled(self):
        self.serve("--salt-file", self.salt, words=["--read", self.salt])
        self.crib.cli("tool", "disable", "e_echo")
        self.salt.write_text("x")
        self.crib.cli("upstream", "sync", "e")
        self.salt.write_text("")
        self.crib.cli("upstream", "sync", "e")
        states = {row["name"]: row["state"] for row in self.crib.json("tool", "list")}
        self.assertEqual((states["e_echo"], states["e_add"]), ("disabled", "enabled"))


class Failures(Upstream):
    """Whatever an upstream does, the error names it and callers of other tools notice nothing."""

    def setUp(self):
        super().setUp()
        self.crib.cli("grant", "add", "acme", "own")
        self.crib.tool(crib.tool_yaml("own", "{type: static, text: mine}"))

    def others_are_well(self):
        self.assertEqual(self.text(self.peer().call("own")), "mine")

    def test_a_process_that_dies_is_named_and_started_again(self):
        self.serve("--revision", "2025-06-18")
        peer = self.peer()
        peer.send(peer.request("tools/call", {"name": "e_slow", "arguments": {"ms": 600000}}, id=50))
        self.text(peer.call("e_echo", {"text": "x"}))
        peer.send(peer.request("tools/call", {"name": "e_die", "arguments": {}}, id=51))
        texts = {peer.receive()["result"]["content"][0]["text"] for _ in range(2)}
        self.assertEqual(texts, {"upstream e: its process was killed by signal 9 SIGKILL"})
        self.assertEqual(self.crib.json("upstream", "show", "e")[0]["error"], "its process was killed by signal 9 SIGKILL")
        self.others_are_well()
        crib.wait_for("it to be back", lambda: not peer.call("e_echo", {"text": "y"})["result"].get("isError"))

    def test_a_program_that_is_no_server_is_named(self):
        for program, said in [("/bin/false", "its process ended with status 1"),
                              ("/nonexistent", "its program could not be started: program: No such file or directory")]:
            with self.subTest(program=program):
                self.crib.run("--yes", "upstream", "remove", "x")
                self.crib.cli("upstream", "add", "x", "--command", program)
                done = self.crib.run("upstream", "sync", "x")
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(f"upstream x: {said}", done.stderr)

    def test_what_is_no_mcp_is_an_error_that_names_the_upstream(self):
        for option, said in [("--garbage", "it writes what is no MCP to its output"), ("--endless", "it sent a line that is too long"),
                             ("--flood", "it sent more than 1000 requests in a second")]:
            with self.subTest(option=option):
                self.crib.run("--yes", "upstream", "remove", "x")
                self.crib.cli("upstream", "add", "x", "--command", ECHO, option)
                done = self.crib.run("upstream", "sync", "x")
                self.assertIn(f"upstream x: {said}", done.stderr)
                self.others_are_well()

    def test_an_unknown_revision_is_named(self):
        self.crib.cli("upstream", "add", "x", "--command", ECHO, "--revision", "1999-01-01")
        self.assertIn("upstream x: it speaks no revision of MCP that is known here, but 1999-01-01",
                      self.crib.run("upstream", "sync", "x").stderr)

    def test_bad_results_are_errors_of_that_call_alone(self):
        self.serve()
        peer = self.peer()
        for how, said in [("content", "upstream e: its result has a bad content block"), ("shape", "has no content"),
                          ("result", "is no object"), ("big", "is larger than 1048576 bytes")]:
            with self.subTest(how=how):
                self.assertIn(said, self.text(peer.call("e_bad", {"how": how}), error=True))
        error = peer.call("e_bad", {"how": "error"})["error"]
        self.assertEqual((error["code"], error["message"], error["data"]), (-32602, "upstream e: that [31mwas wrong",
                                                                            {"reason": "wrong"}))
        self.assertEqual(self.text(peer.call("e_bad", {"how": "twice"})), "one")
        self.assertEqual(self.text(peer.call("e_bad", {"how": "stranger"})), "yours")
        self.others_are_well()

    def test_what_the_protocol_keeps_for_itself_is_stripped(self):
        self.serve()
        result = self.peer().call("e_bad", {"how": "meta"})["result"]
        self.assertEqual(result["content"], [{"type": "text", "text": "kept", "_meta": {"v.example/z": 1}},
                                             {"type": "text", "text": "[resource x: e+file:///x]"}])
        self.assertEqual(result["_meta"].pop("v.example/a"), {"b": "c"})
        self.assertEqual(list(result["_meta"]), ["dev.toolcrib/callId"])

    def test_a_line_that_is_too_long_ends_the_link_not_the_server(self):
        self.serve()
        peer = self.peer()
        self.assertIn("upstream e: it sent a line that is too long", self.text(peer.call("e_bad", {"how": "line"}), error=True))
        self.others_are_well()

    def test_a_hanging_server_costs_its_own_callers_their_time_alone(self):
        self.serve(words=["--env", f"MARK={self.crib.dir}"])
        definition = self.crib.json("tool", "show", "e_echo")[0]["definition"]
        self.crib.tool(json.dumps({**definition, "limits": {"timeout": "1s"}}), "echo.json")
        peer = self.peer()
        self.text(peer.call("e_echo", {"text": "x"}))
        for pid in self.crib.processes(ECHO):
            os.kill(pid, signal.SIGSTOP)
        peer.send(peer.request("tools/call", {"name": "e_echo", "arguments": {"text": "x"}}, id=60))
        self.others_are_well()
        self.assertIn("did not finish in time", self.text(peer.answer(60), error=True))

    def test_a_thousand_tools_and_a_list_that_changes_a_hundred_times_a_second(self):
        rows = self.serve("--tools", "1000", "--storm", "10")
        self.assertEqual(len(rows), 1000 + len(NAMES))
        peer = self.peer()
        for n in range(50):
            self.assertEqual(self.text(peer.call("e_filler_7")), "filler_7")
        self.assertEqual(len(peer.tools()), 1000 + len(NAMES) + 1)
        self.others_are_well()


class Remote(crib.Case):
    """An upstream by URL: another daemon of ours, which speaks everything."""

    def setUp(self):
        super().setUp()
        self.there = crib.Crib().init()
        self.addCleanup(self.there.close)
        self.there.cli("tenant", "add", "beta")
        self.there.start("- {transport: http, address: \"127.0.0.1:0\", tenant: beta}\n")
        listeners = json.loads(self.there.run("--json", "status").stdout)["listeners"]
        self.address = [one["address"] for one in listeners if one["transport"] == "http"][1]
        self.there.cli("grant", "add", "beta", "*")
        deploy = crib.SOURCE / "contrib/examples/deploy.yaml"
        self.there.tool(crib.ECHO + "---\n" + deploy.read_text().replace("@EXAMPLES@", str(deploy.parent.resolve())))
        self.crib.init()
        self.key = self.crib.tenant("acme", "r_*")

    def serve(self, path="/mcp", *words):
        self.crib.cli("upstream", "add", "r", "--url", f"http://{self.address}{path}", "--allow-private", "yes",
                      "--asks", "yes", *words)
        self.crib.start()
        return self.crib.json("upstream", "sync", "r")

    def peer(self, rev="2025-11-25", caps=None):
        peer = self.crib.tcp(self.key)
        self.addCleanup(peer.close)
        peer.initialize(rev, caps)
        return peer

    def text(self, answer):
        return answer["result"]["content"][0]["text"]

    def test_a_modern_server_by_streamable_http(self):
        self.assertEqual({row["there"]: row["said"] for row in self.serve()}, {"deploy": "stored", "echo": "stored"})
        self.assertEqual(self.crib.json("upstream", "show", "r")[0]["revision"], crib.MODERN)
        peer = self.peer()
        for n in range(5):
            self.assertEqual(self.text(peer.call("r_echo", {"text": str(n)})), str(n))

    def test_an_older_server_by_http_and_sse_asks_and_is_answered(self):
        self.serve("/sse", "--transport", "sse")
        self.asks()

    def test_a_modern_server_by_streamable_http_asks_and_is_answered(self):
        self.serve()
        self.asks()

    def asks(self):
        peer = self.peer(caps={"elicitation": {}})
        peer.send(peer.request("tools/call", {"name": "r_deploy", "arguments": {"service": "shop", "version": "1.4.2"}}, id=9))
        got = peer.receive()
        self.assertEqual(got.get("method"), "elicitation/create", got)
        peer.send({"jsonrpc": "2.0", "id": got["id"], "result": {"action": "decline"}})
        self.assertIn("not deployed", self.text(peer.answer(9)).lower())

    def test_what_is_added_there_is_noticed(self):
        self.serve()
        self.text(self.peer().call("r_echo", {"text": "x"}))
        self.there.tool(crib.tool_yaml("later", "{type: static, text: hello}"))
        crib.wait_for("the new tool to be seen", lambda: self.crib.json("upstream", "list")[0]["waiting"] == 1)

    def test_a_private_address_needs_to_be_allowed(self):
        done = self.crib.run("upstream", "add", "x", "--url", f"http://{self.address}/mcp")
        self.assertEqual(done.returncode, 1)
        self.crib.cli("upstream", "add", "x", "--url", "https://localhost/mcp")
        self.assertIn("upstream x: its address is not allowed", self.crib.run("upstream", "sync", "x").stderr)

    def test_a_server_that_is_not_there_is_named(self):
        self.serve()
        peer = self.peer()
        self.there.stop(signal.SIGKILL)
        got = peer.call("r_echo", {"text": "x"})["result"]
        self.assertTrue(got["isError"])
        self.assertRegex(got["content"][0]["text"], "^upstream r: (it cannot be reached|the connection to it broke)")

    def test_a_path_that_is_no_mcp_is_named(self):
        self.crib.cli("upstream", "add", "x", "--url", f"http://{self.address}/nothing", "--allow-private", "yes")
        self.assertIn("upstream x: it answered with HTTP status 404", self.crib.run("upstream", "sync", "x").stderr)


if __name__ == "__main__":
    crib.main()
