"""kill -9 at random moments under load: whatever a client saw is in the audit, whatever ran has a begin, and the
next start closes what was open (AUDIT A-101 to A-104)."""
import json
import os
import random
import signal
import socket
import sqlite3
import threading
import time

import crib

KILLS = int(os.environ.get("TOOLCRIB_KILLS", "3"))
SIDE_EFFECT = """#!/bin/sh
echo "$1" >> "$2"
echo done
"""


class Crash(crib.Case):
    def test_nothing_acknowledged_is_lost(self):
        c = self.crib.init()
        program, effects = c.dir / "effect", c.dir / "effects"
        program.write_text(SIDE_EFFECT)
        program.chmod(0o755)
        effects.touch()
        c.tool(crib.ECHO)
        c.tool(crib.tool_yaml("effect", f'{{type: exec, argv: ["{program}", "{{call}}", "{effects}"], stdin: none, output: text, '
                              f'sandbox: {{write: ["{effects}"]}}}}'),
               "effect.yaml")
        key = c.tenant("acme", "echo", "effect")
        rng = random.Random(20261121)
        answered, lock, stopping = [], threading.Lock(), threading.Event()

        def load(tool, transport):
            while not stopping.is_set():
                try:
                    peer = getattr(c, transport)(key)
                    while not stopping.is_set():
                        got = peer.call(tool, {"text": "x"} if tool == "echo" else {}, crib.MODERN)
                        meta = got.get("result", {}).get("_meta", {})
                        if "dev.toolcrib/callId" in meta:
                            with lock:
                                answered.append(meta["dev.toolcrib/callId"])
                except (OSError, AssertionError, ValueError, crib.http.client.HTTPException):
                    stopping.wait(0.01)

        c.start()
        clients = [threading.Thread(target=load, args=args, daemon=True)
                   for args in (("echo", "http"), ("echo", "tcp"), ("echo", "http"), ("effect", "tcp"), ("effect", "http"))]
        for thread in clients:
            thread.start()
        slowest = 0.0
        for _ in range(KILLS):
            goal = len(answered) + rng.randrange(5, 60)
            crib.wait_for("answers between two kills", lambda: len(answered) >= goal)
            c.daemon.send_signal(signal.SIGKILL)
            c.daemon.wait()
            begun = time.monotonic()
            c.start()
            slowest = max(slowest, time.monotonic() - begun)
        stopping.set()
        for thread in clients:
            thread.join(crib.DEADLINE)
        c.stop()

        db = sqlite3.connect(f"file:{c.store}/toolcrib.db?mode=ro", uri=True)
        begins, ends, recovered = set(), set(), set()
        for kind, call in db.execute("SELECT kind, call FROM rec WHERE kind IN (1001, 1002, 1004)"):
            {1001: begins, 1002: ends, 1004: recovered}[kind].add(call.hex())
        seen = [call.replace("-", "") for call in answered]
        ran = [line.strip().replace("-", "") for line in effects.read_text().splitlines()]
        self.assertGreater(len(seen), KILLS)
        self.assertEqual([call for call in seen if call not in begins or call not in ends], [], "answered, not recorded")
        self.assertEqual([call for call in ran if call not in begins], [], "ran without a durable begin")
        self.assertEqual(begins - ends - recovered, set(), "a begin without an end")
        self.assertEqual(ends & recovered, set())
        self.assertEqual(db.execute("PRAGMA integrity_check").fetchone()[0], "ok")
        positions = db.execute("SELECT log, count(*), max(idx) + 1 FROM rec GROUP BY log").fetchall()
        self.assertEqual([row for row in positions if row[1] != row[2]], [], "a gap in a log")
        print(f"{KILLS} kills, {len(seen)} answers, {len(ran)} side effects, {len(recovered)} recovered, "
              f"slowest start {slowest:.2f} s", flush=True)
        self.assertLess(slowest, crib.DEADLINE)


if __name__ == "__main__":
    crib.main()
