"""A description as large as any that is known, 13 MB and 2,000 operations: imported within 512 MiB, stored, exported, and applied
again without a difference."""
import json
import os
import subprocess
import sys

import crib

sys.path.insert(0, str(crib.SOURCE / "tests/integ/openapi"))
import describe

OPERATIONS = 2000               # that one import takes
SANITIZED = crib.sanitized("toolcrib")
KIB_MAX = 512 << 10


class LargeOpenApi(crib.Case):
    def test_n06_two_thousand_operations(self):
        file, out, many = self.crib.dir / "api.json", self.crib.dir / "tools", 200 if SANITIZED else OPERATIONS
        file.write_text(json.dumps(describe.describe(many), indent=7))
        self.assertGreater(file.stat().st_size, 6_500 * many)
        child = subprocess.Popen([crib.BUILD / "toolcrib", "import", "openapi", file, "--output", out], stderr=subprocess.PIPE)
        self.assertEqual(child.stderr.read(), b"")
        _, child.returncode, used = os.wait4(child.pid, 0)
        self.assertEqual(child.returncode, 0)
        self.assertEqual(len(list(out.iterdir())), many)
        if not SANITIZED:
            self.assertLess(used.ru_maxrss, KIB_MAX)
        self.crib.init()
        self.crib.cli("apply", "-f", out)
        self.assertEqual(len(self.crib.json("tool", "list")), many)
        self.crib.cli("export", "--output", self.crib.dir / "again")
        self.assertRegex(self.crib.cli("apply", "-f", self.crib.dir / "again"), "nothing differs|0 added, 0 changed, 0 removed")

    def test_one_operation_more_is_refused_and_a_part_of_them_taken(self):
        file = self.crib.dir / "api.json"
        file.write_text(json.dumps(describe.describe(OPERATIONS + 1)))
        done = self.crib.run("import", "openapi", file)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("more than 2000 operations", done.stderr)
        self.assertIn("hint: take some of them: --tag, --path", done.stderr)
        self.assertEqual(self.crib.cli("import", "openapi", file, "--tag", "group-0").count("\n---\n"), OPERATIONS // 10)


if __name__ == "__main__":
    crib.main()
