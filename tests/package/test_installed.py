#!/usr/bin/env python3
"""The packages of contrib/package, built twice and installed into a bare Debian 12 root whose first process is systemd: the same
bytes, nothing for lintian to say; a server and a signer of other users that the package itself starts, as hardened as their units
say; an upgrade from the build before beside a server that runs; every tool of contrib/examples at the level that it promises; a
purge that keeps the audit (OPERATE 9, 15).  make check-package; 77 and a reason where something is missing.  TOOLCRIB_PACKAGES names
a folder with packages that were built before, TOOLCRIB_PACKAGES_BEFORE one of an older build, which saves two of three builds."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import examples
from examples import SOURCE, wait_for
from root import Root, run

STORE, SIGNER = "/var/lib/toolcrib", "/var/lib/toolcrib-sign"
EXAMPLES, SHARE = "/srv/examples", "/usr/share/doc/toolcrib/examples"
TOOLS = {"dpkg-buildpackage": "dpkg-dev", "dh": "debhelper", "lintian": "lintian", "mmdebstrap": "mmdebstrap", "unshare": "util-linux",
         "fakeroot": "fakeroot", "nsenter": "util-linux", "pgrep": "procps", "ip": "iproute2", "openssl": "openssl"}
UNITS = {"toolcribd.service": 2.0, "toolcrib-sign.service": 0.8}       # HARDENING 1.1, OP-704, OP-705
CAPABILITIES = 1 << 5 | 1 << 6 | 1 << 7         # kill, setgid, setuid
BEFORE = "0.0.9-1"
WORK = None


def build(name, umask, source=SOURCE, **env):
    """The packages, by name of the package."""
    (WORK / name).mkdir()
    run("sh", "-c", f"umask {umask}; exec \"$@\"", "sh", source / "contrib/package", WORK / name, env={**os.environ, **env})
    return packages(WORK / name)


def packages(folder):
    return {path.name.split("_")[0]: path for path in pathlib.Path(folder).resolve().glob("*.deb")}


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


def build_before(now):
    """A package of the sources of before the newest step of the schema; where nobody knows these, the same under an older version."""
    given = os.environ.get("TOOLCRIB_PACKAGES_BEFORE")
    if given:
        return as_version(packages(given)["toolcrib"], BEFORE)
    step = run("git", "-C", SOURCE, "log", "-1", "--format=%H", "--diff-filter=A", "--", "sql/migrate", check=False).stdout.strip()
    tree = WORK / "sources-before"
    tree.mkdir()
    done = run("sh", "-c", 'git -C "$1" archive "$2^" | tar -x -C "$3"', "sh", SOURCE, step, tree, check=False) if step else None
    if not done or not (tree / "contrib/package").exists():
        print("no sources of before are here: the same ones stand in for them", file=sys.stderr)
        return as_version(now, BEFORE)
    deb = as_version(build("before", "022", tree)["toolcrib"], BEFORE)
    shutil.rmtree(tree)
    return deb


class Installed(unittest.TestCase):
    """Each step goes on where the one before has ended."""

    @classmethod
    def setUpClass(cls):
        given = os.environ.get("TOOLCRIB_PACKAGES")
        cls.debs = packages(given) if given else build("first", "022")
        cls.root = Root(WORK / "root")

    @classmethod
    def tearDownClass(cls):
        cls.root.end()

    def crib(self, *words, **more):
        return self.root.run("toolcrib", "--store", STORE, *words, **more)

    def rows(self, *words):
        return [json.loads(line) for line in self.crib("--json", *words).stdout.splitlines()]

    def main_pid(self):
        return self.root.said_of("toolcribd", "MainPID")["MainPID"]

    def serves(self):
        """It is up, and systemd thinks so too."""
        def there():
            return self.crib("status", check=False).returncode == 0 or self.assertNotEqual(
                self.root.said_of("toolcribd", "ActiveState")["ActiveState"], "failed", self.root.said("toolcribd")[-3000:])
        wait_for("server", there)
        states = [self.root.said_of(unit, "ActiveState", "SubState") for unit in UNITS]
        self.assertEqual(states, [{"ActiveState": "active", "SubState": "running"}] * 2)

    def pinned(self, said):
        keys = re.findall(r"^(?:Pin this key|and this one) +(\S+\+\S{44,})\r?$", said, re.M)
        self.assertEqual(len(keys), 2, said)
        return keys

    def counts(self):
        return self.crib("call", "acme", "word_count", "text=one two\n").stdout

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
        """The package of before: it makes a store, parts the signer from it, and starts both."""
        said = self.root.install(build_before(self.debs["toolcrib"]), self.debs["toolcrib-verify"], words=("-o", "Dpkg::Use-Pty=0")).stdout
        type(self).pins = [word for key in self.pinned(said) for word in ("--key", key)]
        for path, mode in ((STORE, "700 toolcrib"), (f"{STORE}/master.key", "400 toolcrib"), (SIGNER, "700 toolcrib-sign"),
                           (f"{SIGNER}/log.key", "400 toolcrib-sign"), ("/etc/toolcrib/toolcribd.yaml", "644 root")):
            self.assertEqual(self.root.run("stat", "-c", "%a %U", path).stdout.strip(), mode, path)
        self.assertEqual(self.root.run("test", "-e", f"{STORE}/signer", check=False).returncode, 1, "the server has no key that signs")
        for file in ("subuid", "subgid"):
            self.assertEqual(self.root.run("grep", "^toolcrib:", f"/etc/{file}").stdout, "toolcrib:100000:65536\n")
        self.root.run("toolcribd", "--check-config", "-c", "/etc/toolcrib/toolcribd.yaml")
        self.serves()

    def test_4_it_serves_and_runs_a_tool(self):
        self.crib("tenant", "add", "acme")
        self.crib("tool", "add", f"{SHARE}/word_count.yaml")
        self.crib("grant", "add", "acme", "word_count")
        self.assertIn("1 lines, 2 words", self.counts())
        self.assertIn("base+uid", self.rows("status")[0]["sandbox"])
        owners = self.root.run("sh", "-c", "for p in /proc/[0-9]*; do stat -c %U $p; cat $p/comm; done 2>/dev/null").stdout.split()
        pairs = set(zip(owners[1::2], owners[::2]))
        self.assertIn(("toolcrib-sign", "toolcrib-sign"), pairs)
        self.assertEqual({user for name, user in pairs if name == "toolcribd"}, {"toolcrib"})

    def test_5_an_upgrade_leaves_the_server_the_store_and_the_configuration(self):
        """OP-703: no restart by itself; what an administrator has changed stays; with the restart the store goes forward."""
        self.root.run("sh", "-c", "echo 'drain_ms: 5000' >>/etc/toolcrib/toolcribd.yaml")
        calls, server = len(self.rows("audit", "calls", "--tenant", "acme")), self.main_pid()
        said = self.root.install(self.debs["toolcrib"]).stdout
        self.assertIn("the server that runs is the old one", said)
        self.assertEqual(self.main_pid(), server)
        self.assertIn("1 lines, 2 words", self.counts())
        for unit in ("toolcribd", "toolcrib-sign"):
            self.root.run("systemctl", "restart", unit)
            self.serves()
        self.assertNotEqual(self.main_pid(), server)
        self.assertIn("1 lines, 2 words", self.counts())
        self.assertEqual(len(self.rows("audit", "calls", "--tenant", "acme")), calls + 2)
        self.assertIn("drain_ms: 5000", self.root.run("cat", "/etc/toolcrib/toolcribd.yaml").stdout)
        self.assertEqual(self.root.run("cat", "/etc/subuid").stdout.count("toolcrib:"), 1)

    def test_6_it_is_as_hardened_as_its_units_say(self):
        """HARDENING 1.1: by systemd's own count of the file and of the unit that runs, and as the kernel has the processes."""
        for unit, most in UNITS.items():
            for words in (("--offline=true", f"/lib/systemd/system/{unit}"), (unit,)):
                said = self.root.run("systemd-analyze", "security", "--no-pager", *words).stdout
                level = float(re.search(r"exposure level for \S+: ([0-9.]+)", said).group(1))
                print(f"  {unit}: {level}, {'by its file' if len(words) > 1 else 'as it runs'}", file=sys.stderr)
                self.assertLessEqual(level, most, said)
            pid = self.root.said_of(unit, "MainPID")["MainPID"]
            status = dict(line.split(":\t", 1) for line in self.root.run("cat", f"/proc/{pid}/status").stdout.splitlines() if ":\t" in line)
            self.assertEqual((status["NoNewPrivs"], status["Seccomp"], int(status["CapEff"], 16)), ("1", "2", 0), unit)
            self.assertEqual(int(status["CapBnd"], 16) & ~CAPABILITIES, 0, unit)
            self.assertNotEqual(self.root.run("nsenter", "-m", "-t", pid, "touch", "/usr/x", check=False).returncode, 0, "ProtectSystem")
            self.assertEqual(self.root.run("nsenter", "-m", "-t", pid, "ls", "/home", check=False).stdout, "", "ProtectHome")

    def test_7_each_example_runs_at_the_level_that_it_promises(self):
        """Issue 19, show 7: under the unit, called by an agent over HTTP, as the record of the call has it."""
        root, far = self.root, WORK / "far"
        far.mkdir()
        root.install("sqlite3", "ca-certificates")
        root.put("/usr/local/share/ca-certificates/far.crt", examples.authority(far, run).read_text())
        root.run("update-ca-certificates")
        root.run("sh", "-c", 'cat >>/etc/hosts', input="".join(f"{address} {name}\n" for name, (address, _) in examples.HOSTS.items()))
        root.run("systemctl", "restart", "toolcribd")
        self.serves()
        root.run("sh", f"{SHARE}/install", EXAMPLES)
        root.put(f"{EXAMPLES}/server", examples.SERVER, "755")
        key = examples.add(self.crib, EXAMPLES)
        with examples.elsewhere(root.init, far, run):
            print(examples.check(self, root.init, key, self.rows, "package"), file=sys.stderr)

    def test_8_a_purge_keeps_the_audit(self):
        calls = len(self.rows("audit", "calls", "--tenant", "acme"))
        said = self.root.run("apt-get", "purge", "-y", "-qq", "toolcrib").stdout
        self.assertIn(f"the audit store stays in {STORE}", said)
        self.assertEqual(self.root.run("pgrep", "-x", "toolcribd|toolcrib-sign", check=False).stdout, "", "it has stopped what it started")
        self.assertEqual(self.root.run("ls", "/etc/toolcrib", check=False).returncode, 2)
        self.assertEqual(self.root.run("stat", "-c", "%U", f"{STORE}/toolcrib.db", f"{SIGNER}/log.key").stdout, "toolcrib\ntoolcrib-sign\n")
        self.root.run("toolcrib-verify", *self.pins, "--keys", STORE, "--signer-state", SIGNER, STORE)
        self.root.install(self.debs["toolcrib"])
        self.serves()
        self.assertEqual(len(self.rows("audit", "calls", "--tenant", "acme")), calls, "installed again, it goes on")

    def test_9_keys_to_pin_are_whole_on_a_terminal(self):
        """apt gives one of 80 columns to what it runs."""
        self.root.run("apt-get", "purge", "-y", "-qq", "toolcrib")
        self.root.run("rm", "-r", STORE, SIGNER)
        said = self.root.install(self.debs["toolcrib"]).stdout
        self.assertEqual({*self.pinned(said)} & {*self.pins}, set(), "another store's")
        self.serves()


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
