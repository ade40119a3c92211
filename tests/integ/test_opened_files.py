"""Every file that configuration, a document or an option names is a regular file of a sensible size, or is refused at once (HARDENING F-11)"""
import os
import shutil
import signal
import sqlite3
import subprocess

import certs
import crib

SCOPES = "scopes: {tools.use: [\"tools:call\"]}"
ISSUER = "oauth:\n  resource: http://127.0.0.1:1\n  issuers:\n  - {issuer: \"https://login.example.com\", tenant: acme, %s, %s}\n"
ROLES = f'roles: [{{role: admin, name: root, key: "{"0" * 64}"}}]\n'
# Where a file is named for the start: the key of toolcribd.yaml that it is about, the text with @ for the file.
AT_START = {
    "tls.cert": 'more: {transport: http, address: "127.0.0.1:0", tls: {cert: @, key: DIR/server.key}}',
    "tls.key": 'more: {transport: http, address: "127.0.0.1:0", tls: {cert: DIR/server.crt, key: @}}',
    "tls.client_ca": 'more: {transport: tcp, address: "127.0.0.1:0", tls: {cert: DIR/server.crt, key: DIR/server.key, client_ca: @}}',
    "tls.client_crl": 'more: {transport: tcp, address: "127.0.0.1:0", tls: {cert: DIR/server.crt, key: DIR/server.key, '
                      'client_ca: DIR/ca.crt, client_crl: @}}',
    "admin.cert": 'admin: {listen: "127.0.0.1:0", cert: @, key: DIR/server.key}\n' + ROLES,
    "admin.key": 'admin: {listen: "127.0.0.1:0", cert: DIR/server.crt, key: @}\n' + ROLES,
    "oauth.issuers jwks_file": ISSUER % ("jwks_file: @", SCOPES),
}
KINDS = {"fifo": "is no file but a FIFO", "folder": "is no file but a directory", "device": "is no file but a device",
         "large": "is larger than|a key has less than"}


class OpenedFiles(crib.Case):
    def setUp(self):
        super().setUp()
        self.crib.init()
        self.crib.tool(crib.ECHO)
        self.dir = self.crib.dir

    def make(self, kind):
        """A file of this kind, in place of the one before."""
        path = self.dir / "odd"
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        if kind == "fifo":
            os.mkfifo(path, 0o600)
        elif kind == "folder":
            path.mkdir()
        elif kind == "device":
            path.symlink_to("/dev/zero")
        else:
            with open(path, "wb") as f:
                f.truncate(1 << 30)
            path.chmod(0o600)
        return path

    def fails(self, words, want, **more):
        """A program that ends by itself and says why."""
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=crib.DEADLINE, env=self.crib.env,
                              stdin=subprocess.DEVNULL, **more)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout + done.stderr, want)

    def start_fails(self, config, want):
        self.fails([crib.BUILD / "toolcribd", "--store", self.crib.store, "-c", config], want)

    def serve(self, extra=""):
        """A daemon, and somebody who notices when it stands still."""
        self.key = self.crib.tenant("acme", "echo")
        self.crib.start(extra)
        self.peer = self.crib.tcp(self.key)
        self.addCleanup(self.peer.close)
        self.peer.initialize()
        self.alive()

    def alive(self):
        self.assertNotIn("error", self.peer.call("echo", {"text": "x"}))

    def test_f11_what_the_start_reads(self):
        """HARDENING F-11: the start ends at once and says which file is none."""
        certs.Ca(self.dir).sign("server", "DNS:localhost")
        for kind, want in KINDS.items():
            path = self.make(kind)
            with self.subTest(kind=kind, key="toolcribd.yaml"):
                self.start_fails(path, want)
            for key, text in AT_START.items():
                with self.subTest(kind=kind, key=key):
                    text = text.replace("@", str(path)).replace("DIR", str(self.dir))
                    config = self.crib.config("" if text.startswith("more:") else text)
                    if text.startswith("more:"):
                        config.write_text("listeners:\n- " + text[5:].strip() + "\n")
                    self.start_fails(config, want)

    def test_f11_keys_of_the_store(self):
        """HARDENING F-11: the master key and the signer's: a file, and nobody else's."""
        config, store = self.crib.config(), self.crib.store
        self.crib.start()
        self.crib.stop()
        for name in ("master.key", "signer/log.key"):
            kept = self.dir / "kept"
            shutil.move(store / name, kept)
            for kind, want in KINDS.items():
                os.symlink(self.make(kind), store / name)
                with self.subTest(name=name, kind=kind):
                    self.start_fails(config, want)
                os.unlink(store / name)
            shutil.copy(kept, store / name)
            for mode in (0o644, 0o620, 0o602):
                os.chmod(store / name, mode)
                with self.subTest(name=name, mode=oct(mode)):
                    self.start_fails(config, f"others may use it: its mode is {mode:o}")
            os.chmod(store / name, 0o400)
        self.crib.start()

    def test_f11_what_a_reload_reads(self):
        """HARDENING F-11: a file that has become something else freezes nobody; what was in force stays."""
        certs.Ca(self.dir).sign("server", "DNS:localhost")
        self.serve(f'admin: {{listen: "127.0.0.1:0", cert: {self.dir}/server.crt, key: {self.dir}/server.key}}\n' + ROLES)
        for name in ("server.crt", "server.key", "toolcribd.yaml"):
            path, kept = self.dir / name, self.dir / "kept"
            shutil.move(path, kept)
            os.mkfifo(path)
            with self.subTest(name):
                self.crib.daemon.send_signal(signal.SIGHUP)
                crib.wait_for("a word of it", lambda: f"{name} is no file but a FIFO" in self.crib.log.read_text())
                self.alive()
            os.unlink(path)
            shutil.move(kept, path)

    def test_f11_authorities_of_a_tool_and_of_an_upstream(self):
        """HARDENING F-11: ca: is read by us, not by libcurl."""
        for name in KINDS:
            path = self.dir / f"ca-{name}"
            shutil.move(self.make(name), path) if name != "device" else path.symlink_to("/dev/zero")
            self.crib.tool(crib.tool_yaml(name, f"{{type: http, url: 'https://127.0.0.1:9/', ca: {path}, allow: {{private: true}}}}"))
        self.key = self.crib.tenant("acme", "echo", *KINDS)
        self.crib.start()
        self.peer = self.crib.tcp(self.key)
        self.addCleanup(self.peer.close)
        self.peer.initialize()
        for kind, want in KINDS.items():
            with self.subTest(kind):
                said = self.peer.call(kind)["result"]
                self.assertTrue(said["isError"])
                self.assertIn("the file of certificate authorities cannot be read", said["content"][0]["text"])
                self.assertRegex(self.crib.log.read_text(), f"ca-{kind} ({want})")
                self.alive()
        self.crib.run("upstream", "add", "u", "--url", "https://127.0.0.1:9/mcp", "--allow-private", "yes", "--ca", self.dir / "ca-fifo")
        self.alive()

    def test_f11_files_of_an_issuer(self):
        """HARDENING F-11: the secret for asking is a file of ours alone, its authorities are a file."""
        secret = self.make("fifo")
        asks = 'introspection: {uri: "https://127.0.0.1:9/ask", client: us, secret_file: %s}, allow: ["127.0.0.1:9"]'
        self.serve(ISSUER % (asks % secret, SCOPES))
        other = self.dir / "readable"
        other.write_text("s3cret\n")
        other.chmod(0o644)
        for kind, want in (("fifo", "is no file but a FIFO"), ("readable", "others may use it: its mode is 644")):
            with self.subTest(kind):
                if kind == "readable":
                    secret.unlink()
                    shutil.move(other, secret)
                peer = self.crib.http("opaque-token")
                self.addCleanup(peer.close)
                peer.connection.request("POST", "/mcp", b"{}", {"Authorization": f"Bearer opaque-{kind}", "Content-Type": "application/json",
                                                                "Accept": "application/json, text/event-stream"})
                self.assertEqual(peer.connection.getresponse().status, 503)
                crib.wait_for("a word of it", lambda want=want: want in self.crib.log.read_text())
                self.alive()

    def test_f11_databases(self):
        """HARDENING F-11: neither a source of the sql handler nor what SQLite looks for beside it is waited for."""
        good, beside = self.dir / "good.db", self.dir / "beside.db"
        for path in (good, beside):
            db = sqlite3.connect(path)
            db.execute("CREATE TABLE t (n)")
            db.commit()
            db.close()
        os.mkfifo(f"{beside}-journal")
        os.mkfifo(f"{beside}-wal")
        rows = {"fifo": self.make("fifo"), "beside": beside, "good": good}
        for name, path in rows.items():
            self.crib.tool(crib.tool_yaml(name, f"{{type: sql, database: 'sqlite:{path}', query: 'SELECT count(*) AS n FROM t'}}"))
        self.key = self.crib.tenant("acme", "echo", *rows)
        self.crib.start()
        self.peer = self.crib.tcp(self.key)
        self.addCleanup(self.peer.close)
        self.peer.initialize()
        for name in ("fifo", "beside"):
            with self.subTest(name):
                self.assertTrue(self.peer.call(name)["result"]["isError"])
        self.assertFalse(self.peer.call("good")["result"].get("isError"))
        self.assertIn("is no file but a FIFO", self.crib.log.read_text())

    def test_f11_anchors(self):
        """HARDENING F-11: anchor.file is a file that is appended to."""
        self.serve(f"anchor: {{file: {self.make('fifo')}}}")
        crib.wait_for("a word of it", lambda: "odd is no file but a FIFO" in self.crib.log.read_text())
        self.alive()
        self.assertEqual(self.crib.stop(), 0)

    def test_f11_files_of_commands(self):
        """HARDENING F-11: the same for what an administrator's option names, on either side of the socket."""
        self.serve()
        for kind, want in KINDS.items():
            path = self.make(kind)
            for words in (("audit", "verify", "--anchor", path), ("audit", "verify", "--key", path),
                          ("audit", "verify", "--signer-state", path), ("audit", "verify", "--with-bundle", path),
                          ("--remote", "localhost:9", "--ca", path, "--key-file", path, "status")):
                if (kind, words[2]) == ("large", "--with-bundle") or (kind, words[2]) == ("folder", "--signer-state"):
                    continue            # a bundle has any size, and the signer's directory is one
                with self.subTest(kind=kind, words=words):
                    self.fails([crib.BUILD / "toolcrib", "--store", self.crib.path, *words], f"{want}|is no file")
            self.alive()
        folder = self.dir / "documents"
        folder.mkdir()
        os.mkfifo(folder / "tool.yaml")
        self.fails([crib.BUILD / "toolcrib", "--store", self.crib.path, "apply", "-f", folder], KINDS["fifo"])

    def test_f11_a_pipe_of_the_person_at_the_terminal_is_read(self):
        """HARDENING F-11 leaves apply -f <(…) as it was."""
        text = crib.tool_yaml("piped", "{type: builtin, function: echo}")
        done = subprocess.run(["bash", "-c", 'exec "$0" "$@" <(cat)', str(crib.BUILD / "toolcrib"), "--store", str(self.crib.store), "tool", "add"],
                              input=text, capture_output=True, text=True, timeout=crib.DEADLINE, env=self.crib.env)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    crib.main()
