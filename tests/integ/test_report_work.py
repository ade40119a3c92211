"""What reports cost, by counted work: the same questions of two stores with the same planted answers, one with ten times the
records, as rows and with nearly all of them in small blocks and chapters.  No statement may take more steps in the larger one
(SC-903), whatever its plan says: those that still do stand in report_walks.txt, of rows, and report_walks_blocks.txt, each with its
reason, and leave it when they do not."""
import collections
import datetime
import json
import pathlib
import re
import shlex
import socket
import subprocess
import unittest

import crib
from questions import ALL, QUESTIONS, T, filled, title

RECORDS, TIMES = 4000, 10
MORE = 1.5              # times the work that ten times the records may take
FEW = 2000              # steps that are nothing: a level more in a tree, a few more looks into an index
FILL = ("--tenants", 2, "--zipf", 4, "--principals", 4, "--tools", 4, "--failures", 0.2, "--days", 5, "--hour", 10)
OWN = re.compile("audit_list_leaves|fold_|baseline_|meta_list_schema")    # what the server asks when it likes: its notary, what makes blocks, usual calls, a reader
FORMS = "rows", "blocks"
TAIL = 50
ROW_STEPS = 46          # columns of a row that is read from behind the blocks: it takes as many steps at least
FOLD = ("--block", 64, "--chapter", 24, "--part", 0, "--book", 2, "--tail", TAIL, "--leftovers")    # a store without blocks has all indexes, one with them sums
WALKS = {form: pathlib.Path(__file__).parent / f"report_walks{name}.txt" for form, name in zip(FORMS, ("", "_blocks"))}


def sources():
    return "\n".join(path.read_text() for path in sorted((crib.SOURCE / "src").glob("*/*.c")))


def ways():
    """Every statement that the table of reports names, with the report's words."""
    table = re.search(r"(?s)static const struct report reports\[\] = \{\n(.*?)\n\t\{ \.noun = NULL \}", sources())[1]
    for row in re.split(r"(?m)^\t\{ (?=\")", table)[1:]:
        words = " ".join(re.match(r'"(\w+)", "([\w-]+)"', row).groups())
        for name in re.findall(r"\bSQL_(REPORT_\w+)", row):
            yield name.lower(), words


def statements():
    """Texts as the engine has them -> names."""
    for path in sorted((crib.SOURCE / "sql/queries").glob("*.sql")):
        for name, sql in re.findall(r"(?ms)^-- name: (\w+)\n(.*?)(?=^-- name:|\Z)", path.read_text()):
            parts = re.split(r"(?m)^-- only: (\w+)$", "-- only: all\n" + sql)         # of one engine
            sql = "".join(part for only, part in zip(parts[1::2], parts[2::2]) if only != "pgsql")
            lines = [line for line in sql.splitlines() if not line.lstrip().startswith("--")]
            yield " ".join(" ".join(lines).split()).rstrip("; "), name


def listed_walks(form):
    """Lines of the list: what is asked, or * for all, and the statement -> reason."""
    lines = [line.split("\t") for line in WALKS[form].read_text().splitlines() if line and not line.startswith("#")]
    return {(question, statement): reason for question, statement, reason in lines}


class Store:
    """A store of b_fill with a server on it, whose work is counted."""

    names = dict(statements())

    def __init__(self, records, *fill, fold=()):
        self.crib = crib.Crib()
        try:
            self.planted = {**self.crib.fill(records, *fill), "cursor": str(self.crib.dir / "cursor")}
            self.crib.cli("audit", "export", "--until", "2000-01-01", "--cursor", self.planted["cursor"])
        except BaseException:
            self.crib.close()
            raise
        if fold:
            subprocess.run([crib.BUILD / "tests/bench/b_fold", self.crib.store, *map(str, fold)], stdout=subprocess.DEVNULL, check=True)
        self.log = self.crib.dir / "work"

    def start(self, walk=""):
        self.walk = walk
        self.log.touch()
        env = {"LD_PRELOAD": str(crib.BUILD / "tests/integ/work.so"), "ASAN_OPTIONS": "verify_asan_link_order=0",
               "TOOLCRIB_TEST_WORK": str(self.log), "TOOLCRIB_TEST_WALK": walk}
        report = self.crib.dir / "report"       # a reporter has no environment, and may open no file of ours
        report.write_text("#!/bin/sh\n" + "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items()) +
                          f"exec {crib.BUILD / 'toolcrib-report'}\n")
        report.chmod(0o755)
        self.crib.start("sandbox: {landlock: 0}\naudit: {fold_rows: 65536, fold_age: 86400, seal: off}\n", env={**env, "TOOLCRIB_REPORT": str(report)})

    def counted(self, ask):
        """What it gives; and of each run of a statement its name, steps, pages that were read, process, KiB of that at most."""
        before, runs = self.log.stat().st_size, []
        got = ask()
        with open(self.log, "rb") as log:
            log.seek(before)
            for line in log:
                if not line.endswith(b"\n"):     # somebody is writing it, who was not asked
                    break
                *counts, text = line.decode().rstrip("\n").split("\t")
                text = text.replace("+" + self.walk, self.walk) if self.walk else text
                runs.append((self.names.get(" ".join(text.split()), "?"), *map(int, counts)))
        return got, runs

    def ask(self, question):
        """The rows, and the steps of each statement."""
        got, runs = self.counted(lambda: self.said(question[2], filled(question[3], self.planted)))
        steps = collections.Counter()
        for name, did, *_ in runs:
            steps[name] += did
        return [json.loads(line)["row"] for line in got.splitlines() if line.startswith(b'{"row":')], steps

    def said(self, command, args):
        """What comes over the socket; of what needs a file, over the CLI."""
        if command == "audit export-check":
            self.crib.run(*command.split(), "--cursor", args["cursor"])
            return b""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(crib.DEADLINE)
            s.connect(str(self.crib.store / "admin.sock"))
            s.sendall(json.dumps({"command": command, "args": args}).encode() + b"\n")
            got = b""
            while not got.endswith(b'{"done":true}\n'):
                more = s.recv(1 << 20)
                got += more
                if not more or b'{"error":' in got[-4000:]:
                    raise AssertionError(f"{command} {args}: {got[-1000:]}")
        return got


# The same questions of all forms are asked in every build: test_forms.py, test_sealed.py.
@unittest.skipIf(crib.sanitized("toolcribd"), "SQLite takes the same steps in any build")
class Work(crib.Case):
    maxDiff = None
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.filled = {form: [Store(records, *FILL, fold=FOLD if form == "blocks" else ()) for records in (RECORDS, RECORDS * TIMES)]
                      for form in FORMS}
        for stores in cls.filled.values():
            for store in stores:
                cls.addClassCleanup(store.crib.close)

    def serve(self, form, walk=""):
        self.stores = self.filled[form]
        for store in self.stores:
            store.start(walk)
            self.addCleanup(store.crib.stop)

    def check_answer(self, store, question, rows):
        """Exactly what was planted, where something was."""
        if len(question) > 4:
            said = {value for row in rows for value in row.values()}
            calls = store.planted[question[4]]["calls"]
            self.assertEqual((len(rows), [call for call in calls if call not in said]), (len(calls), []), title(question))

    def walks(self, question):
        """Statements that take more steps where there are more records: name -> steps here and there; and all names."""
        asked = [store.ask(question) for store in self.stores]
        for store, (rows, _) in zip(self.stores, asked):
            self.check_answer(store, question, rows)
        few, many = (steps for _, steps in asked)
        names = few.keys() | many.keys()
        return {name: (few[name], many[name]) for name in names if not OWN.match(name) and many[name] > MORE * few[name] + FEW}, names

    def test_sc903_ten_times_the_records_are_no_more_work(self):
        """SC-903, AUDIT A-634: counted steps; a report without a question fails, and so does a line that is not needed."""
        seen = set()
        for form in FORMS:
            self.serve(form)
            self.check_walks(form, seen)
            for store in self.stores:
                store.crib.stop()
        self.assertGreater(len(list(ways())), 40)
        with self.subTest("statements of the table of reports that no question asks"):
            self.assertEqual([(name, words) for name, words in ways() if name not in seen], [])

    def check_walks(self, form, seen):
        listed, found = listed_walks(form), {}
        for question in QUESTIONS:
            if question[1] == ALL:
                seen.update(self.stores[0].ask(question)[1])
                continue
            walks, names = self.walks(question)
            seen.update(names)
            found.update({(title(question), name): steps for name, steps in walks.items()})
        new = [(*at, *steps) for at, steps in found.items() if at not in listed and ("*", at[1]) not in listed]
        stale = [at for at in listed if at not in found and not (at[0] == "*" and at[1] in {name for _, name in found})]
        with self.subTest("walks that nobody has listed", form=form):
            self.assertEqual(new, [])
        with self.subTest(f"lines of {WALKS[form].name} that are not needed any more: take them out"):
            self.assertEqual(stale, [])

    def test_sc903_rows_behind_the_blocks_are_passed_once(self):
        """Of each log that a report counts, by whatever it counts; where the first and last record of a day stand is found without."""
        self.serve("blocks")
        store = self.stores[0]
        tail = store.crib.rows("SELECT count(*) FROM rec r WHERE kind <> 1001 AND idx >= (SELECT max(first + cnt) FROM blk WHERE log = r.log)")[0][0]
        self.assertGreater(tail, TAIL)
        others = {}
        for command, args, logs in (("audit stats", {**T, "since": "6d", "step": "1h"}, 1), ("audit tool-health", T, 1), ("audit coverage", T, 2),
                                    ("audit coverage", {}, 1), ("audit stats", {"since": "6d"}, 2)):
            with self.subTest(command=command, **args):
                got, runs = store.counted(lambda: store.said(command, args))
                self.assertGreater(sum(line.startswith(b'{"row":') for line in got.splitlines()), 4)
                self.assertEqual(sum(name == "forms_sums_tail" for name, *_ in runs), logs)
                self.assertLessEqual(sum(name == "forms_sums_row" for name, *_ in runs), tail)
                others[command, len(args)] = sum(name == "forms_rows_up" and did > ROW_STEPS * TAIL for name, did, *_ in runs)
        self.assertEqual(others["audit coverage", 1], others["audit tool-health", 1])  # the header's

    def test_rows_of_other_calls_are_left_out_where_they_are(self):
        """Who asks for a call passes the rows behind the blocks once, and no other row comes out of its statement: audit show asks three times."""
        self.serve("blocks")
        store = self.stores[0]
        tail = store.crib.rows("SELECT count(*) FROM rec r JOIN log ON log.id = r.log JOIN tenant t ON t.id = log.tenant_id WHERE t.name = ? AND "
                               "idx >= (SELECT max(first + cnt) FROM blk WHERE log = r.log)", T["tenant"])[0][0]
        self.assertGreater(tail, TAIL - 1)
        call = store.crib.json("audit", "calls", "--tenant", T["tenant"], "--limit", "1")[0]["call"]
        got, runs = store.counted(lambda: store.said("audit show", {**T, "call": call}))
        self.assertGreater(sum(line.startswith(b'{"row":') for line in got.splitlines()), 1)
        passed = [did for name, did, *_ in runs if name in ("forms_rows_up", "forms_rows_down") and did > 4 * tail]
        self.assertEqual(len(passed), 3, passed)
        self.assertLess(max(passed), ROW_STEPS // 2 * tail)

    def test_what_joins_a_record_to_its_begin_opens_a_block_once(self):
        """Not for each record: SQLite asks behind each for a second one, of which there is none."""
        self.serve("blocks")
        store = self.stores[1]
        blocks = store.crib.rows("SELECT count(*) FROM blk JOIN log ON log.id = blk.log JOIN tenant t ON t.id = log.tenant_id WHERE t.name = ?",
                                 T["tenant"])[0][0]
        got, runs = store.counted(lambda: store.said("audit calls", {**T, "limit": "0"}))
        rows = sum(line.startswith(b'{"row":') for line in got.splitlines())
        opened = sum(name in ("forms_blocks_up", "forms_blocks_down") for name, *_ in runs)
        self.assertGreater(rows, 10 * blocks)
        self.assertLess(opened, 4 * blocks)

    def test_what_zones_leave_out_is_not_read(self):
        """SC-206: a step of a statement reads all that it gives, so bytes of a block, and sums of a chapter, are asked for by themselves."""
        self.serve("blocks")
        store = self.stores[1]
        blocks = store.crib.rows("SELECT count(*) FROM blk")[0][0]
        for command in "audit erasures", "audit config", "audit auth-failures":
            with self.subTest(command=command):
                runs = store.counted(lambda: store.said(command, {}))[1]
                self.assertLess(sum(name == "forms_block_cols" for name, *_ in runs), blocks / 20)
                self.assertEqual(sum(name == "forms_chapter_sums" for name, *_ in runs), 0)
        beside = {name: text for text, name in statements() if re.match("forms_(blocks|chapters)_(up|down)$", name)}
        self.assertEqual((len(beside), [name for name, text in beside.items() if re.search(r"\b(cols|hash|sums)\b", text)]), (4, []))

    def test_what_is_asked_of_sums_reads_books(self):
        """Decisions 0141, 0179: the sums of a book, and of the chapters that are in none; what is by day and outcome alone, days of books."""
        self.serve("blocks")
        store = self.stores[1]
        of = "WHERE log = (SELECT l.id FROM log l JOIN tenant t ON t.id = l.tenant_id WHERE t.name = ?)"
        books, chapters, loose = (store.crib.rows(f"SELECT count(*) FROM {what} {of} {more}", T["tenant"])[0][0] for what, more in (
            ("book", ""), ("chap", ""), ("chap", "AND first >= (SELECT max(first + cnt) FROM book WHERE log = chap.log)")))
        self.assertGreater(books, 5)
        for question, most, sums, days in (({"group-by": "client,obo"}, loose, books, 0), ({"group-by": "tool,day"}, chapters, 0, 0),
                                           ({"group-by": "outcome,day"}, loose, 0, books), ({"group-by": "outcome"}, loose, 0, books)):
            with self.subTest(**question):
                runs = store.counted(lambda: store.said("audit calls", {**T, **question}))[1]
                names = collections.Counter(name for name, *_ in runs)
                self.assertEqual((names["forms_chapter_sums"], names["forms_book"], names["forms_book_days"]), (most, sums, days))

    def read(self, store, command, args):
        """How often a block, and the sums of a chapter and of a book, were read for it; and its rows."""
        got, runs = store.counted(lambda: store.said(command, args))
        names = collections.Counter(name for name, *_ in runs)
        return [names["forms_block_cols"], names["forms_chapter_sums"], names["forms_book_around"]], got.count(b'{"row":')

    def test_two_ids_that_meet_seldom_are_found_by_sums(self):
        """SC-206, decision 0141: what each part has of both, and no record of both at once, costs the sums of its books."""
        self.serve("blocks")
        store = self.stores[1]
        of = "FROM {} WHERE log = (SELECT l.id FROM log l JOIN tenant t ON t.id = l.tenant_id WHERE t.name = ?)"
        blocks, books, loose = (store.crib.rows(what, T["tenant"])[0][0] for what in (
            "SELECT count(*) " + of.format("blk"), "SELECT count(*) " + of.format("book"),
            "SELECT count(*) " + of.format("blk") + " AND first >= (SELECT max(first + cnt) FROM chap WHERE log = blk.log)"))
        self.assertGreater(blocks, 20 * FOLD[FOLD.index("--chapter") + 1])
        planted = store.planted["tool_error"]
        for args, rows, chapters in (({"tool": planted["tool"], "outcome": "tool_error"}, len(planted["calls"]), len(planted["calls"])),
                                     ({"principal": "seldom", "outcome": "crashed"}, 0, 0)):
            with self.subTest(**args):
                (opened, sums, around), got = self.read(store, "audit calls", {**T, **args})
                self.assertEqual(got, rows)
                self.assertLess(opened, loose + (chapters + 1) * 2 * FOLD[FOLD.index("--chapter") + 1])
                self.assertLessEqual(sums, books)
                self.assertLess(around, 4 * books)

    def test_an_export_begins_and_ends_where_its_times_do(self):
        """Blocks of other times are left out by their times, before and behind."""
        self.serve("blocks")
        store = self.stores[1]
        log, blocks = store.crib.rows("SELECT b.log, count(*) FROM blk b JOIN log l ON l.id = b.log JOIN tenant t ON t.id = l.tenant_id "
                                      "WHERE t.name = ?", T["tenant"])[0]
        times = [self.crib_time(us) for us, in store.crib.rows("SELECT ts_min FROM blk WHERE log = ? ORDER BY first LIMIT ?", log, blocks)]
        for since, until, part in ((None, times[blocks // 20], 20), (times[-blocks // 20], None, 20), (times[blocks // 2], times[blocks // 2 + 3], 100)):
            args = {name: value for name, value in (("since", since), ("until", until)) if value}
            with self.subTest(**args):
                (opened, *_), rows = self.read(store, "audit export", {**T, **args})
                self.assertGreater(rows, 30)
                self.assertLess(opened, 3 * blocks / part + 30)

    @staticmethod
    def crib_time(us):
        return datetime.datetime.fromtimestamp(us // 1000000, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    def test_sc407_what_counts_by_sums_is_marked(self):
        """SC-407: so that its header says how many chapters have none."""
        texts = {name: text for text, name in statements()}
        table = re.search(r"(?s)static const struct report reports\[\] = \{\n(.*?)\n\t\{ \.noun = NULL \}", sources())[1]
        table = re.sub(r"BODY\((\w+), \w+\)", r"{ .sql = \1, COUNTED }", table)
        table = re.sub(r"(?:PAGED|FINDINGS)\((\w+)\)", r"{ .sql = \1 }", table)
        for way in re.findall(r"\{ [^{}]*\.sql = [^{}]*", table):
            names = [name.lower() for name in re.findall(r"SQL_(REPORT_\w+)", way)]
            self.assertEqual("COUNTED" in way, any("rollup" in texts[name] for name in names), way)

    def test_show12_a_planted_walk_is_found(self):
        """Show 12: an index that does not serve any more is told by the question that it served."""
        question = next(q for q in QUESTIONS if q[3].get("outcome") == "crashed" and "principal" not in q[3])
        self.serve("rows", "outcome = ?6 AND outcome <> 0")
        self.assertIn("report_probe_out", self.walks(question)[0])


if __name__ == "__main__":
    crib.main()
