"""The systemd unit in etc/: how far it confines, by systemd's own count, and that server, signer and tools of all kinds work under
its filter on system calls and with its /proc (SEC S-607, HARDENING 1.1)."""
import contextlib
import ctypes
import json
import os
import pathlib
import platform
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import unittest

UNIT = "etc/toolcribd.service"
MOST = 2.0
NUMBERS = ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h")
ALLOW, ERRNO, KILL = 0x7fff0000, 0x00050000, 0x80000000
EPERM, ENOSYS = 1, 38
ARCH = 0xc000003e               # AUDIT_ARCH_X86_64


def program(allowed, absent):
    """The filter as systemd makes it: what is listed is allowed, what systemd does not know is absent, the rest is refused."""
    ld, jeq, ret = 0x20, 0x15, 0x06
    code = [(ld, 0, 0, 4), (jeq, 1, 0, ARCH), (ret, 0, 0, KILL), (ld, 0, 0, 0)]
    for numbers, result in ((allowed, ALLOW), (absent, ERRNO | ENOSYS)):
        for number in numbers:
            code += [(jeq, 0, 1, number), (ret, 0, 0, result)]
    return b"".join(struct.pack("HBBI", *one) for one in [*code, (ret, 0, 0, ERRNO | EPERM)])


def enter(file, *command):
    """Become the command, with this filter on: what stands in for systemd."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = pathlib.Path(file).read_bytes()
    rows = ctypes.create_string_buffer(code, len(code))
    filters = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(rows))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.create_string_buffer(filters, len(filters)), 0, 0):
        sys.exit(f"no filter: errno {ctypes.get_errno()}")
    os.execvp(command[0], command)


if len(sys.argv) > 1 and sys.argv[1] == "--enter":
    enter(*sys.argv[2:])

import crib     # noqa: E402


def settings():
    """Each key of [Service] with its values in order."""
    found = {}
    for line in (crib.SOURCE / UNIT).read_text().split("[Service]")[1].split("[Install]")[0].splitlines():
        if "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


def groups():
    """Names of system calls by group, as this systemd has them."""
    text = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager"], capture_output=True, text=True, check=True).stdout
    found, group = {}, None
    for line in text.splitlines():
        word = line.strip()
        if line.startswith("@"):
            group = found.setdefault(word, [])
        elif word and not word.startswith("#") and group is not None:
            group.append(word)
    return found


def expand(words, of):
    names = set()
    for word in words:
        names |= expand(of[word], of) if word.startswith("@") else {word}
    return names


@unittest.skipUnless(shutil.which("systemd-analyze"), "needs systemd-analyze (apt-get install systemd)")
class Unit(crib.Case):
    def test_f12_the_unit_confines(self):
        """HARDENING 1.1, 4: systemd's own count of what the service could still do is 2.0 or less."""
        with tempfile.TemporaryDirectory() as folder:
            unit = pathlib.Path(shutil.copy(crib.SOURCE / UNIT, folder))
            done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)], capture_output=True, text=True)
        level = re.search(r"exposure level for toolcribd.service: ([0-9.]+)", done.stdout)
        if not level:
            self.skipTest(f"this systemd does not count: {done.stderr.strip()}")
        self.assertLessEqual(float(level.group(1)), MOST, done.stdout)

    def test_the_launcher_has_what_it_needs(self):
        """The three capabilities, and the calls by which it uses them and the server drops them."""
        unit = settings()
        caps = {"CAP_SETUID", "CAP_SETGID", "CAP_KILL"}
        for key in ("CapabilityBoundingSet", "AmbientCapabilities"):
            self.assertEqual(set(unit[key][0].split()), caps, key)
        of = groups()
        allowed = self.allowed(unit, of)
        for name in ("setresuid", "setresgid", "setgroups", "setfsuid", "setfsgid", "capset", "prctl", "seccomp",
                     "landlock_restrict_self", "execveat", "pidfd_open"):
            self.assertIn(name, allowed)
        for name in ("ptrace", "mount", "bpf", "kexec_load", "init_module", "adjtimex", "settimeofday", "reboot", "chown", "pidfd_getfd"):
            self.assertNotIn(name, allowed)

    @staticmethod
    def allowed(unit, of):
        names = set()
        for line in unit["SystemCallFilter"]:
            names = names - expand(line[1:].split(), of) if line.startswith("~") else names | expand(line.split(), of)
        return names | expand(["@default"], of)

    @unittest.skipUnless(os.geteuid() == 0, "needs root, for a service user with capabilities")
    @unittest.skipUnless(platform.machine() == "x86_64" and shutil.which("setpriv") and shutil.which("unshare"), "needs x86_64, setpriv, unshare")
    def test_f12_all_works_under_its_filter(self):
        """Tools in sh and python, of a tenant's user, to the level that they reach without it; signals, files, static and sql."""
        c, service = self.crib, 640003
        header = next((path for path in map(pathlib.Path, NUMBERS) if path.exists()), None)
        if not header:
            self.skipTest("needs the numbers of system calls (linux-libc-dev)")
        if crib.sanitized():
            self.skipTest("sanitizers need more than a list could say")
        numbers = {name: int(n) for name, n in re.findall(r"#define __NR_(\w+)\s+(\d+)", header.read_text())}
        of = groups()
        allowed, known = self.allowed(settings(), of), expand(["@known"], of)
        rows = c.dir / "filter"
        rows.write_bytes(program(sorted(numbers[name] for name in allowed if name in numbers),
                                 sorted(number for name, number in numbers.items() if name not in known)))
        public = pathlib.Path(tempfile.mkdtemp(prefix="toolcrib-unit-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, public, ignore_errors=True)
        public.chmod(0o1777)
        key = c.init().tenant("acme", "*")
        scripts = {"shell": "id -u; sleep 600.5 & kill $!; wait $!; echo $?; echo x >$HOME/a && cat $HOME/a && chmod 600 $HOME/a && echo fine",
                   "python": "python3 -c 'import json, threading, subprocess; print(json.dumps([subprocess.run([\"echo\", \"child\"]).returncode]))'"}
        for name, script in scripts.items():
            (public / f"{name}.sh").write_text(script)
            (public / f"{name}.sh").chmod(0o755)
            c.tool(crib.tool_yaml(name, f"{{type: exec, argv: [/bin/sh, '{public}/{name}.sh'], stdin: none, output: text}}", extra="limits: {timeout: 30s}\n"))
        c.tool(crib.tool_yaml("fixed", "{type: static, text: fixed}"))
        with contextlib.closing(sqlite3.connect(public / "data.db")) as db:
            db.execute("CREATE TABLE t (x)")
            db.execute("INSERT INTO t VALUES ('from sql')")
            db.commit()
        (public / "data.db").chmod(0o644)
        c.tool(crib.tool_yaml("query", f"{{type: sql, database: 'sqlite:{public}/data.db', query: 'SELECT x FROM t'}}"))
        said = {}
        caps = "+setuid,+setgid,+kill"
        outside = ["unshare", "-m", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "sh"]
        if subprocess.run([*outside, "true"], capture_output=True).returncode != 0:
            self.skipTest("/proc cannot be mounted here")
        for path in (c.dir, c.store, *c.dir.rglob("*")):
            os.chown(path, service, service)
        become = ["setpriv", f"--reuid={service}", f"--regid={service}", "--clear-groups", f"--inh-caps={caps}", f"--ambient-caps={caps}"]
        for run, wrapper in (("plain", become), ("unit", [*outside, sys.executable, __file__, "--enter", str(rows), *become])):
            c.start("sandbox: {uids: '700000:1000', require: base+uid}\n", wrapper=wrapper, env={"TMPDIR": str(public), "NOTIFY_SOCKET": ""})
            with contextlib.closing(c.tcp(key)) as peer:
                said[run] = [peer.call(name, {}, crib.MODERN)["result"] for name in (*scripts, "fixed", "query")]
            said[run] = [result["content"][0]["text"] for result in said[run]] + [c.json("status")[0]["sandbox"], c.json("status")[0]["confined"]]
            self.clock = c.json("status")[0]["clock"]
            self.assertEqual(c.stop(), 0)
        self.assertEqual(said["unit"], said["plain"])
        self.assertIn("from sql", said["unit"][3])
        self.assertRegex(said["unit"][0], r"^700\d{3}\n143\nx\nfine")
        self.assertEqual(self.clock, "not known", "toolcribd(8): a filter that refuses adjtimex")



class Profile(unittest.TestCase):
    """The AppArmor profile of the Debian package (OP-702)."""

    FILE = crib.SOURCE / "contrib/debian/apparmor.d/usr.bin.toolcribd"

    def parse(self, text):
        parser = shutil.which("apparmor_parser") or shutil.which("apparmor_parser", path="/usr/sbin:/sbin")
        if not parser or not pathlib.Path("/etc/apparmor.d/abstractions/base").exists():
            self.skipTest("there is no apparmor_parser: Debian's package apparmor has it")
        return subprocess.run([parser, "--skip-kernel-load", "--skip-cache", "--names"], input=text, capture_output=True, text=True)

    def test_op702_the_profile_is_one_and_begins_by_complaining(self):
        text = self.FILE.read_text()
        done = self.parse(text)
        self.assertEqual((done.returncode, done.stdout.split()), (0, ["toolcribd"]), done.stderr)
        self.assertRegex(text, r"flags=\([a-z_,]*complain\)")
        self.assertNotEqual(self.parse(text.replace("capability setuid,", "capability setuidd,")).returncode, 0)

    def test_op702_it_names_what_the_unit_and_the_configuration_name(self):
        text = self.FILE.read_text()
        conf = (crib.SOURCE / "contrib/debian/toolcribd.yaml").read_text()
        for path in re.findall(r"/(?:run|var/lib)/[a-z-]+", conf):
            self.assertIn(path, text)
        capabilities = settings()["CapabilityBoundingSet"][-1].split()
        self.assertEqual({f"CAP_{name.upper()}" for name in re.findall(r"^ *capability ([a-z_]+),$", text, re.M)}, set(capabilities))


if __name__ == "__main__":
    crib.main()
