#!/usr/bin/env python3
"""What make install brings, and where: programs, pages, the unit with the paths of the installation, completion for three
shells, the independent verifier; elsewhere when configure was told so."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import crib

PLACES = ("prefix", "bindir", "libexecdir", "toolcriblibdir", "mandir", "pkgdatadir", "sysconfdir", "bashcompletiondir", "zshcompletiondir",
          "fishcompletiondir", "systemdsystemunitdir")


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not (crib.BUILD / "Makefile").exists():
            raise unittest.SkipTest("no Makefile in the build")
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="toolcrib-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.root, True)

    def make(self, *words):
        env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "DESTDIR")}
        done = subprocess.run(["make", "-s", "-C", str(crib.BUILD), *words], env=env, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def places(self):
        """Where the build was told to put things, each as the installed system has it."""
        text = (crib.BUILD / "Makefile").read_text()
        given = dict(re.findall(r"^(\w+) = ?(.*)$", text, re.M))

        def full(value):
            while "$" in value:
                value = re.sub(r"\$[{(](\w+)[})]", lambda m: given.get(m.group(1), ""), value)
            return value
        return {name: full(given[name]) for name in PLACES}

    def test_everything_is_where_it_is_looked_for(self):
        at = self.places()
        self.make("install", f"DESTDIR={self.root}")

        def installed(place, name, mode=0o644):
            path = pathlib.Path(f"{self.root}{at[place]}/{name}")
            self.assertTrue(path.is_file(), path)
            self.assertEqual(path.stat().st_mode & 0o777, mode, path)
            return path
        for name in ("toolcrib", "toolcribd", "toolcrib-verify"):
            installed("bindir", name, 0o755)
        for name in ("toolcrib-run", "toolcrib-sign", "toolcrib-launcher", "toolcrib-worker", "toolcrib-report",
                     "toolcrib-verifier", "toolcrib-ship", "toolcrib-console"):
            installed("libexecdir", name, 0o755)
        installed("toolcriblibdir", "toolcrib_rec.so", 0o755)
        for page in ("man8/toolcrib.8", "man8/toolcribd.8", "man5/toolcribd.yaml.5", "man7/toolcrib-audit.7"):
            installed("mandir", page)
        verifier = installed("pkgdatadir", "verify.py", 0o755)
        self.assertIn("--key", subprocess.run([verifier, "--help"], capture_output=True, text=True, timeout=60).stdout)
        unit = installed("systemdsystemunitdir", "toolcribd.service").read_text()
        self.assertIn(f"\nExecStart={at['bindir']}/toolcribd -c {at['sysconfdir']}/toolcrib/toolcribd.yaml ", unit)
        self.assertNotIn("@", re.sub(r"@[a-z]+-?", "", unit))
        if (crib.BUILD / "completion").exists():
            for shell, name in (("bash", "toolcrib"), ("zsh", "_toolcrib"), ("fish", "toolcrib.fish")):
                text = installed(f"{shell}completiondir", name).read_text()
                self.assertEqual(text, subprocess.run([crib.BUILD / "toolcrib", "completion", shell], capture_output=True, text=True,
                                                      timeout=60).stdout)
                if shutil.which(shell):
                    self.assertEqual(subprocess.run([shell, "-n"], input=text, capture_output=True, text=True, timeout=60).stderr, "")

    def configured(self, *words):
        """What configure makes of options for directories, without compiling anything."""
        text = (crib.SOURCE / "configure").read_text()
        self.assertIn("--with-systemdsystemunitdir", text)
        folder = tempfile.mkdtemp(dir=self.root)
        done = subprocess.run([crib.SOURCE.resolve() / "configure", "-q", "--cache-file=" + str(self.root / "cache"), *words], cwd=folder,
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return dict(re.findall(r"^(\w+dir) = (.*)$", (pathlib.Path(folder) / "Makefile").read_text(), re.M))


class Places(Install):
    """Runs configure: in check-long."""

    test_everything_is_where_it_is_looked_for = None

    def test_directories_lie_below_the_prefix_unless_it_is_usr(self):
        at = self.configured("--prefix=/opt/crib")
        self.assertEqual(at["bashcompletiondir"], "${datadir}/bash-completion/completions")
        self.assertEqual(at["zshcompletiondir"], "${datadir}/zsh/site-functions")
        self.assertEqual(at["fishcompletiondir"], "${datadir}/fish/vendor_completions.d")
        self.assertEqual(at["systemdsystemunitdir"], "${prefix}/lib/systemd/system")
        said = subprocess.run(["pkg-config", "--variable=systemdsystemunitdir", "systemd"], capture_output=True, text=True).stdout.strip()
        at = self.configured("--prefix=/usr", "--with-zshcompletiondir=/x/zsh", "--without-fishcompletiondir")
        self.assertEqual(at["systemdsystemunitdir"], said or "${prefix}/lib/systemd/system")
        self.assertEqual((at["zshcompletiondir"], at["fishcompletiondir"]), ("/x/zsh", ""))


if __name__ == "__main__":
    crib.main()
