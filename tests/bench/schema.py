"""make bench-schema: our validator and its peers over one folder of schemas with documents, as a table.

Figures are microseconds per document, warm, formats not asserted; the last line has the geometric means over the schemas that
a validator can compile.  A peer that is not installed is left out with a line that says so.  The validators take turns, and
each schema counts with its best turn: other work on the machine only ever adds."""

import json
import math
import os
import shutil
import subprocess
import sys
import time

HERE = os.getcwd()
TURNS = 3


def rows(command, cwd=HERE):
    out = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)
    if out.returncode:
        print(f"{command[0]}: {out.stderr.strip()[-300:]}")
    return {row["schema"]: row for row in map(json.loads, out.stdout.splitlines())}


def best(table, name, found):
    """Keep what is better than in the turns before."""
    kept = table.setdefault(name, {})
    for schema, row in found.items():
        if "us_per_doc" in row:
            kept[schema] = {key: min(row[key], kept.get(schema, row)[key]) for key in row if key != "schema"}


def python_rows(folder):
    """jsonschema of Python, each document once: it is slow."""
    import jsonschema
    found = {}
    for name in sorted(os.listdir(folder)):
        try:
            with open(os.path.join(folder, name, "schema.json"), encoding="utf-8") as file:
                schema = json.load(file)
            with open(os.path.join(folder, name, "instances.jsonl"), encoding="utf-8") as file:
                docs = [json.loads(line) for line in file if line.strip()][:40]
        except OSError:
            continue
        validator = jsonschema.validators.validator_for(schema)(schema)
        start = time.perf_counter()
        done = 0
        for doc in docs:
            validator.is_valid(doc)
            done += 1
            if time.perf_counter() - start > 2:
                break
        found[name] = {"us_per_doc": (time.perf_counter() - start) * 1e6 / done}
    return found


def mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else ""
    folder = folder or os.path.join(os.environ.get("TOOLCRIB_SRCDIR", os.path.join(HERE, "..")), "../shared/schema-bench")
    if not os.path.isdir(folder):
        print("bench-schema: skipped, SCHEMA_BENCH names no folder, nor is one in ../shared/schema-bench")
        return 0
    table = {}
    peers = os.path.join(HERE, "tests/bench/peers")
    names = []
    if shutil.which("node") and shutil.which("npm") and subprocess.run(
            ["npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=peers, check=False).returncode == 0:
        names = ["ajv", "schemasafe"]
    else:
        print("ajv, schemasafe: left out, npm could not install them")
    for _ in range(TURNS):
        best(table, "toolcrib", rows([os.path.join(HERE, "tests/bench/b_schema"), folder]))
        for peer in names:
            best(table, peer, rows(["node", "peers.mjs", os.path.abspath(folder), peer], cwd=peers))
    ours = table["toolcrib"]
    if not ours:
        return 1
    try:
        table["python"] = python_rows(folder)
    except ImportError:
        print("jsonschema of Python: left out, not installed")
    print(f"{'schema':16}" + "".join(f"{name:>12}" for name in table) + f"{'compile ms':>12}{'memory/text':>12}")
    for name, row in ours.items():
        cells = "".join(f"{t[name]['us_per_doc']:12.3f}" if "us_per_doc" in t.get(name, {}) else f"{'-':>12}" for t in table.values())
        print(f"{name:16}{cells}{row['compile_ms']:12.3f}{row['memory_per_text']:12.2f}")
    means = "".join(f"{mean(r['us_per_doc'] for r in t.values() if 'us_per_doc' in r):12.3f}" for t in table.values())
    print(f"{'geometric mean':16}{means}{mean(r['compile_ms'] for r in ours.values()):12.3f}"
          f"{mean(r['memory_per_text'] for r in ours.values()):12.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
