"""product.md 3: the first ten minutes, by hand, first without a daemon and then with one (test_readme.py types README)."""
import os
import shutil
import subprocess

import crib


class FirstMinutes(crib.Case):
    def test_by_hand_without_a_daemon(self):
        c = self.crib.init()
        self.assertTrue((c.store / "toolcrib.db").exists())
        self.assertEqual(c.store.stat().st_mode & 0o077, 0, "a store is its owner's alone")
        c.cli("tenant", "add", "acme")
        key = c.key("acme/build-bot", "--ttl", "90d")
        self.assertRegex(key, r"^tck_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}$")
        c.tool(crib.ECHO)
        c.cli("grant", "add", "acme", "echo")
        self.assertIn("hello", c.cli("call", "acme", "echo", "text=hello"))
        self.assertEqual(c.json("status")[0]["confined"], None, "nothing is served, so nobody is confined")
        rows = c.json("audit", "calls", "--tenant", "acme", "--since", "1h")
        self.assertEqual([(row["tool"], row["outcome"]) for row in rows], [("echo", "ok")])

    def test_a_second_init_changes_nothing_and_says_so(self):
        c = self.crib.init()
        before = (c.store / "master.key").read_bytes()
        done = c.run("init")
        self.assertEqual(done.returncode, 1)
        self.assertIn("toolcrib:", done.stderr)
        self.assertEqual((c.store / "master.key").read_bytes(), before)

    def test_n14_init_says_what_the_system_said(self):
        """found.md N-14: a folder that is not ours to write is no missing one; with the unit's own lines there is one that is."""
        other = 65534 if os.geteuid() == 0 else None
        parent = self.crib.dir / "var"
        parent.mkdir()
        parent.chmod(0o755 if other else 0o555)
        self.crib.let_others_in()
        self.crib.store = parent / "crib"
        done = self.crib.run("init", user=other)
        self.assertEqual((done.returncode, "Permission denied" in done.stderr), (3, True), done.stderr)
        lines = (crib.SOURCE / "etc/toolcribd.service").read_text().splitlines()
        steps = [line.strip("# ") for line in lines if "/var/lib/toolcrib" in line and line.startswith("#")]
        made = next(i for i, step in enumerate(steps) if step.startswith("install -d"))
        self.assertIn("init", steps[made + 1])
        if other:
            words = steps[made].replace("/var/lib/toolcrib", str(self.crib.path)).replace(" toolcrib ", f" {other} ").split()
            subprocess.run(words, check=True)
            done = self.crib.run("init", user=other)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_n14_quickstart_stops_the_server_of_its_folder(self):
        """found.md N-14: `--stop DIR` ended that of the default folder."""
        top, demo = self.crib.dir / "top", self.crib.dir / "mine"
        for part in ("contrib", "_build/quick"):
            (top / part).mkdir(parents=True)
        shutil.copy(crib.SOURCE / "contrib/quickstart", top / "contrib")
        fake = top / "_build/quick/toolcrib"
        fake.write_text(f'#!/bin/sh\necho "$*" >> {top}/said\n')
        fake.chmod(0o755)
        done = subprocess.run(["sh", "contrib/quickstart", "--stop", str(demo)], cwd=top, capture_output=True, text=True, check=False,
                              env={**os.environ, "HOME": str(top), "XDG_DATA_HOME": str(top)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"--store {demo}/store ", (top / "said").read_text())

    def test_init_makes_no_second_key_for_a_store_in_use(self):
        c = self.crib.init()
        c.cli("tenant", "add", "acme")
        (c.store / "master.key").rename(c.dir / "kept")
        done = c.run("init")
        self.assertEqual(done.returncode, 1)
        self.assertIn("without its master.key", done.stderr)
        self.assertFalse((c.store / "master.key").exists())
        (c.dir / "kept").rename(c.store / "master.key")
        self.assertIn("acme", c.cli("tenant", "list"))

    def test_the_files_of_a_new_store_are_their_owners(self):
        """SEC S-341, S-103, product.md 7: the directory 0700, the master key 0400, sockets for the user and the group alone."""
        c = self.crib.init()
        modes = {path.relative_to(c.store).as_posix(): path.stat().st_mode & 0o777 for path in c.store.rglob("*")}
        self.assertEqual(c.store.stat().st_mode & 0o777, 0o700)
        self.assertEqual((modes["master.key"], modes["toolcrib.db"], modes["keys.db"], modes["signer"]), (0o400, 0o600, 0o600, 0o700))
        self.assertEqual([name for name, mode in modes.items() if mode & 0o077], ["signer/state"], "what it knows is no secret")
        c.start()
        self.assertEqual((c.dir / "agents.sock").stat().st_mode & 0o777, 0o660)
        self.assertEqual([path.name for path in c.store.rglob("*") if path.stat().st_mode & 0o007], [])

    def test_no_store_is_exit_3_with_a_hint(self):
        done = self.crib.run("tenant", "list")
        self.assertEqual(done.returncode, 3)
        self.assertIn("toolcrib init", done.stderr)

    def test_key_is_shown_once_and_is_in_no_file(self):
        c = self.crib.init()
        key = c.tenant("acme")
        c.start()
        peer = c.http(key)
        self.assertIn("tools", peer.ask("tools/list", rev=crib.MODERN)["result"])
        peer.close()
        c.cli("key", "list", "acme")
        c.stop()
        secret = key.split("_")[2]
        for path in c.dir.rglob("*"):
            if path.is_file():
                self.assertNotIn(secret.encode(), path.read_bytes(), path)

    def test_same_commands_through_the_daemon(self):
        c = self.crib.init()
        c.start()
        key = c.tenant("acme")
        c.tool(crib.ECHO)
        peer = c.http(key)
        self.assertEqual(peer.tools(crib.MODERN), [])
        c.cli("grant", "add", "acme", "echo")
        self.assertEqual(peer.tools(crib.MODERN), ["echo"])
        got = peer.call("echo", {"text": "hello"}, crib.MODERN)["result"]
        self.assertEqual(got["content"], [{"type": "text", "text": "hello"}])
        self.assertEqual(got["resultType"], "complete")
        rows = c.json("audit", "calls", "--tenant", "acme")
        self.assertEqual(len(rows), 1)
        shown = c.json("audit", "show", rows[0]["call"], "--tenant", "acme")
        kinds = [record["kind"] for record in (shown[0].get("records") or shown)]
        self.assertEqual(kinds, ["call.begin", "call.end"])
        peer.close()
        self.assertEqual(c.stop(), 0)


if __name__ == "__main__":
    crib.main()
