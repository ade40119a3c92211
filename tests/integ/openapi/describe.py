"""A description of a REST API as large as is wanted, of the kind that generators write: python3 describe.py OPERATIONS > api.json

Each operation has parameters in its path and query, every second one a body; its answers are of SCHEMAS shared schemas that refer to
each other, and the last one of all, once, is answered by a schema that no tool can hold."""
import json
import sys

SCHEMAS = 200
METHODS = ("get", "post", "put", "delete", "patch")


def schema(i):
    own = {f"member_{n}": {"type": "string", "description": f"Member {n} of thing {i}: what it is called, and why that matters."} for n in range(20)}
    own["next"] = {"$ref": f"#/components/schemas/thing-{i + 1 if i % 8 < 7 else i}"}
    own["list"] = {"type": "array", "items": {"$ref": f"#/components/schemas/thing-{i}"}}
    return {"type": "object", "title": f"Thing {i}", "properties": own, "required": ["member_0"]}


def operation(i, method):
    number = {"type": "integer", "minimum": 1, "maximum": 100, "default": 30}
    op = {"operationId": f"things/{method}-{i}", "tags": [f"group-{i % 10}"], "summary": f"{method.title()} thing {i}",
          "description": "What this does, at some length. " * 10,
          "parameters": [{"name": "owner", "in": "path", "required": True, "schema": {"type": "string"}},
                         {"name": "per_page", "in": "query", "description": "Results of a page.", "schema": number},
                         {"name": "X-Trace", "in": "header", "schema": {"type": "string"}}],
          "responses": {"200": {"description": "Done", "content": {"application/json": {
              "schema": {"$ref": f"#/components/schemas/thing-{i % SCHEMAS}"},
              "examples": {"default": {"value": {f"member_{n}": "x" * 100 for n in range(20)}}}}}}}}
    if method in ("post", "put", "patch"):
        op["requestBody"] = {"required": True, "content": {"application/json": {
            "schema": {"type": "object", "properties": {"title": {"type": "string"}, "count": number}, "required": ["title"]}}}}
    return op


def describe(operations, server="https://things.example.com/v1"):
    paths = {}
    for i in range(operations):
        method = METHODS[i % len(METHODS)]
        paths.setdefault(f"/things/{{owner}}/{i // len(METHODS)}", {})[method] = operation(i, method)
    schemas = {f"thing-{i}": schema(i) for i in range(SCHEMAS)}
    return {"openapi": "3.0.3", "info": {"title": "Things", "version": "1"}, "servers": [{"url": server}], "paths": paths,
            "components": {"schemas": schemas}}


if __name__ == "__main__":
    json.dump(describe(int(sys.argv[1])), sys.stdout, indent=2)
