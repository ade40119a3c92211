"""Sinks of type s3 against a server of others (issue 19, shows 3; OP-350 to OP-354): s3rver keeps the objects, botocore lists and reads
them and signs each request a second time, toolcrib-verify judges what came out.  Needs node, the package that make check-objects
installs, and botocore."""
import os
import pathlib
import subprocess
import types
import unittest

import crib
import test_sink_s3

try:
    import botocore.auth
    import botocore.awsrequest
    import botocore.config
    import botocore.credentials
    import botocore.session
except ImportError:
    botocore = None
SERVER = os.environ.get("TOOLCRIB_S3")
NEEDS = unittest.skipUnless(botocore and SERVER, "needs botocore, and s3rver: make check-objects")
BUCKET = "audit"


@NEEDS
class Foreign(test_sink_s3.Case):
    KEY = SECRET = "S3RVER"         # the one account of s3rver

    def start(self):
        """A bucket at s3rver; as botocore sees it."""
        folder = self.crib.dir / "s3rver"
        self.s3rver = subprocess.Popen(["node", pathlib.Path(SERVER).resolve(), folder, BUCKET], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.s3rver.stdout.close)
        self.addCleanup(self.s3rver.wait, crib.DEADLINE)
        self.addCleanup(self.s3rver.stdin.close)
        port = int(self.s3rver.stdout.readline())
        self.client = botocore.session.Session().create_client(
            "s3", region_name=test_sink_s3.REGION, endpoint_url=f"http://127.0.0.1:{port}", aws_access_key_id=self.KEY,
            aws_secret_access_key=self.SECRET, config=botocore.config.Config(s3={"addressing_style": "path"}))
        return types.SimpleNamespace(port=port, wrong=[])

    def objects(self):
        """What botocore reads there, as a bucket of the other tests has it."""
        ret = {}
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="prod/"):
            for row in page.get("Contents", ()):
                got = self.client.get_object(Bucket=BUCKET, Key=row["Key"])
                headers = {f"x-amz-meta-{name}": value for name, value in got["Metadata"].items()}
                ret[f"/{BUCKET}/{row['Key']}"] = (headers, got["Body"].read())
        return ret

    def test_what_another_reads_there_verifies(self):
        """No gap and no double between objects of a log, each verified from its bytes alone, also behind a death."""
        bucket = self.start()
        self.serve(self.s3(bucket))
        self.calls(50)
        self.has_all()
        self.again()
        self.calls(3)
        self.has_all()
        bucket.objects = self.objects()
        self.assertEqual(len(self.verified(bucket)), 2)
        self.assertEqual({path.partition("/records/")[0].rpartition("/t/")[2] for path in bucket.objects if "/t/" in path}, {"acme"})

    def test_what_is_changed_there_shows(self):
        bucket = self.start()
        self.serve(self.s3(bucket))
        self.calls(3)
        self.has_all()
        path, (_, body) = next((path, it) for path, it in self.objects().items() if "/t/acme/" in path)
        self.assertEqual(self.judge(body).returncode, 0)
        at = body.index(b'"leaf":"') + 12
        changed = body[:at] + (b"0" if body[at:at + 1] != b"0" else b"1") + body[at + 1:]
        self.client.put_object(Bucket=BUCKET, Key=path.removeprefix(f"/{BUCKET}/"), Body=changed)
        done = self.judge(self.objects()[path][1])
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)

    def test_a_checkpoint_of_there_is_an_anchor(self):
        """OP-353: as botocore reads it, for the verifier, with what s3rver calls it as the receipt."""
        bucket = self.start()
        c = self.serve(self.s3(bucket))
        self.calls(3)
        rows = crib.wait_for("a row", lambda: c.rows("SELECT kind, note, receipt FROM anchor"))
        self.peer.close()
        c.stop()
        bucket.objects = self.objects()
        path, (_, body) = next((path, it) for path, it in bucket.objects.items() if "/checkpoint/" in path)
        tag = self.client.head_object(Bucket=BUCKET, Key=path.removeprefix(f"/{BUCKET}/"))["ETag"]
        self.assertEqual(rows, [(3, body, f"http://127.0.0.1:{bucket.port}{path} etag={tag} version=".encode())])
        note = self.crib.dir / "note"
        note.write_bytes(body)
        done = subprocess.run([crib.BUILD / "toolcrib-verify", *crib.evidence(c.store), "--anchor", note, c.store / "toolcrib.db"],
                              capture_output=True, text=True, timeout=crib.DEADLINE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_it_keeps_no_locks_and_is_no_place_for_them(self):
        """It answers 200 to a put with a lock and has none: named, and nothing moves on."""
        bucket = self.start()
        self.serve(self.s3(bucket, ", lock: {mode: governance, days: 1}"))
        row = crib.wait_for("not locked", lambda: "not locked" in ((row := self.sink())["why"] or "") and row)
        self.assertEqual((row["state"], row["sent"]), ("refused", 0))


class Signed(test_sink_s3.Handler):
    def fault(self, body):
        """As test_sink_s3 has it, and as botocore signs the same request."""
        ours = self.headers["authorization"] or ""
        names = ours.partition("SignedHeaders=")[2].partition(",")[0].split(";")
        url = f"http://{self.headers['host']}{self.path}"
        request = botocore.awsrequest.AWSRequest(self.command, url, {name: self.headers[name] or "" for name in names}, body)
        request.context["timestamp"] = self.headers["x-amz-date"]
        signer = botocore.auth.S3SigV4Auth(botocore.credentials.Credentials(test_sink_s3.KEY, self.server.key), "s3", test_sink_s3.REGION)
        text = signer.string_to_sign(request, signer.canonical_request(request))
        theirs = signer.signature(text, request)
        self.server.signed.append((self.command, names))
        return super().fault(body) or (None if ours.endswith(f"Signature={theirs}") else f"botocore signs {theirs}")


@NEEDS
class Signatures(test_sink_s3.Case):
    def test_botocore_signs_the_same(self):
        """HEAD and PUT, with locks, Content-MD5 and If-None-Match."""
        bucket = self.bucket()
        bucket.RequestHandlerClass, bucket.signed = Signed, []
        self.serve(self.s3(bucket, ", lock: {mode: compliance, days: 400}"))
        self.calls(3)
        self.has_all()
        self.verified(bucket)
        self.assertEqual({command for command, _ in bucket.signed}, {"HEAD", "PUT"})
        self.assertTrue(all({"x-amz-object-lock-mode", "x-amz-content-sha256"} <= set(names)
                            for command, names in bucket.signed if command == "PUT"))


if __name__ == "__main__":
    crib.main()
