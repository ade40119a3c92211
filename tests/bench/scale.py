#!/usr/bin/env python3
"""make bench-scale RECORDS=1000000: what each question of a reviewer costs on a store of that size, as a table (SC-902).

tests/bench/b_fill makes the store, with the options behind the number.  Each question of tests/integ/questions.py goes over the
admin socket: cold, when the store's pages have just left the system's cache (posix_fadvise), and warm, best of three: ms to its
first row and to its end.  A second server counts, with tests/integ/work.c in it: steps of SQLite's machine, what SQLite read, and
what the reporter had of memory at most.  BENCH_FOLD='--leftovers --tail 20000' asks blocks and chapters, BENCH_KINDS='sums rare' asks
questions of these kinds only.  Those that a program answers, not the server, come last, once.  BENCH_STORE=FOLDER keeps the store there, with
what b_fill said, and asks it again when it is there."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integ"))
import crib  # noqa: E402
from questions import QUESTIONS, filled, title  # noqa: E402
from test_report_work import OWN, Store  # noqa: E402

ASKED = [question for question in QUESTIONS if question[1] in os.environ.get("BENCH_KINDS", question[1]).split()]
FOLD = os.environ.get("BENCH_FOLD", "").split()          # options of b_fold; with --leftovers a server starts on it
KEPT = os.environ.get("BENCH_STORE")
WARM = int(os.environ.get("BENCH_WARM", "3"))
ENOUGH_S = 10                   # it is not asked again when that has taken so long
MIB = 1 << 20
USAGE = "usage: scale.py RECORDS [OPTIONS OF b_fill]     a number of at least 500"


# --- the clock

def forget(store):
    """The store's pages leave the cache, those of sealed files as well; what was not written yet is."""
    for path in [*store.glob("toolcrib.db*"), *store.glob("segments/*/*.tcs")]:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def stream(path, command, args):
    """ms to the first row and to the end, and how many rows."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        began, first, rows, end = time.monotonic(), None, 0, b""
        s.sendall(json.dumps({"command": command, "args": args}).encode() + b"\n")
        while not end.endswith(b'{"done":true}\n'):
            got = s.recv(1 << 20)
            new = (end[-6:] + got).count(b'{"row":')
            first = first or (time.monotonic() if new else None)
            rows, end = rows + new, (end + got)[-4000:]
            if not got or b'\n{"error":' in b"\n" + end:
                raise SystemExit(f"{command} {args}: {end.decode(errors='replace')[-500:]}")
        return first and (first - began) * 1000, (time.monotonic() - began) * 1000, rows


def timed(store, question):
    """Of one run."""
    command, args = question[2], filled(question[3], store.planted)
    if command != "audit export-check":
        return stream(str(store.crib.path / "admin.sock"), command, args)
    began = time.monotonic()
    store.said(command, args)
    return None, (time.monotonic() - began) * 1000, 0


def cold_and_warm(ask, store):
    forget(store.crib.path)
    cold, warm = ask(), []
    began = time.monotonic()
    while len(warm) < WARM and (not warm or time.monotonic() - began < ENOUGH_S):
        warm.append(ask())
    return cold, min(warm, key=lambda run: run[1])


# --- programs

def program(store, words):
    """ms to its end, and KiB that it had at most, by looking at it while it runs."""
    began, most = time.monotonic(), 0
    with open(store.crib.dir / "said", "w+") as said:
        done = subprocess.Popen(words, stdout=said, stderr=said, env=store.crib.env)
        while done.poll() is None:
            for line in pathlib.Path(f"/proc/{done.pid}/status").read_text().splitlines():
                most = int(line.split()[1]) if line.startswith("VmHWM:") else most
            time.sleep(0.005)
        said.seek(0)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)}: exit status {done.returncode}: {said.read()[-1000:]}")
    return None, (time.monotonic() - began) * 1000, most


def programs(store):
    """What answers the questions that are none to the server; Q41 is Q06 of a copy."""
    there, cli = str(store.crib.path), [str(crib.BUILD / "toolcrib"), "--store", str(store.crib.path)]
    proof = crib.evidence(there)
    return [("Q05 audit proof", [*cli, "audit", "proof", store.planted["rare_tool"]["calls"][0]]),
            ("Q06, Q41 toolcrib-verify", [str(crib.BUILD / "toolcrib-verify"), "--quiet", *proof, there]),
            ("Q40 verify.py", [sys.executable, str(crib.SOURCE / "contrib/verify/verify.py"), *proof, there]),
            ("Q42 audit drill", [*cli, "audit", "drill", "--tenant", "fill00000"])]


# --- the store

class Kept(Store):
    """It stays, and so does what is known of it."""

    def __init__(self, folder, records, *fill):
        self.crib = crib.Crib(folder)
        self.crib.close = self.crib.stop
        known = self.crib.dir / "said.json"
        if not known.exists():
            known.write_text(self.crib.made_by("b_fill", "--records", records, *fill))
            if FOLD:
                self.crib.made_by("b_fold", *FOLD)
        self.planted = {**json.loads(known.read_text())["planted"], "cursor": str(self.crib.dir / "cursor")}
        if not pathlib.Path(self.planted["cursor"]).exists():
            self.crib.cli("audit", "export", "--until", "2000-01-01", "--cursor", self.planted["cursor"])
        self.log = self.crib.dir / "work"


# --- the table

def said(name, rows, cold, warm, counts):
    """A line: times as first and last, what was counted as it is."""
    ms = [", ".join(f"{part:.0f}" if part >= 10 else f"{part:.1f}" for part in run[:2] if part is not None) or "–"
          for run in (cold, warm)]
    print("|", " | ".join([name, rows, *ms, *counts]), "|", flush=True)


def counted(store, question):
    """Steps, MiB that SQLite read, MiB of the reporter at most; of what no reporter answers the last is not known."""
    runs = [run for run in store.counted(lambda: timed(store, question))[1] if not OWN.match(run[0])]
    most = max([kib for *_, pid, kib in runs if pid != store.crib.daemon.pid], default=0)
    steps, pages = sum(run[1] for run in runs), sum(run[2] for run in runs)
    return f"{steps:,}", f"{pages * store.page / MIB:.2f}", f"{most / 1024:.1f}" if most else "–"


def measure(store):
    """Nothing is sealed meanwhile: a server would, of as many records, for longer than the questions take."""
    store.crib.start("audit: {seal: off}\n")
    times = [cold_and_warm(lambda: timed(store, question), store) for question in ASKED]
    store.crib.stop()
    store.start()
    for question, (cold, warm) in zip(ASKED, times):
        said(title(question), str(warm[2]), cold, warm, counted(store, question))
    store.crib.stop()
    for name, words in programs(store) if "BENCH_KINDS" not in os.environ else ():         # without a server, which would go on writing
        forget(store.crib.path)
        cold = program(store, words)
        said(name, "–", cold, (), ["–", "–", f"{cold[2] / 1024:.1f}"])


def where(store, records, took):
    """What the figures stand on."""
    size = sum(path.stat().st_size for path in store.crib.path.glob("toolcrib.db*"))
    kind = subprocess.run(["stat", "-f", "-c", "%T", store.crib.path], capture_output=True, text=True).stdout.strip()
    status = crib.BUILD / "config.status"
    built = subprocess.run([status, "--config"], capture_output=True, text=True).stdout.strip() if status.exists() else "?"
    print(f"{records} records, {size / records:.0f} bytes each, made in {took:.0f} s; {os.cpu_count()} cores, load "
          f"{os.getloadavg()[0]:.1f}, {kind}; configured with {built}")
    if kind in ("tmpfs", "ramfs"):
        print("This file system is memory: cold is warm.  TMPDIR says where the store is made.")


def main(words):
    if not words or not words[0].isdigit() or int(words[0]) < 500:
        sys.exit(USAGE)
    began = time.monotonic()
    try:
        store = Kept(KEPT, *words) if KEPT else Store(int(words[0]), *words[1:], fold=FOLD)
    except crib.Failed as failed:
        sys.exit(f"b_fill: {failed.err or failed.out}")
    store.page = store.crib.rows("PRAGMA page_size")[0][0]
    try:
        where(store, int(words[0]), time.monotonic() - began)
        print("| question | rows | cold: first, last ms | warm | steps | MiB read | MiB of the reporter |\n|---|---|---|---|---|---|---|")
        measure(store)
        print(f"load at the end {os.getloadavg()[0]:.1f}")
    finally:
        store.crib.close()


if __name__ == "__main__":
    main(sys.argv[1:])
