#!/usr/bin/env python3
"""What the CLI prints on a terminal and into a pipe: one style for all lists and reports, the same formats for each, ids
with -q."""
import csv
import fcntl
import io
import json
import os
import pathlib
import pty
import re
import socket
import struct
import subprocess
import tempfile
import termios
import threading
import unicodedata

import crib


def on_terminal(c, columns, *words, env=None):
    """What a command shows on a terminal of so many columns; the exit status and its lines."""
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        full = {**c.env, "LC_ALL": "C.UTF-8", "TERM": "xterm", "TZ": "UTC"}
        full.pop("NO_COLOR")
        full.pop("COLUMNS", None)
        os.execve(str(crib.BUILD / "toolcrib"), ["toolcrib", "--store", str(c.store), *words], {**full, **(env or {})})
    shown = b""
    while True:
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        if not data:
            break
        shown += data
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode().replace("\r\n", "\n")


def stays(text):
    """Without lines of progress that were erased again."""
    return re.sub(r"[^\n]*\r\x1b\[K", "", text)


def plain(text):
    """What stays, without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", stays(text))


def cells(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


class Terminal(crib.Case):
    LISTS = ["tenant list", "key list", "tool list", "tool history echo", "grant list", "principal list acme", "limit show acme",
             "approval list", "schema list", "secret list", "upstream list", "hold list", "level list", "retention show", "session list",
             "tool pending", "audit verify", "status", "tenant show acme"]
    REPORTS = ["audit calls --tenant acme", "audit denied --tenant acme", "audit admin", "audit access", "audit stats",
               "audit tool-health --tenant acme", "audit coverage", "audit capacity", "audit tail -n 5", "key list --review",
               "tool history echo --events"]

    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(crib.ECHO)
        c.tenant("acme", "*")
        for text in ("one", "two"):
            c.cli("call", "acme", "echo", f"text={text}")

    def test_no_line_is_wider_than_the_terminal(self):
        c = self.crib.start()
        c.cli("tenant", "add", "wide", "--title", "\u6f22\u5b57\u304b\u306a \U0001f600\U0001f600 " * 8)
        for words in [*self.LISTS, *self.REPORTS]:
            code, text = on_terminal(c, 80, *words.split())
            self.assertEqual(code, 0, (words, text))
            for line in plain(text).split("\n"):
                self.assertLessEqual(cells(line), 80, (words, line))
        self.assertIn("\u2026", on_terminal(c, 80, "tenant", "list")[1])
        self.assertNotIn("\u2026", c.cli("tenant", "list"), "a pipe gets everything")
        narrow = on_terminal(c, 200, "tenant", "list", env={"COLUMNS": "60"})[1]
        self.assertEqual(max(cells(line) for line in plain(narrow).split("\n")), 60, "COLUMNS goes first")
        for columns, same in (("19", "20"), ("4097", "4096"), ("0", "80"), ("wide", "80")):
            self.assertEqual(on_terminal(c, 0, "tenant", "show", "wide", env={"COLUMNS": columns}),
                             on_terminal(c, 0, "tenant", "show", "wide", env={"COLUMNS": same}))

    def test_a_pipe_gets_tables_as_before(self):
        lines = self.crib.cli("key", "list").splitlines()
        self.assertEqual(re.split(" {2,}", lines[0]), ["ACCESSOR", "PRINCIPAL", "STATE", "EXPIRES", "OLD SECRET UNTIL",
                                                       "LAST USED (NOT EVIDENCE)", "SCOPES", "LABEL (NOT EVIDENCE)"])
        self.assertRegex(lines[1], r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}")
        self.assertEqual(self.crib.run("audit", "calls", "--tenant", "acme", env={"COLUMNS": "40"}).stdout.count("\n\nTIME  "), 1)

    def test_n14_every_list_and_report_knows_format_and_json(self):
        """N-14: key list --format json and tool history --format were silently tables."""
        self.crib.start()
        for words in [*self.LISTS, *self.REPORTS]:
            whole = json.loads(self.crib.cli(*words.split(), "--format", "json"))
            self.assertIsInstance(whole["rows"], list, words)
            self.assertTrue(whole["columns"], words)
            lines = [json.loads(line) for line in self.crib.cli("--format", "jsonl", *words.split()).splitlines()]
            if "header" in whole:
                self.assertEqual(lines.pop(0)["columns"], whole["columns"], words)
            self.assertEqual([list(row) for row in lines][:1], [list(row) for row in whole["rows"]][:1], words)
            table = list(csv.reader(io.StringIO(self.crib.run(*words.split(), "--format", "csv").stdout)))
            self.assertEqual(table[0], whole["columns"], words)
            objects = [json.loads(line) for line in self.crib.cli("--json", *words.split()).splitlines()]
            self.assertTrue(all(isinstance(row, dict) and "header" not in row for row in objects), words)
        self.assertEqual(self.crib.cli("key", "list", "--format", "table"), self.crib.cli("key", "list"))

    def test_n14_a_format_that_is_none_is_refused(self):
        for words, said in ((["key", "list", "--format", "xml"], "table, json, jsonl or csv"),
                            (["audit", "calls", "--tenant", "acme", "--format", "ocsf"], "table, json, jsonl or csv"),
                            (["audit", "export", "--format", "xml"], "csv or ocsf"),
                            (["tenant", "add", "x", "--format", "csv"], "for lists and reports")):
            done = self.crib.run(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn(said, done.stderr)
        self.assertNotIn("x\n", self.crib.cli("-q", "tenant", "list"), "nothing was done")

    def test_quiet_prints_ids(self):
        """What -q prints of calls is what audit show takes."""
        calls = self.crib.cli("-q", "audit", "calls", "--tenant", "acme").split()
        self.assertEqual(len(calls), 2)
        for call in calls:
            self.assertEqual({row["tool"] for row in self.crib.json("audit", "show", call)}, {"echo"})
        key = self.crib.cli("-q", "key", "list").split()
        self.assertEqual(self.crib.cli("-q", "key", "list", "--review").split(), key)
        self.assertEqual(self.crib.cli("-q", "tool", "list"), "echo\n")
        self.assertRegex(self.crib.cli("-q", "audit", "admin", "--limit", "3"), r"^(\d+\n){3}$")

    def test_group_by_has_the_columns_that_were_asked_for(self):
        words = ("audit", "calls", "--tenant", "acme", "--group-by")
        whole = json.loads(self.crib.cli(*words, "tool,client", "--format", "json"))
        self.assertEqual(whole["columns"], ["claimed_client", "tool", "calls", "not_ok", "average_ms", "first", "last"])
        self.assertEqual([list(row) for row in whole["rows"]], [whole["columns"]])
        self.assertRegex(self.crib.cli(*words, "outcome"), r"\n\nOUTCOME  CALLS  NOT OK ")
        self.assertEqual(self.crib.cli("-q", *words, "tool"), "echo\n")

    def test_times_are_short_below_their_date_on_a_terminal(self):
        """And numbers stand to the right."""
        text = plain(on_terminal(self.crib, 120, "audit", "calls", "--tenant", "acme")[1]).split("\n\n")[1]
        lines = text.rstrip("\n").split("\n")
        self.assertRegex(lines[0], r"^TIME +TENANT +TOOL +PRINCIPAL +OUTCOME +MS  ")
        self.assertRegex(lines[1], r"^\d{4}-\d\d-\d\d \+0000$")
        ms = lines[0].index("MS") + 2
        for line in (line for line in lines[2:] if not line.startswith("20")):
            self.assertRegex(line, r"^\d\d:\d\d:\d\d  acme +echo ")
            self.assertRegex(line[:ms], r"\d$")
        self.assertRegex(plain(on_terminal(self.crib, 120, "tool", "list")[1]), r"\necho +1 +enabled +\d{4}-\d\d-\d\d \d\d:\d\d\n$")

    def test_colour_is_for_states_and_for_terminals_that_want_it(self):
        c = self.crib
        code, text = on_terminal(c, 100, "tool", "list")
        self.assertEqual(re.findall(r"\x1b\[3\dm([^\x1b]*)", text), ["enabled"])
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            self.assertNotIn("\x1b", stays(on_terminal(c, 100, "tool", "list", env=env)[1]))
        self.assertNotIn("\x1b", c.cli("tool", "list"))

    def test_one_word_for_one_state(self):
        """A key that works is active wherever it is shown; it was valid in one list and active in another."""
        key = self.crib.cli("-q", "key", "list").strip()
        said = [row["state"] for words in (["key", "list"], ["key", "list", "--review"], ["key", "show", key])
                for row in self.crib.json(*words)]
        self.assertEqual(said, ["active"] * 3)

    def test_since_is_from_then_on_and_until_is_before_then(self):
        """Said so by each command that has them, and so."""
        since, until = (re.findall(rf"\n\.It Fl -{name} Ar TIME\n(.*)", (crib.SOURCE / "src/ctl/toolcrib.8").read_text())
                        for name in ("since", "until"))
        self.assertGreater(len(since), 20)
        for text in since:
            self.assertIn("rom this time on", text)
        for text in until:
            self.assertRegex(text, "[Bb]efore this time")
        newest, oldest = (row["time"] for row in self.crib.json("audit", "calls", "--tenant", "acme"))

        def seen(*words):
            return [row["time"] for row in self.crib.json("audit", "calls", "--tenant", "acme", *words)]
        self.assertEqual(seen("--since", newest), [newest])
        self.assertEqual(seen("--until", newest), [oldest])
        self.assertEqual(seen("--since", oldest, "--until", newest), [oldest])


class Slow:
    """An admin socket that answers a command, in parts, when it is told to go on."""

    def __init__(self, path, parts):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.parts, self.seen, self.asked = parts, [threading.Event() for _ in parts], threading.Event()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        peer, _ = self.listener.accept()
        with peer:
            peer.recv(65536)
            self.asked.set()
            for part, seen in zip(self.parts, self.seen):
                seen.wait(crib.DEADLINE)
                peer.sendall("".join(json.dumps(line) + "\n" for line in part).encode())

    def close(self):
        for seen in self.seen:
            seen.set()
        self.thread.join()
        self.listener.close()


class Progress(crib.Case):
    def begin(self, lines, *words, err=True, out=False, env=None):
        """A command whose stderr (and stdout) may be a terminal, with a server that waits to answer."""
        path = pathlib.Path(tempfile.mkdtemp(dir=self.crib.dir)) / "slow.sock"
        server = Slow(path, lines)
        self.addCleanup(server.close)
        ours, theirs = pty.openpty()
        full = {**self.crib.env, "TERM": "xterm", **(env or {})}
        child = subprocess.Popen([crib.BUILD / "toolcrib", "--socket", str(path), *words], env=full, stdin=subprocess.DEVNULL,
                                 stdout=theirs if out else subprocess.PIPE, stderr=theirs if err else subprocess.PIPE)
        os.close(theirs)
        self.assertTrue(server.asked.wait(crib.DEADLINE))
        return server, child, ours

    def end(self, begun, wants):
        """Each part of the answer comes when what it waits for was seen.  What the terminal showed, and what the pipes got."""
        server, child, ours = begun
        shown = ""
        for want, go in zip(wants, server.seen):
            while want not in shown:
                shown += os.read(ours, 65536).decode()
            go.set()
        piped = child.communicate(timeout=crib.DEADLINE)
        try:
            while more := os.read(ours, 65536).decode():
                shown += more
        except OSError:
            pass
        os.close(ours)
        self.assertEqual(child.returncode, 0, (shown, piped))
        return shown, piped

    HEAD = {"header": {"report": "audit export"}, "columns": ["index"]}

    def test_what_takes_longer_than_a_second_says_so_on_a_terminal(self):
        """The line is gone when the answer comes."""
        row = {"finding": "INTACT", "class": "sum", "detail": "3 records"}
        shown, _ = self.end(self.begin([[{"row": row}, {"done": True}]], "audit", "verify", out=True), [" s"])
        self.assertRegex(shown, r"^\r\x1b\[Kaudit verify: \d+ s")
        self.assertRegex(shown, r"s\r\x1b\[KFINDING .*\r\nINTACT ")

    def test_an_export_says_how_many_records_have_come(self):
        rows = [{"row": {"index": i}} for i in range(3)]
        begun = self.begin([[self.HEAD, *rows[:2]], [*rows[2:], {"done": True}]], "audit", "export")
        shown, (out, _) = self.end(begun, ["", "2 records"])
        self.assertEqual([json.loads(line).get("index") for line in out.decode().splitlines()], [None, 0, 1, 2])
        self.assertRegex(shown, r"audit export: \d+ s, 2 records")
        self.assertTrue(shown.endswith("\r\x1b[K"))

    def test_nothing_is_said_where_nobody_looks(self):
        """Neither into a pipe, nor with -q, nor on a dumb terminal, while one who began later has said it twice."""
        answer = [[{"row": {"name": "acme"}}, {"done": True}]]
        silent = [self.begin(answer, "-q", "tenant", "list"), self.begin(answer, "tenant", "list", env={"TERM": "dumb"}),
                  self.begin(answer, "tenant", "list", err=False)]
        self.end(self.begin(answer, "tenant", "list"), ["tenant list: 2 s"])
        for begun in silent:
            shown, (_, err) = self.end(begun, [""])
            self.assertEqual((shown, err or b""), ("", b""))

    def test_a_command_that_does_its_own_work_ends_like_any_other(self):
        """Without a server, and before the first line of progress."""
        c = self.crib.init()
        code, text = on_terminal(c, 80, "backup", str(c.dir / "copy.db"))
        self.assertEqual(code, 0, text)
        self.assertIn("store copied to", text)


if __name__ == "__main__":
    crib.main()
