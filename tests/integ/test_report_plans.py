"""What reports cost: how the engine reads for each statement of sql/queries/report.sql (AUDIT A-634)."""
import re
import sqlite3

import crib

REPORTS = crib.SOURCE / "sql/queries/report.sql"
# Names that the statements and views give to rec.
RECORDS = ("rec", "r", "e", "b", "x", "y", "q", "a", "f", "raw")


def statements():
    for name, text in re.findall(r"(?ms)^-- name: (\w+)\n(.*?);\n", REPORTS.read_text()):
        yield name, "\n".join(line for line in text.splitlines() if not line.startswith("--"))


class Plans(crib.Case):
    def setUp(self):
        super().setUp()
        self.crib.init()
        self.crib.cli("tenant", "add", "acme")
        self.db = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        self.addCleanup(self.db.close)

    def plan(self, sql):
        count = max([int(n) for n in re.findall(r"\?(\d+)", sql)] or [0])
        return [row[3] for row in self.db.execute("EXPLAIN QUERY PLAN " + sql, [None] * count)]

    def test_no_report_scans_the_records(self):
        """AUDIT A-634: each way into rec is an index that begins with the log."""
        seen = 0
        for name, sql in statements():
            for step in self.plan(sql):
                scanned = re.match(r"SCAN (\w+)(?: |$)", step)
                if scanned and scanned[1] in RECORDS:
                    self.assertNotRegex(self.table_of(sql, scanned[1]), r"^(rec|v_\w+)$", f"{name}: {step}")
                if "rec_" in step:
                    seen += 1
                    self.assertRegex(step, r"\((log=\?|x=)", f"{name}: {step}")
        self.assertGreater(seen, 60)

    @staticmethod
    def table_of(sql, alias):
        """What an alias stands for in a statement; a name of a common table expression is none of rec."""
        if re.search(rf"\b{alias}\([a-z_, ]*\) AS \(", sql):
            return ""
        found = re.search(rf"\b(?:FROM|JOIN) (\w+) {alias}\b", sql)
        return found[1] if found else "" if alias == "f" else alias

    def test_each_filter_has_its_index(self):
        """AUDIT A-627."""
        plans = {name: " ".join(self.plan(sql)) for name, sql in statements()}
        for name, index in (("report_calls", "rec_ts"), ("report_calls_prn", "rec_prn"), ("report_calls_cred", "rec_cred"),
                            ("report_calls_tool", "rec_tool"), ("report_calls_out", "rec_out"), ("report_denied", "rec_kind"),
                            ("report_auth_failures", "rec_kind"), ("report_admin", "rec_kind"), ("report_subject", "rec_prn"),
                            ("report_credential", "rec_cred"), ("report_after_revocation", "rec_cred"), ("report_durations", "rec_ts"),
                            ("report_sample", "rec_ts"), ("report_anomalies", "rec_prn"), ("report_continuity", "rec_kind")):
            self.assertIn(f" {index} ", plans[name], name)

    def test_there_are_no_more_indexes_than_reports_need(self):
        """AUDIT A-627: seven beside the position; A-628: none is unique but that."""
        rows = self.db.execute("SELECT name, \"unique\" FROM pragma_index_list('rec')").fetchall()
        self.assertEqual({name for name, unique in rows if unique}, {"rec_pos"})
        self.assertLessEqual(len(rows), 8)


if __name__ == "__main__":
    crib.main()
