#!/usr/bin/env python3
"""make check-cost: what a call costs in instructions, allocations and other counts that are the same on a busy machine.

SP-601: toolcribd under callgrind, between two pings that have it write down what each thread has done, some thousand calls;
then once more under strace, which counts system calls.  A count for each call beside tests/bench/cost.tsv: more than
`percent` above it fails; as much below has to be written there, or the next loss hides in it.  SHA-256's blocks are left out
of the instructions, since valgrind has no instructions for them.

cost.py [--write] [SCENARIO…]   COST_CALLS=1000 is the short mode."""
import atexit
import collections
import contextlib
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
os.environ.setdefault("TOOLCRIB_TEST_DEADLINE", "600")         # a start under callgrind, on a busy machine
import run  # noqa: E402
from run import crib  # noqa: E402

FULL = 4000                     # fewer calls say the same with twice the noise: turns and commits meet others
CALLS = int(os.environ.get("COST_CALLS", str(FULL)))
FILE = pathlib.Path(__file__).with_name("cost.tsv")
# The threads that calls go through: before which function each writes down what it has done.
THREADS = {"loop": "m_ping", "writer": "tenant_set_body"}
# What is counted beside instructions: calls of these.
CALLED = {"allocations": ("malloc", "calloc", "realloc"), "hmacs": ("digest_hmac",), "hashes": ("digest_sha256_parts",),
          "statements": ("sqlite3_reset",), "siphashes": ("crypto_shorthash_siphash24",), "clocks": ("clock_wall_us", "clock_mono_us"),
          "prints": ("__vfprintf_internal",)}
# System calls that do not hang on how many calls meet in one turn or one commit.
SYSTEM = ("read", "write", "getrandom")

MOST_OF_ONE = 0.7               # of an allocation
PERCENT = {"instructions": 2, "allocations": 2, "getrandom": 20}         # of a line that is new; 5 of others


# --- comparing

def compare(known, found, times=1):
    """Lines of what is wrong: counts that grew, counts that shrank and were not written down, counts that one side lacks."""
    wrong = []
    for name in sorted(known.keys() | found.keys()):
        if name not in found:
            wrong.append(f"{' '.join(name)}: not counted any more")
        elif name not in known:
            wrong.append(f"{' '.join(name)}: {found[name]:g}, and {FILE.name} has no line of it")
        else:
            was, percent = known[name]
            now = found[name]
            slack = max(was * percent / 100 * times, 0.05)      # what happens once a turn or a second meets a count of nothing
            if name[2] == "allocations":                        # one more in each call is seen, however many there are
                slack = min(slack, MOST_OF_ONE)
            if now > was + slack:
                wrong.append(f"{' '.join(name)}: {now:g}, and was {was:g}: {change(was, now)}")
            elif now < was - slack:
                wrong.append(f"{' '.join(name)}: {now:g}, and was {was:g}: {change(was, now)}; write it down: make check-cost COST=--write")
    return wrong


def change(was, now):
    return f"{(now - was) / was * 100:+.1f} %" if was else "from nothing"


def read_known(text):
    rows = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    return {tuple(row[:3]): (float(row[3]), float(row[4])) for row in rows}


def write_known(known):
    """The comments stay; a number keeps its percent."""
    head = [line for line in FILE.read_text().splitlines() if line.startswith("#")]
    rows = [f"{a}\t{b}\t{c}\t{value:g}\t{percent:g}" for (a, b, c), (value, percent) in known.items()]
    FILE.write_text("\n".join(head + rows) + "\n")


# --- callgrind's files

class Profile:
    """What one thread did between two dumps: instructions of each function alone, calls of each, and of SHA-256 the blocks."""

    def __init__(self, path):
        self.own, self.calls, names = collections.Counter(), collections.Counter(), {}
        callers, here, other = collections.defaultdict(set), None, None
        self.trigger, skip = None, False
        for line in open(path):
            if line.startswith("desc: Trigger: --dump-before="):
                self.trigger = line.strip().split("=")[1]
            match = re.match(r"(c?fn)=\((\d+)\)(?: (.*))?$", line)
            if match:
                what, number, name = match.groups()
                if name:
                    names[number] = name
                name = names[number].split("'")[0]
                if what == "fn":
                    here = name
                else:
                    other = name
            elif line.startswith("calls="):
                self.calls[other] += int(line[6:].split()[0])
                callers[other].add(here)
                skip = True             # the next line is what was spent below
            elif line[:1] in "0123456789+-*":
                if not skip:
                    self.own[here] += int(line.split()[1]) if " " in line.strip() else 0
                skip = False
        # OpenSSL's block function has no name outside it, only those that call it.
        self.blocks = [name for name in self.own if name.startswith("0x") and
                       any(caller.startswith("SHA256_") for caller in callers[name])]

    def instructions(self):
        return sum(self.own.values()) - sum(self.own[name] for name in self.blocks)

    def called(self, names):
        return sum(self.calls[name] for name in names)


# --- scenarios: how to set up, what load is told

def echo(c):
    c.tool(crib.ECHO)
    return c.tenant("acme", "echo"), ("--expect", run.TEXT, *run.call("echo", '{"text":"%s"}' % run.TEXT))


def listing(c):
    schema = '{type: object, properties: {a: {type: string, description: "%s"}}}' % ("d" * 700)
    c.tool("---\n".join(crib.tool_yaml(f"tool{i:02}", "{type: builtin, function: echo}", schema) for i in range(10)))
    return c.tenant("acme", "tool*"), ("--expect", "tool09", "--method", "tools/list", "--params", "{%s}" % run.META)


def http(c):
    """Of a server beside ours that answers a constant; it ends with this program's life."""
    constant = subprocess.Popen([str(crib.BUILD / "tests/bench/constant"), "100"], stdout=subprocess.PIPE, text=True)
    atexit.register(constant.kill)
    url = f"http://127.0.0.1:{int(constant.stdout.readline())}/"
    c.tool(crib.tool_yaml("ask", "{type: http, url: '%s{?a}', result: text, allow: {private: true}}" % url))
    return c.tenant("acme", "ask"), run.call("ask", '{"a":"b c"}')


def sql(c):
    """One row by its key; the worker that asks is a process of its own, and not counted."""
    file = c.dir / "rows.db"
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, text TEXT)")
        db.executemany("INSERT INTO t VALUES(?, ?)", ((n, f"row {n}") for n in range(1000)))
        db.commit()
    c.tool(crib.tool_yaml("row", f"{{type: sql, database: 'sqlite:{file}', query: 'SELECT text FROM t WHERE id = 500'}}"))
    return c.tenant("acme", "row"), ("--expect", "row 500", *run.call("row", "{}"))


# name: what sets it up, the way in, what load is told, the threads that are looked at (a list is in no record)
SCENARIOS = {"echo-http": (echo, "http", ("--conns", "64"), ("loop", "writer")),
             "echo-lines": (echo, "tcp", ("--lines", "--conns", "16", "--depth", "16"), ("loop", "writer")),
             "list-http": (listing, "http", ("--conns", "64"), ("loop",)),
             "http-tool": (http, "http", ("--conns", "64"), ("loop",)),
             "sql-tool": (sql, "http", ("--conns", "64"), ("loop",))}


def ask(c, name, calls):
    _, transport, how, _ = SCENARIOS[name]
    done = subprocess.run([str(crib.BUILD / "tests/bench/load"), "--port", str(c.address(transport)[1]), "--key", c.cost_key,
                           "--secs", "300", "--requests", str(calls), *how, *c.cost_request], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{name}: {done.stderr}")


def started(name, wrapper):
    c = crib.Crib().init()
    c.cost_key, c.cost_request = SCENARIOS[name][0](c)
    c.cli("tenant", "set", "acme", "--concurrency", "1024")
    # A commit under callgrind, on a machine that does other things too, takes longer than a disk ever may.
    c.start("limits: {requests: 0}\naudit: {deadline_ms: 60000}\n", wrapper=wrapper)
    ask(c, name, max(CALLS // 4, 500))          # pages, contexts, dictionaries: what is there once
    return c


def mark(c, peer):
    """What loop and writer have done up to here goes into files: each when it begins what is asked of it here."""
    peer.ask("ping")
    c.cli("tenant", "set", "acme", "--concurrency", "1024")


def profile(name):
    """Counts of a call by callgrind: (thread, what) -> number.  What a mark itself costs is between the first two."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cost-"))
    c = started(name, ["valgrind", "--tool=callgrind", "--quiet", "--fair-sched=yes", "--separate-threads=yes", "--trace-children=no",
                       *(f"--dump-before={function}" for function in THREADS.values()), f"--callgrind-out-file={folder}/out"])
    peer = c.tcp(c.cost_key)
    peer.initialize()
    mark(c, peer)
    mark(c, peer)
    ask(c, name, CALLS)
    mark(c, peer)
    peer.close()
    c.stop()
    c.close()
    files = [Profile(path) for path in sorted(folder.glob("out.*-*"), key=lambda path: int(path.name[4:].split("-")[0]))]
    found = {}
    for thread in SCENARIOS[name][3]:
        function = THREADS[thread]
        dumps = [p for p in files if p.trigger == function]
        if len(dumps) != 3:
            sys.exit(f"{name}: {len(dumps)} of callgrind's files are of the {thread}, and 3 marks were made")
        counts(found, thread, dumps[1], dumps[2])
        for f, n in dumps[2].own.most_common(int(os.environ.get("COST_TOP", "0"))):
            print(f"{name}\t{thread}\t{n / CALLS:.0f}\t{dumps[2].calls[f] / CALLS:.2f}\t{f}")
    shutil.rmtree(folder)
    return found


def counts(found, thread, empty, p):
    found[thread, "instructions"] = round((p.instructions() - empty.instructions()) / CALLS)
    for what, functions in CALLED.items():
        found[thread, what] = round((p.called(functions) - empty.called(functions)) / CALLS, 2)


def system_calls(name):
    """System calls of a call, of all threads: ("server", what) -> number; none where strace may not look at the server."""
    c = started(name, ())
    report = c.dir / "strace"
    tracer = subprocess.Popen(["strace", "-c", "-f", "-U", "calls,name", "-o", str(report), "-p", str(c.daemon.pid)],
                              stderr=subprocess.PIPE, text=True)
    attached = True
    while True:                                 # it says whom it follows, or why it does not
        line = tracer.stderr.readline()
        if "attached" in line or not line:
            attached = bool(line)
            break
    if not attached:
        print(f"{name}: strace may not follow the server: no system calls are counted", file=sys.stderr)
        found = None
    else:
        ask(c, name, CALLS)
        tracer.send_signal(signal.SIGINT)
        tracer.wait()
        counts = {words[1]: int(words[0]) for words in map(str.split, report.read_text().splitlines())
                  if len(words) == 2 and words[0].isdigit()}
        found = {("server", what): round(counts.get(what, 0) / CALLS, 2) for what in SYSTEM}
    tracer.stderr.close()
    c.stop()
    c.close()
    return found


def main(words):
    write = "--write" in words
    names = [word for word in words if word != "--write"] or list(SCENARIOS)
    known = read_known(FILE.read_text())
    asked = {key: value for key, value in known.items() if key[0] in names}
    found, begun = {}, time.monotonic()
    for name in names:
        traced = system_calls(name)
        if traced is None:
            asked = {key: value for key, value in asked.items() if key[:2] != (name, "server")}
        for (thread, what), value in {**profile(name), **(traced or {})}.items():
            found[name, thread, what] = value
            was = known.get((name, thread, what))
            print(f"{name}\t{thread}\t{what}\t{value:g}" + (f"\t{change(was[0], value)}" if was and was[0] != value else ""), flush=True)
    print(f"{time.monotonic() - begun:.0f} s, {CALLS} calls each")
    if write:
        write_known({**known, **{key: (value, known[key][1] if key in known else PERCENT.get(key[2], 5)) for key, value in found.items()}})
        return 0
    wrong = compare(asked, found, 1 if CALLS >= FULL else 2)
    print("\n".join(f"cost: {line}" for line in wrong) or "cost: as it was")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
