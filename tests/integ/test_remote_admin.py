"""Commands from other machines: over TLS, with keys that have a role, off unless the configuration says so (SEC S-318)."""
import contextlib
import os
import shutil
import socket
import sqlite3
import ssl
import subprocess
import unittest

import certs
import crib


@unittest.skipUnless(shutil.which("openssl"), "needs openssl(1)")
class RemoteAdmin(crib.Case):
    ROLES = {"boss": "admin", "op": "operator", "eye": "auditor", "mine": "tenant-admin, tenant: acme"}

    def setUp(self):
        super().setUp()
        c = self.crib.init()
        self.key = c.tenant("acme")
        c.tenant("other")
        self.ca = certs.Ca(c.dir)
        self.ca.sign("server", "DNS:localhost,IP:127.0.0.1")
        self.files, self.rows = {}, {}
        for name, role in self.ROLES.items():
            self.make(name, role)
        c.start(self.config(self.rows.values()))
        self.address = next(row["address"] for row in c.json("status")[0]["listeners"] if row["transport"] == "admin")

    def make(self, name, role):
        """A key in a file, and its row for the configuration, as admin-key tells it."""
        done = self.crib.run("admin-key", name)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = done.stdout.strip()
        self.files[name] = self.crib.dir / f"{name}.key-file"
        self.files[name].write_text(text + "\n")
        self.files[name].chmod(0o600)
        said = done.stderr[done.stderr.index("{"):].strip()
        self.assertNotIn(text, said)
        self.rows[name] = "- " + said.replace("operator", role)
        return text

    def config(self, rows):
        d = self.crib.dir
        return (f"admin: {{listen: \"127.0.0.1:0\", cert: {d}/server.crt, key: {d}/server.key}}\nroles:\n" + "\n".join(rows) + "\n")

    def remote(self, name, *words, ca=None, address=None, options=None):
        return self.crib.run("--remote", address or self.address, "--ca", ca or self.ca.cert, "--key-file", self.files[name],
                             *(options or []), *words)

    def hello(self, line):
        """The first line of a connection; all that comes back."""
        context = ssl.create_default_context(cafile=str(self.ca.cert))
        host, _, port = self.address.rpartition(":")
        with context.wrap_socket(socket.create_connection((host, int(port)), crib.DEADLINE), server_hostname="localhost") as s:
            s.sendall(line)
            got = b""
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                while part := s.recv(4096):
                    got += part
            return got

    def test_a_key_gives_the_commands_of_its_role(self):
        for name, words, may in (("boss", ("tenant", "add", "new"), True), ("op", ("tenant", "add", "new2"), False),
                                 ("op", ("tenant", "list"), True), ("op", ("reload",), True), ("eye", ("tenant", "list"), True),
                                 ("eye", ("reload",), False), ("mine", ("key", "list", "acme"), True),
                                 ("mine", ("key", "list", "other"), False), ("mine", ("tenant", "list"), False)):
            with self.subTest(name, words=words):
                done = self.remote(name, *words)
                self.assertEqual(done.returncode == 0, may, done.stderr)
                if not may:
                    self.assertIn(f"key {name} has the role", done.stderr)
        self.assertIn("new", self.crib.cli("tenant", "list"))
        done = self.remote("boss", "key", "create", "acme/far")
        self.assertTrue(done.stdout.startswith("tck_"), done.stderr)
        path = self.crib.dir / "tool.yaml"
        path.write_text(crib.ECHO)
        self.assertEqual(self.remote("boss", "tool", "add", path).returncode, 0)
        self.assertIn("key boss", self.crib.cli("--json", "tool", "show", "echo"))

    def test_records_say_which_key_and_from_where(self):
        self.remote("boss", "tenant", "set", "acme", "--title", "A")
        self.remote("eye", "reload")
        with contextlib.closing(sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)) as db:
            def said():
                return db.execute("SELECT count(*) FROM rec WHERE actor = 3 AND authn = 1 AND tport = 2").fetchone()[0] >= 2
            crib.wait_for("records of both", said)
        records = [row for row in self.crib.json("audit", "export") if row.get("transport") == "tcp"]
        self.assertEqual([(row["kind"], row["key"], row["detail"]) for row in records], [
            ("tenant.change", "boss", "key boss: tenant set tenant=acme title=A"),
            ("admin.cmd", "boss", "key boss: tenant set tenant=acme title=A"), ("admin.cmd", "eye", "key eye: reload")])

    def test_a_key_in_the_wrong_place_is_not_recorded(self):
        """AUDIT A-411"""
        text = self.files["op"].read_text().strip()
        self.assertEqual(self.remote("op", "key", "revoke", text, "--yes").returncode, 1)
        said = [row["detail"] for row in self.crib.json("audit", "export") if row.get("transport") == "tcp"]
        self.assertEqual(said, ["key op: key revoke accessor=tca_..."])

    def test_who_has_no_key_learns_nothing(self):
        failures = self.crib.json("status")[0]["counters"]["auth_failures"]
        command = b'{"command":"tenant list","args":{}}\n'
        for line in (b"Authorization: Bearer tca_wrong\n", f"Authorization: Bearer {self.key}\n".encode(), command, b"x" * 300, b"\n"):
            with self.subTest(line):
                self.assertEqual(self.hello(line + command), b"")
        self.assertGreaterEqual(self.crib.json("status")[0]["counters"]["auth_failures"], failures + 5)
        host, _, port = self.address.rpartition(":")
        with socket.create_connection((host, int(port)), crib.DEADLINE) as s:
            s.sendall(b"Authorization: Bearer " + self.files["boss"].read_bytes() + command)
            self.assertNotIn(b"acme", s.makefile("rb").read(), "nothing is said in the clear")

    def test_a_key_that_is_taken_out_ends_with_the_reload(self):
        good = self.crib.dir / "toolcribd.yaml"
        context = ssl.create_default_context(cafile=str(self.ca.cert))
        host, _, port = self.address.rpartition(":")
        with context.wrap_socket(socket.create_connection((host, int(port)), crib.DEADLINE), server_hostname="localhost") as s:
            peer = crib.Line(s)
            peer.raw(b"Authorization: Bearer " + self.files["op"].read_bytes())
            peer.send({"command": "tenant list", "args": {}})
            while "done" not in (got := peer.receive()):
                self.assertIn("row", got)
            good.write_text(good.read_text().replace(self.rows["op"] + "\n", ""))
            self.assertIn("nothing", self.crib.cli("reload"))
            peer.send({"command": "tenant list", "args": {}})
            self.assertIn("no administrator", peer.receive()["error"]["message"], "on a connection that was there")
        self.assertEqual(self.remote("op", "tenant", "list").returncode, 1)
        self.assertEqual(self.remote("boss", "tenant", "list").returncode, 0)

    def test_what_a_key_reads_ends_with_its_role(self):
        good = self.crib.dir / "toolcribd.yaml"
        context = ssl.create_default_context(cafile=str(self.ca.cert))
        host, _, port = self.address.rpartition(":")
        with context.wrap_socket(socket.create_connection((host, int(port)), crib.DEADLINE), server_hostname="localhost") as s:
            peer = crib.Line(s)
            peer.raw(b"Authorization: Bearer " + self.files["eye"].read_bytes())
            peer.send({"command": "audit tail", "args": {"follow": True}})
            self.assertIn("header", peer.receive())
            good.write_text(good.read_text().replace(self.rows["eye"] + "\n", ""))
            self.crib.cli("reload")
            while "error" not in (got := peer.receive()):
                self.assertIn("row", got)
            self.assertIn("key eye is no administrator", got["error"]["message"])

    def test_the_command_checks_the_server_and_its_own_files(self):
        stranger = certs.Ca(self.crib.dir, "stranger")
        port = self.address.rpartition(":")[2]
        with contextlib.suppress(OSError):      # a machine may not know the name
            socket.getaddrinfo("localhost", port)
            self.assertEqual(self.remote("op", "tenant", "list", address=f"localhost:{port}").returncode, 0)
        open_key = self.crib.dir / "open.key-file"
        open_key.write_text(self.files["op"].read_text())
        open_key.chmod(0o644)
        self.files["open"] = open_key
        self.files["missing"] = self.crib.dir / "missing"
        for name, more, says in (("op", {"ca": stranger.cert}, "certificate"), ("op", {"address": f"127.0.0.2:{port}"}, "cannot connect"),
                                 ("open", {}, "chmod 600"), ("missing", {}, "missing"), ("op", {"address": "nonsense"}, "HOST:PORT"),
                                 ("op", {"ca": "/nowhere"}, "/nowhere")):
            with self.subTest(name, more=more):
                done = self.remote(name, "tenant", "list", **more)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(says, done.stderr)
        self.assertIn("not over --remote", self.remote("op", "init").stderr)
        self.assertIn("--key-file", self.crib.run("--remote", self.address, "tenant", "list").stderr)
        self.ca.sign("server", "DNS:elsewhere.example.org")
        self.crib.cli("reload")
        self.assertIn("mismatch", self.remote("op", "tenant", "list").stderr)
        self.ca.sign("server", "", subject="localhost")
        self.crib.cli("reload")
        with contextlib.suppress(OSError):
            socket.getaddrinfo("localhost", port)
            self.assertIn("mismatch", self.remote("op", "tenant", "list", address=f"localhost:{port}").stderr, "a CN is no name")

    def dial(self, line=None):
        """A connection that stays; with a line, what is answered to it."""
        host, _, port = self.address.rpartition(":")
        s = ssl.create_default_context(cafile=str(self.ca.cert)).wrap_socket(
            socket.create_connection((host, int(port)), crib.DEADLINE), server_hostname="localhost")
        self.addCleanup(s.close)
        if line:
            s.sendall(line)
            return s.recv(4096).decode()
        return None

    def test_one_key_cannot_hold_all_connections(self):
        """SEC S-801: 16 of a key; another one, and the next command of this one later, are served."""
        line = f"Authorization: Bearer {self.files['op'].read_text().strip()}\n{{}}\n".encode()
        for _ in range(16):
            self.assertIn('"invalid"', self.dial(line))
        self.assertIn("key op has 16 connections for commands, which is the limit", self.dial(line))
        self.assertIn("key op has 16 connections", self.remote("op", "tenant", "list").stderr)
        self.assertEqual(self.remote("boss", "tenant", "list").returncode, 0)

    def test_who_has_shown_no_key_cannot_hold_all_connections(self):
        host, _, port = self.address.rpartition(":")
        silent = []

        def crowd():
            """Each is let go after 5 s: 17 at once are more than one source may have, however slow the server is."""
            silent.extend(socket.create_connection((host, int(port)), crib.DEADLINE) for _ in range(17))
            return self.crib.json("status")[0]["counters"]["admin_connections_refused"] > 0

        crib.wait_for("one is refused", crowd)
        for s in silent:
            s.close()
        crib.wait_for("places are free again", lambda: self.remote("boss", "tenant", "list").returncode == 0)

    @unittest.skipUnless(os.environ.get("TOOLCRIB_TLS_SCAN"), "make check-long")
    def test_who_is_slow_is_sent_away(self):
        """With the key, and with the handshake before it: 5 s each."""
        host, _, port = self.address.rpartition(":")
        context = ssl.create_default_context(cafile=str(self.ca.cert))
        with (context.wrap_socket(socket.create_connection((host, int(port)), crib.DEADLINE), server_hostname="localhost") as late,
              socket.create_connection((host, int(port)), crib.DEADLINE) as silent):
            self.assertEqual(late.recv(10), b"")
            self.assertEqual(silent.recv(10), b"")
        counters = self.crib.json("status")[0]["counters"]
        self.assertGreaterEqual(counters["auth_failures"], 1)
        self.assertGreaterEqual(counters["tls_handshakes_failed"], 1)

    def test_the_configuration_is_whole_or_refused(self):
        d = self.crib.dir
        for text, says in (("admin: {listen: '127.0.0.1:0'}", "admin.cert"), (f"admin: {{cert: {d}/server.crt}}", "admin.listen"),
                           (f"admin: {{listen: '127.0.0.1:0', cert: {d}/server.crt, key: {d}/server.key}}", "no role has a key"),
                           (f"admin: {{listen: 'localhost:1', cert: {d}/server.crt, key: {d}/server.key}}", "no address"),
                           ("roles: [{role: operator, key: tca_x, name: a}]", "64 hex digits"),
                           (f"roles: [{{role: operator, key: {'a' * 64}}}]", "name"),
                           (f"roles: [{{role: operator, key: {'a' * 64}, name: {'n' * 33}}}]", "at most 32"),
                           (f"roles: [{{role: operator, key: {'a' * 64}, name: a, uid: 1}}]", "one of")):
            with self.subTest(text):
                path = d / "bad.yaml"
                path.write_text(text + "\n")
                done = subprocess.run([crib.BUILD / "toolcribd", "--check-config", "-c", path], capture_output=True, text=True)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(says, done.stderr)


if __name__ == "__main__":
    crib.main()
