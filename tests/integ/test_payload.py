"""What calls say: kept by level, encrypted, redacted, read again by those who may (AUDIT 5, A-220 to A-222, A-411 to A-415)."""
import hashlib
import hmac
import json
import os
import shutil
import sqlite3
import subprocess

import crib

CANARY = "c4nary-9b1f77aa"
LOGIN = crib.tool_yaml("login", "{type: builtin, function: echo}", "{type: object}",
                       "audit: {redact: [/password, /card/number]}\n")


class Payload(crib.Case):
    def rows(self, query, *args):
        db = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        got = db.execute(query, args).fetchall()
        db.close()
        return got

    def ready(self, extra="", before=()):
        c = self.crib.init()
        if before:
            c.cli(*before)
        c.tool(crib.ECHO)
        c.tool(LOGIN)
        key = c.tenant("acme", "*")
        self.config = f"{extra}roles: [{{role: auditor, uid: {os.geteuid()}}}]\n"   # who has the store is no auditor by that
        c.config_alone(self.config)
        c.start(self.config)
        self.peer = c.http(key)
        self.addCleanup(self.peer.close)
        self.peer.initialize()
        return c

    def call(self, tool="echo", arguments=None):
        """The id of a call of it."""
        got = self.peer.call(tool, arguments or {"text": CANARY})
        return (got.get("result") or got["error"])["_meta" if "result" in got else "data"][
            "dev.toolcrib/callId" if "result" in got else "callId"]

    def payload(self, call, *more):
        return {row["what"]: row for row in self.crib.json("audit", "payload", call, *more)}

    def nowhere(self, *words):
        """No file of the store has these."""
        for path, data in self.crib.files():
            for word in words:
                self.assertNotIn(word.encode(), data, path)

    def test_arguments_are_kept_and_results_are_not(self):
        """AUDIT A-220: level request is the default."""
        c = self.ready()
        got = self.payload(self.call())
        self.assertEqual(got["arguments"]["state"], "kept")
        self.assertEqual(json.loads(got["arguments"]["value"]), {"text": CANARY})
        self.assertEqual((got["result"]["state"], got["result"]["value"]), ("committed", None))
        self.assertTrue(got["address"]["state"].startswith("adr_"))
        self.assertEqual(got["address"]["value"], "127.0.0.1")
        self.assertEqual(self.rows("SELECT count(*) FROM rec_text WHERE kind = 1801 AND log = 2")[0][0], 1)
        c.stop()
        self.nowhere(CANARY, "127.0.0.1")
        self.assertEqual(self.payload_embedded(), {"text": CANARY})

    def payload_embedded(self):
        call = self.rows("SELECT lower(hex(call)) FROM rec WHERE kind = 1002")[0][0]
        call = "-".join((call[:8], call[8:12], call[12:16], call[16:20], call[20:]))
        return json.loads(self.payload(call)["arguments"]["value"])

    def test_levels_by_server_tenant_and_tool(self):
        """AUDIT A-221: the most specific wins; a change is a record."""
        c = self.ready("audit: {level: metadata}\n")
        self.assertEqual(self.payload(self.call())["arguments"]["state"], "committed")
        self.assertEqual(self.rows("SELECT count(*) FROM pay WHERE ct IS NOT NULL")[0][0], 0)
        c.cli("level", "set", "request", "--tenant", "acme", "--tool", "echo")
        self.assertEqual(self.payload(self.call())["arguments"]["state"], "kept")
        self.assertEqual(self.payload(self.call("login"))["arguments"]["state"], "committed")
        done = c.run("level", "set", "request_response", "--tenant", "acme")
        self.assertIn("second administrator", done.stderr, "the tool would be below its tenant (AUDIT A-909)")
        c.cli("level", "set", "default", "--tenant", "acme", "--tool", "echo")
        c.cli("level", "set", "request_response", "--tenant", "acme")
        got = self.payload(self.call())
        self.assertEqual(json.loads(got["result"]["value"])["content"][0]["type"], "text")
        for tool in (["--tool", "echo"], []):
            done = c.run("level", "set", "metadata", "--tenant", "acme", *tool)
            self.assertIn("second administrator", done.stderr, "the other ways to the same")
        self.assertEqual([tuple(row.values()) for row in c.json("level", "list")],
                         [(None, None, "metadata"), ("acme", None, "request_response")])
        said = self.rows("SELECT obj FROM rec_text WHERE kind = 1404 ORDER BY id")
        self.assertEqual([row[0] for row in said], ["level/default", "level/acme/echo", "level/acme/echo", "level/acme"])
        flags = [row[0] & 3 for row in self.rows("SELECT flags FROM rec WHERE kind = 1001 ORDER BY id")]
        self.assertEqual(flags, [0, 1, 0, 2])
        self.assertEqual(c.run("level", "set", "none", "--tenant", "acme").returncode, 1)
        c.stop()
        self.nowhere(CANARY)
        c.cli("approval", "policy", "one")
        c.cli("level", "set", "default", "--tenant", "acme")
        done = c.run("call", "acme", "login", "text=1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.rows("SELECT flags & 3 FROM rec WHERE kind = 1001 ORDER BY id DESC")[0][0], 0,
                         "a command goes by what the server had")

    def test_what_is_sensitive_is_a_token(self):
        """AUDIT A-412, MCP Z-07"""
        c = self.ready()
        secret = {"user": "al", "password": CANARY, "card": {"number": [4111, CANARY], "year": 2030}}
        got = self.payload(self.call("login", secret))
        kept = json.loads(got["arguments"]["value"])
        self.assertEqual((kept["user"], kept["card"]["year"]), ("al", 2030))
        self.assertRegex(kept["password"], "^redacted:[A-Za-z0-9_-]{16}$")
        self.assertRegex(kept["card"]["number"], "^redacted:")
        self.assertEqual(got["redacted"]["value"], "/password\n/card/number")
        again = json.loads(self.payload(self.call("login", {"password": CANARY}))["arguments"]["value"])
        self.assertEqual(again["password"], kept["password"], "equal values can be joined")
        key = c.key("acme/leaky")
        got = self.payload(self.call("echo", {"text": f"my key is {key}."}))
        self.assertEqual(json.loads(got["arguments"]["value"])["text"], "my key is [key].")

    def test_a_name_that_does_not_exist_is_a_value(self):
        """AUDIT A-633"""
        c = self.ready()
        self.peer.call(CANARY, {"a": 1})
        self.peer.call(CANARY + "2", {"a": 1})
        call = self.rows("SELECT lower(hex(call)) FROM rec WHERE kind = 1003 ORDER BY id")[0][0]
        call = "-".join((call[:8], call[8:12], call[12:16], call[16:20], call[20:]))
        got = self.payload(call)
        self.assertEqual(got["unknown_name"]["value"], CANARY)
        self.assertEqual(got["arguments"]["state"], "committed", "what of it is sensitive is not known")
        c.stop()
        self.nowhere(CANARY)

    def test_an_opening_convinces_an_outsider(self):
        """AUDIT A-507"""
        self.ready()
        got = self.payload(self.call(), "--opening")
        for what in ("arguments", "result"):
            row = got[what]
            opening = bytes.fromhex(row["opening"])
            if row["value"] is None:
                continue
            value = row["value"].encode()
            made = hmac.new(opening, b"toolcrib/c/1\0" + row["ctag"].to_bytes(2, "big") + value, hashlib.sha256)
            self.assertEqual(made.hexdigest(), row["commitment"])
        cm = self.rows("SELECT lower(hex(cm)) FROM rec WHERE kind = 1001")[0][0]
        self.assertIn(got["arguments"]["commitment"], cm)

    def opened(self, call, change=lambda rows: rows):
        """What both verifiers say to the opening of a call's arguments beside the proof of its begin."""
        c, said = self.crib, []
        proof, file, key = (c.dir / name for name in ("begin.tlog-proof", "openings", "keys"))
        c.cli("audit", "checkpoint")
        proof.write_text(c.cli("audit", "proof", call, "--begin"))
        file.write_text("".join(json.dumps(row) + "\n" for row in change(c.json("audit", "payload", call, "--opening"))))
        key.write_text("\n".join(word for word in c.cli("audit", "keys").split() if word.count("+") >= 2))
        for program in (crib.sceptic(), (crib.BUILD / "toolcrib-verify",)):
            done = subprocess.run([*program, "--key", key, "--proof", proof, "--opening", file], capture_output=True, text=True,
                                  timeout=crib.DEADLINE)
            said.append((done.returncode, [line.encode("ascii", "backslashreplace")[:80].decode()
                                           for line in done.stdout.splitlines() if line.startswith("OPENED")]))
        self.assertEqual(said[0], said[1])
        return said[0]

    def test_c107_who_looked_at_a_call_is_known(self):
        """CONSOLE C-107: who asked for it by its id, and nobody whose command merely mentions it, or who asks this."""
        c = self.ready()
        call, other = self.call(), self.call()
        c.tenant("other", "*")

        def looked(*words):
            return [row["detail"].partition(": ")[2] for row in c.json("audit", "access", "--call", *words)]
        self.assertEqual(looked(call), [])
        self.payload(call)
        c.cli("audit", "show", call)
        c.cli("audit", "checkpoint")
        c.cli("audit", "proof", call)
        c.cli("audit", "show", other)
        c.cli("audit", "calls", "--tenant", "acme")
        c.cli("audit", "access", "--call", call, "--tenant", "acme")
        c.run("audit", "show", call, "--tenant", "other")       # it shows nothing, there
        c.config("")
        c.cli("audit", "review", "sign", "--tenant", "acme", "--note", f": audit show call={call}")
        want = [f"audit {verb} call={call}" for verb in ("proof", "show", "payload")]
        self.assertEqual(looked(call), want)
        self.assertEqual(looked(call, "--tenant", "acme"), want)
        self.assertEqual(looked(other), [f"audit show call={other}"])
        self.assertEqual(len(c.json("audit", "access", "--call", call, "--limit", "1")), 1)
        said = [c.cli("--json", "audit", "access", "--tenant", "other", "--call", which).splitlines()[1:]
                for which in (call, "01a1fd98-f89c-711b-bb7a-8a8267c5baed")]
        self.assertEqual(said, [[], []], "another tenant's call is none")
        for bad in "nonsense", call.upper(), call + "0", "%" * 36, "":
            done = c.run("audit", "access", "--call", bad)
            self.assertEqual((done.returncode, done.stdout), (1, ""), bad)
            self.assertIn("is no id of a call", done.stderr)

    def test_both_verifiers_check_an_opening(self):
        """N-14: what `audit payload --opening` says is checked against a proof, without the store; the table has it, too."""
        c = self.ready()
        call = self.call()
        table, plain = c.cli("audit", "payload", call, "--opening"), c.cli("audit", "payload", call)
        row = next(row for row in c.json("audit", "payload", call, "--opening") if row["what"] == "arguments")
        for text in ("CTAG", "COMMITMENT", "OPENING", row["opening"], row["commitment"]):
            self.assertIn(text, table)
            self.assertNotIn(text, plain)
        self.assertEqual(self.opened(call), (0, [f'OPENED arguments: {{"text": "{CANARY}"}}']))
        self.assertEqual(self.opened(call, lambda rows: [{**row, "value": "{}"} if row["value"] else row for row in rows]), (4, []))
        self.assertEqual(self.opened(call, lambda rows: [{**row, "ctag": 2} if "ctag" in row else row for row in rows]), (4, []))
        self.assertEqual(self.opened(call, lambda rows: rows[:1]), (5, []))
        self.assertEqual(self.opened(call, lambda rows: [{"no": "row"}]), (4, []))
        c.cli("call", "acme", "echo", "text=" + "\u00e9" * 40000)        # cut within a character
        long = c.json("audit", "calls", "--tenant", "acme", "--limit", "1")[0]["call"]
        rows = c.json("audit", "payload", long, "--opening")
        self.assertTrue(any("bytes" in row for row in rows))
        self.assertEqual(self.opened(long)[0], 0)

    def test_a_large_value_is_cut(self):
        """AUDIT A-415"""
        self.ready()
        got = self.payload(self.call("echo", {"text": "\u00e9" * 50000}))
        self.assertLessEqual(len(got["arguments"]["value"].encode()), 65536)
        self.assertEqual(got["whole_arguments"]["state"], "committed")

    def test_rekey_covers_payload_keys(self):
        """SEC S-343"""
        c = self.ready()
        call = self.call()
        c.cli("secret", "rekey")
        db = sqlite3.connect(f"file:{c.store}/keys.db?mode=ro", uri=True)
        keys = {row[0] for row in db.execute("SELECT key_id FROM kek")}
        db.close()
        self.assertEqual([f"secret-{key}.key" for key in keys], [path.name for path in c.store.glob("secret-*.key")])
        self.assertEqual(self.payload(call)["arguments"]["state"], "kept")
        c.stop()
        c.start(self.config)
        self.assertEqual(self.payload(call)["arguments"]["state"], "kept")

    def verify(self, *sql, keys=True):
        """What toolcrib-verify says of a copy of the store that somebody has changed: codes, exit status."""
        copy = self.crib.dir / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for name in ("toolcrib.db", "keys.db", "master.key"):
            shutil.copy(self.crib.store / name, copy / name)
        db = sqlite3.connect(copy / "toolcrib.db")
        for statement in sql:
            db.execute(statement)
        db.commit()
        db.close()
        done = subprocess.run([crib.BUILD / "toolcrib-verify", *crib.evidence(copy, keys), copy], text=True,
                              capture_output=True, timeout=crib.DEADLINE)
        codes = {line.split()[0] for line in done.stdout.splitlines()} - {"INTACT", "DAMAGED", "INCOMPLETE"}
        return {code for code in codes if code.isupper()}, done.returncode

    def test_verification_finds_what_was_changed(self):
        """AUDIT A-T15 to A-T18, A-T35, A-T38, A-T41"""
        c = self.ready()
        for i in range(3):
            self.call("echo", {"text": f"{CANARY} {i}"})
        c.stop()
        begins = "(SELECT id FROM rec WHERE kind = 1001)"
        ends = "(SELECT id FROM rec WHERE kind = 1002)"
        swap = ["CREATE TEMP TABLE x AS SELECT min(id) AS a, max(id) AS b FROM rec WHERE kind = 1001",
                "UPDATE pay SET rec = -1 WHERE rec = (SELECT a FROM x)",
                "UPDATE pay SET rec = (SELECT a FROM x) WHERE rec = (SELECT b FROM x)",
                "UPDATE pay SET rec = (SELECT b FROM x) WHERE rec = -1"]
        self.assertEqual(self.verify(), (set(), 0))
        self.assertEqual(self.verify(keys=False), ({"NOT_CHECKED"}, 5))
        for sql, want, blind in (
                ([f"UPDATE pay SET ct = zeroblob(length(ct)) WHERE rec IN {begins}"], {"PAYLOAD"}, set()),
                (swap, {"PAYLOAD"}, set()),
                ([f"DELETE FROM pay WHERE rec IN {ends}"], {"PAYLOAD_MISSING"}, {"PAYLOAD_MISSING"}),
                ([f"UPDATE pay SET salt = zeroblob(16) WHERE rec IN {ends}"], {"PAYLOAD"}, {"PAYLOAD"}),
                ([f"UPDATE pay SET ct = NULL, nonce = NULL WHERE rec IN {begins}"], {"PAYLOAD_MISSING"}, {"PAYLOAD_MISSING"}),
                (["INSERT INTO pay(rec, salt) VALUES(999999, zeroblob(16))"], {"PAYLOAD_EXTRA"}, {"PAYLOAD_EXTRA"}),
                (["UPDATE principal SET name = name || 'x'"], {"ALIAS"}, set()),
                (["UPDATE alias SET ct = zeroblob(length(ct)) WHERE kind = 3"], {"ALIAS"}, set()),
                (["UPDATE alias SET idx = idx + 1 WHERE kind = 3"], {"ALIAS"}, {"ALIAS"}),
                (["DELETE FROM alias WHERE kind = 3"], {"ALIAS"}, {"ALIAS"})):
            self.assertTrue(want & self.verify(*sql)[0], (sql, self.verify(*sql)))
            self.assertEqual(blind, self.verify(*sql, keys=False)[0] & (want | blind), sql)
        db = sqlite3.connect(c.store / "keys.db")
        db.execute("UPDATE dek SET box = NULL, gone_us = 1")
        db.commit()
        db.close()
        self.assertEqual(self.verify(), ({"KEY_MISSING"}, 5))

    def test_what_was_erased_is_no_finding_and_must_stay_away(self):
        """AUDIT A-T17, A-T19, A-508"""
        c = self.ready(before=["approval", "policy", "one"])
        call = self.call()
        c.cli("erase", "--call", call, "--ground", "asked for", "--ticket", "T-1", "--yes")
        self.assertEqual(self.payload(call)["arguments"]["state"], "erased")
        keep = self.call()
        c.cli("erase", "--principal", c.json("key", "list")[0]["principal"], "--ground", "asked for", "--ticket", "T-2", "--yes")
        self.assertEqual(self.payload(keep)["arguments"]["state"], "erased")
        c.stop()
        self.assertEqual(self.verify(), (set(), 0))
        back = ("INSERT INTO pay(rec, salt) SELECT id, zeroblob(16) FROM rec WHERE kind = 1001 AND id NOT IN (SELECT rec FROM pay)")
        self.assertIn("ERASED_BUT_PRESENT", self.verify(back)[0])


if __name__ == "__main__":
    crib.main()
