"""Several servers share one database: they append to the same logs, and one takes over what another one that died has left."""
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import threading
import unittest
import urllib.error
import urllib.request

import crib
import test_postgresql as single

import pgrig  # noqa: E402

TIMES = int(os.environ.get("TOOLCRIB_TEST_KILLS", "1"))      # of each fault in each test; by hand: 100
DEAD_S = 5                                                   # without a beat


class Node(single.Shared):
    """Another server of the same database, in a folder of its own."""

    def __init__(self, first, name):
        super().__init__(first.rig, first.database)
        self.name, self.at = name, first.at
        if first is not self:
            self.path.mkdir(mode=0o700)
            shutil.copy2(first.store / "master.key", self.path)

    def serve(self, extra="", url=None):
        if url:
            self.url = url
        return super().start(f"signer: {{socket: {self.at}}}\n{extra}", node=self.name)

    def close(self):
        crib.Crib.close(self)


class Proxy:
    """Between a node and the server: it cuts a connection right behind a COMMIT that it has passed on, as often as it is told."""

    def __init__(self, folder, to):
        self.to, self.cuts, self.done, self.over = to, 0, 0, False
        self.lock, self.open = threading.Lock(), []
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.folder / ".s.PGSQL.5432"))
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.over:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            self.open += [client, server]
            try:
                server.connect(self.to)
            except OSError:
                client.close()
                continue
            threading.Thread(target=self.back, args=(server, client), daemon=True).start()
            threading.Thread(target=self.forth, args=(client, server), daemon=True).start()

    @staticmethod
    def end(*both):
        for s in both:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def back(self, server, client):
        try:
            while data := server.recv(1 << 16):
                client.sendall(data)
        except OSError:
            pass
        self.end(client, server)

    def take(self):
        with self.lock:
            if self.cuts == 0:
                return False
            self.cuts -= 1
            self.done += 1
            return True

    def forth(self, client, server):
        buffer, first = b"", True
        try:
            while data := client.recv(1 << 16):
                buffer += data
                while True:             # a message: its type, but of the first, then its length
                    head = 0 if first else 1
                    if len(buffer) < head + 4:
                        break
                    size = head + struct.unpack(">I", buffer[head:head + 4])[0]
                    if len(buffer) < size:
                        break
                    message, buffer, first = buffer[:size], buffer[size:], False
                    server.sendall(message)
                    if b"COMMIT\0" in message and self.take():
                        client.shutdown(socket.SHUT_RDWR)
                        return          # the server has it, and reads on until it ends by itself
        except OSError:
            pass
        self.end(client, server)

    def await_cuts(self):
        crib.wait_for("connections that are cut", lambda: self.cuts == 0)

    def close(self):
        self.over = True
        self.end(self.listener, *self.open)
        for s in [self.listener, *self.open]:
            s.close()


class Nodes(unittest.TestCase):
    check, verify = single.Postgresql.check, single.Postgresql.verify

    @classmethod
    def setUpClass(cls):
        cls.rig = pgrig.Server()
        cls.addClassCleanup(cls.rig.stop)
        cls.rig.sql("postgres", single.ROLES)

    def sign(self):
        """The signer of the store, which listens."""
        signer = subprocess.Popen([str(crib.BUILD / "toolcrib-sign"), "--dir", str(self.owner.store / "signer"), "--socket",
                                   self.owner.at], stdin=subprocess.DEVNULL)
        self.addCleanup(signer.wait)
        self.addCleanup(signer.kill)
        crib.wait_for("a signer that listens", lambda: os.path.exists(self.owner.at))
        return signer

    def made(self):
        """A store with a tenant, and its signer."""
        self.owner = single.Shared(self.rig)
        self.addCleanup(self.owner.close)
        self.owner.init()
        self.owner.tool(crib.ECHO)
        key = self.owner.tenant("acme", "echo")
        self.owner.at = str(self.owner.dir / "sign.sock")
        self.signer = self.sign()
        return key

    def node(self, name):
        n = Node(self.owner, name)
        self.addCleanup(n.close)
        return n

    def served(self, n=2, extra=""):
        key = self.made()
        return [self.node(f"n{i + 1}").serve(extra) for i in range(n)], key

    def sql(self, text):
        return self.owner.sql(text)

    def keeper(self):
        return self.sql("SELECT name FROM toolcrib.node WHERE id::text = (SELECT value FROM toolcrib.meta WHERE key = 'keeper') AND boot <> ''")

    def signed(self):
        return int(self.sql("SELECT max(size) FROM toolcrib.cp WHERE log = 1"))

    def is_all_signed(self):
        return self.sql("SELECT count(*) FROM toolcrib.head h WHERE log > 1 AND size > (SELECT max(size) FROM toolcrib.cp c WHERE c.log = h.log)") == "0"

    def test_two_append_to_the_same_logs(self):
        nodes, key = self.served()
        load = single.Load(key, nodes, clients=8)
        load.await_more(200)
        answers = load.stop()
        self.assertEqual(load.refused, 0)
        self.assertGreater(sum(n.status()["counters"]["cluster_conflicts"] for n in nodes), 0)
        listed = nodes[1].json("node", "list")
        self.assertEqual([(row["name"], row["state"], row["keeper"]) for row in listed],
                         [("n1", "serves", True), ("n2", "serves", False)])
        crib.wait_for("records that are signed", self.is_all_signed)
        for n in nodes:
            self.verify(n)
        for n in reversed(nodes):
            self.assertEqual(n.stop(), 0)
        self.check(self.owner, answers)
        self.assertEqual(self.keeper(), "")

    def test_three_append_to_many_logs(self):
        nodes, key = self.served(3)
        keys = [key] + [nodes[0].tenant(name, "echo") for name in ("beta", "gamma", "delta")]
        for key in keys:
            for n in nodes:
                crib.wait_for("the key at each node", lambda: self.knows(n, key))
        loads = [single.Load(key, nodes, clients=3) for key in keys]
        for load in loads:
            load.await_more(60)
        answers = [call for load in loads for call in load.stop()]
        self.assertEqual(sum(load.refused for load in loads), 0)
        crib.wait_for("records that are signed", self.is_all_signed)
        self.verify(nodes[2])
        for n in nodes:                 # the keeper first
            self.assertEqual(n.stop(), 0)
        self.check(self.owner, answers)

    def test_another_one_takes_the_place_of_one_that_was_killed(self):
        nodes, key = self.served()
        load = single.Load(key, nodes, clients=6)
        for time_ in range(TIMES):
            load.await_more(20)
            name = self.keeper()
            died = next(n for n in nodes if n.name == name)
            other = next(n for n in nodes if n is not died)
            died.daemon.kill()
            died.daemon.wait()
            crib.wait_for("another keeper", lambda: self.keeper() == other.name)
            last = self.sql(f"SELECT beat_us FROM toolcrib.node WHERE name = '{died.name}'")
            fenced = self.sql("SELECT max(ts) FROM toolcrib.rec WHERE log = 1 AND kind = 1603")
            self.assertGreaterEqual(int(fenced) - int(last), DEAD_S * 1000000, "microseconds without a beat")
            signed = self.signed()
            crib.wait_for("checkpoints that go on", lambda: self.signed() > signed)
            died.serve()
        load.await_more(20)
        answers = load.stop()
        self.verify(nodes[0])
        for n in nodes:
            self.assertEqual(n.stop(), 0)
        calls = self.check(self.owner, answers)
        self.assertTrue(any(recovered for _, _, recovered in calls.values()) or TIMES < 3)

    def test_one_that_was_frozen_is_fenced_and_ends(self):
        nodes, key = self.served()
        frozen = next(n for n in nodes if n.name == self.keeper())
        load = single.Load(key, nodes, clients=4)
        load.await_more(20)
        frozen.daemon.send_signal(signal.SIGSTOP)
        crib.wait_for("a fence", lambda: self.sql(f"SELECT boot FROM toolcrib.node WHERE name = '{frozen.name}'") == "")
        fenced = self.sql(f"SELECT epoch FROM toolcrib.node WHERE name = '{frozen.name}'")
        crib.wait_for("another keeper", lambda: self.keeper() not in ("", frozen.name))
        frozen.daemon.send_signal(signal.SIGCONT)
        self.assertEqual(frozen.daemon.wait(crib.DEADLINE), 1)
        self.assertEqual(self.sql(f"SELECT epoch FROM toolcrib.node WHERE name = '{frozen.name}'"), fenced)
        frozen.daemon = None
        answers, other = load.stop(), next(n for n in nodes if n is not frozen)
        self.verify(other)
        self.assertEqual(other.stop(), 0)
        self.check(self.owner, answers)

    def test_what_one_changes_the_other_knows(self):
        (a, b), key = self.served()
        for turn in range(TIMES):
            key = a.key(f"acme/bot{turn}")
            accessor = key.split("_")[1]
            peer = b.tcp(key) if crib.wait_for("the key at the other node", lambda: self.knows(b, key)) else None
            self.addCleanup(peer.close)
            peer.initialize()
            self.assertNotIn("error", peer.call("echo", {"text": "x"}))
            before = self.sql("SELECT count(*) FROM toolcrib.rec WHERE kind = 1002 AND outcome = 1")
            a.cli("key", "revoke", accessor, "--yes")
            try:
                said = peer.call("echo", {"text": "y"})
            except (AssertionError, OSError):
                said = {"error": "closed"}
            self.assertTrue("error" in said or said["result"].get("isError"), said)
            self.assertEqual(self.sql("SELECT count(*) FROM toolcrib.rec WHERE kind = 1002 AND outcome = 1"), before)

    @staticmethod
    def knows(node, key):
        peer = node.tcp(key)
        try:
            peer.initialize()
            return True
        except (AssertionError, OSError, KeyError):
            return False
        finally:
            peer.close()

    def test_a_commit_without_an_answer_is_asked_after(self):
        key = self.made()
        proxy = Proxy(self.owner.dir / "proxy", str(self.rig.dir / ".s.PGSQL.5432"))
        self.addCleanup(proxy.close)
        n = self.node("n1").serve(url=self.owner.url.replace(f"host={self.rig.dir}", f"host={proxy.folder}"))
        load = single.Load(key, [n], clients=4)
        for cut in range(max(TIMES, 3)):
            load.await_more(5)
            proxy.cuts = 1
            proxy.await_cuts()
        load.await_more(5)
        unsure = n.status()["counters"]["cluster_unsure"]
        answers = load.stop()
        self.verify(n)
        self.assertEqual(n.stop(), 0)
        self.assertGreater(unsure, 0)
        self.check(self.owner, answers)

    def test_without_a_signer_all_of_them_refuse(self):
        nodes, key = self.served(extra="audit: {checkpoint_max_age: 5}\n")
        peers = [n.tcp(key) for n in nodes]
        for peer in peers:
            self.addCleanup(peer.close)
            peer.initialize()
            self.assertIn("result", peer.call("echo", {"text": "x"}))
        self.signer.kill()
        self.signer.wait()
        os.unlink(self.owner.at)
        for peer in peers:
            refused = crib.wait_for("a refusal", lambda: peer.call("echo", {"text": "x"}).get("error"))
            self.assertEqual(refused["data"]["reason"], "audit_unavailable")
        self.sign()
        for peer in peers:
            crib.wait_for("calls again", lambda: "result" in peer.call("echo", {"text": "x"}))

    def state(self, node, name):
        return next((row["state"] for row in node.json("node", "list") if row["name"] == name), None)

    def ready(self, node):
        try:
            with urllib.request.urlopen(f"http://{node.at_metrics}/readyz", timeout=crib.DEADLINE) as got:
                return got.status
        except urllib.error.HTTPError as e:
            return e.code

    def napping(self):
        """Two nodes; n2 runs a call that ends when the file is there."""
        nodes, key = self.served(extra='metrics: {listen: "127.0.0.1:0"}\n')
        name = self.owner.dir / "over"
        nodes[0].tool(crib.tool_yaml("nap", json.dumps({"type": "exec", "argv": [
            "/bin/sh", "-c", f"until [ -e {name} ]; do sleep 0.05; done"], "stdin": "none", "output": "text"})), "nap.yaml")
        nodes[0].cli("grant", "add", "acme", "nap")
        for n in nodes:
            n.at_metrics = "%s:%d" % n.address("metrics")
        peer = nodes[1].tcp(key)
        self.addCleanup(peer.close)
        peer.initialize()
        crib.wait_for("the tool at the other node", lambda: "nap" in peer.tools())
        peer.send(peer.request("tools/call", {"name": "nap"}, id=77))
        crib.wait_for("a running call", lambda: nodes[1].json("status")[0]["running"] == 1)
        return nodes, key, peer, name

    def test_one_that_is_drained_ends_its_calls_and_stops(self):
        (a, b), key, peer, over = self.napping()
        self.assertEqual(self.ready(b), 200)
        self.assertEqual(a.cli("node", "drain", "n2"), "node n2 drains, and stops when its calls have ended\n")
        crib.wait_for("a node that is not ready", lambda: self.ready(b) == 503)
        self.assertEqual((self.state(a, "n2"), b.json("status")[0]["state"]), ("drains", "draining"))
        self.assertEqual(a.cli("node", "drain", "n2"), "node n2 drains, and stops when its calls have ended\n")
        with self.assertRaises((OSError, AssertionError)):
            b.tcp(key).initialize()
        over.touch()
        self.assertNotIn("error", peer.answer(77))
        self.assertEqual(b.daemon.wait(crib.DEADLINE), 0)
        b.daemon = None
        self.assertEqual(self.state(a, "n2"), "stopped")
        for words, says in ((("drain", "n2"), "node n2 does not serve"), (("drain", "n3"), "no server of this store is node n3"),
                            (("remove", "n1", "--yes"), "the one that this command was given to"), (("remove", "n3", "--yes"), "no server of this store")):
            with self.assertRaises(crib.Failed) as said:
                a.cli("node", *words)
            self.assertIn(says, said.exception.err)
        self.assertEqual(a.cli("node", "remove", "n2", "--yes"), "node n2 is forgotten\n")
        self.assertIsNone(self.state(a, "n2"))
        self.assertEqual(self.sql("SELECT string_agg(regexp_replace(detail, '.*: ', ''), '; ' ORDER BY idx) FROM toolcrib.v_records "
                                  "WHERE kind = 'admin.cmd' AND object = 'node/n2'"),
                         "node drain name=n2; node drain name=n2; node remove name=n2")
        b.serve()
        self.assertEqual(self.state(a, "n2"), "serves")
        self.assertEqual(b.cli("node", "drain", "n2"), "node n2 drains, and stops when its calls have ended\n")       # itself
        self.assertEqual(b.daemon.wait(crib.DEADLINE), 0)
        b.daemon = None

    def test_one_that_is_removed_is_fenced(self):
        (a, b), key, peer, over = self.napping()
        with self.assertRaises(crib.Failed) as said:
            a.cli("node", "remove", "n2", "--yes")
        self.assertIn("node n2 has not stopped", said.exception.err)
        self.assertIn("--force", said.exception.err)
        self.assertIn("is fenced", a.cli("node", "remove", "n2", "--force", "--yes"))
        self.assertEqual(b.daemon.wait(crib.DEADLINE), 1)
        b.daemon = None
        crib.wait_for("a node that is forgotten", lambda: self.state(a, "n2") is None)
        self.assertEqual(self.sql("SELECT count(*) FROM toolcrib.rec WHERE kind = 1004"), "1")
        self.assertEqual(self.sql("SELECT count(*) FROM toolcrib.node WHERE name = 'n2'"), "0")
        over.touch()
        b.serve()
        self.verify(b)

    def records(self, kind):
        return int(self.sql(f"SELECT count(*) FROM toolcrib.v_records WHERE kind = '{kind}'"))

    def test_what_time_makes_due_is_done_once(self):
        """CLUSTER K-211: by the keeper, and by the next one behind it."""
        (a, b), _ = self.served()
        self.assertEqual(self.keeper(), "n1")

        def looks(n):           # the first use of a key is stored at once, and keys that have ended are looked for behind that
            key = n.key("acme/bot")
            self.assertTrue(crib.wait_for("a key that works", lambda: self.knows(n, key)))
            crib.wait_for("its first use", lambda: self.sql(f"SELECT last_used_us FROM toolcrib.cred WHERE accessor = '{key.split('_')[1]}'"))

        def ends():
            accessor = b.key("acme/bot", "--ttl", "1s").split("_")[1]
            crib.wait_for("the end of a key", lambda: b.json("key", "show", accessor)[0]["state"] == "expired")

        ends()
        looks(b)
        looks(b)                # its look behind the first use is over as well
        self.assertEqual(self.records("cred.expire"), 0)
        looks(a)
        crib.wait_for("the record", lambda: self.records("cred.expire") == 1)
        looks(b)
        self.assertEqual(self.records("cred.expire"), 1)
        with self.assertRaises(crib.Failed) as said:
            b.cli("alerts", "test")
        self.assertIn("another node of this store has its alerts", said.exception.err)
        a.cli("alerts", "test")
        crib.wait_for("an alert", lambda: self.sql("SELECT state FROM toolcrib.alert WHERE rule = 'test'") == "0")
        a.daemon.kill()
        a.daemon.wait()
        ends()
        crib.wait_for("another keeper", lambda: self.keeper() == "n2")
        looks(b)
        crib.wait_for("the record of the next keeper", lambda: self.records("cred.expire") == 2)
        a.serve()
        looks(a)
        self.assertEqual(self.records("cred.expire"), 2)
        crib.wait_for("the end of an alert of the keeper before", lambda: self.sql(
            "SELECT state FROM toolcrib.alert WHERE rule = 'test'") == "2", 3 * crib.DEADLINE)

    def test_what_a_node_runs_is_its_own_until_it_dies(self):
        """CLUSTER K-211: a task that runs at another node is not cut off by a start; who buries a node says how its tasks ended."""
        (a, b), _ = self.served()
        a.tool(crib.tool_yaml("must", "{type: builtin, function: sleep}", "{type: object, properties: {ms: {type: integer}}}",
                              "task: {support: required, ttl: 1h}\nlimits: {timeout: 10m}\n"), "must.yaml")
        a.cli("grant", "add", "acme", "must")
        peer = a.http(a.key("acme/bot"))
        self.addCleanup(peer.close)
        task = peer.call("must", {"ms": 600000}, crib.MODERN, {"extensions": {"io.modelcontextprotocol/tasks": {}}})["result"]["taskId"]

        def state():
            return self.sql(f"SELECT state FROM toolcrib.task WHERE tid = '{task}'")

        self.assertEqual(state(), "1")
        self.assertEqual(b.stop(), 0)
        self.owner.cli("tenant", "list")        # without a server: a node of its own
        self.owner.cli("tenant", "add", "gamma")
        b.serve()
        self.assertEqual(state(), "1")
        a.daemon.kill()
        a.daemon.wait()
        crib.wait_for("the end of the task", lambda: state() == "4")
        self.assertEqual(self.records("task.end"), 1)
        a.serve()
        self.assertEqual((state(), self.records("task.end"), self.records("call.recovered")), ("4", 1, 1))

    def test_one_that_could_not_sign_does_not_join(self):
        self.made()
        self.node("n1").serve()
        other = self.node("n2")
        with self.assertRaises(AssertionError) as said:
            other.start(node="n2")
        self.assertIn("another node has the signer of this store", str(said.exception))
        self.assertIn("toolcrib-sign --dir DIR --socket PATH", str(said.exception))


if __name__ == "__main__":
    crib.main()
