"""Tools that a command runs: Ctrl-C and a lost connection cancel them, session list shows them, progress and questions reach
whoever gave the command."""
import json
import os
import pathlib
import pty
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

import crib

NAP = crib.tool_yaml("nap", "{type: exec, argv: [/bin/sleep, '600.375'], stdin: none, output: text}", extra="limits: {timeout: 15m}\n")
STEPS = "\n".join(json.dumps(line) for line in (
    {"progress": {"done": 1, "total": 4, "message": "copying \x1b[31m"}}, {"progress": {"done": 2}}, {"result": {"structuredContent": {"ok": True}}}))


class Call(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(NAP)
        examples = crib.SOURCE.resolve() / "contrib/examples"
        c.tool((examples / "deploy.yaml").read_text().replace("@EXAMPLES@", str(examples)))
        argv = ["/usr/bin/printf", "%s\\n", STEPS.replace("{", "{{").replace("}", "}}")]
        c.tool(crib.tool_yaml("steps", json.dumps({"type": "exec", "argv": argv, "output": "stream"})))
        c.tenant("acme", "nap", "deploy", "steps")

    def begin(self, *words, **more):
        child = subprocess.Popen([str(crib.BUILD / "toolcrib"), "--store", str(self.crib.path), *map(str, words)], env=self.crib.env,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **more)
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        return child

    def commands(self, *options):
        return [row for row in self.crib.json("session", "list", *options) if row["kind"] == "command"]

    def begun(self, *words, **more):
        """A command whose tool runs; it, and its row in the list."""
        child = self.begin(*words, **more)
        row = crib.wait_for("a call in the list", self.commands)[0]
        self.runs()
        return child, row

    def runs(self):
        crib.wait_for("its program", lambda: "sleep" in crib.below(self.crib.daemon.pid).values())

    def outcomes(self):
        return [row["outcome"] for row in self.crib.json("audit", "calls", "--tenant", "acme")]

    def ended(self):
        crib.wait_for("the end of its program", lambda: "sleep" not in crib.below(self.crib.daemon.pid).values())
        self.assertEqual(self.commands(), [])

    def test_n09_an_interrupted_call_is_cancelled(self):
        """By each signal that asks a program to end, together with its tool; and whoever looks sees it while it runs."""
        self.crib.start()
        for signo in (signal.SIGINT, signal.SIGTERM):
            child = self.begin("call", "acme", "nap", "--principal", "bot")
            self.runs()
            if signo == signal.SIGTERM:
                row, = self.commands()
                self.assertEqual((row["tenant"], row["principal"], row["running"]), ("acme", "bot", 1))
                self.assertIn("call tenant=acme tool=nap", row["client"])
                self.assertIn("nap", self.crib.cli("session", "list", "--tenant", "acme"))
            child.send_signal(signo)
            _, err = child.communicate(timeout=crib.DEADLINE)
            self.ended()
            self.assertEqual((child.returncode, err), (128 + signo, "toolcrib: the call was cancelled\n"))
        self.assertEqual(self.outcomes(), ["cancelled"] * 2)

    def test_n09_a_lost_connection_cancels_and_so_does_an_administrator(self):
        self.crib.start()
        child, _ = self.begun("call", "acme", "nap")
        child.kill()
        crib.wait_for("the end of the call", lambda: self.outcomes() == ["cancelled"])
        self.ended()
        child, row = self.begun("call", "acme", "nap")
        self.assertEqual(self.crib.run("session", "kill", row["id"], "--tenant", "other").returncode, 1)
        self.assertEqual(self.crib.json("session", "kill", row["id"], "--tenant", "acme")[0]["calls"], 1)
        _, err = child.communicate(timeout=crib.DEADLINE)
        self.assertEqual((child.returncode, err), (1, "toolcrib: the call was cancelled by an administrator\n"))
        self.ended()

    def test_n09_a_definition_that_is_tried(self):
        self.crib.start()
        (self.crib.dir / "nap.yaml").write_text(NAP)
        child, row = self.begun("tool", "test", self.crib.dir / "nap.yaml")
        self.assertEqual(row["tenant"], None)
        self.assertEqual(self.commands("--tenant", "acme"), [])
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=crib.DEADLINE)
        self.assertEqual(child.returncode, 130, err)
        self.assertIn("cancelled by the client", err)
        self.ended()

    def test_n09_without_a_server(self):
        self.crib.fetch()
        child = self.begin("call", "acme", "nap")
        crib.wait_for("its program", lambda: "sleep" in crib.below(child.pid).values())
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=crib.DEADLINE)
        self.assertEqual((child.returncode, err), (130, "toolcrib: the call was cancelled\n"))
        self.assertEqual(self.outcomes(), ["cancelled"])

    def test_progress_is_said_beside_the_answer(self):
        """Escaped; over the socket and in the command's own process."""
        for start in (lambda: None, self.crib.start):
            start()
            done = self.crib.run("--json", "call", "acme", "steps", "--progress")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, r"^ 25%  1/4  copying [^\x1b]*\[31m\n2\n$")
            self.assertEqual(json.loads(done.stdout)["structuredContent"], {"ok": True})
            self.assertEqual(self.crib.run("call", "acme", "steps").stderr, "")

    def test_questions_without_a_terminal_are_the_answer(self):
        self.crib.start()
        words = ("call", "acme", "deploy", "service=shop", "version=1.4.2")
        done = self.crib.run(*words)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--ask", done.stderr)
        asked = self.crib.json(*words, "--ask")[0]
        self.assertEqual(list(asked["asks"]), ["confirm"])
        answers = {"state": asked["state"], "responses": {"confirm": {"action": "accept", "content": {"reason": "tests"}}}}
        got = self.crib.json(*words, "--ask", "--answers", json.dumps(answers))[0]
        self.assertEqual(got["structuredContent"], {"service": "shop", "version": "1.4.2", "reason": "tests"})
        answers["state"] = "x" + answers["state"]
        self.assertEqual(self.crib.run(*words, "--ask", "--answers", json.dumps(answers)).returncode, 1)
        done = self.crib.run(*words, "--ask", "--answers", '{"state": "x"}')
        self.assertIn("responses", done.stderr)

    def at_terminal(self, words, talk):
        """Run a command at a terminal: talk is what it says and what is typed then; all that it said, and its exit status."""
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(str(crib.BUILD / "toolcrib"), ["toolcrib", "--store", str(self.crib.path), *words], {**self.crib.env, "TERM": "xterm"})
        said, talk = "", list(talk)
        while True:
            try:
                said += os.read(fd, 4096).decode()
            except OSError:
                break
            while talk and talk[0][0] in said:
                os.write(fd, talk.pop(0)[1].encode())
        os.close(fd)
        return said, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def test_questions_and_progress_at_a_terminal(self):
        self.crib.start()
        words = ("call", "acme", "deploy", "service=shop", "version=1.4.2")
        said, code = self.at_terminal(words, (("[c]ancel: ", "y\n"), ("Reason", "\n"), ("no answer to it", "bug 17\n")))
        self.assertEqual(code, 0, said)
        self.assertIn("The tool asks: Deploy shop 1.4.2 to production?", said)
        self.assertIn("Goes into the change log", said)
        self.assertIn("100%  5/5  done", said)
        self.assertIn('"bug 17"', said)
        said, code = self.at_terminal(words, (("[c]ancel: ", "n\n"),))
        self.assertEqual(code, 1, said)
        self.assertIn("the user did not agree", said)

    @unittest.skipUnless(crib.LANDLOCK > 0, "needs Landlock")
    def test_what_the_sandbox_may_have_refused(self):
        """The author hears it from tool test and from the record, with the line that would allow it; the caller does not."""
        c = self.crib
        place = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp"))         # nobody is told to open what is below /dev
        self.addCleanup(shutil.rmtree, place)
        (place / "tool.sh").write_text(f". {place}/lib/lib.sh\n")
        (place / "lib").mkdir()
        (place / "lib/lib.sh").write_text("echo found\n")
        (place / "beside.sh").write_text("echo 'No module named helper' >&2; exit 1\n")

        def document(name, script, more=""):
            path = c.dir / f"{name}.yaml"
            path.write_text(crib.tool_yaml(name, f"{{type: exec, argv: [/bin/sh, {place}/{script}], stdin: none, output: text{more}}}"))
            return path
        path = document("caged", "tool.sh")
        hint = f"the sandbox may be why: it names {place}/lib/lib.sh, which it may not read (sandbox: {{read: [{place}/lib/lib.sh]}}"
        done = c.run("tool", "test", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"hint: {hint}", done.stderr)
        self.assertIn("found", c.run("tool", "test", document("wide", "tool.sh", f", sandbox: {{read: [{place}/lib]}}")).stdout)
        done = c.run("tool", "test", document("beside", "beside.sh"))
        self.assertIn(f"it may read {place}/beside.sh but nothing beside it (sandbox: {{read: [{place}]}}", done.stderr)
        (place / "beside.sh").write_text("echo 'Temporary failure in name resolution' >&2; exit 1\n")
        self.assertIn("it has no network (sandbox: {network: true}", c.run("tool", "test", c.dir / "beside.yaml").stderr)
        (place / "beside.sh").write_text("echo 'division by zero' >&2; exit 1\n")
        self.assertNotIn("sandbox", c.run("tool", "test", c.dir / "beside.yaml").stderr)
        c.cli("tool", "add", path)
        key = c.tenant("other", "caged")
        c.start()
        peer = c.http(key)
        got = json.dumps(peer.call("caged", {}, crib.MODERN))
        peer.close()
        self.assertIn("lib.sh", got)
        self.assertNotIn("sandbox", got)
        self.assertIn(hint, c.cli("audit", "show", c.json("audit", "calls", "--tenant", "other")[0]["call"], "--tenant", "other"))

    def test_without_a_server_an_error_is_said_once(self):
        """What is answered is not logged beside it; with a server it is, in the server's log."""
        c = self.crib
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{closed.getsockname()[1]}"
            c.tool(crib.tool_yaml("gone", f"{{type: http, url: '{url}/x', allow: {{private: true}}}}"), "gone.yaml")
            c.cli("grant", "add", "acme", "gone")
            c.cli("upstream", "add", "far", "--url", url + "/mcp", "--allow-private", "yes")
            for words in (("tool", "test", c.dir / "gone.yaml"), ("call", "acme", "gone"), ("upstream", "sync", "far")):
                done = c.run(*words)
                self.assertIn(done.returncode, (1, 3), words)
                self.assertEqual((done.stdout + done.stderr).count("cannot be reached"), 1, done.stdout + done.stderr)
                self.assertNotIn(" warn ", done.stderr)

    def hint_of(self, script, more=""):
        """What `tool test` says the sandbox may have refused to this script, and what the tool itself said."""
        path = self.crib.dir / "hinted.yaml"
        (self.place / "hinted.sh").write_text(script)
        path.write_text(crib.tool_yaml("hinted", f"{{type: exec, argv: [/bin/sh, {self.place}/hinted.sh], stdin: none, output: text{more}}}"))
        done = self.crib.run("tool", "test", path)
        self.assertEqual(done.returncode, 1, script)
        self.assertTrue(done.stdout, done.stderr)       # it ran to its end, and said how that came
        return "".join(line for line in done.stderr.splitlines() if line.startswith("hint: ")), done.stdout

    @unittest.skipUnless(crib.LANDLOCK > 0, "needs Landlock")
    def test_a_file_that_may_not_be_made(self):
        """The folder and the key that would allow it: `read`, with a file that is not there, would be refused itself."""
        self.place = place = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, place)
        (place / "out").mkdir()
        may = f"(sandbox: {{write: [{place}/out]}} would let it be made)"
        self.assertEqual(self.hint_of(f"echo x >{place}/out/new")[0],
                         f"hint: the sandbox may be why: it names {place}/out/new, which is not there {may}")
        self.assertIn(f"{place}/out/a/b, which is not there {may}", self.hint_of(f"echo '{place}/out/a/b: Permission denied' >&2; exit 1")[0])
        allowed = f", sandbox: {{write: [{place}/out]}}"
        self.assertEqual(self.hint_of(f"echo x >{place}/out/new; exit 3", allowed)[0], "")
        self.assertEqual((place / "out/new").read_text(), "x\n")
        # what may only be read, and is not there for real, is not the sandbox's doing
        self.assertEqual(self.hint_of(f"cat {place}/out/gone", f", sandbox: {{read: [{place}/out]}}")[0],
                         f"hint: it names {place}/out/gone, which is not there")
        self.assertEqual(self.hint_of(f"cat {place}/out/gone", allowed)[0], f"hint: it names {place}/out/gone, which is not there")
        # no list may have the store in it: one directory beside it is no hint, and nothing is said of what lies in it
        store = self.crib.path.resolve()
        if store.is_relative_to("/dev"):        # of which nothing is said at all
            return
        self.assertIn(f"it names {store.parent}/new, which is not there, and no tool may make files in {store.parent}",
                      self.hint_of(f"echo '{store.parent}/new: Permission denied' >&2; exit 1")[0])
        for name in ("toolcrib.db", "none"):
            self.assertIn(f"it names {store}/{name}, which no tool may read", self.hint_of(f"echo '{store}/{name}: Permission denied' >&2; exit 1")[0])

    @unittest.skipUnless(crib.LANDLOCK > 0, "needs Landlock")
    def test_a_system_call_that_no_tool_may_make(self):
        """It is named where the tool names it; no network is not why, and no path either."""
        self.place = place = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, place)
        for script, word, rule in (
                ("kill -9 1", "kill", "a tool may signal what it has started, and nothing else"),
                (f"chown 1 {place}/hinted.sh", "chown", "no tool may change owners of files"),
                (f"chmod 600 {place}/hinted.sh 2>&1 | sed s/chmod:// >&2; exit 1", "changing permissions", "a tool changes modes and times only of its own files"),
                ("unshare -n true", "unshare", "no tool may mount, change its root or make namespaces"),
                ("echo \"mount: /mnt: permission denied.\" >&2; exit 32", "mount", "no tool may mount, change its root or make namespaces"),
                ("echo 'strace: ptrace(PTRACE_TRACEME, ...): Operation not permitted' >&2; exit 1", "ptrace", "no tool may look into other processes"),
                ("echo 'Error: EPERM: operation not permitted, bpf' >&2; exit 1", "bpf", "no tool may make that call")):
            hint, said = self.hint_of(script)
            self.assertIn(f"hint: the sandbox may be why: it names {word}, and {rule}", hint, said)
            self.assertNotIn("network", hint)
            self.assertNotIn("read", hint)
        plain = "hint: the sandbox may be why: system calls that no tool may make fail so, see toolcrib-run(8)"
        unnamed = "echo '/usr/skill/mount-it: Operation not permitted' >&2; exit 1"
        self.assertEqual(self.hint_of(unnamed)[0], plain + ", and as it has no network, so do sockets (sandbox: {network: true} would give it one)")
        self.assertEqual(self.hint_of(unnamed, ", sandbox: {network: true}")[0], plain)
        self.assertIn("another architecture's numbers", self.hint_of("kill -SYS $$")[0])


if __name__ == "__main__":
    crib.main()
