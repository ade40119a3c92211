#!/usr/bin/env python3
"""The packages of contrib/package, built twice and installed into a bare Debian 12 root: the same bytes, nothing for lintian to
say; a server and a signer of other users, a tool of a third; an upgrade beside a server that runs; a purge that keeps the
audit (OPERATE 9, 15).  make check-package; 77 and a reason where something is missing.  TOOLCRIB_PACKAGES names a folder with
packages that were built before, which saves the first build."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(os.environ.get("TOOLCRIB_SRCDIR", pathlib.Path(__file__).resolve().parents[2])).resolve()
DEADLINE = float(os.environ.get("TOOLCRIB_TEST_DEADLINE", 60))
STORE, SIGNER = "/var/lib/toolcrib", "/var/lib/toolcrib-sign"
TOOLS = {"dpkg-buildpackage": "dpkg-dev", "dh": "debhelper", "lintian": "lintian", "mmdebstrap": "mmdebstrap", "unshare": "util-linux",
         "setpriv": "util-linux", "fakeroot": "fakeroot", "nsenter": "util-linux", "pgrep": "procps"}
WORK = None


def run(*words, check=True, **more):
    more.setdefault("timeout", 1800)
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, stdin=subprocess.DEVNULL, **more)
    if check and done.returncode:
        raise AssertionError(f"{words}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done


def build(name, umask, **env):
    """The packages, by name of the package."""
    (WORK / name).mkdir()
    run("sh", "-c", f"umask {umask}; exec \"$@\"", "sh", SOURCE / "contrib/package", WORK / name, env={**os.environ, **env})
    return {path.name.split("_")[0]: path for path in (WORK / name).glob("*.deb")}


def as_version(deb, version):
    """The same package under another version, as the one before or behind it."""
    tree = WORK / f"{deb.stem}-{version}"
    run("dpkg-deb", "-R", deb, tree)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"^Version: .*$", f"Version: {version}", control.read_text(), flags=re.M))
    made = WORK / f"{tree.name}.deb"
    run("fakeroot", "dpkg-deb", "-b", tree, made)
    shutil.rmtree(tree)
    return made


class Root:
    """A bare Debian root, and a process in namespaces of its own in which all else runs."""

    def __init__(self, path):
        self.path = path
        apt = pathlib.Path("/etc/apt")
        sources = [file for file in [apt / "sources.list", *sorted(apt.glob("sources.list.d/*.list")), *sorted(apt.glob("sources.list.d/*.sources"))]
                   if file.is_file() and "bookworm" in file.read_text()]
        done = run("mmdebstrap", "--quiet", "--variant=minbase", "--skip=cleanup/apt", "bookworm", path, *sources, check=False)
        if done.returncode:
            raise unittest.SkipTest("no Debian root: " + done.stderr[-500:])
        shutil.copy("/etc/resolv.conf", path / "etc")
        mounts = f"mount --bind {path} {path} && mount -t proc proc {path}/proc && mount -t tmpfs tmpfs {path}/run && exec sleep infinity"
        self.first = subprocess.Popen(["unshare", "-mpf", "--kill-child", "--propagation=private", "sh", "-c", mounts])
        inner = wait_for("a root", lambda: run("pgrep", "-P", self.first.pid, check=False).stdout.split())[0]
        self.enter = ["nsenter", "-m", "-p", "-t", inner, "chroot", path]
        wait_for("mounts", lambda: (path / "proc/1").exists() or self.run("test", "-e", "/proc/1", check=False).returncode == 0)

    def run(self, *words, **more):
        proxies = [f"{name}={value}" for name, value in os.environ.items() if name.endswith("_proxy")]
        return run(*self.enter, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", *proxies, *words, **more)

    def install(self, *debs, words=()):
        for deb in debs:
            shutil.copy(deb, self.path / "tmp")
        return self.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *words, *[f"/tmp/{deb.name}" for deb in debs])

    def serve(self, unit):
        """Start what the unit says, as its user with its capabilities: what stands in for systemd."""
        text = self.run("cat", f"/lib/systemd/system/{unit}").stdout
        said = dict(re.findall(r"^(\w+)=(.*)$", text, re.M))
        run_dir = f"/run/{said['RuntimeDirectory']}"
        self.run("install", "-d", "-m", said["RuntimeDirectoryMode"], "-o", said["User"], "-g", said["Group"], run_dir)
        caps = ",".join(["-all", *(f"+{cap[4:].lower()}" for cap in said.get("AmbientCapabilities", "").split())])
        log = open(WORK / f"{unit}.log", "ab")
        process = subprocess.Popen([*self.enter, "env", "-i", "PATH=/usr/bin:/bin", "setpriv", f"--reuid={said['User']}", f"--regid={said['Group']}",
                                    "--clear-groups", f"--bounding-set={caps}", f"--inh-caps={caps}", f"--ambient-caps={caps}", "--no-new-privs",
                                    *said["ExecStart"].split()], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        return process

    @staticmethod
    def end(process):
        """What nsenter has started: it waits for it."""
        for pid in run("pgrep", "-P", process.pid, check=False).stdout.split():
            os.kill(int(pid), signal.SIGTERM)
        process.wait(DEADLINE)


def wait_for(what, true):
    end = time.monotonic() + DEADLINE
    while True:
        got = true()
        if got:
            return got
        if time.monotonic() > end:
            raise AssertionError(f"no {what} within {DEADLINE} s")
        time.sleep(0.05)


class Installed(unittest.TestCase):
    """Each step goes on where the one before has ended."""

    @classmethod
    def setUpClass(cls):
        given = os.environ.get("TOOLCRIB_PACKAGES")
        cls.debs = {path.name.split("_")[0]: path for path in pathlib.Path(given).resolve().glob("*.deb")} if given else build("first", "022")
        cls.servers = []
        cls.root = Root(WORK / "root")

    @classmethod
    def tearDownClass(cls):
        for process in reversed(cls.servers):
            cls.root.end(process)
        cls.root.first.kill()
        cls.root.first.wait()

    def crib(self, *words, **more):
        return self.root.run("toolcrib", "--store", STORE, *words, **more)

    def rows(self, *words):
        return [json.loads(line) for line in self.crib("--json", *words).stdout.splitlines()]

    def start(self):
        for unit, sign in (("toolcrib-sign.service", "/run/toolcrib-sign/sign.sock"), ("toolcribd.service", f"{STORE}/admin.sock")):
            process = self.root.serve(unit)
            self.servers.append(process)
            log = WORK / f"{unit}.log"
            wait_for(f"{unit}: {log}", lambda: self.root.run("test", "-S", sign, check=False).returncode == 0 or
                     self.assertIsNone(process.poll(), log.read_text(errors="replace")))
        wait_for("server", lambda: self.crib("status", check=False).returncode == 0)

    def stop(self):
        while self.servers:
            self.root.end(self.servers.pop())
        self.root.run("sh", "-c", f"rm -f /run/toolcrib-sign/sign.sock; test ! -S {STORE}/admin.sock")

    def test_1_two_builds_are_the_same(self):
        """OP-721: in another folder, at another time, with another umask, locale, time zone and one job."""
        again = build("second", "077", TMPDIR=str(WORK / "tmp"), TZ="Asia/Kolkata", LC_ALL="C", DEB_BUILD_OPTIONS="parallel=1", HOME="/")
        self.assertEqual({"toolcrib", "toolcrib-verify"}, {name for name in self.debs if "dbgsym" not in name})
        self.assertEqual(sorted(self.debs), sorted(again))
        for name, deb in self.debs.items():
            self.assertEqual(deb.name, again[name].name)
            self.assertEqual(deb.read_bytes(), again[name].read_bytes(), name)

    def test_2_lintian_says_nothing(self):
        changes = next(self.debs["toolcrib"].parent.glob("*.changes"))
        done = run("lintian", "--allow-root", "--fail-on", "error,warning", changes, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_3_it_installs_into_a_bare_root(self):
        before = as_version(self.debs["toolcrib"], "0.0.9-1")
        said = self.root.install(before, self.debs["toolcrib-verify"]).stdout
        type(self).pins = [word for key in re.findall(r"^(?:Pin this key|and this one) +(\S+)$", said, re.M) for word in ("--key", key)]
        self.assertEqual(len(self.pins), 4, said)
        for path, mode in ((STORE, "700 toolcrib"), (f"{STORE}/master.key", "400 toolcrib"), (SIGNER, "700 toolcrib-sign"),
                           (f"{SIGNER}/log.key", "400 toolcrib-sign"), ("/etc/toolcrib/toolcribd.yaml", "644 root")):
            self.assertEqual(self.root.run("stat", "-c", "%a %U", path).stdout.strip(), mode, path)
        self.assertEqual(self.root.run("test", "-e", f"{STORE}/signer", check=False).returncode, 1, "the server has no key that signs")
        for file in ("subuid", "subgid"):
            self.assertEqual(self.root.run("grep", "^toolcrib:", f"/etc/{file}").stdout, "toolcrib:100000:65536\n")
        self.root.run("toolcribd", "--check-config", "-c", "/etc/toolcrib/toolcribd.yaml")

    def test_4_it_serves_and_runs_a_tool(self):
        self.start()
        self.crib("tenant", "add", "acme")
        self.crib("tool", "add", "/usr/share/doc/toolcrib/examples/word_count.yaml")
        self.crib("grant", "add", "acme", "word_count")
        self.assertIn("1 lines, 2 words", self.crib("call", "acme", "word_count", "text=one two\n").stdout)
        self.assertIn("base+uid", self.rows("status")[0]["sandbox"])
        owners = self.root.run("sh", "-c", "for p in /proc/[0-9]*; do stat -c %U $p; cat $p/comm; done 2>/dev/null").stdout.split()
        pairs = set(zip(owners[1::2], owners[::2]))
        self.assertIn(("toolcrib-sign", "toolcrib-sign"), pairs)
        self.assertEqual({user for name, user in pairs if name == "toolcribd"}, {"toolcrib"})

    def test_5_an_upgrade_leaves_the_server_the_store_and_the_configuration(self):
        """OP-703: no restart by itself; what an administrator has changed stays."""
        self.root.run("sh", "-c", "echo 'drain_ms: 5000' >>/etc/toolcrib/toolcribd.yaml")
        calls = len(self.rows("audit", "calls", "--tenant", "acme"))
        self.root.install(self.debs["toolcrib"])
        self.assertIsNone(self.servers[-1].poll())
        self.assertIn("1 lines, 2 words", self.crib("call", "acme", "word_count", "text=one two\n").stdout)
        self.stop()
        self.start()
        self.assertIn("1 lines, 2 words", self.crib("call", "acme", "word_count", "text=one two\n").stdout)
        self.assertEqual(len(self.rows("audit", "calls", "--tenant", "acme")), calls + 2)
        self.assertIn("drain_ms: 5000", self.root.run("cat", "/etc/toolcrib/toolcribd.yaml").stdout)
        self.assertEqual(self.root.run("cat", "/etc/subuid").stdout.count("toolcrib:"), 1)

    def test_6_a_purge_keeps_the_audit(self):
        self.stop()
        said = self.root.run("apt-get", "purge", "-y", "-qq", "toolcrib").stdout
        self.assertIn(f"the audit store stays in {STORE}", said)
        self.assertEqual(self.root.run("ls", "/etc/toolcrib", check=False).returncode, 2)
        self.assertEqual(self.root.run("stat", "-c", "%U", f"{STORE}/toolcrib.db", f"{SIGNER}/log.key").stdout, "toolcrib\ntoolcrib-sign\n")
        self.root.run("toolcrib-verify", *self.pins, "--keys", STORE, "--signer-state", SIGNER, STORE)
        self.root.install(self.debs["toolcrib"])
        self.start()
        self.assertEqual(len(self.rows("audit", "calls", "--tenant", "acme")), 3, "installed again, it goes on")


def main():
    global WORK
    missing = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool)})
    reason = f"needs {' '.join(missing)} (apt-get install)" if missing else "needs root" if os.geteuid() else ""
    if not reason and run("unshare", "-mpf", "true", check=False).returncode:
        reason = "needs namespaces"
    if reason:
        print(f"skipped: check-package {reason}")
        return 77
    with tempfile.TemporaryDirectory(prefix="toolcrib-package-", dir=os.environ.get("TMPDIR", "/tmp")) as folder:
        WORK = pathlib.Path(folder)
        WORK.chmod(0o755)
        (WORK / "tmp").mkdir()
        return 0 if unittest.main(exit=False, failfast=True, verbosity=2).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
