"""A real crib for black-box tests: a store in a folder of its own, the two programs, and clients that speak bytes.

Standard library only.  Nothing sleeps: what must become true is awaited with a deadline.  Ports are the kernel's choice."""
import atexit
import base64
import contextlib
import ctypes
import functools
import hashlib
import http.client
import json
import os
import pathlib
import py_compile
import re
import select
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ.get("TOOLCRIB_BUILDDIR", "."))
SOURCE = pathlib.Path(os.environ.get("TOOLCRIB_SRCDIR", "."))
REVS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
MODERN = "2026-07-28"
KEPT_FILLS = 50000      # records of a store that is kept for others
RUNNER = None           # what runs the tests of a file, where it is not started by itself (run.py)
DEADLINE = float(os.environ.get("TOOLCRIB_TEST_DEADLINE", "20"))

ECHO = """name: echo
description: Says what it was told.
inputSchema: {type: object, properties: {text: {type: string}}, required: [text], additionalProperties: false}
handler: {type: builtin, function: echo}
"""


def tool_yaml(name, handler, schema="{type: object}", extra=""):
    """One definition document."""
    return f"name: {name}\ndescription: The tool {name}.\ninputSchema: {schema}\nhandler: {handler}\n{extra}"


def below(pid):
    """All processes below this one: number -> name."""
    found, todo = {}, [pid]
    while todo:
        with contextlib.suppress(OSError):      # those that end meanwhile
            for task in pathlib.Path(f"/proc/{todo.pop()}/task").glob("*/children"):
                with contextlib.suppress(OSError):
                    children = [int(word) for word in task.read_text().split()]
                    found.update((child, comm(child)) for child in children)
                    todo += children
    return found


@functools.cache
def sanitized(program="toolcribd"):
    """Is this program one of a build with a sanitizer, whose memory and system calls are not those of ours?"""
    content = (BUILD / program).read_bytes()
    return b"__tsan_init" in content or b"__asan_init" in content


@functools.cache
def looks_for_races():
    """Is this a build with ThreadSanitizer, which sees nothing in one command after the other?"""
    return b"__tsan_init" in (BUILD / "toolcribd").read_bytes()


LANDLOCK = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1)         # ABI of this kernel; less than 1: it has none
SERVER = {"toolcrib-launch", "toolcrib-sign"}      # what belongs to the server itself


def wait_for(what, condition, deadline=DEADLINE):
    """Poll a condition until it is true; fail with what was awaited.  What is asked of a program costs what else runs beside it: it rests for as long as
    it took, and for a tenth of what was waited."""
    begun = time.monotonic()
    while True:
        asked = time.monotonic()
        got = condition()
        if got:
            return got
        now = time.monotonic()
        if now > begun + deadline:
            raise AssertionError(f"not within {deadline} s: {what() if callable(what) else what}")
        time.sleep(min(max(0.005, now - asked, (now - begun) / 10), 0.25))


def with_setting(config, section, name, value):
    """A configuration's text with this setting, unless it has one."""
    if f"{name}:" in config:
        return config
    for begin, end in ((f"{section}: {{", ", "), (f"{section}:\n  ", "\n  ")):
        at = config.find(begin)
        if at == 0 or (at > 0 and config[at - 1] == "\n"):
            return f"{config[:at]}{begin}{name}: {value}{end}{config[at + len(begin):]}"
    return f"{config}\n{section}: {{{name}: {value}}}\n"


def some(items, each=3):
    """Of what says the same many times every third one; make check-long has all of them."""
    return items if os.environ.get("TOOLCRIB_ALL_SUITES") else items[::each]


def days_back(least):
    """So many days or some more, that the month which they begin in has half of its days at least: of less some logs have no
    sealed file, whatever day it is today."""
    days = least
    while time.gmtime(time.time() - 86400 * days).tm_mday > 15:
        days += 1
    return days


def forget_vouching(db):
    """As a store from before rows had records: the next start takes them as they are (verification sees that one is gone)."""
    for idx, in db.execute("SELECT idx FROM rec WHERE kind = 1534").fetchall():
        for table, in db.execute("SELECT name FROM pragma_table_list WHERE type = 'table' AND name IN "
                                 "(SELECT tbl_name FROM sqlite_schema WHERE sql LIKE '%rec_idx INTEGER%')").fetchall():
            if table != "row_gone":
                db.execute(f"UPDATE {table} SET rec_idx = NULL WHERE rec_log = 1 AND rec_idx = ?", (idx,))
    db.execute("DELETE FROM meta WHERE key = 'vouched'")
    db.execute("DELETE FROM rec WHERE kind = 1534")


def comm(pid):
    """The name of a process, "" when there is none."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def runs(pid):
    """Whether there is such a process, and it has not ended: it may end between two looks."""
    try:
        return "\nState:\tZ" not in pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def evidence(store, keys=True):
    """Options of a verifier: what whoever asks has beside the store, its first key pinned and the keys of what is kept."""
    folder = pathlib.Path(store)
    folder = folder if folder.is_dir() else folder.parent
    db = sqlite3.connect(f"file:{folder}/toolcrib.db?mode=ro", uri=True)
    try:
        name, key = db.execute("SELECT l.origin || '/e/0', e.pk FROM log l, epoch e WHERE l.id = 1 AND e.n = 0").fetchone()
    finally:
        db.close()
    number = hashlib.sha256(name.encode() + b"\n\1" + key).hexdigest()[:8]
    return ["--key", f"{name}+{number}+{base64.b64encode(bytes([1]) + key).decode()}", *(["--keys", str(folder)] if keys else [])]


def beside(name):
    """A folder with data of others in the folder `shared` beside the source, None when there is none."""
    folder = SOURCE.resolve().parent / "shared" / name
    return str(folder) if folder.is_dir() else None


class Failed(Exception):
    """A command of the CLI that did not exit 0."""

    def __init__(self, code, out, err):
        super().__init__(f"exit {code}: {err or out}")
        self.code, self.out, self.err = code, out, err


class Shelf:
    """Stores that were made ready by the CLI, each by what was done to it since `toolcrib init`, and what the last
    command said.  Whoever makes the same again gets a copy: a test begins where its fellows began, and starts no process
    for it.  TOOLCRIB_TEST_SHELF names a folder that tests of several processes share."""

    # What a copy may hold: nothing that goes by the time.
    AHEAD = ("tenant add", "grant add", "key create", "tool add", "schema add")

    def __init__(self):
        given = os.environ.get("TOOLCRIB_TEST_SHELF")
        self.folder = pathlib.Path(given or tempfile.mkdtemp(prefix="toolcrib-shelf-"))
        if not given:
            atexit.register(shutil.rmtree, self.folder, True)

    def place(self, steps):
        return self.folder / hashlib.sha256(repr(steps).encode()).hexdigest()[:32]

    @staticmethod
    def step(words):
        """What this command is, wherever its files lie; None when it has to run each time."""
        words = [str(word) for word in words]
        if " ".join(words[:2]) not in Shelf.AHEAD or any(word.startswith("--") and word != "--as" for word in words):
            return None
        if words[1] != "add" or words[0] not in ("tool", "schema"):
            return tuple(words)
        try:
            texts = [pathlib.Path(path).read_text() for path in words[2:]]
        except OSError:
            return None
        return None if any("./" in text for text in texts) else (words[0], *texts)

    def put(self, steps, store, said):
        """Keep a store; False when somebody was quicker: it is that one that counts."""
        new = self.folder / f"{os.getpid()}.new"
        shutil.copytree(store, new / "store")
        (new / "said").write_text(said)
        try:
            new.rename(self.place(steps))
            return True
        except OSError:
            shutil.rmtree(new)
            return False

    def said(self, steps):
        try:
            return (self.place(steps) / "said").read_text()
        except OSError:
            return None


@functools.cache
def shelf():
    return Shelf()


@functools.cache
def sceptic():
    """The words that run contrib/verify/verify.py in a process of its own, without compiling it each time."""
    path = shelf().folder / "verify.py"
    if not path.exists():
        py_compile.compile(str(SOURCE / "contrib/verify/verify.py"), cfile=str(path), doraise=True)
    return sys.executable, path


def of_sqlite(sql):
    """A file of sql/queries without what it says for the other engine alone."""
    return re.sub(r"(?ms)^-- only: pgsql\n.*?(?=^-- only:|^-- name:|^$|\Z)", "", sql)


def row_indexes():
    """Statements that give a store the indexes of rows which one of an earlier release has."""
    return [sql for step in sorted((SOURCE / "sql/migrate").glob("*.sql"))
            for sql in re.findall(r"(?m)^CREATE (?:UNIQUE )?INDEX rec_(?!order)[^;]+", step.read_text())]


class Crib:
    """A store, its CLI and perhaps its daemon."""

    http_times = ", late_ms: 20"        # a refusal that is late is tested where it is made
    report_class = "normal"     # idle ones, the default, wait for all tests that run beside them
    only_cli = False            # True: each command is a process, for tests of the CLI itself

    def __init__(self, folder=None):
        self.dir = pathlib.Path(folder or tempfile.mkdtemp(prefix="toolcrib-test-"))
        self.path = self.dir / "store"
        self.steps = None       # what made the store what it is, where nothing else has touched it
        self.due = False        # it lies on the shelf, not yet in path
        self.daemon = None
        self.log = self.dir / "daemon.log"
        self.env = dict(os.environ, TOOLCRIB_RUN=str(BUILD / "toolcrib-run"), NO_COLOR="1",
                        XDG_CONFIG_HOME=str(self.dir / "config"))
        self.env.pop("TOOLCRIB_KEY", None)
        self.config_alone()

    def let_others_in(self):
        """Other users reach what lies in the folder, such as a socket for them."""
        self.dir.chmod(self.dir.stat().st_mode | stat.S_IXOTH)

    @property
    def store(self):
        """The folder, for somebody who may do with it what he likes."""
        self.fetch()
        self.steps = None
        return self.path

    @store.setter
    def store(self, path):
        self.path, self.steps, self.due = path, None, False

    def fetch(self):
        if self.due:
            shutil.rmtree(self.path, ignore_errors=True)
            shutil.copytree(shelf().place(self.steps) / "store", self.path)
            self.due = False

    # --- the CLI

    def run(self, *words, stdin=None, env=None, user=None):
        return subprocess.run([str(BUILD / "toolcrib"), "--store", str(self.store), *map(str, words)], user=user, group=user,
                              input=stdin, capture_output=True, text=True, timeout=60, env={**self.env, **(env or {})})

    def cli(self, *words, stdin=None):
        """Run a command that must succeed; its standard output."""
        alone = self.steps is None or stdin is not None or self.only_cli
        step = None if alone else Shelf.step(words)
        if not step:
            return self.must(words, stdin)
        return self.ahead((*self.steps, step), words)

    def must(self, words, stdin=None):
        done = self.run(*words, stdin=stdin)
        if done.returncode != 0:
            raise Failed(done.returncode, done.stdout, done.stderr)
        return done.stdout

    def ahead(self, steps, words):
        """A command that makes a store ready which only such commands have touched."""
        said = shelf().said(steps)
        if said is None:
            said = self.must(words)
            if shelf().put(steps, self.path, said):
                self.steps = steps
                return said
            said = shelf().said(steps)
        self.steps, self.due = steps, True
        return said

    def json(self, *words, stdin=None):
        """The objects that a command says with --json; over the daemon's socket for what is asked again and again."""
        rows = None
        words = [str(word) for word in words]
        if stdin is None and " ".join(words[:2]) in ("status", "audit calls", "audit capacity", "session list"):
            rest = words[2:]
            if set(rest[::2]) <= {"--tenant", "--tool", "--limit"}:
                rows = self.ask(" ".join(words[:2]), **{name[2:]: str(value) for name, value in zip(rest[::2], rest[1::2])})
        if rows is None:
            rows = [json.loads(line) for line in self.cli("--json", *words, stdin=stdin).splitlines() if line.strip()]
        return rows

    def ask(self, command, **args):
        """What the daemon says to a command on its socket, without the CLI: its rows, or None when it cannot."""
        if self.only_cli or not self.daemon or self.daemon.poll() is not None:
            return None
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(DEADLINE)
                s.connect(str(self.path / "admin.sock"))
                s.sendall(json.dumps({"command": command, "args": args}).encode() + b"\n")
                got = b""
                while not got.endswith(b'{"done":true}\n'):
                    more = s.recv(1 << 20)
                    got += more
                    if not more or got.startswith(b'{"error":'):
                        return None
        except OSError:
            return None
        return [line["row"] for line in map(json.loads, got.splitlines()[:-1]) if "row" in line]

    def init(self):
        """A store as `toolcrib init` makes it: the first is made so, the others are copies of it."""
        self.ahead(("init",), ["init"])
        return self

    def fill(self, records, *options, fold=()):
        """A store by tests/bench/b_fill instead, folded with these options if there are some, made once for all that want the
        same; what was planted in it."""
        options = [str(records), *map(str, options)]
        steps = ("fill", *options, *(("fold", *fold) if fold else ()))
        said = shelf().said(steps)
        if said is None:
            said = self.made_by("b_fill", "--records", *options)
            if fold:
                self.made_by("b_fold", *fold)
            if records <= KEPT_FILLS:
                shelf().put(steps, self.path, said)
        else:
            shutil.copytree(shelf().place(steps) / "store", self.store)
        return json.loads(said)["planted"]

    def made_by(self, program, *options):
        """What one of tests/bench says that makes something of the store."""
        done = subprocess.run([BUILD / "tests/bench" / program, self.store, *options], capture_output=True, text=True, env=self.env)
        if done.returncode != 0:
            raise Failed(done.returncode, done.stdout, done.stderr)
        return done.stdout

    def tenant(self, name, *grants):
        """Add a tenant with one key; the key."""
        self.set_up("tenant add", name, name=name)
        for grant in map(str.split, grants):
            if any(word.startswith("-") for word in grant):
                self.cli("grant", "add", name, *grant)
            else:
                self.set_up("grant add", name, *grant, tenant=name, tool=grant)
        return self.key(f"{name}/bot")

    def key(self, principal, *options):
        if options:
            out = self.cli("key", "create", principal, *options)
        else:
            out = self.set_up("key create", principal, principal=principal)
        return next(word for word in out.split() if word.startswith("tck_"))

    def set_up(self, command, *words, **args):
        """A command of which only the outcome matters: over the daemon's socket when there is one, else by the CLI."""
        rows = self.ask(command, **args)
        if rows is None:
            return self.cli(*command.split(), *words)
        return "\n".join(str(value) for row in rows for value in row.values())

    def rows(self, sql, *values):
        """What the store itself says."""
        db = sqlite3.connect(f"file:{self.store}/toolcrib.db?mode=ro", uri=True)
        try:
            return db.execute(sql, values).fetchall()
        finally:
            db.close()

    def processes(self, program):
        """Ids of processes of this program in whose environment the crib's directory is named: --env MARK=(crib.dir)."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = path.joinpath("cmdline").read_bytes().split(b"\0")
                variables = path.joinpath("environ").read_bytes()
            except OSError:
                continue
            if words[0] == str(program).encode() and str(self.dir).encode() in variables:
                found.append(int(path.name))
        return found

    def status(self):
        """The row of `toolcrib status`, None when nobody answers."""
        rows = self.ask("status")
        if rows is None:
            done = self.run("--json", "status")
            rows = [json.loads(line) for line in done.stdout.splitlines()] if done.returncode == 0 else None
        return rows and rows[0]

    def tool(self, text, name="tool.yaml"):
        path = self.dir / name
        path.write_text(text)
        return self.cli("tool", "add", path)

    # --- the daemon

    @staticmethod
    def cage_alone(extra):
        """Tests that say nothing of the sandbox have the cage alone, also where whoever runs them has a line in /etc/subuid,
        and the Landlock that there is."""
        more = "uids: none, " if os.geteuid() != 0 and "uids:" not in extra else ""
        more += "require: base+landlock:1, " if 0 < LANDLOCK < 3 and "sandbox:" not in extra else ""
        if not more:
            return extra
        return extra.replace("sandbox: {", "sandbox: {" + more, 1) if "sandbox: {" in extra else f"{extra}sandbox: {{{more}}}\n"

    def alone_and_awake(self, extra):
        """That, reports of the class that tests have, and records that may wait for as long as tests do."""
        extra = self.cage_alone(extra)
        if "TOOLCRIB_TEST_DEADLINE" in os.environ:
            extra = with_setting(extra, "audit", "deadline_ms", min(int(DEADLINE * 1000), 60000))
        return with_setting(extra, "admin", "report_class", self.report_class) if self.report_class else extra

    def config_alone(self, extra=""):
        """What commands find that run without a server."""
        path = self.dir / "config/toolcrib/toolcribd.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.alone_and_awake(extra))

    def config(self, extra=""):
        extra = self.alone_and_awake(extra)
        path = self.dir / "toolcribd.yaml"
        path.write_text(f"""listeners:
- {{transport: http, address: "127.0.0.1:0"{self.http_times}}}
- {{transport: tcp, address: "127.0.0.1:0"}}
- {{transport: unix, address: "{self.dir}/agents.sock"}}
{extra}""")
        return path

    def start(self, extra="", wrapper=(), env=None, user=None, fds=()):
        """Start toolcribd and wait until it answers on its admin socket; fds are left open for the wrapper."""
        config = self.config(extra)
        path = self.dir / "ready.sock"
        path.unlink(missing_ok=True)
        with open(self.log, "ab") as log, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.bind(str(path))
            self.daemon = subprocess.Popen([*wrapper, str(BUILD / "toolcribd"), "--store", str(self.store), "-c", str(config)],
                                           stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=user, group=user, pass_fds=fds,
                                           env={**self.env, "NOTIFY_SOCKET": str(path), **(env or {})})
            wait_for("a daemon that is ready or has ended", lambda: self.daemon.poll() is not None or
                     (env and "NOTIFY_SOCKET" in env) or select.select([told], [], [], 0.05)[0])
        self.await_ready()
        return self

    def await_ready(self):
        def ready():
            if self.daemon.poll() is not None:
                raise AssertionError("toolcribd ended:\n" + self.log.read_text()[-4000:])
            status = self.status()
            return status if status and (status.get("pid") == self.daemon.pid or status.get("listeners")) else None
        status = wait_for("a daemon that answers", ready)
        self.ports = {}
        for listener in status["listeners"]:
            self.ports.setdefault(listener["transport"], listener["address"])
        return status

    def address(self, transport):
        host, _, port = self.ports[transport].rpartition(":")
        return host.strip("[]"), int(port)

    def stop(self, sig=signal.SIGTERM):
        """Stop the daemon; its exit status."""
        if not self.daemon:
            return None
        self.daemon.send_signal(sig)
        try:
            code = self.daemon.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.daemon.kill()
            self.daemon.wait()
            raise AssertionError("toolcribd did not stop:\n" + self.log.read_text()[-4000:])
        self.daemon = None
        return code

    def close(self):
        if self.daemon:
            self.daemon.kill()
            self.daemon.wait()
            self.daemon = None
        shutil.rmtree(self.dir, ignore_errors=True)

    def files(self, folder=None):
        """The bytes of each file of the store; one that goes away meanwhile is passed over, and so is the ballast."""
        for path in (folder or self.store).rglob("*"):
            try:
                if path.is_file() and path.name != "ballast":
                    yield path, path.read_bytes()
            except FileNotFoundError:
                pass

    # --- clients

    def tcp(self, key=None):
        return Line(socket.create_connection(self.address("tcp"), DEADLINE), key)

    def unix(self, key=None):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(DEADLINE)
        s.connect(str(self.dir / "agents.sock"))
        return Line(s, key)

    def stdio(self, key=None, *options):
        return Stdio(self, key, *options)

    def sse(self, key=None):
        return Sse(self.address("http"), key)

    def http(self, key=None, path="/mcp"):
        return Http(self.address("http"), key, path)


class Peer:
    """JSON-RPC over something that sends and receives whole messages in order."""

    def __init__(self):
        self.next_id = 0
        self.notices = []

    def request(self, method, params=None, rev=None, caps=None, id=None):
        self.next_id += 1
        message = {"jsonrpc": "2.0", "id": self.next_id if id is None else id, "method": method}
        params = dict(params or {})
        if rev == MODERN:
            params["_meta"] = {"io.modelcontextprotocol/protocolVersion": MODERN,
                               "io.modelcontextprotocol/clientCapabilities": caps or {}, **params.get("_meta", {})}
        if params:
            message["params"] = params
        return message

    def ask(self, method, params=None, rev=None, caps=None, id=None):
        """Send a request, return its answer; notices that come before are kept."""
        message = self.request(method, params, rev, caps, id)
        self.send(message)
        return self.answer(message["id"])

    def answer(self, id):
        while True:
            got = self.receive()
            if got is None:
                raise AssertionError("the peer closed instead of answering")
            if "method" in got:
                self.notices.append(got)
            elif got.get("id") == id:
                return got
            else:
                raise AssertionError(f"an answer to somebody else: {got}")

    def initialize(self, rev="2025-11-25", caps=None):
        got = self.ask("initialize", {"protocolVersion": rev, "capabilities": caps or {},
                                      "clientInfo": {"name": "test", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return got["result"]

    def call(self, tool, arguments=None, rev=None, caps=None, **more):
        return self.ask("tools/call", {"name": tool, "arguments": arguments or {}, **more}, rev, caps)

    def tools(self, rev=None):
        names, cursor = [], None
        while True:
            got = self.ask("tools/list", {"cursor": cursor} if cursor is not None else {}, rev)["result"]
            names += [tool["name"] for tool in got["tools"]]
            cursor = got.get("nextCursor")
            if cursor is None:
                return names

    def notice(self, method, deadline=DEADLINE):
        """The next notice of this method, which has come or comes within the deadline."""
        end = time.monotonic() + deadline
        while True:
            for i, got in enumerate(self.notices):
                if got["method"] == method:
                    return self.notices.pop(i)
            got = self.receive(max(0.0, end - time.monotonic()))
            if got is None:
                raise AssertionError(f"no {method} within {deadline} s")
            self.notices.append(got)

    def quiet(self, method):
        """True when no such notice has come: asked behind a ping's answer, so nothing is still under way."""
        self.ask("ping")
        return not any(got["method"] == method for got in self.notices)


class Line(Peer):
    """One JSON message a line over a socket; the credential line first when there is a key."""

    def __init__(self, sock, key=None):
        super().__init__()
        self.sock = sock
        self.buffer = b""
        if key:
            self.raw(f"Authorization: Bearer {key}\n".encode())

    def raw(self, data):
        self.sock.sendall(data)

    def send(self, message):
        self.raw(json.dumps(message).encode() + b"\n")

    def line(self, deadline=DEADLINE):
        """The next line without its end, or None at end of file or deadline."""
        end = time.monotonic() + deadline
        while b"\n" not in self.buffer:
            self.sock.settimeout(max(0.001, end - time.monotonic()))
            try:
                data = self.sock.recv(1 << 16)
            except (TimeoutError, ConnectionError):
                return None
            if not data:
                return None
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line

    def receive(self, deadline=DEADLINE):
        line = self.line(deadline)
        return None if line is None else json.loads(line)

    def closed(self):
        """True once the server has ended the connection."""
        while True:
            line = self.line()
            if line is None:
                try:
                    self.sock.settimeout(DEADLINE)
                    return self.sock.recv(1) == b""
                except ConnectionError:
                    return True
                except TimeoutError:
                    return False

    def end_input(self):
        self.sock.shutdown(socket.SHUT_WR)

    def close(self):
        self.sock.close()


class Stdio(Peer):
    """toolcribd --stdio as a child."""

    def __init__(self, crib, key, *options):
        super().__init__()
        env = dict(crib.env)
        if key:
            env["TOOLCRIB_KEY"] = key
        self.log = open(crib.dir / "stdio.log", "ab")
        self.child = subprocess.Popen([str(BUILD / "toolcribd"), "--stdio", "--store", str(crib.store), *options],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, env=env)
        self.buffer = b""

    def send(self, message):
        self.child.stdin.write(json.dumps(message).encode() + b"\n")
        self.child.stdin.flush()

    def receive(self, deadline=DEADLINE):
        end = time.monotonic() + deadline
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.child.stdout], [], [], max(0.0, end - time.monotonic()))
            data = os.read(self.child.stdout.fileno(), 1 << 16) if ready else b""
            if not data:
                return None
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def close(self):
        """End of input: the exit status."""
        if not self.child.stdin.closed:
            self.child.stdin.close()
        code = self.child.wait(DEADLINE)
        self.child.stdout.close()
        self.log.close()
        return code


class Http(Peer):
    """POST /mcp on one kept connection; sessions and event streams of both eras."""

    def __init__(self, address, key=None, path="/mcp"):
        super().__init__()
        self.address, self.key, self.path = address, key, path
        self.connection = http.client.HTTPConnection(*address, timeout=DEADLINE)
        self.session = None
        self.version = None
        self.status = None
        self.replies = []

    def headers(self, message=None):
        got = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.key:
            got["Authorization"] = f"Bearer {self.key}"
        params = message.get("params", {}) if isinstance(message, dict) else {}
        claim = params.get("_meta", {}).get("io.modelcontextprotocol/protocolVersion")
        if claim:
            got["MCP-Protocol-Version"] = claim
            got["Mcp-Method"] = message["method"]
            if message["method"] == "resources/read":
                got["Mcp-Name"] = params["uri"]
            elif "name" in params:
                got["Mcp-Name"] = params["name"]
            elif "taskId" in params:
                got["Mcp-Name"] = params["taskId"]
        else:
            if self.session:
                got["Mcp-Session-Id"] = self.session
            if self.version:
                got["MCP-Protocol-Version"] = self.version
        return got

    def post(self, body, headers):
        """One raw POST: status, headers, body text."""
        self.connection.request("POST", self.path, body, headers)
        response = self.connection.getresponse()
        return response.status, response.headers, response.read().decode()

    def send(self, message):
        self.status, headers, text = self.post(json.dumps(message), self.headers(message))
        self.response_headers = headers
        if headers.get("Mcp-Session-Id"):
            self.session = headers["Mcp-Session-Id"]
        if headers.get("Content-Type", "").startswith("text/event-stream"):
            self.replies += [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:")]
        elif text:
            self.replies.append(json.loads(text))
        if message.get("method") == "initialize" and self.replies:
            self.version = self.replies[-1].get("result", {}).get("protocolVersion")

    def receive(self, deadline=DEADLINE):
        return self.replies.pop(0) if self.replies else None

    def stream(self, message=None):
        """An open event stream: a modern listen (message), or the session's GET stream."""
        return Events(self, message)

    def close(self):
        self.connection.close()


class Events(Peer):
    """A server-sent event stream on a connection of its own."""

    def __init__(self, peer, message=None):
        super().__init__()
        self.connection = http.client.HTTPConnection(*peer.address, timeout=DEADLINE)
        headers = peer.headers(message or {})
        if message:
            self.connection.request("POST", peer.path, json.dumps(message), headers)
        else:
            headers["Accept"] = "text/event-stream"
            self.connection.request("GET", peer.path, headers=headers)
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def receive(self, deadline=DEADLINE):
        if not self.response.headers.get("Content-Type", "").startswith("text/event-stream"):
            text = self.response.read()
            return json.loads(text) if text else None
        end = time.monotonic() + deadline
        while True:
            self.connection.sock and self.connection.sock.settimeout(max(0.001, end - time.monotonic()))
            try:
                line = self.response.readline()
            except TimeoutError:
                return None
            if not line:
                return None
            if line.startswith((b"data:", b"{")):       # an event, or an answer that needed no stream
                return json.loads(line.removeprefix(b"data:"))

    def close(self):
        self.response.close()
        self.connection.close()


class Sse(Peer):
    """HTTP+SSE of 2024-11-05: an event stream, and POSTs to the endpoint that its first event names."""

    def __init__(self, address, key=None, path="/sse"):
        super().__init__()
        self.address, self.key = address, key
        self.stream = http.client.HTTPConnection(*address, timeout=DEADLINE)
        self.stream.request("GET", path, headers=self.headers({"Accept": "text/event-stream"}))
        self.response = self.stream.getresponse()
        self.posts = http.client.HTTPConnection(*address, timeout=DEADLINE)
        self.endpoint = None
        if self.response.status == 200:
            kind, self.endpoint = self.event()
            assert kind == "endpoint", kind

    def headers(self, more):
        return {**more, **({"Authorization": f"Bearer {self.key}"} if self.key else {})}

    def event(self, deadline=DEADLINE):
        """The next event as (kind, data); None at the end of the stream or the deadline."""
        end = time.monotonic() + deadline
        kind, data = "message", None
        while True:
            self.stream.sock and self.stream.sock.settimeout(max(0.001, end - time.monotonic()))
            try:
                line = self.response.readline()
            except TimeoutError:
                return None
            if not line:
                return None
            field, _, value = line.decode().rstrip("\r\n").partition(": ")
            if field == "event":
                kind = value
            elif field == "data":
                data = value
            elif field == "" and data is not None:
                return kind, data

    def post(self, body, headers=None, endpoint=None):
        """One raw POST: status, headers, body text."""
        self.posts.request("POST", endpoint or self.endpoint, body, headers or self.headers({"Content-Type": "application/json"}))
        response = self.posts.getresponse()
        return response.status, response.headers, response.read().decode()

    def send(self, message):
        status, _, text = self.post(json.dumps(message))
        assert status == 202, (status, text)

    def receive(self, deadline=DEADLINE):
        got = self.event(deadline)
        return got and json.loads(got[1])

    def close(self):
        self.posts.close()
        self.response.close()
        self.stream.close()


class Case(unittest.TestCase):
    """A test with a fresh crib."""

    def setUp(self):
        self.crib = Crib()
        self.addCleanup(self.crib.close)

    def tearDown(self):
        failed = self._outcome.result and any(case is self for case, _ in
                                              self._outcome.result.failures + self._outcome.result.errors)
        if failed and self.crib.log.exists():
            print("--- the daemon's log:\n" + self.crib.log.read_text()[-4000:], file=sys.stderr)

    def raw_http(self, data, reads=1):
        """Send bytes to the HTTP port; everything that comes back until the server closes or falls silent."""
        with socket.create_connection(self.crib.address("http"), DEADLINE) as s:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            got = b""
            while True:
                try:
                    more = s.recv(1 << 16)
                except ConnectionError:
                    break
                if not more:
                    break
                got += more
            return got


class SmallDisk(Case):
    """The crib is on a disk of its own, which a test can fill; the log of the server is elsewhere."""
    SIZE = "24m"

    def setUp(self):
        mount = tempfile.mkdtemp(prefix="toolcrib-tmpfs-")
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.SIZE}", "tmpfs", mount],
                                               capture_output=True).returncode != 0:
            os.rmdir(mount)
            self.skipTest("needs the right to mount a tmpfs")
        self.crib = Crib(mount)
        self.crib.log = pathlib.Path(tempfile.mkstemp(prefix="toolcrib-log-")[1])
        for step in (lambda: os.rmdir(mount), lambda: subprocess.run(["umount", "-l", mount]), self.crib.log.unlink,
                     lambda: self.crib.daemon and (self.crib.daemon.kill(), self.crib.daemon.wait())):
            self.addCleanup(step)


def main():
    if not (BUILD / "toolcribd").exists():
        print("skipped: toolcribd is not built")
        sys.exit(77)
    unittest.main(verbosity=2, testRunner=RUNNER)
