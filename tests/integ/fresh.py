#!/usr/bin/env python3
"""README's first ten minutes in a fresh Debian 12, as printed: make check-fresh.

    fresh.py [DIR]      DIR = where the bare system is, or is made and stays (default: made, and removed afterwards)

debootstrap or mmdebstrap makes the bare system from the sources of this machine's own apt, with sudo and a user who may use
it.  Each run has a layer of its own above it, a copy of this checkout, and name spaces for mounts and processes; the network
is this machine's, for packages, so nothing may listen on 127.0.0.1:8808 and :8000.  The blocks of README are typed by one
bash, in their order; what is not typed is said, with the reason.  Ends with "N passed, N failed"; 77: it cannot be done here."""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import crib
import test_readme

SUITE = "bookworm"
PACKAGES = "ca-certificates,nodejs,procps,sudo"     # nodejs: README leaves it to whoever hosts a Node function
USER = "dev"
TYPED = {**test_readme.SAYS, "Install": r"install -c .* '/usr/local/bin'"}
ENDLESS = "toolcrib audit tail -f"
INSTEAD = {ENDLESS: f"(timeout -s INT 5 {ENDLESS} || test $? = 124)"}
# In the new name spaces: the layer becomes the root, and the old one is let go.
ENTER = r"""set -eu
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$BASE,upperdir=$LAYER/upper,workdir=$LAYER/work" "$LAYER/root"
cd "$LAYER/root"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs -o mode=1777 tmpfs tmp
pivot_root . mnt
umount -l /mnt
exec "$@"
"""


def skip(why):
    print(f"check-fresh: skipped, {why}")
    sys.exit(77)


def mirror():
    """Where this machine's apt has the suite from."""
    rows = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE) $(CODENAME) $(COMPONENT)", "Created-By: Packages"],
                          capture_output=True, text=True).stdout
    for site, *of in (row.split() for row in rows.splitlines()):
        if of == [SUITE, "main"]:
            return site
    skip(f"apt of this machine has no {SUITE}")


def bare(base):
    """The bare system, made where it is not yet."""
    if (base / "etc/debian_version").exists():
        return
    base.mkdir(parents=True, exist_ok=True)
    maker = shutil.which("debootstrap") or shutil.which("mmdebstrap")
    subprocess.run([maker, "--variant=minbase", f"--include={PACKAGES}", SUITE, base, mirror()], check=True, stdout=subprocess.DEVNULL)


def furnish(root):
    """What a machine has when somebody sits down at it: a user who may use sudo, a network, and this checkout."""
    for name in ("etc/apt/apt.conf.d", "etc/sudoers.d", f"home/{USER}/toolcrib"):
        (root / name).mkdir(parents=True)
    for name in ("resolv.conf", "hosts"):
        shutil.copy(f"/etc/{name}", root / "etc" / name)
    settings = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    (root / "etc/apt/apt.conf.d/00machine").write_text("".join(line + "\n" for line in settings.splitlines() if line.startswith("Acquire::")))
    home = root / "home" / USER
    (root / "etc/sudoers.d" / USER).write_text(f"{USER} ALL=(ALL) NOPASSWD: ALL\n")
    files = subprocess.run(["git", "-C", crib.SOURCE, "ls-files", "-z"], capture_output=True, check=True).stdout
    packed = subprocess.run(["tar", "-C", crib.SOURCE, "--null", "-T", "-", "-c"], input=files, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-C", home / "toolcrib", "-x"], input=packed, check=True)


def script():
    """The blocks, each behind its number and the time; and their headings."""
    headings, lines = [], ["cd ~/toolcrib", "set -e"]
    for heading, text in test_readme.blocks("README"):
        if heading in TYPED:
            for printed, instead in INSTEAD.items():
                text = text.replace(printed, instead)
            lines += [f"echo; echo @@@ {len(headings)} $(date +%s)", text]
            headings.append(heading)
    return headings, "\n".join([*lines, f"echo; echo @@@ {len(headings)} $(date +%s)", ""])


def enter(base, layer, said):
    """Type it all; what was said goes to a file as well."""
    headings, text = script()
    root = layer / "upper"
    furnish(root)
    (root / "home" / USER / "typed").write_text(text)
    first = f"useradd -s /bin/bash {USER}; chown -R {USER}: /home/{USER}; su - {USER} -c 'bash typed' </dev/null"
    with open(said, "wb") as out:
        subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", "/bin/sh", "-c", first],
                       stdout=out, stderr=subprocess.STDOUT, env={"BASE": str(base), "LAYER": str(layer), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    return headings, said.read_text(errors="replace")


def judge(headings, text):
    """Each block: was it typed to its end, did it say what it must, how long did it take?"""
    parts = re.split(r"(?m)^@@@ (\d+) (\d+)\n", text)
    began = [int(when) for when in parts[2::3]]
    passed = failed = 0
    for heading in dict.fromkeys(headings):
        mine = [i for i, h in enumerate(headings) if h == heading]
        seconds = sum(began[i + 1] - began[i] for i in mine if i + 1 < len(began))
        said = "".join(parts[3 + 3 * i] for i in mine if i < len(began))
        good = mine[-1] + 1 < len(began) and re.search(TYPED[heading], said)
        passed, failed = passed + bool(good), failed + (not good)
        print(f"{'ok' if good else 'not ok'} {heading}, {seconds} s")
    for heading, why in test_readme.NOT_TYPED.items():
        if heading not in TYPED:
            print(f"not typed: {heading}: {why}")
    if failed:
        print(text[-6000:])
    print(f"in all {began[-1] - began[0]} s" if began else text[-6000:])
    print(f"{passed} passed, {failed} failed")
    return failed == 0 and passed > 0


def main(words):
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("apt-get"):
        skip("needs root, unshare and apt")
    if not (shutil.which("debootstrap") or shutil.which("mmdebstrap")):
        skip("needs debootstrap or mmdebstrap: apt-get install debootstrap")
    for port in (8808, 8000):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                skip(f"something listens on 127.0.0.1:{port}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="toolcrib-fresh-"))
    try:
        base = pathlib.Path(words[0]).resolve() if words else folder / "base"
        began = time.monotonic()
        bare(base)
        print(f"a bare Debian {(base / 'etc/debian_version').read_text().strip()}, {time.monotonic() - began:.0f} s", flush=True)
        for name in ("upper", "work", "root"):
            (folder / name).mkdir()
        return 0 if judge(*enter(base, folder, pathlib.Path("check-fresh.log").resolve())) else 1
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
