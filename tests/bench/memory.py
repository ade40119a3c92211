#!/usr/bin/env python3
"""make bench-memory: SP-G10, what the server holds idle, under load and behind it, and what a connection costs.

One JSON line each.  MEMORY_REST=10: seconds between the end of the load and the reading."""
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import run  # noqa: E402
from run import crib  # noqa: E402

SECS = float(os.environ.get("BENCH_SECS", "10"))
REST = float(os.environ.get("MEMORY_REST") or "10")
IDLE = 1000


def mib(pid):
    return round(run.rss(pid) / 1024, 1)


def started(c):
    begun = time.monotonic()
    c.start("limits: {requests: 0}\n")
    run.out({"label": "start, one tenant", "start_ms": round((time.monotonic() - begun) * 1000)})
    time.sleep(REST)
    run.out({"label": "idle", "rss_mib": mib(c.daemon.pid)})


def load(c, key, lister):
    pid, port = c.daemon.pid, c.address("http")[1]
    run.load("echo, 64 connections", port, pid, "--key", key, "--conns", "64", "--expect", run.TEXT,
             *run.call("echo", '{"text":"%s"}' % run.TEXT), secs=SECS)
    most = mib(pid)
    time.sleep(REST)
    run.out({"label": "echo, 64 connections", "rss_mib": most, f"{REST:g}_s_later_mib": mib(pid)})
    run.load("echo, 256 connections, 8 KiB", port, pid, "--key", key, "--conns", "256",
             *run.call("echo", '{"text":"%s"}' % ("x" * 8192)), secs=SECS)
    run.load("tools/list, 64 connections", port, pid, "--key", lister, "--conns", "64", "--method", "tools/list", "--params",
             "{%s}" % run.META, secs=SECS / 2)
    run.load("a program for each call", port, pid, "--key", key, "--conns", "8", *run.call("exec_true", "{}"), secs=SECS / 2)
    most = mib(pid)
    time.sleep(REST)
    run.out({"label": "a mix", "rss_mib": most, f"{REST:g}_s_later_mib": mib(pid)})


def connections(c, key):
    before = run.rss(c.daemon.pid)
    peers = [c.tcp(key) for _ in range(IDLE)]
    time.sleep(1)
    run.out({"label": f"{IDLE} connections", "kib_each": round((run.rss(c.daemon.pid) - before) / IDLE, 2)})
    for peer in peers:
        peer.initialize()
    run.out({"label": f"{IDLE} connections with a session", "kib_each": round((run.rss(c.daemon.pid) - before) / IDLE, 2)})
    for peer in peers:
        peer.close()


if __name__ == "__main__":
    crib_, key_, lister_ = run.crib_with_tools()
    started(crib_)
    connections(crib_, key_)            # before the load, whose memory they would find free
    load(crib_, key_, lister_)
    crib_.stop()
    crib_.close()
    run.many_tenants()
