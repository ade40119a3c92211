"""Key files that are put away, encrypted (OP-516): Debian's age and tar open the file, a store is put back with what is in it, and
whoever looks after the store hears of a key file that came later, of a file that was changed and of none."""
import json
import shutil
import subprocess
import tarfile

import crib

AGE = shutil.which("age")


class Escrow(crib.Case):
    def setUp(self):
        super().setUp()
        self.c = self.crib.init()
        self.file = self.c.dir / "keys.age"
        if AGE:
            self.identity = self.c.dir / "identity"
            subprocess.run(["age-keygen", "-o", self.identity], check=True, capture_output=True)
            self.recipient = subprocess.run(["age-keygen", "-y", self.identity], check=True, capture_output=True, text=True).stdout.strip()
        else:
            self.recipient = "age1t7rxyev2z3rw82stdlrrepyc39nvn86l5078zqkf5uasdy86jp6svpy7pa"

    def doctor(self):
        rows = [json.loads(line) for line in self.c.run("--json", "doctor").stdout.splitlines()]
        return [row for row in (row.get("row", row) for row in rows) if row["what"] == "escrow"]

    def fails(self, *words, code=1):
        done = self.c.run("keys", "escrow", *words)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_op516_what_is_put_away_is_what_there_is(self):
        c = self.c
        self.assertEqual(self.doctor(), [])
        self.assertIn("no key file of this store was ever put away", self.fails(self.file, "--check"))
        row = c.json("keys", "escrow", self.file, "--to", self.recipient)[0]
        self.assertEqual((row["keys"], self.file.stat().st_mode & 0o777), (1, 0o600))
        self.assertIn("age-encryption.org/v1", self.file.read_bytes()[:40].decode())
        self.assertFalse((c.store / "master.key").read_bytes() in self.file.read_bytes())
        self.assertFalse((c.store / "master.key").read_bytes() in (c.store / "escrow").read_bytes())
        self.assertIn("it is what was put away", c.cli("keys", "escrow", self.file, "--check"))
        self.assertEqual([one["class"] for one in self.doctor()], ["ok"])
        self.assertIn("is there already", self.fails(self.file, "--to", self.recipient))

        c.cli("secret", "rekey")
        self.assertEqual(len(list(c.store.glob("secret-*.key"))), 1)
        name = next(c.store.glob("secret-*.key")).name
        self.assertIn(f"was made before these key files: {name}", self.fails(self.file, "--check"))
        finding = self.doctor()[0]
        self.assertEqual(finding["class"], "warn")
        self.assertIn(name, finding["said"])
        second = c.dir / "second.age"
        self.assertEqual(c.json("keys", "escrow", second, "--to", self.recipient)[0]["keys"], 2)
        self.assertEqual([one["class"] for one in self.doctor()], ["ok"])
        self.assertIn("is not what was put away", self.fails(self.file, "--check", code=3))
        text = bytearray(second.read_bytes())
        text[-1] ^= 1
        second.write_bytes(text)
        self.assertIn("is not what was put away", self.fails(second, "--check", code=3))

    def test_op516_age_opens_it_and_the_store_opens_with_it(self):
        if not AGE:
            self.skipTest("there is no age: Debian's package of that name has it")
        c = self.c
        c.cli("secret", "set", "shop", stdin="s3same\n")
        c.cli("secret", "rekey")
        c.cli("keys", "escrow", self.file, "--to", self.recipient)
        opened, lost = c.dir / "opened.tar", c.dir / "lost"
        subprocess.run([AGE, "-d", "-i", self.identity, "-o", opened, self.file], check=True)
        lost.mkdir()
        names = ["master.key", *(path.name for path in c.store.glob("secret-*.key"))]
        with tarfile.open(opened) as tar:
            self.assertEqual(sorted(tar.getnames()), sorted(names))
        kept = {name: (c.store / name).read_bytes() for name in names}
        for name in names:
            (c.store / name).rename(lost / name)
        self.assertNotEqual(c.run("tenant", "list").returncode, 0)
        subprocess.run(["tar", "-x", "-p", "-C", c.store, "-f", opened], check=True)
        self.assertEqual({name: (c.store / name).read_bytes() for name in names}, kept)
        c.cli("secret", "list")
        c.start()
        c.stop()

    def test_op516_for_several_and_for_nobody_else(self):
        other = "age1yt3tfqlfrwdwx0z0ynwplcr6qxcxfaqycuprpmy89nr83ltx74tqdpszlw"
        self.c.cli("keys", "escrow", self.file, "--to", f"{self.recipient},{other}")
        self.assertEqual(self.file.read_bytes().split(b"\n---")[0].count(b"-> X25519"), 2)
        for words in ((), ("--to", self.recipient, "--check")):
            self.assertIn("say --to, whom the key files are for, or --check", self.fails(self.c.dir / "x", *words))
        for to in ("age1", "ssh-ed25519 AAAA", ",".join([other] * 17), other[:-1] + "q"):
            with self.subTest(to):
                self.assertNotEqual(self.c.run("keys", "escrow", self.c.dir / "x", "--to", to).returncode, 0)
        self.assertFalse((self.c.dir / "x").exists())
        (self.c.store / "secret-0123456789abcdef.key").write_bytes(b"short")
        self.assertNotEqual(self.c.run("keys", "escrow", self.c.dir / "y", "--to", other).returncode, 0)
        self.assertFalse((self.c.dir / "y").exists())


if __name__ == "__main__":
    crib.main()
