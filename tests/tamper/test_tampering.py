"""Every kind of tampering with the files of a store that a daemon has written is found, by whom and with which evidence its
row says: by toolcrib-verify, by contrib/verify/verify.py, and by `toolcrib audit verify`.  TOOLCRIB_SEEDS says how often each
kind is tried, TOOLCRIB_AV_SEEDS how often of these by a server, which is slow to start, TOOLCRIB_FULL_SEEDS how often with each
evidence: later tries have one of the four in turn, of each kind another first; TOOLCRIB_KINDS which kinds alone ("A-T60 A-T61"); TOOLCRIB_TABLE is a file
for the table.  The rows are KINDS here (A-T01 to A-T41) and in each file beside
this one that has such a list; kinds.py says what stands in them."""
import collections
import concurrent.futures
import importlib
import multiprocessing
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "integ"), str(pathlib.Path(__file__).resolve().parent)]
import crib
import made as store_and_verifiers
import tamperings as t
from kinds import EVIDENCE, FOUND, MISSED, NEVER, NOW, REFUSED, SEEN, UNCHECKED, VERIFIERS, Kind, accepted
from made import Made, audit_verify, copy_store, remember_what_is_dear, sceptics, toolcrib_verify
from tamperings import sceptic

SEEDS = int(os.environ.get("TOOLCRIB_SEEDS", "20"))
AV_SEEDS = int(os.environ.get("TOOLCRIB_AV_SEEDS", "1"))
FULL_SEEDS = int(os.environ.get("TOOLCRIB_FULL_SEEDS", "20"))
ONLY = os.environ.get("TOOLCRIB_KINDS", "").split()
TABLE = os.environ.get("TOOLCRIB_TABLE")
LEAVES = {"LEAF", "ROOT"}
ASKED = {"tv": lambda many: [toolcrib_verify(one) for one in many], "py": lambda many: sceptics(many)}
if crib.sanitized("toolcrib-verify"):   # Python is the same in any build
    del ASKED["py"]
KINDS = [
    Kind("A-T01", t.flip, what="one bit of any column", one_of=("LEAF", "ROOT")),
    Kind("A-T02", t.principal, what="principal changed, resealed", each=("ROOT",), never=("LEAF",)),
    Kind("A-T03", t.outcome, what="outcome changed, resealed", each=("ROOT",), never=("LEAF",)),
    Kind("A-T04", t.column, what="one column changed, leaf left", each=("LEAF", "ROOT")),
    Kind("A-T05", t.time, what="time changed, resealed", each=("ROOT",), never=("LEAF",)),
    Kind("A-T06", t.delete, what="record deleted", one_of=("GAP", "TRUNCATED", "UNCOVERED_TAIL")),
    Kind("A-T07", t.delete_renumber, what="deleted, rest renumbered, resealed", each=("TRUNCATED",), never=("LEAF",)),
    Kind("A-T08", t.insert, what="record inserted, resealed", each=("UNCOVERED_TAIL",), never=("LEAF",)),
    Kind("A-T09", t.swap, what="two records swapped, resealed", each=("ROOT",), never=("LEAF",)),
    Kind("A-T10", t.cross, what="records exchanged between tenants, resealed", each=("ROOT",), never=("LEAF",)),
    Kind("A-T11", t.swap_logs, what="whole logs exchanged, resealed", each=("CP_SIG",), one_of=("ROOT", "CROSS_REF"), never=("LEAF",)),
    Kind("A-T12", t.truncate, what="tail cut", each=("TRUNCATED",)),
    Kind("A-T13", t.truncate_cps, what="tail of one tenant cut with its checkpoints", each=("CROSS_REF",)),
    Kind("A-T14", t.drop_log, what="a log dropped", each=("LOG_MISSING",), one_of={"tv": ("CROSS_REF", "SIGNER_AHEAD")}),
    Kind("A-T15", t.payload, what="payload edited", each=("PAYLOAD",), never=LEAVES),
    Kind("A-T16", t.payload_swap, what="payloads of two records exchanged", each=("PAYLOAD",), never=LEAVES),
    Kind("A-T17", t.payload_delete, what="payload deleted", each=("PAYLOAD_MISSING",), never=LEAVES),
    Kind("A-T18", t.payload_resalt, what="salt of a value that is only committed to changed", each=("PAYLOAD",), never=LEAVES),
    Kind("A-T19", t.unerase, what="erased payload put back", each=("ERASED_BUT_PRESENT",), never=LEAVES),
    Kind("A-T20", t.forge_tombstone, what="tombstone forged to hide a payload", each=("UNCOVERED_TAIL",), never=LEAVES),
    Kind("A-T21", t.old_checkpoint, what="old checkpoint replayed as newest", each=("CP_ORDER",), never=("LEAF",)),
    Kind("A-T22", t.forge_root, what="root in a checkpoint forged", each=("CP_SIG",), never=("LEAF",)),
    Kind("A-T23", t.system_log, what="system log edited, resealed", each=("ROOT",), never=("LEAF",)),
    Kind("A-T24", t.append, what="records appended unsigned", each=("UNCOVERED_TAIL",), never=LEAVES),
    Kind("A-T25", t.rollback, what="whole store rolled back, same epoch", found=(MISSED, FOUND, MISSED, FOUND), never=("LEAF",)),
    Kind("A-T26", t.rollback_epoch, what="rolled back past an epoch border", each=("PAYLOAD_MISSING", "SIGNER_AHEAD"), never=("LEAF",)),
    Kind("A-T27", t.drop_checkpoint, what="a middle checkpoint deleted: harmless", found=NEVER),
    Kind("A-T28", t.key_theft_past, what="current key stolen, a past epoch rewritten", each=("ROOT",), never=("LEAF",)),
    Kind("A-T29", t.key_theft_current, what="current key stolen, current epoch and signer's state rewritten", found=NOW),
    Kind("A-T30", t.dictionary, what="dictionary text edited (half of the tries, resealed)", each=("ROOT",)),
    Kind("A-T31", t.dictionary_twin, what="second dictionary entry of the same text, row pointed to it", each=("DICT",), never=LEAVES),
    Kind("A-T32", t.storage_class, what="dictionary text stored as BLOB", each=("TYPE",), never=LEAVES),
    Kind("A-T33", t.encoding, what="encoding number changed, resealed", each=("ENCODING",)),
    # All columns of this release are covered: one more is not its schema.
    Kind("A-T34", t.uncovered, what="a column outside the encoding filled", one_of=("UNSIGNED", "SCHEMA"), never=LEAVES),
    Kind("A-T35", t.rowids, what="row ids of two records exchanged", one_of=("PAYLOAD", "PAYLOAD_MISSING", "ALIAS"), never=LEAVES),
    Kind("A-T36", t.leaf_only, what="stored leaf alone changed: harmless", each=("LEAF",), never=("ROOT",)),
    Kind("A-T37", t.registry, what="registry or credential row changed behind the log", each=("REGISTRY",), never=LEAVES),
    Kind("A-T38", t.alias, what="clear name of a pseudonym changed", each=("ALIAS",), never=LEAVES),
    Kind("A-T39", t.view, what="table replaced by a view that filters", one_of=("SCHEMA", "INDEX")),
    Kind("A-T40", t.index, what="index rebuilt without a row, its text put back", each=("INDEX",), never=LEAVES),
    Kind("A-T41", t.strip, what="ciphertext dropped, salt left: as if the level had been lower", each=("PAYLOAD_MISSING",), never=LEAVES),
]
OWN = ("made", "kinds", "tamperings", "forgery", "test_tampering", "test_tour")
for path in sorted(pathlib.Path(__file__).resolve().parent.glob("*.py")):
    if path.stem not in OWN:
        KINDS += getattr(importlib.import_module(path.stem), "KINDS", [])
KINDS.sort(key=lambda kind: (len(kind.id), kind.id))
if ONLY:
    KINDS = [kind for kind in KINDS if kind.id in ONLY]


def attempt(number, seed, served=False, form="rows"):
    """One kind once, or none, of a store of that form: None where it could not be done, else for each verifier what it says to each evidence: exit status,
    codes, CPU seconds, MiB; None to evidence that this try is without."""
    kind = KINDS[number] if number is not None else None
    with tempfile.TemporaryDirectory(dir=made.crib.dir) as folder:
        path, form = pathlib.Path(folder) / "toolcrib.db", kind.form if kind else form
        its = made.of(form)
        copy_store(made.forms[form], path)
        store = t.Store(path, its)
        done = kind and kind.tamper(store, random.Random(f"{kind.id} {seed}"))
        store.close()
        if done is False:
            return None
        options = [[*each, path] for each in its.evidence(store, not kind or kind.keys)]
        asked = range(len(options)) if not kind or seed < FULL_SEEDS else [((number or 0) + seed) % len(options)]
        found = {who: ask([options[i] for i in asked]) for who, ask in ASKED.items()}
        said = {who: [dict(zip(asked, each)).get(i) for i in range(len(options))] for who, each in found.items()}
        if served:
            said["av"] = [audit_verify(its, store, pathlib.Path(folder) / "whole")]
        return said


def words(who, cell, statuses):
    """What the table says of a cell; statuses: how many tries ended how."""
    if who == "av" and cell is FOUND and set(statuses) <= {1, 3, 4}:
        return " or ".join(["found"] * (4 in statuses) + ["refused"] * bool({1, 3} & set(statuses)))
    plain = {FOUND: "found", MISSED: "no", UNCHECKED: "not checked", REFUSED: "refused", SEEN: "found"}[cell]
    odd = {status: n for status, n in statuses.items() if status not in accepted(who)[cell]}
    return plain if not odd else f"{plain}, but " + ", ".join(f"exit {status}: {n}" for status, n in sorted(odd.items()))


class Tampering(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        global made
        made = Made()
        cls.addClassCleanup(made.close)
        made.fold()

    def test_what_nobody_has_changed_is_intact(self):
        for form in made.forms:
            for who, found in attempt(None, 0, True, form).items():
                self.assertEqual([one[:2] for one in found], [(0, set())] * len(found), (who, form))
        with tempfile.TemporaryDirectory(dir=made.crib.dir) as folder:
            path = pathlib.Path(folder) / "toolcrib.db"
            shutil.copy(made.pristine, path)
            store = t.Store(path, made)
            before = store.all("SELECT log, idx, leaf FROM rec"), store.all("SELECT * FROM head")
            store.reseal()
            self.assertEqual((store.all("SELECT log, idx, leaf FROM rec"), store.all("SELECT * FROM head")), before)
            store.close()
            self.assertEqual(made.verify(path), (0, set()))
            done = subprocess.run([sys.executable, sceptic.__file__, "--key", made.pins, "--signer-state",
                                   made.crib.store / "signer" / "state", "--anchor", made.crib.dir / "new", "--keys",
                                   made.crib.store, path], capture_output=True, text=True, timeout=crib.DEADLINE)
            self.assertEqual((done.returncode, done.stdout.split()[0]), (0, "INTACT"), done.stdout + done.stderr)

    def test_t53_a_mark_that_was_edited_is_refused(self):
        """T53: whatever byte of a mark is another one, whatever is missing or more."""
        mark, rnd = made.crib.dir / "auditor.mark", random.Random("T53")
        command = [crib.BUILD / "toolcrib-verify", "--key", made.pins, "--keys", made.crib.store, "--mark", mark, made.pristine]
        done = subprocess.run(command, capture_output=True, text=True, timeout=crib.DEADLINE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        good = mark.read_bytes()
        for seed in range(SEEDS):
            at, n = rnd.randrange(len(good)), rnd.randrange(1, 9)
            edited = [good[:at] + t.flipped(good[at:at + n], rnd) + good[at + n:], good[:at], good[:at] + good[at + n:],
                      good + rnd.randbytes(n), good[:at] + rnd.randbytes(n) + good[at:]][seed % 5]
            mark.write_bytes(edited)
            done = subprocess.run(command, capture_output=True, text=True, timeout=crib.DEADLINE)
            self.assertEqual((done.returncode, done.stdout), (3, ""), (seed, at, n))
            self.assertRegex(done.stderr, "the mark was changed|this is no mark")
        mark.write_bytes(good)
        done = subprocess.run(command, capture_output=True, text=True, timeout=crib.DEADLINE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("verified 0 new records", done.stdout)

    def test_each_kind_is_found_as_the_table_says(self):
        remember_what_is_dear([[*options, made.forms[form]] for form in ("rows", "sealed") for options in made.of(form).evidence()])
        rows = []
        with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("fork")) as pool:
            tries = [[pool.submit(attempt, number, seed, seed < AV_SEEDS) for seed in range(SEEDS)] for number in range(len(KINDS))]
            for number, kind in enumerate(KINDS):
                with self.subTest(kind=kind.id, how=kind.tamper.__name__):
                    self.judge(kind, tries[number], rows)
                tries[number] = None
        print("\n" + "\n".join(self.lines(rows)))
        if TABLE:
            pathlib.Path(TABLE).write_text(document(rows))

    def judge(self, kind, work, rows):
        tried, wrong, dear = 0, [], []
        seen = {who: [collections.Counter() for _ in kind.cells(who)] for who in VERIFIERS}
        names = {who: collections.Counter() for who in VERIFIERS}
        for result in work:
            said = result.result()
            tried += said is not None
            for who, cells in (said or {}).items():
                wrong += kind.wrong(who, [one and one[:2] for one in cells])
                dear += [f"{who}: {one[2]:.1f} s of CPU, {one[3]} MiB" for one in cells
                         if one and (one[2] > store_and_verifiers.SECONDS or one[3] > store_and_verifiers.MEBIBYTES)]
                for counter, one in zip(seen[who], cells):
                    counter.update([one[0]] if one else [])
                names[who].update((cells[min(1, len(cells) - 1)] or (0, ()))[1])
        rows.append((kind, tried, seen, names))
        self.assertGreater(tried, SEEDS // 2, "tried too rarely")
        self.assertEqual((wrong[:3], len(wrong)), ([], 0))
        self.assertEqual(dear[:3], [])

    @staticmethod
    def lines(rows):
        yield f"{'kind':25}{'tried':>6} {'':3}" + "".join(f"{name:>8}" for name in EVIDENCE) + "   found by (tries)"
        for kind, tried, seen, names in rows:
            for who in VERIFIERS:
                name = f"{kind.id} {kind.tamper.__name__}"[:24] if who == "tv" else ""
                shown = " ".join(f"{code}:{n}" for code, n in names[who].most_common())
                counts = [sum(n for status, n in one.items() if status not in (0, 5)) for one in seen[who]]
                columns = [*counts, *[""] * 4][:4] if who != "av" else ["", *counts, "", ""]
                yield f"{name:25}{tried if who == 'tv' else '':6} {who:3}" + "".join(f"{n:8}" for n in columns) + "   " + shown


def document(rows):
    """The table for whoever wants to know what is found."""
    out = [HEAD.format(seeds=SEEDS, av=min(AV_SEEDS, SEEDS), full=min(FULL_SEEDS, SEEDS)), "| kind | what is done | tries | verifier | " + " | ".join(EVIDENCE) +
           " | as |", "|---|---|---|---|---|---|---|---|---|"]
    for kind, tried, seen, names in rows:
        for who in VERIFIERS:
            cells = [words(who, cell, counter) for cell, counter in zip(kind.cells(who), seen[who])]
            cells = ["", *cells, "", ""] if who == "av" else cells
            shown = ", ".join(sorted(names[who]))
            what = (kind.id, kind.title().replace("|", "\\|"), str(tried)) if who == "tv" else ("", "", "")
            out.append("| " + " | ".join((*what, who, *cells, shown)) + " |")
    return "\n".join(out) + "\n"


HEAD = """# What is found when a store is tampered with

Made by `make tampering-table SEEDS={seeds}`. Each kind of tampering was done to copies of one store, each copy with another
seed, as often as the third column says; on the first {av} of each a server was asked as well. On the first {full} of each the two
other verifiers were asked with each evidence, on the rest with one of the four, in turn. `tv` is toolcrib-verify, `py`
contrib/verify/verify.py, `av` is `toolcrib audit verify`. All have the pinned keys and those of the payloads. E0: nothing more; E1: what the signer remembers as well (which a server
always has); E2: a checkpoint that was taken away, one epoch old or the newest.

`found` is exit status 4; `refused` is 3, or a server that does not start; `not checked` is 5, and says so; `no` is 0 or 5. A cell that says no
where others say found is what that evidence cannot show: a store put back to what it was is a good store of that time.
The last column has the findings with E1.
"""


if __name__ == "__main__":
    crib.main()
