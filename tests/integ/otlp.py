"""A collector of traces in this process: OTLP over HTTP, whose protobuf it reads strictly, and answers as a test wants it.

What is no ExportTraceServiceRequest of the v1 packages, to the field, to the type and to the shortest form of each number, is a
failure of the test that looks at it."""
import http.server
import struct
import threading

STRING, BYTES, VARINT, FIXED64, FIXED32 = range(5)
WIRE = {STRING: 2, BYTES: 2, VARINT: 0, FIXED64: 1, FIXED32: 5}
# Of each message: number of a field -> its name, its kind or the fields of a message, and whether there may be several.
ANY = {1: ("string", STRING, False), 2: ("bool", VARINT, False), 3: ("int", VARINT, False)}
KEY_VALUE = {1: ("key", STRING, False), 2: ("value", ANY, False)}
EVENT = {1: ("time", FIXED64, False), 2: ("name", STRING, False), 3: ("attributes", KEY_VALUE, True)}
LINK = {1: ("trace_id", BYTES, False), 2: ("span_id", BYTES, False), 6: ("flags", FIXED32, False)}
STATUS = {2: ("message", STRING, False), 3: ("code", VARINT, False)}
SPAN = {1: ("trace_id", BYTES, False), 2: ("span_id", BYTES, False), 3: ("trace_state", STRING, False), 4: ("parent", BYTES, False),
        5: ("name", STRING, False), 6: ("kind", VARINT, False), 7: ("start", FIXED64, False), 8: ("end", FIXED64, False),
        9: ("attributes", KEY_VALUE, True), 10: ("dropped", VARINT, False), 11: ("events", EVENT, True), 13: ("links", LINK, True),
        15: ("status", STATUS, False), 16: ("flags", FIXED32, False)}
SCOPE = {1: ("name", STRING, False), 2: ("version", STRING, False)}
SCOPE_SPANS = {1: ("scope", SCOPE, False), 2: ("spans", SPAN, True)}
RESOURCE = {1: ("attributes", KEY_VALUE, True)}
RESOURCE_SPANS = {1: ("resource", RESOURCE, False), 2: ("scope_spans", SCOPE_SPANS, True)}
REQUEST = {1: ("resource_spans", RESOURCE_SPANS, True)}
LOG = {1: ("time", FIXED64, False), 2: ("severity", VARINT, False), 5: ("body", ANY, False), 6: ("attributes", KEY_VALUE, True),
       9: ("trace_id", BYTES, False), 12: ("event_name", STRING, False)}
LOGS = {1: ("resource_logs", {1: ("resource", RESOURCE, False), 2: ("scope_logs", {1: ("scope", SCOPE, False),
                                                                                  2: ("records", LOG, True)}, True)}, True)}
INTERNAL, SERVER, CLIENT = 1, 2, 3


class Broken(Exception):
    pass


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if (byte == 0 and shift) or value >> 64:
                raise Broken("a number that is longer than it need be")
            return value, at
        shift += 7


def decode(data, fields):
    """A message as a dict; those that may come often are lists."""
    got = {name: [] for name, _, many in fields.values() if many}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag >> 3 not in fields:
            raise Broken(f"no field {tag >> 3}")
        name, kind, many = fields[tag >> 3]
        if tag & 7 != (2 if isinstance(kind, dict) else WIRE[kind]):
            raise Broken(f"{name} has the type {tag & 7}")
        if tag & 7 == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(tag & 7)
            if size is None:
                size, at = varint(data, at)
            raw, at = data[at:at + size], at + size
            if len(raw) != size:
                raise Broken(f"{name} is cut off")
            value = decode(raw, kind) if isinstance(kind, dict) else struct.unpack("<Q", raw)[0] if kind == FIXED64 else \
                struct.unpack("<I", raw)[0] if kind == FIXED32 else raw.decode() if kind == STRING else raw
        if many:
            got[name].append(value)
        elif name in got:
            raise Broken(f"{name} comes twice")
        else:
            got[name] = value
    return got


def attributes(pairs):
    got = {}
    for pair in pairs:
        (kind, value), = pair["value"].items()
        if pair["key"] in got:
            raise Broken(f"{pair['key']} comes twice")
        got[pair["key"]] = bool(value) if kind == "bool" else value - (1 << 64) if kind == "int" and value >> 63 else value
    return got


def span(raw):
    got = dict(raw, attributes=attributes(raw["attributes"]))
    for name, size in (("trace_id", 16), ("span_id", 8), ("parent", 8)):
        if name in got:
            if len(got[name]) != size or not any(got[name]):
                raise Broken(f"{name} is no id")
            got[name] = got[name].hex()
    if not got["start"] <= got["end"] or not got["name"]:
        raise Broken("a span without a time or a name")
    if any(not got["start"] <= event["time"] <= got["end"] for event in got["events"]):
        raise Broken("an event outside of its span")
    return got


class Collector(http.server.ThreadingHTTPServer):
    """`bodies` and `headers` of what came; `say(request)` gives status, headers and body of the answer, None: never."""
    daemon_threads = True

    def __init__(self, tls=None, path="/v1/traces", port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.tls, self.path = tls, path         # an ssl.SSLContext
        self.bodies, self.headers = [], []
        self.say = lambda: (200, {}, b"")
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def url(self):
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.server_address[1]}"

    def get_request(self):
        sock, address = super().get_request()
        return self.tls.wrap_socket(sock, server_side=True) if self.tls else sock, address

    def close(self):
        self.over.set()
        self.shutdown()
        self.thread.join()
        self.server_close()

    def requests(self):
        return [decode(body, REQUEST) for body in self.bodies]

    def spans(self):
        return [span(raw) for request in self.requests() for of in request["resource_spans"] for scope in of["scope_spans"]
                for raw in scope["spans"]]


def logs(body):
    """The records of one ExportLogsServiceRequest."""
    found = [dict(raw, attributes=attributes(raw["attributes"])) for of in decode(body, LOGS)["resource_logs"] for scope in of["scope_logs"]
             for raw in scope["records"]]
    if any(not raw["time"] or "trace_id" in raw and (len(raw["trace_id"]) != 16 or not any(raw["trace_id"])) for raw in found):
        raise Broken("a record without a time, or with a trace that is none")
    return found


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        if server.over.is_set():        # a connection that is kept from before
            self.close_connection = True
            return
        answer = server.say() if self.path == server.path else (404, {}, b"")
        server.headers.append(self.headers)
        server.bodies.append(body)
        if answer is None:
            server.over.wait()
            self.close_connection = True
            return
        status, headers, content = answer
        self.send_response(status)
        for name, value in {"Content-Type": "application/x-protobuf", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words):
        pass
