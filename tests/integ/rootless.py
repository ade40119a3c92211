"""Stands in for a user of this machine without privileges who has a line in /etc/subuid: root, in a mount namespace with
files of /etc that say so, becomes that user.  `needs` says what is missing for it, "" = nothing."""
import os
import pathlib
import shutil
import subprocess
import tempfile

SERVICE = 640001
NAME = "cribsrv"
FIRST, COUNT = 700000, 4000
LINE = f"{NAME}:{FIRST}:{COUNT}"
AUTO = FIRST + COUNT // 2       # the upper half, which is what a server takes by itself

ENTER = r"""set -e
d=$1 service=$2; shift 2
[ ! -e "$d/passwd" ] || mount --bind "$d/passwd" /etc/passwd
for f in subuid subgid; do mount --bind "$d/$f" /etc/$f; done
while read -r hide; do mount --bind /dev/null "$hide"; done <"$d/hide"
[ "$service" = 0 ] || set -- setpriv --reuid="$service" --regid="$service" --clear-groups "$@"
if [ -d "$d/root" ]; then mount --rbind / "$d/root"; set -- chroot "$d/root" "$@"; fi
exec "$@"
"""


def wrapper(folder, subuid=LINE, subgid=None, hide=(), elsewhere=False, known=True, service=SERVICE):
    """What starts a program as this user.  folder: of the test; hide: programs that are missing; elsewhere: in another
    root, where the kernel makes no user namespaces; known: he has a name; service: 0 = root stays root."""
    d = pathlib.Path(tempfile.mkdtemp(prefix="etc-", dir=folder))
    d.chmod(0o755)
    if known:
        (d / "passwd").write_text(pathlib.Path("/etc/passwd").read_text() + f"{NAME}:x:{SERVICE}:{SERVICE}::/:/bin/sh\n")
    (d / "subuid").write_text(subuid + "\n")
    (d / "subgid").write_text((subuid if subgid is None else subgid) + "\n")
    (d / "hide").write_text("".join(f"{path}\n" for path in hide))
    if elsewhere:
        (d / "root").mkdir()
    return ["unshare", "-m", "sh", "-c", ENTER, "sh", str(d), str(service)]


def give(crib):
    """What the server has is his."""
    for path in (crib.dir, crib.store, *crib.dir.rglob("*")):
        os.chown(path, SERVICE, SERVICE, follow_symlinks=False)


def missing():
    if os.geteuid() != 0:
        return "needs root, to stand in for another user"
    for program in ("unshare", "setpriv", "newuidmap", "newgidmap"):
        if not shutil.which(program, path="/usr/bin:/usr/local/bin:/bin"):
            return f"needs {program} (apt-get install util-linux uidmap)"
    folder = tempfile.mkdtemp(prefix="toolcrib-rootless-")
    try:
        os.chmod(folder, 0o755)
        tried = subprocess.run([*wrapper(folder), "unshare", "-U", "sh", "-c", "echo $$; read x"], stdin=subprocess.DEVNULL,
                               capture_output=True, text=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return "" if tried.stdout.strip() else "needs leave to mount and to make user namespaces: " + tried.stderr.strip()


needs = missing()
