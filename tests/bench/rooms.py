#!/usr/bin/env python3
"""make bench-rooms [BASE=commit]: calls/s and CPU of a call by each kind of handler, beside echo in the same run (SP-603).

All tools are on one server; each round asks all in an order of chance, and the middle one of the rounds counts.  server_cpu_us is the
server's alone, beside_us that of all processes which it has started: workers, programs, upstreams; not of the server that an http
tool asks.  With another build (rooms.py FOLDER) each room is asked of both in each round, and the ratios of a round count: this one
to that one.  BENCH_ROUNDS, BENCH_SECS, BENCH_CONNS; ROOMS='sql exec' asks these alone, and echo."""
import atexit
import contextlib
import os
import pathlib
import random
import sqlite3
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import run  # noqa: E402
from run import crib, load, out  # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
CONNS = os.environ.get("BENCH_CONNS", "64")
HERE = pathlib.Path(__file__).parent
TEXT = '{"text":"%s"}' % run.TEXT
TICKS = os.sysconf("SC_CLK_TCK")
# name: tool, arguments, what an answer has
ROOMS = {"echo": ("echo", TEXT, run.TEXT), "sql": ("row", '{"id":500}', "row 500"), "exec, reused": ("reused", TEXT, run.TEXT),
         "exec, started": ("started", "{}", None), "http": ("ask", '{"a":"b c"}', None), "mcp, stdio": ("e_echo", TEXT, run.TEXT)}


def constant():
    """A server beside ours that answers a constant; it ends with this program."""
    asked = subprocess.Popen([str(crib.BUILD / "tests/bench/constant"), "100"], stdout=subprocess.PIPE, text=True)
    atexit.register(asked.kill)
    return f"http://127.0.0.1:{int(asked.stdout.readline())}/"


def rows(path):
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, text TEXT)")
        db.executemany("INSERT INTO t VALUES(?, ?)", ((n, f"row {n}") for n in range(1000)))
        db.commit()
    return path


def handlers(c, names):
    """The blocks of these tools, but echo and those of the upstream."""
    blocks = {"row": lambda: f"{{type: sql, database: 'sqlite:{rows(c.dir / 'rows.db')}', query: 'SELECT text FROM t WHERE id = :id'}}",
              "reused": lambda: f"{{type: exec, argv: [/usr/bin/python3, {HERE.resolve() / 'worker.py'}], output: stream, reuse: 4}}",
              "started": lambda: "{type: exec, argv: [/bin/true], stdin: none, output: text}",
              "ask": lambda: "{type: http, url: '%s{?a}', result: text, allow: {private: true}}" % constant()}
    return {name: blocks[name]() for name in blocks if name in names}


def served(build, names, echo):
    here, crib.BUILD = crib.BUILD, pathlib.Path(build)
    c = crib.Crib()
    c.must(["init"])                    # by this build: what others have made ready is not shared
    c.tool(crib.ECHO)
    for name, handler in handlers(c, names).items():
        c.tool(crib.tool_yaml(name, handler), f"{name}.yaml")
    if "e_echo" in names:
        c.cli("upstream", "add", "e", "--command", echo)
    c.load_key = c.tenant("acme", *(name.replace("e_echo", "e_*") for name in names))
    c.cli("tenant", "set", "acme", "--concurrency", "1024")
    c.start("limits: {requests: 0}\n")
    if "e_echo" in names:
        c.cli("upstream", "sync", "e")
    crib.BUILD = here
    return c


def beside(server):
    """Seconds of processor of all that the server has started, and of what these have seen end."""
    ticks = 0
    for pid in crib.below(server):
        with contextlib.suppress(OSError):
            ticks += sum(map(int, open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[11:15]))
    return ticks / TICKS


def ask(c, room, label):
    tool, arguments, expected = ROOMS[room]
    before = beside(c.daemon.pid)
    conns = CONNS if room != "exec, started" else "8"
    row = load(f"{room}, {label}", c.address("http")[1], c.daemon.pid, "--key", c.load_key, "--conns", conns,
               *(("--expect", expected) if expected else ()), *run.call(tool, arguments))
    row["beside_us"] = (beside(c.daemon.pid) - before) / (row["per_s"] * run.SECS) * 1e6
    return row


def told(room, label, mine, others):
    """The middle one of what a round has found, and how far the rounds are apart."""
    row = {"label": f"{room}, {label}, median of {len(mine)} rounds"}
    for what in ("per_s", "server_cpu_us"):
        ratios = [a[what] / b[what] for a, b in zip(mine, others)]
        row[what] = round(statistics.median(found[what] for found in mine), 1)
        row[f"{what} ratio"] = round(statistics.median(ratios), 3)
        row[f"{what} ratios"] = [round(min(ratios), 3), round(max(ratios), 3)]
    row["p50_us"] = statistics.median(found["p50_us"] for found in mine)
    row["beside_us"] = round(statistics.median(found["beside_us"] for found in mine), 1)
    out(row)


def main(other):
    words = os.environ.get("ROOMS", "").split()
    rooms = [room for room in ROOMS if room == "echo" or not words or any(word in room for word in words)]
    names, echo = [ROOMS[room][0] for room in rooms], (crib.BUILD / "tests/peers/mcp_echo").resolve()
    servers = {"this": served(crib.BUILD, names, echo)}
    if other:
        servers["base"] = served(other, names, echo)
    found = {key: [] for key in ((name, room) for name in servers for room in rooms)}
    for turn in range(ROUNDS + 1):
        for name, room in random.sample(list(found), len(found)):
            row = ask(servers[name], room, name)
            if turn:            # the first one warms
                found[name, room].append(row)
    for room in rooms:
        told(room, "beside echo", found["this", room], found["this", "echo"])
    for room in rooms if other else ():
        told(room, "this build / base", found["this", room], found["base", room])
    for c in servers.values():
        c.stop()
        c.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
