"""product.md 3: the first ten minutes, by hand, first without a daemon and then with one."""
import json
import re
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
        rows = c.json("audit", "calls", "--tenant", "acme", "--since", "1h")
        self.assertEqual([(row["tool"], row["outcome"]) for row in rows], [("echo", "ok")])

    def test_a_second_init_changes_nothing_and_says_so(self):
        c = self.crib.init()
        before = (c.store / "master.key").read_bytes()
        done = c.run("init")
        self.assertEqual(done.returncode, 1)
        self.assertIn("toolcrib:", done.stderr)
        self.assertEqual((c.store / "master.key").read_bytes(), before)

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

    def test_the_quickstart_leads_to_a_call(self):
        """product.md 3: with the programs that are built; what it prints works, and run twice it changes nothing."""
        c = self.crib
        tree = c.dir / "tree"
        shutil.copytree(crib.SOURCE / "contrib/examples", tree / "contrib/examples")
        shutil.copy(crib.SOURCE / "contrib/quickstart", tree / "contrib/quickstart")
        (tree / "contrib/deps").write_text("#!/bin/sh\n")
        (tree / "contrib/deps").chmod(0o755)
        (tree / "_build").mkdir()
        (tree / "_build/quick").symlink_to(crib.BUILD.resolve())
        c.config()
        (c.dir / "config/toolcrib").mkdir(parents=True, exist_ok=True)
        (c.dir / "toolcribd.yaml").rename(c.dir / "config/toolcrib/toolcribd.yaml")     # any port
        c.store = c.dir / "data/toolcrib-demo/store"

        def quickstart(*words):
            done = subprocess.run(["sh", tree / "contrib/quickstart", *words], capture_output=True, text=True, timeout=60,
                                  env={**c.env, "XDG_DATA_HOME": str(c.dir / "data")})
            self.assertEqual(done.returncode, 0, done.stderr)
            return done
        self.addCleanup(quickstart, "--stop")
        first = quickstart()
        key = re.search(r"tck_\w+", first.stdout).group()
        for word in ("init", "tenant add demo", "tool add", "grant add demo", "key create"):
            self.assertRegex(first.stderr, rf"\+ .*toolcrib .*{word}", "each command is echoed")
        entries = [json.JSONDecoder().raw_decode(first.stdout, at.start())[0] for at in re.finditer(r'\{"mcpServers"', first.stdout)]
        self.assertEqual([host["crib"].get("type", "stdio") for host in (entry["mcpServers"] for entry in entries)], ["http", "stdio"])
        self.assertTrue(all(key in json.dumps(entry) for entry in entries))
        body = re.search(r"-d '(.*)'", first.stdout).group(1)
        c.ports = {"http": next(row["address"] for row in c.json("status")[0]["listeners"] if row["transport"] == "http")}
        peer = c.http(key)
        self.assertEqual(peer.post(body, peer.headers())[0], 200)
        peer.close()
        self.assertEqual([row["tool"] for row in c.json("audit", "calls", "--tenant", "demo", "--since", "1h")], ["get_weather"])
        before = c.cli("export"), c.cli("key", "list", "demo")
        again = quickstart()
        self.assertEqual((c.cli("export"), c.cli("key", "list", "demo")), before)
        self.assertEqual(re.search(r"tck_\w+", again.stdout).group(), key)


if __name__ == "__main__":
    crib.main()
