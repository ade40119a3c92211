"""Stores that tests/bench/b_fill makes are honest: both verifiers find them whole, and reports find what was planted (SC-901)."""
import json
import re
import subprocess

import crib
from questions import QUESTIONS, filled, title

VERIFIERS = (crib.BUILD / "toolcrib-verify",), crib.sceptic()


class Filled(crib.Case):
    def verify(self, of):
        for program in VERIFIERS:
            done = subprocess.run([*map(str, program), *crib.evidence(of.store), str(of.store)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"(?m)^INTACT \d+ records of \d+ logs: 0 bad, 0 gaps$")

    def counts(self, of):
        return of.rows("SELECT log, kind, outcome, count(*) FROM rec WHERE log > 1 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3")

    def find(self, of, planted, planted_for):
        """The rows of each question for which something was planted are just that."""
        asked = [question for question in QUESTIONS if len(question) > 4]
        self.assertEqual({question[4] for question in asked}, planted_for)
        for question in asked:
            rows = of.ask(question[2], **filled(question[3], {**planted, "cursor": ""}))
            calls = planted[question[4]]["calls"]
            self.assertEqual(len(rows), len(calls), title(question))
            self.assertLessEqual(set(calls), {value for row in rows for value in row.values()}, title(question))


class Small(Filled):
    def test_sc901_a_made_store_is_honest(self):
        """SC-901: with values, without; what is there follows from the seed."""
        self.crib.fill(600, "--tenants", 2, "--principals", 2, "--tools", 2, "--seed", 5, "--level", "request_response")
        self.verify(self.crib)
        other = crib.Crib()
        self.addCleanup(other.close)
        other.fill(600, "--tenants", 2, "--principals", 2, "--tools", 2, "--seed", 5, "--level", "none")
        self.assertEqual(self.counts(self.crib), self.counts(other))

    def test_sc901_what_is_wrong_is_refused(self):
        """SC-901: before anything is made."""
        for options in (["--records", 499], ["--records", "many"], ["--tenants", 10001], ["--tenants", 0], ["--zipf", -1],
                        ["--failures", 1.5], ["--level", "all"], ["--nothing", 1], ["--blocks", 65], ["other"],
                        ["--days", 364], ["--days", 1, "--records", 30000000000]):
            done = subprocess.run([str(crib.BUILD / "tests/bench/b_fill"), str(self.crib.store), *map(str, options)],
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, self.crib.store.exists()), (2, False), options)
            self.assertIn("usage: b_fill STORE", done.stderr)


    def more(self, *options):
        return subprocess.run([str(crib.BUILD / "tests/bench/b_fill"), str(self.crib.store), "--more", *map(str, options)],
                              capture_output=True, text=True, env=self.crib.env)

    def test_sc707_records_are_added_to_a_made_store(self):
        """SC-707, SC-901: as rows, as blocks; whoever has a mark reads these alone."""
        done = self.more()
        self.assertEqual((done.returncode, self.crib.store.exists()), (1, False), done)
        self.assertIn("is no store that b_fill made", done.stderr)
        self.crib.fill(900, "--tenants", 2, "--principals", 2, "--tools", 2)
        evidence = crib.evidence(self.crib.store)
        marked = [str(crib.BUILD / "toolcrib-verify"), *evidence, "--mark", str(self.crib.dir / "mark"), str(self.crib.store)]
        subprocess.run(marked, check=True, capture_output=True)
        before = self.crib.rows("SELECT count(*), max(ts) FROM rec")[0]
        old = before[0]
        for options in ([], ["--blocks", 2]):
            done = self.more("--records", 600, "--days", 2, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(json.loads(done.stdout)["records"], (600, 601))
            said = subprocess.run(marked, capture_output=True, text=True)
            found = re.search(r"verified ([0-9,]+) new records since the mark of \S+ ([0-9,]+) older ones were not read", said.stdout)
            self.assertEqual(said.returncode, 0, said.stdout)
            new, older = (int(n.replace(",", "")) for n in found.groups())
            self.assertEqual(older, old)
            self.assertGreaterEqual(new, 600)
            old += new
        self.verify(self.crib)
        self.assertEqual(self.crib.rows("SELECT count(*) FROM tenant"), [(2,)])
        self.assertGreater(sum(count for (count,) in self.crib.rows("SELECT cnt FROM blk")), 600)


class Long(Filled):
    def test_sc901_keys_live_as_long_as_their_calls(self):
        """SC-901: of more days than a key has by itself; what is planted behind the end of one is found, and nothing else."""
        planted = self.crib.fill(4000, "--tenants", 1, "--principals", 3, "--days", 120, "--blocks", 1)
        self.crib.start()
        rows = self.crib.ask("audit after-revocation")
        self.assertEqual([row["call"] for row in rows], planted["after_revocation"]["calls"])
        self.assertEqual([row["key"] for row in rows], [planted["after_revocation"]["key"]])


class Blocks(Filled):
    SAID = "kind", "tool", "outcome", "rule", "request_bytes", "result_bytes", "ms", "level", "principal"

    def made(self, *options):
        of = crib.Crib()
        self.addCleanup(of.close)
        of.fill(8400, "--tenants", 1, "--principals", 3, "--failures", 0.1, "--days", 40, "--level", "request", *options)
        return of

    def said(self, of):
        """Of records of calls, in their order."""
        exported = map(json.loads, of.cli("audit", "export", "--tenant", "fill00000").splitlines()[1:])
        return [(row["index"], *map(row.get, self.SAID)) for row in exported if row["kind"].startswith(("call.", "task."))]

    def test_sc901_blocks_at_once_are_what_rows_say(self):
        """SC-901: threads change nothing; a block ends between begin and end of a call."""
        one, two = self.made("--blocks", 1), self.made("--blocks", 2)
        self.verify(two)
        said = self.said(two)
        self.assertEqual(said, self.said(one))
        self.assertGreaterEqual(len(said), 8400)
        blocks = two.rows("SELECT first, cnt FROM blk WHERE log = 2 ORDER BY first")
        self.assertEqual(blocks, one.rows("SELECT first, cnt FROM blk WHERE log = 2 ORDER BY first"))
        self.assertGreater(sum(count for first, count in blocks), 8400)
        self.assertEqual({(first + count) % 256 for first, count in blocks if count > 1700}, {0})
        split = {first for first, count in blocks} & {row[0] for row in said if row[1] == "call.end"}
        self.assertTrue(split, "no block ends between the two")
        self.assertEqual(*([row[1:] for row in rows[:8390]] for rows in (said, self.said(self.made()))))


if __name__ == "__main__":
    crib.main()
