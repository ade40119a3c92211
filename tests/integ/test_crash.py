"""kill -9 at random moments under load: whatever a client saw is in the audit, whatever ran has a begin, and the
next start closes what was open (AUDIT A-101 to A-104, FAULT F1)."""
import os
import random

import crib
from witness import RECOVERED, Witness

KILLS = int(os.environ.get("TOOLCRIB_KILLS", "3"))


class Crash(crib.Case):
    def test_nothing_acknowledged_is_lost(self):
        w = Witness(self.crib.init())
        rng = random.Random(20261121)
        slowest = 0.0
        self.crib.start()
        w.load()
        for _ in range(KILLS):
            goal = len(w.answered) + rng.randrange(5, 60)
            crib.wait_for("answers between two kills", lambda: len(w.answered) >= goal)
            w.kill()
            slowest = max(slowest, w.restart())
        w.rest()
        self.crib.stop()
        self.assertGreater(len(w.answered), KILLS)
        recovered = w.testify(self)[RECOVERED]
        print(f"{KILLS} kills, {len(w.answered)} answers, {len(w.effects_seen())} side effects, {len(recovered)} recovered, "
              f"slowest start {slowest:.2f} s", flush=True)
        self.assertLess(slowest, crib.DEADLINE)


if __name__ == "__main__":
    crib.main()
