"""What a hostile tool tries on the files of the server is refused at each level of the cage: Landlock as an older kernel would
have it (sandbox.landlock), and none (HARDENING F-1, part 3)."""
import json
import os
import pathlib
import re
import shutil
import tempfile

import certs
import crib
import rootless
import test_bwrap

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

    def end(self):
        if self.crib.daemon:
            self.peer.close()
            self.crib.stop()

    def at(self, abi, extra="require: base", **more):
        """The server anew, with this much of Landlock; False: the kernel has less."""
        self.end()
        self.crib.start(f"sandbox: {{landlock: {abi}, {extra}}}\n", **more)
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
        return [store / "toolcrib.db", store / "master.key", *sorted((store / "signer").glob("*.key")),
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


class Secrets(crib.Case):
    """Everything in one folder that the tool may read, but for what is named as secret."""

    def setUp(self):
        super().setUp()
        c = self.crib.init()
        self.key = c.tenant("acme", "*")
        d = self.dir = c.dir / "etc"
        d.mkdir()
        (c.store / "signer").rename(d / "signer")
        ca = certs.Ca(d)
        for name in ("server", "door", "later"):
            ca.sign(name, "IP:127.0.0.1")
        (d / "asking").write_text("s3cret\n")
        (d / "asking").chmod(0o600)
        (d / "plain").write_text("not a secret\n")

    def configuration(self, door):
        """crib's, and one of each that names a secret."""
        d = self.dir
        path = self.crib.dir / "toolcribd.yaml"
        admin = "0123456789abcdef" * 4
        path.write_text(f"""listeners:
- {{transport: http, address: "127.0.0.1:0"}}
- {{transport: tcp, address: "127.0.0.1:0"}}
- {{transport: unix, address: "{self.crib.dir}/agents.sock"}}
- {{transport: tcp, address: "127.0.0.1:0", tls: {{cert: {d}/{door}.crt, key: {d}/{door}.key, client_ca: {d}/ca.crt}}}}
signer: {{dir: {d}/signer}}
anchor: {{file: {d}/anchors}}
admin: {{listen: "127.0.0.1:0", cert: {d}/server.crt, key: {d}/server.key}}
roles: [{{role: auditor, key: {admin}, name: ann}}]
oauth:
  resource: "http://127.0.0.1:8808"
  issuers:
  - issuer: "https://issuer.example"
    introspection: {{uri: "https://issuer.example/ask", client: us, secret_file: {d}/asking}}
    tenant: acme
    scopes: {{tools.read: ['tools:list']}}
""")
        return path

    def read(self, name, *files):
        argv = json.dumps([str(HOSTILE), "reach", *map(str, files)])
        self.crib.tool(crib.tool_yaml(name, f"{{type: exec, argv: {argv}, stdin: none, output: json, sandbox: {{read: ['{self.crib.dir}']}}}}",
                                      extra="limits: {timeout: 20s, result: 1MiB}\n"), f"{name}.yaml")
        peer = self.crib.tcp(self.key)
        got = peer.call(name, {}, crib.MODERN)["result"]
        peer.close()
        return {file: said["open to read"] for file, said in got["structuredContent"].items()}

    def test_f6_what_the_configuration_names_as_secret_is_hidden(self):
        """HARDENING F-6: keys of TLS, of the signer and of administrators, secrets of issuers, anchors."""
        d = self.dir
        self.crib.config = lambda extra="": self.configuration("door")
        self.crib.start()
        secret = [self.crib.dir / "toolcribd.yaml", d / "door.key", d / "server.key", d / "ca.crt", d / "asking", d / "anchors",
                  *sorted(path for path in (d / "signer").iterdir() if path.is_file())]
        self.assertGreater(len(secret), 6)
        said = self.read("first", *secret, d / "plain", d / "later.key")
        self.assertEqual((said.pop(str(d / "plain")), said.pop(str(d / "later.key"))), ("done", "done"))
        self.assertEqual(set(said.values()), {"EACCES"}, said)
        # What the file names when it is read again is hidden from then on.
        self.configuration("later")
        self.crib.cli("reload")
        said = self.read("second", d / "later.key", d / "plain")
        self.assertEqual(said, {str(d / "later.key"): "EACCES", str(d / "plain"): "done"})


class Matrix(Levels):
    """What contrib/doc/hostile.md says: attack by level, every cell refused, or documented (HARDENING, part 3).  With
    TOOLCRIB_HOSTILE_MD=FILE it is written; a level that this machine does not offer is left as it is there."""

    DOC = crib.SOURCE / "contrib/doc/hostile.md"
    LEVELS = (*(f"ABI {abi}" for abi in (0, *ABIS)), "bwrap", "uid", "subuid")
    # What a program does with itself, and what is no attack on its own.
    OWN = {"kill_self", "kill_child", "priority_self", "personality_asked", "stream_pair", "capabilities", "core", "listen_pair"}
    # Each failure says that the attempt came to nothing; ENOENT and ESRCH: there is no such file or process where it is.
    NOTHING = REFUSED | {"EROFS", "EISCONN", "ENXIO", "EBADF"}
    ABSENT = {"ENOENT", "ESRCH", "ENOTDIR"}
    WATCHED = ("A file that is listed for reading", "inotify")
    TOLD = {"stat()"}               # toolcrib-run(8), CAVEATS

    def groups(self):
        """Title, words of hostile, sandbox, what is no attack; the files of the server count as one."""
        listed, key = self.listed / "data", os.getpid() + 0x7d000000
        # bubblewrap lays /dev/null over a file that is hidden in a folder that is not: its name is that of /dev/null there.
        hidden = [str(path) for path in self.secrets() if "+ns" not in self.level or path.parent != self.crib.dir]
        return (("Files of the server", ("reach", *hidden), f"{{read: ['{self.crib.dir}'], write: ['{self.listed}']}}", set()),
                ("A file that is listed for reading", ("reach", listed), f"{{read: ['{self.listed}']}}",
                 {"open to read", "mmap()", "stat()"}),
                ("Other processes", ("processes", self.crib.daemon.pid), "{}", set()),
                ("The machine", ("kernel",), "{}", set()),
                ("Sockets without a network", ("sockets", self.crib.address("tcp")[1], self.crib.store / "admin.sock"), "{}", set()),
                ("What processes share", ("ipc", key, "canary"), "{}", set()))

    def cell(self, attempt, results):
        """One word for what came of an attempt on each of several files."""
        if attempt in self.TOLD and "done" in results:
            return "told"
        if results <= self.ABSENT:
            return "absent"
        return "refused" if results <= self.NOTHING | self.ABSENT else "got through: " + " ".join(sorted(results))

    def column(self):
        """What the level that runs now says: {(group, attempt): word}."""
        found = {}
        for title, words, sandbox, own in self.groups():
            said = self.said(*words, sandbox=sandbox, name=words[0])
            for each in said.values() if words[0] == "reach" else [said]:
                for attempt, result in each.items():
                    counted = attempt == "memfd_create" and "+cgroup" in self.level
                    if attempt not in self.OWN | own and not counted:
                        found.setdefault((title, attempt), set()).add(result)
        words = {key: self.cell(key[1], results) for key, results in found.items()}
        words.setdefault(("What processes share", "memfd_create"), "may")       # a cgroup counts it
        if "+ns" in self.level:         # where nothing else has a name, what is listed may be watched
            words[self.WATCHED] = "may"
        return words

    def not_started(self):
        self.at(0, "require: base+landlock:1")
        argv = json.dumps([str(HOSTILE), "kernel"])
        self.crib.tool(crib.tool_yaml("kernel", f"{{type: exec, argv: {argv}, stdin: none, output: json}}"))
        result = self.peer.call("kernel", {}, crib.MODERN)["result"]
        return result["isError"] and "must run in a sandbox of level" in result["content"][0]["text"]

    def open_place(self):
        """A folder that is open to all, and where tools make their own."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="toolcrib-hostile-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)
        self.listed = folder / "listed"
        self.listed.mkdir()
        (self.listed / "data").write_text("data\n")
        (folder / "scratch").mkdir()
        (folder / "scratch").chmod(0o1777)
        return folder

    def users(self, level):
        """Users of their own and nothing of Landlock, started by root, or by a user with a line in /etc/subuid; None: not
        here."""
        if os.geteuid() != 0 or (level == "subuid" and rootless.needs):
            return None
        place = self.open_place()
        env = {"TMPDIR": str(place / "scratch"), "NOTIFY_SOCKET": ""}
        if level == "uid":
            self.at(0, "uids: '700000:1000', require: base+uid", env=env)
        else:
            self.end()
            rootless.give(self.crib)
            self.at(0, "require: base+uid", env=env, wrapper=rootless.wrapper(place))
        self.assertIn("base+uid+seccomp", self.level)
        return self.column()

    def columns(self):
        found = {}
        for abi in ABIS:
            if self.at(abi):
                found[f"ABI {abi}"] = self.column()
        if test_bwrap.WORKS:
            self.at(6, "engine: bwrap")
            found["bwrap"] = self.column()
        self.assertTrue(self.not_started())
        for level in ("uid", "subuid"):
            cells = self.users(level)
            if cells:
                found[level] = cells
        rows = next(iter(found.values()))
        found["ABI 0"] = {row: "not started" for row in rows}
        return found

    def read(self):
        """The document: its text before the tables, and {(group, attempt): [word of each level]}."""
        rows, title = {}, None
        text = self.DOC.read_text()
        for line in text.splitlines():
            if line.startswith("## "):
                title = line[3:]
            elif title and line.startswith("| `"):
                cells = [cell.strip() for cell in line.strip("|").replace("\\|", "\0").split("|")]
                rows[title, cells[0].strip("`").replace("\0", "|")] = cells[1:]
        return text.partition("\n## ")[0], rows

    def write(self, file, head, old, found):
        out, title = [head.rstrip()], None
        for row in next(iter(found.values())):
            if row[0] != title:
                title = row[0]
                out += ["", f"## {title}", "", "| attack | " + " | ".join(self.LEVELS) + " |", "|---" * (len(self.LEVELS) + 1) + "|"]
            kept = [*old.get(row, []), *["not run"] * len(self.LEVELS)]
            cells = [found[level][row] if level in found else kept[n] for n, level in enumerate(self.LEVELS)]
            name = row[1].replace("|", "\\|")
            out.append(f"| `{name}` | " + " | ".join(cells) + " |")
        with open(file, "w") as f:
            f.write("\n".join(out) + "\n")

    def test_hardening_every_cell_is_refused_or_documented(self):
        found = self.columns()
        for level, cells in found.items():
            for row, word in cells.items():
                self.assertIn(word, ("refused", "absent", "told", "may", "not started"), (level, row))
        head, old = self.read()
        if os.environ.get("TOOLCRIB_HOSTILE_MD"):
            self.write(os.environ["TOOLCRIB_HOSTILE_MD"], head, old, found)
            head, old = self.read()
        for n, level in enumerate(self.LEVELS):
            again = f"{level}: TOOLCRIB_HOSTILE_MD={self.DOC} writes it anew"
            self.assertEqual(set(old), set(found.get(level, old)), again)
            for row, word in found.get(level, {}).items():
                # Other users and further layers may close more than is written; nothing less.
                self.assertTrue(word == old[row][n] or word in ("refused", "absent") or "+cgroup" in self.level, (row, word, again))


if __name__ == "__main__":
    crib.main()
