"""Runs black-box tests side by side and says each one's outcome in TAP: run.py [-j N] [--disk] FILE…

One Python process has imported what they need; each file is run by a fork of it, as `python3 FILE` would, in a session
of its own, so that the scheduler's autogroups share the processors among files and what gives way to calls, such as a
reporter, gives way to those of its own server alone (sched(7)).  The slow ones come first: as this tree's last run took, else as that of another, whose file TOOLCRIB_TEST_TIMES names.  Stores lie in
memory where TMPDIR names no other place and /dev/shm will do; those of DISK, and all with --disk, on a disk.  What a
file prints is in BUILD/tests/integ/NAME.log, what each of its tests took in BUILD/tests/integ/times."""
import argparse
import atexit
import json
import os
import pathlib
import resource
import runpy
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import certs        # noqa: F401 - imported once, for all
import crib

# A power that fails, a disk that is full, and calls that last longer than a millisecond.
DISK = {"test_crash", "test_full_disk", "test_reports"}
# What floods the machine with processes; last, one after the other, since others wait for answers with a deadline.
ALONE = {"test_bwrap", "test_cgroup", "test_hostile"}
# What takes longest where nothing says how long each took: these first, then by size.
SLOW = ("test_paging", "test_report_work", "test_fold", "test_bench", "test_foreign_files", "test_reports", "test_forms",
        "test_budgets", "test_sql_workers", "test_folded", "test_terminal", "test_crash_points", "test_tampering", "test_equal")
OUT = crib.BUILD.resolve() / "tests/integ"
TIMES = OUT / "times"
TAIL = 120          # lines of a file's output that a failure shows


def cpu():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def in_memory():
    """A folder in memory that a store can lie in, None when there is none."""
    try:
        with tempfile.TemporaryDirectory(prefix="toolcrib-", dir="/dev/shm") as folder:
            program = pathlib.Path(folder) / "true"
            program.write_text("#!/bin/sh\nexit 0\n")
            program.chmod(0o700)
            subprocess.run([str(program)], check=True)
            free = os.statvfs(folder)
            return "/dev/shm" if free.f_bavail * free.f_frsize > 2 << 30 else None
    except (OSError, subprocess.CalledProcessError):
        return None


class Result(unittest.TextTestResult):
    """Tells the parent how each test ended, and what it took."""

    said = None

    def bad(self):
        return len(self.failures) + len(self.errors) + len(self.unexpectedSuccesses)

    def startTest(self, test):
        self.begun = time.monotonic(), cpu(), self.bad(), len(self.skipped)
        super().startTest(test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if not isinstance(test, unittest.TestCase):     # a class as a whole, of which no test begins: "setUpClass (__main__.Name)"
            self.said(name=test.id().rstrip(")").rpartition(".")[2], outcome="skipped", cpu=0, wall=0, why=reason)

    def stopTest(self, test):
        super().stopTest(test)
        wall, used, bad, skipped = self.begun
        outcome = "ok"
        if self.bad() > bad:
            outcome = "failed"
        elif len(self.skipped) > skipped:
            outcome = "skipped"
        self.said(name=".".join(test.id().split(".")[-2:]), outcome=outcome, cpu=round(cpu() - used, 3),
                  wall=round(time.monotonic() - wall, 3), why=self.skipped[-1][1] if outcome == "skipped" else "")


class Child:
    """A file under way."""

    def __init__(self, path):
        self.path, self.name = path, path.stem
        self.log = OUT / f"{self.name}.log"
        self.begun = time.monotonic()
        read, write = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(read)
                self.work(write)
            finally:
                os._exit(3)
        os.close(write)
        self.pipe, self.said = read, b""

    def work(self, fd):
        """In the fork: what `python3 FILE` does; never returns."""
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        null = os.open("/dev/null", os.O_RDONLY)
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        if self.name in DISK:
            os.environ.pop("TMPDIR", None)
            tempfile.tempdir = None
        out = os.fdopen(fd, "w")
        Result.said = staticmethod(lambda **what: print(json.dumps(what), file=out, flush=True))
        crib.RUNNER = unittest.TextTestRunner(verbosity=2, resultclass=Result)
        sys.argv = [str(self.path)]
        code = 1
        try:
            runpy.run_path(str(self.path), run_name="__main__")
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else int(bool(e.code))
        except BaseException:
            sys.excepthook(*sys.exc_info())
        sys.stdout.flush()
        sys.stderr.flush()
        atexit._run_exitfuncs()
        os._exit(code)

    def listen(self):
        """Something came: True when that was the last."""
        more = os.read(self.pipe, 1 << 16)
        self.said += more
        return not more

    def end(self):
        """What it said; its exit status and CPU seconds."""
        os.close(self.pipe)
        _, status, used = os.wait4(self.pid, 0)
        lines = list(map(json.loads, self.said.splitlines()))
        return lines, os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


class Tap:
    def __init__(self):
        self.n = self.failed = 0

    def say(self, fine, what, more=""):
        self.n += 1
        self.failed += not fine
        print(f"{'ok' if fine else 'not ok'} {self.n} - {what}{more}", flush=True)

    def file(self, child, lines, code):
        """All tests of a file, and the output of it when one failed."""
        for line in lines:
            skip = f" # SKIP {line['why']}" if line["outcome"] == "skipped" else ""
            self.say(line["outcome"] != "failed", f"{child.name} {line['name']}", skip)
        output = child.log.read_text(errors="replace").splitlines()
        failed = any(line["outcome"] == "failed" for line in lines)
        if code == 77:
            self.say(True, child.name, f" # SKIP {output[-1] if output else 'nothing said'}")
        elif code != 0 and not failed or not lines:
            self.say(False, f"{child.name} ended with status {code}, {len(lines)} tests")
            failed = True
        if failed:
            print(*(f"# {child.name}: {line}" for line in output[-TAIL:]), sep="\n", flush=True)


def last_times(path):
    """What each file and test took when it was last run: CPU seconds, seconds."""
    try:
        return {name: (float(used), float(wall))
                for name, used, wall in (line.split("\t") for line in path.read_text().splitlines())}
    except (OSError, ValueError):
        return {}


def by_length(paths, times):
    """The longest first; those that stay alone last."""
    guessed = {path: (0, (path.stem in SLOW) * (1 << 30) + path.stat().st_size) for path in paths}
    return sorted(paths, key=lambda path: (path.stem in ALONE, -times.get(path.stem, guessed[path])[1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-j", type=int, default=2 * len(os.sched_getaffinity(0)), help="how many at a time")
    parser.add_argument("--disk", action="store_true", help="stores on a disk")
    parser.add_argument("file", nargs="+")
    args = parser.parse_args()
    if not (crib.BUILD / "toolcribd").exists():
        print("1..0 # SKIP toolcribd is not built")
        return 0
    if not args.disk and "TMPDIR" not in os.environ and in_memory():
        os.environ["TMPDIR"] = in_memory()
    OUT.mkdir(parents=True, exist_ok=True)
    shelf = tempfile.mkdtemp(prefix="toolcrib-shelf-")
    os.environ["TOOLCRIB_TEST_SHELF"] = shelf
    times = last_times(TIMES)
    paths = [crib.SOURCE / file for file in args.file]
    due = by_length(paths, {**last_times(pathlib.Path(os.environ.get("TOOLCRIB_TEST_TIMES", "/dev/null"))), **times})
    tap, running, took, begun = Tap(), {}, {}, time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        while due or running:
            while due and len(running) < (1 if due[0].stem in ALONE else args.j):
                child = Child(due.pop(0))
                running[child.pipe] = child
            for fd in select.select(list(running), [], [])[0]:
                child = running[fd]
                if not child.listen():
                    continue
                del running[fd]
                lines, code, used = child.end()
                took[child.name] = used, time.monotonic() - child.begun
                took.update({f"{child.name} {line['name']}": (line["cpu"], line["wall"]) for line in lines})
                tap.file(child, lines, code)
    finally:
        for child in running.values():
            os.kill(child.pid, signal.SIGTERM)
        shutil.rmtree(shelf, ignore_errors=True)
    print(f"1..{tap.n}")
    files = [took[path.stem] for path in paths]
    print(f"# {len(files)} files, {sum(one[0] for one in files):.0f} CPU s, {time.monotonic() - begun:.0f} s")
    TIMES.write_text("".join(f"{name}\t{used:.2f}\t{wall:.2f}\n" for name, (used, wall) in (times | took).items()))
    return tap.failed > 0


if __name__ == "__main__":
    sys.exit(main())
