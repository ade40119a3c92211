#!/usr/bin/env python3
"""make bench-fair: a tenant that calls quietly, alone and while another floods at ten times its share; a line each.

The flood runs at a lower priority: it would come from another machine.  What it takes of this one all the same is measured
apart: "unrelated" is the quiet tenant beside the same flood to a server of constant answers.  p99 is the median of the rounds.
Figures of one run compare, others do not.  With arguments only these floods."""
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "integ"))
import crib  # noqa: E402

SECS = float(os.environ.get("BENCH_SECS", "5"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
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


def flood(port, label, key, *options, secs=SECS, nice=True):
    return subprocess.Popen([*(("nice", "-n", "10") if nice else ()), str(crib.BUILD / "tests/bench/flood"), "--label", label,
                             "--port", str(port), "--key", key, "--secs", str(secs), *options], stdout=subprocess.PIPE, text=True)


def row_of(process):
    return json.loads(process.communicate()[0])


def quiet(port, key, label):
    """The other tenant: a hundred calls a second over four connections."""
    row = row_of(flood(port, label, key, *call("echo", '{"text":"quiet"}'), "--expect", "quiet", "--conns", "4", "--rate", "100",
                       nice=False))
    if not row["served"]:
        sys.exit(f"the quiet tenant was not served at all: {row}")
    return row


def rounds(ports, keys, name, options):
    """The quiet tenant alone, beside that flood to another server, and beside it to its own, in turn: the machine drifts."""
    rows = {"alone": [], "unrelated": [], "beside": [], "flood": []}
    for _ in range(ROUNDS):
        rows["alone"].append(quiet(ports["crib"], keys["calm"], "alone"))
        for where, port in (("unrelated", ports["constant"]), ("beside", ports["crib"])):
            attack = flood(port, name, keys["loud"], *options, secs=SECS + 3)
            rows[where].append(quiet(ports["crib"], keys["calm"], where))
            attack = row_of(attack)
        rows["flood"].append(attack)
    return rows


def report(name, rows):
    """One line; the ratio to the quiet value."""
    p99 = {where: statistics.median(row["p99_us"] for row in rows[where]) for where in ("alone", "unrelated", "beside")}
    ratio = p99["beside"] / p99["alone"]
    failures = sum(row["refused"] + row["wrong"] + row["failed"] for row in rows["beside"])
    per_s = {what: round(statistics.median(row[what] for row in rows["flood"]) / (SECS + 3)) for what in ("served", "refused", "opened")}
    print(json.dumps({"flood": name, "p99_ratio": round(ratio, 2), "p99_ratio_to_unrelated": round(p99["beside"] / p99["unrelated"], 2),
                      **{f"{where}_p99_us": round(us) for where, us in p99.items()}, "failures": failures,
                      **{f"flood_{what}_per_s": n for what, n in per_s.items()},
                      "flood_wrong": sum(row["wrong"] for row in rows["flood"])}), flush=True)
    return ratio, failures


def main():
    c = crib.Crib().init()
    constant = subprocess.Popen(["nice", "-n", "10", str(crib.BUILD / "tests/bench/constant"), "300"], stdout=subprocess.PIPE, text=True)
    try:
        c.tool(crib.ECHO)
        c.tool(crib.tool_yaml("slow", "{type: builtin, function: sleep}", "{type: object, properties: {ms: {type: integer}}}"), "slow.yaml")
        c.tool(crib.tool_yaml("big", "{type: static, text: %s}" % ("x" * 200000), extra="limits: {result: 1MiB}\n"), "big.yaml")
        keys = {"loud": c.tenant("loud", "echo", "slow", "big"), "calm": c.tenant("calm", "echo")}
        c.cli("limit", "set", "loud", "--rate", f"{SHARE}/s", "--requests", f"{SHARE}/s", "--concurrency", "16", "--queue", "32")
        c.start()
        ports = {"crib": c.address("http")[1], "constant": int(constant.stdout.readline())}
        quiet(ports["crib"], keys["calm"], "warm")
        only = sys.argv[1:] or FLOODS
        seen = [report(name, rounds(ports, keys, name, FLOODS[name])) for name in only]
        print(json.dumps({"flood": "worst of all", "p99_ratio": round(max(ratio for ratio, _ in seen), 2), "goal": 2,
                          "failures": sum(failures for _, failures in seen)}), flush=True)
        c.stop()
    finally:
        constant.kill()
        constant.wait()
        c.close()


if __name__ == "__main__":
    main()
