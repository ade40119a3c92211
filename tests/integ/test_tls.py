"""TLS on HTTP and TCP listeners: what a scanner would try, certificates that change, and clients' own (SEC S-102, S-117, S-118)."""
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import threading
import time
import unittest

import certs
import crib

scan = unittest.skipUnless(os.environ.get("TOOLCRIB_TLS_SCAN"), "make check-long")
SERVER = "DNS:localhost,IP:127.0.0.1"
CI = "spiffe://example.org/ci"


def drop(sock):
    """End a TLS connection as a wire that is cut would: no close_notify, no reset."""
    raw = socket.socket(fileno=sock.detach())
    raw.settimeout(crib.DEADLINE)
    raw.shutdown(socket.SHUT_WR)
    return raw


@unittest.skipUnless(shutil.which("openssl"), "needs openssl(1)")
class Tls(unittest.TestCase):
    """One server for all that leaves it as it was."""

    DOORS = """
- {transport: http, address: "127.0.0.1:0", tls: {SERVER}}
- {transport: tcp, address: "127.0.0.1:0", tls: {SERVER}}
- {transport: http, address: "127.0.0.1:0"}
- {transport: tcp, address: "127.0.0.1:0"}
- {transport: http, address: "127.0.0.1:0", tls: {SERVER, min: "1.3"}}
- {transport: http, address: "127.0.0.1:0", tls: {SERVER, client_ca: DIR/ca.crt, client_crl: DIR/ca.crl, client_required: true,
                                                clients: CLIENTS}}
- {transport: tcp, address: "127.0.0.1:0", tls: {SERVER, client_ca: DIR/ca.crt, clients: CLIENTS}}
- {transport: http, address: "127.0.0.1:0", tls: {SERVER, client_ca: DIR/ca.crt}}
- {transport: http, address: "127.0.0.1:0", hosts: [crib.example.com], tls: {SERVER}}
"""
    CLIENTS = """[
  {uri: "spiffe://example.org/ci", tenant: acme, principal: bot}, {dns: agent.example.org, tenant: acme, principal: agent},
  {spki: SPKI, tenant: acme, principal: pinned}, {dns: ghost.example.org, tenant: acme, principal: nobody},
  {uri: "spiffe://example.org/other", tenant: other}]"""
    HTTP, TCP, PLAIN_HTTP, PLAIN_TCP, NEW, CERT_HTTP, CERT_TCP, GATE, NAMED = range(9)

    @classmethod
    def setUpClass(cls):
        c = cls.crib = crib.Crib().init()
        cls.addClassCleanup(c.close)
        c.tool(crib.ECHO)
        cls.key = c.tenant("acme", "echo")
        c.tenant("other", "echo")
        c.key("other/default")
        for name in ("agent", "pinned"):
            c.key(f"acme/{name}")       # makes the principal
        cls.ca = certs.Ca(c.dir)
        cls.ca.sign("server", SERVER)
        cls.ca.revoke()
        cls.client = {"pinned": cls.ca.sign("pinned", "", "clientAuth")}
        cls.write()
        cls.start()

    @classmethod
    def start(cls, **more):
        cls.doors = [row["address"].rpartition(":") for row in cls.crib.start(**more).json("status")[0]["listeners"]]

    @classmethod
    def write(cls, doors=None, cert="server", key=None):
        """The configuration that start() and a reload read."""
        c = cls.crib
        text = (doors or cls.DOORS).replace("CLIENTS", cls.CLIENTS).replace("SPKI", certs.spki(cls.client["pinned"][0]))
        text = text.replace("SERVER", f"cert: DIR/{cert}.crt, key: DIR/{key or cert}.key").replace("DIR", str(c.dir))
        path = c.dir / "toolcribd.yaml"
        path.write_text(f"listeners:{text}")
        c.config = lambda extra: path
        return path

    def tearDown(self):
        crib.Case.tearDown(self)

    def signed(self, name, san, use="clientAuth", **more):
        """A client's certificate, made once."""
        if name not in self.client:
            self.client[name] = self.ca.sign(name, san, use, **more)
        return self.client[name]

    def context(self, client=None, **more):
        context = ssl.create_default_context(cafile=str(self.ca.cert))
        if client:
            context.load_cert_chain(*client)
        for name, value in more.items():
            setattr(context, name, value)
        return context

    def address(self, door):
        """Of a listener by its place in the list."""
        host, _, port = self.doors[door]
        return host, int(port)

    def raw(self, door):
        s = socket.create_connection(self.address(door), crib.DEADLINE)
        self.addCleanup(s.close)
        return s

    def connect(self, door=HTTP, context=None):
        s = (context or self.context()).wrap_socket(self.raw(door), server_hostname="localhost")
        self.addCleanup(s.close)
        return s

    def https(self, key=None, context=None, door=HTTP):
        address = self.address(door)
        peer = crib.Http(address, key)
        peer.connection = http.client.HTTPSConnection("localhost", address[1], timeout=crib.DEADLINE, context=context or self.context())
        peer.connection._create_connection = lambda _, *more: socket.create_connection(address, *more)
        self.addCleanup(peer.close)
        return peer

    def line(self, key=None, context=None, door=TCP):
        return crib.Line(self.connect(door, context), key)

    def counter(self, name):
        return self.crib.json("status")[0]["counters"][name]

    def log(self):
        return self.crib.log.read_text()

    def pump(self, t, into, out, s, act, step=1 << 16):
        """Drive a TLS object by hand, step bytes at a time."""
        while True:
            try:
                got = act()
            except ssl.SSLWantReadError:
                got = None
            data = out.read()
            for i in range(0, len(data), step):
                s.sendall(data[i:i + step])
            if got is not None:
                return got
            data = s.recv(step)
            into.write(data) if data else into.write_eof()

    def by_hand(self, door):
        into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
        return self.context().wrap_bio(into, out, server_hostname="localhost"), into, out, self.raw(door)

    # --- serving

    def test_a_call_over_each_transport(self):
        for peer in (self.https(self.key), self.line(self.key)):
            peer.initialize()
            self.assertEqual(peer.call("echo", {"text": "hello"})["result"]["content"][0]["text"], "hello")
        big = "x" * 900_000
        for peer in (self.https(self.key), self.line(self.key)):
            self.assertEqual(len(peer.call("echo", {"text": big}, crib.MODERN)["result"]["content"][0]["text"]), len(big))
        status = self.crib.json("status")[0]
        self.assertEqual([row["tls"] for row in status["listeners"][:4]], [True, True, False, False])
        self.assertRegex(status["listeners"][0]["certificateExpires"], r"^\d{4}-\d\d-\d\dT")
        self.assertGreaterEqual(status["counters"]["tls_handshakes"], 4)

    def test_n02_a_name_without_a_port_is_served_on_the_port_of_the_listener(self):
        """As in the example of the manual page; a name that somebody points here is refused, and told as it came."""
        port = self.address(self.NAMED)[1]
        peer = self.https(self.key, door=self.NAMED)
        hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": crib.REVS[-1], "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
        for host in ("crib.example.com", f"crib.example.com:{port}", "Crib.Example.COM:443"):
            self.assertEqual(peer.post(hello, {**peer.headers(), "Host": host})[0], 200, host)
        for host in ("evil.example.com", f"evil.example.com:{port}", f"crib.example.com:{port - 1}", "crib.example.com:80"):
            status, _, text = peer.post(hello, {**peer.headers(), "Host": host})
            self.assertEqual(status, 403)
            self.assertIn(f'the Host "{host}" is not served here', text)
            self.assertIn(f'Host is not served, hosts of this listener would list it listener=127.0.0.1:{port} value=\\"{host}\\"',
                          self.log())

    @scan
    def test_protocols_ciphers_and_alpn(self):
        ok, bad = set(), []
        for version in ("SSLv3", "TLSv1", "TLSv1_1", "TLSv1_2", "TLSv1_3"):
            context = self.context()
            context.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
            try:
                context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
                context.maximum_version = context.minimum_version = getattr(ssl.TLSVersion, version)
                with self.connect(self.HTTP, context) as s:
                    ok.add(s.version())
                    self.assertIsNone(s.compression())
            except (ssl.SSLError, ValueError, OSError):
                bad.append(version)
        self.assertEqual(ok, {"TLSv1.2", "TLSv1.3"})
        self.assertEqual(bad, ["SSLv3", "TLSv1", "TLSv1_1"])
        for cipher in ("AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA256", "ECDHE-ECDSA-AES128-SHA", "DHE-RSA-AES128-GCM-SHA256",
                       "ECDHE-ECDSA-AES128-CCM", "NULL-SHA256", "AECDH-AES128-SHA", "PSK-AES128-GCM-SHA256"):
            context = self.context(maximum_version=ssl.TLSVersion.TLSv1_2)
            context.set_ciphers(f"{cipher}:@SECLEVEL=0")
            with self.subTest(cipher), self.assertRaises((ssl.SSLError, ConnectionError)):
                self.connect(self.HTTP, context).close()
        for asked, got in ((["http/1.1"], "http/1.1"), (["h2", "http/1.1"], "http/1.1"), ([], None), (["h2"], ssl.SSLError)):
            context = self.context()
            if asked:
                context.set_alpn_protocols(asked)
            if got is ssl.SSLError:
                with self.assertRaises(ssl.SSLError):
                    self.connect(self.HTTP, context)
                continue
            with self.connect(self.HTTP, context) as s:
                self.assertEqual(s.selected_alpn_protocol(), got)
        context = self.context()
        context.set_alpn_protocols(["http/1.1"])
        with self.assertRaises(ssl.SSLError):
            self.connect(self.TCP, context)        # a browser that was led here

    def test_only_1_3_where_it_says_so(self):
        with self.assertRaises(ssl.SSLError):
            self.connect(self.NEW, self.context(maximum_version=ssl.TLSVersion.TLSv1_2))
        with self.connect(self.NEW) as s:
            self.assertEqual(s.version(), "TLSv1.3")

    @scan
    def test_neither_tickets_nor_sessions(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.context(maximum_version=version)
            peer = self.https(self.key, context)
            peer.ask("ping")
            session = peer.connection.sock.session
            self.assertFalse(session and session.has_ticket)
            with context.wrap_socket(self.raw(self.HTTP), server_hostname="localhost", session=session) as s:
                self.assertFalse(s.session_reused)

    @scan
    def test_renegotiation_is_refused(self):
        host, port = self.address(self.HTTP)
        s = subprocess.Popen(["openssl", "s_client", "-connect", f"{host}:{port}", "-tls1_2", "-CAfile", self.ca.cert],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        out, _ = s.communicate("R\n", crib.DEADLINE)
        for words in ("RENEGOTIATING", "no renegotiation", "Compression: NONE", "Secure Renegotiation IS supported"):
            self.assertIn(words, out)

    # --- the wrong wire

    @scan
    def test_plain_on_a_tls_port_and_tls_on_a_plain_one(self):
        def plain(door):
            before = self.counter("tls_handshakes_failed")
            with socket.create_connection(self.address(door), crib.DEADLINE) as s:
                s.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n" % self.key.encode())
                self.assertLess(len(s.makefile("rb").read()), 100)
            crib.wait_for("a failed handshake", lambda: self.counter("tls_handshakes_failed") > before)
            return "http request" in self.log()
        for door in (self.HTTP, self.TCP):
            # The log says only so many of a kind in a second.
            crib.wait_for("why it failed", lambda: plain(door))
        for door in (self.PLAIN_HTTP, self.PLAIN_TCP):
            with self.subTest(door), self.assertRaises((ssl.SSLError, ConnectionError)):
                self.connect(door)

    @scan
    def test_garbage_and_silence_count_as_failures_and_harm_nobody(self):
        t, _, out, _ = self.by_hand(self.HTTP)
        with self.assertRaises(ssl.SSLWantReadError):
            t.do_handshake()
        hello = out.read()
        for data in (b"", b"\x16\x03\x01\xff\xff", b"\0" * 100, hello[:40], hello[:-1], hello * 40,
                     hello + b"\x17\x03\x03\x40\x01" + b"x" * 0x4001):
            before = self.counter("tls_handshakes_failed")
            s = self.raw(self.HTTP)
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                self.assertLess(len(s.makefile("rb").read()), 16384)
            except ConnectionError:
                pass
            crib.wait_for("a failed handshake", lambda: self.counter("tls_handshakes_failed") > before)
        self.assertEqual(self.https(self.key).ask("ping")["result"], {})

    @scan
    def test_one_byte_at_a_time(self):
        """Records in pieces, and requests in pieces of records."""
        body = json.dumps(crib.Peer().request("ping"))
        request = (f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
                   f"Authorization: Bearer {self.key}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}").encode()
        s = self.connect()
        for i in range(len(request)):
            s.sendall(request[i:i + 1])
        self.assertTrue(s.makefile("rb").read().startswith(b"HTTP/1.1 200"))
        t, *wire = self.by_hand(self.HTTP)
        wire[-1].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pump(t, *wire, lambda: t.do_handshake() or True, step=1)
        self.pump(t, *wire, lambda: t.write(request), step=1)
        self.assertTrue(self.pump(t, *wire, lambda: t.read(20), step=1).startswith(b"HTTP/1.1 200"))

    # --- the end of a connection

    def test_our_end_is_said(self):
        """Python's strict sockets raise when close_notify is missing."""
        s = self.connect()
        s.sendall(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        got = b""
        while part := s.recv(4096):
            got += part
        self.assertIn(b"404", got)
        self.assertEqual(self.line("tck_wrong").sock.recv(10), b"")

    def test_close_notify_is_the_end_of_lines(self):
        """The last answer still comes: half of a connection is closed."""
        t, *wire = self.by_hand(self.TCP)
        into, out, s = wire
        self.pump(t, *wire, lambda: t.do_handshake() or True)
        lines = [f"Authorization: Bearer {self.key}", json.dumps(crib.Peer().request("tools/list", {}, crib.MODERN, id=7))]
        self.pump(t, *wire, lambda: t.write("".join(line + "\n" for line in lines).encode()))
        before = self.counter("requests")
        with self.assertRaises(ssl.SSLWantReadError):
            t.unwrap()                  # our end is said
        s.sendall(out.read())
        got = b""
        while data := s.recv(1 << 16):
            got += data
        self.assertGreater(len(got), 200, "an answer, and their end")
        self.assertGreaterEqual(self.counter("requests"), before)

    def test_a_request_that_was_cut_off_is_no_request(self):
        body = json.dumps(crib.Peer().request("tools/call", {"name": "echo", "arguments": {"text": "x"}}, crib.MODERN))
        head = (f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMCP-Protocol-Version: {crib.MODERN}\r\n"
                f"Mcp-Method: tools/call\r\nMcp-Name: echo\r\nAccept: application/json, text/event-stream\r\n"
                f"Authorization: Bearer {self.key}\r\n")
        chunk = f"{len(body):x}\r\n{body}\r\n"
        started = self.counter("calls_started")
        for rest in (f"Content-Length: {len(body) + 1}\r\n\r\n{body}", f"Transfer-Encoding: chunked\r\n\r\n{chunk}"):
            cut = self.counter("tls_cut_off")
            s = self.connect()
            s.sendall((head + rest).encode())
            raw = drop(s)
            self.assertLess(len(raw.makefile("rb").read()), 100, "an alert, no answer to half a request")
            raw.close()
            crib.wait_for("a connection that was cut off", lambda: self.counter("tls_cut_off") > cut)
        peer = self.line(self.key)
        cut = self.counter("tls_cut_off")
        peer.raw(body.encode())
        drop(peer.sock).close()
        crib.wait_for("a connection that was cut off", lambda: self.counter("tls_cut_off") > cut)
        self.assertEqual(self.counter("calls_started"), started)

    # --- clients' certificates

    def refused(self, context, door=CERT_HTTP):
        """The handshake fails; with 1.3 the client learns it with its first read."""
        try:
            s = self.connect(door, context)
            s.sendall(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return s.recv(100)
        except (ssl.SSLError, ConnectionError) as e:
            return e

    def test_a_certificate_says_who_it_is(self):
        for name, san, who in (("ci", f"URI:{CI}", "bot"), ("agent", "DNS:agent.example.org", "agent"), ("pinned", None, "pinned"),
                               ("both", f"DNS:x.example.org,URI:{CI}", "bot")):
            context = self.context(self.signed(name, san))
            for peer in (self.https("tck_ignored", context, self.CERT_HTTP), self.line(None, context, self.CERT_TCP)):
                with self.subTest(name, peer=peer):
                    got = peer.call("echo", {"text": who}, crib.MODERN)["result"]["content"][0]["text"]
                    self.assertEqual(got, who)
        with contextlib.closing(sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)) as db:
            said = {row[0] for row in db.execute("SELECT authn FROM rec WHERE authn IS NOT NULL")}
        self.assertIn(3, said, "the records say that it was a certificate")

    def test_the_end_of_a_certificate_ends_what_it_opened(self):
        """SEC S-410.  The clock goes on two days: one certificate is over, another is not."""
        shift = crib.BUILD / "tests/integ/shift.so"
        if not shift.exists():
            self.skipTest("shift.so is not built")
        moved = self.crib.dir / "shift"
        moved.write_text("0")
        env = {"LD_PRELOAD": str(shift), "TOOLCRIB_TEST_SHIFT": str(moved), "ASAN_OPTIONS": "verify_asan_link_order=0"}
        self.crib.stop()
        self.addCleanup(lambda: (self.crib.stop(), self.start()))
        type(self).start(env=env)
        streams, lines = [], []
        for name, san, days in (("brief", f"URI:{CI}", 1), ("lasting", "DNS:agent.example.org", 30)):
            context = self.context(self.signed(name, san, days=days))
            peer = self.https(None, context, self.CERT_HTTP)
            message = peer.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, crib.MODERN)
            peer.connection.request("POST", "/mcp", json.dumps(message), peer.headers(message))
            streams.append(peer.connection.getresponse())
            self.assertIn(b"subscriptions/acknowledged", self.event(streams[-1]))
            lines.append(self.line(None, context, self.CERT_TCP))
            self.assertIn("result", lines[-1].call("echo", {"text": "x"}, crib.MODERN))
        moved.with_suffix(".new").write_text("172800")
        moved.with_suffix(".new").rename(moved)
        self.assertIn(b'"result"', self.event(streams[0]))
        self.assertIsNone(self.event(streams[0]))
        self.assertTrue(lines[0].closed())
        self.assertIn("result", lines[1].call("echo", {"text": "x"}, crib.MODERN))
        self.crib.cli("grant", "remove", "acme", "echo", "--yes")
        self.addCleanup(self.crib.cli, "grant", "add", "acme", "echo")
        self.assertIn(b"tools/list_changed", self.event(streams[1]))

    def event(self, response):
        """The next one's data; None at the end.  Comments that keep a stream open do not count."""
        end = time.monotonic() + crib.DEADLINE
        while line := response.readline():
            if line.startswith(b"data:"):
                return line
            self.assertLess(time.monotonic(), end, "no event")
        return None

    @scan
    def test_who_is_not_in_the_table_stays_outside(self):
        failures = self.counter("auth_failures")
        for name, san, subject in (("wrong", "URI:spiffe://example.org/ci2", None), ("cn", "", r"spiffe:\/\/example.org\/ci"),
                                   ("cn2", "DNS:nobody.example.org", "agent.example.org"), ("star", "DNS:*.example.org", None),
                                   ("mail", "email:agent@agent.example.org", None), ("asdns", "DNS:spiffe://example.org/ci", None),
                                   ("ghost", "DNS:ghost.example.org", None)):
            context = self.context(self.signed(name, san, subject=subject))
            with self.subTest(name):
                peer = self.https(self.key, context, self.CERT_HTTP)
                status, headers, _ = peer.post("{}", peer.headers({}))
                self.assertEqual(status, 401)
                self.assertEqual(self.line(self.key, context, self.CERT_TCP).sock.recv(10), b"")
        self.assertGreaterEqual(self.counter("auth_failures"), failures + 14)

    @scan
    def test_only_our_authority_vouches_for_clients(self):
        stranger = certs.Ca(self.crib.dir, "stranger")
        for name, client in (("none", None), ("expired", self.signed("old", f"URI:{CI}", days=-1)),
                             ("stranger", stranger.sign("fake", f"URI:{CI}", "clientAuth")),
                             ("server's", self.signed("wronguse", f"URI:{CI}", use="serverAuth"))):
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                before = self.counter("tls_handshakes_failed")
                with self.subTest(name, version=version):
                    self.assertIsInstance(self.refused(self.context(client, maximum_version=version)), ssl.SSLError)
                    self.assertGreater(self.counter("tls_handshakes_failed"), before)

    def test_without_a_certificate_a_key_is_due_where_none_is_required(self):
        self.assertEqual(self.line(self.key, None, self.CERT_TCP).ask("tools/list", {}, crib.MODERN)["result"]["tools"][0]["name"], "echo")
        gate = self.https(None, self.context(self.signed("ci", f"URI:{CI}")), self.GATE)
        self.assertEqual(gate.post("{}", gate.headers({}))[0], 401, "a certificate alone says nothing there")
        gate.key = self.key
        self.assertEqual(gate.ask("ping")["result"], {})

    def test_a_principal_that_is_suspended_is_refused_in_the_middle(self):
        context = self.context(self.signed("other", "URI:spiffe://example.org/other"))
        web, line = self.https(None, context, self.CERT_HTTP), self.line(None, context, self.CERT_TCP)
        for peer in (web, line):
            peer.call("echo", {"text": "x"}, crib.MODERN)
        self.crib.cli("tenant", "suspend", "other", "--yes")
        self.assertEqual(web.post("{}", web.headers({}))[0], 401)
        line.send(line.request("tools/list", {}, crib.MODERN))
        got = line.receive()
        self.assertTrue(got is None or "error" in got, got)
        self.crib.cli("tenant", "resume", "other")


    # --- new certificates

    def reload(self, says, times=1):
        self.crib.daemon.send_signal(signal.SIGHUP)
        crib.wait_for(says, lambda: self.log().count(says) >= times)

    def reload_once(self, says):
        self.reload(says, self.log().count(says) + 1)

    def test_a_revoked_certificate_ends_its_handshake(self):
        """A list is read again by SIGHUP; one that is over, or not by our authority, leaves the old one."""
        kept, lost = (self.signed(name, f"URI:{CI}") for name in ("ci", "lost"))
        ask = lambda client: self.https(None, self.context(client), self.CERT_HTTP).ask("ping")["result"]
        self.assertEqual((ask(kept), ask(lost)), ({}, {}))
        self.ca.revoke(lost[0])
        self.reload_once("configuration reloaded")
        for says, spoil in (("", lambda: None), ("was to be replaced by 2020-01-02", lambda: self.ca.revoke(over=True)),
                            ("is not signed by one of client_ca", self.foreign_list),
                            ("there is no list of revoked certificates", lambda: (self.crib.dir / "ca.crl").write_text("x"))):
            with self.subTest(says):
                spoil()
                if says:
                    self.reload_once("configuration not reloaded")
                    self.assertIn(says, self.log())
                self.assertIsInstance(self.refused(self.context(lost)), ssl.SSLError)
                self.assertEqual(ask(kept), {})
        self.assertIn('TLS handshake failed why=\\"certificate revoked\\"', self.log())
        self.ca.revoke()
        path = self.crib.dir / "ca.crl"
        one = path.read_text()
        path.write_text(one * 65)
        self.reload_once("configuration not reloaded")
        self.assertIn("there are more than 64 lists in it", self.log())
        path.write_text(one * 64)
        self.reload_once("configuration reloaded")
        path.write_text(one)
        self.reload_once("configuration reloaded")
        self.assertEqual(ask(lost), {})

    def foreign_list(self):
        stranger = certs.Ca(self.crib.dir, "foreign")
        stranger.revoke()
        shutil.copy(self.crib.dir / "foreign.crl", self.crib.dir / "ca.crl")

    def test_the_end_of_a_certificate_is_announced(self):
        """It lives two days: fewer than the thirty from which on each day says so, and status."""
        self.assertRegex(self.log(), r"certificate expires soon listener=127\.0\.0\.1:\d+ expires=\S+ days=[12]\b")
        end = certs.openssl("x509", "-in", self.crib.dir / "server.crt", "-noout", "-enddate").decode().strip().partition("=")[2]
        self.assertEqual(self.counter("tls_certificate_expires"), ssl.cert_time_to_seconds(end))
        self.assertRegex(self.crib.json("status")[0]["listeners"][0]["warning"], r"^its certificate expires in [12] days$")

    def serial(self, door=HTTP):
        with self.connect(door) as s:
            return s.getpeercert()["serialNumber"]

    @scan
    def test_reload_under_load_fails_no_request(self):
        stop, failed, done = threading.Event(), [], [0, 0]

        def keep():
            peer = self.https(self.key)
            while not stop.is_set():
                if "result" not in peer.call("echo", {"text": "x"}, crib.MODERN):
                    failed.append(peer.status)
                done[0] += 1

        def knock():
            while not stop.is_set():
                try:
                    with self.connect() as s:
                        s.sendall(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                        if b"404" not in s.recv(4096):
                            failed.append("no answer")
                except OSError as e:
                    failed.append(e)
                done[1] += 1
        threads = [threading.Thread(target=keep) for _ in range(2)] + [threading.Thread(target=knock)]
        old, line, taken = self.serial(), self.line(self.key), self.log().count("configuration reloaded")
        seen = {old}
        line.initialize()
        for t in threads:
            t.start()
        for i in range(3):
            self.ca.sign("server", SERVER)
            before = list(done)
            if i:
                self.reload("configuration reloaded", taken + i + 1)
            else:
                self.assertIn("needs a restart: nothing", self.crib.cli("reload"))
            seen.add(self.serial())
            crib.wait_for("both kinds of clients go on", lambda: done[0] > before[0] and done[1] > before[1])
        stop.set()
        for t in threads:
            t.join()
        self.assertEqual(failed, [])
        self.assertEqual(len(seen), 4, "each new certificate is shown")
        self.assertEqual(line.ask("ping")["result"], {}, "a connection from before goes on")

    @scan
    def test_bad_new_files_leave_the_old_ones(self):
        c, old = self.crib, self.serial()
        good = c.config("").read_text()
        for name, cert, key, says in self.bad_files():
            with self.subTest(name):
                self.write(cert=cert, key=key)
                before = self.log().count("everything stays as it was")
                self.reload("everything stays as it was", before + 1)
                self.assertRegex([line for line in self.log().splitlines() if "everything stays as it was" in line][-1], says)
                self.assertEqual(self.serial(), old)
                with self.assertRaisesRegex(crib.Failed, says):
                    c.cli("reload")
        c.config("").write_text(good)
        with contextlib.closing(sqlite3.connect(f"file:{c.store}/toolcrib.db?mode=ro", uri=True)) as db:
            crib.wait_for("a record of each", lambda: db.execute("SELECT count(*) FROM rec WHERE kind = 1604 AND outcome = 2")
                          .fetchone()[0] == self.log().count("everything stays as it was"))
        # What stands in the table of clients is read again as well.
        taken = self.log().count("configuration reloaded")
        context = self.context(self.signed("late", "URI:spiffe://example.org/late"))
        web = self.https(None, context, self.CERT_HTTP)
        self.assertEqual(web.post("{}", web.headers({}))[0], 401)
        c.config("").write_text(good.replace('spiffe://example.org/other"', 'spiffe://example.org/late"'))
        self.reload("configuration reloaded", taken + 1)
        self.assertEqual(web.ask("ping")["result"], {}, "on the same connection")
        c.config("").write_text(good)
        self.reload("configuration reloaded", taken + 2)
        self.assertEqual(web.post("{}", web.headers({}))[0], 401)

    def bad_files(self):
        """(name, certificate, key, what is said)"""
        d = self.crib.dir
        self.ca.sign("gone", SERVER, days=-1)
        self.ca.sign("client_only", SERVER, "clientAuth")
        self.ca.sign("open", SERVER)
        (d / "open.key").chmod(0o644)
        self.ca.sign("locked", SERVER)
        certs.openssl("pkey", "-in", d / "locked.key", "-aes256", "-passout", "pass:secret", "-out", d / "locked2.key")
        (d / "locked2.key").chmod(0o600)
        (d / "empty.crt").write_text("")
        (d / "broken.crt").write_text((d / "open.crt").read_text().replace("M", "?", 3))
        (d / "huge.crt").write_bytes(b"#" * ((1 << 20) + 1))
        (d / "nokey.key").write_text("hello\n")
        (d / "nokey.key").chmod(0o600)
        (d / "hugekey.key").write_bytes(b"#" * (64 << 10))
        (d / "hugekey.key").chmod(0o600)
        return [("expired", "gone", "gone", "expired on"), ("for clients", "client_only", "client_only", "not one for servers"),
                ("not this key", "server", "locked", "does not belong"), ("readable", "open", "open", "others may use .* 644"),
                ("encrypted", "locked", "locked2", "encrypted"), ("missing", "nowhere", "server", "nowhere.crt"),
                ("missing key", "server", "nowhere", "nowhere.key"), ("empty", "empty", "open", "no certificate"),
                ("broken", "broken", "open", "cannot be read"), ("huge", "huge", "open", "1048576|larger|more than"),
                ("no key", "server", "nokey", "no private key"), ("huge key", "server", "hugekey", "less than 65536")]

    @scan
    def test_check_config_says_what_is_wrong(self):
        c = self.crib
        good = c.config("").read_text()

        def check():
            return subprocess.run([crib.BUILD / "toolcribd", "--check-config", "-c", c.config("")], capture_output=True, text=True,
                                  timeout=crib.DEADLINE)
        self.assertEqual(check().returncode, 0)
        for name, cert, key, says in self.bad_files():
            with self.subTest(name):
                self.write(cert=cert, key=key)
                done = check()
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, says)
        for door, says in (("{transport: http, address: \"0.0.0.0:0\"}", "there is no TLS"),
                           ("{transport: unix, address: /tmp/x.sock, tls: {SERVER}}", "needs no TLS"),
                           ("{transport: http, address: \"0.0.0.0:0\", insecure: true, tls: {SERVER}}", "take one of the two out"),
                           ("{transport: http, address: \"127.0.0.1:0\", tls: {cert: a.crt, key: /b}}", "absolute path"),
                           ("{transport: http, address: \"127.0.0.1:0\", tls: {cert: /a}}", "key"),
                           ("{transport: http, address: \"127.0.0.1:0\", tls: {SERVER, min: \"1.1\"}}", "1.2"),
                           ("{transport: http, address: \"127.0.0.1:0\", tls: {SERVER, client_required: true}}", "who vouches"),
                           ("{transport: http, address: \"127.0.0.1:0\", tls: {SERVER, client_crl: DIR/ca.crl}}", "who vouches"),
                           ("{transport: http, address: \"127.0.0.1:0\", tls: {SERVER, clients: [{cn: x, tenant: a}]}}", "cn"),
                           ("{transport: http, address: \"127.0.0.1:0\", tls: {SERVER, client_ca: DIR/ca.crt, clients: [{dns: \"*.x\", tenant: a}]}}",
                            "whole name"),
                           ("{transport: http, address: \"127.0.0.1:0\", tls: {SERVER, client_ca: DIR/ca.crt, clients: [{spki: AA, tenant: a}]}}",
                            "64 hex"),
                           ("{transport: http, address: \"127.0.0.1:0\", tls: {SERVER, client_ca: DIR/ca.crt, clients: [{dns: x}]}}",
                            "tenant is missing"),
                           ("{transport: http, address: \"127.0.0.1:0\", tenant: acme, tls: {SERVER, client_ca: DIR/ca.crt, clients: "
                            "[{dns: x, tenant: a}]}}", "take one of the two out")):
            with self.subTest(door):
                self.write(f"\n- {door}\n")
                done = check()
                self.assertEqual(done.returncode, 1)
                self.assertIn(says, done.stderr)
                self.assertIn("toolcribd.yaml:2:", done.stderr)
        self.write("\n- {transport: http, address: \"0.0.0.0:0\", tls: {SERVER}}\n")
        self.assertEqual(check().returncode, 0, "with TLS any address is fine")
        c.config("").write_text(good)



@unittest.skipUnless(shutil.which("openssl"), "needs openssl(1)")
class Expired(crib.Case):
    """Time alone makes a certificate bad: it takes its listener with it, not those beside it."""

    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "echo")
        self.ca = certs.Ca(c.dir)
        self.ca.sign("server", SERVER, days=-1)

    def write(self, *doors, more=""):
        d = self.crib.dir
        tls = f"tls: {{cert: {d}/server.crt, key: {d}/server.key}}"
        listeners = "\n".join(f'- {{transport: {kind}, address: "127.0.0.1:0", {tls if secure else ""}}}' for kind, secure in doors)
        path = d / "toolcribd.yaml"
        path.write_text(f"listeners:\n{listeners}\n{more.format(d=d)}")
        self.crib.config = lambda extra: path
        return path

    def test_the_others_are_served(self):
        """The refused one says so in the log, in status and by its exit; new files and a reload open it."""
        c = self.crib
        self.write(("http", True), ("http", False), ("tcp", True))
        c.start()
        done = c.run("--json", "status")
        shut, plain, line = json.loads(done.stdout)["listeners"]
        self.assertEqual(done.returncode, 1)
        self.assertIn("expired on", shut["refused"])
        self.assertIn("expired on", line["refused"])
        self.assertNotIn("refused", plain)
        self.assertIn(f"listener {shut['address']}: {c.dir}/server.crt: the certificate of", json.loads(done.stdout)["refused"])
        self.assertRegex(c.log.read_text(), r'"err","event":"listener refused, nobody is served there .*expired on')
        web = crib.Http((plain["address"].rpartition(":")[0], int(plain["address"].rpartition(":")[2])), self.key)
        web.initialize()
        self.assertEqual(web.call("echo", {"text": "hello"})["result"]["content"][0]["text"], "hello")
        web.close()
        address = ("127.0.0.1", int(shut["address"].rpartition(":")[2]))
        context = ssl.create_default_context(cafile=str(self.ca.cert))
        with socket.create_connection(address, crib.DEADLINE) as s, self.assertRaises((OSError, ssl.SSLError)):
            context.wrap_socket(s, server_hostname="localhost")
        self.assertIn("needs a restart: nothing", c.cli("reload"))           # it is still so, and in nobody's way
        self.assertIn("refused", c.json("status")[0]["listeners"][0])
        self.ca.sign("server", SERVER)
        c.cli("reload")
        self.assertEqual(c.run("status").returncode, 0)
        with socket.create_connection(address, crib.DEADLINE) as s, context.wrap_socket(s, server_hostname="localhost") as s:
            self.assertTrue(s.getpeercert())

    def test_the_last_one_ends_the_start_and_so_does_a_check(self):
        c = self.crib
        for words, says in (((), "no listener is left"), (("--check-config",), "expired on")):
            done = subprocess.run([crib.BUILD / "toolcribd", "--store", str(c.store), "-c", self.write(("http", True)), *words],
                                  capture_output=True, text=True, timeout=crib.DEADLINE, env=c.env)
            self.assertEqual(done.returncode, 1)
            self.assertIn(says, done.stderr)

    def test_that_of_commands_from_elsewhere(self):
        c = self.crib
        role = f"{{{{role: operator, name: ci, key: {c.json('admin-key', 'ci')[0]['hash']}}}}}"
        self.write(("http", False), more="admin: {{listen: '127.0.0.1:0', cert: {d}/server.crt, key: {d}/server.key}}\n"
                   f"roles: [{role}]\n")
        c.start()
        rows = json.loads(c.run("--json", "status").stdout)["listeners"]
        self.assertEqual([row["transport"] for row in rows], ["http", "admin"])
        self.assertIn("expired on", rows[1]["refused"])


if __name__ == "__main__":
    crib.main()
