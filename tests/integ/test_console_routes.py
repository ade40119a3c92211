"""Who may ask for which page and form of the console: every route of its table (toolcrib-console --routes), tried by every role, with its
own tenant and with another's, and by nobody (CONSOLE 8, 20).  What is expected stands in console_routes.txt, and has to be what the
table of commands says (access_matrix.txt); a route without a row fails, and so does a row without a route.

After a change of the routes: python3 tests/integ/test_console_routes.py --write, and read what became of the file."""
import contextlib
import hashlib
import hmac
import http.client
import os
import pathlib
import subprocess
import sys
import unittest

import crib
import test_access_matrix
import test_console

EXPECTED = pathlib.Path(__file__).with_name("console_routes.txt")
HEAD = """# Who gets which page of the console, and whose forms do something: tests/integ/test_console_routes.py compares this with what the
# console does, with its table of routes and with that of commands (access_matrix.txt); --write makes it anew.
#
# page: it is shown, and may say of a part that it is for another role; 403: refused, with the roles that may; 404: byte for byte the
# page of what is not there; done: the form was taken, and its command run (what it names does not exist here); sign-in: who are you?
# The last columns: roles of a tenant, on pages of their own and of another one.  Pages without a tenant are the same for both.
"""
# Name of the column, its user, its columns of access_matrix.txt on pages of a tenant and on others.
ROLES = [("admin", 40001, "admin", "admin"), ("operator", 40002, "operator", "operator"), ("auditor", 40003, "auditor", "auditor"),
         ("second", 40007, "second", "second"), ("approver", 40006, "approver", "approver"), ("auditor-of", 40004, "auditor-of", "auditor-none"),
         ("auditor-other", 40004, "auditor-other", "auditor-none"), ("admin-of", 40005, "admin-of", "admin-none"),
         ("admin-other", 40005, "admin-other", "admin-none"), ("nobody", None, None, None)]
# What a page is asked with.
WITH = {"/tool": "name=@", "/tool/diff": "name=@&to=1", "/t/:tenant/tool": "name=@", "/t/:tenant/tool/diff": "name=@&to=1",
        "/t/:tenant/key": "key=!", "/t/:tenant/principal": "principal=bot", "/t/:tenant/definition": "hash=" + 64 * "0",
        "/definition": "hash=" + 64 * "0", "export": "as=jsonl", "/t/:tenant/bundle": "from=0&to=0"}
FORM = {"id": "999", "reason": "x", "name": "nothing-there", "version": "1", "note": "x"}
# Whose answer does not end.
STREAMS = "/t/:tenant/tail"
# What ends the visit that asks.
LAST = "/sign-out"


def routes():
    """Rows of the table: method, path, class, commands, parameters."""
    text = subprocess.run([crib.BUILD / "toolcrib-console", "--routes"], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        method, path, kind, commands, params = line.split("\t")
        yield method, path, kind, [] if commands == "-" else commands.split(", "), params.split()


def names():
    return {f"{method} {path}": row for method, path, *row in ((m, p, k, c, a) for m, p, k, c, a in routes())}


def by_commands(path, method, kind, commands, role):
    """What the table of commands says of it."""
    name, uid, on_tenant, elsewhere = role
    if kind == "open":
        return "page" if method == "GET" else "403"     # a link that opens nothing
    if uid is None:
        return "sign-in"
    matrix = test_access_matrix.read_expected()
    may = [matrix["command " + command][on_tenant if ":tenant" in path else elsewhere] == "may"
           for command in commands if not command.startswith("console ")]
    fine = "page" if method == "GET" else "done"
    if not may:
        return fine
    if commands == ["audit payload"]:                    # what it says is of the role alone, and the same of any tenant
        return fine if may[0] else "403"
    if ":tenant" in path:
        # the chart of a page of calls is no reason for one
        return fine if (may[-1] if "audit stats" in commands else may[0]) else "404"
    several = path in ("/approvals", "/tools", "/evidence", "/outside")
    return fine if (any(may) if several else may[0]) else "403"


def expected():
    got = {}
    for line in EXPECTED.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            method, path, *cells = line.split()
            got[f"{method} {path}"] = dict(zip([role[0] for role in ROLES], cells, strict=True))
    return got


def wanted():
    return {name: {role[0]: by_commands(name.split()[1], name.split()[0], kind, commands, role) for role in ROLES}
            for name, (kind, commands, _) in names().items()}


@unittest.skipUnless(os.geteuid() == 0, "needs other users to be")
class Routes(test_console.Case):
    def setUp(self):
        super().setUp()
        self.socket = self.crib.dir / "public.sock"
        c = self.crib.init()
        for tenant, tool in (("acme", "mine"), ("other", "theirs")):
            c.tool(crib.ECHO.replace("name: echo", f"name: {tool}"))
            key = c.tenant(tenant, tool)
            setattr(self, tenant, key)
        c.start(test_console.LISTEN.format(extra=test_access_matrix.CONFIG.format(socket=self.socket)))
        self.find()
        self.crib.let_others_in()
        self.calls = {}
        for tenant, tool in (("acme", "mine"), ("other", "theirs")):
            peer = c.http(getattr(self, tenant))
            peer.call(tool, {"text": "x"}, crib.MODERN)
            peer.close()
            self.calls[tenant] = c.json("audit", "calls", "--tenant", tenant)[0]["call"]
        self.visits = {uid: self.visit_of(uid) for uid in sorted({role[1] for role in ROLES if role[1]})}
        self.nothing = self.get("/nothing", None, 404)

    def address(self, path, tenant, call):
        tool = {"acme": "mine", "other": "theirs"}[tenant]
        page = path.replace(":tenant", tenant).replace(":call", call).replace(":id", "999")
        extra = WITH.get(path) or (WITH["export"] if path.endswith("/export") else "")
        return page + ("?" + extra.replace("@", tool).replace("!", getattr(self, tenant).split("_")[1]) if extra else "")

    def token(self, visit, path):
        """C-307, said again."""
        key = hashlib.sha256(visit.encode()).digest()
        return hmac.new(key, b"toolcrib/csrf/1\0" + path.encode(), "sha256").hexdigest()

    def form(self, visit, path, params):
        return "&".join([f"c={self.token(visit, path)}"] + [f"{name}={FORM[name]}" for name in params if name in FORM])

    def begin(self, address, visit):
        """What a page that goes on says first; those that were left make room for it."""
        def answered():
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=crib.DEADLINE)
            with contextlib.closing(c):
                c.request("GET", address, headers={"Host": self.host, **({"Cookie": test_console.COOKIE + visit} if visit else {})})
                answer = c.getresponse()
                return (answer.status, None, answer.read().decode() if answer.status != 200 else "") if answer.status != 503 else None
        return crib.wait_for("room", answered)

    def cell(self, method, path, params, role):
        tenant = "other" if role[0].endswith("other") else "acme"
        visit = self.visit_of(role[1]) if path == LAST and role[1] else self.visits.get(role[1])
        address = self.address(path, tenant, self.calls[tenant])
        if method == "GET" and ":hash" in path:
            address = path.replace(":hash", self.css)
        body = None if method == "GET" else self.form(visit or "A" * 43, path, params) if "c" in params else "t=" + "x" * 43
        status, _, text = self.begin(address, visit) if path == STREAMS else self.ask(method, address, body, visit)
        if status == 404 and text == self.nothing:
            return "404"
        if status == 403 and "Nobody is signed in" in text:
            return "sign-in"
        if status == 403:
            return "403"
        # what it names is not there, which only those are told who might have it
        self.assertIn(status, (200, 303) if method == "GET" and ":id" not in path else (200, 303, 400, 404, 409), f"{address}: {text}")
        return "page" if method == "GET" else "done"

    def test_each_role_gets_its_pages_and_no_other(self):
        """Reports, which have one row of the table of commands and two that stand for all, are tried by three roles alone."""
        self.css = self.get("/", self.visits[40001]).split("/a/")[1].split("/")[0]
        wrong, want = [], expected()
        for name, (kind, commands, params) in names().items():
            method, path = name.split()
            alike = "/r/" in path and path not in ("/t/:tenant/r/calls", "/r/admin")
            for role in [role for role in ROLES if not alike or role[0] in ("auditor", "auditor-other", "admin-of")]:
                got = self.cell(method, path, params, role)
                if got != want[name][role[0]]:
                    wrong.append(f"{name}: {role[0]} gets {got}, not {want[name][role[0]]}")
        self.assertEqual(wrong, [])

    def test_each_form_wants_its_own_token(self):
        """C-307: of each form of the table, with each token but its own, from elsewhere, as something else: refused, and nothing is done."""
        visit, other = self.visits[40001], self.visits[40007]
        base = [self.crib.status()["records"] for _ in range(2)]
        for name, (kind, _, params) in names().items():
            method, path = name.split()
            if kind != "form":
                continue
            address = self.address(path, "acme", self.calls["acme"])
            right = self.form(visit, path, params)
            with self.subTest(form=path):
                self.assertIn("c", params)
                self.assertEqual(self.ask("GET", address, visit=visit)[0], 405)
                for token in (None, "", "0" * 64, self.token(visit, path + "x"), self.token(visit, "/sign-out" if path != "/sign-out" else "/end"),
                              self.token(other, path), self.token("A" * 43, path)):
                    body = "&".join(([] if token is None else [f"c={token}"]) + right.split("&")[1:])
                    self.assertEqual(self.ask("POST", address, body, visit)[0], 403, token)
                for site in ("same-site", "cross-site", "none", ""):
                    self.assertEqual(self.ask("POST", address, right, visit, Sec_Fetch_Site=site)[0], 403, site)
                for origin in (None, "null", "http://evil.example"):
                    self.assertEqual(self.ask("POST", address, right, visit, Sec_Fetch_Site=None, Origin=origin)[0], 403, origin)
                for kind_ in ("text/plain", "multipart/form-data", "application/json"):
                    self.assertEqual(self.ask("POST", address, right, visit, Content_Type=kind_)[0], 415)
                self.assertEqual(self.ask("POST", address, right)[0], 403, "nobody's")
                self.assertEqual(self.ask("POST", address, right, "A" * 43)[0], 403)
        self.assertEqual(self.crib.status()["records"] - base[1], base[1] - base[0], "each look at this is one")

    def test_what_is_not_there_and_what_is_anothers_is_one_page(self):
        """C-407: of each page and form of a tenant, byte for byte."""
        of_acme = self.visits[40004]
        for name, (_, _, params) in names().items():
            method, path = name.split()
            if ":tenant" not in path:
                continue
            body = self.form(of_acme, path, params) if method == "POST" else None
            answers = [self.ask(method, self.address(path, "other", self.calls["other"]).replace("/t/other", "/t/" + tenant), body, of_acme)[::2]
                       for tenant in ("other", "nobody")]
            with self.subTest(name):
                self.assertEqual(answers[0], answers[1])
                if not path.endswith("/reveal"):        # who may read no payload is told so, of any tenant
                    self.assertEqual(answers[0], (404, self.nothing))


class Table(unittest.TestCase):
    def test_each_route_has_a_row_that_the_commands_allow(self):
        self.assertEqual(expected(), wanted(), f"\n{EXPECTED.name} says otherwise; python3 {__file__} --write, and read the difference")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        rows = [(*name.split(), *cells.values()) for name, cells in wanted().items()]
        head = ("#METHOD", "PATH", *(role[0] for role in ROLES))
        width = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        EXPECTED.write_text(HEAD + "\n" + "\n".join("  ".join(cell.ljust(width[i]) for i, cell in enumerate(row)).rstrip() for row in [head, *rows]) + "\n")
    else:
        crib.main()
