#!/usr/bin/env python3
"""make bench-policy: what it costs the server's processors that a policy decision point is asked about each call over a Unix socket, or
that its answer is kept, above the same call of a tenant about which nobody is asked, in turns on one server."""
import asyncio
import pathlib
import sys
import threading

sys.path.append(str(pathlib.Path(__file__).parent.parent / "integ"))       # behind this folder, whose run.py is meant
import crib  # noqa: E402
import run  # noqa: E402

PAIRS = 9
TARGETS = {"kept": 2.0, "asked": 60.0}       # microseconds
ANSWER = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncache-control: max-age=600\r\ncontent-length: 17\r\n\r\n{"decision":true}'


class Point(asyncio.Protocol):
    """Allows whatever is asked."""

    def connection_made(self, transport):
        self.transport, self.buffer = transport, b""

    def data_received(self, data):
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            size = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            if len(self.buffer) < end + 4 + size:
                return
            self.buffer = self.buffer[end + 4 + size:]
            self.transport.write(ANSWER)


def serve(path, ready):
    async def main():
        await asyncio.get_running_loop().create_unix_server(Point, path)
        ready.set()
        await asyncio.Event().wait()
    asyncio.run(main())


def main():
    c = crib.Crib().init()
    c.tool(crib.ECHO)
    keys = {}
    for name in ("none", "kept", "asked"):
        keys[name] = c.tenant(name, "echo")
        c.cli("tenant", "set", name, "--concurrency", "1024")
    path, ready = c.dir / "pdp.sock", threading.Event()
    threading.Thread(target=serve, args=(str(path), ready), daemon=True).start()
    ready.wait()
    c.start("limits: {requests: 0}\npdp:\n"
            f'- {{name: kept, socket: "{path}", tenants: [kept], cache_max: 1h, timeout: 5s}}\n'
            f'- {{name: asked, socket: "{path}", tenants: [asked], timeout: 5s}}\n')
    more = {name: [] for name in TARGETS}
    for turn in range(PAIRS):
        cost = {}
        for name in list(keys)[turn % 3:] + list(keys)[:turn % 3]:
            row = run.load(f"tools/call echo, HTTP, 64 connections, policy {name}", c.address("http")[1], c.daemon.pid, "--key", keys[name],
                           "--conns", "64", "--expect", run.TEXT, *run.call("echo", '{"text":"%s"}' % run.TEXT), secs=run.SECS / 2)
            cost[name] = row["server_cpu_us"]
        for name in more:
            more[name].append(cost[name] - cost["none"])
    late = False
    for name, values in more.items():
        middle = sorted(values)[len(values) // 2]
        late |= middle > TARGETS[name]
        run.out({"label": f"a call whose policy is {name}, above one of which nobody is asked", "cpu_us": round(middle, 2),
                 "from": round(min(values), 2), "to": round(max(values), 2), "target": TARGETS[name]})
    c.close()
    sys.exit(late)


if __name__ == "__main__":
    main()
