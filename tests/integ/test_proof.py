"""audit proof: a file that shows one call to be in its tenant's log, checked by an independent Python program and by Go's
implementation of transparency logs (AUDIT A-Q05, A-1006)."""
import base64
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile

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
        return subprocess.run([*crib.sceptic(), "--key", key, "--proof", path], capture_output=True, text=True,
                              timeout=crib.DEADLINE)

    def bundle(self, *options):
        """A new bundle of acme: what the command said, and what toolcrib-verify makes of it."""
        path = self.crib.dir / "some.tar"
        path.unlink(missing_ok=True)
        row, = self.crib.json("audit", "bundle", "acme", path, *options)
        done = subprocess.run([crib.BUILD / "toolcrib-verify", *crib.evidence(self.crib.store, keys=False), "--bundle", path],
                              capture_output=True, text=True, timeout=crib.DEADLINE)
        return row, done.returncode, done.stdout

    def test_n11_a_bundle_of_a_live_log_ends_at_its_newest_checkpoint(self):
        """N-11: it is whole, whatever was recorded since; with an end that somebody names it says what that means."""
        c = self.crib
        self.calls(2)
        c.cli("audit", "checkpoint")
        signer, = [pid for pid, name in crib.below(c.daemon.pid).items() if name == "toolcrib-sign"]
        self.addCleanup(os.kill, signer, signal.SIGCONT)
        os.kill(signer, signal.SIGSTOP)         # no other checkpoint comes in between
        self.calls(1)
        for options in (), ("--since", "1h"):
            row, status, said = self.bundle(*options)
            self.assertEqual(status, 0, said)
            self.assertIn((row["to"] + 1,), c.rows("SELECT size FROM cp WHERE log = 2"))
            self.assertRegex(row["end"], r"^, to the newest checkpoint; [2-9]\d* behind it are left out$")
        last = c.rows("SELECT max(idx) FROM rec WHERE log = 2")[0][0]
        row, status, said = self.bundle("--to", last)
        self.assertEqual((row["to"], status), (last, 5), said)
        self.assertRegex(row["end"], r"^; no checkpoint covers the last \d+, so it verifies as INCOMPLETE$")
        for options, words in ((("--from", last), f"no checkpoint of acme covers record {last} yet"), (("--to", 99999), "has the records 0 to")):
            done = c.run("audit", "bundle", "acme", c.dir / "x.tar", *options)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)
        self.assertFalse((c.dir / "x.tar").exists())

    @staticmethod
    def other(*words):
        return subprocess.run([crib.BUILD / "toolcrib-verify", *words], capture_output=True, text=True, timeout=crib.DEADLINE)

    def both(self, path, *pins):
        """Exit status and codes that both verifiers give a bundle, which must be the same."""
        said = []
        for program in (crib.sceptic(), (crib.BUILD / "toolcrib-verify",)):
            done = subprocess.run([*program, *pins, "--bundle", path], capture_output=True, text=True, timeout=crib.DEADLINE)
            said.append((done.returncode, set(re.findall(r"(?m)^([A-Z_]+) (?!\d+ records)", done.stdout)), done.stdout[-300:] + done.stderr))
        self.assertEqual(said[0][:2], said[1][:2], said)
        return said[0][:2]

    @staticmethod
    def pack(path, parts):
        """As `tar` would, with a manifest that knows the members."""
        manifest = json.loads(parts["manifest.json"])
        manifest["sha256"] = {name: hashlib.sha256(data).hexdigest() for name, data in parts.items() if name != "manifest.json"}
        parts = {**parts, "manifest.json": json.dumps(manifest).encode()}
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for name, data in parts.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))

    def test_both_verifiers_judge_a_bundle_alike(self):
        c = self.crib
        self.calls(6)
        c.cli("audit", "checkpoint")
        path, pins = c.dir / "some.tar", crib.evidence(c.store, keys=False)
        c.cli("audit", "bundle", "acme", path, "--from", "3", "--to", "7")
        self.assertEqual(self.both(path, *pins), (0, set()), "by the way to the note behind it")
        path.unlink()
        c.cli("audit", "bundle", "acme", path, "--from", "3")
        self.assertEqual(self.both(path, *pins), (0, set()))
        self.assertEqual(self.both(path), (5, {"NOT_CHECKED"}))
        self.assertEqual(self.both(path, "--key", key_text(pins[1].split("+")[0], bytes([9]) * 32)), (4, {"KEYCHAIN"}))
        with tarfile.open(path) as tar:
            parts = {info.name: tar.extractfile(info).read() for info in tar}
        lines = parts["records.jsonl"].splitlines(True)

        def record(change):
            row = json.loads(lines[2])
            change(row)
            return {"records.jsonl": b"".join([*lines[:2], json.dumps(row).encode() + b"\n", *lines[3:]])}

        def flip(row):
            data = bytearray(base64.b64decode(row["bytes"]))
            data[-1] ^= 1
            row["bytes"] = base64.b64encode(data).decode()

        def text(name, before, after):
            self.assertIn(before, parts[name])
            return {name: parts[name].replace(before, after, 1)}
        notes = json.loads(parts["notes.json"])
        for more, codes in (({}, set()), (record(lambda row: row["view"].update(tool="harmless")), {"VIEW"}),
                            (record(lambda row: row.update(note="believe me")), {"VIEW"}),
                            (record(lambda row: row.update(leaf="0" * 64)), {"LEAF"}), (record(flip), None),
                            ({"records.jsonl": b"".join(lines[:-1])}, {"GAP"}), ({"records.jsonl": b"".join([*lines, lines[0]])}, {"PARSE"}),
                            ({"records.jsonl": b"".join([lines[1], lines[0], *lines[2:]])}, None),
                            (text("tree.json", b'"root":"', b'"root":"AA'), {"TILE"}), (text("epochs.json", b'"pk":"', b'"pk":"AA'), {"KEYCHAIN"}),
                            ({"notes.json": json.dumps([{**note, "note": note["note"].replace("\n\n", "\n", 1)} for note in notes]).encode()}, {"PARSE"}),
                            (text("manifest.json", b'"query":"audit', b'"query":"good'), {"PARSE"}),
                            (text("manifest.json", b'"made":"2', b'"made":"x'), {"PARSE"}), ({"records.jsonl": b"".join([b"{}\n", *lines[1:]])}, None),
                            (text("manifest.json", b'"last":"20', b'"last":"19'), {"VIEW"}), ({"notes.json": b"[]"}, {"NOT_CHECKED"})):
            self.pack(path, {**parts, **more})
            status, found = self.both(path, *pins)
            self.assertEqual(status, {frozenset(): 0, frozenset({"NOT_CHECKED"}): 5}.get(frozenset(found), 4), more.keys())
            if codes is not None:
                self.assertEqual(found, codes, (more.keys(), found))
            else:
                self.assertTrue(found)
        data = path.read_bytes()
        path.write_bytes(data + b"x" * 512)
        self.assertEqual(self.both(path, *pins), (4, {"PARSE"}))

    def test_names_in_verify_py_are_those_of_the_server(self):
        text = (crib.SOURCE / "include/audit/audit.h").read_text()
        kinds = {int(number): name for number, name in re.findall(r'X\(\w+, (\d+), "([\w.]+)"\)', text)}
        said = subprocess.run([sys.executable, "-c", "import runpy, json, sys\n"
                               "all = runpy.run_path(sys.argv[1])\nprint(json.dumps([all['KINDS'], all['NAMES']['outcome']]))", VERIFIER],
                              capture_output=True, text=True, check=True, timeout=crib.DEADLINE).stdout
        ours, outcomes = ({int(number): name for number, name in part.items()} for part in json.loads(said))
        self.assertEqual(ours, kinds)
        words = re.search(r"(?s)enum audit_outcome \{.*?(AUDIT_OK.*?)AUDIT_OUTCOME_COUNT", text)[1]
        self.assertEqual(list(outcomes.values()), [word[6:].lower() for word in re.findall(r"AUDIT_\w+", words)])

    def test_a_stranger_can_check_a_proof(self):
        for call in self.calls(3)[1:]:
            for options, kind in (((), 1002), (("--begin",), 1001)):
                path = self.prove(call, *options)
                done = self.check(path, self.pin())
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"log {self.instance}/t/acme\n", done.stdout)
                self.assertIn(f"  call {call}\n", done.stdout)
                self.assertIn(f"  kind {kind} call.{'begin' if options else 'end'}\n", done.stdout)
                self.assertRegex(done.stdout, r"\n  ts \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z\n")
                self.assertIn("  tport 4 http\n" if options else "  outcome 0 ok\n", done.stdout)
                ours = self.other("--key", self.pin(), "--proof", path)
                self.assertEqual((ours.returncode, ours.stdout), (0, done.stdout), "both verifiers say the same")

    def test_what_is_beside_the_columns_is_told_in_words(self):
        """Found.md, friction: proofs were printed raw."""
        with socket.socket() as nobody:         # its port is taken, and refuses
            nobody.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{nobody.getsockname()[1]}/"
            self.crib.tool(crib.tool_yaml("deaf", f'{{type: http, method: POST, url: "{url}", allow: {{private: true}}}}'))
            self.crib.cli("grant", "add", "acme", "deaf")
            call = self.peer.call("deaf", {}, crib.MODERN)["result"]["_meta"]["dev.toolcrib/callId"]
        path = self.prove(call)
        done, ours = self.check(path, self.pin()), self.other("--key", self.pin(), "--proof", path)
        self.assertRegex(done.stdout, r"\n  ext 0113 reason it asked http://127\.0\.0\.1:\d+ at .*: the server cannot be reached\n")
        self.assertEqual((ours.returncode, ours.stdout), (0, done.stdout), "both verifiers say the same")

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
            done = self.other("--key", pin, "--proof", path)
            self.assertEqual((done.returncode, done.stdout), (4, ""))
            self.assertIn("toolcrib-verify: ", done.stderr)
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
