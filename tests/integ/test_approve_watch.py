"""Who watches calls that wait for a person is told what list would show him, in its order, without a gap and once each; what is gone
is said (HA-07)."""
import json
import signal
import socket
import sqlite3
import subprocess

import crib
from test_approve import PAY, Persons
from test_audit_feed import Follower

SELL = PAY.replace("name: pay", "name: sell").replace('"group:finance", "person:boss"', '"group:sales"')
PAST_US = 91 * 86400 * 1000000


class Watcher(Follower):
    """approve watch of one person, from elsewhere."""

    def __init__(self, case, name, *words):
        c = case.crib
        self.process = subprocess.Popen([str(crib.BUILD / "toolcrib"), "--remote", case.address, "--ca", str(case.ca.cert), "--key-file",
                                         str(case.files[name]), *words],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=c.env,
                                        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))    # as from a terminal
        self.buffer = b""
        case.addCleanup(self.close)

    def rows(self, n):
        return [json.loads(self.line()) for _ in range(n)]

    def end(self):
        """What it says at its end, and its status."""
        return self.process.communicate(timeout=crib.DEADLINE)[1].decode(), self.process.returncode


class Watch(Persons):
    def watch(self, name, *words):
        return Watcher(self, name, "--json", "approve", "watch", *words)

    def told(self, rows):
        return [(row["event"], row["id"]) for row in rows]

    def decide(self):
        """One of each: granted and used, refused, recalled, lapsed by another version."""
        numbers = [self.ask(args={"amount": 4000 + i}) for i in range(4)]
        self.must("ann", "approve", "grant", str(numbers[0]), "--reason", "PO 1")
        self.runs(args={"amount": 4000})
        self.must("ann", "approve", "refuse", str(numbers[1]), "--reason", "no order")
        self.must("boss", "approve", "grant", str(numbers[2]))
        self.must("ann", "approve", "recall", str(numbers[2]), "--reason", "too fast")
        self.crib.tool(PAY.replace("Pays an", "Pays one") % "")
        a, b, c, d = numbers
        return [*(("asked", n) for n in numbers), ("granted", a), ("used", a), ("refused", b), ("granted", c), ("recalled", c), ("lapsed", d)]

    def test_ha07_each_is_told_what_list_would_show_him(self):
        c = self.crib
        c.tool(SELL % "")
        first = self.ask()
        ann, root, eye = (self.watch(name) for name in ("ann", "root", "eye"))
        eve, far, bob = (self.watch(name) for name in ("eve", "far", "bob"))
        row, = ann.rows(1)
        self.assertEqual({name: row[name] for name in ("event", "id", "tenant", "tool", "by", "needs", "what", "who", "said", "index")},
                         {"event": "asked", "id": first, "tenant": "acme", "tool": "pay", "by": "bot", "needs": "1 of finance or boss",
                          "what": 'amount=4800 payee="Nordwerft" pin="[redacted]"', "who": None, "said": None, "index": 1})
        self.assertEqual([root.rows(1)[0]["what"], eye.rows(1)[0]["what"]], [None, row["what"]])
        want = self.decide() + [("lapsed", first)]
        got = ann.rows(len(want))
        self.assertEqual(sorted(self.told(got)), sorted(want))
        self.assertEqual([row["index"] for row in got], list(range(2, len(want) + 2)))
        self.assertEqual(self.told(got)[:9], want[:9])
        self.assertEqual([(row["who"], row["said"]) for row in got[4:9]],
                         [("ann", "PO 1"), (None, None), ("ann", "no order"), ("boss", None), ("ann", "too fast")])
        for watcher in (root, eye):
            self.assertEqual(self.told(watcher.rows(len(want))), self.told(got))
        # Others have waited beside all that, and the first that they are told is theirs.
        sold, there = self.ask("sell"), self.ask(peer=c.http(self.other))
        self.assertEqual(self.told(eve.rows(1)), [("asked", sold)])
        self.assertEqual(self.told(far.rows(1)), [("asked", there)])
        self.assertEqual(self.told(bob.rows(1)), [("asked", there)])           # of acme it is his own principal
        two = self.ask("pay_much")
        self.must("ann", "approve", "grant", str(two))
        self.assertEqual(self.told(ann.rows(3)), [("asked", there), ("asked", two), ("agreed", two)])
        one = self.watch("root", "--tenant", "other")
        self.assertEqual(self.told(one.rows(1)), [("asked", there)])
        # A reload that takes away the group takes away what it showed; one that takes away the role ends it.  Of what came
        # before she has seen all: each event is judged by the roles of when it is told.
        last = self.ask("sell", {"amount": 8000})
        self.assertEqual(self.told(eve.rows(1)), [("asked", last)])
        self.roles["eve"] = self.roles["eve"].replace("groups: [sales]", "groups: [finance]")
        c.config(self.conf())
        c.cli("reload")
        more = self.ask(args={"amount": 9000})
        self.assertEqual(self.told(eve.rows(1)), [("asked", more)])
        del self.roles["eve"]
        c.config(self.conf())
        c.cli("reload")
        said, status = eve.end()
        self.assertEqual(status, 1, said)
        self.verified()

    def test_ha07_who_comes_back_misses_none_and_gets_none_twice(self):
        c, cursor = self.crib, self.crib.dir / "cursor"
        ann = self.watch("ann", "--cursor", str(cursor))
        first = self.ask()
        got = ann.rows(1)
        crib.wait_for("the cursor", lambda: cursor.exists() and json.loads(cursor.read_text()) == {"approvals": 2})
        ann.process.send_signal(signal.SIGINT)
        self.assertEqual(ann.process.wait(crib.DEADLINE), -signal.SIGINT)
        want = [("asked", first), *self.decide(), ("lapsed", first)]
        crib.wait_for("the ends", lambda: c.rows("SELECT count(*) FROM assent_event") == [(len(want),)])
        c.stop(signal.SIGKILL)
        self.up()
        ann = self.watch("ann", "--cursor", str(cursor))
        got += ann.rows(len(want) - 1)
        self.assertEqual([row["index"] for row in got], list(range(1, len(want) + 1)))
        self.assertEqual(sorted(self.told(got)), sorted(want))
        self.assertEqual(self.watch("ann", "--after", "3").rows(len(want) - 3), got[3:])
        lines = Watcher(self, "ann", "approve", "watch", "--after", "0").until("recalled")
        titles = next(line for line in lines if line.startswith("INDEX"))
        self.assertEqual(lines[-1].index("recalled"), titles.index("EVENT"))
        self.assertIn("too fast", lines[-1])
        # A position of another store, two places at once, no server.
        for words, why in ((("--after", "9999"), "position 9999 is behind the newest of this store"),
                           (("--after", "1", "--cursor", str(cursor)), "both say where to go on")):
            done = self.by("ann", "approve", "watch", *words)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(why, done.stderr)
        c.stop()
        said, status = ann.end()
        self.assertEqual(status, 1)
        self.assertRegex(said, "stopping|hung up")
        done = c.run("approve", "watch")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no server runs on this store", done.stderr)

    def test_ha07_who_reads_slowly_holds_nothing_up_and_what_is_gone_is_said(self):
        c, number, many = self.crib, self.ask(), 20000
        c.stop()
        db = sqlite3.connect(c.store / "toolcrib.db")
        with db:
            db.executemany("INSERT INTO assent_event(tenant_id, assent_id, what, us, who, said) SELECT tenant_id, id, 7, asked_us, 'ann', ? "
                           "FROM assent", ((f"{i:0200}",) for i in range(many)))
            db.execute("UPDATE assent_event SET us = us - ? WHERE seq <= 100", (PAST_US,))
            db.execute("DELETE FROM assent_event WHERE seq BETWEEN 2 AND 50")
        db.close()
        self.up()
        slow = socket.socket(socket.AF_UNIX)
        slow.connect(str(c.store / "admin.sock"))
        slow.sendall(b'{"command":"approve watch","args":{"after":"20"}}\n')
        slow.settimeout(crib.DEADLINE)
        first = slow.recv(1, socket.MSG_PEEK)
        self.assertEqual(first, b"{")
        self.assertEqual(self.rows("ann", "list")[0]["id"], number)             # beside one that does not read
        self.must("ann", "approve", "refuse", str(number), "--reason", "x")
        lines = slow.makefile("rb")
        self.assertIn("columns", json.loads(next(lines)))
        lost = json.loads(next(lines))["row"]
        self.assertEqual((lost["event"], lost["said"]), ("lost", "what was over for 90 days is not kept, and was perhaps not told"))
        got = []
        for line in lines:
            got.append(json.loads(line)["row"])
            if got[-1]["event"] == "refused":
                break
        self.assertEqual([row["index"] for row in got], list(range(51, many + 3)))
        slow.close()
        self.assertEqual(self.watch("ann", "--after", str(many + 1)).rows(1), got[-1:])      # nothing is lost behind what is new


if __name__ == "__main__":
    crib.main()
