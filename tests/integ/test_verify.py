"""audit verify: on a store that is being written, after a crash, and after somebody has been at the file (AUDIT 8)."""
import concurrent.futures
import json
import signal
import sqlite3

import crib

FROZEN = "CREATE TRIGGER rec_frozen BEFORE UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END"


class Verify(crib.Case):
    def verify(self, *args, status=0):
        done = self.crib.run("--json", "audit", "verify", *args)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def calls(self, key, n):
        peer = self.crib.http(key)
        for i in range(n):
            peer.call("echo", {"text": str(i)}, rev=crib.MODERN)
        peer.close()

    def tamper(self, *statements):
        db = sqlite3.connect(self.crib.store / "toolcrib.db")
        db.execute("DROP TRIGGER rec_frozen")
        for statement in statements:
            self.assertGreater(db.execute(statement).rowcount, 0)
        db.execute(FROZEN)
        db.commit()
        db.close()

    def test_a_store_is_intact_while_it_is_written_and_after_a_crash(self):
        c = self.crib.init().start()
        c.tool(crib.ECHO)
        keys = [c.tenant("acme", "echo"), c.tenant("other", "echo")]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            work = [pool.submit(self.calls, key, 150) for key in keys * 2]
            while not all(w.done() for w in work):
                # What runs at this moment has no end yet: a gap, never damage.
                done = c.run("--json", "audit", "verify")
                self.assertIn(done.returncode, (0, 5), done.stdout)
            for w in work:
                w.result()
        rows = self.verify()
        self.assertEqual([(r["finding"], r["class"], r["logs"]) for r in rows], [("INTACT", "sum", 3)])
        self.assertGreaterEqual(rows[0]["records"], 2 * 2 * 300)
        c.stop(signal.SIGKILL)
        self.assertEqual(self.verify()[-1]["finding"], "INTACT")
        c.start()
        self.calls(keys[0], 3)
        self.assertEqual(self.verify("--tenant", "acme")[-1]["logs"], 1)
        read = [r for r in c.json("audit", "calls", "--tenant", "acme", "--limit", "0") if r["outcome"] == "ok"]
        self.assertEqual(len(read), 303)

    def test_what_was_changed_is_named(self):
        c = self.crib.init()
        c.tool(crib.ECHO)
        for tenant in ("acme", "other"):
            c.tenant(tenant, "echo")
            c.cli("call", tenant, "echo", "text=hello")
        self.assertEqual(self.verify()[-1]["bad"], 0)
        self.tamper("UPDATE rec SET outcome = 1 WHERE kind = 1002 AND log = (SELECT id FROM log WHERE origin LIKE '%/t/acme')")
        rows = self.verify(status=4)
        self.assertEqual({r["finding"] for r in rows}, {"LEAF", "ROOT", "DAMAGED"})
        self.assertTrue(all(r["log"].endswith("/t/acme") for r in rows[:-1]), rows)
        leaf = next(r for r in rows if r["finding"] == "LEAF")
        self.assertEqual(leaf["from"], leaf["to"])
        # The other tenant's log is what it was, and its verification says nothing of this one's.
        self.assertEqual([r["finding"] for r in self.verify("--tenant", "other")], ["INTACT"])
        text = c.run("audit", "verify").stdout
        self.assertRegex(text, r"(?m)^FINDING +LOG +FROM +TO +DETAIL$")
        self.assertRegex(text, r"(?m)^DAMAGED ")

    def test_unknown_tenant(self):
        c = self.crib.init()
        c.cli("tenant", "add", "acme")
        done = c.run("audit", "verify", "--tenant", "acmee")
        self.assertEqual(done.returncode, 1)
        self.assertIn("did you mean acme", done.stderr)


if __name__ == "__main__":
    crib.main()
