#!/usr/bin/env python3
"""make bench: one JSON line a scenario, each with its baseline in the same run (these machines are noisy: quote ratios).

The baseline of a call is the same server with the store's durability off (only a bench build has that switch); the
baseline of a list is a server that answers a constant of the same size through the same HTTP front."""
import json
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "integ"))
import crib  # noqa: E402

SECS = float(os.environ.get("BENCH_SECS", "5"))
META = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
TEXT = "x" * 100


def out(row):
    print(json.dumps(row), flush=True)
    return row


def load(label, port, pid, *options, secs=SECS):
    done = subprocess.run([str(crib.BUILD / "tests/bench/load"), "--label", label, "--port", str(port), "--pid", str(pid),
                           "--secs", str(secs), *options], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{label}: {done.stderr}")
    return out(json.loads(done.stdout))


def call(tool, arguments):
    return ("--method", "tools/call", "--params", '{"name":"%s","arguments":%s,%s}' % (tool, arguments, META))


def crib_with_tools():
    c = crib.Crib().init()
    c.tool(crib.ECHO)
    c.tool(crib.tool_yaml("exec_true", '{type: exec, argv: [/bin/true], stdin: none, output: text}'), "true.yaml")
    big = '{type: object, properties: {a: {type: string, description: "%s"}}}' % ("d" * 1800)
    c.tool("---\n".join(crib.tool_yaml(f"tool{i:03}", "{type: builtin, function: echo}", big) for i in range(100)), "many.yaml")
    key = c.tenant("acme", "echo", "exec_true")
    lister = c.tenant("lister", "tool*")
    c.cli("tenant", "set", "acme", "--concurrency", "1024")
    return c, key, lister


def signing():
    """What checkpoints cost: two stores alike, one of them never signed, in turns."""
    cribs = [crib_with_tools()[:2] for _ in range(2)]
    rates, cpu = {0: [], 1: []}, {0: 0, 1: 0}
    for i, (c, _) in enumerate(cribs):
        c.start(env={} if i == 0 else {"TOOLCRIB_BENCH_NOSIGN": "1"})
    for turn in range(int(os.environ.get("BENCH_TURNS", "3"))):
        for i in (turn % 2, 1 - turn % 2):
            c, key = cribs[i]
            row = load(f"tools/call echo, HTTP, {'never signed (baseline)' if i else 'signed'}", c.address("http")[1], c.daemon.pid,
                       "--key", key, "--conns", "64", "--expect", TEXT, *call("echo", '{"text":"%s"}' % TEXT))
            rates[i].append(row["per_s"])
            cpu[i] += row["server_cpu_us"]
    out({"label": "calls with checkpoints / without", "per_s": round(sum(rates[0]) / sum(rates[1]), 3),
         "server_cpu": round(cpu[0] / cpu[1], 3)})
    for c, _ in cribs:
        c.close()


def calls():
    c, key, lister = crib_with_tools()
    rates = {}
    for label, env in (("durable", {}), ("not durable (baseline)", {"TOOLCRIB_BENCH_NOSYNC": "1"})):
        c.start("limits: {requests: 0}\n", env=env)
        pid = c.daemon.pid
        if not env:
            out({"label": "idle", "server_rss_kib": rss(pid)})
        for conns in (1, 64):
            row = load(f"tools/call echo, HTTP, {label}", c.address("http")[1], pid, "--key", key, "--conns", str(conns),
                       "--expect", TEXT, *call("echo", '{"text":"%s"}' % TEXT))
            rates[label, conns] = row["per_s"]
        load(f"tools/call echo, TCP lines, {label}", c.address("tcp")[1], pid, "--key", key, "--lines", "--conns", "16",
             "--depth", "16", "--expect", TEXT, *call("echo", '{"text":"%s"}' % TEXT))
        if not env:
            load("tools/call exec /bin/true", c.address("http")[1], pid, "--key", key, "--conns", "1",
                 *call("exec_true", "{}"))
            listing(c, lister)
        c.stop()
    for conns in (1, 64):
        durable, baseline = rates["durable", conns], rates["not durable (baseline)", conns]
        out({"label": f"durable / not durable, {conns} connections", "ratio": round(durable / baseline, 2)})
    c.close()


def interpreted():
    """A Python tool, started for each call and kept between calls."""
    c = crib.Crib().init()
    script = pathlib.Path(__file__).with_name("worker.py").resolve()
    for name, more in (("spawned", ""), ("reused", ", reuse: 4")):
        c.tool(crib.tool_yaml(name, f"{{type: exec, argv: [/usr/bin/python3, {script}], output: stream{more}}}"), f"{name}.yaml")
    key = c.tenant("acme", "spawned", "reused")
    c.start()
    rates = {}
    for conns in (1, 4, 24):
        ratios = []
        for _ in range(3):      # in turn, the middle one counts: the machine's speed drifts
            for name in ("spawned", "reused"):
                row = load(f"tools/call of a Python program, {name}", c.address("http")[1], c.daemon.pid, "--key", key,
                           "--conns", str(conns), "--expect", TEXT, *call(name, '{"text":"%s"}' % TEXT), secs=SECS / 2)
                rates[name] = row["per_s"]
            ratios.append(rates["reused"] / rates["spawned"])
        out({"label": f"reused / spawned, {conns} connections, median of 3 pairs", "ratio": round(sorted(ratios)[1], 1)})
    c.stop()
    c.close()


def listing(c, key):
    peer = c.http(key)
    body = json.dumps(peer.request("tools/list", {}, crib.MODERN))
    size = len(peer.post(body, peer.headers(json.loads(body)))[2])
    constant = subprocess.Popen([str(crib.BUILD / "tests/bench/constant"), str(size)], stdout=subprocess.PIPE, text=True)
    port = int(constant.stdout.readline())
    ratios = []
    for _ in range(5):      # in turn, the middle one counts: the machine's speed drifts
        row = load("tools/list of 100 tools", c.address("http")[1], c.daemon.pid, "--key", key, "--conns", "64",
                   "--method", "tools/list", "--params", "{%s}" % META, "--expect", "tool099", secs=SECS / 2)
        base = load(f"constant answer of {size} bytes (baseline)", port, constant.pid, "--conns", "64", secs=SECS / 2)
        ratios.append(row["per_s"] / base["per_s"])
    constant.kill()
    constant.wait()
    out({"label": "tools/list / constant answer, median of 5 pairs", "ratio": round(sorted(ratios)[2], 2)})


def http_tools():
    """An http tool that asks a constant server, beside a plain loop of libcurl that asks the same one."""
    constant = subprocess.Popen([str(crib.BUILD / "tests/bench/constant"), "100"], stdout=subprocess.PIPE, text=True)
    url = f"http://127.0.0.1:{int(constant.stdout.readline())}/"
    c = crib.Crib().init()
    c.tool(crib.tool_yaml("ask", "{type: http, url: '%s{?a}', result: text, allow: {private: true}}" % url))
    key = c.tenant("acme", "ask")
    c.cli("tenant", "set", "acme", "--concurrency", "1024")
    c.start()
    for conns in ("64", "256"):
        ratios = []
        for _ in range(5):
            row = load("tools/call http, durable", c.address("http")[1], c.daemon.pid, "--key", key, "--conns", conns,
                       *call("ask", '{"a":"b c"}'), secs=SECS / 2)
            done = subprocess.run([str(crib.BUILD / "tests/bench/b_curl"), url + "?a=b%20c", conns, str(SECS / 2)],
                                  capture_output=True, text=True, check=True)
            ratios.append(row["per_s"] / out(json.loads(done.stdout))["per_s"])
        out({"label": f"http tool / plain libcurl loop, {conns} connections, median of 5 pairs", "ratio": round(sorted(ratios)[2], 2)})
    c.stop()
    c.close()
    constant.kill()
    constant.wait()


def rss(pid):
    return int(next(line for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS:")).split()[1])


def many_tenants():
    """1,000 tenants with 50 granted tools of 2 KB each: start-up time and memory."""
    c = crib.Crib().init()
    schema = '{type: object, properties: {a: {type: string, description: "%s"}}}' % ("d" * 1850)
    c.start()
    for i in range(20):
        c.tool("---\n".join(crib.tool_yaml(f"tool{i * 50 + j:04}", "{type: builtin, function: echo}", schema) for j in range(50)))
    for i in range(1000):
        c.cli("tenant", "add", f"tenant{i:04}")
        c.cli("grant", "add", f"tenant{i:04}", f"tool{i % 100:03}?",
              *[f"tool{(i + k) % 100:03}?" for k in range(1, 5)])
    c.stop()
    begun = time.monotonic()
    c.start()
    out({"label": "1,000 tenants x 50 tools of 2 KB", "start_s": round(time.monotonic() - begun, 2), "server_rss_kib": rss(c.daemon.pid)})
    c.stop()
    c.close()


def upstreams():
    """A tool of an upstream process that echoes, beside our own echo: rate, and what the way there adds."""
    c = crib.Crib().init()
    c.tool(crib.ECHO)
    c.cli("upstream", "add", "e", "--command", crib.BUILD.resolve() / "tests/peers/mcp_echo")
    key = c.tenant("acme", "echo", "e_*")
    c.cli("tenant", "set", "acme", "--concurrency", "1024")
    c.start(env={"TOOLCRIB_BENCH_NOSYNC": "1"})     # the way to the upstream is measured, not the disk
    c.cli("upstream", "sync", "e")
    port, pid, arguments = c.address("http")[1], c.daemon.pid, '{"text":"%s"}' % TEXT
    for conns in (1, 64):
        added, rates = [], []
        for _ in range(5):      # in turn, the middle one counts: the machine's speed drifts
            own, there = (load(f"tools/call {label}, {conns} connections", port, pid, "--key", key, "--conns", str(conns),
                               "--expect", TEXT, *call(tool, arguments), secs=SECS / 2)
                          for label, tool in (("builtin echo (baseline)", "echo"), ("echo of an upstream", "e_echo")))
            added.append(there["p50_us"] - own["p50_us"])
            rates.append(there["per_s"])
        out({"label": f"upstream, {conns} connections, median of 5 pairs", "per_s": sorted(rates)[2],
             "added_p50_us": sorted(added)[2]})
    c.stop()
    c.close()


SCENARIOS = {"calls": calls, "signing": signing, "interpreted": interpreted, "http_tools": http_tools, "upstreams": upstreams,
             "many_tenants": many_tenants}

if __name__ == "__main__":
    for name in sys.argv[1:] or SCENARIOS:
        SCENARIOS[name]()
