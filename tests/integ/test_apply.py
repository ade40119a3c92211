"""Files and the store: what differs, what becomes of it, and the way back (product.md 4, 7)."""
import json
import re
import sqlite3

import crib

TOOL = """name: %s
description: %s
inputSchema: {type: object, properties: {a: {type: string}}}
handler: {type: builtin, function: echo}
"""

GRANTED = TOOL.replace("{type: string}", "{$ref: 'urn:example:a'}")
ACME = """kind: tenant
name: acme
title: "Acme: Corp"
limits: {rate: 100/s, concurrency: 7}
---
kind: grant
tenant: acme
tool: t
as: say
limits: {rate: 10/min}
---
kind: grant
tenant: acme
tool: get_*
"""


class Files(crib.Case):
    def setUp(self):
        super().setUp()
        self.crib.init()
        self.crib.cli("approval", "policy", "one")      # what two are for: test_f21_...

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

    def folder(self):
        """Grants before tools before schemas, so that no order of files helps."""
        self.write("d/a/acme.yaml", ACME)
        self.write("d/b/t.yml", GRANTED % ("t", "Says."))
        self.write("d/c.json", json.dumps({"$id": "urn:example:a", "type": "string"}))
        self.write("d/readme.txt", "no document")
        self.write("d/.git/config.yaml", "[")
        return self.crib.dir / "d"

    def apply(self, *words):
        """What an apply says, as (sign, kind, name), and its summary."""
        rows = self.crib.json("apply", *words)
        return [(row["sign"], row["kind"], row["name"]) for row in rows[:-1]], rows[-1]

    def records(self):
        db = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        got = db.execute("SELECT kind FROM rec_text ORDER BY id").fetchall()
        db.close()
        return [kind for kind, in got]

    def everything(self):
        return [self.crib.json(*words) for words in (("tool", "list"), ("schema", "list"), ("tenant", "list"), ("grant", "list"))]

    ADDED = [("+", "schema", "urn:example:a"), ("+", "tool", "t"), ("+", "tenant", "acme"), ("+", "grant", "acme/t"),
             ("+", "grant", "acme/get_*")]

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


class Apply(Files):
    def test_a_folder_becomes_the_store_and_again_nothing_differs(self):
        folder = self.folder()
        said, summary = self.apply("-f", folder)
        self.assertEqual(said, self.ADDED)
        self.assertEqual((summary["added"], summary["changed"], summary["removed"]), (5, 0, 0))
        before = self.everything()
        self.assertEqual(self.crib.cli("apply", "-f", folder), "nothing differs\n")
        self.assertEqual(self.crib.cli("apply", "--file", folder, "--prune", "--yes"), "nothing differs\n")
        self.assertEqual(self.everything(), before)
        self.assertEqual(self.crib.json("tenant", "show", "acme")[0]["generation"], 1, "tool and grants are one change")

    def test_n13_the_page_lists_every_quota_of_a_tenant_and_following_it_wipes_none(self):
        page = (crib.SOURCE / "src/backend/toolcrib-tool.5").read_text()
        listed = page.split(".It Ic kind : Cm tenant")[1].split(".It Ic kind :")[0]
        self.crib.cli("tenant", "add", "acme")
        self.crib.cli("limit", "set", "acme", "--concurrency", 3, "--rate", "5/s", "--queue", 7, "--requests", "9/s",
                      "--calls-per-day", 11, "--bytes-per-day", "13MiB")
        said, = self.crib.json("export")
        self.assertEqual([name for name in said["document"]["limits"] if name not in listed], [], "N-13: the page lacks what wipes")
        self.assertEqual(sorted(said["document"]["limits"]), sorted(re.findall(r"^\.It Ic limits\.(\w+)", listed, re.M)))
        path = self.write("acme.yaml", self.crib.cli("export"))
        self.assertEqual(self.crib.cli("apply", "-f", path), "nothing differs\n")
        self.assertIn("did you mean callsPerDay?", self.refused("apply", "-f", self.write("x.yaml", "kind: tenant\nname: b\nlimits: {callsPerDy: 1}\n")))

    def test_n05_limits_and_levels_of_what_is_below_a_tenant_go_both_ways(self):
        """Found.md, missing: of principals, keys and tools; what a second store cannot have is left out, and said."""
        self.crib.tool(TOOL % ("t", "Says."))
        key = self.crib.tenant("acme", "t")
        accessor = self.crib.json("key", "list", "acme")[0]["accessor"]
        principal = self.crib.json("principal", "list", "acme")[0]["name"]
        for words in (("acme", "--tool", "t", "--calls-per-day", 7), ("--key", accessor, "--rate", "5/s"),
                      ("acme/" + principal, "--concurrency", 3, "--bytes-per-day", "1MiB")):
            self.crib.cli("limit", "set", *words)
        self.crib.cli("level", "set", "request_response", "--tenant", "acme")
        self.crib.cli("level", "set", "metadata", "--tenant", "acme", "--tool", "t")
        said = self.crib.cli("export")
        documents = [row["document"] for row in self.crib.json("export", "--tenant", "acme") if row["kind"] in ("limit", "level")]
        self.assertEqual(documents, [
            {"kind": "limit", "tenant": "acme", "principal": principal, "limits": {"concurrency": 3, "bytesPerDay": "1048576"}},
            {"kind": "limit", "tenant": "acme", "key": accessor, "limits": {"rate": "5/s"}},
            {"kind": "limit", "tenant": "acme", "tool": "t", "limits": {"callsPerDay": 7}},
            {"kind": "level", "tenant": "acme", "level": "request_response"},
            {"kind": "level", "tenant": "acme", "tool": "t", "level": "metadata"}])
        path = self.write("all.yaml", said)
        self.assertEqual(self.crib.cli("apply", "-f", path), "nothing differs\n")
        path.write_text(said.replace("callsPerDay: 7", "callsPerDay: 8").replace("level: metadata", "level: request"))
        self.assertEqual(self.crib.cli("apply", "-f", path), "~ limit acme/tool/t\n    ~ /limits/callsPerDay: 7 -> 8\n~ level acme/t\n"
                         "    ~ /level: metadata -> request\n0 added, 2 changed, 0 removed\n")
        other = crib.Crib()
        self.addCleanup(other.close)
        other.init()
        other.cli("approval", "policy", "one")
        told = other.cli("apply", "-f", path)
        self.assertIn(f"! limit acme/key/{accessor}: left out: there is none such here\n", told)
        self.assertIn(f"! limit acme/principal/{principal}: left out: there is none such here\n", told)
        self.assertEqual([row["document"] for row in other.json("export") if row["kind"] in ("limit", "level")],
                         [row["document"] for row in self.crib.json("export") if row["kind"] in ("limit", "level")][2:])
        self.write("few.yaml", "kind: level\ntenant: acme\nlevel: request_response\n---\nkind: limit\ntenant: acme\ntool: t\nlimits: {callsPerDay: 8}\n")
        self.assertEqual([(row["sign"], row["name"]) for row in self.crib.json("apply", "--prune", "--yes", "-f", self.crib.dir / "few.yaml")[:-1]],
                         [("-", "acme/t"), ("-", "acme/principal/" + principal), ("-", "acme/key/" + accessor)])
        for text, why in (("tool: t\nkey: x", "one of them"), ("limits: {rate: 1/s}", "one of them"), ("tool: nil", "tool nil: not found"),
                          ("tool: t\nlimits: {requests: 1/s}", "use rate"), ("tool: t\nlimits: {queue: 1}", "queue")):
            self.assertIn(why, self.refused("apply", "-f", self.write("x.yaml", "kind: limit\ntenant: acme\n" + text + "\n")))
        self.assertIn("no level", self.refused("apply", "-f", self.write("x.yaml", "kind: level\ntenant: acme\nlevel: all\n")))

    def test_n05_retention_goes_both_ways(self):
        """Found.md, missing: how long records are kept, of one tenant and of all; a file that is silent takes no promise back."""
        for name in ("acme", "bare", "corp"):
            self.crib.cli("tenant", "add", name)
        self.crib.cli("retention", "set", "corp", "--min-days", 0)
        self.crib.cli("retention", "set", "acme", "--min-days", 30, "--max-days", 30)
        corp = {"kind": "retention", "tenant": "corp", "minDays": 0}
        self.assertEqual([row["document"] for row in self.crib.json("export") if row["kind"] == "retention"],
                         [{"kind": "retention", "tenant": "acme", "minDays": 30, "maxDays": 30}, corp])
        self.assertEqual([row["document"] for row in self.crib.json("export", "--tenant", "corp")][1:], [corp])
        self.assertEqual([row["kind"] for row in self.crib.json("export", "--tenant", "bare")], ["tenant"])
        path = self.write("all.yaml", self.crib.cli("export"))
        self.assertEqual(self.crib.cli("apply", "-f", path), "nothing differs\n")
        other = crib.Crib()
        self.addCleanup(other.close)
        other.init().cli("apply", "-f", path)
        self.assertEqual(other.cli("export"), path.read_text())
        said = "kind: retention\ntenant: acme\nminDays: {}\n"
        self.write("acme.yaml", said.format(31))
        self.assertEqual(self.crib.cli("apply", "--prune", "--yes", "-f", self.crib.dir / "acme.yaml"),
                         "~ retention acme\n    ~ /minDays: 30 -> 31\n    - /maxDays: 30\n0 added, 1 changed, 0 removed\n")
        self.assertEqual(self.crib.json("export", "--tenant", "corp")[-1]["document"], corp)
        self.assertEqual(self.apply("-f", self.write("bare.yaml", said.format(36500).replace("acme", "bare")))[0], [("+", "retention", "bare")])
        for text, why in ((said.format(36501), "3:1: minDays: must be between 0 and 36500"), (said.format(-1), "3:1: minDays: must be between"),
                          (said.format('"30"'), "3:1: minDays: must be an integer"), (said.format(1) + "maxDays: 36501\n", "4:1: maxDays: must be"),
                          ("kind: retention\ntenant: acme\n", "1:1: minDays: is missing"),
                          (said.format(9) + "maxDays: 8\n", "4:1: maxDays: a maximum of 8 days is less than the minimum of 9"),
                          (said.format(9) + "maxDay: 10\n", "4:1: maxDay: is not known here; did you mean maxDays?"),
                          (said.format(9).replace("acme", "acm"), "2:1: tenant: tenant acm: not found; did you mean acme?"),
                          (said.format(9) + "---\n" + said.format(8), "5:1: two documents define the retention acme")):
            self.assertIn("x.yaml:" + why, self.refused("apply", "-f", self.write("x.yaml", text)))
        self.assertEqual(self.crib.json("retention", "show", "acme")[0]["min_days"], 31)
        self.assertEqual(self.apply("-f", self.write("x.yaml", said.format(5)))[0], [("~", "retention", "acme")])
        newest = self.crib.json("retention", "show", "acme", "--history")[0]
        self.assertEqual((newest["min_days"], newest["approver"]), (5, "none: approval policy one"))
        self.assertIn(self.crib.run("audit", "verify").returncode, (0, 5))

    def test_a_rehearsed_prune_lists_the_grants_and_keys_that_go_with_a_tenant(self):
        self.crib.tool(TOOL % ("t", "Says."))
        self.crib.tenant("acme", "t")
        accessor = self.crib.json("key", "list", "acme")[0]["accessor"]
        self.crib.cli("tenant", "add", "other")
        rows = self.crib.json("apply", "--prune", "--dry-run", "-f", self.write("other.yaml", "kind: tenant\nname: other\n"))
        self.assertEqual([(row["sign"], row["kind"], row["name"]) for row in rows[:-1]],
                         [("-", "grant", "acme/t"), ("-", "key", accessor), ("-", "tenant", "acme")])
        self.assertEqual(rows[-1]["removed"], 1)

    def test_what_changes_is_shown_member_by_member(self):
        folder = self.folder()
        self.crib.cli("apply", "-f", folder)
        self.write("d/b/t.yml", GRANTED % ("t", "Repeats."))
        self.write("d/a/acme.yaml", ACME.replace("100/s", "50/s").replace("as: say\n", ""))
        self.assertEqual(self.crib.cli("apply", "-f", folder), """~ tool t
    ~ /description: Says. -> Repeats.
~ tenant acme
    ~ /limits/rate: 100/s -> 50/s
~ grant acme/t
    - /as: say
0 added, 3 changed, 0 removed
""")
        self.assertEqual(self.crib.json("tenant", "show", "acme")[0]["generation"], 2)

    def test_a_dry_run_says_the_same_and_leaves_no_trace(self):
        folder = self.folder()
        before, records = self.everything(), self.records()
        said, summary = self.apply("-f", folder, "--dry-run", "--prune")
        self.assertEqual((said, summary["dry_run"]), (self.ADDED, True))
        self.assertEqual(self.everything(), before)
        self.assertEqual([kind for kind in self.records()[len(records):] if kind not in (1601, 1602, 1701, 2001, 2003)], [])

    def test_agents_are_told_once_and_of_the_end_alone(self):
        folder = self.folder()
        self.crib.cli("apply", "-f", folder)
        key = self.crib.key("acme/bot")
        self.crib.start()
        peer = self.crib.tcp(key)
        peer.initialize()
        self.assertEqual(peer.tools(), ["say"])
        self.write("d/b/u.yaml", TOOL % ("get_it", "Gets."))
        self.write("d/b/t.yml", GRANTED % ("t", "Repeats."))
        self.write("d/a/acme.yaml", ACME.replace("as: say", "as: tell"))
        self.apply("-f", folder)
        peer.notice("notifications/tools/list_changed")
        self.assertTrue(peer.quiet("notifications/tools/list_changed"))
        self.assertEqual(peer.tools(), ["get_it", "tell"])
        self.assertFalse(peer.call("tell", {"a": "x"})["result"].get("isError"))
        self.assertEqual(self.crib.cli("apply", "-f", folder), "nothing differs\n")
        self.assertTrue(peer.quiet("notifications/tools/list_changed"))
        peer.close()

    def test_one_wrong_document_and_nothing_is_done(self):
        folder = self.folder()
        for name, text, place, why in (
                ("x.yaml", "kind: tenat\nname: b\n", "x.yaml:1:", "did you mean tenant?"),
                ("x.yaml", "kind: tenant\nname: b\nlimit: {}\n", "x.yaml:3:", "did you mean limits?"),
                ("x.yaml", "kind: tenant\nname: B!\n", "x.yaml:2:", "no name of a tenant"),
                ("x.yaml", "kind: tenant\nname: b\nlimits:\n  rate: fast\n", "x.yaml:4:", "limits/rate"),
                ("x.yaml", "kind: grant\ntenant: nobody\ntool: t\n", "x.yaml:2:", "tenant nobody: not found"),
                ("x.yaml", "kind: grant\ntenant: acme\ntool: 't*'\nas: b\n", "x.yaml:4:", "an alias is for one tool"),
                ("x.yaml", "kind: grant\ntenant: acme\ntool: t\n", "x.yaml:1:", "two documents define the grant acme/t"),
                ("x.yaml", TOOL % ("t", "Again."), "x.yaml:1:", "two documents define the tool t"),
                ("x.yaml", (TOOL % ("u", "Says.")).replace("echo", "ecko"), "x.yaml:4:", "handler/function"),
                ("x.yaml", (TOOL % ("u", "Says.")) + "---\nkind: grant\ntenant: acme\ntool: u\nas: say\n", "", "two tools named say"),
                ("x.yaml", "just: this: here\n", "x.yaml:1:", ""), ("x.yaml", "- a\n", "x.yaml:1:", "must be an object")):
            with self.subTest(text=text):
                path = self.write("d/" + name, text)
                done = self.crib.run("apply", "-f", folder)
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                self.assertIn(place, done.stderr)
                self.assertIn(why, done.stderr)
                path.unlink()
        self.assertEqual(self.everything(), [[], [], [], []])

    def test_prune_removes_what_is_not_named_of_the_kinds_that_are(self):
        folder = self.folder()
        self.crib.cli("apply", "-f", folder)
        self.crib.cli("apply", "-f", self.write("more.yaml", (TOOL % ("old", "Was.")) + "---\nkind: tenant\nname: other\n---\n"
                                                "kind: grant\ntenant: other\ntool: t\n---\n$id: urn:example:b\n"))
        tools = self.write("tools.yaml", GRANTED % ("t", "Says."))
        self.assertIn("--yes", self.refused("apply", "-f", tools, "--prune", status=2))
        self.assertEqual(self.apply("-f", tools, "--prune", "--yes")[0], [("-", "tool", "old")])
        self.write("d/a/acme.yaml", ACME[:ACME.rindex("---")])
        said, _ = self.apply("-f", folder, "--prune", "--yes")
        self.assertEqual(said, [("-", "grant", "acme/get_*"), ("-", "grant", "other/t"), ("-", "tenant", "other"), ("-", "schema", "urn:example:b")])
        self.assertEqual([row["name"] for row in self.crib.json("tenant", "list")], ["acme"])
        schema = self.write("other.yaml", "$id: urn:example:c\n")
        self.assertIn("t version 1", self.refused("apply", "-f", schema, "--prune", "--yes"))

    def test_a_file_does_not_undo_by_its_silence_what_was_done_in_an_emergency(self):
        folder = self.folder()
        self.crib.cli("apply", "-f", folder)
        self.crib.cli("tool", "disable", "t")
        self.crib.cli("tenant", "suspend", "acme", "--yes")
        self.write("d/b/t.yml", GRANTED % ("t", "Repeats."))
        self.apply("-f", folder)
        self.assertEqual((self.in_force("t")["version"], self.in_force("t")["state"]), (2, "disabled"))
        self.assertEqual(self.crib.json("tenant", "show", "acme")[0]["state"], "suspended")
        self.apply("-f", self.write("on.yaml", ACME[:ACME.index("---")] + "suspended: false\n"))
        self.assertEqual(self.crib.json("tenant", "show", "acme")[0]["state"], "active")

    def test_suspended_and_removed_tenants_are_shown_the_door(self):
        self.crib.cli("apply", "-f", self.folder())
        self.crib.cli("tenant", "add", "spare")
        key = self.crib.key("acme/bot")
        self.crib.start()
        for text in (ACME[:ACME.index("---")] + "suspended: true\n", "kind: tenant\nname: spare\n"):
            peer = self.crib.tcp(key)
            peer.initialize()
            words = ("--prune", "--yes") if "spare" in text else ()
            self.apply("-f", self.write("t.yaml", text), *words)
            self.assertTrue(peer.closed())
            peer.close()
            if not words:
                self.crib.cli("tenant", "resume", "acme")

    def test_each_change_and_the_whole_are_recorded(self):
        before = len(self.records())
        self.apply("-f", self.folder())
        kinds = [kind for kind in self.records()[before:] if kind not in (1601, 1602, 2001, 2003)]
        self.assertEqual(kinds, [1531, 1501, 1, 1301, 1405, 1405, 1701])

    def test_the_same_over_the_socket(self):
        self.crib.start()
        self.test_prune_removes_what_is_not_named_of_the_kinds_that_are()

    def test_errors_over_the_socket_name_the_same_places(self):
        self.crib.start()
        self.test_one_wrong_document_and_nothing_is_done()


class Export(Files):
    def setUp(self):
        super().setUp()
        self.crib.cli("apply", "-f", self.folder())

    def second(self):
        other = crib.Crib()
        self.addCleanup(other.close)
        return other.init()

    def test_an_export_applied_changes_nothing_and_makes_the_same_store_elsewhere(self):
        self.crib.cli("tenant", "add", "idle", "--title", "#1: \"idle\"")
        self.crib.cli("tenant", "suspend", "idle", "--yes")
        text = self.crib.cli("export")
        self.assertEqual(self.crib.cli("apply", "-f", "-", "--prune", "--yes", stdin=text), "nothing differs\n")
        other = self.second()
        other.cli("apply", "-f", "-", stdin=text)
        self.assertEqual(other.cli("export"), text)

    def test_files_of_an_export_are_a_folder_for_apply(self):
        out = self.crib.dir / "out"
        self.assertIn("5 documents in 4 files", self.crib.cli("export", "--output", out))
        self.assertEqual(sorted(str(path.relative_to(out)) for path in out.rglob("*.yaml")),
                         ["grant/acme.yaml", "schema/urn_example_a.yaml", "tenant/acme.yaml", "tool/t.yaml"])
        self.assertEqual(self.crib.cli("apply", "-f", out, "--prune", "--yes"), "nothing differs\n")
        self.assertIn("exists already", self.refused("export", "--output", out))

    def test_one_tenant_is_exported_with_what_it_needs(self):
        self.crib.cli("apply", "-f", self.write("more.yaml", (TOOL % ("hidden", "Is not theirs.")) + "---\nkind: tenant\nname: other\n---\n"
                                                "kind: grant\ntenant: other\ntool: hidden\n---\n$id: urn:example:b\n"))
        self.assertEqual([(row["kind"], row["name"]) for row in self.crib.json("export", "--tenant", "acme")],
                         [("schema", "urn:example:a"), ("tool", "t"), ("tenant", "acme"), ("grant", "acme"), ("grant", "acme")])
        self.assertIn("tenant nobody: not found", self.refused("export", "--tenant", "nobody"))
        self.second().cli("apply", "-f", "-", stdin=self.crib.cli("export", "--tenant", "acme"))

    def test_every_kind_goes_both_ways(self):
        kinds = """kind: prompt
name: greet
description: Says hello.
handler: {type: static, result: {messages: [{role: user, content: {type: text, text: Hello}}]}}
---
kind: resource
name: readme
uri: crib://readme
handler: {type: static, text: Read me}
---
kind: resourceTemplate
name: page
uriTemplate: crib://pages/{number}
handler: {type: static, text: A page}
---
kind: upstream
name: every
url: https://mcp.example.com/mcp
---
kind: grant
tenant: acme
tool: prompt:*
"""
        path = self.write("kinds.yaml", kinds)
        said, _ = self.apply("-f", path)
        self.assertEqual(said, [("+", "upstream", "every"), ("+", "prompt", "greet"), ("+", "resource", "readme"),
                                ("+", "resourceTemplate", "page"), ("+", "grant", "acme/prompt:*")])
        self.assertEqual(self.crib.cli("apply", "-f", "-", "--prune", "--yes", stdin=self.crib.cli("export")), "nothing differs\n")
        path.write_text(kinds.replace("Says hello", "Greets").replace("mcp.example.com", "mcp.example.org"))
        self.assertEqual([row[0] + row[2] for row in self.apply("-f", path)[0]], ["~every", "~greet"])
        self.write("twice.yaml", kinds.replace("name: page", "name: readme"))
        self.assertIn("two documents define the resource readme", self.refused("apply", "-f", self.crib.dir / "twice.yaml"))
        parts = kinds.split("---\n")
        path.write_text("---\n".join([parts[2], parts[3].replace("every", "some"), parts[4]]))
        self.assertEqual([row[0] + row[2] for row in self.apply("-f", path, "--prune", "--yes")[0]],
                         ["+some", "-acme/get_*", "-acme/t", "-readme", "-every"])
        self.assertIn("greet", self.crib.cli("prompt", "list"))

    def test_a_secret_is_asked_for_by_name_alone(self):
        path = self.write("s.yaml", "kind: secret\nname: shop\n")
        said = self.refused("apply", "-f", path)
        self.assertIn("s.yaml:2:", said)
        self.assertIn("toolcrib secret set shop", said)
        self.crib.cli("secret", "set", "shop", stdin="hunter22")
        self.assertEqual(self.crib.cli("apply", "-f", path, "--prune", "--yes"), "nothing differs\n")
        self.assertTrue(self.crib.cli("export").startswith("kind: secret\nname: shop\n---\n"))
        self.assertIn("does not belong into a file", self.refused("apply", "-f", self.write("s.yaml", "kind: secret\nname: shop\nvalue: x\n")))

    def test_texts_survive_the_way_through_yaml(self):
        texts = ["yes", "# no comment", "a: b", "line\nline\n", " x ", "0123", "1e3", "~", "'", '"', "\u00e9\u2028", "- a", "{a}", "tab\t"]
        schema = {"type": "object", "enum": texts, "maximum": 1.5, "minimum": -0.0, "default": [1, 1.0, 1e300, 12345678901234567]}
        self.crib.cli("tool", "add", self.write("x.json", json.dumps({"name": "x", "description": "Odd.", "inputSchema": schema,
                                                                      "handler": {"type": "static", "text": "a\n\nb\n"}})))
        self.assertEqual(self.crib.cli("apply", "-f", "-", stdin=self.crib.cli("export")), "nothing differs\n")


if __name__ == "__main__":
    crib.main()
