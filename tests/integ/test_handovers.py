"""Servers that take over from each other under calls without a pause (OP-901, show 6 of issue 19): 20 in a row, and no request
fails, no connection is refused, each call has its end on record once, calls of a minute that began before are answered by the servers
that they outlast (OP-903), and after each a change is told to who listens.  Prints how many calls were answered in a second and for how long nobody was: TOOLCRIB_HANDOVERS says how many, TOOLCRIB_CONNECTIONS of how many."""
import contextlib
import json
import os
import selectors
import socket
import subprocess
import sys
import threading
import time

import crib
import test_take_over

ROUNDS = int(os.environ.get("TOOLCRIB_HANDOVERS", "20"))
STAYS = os.environ.get("TOOLCRIB_STAYS", "60")
CONNECTIONS = int(os.environ.get("TOOLCRIB_CONNECTIONS", "24"))
LISTEN = {"notifications": {"toolsListChanged": True}}


class Caller:
    """One connection: a call, its answer, the next call; another connection when the server has ended this one between two."""

    def __init__(self, flood):
        self.flood, self.sock = flood, None
        self.dial()

    def dial(self):
        if self.sock:
            self.flood.selector.unregister(self.sock)
            self.sock.close()
        self.sock = socket.create_connection(self.flood.address, 20)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.flood.selector.register(self.sock, selectors.EVENT_READ, self)
        self.ask()

    def ask(self):
        self.got, self.begun = b"", time.monotonic()
        try:
            self.sock.sendall(self.flood.request)
        except OSError:         # ended while nobody asked: nothing of it was read
            self.redial()

    def redial(self):
        self.flood.again += 1
        self.dial()

    def readable(self):
        try:
            more = self.sock.recv(65536)
        except OSError:
            more = b""
        if not more:
            if self.got:
                self.flood.failed.append(f"half an answer: {self.got[:200]!r}")
            self.redial()
            return
        self.got += more
        head, mark, body = self.got.partition(b"\r\n\r\n")
        if not mark or len(body) < int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]):
            return
        if not head.startswith(b"HTTP/1.1 200 ") or self.flood.expect not in body:
            self.flood.failed.append(self.got[:400].decode())
        self.flood.answer(time.monotonic() - self.begun)
        if b"connection: close" in head.lower():
            self.dial()
        else:
            self.ask()


class Flood:
    """In a process of its own.  An end of a connection with nothing of an answer counts as a request that was not taken, which may
    be repeated, only while the server had not begun it: the records behind it say whether one was begun and not answered."""

    def __init__(self, address, request, expect, n):
        self.address, self.request, self.expect = address, request, expect
        self.selector = selectors.DefaultSelector()
        self.answers, self.failed, self.longest, self.again, self.gaps, self.last = 0, [], 0.0, 0, [], time.monotonic()
        self.callers = [Caller(self) for _ in range(n)]

    def answer(self, took):
        now = time.monotonic()
        self.answers += 1
        self.longest = max(self.longest, took)
        if now - self.last > 0.02:
            self.gaps.append(now - self.last)
        self.last = now

    def run(self):
        begun = time.monotonic()
        self.selector.register(sys.stdin, selectors.EVENT_READ, None)
        print("ready", flush=True)
        while not self.failed:
            for key, _ in self.selector.select(20):
                if key.data:
                    key.data.readable()
                elif not sys.stdin.buffer.readline().startswith(b"more"):
                    return self.end(begun)
                else:
                    print(self.answers, flush=True)
        return self.end(begun)

    def end(self, begun):
        seconds = time.monotonic() - begun
        print(json.dumps({"answers": self.answers, "failed": self.failed[:5], "longest_ms": round(self.longest * 1000), "again": self.again,
                          "rate": round(self.answers / seconds), "gaps_ms": sorted((round(gap * 1000) for gap in self.gaps), reverse=True)}), flush=True)


class Handovers(test_take_over.TakeOver):
    """What that has of tests stays there."""

    for name in [name for name in dir(test_take_over.TakeOver) if name.startswith("test_")]:
        locals()[name] = None
    del name

    def flood(self):
        peer = self.c.http(self.key)
        message = peer.request("tools/call", {"name": "echo", "arguments": {"text": "so it is"}}, crib.MODERN, id=1)
        body = json.dumps(message).encode()
        head = "".join(f"{name}: {value}\r\n" for name, value in peer.headers(message).items())
        request = f"POST /mcp HTTP/1.1\r\nHost: {peer.address[0]}:{peer.address[1]}\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        process = subprocess.Popen([sys.executable, __file__, "--flood", *map(str, peer.address), request.hex(), str(CONNECTIONS)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def minutes(self, n, answers):
        """Calls that take a minute, each on a connection of its own."""
        def one():
            with contextlib.closing(self.c.http(self.key)) as peer:
                answers.append(peer.call("nap", {"seconds": STAYS}, crib.MODERN)["result"].get("isError", False))
        threads = [threading.Thread(target=one, daemon=True) for _ in range(n)]
        for thread in threads:
            thread.start()
        self.running(n)
        return threads

    def answered(self, process):
        process.stdin.write("more\n")
        process.stdin.flush()
        return process.stdout.readline()

    def test_op901_twenty_in_a_row_under_load(self):
        self.begin()
        before = self.c.rows("SELECT count(*) FROM rec WHERE kind = 1001")[0][0]
        process = self.flood()
        pauses, threads, answers = [], [], []
        for n in range(ROUNDS):
            if n % 5 == 0:
                threads += self.minutes(3, answers)
            at = int(self.answered(process))
            crib.wait_for("calls", lambda: int(self.answered(process)) >= at + 200)
            self.moves()
            with contextlib.closing(self.c.http(self.key)) as peer:
                stream = peer.stream(peer.request("subscriptions/listen", LISTEN, crib.MODERN))
                with contextlib.closing(stream):
                    stream.receive()        # what it listens to
                    self.c.tool(crib.tool_yaml(f"tool{n}", "{type: static, text: x}"), f"tool{n}.yaml")
                    crib.wait_for("that the list has changed", lambda: any(
                        one.get("method") == "notifications/tools/list_changed" for one in [stream.receive()] if one))
            pauses.append([int(line.split("waited_ms=")[1].split(" ")[0].strip('"\\')) for line in self.c.log.read_text().splitlines()
                           if "taken over pid=" in line][-1])
        process.stdin.write("end\n")
        process.stdin.flush()
        got = json.loads(process.stdout.read().splitlines()[-1])
        process.stdin.close()
        process.stdout.close()
        print(f"{ROUNDS} handovers of {CONNECTIONS} connections, {got['rate']} calls/s, {got['answers']} answers, the longest took "
              f"{got['longest_ms']} ms; the old one was waited for {max(pauses)} ms at most; nobody was answered for, at most, "
              f"{got['gaps_ms'][:3]} ms; {got['again']} connections ended before they were read", file=sys.stderr)
        self.assertEqual(got["failed"], [])
        for thread in threads:
            thread.join(crib.DEADLINE + float(STAYS))
        self.assertEqual(answers, [False] * len(threads), "each call of a minute is answered")
        self.c.stop()
        begun = self.c.rows("SELECT count(*) FROM rec WHERE kind = 1001")[0][0] - before
        begun -= len(threads)
        self.assertLessEqual(got["answers"], begun)
        self.assertLessEqual(begun, got["answers"] + CONNECTIONS, "what was under way when the callers ended")
        self.whole()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--flood"]:
        Flood((sys.argv[2], int(sys.argv[3])), bytes.fromhex(sys.argv[4]), b"so it is", int(sys.argv[5])).run()
    else:
        crib.main()
