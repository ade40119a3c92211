"""A backup comes back, and a store that lacks its keys is not served as if nothing were."""
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess

import crib

PAGE = crib.SOURCE / "src/main/toolcribd.8"


def runbook(title):
    """The commands of a section of toolcribd(8), as they stand there."""
    section = PAGE.read_text().split(f".Ss {title}\n")[1].split("\n.S")[0]
    return section.split(".Bd -literal -offset indent\n")[1].split(".Ed\n")[0]


class Kept(crib.Case):
    """A store with one call whose arguments are kept."""

    def setUp(self):
        super().setUp()
        self.c = self.crib.init()
        self.c.tool(crib.ECHO)
        self.key = self.c.tenant("acme", "echo")
        self.c.cli("level", "set", "request_response", "--tenant", "acme")
        self.c.cli("call", "acme", "echo", "text=before")

    def starts(self):
        return [detail for detail, in self.c.rows("SELECT detail FROM v_records WHERE kind = 'server.start' ORDER BY idx")]

    def refused(self, *said):
        """A start that is refused, before it has written anything."""
        before = {path: path.read_bytes() for path in self.c.store.iterdir() if path.name in ("toolcrib.db", "keys.db")}
        done = self.c.run("status")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        for text in said:
            self.assertIn(text, done.stderr)
        for path, content in before.items():
            self.assertEqual(path.read_bytes(), content, path)
        return done.stderr


class Backup(Kept):
    def type(self, title, folder, path="path"):
        """Type the commands of a section in a shell; what they cannot do here (systemctl, a user of the service) is noted."""
        text = re.sub(r"(\w)=(/var/lib/toolcrib|/backup/\w+)", lambda m: f"{m[1]}={self.place(m[2], folder)}", runbook(title))
        tools = self.c.dir / path
        if not tools.exists():
            tools.mkdir()
            for name in ("systemctl", "chown"):
                (tools / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {tools}/did\n')
                (tools / name).chmod(0o755)
        env = {**self.c.env, "PATH": f"{tools}:{crib.BUILD.resolve()}:{os.environ['PATH']}",
               "TOOLCRIB_STORE": str(self.place("/var/lib/toolcrib", folder))}
        done = subprocess.run(["sh", "-eu", "-c", text], env=env, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def place(self, path, store):
        return store if path == "/var/lib/toolcrib" else self.c.dir / path.lstrip("/")

    def test_n01_the_runbook_of_the_manual_on_the_same_host(self):
        """found.md N-01: offline, then calls, then the older store is put back; the step back is on record."""
        said = self.type("Taking a backup", self.c.store)
        self.assertRegex(said, r"a start needs beside it: master\.key\n")
        self.c.cli("tenant", "add", "later")
        self.c.cli("call", "acme", "echo", "text=after")
        records = self.c.rows("SELECT count(*) FROM rec")[0][0]
        self.assertRegex(self.type("Trying a backup", self.c.store), r"(?m)^gap +\S+ +\d+ records, .* are missing$")
        self.assertFalse((self.place("/backup/store", self.c.store) / "try").exists())
        said = self.type("Putting it back on the same host", self.c.store)
        self.assertIn("INTACT", said)
        self.assertEqual(self.c.rows("SELECT * FROM meta WHERE key = 'put_back'"), [])
        self.assertLess(self.c.rows("SELECT count(*) FROM rec")[0][0], records)
        back = [detail for detail in self.starts() if "put back from a copy that ends at system:" in detail]
        self.assertEqual(len(back), 1, self.starts())
        self.assertEqual(self.c.cli("call", "acme", "echo", "text=x").strip(), "x")
        self.assertEqual([row["name"] for row in self.c.json("tenant", "list")], ["acme"])
        self.assertIn("INTACT", self.c.cli("audit", "verify"))          # and what is kept opens
        lost = pathlib.Path(f"{self.c.store}.lost")
        self.assertTrue((lost / "toolcrib.db").exists() and (lost / "signer/state").exists())
        did = (self.c.dir / "path/did").read_text()
        self.assertIn("systemctl stop toolcribd\n", did)

    def test_n01_the_runbook_of_the_manual_on_a_new_host(self):
        """found.md N-01: from a running server's backup, with secrets under a second key file; nothing else is needed."""
        self.c.cli("secret", "set", "s", stdin="value")
        self.c.cli("secret", "rekey")
        self.c.start()
        self.type("Taking a backup", self.c.store)
        self.c.cli("tenant", "add", "later")
        self.c.stop()
        gone = self.c.dir / "gone"
        self.c.path.rename(gone)
        self.assertIn("INTACT", self.type("Putting it back on a new host", self.c.path))
        self.c.start()
        self.assertEqual(self.c.status()["files"], "ok")
        self.assertIn("result", self.c.http(self.key).call("echo", {"text": "x"}, crib.MODERN))
        self.assertEqual(len([detail for detail in self.starts() if "put back" in detail]), 1)
        self.assertEqual((self.c.dir / "store/signer").stat().st_mode & 0o777, 0o700)

    def test_n01_the_answer_names_what_a_start_needs(self):
        said = self.c.cli("backup", self.c.dir / "b.db")
        self.assertIn("a start needs beside it: master.key, keys.db (--keys FILE copies it), the directory of the signer", said)
        for words in (["--keys", "b.db"], ["--signer", "b.db"]):        # it exists: nothing is left behind
            done = self.c.run("backup", self.c.dir / "c.db", *[word.replace("b.db", str(self.c.dir / "b.db")) for word in words])
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertFalse((self.c.dir / "c.db").exists())

    def test_n01_an_older_store_alone_names_the_way_back(self):
        self.c.cli("backup", self.c.dir / "b.db")
        self.c.cli("tenant", "add", "later")
        for name in ("toolcrib.db", "toolcrib.db-wal", "toolcrib.db-shm"):
            (self.c.store / name).unlink(missing_ok=True)
        shutil.copy(self.c.dir / "b.db", self.c.store / "toolcrib.db")
        for _ in range(2):                                              # the first look takes nothing of it away
            done = self.c.run("status")
            self.assertEqual(done.returncode, 3)
            self.assertIn("SIGNER_AHEAD", done.stderr)
            self.assertIn("toolcribd(8), BAD NIGHTS", done.stderr)
            self.assertEqual(self.c.rows("SELECT value FROM meta WHERE key = 'put_back'"), [("1",)])


class Sealed(crib.Case):
    """Sealed files lie beside a copy, each copied once (SCALE SC-807)."""

    def setUp(self):
        super().setUp()
        c = self.c = self.crib
        c.fill(1800, "--tenants", 2, "--days", crib.days_back(70), fold=("--block", "120", "--chapter", "3"))
        self.assertGreater(c.json("audit", "seal", "--tenant", "fill00000")[0]["files"], 1)
        self.folder = c.dir / "copies"
        self.folder.mkdir()

    def files(self, folder):
        return {str(path.relative_to(folder)): path for path in folder.rglob("*.tcs")}

    def copied(self, name, expect=None):
        """What the answer says of sealed files; with a text, the refusal that has it, which leaves no copy."""
        done = self.c.run("--json", "backup", self.folder / name)
        self.assertIn(done.returncode, (1, 3) if expect else (0,), done.stdout + done.stderr)
        self.assertEqual((self.folder / name).exists(), not expect)
        self.assertEqual(list(self.folder.rglob("*.tmp")), [])
        if expect:
            self.assertIn(expect, done.stderr)
            return None
        row = crib.json.loads(done.stdout)
        self.assertEqual(set(self.files(self.folder)) >= set(self.files(self.c.store)), True)
        return row["sealed"], row["sealed_new"]

    def restored(self, *options, source, expect=0):
        to = self.c.dir / "back"
        done = self.c.run("--json", "restore", "--from", source, "--keys", self.c.store, "--to", to, *options)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        said = set(self.files(to))
        shutil.rmtree(to, ignore_errors=True)
        return said

    def nights(self):
        """A night costs what is new, an erased file counts as new, and each copy comes back with its own files."""
        first = set(self.files(self.c.store))
        self.assertGreater(len(first), 1)
        self.assertEqual(self.copied("1.db"), (len(first), len(first)))
        self.assertEqual(self.copied("2.db"), (len(first), 0))
        made = self.c.json("audit", "seal")[0]["files"]
        self.assertGreater(made, 0)
        self.assertEqual(self.copied("3.db"), (len(first) + made, made))
        for path, copy in self.files(self.folder).items():
            self.assertEqual(copy.read_bytes(), (self.c.store / path).read_bytes())
            self.assertEqual(copy.stat().st_mode & 0o777, 0o600)
        some = self.c.store / sorted(first)[0]
        os.utime(some)                                                  # as somebody who writes in it does
        self.assertEqual(self.copied("4.db"), (len(first) + made, 1))
        return first

    def test_sc807_a_night_costs_what_is_new(self):
        first = self.nights()
        self.assertEqual(self.restored(source=self.folder / "1.db"), first)
        self.assertEqual(self.restored(source=self.folder / "3.db"), set(self.files(self.c.store)))
        (self.folder / sorted(first)[0]).unlink()
        for options, code in (((), 4), (("--verify", "quick"), 4), (("--verify", "none"), 5)):
            self.restored(*options, source=self.folder / "1.db", expect=code)

    def test_sc807_beside_a_server_that_may_not_write_there(self):
        self.c.start("audit: {seal: off}\n")
        self.nights()

    def test_sc807_no_copy_lacks_a_file(self):
        """One that is not here, that is another one, or whose name somebody else's file has: there is no copy at all."""
        c = self.c
        path, other = sorted(self.files(c.store))[:2]
        c.start()
        kept = (c.store / path).read_bytes()
        (c.store / path).unlink()
        self.copied("1.db", "is not here, and the catalog says it is")
        self.assertFalse((self.folder / "segments").exists())
        (c.store / path).write_bytes((c.store / other).read_bytes())
        self.copied("1.db", "it is another file than the catalog says")
        (c.store / path).write_bytes(kept[:-1])
        self.copied("1.db", "it was cut, or something was added")
        (c.store / path).write_bytes(kept)
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_bytes(b"somebody's own")
        self.copied("1.db", "is there, and is not the copy of")
        self.assertEqual((self.folder / path).read_bytes(), b"somebody's own")
        (self.folder / path).unlink()
        (self.folder / f"{path}.tmp").write_bytes(b"of a copy that was killed")
        self.copied("1.db")


class Keys(Kept):
    def test_n03_a_lost_keys_db_refuses_the_start(self):
        """found.md N-03: the store knows that it had keys; a person gives them up, on record."""
        gone = self.c.dir / "keys.db"
        (self.c.store / "keys.db").rename(gone)
        self.refused("keys.db is missing or empty", "toolcrib audit adopt keys.db")
        self.assertFalse((self.c.store / "keys.db").exists())
        shutil.copy(gone, self.c.store / "keys.db")
        self.assertEqual(self.c.status()["files"], "ok")
        (self.c.store / "keys.db").unlink()
        self.c.cli("audit", "adopt", "keys.db")
        self.assertTrue([detail for detail in self.starts() if "keys.db is lost: payload keys up to" in detail], self.starts())
        last = self.c.rows("SELECT max(key) FROM rec")[0][0]
        self.c.cli("call", "acme", "echo", "text=after")
        self.assertGreater(self.c.rows("SELECT max(key) FROM rec")[0][0], last)
        self.assertRegex(self.c.status()["files"], r"keys.db was lost: what was kept of calls before \d{4}-")
        done = self.c.run("audit", "verify")
        self.assertEqual((done.returncode, "KEY_MISSING" in done.stdout), (5, True), done.stdout)      # records are whole, a gap stays

    def test_n03_an_older_or_emptied_keys_db_is_noticed(self):
        kept = {"emptied": b"", "older": (self.c.store / "keys.db").read_bytes()}
        self.c.tenant("other", "echo")
        self.c.cli("call", "other", "echo", "text=x")
        for name, content in kept.items():
            with self.subTest(file=name):
                (self.c.store / "keys.db").write_bytes(content)
                self.refused("lacks keys that this store has given" if content else "is missing or empty", "put the newest keys.db back")

    def test_n03_a_keys_db_of_another_store_is_told_apart(self):
        other = crib.Crib()
        self.addCleanup(other.close)
        other.cli("init")                                               # none of the shelf, which all have one master key
        other.tool(crib.ECHO)
        for name in ("a", "b"):
            other.cli("tenant", "add", name)
            other.cli("grant", "add", name, "echo")
            other.cli("call", name, "echo", "text=x")
        shutil.copy(other.store / "keys.db", self.c.store / "keys.db")
        self.refused("keys.db is another store's", "put this store's own back")

    def test_n04_another_master_key_is_refused(self):
        """found.md N-04: one of the right length; with none at all the hint does not lead to init."""
        master = self.c.store / "master.key"
        right = master.read_bytes()
        master.unlink()
        for content, said in ((os.urandom(32), "is not the master key of this store"), (right[:-1], "must have exactly 32 bytes"),
                              (b"", "must have exactly 32 bytes"), (None, "toolcrib-verify")):
            with self.subTest(said=said):
                if content is not None:
                    master.write_bytes(content)
                    master.chmod(0o400)
                said = self.refused(said, "put")
                self.assertNotIn("toolcrib init", said)
                master.unlink(missing_ok=True)
        master.write_bytes(right)
        master.chmod(0o400)
        self.assertEqual(self.c.status()["files"], "ok")

    def test_n04_a_store_from_before_learns_its_master_key(self):
        with sqlite3.connect(self.c.store / "toolcrib.db") as db:
            db.execute("DELETE FROM meta WHERE key IN ('master_key', 'keys_given')")
        db.close()
        master = self.c.store / "master.key"
        right = master.read_bytes()
        master.chmod(0o600)
        master.write_bytes(os.urandom(32))
        self.refused("is not the master key of this store")
        master.write_bytes(right)
        self.c.cli("status")
        self.assertIn(", master.key taken down by the payload keys under it", self.starts()[-1])
        self.assertEqual(self.c.rows("SELECT count(*) FROM meta WHERE key = 'master_key'"), [(1,)])
        (self.c.store / "keys.db").unlink()
        self.refused("keys.db is missing")

    def test_status_names_modes_that_let_others_in(self):
        self.c.store.chmod(0o750)
        (self.c.store / "keys.db").chmod(0o644)
        self.assertEqual(self.c.status()["files"], "others may use the folder: its mode is 750; others may use keys.db: its mode is 644")


if __name__ == "__main__":
    crib.main()
