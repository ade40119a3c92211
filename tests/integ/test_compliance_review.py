"""contrib/doc/compliance-review.md is what the commands say: made anew here and compared; --write puts it in place.

Times, ids, digests and durations are placeholders there, and tables are aligned anew, so that only what is said counts."""
import json
import re
import sys
import textwrap

import crib

PAGE = crib.SOURCE / "contrib/doc/compliance-review.md"
ECHO_2 = crib.ECHO.replace("Says what it was told.", "Says what it was told, and nothing else.")
FAIL = crib.tool_yaml("deploy", "{type: exec, argv: [/bin/false]}")

INTRO = """# A compliance review, from the first question to the signature

This page walks through a review in the manner of SOC 2 on a small store: one tenant, `acme`, two agents, two tools, a
week's work in a minute. Each command is run, and its output written here, by `tests/integ/test_compliance_review.py`;
the test fails when this page says anything else. Times, ids and digests are placeholders.

You need a shell on the server, or a copy of the store (`toolcrib backup FILE`), and the right to read the audit.
Everything you ask is recorded too, so that your reading can be reviewed in turn. `--format csv` or `json` gives each
report as a file for your working papers, with the header that says what it covers. The manual is `toolcrib-audit(7)`.
"""
# Heading, prose, commands; {key} is an accessor, {call} the id of a call.
STEPS = [
    ("1. Is the record whole?",
     "Before anything is drawn from the records: is each of them there, unchanged, and is the population complete? "
     "`audit verify` computes every hash anew. `toolcrib-verify` does it on a copy, and `contrib/verify/verify.py` in Python "
     "that shares no code with either.",
     ["audit verify", "audit coverage --tenant acme"]),
    ("2. Was it ever off?",
     "Calls are refused while nothing can be recorded. Each run of the server has its start and its stop; the second report "
     "must be empty, and exits with 4 when it is not.",
     ["audit continuity --limit 2", "audit continuity --executions"]),
    ("3. A sample",
     "Positions have no gaps, so the population is countable. The same seed takes the same records, on any copy, for anybody.",
     ["audit sample --tenant acme -n 3 --seed 42"]),
    ("4. One call, from end to end",
     "Who, with which key, by which rule, which version of the tool, and what came of it.",
     ["audit calls --tenant acme --limit 4", "audit show {call}"]),
    ("5. Who has access, and do they need it?",
     "The access list with age, expiry and last use; then keys that nobody needs, and grants that nobody used.",
     ["key list acme --review", "key list acme --stale 90d", "key list acme --unused-scopes"]),
    ("6. Did access end when it should?",
     "What happened to keys, and calls that began after a key had been revoked: there must be none.",
     ["audit credentials --tenant acme", "audit after-revocation --tenant acme"]),
    ("7. What was refused, and who knocked?",
     "",
     ["audit denied --tenant acme", "audit denied --tenant acme --by rule", "audit auth-failures --by rule"]),
    ("8. What did administrators change?",
     "Every change is in the log of the tenant it concerns, the rest in the system's log. Then the history of one tool.",
     ["audit admin --tenant acme --limit 6", "tool history echo --events"]),
    ("9. Did the tools stay what was approved?",
     "Each call names the digest of the definition that ran. Calls of a definition that was never stored here, and records "
     "that crossed tenants: there must be none.",
     ["audit drift --tenant acme", "audit isolation --tenant acme", "audit sandbox --tenant acme"]),
    ("10. A key is suspected",
     "Where it was used from, and what it could have reached.",
     ["audit credential {key}", "audit blast-radius --key {key}"]),
    ("11. Anything unusual?",
     "",
     ["audit anomalies --tenant acme", "audit tool-health --tenant acme"]),
    ("12. What did persons decide?",
     "Tools can ask the caller's side, and some calls wait until a person agrees (`approve` of a definition). Of Regulation (EU) "
     "2024/1689, Art. 14(4): what is about to happen is understood by `approve show` (a, c), which also says how whoever reads it "
     "has decided lately, against nodding (b); not to use it is `approve refuse` (d); it is stopped by `task cancel`, `tool disable "
     "--kill` and `key suspend` (e). Art. 14(5): two persons are `count: 2`. Art. 12 and 26(6): these two reports.",
     ["audit oversight --tenant acme", "audit approvals --tenant acme", "audit approvals --tenant acme --by person"]),
    ("13. Who else has read this?",
     "",
     ["audit access --tenant acme --limit 3"]),
    ("14. Take it with you, and sign",
     "The export carries the bytes that are hashed; its cursor makes it resumable, and `export-check` tells whether a "
     "collector stayed behind. The signature is a record like any other.",
     ["audit export --tenant acme --cursor {dir}/cursor > acme.jsonl", "audit export-check --tenant acme --cursor {dir}/cursor",
      "audit review sign --tenant acme --note 'third quarter, nothing to object'", "audit reviews --tenant acme"]),
]


def masked(text, c):
    """What differs from run to run becomes a placeholder of one length."""
    for pattern, put in ((re.escape(str(c.dir)), "/tmp"),
                         (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}", "2026-07-28 10:00:00 +0000"),
                         (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "2026-07-28T10:00:00Z"),
                         (r"\b\d{4}-\d\d-\d\d\b", "2026-07-28"),
                         (r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b", "01993f2c-0000-7000-8000-000000000000"),
                         (r"\bprn_\w{16}\b", "prn_…"), (r"\badr_\w+\b", "adr_…"), (r"\bcli_\w+\b", "cli_…"),
                         (r"\b[0-9a-f]{64}\b", "9c3d…"), (rf"\b{c.instance}\b", "INSTANCE"), (r"uid \d+( \(cli\))?", "uid 0"),
                         (r"base\+landlock:\d[^\s,]*", "base+landlock:…"), (r"\b\d+\.\d+\b", "0.5"),
                         (r"(?m)^(acme +2026-07-28 .*\s)\d+$", r"\1N"), (r"\d+(?= records of)|\d+(?= checkpoints of)|\d+(?= epochs,)", "N"),
                         (r"/tmp/toolcrib-test-\w+", "/tmp"),
                         (r"(?<=covers )\d+|(?<=up to record )\d+|(?<= 0 to )\d+|(?<=to )\d+(?= of)|(?<= of )\d+(?=, pruned)|(?<=records   )\d+(?=,)", "N")):
        text = re.sub(pattern, put, text)
    for n, accessor in enumerate(c.accessors):
        text = text.replace(accessor, f"KEY{n + 1}")
    return text


def aligned(text):
    """Tables as wide as their placeholders."""
    rows = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    width = {}
    for row in rows:
        for i, cell in enumerate(row):
            if len(row) > 1:
                width[i] = max(width.get(i, 0), len(cell))
    return "\n".join("  ".join(cell.ljust(width.get(i, 0)) for i, cell in enumerate(row)).rstrip() for row in rows)


class Review(crib.Case):
    def prepare(self):
        """A week in a minute."""
        c = self.crib.init().start()
        c.tool(crib.ECHO, "echo.yaml")
        c.tool(FAIL, "deploy.yaml")
        keys = [c.tenant("acme", "echo", "deploy"), c.key("acme/assistant")]
        c.accessors = [key.split("_")[1] for key in keys]
        for key in keys:
            peer = c.http(key)
            peer.call("echo", {"text": "hello"}, rev=crib.MODERN)
            peer.call("deploy", {}, rev=crib.MODERN)
            peer.close()
        peer = c.http(keys[0])
        peer.call("echo", {"text": 1}, rev=crib.MODERN)
        peer.call("format_disk", {}, rev=crib.MODERN)
        peer.close()
        c.tool(ECHO_2, "echo.yaml")
        c.cli("key", "revoke", c.accessors[1], "--yes")
        peer = c.http(keys[1])
        ping = peer.request("ping", rev=crib.MODERN)
        self.assertEqual(peer.post(json.dumps(ping), peer.headers(ping))[0], 401)
        peer.close()
        self.call_id = c.json("audit", "calls", "--tenant", "acme", "--outcome", "tool_error")[0]["call"]
        c.instance = c.json("audit", "capacity")[0]["log"].split("/")[0]
        self.assertEqual(c.stop(), 0)
        return c.start()

    def said(self, c, command):
        """A command's output as the page has it."""
        words = command.replace("{key}", c.accessors[0]).replace("{call}", self.call_id).replace("{dir}", str(c.dir))
        words, _, target = words.partition(" > ")
        words = [w.strip("'") for w in re.findall(r"'[^']*'|\S+", words)]
        done = c.run(*words)
        said = [line for line in done.stderr.splitlines() if not line.startswith("next: --after ")]       # a limit was reached
        self.assertEqual((done.returncode, said), (0, []), command)
        if words == ["audit", "verify"]:        # headers speak of signed records alone
            c.cli("audit", "checkpoint")
        parts = done.stdout.strip("\n").split("\n\n", 1)
        text = "" if target else "\n\n".join(aligned(masked(part, c)) for part in parts)
        shown = masked(" ".join(f"'{w}'" if " " in w else w for w in words), c)
        return f"$ toolcrib {shown}{' > ' + target if target else ''}\n{text}".rstrip("\n")

    def test_the_page_is_what_the_commands_say(self):
        c = self.prepare()
        page = INTRO
        for title, prose, commands in STEPS:
            page += f"\n## {title}\n\n" + ("\n".join(textwrap.wrap(prose, 118)) + "\n\n" if prose else "")
            page += "```\n" + "\n\n".join(self.said(c, command) for command in commands) + "\n```\n"
        if WRITE:
            PAGE.write_text(page)
        self.assertEqual(PAGE.read_text(), page, "run tests/integ/test_compliance_review.py --write")


WRITE = "--write" in sys.argv
if WRITE:
    sys.argv.remove("--write")
if __name__ == "__main__":
    crib.main()
