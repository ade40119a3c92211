"""Lists of records in pages: by position, whatever the clock did; nothing twice and nothing lost; a cursor is of one question."""
import base64
import csv
import datetime
import hashlib
import io
import json
import socket

import crib

SHIFT = crib.BUILD / "tests/integ/shift.so"
STRICT = crib.tool_yaml("strict", "{type: builtin, function: echo}",
                        "{type: object, properties: {text: {type: string}}, required: [text]}")
NAMES = ("acme", "other", "third")


def said_by(server, command, args):
    """The lines of an answer over the daemon's socket."""
    with socket.socket(socket.AF_UNIX) as wire, wire.makefile("rwb") as f:
        wire.settimeout(crib.DEADLINE)
        wire.connect(str(server.path / "admin.sock"))
        f.write(json.dumps({"command": command, "args": {k: v if v is True else str(v) for k, v in args.items()}}).encode() + b"\n")
        f.flush()
        got = b""
        for line in f:
            got += line
            if line.startswith((b'{"done"', b'{"error"')):
                break
    return got.decode()


class Store(crib.Case):
    """Three tenants, whose calls go on over a clock that is set back by an hour and on by two."""

    def setUp(self):
        super().setUp()
        c = self.crib.init()
        if not SHIFT.exists():
            self.skipTest("shift.so is not built")
        self.file = c.dir / "shift"
        self.shift(0)
        c.env.update(LD_PRELOAD=str(SHIFT), TOOLCRIB_TEST_SHIFT=str(self.file), ASAN_OPTIONS="verify_asan_link_order=0")
        c.tool(crib.ECHO)
        c.tool(STRICT, "strict.yaml")
        self.keys = {name: c.tenant(name, "echo", "strict") for name in NAMES}
        c.start()

    def shift(self, seconds):
        new = self.file.with_suffix(".new")
        new.write_text(str(seconds))
        new.rename(self.file)

    def step(self, seconds):
        """Set the clock, and wait for the record of it."""
        before = len(self.crib.rows("SELECT 1 FROM rec WHERE log = 1 AND kind = 1605"))
        self.shift(seconds)
        crib.wait_for("the record of the step", lambda: len(self.crib.rows("SELECT 1 FROM rec WHERE log = 1 AND kind = 1605")) > before)

    def use(self, name, calls, every=0):
        """Calls of a tenant, many at once; each so many of them is refused."""
        peer = self.crib.tcp(self.keys[name])
        peer.initialize()
        for first in range(0, calls, 50):
            asked = [peer.request("tools/call", {"name": "strict", "arguments": {}} if every and i % every == 0
                                  else {"name": "echo", "arguments": {"text": str(i)}}) for i in range(first, min(first + 50, calls))]
            peer.raw("".join(json.dumps(message) + "\n" for message in asked).encode())
            for message in asked:
                peer.receive()
        peer.close()

    def header(self, command, **args):
        return json.loads(said_by(self.crib, command, args).splitlines()[0])["header"]

    def page(self, command, **args):
        """Rows and cursor of an answer over the daemon's socket."""
        said = [json.loads(line) for line in said_by(self.crib, command, args).splitlines()]
        self.assertNotIn("error", said[-1], (command, args))
        end = [line["end"] for line in said if "end" in line]
        self.assertEqual([e["rows"] for e in end], [sum("row" in line for line in said)] * len(end))
        return [line["row"] for line in said if "row" in line], end[0]["next"] if end else None

    def pages(self, command, limit, between=None, **args):
        """All rows, a page after another."""
        rows, after, n = [], {}, 0
        while True:
            more, cursor = self.page(command, limit=limit, **args, **after)
            rows += more
            n += 1
            if not cursor:
                return rows, n
            self.assertEqual(len(more), limit)
            after = {"after": cursor}
            if between:
                between(n)


    def looks(self, command, **args):
        """All rows, and the moments back to which each question looked, but for the last."""
        rows, after, searched = [], {}, []
        while True:
            said = [json.loads(line) for line in said_by(self.crib, command, {**args, **after}).splitlines()]
            self.assertNotIn("error", said[-1], (command, args))
            rows += [line["row"] for line in said if "row" in line]
            end = [line["end"] for line in said if "end" in line]
            if not end:
                return rows, searched
            after = {"after": end[0]["next"]}
            searched += [end[0]["searched"]] if "searched" in end[0] else []


class Pages(Store):
    def fill(self):
        for shift, calls in ((None, 500), (-3600, 300), (3600, 200)):
            if shift is not None:
                self.step(shift)
            for name, part in zip(NAMES, (2, 1, 1)):
                self.use(name, calls * part // 2, 25)

    def by_position(self, tenant, where=""):
        return [call for call, in self.crib.rows(f"SELECT call FROM v_calls WHERE tenant = ? {where} ORDER BY idx DESC", tenant)]

    def test_sc003_pages_are_the_whole(self):
        """Each question, in small pages and in one answer; rows of a log by position (SC-004)."""
        c = self.crib
        self.fill()
        self.assertGreater(c.rows("SELECT count(*) FROM rec")[0][0], 4000)
        times = [t for t, in c.rows("SELECT ts FROM rec WHERE log = 2 ORDER BY idx")]
        self.assertNotEqual(times, sorted(times), "the clock was set back")
        key = self.keys["acme"].split("_")[1]
        for command, limit, args in (
                ("audit calls", 97, {"tenant": "acme"}), ("audit calls", 1, {"tenant": "other", "outcome": "invalid", "tool": "strict"}),
                ("audit calls", 7, {"tenant": "acme", "outcome": "invalid"}), ("audit calls", 500, {}),
                ("audit calls", 90, {"tenant": "acme", "tool": "echo", "principal": "bot", "key": key}),
                ("audit calls", 5, {"tenant": "third", "tool": "strict"}), ("audit calls", 5, {"tenant": "acme", "tool": "none"}),
                ("audit denied", 3, {"tenant": "acme"}), ("audit credential", 400, {"key": key, "timeline": True}),
                ("audit subject", 400, {"principal": "acme/bot", "export": True}), ("audit clock", 1, {}),
                ("audit admin", 2, {}), ("audit config", 1, {})):
            whole, cursor = self.page(command, limit=0, **args)
            self.assertIsNone(cursor)
            if command in ("audit calls", "audit denied") and args.get("tenant") and len(args) > 1:
                for look in (1, 1025, 10 ** 6):         # C-501: a part of 1024 is read as a whole
                    rows, searched = self.looks(command, limit=0, look=look, **args)
                    self.assertEqual(rows, whole, (command, args, look))
                    self.assertLessEqual(len(searched), 0 if look > 1025 else 9, (args, look))
                    if args == {"tenant": "acme", "outcome": "invalid"} and look == 1:
                        self.assertGreaterEqual(len(searched), 1)
                        at = round(datetime.datetime.fromisoformat(searched[0].replace("Z", "+00:00")).timestamp() * 10 ** 6)
                        self.assertIn(at, times)
            rows, n = self.pages(command, limit, **args)
            grown = len(rows) - len(whole)
            self.assertEqual(rows[grown:] if command == "audit admin" else rows, whole, (command, args))
            self.assertGreaterEqual(n, 1 if not whole or args.get("tool") == "none" else 2, (command, args))
        for tenant in NAMES:
            got = [r["call"] for r in self.page("audit calls", limit=0, tenant=tenant)[0]]
            self.assertEqual(got, self.by_position(tenant))
            merged = [r["call"] for r in self.page("audit calls", limit=0)[0] if r["tenant"] == tenant]
            self.assertEqual(merged, got, "each log's in its order")
            got = [r["call"] for r in self.page("audit calls", limit=0, tenant=tenant, outcome="invalid")[0]]
            self.assertEqual(got, self.by_position(tenant, "AND outcome = 'invalid'"))

    def test_sc004_since_and_until_are_exact_by_time(self):
        """The clock was set: records of the span lie in two parts of the log."""
        self.fill()
        times = sorted(t for t, in self.crib.rows("SELECT time FROM v_calls WHERE tenant = 'acme'"))
        for since, until in ((times[3], times[-4]), (times[-200], times[-2]), (times[5], times[150])):
            want = self.by_position("acme", f"AND time >= '{since}' AND time < '{until}'")
            header, all = self.header("audit calls", tenant="acme", since=since, until=until), self.header("audit calls", tenant="acme")
            self.assertEqual([header[end] for end in ("from", "to")], [0, header["records"] - 1], "the clock was set: all of it is read")
            self.assertEqual([all[end] for end in ("from", "to")], [0, all["records"] - 1])
            got, n = self.pages("audit calls", 40, tenant="acme", since=since, until=until)
            self.assertEqual([r["call"] for r in got], want)
            self.assertGreater(n, 1)
            some, _ = self.page("audit calls", limit=0, tenant="acme", since=since, until=until, tool="strict")
            self.assertEqual([r["call"] for r in some], self.by_position("acme", f"AND time >= '{since}' AND time < '{until}' AND tool = 'strict'"))

    def test_sc003_what_comes_between_pages_moves_nothing(self):
        """Calls come in, of all tenants and a new one, while the clock is set back and on."""
        self.fill()
        for args in ({}, {"tenant": "acme"}):
            whole, _ = self.page("audit calls", limit=0, **args)

            def between(n):
                if n in (2, 4):
                    self.step(-7200 if n == 2 else 7200)
                if n < 6:
                    for name in self.keys:
                        self.use(name, 4)
                if n == 3 and "fourth" not in self.keys:
                    self.keys["fourth"] = self.crib.tenant("fourth", "echo")

            rows, n = self.pages("audit calls", 200, between, **args)
            self.assertEqual(rows, whole)
            self.assertGreater(n, 4)
            self.assertGreater(len(self.page("audit calls", limit=0, **args)[0]), len(whole))



class Cursors(crib.Case):
    """What is given back with a question."""

    def setUp(self):
        super().setUp()
        c = self.crib.init().start()
        c.tool(crib.ECHO)
        for name in ("acme", "other"):
            peer = c.http(c.tenant(name, "echo"))
            for i in range(4):
                peer.call("echo", {"text": str(i)}, rev=crib.MODERN)
            peer.close()

    def next(self, *words, crib=None):
        said = json.loads((crib or self.crib).cli("audit", *words, "--limit", "2", "--format", "json"))
        return said["rows"], said.get("next")

    def refused(self, words, said, *more):
        done = self.crib.run("audit", *words, "--limit", "2", *more)
        self.assertEqual((done.returncode, done.stdout), (1, ""), words)
        self.assertIn(said, done.stderr)
        return done.stderr

    def test_sc003_a_cursor_is_of_one_question(self):
        rows, cursor = self.next("calls", "--tenant", "acme")
        again, last = self.next("calls", "--tenant", "acme", "--after", cursor)
        self.assertIsNone(last)
        self.assertEqual(rows + again, self.crib.json("audit", "calls", "--tenant", "acme", "--limit", "0"))
        self.assertEqual(len(self.crib.json("audit", "calls", "--tenant", "acme", "--limit", "1", "--after", cursor)), 1, "--limit is no part")
        told = {self.refused([*words, "--after", cursor], "of another question")
                for words in (["calls"], ["calls", "--tenant", "other"], ["calls", "--tenant", "acme", "--tool", "echo"],
                              ["calls", "--tenant", "acme", "--since", "1h"], ["calls", "--tenant", "acme", "--outcome", "ok"],
                              ["denied", "--tenant", "acme"], ["access", "--tenant", "acme"])}
        self.assertEqual(len(told), 1, "the same words, whoever's cursor it is")
        self.assertIn("only --limit may differ", told.pop())
        self.refused(["calls", "--tenant", "acme", "--group-by", "tool", "--after", cursor], "this report has no pages")

    def test_sc003_a_span_that_ends_now_goes_on_as_it_began(self):
        """--since 1h is another moment with each page: the cursor has that of the first."""
        rows, cursor = self.next("calls", "--since", "1h")
        header = json.loads(self.crib.cli("audit", "calls", "--since", "1h", "--limit", "2", "--format", "json", "--after", cursor))["header"]
        first = json.loads(self.crib.cli("audit", "calls", "--since", "1h", "--limit", "2", "--format", "json"))["header"]
        self.assertLess(header["since"], first["since"])
        self.assertEqual(len(rows), 2)

    def test_c501_what_looks_at_a_part_says_so(self):
        for args, says in (({"look": "10"}, "--look needs --tenant"), ({"look": "x", "tenant": "acme"}, "look"),
                           ({"look": "10", "tenant": "acme", "group-by": "tool"}, "counts are of all records")):
            self.assertIn(says, said_by(self.crib, "audit calls", args))

    def test_sc003_what_is_no_cursor_is_told(self):
        _, cursor = self.next("calls")
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))

        def encoded(data):
            return base64.urlsafe_b64encode(data).decode().rstrip("=")

        def sealed(data):
            """With the digest of somebody who knows how it is made: it opens nothing, so that is no secret."""
            return encoded(data + hashlib.sha256(b"toolcrib cursor\0" + data).digest()[:8])

        self.assertEqual(sealed(raw[:-8]), cursor)
        for wrong in ("", "x", "next", cursor[:-1], cursor[:-4], cursor[1:], cursor + "AAAA", cursor + "=", "A" * 1000, encoded(b""),
                      *(encoded(raw[:i] + bytes([raw[i] ^ 1]) + raw[i + 1:]) for i in range(len(raw))),
                      sealed(raw[:-9]), sealed(b"\x02" + raw[1:-8]), sealed(raw[:-8] + b"\x80"), sealed(raw[:-8] + b"\x00\x01"),
                      sealed(raw[:-8] + b"\x81\x00\x01"), sealed(raw[:-8] + b"\xff" * 9 + b"\x01\x01"), sealed(raw[:9] + b"\x00\x00")):
            self.refuse_quickly(wrong, "no cursor")
        self.refuse_quickly(sealed(raw[:-8] + b"\x05\x01"), "a log that is no part of the question")
        self.refuse_quickly(sealed(raw[:11] + b"\x02\xff\x7f"), "a newer state of the store")
        self.assertIn("is longer than", self.error(after="A" * 65537))
        self.refuse_quickly("A" * 65536, "no cursor")

    def error(self, **args):
        said = said_by(self.crib, "audit calls", args).splitlines()
        return json.loads(said[-1]).get("error", {}).get("message", "")

    def refuse_quickly(self, cursor, said):
        """Over the daemon's socket: there are many."""
        self.assertIn(said, self.error(limit="2", after=cursor), cursor)

    def test_sc003_a_cursor_of_another_store_is_of_another_question(self):
        """A store of the same people, tools and calls."""
        there = crib.Crib()
        self.addCleanup(there.close)
        there.must(["init"])    # not a copy: it has a name of its own
        there.start()
        there.tool(crib.ECHO)
        peer = there.http(there.tenant("acme", "echo"))
        for i in range(4):
            peer.call("echo", {"text": str(i)}, rev=crib.MODERN)
        peer.close()
        _, cursor = self.next("calls", "--tenant", "acme", crib=there)
        self.assertTrue(cursor)
        self.refused(["calls", "--tenant", "acme", "--after", cursor], "of another question, or of another store")

    def test_sc003_each_format_shows_it_in_its_place(self):
        """For programs in what they read, else on standard error; nothing when all was said."""
        c, report = self.crib, ("audit", "calls", "--tenant", "acme")
        whole = json.loads(c.cli(*report, "--limit", "2", "--format", "json"))
        self.assertEqual(list(whole), ["header", "columns", "rows", "next"])
        cursor = whole["next"]
        self.assertRegex(cursor, r"^[A-Za-z0-9_-]+$")
        lines = [json.loads(line) for line in c.cli(*report, "--limit", "2", "--format", "jsonl").splitlines()]
        self.assertEqual(lines[1:], [*whole["rows"], {"next": cursor}])
        for words in (["--format", "csv"], ["--format", "table"], ["--json"]):
            done = c.run(*report, "--limit", "2", *words)
            self.assertTrue(done.stderr.endswith(f"next: --after {cursor}\n"), words)
            self.assertNotIn(cursor, done.stdout)
        self.assertEqual(len(list(csv.reader(io.StringIO(c.cli(*report, "--limit", "2", "--format", "csv"))))), 3)
        self.assertEqual(c.run("--quiet", *report, "--limit", "2").stderr, "")
        for limit in ("4", "5", "0"):
            whole = c.run(*report, "--limit", limit, "--format", "json")
            self.assertEqual((list(json.loads(whole.stdout)), whole.stderr), (["header", "columns", "rows"], ""), limit)
            self.assertNotIn("next", c.run(*report, "--limit", limit).stderr)

    def test_sc003_a_limit_without_pages_is_said_as_well(self):
        """Of counts and other lists that have no cursor: there are more, on record too; none at the limit itself."""
        c = self.crib
        for words, n in ((["calls", "--group-by", "tenant"], 2), (["calls", "--tenant", "acme", "--group-by", "outcome,tool,principal"], 1),
                         (["coverage", "--tenant", "acme"], 1), (["capacity"], 3)):
            for limit in (n, n + 1, 0):
                done = c.run("audit", *words, "--limit", str(limit), "--format", "json")
                self.assertEqual((len(json.loads(done.stdout)["rows"]), "next" in json.loads(done.stdout)), (n, False), words)
            if n == 1:
                continue
            said = json.loads(c.cli("audit", *words, "--limit", str(n - 1), "--format", "json"))
            self.assertEqual((len(said["rows"]), said["next"]), (n - 1, None), words)
            done = c.run("audit", *words, "--limit", str(n - 1))
            self.assertEqual(done.stderr, "there are more rows: --limit 0 has all\n")
        said = c.rows("SELECT detail FROM v_records WHERE log_id = 1 AND kind = 'audit.read' AND detail LIKE '%capacity%' ORDER BY idx DESC")
        self.assertTrue(said[0][0].endswith("audit capacity limit=2: limit, 2 rows"), said)

    def test_sc003_it_works_without_a_server(self):
        self.crib.stop()
        rows, cursor = self.next("calls")
        more, _ = self.next("calls", "--after", cursor)
        self.assertEqual(rows + more, self.crib.json("audit", "calls", "--limit", "4"))


if __name__ == "__main__":
    crib.main()
