"""A server whose store is a database of PostgreSQL: it serves as one with files does, and loses nothing when either of the two dies."""
import json
import os
import sys
import threading
import time
import unittest

import crib

sys.path.insert(0, str(crib.SOURCE / "tests/pg"))
import pgrig  # noqa: E402

KILLS = int(os.environ.get("TOOLCRIB_TEST_KILLS", "1"))      # of each program in each test; by hand: 20
ROLES = "CREATE ROLE toolcrib LOGIN; CREATE ROLE toolcrib_audit LOGIN; CREATE ROLE toolcrib_owner LOGIN"


class Shared(crib.Crib):
    """A store on the rig's server, in databases of its own."""
    count = 0

    def __init__(self, rig, database=None):
        super().__init__()
        self.rig = rig
        if not database:
            Shared.count += 1
            database = f"crib{Shared.count}"
            for name in (database, f"{database}_keys"):
                rig.sql("postgres", f"CREATE DATABASE {name} TEMPLATE template0 OWNER toolcrib_owner STRATEGY file_copy")
        self.database = database
        self.url = f"postgresql:{rig.at(database)}"

    def init(self):
        self.must(["init", "--database", self.url, "--no-standby"])
        return self

    def start(self, extra="", node="n1", **more):
        return super().start(f'database: {{url: "{self.url}", require_standby: no}}\nnode: {node}\n{extra}', **more)

    def sql(self, text):
        return self.rig.sql(self.database, text)

    def close(self):
        super().close()
        for name in (self.database, f"{self.database}_keys"):
            self.rig.sql("postgres", f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


class Load:
    """Clients that call without end, each with connections of its own; what was answered, and what was not."""

    def __init__(self, key, cribs, clients=4):
        self.key, self.cribs, self.over = key, cribs, False
        self.lock, self.answers, self.refused = threading.Lock(), [], 0
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True) for i in range(clients)]
        for thread in self.threads:
            thread.start()

    def run(self, number):
        peer = None
        while not self.over:
            try:
                if not peer:
                    peer = self.cribs[number % len(self.cribs)].tcp(self.key)
                    peer.initialize()
                said = peer.call("echo", {"text": str(number)}).get("result", {})
                call = said.get("_meta", {}).get("dev.toolcrib/callId")
                with self.lock:
                    if call and not said.get("isError"):
                        self.answers.append(call)
                    else:
                        self.refused += 1
            except (OSError, AssertionError, ValueError, crib.Failed, KeyError, TypeError):
                with self.lock:
                    self.refused += 1
                if peer:
                    peer.close()
                peer = None
                time.sleep(0.01)        # nobody listens there meanwhile
        if peer:
            peer.close()

    def await_more(self, n=10):
        have = len(self.answers)
        crib.wait_for("calls that are answered", lambda: len(self.answers) >= have + n)

    def await_refusal(self, n=3):
        have = self.refused
        crib.wait_for("calls that are refused", lambda: self.refused >= have + n)

    def stop(self):
        self.over = True
        for thread in self.threads:
            thread.join(crib.DEADLINE)
        return self.answers


class Postgresql(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = pgrig.Server()
        cls.addClassCleanup(cls.rig.stop)
        cls.rig.sql("postgres", ROLES)

    def crib(self):
        c = Shared(self.rig)
        self.addCleanup(c.close)
        return c.init()

    def served(self, extra=""):
        c = self.crib()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        return c.start(extra), key

    def test_it_serves_as_with_files(self):
        c, key = self.served()
        for peer in (c.http(key), c.tcp(key)):
            self.addCleanup(peer.close)
            peer.initialize()
            self.assertEqual(list(peer.tools()), ["echo"])
            self.assertIn("hello", json.dumps(peer.call("echo", {"text": "hello"})))
        self.assertEqual(c.sql("SELECT count(*) FROM toolcrib.v_calls WHERE tool = 'echo' AND outcome = 'ok'"), "2")
        self.assertEqual(c.sql("SELECT count(*) FROM toolcrib.node WHERE name = 'n1' AND boot <> ''"), "1")
        self.assertEqual(c.stop(), 0)
        self.assertEqual(c.sql("SELECT count(*) FROM toolcrib.node WHERE boot <> ''"), "0")
        self.assertFalse((c.store / "toolcrib.db").exists())
        c.start()

    def check(self, c, answers):
        """What clients were told and what is on record: nothing that was answered is missing, nothing is there twice."""
        rows = [row.split("|") for row in c.sql(
            "SELECT count(*) FILTER (WHERE kind = 1001), count(*) FILTER (WHERE kind = 1002), count(*) FILTER (WHERE kind = 1004), "
            "encode(call, 'hex') FROM toolcrib.rec WHERE kind IN (1001, 1002, 1004) GROUP BY call").splitlines()]
        calls = {call: (int(begins), int(ends), int(recovered)) for begins, ends, recovered, call in rows}
        for call, counts in calls.items():
            self.assertIn(counts, ((1, 1, 0), (1, 0, 1)), call)
        for call in answers:
            self.assertEqual(calls.get(call.replace("-", "")), (1, 1, 0), call)
        self.assertEqual(c.sql("SELECT count(*) FROM toolcrib.log l JOIN toolcrib.head h ON h.log = l.id WHERE h.size <> (SELECT count(*) "
                               "FROM toolcrib.rec r WHERE r.log = l.id) OR h.size <> (SELECT count(DISTINCT idx) FROM toolcrib.rec r "
                               "WHERE r.log = l.id)"), "0")
        return calls

    def verify(self, c):
        said = c.cli("--json", "audit", "verify")
        self.assertIn('"INTACT"', said)

    def test_a_killed_server_loses_nothing(self):
        c, key = self.served()
        load = Load(key, [c])
        for kill in range(KILLS):
            load.await_more()
            c.daemon.kill()
            c.daemon.wait()
            c.start()
        load.await_more()
        answers = load.stop()
        self.assertEqual(c.stop(), 0)
        calls = self.check(c, answers)
        self.assertGreater(len(answers), 0)
        self.assertTrue(any(recovered for _, _, recovered in calls.values()) or KILLS < 3)
        self.verify(c)

    def test_a_database_that_died_refuses_and_comes_back(self):
        rig = pgrig.Server()
        self.addCleanup(rig.stop)
        rig.sql("postgres", ROLES)
        c = Shared(rig)
        self.addCleanup(super(Shared, c).close)
        c.init()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        c.start()
        load = Load(key, [c])
        for kill in range(KILLS):
            load.await_more()
            rig.crash()
            load.await_refusal()
            rig.again()
            load.await_more()
        answers = load.stop()
        self.assertEqual(c.stop(), 0)
        self.check(c, answers)
        self.verify(c)


if __name__ == "__main__":
    crib.main()
