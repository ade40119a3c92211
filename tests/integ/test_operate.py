"""contrib/doc/operate.md is what an operator types and what is answered: done anew here and compared; --write puts it in place.

Times, ids, digests and sizes are placeholders there, as in the page of test_compliance_review.py."""
import os
import re
import subprocess
import textwrap

import crib
import test_compliance_review as review

PAGE = crib.SOURCE / "contrib/doc/operate.md"
STORE, BACKUP, KEYS = "/var/lib/toolcrib", "/backup/store", "/backup/keys"
METRICS = "127.0.0.1:9464"
LISTEN = 'metrics: {listen: "127.0.0.1:0"}\n'

INTRO = f"""# A year with toolcrib, command by command

What whoever runs the server types, on an ordinary day and on a bad one. Each command is run, and its output written here, by
`tests/integ/test_operate.py`; the test fails when this page says anything else. Times, ids, digests and sizes are placeholders.

The store is `{STORE}`, metrics are at `{METRICS}`, one tenant, `acme`, has one tool. `README` says how the server is
installed and built; the manual is toolcribd(8), the files that may be lost one by one are in `contrib/doc/bad-night.md`.
"""
# Heading, prose, commands for a shell.  {key}: the accessor of the tenant's key.
STEPS = [
    ("1. Before the first tenant: pin what signs",
     "Whoever reviews this store later needs its public keys from a hand that is not the store's. Print them once, and keep them "
     "where the server cannot write.",
     ["toolcrib audit keys"]),
    ("2. Watch",
     "`healthz` says that the server answers, `readyz` whether calls are taken, and why not. `contrib/monitoring` has alerts and a "
     "dashboard for what `/metrics` tells. `doctor` looks at everything around the store, with a server and without one, and exits "
     "with 4 when something is to be done.",
     [f"curl -s http://{METRICS}/healthz", f"curl -s http://{METRICS}/readyz",
      f"curl -s http://{METRICS}/metrics | grep -E '^toolcrib_ready|^toolcrib_(calls_total|audit_refusing).*(ok|space)\"'",
      "toolcrib audit verify"]),
    ("3. Back up",
     "One copy of the store as it is at one moment, of the keys of what was kept, and of the signer's memory; the key files go "
     "elsewhere. The server runs on; `keys escrow` makes one file of the key files that only who holds an identity of age opens. A "
     "copy that nobody has looked at is no backup: the verifier of the reviewers reads it. Exit "
     "status 5: nothing is wrong, and what the calls kept was not opened, since the keys lie elsewhere.",
     [f"mkdir -p -m 700 {BACKUP} {KEYS}", f"toolcrib audit checkpoint > {KEYS}/checkpoint",
      f"toolcrib backup {BACKUP}/toolcrib.db --keys {BACKUP}/keys.db --signer {BACKUP}/signer.tar",
      f"find {STORE} -maxdepth 1 -name '*.key' -exec cp -p '{{}}' {KEYS} ';'",
      f"toolcrib keys escrow {KEYS}/keys.age --to age1yt3tfqlfrwdwx0z0ynwplcr6qxcxfaqycuprpmy89nr83ltx74tqdpszlw", f"toolcrib keys escrow {KEYS}/keys.age --check",
      f"toolcrib audit keys > {KEYS}/pins",
      f"toolcrib-verify --key {KEYS}/pins --anchor {KEYS}/checkpoint {BACKUP}/toolcrib.db"]),
    ("4. A drill: the machine is gone",
     "On the new host, from the backup and the key files alone. The old host must not start again. What was done after the copy is "
     "not there, and the record of the start says so. Where the old host's disk still reads, what its signer remembers tells how "
     "many signed records are missing.",
     ["systemctl stop toolcribd", f"mv {STORE} {STORE}.gone",
      f"toolcrib restore --from {BACKUP} --keys {KEYS} --signer-state {STORE}.gone/signer --to {STORE}",
      f"tar -x -f {BACKUP}/signer.tar -C {STORE}",
      "systemctl start toolcribd", "toolcrib audit verify",
      "toolcrib audit continuity --limit 1"]),
    ("5. A key is lost or stolen",
     "Revoked, it opens nothing from the next request on. What it was used for, and what it could have reached, is in the audit; "
     "nothing may have begun after the revocation.",
     ["toolcrib key revoke {key} --yes", "toolcrib audit blast-radius --key {key}", "toolcrib audit after-revocation --tenant acme",
      "toolcrib key create acme/bot --label 'in place of the stolen one' > /dev/null", "toolcrib key list acme"]),
    ("6. The disk is full",
     "Below `audit.space_floor` calls are refused, since what cannot be recorded does not run. Here the floor is set above what is "
     "free, which looks the same. Room that somebody makes is seen within seconds; another floor needs a restart.",
     ["echo 'audit: {space_floor: 1048576}' >> /etc/toolcrib/toolcribd.yaml",
      "systemctl restart toolcribd", f"curl -s http://{METRICS}/readyz", "toolcrib call acme echo text=hello",
      "sed -i '$d' /etc/toolcrib/toolcribd.yaml", "systemctl restart toolcribd", "toolcrib call acme echo text=hello"]),
    ("7. Break the glass",
     "Destructive acts need two administrators. When the second one cannot be reached, the user of the store goes down to one, which "
     "works only while no server runs, and back up afterwards. Nobody can do it unseen: both ways and each act without a second "
     "are records, which `audit dual-control` lists for whoever asks later.",
     ["systemctl stop toolcribd", "toolcrib approval policy one", "systemctl start toolcribd",
      "toolcrib --yes erase --principal acme/bot --ground 'asked for' --ticket E-1", "toolcrib approval policy two",
      "toolcrib audit dual-control"]),
    ("8. An alert",
     "What a person should look at is an alert, a sentence that ends with the command that shows more: `toolcrib alerts`. `alerts` in "
     "toolcribd.yaml has webhooks, Alertmanagers and people by mail told as well; after a change there `toolcrib alerts test` opens "
     "one, and `toolcrib alerts ways` says whether it was taken. What to do beyond looking: for `audit_refusing` and `space_low` make room on the disk of "
     "the store, calls go on by themselves. For `verify_failed` keep a copy of the store as it is, then `bad-night.md`; only `audit "
     "verify` of the whole store ends it. For `verify_stale` see `toolcrib status`. For `sink_behind` mend the receiver, then `toolcrib "
     "sink resume NAME`; one that is stopped needs `sink seek`. For `sink_refused` mend what `toolcrib "
     "sink list` says, for `sink_rejected` what the receiver has against the records that `toolcrib sink rejected NAME` lists, then `sink "
     "seek` or `sink settle`. For `backup_behind` mount what `toolcrib status` names. For `volume` and `denials` ask whose agent it is, and stop it meanwhile "
     "by `toolcrib principal set TENANT/NAME --suspended yes`; for `new_tool` and `off_hours` only where its owner knows nothing of it.",
     ["toolcrib alerts rules"]),
]


class Operate(crib.Case):
    def prepare(self):
        c = self.crib.init()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        c.accessors = [key.split("_")[1]]
        c.cli("call", "acme", "echo", "text=hello")
        c.instance = c.json("audit", "capacity")[0]["log"].split("/")[0]
        self.extra = ""
        peer = c.start(LISTEN).http(key)
        peer.call("echo", {"text": "hello"}, rev=crib.MODERN)
        peer.close()
        return c

    def typed(self, c, line):
        """A line of the page in a shell of this machine: what it says."""
        if line in ("systemctl stop toolcribd", "systemctl restart toolcribd"):
            c.stop()
        if line in ("systemctl start toolcribd", "systemctl restart toolcribd"):
            c.start(LISTEN + self.extra)
        elif line.endswith(" /etc/toolcrib/toolcribd.yaml"):
            self.extra = re.search("'(.*)'", line)[1] + "\n" if line.startswith("echo ") else ""
        elif not line.startswith("systemctl "):
            return self.shell(c, line)
        return ""

    def shell(self, c, line):
        for path, here in ((STORE, c.path), ("/backup", c.dir / "backup")):
            line = re.sub(rf"(?<![\w/]){path}", str(here), line)
        line = line.replace("{key}", c.accessors[0]).replace(METRICS, ":".join(map(str, c.address("metrics"))) if METRICS in line else "")
        env = {**c.env, "PATH": f"{crib.BUILD.resolve()}:{os.environ['PATH']}", "TOOLCRIB_STORE": str(c.path)}
        done = subprocess.run(["sh", "-c", line], env=env, capture_output=True, text=True, timeout=crib.DEADLINE)
        said = done.stdout + "".join(line + "\n" for line in done.stderr.splitlines() if not line.startswith("next: --after "))
        return said + (f"[exit status {done.returncode}]\n" if done.returncode else "")

    def shown(self, c, text):
        for here, path in ((c.path, STORE), (c.dir / "backup", "/backup")):
            text = text.replace(str(here), path)
        text = review.masked(text, c)
        for pattern, put in ((r"\+[0-9a-f]{8}\+\S{44}", "+9c3d0000+AX…"), (r"\d+ bytes", "N bytes"), (r"\d+ ms", "N ms"),
                             (r"\d+ records, \d+ of them signed", "N records, N of them signed"), (r"has signed \d+", "has signed N"),
                             (r"records \d+-\d+ are", "records N-N are"), (r"\d+ missing", "N missing"),
                             (r"UNCOVERED_TAIL .*\n", ""), (r"\d+ gaps", "N gaps"), (r"system:\d+", "system:N"),      # it goes by the clock
                             (r"(?m)(?<=^key )\w{12}(?= of acme/bot expires)|^\w{12}(?= +acme/bot +active)", "KEY2")):
            text = re.sub(pattern, put, text)
        return "\n\n".join(review.aligned(part) for part in text.strip("\n").split("\n\n")).rstrip("\n")

    def test_the_page_is_what_is_typed_and_answered(self):
        c = self.prepare()
        page = INTRO
        for title, prose, commands in STEPS:
            page += f"\n## {title}\n\n" + "\n".join(textwrap.wrap(prose, 118)) + "\n\n```\n"
            for line in commands:
                page += "\n".join(filter(None, (f"$ {line}".replace("{key}", "KEY1"), self.shown(c, self.typed(c, line))))) + "\n"
            page += "```\n"
        if review.WRITE:
            PAGE.write_text(page)
        self.assertEqual(PAGE.read_text(), page, "run tests/integ/test_operate.py --write")


if __name__ == "__main__":
    crib.main()
