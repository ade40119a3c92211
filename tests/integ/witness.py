"""What must hold after every fault: a crib under load, and the witnesses that the store cannot have invented: the answers
that clients hold and the side effects that a tool left (FAULT FI-1 to FI-5)."""
import contextlib
import json
import signal
import sqlite3
import threading
import time

import crib

SIDE_EFFECT = """#!/bin/sh
echo "$1" >> "$2"
echo done
"""
BEGIN, END, RECOVERED = 1001, 1002, 1004


class Witness:
    """A crib with the tools echo and effect for the tenant acme, and clients that call them until stopped.  folder: where
    the program and its effects lie, the crib's own if nothing is said; key: of a store that has all of it."""

    def __init__(self, c, folder=None, key=None):
        self.crib, self.key = c, key
        program, self.effects = (folder or c.dir) / "effect", (folder or c.dir) / "effects"
        program.write_text(SIDE_EFFECT)
        program.chmod(0o755)
        self.effects.write_text("")
        if not key:
            self.furnish(program)
        self.answered, self.refused = [], 0
        self.lock, self.stopping, self.clients = threading.Lock(), threading.Event(), []

    def furnish(self, program):
        c = self.crib
        c.tool(crib.ECHO)
        c.tool(crib.tool_yaml("effect", f'{{type: exec, argv: ["{program}", "{{call}}", "{self.effects}"], stdin: none, '
                              f'output: text, sandbox: {{write: ["{self.effects}"]}}}}'), "effect.yaml")
        self.key = c.tenant("acme", "echo", "effect")

    def _call(self, tool, transport):
        with contextlib.closing(getattr(self.crib, transport)(self.key)) as peer:
            while not self.stopping.is_set():
                got = peer.call(tool, {"text": "x"} if tool == "echo" else {}, crib.MODERN)
                meta = got.get("result", {}).get("_meta", {})
                with self.lock:
                    if "dev.toolcrib/callId" in meta:
                        self.answered.append(meta["dev.toolcrib/callId"])
                    elif got.get("error", {}).get("code") == 5030:
                        self.refused += 1

    def _client(self, tool, transport):
        while not self.stopping.is_set():
            try:
                self._call(tool, transport)
            except (OSError, AssertionError, ValueError, AttributeError, crib.http.client.HTTPException):
                self.stopping.wait(0.01)

    def load(self, *clients):
        """Start clients; without arguments five of them, both tools over HTTP and TCP."""
        clients = clients or (("echo", "http"), ("echo", "tcp"), ("echo", "http"), ("effect", "tcp"), ("effect", "http"))
        self.clients = [threading.Thread(target=self._client, args=args, daemon=True) for args in clients]
        for thread in self.clients:
            thread.start()

    def rest(self):
        """Stop the clients."""
        self.stopping.set()
        for thread in self.clients:
            thread.join(crib.DEADLINE)
        self.stopping.clear()
        self.clients = []

    def kill(self):
        self.crib.daemon.send_signal(signal.SIGKILL)
        self.crib.daemon.wait()

    def restart(self, extra=""):
        """Start after a death; how long it took to answer, in seconds."""
        begun = time.monotonic()
        self.crib.daemon = None
        self.crib.start(extra)
        return time.monotonic() - begun

    def records(self):
        """Call ids by kind."""
        found = {BEGIN: set(), END: set(), RECOVERED: set()}
        if self.crib.rows("SELECT 1 FROM blk LIMIT 1"):
            kinds = {"call.begin": BEGIN, "call.end": END, "call.recovered": RECOVERED}
            for line in self.crib.cli("audit", "export", "--tenant", "acme").splitlines():
                row = json.loads(line)
                if row.get("kind") in kinds:
                    found[kinds[row["kind"]]].add(row["call"].replace("-", ""))
            return found
        with sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True) as db:
            for kind, call in db.execute("SELECT kind, call FROM rec WHERE kind IN (1001, 1002, 1004)"):
                found[kind].add(call.hex())
        db.close()
        return found

    def effects_seen(self):
        return [line.strip().replace("-", "") for line in self.effects.read_text().splitlines()]

    def testify(self, case):
        """Nothing acknowledged is lost, nothing ran without a begin, nothing is left open.  The daemon is stopped."""
        found = self.records()
        seen = [call.replace("-", "") for call in self.answered]
        case.assertEqual([call for call in seen if call not in found[BEGIN] or call not in found[END]], [],
                         "answered, not recorded")
        case.assertEqual([call for call in self.effects_seen() if call not in found[BEGIN]], [], "ran without a durable begin")
        case.assertEqual(found[BEGIN] - found[END] - found[RECOVERED], set(), "a begin without an end")
        case.assertEqual(found[END] & found[RECOVERED], set())
        with sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True) as db:
            case.assertEqual(db.execute("PRAGMA integrity_check").fetchone()[0], "ok")
            gaps = db.execute("SELECT log, min(idx), count(*), max(idx) FROM rec r WHERE idx >= coalesce((SELECT max(first + cnt) "
                              "FROM blk WHERE log = r.log), 0) GROUP BY log").fetchall()
        db.close()
        case.assertEqual([row for row in gaps if row[1] + row[2] != row[3] + 1], [], "a gap in a log")
        return found
