"""What needs two administrators is done on the strength of records: whoever writes the file makes nobody agree (FORGERY G-02)."""
import contextlib
import hashlib
import importlib.util
import json
import os
import re
import signal
import sqlite3
import struct
import sys
import unittest

import crib

sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("sceptic", crib.SOURCE / "contrib/verify/verify.py")
sceptic = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sceptic)

ROLES = """
admin:
  socket: {socket}
roles:
  - {{role: admin, uid: 40001}}
"""
ERASE = ("erase", "--tenant", "acme", "--ground", "asked for", "--ticket", "T-1")


@unittest.skipUnless(os.geteuid() == 0, "needs another administrator to be")
class OnRecord(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "echo")
        self.socket = c.store.parent / "admin-public.sock"
        c.let_others_in()
        self.start()
        peer = c.http(self.key)
        peer.call("echo", {"text": "x"}, rev=crib.MODERN)
        peer.close()

    def start(self):
        self.crib.start(ROLES.format(socket=self.socket))

    def other(self, *words):
        """Another administrator gives a command."""
        return crib.subprocess.run([str(crib.BUILD / "toolcrib"), "--socket", str(self.socket), *map(str, words)], user=40001,
                                   group=40001, capture_output=True, text=True, timeout=60, env=self.crib.env)

    def ask(self, *words):
        done = self.crib.run("--yes", *words)
        self.assertEqual(done.returncode, 1, done)
        return int(re.search("request ([0-9]+) waits", done.stderr).group(1))

    def grant(self, request):
        done = self.other("approval", "grant", request)
        self.assertEqual(done.returncode, 0, done)

    def refused(self, *words):
        """Nobody has agreed, whatever the rows say; a new request may be filed."""
        done = self.crib.run("--yes", *words)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("second administrator", done.stderr)

    def edit(self, *statements):
        """Whoever writes the file, while no server runs."""
        self.crib.stop()
        self.write(*statements)
        self.start()

    def write(self, *statements):
        with contextlib.closing(sqlite3.connect(self.crib.store / "toolcrib.db", isolation_level=None, timeout=60)) as db:
            db.execute("BEGIN IMMEDIATE")
            triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
            for name, _ in triggers:
                db.execute(f"DROP TRIGGER {name}")
            for sql, *values in statements:
                self.assertGreater(db.execute(sql, values).rowcount, 0, sql)
            for _, text in triggers:
                db.execute(text)
            db.execute("COMMIT")

    def forge(self, *records):
        """Records at the end of the system log with all hashes that carry no signature: (row to begin with, changes)."""
        db = sqlite3.connect(self.crib.store / "toolcrib.db", isolation_level=None, timeout=60)
        with contextlib.closing(db):
            db.row_factory = sqlite3.Row
            triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
            for name, _ in triggers:
                db.execute(f"DROP TRIGGER {name}")
            origin = db.execute("SELECT origin FROM log WHERE id = 1").fetchone()[0]
            size, frontier = db.execute("SELECT size, frontier FROM head WHERE log = 1").fetchone()
            tree = sceptic.Tree(size, [frontier[at:at + 32] for at in range(0, len(frontier), 32)])
            for leaf, in db.execute("SELECT leaf FROM rec WHERE log = 1 AND idx >= ? ORDER BY idx", (size,)):
                tree.append(leaf)               # of records that the head does not know yet
            maker = sceptic.Verifier(db)
            for where, changes in records:
                row = dict(db.execute(f"SELECT * FROM rec WHERE log = 1 AND {where} ORDER BY idx DESC LIMIT 1").fetchone())
                row.update(changes, idx=tree.size, leaf=None, id=db.execute("SELECT max(id) + 1 FROM rec").fetchone()[0])
                row["leaf"] = maker.leaf(origin, row)
                tree.append(row["leaf"])
                names = ",".join(f'"{name}"' for name in row)
                db.execute(f"INSERT INTO rec({names}) VALUES({','.join('?' * len(row))})", tuple(row.values()))
            db.execute("UPDATE head SET size = ?, root = ?, frontier = ? WHERE log = 1", (tree.size, tree.root(), b"".join(tree.peaks)))
            for _, text in triggers:
                db.execute(text)

    def kept(self):
        return self.crib.rows("SELECT count(*) FROM rec WHERE kind = 1906")[0][0]

    def sound(self):
        self.crib.stop()
        done = self.crib.run("audit", "verify")
        self.assertEqual(done.returncode, 0, done)

    GRANT = ("UPDATE approval SET granted_by = 'uid 40001', granted_us = asked_us + 1000000",)

    def test_a_row_that_says_granted_grants_nothing(self):
        self.ask(*ERASE)
        self.edit(self.GRANT)
        self.refused(*ERASE)
        self.assertEqual(self.crib.json("approval", "list")[0]["state"], "waits")
        self.assertEqual(self.kept(), 0)
        self.assertEqual(self.crib.json("audit", "dual-control"), [])
        self.sound()

    def test_a_row_that_is_written_while_the_server_runs_ends_all(self):
        self.ask(*ERASE)
        self.write(self.GRANT)
        done = self.crib.run("--yes", *ERASE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("another program has written to the store", done.stderr + self.crib.log.read_text())      # it, or what was written before
        self.assertEqual(self.kept(), 0)

    def test_two_do_it_also_across_a_restart(self):
        request = self.ask(*ERASE)
        self.crib.stop()
        self.start()
        self.grant(request)
        self.crib.stop()
        self.start()
        self.crib.cli("--yes", *ERASE)
        self.assertEqual(self.kept(), 1)
        row, = [row for row in self.crib.json("audit", "erasures") if row["kind"] == "erase"]
        self.assertEqual(row["approver"], f"uid 40001 approval/{request}")
        self.assertEqual(self.crib.json("audit", "dual-control"), [])
        self.refused(*ERASE)
        self.sound()

    def test_a_grant_is_used_once(self):
        c = self.crib
        request = self.ask(*ERASE)
        self.grant(request)
        row = c.rows("SELECT id, digest, command, tenant_id, asked_by, asked_us, granted_by, granted_us FROM approval")[0]
        again = ("INSERT INTO approval VALUES(?, ?, ?, ?, ?, ?, ?, ?)", *row)
        c.cli("--yes", *ERASE)
        self.edit(again)
        self.refused(*ERASE)
        self.edit(("DELETE FROM approval",), again)
        self.refused(*ERASE)
        self.assertEqual(self.kept(), 1)
        self.sound()

    def test_the_grant_of_another_request_is_none(self):
        """Its digest, its number, or its record."""
        c = self.crib
        harmless = ("level", "set", "metadata", "--tenant", "acme")
        granted, wanted = self.ask(*harmless), self.ask(*ERASE)
        self.grant(granted)
        digest, = c.rows("SELECT digest FROM approval WHERE id = ?", wanted)[0]
        self.edit(("DELETE FROM approval WHERE id = ?", wanted), ("UPDATE approval SET digest = ? WHERE id = ?", digest, granted))
        self.refused(*ERASE)
        self.assertEqual(self.kept(), 0)
        wanted, = c.rows("SELECT max(id) FROM approval")[0]
        obj = f"approval/{wanted}"
        number, = c.rows("SELECT id FROM dict WHERE kind = 112 AND text = ?", obj)[0]
        self.forge_and_start(("kind = 1911", {"obj": number}))
        self.refused(*ERASE)
        self.assertEqual(self.kept(), 0)

    def forge_and_start(self, *records):
        """Where the server ended as in a crash: what is unsigned then is believed to be its own, and is no grant."""
        self.crib.stop(signal.SIGKILL)
        self.forge(*records)
        self.start()

    def test_a_forged_record_of_a_grant_is_none(self):
        """A-T: with leaf and head as they should be; after a stop the start is refused, after a crash nobody has agreed."""
        c = self.crib
        request = self.ask(*ERASE)
        c.cli("audit", "checkpoint")
        row, = c.rows("SELECT ext, obj, ts FROM rec WHERE log = 1 AND kind = 1910")
        fields = sceptic.fields(row[0])
        fields[0x106], fields[0x113] = b"uid 40001", f"uid 40001: approval grant id={request}".encode()
        ext = b"".join(struct.pack(">HI", tag, len(value)) + value for tag, value in sorted(fields.items()))
        grant = ("kind = 1910", {"kind": 1911, "ext": ext, "ts": row[2] + 1})
        self.forge_and_start(grant)
        self.assertEqual(c.json("approval", "list")[0]["state"], "waits")
        self.refused(*ERASE)
        self.assertEqual(self.kept(), 0)
        c.stop()
        self.forge(grant)
        self.assertIn("records were added", c.run("approval", "list").stderr)

    def test_what_a_crash_left_unsigned_gives_nothing(self):
        """A policy and a grant; and nothing is damaged."""
        c = self.crib
        c.cli("approval", "versions", "required")
        free = ("approval", "versions", "free")
        self.grant(self.ask(*free))
        request = self.ask(*ERASE)
        c.cli("audit", "checkpoint")
        signers = [pid for pid, name in crib.below(c.daemon.pid).items() if name == "toolcrib-sign"]
        self.assertTrue(signers)
        for pid in signers:
            os.kill(pid, signal.SIGSTOP)
        c.cli(*free)
        self.grant(request)
        c.stop(signal.SIGKILL)
        for pid in signers:
            os.kill(pid, signal.SIGKILL)
        self.start()
        c.tool(crib.ECHO.replace("Says", "Says once more"))
        self.assertEqual([row["version"] for row in c.json("tool", "pending")], [2])
        self.refused(*ERASE)
        self.sound()

    def test_what_is_shown_is_what_is_agreed_to(self):
        """The row's text is another one: neither shown nor granted."""
        c = self.crib
        request = self.ask(*ERASE)
        text = c.rows("SELECT command FROM approval")[0][0]
        self.edit(("UPDATE approval SET command = 'tenant list'",))
        row, = c.json("approval", "list")
        self.assertEqual((row["state"], row["command"]), ("not recorded", None))
        done = self.other("approval", "grant", request)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no record says", done.stderr)
        self.edit(("UPDATE approval SET command = ?", text))
        self.assertEqual(c.json("approval", "list")[0]["command"], text)
        # Text and record: the record is not the one in the tree any more.
        ext = c.rows("SELECT ext FROM rec WHERE log = 1 AND kind = 1910")[0][0]
        forged = ext.replace(hashlib.sha256(text.encode()).digest(), hashlib.sha256(b"tenant list").digest())
        self.assertNotEqual(ext, forged)
        c.stop()
        self.write(("UPDATE approval SET command = 'tenant list'",), ("UPDATE rec SET ext = ? WHERE log = 1 AND kind = 1910", forged))
        done = c.run("approval", "list")
        self.assertEqual(done.returncode, 3, done)
        self.assertIn("not there as it was written", done.stderr)

    def refuses_to_start(self, change, back):
        """What the row says is what no record says."""
        self.crib.stop()
        self.write(change)
        self.assertIn("is not what its record says", self.crib.run("status").stderr)
        self.write(back)
        self.start()

    def setting(self, key):
        """The row, to be put back as it is now."""
        names = [row[1] for row in self.crib.rows("PRAGMA table_info(meta)")]
        row, = self.crib.rows("SELECT * FROM meta WHERE key = ?", key)
        return (f"UPDATE meta SET {', '.join(f'{name} = ?' for name in names)} WHERE key = '{key}'", *row)

    def test_a_policy_is_what_the_newest_record_says(self):
        """One is enough, or versions are free, in the row alone: as no record says, or as an older one did."""
        c = self.crib
        c.stop()
        c.cli("approval", "policy", "one")
        one = self.setting("approvals")
        c.cli("approval", "policy", "two")
        self.refuses_to_start(*((f"UPDATE meta SET value = '{word}' WHERE key = 'approvals'",) for word in ("one", "two")))
        self.edit(one)
        self.refused(*ERASE)
        c.cli("approval", "versions", "required")
        self.grant(self.ask("approval", "versions", "free"))
        c.cli("approval", "versions", "free")
        free = self.setting("versions")
        c.cli("approval", "versions", "required")
        self.edit(free)
        c.tool(crib.ECHO.replace("Says", "Says once more"))
        self.assertEqual([row["version"] for row in c.json("tool", "pending")], [2])
        self.assertEqual(self.kept(), 0)

    def test_a_version_is_not_approved_by_who_made_it(self):
        """Whatever the row says of its author."""
        c = self.crib
        c.cli("approval", "versions", "required")
        c.tool(crib.ECHO.replace("Says", "Says once more"))
        self.refuses_to_start(*((f"UPDATE pending_version SET actor = 'uid {uid}'",) for uid in (40001, 0)))
        done = c.run("tool", "approve", "echo", "--version", 2)
        self.assertEqual(done.returncode, 1)
        self.assertIn("made this version", done.stderr)
        self.assertEqual(self.other("tool", "approve", "echo", "--version", 2).returncode, 0)
        self.sound()

    def test_one_is_enough_where_records_say_so(self):
        """And each deed without a second one is in the report (A-Q30)."""
        c = self.crib
        c.stop()
        c.cli("approval", "policy", "one")
        self.start()
        c.cli("--yes", *ERASE)
        done = c.run("--json", "audit", "dual-control")
        self.assertEqual(done.returncode, 4)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(row["kind"], row["approver"]) for row in rows], [("erase", "none: approval policy one")])
        row, = [row for row in c.json("audit", "erasures") if row["kind"] == "erase"]
        self.assertEqual(row["approver"], "none: approval policy one")
        c.cli("approval", "policy", "two")
        self.refused(*ERASE)
        self.sound()


if __name__ == "__main__":
    crib.main()
