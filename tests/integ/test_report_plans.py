"""In which order reports read, by the plans of sql/queries/report.sql; what they cost is counted by test_report_work.py (AUDIT A-634)."""
import re
import sqlite3

import crib

REPORTS = crib.SOURCE / "sql/queries/report.sql"


def statements(path=REPORTS):
    for name, text in re.findall(r"(?ms)^-- name: (\w+)\n(.*?);\n", crib.of_sqlite(path.read_text())):
        yield name, "\n".join(line for line in text.splitlines() if not line.startswith("--"))


class Plans(crib.Case):
    def setUp(self):
        super().setUp()
        self.crib.init()
        self.crib.cli("tenant", "add", "acme")
        self.db = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        self.addCleanup(self.db.close)
        self.rows = sqlite3.connect(":memory:")         # a store whose rows still have their indexes
        self.addCleanup(self.rows.close)
        for step in sorted((crib.SOURCE / "sql/migrate").glob("*.sql")):
            self.rows.executescript(step.read_text())
        for db in (self.db, self.rows):
            db.create_function("row_out", -1, lambda *values: 0)

    @staticmethod
    def plan(db, sql):
        count = max([int(n) for n in re.findall(r"\?(\d+)", sql)] or [0])
        return [row[3] for row in db.execute("EXPLAIN QUERY PLAN " + sql, [None] * count)]

    def test_n08_what_strangers_and_agents_fill_is_read_in_its_order(self):
        """N-08, SC-004: a page of calls, refusals or failed logins is a walk by position, and no sort of all that there are."""
        # what is asked of a store with blocks has no indexes: its order is the table's (test_report_work.py)
        walked = {name: sql for name, sql in statements() if "?10" in sql and "AS _idx" in sql and not name.endswith("_forms")}
        self.assertEqual(sorted(walked), sorted("report_" + name for name in (
            "calls", "denied", "auth_failures", "credential_timeline", "subject_export", "oversight", "approvals", "tasks", "tasks_open")))
        for name, sql in walked.items():
            plan = self.plan(self.rows, sql)
            self.assertTrue(any("USING INDEX rec_pos (log=? AND idx>? AND idx<?)" in step for step in plan), (name, plan))
            self.assertEqual([step for step in plan if "TEMP B-TREE" in step or re.match(r"SEARCH \w+ USING (COVERING )?INDEX rec_ts", step)],
                             [], name)

    def test_sc004_what_is_paged_comes_by_position(self):
        """And has a row for each record: a page ends behind one."""
        paged = {name: sql for name, sql in statements() if re.search(r"\bAS _idx\b", sql)}
        self.assertGreater(len(paged), 18)
        for name, sql in paged.items():
            self.assertRegex(sql, r"ORDER BY \+?(_|\w\.)?idx DESC( LIMIT \?8)?$", name)
            self.assertIn("idx DESC LIMIT ?8", sql, name)
            self.assertRegex(sql, r"idx < \?9", name)

    def test_sc601_rows_by_position_are_walked_span_after_span(self):
        """SC-601: each statement that asks the table itself for rows by position goes through rec_order, in its order, of each span."""
        asked = 0
        for path in sorted((crib.SOURCE / "sql/queries").glob("*.sql")):
            for name, sql in statements(path):
                if not re.search(r"\bmain\.rec_(at|tail)\b", sql) or re.search(r"(FROM|JOIN) rec\b", sql) or name == "verify_misplaced":
                    continue            # the table of all forms has an order of its own; and one is to read all rows
                asked += 1
                plan = self.plan(self.db, sql)
                walks = [step for step in plan if "rec_order" in step]
                self.assertTrue(walks and all(re.search(r"rec_order \(<expr>=\? AND log=\?", step) for step in walks), (name, plan))
                self.assertFalse(any(re.match(r"SCAN (main\.)?rec\b|SCAN r\b", step) for step in plan), (name, plan))
                if "ORDER BY span" in sql or "ORDER BY r.span" in sql:
                    self.assertFalse(any("TEMP B-TREE" in step for step in plan), (name, plan))
        self.assertGreater(asked, 25)

    def test_there_are_no_more_indexes_than_reports_need(self):
        """AUDIT A-627: seven beside the position; A-628: none is unique but that.  A store of blocks has the order alone."""
        def indexes(db):
            return db.execute("SELECT name, \"unique\" FROM pragma_index_list('rec')").fetchall()

        self.assertEqual(indexes(self.db), [("rec_order", 1)])
        rows = indexes(self.rows)
        self.assertEqual({name for name, unique in rows if unique}, {"rec_pos", "rec_order"})
        self.assertLessEqual(len(rows), 9)


if __name__ == "__main__":
    crib.main()
