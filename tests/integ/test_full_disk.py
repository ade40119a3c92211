"""A full disk refuses calls before they run, keeps serving lists, and resumes by itself (AUDIT A-211, A-225)."""

import crib


class FullDisk(crib.SmallDisk):
    def test_calls_are_refused_lists_are_served_and_service_resumes(self):
        """Found.md N-12: status and each command name the cause, and status fails while calls are refused."""
        c = self.crib.init()
        (c.dir / "out").mkdir()
        ran = c.dir / "out" / "ran"
        c.tool(crib.ECHO)
        c.tool(crib.tool_yaml("touch", f'{{type: exec, argv: ["/usr/bin/touch", "--", "{ran}"], stdin: none, output: text, '
                              f'sandbox: {{write: ["{ran.parent}"]}}}}'))
        key = c.tenant("acme", "echo", "touch")
        c.start("audit: {space_floor: 8}\n")
        peer = c.http(key)
        self.assertIn("result", peer.call("echo", {"text": "x"}, crib.MODERN))
        ballast = c.dir / "ballast-of-the-test"
        with open(ballast, "wb", buffering=0) as f:
            try:
                while True:
                    f.write(b"\0" * 65536)
            except OSError:
                pass
        def refused():
            got = peer.call("echo", {"text": "x"}, crib.MODERN)
            return got if got.get("error", {}).get("code") == 5030 else None
        got = crib.wait_for("a refusal", refused)
        self.assertEqual(peer.status, 503)
        self.assertFalse(got["error"]["data"]["executed"])
        peer.call("touch", {}, crib.MODERN)
        self.assertFalse(ran.exists(), "a refused call must not run")
        self.assertEqual(peer.tools(crib.MODERN), ["echo", "touch"])
        status = c.run("status")
        self.assertEqual((status.returncode, "State            refusing calls" in status.stdout), (1, True), status.stdout)
        self.assertIn("calls are refused: ", status.stdout)
        said = [c.run("tenant", "add", f"t{i}").stderr for i in range(4)]
        self.assertTrue(all("space" in text and "too much is waiting" not in text for text in said if text), said)
        line = c.tcp(key)
        self.assertEqual(line.call("echo", {"text": "x"}, crib.MODERN)["error"]["code"], 5030)
        crib.wait_for("the room that is gone in the log", lambda: "room on the disk of the store shrinks" in c.log.read_text())
        ballast.unlink()
        crib.wait_for("service to resume", lambda: "result" in peer.call("touch", {}, crib.MODERN))
        self.assertTrue(ran.exists())
        self.assertEqual(c.run("status").returncode, 0)
        crossed = lambda: [(r["kind"], r["detail"].split(":")[0]) for r in c.json("audit", "capacity", "--events")]
        crib.wait_for("both crossings on record", lambda: {kind for kind, _ in crossed()} >= {"space.low", "space.ok"})


if __name__ == "__main__":
    crib.main()
