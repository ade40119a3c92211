"""sandbox.engine: bwrap: the same cage, in namespaces of bubblewrap.  Needs bubblewrap and leave to make namespaces."""
import json
import os
import pathlib
import shutil
import subprocess
import unittest

import crib

HOSTILE = crib.BUILD / "tests/hostile/hostile"
WITHOUT = crib.BUILD / "tests/hostile/without"
GONE = ("ENOENT", "EACCES", "EPERM", "EXDEV", "EROFS", "ESRCH")


def works():
    program = shutil.which("bwrap", path="/usr/bin:/usr/local/bin")
    options = "--unshare-user --unshare-pid --unshare-net --ro-bind / / --proc /proc /bin/true"
    return program and subprocess.run([program, *options.split()], capture_output=True).returncode == 0


WORKS = works()


@unittest.skipUnless(WORKS, "bubblewrap is missing, or may not make namespaces here")
class Bubblewrap(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        self.key = c.tenant("acme", "*")
        self.outside, self.listed = c.dir / "outside", c.dir / "listed"
        for folder in (self.outside, self.listed):
            folder.mkdir()
            (folder / "data").write_text("data\n")

    def start(self, require="base+ns", **more):
        self.crib.start(f"sandbox: {{engine: bwrap, require: {require}}}\n", **more)
        self.peer = self.crib.tcp(self.key)
        self.addCleanup(self.peer.close)

    def run_argv(self, argv, sandbox="{}", name="t", timeout="20s"):
        """Call this command line as a tool: (failed, text)."""
        self.crib.tool(crib.tool_yaml(name, f"{{type: exec, argv: {json.dumps(list(map(str, argv)))}, stdin: none, output: text, "
                                            f"sandbox: {sandbox}}}", extra=f"limits: {{timeout: {timeout}}}\n"), f"{name}.yaml")
        result = self.peer.call(name, {}, crib.MODERN)["result"]
        return result.get("isError", False), result["content"][0]["text"]

    def hostile(self, *words, **more):
        return self.run_argv([HOSTILE, *words], name=words[0], **more)

    def shell(self, script, **more):
        return self.run_argv(["/bin/sh", "-c", script], **more)

    def recorded(self):
        return self.crib.json("audit", "calls", "--tenant", "acme", "--limit", "1")[0]

    def test_level_says_so(self):
        self.start()
        failed, text = self.shell("echo $$")
        self.assertEqual((failed, int(text) < 10), (False, True), "a process number of its own namespace")
        self.assertRegex(self.recorded()["sandbox"], r"\+net0\+ns$")
        self.assertEqual(self.shell("cat", sandbox="{network: true}")[0], False)
        self.assertNotIn("net0", self.recorded()["sandbox"])
        self.peer.close()
        self.crib.stop()
        self.crib.start("sandbox: {require: base+ns}\n")
        self.peer = self.crib.tcp(self.key)
        self.assertIn("must run in a sandbox of level base+ns", self.shell("true")[1])

    def test_files(self):
        self.start()
        failed, text = self.hostile("files", self.crib.store, self.outside, self.listed, sandbox=f"{{write: ['{self.listed}']}}")
        self.assertFalse(failed, text)
        said = json.loads(text)
        for what in ("listed", "listed_write", "own", "own_status", "symlink"):
            self.assertEqual(said.pop(what), "done", what)
        if os.geteuid() == 0:           # root's own files are devices, too: HARDENING F-7
            self.assertEqual(said.pop("setxattr"), "EOPNOTSUPP")
        for what, result in said.items():
            self.assertIn(result, GONE, what)
        self.assertEqual((self.outside / "data").read_text(), "data\n")
        self.assertTrue((self.listed / "new").exists())

    def test_its_file_system_holds_without_landlock(self):
        self.start(wrapper=(str(WITHOUT), "landlock"))
        script = f"echo /*; cat /etc/passwd {self.outside}/data; ls {self.crib.dir}; cat {self.crib.store}/master.key; cat {self.listed}/data"
        failed, text = self.shell(script, sandbox=f"{{read: ['{self.listed}']}}")
        self.assertEqual((failed, len(text.splitlines())), (False, 3), text)
        names, ls, data = text.splitlines()
        # Besides these, where the own directory and the launcher are.
        usual = "/bin /dev /etc /lib /lib32 /lib64 /libx32 /proc /sbin /sys /tmp /usr".split()
        self.assertLessEqual(set(names.split()), {*usual, *(f"/{path.parts[1]}" for path in (self.crib.dir, crib.BUILD.resolve()))})
        self.assertEqual((ls, data), ("listed", "data"))
        self.assertEqual(self.recorded()["sandbox"].find("landlock"), -1)
        failed, text = self.shell("true", sandbox=f"{{read: ['{self.crib.store}']}}")
        self.assertIn("it is not for tools", text)
        self.assertEqual(self.shell("ls /dev/shm >/dev/null && set -- /proc/[0-9]* && echo $#", sandbox="{read: [/]}"), (False, "2\n"))
        self.assertEqual(self.shell(f"ls {self.crib.store}", sandbox=f"{{read: ['{self.crib.dir}']}}"), (False, ""))

    def test_programs_behind_links(self):
        self.start()
        (self.listed / "script").write_text("#!/bin/sh\necho said\n")
        (self.listed / "script").chmod(0o755)
        (self.outside / "link").symlink_to(self.listed / "script")
        self.assertEqual(self.run_argv([self.outside / "link"]), (False, "said\n"))
        self.assertEqual(self.run_argv(["/usr/bin/awk", "BEGIN {{ print 1 }}"]), (False, "1\n"))
        self.assertEqual(self.run_argv(["/bin/cat", self.outside / "link"]), (False, "#!/bin/sh\necho said\n"))

    def test_network(self):
        self.start()
        failed, text = self.hostile("sockets", self.crib.address("tcp")[1], self.crib.store / "admin.sock", sandbox="{network: true}")
        self.assertEqual((failed, json.loads(text)["tcp"]), (False, "done"), text)
        failed, text = self.hostile("sockets", self.crib.address("tcp")[1], self.crib.store / "admin.sock")
        said = json.loads(text)
        self.assertEqual((said["tcp"], said["unix"]), ("EPERM", "EPERM"))

    def test_ends(self):
        self.start()
        self.assertEqual(self.shell("kill -SEGV $$"), (True, "killed by signal 11 SIGSEGV"))
        self.assertEqual(self.recorded()["outcome"], "crashed")
        self.assertEqual(self.shell("echo why >&2; exit 7")[1], "exit status 7\nwhy")
        self.assertIn("more than 50 processes", self.hostile("bomb", sandbox="{processes: 50}")[1])
        failed, text = self.hostile("escape", self.listed, sandbox=f"{{write: ['{self.listed}']}}")
        self.assertFalse(failed, text)
        failed, text = self.shell(f"trap 'echo ended >{self.listed}/term; exit 0' TERM; while :; do sleep 0.05; done",
                                  sandbox=f"{{write: ['{self.listed}']}}", timeout="1s")
        self.assertIn("in time", text)
        self.assertEqual((self.listed / "term").read_text(), "ended\n", "it was asked to end before it was killed")
        crib.wait_for("no process but the server's", lambda: set(crib.below(self.crib.daemon.pid).values()) <= crib.SERVER)


if __name__ == "__main__":
    crib.main()
