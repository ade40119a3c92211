"""Ten times what the server can do, for a few seconds (FAULT F31): what holds however slow the machine is."""
import json
import os
import pathlib
import subprocess

import crib

SECS = os.environ.get("TOOLCRIB_OVERLOAD_S", "3")
META = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
RSS_MAX_KIB = 200 * 1024                # several times what it takes; sanitizers have their own bound


class Overload(crib.Case):
    def test_what_is_too_much_is_refused_and_nothing_is_lost(self):
        c = self.crib.init()
        c.tool(crib.tool_yaml("work", "{type: builtin, function: sleep}", "{type: object, properties: {ms: {type: integer}}}"))
        keys = {name: c.tenant(name, "work") for name in ("acme", "other")}
        c.start("limits: {calls: 8, queue: 32, wait: 300}\n")
        floods = [subprocess.Popen([str(crib.BUILD / "tests/bench/flood"), "--port", str(c.address("http")[1]), "--key", key, "--conns",
                                    "128", "--rate", "800", "--secs", SECS, "--warm", "0", "--method", "tools/call",
                                    "--params", '{"name":"work","arguments":{"ms":50},%s}' % META],
                                   stdout=subprocess.PIPE, text=True) for key in keys.values()]
        rows = [json.loads(process.communicate()[0]) for process in floods]
        for row in rows:                # a refusal without Retry-After is wrong
            self.assertEqual((row["wrong"], row["failed"]), (0, 0), rows)
            self.assertGreater(row["served"], 0)
        self.assertGreater(sum(row["refused"] for row in rows), 0)
        status = crib.wait_for("an end of all", lambda: next(
            (s for s in c.json("status") if s["counters"]["calls_started"] == s["counters"]["calls_finished"]), None))
        self.assertGreaterEqual(status["counters"]["calls_finished"], sum(row["served"] for row in rows))
        if not os.environ.get("ASAN_OPTIONS") and not os.environ.get("TSAN_OPTIONS"):
            rss = next(line for line in pathlib.Path(f"/proc/{c.daemon.pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
            self.assertLess(int(rss.split()[1]), RSS_MAX_KIB)
        self.assertEqual(c.run("audit", "verify").returncode, 0)
        self.assertEqual(c.stop(), 0)


if __name__ == "__main__":
    crib.main()
