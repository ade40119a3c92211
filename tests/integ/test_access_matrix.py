"""Who may do what: every row of the table of MCP methods and of the table of commands, tried by everybody, against the one file that
says what is expected (SEC S-003, S-922).  A row that the file does not have fails, and so does one that no table has any more.

After a change of the tables: python3 tests/integ/test_access_matrix.py --write, and read what became of the file."""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import unittest

import crib

EXPECTED = pathlib.Path(__file__).with_name("access_matrix.txt")
HEAD = """# Who may do what: every method and every command, tried by everybody.  tests/integ/test_access_matrix.py compares this with
# what the programs do, and with their tables; --write makes it anew.
#
# Methods, in both eras, over HTTP and TCP.  Whose the key is: nobody's, a wrong one, one that was revoked, one of a suspended
# tenant, one of another tenant that asks for what it is not granted, one whose scopes do not name the method, one whose scopes
# do, one without scopes.  served: a result, with nothing of another tenant's in it; hidden: byte for byte the answer for what
# does not exist; unknown: no such method; 401, 403: HTTP's; closed: without a word.
#
# Commands, over the admin socket: "may" is what a role may, "-" what is refused before anything else is looked at.  The last
# columns: roles of a tenant with its own name, with another's, and with none.
"""
PEERS = ["none", "wrong", "revoked", "suspended", "other", "narrow", "scoped", "full"]
# Name of the column, user, group, the tenant that the arguments name.
ROLES = [("owner", None, None, ""), ("admin", 40001, 40001, ""), ("operator", 40002, 40002, ""), ("by-group", 40009, 41002, ""),
         ("auditor", 40003, 40003, ""), ("second", 40007, 40007, ""), ("approver", 40006, 40006, ""), ("nobody", 40008, 40008, "acme"),
         ("auditor-of", 40004, 40004, "acme"), ("auditor-other", 40004, 40004, "other"), ("auditor-none", 40004, 40004, ""),
         ("admin-of", 40005, 40005, "acme"), ("admin-other", 40005, 40005, "other"), ("admin-none", 40005, 40005, "")]
CONFIG = """
admin:
  socket: {socket}
roles:
  - {{role: admin, uid: 40001}}
  - {{role: operator, uid: 40002}}
  - {{role: operator, gid: 41002}}
  - {{role: auditor, uid: 40003}}
  - {{role: tenant-auditor, uid: 40004, tenant: acme}}
  - {{role: tenant-admin, uid: 40005, tenant: acme}}
  - {{role: approver, uid: 40006, person: ann}}
  - {{role: second, uid: 40007}}
"""
STORE = """{echo}---
kind: prompt
name: {name}
arguments: [{{name: a}}]
complete: {{a: [one]}}
handler: {{type: static, text: hello}}
---
kind: resource
name: {name}
uri: "docs://{name}"
handler: {{type: static, text: hello}}
---
kind: tenant
name: {tenant}
---
kind: grant
tenant: {tenant}
tool: {name}
---
kind: grant
tenant: {tenant}
tool: prompt:{name}
---
kind: grant
tenant: {tenant}
tool: resource:{name}
"""
# What a method is asked; @ is a name that acme alone is granted, or one that nobody has.
PARAMS = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    "tools/call": {"name": "@", "arguments": {"text": "x"}},
    "prompts/get": {"name": "@", "arguments": {"a": "x"}},
    "resources/read": {"uri": "docs://@"},
    "resources/subscribe": {"uri": "docs://@"},
    "completion/complete": {"ref": {"type": "ref/prompt", "name": "@"}, "argument": {"name": "a", "value": "o"}},
    "logging/setLevel": {"level": "info"},
    "subscriptions/listen": {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["docs://@"]}},
}
# These name what there is no telling about.
VAGUE = {"resources/unsubscribe": {"uri": "docs://@"}, "tasks/get": {"taskId": "1"}, "tasks/cancel": {"taskId": "1"},
         "tasks/update": {"taskId": "1"}, "tasks/result": {"taskId": "1"}}


def tables():
    """The rows of the tables: commands; methods with their eras and the scopes they need."""
    commands, methods = [], []
    for line in subprocess.run([str(crib.BUILD / "tests/integ/tables")], capture_output=True, text=True, check=True).stdout.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "command":
            commands.append(rest)
        else:
            name, eras, scope = rest.split("\t")
            methods += [(name, era, scope) for era in ("legacy", "modern") if eras in (era, "both")]
    return commands, methods


def read_expected():
    """What the file says: {row: {column: cell}} of both tables."""
    got, columns = {}, []
    for line in EXPECTED.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        kind, *cells = re.split(r"\s{2,}", line.strip())
        if kind in ("METHOD", "COMMAND"):
            columns = cells
        elif kind in got:
            raise AssertionError(f"{EXPECTED.name} has {kind} twice")
        else:
            got[kind] = dict(zip(columns, cells, strict=True))
    return got


class Matrix(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        documents = c.dir / "all.yaml"
        documents.write_text("---\n".join(
            STORE.format(echo=crib.ECHO.replace("name: echo", f"name: {name}"), name=name, tenant=tenant)
            for tenant, name in (("acme", "mine"), ("other", "theirs"), ("asleep", "sleepy"))))
        c.cli("apply", "-f", documents)
        self.socket = c.store.parent / "admin-public.sock"

    def compare(self, got, kind):
        """got: {row: {column: cell}}.  A cell that could not be tried is left out."""
        want = {row: cells for row, cells in read_expected().items() if row.startswith(kind)}
        wrong = [f"no table has the row: {row}" for row in want if row not in got]
        for row, cells in got.items():
            if row not in want:
                wrong.append(f"not listed: {row}  {'  '.join(cells.values())}")
                continue
            wrong += [f"{row}: {column} is {cell}, not {want[row].get(column)}"
                      for column, cell in cells.items() if want[row].get(column) != cell]
        self.assertEqual(wrong, [], f"\n{EXPECTED.name} says otherwise; python3 {__file__} --write, and read the difference")

    # --- methods

    def keys(self, methods):
        """Of each relation the key, or None; of scoped ones by their words.  Without --scope those are missing."""
        c = self.crib
        keys = {"none": None, "wrong": c.key("acme/wrong"), "revoked": c.key("acme/gone"), "suspended": c.key("asleep/bot"),
                "other": c.key("other/bot"), "full": c.key("acme/bot")}
        last = keys["wrong"][20]
        keys["wrong"] = keys["wrong"][:20] + ("x" if last != "x" else "y") + keys["wrong"][21:]
        c.cli("key", "revoke", keys["revoked"].split("_")[1], "--yes")
        c.cli("tenant", "suspend", "asleep", "--yes")
        scoped = {}
        if "--scope" in c.cli("key", "create", "--help"):
            keys["narrow"] = c.key("acme/narrow", "--scope", "audit:read:self")
            scoped = {scope: c.key("acme/scoped", *(w for word in scope.split() for w in ("--scope", word))) if scope else keys["narrow"]
                      for scope in {scope for _, _, scope in methods}}
        return keys, scoped

    def params(self, method, target):
        params = {**PARAMS, **VAGUE}.get(method, {})
        return json.loads(json.dumps(params).replace("@", target))

    def message(self, method, era, target):
        return crib.Peer().request(method, self.params(method, target), crib.MODERN if era == "modern" else None, id=7)

    def by_http(self, key, method, era, target):
        """Status and text of the answer, of a stream its first event."""
        peer = crib.Http(self.crib.address("http"), key)
        if era == "legacy" and method != "initialize":
            peer.version = "2025-11-25"
            if key in self.alive:
                peer.initialize()
        message = self.message(method, era, target)
        headers = peer.headers(message)
        if era == "modern" and method.startswith("tasks/"):
            headers["Mcp-Name"] = "1"
        peer.connection.request("POST", peer.path, json.dumps(message), headers)
        response = peer.connection.getresponse()
        line = b" "
        while line and (not line.strip() or line.startswith((b"event:", b":", b"id:"))):
            line = response.readline()
        peer.close()
        return response.status, line.decode().removeprefix("data:").strip()

    def by_tcp(self, key, method, era, target):
        peer = crib.Line(socket.create_connection(self.crib.address("tcp"), crib.DEADLINE), key)
        try:
            if era == "legacy" and method != "initialize" and key in self.alive:
                peer.initialize()
            peer.send(self.message(method, era, target))
            line = peer.line()
        except ConnectionError:
            line = None
        peer.close()
        return (200, line.decode()) if line is not None else (0, "")

    def cell(self, ask, key, method, era, relation):
        foreign = relation == "other"
        status, text = ask(key, method, era, "mine")
        if not text:
            return "closed" if status == 0 else str(status)
        if status in (401, 403):
            return str(status)
        answer = json.loads(text)
        code = answer.get("error", {}).get("code")
        if code == -32601:
            return "unknown"
        if foreign and "@" in json.dumps(PARAMS.get(method, {})):
            nothing = ask(key, method, era, "nine")
            return "hidden" if (status, text.replace("mine", "nine")) == nothing else "TOLD"
        if foreign and "mine" in text:
            return "TOLD"
        if "scope" in answer.get("error", {}).get("message", ""):
            return "403"
        return "served" if "result" in answer or "method" in answer else f"error {code}"

    def methods(self):
        _, methods = tables()
        keys, scoped = self.keys(methods)
        self.alive = {keys["full"], keys["other"], keys.get("narrow"), *scoped.values()} - {None}
        self.crib.start()
        got = {}
        for way, ask in (("http", self.by_http), ("tcp", self.by_tcp)):
            for method, era, scope in methods:
                cells = got.setdefault(f"method {method} {era} {way}", {})
                for relation in PEERS:
                    if relation == "scoped" and scope in scoped:
                        cells[relation] = self.cell(ask, scoped[scope], method, era, relation)
                    elif relation in keys:
                        cells[relation] = self.cell(ask, keys[relation], method, era, relation)
        return got

    def test_methods(self):
        self.compare(self.methods(), "method ")

    # --- commands

    def say_all(self, uid, gid, requests):
        """Send requests as this user over one connection; what became of each: denied or not."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                if uid is not None:
                    os.setgroups([gid])
                    os.setgid(uid)
                    os.setuid(uid)
                with socket.socket(socket.AF_UNIX) as s:
                    s.settimeout(crib.DEADLINE)
                    s.connect(str(self.socket))
                    answers = s.makefile("rb")
                    for request in requests:
                        s.sendall(json.dumps(request).encode() + b"\n")
                        line = json.loads(answers.readline())
                        while "row" in line:
                            line = json.loads(answers.readline())
                        os.write(write, b"d" if line.get("error", {}).get("code") == "denied" else b".")
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as f:
            got = f.read().decode()
        os.waitpid(child, 0)
        self.assertEqual(len(got), len(requests))
        return got

    def commands(self):
        commands, _ = tables()
        self.crib.let_others_in()
        self.crib.start(CONFIG.format(socket=self.socket))
        got = {f"command {command}": {} for command in commands}
        for column, uid, gid, tenant in ROLES:
            if uid is not None and os.geteuid() != 0:
                continue
            # An argument that no command has: refused behind the role, and before anything is done.
            args = {"no-such-argument": "x", **({"tenant": tenant, "who": tenant, "principal": f"{tenant}/bot"} if tenant else {})}
            said = self.say_all(uid, gid, [{"command": command, "args": args} for command in commands])
            for command, one in zip(commands, said):
                got[f"command {command}"][column] = "-" if one == "d" else "may"
        return got

    def test_commands(self):
        self.compare(self.commands(), "command ")

    # --- the file

    def test_every_row_has_every_column(self):
        for row, cells in read_expected().items():
            wanted = PEERS if row.startswith("method ") else [role[0] for role in ROLES]
            self.assertEqual(list(cells), wanted, row)
            self.assertNotIn("TOLD", cells.values(), row)

    def write(self):
        """Not a test: the file as the programs are; what cannot be tried here stays as it was."""
        tabled, before = [], read_expected() if EXPECTED.exists() else {}
        for title, columns, rows in (("METHOD", PEERS, self.methods()), ("COMMAND", [role[0] for role in ROLES], None)):
            if rows is None:
                self.crib.stop()
                rows = self.commands()
            lines = [[title, *columns]] + [[row, *(cells.get(c) or before.get(row, {}).get(c, "?") for c in columns)] for row, cells in rows.items()]
            widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
            tabled.append("\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in lines))
        EXPECTED.write_text(HEAD + "\n" + "\n\n".join(tabled) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        sys.argv[1:] = ["Matrix.write"]
    crib.main()
