"""Every tool of contrib/examples, called as an agent calls it, and the level that the record of its call has beside the one that
contrib/examples/README promises (OPERATE 9).  For what serves in a network of its own: what the tools ask for elsewhere is on
loopback of that network, under the names and addresses that their definitions have."""
import concurrent.futures
import contextlib
import ctypes
import http.server
import json
import os
import pathlib
import re
import ssl
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integ"))
import crib     # noqa: E402

SOURCE = pathlib.Path(os.environ.get("TOOLCRIB_SRCDIR", pathlib.Path(__file__).resolve().parents[2])).resolve()
DEADLINE = float(os.environ.get("TOOLCRIB_TEST_DEADLINE", 60))
TENANT = "shop"
SECRET = "s3cret-of-the-tracker"
# An address that anybody may ask, one of a private network.
HOSTS = {"en.wikipedia.org": ("198.35.26.96", 443), "tracker.internal": ("10.11.12.13", 8080)}
# What an agent says and what it hears.
CALLS = {
    "get_weather": ({"location": "Oslo"}, r'"location": ?"Oslo"'),
    "query_database": ({"query": "SELECT name FROM users WHERE id = 1", "database": "users"}, r"Ada Novak"),
    "word_count": ({"text": "one two\n"}, r"1 lines, 2 words, 8 characters"),
    "look_up": ({"subject": "Tool crib"}, r"A room for tools"),
    "create_ticket": ({"title": "It leaks", "labels": ["bug"]}, r'"number": ?17'),
    "deploy": ({"service": "shop", "version": "1.4.2"}, r'"reason": ?"it is time"'),
}
# An MCP server that is a program, with one tool; README of the examples has none of this kind.
SERVER = r"""#!/bin/sh
while IFS= read -r line; do
	case $line in *'"id":'*) ;; *) continue ;; esac
	id=${line#*'"id":'}
	id=${id%%[,\}]*}
	case $line in
	*'"method":"initialize"'*)
		said='"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"far","version":"1"}}' ;;
	*'"method":"tools/list"'*) said='"result":{"tools":[{"name":"greet","description":"Greets.","inputSchema":{"type":"object"}}]}' ;;
	*'"method":"tools/call"'*) said='"result":{"content":[{"type":"text","text":"greetings"}]}' ;;
	*) said='"error":{"code":-32601,"message":"no such method"}' ;;
	esac
	printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$said"
done
"""


def wait_for(what, true):
    end = time.monotonic() + DEADLINE
    while True:
        got = true()
        if got:
            return got
        if time.monotonic() > end:
            raise AssertionError(f"no {what} within {DEADLINE} s")
        time.sleep(0.05)


def in_network(pid, do):
    """What do() gives on a thread whose sockets are of this process's network."""
    def there():
        with open(f"/proc/{pid}/ns/net", "rb") as space:
            if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), 0x40000000):
                raise OSError(ctypes.get_errno(), "setns")
        return do()
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(there).result()


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """The encyclopedia and the tracker."""

    heard = []

    def log_message(self, *_):
        pass

    def answer(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        known = self.path == "/api/rest_v1/page/summary/Tool%20crib" and self.headers["Host"] == "en.wikipedia.org"
        self.answer(*((200, {"extract": "A room for tools."}) if known else (404, {})))

    def do_POST(self):
        self.heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        known = (self.path, self.headers["Host"], self.headers["Authorization"]) == ("/api/tickets", "tracker.internal:8080", f"Bearer {SECRET}")
        self.answer(*((201, {"number": 17}) if known else (403, {})))


def authority(folder, run):
    """Whom a server has to believe, and with that a certificate of the encyclopedia."""
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=of the tests",
        "-keyout", folder / "ca.key", "-out", folder / "ca.crt", "-addext", "basicConstraints=critical,CA:true")
    run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=en.wikipedia.org",
        "-keyout", folder / "far.key", "-out", folder / "far.csr")
    (folder / "far.ext").write_text("subjectAltName=DNS:en.wikipedia.org\n")
    run("openssl", "x509", "-req", "-in", folder / "far.csr", "-CA", folder / "ca.crt", "-CAkey", folder / "ca.key", "-days", "2",
        "-CAcreateserial", "-extfile", folder / "far.ext", "-out", folder / "far.crt")
    return folder / "ca.crt"


@contextlib.contextmanager
def elsewhere(pid, folder, run):
    """The hosts, in the network of a process."""
    servers = []
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "far.crt", folder / "far.key")
    try:
        for address, port in HOSTS.values():
            run("nsenter", "-n", "-t", pid, "ip", "address", "replace", f"{address}/32", "dev", "lo")
            servers.append(in_network(pid, lambda: http.server.ThreadingHTTPServer((address, port), Elsewhere)))    # noqa: B023
            if port == 443:
                servers[-1].socket = tls.wrap_socket(servers[-1].socket, server_side=True)
            threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        yield
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def promised(where):
    """Level by tool, of the table in the examples' README; its column is named by where it runs."""
    rows = [[cell.strip().strip("`") for cell in line.strip("|\n ").split("|")]
            for line in (SOURCE / "contrib/examples/README").read_text().splitlines() if line.startswith("|")]
    column = rows[0].index(where)
    return {row[0]: "" if row[column] == "none" else row[column] for row in rows[2:]}


def meets(reached, wanted):
    """Does a level have all layers of another, of Landlock at least the same ABI?"""
    layers = [dict(part.partition(":")[::2] for part in level.split("+") if part) for level in (reached, wanted)]
    return not reached if not wanted else all(name in layers[0] and int(layers[0][name] or 0) >= int(abi or 0) for name, abi in layers[1].items())


def add(crib, folder):
    """All of them are a tenant's, and one of an upstream; a key for its agent.  crib(command…) is toolcrib where they are."""
    crib("tenant", "add", TENANT)
    crib("secret", "set", "tracker", input=SECRET)
    crib("tool", "add", *[f"{folder}/{name}.yaml" for name in CALLS])
    crib("upstream", "add", "far", "--command", f"{folder}/server")
    crib("upstream", "sync", "far")
    for name in (*CALLS, "far_greet"):
        crib("grant", "add", TENANT, name)
    return crib("--quiet", "key", "create", f"{TENANT}/bot").stdout.strip()


def converse(key, name, address=("127.0.0.1", 8808)):
    """One call over HTTP, and the answer to what it asks the person behind it; the result."""
    peer = crib.Http(address, key)
    try:
        params = {"arguments": CALLS.get(name, ({}, ""))[0], "rev": crib.MODERN, "caps": {"elicitation": {}}}
        got = peer.call(name, **params)
        if got.get("result", {}).get("inputRequests"):
            answers = {asked: {"action": "accept", "content": {"reason": "it is time"}} for asked in got["result"]["inputRequests"]}
            got = peer.call(name, **params, requestState=got["result"]["requestState"], inputResponses=answers)
        return got
    finally:
        peer.close()


def check(case, pid, key, rows, where):
    """Call each and compare; rows(command…) are those of toolcrib --json where they are.  What each had, as lines."""
    wanted = promised(where)
    case.assertEqual({path.stem for path in (SOURCE / "contrib/examples").glob("*.yaml")}, set(wanted), "README has each")
    case.assertEqual(set(CALLS), set(wanted), "and so has this test")
    wanted["far_greet"] = wanted["word_count"]          # toolcrib-tool(5): as for exec
    lines, levels = [], set()
    for name, least in wanted.items():
        got = in_network(pid, lambda: converse(key, name))      # noqa: B023
        text = json.dumps(got.get("result"), ensure_ascii=False).replace('\\"', '"')
        case.assertRegex(text, CALLS.get(name, (None, "greetings"))[1], (name, got))
        case.assertFalse(got["result"].get("isError"), (name, got))
        call = rows("audit", "calls", "--tenant", TENANT, "--tool", name)[0]
        case.assertEqual(call["outcome"], "ok", call)
        level = next((row["sandbox"] for row in rows("audit", "show", call["call"], "--tenant", TENANT) if row.get("sandbox")), "")
        case.assertTrue(meets(level, least), f"{name}: {level or 'none'}, promised is {least or 'none'}")
        lines.append(f"  {where}: {name:15} {level or 'none'}")
        levels.add(level)
    case.assertEqual(Elsewhere.heard[-1], {"title": "It leaks", "labels": ["bug"], "reporter": f"bot of {TENANT}"})
    case.assertEqual({row["sandbox"] for row in rows("audit", "sandbox", "--tenant", TENANT) if row.get("sandbox")}, {level or "no process" for level in levels})
    return "\n".join(lines)
