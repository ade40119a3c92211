"""A store of 50,000 records by tests/bench/b_fill, with values: both verifiers, and what was planted (SC-901)."""
import crib
import test_fill

RECORDS = 50000
PLANTED = {"tool_error", "rare_outcome", "rare_tool", "rare_principal", "after_revocation", "drift", "oversight", "task"}


class Large(test_fill.Filled):
    def test_sc901_a_large_store_is_honest_and_gives_what_was_planted(self):
        planted = self.crib.fill(RECORDS, "--tenants", 40, "--level", "request")
        self.verify(self.crib)
        self.crib.start()
        self.find(self.crib, planted, PLANTED)
        self.assertEqual([row["who"] for row in self.crib.ask("audit isolation") if row["what"] == "key"],
                         [planted["isolation"]["key"]])
        self.assertEqual([row["detail"] for row in self.crib.ask("audit clock") if row["kind"] == "clock.step"],
                         [f"{planted['clock']['step_ms']} ms"])
        self.assertEqual(self.crib.ask("audit continuity", executions=True), [])


del test_fill.Small             # it runs by itself


if __name__ == "__main__":
    crib.main()
