"""The store as a reviewer reads it: views of the file, opened read-only, and their description in toolcrib-audit(7)."""
import re
import sqlite3

import crib

PAGE = crib.SOURCE / "src/audit/toolcrib-audit.7"
STRICT = crib.tool_yaml("strict", "{type: builtin, function: echo}",
                        "{type: object, properties: {text: {type: string}}, required: [text]}")


def words(text, macro):
    """The words behind a macro at the start of a line."""
    return re.findall(rf"(?m)^\.{macro} (\S+)", text)


class Views(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init().start()
        c.tool(crib.ECHO, "echo.yaml")
        c.tool(STRICT, "strict.yaml")
        self.key = c.tenant("acme", "echo", "strict")
        c.tenant("other", "echo")
        self.page = PAGE.read_text()

    def ask(self, sql, *values):
        db = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        db.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in db.execute(sql, values)]
        finally:
            db.close()

    def views(self):
        return [row["name"] for row in self.ask("SELECT name FROM sqlite_schema WHERE type = 'view' AND name LIKE 'v@_%' ESCAPE '@'")]

    def columns(self, table):
        return [row["name"] for row in self.ask("SELECT name FROM pragma_table_info(?)", table)]

    def test_every_column_of_every_view_is_described(self):
        section = self.page.split(".Sh VIEWS")[1].split(".Ss Columns")[0]
        described = {item.split()[0]: words(item, "Va") for item in section.split(".It Sy ")[1:]}
        self.assertEqual(sorted(described), sorted(self.views()))
        meant = set(words(self.page.split(".Ss Columns")[1].split(".Ss Examples")[0], "It Va"))
        for view in described:
            self.assertEqual(described[view], self.columns(view), view)
            self.assertEqual(set(described[view]) - meant, set(), view)

    def test_every_column_of_the_encoding_is_described(self):
        section = self.page.split(".Sh ENCODING 1")[1].split(".Sh CHECKING")[0]
        described = re.findall(r"(?m)^\.It ([0-9A-F]{4}) Ta Va (\w+) Ta", section)
        source = (crib.SOURCE / "include/block/row.h").read_text()
        self.assertEqual(described, [(tag, name) for name, tag in re.findall(r'X\(\w+, "(\w+)", 0x([0-9A-F]{4}),', source)])
        self.assertEqual({name for _, name in described} | {"id", "enc", "leaf"}, set(self.columns("rec")))

    def test_every_table_of_the_audit_is_described(self):
        registry = {"meta", "tenant", "principal", "cred", "tool", "tool_version", "tool_grant", "upstream", "upstream_tool",
                    "shared_schema", "tool_schema", "schema_schema", "secret", "pending_version", "limit_row", "usage_day"}
        tables = {row["name"] for row in self.ask("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")}
        section = self.page.split(".Sh TABLES")[1].split(".Sh ENCODING")[0]
        described = {name for line in re.findall(r"(?m)^\.It (Va .*)", section) for name in re.findall(r"Va (\w+)", line)}
        self.assertEqual(described, tables - registry)

    def test_every_report_is_in_the_list(self):
        section = self.page.split(".Sh REPORTS")[1].split(".Sh OPENING")[0]
        rows = (crib.SOURCE / "src/review/report.c").read_text()
        for verb in re.findall(r'REPORT\("([a-z-]+)"', rows):
            self.assertRegex(section, rf"\.It audit ([a-z-]+, )?{verb}[ ,]", verb)

    def test_every_example_runs(self):
        self.crib.cli("call", "acme", "echo", "text=x")
        section = self.page.split(".Ss Examples")[1].split(".Sh TABLES")[0]
        examples = re.findall(r"(?s)\.Bd -literal[^\n]*\n(.*?)\.Ed", section)
        self.assertGreater(len(examples), 4)
        for sql in examples:
            self.ask(sql)

    def test_kinds_have_their_names(self):
        source = (crib.SOURCE / "include/audit/audit.h").read_text()
        named = [(name, int(code)) for code, name in re.findall(r'X\(\w+, (\d+), "([a-z_.]+)"\)', source)]
        self.assertGreater(len(named), 60)
        view = self.ask("SELECT sql FROM sqlite_schema WHERE name = 'v_records'")[0]["sql"]
        self.assertEqual(sorted(named), sorted((name, int(code)) for code, name in re.findall(r"WHEN (\d+) THEN '([a-z_]+[.a-z_]*)'",
                         view.split("CASE r.kind")[1].split("END AS kind")[0])))

    def test_calls_say_who_what_how_and_when(self):
        """AUDIT A-631: what a view shows is what is hashed, with texts in place of ids."""
        c = self.crib
        peer = c.http(self.key)
        peer.call("echo", {"text": "hello"}, rev=crib.MODERN)
        peer.call("strict", {}, rev=crib.MODERN)
        peer.call("no_such_tool", {}, rev=crib.MODERN)
        peer.close()
        rows = self.ask("SELECT * FROM v_calls WHERE tenant = 'acme' ORDER BY idx")
        self.assertEqual([(r["tool"], r["outcome"], r["principal"], r["transport"], r["revision"]) for r in rows],
                         [("echo", "ok", "bot", "http", crib.MODERN), ("strict", "invalid", "bot", "http", crib.MODERN),
                          (None, "denied", "bot", "http", crib.MODERN)])
        self.assertRegex(rows[0]["rule"], "^grant/")
        self.assertRegex(rows[0]["definition"], "^[0-9a-f]{64}$")
        self.assertRegex(rows[0]["time"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
        self.assertLessEqual(rows[0]["began"], rows[0]["time"])
        shown = c.json("audit", "show", rows[0]["call"])
        self.assertEqual([r["time"] for r in shown], [rows[0]["began"], rows[0]["time"]])
        self.assertEqual([r["rule"] for r in self.ask("SELECT rule FROM v_denied WHERE tenant = 'acme' ORDER BY idx")],
                         [r["rule"] for r in rows[1:]])
        self.assertEqual(self.ask("SELECT count(*) AS n FROM v_calls WHERE tenant = 'other'")[0]["n"], 0)

    def test_events_say_what_was_done(self):
        rows = self.ask("SELECT * FROM v_admin WHERE tenant = 'acme' ORDER BY idx")
        self.assertEqual([r["kind"] for r in rows], ["grant.add", "grant.add", "cred.create"])
        self.assertTrue(all(r["detail"].startswith("uid ") for r in rows))
        accessor = self.key.split("_")[1]
        self.assertEqual([(r["key"], r["principal"]) for r in self.ask("SELECT * FROM v_keys WHERE tenant = 'acme'")], [(accessor, "bot")])
        tools = self.ask("SELECT * FROM v_definitions ORDER BY idx")
        self.assertEqual([(r["kind"], r["object"]) for r in tools], [("tool.register", "tool/echo@1"), ("tool.register", "tool/strict@1")])
        self.assertEqual([r["after"] for r in tools], [self.crib.json("tool", "show", t)[0]["digest"] for t in ("echo", "strict")])
        kinds = [r["kind"] for r in self.ask("SELECT kind FROM v_lifecycle WHERE log_id = 1 ORDER BY idx")]
        self.assertEqual(kinds[0], "log.open")
        while kinds[-2:] == ["time.sync"] * 2:          # what was said of the clock has changed since
            kinds.pop()
        self.assertEqual(kinds[-3:], ["server.start", "config.load", "time.sync"])
        self.crib.cli("audit", "calls", "--tenant", "acme", "--tool", "x" * 64)
        self.assertIn("tool=" + "x" * 64, self.ask("SELECT detail FROM v_reads WHERE tenant = 'acme'")[0]["detail"])

    def test_numbers_of_ext_are_read(self):
        c = self.crib
        peer = c.tcp(self.key)
        peer.initialize("2025-11-25")
        c.cli("grant", "remove", "acme", "strict", "--yes")
        row, = crib.wait_for("the record of the notice, which nobody waits for",
                             lambda: self.ask("SELECT * FROM v_notify WHERE tenant = 'acme' ORDER BY idx DESC LIMIT 1"))
        peer.close()
        self.assertEqual(row["receivers"], 1)
        self.assertEqual(row["generation"], c.json("tenant", "show", "acme")[0]["generation"])


if __name__ == "__main__":
    crib.main()
