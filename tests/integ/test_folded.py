"""Third parties read stores whose records are in blocks: verify.py, with zlib and sqlite3 alone, says the same of one as of the
same store with rows alone, and as toolcrib-verify does; also of a part of it; what somebody changed it finds (SCALE SC-710)."""
import contextlib
import importlib.util
import re
import shutil
import sqlite3
import subprocess
import sys

import crib

FILL = ("--tenants", 3, "--principals", 4, "--tools", 4, "--failures", 0.2, "--days", 5, "--level", "request")
FOLDS = {"blocks": ("--block", 64, "--chapter", 64), "half": ("--block", 100, "--tail", 400, "--seed", 2, "--chapter", 3),
         "leftovers": ("--block", 60, "--leftovers", "--chapter", 4)}
PY = crib.sceptic()
spec = importlib.util.spec_from_file_location("sceptic", crib.SOURCE / "contrib/verify/verify.py")
sceptic = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
spec.loader.exec_module(sceptic)
TV = (crib.BUILD / "toolcrib-verify",)


def said(program, store, *options):
    """Exit status and lines of a verifier, which has no keys of payloads: opening them takes verify.py long."""
    done = subprocess.run([str(word) for word in (*program, *crib.evidence(store, keys=False), "--signer-state", store / "signer/state",
                                                  *options, store)], capture_output=True, text=True, timeout=crib.DEADLINE)
    return done.returncode, done.stdout.splitlines(), done.stderr


class Folded(crib.Case):
    """One store in each form, made once; who changes one has a copy of it."""

    @classmethod
    def setUpClass(cls):
        made = crib.Crib()
        cls.addClassCleanup(made.close)
        made.fill(3000, *FILL)
        cls.stores = {"rows": made.store}
        for form, options in FOLDS.items():
            cls.stores[form] = shutil.copytree(made.store, made.dir / form)
            subprocess.run([str(word) for word in (crib.BUILD / "tests/bench/b_fold", cls.stores[form], *options)], check=True,
                           stdout=subprocess.DEVNULL, timeout=crib.DEADLINE)

    def change(self, form, sql, *values):
        """A copy of that store in which somebody has changed something."""
        store = shutil.copytree(self.stores[form], self.crib.dir / "changed", dirs_exist_ok=True)
        with contextlib.closing(sqlite3.connect(store / "toolcrib.db", isolation_level=None)) as db:
            self.assertGreater(db.execute(sql, values).rowcount, 0)
        return store

    def test_sc710_verify_py_says_the_same_of_every_form(self):
        rows = said(PY, self.stores["rows"])
        self.assertEqual(rows[0], 5, rows)              # what is kept was not opened
        self.assertRegex(rows[1][-1], "^INCOMPLETE 3[0-9]{3} records of 4 logs: 0 bad, 1 gaps$")
        for form in FOLDS:
            self.assertEqual(said(PY, self.stores[form]), rows, form)
            self.assertEqual(said(TV, self.stores[form])[0], 5, form)

    def test_sc710_a_part_of_the_records_is_as_whole_as_all(self):
        for options in (("--from", 300), ("--to", 700), ("--from", 257, "--to", 800), ("--from", 256, "--to", 257)):
            rows = said(PY, self.stores["rows"], *options)
            self.assertEqual((rows[0], rows[2]), (5, ""), rows)
            self.assertIn("0 bad", rows[1][-1])
            for form in FOLDS:
                self.assertEqual(said(PY, self.stores[form], *options), rows, (form, options))
        for form, sql in (("rows", "UPDATE tile SET hashes = zeroblob(length(hashes))"),
                          ("blocks", "UPDATE tile SET hashes = zeroblob(length(hashes))"),
                          ("blocks", "UPDATE blk SET cols = zeroblob(64) WHERE first > 0"),
                          ("half", "DELETE FROM blk WHERE log = 2 AND first > 256 AND first < 400")):
            status, lines, _ = said(PY, self.change(form, sql), "--from", 300)
            self.assertEqual(status, 4, (form, sql, lines))
        done = subprocess.run([*map(str, PY), "--from", "5", "--to", "5", str(self.stores["rows"])], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("leave some records between them", done.stderr)

    def kept(self, store, log):
        """Salts, nonces and ciphertexts by index, in whatever form."""
        with contextlib.closing(sqlite3.connect(f"file:{store}/toolcrib.db?mode=ro", uri=True)) as db:
            forms = sceptic.Forms(sceptic.Verifier(db), log, "", 0, 0)
            found = {idx: [piece for piece in pieces if piece] for idx, *pieces in db.execute(
                "SELECT r.idx, p.salt, p.nonce, p.ct FROM rec r JOIN pay p ON p.rec = r.id WHERE r.log = ?", (log,))}
            for first, body in db.execute("SELECT first, body FROM blkpay WHERE log = ?", (log,)):
                for idx, pieces in enumerate(sceptic.read_payloads(body), first):
                    found.setdefault(idx, []).extend(piece for piece in pieces if piece)
            people = {}
            for row in forms.of_kinds(1001, 1002):
                people.setdefault(row["prn"], set()).add(row["idx"])
        return found, people

    def test_sc909_what_was_erased_is_in_no_file(self):
        """Of rows, of rows that a block has replaced, of blocks."""
        c = self.crib
        for form in ("rows", "blocks", "leftovers"):
            c.store = store = shutil.copytree(self.stores[form], self.crib.dir / form)
            before, people = self.kept(store, 2)
            c.cli("approval", "policy", "one")
            rows = c.json("audit", "calls", "--tenant", "fill00000", "--limit", "40")
            call = rows[30]
            indexes = [row["index"] for row in c.json("audit", "show", call["call"])]
            gone = [piece for idx in indexes for piece in before.get(idx, ())]
            with contextlib.closing(sqlite3.connect(f"file:{store}/toolcrib.db?mode=ro", uri=True)) as db:
                name, whose = next((name, prn) for name, prn in db.execute(
                    "SELECT p.name, d.id FROM principal p JOIN dict d ON d.text = p.pseudonym JOIN log l ON l.tenant_id = p.tenant_id "
                    "WHERE l.id = 2") if people.get(prn) and not people[prn] & set(indexes))
            gone += [piece for idx in people[whose] for piece in before.get(idx, ())]
            self.assertGreater(len(gone), 20)
            self.assertEqual(self.present(store, gone), len(gone), form)
            words = ("--ground", "asked for", "--ticket", "T-1", "--yes")
            c.cli("erase", "--call", call["call"], *words)
            c.cli("erase", "--principal", "fill00000/" + name, *words)
            self.assertEqual(self.present(store, gone), 0, form)
            after, _ = self.kept(store, 2)
            self.assertGreater(len(after), len(before) // 4)             # the others are there
            for program in (PY, TV):
                status, lines, _ = said(program, store)
                self.assertEqual(status, 5, (form, lines))               # what is kept was not opened

    @staticmethod
    def present(store, pieces):
        """How many stand in some file.  One of 15 bytes, wherever it begins, has a whole word of the file in it."""
        found = set()
        for path in store.rglob("*"):
            data = path.read_bytes() if path.is_file() else b""
            words = set(memoryview(data)[:len(data) // 8 * 8].cast("Q"))
            found.update(piece for piece in set(pieces) if (len(piece) < 15 or not words.isdisjoint(
                int.from_bytes(piece[at:at + 8], sys.byteorder) for at in range(8))) and piece in data)
        return sum(piece in found for piece in pieces)

    def test_what_somebody_changed_is_found_by_both_alike(self):
        """As the suite of tampering has it, in short; here both have to name the same record."""
        for code, form, sql in (
                ("INDEX", "blocks", "UPDATE blk SET ts_max = ts_max + 1 WHERE log = 2 AND first = 0"),
                ("FORM", "leftovers", "UPDATE pay SET salt = zeroblob(16) WHERE rec = (SELECT rec FROM pay JOIN rec ON id = rec "
                                      "WHERE log = 2 AND idx > 100 LIMIT 1)"),
                ("ERASED_BUT_PRESENT", "leftovers", "DELETE FROM blkpay WHERE log = 2 AND first = (SELECT min(first) FROM blkpay "
                                                    "WHERE log = 2 AND first > 200)"),
                ("PAYLOAD_MISSING", "blocks", "DELETE FROM blkpay WHERE log = 3 AND first = (SELECT min(first) FROM blkpay "
                                              "WHERE log = 3)"),
                ("INDEX", "half", "UPDATE chap SET ts_max = ts_max - 1 WHERE log = 3 AND first = (SELECT max(first) FROM chap WHERE log = 3)"),
                ("GAP", "blocks", "DELETE FROM blk WHERE log = 2 AND first = (SELECT min(first) FROM blk WHERE log = 2 AND first > 0)"),
                ("PARSE", "blocks", "UPDATE blk SET cols = zeroblob(9) WHERE log = 2 AND first = 0")):
            store = self.change(form, sql)
            found = {}
            for who, program in (("py", PY), ("tv", TV)):
                status, lines, stderr = said(program, store)
                self.assertEqual(status, 4, (who, sql, lines, stderr))
                found[who] = [line.split()[1:] for line in lines if code in line.split()[:2]]
                self.assertTrue(found[who], (who, code, lines))
            first = {who: re.search(r" ([0-9]+)(?:[-: ]|$)", " ".join(lines[0]))[1] for who, lines in found.items()}
            self.assertEqual(first["py"], first["tv"], (code, found))


if __name__ == "__main__":
    crib.main()
