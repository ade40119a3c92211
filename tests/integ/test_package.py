"""What contrib/debian promises, as far as the sources alone can say: each file that make install brings is in one package, units
confine as far as they say, the configuration is good and fits the units, and ids for tools are free ones (OPERATE 9)."""
import fnmatch
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import crib

DEBIAN = crib.SOURCE / "contrib/debian"
UNITS = {"toolcribd.service": 2.0, "toolcrib-sign.service": 0.8}
FIRST_ID, IDS = 100000, 65536


def run(*words, **more):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, **more)


class Package(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="toolcrib-package-"))
        self.addCleanup(shutil.rmtree, self.dir, True)

    def test_each_file_is_in_one_package(self):
        if not (crib.BUILD / "Makefile").exists():
            self.skipTest("no Makefile in the build")
        env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "DESTDIR")}
        done = run("make", "-s", "-C", crib.BUILD, "install", f"DESTDIR={self.dir}", "prefix=/usr", "libdir=/usr/lib/x",
                   "systemdsystemunitdir=/lib/systemd/system", "bashcompletiondir=/usr/share/bash-completion/completions",
                   "fishcompletiondir=/usr/share/fish/vendor_completions.d", "zshcompletiondir=/usr/share/zsh/vendor-completions",
                   env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        files = {str(path.relative_to(self.dir)) for path in self.dir.rglob("*") if not path.is_dir()}
        taken = {name: [] for name in files}
        for package in ("toolcrib", "toolcrib-verify"):
            for line in (DEBIAN / f"{package}.install").read_text().splitlines():
                source, _, _ = line.partition(" ")
                if source.startswith("contrib/"):
                    self.assertTrue((crib.SOURCE / source).is_file(), line)
                    continue
                found = [name for name in files if fnmatch.fnmatch(name, source) or fnmatch.fnmatch(name, f"{source}/*")]
                self.assertTrue(found, f"{package}.install: nothing is {source}")
                for name in found:
                    taken[name].append(package)
        self.assertEqual({name: where for name, where in taken.items() if len(where) != 1}, {})
        self.assertEqual({name for name, where in taken.items() if where == ["toolcrib-verify"]},
                         {"usr/bin/toolcrib-verify", "usr/share/man/man8/toolcrib-verify.8", "usr/share/toolcrib/verify.py"})
        for name in ("docs", "examples"):
            for line in (DEBIAN / f"toolcrib.{name}").read_text().splitlines():
                self.assertTrue(any(crib.SOURCE.glob(line)), line)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "needs systemd-analyze (apt-get install systemd)")
    def test_the_units_confine(self):
        for name, most in UNITS.items():
            done = run("systemd-analyze", "security", "--offline=true", "--no-pager", crib.SOURCE / "etc" / name)
            level = re.search(rf"exposure level for {name}: ([0-9.]+)", done.stdout)
            if not level:
                self.skipTest(f"this systemd does not count: {done.stderr.strip()}")
            self.assertLessEqual(float(level.group(1)), most, done.stdout)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "needs systemd-analyze (apt-get install systemd)")
    def test_systemd_finds_nothing_in_the_units(self):
        """As they are installed, with the drop-in of the package; programs are others, since ours are not there."""
        for name in UNITS:
            text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", (crib.SOURCE / "etc" / name).read_text(), flags=re.M)
            (self.dir / name).write_text(text)
        (self.dir / "toolcribd.service.d").mkdir()
        shutil.copy(DEBIAN / "signer.conf", self.dir / "toolcribd.service.d")
        for name in UNITS:
            done = run("systemd-analyze", "verify", "--man=no", self.dir / name, env={**os.environ, "SYSTEMD_UNIT_PATH": f"{self.dir}:"})
            said = [line for line in (done.stdout + done.stderr).splitlines() if str(self.dir) in line or line.startswith("toolcrib")]
            self.assertEqual(said, [])

    def test_the_configuration_is_good_and_names_what_the_units_make(self):
        done = run(crib.BUILD / "toolcribd", "--check-config", "-c", DEBIAN / "toolcribd.yaml")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = (DEBIAN / "toolcribd.yaml").read_text()
        server, signer = ((crib.SOURCE / "etc" / name).read_text() for name in UNITS)
        socket = re.search(r"--socket (\S+)", signer).group(1)
        self.assertIn(f"\n  socket: {socket}\n", text)
        self.assertEqual(pathlib.Path(socket).parent.name, re.search(r"^RuntimeDirectory=(\S+)", signer, re.M).group(1))
        self.assertIn(f"--user {re.search(r'^User=(.*)', server, re.M).group(1)}\n", signer)
        self.assertIn("\nstore: /var/lib/toolcrib\n", text)
        self.assertIn("--store /var/lib/toolcrib\n", server)
        users = dict(re.findall(r'^u (\S+) - ".*" (\S+)$', (DEBIAN / "toolcrib.sysusers").read_text(), re.M))
        self.assertEqual(users, {"toolcrib": "/var/lib/toolcrib", "toolcrib-sign": re.search(r"--dir (\S+)", signer).group(1)})

    def test_scripts_can_be_read(self):
        scripts = [DEBIAN / f"toolcrib.{name}" for name in ("postinst", "postrm")] + [crib.SOURCE / "contrib/package"]
        for script in scripts:
            done = run("sh", "-n", script)
            self.assertEqual((done.returncode, done.stderr), (0, ""), script)
        self.assertNotRegex((DEBIAN / "toolcrib.postrm").read_text(), r"(?m)^\s*(rm|rmdir|find)\b[^#\n]*/var/lib", "purge keeps evidence")

    def test_the_version_is_that_of_configure(self):
        version = re.search(r"^AC_INIT\(\[toolcrib\], \[(.*)\]\)$", (crib.SOURCE / "configure.ac").read_text(), re.M).group(1)
        self.assertTrue((DEBIAN / "changelog").read_text().startswith(f"toolcrib ({version}-"))

    def test_the_parts_are_those_that_the_loader_takes(self):
        """OP-722: each library of the program with its package and digest, twice the same."""
        if not shutil.which("dpkg-query") or crib.sanitized():
            self.skipTest("needs Debian's dpkg-query, and programs as users have them")
        env = {**os.environ, "SOURCE_DATE_EPOCH": "1000000000"}
        said, again = (run(crib.SOURCE / "contrib/sbom", "1.2.3", crib.BUILD / "toolcrib-sign", env=env) for _ in range(2))
        self.assertEqual((said.returncode, said.stdout), (0, again.stdout), said.stderr)
        made = json.loads(said.stdout)
        self.assertEqual((made["metadata"]["component"]["version"], made["metadata"]["timestamp"]), ("1.2.3", "2001-09-09T01:46:40Z"))
        loaded = set(re.findall(r"(?:=> |\t)/\S+/(\S+) \(0x", run("ldd", crib.BUILD / "toolcrib-sign").stdout))
        files = {part["properties"][0]["value"]: part for part in made["components"]}
        self.assertEqual(set(files), loaded)
        sodium = files["libsodium.so.23"]
        self.assertEqual(sodium["version"], run("dpkg-query", "-W", "-f", "${Version}", "libsodium23").stdout)
        path = re.search(r"=> (\S+/libsodium\.so\.23)", run("ldd", crib.BUILD / "toolcrib-sign").stdout).group(1)
        self.assertEqual(sodium["hashes"][0]["content"], hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest())
        shutil.copy(path, self.dir)
        strange = run(crib.SOURCE / "contrib/sbom", "1", crib.BUILD / "toolcrib-sign", env={**env, "LD_LIBRARY_PATH": str(self.dir)})
        self.assertIn(f"sbom: {self.dir}/libsodium.so.23 is of no package", strange.stderr)

    @unittest.skipUnless(shutil.which("readelf"), "needs readelf (apt-get install binutils)")
    def test_s931_programs_say_which_build_they_are(self):
        """S-346 as well: of themselves and of each library what the linker has made of its bytes, as others read it."""
        def known(path):
            found = re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", path).stdout)
            return found.group(1) if found else "none"
        for name in ("toolcrib", "toolcribd", "toolcrib-sign", "toolcrib-verify", "toolcrib-ship", "toolcrib-run", "toolcrib-launcher", "toolcrib-worker"):
            program = crib.BUILD / name
            done = run(program, "--version")
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            first, *rest = done.stdout.splitlines()
            self.assertRegex(first, rf"^{name} \d+\.\d+\.\d+$")
            said = dict(line.split(" ") for line in rest)
            self.assertEqual(said.pop("build"), known(program))
            loaded = [pathlib.Path(path).resolve() for path in re.findall(r"(?:=> |\t)(/\S+) \(0x", run("ldd", program).stdout)]
            self.assertEqual(said, {path.name: known(path) for path in loaded}, name)

    def test_licences_are_what_the_copyright_files_say(self):
        """OP-722: by SPDX's id where one is meant without doubt; of a file that only people can read, where it is."""
        if not shutil.which("dpkg-query") or crib.sanitized():
            self.skipTest("needs Debian's dpkg-query, and programs as users have them")
        files = {"libsodium23": "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nCopyright: 2026 A\n"
                                "License: ISC or GPL-2+\n text\n\nFiles: src/x\nLicense: Expat and Kazlib\n\nFiles: debian/*\nLicense: GPL-3\n\n"
                                "License: Zlib\n A paragraph of its own text, about no file.\n",
                 "libc6": "GNU libc. On Debian systems: /usr/share/common-licenses/LGPL-2.1 and /usr/share/common-licenses/GPL-2.\n"}
        for name, text in files.items():
            (self.dir / name).mkdir()
            (self.dir / name / "copyright").write_text(text)
        said = {}
        for doc in (self.dir, self.dir / "nowhere"):
            done = run(crib.SOURCE / "contrib/sbom", "1", crib.BUILD / "toolcrib-sign", env={**os.environ, "TOOLCRIB_DOC": str(doc)})
            self.assertEqual(done.returncode, 0, done.stderr)
            said[doc] = {part["name"]: [one["license"].get("id") or one["license"]["name"] for one in part["licenses"]]
                         for part in json.loads(done.stdout)["components"]}
        self.assertEqual(said[self.dir]["libsodium23"], ["GPL-2.0-or-later", "ISC", "MIT", "Kazlib"])
        self.assertEqual(said[self.dir]["libc6"], ["see the copyright file of libc6, which leads to GPL-2, LGPL-2.1"])
        self.assertEqual(said[self.dir / "nowhere"]["libsodium23"], ["see the copyright file of libsodium23"])

    @unittest.skipUnless(shutil.which("ssh-keygen"), "needs ssh-keygen (apt-get install openssh-client)")
    def test_a_release_is_checked_as_the_page_says(self):
        """OP-723: the lines of contrib/doc/building.md accept what was signed, and nothing that was changed since."""
        page = (crib.SOURCE / "contrib/doc/building.md").read_text()
        lines = re.search(r"```\n(signify-openbsd -V .*?)```", page, re.S).group(1).splitlines()
        env, files = dict(os.environ), self.dir / "files"
        files.mkdir()
        (files / "a b.deb").write_text("one")
        (files / "toolcrib.tar.xz").write_text("two")
        self.assertEqual(run(crib.SOURCE / "contrib/sign-release", files, env=env).returncode, 1, "no key is named")
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", self.dir / "key")
        env["TOOLCRIB_SSH_KEY"] = str(self.dir / "key")
        (files / "allowed_signers").write_text('toolcrib namespaces="toolcrib-release" ' + (self.dir / "key.pub").read_text())
        if shutil.which("signify-openbsd"):
            run("signify-openbsd", "-G", "-n", "-p", files / "toolcrib.pub", "-s", self.dir / "toolcrib.sec")
            env["TOOLCRIB_SIGNIFY_KEY"] = str(self.dir / "toolcrib.sec")
        else:
            lines = [line for line in lines if not line.startswith("signify")]
        done = run(crib.SOURCE / "contrib/sign-release", files, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([run("sh", "-c", line, cwd=files).returncode for line in lines], [0] * len(lines))
        (files / "a b.deb").write_text("six")
        self.assertEqual([run("sh", "-c", line, cwd=files).returncode for line in lines], [0] * (len(lines) - 1) + [1])
        (files / "SHA256SUMS").write_text((files / "SHA256SUMS").read_text().replace("a", "b", 1))
        self.assertNotIn(0, [run("sh", "-c", line, cwd=files).returncode for line in lines])

    def ids(self, subuid, subgid=""):
        """What the script of the package would give to the server's user."""
        text = (DEBIAN / "toolcrib.postinst").read_text()
        function = re.search(r"^range\(\) \{.*?^\}$", text, re.M | re.S).group(0)
        (self.dir / "subuid").write_text(subuid)
        (self.dir / "subgid").write_text(subgid)
        return run("sh", "-ec", f"{function}\nrange subuid subgid", cwd=self.dir).stdout.strip()

    def test_ids_of_tools_are_nobody_elses(self):
        def at(first):
            return f"{first}-{first + IDS - 1}"
        self.assertEqual(self.ids(""), at(FIRST_ID))
        self.assertEqual(self.ids("ann:100000:65536\n"), at(165536))
        self.assertEqual(self.ids("ann:100000:65536\n", "bob:165536:10\n"), at(165546), "a range of groups counts as well")
        self.assertEqual(self.ids("bob:165536:65536\nann:100000:65536\n"), at(231072), "in whatever order")
        self.assertEqual(self.ids("ann:1000:1\n# word\n\nx:y:z\n"), at(FIRST_ID), "below, and lines that are none")


if __name__ == "__main__":
    crib.main()
