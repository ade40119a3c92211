"""Upstreams: MCP servers whose tools are hosted, from `upstream add` to a call through them."""

import crib


class Documents(crib.Case):
    """What is said of an upstream before anything is started."""

    def setUp(self):
        super().setUp()
        self.crib.init()

    def refused(self, *words, code=1):
        done = self.crib.run(*words)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr

    def definition(self, name):
        return self.crib.json("upstream", "show", name)[0]["definition"]

    def test_words_become_a_document(self):
        c = self.crib
        self.assertIn("upstream every added", c.cli("upstream", "add", "every", "--env", "A=1", "--prefix", "ev_",
                                                    "--command", "/bin/cat", "-u", "--", "--env"))
        self.assertEqual(self.definition("every"), {"kind": "upstream", "name": "every", "prefix": "ev_", "env": {"A": "1"},
                                                    "command": ["/bin/cat", "-u", "--", "--env"]})
        self.assertIn("unchanged", c.cli("upstream", "add", "every", "--env", "A=1", "--prefix", "ev_",
                                         "--command", "/bin/cat", "-u", "--", "--env"))
        c.cli("upstream", "add", "api", "--url", "https://mcp.example/mcp", "--shared", "yes")
        self.assertEqual([(row["name"], row["by"]) for row in c.json("upstream", "list")],
                         [("api", "url"), ("every", "command")])

    def test_the_program_is_found_by_path_once_when_it_is_added(self):
        self.crib.cli("upstream", "add", "every", "--command", "cat")
        self.assertRegex(self.definition("every")["command"][0], "^/.*/cat$")
        self.assertIn("no program no-such-program is in PATH",
                      self.refused("upstream", "add", "x", "--command", "no-such-program", code=2))

    def test_set_changes_what_is_named_and_an_empty_value_takes_away(self):
        c = self.crib
        c.cli("upstream", "add", "every", "--env", "A=1", "--env", "B=2", "--command", "/bin/cat")
        self.assertIn("changed", c.cli("upstream", "set", "every", "--env", "A=", "--env", "C=3", "--idle", "5s"))
        self.assertEqual(self.definition("every"), {"kind": "upstream", "name": "every", "command": ["/bin/cat"],
                                                    "env": {"B": "2", "C": "3"}, "idle": "5s"})
        c.cli("upstream", "set", "every", "--url", "https://mcp.example/mcp")
        self.assertEqual(self.definition("every"), {"kind": "upstream", "name": "every", "idle": "5s",
                                                    "url": "https://mcp.example/mcp"})
        self.assertIn("disabled", c.cli("upstream", "set", "every", "--enabled", "no"))
        self.assertEqual(c.json("upstream", "show", "every")[0]["state"], "disabled")
        self.assertIn("nothing to set", self.refused("upstream", "set", "every"))

    def test_documents_point_at_what_is_wrong_in_them(self):
        path = self.crib.dir / "upstreams.yaml"
        path.write_text("kind: upstream\nname: docs\ncommand: [/bin/cat]\nasks: maybe\n")
        self.assertIn("upstreams.yaml:4:1: asks: must be true or false", self.refused("upstream", "add", "--file", path))
        path.write_text("kind: upstream\nname: docs\ncommand: [/bin/cat]\n---\nkind: upstream\nname: b\nurl: https://b.example/\n")
        self.assertEqual(self.crib.cli("upstream", "add", "--file", path).splitlines(),
                         ["upstream docs added", "upstream b added"])

    def test_what_is_wrong_is_said(self):
        for words, said in [
                (["x", "--command", "/bin/cat", "{secret:a}"], "a secret cannot be part of a command line"),
                (["x", "--url", "ftp://b.example/"], "must be an https:// or http:// URL"),
                (["x", "--url", "https://b.example/", "--env", "A=1"], "env: belongs to an upstream with command"),
                (["x"], "either command or url"),
                (["X", "--command", "/bin/cat"], "is no name of an upstream"),
                (["x", "--env", "PATH=/x", "--command", "/bin/cat"], "PATH is fixed"),
                (["x", "--env", "A={call}", "--command", "/bin/cat"], "one link serves many calls"),
                (["x", "--shared", "yes", "--env", "A={tenant}", "--command", "/bin/cat"], "a shared upstream has no {tenant}"),
                (["x", "--url", "https://b.example/", "--header", "X-Api-Key=abc"], "a credential must come from a secret"),
                (["x", "--url", "https://b.example/", "--header", "Mcp-Name=abc"], "set by the server itself"),
                (["x", "--prefix", "a b", "--command", "/bin/cat"], "is no prefix"),
                (["x", "--idle", "1ms", "--command", "/bin/cat"], "must be a duration from 1s to 24h"),
                ([], "say an upstream's name, or a file")]:
            with self.subTest(words=words):
                self.assertIn(said, self.refused("upstream", "add", *words))
        self.assertEqual(self.crib.json("upstream", "list"), [])

    def test_a_removed_name_is_free_again(self):
        c = self.crib
        c.cli("upstream", "add", "every", "--command", "/bin/cat")
        self.assertIn("upstream every removed", c.cli("--yes", "upstream", "remove", "every"))
        self.assertIn("upstream every: not found", self.refused("upstream", "show", "every"))
        self.assertIn("added", c.cli("upstream", "add", "every", "--command", "/bin/cat"))


if __name__ == "__main__":
    crib.main()
