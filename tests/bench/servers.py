#!/usr/bin/env python3
"""make bench-servers: echo by the servers that others write, beside ours with its audit, in turn, at 1 and 64 connections.

Each of theirs is one process of Node without authentication, tenants or a record of anything, in the form that its documentation has for
many short requests; where it is faster with one session that all requests share, that is a row as well.  The middle one of three
rounds counts.  Sizes of arguments and answers are equal."""
import http.client
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import run  # noqa: E402
from run import crib, load, out  # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
OLD = "2025-06-18"
KINDS = {"sdk2": "TypeScript SDK 2, 2026-07-28", "sdk1": "TypeScript SDK 1, without sessions", "sdk1-session": "TypeScript SDK 1, one session",
         "fastmcp": "fastmcp of npm, without sessions", "fastmcp-session": "fastmcp of npm, one session"}
PARAMS = '{"name":"echo","arguments":{"text":"%s"}}' % run.TEXT


class Server:
    def __init__(self, kind):
        self.child = subprocess.Popen(["node", "tests/bench/servers/servers.mjs", kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.port, self.pid = int(self.child.stdout.readline()), self.child.pid
        self.options = ["--key", "none", *run.call("echo", '{"text":"%s"}' % run.TEXT)] if kind == "sdk2" else [
            "--key", "none", "--rev", OLD, "--method", "tools/call", "--params", PARAMS]
        if kind.endswith("-session"):
            self.options += ["--session", self.session()]

    def session(self):
        c = http.client.HTTPConnection("127.0.0.1", self.port)
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        c.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": OLD, "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}}), headers)
        answer = c.getresponse()
        answer.read()
        session = answer.headers["Mcp-Session-Id"]
        c.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
                  {**headers, "Mcp-Session-Id": session, "MCP-Protocol-Version": OLD})
        c.getresponse().read()
        c.close()
        return session

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def main():
    c = crib.Crib().init()
    c.tool(crib.ECHO)
    key = c.tenant("acme", "echo")
    c.cli("tenant", "set", "acme", "--concurrency", "1024")
    c.start("limits: {requests: 0}\n")
    for conns in (1, 64):
        rates, cpu = {}, {}

        def measure(label, port, pid, *options):
            row = load(f"{label}, {conns} connections", port, pid, "--conns", str(conns), "--expect", run.TEXT, *options)
            rates.setdefault(label, []).append(row["per_s"])
            cpu.setdefault(label, []).append(row["server_cpu_us"])
        for turn in range(ROUNDS):
            measure("toolcrib, audited", c.address("http")[1], c.daemon.pid, "--key", key, *run.call("echo", '{"text":"%s"}' % run.TEXT))
            for kind, label in KINDS.items():
                server = Server(kind)
                measure(label, server.port, server.pid, *server.options)
                server.close()
        middle = {label: statistics.median(of) for label, of in rates.items()}
        ours = middle.pop("toolcrib, audited")
        best = max(middle, key=middle.get)
        for label in middle:
            out({"label": f"toolcrib / {label}, {conns} connections", "per_s": round(ours / middle[label], 1),
                 "server_cpu": round(statistics.median(cpu["toolcrib, audited"]) / statistics.median(cpu[label]), 3)})
        out({"label": f"toolcrib / the best of them ({best}), {conns} connections", "per_s": round(ours / middle[best], 1), "goal": 10})
    c.stop()
    c.close()


if __name__ == "__main__":
    main()
