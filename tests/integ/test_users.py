"""Tools run as other users than the server, each tenant as its own (HARDENING 1.1, F-1, F-6, F-7): even with nothing of
Landlock, plain file permissions keep them from the store, from the server and from each other."""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

import crib
import rootless
import test_bwrap

FIRST = 700000
UIDS = f"{FIRST}:1000"
CANARY = "canary-5f1e9c"


class Place(crib.Case):
    """Two tenants, and folders in which their users find what is theirs."""
    SERVER = 0                  # whom the server runs as
    FIRST = FIRST
    USERS = f"uids: '{UIDS}', "

    def setUp(self):
        super().setUp()
        self.public = pathlib.Path(tempfile.mkdtemp(prefix="toolcrib-users-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.public, ignore_errors=True)
        self.public.chmod(0o755)
        self.crib.init()
        self.keys = {name: self.crib.tenant(name, "*") for name in ("acme", "blue")}
        self.scratch = self.public / "scratch"
        self.scratch.mkdir()
        self.scratch.chmod(0o1777)

    def serve(self, sandbox):
        self.crib.start(f"sandbox: {{{sandbox}}}\n", env={"TMPDIR": str(self.scratch)})

    def begin(self, sandbox="require: base+uid", users=None):
        self.serve((self.USERS if users is None else users) + sandbox)
        self.peers = {name: self.crib.tcp(key) for name, key in self.keys.items()}
        for peer in self.peers.values():
            self.addCleanup(peer.close)

    def tool(self, name, script, more=""):
        path = self.public / f"{name}.sh"
        path.write_text(script)
        path.chmod(0o755)
        self.crib.tool(crib.tool_yaml(name, f"{{type: exec, argv: [/bin/sh, '{path}'], stdin: none, output: text{more}}}",
                                      extra="limits: {timeout: 30s}\n"), f"{name}.yaml")

    def say(self, tenant, script, name="t", more=""):
        """What the script says as this tenant's tool."""
        self.tool(name, script, more)
        got = self.peers[tenant].call(name, {}, crib.MODERN)["result"]
        return got["content"][0]["text"].strip() if got["content"] else ""

    def uid(self, tenant):
        return int(self.say(tenant, "id -u", "who"))


class Bodies:
    """What holds whoever has started the server."""

    def test_each_tenant_has_a_user_of_its_own(self):
        self.begin()
        acme, blue = self.uid("acme"), self.uid("blue")
        self.assertNotEqual(acme, blue)
        for uid in (acme, blue):
            self.assertTrue(self.FIRST < uid < self.FIRST + 1000, uid)
        self.assertEqual(self.uid("acme"), acme, "and keeps it")
        self.assertEqual(self.say("acme", "id -g; id -G; while read k v; do case $k in CapEff:) echo $v;; esac; done </proc/self/status"),
                         f"{acme}\n{acme}\n{'0' * 16}")
        self.assertIn("base+uid", self.crib.json("status")[0]["sandbox"])
        self.assertIn("base+uid", self.crib.json("audit", "calls", "--tenant", "acme")[0].get("sandbox", "base+uid"))

    def test_the_process_list_shows_it(self):
        self.begin()
        self.tool("nap", "echo up >$HOME/up; sleep 600.125")
        self.peers["acme"].send(self.peers["acme"].request("tools/call", {"name": "nap", "arguments": {}}, crib.MODERN))
        pid = crib.wait_for("a tool that sleeps", lambda: [p for p, name in crib.below(self.crib.daemon.pid).items() if name == "sleep"])[0]
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        self.assertTrue(self.FIRST < int(re.search(r"\nUid:\t(\d+)", status).group(1)) < self.FIRST + 1000)
        while "Name:\ttoolcrib-run\n" not in status:            # another run may just begin
            parent = re.search(r"\nPPid:\t(\d+)", status).group(1)
            status = pathlib.Path(f"/proc/{parent}/status").read_text()
        self.assertIn(f"\nUid:\t{self.SERVER}\t", status, "what supervises a tool is not the tool's user's")

    def test_f1_without_landlock_the_store_is_out_of_reach(self):
        """HARDENING F-1: read, empty, rename, remove, change of modes, at Landlock 0."""
        self.begin("landlock: 0, require: base+uid")
        store = self.crib.store
        files = [store / "toolcrib.db", store / "master.key", *(store / "signer").glob("*.key"), self.crib.dir / "toolcribd.yaml"]
        before = [(path, path.stat().st_mode, path.stat().st_ino, path.read_bytes()[:64], path.stat().st_size > 0) for path in files]
        for path in files:
            said = self.say("acme", f"""for word in "cat {path}" "truncate -s 0 {path}" "mv {path} {path}.x" "rm -f {path}" \
"chmod 666 {path}" "ln {path} $HOME/x" "stat {path}" "dd of={path} if=/dev/null" "ls {store}"; do
$word >/dev/null 2>&1 && echo "got through: $word"; done; echo end""")
            self.assertEqual(said, "end", path)
        self.assertEqual(before, [(path, path.stat().st_mode, path.stat().st_ino, path.read_bytes()[:64], path.stat().st_size > 0)
                                  for path in files])

    def test_f7_what_the_server_owns_keeps_its_mode(self):
        """HARDENING F-7: a list of what may be written is no leave to change modes of the server's files in it."""
        shared = self.public / "shared"
        shared.mkdir()
        shared.chmod(0o777)
        (shared / "theirs").write_text("x")
        (shared / "theirs").chmod(0o644)
        self.begin("landlock: 0, require: base+uid")
        said = self.say("acme", f"chmod 600 {shared}/theirs && echo changed; echo mine >{shared}/mine && chmod 640 {shared}/mine && echo own",
                        more=f", sandbox: {{write: ['{shared}']}}")
        self.assertIn("own", said.split("\n")[-1])
        self.assertNotIn("changed", said)
        self.assertEqual((shared / "theirs").stat().st_mode & 0o777, 0o644)

    def test_tenants_do_not_reach_each_other(self):
        """Own directories, processes and their memory, at Landlock 0."""
        self.begin("landlock: 0, require: base+uid")
        self.tool("holder", f"SECRET={CANARY} sh -c 'echo {CANARY}-file >$HOME/secret; sleep 600.0625'")
        self.peers["blue"].send(self.peers["blue"].request("tools/call", {"name": "holder", "arguments": {}}, crib.MODERN))
        crib.wait_for("the file of blue", lambda: list(self.scratch.glob("*/secret")))
        pid = crib.wait_for("blue's sleep", lambda: [p for p, name in crib.below(self.crib.daemon.pid).items() if name == "sleep"])[0]
        supervisors = [p for p, name in crib.below(self.crib.daemon.pid).items() if name == "toolcrib-run"]
        targets = " ".join(map(str, [pid, self.crib.daemon.pid, *supervisors]))
        said = self.say("acme", f"""for d in {self.scratch}/*/; do [ "$d" = "$HOME/" ] || ls $d; cat $d/secret; done 2>/dev/null
for p in {targets}; do cat /proc/$p/environ /proc/$p/mem /proc/$p/maps 2>/dev/null; ls /proc/$p/fd 2>/dev/null; kill -9 $p 2>/dev/null && echo killed $p; done
echo end""")
        self.assertEqual(said, "end")
        self.assertTrue(pathlib.Path(f"/proc/{pid}").exists())

    def test_hardening_a_shell_finds_no_byte_of_a_canary(self):
        """In the store, in another tenant's tools, directories and processes, in the server's memory, at Landlock 0; what is
        open to all is found in the same way."""
        canary, half = "canary-", os.urandom(8).hex()
        self.begin("landlock: 0, require: base+uid")
        acme, blue = self.uid("acme"), self.uid("blue")
        self.assertNotIn(self.SERVER, (acme, blue))
        theirs = self.public / "theirs"                 # blue's program, data and own directory
        theirs.mkdir()
        (theirs / "tool.sh").write_text(f"#!/bin/sh\necho {canary}{half} >$HOME/secret; SECRET={canary}{half} sleep 600.0625\n")
        (theirs / "data").write_text(f"{canary}{half}\n")
        for path in (theirs / "tool.sh", theirs / "data", theirs):
            path.chmod(0o500)
            os.chown(path, blue, blue)
        self.crib.tool(crib.tool_yaml("theirs", f"{{type: exec, argv: [/bin/sh, '{theirs}/tool.sh'], stdin: none, output: text}}",
                                      extra="limits: {timeout: 600s}\n").replace("The tool theirs", f"{canary}{half}"))
        self.peers["blue"].send(self.peers["blue"].request("tools/call", {"name": "theirs", "arguments": {"a": canary + half}}, crib.MODERN))
        crib.wait_for("the file of blue", lambda: [path for path in self.scratch.glob("*/secret") if path.read_text()])
        running = crib.below(self.crib.daemon.pid)
        sleeper = crib.wait_for("blue's sleep", lambda: [p for p, name in crib.below(self.crib.daemon.pid).items() if name == "sleep"])
        (self.public / "open").write_text(f"{canary}{half}\n")
        pids = " ".join(map(str, [self.crib.daemon.pid, *running, *sleeper]))
        said = self.say("acme", f"""id -u; c={canary}; c=${{c}}{half}
grep -rl $c {self.crib.dir} {self.crib.store} {self.public} {self.scratch} 2>/dev/null
for p in {pids}; do for f in mem environ cmdline maps auxv; do cat /proc/$p/$f 2>/dev/null; done | grep -a -c $c; ls /proc/$p/fd 2>/dev/null
for f in /proc/$p/fd/* /proc/$p/root/{self.crib.store}/* /proc/$p/cwd/*; do cat $f 2>/dev/null | grep -a $c; done; done | grep -v '^0$'; echo end""")
        self.assertEqual(said.split("\n"), [str(acme), str(self.public / "open"), "end"])
        self.assertIn(f"{canary}{half}".encode(), pathlib.Path(f"/proc/{sleeper[0]}/environ").read_bytes(), "it was there")

    def test_hardening_nothing_survives_a_server_that_is_killed(self):
        """Nobody is left who had the privileges of its launcher; the kernel lets the owner of the namespace end what is in it."""
        self.begin()
        self.tool("nap", "(setsid sleep 600.125 &); echo up >$HOME/up; sleep 600.125")
        self.peers["acme"].send(self.peers["acme"].request("tools/call", {"name": "nap", "arguments": {}}, crib.MODERN))
        running = crib.wait_for("both of them", lambda: [p for p, name in crib.below(self.crib.daemon.pid).items() if name == "sleep"][1:])
        running += list(crib.below(self.crib.daemon.pid))
        self.crib.stop(signal.SIGKILL)
        crib.wait_for("nothing left", lambda: not [p for p in running if crib.runs(p)])
        crib.wait_for("an empty place", lambda: not list(self.scratch.iterdir()))

    def test_hardening_f10_own_directories_are_counted(self):
        """HARDENING F-10: by a process of the tool's user, which finds them here, too."""
        self.begin("require: base+uid}\nbudgets: {scratch_per_tenant: 1")
        self.tool("fill", "head -c 700000 /dev/zero >$HOME/a; head -c 700000 /dev/zero >$HOME/b; chmod 0 $HOME/a; sleep 600.125")
        got = self.peers["acme"].call("fill", {}, crib.MODERN)["result"]
        self.assertRegex(got["content"][0]["text"], r"held \d+ bytes, allowed are 1048576 \(budgets.scratch_per_tenant\)")
        crib.wait_for("an empty place", lambda: not list(self.scratch.iterdir()))

    def test_f14_a_program_listens_on_a_listed_port(self):
        """HARDENING F-14, SEC S-517: its supervisor makes it listen, for the time as its user; on no other port, and not unbound.
        A thread's socket is the process's."""
        self.begin()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        (self.public / "serve.py").write_text(f"""import errno, socket, threading
def listens(bind):
    with socket.socket() as s:
        try:
            if bind:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind(("127.0.0.1", {port}))
            s.listen(1)
            socket.create_connection(("127.0.0.1", {port}), 10).close()
            s.accept()[0].close()
            return "served"
        except OSError as e:
            return errno.errorcode[e.errno]
said = []
thread = threading.Thread(target=lambda: said.append(listens(True)))
thread.start()
thread.join()
print(listens(False), listens(True), *said)
""")
        said = self.say("acme", f"python3 {self.public}/serve.py", more=f", sandbox: {{read: ['{self.public}'], network: {{connect: [{port}], bind: [{port}]}}}}")
        if "landlock" in said:
            self.skipTest(said)
        self.assertEqual(said, "EPERM served served")

    @unittest.skipUnless(test_bwrap.WORKS, "bubblewrap is missing, or may not make namespaces here")
    def test_hardening_bubblewrap_comes_on_top(self):
        """It makes its namespaces as the tool's user, in that of the range where there is one."""
        self.begin("engine: bwrap, require: base+uid+ns")
        self.assertIn("base+uid", self.crib.json("status")[0]["sandbox"])
        said = self.say("acme", "id -u; echo $$; echo x >$HOME/x && cat $HOME/x").split("\n")
        self.assertEqual(said[2:3], ["x"], said)
        self.assertTrue(self.FIRST < int(said[0]) < self.FIRST + 1000, said)
        self.assertLess(int(said[1]), 20, "a number among its own processes")
        call = self.crib.json("audit", "calls", "--tenant", "acme")[0]
        self.assertRegex(call["sandbox"], r"base\+uid.*\+ns")

    def test_own_directories_are_removed(self):
        self.begin()
        self.assertEqual(self.say("acme", "mkdir -p $HOME/a/b; echo x >$HOME/a/b/c; chmod 0 $HOME/a; stat -c %a $HOME"), "700")
        crib.wait_for("an empty place", lambda: not list(self.scratch.iterdir()))

    def test_a_flood_of_processes_is_ended(self):
        """The supervisor signals what is not its own user's."""
        self.begin()
        self.say("acme", "for i in 1 2 3 4 5 6 7 8; do (setsid sleep 600.25 &) ; done; echo done")
        crib.wait_for("nothing left", lambda: not [p for p, name in crib.below(self.crib.daemon.pid).items() if name not in crib.SERVER])

    def test_a_program_that_is_not_open_to_its_user_is_named(self):
        self.begin()
        program = self.public / "closed"
        shutil.copy("/bin/true", program)
        program.chmod(0o700)
        self.crib.tool(crib.tool_yaml("closed", f"{{type: exec, argv: ['{program}'], stdin: none, output: text}}"))
        got = self.peers["acme"].call("closed", {}, crib.MODERN)
        uid = self.uid("acme")
        self.assertIn(f"{program}: it must be open to user {uid}: setfacl -m u:{uid}:rx {program}", str(got) + self.crib.log.read_text())

    def test_hardening_what_is_closed_is_named_when_a_tool_is_added(self):
        """HARDENING 1.1: the program and the paths of both lists; what is open is not."""
        self.begin()
        for name, mode in (("home", 0o700), ("data", 0o755), ("out", 0o755)):
            (self.public / name).mkdir()
            (self.public / name).chmod(mode)
        (self.public / "home" / "tool").write_text("#!/bin/sh\n")
        (self.public / "data" / "x").write_text("x")
        (self.public / "data" / "x").chmod(0o600)
        p = self.public
        said = self.crib.tool(crib.tool_yaml("t", f"{{type: exec, argv: ['{p}/home/tool'], stdin: none, output: text, "
                                             f"sandbox: {{read: ['{p}/data', '{p}/data/x'], write: ['{p}/out', '{self.scratch}']}}}}"))
        self.assertIn(f"closed to the users of tools, open with setfacl or chmod: {p}/home, {p}/data/x, {p}/out\n", said)
        (p / "home").chmod(0o711)
        self.assertIn(f"chmod: {p}/home/tool\n", self.crib.tool(crib.tool_yaml("v", f"{{type: exec, argv: ['{p}/home/tool'], stdin: none, output: text}}")))
        self.assertNotIn("closed", self.crib.tool(crib.tool_yaml("u", "{type: exec, argv: [/bin/sh], stdin: none, output: text}")))

    def test_hardening_a_folder_that_is_closed_to_its_user_is_named(self):
        self.begin("landlock: 0")
        folder = self.public / "home"
        folder.mkdir()
        (folder / "tool").write_text("#!/bin/sh\necho ran\n")
        (folder / "tool").chmod(0o755)
        for path in (folder, folder / "tool"):
            os.chown(path, self.SERVER, self.SERVER)
        folder.chmod(0o700)
        self.crib.tool(crib.tool_yaml("closed", f"{{type: exec, argv: ['{folder}/tool'], stdin: none, output: text}}"))
        uid = self.uid("acme")
        says = f"{folder}/tool: it must be open to user {uid}: setfacl -m u:{uid}:x {folder}"
        self.assertTrue(self.peers["acme"].call("closed", {}, crib.MODERN)["result"]["content"][0]["text"].endswith(f"exec: {says}"))
        for word in ("read", "write"):
            self.assertTrue(self.say("acme", "echo ran", word, f", sandbox: {{{word}: ['{folder}/tool']}}").endswith(f"{word}: {says}"))

    def test_a_tenant_beyond_the_range_is_refused(self):
        self.begin(users=f"uids: '{FIRST}:2', ")
        self.assertEqual(self.uid("acme"), FIRST + 1)
        self.assertIn("sandbox.uids", self.say("blue", "id -u", "who"))


@unittest.skipUnless(os.geteuid() == 0, "needs root, for users of its own")
class Root(Bodies, Place):
    @unittest.skipUnless(shutil.which("setpriv"), "needs setpriv (apt-get install util-linux)")
    def test_a_server_without_root_needs_three_capabilities(self):
        """As a systemd unit gives them; the server itself keeps none, the launcher these alone."""
        c, service = self.crib, 640001
        for path in (c.dir, c.store, *c.dir.rglob("*")):
            os.chown(path, service, service)
        setpriv = ["setpriv", f"--reuid={service}", f"--regid={service}", "--clear-groups"]
        with self.assertRaises(AssertionError) as caught:
            c.start(f"sandbox: {{uids: '{UIDS}'}}\n", wrapper=setpriv, env={"NOTIFY_SOCKET": ""})
        self.assertIn("CAP_SETUID, CAP_SETGID and CAP_KILL", str(caught.exception))
        c.daemon = None
        caps = "+setuid,+setgid,+kill"
        c.start(f"sandbox: {{uids: '{UIDS}', landlock: 0, require: base+uid}}\n", env={"TMPDIR": str(self.scratch), "NOTIFY_SOCKET": ""},
                wrapper=[*setpriv, f"--inh-caps={caps}", f"--ambient-caps={caps}"])
        self.peers = {"acme": c.tcp(self.keys["acme"])}
        self.addCleanup(self.peers["acme"].close)
        self.assertTrue(FIRST < self.uid("acme") < FIRST + 1000)
        self.assertEqual(self.say("acme", f"cat {c.store}/master.key >/dev/null 2>&1 && echo read; kill -9 $PPID 2>/dev/null && echo killed; echo end"), "end")
        self.say("acme", "(setsid sleep 600.25 &); echo done")
        crib.wait_for("nothing left", lambda: not [p for p, name in crib.below(c.daemon.pid).items() if name not in crib.SERVER])

        def effective(pid):
            return re.search(r"\nCapEff:\t(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)
        self.assertEqual(int(effective(c.daemon.pid), 16), 0, "the server's")
        launcher = next(pid for pid, name in crib.below(c.daemon.pid).items() if name == "toolcrib-launch")
        self.assertEqual(int(effective(launcher), 16), 1 << 5 | 1 << 6 | 1 << 7)
        signer = next(pid for pid, name in crib.below(c.daemon.pid).items() if name == "toolcrib-sign")
        self.assertEqual(int(effective(signer), 16), 0)

    def process(self, pid):
        """What /proc says of a process: uid, gid, groups, effective capabilities."""
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
        of = {key: re.search(rf"\n{key}:[ \t]*(.*)", text).group(1).split() for key in ("Uid", "Gid", "Groups", "CapPrm", "CapAmb")}
        return {int(n) for n in of["Uid"]}, {int(n) for n in of["Gid"]}, of["Groups"], int(of["CapPrm"][0], 16) | int(of["CapAmb"][0], 16)

    def give_away(self, service):
        for path in (self.crib.dir, self.crib.store, *self.crib.dir.rglob("*")):
            os.chown(path, service, service)

    def test_f12_a_server_that_root_starts_becomes_its_user(self):
        """HARDENING F-12, SEC S-601: server, signer and supervisors are the service user's, with no capability; the launcher
        keeps three; tenants have users of their own; and a port below 1024 is served."""
        c, service = self.crib, 640002
        self.give_away(service)
        low = self.free_low_port()
        c.start(f"- {{transport: tcp, address: '127.0.0.1:{low}'}}\nuser: '{service}'\nsandbox: {{uids: '{UIDS}', require: base+uid}}\n",
                env={"TMPDIR": str(self.scratch), "NOTIFY_SOCKET": ""})
        self.assertNotIn("root", c.json("status")[0]["confined"])
        below = {name: pid for pid, name in crib.below(c.daemon.pid).items()}
        for pid in (c.daemon.pid, below["toolcrib-sign"]):
            self.assertEqual(self.process(pid), ({service}, {service}, [], 0), crib.comm(pid))
        self.assertEqual(self.process(below["toolcrib-launch"]), ({service}, {service}, [], 1 << 5 | 1 << 6 | 1 << 7))
        self.peers = {"acme": c.tcp(self.keys["acme"])}
        self.addCleanup(self.peers["acme"].close)
        self.assertTrue(FIRST < self.uid("acme") < FIRST + 1000)
        self.assertEqual(self.say("acme", f"cat {c.store}/master.key >/dev/null 2>&1 && echo read; kill -9 $PPID 2>/dev/null && echo killed; echo end"), "end")
        self.assertEqual({path.stat().st_uid for path in c.store.rglob("*")}, {service}, "nothing of root's is left in the store")
        with socket.create_connection(("127.0.0.1", low), crib.DEADLINE) as s:
            self.assertTrue(s)

    @staticmethod
    def free_low_port():
        """A port for root alone, unless this machine lets everybody have all; free a moment ago."""
        if int(pathlib.Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) < 1000:
            raise unittest.SkipTest("here any user may listen on ports below 1024")
        for port in range(600, 1023):
            with socket.socket() as s:
                try:
                    s.bind(("127.0.0.1", port))
                    return port
                except OSError:
                    continue
        raise unittest.SkipTest("no port below 1024 is free")

    @unittest.skipUnless(shutil.which("setpriv") and shutil.which("unshare"), "needs setpriv and unshare (apt-get install util-linux)")
    def test_f12_a_proc_that_hides_processes(self):
        """As ProtectProc=invisible of a systemd unit: what supervises a tool still sees it, counts it, ends it, and knows whom it
        may signal."""
        c, service = self.crib, 640001
        self.give_away(service)
        hidden = ["unshare", "-m", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "sh"]
        if subprocess.run([*hidden, "true"], capture_output=True).returncode != 0:
            self.skipTest("/proc cannot be mounted here")
        caps = "+setuid,+setgid,+kill"
        c.start(f"sandbox: {{uids: '{UIDS}', landlock: 5, require: base+uid}}\n", env={"TMPDIR": str(self.scratch), "NOTIFY_SOCKET": ""},
                wrapper=[*hidden, "setpriv", f"--reuid={service}", f"--regid={service}", "--clear-groups", f"--inh-caps={caps}",
                         f"--ambient-caps={caps}"])
        self.peers = {"acme": c.tcp(self.keys["acme"])}
        self.addCleanup(self.peers["acme"].close)
        self.assertEqual(self.say("acme", "sleep 600.5 & kill $! && wait $!; echo $?; kill -9 $PPID 2>/dev/null && echo killed; echo end"), "143\nend")
        self.tool("flood", "for i in 1 2 3 4 5 6 7 8 9; do sleep 600.5 & done; wait", more=", sandbox: {processes: 4}")
        got = str(self.peers["acme"].call("flood", {}, crib.MODERN))
        self.assertIn("more than 4 processes", got)
        crib.wait_for("nothing left", lambda: not [p for p, name in crib.below(c.daemon.pid).items() if name not in crib.SERVER])

    def test_a_server_that_stays_root_says_so(self):
        """SEC S-601: without `user` it does what it did, with a warning."""
        self.begin()
        self.assertIn("root", self.crib.json("status")[0]["confined"])
        self.assertIn("stays root", self.crib.log.read_text())

    def test_a_user_that_cannot_be_used_is_said(self):
        for user, says in (("no-such-user-here", "there is no user"), ("root", "is root"), ("'0'", "is root")):
            with self.assertRaises(AssertionError) as caught:
                self.crib.start(f"user: {user}\n")
            self.assertIn(says, str(caught.exception))
            self.crib.daemon = None
        with self.assertRaises(AssertionError) as caught:
            self.crib.start("user: '640002'\n")
        self.assertIn(f"the store {self.crib.store} belongs to uid 0, not to user 640002", str(caught.exception))
        self.crib.daemon = None
        self.give_away(640001)
        with self.assertRaises(AssertionError) as caught:
            self.crib.start("user: '640002'\n", user=640001)
        self.assertIn("only a server that root starts", str(caught.exception))
        self.crib.daemon = None

    @unittest.skipIf(rootless.needs, rootless.needs)
    def test_hardening_a_server_that_becomes_its_user_has_his_line(self):
        """With the capabilities that it has kept, so without newuidmap."""
        rootless.give(self.crib)
        self.crib.start(f"user: {rootless.NAME}\nsandbox: {{require: base+uid}}\n", env={"TMPDIR": str(self.scratch), "NOTIFY_SOCKET": ""},
                        wrapper=rootless.wrapper(self.public, service=0, hide=["/usr/bin/newuidmap"]))
        self.assertEqual(self.crib.json("status")[0]["users"], f"{rootless.AUTO}:{rootless.COUNT // 2}, by capabilities")
        self.peers = {"acme": self.crib.tcp(self.keys["acme"])}
        self.addCleanup(self.peers["acme"].close)
        self.assertTrue(rootless.AUTO < self.uid("acme") < rootless.AUTO + 1000)

    def test_what_cannot_be_used_is_said(self):
        for uids, says in (("x", "FIRST:COUNT"), ("0:10", "from 1000 on"), ("999:10", "from 1000 on"), ("700000:1", "FIRST:COUNT"), ("4294967290:100", "FIRST:COUNT")):
            with self.assertRaises(AssertionError) as caught:
                self.crib.start(f"sandbox: {{uids: '{uids}'}}\n")
            self.assertIn("sandbox.uids", str(caught.exception))
            self.assertIn(says, str(caught.exception))
            self.crib.daemon = None


@unittest.skipIf(rootless.needs, rootless.needs)
class Rootless(Bodies, Place):
    """Started by a user with a line in /etc/subuid, and no configuration of users (HARDENING 1.1)."""
    SERVER = rootless.SERVICE
    FIRST = rootless.AUTO
    USERS = ""

    def serve(self, sandbox, **wrapped):
        rootless.give(self.crib)
        self.crib.start(f"sandbox: {{{sandbox}}}\n", env={"TMPDIR": str(wrapped.pop("tmp", self.scratch)), "NOTIFY_SOCKET": ""},
                        wrapper=rootless.wrapper(self.public, **wrapped))

    def refused(self, sandbox, **wrapped):
        """A server that does not start: what it says."""
        with self.assertRaises(AssertionError) as caught:
            self.serve(sandbox, **wrapped)
        self.crib.daemon = None
        return str(caught.exception)

    def test_hardening_what_is_missing_is_said(self):
        """At the start, by status, and by the level: never a failed start, and never silently weaker."""
        for wrapped, reason in (
                ({"hide": ["/usr/bin/newuidmap"]}, "there is no /usr/bin/newuidmap: install the package uidmap"),
                ({"subuid": "somebody:700000:4000"}, f"/etc/subuid has no line for {rootless.NAME}"),
                ({"subgid": "somebody:700000:4000"}, f"/etc/subgid has no line for {rootless.NAME}"),
                ({"subuid": f"{rootless.NAME}:700000:3"}, "too few ids"),
                ({"known": False, "subuid": f"{rootless.SERVICE}:700000:4000"}, "newuidmap: "),
                ({"elsewhere": True}, "user namespaces are refused here: Operation not permitted")):
            with self.subTest(reason):
                self.serve("", **wrapped)
                status = self.crib.json("status")[0]
                self.assertIn(f"none: {reason}" if reason != "too few ids" else reason, status["users"])
                self.assertNotIn("+uid", status["sandbox"])
                self.assertIn(reason, self.crib.log.read_text())
                self.crib.stop()
                said = self.refused("require: base+uid", **wrapped)
                self.assertIn("sandbox.require", said)
                self.assertIn(reason, said)

    def test_hardening_a_range_that_is_named_is_used_or_nothing_starts(self):
        self.begin(users="uids: '700100:10', ")
        self.assertEqual(self.crib.json("status")[0]["users"], "700100:10, by newuidmap")
        self.assertTrue(700100 < self.uid("acme") < 700110)
        self.crib.stop()
        said = self.refused("uids: '800000:10'")
        self.assertIn("sandbox.uids", said)
        self.assertIn("newuidmap: uid range", said)

    def test_hardening_a_temporary_directory_of_the_server_alone_is_not_used(self):
        private = self.public / "private"
        private.mkdir()
        os.chown(private, self.SERVER, self.SERVER)
        private.chmod(0o700)
        self.serve("", tmp=private)
        self.peers = {"acme": self.crib.tcp(self.keys["acme"])}
        self.addCleanup(self.peers["acme"].close)
        self.assertEqual(os.path.dirname(self.say("acme", "echo $HOME; echo x >$HOME/x")), "/tmp")
        self.assertIn(str(private), self.crib.log.read_text())

    def test_hardening_groups_may_have_other_numbers(self):
        self.serve("require: base+uid", subgid=f"{rootless.NAME}:900000:100")
        self.peers = {"acme": self.crib.tcp(self.keys["acme"])}
        self.addCleanup(self.peers["acme"].close)
        uid, gid, groups = self.say("acme", "id -u; id -g; id -G").split()
        self.assertTrue(rootless.AUTO < int(uid) < rootless.AUTO + 50)
        self.assertEqual((int(gid) - 900050, gid), (int(uid) - rootless.AUTO, groups))

    def test_hardening_the_server_keeps_what_is_its_own(self):
        """It is nobody in the namespace: files of its user belong to nobody there, and tools hold no way into it."""
        self.begin("landlock: 0")
        said = self.say("acme", "cat /proc/self/uid_map /proc/self/gid_map; ls -l /proc/self/fd | grep -c user:; stat -c %u /etc/passwd")
        self.assertEqual([line.split() for line in said.split("\n")],
                         [[str(rootless.AUTO), str(rootless.AUTO), str(rootless.COUNT // 2)]] * 2 + [["0"], ["65534"]])

    def test_hardening_commands_without_a_server_do_the_same(self):
        rootless.give(self.crib)
        document = self.public / "who.yaml"
        document.write_text(crib.tool_yaml("who", "{type: exec, argv: [/usr/bin/id, -u], stdin: none, output: text}"))
        for command in ("tool add", "call acme who", "tool test"):
            words = [*command.split(), *([str(document)] if "tool" in command else [])]
            done = subprocess.run([*rootless.wrapper(self.public), str(crib.BUILD / "toolcrib"), "--store", str(self.crib.store), *words],
                                  capture_output=True, text=True, env={**self.crib.env, "TMPDIR": str(self.scratch)})
            self.assertEqual(done.returncode, 0, done.stderr)
            if command != "tool add":
                self.assertTrue(any(rootless.AUTO <= int(n) < rootless.AUTO + 1000 for n in re.findall(r"\d{6,}", done.stdout)), done)


class Requirement(Place):
    """sandbox.require: auto."""

    def test_hardening_f1_too_little_landlock_needs_users(self):
        """HARDENING F-1, 1.1: refused with the reason and both ways out; more of Landlock is enough, and so are users."""
        self.begin("landlock: 2", "uids: none, ")
        status = self.crib.json("status")[0]
        self.assertEqual((status["sandbox"].split(", ")[1], status["users"]), ("required base+landlock:3", "none"))
        said = self.say("acme", "echo ran")
        self.assertIn("must run in a sandbox of level base+landlock:3", said)
        for way in ("sandbox.uids", "newuidmap", "sandbox.require: base+landlock:1"):
            self.assertIn(way, said + self.crib.log.read_text())
        self.crib.stop()
        self.begin("landlock: 2, require: base+landlock:1", "uids: none, ")
        self.assertEqual(self.say("acme", "echo ran"), "ran")
        self.crib.stop()
        self.begin("landlock: 3", "uids: none, ")
        if "landlock:3" in self.crib.json("status")[0]["sandbox"].split(",")[0]:
            self.assertEqual(self.say("acme", "echo ran"), "ran")

    @unittest.skipUnless(os.geteuid() == 0, "needs root, for users of its own")
    def test_hardening_f1_users_are_enough(self):
        self.begin("landlock: 0")
        self.assertIn("required base+uid", self.crib.json("status")[0]["sandbox"])
        self.assertEqual(self.say("acme", "echo ran"), "ran")


if __name__ == "__main__":
    crib.main()
