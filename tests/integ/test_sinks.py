"""Copies of records carried outside (OP-301 to OP-320): each record of a log in its order, exactly once in a file whatever dies, and
a sink that cannot be written costs a line in status, never a call or a record."""
import base64
import contextlib
import hashlib
import hmac
import http.server
import json
import re
import signal
import sqlite3
import stat
import threading
import time

import crib
import test_metrics


class Case(crib.Case):
    def setUp(self):
        super().setUp()
        self.out = self.crib.dir / "out"
        self.out.mkdir(mode=0o755)
        self.path = self.out / "audit.jsonl"

    def serve(self, *sinks, more=""):
        """A server with these sinks; its first peer."""
        self.text = "sinks:\n" + "".join(f"- {{{one}}}\n" for one in sinks) + more
        c = self.crib
        if not c.path.exists() and not c.due:
            c.init()
            c.tool(crib.ECHO)
            self.key = c.tenant("acme", "echo")
        c.start(self.text)
        self.peer = c.tcp(self.key)
        self.addCleanup(self.peer.close)
        return c

    def file(self, more="", name="local"):
        return f"name: {name}, type: file, path: '{self.out}/{'audit' if name == 'local' else name}.jsonl'{more}"

    def calls(self, n):
        for i in range(n):
            self.assertIn("result", self.peer.call("echo", {"text": f"hello {i}"}, crib.MODERN))

    def again(self):
        """The server ends as if the power went, and starts."""
        self.peer.close()
        self.crib.stop(signal.SIGKILL)
        self.crib.start(self.text)
        self.peer = self.crib.tcp(self.key)
        self.addCleanup(self.peer.close)

    def files(self):
        """The file and those that were moved aside, the oldest first."""
        moved = sorted(self.out.glob("audit.jsonl.*"), key=lambda path: int(path.suffix[1:]))
        return moved + [self.path]

    def lines(self):
        return [json.loads(line) for path in self.files() if path.exists() for line in path.read_text().splitlines()]

    def sink(self, name="local"):
        return next(row for row in self.crib.json("sink", "list") if row["name"] == name)

    def has_all(self, name="local"):
        """Wait until nothing waits, and what was recorded before is there."""
        newest = self.crib.rows("SELECT log, max(idx) FROM rec GROUP BY log")

        def there():
            have = dict(self.crib.rows("SELECT log, next FROM sink_cursor WHERE sink = ?", name))
            return all(have.get(log, 0) > idx for log, idx in newest)
        crib.wait_for("a sink that has all", there)

    def no_gap_and_no_double(self, lines):
        by_log = {}
        for line in lines:
            by_log.setdefault(line["log"], []).append(line["index"])
        for log, got in by_log.items():
            self.assertEqual(got, list(range(len(got))), log)
        return {log: len(got) for log, got in by_log.items()}

    def told(self):
        return [text for text, in self.crib.rows("SELECT detail FROM v_records WHERE kind = 'sink.change' ORDER BY idx")]


class Files(Case):
    def test_each_record_is_there_once_in_the_order_of_its_log(self):
        """OP-301, OP-303, OP-304; and OP-003, OP-004: no argument, no name of a person."""
        c = self.serve(self.file())
        self.calls(20)
        self.has_all()
        lines, text = self.lines(), self.path.read_text()       # before the export, which is a record too
        sizes = self.no_gap_and_no_double(lines)
        self.assertEqual(len(sizes), 2)
        exported = [json.loads(line) for line in c.cli("audit", "export", "--format", "jsonl").splitlines() if '"leaf"' in line]
        by_place = {(row["log"], row["index"]): row for row in exported if "leaf" in row}
        for line in lines:
            row = by_place[line["log"], line["index"]]
            uid = hashlib.sha256(line["log"].encode() + b"\0" + line["index"].to_bytes(8, "big") + bytes.fromhex(row["leaf"]))
            self.assertEqual((line["id"], line["leaf"]), (uid.hexdigest()[:32], row["leaf"]))
            self.assertEqual({**line, "id": None}, {**{name: row[name] for name in line if name != "id"}, "id": None})
            self.assertNotIn("principal", line)
            self.assertNotIn(None, line.values())
        self.assertTrue(any(line["kind"] == "call.end" and line["pseudonym"] for line in lines))
        self.assertNotIn("hello", text)
        self.assertNotIn('"bot"', text)
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode) & ~0o640, 0)

    def test_a_death_leaves_no_gap_and_no_double(self):
        """OP-302, OP-303: what is in the file behind its position is cut off, whatever it is."""
        self.serve(self.file())
        for _ in range(3):
            before = self.path.stat().st_size if self.path.exists() else 0
            self.calls(10)
            crib.wait_for("lines", lambda: self.path.exists() and self.path.stat().st_size > before)
            self.again()
        with open(self.path, "ab") as f:        # as if a batch had been written in part
            f.write(b'{"id":"half')
        self.peer.close()
        self.crib.stop(signal.SIGKILL)
        with open(self.path, "ab") as f:
            f.write(b' of a line')
        self.crib.start(self.text)
        self.has_all()
        self.no_gap_and_no_double(self.lines())

    def test_a_large_file_is_moved_aside(self):
        """`rotate`: whole lines, a bounded number of files, no gap and no double, deaths among them."""
        self.serve(self.file(", rotate: {bytes: 8KiB, keep: 3}"))
        for _ in range(5):
            self.calls(15)
            self.has_all()
            self.again()
        self.has_all()
        files = self.files()
        self.assertEqual(len(files), 4, files)
        lines = self.lines()
        for log in {line["log"] for line in lines}:
            got = [line["index"] for line in lines if line["log"] == log]
            self.assertEqual(got, list(range(got[0], got[0] + len(got))))
        for path in files[:-1]:
            self.assertLess(path.stat().st_size, 600 * 1024)
            self.assertTrue(path.read_bytes().endswith(b"}\n"))

    def test_one_that_somebody_moved_away_is_begun_anew(self):
        self.serve(self.file())
        self.calls(5)
        self.has_all()
        self.path.rename(self.out / "audit.jsonl.1")
        self.calls(5)
        self.has_all()
        self.assertGreater(len((self.out / "audit.jsonl.1").read_text().splitlines()), 10)
        self.no_gap_and_no_double(self.lines())

    def test_kinds_tenants_names_format(self):
        c = self.serve(self.file(", kinds: [call.end], tenants: [acme], names: clear"), self.file(", format: ocsf", "events"))
        c.tenant("globex", "echo")
        self.calls(4)
        self.has_all("events")
        crib.wait_for("all of it", lambda: self.sink()["behind"] == 0)
        lines = self.lines()
        self.assertEqual([(line["kind"], line["tenant"], line["principal"]) for line in lines], [("call.end", "acme", "bot")] * 4)
        events = [json.loads(line) for line in (self.out / "events.jsonl").read_text().splitlines()]
        self.assertEqual({event["class_uid"] for event in events}, {6003})
        uids = {event["metadata"]["uid"] for event in events}
        self.assertEqual(len(uids), len(events))
        self.assertLess({line["id"] for line in lines}, uids)
        self.assertNotIn('"name":"bot"', (self.out / "events.jsonl").read_text())
        added = [text for text in self.told() if text.startswith("added")]
        self.assertEqual(len(added), 2)
        self.assertTrue(any(text.startswith("added, with names of people: {") and '"names":"clear"' in text for text in added), added)


    def test_cef(self):
        """OP-333: what a line says is what the store has, a name that looks like more keys ends where it ends, and none of a person."""
        c = self.serve(self.file(", format: cef"))
        self.calls(3)
        self.assertIn("error", self.peer.call("no=such|to\\\\ol", {}, crib.MODERN))
        c.cli("tenant", "add", "beta", "--title", "a=b cs1=acme | \\ end")
        self.has_all()
        events = [cef(line) for line in self.path.read_text().splitlines()]
        by_place = {(event["deviceExternalId"], int(event["cn1"])): event for event in events}
        self.assertEqual(len(by_place), len(events))
        kinds = {(log, index): row for log, index, *row in c.rows(
            "SELECT log, idx, kind, tenant, tool, outcome, rule, call, pseudonym, detail FROM v_records")}
        self.assertLessEqual(set(by_place), set(kinds))
        names = ("signature", "cs1", "act", "outcome", "reason", "cs5", "suid", "msg")
        for place, event in by_place.items():
            self.assertEqual([event.get(name) for name in names], [one or None for one in kinds[place]], place)
            self.assertRegex(event["externalId"], "^[0-9a-f]{32}$")
            self.assertNotIn("suser", event)
        self.assertEqual({event["severity"] for event in events if event["signature"] == "call.end"}, {"3"})
        self.assertEqual({event["severity"] for event in events if event["signature"] == "call.denied"}, {"6"})
        self.assertNotIn("hello", self.path.read_text())


def cef(line):
    """As a reader of the format takes a line apart, who knows keys as what stands in front of a = that is not escaped."""
    parts = re.split(r"(?<!\\)(?:\\\\)*\|", line, maxsplit=7)
    assert parts[:3] == ["CEF:0", "toolcrib", "toolcrib"] and len(parts) == 8, line
    event = {"signature": parts[4], "name": parts[5], "severity": parts[6]}
    found = list(re.finditer(r"(?:^| )(\w+)=", parts[7]))
    for at, after in zip(found, found[1:] + [None]):
        value = parts[7][at.end():after.start() if after else None]
        assert at[1] not in event, line
        event[at[1]] = re.sub(r"\\(.)", lambda m: {"n": "\n", "r": "\r"}.get(m[1], m[1]), value)
    return event


class Trouble(Case):
    def test_one_that_cannot_be_written_is_named_and_loses_nothing(self):
        """Issue 19, bad input: named, counted, shown by status; calls go on, and then all of it is there."""
        self.path.mkdir()
        c = self.serve(self.file(), more="metrics: {listen: '127.0.0.1:0'}\n")
        self.calls(5)
        row = crib.wait_for("a failure", lambda: (row := self.sink())["failures"] > 0 and row)
        self.assertEqual((row["state"], row["sent"]), ("retries", 0))
        self.assertIn("is no file but a directory", row["why"])
        self.assertGreater(row["behind"], 10)
        self.assertIn("local: retries, ", c.status()["sinks"])
        self.assertRegex(self.metrics(), r'toolcrib_sink_up\{sink="local"\} 0\n')
        self.assertRegex(self.metrics(), r'toolcrib_sink_lag_records\{sink="local"\} [1-9]')
        self.path.rmdir()
        self.has_all()
        self.no_gap_and_no_double(self.lines())
        self.assertEqual(self.sink()["state"], "up")
        self.assertTrue(any(text.startswith("does not take records: ") for text in self.told()))
        self.assertRegex(self.metrics(), r'toolcrib_sink_up\{sink="local"\} 1\n')

    def metrics(self):
        return test_metrics.get(self.crib)[2]

    def test_a_file_that_is_not_ours_is_left_alone(self):
        """What does not end with a line, and a link, is not written behind."""
        self.path.write_text("somebody's notes, without an end")
        (self.out / "link.jsonl").symlink_to(self.path)
        self.serve(self.file(), self.file(name="link"))
        crib.wait_for("two failures", lambda: all(row["failures"] for row in self.crib.json("sink", "list")))
        self.assertIn("does not end with a whole line", self.sink()["why"])
        self.assertIn("is a link", self.sink("link")["why"])
        self.assertEqual(self.path.read_text(), "somebody's notes, without an end")

    def test_paused_and_resumed_and_moved(self):
        c = self.serve(self.file())
        self.has_all()
        self.assertEqual(c.cli("sink", "pause", "local"), "sink local paused\n")
        had = len(self.lines())
        self.calls(5)
        crib.wait_for("a lag", lambda: self.sink()["behind"] > 5)
        self.assertEqual((self.sink()["state"], len(self.lines())), ("paused", had))
        self.assertIn("paused, ", c.status()["sinks"])
        c.cli("sink", "resume", "local")
        self.has_all()
        self.no_gap_and_no_double(self.lines())
        log = self.lines()[0]["log"]
        done = c.run("sink", "seek", "local", "--log", log, "--index", "100000")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{log} has ", done.stderr)
        done = c.run("sink", "seek", "local")
        self.assertIn("say where it goes on", done.stderr)
        done = c.run("sink", "pause", "lokal")
        self.assertIn("there is no sink lokal", done.stderr)
        c.cli("sink", "seek", "local", "--log", log, "--index", "0")
        crib.wait_for("the first again", lambda: sum(line["log"] == log and line["index"] == 0 for line in self.lines()) == 2)
        ids = [line["id"] for line in self.lines() if line["log"] == log and line["index"] == 0]
        self.assertEqual(ids[0], ids[1])

    def test_a_store_that_was_put_back_stops_it(self):
        """OP-302: other records would get the positions of those that are gone."""
        c = self.serve(self.file())
        self.has_all()
        self.peer.close()
        c.stop()
        with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db")) as db, db:
            db.execute("UPDATE sink_cursor SET next = next + 1000")
        c.start(self.text)
        row = crib.wait_for("a stop", lambda: (row := self.sink())["state"] == "stopped" and row)
        self.assertIn("the store was put back behind what was sent", row["why"])
        c.cli("sink", "seek", "local", "--end")
        crib.wait_for("one that goes on", lambda: self.sink()["state"] == "up")


class Receiver:
    """A webhook that checks what it gets as Standard Webhooks says; `does` answers for it."""

    KEY = bytes(range(32))

    def __init__(self, port=0):
        self.batches, self.wrong, self.does = {}, [], lambda handler: handler.say(204)
        self.now = time.time            # as the sender's clock should show
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def say(self, status, **headers):
                if 200 <= status < 300:
                    receiver.batches.setdefault(self.headers["webhook-id"], self.body)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("content-length", "0")
                self.end_headers()

            def do_POST(self):
                self.body = self.rfile.read(int(self.headers["content-length"]))
                id_, at = self.headers["webhook-id"], self.headers["webhook-timestamp"]
                mac = hmac.digest(receiver.KEY, f"{id_}.{at}.".encode() + self.body, "sha256")
                if self.headers["webhook-signature"] != "v1," + base64.b64encode(mac).decode() or abs(receiver.now() - int(at)) > 300:
                    receiver.wrong.append(id_)
                receiver.does(self)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def lines(self):
        return [json.loads(line) for body in list(self.batches.values()) for line in body.splitlines()]


class Webhook(Case):
    HIDDEN = "kXv93hT0q"    # of a URL that is a token

    def nowhere(self):
        """In no file of the store but the configuration, and in nothing that is said."""
        self.crib.config(self.text.replace(self.HIDDEN, self.HIDDEN + "2"))
        said = self.crib.cli("reload")
        self.assertIn("sinks[0].url_sha256", said)
        self.assertNotIn(self.HIDDEN, said + self.crib.log.read_text())
        for path in self.crib.store.rglob("*"):
            if path.is_file() and path.suffix != ".yaml":
                self.assertFalse(self.HIDDEN.encode() in path.read_bytes(), path)
        self.assertNotIn(self.HIDDEN, self.crib.cli("sink", "list", "--format", "json") + self.crib.cli("status") + "".join(self.told()))

    def hook(self, receiver, more=""):
        secret = self.crib.dir / "hook.secret"
        secret.touch(mode=0o600)
        secret.write_text("whsec_" + base64.b64encode(Receiver.KEY).decode() + "\n")
        url = f"http://127.0.0.1:{receiver.port}/{self.HIDDEN}?t={self.HIDDEN}"
        return f"name: local, type: webhook, url: '{url}', secret_file: '{secret}'{more}"

    def test_a_receiver_that_was_away_has_all_without_a_gap(self):
        """Issue 19, show 3: by its ids each batch counts once, and nothing is missing."""
        receiver = Receiver()
        self.serve(self.hook(receiver))
        self.calls(10)
        self.has_all()
        receiver.close()
        self.calls(20)
        crib.wait_for("a failure", lambda: self.sink()["failures"] > 0)
        self.again()
        self.calls(5)
        second = Receiver(receiver.port)
        self.addCleanup(second.close)
        self.has_all()
        lines = {(line["log"], line["index"]): line for line in receiver.lines() + second.lines()}
        self.no_gap_and_no_double([lines[at] for at in sorted(lines)])
        self.assertEqual(receiver.wrong + second.wrong, [])
        self.assertEqual(len({line["id"] for line in lines.values()}), len(lines))
        self.nowhere()

    def test_answers_that_take_nothing(self):
        """Issue 19, bad input: half an answer, nonsense, a redirect, a refusal: named, and sent again with the same id."""
        receiver = Receiver()
        self.addCleanup(receiver.close)
        asked = []

        def does(handler):
            asked.append((handler.headers["webhook-id"], handler.body))
            if len(asked) == 1:
                handler.say(503, retry_after="1")
            elif len(asked) == 2:
                handler.wfile.write(b"\x16\x03\x01 nonsense")
                handler.close_connection = True
            elif len(asked) == 3:
                handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
                handler.close_connection = True
            else:
                handler.say(204)
        receiver.does = does
        self.serve(self.hook(receiver))
        self.has_all()
        self.assertEqual(len(set(asked[:4])), 1)
        self.assertEqual(receiver.wrong, [])
        self.assertGreaterEqual(self.sink()["failures"], 3)
        self.no_gap_and_no_double(receiver.lines())
        self.peer.close()
        for status, headers in ((307, {"location": f"http://127.0.0.1:{receiver.port}/other"}), (401, {})):
            self.crib.stop()        # a new server tries at once, and then waits for a person
            receiver.does = lambda handler, status=status, headers=headers: handler.say(status, **headers)
            self.crib.start(self.text)
            row = crib.wait_for("a refusal", lambda: f"status {status}" in ((row := self.sink())["why"] or "") and row)
            self.assertIn("which a person has to mend", row["why"])
            self.assertGreater(row["retry_s"], 30)
        self.assertIn("paused", self.crib.cli("sink", "pause", "local"))
        receiver.does = lambda handler: handler.say(200)
        self.crib.cli("sink", "resume", "local")
        self.has_all()
        self.nowhere()


    def test_what_is_not_wanted_is_found_and_given_up(self):
        """OP-305: the batch is halved until the records are found; they are counted and named, and all others are there."""
        receiver = Receiver()
        self.addCleanup(receiver.close)
        unwanted, asked = [], {}

        def does(handler):
            lines = [json.loads(line) for line in handler.body.splitlines()]
            if asked.setdefault(handler.headers["webhook-id"], handler.body) != handler.body:
                receiver.wrong.append("two messages of one id")
            bad = [line for line in lines if line["index"] in (3, 5) and "tenant" in line]
            if bad and len(lines) == 1:
                unwanted.append((bad[0]["log"], bad[0]["index"]))
            handler.say(413 if bad else 204)
        receiver.does = does
        c = self.serve(self.hook(receiver))
        self.calls(10)
        self.has_all()
        self.assertEqual([index for _, index in unwanted], [3, 5])
        self.assertEqual(receiver.wrong, [])
        self.assertEqual(len({line["id"] for line in receiver.lines()}), len(receiver.lines()))
        row = self.sink()
        self.assertEqual((row["refused"], row["failures"], row["state"]), (2, 0, "up"))
        self.assertIn("2 records refused, 2 to be settled", c.status()["sinks"])
        crib.wait_for("durable rows", lambda: c.rows("SELECT count(*) FROM sink_rejected") == [(2,)])
        self.peer.close()
        c.stop()
        told = [text for text in self.told() if text.startswith("does not want")]
        self.assertTrue(all(any(f"record {index} of {log}" in text for text in told) for log, index in unwanted), told)
        c.start(self.text)      # the list is as durable as the position
        listed = c.json("sink", "rejected", "local")
        self.assertEqual([(row["log"], row["from"], row["to"], row["records"]) for row in listed],
                         [(log, index, index, 1) for log, index in unwanted])
        self.assertEqual({row["why"] for row in listed}, {"status 413"})
        self.assertIn("there is no sink lokal", c.run("sink", "rejected", "lokal").stderr)
        receiver.does = lambda handler: handler.say(204)
        c.cli("sink", "seek", "local", "--log", unwanted[1][0], "--index", "5")
        self.has_all()
        self.assertEqual([row["from"] for row in c.json("sink", "rejected", "local")], [3])
        self.assertIn(unwanted[1], {(line["log"], line["index"]) for line in receiver.lines()})
        self.assertEqual(c.cli("sink", "settle", "local"), "sink local settled: 1\n")
        self.assertEqual(c.json("sink", "rejected", "local"), [])
        crib.wait_for("no row", lambda: c.rows("SELECT count(*) FROM sink_rejected") == [(0,)])
        there = {(line["log"], line["index"]) for line in receiver.lines()} | set(unwanted)
        self.no_gap_and_no_double([{"log": log, "index": index} for log, index in sorted(there)])

    def test_a_receiver_that_wants_nothing_is_to_be_mended(self):
        """At the limit a record is still given up; the next one waits for a person, and nothing is lost from there on."""
        receiver = Receiver()
        self.addCleanup(receiver.close)
        receiver.does = lambda handler: handler.say(422)
        self.serve(self.hook(receiver))
        self.calls(10)
        row = crib.wait_for("a reason", lambda: (row := self.sink())["why"] and row)
        self.assertEqual((row["refused"], row["sent"], row["state"], row["rejected"]), (16, 0, "refused", 16))
        self.assertIn("status 422, which a person has to mend", row["why"])
        self.assertGreater(row["retry_s"], 30)
        self.alerts(sink_rejected="warn")
        self.assertEqual([row["severity"] for row in self.crib.json("alerts") if row["rule"] == "sink_refused"], ["page"])
        receiver.does = lambda handler: handler.say(204)
        self.crib.cli("sink", "settle", "local")
        self.has_all()
        self.assertEqual(self.sink()["refused"], 16)
        self.alerts()


    def alerts(self, **expected):
        """Wait until these are the alerts of the sink of what it does not want; a reload has the server look at once, maybe before there is
        something to see.  Records that were here long before the sink wait for it as well: sink_behind."""
        def said():
            self.crib.cli("reload")
            return {row["rule"]: row["severity"] for row in self.crib.json("alerts") if (row["subject"], row["rule"]) == ("local", "sink_rejected")}
        crib.wait_for("alerts", lambda: said() == expected)

    def test_a_list_that_is_full_stops_a_sink(self):
        """At the limit a record is still given up, and with one more nothing is sent until somebody has settled it."""
        receiver = Receiver()
        self.addCleanup(receiver.close)
        c = self.serve(self.hook(receiver))
        self.has_all()
        self.peer.close()
        c.stop()
        with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db")) as db, db:
            db.executemany("INSERT INTO sink_rejected VALUES('local', 1, ?, ?, 1, 1, 'status 400')", [(i, i + 1) for i in range(5000, 5999)])
            log, idx = db.execute("SELECT log, next FROM sink_cursor WHERE log = 1").fetchone()
        asked = []

        def does(handler):
            lines = [json.loads(line) for line in handler.body.splitlines()]
            asked.append(len(lines))
            handler.say(413 if any(line["index"] == idx and "tenant" not in line for line in lines) else 204)
        receiver.does = does
        c.start(self.text)
        row = crib.wait_for("a full list", lambda: (row := self.sink())["why"] and row)
        self.assertEqual((row["rejected"], row["refused"], row["state"]), (1000, 1, "refused"))
        self.assertIn("fills its list", row["why"])
        self.alerts(sink_rejected="page")
        had = len(asked)
        c.cli("sink", "pause", "local")
        c.cli("sink", "resume", "local")                # tries at once
        crib.wait_for("a failure more", lambda: self.sink()["failures"] > 1)
        self.assertEqual(len(asked), had)
        self.assertEqual(c.cli("sink", "settle", "local"), "sink local settled: 1000\n")
        self.has_all()
        self.assertEqual(self.sink()["state"], "up")


class Required(Case):
    """OP-316: no work without the copy, where the configuration says so."""

    HIDDEN, hook = Webhook.HIDDEN, Webhook.hook

    def refused(self):
        return self.crib.status().get("audit", "") != "ok" and self.metric('audit_refusing{reason="sink"}') == "1"

    def metric(self, name):
        text = test_metrics.get(self.crib)[2]
        return next(line.split()[-1] for line in text.splitlines() if line.startswith(f"toolcrib_{name}"))

    def test_calls_are_refused_while_it_is_too_far_behind(self):
        receiver = Receiver()
        c = self.serve(self.hook(receiver, ", required: 5s"), self.file(", required: 30d", "other"),
                       more="metrics: {listen: '127.0.0.1:0'}\n")
        self.calls(5)
        self.has_all()
        self.assertEqual((self.metric('sink_required_seconds{sink="local"}'), self.metric('audit_refusing{reason="sink"}')), ("5", "0"))
        receiver.close()
        self.calls(1)           # one that is just away holds nobody up
        crib.wait_for("a hold", self.refused)
        self.assertGreater(self.sink()["behind_s"], 4)
        ready = test_metrics.get(c, "/readyz")
        self.assertEqual((ready[0], json.loads(ready[2])), (503, {"ready": False, "reasons": ["audit: sink local is too far behind"]}))
        self.assertIn("sink local is too far behind", json.dumps(c.status()))
        self.assertIn(", which calls wait for", c.status()["sinks"])
        before = c.rows("SELECT count(*) FROM v_records WHERE kind = 'call.begin'")
        self.assertIn("error", self.peer.call("echo", {"text": "no"}, crib.MODERN))
        self.again()            # what was too old before the start is so behind it
        crib.wait_for("a hold", self.refused)
        self.assertIn("error", self.peer.call("echo", {"text": "no"}, crib.MODERN))
        self.assertEqual(c.rows("SELECT count(*) FROM v_records WHERE kind = 'call.begin'"), before)
        self.assertIn("is required and too far behind: calls are refused", self.told())
        second = Receiver(receiver.port)
        self.addCleanup(second.close)
        crib.wait_for("calls", lambda: not self.refused())
        self.calls(3)
        self.has_all()
        self.assertEqual(test_metrics.get(c, "/readyz")[0], 200)

    def test_a_pause_is_no_way_around_it_and_a_seek_is_one(self):
        receiver = Receiver()
        self.addCleanup(receiver.close)
        c = self.serve(self.hook(receiver, ", required: 5s"), more="metrics: {listen: '127.0.0.1:0'}\n")
        self.has_all()
        c.cli("sink", "pause", "local")
        self.calls(1)
        crib.wait_for("a hold", self.refused)
        c.cli("sink", "seek", "local", "--end")
        crib.wait_for("calls", lambda: not self.refused())
        self.calls(1)


class Configuration(Case):
    def refused(self, *sinks):
        config = self.crib.config("sinks:\n" + "".join(f"- {{{one}}}\n" for one in sinks))
        done = crib.subprocess.run([crib.BUILD / "toolcribd", "--check-config", "-c", config], capture_output=True, text=True,
                                   env=self.crib.env)
        self.assertNotEqual(done.returncode, 0, sinks)
        return done.stderr

    def test_what_is_wrong_is_named(self):
        file = self.file()
        for sinks, said in (([file, file], "local is there twice"), ([file, file.replace("local", "other")], "is the file of sink local"),
                            ([file + ", kinds: [call.stop]"], "no kind of records is called call.stop"),
                            ([file + ", names: real"], "names must be one of pseudonym, clear"),
                            ([file + ", format: xml"], "format must be one of jsonl, ocsf, cef"),
                            ([file + ", required: 4999ms"], "required must be a time from 5s to 30d"),
                            ([file + ", required: 2592001s"], "required must be a time from 5s to 30d"),
                            ([file + ", rotate: {bytes: 10}"], "must be a size from 4KiB"),
                            ([file + ", tenants: [A]"], "tenants: entry 1 is no name of a tenant"),
                            ([file + ", url: x"], "url"), (["name: x, type: fax"], "type must be one of"),
                            (["name: x, type: file"], "path"), (["name: x, type: file, path: audit.jsonl"], "absolute path of a file"),
                            (["name: x, type: file, path: /nowhere-there/audit.jsonl"], "/nowhere-there is no directory")):
            with self.subTest(said):
                self.assertIn(said, self.refused(*sinks))
        secret = self.crib.dir / "secret"
        secret.touch(mode=0o600)
        hook = f"name: hook, type: webhook, secret_file: '{secret}', url: "
        for url, text, said in (("'https://a.example/x'", "short", "holds no base64 of 24 to 32 bytes"),
                                ("'http://a.example/x'", "A" * 32, "must be reached by https"),
                                ("'https://u:p@a.example/x'", "A" * 32, "sink hook")):
            with self.subTest(said):
                secret.write_text(text)
                self.assertIn(said, self.refused(hook + url))
        secret.chmod(0o644)
        self.assertIn("others may use it", self.refused(hook + "'https://a.example/x'"))

    def test_a_change_is_on_record_and_waits_for_a_restart(self):
        c = self.serve(self.file())
        self.has_all()
        c.config("sinks:\n- {" + self.file(", kinds: [call.*]") + "}\n")
        said = c.cli("reload")
        self.assertIn("sinks[0].kinds", said)
        self.assertIn("needs a restart: sinks[0].kinds", said)
        self.peer.close()
        c.stop()
        c.start("sinks:\n- {" + self.file(", kinds: [call.*]") + "}\n")
        crib.wait_for("records", lambda: len(self.told()) == 2)
        c.stop()
        c.start()
        crib.wait_for("records", lambda: len(self.told()) == 3)
        self.assertEqual([text.split(":")[0] for text in self.told()], ["added", "changed", "removed"])


if __name__ == "__main__":
    crib.main()
