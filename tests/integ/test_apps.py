"""Apps of upstreams (decision 0120): pages under ui: URIs of ours, who is told of them, and what pages may call."""
import json
import os
import subprocess

import crib

MIME = "text/html;profile=mcp-app"
UI = "io.modelcontextprotocol/ui"
SHOWS = {"extensions": {UI: {"mimeTypes": [MIME]}}}
PAGE = "ui://get-time/mcp-app.html"

# A server of the basic examples' kind.  It lists what has pages to those alone who say that they show them.
SERVER = r'''
import json, os, sys
name, mode, said = sys.argv[1], sys.argv[2], os.environ.get("SAID")
EXT, MIME, PAGE = "io.modelcontextprotocol/ui", "text/html;profile=mcp-app", "ui://get-time/mcp-app.html"
shows = False
def tool(name, meta=None):
    return {"name": name, "description": "Tells " + name + ".", "inputSchema": {"type": "object"}, **({"_meta": meta} if meta else {})}
def tools():
    time = tool("get-time", {"ui": {"resourceUri": PAGE}, "ui/resourceUri": PAGE, "openai/outputTemplate": PAGE})
    tick = tool("tick", {"ui": {"resourceUri": PAGE, "visibility": ["app"]}})
    model = tool("only-model", {"ui": {"visibility": ["model"]}})
    lone = tool("lone", {"ui": {"resourceUri": "ui://nowhere/x"}, "ui/resourceUri": 7, "com.example/k": 1})
    return [time, tick, model, lone, tool("plain")] if shows else [tool("plain")]
def page():
    return {"uri": PAGE, "name": "page", "mimeType": MIME, "_meta": {"ui": {"prefersBorder": True}}}
def pages():
    more = {"long": "ui://get-time/" + "x" * 3000, "control": "ui://get-time/\u0007", "dots": "ui://../../x"}.get(mode)
    return [page()] + ([{"uri": more, "name": "more"}] if more else [])
def answer(m, p):
    global shows
    if m in ("server/discover", "tasks/get"):
        return None
    if m == "initialize":
        shows = MIME in p["capabilities"].get("extensions", {}).get(EXT, {}).get("mimeTypes", [])
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": {}},
                "serverInfo": {"name": name, "version": "1"}}
    if m == "tools/list": return {"tools": tools()}
    if m == "resources/list": return {"resources": pages()}
    if m == "resources/templates/list": return {"resourceTemplates": [{"uriTemplate": "ui://part/{id}", "name": "part"}]}
    if m == "resources/read":
        text = "<p>" + name + " " + p["uri"] + " ui://get-time/mcp-app.html</p>" + "x" * (20 << 20 if mode == "huge" else 0)
        return {"contents": [{"uri": p["uri"], "mimeType": MIME, "text": text,
                              "_meta": {"ui": {"csp": {"connectDomains": ["https://" + name + ".example"]}}, "x/n": 10 ** 30}}]}
    if m == "tools/call":
        return {"content": [{"type": "text", "text": name + " " + p["name"]},
                            {"type": "resource", "resource": {"uri": PAGE, "mimeType": MIME, "text": "x"}},
                            {"type": "resource_link", "uri": PAGE, "name": "page"},
                            {"type": "resource_link", "uri": "ui://nowhere/x", "name": "nowhere"}],
                "_meta": {"ui": {"resourceUri": PAGE}, "ui/resourceUri": "ui://x/" + "y" * 3000}}
for line in sys.stdin:
    m = json.loads(line)
    if said:
        with open(said, "a") as f: f.write(line)
    if "id" not in m or "method" not in m: continue
    got = answer(m["method"], m.get("params", {}))
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], **({"result": got} if got is not None else
          {"error": {"code": -32601, "message": "no"}})}), flush=True)
'''


class Apps(crib.Case):
    def setUp(self):
        super().setUp()
        self.crib.init().start()
        self.folder = self.crib.dir / "server"
        self.folder.mkdir()
        (self.folder / "server.py").write_text(SERVER)

    def add(self, name, mode="-", words=()):
        self.crib.cli("upstream", "add", name, "--read", self.folder, *words, "--command", "/usr/bin/python3",
                      self.folder / "server.py", name, mode)

    def serve(self, name, mode="-", words=()):
        self.add(name, mode, words)
        return {row["there"]: row for row in self.crib.json("upstream", "sync", name)}

    def modern(self, key, method, params=None, caps=SHOWS):
        peer = self.crib.http(key)
        try:
            return peer.ask(method, params, rev=crib.MODERN, caps=caps)
        finally:
            peer.close()

    def peer(self, key, rev="2025-11-25", caps=None):
        peer = self.crib.tcp(key)
        self.addCleanup(peer.close)
        peer.declared = peer.initialize(rev, caps)["capabilities"] if rev != crib.MODERN else None
        return peer

    def tools(self, key, caps=SHOWS):
        return {t["name"]: t for t in self.modern(key, "tools/list", caps=caps)["result"]["tools"]}

    def read(self, key, uri, caps=SHOWS):
        return self.modern(key, "resources/read", {"uri": uri}, caps)

    # --- UI-01, UI-02

    def test_two_servers_with_one_page_each_have_their_own(self):
        key = self.crib.tenant("acme", "a_*", "b_*", "resource:a_*", "resource:b_*")
        for name in ("a", "b"):
            rows = self.serve(name)
            self.assertEqual(rows["resource:" + PAGE]["said"], "stored")
        for name in ("a", "b"):
            here = f"ui://{name}/get-time/mcp-app.html"
            tool = self.tools(key)[f"{name}_get-time"]
            self.assertEqual(tool["_meta"], {"ui": {"resourceUri": here}, "ui/resourceUri": here, "openai/outputTemplate": here})
            got = self.read(key, here)["result"]["contents"][0]
            self.assertEqual((got["uri"], got["mimeType"]), (here, MIME))
            # Never inside of what the page says.
            self.assertEqual(got["text"], f"<p>{name} {PAGE} {PAGE}</p>")
            self.assertEqual(got["_meta"], {"ui": {"csp": {"connectDomains": [f"https://{name}.example"]}}, "x/n": 10 ** 30})
            result = self.modern(key, "tools/call", {"name": f"{name}_get-time", "arguments": {}})["result"]
            self.assertEqual(result["content"][1]["resource"]["uri"], here)
            self.assertEqual(result["content"][2]["uri"], here)
            self.assertEqual(result["content"][3], {"type": "text", "text": f"[resource nowhere: ui://{name}/nowhere/x]"})
            self.assertEqual(result["_meta"]["ui"], {"resourceUri": here})
            self.assertNotIn("ui/resourceUri", result["_meta"], "more than 2048 bytes")
            # A template as well, and back: what is asked there is what it is called there.
            got = self.read(key, f"ui://{name}/part/7")["result"]["contents"][0]
            self.assertEqual((got["uri"], got["text"].split()[1]), (f"ui://{name}/part/7", "ui://part/7"))

    def test_what_names_a_page_otherwise_is_unknown_and_nothing_is_guessed(self):
        key = self.crib.tenant("acme", "a_*", "resource:a_*")
        self.serve("a")
        other = self.crib.tenant("other")
        unknown = self.read(key, "ui://x/get-time/mcp-app.html")["error"]
        here, there = "ui://a/get-time/mcp-app.html", "ui://a/get-time/mcp-app.htmX"
        peer = self.peer(key, crib.MODERN)
        for uri in (PAGE, "UI://a/get-time/mcp-app.html", "ui://A/get-time/mcp-app.html", "ui://%61/get-time/mcp-app.html",
                    "ui://a/../a/get-time/mcp-app.html", "ui://a/get-time/mcp-app.html?x", "ui:///a/get-time/mcp-app.html",
                    "ui://a", "ui://a/", "ui:", "a-ui://get-time/mcp-app.html/", "ui://a/" + "x" * 3000, "ui://a/\u0007",
                    here + "\0"):
            with self.subTest(uri=uri[:60]):
                error = peer.ask("resources/read", {"uri": uri}, rev=crib.MODERN)["error"]
                self.assertEqual((error["code"], error["message"].split(":")[0]),
                                 (unknown["code"], unknown["message"].split(":")[0]))
        # Of another tenant, byte for byte as one that nobody has.
        self.assertEqual(json.dumps(self.read(other, here)["error"]).replace("htmX", "html"),
                         json.dumps(self.read(other, there)["error"]).replace("htmX", "html"))

    def test_the_old_form_of_a_page_is_read_as_the_new_one(self):
        key = self.crib.tenant("acme", "a_*", "resource:a_*")
        self.serve("a")
        self.assertEqual(self.read(key, "a+" + PAGE, {})["result"]["contents"][0]["uri"], "ui://a/get-time/mcp-app.html")
        self.assertIn("error", self.read(key, "b+" + PAGE, {}))
        self.assertIn("a page was read by a URI of an older release", self.crib.log.read_text())

    def test_pages_that_cannot_be_named_here_are_refused_at_the_sync(self):
        for mode in ("long", "control"):
            with self.subTest(mode=mode):
                self.crib.tenant(mode)
                self.add(mode, mode)
                rows = self.crib.json("upstream", "sync", mode)
                self.assertFalse([row for row in rows if row["there"].startswith("resource:")], rows)
        rows = self.serve("dots", "dots")
        self.assertEqual(rows["resource:ui://../../x"]["said"], "refused", rows)

    def test_a_page_of_20_mb_is_an_error(self):
        key = self.crib.tenant("acme", "a_*", "resource:a_*")
        self.serve("a", "huge")
        error = self.read(key, "ui://a/get-time/mcp-app.html")["error"]
        self.assertIn("upstream a", error["message"])
        self.assertEqual(self.modern(key, "tools/list")["result"]["tools"][0]["name"], "a_get-time")

    def test_a_prefix_that_would_make_pages_of_others_is_refused(self):
        for prefix in ("u", "ui", "http", "H"):
            done = self.crib.run("upstream", "add", "x", "--uri-prefix", prefix, "--command", "/bin/cat")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("could make another URI look like http: or ui:", done.stderr)

    # --- UI-03

    def test_the_extension_is_declared_to_whoever_has_a_page_in_every_revision(self):
        key, other = self.crib.tenant("acme", "a_*", "resource:a_*"), self.crib.tenant("other", "a_*")
        self.serve("a")
        for rev in crib.REVS:
            self.assertEqual(self.peer(key, rev).declared["extensions"], {UI: {}}, rev)
            self.assertNotIn("extensions", self.peer(other, rev).declared, rev)
        has = self.modern(key, "server/discover")["result"]["capabilities"]["extensions"]
        self.assertEqual(has, {UI: {}, "io.modelcontextprotocol/tasks": {}})
        has = self.modern(other, "server/discover")["result"]["capabilities"]["extensions"]
        self.assertEqual(has, {"io.modelcontextprotocol/tasks": {}})

    def test_upstreams_are_told_that_pages_are_shown_and_of_no_other_extension(self):
        said = self.folder / "said"
        said.touch()
        self.add("a", words=("--env", f"SAID={said}", "--write", self.folder))
        self.crib.json("upstream", "sync", "a")
        messages = [json.loads(line) for line in said.read_text().splitlines()]
        caps = [m["params"]["capabilities"] for m in messages if m["method"] == "initialize"]
        self.assertEqual([c["extensions"] for c in caps], [{UI: {"mimeTypes": [MIME]}}])

    # --- UI-04

    def test_what_is_for_apps_alone_is_listed_to_those_who_show_them(self):
        key = self.crib.tenant("acme", "a_*", "resource:a_*")
        self.serve("a")
        self.assertEqual(list(self.tools(key)), ["a_get-time", "a_lone", "a_only-model", "a_plain", "a_tick"])
        for caps in ({}, {"extensions": {UI: {}}}, {"extensions": {UI: {"mimeTypes": ["text/html"]}}}, {"extensions": {UI: MIME}}):
            self.assertEqual(list(self.tools(key, caps)), ["a_get-time", "a_lone", "a_only-model", "a_plain"], caps)
        peer = self.peer(key)
        self.assertNotIn("a_tick", peer.tools())
        self.assertIn("a_tick", self.peer(key, caps=SHOWS).tools())
        # It stays callable.
        self.assertEqual(peer.call("a_tick")["result"]["content"][0]["text"], "a tick")

    def test_a_page_that_a_tenant_cannot_read_is_not_named_to_it(self):
        key = self.crib.tenant("acme")
        self.serve("a")
        said = self.crib.cli("grant", "add", "acme", "a_get-time")
        self.assertIn("; its page resource:a_page is not: --with-ui grants both", said)
        self.assertNotIn("_meta", self.tools(key)["a_get-time"])
        listening = self.peer(key, caps=SHOWS)
        listening.tools()
        said = self.crib.cli("grant", "add", "acme", "a_t*", "--with-ui")
        self.assertIn("acme: resource:a_page granted with its tool", said)
        listening.notice("notifications/tools/list_changed")
        self.assertEqual(self.tools(key)["a_get-time"]["_meta"]["ui"], {"resourceUri": "ui://a/get-time/mcp-app.html"})
        # Who has it already is told nothing; what has none neither.
        self.assertNotIn("page", self.crib.cli("grant", "add", "acme", "a_only-model", "a_plain"))
        self.crib.cli("grant", "add", "acme", "a_lone")
        self.assertEqual(self.tools(key)["a_lone"]["_meta"], {"com.example/k": 1})
        self.crib.cli("--yes", "grant", "remove", "acme", "resource:a_page")
        self.assertEqual(self.tools(key)["a_tick"]["_meta"], {"ui": {"visibility": ["app"]}})
        self.assertNotIn("a_tick", self.tools(key, {}), "without its page it is no more for models than with it")

    # --- UI-05

    def test_a_page_calls_its_server_by_the_names_there(self):
        key = self.crib.tenant("acme", "a_*", "resource:a_*")
        self.serve("a")
        self.serve("b")
        call = {"name": "get-time", "arguments": {}}
        self.assertEqual(self.modern(key, "tools/call", call)["result"]["content"][0]["text"], "a get-time")
        self.assertEqual(self.read(key, PAGE)["result"]["contents"][0]["uri"], "ui://a/get-time/mcp-app.html")
        rows = self.crib.json("audit", "calls", "--tenant", "acme", "--limit", "2")
        self.assertEqual({row["tool"] for row in rows}, {"a_get-time", "resource:a_page"})
        # Who shows no pages, and what is not for apps.
        peer = self.peer(key, crib.MODERN)
        for caps, name in (({}, "get-time"), (SHOWS, "only-model"), (SHOWS, "get-tim"), (SHOWS, "get-time\0")):
            error = peer.ask("tools/call", {"name": name, "arguments": {}}, rev=crib.MODERN, caps=caps)["error"]
            self.assertEqual((error["code"], error["message"].split(":")[0]), (-32602, "Unknown tool"), name)
        self.assertIn("error", self.read(key, PAGE, {}))
        # With both it could be either; the answer is that of any unknown name.
        self.crib.cli("grant", "add", "acme", "b_*", "resource:b_*")
        unknown = self.modern(key, "tools/call", {"name": "no-such", "arguments": {}})["error"]
        error = self.modern(key, "tools/call", call)["error"]
        self.assertEqual(json.dumps(error).replace("get-time", "no-such"), json.dumps(unknown))
        self.assertIn("error", self.read(key, PAGE))
        denied = self.crib.rows("SELECT count(*) FROM v_records WHERE kind = 'call.denied' AND rule = 'ambiguous_app_tool'")
        self.assertEqual(denied, [(2,)])
        self.assertIn("an app asks by a name that several upstreams", self.crib.log.read_text())
        # A key whose scopes leave one of them has that one.
        one = self.crib.key("acme/one", "--scope", "tools:call:b_*")
        self.assertEqual(self.modern(one, "tools/call", call)["result"]["content"][0]["text"], "b get-time")
        # A tool of that very name goes first.
        self.crib.tool(crib.tool_yaml("get-time", "{type: static, text: own}"))
        self.crib.cli("grant", "add", "acme", "get-time")
        self.assertEqual(self.modern(key, "tools/call", call)["result"]["content"][0]["text"], "own")

    # --- UI-08

    def test_what_a_page_may_reach_is_cut_to_the_document(self):
        key = self.crib.tenant("acme", "a_*", "resource:a_*")
        doc = {"kind": "upstream", "name": "a", "sandbox": {"read": [str(self.folder)]},
               "command": ["/usr/bin/python3", str(self.folder / "server.py"), "a", "-"]}
        path = self.crib.dir / "upstream.yaml"

        def page(**ui):
            path.write_text(json.dumps({**doc, **ui}))
            self.crib.cli("upstream", "add", "--file", path)
            self.crib.cli("upstream", "sync", "a")
            return self.read(key, "ui://a/get-time/mcp-app.html")["result"]["contents"][0]["_meta"]["ui"]["csp"]
        whole = "https://a.example"
        self.assertEqual(page(), {"connectDomains": [whole]})
        self.assertEqual(page(ui={"connect": ["https://x.example", whole], "resources": [whole]}),
                         {"connectDomains": [whole], "resourceDomains": []})
        for ui in ({}, {"connect": ["https://a.exampl", "https://a.example.com"]}, {"resources": [whole]}):
            self.assertEqual(page(ui=ui), {"connectDomains": [], "resourceDomains": []}, ui)
        for ui, why in (({"connect": ["a.example"]}, "ui/connect: each must"), ({"connect": ["https://a.example/x"]}, "must be an origin"),
                        ({"connect": [7]}, "must be an origin"), ({"resources": "x"}, "ui/resources"), ({"pin": True}, "ui/pin"),
                        ([], "ui"), ({"connect": ["https://a"] * 65}, "more than 64 origins")):
            path.write_text(json.dumps({**doc, "ui": ui}))
            done = self.crib.run("upstream", "add", "--file", path)
            self.assertEqual(done.returncode, 1, (ui, done.stdout))
            self.assertIn(why, done.stderr)
        path.write_text(json.dumps({**doc, "ui": {"connect": ["https://a"] * 64}}))
        self.crib.cli("upstream", "add", "--file", path)

    # --- through a second server

    def test_through_two_servers_a_page_stays_a_page(self):
        key = self.crib.tenant("acme", "a_*", "resource:a_*")
        self.serve("a")
        front = crib.Crib()
        self.addCleanup(front.close)
        front.init().start()
        mine = front.tenant("acme", "far_*", "resource:far_*")
        front.cli("secret", "set", "far", stdin="Bearer " + key)
        url = "http://%s:%d/mcp" % self.crib.address("http")
        front.cli("upstream", "add", "far", "--url", url, "--allow-private", "yes", "--header", "Authorization={secret:far}")
        rows = {row["there"]: row for row in front.json("upstream", "sync", "far")}
        self.assertEqual(rows["resource:ui://a/get-time/mcp-app.html"]["said"], "stored", rows)
        http = front.http(mine)
        self.addCleanup(http.close)
        tools = {t["name"]: t for t in http.ask("tools/list", rev=crib.MODERN, caps=SHOWS)["result"]["tools"]}
        here = "ui://far/a/get-time/mcp-app.html"
        self.assertEqual(tools["far_a_get-time"]["_meta"]["ui"], {"resourceUri": here})
        self.assertIn("far_a_tick", tools)
        got = http.ask("resources/read", {"uri": here}, rev=crib.MODERN, caps=SHOWS)["result"]["contents"][0]
        self.assertEqual((got["uri"], got["text"].split()[0]), (here, "<p>a"))


BOARD = """kind: resource
name: board
uri: ui://shop/board.html
_meta: {ui: {csp: {connectDomains: ["https://shop.example"]}, prefersBorder: true}, com.example/k: 1}
handler: {type: static, file: pages/board.html}
"""
HTML = "<!doctype html><p>{not a template} \u00e9</p>\n"


class OwnPages(crib.Case):
    def setUp(self):
        super().setUp()
        self.crib.init().start()
        self.key = self.crib.tenant("acme", "resource:*", "*")
        self.folder = self.crib.dir / "docs"
        (self.folder / "pages").mkdir(parents=True)
        self.page = self.folder / "pages" / "board.html"
        self.page.write_text(HTML)
        self.doc = self.folder / "board.yaml"
        self.doc.write_text(BOARD)

    def ask(self, method, params=None):
        peer = self.crib.tcp(self.key)
        try:
            return peer.ask(method, params, rev=crib.MODERN, caps=SHOWS)
        finally:
            peer.close()

    def read(self):
        return self.ask("resources/read", {"uri": "ui://shop/board.html"})["result"]["contents"]

    def refused(self, *words):
        done = self.crib.run("resource", "add", self.doc)
        self.assertEqual(done.returncode in (1, 3), True, done)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_a_page_from_a_file_is_a_versioned_definition(self):
        """UI-06, UI-07"""
        self.assertIn("resource board: version 1 stored", self.crib.cli("resource", "add", self.doc))
        ui = {"csp": {"connectDomains": ["https://shop.example"]}, "prefersBorder": True}
        self.assertEqual(self.read(), [{"uri": "ui://shop/board.html", "mimeType": MIME, "text": HTML, "_meta": {"ui": ui}}])
        listed = self.ask("resources/list")["result"]["resources"][0]
        self.assertEqual((listed["mimeType"], listed["_meta"]), (MIME, {"ui": ui, "com.example/k": 1}))
        self.assertIn(UI, self.ask("server/discover")["result"]["capabilities"]["extensions"])
        # The page is part of the definition: unchanged, or another version, with its diff.
        self.assertIn("unchanged", self.crib.cli("resource", "add", self.doc))
        self.page.write_text(HTML.replace("not a", "no"))
        self.assertIn("version 2 stored", self.crib.cli("resource", "add", self.doc))
        self.assertIn("{no template}", self.read()[0]["text"])
        self.assertIn("{[-not a-]{+no+} template}", self.crib.run("resource", "diff", "board", "1", "2").stdout)
        self.crib.cli("--yes", "resource", "revert", "board", "1")
        self.assertEqual(self.read()[0]["text"], HTML)
        # What export writes is the same definition.
        text = self.crib.cli("export", "--tenant", "acme")
        self.assertNotIn("pages/board.html", text)
        self.assertIn("not a template", text)

    def test_a_new_page_waits_for_a_second_administrator(self):
        self.crib.cli("resource", "add", self.doc)
        self.crib.cli("--yes", "approval", "versions", "required")
        self.page.write_text("<p>other</p>")
        said = self.crib.cli("resource", "add", self.doc)
        self.assertIn("wait", said)
        self.assertEqual(self.read()[0]["text"], HTML)

    def test_meta_of_the_contents_goes_first(self):
        self.doc.write_text(BOARD.replace("file: pages/board.html", "result: {contents: [{text: a, _meta: {ui: {domain: d}}}, "
                                          "{text: b, _meta: {com.example/x: 2}}, {text: c}]}"))
        self.crib.cli("resource", "add", self.doc)
        ui = {"csp": {"connectDomains": ["https://shop.example"]}, "prefersBorder": True}
        self.assertEqual([part["_meta"] for part in self.read()],
                         [{"ui": {"domain": "d"}}, {"com.example/x": 2, "ui": ui}, {"ui": ui}])

    def test_files_that_cannot_be_pages_are_refused_with_their_place(self):
        outside = self.crib.dir / "secret.html"
        outside.write_text("secret")
        (self.folder / "link.html").symlink_to(outside)
        (self.folder / "inside.html").symlink_to(self.page)
        (self.folder / "empty.html").touch()
        (self.folder / "latin.html").write_bytes(b"<p>\xe9</p>")
        (self.folder / "nul.html").write_bytes(b"<p>\0</p>")
        os.mkfifo(self.folder / "fifo.html")
        for name, why in (("../secret.html", "lies outside of the document's folder"), ("link.html", "lies outside"),
                          (str(outside), "must be the name of a file beside the document"), ('""', "must be the name of a file"),
                          ("none.html", "No such file"), ("empty.html", "is empty"), ("latin.html", "is not text in UTF-8"),
                          ("nul.html", "is not text in UTF-8"), ("fifo.html", "fifo.html"), ("pages", "pages"), ("7", "string"),
                          (".", "."), ("pages/board.html, text: x", "one of file, text and result")):
            with self.subTest(name=name):
                self.doc.write_text(BOARD.replace("pages/board.html", name))
                self.refused(f"board.yaml:5:", why)
        self.doc.write_text(BOARD.replace("pages/board.html", "inside.html"))
        self.assertIn("version 1 stored", self.crib.cli("resource", "add", self.doc))
        done = self.crib.run("resource", "add", "-", stdin=BOARD)
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no folder", done.stderr)

    def test_a_page_has_as_many_bytes_as_a_definition_may(self):
        self.page.write_text("x" * (512 << 10))
        self.refused("the definition has")
        self.page.write_text("x" * ((512 << 10) + 1))
        self.refused("board.yaml:5:")
        self.page.write_text("x" * ((512 << 10) - 1000))
        self.crib.cli("resource", "add", self.doc)
        self.assertEqual(len(self.read()[0]["text"]), (512 << 10) - 1000)

    def test_lint_knows_pages(self):
        self.page.write_text("x")
        self.doc.write_text(BOARD + "mimeType: text/html\n---\nname: t\ndescription: d\ninputSchema: {type: object}\n"
                            "_meta: {ui: {resourceUri: ui://shop/board.html}}\nhandler: {type: static, result: {content: "
                            "[{type: image, data: aGVsbG8=, mimeType: image/png}]}}\n")
        done = self.crib.run("tool", "lint", self.doc)
        self.assertIn("hosts take a ui: resource for a page only as", done.stdout + done.stderr)
        self.assertIn("there is no text: the model", done.stdout + done.stderr)
        undefined = "no resource with this URI is defined or enabled"
        self.assertNotIn(undefined, done.stdout)                # it stands beside its tool
        tool = self.crib.dir / "t.yaml"
        tool.write_text("name: t\ndescription: d\ninputSchema: {type: object}\n_meta: {ui: {resourceUri: ui://shop/board.html}}\n"
                        "handler: {type: builtin, function: echo}\n")
        self.assertIn(undefined, self.crib.run("tool", "lint", tool).stdout)
        away = subprocess.run([crib.BUILD / "toolcrib", "--store", self.crib.dir / "none", "tool", "lint", tool], capture_output=True, text=True)
        self.assertNotIn(undefined, away.stdout)                # nobody is asked
        self.doc.write_text(BOARD)
        self.crib.cli("resource", "add", self.doc)
        self.assertNotIn(undefined, self.crib.run("tool", "lint", tool).stdout)
        self.crib.cli("resource", "disable", "board")
        self.assertIn(undefined, self.crib.run("tool", "lint", tool).stdout)

    def test_a_page_with_dots_in_its_uri_is_refused(self):
        for uri in ("ui://shop/../board", "ui://shop/./x", "ui://shop/%2E%2e/x", "ui://../x", "ui://shop/x/.."):
            self.doc.write_text(BOARD.replace("ui://shop/board.html", uri))
            self.refused("has a . or .. between its slashes")
        self.doc.write_text(BOARD.replace("ui://shop/board.html", "ui://shop/...x/a..b"))
        self.crib.cli("resource", "add", self.doc)


if __name__ == "__main__":
    crib.main()
