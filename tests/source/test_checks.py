#!/usr/bin/env python3
"""The checks of the source, each on a small made-up tree: it passes as it stands, and fails when one thing gets worse.

Runs by make check-checks, with contrib/house (the circles and symbols of objects that cc made here)."""
import importlib.machinery
import importlib.util
import io
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOP = pathlib.Path(__file__).resolve().parent.parent.parent
FIGURES = ["rooms-in-circles", "files-in-circles", "largest-circle", "one-user", "no-user", "false-seams", "files",
           "largest-room", "wide-lines"]
# Two rooms: upper uses lower's face, other_table has one user, go_table none, a seam is for tests.
TREE = {
    "include/base/err.h": "#define FOR_TESTS\n",
    "include/lower/lower.h": '#include "base/err.h"\nint lower_add(int a);\nFOR_TESTS int lower_count(void);\n',
    "src/lower/lower.c": "int lower_add(int a)\n{\n\treturn a + 1;\n}\nint lower_count(void)\n{\n\treturn 0;\n}\n",
    "src/upper/main.c": '#include "lower/lower.h"\nint main(void)\n{\n\treturn lower_add(1);\n}\n',
    "src/upper/other.c": "int other_table[] = { 1 };\n",
    "src/upper/user.c": '#include "lower/lower.h"\nextern int other_table[];\nint *go_table = other_table;\nint (*const add_table)(int) = lower_add;\n',
}


def uses(path, symbol):
    """The tree's file with one more use of a symbol."""
    return {path: TREE[path] + f"extern char {symbol};\n__attribute__((used)) static char *use_{symbol} = &{symbol};\n"}


def load(path):
    loader = importlib.machinery.SourceFileLoader(path.name.replace("-", "_"), str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


HOUSE = load(TOP / "contrib" / "house")


class Tree:
    def __init__(self, folder, changes):
        self.src = pathlib.Path(folder)
        for path, text in {**TREE, **changes}.items():
            (self.src / path).parent.mkdir(parents=True, exist_ok=True)
            (self.src / path).write_text(text)
        for path in self.src.glob("src/*/*.c"):
            to = self.src / "_build" / path.relative_to(self.src).with_suffix(".o")
            to.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run([os.environ.get("CC", "cc"), "-w", "-I", self.src / "include", "-c", path, "-o", to], check=True)

    def figures(self):
        return HOUSE.figures(HOUSE.Objects(self.src / "_build", self.src), HOUSE.Sources(self.src))


def figures(changes):
    with tempfile.TemporaryDirectory() as folder:
        return Tree(folder, changes).figures()


def house_check(changes, ok):
    """What contrib/house --check says, and its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(folder, changes)
        (tree.src / "contrib").mkdir()
        (tree.src / "contrib/circles-ok").write_text("# text\n" + "".join(f"{name} {n}\n" for name, n in ok.items()))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = HOUSE.check(HOUSE.Objects(tree.src / "_build", tree.src), HOUSE.Sources(tree.src),
                                 tree.src / "contrib/circles-ok")
        return status, out.getvalue()


class House(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ok = figures({})

    def worse(self, changes, *names):
        status, said = house_check(changes, self.ok)
        self.assertEqual(status, 1)
        for name in names:
            self.assertIn(f"house: {name} ", said)

    def test_stands(self):
        self.assertEqual(sorted(self.ok), sorted(FIGURES))
        self.assertEqual(self.ok["rooms-in-circles"] + self.ok["files-in-circles"] + self.ok["false-seams"], 0)
        self.assertEqual((self.ok["no-user"], self.ok["wide-lines"]), (2, 0))
        self.assertIn(self.ok["one-user"], range(1, 1000))
        self.assertEqual(house_check({}, self.ok), (0, ""))

    def test_rooms_in_a_circle(self):
        self.worse(uses("src/lower/lower.c", "go_table"), "rooms-in-circles", "files-in-circles", "largest-circle")

    def test_files_in_a_circle(self):
        self.worse(uses("src/upper/other.c", "go_table"), "files-in-circles", "largest-circle")

    def test_one_user(self):
        self.worse({**uses("src/upper/user.c", "second"), "src/upper/other.c": TREE["src/upper/other.c"] + "int second = 1;\n"}, "one-user")

    def test_no_user(self):
        self.worse({"src/lower/lower.c": TREE["src/lower/lower.c"] + "int lower_dead(void)\n{\n\treturn 0;\n}\n"}, "no-user")

    def test_a_seam_may_be_marked_behind(self):
        header = TREE["include/lower/lower.h"].replace("FOR_TESTS int lower_count(void)", "int lower_count(void) FOR_TESTS")
        self.assertEqual(house_check({"include/lower/lower.h": header}, self.ok), (0, ""))

    def test_a_seam_that_is_used(self):
        self.worse({"include/lower/lower.h": "#include \"base/err.h\"\nFOR_TESTS int lower_add(int a);\nFOR_TESTS int lower_count(void);\n"},
                   "false-seams")

    def test_a_seam_that_is_nowhere(self):
        self.worse({"include/lower/lower.h": TREE["include/lower/lower.h"] + "FOR_TESTS int lower_gone(void);\n"}, "false-seams")

    def test_files(self):
        self.worse({"include/lower/more.h": ""}, "files")

    def test_largest_room(self):
        self.worse({"src/upper/main.c": TREE["src/upper/main.c"] + "\n" * 30}, "largest-room")

    def test_wide_lines(self):
        self.worse({"src/upper/main.c": TREE["src/upper/main.c"] + "/* " + "x" * 120 + " */\n"}, "wide-lines")

    def test_a_figure_that_nobody_holds(self):
        status, said = house_check({}, {k: v for k, v in self.ok.items() if k != "files"} | {"fields": 1})
        self.assertEqual(status, 1)
        self.assertIn("house: files: ", said)
        self.assertIn("house: fields: ", said)

    def test_better_is_no_failure(self):
        self.assertEqual(house_check({}, {k: v + 1 for k, v in self.ok.items()}), (0, ""))


def style(text, ok="", retired="", name="src/a/a.c"):
    """What contrib/check-style.awk says of one file."""
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder)
        for path, content in (("ok", ok), ("retired", retired), (name, text)):
            (at / path).parent.mkdir(parents=True, exist_ok=True)
            (at / path).write_text(content)
        run = subprocess.run([os.environ.get("AWK", "awk"), "-f", TOP / "contrib/check-style.awk", "ok", "retired", name],
                             cwd=folder, capture_output=True, text=True)
        return run.returncode, run.stdout


FINE = """/* What it is: a file that says so. */

#include "config.h"

#include <string.h>

#include "a/a.h"

/* --- the start */

int a(const char *p)
{
	static const char *const names[] = { "sizeof this", "if" };
	struct a *x = (struct a *)p, y;
	int rc = b(names, sizeof(y),
		sizeof(*x));

	/* --args and sizeof x */
	if (*p == '{')
		return rc;
	return c(x, p);
}
"""


class Style(unittest.TestCase):
    def bad(self, rule, old, new):
        status, said = style(FINE.replace(old, new))
        self.assertEqual((status, said.splitlines()[-1]), (1, f"{rule}: 1 found, at most 0 by contrib/style-ok"))

    def test_fine(self):
        self.assertEqual(style(FINE), (0, ""))

    def test_sizeof(self):
        self.bad("sizeof", "sizeof(y)", "sizeof y")

    def test_a_dereference(self):
        self.bad("sizeof", "sizeof(*x)", "sizeof *x")

    def test_sections(self):
        for other in ("/* --- the start ---------- */", "/* === the start */", "/* ------ */"):
            self.bad("section", "/* --- the start */", other)

    def test_own_headers_first(self):
        self.bad("include", '#include <string.h>\n\n#include "a/a.h"', '#include "a/a.h"\n\n#include <string.h>')

    def test_no_blank_line(self):
        self.bad("blank", "\n\n\t/* --args and sizeof x */", "")

    def test_width(self):
        self.bad("width", "What it is", "x" * 100)

    def test_no_face(self):
        self.bad("face", "/* What it is: a file that says so. */\n", "")

    def test_a_long_face(self):
        self.bad("face", " a file that says so. */", "\n * x" * 9 + " */")

    def test_counts_only_go_down(self):
        text = FINE.replace("sizeof(y)", "sizeof y")
        self.assertEqual(style(text, ok="# text\nsizeof 1\n"), (0, ""))
        self.assertEqual(style(text, ok="include 1\n")[0], 1)

    def test_retired_words(self):
        words = "# WORD, instead\nadm_ command_\ndeed job\n"
        for bad in ("adm_run", "deed", "deed_of", "some_deed"):
            self.assertEqual(style(FINE.replace("names", bad, 1), retired=words)[0], 1, bad)
        for good in ("madm_run", "indeed", "deeds"):
            self.assertEqual(style(FINE.replace("names", good, 1), retired=words), (0, ""), good)
        self.assertEqual(style(FINE, retired=words, name="src/a/adm_a.c")[0], 1)


class Size(unittest.TestCase):
    BODY = "/* What it is. */\n" + "\n" * 70

    def said(self, text, ok="", name="src/a/a.c"):
        with tempfile.TemporaryDirectory() as folder:
            at = pathlib.Path(folder)
            (at / name).parent.mkdir(parents=True)
            (at / "ok").write_text("# text\n" + ok)
            (at / name).write_text(text)
            run = subprocess.run([os.environ.get("AWK", "awk"), "-f", TOP / "contrib/check-size.awk", "ok", name], cwd=folder,
                                 capture_output=True, text=True)
            return run.returncode, run.stdout

    def function(self, lines):
        return self.BODY + "int f(void)\n{\n" + "\tg();\n" * (lines - 2) + "}\n"

    def test_fine(self):
        self.assertEqual(self.said(self.function(60)), (0, ""))

    def test_a_long_function(self):
        self.assertEqual(self.said(self.function(61))[0], 1)
        self.assertEqual(self.said(self.function(61), "src/a/a.c f 61 it is a table\n"), (0, ""))
        self.assertEqual(self.said(self.function(62), "src/a/a.c f 61 it is a table\n")[0], 1)
        self.assertEqual(self.said(self.function(61), "src/a/a.c f 62 it is a table\n")[0], 1)
        self.assertEqual(self.said(self.function(101), "src/a/a.c f 101 it is a table\n")[0], 1)

    def test_a_long_file(self):
        self.assertEqual(self.said("\n" * 1000), (0, ""))
        self.assertEqual(self.said("\n" * 1001)[0], 1)
        self.assertEqual(self.said("\n" * 251, name="include/a/a.h")[0], 1)

    def test_a_short_file(self):
        self.assertEqual(self.said("\n" * 60), (0, ""))
        self.assertEqual(self.said("\n" * 59)[0], 1)
        self.assertEqual(self.said("\n" * 59, "src/a/a.c short 59 a list\n"), (0, ""))
        self.assertEqual(self.said("\n" * 9, name="include/a/a.h"), (0, ""))

    def test_a_line_for_nothing(self):
        self.assertEqual(self.said("\n" * 60, "src/a/a.c short 59 a list\n")[0], 1)
        self.assertEqual(self.said("\n" * 60, "src/a/b.c file 1200 a list\n")[0], 1)


DOCS = load(TOP / "contrib" / "check-docs")
README_TEXT = "Run `make check`; see tests/README.\n" + "".join(f"{name}\n" for name in DOCS.PAGES)
HACKING_TEXT = "`src/base/a.c`, `src/*/a.c`, `sql/NNNN_name.sql`\n```\nmake -s -C _build t T=x\n```\n| `base` | errors |\n## Decisions\n0001\n"


class Docs(unittest.TestCase):
    def said(self, readme=README_TEXT, hacking=HACKING_TEXT):
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            for path, text in {**dict.fromkeys(DOCS.PAGES, ""), "README": readme, "HACKING": hacking, "Makefile.am": "t: all\n", "src/base/a.c": "", "tests/README": "",
                               "contrib/doc/decisions/0001-one.md": ""}.items():
                (top / path).parent.mkdir(parents=True, exist_ok=True)
                (top / path).write_text(text)
            return [*DOCS.page(top, "README"), *DOCS.page(top, "HACKING"), *DOCS.readme(top), *DOCS.hacking(top),
                    *DOCS.long(top, "README"), *DOCS.long(top, "HACKING")]

    def test_fine(self):
        self.assertEqual(self.said(), [])

    def test_a_path_that_is_not_there(self):
        self.assertEqual(self.said(readme=README_TEXT.replace("tests/README", "tests/READ")), ["README:1: tests/READ is not there"])
        self.assertEqual(len(self.said(hacking=HACKING_TEXT + "src/*/b.c\n")), 1)

    def test_a_target_that_is_not_there(self):
        self.assertEqual(self.said(readme=README_TEXT.replace("make check`", "make tea`, and make tests")), ["README:1: there is no target tea"])
        self.assertEqual(len(self.said(hacking=HACKING_TEXT.replace(" t T=x", " u T=x"))), 1)

    def test_rooms(self):
        self.assertIn("room base is missing", self.said(hacking=HACKING_TEXT.replace("| `base` |", "| `bass` |"))[0])

    def test_decisions(self):
        self.assertEqual(len(self.said(hacking=HACKING_TEXT + "0002\n")), 1)
        self.assertEqual(len(self.said(hacking=HACKING_TEXT.replace("0001", ""))), 1)

    def test_length(self):
        self.assertIn("HACKING: ", self.said(hacking=HACKING_TEXT + "\n" * 300)[0])
        fits = README_TEXT + "\n" * (DOCS.LONGEST - README_TEXT.count("\n"))
        self.assertEqual(self.said(readme=fits), [])
        self.assertEqual(self.said(readme=fits + "\n"), ["README: 301 lines, at most 300"])

    def test_a_page_that_readme_does_not_lead_to(self):
        self.assertEqual(self.said(readme=README_TEXT.replace(DOCS.PAGES[0], "")), [f"README: does not lead to {DOCS.PAGES[0]}"])


PROMISES = load(TOP / "contrib" / "check-promises")
PROMISED = {
    "Makefile.am": "check-sql check-man: all\n",
    "contrib/test": "step tsan make check\n",
    "tests/unit/t_a.c": "static void a_holds(void **state)\n{\n}\n",
    "tests/integ/test_b.py": "class B:\n    def test_b_holds(self):\n        pass\n",
    "tests/fuzz/f_c.c": "int main;\n",
    "contrib/doc/promises.tsv": "# rows\nS-1\tone\tunit/t_a.c:a_holds make:check-man contrib/test:tsan\n"
                                "S-2\ttwo\tinteg/test_b.py:test_b_holds open\nS-3\tthree\tfuzz/f_c.c\nS-4\tfour\topen\n",
    "contrib/doc/open.md": "# Open\n\n- **S-2** half.\n- **S-4** nothing\n  yet.\n",
}


class Promises(unittest.TestCase):
    def said(self, fixed=False, **changes):
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            for path, text in {**PROMISED, **changes}.items():
                (top / path).parent.mkdir(parents=True, exist_ok=True)
                (top / path).write_text(text)
            if fixed:
                PROMISES.fix(top)
            table = PROMISES.Table(top)
            return table.faults, table.count()

    def changed(self, old, new, path="contrib/doc/promises.tsv", **more):
        return self.said(**{path: PROMISED[path].replace(old, new, 1)}, **more)[0]

    def test_fine(self):
        self.assertEqual(self.said(), ([], "4 promises: 2 with a test, 1 with one for a part, 1 open"))

    def test_a_test_that_is_not_there(self):
        for old, new, says in (("a_holds", "a_hold", "has no test a_hold"), ("t_a.c", "t_z.c", "no file tests/unit/t_z.c"),
                               ("check-man", "check-men", "make has no check-men"), (":tsan", ":msan", "contrib/test has no msan"),
                               ("unit/t_a.c:a_holds", "unit/t_a.c", "has several tests")):
            self.assertIn(says, self.changed(old, new)[0])

    def test_neither_a_test_nor_a_line(self):
        self.assertEqual(self.changed("\tfuzz/f_c.c", "\t"), ["promises.tsv:4: a row has an id, a promise and what holds it"])
        self.assertEqual(self.changed("fuzz/f_c.c", "open"), ["open.md has no line on S-3"])
        self.assertEqual(self.changed("- **S-4** nothing", "", "contrib/doc/open.md"), ["open.md has no line on S-4"])

    def test_a_line_of_no_row(self):
        self.assertEqual(self.changed("test_b_holds open", "test_b_holds"), ["open.md: no promise S-2 is open"])
        self.assertIn("twice", self.changed("S-4", "S-2", "contrib/doc/open.md")[0])
        self.assertIn("twice", self.changed("S-3", "S-1")[0])

    def test_tests_that_moved_are_found(self):
        moved = {"tests/unit/t_a.c": "", "tests/unit/t_d.c": PROMISED["tests/unit/t_a.c"]}
        self.assertEqual(len(self.said(**moved)[0]), 1)
        self.assertEqual(self.said(fixed=True, **moved)[0], [])


@unittest.skipUnless(shutil.which("git"), "needs git")
class Messages(unittest.TestCase):
    """contrib/check-messages: a message without cause and cure fails, so does a line that nobody needs or a wrong rule."""

    SOURCE = ('int a(struct err *err)\n{{\n\t(void)err_set(err, {}, "", "the box %d "\n\t\t"is %" PRIu64 " wide", n, w);\n{}'
              '\treturn -1;\n}}\n')

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.top = pathlib.Path(self.folder.name)
        for path in ("src/conf", "src/other", "contrib/doc"):
            (self.top / path).mkdir(parents=True)
        shutil.copy(TOP / "contrib/check-messages", self.top / "contrib")
        self.source()

    def tearDown(self):
        self.folder.cleanup()

    def source(self, code="ERR_IO", behind="", room="conf"):
        (self.top / f"src/{room}/a.c").write_text(self.SOURCE.format(code, behind))

    def check(self, *lines, write=True):
        (self.top / "contrib/doc/messages.tsv").write_text("".join(line + "\n" for line in lines))
        script = [sys.executable, str(self.top / "contrib/check-messages")]
        if write:
            subprocess.run([*script, "--write"], capture_output=True)
        done = subprocess.run(script, capture_output=True, text=True)
        return "" if done.returncode == 0 else done.stderr

    def test_fine(self):
        self.assertEqual(self.check("start\tthe box %s is %s wide\tit grew too much\tcut it"), "")
        self.assertIn("| the box %s is %s wide | src/conf/a.c | it grew too much | cut it |",
                      (self.top / "contrib/doc/messages.md").read_text())

    def test_a_message_without_a_line(self):
        self.assertIn("the box %s is %s wide", self.check())
        self.source(room="other")
        (self.top / "src/conf/a.c").unlink()
        self.assertEqual(self.check(), "", "no room of a start or of commands")

    def test_what_the_source_answers_needs_none(self):
        self.source(behind='\terr_hint(err, "cut %s", "it");\n')
        self.assertEqual(self.check(), "")
        self.source(code="ERR_INTERNAL")
        self.assertEqual(self.check(), "")

    def test_a_line_that_nobody_needs(self):
        line = "start\tthe box %s is %s wide\tit grew too much\tcut it"
        self.assertIn("no message says", self.check(line, "start\tthe box is gone\tit went away\tlook for it"))

    def test_a_rule_that_does_not_hold(self):
        self.assertIn("does not say by itself", self.check("start\tthe box %s is %s wide\tsaid"))
        self.source(code="ERR_INVALID")
        self.assertEqual(self.check("start\tthe box %s is %s wide\tsaid"), "")
        self.assertIn("the rule obvious", self.check("start\tthe box %s is %s wide\tobvious"))

    def test_a_page_of_before(self):
        self.assertIn("is not what the sources say", self.check("start\tthe box %s is %s wide\tit grew\tcut it", write=False))


class Schemas(unittest.TestCase):
    """contrib/check-schemas with what a mkdigest of another release would print."""

    def check(self, change):
        schemas = load(TOP / "contrib" / "check-schemas")
        with tempfile.NamedTemporaryFile("w", suffix=".sh", delete=False) as script:
            script.write("#!/bin/sh\n" + "".join(f"echo {line}\n" for line in change(
                [f"{name.lower()} {version} {digest}" for name, made in schemas.said().items() for version, digest in made.items()])))
        self.addCleanup(os.unlink, script.name)
        os.chmod(script.name, 0o700)
        out, argv = io.StringIO(), sys.argv
        sys.argv = ["check-schemas", script.name]
        try:
            with contextlib.redirect_stdout(out):
                return schemas.main(), out.getvalue()
        finally:
            sys.argv = argv

    def test_fine(self):
        self.assertEqual(self.check(lambda lines: lines), (0, ""))

    def test_a_step_that_verify_py_does_not_know(self):
        status, said = self.check(lambda lines: lines + ["store 99 " + "0" * 64])
        self.assertEqual(status, 1)
        self.assertIn("STORE 99", said)
        self.assertIn("write-schemas", said)

    def test_another_schema_of_the_same_number(self):
        status, said = self.check(lambda lines: [line[:-1] + ("1" if line[-1] == "0" else "0") for line in lines])
        self.assertEqual(status, 1)
        self.assertIn("KEYS", said)


class Releases(unittest.TestCase):
    """contrib/news and contrib/release --check on a small repository."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        for name in ("news", "release"):
            self.write(f"contrib/{name}", (TOP / "contrib" / name).read_text())
        self.write("configure.ac", "AC_INIT([toolcrib], [1.2.0])\n")
        self.write("NEWS", "What changed.\n\n1.2.0 (2026-01-02)      store schema 2\n")
        self.write("sql/migrate/0002_more.sql", "")
        self.write("src/a.c", "")
        self.git("init", "-q")
        self.first = self.commit("base: Begin")
        rows = [f"| 2026-01-02 | {self.first} | {suite} | 3 passed, 0 failed, 0 skipped | 9 |" for suite in self.suites()]
        self.write("contrib/doc/results.md", "\n".join(rows) + "\n")
        self.commit("doc: Write down results")

    def suites(self):
        return (TOP / "contrib/release").read_text().split('suites="')[1].split('"')[0].split()

    def write(self, path, text):
        (self.top / path).parent.mkdir(parents=True, exist_ok=True)
        (self.top / path).write_text(text)

    def git(self, *words):
        return subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false", *words],
                              cwd=self.top, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self, message):
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "--short", "HEAD")

    def run_script(self, *words, key="/somewhere/key"):
        run = subprocess.run(["sh", *words], cwd=self.top, capture_output=True, text=True,
                             env={**os.environ, "TOOLCRIB_SSH_KEY": key, "TOOLCRIB_SIGNIFY_KEY": ""})
        return run.returncode, run.stdout + run.stderr

    def test_news(self):
        self.commit("a: Do it\n\nNews: fixed what was wrong\nNews: added a thing")
        self.commit("a: Do more\n\nNews: added another thing\n")
        self.assertEqual(self.run_script("contrib/news"),
                         (0, "Added\n- a thing\n- another thing\n\nFixed\n- what was wrong\n\n"))
        self.git("tag", "v1.1.0")
        self.assertEqual(self.run_script("contrib/news"), (0, ""))
        self.commit("a: Do it\n\nNews: broken it is")
        self.assertEqual(self.run_script("contrib/news")[0], 1)

    def test_a_release_may_be_made(self):
        self.assertEqual(self.run_script("contrib/release", "--check", "1.2.0"), (0, "release: 1.2.0 may be made\n"))

    def test_without_a_key_to_sign_with(self):
        self.refused("neither TOOLCRIB_SSH_KEY nor TOOLCRIB_SIGNIFY_KEY names a key", key="")

    def refused(self, *said, key="/somewhere/key"):
        status, out = self.run_script("contrib/release", "--check", "1.2.0", key=key)
        self.assertEqual(status, 1)
        for words in said:
            self.assertIn(words, out)

    def test_what_is_not_committed(self):
        self.write("src/b.c", "")
        self.refused("not committed")

    def test_another_version(self):
        self.write("configure.ac", "AC_INIT([toolcrib], [1.3.0])\n")
        self.refused("another version")

    def test_a_tag_that_is_there(self):
        self.git("tag", "v1.2.0")
        self.refused("tag v1.2.0 is there")

    def test_news_of_another_schema_or_without_a_date(self):
        for line in ("1.2.0 (2026-01-02)    store schema 1", "1.2.0 (unreleased)    store schema 2", "1.1.0 (2026-01-02)    store schema 2"):
            self.write("NEWS", line + "\n")
            self.refused("NEWS begins with")

    def test_results_that_are_missing_old_or_bad(self):
        text = (self.top / "contrib/doc/results.md").read_text()
        self.write("contrib/doc/results.md", text.replace("| fuzz |", "| buzz |").replace("faults | 3 passed, 0", "faults | 3 passed, 1"))
        self.commit("doc: Write down worse")
        self.refused("no result of fuzz", "faults failed")
        self.write("src/a.c", "int a;\n")
        self.commit("a: Change")
        self.refused(f"the result of gcc-check is of {self.first}, older than the sources")


class Cost(unittest.TestCase):
    """make check-cost is as good as what it makes of its counts (SP-601)."""

    KNOWN = "# a comment\necho\tloop\tinstructions\t1000\t2\necho\tloop\tallocations\t10\t3\necho\tloop\thashes\t0\t3\n"

    def wrong(self, *counts, times=1):
        sys.path.insert(0, str(TOP / "tests" / "bench"))
        cost = load(TOP / "tests" / "bench" / "cost.py")
        names = [("echo", "loop", what) for what in ("instructions", "allocations", "hashes")]
        return cost.compare(cost.read_known(self.KNOWN), dict(zip(names, counts)), times)

    def test_what_moves_less_is_as_it_was(self):
        self.assertEqual(self.wrong(1020, 10.3, 0.05), [])
        self.assertEqual(self.wrong(980, 9.7, 0), [])

    def test_one_allocation_more_fails(self):
        self.assertEqual(self.wrong(1000, 11, 0), ["echo loop allocations: 11, and was 10: +10.0 %"])

    def test_one_allocation_more_fails_among_many(self):
        sys.path.insert(0, str(TOP / "tests" / "bench"))
        compare, name = load(TOP / "tests" / "bench" / "cost.py").compare, ("http", "loop", "allocations")
        self.assertEqual(compare({name: (110, 2)}, {name: 110.6}), [])
        self.assertEqual(compare({name: (110, 2)}, {name: 111}), ["http loop allocations: 111, and was 110: +0.9 %"])
        self.assertEqual(len(compare({name: (110, 2)}, {name: 111}, times=2)), 1)

    def test_instructions_and_counts_of_nothing(self):
        self.assertEqual(self.wrong(1021, 10, 1), ["echo loop hashes: 1, and was 0: from nothing",
                                                   "echo loop instructions: 1021, and was 1000: +2.1 %"])

    def test_a_gain_is_written_down(self):
        self.assertEqual(self.wrong(979, 10, 0), ["echo loop instructions: 979, and was 1000: -2.1 %; write it down: make check-cost COST=--write"])

    def test_fewer_calls_may_differ_by_twice_as_much(self):
        self.assertEqual(self.wrong(1040, 10.6, 0, times=2), [])
        self.assertEqual(len(self.wrong(1041, 10.7, 0, times=2)), 2)

    def test_what_one_side_lacks(self):
        self.assertEqual(self.wrong(1000, 10), ["echo loop hashes: not counted any more"])


if __name__ == "__main__":
    said = io.StringIO()
    result = unittest.TextTestRunner(said, verbosity=0).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    if not result.wasSuccessful():
        sys.exit(said.getvalue())
