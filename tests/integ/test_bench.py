"""What the benches say is what happened: a load of many tenants gives each its share, a wrong file of keys is refused (SC-905);
the bench of questions has a line for each, with what was counted (SC-902)"""
import json
import os
import re
import subprocess
import sys

import crib
from questions import QUESTIONS, title

META = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
CALL = ("--method", "tools/call", "--params", '{"name":"echo","arguments":{"text":"hello"},%s}' % META, "--expect", "hello")
TENANTS = [f"tenant{i}" for i in range(7)]
ASKED_OF_THE_SERVER = ("audit show", "retention show", "hold list")     # no reporter answers these


class Tokens(crib.Case):
    def load(self, *options, port=1):
        return subprocess.run([str(crib.BUILD / "tests/bench/load"), "--port", str(port), *map(str, options)], capture_output=True,
                              text=True, timeout=crib.DEADLINE * 3)

    def file(self, text):
        path = self.crib.dir / "keys"
        path.write_bytes(text)
        return path

    def refused(self, text, line, why, *options):
        """With what is wrong, and where; nothing was asked."""
        path = self.file(text)
        done = self.load("--tokens", path, *options)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr, f"load: {path}:{line}: {why}\n")

    def run_load(self, requests, *options, port):
        done = self.load(*CALL, "--requests", requests, "--secs", crib.DEADLINE, *options, port=port)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual((said["answers"], said["failures"], said["keys"]), (requests, 0, len(TENANTS)))

    def test_sc905_each_tenant_gets_its_share(self):
        """SC-905: by its records; over HTTP each request has the next key, over lines each connection has one."""
        c = self.crib.init()
        c.tool(crib.ECHO)
        keys = [c.tenant(name, "echo") for name in TENANTS]
        path = self.file("# one a line\n\n".encode() + "\n".join(keys).encode())
        c.start()
        calls = lambda: {name: len(c.json("audit", "calls", "--tenant", name, "--limit", "0")) for name in TENANTS}
        self.run_load(5 * len(TENANTS), "--tokens", path, "--conns", 3, "--depth", 1, port=c.address("http")[1])
        self.assertEqual(calls(), dict.fromkeys(TENANTS, 5))
        self.run_load(2 * len(TENANTS), "--tokens", path, "--conns", 2 * len(TENANTS), "--lines", port=c.address("tcp")[1])
        self.assertEqual(calls(), dict.fromkeys(TENANTS, 7))

    def test_sc905_a_wrong_answer_is_none(self):
        """A key that is not good fails the run, and says what came instead; so does what is not answered in time."""
        c = self.crib.init()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        c.start()
        path = self.file(f"{key}\ntck_0000000000AA_nobody\n".encode())
        done = self.load(*CALL, "--tokens", path, "--conns", 1, "--requests", 4, "--secs", crib.DEADLINE, port=c.address("http")[1])
        self.assertEqual((done.returncode, done.stdout.count('"answers":4')), (1, 1), done.stdout + done.stderr)
        self.assertIn("load: wrong answer: ", done.stderr)
        done = self.load(*CALL, "--key", key, "--conns", 1, "--requests", 4, "--secs", 0, port=c.address("http")[1])
        self.assertEqual((done.returncode, done.stderr), (1, "load: 0 of 4 requests were answered within 0 s\n"))

    def test_sc905_a_wrong_file_is_refused_with_its_line(self):
        word = "a key is one word of printing ASCII, alone on its line"
        self.refused(b"tck_a\ntck_b tck_c\n", 2, f"byte 6 is 0x20: {word}")
        self.refused(b"tck_a\r\n", 1, f"byte 6 is 0x0d: {word}")
        self.refused(b"tck_a\n\0\n", 2, f"byte 1 is 0x00: {word}")
        self.refused("tck_a\ntck_\u00e4\n".encode(), 2, f"byte 5 is 0xc3: {word}")
        self.refused(b"", 1, "the file ends, and there was no key in it")
        self.refused(b"# none\n\n", 3, "the file ends, and there was no key in it")
        self.refused(b"b\na\n#\nb\na\n", 4, "this is the key of line 1 again: it would get two shares")
        for name, why in ((self.crib.dir / "nothing", "No such file or directory"), (self.crib.dir, "Is a directory")):
            done = self.load("--tokens", name)
            self.assertEqual((done.returncode, done.stderr), (1, f"load: {name}: {why}\n"))

    def test_sc905_at_the_bounds_of_a_file(self):
        """4,096 bytes a key, 10,000 keys, a connection for each over lines; one more is refused."""
        def taken(*options):
            done = self.load("--tokens", self.crib.dir / "keys", "--host", "nowhere", *options)
            self.assertEqual((done.returncode, done.stderr.startswith("load: nowhere: ")), (1, True), done.stderr)
        for text in (b"k" * 4096, b"".join(b"key%d\n" % i for i in range(10000))):
            self.file(text)
            taken()
        self.refused(b"x\n" + b"k" * 4097, 2, "a key has at most 4096 bytes")
        self.refused(b"x\n" + b"k" * 1000000, 2, "a key has at most 4096 bytes")
        self.refused(b"".join(b"key%d\n" % i for i in range(10001)), 10001, "a file has at most 10000 keys")
        path = self.file(b"a\nb\n")
        done = self.load("--tokens", path, "--lines", "--conns", 1)
        self.assertEqual((done.returncode, done.stderr), (2, f"load: {path}: with --lines each connection has one key, and 1 "
                                                          "connections leave out some of 2\n"))
        taken("--lines", "--conns", 2)

    def test_sc905_one_key_or_many(self):
        done = self.load("--tokens", self.file(b"a\n"), "--key", "b")
        self.assertEqual((done.returncode, done.stderr.split("\n")[0][:20]), (2, "usage: load --port N"))


class Scale(crib.Case):
    PROGRAMS = ["Q05 audit proof", "Q06, Q41 toolcrib-verify", "Q40 verify.py", "Q42 audit drill"]

    def scale(self, *words):
        return subprocess.run([sys.executable, str(crib.SOURCE / "tests/bench/scale.py"), *words], capture_output=True, text=True,
                              env={**os.environ, "BENCH_WARM": "1"}, timeout=crib.DEADLINE * 20)

    def test_sc902_a_line_for_each_question(self):
        """SC-902: no time is judged; what a reporter answered has steps, bytes that were read, and memory."""
        done = self.scale("600", "--tenants", "2", "--principals", "2", "--tools", "2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        first, *lines, last = done.stdout.splitlines()
        self.assertRegex(first, r"^600 records, \d+ bytes each, made in \d+ s; \d+ cores, load [\d.]+, ")
        self.assertRegex(last, r"^load at the end [\d.]+$")
        cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| Q")]
        self.assertEqual([row[0] for row in cells], [title(question) for question in QUESTIONS] + self.PROGRAMS)
        for name, rows, cold, warm, steps, read, most in cells:
            with self.subTest(name):
                self.assertEqual([bool(re.fullmatch(r"[\d.]+(, [\d.]+)?|–", ms)) for ms in (cold, warm)], [True, True], (cold, warm))
                if name in self.PROGRAMS:
                    self.assertEqual((rows, warm, steps, read), ("–", "–", "–", "–"))
                    self.assertGreater(float(most), 0)
                    continue
                self.assertGreater(int(steps.replace(",", "")), 0)
                self.assertGreater(float(read), 0)
                self.assertTrue(most == "–" if name[4:].startswith(ASKED_OF_THE_SERVER) else float(most) > 0, most)
                self.assertEqual(", " in warm, rows != "0", (rows, warm))

    def test_sc902_what_is_wrong_is_refused(self):
        for words, why in ((["499"], "usage: scale.py RECORDS"), (["many"], "usage: scale.py RECORDS"), ([], "usage: scale.py RECORDS"),
                           (["600", "--tenants", "0"], "b_fill: usage: b_fill STORE")):
            done = self.scale(*words)
            self.assertEqual((done.returncode, done.stdout, done.stderr[:len(why)]), (1, "", why))


class Rooms(crib.Case):
    def test_each_room_has_its_row_beside_echo(self):
        """SP-603: rate, CPU of the server and of what it has started, and the ratio to echo of the same round."""
        done = subprocess.run([sys.executable, str(crib.SOURCE / "tests/bench/rooms.py")], capture_output=True, text=True, timeout=crib.DEADLINE * 6,
                              env={**os.environ, "BENCH_ROUNDS": "2", "BENCH_SECS": "0.3", "BENCH_CONNS": "4", "ROOMS": "sql reused"})
        self.assertEqual(done.returncode, 0, done.stderr)
        said = {row["label"].partition(",")[0]: row for row in map(json.loads, done.stdout.splitlines()) if "median" in row["label"]}
        self.assertEqual(list(said), ["echo", "sql", "exec"])
        for room, row in said.items():
            self.assertGreater(row["per_s"], 0)
            low, high = row["per_s ratios"]
            self.assertLessEqual(low, row["per_s ratio"])
            self.assertLessEqual(row["per_s ratio"], high)
        self.assertEqual(said["echo"]["per_s ratio"], 1)
        self.assertGreater(said["exec"]["beside_us"], 0)


if __name__ == "__main__":
    crib.main()
