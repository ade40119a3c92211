"""Every kind of tampering that AUDIT 9 lists, done to files of a store that a daemon has written, and found as that table
says: by toolcrib-verify, and by contrib/verify/verify.py.  TOOLCRIB_SEEDS says how often each kind is tried."""
import collections
import concurrent.futures
import contextlib
import functools
import multiprocessing
import os
import pathlib
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "integ"), str(pathlib.Path(__file__).resolve().parent)]
import crib
import tamperings as t
from tamperings import sceptic

SEEDS = int(os.environ.get("TOOLCRIB_SEEDS", "20"))
VERIFIERS = 2
# Evidence (AUDIT 0): the store and pinned keys; the signer's state as well; or a checkpoint that was taken away, one epoch
# old or the newest.
EVIDENCE = ("E0", "E1", "E2 old", "E2 new")
ALWAYS, NEVER, NOW = (True,) * 4, (False,) * 4, (False, False, False, True)
LEAVES = {"LEAF", "ROOT"}

# What finds a kind: with which evidence; codes that every try shows, codes of which it shows at least one, and codes that
# it must not show, because no leaf moves or all were made anew.
Kind = collections.namedtuple("Kind", "id tamper found each one_of never", defaults=(ALWAYS, (), (), ()))
KINDS = [
    Kind("A-T01", t.flip, one_of=("LEAF", "ROOT")),
    Kind("A-T02", t.principal, each=("ROOT",), never=("LEAF",)),
    Kind("A-T03", t.outcome, each=("ROOT",), never=("LEAF",)),
    Kind("A-T04", t.column, each=("LEAF", "ROOT")),
    Kind("A-T05", t.time, each=("ROOT",), never=("LEAF",)),
    Kind("A-T06", t.delete, one_of=("GAP", "TRUNCATED", "UNCOVERED_TAIL")),
    Kind("A-T07", t.delete_renumber, each=("TRUNCATED",), never=("LEAF",)),
    Kind("A-T08", t.insert, each=("UNCOVERED_TAIL",), never=("LEAF",)),
    Kind("A-T09", t.swap, each=("ROOT",), never=("LEAF",)),
    Kind("A-T10", t.cross, each=("ROOT",), never=("LEAF",)),
    Kind("A-T11", t.swap_logs, each=("CP_SIG",), one_of=("ROOT", "CROSS_REF"), never=("LEAF",)),
    Kind("A-T12", t.truncate, each=("TRUNCATED",)),
    Kind("A-T13", t.truncate_cps, each=("CROSS_REF",)),
    Kind("A-T14", t.drop_log, each=("LOG_MISSING",), one_of=("CROSS_REF", "SIGNER_AHEAD")),
    Kind("A-T15", t.payload, each=("PAYLOAD",), never=LEAVES),
    Kind("A-T16", t.payload_swap, each=("PAYLOAD",), never=LEAVES),
    Kind("A-T17", t.payload_delete, each=("PAYLOAD_MISSING",), never=LEAVES),
    Kind("A-T18", t.payload_resalt, each=("PAYLOAD",), never=LEAVES),
    Kind("A-T19", t.unerase, each=("ERASED_BUT_PRESENT",), never=LEAVES),
    Kind("A-T20", t.forge_tombstone, each=("UNCOVERED_TAIL",), never=LEAVES),
    Kind("A-T21", t.old_checkpoint, each=("CP_ORDER",), never=("LEAF",)),
    Kind("A-T22", t.forge_root, each=("CP_SIG",), never=("LEAF",)),
    Kind("A-T23", t.system_log, each=("ROOT",), never=("LEAF",)),
    Kind("A-T24", t.append, each=("UNCOVERED_TAIL",), never=LEAVES),
    Kind("A-T25", t.rollback, found=(False, True, False, True), never=("LEAF",)),
    Kind("A-T26", t.rollback_epoch, each=("PAYLOAD_MISSING", "SIGNER_AHEAD"), never=("LEAF",)),
    Kind("A-T27", t.drop_checkpoint, found=NEVER),
    Kind("A-T28", t.key_theft_past, each=("ROOT",), never=("LEAF",)),
    Kind("A-T29", t.key_theft_current, found=NOW),
    Kind("A-T30", t.dictionary, each=("ROOT",)),
    Kind("A-T31", t.dictionary_twin, each=("DICT",), never=LEAVES),
    Kind("A-T32", t.storage_class, each=("TYPE",), never=LEAVES),
    Kind("A-T33", t.encoding, each=("ENCODING",)),
    # All columns of this release are covered: one more is not its schema.
    Kind("A-T34", t.uncovered, one_of=("UNSIGNED", "SCHEMA"), never=LEAVES),
    Kind("A-T35", t.rowids, one_of=("PAYLOAD", "PAYLOAD_MISSING", "ALIAS"), never=LEAVES),
    Kind("A-T36", t.leaf_only, each=("LEAF",), never=("ROOT",)),
    Kind("A-T37", t.registry, each=("REGISTRY",), never=LEAVES),
    Kind("A-T38", t.alias, each=("ALIAS",), never=LEAVES),
    Kind("A-T39", t.view, one_of=("SCHEMA", "INDEX")),
    Kind("A-T40", t.index, each=("INDEX",), never=LEAVES),
    Kind("A-T41", t.strip, each=("PAYLOAD_MISSING",), never=LEAVES),
]
HIDDEN = crib.tool_yaml("hidden", "{type: builtin, function: echo}")
CALLS = 3                       # of each client, before each checkpoint


class Made:
    """The store that all is tried on: three tenants, epochs by starts of the daemon, what was erased, denied and revoked;
    and what is kept beside it."""

    def __init__(self):
        self.crib = c = crib.Crib().init()
        self.early, self.late, self.keys = [], [], []
        c.cli("approval", "policy", "one")
        self.start()
        for text, name in ((crib.ECHO, "echo.yaml"), (HIDDEN, "hidden.yaml")):
            c.tool(text, name)
        for tenant in ("acme", "other", "third"):
            c.cli("tenant", "add", tenant)
            c.cli("grant", "add", tenant, "echo")
            self.keys += [c.key(f"{tenant}/bot"), c.key(f"{tenant}/crew")]
        self.load()
        c.stop()

        self.start()
        calls = self.load()
        self.early.append(self.snapshot())
        self.load()
        self.early.append(self.snapshot())
        c.cli("erase", "--call", calls[0], "--ground", "asked for", "--ticket", "T-1", "--yes")
        crew = next(row["principal"] for row in c.json("key", "list") if row["principal"] == "other/crew")
        c.cli("erase", "--principal", crew, "--ground", "asked for", "--ticket", "T-2", "--yes")
        self.load()
        c.stop()
        self.old = self.newest_note()

        self.start()
        c.cli("key", "revoke", self.keys.pop().split("_")[1], "--yes")
        for _ in range(2):
            self.load()
            self.late.append(self.snapshot())
        self.load()
        c.stop()
        self.new = self.newest_note()
        self.remember()

    def start(self):
        self.crib.start(f"anchor: {{file: {self.crib.dir}/anchors}}")
        crib.wait_for("a checkpoint taken outside", lambda: (self.crib.dir / "anchors").exists())

    def client(self, key, transport, text):
        """A few calls and a refused one; their ids."""
        with contextlib.closing(getattr(self.crib, transport)(key)) as peer:
            ids = [peer.call("echo", {"text": f"{text} {i}"}, crib.MODERN)["result"]["_meta"]["dev.toolcrib/callId"]
                   for i in range(CALLS)]
            assert "error" in peer.call("hidden", {}, crib.MODERN)
        return ids

    def load(self):
        """All clients at once."""
        with concurrent.futures.ThreadPoolExecutor(len(self.keys)) as pool:
            work = [pool.submit(self.client, key, ("http", "tcp")[i % 2], f"client {i}") for i, key in enumerate(self.keys)]
            calls = [call for done in work for call in done.result()]
        crib.wait_for("all is signed", lambda: self.verify(self.crib.store)[0] == 0)
        return calls

    def query(self, sql):
        with contextlib.closing(sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)) as db:
            return db.execute(sql).fetchall()

    def snapshot(self):
        """The store's file as it is now."""
        path = self.crib.dir / f"snapshot-{len(self.early) + len(self.late)}.db"
        with contextlib.closing(sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)) as db, \
                contextlib.closing(sqlite3.connect(path)) as copy:
            db.backup(copy)
        return path

    def newest_note(self):
        return self.query("SELECT note FROM cp WHERE log = 1 ORDER BY size DESC LIMIT 1")[0][0]

    def remember(self):
        """What lies beside the store, and what stays in it."""
        c, signer = self.crib, self.crib.store / "signer"
        self.pins = c.dir / "pins"
        state = (signer / "state").read_text()
        self.state, self.log_seed = state, (signer / "log.key").read_bytes()
        epoch = self.query("SELECT max(n) FROM epoch")[0][0]
        self.epoch_seed = (signer / f"epoch-{epoch}.key").read_bytes()
        first, origin = self.query("SELECT e.pk, l.origin FROM epoch e, log l WHERE e.n = 0 AND l.id = 1")[0]
        log_key = bytes.fromhex(next(line.split()[1] for line in state.splitlines() if line.startswith("log-key ")))
        self.pins.write_text("".join(
            f"{name}+{sceptic.key_id(name, key).hex()}+{t.base64.b64encode(bytes([1]) + key).decode()}\n"
            for name, key in ((origin, log_key), (f"{origin}/e/0", first))))
        self.erased = [number for number, in self.query("SELECT id FROM rec WHERE cm IS NOT NULL "
                                                        "AND id NOT IN (SELECT rec FROM pay)")]
        self.pristine = c.dir / "pristine.db"
        shutil.copy(c.store / "toolcrib.db", self.pristine)
        for name, note in (("old", self.old), ("new", self.new)):
            (c.dir / name).write_bytes(note)
        self.options = ([], ["--signer-state", signer], ["--anchor", c.dir / "old"], ["--anchor", c.dir / "new"])

    def verify(self, store, *options):
        """toolcrib-verify: exit status and codes."""
        done = subprocess.run([crib.BUILD / "toolcrib-verify", "--keys", self.crib.store, *options, store], capture_output=True,
                              text=True, timeout=crib.DEADLINE)
        return done.returncode, {line.split()[0] for line in done.stdout.splitlines()[:-1] if " epochs, " not in line}


def by_toolcrib(made, path, state):
    """What each evidence shows."""
    found = []
    for options in made.options:
        if state and "--signer-state" in options:
            stolen = pathlib.Path(f"{path}.state")
            stolen.write_text(state)
            options = ["--signer-state", stolen]
        found.append(made.verify(path, "--key", made.pins, *options))
    return found


def by_the_sceptic(made, path, state):
    found = []
    for signer, anchors in ((None, ()), (state or made.state, ()), (None, [made.old]), (None, [made.new])):
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            verifier = sceptic.Verifier(db, sceptic.parse_keys(made.pins.read_text()), signer, anchors,
                                        sceptic.PayloadKeys(made.crib.store))
            verifier.store()
            gaps = sum(finding[5] for finding in verifier.findings)
            bad = len(verifier.findings) - gaps
            found.append((4 if bad else 5 if gaps else 0, {finding[0] for finding in verifier.findings}))
    return found


def attempt(number, seed):
    """One kind once: whether it could be done, and what each verifier found with each evidence."""
    kind = KINDS[number] if number is not None else None
    with tempfile.TemporaryDirectory(dir=made.crib.dir) as folder:
        path = pathlib.Path(folder) / "toolcrib.db"
        shutil.copy(made.pristine, path)
        state = None
        if kind:
            store = t.Store(path, made)
            done = kind.tamper(store, random.Random(f"{kind.id} {seed}"))
            store.close()
            state = store.state
            if done is False:
                return None
        return by_toolcrib(made, path, state), by_the_sceptic(made, path, state)


def wrong(kind, found):
    """What of this is not as the table says."""
    said = [f"{name}: exit {status} {sorted(codes)}" for name, want, (status, codes) in zip(EVIDENCE, kind.found, found)
            if status not in (0, 4, 5) or want != (status == 4)]
    codes = found[1][1]
    if not set(kind.each) <= codes or kind.one_of and not set(kind.one_of) & codes or set(kind.never) & codes:
        said.append(f"found as {sorted(codes)}")
    return said


class Tampering(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        global made
        for name in ("signed_by", "decrypt"):           # the same in all copies, but for what was tampered with
            setattr(sceptic, name, functools.lru_cache(1 << 16)(getattr(sceptic, name)))
        made = Made()
        cls.addClassCleanup(made.crib.close)

    def test_what_nobody_has_changed_is_intact(self):
        for found in attempt(None, 0):
            self.assertEqual(found, [(0, set())] * 4)
        with tempfile.TemporaryDirectory(dir=made.crib.dir) as folder:
            path = pathlib.Path(folder) / "toolcrib.db"
            shutil.copy(made.pristine, path)
            store = t.Store(path, made)
            before = store.all("SELECT log, idx, leaf FROM rec"), store.all("SELECT * FROM head")
            store.reseal()
            self.assertEqual((store.all("SELECT log, idx, leaf FROM rec"), store.all("SELECT * FROM head")), before)
            store.close()
            self.assertEqual(made.verify(path, "--key", made.pins), (0, set()))
            done = subprocess.run([sys.executable, sceptic.__file__, "--key", made.pins, "--signer-state",
                                   made.crib.store / "signer" / "state", "--anchor", made.crib.dir / "new", "--keys",
                                   made.crib.store, path], capture_output=True, text=True, timeout=crib.DEADLINE)
            self.assertEqual((done.returncode, done.stdout.split()[0]), (0, "INTACT"), done.stdout + done.stderr)

    def test_each_kind_is_found_as_the_table_says(self):
        lines = [f"\n{'kind':25}{'tried':>6}" + "".join(f"{name:>8}" for name in EVIDENCE) + "   found by (tries)"]
        with concurrent.futures.ProcessPoolExecutor(VERIFIERS, multiprocessing.get_context("fork")) as pool:
            tries = [[pool.submit(attempt, number, seed) for seed in range(SEEDS)] for number in range(len(KINDS))]
            for kind, work in zip(KINDS, tries):
                with self.subTest(kind=kind.id, how=kind.tamper.__name__):
                    got = [found for found in (w.result() for w in work) if found]
                    for who, found in (("toolcrib-verify", [pair[0] for pair in got]), ("verify.py", [pair[1] for pair in got])):
                        lines.append(self.line(kind, who, found))
                    self.assertGreater(len(got), SEEDS // 2, "tried too rarely")
                    self.assertEqual([said for pair in got for said in wrong(kind, pair[0])][:3], [])
                    self.assertEqual([said for pair in got for said in wrong(kind, pair[1])][:3], [], "verify.py")
        print("\n".join(lines))

    @staticmethod
    def line(kind, who, found):
        codes = collections.Counter(code for tried in found for code in tried[1][1])
        shown = " ".join(f"{code}:{n}" for code, n in codes.most_common())
        name = f"{kind.id} {kind.tamper.__name__}" if who != "verify.py" else f"      by {who}"
        name = f"{name:25}{len(found):6}"
        return name + "".join(f"{sum(tried[i][0] == 4 for tried in found):8}" for i in range(4)) + "   " + shown


if __name__ == "__main__":
    crib.main()
