"""Secrets as a user meets them: set from standard input, a file or a terminal; used by name; listed, removed, rekeyed."""
import json
import os
import pty
import signal
import socket
import sqlite3
import termios
import threading

import crib

SHOW = crib.tool_yaml("show", """{type: exec, argv: [/bin/sh, -c, 'printf "%s" "$TOKEN" | wc -c; echo "$TOKEN"'], env: {TOKEN: "{secret:token}"}}""")


class Secrets(crib.Case):
    def ready(self, start=True):
        c = self.crib.init()
        c.tenant("acme", "*")
        if start:
            c.start()
        return c

    def call(self, tool="show"):
        done = self.crib.run("--json", "call", "acme", tool)
        return json.loads(done.stdout.splitlines()[0]) if done.stdout else done.stderr

    def text(self, tool="show"):
        return self.call(tool)["content"][0]["text"]

    def both(self, walk):
        for start in (False, True):
            with self.subTest(daemon=start):
                self.crib = crib.Crib()
                self.addCleanup(self.crib.close)
                walk(self.ready(start))

    def test_a_tool_gets_the_value_and_nobody_sees_it(self):
        def walk(c):
            self.assertIn("not set yet: secret token", c.tool(SHOW))
            got = self.call()
            self.assertTrue(got["isError"])
            self.assertIn("the secret token, which this tool needs, is not set", got["content"][0]["text"])
            self.assertEqual(c.cli("secret", "set", "token", stdin="open sesame\n"), "secret token set\n")
            self.assertEqual(self.text(), "11\n[secret:token]\n")
            self.assertEqual(c.cli("secret", "set", "token", stdin="abracadabra!"), "secret token changed\n")
            self.assertEqual(self.text(), "12\n[secret:token]\n")
            self.assertNotIn("not set yet", c.tool(SHOW))
            path = c.dir / "value"
            path.write_text("line 1\nline 2\r\n")
            c.cli("secret", "set", "token", "--file", path)
            self.assertEqual(self.text(), "13\n[secret:token]\n")
        self.both(walk)

    def test_the_list_shows_who_when_and_what_for(self):
        def walk(c):
            c.tool(SHOW)
            c.cli("secret", "set", "spare", stdin="value")
            rows = {row["name"]: row for row in c.json("secret", "list")}
            self.assertEqual((rows["spare"]["set"], rows["spare"]["tools"]), (True, []))
            self.assertEqual(rows["spare"]["actor"], f"uid {os.getuid()}")
            self.assertEqual((rows["token"]["set"], rows["token"]["tools"], rows["token"]["changed"]), (False, ["show"], None))
            table = c.cli("secret", "list")
            self.assertRegex(table, r"(?m)^NAME +SET +CHANGED +BY \(NOT EVIDENCE\) +USED BY$")
        self.both(walk)

    def test_removing_needs_force_while_a_tool_uses_it(self):
        def walk(c):
            c.tool(SHOW)
            c.cli("secret", "set", "token", stdin="value")
            done = c.run("secret", "remove", "token", "--yes")
            self.assertEqual(done.returncode, 1)
            self.assertIn("secret token is used by show", done.stderr)
            self.assertIn("--force", done.stderr)
            c.cli("tool", "disable", "show")
            c.cli("secret", "remove", "token", "--yes")
            c.cli("tool", "enable", "show")
            self.assertIn("is not set", self.call()["content"][0]["text"])
            c.cli("secret", "set", "token", stdin="value")
            c.cli("secret", "remove", "token", "--force", "--yes")
            self.assertIn("is not set", self.call()["content"][0]["text"])
            done = c.run("secret", "remove", "token", "--yes")
            self.assertIn("secret token: not found", done.stderr)
        self.both(walk)

    def test_wrong_input_is_refused_and_changes_nothing(self):
        c = self.ready()
        c.tool(SHOW)
        c.cli("secret", "set", "token", stdin="value")
        for words, stdin, said in ((["a/b"], "value", "a name of a secret has"), (["x" * 65], "value", "a name of a secret has"),
                                   (["k"], "abc", "the value has 3 bytes; it needs 4"), (["k"], "", "the value has 0 bytes"),
                                   (["k"], "x" * 65537, "longer than 65536 bytes"), (["k"], "x" * 70000, "longer than 65536 bytes"),
                                   (["k"], "a\0bc", "not UTF-8 text without NUL"),
                                   (["k", "--file", c.dir / "missing"], "", "cannot open"),
                                   (["k", "the-value"], "", "a value is never a word")):
            done = c.run("secret", "set", *words, stdin=stdin)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(said, done.stderr)
            self.assertNotIn("the-value", done.stderr)
        self.assertEqual([row["name"] for row in c.json("secret", "list")], ["token"])
        for name, value in (("x" * 64, "abcd"), ("k", "x" * 65536)):
            c.cli("secret", "set", name, stdin=value)
        done = c.run("tool", "add", "-", stdin=crib.tool_yaml("bad", """{type: exec, argv: [/bin/echo, "{secret:token}"]}"""))
        self.assertIn("a secret cannot be inserted here", done.stderr)
        self.assertIn("env:", done.stderr)

    def test_a_terminal_is_asked_without_echo(self):
        c = self.ready(False)
        c.tool(SHOW)
        for typed, code in ((b"typed-va\x7fval\x15typed-value\n", 0), (b"half\x03", 1)):
            pid, tty = pty.fork()
            if pid == 0:
                os.execve(crib.BUILD / "toolcrib", ["toolcrib", "--store", str(c.store), "secret", "set", "token"], c.env)
            shown = b""
            while b"not shown" not in shown:
                shown += os.read(tty, 1000)
            crib.wait_for("no echo", lambda: not termios.tcgetattr(tty)[3] & termios.ECHO)
            os.write(tty, typed)
            while True:
                try:
                    more = os.read(tty, 1000)
                except OSError:
                    break
                if not more:
                    break
                shown += more
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), code, shown)
            self.assertNotIn(b"typed", shown)
            os.close(tty)
        self.assertEqual(self.text(), "11\n[secret:token]\n")

    def test_every_command_is_recorded_without_the_value(self):
        c = self.ready()
        c.cli("secret", "set", "token", stdin="the-value-itself")
        c.cli("secret", "rekey")
        c.cli("secret", "remove", "token", "--yes")
        c.stop()
        db = sqlite3.connect(f"file:{c.store}/toolcrib.db?mode=ro", uri=True)
        rows = db.execute("SELECT rec.kind, d.text, ext FROM rec JOIN dict d ON d.id = rec.obj "
                          "WHERE rec.kind IN (1521, 1522, 1908, 1909) ORDER BY rec.id").fetchall()
        db.close()
        self.assertEqual([row[0] for row in rows], [1521, 1908, 1522])
        self.assertRegex(rows[0][1], r"^secret/token@[0-9a-f]{16}$")
        self.assertIn(b"secret set name=token", rows[0][2])
        self.assertNotIn("the-value-itself", str(rows))

    # --- rekey

    def step(self):
        """One step of a rekey, as the CLI asks for it."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(crib.DEADLINE)
            s.connect(str(self.crib.store / "admin.sock"))
            s.sendall(b'{"command":"secret rekey","args":{}}\n')
            with s.makefile() as lines:
                return json.loads(next(lines))["row"]

    def fill(self, n):
        """Many secrets over one connection to the admin socket."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(crib.DEADLINE)
            s.connect(str(self.crib.store / "admin.sock"))
            with s.makefile() as lines:
                for i in range(n):
                    s.sendall(json.dumps({"command": "secret set", "args": {"name": f"s{i}", "value": f"value of {i}"}}).encode() + b"\n")
                    self.assertIn("row", next(lines))
                    self.assertIn("done", next(lines))

    def key_files(self):
        return sorted(path.name for path in self.crib.store.glob("secret-*.key"))

    def test_a_rekey_survives_kill_9_and_goes_on(self):
        c = self.ready()
        c.tool(SHOW)
        c.cli("secret", "set", "token", stdin="open sesame")
        self.fill(70)
        row = self.step()
        self.assertEqual(row["rewritten"], 64)
        self.assertGreater(row["left"], 7, "secrets, and the keys of payloads")
        c.stop(signal.SIGKILL)
        c.start()
        self.assertEqual(self.text(), "11\n[secret:token]\n")
        out = c.cli("secret", "rekey")
        self.assertEqual(out, f"7 secrets are under the new key {row['key']}, 0 are left\n")
        self.assertEqual(self.key_files(), [f"secret-{row['key']}.key"])
        self.assertEqual((c.store / self.key_files()[0]).stat().st_mode & 0o777, 0o400)
        self.assertEqual({row["key"] for row in c.json("secret", "list")}, {row["key"]})
        second = c.cli("secret", "rekey")
        self.assertEqual(len(second.splitlines()), 2, second)
        self.assertEqual(len(self.key_files()), 1)
        self.assertNotIn(row["key"], self.key_files()[0])
        c.stop()
        c.start()
        self.assertEqual(self.text(), "11\n[secret:token]\n")
        c.stop()
        self.assertEqual(self.text(), "11\n[secret:token]\n")

    def test_calls_go_on_during_a_rekey(self):
        c = self.ready()
        c.tool(SHOW)
        c.cli("secret", "set", "token", stdin="open sesame")
        stop, failures, calls = threading.Event(), [], []
        key = c.key("acme/bot")

        def caller():
            peer = c.http(key)
            peer.initialize()
            while not stop.is_set():
                text = peer.call("show")["result"]["content"][0]["text"]
                calls.append(text)
                if text != "11\n[secret:token]\n":
                    failures.append(text)
            peer.close()
        thread = threading.Thread(target=caller)
        thread.start()
        for _ in range(10):
            self.step()
        crib.wait_for("calls", lambda: len(calls) > 5)
        stop.set()
        thread.join()
        self.assertEqual(failures, [])

    def test_a_lost_key_file_is_said_and_can_be_repaired(self):
        c = self.ready()
        c.tool(SHOW)
        c.cli("secret", "set", "token", stdin="open sesame")
        c.cli("secret", "rekey")
        c.stop()
        (c.store / self.key_files()[0]).unlink()
        c.start()
        self.assertIn("cannot be opened", self.call()["content"][0]["text"])
        self.assertIn("key of secrets cannot be read", c.log.read_text())
        c.cli("secret", "set", "token", stdin="open sesame")
        self.assertEqual(self.text(), "11\n[secret:token]\n")


if __name__ == "__main__":
    crib.main()
