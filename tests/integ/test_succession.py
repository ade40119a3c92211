"""A store that was put back to before what its signer has signed goes on under another name, and everybody who verifies it sees the
gap (OP-512).  The signer is a process of its own, which nobody puts back."""
import importlib.util
import json
import re
import shutil
import socket
import sqlite3
import struct
import subprocess
import sys

import crib

sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("sceptic", crib.SOURCE / "contrib/verify/verify.py")
sceptic = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sceptic)


class Succession(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.c = self.crib.init()
        self.keys, self.path, self.copy = c.dir / "keys", c.dir / "sign.sock", c.dir / "copy"
        shutil.move(c.store / "signer", self.keys)
        self.signer = None
        self.sign()
        self.serve()
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "echo")
        self.call()

    def sign(self):
        """A signer that was there before the store, and stays."""
        if self.signer:
            self.signer.kill()
            self.signer.wait()
        self.path.unlink(missing_ok=True)
        self.signer = subprocess.Popen([crib.BUILD / "toolcrib-sign", "--dir", self.keys, "--socket", self.path],
                                       stdin=subprocess.DEVNULL)
        self.addCleanup(self.signer.wait)
        self.addCleanup(self.signer.kill)
        crib.wait_for("a signer that listens", self.path.exists)

    def serve(self):
        self.c.start(f"signer: {{socket: {self.path}}}")

    def call(self, n=1, key=None):
        for _ in range(n):
            peer = self.c.http(key or self.key)
            self.assertIn("result", peer.call("echo", {"text": "x"}, rev=crib.MODERN))
            peer.close()
        self.c.cli("audit", "checkpoint")

    def back_up(self, name="copy"):
        self.copy = self.c.dir / name
        self.copy.mkdir()
        self.c.cli("backup", self.copy / "toolcrib.db", "--keys", self.copy / "keys.db")
        for file in self.c.store.glob("*.key"):
            shutil.copy(file, self.copy)

    def put_back(self):
        """The machine is gone, its store with it; what is said of the copy."""
        self.c.stop()
        shutil.rmtree(self.c.store)
        done = self.c.run("--json", "restore", "--from", self.copy, "--to", self.c.store, "--signer-state", self.keys)
        self.assertEqual(done.returncode, 5, done.stdout + done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def words(self):
        """What a start that is refused tells to type."""
        done = self.c.run("tenant", "list")
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertRegex(done.stderr, "SIGNER_AHEAD|LOG_MISSING")
        return sorted(done.stderr.split("toolcrib audit adopt ")[1].split())

    def sizes(self):
        """What the signer remembers: how many records of each name, without the instance's."""
        lines = [line.split() for line in (self.keys / "state").read_text().splitlines()]
        instance = next(line[1] for line in lines if line[0] == "instance")
        return {line[3].replace(instance, "I"): int(line[1]) for line in lines if line[0] == "log"}

    def programs(self):
        return [(crib.BUILD / "toolcrib-verify",)] + ([] if crib.sanitized("toolcrib-verify") else [tuple(crib.sceptic())])

    def verified(self, *options, status=5):
        """What both verifiers print of findings."""
        told = []
        for program in self.programs():
            done = subprocess.run([*program, "--key", self.pins, "--keys", self.c.store, *options, self.c.store],
                                  capture_output=True, text=True, timeout=crib.DEADLINE)
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            told.append(done.stdout)
        return told

    def audited(self):
        """What audit verify tells of lost records: log, from, to."""
        done = self.c.run("--json", "audit", "verify", "--key", self.pins)
        self.assertEqual(done.returncode, 5, done.stdout + done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual({row["finding"] for row in rows}, {"RESTORED", "INCOMPLETE"})
        return {(self.plain(row["log"]), row["from"], row["to"]) for row in rows if row["finding"] == "RESTORED"}

    def plain(self, text):
        return text.replace(self.instance, "I")

    def restored(self, *options):
        """Both verifiers find nothing but RESTORED; of which logs and records."""
        said = [sorted(re.match("RESTORED ([^ ]*) ([0-9]*)[- ]([0-9]*)", self.plain(line)).groups()
                       for line in told.splitlines() if line.startswith("RESTORED"))
                for told in self.verified("--signer-state", self.keys / "state", *options)]
        for told in said[1:]:
            self.assertEqual(told, said[0])
        for told in self.verified("--signer-state", self.keys / "state", *options):
            self.assertNotIn("NOT_CHECKED", told)
            self.assertRegex(told.splitlines()[-1], f"^INCOMPLETE .* 0 bad, {len(said[0])} gaps$")
        return said[0]

    def pin(self):
        self.pins = self.c.dir / "pins"
        self.pins.write_text(self.c.cli("audit", "keys"))
        self.instance = self.pins.read_text().split("+")[0]

    def note(self, name):
        path = self.c.dir / name
        path.write_text(self.c.cli("audit", "checkpoint"))
        return path

    def adopt(self, *words):
        self.c.cli("audit", "adopt", *(words or self.words()), "--reason", "fire", "--ticket", "T-1")

    def query(self, sql, *args):
        with sqlite3.connect(f"file:{self.c.store}/toolcrib.db?mode=ro", uri=True) as db:
            return db.execute(sql, args).fetchall()

    def change(self, sql):
        with sqlite3.connect(self.c.store / "toolcrib.db") as db:
            db.execute(sql)

    def test_it_goes_on_and_the_gap_is_seen(self):
        c = self.c
        self.pin()
        self.back_up()
        old = self.note("old")
        self.call(3)
        for _ in range(2):              # epochs that the copy knows nothing of
            c.stop()
            self.serve()
        self.call(2)
        lost = self.note("lost")
        c.stop()
        before = self.sizes()
        said = {self.plain(row["what"]): row["said"] for row in self.put_back() if row["class"] == "gap"}
        self.assertEqual(set(said), {"I", "I/t/acme"})
        words = self.words()
        at = {word.split(":")[1]: tuple(int(n) for n in word.split(":")[2].split("-")) for word in words}
        self.assertEqual({log: to + 1 for log, (_, to) in at.items()}, {"system": before["I"], "acme": before["I/t/acme"]})
        # Nothing of it goes by itself, or under another name, and what was refused has changed nothing.
        for wrong in (words[:1], [word.replace("lost:", "") for word in words], ["lost:system:0-1", words[0]]):
            self.assertEqual(c.run("audit", "adopt", *wrong).returncode, 3)
        self.assertEqual((self.sizes(), self.words()), (before, words))
        self.adopt(*words)
        self.serve()
        self.call(4)
        after = self.sizes()
        self.assertEqual({name: after[name] for name in before}, before)        # never signed again
        self.assertEqual(set(after) - set(before), {"I/r/1", "I/t/acme/r/1"})
        new = self.note("new")
        self.assertIn("/r/1\n", new.read_text())
        gaps = {("I", *at["system"]), ("I/t/acme", *at["acme"])}
        self.assertEqual(self.audited(), gaps)
        proof = c.dir / "proof"
        proof.write_text(c.cli("audit", "proof", c.json("audit", "calls", "--tenant", "acme", "--limit", "1")[0]["call"]))
        self.assertIn("/t/acme/r/1\n", proof.read_text())
        c.cli("audit", "bundle", "acme", c.dir / "bundle.tar")
        for program in self.programs():
            for option, file in (("--proof", proof), ("--bundle", c.dir / "bundle.tar")):
                done = subprocess.run([*program, "--key", self.pins, option, file], capture_output=True, text=True, timeout=crib.DEADLINE)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        c.stop()
        for anchors in ((old,), (lost,), (new,), (old, lost, new)):
            self.assertEqual(self.restored(*(word for anchor in anchors for word in ("--anchor", anchor))),
                             sorted((log, str(first), str(last)) for log, first, last in gaps))
        # A restart, and nobody asks again.
        self.serve()
        self.call()
        c.stop()
        self.assertEqual(len(self.restored()), 2)
        rows = self.query(
            "SELECT kind, detail FROM v_records WHERE kind = 'store.restore' OR kind = 'admin.cmd' AND detail LIKE '%adopt%'")
        self.assertEqual([kind for kind, _ in rows].count("store.restore"), 2, rows)
        self.assertTrue(any("fire" in detail and "T-1" in detail for kind, detail in rows if kind == "admin.cmd"), rows)

    def test_what_was_lost_is_not_a_way_to_hide_more(self):
        """Rows that say something else than their records; what the signer has, and nobody has given up."""
        c = self.c
        self.pin()
        self.back_up()
        self.call(3)
        late = self.note("late")
        self.put_back()
        self.adopt()
        c.stop()
        good = c.dir / "good"
        shutil.copytree(c.store, good)
        def bad(sql, *codes, options=()):
            self.change(sql)
            for told in self.verified("--signer-state", self.keys / "state", *options, status=4):
                self.assertTrue({line.split()[0] for line in told.splitlines()} & set(codes), (sql, told))
            shutil.rmtree(c.store)
            shutil.copytree(good, c.store)
        bad("DELETE FROM succession WHERE origin LIKE '%acme'", "REGISTRY")
        bad("DELETE FROM succession", "CP_SIG", "REGISTRY")
        bad("UPDATE succession SET lost = lost - 1", "REGISTRY", "SIGNER_AHEAD")
        bad("UPDATE succession SET lost = lost + 1", "REGISTRY")
        bad("UPDATE succession SET lost_root = zeroblob(32)", "REGISTRY")
        bad("UPDATE succession SET size = size - 1", "REGISTRY", "CP_SIG")
        bad("UPDATE succession SET epoch_to = epoch_to + 5", "REGISTRY")
        bad("INSERT INTO succession SELECT origin, n + 1, size, root, lost, lost_root, epoch_from, epoch_to, idx FROM succession", "REGISTRY")
        bad("UPDATE succession SET lost = size WHERE origin NOT LIKE '%acme'", "ANCHOR", options=("--anchor", late))
        # The signer remembers more than was given up: as of a server that hides what came between.
        state = (self.keys / "state").read_text()
        forged = c.dir / "state"
        forged.write_text("".join(line if not line.startswith("log ") or "/r/" in line else
                                  f"log {int(line.split()[1]) + 7} {line.split(' ', 2)[2]}" for line in state.splitlines(True)))
        for told in self.verified("--signer-state", forged, status=4):
            self.assertIn("SIGNER_AHEAD", told)

    def test_twice_and_of_an_older_copy(self):
        c = self.c
        self.pin()
        self.back_up("first")
        self.call(2)
        self.put_back()
        self.adopt()
        self.serve()
        self.call(3)
        self.back_up("second")
        self.call(4)
        self.put_back()                 # the newer one: of I/r/1
        self.adopt("lost:all")
        self.serve()
        self.call()
        self.assertEqual(set(self.sizes()) - {"I", "I/t/acme"}, {"I/r/1", "I/t/acme/r/1", "I/r/2", "I/t/acme/r/2"})
        self.assertEqual(len(self.audited()), 4)
        c.stop()
        self.assertEqual(len(self.restored()), 4)
        self.copy = c.dir / "first"     # of the first name, which the signer has closed twice
        self.put_back()
        self.adopt()
        self.serve()
        self.call(2)
        self.assertEqual(len(self.audited()), 2)
        c.stop()
        self.assertEqual(len(self.restored()), 2)
        self.assertIn("I/r/3", self.sizes())

    def test_a_log_that_is_lost_whole(self):
        c = self.c
        self.pin()
        self.back_up()
        key = c.tenant("late", "echo")
        self.call(2, key)
        self.put_back()
        self.assertTrue(any(word.startswith("lost:late:0-") for word in self.words()), self.words())
        self.adopt()
        self.serve()
        self.assertIn(("I/t/late", 0), {(log, first) for log, first, _ in self.audited()})
        c.stop()
        gaps = self.restored()
        self.serve()
        key = c.tenant("late", "echo")
        self.call(3, key)
        c.stop()
        self.assertEqual(self.restored(), gaps)
        self.assertGreater(self.sizes()["I/t/late/r/1"], 3)

    def test_who_dies_between_asks_again(self):
        """The signer has begun the names, and the store has not heard of it."""
        c = self.c
        self.pin()
        self.back_up()
        self.call(2)
        self.put_back()
        words = self.words()
        origin, = self.query("SELECT origin FROM log WHERE id = 1")[0]
        tree = sceptic.Tree()
        for leaf, in self.query("SELECT leaf FROM rec WHERE log = 1 ORDER BY idx"):
            tree.append(leaf)
        name = f"{origin}/r/1".encode()
        head = struct.pack(">H", len(name)) + name + struct.pack(">Q", tree.size) + tree.root() + b"\0"
        request = struct.pack(">BQHH", 8, 0, 0, 1) + head + struct.pack(">HB", 0, 0)
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(self.path))
            peer.sendall(struct.pack(">I", len(request)) + request)
            answer = peer.recv(65536)
        self.assertEqual(answer[4], 8, answer)
        self.assertEqual(self.words(), words)
        self.adopt(*words)
        self.serve()
        self.call()
        c.stop()
        self.assertEqual(len(self.restored()), 2)
        self.assertNotIn("I/r/2", self.sizes())


if __name__ == "__main__":
    crib.main()
