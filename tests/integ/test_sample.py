#!/usr/bin/env python3
"""Samples by rank (SC-404): the same for the same seed, and anybody draws them from an export by the lines of the manual."""
import json
import re
import subprocess
import sys

import crib

T = "fill00000"
CALLS = ("call.end", "call.denied", "call.recovered")
MASK = 2**64 - 1


def lines_of_the_manual():
    page = (crib.SOURCE / "src/audit/toolcrib-audit.7").read_text()
    return re.search(r"(?ms)^\.Ss Samples$.*?^\.Bd -literal[^\n]*\n(.*?)^\.Ed$", page)[1]


def splitmix64(seed):
    while True:
        seed = seed + 0x9E3779B97F4A7C15 & MASK
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        yield z ^ z >> 31


class Samples(crib.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.made = crib.Crib()
        cls.addClassCleanup(cls.made.close)
        cls.made.fill(3000, "--tenants", 2, "--zipf", 2, "--failures", 0.2, "--days", 3)
        cls.made.start()

    def setUp(self):
        super().setUp()
        self.crib = self.made

    def sample(self, *words):
        said = json.loads(self.crib.cli("audit", "sample", *map(str, words), "--format", "json"))
        return said["header"], said["rows"]

    def population(self, where, *values):
        return [idx for idx, in self.crib.rows(f"SELECT idx FROM v_records WHERE {where} ORDER BY idx", *values)]

    def calls(self, tenant=T, where=""):
        return self.population(f"tenant = ? AND kind IN {CALLS} {where}", tenant)

    def by_the_manual(self, seed, number, *words):
        export = self.crib.cli("audit", "export", "--tenant", T, *words)
        return [int(n) for n in subprocess.run([sys.executable, "-c", lines_of_the_manual(), str(seed), str(number)], input=export, text=True,
                                               capture_output=True, check=True).stdout.split()]

    def test_sc404_the_lines_of_the_manual_draw_the_same(self):
        """Ten lines, from an export: any seed and number, and the numbers of SplitMix64 as published."""
        self.assertEqual(lines_of_the_manual().count("\n"), 10)
        numbers = splitmix64(1234567)
        self.assertEqual([next(numbers) for _ in range(3)], [6457827717110365317, 3203168211198807973, 9817491932198370423])
        calls = self.calls()
        self.assertGreater(calls[-1], 4 * 256, "several pieces are counted")
        for seed, number in ((7, 25), (0, 1), (1, 100), (2**32 - 1, len(calls) - 1), (3, len(calls)), (4, len(calls) + 7)):
            header, rows = self.sample("--tenant", T, "--seed", seed, "-n", number)
            got = [row["index"] for row in rows]
            self.assertEqual(got, self.by_the_manual(seed, number), (seed, number))
            self.assertEqual((len(got), got), (min(number, len(calls)), sorted(set(got))))
            self.assertEqual([calls[row["rank"]] for row in rows], got)
            self.assertEqual((header["method"], header["seed"], header["population"]), ("rank", seed, len(calls)))
        self.assertEqual(self.sample("--tenant", T)[1], self.sample("--tenant", T, "--seed", 1, "--number", 25, "--method", "rank")[1])

    def test_sc404_a_sample_is_of_what_was_asked_for(self):
        """A span of time, a kind, the system's log; none of nothing."""
        times = [t for t, in self.crib.rows("SELECT time FROM v_records WHERE tenant = ? ORDER BY ts", T)]
        since, until = times[len(times) // 3], times[len(times) // 2]
        some = self.calls(where=f"AND time >= '{since}' AND time < '{until}'")
        header, rows = self.sample("--tenant", T, "--since", since, "--until", until, "-n", 9, "--seed", 5)
        self.assertEqual((header["population"], [row["index"] for row in rows]),
                         (len(some), self.by_the_manual(5, 9, "--since", since, "--until", until)))
        self.assertTrue(set(row["index"] for row in rows) < set(some))
        for kind in ("call.denied", "call.end", "call.begin", "cred.create"):
            all = self.population("tenant = ? AND kind = ?", T, kind)
            header, rows = self.sample("--tenant", T, "--kind", kind, "-n", 4)
            self.assertEqual((header["population"], len(rows)), (len(all), min(4, len(all))), kind)
            self.assertEqual([all[row["rank"]] for row in rows], [row["index"] for row in rows], kind)
            self.assertEqual({row["kind"] for row in rows}, {kind})
        header, rows = self.sample("--kind", "tool.register", "-n", 2)
        self.assertLessEqual({row["index"] for row in rows}, set(self.population("log_id = 1 AND kind = 'tool.register'")))
        for words in (("--tenant", T, "--until", times[0]), ("--tenant", T, "--kind", "log.close"), ()):
            header, rows = self.sample(*words)
            self.assertEqual((header["population"], rows), (0, []), words)

    def test_sc404_its_record_draws_it_again(self):
        """The record of who looked says method, seed, number and the records it was drawn from; later calls change nothing."""
        c = self.crib
        header, rows = self.sample("--tenant", T, "-n", 5)
        seen, = c.rows("SELECT detail, range_from, range_to FROM v_records WHERE tenant = ? AND kind = 'audit.read' ORDER BY idx DESC LIMIT 1", T)
        said = dict(re.findall(r"(\w+)=(\S+?)(?=[ :])", seen[0]))
        self.assertEqual(said, {"tenant": T, "number": "5", "seed": "1", "method": "rank"})
        self.assertTrue(seen[0].endswith(": done, 5 rows"))
        self.assertEqual((seen[1], seen[2] - 1), (0, header["drawn_to"]))
        before = len(self.calls())
        peer = c.http(c.key(f"{T}/late"))
        for _ in range(20):
            peer.call("no_such_tool", {}, rev=crib.MODERN)
        peer.close()
        self.assertGreater(len(self.calls()), before)
        again, drawn = self.sample("--to", seen[2] - 1, *(word for name, value in said.items() for word in (f"--{name}", value)))
        self.assertEqual((drawn, again["population"], again["drawn_to"]), (rows, before, header["drawn_to"]))
        self.assertNotEqual(self.sample("--tenant", T, "-n", 5)[0]["population"], before)
        table = c.cli("audit", "sample", "--tenant", T, "-n", 5, "--to", header["drawn_to"])
        self.assertIn(f"\nsample    by rank, seed 1, of {before}, up to record {header['drawn_to']}\n", table)

    def test_sc404_old_samples_are_drawn_from_the_same_records(self):
        header, rows = self.sample("--tenant", T, "--method", "hash", "-n", 3, "--to", 500)
        p = 2147483647

        def hashed(i, x):
            return ((x * x + 1) % p) ** 2 % p + x

        want = sorted((i for i in self.calls() if i <= 500), key=lambda i: hashed(i, (48271 * i + 69621 + 1) % p) % p)[:3]
        self.assertEqual([row["index"] for row in rows], sorted(want))
        self.assertEqual((header["method"], header["seed"], header["drawn_to"], "population" in header), ("hash", 1, 500, False))

    def test_wrong_samples_are_told(self):
        newest = self.crib.rows("SELECT max(idx) FROM v_records WHERE tenant = ?", T)[0][0]
        for words, said in ((("-n", 0), "a sample has 1 to 100000 records"), (("-n", 100001), "a sample has 1 to 100000 records"),
                            (("--method", "luck"), '"luck" is none: rank or hash'), (("--to", "x"), "to"),
                            (("--to", newest + 1000), f"has no record {newest + 1000}")):
            done = self.crib.run("audit", "sample", "--tenant", T, *map(str, words))
            self.assertIn(done.returncode, (1, 2), words)
            self.assertIn(said, done.stderr, words)
        self.assertEqual(len(self.sample("--tenant", T, "-n", 100000)[1]), len(self.calls()), "the limit itself")


if __name__ == "__main__":
    crib.main()
