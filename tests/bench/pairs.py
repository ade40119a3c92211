#!/usr/bin/env python3
"""make bench-pairs BASE=commit: this build beside that of a commit, on the same machine at the same time.

SP-602: three servers, each with a store of its own: this build, the other one, and the other one once more, which says what
the machine does to two that are the same.  Each round asks all in an order of chance; the ratios of a round count, and the
middle one of them.  No verdict where the twins differ by half of what is found.  BENCH_ROUNDS, BENCH_SECS, BENCH_CONNS.

pairs.py FOLDER-OF-THE-OTHER-BUILD"""
import os
import pathlib
import random
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import run  # noqa: E402
from run import crib, load, out  # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
CONNS = os.environ.get("BENCH_CONNS", "64")
WHATS = {"per_s": "requests/s", "server_cpu_us": "CPU a request"}


def machine():
    """Ticks of all processors: stolen by the host, all together."""
    words = [int(word) for word in open("/proc/stat").readline().split()[1:]]
    return words[7], sum(words[:8])


def served(build):
    here, crib.BUILD = crib.BUILD, pathlib.Path(build)
    c = crib.Crib()
    c.must(["init"])                    # by this build: what others have made ready is not shared
    c.tool(crib.ECHO)
    c.load_key = c.tenant("acme", "echo")
    c.cli("tenant", "set", "acme", "--concurrency", "1024")
    c.start("limits: {requests: 0}\n")
    crib.BUILD = here
    return c


def main(other):
    servers = {"this": served(crib.BUILD), "base": served(other), "twin": served(other)}
    rows = {name: [] for name in servers}
    stolen, ticks = machine()
    for turn in range(ROUNDS + 1):
        for name in random.sample(list(servers), len(servers)):
            c = servers[name]
            row = load(f"tools/call echo, {name}", c.address("http")[1], c.daemon.pid, "--key", c.load_key, "--conns", CONNS,
                       "--expect", run.TEXT, *run.call("echo", '{"text":"%s"}' % run.TEXT))
            if turn:            # the first one warms
                rows[name].append(row)
    stolen, ticks = machine()[0] - stolen, machine()[1] - ticks
    for what, words in WHATS.items():
        ratio = {name: statistics.median(a[what] / b[what] for a, b in zip(rows[name], rows["base"])) for name in ("this", "twin")}
        best = max if what == "per_s" else min
        found, noise = abs(ratio["this"] - 1), abs(ratio["twin"] - 1)
        out({"label": f"{words}, this build / base, median of {ROUNDS} pairs", "ratio": round(ratio["this"], 3),
             "twins": round(ratio["twin"], 3), "best": {name: best(row[what] for row in rows[name]) for name in rows},
             "verdict": "none: two that are the same differ by half of it" if noise * 2 > found else "faster"
             if (ratio["this"] > 1) == (what == "per_s") else "slower", "stolen_percent": round(stolen / ticks * 100, 1),
             "load": os.getloadavg()[0]})
    for c in servers.values():
        c.stop()
        c.close()


if __name__ == "__main__":
    main(sys.argv[1])
