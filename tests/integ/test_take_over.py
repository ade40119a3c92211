"""One server takes the place of another: no request fails, no call is lost, however long it takes, and whoever dies on the way,
somebody serves (OP-901, OP-903)."""
import array
import contextlib
import http.client
import os
import pathlib
import select
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tarfile
import threading
import time
import unittest

import crib

ROUNDS = int(os.environ.get("TOOLCRIB_HANDOVERS", "5"))
NAP = crib.tool_yaml("nap", '{type: exec, argv: ["/bin/sleep", "{/seconds}"], stdin: none, output: text}',
                     "{type: object, properties: {seconds: {type: string}}, required: [seconds]}", "limits: {timeout: 120s}\n")
UNTIL = """{type: exec, argv: [/bin/sh, -c, 'while ! test -e "$0"; do sleep 0.05; done', "{/path}"], stdin: none, output: text, """
LONG = "600"
STAYS = os.environ.get("TOOLCRIB_STAYS", "2")    # seconds of calls that outlast their server
LAST_START = "SELECT ext FROM rec WHERE kind = 1601 ORDER BY id DESC LIMIT 1"
OLD = crib.SOURCE / "tests/old-db/0.1.0.tar.xz"


class Taken:
    """A server that is no child of ours, as crib has those that are."""

    def __init__(self, pid):
        self.pid, self.fd = pid, os.pidfd_open(pid)

    def poll(self):
        return 0 if select.select([self.fd], [], [], 0)[0] else None

    def wait(self, timeout=None):
        if not select.select([self.fd], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("toolcribd", timeout)
        return 0

    def send_signal(self, sig):
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.fd, sig)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class Load:
    """Clients that call without a pause, each on a connection that it keeps; nothing may fail."""

    def __init__(self, case, n):
        self.answered, self.longest, self.failed, self.over, self.short = [0] * n, [0.0] * n, [], threading.Event(), n
        self.threads = [threading.Thread(target=self.client, args=(case.c.http(case.key), i), daemon=True) for i in range(n)]
        for thread in self.threads:
            thread.start()

    def client(self, peer, i):
        while not self.over.is_set():
            text, begun = f"{i}-{self.answered[i]}", time.monotonic()
            try:
                got = peer.call("echo", {"text": text}, crib.MODERN)
                if peer.status != 200 or got["result"]["content"][0]["text"] != text:
                    self.failed.append((peer.status, got))
                self.answered[i] += 1
                self.longest[i] = max(self.longest[i], time.monotonic() - begun)
            except (OSError, http.client.HTTPException, AssertionError, ValueError, KeyError) as error:
                self.failed.append(repr(error))
                return
        peer.close()

    def long(self, case):
        """One more client, whose call takes as long as STAYS says."""
        i = len(self.answered)
        self.answered.append(0)
        self.longest.append(0.0)
        thread = threading.Thread(target=self.nap, args=(case.c.http(case.key), i), daemon=True)
        self.threads.append(thread)
        thread.start()

    def nap(self, peer, i):
        try:
            got = peer.call("nap", {"seconds": STAYS}, crib.MODERN)
            if peer.status != 200 or got["result"].get("isError", False):
                self.failed.append((peer.status, got))
            self.answered[i] += 1
        except (OSError, http.client.HTTPException, AssertionError, ValueError, KeyError) as error:
            self.failed.append(repr(error))
        peer.close()

    def more(self, n):
        """Each client has had n answers more, or one has failed."""
        before = list(self.answered[:self.short])
        crib.wait_for("calls", lambda: self.failed or all(now >= was + n for now, was in zip(self.answered, before)))

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join(crib.DEADLINE + float(STAYS))
        return self.failed


class TakeOver(crib.Case):
    def setUp(self):
        super().setUp()
        self.c = self.crib.init()
        self.c.tool(crib.ECHO)
        self.c.tool(NAP, "nap.yaml")
        self.key = self.c.tenant("acme", "*")

    def begin(self, extra="", env=None):
        self.c.start(extra, env=env)
        listeners = "".join(f'- {{transport: {t}, address: "{a}"}}\n' for t, a in self.c.ports.items())
        self.path = self.c.dir / "toolcribd.yaml"
        self.path.write_text("listeners:\n" + listeners + self.c.alone_and_awake(extra))

    def command(self, *words):
        return [str(crib.BUILD / "toolcribd"), "--take-over", "--store", str(self.c.store), "-c", str(self.path), *words]

    def new(self):
        """A new server that is to take over, as the service manager's command."""
        with open(self.c.log, "ab") as log:
            return subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.c.env)

    def serves(self):
        """The server that has taken over becomes the crib's."""
        old = self.c.daemon
        self.assertEqual(old.wait(crib.DEADLINE), 0)
        self.c.daemon = Taken(self.c.status()["pid"])
        self.addCleanup(os.close, self.c.daemon.fd)
        self.assertNotEqual(self.c.daemon.pid, old.pid)

    def take_over(self):
        self.assertEqual(self.new().wait(crib.DEADLINE), 0)
        self.serves()

    def moves(self):
        """A take-over whose old server stays for its calls; it is given back."""
        old = self.c.daemon
        self.addCleanup(old.poll)
        self.assertEqual(self.new().wait(crib.DEADLINE), 0)
        self.c.daemon = Taken(self.c.status()["pid"])
        self.addCleanup(os.close, self.c.daemon.fd)
        self.assertNotEqual(self.c.daemon.pid, old.pid)
        return old

    def ends(self):
        return [row["outcome"] for row in self.c.json("audit", "calls", "--tenant", "acme")]

    def nap(self, peer, seconds):
        peer.send(peer.request("tools/call", {"name": "nap", "arguments": {"seconds": seconds}}, crib.MODERN, id=1))

    def echo(self, peer, text):
        return peer.call("echo", {"text": text}, crib.MODERN)["result"]["content"][0]["text"]

    def running(self, n=1):
        crib.wait_for("running calls", lambda: self.c.json("status")[0]["running"] >= n)

    def says(self, text):
        crib.wait_for(text, lambda: text in self.c.log.read_text())

    def whole(self):
        """Each call that began has ended, none was found without an end, and all of it verifies."""
        ((begins, ends, recovered),) = self.c.rows("SELECT sum(kind = 1001), sum(kind = 1002), sum(kind = 1004) FROM rec")
        self.assertEqual((begins, recovered), (ends, 0))
        self.c.cli("audit", "verify")

    def test_under_load_nothing_fails(self):
        self.begin()
        before = self.c.rows("SELECT sum(kind = 1601), sum(kind = 1002) FROM rec")[0]
        load = Load(self, 6)
        load.more(5)
        for i in range(ROUNDS):
            if i % 2 == 0:
                load.long(self)
                self.running()
            old = self.moves()
            load.more(5)
            self.assertIn(f"in place of process {old.pid} of ".encode(), self.c.rows(LAST_START)[0][0])
        self.c.cli("audit", "verify")
        self.assertEqual(load.end(), [])
        self.assertEqual(load.answered[6:], [1] * ((ROUNDS + 1) // 2), "each long call has its answer")
        self.c.stop()
        print(f"{ROUNDS} handovers, {sum(load.answered)} answers, the longest took {max(load.longest) * 1000:.0f} ms", file=sys.stderr)
        behind = self.c.rows("SELECT sum(kind = 1601), sum(kind = 1002) FROM rec")[0]
        self.assertEqual((behind[0] - before[0], behind[1] - (before[1] or 0)), (ROUNDS, sum(load.answered)))
        self.whole()

    def test_a_call_that_runs_is_answered_and_who_comes_meanwhile_waits(self):
        self.begin()
        busy, kept, line = self.c.tcp(self.key), self.c.http(self.key), socket.create_connection(self.c.address("tcp"))
        self.assertEqual(self.echo(kept, "before"), "before")
        port = kept.connection.sock.getsockname()
        self.nap(busy, "1.5")
        self.running()
        new = self.new()
        self.says("handing over pid=")
        late = self.c.http(self.key)
        self.assertEqual(self.echo(late, "late"), "late")
        self.assertFalse(busy.answer(1)["result"].get("isError", False))
        self.assertTrue(busy.closed())
        self.assertEqual(new.wait(crib.DEADLINE), 0)
        self.serves()
        self.assertEqual(self.echo(kept, "behind"), "behind")
        self.assertEqual(kept.connection.sock.getsockname(), port, "the same connection")
        self.assertEqual(self.echo(crib.Line(line, self.key), "a credential"), "a credential")
        self.assertTrue((self.c.dir / "agents.sock").is_socket())
        for peer in (busy, late, kept, line):
            peer.close()
        self.c.stop()
        self.assertFalse((self.c.dir / "agents.sock").exists(), "the last one removes it, as its own")
        self.whole()

    def test_a_call_outlasts_its_server_and_the_next_one(self):
        """Its end stands in the log of who has the store when it comes, and both verifiers know of it while it runs."""
        over = self.c.dir / "over"
        self.c.tool(crib.tool_yaml("until", UNTIL + f"sandbox: {{read: ['{self.c.dir}']}}}}",
                                   "{type: object, properties: {path: {type: string}}, required: [path]}", "limits: {timeout: 120s}\n"))
        self.begin("drain_ms: 300\n")
        busy, web = self.c.tcp(self.key), self.c.http(self.key)
        busy.send(busy.request("tools/call", {"name": "until", "arguments": {"path": str(over)}}, crib.MODERN, id=1))
        self.running()
        first = self.moves()
        self.says("calls run on in the server before pid=")
        self.assertEqual(self.echo(web, "meanwhile"), "meanwhile")
        self.assertIsNone(first.poll())
        self.c.cli("audit", "verify")
        self.assertNotIn("DANGLING", self.sceptic())
        second = self.moves()
        self.assertEqual(second.wait(crib.DEADLINE), 0, "it has nothing to stay for")
        over.touch()
        self.assertFalse(busy.answer(1)["result"].get("isError", False))
        self.assertTrue(busy.closed())
        self.assertEqual(first.wait(crib.DEADLINE), 0)
        self.assertEqual(self.ends(), ["ok", "ok"])
        for peer in (busy, web):
            peer.close()
        self.c.stop()
        self.whole()

    def sceptic(self):
        """What the other verifier finds in the store as it is."""
        return subprocess.run([*crib.sceptic(), self.c.store, *crib.evidence(self.c.store)], capture_output=True, text=True).stdout

    def test_who_may_not_call_any_more_loses_what_outlasts_its_server(self):
        self.begin()
        out, asleep = self.c.key("acme/out"), self.c.key("acme/asleep")
        for i, (key, *words) in enumerate(((out, "key", "revoke", out.split("_")[1], "--yes"),
                                           (asleep, "key", "suspend", asleep.split("_")[1], "--yes"), (self.key, "tool", "disable", "nap", "--kill"))):
            busy = self.c.tcp(key)
            self.nap(busy, LONG)
            self.running()
            old = self.moves()
            self.says("calls run on in the server before pid=")
            self.c.cli(*words)
            self.assertEqual(old.wait(crib.DEADLINE), 0, words)
            busy.close()
            self.assertEqual(self.ends(), ["cancelled"] * (i + 1), words)
        self.c.stop()
        self.whole()

    def test_the_next_server_dies_while_a_call_outlasts_the_old_one(self):
        """Nobody would record its end, so it ends without an answer, and the next start says so."""
        self.begin()
        busy = self.c.tcp(self.key)
        self.nap(busy, LONG)
        self.running()
        old = self.moves()
        self.c.daemon.kill()
        self.c.daemon.wait()
        self.assertIn("error", busy.answer(1))
        busy.close()
        self.assertEqual(old.wait(crib.DEADLINE), 0)
        self.c.start()
        self.assertEqual(self.c.rows("SELECT sum(kind = 1001), sum(kind = 1002), sum(kind = 1004) FROM rec"), [(1, 0, 1)])
        self.c.stop()
        self.c.cli("audit", "verify")

    def test_the_old_server_dies_with_a_call_that_outlasts_it(self):
        self.begin()
        busy = self.c.tcp(self.key)
        self.nap(busy, LONG)
        self.running()
        old = self.moves()
        self.says("calls run on in the server before pid=")
        old.kill()
        old.wait(crib.DEADLINE)
        busy.close()
        self.says("calls without an end recovered count=1")
        self.c.cli("audit", "verify")
        self.c.stop()
        self.assertEqual(self.c.rows("SELECT sum(kind = 1001), sum(kind = 1002), sum(kind = 1004) FROM rec"), [(1, 0, 1)])

    def test_a_stop_ends_what_outlasts_its_server_too(self):
        self.begin("drain_ms: 300\n")
        busy = self.c.tcp(self.key)
        self.nap(busy, LONG)
        self.running()
        old = self.moves()
        self.assertEqual(self.c.stop(), 0)
        self.assertEqual(old.wait(crib.DEADLINE), 0)
        busy.close()
        self.assertEqual(self.ends(), ["aborted"])
        self.whole()

    def refused(self, *words, code=1):
        done = subprocess.run(self.command(), env=self.c.env, capture_output=True, text=True, timeout=crib.DEADLINE)
        self.assertEqual(done.returncode, code, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_what_cannot_start_takes_nothing(self):
        self.begin()
        good = self.path.read_text()
        kept = self.c.http(self.key)
        self.assertEqual(self.echo(kept, "before"), "before")
        self.path.write_text(good + "drain_ms: soon\n")
        self.refused("toolcribd.yaml:", "drain_ms")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.path.write_text(good.replace("listeners:\n", 'listeners:\n- {transport: http, address: "127.0.0.1:%d"}\n' %
                                              taken.getsockname()[1]))
            self.refused("Address already in use")
        self.path.write_text(good)
        self.assertEqual(self.echo(kept, "behind"), "behind")
        self.assertNotIn("handing over", self.c.log.read_text())
        self.assertEqual(self.c.stop(), 0)
        self.refused("cannot connect to the server", "without --take-over")
        self.whole()

    def test_a_store_that_a_start_would_change_is_not_taken(self):
        self.begin()
        self.assertEqual(self.c.stop(), 0)
        file = self.c.store / "toolcrib.db"
        with contextlib.closing(sqlite3.connect(file)) as db:
            db.execute("PRAGMA user_version = %d" % (db.execute("PRAGMA user_version").fetchone()[0] + 1))
        self.refused("made by a newer toolcrib", "a handover changes no store")
        with tarfile.open(OLD) as tar:
            file.write_bytes(tar.extractfile("store/toolcrib.db").read())
        self.refused("of an older release", "a handover changes no store")

    def ask(self, fd, word=1, protocol=2):
        """What the server answers to a word: that of who refuses, or that of who offers, 0 for the end."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(crib.DEADLINE)
            sock.connect(str(self.c.store / "handover.sock"))
            data = struct.pack("IIIIq232s", 0x43524942, protocol, word, 0, 0, b"")
            sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if fd is not None else [])
            got = sock.recv(256)
            return struct.unpack("IIIIq232s", got)[2] if got else 0

    def test_only_who_can_open_the_store_is_answered(self):
        self.begin()
        self.assertEqual((self.c.store / "handover.sock").stat().st_mode & 0o777, 0o600)
        key = self.c.store / "master.key"
        refuses, offers = 9, 2
        for flags, file, says in ((os.O_RDONLY, key, offers), (os.O_PATH, key, refuses), (os.O_RDONLY, self.path, refuses)):
            fd = os.open(file, flags)
            self.addCleanup(os.close, fd)
            self.assertEqual(self.ask(fd), says, (flags, file))
        self.assertEqual(self.ask(None), refuses)
        self.assertEqual(self.ask(None, word=6), refuses, "to go without having asked")
        self.assertEqual(self.ask(None, protocol=1), refuses)
        for word in (10, 11, 12, 13, 14):
            self.assertEqual(self.ask(None, word=word), refuses, "as if it had calls that run on")
        self.assertNotIn("handing over pid", self.c.log.read_text())
        still = self.c.http(self.key)
        self.assertEqual(self.echo(still, "still"), "still")
        still.close()

    @unittest.skipIf(os.geteuid() != 0, "needs root, to be another user")
    def test_another_user_is_not_answered(self):
        self.begin()
        self.c.store.chmod(0o711)
        self.c.dir.chmod(0o711)
        (self.c.store / "handover.sock").chmod(0o666)
        pid = os.fork()
        if pid == 0:
            os.setuid(4711)
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(crib.DEADLINE)
                sock.connect(str(self.c.store / "handover.sock"))
                os._exit(0 if sock.recv(1) == b"" else 1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.says("nothing is handed over to another user uid=4711")

    def test_the_new_one_dies_and_the_old_one_goes_on(self):
        self.begin("drain_ms: 600000\n")
        busy, kept = self.c.tcp(self.key), self.c.http(self.key)
        self.assertEqual(self.echo(kept, "before"), "before")
        port = kept.connection.sock.getsockname()
        self.nap(busy, "3")
        self.running()
        new = self.new()
        self.says("handing over pid=")
        late = self.c.http(self.key)
        late.connection.connect()
        (pid,) = pathlib.Path(f"/proc/{new.pid}/task/{new.pid}/children").read_text().split()
        os.kill(int(pid), signal.SIGKILL)
        self.assertNotEqual(new.wait(crib.DEADLINE), 0)
        self.says("this server goes on")
        self.assertEqual(self.echo(kept, "kept"), "kept")
        self.assertEqual(kept.connection.sock.getsockname(), port, "the same connection")
        self.assertEqual(self.echo(late, "late"), "late")
        self.assertFalse(busy.answer(1)["result"].get("isError", False))
        self.take_over()        # and the next one gets it
        self.assertEqual(self.echo(kept, "again"), "again")
        for peer in (busy, kept, late):
            peer.close()
        self.c.stop()
        self.whole()

    def test_the_old_one_dies_and_the_new_one_starts_all_the_same(self):
        self.begin("drain_ms: 600000\n")
        busy, kept = self.c.tcp(self.key), self.c.http(self.key)
        self.assertEqual(self.echo(kept, "before"), "before")
        self.nap(busy, LONG)
        self.running()
        new = self.new()
        self.says("handing over pid=")
        self.c.daemon.kill()
        self.c.daemon.wait()
        self.assertEqual(new.wait(crib.DEADLINE), 0)
        self.c.daemon = Taken(self.c.status()["pid"])
        self.addCleanup(os.close, self.c.daemon.fd)
        self.assertEqual(self.echo(kept, "kept"), "kept")
        busy.close()
        kept.close()
        self.c.stop()
        self.assertEqual(self.c.rows("SELECT sum(kind = 1004) FROM rec"), [(1,)])
        self.c.cli("audit", "verify")

    def test_a_stop_in_between_ends_both(self):
        self.begin("drain_ms: 600000\n")
        busy = self.c.tcp(self.key)
        self.nap(busy, LONG)
        self.running()
        new = self.new()
        self.says("handing over pid=")
        self.assertEqual(self.c.stop(), 0)
        self.assertEqual(new.wait(crib.DEADLINE), 1)
        self.says("told to stop meanwhile")
        busy.close()
        self.whole()

    def test_sockets_of_a_service_manager_stay_its_own(self):
        """They are passed on as what they are: the last server leaves them open."""
        with socket.create_server(("127.0.0.1", 0)) as held:
            fd = held.fileno()
            address = "%s:%d" % held.getsockname()
            self.path = self.c.dir / "toolcribd.yaml"
            self.path.write_text(f'listeners:\n- {{transport: http, address: "{address}"}}\n' + self.c.alone_and_awake(""))
            self.c.config = lambda extra="": self.path
            self.c.start(wrapper=[sys.executable, str(pathlib.Path(__file__).with_name("test_activation.py")), "--become", str(fd), "front"],
                         fds=[fd])
            self.take_over()
            self.assertEqual(self.echo(self.peer(), "taken"), "taken")
            self.c.stop()
            waits = self.peer()
            waits.connection.connect()
            held.settimeout(crib.DEADLINE)
            got, _ = held.accept()
            got.close()

    def peer(self):
        peer = self.c.http(self.key)
        self.addCleanup(peer.close)
        return peer

    def test_the_service_manager_hears_who_is_next(self):
        path = self.c.dir / "manager.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.settimeout(crib.DEADLINE)
            told.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            told.bind(str(path))
            self.begin(env={"NOTIFY_SOCKET": str(path)})
            old = self.c.daemon.pid

            def hear():
                text, control, _, _ = told.recvmsg(4096, 256)
                return text.decode(), struct.unpack("3i", control[0][2])[0]
            self.assertEqual(hear(), ("READY=1", old))
            self.take_over()
            self.assertEqual(hear(), (f"MAINPID={self.c.daemon.pid}", old))
            self.assertEqual(hear(), ("READY=1", self.c.daemon.pid))
            self.c.stop()
            self.assertEqual(hear()[0], "STOPPING=1")


if __name__ == "__main__":
    crib.main()
