"""Roles: who may give which command beside the owner of the store, over a socket of their own (SEC S-318)."""
import json
import os
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
"""


@unittest.skipUnless(os.geteuid() == 0, "needs other users to be")
class Roles(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        c.tool(crib.ECHO)
        c.tenant("acme", "echo")
        c.tenant("other", "echo")
        self.socket = c.store.parent / "admin-public.sock"
        for folder in self.socket.parents:
            if str(folder).startswith("/tmp/") and folder.exists():
                folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
        c.start(ROLES.format(socket=self.socket))

    def say(self, uid, command, **args):
        """What the server answers to a user: rows, or the error."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setgid(uid)
                os.setuid(uid)
                with socket.socket(socket.AF_UNIX) as s:
                    s.settimeout(crib.DEADLINE)
                    s.connect(str(self.socket))
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
                         "uid 40002 has the role auditor, and tenant suspend needs admin or operator")
        self.assertIsInstance(self.say(40003, "audit calls", tenant="acme"), list)
        for args in ({"tenant": "other"}, {}):
            error = self.say(40003, "audit admin", **args)
            self.assertEqual((error["code"], error["hint"]), ("denied", "this role reads one tenant's audit: --tenant acme"))
        self.assertEqual(self.say(40003, "tenant list")["code"], "denied")
        self.assertEqual(self.say(40004, "status")["message"], "uid 40004 is no administrator of this store")

    def test_refused_commands_are_recorded_and_a_flood_of_them_is_counted(self):
        for _ in range(30):
            self.assertEqual(self.say(40004, "tenant list")["code"], "denied")
        rows = [r for r in self.crib.json("audit", "admin", "--limit", "0") if "uid 40004: tenant list" in (r["detail"] or "")]
        self.assertTrue(1 <= len(rows) <= 30)

    def test_what_a_role_is_not_is_said_at_the_start(self):
        c = self.crib
        c.stop()
        for text, says in (("roles: [{role: king, uid: 1}]", "must be one of"),
                           ("roles: [{role: auditor, uid: 1, tenant: acme}]", "only the role tenant-auditor"),
                           ("roles: [{role: tenant-auditor, uid: 1}]", "needs the tenant"),
                           ("roles: [{role: auditor}]", "uid")):
            config = c.store.parent / "wrong.yaml"
            config.write_text(text + "\n")
            done = crib.subprocess.run([str(crib.BUILD / "toolcribd"), "--config", str(config), "--store", str(c.store)],
                                       capture_output=True, text=True, timeout=crib.DEADLINE, env=c.env)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    crib.main()
