"""Sinks of type s3 (OP-350 to OP-354): each object is a bundle that verifies without the server, signed requests that a peer checks by
itself, locks that are looked for, and servers that do not what they say."""
import base64
import datetime
import hashlib
import hmac
import http.server
import re
import shutil
import subprocess
import sys
import threading
import urllib.parse

import crib
import test_metrics
from test_sinks import Case as Sinks

KEY, SECRET, REGION = "AKIDEXAMPLE7", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "eu-central-1"


class Bucket(http.server.ThreadingHTTPServer):
    """As much of S3 as is asked of it, and what is not signed as version 4 of its signatures has it is refused."""
    daemon_threads = True

    def __init__(self, port=0, locks=True, key=SECRET):
        super().__init__(("127.0.0.1", port), Handler)
        self.port, self.locks, self.key = self.server_address[1], locks, key
        self.objects, self.wrong, self.asked, self.does = {}, [], [], []
        self.over = False
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self):
        self.over = True
        self.shutdown()
        self.thread.join()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    skew = None

    def log_message(self, *args):
        pass

    def say(self, status, headers=(), body=b""):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def fault(self, body):
        """What is wrong with the signature, in words; None: nothing."""
        found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, SignedHeaders=([a-z0-9;-]+), "
                             r"Signature=([0-9a-f]{64})", self.headers["authorization"] or "")
        if not found:
            return f"no signature: {self.headers['authorization']}"
        key, day, region, names, signature = found.groups()
        date, sent = self.headers["x-amz-date"], self.headers["x-amz-content-sha256"]
        names = names.split(";")
        if (key, region) != (KEY, REGION) or not date.startswith(day):
            return f"signed for {key} {region} {day} {date}"
        age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.strptime(date + "+0000", "%Y%m%dT%H%M%SZ%z")
        if abs(age.total_seconds()) > 900:
            return "RequestTimeTooSkewed"
        if sent != hashlib.sha256(body).hexdigest():
            return "another body"
        unsigned = {name.lower() for name in self.headers if name.lower().startswith("x-amz-")} - set(names)
        if unsigned or "host" not in names or names != sorted(names):
            return f"not signed: {unsigned} of {names}"
        path, _, query = self.path.partition("?")
        canonical = "\n".join([self.command, urllib.parse.quote(urllib.parse.unquote(path), safe="/-_.~"), query,
                               *(f"{name}:{' '.join((self.headers[name] or '').split())}" for name in names), "", ";".join(names), sent])
        text = f"AWS4-HMAC-SHA256\n{date}\n{day}/{region}/s3/aws4_request\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        secret = ("AWS4" + self.server.key).encode()
        for part in (day, region, "s3", "aws4_request"):
            secret = hmac.digest(secret, part.encode(), "sha256")
        return None if hmac.digest(secret, text.encode(), "sha256").hex() == signature else "another signature"

    def handle_one(self):
        bucket, body = self.server, self.rfile.read(int(self.headers["content-length"] or 0))
        bucket.asked.append((self.command, self.path))
        if bucket.over:
            self.close_connection = True
            return
        wrong = self.fault(body)
        if wrong:
            bucket.wrong.append(wrong)
            self.say(403)
        elif bucket.does and (self.command == "PUT") == bucket.does[0][0]:
            bucket.does.pop(0)[1](self)
        elif self.command == "PUT":
            self.put(body)
        elif self.path in bucket.objects:
            self.say(200, bucket.objects[self.path][0])
        else:
            self.say(404)

    def put(self, body):
        bucket, headers = self.server, {name.lower(): value for name, value in self.headers.items()}
        kept = {name: value for name, value in headers.items() if name.startswith("x-amz-meta-")}
        lock = {name: value for name, value in headers.items() if name.startswith("x-amz-object-lock-")}
        if self.path in bucket.objects:
            self.say(412 if headers["if-none-match"] == "*" else 200)
            return
        if lock and headers.get("content-md5") != base64.b64encode(hashlib.md5(body).digest()).decode():
            bucket.wrong.append("a lock without the digest of what is locked")
            self.say(400)
            return
        bucket.objects[self.path] = ({**kept, "etag": '"1"', **(lock if bucket.locks else {})}, body)
        self.say(200, {"etag": '"1"'})

    do_HEAD = do_PUT = do_GET = do_POST = do_DELETE = handle_one


class Case(Sinks):
    KEY, SECRET = KEY, SECRET

    def bucket(self, **how):
        bucket = Bucket(**how)
        self.addCleanup(lambda: bucket.over or bucket.close())
        return bucket

    def s3(self, bucket, more="", age="1s"):
        path = self.crib.dir / "s3.key"
        path.touch(mode=0o600)
        path.write_text(f"{self.KEY}\n{self.SECRET}\n")
        return (f"name: local, type: s3, url: 'http://127.0.0.1:{bucket.port}/audit/prod/', region: {REGION}, key_file: '{path}', "
                f"segment: {{age: {age}, records: 40}}{more}")

    def judge(self, body):
        file = self.crib.dir / "object.tar"
        file.write_bytes(body)
        return subprocess.run([crib.BUILD / "toolcrib-verify", *crib.evidence(self.crib.store, keys=False), "--bundle", file],
                              capture_output=True, text=True, timeout=crib.DEADLINE)

    def verified(self, bucket, most=40):
        """Each object by itself, and no gap and no double between those of a log."""
        ranges = {}
        for path, (headers, body) in list(bucket.objects.items()):
            if "/checkpoint/" in path:
                self.assertEqual(headers["x-amz-meta-sha256"], hashlib.sha256(body).hexdigest())
                continue
            found = re.fullmatch(r"/audit/prod/(.+)/records/(\d{12})-(\d{12})\.tar", path)
            ranges.setdefault(found[1], []).append((int(found[2]), int(found[3]) + 1))
            self.assertEqual(headers["x-amz-meta-sha256"], hashlib.sha256(body).hexdigest())
            done = self.judge(body)
            self.assertEqual(done.returncode, 0, (path, done.stdout, done.stderr))
        for log, parts in ranges.items():
            parts.sort()
            self.assertEqual([a for a, _ in parts], [0] + [b for _, b in parts[:-1]], log)
            self.assertLessEqual(max(b - a for a, b in parts), most)
        self.assertEqual(bucket.wrong, [])
        return ranges


class Objects(Case):
    def test_each_verifies_by_itself(self):
        """Signed, locked, named by its range, at most segment.records, and nothing missing between two."""
        bucket = self.bucket()
        c = self.serve(self.s3(bucket, ", lock: {mode: compliance, days: 400}"))
        self.calls(50)
        self.has_all()
        self.again()
        self.calls(3)
        self.has_all()
        ranges = self.verified(bucket)
        self.assertEqual(len(ranges), 2)
        self.assertGreater(max(len(parts) for parts in ranges.values()), 2)
        for headers, _ in bucket.objects.values():
            until = datetime.datetime.strptime(headers["x-amz-object-lock-retain-until-date"], "%Y-%m-%dT%H:%M:%S.%f%z")
            self.assertEqual(headers["x-amz-object-lock-mode"], "COMPLIANCE")
            self.assertEqual((until - datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)).days, 400)
        self.assertEqual({command for command, _ in bucket.asked}, {"HEAD", "PUT"})
        said = c.log.read_text() + c.cli("sink", "list", "--json") + c.cli("status", "--json") + "".join(self.told())
        self.assertNotIn(SECRET, said)
        self.assertNotIn("hello", "".join(str(body) for _, body in bucket.objects.values()))

    def notes(self, bucket):
        """Checkpoints that are there, by the records that they cover."""
        return {int(found[2]): (found[1], body) for path, (_, body) in list(bucket.objects.items())
                if (found := re.fullmatch(r"/audit/prod/(.+)/checkpoint/(\d{12})", path))}

    def test_a_checkpoint_there_is_an_anchor(self):
        """OP-353: one of the system's log, each anchor.every, on record with what the bucket says of it; a verifier takes the object as
        it is, and by it finds a store that was put back."""
        bucket = self.bucket()
        c = self.serve(self.s3(bucket, ", lock: {mode: compliance, days: 400}"))
        self.calls(3)
        self.has_all()
        c.stop()
        old = self.crib.dir / "old"
        shutil.copytree(c.store, old)
        first = max(self.notes(bucket))
        c.start(self.text)      # takes one as well
        crib.wait_for("another", lambda: max(self.notes(bucket)) > first)
        newest = max(self.notes(bucket))
        rows = crib.wait_for("a row", lambda: (rows := c.rows("SELECT kind, size, note, receipt FROM anchor ORDER BY id")) and
                             rows[-1][1] == newest and rows)
        c.stop()
        origin, body = self.notes(bucket)[newest]
        self.assertEqual([row[:2] for row in rows], [(3, size) for size in sorted(self.notes(bucket))])
        self.assertEqual(rows[-1][2], body)
        self.assertRegex(rows[-1][3].decode(), rf'http://.*/audit/prod/{origin}/checkpoint/{newest:012} etag="1" version=$')
        self.assertIn("anchor in a bucket", c.cli("audit", "anchors"))
        file = self.crib.dir / "note"
        file.write_bytes(body)
        for store, rc in ((c.store, 0), (old, 4)):
            for verifier in ([crib.BUILD / "toolcrib-verify"], [sys.executable, crib.SOURCE / "contrib/verify/verify.py"]):
                with self.subTest(store=store, verifier=verifier):
                    done = subprocess.run([*verifier, *crib.evidence(c.store), "--anchor", file, store / "toolcrib.db"],
                                          capture_output=True, text=True, timeout=crib.DEADLINE)
                    self.assertEqual(done.returncode, rc, done.stdout + done.stderr)
                    self.assertEqual("ANCHOR" in done.stdout, rc == 4, done.stdout)

    def test_a_sink_without_the_system_has_no_checkpoints(self):
        bucket = self.bucket()
        self.serve(self.s3(bucket, ", tenants: [acme]"))
        self.calls(3)
        crib.wait_for("objects", lambda: bucket.objects)
        self.calls(3)
        crib.wait_for("all", lambda: self.sink()["behind"] == 0)
        self.assertEqual(self.notes(bucket), {})
        self.assertEqual(self.crib.rows("SELECT count(*) FROM anchor"), [(0,)])

    def test_one_that_was_away_has_all_without_a_gap(self):
        bucket = self.bucket()
        self.serve(self.s3(bucket))
        self.calls(5)
        self.has_all()
        bucket.close()
        self.calls(30)
        crib.wait_for("a failure", lambda: self.sink()["failures"] > 0)
        second = self.bucket(port=bucket.port)
        second.objects = bucket.objects
        self.has_all()
        self.verified(second)

    def test_the_bytes_of_a_segment(self):
        bucket = self.bucket()
        self.serve(self.s3(bucket).replace("records: 40", "records: 65536, bytes: 64KiB"))
        self.calls(60)
        self.has_all()
        self.assertGreater(len(bucket.objects), 3)
        self.assertLessEqual(max(len(body) for _, body in bucket.objects.values()), 65536)
        self.verified(bucket, most=65536)

    def test_the_age_of_a_segment(self):
        """A start sends what waits; then nothing goes before there is enough of it."""
        bucket = self.bucket()
        self.serve(self.s3(bucket, age="30d"))
        crib.wait_for("objects", lambda: len(bucket.objects) == 3)        # two bundles, a checkpoint
        had = len(bucket.objects)
        self.calls(30)          # more than records: two of each call
        crib.wait_for("one more", lambda: len(bucket.objects) > had)
        self.verified(bucket)


class Trouble(Case):
    def failing(self, text):
        return crib.wait_for(text, lambda: text in ((row := self.sink())["why"] or "") and row)

    def at_once(self):
        self.crib.cli("sink", "pause", "local")
        self.crib.cli("sink", "resume", "local")

    def test_a_bucket_that_does_not_lock_is_no_place(self):
        """Issue 19, bad input: it answers 200 to the put, and has no lock: named, counted, alerted, and nothing moves on."""
        bucket = self.bucket(locks=False)
        c = self.serve(self.s3(bucket, ", lock: {mode: governance, days: 1}"), more="metrics: {listen: '127.0.0.1:0'}\n")
        row = self.failing("not locked: the bucket takes objects without the lock GOVERNANCE")
        self.assertEqual((row["state"], row["sent"]), ("refused", 0))
        self.assertIn("local: refused", c.status()["sinks"])
        self.assertRegex(test_metrics.get(c)[2], r'toolcrib_sink_up\{sink="local"\} 0\n')
        c.cli("reload")
        crib.wait_for("an alert", lambda: [a for a in c.json("alerts") if (a["rule"], a["subject"]) == ("sink_refused", "local")])
        self.at_once()          # what is there has none either
        crib.wait_for("a failure", lambda: self.sink()["failures"] > 1)
        self.assertEqual((self.sink()["state"], self.sink()["sent"]), ("refused", 0))
        self.peer.close()
        c.stop()                # a person has mended it
        bucket.locks = True
        bucket.objects.clear()
        c.start(self.text)
        self.has_all()
        self.verified(bucket)

    def test_answers_that_take_nothing(self):
        bucket = self.bucket()
        busy = lambda handler: handler.say(503, {"retry-after": "1"})

        def half(handler):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
            handler.close_connection = True

        def nonsense(handler):
            handler.wfile.write(b"\x16\x03\x01 nonsense")
            handler.close_connection = True
        bucket.does = [(True, busy), (True, half), (False, nonsense), (True, lambda handler: handler.say(200))]     # takes, and forgets
        self.serve(self.s3(bucket))
        self.has_all()
        self.assertGreaterEqual(self.sink()["failures"], 4)
        self.verified(bucket)
        bucket.does = [(True, lambda handler: handler.say(301, {"location": f"http://127.0.0.1:{bucket.port}/other"}))]
        self.calls(1)
        row = self.failing("status 301, which a person has to mend")
        self.assertGreater(row["retry_s"], 30)
        self.at_once()
        self.has_all()
        self.assertNotIn(("PUT", "/other"), bucket.asked)

    def test_another_object_of_that_name_is_left_alone(self):
        """And one that somebody put in between is looked at: ours counts, whoever put it."""
        bucket = self.bucket()

        def quicker(handler):
            headers = {name.lower(): value for name, value in handler.headers.items() if name.lower().startswith("x-amz-meta-")}
            bucket.objects[handler.path] = (headers, b"of another server of this store")
            handler.say(412)

        def other(handler):
            bucket.objects[handler.path] = ({"x-amz-meta-root": "00" * 32}, b"of somebody else")
            handler.say(412)
        bucket.does = [(True, quicker)]
        self.serve(self.s3(bucket))
        self.has_all()
        bucket.does = [(True, other)]
        self.calls(1)
        row = self.failing("another object has the name of ours")
        self.assertEqual(row["state"], "refused")
        self.assertIn((b"of somebody else"), [body for _, body in bucket.objects.values()])

    def test_a_wrong_secret(self):
        bucket = self.bucket(key=SECRET[::-1])
        self.serve(self.s3(bucket))
        self.failing("status 403, which a person has to mend")
        self.assertEqual(set(bucket.wrong), {"another signature"})
        self.assertEqual(bucket.objects, {})

    def test_clocks_that_differ(self):
        bucket = self.bucket()
        bucket.does = [(False, lambda handler: (setattr(handler, "date_time_string", lambda *_: "Thu, 01 Jan 2026 00:00:00 GMT"),
                                                handler.say(403)))]
        self.serve(self.s3(bucket))
        self.failing("the clocks differ by more than 15 minutes")


class Configuration(Case):
    def test_what_is_wrong_is_named(self):
        key = self.crib.dir / "key"
        key.touch(mode=0o600)
        key.write_text(f"{KEY}\n{SECRET}\n")
        short = self.crib.dir / "short"
        short.touch(mode=0o600)
        short.write_text(f"{KEY}\n")
        place = f"type: s3, url: 'https://a.example/b', region: {REGION}, key_file: "
        for sink, said in ((place + f"'{short}'", "must hold two lines: the id of a key, and its secret"),
                           (place + f"'{key}', format: cef", "format"), (place + f"'{key}', kinds: [call.end]", "kinds"),
                           (place + f"'{key}', lock: {{mode: compliance, days: 3651}}", "days"),
                           (place + f"'{key}', lock: {{days: 1}}", "mode"),
                           (place + f"'{key}', segment: {{bytes: 65MiB}}", "bytes must be a size from 64KiB to 64MiB"),
                           (place + f"'{key}', segment: {{records: 65537}}", "records"),
                           (place + f"'{key}', required: 1h", "required must be longer than the age of a segment"),
                           (place.replace(REGION, "Europe") + f"'{key}'", "is no region"),
                           (place.replace("https", "http") + f"'{key}'", "must be reached by https"),
                           ("type: s3, url: 'https://a.example/b'", "key_file")):
            with self.subTest(said):
                config = self.crib.config(f"sinks:\n- {{name: x, {sink}}}\n")
                done = subprocess.run([crib.BUILD / "toolcribd", "--check-config", "-c", config], capture_output=True, text=True,
                                      env=self.crib.env)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(said, done.stderr)


if __name__ == "__main__":
    crib.main()
