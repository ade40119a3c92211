"""Shared schemas: stored by $id, found by the $ref of a tool, shown inside of its list, kept while anything needs them."""
import json
import sqlite3

import crib

ADDRESS = """$id: https://acme.example/schemas/address
type: object
required: [city]
properties:
  city: {type: string}
  zip: {$ref: zip}
"""
ZIP = """$schema: http://json-schema.org/draft-07/schema#
$id: https://acme.example/schemas/zip
definitions: {digits: {type: string, pattern: '^[0-9]{5}$'}}
anyOf: [{$ref: '#/definitions/digits'}]
"""
TOOL = """name: %s
description: Sends a parcel.
inputSchema:
  type: object
  required: [to]
  properties:
    to: {$ref: 'https://acme.example/schemas/address'}
handler: {type: builtin, function: echo}
"""
TO = "https://acme.example/schemas/address"
ZIP_ID = "https://acme.example/schemas/zip"


def references(node):
    """All $ref below."""
    if isinstance(node, dict):
        return [v for k, v in node.items() if k == "$ref" and isinstance(v, str)] + [r for v in node.values() for r in references(v)]
    return [r for v in node for r in references(v)] if isinstance(node, list) else []


class Catalogue(crib.Case):
    def setUp(self):
        super().setUp()
        self.crib.init()

    def write(self, name, text):
        path = self.crib.dir / name
        path.write_text(text)
        return path

    def add_all(self):
        self.crib.cli("schema", "add", self.write("address.yaml", ADDRESS), self.write("zip.yaml", ZIP))
        self.crib.cli("tool", "add", self.write("send.yaml", TOOL % "send"))

    def refused(self, *words):
        done = self.crib.run(*words)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr

    def test_a_reference_that_leads_nowhere_is_named_with_what_to_do(self):
        said = self.refused("tool", "add", self.write("send.yaml", TOOL % "send"))
        self.assertIn("send.yaml:7:", said)
        self.assertIn("inputSchema/properties/to/$ref", said)
        self.assertIn("toolcrib schema add", said)
        said = self.refused("schema", "add", self.write("address.yaml", ADDRESS))
        self.assertIn("address.yaml:6:", said)
        self.assertEqual(self.crib.json("schema", "list"), [], "nothing is half stored")

    def test_schemas_of_one_command_may_refer_to_each_other_in_any_order(self):
        self.assertIn(f"schema {TO} stored", self.crib.cli("schema", "add", self.write("a.yaml", ADDRESS + "---\nkind: schema\n" + ZIP)))
        self.assertIn("unchanged", self.crib.cli("schema", "add", self.write("a.yaml", "---\nkind: schema\n" + ZIP)))
        self.assertEqual([row["id"] for row in self.crib.json("schema", "list")], [TO, ZIP_ID])
        shown = self.crib.json("schema", "show", TO)[0]
        self.assertEqual(shown["schema"]["required"], ["city"])
        self.assertEqual((shown["tools"], shown["schemas"], shown["refers_to"]), ([], [], [ZIP_ID]))
        self.assertEqual(self.crib.json("schema", "show", ZIP_ID)[0]["schemas"], [TO])

    def test_what_is_no_shared_schema_is_refused(self):
        for text, said in (("type: object\n", "$id: is missing"), ("$id: address\ntype: object\n", "absolute URI"),
                           ("$id: 'https://a.example/x#part'\n", "absolute URI"), ("$id: 'http://json-schema.org/draft-07/schema'\n", "JSON Schema itself"),
                           ("$id: 'https://a.example/x'\ntyp: object\n", "did you mean type?"),
                           ("$id: 'https://a.example/x'\nkind: tool\n", "must be schema"),
                           ("$id: 'https://a.example/x'\nproperties: {a: {type: string, x-mcp-header: A}}\n", "x-mcp-header"),
                           ('{"$id": "https://a.example/x", "description": "a\\u202eb"}', "U+202E"),
                           ("$id: 'https://a.example/" + "x" * 300 + "'\n", "256 bytes"),
                           ("$id: 'https://a.example/x'\ntype: object\n---\n$id: 'https://a.example/x'\n", "two documents")):
            with self.subTest(text=text[:60]):
                self.assertIn(said, self.refused("schema", "add", self.write("s.yaml", text)))
        self.assertEqual(self.crib.json("schema", "list"), [])

    def test_calls_are_checked_by_it_and_lists_carry_it(self):
        self.add_all()
        key = self.crib.tenant("acme", "send")
        self.crib.start()
        for rev in crib.REVS[1:] + [crib.MODERN]:
            with self.subTest(rev=rev):
                peer = self.crib.http(key)
                if rev != crib.MODERN:
                    peer.initialize(rev)
                tool = peer.ask("tools/list", {}, rev)["result"]["tools"][0]
                carried = tool["inputSchema"]["$defs"]
                self.assertEqual({carried[TO]["$id"], carried[ZIP_ID]["$id"]}, {TO, ZIP_ID})
                self.assertNotIn("draft-07", json.dumps(tool), "all of it is 2020-12")
                self.assertEqual(sorted(references(tool["inputSchema"])), ["#/$defs/digits", TO, "zip"])
                good = peer.call("send", {"to": {"city": "Oslo", "zip": "01234"}}, rev)
                self.assertFalse(good["result"].get("isError"), good)
                bad = json.dumps(peer.call("send", {"to": {"zip": "none"}}, rev))
                self.assertIn("to.city", bad)
                peer.close()

    def test_a_server_that_starts_knows_it_and_a_running_one_learns_it(self):
        self.add_all()
        key = self.crib.tenant("acme", "*")
        self.crib.start()
        peer = self.crib.tcp(key)
        peer.initialize()
        self.assertIn("Missing required argument: to", json.dumps(peer.call("send", {})))
        self.crib.cli("schema", "add", self.write("new.yaml", "$id: urn:example:size\nenum: [small, large]\n"))
        self.crib.cli("tool", "add", self.write("box.yaml", TOOL.replace(TO, "urn:example:size") % "box"))
        self.assertIn("small", json.dumps(peer.call("box", {"to": "medium"})))
        self.assertEqual(self.refused("schema", "remove", "urn:example:size", "--yes").count("box version 1"), 1)
        self.crib.cli("tool", "remove", "box", "--yes")
        self.crib.cli("schema", "remove", "urn:example:size", "--yes")
        self.assertIn("toolcrib schema add", self.refused("tool", "add", self.write("box.yaml", TOOL.replace(TO, "urn:example:size") % "box")))
        peer.close()

    def test_what_a_version_refers_to_never_changes(self):
        self.add_all()
        other = self.write("address.yaml", ADDRESS.replace("city: {type: string}", "city: {type: integer}"))
        said = self.refused("schema", "add", other)
        self.assertIn("send version 1", said)
        self.assertIn("$id of its own", said)
        self.assertIn("send version 1", self.refused("schema", "remove", ZIP_ID, "--yes"))
        self.crib.cli("tool", "remove", "send", "--yes")
        self.assertIn("send version 1", self.refused("schema", "add", other), "records name that version")
        self.assertIn(f"schema {TO}", self.refused("schema", "remove", ZIP_ID, "--yes"))
        self.crib.cli("schema", "remove", ZIP_ID, TO, "--yes")
        self.assertEqual(self.crib.json("schema", "list"), [])
        self.assertIn("send version 1", self.refused("schema", "add", other, self.write("zip.yaml", ZIP)), "nor by way of a removal")
        self.crib.cli("schema", "add", self.write("address.yaml", ADDRESS), self.write("zip.yaml", ZIP))
        self.crib.cli("tool", "add", self.write("send.yaml", TOOL % "send"))

    def test_what_nobody_refers_to_may_change(self):
        self.crib.cli("schema", "add", self.write("address.yaml", ADDRESS), self.write("zip.yaml", ZIP))
        zip2 = self.write("zip.yaml", ZIP.replace("{5}", "{4}"))
        said = self.refused("schema", "add", zip2)
        self.assertIn(TO, said)
        self.assertIn("both in one command", said)
        self.crib.cli("schema", "add", zip2, self.write("address.yaml", ADDRESS))
        self.crib.cli("schema", "remove", TO, ZIP_ID, "--yes")
        self.crib.cli("schema", "add", self.write("zip.yaml", ZIP))
        self.assertIn("did you mean", self.refused("schema", "show", ZIP_ID + "s"))

    def test_lint_test_and_check_know_it(self):
        tool = self.write("send.yaml", TOOL % "send")
        done = self.crib.run("tool", "lint", tool)
        self.assertEqual(done.returncode, 4)
        self.assertIn("toolcrib schema add", done.stdout)
        done = self.crib.run("tool", "lint", tool, self.write("a.yaml", ADDRESS), self.write("z.yaml", ZIP))
        self.assertNotIn("leads out", done.stdout, "schemas among the documents are known")
        self.crib.cli("schema", "add", self.write("a.yaml", ADDRESS), self.write("z.yaml", ZIP))
        self.assertNotIn("leads out", self.crib.run("tool", "lint", tool).stdout)
        self.assertIn("Oslo", self.crib.cli("tool", "test", tool, 'to={"city": "Oslo"}'))
        self.assertIn("to.city", self.refused("tool", "test", tool, "to={}"))
        checked = self.crib.run("schema", "check", self.write("s.yaml", f"properties: {{to: {{$ref: '{TO}'}}}}\n"), self.write("i.json", '{"to": {}}'))
        self.assertEqual(checked.returncode, 4)
        self.assertIn("city", checked.stdout)

    def test_changes_are_recorded(self):
        self.add_all()
        self.crib.cli("tool", "remove", "send", "--yes")
        self.crib.cli("schema", "remove", ZIP_ID, TO, "--yes")
        db = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        kinds = db.execute("SELECT kind, obj FROM rec_text WHERE obj LIKE 'schema/%' ORDER BY log, idx").fetchall()
        db.close()
        self.assertEqual(kinds, [(1531, f"schema/{TO}"), (1531, f"schema/{ZIP_ID}"), (1533, f"schema/{ZIP_ID}"), (1533, f"schema/{TO}")])

    def test_the_same_over_the_socket(self):
        self.crib.start()
        self.test_what_a_version_refers_to_never_changes()


if __name__ == "__main__":
    crib.main()
