"""Files and the store: what differs, what becomes of it, and the way back (product.md 4, 7)."""
import json
import sqlite3

import crib

TOOL = """name: %s
description: %s
inputSchema: {type: object, properties: {a: {type: string}}}
handler: {type: builtin, function: echo}
"""


class Files(crib.Case):
    def setUp(self):
        super().setUp()
        self.crib.init()

    def write(self, name, text):
        path = self.crib.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def refused(self, *words, status=1):
        done = self.crib.run(*words)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stderr

    def in_force(self, tool):
        return self.crib.json("tool", "show", tool)[0]


class Versions(Files):
    def test_diff_names_what_changed_between_two_versions(self):
        for text in ("Says.", "Repeats.", "Shouts."):
            self.crib.cli("tool", "add", self.write("t.yaml", TOOL % ("t", text) + ("limits: {timeout: 5s}\n" if text != "Says." else "")))
        self.assertEqual(self.crib.cli("tool", "diff", "t"), "~ /description: Repeats. -> Shouts.\n")
        self.assertEqual(self.crib.json("tool", "diff", "t", "1", "2"),
                         [{"sign": "~", "where": "/description", "from": "Says.", "to": "Repeats."},
                          {"sign": "+", "where": "/limits", "to": {"timeout": "5s"}}])
        self.assertIn('- /limits: {"timeout":"5s"}', self.crib.cli("tool", "diff", "t", "3", "1"))
        self.assertEqual(self.crib.cli("tool", "diff", "t", "3", "3"), "")
        self.assertIn("toolcrib tool history t", self.refused("tool", "diff", "t", "7"))
        self.assertIn("t1: not found", self.refused("tool", "diff", "t1"))

    def test_revert_is_a_new_version_that_agents_are_told_of(self):
        self.crib.tool(TOOL % ("t", "Says."))
        key = self.crib.tenant("acme", "t")
        self.crib.start()
        peer = self.crib.tcp(key)
        peer.initialize()
        self.crib.tool(TOOL % ("t", "Repeats."))
        peer.notice("notifications/tools/list_changed")
        self.assertIn("version 3 says what version 1 said", self.crib.cli("tool", "revert", "t", "1"))
        peer.notice("notifications/tools/list_changed")
        self.assertEqual((self.in_force("t")["version"], self.in_force("t")["definition"]["description"]), (3, "Says."))
        self.assertIn("what the one in force says", self.refused("tool", "revert", "t", "1"))
        peer.close()

    def test_revert_keeps_a_disabled_tool_disabled_and_needs_what_it_refers_to(self):
        schema = self.write("s.yaml", "$id: urn:example:s\ntype: string\n")
        self.crib.cli("schema", "add", schema)
        self.crib.tool((TOOL % ("t", "Says.")).replace("{type: string}", "{$ref: 'urn:example:s'}"))
        self.crib.tool(TOOL % ("t", "Says."))
        self.crib.cli("schema", "remove", "urn:example:s", "--yes")
        self.assertIn("urn:example:s", self.refused("tool", "revert", "t", "1"))
        self.crib.cli("schema", "add", schema)
        self.crib.cli("tool", "disable", "t")
        self.crib.cli("tool", "revert", "t", "1")
        self.assertEqual((self.in_force("t")["version"], self.in_force("t")["state"]), (3, "disabled"))

    def test_what_fails_at_the_end_has_said_nothing(self):
        self.crib.tool(TOOL % ("t", "Says."))
        done = self.crib.run("tool", "remove", "t", "u", "--yes")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(self.in_force("t")["state"], "enabled")


if __name__ == "__main__":
    crib.main()
