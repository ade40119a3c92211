"""Signals under load: a stop drains, a second one does not wait, a bad configuration changes nothing (FAULT F44, AUDIT 1604)."""
import hashlib
import http.client
import signal
import sqlite3
import threading
import time

import crib

CONFIG_LOAD = 1604
REST_S = 0.2            # between two readings of the configuration
OK, INVALID = 0, 2
NAP = crib.tool_yaml("nap", '{type: exec, argv: ["/bin/sleep", "60"], stdin: none, output: text}')


class Load:
    """Clients that call without a pause until the server lets them no more."""

    def __init__(self, crib_, key, n=4):
        self.answered, self.wrong, self.over = 0, [], threading.Event()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.client, args=(crib_.http(key), i), daemon=True) for i in range(n)]
        for thread in self.threads:
            thread.start()

    def client(self, peer, i):
        n = 0
        while not self.over.is_set():
            text = f"{i}-{n}"
            n += 1
            try:
                got = peer.call("echo", {"text": text}, crib.MODERN)
            except (OSError, http.client.HTTPException, AssertionError, ValueError):
                break           # refused or closed: the server stops
            with self.lock:
                self.answered += 1
                if got.get("result", {}).get("content", [{}])[0].get("text") != text:
                    self.wrong.append(got)
        peer.close()

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


class Signals(crib.Case):
    def prepare(self):
        c = self.crib.init()
        c.tool(crib.ECHO)
        c.tool(NAP, "nap.yaml")
        return c, c.tenant("acme", "*")

    def query(self, sql):
        db = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        rows = db.execute(sql).fetchall()
        db.close()
        return rows

    def loads(self):
        """What is on record of the configuration: outcome, digests before and after."""
        got = []
        for outcome, ext in self.query(f"SELECT outcome, ext FROM rec WHERE kind = {CONFIG_LOAD} ORDER BY id"):
            fields, at = {}, 0
            while at < len(ext):
                tag, size = int.from_bytes(ext[at:at + 2], "big"), int.from_bytes(ext[at + 2:at + 6], "big")
                fields[tag] = ext[at + 6:at + 6 + size]
                at += 6 + size
            got.append((outcome, fields.get(0x0100), fields.get(0x0101)))
        return got

    def test_stop_under_load(self):
        """Each call that was answered has its end on record, each that began has one, and the next start finds nothing open."""
        c, key = self.prepare()
        c.start()
        load = Load(c, key)
        crib.wait_for("calls", lambda: load.answered >= 50)
        self.assertEqual(c.stop(), 0)
        load.end()
        self.assertEqual(load.wrong, [])
        ((begins, ends),) = self.query("SELECT sum(kind = 1001), sum(kind = 1002) FROM rec")
        self.assertEqual(begins, ends)
        self.assertGreaterEqual(ends, load.answered)
        self.assertEqual(self.query("SELECT count(*) FROM rec WHERE kind = 1004"), [(0,)])
        c.cli("audit", "verify")

    def test_second_stop_under_load(self):
        c, key = self.prepare()
        c.start()
        naps = [c.tcp(key) for _ in range(3)]
        for nap in naps:
            nap.send(nap.request("tools/call", {"name": "nap"}, crib.MODERN, id=1))
        load = Load(c, key, 2)
        crib.wait_for("running calls", lambda: c.json("status")[0]["running"] >= 3 and load.answered)
        c.daemon.send_signal(signal.SIGTERM)
        crib.wait_for("a drain", lambda: c.json("status")[0]["state"] == "draining")
        c.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(c.daemon.wait(crib.DEADLINE), 0)
        c.daemon = None
        load.end()
        for nap in naps:
            nap.close()
        outcomes = [row["outcome"] for row in c.json("audit", "calls", "--tenant", "acme", "--tool", "nap")]
        self.assertEqual(outcomes, ["aborted"] * 3)
        self.assertEqual(self.query("SELECT count(*) FROM rec WHERE kind = 1004"), [(0,)])

    def test_bad_configuration_changes_nothing_and_is_on_record(self):
        c, key = self.prepare()
        c.start("drain_ms: 1000\n")
        good = hashlib.sha256(c.config("drain_ms: 1000\n").read_bytes()).digest()
        self.assertEqual(self.loads(), [(OK, None, good)])
        bad = hashlib.sha256(c.config("drain_ms: soon\n").read_bytes()).digest()
        c.daemon.send_signal(signal.SIGHUP)
        crib.wait_for("a record", lambda: self.loads()[1:] == [(INVALID, good, bad)])
        self.assertIn("result", c.http(key).call("echo", {"text": "x"}, crib.MODERN))
        (c.dir / "toolcribd.yaml").unlink()
        c.daemon.send_signal(signal.SIGHUP)
        crib.wait_for("a record", lambda: self.loads()[2:] == [(INVALID, good, None)])
        new = hashlib.sha256(c.config("drain_ms: 2000\n").read_bytes()).digest()
        c.daemon.send_signal(signal.SIGHUP)
        crib.wait_for("a record", lambda: self.loads()[3:] == [(OK, good, new)])

    def test_storm_of_hangups(self):
        c, key = self.prepare()
        c.start()
        load = Load(c, key, 2)
        crib.wait_for("calls", lambda: load.answered)
        before, begun = load.answered, time.monotonic()
        for i in range(300):
            c.daemon.send_signal(signal.SIGHUP)
            if i % 100 == 0:
                c.config("drain_ms: soon\n" if i == 100 else "")
        crib.wait_for("calls go on", lambda: load.answered > before + 20)
        c.config("drain_ms: 7\n")
        c.daemon.send_signal(signal.SIGHUP)
        last = hashlib.sha256((c.dir / "toolcribd.yaml").read_bytes()).digest()
        crib.wait_for("the last signal is heard", lambda: self.loads()[-1][2] == last)
        seconds = time.monotonic() - begun
        load.end()
        self.assertEqual(load.wrong, [])
        self.assertLessEqual(len(self.loads()), 2 + seconds / REST_S + 1)
        self.assertEqual(c.stop(), 0)


if __name__ == "__main__":
    crib.main()
