"""Very many open subscriptions: a change reaches all of its tenant at once and nobody else, and idle ones are small.

The short form runs in make check; TOOLCRIB_LISTENS and TOOLCRIB_LISTENS_MS make it the long one."""
import json
import os
import resource
import selectors
import socket
import time

import crib

LISTENS = int(os.environ.get("TOOLCRIB_LISTENS", "200"))
TOLD_MS = float(os.environ.get("TOOLCRIB_LISTENS_MS", crib.DEADLINE * 1000))    # from the command's end to the last
STREAM_RSS = 12 << 10           # bytes of the daemon per idle stream, its connection included
RSS_FROM = 2000                 # fewer streams than this measure the heap's granularity, not the streams
LISTENS_MAX = 64                # MCP_LISTENS_MAX: those of one principal
WARM = 10                       # opened before the measure begins: what the first ones cost is not the others'
OTHERS = ("birch", "cedar", "durian")

CHANGED = b'"notifications/tools/list_changed"'
ACK = b'"notifications/subscriptions/acknowledged"'


class Subscription:
    """One listen on a connection of its own, as bytes: a client that costs this process little."""

    def __init__(self, address, transport, key, id):
        self.id = id
        self.got = b""
        message = {"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": {
            "notifications": {"toolsListChanged": True},
            "_meta": {"io.modelcontextprotocol/protocolVersion": crib.MODERN,
                      "io.modelcontextprotocol/clientCapabilities": {}}}}
        body = json.dumps(message).encode()
        if transport == "http":
            head = (f"POST /mcp HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\nAuthorization: Bearer {key}\r\n"
                    "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
                    f"MCP-Protocol-Version: {crib.MODERN}\r\nMcp-Method: subscriptions/listen\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n").encode()
        else:
            head, body = f"Authorization: Bearer {key}\n".encode(), body + b"\n"
        self.sock = socket.create_connection(address, crib.DEADLINE)
        self.sock.sendall(head + body)
        self.sock.setblocking(False)

    def read(self):
        data = self.sock.recv(1 << 16)
        if not data:
            raise AssertionError(f"{self.id}: the server closed it: {self.got[-500:]}")
        self.got += data

    def changes(self):
        return self.got.count(CHANGED)


def read_until(subscriptions, done):
    """Read from all of them until done(one) holds for each."""
    waiting = selectors.DefaultSelector()
    for one in subscriptions:
        if not done(one):
            waiting.register(one.sock, selectors.EVENT_READ, one)
    end = time.monotonic() + crib.DEADLINE
    while waiting.get_map():
        ready = waiting.select(max(0.0, end - time.monotonic()))
        if not ready:
            raise AssertionError(f"{len(waiting.get_map())} of {len(subscriptions)} did not hear it")
        for key, _ in ready:
            key.data.read()
            if done(key.data):
                waiting.unregister(key.fileobj)
    waiting.close()


class ManyListens(crib.Case):
    def setUp(self):
        super().setUp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < LISTENS + 200:
            self.skipTest(f"{LISTENS} streams need as many descriptors; the hard limit is {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        c = self.crib.init()
        c.tool(crib.ECHO)
        self.keys = {}
        # Half of all are of one tenant; no principal may have more than its share.
        self.shares = {name: LISTENS // 2 // len(OTHERS) for name in OTHERS}
        self.shares["acme"] = LISTENS - sum(self.shares.values())
        for tenant, share in self.shares.items():
            c.tenant(tenant)
            self.keys[tenant] = [c.key(f"{tenant}/agent{i}") for i in range(-(-(share + WARM) // LISTENS_MAX))]
        c.config = self.config
        c.start()

    def config(self, extra=""):
        path = self.crib.dir / "toolcribd.yaml"
        path.write_text("listeners:\n" + "".join(
            f'- {{transport: {transport}, address: "127.0.0.1:0", connections: {LISTENS + 100}}}\n'
            for transport in ("http", "tcp")) + "connections: {per_tenant: 0}\nlimits: {requests: 0}\n" + extra)
        return path

    def rss(self):
        with open(f"/proc/{self.crib.daemon.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()

    def subscribe(self, transport, tenant, share):
        """Open them in waves: a listener accepts as fast as it can, and its backlog is not endless."""
        keys, address, got = self.keys[tenant], self.crib.address(transport), []
        while len(got) < share:
            wave = [Subscription(address, transport, keys[i % len(keys)], f"{tenant}-{i}")
                    for i in range(len(got), min(share, len(got) + 100))]
            for one in wave:
                self.addCleanup(one.sock.close)
            read_until(wave, lambda one: ACK in one.got)
            got += wave
        return got

    def grant(self, tenant, subscriptions):
        """One change of a tenant: milliseconds until the last of its subscriptions has heard, and after the command."""
        before = [one.changes() for one in subscriptions]
        expected = dict(zip(map(id, subscriptions), (n + 1 for n in before)))
        begin = time.monotonic()
        self.crib.cli("grant", "add", tenant, "echo")
        returned = time.monotonic()
        read_until(subscriptions, lambda one: one.changes() >= expected[id(one)])
        end = time.monotonic()
        return (end - begin) * 1000, (end - returned) * 1000

    def many(self, transport):
        self.subscribe(transport, OTHERS[0], WARM)
        before = self.rss()
        streams = {tenant: self.subscribe(transport, tenant, share) for tenant, share in self.shares.items()}
        each = (self.rss() - before) / LISTENS
        took, after = self.grant("acme", streams["acme"])
        print(f"\n{transport}: {LISTENS} streams, {each / 1024:.1f} KiB each; the {len(streams['acme'])} of one tenant told "
              f"{took:.0f} ms after the command began, {after:.0f} ms after it returned", flush=True)
        self.assertLess(after, TOLD_MS)
        if LISTENS >= RSS_FROM:
            self.assertLessEqual(each, STREAM_RSS)
        # A notice too many would stand before the one of each tenant's own change.
        for tenant in OTHERS:
            self.grant(tenant, streams[tenant])
        self.crib.tool(crib.tool_yaml("other", "{type: builtin, function: echo}"))
        self.crib.cli("grant", "add", "acme", "other")
        read_until(streams["acme"], lambda one: one.changes() >= 2)
        for tenant, subscriptions in streams.items():
            for one in subscriptions:
                self.assertEqual(one.changes(), 2 if tenant == "acme" else 1, one.id)
                self.assertEqual(one.got.count(f'subscriptionId":"{one.id}"'.encode()), one.changes() + 1)

    def test_streams_over_http(self):
        self.many("http")

    def test_connections_over_tcp(self):
        self.many("tcp")


if __name__ == "__main__":
    crib.main()
