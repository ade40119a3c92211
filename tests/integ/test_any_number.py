"""Any number of documents: what a store holds can be exported, and what was exported can be applied (N-05)."""
import json
import socket

import crib

MORE = 1100                             # than one command could take: documents of one file, and files of a folder


def tenants(n, first=0):
    return "".join(f"---\nkind: tenant\nname: t{i}\ntitle: Number {i}\n" for i in range(first, first + n))


class AnyNumber(crib.Case):
    def setUp(self):
        super().setUp()
        self.crib.init()
        self.other = crib.Crib()
        self.addCleanup(self.other.close)
        self.other.init()

    def write(self, name, text):
        path = self.crib.dir / name
        path.write_text(text)
        return path

    def count(self, of=None):
        return len((of or self.crib).rows("SELECT 1 FROM tenant"))

    def test_n05_what_a_store_exports_it_applies_in_one_file_and_in_many(self):
        """Without a server into one store, with one into the other; both ways back say the same bytes."""
        self.crib.cli("apply", "-f", self.write("many.yaml", tenants(MORE)))
        said = self.crib.cli("export")
        self.assertEqual(said.count("kind: tenant"), MORE)
        self.assertEqual(self.crib.cli("apply", "-f", "-", stdin=said), "nothing differs\n")
        folder = self.crib.dir / "out"
        self.assertIn(f"{MORE} documents in {MORE} files", self.crib.cli("export", "--output", folder))
        self.assertEqual(len(list((folder / "tenant").iterdir())), MORE)
        self.assertEqual([p.name for p in folder.iterdir()], ["tenant"], "nothing of the making stays")
        self.other.start()
        self.assertTrue(self.other.cli("apply", "-f", folder).endswith(f"\n{MORE} added, 0 changed, 0 removed\n"))
        self.assertEqual(self.other.cli("export"), said)

    def test_n05_what_is_wrong_behind_the_first_piece_has_its_place_and_nothing_is_done(self):
        """In a text that YAML refuses, in a document that the server refuses, and in one that only the store refuses."""
        lines = 4 * MORE
        for text, place, why in (("kind: *a\n", 1, "aliases"), ("kind: tenant\nname: u\nlimit: {}\n", 3, "did you mean limits?"),
                                 ("kind: grant\ntenant: nobody\ntool: t\n", 2, "tenant nobody: not found")):
            path = self.write("wrong.yaml", tenants(MORE) + "---\n" + text + tenants(9, MORE))
            for server in (self.crib, self.other):
                with self.subTest(why=why, server=server is self.other):
                    done = server.run("apply", "-f", path)
                    self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                    self.assertIn(f"wrong.yaml:{lines + 1 + place}:", done.stderr)
                    self.assertIn(why, done.stderr)
                    self.assertEqual(self.count(server), 0)
            if not self.other.daemon:
                self.other.start()

    def test_n05_a_piece_that_does_not_come_leaves_nothing(self):
        """Whoever hangs up, or sends what is no piece, has changed nothing; others go on."""
        self.crib.start()
        first = {"command": "apply", "args": {"documents": [{"kind": "tenant", "name": "a"}]}, "more": True}
        for then in (b"", b'{"documents":[{"kind":"tenant","name":"b"}],"more":true}\n', b'{"command":"status","args":{}}\n', b"[]\n"):
            with self.subTest(then=then), socket.socket(socket.AF_UNIX) as s:
                s.settimeout(crib.DEADLINE)
                s.connect(str(self.crib.path / "admin.sock"))
                s.sendall(json.dumps(first).encode() + b"\n" + then)
                s.shutdown(socket.SHUT_WR)
                got = b""
                while more := s.recv(65536):
                    got += more
                self.assertIn(b'{"error":', got)
        self.assertEqual(self.count(), 0)
        self.assertEqual(self.crib.cli("apply", "-f", self.write("a.yaml", tenants(1))), "+ tenant t0\n1 added, 0 changed, 0 removed\n")

    def test_n05_one_connection_takes_what_follows_a_refusal(self):
        """The pieces of a command that was refused at once are no commands; the next line is one."""
        self.crib.start()
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(crib.DEADLINE)
            s.connect(str(self.crib.path / "admin.sock"))
            for line in ({"command": "apply", "args": {"documents": [{"kind": "tenant", "name": "a"}], "prune-limit": "x"}, "more": True},
                         {"documents": [{"kind": "tenant", "name": "b"}], "more": True}, {"documents": []},
                         {"command": "apply", "args": {"documents": [{"kind": "tenant", "name": "c"}]}, "more": True},
                         {"documents": [{"kind": "tenant", "name": "d"}]}):
                s.sendall(json.dumps(line).encode() + b"\n")
            got = s.makefile("rb")
            self.assertIn("prune-limit", json.loads(got.readline())["error"]["where"])
            self.assertEqual([json.loads(got.readline())["row"].get("name") for _ in range(3)], ["c", "d", None])
            self.assertEqual(json.loads(got.readline()), {"done": True})

    def test_n05_others_take_no_pieces(self):
        self.crib.start()
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(crib.DEADLINE)
            s.connect(str(self.crib.path / "admin.sock"))
            s.sendall(b'{"command":"tenant list","args":{},"more":true}\n{"documents":[]}\n{"command":"tenant list","args":{}}\n')
            got = s.makefile("rb")
            self.assertIn("in pieces", json.loads(got.readline())["error"]["message"])
            self.assertEqual(json.loads(got.readline()), {"done": True})

    def test_n05_documents_end_where_yaml_ends_them(self):
        """Marks, comments, directives and dashes within a text, with more than a piece in front and behind."""
        odd = ('# first\n%YAML 1.2\n---\nname: a\ndescription: |-\n  x\n  ---\n  y\ninputSchema: {type: object}\n'
               'handler: {type: builtin, function: echo}\n...\n# between\n%YAML 1.2\n--- \nkind: tenant\n'
               'name: b\n---\n---\n# nothing\n---\n{"kind": "tenant", "name": "c"}\n...\n...\n')
        big = "".join(f"---\nkind: tenant\nname: t{i}\ntitle: {'x' * 100}\n" for i in range(MORE))
        self.assertGreater(len(big), 128 << 10)
        path = self.write("odd.yaml", odd + big + "...\n" + odd.replace("name: a", "name: d").replace("name: b", "name: e").replace('"c"', '"f"'))
        self.assertTrue(self.crib.cli("apply", "-f", path).endswith(f"\n{MORE + 6} added, 0 changed, 0 removed\n"))
        self.assertEqual([self.crib.json("tool", "show", name)[0]["definition"]["description"] for name in "ad"], ["x\n---\ny"] * 2)

    def test_n05_a_pipe_is_asked_for_the_place_of_what_is_wrong(self):
        text = tenants(MORE) + "---\nkind: tenant\nname: B!\n"
        done = self.crib.run("apply", "-f", "-", stdin=text)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"-:{4 * MORE + 3}:", done.stderr)

    def test_n05_an_export_that_fails_leaves_no_file(self):
        self.crib.cli("apply", "-f", self.write("a.yaml", tenants(3)))
        folder = self.crib.dir / "out"
        (folder / "tenant").mkdir(parents=True)
        (folder / "tenant" / "t1.yaml").write_text("mine")
        done = self.crib.run("export", "--output", folder)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("t1.yaml exists already", done.stderr)
        self.assertEqual([str(p.relative_to(folder)) for p in sorted(folder.rglob("*"))], ["tenant", "tenant/t1.yaml"])
        self.assertEqual((folder / "tenant" / "t1.yaml").read_text(), "mine")

    def test_n05_who_agreed_to_a_prune_agreed_to_all_its_pieces(self):
        """A request is for these documents, however many pieces they come in, and for no others."""
        self.crib.cli("approval", "policy", "two")
        self.crib.cli("apply", "-f", self.write("all.yaml", tenants(MORE)))
        words = ("apply", "--prune", "--yes", "-f")
        fewer = self.write("fewer.yaml", tenants(MORE - 1))
        asked = [self.crib.run(*words, path).stderr for path in (fewer, fewer, self.write("other.yaml", tenants(MORE - 2)))]
        ids = [text.split("request ")[1].split()[0] for text in asked]
        self.assertEqual(ids[0], ids[1])
        self.assertNotEqual(ids[0], ids[2])


if __name__ == "__main__":
    crib.main()
