"""contrib/doc/operate.md is what an operator types and what is answered: done anew here and compared; --write puts it in place.

Times, ids, digests and sizes are placeholders there, as in the page of test_compliance_review.py."""
import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import textwrap
import time
import unittest

import crib
import test_compliance_review as review
from test_take_over import Taken

PAGE = crib.SOURCE / "contrib/doc/operate.md"
STORE, BACKUP, KEYS, ROOT = "/var/lib/toolcrib", "/backup/store", "/backup/keys", "/root"
CONF = "/etc/toolcrib/toolcribd.yaml"
METRICS, MCP = "127.0.0.1:9464", "127.0.0.1:8808"
LISTEN = 'metrics: {listen: "127.0.0.1:0"}\n'
TAKE_OVER = f"toolcribd --take-over -c {CONF} --store {STORE}"
RESTORE = f"toolcrib restore --from {BACKUP} --keys {KEYS}"

INTRO = f"""# A year with toolcrib, command by command

What whoever runs the server types, on an ordinary day and on a bad one. Each command is run, and its output written here, by
`tests/integ/test_operate.py`; the test fails when this page says anything else. Times, ids, digests and sizes are placeholders.

The store is `{STORE}`, metrics are at `{METRICS}`, agents come to `{MCP}`, one tenant, `acme`, has one
tool. The backup is in `{BACKUP}`, key files and pins in `{KEYS}`: two folders here, two machines in earnest. `README`
says how the packages are built and installed; the manual is toolcribd(8); files that are lost one by one are in
`contrib/doc/bad-night.md`. Chapters 1 to 3 and 10 are for the day, the others for the night; each stands alone.

## It is three in the morning

1. `toolcrib status`, then `toolcrib doctor`: what is wrong, where, and what to do. Both work without a server.
2. Find what you see below. What is not there: grep a few words of it in `contrib/doc/messages.md`, which has cause and cure.
3. Delete nothing. A damaged store is evidence: move it aside, as the chapters do.

| you see | it is | go to |
|---|---|---|
| `too little space is left on the disk of the store` | calls are refused, nothing is lost | 8 |
| `cannot be recorded, nothing has run` | the same, as a caller hears it | 8 |
| no store, or the machine is gone | put the backup on another one | 4 |
| `cannot open ...master.key`, `secrets do not open` | key files are lost | 5 |
| `has no keys, and the store was signed before` | the signer is lost | 6 |
| `SIGNER_AHEAD` | the store is older than its signer: somebody put it back | 11, from `toolcrib status` on |
| a key of an agent is where it should not be | stolen | 7 |
| a mistake an hour ago, and nobody can undo it | back to the second before | 11 |
| what is encrypted has to be opened, and nobody has the identity | two holders of three bring it | 12 |
| `does not go on: ... is not there`, `has been taken away` | the copies are deleted, or their disk is away | 13 |
| exit status 4 of `audit verify`, `DAMAGED` | somebody changed the store | 14 |
| `another program has written to the store`, `is not as it was written` | the same; the server stops itself, or does not start | 14 |
| an alert | what each asks for | 15 |
"""
CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}'
# Heading, prose, commands for a shell.  {key}: the accessor of the tenant's key, {recipient}: who can open what is put away,
# {moment}: a second of before the grant was.
STEPS = [
    ("1. Install",
     "The packages have made the user, the store and the signer already (`README`, Install); by hand it is `toolcrib init`. The two "
     "keys that it prints are what reviewers pin: keep them where this machine cannot write, before there is anything to sign. One "
     "who holds an identity of age, away from here, will be able to open key files and copies; nobody else, nor this machine.",
     ["toolcrib init", f"mkdir -p -m 700 {BACKUP} {KEYS}", f"toolcrib audit keys > {KEYS}/pins",
      f"age-keygen -o {ROOT}/identity",
      f"toolcrib tenant add acme", f"toolcrib tool add {ROOT}/echo.yaml", "toolcrib grant add acme echo",
      f"toolcrib key create acme/bot > {ROOT}/bot.key", "systemctl start toolcribd",
      f"curl -s http://{MCP}/mcp -H \"Authorization: Bearer $(cat {ROOT}/bot.key)\" -H 'Content-Type: application/json' -d '{CALL}'"]),
    ("2. Watch",
     "`healthz` says that the server answers, `readyz` whether calls are taken, and why not. `contrib/monitoring` has alerts and a "
     "dashboard for what `/metrics` tells. `doctor` looks at everything around the store, with a server and without one, and exits "
     "with 4 when something is to be done; of its rows some are here. The last word is `audit verify`: every record hashed anew.",
     [f"curl -s http://{METRICS}/healthz", f"curl -s http://{METRICS}/readyz",
      f"curl -s http://{METRICS}/metrics | grep -E '^toolcrib_ready|^toolcrib_(calls_total|audit_refusing).*(ok|space)\"'",
      "toolcrib doctor | grep -E '^(STATE|ok  *(store|schema|signer|programs) )'",
      "toolcrib audit verify"]),
    ("3. Back up",
     "One copy of the store as it is at one moment, of the keys of what was kept, and of the signer's memory; the key files go "
     "elsewhere. The server runs on; `keys escrow` makes one file of the key files that only who holds an identity of age opens. A "
     "copy that nobody has looked at is no backup: `restore --test` puts it together and reads all of it, `audit restore-test` puts "
     "on record that you did, and the verifier of the reviewers reads it with their pins. Exit status 5: nothing is wrong, but something is newer than the copy, or could not "
     "be opened, since the keys lie elsewhere. 4 would be damage: make another copy now. Do this each day, and before each upgrade.",
     [f"toolcrib audit checkpoint > {KEYS}/checkpoint",
      f"toolcrib backup {BACKUP}/toolcrib.db --keys {BACKUP}/keys.db --signer {BACKUP}/signer.tar",
      f"toolcrib keys escrow {KEYS}/keys.age --to {{recipient}}", f"toolcrib keys escrow {KEYS}/keys.age --check",
      f"find {STORE} -maxdepth 1 -name '*.key' -exec cp -p '{{}}' {KEYS} ';'",
      f"{RESTORE} --test --to /backup/try --result {KEYS}/tested", f"toolcrib audit restore-test {KEYS}/tested",
      f"toolcrib-verify --key {KEYS}/pins --anchor {KEYS}/checkpoint {BACKUP}/toolcrib.db"]),
    ("4. The machine is gone",
     "On the new host, from the backup and the key files alone. The old host must not start again. What was done after the copy is "
     "not there, and the record of the start says so. Where the old host's disk still reads, what its signer remembers tells how "
     "many signed records are missing; else leave `--signer-state` out. The first `restore`, without `--to`, does nothing "
     "and says what it would take. Do it as a drill each quarter.",
     ["systemctl stop toolcribd", f"mv {STORE} {STORE}.gone", RESTORE,
      f"{RESTORE} --signer-state {STORE}.gone/signer --to {STORE}",
      f"tar -x -f {BACKUP}/signer.tar -C {STORE}",
      "systemctl start toolcribd", "toolcrib audit verify",
      "toolcrib audit continuity --limit 1"]),
    ("5. Key files are lost",
     "Nothing starts, and nothing is lost: what was put away in chapter 3 opens where the identity is, and goes back with the modes "
     "that it had. Run `keys escrow` again after each `key` file that is new; `doctor` says when one is not in it.",
     ["systemctl stop toolcribd", f"mv {STORE}/master.key {ROOT}/master.key.away", "toolcrib status",
      f"age -d -i {ROOT}/identity {KEYS}/keys.age | tar -x -C {STORE}",
      "systemctl start toolcribd", "toolcrib call acme echo text=hello"]),
    ("6. The signer is lost",
     "Without what it remembers nobody can sign, and no new signer signs for this store. Store and signer go back together, to the "
     "newest backup; keys.db and key files stay. The store of until now is moved aside: `toolcrib-verify` still reads it, as far as "
     "it was signed, and what it has beyond the backup can be told from it.",
     ["systemctl stop toolcribd", f"mkdir -m 700 {STORE}.lost", f"mv {STORE}/signer {STORE}.lost/away", "toolcrib status",
      f"find {STORE} -maxdepth 1 '(' -name 'toolcrib.db*' -o -name signer ')' -exec mv '{{}}' {STORE}.lost ';'",
      f"cp {BACKUP}/toolcrib.db {STORE}", f"tar -x -f {BACKUP}/signer.tar -C {STORE}",
      "systemctl start toolcribd", "toolcrib audit verify"]),
    ("7. A key of an agent is lost or stolen",
     "Revoked, it opens nothing from the next request on. What it was used for, and what it could have reached, is in the audit; "
     "nothing may have begun after the revocation.",
     ["toolcrib key revoke {key} --yes", "toolcrib audit blast-radius --key {key}", "toolcrib audit after-revocation --tenant acme",
      "toolcrib key create acme/bot --label 'in place of the stolen one' > /dev/null", "toolcrib key list acme"]),
    ("8. The disk is full",
     "Below `audit.space_floor` calls are refused, since what cannot be recorded does not run. Here the floor is set above what is "
     "free, which looks the same. Make room, never in the store: old logs, old copies. It is seen within seconds, and calls go on by "
     "themselves; another floor needs a restart.",
     [f"echo 'audit: {{space_floor: 1048576}}' >> {CONF}",
      "systemctl restart toolcribd", f"curl -s http://{METRICS}/readyz", "toolcrib call acme echo text=hello",
      f"sed -i '$d' {CONF}", "systemctl restart toolcribd", f"curl -s http://{METRICS}/readyz",
      "toolcrib call acme echo text=hello"]),
    ("9. Break the glass",
     "Destructive acts need two administrators. When the second one cannot be reached, the user of the store goes down to one, which "
     "works only while no server runs, and back up afterwards. Nobody can do it unseen: both ways and each act without a second "
     "are records, which `audit dual-control` lists for whoever asks later; exit status 4 says that there are some.",
     ["systemctl stop toolcribd", "toolcrib approval policy one", "systemctl start toolcribd",
      "toolcrib --yes erase --principal acme/bot --ground 'asked for' --ticket E-1", "toolcrib approval policy two",
      "toolcrib audit dual-control"]),
    ("10. Upgrade",
     "Back up first (3). Packages restart nothing: after `apt install` the old server runs on. `migrate --dry-run` says whether the "
     "store would change. When it would not, the new server takes the old one's place and no request fails; else `systemctl restart "
     "toolcribd`, which puts a copy of before beside the store (toolcribd(8), UPGRADES, has the way back).",
     ["toolcrib migrate --dry-run", TAKE_OVER, "toolcrib status | grep -E '^(State|Audit|Files)'",
      "toolcrib call acme echo text=hello"]),
    ("11. Back to the second before",
     "With `backup.to` each second leaves as an encrypted part, so a lost machine loses about that, and a store can be put back as it "
     "was before any second. Here somebody has taken the tool from its tenant. A store that is put back is behind its signer, which stays: the "
     "start is refused, names what is lost, and goes on once a person has given it up. From then on every verification says "
     "RESTORED and what is missing, and ends with 5: that is right, and stays.",
     [f"echo 'backup: {{to: /backup/shipped, recipients: {{recipient}}}}' >> {CONF}", "systemctl restart toolcribd",
      "toolcrib status | grep ^Backup",
      "toolcrib call acme echo text=hello",
      "toolcrib grant remove acme echo --yes", "toolcrib call acme echo text=hello",
      "systemctl stop toolcribd", f"mv {STORE} {STORE}.before",
      f"toolcrib restore --from /backup/shipped --identity {ROOT}/identity --until {{moment}} --keys {KEYS} --to {STORE} "
      f"--signer-state {STORE}.before/signer",
      f"cp -R -p {STORE}.before/signer {STORE}", "toolcrib status",
      "toolcrib audit adopt lost:all --reason 'taken away by mistake' --ticket OPS-7",
      "systemctl start toolcribd", "toolcrib call acme echo text=hello", "toolcrib audit verify"]),
    ("12. Two holders of three",
     "Who has the identity opens everything, so no one person should. It is a text that `ssss-split` of Debian's package ssss divides "
     "where it was made, before the machine there forgets it: any two of these three lines give it back, one says nothing. Each "
     "goes to another person, on paper. Do this as a drill with the two who are hardest to find.",
     [f"grep ^AGE-SECRET {ROOT}/identity | ssss-split -t 2 -n 3 -q > {ROOT}/shares", f"rm {ROOT}/identity",
      f"sed -n '2p' {ROOT}/shares | ssss-combine -t 2 -q 2>&1 | grep -c ^AGE-SECRET",
      f"sed -n '1p;3p' {ROOT}/shares | ssss-combine -t 2 -q 2>&1 | grep ^AGE-SECRET > {ROOT}/identity",
      f"age -d -i {ROOT}/identity {KEYS}/keys.age | tar -t"]),
    ("13. The copies are deleted",
     "Whoever can write where copies lie can delete them, and who extorts does so first. The server misses them within a second, "
     "puts that on record (backup.broken), and begins anew by itself in the folder that is left, or as soon as there is one again; until "
     "then `status` says why it does not go on, and the alert backup_behind comes. What it writes then can be put back; the seconds "
     "of before are lost, so keep another copy (3) where this machine cannot delete. Ask who it was before you trust the place again.",
     ["rm -r /backup/shipped/*", "toolcrib status | grep ^Backup", f"curl -s http://{METRICS}/metrics | grep ^toolcrib_backup_chains_broken",
      f"toolcrib restore --from /backup/shipped --identity {ROOT}/identity --keys {KEYS} --test --to /backup/try "
      "| grep -E '^(ok +(shipped|toolcrib.db)|sum)'"]),
    ("14. The store was changed",
     "`audit verify` ends with 4, or the alert `verify_failed` comes: a record is not what was written. Here somebody who could write "
     "the file has changed how long a call took. All that follows from it is found as well (ROOT, CROSS_REF), LEAF names the record. Before anything else take a copy of all there is, it is evidence. `toolcrib-verify` with the "
     "pins says it again on another machine, without trust in this one, and finds which backups are older than the change. Whoever "
     "could write the store may have had what lies beside it: replace the keys of agents (7), and secrets. Then go back to such a backup "
     "(4), or go on, and let people know; what every kind of change looks like is in `contrib/doc/tampering.md`.",
     ["toolcrib audit verify --tenant acme | grep -E '^(LEAF|DAMAGED)'", "systemctl stop toolcribd", f"cp -a {STORE} {ROOT}/evidence",
      f"toolcrib-verify --key {KEYS}/pins --keys {ROOT}/evidence --signer-state {ROOT}/evidence/signer {ROOT}/evidence/toolcrib.db "
      "| grep -E '^(LEAF|DAMAGED)'",
      f"toolcrib-verify --key {KEYS}/pins {BACKUP}/toolcrib.db", "systemctl start toolcribd"]),
    ("15. An alert",
     "What a person should look at is an alert, a sentence that ends with the command that shows more: `toolcrib alerts`. `alerts` in "
     "toolcribd.yaml has webhooks, Alertmanagers and people by mail told as well; after a change there `toolcrib alerts test` opens "
     "one, and `toolcrib alerts ways` says whether it was taken. What to do beyond looking: for `audit_refusing` and `space_low` make room on the disk of "
     "the store, calls go on by themselves. For `verify_failed` do chapter 14; only `audit "
     "verify` of the whole store ends it. For `verify_stale` see `toolcrib status`. For `sink_behind` mend the receiver, then `toolcrib "
     "sink resume NAME`; one that is stopped needs `sink seek`. For `sink_refused` mend what `toolcrib "
     "sink list` says, for `sink_rejected` what the receiver has against the records that `toolcrib sink rejected NAME` lists, then `sink "
     "seek` or `sink settle`. For `backup_behind` mount what `toolcrib status` names (13), for `restore_untested` do chapter 3. For `secret_old` have a new value given where it is from, then `toolcrib secret set`. For `volume` and `denials` ask whose agent it is, and stop it meanwhile "
     "by `toolcrib principal set TENANT/NAME --suspended yes`; for `new_tool` and `off_hours` only where its owner knows nothing of it.",
     ["toolcrib alerts rules"]),
]


@unittest.skipUnless(shutil.which("age") and shutil.which("ssss-split"), "Debian's age or ssss is not installed")
class Operate(crib.Case):
    def prepare(self):
        c = self.crib
        self.places = {STORE: c.path, "/backup": c.dir / "backup", ROOT: c.dir / "root"}
        self.places[ROOT].mkdir()
        (self.places[ROOT] / "echo.yaml").write_text(crib.ECHO)
        c.accessors, c.instance, self.extra, self.put = [], "?", [], {}
        return c

    def typed(self, c, line):
        """A line of the page in a shell of this machine: what it says."""
        verb = line.split()[1] if line.startswith("systemctl ") else None
        if verb in ("stop", "restart"):
            c.stop()
        if verb in ("start", "restart"):
            c.start(LISTEN + self.here("".join(f"{more}\n" for more in self.extra)))
        if line.endswith(f" {CONF}"):
            self.extra = [*self.extra, re.search("'(.*)'", line)[1]] if line.startswith("echo ") else self.extra[:-1]
        elif line == TAKE_OVER:
            self.take_over(c)
        elif not verb:
            self.before(c, line)
            said = self.shell(c, line)
            self.behind(c, line)
            return said
        return ""

    def before(self, c, line):
        """What a person waits for by looking again."""
        if line.startswith("toolcrib audit verify --tenant acme |"):
            self.change(c)
        elif line.endswith("grep ^Backup"):
            crib.wait_for("a whole copy", self.is_copied)
        elif line.startswith("toolcrib grant remove"):
            parts = len(self.manifest().splitlines())
            crib.wait_for("a part with the call", lambda: len(self.manifest().splitlines()) > parts)
            at = json.loads(self.manifest().splitlines()[-1])["at_us"] + 1
            self.put["{moment}"] = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at // 1000000)) + f".{at % 1000000:06d}Z"

    def change(self, c):
        """What an intruder does who waits for a stop: a running server sees at once that another program writes."""
        c.stop()
        with contextlib.closing(sqlite3.connect(c.store / "toolcrib.db")) as db, db:
            frozen, = db.execute("SELECT sql FROM sqlite_master WHERE name = 'rec_frozen'").fetchone()
            db.execute("DROP TRIGGER rec_frozen")
            db.execute("UPDATE rec SET dur = dur + 1 WHERE id = (SELECT min(id) FROM rec WHERE kind = 1002)")
            db.execute(frozen)
        c.start(LISTEN + self.here("".join(f"{more}\n" for more in self.extra)))

    def is_copied(self):
        said = self.crib.json("status")[0]["backup"]
        return '"kind":"whole"' in self.manifest().replace(" ", "") and ";" not in said and "not whole" not in said

    def manifest(self):
        paths = sorted((self.places["/backup"] / "shipped").glob("0*/manifest.jsonl"))
        return paths[-1].read_text() if paths else ""

    def behind(self, c, line):
        if line == "toolcrib init":
            c.instance = c.json("audit", "capacity")[0]["log"].split("/")[0]
        elif line.startswith("age-keygen"):
            self.put["{recipient}"] = re.search("age1[0-9a-z]{58}", (self.places[ROOT] / "identity").read_text())[0]
        elif line.endswith("bot.key"):
            c.accessors = [(self.places[ROOT] / "bot.key").read_text().split("_")[1]]
            self.put["{key}"] = c.accessors[0]

    def take_over(self, c):
        old, path = c.daemon, c.dir / "toolcribd.yaml"
        listeners = "".join(f'- {{transport: {t}, address: "{a}"}}\n' for t, a in c.ports.items() if t != "metrics")
        path.write_text("listeners:\n" + listeners + c.alone_and_awake(LISTEN))
        with open(c.log, "ab") as log:
            done = subprocess.run([crib.BUILD / "toolcribd", "--take-over", "-c", path, "--store", c.path], stdin=subprocess.DEVNULL,
                                  stdout=log, stderr=log, env=c.env, timeout=crib.DEADLINE, check=False)
        self.assertEqual((done.returncode, old.wait(crib.DEADLINE)), (0, 0))
        c.daemon = Taken(c.status()["pid"])
        self.addCleanup(os.close, c.daemon.fd)
        self.assertNotEqual(c.daemon.pid, old.pid)

    def here(self, line):
        for path, here in self.places.items():
            line = re.sub(rf"(?<![\w/]){path}", str(here), line)
        for name, put in self.put.items():
            line = line.replace(name, put)
        return line

    def shell(self, c, line):
        line = self.here(line)
        for name, transport in ((METRICS, "metrics"), (MCP, "http")):
            line = line.replace(name, ":".join(map(str, c.address(transport))) if name in line else "")
        env = {**c.env, "PATH": f"{crib.BUILD.resolve()}:{os.environ['PATH']}", "TOOLCRIB_STORE": str(c.path)}
        done = subprocess.run(["sh", "-c", line], env=env, capture_output=True, text=True, timeout=crib.DEADLINE)
        said = done.stdout + "".join(line + "\n" for line in done.stderr.splitlines() if not line.startswith("next: --after "))
        return said + (f"[exit status {done.returncode}]\n" if done.returncode else "")

    def shown(self, c, text):
        for path, here in self.places.items():
            text = text.replace(str(here), path)
        text = review.masked(text, c)
        for pattern, put in ((r"\+[0-9a-f]{8}\+\S{44}", "+9c3d0000+AX…"), (r"\d+ bytes", "N bytes"), (r"\d+ ms", "N ms"), (r"about \d+ s", "about N s"),
                             (r"age1[0-9a-z]{58}", "age1…"), (r"\d+ parts, generation \d+", "N parts, generation N"),
                             (r"schema \d+ -> \d+", "schema N -> N"), (r"\d+, to the letter", "N, to the letter"),
                             (r"epoch \d+", "epoch N"), (r"generation \d+, \d+ parts", "generation N, N parts"), ('"jsonrpc":"0.5"', '"jsonrpc":"2.0"'), (r"lost:(\w+):\d+-\d+", r"lost:\1:N-N"),
                             (r"\d+ records, \d+ of them signed", "N records, N of them signed"), (r"has signed \d+", "has signed N"),
                             (r"records \d+-\d+ are", "records N-N are"), (r"\d+ missing", "N missing"),
                             (r"UNCOVERED_TAIL .*\n", ""), (r"\d+ gaps", "N gaps"), (r"system:\d+", "system:N"),      # it goes by the clock
                             (r"(?m)(?<=^key )\w{12}(?= of acme/bot expires)|^\w{12}(?= +acme/bot +active)", "KEY2")):
            text = re.sub(pattern, put, text)
        for pattern, put in ((r"(?m)^((?:RESTORED|LEAF) +\S+ +)\d+( +)\d+", r"\1N\2N"), (r"[1-9]\d* bad", "N bad"), (r"(?m)^(LEAF \S+) \d+:", r"\1 N:"), (r"record \d+ of the", "record N of the"),    # logs come in any order
                             ("lost:acme:N-N lost:system:N-N", "lost:system:N-N lost:acme:N-N"),
                             (r"(SIGNER_AHEAD: .* of INSTANCE)/t/acme,", r"\1,"),
                             (r"(?m)^(.* warn .*lost:)acme(:N-N\n.* warn .*lost:)system(?=:N-N$)", r"\1system\2acme")):
            text = re.sub(pattern, put, text)
        return "\n\n".join(review.aligned(part) for part in text.strip("\n").split("\n\n")).rstrip("\n")

    def line(self, line):
        for name, put in (("{key}", "KEY1"), ("{recipient}", "age1…"), ("{moment}", "2026-07-28T10:00:00Z")):
            line = line.replace(name, put)
        return f"$ {line}"

    def test_the_page_is_what_is_typed_and_answered(self):
        c = self.prepare()
        page = INTRO
        for title, prose, commands in STEPS:
            page += f"\n## {title}\n\n" + "\n".join(textwrap.wrap(prose, 118)) + "\n\n```\n"
            for line in commands:
                page += "\n".join(filter(None, (self.line(line), self.shown(c, self.typed(c, line))))) + "\n"
            page += "```\n"
        if review.WRITE:
            PAGE.write_text(page)
        self.assertEqual(PAGE.read_text(), page, "run tests/integ/test_operate.py --write")


if __name__ == "__main__":
    crib.main()
