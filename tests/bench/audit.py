"""How fast the reports are on a large store: python3 tests/bench/audit.py [--verify] [RECORDS [TENANTS [DAYS]]]   (2000000 50 30)

The store is made by tests/bench/b_fill, and verified by toolcrib-verify.  Then a server starts on it, and each report of a
tenant and a day is asked for over the admin socket: time to its first bytes and to its last, best of three; and CALLS calls are
made, one after the other, here and on a new store in turn.  Targets: 100 ms and 1 s; start 2 s; verification 200,000 records/s;
p99 of a call as on the new store.  With --verify the verification alone, three times."""
import json
import os
import pathlib
import resource
import socket
import subprocess
import sys
import time

BUILD = pathlib.Path(os.environ.get("TOOLCRIB_BUILDDIR", "."))
SOURCE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SOURCE / "integ"))
import crib  # noqa: E402  (its path depends on ours)

FIRST_MS, ALL_MS, START_S, VERIFY_PER_S, CALLS = 100, 1000, 2, 200000, 2000
REPORTS = [
    ("audit calls", {}), ("audit calls", {"principal": "prn_WHO0000003"}), ("audit calls", {"key": "WHO0000003"}),
    ("audit calls", {"tool": "tool_007"}), ("audit calls", {"outcome": "tool_error"}), ("audit calls", {"limit": "0"}),
    ("audit calls", {"group-by": "tool,outcome"}), ("audit denied", {}), ("audit denied", {"by": "rule"}), ("audit admin", {}),
    ("audit auth-failures", {}), ("audit access", {}), ("audit credentials", {}), ("audit coverage", {}), ("audit sample", {"seed": "1"}),
    ("audit after-revocation", {}), ("audit drift", {}), ("audit isolation", {}), ("audit dual-control", {}), ("audit anomalies", {}),
    ("audit sandbox", {}), ("audit oversight", {}), ("audit tool-health", {}), ("audit stats", {}),
    ("audit subject", {"principal": "TENANT/prn_WHO0000003"}), ("audit capacity", {}), ("audit continuity", {}),
]
WITHOUT_TENANT = {"audit subject", "audit capacity", "audit continuity"}


def ask(path, command, args):
    """Milliseconds to the first bytes and to the last, and the rows."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(120)
    s.connect(path)
    began = time.monotonic()
    s.sendall(json.dumps({"command": command, "args": args}).encode() + b"\n")
    got, first = b"", None
    while not got.endswith(b'{"done":true}\n'):
        part = s.recv(1 << 20)
        first = first or time.monotonic()
        got += part
        if not part or b'{"error":' in got[-2000:]:
            raise SystemExit(f"{command} {args}: {got[-500:]}")
    end = time.monotonic()
    s.close()
    return (first - began) * 1000, (end - began) * 1000, got.count(b'{"row":')


def verify(store, records):
    """Records a second by the clock, and by the processor: what else runs on the machine does not count there."""
    def spent():
        u = resource.getrusage(resource.RUSAGE_CHILDREN)
        return u.ru_utime + u.ru_stime
    cpu, began = spent(), time.monotonic()
    done = subprocess.run([BUILD / "toolcrib-verify", "--quiet", store], capture_output=True, text=True)
    assert " 0 bad, " in done.stdout, done.stdout + done.stderr     # nobody pins keys here, and payloads stay shut
    wall, cpu = time.monotonic() - began, spent() - cpu
    print(f"verify {records / wall:.0f} records/s, {records / cpu:.0f} by CPU time{'' if records / cpu >= VERIFY_PER_S else '   UNDER'}")


def serving(c, tenant):
    """A peer that may call echo."""
    c.tool(crib.ECHO)
    c.cli("grant", "add", tenant, "echo")
    peer = c.tcp(c.key(f"{tenant}/bench"))
    peer.initialize()
    return peer


def compare_calls(c, tenant):
    """Medians and p99 of calls on this store and on a new one, in turn."""
    small = crib.Crib().init()
    try:
        small.cli("tenant", "add", tenant)
        small.start()
        peers = {"this store": serving(c, tenant), "a new store": serving(small, tenant)}
        took = {name: [] for name in peers}
        for _ in range(CALLS):
            for name, peer in peers.items():
                began = time.monotonic()
                peer.call("echo", {"text": "x"})
                took[name].append((time.monotonic() - began) * 1000)
        for name, ms in took.items():
            ms.sort()
            print(f"calls on {name}: p50 {ms[len(ms) // 2]:.2f} ms, p99 {ms[len(ms) * 99 // 100]:.2f} ms")
        for peer in peers.values():
            peer.close()
        small.stop()
    finally:
        small.close()


def fill(c, records, tenants, days):
    began = time.monotonic()
    c.fill(records, "--tenants", tenants, "--days", days, "--zipf", 0)
    took = time.monotonic() - began
    size = sum(f.stat().st_size for f in c.store.iterdir() if f.name.startswith("toolcrib.db"))
    print(f"{records} records, {records / took:.0f}/s, {size / records:.0f} B each with indexes")
    return records


def run_verify(records, tenants, days):
    c = crib.Crib()
    try:
        filled = fill(c, records, tenants, days)
        for _ in range(3):
            verify(c.store, filled)
    finally:
        c.close()


def run(records, tenants, days):
    c = crib.Crib()
    try:
        verify(c.store, fill(c, records, tenants, days))
        began = time.monotonic()
        c.start()
        started = time.monotonic() - began
        print(f"start {started:.2f} s{'' if started <= START_S else '   OVER'}")
        path = next(p for p in (c.store / "admin.sock",) if p.exists())
        day = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 2 * 86400))
        after = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 86400))
        whose = f"fill{tenants // 2:05}"
        print(f"{'report':48} {'rows':>6} {'first ms':>9} {'all ms':>9}")
        for command, more in REPORTS:
            args = {"since": day, "until": after}
            if command not in WITHOUT_TENANT:
                args["tenant"] = whose
            args.update({k: v.replace("TENANT", whose).replace("WHO", whose[4:]) for k, v in more.items()})
            if command == "audit sample":
                args["number"] = "25"
            first, last, rows = min((ask(str(path), command, args) for _ in range(3)), key=lambda t: t[1])
            over = "   OVER" if first > FIRST_MS or last > ALL_MS else ""
            print(f"{command[6:] + ' ' + ' '.join(f'{k}={v}' for k, v in more.items()):48} {rows:6} {first:9.1f} {last:9.1f}{over}",
                  flush=True)
        compare_calls(c, whose)
        c.stop()
    finally:
        c.close()


if __name__ == "__main__":
    alone, numbers = "--verify" in sys.argv, [a for a in sys.argv[1:] if a != "--verify"]
    (run_verify if alone else run)(*[int(a) for a in numbers + ["2000000", "50", "30"][len(numbers):]])
