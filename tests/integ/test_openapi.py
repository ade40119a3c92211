"""A REST API from its description: documents for review that can be stored as they are, and calls that arrive."""
import http.server
import json
import threading

import crib

API = """openapi: %s
info: {title: Pets, version: "1"}
servers: [{url: "https://pets.example.com/v1"}]
paths:
  /pets:
    get:
      operationId: list pets
      summary: List the pets
      parameters:
      - $ref: '#/components/parameters/limit'
      - {name: tag, in: query, schema: {type: array, items: {type: string}}}
      - {name: 'filter[age]', in: query, schema: {type: integer}}
      - {name: X-Trace, in: header, schema: {type: string}}
      - {name: sid, in: cookie, schema: {type: string}}
      responses: {'200': {description: The pets}}
    post:
      operationId: add_pet
      description: Add a pet.
      requestBody:
        required: true
        content: {application/json: {schema: {$ref: '#/components/schemas/Pet'}}}
      responses: {'200': {description: The pet}}
  /pets/{pet id}:
    parameters:
    - {name: pet id, in: path, required: true, schema: {type: string}}
    put:
      operationId: rename_pet
      requestBody:
        content: {application/x-www-form-urlencoded: {schema: {type: object, properties: {name: {type: string}}}}}
      responses: {'200': {description: The pet}}
    patch:
      operationId: upload
      requestBody: {required: true, content: {image/png: {}}}
      responses: {'200': {description: The pet}}
components:
  parameters:
    limit: {name: limit, in: query, schema: {type: integer, maximum: 100}}
  schemas:
    Pet:
      type: object
      required: [id, name]
      properties:
        id: {type: integer, readOnly: true}
        name: {type: string}
        friends: {type: array, items: {$ref: '#/components/schemas/Pet'}}
"""


class Pets(http.server.BaseHTTPRequestHandler):
    """Says what it was asked."""
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        text = json.dumps({"asked": f"{self.command} {self.path}", "body": body, "type": self.headers.get("Content-Type"),
                           "trace": self.headers.get("X-Trace")}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *words):
        pass


class OpenApi(crib.Case):
    def write(self, name, text):
        path = self.crib.dir / name
        path.write_text(text)
        return path

    def serve(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pets)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_address[1]}/v1"

    def test_documents_for_review_and_what_they_could_not_say(self):
        for version in ("3.0.3", "3.1.0"):
            with self.subTest(version=version):
                done = self.crib.run("import", "openapi", self.write("api.yaml", API % version))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout.count("---\n"), 2)
                self.assertIn("url: https://pets.example.com/v1/pets{?limit,tag*}", done.stdout)
                self.assertEqual(done.stderr, f"""toolcrib: {self.crib.dir}/api.yaml:9:7: the parameter sid is left out: cookies are not sent
toolcrib: {self.crib.dir}/api.yaml:33:7: the operation is left out: bodies are JSON or forms
""")
        self.assertFalse(self.crib.store.exists(), "nothing is stored, nothing needs a store")

    def test_the_documents_can_be_stored_and_their_calls_arrive(self):
        out = self.crib.dir / "tools"
        said = self.crib.cli("import", "openapi", self.write("api.yaml", API % "3.0.3"), "--server", self.serve(), "--prefix", "pets_",
                             "--output", out)
        self.assertIn("3 documents in 3 files", said)
        self.crib.init()
        self.crib.cli("apply", "-f", out)
        self.crib.cli("tenant", "add", "acme")
        self.crib.cli("grant", "add", "acme", "pets_*")

        def call(tool, arguments):
            return json.loads(self.crib.cli("call", "acme", tool, "--args", json.dumps(arguments)))
        self.assertEqual(call("pets_list_pets", {"limit": 5, "tag": ["a", "b c"], "filter_age": 3, "X-Trace": "t"}),
                         {"asked": "GET /v1/pets?limit=5&tag=a&tag=b%20c&filter%5Bage%5D=3", "body": "", "type": None, "trace": "t"})
        self.assertEqual(call("pets_list_pets", {})["asked"], "GET /v1/pets")
        got = call("pets_add_pet", {"name": "Rex", "friends": [{"name": "Tom"}]})
        self.assertEqual((got["type"], json.loads(got["body"])), ("application/json", {"name": "Rex", "friends": [{"name": "Tom"}]}))
        got = call("pets_rename_pet", {"pet_id": "a/b", "name": "Max & Co"})
        self.assertEqual((got["asked"], got["body"]), ("PUT /v1/pets/a%2Fb", "name=Max%20%26%20Co"))
        done = self.crib.run("call", "acme", "pets_add_pet", "name=Rex", "id=7")
        self.assertEqual(done.returncode, 1)
        self.assertIn("id", done.stderr)

    def test_a_description_in_json_from_standard_input(self):
        api = {"openapi": "3.1.0", "paths": {"/x": {"get": {}}}}
        text = self.crib.run("import", "openapi", "-", "--server", "https://a.example", stdin=json.dumps(api)).stdout
        self.assertIn("name: get_x\n", text)
        self.assertIn("description: GET /x\n", text)
        rows = self.crib.json("import", "openapi", "-", "--server", "https://a.example", stdin=json.dumps(api))
        self.assertEqual([row["name"] for row in rows], ["get_x"])

    def test_what_is_no_description_is_refused_with_its_place(self):
        for text, words, why in (("swagger: '2.0'\n", (), "api.yaml:1:1: descriptions of Swagger 2.0"), ("a: 1\n", (), "no OpenAPI description"),
                                 (API % "3.2.0", (), "api.yaml:1:1: OpenAPI 3.2.0 is not known"), ("[\n", (), "api.yaml:"),
                                 ("openapi: 3.1.0\npaths: {/x: {get: {}}}\n", (), "--server https://"),
                                 (API % "3.1.0", ("--server", "localhost"), "no URL of the form")):
            with self.subTest(text=text[:30]):
                done = self.crib.run("import", "openapi", self.write("api.yaml", text), *words)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(why, done.stderr)


if __name__ == "__main__":
    crib.main()
