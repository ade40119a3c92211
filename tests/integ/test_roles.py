"""Roles: who may give which command beside the owner of the store, over a socket of their own (SEC S-318)."""
import base64
import contextlib
import hashlib
import json
import os
import signal
import socket
import stat
import unittest

import crib

ROLES = """
admin:
  socket: {socket}
roles:
  - {{role: operator, uid: 40001}}
  - {{role: auditor, uid: 40002}}
  - {{role: tenant-auditor, uid: 40003, tenant: acme}}
  - {{role: tenant-admin, uid: 40005, tenant: acme}}
  - {{role: operator, gid: 41000}}
  - {{role: auditor, gid: 41001}}
  - {{role: second, uid: 40006}}
  - {{role: admin, uid: 40007}}
"""


@unittest.skipUnless(os.geteuid() == 0, "needs other users to be")
class Roles(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(crib.ECHO)
        c.tenant("acme", "echo")
        self.other = c.tenant("other", "echo")
        self.socket = c.store.parent / "admin-public.sock"
        self.crib.let_others_in()
        c.start(ROLES.format(socket=self.socket))

    def say(self, uid, command, groups=(), **args):
        """What the server answers to a user in these groups, the first of them its own: rows, or the error."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setgroups(groups[1:])
                os.setgid(groups[0] if groups else uid)
                os.setuid(uid)
                with socket.socket(socket.AF_UNIX) as s:
                    s.settimeout(crib.DEADLINE)
                    s.connect(str(self.socket))
                    with contextlib.suppress(OSError):          # hung up on, but told why
                        s.sendall(json.dumps({"command": command, "args": args}).encode() + b"\n")
                    got = b""
                    while b'{"done":true}\n' not in got and b'{"error":' not in got:
                        got += s.recv(1 << 16)
                os.write(write, got[-60000:])
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as f:
            lines = [json.loads(line) for line in f.read().splitlines()]
        os.waitpid(child, 0)
        return lines[-1].get("error") or [line["row"] for line in lines[:-1] if "row" in line]

    def test_each_role_may_what_it_is_for(self):
        self.assertIsInstance(self.say(40001, "tenant suspend", tenant="acme"), list)
        self.assertIsInstance(self.say(40001, "tenant resume", tenant="acme"), list)
        self.assertEqual(self.say(40001, "tool remove", tool=["echo"])["code"], "denied")
        self.assertIsInstance(self.say(40002, "audit calls", tenant="acme"), list)
        self.assertIsInstance(self.say(40002, "key list"), list)
        self.assertEqual(self.say(40002, "tenant suspend", tenant="acme")["message"],
                         "uid 40002 has the role auditor, and tenant suspend needs one of these: admin, operator")
        self.assertIsInstance(self.say(40003, "audit calls", tenant="acme"), list)
        for args in ({"tenant": "other"}, {}):
            for report in ("audit admin", "audit calls"):
                error = self.say(40003, report, **args)
                self.assertEqual((error["code"], error["hint"]), ("denied", "this role reads one tenant's audit: --tenant acme"))
        self.assertIsInstance(self.say(40003, "audit consistency", tenant="acme", **{"from": "0"}), list)
        denied = [self.say(40003, "audit consistency", **args, **{"from": "0"}) for args in ({"tenant": "other"}, {"tenant": "nobody"}, {})]
        self.assertEqual((denied[0]["code"], denied[0], denied[0]), ("denied", denied[1], denied[2]))
        self.assertIsInstance(self.say(40002, "audit calls"), list)
        self.assertEqual(self.say(40003, "tenant list")["code"], "denied")
        self.assertEqual(self.say(40004, "status")["message"], "uid 40004 is no administrator of this store")
        # Who has no role cannot have the server keep megabytes for each connection.
        long = {"documents": [{"name": "x" * 70000}]}
        self.assertEqual(self.say(40004, "tool add", **long)["code"], "limit")
        self.assertEqual(self.say(40001, "tool add", **long)["code"], "denied")

    def test_a_group_has_its_role(self):
        self.assertIsInstance(self.say(40010, "tenant suspend", (41000,), tenant="acme"), list)
        self.assertIsInstance(self.say(40010, "tenant resume", (40010, 41000), tenant="acme"), list)
        self.assertEqual(self.say(40010, "tenant suspend", (40010, 41001), tenant="acme")["code"], "denied")
        self.assertIsInstance(self.say(40010, "audit calls", (40010, 41001), tenant="acme"), list)
        self.assertIsInstance(self.say(40002, "tenant list", (41000,)), list)
        self.assertEqual(self.say(40010, "status", (40010, 42000))["message"], "uid 40010 is no administrator of this store")

    def test_a_tenants_admin_manages_that_tenant_and_learns_of_no_other(self):
        c, mine = self.crib, 40005
        foreign = c.json("key", "list", "other")[0]["accessor"]
        self.assertIsInstance(self.say(mine, "tenant show", tenant="acme"), list)
        made, = self.say(mine, "key create", principal="acme/ci")
        self.assertIsInstance(self.say(mine, "key list", tenant="acme"), list)
        self.assertIsInstance(self.say(mine, "grant remove", tenant="acme", tool=["echo"]), list)
        for command, args in (("grant add", {"tool": ["*"]}), ("tenant set", {"rate": "9/s"}), ("tenant resume", {}),
                              ("key resume", {"accessor": [made["accessor"]]})):
            self.assertEqual(self.say(mine, command, tenant="acme", **args)["code"], "denied")
        for command, args in (("tenant show", {}), ("key list", {}), ("grant list", {}), ("session list", {}),
                              ("key revoke", {"accessor": [foreign]}), ("key suspend", {"accessor": [foreign]}), ("principal list", {})):
            there, nowhere = (self.say(mine, command, tenant=tenant, **args) for tenant in ("other", "nosuch"))
            self.assertEqual(there, nowhere)
            self.assertEqual(there["code"], "denied")
            if command.endswith("list"):
                self.assertEqual(self.say(mine, command, **args)["code"], "denied")
        self.assertEqual(self.say(mine, "key create", principal="other/bot")["code"], "denied")
        # What is in force for it, and nothing by which the others could be counted.
        for who in ("acme", "acme/bot"):
            rows = self.say(mine, "limit show", who=who)
            self.assertEqual({row["of"] for row in rows}, {"tenant acme", f"principal {who}"} if "/" in who else {"tenant acme"})
            self.assertEqual([row["limit"] for row in rows if "share" in row["limit"]], [])
        self.assertIn("concurrency", [row["limit"] for row in rows])
        self.assertEqual(self.say(mine, "limit show", who="other"), self.say(mine, "limit show", who="nosuch"))
        for args in ({}, {"who": "other"}, {"who": "other/bot"}, {"key": foreign}):
            self.assertEqual(self.say(mine, "limit show", **args)["code"], "denied", args)
        self.assertEqual(self.say(mine, "limit show", who="acme", key=foreign)["code"], "invalid")
        self.assertIn("server", {row["of"] for row in self.say(40002, "limit show", who="acme")})
        # A key of another tenant is as good as none.
        there, nowhere = (self.say(mine, "key revoke", tenant="acme", accessor=[a]) for a in (foreign, "0" * 12))
        self.assertEqual(json.dumps(there).replace(foreign, "0" * 12), json.dumps(nowhere))
        self.assertEqual(there["code"], "not_found")
        for command in ("key suspend", "key revoke"):
            self.assertIsInstance(self.say(mine, command, tenant="acme", accessor=[made["accessor"]]), list)
        other = c.tcp(self.other)
        other.initialize()
        ids = [str(s["id"]) for s in c.json("session", "list", "--tenant", "other")]
        self.assertEqual(self.say(mine, "session kill", tenant="acme", id=ids[0])["code"], "not_found")
        self.assertNotIn("error", other.call("echo", {"text": "still here"}))
        other.close()

    def test_c101_a_tenants_auditor_sees_what_explains_its_audit_and_learns_of_no_other(self):
        """CONSOLE C-101: by the name of its tenant, and nothing by which others could be seen or counted."""
        c, mine = self.crib, 40003
        c.tool(crib.ECHO.replace("name: echo", "name: theirs"))
        c.cli("grant", "add", "other", "theirs")
        peer = c.tcp(c.key("acme/bot"))
        peer.initialize()
        peer.call("echo", {"text": "x"})
        other = c.tcp(self.other)
        other.initialize()
        other.call("echo", {"text": "y"})
        peer.close()
        other.close()
        c.cli("audit", "checkpoint")
        calls = {tenant: c.json("audit", "calls", "--tenant", tenant)[0]["call"] for tenant in ("acme", "other")}
        named = (("tenant show", {}), ("principal list", {}), ("key list", {}), ("grant list", {}), ("level list", {}), ("hold list", {}),
                 ("retention show", {}), ("tool show", {"tool": "echo"}), ("tool history", {"tool": "echo"}),
                 ("audit proof", {"call": calls["acme"]}))
        for command, args in named:
            with self.subTest(command):
                self.assertIsInstance(self.say(mine, command, tenant="acme", **args), list)
                there, nowhere = (self.say(mine, command, tenant=tenant, **args) for tenant in ("other", "nosuch"))
                self.assertEqual((there["code"], there), ("denied", nowhere))
                self.assertEqual(self.say(mine, command, **args)["code"], "denied")
        # What was called elsewhere, and what is granted elsewhere, is as good as nothing.
        there, nowhere = (self.say(mine, "audit proof", tenant="acme", call=call) for call in (calls["other"], calls["other"][:-4] + "0000"))
        self.assertEqual(json.dumps(there).replace(calls["other"], ""), json.dumps(nowhere).replace(calls["other"][:-4] + "0000", ""))
        self.assertEqual(there["code"], "not_found")
        for command in ("tool show", "tool history", "tool diff"):
            there, nowhere = (self.say(mine, command, tenant="acme", tool=tool) for tool in ("theirs", "theirz"))
            self.assertEqual(json.dumps(there).replace("theirs", "theirz"), json.dumps(nowhere))
            self.assertEqual((there["code"], there.get("hint", "")), ("not_found", ""))
        row, = self.say(mine, "tool show", tenant="acme", tool="echo")
        self.assertNotIn("grants", row)
        self.assertEqual(self.say(40002, "tool show", tool="echo")[0]["grants"], 2)
        c.tool(crib.ECHO + "title: another\n")
        self.assertEqual([row["sign"] for row in self.say(mine, "tool diff", tenant="acme", tool="echo")], ["+"])
        self.assertEqual(self.say(mine, "tool history", tenant="acme", tool="echo", events=True)["code"], "invalid")
        self.assertIsInstance(self.say(40004, "audit keys"), dict)
        self.assertEqual(self.say(40004, "audit keys")["code"], "denied")
        for uid in (mine, 40005, 40006):
            self.assertIsInstance(self.say(uid, "audit keys"), list)
        self.assertEqual(self.say(mine, "tool remove", tool=["echo"])["code"], "denied")

    def test_c102_who_reads_the_audit_signs_that_he_did(self):
        self.assertIsInstance(self.say(40002, "audit review", action="sign", note="read"), list)
        self.assertIsInstance(self.say(40003, "audit review", action="sign", tenant="acme"), list)
        for args in ({}, {"tenant": "other"}):
            self.assertEqual(self.say(40003, "audit review", action="sign", **args)["code"], "denied")
        self.assertEqual(self.say(40005, "audit review", action="sign", tenant="acme")["code"], "denied")
        self.assertEqual([row["detail"] for row in self.crib.json("audit", "reviews", "--tenant", "acme")],
                         ["uid 40003: audit review action=sign tenant=acme"])

    def test_c103_a_second_person_agrees_and_can_do_nothing_else(self):
        c, second = self.crib, 40006
        self.assertIsInstance(self.say(40007, "approval versions", policy="required"), list)
        self.assertIsInstance(self.say(40007, "tool add", documents=[{"name": "echo", "description": "Says it.", "inputSchema": {"type": "object"},
                                                                      "handler": {"type": "builtin", "function": "echo"}}]), list)
        waits, = self.say(second, "tool pending")
        self.assertIsInstance(self.say(second, "tool approve", tool="echo", version=str(waits["version"])), list)
        self.assertEqual(self.say(40007, "approval versions", policy="free")["code"], "denied")
        request, = self.say(second, "approval list")
        self.assertEqual((request["asked_by"], request["state"]), ("uid 40007", "waits"))
        self.assertEqual(self.say(40002, "approval grant", id=str(request["id"]))["code"], "denied")
        self.assertIsInstance(self.say(second, "approval grant", id=str(request["id"])), list)
        self.assertIsInstance(self.say(40007, "approval versions", policy="free"), list)
        self.assertIsInstance(self.say(second, "audit calls"), list)
        for command, args in (("tenant suspend", {"tenant": "acme"}), ("key create", {"principal": "acme/x"}), ("tool remove", {"tool": ["echo"]}),
                              ("audit payload", {"call": "0" * 8 + "-0000-7000-8000-" + "0" * 12}), ("approve grant", {"id": "1"})):
            self.assertEqual(self.say(second, command, **args)["code"], "denied", command)

    def test_c106_why_somebody_looked_is_on_record(self):
        c = self.crib
        peer = c.tcp(c.key("acme/bot"))
        peer.initialize()
        peer.call("echo", {"text": "x"})
        peer.close()
        call = c.json("audit", "calls", "--tenant", "acme")[0]["call"]
        self.assertIsInstance(self.say(40003, "audit payload", tenant="acme", call=call, reason="L-17 " + "r" * 251), list)
        self.assertEqual(self.say(40003, "audit payload", tenant="acme", call=call, reason="r" * 257)["code"], "limit")
        looks = [row for row in c.json("audit", "access", "--tenant", "acme") if "audit payload" in str(row)]
        self.assertEqual(len(looks), 1)
        self.assertTrue(looks[0]["detail"].endswith("reason=L-17 " + "r" * 251), looks)

    def test_top_shows_a_tenants_auditor_that_tenant_alone(self):
        """OP-201; who has no right to it hears what he hears of every command."""
        for uid in (40003, 40005):
            samples = self.say(uid, "top", tenant="acme", once=True, interval="1s")
            self.assertEqual([[row["name"] for row in sample["tenants"]] for sample in samples], [["acme"], ["acme"]])
            self.assertFalse({"tools", "upstreams", "counters", "resident_bytes"} & set(samples[0]), uid)
            for args in ({"tenant": "other"}, {"tenant": "no-such"}, {}):
                self.assertEqual(self.say(uid, "top", once=True, **args)["code"], "denied")
        self.assertEqual(self.say(40003, "top")["hint"], "this role reads one tenant's audit: --tenant acme")
        for uid in (40001, 40002):
            self.assertIn("counters", self.say(uid, "top", once=True, interval="1s")[0])
        said = [self.say(40009, command, **args)["message"] for command, args in (("top", {}), ("top", {"tenant": "acme"}), ("audit calls", {}))]
        self.assertEqual(set(said), {"uid 40009 is no administrator of this store"})

    def test_files_of_the_server_are_not_for_every_auditor(self):
        """Nor are its input, or what is no file: both would stop it."""
        fifo = self.crib.dir / "fifo"
        os.mkfifo(fifo)
        for option, words in (("anchor", ["-"]), ("signer-state", "-"), ("with-bundle", "signer")):
            said = self.say(40002, "audit verify", **{option: words})
            self.assertIn("must be absolute", said["message"])
        for option, words in (("anchor", [str(fifo)]), ("signer-state", str(fifo)), ("with-bundle", str(fifo))):
            self.assertIn("is no file", self.say(40002, "audit verify", **{option: words})["message"])
            said = self.say(40003, "audit verify", tenant="acme", **{option: words})
            self.assertEqual((said["code"], "files of the server" in said["message"]), ("denied", True))
        self.assertIsInstance(self.say(40003, "audit verify", tenant="acme"), list)

    def test_a_reader_has_the_server_write_no_file(self):
        """SEC S-920: what it wants in a file is sent to it."""
        c, there = self.crib, self.crib.dir / "there.tar"
        before = set(c.dir.rglob("*"))
        rows = self.say(40002, "audit bundle", tenant="acme", file=str(there))
        got = b"".join(base64.b64decode(row["data"]) for row in rows[:-1])
        self.assertEqual(rows[-1]["sha256"], hashlib.sha256(got).hexdigest())
        self.assertEqual({path.name for path in set(c.dir.rglob("*")) - before if "bundle" in path.name or path == there}, set())
        row, = c.json("audit", "bundle", "acme", there, "--to", rows[-1]["to"])
        self.assertEqual((row["bundle"], row["sha256"]), (str(there), hashlib.sha256(there.read_bytes()).hexdigest()))
        self.assertEqual(stat.S_IMODE(there.stat().st_mode), 0o600)
        done = c.run("audit", "bundle", "acme", there)
        self.assertEqual(done.returncode, 1)
        self.assertIn("there.tar", done.stderr, "what is there stays")
        link = c.dir / "link.tar"
        link.symlink_to(c.dir / "nowhere")
        self.assertEqual(c.run("audit", "bundle", "acme", link).returncode, 1)
        self.assertIn("not found", c.run("audit", "bundle", "nobody", c.dir / "none.tar").stderr)
        self.assertFalse((c.dir / "none.tar").exists() or (c.dir / "nowhere").exists())
        exported = [row for row in c.json("audit", "admin", "--tenant", "acme", "--limit", "0") if row["kind"] == "audit.export"]
        self.assertEqual(len(exported), 2)

    def test_refused_commands_are_recorded_and_a_flood_of_them_is_counted(self):
        for _ in range(30):
            self.assertEqual(self.say(40004, "tenant list")["code"], "denied")
        rows = [r for r in self.crib.json("audit", "admin", "--limit", "0") if "uid 40004: tenant list" in (r["detail"] or "")]
        self.assertTrue(1 <= len(rows) <= 30)

    def test_the_user_of_the_server_is_nobody_once_somebody_is_named(self):
        """SEC S-318: tools run as that user, and in its groups."""
        c, service = self.crib, 40020
        c.stop()
        for path in (c.store, *c.store.rglob("*"), c.dir):
            os.chown(path, service, service)

        def start(roles):
            c.start(f"admin: {{socket: {self.socket}}}\nroles: [{roles}]\n", user=service, env={"NOTIFY_SOCKET": ""})

        start("{role: operator, uid: 40001}, {role: auditor, gid: 41001}")
        self.assertIsInstance(self.say(service, "tenant list"), list, "nobody else is administrator")
        self.assertIn(f"whatever runs as uid={service} is one", c.log.read_text())
        admin, by_group = "{role: admin, uid: 40001}", "{role: admin, gid: %d}" % service
        for more in (admin, by_group, f"{admin}, {by_group}", admin + ", {role: auditor, gid: 41001}"):
            c.config(f"admin: {{socket: {self.socket}}}\nroles: [{more}]\n")
            c.cli("reload")             # root's, which is always one
            for groups in ((service,), (service, 41001)):
                said = self.say(service, "tenant list", groups)
                self.assertEqual(said["message"], f"uid {service} is no administrator of this store", more)
            self.assertIn("the list of roles names", said["hint"])
        self.assertIsInstance(self.say(40001, "tenant remove", tenant="other"), list)
        c.config(f"admin: {{socket: {self.socket}}}\nroles: [{admin}, {{role: auditor, uid: {service}}}]\n")
        c.cli("reload")
        self.assertIsInstance(self.say(service, "audit calls", tenant="acme"), list)
        self.assertEqual(self.say(service, "tenant suspend", tenant="acme")["code"], "denied")
        c.config(f"admin: {{socket: {self.socket}}}\nroles: [{admin}, {{role: admin, uid: {service}}}]\n")
        c.cli("reload")
        self.assertIsInstance(self.say(service, "tenant suspend", tenant="acme"), list)
        c.stop()
        done = c.run("tenant", "list", user=service)
        self.assertEqual(done.returncode, 0, "without a server it is a matter of the files")

    def hold(self, uid, n):
        """Keep n connections as this user, who says nothing; what one more is told."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
                held = []
                for _ in range(n):
                    held.append(socket.socket(socket.AF_UNIX))
                    held[-1].settimeout(crib.DEADLINE)
                    held[-1].connect(str(self.socket))
                with socket.socket(socket.AF_UNIX) as s:        # its turn is behind theirs
                    s.settimeout(crib.DEADLINE)
                    s.connect(str(self.socket))
                    with contextlib.suppress(OSError):          # hung up on, but told why
                        s.sendall(b"{}\n")
                    os.write(write, s.recv(1 << 16))
                os.close(write)
                signal.pause()
            finally:
                os._exit(0)
        os.close(write)
        self.addCleanup(os.waitpid, child, 0)
        self.addCleanup(os.kill, child, signal.SIGKILL)
        with os.fdopen(read, "rb") as f:
            return json.loads(f.read())["error"]

    def test_one_user_cannot_hold_all_connections(self):
        """SEC S-801: 16 of a user, and of all who have no role."""
        self.assertEqual(self.hold(40001, 15)["code"], "invalid", "the 16th is served")
        said = self.hold(40002, 16)
        self.assertEqual((said["code"], said["message"]), ("busy", "uid 40002 has 16 connections for commands, which is the limit"))
        self.assertIn("whoever has no role has 16", self.hold(40010, 16)["message"])
        self.assertEqual(self.say(40011, "tenant list")["code"], "busy")
        self.assertIsInstance(self.say(40001, "tenant list"), list)
        self.assertIsInstance(self.say(0, "tenant list"), list)
        self.assertGreaterEqual(self.crib.json("status")[0]["counters"]["admin_connections_refused"], 3)

    def test_what_a_role_is_not_is_said_at_the_start(self):
        c = self.crib
        c.stop()
        for text, says in (("roles: [{role: king, uid: 1}]", "must be one of"),
                           ("roles: [{role: auditor, uid: 1, tenant: acme}]", "only the roles tenant-auditor, tenant-admin and approver"),
                           ("roles: [{role: approver, uid: 1}]", "who the approver is"),
                           ("roles: [{role: approver, uid: 1, person: a, groups: [A b]}]", "must be names"),
                           ("roles: [{role: approver, uid: 1, person: a, principal: acme}]", "TENANT/NAME"),
                           ("roles: [{role: admin, uid: 1, groups: [finance]}]", "only an approver has groups"),
                           ("roles: [{role: tenant-auditor, uid: 1}]", "needs the tenant"),
                           ("roles: [{role: tenant-admin, uid: 1}]", "needs the tenant"),
                           ("roles: [{role: auditor, group: no-such-group}]", "no group"),
                           ("roles: [{role: auditor, uid: 1, gid: 1}]", "one of uid, gid and group"),
                           ("roles: [{role: auditor, gid: -1}]", "gid"),
                           ("roles: [{role: auditor}]", "uid")):
            config = c.store.parent / "wrong.yaml"
            config.write_text(text + "\n")
            done = crib.subprocess.run([str(crib.BUILD / "toolcribd"), "--config", str(config), "--store", str(c.store)],
                                       capture_output=True, text=True, timeout=crib.DEADLINE, env=c.env)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    crib.main()
