"""audit tail and audit export: records as they are written, and what a collector outside gets of them (AUDIT 11)."""
import base64
import csv
import hashlib
import io
import json
import select
import subprocess

import crib


class Follower:
    """A command that goes on by itself; its lines as they come."""

    def __init__(self, case, *words):
        c = case.crib
        self.process = subprocess.Popen([str(crib.BUILD / "toolcrib"), "--store", str(c.store), *words],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=c.env)
        self.buffer = b""
        case.addCleanup(self.close)

    def line(self):
        while b"\n" not in self.buffer:
            if not select.select([self.process.stdout], [], [], crib.DEADLINE)[0]:
                raise AssertionError("nothing new")
            got = self.process.stdout.read1(65536)
            if not got:
                raise AssertionError("it ended: " + self.process.stderr.read().decode())
            self.buffer += got
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode()

    def until(self, wanted):
        """Lines up to the one that has this text."""
        lines = []
        while not lines or wanted not in lines[-1]:
            try:
                lines.append(self.line())
            except AssertionError as e:
                raise AssertionError(f"{e}; so far: {lines}") from None
        return lines

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


class Feed(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init().start()
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "echo")
        self.cursor = c.dir / "cursor"

    def call(self, n):
        peer = self.crib.http(self.key)
        for i in range(n):
            peer.call("echo", {"text": str(i)}, rev=crib.MODERN)
        peer.close()

    def export(self, *words):
        return [json.loads(line) for line in self.crib.cli("audit", "export", *words).splitlines()][1:]

    def test_tail_follows(self):
        self.call(2)
        tail = Follower(self, "audit", "tail", "--tenant", "acme", "-n", "3", "-f", "--json")
        self.assertEqual([json.loads(line)["kind"] for line in tail.until("audit.read")], ["call.begin", "call.end", "audit.read"])
        self.call(1)
        self.assertEqual([json.loads(line)["kind"] for line in tail.until("call.end")], ["call.begin", "call.end"])
        self.crib.cli("grant", "remove", "acme", "echo", "--yes")
        tail.until("grant.remove")

    def test_tail_is_a_table_for_people(self):
        tail = Follower(self, "audit", "tail", "--tenant", "acme", "-f")
        lines = tail.until("audit.read")
        titles = next(line for line in lines if line.startswith("TIME"))
        self.call(1)
        end = tail.until("call.end")[-1]
        self.assertEqual(end.index("call.end"), titles.index("KIND"), "columns stay where they were")

    def test_a_tail_survives_a_log_without_records_and_new_tenants(self):
        tail = Follower(self, "audit", "tail", "-f", "--json")         # a logs.commit may come behind its audit.read
        tail.until("audit.read")
        self.crib.cli("tenant", "add", "later")
        self.assertEqual(json.loads(tail.until('"later"')[-1])["kind"], "log.open")

    def test_a_tail_is_recorded_once(self):
        """AUDIT A-304: else it would feed itself."""
        tail = Follower(self, "audit", "tail", "--tenant", "acme", "-f", "--json")
        tail.until("audit.read")
        self.call(3)
        tail.until("call.end")
        rows = self.crib.json("audit", "access", "--tenant", "acme")
        self.assertEqual([r["detail"].partition(": ")[2] for r in rows], ["audit access tenant=acme", "audit tail tenant=acme follow"])

    def test_a_server_that_stops_ends_its_tails(self):
        tail = Follower(self, "audit", "tail", "-f", "--json")
        tail.until("audit.read")
        self.assertEqual(self.crib.stop(), 0)
        self.assertNotEqual(tail.process.wait(crib.DEADLINE), 0)
        done = self.crib.run("audit", "tail", "-f")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no server runs", done.stderr)

    def test_export_carries_the_bytes_that_are_hashed(self):
        """AUDIT A-1001: the leaf is SHA-256 of a zero byte and the bytes; positions have no gaps."""
        self.call(600)
        rows = self.export("--tenant", "acme")
        self.assertEqual([r["index"] for r in rows], list(range(len(rows))))
        self.assertGreater(len(rows), 1200)
        for row in rows:
            bytes_ = base64.b64decode(row["bytes"])
            self.assertEqual(hashlib.sha256(b"\0" + bytes_).hexdigest(), row["leaf"])
            self.assertTrue(bytes_.startswith(b"TCAR\1"))
            self.assertIn(row["log"].encode(), bytes_)
        self.assertEqual({r["tenant"] for r in rows}, {"acme"})
        self.assertEqual({r["tenant"] for r in self.export()}, {"acme", None})

    def test_a_cursor_goes_on_where_it_was(self):
        """AUDIT A-1010: at least once, by origin and index."""
        first = self.export("--tenant", "acme", "--cursor", self.cursor)
        self.call(2)
        second = self.export("--tenant", "acme", "--cursor", self.cursor)
        self.assertEqual([r["index"] for r in first + second], list(range(len(first) + len(second))))
        self.assertEqual(json.loads(self.cursor.read_text()), {first[0]["log"]: len(first) + len(second)})
        self.cursor.write_text('{"x": -1}')
        done = self.crib.run("audit", "export", "--cursor", self.cursor)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is no cursor", done.stderr)

    def test_an_export_follows(self):
        feed = Follower(self, "audit", "export", "--tenant", "acme", "--follow", "--cursor", str(self.cursor))
        feed.until("audit.export")
        self.call(1)
        last = json.loads(feed.until("call.end")[-1])
        crib.wait_for("the cursor", lambda: json.loads(self.cursor.read_text())[last["log"]] == last["index"] + 1)
        again = self.export("--tenant", "acme", "--cursor", self.cursor)
        self.assertEqual(again[0]["index"], last["index"] + 1)

    def test_what_stays_behind_is_a_finding(self):
        """A-Q38: exit status 4, so that cron tells."""
        check = ("audit", "export-check", "--tenant", "acme", "--cursor", self.cursor)
        self.export("--tenant", "acme", "--cursor", self.cursor)
        self.assertEqual(self.crib.run(*check).returncode, 0, "what is just written may wait")
        self.call(1)
        done = self.crib.run(*check, "--lag", "0s", "--format", "json")
        self.assertEqual(done.returncode, 4)
        report = json.loads(done.stdout)
        self.assertTrue(report["header"]["must_be_empty"])
        self.assertEqual([r["finding"] for r in report["rows"]], ["not exported"])
        log = report["rows"][0]["log"]
        self.cursor.write_text(json.dumps({log: 1000}))
        done = self.crib.run("--json", *check)
        self.assertEqual(done.returncode, 4)
        self.assertIn("records are missing here", json.loads(done.stdout)["finding"])

    def fill(self):
        """Calls of two tools by two principals, some refused, in two tenants: keys of acme's bot and ann."""
        c = self.crib
        c.tool(crib.tool_yaml("other", "{type: static, text: x}"))
        c.cli("grant", "add", "acme", "other")
        ann = c.key("acme/ann")
        c.tenant("foreign", "echo")
        foreign = c.key("foreign/zed")
        self.call(3)
        for key, tools in ((ann, ("other", "other", "nothing")), (foreign, ("echo",))):
            peer = c.http(key)
            for tool in tools:
                peer.call(tool, {"text": "x"} if tool == "echo" else {}, rev=crib.MODERN)
            peer.close()
        return c.json("key", "list", "acme", "--principal", "ann")[0]["accessor"]

    def test_c105_some_records_are_chosen_as_in_other_reports(self):
        """CONSOLE C-105: exactly those of all that have the values; of names that nobody has, or another tenant, none, and alike."""
        accessor, c = self.fill(), self.crib
        tenant = ("--tenant", "acme")
        own = ("audit.read", "audit.export")
        every = [row for row in self.export(*tenant) if row["kind"] not in own]
        wanted = {("--tool", "echo"): lambda r: r["tool"] == "echo", ("--key", accessor): lambda r: r["key"] == accessor,
                  ("--principal", "ann"): lambda r: r["principal"] == "ann", ("--outcome", "denied"): lambda r: r["outcome"] == "denied",
                  ("--kind", "call.begin"): lambda r: r["kind"] == "call.begin", ("--kind", "grant.add"): lambda r: r["kind"] == "grant.add",
                  ("--kind", "call.end", "--tool", "echo", "--outcome", "ok"):
                      lambda r: (r["kind"], r["tool"], r["outcome"]) == ("call.end", "echo", "ok"),
                  ("--principal", "ann", "--tool", "echo"): lambda r: False}
        for words, test in wanted.items():
            rows = [row for row in self.export(*tenant, *words) if row["kind"] not in own]
            self.assertEqual(rows, [row for row in every if test(row)], words)
            self.assertEqual(bool(rows), words != ("--principal", "ann", "--tool", "echo"), words)
            newest = c.json("audit", "tail", *tenant, "-n", "2", *words)
            self.assertEqual([r["index"] for r in newest], [r["index"] for r in rows][-2:], words)
        self.assertEqual(c.json("audit", "tail", *tenant, "-n", "0", "--tool", "echo"), [])
        echo = {r["tenant"] for r in self.export("--tool", "echo")}
        self.assertEqual(echo, {"acme", "foreign"}, "of all logs for who may read them")

        def answer(*words):
            return [line for line in c.cli("audit", "export", *tenant, *words).splitlines()][1:]
        theirs = c.json("key", "list", "foreign")[0]["accessor"]
        self.assertEqual(answer("--key", theirs), answer("--key", "0" * 12))
        self.assertEqual(answer("--key", theirs), [])
        self.assertEqual(answer("--tool", "nobody_has_this"), [])
        said = [c.run("audit", "export", *tenant, "--principal", name).stderr.replace(name, "X") for name in ("zed", "nil")]
        self.assertEqual(*said)

    def test_c105_an_export_of_some_says_so_and_has_no_cursor(self):
        """So nobody takes it for complete: header, notes beside CSV and OCSF, and its record; export-check never sees one."""
        c, tenant = self.crib, ("--tenant", "acme")
        self.fill()
        for words, only in ((("--tool", "echo"), "tool=echo"), (("--principal", "ann", "--kind", "call.end"), "principal=ann kind=call.end"),
                            (("--outcome", "denied"), "outcome=denied")):
            only += "; all others are left out"
            head = json.loads(c.cli("audit", "export", *tenant, *words).splitlines()[0])
            self.assertEqual(head["header"]["only"], only)
            self.assertIn(f", only those of {only}", c.cli("audit", "tail", *tenant, *words))
            for form in "csv", "ocsf":
                done = c.run("audit", "export", *tenant, *words, "--format", form)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr, rf"(?m)^records .*, only those of {only}$")
        self.assertNotIn("only", json.loads(c.cli("audit", "export", *tenant).splitlines()[0])["header"])
        self.assertEqual(c.run("audit", "export", *tenant, "--format", "ocsf").stderr, "")
        details = [row["detail"] for row in c.json("audit", "access", *tenant) if row["kind"] == "audit.export"]
        self.assertEqual(sum("filtered=yes" in text for text in details), 2 * 9, details)
        self.assertFalse(any("ann" in text for text in details), "A-429")
        done = c.run("audit", "export", *tenant, "--tool", "echo", "--cursor", self.cursor)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("here some are left out", done.stderr)
        self.assertFalse(self.cursor.exists())
        for words, says in ((("--kind", "no.kind"), "kind: \"no.kind\" is none"), (("--outcome", "bad"), "outcome: \"bad\" is none")):
            for command in "tail", "export":
                done = c.run("audit", command, *tenant, *words)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(says, done.stderr)
        self.assertIn("--principal needs --tenant", c.run("audit", "export", "--principal", "ann").stderr)

    def test_c105_a_tail_of_some_follows(self):
        tail = Follower(self, "audit", "tail", "--tenant", "acme", "-f", "--json", "--tool", "echo", "--kind", "call.end", "-n", "1")
        self.call(1)
        first = json.loads(tail.line())
        self.call(2)
        rows = [first, *(json.loads(tail.line()) for _ in range(2))]
        self.assertEqual({(r["kind"], r["tool"]) for r in rows}, {("call.end", "echo")})
        self.assertEqual([r["index"] for r in rows], sorted({r["index"] for r in rows}))

    def test_c906_a_rate_shows_some_and_counts_the_others(self):
        """What is shown and what is counted are all there are."""
        def rows(tail):
            while True:
                row = json.loads(tail.line())
                yield (row["index"], 0) if row.get("kind") else (None, int(row["detail"].removesuffix(" more in this second")))

        rated = ("audit", "tail", "--tenant", "acme", "-f", "--json", "--rate", "3", "-n")
        whole, some = (Follower(self, *rated, n, *words) for n, words in (("1", ()), ("100", ("--tool", "echo", "--kind", "call.end"))))
        crib.wait_for("two tails", lambda: len(self.crib.json("audit", "access", "--tenant", "acme")) >= 2)
        last, left_out, of_whole = None, 0, rows(whole)
        self.call(60)
        while left_out == 0:
            index, left_out = next(of_whole)
            last = index if left_out == 0 else last
        self.call(1)
        index, more = next(of_whole)
        while index is None:
            left_out += more
            index, more = next(of_whole)
        self.assertEqual(index, last + left_out + 1)
        shown, left_out = 0, 0
        for index, more in rows(some):
            shown, left_out = shown + (index is not None), left_out + more
            if shown + left_out >= 61:
                break
        self.assertEqual(shown + left_out, 61)
        self.assertGreater(left_out, 0)
        for words, says in ((("--rate", "3"), "--rate goes with --follow"), (("-f", "--rate", "0"), "at least one row a second")):
            done = self.crib.run("audit", "tail", "--tenant", "acme", *words)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(says, done.stderr)

    def test_ocsf_and_csv(self):
        """AUDIT A-1003, A-1004."""
        peer = self.crib.http(self.key)
        peer.call("=1+1", {}, rev=crib.MODERN)
        peer.close()
        self.call(1)
        events = [json.loads(line) for line in self.crib.cli("audit", "export", "--tenant", "acme", "--format", "ocsf").splitlines()]
        self.assertEqual({(e["class_uid"], e["category_uid"]) for e in events}, {(6003, 6)})
        self.assertTrue(all(e["type_uid"] == 600300 + e["activity_id"] for e in events))
        end = next(e for e in events if e["unmapped"]["kind"] == "call.end")
        self.assertEqual((end["api"]["operation"], end["status_id"], end["actor"]["user"]["name"]), ("echo", 1, "bot"))
        self.assertEqual(next(e for e in events if e["unmapped"]["kind"] == "call.denied")["status_id"], 2)
        self.assertEqual([e["metadata"]["sequence"] for e in events], list(range(len(events))))
        text = self.crib.cli("audit", "export", "--tenant", "acme", "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(text)))
        self.assertEqual(next(r for r in rows if r["kind"] == "call.denied")["rule"], "unknown_tool")
        self.assertTrue(all(line.startswith('"') and line.endswith('"') for line in text.splitlines()))


if __name__ == "__main__":
    crib.main()
