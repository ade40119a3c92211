"""approve.notify: a program is told of each request for a person's yes (HA-07), and no call waits for it, whatever it does."""
import json
import re
import shutil
import unittest
import urllib.request

import crib
import test_approve


@unittest.skipUnless(shutil.which("openssl"), "needs openssl(1)")
class Notified(test_approve.Persons):
    """approve.notify: a program is told of each request, and no call waits for it."""
    PEOPLE = {"ann": "person: ann, groups: [finance]"}
    SCRIPT, TIMEOUT = "", 60000

    def conf(self):
        d = self.crib.dir
        (d / "ask.sh").write_text("#!/bin/sh\n" + self.SCRIPT.replace("DIR", str(d)))
        (d / "ask.sh").chmod(0o755)
        return ("metrics: {listen: \"127.0.0.1:0\"}\n" + super().conf().replace(
            "approve: {hold: ", f"approve: {{notify: {self.PROGRAM or d / 'ask.sh'}, notify_timeout: {self.TIMEOUT}, hold: "))

    PROGRAM = None

    def counted(self):
        address = next(row["address"] for row in self.crib.json("status")[0]["listeners"] if row["transport"] == "metrics")
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=crib.DEADLINE) as got:
            text = got.read().decode()
        return tuple(int(re.search(rf"^toolcrib_approvals_{name}\S* (\d+)$", text, re.M)[1]) for name in ("told", "untold"))

    def until(self, told, untold):
        crib.wait_for(f"{told} told, {untold} not", lambda: self.counted() == (told, untold))

    def log(self):
        return self.crib.log.read_text()


class Told(Notified):
    SCRIPT = "{ cat; echo \"args $# $*\"; env | cut -d= -f1 | sort | tr '\\n' ' '; } > DIR/line.$$\nmv DIR/line.$$ DIR/told.$$\n"

    def test_ha07_a_program_is_told_of_each_request(self):
        number = self.ask()
        self.assertEqual(self.ask(), number)                    # it joins, and nobody is told again
        self.until(1, 0)
        second = self.ask("pay_much", {"amount": 5000, "payee": "x\"\n", "pin": "4711"})
        self.until(2, 0)
        told = [path.read_text().splitlines() for path in self.crib.dir.glob("told.*")]
        lines = {json.loads(text[0])["id"]: text for text in told}
        self.assertEqual(set(lines), {number, second})
        for one, tool, count in ((number, "pay", 1), (second, "pay_much", 2)):
            got = json.loads(lines[one][0])
            self.assertRegex(got.pop("asked"), r"^\d{4}-\d\d-\d\dT[\d:.]+Z$")
            self.assertRegex(got.pop("until"), r"^\d{4}-\d\d-\d\dT[\d:.]+Z$")
            self.assertEqual(got, {"id": one, "tenant": "acme", "tool": tool, "principal": "bot", "count": count,
                                   "by": ["group:finance", "person:boss"]})
            self.assertEqual(lines[one][1], "args 0 ")
            self.assertLessEqual(set(lines[one][2].split()), {"PATH", "PWD", "OLDPWD", "SHLVL", "_"})
        # Nothing of what was asked for is in it: not even who is paid.
        for word in ("Nordwerft", "4800", "0815", "4711", self.key):
            self.assertNotIn(word, str(told))
        self.must("ann", "approve", "grant", str(number))
        self.runs()
        self.until(2, 0)                                        # votes and uses are told to nobody
        self.verified()


class Failing(Notified):
    SCRIPT = "cat > /dev/null\nexit 3\n"

    def test_ha07_a_program_that_fails_is_counted_and_logged(self):
        number = self.ask()
        self.until(0, 1)
        self.assertRegex(self.log(), rf"approve\.notify failed approval={number} status=3")
        self.must("ann", "approve", "grant", str(number))
        self.runs()


class Missing(Notified):
    PROGRAM = "/nowhere/ask"

    def test_ha07_a_program_that_is_missing_is_counted_and_logged(self):
        number = self.ask()
        self.until(0, 1)
        self.assertRegex(self.log(), rf"approve\.notify (failed approval={number} |cannot be started )")
        self.assertEqual([row["id"] for row in self.rows("ann", "list")], [number])
        self.must("ann", "approve", "grant", str(number))
        self.runs()


class Late(Notified):
    SCRIPT, TIMEOUT = "exec sleep 1000\n", 100

    def test_ha07_a_program_that_hangs_is_ended_and_the_next_is_told(self):
        numbers = [self.ask(args={**test_approve.BIG, "amount": 5000 + n}) for n in range(2)]
        self.until(0, 2)
        for number in numbers:
            self.assertIn(f"approve.notify takes too long and is ended approval={number}", self.log())


class Behind(Notified):
    SCRIPT = "exec sleep 1000\n"
    QUEUE = 64

    def test_ha07_no_call_waits_and_what_is_too_much_is_not_told(self):
        peers = (self.peer, self.crib.http(self.second))
        for n in range(1 + self.QUEUE):                         # one is told now, the others wait
            last = self.ask(args={**test_approve.BIG, "amount": 5000 + n}, peer=peers[n % 2])
        self.assertEqual(self.counted(), (0, 0))
        more = self.ask(args={**test_approve.BIG, "amount": 4000}, peer=peers[0])
        self.assertEqual(self.counted(), (0, 1))
        self.assertIn(f"approve.notify is behind and is not told approval={more}\"", self.log())
        self.assertNotIn(f"not told approval={last}\"", self.log())
        self.must("ann", "approve", "grant", str(more))         # it is there all the same
        self.runs(args={**test_approve.BIG, "amount": 4000}, peer=peers[0])
        self.assertEqual(self.crib.stop(), 0)                   # and the program ends with its server


if __name__ == "__main__":
    crib.main()
