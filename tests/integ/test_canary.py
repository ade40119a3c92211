"""A secret goes through every handler, on every road, and then nothing holds it: no file, log, record, answer, command
line or core (security.md S-901, S-904, audit.md A-G21)."""
import base64
import contextlib
import http.server
import json
import os
import pathlib
import socket
import threading

import crib

CANARY = "c4nary/" + os.urandom(12).hex() + "+\"%\u00e9~end"
RAW = CANARY.encode()


def needles():
    """What must be found nowhere: the value, its middle, and what others make of it."""
    middle = RAW[8:30]
    found = {RAW, middle, middle.hex().encode(), json.dumps(CANARY)[1:-1].encode()}
    for before in (b"", b"x", b"xy"):
        text = base64.b64encode(before + RAW)
        found.add(text[4:28])
        found.add(text[4:28].replace(b"+", b"-").replace(b"/", b"_"))
    return found


NEEDLES = needles()

SAY = """printf '%s\\n' "$K"; printf '%s' "$K" | base64; printf 'user:%s' "$K" | base64 -w0"""
TOOLS = [
    crib.tool_yaml("say", f"""{{type: exec, argv: [/bin/sh, -c, {json.dumps(SAY)}], env: {{K: "{{secret:k}}"}}}}"""),
    crib.tool_yaml("fail", f"""{{type: exec, argv: [/bin/sh, -c, {json.dumps(f"({SAY}) >&2; exit 3")}], env: {{K: "{{secret:k}}"}}}}"""),
    crib.tool_yaml("feed", """{type: exec, argv: [/bin/cat], stdin: "<{secret:k}>"}"""),
    crib.tool_yaml("stream", f"""{{type: exec, output: stream, argv: [/usr/bin/python3, -c, {json.dumps('''
import json, os, sys
k = os.environ["K"]
for line in ({"progress": {"done": 1, "message": k}}, {"log": {"level": "error", "data": {k: [k]}, "logger": k}},
             {"content": {"type": "text", "text": k}}):
    print(json.dumps(line))
print(k, file=sys.stderr)
print(json.dumps({"error": {"code": -32099, "message": "with " + k, "data": {"a": k}}}))
'''.replace("{", "{{").replace("}", "}}"))}], env: {{K: "{{secret:k}}"}}}}"""),
    crib.tool_yaml("slow", """{type: exec, argv: [/bin/sh, -c, 'echo "$$" >"$PIDS"; exec sleep 30'],
  env: {K: "{secret:k}", PIDS: "@DIR@/pid"}, sandbox: {write: ["@DIR@"]}}"""),
]


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with all that it was told."""

    def do_GET(self):
        body = json.dumps({"headers": dict(self.headers), "path": self.path}).encode()
        self.server.seen.append(self.headers.get("Authorization"))
        self.send_response(200 if self.path == "/ok" else 403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Canary(crib.Case):
    def clean(self, data, where):
        data = data.encode() if isinstance(data, str) else data
        for needle in NEEDLES:
            self.assertNotIn(needle, data, f"the canary is in {where}")

    def ready(self):
        c = self.crib.init()
        self.key = c.tenant("acme", "*")
        c.start()
        done = c.run("secret", "set", "k", stdin=CANARY + "\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.said = [done.stdout, done.stderr]
        return c

    def search_everything(self):
        c = self.crib
        for words in (["secret", "list"], ["tool", "list"], ["audit", "calls", "--tenant", "acme"], ["status"],
                      ["tool", "show", "say"], ["export"]):
            done = c.run("--json", *words)
            self.said += [done.stdout, done.stderr]
        backup = c.dir / "backup.db"
        c.cli("backup", backup)
        for text in self.said:
            self.clean(text, "an answer: " + text[:300])
        c.stop()
        files = [path for path in c.dir.rglob("*") if path.is_file()]
        self.assertGreater(len(files), 4)
        for path in files:
            self.clean(path.read_bytes(), path)

    def test_nothing_holds_it_after_all_handlers(self):
        c = self.ready()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
        server.seen = []
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        tools = [text for text in TOOLS if "name: slow" not in text]
        for name, path in (("web", "ok"), ("refused", "no")):
            tools.append(crib.tool_yaml(name, f"""{{type: http, url: "http://127.0.0.1:{server.server_port}/{path}",
  headers: {{Authorization: "Bearer {{secret:k}}"}}, allow: {{private: true}}}}"""))
        tools.append(crib.tool_yaml("rows", """{type: sql, database: "sqlite:@DIR@/none.db", query: "SELECT 1"}""".replace("@DIR@", str(c.dir))))
        for text in tools:
            c.tool(text)
        c.cli("upstream", "add", "up", "--env", "A={secret:k}", "--prefix", "up_", "--command", crib.BUILD.resolve() / "tests/peers/mcp_echo")
        c.cli("upstream", "sync", "up", "--yes")
        peer = c.http(self.key)
        peer.initialize()
        for name in ("say", "fail", "feed", "stream", "web", "refused", "rows", "up_env"):
            got = peer.call(name, {"name": "A"} if name == "up_env" else {}, _meta={"progressToken": "p"})
            self.said += [json.dumps(got), json.dumps(got, ensure_ascii=False)]
            if name != "rows":
                self.assertIn("[secret:k]", json.dumps(got), name)
            done = c.run("call", "acme", name, *(["name=A"] if name == "up_env" else []))
            self.said += [done.stdout, done.stderr]
        self.said += [json.dumps(notice) for notice in peer.notices]
        peer.close()
        self.assertEqual(server.seen[0], "Bearer " + CANARY.encode().decode("latin-1"), "the peer got the value itself")
        path = c.dir / "trial.yaml"
        path.write_text(TOOLS[0])
        done = c.run("tool", "test", path)
        self.assertIn("[secret:k]", done.stdout)
        self.said += [done.stdout, done.stderr]
        done = c.run("upstream", "sync", "up", "--yes")
        self.said += [done.stdout, done.stderr]
        self.search_everything()

    # --- memory

    def spans(self):
        """Of the memory that the server can write to."""
        lines = [line.split() for line in pathlib.Path(f"/proc/{self.crib.daemon.pid}/maps").read_text().splitlines()]
        return [tuple(int(part, 16) for part in line[0].split("-")) for line in lines if line[1].startswith("rw")]

    def memory(self):
        with open(f"/proc/{self.crib.daemon.pid}/mem", "rb", 0) as mem:
            for begin, end in self.spans():
                with contextlib.suppress(OSError):      # it has gone meanwhile
                    mem.seek(begin)
                    yield mem.read(end - begin)

    def forgotten(self, what, value):
        """Its middle is nowhere: the ends of what is freed are overwritten by themselves."""
        middle = value[16:].encode()
        crib.wait_for(f"a memory without {what}", lambda: not any(middle in piece for piece in self.memory()))

    def tell(self, text):
        """As a program does that is not ours; what the server says."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(crib.DEADLINE)
            s.connect(str(self.crib.store / "admin.sock"))
            s.sendall(text.encode())
            return s.recv(65536).decode() if text.endswith("\n") else ""

    def test_memory_keeps_no_value(self):
        """SEC S-344: whether it was taken or not."""
        c = self.crib.init()
        c.start()
        try:
            open(f"/proc/{c.daemon.pid}/mem", "rb").close()
        except PermissionError:
            self.skipTest("only root can look")
        if sum(end - begin for begin, end in self.spans()) > 1 << 30:
            self.skipTest("most of this memory is a sanitizer's")
        fresh = lambda: "c4nary-of-memory-" + os.urandom(16).hex()

        def request(value, name="k", command="secret set", **more):
            return json.dumps({"command": command, "args": {"name": name, "value": value, **more}}) + "\n"
        long = lambda value: value + "x" * 50000 + value
        for what, text, said in (("a value", request, '"done":true'), ("a long value", lambda v: request(long(v)), '"done":true'),
                                 ("one with escapes", lambda v: request("\n\u00e9" + v), '"done":true'),
                                 ("one without a good name", lambda v: request(v, "k!"), '"invalid"'),
                                 ("one that is too long", lambda v: request(long(v) + long(v)), '"limit"'),
                                 ("one in a list", lambda v: request([v]), '"invalid"'),
                                 ("one beside what is not known", lambda v: request(v, extra=1), '"invalid"'),
                                 ("one of no command", lambda v: request(v, command="secret sit"), '"not_found"'),
                                 ("one in no JSON", lambda v: request(v)[:-3] + "\n", '"invalid"'),
                                 ("half a line", lambda v: request(long(v))[:-9], ""),
                                 ("a key to be exchanged", lambda v: request(v, command="key enroll"), '"invalid"')):
            value = fresh()
            self.assertIn(said, self.tell(text(value)), what)
            self.forgotten(what, value)
        value = fresh()
        path = c.dir / "secret.yaml"
        path.write_text(f"kind: secret\nname: k\nvalue: {value}\n")
        self.assertNotEqual(c.run("apply", "-f", path).returncode, 0)
        self.forgotten("one in a file", value)
        self.forgotten("a new key", c.tenant("acme", "*"))

    def test_no_process_shows_it_while_a_call_runs(self):
        c = self.ready()
        work = c.dir / "work"
        work.mkdir()
        c.tool(TOOLS[-1].replace("@DIR@", str(work)))
        call = threading.Thread(target=lambda: self.said.append(c.run("call", "acme", "slow", "--principal", "bot").stdout))
        call.start()
        pid = crib.wait_for("the tool runs", lambda: (work / "pid").exists() and (work / "pid").read_text().strip())
        below = [c.daemon.pid, *crib.below(c.daemon.pid)]
        self.assertGreater(len(below), 1)
        for process in below:
            self.clean(pathlib.Path(f"/proc/{process}/cmdline").read_bytes(), f"the command line of {process}")
        self.assertEqual(pathlib.Path(f"/proc/{c.daemon.pid}/mem").stat().st_uid, 0, "not dumpable: root's, not the user's")
        limits = pathlib.Path(f"/proc/{c.daemon.pid}/limits").read_text()
        self.assertRegex(limits, r"(?m)^Max core file size +0 +0 ")
        os.kill(int(pid), 15)
        call.join()
        c.stop()
        self.assertEqual(list(c.dir.rglob("core*")), [])

    def test_a_crash_leaves_no_core(self):
        c = self.ready()
        c.tool(TOOLS[0])
        c.cli("call", "acme", "say")
        c.stop(6)       # SIGABRT
        for path, data in c.files(c.dir):
            self.clean(data, path)


if __name__ == "__main__":
    crib.main()
