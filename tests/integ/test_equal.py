"""Many stores, drawn at random, are asked all questions as rows, as blocks small and large, half and half, with sums and without, as sealed
files beside their blocks and alone, also when something was erased and pruned before they were folded, or erased after: the same answers to
the byte (SCALE SC-401, SC-904).
TOOLCRIB_SEEDS: how many; make check-equal SEEDS=N."""
import importlib.util
import os
import random
import shutil
import sqlite3
import sys

import crib
import test_forms
import test_sealed

SEEDS = int(os.environ.get("TOOLCRIB_SEEDS", "2"))
FIRST = int(os.environ.get("TOOLCRIB_SEED", "0"))
spec = importlib.util.spec_from_file_location("sceptic", crib.SOURCE / "contrib/verify/verify.py")
sceptic = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
spec.loader.exec_module(sceptic)


def to_rows(store):
    """Records in blocks become rows again, as somebody would do it who shares no code with the server."""
    db = sqlite3.connect(store / "toolcrib.db", isolation_level=None)
    triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    db.execute("BEGIN")
    for name, _ in triggers:
        db.execute(f"DROP TRIGGER {name}")
    records = []
    for log, origin in db.execute("SELECT id, origin FROM log").fetchall():
        forms = sceptic.Forms(sceptic.Verifier(db, folder=str(store)), log, origin, 0, 0)
        for block in forms.blocks(None):
            records += zip(forms.rows_of(block), forms.leaves(block), forms.kept_of(block))
        db.execute("DELETE FROM pay WHERE rec IN (SELECT id FROM rec WHERE log = ? AND idx < ?)", (log, forms.line))
        db.execute("DELETE FROM rec WHERE log = ? AND idx < ?", (log, forms.line))
    came = {}                           # rows of a log ascend with its positions, also where the clock was set back
    for row, *_ in records:
        came[row["log"], row["idx"]] = max(row["ts"], came.get((row["log"], row["idx"] - 1), 0))
    records.sort(key=lambda record: (came[record[0]["log"], record[0]["idx"]], record[0]["log"], record[0]["idx"]))
    for table, column in (("pay", "rec"), ("rec", "id")):       # rows that stay are newer than those of blocks
        db.execute(f"UPDATE {table} SET {column} = -{column}")
        db.execute(f"UPDATE {table} SET {column} = {len(records)} - {column}")
    names = ", ".join(f'"{name}"' for name in sceptic.ROW_NAMES)
    for number, (row, leaf, kept) in enumerate(records, 1):
        db.execute(f"INSERT INTO rec(id, enc, leaf, {names}) VALUES(?, 1, ?{', ?' * len(sceptic.ROW_NAMES)})", (number, leaf, *row.values()))
        if kept[0] is not None:
            db.execute("INSERT INTO pay(rec, salt, nonce, ct) VALUES(?, ?, ?, ?)", (number, *kept))
    for table in ("blk", "blkpay", "chap", "open_call", "seg"):
        db.execute(f"DELETE FROM {table}")
    db.execute("DELETE FROM meta WHERE key = 'tail_from'")
    db.execute("INSERT OR IGNORE INTO span SELECT DISTINCT id >> 12 FROM rec")
    for _, sql in triggers:
        db.execute(sql)
    db.execute("COMMIT")
    db.close()


class Equal(test_sealed.Files):
    least = 0

    def go(self, planted, prune=True):
        """Records of the first tenant go: one's and a principal's values, and whole tiles."""
        c, key = self.crib, planted["common"]["key"]
        c.cli("approval", "policy", "one")
        call = c.json("audit", "calls", "--tenant", "fill00000", "--key", key, "--limit", "3")[-1]["call"]
        c.cli("--yes", "erase", "--call", call, "--ground", "asked for", "--ticket", "T-1")
        c.cli("--yes", "erase", "--principal", "fill00000/" + planted["rare_principal"].get("principal", "seldom"), "--ground", "asked for",
              "--ticket", "T-2")
        if not prune:
            return
        c.cli("retention", "set", "fill00000", "--min-days", "0")
        done = c.run("--yes", "retention", "prune", "fill00000", "--bundle", c.dir / f"gone{random.random()}.tar", "--before", "0s")
        self.pruned += done.returncode == 0

    def one(self, seed):
        rnd = random.Random(f"equal {seed}")
        records, tenants, gone = rnd.choice((500, 900, 2000)), rnd.randint(1, 4), rnd.random() < 0.5
        fill = ("--tenants", tenants, "--principals", rnd.randint(2, 6), "--tools", rnd.randint(2, 6), "--failures", rnd.choice((0, 0.1, 0.5)),
                "--days", rnd.randint(1, 40), "--seed", seed + 1, "--level", rnd.choice(("metadata", "request", "request_response")))
        folds = [("--block", rnd.randint(20, 90), "--seed", seed, "--chapter", rnd.randint(2, 9)),
                 ("--block", 4096, "--tail", 1, "--chapter", 64),
                 ("--block", rnd.randint(50, 400), "--tail", records // tenants // 2, "--seed", seed, "--chapter", 2),
                 ("--block", rnd.randint(50, 400), "--tail", rnd.randint(1, 99), "--chapter", 3, "--partial", "--leftovers")]
        self.rows = self.crib.dir / "rows"
        scratch = self.crib.dir / "scratch"
        os.mkdir(scratch, 0o700)
        planted, asked = self.questions(records, fill, self.go if gone else lambda planted: None)
        self.assertGreater(len(asked), 40)
        for store in self.compare(asked, scratch, folds):
            done = test_forms.run(crib.BUILD / "toolcrib-verify", *crib.evidence(store), store)
            self.assertEqual(done.returncode, 0, (store, done.stdout))
        files = self.same_in_files(asked, ("--block", rnd.randint(20, 400), "--seed", seed + 9, "--chapter", rnd.randint(2, 9)), scratch, 0)
        self.files += len(list(files.glob("segments/*/*")))
        if not gone:
            self.go_then(rnd, planted, asked, scratch)

    def go_then(self, rnd, planted, asked, scratch):
        """The same of a store that was folded before; but for a cut, since these blocks do not end where a tile does."""
        folded = self.folded(("--block", rnd.randint(30, 300), "--tail", 1, "--chapter", 4, "--seed", 7))
        self.crib.env.pop("TOOLCRIB_REPORT")
        self.crib.store = folded
        self.go(planted, prune=False)
        rows = shutil.copytree(folded, self.crib.dir / "again")
        to_rows(rows)
        self.same(asked, rows, folded, self.answers(asked, rows, scratch), scratch, "erased")
        for store in (folded, rows):
            done = test_forms.run(crib.BUILD / "toolcrib-verify", *crib.evidence(store), store)
            self.assertEqual(done.returncode, 0, (store, done.stdout))

    def test_sc904_many_stores_say_the_same_in_every_form(self):
        self.pruned = self.files = 0
        for seed in range(FIRST, FIRST + SEEDS):
            with self.subTest(seed=seed):
                self.crib.close()
                self.crib = crib.Crib()
                self.one(seed)
        self.assertTrue(SEEDS < 8 or self.pruned > SEEDS // 8, self.pruned)
        self.assertTrue(SEEDS < 8 or self.files > SEEDS, self.files)


if __name__ == "__main__":
    crib.main()
