"""Mail as a way out of alerts (OP-604): over TLS from the first byte and by STARTTLS, with a password that nobody else hears, to a
server that checks each command and to Debian's aiosmtpd; nothing of an alert's text becomes a header; one that refuses, dies, hangs
up or says nonsense is told again what it did not take."""
import contextlib
import pathlib
import re
import signal
import socket
import subprocess
import time

import certs
import crib
from mailserver import Server
from test_alerts import WaysBase

AIOSMTPD = pathlib.Path("/usr/bin/aiosmtpd")    # Debian's, for Debian's Python


class Mail(WaysBase):
    def setUp(self):
        super().setUp()
        self.password = self.crib.dir / "mail.password"
        self.password.touch(mode=0o600)
        self.password.write_text(Server.PASSWORD + "\n")

    def pki(self):
        pki = certs.Ca(self.crib.dir)
        return pki, pki.sign("mail", "DNS:localhost,IP:127.0.0.1")

    def server(self, *words, **more):
        server = Server(*words, **more)
        self.addCleanup(server.close)
        return server

    def mail(self, server, more="", host="127.0.0.1", tls="none", user=True):
        ca = f", ca: '{self.crib.dir}/ca.crt'" if tls != "none" else ""
        login = f", user: {Server.USER}, password_file: '{self.password}'" if user else ""
        return (f"name: people, type: mail, server: '{host}:{server.port}', tls: {tls}, from: crib@example.com, "
                f"to: [ops@example.com, night.shift@example.com]{ca}{login}{more}")

    def bodies(self, server):
        return [message.get_content() for _, _, message, _ in server.messages]

    def arrived(self, server, word, number=1):
        crib.wait_for(f"{number} mails with {word}", lambda: self.look() or sum(word in body for body in self.bodies(server)) >= number)
        return [one for one in server.messages if word in one[2].get_content()][-1]

    def fails(self, why):
        crib.wait_for(f"a failure: {why}", lambda: self.look() or why in (self.way("people")["why"] or ""))

    def test_op604_an_alert_its_end_and_what_the_headers_say(self):
        server = self.server()
        c = self.serve_ways(self.mail(server))
        c.cli("alerts", "ways")
        accessor = self.key_for("13d")
        self.look()
        sender, to, message, text = self.arrived(server, "key_expiring")
        stored = self.open("key_expiring")[0]
        self.assertEqual((sender, to), ("crib@example.com", ["ops@example.com", "night.shift@example.com"]))
        self.assertEqual([str(message[name]) for name in ("From", "To", "Auto-Submitted")],
                         ["toolcrib <crib@example.com>", "ops@example.com, night.shift@example.com", "auto-generated"])
        self.assertRegex(str(message["Subject"]), r"^\[toolcrib info\] key_expiring of acme on [A-Za-z0-9._-]+$")
        self.assertLess(abs(message["Date"].datetime.timestamp() - time.time()), 600)
        self.assertRegex(message["Message-ID"], r"^<alerts-[0-9a-f]{16}@[A-Za-z0-9._-]+>$")
        head, coded = text.split("\r\n\r\n", 1)
        self.assertEqual([line.split(":")[0] for line in head.split("\r\n") if not line.startswith(" ")],
                         ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version", "Content-Type",
                          "Content-Transfer-Encoding"])
        self.assertRegex(coded + "\r\n", r"^([A-Za-z0-9+/=]{1,76}\r\n)+$")
        body = message.get_content()
        for said in (stored["text"], stored["subject"], f"toolcrib alerts ack {stored['id']}", "open: key_expiring, info, tenant acme"):
            self.assertIn(said, body)
        self.assertEqual(c.run(*re.search("toolcrib (alerts ack [0-9]+)", body)[1].split()).returncode, 0)
        c.cli("key", "revoke", accessor, "--yes")
        self.look()
        _, _, message, _ = self.arrived(server, "over: key_expiring")
        self.assertIn("[toolcrib over] key_expiring", message["Subject"])
        row = self.way("people")
        self.assertEqual((row["type"], row["state"], row["failures"], server.wrong), ("mail", "up", 0, []))
        self.assertEqual(server.dialogs, len(server.messages))
        self.assertEqual(len({one[2]["Message-ID"] for one in server.messages}), len(server.messages))
        said = c.log.read_text() + c.cli("alerts", "ways", "--format", "json") + c.cli("audit", "config", "--format", "json")
        self.assertNotIn(Server.PASSWORD, said)

    def test_op604_tls_by_starttls_and_from_the_first_byte(self):
        _, cert = self.pki()
        for tls, auth in (("starttls", "LOGIN"), ("tls", "PLAIN")):
            with self.subTest(tls), contextlib.ExitStack() as stack:
                server = Server(tls, cert, auth)
                stack.callback(server.close)
                c = self.crib
                if tls == "starttls":
                    self.serve_ways(self.mail(server, ", repeat: 10s", tls=tls, host="localhost"))
                else:
                    c.stop()
                    c.start("alerts:\n- {" + self.mail(server, ", repeat: 10s", tls=tls) + "}\n")
                if tls == "starttls":
                    self.key_for("13d")
                self.later(11)
                self.look()
                self.arrived(server, "key_expiring")
                self.assertEqual(server.wrong, [])
                self.assertEqual({word for word, secure in server.said if not secure},
                                 {"EHLO", "STARTTLS"} if tls == "starttls" else set())
                self.assertEqual(self.way("people")["failures"], 0)

    def test_op604_no_password_leaves_without_tls_that_was_asked_for(self):
        """A server without STARTTLS, one that says more before TLS than an answer, a certificate of another name, of nobody."""
        pki, cert = self.pki()
        other = pki.sign("other", "DNS:elsewhere.example.com")
        stranger = certs.Ca(self.crib.dir, "stranger").sign("strange", "DNS:localhost,IP:127.0.0.1")
        started = False
        for how, tls, why in ((dict(tls="none"), "starttls", "it offers no STARTTLS"),
                              (dict(tls="starttls", cert=cert, answers={"STARTTLS": "220 go on\r\n250 AUTH PLAIN"}), "starttls",
                               "it says more than an answer before TLS"),
                              (dict(tls="starttls", cert=other), "starttls", "no TLS with it"), (dict(tls="tls", cert=stranger), "tls", "no TLS with it")):
            with self.subTest(why), contextlib.ExitStack() as stack:
                server = Server(auth="PLAIN", **how)
                stack.callback(server.close)
                text = "alerts:\n- {" + self.mail(server, tls=tls) + "}\n"
                if started:
                    self.crib.stop()
                    self.crib.start(text)
                else:
                    self.serve_ways(self.mail(server, tls=tls))
                    self.crib.cli("alerts", "test")
                    started = True
                self.fails(why)
                self.assertEqual([word for word, _ in server.said if word not in ("EHLO", "STARTTLS")], [])
                self.assertEqual(server.messages, [])

    def test_op604_what_is_refused_goes_again(self):
        """After each kind of failure; that one receiver is refused is no failure while another is not."""
        answers = {}
        server = self.server(answers=answers)
        c = self.serve_ways(self.mail(server, ", repeat: 10s"))
        self.key_for("13d")
        self.look()
        self.arrived(server, "open: key_expiring")
        for verb, answer, why in (("GREETING", "421 busy", "it answers the connection with status 421"), ("EHLO", "550 no", "EHLO with status 550"),
                                  ("AUTH", "535 no", "AUTH with status 535"), ("MAIL", "451 later", "MAIL FROM with status 451"),
                                  ("RCPT", "550 nobody", "RCPT TO with status 550"), ("DATA", "554 no", "DATA with status 554"),
                                  ("END", "452 full", "the message with status 452"), ("END", None, "it has ended the connection"),
                                  ("GREETING", "HTTP/1.1 200 OK", "it does not speak SMTP"), ("GREETING", "220-" + "x" * 3000, "it does not speak SMTP"),
                                  ("EHLO", "\r\n".join(["250-X"] * 101 + ["250 X"]), "it does not speak SMTP"),
                                  ("EHLO", "250-X\r\n220 Y", "it does not speak SMTP"), ("EHLO", "250 X", "it takes no password")):
            with self.subTest(verb=verb, answer=(answer or "")[:20]):
                answers.clear()
                answers[verb] = answer
                before = len(server.messages)
                self.later(601)
                crib.wait_for(why, lambda: self.look() or why in (self.way("people")["why"] or ""))
                answers.clear()
                self.later(61)
                crib.wait_for("the message", lambda: self.look() or len(server.messages) > before)
                crib.wait_for("that it is taken", lambda: self.way("people")["state"] == "up")
        answers["RCPT"] = lambda line: "550 nobody" if "night" in line else "250 ok"
        before = len(server.messages)
        self.later(601)
        crib.wait_for("the message", lambda: self.look() or len(server.messages) > before)
        self.assertEqual(server.messages[-1][1], ["ops@example.com"])
        self.assertTrue(self.log("mail goes to fewer than it is for", "taken=1"))
        self.assertEqual(server.wrong, [])

    def test_op604_a_death_on_either_side_loses_nothing(self):
        server = Server()
        c = self.serve_ways(self.mail(server))
        c.cli("alerts", "test")
        self.arrived(server, "open: test")
        server.close()
        accessor = self.key_for("13d")
        self.look()
        crib.wait_for("a failure", lambda: self.look() or self.way("people")["failures"])
        crib.wait_for("that it waits", lambda: (-1,) in c.rows("SELECT severity FROM alert_out"))
        c.stop(signal.SIGKILL)
        second = self.server(port=server.port)
        c.start(self.config)
        self.arrived(second, accessor)
        self.assertEqual(second.wrong, [])

    def test_op604_debians_aiosmtpd_takes_it(self):
        if not AIOSMTPD.exists():
            self.skipTest("there is no aiosmtpd: Debian's package python3-aiosmtpd has it")
        _, (cert, key) = self.pki()
        box = self.crib.dir / "box"
        with socket.create_server(("127.0.0.1", 0)) as one:
            port = one.getsockname()[1]
        process = subprocess.Popen(["/usr/bin/python3", AIOSMTPD, "-n", "-l", f"127.0.0.1:{port}", "--tlscert", cert, "--tlskey", key,
                                    "-c", "aiosmtpd.handlers.Mailbox", box], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        server = type("At", (), {"port": port})
        c = self.serve_ways(self.mail(server, tls="starttls", user=False))
        c.cli("alerts", "test")

        def mails():
            self.later(61)
            self.look()
            return list((box / "new").glob("*")) if box.exists() else []
        text = crib.wait_for("a mail", mails)[0].read_text()
        self.assertIn("[toolcrib ", text)
        self.assertIn("X-RcptTo: ops@example.com, night.shift@example.com", text)

    def test_what_is_wrong_with_it_is_named(self):
        good = (f"name: a, type: mail, server: 'smtp.example.com:587', from: a@example.com, to: [b@example.com], user: u, "
                f"password_file: '{self.password}'")
        for text, said in ((good.replace("smtp.example.com:587", "smtp.example.com"), "port"),
                           (good.replace("server: 'smtp.example.com:587', ", ""), "server"),
                           (good.replace("a@example.com", "example.com"), "from is no address like"),
                           (good.replace("a@example.com", "'a b@example.com'"), "from is no address like"),
                           (good.replace("a@example.com", "'a@example.com>\\r\\nRCPT TO:<c@example.com'"), "from is no address like"),
                           (good.replace("[b@example.com]", "['b@example.com\\r\\nBcc: c@example.com']"), "to: entry 1 is no address like"),
                           (good.replace("[b@example.com]", "[" + ", ".join(["b@example.com"] * 17) + "]"), "to must have 1 to 16 entries"),
                           (good.replace(", to: [b@example.com]", ""), "to is missing"), (good + ", tls: maybe", "tls must be one of starttls, tls, none"),
                           (good + ", tls: none", "must be reached by TLS, unless it is on this machine"), (good + ", url: x", "url"),
                           (good.replace(", user: u", ""), "password_file is of no use without user"),
                           (re.sub(", password_file.*", "", good), "password_file"), (good + ", ca: /nowhere/ca", "/nowhere/ca")):
            with self.subTest(text):
                self.assertIn(said, self.refused(text))
        self.assertIn("entry", self.refused(good.replace("[b@example.com]", "[" + "b" * 65 + "@example.com]")))
        self.password.write_text("\n")
        self.assertIn("holds no line with a password", self.refused(good))
        self.password.chmod(0o644)
        self.assertIn("others may use it", self.refused(good))

    def refused(self, *ways):
        config = self.crib.config("alerts:\n" + "".join(f"- {{{one}}}\n" for one in ways))
        done = crib.subprocess.run([crib.BUILD / "toolcribd", "--check-config", "-c", config], capture_output=True, text=True,
                                   env=self.crib.env)
        self.assertNotEqual(done.returncode, 0, ways)
        return done.stderr


if __name__ == "__main__":
    crib.main()
