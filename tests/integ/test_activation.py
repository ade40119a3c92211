"""Listeners that a service manager holds: who connects while no server runs waits and is answered, what does not fit is named,
and in a drain the server's own listeners refuse at once (OP-907)."""
import os
import signal
import socket
import subprocess
import sys
import threading


def become(fds, names, *command):
    """Become the command, with these descriptors from 3 on: what a service manager does."""
    high = [os.dup(int(fd)) for fd in fds.split(",")]
    high = [os.dup2(fd, 300 + i) for i, fd in enumerate(high)]
    for i, fd in enumerate(high):
        os.dup2(fd, 3 + i, inheritable=True)
    os.execve(command[0], command, {**os.environ, "LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(high)), "LISTEN_FDNAMES": names})


if len(sys.argv) > 1 and sys.argv[1] == "--become":
    become(*sys.argv[2:])

import crib     # noqa: E402

NAP = crib.tool_yaml("nap", '{type: exec, argv: ["/bin/sleep", "600"], stdin: none, output: text}')


class Activation(crib.Case):
    def setUp(self):
        super().setUp()
        self.c = self.crib.init()
        self.c.tool(crib.ECHO)
        self.c.tool(NAP, "nap.yaml")
        self.key = self.c.tenant("acme", "*")
        self.agents = self.c.dir / "agents.sock"

    def listen(self, *addresses):
        """Listening sockets, as a service manager opens them."""
        made = []
        for address in addresses:
            sock = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
            self.addCleanup(sock.close)
            sock.bind(address)
            sock.listen(16)
            made.append(sock)
        return made

    def configure(self, *listeners):
        """Servers of this test have these listeners: "http 127.0.0.1:8808"."""
        lines = [f'- {{transport: {one.split()[0]}, address: "{one.split()[1]}"}}\n' for one in listeners]

        def config(extra=""):
            path = self.c.dir / "toolcribd.yaml"
            path.write_text("listeners:\n" + "".join(lines) + self.c.alone_and_awake(extra))
            return path
        self.c.config = config

    @staticmethod
    def wrapper(socks):
        return [sys.executable, __file__, "--become", ",".join(str(sock.fileno()) for sock in socks), ":".join(["front", "agents"][:len(socks)])]

    def start(self, socks, extra=""):
        self.c.start(extra, self.wrapper(socks), fds=[sock.fileno() for sock in socks])
        self.c.ports["http"] = "%s:%d" % socks[0].getsockname()

    def held(self):
        """A server's listeners over HTTP and a Unix socket, held by us."""
        socks = self.listen(("127.0.0.1", 0), str(self.agents))
        self.configure("http %s:%d" % socks[0].getsockname(), f"unix {self.agents}")
        return socks

    def echo(self, peer, text):
        return peer.call("echo", {"text": text}, crib.MODERN)["result"]["content"][0]["text"]

    def once(self, peer, text):
        got = self.echo(peer, text)
        peer.close()
        return got

    def test_who_connects_while_no_server_runs_waits_and_is_answered(self):
        socks = self.held()
        self.start(socks)
        self.assertEqual(self.once(self.c.http(self.key), "first"), "first")
        self.assertEqual(self.once(self.c.unix(self.key), "second"), "second")
        self.assertEqual(self.c.stop(), 0)
        self.assertTrue(self.agents.is_socket(), "its path is the service manager's")

        got = {}
        line = self.c.unix(self.key)
        line.send(line.request("tools/call", {"name": "echo", "arguments": {"text": "line"}}, crib.MODERN, id=1))
        web = self.c.http(self.key)
        web.connection.connect()        # it is accepted by the kernel, and nobody else is there
        asks = threading.Thread(target=lambda: got.update(web=self.echo(web, "web")))
        asks.start()
        self.start(socks)
        asks.join(crib.DEADLINE)
        self.assertEqual(got, {"web": "web"})
        self.assertEqual(line.answer(1)["result"]["content"][0]["text"], "line")
        for peer in (line, web):
            peer.close()
        self.assertEqual(self.c.stop(), 0)
        self.c.cli("audit", "verify")

    def test_in_a_drain_who_connects_waits_for_the_next_server(self):
        socks = self.held()
        self.start(socks, "drain_ms: 600000\n")
        busy = self.c.unix(self.key)
        busy.send(busy.request("tools/call", {"name": "nap"}, crib.MODERN, id=1))
        crib.wait_for("a running call", lambda: self.c.json("status")[0]["running"] == 1)
        self.c.daemon.send_signal(signal.SIGTERM)
        crib.wait_for("a drain", lambda: self.c.json("status")[0]["state"] == "draining")
        late = self.c.unix(self.key)
        late.send(late.request("tools/call", {"name": "echo", "arguments": {"text": "late"}}, crib.MODERN, id=1))
        self.assertEqual(self.c.stop(), 0)      # the second signal does not wait for the nap
        busy.close()
        self.start(socks)
        self.assertEqual(late.answer(1)["result"]["content"][0]["text"], "late")
        late.close()

    def test_who_connects_in_a_drain_is_refused_at_once(self):
        self.c.start("drain_ms: 600000\n")
        busy = self.c.tcp(self.key)
        busy.send(busy.request("tools/call", {"name": "nap"}, crib.MODERN, id=1))
        crib.wait_for("a running call", lambda: self.c.json("status")[0]["running"] == 1)
        self.c.daemon.send_signal(signal.SIGTERM)
        crib.wait_for("a drain", lambda: self.c.json("status")[0]["state"] == "draining")
        for transport in ("tcp", "http"):
            with self.assertRaises(ConnectionRefusedError):
                socket.create_connection(self.c.address(transport), crib.DEADLINE)
        with socket.socket(socket.AF_UNIX) as sock, self.assertRaises(FileNotFoundError):
            sock.connect(str(self.agents))
        self.assertEqual(self.c.stop(), 0)
        busy.close()

    def refused(self, socks, *words):
        """A start that ends with a sentence that has these words; nothing has been written."""
        before = self.c.rows("SELECT max(id) FROM rec")
        done = subprocess.run([*self.wrapper(socks), str(crib.BUILD / "toolcribd"), "--store", str(self.c.store), "-c", str(self.c.config())],
                              pass_fds=[sock.fileno() for sock in socks], env=self.c.env, capture_output=True, text=True, timeout=crib.DEADLINE)
        self.assertEqual(done.returncode, 1)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(self.c.rows("SELECT max(id) FROM rec"), before)

    def test_what_does_not_fit_is_named_and_nothing_is_written(self):
        web, agents = self.held()
        other = self.listen(("127.0.0.1", 0))[0]
        self.refused([web, other], "%s:%d (agents)" % other.getsockname(), "toolcribd.yaml has that address", "ListenStream=")
        self.configure("http %s:%d" % web.getsockname())
        self.refused([web, agents], f"{self.agents} (agents)")
        self.refused([web, web], "%s:%d (agents)" % web.getsockname())
        plain = socket.socket()
        self.addCleanup(plain.close)
        self.refused([plain], "descriptor 3 (front)", "does not listen", "Accept=no")

    def test_a_listener_without_a_socket_opens_its_own(self):
        (web,) = self.listen(("127.0.0.1", 0))
        self.configure("http %s:%d" % web.getsockname(), f"unix {self.agents}")
        self.start([web])
        self.assertEqual(self.once(self.c.http(self.key), "given"), "given")
        self.assertEqual(self.once(self.c.unix(self.key), "own"), "own")
        self.assertEqual(self.c.stop(), 0)
        self.assertFalse(self.agents.exists())


if __name__ == "__main__":
    crib.main()
