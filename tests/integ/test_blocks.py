"""Blocks of records by two readers that share no code (SC-201 to SC-207, SC-710): what the C code writes, verify.py reads to the
same leaves, zones, times, sums and payloads with zlib alone, and of what somebody was at both take the same, say the same of it,
and refuse the same; contrib/doc/block-format.md has an example that is read too."""
import hashlib
import importlib.util
import re
import struct
import subprocess
import unittest
import zlib

import crib

SEEDS, MUTANTS = 48, 40
ORIGIN = "0123456789abcdef/t/acme"
NO_TEXT = 999
spec = importlib.util.spec_from_file_location("verify", crib.SOURCE / "contrib" / "verify" / "verify.py")
verify = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verify)


def said(*arguments):
    """Each line: what it is, what is read, and what the C code says of it."""
    done = subprocess.run([crib.BUILD / "tests/integ/blocks", *map(str, arguments)], stdout=subprocess.PIPE, check=True, text=True)
    for line in done.stdout.splitlines():
        read, _, verdict = line.partition(" | ")
        yield read.split(), verdict.split()


def unhex(word):
    return b"" if word == "-" else bytes.fromhex(word)


def text(kind, number):
    return None if number == NO_TEXT else f"{kind}/{number}".encode()


def digest(content):
    return hashlib.sha256(content).hexdigest()


def judged(read, *arguments):
    """The verdict, and what was read."""
    try:
        return "ok", read(*arguments)
    except verify.Later:
        return "later", None
    except verify.Wrong:
        return "bad", None


def block_of(words):
    first, cnt, fmt, _, _ = map(int, words[:5])
    return verify.Block(first, cnt, fmt, unhex(words[5]), unhex(words[6]))


def verdict_of_block(words):
    verdict, block = judged(block_of, words)
    if not block:
        return [verdict, "-", verdict, digest(b"")]
    derived, _ = judged(block.derived, int(words[3]), int(words[4]), unhex(words[7]))
    all_texts, leaves = judged(block.leaves, ORIGIN, text)
    return [verdict, derived, all_texts, digest(b"".join(leaves or ()))]


def verdict_of_sums(words):
    verdict, sums = judged(verify.read_sums, unhex(words[2]), int(words[0]), int(words[1]))
    numbers = [number for entries in sums or () for entry in entries for number in entry]
    return [verdict, digest(b"full" * bool(sums) + struct.pack(f">{len(numbers)}q", *numbers))]


def verdict_of_body(words):
    verdict, payloads = judged(verify.read_payloads, unhex(words[0]))
    content = b"".join(struct.pack(">q", -1 if piece is None else len(piece)) + (piece or b"")
                       for payload in payloads or () for piece in payload)
    return [verdict, digest(content)]


VERDICTS = {"block": verdict_of_block, "sums": verdict_of_sums, "body": verdict_of_body}


class Blocks(unittest.TestCase):
    def check(self, what, words, verdict):
        self.assertEqual(VERDICTS[what](words), verdict, f"{what} {' '.join(words)}")

    def test_blocks_as_they_are_written_are_read_to_the_same_content(self):
        block = None
        full = 0
        for (what, *words), verdict in said(SEEDS, 0):
            if what == "block":
                block = block_of(words)
                self.assertEqual(verdict[:3], ["ok"] * 3)
            elif what == "of-the-block":
                what, *words = words
                sums = verify.read_sums(unhex(words[2]), int(words[0]), int(words[1]))
                self.assertEqual(verify.count_sums([block]), sums)
                full += bool(sums and sums[0])
            self.check(what, words, verdict)
        self.assertGreater(full, SEEDS // 8)

    def test_what_somebody_was_at_is_taken_or_refused_by_both(self):
        seen = {}
        for (what, *words), verdict in said(SEEDS, MUTANTS):
            if what in VERDICTS:
                seen[what, verdict[0]] = seen.get((what, verdict[0]), 0) + 1
                self.check(what, words, verdict)
        for what in VERDICTS:
            self.assertGreater(min(seen[what, "ok"], seen[what, "bad"]), SEEDS, seen)
        self.assertGreater(min(seen["block", "later"], seen["sums", "later"]), 0, seen)

    def test_a_chapter_is_the_sum_of_its_blocks(self):
        blocks = [block_of(words) for (what, *words), _ in said(8, 0) if what == "block"]
        total = sum(map(lambda block: block.zone()[0], blocks), verify.collections.Counter())
        self.assertEqual(sum(total.values()), sum(block.cnt for block in blocks))
        some = blocks[7]        # few combinations
        self.assertIsNotNone(verify.count_sums([some]))
        self.assertIsNone(verify.count_sums([some, blocks[0], blocks[2], blocks[4]]))

    def test_a_bomb_is_inflated_as_far_as_its_records_go(self):
        bomb = zlib.compress(bytes(1 << 20))
        self.assertRaises(verify.Wrong, verify.stream, bomb, 0, len(bomb) << 1, (1 << 20) - 1, "ts")
        self.assertEqual(verify.stream(bomb, 0, len(bomb) << 1, 1 << 20, "ts"), (bytes(1 << 20), len(bomb)))

    def test_the_example_of_the_page(self):
        page = (crib.SOURCE / "contrib/doc/block-format.md").read_text()
        example = re.search(r"^```example\n(.*?)^```$", page, re.M | re.S)[1]
        parts = {name: "".join(re.sub(" *#.*", "", line).strip().replace(" ", "") for line in lines.splitlines())
                 for name, lines in re.findall(r"^(\w+):\n((?:^  .*\n)+)", example, re.M)}
        (what, *words), verdict = next(iter(said("example")))
        self.assertEqual((what, [parts[name] for name in ("cols", "hash", "zone")]), ("block", words[5:]))
        block = block_of(words)
        self.assertEqual(parts["leaves"], b"".join(block.leaves(ORIGIN, text)).hex())
        self.assertEqual(parts["record"], block.records(ORIGIN, text)[1].hex())
        self.assertEqual(verdict[:3], ["ok"] * 3)


if __name__ == "__main__":
    crib.main()
