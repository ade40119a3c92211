"""All receivers at once are away for a while, under load (issue 19, shows 3): rsyslogd over TLS, a webhook, an event collector, a
collector of OTLP and a bucket are killed and started again, and then each has every record of every log, in its order, once.

TOOLCRIB_AWAY_SECONDS says for how long (2), TOOLCRIB_AWAY_RATE how many calls come in a second meanwhile (100).  With
TOOLCRIB_S3 the bucket is s3rver, as botocore reads it: make check-objects, make check-away."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import types

import away
import certs
import crib
import otlp
import test_metrics
import test_s3_foreign
import test_sink_http
import test_sink_s3
import test_sink_syslog
import test_sinks

SECONDS = float(os.environ.get("TOOLCRIB_AWAY_SECONDS", "2"))
RATE = float(os.environ.get("TOOLCRIB_AWAY_RATE", "100"))
CLIENTS = 4
PATIENCE = 60 + SECONDS         # how long a thing may take beyond what it takes by itself
FOREIGN = bool(test_s3_foreign.botocore and test_s3_foreign.SERVER)


class Load:
    """Clients that call at a rate, whatever comes of it: what a call took by phase, and those that were not answered well."""

    def __init__(self, c, key):
        self.took, self.of, self.wrong, self.done, self.over = {}, {}, [], 0, threading.Event()
        self.lock, self.begun, self.given = threading.Lock(), time.monotonic(), 0
        self.phase("before")
        self.threads = [threading.Thread(target=self.client, args=(c.tcp(key),)) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def phase(self, name):
        with self.lock:
            self.took[name] = self.now = []
            self.of[name] = time.monotonic()

    def client(self, peer):
        while True:
            with self.lock:
                n, self.given = self.given, self.given + 1
            if self.over.wait(max(0, self.begun + n / RATE - time.monotonic())):
                break
            at = time.monotonic()
            try:
                got = peer.call("echo", {"text": f"hello {n}"}, crib.MODERN)
            except (OSError, AssertionError, ValueError) as wrong:
                self.wrong.append(repr(wrong))
                break
            with self.lock:
                self.now.append(time.monotonic() - at)
                self.done += 1
                if "result" not in got:
                    self.wrong.append(got)
        peer.close()

    def awaits(self, seconds):
        """So much of the load: calls come by the clock."""
        until = self.done + seconds * RATE
        crib.wait_for(f"{seconds} s of calls", lambda: self.over.wait(0.02) or self.done >= until, 10 * seconds + PATIENCE)

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def said(self, name, end):
        """Calls a second, half of them within, 99 of 100 within."""
        took = sorted(self.took[name])
        seconds = end - self.of[name]
        return f"{len(took) / seconds:.0f} calls/s, p50 {1e3 * took[len(took) // 2]:.1f} ms, p99 {1e3 * took[len(took) * 99 // 100]:.1f} ms"


class Sequence:
    """What a receiver has, as it came: repeats are the same record, and without them no position is missing, double or out of its turn."""

    def __init__(self):
        self.logs, self.again, self.wrong = {}, 0, []

    def add(self, log, index, id):
        have, id = self.logs.setdefault(log, []), bytes.fromhex(id)
        if index == len(have):
            have.append(id)
        elif index < len(have) and have[index] == id:
            self.again += 1
        else:
            self.wrong.append((log, index, len(have), id.hex()))

    @property
    def sizes(self):
        return {log: len(ids) for log, ids in self.logs.items()}


class Away(test_sink_syslog.Rsyslogd, test_sink_http.Case, test_sink_s3.Case):
    """Bodies of requests are in files, so that an hour of them needs no memory."""

    def spawn(self, kind, *words):
        """Started at the port that it had."""
        child = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        line = child.stdout.readline()
        self.assertTrue(line, f"{kind} did not start")
        self.ports[kind] = int(line)
        self.children[kind] = child

    def start_all(self):
        for kind in ("hook", "hec", "logs"):
            self.spawn(kind, sys.executable, away.__file__, kind, str(self.ports.get(kind, 0)), str(self.folder))
        if FOREIGN:
            self.spawn("lake", "node", pathlib.Path(test_s3_foreign.SERVER).resolve(), self.folder / "s3rver", test_s3_foreign.BUCKET,
                         str(self.ports.get("lake", 0)))
        else:
            self.spawn("lake", sys.executable, away.__file__, "lake", str(self.ports.get("lake", 0)), str(self.folder))
        self.start()            # rsyslogd

    def kill_all(self):
        for kind, child in self.children.items():
            child.terminate() if kind == "lake" and FOREIGN else child.kill()       # s3/server.mjs
        if self.process.poll() is None:
            self.process.kill()
        for child in self.children.values():
            child.wait()
            child.stdin.close()
            child.stdout.close()
        self.process.wait()
        self.children = {}

    def serve_all(self):
        self.ca = certs.Ca(self.crib.dir)
        self.cert, self.own = self.ca.sign("siem", "IP:127.0.0.1")
        self.folder = self.crib.dir / "away"
        self.folder.mkdir()
        self.ports, self.children = {}, {}
        self.start_all()
        self.addCleanup(self.kill_all)
        token, secret = self.secret("token", test_sink_http.TOKEN), self.secret("secret", test_sinks.base64.b64encode(test_sinks.Receiver.KEY).decode())
        if FOREIGN:
            self.KEY = self.SECRET = test_s3_foreign.Foreign.KEY
        lake = self.s3(types.SimpleNamespace(port=self.ports["lake"]), age="1s").replace("name: local", "name: lake").replace("records: 40", "records: 5000")
        self.serve(f"name: siem, type: syslog, address: '127.0.0.1:{self.port}', ca: '{self.ca.cert}'",
                   f"name: hook, type: webhook, url: 'http://127.0.0.1:{self.ports['hook']}/', secret_file: '{secret}'",
                   f"name: hec, type: hec, url: 'http://127.0.0.1:{self.ports['hec']}/', token_file: '{token}', ack: true",
                   f"name: logs, type: otlp, url: 'http://127.0.0.1:{self.ports['logs']}/'", lake, more="metrics: {listen: '127.0.0.1:0'}\n")
        self.nothing = threading.Event()

    def sinks(self):
        """What metrics say of each: a command would be on record, and never would all be sent."""
        self.nothing.wait(0.05)
        found = {}
        for name, sink, result, value in re.findall(r'(?m)^toolcrib_sink_(\w+){sink="(\w+)"(?:,result="(\w+)")?} (\d+)$',
                                                    test_metrics.get(self.crib)[2]):
            found.setdefault(sink, {})[result or name] = int(value)
        return found

    # --- what each has

    def siem(self):
        """Its file, as it was written."""
        got = Sequence()
        with open(self.dir / "messages", "rb") as f:
            for line in f:
                row = test_sink_syslog.parse(line.rstrip(b"\n"))
                got.add(row["log"], row["index"], row["id"])
        return got

    def hook(self):
        """Exactly once where names of batches are kept."""
        got, names = Sequence(), set()
        for name, body in away.batches(self.folder / "hook"):
            self.assertNotIn(name, names)
            names.add(name)
            for line in body.splitlines():
                row = json.loads(line)
                got.add(row["log"], row["index"], row["id"])
        self.assertEqual(got.again, 0)
        return got

    def hec(self):
        got = Sequence()
        for _, body in away.batches(self.folder / "hec"):
            for line in body.splitlines():
                row = json.loads(line)["event"]
                got.add(row["log"], row["index"], row["id"])
        return got

    def otlp_logs(self):
        """And protoc knows every field: of each request, or of several as one where there are many (repeated fields add up)."""
        got, some, count = Sequence(), [], 0
        together = 1 + sum(1 for _ in away.batches(self.folder / "logs")) // 300

        def second():
            done = subprocess.run([shutil.which("protoc"), "--decode=ExportLogsServiceRequest", f"--proto_path={test_sink_http.PROTO.parent}",
                                   test_sink_http.PROTO.name], input=b"".join(some), stdout=subprocess.PIPE, check=True)
            self.assertIsNone(re.search(rb"(?m)^\s*\d+(:| \{)", done.stdout), "a field without a name")
            self.assertEqual(done.stdout.count(b"time_unix_nano: "), count)
        for _, body in away.batches(self.folder / "logs"):
            records = otlp.logs(body)
            for record in records:
                got.add(record["attributes"]["toolcrib.log"], record["attributes"]["toolcrib.index"], record["attributes"]["toolcrib.id"])
            some, count = some + [body], count + len(records)
            if len(some) == together:
                second()
                some, count = [], 0
        second()
        return got

    def lake(self):
        """Each object verified by itself; what their names say of their records."""
        if FOREIGN:
            self.client = test_s3_foreign.botocore.session.Session().create_client(
                "s3", region_name=test_sink_s3.REGION, endpoint_url=f"http://127.0.0.1:{self.ports['lake']}", aws_access_key_id=self.KEY,
                aws_secret_access_key=self.SECRET, config=test_s3_foreign.botocore.config.Config(s3={"addressing_style": "path"}))
            objects = test_s3_foreign.Foreign.objects(self)
        else:
            objects = away.Objects(self.folder / "lake")
        bucket = types.SimpleNamespace(objects=objects, wrong=[])
        return {log: parts[-1][1] for log, parts in self.verified(bucket, most=5000).items()}, len(objects)

    # --- the test

    def memory(self):
        return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{self.crib.daemon.pid}/status").read_text())[1]) // 1024

    def caught_up(self, load, owed):
        """When each has taken its first record again, and when what it lags behind is what just happened."""
        begun, first, last = time.monotonic(), {}, {}
        had = {name: row["sent"] for name, row in self.sinks().items()}

        def look():
            now = time.monotonic()
            for name, row in self.sinks().items():
                if row["sent"] > had[name]:
                    first.setdefault(name, now)
                    if row["lag_records"] <= 8 * RATE:       # of the last four seconds: an object waits one
                        last.setdefault(name, now)
            return len(last) == len(had)
        crib.wait_for("all sinks to have caught up", look, 3 * SECONDS + 12 * PATIENCE)
        return {name: (first[name] - begun, last[name] - begun, owed[name] / max(last[name] - first[name], 0.05)) for name in owed}

    def report(self, text):
        print(f"# {text}", file=sys.stderr, flush=True)

    def test_all_are_killed_under_load_and_none_misses_a_record(self):
        if not shutil.which("protoc"):
            self.skipTest("protoc is not there: Debian's package protobuf-compiler has it")
        self.serve_all()
        load = Load(self.crib, self.key)
        self.addCleanup(load.end)
        lead = min(30, max(1, SECONDS / 4))
        load.awaits(lead)
        crib.wait_for("records at all of them", lambda: all(row["sent"] for row in self.sinks().values()), PATIENCE)
        rss = [self.memory()]
        self.kill_all()
        load.phase("away")
        load.awaits(SECONDS)
        rows = self.sinks()
        # One may have nothing to send just now, and one that acknowledges be asked for what it took.
        self.assertLessEqual({"siem", "hook", "logs"}, {name for name, row in rows.items() if row["failed"]})
        owed = {name: row["lag_records"] for name, row in rows.items()}
        rss.append(self.memory())
        self.start_all()
        load.phase("after")
        times = self.caught_up(load, owed)
        load.phase("behind that")
        load.awaits(lead)
        load.end()
        self.assertEqual(load.wrong, [])
        want, have = self.heads(), set()

        def all_of_it():
            have.update(name for name, row in self.sinks().items() if row["lag_records"] == 0)
            return have == set(owed)
        crib.wait_for("all of it", all_of_it, 2 * PATIENCE)
        rss.append(self.memory())
        self.judge_all(load, owed, times, rss, want)

    def heads(self):
        return dict(self.crib.rows("SELECT l.origin, h.size FROM head h JOIN log l ON l.id = h.log"))

    def judge_all(self, load, owed, times, rss, want):
        """What was there when the load ended, at least: each round of objects is on record as well."""
        def is_whole(sizes):
            return all(sizes.get(log, 0) >= many for log, many in want.items())

        def once_whole(of, sizes_of=lambda sequence: sequence.sizes):
            """What has been sent is not what rsyslogd has written, and what a sink lags behind is as old as its last look."""
            found = []

            def look():
                found[:] = [of()]
                return is_whole(sizes_of(found[0]))
            crib.wait_for("the last record", look, PATIENCE)
            return found[0]
        got = {"siem": once_whole(self.siem), "hook": once_whole(self.hook), "hec": once_whole(self.hec), "logs": once_whole(self.otlp_logs)}
        objects, n = once_whole(self.lake, lambda found: found[0])
        for path in self.folder.glob("*.wrong"):
            self.assertEqual((path.name, path.read_text()), (path.name, ""))
        for name, sequence in got.items():
            self.assertEqual((name, sequence.wrong[:3]), (name, []))
            self.assertEqual({log: ids[:want[log]] for log, ids in sequence.logs.items()},
                             {log: ids[:want[log]] for log, ids in got["siem"].logs.items()}, name)
            self.assertEqual([log for log, many in want.items() if len(sequence.logs[log]) < many], [], name)
        self.assertEqual([log for log, many in want.items() if objects[log] < many], [])
        total = sum(want.values())
        self.report(f"{SECONDS:.0f} s away at {RATE:.0f} calls/s: {total} records of {load.done} calls, 0 lost, 0 double, 0 out of order; "
                    f"{n} objects{' at s3rver' if FOREIGN else ''}; RSS before, away, after {rss} MiB")
        self.report(f"before {load.said('before', load.of['away'])}; away {load.said('away', load.of['after'])}; "
                    f"after {load.said('after', load.of['behind that'])} until caught up")
        for name, (first, last, rate) in times.items():
            again = got[name].again if name in got else 0
            self.report(f"{name}: owed {owed[name]}, took the first {first:.1f} s and the last {last:.1f} s after the start, "
                        f"{rate:.0f} records/s; {again} repeats with the same id")


if __name__ == "__main__":
    crib.main()
