#!/usr/bin/env python3
"""make bench-tasks: what a call pays that may become a task and does not, how many tasks a second are made and end durably, what
asking for one costs, and what many that are parked cost a server: memory, start, the times of other calls (TASKS_PARKED of them).
Two rows say by how much a figure misses its aim, and then it fails."""
import json
import os
import pathlib
import re
import sqlite3
import statistics
import sys
import time

sys.path.append(str(pathlib.Path(__file__).parent.parent / "integ"))       # behind this folder, whose run.py is meant
import crib  # noqa: E402
import run  # noqa: E402

PAIRS, STARTS, PARKED = 9, 5, int(os.environ.get("TASKS_PARKED", "100000"))
TENANTS, PRINCIPALS = 10, 10            # of those that are parked, of each tenant
EXT = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
META = run.META.replace('clientCapabilities":{}', 'clientCapabilities":' + json.dumps({**EXT, "elicitation": {}}).replace(" ", ""))
ARGUMENTS = '{"text":"%s"}' % run.TEXT
TEXT = "{type: object, properties: {text: {type: string}}}"
ASK = json.dumps({"ask": {"requests": {"q": {"method": "elicitation/create", "params": {
    "message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}}}}}).replace("{", "{{").replace("}", "}}")
missed = []


def aim(label, value, most=None, least=None, **more):
    late = (most is not None and value > most) or (least is not None and value < least)
    if late:
        missed.append(label)
    run.out({"label": label, "value": round(value, 2), "aim": most if most is not None else least, "missed": late, **more})


def message(method, name=None, **params):
    """Its words for the generator of load; what is called by name."""
    text = json.dumps({**params, **({"name": name} if name else {})})[:-1]
    return "--method", method, "--params", text + (", " if params or name else "") + META + "}"


def calls(c, key, tool, label, expect=run.TEXT, secs=run.SECS / 2):
    return run.load(f"tools/call of {label}, HTTP, 64 connections", c.address("http")[1], c.daemon.pid, "--key", key, "--conns", "64", "--expect", expect,
                    "--method", "tools/call", "--params", '{"name":"%s","arguments":%s,%s}' % (tool, ARGUMENTS, META), secs=secs)


def tools():
    c = crib.Crib().init()
    for name, more in (("plain", ""), ("might", "task: {support: optional, after: 2s}\n"), ("makes", "task: {support: required}\n")):
        c.tool(crib.tool_yaml(name, "{type: builtin, function: echo}", TEXT, more), f"{name}.yaml")
    c.tool(crib.tool_yaml("naps", "{type: builtin, function: sleep}", "{type: object, properties: {ms: {type: integer}}}",
                          "task: {support: required}\nlimits: {timeout: 10m}\n"), "naps.yaml")
    c.tool(crib.tool_yaml("asks", f"{{type: exec, argv: [/bin/echo, {json.dumps(ASK)}], stdin: json, output: stream}}",
                          extra="task: {support: required}\n"), "asks.yaml")
    key = c.tenant("acme", "*")
    c.cli("tenant", "set", "acme", "--concurrency", "1024")
    return c, key


def quick():
    """What a call pays that may become a task, and what one pays that does."""
    c, key = tools()
    c.start("limits: {requests: 0}\n")
    more, promoted, rates = [], [], []
    for turn in range(PAIRS):
        cost = {}
        for tool in ("plain", "might")[::1 if turn % 2 else -1]:
            cost[tool] = calls(c, key, tool, tool)["server_cpu_us"]
        more.append(cost["might"] - cost["plain"])
        if turn % 3 == 0:
            before = made(c)
            begun = time.monotonic()
            cost = calls(c, key, "makes", "one that is a task at once", '"resultType":"task"', 2)["server_cpu_us"] - cost["plain"]
            crib.wait_for("their ends", lambda: made(c)[1] == 0)
            rates.append((made(c)[0] - before[0]) / (time.monotonic() - begun))
            promoted.append(cost)
    aim("a call that may become a task and ends at once, above one that may not, us of CPU", statistics.median(more), most=5,
        **{"from": round(min(more), 2), "to": round(max(more), 2)})
    aim("a call that is a task at once, with its end, above a plain call, us of CPU", statistics.median(promoted), most=60)
    aim("tasks made and ended a second, durable", statistics.median(rates), least=5000)
    asked(c, key)
    c.close()


def made(c):
    """How many were made, and how many of them are open."""
    counters = c.status()["counters"]
    return counters["tasks_made"], counters["tasks_open"]


def asked(c, key):
    """tasks/get beside ping."""
    peer = c.tcp(key)
    ids = {tool: peer.call(tool, args, crib.MODERN, EXT)["result"]["taskId"] for tool, args in (("naps", {"ms": 600000}), ("makes", {"text": "x"}))}
    crib.wait_for("its end", lambda: peer.ask("tasks/get", {"taskId": ids["makes"]}, crib.MODERN, EXT)["result"]["status"] == "completed")
    cost = {"ping": [], **{tool: [] for tool in ids}}
    for _ in range(3):
        for what, of in cost.items():
            words = message("ping") if what == "ping" else message("tasks/get", taskId=ids[what])
            of.append(run.load(f"{what}, TCP lines, 16 connections", c.address("tcp")[1], c.daemon.pid, "--key", key, "--lines", "--conns", "16",
                               "--depth", "4", *words, secs=run.SECS / 4)["server_cpu_us"])
    ping = statistics.median(cost["ping"])
    aim("tasks/get of one that works, times ping", statistics.median(cost["naps"]) / ping, most=1.2)
    aim("tasks/get of one that has ended, times ping", statistics.median(cost["makes"]) / ping, most=2)
    peer.close()


def park(c, key):
    """One that asks, and copies of its row: nothing of a server's memory or start depends on what is sealed in them."""
    c.start()
    peer = c.tcp(key)
    id = peer.call("asks", {}, crib.MODERN, {**EXT, "elicitation": {}})["result"]["taskId"]
    crib.wait_for("its question", lambda: c.rows("SELECT state FROM task WHERE tid = ?", id) == [(2,)])
    peer.close()
    c.stop()
    db = sqlite3.connect(c.store / "toolcrib.db")
    columns = [row[1] for row in db.execute("PRAGMA table_info(task)") if row[1] != "id"]
    row = dict(zip(columns, db.execute(f"SELECT {', '.join(columns)} FROM task WHERE tid = ?", (id,)).fetchone()))
    size = -(c.store / "toolcrib.db").stat().st_size
    db.executemany(f"INSERT INTO task({', '.join(columns)}) VALUES({', '.join('?' * len(columns))})",
                   ([{**row, "tid": f"{i:022}", "principal_id": 1000 + i % (TENANTS * PRINCIPALS), "prn": f"{row['prn'][:-3]}{i % (TENANTS * PRINCIPALS):03}"}
                     [name] for name in columns] for i in range(PARKED - 1)))
    db.commit()
    db.close()
    return size + (c.store / "toolcrib.db").stat().st_size


def rss_mib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def parked():
    """A server with many beside one without, in turns."""
    cribs = {name: tools() for name in ("none", "many")}
    grown = park(*cribs["many"])
    took, memory, late = ({name: [] for name in cribs} for _ in range(3))
    for turn in range(STARTS):
        for name in list(cribs)[::1 if turn % 2 else -1]:
            c, key = cribs[name]
            begun = time.monotonic()
            c.start("limits: {requests: 0}\n")
            took[name].append(time.monotonic() - begun)
            row = run.load(f"tools/call of plain, HTTP, 16 connections, {name} parked", c.address("http")[1], c.daemon.pid, "--key", key, "--conns", "16",
                           "--expect", run.TEXT, "--method", "tools/call", "--params", '{"name":"plain","arguments":%s,%s}' % (ARGUMENTS, META),
                           secs=run.SECS)
            late[name].append(row["p99_us"])
            memory[name].append(rss_mib(c.daemon.pid))      # behind calls, which fill what the writer keeps of the store in both
            c.stop()
    middle = {name: [statistics.median(of[name]) for of in (took, memory, late)] for name in cribs}
    aim(f"memory of {PARKED} parked tasks, MiB", middle["many"][1] - middle["none"][1], most=16)
    aim(f"start with {PARKED} parked tasks, seconds above one with none", middle["many"][0] - middle["none"][0], most=0.5,
        starts={name: [round(one, 2) for one in of] for name, of in took.items()})
    aim("p99 of plain calls beside them, times that beside none", middle["many"][2] / middle["none"][2], most=1.1,
        p99_us={name: [round(one) for one in of] for name, of in late.items()})
    run.out({"label": "rows of the store, without records, MB", "value": round(grown / 1e6, 1)})
    for c, _ in cribs.values():
        c.close()


def main():
    which = sys.argv[1:] or ["quick", "parked"]
    for name in which:
        {"quick": quick, "parked": parked}[name]()
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
