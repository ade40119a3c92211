"""Records of what is no call: who failed to come in, who used a key first, what the server did (AUDIT 3)."""
import sqlite3
import struct

import crib

AUTH_FAIL, AUTH_FAIL_SUMMARY, FIRST_USE = 1101, 1102, 1103
SAID, COUNTS = 0x0113, 0x010f


def fields(ext):
    """The fields of a record's column ext, by tag."""
    got, at = {}, 0
    while at < len(ext or b""):
        tag, size = struct.unpack_from(">HI", ext, at)
        got[tag] = ext[at + 6:at + 6 + size]
        at += 6 + size
    return got


class Records(crib.Case):
    def records(self, *kinds):
        db = sqlite3.connect(f"file:{self.crib.store}/toolcrib.db?mode=ro", uri=True)
        db.row_factory = sqlite3.Row
        rows = db.execute("SELECT r.*, l.origin FROM rec_text r JOIN log l ON l.id = r.log ORDER BY r.id").fetchall()
        db.close()
        return [row for row in rows if not kinds or row["kind"] in kinds]

    def prepare(self):
        c = self.crib.init()
        c.tool(crib.ECHO)
        return c, c.tenant("acme", "echo")

    def flood(self, key, n):
        """So many wrong keys by TCP and as many by HTTP."""
        c = self.crib
        for _ in range(n):
            peer = c.tcp(key)
            self.assertTrue(peer.closed())
            peer.close()
        for _ in range(n):
            got = self.raw_http(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                         b"Authorization: Bearer %s\r\nContent-Length: 2\r\n\r\n{}" % key.encode())
            self.assertTrue(got.startswith(b"HTTP/1.1 401 "), got)

    def test_wrong_keys_are_recorded_and_a_flood_is_summed_up(self):
        """AUDIT A-217: ten a second of a source; the rest is a count, here written by the stop."""
        c, key = self.prepare()
        c.start()
        self.flood("tck_" + "0" * 61, 30)
        self.flood(key[:20] + ("A" if key[20] != "A" else "B") + key[21:], 1)
        c.stop()
        single, sums = self.records(AUTH_FAIL), self.records(AUTH_FAIL_SUMMARY)
        self.assertTrue(10 <= len(single) <= 62)
        self.assertTrue(all(row["obj"].startswith("adr_") and row["outcome"] == 3 for row in single))
        self.assertEqual({row["obj"] for row in single}, {single[0]["obj"]}, "one source has one name")
        self.assertLessEqual(len(sums), 2)
        counted = sum(int.from_bytes(fields(row["ext"])[COUNTS][:8], "big") for row in sums)
        self.assertEqual(len(single) + counted, 62, "each of them is in a record or in a summary")
        self.assertGreater(counted, 0)
        self.assertIn("sources=1", fields(sums[0]["ext"])[SAID].decode())
        self.assertNotIn("127.0.0.1", str([tuple(row) for row in self.records()]))

    def test_a_known_key_fails_in_the_log_of_its_tenant(self):
        """AUDIT 1101, SEC S-309: the record says why, the peer does not learn it."""
        c, key = self.prepare()
        revoked = c.key("acme/old")
        c.cli("key", "revoke", revoked.split("_")[1], "--yes")
        c.start()
        for text in (revoked, key[:-20] + "A" * 20, "nonsense"):
            peer = c.tcp(text)
            self.assertTrue(peer.closed())
            peer.close()
        crib.wait_for("records", lambda: len(self.records(AUTH_FAIL)) == 3)
        rows = self.records(AUTH_FAIL)
        self.assertEqual([(row["rule"], row["origin"].endswith("/t/acme")) for row in rows],
                         [("revoked", True), ("malformed", False), ("malformed", False)])
        self.assertEqual(rows[0]["cred"], revoked.split("_")[1])

    def test_the_first_use_of_a_key_is_recorded_once(self):
        c, key = self.prepare()
        for _ in range(2):
            c.start()
            for make in (c.tcp, c.http):
                peer = make(key)
                self.assertIn("result", peer.call("echo", {"text": "x"}, crib.MODERN))
                peer.close()
            c.stop()
        rows = self.records(FIRST_USE)
        self.assertEqual([row["cred"] for row in rows], [key.split("_")[1]])
        self.assertTrue(rows[0]["origin"].endswith("/t/acme"))


if __name__ == "__main__":
    crib.main()
