"""Death at every crash point (FAULT F2): the next start finds all that was acknowledged, finishes what was begun, and the
store verifies.  Needs programs built with --enable-crash-points."""
import pathlib
import re
import shutil
import signal
import sqlite3
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integ"))
import crib
import test_approve
import test_archive
import test_seal
from witness import Witness

HERE = pathlib.Path(__file__).resolve().parent
BUILT = "#define CRASH_POINTS 1" in (crib.BUILD / "config.h").read_text()
DEAD, REFUSED = 137, 77
ERASE, ERASE_DONE, PRUNE, PRUNE_DONE = 1906, 1907, 1904, 1905
FOLD = "audit: {fold_age: 1, plain_rows: 0}\n"
ONCE = ("wal.truncate", "prune.bundle", "prune.intent", "prune.done")


ASKS = """#!/bin/sh
read -r job
case $job in
*'"answers":{'*) echo ran >>%s; echo '{"result":{"content":[{"type":"text","text":"ran"}]}}';;
*) echo '{"ask":{"requests":{"q":{"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}}}}';;
esac
"""
EXT = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


def points():
    """Name and scenario of each point."""
    lines = (HERE / "crash_points").read_text().splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


class Names(crib.unittest.TestCase):
    def test_the_list_and_the_code_agree(self):
        in_code = set()
        for path in (crib.SOURCE / "src").rglob("*.c"):
            for call in re.findall(r'(?:CRASH_AT|crash_around)\(([^)]*)\)', path.read_text()):
                in_code |= set(re.findall(r'"([a-z.]+)"', call))
        self.assertEqual(in_code, {name for name, _ in points()})


@crib.unittest.skipUnless(BUILT, "needs ./configure --enable-crash-points")
class CrashPoints(crib.Case):
    @classmethod
    def setUpClass(cls):
        """A store that all but one scenario begin with; each death is on a copy of it."""
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="toolcrib-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        c = crib.Crib()
        cls.addClassCleanup(c.close)
        cls.key = Witness(c.init(), cls.folder).key
        for name, value in (("one", "first"), ("two", "second"), ("three", "third")):
            c.cli("secret", "set", name, stdin=value)
        cls.made = c.store

    def witness(self, c):
        shutil.copytree(self.made, c.store)
        return Witness(c, self.folder, self.key)

    def die_at(self, name, n, scenario):
        c = self.crib = crib.Crib()
        self.addCleanup(c.close)
        self.made_tasks = set()
        env = {"TOOLCRIB_CRASH_AT": f"{name}:{n}"}
        if scenario == "init":
            self.assertEqual(c.run("init", env=env).returncode, DEAD)
            c.cli("init")
            w = Witness(c)
            c.start()
            c.stop()
        else:
            w = self.witness(c)
            if scenario in ("erase", "prune"):
                c.cli("approval", "policy", "one")
                c.cli("retention", "set", "acme", "--min-days", "0")
            if scenario in ("sign", "rotate"):
                self.signer_dies(w, name, n, scenario)
            elif scenario == "fold":        # rows behind the first blocks stay until the next start
                c.start(FOLD)
                w.load()
                crib.wait_for("blocks", lambda: c.rows("SELECT sum(cnt) > 1000 FROM blk")[0][0])
                w.rest()
                self.assertEqual(c.stop(), 0)
                self.live(w, env, scenario)
            elif scenario == "recover":
                c.start()
                w.load()
                crib.wait_for("answers", lambda: len(w.answered) > 20)
                w.rest()
                self.open_calls(w, n)
                self.assertEqual(c.run("tenant", "add", "other", env=env).returncode, DEAD)
            else:
                self.live(w, env, scenario)
        crib.wait_for("no daemon", lambda: not c.daemon or c.daemon.poll() is not None)
        self.restart(c)
        peer = c.http(w.key)
        self.assertIn("result", peer.call("echo", {"text": "x"}, crib.MODERN))
        peer.close()
        self.finish(w, scenario)
        if scenario == "ask":
            self.settled(w)
        rows = dict(c.rows("SELECT tid, state FROM task"))
        self.assertLessEqual(self.made_tasks, set(rows))
        self.assertNotIn(1, rows.values())      # nothing runs any more
        self.assertEqual(c.stop(), 0)
        w.testify(self)
        done = c.run("audit", "verify")         # the record of the period may be pruned, which is a gap
        self.assertEqual(done.returncode, 5 if scenario == "prune" else 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("NOT_CHECKED"), done.stdout.count("whose records were pruned"))

    def restart(self, c):
        """A death between the record of a start and its first checkpoint leaves records behind a stop that was signed: an
        administrator takes them over by name (AUDIT A-722)."""
        c.daemon = None
        try:
            c.start()
        except AssertionError as refused:
            self.assertIn("records were added while no server could have", str(refused))
            tails = str(refused).rpartition("audit adopt")[2].split()
            self.assertEqual([tail.split(":")[0] for tail in tails], ["system"])
            c.cli("audit", "adopt", *tails)
            c.start()

    def calls(self, w, n):
        """Calls that no witness knows, since their records or payloads are to go."""
        peer = w.crib.tcp(w.key)
        for _ in range(n):
            self.assertIn("result", peer.call("echo", {"text": "x"}, crib.MODERN))
        peer.close()

    def erase(self, w):
        """A principal, the tenant, a call; until a command fails, since the server has died."""
        c = w.crib
        self.calls(w, 100)
        call = c.json("audit", "calls", "--tenant", "acme", "--limit", "1")[0]["call"]
        for words in (["--principal", "acme/bot"], ["--tenant", "acme"], ["--call", call]):
            if c.run("--yes", "erase", "--ground", "asked for", "--ticket", "E-1", *words).returncode != 0:
                break

    def prune(self, w):
        words = ["--yes", "retention", "prune", "acme", "--before", "0s"]
        crib.wait_for("a checkpoint", lambda: w.crib.run(*words, "--dry-run").returncode == 0)
        return w.crib.run(*words, "--bundle", w.crib.dir / "acme.tar")

    def finish(self, w, scenario):
        """What the intent said is done by the start after the death, or can be said again."""
        def count(kind):
            with sqlite3.connect(f"file:{w.crib.store}/toolcrib.db?mode=ro", uri=True) as db:
                got = db.execute("SELECT count(*) FROM rec WHERE kind = ?", (kind,)).fetchone()[0]
            db.close()
            return got
        if scenario == "erase":
            self.assertGreater(count(ERASE), 0)
            crib.wait_for("the erasure", lambda: count(ERASE_DONE) == count(ERASE))
        elif scenario == "prune":
            if count(PRUNE) == 0:
                done = self.prune(w)
                self.assertEqual(done.returncode, 0, done.stderr)
            crib.wait_for("the prune", lambda: count(PRUNE_DONE) == count(PRUNE))
            self.assertEqual(w.crib.json("retention", "show", "acme")[0]["pruned"], 512)

    def signer_dies(self, w, name, n, scenario):
        """The signer has no environment of the server's, so a program beside it sets the point, and keeps how it ended.
        A rotation is once a start."""
        c, program, ended = w.crib, w.crib.dir / "sign", w.crib.dir / "ended"
        program.write_text(f'#!/bin/sh\nTOOLCRIB_CRASH_AT={name}:{1 if scenario == "rotate" else n} '
                           f'{(crib.BUILD / "toolcrib-sign").resolve()} "$@"\necho $? >> {ended}\n')
        program.chmod(0o755)
        ended.touch()
        for turn in range(n if scenario == "rotate" else 1):
            try:
                c.start(env={"TOOLCRIB_SIGN": str(program)})
                w.load()
                crib.wait_for("the death of the signer", lambda: ended.read_text().count(str(DEAD)) > turn)
                w.rest()
                w.kill()
            except AssertionError:
                self.assertIsNotNone(c.daemon.poll())
            self.assertGreater(ended.read_text().count(str(DEAD)), turn, "the point was not passed")

    def open_calls(self, w, n):
        """Kill while at least n calls have begun and not ended."""
        slow = w.crib.dir / "slow"
        slow.write_text("#!/bin/sh\nsleep 60\n")
        slow.chmod(0o755)
        w.crib.tool(crib.tool_yaml("slow", f'{{type: exec, argv: ["{slow}"], stdin: none, output: text}}',
                                   extra="task: {support: optional, after: 0s}\n"), "slow.yaml")
        w.crib.cli("grant", "add", "acme", "slow")
        crib.wait_for("no open calls", lambda: not (r := w.records())[1001] - r[1002])
        peers = [w.crib.tcp(w.key) for _ in range(n)]
        for peer in peers:
            peer.send(peer.request("tools/call", {"name": "slow", "arguments": {}}, crib.MODERN, EXT))
        crib.wait_for("open calls", lambda: len((r := w.records())[1001] - r[1002]) >= n)
        crib.wait_for("tasks", lambda: w.crib.rows("SELECT count(*) FROM task")[0][0] >= n)
        w.kill()
        for peer in peers:
            peer.close()

    def tasks(self, w):
        """Calls that become tasks, until the server has died: those whose callers had a handle are there afterwards."""
        c = w.crib
        c.tool(crib.tool_yaml("task", "{type: builtin, function: echo}", "{type: object, properties: {text: {type: string}}}",
                              "task: {support: required}\n"), "task.yaml")
        c.cli("grant", "add", "acme", "task")
        peer = c.tcp(w.key)
        try:
            for _ in range(5):
                got = peer.call("task", {"text": "x"}, crib.MODERN, EXT)["result"]
                self.made_tasks.add(got["taskId"])
        except (AssertionError, OSError):
            pass                        # it has died
        peer.close()

    def asking(self, w):
        """Tasks that ask, and are answered, until the server has died.  Each run with answers leaves a line."""
        c = w.crib
        self.ran = c.dir / "ran"
        self.ran.touch()
        c.dir.joinpath("ask").write_text(ASKS % self.ran)
        c.dir.joinpath("ask").chmod(0o755)
        c.tool(crib.tool_yaml("ask", f'{{type: exec, argv: ["{c.dir}/ask"], stdin: json, output: stream, sandbox: {{write: ["{self.ran}"]}}}}',
                              extra="task: {support: required}\n"), "ask.yaml")
        c.cli("grant", "add", "acme", "ask")
        peer = c.tcp(w.key)
        try:
            for _ in range(4):
                task = peer.call("ask", {}, crib.MODERN, {**EXT, "elicitation": {}})["result"]["taskId"]
                self.made_tasks.add(task)
                self.settle(peer, task)
        except (AssertionError, OSError, KeyError):
            pass                        # it has died
        peer.close()

    def settle(self, peer, task):
        """Answer what it asks, until it is over; what tasks/get says then."""
        def look():
            got = peer.ask("tasks/get", {"taskId": task}, crib.MODERN, EXT)["result"]
            if got["status"] == "input_required":
                answers = {key: {"action": "accept", "content": {}} for key in got["inputRequests"]}
                peer.ask("tasks/update", {"taskId": task, "inputResponses": answers}, crib.MODERN, EXT)
            return got["status"] not in ("working", "input_required") and got
        return crib.wait_for("the end of the task", look)

    def settled(self, w):
        """None is lost: each has completed, behind one run, or was cut off in one."""
        peer = w.crib.tcp(w.key)
        got = [self.settle(peer, task) for task in self.made_tasks]
        peer.close()
        ends = [task["status"] for task in got]
        self.assertLessEqual(set(ends), {"completed", "failed"})
        self.assertEqual([task for task in got if task["status"] == "completed" and task["result"].get("isError")], [])
        ran = len(self.ran.read_text().splitlines())
        self.assertLessEqual(ends.count("completed"), ran, got)
        self.assertLessEqual(ran, len(w.crib.rows("SELECT 1 FROM task")))

    def live(self, w, env, scenario):
        """A start, load, admin commands, a rekey, a stop: somewhere there the process dies."""
        c = w.crib
        c.daemon = None
        try:
            c.start(FOLD if scenario == "fold" else "", env=env)
        except AssertionError:
            self.assertEqual(c.daemon.poll(), DEAD)
            return
        if scenario in ("load", "busy", "fold"):
            w.load()
            try:
                c.daemon.wait(4 * crib.DEADLINE)
            finally:
                w.rest()
        elif scenario == "admin":
            for i in range(5):
                c.run("tenant", "add", f"t{i}")
        elif scenario == "task":
            self.tasks(w)
        elif scenario == "ask":
            self.asking(w)
        elif scenario == "key":
            for i in range(5):
                c.run("key", "create", f"acme/bot{i}")
        elif scenario == "erase":
            self.erase(w)
        elif scenario == "prune":
            self.calls(w, 300)
            self.prune(w)
        elif scenario == "rekey":
            c.run("secret", "rekey")
        elif scenario == "stop":
            c.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(c.daemon.wait(crib.DEADLINE), DEAD, "the point was not passed")


@crib.unittest.skipUnless(BUILT, "needs ./configure --enable-crash-points")
class SealPoints(test_seal.Seal):
    """Deaths of a server that seals months which have ended: of records from before, so there is no witness but what was answered.
    Here the questions are those that every record is in, once by itself and once in sums; test_seal.py asks more."""

    questions = (("export",), ("calls", "--group-by", "tool,outcome,day", "--limit", "0"))

    @classmethod
    def setUpClass(cls):
        """What every copy of the store answers."""
        one = cls("asked")
        one.setUp()
        try:
            one.crib.start(test_seal.PLAIN)
            cls.before = one.asked()
        finally:
            one.doCleanups()

    def die_at(self, name, n):
        c, before = self.crib, self.before
        try:
            c.start(test_seal.ON, env={"TOOLCRIB_CRASH_AT": f"{name}:{n}"})
        except AssertionError:
            self.assertIsNotNone(c.daemon.poll())
        self.assertEqual(c.daemon.wait(crib.DEADLINE), DEAD, "the point was not passed")
        c.daemon = None
        c.start(test_seal.PLAIN)
        self.assertEqual(self.files(), sorted(path for *_, path in self.catalog()))
        self.assertEqual(self.asked(), before)
        crib.wait_for("no leftovers", lambda: self.leftovers() == 0)
        self.sealed()
        self.assertEqual(self.asked(), before)
        self.assertGreater(len(self.catalog()), 3)
        self.whole()


@crib.unittest.skipUnless(BUILT, "needs ./configure --enable-crash-points")
class DroppedPoints(test_seal.Pruned):
    """Deaths while sealed files are pruned: the next start goes on, or nothing was intended."""

    def die_at(self, name, n):
        c = self.crib
        c.stop()
        c.start(test_seal.PLAIN, env={"TOOLCRIB_CRASH_AT": f"{name}:{n}"})
        self.assertNotEqual(self.prune("--before", "0s", "--bundle", c.dir / "gone.tar").returncode, 0)
        self.assertEqual(c.daemon.wait(crib.DEADLINE), DEAD, "the point was not passed")
        c.daemon = None
        c.start(test_seal.PLAIN)
        if name == "prune.bundle":
            self.assertEqual(self.prune("--before", "0s", "--bundle", c.dir / "gone.tar").returncode, 0)
        crib.wait_for("the prune's end", lambda: self.ended() == 1)
        self.assertEqual((self.files(), self.catalog()), ([], []))
        self.verified()


@crib.unittest.skipUnless(BUILT, "needs ./configure --enable-crash-points")
class ErasedPoints(test_seal.Erase):
    """Deaths while sealed files are made anew: each is the old one or the new one, and the next start goes on."""

    def die_at(self, name, n):
        c, person = self.crib, f"{self.tenant}/{sorted(self.people)[0]}"
        c.stop()
        c.start(test_seal.PLAIN, env={"TOOLCRIB_CRASH_AT": f"{name}:{n}"})
        self.assertNotEqual(self.erase("--principal", person).returncode, 0)
        self.assertEqual(c.daemon.wait(crib.DEADLINE), DEAD, "the point was not passed")
        c.daemon = None
        self.assertEqual(self.open_deeds(), 1)
        c.start(test_seal.PLAIN)
        crib.wait_for("the erasure's end", lambda: self.open_deeds() == 0)
        gone = self.gone()
        self.assertGreater(len(gone), 20)
        self.assertEqual(self.present(gone), 0)
        self.verified()


@crib.unittest.skipUnless(BUILT, "needs ./configure --enable-crash-points")
class ArchivedPoints(test_archive.Archive):
    """Deaths while files are moved: each is where its row says, and an original besides at most, until the next start."""

    questions = SealPoints.questions

    def die_at(self, name, n):
        c = self.crib
        attaches = name.startswith("attach")
        if attaches:
            self.archive()
        c.stop()
        self.serve({"TOOLCRIB_CRASH_AT": f"{name}:{n}"})
        done = c.run("audit", *(("attach", self.place) if attaches else ("archive", "--before", "0s")))
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(c.daemon.wait(crib.DEADLINE), DEAD, "the point was not passed")
        c.daemon = None
        self.serve()
        self.assertEqual(self.files(), sorted(path for path in self.paths() if not path.startswith("/")))
        self.assertTrue(all((c.store / path).is_file() for path in self.paths()))
        self.assertEqual(self.asked(), self.before)
        c.json("audit", "attach", self.place) if attaches else self.archive()
        self.assertEqual({path.startswith("/") for path in self.paths()}, {not attaches})
        self.assertEqual(self.asked(), self.before)
        self.verified()


@crib.unittest.skipUnless(BUILT, "needs ./configure --enable-crash-points")
class AssentPoints(test_approve.Persons):
    """Deaths while calls are asked for, agreed to, used and recalled: no yes is used twice, and none is lost."""

    def go(self, amounts):
        """Ask, agree and run, for each; those that were answered.  Ends when the server has died."""
        ran = set()
        for amount in amounts:
            try:
                number = self.ask(args={"amount": amount})
                self.by("ann", "approve", "grant", str(number))
                if amount % 3 == 2:
                    self.by("ann", "approve", "recall", str(number))
                elif not self.call(args={"amount": amount}).get("isError"):
                    ran.add(amount)
            except (AssertionError, OSError):
                self.crib.daemon.wait(crib.DEADLINE)
            if self.crib.daemon.poll() is not None:
                break
        return ran

    def die_at(self, name, n):
        c = self.crib
        c.stop()
        self.up({"TOOLCRIB_CRASH_AT": f"{name}:{n}"})
        ran = self.go(range(2000, 2020))
        self.assertEqual(c.daemon.wait(crib.DEADLINE), DEAD, "the point was not passed")
        self.up()
        states = c.rows("SELECT state, used FROM assent")
        used = [call for state, call in states if state == 5]
        self.assertEqual(len(used), len(set(used)))
        self.assertEqual(self.begun(), len(used))
        self.assertLessEqual(len(ran), len(used))
        granted = [state for state, _ in states].count(2)
        again = sum(not self.call(args={"amount": amount}).get("isError") for amount in range(2000, 2020))
        self.assertEqual(again, granted)        # what was granted and not used runs now, once, and nothing else
        self.assertEqual(self.begun(), len(used) + granted)
        self.verified()


def add_assent(name, n):
    setattr(AssentPoints, f"test_{name.replace('.', '_')}_{n}", lambda self: self.die_at(name, n))


def add(name, scenario):
    def test(self):
        for n in (1, 2, 3) if name not in ONCE else (1,):
            with self.subTest(n=n):
                self.die_at(name, n, scenario)
    setattr(CrashPoints, f"test_{name.replace('.', '_')}", test)


def add_seal(name, n):
    """Each has a store of its own."""
    setattr(SealPoints, f"test_{name.replace('.', '_')}_{n}", lambda self: self.die_at(name, n))


def add_dropped(name, n):
    setattr(DroppedPoints, f"test_{name.replace('.', '_')}_{n}", lambda self: self.die_at(name, n))


def add_erased(name, n):
    setattr(ErasedPoints, f"test_{name.replace('.', '_')}_{n}", lambda self: self.die_at(name, n))


def add_archived(name, n):
    setattr(ArchivedPoints, f"test_{name.replace('.', '_')}_{n}", lambda self: self.die_at(name, n))


for name in ("prune.bundle", "prune.intent", "prune.done"):
    add_dropped(name, 1)
for name in ("erase.intent", "erase.rows", "erase.truncate"):
    add_erased(name, 1)
for name, times in (("begin.before", 2), ("begin.after", 2), ("admin.commit", 8)):
    add_assent(name, times)
for point, scenario in points():
    if scenario == "seal":
        for n in (1, 2, 3):
            add_seal(point, n)
    elif scenario == "assent":
        for n in (1, 2):
            add_assent(point, n)
    elif scenario == "dropped":
        for n in (1, 2):
            add_dropped(point, n)
    elif scenario == "archived":
        for n in (1, 2):
            add_archived(point, n)
    elif scenario == "erased":
        for n in (1, 2):
            add_erased(point, n)
    else:
        add(point, scenario)


@crib.unittest.skipUnless(BUILT and not crib.sanitized(), "needs ./configure --enable-crash-points, and no sanitizers, which confine nothing")
class TakenOver(crib.Case):
    """What the server may not do once it is up, where somebody's code runs in it (HARDENING 1.3, F-12)."""

    def does(self, what):
        """The exit status of a server that does this in the middle of a call."""
        w = Witness(self.crib.init())
        self.crib.start(env={"TOOLCRIB_CRASH_AT": "run.spawned", "TOOLCRIB_CRASH_DOES": what})
        w.load()
        try:
            return self.crib.daemon.wait(crib.DEADLINE)
        finally:
            w.rest()
            self.crib.daemon = None

    def test_f12_it_starts_no_program(self):
        self.assertEqual(self.does("execve /bin/true"), REFUSED)

    def test_f12_it_opens_no_file_of_others(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="toolcrib-test-"))
        self.addCleanup(shutil.rmtree, folder)
        (folder / "foreign").write_text("of somebody else\n")
        self.assertEqual(self.does(f"open {folder}/foreign"), REFUSED)

if __name__ == "__main__":
    crib.main()
