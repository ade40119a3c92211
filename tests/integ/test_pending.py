"""The rug-pull guard: where new versions have to be approved, nobody sees one that only its author knows (SEC S-740)."""
import json
import os
import unittest

import crib

ROLES = """
admin:
  socket: {socket}
roles:
  - {{role: admin, uid: 40001}}
"""


def greet(text):
    return crib.tool_yaml("greet", f"{{type: static, text: {text}}}")


@unittest.skipUnless(os.geteuid() == 0, "needs another administrator to be")
class Pending(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(greet("good"))
        self.key = c.tenant("acme", "*")
        self.socket = c.store.parent / "admin-public.sock"
        self.crib.let_others_in()
        c.start(ROLES.format(socket=self.socket))
        c.cli("approval", "versions", "required")

    def second(self, *words):
        """Another administrator gives a command."""
        return crib.subprocess.run([str(crib.BUILD / "toolcrib"), "--socket", str(self.socket), *map(str, words)], user=40001,
                                   group=40001, capture_output=True, text=True, timeout=60, env=self.crib.env)

    def refused(self, words, *parts, by=None):
        done = (by or self.crib.run)(*words)
        self.assertEqual(done.returncode, 1, done)
        for part in parts:
            self.assertIn(part, done.stderr)

    def said(self, peer):
        return peer.call("greet")["result"]["content"][0]["text"]

    def findings(self):
        done = self.crib.run("--json", "tool", "drift")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(done.returncode, 4 if rows else 0)
        return [(row["name"], row["state"]) for row in rows]

    def test_a_new_version_waits_and_the_old_one_serves(self):
        c = self.crib
        peer = c.tcp(self.key)
        peer.initialize()
        self.assertEqual(self.findings(), [])
        self.assertIn("waits for approval", c.tool(greet("evil")))
        self.assertEqual(self.said(peer), "good")
        self.assertTrue(peer.quiet("notifications/tools/list_changed"))
        self.assertIn("unchanged, waits for approval", c.tool(greet("evil")))
        row, = c.json("tool", "pending")
        self.assertEqual((row["name"], row["version"], row["in_force"], row["actor"]), ("greet", 2, 1, "uid 0"))
        self.assertEqual(c.json("tool", "show", "greet")[0]["waits"], 2)
        self.assertEqual(self.findings(), [("greet", "waits")])
        self.refused(["tool", "approve", "greet", "--version", "2"], "uid 0 made this version", "approval policy")
        self.refused(["tool", "approve", "greet", "--version", "3"], "version 2", by=self.second)
        self.assertIn("--version", self.second("tool", "approve", "greet").stderr, "whichever waits by now is not what was seen")
        self.assertIn("evil", self.second("tool", "diff", "greet", 1, 2).stdout)
        self.assertIn("evil", self.second("tool", "show", "greet", "--version", 2).stdout)
        self.assertEqual(self.second("tool", "approve", "greet", "--version", 2).returncode, 0)
        self.assertEqual(self.said(peer), "evil")
        self.assertEqual((c.json("tool", "pending"), self.findings()), ([], []))
        self.refused(["tool", "approve", "greet", "--version", "2"], "nothing of greet waits", by=self.second)
        rows = c.json("audit", "admin", "--limit", "0")
        approve = [row for row in rows if row["kind"] == "tool.approve"]
        self.assertEqual([row["object"] for row in approve], ["tool/greet@2"])
        self.assertEqual(len([row for row in rows if row["kind"] == "approval.request"]), 1)
        peer.close()
        self.sound()

    def sound(self):
        self.crib.stop()
        self.assertEqual(self.crib.run("audit", "verify").returncode, 0, self.crib.run("audit", "verify"))

    def test_a_new_tool_is_nobodys_until_it_is_approved(self):
        c = self.crib
        peer = c.tcp(self.key)
        peer.initialize()
        c.tool(crib.ECHO)
        self.assertEqual(peer.tools(), ["greet"])
        self.refused(["tool", "enable", "echo"], "waits for approval")
        c.tool(crib.ECHO.replace("Says what", "Repeats what"))
        self.refused(["tool", "enable", "echo"], "waits for approval")
        self.assertEqual(c.json("tool", "pending")[0]["version"], 2)
        self.assertTrue(peer.quiet("notifications/tools/list_changed"))
        self.assertEqual(self.second("tool", "approve", "echo", "--version", 2).returncode, 0)
        peer.notice("notifications/tools/list_changed")
        self.assertEqual(peer.tools(), ["echo", "greet"])
        peer.close()
        self.sound()

    def test_n07_apply_says_what_waits_now_and_the_next_time(self):
        c = self.crib
        path = c.dir / "files.yaml"
        path.write_text(greet("evil") + "\n---\n" + greet("new").replace("name: greet", "name: other"))
        for words in (("--dry-run",), (), ()):
            said = c.cli("apply", "-f", path, *words)
            with self.subTest(words=words, said=said):
                self.assertIn("! tool greet: version 2 waits for another administrator: toolcrib tool approve greet --version 2\n", said)
                self.assertIn("! tool other: version 1 waits for another administrator: toolcrib tool approve other --version 1\n", said)
                self.assertIn("; 2 wait for approval and are not in force: see tool pending\n", said)
        self.assertIn("nothing differs; 2 wait", said)
        self.assertEqual(self.second("tool", "approve", "greet", "--version", 2).returncode, 0)
        row, end = c.json("apply", "-f", path)
        self.assertEqual([row["sign"], row["name"], row["version"], end["waiting"], end["changed"]], ["!", "other", 1, 1, 0])
        self.assertEqual(self.second("tool", "approve", "other", "--version", 1).returncode, 0)
        self.assertEqual(c.cli("apply", "-f", path), "nothing differs\n")

    def test_what_is_rejected_is_gone_and_what_was_stays(self):
        c = self.crib
        peer = c.tcp(self.key)
        peer.initialize()
        c.tool(crib.ECHO)
        c.tool(greet("evil"))
        for name in ("echo", "greet"):
            self.assertEqual(self.second("tool", "reject", name).returncode, 0)
        self.refused(["tool", "show", "echo"], "not found")
        self.assertEqual((peer.tools(), self.said(peer)), (["greet"], "good"))
        c.tool(crib.ECHO)               # another attempt is another version
        self.assertEqual(c.json("tool", "pending")[0]["version"], 2)
        peer.close()
        self.sound()

    def test_n10_the_history_shows_who_asked_and_who_decided(self):
        """N-10: each decision stands beside its request, with two names; of nothing else."""
        c = self.crib
        for version, decision in ((2, "reject"), (3, "approve")):
            c.tool(greet(f"text {version}"))
            c.tool(crib.ECHO)
            self.assertEqual(self.second("tool", decision, "greet", "--version", version).returncode, 0)
            self.second("tool", "reject", "echo")
        rows = c.json("tool", "history", "greet", "--events")[::-1]
        self.assertEqual([(r["kind"], r["object"]) for r in rows],
                         [("tool.register", "tool/greet@1"), ("approval.request", "tool/greet@2"), ("admin.cmd", "tool/greet@2"),
                          ("approval.request", "tool/greet@3"), ("tool.approve", "tool/greet@3")])
        self.assertEqual([r["detail"].split(" tool=")[0] for r in rows[1:]],
                         ["uid 0: tool add", "uid 40001: tool reject", "uid 0: tool add", "uid 40001: tool approve"])
        self.assertEqual((rows[-1]["approver"], rows[-1]["after"]), ("uid 40001", rows[-2]["after"]))
        self.assertEqual([r["kind"] for r in c.json("tool", "history", "gree", "--events")], [], "no name that only begins so")

    def test_what_an_upstream_brings_waits_as_well(self):
        c = self.crib
        peer = c.tcp(self.key)
        peer.initialize()
        c.cli("upstream", "add", "every", "--command", crib.BUILD / "tests/peers/mcp_echo")
        names = [row["tool"] for row in c.json("upstream", "sync", "every")]
        waiting = [row["name"] for row in c.json("tool", "pending")]
        self.assertTrue(waiting)
        self.assertTrue(set(waiting) <= set(names), (waiting, names))
        self.assertEqual(peer.tools(), ["greet"])
        c.json("upstream", "sync", "every")
        self.assertEqual([row["name"] for row in c.json("tool", "pending")], waiting)
        for name in waiting:
            self.assertEqual(self.second("tool", "approve", name, "--version", 1).returncode, 0)
        self.assertIn("every_echo", peer.tools())
        self.assertNotIn("error", peer.call("every_echo", {"text": "x"}))
        c.cli("upstream", "add", "twice", "--command", crib.BUILD / "tests/peers/mcp_echo")
        c.cli("upstream", "sync", "twice")
        self.assertTrue(c.json("tool", "pending"))
        c.cli("--yes", "upstream", "remove", "twice")
        self.assertEqual(c.json("tool", "pending"), [], "what is gone waits no more")
        peer.close()
        self.sound()

    def test_one_administrator_does_not_turn_it_off(self):
        c = self.crib
        self.refused(["approval", "versions", "free"], "second administrator")
        request = c.json("approval", "list")[0]["id"]
        self.assertEqual(self.second("approval", "grant", request).returncode, 0)
        c.cli("approval", "versions", "free")
        self.assertNotIn("waits", c.tool(greet("better")))
        self.refused(["approval", "versions", "perhaps"], "required or free")


if __name__ == "__main__":
    crib.main()
