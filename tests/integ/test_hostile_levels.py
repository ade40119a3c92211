"""What a hostile tool tries on the files of the server is refused at each level of the cage: Landlock as an older kernel would
have it (sandbox.landlock), and none (HARDENING F-1, part 3)."""
import json
import os
import re

import crib

HOSTILE = crib.BUILD / "tests/hostile/hostile"
ABIS = (1, 2, 3, 5, 6)
# What a call fails with that was not let through to the file.
REFUSED = {"EPERM", "EACCES", "ENOSYS", "EXDEV", "EOPNOTSUPP"}


def content(path):
    with open(path, "rb") as f:
        return f.read(64)


def state(path):
    """What nobody but the server may change: where it has the same bytes at its start, it was not emptied."""
    st = os.stat(path)
    return st.st_mode, st.st_uid, st.st_ino, st.st_size > 0, content(path)


class Levels(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        self.key = c.tenant("acme", "*")
        self.listed = c.dir / "listed"
        self.listed.mkdir()
        (self.listed / "data").write_text("data\n")

    def at(self, abi, extra="require: base"):
        """The server anew, with this much of Landlock; False: the kernel has less."""
        if self.crib.daemon:
            self.peer.close()
            self.crib.stop()
        self.crib.start(f"sandbox: {{landlock: {abi}, {extra}}}\n")
        self.level = self.crib.json("status")[0]["sandbox"].split(",")[0]
        found = re.search(r"landlock:(\d+)", self.level)
        self.peer = self.crib.tcp(self.key)
        self.addCleanup(self.peer.close)
        return (int(found.group(1)) if found else 0) == abi

    def said(self, *words, sandbox="{}", name="t"):
        argv = json.dumps([str(HOSTILE), *map(str, words)])
        self.crib.tool(crib.tool_yaml(name, f"{{type: exec, argv: {argv}, stdin: none, output: json, sandbox: {sandbox}}}",
                                      extra="limits: {timeout: 20s, result: 1MiB}\n"), f"{name}.yaml")
        got = self.peer.call(name, {}, crib.MODERN)["result"]
        self.assertIn("structuredContent", got, got)
        return got["structuredContent"]

    def secrets(self):
        """The server's own files: store, keys, configuration."""
        store = self.crib.store
        return [store / "toolcrib.db", store / "master.key", *sorted(p for p in (store / "signer").iterdir() if p.is_file()),
                self.crib.dir / "toolcribd.yaml"]


class Files(Levels):
    TRUNCATES = ("open to write", "open to append", "open, mode 3", "truncate()", "O_RDONLY|O_TRUNC", "O_CREAT|O_TRUNC",
                 "3|O_TRUNC", "3|O_TRUNC, open()", "creat()", "3|O_TRUNC, by /proc/self/fd", "O_TRUNC, openat2()",
                 "3|O_TRUNC, openat2()", "ioctl(), mode 3")

    def test_f1_nothing_is_emptied_at_any_abi(self):
        """HARDENING F-1: below ABI 3 Landlock sees no truncation; the filter refuses what does not open for writing."""
        for abi in ABIS:
            if not self.at(abi):
                continue
            files = [*self.secrets(), self.listed / "data"]
            before = {file: state(file) for file in files}
            for sandbox in ("{}", f"{{read: ['{self.crib.dir}']}}"):
                said = self.said("reach", *files, sandbox=sandbox)
                for file, attempts in said.items():
                    for attempt in self.TRUNCATES:
                        if attempt in attempts:
                            self.assertIn(attempts[attempt], REFUSED, (abi, sandbox, file, attempt))
            self.assertEqual({file: state(file) for file in files}, before, abi)

    def test_f1_no_less_than_is_required_runs(self):
        """The lower ABI is the level: it stands in records and must reach sandbox.require."""
        self.at(0, "require: base+landlock:1")
        argv = json.dumps([str(HOSTILE), "zombies"])
        self.crib.tool(crib.tool_yaml("t", f"{{type: exec, argv: {argv}, stdin: none, output: json}}"))
        text = self.peer.call("t", {}, crib.MODERN)["result"]["content"][0]["text"]
        self.assertIn("must run in a sandbox of level base+landlock:1", text)
        if self.at(2, "require: base+landlock:3"):
            self.assertIn("base+landlock:3", self.peer.call("t", {}, crib.MODERN)["result"]["content"][0]["text"])
        if self.at(2, "require: base+landlock:2"):
            self.assertEqual(self.peer.call("t", {}, crib.MODERN)["result"]["structuredContent"], {"zombies": "done"})
            self.assertIn("landlock:2", self.crib.json("audit", "calls", "--tenant", "acme")[0]["sandbox"])


if __name__ == "__main__":
    crib.main()
