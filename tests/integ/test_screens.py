#!/usr/bin/env python3
"""The screens of contrib/doc/screens.md: what the CLI draws on a terminal of 80 and of 160 columns, light and dark, is what
the pictures there show.  Answers stand here, so that a picture changes only with the program; a server says that they
have the members of its own.  With --write the pictures are made anew."""
import html
import json
import pathlib
import re
import socket
import sys
import threading

import crib
from test_terminal import cells, on_terminal

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "contrib/doc/screens"
SIZES = (80, 160)
WIDE, HIGH = 8, 18              # of a cell, in pixels
# Sixteen-colour palettes as terminals have them: ground, text, and what the program uses.
SCHEMES = {"light": {"": "#ffffff", "0": "#1f2328", "31": "#cf222e", "32": "#1a7f37", "33": "#805500"},
           "dark": {"": "#0d1117", "0": "#e6edf3", "31": "#ff7b72", "32": "#3fb950", "33": "#d29922"}}
CONTRAST = 4.5                  # WCAG 2.1 1.4.3

DAY = "2026-11-23T"
LOG = "x4cbcAjfgh3UjBPZAhmD"


def at(clock, day=DAY):
    return f"{day}{clock}.000000Z"


def header(report, **more):
    return {"report": report, "asked": "uid 0 (cli): " + report, "at": at("10:02:11"), "log": "all", "since": "the beginning", "until": "now",
            "records": 41207, "pruned": 0, "erasures": 0, "checkpoint": at("10:02:10"), "anchor": at("09:00:00"), "anchor_age": "1h",
            "logs": [{"log": f"{LOG}/t/{tenant}", "tenant": tenant, "from": 0, "to": size - 1, "records": size, "signed": size,
                      "verified": at("06:25:00"), "verified_as": "INTACT"} for tenant, size in (("acme", 31002), ("north-wind", 10205))],
            "verified": at("06:25:00"), "verified_as": "INTACT", "must_be_empty": False, **more}


def tools():
    names = (("create_ticket", 4, "enabled"), ("deploy", 2, "disabled"), ("get_weather", 12, "enabled"), ("look_up", 1, "enabled"),
             ("query_database", 3, "enabled"), ("\u5929\u6c17\u4e88\u5831", 1, "enabled"))
    for i, (name, version, state) in enumerate(names):
        yield {"name": name, "version": version, "state": state, "digest": f"{i:064x}", "created": at("08:00:00"),
               "changed": at(f"0{i + 3}:1{i}:00")}


def calls():
    said = (("09:59:58", "acme", "get_weather", "ok", 5.582, "grant/1"), ("09:59:41", "acme", "query_database", "timeout", 10000.4, "grant/2"),
            ("09:58:07", "north-wind", "create_ticket", "tool_error", 321.09, "grant/7"),
            ("09:57:55", "acme", None, "denied", None, "unknown_tool"), ("09:57:12", "acme", "get_weather", "rate_limited", None, "tenant"),
            ("00:03:00", "acme", "deploy", "input_required", 2.107, "grant/3"), ("23:59:58", "acme", "get_weather", "ok", 6.01, "grant/1"))
    for i, (clock, tenant, tool, outcome, ms, rule) in enumerate(said):
        yield {"time": at(clock, "2026-11-22T" if i == 6 else DAY), "tenant": tenant, "tool": tool, "principal": "claude" if i % 2 else "bot",
               "key": "klaILzyTlUfT", "outcome": outcome, "ms": ms, "rule": rule, "transport": "http", "revision": "2026-07-28",
               "authn": "key", "definition": None, "sandbox": None, "request_bytes": 2, "result_bytes": None, "status": None, "signal": None,
               "undelivered": False, "not_executed": False, "broke_schema": False, "on_behalf_of": None, "address": None, "client": None,
               "system": None, "model": None, "policy": None, "scopes": None, "level": "request", "call": f"01a20727-0e{i:02x}-7029-8ef5-65b7eea8406{i}", "previous": None,
               "detail": None}


def stats():
    for i in range(24):
        hour, day = (i + 10) % 24, "2026-11-22T" if i < 14 else DAY
        n = (1, 0, 0, 3, 9, 40, 118, 230, 241, 198, 120, 31)[hour // 2] * (2 + i % 3)
        bad = n // 9 if i == 22 else n // 60
        yield {"time": at(f"{hour:02}:00:00", day), "calls": n, "ok": n - bad, "errors": bad, "timeouts": 0, "refused": 0, "other": 0,
               **{name: float(v) if n else 0.0 for name, v in (("p50_ms", 5 + i % 3), ("p95_ms", 18 + i), ("p99_ms", 44 + 9 * i), ("max_ms", 999))}}


STATUS = {"store": "/var/lib/toolcrib", "version": "0.2.0", "mode": "server", "state": "serving", "refused": "", "pid": 4891,
          "started": at("06:25:00"), "configuration": "/etc/toolcrib/toolcribd.yaml", "configuration_file": "/etc/toolcrib/toolcribd.yaml",
          "configuration_digest": "5d2f" * 16, "restart": "", "audit": "ok", "files": "ok", "sandbox": "base+landlock:6+seccomp+net0+cgroup+uid, required base+landlock:3",
          "users": "tenants have their own, from 2000000000 on",
          "confined": "no new privileges, system calls by a list, no programs, no other files (Landlock 6)", "folding": "1204 records wait",
          "verified": "2026-07-28T03:00Z INTACT, 9312 records were new, 1064 read again, 30831 not; 812 kept values and names not opened; "
                      "mark kept by the server; each day at 03:00 UTC", "traces": None, "sinks": None, "policy": None, "backup": None, "alerts": "none", "clock": "synchronised",
          "tenants": 2, "tools": 6, "keys": 5, "records": 41207, "running": 3, "peers": 12,
          "listeners": [{"transport": "http", "address": "127.0.0.1:8808", "tls": False, "connections": 9},
                        {"transport": "unix", "address": "/run/toolcrib/agents.sock", "tls": False, "connections": 3}]}


def findings():
    yield {"finding": "CHANGED", "class": "damage", "log": f"{LOG}/t/acme", "from": 1203, "to": 1203,
           "detail": "the record's hash is not the one that is in the tree: somebody wrote the file behind the server"}
    yield {"finding": "NO_ANCHOR", "class": "gap", "log": LOG, "from": None, "to": None,
           "detail": "the newest checkpoint outside is 26 hours old, and --anchor-max-age says 24h"}
    yield {"finding": "DAMAGED", "class": "sum", "log": None, "from": None, "to": None,
           "detail": "41207 records of 3 logs, 312 checkpoints of 2 epochs: 1 bad, 1 gaps, 3 calls running"}


SCREENS = {"tool list": (None, list(tools())),
           "audit calls": ({"header": header("audit calls"), "columns": list(next(calls()))}, list(calls())),
           "audit stats": ({"header": header("audit stats", since=at("10:00:00", "2026-11-22T"), until=at("10:02:11")),
                            "columns": list(next(stats()))}, list(stats())),
           "status": (None, [STATUS]), "audit verify": (None, list(findings()))}


class Canned:
    """An admin socket that answers one command with what stands above."""

    def __init__(self, path):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with peer:
                line = b""
                while not line.endswith(b"\n"):
                    line += peer.recv(65536)
                head, rows = SCREENS[json.loads(line)["command"]]
                lines = ([head] if head else []) + [{"row": row} for row in rows] + [{"done": True}]
                peer.sendall("".join(json.dumps(one) + "\n" for one in lines).encode())

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


def runs(line):
    """(column, style, text) of a line: style is a set of SGR numbers."""
    column, style = 0, frozenset()
    for codes, text in re.findall(r"\x1b\[([0-9;]*)m|([^\x1b]+)", line):
        if text:
            yield column, style, text
            column += cells(text)
        else:
            style = frozenset() if codes in ("", "0") else style | {codes}


def picture(text, columns, scheme):
    """The screen as SVG; each run at its column, so that no font moves it."""
    lines, palette = text.rstrip("\n").split("\n"), SCHEMES[scheme]
    width, height = columns * WIDE + 16, len(lines) * HIGH + 16
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           f'font-family="ui-monospace,Menlo,Consolas,\'DejaVu Sans Mono\',monospace" font-size="13">',
           f'<rect width="{width}" height="{height}" fill="{palette[""]}"/>']
    for y, line in enumerate(lines):
        for column, style, said in runs(line):
            indent = len(said) - len(said.lstrip(" "))
            said = said.strip(" ")
            if not said:
                continue
            colour = next((palette[code] for code in sorted(style) if code in palette), palette["0"])
            bold = ' font-weight="bold"' if "1" in style else ""
            out.append(f'<text x="{8 + (column + indent) * WIDE}" y="{8 + y * HIGH + 13}" fill="{colour}"{bold} '
                       f'textLength="{cells(said) * WIDE}" xml:space="preserve">{html.escape(said)}</text>')
    return "\n".join([*out, "</svg>", ""])


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(p * w for p, w in zip(linear, (0.2126, 0.7152, 0.0722)))


def pictures(c):
    """Name of the file -> what should stand in it."""
    path = c.dir / "canned.sock"
    canned = Canned(path)
    try:
        for command in SCREENS:
            for columns in SIZES:
                _, text = on_terminal(c, columns, "--socket", str(path), *command.split())
                for scheme in SCHEMES:
                    yield f"{command.replace(' ', '-')}-{columns}-{scheme}.svg", picture(text, columns, scheme)
    finally:
        canned.close()


class Screens(crib.Case):
    def test_pictures_are_what_the_program_draws(self):
        names = set()
        for name, want in pictures(self.crib):
            names.add(name)
            self.assertTrue((FOLDER / name).exists() and (FOLDER / name).read_text() == want,
                            f"contrib/doc/screens/{name} is another one: run tests/integ/test_screens.py --write and look at it")
        self.assertEqual({path.name for path in FOLDER.glob("*.svg")}, names)
        page = (FOLDER.parent / "screens.md").read_text()
        self.assertEqual(set(re.findall(r"screens/([a-z0-9-]+\.svg)", page)), names)

    def test_answers_have_the_members_of_a_server(self):
        c = self.crib.init()
        c.tool(crib.ECHO)
        c.tenant("acme", "*")
        c.cli("call", "acme", "echo", "text=x")
        c.start()
        for command, (head, rows) in SCREENS.items():
            if head:
                said = json.loads(c.cli(*command.split(), "--format", "json"))
                self.assertEqual(said["columns"], head["columns"], command)
                self.assertEqual(set(said["header"]) - set(head["header"]), set(), command)
                self.assertEqual(set(said["rows"][0]), set(rows[0]), command)
            else:
                members = set(json.loads(c.cli("--json", *command.split()).splitlines()[0]))
                self.assertEqual(set(rows[-1]) - {"from", "to"} - members, set(), command)
                if command == "status":
                    self.assertEqual(members - set(rows[-1]), {"counters"}, command)

    def test_each_colour_can_be_read_on_its_ground(self):
        for palette in SCHEMES.values():
            ground = luminance(palette[""])
            for colour in set(palette.values()) - {palette[""]}:
                light, dark = sorted((ground, luminance(colour)), reverse=True)
                self.assertGreaterEqual((light + 0.05) / (dark + 0.05), CONTRAST, colour)


def write():
    c = crib.Crib()
    FOLDER.mkdir(exist_ok=True)
    try:
        for path in FOLDER.glob("*.svg"):
            path.unlink()
        for name, text in pictures(c):
            (FOLDER / name).write_text(text)
    finally:
        c.close()


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
    else:
        crib.main()
