"""What commands that change something say when they have done it: one sentence for each thing changed."""
import crib

# COMMAND, then what it prints.
WALK = [
    ("tenant add acme", "tenant acme added"),
    ("tenant set acme --title Acme", "tenant acme changed"),
    ("tool add echo.yaml", "tool echo: version 1 stored"),
    ("grant add acme echo", "acme: echo granted"),
    ("grant set acme echo --rate 5/s", "grant of echo to acme changed"),
    ("grant remove acme echo --yes", "echo no longer granted to acme"),
    ("tool disable echo", "tool echo disabled, 0 calls cancelled"),
    ("tool enable echo", "tool echo enabled"),
    ("tool remove echo --yes", "tool echo removed"),
    ("tenant suspend acme --yes", "tenant acme suspended: 0 calls cancelled, 0 connections ended"),
    ("tenant resume acme", "tenant acme resumed"),
    ("tenant remove acme --yes", "tenant acme removed"),
]


class Replies(crib.Case):
    def test_each_says_what_was_done(self):
        c = self.crib.init()
        (c.dir / "echo.yaml").write_text(crib.ECHO)
        for command, reply in WALK:
            with self.subTest(command=command):
                words = [c.dir / word if word == "echo.yaml" else word for word in command.split()]
                self.assertEqual(c.cli(*words), reply + "\n")


if __name__ == "__main__":
    crib.main()
