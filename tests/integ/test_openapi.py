"""A REST API from its description: documents for review that can be stored as they are, and calls that arrive."""
import base64
import http.server
import json
import sys
import threading

import crib

sys.path.insert(0, str(crib.SOURCE / "tests/integ/openapi"))
import describe

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
    answers, seen = {}, []      # what each method answers; all requests

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode("utf-8", "surrogateescape")
        self.seen.append((self.command, self.path, body, self.headers))
        text = json.dumps(self.answers[self.command] if self.command in self.answers else {"asked": f"{self.command} {self.path}", "body": body, "type": self.headers.get("Content-Type"),
                           "trace": self.headers.get("X-Trace")}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_PATCH = answer

    def log_message(self, *words):
        pass


class OpenApi(crib.Case):
    def write(self, name, text):
        path = self.crib.dir / name
        path.write_text(text)
        return path

    def serve(self):
        self.addCleanup(setattr, Pets, "answers", {})
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
                self.assertEqual(done.stdout.count("---\n"), 3)
                self.assertIn("url: https://pets.example.com/v1/pets{?limit,tag*}", done.stdout)
                self.assertEqual(done.stderr, f"""toolcrib: {self.crib.dir}/api.yaml:9:7: the parameter sid is left out: cookies are not sent
""")
        self.assertFalse(self.crib.store.exists(), "nothing is stored, nothing needs a store")

    def test_the_documents_can_be_stored_and_their_calls_arrive(self):
        out = self.crib.dir / "tools"
        said = self.crib.cli("import", "openapi", self.write("api.yaml", API % "3.0.3"), "--server", self.serve(), "--prefix", "pets_",
                             "--output", out)
        self.assertIn("4 documents in 4 files", said)
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
        image = b"\x89PNG\r\n\x1a\n\x00\xff"
        got = call("pets_upload", {"pet_id": "7", "body": base64.b64encode(image).decode()})
        self.assertEqual((got["asked"], got["type"]), ("PATCH /v1/pets/7", "image/png"))
        self.assertEqual(Pets.seen[-1][2].encode("utf-8", "surrogateescape"), image)
        done = self.crib.run("call", "acme", "pets_upload", "pet_id=7", "body=no base64")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the body is no base64", done.stdout + done.stderr)
        done = self.crib.run("call", "acme", "pets_add_pet", "name=Rex", "id=7")
        self.assertEqual(done.returncode, 1)
        self.assertIn("id", done.stderr)

    def stored(self, name, server, prefix=""):
        """The tools of one of the descriptions in openapi/, granted to acme; what was said about it."""
        out, file = self.crib.dir / "tools", crib.SOURCE / "tests/integ/openapi" / name
        done = self.crib.run("import", "openapi", file, "--server", server, "--output", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.crib.init()
        for secret in ("api_key", "oauth"):
            self.crib.cli("secret", "set", secret, stdin="k3y-" + secret)
        self.crib.cli("apply", "-f", out)
        self.crib.cli("tenant", "add", "acme")
        self.crib.cli("grant", "add", "acme", "*")
        return done.stderr.replace(str(file), name)

    def call(self, tool, **arguments):
        return self.crib.run("call", "acme", tool, "--args", json.dumps(arguments))

    def test_a_shop_in_3_0(self):
        Pets.answers = {"POST": {"sku": "AB-1", "name": "Cup", "price": 3, "created": "2026-07-28T10:00:00Z"}, "GET": {"items": [{"name": "Cup"}]}}
        said = self.stored("shop-3.0.yaml", self.serve())
        self.assertIn("shop-3.0.yaml:105:11: the operation is left out: bodies of several parts (multipart) are not sent", said)
        self.assertNotIn("createProduct", said)
        made = self.crib.json("tool", "show", "createProduct")[0]["definition"]
        self.assertEqual(set(made["inputSchema"]["properties"]), {"name", "price", "color", "sku", "cost"})
        self.assertEqual(made["inputSchema"]["required"], ["name", "price", "sku"])
        page = self.crib.json("tool", "show", "listProducts")[0]["definition"]
        self.assertEqual(page["handler"]["query"], {"filter[color]": "{/filter_color}", "filter[max_price]": "{/filter_max_price}"})
        self.assertEqual(page["outputSchema"]["required"], ["items"])
        got = self.call("createProduct", name="Cup", price=3, sku="AB-1", cost=1)
        self.assertEqual(json.loads(got.stdout)["created"], "2026-07-28T10:00:00Z")
        self.assertEqual(Pets.seen[-1][:2], ("POST", "/v1/products"))
        self.assertEqual(json.loads(Pets.seen[-1][2]), {"name": "Cup", "price": 3, "sku": "AB-1", "cost": 1})
        self.assertEqual(Pets.seen[-1][3]["X-Shop-Key"], "k3y-api_key")
        done = self.call("listProducts", filter_color="red", page=2, sort=["a", "b"])
        self.assertEqual(Pets.seen[-1][1], "/v1/products?page=2&sort=a,b&filter%5Bcolor%5D=red")
        self.assertNotEqual(done.returncode, 0, "the answer is not what the description says")
        self.call("setTags", sku="AB-1", body=["new", "cheap"])
        self.assertEqual((Pets.seen[-1][1], json.loads(Pets.seen[-1][2])), ("/v1/products/AB-1/tags", ["new", "cheap"]))
        self.assertNotEqual(self.call("setTags", sku="AB-1").returncode, 0)
        self.call("createOrder", customer="a@shop.example", lines=[{"sku": "AB-1", "count": 1}])
        self.assertEqual(Pets.seen[-1][3]["Authorization"], "Bearer k3y-oauth")

    def test_a_desk_in_3_1(self):
        Pets.answers = {"GET": [{"id": 1, "title": "t", "state": "open"}], "PUT": "closed", "PATCH": {"id": 1, "title": "t", "state": "open"}}
        self.assertEqual(self.stored("desk-3.1.yaml", self.serve()), "")
        got = self.call("tickets.list", **{"from": "2026-07-01", "state": ["open", "closed"]})
        self.assertEqual(json.loads(got.stdout)[0]["id"], 1, got.stderr)
        self.assertEqual(Pets.seen[-1][1], "/v1/tickets?state=open&state=closed&from=2026-07-01")
        self.assertEqual(Pets.seen[-1][3]["Accept"], "application/vnd.desk+json")
        got = self.call("tickets.change", id=1, body=[{"op": "remove", "path": "/assignee"}])
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual(json.loads(Pets.seen[-1][2]), [{"op": "remove", "path": "/assignee"}])
        self.assertEqual(Pets.seen[-1][3]["Content-Type"], "application/json-patch+json")
        self.call("tickets.change", id=1)
        self.assertEqual(Pets.seen[-1][2], "", "no body without its argument")
        self.call("tickets.setState", id=1, body="closed")
        self.assertEqual(Pets.seen[-1][2], '"closed"')
        self.assertNotEqual(self.call("tickets.setState", id=1, body="lost").returncode, 0)
        either = self.crib.json("tool", "show", "tickets.get")[0]["definition"]["outputSchema"]
        self.assertEqual(len(either["anyOf"]), 2)

    def test_a_description_in_json_from_standard_input(self):
        api = {"openapi": "3.1.0", "paths": {"/x": {"get": {}}}}
        text = self.crib.run("import", "openapi", "-", "--server", "https://a.example", stdin=json.dumps(api)).stdout
        self.assertIn("name: get_x\n", text)
        self.assertIn("description: GET /x\n", text)
        rows = self.crib.json("import", "openapi", "-", "--server", "https://a.example", stdin=json.dumps(api))
        self.assertEqual([row["name"] for row in rows], ["get_x"])

    def test_n06_a_description_larger_than_documents_may_be(self):
        api = describe.describe(250)
        small, large = json.dumps(api), json.dumps(api, indent=24)
        self.assertGreater(len(large), 4 << 20)
        done = self.crib.run("import", "openapi", self.write("api.json", large), "--output", self.crib.dir / "large")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("250 documents in 250 files", done.stdout)
        self.crib.cli("import", "openapi", self.write("small.json", small), "--output", self.crib.dir / "small")
        for file in (self.crib.dir / "small").iterdir():
            self.assertEqual(file.read_text(), (self.crib.dir / "large" / file.name).read_text())
        self.crib.init()
        self.crib.cli("apply", "-f", self.crib.dir / "large")
        self.assertEqual(len(self.crib.json("tool", "list")), 250)
        done = self.crib.run("apply", "-f", self.crib.dir / "api.json")
        self.assertIn("longer than 4 MiB", done.stderr, "other documents have the bound that they had")

    def test_n06_bodies_and_servers_of_single_operations(self):
        """What was a tool without body to the wrong host (upload-release-asset of GitHub)."""
        own = self.serve()
        body = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
        name = {"name": "name", "in": "query", "schema": {"type": "string"}}
        api = {"openapi": "3.0.3", "servers": [{"url": "https://pets.example.com"}], "paths": {
            "/assets": {"post": {"operationId": "upload", "servers": [{"url": own}], "parameters": [name], "requestBody": body}},
            "/raw": {"servers": [{"url": own}], "post": {"operationId": "render", "requestBody": {"content": {"text/plain": {}, "text/x-m": {}}}}},
            "/form": {"post": {"operationId": "send", "requestBody": {"content": {"multipart/form-data": {"schema": {"type": "object"}}}}}}}}
        out = self.crib.dir / "tools"
        done = self.crib.run("import", "openapi", self.write("api.json", json.dumps(api, indent=1)), "--output", out)
        self.assertEqual(sorted(file.name for file in out.iterdir()), ["render.yaml", "upload.yaml"])
        self.assertIn("the operation is left out: bodies of several parts (multipart) are not sent", done.stderr)
        self.crib.init()
        self.crib.cli("apply", "-f", out)
        self.crib.cli("tenant", "add", "acme")
        self.crib.cli("grant", "add", "acme", "*")
        self.assertEqual(self.call("upload", name="a.bin", body=base64.b64encode(b"\0\1\xfe").decode()).returncode, 0)
        self.assertEqual(Pets.seen[-1][:3], ("POST", "/v1/assets?name=a.bin", "\0\1\udcfe"))
        self.assertEqual(Pets.seen[-1][3]["Content-Type"], "application/octet-stream")
        self.call("upload", body="# text\n", body_encoding="text")
        self.assertEqual(Pets.seen[-1][2], "# text\n")
        self.call("render", body="**bold**")
        self.assertEqual((Pets.seen[-1][1:3], Pets.seen[-1][3]["Content-Type"]), (("/v1/raw", "**bold**"), "text/plain"))

    def test_some_operations_with_headers_that_the_description_lacks(self):
        api = {"openapi": "3.1.0", "servers": [{"url": self.serve()}], "paths": {
            "/a": {"get": {"operationId": "a", "tags": ["one"], "parameters": [
                {"name": "x-version", "in": "header", "required": True, "schema": {"type": "string"}}]}},
            "/b/{c}": {"get": {"operationId": "b"}}}}
        out, file = self.crib.dir / "tools", self.write("api.json", json.dumps(api))
        done = self.crib.run("import", "openapi", file, "--tag", "one", "--header", "Authorization: Bearer {secret:pets}",
                             "--header", "X-Version: 2022-11-28", "--output", out)
        self.assertEqual((done.stdout, done.stderr), (f"1 document in 1 file written to {out}\n",
                                                      f"toolcrib: {file}:1:1: requests carry a secret: toolcrib secret set pets\n"))
        self.crib.init()
        self.crib.cli("secret", "set", "pets", stdin="s3same")
        self.crib.cli("apply", "-f", out)
        self.crib.cli("tenant", "add", "acme")
        self.crib.cli("grant", "add", "acme", "*")
        self.assertEqual(self.call("a").returncode, 0)
        self.assertEqual((Pets.seen[-1][1], Pets.seen[-1][3]["Authorization"], Pets.seen[-1][3]["X-Version"]), ("/v1/a", "Bearer s3same", "2022-11-28"))
        done = self.crib.run("import", "openapi", file, "--path", "/b/d")
        self.assertIn("api.json:1:1: no operation has the path /b/d", done.stderr)
        for header, why in (("Authorization: Bearer s3same", 'hint: say --header "Authorization: Bearer {secret:NAME}"'), ("X-Api-Key: s3same", "{secret:NAME}"),
                            ("X-A: gh_s3same0123456789abcd", "a secret on the command line"), ("X-A: {/x}", "no other braces"), ("X-A: {secret:}", "no other braces"),
                            ("Host: a", "belongs to the connection"), ("content-type: a/b", "what each operation says"), ("X-A", "Name: value")):
            with self.subTest(header=header):
                done = self.crib.run("import", "openapi", file, "--header", header)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(why, done.stderr)
                self.assertNotIn("s3same", done.stderr)

    def test_an_output_schema_that_no_tool_can_hold_is_left_out_alone(self):
        answer = {"type": "object", "properties": {f"member_{i}": {"type": "string", "description": "x" * 60} for i in range(1000)}}
        api = {"openapi": "3.1.0", "servers": [{"url": "https://a.example"}], "paths": {"/x": {"get": {"responses": {"200": {
            "description": "Done", "content": {"application/json": {"schema": answer}}}}}}}}
        done = self.crib.run("import", "openapi", self.write("api.json", json.dumps(api)))
        self.assertIn("name: get_x\n", done.stdout)
        self.assertNotIn("outputSchema", done.stdout)
        self.assertIn("outputSchema is left out: /outputSchema: the schema is longer than 64 KiB", done.stderr)

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
