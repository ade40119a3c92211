#!/usr/bin/env python3
"""make bench-sql, bench-flood, bench-stress: what a hostile tenant costs another one; a line of figures for each thing that it does.

    sql       a hundred hostile queries at once: an endless one, a quadratic one, two that want much memory
    bodies    4096 connections that send bodies of 10 MiB slowly
    stress    stress-ng (Debian's package; contrib/deps --bench) as a tool, class by class

The quiet tenant makes a hundred calls of echo a second.  "alone" is its p99 just before, "beside" while the other is at work;
"outside" is beside the same stress-ng, or as many busy processes that get what nobody else wants (SCHED_IDLE) as there are workers of sql, started by
nobody's server, or the same bodies sent to another one: it tells what the machine's processors have to do with it.
Figures of one run compare, others do not.  BENCH_SECS=10 and BENCH_ROUNDS=1 of each; BENCH_OUTSIDE=no leaves that out; BENCH_PIECE=8192
bytes come on each connection in a tenth of a second; further words: only these classes."""
import json
import os
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "integ"))
import crib  # noqa: E402

SECS = float(os.environ.get("BENCH_SECS", "10"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "1"))
CONNS = int(os.environ.get("BENCH_CONNS", "4096"))
PIECE = os.environ.get("BENCH_PIECE", "8192")         # bytes of each connection in a tenth of a second: 10 MiB take two minutes
OUTSIDE = os.environ.get("BENCH_OUTSIDE", "yes") == "yes"
MIB = 1 << 20
META = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
ECHO = ("--method", "tools/call", "--params", '{"name":"echo","arguments":{"text":"quiet"},%s}' % META)
QUERIES = {
    "endless": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n",
    "quadratic": "SELECT instr(hex(zeroblob(4000000)), hex(zeroblob(2000000)) || 'x')",
    "huge": "SELECT hex(zeroblob(1e9))",
    "sorted": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000) SELECT sum(length(b)) FROM "
              "(SELECT zeroblob(1000000) || i AS b FROM n ORDER BY 1)",
}
CLASSES = {
    "cpu": "--cpu 2", "vm": "--vm 2 --vm-bytes 256M", "fork": "--fork 4", "io": "--io 4", "hdd": "--hdd 2 --hdd-bytes 64M",
    "sock": "--sock 2", "sem": "--sem 4", "shm": "--shm 2", "mmap": "--mmap 2 --mmap-bytes 128M",
}


class Bench:
    def __init__(self):
        self.c = crib.Crib().init()
        self.c.http_times = ""          # as by default
        self.scratch = self.c.dir / "scratch"
        self.scratch.mkdir()
        self.c.tool(crib.ECHO)

    def start(self, *tools, config=""):
        self.keys = {"loud": self.c.tenant("loud", "echo", *tools), "calm": self.c.tenant("calm", "echo")}
        self.c.start(config, env={"TMPDIR": str(self.scratch)})
        self.port = self.c.address("http")[1]
        self.quiet(1)

    def flood(self, key, *options, secs, nice=False, port=None):
        return subprocess.Popen([*(("nice", "-n", "10") if nice else ()), str(crib.BUILD / "tests/bench/flood"), "--port",
                                 str(port or self.port), "--key", self.keys[key], "--secs", str(secs), *options], stdout=subprocess.PIPE, text=True)

    def quiet(self, secs=SECS):
        """The other tenant: a hundred calls a second over four connections."""
        row = json.loads(self.flood("calm", *ECHO, "--expect", "quiet", "--conns", "4", "--rate", "100", secs=secs).communicate()[0])
        if not row["served"]:
            sys.exit(f"the quiet tenant was not served at all: {row}")
        return row

    def rss(self):
        """MiB of the server."""
        return int(pathlib.Path(f"/proc/{self.c.daemon.pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024

    def cpu(self):
        """Seconds of processors that the server has used."""
        words = pathlib.Path(f"/proc/{self.c.daemon.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def watch(self, until):
        """The most that the server had until then."""
        most = 0.0
        while not until():
            most = max(most, self.rss())
            time.sleep(0.05)
        return most

    def beside(self, work):
        """Rounds of the quiet tenant alone and beside work(), which starts something and returns how to end it; then its row."""
        rows, used = {"alone": [], "beside": []}, {"alone": 0.0, "beside": 0.0}
        before, most, ended = self.rss(), [0.0], []

        def quiet(where):
            start, cpu = time.monotonic(), self.cpu()
            rows[where].append(self.quiet())
            used[where] = round(100 * (self.cpu() - cpu) / (time.monotonic() - start))
        for _ in range(ROUNDS):
            quiet("alone")
            end = work()
            done = threading.Event()
            watcher = threading.Thread(target=lambda: most.append(self.watch(done.is_set)))
            watcher.start()
            quiet("beside")
            ended.append(end())
            done.set()
            watcher.join()
        p99 = {where: statistics.median(row["p99_us"] for row in them) for where, them in rows.items()}
        return {"p99_ratio": round(p99["beside"] / p99["alone"], 2), **{f"{where}_p99_us": round(us) for where, us in p99.items()},
                "failures": sum(row["refused"] + row["wrong"] + row["failed"] for row in rows["beside"]),
                **{f"{where}_server_cpu_percent": n for where, n in used.items()}, "load": round(os.getloadavg()[0], 1),
                "rss_before_mib": round(before, 1), "rss_most_mib": round(max(most), 1), **(ended[-1] or {})}

    def call(self, tool, arguments, key="loud"):
        peer = self.c.http(self.keys[key])
        try:
            start = time.monotonic()
            got = peer.call(tool, arguments, rev=crib.MODERN)
            return time.monotonic() - start, got
        finally:
            peer.close()


def compared(b, work, outside, between=lambda: None):
    """The row of beside(work), with what the same costs when it comes from outside."""
    row = b.beside(work)
    between()
    if OUTSIDE:
        us = b.beside(outside)["beside_p99_us"]
        row.update(outside_p99_us=us, p99_ratio_to_outside=round(row["beside_p99_us"] / us, 2))
    return row


def say(**row):
    print(json.dumps(row), flush=True)


# --- sql


def sql(b, only):
    database = b.c.dir / "shop.db"
    with sqlite3.connect(database) as db:
        db.execute("CREATE TABLE product(id INTEGER PRIMARY KEY, name TEXT)")
    b.c.tool(crib.tool_yaml("sql", f'{{type: sql, database: "sqlite:{database}", statement: "{{/q}}"}}',
                            schema="{type: object, properties: {q: {type: string}}, required: [q]}", extra="limits: {timeout: 2s}\n"), "sql.yaml")
    b.start("sql")
    b.c.cli("limit", "set", "loud", "--rate", "10000/s", "--concurrency", "300")

    def work(query, secs=SECS + 2):
        attack = b.flood("loud", "--method", "tools/call", "--params",
                         '{"name":"sql","arguments":{"q":"%s"},%s}' % (query, META), "--conns", "100", "--rate", "200", "--warm", "0",
                         secs=secs, nice=True)
        time.sleep(1)

        def end():
            row = json.loads(attack.communicate()[0])
            return {"queries": row["served"], "refused": row["refused"], "wrong": row["wrong"], "query_p99_us": row["p99_us"]}
        return end

    def outside():
        """As many processes that only ever get what nobody else wants as a tenant may have workers."""
        hogs = [subprocess.Popen(["chrt", "--idle", "0", "/bin/sh", "-c", "while :; do :; done"]) for _ in range(4)]

        def end():
            for hog in hogs:
                hog.kill()
                hog.wait()
        return end

    for name in only or QUERIES:
        say(bench="sql", query=name, **compared(b, lambda: work(QUERIES[name]), outside))
    # A stop while they run.
    end = work(QUERIES["quadratic"])
    start = time.monotonic()
    b.c.daemon.terminate()
    status = b.c.daemon.wait(120)
    say(bench="sql", query="stop", sigterm_s=round(time.monotonic() - start, 2), status=status)
    end()


# --- bodies


def bodies(b, only):
    b.start(config="connections: {per_tenant: 0}\n")
    b.c.cli("limit", "set", "loud", "--rate", "10000/s", "--requests", "10000/s")

    constant = subprocess.Popen(["nice", "-n", "10", str(crib.BUILD / "tests/bench/constant"), "300"], stdout=subprocess.PIPE, text=True)
    elsewhere = int(constant.stdout.readline())

    def work(port=None):
        attack = b.flood("loud", *ECHO, "--kind", "slow", "--pad", str(10 * MIB - 400), "--piece", PIECE, "--conns", str(CONNS),
                         "--warm", "0", secs=SECS + 4, nice=True, port=port)
        time.sleep(3)

        def end():
            row = json.loads(attack.communicate()[0])
            counters = b.c.json("status")[0]["counters"]
            return {"opened": row["opened"], "refused": row["refused"], "served": row["served"],
                    "refused_bodies": counters["budget_bodies_refused"]}
        return end

    try:
        row = compared(b, work, lambda: work(elsewhere))
    finally:
        constant.kill()
        constant.wait()
    say(bench="bodies", connections=CONNS, piece=int(PIECE), **row)
    b.c.stop()


# --- stress


def left_behind(b):
    """What a class could have left: processes, files, segments, cgroups."""
    names = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            names.append(path.joinpath("comm").read_text().strip())
        except OSError:
            pass
    ipc = sum(len(pathlib.Path(f"/proc/sysvipc/{kind}").read_text().splitlines()) - 1 for kind in ("shm", "sem", "msg"))
    return {"processes": sum(name.startswith("stress-ng") for name in names), "segments": ipc,
            "files": sum(1 for _ in b.scratch.rglob("*")), "shm_files": sum("stress" in name for name in os.listdir("/dev/shm")),
            "cgroups": sum(1 for _ in pathlib.Path("/sys/fs/cgroup").rglob("tool-*"))}


def stress(b, only):
    if subprocess.run(["which", "stress-ng"], stdout=subprocess.DEVNULL, check=False).returncode:
        sys.exit("bench-stress needs stress-ng: contrib/deps --bench")
    line = "cd $HOME && exec stress-ng %s --temp-path $HOME --timeout %ds -q"
    for name, options in CLASSES.items():
        script = line % (options, SECS + 5)
        b.c.tool(crib.tool_yaml(f"s_{name}", '{type: exec, argv: [/bin/sh, -c, "%s 2>&1 | tail -5"], stdin: none, output: text}' % script,
                                extra=f"limits: {{timeout: {int(SECS) + 60}s}}\n"), f"s_{name}.yaml")
    b.start(*(f"s_{name}" for name in CLASSES))
    clean = left_behind(b)

    def tool(name):
        answer = []
        t = threading.Thread(target=lambda: answer.append(b.call(f"s_{name}", {})))
        t.start()
        crib.wait_for("the tool to be at work", lambda: left_behind(b)["processes"] or answer)

        def end():
            t.join()
            result = answer[0][1].get("result", answer[0][1])
            said = json.dumps(result.get("content", result))[:200] if result.get("isError") or "fail" in json.dumps(result) else ""
            return {"tool_s": round(answer[0][0], 1), **({"said": said} if said else {})}
        return end

    def outside(name):
        home = b.c.dir / "outside"
        home.mkdir(exist_ok=True)
        process = subprocess.Popen(["/bin/sh", "-c", line % (CLASSES[name], SECS + 5)], env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        crib.wait_for("stress-ng", lambda: left_behind(b)["processes"])
        return lambda: process.wait() and None

    for name in only or CLASSES:
        left = {}

        def look():
            left.update((what, n - clean[what]) for what, n in left_behind(b).items() if n != clean[what])
        row = compared(b, lambda: tool(name), lambda: outside(name), between=look)
        say(bench="stress", stressor=name, **row, left_behind=left)
    b.c.stop()


def main():
    b = Bench()
    try:
        {"sql": sql, "bodies": bodies, "stress": stress}[sys.argv[1]](b, sys.argv[2:])
    except BaseException:
        print(b.c.log.read_text()[-3000:], file=sys.stderr)
        raise
    finally:
        b.c.close()


if __name__ == "__main__":
    main()
