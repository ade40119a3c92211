"""A server seals: months that have ended become files of their own while it serves, by itself or when told to; whatever it answered it
answers, and nothing of an enemy's in the folder of such files is followed, believed or lost (SCALE SC-105, SC-106, SC-302)."""
import contextlib
import datetime
import hashlib
import json
import os
import pathlib
import sqlite3
import subprocess
import unittest
import uuid

import crib
import test_folded

FILL = ("--tenants", 3, "--principals", 4, "--tools", 4, "--failures", 0.2, "--days", crib.days_back(70), "--level", "request")
PLAIN = "audit: {plain_rows: 0, fold_age: 86400, seal: off}\n"
ON = "audit: {plain_rows: 0, fold_age: 86400, seal_after: 0}\n"
QUESTIONS = (("calls", "--limit", "0"), ("calls", "--group-by", "tool,outcome,day", "--limit", "0"), ("sandbox",), ("export",),
             ("sample", "--number", "9", "--to", "300"), ("credentials", "--limit", "0"), ("admin", "--limit", "0"))
SEAL, PRUNE = 1912, 1904


def month_of(day):
    return f"{day:%Y-%m}"


THIS = datetime.datetime.now(datetime.timezone.utc).date().replace(day=1)
LAST = THIS - datetime.timedelta(days=1)


class Seal(crib.Case):
    records, questions, fold = 9000, QUESTIONS, ("--block", "200", "--chapter", "3")

    def setUp(self):
        super().setUp()
        c = self.crib
        c.fill(self.records, *FILL, fold=self.fold)
        self.until = c.rows("SELECT max(ts_max) + 1 FROM blk")[0][0]
        self.tenants = [name for name, in c.rows("SELECT name FROM tenant WHERE name LIKE 'fill%' ORDER BY name")]

    def asked(self):
        """What was there before this server began to write; headers say how far the log has come since."""
        at = datetime.datetime.fromtimestamp(self.until / 1e6, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        said = {(tenant, *words): self.crib.cli("--json", "audit", words[0], "--tenant", tenant, *words[1:],
                                                *(() if words[0] == "sample" else ("--until", at)))
                for tenant in self.tenants for words in self.questions}
        self.assertGreater(sum(map(len, said.values())), 1000000)
        rows = {question: [line for line in text.splitlines(True) if not line.startswith('{"header"')] for question, text in said.items()}
        return {question: (len(lines), hashlib.sha256("".join(lines).encode()).hexdigest()) for question, lines in rows.items()}

    def catalog(self):
        return self.crib.rows("SELECT log, from_idx, to_idx, month, path FROM seg ORDER BY log, from_idx")

    def files(self):
        folder = self.crib.store / "segments"
        return sorted(str(path.relative_to(self.crib.store)) for path in folder.rglob("*") if not path.is_dir())

    def leftovers(self):
        return self.crib.rows("SELECT count(*) FROM blk b WHERE first < (SELECT max(to_idx) FROM seg s WHERE s.log = b.log)")[0][0]

    def sealed(self, *words):
        return self.crib.json("audit", "seal", *words)[0]

    def refused(self, *words):
        done = self.crib.run("audit", "seal", *words)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stderr

    def whole(self):
        """The store, and each file by itself; what is in the catalog is there, and nothing else is."""
        c = self.crib
        self.assertEqual(self.files(), sorted(path for *_, path in self.catalog()))
        done = c.run("audit", "verify")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        if not self.files():
            return
        keys = [word for key in c.cli("audit", "keys").split() for word in ("--key", key)]
        done = subprocess.run([crib.BUILD / "toolcrib-verify", *keys, *(c.store / path for path in self.files())], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class ByItself(Seal):
    def test_sc105_months_that_have_ended_become_files(self):
        """One for a log and month, in order, without a gap; the month that goes on stays; each has its record."""
        c = self.crib
        c.start(PLAIN)
        before = self.asked()
        c.stop()
        c.start(ON)
        crib.wait_for("files", lambda: "records are in sealed files" in c.log.read_text())
        self.assertGreater(c.status()["counters"]["seal_files"], 3)
        crib.wait_for("no leftovers", lambda: self.leftovers() == 0)
        self.assertEqual(self.asked(), before)
        catalog = self.catalog()
        ends = {}
        for log, first, end, month, _ in catalog:
            self.assertEqual(first, ends.get(log, 0))
            self.assertEqual((first % 256, end % 256), (0, 0))
            self.assertLessEqual(month, int(f"{LAST:%Y%m}"))
            ends[log] = end
        self.assertEqual(len({(log, month) for log, _, _, month, _ in catalog}), len(catalog))
        for log, end in ends.items():       # fewer than a tile is left of what has ended
            late = c.rows("SELECT min(ts_min) FROM blk WHERE log = ? AND first >= ?", log, end + 256)[0][0]
            self.assertTrue(late is None or late >= self.midnight() or self.held_up(log, end), (log, end))
        self.assertEqual(c.status()["counters"]["seal_files"], len(catalog))
        self.assertEqual(c.status()["counters"]["seal_failed"], 0)
        c.stop()
        c.start(ON)
        self.assertEqual(self.asked(), before)
        self.assertEqual(self.catalog(), catalog)
        self.whole()

    def midnight(self):
        return int(datetime.datetime(THIS.year, THIS.month, 1, tzinfo=datetime.timezone.utc).timestamp() * 1e6)

    def held_up(self, log, end):
        """No checkpoint covers the next tile."""
        return self.crib.rows("SELECT max(size) FROM cp WHERE log = ?", log)[0][0] < end + 256


    def test_sc106_months_that_go_on_are_sealed_when_too_much_is_in_blocks(self):
        """As far as blocks have come, not at the bound but above it; and the drill finds what it changes of files and blocks."""
        c = self.crib
        sums = dict(c.rows("SELECT log, sum(cnt) FROM blk GROUP BY log"))
        late = c.rows("SELECT coalesce(sum(cnt), 0) AS n FROM blk WHERE ts_min >= ? GROUP BY log ORDER BY n DESC LIMIT 1", self.midnight())
        if not late or late[0][0] < 600:
            self.skipTest("the month is too young to have tiles of its own")
        c.start(PLAIN)
        before = self.asked()
        c.stop()
        # what has been sealed below is no more in blocks: a bound of all of it is one that nothing passes
        c.start(ON.replace("}", f", hot_records: {sum(sums.values()) + 1000}}}"))
        crib.wait_for("a pass", lambda: c.status()["counters"]["seal_passes"] > 0)
        self.assertEqual(c.status()["counters"]["seal_early"], 0)
        self.assertLessEqual({month for _, _, _, month, _ in self.catalog()}, {row for row in range(0, int(f"{LAST:%Y%m}") + 1)})
        hot = c.rows("SELECT sum(cnt) FROM blk")[0][0]
        c.stop()
        self.assertGreater(hot, 600)
        c.start(ON.replace("}", ", hot_records: 256}"))
        crib.wait_for("a pass", lambda: c.status()["counters"]["seal_passes"] > 0)
        self.assertEqual(c.status()["counters"]["seal_early"], 1)
        crib.wait_for("no leftovers", lambda: self.leftovers() == 0)
        self.assertIn(int(f"{THIS:%Y%m}"), {month for _, _, _, month, _ in self.catalog()})
        self.assertLess(c.rows("SELECT coalesce(sum(cnt), 0) FROM blk")[0][0], hot)
        self.assertEqual(self.asked(), before)
        self.whole()
        rows = c.json("audit", "drill", "--tenant", self.tenants[0])
        self.assertEqual([row for row in rows if not row["as_expected"]], [])
        self.assertIn("A-T50", {row["tampering"] for row in rows})
        self.whole()


class WhenTold(Seal):
    def test_a_tenant_and_a_month_are_chosen(self):
        c = self.crib
        c.start(PLAIN)
        before = self.asked()
        self.assertEqual(self.catalog(), [])
        first = f"{LAST:%Y-%m}"
        one = self.sealed("--tenant", self.tenants[1], "--before", first)
        log = c.rows("SELECT l.id FROM log l JOIN tenant t ON t.id = l.tenant_id WHERE t.name = ?", self.tenants[1])[0][0]
        catalog = self.catalog()
        self.assertEqual({row[0] for row in catalog}, {log})
        self.assertTrue(all(row[3] < int(f"{LAST:%Y%m}") for row in catalog), catalog)
        self.assertEqual((one["files"], one["records"]), (len(catalog), sum(row[2] - row[1] for row in catalog)))
        self.assertEqual(one["bytes"], sum((c.store / row[4]).stat().st_size for row in catalog))
        self.assertGreater(self.sealed()["files"], 3)
        self.assertEqual(self.sealed()["files"], 0)
        self.assertEqual(self.asked(), before)
        listed = c.json("audit", "segments")
        self.assertEqual(len(listed), len(self.catalog()))
        self.assertEqual({row["state"] for row in listed}, {"here"})
        self.assertEqual({row["verified"] for row in listed}, {None})
        of_one = c.json("audit", "segments", "--tenant", self.tenants[1])
        self.assertEqual({row["tenant"] for row in of_one}, {self.tenants[1]})
        self.assertEqual([row["path"] for row in of_one], [row[4] for row in self.catalog() if row[0] == log])
        self.assertEqual(len(c.json("audit", "segments", "--limit", "2")), 2)
        said = c.rows("SELECT detail FROM v_records WHERE kind = 'admin.cmd' AND detail LIKE '%audit seal%'")
        self.assertEqual(len(said), 2 * 3)      # before it and behind it
        self.whole()

    def test_what_has_been_verified_is_said(self):
        """Whose log was read, or the whole store; not what was sealed later."""
        c = self.crib
        c.start(PLAIN)

        def verified():
            c.cli("audit", "checkpoint")                                # what no key has signed is nobody's word
            return {row["tenant"]: (row["verified"] is not None, row["verified_as"]) for row in c.json("audit", "segments")}
        self.sealed("--tenant", self.tenants[0])
        c.cli("audit", "verify", "--tenant", self.tenants[0])
        c.cli("audit", "verify", "--tenant", self.tenants[2])
        self.sealed()
        c.cli("audit", "verify", "--tenant", self.tenants[1])
        said = verified()
        self.assertEqual([said[name] for name in self.tenants], [(True, "INTACT"), (True, "INTACT"), (False, None)])
        c.cli("audit", "verify")
        self.assertEqual(set(verified().values()), {(True, "INTACT")})

    def test_without_a_server(self):
        self.assertGreater(self.sealed()["files"], 3)
        self.assertEqual(len(self.files()), len(self.catalog()))
        self.crib.start(PLAIN)
        self.whole()

    def test_what_cannot_be_is_refused(self):
        c = self.crib
        c.start(PLAIN)
        later = month_of(THIS + datetime.timedelta(days=40))
        for words, said in ((("--before", later), f"{later} has not begun yet"), (("--before", "2026-13"), "is no month"),
                            (("--before", "2026-1"), "is no month"), (("--before", "yesterday"), "is no month"),
                            (("--tenant", "nobody"), "there is no tenant nobody")):
            self.assertIn(said, self.refused(*words))
        self.assertEqual((self.catalog(), self.files()), ([], []))

    def test_sc808_no_file_takes_the_room_of_calls(self):
        c = self.crib
        c.start("audit: {plain_rows: 0, fold_age: 86400, space_floor: 1048576, space_warn: 0}\n")
        self.assertIn("are for calls", self.refused())
        self.assertEqual((self.catalog(), self.files()), ([], []))
        self.assertGreater(c.status()["counters"]["seal_failed"], 0)
        c.stop()
        c.start(PLAIN)
        self.assertGreater(self.sealed()["files"], 3)


class Pruned(Seal):
    """A tenant has files whose records may go."""

    def setUp(self):
        super().setUp()
        c = self.crib
        self.tenant = self.tenants[0]
        c.cli("approval", "policy", "one")
        c.cli("retention", "set", self.tenant, "--min-days", "0")
        c.start(PLAIN)
        self.assertGreater(self.sealed("--tenant", self.tenant)["files"], 1)
        self.first, *self.later = self.catalog()

    def prune(self, *words):
        return self.crib.run("--yes", "--json", "retention", "prune", self.tenant, *words)

    def at(self, column, row):
        us, = self.crib.rows(f"SELECT {column} FROM seg WHERE log = ? AND from_idx = ?", row[0], row[1])[0]
        return datetime.datetime.fromtimestamp(us / 1e6, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def verified(self, *words):
        """By both verifiers, which share no code, while no server runs."""
        c = self.crib
        self.whole()
        c.stop()
        done = c.run("audit", "verify", *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        programs = ((crib.BUILD / "toolcrib-verify",), crib.sceptic())[:1 if crib.sanitized("toolcrib-verify") else 2]
        for program in programs:
            done = subprocess.run([*program, *crib.evidence(c.store), "--signer-state", c.store / "signer/state", c.store],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def ended(self):
        return self.crib.rows("SELECT count(*) FROM v_records WHERE kind = 'prune.done'")[0][0]


class Prune(Pruned):
    """Records that are old enough go with their files (SC-801)."""

    def test_sc801_whole_files_go(self):
        """Of a file that is old enough in part nothing does; what has gone is in the bundle, and in no answer, and all verifies."""
        c = self.crib
        bundle = c.dir / "gone.tar"
        done = self.prune("--before", self.at("ts_max", self.first), "--dry-run")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"records 0 to {self.first[2] - 1} of {self.tenant} are one sealed file, which goes as a whole", done.stderr)
        done = self.prune("--before", self.at("ts_max", self.later[0]), "--bundle", bundle)
        self.assertEqual(done.returncode, 0, done.stderr)
        row = json.loads(done.stdout)
        self.assertEqual((row["from"], row["to"], row["records"]), (0, self.first[2] - 1, self.first[2]))
        self.assertEqual(self.catalog(), self.later)
        self.assertEqual(self.files(), sorted(path for *_, path in self.later))
        self.assertEqual(c.json("retention", "show", self.tenant)[0]["pruned"], self.first[2])
        self.assertGreater(len(c.json("audit", "calls", "--tenant", self.tenant, "--limit", "0")), 100)
        self.verified("--with-bundle", bundle)
        c.start(PLAIN)
        self.assertGreater(self.sealed()["files"], 1)
        self.verified()

    def test_all_files_and_blocks_behind_them(self):
        c = self.crib
        done = self.prune("--before", "0s", "--bundle", c.dir / "gone.tar")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreaterEqual(json.loads(done.stdout)["to"], self.later[-1][2] - 1)
        self.assertEqual((self.catalog(), self.files()), ([], []))
        self.assertEqual(c.json("retention", "show", self.tenant)[0]["pruned"], json.loads(done.stdout)["to"] + 1)
        self.verified()

    def test_a_hold_keeps_the_file(self):
        c = self.crib
        c.cli("hold", "set", self.tenant, "--reason", "a lawsuit", "--ticket", "L-1", "--from", "3", "--to", "4")
        done = self.prune("--before", "0s", "--bundle", c.dir / "gone.tar")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("held by hold", done.stderr)
        self.assertEqual(len(self.files()), 1 + len(self.later))

    def test_a_bundle_that_ends_within_a_file_is_not_taken(self):
        """Two administrators: between their runs records were sealed."""
        c = self.crib
        bundle = c.dir / "some.tar"
        self.assertGreater(self.first[2], 256)
        c.cli("audit", "bundle", self.tenant, bundle, "--from", "0", "--to", "255")
        done = self.prune("--before", "0s", "--bundle", bundle)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"records 0 to {self.first[2] - 1} are one sealed file now", done.stderr)

    def test_what_cannot_be_removed_is_not_said_to_be_gone(self):
        c = self.crib
        folder, away = (c.store / self.first[-1]).parent, c.dir / "away"
        os.rename(folder, away)
        os.symlink(away, folder)
        done = self.prune("--before", "0s", "--bundle", c.dir / "gone.tar")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("sealed files that were pruned cannot be removed", done.stderr)
        self.assertEqual(len(list(away.iterdir())), 1 + len(self.later))
        self.assertEqual(self.ended(), 0)
        c.stop()
        os.unlink(folder)
        os.rename(away, folder)
        c.start(PLAIN)
        crib.wait_for("the prune's end", lambda: self.ended() == 1)
        self.verified()


class Erase(Seal):
    """Of a tenant that has sealed files, hot blocks and rows behind them (SC-803 to SC-805)."""

    fold = ("--block", "200", "--chapter", "3", "--tail", "100")
    words = ("--yes", "erase", "--ground", "asked for", "--ticket", "E-1")

    def setUp(self):
        super().setUp()
        c = self.crib
        self.tenant = self.tenants[0]
        self.log = c.rows("SELECT l.id FROM log l JOIN tenant t ON t.id = l.tenant_id WHERE t.name = ?", self.tenant)[0][0]
        self.calls, self.people = self.whose()
        c.cli("approval", "policy", "one")
        c.start(PLAIN)
        self.assertGreater(self.sealed("--tenant", self.tenant)["files"], 1)
        crib.wait_for("no leftovers", lambda: self.leftovers() == 0)
        self.before = self.kept()
        self.evidence = c.rows("SELECT from_idx, to_idx, digest, root, set_by FROM seg")
        self.end = self.catalog()[-1][2]

    def whose(self):
        """Indexes by call, and by principal."""
        calls, people = {}, {}
        with contextlib.closing(sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)) as db:
            names = dict(db.execute("SELECT d.id, p.name FROM principal p JOIN dict d ON d.text = p.pseudonym JOIN log l ON l.tenant_id = p.tenant_id "
                                    "WHERE l.id = ?", (self.log,)))
            for row in test_folded.sceptic.Forms(test_folded.sceptic.Verifier(db), self.log, "", 0, 0).of_kinds(1001, 1002):
                calls.setdefault(str(uuid.UUID(bytes=bytes(row["call"]))), set()).add(row["idx"])
                if row["prn"] in names:
                    people.setdefault(names[row["prn"]], set()).add(row["idx"])
        return calls, people

    def erase(self, *words):
        return self.crib.run(*self.words, *words)

    def kept(self):
        """Salts, nonces and ciphertexts by index, in whatever form."""
        groups = self.crib.rows("SELECT first, body FROM blkpay WHERE log = ?", self.log)
        for path in self.crib.store.glob(f"segments/{self.log}/*.tcs"):
            with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as db:
                groups += db.execute("SELECT first, body FROM blkpay").fetchall()
        found = {idx: list(pieces) for idx, *pieces in self.crib.rows(
            "SELECT r.idx, p.salt, p.nonce, p.ct FROM rec r JOIN pay p ON p.rec = r.id WHERE r.log = ?", self.log)}
        for first, body in groups:
            found.update({idx: list(pieces) for idx, pieces in enumerate(test_folded.sceptic.read_payloads(body), first) if pieces[0]})
        return found

    def a_call(self):
        """One whose records are in sealed files, with something kept."""
        return next((call, indexes) for call, indexes in sorted(self.calls.items()) if max(indexes) < self.end and indexes & self.before.keys())

    def pieces(self, indexes):
        return [piece for idx in indexes for piece in self.before.get(idx, ()) if piece]

    def gone(self):
        """Which records of before have nothing any more; of the others all is as it was."""
        after = self.kept()
        self.assertEqual({idx: self.before[idx] for idx in after if idx in self.before},
                         {idx: pieces for idx, pieces in after.items() if idx in self.before})
        return self.before.keys() - after.keys()

    def open_deeds(self):
        return self.crib.rows("SELECT count(*) FROM deed")[0][0]

    def present(self, indexes):
        return test_folded.Folded.present(self.crib.store, self.pieces(indexes))

    def verified(self):
        """By both verifiers, with the keys of what is kept; and the catalog is what it was."""
        c = self.crib
        self.assertEqual(self.files(), sorted(path for *_, path in self.catalog()))
        self.assertEqual(c.rows("SELECT from_idx, to_idx, digest, root, set_by FROM seg"), self.evidence)
        for *_, path in self.catalog():
            self.assertEqual(c.rows("SELECT bytes FROM seg WHERE path = ?", path)[0][0], (c.store / path).stat().st_size)
        self.whole()
        c.stop()
        for program in ((crib.BUILD / "toolcrib-verify",), crib.sceptic())[:1 if crib.sanitized("toolcrib-verify") else 2]:
            done = subprocess.run([*program, *crib.evidence(c.store), "--signer-state", c.store / "signer/state", c.store],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Erased(Erase):
    def test_sc909_of_calls_and_people_nothing_is_in_any_file(self):
        c = self.crib
        c.stop()
        c.start(f"{PLAIN}roles: [{{role: auditor, uid: {os.geteuid()}}}]\n")        # who reads what is kept
        call, indexes = self.a_call()
        name = next(name for name, mine in sorted(self.people.items()) if not mine & indexes)
        states = {row["state"] for row in c.json("audit", "payload", call)}
        self.assertIn("kept", states)
        done = self.erase("--call", call)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.gone(), indexes & self.before.keys())
        self.assertEqual(self.present(indexes), 0)
        # Whoever has had the old file open does not show it any more.
        self.assertEqual({row["state"] for row in c.json("audit", "payload", call)} & {"kept"}, set())
        done = self.erase("--principal", f"{self.tenant}/{name}")
        self.assertEqual(done.returncode, 0, done.stderr)
        gone = self.gone()
        self.assertTrue(self.people[name] & self.before.keys() <= gone, self.people[name] & self.before.keys() - gone)
        self.assertTrue(any(idx >= self.end for idx in gone) and sum(idx < self.end for idx in gone) > 20)
        self.assertLess(len(gone), len(self.before) // 2)
        self.assertEqual(self.present(gone), 0)
        self.assertEqual(self.open_deeds(), 0)
        self.verified()

    def test_sc909_of_a_tenant(self):
        done = self.erase("--tenant", self.tenant)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.gone(), self.before.keys())
        self.assertEqual(self.present(self.before), 0)
        self.verified()

    def test_sc805_leftovers_go_as_well(self):
        """Blocks that a file has replaced and nobody has deleted yet."""
        c = self.crib
        c.stop()
        path = self.catalog()[0][-1]
        with contextlib.closing(sqlite3.connect(f"file:{c.store}/toolcrib.db", isolation_level=None, uri=True)) as db:
            db.execute("ATTACH ? AS file", (f"file:{c.store / path}?mode=ro&immutable=1",))
            db.execute("INSERT INTO blkpay SELECT ?, first, body FROM file.blkpay", (self.log,))
        call, indexes = self.a_call()
        self.assertGreater(len(self.pieces(indexes)), 0)
        done = self.erase("--call", call)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.present(indexes), 0)
        c.start(PLAIN)
        crib.wait_for("no leftovers", lambda: c.rows("SELECT count(*) FROM blkpay WHERE log = ? AND first < ?", self.log, self.end)[0][0] == 0)
        self.verified()

    def test_sc806_a_hold_keeps_it(self):
        c = self.crib
        call, indexes = self.a_call()
        at = str(min(indexes & self.before.keys()))
        c.cli("hold", "set", self.tenant, "--reason", "a lawsuit", "--ticket", "L-1", "--from", at, "--to", at)
        for words in (("--call", call), ("--tenant", self.tenant)):
            done = self.erase(*words)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("held by hold", done.stderr)
        self.assertEqual(self.gone(), set())
        self.verified()

    def test_sc804_while_a_file_is_away_it_stays_intended(self):
        """The keys go, the other files are done, another tenant's erasure is not held up, and nothing of this log is sealed."""
        c = self.crib
        path, name = c.store / self.catalog()[-1][-1], sorted(self.people)[0]
        os.rename(path, c.dir / "away.tcs")
        done = self.erase("--principal", f"{self.tenant}/{name}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(str(path), done.stderr)
        self.assertIn("it stays intended", done.stderr)
        self.assertEqual(self.open_deeds(), 1)
        done = self.erase("--tenant", self.tenants[1])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.open_deeds(), 1)
        self.assertEqual(self.sealed("--tenant", self.tenant)["files"], 0)
        self.assertIn("what was begun could not be ended", c.log.read_text())
        os.rename(c.dir / "away.tcs", path)
        self.assertGreater(len(self.before) - len(self.gone()), 0)
        done = self.erase("--tenant", self.tenants[2])
        self.assertEqual(done.returncode, 0, done.stderr)
        crib.wait_for("the end", lambda: self.open_deeds() == 0)
        gone = self.gone()
        self.assertGreater(len(gone), 20)
        self.assertEqual(self.present(gone), 0)
        self.verified()

    def test_sc804_another_file_in_its_place_is_not_taken_for_it(self):
        c = self.crib
        path, name = c.store / self.catalog()[-1][-1], sorted(self.people)[0]
        data = path.read_bytes()
        changed = c.dir / "changed.tcs"
        changed.write_bytes(data)
        with contextlib.closing(sqlite3.connect(changed, isolation_level=None)) as db:
            db.execute("UPDATE blk SET ts_max = ts_max + 1 WHERE first = (SELECT max(first) FROM blk)")
        os.replace(changed, path)
        done = self.erase("--principal", f"{self.tenant}/{name}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("has other content than the catalog says", done.stderr)
        path.write_bytes(data)
        c.stop()
        c.start(PLAIN)
        crib.wait_for("the end", lambda: self.open_deeds() == 0)
        self.assertGreater(len(self.gone()), 0)
        self.verified()

    def test_t49_a_file_from_before_is_found(self):
        c = self.crib
        call, indexes = self.a_call()
        paths = [c.store / row[-1] for row in self.catalog() if row[1] <= min(indexes & self.before.keys()) < row[2]]
        data = paths[0].read_bytes()
        self.assertEqual(self.erase("--call", call).returncode, 0)
        c.stop()
        paths[0].write_bytes(data)
        for program in ((crib.BUILD / "toolcrib-verify",), crib.sceptic())[:1 if crib.sanitized("toolcrib-verify") else 2]:
            done = subprocess.run([*program, *crib.evidence(c.store), c.store], capture_output=True, text=True)
            self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
            self.assertIn("ERASED_BUT_PRESENT", done.stdout)


class Enemy(Seal):
    """Somebody who can write in the store's folder."""

    def test_a_link_is_not_followed(self):
        c = self.crib
        away = c.dir / "away"
        away.mkdir()
        precious = away / "202601-0.tcs"
        precious.write_text("of somebody")
        log = c.rows("SELECT max(id) FROM log")[0][0]
        c.start(PLAIN)
        os.symlink(away, c.store / f"segments/{log}")
        self.assertIn("it is a link, or not a folder of the store's user alone", self.refused())
        self.assertEqual(precious.read_text(), "of somebody")
        self.assertEqual(list(away.iterdir()), [precious])
        self.assertNotIn(log, {row[0] for row in self.catalog()})
        self.assertGreater(len(self.catalog()), 3)      # other logs are sealed
        c.stop()
        c.start(PLAIN)
        self.assertEqual(list(away.iterdir()), [precious])
        os.unlink(c.store / f"segments/{log}")
        self.assertGreater(self.sealed()["files"], 0)
        self.whole()

    def test_a_folder_that_others_can_write_is_refused(self):
        c = self.crib
        log = c.rows("SELECT max(id) FROM log")[0][0]
        c.start(PLAIN)
        folder = c.store / f"segments/{log}"
        folder.mkdir()
        folder.chmod(0o777)
        self.assertIn("nobody else can write", self.refused("--tenant", self.tenants[-1]))
        folder.chmod(0o700)
        self.assertGreater(self.sealed("--tenant", self.tenants[-1])["files"], 0)

    def test_files_under_the_next_name_are_no_files_of_ours(self):
        """Another log's file, a link, one that nobody finished."""
        c = self.crib
        c.start(PLAIN)
        self.sealed("--tenant", self.tenants[0])
        logs = [row[0] for row in c.rows("SELECT l.id FROM log l JOIN tenant t ON t.id = l.tenant_id WHERE t.name LIKE 'fill%' ORDER BY t.name")]
        mine = [pathlib.Path(path).name for log, *_, path in self.catalog() if log == logs[0]]
        precious = c.dir / "precious"
        precious.write_text("of somebody")
        for log in logs[1:]:
            (c.store / f"segments/{log}").mkdir(mode=0o700)
        (c.store / f"segments/{logs[1]}/{mine[0]}").write_bytes((c.store / f"segments/{logs[0]}/{mine[0]}").read_bytes())
        for month in {name[:6] for name in mine}:
            os.symlink(precious, c.store / f"segments/{logs[2]}/{month}-0.tcs")
            os.symlink(precious, c.store / f"segments/{logs[2]}/{month}-0.tcs.tmp")
        self.assertGreater(self.sealed()["files"], 2)
        self.assertEqual(precious.read_text(), "of somebody")
        c.stop()
        c.start(PLAIN)                          # and those of another month go
        self.assertEqual(precious.read_text(), "of somebody")
        self.whole()

    def test_a_file_that_the_catalog_has_elsewhere_stays(self):
        """A row of another log that was pointed to the name that comes next: nothing is served, and nothing is removed."""
        c = self.crib
        c.start(PLAIN)
        self.sealed("--tenant", self.tenants[0])
        log, first, end, month, path = self.catalog()[0]
        other = c.rows("SELECT l.id FROM log l JOIN tenant t ON t.id = l.tenant_id WHERE t.name = ?", self.tenants[1])[0][0]
        taken = path.replace(f"segments/{log}/", f"segments/{other}/")
        c.stop()
        (c.store / f"segments/{other}").mkdir(mode=0o700)
        os.rename(c.store / path, c.store / taken)
        db = sqlite3.connect(c.store / "toolcrib.db")
        db.execute("UPDATE seg SET path = ? WHERE log = ? AND from_idx = ?", (taken, log, first))
        db.commit()
        db.close()
        data = (c.store / taken).read_bytes()
        with self.assertRaises(AssertionError) as refused:
            c.start(PLAIN)
        c.daemon = None
        self.assertIn("is called as none is", str(refused.exception))
        self.assertEqual((c.store / taken).read_bytes(), data)

    @unittest.skipUnless(os.geteuid() == 0, "needs the right to mount a tmpfs")
    def test_files_on_another_disk(self):
        """Mounted where the folder is: its room is what counts, and without it files are away, as if each were."""
        c = self.crib
        folder = c.store / "segments"

        def mount(size):
            if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", folder], check=False).returncode != 0:
                self.skipTest("no tmpfs here")
            self.addCleanup(subprocess.run, ["umount", "-l", folder], check=False, stderr=subprocess.DEVNULL)
        folder.mkdir(mode=0o700, exist_ok=True)
        mount("9m")
        c.start(PLAIN)
        before = self.asked()
        self.assertIn("are for calls", self.refused())
        subprocess.run(["umount", "-l", folder], check=True)
        mount("64m")
        self.assertGreater(self.sealed()["files"], 3)
        self.assertEqual(self.asked(), before)
        self.assertEqual({os.stat(c.store / path).st_dev for path in self.files()}, {os.stat(folder).st_dev})
        self.assertNotEqual(os.stat(folder).st_dev, os.stat(c.store).st_dev)
        c.stop()
        elsewhere = c.dir / "disk"
        elsewhere.mkdir()
        subprocess.run(["cp", "-a", f"{folder}/.", elsewhere], check=True)
        subprocess.run(["umount", folder], check=True)
        c.start(PLAIN)
        self.assertIn("sealed files are not here", c.status()["files"])
        subprocess.run(["cp", "-a", f"{elsewhere}/.", folder], check=True)
        self.assertEqual(c.status()["files"], "ok")
        self.assertEqual(self.asked(), before)
        self.whole()

    def test_a_missing_file_is_said(self):
        """Not the first one, in which the header looks for the log's first record."""
        c = self.crib
        c.start(PLAIN)
        self.assertGreater(self.sealed("--tenant", self.tenants[0])["files"], 1)
        path = c.store / self.catalog()[-1][-1]
        data = path.read_bytes()

        def state():
            return [row["state"] for row in c.json("audit", "segments", "--tenant", self.tenants[0])][-1]
        path.unlink()
        self.assertEqual(state(), "missing")
        path.write_bytes(data[:-1])
        self.assertEqual(state(), "damaged")
        path.unlink()
        os.symlink(path.parent, path)
        self.assertEqual(state(), "damaged")
        path.unlink()
        path.write_bytes(data)
        self.assertEqual(state(), "here")


if __name__ == "__main__":
    crib.main()
