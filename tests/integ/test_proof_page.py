"""verify.mjs and the page around it: proofs, openings and growth checked where JavaScript runs, in Node and in Chromium, with the verdicts of
verify.py and toolcrib-verify (CONSOLE C-701 to C-706).  TOOLCRIB_PROOFS: of so many calls (60)."""
import base64
import contextlib
import hashlib
import importlib.util
import io
import json
import os
import random
import re
import shutil
import subprocess
import unittest

import crib
import test_console
import test_console_browser
import test_proof

PROOFS = int(os.environ.get("TOOLCRIB_PROOFS", "60"))
MODULE = crib.SOURCE / "contrib/verify/verify.mjs"
NODE = shutil.which("node")
L = 2 ** 252 + 27742317777372353535851937790883648493


def sceptic():
    """verify.py, in this process."""
    spec = importlib.util.spec_from_file_location("verify", crib.SOURCE / "contrib/verify/verify.py")
    verify = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(verify)
    return verify


class Case(crib.Case):
    """A store, proofs of its records, keys to pin."""

    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "echo")
        c.start(f"roles: [{{role: auditor, uid: {os.geteuid()}}}]\n")        # who opens payloads
        self.verify = sceptic()
        self.keys = "\n".join(word for word in c.cli("audit", "keys").split() if word.count("+") >= 2) + "\n"

    def calls(self, n):
        peer = self.crib.tcp(self.key)
        self.addCleanup(peer.close)
        texts = ["x", "it's", '"both" \'quotes\'', "back\\slash", "\u20ac \U0001f600 \x7f\u202e", "y" * 300]
        return [peer.call("echo", {"text": texts[i % len(texts)]}, crib.MODERN)["result"]["_meta"]["dev.toolcrib/callId"] for i in range(n)]

    def proofs(self, calls):
        self.crib.cli("audit", "checkpoint")
        found = []
        for i, call in enumerate(calls):
            row, = self.crib.ask("audit proof", call=call, **({"begin": True} if i % 2 else {}))
            found.append(row["proof"])
        return found

    def opening(self, call):
        return "".join(json.dumps(row) + "\n" for row in self.crib.json("audit", "payload", call, "--opening"))

    def note(self, proof):
        return proof.partition("\n\n")[2]

    def theirs(self, proof, opening=None, keys=None, old=None):
        """verify.py: status, and what it prints where it proves."""
        v, folder = self.verify, self.crib.dir
        (folder / "proof").write_bytes(proof.encode("utf-8", "surrogatepass"))
        said = io.StringIO()
        try:
            pinned = v.parse_keys(keys or self.keys)
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
                if old is not None:
                    (folder / "old").write_text(old)
                    return v.prove_growth(folder / "proof", folder / "old", pinned), said.getvalue()
                if opening is not None:
                    (folder / "opening").write_text(opening)
                return v.prove(folder / "proof", opening and folder / "opening", pinned), said.getvalue()
        except (ValueError, v.struct.error):
            return 4, ""

    def ours(self, proof):
        """toolcrib-verify's status."""
        (self.crib.dir / "proof").write_bytes(proof.encode())
        (self.crib.dir / "keys").write_text(self.keys)
        return subprocess.run([crib.BUILD / "toolcrib-verify", "--key", self.crib.dir / "keys", "--proof", self.crib.dir / "proof"],
                              capture_output=True, timeout=crib.DEADLINE).returncode

    def altered(self, proof, n):
        """One character changed, or one taken away, or a line twice: somewhere, and in each line at least once."""
        dice, lines = random.Random(7), proof.split("\n")
        starts = [sum(len(line) + 1 for line in lines[:i]) for i in range(len(lines) - 1)]
        for i in range(n):
            at = starts[i] if i < len(starts) else dice.randrange(len(proof))
            kind = dice.randrange(4)
            if kind == 0:
                yield proof[:at] + proof[at + 1:]
            elif kind == 1:
                end = proof.find("\n", at) + 1
                yield proof[:end] + proof[proof.rfind("\n", 0, at) + 1:end] + proof[end:]
            else:
                yield proof[:at] + dice.choice([c for c in "A9z+ \n\t\x01\u2014" if c != proof[at]]) + proof[at + 1:]


@unittest.skipUnless(NODE, "needs node 20 or later")
class Node(Case):
    def said(self, *asked):
        """verify.mjs, of each {proof, ...}."""
        lines = "".join(json.dumps({"keys": self.keys, **one}) + "\n" for one in asked)
        done = subprocess.run([NODE, crib.SOURCE / "tests/integ/proofs.mjs", MODULE.resolve()], input=lines, capture_output=True, text=True,
                              timeout=10 * crib.DEADLINE)
        self.assertEqual(done.stderr, "")
        return [(row["status"], row["text"]) for row in map(json.loads, done.stdout.splitlines())]

    def test_what_is_proved_reads_as_verify_py_has_it(self):
        proofs = self.proofs(self.calls(PROOFS))
        got = self.said(*({"proof": proof} for proof in proofs))
        self.assertEqual(got, [self.theirs(proof) for proof in proofs])
        self.assertEqual({status for status, _ in got}, {0})
        (status, text), = self.said({"proof": proofs[0], "keys": test_proof.key_text("elsewhere", bytes(range(32))) + "\n"})
        self.assertEqual((status, text), (4, f"the checkpoint of {self.note(proofs[0]).split(chr(10))[0]} is not signed by a key that you gave"))

    def test_one_altered_character_is_refused(self):
        """As both other verifiers refuse it."""
        proof = self.proofs(self.calls(9))[4]
        altered = [bad for bad in self.altered(proof, PROOFS) if bad != proof]
        for bad, (status, text) in zip(altered, self.said(*({"proof": bad} for bad in altered)), strict=True):
            with self.subTest(bad=bad, text=text):
                self.assertEqual(status, self.ours(bad))
                self.assertTrue(text)
                # a signature of another key than those that it has may be anything
                if not bad.startswith(proof[:proof.rindex("\u2014")]):
                    self.assertEqual((status, self.theirs(bad)[0]), (4, 4))

    def test_openings(self):
        calls = self.calls(6)
        self.crib.cli("audit", "checkpoint")
        for call in calls:
            proof, opening = self.crib.ask("audit proof", call=call, begin=True)[0]["proof"], self.opening(call)
            line = next(line for line in opening.splitlines() if '"arguments"' in line)
            row = json.loads(line)
            other = json.dumps({**row, "value": row["value"] + " "}) + "\n"
            twice = line[:-1] + f', "index": {row["index"]}}}\n'
            asked = [opening, other, twice, "[]\n", "[" * 70 + "]" * 70 + "\n", "{\n", opening.replace('"index": ', '"index": 1'),
                     json.dumps({**row, "opening": row["opening"][:-1]}) + "\n", json.dumps({**row, "value": "\ud800"}) + "\n"]
            got = self.said(*({"proof": proof, "opening": one} for one in asked))
            self.assertEqual([(status, text if status == 0 else "") for status, text in got if status != 5],
                             [(status, text if status == 0 else "") for status, text in (self.theirs(proof, one) for one in asked) if status != 5])
            self.assertEqual([status for status, _ in got], [0, 4, 4, 4, 4, 4, 5, 4, 4])
            self.assertIn("OPENED arguments: ", got[0][1])

    def test_a_log_that_grew(self):
        self.calls(5)
        olds, log = [], self.crib
        for n in (1, 4, 9):
            self.calls(n)
            olds.append(self.note(self.proofs(self.calls(1))[0]))
        sizes = [int(old.split("\n")[1]) for old in olds]
        proofs = [log.json("audit", "consistency", "--tenant", "acme", "--from", size)[0]["proof"] for size in sizes]
        asked = [(proof, old) for proof in proofs for old in olds]
        asked += [(bad, olds[0]) for bad in self.altered(proofs[0], 40) if bad != proofs[0]]
        fork = olds[0].split("\n")
        fork[2] = base64.b64encode(bytes(32)).decode()
        asked.append((proofs[0], "\n".join(fork)))
        got = self.said(*({"proof": proof, "old": old} for proof, old in asked))
        for (proof, old), (status, text) in zip(asked, got, strict=True):
            with self.subTest(proof=proof, old=old, text=text):
                if status == 0:
                    self.assertEqual((status, text), self.theirs(proof, old=old))
                elif proof in proofs or not proof.startswith(proofs[0][:proofs[0].rindex("\u2014")]):
                    self.assertEqual((status, self.theirs(proof, old=old)[0]), (4, 4))
        self.assertEqual([status for status, _ in got[:9]], [0, 4, 4, 4, 0, 4, 4, 4, 0])

    def test_keys_that_anybody_could_sign_with(self):
        """CONSOLE C-706: points of small order and numbers beyond the order are refused, whatever WebCrypto says of them; verify.py too."""
        v = self.verify
        identity, body = bytes([1]) + bytes(31), None
        for public in (identity, bytes(32), bytes([0xec]) + b"\xff" * 30 + b"\x7f", bytes([0xed]) + b"\xff" * 30 + b"\x7f",
                       bytes([1]) + bytes(30) + b"\x80", bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
                       bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa")):
            record = b"TCAR\1" + v.struct.pack(">HIQ", 0x21, 8, 1001)
            root = base64.b64encode(v.leaf_hash(record)).decode()
            body = f"small.order\n1\n{root}\n"
            name = test_proof.key_text("small.order", public)
            for r, s in ((identity, bytes(32)), (public, bytes(32)), (identity, L.to_bytes(32, "little"))):
                sig = base64.b64encode(v.key_id("small.order", public) + r + s).decode()
                proof = f"c2sp.org/tlog-proof@v1\nextra {base64.b64encode(record).decode()}\nindex 0\n\n{body}\n\u2014 small.order {sig}\n"
                self.assertEqual([status for status, _ in self.said({"proof": proof, "keys": name + "\n"})], [4])
                self.assertEqual(self.theirs(proof, keys=name + "\n")[0], 4)

    def test_a_signature_with_s_beyond_the_order_is_refused(self):
        proof = self.proofs(self.calls(3))[0]
        signer = self.note(proof).split("\n")[0]
        lines = [one for one in self.note(proof).split("\n") if one.startswith(f"\u2014 {signer} ")]
        data = base64.b64decode(lines[0].split(" ")[2])
        other = base64.b64encode(data[:36] + (int.from_bytes(data[36:], "little") + L).to_bytes(32, "little")).decode()
        bad = proof.replace(lines[0].split(" ")[2], other)
        self.assertEqual([status for status, _ in self.said({"proof": proof}, {"proof": bad})], [0, 4])
        self.assertEqual(self.theirs(bad)[0], 4)

    def test_its_words_are_those_of_verify_py(self):
        text = MODULE.read_text()
        self.assertEqual(dict(zip(*[iter(re.search(r"kind: words\(`(.*?)`", text, re.S)[1].split())] * 2)), {str(k): name for k, name in self.verify.KINDS.items()})
        for name, (tag, form, *_) in self.verify.COLUMNS.items():
            self.assertIn(f'{name}: [0x{tag:02x}, "{form}"]', text)
        for ctag, name in self.verify.CTAGS.items():
            self.assertIn(f'{ctag}: "{name}"', text)
        for tag, name in self.verify.TEXTS.items():
            self.assertIn(f'0x{tag:03x}: "{name}"', text)


@unittest.skipUnless(test_console_browser.PROGRAM, "needs Chromium: apt-get install chromium")
class Page(Case):
    def check(self, b, **fields):
        """What the page says: class of the verdict, its title, its lines."""
        for name, text in fields.items():
            b.value(f"document.getElementById('{name}').value = {json.dumps(text)}")
        b.value("document.getElementById('verdict').replaceChildren(); document.getElementById('verdict').className = ''; document.getElementById('check').click()")
        b.arrive("a verdict", "document.getElementById('verdict').className !== ''")
        return b.value("[document.getElementById('verdict').className, document.querySelector('#verdict h2').textContent, "
                       "[...document.querySelectorAll('#verdict li')].map(li => li.textContent), "
                       "[...document.querySelectorAll('#verdict tr')].map(tr => '  ' + tr.cells[0].textContent + ' ' + tr.cells[1].textContent + '\\n').join('')]")

    def test_the_page_from_a_file(self):
        """It works without a network and without a server, and says what verify.py says."""
        c = self.crib
        page = c.dir / "verify.html"
        done = c.run("console", "verifier")
        self.assertEqual(done.returncode, 0, done.stderr)
        page.write_text(done.stdout)
        self.assertIn(hashlib.sha256(page.read_bytes()).hexdigest(), done.stderr)
        calls = self.calls(PROOFS)
        proofs = self.proofs(calls)
        c.stop()
        b = test_console_browser.Browser(c.dir / "profile")
        self.addCleanup(b.close)
        b.ask("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1)
        b.go(page.as_uri(), "Check a proof")
        self.assertEqual(self.check(b, proof=proofs[0])[:2], ["bad", "REFUSED"], "no key yet")
        for proof in proofs:
            kind, title, lines, rows = self.check(b, keys=self.keys, proof=proof)
            self.assertEqual((kind, f"{title}\n{rows}"), ("good", self.theirs(proof)[1]))
        # an attacker's arguments are a text
        for bad in self.altered(proofs[1], 30):
            if bad != proofs[1]:
                self.assertEqual(self.check(b, proof=bad)[:2], ["bad", "REFUSED"], bad)
        # what it keeps, and a second log of the same name
        b.value("document.getElementById('keep').click()")
        self.assertIn("first checkpoint", self.check(b, proof=proofs[0])[2][-1])
        b.go("about:blank", "")
        b.go(page.as_uri(), "Check a proof")
        self.assertEqual(b.value("document.getElementById('keys').value"), self.keys)
        b.value("{ const k = 'toolcrib.verify/1', was = JSON.parse(localStorage.getItem(k)); for (const one of Object.values(was.seen)) one[1] = 'x'; "
                "localStorage.setItem(k, JSON.stringify(was)) }")
        kind, title, lines, _ = self.check(b, proof=proofs[0])
        self.assertEqual((kind, title), ("bad", "REFUSED"))
        self.assertIn("somebody shows two logs", lines[0])
        for width in (320, 1280):
            b.ask("Emulation.setDeviceMetricsOverride", width=width, height=640, deviceScaleFactor=1, mobile=False)
            self.assertLessEqual(b.value("document.documentElement.scrollWidth"), width)
        asked = [e["params"]["request"]["url"] for e in b.events if e.get("method") == "Network.requestWillBeSent"]
        self.assertEqual({url.partition(":")[0] for url in asked} - {"about", "data"}, {"file"})
        self.assertEqual([e for e in b.events if "Content Security Policy" in json.dumps(e) or e.get("method") == "Runtime.exceptionThrown"], [])


class Served(test_console.Case):
    """The console has the page for everybody, and a call's proof for it."""

    def test_the_page_is_there_for_everybody_and_runs_its_own_script_alone(self):
        self.serve()
        status, headers, text = self.ask("GET", "/verify")
        self.assertEqual((status, headers["Cache-Control"], headers["X-Content-Type-Options"]), (200, "no-store", "nosniff"))
        self.assertEqual(headers["Content-Security-Policy"], "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
                         "require-trusted-types-for 'script'; trusted-types 'none'")
        policy = re.search('<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)[1]
        script = re.search('<script type="module">(.*?)</script>', text, re.S)[1]
        for word in ("default-src 'none'", "connect-src 'self'", f"script-src 'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"):
            self.assertIn(word, policy.split("; "))
        self.assertEqual(text.replace("connect-src 'self'", "connect-src 'none'"), self.crib.run("console", "verifier").stdout)

    def test_who_gets_a_proof(self):
        c = self.serve()
        self.call()
        c.cli("audit", "checkpoint")
        call = c.json("audit", "calls", "--tenant", "acme")[0]["call"]
        path = f"/t/acme/call/{call}/proof"
        self.assertEqual(self.ask("GET", path)[0], 403)
        status, headers, text = self.ask("GET", path, visit=self.visit())
        self.assertEqual((status, headers["Content-Type"], headers["Cache-Control"]), (200, "text/plain; charset=utf-8", "no-store"))
        self.assertTrue(text.startswith("c2sp.org/tlog-proof@v1\nextra "))
        for other in (path.replace("acme", "other"), path.replace(call[:4], "0000")):
            self.assertEqual(self.ask("GET", other, visit=self.visit())[0], 404, other)
        self.assertEqual(len([row for row in c.json("audit", "access", "--tenant", "acme") if "proof" in row["detail"]]), 1)

    @unittest.skipUnless(test_console_browser.PROGRAM, "needs Chromium: apt-get install chromium")
    def test_from_a_call_to_its_proof(self):
        c = self.serve()
        self.call(3)
        c.cli("audit", "checkpoint")
        keys = "\n".join(word for word in c.cli("audit", "keys").split() if word.count("+") >= 2)
        b = test_console_browser.Browser(c.dir / "profile")
        self.addCleanup(b.close)
        origin = f"http://{self.host}"
        b.go(f"{origin}/enter?t={self.link()}", "Sign in")
        b.value("document.querySelector('main button').click()")
        b.arrive("the first page", "location.pathname === '/' && document.title.startsWith('Console')")
        b.go(f"{origin}/t/acme/r/calls", "Calls of acme")
        b.value("[...document.querySelectorAll('td a')].find(a => a.pathname.startsWith('/t/acme/call/')).click()")
        b.arrive("the call", "document.title.startsWith('Call ')")
        call = b.value("location.pathname").split("/")[-1]
        b.value("document.querySelector('a[href^=\"/verify#\"]').click()")
        b.arrive("its proof", "location.pathname === '/verify' && document.getElementById('proof').value !== ''")
        b.value(f"document.getElementById('keys').value = {json.dumps(keys)}; document.getElementById('check').click()")
        b.arrive("a verdict", "document.getElementById('verdict').className !== ''")
        self.assertEqual(b.value("document.getElementById('verdict').className"), "good")
        self.assertIn(call, b.value("document.getElementById('verdict').textContent"))
        # an address that somebody made names nothing else
        for bad in ("//evil.example/t/acme/call/00/proof", "/t/acme/r/calls", "https://evil.example/x"):
            b.value("document.getElementById('proof').value = ''")
            b.value(f"location.hash = {json.dumps('#' + bad)}")
        asked = [e["params"]["request"]["url"] for e in b.events if e.get("method") == "Network.requestWillBeSent"]
        self.assertEqual([url for url in asked if not url.startswith((origin + "/", "about:", "data:")) or "proof" in url and call not in url], [])
        self.assertEqual([e for e in b.events if "Content Security Policy" in json.dumps(e) or e.get("method") == "Runtime.exceptionThrown"], [])


if __name__ == "__main__":
    crib.main()
