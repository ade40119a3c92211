"""Thirteen months of records, written by the real server with its clock put back; then what is older than the year goes, and
what one person left behind (AUDIT 10, A-508 to A-513)."""
import json
import sqlite3
import subprocess
import uuid

import crib

DAY = 86400
SHIFT = crib.BUILD / "tests/integ/shift.so"
VERIFY = (crib.BUILD / "toolcrib-verify",)
SCEPTIC = crib.sceptic()
# How many days ago, and how many calls each of the two made then; where the cut is a year after the last of the busy days.
BUSY, QUIET, CUT = 40, 5, 512
DAYS = [(398, BUSY), (390, BUSY), (380, BUSY), (366, BUSY), *[(days, QUIET) for days in range(360, 0, -45)]]


class Year(crib.Case):
    def now(self, days_ago):
        """The clock of all that is started from here on."""
        self.crib.env.update(LD_PRELOAD=str(SHIFT), TOOLCRIB_TEST_SHIFT=str(-days_ago * DAY),
                             ASAN_OPTIONS="verify_asan_link_order=0")

    def day(self, days_ago, calls):
        """A server that starts, works and stops."""
        self.now(days_ago)
        self.crib.start()
        for name in ("bot", "alice"):
            peer = self.crib.tcp(self.crib.key(f"acme/{name}"))
            peer.initialize()
            for i in range(calls):
                self.assertIn("result", peer.call("echo", {"text": f"{name} {i}"}))
            peer.close()
        self.assertEqual(self.crib.stop(), 0)

    def ask(self, columns, where):
        """Of records of the tenant."""
        db = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        rows = db.execute(f"SELECT {columns} FROM rec r JOIN log l ON l.id = r.log LEFT JOIN pay p ON p.rec = r.id "
                          f"LEFT JOIN dict d ON d.id = r.prn WHERE l.origin LIKE '%/t/acme' AND {where}").fetchall()
        db.close()
        return {value for row in rows for value in row if value}

    def kept(self, where):
        """What nobody could guess: salts, ciphertexts, ids of calls."""
        return self.ask("p.salt, p.ct, r.call", where)

    def present(self, secrets):
        """Those that any file of the store has."""
        files = [data for _, data in self.crib.files()]
        return {secret for secret in secrets if any(secret in data for data in files)}

    def sound(self, pruned=False):
        """Nothing is found, with the first keys pinned, by the two verifiers that share no code; but that the record of the
        period, or of the hold, went with the year, so that nothing vouches for their rows."""
        for program in (VERIFY, SCEPTIC):
            status, text = self.said(*program, "--key", self.pins, "--keys", self.crib.store, self.crib.store)
            self.assertEqual(status, 5 if pruned else 0, text)
            self.assertEqual({line.split()[0] for line in text.splitlines() if "pruned" in line}, {"NOT_CHECKED"} if pruned else set())

    def said(self, *program):
        done = subprocess.run(program, capture_output=True, text=True, timeout=6 * crib.DEADLINE)
        return done.returncode, done.stdout + done.stderr

    def prune(self, *words):
        return self.crib.run("--yes", "--json", "retention", "prune", "acme", *words)

    def test_a_year_goes_by(self):
        c = self.crib.init()
        self.now(399)
        c.tool(crib.ECHO)
        c.tenant("acme", "echo")
        c.cli("approval", "policy", "one")
        c.cli("retention", "set", "acme", "--min-days", "365", "--max-days", "365")
        for days_ago, calls in DAYS:
            self.day(days_ago, calls)
        self.now(0)
        self.pins = c.dir / "pins"
        self.pins.write_text(c.cli("audit", "keys"))
        self.sound()
        self.what_is_older_than_the_year_goes()
        self.what_one_person_left_goes()
        self.assertEqual(c.stop(), 0)
        self.sound(pruned=True)
        for words, code in ((["--with-bundle", self.bundle, c.store], 5), (["--bundle", self.bundle], 0)):
            self.assertEqual(self.said(*VERIFY, "--key", self.pins, "--keys", c.store, *words)[0], code)

    def what_is_older_than_the_year_goes(self):
        c, self.bundle = self.crib, self.crib.dir / "acme.tar"
        old, young = self.kept(f"r.idx < {CUT}"), self.kept(f"r.idx >= {CUT}")
        self.assertEqual(self.present(old | young), old | young)
        c.start()
        ends = {str(uuid.UUID(bytes=call)) for call in self.ask("r.call", f"r.idx >= {CUT} AND r.kind = 1002")}
        c.cli("hold", "set", "acme", "--reason", "a lawsuit", "--ticket", "L-1", "--from", "100", "--to", "120")
        self.assertIn("held by hold 1", self.prune("--bundle", self.bundle).stderr)
        self.assertEqual(self.present(old), old)
        c.cli("--yes", "hold", "release", "1", "--reason", "settled", "--ticket", "L-2")
        # Not even who asks for it gets more than the period allows.
        self.assertIn("has to be kept 365 days", self.prune("--bundle", self.bundle, "--before", "30d").stderr)
        done = self.prune("--bundle", self.bundle)
        self.assertEqual(done.returncode, 0, done.stderr)
        row = json.loads(done.stdout)
        self.assertEqual((row["from"], row["to"], row["said"]), (0, CUT - 1, "pruned"))
        # Of the files, of their logs and of pages that are free (AUDIT A-509).
        crib.wait_for("what was pruned to be in no file", lambda: not self.present(old))
        crib.wait_for("all that was not", lambda: self.present(young) == young)
        self.assertIn("nothing to prune", self.prune("--bundle", self.bundle).stderr)
        self.assertEqual(c.json("retention", "show", "acme")[0]["pruned"], CUT)
        self.assertEqual({r["call"] for r in c.json("audit", "calls", "--tenant", "acme", "--limit", "0")}, ends)
        said = [r for r in c.json("retention", "show", "acme", "--history") if r["kind"] == "prune"][0]
        self.assertEqual((said["bundle"], said["from"], said["to"]), (row["sha256"], 0, CUT - 1))
        self.assertIn("none: approval policy one", said["approver"])
        self.assertRegex(said["detail"], r"^uid \d+: retention prune tenant=acme ")

    def what_one_person_left_goes(self):
        c = self.crib
        hers = "d.text = (SELECT pseudonym FROM principal WHERE name = 'alice')"
        secrets, calls, others = self.ask("p.salt, p.ct", hers), self.ask("r.call", hers), self.kept(f"NOT ({hers})")
        c.cli("--yes", "erase", "--principal", "acme/alice", "--ground", "GDPR 17", "--ticket", "E-1")
        crib.wait_for("what was erased to be in no file", lambda: not self.present(secrets))
        crib.wait_for("all else", lambda: self.present(others | calls) == others | calls)
        said = [r for r in c.json("audit", "erasures", "--tenant", "acme") if r["kind"] == "erase"][0]
        self.assertEqual((said["ground"], said["ticket"]), ("GDPR 17", "E-1"))
        self.assertRegex(json.dumps(said), r"uid \d+: erase ")


if __name__ == "__main__":
    crib.main()
