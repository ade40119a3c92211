"""The inventory: who answers for what and how risky it is, reviews that are due, and what is prohibited (OP-1001 to OP-1003)."""
import contextlib
import csv
import io
import os
import re
import sqlite3
import subprocess
import sys
import unittest

import crib
from test_alerts import Base

sys.dont_write_bytecode = True
ROLES = """
admin:
  socket: {socket}
roles:
  - {{role: admin, uid: 40001}}
"""


class Rows:
    def row(self, subject):
        return self.crib.json("inventory", "show", subject)[0]

    def records(self, kind):
        return self.crib.rows("SELECT tenant, object, pseudonym, detail, before IS NOT NULL, after IS NOT NULL FROM v_records "
                              "WHERE kind = ? ORDER BY log_id, idx", kind)

    def refused(self, *words):
        done = self.crib.run(*words)
        self.assertNotIn(done.returncode, (0, 4), done)
        return done.stderr


class Inventory(Base, Rows):
    def test_op1001_what_is_said_of_each_sort_of_subject(self):
        c = self.serve()
        c.cli("key", "create", "acme/bot")
        self.assertIn("tool:echo: added", c.cli("inventory", "set", "tool:echo", "--owner", "Order desk", "--purpose", "Cancel orders",
                                                "--risk", "limited", "--review-every", "90d", "--data", "personal", "--oversight",
                                                "asks before it acts", "--contact", "desk@example.org"))
        row = self.row("tool:echo")
        self.assertEqual([row[name] for name in ("owner", "contact", "purpose", "risk", "data", "oversight", "review_days", "set_by")],
                         ["Order desk", "desk@example.org", "Cancel orders", "limited", "personal", "asks before it acts", 90,
                          f"uid {os.getuid()}"])
        self.assertIsNone(row["reviewed"])
        self.assertIn("changed", c.cli("inventory", "set", "tool:echo", "--owner", "Returns", "--data", ""))
        again = self.row("tool:echo")
        self.assertEqual((again["owner"], again["data"], again["purpose"], again["due"]), ("Returns", None, "Cancel orders", row["due"]))
        for subject in ("tenant:acme", "principal:acme/bot"):
            c.cli("inventory", "set", subject, "--owner", "Sales", "--risk", "high")
        self.assertEqual([(row["subject"], row["missing"]) for row in c.json("inventory", "list")],
                         [("principal:acme/bot", "purpose"), ("tenant:acme", "purpose"), ("tool:echo", None)])
        self.assertEqual([row["subject"] for row in c.json("inventory", "list", "--risk", "high", "--tenant", "acme")],
                         ["principal:acme/bot", "tenant:acme"])
        self.assertEqual(c.json("inventory", "list", "--risk", "minimal"), [])
        c.cli("tenant", "add", "bolt")
        missing = {row["subject"]: row["missing"] for row in c.json("inventory", "list", "--missing")}
        self.assertEqual(missing["tenant:bolt"], "owner, purpose, risk")
        self.assertEqual(missing["tenant:acme"], "purpose")
        self.assertNotIn("tool:echo", missing)
        self.assertEqual(c.run("inventory", "show", "tenant:bolt").returncode, 1)
        done = c.run("inventory", "export", "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual([(row["subject"], row["contact"]) for row in rows][-1], ("tool:echo", "desk@example.org"))
        self.assertEqual(c.json("inventory", "list", "--tenant", "bolt"), [], "nothing of another tenant")
        c.cli("tool", "remove", "echo", "--yes")
        self.assertNotIn("tool:echo", [row["subject"] for row in c.json("inventory", "list")])

    def test_op1001_it_is_on_record_and_verified_by_both(self):
        c = self.serve()
        c.cli("key", "create", "acme/secretive")
        for subject in ("tool:echo", "tenant:acme", "principal:acme/secretive"):
            c.cli("inventory", "set", subject, "--owner", "Sales")
        c.cli("inventory", "set", "tool:echo", "--purpose", "x")
        said = self.records("inventory.change")
        self.assertEqual([(tenant, before, after) for tenant, _, _, _, before, after in said],
                         [(None, 0, 1), (None, 1, 1), ("acme", 0, 1), ("acme", 0, 1)])
        pseudonym, = c.rows("SELECT pseudonym FROM principal WHERE name = 'secretive'")[0]
        self.assertEqual([(obj, who) for _, obj, who, _, _, _ in said][1:],
                         [("inventory/tool:echo", None), ("inventory/tenant:acme", None), (f"inventory/principal:{pseudonym}", pseudonym)])
        self.assertIn("subject=principal:...", said[-1][3])
        for log, detail in c.rows("SELECT log, detail FROM v_records WHERE detail LIKE '%inventory%'"):
            self.assertNotIn("secretive", detail, log)
        c.cli("audit", "verify")
        c.stop()
        self.both((0, 3, 5))         # 3: no key was pinned; 5: none was given
        with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db", isolation_level=None)) as db:
            trigger, = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'inventory_touched'").fetchone()
            db.execute("DROP TRIGGER inventory_touched")
            db.execute("UPDATE inventory SET risk = 'minimal' WHERE subject_kind = 3")
            db.execute(trigger)
        self.both((4,), "REGISTRY")
        number, = c.rows("SELECT id FROM inventory WHERE subject_kind = 3")[0]
        found = c.run("fsck")
        self.assertIn(f"inventory/{number}", found.stdout + found.stderr)
        c.cli("--yes", "fsck", "--quarantine", f"inventory/{number}")
        c.start()
        self.assertEqual(c.json("tool", "list")[0]["state"], "disabled", "it may have been prohibited")
        self.assertNotIn("tool:echo", [row["subject"] for row in c.json("inventory", "list")])

    def both(self, status, word=""):
        for program in ([crib.BUILD / "toolcrib-verify", self.crib.store],
                        [sys.executable, crib.SOURCE / "contrib/verify/verify.py", self.crib.store]):
            done = subprocess.run([*map(str, program)], capture_output=True, text=True, timeout=crib.DEADLINE * 4)
            self.assertIn(done.returncode, status, done)
            self.assertIn(word, done.stdout + done.stderr)

    def test_op1002_what_is_prohibited_is_refused_at_once(self):
        c = self.serve()
        peer = c.http(self.key)
        peer.initialize()
        self.assertEqual(peer.call("echo", {"text": "x"})["result"]["content"][0]["text"], "x")
        self.assertIn("disabled", c.cli("inventory", "set", "tool:echo", "--risk", "prohibited"))
        self.assertIn("error", peer.call("echo", {"text": "x"}))
        self.assertEqual(peer.tools(), [])
        self.assertIn("prohibited", self.refused("tool", "enable", "echo"))
        path = c.dir / "other.yaml"
        path.write_text(crib.ECHO + "title: another\n")
        self.assertIn("prohibited", self.refused("tool", "add", path))
        self.assertEqual(c.json("tool", "list")[0]["state"], "disabled")
        c.cli("inventory", "set", "tool:echo", "--risk", "limited")
        self.assertEqual(c.json("tool", "list")[0]["state"], "disabled", "it is for a person to enable it")
        c.cli("tool", "enable", "echo")
        self.assertEqual(peer.call("echo", {"text": "x"})["result"]["content"][0]["text"], "x")
        peer.close()
        c.cli("tool", "disable", "echo")
        self.assertNotIn("disabled", c.cli("inventory", "set", "tool:echo", "--risk", "prohibited"))

    def test_what_is_wrong_is_named(self):
        self.serve()
        self.assertIn("is no subject", self.refused("inventory", "set", "echo", "--owner", "x"))
        self.assertIn("is no subject", self.refused("inventory", "show", "tool:"))
        self.assertIn("did you mean", self.refused("inventory", "set", "tool:ecko", "--owner", "x"))
        self.assertIn("did you mean high?", self.refused("inventory", "set", "tool:echo", "--risk", "hihg"))
        self.assertIn("only systems and what can be called", self.refused("inventory", "set", "tenant:acme", "--risk", "prohibited"))
        self.assertIn("at least one", self.refused("inventory", "set", "tool:echo"))
        for every in ("90m", "3651d"):
            self.assertIn("number of days", self.refused("inventory", "set", "tool:echo", "--review-every", every))
        self.assertIn("longer than 500", self.refused("inventory", "set", "tool:echo", "--purpose", "x" * 501))
        self.crib.cli("inventory", "set", "tool:echo", "--purpose", "x" * 500, "--review-every", "3650d")
        self.assertIn("nothing is said of", self.refused("review", "done", "tenant:acme", "--note", "x"))
        self.assertIn("note", self.refused("review", "done", "tool:echo", "--note", ""))

    def test_op1003_a_review_is_due_done_and_due_again(self):
        c = self.serve()
        c.cli("inventory", "set", "tool:echo", "--risk", "limited", "--review-every", "30d")
        c.cli("inventory", "set", "tenant:acme", "--owner", "Sales")
        self.assertEqual(c.json("review", "due"), [])
        soon, = c.json("review", "due", "--within", "30d")
        self.assertEqual((soon["subject"], soon["state"]), ("tool:echo", "due"))
        self.assertEqual(c.json("review", "due", "--within", "29d"), [])
        self.assertIn("tool:echo: reviewed", c.cli("review", "done", "tool:echo", "--note", "still fit"))
        row = self.row("tool:echo")
        self.assertEqual((row["note"], row["reviewed_by"]), ("still fit", f"uid {os.getuid()}"))
        self.assertGreater(row["due"], soon["due"])
        done, = self.records("review.done")
        self.assertEqual((done[1], done[3], done[4:]), ("inventory/tool:echo", "still fit", (1, 1)))
        c.cli("inventory", "set", "tool:echo", "--review-every", "0s")
        self.assertEqual(c.json("review", "due", "--within", "9999d"), [])
        c.cli("audit", "verify")

    def test_op1003_an_alert_says_what_is_overdue(self):
        c = self.serve()
        c.cli("inventory", "set", "tool:echo", "--risk", "high", "--contact", "desk@example.org")
        self.none("review_due")
        c.tool(crib.ECHO + "title: another\n", "new.yaml")
        due = c.run("review", "due")
        self.assertEqual(due.returncode, 4, due)
        self.assertRegex(due.stdout, "tool:echo +overdue .*desk@example.org")
        alert = self.one("review_due")
        self.assertEqual((alert["severity"], alert["subject"], alert["tenant"], alert["value"]), ("warn", "server", None, 1))
        self.assertRegex(alert["text"], "^1 review is overdue, since .*Look: toolcrib review due$")
        c.cli("inventory", "set", "tool:echo", "--risk", "limited")
        self.none("review_due")


class Report(Base, Rows):
    """OP-1008."""

    def setUp(self):
        super().setUp()
        c = self.serve()
        c.cli("tenant", "add", "bolt")
        c.cli("system", "add", "acme/agent", "--provider", "Example AI", "--model", "x-large", "--role", "deployer")
        c.cli("system", "add", "bolt/other", "--provider", "Somebody")
        c.cli("inventory", "set", "system:acme/agent", "--owner", "=Claims | desk", "--purpose", "Read *claims*\nat once",
              "--risk", "high", "--oversight", "asks before it acts", "--review-every", "90d")
        c.cli("inventory", "set", "tool:echo", "--owner", "Desk")

    def test_what_a_framework_asks_for_is_listed(self):
        c = self.crib
        text = c.cli("inventory", "report", "--frame", "ai-act")
        self.assertRegex(text, r"\A# Regulation \(EU\) 2024/1689 \(AI Act\)\n\n.*of all tenants.*no legal judgement")
        self.assertEqual(re.findall("^## (.*?):", text, re.M), ["Articles 16, 26", "Article 9", "Articles 12, 19, 26(6)", "Articles 14, 26(2)",
                                                                "Articles 26(5), 73", "Article 26"])
        self.assertIn(r"| acme/agent | Example AI | x-large |  | deployer | =Claims \| desk |  | Read \*claims\*\\x0aat once | high |", text)
        self.assertIn("| bolt/other | Somebody |", text)
        self.assertRegex(text, r"\| system:acme/agent \| asks before it acts \| 90 days \| +\| +\| 20\d\d-")
        self.assertRegex(text, r"\| acme \| \d+ \| 0 \|  \|  \| no period: until somebody prunes \|")
        self.assertIn("| tool:echo | yes | no | no |", text)
        self.assertIn("| system:bolt/other | no | no | no |", text)
        other = c.cli("inventory", "report", "--frame", "iso-42001")
        self.assertEqual(re.findall("^## (.*?):", other, re.M), ["A.4, A.9", "A.5", "A.6.2.8", "A.9.2, A.9.3", "A.10", "A.4.2"])
        self.assertRegex(other, r"## A.10: Third parties\n\n.*\n.*\n\| system:acme/agent \| Example AI \|")
        self.assertRegex(self.refused("inventory", "report", "--frame", "gdpr"), '"gdpr" is no frame')

    def test_logs_that_are_kept_for_six_months(self):
        c = self.crib
        c.cli("retention", "set", "acme", "--min-days", "200")
        c.cli("retention", "set", "bolt", "--min-days", "90")
        text = c.cli("inventory", "report", "--frame", "ai-act")
        self.assertRegex(text, r"\| acme \| \d+ \| 0 \| 200 \|  \| yes \|")
        self.assertRegex(text, r"\| bolt \| \d+ \| 0 \| 90 \|  \| no \|")

    def test_of_one_tenant_nothing_of_another_is_said(self):
        for frame in ("ai-act", "iso-42001"):
            for form in ((), ("--csv",)):
                text = self.crib.cli("inventory", "report", "--frame", frame, "--tenant", "acme", *form)
                self.assertIn("acme/agent", text)
                for of in ("bolt", "Somebody", "tool:echo", "the system"):
                    self.assertNotIn(of, text)

    def test_csv_has_a_line_for_each_thing_that_is_said(self):
        rows = list(csv.DictReader(io.StringIO(self.crib.cli("inventory", "report", "--frame", "ai-act", "--csv"))))
        said = {(row["reference"], row["of"], row["what"]): row["said"] for row in rows}
        self.assertEqual(len(said), len(rows))
        self.assertEqual(said["Articles 16, 26", "acme/agent", "owner"], "'=Claims | desk")        # no formula
        self.assertEqual(said["Article 9", "system:acme/agent", "risk"], "high")
        self.assertEqual(said["Article 26", "tool:echo", "risk"], "no")


class Documents(Base, Rows):
    """OP-1001: apply, diff and export know what is said, and AI systems."""
    FILE = """
kind: system
tenant: acme
name: agent
provider: Example AI
model: x-large
role: deployer
---
kind: inventory
subject: system:acme/agent
owner: Claims
risk: high
---
kind: inventory
subject: tool:echo
owner: Order desk
contact: desk@example.org
purpose: Cancel orders
risk: limited
data: personal
oversight: asks before it acts
reviewDays: 90
---
kind: inventory
subject: tenant:acme
owner: Sales
"""

    def setUp(self):
        super().setUp()
        self.serve()

    def apply(self, text, *more):
        path = self.crib.dir / "docs.yaml"
        path.write_text(text)
        return self.crib.run("apply", "-f", path, *more)

    def call(self):
        with contextlib.closing(self.crib.http(self.key)) as peer:
            return peer.call("echo", {"text": "x"}, crib.MODERN)

    def exported(self):
        return [row["document"] for row in self.crib.json("export") if row["kind"] in ("system", "inventory")]

    def test_what_files_say_goes_both_ways(self):
        c = self.crib
        self.assertIn("4 added, 0 changed, 0 removed", self.apply(self.FILE, "--dry-run").stdout)
        self.assertEqual(self.exported(), [])
        self.assertIn("4 added, 0 changed, 0 removed", self.apply(self.FILE).stdout)
        self.assertEqual(self.apply(self.FILE).stdout, "nothing differs\n")
        row = self.row("tool:echo")
        self.assertEqual([row[name] for name in ("owner", "contact", "purpose", "risk", "data", "oversight", "review_days")],
                         ["Order desk", "desk@example.org", "Cancel orders", "limited", "personal", "asks before it acts", 90])
        self.assertEqual(c.json("system", "show", "acme/agent")[0]["model"], "x-large")
        docs = self.exported()
        self.assertIn({"kind": "system", "tenant": "acme", "name": "agent", "provider": "Example AI", "model": "x-large", "role": "deployer"},
                      docs)
        self.assertIn({"kind": "inventory", "subject": "tenant:acme", "owner": "Sales"}, docs)
        c.cli("review", "done", "tool:echo", "--note", "fine")
        done = self.apply(self.FILE.replace("Order desk", "Returns").replace("data: personal\n", ""))
        self.assertRegex(done.stdout, r"~ inventory tool:echo\n +~ /owner: Order desk -> Returns\n +- /data: personal\n"
                         r"0 added, 1 changed, 0 removed")
        row = self.row("tool:echo")
        self.assertEqual((row["owner"], row["data"], row["note"]), ("Returns", None, "fine"))
        self.assertEqual([row["document"]["kind"] for row in c.json("export", "--tenant", "acme")
                          if row["document"].get("subject") == "tool:echo"], [])
        self.assertEqual(self.apply("kind: inventory\nsubject: tenant:acme\nowner: Sales\n", "--prune", "--yes").stdout, "nothing differs\n")
        self.assertEqual(len(self.exported()), 4)
        self.assertEqual([row[1] for row in self.records("inventory.change")].count("inventory/tool:echo"), 2)
        c.cli("audit", "verify")

    def test_an_upstream(self):
        """By a file, by a command; and it is missing before."""
        c = self.crib
        upstream = "kind: upstream\nname: files\nurl: https://mcp.example.com/mcp\n"
        self.assertIn("1 added", self.apply(upstream).stdout)
        self.assertIn(("upstream:files", "owner, purpose, risk"),
                      [(row["subject"], row["missing"]) for row in c.json("inventory", "list", "--missing")])
        self.assertIn("1 added", self.apply(upstream + "---\nkind: inventory\nsubject: upstream:files\nowner: IT\nrisk: limited\n").stdout)
        c.cli("inventory", "set", "upstream:files", "--purpose", "Files")
        self.assertIn({"kind": "inventory", "subject": "upstream:files", "owner": "IT", "purpose": "Files", "risk": "limited"}, self.exported())
        self.assertRegex(c.cli("inventory", "report", "--frame", "iso-42001"), r"\| upstream:files \|  \| IT \| limited \|")
        c.cli("upstream", "remove", "files", "--yes")
        self.assertEqual(self.exported(), [])
        c.cli("audit", "verify")

    def test_what_a_file_prohibits_is_refused_at_once(self):
        c = self.crib
        self.assertIn("result", self.call())
        self.apply("kind: inventory\nsubject: tool:echo\nrisk: prohibited\n")
        self.assertIn("error", self.call())
        self.assertEqual(c.json("tool", "list")[0]["state"], "disabled")
        self.apply(self.FILE + "---\nkind: inventory\nsubject: principal:acme/default\nrisk: minimal\n")
        c.cli("principal", "set", "acme/bot", "--system", "agent")
        c.cli("tool", "enable", "echo")
        self.assertIn("result", self.call())
        self.apply("kind: inventory\nsubject: system:acme/agent\nrisk: prohibited\n")
        self.assertRaises(ValueError, self.call)        # 401, and no JSON

    def test_what_is_wrong_in_a_file_is_named_and_nothing_is_done(self):
        for text, said in (("kind: inventory\nsubject: echo\nowner: A\n", '2:1: subject: "echo" is no subject'),
                           ("kind: inventory\nsubject: tool:gone\nowner: A\n", "2:1: subject: "),
                           ("kind: inventory\nsubject: tool:echo\n", "nothing is said of tool:echo"),
                           ("kind: inventory\nsubject: tool:echo\nrisk: big\n", '3:1: risk: "big" is no risk'),
                           ("kind: inventory\nsubject: tenant:acme\nrisk: prohibited\n", "3:1: risk: only systems and what can be called"),
                           ("kind: inventory\nsubject: tool:echo\nowner: " + "x" * 501 + "\n", "3:1: owner: is longer than 500 bytes"),
                           ("kind: inventory\nsubject: tool:echo\nreviewDays: 3651\n", "3:1: reviewDays: must be between 0 and 3650"),
                           ("kind: inventory\nsubject: tool:echo\nOwner: A\n", "Owner"),
                           ("kind: system\ntenant: gone\nname: x\n", "2:1: tenant: "),
                           ("kind: system\ntenant: acme\nname: x\nrole: boss\n", '4:1: role: "boss" is no role'),
                           ("kind: system\ntenant: acme\nname: a/b\n", "3:1: name: ")):
            with self.subTest(text):
                done = self.apply("kind: inventory\nsubject: tenant:acme\nowner: Nobody\n---\n" + text if "tenant:acme" not in text
                                  else text)
                self.assertNotEqual(done.returncode, 0)
                if "tenant:acme" not in text:
                    said = re.sub(r"^(\d):", lambda line: f"{int(line[1]) + 4}:", said)
                self.assertIn(said, done.stderr)
                self.assertEqual(self.exported(), [])
        done = self.apply("kind: inventory\nsubject: principal:acme/nobody\nowner: A\n")
        self.assertEqual(done.returncode, 0)
        self.assertIn("left out", done.stdout)


@unittest.skipUnless(os.geteuid() == 0, "needs another administrator to be")
class High(crib.Case, Rows):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(crib.ECHO)
        c.tenant("acme", "echo")
        self.socket = c.store.parent / "admin-public.sock"
        c.let_others_in()
        c.start(ROLES.format(socket=self.socket))

    def other(self, *words):
        return subprocess.run([str(crib.BUILD / "toolcrib"), "--socket", str(self.socket), *map(str, words)], user=40001, group=40001,
                              capture_output=True, text=True, timeout=60, env=self.crib.env)

    def test_op1003_of_high_risk_nobody_reviews_his_own_work(self):
        c = self.crib
        c.cli("inventory", "set", "tool:echo", "--risk", "high")
        self.assertRegex(self.refused("review", "done", "tool:echo", "--note", "fine"), "uid 0 made the version in force.*another")
        self.assertEqual(self.records("review.done"), [])
        done = self.other("review", "done", "tool:echo", "--note", "fine")
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(self.other("inventory", "set", "tenant:acme", "--risk", "high").returncode, 0)
        self.assertNotEqual(self.other("review", "done", "tenant:acme", "--note", "fine").returncode, 0)
        c.cli("review", "done", "tenant:acme", "--note", "fine")
        c.cli("audit", "verify")

    def test_op1003_a_new_version_of_high_risk_is_due_at_once(self):
        c = self.crib
        c.cli("inventory", "set", "tool:echo", "--risk", "limited", "--review-every", "90d")
        path = c.dir / "new.yaml"
        path.write_text(crib.ECHO + "title: another\n")
        c.cli("tool", "add", path)
        self.assertEqual(c.json("review", "due"), [], "it is not high")
        c.cli("inventory", "set", "tool:echo", "--risk", "high")
        done = c.run("review", "due")
        self.assertEqual(done.returncode, 4, done)
        self.assertTrue(re.search("tool:echo +overdue", done.stdout), done.stdout)
        self.assertEqual(self.other("review", "done", "tool:echo", "--note", "fine").returncode, 0)
        self.assertEqual(c.json("review", "due"), [])


if __name__ == "__main__":
    crib.main()
