"""Every command: by hand and with --json, embedded and through the owner, its --help, its place in the man page and
the completion; errors with exit codes and hints (product.md 7, 8)."""
import json
import os
import pty
import re
import shutil
import sqlite3
import subprocess

import crib

COMMANDS = [
    "init", "status", "backup", "migrate", "apply", "export", "call",
    *("tenant " + verb for verb in "add list show set suspend resume remove".split()),
    *("principal " + verb for verb in "list show set".split()),
    *("key " + verb for verb in "create list show revoke".split()),
    *("tool " + verb for verb in "add list show enable disable remove history diff revert test lint".split()),
    *("schema " + verb for verb in "add list show remove check".split()),
    *("secret " + verb for verb in "set list remove rekey".split()),
    *("grant " + verb for verb in "add list remove set".split()),
    *("upstream " + verb for verb in "add list show set sync diff accept remove".split()),
    *("audit " + verb for verb in "calls show verify denied admin tool-health".split()),
    *("session " + verb for verb in "list".split()),
]


class Commands(crib.Case):
    def setUp(self):
        super().setUp()
        self.crib.only_cli = True

    def test_every_command_has_help_a_man_page_section_and_completion(self):
        page = subprocess.run(["cat", str(crib.SOURCE / "src/ctl/toolcrib.8")], capture_output=True, text=True).stdout
        completion = self.crib.cli("completion", "bash")
        overall = self.crib.run("--help")
        self.assertEqual(overall.returncode, 0)
        for command in COMMANDS:
            with self.subTest(command=command):
                done = self.crib.run(*command.split(), "--help")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"toolcrib {command}", done.stdout)
                self.assertRegex(page, r"(?m)^\.(Ss|It|Ic|Cm).*" + re.escape(command.split()[0]))
                self.assertIn(command.split()[-1], page)
                for word in command.split():
                    self.assertIn(word, completion)
                self.assertIn(command.split()[0], overall.stdout)
        checked = subprocess.run(["bash", "-n"], input=completion, text=True, capture_output=True)
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_a_report_may_be_larger_than_the_answer_of_a_command(self):
        """SC-509: admin.answer_max counts for commands that are no reports."""
        c = self.crib.init().start("admin:\n  answer_max: 1\n")
        c.tool(crib.ECHO)
        peer = c.tcp(c.tenant("acme", "echo"))
        size = 0
        while size <= 1 << 20:
            for _ in range(50):
                asked = [peer.request("tools/call", {"name": "echo", "arguments": {"text": "x"}}, crib.MODERN) for _ in range(10)]
                peer.raw(b"".join(json.dumps(message).encode() + b"\n" for message in asked))
                self.assertEqual({peer.receive()["id"] for _ in asked}, {message["id"] for message in asked})
            out = c.cli("--json", "audit", "calls", "--tenant", "acme", "--limit", "0")
            self.assertEqual(len(out.splitlines()) % 500, 0)
            size = len(out)
        peer.close()
        self.assertEqual(c.json("status")[0]["counters"]["admin_answer_too_large"], 0)

    def test_a_command_that_is_no_report_answers_so_much_and_no_more(self):
        """SC-509: admin.answer_max in its words, with what to do, and counted; a smaller answer of the same command comes."""
        c = self.crib.init().start("admin:\n  answer_max: 1\n")
        names = [f"{'long' * 20}{n}" for n in range(20)]
        schema, documents = c.dir / "schema.json", c.dir / "documents.yaml"
        schema.write_text(json.dumps({"type": "object", "properties": {name: {"type": "string"} for name in names}}))

        def check(n):
            documents.write_text("---\n".join("".join(f"{name}: 1\n" for name in names) for _ in range(n)))
            return c.run("--json", "schema", "check", schema, documents)
        done = check(100)
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (4, 2000), done.stderr)
        self.assertGreater(len(done.stdout), 1 << 19)
        done = check(300)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, "toolcrib: the answer is larger than 1 MiB (admin.answer_max)\n"
                                      "hint: ask for less: --since and --until, --limit, --tenant\n")
        self.assertEqual(c.json("status")[0]["counters"]["admin_answer_too_large"], 1)

    def walk(self):
        """The life of a store by commands; returns what --json said, without times and ids."""
        c, said = self.crib, []

        def do(*words):
            rows = c.json(*words)
            said.append((" ".join(word for word in words[:2] if isinstance(word, str)), rows))
            return rows
        do("tenant", "add", "acme", "--title", "Acme Corp")
        do("tenant", "add", "gone")
        self.assertEqual([row["name"] for row in do("tenant", "list")], ["acme", "gone"])
        do("tenant", "set", "acme", "--concurrency", "7", "--rate", "100/s")
        shown = do("tenant", "show", "acme")[0]
        self.assertEqual((shown["concurrency"], shown["rate"]), (7, "100/s"))
        do("tenant", "suspend", "gone", "--yes")
        do("tenant", "resume", "gone")
        do("tenant", "remove", "gone", "--yes")
        self.assertEqual([row["name"] for row in do("tenant", "list")], ["acme"])
        key = do("key", "create", "acme/bot", "--ttl", "30d", "--label", "ci")[0]
        self.assertRegex(key["key"], r"^tck_")
        accessor = key["accessor"]
        self.assertEqual([row["accessor"] for row in do("key", "list", "acme")], [accessor])
        self.assertNotIn("key", do("key", "show", accessor)[0], "a key is shown once")
        self.assertIn("bot", [row["name"] for row in do("principal", "list", "acme")])
        do("principal", "show", "acme/bot")
        do("principal", "set", "acme/bot", "--suspended", "yes")
        do("principal", "set", "acme/bot", "--suspended", "no")
        path = c.dir / "echo.yaml"
        path.write_text(crib.ECHO)
        self.assertEqual(do("tool", "test", path, "text=hi")[0]["content"][0]["text"], "hi")
        self.assertEqual(do("tool", "list"), [], "a test stores nothing")
        do("tool", "lint", path)
        self.assertEqual(do("tool", "add", path)[0]["version"], 1)
        self.assertEqual(do("tool", "add", path)[0]["version"], 1, "unchanged: no new version")
        path.write_text(crib.ECHO.replace("Says", "Repeats"))
        self.assertEqual(do("tool", "add", path)[0]["version"], 2)
        self.assertEqual([row["version"] for row in do("tool", "history", "echo")], [2, 1])
        self.assertEqual(do("tool", "show", "echo")[0]["version"], 2)
        do("tool", "disable", "echo")
        self.assertEqual(do("tool", "list")[0]["state"], "disabled")
        do("tool", "enable", "echo")
        do("grant", "add", "acme", "echo", "--as", "say")
        do("grant", "set", "acme", "echo", "--rate", "50/s")
        self.assertEqual(do("grant", "list", "acme")[0]["alias"], "say")
        got = do("call", "acme", "say", "text=hello")[0]
        self.assertEqual(got["content"][0]["text"], "hello")
        got = do("call", "acme", "say", "--args", '{"text": "json"}', "--principal", "bot")[0]
        self.assertEqual(got["content"][0]["text"], "json")
        value = c.dir / "value"
        value.write_text("open sesame\n")
        self.assertEqual(do("secret", "set", "token", "--file", value)[0]["said"], "set")
        self.assertEqual(do("secret", "list")[0]["name"], "token")
        self.assertEqual(do("secret", "rekey")[0]["left"], 0)
        do("secret", "remove", "token", "--yes")
        rows = do("audit", "calls", "--tenant", "acme", "--since", "1h", "--outcome", "ok")
        self.assertEqual(len(rows), 2)
        self.assertEqual(rows[0]["principal"], "bot")
        do("audit", "show", rows[0]["call"])
        do("session", "list")
        self.assertIn("store", do("status")[0])
        backup = c.dir / "backup.db"
        do("backup", backup)
        copy = sqlite3.connect(f"file:{backup}?mode=ro", uri=True)
        self.assertEqual(copy.execute("SELECT count(*) FROM rec WHERE kind = 1002").fetchone()[0], 2)
        copy.close()
        backup.unlink()
        do("key", "revoke", accessor, "--yes")
        do("grant", "remove", "acme", "echo", "--yes")
        do("tool", "remove", "echo", "--yes")
        self.assertEqual(do("tool", "list"), [])
        return [(name, sorted(rows[0]) if rows else []) for name, rows in said]

    def test_the_life_of_a_store_is_the_same_on_both_roads(self):
        self.crib.init()
        embedded = self.walk()
        self.crib.close()
        self.crib = crib.Crib()
        self.addCleanup(self.crib.close)
        self.crib.init().start()
        self.assertEqual(self.walk(), embedded)
        self.assertEqual(self.crib.stop(), 0)

    def test_tables_for_people(self):
        c = self.crib.init()
        c.tenant("acme")
        lines = c.cli("tenant", "list").splitlines()
        self.assertRegex(lines[0], r"^NAME\s")
        self.assertRegex(lines[1], r"^acme\s")
        self.assertNotIn("\x1b", "\n".join(lines))

    def test_colour_is_for_terminals_that_want_it(self):
        """product.md 8: on a terminal, unless NO_COLOR is set; never in a pipe."""
        c = self.crib.init()
        c.tenant("acme")
        self.assertNotIn("\x1b", self.on_terminal(b"", "tenant", "list")[1], "NO_COLOR is set in all tests")
        del c.env["NO_COLOR"]
        c.env["TERM"] = "xterm"
        self.assertIn("\x1b[1m", self.on_terminal(b"", "tenant", "list")[1])
        self.assertIn("\x1b[31m", self.on_terminal(b"", "tenant", "show", "nobody")[1])
        self.assertNotIn("\x1b", c.cli("tenant", "list") + c.run("tenant", "show", "nobody").stderr)

    def test_prompts_and_resources_have_the_commands_of_tools(self):
        """toolcrib(8): versions, their differences, the way back, out of sight and in again, a trial, and the end."""
        c = self.crib.init().start()
        kinds = {"prompt": ("kind: prompt\nname: x\ndescription: {}\nhandler: {{type: static, text: 'Of {{/a}}.'}}\n"
                            "arguments: [{{name: a}}]\n", ("a=it",)),
                 "resource": ("kind: resourceTemplate\nname: x\ndescription: {}\nuriTemplate: t://x/{{a}}\n"
                              "handler: {{type: static, text: 'Of {{/a}}.'}}\n", ("t://x/it",))}
        path = c.dir / "x.yaml"
        for noun, (text, arguments) in kinds.items():
            with self.subTest(noun=noun):
                for words in ("One.", "Two."):
                    path.write_text(text.format(words))
                    c.cli(noun, "add", path)
                self.assertIn("Of it.", c.cli(noun, "test", path, *arguments))
                self.assertEqual([(row["name"], row["version"]) for row in c.json(noun, "list")], [("x", 2)])
                self.assertEqual([(row["version"], row["in_force"]) for row in c.json(noun, "history", "x")], [(2, True), (1, False)])
                self.assertEqual(c.json(noun, "show", "x", "--version", "1")[0]["definition"]["description"], "One.")
                self.assertIn("~ /description: One. -> Two.", c.cli(noun, "diff", "x"))
                c.cli(noun, "disable", "x")
                c.cli(noun, "revert", "x", "1")
                shown = c.json(noun, "show", "x")[0]
                self.assertEqual((shown["version"], shown["state"], shown["definition"]["description"]), (3, "disabled", "One."))
                c.cli(noun, "enable", "x")
                self.assertEqual(c.json(noun, "list")[0]["state"], "enabled")
                self.assertEqual(c.run(noun, "remove", "x").returncode, 2)
                c.cli("--yes", noun, "remove", "x")
                self.assertEqual(c.json(noun, "list"), [])
                c.cli(noun, "add", path)
                self.assertEqual(c.json(noun, "show", "x")[0]["version"], 4, "the count goes on")
                c.cli("--yes", noun, "remove", "x")

    def test_what_was_set_can_be_taken_back(self):
        """toolcrib(8): the options that begin with no-, and that what is not named stays."""
        c = self.crib.init().start()
        c.tool(crib.ECHO)
        c.tenant("acme", "echo --as say --rate 5/s --concurrency 3")

        def grant():
            row = c.json("grant", "list", "acme")[0]
            return row["alias"], row["rate"], row["concurrency"]
        self.assertEqual(grant(), ("say", "5/s", 3))
        c.cli("grant", "set", "acme", "echo", "--no-alias")
        self.assertEqual(grant()[1:], ("5/s", 3))
        self.assertFalse(grant()[0])
        c.cli("grant", "set", "acme", "echo", "--no-rate", "--concurrency", "0")
        self.assertFalse(any(grant()))
        c.cli("tenant", "set", "acme", "--rate", "9/s", "--concurrency", "2")
        c.cli("tenant", "set", "acme", "--no-rate")
        shown = c.json("tenant", "show", "acme")[0]
        self.assertEqual((bool(shown.get("rate")), shown["concurrency"]), (False, 2))

        def requests():
            return next(row["value"] for row in c.json("limit", "show", "acme") if row["limit"] == "requests")
        before = requests()
        c.cli("limit", "set", "acme", "--requests", "7/s")
        self.assertIn("7/s", str(requests()))
        c.cli("limit", "set", "acme", "--no-requests")
        self.assertEqual(requests(), before)
        c.cli("retention", "set", "acme", "--min-days", "1", "--max-days", "9")
        c.cli("retention", "set", "acme", "--no-max")
        shown = c.json("retention", "show", "acme")[0]
        self.assertEqual((shown["min_days"], shown.get("max_days")), (1, None))

    def test_the_manuals_examples_are_taken(self):
        """toolcrib-tool(5), toolcrib-resource(5): definitions as they stand there, checked as if to be stored."""
        c = self.crib.init()
        done = 0
        (c.dir / "board.html").write_text("<!doctype html><title>board</title>\n")     # the page that one of them names
        for page in sorted(crib.SOURCE.glob("src/*/toolcrib-*.5")):
            for block in re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", page.read_text(), re.M | re.S):
                text = block.replace("\\e", "\\").replace("\\&", "").replace("\\-", "-")
                if not re.match(r"(---\n)?(name|kind|\$id): ", text):
                    continue
                for n, document in enumerate(re.split(r"^---\n", text, flags=re.M)):
                    if not re.search(r"^handler:", document, re.M):
                        continue
                    with self.subTest(page=page.name, document=document):
                        path = c.dir / "example.yaml"
                        path.write_text(document)
                        said = c.run("apply", "--dry-run", "-f", path)
                        self.assertEqual(said.returncode, 0, said.stderr)
                        done += 1
        self.assertGreaterEqual(done, 7)

    def test_changes_of_one_definition_at_the_same_time_are_each_a_version(self):
        """What was answered with success is a version of its own, and the last of them is in force."""
        c = self.crib.init().start()
        c.tool(crib.ECHO)
        running = []
        for i in range(8):
            path = c.dir / f"{i}.yaml"
            path.write_text(crib.ECHO.replace("Says", f"{i} says"))
            running.append(subprocess.Popen([crib.BUILD / "toolcrib", "--store", c.store, "tool", "add", path], env=c.env, text=True,
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        ended = [(child.communicate(timeout=60), child.returncode) for child in running]
        for (_, said), code in ended:
            self.assertIn(code, (0, 1))
            self.assertEqual(code, 1 if said else 0, said)
        done = sum(code == 0 for _, code in ended)
        versions = c.json("tool", "history", "echo")
        self.assertGreater(done, 0)
        self.assertEqual(sorted(row["version"] for row in versions), list(range(1, done + 2)))
        self.assertEqual(len({row["digest"] for row in versions}), done + 1)
        self.assertEqual(sum(row["in_force"] for row in versions), 1)

    def test_quiet_prints_the_essential_alone(self):
        c = self.crib.init()
        self.assertEqual(c.cli("-q", "tenant", "add", "acme"), "")
        self.assertEqual(c.cli("--quiet", "tenant", "list"), "acme\n")
        done = c.run("key", "create", "acme/bot", "-q")
        self.assertRegex(done.stdout, r"^tck_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}\n$")
        self.assertEqual(done.stderr, "")

    def test_names_from_the_store_cannot_write_to_the_terminal(self):
        c = self.crib.init()
        title = "\x1b]0;owned\x07\u202egood"
        self.assertEqual(c.run("tenant", "add", "acme", "--title", title).returncode, 1, "refused at the door")
        c.cli("tenant", "add", "acme")
        db = sqlite3.connect(c.store / "toolcrib.db")
        db.execute("UPDATE tenant SET title = ?", (title,))
        crib.forget_vouching(db)
        db.commit()
        db.close()
        for out in (c.cli("tenant", "list"), c.cli("tenant", "show", "acme")):
            self.assertIn("\\x1b]0;owned\\x07\\u{202e}good", out)
        self.assertEqual(c.json("tenant", "show", "acme")[0]["title"], title)

    def on_terminal(self, answer, *words):
        """Run a command on a terminal that says `answer`: exit status and what it showed."""
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(str(crib.BUILD / "toolcrib"), ["toolcrib", "--store", str(self.crib.store), *words], self.crib.env)
        os.write(fd, answer)
        shown = b""
        while True:
            try:
                data = os.read(fd, 4096)
            except OSError:
                break
            if not data:
                break
            shown += data
        os.close(fd)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()

    def test_a_change_that_cannot_be_undone_is_asked_for_on_a_terminal(self):
        c = self.crib.init()
        c.tenant("acme", "*")
        code, shown = self.on_terminal(b"n\n", "tenant", "remove", "acme")
        self.assertEqual(code, 1)
        self.assertIn("Remove tenant acme with 1 key and 1 grant? [y/N]", shown)
        self.assertEqual(c.cli("-q", "tenant", "list"), "acme\n")
        code, shown = self.on_terminal(b"y\n", "tenant", "remove", "acem")
        self.assertEqual(code, 1)
        self.assertIn("did you mean acme?", shown)
        self.assertNotIn("[y/N]", shown, "no question about what is not there")
        code, shown = self.on_terminal(b"y\n", "tenant", "remove", "acme")
        self.assertEqual(code, 0, shown)
        self.assertEqual(c.cli("-q", "tenant", "list"), "")

    def test_commands_wait_for_each_other(self):
        c = self.crib.init()
        running = [subprocess.Popen([str(crib.BUILD / "toolcrib"), "--store", str(c.store), "tenant", "add", f"t{i}"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=c.env) for i in range(6)]
        for one in running:
            self.assertEqual((one.communicate(timeout=60)[1], one.returncode), (b"", 0))
        self.assertEqual(c.cli("-q", "tenant", "list").split(), [f"t{i}" for i in range(6)])

    def complete(self, *words):
        """What bash would offer for the last of the words."""
        script = """source <(toolcrib completion bash)
compopt() { :; }
COMP_WORDS=(toolcrib "$@")
COMP_CWORD=$#
_toolcrib
printf '%s\n' "${COMPREPLY[@]}"
"""
        env = {**self.crib.env, "PATH": f"{crib.BUILD.resolve()}:{os.environ['PATH']}", "TOOLCRIB_STORE": str(self.crib.store)}
        done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, env=env, timeout=60)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def shell(self, shell, *words):
        return subprocess.run([shell, *words], capture_output=True, text=True, timeout=60, env={
            **self.crib.env, "PATH": f"{crib.BUILD.resolve()}:{os.environ['PATH']}", "TOOLCRIB_STORE": str(self.crib.store),
            "HOME": str(self.crib.dir), "LC_ALL": "C.UTF-8"})

    def complete_zsh(self, *words):
        """What zsh would offer: its own functions stand in for those that draw."""
        script = """source <(toolcrib completion zsh)
offer() { local one; for one; do [[ $one == "$PREFIX"* ]] && print -r -- "$one$suffix"; done }
compadd() { local suffix=; [[ $1 == -S ]] && { suffix=$2; shift 2 }; offer "${(@P)${@[-1]}}" }
_describe() { local -a list=("${(@P)${@[-1]}}"); offer "${(@)list%%:*}" }
_files() { print -r -- FILE }
words=(toolcrib "$@") CURRENT=$(( $# + 1 )) PREFIX=${@[-1]}
_toolcrib
"""
        done = self.shell("zsh", "-f", "-c", "compdef() { : }\n" + script, "zsh", *words)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def complete_fish(self, *words):
        done = self.shell("fish", "--no-config", "-c", "toolcrib completion fish | source; complete -C $argv[1]",
                          "toolcrib " + " ".join(words))
        self.assertEqual(done.stderr, "")
        return [one.split("\t")[0] for one in done.stdout.splitlines()]

    def test_completion_knows_commands_options_and_names(self):
        """In each shell that is there; from one table for all."""
        c = self.crib.init()
        c.tenant("acme")
        c.tool(crib.ECHO)
        c.start()
        for words, offered in ((["too"], ["tool"]), (["tool", "re"], ["remove", "revert", "reject"]), (["tool", "show", ""], ["echo"]),
                               (["grant", "add", "acme", "e"], ["echo"]), (["--store", str(c.store), "tenant", "show", ""], ["acme"]),
                               (["key", "create", "a"], ["acme/"]), (["key", "create", "acme/b"], ["acme/bot"]),
                               (["key", "create", "acme/bot", "--t"], ["--ttl"]), (["audit", "calls", "--tenant", ""], ["acme"]),
                               (["principal", "set", "acme/bot", "--suspended", ""], ["yes", "no"]),
                               (["tool", "list", "--format", "j"], ["json", "jsonl"]), (["completion", ""], ["bash", "zsh", "fish"]),
                               (["help", "tool", "hi"], ["history"]), (["tenant", "show", "x"], [])):
            with self.subTest(words=words):
                self.assertEqual(self.complete(*words), offered)
                if shutil.which("zsh"):
                    self.assertEqual(self.complete_zsh(*words), offered)
                if shutil.which("fish"):
                    self.assertEqual(sorted(self.complete_fish(*words)), sorted(offered))

    def test_errors_say_what_and_what_to_do(self):
        c = self.crib.init()
        c.tenant("acme")
        c.tool(crib.ECHO)
        for words, code, says in ((("tool", "show", "ehco"), 1, "toolcrib: tool ehco: not found; did you mean echo?"),
                                  (("tool", "shwo", "echo"), 2, "did you mean"),
                                  (("tol", "show"), 2, "did you mean"),
                                  (("tool", "show"), 2, "usage: toolcrib tool show"),
                                  (("tenant", "add", "acme"), 1, "exists"),
                                  (("tenant", "add", "No Such Name!"), 1, "name"),
                                  (("tenant", "set", "acme", "--rate", "often"), 2, "rate"),
                                  (("key", "create", "nobody/bot"), 1, "nobody"),
                                  (("key", "create", "acme/bot", "--ttl", "10y"), 2, "ttl"),
                                  (("grant", "add", "acme", "echo", "--as", "sp ace"), 1, "alias"),
                                  (("tool", "add", "/no/such.yaml"), 1, "/no/such.yaml"),
                                  (("call", "acme", "echo", "text=x"), 1, "echo"),
                                  (("tool", "remove", "echo"), 2, "--yes"),
                                  (("audit", "calls", "--tenant", "acme", "--since", "yesterdayish"), 2, "since"),
                                  (("tool", "list", "--no-such"), 2, "--no-such")):
            with self.subTest(words=words):
                done = c.run(*words)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(says, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_a_newer_store_is_refused_and_left_alone(self):
        c = self.crib.init()
        db = sqlite3.connect(c.store / "toolcrib.db")
        db.execute("PRAGMA user_version = 9999")
        db.close()
        done = c.run("tenant", "list")
        self.assertEqual(done.returncode, 3)
        self.assertIn("newer", done.stderr)

    def test_a_second_daemon_is_refused_and_a_reader_works_beside_the_owner(self):
        c = self.crib.init().start()
        c.tenant("acme")
        second = subprocess.run([str(crib.BUILD / "toolcribd"), "--store", str(c.store), "-c", str(c.config())],
                                capture_output=True, text=True, timeout=crib.DEADLINE, env=c.env)
        self.assertEqual(second.returncode, 1)
        self.assertIn(str(c.daemon.pid), second.stderr)
        db = sqlite3.connect(f"file:{c.store}/toolcrib.db?mode=ro", uri=True)
        self.assertEqual(db.execute("SELECT name FROM tenant").fetchall(), [("acme",)])
        db.close()

    def test_admin_changes_are_recorded_with_who_did_them(self):
        c = self.crib.init().start()
        c.tenant("acme")
        db = sqlite3.connect(f"file:{c.store}/toolcrib.db?mode=ro", uri=True)
        kinds = [row[0] for row in db.execute("SELECT kind FROM rec ORDER BY id")]
        for kind in (1601, 1301, 1201):
            self.assertIn(kind, kinds)
        db.close()

    def test_config_errors_name_the_place(self):
        c = self.crib.init()
        for text, says in (("listners: []\n", "did you mean listeners?"), ("drain_ms: soon\n", "drain_ms"),
                           ("listeners:\n- {transport: http, address: '0.0.0.0:0'}\n", "insecure"),
                           ("listeners:\n- {transport: htp, address: '127.0.0.1:0'}\n", "htp"), ("audit: {deadline_ms: 1}\n", "50")):
            path = c.dir / "bad.yaml"
            path.write_text(text)
            done = subprocess.run([str(crib.BUILD / "toolcribd"), "--check-config", "-c", str(path)],
                                  capture_output=True, text=True, timeout=crib.DEADLINE, env=c.env)
            self.assertEqual(done.returncode, 1, text)
            self.assertIn("bad.yaml:", done.stderr)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    crib.main()
