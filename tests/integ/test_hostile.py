"""A hostile tool program is refused or ended, whatever it tries, and leaves nothing behind (SEC S-501 to S-518, S-B15)."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import sqlite3
import subprocess

import crib

HOSTILE = crib.BUILD / "tests/hostile/hostile"
WITHOUT = crib.BUILD / "tests/hostile/without"
LEVEL = r"base(\+landlock:[1-6])?(\+seccomp)?(\+net0)?(\+cgroup)?"


def alive(pid):
    """Is there such a process, dead ones that nobody has looked after not counted?"""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def descendants(pid):
    """All processes below pid but those that are part of the server."""
    return [child for child, name in crib.below(pid).items() if name not in crib.SERVER]


class Hostile(crib.Case):
    """One server; each test adds its tools while it runs."""

    def setUp(self):
        super().setUp()
        c = self.crib.init()
        self.outside, self.listed = c.dir / "outside", c.dir / "listed"
        for folder in (self.outside, self.listed):
            folder.mkdir()
            (folder / "data").write_text("data\n")
        self.key = c.tenant("acme", "*")

    def start(self, *args, **more):
        self.crib.start(*args, **more)
        self.level = self.crib.json("status")[0]["sandbox"].split(",")[0]
        self.assertRegex(self.level, f"^{LEVEL}$")
        found = re.search(r"landlock:(\d+)", self.level)
        self.landlock, self.seccomp = int(found.group(1)) if found else 0, "seccomp" in self.level
        self.peer = self.crib.http(self.key)

    def need(self, landlock=1, seccomp=True):
        if self.landlock < landlock or (seccomp and not self.seccomp):
            self.skipTest(f"this kernel reaches {self.level} only")

    def hostile(self, *words, sandbox="{}", output="json", timeout="20s", name=None):
        """Call hostile WORDS as a tool; the result."""
        name = name or words[0]
        argv = json.dumps([str(HOSTILE), *map(str, words)])
        self.crib.tool(crib.tool_yaml(name, f"{{type: exec, argv: {argv}, stdin: none, output: {output}, sandbox: {sandbox}}}",
                                      extra=f"limits: {{timeout: {timeout}, result: 1MiB}}\n"), f"{name}.yaml")
        return self.peer.call(name, {}, crib.MODERN)

    def said(self, *words, **more):
        got = self.hostile(*words, **more)
        self.assertIn("structuredContent", got.get("result", {}), got)
        return got["result"]["structuredContent"]

    def assert_refused(self, said, allowed=()):
        """Every attempt failed, but those that are allowed; a dictionary says with which errno instead of these."""
        for what, result in said.items():
            if what in allowed:
                self.assertEqual(result, "done", what)
            elif isinstance(result, str):
                self.assertIn(result, ("EPERM", "EACCES"), what)

    def assert_nothing_left(self):
        """No process but the server itself."""
        crib.wait_for("no process below the server", lambda: not descendants(self.crib.daemon.pid))
        self.assertEqual(list(self.scratch.iterdir()), [])


class Refused(Hostile):
    def setUp(self):
        super().setUp()
        self.scratch = self.crib.dir / "scratch"
        self.scratch.mkdir()
        self.start(env={"TMPDIR": str(self.scratch)})

    def test_files_outside_the_lists(self):
        """SEC S-507; HARDENING F-14: nor what names the sockets of others."""
        self.need()
        said = self.said("files", self.crib.store, self.outside, self.listed,
                         sandbox=f"{{write: ['{self.listed}'], read: ['{self.crib.dir}']}}", name="reader")
        # The directory that holds the store is readable but for the store, and cannot be listed.
        allowed = ["outside", "listed", "listed_write", "own", "own_status", "symlink"]
        self.assertEqual(said.pop("setxattr"), "EOPNOTSUPP")
        self.assertIn(said.pop("hardlink"), ("EXDEV", "EACCES", "EPERM"))
        self.assertIn(said.pop("rename"), ("EXDEV", "EACCES"))
        self.assert_refused(said, allowed)
        said = self.said("files", self.crib.store, self.outside, self.listed)
        for link in ("hardlink", "rename"):
            self.assertIn(said.pop(link), ("EXDEV", "EACCES", "EPERM"))
        self.assertEqual(said.pop("setxattr"), "EOPNOTSUPP")
        self.assert_refused(said, ["own", "own_status", "symlink"])
        self.assertEqual((self.outside / "data").read_text(), "data\n")
        self.assert_nothing_left()

    def test_other_processes(self):
        self.need()
        said = self.said("processes", self.crib.daemon.pid)
        self.assert_refused(said, ["kill_self", "kill_child", "priority_self"])
        self.assert_nothing_left()

    def test_sockets(self):
        self.need()
        server = socket.create_server(("127.0.0.1", 0))
        hidden = socket.socket(socket.AF_UNIX)
        hidden.bind("\0hostile-test-" + str(os.getpid()))
        port, door = server.getsockname()[1], self.crib.store / "admin.sock"
        self.assertTrue(door.exists())
        said = self.said("sockets", port, door)
        self.assertEqual(said.pop("pair_elsewhere"), "EISCONN")
        self.assert_refused(said, ["stream_pair"])
        if self.landlock >= 4:
            # Ports by name: that one and no other, by TCP and nothing that is like it.
            said = self.said("sockets", port, door, sandbox=f"{{network: {{connect: [{port}]}}}}", name="one_port")
            self.assertEqual(said.pop("tcp6"), "ECONNREFUSED")
            self.assertEqual(said.pop("pair_elsewhere"), "EISCONN")
            self.assert_refused(said, ["tcp", "stream_pair"])
            said = self.said("sockets", port, door, sandbox="{network: {connect: [1]}}", name="other_port")
            self.assertEqual(said.pop("pair_elsewhere"), "EISCONN")
            self.assert_refused(said, ["stream_pair"])
        said = self.said("sockets", port, door, sandbox="{network: true}", name="network")
        self.assertEqual(said["tcp"], "done")
        self.assertEqual(said["udp"], "done")
        for what in ("unix", "abstract", "packet", "raw", "vsock", "datagram_pair"):
            self.assertEqual(said[what], "EPERM", what)
        # What the definition gives away stands in the records.
        calls = self.crib.json("audit", "calls", "--tenant", "acme")
        self.assertEqual({call["tool"]: call["sandbox"] for call in calls if call["tool"] in ("network", "sockets")},
                         {"network": self.level.replace("+net0", ""), "sockets": self.level})

    def test_the_machine(self):
        self.need(landlock=0)
        said = self.said("kernel")
        self.assertEqual(said.pop("clone3"), "ENOSYS")
        self.assertEqual((said.pop("capabilities"), said.pop("core")), (0, 0))
        self.assertIn(said.pop("tty"), ("EACCES", "ENXIO", "ENOENT"))
        self.assert_refused(said, ["personality_asked"])

    def test_f7_modes_and_times_of_its_own_alone(self):
        """HARDENING F-7: Landlock sees neither; the supervisor changes what lies in the own directory and the list."""
        self.need()
        for other in (self.crib.store / "master.key", self.outside / "data", "/dev/null"):
            before = os.stat(other)
            for landlock in (self.crib.dir, "/"):
                said = self.said("own", self.listed, other, sandbox=f"{{write: ['{self.listed}'], read: ['{landlock}']}}")
                refused = {what: said.pop(what) for what in list(said) if what.startswith("other") or what == "set_id"}
                if refused["other_fchmod"] == "EBADF":          # it could not even be opened
                    del refused["other_fchmod"]
                self.assertEqual(set(said.values()), {"done"}, (other, said))
                self.assert_refused(refused)
            after = os.stat(other)
            self.assertEqual((before.st_mode, before.st_uid, before.st_mtime), (after.st_mode, after.st_uid, after.st_mtime))
            for path in self.listed.iterdir():
                path.unlink()

    def test_f8_nothing_is_left_for_another_tenant(self):
        """HARDENING F-8: segments, queues and semaphores outlive a tool, count against nobody and know no tenant."""
        self.need(landlock=0)
        key = os.getpid() + 0x7c000000
        self.assert_refused(self.ipc(key, "canary of acme", self.peer))
        other = self.crib.http(self.crib.tenant("other", "*"))
        said = self.ipc(key, "canary of other", other)
        other.close()
        self.assertNotIn("found", said)
        self.assert_refused(said)
        self.assertNotIn(str(key), pathlib.Path("/proc/sysvipc/shm").read_text().split())

    def ipc(self, key, word, peer):
        argv = json.dumps([str(HOSTILE), "ipc", str(key), word])
        self.crib.tool(crib.tool_yaml("ipc", f"{{type: exec, argv: {argv}, stdin: none, output: json}}"))
        said = peer.call("ipc", {}, crib.MODERN)["result"]["structuredContent"]
        if "cgroup" not in self.level:
            self.assertEqual(said.pop("memfd_create"), "ENOSYS")        # memory that no limit counts
        return said

    def test_f14_no_server_on_a_port_that_is_not_listed(self):
        """HARDENING F-14: listen() on a socket without a name takes a port that Landlock is not asked about."""
        self.need()
        if self.landlock >= 4:
            said = self.said("listen", sandbox="{network: {connect: [1]}}", name="one_port")
            self.assertEqual(said.pop("connect"), "ECONNREFUSED")
            self.assert_refused(said)
            # bind() to another port is Landlock's to refuse, and what was not bound does not listen.
            said = self.said("listen", sandbox="{network: {connect: [1], bind: [8]}}", name="a_server")
            self.assertEqual(said.pop("connect"), "ECONNREFUSED")
            self.assert_refused(said)
            # What is listed is there: the supervisor makes it listen.
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            said = self.said("serve", port, sandbox=f"{{network: {{connect: [{port}], bind: [{port}]}}}}")
            self.assertEqual(set(said.values()), {"done"}, said)
        self.assert_refused({what: result for what, result in self.said("listen").items() if not what.endswith("pair")})

    def test_a_call_of_another_architecture_ends_the_tool(self):
        self.need(landlock=0)
        if os.uname().machine != "x86_64":
            self.skipTest("there is no other one")
        if subprocess.run([HOSTILE, "foreign"], capture_output=True).returncode == -signal.SIGSEGV:
            self.skipTest("this kernel answers no call of the other one, whoever makes it")
        got = self.hostile("foreign")
        self.assertTrue(got["result"]["isError"])
        self.assertIn("SIGSYS", got["result"]["content"][0]["text"])

    def test_what_it_used_stands_in_its_record(self):
        """AUDIT A-403, 0054 and 0055: microseconds and KiB."""
        self.said("work")
        store = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        ((cpu, rss),) = store.execute("SELECT cpu, rss FROM rec WHERE kind = 1002").fetchall()
        store.close()
        self.assertTrue(200000 <= cpu < 2000000, cpu)
        self.assertTrue(40 << 10 <= rss < 80 << 10, rss)

    def test_what_it_used_stands_in_its_record_when_it_was_ended(self):
        self.crib.tool(crib.tool_yaml("flood", "{type: exec, argv: [/bin/sh, -c, 'while :; do echo x; done'], stdin: none}",
                                      extra="limits: {timeout: 20s, result: 1KiB}\n"), "flood.yaml")
        self.assertTrue(self.peer.call("flood", {}, crib.MODERN)["result"]["isError"])
        store = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        ((cpu, rss),) = store.execute("SELECT cpu, rss FROM rec WHERE kind = 1002").fetchall()
        store.close()
        self.assertTrue(cpu and rss, (cpu, rss))

    def test_too_much(self):
        said = self.said("memory")
        self.assertEqual(said["malloc"], "ENOMEM")
        self.assertLess(said["mebibytes"], 4200)
        said = self.said("memory", sandbox="{memory: 64MiB}", name="small")
        self.assertLess(said["mebibytes"], 64)
        said = self.said("descriptors")
        self.assertEqual((said["dup"], said["descriptors"]), ("EMFILE", 253))
        said = self.said("largefile")
        self.assertEqual(said, {"at_the_limit": "done", "beyond": "EFBIG"})
        got = self.hostile("cpu", sandbox="{cpu: 1s}")
        self.assertIn("SIGXCPU", got["result"]["content"][0]["text"])
        got = self.hostile("flood")
        self.assertTrue(got["result"]["isError"])
        self.assertIn("larger than", got["result"]["content"][0]["text"])
        self.assert_nothing_left()


class Programs(Hostile):
    """What was checked is what runs (HARDENING F-15)."""

    def setUp(self):
        super().setUp()
        self.start()

    def write(self, path, text="#!/bin/sh\necho $0\n"):
        path.write_text(text)
        path.chmod(0o755)
        return path

    def says(self, program, name, sandbox="{}", extra=""):
        self.crib.tool(crib.tool_yaml(name, f"{{type: exec, argv: ['{program}'], stdin: none, output: text, sandbox: {sandbox}{extra}}}"))
        result = self.peer.call(name, {}, crib.MODERN)["result"]
        return result.get("isError", False), result["content"][0]["text"].strip()

    def test_f15_a_script_runs_from_what_was_checked(self):
        """By its name where nobody else can put another file there; else from the descriptor."""
        by_name, here = self.write(self.listed / "a"), "/dev/fd/"
        self.assertEqual(self.says(by_name, "by_name"), (False, str(by_name)))
        # The tool itself could, when it may write there.
        failed, text = self.says(by_name, "writer", f"{{write: ['{self.listed}']}}")
        self.assertEqual((failed, text.startswith(here)), (False, True), text)
        open_dir = self.crib.dir / "open"
        open_dir.mkdir()
        (self.listed / "link").symlink_to(self.write(open_dir / "b"))
        for mode, starts in ((0o777, here), (0o770, str(open_dir)), (0o1777, str(open_dir)), (0o755, str(open_dir))):
            open_dir.chmod(mode)
            failed, text = self.says(open_dir / "b", f"mode_{mode:o}")
            self.assertEqual((failed, text.startswith(starts)), (False, True), (oct(mode), text))
        open_dir.chmod(0o777)
        self.assertTrue(self.says(self.listed / "link", "link")[1].startswith(here))
        if os.geteuid() == 0:           # a sticky directory keeps what is ours, not a link of somebody else
            open_dir.chmod(0o1777)
            (open_dir / "theirs").symlink_to(by_name)
            os.chown(open_dir / "theirs", 12345, 12345, follow_symlinks=False)
            failed, text = self.says(open_dir / "theirs", "theirs")
            if pathlib.Path("/proc/sys/fs/protected_symlinks").read_text() == "0\n":
                self.assertEqual((failed, text.startswith(here)), (False, True), text)
            else:                       # the kernel follows none, for root either (proc_sys_fs(5))
                self.assertEqual((failed, text), (True, "the tool's program could not be started: program: Permission denied"))
        open_dir.chmod(0o777)
        for number, interpreter in enumerate(("/usr/bin/env python3", "/usr/bin/perl", "/usr/bin/python3 -I")):
            if pathlib.Path(interpreter.split()[0]).exists():
                script = self.write(open_dir / "other", f"#!{interpreter}\nprint('said')\n")
                self.assertEqual(self.says(script, f"other_{number}"), (False, "said"), interpreter)

    def test_f15_a_pinned_program_is_the_one_that_was_looked_at(self):
        """Text and program by the digest of what the descriptor holds; a change is refused with both digests."""
        script = self.listed / "pinned"
        for size in (30, 55, 56, 63, 64, 65, 119, 120, 128, 16384, 16400, 70000):
            self.write(script, "#!/bin/sh\necho it runs\n".ljust(size, "#"))
            digest = hashlib.sha256(script.read_bytes()).hexdigest()
            self.assertEqual(self.says(script, "pinned", extra=f", sha256: {digest}"), (False, "it runs"), size)
        self.write(script, "#!/bin/sh\necho something else\n")
        found = hashlib.sha256(script.read_bytes()).hexdigest()
        result = self.peer.call("pinned", {}, crib.MODERN)["result"]
        self.assertTrue(result["isError"])
        self.assertIn(f"its SHA-256 is {found}, pinned is {digest}", result["content"][0]["text"])
        binary = self.listed / "binary"
        shutil.copy("/bin/echo", binary)
        digest = hashlib.sha256(binary.read_bytes()).hexdigest()
        self.assertEqual(self.says(binary, "binary", extra=f", sha256: {digest}"), (False, ""))
        with binary.open("ab") as f:
            f.write(b"x")
        self.assertTrue(self.peer.call("binary", {}, crib.MODERN)["result"]["isError"])
        for wrong in ("12", "g" * 64, "A" * 64, "a" * 65):
            with self.assertRaises(crib.Failed) as caught:
                self.says(binary, "wrong", extra=f", sha256: '{wrong}'")
            self.assertIn("64 hexadecimal digits", str(caught.exception))


class Ended(Hostile):
    def setUp(self):
        super().setUp()
        self.scratch = self.crib.dir / "scratch"
        self.scratch.mkdir()
        self.start(env={"TMPDIR": str(self.scratch)})

    def left(self):
        return [int((self.listed / name).read_text()) for name in ("left-session", "left-group")]

    def test_fork_bomb(self):
        got = self.hostile("bomb", sandbox="{processes: 50}")
        self.assertIn("more than 50 processes", got["result"]["content"][0]["text"])
        self.assert_nothing_left()

    def test_zombies_and_escapes(self):
        self.said("zombies")
        self.assert_nothing_left()
        self.said("escape", self.listed, sandbox=f"{{write: ['{self.listed}']}}")
        self.assert_nothing_left()
        for pid in self.left():
            self.assertFalse(alive(pid))

    def test_deadline(self):
        got = self.hostile("hang", self.listed, sandbox=f"{{write: ['{self.listed}']}}", timeout="1s", output="text")
        self.assertTrue(got["result"]["isError"])
        self.assert_nothing_left()
        for pid in self.left():
            self.assertFalse(alive(pid))

    def test_kill_of_the_server(self):
        peer = self.peer
        self.peer = self.crib.tcp(self.key)
        argv = json.dumps([str(HOSTILE), "hang", str(self.listed)])
        self.crib.tool(crib.tool_yaml("hang", f"{{type: exec, argv: {argv}, sandbox: {{write: ['{self.listed}']}}}}"), "h.yaml")
        self.peer.send(self.peer.request("tools/call", {"name": "hang", "arguments": {}}, crib.MODERN))
        crib.wait_for("the tool to leave its marks",
                      lambda: all((self.listed / name).exists() and (self.listed / name).read_text().endswith("\n")
                                  for name in ("left-session", "left-group")))
        below = descendants(self.crib.daemon.pid)
        self.assertGreaterEqual(len(below), 4)
        self.crib.daemon.kill()
        self.crib.daemon.wait()
        self.crib.daemon = None
        crib.wait_for("all processes to end", lambda: not any(map(alive, [*below, *self.left()])))
        crib.wait_for("its directory to go", lambda: not list(self.scratch.iterdir()))
        del peer


class Required(Hostile):
    """What happens where a layer is missing; each kernel can look like that."""

    def without(self, what, extra="sandbox: {require: auto}\n"):
        self.start(extra, wrapper=(str(WITHOUT), what))

    def test_without_landlock_nothing_runs_unless_it_is_allowed(self):
        self.without("landlock")
        self.assertNotIn("landlock", self.level)
        got = self.hostile("zombies")
        text = got["result"]["content"][0]["text"]
        self.assertTrue(got["result"]["isError"])
        self.assertIn("must run in a sandbox of level base+landlock:3", text)
        call = self.crib.json("audit", "calls", "--tenant", "acme")[0]
        self.assertEqual((call["outcome"], call["rule"], call["sandbox"], call["detail"]),
                         ("denied", "sandbox", self.level, "base+landlock:3"))
        self.peer.close()
        self.crib.stop()
        self.without("landlock", "sandbox: {require: base}\n")
        self.assertIn("lets tools run that can read the store", self.crib.log.read_text())
        self.assertEqual(self.said("zombies"), {"zombies": "done"})
        self.assertEqual(self.crib.json("audit", "calls", "--tenant", "acme")[0]["sandbox"], self.level)
        if self.seccomp:        # what Landlock refuses as well, the filter refuses alone
            said = self.said("processes", self.crib.daemon.pid)
            said.pop("descriptors")
            self.assert_refused(said, ["kill_self", "kill_child", "priority_self"])
            said = self.said("sockets", 1, self.crib.store / "admin.sock")
            self.assertEqual(said.pop("pair_elsewhere"), "EISCONN")
            self.assert_refused(said, ["stream_pair"])

    def test_without_a_filter_the_network_is_not_closed(self):
        self.without("seccomp")
        self.need(landlock=3, seccomp=False)
        self.assertNotIn("net0", self.level)
        self.assertEqual(self.said("zombies"), {"zombies": "done"})
        got = self.hostile("zombies", sandbox="{require: base+seccomp}", name="strict")
        self.assertIn("must run in a sandbox of level base+landlock:3+seccomp", got["result"]["content"][0]["text"])
        got = self.hostile("zombies", sandbox="{network: {connect: [80]}}", name="ports")
        self.assertIn("base+landlock:4+seccomp", got["result"]["content"][0]["text"])

    def test_definition_requires_more_never_less(self):
        self.start("sandbox: {require: base+landlock:99}\n")
        got = self.hostile("zombies", sandbox="{require: base}")
        self.assertIn("level base+landlock:99", got["result"]["content"][0]["text"])

    def test_a_tenant_requires_more_for_itself(self):
        self.start()
        done = self.crib.run("tenant", "set", "acme", "--sandbox", "base+lots")
        self.assertEqual(done.returncode, 1)
        self.assertIn("a level is base, then any of", done.stderr)
        other = self.crib.tenant("other", "*")
        self.crib.cli("tenant", "set", "acme", "--sandbox", "base+landlock:99")
        self.assertEqual(self.crib.json("tenant", "show", "acme")[0]["sandbox"], "base+landlock:99")
        got = self.hostile("zombies")
        self.assertIn("must run in a sandbox of level base+landlock:99", got["result"]["content"][0]["text"])
        call = self.crib.json("audit", "calls", "--tenant", "acme")[0]
        self.assertEqual((call["outcome"], call["rule"], call["detail"]), ("denied", "sandbox", "base+landlock:99"))
        peer = self.crib.http(other)
        self.assertFalse(peer.call("zombies", {}, crib.MODERN)["result"].get("isError", False))
        peer.close()
        # A file that says nothing of it takes it away; one that export wrote says it.
        folder = self.crib.dir / "exported"
        self.crib.cli("export", "--output", folder)
        self.crib.cli("tenant", "set", "acme", "--sandbox", "")
        self.assertEqual(self.said("zombies"), {"zombies": "done"})
        self.crib.cli("apply", "-f", folder)
        self.assertIn("landlock:99", self.hostile("zombies")["result"]["content"][0]["text"])
        (self.crib.dir / "acme.yaml").write_text("{kind: tenant, name: acme}\n")
        self.crib.cli("apply", "-f", self.crib.dir / "acme.yaml")
        self.assertEqual(self.said("zombies"), {"zombies": "done"})

    def test_commands_without_a_server_go_by_its_configuration(self):
        c = self.crib
        definition = c.dir / "t.yaml"
        definition.write_text(crib.tool_yaml("t", f"{{type: exec, argv: ['{HOSTILE}', zombies], stdin: none, output: json, "
                                                  "sandbox: {require: base}}"))
        c.cli("tool", "add", definition)
        config = c.dir / "config/toolcrib/toolcribd.yaml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text("sandbox: {require: base}\n")
        for words in (("tool", "test", definition), ("call", "acme", "t")):
            self.assertIn("done", c.cli(*words))
        config.write_text("sandbox: {require: base+landlock:99}\n")
        for words in (("tool", "test", definition), ("call", "acme", "t")):
            done = c.run(*words)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("must run in a sandbox of level base+landlock:99", done.stdout + done.stderr)
        # What nobody can read bounds nobody: nothing is run, and all the rest goes on.
        config.write_text("sandbox: {requires: base}\n")
        done = c.run("tool", "test", definition)
        self.assertEqual(done.returncode, 1)
        self.assertIn("toolcribd.yaml:1:", done.stderr)
        c.cli("tool", "list")

    def test_a_level_that_is_none_does_not_start(self):
        done = self.crib.run("tool", "list")
        self.assertEqual(done.returncode, 0)
        with self.assertRaises(AssertionError) as caught:
            self.crib.start("sandbox: {require: lots}\n")
        self.assertIn("sandbox.require", str(caught.exception))


if __name__ == "__main__":
    crib.main()
