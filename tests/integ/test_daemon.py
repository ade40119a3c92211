"""The life of toolcribd: ready, reload, drain, the stdio owner, the relay, and who may stop whom (AUDIT A-224, A-303)."""
import contextlib
import json
import os
import pathlib
import re
import select
import signal
import shutil
import socket
import sqlite3
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import crib

SLEEP = crib.tool_yaml("nap", '{type: exec, argv: ["/bin/sleep", "{/seconds}"], stdin: none, output: text}',
                       "{type: object, properties: {seconds: {type: string}}, required: [seconds]}")


NAP = f"600.{os.getpid()}"              # seconds; nobody else's on this machine


def naps(seconds):
    """Processes that have become `sleep SECONDS`."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if crib.comm(path.name) == "sleep" and seconds.encode() in (path / "cmdline").read_bytes().split(b"\0"):
                found.append(path.name)
    return found


def held(fd):
    """What a descriptor of a process leads to; one that is closed meanwhile leads nowhere."""
    try:
        return os.readlink(fd)
    except FileNotFoundError:
        return None


class Daemon(crib.Case):
    def prepare(self):
        c = self.crib.init()
        c.tool(crib.ECHO)
        c.tool(SLEEP, "nap.yaml")
        return c, c.tenant("acme", "echo", "nap")

    def kinds(self):
        db = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        kinds = [row[0] for row in db.execute("SELECT kind FROM rec WHERE kind IN (1601, 1602, 1603) ORDER BY id")]
        db.close()
        return kinds

    def calls(self):
        """The begins of calls."""
        with contextlib.closing(sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)) as db:
            return db.execute("SELECT id FROM rec WHERE kind = 1001").fetchall()

    def events(self):
        return [json.loads(line) for line in self.crib.log.read_text().splitlines() if line.startswith("{")]

    def says(self, words):
        return crib.wait_for(words, lambda: [e for e in self.events() if words in e["event"]])[-1]

    def test_service_manager_is_told_ready_and_stopping(self):
        c = self.crib.init()
        path = str(c.dir / "notify.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(path)
            s.settimeout(crib.DEADLINE)
            c.start(env={"NOTIFY_SOCKET": path})
            self.assertEqual(s.recv(100), b"READY=1")
            self.assertEqual(c.stop(), 0)
            self.assertEqual(s.recv(100), b"STOPPING=1")

    def test_the_service_manager_hears_that_all_is_well(self):
        """OP-104: twice in the time that it waits, if it is this process that it asks."""
        c = self.crib.init()
        path = str(c.dir / "notify.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(path)
            s.settimeout(crib.DEADLINE)
            c.start(env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "400000"})
            self.assertEqual(s.recv(100), b"READY=1")
            for _ in range(5):
                self.assertEqual(s.recv(100), b"WATCHDOG=1")
            os.kill(c.daemon.pid, signal.SIGSTOP)       # a loop that does not turn
            s.settimeout(2)
            with self.assertRaises(TimeoutError):
                while True:
                    self.assertEqual(s.recv(100), b"WATCHDOG=1")
            os.kill(c.daemon.pid, signal.SIGCONT)
            s.settimeout(crib.DEADLINE)
            self.assertEqual(s.recv(100), b"WATCHDOG=1")
            c.stop()
            for env in ({"WATCHDOG_USEC": "400000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "0"}):
                while select.select([s], [], [], 0)[0]:
                    s.recv(100)
                c.start(env={"NOTIFY_SOCKET": path, **env})
                c.status()
                c.stop()
                said = []
                while select.select([s], [], [], 0)[0]:
                    said.append(s.recv(100))
                self.assertEqual(said, [b"READY=1", b"STOPPING=1"], env)

    def test_starts_and_stops_alternate_in_the_records(self):
        c = self.crib.init()
        c.cli("tenant", "add", "acme")
        c.start()
        c.stop()
        c.start()
        c.daemon.kill()
        c.daemon.wait()
        c.cli("tenant", "list")
        kinds = self.kinds()
        self.assertIn(1603, kinds, "a crash is a record of its own")
        self.assertEqual([kind for kind in kinds if kind != 1601][-2:], [1603, 1602])
        self.assertEqual(kinds[::2], [1601] * len(kinds[::2]))

    def test_reload_takes_what_it_can_and_names_the_rest(self):
        """Found.md N-14: what `reload` refuses has file, line and column."""
        c = self.crib.init().start()
        c.config("drain_ms: 1000\naudit: {queue: 300}\n")
        c.daemon.send_signal(signal.SIGHUP)
        self.says("configuration reloaded")
        self.assertIn("audit.queue", self.says("need a restart")["event"])
        c.config("drain_ms: soon\n")
        c.daemon.send_signal(signal.SIGHUP)
        self.assertIn("toolcribd.yaml:", self.says("configuration not reloaded")["event"])
        told = c.run("reload")
        line = next(i for i, text in enumerate((c.dir / "toolcribd.yaml").read_text().splitlines(), 1) if "soon" in text)
        self.assertRegex(told.stderr, rf"toolcribd\.yaml:{line}:\d+: .*drain_ms")
        self.assertEqual(c.json("status")[0]["pid"], c.daemon.pid)

    def test_reload_says_what_changed_and_a_dry_run_changes_nothing(self):
        """Key, old and new value, what needs a restart; in the answer, in the log, and its keys in the record."""
        c = self.crib.init().start("metrics: {listen: \"127.0.0.1:0\"}\n")
        token = c.dir / "token"
        token.write_text("a-secret-that-nobody-is-told\n")
        token.chmod(0o600)
        c.config(f"metrics: {{listen: \"127.0.0.1:0\", token_file: {token}}}\nlog: {{level: debug}}\ndrain_ms: 1000\n"
                 "roles:\n- {role: auditor, uid: 4711}\n")
        want = {"metrics.token_file": (None, str(token), True), "log.level": ("info", "debug", False),
                "drain_ms": ("25000", "1000", False), "roles[0]": (None, '{"role":"auditor","uid":4711}', False)}
        records = "SELECT count(*) FROM v_records WHERE kind = 'config.load'"
        before = c.rows(records)
        for words, first in ((("reload", "--dry-run"), "configuration is fine, and nothing was changed"),
                             (("reload", "--dry-run"), "configuration is fine, and nothing was changed"),
                             (("reload",), "configuration reloaded")):
            *rows, last = c.json(*words)
            self.assertEqual({row["what"]: (row["before"], row["after"], row["restart"]) for row in rows}, want)
            self.assertEqual((last["summary"], last["changes"]), (f"{first}; needs a restart: metrics.token_file", 4))
            if words[1:]:
                self.assertEqual(c.rows(records), before)
                self.assertEqual(c.status()["restart"], "")
        said = self.says("configuration reloaded")["event"]
        self.assertIn("log.level info -> debug", said)
        self.assertEqual(c.status()["restart"], "metrics.token_file")
        detail = c.rows("SELECT ext FROM rec WHERE kind = 1604 ORDER BY idx DESC LIMIT 1")[0][0]
        self.assertTrue(detail.endswith(b"toolcribd.yaml: reloaded, changed: drain_ms, log.level, roles[0], these keys wait for a "
                                        b"restart: metrics.token_file"), detail)
        text = c.cli("reload")
        self.assertEqual(text, f"+ metrics.token_file: none -> {token}, after a restart\n"
                         "configuration reloaded; needs a restart: metrics.token_file\n")
        self.assertNotIn("a-secret-that", c.log.read_text() + text)

    def test_one_wrong_line_refuses_the_whole_file(self):
        """Wherever it stands, and though it would take effect with a restart alone: it would not start."""
        c = self.crib.init().start()
        good = "log: {level: debug}\ndrain_ms: 1000\n"
        for bad, key, said in (("sandbox: {require: base+magic}\n", "sandbox.require", "magic"), ("sandbox: {uids: 5}\n", "sandbox.uids", ""),
                               ("signer: {dir: relative}\n", "signer.dir", "absolute"), ("anchor: {cmd: keep}\n", "anchor.cmd", "absolute"),
                               ("approve: {notify: ask}\n", "approve.notify", "absolute"),
                               ("signer: {dir: /a, socket: /b}\n", "signer.socket", "signer.dir"),
                               ("user: nobody-of-this-name\n", "user", "nobody-of-this-name"),
                               ("roles:\n- {role: king, uid: 1}\n", "role", "king"), ("audit:\n  queue: 1\n", "audit.queue", "256"),
                               ("- {transport: tcp, address: \"127.0.0.1:0\", tls: {cert: /nowhere/c, key: /nowhere/k}}\n", "listener", "/nowhere/c")):
            path = c.config(bad + good if bad.startswith("-") else good + bad)
            with self.subTest(bad):
                line = path.read_text().splitlines().index(bad.splitlines()[-1]) + 1
                place = "" if key == "listener" else rf"toolcribd\.yaml:{line}:\d+: .*"
                for words in (("reload",), ("reload", "--dry-run")):
                    done = c.run(*words)
                    self.assertNotEqual(done.returncode, 0, done)
                    self.assertRegex(done.stderr, place + key)
                    self.assertIn(said, done.stderr)
                self.assertEqual(c.json("status")[0]["restart"], "")
                self.assertIn("refused", c.json("status")[0]["configuration"])
                checked = subprocess.run([crib.BUILD / "toolcribd", "--check-config", "-c", path], capture_output=True, text=True)
                self.assertEqual(checked.returncode, 1)
                self.assertRegex(checked.stderr, place + key)
        c.config(good)
        self.assertEqual([row["what"] for row in c.json("reload", "--dry-run")[:-1]], ["drain_ms", "log.level"])
        c.cli("reload")
        self.assertNotIn("refused", c.json("status")[0]["configuration"])

    def test_stop_lets_running_calls_end(self):
        c, key = self.prepare()
        c.start()
        peer = c.tcp(key)
        peer.send(peer.request("tools/call", {"name": "nap", "arguments": {"seconds": "0.5"}}, crib.MODERN, id=1))
        crib.wait_for("a running call", lambda: c.json("status")[0]["running"] == 1)
        c.daemon.send_signal(signal.SIGTERM)
        self.assertFalse(peer.answer(1)["result"].get("isError", False))
        peer.close()
        self.assertEqual(c.daemon.wait(crib.DEADLINE), 0)
        c.daemon = None

    def test_second_signal_does_not_wait(self):
        c, key = self.prepare()
        c.start("drain_ms: 600000\n")
        peer = c.tcp(key)
        peer.send(peer.request("tools/call", {"name": "nap", "arguments": {"seconds": NAP}}, crib.MODERN, id=1))
        crib.wait_for("a running call", lambda: c.json("status")[0]["running"] == 1)
        c.daemon.send_signal(signal.SIGTERM)
        self.says("stopping signal")
        c.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(c.daemon.wait(crib.DEADLINE), 0)
        c.daemon = None
        rows = c.json("audit", "calls", "--tenant", "acme")
        self.assertEqual([row["outcome"] for row in rows], ["aborted"])

    def test_drain_deadline_cancels(self):
        c, key = self.prepare()
        c.start("drain_ms: 200\n")
        peer = c.tcp(key)
        peer.send(peer.request("tools/call", {"name": "nap", "arguments": {"seconds": "25"}}, crib.MODERN, id=1))
        crib.wait_for("a running call", lambda: c.json("status")[0]["running"] == 1)
        self.assertEqual(c.stop(), 0)

    def test_idle_peers_do_not_hold_a_stop(self):
        c, key = self.prepare()
        c.start("drain_ms: 600000\n")
        peers = [c.tcp(key), c.unix(key), c.http(key), socket.create_connection(c.address("http")),
                 socket.create_connection(c.address("tcp"))]
        peers[2].tools(crib.MODERN)
        self.assertEqual(c.stop(), 0)
        for peer in peers:
            peer.close()

    def test_tenant_option_is_for_the_owner_of_the_store(self):
        c, _ = self.prepare()
        peer = c.stdio(None, "--tenant", "acme")
        self.assertEqual(peer.call("echo", {"text": "x"}, crib.MODERN)["result"]["content"][0]["text"], "x")
        self.assertEqual(peer.close(), 0)
        c.start()
        peer = c.stdio(None, "--tenant", "acme")
        self.assertIsNone(peer.receive())
        self.assertEqual(peer.close(), 1)
        peer = c.stdio(None)
        self.assertIsNone(peer.receive())
        self.assertEqual(peer.close(), 1)

    def test_commands_reach_the_owner_on_stdio(self):
        c, key = self.prepare()
        peer = c.stdio(key)
        peer.initialize()
        self.assertEqual(peer.tools(), ["echo", "nap"])
        c.cli("grant", "remove", "acme", "nap", "--yes")
        self.assertEqual(peer.receive()["method"], "notifications/tools/list_changed")
        self.assertEqual(peer.close(), 0)

    def test_relay_ends_with_the_owner_and_says_why(self):
        c, key = self.prepare()
        c.start()
        peer = c.stdio(key)
        peer.initialize()
        c.daemon.kill()
        c.daemon.wait()
        c.daemon = None
        self.assertIsNone(peer.receive())
        self.assertEqual(peer.close(), 1)
        self.assertIn("the server has ended", (c.dir / "stdio.log").read_text())

    def test_relay_that_holds_lines_says_that_the_server_ended(self):
        """What cannot be handed over any more is no end of input."""
        c, key = self.prepare()
        c.start()
        peer = c.stdio(key)
        peer.initialize()
        c.daemon.send_signal(signal.SIGSTOP)            # more lines than all that is between them holds
        lines = (json.dumps({"jsonrpc": "2.0", "method": "notifications/nothing"}).encode() + b"\n") * 100_000

        def write():
            for step in (lambda: peer.child.stdin.write(lines), peer.child.stdin.close):
                with contextlib.suppress(BrokenPipeError):
                    step()
        writer = threading.Thread(target=write)
        writer.start()
        c.daemon.kill()
        c.daemon.wait()
        c.daemon = None
        self.assertIsNone(peer.receive())
        writer.join(crib.DEADLINE)
        self.assertEqual(peer.close(), 1)
        self.assertIn("the server has ended", (c.dir / "stdio.log").read_text())

    def test_relay_with_a_wrong_key_says_so(self):
        c, _ = self.prepare()
        c.start()
        peer = c.stdio("tck_aaaaaaaaaaaa_" + "a" * 49)
        self.assertIsNone(peer.receive())
        self.assertEqual(peer.close(), 1)
        self.assertIn("the key is not accepted", (c.dir / "stdio.log").read_text())

    def test_standard_output_carries_nothing_but_messages(self):
        """MCP S-02, at the loudest level of the log."""
        c, key = self.prepare()
        path = c.config("log: {level: debug, format: text}\n")
        peer = c.stdio(key, "-c", path)
        peer.initialize()
        peer.call("echo", {"text": "x"})
        peer.child.stdin.close()
        rest = peer.buffer + peer.child.stdout.read()
        self.assertEqual([line for line in rest.splitlines() if not line.startswith(b'{"jsonrpc"')], [])
        self.assertIn("debug", (c.dir / "stdio.log").read_text())
        self.assertEqual(peer.close(), 0)

    def test_daemon_waits_for_a_command_that_owns_the_store(self):
        c = self.crib.init()
        c.tool(crib.tool_yaml("slow", "{type: exec, argv: [/bin/sleep, '1'], stdin: none, output: text}"))
        c.tenant("acme", "slow")
        command = subprocess.Popen([str(crib.BUILD / "toolcrib"), "--store", str(c.store), "call", "acme", "slow"],
                                   env=c.env, stdout=subprocess.DEVNULL)
        crib.wait_for("the command's lock", lambda: b"end" in (c.store / "toolcrib.lock").read_bytes())
        c.start()
        self.assertEqual(command.wait(crib.DEADLINE), 0)

    def test_a_taken_port_is_said_and_ends_the_start(self):
        c = self.crib.init()
        with socket.create_server(("127.0.0.1", 0)) as s:
            path = c.dir / "taken.yaml"
            path.write_text(f"listeners: [{{transport: http, address: '127.0.0.1:{s.getsockname()[1]}'}}]\n")
            done = subprocess.run([str(crib.BUILD / "toolcribd"), "--store", str(c.store), "-c", str(path)],
                                  capture_output=True, text=True, timeout=crib.DEADLINE, env=c.env)
        self.assertEqual(done.returncode, 1)
        self.assertIn("http listener 127.0.0.1:", done.stderr)
        c.cli("tenant", "list")

    def test_failed_store_ends_the_server_and_the_next_start_recovers(self):
        """AUDIT A-216: after a failed write nothing is recorded, so nothing is served; a supervisor starts it again."""
        c, key = self.prepare()
        c.start(wrapper=("sh", "-c", 'ulimit -f 700; exec "$@"', "sh"))
        peer = c.http(key)
        refused = None
        for _ in range(5000):
            try:
                refused = peer.call("echo", {"text": "x" * 200}, crib.MODERN).get("error")
            except (OSError, crib.http.client.HTTPException):
                break
            if refused:
                break
        self.assertEqual(refused["code"], 5030)
        self.assertEqual(c.daemon.wait(crib.DEADLINE), 1)
        c.start()
        self.assertIn("result", c.http(key).call("echo", {"text": "again"}, crib.MODERN))
        # Whether a begin or an end was the first that found no room, each call has its one end now.
        self.assertLessEqual({row["outcome"] for row in c.json("audit", "calls", "--tenant", "acme")}, {"ok", "unknown"})
        c.cli("audit", "verify")

    def test_a_stdio_server_ends_with_its_client(self):
        """SEC S-119: soon after the end of input neither the server is there nor what its tool has started, which would take far longer."""
        c, key = self.prepare()
        peer = c.stdio(key)
        peer.send(peer.request("tools/call", {"name": "nap", "arguments": {"seconds": NAP}}, crib.MODERN))
        crib.wait_for("a tool that runs", lambda: naps(NAP))
        peer.child.stdin.close()
        peer.child.wait(crib.DEADLINE)
        self.assertEqual(naps(NAP), [])
        peer.close()

    def test_f12_the_server_is_confined(self):
        """HARDENING F-12: no new privileges and a filter, in every thread; `status` says so."""
        c = self.crib.init().start()
        if crib.sanitized():
            self.assertTrue(c.json("status")[0]["confined"].startswith("no: built with a sanitizer"))
            self.skipTest("sanitizers need more than a list could say")
        for task in pathlib.Path(f"/proc/{c.daemon.pid}/task").iterdir():
            status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
            self.assertEqual((status["Seccomp"], status["NoNewPrivs"]), ("2", "1"), status["Name"])
        root = ", but it is root (see user in toolcribd.yaml)" if os.geteuid() == 0 else ""
        self.assertRegex(c.json("status")[0]["confined"],
                         r"^no new privileges, no programs, (no other files \(Landlock [1-6]\)|any file of its user's \(no Landlock\))" + re.escape(root) + "$")
        for pid, name in crib.below(c.daemon.pid).items():
            status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
            self.assertEqual((status["Seccomp"], status["NoNewPrivs"]), ("2", "1"), name)

    def send_command(self, command, args, paths=(), fds=()):
        """What the server says to a command on its socket: the last line; paths come with these descriptors."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(crib.DEADLINE)
            s.connect(str(self.crib.path / "admin.sock"))
            line = json.dumps({"command": command, "args": args, **({"files": [str(path) for path in paths]} if paths else {})})
            socket.send_fds(s, [line.encode() + b"\n"], list(fds)) if fds else s.sendall(line.encode() + b"\n")
            got = b""
            while not got.endswith(b"\n") or (b'{"done"' not in got and b'{"error"' not in got):
                more = s.recv(1 << 20)
                self.assertTrue(more, got)
                got += more
        return json.loads(got.splitlines()[-1])

    def other_folder(self):
        """One that no configuration names, with a file."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="toolcrib-other-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        (folder / "canary").write_text("canary")
        return folder

    def start_with_landlock(self, extra=""):
        """A server that Landlock binds, or no test."""
        self.crib.init().start(extra)
        if "Landlock" not in self.crib.json("status")[0]["confined"] or "no Landlock" in self.crib.json("status")[0]["confined"]:
            self.skipTest("this kernel, or this build, has no Landlock for the server")

    def test_f12_a_server_opens_no_other_file(self):
        """HARDENING F-12, SEC S-602: neither for reading nor for writing, whoever names it; the error says what to do."""
        self.start_with_landlock()
        other = self.other_folder()
        for command, args in (("audit verify", {"anchor": [str(other / "canary")]}), ("audit verify", {"signer-state": str(other / "canary")}),
                              ("audit verify", {"with-bundle": str(other / "canary")}), ("backup", {"file": str(other / "copy")}),
                              ("backup", {"file": str(self.crib.dir / "copy")}), ("backup", {"file": "/etc/toolcrib-copy"})):
            error = self.send_command(command, args)["error"]
            self.assertIn("ermission denied", error["message"], (command, args))
            self.assertIn("files in toolcribd.yaml(5)", error["hint"], (command, args))
        self.assertEqual([path.name for path in other.iterdir()], ["canary"])
        self.assertIn("done", self.send_command("backup", {"file": str(self.crib.path / "copy")}))

    def test_f12_further_folders_are_named(self):
        """toolcribd.yaml(5) files: what commands from other machines name."""
        other, more = self.other_folder(), self.other_folder()
        self.crib.init().start(f"files: '{other}:{more}'\n")
        for folder in (other, more):
            self.assertIn("done", self.send_command("backup", {"file": str(folder / "copy")}))
            self.assertIn("done", self.send_command("audit verify", {"anchor": [str(folder / "canary")]}))
        self.crib.stop()
        for wrong in ("here", f"{other}/canary", f"{other}:/no-such-folder"):
            with self.assertRaises(AssertionError) as caught:
                self.crib.start(f"files: '{wrong}'\n")
            self.crib.daemon = None
            self.assertIn("is no absolute path of a directory", str(caught.exception))

    def test_f12_without_landlock_status_says_so(self):
        """An older kernel is no failure."""
        self.crib.init().start("sandbox: {landlock: 0, require: base}\n")
        if crib.sanitized():
            self.skipTest("nothing of the server is confined")
        self.assertIn("any file of its user's (no Landlock)", self.crib.json("status")[0]["confined"])
        other = self.other_folder()
        self.assertIn("done", self.send_command("backup", {"file": str(other / "copy")}))

    def test_f12_files_come_with_the_command(self):
        """toolcrib opens what it names: a copy of the store, its keys, what is verified; nothing stays of what fails."""
        self.start_with_landlock()
        other = self.other_folder()
        (other / "closed").mkdir()
        self.crib.tenant("acme")
        self.crib.cli("backup", other / "copy", "--keys", other / "keys")
        copy = sqlite3.connect(f"file:{other}/copy?mode=ro", uri=True)
        self.assertEqual(copy.execute("PRAGMA integrity_check").fetchone(), ("ok",))
        self.assertEqual(copy.execute("SELECT count(*) FROM tenant WHERE name = 'acme'").fetchone(), (1,))
        copy.close()
        self.assertEqual({(other / name).stat().st_mode & 0o777 for name in ("copy", "keys")}, {0o600})
        before = {path.name: path.read_bytes() for path in other.iterdir() if path.is_file()}
        for words in (("backup", other / "copy"), ("backup", other / "new", "--keys", other / "keys")):
            done = self.crib.run(*words)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn("exists already", done.stderr)
        for word in ("--anchor", "--signer-state", "--with-bundle"):
            done = self.crib.run("audit", "verify", word, other / "canary")
            self.assertNotEqual(done.returncode, 0, word)
            self.assertNotIn("ermission", done.stdout + done.stderr, word)
        self.assertEqual(self.crib.run("audit", "verify", "--signer-state", self.crib.path / "signer").returncode, 0)
        self.assertEqual({path.name: path.read_bytes() for path in other.iterdir() if path.is_file()}, before)
        self.assertEqual([path.name for path in self.crib.path.iterdir() if "-copy" in path.name], [], "nothing in the store either")

    def test_f12_descriptors_that_are_no_files_are_refused(self):
        """A pipe could be waited for, a folder holds others, a file without a name is gone; more than 16 and paths without one are refused; all are closed."""
        self.crib.init().start()
        fds = pathlib.Path(f"/proc/{self.crib.daemon.pid}/fd")
        try:
            list(fds.iterdir())
        except PermissionError:
            self.skipTest("needs to look at the server's descriptors")
        r, w = os.pipe()
        folder = os.open(self.crib.dir, os.O_RDONLY)
        plain = os.open(self.other_folder() / "canary", os.O_RDONLY)
        nameless = os.memfd_create("nameless")
        self.addCleanup(lambda: [os.close(fd) for fd in (r, w, folder, plain, nameless)])
        for paths, sent, says in ((["/x"], [r], "no regular file"), (["/x"], [folder], "no regular file"), (["/x"], [nameless], "no regular file"), (["/x"], [], "a descriptor for each"),
                                  (["/x", "/y"], [plain], "a descriptor for each"), (["/x"] * 17, [plain] * 17, "at most 16 files")):
            error = self.send_command("audit verify", {"anchor": ["/x"]}, paths, sent)["error"]
            self.assertIn(says, error["message"])
        self.assertIn("done", self.send_command("audit verify", {"anchor": ["/x"]}, ["/x"] * 16, [plain] * 16))
        self.send_command("status", {}, (), [plain] * 40)
        sent = {os.readlink(f"/proc/self/fd/{fd}") for fd in (r, folder, plain, nameless)}
        crib.wait_for("the descriptors to be closed", lambda: not sent & {held(fd) for fd in fds.iterdir()})
        self.assertGreaterEqual(self.crib.json("status")[0]["counters"]["admin_files_refused"], 3)

    def test_the_signer_is_confined(self):
        """SEC S-604: a filter of its own, which lets nothing through that is not on its list, and no way to new privileges."""
        c = self.crib.init().start()
        if crib.sanitized("toolcrib-sign"):
            self.skipTest("sanitizers need more than a list could say")
        signer = next(pathlib.Path(f"/proc/{pid}") for pid, name in crib.below(c.daemon.pid).items() if name == "toolcrib-sign")
        status = dict(line.split(":\t", 1) for line in (signer / "status").read_text().splitlines() if ":\t" in line)
        self.assertEqual((status["Seccomp"], status["NoNewPrivs"]), ("2", "1"))
        left = {path.readlink().as_posix() for path in (signer / "fd").iterdir()} if os.geteuid() == 0 else set()
        self.assertEqual([name for name in left if "toolcrib.db" in name or "master.key" in name or "keys.db" in name], [])

    @unittest.skipUnless(os.geteuid() == 0, "needs two users")
    def test_a_signer_serves_the_user_that_it_was_told(self):
        """toolcrib-sign(8): --user stands in place of its own."""
        path = self.crib.dir / "sign.sock"
        self.crib.dir.chmod(0o755)
        signer = subprocess.Popen([crib.BUILD / "toolcrib-sign", "--dir", self.crib.dir / "keys", "--socket", path, "--user", "40001"],
                                  stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(signer.wait)
        self.addCleanup(signer.kill)
        crib.wait_for("a signer that listens", path.exists)
        path.chmod(0o666)

        def ended(user, wait):
            """Whether the signer ends this user's connection."""
            child = os.fork()
            if child == 0:
                got = 3
                try:
                    os.setgroups([])
                    os.setgid(user)
                    os.setuid(user)
                    with socket.socket(socket.AF_UNIX) as s:
                        s.settimeout(wait)
                        s.connect(str(path))
                        got = 1 if s.recv(1) == b"" else 2
                except TimeoutError:
                    got = 0
                except ConnectionError:
                    got = 1
                finally:
                    os._exit(got)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self.assertEqual([ended(user, crib.DEADLINE) for user in (40002, 0)], [1, 1])
        self.assertEqual(ended(40001, 0.3), 0, "it waits to be asked")

    def test_the_programs_are_hardened(self):
        """SEC S-930, as far as it is kept: placed anywhere, no executable stack, relocations read-only, guarded stacks."""
        LOAD, DYNAMIC, STACK, RELRO = 1, 2, 0x6474e551, 0x6474e552
        for name in ("toolcrib", "toolcribd", "toolcrib-launcher", "toolcrib-run", "toolcrib-sign", "toolcrib-worker",
                     "toolcrib-report", "toolcrib-verifier", "toolcrib-ship", "toolcrib-console"):
            with self.subTest(program=name):
                data = (crib.BUILD / name).read_bytes()
                self.assertEqual(data[:5], b"\x7fELF\x02")
                kind, headers, size, count = *struct.unpack_from("<H", data, 16), *struct.unpack_from("<Q", data, 32), \
                    *struct.unpack_from("<HH", data, 54)
                parts = [struct.unpack_from("<IIQQQQ", data, headers + i * size) for i in range(count)]
                self.assertEqual(kind, 3)
                self.assertEqual([flags & 1 for part, flags, *_ in parts if part == STACK], [0])
                self.assertEqual(len([part for part, *_ in parts if part == RELRO]), 1)
                self.assertEqual([part for part, flags, *_ in parts if part == LOAD and flags & 3 == 3], [])
                _, _, offset, _, _, length = next(part for part in parts if part[0] == DYNAMIC)
                tags = [struct.unpack_from("<q", data, offset + i)[0] for i in range(0, length, 16)]
                self.assertNotIn(22, tags, "text relocations")
                self.assertIn(b"__stack_chk_fail", data)

    def test_the_configuration_is_found_where_the_manual_says(self):
        """product.md 9: -c first, then XDG_CONFIG_HOME, then ~/.config; a wrong file is named by its path."""
        if any(pathlib.Path(folder, "toolcrib/toolcribd.yaml").exists() for folder in ("/etc", "/usr/local/etc")):
            self.skipTest("this machine has a configuration")
        c = self.crib.init()
        folders = {name: c.dir / name for name in ("config", "home/.config", "named")}
        for folder in folders.values():
            (folder / "toolcrib").mkdir(parents=True, exist_ok=True)
            (folder / "toolcrib/toolcribd.yaml").write_text("drain_ms: soon\n")

        def said(*options, **env):
            done = subprocess.run([crib.BUILD / "toolcribd", "--check-config", *options], capture_output=True, text=True,
                                  timeout=crib.DEADLINE, env={**c.env, "HOME": str(c.dir / "home"), **env})
            return done.returncode, done.stderr
        self.assertIn(f"{folders['config']}/toolcrib/toolcribd.yaml:1", said()[1])
        self.assertIn(f"{folders['home/.config']}/toolcrib/toolcribd.yaml:1", said(XDG_CONFIG_HOME="")[1])
        self.assertIn(f"{folders['named']}/toolcrib/toolcribd.yaml:1", said("-c", str(folders["named"] / "toolcrib/toolcribd.yaml"))[1])
        (folders["config"] / "toolcrib/toolcribd.yaml").unlink()
        self.assertEqual(said()[0], 0, "none is the built-in one")

    def test_nobody_but_the_server_has_its_lock_open(self):
        """FAULT F53: neither a tool nor the signer has inherited it, so that the store is free the moment the server dies."""
        c, key = self.prepare()
        c.start()
        peer = c.tcp(key)
        peer.send(peer.request("tools/call", {"name": "nap", "arguments": {"seconds": NAP}}, crib.MODERN))

        def holders():
            found = {}
            for process in pathlib.Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):      # any of the machine's may end meanwhile
                    for name in os.listdir(process / "fd"):
                        with contextlib.suppress(OSError):
                            path = (process / "fd" / name).readlink()
                            if path.parent == c.store:
                                found.setdefault(path.name, set()).add(int(process.name))
            return found
        crib.wait_for("a tool's own program", lambda: naps(NAP))
        self.assertEqual(holders()["toolcrib.lock"], {c.daemon.pid})
        self.assertEqual(set().union(*holders().values()), {c.daemon.pid})
        c.daemon.kill()
        c.daemon.wait()
        peer.close()
        self.assertEqual(c.cli("-q", "tenant", "list"), "acme\n")
        c.daemon = None
        c.start()
        self.assertEqual(c.stop(), 0)
        self.assertIn("INTACT", c.cli("audit", "verify"))

    def test_a_command_that_is_killed_leaves_the_store_to_the_next(self):
        """FAULT F54: it was the owner, in the middle of a call."""
        c, _ = self.prepare()
        for turn in range(3):
            command = subprocess.Popen([crib.BUILD / "toolcrib", "--store", c.store, "call", "acme", "nap", "seconds=600.75"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=c.env)
            crib.wait_for("a call that has begun", lambda: len(self.calls()) == turn + 1)
            command.kill()
            command.wait()
            self.assertEqual(c.cli("-q", "tenant", "list"), "acme\n")
        self.assertEqual([row["outcome"] for row in c.json("audit", "calls", "--tenant", "acme")], ["unknown"] * 3)
        self.assertIn("INTACT", c.cli("audit", "verify"))
        c.start()

    def test_options(self):
        for words, code, where, says in ((["--version"], 0, "stdout", "toolcribd 0"), (["--help"], 0, "stdout", "--stdio"),
                                         (["--sample-config"], 0, "stdout", "#listeners:"), (["--nope"], 2, "stderr", "usage:"),
                                         (["word"], 2, "stderr", "usage:"), (["--tenant", "x"], 2, "stderr", "--stdio")):
            with self.subTest(words=words):
                done = subprocess.run([str(crib.BUILD / "toolcribd"), *words], capture_output=True, text=True,
                                      timeout=crib.DEADLINE, env=self.crib.env)
                self.assertEqual(done.returncode, code)
                self.assertIn(says, getattr(done, where))
                self.assertEqual(done.stderr if where == "stdout" else done.stdout, "")

    def test_the_programs_beside_say_what_they_take(self):
        """toolcrib-sign(8), toolcrib-verify(8), toolcrib-run(8): usage is exit 2, what cannot be read 3, a start by hand 126."""
        for words, code, says in ((("toolcrib-sign", "--version"), 0, "toolcrib-sign 0"), (("toolcrib-sign", "--help"), 0, "usage:"),
                                  (("toolcrib-sign",), 2, "usage:"), (("toolcrib-sign", "--dir", self.crib.dir, "--keys"), 1, "no store"),
                                  (("toolcrib-verify",), 2, "usage:"), (("toolcrib-verify", "--nope", "x"), 2, "usage:"),
                                  (("toolcrib-verify", self.crib.dir / "none"), 3, "No such file"), (("toolcrib-run",), 126, "toolcribd"),
                                  (("toolcrib-worker",), 126, "toolcribd"), (("toolcrib-worker", "--version"), 0, "toolcrib-worker 0"),
                                  (("toolcrib-worker", "--help"), 0, "usage:"), (("toolcrib-worker", "x"), 2, "usage:"),
                                  (("toolcrib-report",), 126, "toolcribd"), (("toolcrib-report", "--version"), 0, "toolcrib-report 0"),
                                  (("toolcrib-report", "--help"), 0, "usage:"), (("toolcrib-report", "x"), 2, "usage:"),
                                  (("toolcrib-ship",), 2, "usage:"), (("toolcrib-ship", "--version"), 0, "toolcrib-ship 0"),
                                  (("toolcrib-console",), 126, "toolcribd"), (("toolcrib-console", "--help"), 0, "usage:"),
                                  (("toolcrib-verifier",), 126, "toolcribd"), (("toolcrib-verifier", "--help"), 0, "usage:")):
            with self.subTest(words=words):
                done = subprocess.run([crib.BUILD / words[0], *words[1:]], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                      timeout=crib.DEADLINE, env=self.crib.env)
                self.assertEqual(done.returncode, code)
                self.assertIn(says, done.stdout + done.stderr)
        c = self.crib.init()
        done = subprocess.run([crib.BUILD / "toolcrib-sign", "--dir", c.store / "signer", "--keys"], capture_output=True, text=True,
                              timeout=crib.DEADLINE)
        self.assertEqual(done.returncode, 0, done.stderr)
        keys = [line for line in done.stdout.splitlines() if line]
        self.assertEqual(len(keys), 2, "of the logs and of the epoch in force")
        self.assertEqual(keys[0], c.cli("audit", "keys").splitlines()[0])
        for words, code, finding in (((), 0, "INTACT"), (("--anchor-max-age", "1h"), 5, "NO_ANCHOR"), (("-q", "--anchor-max-age", "1h"), 5, "")):
            done = subprocess.run([crib.BUILD / "toolcrib-verify", *crib.evidence(c.store), *words, c.store], capture_output=True, text=True, timeout=crib.DEADLINE)
            self.assertEqual(done.returncode, code, done.stdout)
            self.assertIn(finding, done.stdout)
            self.assertEqual("NO_ANCHOR" in done.stdout, finding == "NO_ANCHOR", "-q prints the last line only")


if __name__ == "__main__":
    crib.main()
