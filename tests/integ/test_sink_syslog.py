"""Sinks of type syslog (OP-303, OP-333): RFC 5424 in frames of RFC 5425 that a strict reader takes, over TLS with certificates of both
sides, and a receiver that dies under load has every position of every log once it is back; what comes twice has the id that it had."""
import contextlib
import json
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import threading

import certs
import crib
from test_sinks import Case as Sinks

PARAM = r' ([a-z]+)="((?:[^"\\\]]|\\["\\\]])*)"'
MESSAGE = re.compile(r"<(\d{1,3})>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) ([!-~]{1,255}) toolcrib - ([a-z_.]{1,32}) "
                     r"\[toolcrib@(\d+)((?:" + PARAM + r")+)\](?: (.*))?")


def parse(message):
    """RFC 5424 6, strictly."""
    found = MESSAGE.fullmatch(message.decode())
    if not found:
        raise AssertionError(f"no message of syslog: {message!r}")
    params = re.findall(PARAM, found[6])
    row = {name: re.sub(r'\\(["\\\]])', r"\1", text) for name, text in params}
    assert len(row) == len(params), message
    priority = int(found[1])
    assert priority >> 3 == 13, message
    row["index"] = int(row["index"])
    return {**row, "severity": priority & 7, "time": found[2], "kind": found[4], "pen": found[5], "text": found[9] or ""}


class Receiver:
    """Takes messages with octet counting; can die with what it has not read, and come back at its port."""

    def __init__(self, context=None):
        self.context, self.port, self.messages, self.wrong = context, 0, [], []
        self.start()

    def start(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self.listener.getsockname()[1]
        self.connections, self.over, self.reads = [], False, threading.Event()
        self.reads.set()
        self.thread = threading.Thread(target=self.accept, args=(self.listener,))
        self.thread.start()

    def accept(self, listener):
        readers = []
        while not self.over:
            with contextlib.suppress(OSError):
                c = listener.accept()[0]
                self.connections.append(c)
                readers.append(threading.Thread(target=self.read, args=(c,)))
                readers[-1].start()
        for reader in readers:
            reader.join()

    def read(self, c):
        left = b""
        with contextlib.suppress(OSError):
            if self.context:
                c = self.context.wrap_socket(c, server_side=True)
                self.connections.append(c)
            while not self.over and (got := c.recv(65536)):
                left = self.take(left + got)
                self.reads.wait()

    def take(self, data):
        while found := re.match(rb"([1-9]\d*) ", data):
            end = found.end() + int(found[1])
            if len(data) < end:
                break
            try:
                self.messages.append({**parse(data[found.end():end]), "size": int(found[1])})
            except (AssertionError, UnicodeDecodeError) as wrong:
                self.wrong.append(str(wrong))
            data = data[end:]
        if data and not re.match(rb"[1-9]\d{0,4}( |$)", data):
            self.wrong.append(f"no frame: {data[:40]}")
        return data

    def die(self):
        """With a reset: what lies in its buffers is lost."""
        self.over = True
        self.reads.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for c in list(self.connections):
            with contextlib.suppress(OSError):
                c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                c.shutdown(socket.SHUT_RD)
                c.close()
        self.thread.join()

    def lines(self):
        return [json.loads(message["text"]) for message in self.messages if "cut" not in message]


class Case(Sinks):
    def receiver(self, context=None):
        receiver = Receiver(context)
        self.addCleanup(receiver.die)
        return receiver

    def siem(self, port, more=", tls: off", name="local"):
        return f"name: {name}, type: syslog, address: '127.0.0.1:{port}', resend: 2s{more}"

    def each_once(self, messages):
        """By their ids: no position of a log is missing, and who is there twice is the same."""
        by_place = {}
        for message in messages:
            self.assertEqual(by_place.setdefault((message["log"], message["index"]), message["id"]), message["id"])
        self.assertEqual(len(set(by_place.values())), len(by_place))
        return self.no_gap_and_no_double([{"log": log, "index": index} for log, index in sorted(by_place)])


class Messages(Case):
    def test_each_record_is_a_message(self):
        """RFC 5424, RFC 5425: facility log audit, severity by outcome, who it is in the structured data, the record as JSON."""
        receiver = self.receiver()
        c = self.serve(self.siem(receiver.port, ", tls: off, pen: 4711"))
        self.calls(5)
        self.assertIn("error", self.peer.call("nothing", {}, crib.MODERN))
        self.has_all()
        self.assertEqual(receiver.wrong, [])
        sizes = self.each_once(receiver.messages)
        self.assertEqual(sum(sizes.values()), c.rows("SELECT count(*) FROM rec")[0][0])
        for message in receiver.messages:
            row = json.loads(message["text"])
            for name in ("id", "log", "index", "kind", "time", "call", "tenant"):
                self.assertEqual(message.get(name), row.get(name), name)
            self.assertNotIn("principal", row)
            self.assertEqual(message["pen"], "4711")
        ends = [message for message in receiver.messages if message["kind"] == "call.end"]
        self.assertEqual({message["severity"] for message in ends}, {6})
        self.assertEqual({message["severity"] for message in receiver.messages if message["kind"] == "call.denied"}, {4})
        self.assertNotIn("hello", json.dumps(receiver.messages))

    def test_what_is_not_on_this_machine_needs_tls(self):
        for sink, said in ((self.siem(1).replace("127.0.0.1:1", "siem.example.com:514"), "must be reached by TLS, unless it is on this machine"),
                           (self.siem(1).replace("127.0.0.1:1", "siem.example.com"), "the port is missing"),
                           (self.siem(1, ", ca: /etc/nothing"), "/etc/nothing"), (self.siem(1, ", cert: /x"), "cert and key belong together"),
                           (self.siem(1, ", tls: off, ca: /x"), "tls: off has no use for ca"), (self.siem(1, ", pen: 0"), "pen"),
                           (self.siem(1, ", tls: maybe"), "tls must be one of on, off")):
            with self.subTest(said):
                config = self.crib.config(f"sinks:\n- {{{sink}}}\n")
                done = crib.subprocess.run([crib.BUILD / "toolcribd", "--check-config", "-c", config], capture_output=True, text=True,
                                           env=self.crib.env)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(said, done.stderr)


class Deaths(Case):
    def test_a_receiver_that_dies_under_load_misses_nothing(self):
        """Issue 19: what its kernel has acknowledged and it has not read goes again, and nothing is missing on its side."""
        receiver = self.receiver()
        self.serve(self.siem(receiver.port))
        over, turn, done = threading.Event(), threading.Lock(), []

        def load():
            while not over.is_set():
                with turn:
                    self.calls(1)
                done.append(1)
        thread = threading.Thread(target=load)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(over.set)
        for _ in range(2):
            before = len(receiver.messages)
            crib.wait_for("messages", lambda before=before: len(receiver.messages) > before + 20)
            with turn:                  # what is unread then fits into its buffers
                self.has_all()
                receiver.reads.clear()
                row = self.sink()
                self.calls(30)
                crib.wait_for("records that are sent and not read", lambda row=row: self.sink()["sent"] > row["sent"] + 30)
                receiver.die()
            calls = len(done)
            crib.wait_for("a failure", lambda row=row: self.sink()["failures"] > row["failures"])
            crib.wait_for("calls that go on", lambda calls=calls: len(done) > calls + 20)
            receiver.start()
        over.set()
        thread.join()
        self.has_all()
        self.each_once(receiver.messages)
        self.assertEqual(receiver.wrong, [])

    def test_a_death_of_ours_repeats_what_is_younger_than_resend(self):
        receiver = self.receiver()
        self.serve(self.siem(receiver.port))
        for _ in range(3):
            before = len(receiver.messages)
            self.calls(10)
            crib.wait_for("messages", lambda before=before: len(receiver.messages) > before)
            self.again()
        self.has_all()
        self.each_once(receiver.messages)
        ids = [message["id"] for message in receiver.messages]
        self.assertGreater(len(ids), len(set(ids)))

    def test_one_that_ends_idle_connections_gets_the_rest(self):
        receiver = self.receiver()
        self.serve(self.siem(receiver.port))
        self.calls(3)
        self.has_all()
        receiver.die()
        receiver.start()
        self.calls(3)
        self.has_all()
        self.each_once(receiver.messages)


class Tls(Case):
    def test_certificates_of_both_sides(self):
        ca = certs.Ca(self.crib.dir)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*ca.sign("siem", "IP:127.0.0.1"))
        context.load_verify_locations(ca.cert)
        context.verify_mode = ssl.CERT_REQUIRED
        receiver = self.receiver(context)
        cert, key = ca.sign("crib", "DNS:crib.example", "clientAuth")
        self.serve(self.siem(receiver.port, f", ca: '{ca.cert}', cert: '{cert}', key: '{key}'"), self.siem(receiver.port, "", "stranger"),
                   self.siem(receiver.port, f", ca: '{ca.cert}'", "nameless"))
        self.calls(5)
        self.has_all()
        self.assertEqual(receiver.wrong, [])
        self.each_once(receiver.messages)
        row = crib.wait_for("a refusal", lambda: (row := self.sink("stranger"))["failures"] > 0 and row)
        self.assertRegex(row["why"], "no TLS with it: .*certificate")
        self.assertGreater(row["retry_s"], 30)
        self.assertEqual(row["sent"], 0)


class Rsyslogd(Case):
    """Debian's, as a second opinion."""

    CONFIG = """
module(load="imtcp" StreamDriver.Name="gtls" StreamDriver.Mode="1" StreamDriver.AuthMode="anon")
global(workDirectory="{dir}" maxMessageSize="16k" DefaultNetstreamDriverCAFile="{ca}" DefaultNetstreamDriverCertFile="{cert}"
       DefaultNetstreamDriverKeyFile="{key}")
template(name="all" type="string" string="%rawmsg%\\n")
input(type="imtcp" port="{port}" listenPortFileName="{dir}/port" address="127.0.0.1" ruleset="all")
ruleset(name="all") {{ action(type="omfile" file="{dir}/messages" template="all" fileCreateMode="0600") }}
"""

    def setUp(self):
        super().setUp()
        self.drivers = sorted(pathlib.Path("/usr/lib").glob("*/rsyslog/lmnsd_gtls.so"))
        if not pathlib.Path("/usr/sbin/rsyslogd").exists() or not self.drivers:
            self.skipTest("rsyslogd is not there: Debian's packages rsyslog and rsyslog-gnutls have it")
        self.dir = self.crib.dir / "rsyslog"
        self.dir.mkdir()
        self.port = 0

    def start(self):
        config = self.dir / "rsyslog.conf"
        config.write_text(self.CONFIG.format(dir=self.dir, port=self.port, ca=self.ca.cert, cert=self.cert, key=self.own))
        self.process = subprocess.Popen(["/usr/sbin/rsyslogd", "-n", "-f", config, "-iNONE"], stderr=subprocess.DEVNULL)
        self.port = crib.wait_for("a port", self.listens)

    def listens(self):
        with contextlib.suppress(OSError, ValueError):
            port = self.port or int((self.dir / "port").read_text())
            socket.create_connection(("127.0.0.1", port)).close()
            return port
        return None

    def stop(self, sign):
        self.process.send_signal(sign)
        self.process.wait(crib.DEADLINE)

    def messages(self):
        with contextlib.suppress(FileNotFoundError):
            return [parse(line) for line in (self.dir / "messages").read_bytes().split(b"\n")[:-1]]
        return []


class Rsyslog(Rsyslogd):
    def test_rsyslogd_that_is_killed_under_load_misses_nothing(self):
        """Issue 19: killed and started again, its file has every position of every log."""
        self.ca = certs.Ca(self.crib.dir)
        self.cert, self.own = self.ca.sign("siem", "IP:127.0.0.1")
        self.start()
        self.addCleanup(lambda: self.stop(signal.SIGKILL) if self.process.poll() is None else None)
        self.serve(self.siem(self.port, f", ca: '{self.ca.cert}'"))
        for sign in (signal.SIGKILL, signal.SIGTERM):
            before = len(self.messages())
            self.calls(20)
            crib.wait_for("messages", lambda before=before: len(self.messages()) > before)
            self.calls(10)
            self.stop(sign)
            self.calls(20)
            crib.wait_for("a failure", lambda: self.sink()["failures"] > 0)
            self.start()
        self.calls(5)
        self.has_all()
        crib.wait_for("the last message", lambda: sum(self.each_once(self.messages()).values()) >= self.records())
        self.assertEqual({message["text"][0] for message in self.messages()}, {"{"})

    def records(self):
        return self.crib.rows("SELECT count(*) FROM rec")[0][0]


if __name__ == "__main__":
    crib.main()
