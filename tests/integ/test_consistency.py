"""audit consistency: whoever holds an old checkpoint learns that the log only grew since, whatever form its records have by then
(CONSOLE C-108); checked by the RFC's own definition, by verify.py, and by the checkpoints that the log had."""
import base64
import collections
import contextlib
import functools
import hashlib
import json
import os
import sqlite3
import subprocess

import crib
import test_seal


class Log:
    """RFC 9162, 2.1.1 and 2.1.4.1, as they are written, over leaves that were exported."""

    def __init__(self, leaves):
        self.leaves = leaves
        self.root = functools.lru_cache(None)(self.hash)

    @staticmethod
    def split(n):
        return 1 << (n - 1).bit_length() - 1

    def hash(self, start, end):
        if end - start == 1:
            return self.leaves[start]
        k = start + self.split(end - start)
        return hashlib.sha256(b"\1" + self.root(start, k) + self.root(k, end)).digest()

    def proof(self, m, start, end, whole=True):
        if m == end - start:
            return [] if whole else [self.root(start, end)]
        k = self.split(end - start)
        if m <= k:
            return self.proof(m, start, start + k, whole) + [self.root(start + k, end)]
        return self.proof(m - k, start + k, end, False) + [self.root(start, start + k)]


def leaves(c, tenant):
    rows = [json.loads(line) for line in c.cli("audit", "export", "--tenant", tenant).splitlines()[1:]]
    assert [row["index"] for row in rows] == list(range(len(rows)))
    return [bytes.fromhex(row["leaf"]) for row in rows]


def read(text):
    """The old size, the hashes, the checkpoint's size and root."""
    head, _, note = text.partition("\n\n")
    old, *hashes = head.split("\n")
    origin, size, root = note.split("\n")[:3]
    return int(old.removeprefix("old ")), [base64.b64decode(line) for line in hashes], origin, int(size), base64.b64decode(root)


def verified(path, note, *keys):
    return subprocess.run([*crib.sceptic(), *keys, "--consistency", path, "--anchor", note], capture_output=True, text=True,
                          timeout=crib.DEADLINE)


class Forms(test_seal.Seal):
    """Rows and blocks, sealed files, files that were moved, files that are away."""
    records = 4600

    def test_a_log_proves_how_it_grew_from_any_form(self):
        c, tenant = self.crib, self.tenants[0]
        archive = c.dir / "archive"
        archive.mkdir(mode=0o700)
        c.start(test_seal.PLAIN.replace("{", f"{{archive: {archive}, ", 1))
        c.cli("audit", "checkpoint")
        log = Log(leaves(c, tenant))
        for change in (None, ("audit", "seal"), ("audit", "archive", "--before", "0s", "--to", archive)):
            if change:
                c.cli("--yes", *change)
            self.assertEqual(bool(c.rows("SELECT 1 FROM seg")), bool(change))
            size = json.loads(c.cli("--json", "audit", "consistency", "--tenant", tenant, "--from", "0"))["size"]
            for old in {1, 255, 256, 700, 1024, size - 1, size}:
                row, = c.json("audit", "consistency", "--tenant", tenant, "--from", old)
                at, hashes, origin, end, root = read(row["proof"])
                if end > len(log.leaves):       # what was asked is recorded, and signed within a second
                    log = Log(leaves(c, tenant))
                self.assertEqual((at, row["from"], origin, end), (old, old, row["log"], row["size"]))
                self.assertEqual(hashes, log.proof(old, 0, end), (old, change))
                self.assertEqual((bytes.fromhex(row["from_root"]), root), (log.root(0, old), log.root(0, end)))
                self.assertEqual(row["hashes"], len(hashes))
        for *_, path in self.catalog():
            os.rename(path, path + ".away")
        done = c.run("audit", "consistency", "--tenant", tenant, "--from", "700")
        self.assertEqual((done.returncode, done.stdout), (3, ""), "no hash of what is not there")
        self.assertRegex(done.stderr, r"the sealed file \S+ is not here")
        self.assertEqual(c.run("audit", "consistency", "--tenant", tenant, "--from", "768").returncode, 0, "tiles are")


    def test_c105_some_records_are_chosen_from_any_form(self):
        """CONSOLE C-105, SC-206: what says beside the records that a part has none leaves none out."""
        c, tenant = self.crib, ("--tenant", self.tenants[0])
        c.start(test_seal.PLAIN)
        every = [json.loads(line) for line in c.cli("audit", "export", *tenant).splitlines()[1:]]
        end = every[-1]["index"]
        counts = collections.Counter(row["kind"] for row in every)
        rare = min(counts, key=counts.get)
        tool, name = (next(row[what] for row in every if row[what]) for what in ("tool", "principal"))
        for change in (), ("audit", "seal"):
            if change:
                c.cli("--yes", *change)
            for words, test in ((("--kind", rare), lambda r: r["kind"] == rare),
                                (("--outcome", "tool_error"), lambda r: r["outcome"] == "tool_error"),
                                (("--kind", "call.begin", "--tool", tool, "--principal", name),
                                 lambda r: (r["kind"], r["tool"], r["principal"]) == ("call.begin", tool, name))):
                wanted = [row for row in every if test(row)]
                self.assertTrue(wanted)
                rows = [json.loads(line) for line in c.cli("audit", "export", *tenant, *words).splitlines()[1:]]
                self.assertEqual([row for row in rows if row["index"] <= end], wanted, (words, change))
                for n in 1, 700:
                    shown = [r["index"] for r in c.json("audit", "tail", *tenant, "-n", n, *words)]
                    self.assertEqual(shown, [r["index"] for r in rows][-n:], (words, change))


class Grown(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "echo")
        c.tenant("other", "echo")

    def call(self, n):
        with contextlib.closing(self.crib.http(self.key)) as peer:
            for _ in range(n):
                peer.call("echo", {"text": "x"}, crib.MODERN)

    def note(self, name, log=2):
        """The newest checkpoint of a log, as somebody took it away."""
        self.crib.cli("audit", "checkpoint")
        note, = self.crib.rows(f"SELECT note FROM cp WHERE log = {log} ORDER BY size DESC LIMIT 1")[0]
        path = self.crib.dir / name
        path.write_bytes(note)
        return path, int(bytes(note).split(b"\n")[1])

    def prove(self, size, name="grown", tenant=("--tenant", "acme")):
        path = self.crib.dir / name
        path.write_text(self.crib.cli("audit", "consistency", *tenant, "--from", size))
        return path

    def test_who_holds_an_old_checkpoint_is_convinced(self):
        c = self.crib.start()
        keys = c.dir / "pins"
        keys.write_text(c.cli("audit", "keys"))
        pins = "--key", keys
        old, size = self.note("old")
        system, of_system = self.note("system", 1)
        self.call(20)
        new, end = self.note("new")
        self.assertGreater(end, size)
        grown = self.prove(size)
        done = verified(grown, old, *pins)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, rf"^PROVED \S+/t/acme of size \d+ goes on behind size {size}\n$")
        self.assertTrue(grown.read_text().startswith(f"old {size}\n"))
        done = verified(self.prove(of_system, "of-system", ()), system, *pins)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(c.json("audit", "consistency", "--from", of_system)[0]["tenant"], None)
        said = c.run("audit", "consistency", "--tenant", "acme", "--from", size).stderr
        self.assertRegex(said, rf"/t/acme goes on from {size} to \d+: \d+ hashes")
        self.assertEqual(verified(self.prove(end, "same"), new, *pins).returncode, 0, "the same checkpoint, or one that goes on")

        text = grown.read_text()
        lines = text.split("\n")
        flipped = base64.b64encode(bytes(32)).decode()
        for bad in (text.replace(lines[1], flipped, 1), text.replace(lines[1] + "\n", "", 1), text.replace(lines[0], "old 1", 1),
                    text.replace(lines[0], f"old {size + 1}", 1), text.replace("/t/acme\n", "/t/other\n", 1),
                    text.replace(lines[0], f"{lines[0]}\n{flipped}", 1), text.replace("old", "new", 1), text.partition("\n\n")[0]):
            self.assertNotEqual(bad, text)
            grown.write_text(bad)
            done = verified(grown, old, *pins)
            self.assertEqual((done.returncode, done.stdout), (4, ""), bad)
            self.assertIn("verify.py: ", done.stderr)
        grown.write_text(text)
        for note in new, system:
            self.assertEqual(verified(grown, note, *pins).returncode, 4, "of another size, of another log")
        forged = old.read_text().split("\n")
        forged[2] = flipped
        new.write_text("\n".join(forged))
        self.assertEqual(verified(grown, new, *pins).returncode, 4, "nobody signed it")
        self.assertEqual(verified(grown, old).returncode, 2)

    def test_a_log_that_was_written_anew_convinces_nobody(self):
        """An enemy has the store, but not what somebody took away from it."""
        c = self.crib.start()
        keys = c.dir / "pins"
        keys.write_text(c.cli("audit", "keys"))
        self.call(3)
        old, size = self.note("old")
        c.stop()
        with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db", isolation_level=None)) as db:
            frozen = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'rec_frozen'").fetchone()[0]
            db.execute("DROP TRIGGER rec_frozen")
            self.assertEqual(db.execute("UPDATE rec SET dur = dur + 1 WHERE log = 2 AND kind = 1002 AND dur > 0 AND idx < ? "
                                        "AND idx = (SELECT max(idx) FROM rec WHERE log = 2 AND kind = 1002 AND idx < ?)", (size, size)).rowcount, 1)
            db.execute(frozen)
        done = c.run("audit", "consistency", "--tenant", "acme", "--from", size)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("is not there as it was written", done.stderr)
        self.assertIn("toolcrib audit verify", done.stderr)

    def test_what_cannot_be_proved_is_said(self):
        c = self.crib.start()
        _, size = self.note("old")
        for word in "-1", "x", "1.5", "", "0x10", "18446744073709551616", "9223372036854775808":
            done = c.run("audit", "consistency", "--tenant", "acme", f"--from={word}")
            self.assertNotEqual((done.returncode, done.stdout), (0, ""), word)
        for word in size + 100000, (1 << 63) - 1:
            done = c.run("audit", "consistency", "--tenant", "acme", "--from", word)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, rf"the newest checkpoint of \S+/t/acme covers \d+ records, not {word}")
        self.assertIn("tenant nobody: not found", c.run("audit", "consistency", "--tenant", "nobody", "--from", "1").stderr)
        self.assertEqual(read(c.cli("audit", "consistency", "--tenant", "acme", "--from", "0"))[:2], (0, []))
        said = [row["detail"].partition(": ")[2] for row in c.json("audit", "access", "--tenant", "acme")]
        self.assertEqual([text for text in said if "consistency" in text], ["audit consistency tenant=acme from=0"])


if __name__ == "__main__":
    crib.main()
