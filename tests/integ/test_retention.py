"""What goes and what stays: holds, prunes into bundles, and who has to agree; the audit verifies after each of them."""
import contextlib
import itertools
import json
import os
import shutil
import sqlite3
import struct
import subprocess
import threading
import unittest

import crib

VERIFY = crib.BUILD / "toolcrib-verify"
RECORDS = 300   # calls, each a begin and an end


class Retention(unittest.TestCase):
    def setUp(self):
        self.c = crib.Crib().init()
        self.addCleanup(self.c.close)
        self.c.tool(crib.ECHO)
        self.key = self.c.tenant("acme", "echo")

    def verify(self, *words):
        done = subprocess.run([str(VERIFY), *map(str, words)], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout

    def verify_store(self, *words):
        """Sound; that nobody signs, or the running server, may leave gaps."""
        code, out = self.verify(*crib.evidence(self.c.store), *words, self.c.store)
        self.assertIn(code, (0, 5), out)
        return out

    def calls(self, n=RECORDS):
        peer = self.c.tcp(self.key)
        peer.initialize()
        for _ in range(n):
            peer.call("echo", {"text": "canary-7f3a"})
        peer.close()

    def one(self):
        """A crib with a single administrator; while no server runs."""
        self.c.cli("approval", "policy", "one")

    def prune(self, *words):
        return self.c.run("--yes", "--json", "retention", "prune", "acme", *words)

    def await_signed(self):
        """Until a checkpoint covers the whole tiles that a prune would take."""
        crib.wait_for("a checkpoint", lambda: self.prune("--before", "0s", "--dry-run").returncode == 0)

    def refused(self, done, words):
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn(words, done.stderr)

    def test_old_records_go_into_a_bundle(self):
        bundle = self.c.dir / "acme.tar"
        self.one()
        self.c.start()
        self.calls()
        self.refused(self.prune("--bundle", bundle, "--before", "0s"), "no period of retention")
        self.c.cli("retention", "set", "acme", "--min-days", "30")
        self.refused(self.prune("--bundle", bundle, "--before", "0s"), "has to be kept 30 days")
        self.refused(self.prune("--bundle", bundle), "--before TIME is missing")
        self.assertFalse(bundle.exists())
        self.c.stop()
        self.verify_store()

    def test_prune_bundle_and_store_fit(self):
        bundle = self.c.dir / "acme.tar"
        self.one()
        self.c.cli("retention", "set", "acme", "--min-days", "0")
        self.c.start()
        self.calls()
        keys = self.c.cli("audit", "keys")
        before = self.c.json("retention", "show", "acme")[0]
        self.await_signed()
        would = json.loads(self.prune("--before", "0s", "--dry-run").stdout)
        self.assertEqual((would["from"], would["to"], would["said"]), (0, 511, "would be pruned"))
        self.assertFalse(bundle.exists())
        done = self.prune("--bundle", bundle, "--before", "0s")
        self.assertEqual(done.returncode, 0, done.stderr)
        row = json.loads(done.stdout)
        self.assertEqual((row["from"], row["to"], row["records"], row["said"]), (0, 511, 512, "pruned"))
        self.c.cli("audit", "checkpoint")
        for size, code in ((256, 0), (512, 0), (513, 0), (300, 1), (1, 1)):     # C-108: of what was pruned, tiles are left
            done = self.c.run("audit", "consistency", "--tenant", "acme", "--from", str(size))
            self.assertEqual((done.returncode, bool(done.stdout)), (code, not code), done.stderr)
            self.assertEqual(f"before 512 have been pruned, and with them how the log was at {size}" in done.stderr, bool(code))
            self.assertEqual("multiples of 256 before, can be proved" in done.stderr, bool(code))
        self.calls(5)
        after = self.c.json("retention", "show", "acme")[0]
        self.assertEqual(after["pruned"], 512)
        self.assertLess(after["records"], before["records"])
        self.assertGreaterEqual(len(self.c.json("audit", "calls", "--tenant", "acme")), 5)
        said = [r for r in self.c.json("retention", "show", "acme", "--history") if r["kind"] == "prune"]
        self.assertEqual(len(said), 1)
        self.assertEqual((said[0]["from"], said[0]["to"], said[0]["bundle"]), (0, 511, row["sha256"]))
        self.assertIn("none: approval policy one", said[0]["approver"])
        self.refused(self.prune("--bundle", bundle, "--before", "0s"), "nothing to prune")
        self.c.stop()
        self.verify_store()
        self.verify_store("--with-bundle", bundle)
        checked = self.c.run("audit", "verify", "--with-bundle", bundle)
        self.assertIn(checked.returncode, (0, 5), checked.stdout + checked.stderr)
        self.assertGreater(self.c.json("retention", "compact")[0]["texts"], 0)
        self.verify_store("--with-bundle", bundle)
        some = self.c.dir / "some.tar"
        self.c.cli("audit", "bundle", "acme", some, "--from", "520", "--to", "529")
        code, out = self.verify("--bundle", some)
        self.assertIn(code, (0, 5), out)
        self.assertIn("records 520-529", out)
        self.assertEqual(self.c.run("audit", "bundle", "acme", some).returncode, 1)     # it exists
        none = self.c.dir / "none.tar"
        self.assertIn("has the records 512 to", self.c.run("audit", "bundle", "acme", none, "--from", "3").stderr)
        self.assertFalse(none.exists())
        code, out = self.verify("--bundle", bundle)
        self.assertIn(code, (0, 5), out)
        self.assertIn("records 0-511", out)
        pins = [word for key in keys.split() for word in ("--key", key)]
        self.assertEqual(self.verify(*pins, "--bundle", bundle)[0], 0)
        other = [*pins[:-1], pins[-1][:-8] + "AAAAAAA="]
        self.assertNotEqual(self.verify(*other, "--bundle", bundle)[0], 0)
        listing = subprocess.run(["tar", "tf", str(bundle)], capture_output=True, text=True)
        self.assertEqual(listing.stdout.split()[-1], "manifest.json", listing.stderr)
        damaged = bytearray(bundle.read_bytes())
        at = damaged.index(b'"tool":"echo"')
        damaged[at + 8] ^= 1
        bundle.write_bytes(damaged)
        self.assertEqual(self.verify("--bundle", bundle)[0], 4)
        self.assertIn("VIEW", self.verify("--bundle", bundle)[1])

    def test_what_is_held_stays_until_it_is_released(self):
        bundle = self.c.dir / "acme.tar"
        self.one()
        self.c.cli("retention", "set", "acme", "--min-days", "0")
        self.c.start()
        self.calls()
        self.await_signed()
        for words in (["--from", "500", "--to", "501"], ["--principal", "bot"], [], ["--since", "1h"]):
            self.c.cli("hold", "set", "acme", "--reason", "a lawsuit", "--ticket", "L-1", *words)
        holds = self.c.json("hold", "list", "acme")
        self.assertEqual([h["state"] for h in holds], ["held"] * 4)
        self.assertEqual((holds[0]["from"], holds[0]["to"]), (500, 501))
        self.assertEqual(holds[1]["principal"], "bot")
        self.assertEqual((holds[2]["reason"], holds[2]["set_by"]), ("a lawsuit", f"uid {os.getuid()}"))
        for hold in holds:
            self.refused(self.prune("--bundle", bundle, "--before", "0s"), "held by hold")
            self.assertFalse(bundle.exists())
            self.c.cli("--yes", "hold", "release", hold["id"], "--reason", "settled", "--ticket", "L-2")
        self.assertEqual(self.c.json("hold", "list", "acme"), [])
        self.assertEqual([h["state"] for h in self.c.json("hold", "list", "--history")], ["released"] * 4)
        done = self.prune("--bundle", bundle, "--before", "0s")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.c.stop()
        self.verify_store()

    def kept(self):
        """Salts and ciphertexts beside the records, by index of the record in the tenant's log."""
        db = sqlite3.connect(f"file:{self.c.store}/toolcrib.db?mode=ro", uri=True)
        rows = db.execute("SELECT r.idx, p.salt, p.ct FROM pay p JOIN rec r ON r.id = p.rec WHERE r.log = 2").fetchall()
        db.close()
        return {idx: [secret for secret in secrets if secret] for idx, *secrets in rows}

    def present(self, secrets):
        """Those of some byte strings that any file of the store has."""
        files = [data for _, data in self.c.files()]
        return [secret for secret in secrets if any(secret in data for data in files)]

    def erase(self, *words):
        return self.c.run("--yes", "--json", "erase", "--ground", "GDPR 17", "--ticket", "E-1", *words)

    def test_what_is_erased_is_in_no_file(self):
        self.one()
        self.c.start()
        self.calls(5)
        call = self.c.json("audit", "calls", "--tenant", "acme")[0]["call"]
        all_kept = self.kept()
        self.assertTrue(all_kept)
        secrets = [secret for row in all_kept.values() for secret in row]
        # A page may move from the WAL into the file while the two are read.
        crib.wait_for("all of them in the files", lambda: self.present(secrets) == secrets)
        self.refused(self.erase(), "say one of")
        self.refused(self.erase("--principal", "acme/nobody"), "not found")
        self.c.cli("hold", "set", "acme", "--reason", "a lawsuit", "--ticket", "L-1", "--principal", "bot")
        for words in (["--call", call], ["--principal", "acme/bot"], ["--tenant", "acme"]):
            self.refused(self.erase(*words), "held by hold 1")
        self.assertEqual(self.kept().keys(), all_kept.keys())
        self.c.cli("--yes", "hold", "release", "1", "--reason", "settled", "--ticket", "L-2")
        would = json.loads(self.erase("--principal", "acme/bot", "--dry-run").stdout)
        self.assertEqual(would["said"], "would be erased")
        self.assertEqual(self.kept().keys(), all_kept.keys())
        done = self.erase("--call", call)
        self.assertEqual(done.returncode, 0, done.stderr)
        indexes = [row["index"] for row in self.c.json("audit", "show", call)]
        self.assertEqual(self.present([s for i in indexes for s in all_kept.get(i, [])]), [])
        for words in (["--principal", "acme/bot"], ["--tenant", "acme"]):
            done = self.erase(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.present(secrets), [])
        self.assertEqual(len(self.c.json("audit", "calls", "--tenant", "acme")), 5)     # the records stay
        said = [r for r in self.c.json("audit", "admin", "--tenant", "acme", "--limit", "0") if r["kind"].startswith("erase")]
        self.assertEqual(len([r for r in said if r["kind"] == "erase"]), len([r for r in said if r["kind"] == "erase.done"]))
        self.assertGreaterEqual(len(said), 4)
        self.calls(1)
        self.c.stop()
        self.verify_store()

    def test_calls_go_on_while_what_was_before_is_erased(self):
        """AUDIT A-510: what comes after the record of an erase is not erased by it."""
        self.one()
        self.c.start()
        self.calls(20)
        over, called = threading.Event(), itertools.count()

        def go_on():
            peer = self.c.tcp(self.key)
            peer.initialize()
            while not over.is_set():
                peer.call("echo", {"text": "after"})
                next(called)
            peer.close()

        threads = [threading.Thread(target=go_on) for _ in range(8)]
        for t in threads:
            t.start()
        try:
            for words in (["--principal", "acme/bot"], ["--tenant", "acme"]) * 4:
                before = next(called)           # what began behind the last erase is there to be erased
                crib.wait_for("further calls", lambda: next(called) > before + 2 * len(threads))
                done = self.erase(*words)
                self.assertEqual(done.returncode, 0, done.stderr)
        finally:
            over.set()
            for t in threads:
                t.join()
        self.calls(1)
        last = self.c.json("audit", "calls", "--tenant", "acme", "--limit", "1")[0]["call"]
        index = [row["index"] for row in self.c.json("audit", "show", last)]
        self.assertTrue(any(i in self.kept() for i in index), "what was called last is kept")
        self.c.stop()
        self.verify_store()
        done = self.c.run("audit", "verify", "--keys")
        self.assertIn(done.returncode, (0, 5), done.stdout)

    def test_what_was_erased_goes_again_when_the_store_is_put_back(self):
        """AUDIT A-515: keys.db stays, and remembers; the signer's memory is of the same day as the store's copy."""
        self.one()
        self.c.start()
        self.calls(3)
        kept = self.kept()
        calls = self.c.json("audit", "calls", "--tenant", "acme")
        self.assertEqual(self.c.stop(), 0)
        old = self.c.dir / "old"
        old.mkdir()
        shutil.copy(self.c.store / "toolcrib.db", old)
        shutil.copytree(self.c.store / "signer", old / "signer")
        self.c.start()
        self.assertEqual(self.erase("--call", calls[0]["call"]).returncode, 0)
        self.assertEqual(self.c.stop(), 0)
        before = self.erase_records()
        erased = {i: secrets for i, secrets in kept.items() if i in
                  [row["index"] for row in self.c.json("audit", "show", calls[0]["call"])]}
        self.assertEqual(self.present(sum(erased.values(), [])), [])
        for name in ("toolcrib.db", "toolcrib.db-wal", "toolcrib.db-shm"):
            (self.c.store / name).unlink(missing_ok=True)
        shutil.rmtree(self.c.store / "signer")
        shutil.copytree(old, self.c.store, dirs_exist_ok=True)
        shutil.rmtree(old)
        self.assertTrue(self.present(sum(erased.values(), [])))
        said = self.erase_records()
        self.assertEqual([(r["ground"], r["ticket"]) for r in said],
                         [(r["ground"], r["ticket"]) for r in before])
        self.assertTrue(all("put back" in json.dumps(r) for r in said))
        self.assertEqual(self.present(sum(erased.values(), [])), [])
        others = sum((secrets for i, secrets in kept.items() if i not in erased), [])
        self.assertEqual(self.present(others), others)
        self.c.start()
        self.assertEqual(self.erase("--principal", "acme/bot").returncode, 0)
        self.assertEqual(self.present(others), [])
        self.c.stop()
        self.assertEqual(len(self.erase_records()), len(before) + 1)
        self.verify_store()

    def test_a_forged_line_of_what_was_erased_names_no_approver(self):
        """FORGERY G-02: nobody signs keys.db; what it says is done again, and shown as a deed that nobody is known to have approved."""
        self.c.start()
        self.calls(3)
        self.assertEqual(self.c.stop(), 0)
        with contextlib.closing(sqlite3.connect(self.c.store / "toolcrib.db")) as db:
            origin, size = db.execute("SELECT origin, size FROM log JOIN head ON log = id WHERE tenant_id IS NOT NULL").fetchone()
        said = b"".join(struct.pack(">HI", tag, len(value)) + value for tag, value in (
            (0x102, struct.pack(">QQ", 0, size)), (0x104, b"asked for"), (0x105, b"T-9"), (0x106, b"uid 1000 approval/1")))
        with contextlib.closing(sqlite3.connect(self.c.store / "keys.db", isolation_level=None)) as db:
            db.execute("INSERT INTO erased(origin, idx, leaf, ext) VALUES(?, 1, ?, ?)", (origin, bytes(32), said))
        self.c.start()
        erased, = self.erase_records()
        self.assertEqual((erased["approver"], erased["ticket"]), (None, "T-9"))
        done = self.c.run("audit", "dual-control", "--format", "json")
        self.assertEqual((done.returncode, "T-9" in done.stdout or "put back" in done.stdout), (4, True), done.stdout)
        self.assertEqual(self.c.stop(), 0)
        self.assertIn("by whose leave is not on record", self.verify_store())
        sceptic = subprocess.run([*crib.sceptic(), *crib.evidence(self.c.store),
                                  self.c.store / "toolcrib.db"], capture_output=True, text=True, timeout=crib.DEADLINE, check=False)
        self.assertEqual((sceptic.returncode, "by whose leave is not on record" in sceptic.stdout), (5, True), sceptic.stdout + sceptic.stderr)

    def erase_records(self):
        return [r for r in self.c.json("audit", "erasures", "--tenant", "acme") if r["kind"] == "erase"]

    def test_a_backup_takes_the_keys_along_when_asked(self):
        self.c.cli("call", "acme", "echo", "text=x")
        store, keys = self.c.dir / "copy" / "toolcrib.db", self.c.dir / "copy" / "keys.db"
        store.parent.mkdir()
        self.c.cli("backup", store, "--keys", keys)
        shutil.copy(self.c.store / "master.key", store.parent)
        code, out = self.verify(*crib.evidence(self.c.store, keys=False), "--keys", store.parent, store)
        self.assertIn(code, (0, 5), out)
        self.assertNotIn("KEY_MISSING", out)
        self.assertEqual(self.c.run("backup", self.c.dir / "other.db", "--keys", keys).returncode, 1)     # it exists
        self.assertFalse((self.c.dir / "other.db").exists())

    @unittest.skipUnless(os.getuid() == 0, "needs two users")
    def test_two_administrators(self):
        hold = ["hold", "release", "1", "--reason", "settled", "--ticket", "L-2"]
        self.c.cli("hold", "set", "acme", "--reason", "a lawsuit", "--ticket", "L-1")
        other = 65534
        for path in [self.c.dir, *self.c.dir.rglob("*")]:
            os.chown(path, other, other)
        self.c.start(user=other, env={"NOTIFY_SOCKET": ""})
        asked = self.c.run("--yes", *hold)
        self.assertEqual(asked.returncode, 1, asked.stdout)
        self.assertIn("toolcrib approval grant 1", asked.stderr)
        self.assertEqual(self.c.run("approval", "grant", "1").returncode, 1)
        self.assertEqual(self.c.run("approval", "policy", "one").returncode, 1)
        granted = self.c.run("approval", "grant", "1", user=other)
        self.assertEqual(granted.returncode, 0, granted.stderr)
        self.c.cli("--yes", *hold)
        self.assertEqual(self.c.json("hold", "list"), [])
        kinds = [r["kind"] for r in self.c.json("audit", "admin", "--limit", "0")]
        self.assertIn("approval.request", kinds)
        self.assertIn("approval.grant", kinds)
        self.c.stop()
        self.verify_store()


if __name__ == "__main__":
    crib.main()
