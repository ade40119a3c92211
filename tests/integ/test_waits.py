"""How a caller waits for a person is a matter of what its client can (HA-06, Show 5): as a task, by an input_required, by an
elicitation, held, or told to come again.  Whichever it is: asked once, run once, and never agreed to by the caller's own side."""
import contextlib
import http.client
import re
import threading

import crib
import test_approve
import test_metrics
from test_approve import BIG, EXT, PAY

FORM = {"elicitation": {}}


class Waits(test_approve.Persons):
    def question(self, got):
        """What an input_required shows, and the number of the approval."""
        self.assertEqual(got["resultType"], "input_required", got)
        shown, = got["inputRequests"].items()
        self.assertEqual((shown[0], shown[1]["method"], shown[1]["params"]["requestedSchema"]),
                         ("approval", "elicitation/create", {"type": "object", "properties": {}}))
        number = int(re.search(r"approval (\d+) by finance or boss until", shown[1]["params"]["message"])[1])
        self.assertEqual(got["_meta"]["dev.toolcrib/approval"]["id"], number)
        return number

    def again(self, state, action="accept", args=None, **more):
        return self.peer.call("pay", args or BIG, crib.MODERN, FORM, requestState=state,
                              inputResponses={"approval": {"action": action, **more}})

    def one(self, args, number):
        """Asked once, run once, and audit show says who, when and why."""
        c = self.crib
        call = c.rows("SELECT lower(hex(used)) FROM assent WHERE id = ?", number)[0][0]
        rows = c.json("audit", "show", "-".join((call[:8], call[8:12], call[12:16], call[16:20], call[20:])))
        kinds = [row["kind"] for row in rows]
        self.assertEqual([kinds.count(kind) for kind in ("call.held", "call.approved", "call.begin", "call.end")], [1, 1, 1, 1], kinds)
        begin = next(row for row in rows if row["kind"] == "call.begin")
        self.assertEqual(begin["approval"], number)
        self.assertRegex(begin["approved_by"], rf"^ann \(key ann\) at \d{{4}}-\d\d-\d\dT\S+Z: PO {number}$")
        self.assertEqual(c.rows("SELECT count(*) FROM assent WHERE id = ? AND state = 5", number), [(1,)])

    def grant(self, number):
        self.must("ann", "approve", "grant", str(number), "--reason", f"PO {number}")

    def asks_legacy(self, rev="2025-11-25", args=BIG):
        """A line whose client shows forms; it, and the question."""
        line = self.crib.tcp(self.key)
        line.initialize(rev, caps=FORM)
        line.send(line.request("tools/call", {"name": "pay", "arguments": args}, id="it"))
        return line, line.notice("elicitation/create")

    def test_show5_five_kinds_of_client(self):
        c, numbers = self.crib, []
        task = self.peer.call("pay", {**BIG, "amount": 5001}, crib.MODERN, EXT)["result"]               # 1: a task
        numbers.append(int(re.search(r"approval (\d+) by", task["statusMessage"])[1]))
        got = self.peer.call("pay", {**BIG, "amount": 5002}, crib.MODERN, FORM)["result"]               # 2: an input_required
        numbers.append(self.question(got))
        lines = [self.asks_legacy(rev, {**BIG, "amount": 5003 + i}) for i, rev in enumerate(("2025-06-18", "2025-11-25"))]      # 3
        for _, question in lines:
            numbers.append(int(re.search(r"approval (\d+) by", question["params"]["message"])[1]))
        numbers.append(self.ask(args={**BIG, "amount": 5005}))                                          # 4: told to come again
        self.assertEqual(len(set(numbers)), 5)
        self.assertEqual(self.begun(), 0)
        for number in numbers:
            self.grant(number)
        crib.wait_for("the task's end", lambda: self.peer.ask("tasks/get", {"taskId": task["taskId"]}, crib.MODERN, EXT)["result"]["status"]
                      == "completed")
        done = self.again(got["requestState"], args={**BIG, "amount": 5002})["result"]
        self.assertEqual((done["resultType"], done.get("isError", False)), ("complete", False))
        self.assertIn("5002", self.text(done))
        for line, _ in lines:                                  # it runs when the yes has come, whatever its client says
            self.assertFalse(line.answer("it")["result"].get("isError", False))
            line.close()
        self.runs(args={**BIG, "amount": 5005})
        self.assertEqual(self.begun(), 5)
        for number in numbers:
            self.one(None, number)
        again = self.again(got["requestState"], args={**BIG, "amount": 5002})["result"]                # what was used is used
        self.assertEqual((again["isError"], self.text(again)), (True, "The approval of this call has lapsed; nothing has run"))
        self.assertEqual(self.begun(), 5)
        self.verified()

    def test_a_form_is_no_yes(self):
        """The caller's own side accepts, with whatever content; nobody has agreed."""
        c = self.crib
        got = self.peer.call("pay", BIG, crib.MODERN, FORM)["result"]
        number = self.question(got)
        for more in ({}, {"content": {"approved": True}}, {"content": {"approval": "granted", "by": "ann"}}):
            next_ = self.again(got["requestState"], **more)["result"]
            self.assertEqual(self.question(next_), number)
        line, question = self.asks_legacy()
        for _ in range(7):                                     # so often, then it is told to come again
            line.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"yes": True}}})
            question = line.notice("elicitation/create")
        line.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"yes": True}}})
        self.assertIn("Call again with the same arguments.", self.text(line.answer("it")["result"]))
        line.close()
        self.assertEqual(self.begun(), 0)
        self.assertEqual(c.rows("SELECT id, state FROM assent"), [(number, 1)])
        for changed in ({**BIG, "amount": 9999}, {**BIG, "payee": "x"}):        # its state is of these arguments
            fault = self.again(got["requestState"], args=changed)["error"]
            self.assertEqual(fault["data"]["reason"], "invalid_request_state")
        for peer in (c.http(self.second), c.http(self.other)):  # and of this caller
            fault = peer.call("pay", BIG, crib.MODERN, FORM, requestState=got["requestState"],
                              inputResponses={"approval": {"action": "accept"}})["error"]
            self.assertEqual(fault["data"]["reason"], "invalid_request_state")
            peer.close()
        self.grant(number)
        c.tool(PAY.replace("Pays an", "Pays one") % "")        # another version: the yes is of no use
        crib.wait_for("its end on record", lambda: "call.lapsed" in self.kinds())
        self.assertIn("has lapsed; nothing has run", self.text(self.again(got["requestState"])["result"]))
        self.assertEqual(self.begun(), 0)
        self.verified()

    def test_who_declines_withdraws(self):
        c = self.crib
        got = self.peer.call("pay", BIG, crib.MODERN, FORM)["result"]
        number = self.question(got)
        self.grant(number)
        for action in ("decline", "cancel"):
            said = self.again(got["requestState"], action)["result"]
            self.assertEqual((said["isError"], self.text(said)), (True, "The call does not wait for approval any more; nothing has run"))
            crib.wait_for("its request withdrawn", lambda: c.rows("SELECT state, said FROM assent WHERE id = ?", number) ==
                          [(4, "its caller does not wait any more")])
        line, question = self.asks_legacy()
        line.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
        self.assertIn("does not wait for approval any more", self.text(line.answer("it")["result"]))
        line.close()
        crib.wait_for("both withdrawn", lambda: c.rows("SELECT state FROM assent") == [(4,), (4,)])
        line, question = self.asks_legacy()                    # not what a task waits for as well
        task = self.peer.call("pay", BIG, crib.MODERN, EXT)["result"]
        self.assertTrue(task.get("isError", False) or task["resultType"] == "task")
        line.close()
        self.assertEqual(self.begun(), 0)
        self.verified()

    def test_beside_a_task_is_the_same_task(self):
        """An identical call has the handle of the task that waits, if it knows tasks; another one does not use its yes."""
        task = self.peer.call("pay", BIG, crib.MODERN, EXT)["result"]
        for _ in range(2):
            same = self.peer.call("pay", dict(reversed(BIG.items())), crib.MODERN, EXT)["result"]
            self.assertEqual((same["resultType"], same["taskId"]), ("task", task["taskId"]))
        other = self.crib.http(self.second).call("pay", BIG, crib.MODERN, EXT)["result"]
        self.assertNotEqual(other["taskId"], task["taskId"])
        got = self.peer.call("pay", BIG, crib.MODERN, FORM)["result"]
        number = self.question(got)
        self.assertIn("does not wait", self.text(self.again(got["requestState"], "decline")["result"]))         # the task waits on
        self.assertEqual(self.crib.rows("SELECT count(*) FROM task"), [(2,)])
        self.grant(number)
        crib.wait_for("the task's end", lambda: self.peer.ask("tasks/get", {"taskId": task["taskId"]}, crib.MODERN, EXT)["result"]["status"]
                      == "completed")
        self.assertEqual(self.begun(), 1)
        self.assertTrue(self.again(got["requestState"])["result"]["isError"])
        self.assertEqual(self.begun(), 1)
        self.verified()


class Held(test_approve.Persons):
    HOLD = 60000

    def conf(self):
        return super().conf() + test_metrics.LISTEN

    def count(self):
        return int(float(test_metrics.scrape(self.crib).get("toolcrib_calls_held")))

    def start(self, args=None, key=None):
        """A call in a thread; what becomes of it."""
        box, peer = {}, self.crib.http(key or self.key)

        def run():
            with contextlib.suppress(OSError, http.client.HTTPException):       # its server may be gone
                box["got"] = peer.call("pay", args or BIG, crib.MODERN)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.addCleanup(peer.close)
        return thread, box, peer

    def held(self, n):
        """So many are, and the numbers of what they wait for."""
        crib.wait_for("calls held", lambda: self.count() == n)
        return [id for id, in self.crib.rows("SELECT id FROM assent WHERE state = 1 ORDER BY id")]

    def end(self, thread, box):
        thread.join(crib.DEADLINE)
        self.assertFalse(thread.is_alive())
        return box["got"]["result"]

    def test_ha06_held_until_somebody_decides(self):
        """5 of Show 5: the call that waits is the call that runs; of identical ones, one."""
        c = self.crib
        first = self.start()
        number, = self.held(1)
        same = self.start()
        self.assertEqual(self.held(2), [number])
        self.must("ann", "approve", "grant", str(number), "--reason", "PO 4711")
        got = [self.end(*call[:2]) for call in (first, same)]
        self.assertEqual(sorted(one.get("isError", False) for one in got), [False, True])
        lost = next(one for one in got if one.get("isError"))
        self.assertIn("used by another one", self.text(lost))
        ran = next(one for one in got if not one.get("isError"))
        begin = next(row for row in c.json("audit", "show", ran["_meta"]["dev.toolcrib/callId"]) if row["kind"] == "call.begin")
        self.assertEqual(begin["approval"], number)
        self.assertRegex(begin["approved_by"], r"^ann \(key ann\) at \S+Z: PO 4711$")
        self.assertEqual(self.begun(), 1)
        call = self.start()
        number, = self.held(1)
        self.must("ann", "approve", "refuse", str(number), "--reason", "too dear")
        self.assertEqual(self.text(self.end(*call[:2])), "Refused by ann: too dear")
        call = self.start({"amount": 7000})
        number, = self.held(1)
        c.tool(PAY.replace("Pays an", "Pays one") % "")        # another version: what it waits for is nothing any more
        self.assertEqual(self.text(self.end(*call[:2])), "The approval of this call has lapsed; nothing has run")
        line = c.tcp(self.key)                                  # who goes away takes nothing with it
        line.initialize("2025-06-18")
        line.send(line.request("tools/call", {"name": "pay", "arguments": {"amount": 8000}}, id="it"))
        number, = self.held(1)
        line.close()
        self.held(0)
        call = self.start({"amount": 8000})
        self.assertEqual(self.held(1), [number])
        c.cli("key", "suspend", self.key.split("_")[1], "--yes")        # whoever may not call any more
        self.held(0)
        self.assertEqual(self.begun(), 1)
        self.verified()

    def test_a_stop_sends_them_away(self):
        call = self.start()
        number, = self.held(1)
        self.assertEqual(self.crib.stop(), 0)
        self.assertIn("Call again with the same arguments.", self.text(self.end(*call[:2])))
        self.HOLD = 0
        self.up()
        self.assertEqual(self.ask(), number)
        self.must("ann", "approve", "grant", str(number))
        self.runs()
        self.assertEqual(self.begun(), 1)
        self.verified()

    def test_so_many_are_held(self):
        """64 of a tenant, and one more is told at once; another tenant's still waits."""
        lines = []
        for i in range(65):
            line = self.crib.tcp(self.key)
            line.initialize("2025-06-18")
            line.send(line.request("tools/call", {"name": "pay", "arguments": BIG}, id="it"))
            lines.append(line)
            if i < 64:
                self.held(i + 1) if i in (0, 63) else None
        said = next(line for line in reversed(lines) if line.receive(crib.DEADLINE if line is lines[-1] else 0.001))
        self.assertIs(said, lines[-1])
        self.assertEqual(self.count(), 64)
        self.start(key=self.other)
        self.held(65)
        for line in lines:
            line.close()
        self.held(1)

    def test_so_many_are_held_of_all(self):
        """256 of a process, and one more is told at once; when one has gone there is room again."""
        keys = [self.key, self.other] + [self.crib.tenant(f"tenant{n}", "*") for n in range(3)]
        lines = []
        for i in range(256):
            line = self.crib.tcp(keys[i // 64])
            line.initialize("2025-06-18")
            line.send(line.request("tools/call", {"name": "pay", "arguments": BIG}, id="it"))
            lines.append(line)
        crib.wait_for("256 held", lambda: self.count() == 256)
        one_more = self.crib.tcp(keys[4])
        one_more.initialize("2025-06-18")
        one_more.send(one_more.request("tools/call", {"name": "pay", "arguments": BIG}, id="it"))
        self.assertTrue(one_more.receive()["result"]["isError"])
        self.assertEqual(self.count(), 256)
        lines.pop().close()
        crib.wait_for("room", lambda: self.count() == 255)
        one_more.send(one_more.request("tools/call", {"name": "pay", "arguments": BIG}, id="next"))
        crib.wait_for("256 held", lambda: self.count() == 256)
        for line in (*lines, one_more):
            line.close()
        crib.wait_for("none held", lambda: self.count() == 0)


if __name__ == "__main__":
    crib.main()
