#!/usr/bin/env python3
"""make bench-tenants: what calls of 1, 50 and 1,000 tenants come to on one server, over the same connections by one generator.

SC-905, for SC-G6: three rounds, each asks all in turn, each begins with another; the middle one of the ratios to one tenant
counts, and CPU per request.  The store grows alike for all.  With arguments, other numbers of tenants, the first for one.

A-G07: meanwhile ten times a second a tenant is asked how old its oldest record is that no signed note covers."""
import os
import pathlib
import random
import sqlite3
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import run  # noqa: E402
from run import crib, load, out  # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
CONNS = os.environ.get("BENCH_CONNS", "64")
TENANTS = [1, 50, 1000]


class Unsigned(threading.Thread):
    """Ages in ms of the oldest record without a note, of one tenant after the other, as the store has it from outside."""

    def __init__(self, c, n):
        super().__init__()
        self.c, self.n, self.ages, self.over = c, n, [], threading.Event()
        self.start()

    def run(self):
        db = sqlite3.connect(f"file:{self.c.store}/toolcrib.db?mode=ro", uri=True)
        logs = [log for log, in db.execute("SELECT l.id FROM log l JOIN tenant t ON t.id = l.tenant_id ORDER BY t.name LIMIT ?", (self.n,))]
        while not self.over.wait(0.1):
            row = db.execute("SELECT ts FROM rec_tail WHERE log = ?1 AND idx >= (SELECT max(size) FROM cp WHERE log = ?1) "
                             "ORDER BY span, idx LIMIT 1", (random.choice(logs),)).fetchone()
            self.ages.append(max(time.time() * 1000 - row[0] / 1000, 0) if row else 0)
        db.close()

    def say(self):
        self.over.set()
        self.join()
        ages = sorted(self.ages) or [0]
        out({"label": f"oldest record without a note, {self.n} tenants", "samples": len(ages), "p50_ms": round(ages[len(ages) // 2]),
             "p99_ms": round(ages[len(ages) * 99 // 100]), "max_ms": round(ages[-1]), "goal_ms": 1000})


def tenants(c, n):
    """That many, each with a key that may call echo and no bound that one of them would meet before the others."""
    keys = []
    for i in range(n):
        name = f"tenant{i:04}"
        c.set_up("tenant add", name, name=name)
        c.set_up("grant add", name, "echo", tenant=name, tool=["echo"])
        c.set_up("tenant set", name, "--concurrency", "1024", name=name, concurrency="1024")
        keys.append(c.key(f"{name}/bot"))
    return keys


def main(numbers):
    c = crib.Crib().init()
    c.tool(crib.ECHO)
    c.start("limits: {requests: 0}\n")
    keys = tenants(c, max(numbers))
    files = {}
    for n in numbers:
        files[n] = c.dir / f"keys-{n}"
        files[n].write_text("".join(f"{key}\n" for key in keys[:n]))
    rows = {n: [] for n in numbers}
    for turn in range(ROUNDS):
        at = turn % len(numbers)
        for n in numbers[at:] + numbers[:at]:
            unsigned = Unsigned(c, n)
            rows[n].append(load(f"tools/call echo, {n} tenants", c.address("http")[1], c.daemon.pid, "--tokens", str(files[n]),
                                "--conns", CONNS, "--expect", run.TEXT, *run.call("echo", '{"text":"%s"}' % run.TEXT)))
            unsigned.say()
    for n in numbers[1:]:
        ratio = {what: statistics.median(there[what] / one[what] for there, one in zip(rows[n], rows[numbers[0]]))
                 for what in ("per_s", "server_cpu_us")}
        out({"label": f"{n} tenants / {numbers[0]}, {CONNS} connections, median of {ROUNDS} rounds", "per_s": round(ratio["per_s"], 2),
             "server_cpu": round(ratio["server_cpu_us"], 2), "goal": 0.9, "load": os.getloadavg()[0]})
    c.stop()
    c.close()


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or TENANTS)
