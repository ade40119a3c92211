"""A large store goes to files and into another store, which says the same bytes; neither program's memory grows with it (N-05)."""
import os
import pathlib
import subprocess

import crib

TOOLS, TENANTS = (500, 20) if crib.sanitized("toolcrib") else (5000, 200)         # what they look for is there in the small as well
MEMORY = 256 << 10                      # KiB that client and server may have each

TOOL = """---
name: tool_{i}
description: Says what number {i} is, in as many words as such texts have.
inputSchema:
  type: object
  properties:
    a: {{type: string, description: The first argument of number {i}.}}
    b: {{type: integer, minimum: 0, maximum: {i}}}
  required: [a]
handler: {{type: builtin, function: echo}}
limits: {{timeout: {timeout}s}}
"""
TENANT = """---
kind: tenant
name: t{i}
title: Tenant {i}
limits: {{rate: {n}/s, concurrency: {n}, queue: 9, requests: 90/s, callsPerDay: {n}000, bytesPerDay: {n}MiB}}
"""
GRANT = """---
kind: grant
tenant: t{i}
tool: tool_{tool}
limits: {{rate: {n}/min}}
"""


LIMIT = """---
kind: limit
tenant: t{i}
tool: tool_{tool}
limits: {{callsPerDay: {n}}}
---
kind: level
tenant: t{i}
level: request_response
---
kind: retention
tenant: t{i}
minDays: {n}
maxDays: {n}00
"""


def documents():
    yield from (LIMIT.format(i=i, n=i + 1, tool=i) for i in range(TENANTS))
    yield from (GRANT.format(i=i, n=i + k + 1, tool=i * 25 + k) for i in range(TENANTS) for k in range(20))
    yield from (GRANT.format(i=i, n=i + 1, tool=f"{i}*") for i in range(TENANTS))
    yield from (TENANT.format(i=i, n=i + 1) for i in range(TENANTS))
    yield from (TOOL.format(i=i, timeout=i % 60 + 1) for i in range(TOOLS))


class LargeStore(crib.Case):
    def setUp(self):
        super().setUp()
        self.crib.init()
        self.other = crib.Crib()
        self.addCleanup(self.other.close)
        self.other.init()

    def peak(self, of, *words, into=None):
        """Run it; the most memory that it had, in KiB."""
        with open(into or os.devnull, "wb") as out:
            child = subprocess.Popen([str(crib.BUILD / "toolcrib"), "--store", str(of.store), *map(str, words)], stdout=out, env=of.env)
            _, status, used = os.wait4(child.pid, 0)
        child.returncode = status
        self.assertEqual(status, 0, words)
        return used.ru_maxrss

    def server_peak(self, of):
        said = pathlib.Path(f"/proc/{of.daemon.pid}/status").read_text()
        return int(next(line for line in said.splitlines() if line.startswith("VmHWM")).split()[1])

    def test_n05_a_store_of_thousands_goes_through_files_into_another(self):
        source, folder = self.crib.dir / "all.yaml", self.crib.dir / "out"
        source.write_text("".join(documents()))
        self.other.start()
        peaks = [self.peak(self.crib, "apply", "-f", source), self.peak(self.crib, "export", into=self.crib.dir / "one.yaml"),
                 self.peak(self.crib, "export", "--output", folder), self.peak(self.other, "apply", "-f", folder),
                 self.peak(self.other, "apply", "-f", self.crib.dir / "one.yaml", into=self.crib.dir / "said"),
                 self.peak(self.other, "export", into=self.crib.dir / "two.yaml"), self.server_peak(self.other)]
        self.assertEqual((self.crib.dir / "said").read_text(), "nothing differs\n")
        one = (self.crib.dir / "one.yaml").read_bytes()
        self.assertEqual(one.count(b"\n---\n") + 1, TOOLS + TENANTS * 25)
        self.assertEqual(one, (self.crib.dir / "two.yaml").read_bytes())
        if not crib.sanitized():
            self.assertLess(max(peaks), MEMORY)


if __name__ == "__main__":
    crib.main()
