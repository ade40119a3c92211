"""Metrics and health: a listener of its own, whom it answers, and what it says (OP-101 to OP-110)."""
import contextlib
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import certs
import crib
import exposition

LISTEN = 'metrics: {listen: "127.0.0.1:0"}\n'
PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
# as Prometheus 2.42 asks
PROMETHEUS = ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
              "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
TOKEN = "a-token-of-32-visible-characters"
OURS = "(?:toolcrib|process|mcp_server)_[a-z0-9_]+"
TABLE = "contrib/doc/decisions/0112-what-stands-for-a-counter-that-a-plan-names.md"
CONNECTIONS, HEAD = 16, 8192            # include/ops/ops.h


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=crib.DEADLINE)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(crib.DEADLINE)
        self.sock.connect(self.path)


def get(crib_, path="/metrics", method="GET", headers=None, body=None, connection=None):
    """(status, headers, text) of one request on a connection of its own."""
    c = connection or http.client.HTTPConnection(*crib_.address("metrics"), timeout=crib.DEADLINE)
    try:
        c.request(method, path, body=body, headers=headers or {})
        answer = c.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        c.close()


def scrape(crib_, openmetrics=False, headers=None):
    status, said, text = get(crib_, headers={**({"Accept": PROMETHEUS} if openmetrics else {}), **(headers or {})})
    assert status == 200, (status, text)
    assert said["Content-Type"] == (OPENMETRICS if openmetrics else PLAIN), said
    return exposition.read(text, openmetrics)


def refusing(text):
    return [labels["reason"] for labels, value in text.series("toolcrib_audit_refusing") if float(value)]


class Case(crib.Case):
    def serve(self, extra=LISTEN, **more):
        c = self.crib.init()
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "echo")
        return c.start(extra, **more)

    def absent(self, text, *words):
        self.assertEqual([word for word in words if word in text], [])

    def call(self, times=1, tool="echo", key=None):
        peer = self.crib.http(key or self.key)
        for n in range(times):
            peer.call(tool, {"text": str(n)}, crib.MODERN)
        peer.close()


    def host(self, c):
        """An upstream e, and a tenant that sees what it has; the key."""
        salt = c.dir / "salt"
        salt.write_text("")
        c.cli("upstream", "add", "e", "--read", salt, "--command", crib.BUILD.resolve() / "tests/peers/mcp_echo", "--hosted",
              "--salt-file", salt)
        return c.tenant("acme", "e_*")

    def sync(self, c):
        """Its tool that echoes."""
        return [row["tool"] for row in c.json("upstream", "sync", "e") if row["there"] == "echo"][0]


class Formats(Case):
    def test_both_formats_are_what_they_should_be(self):
        """OP-105, OP-106: every row of the table, the process's own metrics, units at the ends of names."""
        c = self.serve()
        self.call(3)
        plain, om = scrape(c), scrape(c, True)
        self.assertEqual(plain.get("toolcrib_calls_finished_total"), 3)
        self.assertEqual(om.get("toolcrib_calls_finished_total"), 3)
        counters = c.status()["counters"]
        families = {re.sub("_total$", "", name) for name in plain.families()}
        renamed = {"anchor_time": "anchor_timestamp_seconds", "checkpoint_time": "checkpoint_timestamp_seconds",
                   "tls_certificate_expires": "tls_certificate_expiry_timestamp_seconds",
                   "verify_time": "verify_timestamp_seconds", "backup_last_success_s": "backup_timestamp_seconds",
                   "backup_lag_s": "backup_lag_seconds", "backup_test_s": "backup_test_timestamp_seconds",
                   **dict.fromkeys(("keys_expiring_day", "keys_expiring_week", "keys_expiring_fortnight"), "credentials_expiring"),
                   **{f"otel_spans_{word}": "otel_spans" for word in ("sent", "rejected", "dropped", "lost")}}
        for name in counters:
            self.assertIn("toolcrib_" + renamed.get(name, name), families)
        for name in ("process_cpu_seconds", "process_resident_memory_bytes", "process_open_fds", "process_max_fds",
                     "process_start_time_seconds"):
            self.assertIn(name, om.families())
        pid = c.daemon.pid
        self.assertLess(abs(plain.get("process_open_fds") - len(os.listdir(f"/proc/{pid}/fd"))), 4)
        self.assertGreater(plain.get("process_resident_memory_bytes"), 1 << 20)
        (labels, one), = plain.series("toolcrib_build_info")
        self.assertEqual((labels.pop("version"), one), (c.status()["version"], 1.0))
        self.assertRegex(labels.pop("sqlite"), r"^3\.\d+\.\d+$")
        self.assertEqual(labels, {})
        self.assertEqual({re.sub("_(total|info)$", "", name) for name in plain.families()},
                         {re.sub("_(total|info)$", "", name) for name in om.families()})

    def test_timers_and_texts_are_counted(self):
        """SEC S-801: what is opened and ends leaves no timer behind; a new text of records is one more, an old one is none."""
        c = self.serve()
        self.call(1)
        before = scrape(c)
        texts = before.get("toolcrib_dictionary_texts")
        self.assertGreater(texts, 0)
        with contextlib.ExitStack() as peers:
            for _ in range(30):
                peers.enter_context(contextlib.closing(c.tcp(self.key))).call("echo", {"text": "x"}, crib.MODERN)
            self.assertGreater(scrape(c).get("toolcrib_timers_open"), before.get("toolcrib_timers_open") + 15)
        crib.wait_for("timers that are gone",
                      lambda: scrape(c).get("toolcrib_timers_open") < before.get("toolcrib_timers_open") + 10)
        texts = scrape(c).get("toolcrib_dictionary_texts")
        c.cli("tenant", "add", "onemore")
        self.assertGreater(scrape(c).get("toolcrib_dictionary_texts"), texts)

    def test_programs_that_run_and_output_that_waits_are_counted(self):
        """SEC S-801, of children and of bytes buffered: what runs and what a peer does not read, until it is gone."""
        c = self.crib.init()
        gate = c.dir / "gate"
        os.mkfifo(gate)
        c.tool(crib.ECHO)
        c.tool(crib.tool_yaml("hold", f'{{type: exec, argv: ["/bin/cat", "{gate}"], stdin: none, output: text, sandbox: {{read: ["{c.dir}"]}}}}'))
        key = c.tenant("acme", "hold", "echo")
        c.start(LISTEN)

        def now(name):
            return scrape(c).get("toolcrib_" + name)
        self.assertEqual((now("children_running"), now("output_waiting_bytes")), (0, 0))
        with contextlib.closing(c.tcp(key)) as peer:
            for n in (1, 2):
                peer.send(peer.request("tools/call", {"name": "hold", "arguments": {}}, crib.MODERN))
                crib.wait_for("a program", lambda: now("children_running") == n)
        crib.wait_for("no program", lambda: now("children_running") == 0)
        with contextlib.closing(c.unix(key)) as peer:
            for _ in range(3):          # a socket holds one; no more is read while so much waits
                peer.send(peer.request("tools/call", {"name": "echo", "arguments": {"text": "x" * 200000}}, crib.MODERN))
            crib.wait_for("output that waits", lambda: now("output_waiting_bytes") > 100000)
            self.assertIn("result", peer.receive())
        crib.wait_for("none", lambda: now("output_waiting_bytes") == 0)

    def test_what_the_server_says_of_itself(self):
        """Its store, its signer, its writer and its loop."""
        c = self.serve()
        self.call(3)
        crib.wait_for("a look at the disk", lambda: scrape(c).get("toolcrib_store_free_bytes") > 0)
        text = scrape(c)
        fs = os.statvfs(c.path)
        self.assertLess(abs(text.get("toolcrib_store_free_bytes") - fs.f_bavail * fs.f_frsize), 8 << 30)
        self.assertGreater(text.get("toolcrib_store_wal_pages"), 0)
        self.assertLess(abs(text.get("toolcrib_checkpoint_timestamp_seconds") - time.time()), 3600)
        self.assertGreater(text.get("toolcrib_writer_commit_duration_seconds_count"), 0)
        self.assertGreater(text.get("toolcrib_loop_turn_duration_seconds_count"), 3)
        self.assertEqual(text.get("toolcrib_ready"), 1)
        self.assertEqual({labels["file"] for labels, size in text.series("toolcrib_store_bytes") if float(size) >= 4096},
                         {"toolcrib.db", "toolcrib.db-wal", "keys.db"})
        self.assertEqual(refusing(text), [])

    def test_records_by_kind_and_jobs_by_lane(self):
        """All kinds and lanes are told from the start; what counts is what was committed."""
        c = self.serve()
        before = scrape(c)
        self.call(3)
        self.call(2, tool="nothing")
        after = scrape(c)

        def records(text):
            return {labels["kind"]: int(value) for labels, value in text.series("toolcrib_records_total")}
        grown = {kind: n - records(before)[kind] for kind, n in records(after).items()}
        self.assertEqual((grown["call.begin"], grown["call.end"], grown["call.denied"], grown["tenant.create"]), (3, 3, 2, 0))
        self.assertGreater(len(grown), 70)
        in_store = dict(c.rows("SELECT kind, count(*) FROM v_records GROUP BY kind"))
        self.assertEqual(records(after)["server.start"], 1)
        self.assertGreater(in_store["server.start"], 1, "the commands before it were other processes")
        self.assertEqual(sorted(labels["lane"] for labels, _ in after.series("toolcrib_pool_jobs_waiting")), ["fold", "ops", "read", "seal", "sign", "sink"])

    def test_a_verification_of_the_whole_store_is_told(self):
        c = self.serve()
        self.assertEqual((scrape(c).get("toolcrib_verify_timestamp_seconds"), scrape(c).get("toolcrib_verify_findings")), (0, 0))
        c.cli("audit", "verify", "--tenant", "acme")
        self.assertEqual(scrape(c).get("toolcrib_verify_timestamp_seconds"), 0)
        c.cli("audit", "verify")
        self.assertLess(abs(scrape(c).get("toolcrib_verify_timestamp_seconds") - time.time()), 3600)
        self.assertEqual(scrape(c).get("toolcrib_verify_findings"), 0)

    def test_keys_that_will_expire_are_counted(self):
        """Each below its time, in those of longer ones as well; without those that are revoked or never expire."""
        c = self.crib.init()
        c.tenant("acme")
        for name, life in (("day", "23h"), ("week", "6d"), ("fortnight", "13d"), ("later", "15d")):
            c.cli("key", "create", f"acme/{name}", "--ttl", life)
        gone = c.json("key", "create", "acme/gone", "--ttl", "1h")[0]["accessor"]
        c.cli("key", "revoke", gone, "--yes")
        c.start(LISTEN)
        def expiring():
            return {labels["within"]: n for labels, n in scrape(c).series("toolcrib_credentials_expiring")}
        crib.wait_for("a count", lambda: expiring() == {"1d": 1, "7d": 2, "14d": 3})

    def test_what_alerts_and_panels_ask_for_is_told(self):
        """OP-112: each metric that contrib/monitoring names."""
        c = self.crib.init()
        key = self.host(c)
        c.start(LISTEN)
        self.call(2, tool=self.sync(c), key=key)
        there = {name for name, _ in scrape(c).samples}
        named = set()
        for file in ("toolcrib.rules.yaml", "toolcrib-dashboard.json"):
            named.update(re.findall(r"\b((?:toolcrib|process|mcp_server)_[a-z0-9_]+)", (crib.SOURCE / "contrib/monitoring" / file).read_text()))
        self.assertGreater(len(named), 30)
        self.assertEqual(sorted(named - there), [])

    def with_all(self):
        """A server that has all that is told of: an upstream, a sink, a way out of alerts; and an alert."""
        c = self.crib.init()
        key = self.host(c)
        c.start(LISTEN + f"sinks:\n- {{name: local, type: file, path: {c.dir}/audit.jsonl}}\n"
                "alerts:\n- {name: am, type: alertmanager, url: 'http://127.0.0.1:1/'}\n")
        self.call(2, tool=self.sync(c), key=key)
        c.cli("alerts", "test")
        crib.wait_for("an alert", lambda: scrape(c).series("toolcrib_alerts"))
        return c

    def test_promtool_finds_nothing(self):
        if not shutil.which("promtool"):
            self.skipTest("there is no promtool: Debian's package prometheus has it")
        c = self.with_all()
        done = subprocess.run(["promtool", "check", "metrics"], input=get(c)[2], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_each_metric_that_a_page_names_is_served(self):
        """Decision 0112: what stands for the counters that plans name; and no page names one that is none."""
        c = self.with_all()
        text = scrape(c)
        served = text.families() | {name for name, _ in text.samples} | scrape(c, True).families()
        rows = re.findall(r"^\| ([a-z][^|]+?) \| ([^|]+?) \| (.+) \|$", (crib.SOURCE / TABLE).read_text(), re.M)[1:]
        self.assertGreater(len(rows), 35)
        for by, what, by_name in rows:
            with self.subTest(by=by, what=what):
                self.assertTrue(by_name.startswith("struck: ") or set(re.findall(OURS, by_name)) & served, by_name)
        self.assertEqual({what for by, what, _ in rows if by == "security S-801"}, {
            "connections", "sessions", "listens", "requests", "queue places", "children", "bytes buffered", "bytes stored", "files",
            "dictionary entries", "timers"})
        pages = [path for path in (*(crib.SOURCE / "src").rglob("*.[1-8]"), *(crib.SOURCE / "contrib/doc").rglob("*.md"), crib.SOURCE / "README")
                 if path.name != "messages.md"]         # which has names of programs
        self.assertGreater(len(pages), 100)
        for page in pages:
            others = {"toolcrib_rec", "toolcrib_audit", "toolcrib_owner", "toolcrib_keys", "toolcrib_views"}     # an extension of SQLite, roles of PostgreSQL
            self.assertEqual(sorted(set(re.findall(rf"\b{OURS}\b", page.read_text())) - others - served), [], page)

    def test_the_format_goes_by_accept(self):
        c = self.serve()
        for accept, want in ((None, PLAIN), (PROMETHEUS, OPENMETRICS), ("*/*", PLAIN), ("application/json", PLAIN),
                             ("application/openmetrics-text", OPENMETRICS),
                             ("application/openmetrics-text;version=2.0.0", PLAIN),
                             ("application/openmetrics-text; version=1.0.0; q=0.1, text/plain", PLAIN),
                             ("text/plain;q=0.5, application/openmetrics-text;q=0.5", OPENMETRICS),
                             ("application/openmetrics-text;q=0", PLAIN), ("application/openmetrics-text;q=2", PLAIN),
                             (";;,,;q=,=", PLAIN)):
            with self.subTest(accept=accept):
                self.assertEqual(get(c, headers={"Accept": accept} if accept else {})[1]["Content-Type"], want)

    def test_head_is_as_get_without_a_body(self):
        c = self.serve()
        for path in ("/metrics", "/healthz", "/readyz"):
            status, said, text = get(c, path, "HEAD")
            self.assertEqual((status, text, int(said["Content-Length"]) > 0), (200, "", True), path)


class Routes(Case):
    def test_other_paths_and_methods(self):
        """OP-102, faults of section 13: the route table is all there is."""
        c = self.serve()
        for path in ("/", "/metrics/", "/metrics/../metrics", "/Metrics", "/mcp", "/healthz/x", "/debug/pprof"):
            self.assertEqual(get(c, path)[0], 404, path)
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
            status, said, _ = get(c, "/metrics", method)
            self.assertEqual((status, said.get("Allow")), (405, "GET, HEAD"), method)
        self.assertEqual(get(c, "/metrics?name=x")[0], 200)
        self.assertEqual(get(c, body="x")[0], 413)
        with socket.create_connection(c.address("metrics"), crib.DEADLINE) as s:
            s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            got = b"".join(iter(lambda: s.recv(4096), b""))
        self.assertRegex(got, rb"^HTTP/1.1 (400|405|501|505) ")
        self.assertGreater(c.status()["counters"]["scrape_requests_refused"], 10)

    def test_a_name_that_a_page_could_have_pointed_here_is_refused(self):
        c = self.serve()
        port = c.address("metrics")[1]
        for host, want in (("evil.example", 403), (f"evil.example:{port}", 403), (f"localhost:{port}", 200), ("127.0.0.1", 200),
                           (f"[::1]:{port}", 200)):
            self.assertEqual(get(c, headers={"Host": host})[0], want, host)

    def test_the_head_has_a_bound(self):
        c = self.serve()
        before = c.status()["counters"]["scrape_requests_refused"]
        for size, want in ((HEAD, b"200"), (HEAD + 1, b"431")):
            head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 4000 + b"\r\nX-B: "
            head += b"b" * (size - len(head) - 4) + b"\r\n\r\n"
            self.assertEqual(len(head), size)
            with socket.create_connection(c.address("metrics"), crib.DEADLINE) as s:
                s.sendall(head)
                self.assertEqual(s.recv(4096).split(b" ")[1], want, size)
        self.assertEqual(c.status()["counters"]["scrape_requests_refused"], before + 1)

    def test_connections_have_a_bound(self):
        """The seventeenth is told so; when one leaves there is room again."""
        c = self.serve()
        open_ = [http.client.HTTPConnection(*c.address("metrics"), timeout=crib.DEADLINE) for _ in range(CONNECTIONS)]
        for one in open_:
            self.addCleanup(one.close)
            one.request("GET", "/healthz")
            self.assertEqual(one.getresponse().read(), b"ok\n")
        self.assertEqual(get(c, "/healthz")[0], 503)
        self.assertEqual(c.status()["counters"]["scrape_connections_refused"], 1)
        open_[0].close()
        crib.wait_for("room again", lambda: get(c, "/healthz")[0] == 200)


class Token(Case):
    def with_token(self, more="", **kinds):
        file = self.crib.dir / "metrics.token"
        file.write_text(TOKEN + "\n")
        file.chmod(0o600)
        return file, f'metrics: {{listen: "127.0.0.1:0", token_file: {file}{more}}}\n'

    def test_only_who_has_it_is_told_metrics(self):
        file, config = self.with_token()
        c = self.serve(config)
        for value in (None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"):
            status, said, text = get(c, headers={"Authorization": value} if value is not None else {})
            self.assertEqual((status, said.get("WWW-Authenticate")), (401, 'Bearer realm="metrics"'), value)
            self.assertNotIn("toolcrib_", text)
        self.assertEqual(c.status()["counters"]["scrape_tokens_refused"], 8)
        scrape(c, headers={"Authorization": f"Bearer {TOKEN}"})
        scrape(c, True, headers={"Authorization": f"bearer {TOKEN}"})
        for path in ("/healthz", "/readyz"):
            self.assertEqual(get(c, path)[0], 200)
        self.assertNotIn(TOKEN, c.log.read_text())

    def test_it_is_read_again(self):
        file, config = self.with_token()
        c = self.serve(config)
        file.write_text("another-one-of-at-least-16")
        c.daemon.send_signal(signal.SIGHUP)
        crib.wait_for("the new token", lambda: get(c, headers={"Authorization": "Bearer another-one-of-at-least-16"})[0] == 200)
        self.assertEqual(get(c, headers={"Authorization": f"Bearer {TOKEN}"})[0], 401)
        file.write_text("short")
        self.assertNotEqual(c.run("reload").returncode, 0)
        self.assertEqual(get(c, headers={"Authorization": "Bearer another-one-of-at-least-16"})[0], 200)

    def test_a_wrong_one_has_to_wait(self):
        _, config = self.with_token()
        c = self.serve(config + "connections: {loopback: count}\npenalty: {failed: 3600, longest: 3600}\n")
        self.assertEqual(get(c, headers={"Authorization": "Bearer wrong"})[0], 401)
        got = crib.wait_for("a refusal", lambda: get(c, headers={"Authorization": f"Bearer {TOKEN}"})[0])
        self.assertIn(got, (429, 503))

    def test_what_is_no_token_ends_the_start(self):
        file, config = self.with_token()
        c = self.crib.init()
        for text, mode, said in (("short", 0o600, "16 to 512"), (" " * 20, 0o600, "16 to 512"), ("x" * 513, 0o600, "512"),
                                 ("x" * 600, 0o600, "larger"), ("two\nlines-of-a-token-here", 0o600, "16 to 512"),
                                 (TOKEN, 0o644, "others may use it"), (None, 0, "metrics.token_file")):
            file.unlink(missing_ok=True)
            if text is not None:
                file.write_text(text)
                file.chmod(mode)
            done = subprocess.run([str(crib.BUILD / "toolcribd"), "--store", str(c.store), "-c", str(c.config(config))],
                                  capture_output=True, text=True, env=c.env, timeout=crib.DEADLINE)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(said, done.stderr)
            self.assertNotIn(TOKEN, done.stderr)
        for good in ("x" * 16, "x" * 512):
            file.write_text(good)
            file.chmod(0o600)
            c.start(config)
            scrape(c, headers={"Authorization": f"Bearer {good}"})
            c.stop()


class Doors(Case):
    def refused(self, config):
        c = self.crib
        done = subprocess.run([str(crib.BUILD / "toolcribd"), "--store", str(c.store), "-c", str(c.config(config))],
                              capture_output=True, text=True, env=c.env, timeout=crib.DEADLINE)
        self.assertNotEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def certified(self):
        """What a listener for strangers needs: a certificate, its key, the file of a token."""
        c = self.crib.init()
        ca = certs.Ca(c.dir)
        cert, key = ca.sign("metrics", "DNS:localhost,IP:127.0.0.1")
        token = c.dir / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        return c, ca, cert, key, token

    def test_off_loopback_each_missing_key_is_named(self):
        """OP-101: TLS and token, or no start."""
        c, _, cert, key, token = self.certified()
        all_ = {"cert": cert, "key": key, "token_file": token}
        for missing in all_:
            rest = "".join(f", {name}: {value}" for name, value in all_.items() if name != missing)
            self.assertIn(f"metrics.{missing} is missing", self.refused(f'metrics: {{listen: "0.0.0.0:0"{rest}}}\n'))
        self.assertIn("metrics.listen, which is missing", self.refused(f"metrics: {{token_file: {token}}}\n"))
        self.assertIn("go together", self.refused(f'metrics: {{listen: "127.0.0.1:0", key: {key}}}\n'))
        self.assertIn("neither an address", self.refused('metrics: {listen: "localhost:9464"}\n'))
        self.assertIn("a socket has no TLS", self.refused(f"metrics: {{listen: {c.dir}/m.sock, cert: {cert}, key: {key}}}\n"))

    def test_over_tls_with_the_token(self):
        c, ca, cert, key, token = self.certified()
        c.start(f'metrics: {{listen: "0.0.0.0:0", cert: {cert}, key: {key}, token_file: {token}}}\n')
        context = ssl.create_default_context(cafile=str(ca.cert))
        host = ("127.0.0.1", c.address("metrics")[1])
        def ask(path, **headers):
            return get(c, path, headers=headers,
                       connection=http.client.HTTPSConnection(*host, context=context, timeout=crib.DEADLINE))
        self.assertEqual(ask("/metrics")[0], 401)
        status, _, text = ask("/metrics", Authorization=f"Bearer {TOKEN}")
        self.assertEqual(status, 200)
        self.assertGreater(exposition.read(text).get("toolcrib_tls_certificate_expiry_timestamp_seconds"), 0)
        self.assertEqual(ask("/healthz")[0], 200)
        with socket.create_connection(host, crib.DEADLINE) as s:          # plain text gets nothing of it
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            try:
                self.assertNotIn(b"HTTP", s.recv(4096))
            except ConnectionError:
                pass
        before = ssl.get_server_certificate(host)
        ca.sign("metrics", "DNS:localhost,IP:127.0.0.1")
        c.daemon.send_signal(signal.SIGHUP)
        crib.wait_for("the new certificate", lambda: ssl.get_server_certificate(host) != before)

    def test_a_certificate_whose_time_is_over_shuts_this_door_alone(self):
        c = self.crib.init()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        ca = certs.Ca(c.dir)
        cert, own = ca.sign("metrics", "DNS:localhost,IP:127.0.0.1", days=-1)
        c.start(f'metrics: {{listen: "127.0.0.1:0", cert: {cert}, key: {own}}}\n')
        context = ssl.create_default_context(cafile=str(ca.cert))
        def ready():
            try:
                return get(c, "/readyz", connection=http.client.HTTPSConnection(*c.address("metrics"), context=context,
                                                                               timeout=crib.DEADLINE))[0]
            except OSError:
                return None
        self.assertIsNone(ready())
        self.assertIn("listener refused, nobody is served there", c.log.read_text())
        self.assertIn("expired", next(row for row in c.status()["listeners"] if row["transport"] == "metrics")["refused"])
        self.call(key=key)                              # all others are served
        c.cli("reload")
        self.assertIsNone(ready())
        ca.sign("metrics", "DNS:localhost,IP:127.0.0.1")
        c.cli("reload")
        self.assertEqual(ready(), 200)
        ca.sign("metrics", "DNS:localhost,IP:127.0.0.1", days=-1)
        self.assertNotEqual(c.run("reload").returncode, 0)
        self.assertEqual(ready(), 200)

    def relay(self, target, context, cert, key):
        """Beside the server, over TLS on both sides: whoever asks there is told the text format, whatever he would like; its port, and
        the formats that went through."""
        told = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_GET(self):
                there = http.client.HTTPSConnection(*target, context=context, timeout=crib.DEADLINE)
                with contextlib.closing(there):
                    there.request("GET", self.path, headers={"Accept": "text/plain;version=0.0.4", "Authorization": self.headers["Authorization"]})
                    answer = there.getresponse()
                    body = answer.read()
                told.append(answer.headers["Content-Type"])
                self.send_response(answer.status)
                self.send_header("Content-Type", told[-1])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ours.load_cert_chain(cert, key)
        server.socket = ours.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        return server.server_address[1], told

    def test_prometheus_takes_both_formats(self):
        """Real scrapes, over TLS and with the token: of OpenMetrics, for which Debian's Prometheus always asks, and of the text format,
        which it is told by whoever stands between.  Both have the same series and values; each rule that is shipped is evaluated."""
        if not shutil.which("prometheus"):
            self.skipTest("there is no prometheus: Debian's package has it")
        c, ca, cert, own, token = self.certified()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        c.start(f'metrics: {{listen: "127.0.0.1:0", cert: {cert}, key: {own}, token_file: {token}}}\n')
        self.call(3, key=key)
        at, told = self.relay(c.address("metrics"), ssl.create_default_context(cafile=str(ca.cert)), cert, own)
        config = c.dir / "prometheus.yml"
        config.write_text(f"""global: {{evaluation_interval: 1s}}
rule_files: ["{crib.SOURCE.resolve()}/contrib/monitoring/toolcrib.rules.yaml"]
scrape_configs:
""" + "".join(f"""- job_name: {job}
  scrape_interval: 1s
  scheme: https
  tls_config: {{ca_file: {ca.cert}}}
  authorization: {{credentials_file: {token}}}
  static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
""" for job, port in (("toolcrib", c.address("metrics")[1]), ("text", at))))
        with socket.socket() as s:                      # it cannot say which port the kernel chose
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        with open(c.dir / "prometheus.log", "wb") as log:
            prometheus = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={c.dir}/tsdb",
                                           f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
        self.addCleanup(prometheus.wait)
        self.addCleanup(prometheus.kill)

        def data(path, **query):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(query)}") as r:
                    return json.load(r)["data"]
            except OSError:
                if prometheus.poll() is not None:
                    raise AssertionError((c.dir / "prometheus.log").read_text()[-2000:])
                return {}

        def found(query):
            return data("query", query=query).get("result") or []

        def rules():
            return [rule for group in data("rules").get("groups", []) for rule in group["rules"]]

        def families(job):
            return {(row["metric"], row["type"]) for row in data("targets/metadata", match_target=f'{{job="{job}"}}')}
        crib.wait_for("scrapes of both", lambda: [row["value"][1] for row in found("up")] == ["1", "1"])
        for job in ("toolcrib", "text"):
            for query, want in ((f'toolcrib_calls_total{{job="{job}",tenant="acme",outcome="ok"}}', "3"),
                                (f'toolcrib_call_duration_seconds_bucket{{job="{job}",tenant="acme",le="+Inf"}}', "3"),
                                (f'toolcrib_ready{{job="{job}"}}', "1")):
                self.assertEqual([row["value"][1] for row in found(query)], [want], query)
        names = {job: {row["metric"]["__name__"] for row in found(f'group by (__name__) ({{job="{job}",__name__=~"{OURS}"}})')} for job in ("toolcrib", "text")}
        self.assertEqual(names["toolcrib"], names["text"])
        self.assertGreater(len(names["text"]), 200)
        self.assertEqual(set(told), {PLAIN})
        self.assertIn(("toolcrib_calls_finished", "counter"), families("toolcrib"))         # a family of OpenMetrics
        self.assertIn(("toolcrib_calls_finished_total", "counter"), families("text"))
        self.assertEqual([target["lastError"] for target in data("targets")["activeTargets"]], ["", ""])
        crib.wait_for("all rules to be evaluated", lambda: (all_ := rules()) and all(rule["health"] != "unknown" for rule in all_))
        self.assertEqual({rule["name"]: rule["lastError"] for rule in rules() if rule["health"] != "ok"}, {})
        self.assertGreaterEqual(len(rules()), 18)

    def test_a_socket(self):
        c = self.crib.init()
        path = c.dir / "metrics.sock"
        c.start(f"metrics: {{listen: {path}}}\n")
        status, _, text = get(c, headers={"Host": "anything.example"}, connection=Unix(path))
        self.assertEqual(status, 200)
        exposition.read(text)
        self.assertEqual(get(c, "/readyz", connection=Unix(path))[0], 200)
        self.assertEqual(path.stat().st_mode & 0o7, 0)
        c.stop()
        self.assertFalse(path.exists())

    def test_without_the_key_there_is_none(self):
        c = self.crib.init().start()
        self.assertEqual([row["transport"] for row in c.status()["listeners"] if row["transport"] == "metrics"], [])


class Labels(Case):
    """OP-107 to OP-110: who is counted by name, and who is not."""

    def test_calls_by_tenant_tool_and_outcome(self):
        c = self.serve()
        other = c.tenant("bolt")
        self.call(3)
        self.call(2, key=other)                         # bolt has no grant
        self.call(1, tool="no-such-tool-anywhere")
        peer = c.http(self.key)
        peer.call("echo", {}, crib.MODERN)              # an argument is missing
        peer.close()
        text = scrape(c)
        def calls(**labels):
            return text.get("toolcrib_calls_total", **labels)
        self.assertEqual(calls(tenant="acme", outcome="ok"), 3)
        self.assertEqual(calls(tenant="acme", outcome="denied"), 1)
        self.assertEqual(calls(tenant="acme", outcome="invalid"), 1)
        self.assertEqual((calls(tenant="bolt", outcome="ok"), calls(tenant="bolt", outcome="denied")), (0, 2))
        self.assertEqual(text.get("toolcrib_tool_calls_total", tool="echo", outcome="ok"), 3)
        self.assertEqual(text.get("toolcrib_tool_calls_total", tool="echo", outcome="invalid"), 1)
        self.assertEqual(text.get("toolcrib_call_duration_seconds_count", tenant="acme"), 3)
        self.assertEqual(text.get("toolcrib_tool_duration_seconds_count", tool="echo"), 3)
        self.assertEqual(text.get("mcp_server_operation_duration_seconds_count", mcp_method_name="tools/call"), 7)
        self.assertEqual(text.get("toolcrib_tenant_calls_running", tenant="acme"), 0)
        self.assertGreater(text.get("toolcrib_call_duration_seconds_sum", tenant="acme"), 0)
        said = get(c)[2]
        self.absent(said, "no-such-tool", "bot", self.key, self.key.split("_")[1], "127.0.0.1")
        labels = {name for of, series in text.samples for name, _ in series}
        self.assertEqual(labels, {"version", "sqlite", "tenant", "outcome", "tool", "mcp_method_name", "le", "kind", "lane", "within", "of", "file",
                                  "reason", "result", "rule", "severity"})

    def test_calls_that_run_and_wait(self):
        c = self.crib.init()
        gate = c.dir / "gate"
        os.mkfifo(gate)
        c.tool(crib.tool_yaml("hold", f'{{type: exec, argv: ["/bin/cat", "{gate}"], stdin: none, output: text, sandbox: {{read: ["{c.dir}"]}}}}'))
        key = c.tenant("acme", "hold")
        c.cli("limit", "set", "acme", "--concurrency", "1", "--queue", "1")
        c.start(LISTEN + "limits: {wait: 60000}\n")
        def held():
            text = scrape(c)
            return tuple(text.get(f"toolcrib_tenant_calls_{state}", tenant="acme") for state in ("running", "waiting"))
        peers = [c.tcp(key) for _ in range(2)]
        for n, peer in enumerate(peers):
            peer.send(peer.request("tools/call", {"name": "hold", "arguments": {}}, crib.MODERN))
            crib.wait_for("a call that runs, then one that waits", lambda: held() == (1, n))
        self.assertEqual(scrape(c).get("toolcrib_call_duration_seconds_count", tenant="acme"), 0)
        peers[1].close()                                # who waits leaves
        crib.wait_for("one that runs", lambda: held() == (1, 0))
        self.assertEqual(scrape(c).get("toolcrib_calls_total", tenant="acme", outcome="cancelled"), 1)
        peers[0].close()
        crib.wait_for("none", lambda: held() == (0, 0))
        self.assertEqual(scrape(c).get("toolcrib_call_duration_seconds_count", tenant="acme"), 1)

    def test_quotas_of_the_day(self):
        """Of who has one, in parts of it; and of none whose name is not told."""
        c = self.crib.init()
        c.tool(crib.ECHO)
        keys = {name: c.tenant(name, "echo") for name in ("acme", "bolt", "corp")}
        c.cli("limit", "set", "acme", "--calls-per-day", "4")
        c.cli("limit", "set", "corp", "--calls-per-day", "1")
        c.start('metrics: {listen: "127.0.0.1:0", tenants: 2}\nbudgets: {audit_per_tenant: 1024}\n')
        def used():
            return {(labels["tenant"], labels["of"]): n for labels, n in scrape(c).series("toolcrib_quota_used_ratio")}
        self.assertEqual(used(), {})
        self.call(3, key=keys["acme"])
        self.call(1, key=keys["bolt"])
        self.call(1, key=keys["corp"])
        got = used()
        self.assertEqual(set(got), {("acme", "calls"), ("acme", "audit"), ("bolt", "audit")})
        self.assertEqual(got["acme", "calls"], 0.75)
        self.assertTrue(0 < got["bolt", "audit"] < got["acme", "audit"] < 0.01, got)
        c.cli("limit", "set", "acme", "--calls-per-day", "2")
        self.assertEqual(used()["acme", "calls"], 1.5)

    def test_upstreams_are_up_until_a_link_breaks(self):
        c = self.crib.init()
        key = self.host(c)
        c.cli("upstream", "add", "dead", "--command", "/bin/false")
        c.cli("upstream", "add", "off", "--command", "/bin/cat")
        c.cli("upstream", "set", "off", "--enabled", "no")
        c.start(LISTEN)
        def up():
            return {labels["upstream"]: n for labels, n in scrape(c).series("toolcrib_upstream_up")}
        self.assertEqual(up(), {"e": 1, "dead": 1})
        self.assertNotEqual(c.run("upstream", "sync", "dead").returncode, 0)
        tool = self.sync(c)
        self.assertEqual(up(), {"e": 1, "dead": 0})
        self.assertEqual(scrape(c).series("toolcrib_upstream_duration_seconds_count"), [])
        self.call(2, tool=tool, key=key)
        text = scrape(c)
        self.assertEqual(text.series("toolcrib_upstream_duration_seconds_count"), [({"upstream": "e"}, 2)])
        self.assertGreater(text.get("toolcrib_upstream_duration_seconds_sum", upstream="e"), 0)
        c.cli("upstream", "remove", "dead", "--yes")
        self.assertEqual(up(), {"e": 1})

    def test_methods_are_a_closed_set(self):
        c = self.serve()
        peer = c.tcp(self.key)
        for name in ("x/y", "Tools/Call", "tools/list\n"):
            peer.ask(name, {}, crib.MODERN)
        peer.close()
        text = scrape(c)
        self.assertEqual(text.get("mcp_server_operation_duration_seconds_count", mcp_method_name="other"), 3)
        self.assertEqual({labels["mcp_method_name"] for labels, _ in text.series("mcp_server_operation_duration_seconds_count")},
                         {"other"})

    def test_past_the_bound_all_are_other(self):
        """The limit and one beyond it, of tenants and of tools."""
        c = self.crib.init()
        keys = {}
        for n in range(3):
            c.tool(crib.ECHO.replace("name: echo", f"name: echo{n}"))
        for name in ("first", "second", "third"):
            keys[name] = c.tenant(name, "echo0", "echo1", "echo2")
        c.start('metrics: {listen: "127.0.0.1:0", tenants: 2, tools: 2}\n')
        def named(label):
            return sorted(labels[label] for labels, n in scrape(c).series(f"toolcrib_{label_of[label]}_duration_seconds_count"))
        label_of = {"tenant": "call", "tool": "tool"}
        self.call(key=keys["first"], tool="echo0")
        self.call(key=keys["second"], tool="echo1")
        self.assertEqual((named("tenant"), named("tool")), (["first", "second"], ["echo0", "echo1"]))
        self.assertEqual(scrape(c).get("toolcrib_labels_summed_total"), 0)
        self.call(2, key=keys["third"], tool="echo2")
        self.assertEqual((named("tenant"), named("tool")), (["first", "other", "second"], ["echo0", "echo1", "other"]))
        text = scrape(c, True)
        self.assertEqual(text.get("toolcrib_calls_total", tenant="other", outcome="ok"), 2)
        self.assertGreater(text.get("toolcrib_labels_summed_total"), 0)
        self.absent(get(c)[2], "third", "echo2")

    def test_no_name_at_all(self):
        c = self.serve('metrics: {listen: "127.0.0.1:0", tenants: 0, tools: 0}\n')
        self.call(2)
        for openmetrics in (False, True):
            text = scrape(c, openmetrics)
            self.assertEqual(text.get("toolcrib_calls_total", outcome="ok"), 2)
            self.assertEqual(text.get("toolcrib_tool_duration_seconds_count"), 2)
        said = get(c)[2] + get(c, headers={"Accept": PROMETHEUS})[2]
        self.absent(said, "acme", "tenant=", "tool=", '"echo"')

    def test_an_alias_is_not_told(self):
        """Tools have the name that all tenants share; what a tenant calls them is its own business."""
        c = self.crib.init()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo --as acme-secret-project")
        c.start(LISTEN)
        self.call(key=key, tool="acme-secret-project")
        self.absent(get(c)[2], "secret-project")
        self.assertEqual(scrape(c).get("toolcrib_tool_calls_total", tool="echo", outcome="ok"), 1)

    def test_a_sampled_trace_is_an_exemplar(self):
        c = self.serve()
        trace = "0af7651916cd43dd8448eb211c80319c"
        peer = c.tcp(self.key)
        def call(flags):
            message = peer.request("tools/call", {"name": "echo", "arguments": {"text": "x"}}, crib.MODERN)
            message["params"]["_meta"]["traceparent"] = f"00-{trace}-b7ad6b7169203331-{flags}"
            peer.send(message)
            self.assertIn("result", peer.answer(message["id"]))
        call("00")
        self.assertEqual(scrape(c, True).exemplars, {})
        call("01")
        got = scrape(c, True).exemplars
        self.assertEqual({name for name, _ in got}, {"toolcrib_call_duration_seconds_bucket", "toolcrib_tool_duration_seconds_bucket"})
        ids = {row["call"] for row in c.json("audit", "calls")}
        for (_, labels), (said, value, _) in got.items():
            self.assertEqual(said["trace_id"], trace)
            self.assertIn(said["call"], ids)
            self.assertLessEqual(value, float(dict(labels)["le"].replace("+Inf", "inf")))
        peer.close()
        scrape(c)                                       # 0.0.4 has none


class Ready(Case):
    def test_a_server_that_drains_says_so_until_it_ends(self):
        """OP-103; and calls that run go on meanwhile."""
        c = self.crib.init()
        c.tool(crib.tool_yaml("hold", '{type: exec, argv: ["/bin/sleep", "60"], stdin: none, output: text}'))
        key = c.tenant("acme", "hold")
        c.start(LISTEN + "drain_ms: 60000\n")
        self.assertEqual(get(c, "/readyz")[::2], (200, '{"ready":true}\n'))
        peer = c.tcp(key)
        peer.send(peer.request("tools/call", {"name": "hold", "arguments": {}}, crib.MODERN))
        crib.wait_for("a call that runs", lambda: c.status()["running"] == 1)
        c.daemon.send_signal(signal.SIGTERM)
        got = crib.wait_for("a server that is not ready", lambda: (r := get(c, "/readyz"))[0] == 503 and r)
        self.assertEqual(got[2], '{"ready":false,"reasons":["draining"]}\n')
        self.assertEqual(get(c, "/readyz", "HEAD")[0], 503)
        self.assertEqual(get(c, "/healthz")[::2], (200, "ok\n"))
        text = scrape(c)
        self.assertEqual((text.get("toolcrib_calls_running"), text.get("toolcrib_ready")), (1, 0))
        peer.close()
        c.stop()

    def test_a_signer_that_does_not_sign_holds_calls(self):
        c = self.crib.init()
        c.start(LISTEN + "audit: {checkpoint_max_age: 5}\n")
        signer = next(pid for pid, name in crib.below(c.daemon.pid).items() if name == "toolcrib-sign")
        os.kill(signer, signal.SIGSTOP)
        c.set_up("tenant add", "acme", name="acme")     # something that is to be signed
        got = crib.wait_for("a server that is not ready", lambda: (r := get(c, "/readyz"))[0] == 503 and r, 60)
        self.assertEqual(got[2], '{"ready":false,"reasons":["audit: checkpoints of the audit cannot be signed"]}\n')
        self.assertEqual(refusing(scrape(c)), ["signer"])
        with contextlib.suppress(ProcessLookupError):   # the server may have ended it, and started another
            os.kill(signer, signal.SIGCONT)
        crib.wait_for("a server that is ready", lambda: get(c, "/readyz")[0] == 200, 60)


class Refused(Case):
    """OP-103: calls are refused because of the store: /readyz says why, until the store can be written again, also when nobody calls."""

    def broken(self):
        """A server whose disk hangs while there is the file `hang`, and fails while there is `bad`."""
        self.hang, self.bad = self.crib.dir / "hang", self.crib.dir / "bad"
        return self.serve(LISTEN + "audit: {deadline_ms: 500}\n", env={
            "LD_PRELOAD": str(crib.BUILD / "tests/integ/die.so"), "ASAN_OPTIONS": "verify_asan_link_order=0",
            "TOOLCRIB_TEST_HANG": str(self.hang), "TOOLCRIB_TEST_BAD": str(self.bad)})

    def refuses(self, why, reason):
        """A call, without having run; and from then on health says so at each look."""
        peer = self.crib.http(self.key)
        error = peer.call("echo", {"text": "x"}, crib.MODERN)["error"]
        peer.close()
        self.assertEqual((error["code"], error["data"]["executed"]), (5030, False))
        said = (503, '{"ready":false,"reasons":["audit: %s"]}\n' % why)
        crib.wait_for(said, lambda: get(self.crib, "/readyz")[::2] == said)        # a lock is first waited for
        for _ in range(40):
            self.assertEqual(get(self.crib, "/readyz")[::2], said)
            self.assertEqual(refusing(scrape(self.crib)), [reason])
        self.assertEqual(get(self.crib, "/healthz")[0], 200)

    def is_back(self):
        crib.wait_for("a server that is ready, without a call", lambda: get(self.crib, "/readyz")[0] == 200)
        self.call(3)
        self.assertEqual(self.crib.stop(), 0)
        self.crib.cli("audit", "verify")

    def test_another_program_holds_the_store(self):
        self.serve(LISTEN + "audit: {deadline_ms: 500}\n")
        with contextlib.closing(sqlite3.connect(self.crib.store / "toolcrib.db", isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            self.refuses("another program holds the store", "full")
            db.execute("ROLLBACK")
        self.is_back()
        self.assertGreater(self.crib.rows("SELECT count(*) FROM v_records WHERE kind = 'audit.fail'")[0][0], 0)

    def test_files_of_the_store_are_not_where_they_were(self):
        c = self.serve()
        db, other = c.store / "toolcrib.db", c.store / "elsewhere"
        db.rename(other)
        self.refuses("the store cannot be written, or its files are not where they were", "full")
        other.rename(db)
        self.is_back()

    def test_a_disk_that_does_not_answer(self):
        self.broken()
        self.hang.touch()
        self.refuses("the disk of the store does not answer", "stalled")
        self.hang.unlink()
        self.is_back()

    def test_a_disk_that_fails_is_said_before_the_end(self):
        """AUDIT A-216: nothing is flushed twice, so the server ends; who asks each second has heard why."""
        c = self.broken()
        self.bad.touch()
        peer = c.http(self.key)
        self.assertEqual(peer.call("echo", {"text": "x"}, crib.MODERN)["error"]["code"], 5030)
        peer.close()
        self.assertEqual(get(c, "/readyz")[::2], (503, '{"ready":false,"reasons":["audit: the store has failed; restart to recover"]}\n'))
        self.assertEqual(refusing(scrape(c)), ["failed"])
        self.assertNotEqual(c.daemon.wait(crib.DEADLINE), 0)
        self.bad.unlink()
        c.start(LISTEN)
        self.is_back()


class FullDisk(crib.SmallDisk):
    def test_a_full_disk_is_said_and_metrics_are_still_told(self):
        c = self.crib.init().start(LISTEN + "audit: {space_floor: 8}\n")
        ballast = c.dir / "ballast-of-the-test"
        with open(ballast, "wb", buffering=0) as f:
            try:
                while True:
                    f.write(b"\0" * 65536)
            except OSError:
                pass
        got = crib.wait_for("a server that is not ready", lambda: (r := get(c, "/readyz"))[0] == 503 and r)
        self.assertRegex(got[2], r'^\{"ready":false,"reasons":\["audit: [^"]*space[^"]*"\]\}\n$')
        self.assertTrue(set(refusing(scrape(c))) & {"space", "full"})
        ballast.unlink()
        crib.wait_for("a server that is ready", lambda: get(c, "/readyz")[0] == 200)


if __name__ == "__main__":
    crib.main()
