"""A service that was given a cgroup: each tool runs in one of its own, which bounds and ends all of its processes (SEC S-510,
S-513).  Needs root and a cgroup v2 that passes on memory and pids; without them only the falling back is tested."""
import json
import os
import pathlib
import sys
import unittest

import crib

HOSTILE = crib.BUILD / "tests/hostile/hostile"
MIB = 1 << 20


def place():
    """The directory of the top cgroup, when new ones below it can bound memory and processes; None otherwise."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, kind = line.partition(" - ")
        if not kind.startswith("cgroup2 "):
            continue
        top = pathlib.Path(fields.split()[4])
        try:
            if not {"memory", "pids"} <= set((top / "cgroup.subtree_control").read_text().split()):
                (top / "cgroup.subtree_control").write_text("+memory +pids")
            probe = top / f"toolcrib-probe-{os.getpid()}"
            probe.mkdir()
            probe.rmdir()
            return top
        except OSError:
            return None
    return None


PLACE = place()


class Tools(crib.Case):
    def setUp(self):
        super().setUp()
        self.crib.init()
        self.key = self.crib.tenant("acme", "*")

    def level(self):
        return self.crib.json("status")[0]["sandbox"].split(",")[0]

    def call(self, *words, sandbox="{}", timeout="20s"):
        argv = json.dumps([str(HOSTILE), *map(str, words)])
        self.crib.tool(crib.tool_yaml(words[0], f"{{type: exec, argv: {argv}, stdin: none, output: text, sandbox: {sandbox}}}",
                                      extra=f"limits: {{timeout: {timeout}}}\n"))
        peer = self.crib.tcp(self.key)
        result = peer.call(words[0], {}, crib.MODERN)["result"]
        peer.close()
        return result.get("isError", False), result["content"][0]["text"]

    def recorded(self):
        return self.crib.json("audit", "calls", "--tenant", "acme", "--limit", "1")[0]


class NotGiven(Tools):
    """Other processes are in our cgroup, this one among them: it is not ours to take."""

    def test_level_says_so_and_what_requires_it_is_denied(self):
        before = pathlib.Path("/proc/self/cgroup").read_text()
        self.crib.start("sandbox: {require: base}\n")
        self.assertNotIn("cgroup", self.level())
        self.assertEqual(pathlib.Path(f"/proc/{self.crib.daemon.pid}/cgroup").read_text(), before)
        self.assertEqual(self.call("zombies")[0], False)
        failed, text = self.call("zombies", sandbox="{require: base+cgroup}")
        self.assertTrue(failed)
        self.assertIn("must run in a sandbox of level base+cgroup", text)
        self.assertEqual((self.recorded()["outcome"], self.recorded()["rule"]), ("denied", "sandbox"))


@unittest.skipUnless(PLACE, "no cgroup v2 here in which memory and pids can be bounded")
class Given(Tools):
    def setUp(self):
        super().setUp()
        self.place = PLACE / f"toolcrib-test-{os.getpid()}"
        self.place.mkdir()
        self.addCleanup(self.remove)
        enter = f'echo 0 >{self.place}/cgroup.procs && exec "$@"'
        self.crib.start("sandbox: {require: base+cgroup}\n", wrapper=("/bin/sh", "-c", enter, "sh"))

    def remove(self):
        self.crib.close()
        crib.wait_for("the cgroups to be empty", lambda: "populated 0" in (self.place / "cgroup.events").read_text())
        for folder in [*(path for path in self.place.iterdir() if path.is_dir()), self.place]:
            folder.rmdir()

    def tools(self):
        return list(self.place.glob("tool-*"))

    def test_level_is_reached_and_recorded(self):
        self.assertTrue(self.level().endswith("+cgroup"), self.level())
        self.assertEqual((self.place / "server/cgroup.procs").read_text().split(), [str(self.crib.daemon.pid)])
        self.assertEqual(self.call("zombies"), (False, '{"zombies":"done"}\n'))
        self.assertTrue(self.recorded()["sandbox"].endswith("+cgroup"))
        self.assertEqual(self.tools(), [])

    def test_memory_bounds_all_processes_together(self):
        self.assertEqual(self.call("hog", 3, 20, sandbox="{memory: 128MiB}"), (False, '{"hog":"done"}\n'))
        failed, text = self.call("hog", 3, 60, sandbox="{memory: 128MiB}")
        self.assertTrue(failed)
        self.assertIn(f"more than {128 * MIB} bytes of memory in all", text)
        self.assertEqual(self.tools(), [])

    def test_fork_bomb(self):
        failed, text = self.call("bomb", sandbox="{processes: 50}")
        self.assertTrue(failed)
        self.assertIn("more than 50 processes and threads", text)
        self.assertEqual(self.tools(), [])

    def test_limits_stand_in_its_cgroup_and_what_escapes_its_session_does_not_escape_it(self):
        mark = self.crib.dir / "mark"
        mark.mkdir()
        argv = json.dumps([str(HOSTILE), "hang", str(mark)])
        self.crib.tool(crib.tool_yaml("hang", f"{{type: exec, argv: {argv}, stdin: none, output: text, "
                                              f"sandbox: {{write: ['{mark}'], memory: 96MiB, processes: 7}}}}"))
        peer = self.crib.tcp(self.key)
        peer.send(peer.request("tools/call", {"name": "hang", "arguments": {}}, crib.MODERN))
        left = [mark / "left-session", mark / "left-group"]
        crib.wait_for("the tool to leave its marks", lambda: all(file.exists() and file.read_text() for file in left))
        (tool,) = self.tools()
        self.assertEqual([(tool / name).read_text().strip() for name in ("memory.max", "pids.max")], [str(96 * MIB), "7"])
        self.assertLessEqual({file.read_text().strip() for file in left}, set((tool / "cgroup.procs").read_text().split()))
        self.crib.daemon.kill()
        self.crib.daemon.wait()
        self.crib.daemon = None
        peer.close()
        crib.wait_for("its cgroup to go", lambda: not self.tools())


if __name__ == "__main__":
    if not PLACE:
        print(f"{sys.argv[0]}: without a cgroup v2 that passes on memory and pids", file=sys.stderr)
    crib.main()
