"""Slow, silent and vanishing clients: each wait has its end, and nobody else notices (SEC S-116, S-830, MCP B-24, B-56).

FAULT F26: slow head, body, credential line.  F27: slow reader.  F28: half-open peers, resets, an end before the answer."""
import json
import socket
import sqlite3
import struct
import threading

import crib

NAP = crib.tool_yaml("nap", '{type: exec, argv: ["/bin/sleep", "60"], stdin: none, output: text}')
BIG = crib.tool_yaml("big", '{type: exec, argv: [/bin/sh, -c, "head -c 6000000 /dev/zero | tr \'\\\\0\' x"], stdin: none, output: text}',
                     extra="limits: {result: 8MiB}\n")
CANCELLED, ABORTED = 6, 9
NOT_DELIVERED = 1 << 5


class SlowPeers(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(crib.ECHO)
        c.tool(NAP, "nap.yaml")
        c.tool(BIG, "big.yaml")
        self.key = c.tenant("acme", "*")

    def start(self, tcp="", **doors):
        """A door for those who behave, as usual, one for each of these, and one for TCP."""
        path = self.crib.dir / "toolcribd.yaml"

        def config(extra=""):
            ways = [("http", ""), *(("http", text) for text in doors.values()), ("tcp", tcp)]
            path.write_text("listeners:\n" + "".join(f'- {{transport: {transport}, address: "127.0.0.1:0"{text and ", " + text}}}\n'
                                                     for transport, text in ways) + extra)
            return path
        self.crib.config = config
        self.crib.start("eof_drain_ms: 100\n")
        addresses = [row["address"] for row in self.crib.json("status")[0]["listeners"]]
        self.doors = dict(zip(("http", *doors, "tcp"), addresses))

    def dial(self, door="http", rcvbuf=None):
        s = socket.socket()
        self.addCleanup(s.close)
        if rcvbuf:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        s.settimeout(crib.DEADLINE)
        host, _, port = self.doors[door].rpartition(":")
        s.connect((host, int(port)))
        return s

    def message(self, tool, arguments=None, rev=crib.MODERN, id=1):
        params = {"name": tool, "arguments": arguments or {}}
        if rev == crib.MODERN:
            params["_meta"] = {"io.modelcontextprotocol/protocolVersion": rev,
                               "io.modelcontextprotocol/clientCapabilities": {}}
        return json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).encode()

    def post(self, body, rev=crib.MODERN, name="echo", more=""):
        modern = f"MCP-Protocol-Version: {rev}\r\nMcp-Method: tools/call\r\nMcp-Name: {name}\r\n"
        return (f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.key}\r\n{more}"
                f"Content-Type: application/json\r\nAccept: application/json\r\n{modern if rev == crib.MODERN else ''}"
                f"Content-Length: {len(body)}\r\n\r\n").encode() + body

    def whole(self, sock):
        """All until the server's end."""
        got = b""
        while True:
            try:
                more = sock.recv(1 << 16)
            except ConnectionError:
                return got
            if not more:
                return got
            got += more

    def ends(self, tool):
        """Outcome and flags of the ends of a tool's calls."""
        db = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        rows = db.execute("SELECT e.outcome, e.flags FROM rec e JOIN rec_text t ON t.id = e.id WHERE e.kind = 1002 AND "
                          "t.tool = ? ORDER BY e.id", (tool,)).fetchall()
        db.close()
        return rows

    def running(self):
        return self.crib.json("status")[0]["running"]

    # --- F26

    def drip(self, sock, data, over):
        """A byte at a time, so that no pause is long, until somebody ends it."""
        try:
            for byte in data:
                if over.wait(0.02):
                    return
                sock.sendall(bytes([byte]))
        except OSError:
            pass

    def test_slow_heads_bodies_and_credentials_end(self):
        """FAULT F26"""
        self.start("credential_ms: 300", strict="head_ms: 300, body_ms: 300", impatient="idle_ms: 300")
        good, over, drips = self.crib.http(self.key), threading.Event(), []
        body = self.message("echo", {"text": "x" * 2000})
        request = self.post(body)
        for door, first, rest in (("strict", b"P", request[1:]), ("strict", b"POST /mcp HTTP/1.1\r\n", b"X: " + b"y" * 4000),
                                  ("strict", request[:-len(body)], body), ("tcp", b"", b"Authorization: Bearer tck_" + b"x" * 3000)):
            sock = self.dial(door)
            sock.sendall(first)
            drips.append((sock, threading.Thread(target=self.drip, args=(sock, rest, over), daemon=True)))
            drips[-1][1].start()
        silent = [self.dial("impatient"), self.dial("tcp")]
        for n in range(5):
            self.assertIn("result", good.call("echo", {"text": str(n)}, crib.MODERN), "others do not notice")
        answers = [self.whole(sock) for sock, _ in drips]
        over.set()
        for _, thread in drips:
            thread.join()
        for got in answers[:3]:
            self.assertTrue(got.startswith(b"HTTP/1.1 408 "), got)
            self.assertEqual(got.count(b"HTTP/1.1 "), 1)
            self.assertIn(b"Connection: close\r\n", got)
        self.assertEqual(answers[3], b"")
        self.assertEqual([self.whole(sock) for sock in silent], [b"", b""], "and so do those who say nothing")
        crib.wait_for("none of them to be left", lambda: self.crib.json("status")[0]["counters"]["connections_open"] <= 1)
        late = [row for row in self.crib.json("audit", "calls", "--tenant", "acme") if row["outcome"] != "ok"]
        self.assertEqual(late, [])
        good.close()

    # --- F27

    def test_a_client_that_does_not_read_is_given_up(self):
        """FAULT F27: an answer larger than all buffers; its record stands, its reader is cut off, nobody else waits."""
        self.start("stall_ms: 300", lazy="stall_ms: 300")
        good = self.crib.http(self.key)
        body = self.message("big")
        for n, door in enumerate(("lazy", "tcp"), 1):
            slow = self.dial(door, rcvbuf=4096)
            slow.sendall(self.post(body, name="big") if door == "lazy" else
                         f"Authorization: Bearer {self.key}\n".encode() + body + b"\n")
            crib.wait_for("its end on record", lambda: len(self.ends("big")) == n)
            self.assertIn("result", good.call("echo", {"text": "x"}, crib.MODERN))
            crib.wait_for("the stalled client to be cut off",
                          lambda: self.crib.json("status")[0]["counters"]["connections_open"] <= 1)
            slow.close()
        self.assertEqual([outcome for outcome, _ in self.ends("big")], [0, 0])
        good.close()

    # --- F28

    def leave(self, sock, how):
        if how == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()

    def test_whoever_leaves_before_the_answer(self):
        """FAULT F28: the modern era cancels, the legacy one over HTTP goes on (MCP B-24); processes end, ends are recorded."""
        self.start()
        modern, legacy = self.message("nap"), self.message("nap", rev=None)
        for n, (transport, how) in enumerate((("http", "end"), ("http", "reset"), ("tcp", "end"), ("tcp", "reset")), 1):
            with self.subTest(transport=transport, how=how):
                sock = self.dial(transport)
                sock.sendall(self.post(modern, name="nap") if transport == "http" else
                             f"Authorization: Bearer {self.key}\n".encode() + modern + b"\n")
                crib.wait_for("a running call", lambda: self.running() == 1)
                self.leave(sock, how)
                crib.wait_for("its end", lambda: len(self.ends("nap")) == n and self.running() == 0)
        self.assertLessEqual({outcome for outcome, _ in self.ends("nap")}, {CANCELLED, ABORTED})
        # The end of a byte stream's input is no wish not to read: its answer was written, to nobody.
        self.assertEqual([bool(flags & NOT_DELIVERED) for _, flags in self.ends("nap")], [True, True, False, True])
        # Legacy over HTTP: the caller may come back for what it asked; only the answer is dropped.
        sock = self.dial()
        sock.sendall(self.post(legacy, rev=None))
        crib.wait_for("a running call", lambda: self.running() == 1)
        self.leave(sock, "reset")
        for _ in range(3):
            self.assertIn("result", self.crib.http(self.key).call("echo", {"text": "x"}, crib.MODERN))
        self.assertEqual(self.running(), 1)
        self.assertEqual(len(self.ends("nap")), 4)

    def test_a_request_cut_in_the_middle_is_none(self):
        """FAULT F28: an end or a reset at any byte of a request starts nothing and leaves nothing."""
        self.start()
        request = self.post(self.message("echo", {"text": "cut"}))
        for cut in range(1, len(request) - 1, 40):
            sock = self.dial()
            sock.sendall(request[:cut])
            self.leave(sock, "reset" if cut % 80 > 40 else "end")
        self.assertIn("result", self.crib.http(self.key).call("echo", {"text": "whole"}, crib.MODERN))
        crib.wait_for("nothing left", lambda: self.crib.json("status")[0]["counters"]["connections_open"] <= 1)
        self.assertEqual(len(self.ends("echo")), 1)

    # --- what a proxy says

    def test_a_listed_proxy_names_its_client(self):
        """SEC S-107: the record of a call holds a name for both addresses, and another for another client."""
        self.start(behind="proxies: [127.0.0.1]")
        for who in ("192.0.2.1", "192.0.2.2", "192.0.2.1"):
            with self.dial("behind") as sock:
                sock.sendall(self.post(self.message("echo", {"text": "x"}), more=f"X-Forwarded-For: 203.0.113.5, {who}\r\n"
                                                                                 "Connection: close\r\n"))
                self.assertTrue(self.whole(sock).startswith(b"HTTP/1.1 200 "))
        db = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        names = [row[0] for row in db.execute("SELECT peer FROM rec_text WHERE kind = 1001 ORDER BY id")]
        db.close()
        self.assertEqual(len(set(names)), 2, names)
        self.assertEqual(names[0], names[2])
        self.assertTrue(all(name.startswith("adr_") for name in names), names)


if __name__ == "__main__":
    crib.main()
