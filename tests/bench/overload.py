#!/usr/bin/env python3
"""make bench-overload SECONDS=120: ten times what the server can do, for two minutes; then the audit is verified.

Short calls first, until the page cache of the store is full: what grows after that is no cache."""
import json
import os
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import fair  # noqa: E402
from fair import call, crib, flood, row_of  # noqa: E402

SECONDS = float(os.environ.get("SECONDS_OF_LOAD", "120"))
SLOTS, SLEEP_MS = 16, 50                # capacity: SLOTS calls that each take so long
WARM_CALLS = 80000                      # more records than 16 MiB of pages hold


def rss_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def pairs(c, tenant):
    """Calls on record, and those of them without an end."""
    rows = c.json("audit", "calls", "--tenant", tenant, "--limit", "0")
    ran = [row for row in rows if row["outcome"] not in ("rate_limited", "overload")]
    return len(ran), sum(row["outcome"] in (None, "unknown", "aborted") for row in ran)


def main():
    c = crib.Crib().init()
    c.tool(crib.ECHO)
    c.tool(crib.tool_yaml("work", "{type: builtin, function: sleep}", "{type: object, properties: {ms: {type: integer}}}"))
    keys = [c.tenant(f"tenant{i}", "work") for i in range(4)]
    warmer = c.tenant("warmer", "echo")
    c.start(f"limits: {{calls: {SLOTS}, queue: 64, wait: 500}}\n")
    port, capacity = c.address("http")[1], SLOTS * 1000 / SLEEP_MS
    options = (*call("work", '{"ms":%d}' % SLEEP_MS), "--conns", "256", "--rate", str(10 * capacity / len(keys)))
    while c.json("status")[0]["counters"]["calls_finished"] < WARM_CALLS:
        row_of(flood(port, "warmer", warmer, *call("echo", '{"text":"warm"}'), "--conns", str(SLOTS), secs=5))
    seen = [rss_kib(c.daemon.pid)]
    done = threading.Event()

    def watch():
        while not done.wait(1):
            seen.append(rss_kib(c.daemon.pid))
    watcher = threading.Thread(target=watch)
    watcher.start()
    floods = [flood(port, f"tenant{i}", key, *options, secs=SECONDS) for i, key in enumerate(keys)]
    rows = [row_of(process) for process in floods]
    done.set()
    watcher.join()
    for row in rows:
        print(json.dumps(row), flush=True)
    status = c.json("status")[0]
    begun = time.monotonic()
    verified = c.run("audit", "verify")
    ran, unfinished = 0, 0
    for i in range(len(keys)):
        n, left = pairs(c, f"tenant{i}")
        ran, unfinished = ran + n, unfinished + left
    print(json.dumps({"label": "overload", "seconds": SECONDS, "capacity_per_s": capacity,
                      "served_per_s": round(sum(row["served"] for row in rows) / SECONDS),
                      "refused_per_s": round(sum(row["refused"] for row in rows) / SECONDS),
                      "wrong": sum(row["wrong"] + row["failed"] for row in rows),
                      "served_p99_ms": round(max(row["p99_us"] for row in rows) / 1000, 1),
                      "refused_p99_ms": round(max(row["refused_p99_us"] for row in rows) / 1000, 1),
                      "rss_kib": {"start": seen[0], "half": seen[len(seen) // 2], "end": seen[-1], "most": max(seen)},
                      "calls_on_record": ran, "calls_without_end": unfinished,
                      "begun": status["counters"]["calls_started"], "ended": status["counters"]["calls_finished"],
                      "verify": verified.returncode, "verify_s": round(time.monotonic() - begun, 1)}), flush=True)
    c.stop()
    c.close()
    sys.exit(verified.returncode or unfinished or 0)


if __name__ == "__main__":
    main()
