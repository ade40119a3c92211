#!/usr/bin/env python3
"""make bench-console: how long pages of the console take, and what looking costs calls (CONSOLE 18), on a store of RECORDS records of one
tenant over 30 days: last byte of each page alone and beside calls, BENCH_RATE=5000 a second; then what these calls take, and how many there
can be with 32 at a time, with ten visits that load a page each two seconds, four pages that go on and an export, beside none, in turns
(BENCH_PAIRS=3 of BENCH_SECS=10); memory of the console.  The figures that compare between machines are the ratios."""
import http.client
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "integ"))
import crib  # noqa: E402

RECORDS, SECS, PAIRS = (int(os.environ.get(name, default)) for name, default in (("RECORDS", "200000"), ("BENCH_SECS", "10"), ("BENCH_PAIRS", "3")))
LOOKS = int(os.environ.get("BENCH_LOOKS", "30"))
RATE = os.environ.get("BENCH_RATE", "5000")
META = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
ECHO = ("--method", "tools/call", "--params", '{"name":"echo","arguments":{"text":"x"},%s}' % META)
COOKIE = "__Host-toolcrib="


class Bench:
    def __init__(self, c):
        self.c, self.port = c, c.address("console")[1]
        self.host, self.busy = f"toolcrib.localhost:{self.port}", 0

    def ask(self, path, visit=None, body=None, busy=False):
        k = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        headers = {"Host": self.host, **({"Cookie": COOKIE + visit} if visit else {})}
        if body is not None:
            headers |= {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
        k.request("POST" if body is not None else "GET", path, body, headers)
        answer = k.getresponse()
        text = answer.read()
        k.close()
        assert answer.status in ((200, 303, 503) if busy else (200, 303)), (path, answer.status, text[:300])
        self.busy += answer.status == 503
        return answer.headers, text

    def visit(self):
        token = self.c.cli("console", "open").strip().partition("=")[2]
        return re.search(COOKIE + r"(\w{43});", self.ask("/enter", body="t=" + token)[0]["Set-Cookie"])[1]

    def pages(self, tenant):
        rows = self.c.json("audit", "calls", "--tenant", tenant, "--limit", "5")
        self.call, tool, who = rows[0]["call"], rows[0]["tool"], rows[0]["principal"]
        return {"start": "/", "calls of a day": f"/t/{tenant}/r/calls?since=1d", "calls of 30 days": f"/t/{tenant}/r/calls?since=30d",
                "by tool": f"/t/{tenant}/r/calls?tool={tool}", "by principal": f"/t/{tenant}/r/calls?principal={who}",
                "by outcome": f"/t/{tenant}/r/calls?outcome=timeout", "by three": f"/t/{tenant}/r/calls?tool={tool}&principal={who}&outcome=timeout",
                "one call": f"/t/{tenant}/call/{self.call}", "access": f"/t/{tenant}/access", "approvals": "/approvals", "server": "/server"}

    def measure(self, pages, visit, beside):
        for name, path in pages.items():
            times, size = [], 0
            for _ in range(LOOKS):
                begun = time.monotonic()
                size = len(self.ask(path, visit)[1])
                times.append((time.monotonic() - begun) * 1000)
            times.sort()
            print(json.dumps({"page": name, "beside": beside, "p50_ms": round(statistics.median(times), 1),
                              "p95_ms": round(times[min(len(times) - 1, int(len(times) * 0.95))], 1), "kB": round(size / 1000, 1)}), flush=True)

    def load(self, key, secs, *more):
        return subprocess.Popen([str(crib.BUILD / "tests/bench/load"), "--label", "echo", "--port", str(self.c.address("http")[1]), "--pid",
                                 str(self.c.daemon.pid), "--key", key, "--conns", "32", "--secs", str(secs), *more, *ECHO], stdout=subprocess.PIPE, text=True)

    def look(self, pages, visits, tenant, over):
        """Ten visits, four tails, an export, until it is over.  Browsers are on machines of their own: here they give way."""
        def give_way():
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)

        def walk(visit, n):
            give_way()
            paths = list(pages.values())
            while not over.wait(2):
                n += 1
                self.ask(paths[n % len(paths)], visit, busy=True)

        def read(path, visit):
            """What comes, to its end or until it is over."""
            with socket.create_connection(("127.0.0.1", self.port)) as s:
                s.sendall(f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\nCookie: {COOKIE}{visit}\r\nConnection: close\r\n\r\n".encode())
                s.settimeout(0.5)
                while not over.is_set():
                    try:
                        if not s.recv(1 << 16):
                            break
                    except TimeoutError:
                        pass

        def tail(visit):
            give_way()
            read(f"/t/{tenant}/tail", visit)

        def export(visit):
            give_way()
            while not over.is_set():
                read(f"/t/{tenant}/r/calls/export?as=csv&since=1h", visit)
        threads = [threading.Thread(target=walk, args=(visits[n % len(visits)], n)) for n in range(10)]
        threads += [threading.Thread(target=tail, args=(visits[n // 2],)) for n in range(4)]
        threads += [threading.Thread(target=export, args=(visits[2],))]
        for thread in threads:
            thread.start()
        return threads


def main():
    c = crib.Crib()
    try:
        c.fill(RECORDS, "--tenants", "1", "--days", "30", "--blocks", "2", "--lean")
        tenant = "fill00000"
        c.tool(crib.ECHO)
        c.cli("grant", "add", tenant, "echo")
        key = c.key(f"{tenant}/load")
        c.start('console: {listen: "127.0.0.1:0"}\naudit: {seal: off}\n')
        b = Bench(c)
        visits = [b.visit() for _ in range(5)]
        pages = b.pages(tenant)
        b.measure(pages, visits[0], "nothing")
        going = b.load(key, 60 * len(pages), "--rate", RATE)
        b.measure(pages, visits[1], f"{RATE} calls/s")
        going.kill()
        going.wait()
        ratios = {}
        for how, more in ((f"at {RATE}/s", ("--rate", RATE)), ("at most", ())):
            pairs = []
            for _ in range(PAIRS):
                row = {}
                for name in ("none", "looked at"):
                    over, threads = threading.Event(), []
                    if name != "none":
                        threads = b.look(pages, visits, tenant, over)
                    row[name] = json.loads(b.load(key, SECS, *more).communicate()[0])
                    over.set()
                    for thread in threads:
                        thread.join()
                pairs.append(row)
                print(json.dumps({"calls": how, **{name: {k: of[k] for k in ("per_s", "p50_us", "p99_us", "server_cpu_us")} for name, of in row.items()}}),
                      flush=True)
            ratios[how] = {name: round(statistics.median(p["looked at"][k] / p["none"][k] for p in pairs), 3)
                           for name, k in (("calls", "per_s"), ("p99", "p99_us"))}
        pid = next(pid for pid, name in crib.below(c.daemon.pid).items() if name == "toolcrib-consol")
        rss = int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])
        print(json.dumps({"records": RECORDS, "ratios": ratios, "console_rss_MiB": round(rss / 1024, 1), "busy": b.busy}))
        sys.stdout.flush()
    finally:
        c.close()


if __name__ == "__main__":
    main()
