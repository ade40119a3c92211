#!/usr/bin/env python3
"""make bench-fair: a tenant that calls quietly, alone and while another floods at ten times its share; a line each.

The flood runs at a lower priority: it would come from another machine.  Figures of one run compare, others do not."""
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "integ"))
import crib  # noqa: E402

SECS = float(os.environ.get("BENCH_SECS", "5"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SHARE = 200                             # calls and messages a second that the flooding tenant may have
META = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'


def call(tool, arguments="{}"):
    return ("--method", "tools/call", "--params", '{"name":"%s","arguments":%s,%s}' % (tool, arguments, META))


FLOODS = {
    "lists": ("--method", "tools/list", "--params", "{%s}" % META, "--conns", "64", "--rate", str(10 * SHARE)),
    "calls": (*call("echo", '{"text":"flood"}'), "--conns", "64", "--rate", str(10 * SHARE)),
    "slow calls": (*call("slow", '{"ms":200}'), "--conns", "256", "--rate", str(10 * SHARE)),
    "listens": ("--kind", "listen", "--method", "subscriptions/listen", "--conns", "1000", "--rate", str(10 * SHARE),
                "--params", '{"notifications":{"toolsListChanged":true},%s}' % META),
    "connections": ("--kind", "connect", "--conns", "64", "--rate", str(10 * SHARE)),
    "slow bodies": ("--kind", "slow", *call("echo", '{"text":"%s"}' % ("x" * 2000)), "--conns", "500"),
    "big results": (*call("big"), "--conns", "64", "--rate", str(10 * SHARE)),
}


def flood(c, label, key, *options, secs=SECS, nice=True):
    return subprocess.Popen([*(("nice", "-n", "10") if nice else ()), str(crib.BUILD / "tests/bench/flood"), "--label", label,
                             "--port", str(c.address("http")[1]), "--key", key, "--secs", str(secs), *options],
                            stdout=subprocess.PIPE, text=True)


def row_of(process):
    return json.loads(process.communicate()[0])


def quiet(c, key, label):
    """The other tenant: a hundred calls a second over four connections."""
    return row_of(flood(c, label, key, *call("echo", '{"text":"quiet"}'), "--expect", "quiet", "--conns", "4", "--rate", "100",
                        nice=False))


def main():
    c = crib.Crib().init()
    c.tool(crib.ECHO)
    c.tool(crib.tool_yaml("slow", "{type: builtin, function: sleep}", "{type: object, properties: {ms: {type: integer}}}"), "slow.yaml")
    c.tool(crib.tool_yaml("big", "{type: static, text: %s}" % ("x" * 200000), extra="limits: {result: 1MiB}\n"), "big.yaml")
    loud = c.tenant("loud", "echo", "slow", "big")
    calm = c.tenant("calm", "echo")
    c.cli("limit", "set", "loud", "--rate", f"{SHARE}/s", "--requests", f"{SHARE}/s", "--concurrency", "16", "--queue", "32")
    c.start()
    worst = 0
    for name, options in FLOODS.items():
        ratios, lines, failures = [], [], 0
        for _ in range(ROUNDS):         # in turn, the middle one counts: the machine's speed drifts
            alone = quiet(c, calm, "alone")
            attack = flood(c, name, loud, *options, secs=SECS + 3)
            beside = quiet(c, calm, "beside")
            attack = row_of(attack)
            ratios.append(beside["p99_us"] / alone["p99_us"])
            failures += beside["refused"] + beside["wrong"] + beside["failed"]
            lines.append((ratios[-1], alone, beside, attack))
        ratio, alone, beside, attack = sorted(lines, key=lambda line: line[0])[len(lines) // 2]
        worst = max(worst, statistics.median(ratios))
        print(json.dumps({"flood": name, "p99_ratio": round(ratio, 2), "alone_p99_us": alone["p99_us"],
                          "beside_p99_us": beside["p99_us"], "failures": failures, "flood_served_per_s": round(attack["served"] / (SECS + 3)),
                          "flood_refused_per_s": round(attack["refused"] / (SECS + 3)), "flood_wrong": attack["wrong"]}), flush=True)
    print(json.dumps({"flood": "worst of all", "p99_ratio": round(worst, 2), "goal": 2}), flush=True)
    c.stop()
    c.close()


if __name__ == "__main__":
    main()
