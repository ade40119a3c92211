"""A REST API as a tool: by the real daemon, against real servers, kind and hostile ones."""
import contextlib
import http.server
import json
import shutil
import socket
import sqlite3
import ssl
import struct
import subprocess
import threading
import time
import unittest
import warnings

import crib

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


class Api(http.server.BaseHTTPRequestHandler):
    """A small REST API; what came in is kept in seen."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def say(self, status, body=b"", kind="application/json", headers=()):
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, dict(self.headers), body))
        path = self.path.partition("?")[0]
        if path.startswith("/users/"):
            name = path[7:]
            if name == "nobody":
                self.say(404, b'{"error":"no such user"}')
            else:
                self.say(200, json.dumps({"name": name, "id": 12345678901234567890}).encode())
        elif path == "/echo":
            self.say(200, body, self.headers.get("Content-Type"))
        elif path == "/logo":
            self.say(200, PNG, "image/png")
        elif path == "/away":
            self.say(302, headers=[("Location", self.server.elsewhere)])
        elif path == "/flaky":
            self.server.flaky += 1
            self.say(503 if self.server.flaky % 2 else 200, b"{}")
        else:
            self.say(500, b"what?", "text/plain")

    do_GET = do_POST = do_PUT = do_DELETE = handle_any


def api():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.handle_error = lambda *args: None    # a peer that hangs up, or likes no TLS of ours
    server.daemon_threads = True
    server.seen, server.flaky, server.elsewhere = [], 0, "/"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


class Hostile:
    """A server that answers each connection as a function says: it gets the socket once a head has come."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self.socket.getsockname()[1]
        self.connections = 0
        self.closed = threading.Event()     # a peer has hung up on us
        self.answers = {}
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        try:
            head = b""
            while b"\r\n\r\n" not in head:
                data = peer.recv(4096)
                if not data:
                    raise OSError("the peer hung up before its request was whole")
                head += data
            self.answers[head.split(b" ")[1].decode().partition("?")[0]](peer)
        except OSError:
            self.closed.set()
        finally:
            peer.close()

    def close(self):
        self.socket.close()


def drip(head, data, pause=0.05):
    def answer(peer):
        peer.sendall(head)
        while True:
            peer.sendall(data)
            time.sleep(pause)
    return answer


def flood(head, data):
    def answer(peer):
        peer.sendall(head)
        while True:
            peer.sendall(data)
    return answer


def once(data, reset=False):
    def answer(peer):
        peer.sendall(data)
        if reset:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return answer


def silence(peer):
    while peer.recv(4096):
        pass
    raise OSError("the peer hung up")


OK = b"HTTP/1.1 200 OK\r\n"
HOSTILE = {
    "/slow-head": (drip(OK + b"X: ", b"x"), "in time"),
    "/slow-headers": (drip(b"", b"HTTP/1.1 102 Processing\r\n\r\n"), "in time"),
    "/silent": (silence, "in time"),
    "/slow-body": (drip(OK + b"Content-Length: 1000\r\n\r\n", b"x"), "in time"),
    "/endless-body": (flood(OK + b"\r\n", b"x" * 65536), "larger than"),
    "/endless-chunks": (flood(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b"x" * 4096 + b"\r\n"), "larger than"),
    "/endless-head": (flood(OK, b"X-Many: " + b"x" * 1000 + b"\r\n"), "head is larger than"),
    "/one-long-header": (flood(OK + b"X-Long: ", b"x" * 65536), "head is larger than|not correct HTTP"),
    "/short": (once(OK + b"Content-Length: 1000\r\n\r\nshort"), "ended before"),
    "/reset": (once(OK + b"Content-Length: 1000\r\n\r\nshort", True), "ended before"),
    "/long": (once(OK + b"Content-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok and more"), None),
    "/two-lengths": (once(OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc"), "contradicts itself"),
    "/two-framings": (once(OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "contradicts itself"),
    "/bad-length": (once(OK + b"Content-Length: 2x\r\n\r\nab"), "wrong Content-Length|not correct HTTP"),
    "/bad-chunks": (once(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nxx\r\n"), "ended before|not correct HTTP"),
    "/cut-chunks": (once(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), "ended before"),
    "/no-http": (once(b"220 mail.example ESMTP\r\n"), "not correct HTTP"),
    "/closes": (once(b""), "ended before"),
    "/bad-utf8": (once(OK + b"Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n\xff\xfe"), "not UTF-8"),
    "/bad-json": (once(OK + b"Content-Type: application/json\r\nContent-Length: 6\r\n\r\n{\"a\": "), "not usable JSON"),
    "/deep-json": (once(OK + b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n" + b"[" * 1000), "not usable JSON"),
    "/packed": (once(OK + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b"), "compressed"),
}


def authority(folder):
    """A private authority, and a key with a certificate for localhost signed by it."""
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test authority", "-days", "2")
    openssl("req", *curve, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (folder / "san").write_text("subjectAltName=DNS:localhost\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "server.pem",
            "-days", "2", "-extfile", "san")


def rss_kib(pid):
    return int(next(line for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS:")).split()[1])


class HttpTool(crib.Case):
    def tool(self, name, handler, schema="{type: object}", extra=""):
        self.crib.tool(crib.tool_yaml(name, handler, schema, extra), f"{name}.yaml")
        self.crib.cli("grant", "add", "acme", name)

    def serve(self, start=True):
        server = api()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.crib.init()
        self.key = self.crib.tenant("acme")
        if start:
            self.crib.start()
            self.peer = self.crib.http(self.key)
        return server, f"http://127.0.0.1:{server.server_port}"

    def result(self, name, arguments=None):
        return self.peer.call(name, arguments, crib.MODERN)["result"]

    def refused(self, name, arguments=None):
        got = self.result(name, arguments)
        self.assertTrue(got.get("isError"), got)
        return got["content"][0]["text"]

    def test_rest_api_is_a_tool_in_ten_lines(self):
        server, url = self.serve()
        typed = f"""name: get_user
description: Look up a user by name.
inputSchema: {{type: object, properties: {{name: {{type: string}}}}, required: [name]}}
handler:
  type: http
  url: {url}/users/{{name}}
  allow: {{private: true}}
toolcrib tool add user.yaml
toolcrib grant add acme get_user""".splitlines()
        self.assertLessEqual(len(typed), 10)
        self.crib.tool("\n".join(typed[:-2]), "user.yaml")
        self.crib.cli(*typed[-1].split()[1:])
        got = self.result("get_user", {"name": "Zo\u00eb / x"})
        self.assertEqual(got["content"][0]["text"], '{"name": "Zo%C3%AB%20%2F%20x", "id": 12345678901234567890}')
        self.assertEqual(got["structuredContent"]["id"], 12345678901234567890)
        self.assertEqual(self.refused("get_user", {"name": "nobody"}), 'HTTP 404 Not Found\n{"error":"no such user"}')
        self.assertIn("Missing required", json.dumps(self.peer.call("get_user", {}, crib.MODERN)))
        calls = self.crib.json("audit", "calls", "--tenant", "acme")
        self.assertEqual(sorted(row["outcome"] for row in calls)[-1], "tool_error")
        failed = next(row for row in calls if row["outcome"] == "tool_error")
        self.assertIn("404", self.crib.cli("--json", "audit", "show", failed["call"], "--tenant", "acme"))
        # The CLI runs it likewise, with the daemon and without.
        self.assertIn("ann", self.crib.cli("call", "acme", "get_user", "name=ann"))
        self.peer.close()
        self.crib.stop()
        self.assertIn("bob", self.crib.cli("call", "acme", "get_user", "name=bob"))
        self.assertIn("eve", self.crib.cli("tool", "test", self.crib.dir / "user.yaml", "name=eve"))

    def test_the_author_hears_where_it_went_and_what_came_of_it(self):
        """From tool test and from the record: host, address, status, place; the caller hears none of it."""
        _, url = self.serve()
        where = url.partition("//")[2]
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            nobody = f"127.0.0.1:{closed.getsockname()[1]}"
            database = self.crib.dir / "there.db"
            with contextlib.closing(sqlite3.connect(database)) as db:
                db.execute("CREATE TABLE t (name)")
            for name, handler, said, hint in (
                    ("gone", f"{{type: http, method: POST, url: 'http://{nobody}/x', allow: {{private: true}}}}",
                     f"hint: it asked http://{nobody} at {nobody}\n", f"it asked http://{nobody} at {nobody}: the server cannot be reached"),
                    ("missing", f"{{type: http, url: '{url}/users/nobody', allow: {{private: true}}}}",
                     f"hint: it asked {url} at {where}, which answered with status 404\n",
                     f"it asked {url} at {where}, which answered with status 404"),
                    ("nowhere", f"{{type: http, url: '{url}/users/ann', result: {{pointer: /nope}}, allow: {{private: true}}}}",
                     f"hint: it asked {url} at {where}, which answered with status 200\n",
                     f"it asked {url} at {where}, which answered with status 200: the server's answer has no /nope"),
                    ("query", f"{{type: sql, database: 'sqlite:{database}', query: SELECT hiden FROM t}}",
                     "no such column: hiden (at byte 7)", "the query: no such column: hiden (at byte 7)"),
                    ("database", f"{{type: sql, database: 'sqlite:{database}.gone', query: SELECT 1}}", f"{database}.gone: ",
                     f"{database}.gone: ")):
                with self.subTest(name):
                    self.tool(name, handler)
                    done = self.crib.run("tool", "test", self.crib.dir / f"{name}.yaml")
                    self.assertEqual(done.returncode, 1)
                    self.assertIn(said, done.stderr)
                    text = self.refused(name)
                    self.assertFalse([word for word in (where, nobody, "hiden", str(database)) if word in text], text)
                    call = self.crib.json("audit", "calls", "--tenant", "acme", "--tool", name)[0]["call"]
                    self.assertIn(hint, self.crib.cli("audit", "show", call, "--tenant", "acme"))

    def test_body_query_and_headers_arrive_encoded(self):
        server, url = self.serve()
        self.tool("post", f"""
  type: http
  method: POST
  url: {url}/echo
  query: {{from: "{{principal}}@{{tenant}}", page: "{{/page}}"}}
  headers: {{X-Trace: "{{call}}", X-Page: "{{/page}}"}}
  body: {{text: "{{/text}}", tags: "{{/tags}}", by: "{{principal}}"}}
  allow: {{hosts: ["127.0.0.1:{server.server_port}"]}}""")
        got = self.result("post", {"text": 'a "quoted" \u00e9', "tags": ["x", 1.50]})
        self.assertEqual(got["structuredContent"], {"text": 'a "quoted" \u00e9', "tags": ["x", 1.5], "by": "bot"})
        method, path, headers, body = server.seen[-1]
        self.assertEqual((method, path), ("POST", "/echo?from=bot%40acme"))
        self.assertNotIn("X-Page", headers)
        self.assertRegex(headers["X-Trace"], "^[0-9a-f-]{36}$")
        self.assertNotIn("Authorization", headers, "the caller's key goes nowhere")

    def test_a_callers_trace_goes_along(self):
        """OP-404: to servers as headers, to programs in their environment, unchanged, unless the definition says otherwise."""
        server, url = self.serve()
        parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        for name, more in (("along", ""), ("quiet", ", trace: false")):
            self.tool(f"http-{name}", f"{{type: http, url: '{url}/users/ann', allow: {{private: true}}{more}}}")
            self.tool(f"exec-{name}", f'{{type: exec, argv: ["/usr/bin/env"], output: text{more}}}')
        def sent(tool, meta):
            got = self.peer.call(tool, {}, crib.MODERN, _meta=meta)["result"]
            self.assertFalse(got.get("isError"), got)
            if tool.startswith("http"):
                there = {name.lower(): value for name, value in server.seen[-1][2].items()}
                return there.get("traceparent"), there.get("tracestate")
            there = dict(line.split("=", 1) for line in got["content"][0]["text"].splitlines())
            return there.get("TRACEPARENT"), there.get("TRACESTATE")
        for kind in ("http", "exec"):
            for meta, want in (({"traceparent": parent, "tracestate": "a=1,b=2", "baggage": "user=ann"}, (parent, "a=1,b=2")),
                               ({"traceparent": parent}, (parent, None)), ({"traceparent": parent, "tracestate": "x" * 513}, (parent, None)),
                               ({"traceparent": "00-rubbish", "tracestate": "a=1"}, (None, None)), ({}, (None, None))):
                self.assertEqual(sent(f"{kind}-along", meta), want, (kind, meta))
                self.assertEqual(sent(f"{kind}-quiet", meta), (None, None), (kind, meta))

    def test_tool_test_names_the_server_that_failed(self):
        """To the author: method, scheme, host, port and the place in the definition."""
        self.crib.init()
        with socket.socket() as gone:
            gone.bind(("127.0.0.1", 0))         # bound, and nobody listens
            address = f"127.0.0.1:{gone.getsockname()[1]}"
            path = self.crib.dir / "gone.yaml"
            path.write_text(crib.tool_yaml("gone", f"{{type: http, url: 'http://{address}/x', allow: {{hosts: ['{address}']}}}}"))
            done = self.crib.run("tool", "test", path)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf"gone.yaml:\d+:\d+: GET http://{address}: the server cannot be reached")

    def test_image_comes_as_an_image(self):
        server, url = self.serve()
        self.tool("logo", f"{{type: http, url: '{url}/logo', allow: {{private: true}}}}")
        got = self.result("logo")["content"]
        self.assertEqual([(block["type"], block["mimeType"]) for block in got], [("image", "image/png")])

    def test_get_is_tried_again_and_post_is_not(self):
        server, url = self.serve()
        for name, method in (("get", "GET"), ("post", "POST")):
            self.tool(name, f"{{type: http, method: {method}, url: '{url}/flaky', allow: {{private: true}}}}")
        self.assertFalse(self.result("get").get("isError"))
        self.assertEqual(len(server.seen), 2)
        self.assertIn("HTTP 503", self.refused("post"))
        self.assertEqual(len(server.seen), 3)

    def test_hostile_answers_end_and_nobody_else_notices(self):
        self.serve()
        hostile = Hostile()
        self.addCleanup(hostile.close)
        self.crib.tool(crib.ECHO, "echo.yaml")
        self.crib.cli("grant", "add", "acme", "echo")
        documents, asked, answer = [], threading.Event(), threading.Event()
        self.addCleanup(answer.set)

        def held(peer):
            asked.set()
            answer.wait()
            HOSTILE["/long"][0](peer)
        hostile.answers.update({path: said for path, (said, _) in HOSTILE.items()} | {"/held": held})
        for path in hostile.answers:
            documents.append(crib.tool_yaml("t" + path.replace("/", "-"), f"""
  type: http
  method: POST
  url: http://127.0.0.1:{hostile.port}{path}
  allow: {{private: true}}""", extra=f"limits: {{timeout: {'5m' if path == '/held' else '2s'}, result: 64KiB}}\n"))
        self.crib.tool("---\n".join(documents), "hostile.yaml")
        self.crib.cli("grant", "add", "acme", "t-*")
        before = rss_kib(self.crib.daemon.pid)
        texts, threads = {}, []

        def call(path):
            texts[path] = self.crib.http(self.key).call("t" + path.replace("/", "-"), {}, crib.MODERN)["result"]
        # A tenant's server that fails rests: what is expected to fail in its own way goes in small parts, with a success between.
        for path in hostile.answers:
            if path == "/held" or HOSTILE[path][1] == "in time":
                threads.append(threading.Thread(target=call, args=(path,)))
        for thread in threads:
            thread.start()
        self.assertTrue(asked.wait(crib.DEADLINE), "a server that answers when we let it")
        self.assertEqual(self.result("echo", {"text": "hello"})["content"][0]["text"], "hello")
        self.assertNotIn("/held", texts, "nobody waits for somebody else's server")
        answer.set()
        for thread in threads:
            thread.join()
        for path in HOSTILE:
            if path not in texts:
                call("/long")
                call(path)
        for path, (_, want) in HOSTILE.items():
            with self.subTest(path):
                self.assertEqual(bool(texts[path].get("isError")), want is not None, texts[path])
                if want:
                    self.assertRegex(texts[path]["content"][0]["text"], want)
        self.assertEqual(self.result("echo", {"text": "hello"})["content"][0]["text"], "hello")
        self.assertLess(rss_kib(self.crib.daemon.pid) - before, 16384, "endless answers are not kept")

    def test_failing_server_rests_for_its_tenant_only(self):
        self.serve()
        hostile = Hostile()
        self.addCleanup(hostile.close)
        hostile.answers["/"] = once(b"")
        self.tool("down", f"{{type: http, method: POST, url: 'http://127.0.0.1:{hostile.port}/', allow: {{private: true}}}}")
        for _ in range(5):
            self.assertIn("ended before", self.refused("down"))
        self.assertIn("rests", self.refused("down"))
        self.assertEqual(hostile.connections, 5)
        other = self.crib.http(self.crib.tenant("other", "down"))
        self.assertIn("ended before", json.dumps(other.call("down", {}, crib.MODERN)))

    def test_cancel_hangs_up_on_the_server(self):
        self.serve()
        hostile = Hostile()
        self.addCleanup(hostile.close)
        hostile.answers["/"] = silence
        self.tool("silent", f"{{type: http, url: 'http://127.0.0.1:{hostile.port}/', allow: {{private: true}}}}")
        line = self.crib.tcp(self.key)
        line.initialize()
        line.send(line.request("tools/call", {"name": "silent", "arguments": {}}, id="x"))
        crib.wait_for("a request at the server", lambda: hostile.connections)
        line.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}})
        self.assertTrue(hostile.closed.wait(crib.DEADLINE), "the connection was left open")
        crib.wait_for("the record of the cancelled call", lambda: [
            row for row in self.crib.json("audit", "calls", "--tenant", "acme") if row["outcome"] == "cancelled"])

    def test_addresses_are_refused_unless_their_switch_is_on(self):
        server, url = self.serve()
        own = self.crib.address("http")[1]
        port = server.server_port
        for wrong, hint in ((f"http://127.0.0.1:{port}/", "private: true"), (f"http://localhost:{port}/", f"localhost:{port}"),
                            ("http://169.254.169.254/latest", ""), ("http://2130706433/", ""), ("http://0x7f.1/", ""),
                            ("https://[::ffff:10.0.0.1]/", "private: true"), ("https://user:pw@example.com/", ""),
                            ("file:///etc/passwd", ""), ("https://{host}/", "")):
            path = self.crib.dir / "wrong.yaml"
            path.write_text(crib.tool_yaml("wrong", "{type: http, url: '%s'}" % wrong))
            done = self.crib.run("tool", "add", path)
            self.assertEqual(done.returncode, 1, wrong)
            self.assertIn("wrong.yaml:4:", done.stderr)
            self.assertIn(hint, done.stderr)
        self.tool("name", "{type: http, url: 'https://localhost/'}")
        self.tool("elsewhere", f"{{type: http, url: 'http://localhost:{port}/users/x', allow: {{hosts: [10.0.0.0/8]}}}}")
        self.tool("own", f"{{type: http, url: 'http://localhost:{own}/mcp', allow: {{private: true}}}}")
        for name, words in (("name", "loopback"), ("elsewhere", "loopback"), ("own", "own address")):
            self.assertIn(words, self.refused(name))
        self.assertEqual(server.seen, [])
        switches = ("private: true", f"hosts: ['localhost:{port}']", "hosts: [127.0.0.0/8, '::1']")
        for i, switch in enumerate(switches):
            self.tool(f"on{i}", f"{{type: http, url: 'http://localhost:{port}/users/x', allow: {{{switch}}}}}")
            self.assertFalse(self.result(f"on{i}").get("isError"))
        self.assertEqual(len(server.seen), len(switches))

    @unittest.skipUnless(shutil.which("openssl"), "needs openssl to make a certificate")
    def test_tls_is_verified_by_the_authority_of_the_document(self):
        self.serve()
        authority(self.crib.dir)
        ports = {}
        for name, newest in (("new", ssl.TLSVersion.TLSv1_3), ("old", ssl.TLSVersion.TLSv1_1)):
            server = api()
            self.addCleanup(server.server_close)
            self.addCleanup(server.shutdown)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.crib.dir / "server.pem", self.crib.dir / "server.key")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, newest
            context.set_ciphers("ALL:@SECLEVEL=0")
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
            ports[name] = server.server_port
        new, old = ports["new"], ports["old"]
        ca = f"ca: {self.crib.dir}/ca.pem"
        for name, port, host, line, want in (
                ("good", new, "localhost", ca, None), ("unknown", new, "localhost", "result: auto", "not valid for it, or not trusted"),
                ("other", new, "127.0.0.1", ca, "not valid for it, or not trusted"), ("old", old, "localhost", ca, "TLS handshake"),
                ("plain", new, "localhost", f"{ca}.missing", "file of certificate authorities")):
            self.tool(name, f"{{type: http, method: POST, url: 'https://{host}:{port}/echo', {line}, allow: {{private: true}}}}")
            with self.subTest(name):
                if want:
                    self.assertIn(want, self.refused(name))
                else:
                    self.assertFalse(self.result(name).get("isError"))

    def test_redirects_and_proxies_lead_nowhere(self):
        server, url = self.serve(start=False)
        trap = api()
        self.addCleanup(trap.server_close)
        self.addCleanup(trap.shutdown)
        server.elsewhere = f"http://127.0.0.1:{trap.server_port}/users/x"
        proxy = f"http://127.0.0.1:{trap.server_port}"
        self.crib.start(env={"http_proxy": proxy, "HTTP_PROXY": proxy, "all_proxy": proxy, "https_proxy": proxy})
        self.peer = self.crib.http(self.key)
        self.tool("away", f"{{type: http, url: '{url}/away', allow: {{private: true}}}}")
        self.assertEqual(self.refused("away"), "HTTP 302 Found: redirects are not followed")
        self.assertEqual(trap.seen, [])

    def test_secret_reaches_the_server_and_no_file(self):
        server, url = self.serve()
        canary = "canary-Hq7Zp2-value"
        self.crib.cli("secret", "set", "api", stdin=canary)
        self.tool("guarded", f"""
  type: http
  method: POST
  url: {url}/echo
  headers: {{Authorization: "Bearer {{secret:api}}", Content-Type: text/plain}}
  query: {{key: "{{secret:api}}"}}
  body: "said {{secret:api}}"
  allow: {{private: true}}""")
        got = self.result("guarded")
        self.assertEqual(got["content"][0]["text"], "said [secret:api]")
        _, path, headers, body = server.seen[-1]
        self.assertEqual((path, headers["Authorization"], body), (f"/echo?key={canary}", f"Bearer {canary}", f"said {canary}".encode()))
        self.peer.close()
        self.crib.stop()
        for file in self.crib.dir.rglob("*"):
            if file.is_file():
                self.assertNotIn(canary.encode(), file.read_bytes(), file)


if __name__ == "__main__":
    crib.main()
