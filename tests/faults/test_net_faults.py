"""FAULT F30: loss, delay and reordering between client and server cross no answers.  A small proxy stands for the network:
it splits and delays what it carries, each connection by its own lot, and cuts some of them off."""
import asyncio
import pathlib
import random
import socket
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integ"))
import crib

CALLS = 40              # of one client
CLIENTS = 2             # of a tenant, over each transport
DELAY_S = 0.004         # the longest, for one piece
CUT = 0.02              # the chance that a connection ends behind a piece


class Weather(threading.Thread):
    """A proxy for several servers on a loop of its own."""

    def __init__(self, seed, *targets):
        super().__init__(daemon=True)
        self.random = random.Random(seed)
        self.targets, self.ports, self.cuts = targets, [], 0
        self.ready = threading.Event()
        self.start()
        self.ready.wait()

    def run(self):
        self.loop = asyncio.new_event_loop()
        for target in self.targets:
            def serve(reader, writer, target=target):
                return self.carry(reader, writer, target)
            server = self.loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0))
            self.ports.append(server.sockets[0].getsockname()[1])
        self.ready.set()
        self.loop.run_forever()

    def end(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.join()

    async def carry(self, reader, writer, target):
        try:
            far_reader, far_writer = await asyncio.open_connection(*target)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(self.pump(reader, far_writer, writer), self.pump(far_reader, writer, far_writer))

    async def pump(self, reader, writer, back):
        try:
            while data := await reader.read(4096):
                while data:
                    n = self.random.randint(1, 700)
                    await asyncio.sleep(self.random.random() * DELAY_S)
                    if self.random.random() < CUT:
                        self.cuts += 1
                        raise ConnectionError
                    writer.write(data[:n])
                    await writer.drain()
                    data = data[n:]
            if writer.can_write_eof():
                writer.write_eof()
        except OSError:
            writer.transport.abort()
            back.transport.abort()


class NetFaults(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(crib.ECHO)
        self.keys = {tenant: c.tenant(tenant, "*") for tenant in ("alpha", "beta")}
        c.start()
        self.weather = Weather(30, c.address("http"), c.address("tcp"))
        self.addCleanup(self.weather.end)
        self.crossed, self.answered = [], {tenant: 0 for tenant in self.keys}
        self.lock = threading.Lock()

    def heard(self, tenant, want, got):
        text = got.get("result", {}).get("content", [{}])[0].get("text")
        with self.lock:
            self.answered[tenant] += 1
            if text != want:
                self.crossed.append((want, got))

    def over_http(self, tenant, me):
        """One call after the other; a lost connection makes the next one new."""
        peer = None
        for n in range(CALLS):
            want = f"{tenant}-{me}-{n}"
            try:
                peer = peer or crib.Http(("127.0.0.1", self.weather.ports[0]), self.keys[tenant])
                self.heard(tenant, want, peer.ask("tools/call", {"name": "echo", "arguments": {"text": want}}, crib.MODERN, id=n))
            except (OSError, crib.http.client.HTTPException, ValueError, IndexError, AssertionError) as e:
                if isinstance(e, AssertionError) and "somebody else" in str(e):
                    self.crossed.append((want, str(e)))
                peer.close()
                peer = None

    def over_tcp(self, tenant, me):
        """Several under way at once, with ids that all clients use."""
        n = 0
        while n < CALLS:
            waiting = {}
            try:
                peer = crib.Line(socket.create_connection(("127.0.0.1", self.weather.ports[1]), crib.DEADLINE), self.keys[tenant])
                while n < CALLS:
                    while len(waiting) < 5 and n < CALLS:
                        waiting[n] = f"{tenant}-{me}-{n}"
                        peer.send(peer.request("tools/call", {"name": "echo", "arguments": {"text": waiting[n]}}, crib.MODERN, id=n))
                        n += 1
                    while waiting:
                        got = peer.receive()
                        if got is None:
                            raise ConnectionError
                        self.heard(tenant, waiting.pop(got["id"]), got)
            except (OSError, ValueError):
                pass
            except KeyError as e:
                self.crossed.append((tenant, f"nobody asked for {e}"))
            peer.close()

    def test_no_answer_goes_to_another(self):
        """FAULT F30"""
        threads = [threading.Thread(target=way, args=(tenant, i), daemon=True)
                   for tenant in self.keys for i in range(CLIENTS) for way in (self.over_http, self.over_tcp)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"\n{sum(self.answered.values())} answers, {self.weather.cuts} connections cut", flush=True)
        self.assertEqual(self.crossed, [])
        self.assertGreater(self.weather.cuts, 0)
        for tenant, n in self.answered.items():
            rows = self.crib.json("audit", "calls", "--tenant", tenant, "--limit", "100000")
            self.assertGreaterEqual(len([row for row in rows if row["outcome"] == "ok"]), n, "each answer has its record")
        # And nothing of it is left.
        crib.wait_for("no call to run", lambda: self.crib.json("status")[0]["running"] == 0)
        crib.wait_for("no connection", lambda: self.crib.json("status")[0]["counters"]["connections_open"] == 0)
        self.assertEqual(self.crib.stop(), 0)
        self.crib.cli("audit", "verify")


if __name__ == "__main__":
    crib.main()
