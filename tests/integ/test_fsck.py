"""Rows that keep a store from starting: fsck names them, and taking them out of service only closes (found.md, Missing)."""
import sqlite3

import crib

KINDS = "SELECT object FROM v_records WHERE kind = 'registry.quarantine' ORDER BY idx"


class Fsck(crib.Case):
    """An attacker has the files and no key; who repairs has the files as well."""

    def setUp(self):
        super().setUp()
        c = self.c = self.crib.init()
        c.tool(crib.tool_yaml("greet", "{type: static, text: hi}"))
        self.key = c.tenant("acme", "greet")
        self.other = c.tenant("beta", "greet")

    def edit(self, *statements, quietly=True):
        """As whoever knows how rows are marked: no trigger is seen to have run."""
        db = sqlite3.connect(self.c.store / "toolcrib.db")
        with db:
            marks = {table: db.execute(f"SELECT id, rec_log, rec_idx FROM {table}").fetchall()
                     for table in ("tenant", "principal", "cred", "tool_grant", "tool")}
            for statement in statements:
                db.execute(statement)
            for table, rows in marks.items() if quietly else ():
                db.executemany(f"UPDATE {table} SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1", rows)
        db.close()

    def listed(self):
        done = self.c.run("--json", "fsck")
        rows = [crib.json.loads(line)["row"] for line in done.stdout.splitlines()]
        self.assertEqual(done.returncode, 4 if rows else 0, done)
        return rows

    def refused_start(self, *parts):
        done = self.c.run("tenant", "list")
        self.assertNotEqual(done.returncode, 0, done)
        for part in parts:
            self.assertIn(part, done.stderr)

    def take_out(self, *rows):
        self.c.cli("--yes", "fsck", *(word for row in rows for word in ("--quarantine", row)))
        self.assertEqual(self.listed(), [])

    def may_call(self, key):
        """Without a server: does the key open anything?"""
        self.c.start()
        try:
            peer = self.c.tcp(key)
            try:
                peer.initialize()
                return "result" in peer.call("greet")
            except (EOFError, ConnectionError, AssertionError, KeyError):
                return False
            finally:
                peer.close()
        finally:
            self.c.stop()

    def test_a_good_store_has_no_such_rows(self):
        self.assertEqual(self.listed(), [])
        done = self.c.run("--yes", "fsck", "--quarantine", "cred/1")
        self.assertIn("cred/1 is what its record says", done.stderr)
        for row, why in (("cred", "is no row"), ("nothing/1", "is no row"), ("log/1", "restore a backup")):
            done = self.c.run("--yes", "fsck", "--quarantine", row)
            self.assertEqual(done.returncode != 0 and why in done.stderr, True, done)
        self.assertTrue(self.may_call(self.key))

    def test_a_revocation_stays_whatever_the_row_says(self):
        accessor = self.c.json("key", "list", "acme")[0]["accessor"]
        self.c.cli("--yes", "key", "revoke", accessor)
        self.edit("UPDATE cred SET revoked_us = NULL, rotated_us = 5 WHERE id = 1")
        self.refused_start("cred/1 is not what its record says", "toolcrib fsck")
        self.assertEqual(self.listed(), ["cred/1"])
        self.take_out("cred/1")
        self.assertEqual(self.c.rows("SELECT revoked_us IS NULL FROM cred WHERE id = 1"), [(0,)])
        self.assertFalse(self.may_call(self.key))
        self.assertTrue(self.may_call(self.other), "all others are served again")
        self.assertEqual(self.c.run("audit", "verify").returncode, 0)
        done = self.c.run("--json", "audit", "dual-control")
        row, = [crib.json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(done.returncode, 4, "what one did alone is a finding")
        self.assertEqual((row["kind"], row["object"]), ("registry.quarantine", "cred/1"))
        self.assertIn("alone", row["detail"])
        (kept,), = self.c.rows("SELECT ext FROM rec WHERE kind = 1540")
        self.assertIn(accessor.encode(), kept, "the row as it stood is in the record")

    def test_a_suspension_stays_and_the_forged_tenant_is_closed(self):
        self.c.cli("--yes", "tenant", "suspend", "acme")
        self.edit("UPDATE tenant SET state = 1, concurrency = 9999 WHERE name = 'acme'")
        self.take_out("tenant/1")
        self.assertFalse(self.may_call(self.key))
        self.assertEqual([row["name"] for row in self.c.json("tenant", "list")], ["beta"])

    def test_what_was_slipped_in_is_taken_back_with_all_that_it_could_hide(self):
        self.edit("INSERT INTO tool_grant(tenant_id, glob, alias, concurrency, rate_count, rate_per_s, created_us) "
                  "VALUES (1, '*', '', 0, 0, 0, 1)", quietly=False)
        self.refused_start("grant/3")
        self.take_out("grant/3")
        self.assertEqual(self.c.json("tenant", "show", "acme")[0]["state"], "suspended")
        self.assertEqual(self.c.rows("SELECT count(*) FROM tool_grant WHERE glob = '*'"), [(0,)])

    def test_a_row_is_not_vouched_for_beside_another(self):
        """Somebody breaks a row that will be repaired, so that the record takes a second one along."""
        self.edit("UPDATE cred SET revoked_us = 5 WHERE id = 1",
                  "UPDATE cred SET expires_us = 99 WHERE id = 2", quietly=False)
        done = self.c.run("--yes", "fsck", "--quarantine", "cred/1")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("cred/2 is not what its record says either; nothing was changed", done.stderr)
        self.assertEqual(self.listed(), ["cred/1", "cred/2"])
        self.assertEqual(self.c.rows(KINDS), [])
        self.take_out("cred/1", "cred/2")
        self.assertEqual(self.c.rows("SELECT count(*) FROM cred WHERE revoked_us IS NULL"), [(0,)])
        self.assertEqual(self.c.rows(KINDS), [("cred/1",), ("cred/2",)])

    def test_a_row_that_is_gone_closes_its_tenant(self):
        self.edit("DELETE FROM tool_grant WHERE tenant_id = 1", quietly=False)
        self.refused_start("grant/1")
        self.take_out("grant/1")
        self.assertEqual(self.c.json("tenant", "show", "acme")[0]["state"], "suspended")
        self.assertEqual(self.c.run("audit", "verify").returncode, 0)

    def test_a_forged_tool_and_its_version_are_not_run(self):
        self.edit("UPDATE tool_version SET definition = replace(definition, 'hi', 'evil')", quietly=False)
        self.assertEqual(self.listed(), ["tool/1", "version/1"])
        self.take_out("tool/1", "version/1")
        self.assertFalse(self.may_call(self.key))
        self.c.tool(crib.tool_yaml("greet", "{type: static, text: hi}"))
        self.assertTrue(self.may_call(self.key), "added anew it is served")

    def test_a_long_row_is_kept_up_to_its_limit(self):
        """ROW_KEPT_MAX: the record has that much of a row, and a shorter one whole."""
        self.c.tool(crib.tool_yaml("long", "{type: static, text: " + 40000 * "x" + "}"))
        self.edit("UPDATE tool_version SET actor = 'nobody' WHERE version = 1", quietly=False)
        self.take_out("version/1", "version/2")
        self.assertEqual(self.c.json("tool", "list"), [], "what was in force goes with its version")
        self.assertEqual([self.kept(ext) for ext, in self.c.rows("SELECT ext FROM rec WHERE kind = 1540 ORDER BY idx")][1],
                         32 << 10)
        self.assertLess(self.kept(self.c.rows("SELECT ext FROM rec WHERE kind = 1540 ORDER BY idx")[0][0]), 1000)

    @staticmethod
    def kept(ext):
        """Length of the field 0139."""
        at = 0
        while at < len(ext):
            tag, length = int.from_bytes(ext[at:at + 2], "big"), int.from_bytes(ext[at + 2:at + 6], "big")
            if tag == 0x139:
                return length
            at += 6 + length
        return None

    def test_every_kind_closes(self):
        c = self.c
        c.cli("secret", "set", "token", stdin="value-of-a-secret")
        c.cli("limit", "set", "acme", "--calls-per-day", 5)
        c.cli("level", "set", "request", "--tenant", "acme", "--tool", "greet")
        self.edit("UPDATE principal SET created_us = 1 WHERE id = 1", "UPDATE secret SET created_us = 1",
                  "UPDATE limit_row SET calls_day = 9999", "UPDATE tool_level SET level = 0, tool = 'other'",
                  "UPDATE tool_grant SET rate_count = 0, created_us = 1 WHERE id = 1", quietly=False)
        rows = self.listed()
        self.assertEqual(sorted(rows), ["grant/1", "level/1", "limit/1", "principal/1", "secret/1"])
        self.take_out(*rows)
        self.assertEqual(c.rows("SELECT count(*) FROM secret, limit_row, tool_level"), [(0,)])
        self.assertEqual(c.rows("SELECT state FROM principal WHERE id = 1"), [(2,)])
        self.assertEqual(c.rows("SELECT state FROM tenant WHERE id = 1"), [(2,)])
        self.assertFalse(self.may_call(self.key))
        self.assertTrue(self.may_call(self.other))
        self.assertEqual(c.run("audit", "verify").returncode, 0)
        done = crib.subprocess.run([*crib.sceptic(), str(c.store)],
                                   capture_output=True, text=True)
        self.assertNotIn("DAMAGED", done.stdout)

    def test_a_store_in_use_is_left_alone(self):
        self.c.start()
        done = self.c.run("--yes", "fsck", "--quarantine", "cred/1")
        self.assertIn("holds the store", done.stderr)


if __name__ == "__main__":
    crib.main()
