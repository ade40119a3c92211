"""audit proof: a file that shows one call to be in its tenant's log, checked by an independent Python program and by Go's
implementation of transparency logs (AUDIT A-Q05, A-1006)."""
import base64
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

import crib

VERIFIER = crib.SOURCE / "contrib/verify/verify.py"
CHECK_GO = crib.SOURCE / "tests/tlog/check.go"
GO_PATH = pathlib.Path("/usr/share/gocode")
MAKE_GO = {**os.environ, "GO111MODULE": "off", "GOPATH": str(GO_PATH), "GOFLAGS": ""}


def key_text(name, key):
    """A public key as signed notes have it."""
    number = hashlib.sha256(name.encode() + b"\n\1" + key).hexdigest()[:8]
    return f"{name}+{number}+{base64.b64encode(bytes([1]) + key).decode()}"


class Proof(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "echo")
        c.tenant("other", "echo")
        c.start()
        self.peer = c.http(self.key)
        self.addCleanup(self.peer.close)

    def calls(self, n):
        return [self.peer.call("echo", {"text": "x"}, crib.MODERN)["result"]["_meta"]["dev.toolcrib/callId"] for _ in range(n)]

    def prove(self, call, *options):
        def signed():
            done = self.crib.run("audit", "proof", call, *options)
            return done if done.returncode == 0 else None
        path = self.crib.dir / "call.tlog-proof"
        path.write_text(crib.wait_for("a checkpoint that covers the call", signed).stdout)
        return path

    def pin(self):
        """The log's public key under the instance's name, as its signer has it."""
        state = dict(line.split(" ", 1) for line in (self.crib.store / "signer" / "state").read_text().splitlines())
        self.instance, self.public = state["instance"], bytes.fromhex(state["log-key"])
        return key_text(self.instance, self.public)

    def check(self, path, key):
        return subprocess.run([sys.executable, VERIFIER, "--key", key, "--proof", path], capture_output=True, text=True,
                              timeout=crib.DEADLINE)

    def test_a_stranger_can_check_a_proof(self):
        for call in self.calls(3)[1:]:
            for options, kind in (((), 1002), (("--begin",), 1001)):
                path = self.prove(call, *options)
                done = self.check(path, self.pin())
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"log {self.instance}/t/acme\n", done.stdout)
                self.assertIn(f"call {call.replace('-', '')}\n", done.stdout)
                self.assertIn(f"kind {kind}\n", done.stdout)

    def test_a_proof_reaches_over_whole_tiles(self):
        calls = self.calls(400)
        for call in calls[0], calls[130], calls[-1]:
            done = self.check(self.prove(call), self.pin())
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_changed_proof_proves_nothing(self):
        path = self.prove(self.calls(5)[2])
        text, pin = path.read_text(), self.pin()
        lines = text.split("\n")
        record = bytearray(base64.b64decode(lines[1][6:]))
        record[-1] ^= 1
        changed = [
            "\n".join([lines[0], "extra " + base64.b64encode(record).decode(), *lines[2:]]),
            text.replace(lines[2], "index 0", 1), text.replace(lines[3] + "\n", "", 1),
            text.replace(f"\n{self.instance}/t/acme\n", f"\n{self.instance}/t/other\n", 1),
        ]
        for bad in changed:
            self.assertNotEqual(bad, text)
            path.write_text(bad)
            done = self.check(path, pin)
            self.assertEqual(done.returncode, 4, done.stdout)
            self.assertIn("verify.py: ", done.stderr)
        path.write_text(text)
        self.assertEqual(self.check(path, key_text(self.instance, bytes(32))).returncode, 4)
        self.assertEqual(self.check(path, pin).returncode, 0)

    @crib.unittest.skipUnless(shutil.which("go") and (GO_PATH / "src/golang.org/x/mod/sumdb").is_dir(),
                              "needs golang-go and golang-golang-x-mod-dev")
    def test_go_s_transparency_log_takes_the_proof(self):
        calls = self.calls(300)
        program = self.crib.dir / "check"
        subprocess.run(["go", "build", "-o", program, CHECK_GO], check=True, timeout=600,
                       env={**MAKE_GO, "GOCACHE": str(self.crib.dir / "go-cache")})
        for call in calls[0], calls[-1]:
            path = self.prove(call)
            self.pin()
            right = key_text(f"{self.instance}/t/acme", self.public)
            done = subprocess.run([program, right, path], capture_output=True, text=True, timeout=crib.DEADLINE)
            self.assertEqual(done.returncode, 0, done.stderr)
            done = subprocess.run([program, key_text(f"{self.instance}/t/acme", bytes(32)), path], capture_output=True,
                                  text=True, timeout=crib.DEADLINE)
            self.assertEqual(done.returncode, 1, done.stdout)

    def test_what_cannot_be_proved_is_said(self):
        done = self.crib.run("audit", "proof", "nonsense")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no id of a call", done.stderr)
        done = self.crib.run("audit", "proof", "01a1fd98-f89c-711b-bb7a-8a8267c5baed")
        self.assertEqual(done.returncode, 1)
        self.assertIn("not found", done.stderr)
        call = self.calls(1)[0]
        done = self.crib.run("audit", "proof", call, "--tenant", "other")
        self.assertEqual(done.returncode, 1)
        self.assertIn("not found in the log of other", done.stderr)


if __name__ == "__main__":
    crib.main()
