"""The night on which a file is gone: each file of a store and each that the configuration names is lost, cut, emptied, another's, of
an older backup, open to others; disks fill, clocks jump, ports are taken.  None is served as if nothing were.  Each row of
contrib/doc/bad-night.md is a test here, and its commands are typed; `test_bad_night.py --write` makes the page."""
import collections
import contextlib
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import unittest

import certs
import crib
from test_backup import runbook

PAGE = crib.SOURCE / "contrib/doc/bad-night.md"
# starts: "no"; "yes": nothing is lost; "told": yes, and what is said is said by status or the log.  needs: "root" or a test's own
# way to start it.  says is a part of what is said; back are commands for a shell, or what the page says instead.
Row = collections.namedtuple("Row", "file what damage starts says lost back needs", defaults=("",))

SAME = "RUNBOOK same host"
NOTHING = "nothing"
SINCE = "what came after the backup"
rows = []


def row(file, what, damage, starts, says, lost, back, needs=""):
    rows.append(Row(file, what, damage, starts, says, lost, back, needs))


# --- the store: damage and back are typed in a shell.  S the store, B the backup, K the key files, O another store, H the store
# of before, with the log of a server that was killed

row("toolcrib.db", "lost", 'rm "$S/toolcrib.db"', "no", "its master.key is there: put the newest backup back", SINCE, SAME)
row("toolcrib.db", "emptied", ': > "$S/toolcrib.db"', "no", "the store is empty", SINCE, SAME)
row("toolcrib.db", "cut in half", 'truncate -s 200000 "$S/toolcrib.db"', "no", "database disk image is malformed", SINCE, SAME)
row("toolcrib.db", "garbage", 'head -c 300000 /dev/zero > "$S/toolcrib.db"', "no", "file is not a database", SINCE, SAME)
row("toolcrib.db", "another store's", 'cp "$O/toolcrib.db" "$S"', "no", "put back whichever of it and toolcrib.db is another store", SINCE, SAME)
row("toolcrib.db", "of an older backup", 'cp "$B/toolcrib.db" "$S"', "no", "SIGNER_AHEAD", SINCE, SAME)
row("toolcrib.db", "mode 0644", 'chmod 644 "$S/toolcrib.db"', "told", "others may use toolcrib.db: its mode is 644", NOTHING,
    'chmod 600 "$S/toolcrib.db"')
row("toolcrib.db", "of another user", 'chown 65534 "$S/toolcrib.db"', "no", "the store belongs to nobody", NOTHING, 'chown --reference="$S" "$S/toolcrib.db"', "root")
row("toolcrib.db-wal", "lost after a crash", 'rm -f "$S"/toolcrib.db-*', "no", "SIGNER_AHEAD", SINCE, SAME, "crashed")
row("toolcrib.db-wal", "emptied after a crash", ': > "$S/toolcrib.db-wal"', "no", "SIGNER_AHEAD", SINCE, SAME, "crashed")
row("toolcrib.db-wal", "cut in half after a crash", 'truncate -s 12000 "$S/toolcrib.db-wal"', "no", "SIGNER_AHEAD", SINCE, SAME, "crashed")
row("toolcrib.db-wal", "another store's", 'cp "$O/toolcrib.db-wal" "$S"', "no", "put back whichever of it and toolcrib.db is another store", SINCE, SAME, "crashed")
row("toolcrib.db-shm", "lost after a crash", 'rm -f "$S/toolcrib.db-shm"', "yes", "", NOTHING, "", "crashed")
row("keys.db", "lost", 'rm "$S/keys.db"', "no", "keys.db is missing or empty", NOTHING, 'cp "$H/keys.db" "$S"')
row("keys.db", "lost, and no copy", 'rm "$S/keys.db"', "no", "keys.db is missing or empty", "what was kept of calls", "toolcrib audit adopt keys.db")
row("keys.db", "emptied", ': > "$S/keys.db"', "no", "keys.db is missing or empty", "what was kept of calls", "toolcrib audit adopt keys.db")
row("keys.db", "cut in half", 'truncate -s 12000 "$S/keys.db"', "no", "put the newest keys.db back; when there is none, move this one away", "what was kept of calls",
    'mv "$S/keys.db" "$S.keys.db.bad"; toolcrib audit adopt keys.db')
row("keys.db", "another store's", 'cp "$O/keys.db" "$S"', "no", "keys.db is another store's", NOTHING, 'cp "$H/keys.db" "$S"')
row("keys.db", "of an older backup", 'cp "$B/keys.db" "$S"', "no", "lacks keys that this store has given",
    "what was kept of calls under newer keys", "toolcrib audit adopt keys.db")
row("keys.db", "mode 0644", 'chmod 644 "$S/keys.db"', "told", "others may use keys.db: its mode is 644", NOTHING, 'chmod 600 "$S/keys.db"')
row("master.key", "lost", 'rm -f "$S/master.key"', "no", "toolcrib-verify", NOTHING, 'cp -p "$K/master.key" "$S"')
row("master.key", "emptied", 'rm -f "$S/master.key"; install -m 400 /dev/null "$S/master.key"', "no", "must have exactly 32 bytes", NOTHING,
    'rm -f "$S/master.key"; cp -p "$K/master.key" "$S"')
row("master.key", "cut in half", 'chmod 600 "$S/master.key"; truncate -s 16 "$S/master.key"; chmod 400 "$S/master.key"', "no",
    "must have exactly 32 bytes", NOTHING, 'rm -f "$S/master.key"; cp -p "$K/master.key" "$S"')
row("master.key", "another store's", 'rm -f "$S/master.key"; cp -p "$O/master.key" "$S"', "no", "is not the master key of this store",
    NOTHING, 'rm -f "$S/master.key"; cp -p "$K/master.key" "$S"')
row("master.key", "mode 0644", 'chmod 644 "$S/master.key"', "no", "others may use it: its mode is 644", NOTHING, 'chmod 400 "$S/master.key"')
row("secret-*.key", "lost", 'rm -f "$S"/secret-*.key', "told", "secrets do not open: cannot open STORE/secret-", NOTHING, 'cp -p "$K"/secret-*.key "$S"')
row("secret-*.key", "emptied", 'for f in "$S"/secret-*.key; do rm -f "$f"; install -m 400 /dev/null "$f"; done', "told", "secrets do not open: STORE/secret-", NOTHING,
    'rm -f "$S"/secret-*.key; cp -p "$K"/secret-*.key "$S"')
row("secret-*.key", "another's under its name", 'for f in "$S"/secret-*.key; do rm -f "$f"; cp -p "$O/master.key" "$f"; done', "told", "holds another key than its name says", NOTHING,
    'rm -f "$S"/secret-*.key; cp -p "$K"/secret-*.key "$S"')
row("secret-*.key", "mode 0644", 'chmod 644 "$S"/secret-*.key', "told", "holds a secret and others may use it: its mode is 644", NOTHING, 'chmod 400 "$S"/secret-*.key')
row("signer/", "lost", 'rm -rf "$S/signer"', "no", "has no keys, and the store was signed before", SINCE, SAME)
row("signer/", "another store's", 'rm -rf "$S/signer"; cp -a "$O/signer" "$S"', "no", "signs for another store", SINCE, SAME)
row("signer/", "of an older backup", 'rm -rf "$S/signer"; tar -x -f "$B/signer.tar" -C "$S"', "no", "the signer was put back to an earlier state", SINCE, SAME)
row("signer/state", "lost", 'rm "$S/signer/state"', "no", "has no keys, and the store was signed before", SINCE, SAME)
row("signer/state", "emptied", ': > "$S/signer/state"', "no", "line 1 is not what a signer writes", SINCE, SAME)
row("signer/state", "cut in half", 'truncate -s 300 "$S/signer/state"', "no", "is not what a signer writes", SINCE, SAME)
row("signer/log.key", "lost", 'rm -f "$S/signer/log.key"', "no", "cannot open STORE/signer/log.key", NOTHING, 'tar -x -f "$B/signer.tar" -C "$S" signer/log.key')
row("signer/log.key", "emptied", 'rm -f "$S/signer/log.key"; install -m 400 /dev/null "$S/signer/log.key"', "no", "STORE/signer/log.key: a key has 32 bytes", NOTHING,
    'rm -f "$S/signer/log.key"; tar -x -f "$B/signer.tar" -C "$S" signer/log.key')
row("signer/log.key", "mode 0644", 'chmod 644 "$S/signer/log.key"', "no", "others may use it: its mode is 644", NOTHING, 'chmod 400 "$S/signer/log.key"')
row("signer/epoch-N.key", "lost", 'rm -f "$S"/signer/epoch-*.key', "no", "cannot open STORE/signer/epoch-", SINCE, SAME)
row("signer/lock, toolcrib.lock", "lost", 'rm -f "$S/signer/lock" "$S/toolcrib.lock"', "yes", "", NOTHING, "")
row("toolcrib.lock", "garbage", 'head -c 4000 /dev/zero > "$S/toolcrib.lock"', "yes", "", NOTHING, "")
row("the folder", "mode 0755", 'chmod 755 "$S"', "told", "others may use the folder: its mode is 755", NOTHING, 'chmod 700 "$S"')
row("the folder", "lost", 'rm -rf "$S"', "no", "no store in STORE", SINCE, "RUNBOOK new host")
row("the folder", "of another user", 'chown 65534 "$S"', "told", "the folder belongs to uid 65534", NOTHING, 'chown --reference="$S/signer" "$S"', "root")

# --- what the configuration names: CONF the file, C the folder of certificates; a real server starts, or does not

FULL = """listeners:
- {transport: http, address: "127.0.0.1:0"}
- {transport: http, address: "127.0.0.1:0", tls: {cert: C/server.crt, key: C/server.key, client_ca: C/ca.crt, client_crl: C/ca.crl}}
anchor: {file: C/anchors/notes, cmd: C/anchor.sh}
oauth:
  resource: https://tools.example.com
  issuers:
  - {issuer: "https://login.example.com", jwks_file: C/jwks.json, tenant: acme, scopes: {use: ["tools:list"]}}
files: C/files
"""
JWKS = """{"keys": [{"kty": "EC", "crv": "P-256", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
"y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM", "use": "sig", "kid": "1", "alg": "ES256"}]}"""
server_rows = []


def conf_row(file, what, damage, starts, says, lost, back, needs=""):
    server_rows.append(Row(file, what, damage, starts, says, lost, back, needs))


for what, damage, says in (("lost", 'rm "$CONF"', "cannot open CONF"), ("emptied", ': > "$CONF"', "the file is empty"),
                           ("cut in half", 'truncate -s 120 "$CONF"', "CONF:")):
    conf_row("toolcribd.yaml", what, damage, "no", says, NOTHING, 'cp "$G/toolcribd.yaml" "$CONF"')
for name, what, none in (("server.crt", "cert", "no certificate in PEM form"), ("server.key", "key", "no private key in PEM form"),
                         ("ca.crt", "client_ca", "no certificate in PEM form"), ("ca.crl", "client_crl", "no list of revoked certificates"),
                         ("jwks.json", "jwks_file", "the key set is no JSON")):
    conf_row(f"{what}: {name}", "lost", f'rm -f "$C/{name}"', "no", f"cannot open C/{name}", NOTHING, f'cp -p "$G/{name}" "$C"')
    conf_row(f"{what}: {name}", "emptied", f': > "$C/{name}"', "no", none, NOTHING, f'cp -p "$G/{name}" "$C"')
conf_row("cert: server.crt", "another's", 'cp "$G/ca.crt" "$C/server.crt"', "no", "this key does not belong to the first certificate", NOTHING,
         'cp -p "$G/server.crt" "$C"')
conf_row("cert: server.crt", "cut in half", 'truncate -s 300 "$C/server.crt"', "no", "certificate 1 cannot be read", NOTHING, 'cp -p "$G/server.crt" "$C"')
conf_row("cert: server.crt", "expired", 'cp "$G/old.crt" "$C/server.crt"; cp "$G/old.key" "$C/server.key"', "told", "expired on", NOTHING,
         'cp -p "$G"/server.* "$C"')
conf_row("key: server.key", "mode 0644", 'chmod 644 "$C/server.key"', "no", "others may use it: its mode is 644", NOTHING, 'chmod 600 "$C/server.key"')
conf_row("anchor.file", "its folder is lost", 'rm -rf "$C/anchors"', "told", "a checkpoint was not written to anchor.file", NOTHING, 'mkdir "$C/anchors"')
conf_row("anchor.cmd", "lost", 'rm "$C/anchor.sh"', "told", "anchor.cmd failed", NOTHING, 'cp -p "$G/anchor.sh" "$C"')
conf_row("files", "its folder is lost", 'rm -r "$C/files"', "no", "C/files", NOTHING, 'mkdir "$C/files"')
conf_row("the port", "taken by another program", "", "no", "Address already in use", NOTHING, "end that program, or name another port", "port")
conf_row("descriptors", "a limit of 16", "", "no", "Too many open files", NOTHING, "ulimit -n, LimitNOFILE", "descriptors")
conf_row("the clock", "two hours behind", "", "told", "the clock is behind the last record", NOTHING, "set it; audit clock lists the step", "-7200")
conf_row("the clock", "a year ahead", "", "told", "the last record is old: is the clock right?", NOTHING,
         "set it; audit clock lists the step back", "31536000")
conf_row("the disk of the store", "full at the start", "", "no", "No space left on device", NOTHING, "make room", "full")
conf_row("the disk of the store", "cannot be written", "", "no", "Read-only file system", NOTHING, "mount -o remount,rw", "read-only")
conf_row("the disk of signer.dir", "full", "", "no", "the signer cannot write its state", NOTHING,
         "make room; the next start refuses the records of the one that failed: toolcrib audit adopt, with the names that it says", "full signer")
conf_row("the disk of anchor.file", "full", "", "told", "a checkpoint was not written to anchor.file", NOTHING, "make room", "full anchors")
conf_row("toolcrib-sign", "lost", "", "no", "a program of this package cannot be started", NOTHING, "install the package again", "TOOLCRIB_SIGN")
conf_row("toolcrib-launcher", "lost", "", "no", "the launcher cannot be started", NOTHING, "install the package again", "TOOLCRIB_LAUNCHER")
conf_row("TMPDIR", "lost", "", "told", "no own directories for tools", NOTHING, "make it", "TMPDIR")
conf_row("DNS", "nobody answers", "", "told", "the host's name cannot be resolved", "the call, which says so", "mend the resolver", "dns")


class Night(unittest.TestCase):
    """One store is made; each row gets a copy of it."""

    @classmethod
    def setUpClass(cls):
        cls.c = c = crib.Crib()
        cls.addClassCleanup(c.close)
        cls.top = c.dir
        c.cli("init")
        c.tool(crib.ECHO)
        c.cli("tenant", "add", "acme")
        c.cli("grant", "add", "acme", "echo")
        c.cli("secret", "set", "s", stdin="value")
        c.cli("secret", "rekey")
        c.cli("call", "acme", "echo", "text=before")
        cls.place = {"B": cls.top / "backup", "K": cls.top / "keys", "O": cls.top / "other", "H": cls.top / "good", "S": cls.top / "s"}
        for name in "BK":
            cls.place[name].mkdir()
        c.cli("backup", cls.place["B"] / "toolcrib.db", "--keys", cls.place["B"] / "keys.db", "--signer", cls.place["B"] / "signer.tar")
        for path in c.store.glob("*.key"):
            shutil.copy2(path, cls.place["K"])
        c.cli("tenant", "add", "later")
        c.cli("grant", "add", "later", "echo")
        c.cli("call", "later", "echo", "text=after")
        c.tool(crib.tool_yaml("far", '{type: http, method: GET, url: "https://far.example.com/"}'))
        c.cli("grant", "add", "acme", "far")
        other = crib.Crib(cls.top / "others")
        other.cli("init")
        other.tool(crib.ECHO)
        for name in ("a", "b"):
            other.cli("tenant", "add", name)
            other.cli("grant", "add", name, "echo")
            other.cli("call", name, "echo", "text=x")
        cls.kill(other, cls.place["O"])
        shutil.copytree(c.path, cls.place["H"])
        cls.kill(c, cls.top / "crashed")

    @staticmethod
    def kill(c, to):
        """A copy of the store with what a server leaves that is killed."""
        c.start()
        c.cli("tenant", "list")
        c.daemon.kill()
        c.daemon.wait()
        c.daemon = None
        shutil.copytree(c.path, to, ignore=shutil.ignore_patterns("*.sock"))

    def shell(self, text):
        env = {**self.c.env, **{name: str(path) for name, path in self.place.items()}, "STORE": str(self.place["S"]),
               "TOOLCRIB_STORE": str(self.place["S"]), "PATH": f"{self.tools()}:{crib.BUILD.resolve()}:{os.environ['PATH']}"}
        done = subprocess.run(["sh", "-eu", "-c", text], env=env, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, text + "\n" + done.stdout + done.stderr)

    def tools(self):
        """What the runbook asks of others than us: the service manager, and a user of the service."""
        folder = self.top / "tools"
        if not folder.exists():
            folder.mkdir()
            for name, text in (("systemctl", "exit 0"), ("chown", 'case "$*" in *toolcrib:*) ;; *) exec /bin/chown "$@";; esac')):
                (folder / name).write_text(f"#!/bin/sh\n{text}\n")
                (folder / name).chmod(0o755)
        return folder

    def typed(self, back):
        if back.startswith("RUNBOOK"):
            text = runbook("Putting it back on " + ("a new host" if "new" in back else "the same host"))
            for name, path in (("/var/lib/toolcrib", "S"), ("/backup/store", "B"), ("/backup/keys", "K")):
                text = text.replace(f"={name}", f"={self.place[path]}")
            return text
        return back

    def look(self):
        """A start by a command: exit status, and all that was said."""
        env = {**self.c.env, "TOOLCRIB_STORE": str(self.place["S"])}
        done = subprocess.run([str(crib.BUILD / "toolcrib"), "status"], env=env, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, (done.stdout + done.stderr).replace(str(self.place["S"]), "STORE")

    def fresh(self, needs):
        for path in (self.place["S"], pathlib.Path(f"{self.place['S']}.lost")):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.top / "crashed" if needs == "crashed" else self.place["H"], self.place["S"])

    def test_files_of_the_store(self):
        for r in rows:
            if r.needs == "root" and os.geteuid() != 0:
                continue
            with self.subTest(file=r.file, what=r.what):
                self.fresh(r.needs)
                self.shell(r.damage)
                code, said = self.look()
                if os.environ.get("EXPLORE"):
                    print("###", r.file, "|", r.what, "|", code, "|", said if code else re.findall("(?m)^(?:Files|State|Audit).*|.*(?:warn|error).*", said))
                self.assertEqual(code, 3 if r.starts == "no" else 0, said)
                self.assertIn(r.says, said)
                if r.back:
                    self.shell(self.typed(r.back))
                    code, said = self.look()
                    self.assertEqual(code, 0, said)
                    if not r.lost.startswith("what was kept"):
                        self.assertRegex(said, r"(?m)^Files +ok$")


class Server(Night):
    """What the configuration names, and the machine."""

    test_files_of_the_store = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place.update({"C": cls.top / "conf", "G": cls.top / "given", "CONF": cls.top / "toolcribd.yaml"})
        given = cls.place["G"]
        (given / "anchors").mkdir(parents=True)
        (given / "files").mkdir()
        ca = certs.Ca(given)
        ca.sign("server", "DNS:localhost")
        ca.sign("old", "DNS:localhost", days=-1)
        ca.revoke()
        (given / "jwks.json").write_text(JWKS)
        (given / "anchor.sh").write_text("#!/bin/sh\ncat >/dev/null\n")
        (given / "anchor.sh").chmod(0o755)
        text = cls.c.cage_alone(FULL)
        (given / "toolcribd.yaml").write_text(re.sub(r"\bC/", f"{cls.place['C']}/", text))

    def begin(self):
        self.fresh("")
        shutil.rmtree(self.place["C"], ignore_errors=True)
        shutil.copytree(self.place["G"], self.place["C"])
        shutil.copy(self.place["G"] / "toolcribd.yaml", self.place["CONF"])

    def serve(self, env=None, limit=None):
        """Start a server, and stop it when it is ready: whether it was, and what was said."""
        more = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit)} if limit else {}
        with subprocess.Popen([str(crib.BUILD / "toolcribd"), "--store", str(self.place["S"]), "-c", str(self.place["CONF"])],
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                              env={**self.c.env, **(env or {})}, **more) as daemon:
            said, ready = [], False
            for line in daemon.stderr:
                said.append(line)
                if '"event":"ready ' in line:
                    ready = True
                    break
            if ready:
                status = self.look()[1]
                daemon.send_signal(signal.SIGTERM)
                said += [*daemon.stderr, status]
            daemon.wait(crib.DEADLINE)
        text = "".join(said)
        for name in ("S", "C", "CONF"):
            text = text.replace(str(self.place[name]), {"S": "STORE"}.get(name, name))
        return ready, text

    def test_what_the_configuration_names(self):
        for r in server_rows:
            if r.needs == "root" and os.geteuid() != 0 or r.needs not in ("", "root"):
                continue
            with self.subTest(file=r.file, what=r.what):
                self.begin()
                self.shell(r.damage)
                self.check(r, *self.serve())
                self.shell(r.back)
                ready, said = self.serve()
                self.assertTrue(ready, said)

    def check(self, r, ready, said):
        if os.environ.get("EXPLORE"):
            print("###", r.file, "|", r.what, "|", ready, "|", [line[38:330] for line in said.splitlines() if not ready or re.search('"(warn|err|error|crit)"', line)])
        self.assertEqual(ready, r.starts != "no", said)
        self.assertIn(r.says, said)

    def machine(self, r):
        """What is wrong with the machine, while a server starts."""
        if r.needs == "port":
            with socket.create_server(("127.0.0.1", 0)) as taken:
                text = self.place["CONF"].read_text()
                self.place["CONF"].write_text(text.replace("127.0.0.1:0", f"127.0.0.1:{taken.getsockname()[1]}", 1))
                return self.serve()
        if r.needs == "descriptors":
            return self.serve(limit=(16, 16))
        if r.needs.lstrip("-").isdigit():
            shift = self.top / "shift"
            shift.write_text(r.needs)
            return self.serve({"LD_PRELOAD": str(crib.BUILD / "tests/integ/shift.so"), "TOOLCRIB_TEST_SHIFT": str(shift),
                               "ASAN_OPTIONS": "verify_asan_link_order=0"})
        if r.needs.isupper():
            return self.serve({r.needs: str(self.top / "not there")})
        return None

    def test_the_machine(self):
        for r in server_rows:
            with self.subTest(file=r.file, what=r.what):
                self.begin()
                got = self.machine(r)
                if got:
                    self.check(r, *got)
                    ready, said = self.serve()      # it was that alone
                    self.assertTrue(ready, said)

    def test_no_name_is_resolved(self):
        self.begin()
        done = subprocess.run(["unshare", "-rn", str(crib.BUILD / "toolcrib"), "--store", str(self.place["S"]), "call", "acme", "far"],
                              env=self.c.env, capture_output=True, text=True, timeout=60, check=False)
        if "unshare" in done.stderr:
            self.skipTest("needs a network of its own")
        r = next(r for r in server_rows if r.needs == "dns")
        self.assertEqual((done.returncode, r.says in done.stdout + done.stderr), (1, True), done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs the right to mount a tmpfs")
    def test_the_disk(self):
        for r in server_rows:
            if r.needs not in ("full", "read-only"):
                continue
            with self.subTest(file=r.file, what=r.what):
                self.begin()
                kept = self.place["S"].rename(self.top / "kept")
                self.place["S"].mkdir(mode=0o700)
                done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m,mode=700", "tmpfs", self.place["S"]], check=False)
                if done.returncode != 0:
                    self.skipTest("no tmpfs here")
                try:
                    shutil.copytree(kept, self.place["S"], dirs_exist_ok=True)
                    shutil.rmtree(kept)
                    if r.needs == "full":
                        with open(self.place["S"] / "ballast", "wb", buffering=0) as f, contextlib.suppress(OSError):
                            while True:
                                f.write(b"\0" * 4096)
                    else:
                        subprocess.run(["mount", "-o", "remount,ro", self.place["S"]], check=True)
                    self.check(r, *self.serve())
                    subprocess.run(["mount", "-o", "remount,rw", self.place["S"]], check=True)
                    (self.place["S"] / "ballast").unlink(missing_ok=True)
                    ready, said = self.serve()
                    self.assertTrue(ready, said)
                finally:
                    subprocess.run(["umount", "-l", self.place["S"]], check=True)

    @unittest.skipUnless(os.geteuid() == 0, "needs the right to mount a tmpfs")
    def test_other_disks(self):
        for r in server_rows:
            if not r.needs.startswith("full "):
                continue
            with self.subTest(file=r.file, what=r.what):
                self.begin()
                place = self.place["C"] / r.needs.split()[1]
                if "signer" in r.needs:
                    (self.place["S"] / "signer").rename(place)
                    with open(self.place["CONF"], "a") as f:
                        f.write(f"signer: {{dir: {place}}}\n")
                kept = place.rename(self.top / "kept")
                place.mkdir(mode=0o700)
                if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", place], check=False).returncode != 0:
                    self.skipTest("no tmpfs here")
                try:
                    shutil.copytree(kept, place, dirs_exist_ok=True)
                    shutil.rmtree(kept)
                    if "signer" in r.needs:             # the store remembers where it is
                        self.assertTrue(self.serve()[0], "a server with room")
                    with open(place / "ballast", "wb", buffering=0) as f, contextlib.suppress(OSError):
                        while True:
                            f.write(b"\0" * 4096)
                    self.check(r, *self.serve())
                    (place / "ballast").unlink()
                    ready, said = self.serve()
                    if "audit adopt" in r.back:         # what a start wrote that could not sign is nobody's until somebody says so
                        self.assertFalse(ready, said)
                        self.shell("toolcrib audit adopt" + said.split("toolcrib audit adopt")[1].split("\n")[0])
                        ready, said = self.serve()
                    self.assertTrue(ready, said)
                finally:
                    subprocess.run(["umount", "-l", place], check=True)


# --- the page

HEAD = """# Bad nights

Made by `tests/integ/test_bad_night.py --write`, which does each of these things to a copy of a store and types what leads back;
`make check-long` compares. STORE and S are the store, B a backup by `toolcrib backup $B/toolcrib.db --keys $B/keys.db --signer
$B/signer.tar`, K copies of the key files, H the newest copy of a single file, G and C good copies of what the configuration
names and the folder where they belong. *told*: the server starts, and the log or `toolcrib status` says it. The runbooks are in
toolcribd(8), BAD NIGHTS. Where nothing is written in the last column nothing has to be done.

{}
"""


def page():
    columns = ("file", "what happened", "starts", "it says", "lost", "what leads back")
    def cell(text):
        return text.replace("|", "\\|")
    def back(r):
        if r.back.startswith("RUNBOOK"):
            return "runbook: Putting it back on " + ("a new host" if "new" in r.back else "the same host")
        return r.back if r.needs not in ("", "root", "crashed") else f"`{cell(r.back)}`" if r.back else ""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join((f"`{r.file}`" if "." in r.file or "/" in r.file else r.file, r.what, r.starts, f"`{cell(r.says)}`" if r.says else "", r.lost, back(r)))
              + " |" for r in rows + server_rows]
    lines.append(f"\n{len(rows) + len(server_rows)} rows, none of them served as if nothing were.")
    return HEAD.format("\n".join(lines))


class Page(unittest.TestCase):
    def test_the_page_says_what_is_tested(self):
        self.assertEqual(PAGE.read_text(), page(), "tests/integ/test_bad_night.py --write")
        self.assertGreaterEqual(len(rows) + len(server_rows), 40)
        quiet = [(r.file, r.what) for r in rows + server_rows if not r.says and (r.starts != "yes" or r.lost != NOTHING)]
        self.assertEqual(quiet, [], "rows that say nothing")


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page())
    else:
        crib.main()
