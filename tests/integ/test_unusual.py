"""Calls that are unusual for who makes them (OP-602), of a server whose clock a test moves: weeks of ordinary work and an hour at its
real rate say nothing; then each rule finds what was planted for it, says the numbers and where to look, and webhook, Alertmanager
and mail have it."""
import collections
import contextlib
import http.client
import json
import random
import re
import shutil
import subprocess
import time

import crib
from mailserver import Server
from test_alerts import LISTEN, WaysBase

DAYS = 16                               # of work before the hour that is looked at; hours of a week are known after 14
WORK = range(-4, 4)                     # the hours of each day's work, from the one in which the test ends
NIGHT = range(7, 15)                    # those of who works when it does not
RULES = {"new_tool", "volume", "off_hours", "denials"}

# Who works, with which tools, how often in an hour, on how many of the last days.
Bot = collections.namedtuple("Bot", "tenant name tools rate hours days", defaults=(WORK, DAYS))
BOTS = [Bot("acme", "clerk", ("echo", "payroll"), 3), Bot("acme", "importer", ("echo",), 30, WORK, 2), Bot("acme", "sweeper", ("echo",), 1),
        Bot("acme", "guard", ("echo",), 2, NIGHT), Bot("acme", "curious", ("echo", "lookup"), 2, range(-1, 1)), Bot("acme", "knocker", ("echo",), 1),
        Bot("bolt", "clerk", ("echo", "payroll"), 2)]


class Unusual(WaysBase):
    def at(self, hours, seconds=0):
        """The clock shows so much from the beginning of the hour in which the test ends."""
        self.put("shift", (self.hour + hours) * 3600 + int(seconds) - int(time.time()) - self.passed)

    def passes(self, seconds):
        """The same, on all clocks."""
        self.passed += seconds
        self.put("later", self.passed)

    def put(self, name, number):
        """In one go: the programs read it all the time."""
        new = self.crib.dir / "new"
        new.write_text(str(number))
        new.rename(self.crib.dir / name)

    def manager(self):
        """Debian's Alertmanager, or who takes what it would: its address, and what it shows."""
        program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
        if not program:
            receiver, asked = self.receiver(), []
            receiver.does = lambda handler: (asked.extend(json.loads(handler.body)), handler.say(200))
            return receiver.port, lambda: asked
        config = self.crib.dir / "alertmanager.yml"
        config.write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
        said = self.crib.dir / "alertmanager.log"
        with said.open("w") as log:
            process = subprocess.Popen([program, f"--config.file={config}", f"--storage.path={self.crib.dir}/am", "--cluster.listen-address=",
                                        "--web.listen-address=127.0.0.1:0"], stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        port = int(crib.wait_for("an Alertmanager", lambda: re.search(r"Listening on.*127\.0\.0\.1:([1-9][0-9]*)", said.read_text()))[1])

        def shown():
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=crib.DEADLINE)
            with contextlib.closing(connection), contextlib.suppress(OSError):
                connection.request("GET", "/api/v2/alerts")
                return json.loads(connection.getresponse().read())
            return []
        return port, shown

    def prepare(self):
        """Both tenants and all bots, weeks before; the server, which has three ways out."""
        c = self.crib
        self.passed = 0
        self.put("later", 0)
        c.env.update(LD_PRELOAD=str(crib.BUILD / "tests/integ/shift.so"), ASAN_OPTIONS="verify_asan_link_order=0",
                     TOOLCRIB_TEST_SHIFT=str(c.dir / "shift"), TOOLCRIB_TEST_LATER=str(c.dir / "later"))
        self.hour = int(time.time()) // 3600 + 1        # what has just ended is no alert to an Alertmanager, whose clock is the real one
        self.at(-DAYS * 24 - 5)
        c.must(["init"])
        for name in ("echo", "payroll", "lookup"):
            c.tool(crib.ECHO.replace("name: echo", f"name: {name}"))
        self.hook_, self.mail_ = self.receiver(), Server()
        self.hook_.now = lambda: time.time() + int((c.dir / "shift").read_text()) + self.passed
        self.addCleanup(self.mail_.close)
        password = c.dir / "mail.password"
        password.touch(mode=0o600)
        password.write_text(Server.PASSWORD + "\n")
        port, self.shown = self.manager()
        c.start(LISTEN + "audit: {verify_at: none}\nalerts:\n" + "".join(f"- {{{way}}}\n" for way in (
            self.hook(self.hook_), f"name: am, type: alertmanager, url: 'http://127.0.0.1:{port}/'",
            f"name: people, type: mail, server: '127.0.0.1:{self.mail_.port}', tls: none, user: {Server.USER}, password_file: '{password}', "
            "from: crib@example.com, to: [ops@example.com]")))
        for name, tools in (("acme", ("echo", "payroll", "lookup")), ("bolt", ("echo", "payroll"))):
            c.tenant(name, *tools)
        self.keys = {bot: c.key(f"{bot.tenant}/{bot.name}") for bot in BOTS}
        self.peers = {bot: c.tcp(key) for bot, key in self.keys.items()}
        for peer in self.peers.values():
            self.addCleanup(peer.close)

    def bot(self, name, tenant="acme"):
        return next(bot for bot in BOTS if (bot.tenant, bot.name) == (tenant, name))

    def calls(self, bot, tool, n=1, refused=False):
        peer = self.peers[bot]
        for i in range(n):
            peer.send(peer.request("tools/call", {"name": tool, "arguments": {"text": str(i)}}, crib.MODERN))
        for _ in range(n):
            got = peer.receive()
            self.assertEqual("result" in got, not refused, got)

    def a_day(self, day):
        """Each hour of it in one go."""
        for hour in sorted({hour for bot in BOTS for hour in bot.hours}):
            self.at(day * 24 + hour, 600)
            for bot in BOTS:
                for n, tool in enumerate(bot.tools if hour in bot.hours and -day <= bot.days else ()):
                    self.calls(bot, tool, (bot.rate + n) // len(bot.tools))

    def an_hour(self):
        """That before the last, each call in its second, twice as many as ever; now and then one is refused.  How many there were."""
        random_ = random.Random(8)
        due = [(random_.uniform(0, 3599), bot, random_.choice(bot.tools)) for bot in BOTS if -1 in bot.hours for _ in range(2 * bot.rate)]
        due += [(random_.uniform(0, 3599), self.bot("knocker"), "shred") for _ in range(4)]
        for second, bot, tool in sorted(due, key=lambda one: one[0]):
            self.at(-1, second)
            self.calls(bot, tool, refused=tool == "shred")
        return len(due)

    def look(self):
        """Up to the last call of each log of a tenant."""
        c = self.crib
        c.cli("reload")
        crib.wait_for("what is usual", lambda: c.rows(
            "SELECT l.id FROM log l JOIN rec r ON r.log = l.id AND r.kind IN (1001, 1003, 1005) LEFT JOIN alert_place p ON p.log = l.id "
            "WHERE l.id > 1 GROUP BY l.id HAVING max(r.idx) >= coalesce(max(p.idx), 0)") == [] or c.cli("reload") is None)
        c.cli("reload")

    def alerts(self):
        return {row["rule"]: row for row in self.crib.json("alerts", "--all")}

    def has(self, text):
        """Which ways out have said this."""
        mails = [" ".join(message.get_content().split()) for _, _, message, _ in self.mail_.messages]
        return {way for way, there in (("webhook", [alert for alert in self.told(self.hook_) if alert["text"] == text]),
                                       ("alertmanager", [alert for alert in self.shown() if alert["annotations"]["summary"] == text]),
                                       ("mail", [mail for mail in mails if text in mail])) if there}

    def explained(self, rule, name, value, words):
        """The alert says the numbers, and where to look: the calls that it is about are there, of nobody else."""
        alert = self.alerts()[rule]
        self.assertEqual((alert["tenant"], alert["value"]), ("acme", value), alert)
        self.assertRegex(alert["text"], f"^prn_[0-9A-Za-z]+ of acme {words}")
        self.assertIn(f"(rule {rule}: ", alert["text"])
        rows = self.crib.json(*re.search("Look: toolcrib (.*)$", alert["text"])[1].split())
        self.assertEqual((len(rows), {row["principal"] for row in rows}), (value, {name}))
        crib.wait_for(f"all ways out to have {rule}", lambda: self.crib.cli("reload") is None or
                      self.has(alert["text"]) == {"webhook", "alertmanager", "mail"})

    def test_op602_each_rule_finds_what_was_planted_and_an_ordinary_hour_says_nothing(self):
        c = self.crib
        self.prepare()
        for day in range(-DAYS, 0):
            self.a_day(day)
            if day % 7 == 0:
                self.assertIn(c.run("audit", "verify").returncode, (0, 5))     # the last seconds may have no checkpoint yet
            self.look()
        self.assertGreater(self.an_hour(), 70)
        self.at(0, 60)
        for _ in range(3):              # what is read is compared behind that
            self.look()
        self.assertEqual((self.alerts(), c.rows("SELECT count(*) FROM v_records WHERE kind = 'alert.open'")), ({}, [(0,)]))
        for bot in BOTS:                # they go on as ever, beside what is none of it
            if 0 in bot.hours:
                self.calls(bot, bot.tools[0], bot.rate)
        self.calls(self.bot("sweeper"), "echo", 59)
        self.calls(self.bot("guard"), "echo", 2)
        self.calls(self.bot("curious"), "payroll")
        for _ in range(20):
            self.calls(self.bot("knocker"), "shred", refused=True)
            self.passes(2)              # else most of them are in one record
        self.look()
        crib.wait_for("an alert of each rule", lambda: set(self.alerts()) >= RULES or c.cli("reload") is None, 60)
        self.explained("volume", "sweeper", 60, "made 60 calls in the hour from .*; in the [0-9]+ hours of the 14 days before in which it made any, 1 each")
        self.explained("off_hours", "guard", 2, "made 2 calls on a [A-Z][a-z]+day from .*; of the 256 calls .* in this one 0 ")
        self.explained("new_tool", "curious", 1, "called payroll at .* not called in the 1[56] days since .*; it has called 2 other tools")
        self.explained("denials", "knocker", 20, "was refused 20 calls in the hour from .*, 4 in all")
        self.assertEqual(sorted(row["rule"] for row in c.json("alerts", "--all") if row["rule"] in RULES), sorted(RULES))
        self.assertEqual(c.json("alerts", "--all", "--tenant", "bolt"), [])
        self.assertEqual(sorted(c.rows("SELECT tenant, rule FROM v_records WHERE kind = 'alert.open' AND tenant IS NOT NULL")), sorted(("acme", rule) for rule in RULES))
        self.assertEqual((self.hook_.wrong, self.mail_.wrong), ([], []))
        crib.wait_for("a checkpoint of all", lambda: c.run("audit", "verify").returncode == 0)


if __name__ == "__main__":
    crib.main()
