#!/usr/bin/env python3
"""A server of PostgreSQL for a test: unprivileged, on a socket alone, in a folder of its own, gone with whoever asked for it.

    pgrig.py    writes "ready host=… user=postgres", "skip WHY", or "failed WHY", and then does what each line of its input says:
                    sql DATABASE TEXT       as the superuser: "ok", or "error MESSAGE"
                and ends, and the server with it, when its input does.

With Python: with pgrig.Server() as s: s.sql("postgres", "CREATE DATABASE x"); s.at("x").  pgrig.Missing, which skips a test, says that
none is installed; what is installed and does not come up is an error.
"""
import ctypes
import glob
import os
import pathlib
import pwd
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

WAIT_S = 5 * float(os.environ.get("TOOLCRIB_TEST_DEADLINE", "20"))       # for anything: a machine may have much else to do
SETTINGS = {
    "listen_addresses": "", "unix_socket_permissions": "0700", "shared_buffers": "16MB", "max_connections": "40",
    "autovacuum": "off", "wal_level": "minimal", "max_wal_senders": "0", "dynamic_shared_memory_type": "mmap", "log_min_messages": "warning",
    "jit": "off", "max_wal_size": "32MB", "min_wal_size": "32MB",
}


class Missing(unittest.SkipTest):
    pass


class Failed(Exception):
    pass


def programs():
    """The folder of the newest server that is installed, 15 at least."""
    found = {int(m.group(1)): p for p in glob.glob("/usr/lib/postgresql/*/bin") if (m := re.search(r"/(\d+)/bin$", p))}
    for version in sorted(found, reverse=True):
        if version >= 15 and all(os.access(f"{found[version]}/{name}", os.X_OK) for name in ("initdb", "postgres", "psql")):
            return found[version]
    raise Missing("no PostgreSQL 15 or later is installed: apt-get install postgresql")


def open_to_all(path):
    return all(p.stat().st_mode & 1 for p in [path, *path.parents])


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)


def below(parent):
    """What says of each of its children when it has ended (pidfd_open(2))."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if stat.read_text().rpartition(")")[2].split()[1] == str(parent):
                yield os.pidfd_open(int(stat.parent.name))
        except OSError:
            pass                                # it has already


class Server:
    def __init__(self, **settings):
        self.bin, self.server, self.left = programs(), None, []
        # a server refuses root
        self.user = "nobody" if os.geteuid() == 0 else None
        base = pathlib.Path(os.environ.get("TMPDIR") or "/tmp")
        if len(str(base)) > 60 or (self.user and not open_to_all(base)):
            base = pathlib.Path("/tmp")
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="pgrig-", dir=base))
        try:
            if self.user:
                os.chown(self.dir, pwd.getpwnam(self.user).pw_uid, -1)
            self.start({**SETTINGS, **settings})
        except BaseException:
            self.stop()
            raise

    def run(self, *words, **more):
        return subprocess.Popen(words, cwd=self.dir, env={"PATH": f"{self.bin}:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"},
                                stdin=subprocess.DEVNULL, user=self.user, preexec_fn=die_with_parent, **more)

    def start(self, settings):
        with open(self.dir / "initdb.log", "wb") as log:
            rc = self.run(f"{self.bin}/initdb", "-D", f"{self.dir}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N",
                          "--no-instructions", stdout=log, stderr=log).wait(WAIT_S)
        if rc:
            raise Failed("initdb failed: " + (self.dir / "initdb.log").read_text()[-400:])
        self.words = [w for key, value in settings.items() for w in ("-c", f"{key}={value}")]
        self.again()

    def again(self):
        while self.left:                        # their memory is the store's, and no server starts beside it
            old = self.left.pop()
            gone = select.select([old], [], [], WAIT_S)[0]
            os.close(old)
            if not gone:
                raise Failed(f"a process of the last postgres is still there after {WAIT_S} s")
        with open(self.dir / "log", "ab") as log:
            self.server = self.run(f"{self.bin}/postgres", "-D", f"{self.dir}/data", "-k", str(self.dir), *self.words, stdout=log, stderr=log)
        self.wait_ready()

    def crash(self):
        """As kill -9 of the postmaster does it: its processes find that out by themselves, and no file is put in order."""
        self.left += below(self.server.pid)
        self.server.kill()
        self.server.wait(WAIT_S)
        pid = self.dir / "data/postmaster.pid"
        pid.unlink(missing_ok=True)             # or the next one would be taken for ready

    def wait_ready(self):
        """Its file says so in its last line; and its end is an end as well."""
        pid, ended, until = self.dir / "data/postmaster.pid", os.pidfd_open(self.server.pid), time.monotonic() + WAIT_S
        try:
            while not (pid.exists() and "ready" in pid.read_text().split()):
                if select.select([ended], [], [], 0.02)[0]:
                    raise Failed("postgres ended: " + (self.dir / "log").read_text()[-400:])
                if time.monotonic() > until:
                    raise Failed(f"postgres is not ready after {WAIT_S} s: " + (self.dir / "log").read_text()[-400:])
        finally:
            os.close(ended)

    def at(self, database, user="toolcrib"):
        return f"host={self.dir} dbname={database} user={user}"

    def sql(self, database, text):
        """Raises RuntimeError with what the server says."""
        p = self.run(f"{self.bin}/psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=terse", "-h", str(self.dir),
                     "-U", "postgres", "-d", database, "-c", text, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = p.communicate(timeout=WAIT_S)
        if p.returncode:
            raise RuntimeError(err.decode().strip())
        return out.decode().strip()

    def stop(self):
        if self.server:
            self.server.send_signal(signal.SIGQUIT)         # at once: nothing of it is needed any more
            try:
                self.server.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                self.server.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.stop()


def main():
    try:
        server = Server()
    except Missing as e:
        print("skip " + " ".join(str(e).split()), flush=True)
        return
    except Exception as e:
        print("failed " + " ".join(str(e).split()), flush=True)
        return
    with server:
        print(f"ready host={server.dir} user=postgres", flush=True)
        for line in sys.stdin:
            _, database, text = line.rstrip("\n").split(" ", 2)
            try:
                server.sql(database, text)
                print("ok", flush=True)
            except RuntimeError as e:
                print("error " + " ".join(str(e).split()), flush=True)


if __name__ == "__main__":
    main()
