"""audit unfold: records as plain rows with the release's views, in a file that any SQLite opens and nothing of toolcrib reads.
What its views say is what the store's say of these records, and what the commands say."""
import contextlib
import json
import os
import shutil
import sqlite3
import stat
import subprocess

import crib

FILL = ("--tenants", 2, "--principals", 4, "--tools", 4, "--failures", 0.2, "--days", crib.days_back(70), "--level", "request")


def plain(path, sql):
    """What the system's own sqlite3 says, as JSON."""
    done = subprocess.run(["sqlite3", "-readonly", "-json", str(path), sql], capture_output=True, text=True, timeout=crib.DEADLINE)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout or "[]")


class Unfold(crib.Case):
    def setUp(self):
        super().setUp()
        self.planted = self.crib.fill(2500, *FILL)
        self.file = self.crib.dir / "acme.db"
        with contextlib.closing(sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)) as db:
            self.views = [name for name, in db.execute("SELECT name FROM sqlite_schema WHERE type = 'view' AND name GLOB 'v_*' ORDER BY name")]
            self.log, self.origin = db.execute("SELECT id, origin FROM log WHERE origin LIKE '%/t/fill00000'").fetchone()
            self.months = [month for month, in db.execute(
                "SELECT DISTINCT strftime('%Y-%m', ts / 1000000, 'unixepoch') FROM rec WHERE log = ? ORDER BY 1", (self.log,))]

    def unfold(self, *options):
        return self.crib.cli("audit", "unfold", "--tenant", "fill00000", "--to", self.file, *options)

    def compare(self, where="1"):
        """Every view, by the system's sqlite3 on both files."""
        self.assertGreater(len(self.views), 10)
        for view in self.views:
            sql = f"SELECT * FROM {view} WHERE log_id = {self.log} AND {where} ORDER BY idx"
            self.assertEqual(plain(self.file, sql), plain(self.crib.store / "toolcrib.db", sql), view)

    def test_views_of_the_whole_log_say_what_those_of_the_store_say(self):
        self.assertRegex(self.unfold("--whole"), "^[0-9]+ records of fill00000 are in /.*/acme.db$")
        self.compare()
        self.assertEqual(plain(self.file, "PRAGMA integrity_check"), [{"integrity_check": "ok"}])
        self.assertEqual(stat.S_IMODE(os.stat(self.file).st_mode), 0o600)
        self.assertEqual([path.name for path in self.crib.dir.iterdir() if path.name.startswith("acme")], ["acme.db"])
        for name in ("toolcrib-verify",):       # it is no store, and does not look like one
            done = subprocess.run([crib.BUILD / name, self.file], capture_output=True, text=True, timeout=crib.DEADLINE)
            self.assertEqual(done.returncode, 3, done.stdout)
        with contextlib.closing(sqlite3.connect(self.file)) as db:       # and Python's, which may write to it
            db.execute("CREATE TABLE mine AS SELECT tool, count(*) AS n FROM v_calls GROUP BY tool")
            self.assertGreater(db.execute("SELECT count(*) FROM mine").fetchone()[0], 1)

    def test_a_month_has_its_records_and_the_begins_of_its_calls(self):
        self.assertGreater(len(self.months), 1)
        month = self.months[1]
        self.unfold("--month", month)
        within = f"time >= '{month}-01T' AND time < '{month}-32'"
        self.compare(within)
        self.assertEqual(plain(self.file, f"SELECT idx FROM v_calls WHERE NOT ({within})"), [])
        begins = plain(self.file, f"SELECT kind, idx FROM v_records WHERE NOT ({within})")
        self.assertEqual({row["kind"] for row in begins} - {"call.begin"}, set())
        # What the command says of the same time, newest first.
        until = f"{month[:5]}{int(month[5:]) + 1:02}-01" if month[5:] != "12" else f"{int(month[:4]) + 1}-01-01"
        said = self.crib.cli("audit", "calls", "--tenant", "fill00000", "--since", f"{month}-01", "--until", until, "--limit", "0",
                             "--format", "jsonl")
        rows = [json.loads(line) for line in said.splitlines()]
        rows = [(row["call"], row["tool"], row["outcome"], row["principal"]) for row in rows if "call" in row]
        kept = plain(self.file, "SELECT call, tool, outcome, principal FROM v_calls ORDER BY idx DESC")
        self.assertEqual(rows, [tuple(row.values()) for row in kept])
        self.assertGreater(len(rows), 100)

    def fold(self, *options):
        done = subprocess.run([crib.BUILD / "tests/bench/b_fold", self.crib.store, *map(str, options)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_blocks_and_sealed_files_become_the_rows_that_they_were(self):
        """SC-109: rows and blocks, and rows, blocks and sealed files; every view, as the store said it before the first was folded."""
        was = shutil.copytree(self.crib.store, self.crib.dir / "was") / "toolcrib.db"
        last = plain(was, f"SELECT max(idx) AS idx FROM rec WHERE log = {self.log}")[0]["idx"]
        rows = f"SELECT count(*) AS n FROM rec WHERE log = {self.log}"
        for sealed in (False, True):
            with self.subTest(sealed=sealed):
                self.file.unlink(missing_ok=True)
                if not sealed:
                    self.fold("--block", 100, "--tail", 99, "--chapter", 3)
                else:
                    self.assertGreater(self.fold("--seal", self.months[0].replace("-", ""))["files"], 0)
                    adopt = self.crib.run("audit", "keys").stderr.rpartition("toolcrib audit adopt ")[2].split()
                    self.crib.cli("audit", "adopt", *adopt)         # what sealed them was no server
                self.assertLess(plain(self.crib.store / "toolcrib.db", rows)[0]["n"], 200)
                self.unfold("--whole")
                self.assertGreater(plain(self.file, rows)[0]["n"], last)
                for view in self.views:
                    sql = f"SELECT * FROM {view} WHERE log_id = {self.log} AND idx <= {last} ORDER BY idx"
                    self.assertEqual(plain(self.file, sql), plain(was, sql), view)

    def test_a_sealed_file_that_is_not_here_is_no_whole_log(self):
        self.fold("--block", 100, "--tail", 99)
        self.assertGreater(self.fold("--seal", "all")["files"], 1)
        adopt = self.crib.run("audit", "keys").stderr.rpartition("toolcrib audit adopt ")[2].split()
        self.crib.cli("audit", "adopt", *adopt)
        first = min((self.crib.store / f"segments/{self.log}").iterdir())
        first.rename(self.crib.dir / "away.tcs")
        with self.assertRaisesRegex(crib.Failed, first.name):
            self.unfold("--whole")
        self.assertFalse(self.file.exists())

    def test_what_is_of_others_is_not_there(self):
        self.unfold("--whole")
        data = self.file.read_bytes()
        self.assertIn(b"fill00000", data)
        with contextlib.closing(sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)) as db:
            others = [text for text, in db.execute(
                "SELECT DISTINCT d.text FROM rec r JOIN dict d ON d.id IN (r.prn, r.cred) WHERE r.log <> ? AND d.id NOT IN "
                "(SELECT prn FROM rec WHERE log = ? AND prn IS NOT NULL UNION SELECT cred FROM rec WHERE log = ? AND cred IS NOT NULL)",
                (self.log,) * 3)]
        self.assertGreater(len(others), 3)
        for text in ("fill00001", *others):
            self.assertNotIn(text.encode(), data)

    def test_it_is_on_record_and_takes_nobodys_place(self):
        self.unfold("--since", "2000-01-01")
        before = self.file.read_bytes()
        with self.assertRaisesRegex(crib.Failed, "acme.db: File exists"):
            self.unfold("--whole")
        self.assertEqual(self.file.read_bytes(), before)
        exports = [row for row in self.crib.json("audit", "access", "--tenant", "fill00000") if row.get("kind") == "audit.export"]
        self.assertEqual(len(exports), 1, exports)
        self.file.unlink()
        for options, message in (((), "say which records: --month, --since and --until, or --whole"),
                                 (("--whole", "--month", "2026-01"), "say one of these"),
                                 (("--month", "2026-13"), "a month is YYYY-MM"), (("--month", "2026-1"), "a month is YYYY-MM"),
                                 (("--month", "26-01"), "a month is YYYY-MM"), (("--month", "2026-011"), "a month is YYYY-MM"),
                                 (("--month", "1971-01"), "fill00000 has no records of that time")):
            with self.assertRaisesRegex(crib.Failed, message):
                self.unfold(*options)
            self.assertEqual([path.name for path in self.crib.dir.iterdir() if path.name.startswith("acme")], [], options)


if __name__ == "__main__":
    crib.main()
