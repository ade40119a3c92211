#!/usr/bin/env python3
"""The image of contrib/image, made twice and run by runc: the same bytes, a layout as it is specified, nothing in it that is not
asked for; a server that is nobody's root, whose own files nobody can write, with what it stores in a volume; every tool of
contrib/examples at the level that it promises there (OPERATE 9).
make check-image; 77 and a reason where something is missing.  TOOLCRIB_PACKAGES names a folder with a package that was built before."""
import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import uuid

import examples
from examples import SOURCE, wait_for
from root import run

TOOLS = {"dpkg-buildpackage": "dpkg-dev", "dh": "debhelper", "runc": "runc", "ip": "iproute2", "openssl": "openssl", "sqlite3": "sqlite3"}
UID, MOST = 10001, 35_000_000
STORE = "/var/lib/toolcrib"
TOOL = "name: version\ndescription: Which one it is.\ninputSchema: {type: object}\nhandler: {type: exec, argv: [/usr/bin/toolcrib, --version]}\n"
WITH = ("dash", "mawk", "coreutils")       # what the examples are written in
WORK = None


def make(name, *words, umask="022", check=True, **env):
    return run("sh", "-c", f"umask {umask}; exec \"$@\"", "sh", SOURCE / "contrib/image", *words, Image.deb, WORK / name, check=check,
               env={**os.environ, **env})


class Layout:
    """What a runtime reads of one."""

    def __init__(self, folder):
        self.folder = folder
        self.index = json.loads((folder / "index.json").read_text())
        self.manifest = json.loads(self.blob(self.index["manifests"][0]))
        self.config = json.loads(self.blob(self.manifest["config"]))
        self.tar = gzip.decompress(self.blob(self.manifest["layers"][0]))

    def blob(self, said):
        kind, _, digest = said["digest"].partition(":")
        data = (self.folder / "blobs" / kind / digest).read_bytes()
        assert (hashlib.new(kind, data).hexdigest(), len(data)) == (digest, said["size"])
        return data

    def file(self, name):
        with tarfile.open(fileobj=io.BytesIO(self.tar)) as tar:
            return tar.extractfile(name).read()

    def members(self):
        with tarfile.open(fileobj=io.BytesIO(self.tar)) as tar:
            return {member.name: member for member in tar}


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        given = os.environ.get("TOOLCRIB_PACKAGES")
        if not given:
            run(SOURCE / "contrib/package", WORK / "packages")
        cls.deb = next(pathlib.Path(given or WORK / "packages").resolve().glob("toolcrib_*.deb"))
        make("first")
        cls.layout = Layout(WORK / "first")

    def test_two_are_the_same(self):
        """OP-711: with another umask, time zone, language and folder for what is made in between."""
        make("second", umask="077", TMPDIR=str(WORK), TZ="Asia/Kolkata", LC_ALL="C", HOME="/")
        self.assertEqual(Layout(WORK / "second").index, self.layout.index)

    def test_it_is_what_the_specification_says(self):
        self.assertEqual((WORK / "first/oci-layout").read_text(), '{"imageLayoutVersion":"1.0.0"}\n')
        self.assertEqual(self.layout.config["rootfs"]["diff_ids"], [f"sha256:{hashlib.sha256(self.layout.tar).hexdigest()}"])
        self.assertLessEqual(len(self.layout.tar), MOST)
        blobs = {path.name for path in (WORK / "first/blobs/sha256").iterdir()}
        said = [self.layout.index["manifests"][0], self.layout.manifest["config"], *self.layout.manifest["layers"]]
        self.assertEqual(blobs, {one["digest"].split(":")[1] for one in said})

    def test_nothing_else_is_in_it(self):
        """OP-712: no shell, no other program, nothing that another user owns or may write."""
        members = self.layout.members()
        self.assertEqual([name for name in members if name.startswith("usr/bin/")], ["usr/bin/toolcrib", "usr/bin/toolcribd"])
        self.assertEqual([name for name in members if name.startswith("usr/sbin/")], [])
        self.assertEqual({name: oct(one.mode) for name, one in members.items() if not one.issym() and one.mode & 0o7022}, {"tmp": "0o1777"})
        self.assertEqual([name for name, one in members.items() if one.uid or one.gid], [STORE[1:]])
        self.assertEqual([name for name in members if "toolcrib" not in name and name.startswith("usr/share/") and not name.endswith("/copyright") and
                          not members[name].isdir()], [])

    def test_more_is_named(self):
        make("more", "--with", "dash")
        more = Layout(WORK / "more").members().keys() - self.layout.members().keys()
        self.assertIn("usr/bin/dash", more)
        self.assertIn("usr/bin/sh", more)
        self.assertEqual([name for name in more if not name.startswith(("usr/bin/", "usr/share/doc/dash"))], [])
        for words, said in ((("--with", "no-such-package"), "no-such-package is not installed here"), ((), "first is there and not empty")):
            done = make("never" if words else "first", *words, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(said, done.stderr)
        self.assertFalse((WORK / "never").exists())

    def container(self, layout, name, *words, mounts=()):
        """A bundle as a runtime makes it of the image: its configuration, a root that is read-only, no capability, one volume."""
        made = layout.config["config"]
        root, bundle, store = (WORK / name / part for part in ("root", "bundle", "store"))
        if not root.exists():
            with tarfile.open(fileobj=io.BytesIO(layout.tar)) as tar:
                tar.extractall(root, numeric_owner=True)
            store.mkdir(0o700)
            os.chown(store, UID, UID)
            bundle.mkdir()
            run("runc", "spec", cwd=bundle)
        spec = json.loads((bundle / "config.json").read_text())
        uid, gid = map(int, made["User"].split(":"))
        spec["root"] = {"path": str(root), "readonly": True}
        spec["process"].update(terminal=False, user={"uid": uid, "gid": gid}, env=made["Env"], args=[*words], noNewPrivileges=True,
                               capabilities={name: [] for name in spec["process"]["capabilities"]})
        ours = {STORE: {"type": "bind", "source": str(store), "options": ["rbind", "rw"]},
                "/tmp": {"type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]},
                **{inside: {"type": "bind", "source": str(path), "options": ["rbind", "ro"]} for inside, path in mounts}}
        spec["mounts"] = [one for one in spec["mounts"] if one["destination"] not in ours]
        spec["mounts"] += [{"destination": inside, **one} for inside, one in ours.items()]
        (bundle / "config.json").write_text(json.dumps(spec))
        return bundle

    def serve(self, layout, folder, mounts=()):
        """A server in a container of this image: its process, its log, its name and what runs toolcrib in it."""
        name, made = f"toolcrib-{uuid.uuid4().hex[:12]}", layout.config["config"]
        self.assertIn("Pin this key", run("runc", "run", "-b", self.container(layout, folder, "/usr/bin/toolcrib", "init"), name + "-init").stdout)
        bundle = self.container(layout, folder, *made["Entrypoint"], *made["Cmd"], mounts=mounts)
        log = WORK / folder / "log"
        with open(log, "wb") as out:
            server = subprocess.Popen(["runc", "run", "-b", str(bundle), name], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.addCleanup(lambda: (run("runc", "delete", "--force", name, check=False), server.wait(60)))

        def inside(*words, **more):
            return run("runc", "exec", name, "/usr/bin/toolcrib", *words, **more)
        wait_for("server", lambda: inside("status", check=False).returncode == 0 or self.assertIsNone(server.poll(), log.read_text()))
        status = json.loads(inside("--json", "status").stdout)
        if "landlock" not in status["sandbox"].split(",")[0]:
            self.skipTest("no Landlock in this kernel")
        inside("tenant", "add", "acme")
        return server, log, name, inside, status

    def test_it_serves_as_nobodys_root(self):
        """OP-713, issue 19 show 7: a tool in it reaches the level that it promises, the log says what is missing, and its end is clean."""
        server, log, name, inside, status = self.serve(self.layout, "bare")
        store = WORK / "bare/store"
        self.assertEqual(status["pid"], 1)
        (store / "version.yaml").write_text(TOOL)
        os.chown(store / "version.yaml", UID, UID)
        inside("tool", "add", f"{STORE}/version.yaml")
        inside("grant", "add", "acme", "version")
        self.assertEqual(inside("call", "acme", "version").stdout.split()[0], "toolcrib")
        call = json.loads(inside("--json", "audit", "calls", "--tenant", "acme").stdout)
        self.assertEqual(call["outcome"], "ok")
        self.assertRegex(status["sandbox"], r"^base\+landlock:[3-9].*\+seccomp.*, required base\+landlock:3\+seccomp$")
        self.assertIn("tools run as the server's user", log.read_text())
        self.assertEqual(run("runc", "exec", name, "/bin/sh", "-c", "true", check=False).returncode, 255)
        run("runc", "kill", name, "TERM")
        self.assertEqual(server.wait(60), 0)
        self.assertIn('"stopped status=0"', log.read_text().replace('\\"', "").splitlines()[-1].replace('"event":', ""))

    def test_each_example_runs_at_the_level_that_it_promises(self):
        """Issue 19, show 7: with the programs that the examples need, called by an agent over HTTP."""
        words = [word for package in WITH for word in ("--with", package)]
        self.assertIn(" ".join(words), (SOURCE / "contrib/examples/README").read_text())
        make("tools", *words)
        layout, folder, far = Layout(WORK / "tools"), WORK / "with", WORK / "far"
        for path in (folder, far):
            path.mkdir()
        run("sh", SOURCE / "contrib/examples/install", folder / "examples")
        for path in (folder / "examples").glob("*.yaml"):
            path.write_text(path.read_text().replace(str(folder / "examples"), "/srv"))
        (folder / "examples/server").write_text(examples.SERVER)
        (folder / "examples/server").chmod(0o755)
        anchors = layout.file("etc/ssl/certs/ca-certificates.crt") + examples.authority(far, run).read_bytes()
        (folder / "authorities").write_bytes(anchors)
        (folder / "hosts").write_text("".join(f"{address} {name}\n" for name, (address, _) in examples.HOSTS.items()))
        _, _, name, inside, _ = self.serve(layout, "with", (("/srv", folder / "examples"), ("/etc/hosts", folder / "hosts"),
                                                            ("/etc/ssl/certs/ca-certificates.crt", folder / "authorities")))
        pid = json.loads(run("runc", "state", name).stdout)["pid"]

        def rows(*words):
            return [json.loads(line) for line in inside("--json", *words).stdout.splitlines()]
        key = examples.add(inside, "/srv")
        with examples.elsewhere(pid, far, run):
            print(examples.check(self, pid, key, rows, "image"), file=sys.stderr)


def main():
    global WORK
    missing = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool)})
    reason = f"needs {' '.join(missing)} (apt-get install)" if missing else "needs root" if os.geteuid() else ""
    if not reason and run("unshare", "-mpf", "true", check=False).returncode:
        reason = "needs namespaces"
    if reason:
        print(f"skipped: check-image {reason}")
        return 77
    with tempfile.TemporaryDirectory(prefix="toolcrib-image-", dir=os.environ.get("TMPDIR", "/tmp")) as folder:
        WORK = pathlib.Path(folder)
        WORK.chmod(0o755)
        return 0 if unittest.main(exit=False, verbosity=2).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
