"""AI systems that principals are, and models that clients tell, on records of calls (OP-1001, OP-1004, OP-1007)."""
import contextlib
import sqlite3
import subprocess
import sys

import crib
from test_alerts import Base

META = "dev.toolcrib/model"


class Systems(Base):
    def serve(self, models="none"):
        c = super().serve(f"{crib_metrics()}inventory: {{model_from: \"{models}\"}}\n")
        self.bot = c.json("key", "create", "acme/agent")[0]["key"]
        return c

    def call(self, key=None, meta=None, header=None):
        peer = self.crib.http(key or self.bot)
        if header is not None:
            own = peer.headers
            peer.headers = lambda message=None: {**own(message), "X-Model": header}
        with contextlib.closing(peer):
            return peer.call("echo", {"text": "x"}, rev=crib.MODERN, **({"_meta": {META: meta}} if meta is not None else {}))

    def last(self):
        """System and model of the newest call."""
        row = self.crib.json("audit", "calls", "--tenant", "acme")[0]
        return row.get("system"), row.get("model")

    def both(self, *status):
        for program in ([crib.BUILD / "toolcrib-verify", self.crib.store],
                        [sys.executable, crib.SOURCE / "contrib/verify/verify.py", self.crib.store]):
            done = subprocess.run([*map(str, program)], capture_output=True, text=True, timeout=crib.DEADLINE * 4)
            self.assertIn(done.returncode, status, done)
        return done.stdout

    def test_op1004_calls_name_the_system_of_their_principal(self):
        c = self.serve()
        self.call()
        self.assertEqual(self.last(), (None, None))
        self.assertIn("system acme/claims added", c.cli("system", "add", "acme/claims", "--provider", "Example AI", "--model", "x-large",
                                                        "--role", "deployer"))
        c.cli("principal", "set", "acme/agent", "--system", "claims")
        self.assertEqual(c.json("principal", "show", "acme/agent")[0]["system"], "claims")
        self.call()
        self.assertEqual(self.last(), ("claims", None))
        self.call(self.key)
        self.assertEqual(self.last(), (None, None), "another principal is none")
        c.cli("inventory", "set", "system:acme/claims", "--owner", "Claims desk", "--risk", "high")
        row, = c.json("system", "list", "--tenant", "acme")
        self.assertEqual([row[name] for name in ("system", "provider", "model", "role", "owner", "risk", "principals")],
                         ["acme/claims", "Example AI", "x-large", "deployer", "Claims desk", "high", 1])
        self.assertIn("system:acme/claims", [row["subject"] for row in c.json("inventory", "list", "--tenant", "acme")])
        c.cli("system", "set", "acme/claims", "--version", "2")
        self.assertEqual(c.json("system", "show", "acme/claims")[0]["version"], "2")
        self.assertEqual(c.rows("SELECT DISTINCT object, tenant FROM v_records WHERE kind = 'system.change'"),
                         [("system/acme/claims", "acme")])
        c.cli("tenant", "add", "bolt")
        self.assertEqual(c.json("system", "list", "--tenant", "bolt"), [])
        self.assertEqual(c.run("principal", "set", "bolt/default", "--system", "claims").returncode, 1, "it is another tenant's")
        c.cli("--yes", "system", "remove", "acme/claims")
        self.call()
        self.assertEqual(self.last(), (None, None))
        self.assertEqual(c.run("system", "show", "acme/claims").returncode, 1)
        exported = [row for row in c.json("audit", "export", "--tenant", "acme") if row.get("kind") == "call.begin"]
        self.assertEqual([row.get("system") for row in exported], [None, "claims", None, None])

    def test_what_is_wrong_is_named(self):
        c = self.serve()
        c.cli("system", "add", "acme/claims")
        for words, said in ((("system", "add", "acme/claims"), "is there already"), (("system", "add", "claims"), "is no TENANT/NAME"),
                            (("system", "set", "acme/other", "--role", "user"), "not found"),
                            (("system", "set", "acme/claims", "--role", "owner"), "provider, deployer or user"),
                            (("system", "set", "acme/claims", "--model", "x" * 501), "longer than 500"),
                            (("principal", "set", "acme/agent", "--system", "other"), "not found"),
                            (("principal", "set", "acme/agent"), "say --suspended or --system"),
                            (("inventory", "set", "system:acme/other", "--owner", "x"), "not found")):
            done = c.run(*words)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(said, done.stderr, words)

    def test_op1002_a_system_that_is_prohibited(self):
        c = self.serve()
        c.cli("system", "add", "acme/claims")
        c.cli("principal", "set", "acme/agent", "--system", "claims")
        self.assertIn("result", self.call())
        c.cli("inventory", "set", "system:acme/claims", "--risk", "prohibited")
        with self.assertRaises(ValueError):     # 401, and no JSON
            self.call()
        self.assertEqual(len(c.json("audit", "calls", "--tenant", "acme")), 1)
        self.assertIn("result", self.call(self.key))
        c.cli("inventory", "set", "system:acme/claims", "--risk", "limited")
        self.assertIn("result", self.call())

    def test_op1004_both_verifiers_and_blocks(self):
        c = self.serve("meta")
        c.cli("system", "add", "acme/claims")
        c.cli("principal", "set", "acme/agent", "--system", "claims")
        self.call(meta="x-large")
        self.assertEqual(self.last(), ("claims", "x-large"))
        c.cli("audit", "verify")
        c.stop()
        self.both(0, 3, 5)
        with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db", isolation_level=None)) as db:
            name, trigger = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'rec' "
                                       "AND sql LIKE '%UPDATE%'").fetchone()
            db.execute(f"DROP TRIGGER {name}")
            db.execute("UPDATE rec SET mdl = NULL WHERE mdl IS NOT NULL")
            db.execute(trigger)
        self.assertIn("LEAF", self.both(4))

    def test_op1007_where_a_model_may_be_told(self):
        c = self.serve("meta,header")
        for meta, header, want in (("x-large", None, "x-large"), (None, "from-header", "from-header"), ("x-large", "other", "x-large"),
                                   ("m" * 128, None, "m" * 128), ("m" * 129, None, None), ("a\nb", None, None), ("\u00fc", None, None),
                                   ("", None, None), (7, "from-header", "from-header"), (None, "m" * 129, None)):
            self.assertIn("result", self.call(meta=meta, header=header))
            self.assertEqual(self.last(), (None, want), (meta, header))
        c.stop()
        c.start(f"{crib_metrics()}inventory: {{model_from: header}}\n")
        self.call(meta="x-large")
        self.assertEqual(self.last(), (None, None))
        c.stop()
        c.start(crib_metrics())
        self.call(meta="x-large", header="x-large")
        self.assertEqual(self.last(), (None, None), "nothing is taken that the configuration does not name")

    def test_op1007_so_many_models_of_a_tenant(self):
        """A client that makes up models fills no dictionary: those behind the bound are other."""
        c = self.serve("meta")
        peer = c.http(self.bot)
        for i in range(257):
            peer.call("echo", {"text": "x"}, rev=crib.MODERN, _meta={META: f"m{i}"})
        peer.call("echo", {"text": "x"}, rev=crib.MODERN, _meta={META: "m7"})
        peer.close()
        said = [row["model"] for row in c.json("audit", "calls", "--tenant", "acme", "--limit", "300")]
        self.assertEqual((said[0], said[1], said[2], len(set(said))), ("m7", "other", "m255", 257))


def crib_metrics():
    return 'metrics: {listen: "127.0.0.1:0"}\n'


if __name__ == "__main__":
    crib.main()
