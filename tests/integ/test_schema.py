"""toolcrib schema check: places in the files, the sentences of a refused call, exit status, dialects."""
import crib

SCHEMA = """$schema: %s
type: object
required: [location]
properties:
  location: {type: string}
  units: {enum: [metric, imperial]}
  day: {format: date}
"""
NEW = "https://json-schema.org/draft/2020-12/schema"


class Schema(crib.Case):
    def write(self, name, text):
        path = self.crib.dir / name
        path.write_text(text)
        return path

    def test_a_good_schema_and_good_documents_say_nothing(self):
        for dialect in (NEW, "https://json-schema.org/draft/2019-09/schema", "http://json-schema.org/draft-07/schema#",
                        "http://json-schema.org/draft-06/schema#", "http://json-schema.org/draft-04/schema#"):
            with self.subTest(dialect=dialect):
                done = self.crib.run("schema", "check", self.write("s.yaml", SCHEMA % dialect), self.write("a.json", '{"location": "here"}'))
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_documents_are_refused_in_the_words_of_a_call(self):
        schema = self.write("s.yaml", SCHEMA % NEW)
        bad = self.write("bad.json", '{"units": "kelvin",\n "day": "tomorrow"}')
        done = self.crib.run("schema", "check", schema, bad)
        self.assertEqual(done.returncode, 4)
        self.assertIn("Missing required argument: location", done.stdout)
        self.assertIn('Invalid argument: units: must be one of "metric", "imperial"; got "kelvin" (/properties/units/enum)', done.stdout)
        self.assertIn("bad.json:1:", done.stdout)
        self.assertNotIn("tomorrow", done.stdout)
        self.assertNotIn("date", done.stdout)
        done = self.crib.run("--json", "schema", "check", "--formats", schema, bad)
        self.assertEqual(done.returncode, 4)
        self.assertIn("must be a date like 2024-02-29", done.stdout)
        self.assertIn("bad.json:2:", done.stdout)

    def test_numbers_are_compared_as_written(self):
        schema = self.write("s.yaml", "properties: {n: {type: integer, exclusiveMaximum: 100000000000000000000000}, step: {multipleOf: 1e-30}}\n")
        good = self.write("good.json", '{"n": 99999999999999999999999, "step": 12345678901234567890.000000000000000000000000000001}')
        done = self.crib.run("schema", "check", schema, good)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        bad = self.write("bad.yaml", "n: 1e23\nstep: 1e-31\n")
        done = self.crib.run("schema", "check", schema, bad)
        self.assertEqual(done.returncode, 4)
        self.assertIn("must be less than 100000000000000000000000", done.stdout)
        self.assertIn("must be a multiple of 1e-30", done.stdout)

    def test_a_definition_says_whether_formats_decide(self):
        tool = """name: day
description: Says the day
inputSchema: {type: object, properties: {day: {type: string, format: date}}}
%shandler: {type: builtin, function: echo}
"""
        self.crib.init()
        for formats, status in (("", 0), ("formats: annotate\n", 0), ("formats: assert\n", 1)):
            with self.subTest(formats=formats):
                done = self.crib.run("tool", "test", self.write("t.yaml", tool % formats), "day=tomorrow")
                self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn("must be a date like 2024-02-29", done.stderr)
        done = self.crib.run("tool", "test", self.write("t.yaml", tool % "formats: maybe\n"), "day=tomorrow")
        self.assertIn("t.yaml:4:", done.stderr)

    def test_a_bad_schema_is_named_by_its_place(self):
        done = self.crib.run("schema", "check", self.write("s.yaml", "type: object\nproperties:\n  a: {typ: string}\n"))
        self.assertEqual(done.returncode, 4)
        self.assertIn("s.yaml:3:", done.stdout)
        self.assertIn("did you mean type?", done.stdout)
        done = self.crib.run("schema", "check", self.write("s.yaml", SCHEMA % "http://json-schema.org/draft-03/schema#"))
        self.assertEqual(done.returncode, 4)
        self.assertIn("draft-03", done.stdout)


if __name__ == "__main__":
    crib.main()
