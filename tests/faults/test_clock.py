"""FAULT F24: the wall clock is set back two days and on ten years while the server runs.  The step is on record, the order of
records goes by their index, what has expired is refused by the clock as it is, no duration is negative, and verification finds nothing."""
import pathlib
import signal
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integ"))
import crib

DAY = 86400
CLOCK_STEP = 1605
SHIFT = crib.BUILD / "tests/integ/shift.so"


class Clock(crib.Case):
    def setUp(self):
        super().setUp()
        if not SHIFT.exists():
            self.skipTest("shift.so is not built")
        c = self.crib.init()
        self.file = c.dir / "shift"
        self.set(0)
        c.tool(crib.ECHO)
        c.tenant("acme", "*")
        self.key, self.short = c.key("acme/bot"), c.key("acme/short", "--ttl", "1d")
        c.env.update(LD_PRELOAD=str(SHIFT), TOOLCRIB_TEST_SHIFT=str(self.file), ASAN_OPTIONS="verify_asan_link_order=0")
        c.start()

    def set(self, seconds):
        new = self.file.with_suffix(".new")
        new.write_text(str(seconds))
        new.rename(self.file)

    def query(self, sql):
        db = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        rows = db.execute(sql).fetchall()
        db.close()
        return rows

    def steps(self):
        return len(self.query(f"SELECT id FROM rec WHERE kind = {CLOCK_STEP}"))

    def call(self, key, text):
        peer = self.crib.http(key)
        body = peer.request("tools/call", {"name": "echo", "arguments": {"text": text}}, crib.MODERN)
        status, _, _ = peer.post(crib.json.dumps(body), peer.headers(body))
        peer.close()
        return status

    def test_the_clock_is_set_while_it_runs(self):
        c = self.crib
        kept = c.http(self.key)
        self.assertEqual((self.call(self.key, "0"), self.call(self.short, "0")), (200, 200))
        rows = ((-2 * DAY, 200, 200), (3650 * DAY, 401, 401), (2 * DAY, 200, 401), (0, 200, 200), (1, 200, 200))
        for n, (seconds, long, short) in enumerate(rows, 1):
            self.set(seconds)
            if seconds != 1:                    # a leap second is drift, or a step: either is right
                crib.wait_for("a record of the step", lambda: self.steps() >= n)
            with self.subTest(seconds=seconds):
                self.assertEqual((self.call(self.key, str(n)), self.call(self.short, str(n))), (long, short),
                                 "expiry goes by the clock as it is")
                body = kept.request("tools/call", {"name": "echo", "arguments": {"text": str(n)}}, crib.MODERN)
                self.assertEqual(kept.post(crib.json.dumps(body), kept.headers(body))[0], long, "connections go by none")
        kept.close()
        c.daemon.send_signal(signal.SIGHUP)     # what is timed by the other clock goes on
        crib.wait_for("a reload", lambda: "configuration reloaded" in c.log.read_text())
        self.assertEqual(c.stop(), 0)
        ends = self.query("SELECT e.dur, e.id, b.id FROM rec e JOIN rec b ON b.call = e.call AND b.kind = 1001 WHERE e.kind = 1002 ORDER BY e.id")
        self.assertEqual(len(ends), 2 + 3 + 0 + 2 + 3 + 3)
        for dur, end, begin in ends:
            self.assertLess(begin, end)
            self.assertTrue(0 <= (dur or 0) < 60 * 10**6, dur)
        said = [row["call"] for row in c.json("audit", "calls", "--tenant", "acme")]
        self.assertEqual(len(said), len(ends))
        del c.env["LD_PRELOAD"]
        c.cli("audit", "verify")


if __name__ == "__main__":
    crib.main()
