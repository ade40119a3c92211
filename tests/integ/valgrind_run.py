"""A short life of the daemon under valgrind: calls of every handler, a change, an orderly stop."""
import crib


class Valgrind(crib.Case):
    def test_short_run(self):
        crib.DEADLINE = 120
        c = self.crib.init()
        c.tool(crib.ECHO)
        c.tool(crib.tool_yaml("exec_true", "{type: exec, argv: [/bin/true], stdin: none, output: text}"), "true.yaml")
        key = c.tenant("acme", "*")
        c.start(wrapper=["valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite",
                         "--trace-children=no", "--child-silent-after-fork=yes"])
        for make in (c.http, c.tcp, c.unix):
            peer = make(key)
            for rev in (None, crib.MODERN):
                if rev is None:
                    peer.initialize()
                peer.tools(rev)
                peer.call("echo", {"text": "x"}, rev)
                peer.call("echo", {}, rev)
                peer.call("exec_true", {}, rev)
                peer.call("unknown", {}, rev)
            peer.close()
        c.cli("tool", "disable", "echo")
        log = c.log
        code = c.stop()
        self.assertEqual(code, 0, log.read_text()[-4000:])


if __name__ == "__main__":
    crib.main()
