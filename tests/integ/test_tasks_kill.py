"""kill -9 while tasks run, ask, wait for a person and end, with many more open beside them: none is lost, none runs twice but where its
tool says that it may, then three times more at most and each time on record before, no yes is used twice, and both verifiers agree (TK-35,
HA-03; show 2 of issue 20).  In a build with --enable-crash-points each death is at one of its points, in turn and at a passage drawn at
random; elsewhere it is at a moment drawn at random.  TOOLCRIB_TASK_KILLS says how often, TOOLCRIB_TASKS_OPEN beside how many:
`make check-task-kills` has 500 and 1,000."""
import collections
import contextlib
import os
import random
import shutil
import signal
import sys
import threading
import time
import unittest

import crib
import test_approve
from test_approve import EXT

KILLS = int(os.environ.get("TOOLCRIB_TASK_KILLS", "8"))
OPEN = int(os.environ.get("TOOLCRIB_TASKS_OPEN", "24"))
SEED = int(os.environ.get("TOOLCRIB_SEED", "20261127"))
BUILT = "#define CRASH_POINTS 1" in (crib.BUILD / "config.h").read_text()
DEAD = 137
# All that a task or an approval passes, and how often one turn passes each at most.
POINTS = {"task.before": 3, "task.after": 3, "task.moved": 5, "task.answered": 2, "task.over": 2, "task.recover": 2, "assent.file": 2, "assent.vote": 2,
          "assent.use": 2, "assent.recall": 1, "begin.before": 5, "begin.after": 5, "run.spawned": 5, "run.done": 5, "end.before": 5, "end.after": 5,
          "recover.mid": 2}
WORKING, INPUT, COMPLETED, FAILED, CANCELLED, HELD, QUEUED = range(1, 8)
STILL_WAITS, USED = 1, 5
NAPS = 3                        # that one caller has run in one life
AGAINS = 2                      # of what may run again, of one caller, that have not ended
STARTS = 1 + 3                  # of one of these
HELD_MOST = 40                  # of a principal, whose approvals are 50 at most
ASKED = {"action": "accept", "content": {}}
# What runs says so, once for each run: nothing that is asked twice hides behind it.
SAYS = """#!/bin/sh
read -r job
n=${job#*'"n":'}
n=${n%%%%[,\\}]*}
case $0:$job in
*/buy:*|*'"answers":{'*) ;;
*) echo '{"ask":{"requests":{"q":{"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}}}}'; exit;;
esac
echo "$n" >>%s
echo '{"result":{"content":[{"type":"text","text":"ran"}]}}'
"""
# Runs again; every other one until the last life.
AGAIN = """#!/bin/sh
read -r job
n=${job#*'"n":'}
n=${n%%%%[,\\}]*}
echo "$n" >>%s
[ $((n %% 2)) = 0 ] || until [ -e %s/now ]; do sleep 0.05; done
echo '{"result":{"content":[{"type":"text","text":"ran"}]}}'
"""
NUMBER = "{type: object, properties: {n: {type: integer}}}"


class Dead(Exception):
    pass


class Task:
    def __init__(self, n, peer):
        self.n, self.peer = n, peer
        self.asks = self.answering = self.answered = self.cancelled = self.held = False


@unittest.skipUnless(shutil.which("openssl"), "needs openssl(1)")
class TaskKills(test_approve.Persons):
    PEOPLE = {"ann": "person: ann, groups: [finance]"}

    def setUp(self):
        super().setUp()
        c, self.rng, self.lock = self.crib, random.Random(SEED), threading.Lock()
        self.tasks, self.numbers, self.ops, self.deaths, self.naps = {}, 0, 0, collections.Counter(), [0, 0]
        self.ran = c.dir / "ran"
        self.ran.touch()
        for name, more in (("ask", "task: {support: required}\n"), ("buy", "approve: {by: [\"group:finance\"]}\n")):
            path = c.dir / name
            path.write_text(SAYS % self.ran)
            path.chmod(0o755)
            c.tool(crib.tool_yaml(name, f'{{type: exec, argv: ["{path}"], stdin: json, output: stream, sandbox: {{write: ["{self.ran}"]}}}}',
                                  NUMBER, more), f"{name}.yaml")
        self.reran, self.last = c.dir / "reran", c.dir / "last"
        self.reran.touch()
        self.last.mkdir()
        path = c.dir / "again"
        path.write_text(AGAIN % (self.reran, self.last))
        path.chmod(0o755)
        c.tool(crib.tool_yaml("again", f'{{type: exec, argv: ["{path}"], stdin: json, output: stream, sandbox: {{write: ["{self.reran}"], '
                              f'read: ["{self.last}"]}}}}', NUMBER, "annotations: {idempotentHint: true}\nlimits: {timeout: 10m}\n"
                              "task: {support: required, crash: rerun}\n"), "again.yaml")
        c.tool(crib.tool_yaml("nap", "{type: builtin, function: sleep}", "{type: object, properties: {ms: {type: integer}}}",
                              "task: {support: required}\nlimits: {timeout: 10m}\n"), "nap.yaml")
        self.keys = [self.key, self.second]

    # --- what goes on until the server is dead

    def number(self):
        with self.lock:
            self.numbers += 1
            return self.numbers

    def peers(self):
        return [self.crib.tcp(key) for key in self.keys]

    def got(self, peer, *words, **more):
        """The result, or that nobody answers any more.  A refusal is none."""
        try:
            got = peer.ask(*words, **more)
        except (AssertionError, OSError, ValueError) as e:
            raise Dead from e
        with self.lock:
            self.ops += 1
        self.assertIn("result", got, words)
        return got["result"]

    def begin(self, peer, who, tool):
        n = self.number()
        got = self.got(peer, "tools/call", {"name": tool, "arguments": {"n": n} if tool != "nap" else {"ms": 600000}}, crib.MODERN,
                       {**EXT, "elicitation": {}})
        if tool == "buy" and got.get("isError"):
            return self.assertIn("wait", str(got))      # as many as may wait for a person do
        self.assertEqual(got.get("resultType"), "task", got)
        with self.lock:
            self.tasks[got["taskId"]] = task = Task(n, who)
            task.tool, task.held = tool, tool == "buy"
        return None

    def seen(self, peer, id):
        got = self.got(peer, "tasks/get", {"taskId": id}, crib.MODERN, EXT)
        task = self.tasks[id]
        if got["status"] == "input_required":
            self.assertFalse(task.answered, "what is answered asks again")
            task.asks = True
        if task.held:
            self.assertNotEqual(got["status"], "input_required")
        return got["status"]

    def mine(self, who, tool):
        """Those of this caller that nobody has touched yet."""
        return [id for id, t in list(self.tasks.items()) if t.peer == who and t.tool == tool and not t.answering and not t.cancelled]

    def answer(self, peer, who):
        ids = self.mine(who, "ask")
        if not ids:
            return
        id = self.rng.choice(ids)
        if self.seen(peer, id) != "input_required":
            return
        self.tasks[id].answering = True
        self.got(peer, "tasks/update", {"taskId": id, "inputResponses": {"1:q": ASKED}}, crib.MODERN, EXT)
        self.tasks[id].answered = True
        crib.wait_for("the end of its run", lambda: self.seen(peer, id) != "working")

    def cancel(self, peer, who):
        ids = self.mine(who, "ask")
        if ids:
            id = self.rng.choice(ids)
            self.tasks[id].cancelled = True
            self.got(peer, "tasks/cancel", {"taskId": id}, crib.MODERN, EXT)

    def vote(self, peer, who):
        """For the oldest request, and a call without a task that is agreed to and recalled."""
        waits = self.crib.rows("SELECT min(id) FROM assent WHERE state = ?", STILL_WAITS)[0][0]
        if waits is not None:
            self.agree("grant", waits)
        n = self.number()
        got = self.got(peer, "tools/call", {"name": "buy", "arguments": {"n": n}}, crib.MODERN)
        self.assertTrue(got.get("isError"), got)
        if "dev.toolcrib/approval" not in got["_meta"]:
            return
        number = got["_meta"]["dev.toolcrib/approval"]["id"]
        self.agree("grant", number)
        self.agree("recall", number)

    def agree(self, verb, number):
        if self.by("ann", "approve", verb, number).returncode != 0 and self.crib.daemon.poll() is not None:
            raise Dead
        with self.lock:
            self.ops += 1

    def work(self, who, acts):
        """Until the server is dead; what goes wrong before it is kept."""
        try:
            peer = self.crib.tcp(self.keys[who])
        except OSError:
            return
        try:
            while self.crib.daemon.poll() is None:
                self.rng.choice(acts)(peer, who)
        except Dead:
            pass
        except BaseException as e:      # after the death of a server anything may be answered by nothing
            self.trouble.append(e)
        finally:
            peer.close()

    def fill(self):
        """As many open as there should be: two callers, each with some that wait for a person and some that run."""
        for who, key in enumerate(self.keys):
            with contextlib.closing(self.crib.tcp(key)) as peer:
                self.fill_for(peer, who)

    def fill_for(self, peer, who):
        rows = self.rows_of()
        going = [id for id, t in self.tasks.items() if t.tool == "again" and t.peer == who and rows.get(id) in (WORKING, QUEUED)]
        for _ in range(AGAINS - len(going)):
            self.begin(peer, who, "again")
        open_ = [id for id, state in rows.items() if id in self.tasks and state in (INPUT, HELD) and self.tasks[id].peer == who]
        held = sum(self.tasks[id].held for id in open_)
        for i in range(max(0, OPEN // 2 - len(open_))):
            self.begin(peer, who, "buy" if held + i < min(HELD_MOST, OPEN // 8) else "ask")
        self.naps[who] = 0
        self.nap(peer, who)

    def nap(self, peer, who):
        if self.naps[who] < NAPS:
            self.naps[who] += 1
            self.begin(peer, who, "nap")

    # --- deaths and what is true behind each

    def rows_of(self):
        return dict(self.crib.rows("SELECT tid, state FROM task"))

    def die(self, point, n):
        """One life: begun, filled up, worked in until it is over."""
        c, self.trouble = self.crib, []
        goal = self.ops + (100 if BUILT and "recover" not in point else self.rng.randrange(2, 30))
        try:
            self.up({"TOOLCRIB_CRASH_AT": f"{point}:{n}"} if BUILT else None)
        except (AssertionError, StopIteration, crib.Failed):    # at its start, or right behind it
            self.assertEqual(c.daemon.wait(crib.DEADLINE), DEAD)
            return point
        acts = [self.answer, self.answer, self.cancel, lambda peer, who: self.begin(peer, who, "ask"), self.nap]
        if point.startswith("assent."):
            acts = [self.vote, lambda peer, who: self.begin(peer, who, "buy")]
        work = [threading.Thread(target=self.work, args=(0, acts)), threading.Thread(target=self.work, args=(1, acts if BUILT else [self.vote]))]
        try:
            self.fill()
        except Dead:
            pass
        for one in work:
            one.start()
        end = time.monotonic() + crib.DEADLINE
        while c.daemon.poll() is None and self.ops < goal and time.monotonic() < end and not self.trouble:
            time.sleep(0.002)
        passed = c.daemon.poll() is not None
        c.daemon.kill()
        status = c.daemon.wait()
        for one in work:
            one.join()
        self.assertEqual(self.trouble, [])
        self.assertEqual(status, DEAD if passed else -signal.SIGKILL)
        return point if passed else "at random"

    def whole(self):
        """What the rows say of those whose callers have a handle."""
        rows = self.rows_of()
        for id, task in self.tasks.items():
            state, what = rows.get(id), (id, vars(task))
            if task.answered:
                self.assertIn(state, (WORKING, COMPLETED, FAILED, QUEUED), what)
            elif task.held:
                self.assertIn(state, (WORKING, COMPLETED, FAILED, HELD, QUEUED), what)
            elif task.asks and not task.answering and not task.cancelled:
                self.assertEqual(state, INPUT, what)
            else:
                self.assertIn(state, (WORKING, INPUT, COMPLETED, FAILED, CANCELLED, QUEUED), what)
        return rows

    def told(self):
        """Each number that ran: once."""
        ran = collections.Counter(self.ran.read_text().split())
        self.assertEqual([n for n, times in ran.items() if times != 1], [])
        return {int(n) for n in ran}

    def told_again(self, rows):
        """What may run again: as often as is on record, each time behind the record that says so, and not too often.  How often it did."""
        c, starts = self.crib, collections.Counter(self.reran.read_text().split())
        begun = c.rows("SELECT idx, previous FROM v_records WHERE kind = 'call.begin' AND tool = 'again'")
        cut = dict(c.rows("SELECT previous, idx FROM v_records WHERE kind = 'task.rerun'"))
        self.assertEqual(c.rows("SELECT count(*) FROM v_records WHERE kind = 'task.rerun'"), [(len(cut),)])
        for idx, previous in begun:
            if previous is not None:
                self.assertLess(cut[previous], idx, "it has run again before that was on record")
        self.assertEqual(len(begun), len({(idx if previous is None else previous) for idx, previous in begun}), "one cut, two runs")
        self.assertLessEqual(sum(starts.values()), len(begun))
        left = dict(c.rows("SELECT tid, reruns FROM task"))
        for id, task in self.tasks.items():
            if task.tool == "again":
                self.assertLessEqual(starts[str(task.n)], STARTS, (id, vars(task)))
                self.assertIn(rows[id], (COMPLETED, FAILED), (id, vars(task)))
                self.assertTrue(left[id] == 0 if rows[id] == FAILED else starts[str(task.n)] > 0, (id, vars(task), left[id]))
        return sum(n - 1 for n in starts.values())

    def settle(self):
        """A last life, in which everything that need not wait comes to its end."""
        (self.last / "now").touch()
        self.up()
        crib.wait_for("the end of what runs", lambda: not {WORKING, QUEUED} & set(self.rows_of().values()), 4 * crib.DEADLINE)
        crib.wait_for("that nobody waits for what was decided", lambda: self.crib.rows(
            "SELECT count(*) FROM task t JOIN assent a ON a.call = t.call WHERE t.state = ? AND a.state <> ?", HELD, STILL_WAITS) == [(0,)])
        peers = self.peers()
        rows, ran = self.whole(), self.told()
        for id, task in self.tasks.items():
            if rows[id] == INPUT:
                task.asks, task.answering = True, False
                self.assertEqual(self.seen(peers[task.peer], id), "input_required")
            if rows[id] == COMPLETED and task.n not in ran and task.tool not in ("nap", "again"):     # a program that could not run
                got = self.got(peers[task.peer], "tasks/get", {"taskId": id}, crib.MODERN, EXT)
                self.assertTrue(got["result"].get("isError"), (id, vars(task), got))
            self.assertTrue(rows[id] not in (INPUT, HELD) or task.n not in ran, (id, vars(task)))
        for peer in peers:
            peer.close()
        return rows, ran

    def test_none_is_lost_and_none_runs_twice(self):
        c = self.crib
        points = self.rng.sample(list(POINTS), len(POINTS)) if BUILT else ["at random"]
        self.fill()
        c.stop(signal.SIGKILL)
        for turn in range(KILLS):
            point = points[turn % len(points)]
            self.deaths[self.die(point, self.rng.randint(1, POINTS.get(point, 1)))] += 1
            self.whole()
            self.told()
        begun = time.monotonic()
        rows, ran = self.settle()
        took = time.monotonic() - begun
        again = self.told_again(rows)
        used = [call for call, in c.rows("SELECT used FROM assent WHERE state = ?", USED)]
        self.assertEqual(len(used), len(set(used)))
        self.assertEqual(c.rows("SELECT count(*) FROM v_records WHERE kind = 'call.begin' AND tool = 'buy'"), [(len(used),)])
        bought = {task.n for task in self.tasks.values() if task.held} & ran
        self.assertLessEqual(len(bought), len(used))
        states = collections.Counter(rows.values())
        print(f"{KILLS} deaths ({len(self.deaths)} places, {self.deaths['at random']} between them), {len(self.tasks)} tasks handed out, "
              f"{states[INPUT] + states[HELD]} open at the end, {len(ran)} ran, {again} ran again, {len(used)} approvals used; the last start and "
              f"all that was due took {took:.1f} s", file=sys.stderr)
        if BUILT and KILLS >= 6 * len(POINTS):
            self.assertEqual(set(POINTS) - set(self.deaths), set(), "points that no death was at")
        self.verified()


if __name__ == "__main__":
    crib.main()
