"""How fast the reports are on a large store: python3 tests/bench/audit.py [RECORDS [TENANTS [DAYS]]]   (2000000 50 30)

The store is filled by tests/bench/b_audit.  Then a server starts on it, and each report of a tenant and a day is asked for
over the admin socket: time to its first bytes and to its last, best of three.  Targets: 100 ms and 1 s; start 2 s."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

BUILD = pathlib.Path(os.environ.get("TOOLCRIB_BUILDDIR", "."))
SOURCE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SOURCE / "integ"))
import crib  # noqa: E402  (its path depends on ours)

FIRST_MS, ALL_MS, START_S = 100, 1000, 2
REPORTS = [
    ("audit calls", {}), ("audit calls", {"principal": "prn_bench00000003"}), ("audit calls", {"key": "bench0000003"}),
    ("audit calls", {"tool": "tool_07"}), ("audit calls", {"outcome": "tool_error"}), ("audit calls", {"limit": "0"}),
    ("audit calls", {"group-by": "tool,outcome"}), ("audit denied", {}), ("audit denied", {"by": "rule"}), ("audit admin", {}),
    ("audit auth-failures", {}), ("audit access", {}), ("audit credentials", {}), ("audit coverage", {}), ("audit sample", {"seed": "1"}),
    ("audit after-revocation", {}), ("audit drift", {}), ("audit isolation", {}), ("audit dual-control", {}), ("audit anomalies", {}),
    ("audit sandbox", {}), ("audit oversight", {}), ("audit tool-health", {}), ("audit stats", {}),
    ("audit subject", {"principal": "TENANT/prn_bench00000003"}), ("audit capacity", {}), ("audit continuity", {}),
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


def run(records, tenants, days):
    c = crib.Crib().init()
    try:
        for i in range(tenants):
            c.cli("tenant", "add", f"t{i:02}")
        filled = json.loads(subprocess.run([BUILD / "tests/bench/b_audit", c.store, str(records), str(days)], check=True,
                                           capture_output=True, text=True, env=c.env).stdout)
        size = sum(f.stat().st_size for f in c.store.iterdir() if f.name.startswith("toolcrib.db"))
        print(f"{filled['records']} records, {filled['records'] / filled['seconds']:.0f}/s in batches of 5000, "
              f"{size / filled['records']:.0f} B each with indexes")
        began = time.monotonic()
        c.start()
        started = time.monotonic() - began
        print(f"start {started:.2f} s{'' if started <= START_S else '   OVER'}")
        path = next(p for p in (c.store / "admin.sock",) if p.exists())
        day = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 2 * 86400))
        after = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 86400))
        whose = f"t{tenants // 2:02}"
        print(f"{'report':48} {'rows':>6} {'first ms':>9} {'all ms':>9}")
        for command, more in REPORTS:
            args = {"since": day, "until": after}
            if command not in WITHOUT_TENANT:
                args["tenant"] = whose
            args.update({k: v.replace("TENANT", whose) for k, v in more.items()})
            if command == "audit sample":
                args["number"] = "25"
            first, last, rows = min((ask(str(path), command, args) for _ in range(3)), key=lambda t: t[1])
            over = "   OVER" if first > FIRST_MS or last > ALL_MS else ""
            print(f"{command[6:] + ' ' + ' '.join(f'{k}={v}' for k, v in more.items()):48} {rows:6} {first:9.1f} {last:9.1f}{over}",
                  flush=True)
        c.stop()
    finally:
        c.close()


if __name__ == "__main__":
    run(*[int(a) for a in (sys.argv[1:] + ["2000000", "50", "30"][len(sys.argv) - 1:])])
