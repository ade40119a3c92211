#!/usr/bin/env python3
"""make bench-prune [RECORDS=1000000 PRUNE_TENANTS=100]: SC-G11, a month of every tenant is pruned while others call.

A store over two months is filled, sealed and archived; then BENCH_RATE=2000 calls a second (of a tenant whose month has not ended) go on
for BENCH_SECS=10, alone, twice, then beside `retention prune --keep` of each tenant in turn, over the admin socket.  Said
are seconds of the prune, files and records that went, and the calls' p99 beside that of calls alone."""
import json
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import run  # noqa: E402
from run import crib, out  # noqa: E402

RECORDS, TENANTS = int(os.environ.get("RECORDS", "1000000")), int(os.environ.get("PRUNE_TENANTS", "100"))
SECS, RATE = float(os.environ.get("BENCH_SECS", "10")), os.environ.get("BENCH_RATE", "2000")
DAYS = 62


def begun(c, key):
    return subprocess.Popen([str(crib.BUILD / "tests/bench/load"), "--label", "echo", "--port", str(c.address("http")[1]), "--pid", str(c.daemon.pid),
                             "--key", key, "--conns", "16", "--secs", str(SECS), "--rate", RATE, "--expect", run.TEXT,
                             *run.call("echo", '{"text":"%s"}' % run.TEXT)], stdout=subprocess.PIPE, text=True)


def prune(c, tenants, before):
    """Seconds, and how many had something to prune."""
    began, done = time.monotonic(), 0
    for tenant in tenants:
        rows = c.ask("retention prune", tenant=tenant, before=before, keep=True)
        done += rows is not None
    return time.monotonic() - began, done


def files(c):
    return c.rows("SELECT count(*), coalesce(sum(to_idx - from_idx), 0) FROM seg WHERE log <> 1")[0]


def main():
    c = crib.Crib()
    try:
        c.fill(RECORDS, "--tenants", TENANTS, "--days", DAYS, "--blocks", "2", "--lean")
        tenants = [name for name, in c.rows("SELECT name FROM tenant WHERE name LIKE 'fill%' ORDER BY name")]
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        c.cli("tenant", "set", "acme", "--concurrency", "1024")
        c.cli("approval", "policy", "one")
        place = c.dir / "archive"
        place.mkdir()
        c.start(f"audit: {{archive: {place}}}\nlimits: {{requests: 0}}\n")
        began = time.monotonic()
        c.cli("audit", "seal")
        months = sorted({month for month, in c.rows("SELECT strftime('%Y-%m', ts_max / 1000000, 'unixepoch') FROM seg WHERE log <> 1")})
        sealed = time.monotonic() - began
        c.cli("audit", "archive", "--before", "0s")
        for tenant in tenants:
            c.set_up("retention set", tenant, "--min-days", "1", tenant=tenant, **{"min-days": "1"})
        out({"records": RECORDS, "tenants": len(tenants), "months": months, "sealed_s": round(sealed, 1), "archived_s": round(time.monotonic() - began - sealed, 1)})
        alone = [json.loads(begun(c, key).communicate()[0]) for _ in range(2)]
        left = files(c)
        going = begun(c, key)
        time.sleep(1)
        took, done = prune(c, tenants, "2d")
        beside = json.loads(going.communicate()[0])
        went = [was - now for was, now in zip(left, files(c))]
        out({"label": "prune of sealed months", "tenants": done, "files": went[0], "records": went[1], "seconds": round(took, 2), "goal_s": 5,
             "alone_p99_us": [row["p99_us"] for row in alone], "beside_p99_us": beside["p99_us"], "per_s": [alone[1]["per_s"], beside["per_s"]],
             "load": round(os.getloadavg()[0], 1)})
    finally:
        c.stop()
        c.close()


if __name__ == "__main__":
    main()
