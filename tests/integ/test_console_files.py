"""What leaves the console as a file or as one long page: exports in every form, bundles that verify, review packs; what breaks off is seen
to be a part, and each is on record (CONSOLE 7, 15, 16)."""
import base64
import contextlib
import hashlib
import html
import http.client
import io
import json
import os
import re
import subprocess
import tarfile
import unittest

import crib
import test_console
import test_console_pages


class Files(test_console.Case):
    def export(self, path, visit, status=200):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3 * crib.DEADLINE)
        with contextlib.closing(c):
            c.request("GET", path, headers={"Host": self.host, "Cookie": test_console.COOKIE + visit})
            answer = c.getresponse()
            body = answer.read()
        self.assertEqual(answer.status, status, body[:300])
        return answer.headers, body

    def records(self):
        return [row["detail"] or "" for row in self.crib.json("audit", "access", "--tenant", "acme", "--limit", "0")]

    def test_records_in_every_form(self):
        """C-110: CSV, JSON Lines and OCSF from the page of files, with its filters, each what the command writes, and on record."""
        c = self.serve()
        self.call(3)
        visit = self.visit()
        page = self.get("/t/acme/files", visit)
        self.assertIn('action="/t/acme/export"', page)
        forms = re.findall(r'<option value="(\w+)">', page)
        self.assertEqual(forms, ["csv", "jsonl", "ocsf"])
        for form in forms:
            for query, words in (("&since=&until=&tool=&principal=&key=&outcome=&kind=", []), ("&kind=call.end&tool=echo", ["--kind", "call.end", "--tool", "echo"])):
                with self.subTest(form=form, query=query):
                    want = subprocess.run([crib.BUILD / "toolcrib", "--store", c.store, "audit", "export", "--tenant", "acme", "--format", form, *words],
                                          env=c.env, capture_output=True, check=True).stdout
                    headers, got = self.export(f"/t/acme/export?as={form}{query}", visit)
                    self.assertRegex(headers["Content-Disposition"], r'^attachment; filename="acme-records(-ocsf)?\.(csv|jsonl)"$')
                    lines, wanted = got.splitlines(), want.splitlines()
                    if form == "jsonl":         # the first line says who asked and when, the last that it is the last
                        self.assertEqual(lines[1:-1][:len(wanted) - 1], wanted[1:])
                        self.assertIn("end", json.loads(lines[-1]))
                    else:                       # each look is a record, so the second one has one more
                        self.assertEqual(lines[:len(wanted)], wanted)
                    if form == "ocsf":
                        self.assertEqual({json.loads(line)["class_uid"] for line in lines}, {6003})
        self.assertIn("as: csv, jsonl or ocsf", self.get("/t/acme/export?as=xml", visit, 400))
        self.assertIn("as: csv or jsonl", self.get("/t/acme/r/calls/export?as=ocsf", visit, 400))
        self.assertEqual(len([line for line in self.records() if "(console): audit export" in line and "rows" in line]), 2 * len(forms))

    def test_a_bundle_verifies_by_itself(self):
        """A-1002: what a browser got is what the command writes; it verifies without the store; its range is the form's."""
        c = self.serve()
        self.call(3)
        c.cli("audit", "checkpoint")
        visit = self.visit()
        self.assertIn('action="/t/acme/bundle"', self.get("/t/acme/files", visit))
        headers, got = self.export("/t/acme/bundle?since=&until=&from=&to=", visit)
        self.assertEqual((headers["Content-Type"], headers["Content-Disposition"]), ("application/x-tar", 'attachment; filename="acme-records.tar"'))
        path = c.dir / "acme.tar"
        path.write_bytes(got)
        done = subprocess.run([crib.BUILD / "toolcrib-verify", *crib.evidence(c.store, keys=False), "--bundle", path], capture_output=True, text=True)
        self.assertIn("INTACT", done.stdout, done.stderr)
        _, some = self.export("/t/acme/bundle?from=1&to=2", visit)
        self.assertLess(len(some), len(got))
        self.assertTrue(tarfile.open(fileobj=io.BytesIO(some)).getnames())
        for query, status in (("from=x", 400), ("from=1&since=1h", 400), ("from=99999", 404), ("nope=1", 400)):
            self.export("/t/acme/bundle?" + query, visit, status)
        self.assertTrue([line for line in self.records() if "(console): audit bundle" in line])

    def test_who_leaves_is_on_record_as_gone(self):
        """C-906, section 15: an export that its browser left ends at once, and its record says cancelled."""
        c = self.serve()
        self.call(1)
        visit = self.visit()
        k = http.client.HTTPConnection("127.0.0.1", self.port, timeout=crib.DEADLINE)
        k.request("GET", "/t/acme/tail", headers={"Host": self.host, "Cookie": test_console.COOKIE + visit})
        k.getresponse().fp.readline()
        k.sock.close() if k.sock else None
        k.close()
        crib.wait_for("its record", lambda: [line for line in self.records() if "(console): audit tail" in line and ": cancelled, " in line])


@unittest.skipUnless(os.geteuid() == 0, "needs other users to be")
class Packs(test_console.Case):
    send = test_console_pages.Pages.send

    def setUp(self):
        super().setUp()
        self.socket = self.crib.dir / "public.sock"
        self.serve(test_console_pages.ROLES.format(socket=self.socket))
        self.crib.let_others_in()

    def test_a_pack_has_every_report(self):
        """C-905: all reports on one page, with what came of each and the sum of their rows; signed from there; each look on record."""
        self.call(3)
        of_acme, auditor = self.visit_of(40003), self.visit_of(40002)
        for visit, path, action in ((of_acme, "/t/acme/review/pack", "/t/acme/review/sign"), (auditor, "/review/pack", "/review/sign")):
            form = self.get(path.replace("review/pack", "r/reviews"), visit)
            self.assertIn(f'action="{path}"', form)
            page = self.get(path + "?since=1h", visit)
            lines = html.unescape(re.search(r"<h2>As a command</h2>\n<pre>(.*?)</pre>", page, re.S)[1]).splitlines()
            routes = subprocess.run([crib.BUILD / "toolcrib-console", "--routes"], capture_output=True, text=True, check=True).stdout
            reports = [line.split("\t")[1].rpartition("/")[2] for line in routes.splitlines()
                       if re.match(r"GET\t" + ("/t/:tenant/r/" if "acme" in path else "/r/") + r"[a-z-]+\t", line)]
            self.assertEqual([line.split()[2] for line in lines], reports)
            self.assertTrue(all("--since 1h" in line for line in lines), lines)
            verdicts = re.findall(r"<td>audit ([a-z-]+)</td><td>(\d+)</td><td>([^<]*)</td>", page)
            self.assertEqual([name for name, _, _ in verdicts], reports)
            self.assertIn(("after-revocation", "0", "empty, as it must be"), verdicts)
            self.assertEqual([v for v in verdicts if v[2] == "not answered"], [])
            self.assertRegex(page, r"<code>[0-9a-f]{64}</code>")
            self.assertTrue(page.rstrip().endswith("</html>"))
            self.send(page, action, visit, note="all of it")
        seen = [row["detail"] or "" for row in self.crib.json("audit", "access", "--tenant", "acme", "--limit", "0")]
        for name in ("calls", "denied", "drift", "sandbox"):
            self.assertTrue([line for line in seen if f"uid 40003 (console): audit {name} " in line], name)
        self.assertEqual(self.get("/t/other/review/pack", of_acme, 404), self.get("/nothing", None, 404))
        self.get("/review/pack", of_acme, 403)
        self.get("/t/acme/review/pack?since=never", of_acme, 400)


class Alone(test_console.Server):
    def test_the_sum_of_a_pack_is_that_of_its_rows(self):
        """Whoever has the rows counts it again; a report that was refused is said to be, and counted as none."""
        row = {"time": "2026-07-28T10:00:00Z", "tool": "<x>\u202e", "call": "c"}
        routes = subprocess.run([crib.BUILD / "toolcrib-console", "--routes"], capture_output=True, text=True, check=True).stdout
        names = next(line.split("\t")[3] for line in routes.splitlines() if "\t/t/:tenant/review/pack\t" in line).split(", ")
        for name in names:
            self.answers[name] = self.report(row)
        self.answers["audit drift"] = [{"error": {"code": "busy", "message": "later", "hint": ""}}]
        self.answers["audit anomalies"] = [{"header": {"must_be_empty": True}, "columns": ["time", "tool", "call"]}, {"row": row}, {"done": True}]
        page = self.get("/t/acme/review/pack", "A" * 43)
        line = b'{"time":"2026-07-28T10:00:00Z","tool":"<x>\\u202e","call":"c"}\n'
        self.assertIn(hashlib.sha256(line * (len(names) - 1)).hexdigest(), page)
        self.assertIn("<td>audit drift</td><td>0</td><td>not answered</td>", page)
        self.assertIn("<td>audit anomalies</td><td>1</td><td>MUST BE EMPTY, AND IS NOT</td>", page)
        self.answers[names[5]] = [{"error": {"code": "denied", "where": "visit", "message": "gone", "hint": ""}}]
        page = self.get("/t/acme/review/pack", "A" * 43)
        self.assertIn("no whole pack", page)
        self.assertNotIn("<code>", page)

    def test_packs_are_so_many(self):
        """CON_PACKS: one of a visit, two in all; who leaves makes room; the server counts who was refused."""
        held = []
        for n, visit in enumerate("AB"):
            k = http.client.HTTPConnection("127.0.0.1", self.port, timeout=crib.DEADLINE)
            self.addCleanup(k.close)
            k.request("GET", "/t/acme/review/pack", headers={"Host": self.host, "Cookie": test_console.COOKIE + visit * 43})
            held.append(k)
            crib.wait_for("the question", lambda: len(self.kept) == n + 1)
        self.assertIn("this visit", self.get("/t/acme/review/pack", "A" * 43, 503))
        self.assertIn("Others", self.get("/t/acme/review/pack", "C" * 43, 503))
        held[0].close()
        crib.wait_for("a stop", lambda: {"stop": True} in self.heard)
        self.answers["audit denied"] = self.report()
        self.get("/t/acme/r/denied", "C" * 43)
        self.assertEqual([line["limited"] for line in self.heard if "limited" in line], [2])

    def bundle(self, data, sha256):
        parts = [{"row": {"data": base64.b64encode(part).decode()}} for part in data]
        self.answers["audit bundle"] = [*parts, {"row": {"tenant": "acme", "sha256": sha256}}, {"done": True}]

    def test_a_bundle_that_is_not_as_it_was_made_never_ends(self):
        """Its sum, base64 that is none, no last row, an error behind the first part: each is a download that broke off."""
        data = [b"one" * 1000, b"two" * 1000]
        right = hashlib.sha256(b"".join(data)).hexdigest()
        self.bundle(data, right)
        self.assertEqual(self.ask("GET", "/t/acme/bundle", visit="A" * 43)[2], b"".join(data).decode())
        self.answers["audit bundle"] = None
        k = http.client.HTTPConnection("127.0.0.1", self.port, timeout=crib.DEADLINE)
        self.addCleanup(k.close)
        k.request("GET", "/t/acme/bundle", headers={"Host": self.host, "Cookie": test_console.COOKIE + "B" * 43})
        crib.wait_for("the question", lambda: self.kept)
        self.assertIn("A bundle is being made", self.get("/t/acme/bundle", "A" * 43, 503))
        k.close()
        crib.wait_for("a stop", lambda: {"stop": True} in self.heard)
        self.bundle(data, "0" * 64)
        broken = [list(self.answers["audit bundle"])]
        self.bundle(data, right)
        good = self.answers["audit bundle"]
        broken += [[good[0], {"row": {"data": "!!!"}}, *good[1:]], [*good[:2], good[-1]], [good[0], {"error": {"code": "io", "message": "gone", "hint": ""}}]]
        for answer in broken:
            self.answers["audit bundle"] = answer
            with self.assertRaises((http.client.IncompleteRead, http.client.RemoteDisconnected, ConnectionResetError)):
                self.ask("GET", "/t/acme/bundle", visit="A" * 43)
        self.answers["audit bundle"] = [{"error": {"code": "not_found", "message": "no checkpoint", "hint": "make one"}}]
        self.get("/t/acme/bundle", "A" * 43, 404)

    def test_a_bundle_has_so_many_bytes(self):
        """CON_BUNDLE_MAX, and one more."""
        if crib.sanitized("toolcrib-console"):
            self.skipTest("256 MiB take minutes there")
        part = bytes(262144)
        for more in (0, 1):
            self.answers["audit bundle"] = None
            self.kept.clear()
            sum_ = hashlib.sha256(part * 1024 + b"x" * more).hexdigest()
            line = json.dumps({"row": {"data": base64.b64encode(part).decode()}}).encode() + b"\n"
            last = json.dumps({"row": {"data": base64.b64encode(b"x").decode()}}).encode() + b"\n"
            end = json.dumps({"row": {"sha256": sum_}}).encode() + b'\n{"done":true}\n'
            k = http.client.HTTPConnection("127.0.0.1", self.port, timeout=6 * crib.DEADLINE)
            with contextlib.closing(k):
                k.request("GET", "/t/acme/bundle", headers={"Host": self.host, "Cookie": test_console.COOKIE + "A" * 43})
                crib.wait_for("the question", lambda: self.kept)
                door = self.kept[0]

                def send():
                    with contextlib.suppress(OSError):
                        for _ in range(1024):
                            door.sendall(line)
                        door.sendall(last * more + end)
                sender = test_console.threading.Thread(target=send)
                sender.start()
                if more:
                    with self.assertRaises((http.client.IncompleteRead, ConnectionResetError)):
                        k.getresponse().read()
                else:
                    self.assertEqual(len(k.getresponse().read()), 256 << 20)
                sender.join()


if __name__ == "__main__":
    crib.main()
