"""Sinks of the types hec and otlp (OP-303): requests that a strict reader of each protocol takes, receivers that are away, busy, take a
part or never acknowledge, and no credential in any record, log or list."""
import http.server
import json
import pathlib
import re
import shutil
import subprocess
import threading

import crib
import otlp
from test_sinks import Case as Sinks

TOKEN = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
PROTO = pathlib.Path(__file__).with_name("otlp.proto")


class Splunk(http.server.ThreadingHTTPServer):
    """The event collector as its documentation has it; no real one is free to run.  `events` are those that are indexed."""
    daemon_threads = True

    def __init__(self, acks=True, port=0):
        super().__init__(("127.0.0.1", port), Collector)
        self.port, self.acks = self.server_address[1], acks
        self.events, self.taken, self.asked, self.wrong, self.answers = [], {}, 0, [], []
        self.indexes, self.over, self.away, self.answered = True, False, False, threading.Event()
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self):
        self.over = True
        self.shutdown()
        self.thread.join()
        self.server_close()


class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def say(self, status, text, code, **more):
        body = json.dumps({"text": text, "code": code, **more} if text else more).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        splunk, body = self.server, self.rfile.read(int(self.headers["content-length"]))
        channel = self.headers["x-splunk-request-channel"]
        if splunk.over:                 # a connection that is kept from before
            self.close_connection = True
        elif self.headers["authorization"] != f"Splunk {TOKEN}":
            self.say(403, "Invalid token", 4)
        elif splunk.acks and not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", channel or ""):
            self.say(400, "Data channel is missing", 10)
        elif self.path == f"/services/collector/ack?channel={channel}" and splunk.acks:
            self.ack(channel, json.loads(body))
        elif self.path != "/services/collector/event":
            self.say(404, "The requested URL was not found on this server.", 404)
        elif splunk.answers:
            self.say(*splunk.answers.pop(0))
        else:
            self.take(channel, body.decode())

    def take(self, channel, text):
        splunk, events, at = self.server, [], 0
        while at < len(text):           # objects one behind the other, with blanks between them or not
            event, at = json.JSONDecoder().raw_decode(text, at)
            at += len(text[at:]) - len(text[at:].lstrip())
            events.append(event)
            if (set(event) != {"time", "host", "source", "sourcetype", "fields", "event"} or not isinstance(event["time"], float) or
                    any(not isinstance(value, str) for value in event["fields"].values()) or not event["event"]):
                splunk.wrong.append(event)
        if not splunk.acks:
            splunk.events += events
            self.say(200, "Success", 0)
            return
        number = len(splunk.taken)
        splunk.taken[channel, number] = events
        self.say(200, "Success", 0, ackId=number)

    def ack(self, channel, asked):
        splunk = self.server
        splunk.asked += 1
        if splunk.away:
            self.say(503, "Server is busy", 9)
            return
        if splunk.indexes:
            for number in asked["acks"]:
                splunk.events += splunk.taken.get((channel, number), [])
        self.say(200, None, 0, acks={str(number): splunk.indexes and (channel, number) in splunk.taken for number in asked["acks"]})
        splunk.answered.set()


class Case(Sinks):
    def secret(self, name, text):
        path = self.crib.dir / name
        path.touch(mode=0o600)
        path.write_text(text + "\n")
        return path

    def hec(self, splunk, more=""):
        return f"name: local, type: hec, url: 'http://127.0.0.1:{splunk.port}/', token_file: '{self.secret('token', TOKEN)}'{more}"

    def splunk(self, **how):
        splunk = Splunk(**how)
        self.addCleanup(splunk.close)
        return splunk

    def collector(self, port=0):
        collector = otlp.Collector(path="/v1/logs", port=port)
        self.addCleanup(collector.close)
        return collector

    def otlp(self, collector, more=""):
        return f"name: local, type: otlp, url: '{collector.url}/'{more}"

    def each_once(self, lines):
        """By their ids: no position of a log is missing."""
        by_place = {}
        for line in lines:
            self.assertEqual(by_place.setdefault((line["log"], line["index"]), line["id"]), line["id"])
        return self.no_gap_and_no_double([{"log": log, "index": index} for log, index in sorted(by_place)])

    def said_nowhere(self, *secrets):
        text = self.crib.log.read_text() + json.dumps(self.told()) + self.crib.cli("sink", "list", "--json") + self.crib.cli("status", "--json")
        for secret in secrets:
            self.assertNotIn(secret, text)


class Hec(Case):
    def test_each_record_is_an_event_of_its_own(self):
        splunk = self.splunk(acks=False)
        c = self.serve(self.hec(splunk))
        self.calls(5)
        self.has_all()
        self.assertEqual(splunk.wrong, [])
        sizes = self.each_once([event["event"] for event in splunk.events])
        self.assertEqual(sum(sizes.values()), c.rows("SELECT count(*) FROM rec")[0][0])
        for event in splunk.events:
            self.assertEqual((event["source"], event["fields"]["id"], event["sourcetype"]),
                             (event["event"]["log"], event["event"]["id"], "toolcrib:audit"))
        self.assertEqual(splunk.asked, 0)
        self.assertNotIn("hello", json.dumps(splunk.events))
        self.said_nowhere(TOKEN)

    def test_what_is_not_acknowledged_is_not_there(self):
        """`ack`: the position moves when it is indexed, and what was never acknowledged before a death goes again."""
        splunk = self.splunk()
        splunk.indexes = False
        self.serve(self.hec(splunk, ", ack: true"))
        crib.wait_for("questions", lambda: splunk.asked > 2)
        self.assertEqual((self.sink()["sent"], self.sink()["state"]), (0, "up"))
        taken = len(splunk.taken)
        self.again()
        crib.wait_for("the same again", lambda: len(splunk.taken) > taken)
        splunk.indexes = True
        self.calls(5)
        self.has_all()
        self.assertEqual(splunk.wrong, [])
        self.each_once([event["event"] for event in splunk.events])

    def test_what_is_never_acknowledged_goes_again_after_five_minutes(self):
        """And not before, as long as it answers."""
        later = self.crib.dir / "later"
        later.write_text("0")
        self.crib.env.update(LD_PRELOAD=str(crib.BUILD / "tests/integ/shift.so"), TOOLCRIB_TEST_LATER=str(later),
                             ASAN_OPTIONS="verify_asan_link_order=0")
        splunk = self.splunk()
        splunk.indexes = False
        self.serve(self.hec(splunk, ", ack: true"))
        crib.wait_for("questions", lambda: splunk.asked > 1)

        def asked_on(start, end):
            """So much later: 10 s at a time, as long as it waits between two questions at most; no question whose answer is still
            on its way sees thirty of them, after which it would have gone unanswered."""
            written = later.with_suffix(".new")
            for seconds in range(start, end + 1, 10):
                splunk.answered.clear()
                written.write_text(str(seconds))
                written.rename(later)
                self.crib.status()                              # which wakes the server
                splunk.answered.wait(1)
        asked_on(10, 270)
        self.assertEqual((len(splunk.taken), self.sink()["state"], self.sink()["failures"]), (1, "up", 0))
        asked_on(280, 310)
        crib.wait_for("a failure", lambda: self.sink()["failures"])
        self.assertIn("it has not acknowledged what it took, for 5 min", self.crib.log.read_text())
        crib.wait_for("the same again", lambda: len(splunk.taken) > 1)
        first, second = list(splunk.taken.values())[:2]
        self.assertEqual([event["fields"]["id"] for event in second][:len(first)], [event["fields"]["id"] for event in first])
        splunk.indexes = True
        self.has_all()
        self.assertEqual(splunk.wrong, [])
        self.each_once([event["event"] for event in splunk.events])

    def test_one_that_was_away_is_sent_again_what_it_forgot(self):
        """At once, not when five minutes have passed: who starts anew acknowledges nothing of before."""
        splunk = self.splunk()
        splunk.indexes = False
        self.serve(self.hec(splunk, ", ack: true"))
        crib.wait_for("questions", lambda: splunk.asked > 1)
        splunk.away = True
        asked = splunk.asked
        crib.wait_for("a question that is not answered", lambda: splunk.asked > asked)
        splunk.taken.clear()
        splunk.indexes, splunk.away = True, False
        self.has_all()
        self.assertEqual(splunk.wrong, [])
        self.each_once([event["event"] for event in splunk.events])
        self.assertIn("does not acknowledge what it took before", self.crib.log.read_text())

    def test_answers_that_take_nothing(self):
        splunk = self.splunk(acks=False)
        splunk.answers = [(503, "Server is busy", 9), (500, "Internal server error", 8)]
        self.serve(self.hec(splunk))
        self.has_all()
        self.assertEqual(self.sink()["failures"], 2)
        splunk.answers = [(403, "Token disabled", 1)]
        self.calls(1)
        row = crib.wait_for("a refusal", lambda: "status 403" in ((row := self.sink())["why"] or "") and row)
        self.assertGreater(row["retry_s"], 30)
        splunk.answers = [(400, "Incorrect index", 7)]          # about none of the records
        self.crib.cli("sink", "pause", "local")
        self.crib.cli("sink", "resume", "local")
        crib.wait_for("a refusal", lambda: "status 400" in (self.sink()["why"] or ""))
        self.crib.cli("sink", "pause", "local")
        self.crib.cli("sink", "resume", "local")
        self.has_all()
        self.assertEqual(self.sink()["refused"], 0)
        self.each_once([event["event"] for event in splunk.events])

    def test_a_token_without_acknowledgement_is_named(self):
        splunk = self.splunk(acks=False)
        self.serve(self.hec(splunk, ", ack: true"))
        row = crib.wait_for("a reason", lambda: (row := self.sink())["why"] and row)
        self.assertIn("it gives no ackId", row["why"])
        self.assertEqual(row["sent"], 0)

    def test_one_that_was_away_has_all_without_a_gap(self):
        splunk = self.splunk()
        self.serve(self.hec(splunk, ", ack: true"))
        self.calls(5)
        self.has_all()
        splunk.close()
        self.calls(10)
        crib.wait_for("a failure", lambda: self.sink()["failures"] > 0)
        second = self.splunk(port=splunk.port)
        self.has_all()
        self.each_once([event["event"] for event in splunk.events + second.events])


class Otlp(Case):
    def test_each_record_is_a_log_record(self):
        collector = self.collector()
        authorization = self.secret("authorization", "Bearer " + TOKEN)
        c = self.serve(self.otlp(collector, f", authorization_file: '{authorization}'"))
        trace = "0af7651916cd43dd8448eb211c80319c"
        self.peer.call("echo", {"text": "hello"}, crib.MODERN, _meta={"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
        self.assertIn("error", self.peer.call("nothing", {}, crib.MODERN))
        self.has_all()
        records = [record for body in collector.bodies for record in otlp.logs(body)]
        lines = [json.loads(record["body"]["string"]) for record in records]
        sizes = self.each_once(lines)
        self.assertEqual(sum(sizes.values()), c.rows("SELECT count(*) FROM rec")[0][0])
        for record, line in zip(records, lines, strict=True):
            attributes = record["attributes"]
            self.assertEqual(record["event_name"], line["kind"])
            for name in ("id", "log", "index", "tenant", "call", "tool", "outcome"):
                self.assertEqual(attributes.get(f"toolcrib.{name}"), line.get(name), name)
        self.assertEqual({record["severity"] for record in records if record["event_name"] == "call.denied"}, {13})
        self.assertEqual({record["severity"] for record in records if record["event_name"] == "call.end"}, {9})
        self.assertEqual({record["trace_id"].hex() for record in records if "trace_id" in record}, {trace})
        self.assertEqual({headers["content-type"] for headers in collector.headers}, {"application/x-protobuf"})
        self.assertEqual({headers["authorization"] for headers in collector.headers}, {"Bearer " + TOKEN})
        self.assertNotIn("hello", json.dumps(lines))
        self.said_nowhere(TOKEN)

    def test_protoc_reads_the_same(self):
        """The second opinion: every field is known to it."""
        protoc = shutil.which("protoc")
        if not protoc:
            self.skipTest("protoc is not there: Debian's package protobuf-compiler has it")
        collector = self.collector()
        self.serve(self.otlp(collector))
        self.calls(2)
        self.has_all()
        for body in collector.bodies:
            done = subprocess.run([protoc, "--decode=ExportLogsServiceRequest", f"--proto_path={PROTO.parent}", PROTO.name], input=body,
                                  stdout=subprocess.PIPE, check=True)
            text = done.stdout.decode()
            self.assertNotRegex(text, r"(?m)^\s*\d+(:| \{)", "a field without a name")
            self.assertEqual(text.count("time_unix_nano: "), len(otlp.logs(body)))

    def test_one_that_refuses_a_part_is_told_of_once(self):
        """Partial success must not be sent again; what was refused is counted, and on record."""
        collector = self.collector()
        refusals = [b"\x0a\x0d\x08\x03\x12\x09too heavy"]
        collector.say = lambda: (200, {}, refusals.pop() if refusals else b"")
        self.serve(self.otlp(collector))
        self.calls(5)
        self.has_all()
        row = self.sink()
        self.assertEqual((row["refused"], row["failures"], row["state"]), (3, 0, "up"))
        self.each_once([json.loads(record["body"]["string"]) for body in collector.bodies for record in otlp.logs(body)])
        crib.wait_for("a record", lambda: "does not want 3 records: too heavy" in self.told())
        self.assertEqual(len(collector.bodies), len({body for body in collector.bodies}))

    def test_answers_that_take_nothing(self):
        collector = self.collector()
        answers = [(503, {"Retry-After": "1"}, b""), (200, {}, b"<html>"), (429, {}, b"")]
        collector.say = lambda: answers.pop(0) if answers else (200, {}, b"")
        self.serve(self.otlp(collector))
        self.has_all()
        self.assertEqual(self.sink()["failures"], 3)
        self.each_once([json.loads(record["body"]["string"]) for body in collector.bodies[3:] for record in otlp.logs(body)])

    def test_one_that_was_away_has_all_without_a_gap(self):
        collector = self.collector()
        self.serve(self.otlp(collector))
        self.calls(5)
        self.has_all()
        collector.close()
        self.calls(10)
        crib.wait_for("a failure", lambda: self.sink()["failures"] > 0)
        second = self.collector(collector.server_address[1])
        self.has_all()
        self.each_once([json.loads(record["body"]["string"]) for body in collector.bodies + second.bodies for record in otlp.logs(body)])


class Configuration(Case):
    def test_what_is_wrong_is_named(self):
        token = self.secret("token", "")
        for sink, said in ((f"type: hec, url: 'https://a.example', token_file: '{token}'", "holds no line"),
                           ("type: hec, url: 'https://a.example'", "token_file"),
                           (f"type: hec, url: 'https://a.example/?a=1', token_file: '{token}'", "it has no ? and no #"),
                           ("type: otlp, url: 'http://a.example:4318'", "must be reached by https"),
                           ("type: otlp, url: 'https://a.example', ack: true", "ack"),
                           ("type: otlp, url: 'https://a.example', authorization_file: /nowhere/at-all", "/nowhere/at-all")):
            with self.subTest(said):
                config = self.crib.config(f"sinks:\n- {{name: x, {sink}}}\n")
                done = subprocess.run([crib.BUILD / "toolcribd", "--check-config", "-c", config], capture_output=True, text=True,
                                      env=self.crib.env)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(said, done.stderr)

    def test_no_part_of_a_url_behind_its_host_is_told(self):
        splunk = self.splunk(acks=False)
        self.serve(self.hec(splunk).replace("/'", f"/t-{TOKEN}'", 1))
        crib.wait_for("a failure", lambda: self.sink()["failures"] > 0)
        self.assertTrue(any('"url_sha256"' in text for text in self.told()))
        self.said_nowhere(TOKEN)


if __name__ == "__main__":
    crib.main()
