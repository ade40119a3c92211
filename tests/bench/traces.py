#!/usr/bin/env python3
"""make bench-otel: what spans cost a call: the server's CPU for each call of echo at 64 connections, with no collector, with 10 % and
with all of the traces that begin here sampled, in turns (BENCH_PAIRS=5 of BENCH_SECS=5 each); at the end the medians and their ratios
to no collector, which alone compare between machines."""
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "integ"))
import crib  # noqa: E402
import otlp  # noqa: E402

SECS, PAIRS = os.environ.get("BENCH_SECS", "5"), int(os.environ.get("BENCH_PAIRS", "5"))
META = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
ECHO = ("--method", "tools/call", "--params", '{"name":"echo","arguments":{"text":"x"},%s}' % META)


def load(c, key):
    done = subprocess.run([str(crib.BUILD / "tests/bench/load"), "--label", "echo", "--port", str(c.address("http")[1]), "--pid", str(c.daemon.pid),
                           "--key", key, "--conns", "64", "--secs", SECS, *ECHO], stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def main():
    collector = otlp.Collector()
    sorts = {"none": "", **{f"{part} %": f"otel: {{endpoint: '{collector.url}', sample: {part}}}" for part in (10, 100)}}
    spent = {name: [] for name in sorts}
    c = crib.Crib()
    try:
        c.init()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        for _ in range(PAIRS):
            for name, extra in sorts.items():
                c.start(extra)
                row = load(c, key)
                counters = c.status()["counters"]
                c.stop()
                spent[name].append(row["server_cpu_us"])
                print(json.dumps({"sampled": name, **row, "sent": counters["otel_spans_sent"], "dropped": counters["otel_spans_dropped"],
                                  "lost": counters["otel_spans_lost"]}), flush=True)
                collector.bodies.clear()
        middle = {name: statistics.median(of) for name, of in spent.items()}
        print(json.dumps({"median_cpu_us": middle, "ratio": {name: round(of / middle["none"], 3) for name, of in middle.items()}}))
    finally:
        c.close()
        collector.close()


if __name__ == "__main__":
    main()
