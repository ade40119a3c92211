"""kill -9 at random moments under load: whatever a client saw is in the audit, whatever ran has a begin, and the
next start closes what was open (AUDIT A-101 to A-104, FAULT F1)."""
import os
import random

import crib
from witness import RECOVERED, Witness

KILLS = int(os.environ.get("TOOLCRIB_KILLS", "3"))


class Crash(crib.Case):
    def test_nothing_acknowledged_is_lost(self):
        self.kill("")

    def test_nothing_is_lost_while_records_become_blocks(self):
        """SC-302: at random moments of folding and of deleting what was folded."""
        self.kill("audit: {fold_age: 1, plain_rows: 0}\n")
        self.assertGreaterEqual(self.blocks(), KILLS)
        done = self.crib.run("audit", "verify")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def blocks(self):
        return self.crib.rows("SELECT count(*) FROM blk")[0][0]

    def kill(self, conf):
        w = Witness(self.crib.init())
        rng = random.Random(20261121)
        slowest = 0.0
        self.crib.start(conf)
        w.load()
        for _ in range(KILLS):
            goal = len(w.answered) + (rng.randrange(300, 700) if conf else rng.randrange(5, 60))
            blocks = self.blocks() if conf else 0
            crib.wait_for("answers between two kills", lambda: len(w.answered) >= goal)
            crib.wait_for("blocks between two kills", lambda: not conf or self.blocks() > blocks)
            w.kill()
            slowest = max(slowest, w.restart(conf))
        w.rest()
        self.crib.stop()
        self.assertGreater(len(w.answered), KILLS)
        recovered = w.testify(self)[RECOVERED]
        print(f"{KILLS} kills, {len(w.answered)} answers, {len(w.effects_seen())} side effects, {len(recovered)} recovered, "
              f"slowest start {slowest:.2f} s", flush=True)
        self.assertLess(slowest, crib.DEADLINE)


if __name__ == "__main__":
    crib.main()
