"""What needs a second administrator: what is recorded less, and where approved tools lead (AUDIT A-909, SEC S-740)."""
import os
import re
import unittest

import crib

ROLES = """
admin:
  socket: {socket}
roles:
  - {{role: admin, uid: 40001}}
"""
ECHO = crib.BUILD / "tests/peers/mcp_echo"


@unittest.skipUnless(os.geteuid() == 0, "needs another administrator to be")
class Second(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tenant("acme", "*")
        self.socket = c.store.parent / "admin-public.sock"
        self.crib.let_others_in()
        c.start(ROLES.format(socket=self.socket))

    def other(self, *words):
        """Another administrator gives a command."""
        return crib.subprocess.run([str(crib.BUILD / "toolcrib"), "--socket", str(self.socket), *map(str, words)], user=40001,
                                   group=40001, capture_output=True, text=True, timeout=60, env=self.crib.env)

    def requests(self, id):
        return [row for row in self.crib.json("approval", "list") if row["id"] == id]

    def alone(self, *words):
        """A command that one administrator cannot have; its request as the other one sees it."""
        done = self.crib.run(*words)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("second administrator", done.stderr)
        request = int(re.search("request ([0-9]+) waits", done.stderr).group(1))
        row, = self.requests(request)
        self.assertEqual((row["state"], row["asked_by"]), ("waits", "uid 0"))
        return row

    def together(self, *words):
        """The same, granted by the other one and done; what the request said."""
        row = self.alone(*words)
        self.assertEqual(self.crib.run("approval", "grant", row["id"]).returncode, 1, "nobody grants it to oneself")
        self.assertEqual(self.other("approval", "grant", row["id"]).returncode, 0)
        self.crib.cli(*words)
        self.assertEqual(self.requests(row["id"]), [], "it is used up")
        return row["command"]

    def file(self, name, text):
        path = self.crib.dir / name
        path.write_text(text)
        return path

    def tool(self, name, level=None):
        return crib.tool_yaml(name, "{type: builtin, function: echo}", extra=f"audit: {{level: {level}}}\n" if level else "")

    def sound(self):
        self.crib.stop()
        done = self.crib.run("audit", "verify")
        self.assertEqual(done.returncode, 0, done)

    def test_a_tenant_is_recorded_less(self):
        c = self.crib
        self.alone("level", "set", "metadata", "--tenant", "acme")
        self.assertEqual(c.json("level", "list", "acme")[0]["level"], "default", "nothing was done")
        c.cli("level", "set", "request_response", "--tenant", "acme")
        self.alone("level", "set", "request", "--tenant", "acme")
        self.together("level", "set", "default", "--tenant", "acme")
        self.together("level", "set", "metadata", "--tenant", "acme")
        c.cli("level", "set", "request", "--tenant", "acme")
        self.sound()

    def test_a_definition_says_less_than_its_tenants(self):
        c = self.crib
        path = self.file("quiet.yaml", self.tool("quiet", "metadata"))
        row = self.alone("tool", "add", path)
        self.assertIn("tool quiet says audit level metadata, below request", row["command"])
        self.assertEqual(c.json("tool", "list"), [], "nothing was done")
        self.together("tool", "add", path)
        c.tool(self.tool("quiet", "metadata").replace("The tool", "A tool"))    # it was so before
        c.tool(self.tool("quiet", "request"))
        self.alone("tool", "revert", "quiet", "1")
        c.tool(self.tool("plain"))
        self.alone("tool", "add", self.file("plain.yaml", self.tool("plain", "metadata")))
        prompt = "kind: prompt\nname: hush\nhandler: {type: exec, argv: [/bin/true], stdin: none, output: text}\naudit: {level: metadata}\n"
        self.assertIn("prompt hush", self.alone("prompt", "add", self.file("prompt.yaml", prompt))["command"])
        # The other end of the same: the tenant comes to be above it.
        self.alone("level", "set", "request_response", "--tenant", "acme")
        c.cli("level", "set", "request_response", "--tenant", "acme", "--tool", "quiet")
        c.cli("level", "set", "request_response", "--tenant", "acme")
        self.alone("tool", "add", self.file("loud.yaml", self.tool("loud", "request")))
        self.sound()

    def test_a_file_with_several_of_them_is_agreed_to_once_and_all_are_named(self):
        c = self.crib
        path = self.file("all.yaml", "---\n".join(self.tool(name, "metadata") for name in ("one", "two")))
        c.cli("apply", "--dry-run", "--file", path)
        self.assertEqual(c.json("approval", "list"), [], "what is not done needs nobody")
        said = self.together("apply", "--file", path)
        self.assertIn("tool one says audit level metadata, below request; tool two says", said)
        path.write_text(path.read_text().replace("one", "six"))
        self.alone("apply", "--file", path)
        kinds = {row["kind"]: row for row in c.json("audit", "admin", "--limit", "0")}
        self.assertTrue({"approval.request", "approval.grant", "tool.register"} <= set(kinds), kinds.keys())
        self.sound()

    def days(self, tenant="acme"):
        row, = self.crib.json("retention", "show", tenant)
        return row.get("min_days"), row.get("max_days")

    def test_n05_a_file_keeps_records_for_fewer_days_by_two_alone(self):
        """Longer is done at once, shorter as by the command; all that is shorter is named, and agreed to as it was read."""
        c = self.crib
        c.cli("tenant", "add", "other")
        text = "kind: retention\ntenant: acme\nminDays: {}\nmaxDays: {}\n---\nkind: retention\ntenant: other\nminDays: {}\n"
        path = self.file("days.yaml", text.format(30, 300, 7))
        c.cli("apply", "--file", path)
        path.write_text(text.format(40, 400, 8))
        c.cli("apply", "--file", path)
        self.assertEqual([row["approver"] for row in c.json("retention", "show", "acme", "--history")], [None, None])
        for worse in ((39, 400, 8), (40, 399, 8), (40, 400, 7)):
            path.write_text(text.format(*worse))
            self.alone("apply", "--file", path)
        path.write_text(text.format(50, 300, 7))
        self.assertIn("    ~ /maxDays: 400 -> 300\n", c.cli("apply", "--dry-run", "--file", path))
        self.assertEqual(len(c.json("approval", "list")), 3, "what is not done needs nobody")
        said = self.alone("apply", "--file", path)
        self.assertIn("records of acme are kept for fewer days: at least 40 -> 50, at most 400 -> 300; "
                      "records of other are kept for fewer days: at least 8 -> 7", said["command"])
        self.assertEqual((self.days(), self.days("other")), ((40, 400), (8, None)), "nothing half done")
        self.assertEqual(self.other("approval", "grant", said["id"]).returncode, 0)
        c.cli("retention", "set", "acme", "--no-max")
        self.assertIn("at most no end -> 300", self.alone("apply", "--file", path)["command"])
        self.together("apply", "--file", path)
        self.assertEqual((self.days(), self.days("other")), ((50, 300), (7, None)))
        self.assertIn("at least 50 -> 10", self.together("retention", "set", "acme", "--min-days", 10))
        self.assertRegex(c.json("retention", "show", "acme", "--history")[0]["approver"], "^uid 40001 approval/")
        self.sound()

    def test_a_rehearsed_file_with_a_lower_level_needs_nobody(self):
        c = self.crib
        path = self.file("low.yaml", "kind: level\ntenant: acme\nlevel: metadata\n---\nkind: level\ntenant: low\nlevel: metadata\n")
        c.cli("tenant", "add", "low")
        self.assertIn("+ level acme\n", c.cli("apply", "--dry-run", "--file", path))
        self.assertEqual(c.json("approval", "list"), [])
        self.assertIn("level of acme: default -> metadata; level of low: default -> metadata", self.together("apply", "--file", path))
        self.sound()

    def hosted(self):
        """An upstream with a tool that was approved."""
        c = self.crib
        c.cli("approval", "versions", "required")
        c.cli("upstream", "add", "every", "--idle", "1m", "--command", ECHO)
        c.cli("upstream", "sync", "every")
        for row in c.json("tool", "pending"):
            self.assertEqual(self.other("tool", "approve", row["name"], "--version", 1).returncode, 0)

    def definition(self):
        return self.crib.json("upstream", "show", "every")[0]["definition"]

    def test_where_approved_tools_lead_is_not_changed_alone(self):
        c = self.crib
        c.cli("approval", "versions", "required")
        c.cli("upstream", "add", "every", "--command", "/bin/cat")
        c.cli("upstream", "set", "every", "--command", "/bin/true")     # nothing leads there yet
        c.cli("--yes", "upstream", "remove", "every")
        self.hosted()
        before = self.definition()
        evil = ["--url", "https://evil.example/mcp"]
        for words in (["upstream", "set", "every", *evil], ["upstream", "add", "every", *evil],
                      ["upstream", "set", "every", "--enabled", "yes", *evil]):
            self.assertIn('upstream every gets url "https://evil.example/mcp" no command', self.alone(*words)["command"])
        self.assertIn(" env", self.alone("upstream", "set", "every", "--env", "LD_PRELOAD=/tmp/evil.so")["command"])
        self.assertIn('command ["/bin/sh","x"]', self.alone("upstream", "set", "every", "--command", "/bin/sh", "x")["command"])
        path = self.file("every.yaml", "kind: upstream\nname: every\nurl: https://evil.example/mcp\n")
        self.assertIn("https://evil.example/mcp", self.alone("apply", "--file", path)["command"])
        c.cli("apply", "--dry-run", "--file", path)
        self.assertEqual(self.definition(), before)
        c.cli("upstream", "set", "every", "--enabled", "no")            # an emergency waits for nobody
        c.cli("upstream", "set", "every", "--enabled", "yes")
        self.together("upstream", "set", "every", "--env", "A=1")
        self.assertEqual(self.definition(), {**before, "env": {"A": "1"}})
        self.together("apply", "--file", path)
        self.assertEqual(self.definition(), {"kind": "upstream", "name": "every", "url": "https://evil.example/mcp"})
        self.sound()

    def test_f9_the_request_tells_whole_values(self):
        """HARDENING F-9: of an upstream whatever changes, all of it; and what is said again anew says what it is now."""
        self.crib.cli("approval", "versions", "required")
        self.hosted()
        url = f"https://good.example/{'a' * 400}/evil"
        self.assertIn(url, self.alone("upstream", "set", "every", "--url", url)["command"])
        first = self.alone("upstream", "set", "every", "--env", "LD_PRELOAD=/tmp/evil.so")
        self.assertIn('env {"LD_PRELOAD":"/tmp/evil.so"}', first["command"])
        self.assertEqual(self.alone("upstream", "set", "every", "--env", "LD_PRELOAD=/tmp/evil.so"), first)

    def test_where_versions_are_free_an_upstream_is_changed_at_once(self):
        c = self.crib
        c.cli("upstream", "add", "every", "--command", ECHO)
        c.cli("upstream", "sync", "every")
        c.cli("upstream", "set", "every", "--url", "https://mcp.example/mcp")
        self.assertEqual(c.json("approval", "list"), [])


if __name__ == "__main__":
    crib.main()
