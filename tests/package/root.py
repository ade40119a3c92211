"""A bare Debian root with systemd as its first process, in namespaces of its own, for tests of packages: units are started by what
starts them in earnest, with all that they say.  Its network is its own as well, but for what fetches packages."""
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from examples import wait_for

FETCH = "-m -p -u -i -C".split()
# As a container's runtime does it.  Nothing of the machine is left to be seen when systemd begins, which cleans its /tmp and sets
# what /proc/sys has; and nothing asks for packages but the test.
BOOT = """set -e
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for name in run dev; do mount -t tmpfs -o mode=755 tmpfs $name; done
mkdir dev/shm dev/pts
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for name in null zero full random urandom tty; do : >dev/$name; mount --bind /dev/$name dev/$name; done
pivot_root . mnt
umount -l /mnt
exec chroot . env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd systemd.unit=multi-user.target \
  systemd.mask=apt-daily.timer systemd.mask=apt-daily-upgrade.timer
"""


def run(*words, check=True, **more):
    more.setdefault("timeout", 1800)
    more.setdefault("stdin", None if "input" in more else subprocess.DEVNULL)
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **more)
    if check and done.returncode:
        raise AssertionError(f"{words}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done


class Root:
    def __init__(self, path):
        self.path = path
        apt = pathlib.Path("/etc/apt")
        sources = [file for file in [apt / "sources.list", *sorted(apt.glob("sources.list.d/*.list")), *sorted(apt.glob("sources.list.d/*.sources"))]
                   if file.is_file() and "bookworm" in file.read_text()]
        done = run("mmdebstrap", "--quiet", "--variant=minbase", "--skip=cleanup/apt", "--include=systemd", "bookworm", path, *sources, check=False)
        if done.returncode:
            raise unittest.SkipTest("no Debian root: " + done.stderr[-500:])
        shutil.copy("/etc/resolv.conf", path / "etc")
        self.log = path.parent / "boot.log"
        with open(self.log, "wb") as log:
            self.first = subprocess.Popen(["unshare", "-mpfuinC", "--propagation=private", "--kill-child", "sh", "-c", BOOT, "sh", path],
                                          stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            wait_for("systemd", self.boots)
        except AssertionError:
            self.end()
            raise

    def boots(self):
        """Is it there?  A root that cannot be booted here is no failure of the packages."""
        if self.first.poll() is not None:
            raise unittest.SkipTest(f"systemd cannot be the first process here: {self.log.read_text(errors='replace')[-500:]}")
        children = run("pgrep", "-P", self.first.pid, check=False).stdout.split()
        self.init = children[0] if children else None
        return self.init and self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded")

    def end(self):
        """unshare waits for its child, whatever it is told."""
        if self.init and self.first.poll() is None:
            os.kill(int(self.init), signal.SIGKILL)
        self.first.kill()
        self.first.wait()

    def run(self, *words, **more):
        proxies = [f"{name}={value}" for name, value in os.environ.items() if name.endswith("_proxy")]
        return run("nsenter", *FETCH, "-t", self.init, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive",
                   *proxies, *words, **more)

    def install(self, *debs, words=()):
        for deb in debs:
            if isinstance(deb, pathlib.Path):
                shutil.copy(deb, self.path / "srv")
        return self.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *words,
                        *[f"/srv/{deb.name}" if isinstance(deb, pathlib.Path) else deb for deb in debs])

    def put(self, name, text, mode="644"):
        """A file, written from inside, where its folders are what they seem."""
        self.run("install", "-D", "-m", mode, "/dev/stdin", name, input=text)

    def said(self, unit):
        return self.run("journalctl", "-u", unit, "-o", "cat", "--no-pager").stdout

    def said_of(self, unit, *names):
        """Properties of a unit, as systemd has them."""
        return dict(line.split("=", 1) for line in self.run("systemctl", "show", unit, "-p", ",".join(names)).stdout.splitlines())
