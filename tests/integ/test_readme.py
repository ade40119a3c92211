"""README, typed: the commands of its blocks in the order in which they stand, by one shell, in the demo that quickstart makes
with the programs that are built; then the blocks marked sh of the pages that README leads to.

What is not typed here stands in a list below with the reason, and the lists have no line too many."""
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import threading

import crib

BLOCK = re.compile(r"(?ms)^```(\w*)\n(.*?)^```$")
PAGES = {name: crib.SOURCE / path for name, path in {
    "README": "README", "hosting": "contrib/doc/hosting.md", "serving": "contrib/doc/serving.md", "reviewing": "contrib/doc/reviewing.md"}.items()}

# Blocks by heading, and why make check does not type them.
NPM = "needs npm: make check-clients types it"
ENTRY = "an entry for hosts: make check-clients gives it to clients, test_readme.py reads it as quickstart prints it"
NOT_TYPED = {
    "Install": "changes the machine: make check-fresh types it",
    "Claude Code": "needs Claude Code: test_readme.py reads it as quickstart prints it",
    "VS Code": ENTRY,
    "Cursor": ENTRY,
    "Hosts that start a program": ENTRY,
    "MCP Inspector": NPM,
    "TypeScript SDK": NPM,
    "Python SDK": "needs pip: make check-clients types it where the SDK is there",
    "An MCP server": NPM,
}
# What stands in blocks that are typed, and what is typed instead.
OTHERWISE = {
    "python3 -m http.server 8000 --bind 127.0.0.1 2>/dev/null &": "",           # this test has a server, on any port
    "toolcrib audit tail -f": "toolcrib audit tail",                            # it would not end
}
# Left out where the program is not there.
NEEDS = {"A Python function": "/usr/bin/python3", "A Node function": "/usr/bin/node"}
# What each heading's block must say.
SAYS = {
    "Start": r'(?s)"temperature":7\.4.*"result":\{"content":.*get_weather .*ok.*\n.*get_weather .*ok',
    "Connect your host": r"^",
    "A Python function": r'"loud": "HELLO!!!"',
    "A Node function": r'"slug":"tools-and-cribs"',
    "A shell script": r"(?m)^3$",
    "A REST API": r'(?s)"shipped".*version 1 stored.*"shipped"',
    "A SQL query": r"claw hammer",
    "Who called what": r"(?s)find_products .*call\.begin.*call\.end.*[0-9a-f]{64}.*INTACT",
}


def blocks(page, language=""):
    """The heading and the text of each block of a page."""
    heading = None
    for part in re.split(r"(?m)^(?=##)", PAGES[page].read_text()):
        heading = re.match(r"#+ (.*)", part).group(1)
        for marked, text in BLOCK.findall(part):
            if marked == language or language is None:
                yield heading, text


def otherwise(text):
    for words, instead in OTHERWISE.items():
        text = text.replace(words, instead)
    return text


class Api(http.server.BaseHTTPRequestHandler):
    """What the recipe of a REST API asks; it keeps what was said of authorization."""
    heard = []

    def do_GET(self):
        self.heard.append(self.headers.get("Authorization"))
        body = b'{"order": 7, "status": "shipped"}' if self.path == "/orders/7.json" else b"{}"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@contextlib.contextmanager
def api():
    """Its address."""
    Api.heard.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield "%s:%d" % server.server_address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Demo(crib.Case):
    """A checkout whose build is the one that is tested, and a home."""

    def setUp(self):
        super().setUp()
        c = self.crib
        self.tree = c.dir / "tree"
        shutil.copytree(crib.SOURCE / "contrib/examples", self.tree / "contrib/examples")
        for name in ("contrib/quickstart", "README"):
            shutil.copy(crib.SOURCE / name, self.tree / name)
        (self.tree / "contrib/deps").write_text("#!/bin/sh\n")
        (self.tree / "contrib/deps").chmod(0o755)
        (self.tree / "_build").mkdir()
        (self.tree / "_build/quick").symlink_to(crib.BUILD.resolve())
        c.config()
        (c.dir / "config/toolcrib").mkdir(parents=True, exist_ok=True)
        (c.dir / "toolcribd.yaml").rename(c.dir / "config/toolcrib/toolcribd.yaml")     # any port
        (c.dir / "home").mkdir()
        c.store = c.dir / "data/toolcrib-demo/store"
        self.env = {**c.env, "XDG_DATA_HOME": str(c.dir / "data"), "HOME": str(c.dir / "home"),
                    "PATH": f"{crib.BUILD.resolve()}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}

    def quickstart(self, *words):
        done = subprocess.run([self.tree / "contrib/quickstart", *words], capture_output=True, text=True, timeout=60, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def serve(self):
        """Run quickstart; what it said, and where the server listens."""
        self.addCleanup(self.quickstart, "--stop")
        done = self.quickstart()
        rows = self.crib.json("status")[0]["listeners"]
        return done, next(row["address"] for row in rows if row["transport"] == "http")

    def type(self, text, **more):
        """Lines for a shell in the checkout; each must succeed.  What they said."""
        done = subprocess.run(["sh", "-ec", text], cwd=self.tree, env={**self.env, **more}, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout


class Readme(Demo):
    def test_each_block_is_typed_or_has_a_reason(self):
        headings = {heading for heading, _ in blocks("README", None)}
        self.assertEqual(set(NOT_TYPED) | set(SAYS), headings)
        self.assertEqual(set(NOT_TYPED) & set(SAYS), set())
        for heading, text in blocks("README", "json"):
            self.assertEqual(NOT_TYPED[heading], ENTRY)
            json.loads(text)
        typed = "".join(text for heading, text in blocks("README") if heading in SAYS)
        self.assertEqual([words for words in OTHERWISE if words not in typed], [])

    def test_a_browser_is_let_in(self):
        """Who called what: a line of the configuration, and a link, which opens once; neither its token nor the visit's stands in a file,
        in the log, in a command line or in an environment, and what a browser keeps in its history opens nothing."""
        with open(self.crib.dir / "config/toolcrib/toolcribd.yaml", "a") as f:
            f.write('console: {listen: "127.0.0.1:0"}\n')
        self.serve()
        link = self.type('eval "$(contrib/quickstart --shell)"; toolcrib -q console open')
        self.assertRegex(link, r"^http://toolcrib\.localhost:\d+/enter\?t=\w{43}\n$")
        host, _, path = link.strip().removeprefix("http://").partition("/")
        token = path.partition("=")[2]

        def ask(method, path, body=None, cookie=""):
            form = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"} if method == "POST" else {}
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", int(host.rpartition(":")[2]), timeout=crib.DEADLINE)) as c:
                c.request(method, path, body, {"Host": host, "Cookie": cookie, **form})
                answer = c.getresponse()
                return answer.status, answer.headers, answer.read().decode()
        self.assertIn("Sign in", ask("GET", "/" + path)[2])
        status, headers, _ = ask("POST", "/enter", "t=" + token)
        self.assertEqual((status, headers["Location"]), (303, "/"))
        cookie = headers["Set-Cookie"].partition(";")[0]
        visit = cookie.partition("=")[2]
        status, _, start = ask("GET", "/", cookie=cookie)
        self.assertEqual((status, '<a href="/t/demo/r/calls">' in start), (200, True), start)
        self.assertIn("get_weather", ask("GET", "/t/demo/access", cookie=cookie)[2])
        self.assertEqual(ask("POST", "/enter", "t=" + token)[0], 403, "once")
        self.assertEqual(ask("GET", "/" + path)[0], 200, "what a history has asks again, and opens nothing")
        for secret in (token, visit):
            self.assertNotIn(secret, start)
            for file in self.crib.dir.rglob("*"):
                if file.is_file() and not file.is_symlink():
                    self.assertNotIn(secret.encode(), file.read_bytes(), file)
            for process in pathlib.Path("/proc").glob("[0-9]*"):
                for name in ("cmdline", "environ"):
                    with contextlib.suppress(OSError):
                        self.assertNotIn(secret.encode(), (process / name).read_bytes(), process)

    def test_documents_that_commands_name_are_there(self):
        """A command names what its page has made, or an example."""
        texts = {name: path.read_text() for name, path in PAGES.items()}
        texts["toolcrib(8)"] = (crib.SOURCE / "src/ctl/toolcrib.8").read_text()
        there = {path.name for path in (crib.SOURCE / "contrib/examples").glob("*.yaml")}
        for name, text in texts.items():
            for noun, file in re.findall(r"(?m)^toolcrib (tool|prompt|resource) (?:add|lint|test) (\S+\.yaml)", text):
                made = re.findall(r"(?m)^cat > (\S+)", text)
                self.assertIn(pathlib.Path(file).name, there.union(made), f"{name}: {noun} {file}")

    def test_as_it_is_typed(self):
        """found.md, friction: after quickstart one line makes a terminal ready, and each recipe of README works in the demo's tenant."""
        c = self.crib
        _, address = self.serve()
        left_out = {heading for heading, program in NEEDS.items() if not os.path.exists(program)}
        typed = [(heading, text) for heading, text in blocks("README") if heading in SAYS and heading not in left_out]
        with api() as at:
            script = ["PATH=/nowhere:/usr/bin:/bin:/usr/sbin:/sbin; unset TOOLCRIB_STORE TOOLCRIB_KEY"]
            for number, (_, text) in enumerate(typed):
                script += [f"echo '@@@ {number}'", otherwise(text).replace("127.0.0.1:8808", address).replace("127.0.0.1:8000", at)]
            said = re.split(r"(?m)^@@@ \d+$", self.type("\n".join(script)))[1:]
        self.assertEqual(len(said), len(typed))
        for heading in SAYS.keys() - left_out:
            self.assertRegex("\n".join(part for (h, _), part in zip(typed, said) if h == heading), SAYS[heading], heading)
        self.assertEqual(Api.heard, [None, "Bearer s3same"], "curl, then the tool with its secret")
        calls = c.json("audit", "calls", "--tenant", "demo")
        self.assertEqual([row["outcome"] for row in calls], ["ok"] * len(calls))
        self.assertEqual(len(calls), 2 + len([h for h, _ in typed if h.startswith("A ")]))
        self.pages()

    def pages(self):
        """They go on in README's terminal."""
        self.type('eval "$(contrib/quickstart --shell)"; mkdir -p ~/pages && cd ~/pages\n'
                  + "".join(otherwise(text) for page in ("hosting", "reviewing") for _, text in blocks(page, "sh")))
        self.assertIn("weather-token", self.crib.cli("secret", "list"))
        self.assertIn("review", self.crib.cli("prompt", "list"))
        self.assertGreater((self.crib.dir / "home/pages/new.jsonl").stat().st_size, 0)

    def test_a_store_of_ones_own(self):
        """product.md 3: by hand, without a server."""
        said = self.type("".join(text for _, text in blocks("serving", "sh")))
        self.assertRegex(said, r"(?s)tck_\w+.*version 1 stored.*get_weather granted.*7\.4.*get_weather .*ok")


class Quickstart(Demo):
    def test_it_leads_to_a_call(self):
        """product.md 3: what it prints works, and run twice it changes nothing."""
        c = self.crib
        first, address = self.serve()
        key = re.search(r"tck_\w+", first.stdout).group()
        for word in ("init", "tenant add demo", "tool add", "grant add demo", "key create"):
            self.assertRegex(first.stderr, rf"\+ .*toolcrib .*{word}", "each command is echoed")
        self.assertEqual(first.stdout.count("tck_…") + first.stdout.count("8808"), 0, "nothing is left to be filled in")
        printed = re.search(r"(?m)^  (export .*)$", first.stdout).group(1)
        self.assertEqual(self.quickstart("--shell").stdout, printed + "\n")
        self.assertEqual(self.type(printed + "; echo $TOOLCRIB_KEY; command -v toolcribd; toolcrib tenant list").split()[:2],
                         [key, f"{self.tree}/_build/quick/toolcribd"])
        body = re.search(r"-d '(.*)'", first.stdout).group(1)
        c.ports = {"http": address}
        peer = c.http(key)
        self.assertEqual(peer.post(body, peer.headers())[0], 200)
        peer.close()
        self.assertEqual([row["tool"] for row in c.json("audit", "calls", "--tenant", "demo", "--since", "1h")], ["get_weather"])
        before = c.cli("export"), c.cli("key", "list", "demo")
        again = self.quickstart()
        self.assertEqual((c.cli("export"), c.cli("key", "list", "demo")), before)
        self.assertEqual(again.stdout[again.stdout.index("\n# "):], first.stdout[first.stdout.index("\n# "):])
        self.hosts(first.stdout, key, address)

    def hosts(self, printed, key, address):
        """Each host's entry, as the host reads it."""
        self.assertIn(self.quickstart("--hosts").stdout.strip(), printed)
        entries = {heading: json.loads(text) for heading, text in re.findall(r"(?s)### ([^\n]*)\n+[^#]*?```json\n(.*?)```", printed)}
        http_entry = {"crib": {"type": "http", "url": f"http://{address}/mcp", "headers": {"Authorization": f"Bearer {key}"}}}
        self.assertEqual(entries.pop("VS Code"), {"servers": http_entry})
        self.assertEqual(entries.pop("Cursor"), {"mcpServers": http_entry})
        (entry,) = entries.values()
        host = entry["mcpServers"]["crib"]
        ask = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
               "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
        done = subprocess.run([host["command"], *host["args"]], env={**self.env, **host["env"]}, input=json.dumps(ask) + "\n",
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60)
        self.assertEqual(json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"], "toolcrib")
        claude = shlex.split(re.search(r"(?m)^claude .*$", printed).group())
        self.assertEqual(claude, ["claude", "mcp", "add", "--transport", "http", "crib", f"http://{address}/mcp",
                                  "--header", f"Authorization: Bearer {key}"])
        program = re.search(r"(?ms)^cat > first.py <<'END'\n(.*?)^END$", printed).group(1)
        compile(program, "first.py", "exec")
        self.assertIn(f"http://{address}/mcp", program)

    def test_a_demo_elsewhere(self):
        """A relative folder is the caller's, and what is printed names it."""
        c = self.crib
        c.store = c.dir / "home/mine/store"
        run = ["sh", "-c", 'cd "$HOME" && "$0" "$@"', self.tree / "contrib/quickstart"]
        done = subprocess.run([*run, "mine"], capture_output=True, text=True, timeout=60, env=self.env)
        self.addCleanup(lambda: os.kill(c.json("status")[0]["pid"], signal.SIGTERM))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"contrib/quickstart --shell {c.dir}/home/mine)", done.stdout)
        shell = subprocess.run([*run, "--shell", "mine"], capture_output=True, text=True, timeout=60, env=self.env)
        self.assertIn(f'TOOLCRIB_STORE="{c.store}"', shell.stdout)
        self.assertIn(shell.stdout, done.stdout)

    def test_without_a_demo_there_is_nothing_to_print(self):
        for word in ("--shell", "--hosts"):
            done = subprocess.run([self.tree / "contrib/quickstart", word], capture_output=True, text=True, env=self.env)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("run contrib/quickstart first", done.stderr)


if __name__ == "__main__":
    crib.main()
