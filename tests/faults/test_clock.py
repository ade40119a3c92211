"""FAULT F24: the wall clock is set back two days and on ten years while the server runs.  The step is on record, the order of
records goes by their index, what has expired is refused by the clock as it is, no duration is negative, and verification finds nothing.

FAULT F25: nobody keeps the clock right.  Each record says so, a record of its own and the log say when that changed, and
`audit clock` shows it to a reviewer (A-Q19)."""
import pathlib
import signal
import sqlite3
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integ"))
import crib

DAY = 86400
CALL_BEGIN, SERVER_STOP, CLOCK_STEP, TIME_SYNC = 1001, 1602, 1605, 1606
SYNCED, UNSYNCED, STEPPED = 1, 2, 3     # of the column clk
SILENT = 0                              # what the kernel does not say; NULL there
SHIFT = crib.BUILD / "tests/integ/shift.so"


class Case(crib.Case):
    def setUp(self):
        super().setUp()
        if not SHIFT.exists():
            self.skipTest("shift.so is not built")
        self.file = self.crib.dir / "shift"

    def preload(self, name):
        self.crib.env.update({"LD_PRELOAD": str(SHIFT), name: str(self.file), "ASAN_OPTIONS": "verify_asan_link_order=0"})

    def set(self, number):
        new = self.file.with_suffix(".new")
        new.write_text(str(number))
        new.rename(self.file)

    def query(self, sql):
        db = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        rows = db.execute(sql).fetchall()
        db.close()
        return rows

    def call(self, key, text):
        peer = self.crib.http(key)
        body = peer.request("tools/call", {"name": "echo", "arguments": {"text": text}}, crib.MODERN)
        status, _, _ = peer.post(crib.json.dumps(body), peer.headers(body))
        peer.close()
        return status


class Step(Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        self.set(0)
        c.tool(crib.ECHO)
        c.tenant("acme", "*")
        self.key, self.short = c.key("acme/bot"), c.key("acme/short", "--ttl", "1d")
        self.preload("TOOLCRIB_TEST_SHIFT")
        c.start()

    def steps(self):
        return len(self.query(f"SELECT id FROM rec WHERE kind = {CLOCK_STEP}"))

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
        self.assertEqual(self.query(f"SELECT DISTINCT clk FROM rec WHERE kind = {CLOCK_STEP}"), [(STEPPED,)])
        self.assertEqual(self.query(f"SELECT count(*) FROM rec WHERE kind <> {CLOCK_STEP} AND clk = {STEPPED}"), [(0,)])
        del c.env["LD_PRELOAD"]
        c.cli("audit", "verify")


class Sync(Case):
    def setUp(self):
        super().setUp()
        c = self.crib
        self.set(SILENT)
        self.preload("TOOLCRIB_TEST_SYNC")
        c.cli("init")
        c.tool(crib.ECHO)
        self.key = c.tenant("acme", "*")

    def clks(self, where):
        return [clk for clk, in self.query(f"SELECT clk FROM rec WHERE {where} ORDER BY id")]

    def states(self):
        """What a reviewer gets, oldest first."""
        return [(row["clock"], row["detail"]) for row in reversed(self.crib.json("audit", "clock"))]

    def verify(self):
        c = self.crib
        c.env.pop("LD_PRELOAD", None)
        c.cli("audit", "verify")
        for program in ([crib.BUILD / "toolcrib-verify"], crib.sceptic()):
            done = subprocess.run([*program, *crib.evidence(c.store), c.store / "toolcrib.db"], capture_output=True, text=True, timeout=60)
            self.assertIn(done.returncode, (0, 5), done.stdout + done.stderr)

    def test_it_becomes_synchronised_while_the_server_runs(self):
        c = self.crib
        self.assertEqual(set(self.clks("1")), {None}, "nothing is claimed that the kernel does not say")
        self.set(UNSYNCED)
        c.start()
        crib.wait_for("a record of the state", lambda: self.clks(f"kind = {TIME_SYNC}") == [UNSYNCED])
        self.assertIn("the clock is not synchronised", c.log.read_text())
        self.assertEqual(c.json("status")[0]["clock"], "not synchronised")
        self.assertEqual(c.json("status")[0]["counters"]["clock_synchronised"], 0)
        self.assertEqual(self.call(self.key, "0"), 200)
        self.assertEqual(self.clks("call IS NOT NULL"), [UNSYNCED, UNSYNCED])
        self.set(SYNCED)
        crib.wait_for("a record of the change", lambda: self.clks(f"kind = {TIME_SYNC}") == [UNSYNCED, SYNCED])
        self.assertEqual(self.call(self.key, "1"), 200)
        self.assertEqual(self.clks("call IS NOT NULL"), [UNSYNCED, UNSYNCED, SYNCED, SYNCED])
        self.assertEqual(self.states(), [("not synchronised", "not synchronised, status 0x0040"),
                                         ("synchronised", "synchronised, error at most 12 ms, status 0x0001")])
        self.assertEqual(c.json("status")[0]["clock"], "synchronised")
        self.assertEqual(c.json("status")[0]["counters"]["clock_synchronised"], 1)
        self.assertEqual(c.stop(), 0)
        self.assertEqual(c.log.read_text().count("the clock is not synchronised"), 1)
        self.assertEqual(self.clks(f"kind = {SERVER_STOP}")[-1], SYNCED)
        self.set(UNSYNCED)
        c.cli("tenant", "add", "other")
        self.assertEqual(self.clks(f"kind = {SERVER_STOP}")[-1], UNSYNCED, "a command says what the kernel says while it runs")
        self.assertEqual(len(self.clks(f"kind = {TIME_SYNC}")), 2, "and leaves the states to the server")
        self.verify()

    def test_a_kernel_that_does_not_say(self):
        c = self.crib.start()
        self.assertEqual(self.call(self.key, "0"), 200)
        crib.wait_for("a record of that", lambda: self.clks(f"kind = {TIME_SYNC}"))
        self.assertEqual(self.states(), [(None, "not known: Operation not permitted")])
        self.assertEqual(c.json("status")[0]["clock"], "not known")
        self.assertEqual(c.stop(), 0)
        self.assertEqual(c.log.read_text().count("not known: Operation not permitted"), 1)
        self.assertEqual(set(self.clks("1")), {None})
        self.verify()


if __name__ == "__main__":
    crib.main()
