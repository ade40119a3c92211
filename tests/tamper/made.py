"""The store that all tampering is tried on, what is kept beside it, and the verifiers, each started as a stranger does."""
import concurrent.futures
import contextlib
import io
import os
import pathlib
import pickle
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "integ"), str(pathlib.Path(__file__).resolve().parent)]
import crib
import tamperings as t
from tamperings import sceptic

HIDDEN = crib.tool_yaml("hidden", "{type: builtin, function: echo}")
CALLS = 2                       # of each client, before each checkpoint
# Other versions of a tool that nobody calls: what it was once, and what it is.
EDITED = [crib.tool_yaml("edited", "{type: builtin, function: %s}" % function, extra=f"title: {title}\n")
          for function, title in (("echo", "First"), ("time", "Second"), ("echo", "Third"))]
SECOND = 40001                  # the user id of a second administrator
ROLES = """admin: {socket: %s}
roles: [{role: admin, uid: %d}]
"""


class Made:
    """Three tenants, epochs by starts of the daemon, what was erased, denied and revoked; versions of a tool, levels, a hold
    and, where there is somebody to be it, a second administrator."""

    calls = CALLS

    def __init__(self):
        self.crib = c = crib.Crib().init()
        self.early, self.late, self.keys = [], [], []
        self.start()
        for text, name in ((crib.ECHO, "echo.yaml"), (HIDDEN, "hidden.yaml")):
            c.tool(text, name)
        for tenant in ("acme", "other", "third"):
            c.cli("tenant", "add", tenant)
            c.cli("grant", "add", tenant, "echo")
            self.keys += [c.key(f"{tenant}/bot"), c.key(f"{tenant}/crew")]
        self.furnish()
        self.load()
        c.stop()
        c.cli("approval", "policy", "one")

        self.start()
        calls = self.load()
        self.early.append(self.snapshot())
        self.load()
        self.early.append(self.snapshot())
        c.cli("erase", "--call", calls[0], "--ground", "asked for", "--ticket", "T-1", "--yes")
        crew = next(row["principal"] for row in c.json("key", "list") if row["principal"] == "other/crew")
        c.cli("erase", "--principal", crew, "--ground", "asked for", "--ticket", "T-2", "--yes")
        self.load()
        c.stop()
        self.old = self.newest_note()

        self.start()
        c.cli("key", "revoke", self.keys.pop().split("_")[1], "--yes")
        for _ in range(2):
            self.load()
            self.late.append(self.snapshot())
        self.load()
        c.stop()
        self.new = self.newest_note()
        self.remember()

    def start(self):
        socket = self.crib.dir / "second.sock"
        self.crib.let_others_in()
        self.crib.start(f"anchor: {{file: {self.crib.dir}/anchors}}\naudit: {{commit_every: 1}}\n" + (ROLES % (socket, SECOND) if os.geteuid() == 0 else ""))
        crib.wait_for("a checkpoint taken outside", lambda: (self.crib.dir / "anchors").exists())
        if not hasattr(self, "pins"):
            self.pin()

    def furnish(self):
        """Rows of the registry that reports and commands read."""
        c = self.crib
        for text in EDITED:
            c.tool(text, "edited.yaml")
        c.cli("tool", "revert", "edited", "1")
        c.cli("level", "set", "request", "--tenant", "third", "--tool", "hidden")
        c.cli("limit", "set", "acme", "--rate", "1000000/s")
        c.cli("hold", "set", "third", "--reason", "a lawsuit", "--ticket", "L-1")
        c.cli("secret", "set", "unused", stdin="something")
        if os.geteuid() == 0:
            c.cli("hold", "set", "third", "--reason", "another", "--ticket", "L-2")
            self.by_two("hold", "release", "2", "--reason", "settled", "--ticket", "L-2")

    def by_two(self, *words):
        """A command that needs two administrators: asked for, agreed to, done."""
        assert self.crib.run("--yes", *words).returncode == 1
        request = self.crib.json("approval", "list")[-1]["id"]
        subprocess.run([crib.BUILD / "toolcrib", "--socket", self.crib.dir / "second.sock", "approval", "grant", str(request)],
                       user=SECOND, group=SECOND, check=True, capture_output=True, timeout=crib.DEADLINE, env=self.crib.env)
        self.crib.cli("--yes", *words)

    def client(self, key, transport, text):
        """A few calls and a refused one; their ids."""
        with contextlib.closing(getattr(self.crib, transport)(key)) as peer:
            ids = [peer.call("echo", {"text": f"{text} {i}"}, crib.MODERN)["result"]["_meta"]["dev.toolcrib/callId"]
                   for i in range(self.calls)]
            assert "error" in peer.call("hidden", {}, crib.MODERN)
        return ids

    def load(self):
        """All clients at once."""
        with concurrent.futures.ThreadPoolExecutor(len(self.keys)) as pool:
            work = [pool.submit(self.client, key, ("http", "tcp")[i % 2], f"client {i}") for i, key in enumerate(self.keys)]
            calls = [call for done in work for call in done.result()]
        crib.wait_for("all is signed", lambda: self.verify(self.crib.store)[0] == 0)
        return calls

    def query(self, sql):
        with contextlib.closing(sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)) as db:
            return db.execute(sql).fetchall()

    def snapshot(self):
        """The store's file as it is now."""
        path = self.crib.dir / f"snapshot-{len(self.early) + len(self.late)}.db"
        with contextlib.closing(sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)) as db, \
                contextlib.closing(sqlite3.connect(path)) as copy:
            db.backup(copy)
        return path

    def newest_note(self):
        return self.query("SELECT note FROM cp WHERE log = 1 ORDER BY size DESC LIMIT 1")[0][0]

    def pin(self):
        """The two keys that a stranger keeps."""
        state = (self.crib.store / "signer/state").read_text()
        first, origin = self.query("SELECT e.pk, l.origin FROM epoch e, log l WHERE e.n = 0 AND l.id = 1")[0]
        log_key = bytes.fromhex(next(line.split()[1] for line in state.splitlines() if line.startswith("log-key ")))
        pins = self.crib.dir / "pins"
        pins.write_text("".join(
            f"{name}+{sceptic.key_id(name, key).hex()}+{t.base64.b64encode(bytes([1]) + key).decode()}\n"
            for name, key in ((origin, log_key), (f"{origin}/e/0", first))))
        self.pins = pins

    def remember(self):
        """What lies beside the store, and what stays in it."""
        c, signer = self.crib, self.crib.store / "signer"
        self.state, self.log_seed = (signer / "state").read_text(), (signer / "log.key").read_bytes()
        epoch = self.query("SELECT max(n) FROM epoch")[0][0]
        self.epoch_seed = (signer / f"epoch-{epoch}.key").read_bytes()
        self.erased = [number for number, in self.query("SELECT id FROM rec WHERE cm IS NOT NULL "
                                                        "AND id NOT IN (SELECT rec FROM pay)")]
        self.pristine = c.dir / "pristine.db"
        shutil.copy(c.store / "toolcrib.db", self.pristine)
        for name, note in (("old", self.old), ("new", self.new)):
            (c.dir / name).write_bytes(note)

    def fold(self):
        """The same store with its records in blocks, without their rows and with those that wait for deletion."""
        self.forms = {"rows": self.pristine}
        for form, options in (("blocks", ()), ("leftovers", ("--leftovers",))):
            folder = self.crib.dir / form
            folder.mkdir()
            self.forms[form] = pathlib.Path(shutil.copy(self.pristine, folder / "toolcrib.db"))
            subprocess.run([crib.BUILD / "tests/bench/b_fold", folder, "--block", "24", "--tail", "5", "--chapter", "3", "--book", "2", *options], check=True,
                           stdout=subprocess.DEVNULL, timeout=crib.DEADLINE)

        self.sealed = Filled()
        self.forms.update(self.sealed.forms)

    def of(self, form):
        """What is kept beside a store of that form."""
        return self.sealed if form == "sealed" else self

    def close(self):
        self.crib.close()
        if self.sealed:
            self.sealed.close()

    sealed = None

    def verify(self, store, *options):
        """toolcrib-verify: exit status and codes."""
        return toolcrib_verify(["--keys", self.crib.store, "--key", self.pins, *options, store])[:2]

    def evidence(self, store=None, keys=True):
        """Options for E0, E1, E2 old and E2 new; store: the tamperings.Store, which may have brought evidence of its own."""
        state, anchors = self.crib.store / "signer/state", {"old": self.crib.dir / "old", "new": self.crib.dir / "new"}
        always = ["--key", self.pins] + (["--keys", store and store.keys or self.crib.store] if keys else [])
        if store and store.state is not None:
            state = pathlib.Path(f"{store.path}.state")
            state.write_text(store.state)
        for name, note in store.anchors.items() if store else ():
            anchors[name] = pathlib.Path(f"{store.path}.{name}")
            anchors[name].write_bytes(note)
        return [always + more for more in ([], ["--signer-state", state], ["--anchor", anchors["old"]], ["--anchor", anchors["new"]])]

    def whole(self, store, folder):
        """A store's folder as a server starts on it, with what was tampered with in place."""
        shutil.copytree(self.crib.store, folder, ignore=shutil.ignore_patterns("toolcrib.db*", "*.sock", "*.lock"))
        for path in pathlib.Path(store.path).parent.glob("toolcrib.db*"):
            if path.name in ("toolcrib.db", "toolcrib.db-wal", "toolcrib.db-journal", "toolcrib.db-shm"):
                shutil.copy(path, folder)
        if (store.path.parent / "segments").exists():
            shutil.rmtree(folder / "segments")
            shutil.copytree(store.path.parent / "segments", folder / "segments", symlinks=True)
        for path in pathlib.Path(store.keys).iterdir() if store.keys else ():
            shutil.copy(path, folder)
        if store.state is not None:
            (folder / "signer/state").write_text(store.state)
        return folder


class Filled(Made):
    """Two tenants whose months are in sealed files: a store of b_fill, taken over by a server."""

    def __init__(self):
        self.crib = c = crib.Crib()
        c.fill(1500, "--tenants", 2, "--principals", 3, "--tools", 3, "--failures", 0.2, "--days", crib.days_back(60), "--level", "request")
        for words in (("--block", "150", "--chapter", "3", "--book", "2"), ("--seal", "all")):
            subprocess.run([crib.BUILD / "tests/bench/b_fold", c.store, *words], check=True, stdout=subprocess.DEVNULL, timeout=crib.DEADLINE)
        c.cli("audit", "adopt", *c.run("audit", "keys").stderr.rpartition("toolcrib audit adopt ")[2].split())
        self.start()
        c.stop()
        for name, age in (("new", 0), ("old", 1)):
            (c.dir / name).write_bytes(self.query(
                f"SELECT note FROM cp WHERE log = 1 AND epoch <= (SELECT max(n) FROM epoch) - {age} ORDER BY size DESC LIMIT 1")[0][0])
        self.forms, self.past = {"sealed": c.store / "toolcrib.db"}, []


def copy_store(file, path):
    """A store's file, and its sealed files."""
    shutil.copy(file, path)
    if (file.parent / "segments").exists():
        shutil.copytree(file.parent / "segments", path.parent / "segments")


# --- the verifiers: (exit status, codes, CPU seconds, MiB at most); a status below 0 is a signal

SECONDS, MEBIBYTES = 10, 256            # that each may take
CODE = re.compile(r"(?m)^([A-Z][A-Z_]*)(?:\s|:|$)")
WORDS = {"INTACT", "DAMAGED", "INCOMPLETE", "FINDING"}


def codes(text):
    return set(CODE.findall(text)) - WORDS


def run(argv, env=None):
    """A program with these limits: exit status, output, CPU seconds, MiB."""
    child = subprocess.Popen(list(map(str, argv)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
    resource.prlimit(child.pid, resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    with child.stdout:
        text = child.stdout.read().decode(errors="replace")
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, text, used.ru_utime + used.ru_stime, used.ru_maxrss >> 10


def toolcrib_verify(options):
    status, text, seconds, size = run([crib.BUILD / "toolcrib-verify", *options])
    return status, codes(text), seconds, size


def sceptic_says(options):
    """What verify.py prints and exits with, in this process, which is a child()'s: it limits its memory."""
    out, argv = io.StringIO(), sys.argv
    sys.argv = ["verify.py", *map(str, options)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            status = sceptic.main()
    except SystemExit as end:
        status = end.code
    except BaseException as error:
        status = -1
        out.write(f"\n{type(error).__name__.upper()}\n")
    finally:
        sys.argv = argv
    return status, codes(out.getvalue())


def child(work, seconds=60):
    """What this gives in a child of this process, pickled, or nothing; how it ended, and what it used."""
    end, other = os.pipe()
    number = os.fork()
    if number == 0:
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
            data = pickle.dumps(work())
            with open(other, "wb") as pipe:
                pipe.write(data)
            status = 0
        finally:
            os._exit(status)
    os.close(other)
    with open(end, "rb") as pipe:
        data = pipe.read()
    _, status, used = os.wait4(number, 0)
    return data, os.waitstatus_to_exitcode(status), used


def timed(options):
    begun = time.process_time()
    return (*sceptic_says(options), time.process_time() - begun)


def sceptics(many):
    """verify.py with each of these lists of options, in a child of this process, which what was computed before saves work."""
    data, status, used = child(lambda: [timed(options) for options in many], SECONDS * len(many))
    if not data:
        return [(status or -1, set(), used.ru_utime, used.ru_maxrss >> 10)] * len(many)
    return [(*one, used.ru_maxrss >> 10) for one in pickle.loads(data)]


def audit_verify(made, store, folder):
    """`toolcrib audit verify` of a server on that store, which begins with what every start does."""
    whole = made.whole(store, folder)
    pins = [word for line in made.pins.read_text().split() for word in ("--key", line)]
    status, text, seconds, size = run([crib.BUILD / "toolcrib", "--store", whole, "audit", "verify", "--keys", "--signer-state",
                                       whole / "signer", *pins], made.crib.env)
    return status, codes(text), seconds, size


class Remembered:
    """A function of verify.py that is asked the same again and again, with what it said."""

    def __init__(self, function):
        self.function, self.said = function, {}

    def __call__(self, *args):
        try:
            if args not in self.said:
                self.said[args] = self.function(*args)
            return self.said[args]
        except TypeError:               # of what cannot be a key
            return self.function(*args)


def remember_what_is_dear(many=()):
    """Signatures and payloads are the same in all copies, but for what was tampered with; many: options of runs to learn from,
    which are a child's, since verify.py limits the process that it is."""
    names = ("signed_by", "decrypt")
    for name in names:
        if not isinstance(getattr(sceptic, name), Remembered):
            setattr(sceptic, name, Remembered(getattr(sceptic, name)))
    if many:
        data = child(lambda: [sceptic_says(options) for options in many] and [getattr(sceptic, name).said for name in names])[0]
        for name, said in zip(names, pickle.loads(data)):
            getattr(sceptic, name).said.update(said)
