"""Versions of tools: what of a new one breaks callers is named, and a tenant that is pinned goes on with the old one."""
import sqlite3
import unittest

import crib

OLD = "{type: object, properties: {city: {type: string}, days: {type: integer, maximum: 14}}, required: [city]}"
NEW = ("{type: object, properties: {city: {type: string}, days: {type: integer, maximum: 7}, units: {enum: [c, f]}}, "
       "required: [city, units]}")
SAID = "breaks callers: /inputSchema/properties/units is required now"


def weather(schema, text="sun"):
    return crib.tool_yaml("weather", f"{{type: static, text: {text}}}", schema)


class Breaking(crib.Case):
    def setUp(self):
        super().setUp()
        self.c = self.crib.init()
        self.c.tool(weather(OLD))

    def file(self, text):
        path = self.c.store.parent / "weather.yaml"
        path.write_text("kind: tool\n" + text)
        return path

    def test_show6_add_and_diff_name_what_breaks_callers(self):
        said = self.c.tool(weather(NEW))
        self.assertIn("version 2 stored; " + SAID + ", and 1 more: toolcrib tool diff weather", said)
        lines = self.c.cli("tool", "diff", "weather").splitlines()
        self.assertEqual([line for line in lines if line.startswith("!")], [
            "! /inputSchema/properties/units: breaks callers: is required now",
            "! /inputSchema/properties/days/maximum: breaks callers: was 14, is 7"])
        back = self.c.cli("tool", "diff", "weather", 2, 1)
        self.assertNotIn("!", back, "what is wider breaks nobody")
        self.assertNotIn("breaks", self.c.tool(weather(NEW, "rain")))

    def test_show6_apply_names_it_and_refuses_when_asked(self):
        path = self.file(weather(NEW))
        tried = self.c.run("apply", "-f", path, "--refuse-breaking")
        self.assertEqual(tried.returncode, 1, tried)
        self.assertIn(f"tool weather: {SAID}", tried.stderr)
        self.assertIn("--version", tried.stderr)
        self.assertEqual(self.c.json("tool", "show", "weather")[0]["version"], 1)
        self.assertIn("is required now", self.c.cli("--json", "apply", "-f", path, "--dry-run"))
        said = self.c.cli("apply", "-f", path)
        self.assertIn("    ! /inputSchema/properties/units: breaks callers: is required now\n", said)
        self.assertIn("1 changed, 0 removed; 1 of them breaks callers", said)
        tried = self.c.run("tool", "add", self.file(weather("{type: object, required: [a, city, units]}")),
                           "--refuse-breaking")
        self.assertEqual(tried.returncode, 1, tried)
        self.assertIn("breaks callers", self.c.cli("tool", "revert", "weather", 1) + self.c.cli("tool", "revert", "weather", 2))

    def test_show6_approve_names_it(self):
        self.c.cli("approval", "policy", "one")
        self.c.cli("approval", "versions", "required")
        self.assertIn("stored, waits for approval; " + SAID, self.c.tool(weather(NEW)))
        self.assertIn("! /inputSchema/properties/units", self.c.cli("tool", "diff", "weather"))
        self.assertIn("version 2 of weather is in force; " + SAID,
                      self.c.cli("tool", "approve", "weather", "--version", 2))


class Kept(crib.Case):
    """A tenant that goes on with the version that it was given."""

    def setUp(self):
        super().setUp()
        self.c = self.crib.init()
        self.c.tool(weather(OLD))
        self.old, self.new = self.c.tenant("acme"), self.c.tenant("beta", "weather")
        self.c.cli("grant", "add", "acme", "weather", "--version", 1)

    def peers(self):
        peers = []
        for key in (self.old, self.new):
            peers.append(self.c.tcp(key))
            self.addCleanup(peers[-1].close)
            peers[-1].initialize()
        return peers

    def required(self, peer):
        return [tool["inputSchema"]["required"] for tool in peer.ask("tools/list")["result"]["tools"]]

    def texts(self, *peers):
        return [peer.call("weather", {"city": "x", "units": "c"})["result"]["content"][0]["text"] for peer in peers]

    def test_show6_a_kept_version_is_listed_called_and_recorded(self):
        c = self.c
        c.start()
        acme, beta = self.peers()
        self.assertEqual(self.required(acme) + self.required(beta), [["city"], ["city"]])
        self.assertIn("breaks callers", c.tool(weather(NEW, "rain")))
        beta.notice("notifications/tools/list_changed")
        self.assertTrue(acme.quiet("notifications/tools/list_changed"), "a version that it does not see")
        self.assertEqual(self.required(acme), [["city"]])
        self.assertEqual(self.required(beta), [["city", "units"]])
        self.assertEqual(self.texts(acme, beta), ["sun", "rain"])
        self.assertTrue(beta.call("weather", {"city": "x"})["result"]["isError"])
        self.assertEqual(acme.call("weather", {"city": "x"})["result"]["content"][0]["text"], "sun")
        digests = {row["version"]: row["digest"] for row in c.json("tool", "history", "weather")}
        ran = {row["tenant"]: row["definition"] for row in c.json("audit", "calls", "--tenant", "acme") +
               c.json("audit", "calls", "--tenant", "beta") if row["outcome"] == "ok"}
        self.assertEqual(ran, {"acme": digests[1], "beta": digests[2]})
        self.assertEqual(c.json("grant", "list", "acme")[0]["version"], 1)
        self.assertEqual([(row["version"], row["kept_by"], row["in_force"]) for row in c.json("tool", "history", "weather")],
                         [(2, 0, True), (1, 1, False)], "who is asked before an old version is given up")
        for tenant, kept in (("acme", 1), ("beta", 0)):
            self.assertEqual([row["kept_by"] for row in c.json("tool", "history", "weather", "--tenant", tenant)], [0, kept],
                             "others' grants are no business of a tenant's auditor")
        c.stop()
        c.start()                       # from the rows
        acme, beta = self.peers()
        self.assertEqual(self.texts(acme, beta), ["sun", "rain"])
        c.cli("tool", "disable", "weather")
        acme.notice("notifications/tools/list_changed")
        self.assertEqual(acme.tools(), [])
        c.cli("tool", "enable", "weather")
        c.cli("grant", "set", "acme", "weather", "--no-version")
        self.assertEqual(self.texts(acme), ["rain"])
        self.assertEqual([text for text, in c.rows("SELECT object FROM v_records WHERE kind = 'tool.pin' ORDER BY idx")],
                         ["tool/weather@1", "tool/weather"])
        c.stop()
        self.assertEqual(c.run("audit", "verify").returncode, 0)

    def test_show6_what_cannot_be_kept_is_refused(self):
        c = self.c
        for words, parts in ((("add", "beta", "get_*", "--version", 1), ("a version is of one tool",)),
                             (("set", "beta", "weather", "--version", 7), ("version 7 of weather: not found", "tool history")),
                             (("set", "beta", "weather", "--version", 0), ("counted from 1", "--no-version")),
                             (("set", "acme", "weather", "--version", 1, "--no-version"), ("contradict",))):
            tried = c.run("grant", *words)
            self.assertEqual(tried.returncode, 1, tried)
            for part in parts:
                self.assertIn(part, tried.stderr)

    def test_show6_an_export_keeps_it(self):
        c = self.c
        c.tool(weather(NEW, "rain"))
        folder = c.store.parent / "out"
        c.cli("export", "--output", folder)
        path, = (path for path in (folder / "grant").iterdir() if path.name.startswith("acme"))
        self.assertIn("version: 1", path.read_text())
        self.assertIn("nothing differs", c.cli("apply", "-f", folder))
        path.write_text("kind: grant\ntenant: acme\ntool: weather\nversion: 2\n")
        self.assertIn("~ /version: 1 -> 2", c.cli("apply", "-f", folder))

    def test_show6_a_version_nobody_approved_is_not_kept(self):
        c = self.c
        c.cli("approval", "versions", "required")
        c.tool(weather(NEW, "rain"))
        tried = c.run("grant", "set", "acme", "weather", "--version", 2)
        self.assertIn("version 2 of weather waits for approval", tried.stderr)
        c.cli("tool", "reject", "weather", "--version", 2)
        tried = c.run("grant", "set", "acme", "weather", "--version", 2)
        self.assertEqual(tried.returncode, 1, tried)
        self.assertIn("second administrator", tried.stderr)
        c.cli("grant", "set", "beta", "weather", "--version", 1)

    def test_show6_an_edited_version_is_not_shown(self):
        c = self.c
        c.tool(weather(NEW, "rain"))
        db = sqlite3.connect(c.store / "toolcrib.db")
        with db:
            db.execute("UPDATE tool_version SET definition = replace(definition, 'sun', 'hail') WHERE version = 1")
            db.execute("UPDATE tool_version SET rec_idx = -1 - rec_idx WHERE version = 1")      # as no trigger had seen it
        db.close()
        c.start()
        peer, _ = self.peers()
        self.assertEqual(peer.tools(), [], "nothing, rather than what no record speaks of")


if __name__ == "__main__":
    crib.main()
