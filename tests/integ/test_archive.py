"""Sealed files that are elsewhere: moved into an archive they are in every answer, away they are named in each, and nothing else
depends on them; what was moved comes back, and whoever dies in between loses nothing (SCALE SC-002, SC-802, SC-804, SC-906)."""
import contextlib
import datetime
import hashlib
import json
import os
import pathlib
import re
import sqlite3
import subprocess

import crib
import test_seal
from test_seal import PLAIN


class Away(test_seal.Seal):
    """Nothing was moved by a command: somebody did, or a disk is not there."""
    records = 4500

    def test_a_server_starts_without_them_and_says_so(self):
        """Also where records that vouch for rows are in them; rows that have others are compared as ever."""
        c = self.crib
        c.start(PLAIN)
        self.assertGreater(self.sealed()["files"], 3)
        paths = [path for *_, path in self.catalog()]
        accessors = [row["accessor"] for row in c.json("key", "list", self.tenants[0])]
        self.assertEqual(c.status()["files"], "ok")
        c.stop()
        for n, path in enumerate(paths, 1):
            os.rename(c.store / path, c.dir / path.replace("/", "-"))
            c.log.unlink()
            c.start(PLAIN)
            said = f"{n} of {len(paths)} sealed files are not here: {', '.join(paths[:n])}"
            self.assertEqual(c.status()["files"], said)
            crib.wait_for("the log", lambda: said in c.log.read_text())
            self.assertEqual(self.catalog()[n - 1][-1], path)
            c.stop()
        c.start(PLAIN)
        self.assertIn("could not be compared with their records", c.log.read_text())
        self.assertEqual(c.run("audit", "calls", "--tenant", self.tenants[0]).returncode, 5)
        c.cli("--yes", "key", "revoke", accessors[0])           # what vouched for the key before is away
        self.assertEqual(c.run("audit", "verify").returncode, 4)
        for path in paths:
            os.rename(c.dir / path.replace("/", "-"), c.store / path)
        self.assertEqual(c.status()["files"], "ok")
        c.stop()
        c.start(PLAIN)
        self.whole()


class Archive(test_seal.Seal):
    """A server whose configuration has an archive, and files of all tenants."""
    records = 4600          # so that the period's record is behind the last tile that can be pruned: else that is a gap

    def setUp(self):
        super().setUp()
        self.place = self.crib.dir / "archive"
        self.place.mkdir(mode=0o700)
        self.crib.cli("approval", "policy", "one")
        self.crib.cli("retention", "set", self.tenants[0], "--min-days", "0")
        self.serve()
        self.before = self.asked()
        self.assertGreater(self.sealed()["files"], 3)
        self.were = self.catalog()

    def serve(self, env=None):
        self.crib.start(PLAIN.replace("{", f"{{archive: {self.place}, ", 1), env=env)

    def archive(self, *words):
        return self.crib.json("audit", "archive", "--before", "0s", *words)[0]

    def there(self):
        return sorted(str(path) for path in self.place.rglob("*") if not path.is_dir())

    def paths(self):
        return [path for *_, path in self.catalog()]

    def moved(self):
        return self.crib.rows("SELECT count(*) FROM v_records WHERE kind = 'segment.move'")[0][0]

    def verified(self, status=0):
        """By audit verify, then by both verifiers while no server runs: what they said."""
        c = self.crib
        c.stop()
        done = c.run("audit", "verify")
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        said = []
        programs = ((crib.BUILD / "toolcrib-verify",), crib.sceptic())[:1 if crib.sanitized("toolcrib-verify") else 2]
        for program in programs:
            done = subprocess.run([*program, *crib.evidence(c.store), "--signer-state", c.store / "signer/state", c.store],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            said.append(done.stdout)
        return said


class Moved(Archive):
    def test_sc802_moved_files_are_in_every_answer(self):
        """Answers are the same to the byte, each file has its record, both verifiers read it where it is; and they come back."""
        c = self.crib
        dry = self.archive("--dry-run")
        self.assertEqual((dry["files"], dry["records"]), (len(self.were), sum(row[2] - row[1] for row in self.were)))
        self.assertEqual((self.there(), self.paths()), ([], [row[-1] for row in self.were]))
        said = self.archive("--to", self.place)
        self.assertEqual((said["files"], said["records"], said["bytes"]), (dry["files"], dry["records"], dry["bytes"]))
        self.assertEqual(self.paths(), [str(self.place / row[-1][len("segments/"):]) for row in self.were])
        self.assertEqual((self.there(), self.files()), (sorted(self.paths()), []))
        self.assertEqual(self.moved(), len(self.were))
        self.assertEqual(self.archive()["files"], 0)
        self.assertEqual(self.asked(), self.before)
        self.assertEqual({row["state"] for row in c.json("audit", "segments")}, {"archived"})
        self.verified()
        self.serve()
        self.assertEqual(c.json("audit", "attach", self.place)[0]["files"], len(self.were))
        self.assertEqual(self.catalog(), self.were)
        self.assertEqual(self.asked(), self.before)
        self.assertEqual(self.archive("--tenant", self.tenants[0])["files"], sum(row[0] == self.were[0][0] for row in self.were))
        self.assertEqual(self.asked(), self.before)
        self.verified()

    def test_sc802_only_old_ones(self):
        """And none whose youngest record is not older; what cannot be is refused, and nothing is moved."""
        c = self.crib
        us, = c.rows("SELECT ts_max FROM seg ORDER BY ts_max LIMIT 1")[0]

        def at(us):
            return datetime.datetime.fromtimestamp(us / 1e6, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self.assertEqual(c.json("audit", "archive", "--before", at(us))[0]["files"], 0)
        self.assertEqual(c.json("audit", "archive", "--before", at(us + 1))[0]["files"], 1)
        for words, said in ((("--to", c.dir), "is not the archive"), (("--tenant", "nobody"), "there is no tenant nobody")):
            done = c.run("audit", "archive", "--before", "0s", *words)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(said, done.stderr)
        c.stop()
        c.start(PLAIN)
        done = c.run("audit", "archive", "--before", "0s")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the configuration has no audit.archive", done.stderr)

    def test_sc002_away_is_said_by_all(self):
        """Exit status 5 and the month, of reports and of both verifiers; a server starts, serves, and says it; nothing is lost."""
        c = self.crib
        self.archive()
        away = c.dir / "unmounted"
        os.rename(self.place, away)
        name = os.path.basename(self.paths()[0])
        done = c.run("audit", "calls", "--tenant", self.tenants[0], "--limit", "0")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn(f"archive {name} is not here: rows of {name[:4]}-{name[4:6]}", done.stderr)
        said = c.run("--json", "audit", "segments").stdout
        self.assertEqual(set(re.findall(r'"state": ?"(\w+)"', said)), {"away"})
        self.assertIn("sealed files are not here", c.status()["files"])
        for said in self.verified(5):
            for path in self.paths():
                self.assertIn(f"{path}: it is not here", said)
            self.assertRegex(said, "(?m)^INCOMPLETE .* 0 bad")
        self.serve()
        c.stop()
        os.rename(away, self.place)
        self.serve()
        self.assertEqual(self.asked(), self.before)
        self.verified()

    def test_sc704_a_mark_keeps_what_it_knew_of_a_log_that_is_away(self):
        """What could not be read is read from where it was the next time; below that nothing may have changed."""
        c = self.crib
        mark = c.dir / "auditor"
        mark.mkdir()

        def verify(*words):
            return subprocess.run([crib.BUILD / "toolcrib-verify", *crib.evidence(c.store), "--mark", mark / "m", *words, c.store],
                                  capture_output=True, text=True)
        c.stop()
        self.assertEqual(verify().returncode, 0)
        self.serve()
        self.archive()
        c.stop()
        away = c.dir / "unmounted"
        os.rename(self.place, away)
        self.assertEqual(verify("--scrub", "1/1").returncode, 5)
        os.rename(away, self.place)
        done = verify()
        self.assertEqual(done.returncode, 0, done.stdout)
        older = int(re.search(r"; ([\d,]+) older ones were not read again", done.stdout)[1].replace(",", ""))
        self.assertGreater(older, sum(row[2] - row[1] for row in self.were))


class Enemy(Archive):
    def test_another_file_is_refused_by_its_name(self):
        """Of another log, changed, none at all, a link; and one that is here."""
        c = self.crib
        self.archive("--tenant", self.tenants[0])
        mine, *_ = [pathlib.Path(path) for path in self.paths() if path.startswith("/")]
        here = [path for path in self.paths() if not path.startswith("/")][0]
        changed, none, link = c.dir / "changed.tcs", c.dir / "none.tcs", c.dir / "link.tcs"
        changed.write_bytes(mine.read_bytes())
        with contextlib.closing(sqlite3.connect(changed, isolation_level=None)) as db:
            db.execute("UPDATE blk SET ts_max = ts_max + 1 WHERE first = 0")
        none.write_text("of somebody" * 1000)
        link.symlink_to("/etc/passwd")
        for path, said in ((changed, "it is another file than"), (none, "is not attached: "), (link, ""), (c.store / here, "is here"),
                           (c.dir / "nothing.tcs", "")):
            done = c.run("audit", "attach", path)
            self.assertNotEqual(done.returncode, 0, path)
            self.assertIn(os.path.basename(path), done.stderr)
            self.assertIn(said, done.stderr)
        self.assertEqual(self.moved(), sum(path.startswith("/") for path in self.paths()))
        self.assertFalse((c.store / "segments/attach.tmp").exists())
        self.assertEqual(c.json("audit", "attach", mine)[0]["files"], 1)
        self.verified()

    def test_what_is_in_the_archive_is_not_written_over(self):
        c = self.crib
        log, *_, path = self.were[0]
        (self.place / str(log)).mkdir(mode=0o700)
        taken = self.place / str(log) / os.path.basename(path)
        taken.write_text("of somebody")
        done = c.run("audit", "archive", "--before", "0s")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"{taken} is there, and is not the copy of", done.stderr)
        self.assertEqual((taken.read_text(), self.catalog()), ("of somebody", self.were))
        taken.unlink()
        (self.place / str(log)).chmod(0o777)
        self.assertIn("nobody else can write", c.run("audit", "archive", "--before", "0s").stderr)
        self.assertEqual(self.catalog(), self.were)

    def test_an_original_goes_when_the_archive_has_the_same(self):
        """Neither a start nor what is archived next removes the last good one, whatever became of the other."""
        c = self.crib
        self.archive("--tenant", self.tenants[0])
        moved = [(row, path) for row, path in zip(self.were, self.paths()) if path.startswith("/")]
        vouch = [idx for log, idx in c.rows("SELECT rec_log, rec_idx FROM cred") if log == moved[0][0][0]]
        # One that has records which vouch for rows, so that a start has to read it.
        (*_, old), moved = next((row, path) for row, path in moved if any(row[1] <= idx < row[2] for idx in vouch))
        moved, original = pathlib.Path(moved), c.store / old
        good = moved.read_bytes()
        original.write_bytes(good)
        original.chmod(moved.stat().st_mode & 0o777)
        moved.write_bytes(good[:-4096])
        c.stop()
        with self.assertRaisesRegex(AssertionError, "the original of a sealed file stays(?s:.*)it was cut"):
            self.serve()
        self.assertTrue(original.exists())
        moved.write_bytes(good)
        self.serve()
        self.assertFalse(original.exists())
        original.write_bytes(good)
        with contextlib.closing(sqlite3.connect(moved, isolation_level=None)) as db:
            db.execute("UPDATE blk SET ts_max = ts_max + 1")
        self.assertEqual(moved.stat().st_size, len(good))
        done = c.run("audit", "archive", "--before", "0s")
        self.assertIn(str(moved), done.stderr)
        self.assertTrue(original.exists())
        moved.write_bytes(good)
        c.stop()
        self.serve()
        self.assertFalse(original.exists())
        self.verified()

    def test_a_row_that_nobody_moved_is_found(self):
        """A file that was taken away is damage, whatever its row says since."""
        c = self.crib
        path = self.paths()[0]
        c.stop()
        os.rename(c.store / path, c.dir / "away")
        with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db")) as db:
            db.execute("UPDATE seg SET path = '/mnt/' || substr(path, 10) WHERE path = ?", (path,))
            db.commit()
        self.serve()
        self.verified(4)


class Gone(Archive):
    """What is to go goes from the archive as well."""

    def test_sc804_erasing_reaches_the_archive(self):
        """And what was copied away before is not brought back by attaching it."""
        c = self.crib
        self.archive()
        mine = [pathlib.Path(path) for path in self.paths() if f"/{self.were[0][0]}/" in path]
        old = {path.name: path.read_bytes() for path in mine}
        call = c.json("audit", "calls", "--tenant", self.tenants[0], "--limit", "0")[-1]["call"]
        self.assertEqual(c.run("--yes", "erase", "--ground", "asked for", "--ticket", "E-1", "--call", call).returncode, 0)
        self.assertNotEqual({path.name: path.read_bytes() for path in mine}, old)
        self.verified()
        for path in mine:
            path.unlink()
            (c.dir / path.name).write_bytes(old[path.name])
        self.serve()
        for path in mine:
            self.assertEqual(c.json("audit", "attach", c.dir / path.name)[0]["files"], 1)
        self.verified()
        self.assertTrue(any((c.store / "segments" / str(self.were[0][0]) / name).read_bytes() != data for name, data in old.items()))

    def test_sc801_pruned_files_go_from_the_archive(self):
        """While it is away nothing is pruned, or said to be."""
        c = self.crib
        self.archive()
        mine = [path for path in self.there() if f"/{self.were[0][0]}/" in path]
        words = ("--yes", "--json", "retention", "prune", self.tenants[0], "--before", "0s", "--bundle", c.dir / "gone.tar")
        away = c.dir / "unmounted"
        os.rename(self.place, away)
        done = c.run(*words)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("is not here", done.stderr)
        os.rename(away, self.place)
        done = c.run(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(json.loads(done.stdout)["to"], c.rows("SELECT min(set_by) FROM retention")[0][0], "other `records`")
        self.assertEqual([path for path in mine if os.path.exists(path)], [])
        self.assertEqual(self.there(), sorted(self.paths()))
        self.assertEqual(c.rows("SELECT count(*) FROM seg_gone")[0][0], 0)
        self.assertEqual(c.rows("SELECT count(*) FROM v_records WHERE kind = 'prune.done'")[0][0], 1)
        self.verified()

    def test_sc802_pruned_files_are_kept_in_the_archive(self):
        """Only what is there, whole and as the catalog says; the record names them, each verifies alone, and together they are the log."""
        c = self.crib
        words = ("--yes", "--json", "retention", "prune", self.tenants[0], "--before", "0s", "--keep")

        def refused(*more):
            done = c.run(*words, *more)
            self.assertNotEqual(done.returncode, 0, done.stdout)
            return done.stderr
        self.assertIn("contradict", refused("--bundle", c.dir / "gone.tar"))
        self.assertIn("is in no file of an archive", refused())
        self.archive()
        mine = [pathlib.Path(path) for path in self.there() if f"/{self.were[0][0]}/" in path]
        data = mine[-1].read_bytes()
        other, = [path for path in self.there() if pathlib.Path(path) not in mine][:1]
        mine[-1].write_bytes(pathlib.Path(other).read_bytes())
        self.assertIn("it is another file than the catalog says", refused())
        mine[-1].unlink()
        self.assertIn("is not here", refused())
        mine[-1].write_bytes(data)
        mine[-1].chmod(0o600)
        self.assertEqual(c.rows("SELECT count(*) FROM v_records WHERE kind = 'prune'")[0][0], 0)
        end = max(row[2] for row in self.were if row[0] == self.were[0][0])
        self.assertEqual(json.loads(c.cli(*words, "--dry-run"))["to"], end - 1)
        digests = [digest for digest, in c.rows("SELECT digest FROM seg WHERE log = ? ORDER BY from_idx", self.were[0][0])]
        said = json.loads(c.cli(*words))
        self.assertEqual((said["to"], said["bundle"]), (end - 1, None))
        self.assertEqual(said["sha256"], hashlib.sha256(b"".join(digests)).hexdigest())
        crib.wait_for("its end", lambda: c.rows("SELECT count(*) FROM v_records WHERE kind = 'prune.done'")[0][0] == 1)
        self.assertEqual([path.exists() for path in mine], [True] * len(mine))
        self.assertEqual(c.rows("SELECT min_idx FROM log WHERE id = ?", self.were[0][0])[0][0], end)
        self.verified()
        keys = [word for key in c.cli("audit", "keys").split() for word in ("--key", key)]
        done = subprocess.run([crib.BUILD / "toolcrib-verify", *keys, *mine], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.serve()
        self.assertEqual([path.exists() for path in mine], [True] * len(mine), "nor does the next start take them")

    def test_a_backup_leaves_archives_where_they_are(self):
        c = self.crib
        self.archive("--tenant", self.tenants[0])
        said = c.json("backup", c.dir / "copy" / "toolcrib.db") if (c.dir / "copy").mkdir() is None else None
        self.assertEqual(said[0]["sealed"], sum(not path.startswith("/") for path in self.paths()))
        self.assertEqual(said[0]["archived"], sum(path.startswith("/") for path in self.paths()))


class System(crib.Case):
    def test_a_server_needs_no_files_of_the_system(self):
        """In which are the definitions that it serves, and what says which rows have records."""
        c = self.crib
        c.fill(2000, *test_seal.FILL)
        tools = c.dir / "tools.yaml"
        tools.write_text("".join(f"---\nkind: tool\nname: t{n}\ndescription: one of many\ninputSchema: {{type: object}}\n"
                                f"handler: {{type: static, text: n{n}}}\n" for n in range(300)))
        c.cli("apply", "-f", tools)
        c.cli("grant", "add", "fill00000", "t7")
        key = c.cli("key", "create", "fill00000/other").strip()
        for words in (("--block", 100), ("--seal", "all")):
            subprocess.run([crib.BUILD / "tests/bench/b_fold", c.store, *map(str, words)], check=True, capture_output=True)
        paths = [path for path, in c.rows("SELECT path FROM seg WHERE log = 1")]
        self.assertGreater(len(paths), 0)
        c.cli("audit", "adopt", *c.run("audit", "keys").stderr.rpartition("toolcrib audit adopt ")[2].split())
        for path in paths:
            os.rename(c.store / path, c.dir / path.replace("/", "-"))
        c.start(PLAIN)
        with contextlib.closing(c.http(key)) as peer:
            self.assertIn("result", peer.call("t7", {}, crib.MODERN))
        c.cli("--yes", "tool", "remove", "t8")
        c.cli("apply", "-f", tools)
        c.stop()
        for path in paths:
            os.rename(c.dir / path.replace("/", "-"), c.store / path)
        said = c.run("audit", "verify").stdout
        self.assertRegex(said, "(?m)^[A-Z_]+ .* of 4 logs")
        self.assertNotRegex(said, "SEGMENT|REGISTRY|NOT_CHECKED|ROOT")


if __name__ == "__main__":
    crib.main()
