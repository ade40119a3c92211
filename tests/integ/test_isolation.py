"""Two tenants with equal tool names: nothing crosses, and what is not granted looks like what does not exist."""
import json
import os
import threading

import crib

ROUNDS = int(os.environ.get("TOOLCRIB_ISOLATION_CALLS", "1000"))


class Isolation(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        self.keys = {}
        for tenant in ("alpha", "beta"):
            c.tool(crib.tool_yaml(f"whoami_{tenant}", "{type: static, text: %s}" % tenant), f"{tenant}.yaml")
            c.tool(crib.ECHO)
            self.keys[tenant] = c.tenant(tenant, f"whoami_{tenant} --as whoami", "echo")
        c.start()

    def test_interleaved_calls_never_cross(self):
        crossed, done = [], []

        def agent(tenant, make):
            peer = make(self.keys[tenant])
            for i in range(ROUNDS // 8):
                # Equal ids, equal names, equal arguments on all connections (SEC S-B01).
                got = peer.call("whoami", {}, crib.MODERN)["result"]["content"][0]["text"]
                said = peer.call("echo", {"text": f"{tenant}-{i}"}, crib.MODERN)["result"]["content"][0]["text"]
                if got != tenant or said != f"{tenant}-{i}":
                    crossed.append((tenant, got, said))
            done.append(tenant)
            peer.close()

        agents = [threading.Thread(target=agent, args=(tenant, make))
                  for tenant in self.keys for make in (self.crib.http, self.crib.tcp)]
        for thread in agents:
            thread.start()
        for thread in agents:
            thread.join()
        self.assertEqual(crossed, [])
        self.assertEqual(len(done), len(agents))
        for tenant in self.keys:
            rows = self.crib.json("audit", "calls", "--tenant", tenant, "--limit", "1000000")
            self.assertEqual(len(rows), 2 * 2 * (ROUNDS // 8))
            self.assertEqual({row["outcome"] for row in rows}, {"ok"})

    def test_ungranted_and_unknown_tools_answer_alike(self):
        c = self.crib
        # Same length, so that nothing but the name differs; one exists for the other tenant, one nowhere.
        for make in (c.tcp, c.http):
            peer = make(self.keys["alpha"])
            for rev in (None, crib.MODERN):
                if rev is None:
                    peer.initialize()
                ungranted = peer.call("whoami_beta", {}, rev)
                unknown = peer.call("whoami_gama", {}, rev)
                for got in (ungranted, unknown):
                    got.pop("id")
                self.assertEqual(json.dumps(ungranted).replace("whoami_beta", "X"),
                                 json.dumps(unknown).replace("whoami_gama", "X"))
                self.assertEqual(unknown["error"]["code"], -32602)
            peer.close()

    def test_a_cursor_of_one_tenant_is_nothing_to_another(self):
        c = self.crib
        text = "---\n".join(crib.tool_yaml(f"t{i:03}", "{type: builtin, function: echo}") for i in range(150))
        c.tool(text, "many.yaml")
        for tenant in self.keys:
            c.cli("grant", "add", tenant, "t*")
        alpha, beta = c.http(self.keys["alpha"]), c.http(self.keys["beta"])
        first = alpha.ask("tools/list", {}, crib.MODERN)["result"]
        self.assertEqual(len(first["tools"]), 100)
        self.assertEqual(alpha.tools(crib.MODERN), sorted([f"t{i:03}" for i in range(150)] + ["echo", "whoami"]))
        for cursor in (first["nextCursor"], first["nextCursor"][:-2] + "AA", "", "x", "v1.AAAA.BBBB"):
            self.assertEqual(beta.ask("tools/list", {"cursor": cursor}, crib.MODERN)["error"]["code"], -32602, cursor)

    def test_tenants_see_only_their_own_records(self):
        peer = self.crib.http(self.keys["alpha"])
        call = peer.call("whoami", {}, crib.MODERN)["result"]["_meta"]["dev.toolcrib/callId"]
        done = self.crib.run("audit", "show", call, "--tenant", "beta")
        self.assertEqual(done.returncode, 1)
        self.assertIn("not found", done.stderr)


if __name__ == "__main__":
    crib.main()
