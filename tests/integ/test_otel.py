"""Traces (OP-401 to OP-407): a caller's goes on through the server, whose spans reach a collector that reads them strictly, and a
collector that hangs, lies or is away costs a counter, never a call."""
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import threading

import certs
import crib
import otlp
from test_upstream_http import Server

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SECRET = "tok-3fb1a9c7e5"
PROTO = pathlib.Path(__file__).with_name("otlp.proto")


def of_trace(flags="01", trace=TRACE, parent=PARENT):
    return f"00-{trace}-{parent}-{flags}"


class Case(crib.Case):
    def collector(self, tls=None):
        collector = otlp.Collector(tls)
        self.addCleanup(collector.close)
        return collector

    def upstream(self):
        server = Server(crib.MODERN)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        for step in (server.server_close, thread.join, server.shutdown, server.over.set):
            self.addCleanup(step)
        return server

    def serve(self, collector, more=""):
        c = self.crib.init()
        self.server = self.upstream()
        address = f"127.0.0.1:{self.server.server_address[1]}"
        for text in (crib.ECHO, crib.tool_yaml("env", '{type: exec, argv: ["/usr/bin/env"], output: text}'),
                     crib.tool_yaml("web", f"{{type: http, method: POST, url: 'http://{address}/hooks/{SECRET}', "
                                    "body: {jsonrpc: '2.0', id: 1, method: tools/list}, allow: {private: true}}")):
            c.tool(text)
        self.key = c.tenant("acme", "u_*", "echo", "env", "web")
        c.cli("upstream", "add", "u", "--url", f"http://{address}/mcp", "--allow-private", "yes", "--shared", "yes")
        c.start(f"otel:\n  endpoint: {collector.url}\n{more}")
        c.cli("upstream", "sync", "u")
        self.peer = c.tcp(self.key)
        self.addCleanup(self.peer.close)
        return c

    def call(self, tool, arguments=None, **meta):
        return self.peer.call(tool, arguments or {}, crib.MODERN, _meta=meta)

    def counters(self):
        return {name: n for name, n in self.crib.status()["counters"].items() if name.startswith("otel_")}

    def flushed(self, collector):
        """All spans: the server ends, which sends them."""
        self.peer.close()
        self.crib.stop()
        return collector.spans()


class Traces(Case):
    def test_a_trace_of_a_client_goes_on_into_an_upstream(self):
        """Issue 19, show 4: the parents match at all three."""
        collector = self.collector()
        c = self.serve(collector)
        got = self.call("u_echo", {"text": "x"}, traceparent=of_trace(), tracestate="a=1,b=2", baggage="user=ann")
        self.assertIn("result", got)
        sent = self.server.calls("tools/call")[0][1]["params"]["_meta"]
        record = c.json("audit", "calls")[0]
        spans = {span["kind"]: span for span in self.flushed(collector) if span["trace_id"] == TRACE}
        self.assertEqual(set(spans), {otlp.SERVER, otlp.CLIENT})
        server, client = spans[otlp.SERVER], spans[otlp.CLIENT]
        self.assertEqual(server["parent"], PARENT)
        self.assertEqual(client["parent"], server["span_id"])
        self.assertEqual(sent["traceparent"], of_trace(parent=client["span_id"]))
        self.assertEqual((sent["tracestate"], server["trace_state"], client["trace_state"]), ("a=1,b=2",) * 3)
        self.assertNotIn("baggage", sent)
        self.assertEqual((server["name"], client["name"]), ("tools/call u_echo", "tools/call echo"))
        self.assertEqual(server["flags"], 0x301)
        self.assertEqual(client["flags"], 0x101)
        of = server["attributes"]
        self.assertEqual(of["toolcrib.call"], record["call"])
        self.assertEqual([event["name"] for event in server["events"]], ["admitted", "begin.durable", "started", "ended", "end.durable"])
        want = {"mcp.method.name": "tools/call", "mcp.protocol.version": crib.MODERN, "gen_ai.tool.name": "u_echo",
                "gen_ai.operation.name": "execute_tool", "network.transport": "tcp", "toolcrib.tenant": "acme", "toolcrib.outcome": "ok"}
        self.assertEqual({key: of.get(key) for key in want}, want)
        want = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "echo", "toolcrib.upstream": "u", "toolcrib.tenant": "acme"}
        self.assertEqual({key: client["attributes"].get(key) for key in want}, want)
        self.assertNotIn("status", server)

    def test_tools_over_http_and_programs_have_a_span_of_ours_as_their_parent(self):
        """OP-403, OP-404; and OP-003: neither an argument nor the path of a URL is in any span."""
        collector = self.collector()
        self.serve(collector)
        there = self.call("env", {}, traceparent=of_trace(), tracestate="a=1")["result"]["content"][0]["text"]
        env = dict(line.split("=", 1) for line in there.splitlines())
        self.call("web", {"text": SECRET}, traceparent=of_trace())
        self.call("echo", {"text": SECRET}, traceparent=of_trace())
        web = self.server.seen[-1][0]
        spans = self.flushed(collector)
        by_id = {span["span_id"]: span for span in spans}
        for name, said in (("exec", env["TRACEPARENT"]), ("POST", web["traceparent"])):
            one, = [span for span in spans if span["name"] == name]
            self.assertEqual(said, of_trace(parent=one["span_id"]))
            self.assertEqual(by_id[one["parent"]]["kind"], otlp.SERVER)
            self.assertEqual(one["kind"], otlp.INTERNAL if name == "exec" else otlp.CLIENT)
        self.assertEqual(env["TRACESTATE"], "a=1")
        one, = [span for span in spans if span["name"] == "POST"]
        want = {"http.request.method": "POST", "server.address": "127.0.0.1", "server.port": self.server.server_address[1],
                "http.response.status_code": 200}
        self.assertEqual({key: one["attributes"].get(key) for key in want}, want)
        for body in collector.bodies:
            self.assertNotIn(SECRET.encode(), body)

    def test_a_trace_begins_here_where_the_caller_has_none(self):
        """OP-402, OP-405: with an id of ours, on record, sampled or not; as many as `sample` says."""
        collector = self.collector()
        c = self.serve(collector, "  sample: 0\n")
        self.call("u_echo", {"text": "x"})
        sent = self.server.calls("tools/call")[0][1]["params"]["_meta"]["traceparent"]
        self.assertRegex(sent, "^00-[0-9a-f]{32}-[0-9a-f]{16}-02$")
        call = c.json("audit", "calls")[0]["call"]
        self.assertIn(sent[3:35], c.cli("audit", "export", "--format", "jsonl"))
        self.assertEqual(self.counters()["otel_spans_waiting"], 0)
        self.assertEqual(self.flushed(collector), [])

    def test_what_goes_wrong_is_sent_though_nobody_samples_it(self):
        """OP-405"""
        collector = self.collector()
        self.serve(collector, "  sample: 0\n")
        self.call("u_echo", {"text": "x"}, traceparent=of_trace("00"))
        self.call("nothing-of-that-name", {"text": SECRET}, traceparent=of_trace("00"))
        span, = self.flushed(collector)
        self.assertEqual((span["name"], span["status"], span["flags"]), ("tools/call", {"code": 2}, 0x300))
        self.assertEqual((span["attributes"]["rpc.response.status_code"], span["attributes"]["error.type"]), ("-32602", "-32602"))
        self.assertNotIn("gen_ai.tool.name", span["attributes"])

    def test_a_stranger_does_not_buy_all_spans(self):
        """OP-405: above parent_limit `sample` counts, and that for each tenant by itself: none sees another's flags change."""
        collector = self.collector()
        c = self.serve(collector, "  sample: 0\n  parent_limit: 0\n")
        self.call("u_echo", {"text": "x"}, traceparent=of_trace())
        sent = self.server.calls("tools/call")[0][1]["params"]["_meta"]["traceparent"]
        self.assertEqual((sent[:35], sent[-2:]), (of_trace()[:35], "00"))
        self.assertEqual(self.counters()["otel_parents_refused"], 1)
        self.assertEqual(self.flushed(collector), [])

    def test_the_context_of_the_http_request_is_a_link(self):
        """OP-402: beside one in `_meta`; alone it is the parent."""
        collector = self.collector()
        c = self.serve(collector)
        other, third = "11" * 16, "22" * 16
        peer = c.http(self.key)
        def ask(header, meta):
            message = peer.request("tools/call", {"name": "echo", "arguments": {"text": "x"}}, crib.MODERN)
            message["params"]["_meta"].update(meta)
            headers = {**peer.headers(message), "traceparent": header}
            status, _, _ = peer.post(json.dumps(message), headers)
            self.assertEqual(status, 200)
        ask(of_trace(trace=other), {"traceparent": of_trace()})
        ask(of_trace(trace=third), {})
        peer.close()
        spans = {span["trace_id"]: span for span in self.flushed(collector)}
        self.assertEqual(set(spans), {TRACE, third})
        link, = spans[TRACE]["links"]
        self.assertEqual((link["trace_id"].hex(), link["span_id"].hex()), (other, PARENT))
        self.assertEqual((spans[third]["parent"], spans[third]["links"]), (PARENT, []))
        self.assertEqual(spans[third]["attributes"]["network.protocol.name"], "http")

    def test_headers_and_resource(self):
        """OP-406: from a file of their own; and who says all this."""
        collector = self.collector()
        file = self.crib.dir / "otel.headers"
        file.write_text(f"# of the collector\nAuthorization: Bearer {SECRET}\n\n")
        file.chmod(0o600)
        c = self.serve(collector, f"  headers_file: {file}\n  resource: 'deployment.environment.name=pr%2Cod,service.name=crib'\n")
        self.call("echo", {"text": "x"}, traceparent=of_trace())
        self.flushed(collector)
        self.assertEqual(collector.headers[0]["authorization"], f"Bearer {SECRET}")
        self.assertEqual(collector.headers[0]["content-type"], "application/x-protobuf")
        request, = collector.requests()
        of, = request["resource_spans"]
        said = otlp.attributes(of["resource"]["attributes"])
        self.assertEqual((said["deployment.environment.name"], said["service.name"]), ("pr,od", "crib"))
        self.assertEqual(set(said), {"deployment.environment.name", "service.name", "service.version", "service.instance.id", "process.pid"})
        self.assertEqual(of["scope_spans"][0]["scope"]["name"], "toolcrib")
        self.assertNotIn(SECRET.encode(), collector.bodies[0])

    def test_a_reload_reads_the_headers_again_and_samples_anew(self):
        """otel.sample is in force at once, otel.endpoint waits for a restart, and a file that is at fault changes nothing."""
        collector = self.collector()
        file = self.crib.dir / "otel.headers"
        file.write_text("X-Key: before\n")
        file.chmod(0o600)
        c = self.serve(collector, f"  headers_file: {file}\n  sample: 0\n")
        self.call("echo", {"text": "x"})
        file.write_text("no header\n")
        done = c.run("reload")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("otel.headers:1", done.stderr)
        file.write_text("X-Key: after\n")
        c.config(f"otel:\n  endpoint: {collector.url}/elsewhere\n  headers_file: {file}\n  sample: 100\n")
        self.assertIn("needs a restart: otel.endpoint", c.cli("reload"))
        self.call("echo", {"text": "x"})
        self.assertEqual(len(self.flushed(collector)), 1)
        self.assertEqual(collector.headers[0]["x-key"], "after")

    def test_over_tls(self):
        """OP-006: with the authority that otel.ca names, and with no other."""
        ca = certs.Ca(self.crib.dir)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*ca.sign("collector", "IP:127.0.0.1"))
        collector = self.collector(context)
        self.serve(collector, f"  ca: {ca.cert}\n")
        self.call("echo", {"text": "x"}, traceparent=of_trace())
        self.assertEqual(len(self.flushed(collector)), 1)
        bodies = len(collector.bodies)
        self.crib.start(f"otel: {{endpoint: '{collector.url}'}}")
        self.peer = self.crib.tcp(self.key)
        self.assertIn("result", self.call("echo", {"text": "x"}, traceparent=of_trace()))
        self.peer.close()
        self.crib.stop()
        self.assertEqual(len(collector.bodies), bodies)
        self.assertIn("spans are not taken", self.crib.log.read_text())

    def test_protoc_reads_the_same(self):
        """The second opinion: every field is known to it."""
        protoc = shutil.which("protoc")
        if not protoc:
            self.skipTest("protoc is not there: Debian's package protobuf-compiler has it")
        collector = self.collector()
        self.serve(collector)
        self.call("u_echo", {"text": "x"}, traceparent=of_trace(), tracestate="a=1")
        spans = self.flushed(collector)
        done = subprocess.run([protoc, "--decode=ExportTraceServiceRequest", f"--proto_path={PROTO.parent}", PROTO.name],
                              input=collector.bodies[0], stdout=subprocess.PIPE, check=True)
        text = done.stdout.decode()
        self.assertNotRegex(text, r"(?m)^\s*\d+(:| \{)", "a field without a name")
        self.assertEqual(text.count(" span_id: ") + text.count("parent_span_id: "), len(spans) + sum("parent" in span for span in spans))


class Bad(Case):
    """Of a collector that is not as it should be, no call hears."""

    def fails(self, say, more=""):
        collector = self.collector()
        collector.say = say
        c = self.serve(collector, more)
        for _ in range(3):
            self.assertIn("result", self.call("echo", {"text": "x"}, traceparent=of_trace()))
        return collector

    def test_one_that_refuses_some(self):
        collector = self.fails(lambda: (200, {}, b"\x0a\x06\x08\x02\x12\x02no"))
        crib.wait_for("an answer", lambda: self.counters()["otel_spans_rejected"])
        self.assertEqual({name: n for name, n in self.counters().items() if n},
                         {"otel_spans_sent": 1, "otel_spans_rejected": 2})

    def test_one_that_is_busy_gets_them_later(self):
        answers = [(503, {"Retry-After": "0"}, b""), (429, {}, b"")]
        collector = self.fails(lambda: answers.pop(0) if answers else (200, {}, b""))
        crib.wait_for("them to be taken", lambda: self.counters()["otel_spans_sent"] == 3)
        self.assertEqual(self.counters()["otel_requests_failed"], 2)
        self.assertEqual(len(set(collector.bodies)), 1, "the same each time")
        self.assertNotIn("not taken", self.crib.status()["traces"])

    def test_one_that_hangs_holds_up_no_end(self):
        """OP-407"""
        collector = self.fails(lambda: None)
        self.peer.close()
        self.crib.stop()
        self.assertEqual(len(collector.bodies), 1)


class Configuration(Case):
    def test_what_is_wrong_is_said_with_its_place(self):
        c = self.crib.init()
        file = c.dir / "otel.headers"
        def check(text, mode=0o600, headers=None):
            if headers is not None:
                file.write_text(headers)
                file.chmod(mode)
            path = c.dir / "bad.yaml"
            path.write_text(text)
            done = subprocess.run([str(crib.BUILD / "toolcribd"), "--check-config", "-c", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, env={**os.environ, "TOOLCRIB_STORE": str(c.store)})
            return done.returncode, done.stdout + done.stderr
        bad = (("otel: {endpoint: 'ftp://x'}", None, "bad.yaml:1:"), ("otel: {endpoint: 'http://x:4318?a=b'}", None, "has no query"),
               ("otel: {sample: 101}", None, "bad.yaml:1:"), ("otel: {resource: a=b}", None, "otel.endpoint, which is missing"),
               ("otel: {endpoint: 'http://127.0.0.1:4318', resource: 'ab'}", None, "no key=value"),
               ("otel: {endpoint: 'http://127.0.0.1:4318', resource: '%s'}" % ",".join(f"k{i}=v" for i in range(33)), None, "at most 32"),
               (f"otel: {{endpoint: 'http://10.0.0.1:4318', headers_file: {file}}}", "A: b\n", "this is not https"),
               (f"otel: {{endpoint: 'http://127.0.0.1:4318', headers_file: {file}}}", f"{SECRET}\n", "otel.headers:1"),
               (f"otel: {{endpoint: 'http://127.0.0.1:4318', headers_file: {file}}}", f"Host: {SECRET}\n", "cannot be a header"),
               (f"otel: {{endpoint: 'http://127.0.0.1:4318', headers_file: {file}}}", "A: b\n" * 17, "at most 16"))
        for text, headers, want in bad:
            with self.subTest(text=text):
                status, said = check(text, headers=headers)
                self.assertNotEqual(status, 0)
                self.assertIn(want, said)
                self.assertNotIn(SECRET, said)
        text = f"otel: {{endpoint: 'http://127.0.0.1:4318', headers_file: {file}}}"
        self.assertNotEqual(check(text, 0o644, "A: b\n")[0], 0)
        self.assertEqual(check(text, 0o600, "A: b\n" * 16), (0, check(text)[1]))


if __name__ == "__main__":
    crib.main()
