"""Tools run as other users than the server, each tenant as its own (HARDENING 1.1, F-1, F-6, F-7): even with nothing of
Landlock, plain file permissions keep them from the store, from the server and from each other."""
import os
import pathlib
import re
import shutil
import socket
import tempfile
import unittest

import crib

FIRST = 700000
UIDS = f"{FIRST}:1000"
CANARY = "canary-5f1e9c"


@unittest.skipUnless(os.geteuid() == 0, "needs root, for users of its own")
class Users(crib.Case):
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

    def begin(self, sandbox=f"uids: '{UIDS}', require: base+uid"):
        self.crib.start(f"sandbox: {{{sandbox}}}\n", env={"TMPDIR": str(self.scratch)})
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

    def test_each_tenant_has_a_user_of_its_own(self):
        self.begin()
        acme, blue = self.uid("acme"), self.uid("blue")
        self.assertNotEqual(acme, blue)
        for uid in (acme, blue):
            self.assertTrue(FIRST < uid < FIRST + 1000, uid)
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
        self.assertTrue(FIRST < int(re.search(r"\nUid:\t(\d+)", status).group(1)) < FIRST + 1000)
        of = {name: pathlib.Path(f"/proc/{p}/status").read_text() for p, name in crib.below(self.crib.daemon.pid).items()}
        self.assertIn("\nUid:\t0\t", of["toolcrib-run"], "what supervises a tool is not the tool's user's")

    def test_f1_without_landlock_the_store_is_out_of_reach(self):
        """HARDENING F-1: read, empty, rename, remove, change of modes, at Landlock 0."""
        self.begin(f"uids: '{UIDS}', landlock: 0, require: base+uid")
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
        self.begin(f"uids: '{UIDS}', landlock: 0, require: base+uid")
        said = self.say("acme", f"chmod 600 {shared}/theirs && echo changed; echo mine >{shared}/mine && chmod 640 {shared}/mine && echo own",
                        more=f", sandbox: {{write: ['{shared}']}}")
        self.assertIn("own", said.split("\n")[-1])
        self.assertNotIn("changed", said)
        self.assertEqual((shared / "theirs").stat().st_mode & 0o777, 0o644)

    def test_tenants_do_not_reach_each_other(self):
        """Own directories, processes and their memory, at Landlock 0."""
        self.begin(f"uids: '{UIDS}', landlock: 0, require: base+uid")
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

    def test_own_directories_are_removed(self):
        self.begin()
        self.assertEqual(self.say("acme", "mkdir -p $HOME/a/b; echo x >$HOME/a/b/c; chmod 0 $HOME/a; stat -c %a $HOME"), "700")
        crib.wait_for("an empty place", lambda: not list(self.scratch.iterdir()))

    def test_a_flood_of_processes_is_ended(self):
        """The supervisor signals what is not its own user's."""
        self.begin()
        self.say("acme", "for i in 1 2 3 4 5 6 7 8; do (setsid sleep 600.25 &) ; done; echo done")
        crib.wait_for("nothing left", lambda: not [p for p, name in crib.below(self.crib.daemon.pid).items() if name not in crib.SERVER])

    def test_what_cannot_be_used_is_said(self):
        for uids, says in (("x", "FIRST:COUNT"), ("0:10", "from 1000 on"), ("999:10", "from 1000 on"), ("700000:1", "FIRST:COUNT"), ("4294967290:100", "FIRST:COUNT")):
            with self.assertRaises(AssertionError) as caught:
                self.crib.start(f"sandbox: {{uids: '{uids}'}}\n")
            self.assertIn("sandbox.uids", str(caught.exception))
            self.assertIn(says, str(caught.exception))
            self.crib.daemon = None

    def test_a_program_that_is_not_open_to_its_user_is_named(self):
        self.begin()
        program = self.public / "closed"
        shutil.copy("/bin/true", program)
        program.chmod(0o700)
        self.crib.tool(crib.tool_yaml("closed", f"{{type: exec, argv: ['{program}'], stdin: none, output: text}}"))
        got = self.peers["acme"].call("closed", {}, crib.MODERN)
        self.assertIn(f"{program}: it must be open to user {self.uid('acme')}", str(got) + self.crib.log.read_text())

    def test_a_tenant_beyond_the_range_is_refused(self):
        self.begin(f"uids: '{FIRST}:2', require: base+uid")
        self.assertEqual(self.uid("acme"), FIRST + 1)
        self.assertIn("sandbox.uids", self.say("blue", "id -u", "who"))


if __name__ == "__main__":
    crib.main()
