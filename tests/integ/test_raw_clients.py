"""What a client does, as bytes of its own making: the long list, progress, questions, cancelled calls, changes; in every
revision over TCP, in one of each era over the other transports."""
import json
import os
import pathlib
import subprocess

import crib

TOLD = 0.2              # seconds from a command's end to the notice of its change
MANY, PAGE = 250, 100   # tools of one tenant; of one page
LATEST = crib.REVS[-1]
ASKING = ("2025-06-18", "2025-11-25", crib.MODERN)      # revisions with elicitation (MCP X-01)
CAPS = {"elicitation": {}}
DEPLOY = {"name": "deploy", "arguments": {"service": "shop", "version": "1.4.2"}}

STEPS = """name: steps
description: Reports two steps of three, then the third.
inputSchema: {type: object}
handler:
  type: exec
  argv:
  - /bin/sh
  - -c
  - |
    printf '{{"progress":{{"done":1,"total":3,"message":"one"}}}}\\n'
    sleep 0.02
    printf '{{"progress":{{"done":3,"total":3,"message":"three"}}}}\\n{{"content":{{"type":"text","text":"done"}}}}\\n'
  output: stream
"""


def nap(marker):
    """A tool whose process is to be told from all others."""
    return crib.tool_yaml("nap", f"{{type: exec, argv: [/usr/bin/sleep, '{marker}']}}")


def runs(*argv):
    """Is a process of this command line alive?"""
    wanted = b"".join(word.encode() + b"\0" for word in argv)
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cmdline").read_bytes() == wanted:
                return True
        except OSError:
            pass        # it has ended meanwhile
    return False


class RawClients(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        examples = c.dir / "examples"
        subprocess.run([crib.SOURCE / "contrib/examples/install", examples], check=True, capture_output=True)
        # More questions within a minute than the example allows.
        c.tool((examples / "deploy.yaml").read_text().replace("rate: 20/min", "rate: 1000/min"), "deploy.yaml")
        deploy = examples / "deploy"
        deploy.write_text(deploy.read_text().replace("sleep 0.1\n", "sleep 0.02\n"))
        self.marker = f"6{os.getpid()}"
        c.tool("---\n".join((crib.ECHO, STEPS, nap(self.marker))))
        self.key = c.tenant("acme", "echo", "steps", "nap", "deploy")
        c.start()

    def clients(self, revs=tuple(crib.REVS) + (crib.MODERN,)):
        """Peers that are ready to ask in a revision: (what, peer, revision for each request)."""
        c = self.crib
        for name, make in (("tcp", c.tcp), ("unix", c.unix), ("stdio", c.stdio), ("http", c.http), ("sse", c.sse)):
            for rev in revs if name == "tcp" else [rev for rev in revs if rev in (LATEST, crib.MODERN)]:
                peer = make(self.key)
                if rev != crib.MODERN:
                    peer.initialize(rev, CAPS)
                yield name, peer, rev
                peer.close()

    def begin(self, peer, method, params, rev, caps=None):
        """Send a request; its id, and where its notices and its answer come: on HTTP a stream of its own."""
        message = peer.request(method, params, rev, caps)
        if isinstance(peer, crib.Http):
            return message["id"], peer.stream(message)
        peer.send(message)
        return message["id"], peer

    def newest(self, tool):
        return self.crib.json("audit", "calls", "--tenant", "acme", "--tool", tool, "--limit", "1")[0]

    def test_long_list_comes_in_pages(self):
        """MCP T-04, T-06."""
        names = [f"many-{i:03}" for i in range(MANY)]
        self.crib.tool("---\n".join(crib.tool_yaml(name, "{type: builtin, function: echo}") for name in names))
        self.key = self.crib.tenant("wide", "many-*")
        for name, peer, rev in self.clients():
            with self.subTest(transport=name, revision=rev):
                pages, params = [], {}
                while params is not None:
                    got = peer.ask("tools/list", params, rev)["result"]
                    pages.append([tool["name"] for tool in got["tools"]])
                    params = {"cursor": got["nextCursor"]} if "nextCursor" in got else None
                self.assertEqual([len(page) for page in pages], [PAGE, PAGE, MANY - 2 * PAGE])
                self.assertEqual(sum(pages, []), names)

    def test_progress_under_its_token_and_before_the_answer(self):
        """MCP P-01 to P-05."""
        for name, peer, rev in self.clients():
            with self.subTest(transport=name, revision=rev):
                for token in ("a token", 7):
                    id, at = self.begin(peer, "tools/call", {"name": "steps", "_meta": {"progressToken": token}}, rev)
                    self.assertEqual(at.answer(id)["result"]["content"][0]["text"], "done")
                    expected = [{"progressToken": token, "progress": n, "total": 3, "message": text}
                                for n, text in ((1, "one"), (3, "three"))]
                    if rev == "2024-11-05":
                        for one in expected:
                            del one["message"]      # MCP P-02
                    self.assertEqual([got["params"] for got in at.notices], expected)
                    self.assertEqual({got["method"] for got in at.notices}, {"notifications/progress"})
                    at.notices.clear()
                    if at is not peer:
                        at.close()
                # Nobody asked for it: nothing is told.
                id, at = self.begin(peer, "tools/call", {"name": "steps"}, rev)
                at.answer(id)
                self.assertEqual(at.notices, [])
                if at is not peer:
                    at.close()

    def question(self, peer, rev, answer):
        """Call deploy and answer its question: the question's params, the last answer, the notices."""
        params = {**DEPLOY, "_meta": {"progressToken": "d"}}
        id, at = self.begin(peer, "tools/call", params, rev, CAPS)
        if rev == crib.MODERN:
            got = at.answer(id)["result"]
            self.assertEqual(got["resultType"], "input_required")
            (name, request), = got["inputRequests"].items()
            retry = {**params, "inputResponses": {name: answer}, "requestState": got["requestState"]}
            if at is not peer:
                at.close()
            id, at = self.begin(peer, "tools/call", retry, rev, CAPS)   # MCP R-04
        else:
            request = at.receive()
            self.assertNotEqual(request["id"], None)
            peer.send({"jsonrpc": "2.0", "id": request["id"], "result": answer})
        self.assertEqual(request.get("method"), "elicitation/create", request)
        result = at.answer(id)["result"]
        notices, at.notices = at.notices, []
        if at is not peer:
            at.close()
        return request["params"], result, notices

    def test_accepted_question_runs_the_tool_with_the_answer(self):
        for name, peer, rev in self.clients(ASKING):
            with self.subTest(transport=name, revision=rev):
                answer = {"action": "accept", "content": {"reason": "Tuesday"}}
                asked, result, notices = self.question(peer, rev, answer)
                self.assertEqual(asked["message"], "Deploy shop 1.4.2 to production?")
                self.assertEqual(asked["requestedSchema"]["required"], ["reason"])
                self.assertEqual(result.get("structuredContent"), {**DEPLOY["arguments"], "reason": "Tuesday"}, result)
                told = [got["params"]["progress"] for got in notices]
                self.assertEqual((told[0], told[-1]), (0, 5))
                self.assertEqual(told, sorted(set(told)))       # some may be left out (MCP P-04)
                self.assertEqual(self.newest("deploy")["outcome"], "ok")

    def test_declined_question_reaches_the_tool(self):
        """MCP X-06."""
        for name, peer, rev in self.clients(ASKING):
            with self.subTest(transport=name, revision=rev):
                for action in ("decline", "cancel"):
                    _, result, notices = self.question(peer, rev, {"action": action})
                    self.assertTrue(result["isError"])
                    self.assertIn("Not deployed", result["content"][0]["text"])
                    self.assertEqual(notices, [])

    def test_question_to_a_client_that_cannot_answer_it(self):
        """MCP M-10, E-06: nothing runs; the refusal says what is missing."""
        for name, peer, rev in self.clients():
            with self.subTest(transport=name, revision=rev):
                if rev == crib.MODERN:
                    got = peer.ask("tools/call", DEPLOY, rev)["error"]
                    self.assertEqual(got["code"], -32021)
                    self.assertIn("elicitation", got["data"]["requiredCapabilities"])
                elif rev not in ASKING:
                    got = peer.ask("tools/call", DEPLOY, rev)["result"]
                    self.assertTrue(got["isError"])
                    self.assertIn("elicitation", got["content"][0]["text"])

    def test_cancelled_call_ends_its_process_and_gets_no_answer(self):
        """MCP C-02 to C-04."""
        for name, peer, rev in self.clients():
            with self.subTest(transport=name, revision=rev):
                id, at = self.begin_nap(peer, rev)
                crib.wait_for("the process", lambda: runs("/usr/bin/sleep", self.marker))
                if name == "http" and rev == crib.MODERN:
                    at.close()
                else:
                    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
                crib.wait_for("the end of the process", lambda: not runs("/usr/bin/sleep", self.marker))
                crib.wait_for("the end of the call", lambda: self.newest("nap")["outcome"] == "cancelled")
                # What is asked next is answered next: nothing came for the call, and nothing will.
                self.assertIn("echo", peer.tools(rev))
                self.assertEqual(peer.notices, [])
                if at is not peer:
                    at.close()

    def begin_nap(self, peer, rev):
        """Call nap.  On HTTP its stream has no head before the server has something to say, so no answer is awaited."""
        if not isinstance(peer, crib.Http):
            return self.begin(peer, "tools/call", {"name": "nap"}, rev)
        message = peer.request("tools/call", {"name": "nap"}, rev)
        waiting = crib.http.client.HTTPConnection(*peer.address, timeout=crib.DEADLINE)
        waiting.request("POST", peer.path, json.dumps(message), peer.headers(message))
        return message["id"], waiting

    def test_lost_connection_of_a_legacy_call_lets_it_run(self):
        """MCP C-05: only the answer is lost."""
        peer = self.crib.http(self.key)
        peer.initialize(LATEST)
        _, waiting = self.begin_nap(peer, LATEST)
        crib.wait_for("the process", lambda: runs("/usr/bin/sleep", self.marker))
        waiting.close()
        self.assertIn("echo", peer.tools(LATEST))       # the server has read on since
        self.assertTrue(runs("/usr/bin/sleep", self.marker))
        # The session's end is the end of what it runs.
        peer.connection.request("DELETE", peer.path, headers=peer.headers())
        peer.connection.getresponse().read()
        crib.wait_for("the end of the process", lambda: not runs("/usr/bin/sleep", self.marker))
        peer.close()

    def test_change_is_told_at_once(self):
        """MCP N-01, N-04, N-06."""
        count = 0
        for name, peer, rev in self.clients():
            with self.subTest(transport=name, revision=rev):
                at = peer
                if rev == crib.MODERN:
                    _, at = self.begin(peer, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, rev)
                    self.assertEqual(at.receive()["method"], "notifications/subscriptions/acknowledged")
                elif name == "http":
                    at = peer.stream()
                count += 1
                self.crib.tool(crib.tool_yaml(f"new{count}", "{type: builtin, function: echo}"))
                self.crib.cli("grant", "add", "acme", f"new{count}")
                at.notice("notifications/tools/list_changed", TOLD)
                self.assertIn(f"new{count}", peer.tools(rev))
                if at is not peer:
                    at.close()


if __name__ == "__main__":
    crib.main()
