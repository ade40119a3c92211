"""run.py [--keep DIR] [--way WAY] [REVISION [SCENARIO]]: the official conformance suite against a daemon of our own.

Installs the pinned suite below the build tree (once), makes a store with the fixture tenant, serves it on a port of the
kernel's choice and runs what each revision requires: once against it (native), and once against a second daemon that
has the first one as its only upstream (upstream).  Also judged are scenarios that the suite runs without scoring.
Exit: 0 conforms, 1 does not or could not be asked, 77 skipped: there is no node or no npm."""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integ"))
import crib  # noqa: E402

ALSO = {
    "2026-07-28": ["json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"],
    "2025-11-25": ["json-schema-2020-12", "server-session-lifecycle"],
}
NODE_MIN = 22
PACKAGE = pathlib.Path("node_modules/@modelcontextprotocol/conformance")
TENANT = "conformance"
RUN_SECONDS = 180
WAYS = ["native", "upstream"]


def leave(code, why):
    print(f"check-conformance: {why}")
    sys.exit(code)


# --- the suite

def version_of(node):
    """The major version of a node program, 0 where it does not run."""
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60)
    except OSError:
        return 0
    found = re.match(r"v(\d+)\.", done.stdout)
    return int(found.group(1)) if found else 0


def find_node(folder):
    """A node that can run the suite: the one on PATH, or the pinned one."""
    own = sorted(folder.glob("node_modules/node-linux-*/bin/node"))
    return next((str(node) for node in [shutil.which("node"), *own] if node and version_of(node) >= NODE_MIN), None)


def pinned():
    return json.loads((HERE / "package.json").read_text())["dependencies"]["@modelcontextprotocol/conformance"]


def installed(folder):
    try:
        return json.loads((folder / PACKAGE / "package.json").read_text())["version"] == pinned()
    except OSError:
        return False


def install(folder):
    """The suite at its pinned version in folder; node's path."""
    if not shutil.which("npm") or not shutil.which("node"):
        leave(77, "skipped: needs node 20 or later and npm: https://nodejs.org/en/download")
    if not installed(folder) or not find_node(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder)
        omit = ["--omit=optional"] if version_of(shutil.which("node")) >= NODE_MIN else []
        done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", *omit],
                              cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            leave(1, "npm cannot install the suite: " + " ".join(done.stderr.split())[:400])
    return find_node(folder) or leave(1, f"there is no node of version {NODE_MIN} or later for this machine")


# --- the server

NOUNS = {"prompts.yaml": "prompt", "resources.yaml": "resource"}        # of the commands that store them


def wishes(c):
    """Where a tool leaves the name of what is to appear or to disappear."""
    return c.dir / "wishes"


def fulfil(c):
    """The operator: takes the grant of what is wished away or, where there is none, gives it; each wish makes a difference,
    whatever the one before has left behind."""
    while wishes(c).is_dir():
        for wish in list(wishes(c).glob("*")):
            if c.run("grant", "remove", TENANT, wish.name, "--yes").returncode != 0:
                c.cli("grant", "add", TENANT, wish.name)
            wish.unlink()
        time.sleep(0.02)


def definitions(c, noun):
    """The documents of a command with their places filled in."""
    places = {"HANDLERS": HERE / "handlers", "PYTHON": sys.executable, "PREFIX": sys.base_prefix, "WISHES": wishes(c)}
    for source in sorted(HERE.glob("*.yaml")):
        if source.name.startswith("expected-") or NOUNS.get(source.name, "tool") != noun:
            continue
        made = c.dir / source.name
        made.write_text(re.sub("@([A-Z]+)@", lambda found: str(places[found.group(1)]), source.read_text()))
        yield made


def serve(c):
    """A daemon with the fixture tenant; the tenant's key.  What is toggled has a grant of its own: taking it away must
    make a difference."""
    c.init()
    wishes(c).mkdir()
    threading.Thread(target=fulfil, args=(c,), daemon=True).start()
    for noun in ("tool", "prompt", "resource"):
        c.cli(noun, "add", *definitions(c, noun))
    key = c.tenant(TENANT, "json_schema_2020_12_tool", "test_*", "toggled_by_trigger", "a_greeting", "greet", "slow_compute", "failing_job",
                   "protocol_error_job", "confirm_delete", "multi_input", "prompt:test_*", "prompt:toggled_prompt", "resource:*")
    c.start()
    return key


def serve_behind(c, inner, key):
    """A daemon whose only upstream is another one; the key of its tenant.  Whatever the fixture server has is granted;
    what is toggled there must be known here, so it is shown first."""
    for glob in ("toggled_by_trigger", "prompt:toggled_prompt"):
        inner.run("grant", "add", TENANT, glob)
    c.init()
    c.cli("secret", "set", "inner", stdin=f"Bearer {key}")
    c.cli("upstream", "add", "fixture", "--prefix", "", "--uri-prefix", "", "--asks", "yes", "--allow-private", "yes",
          "--header", "Authorization={secret:inner}", "--url", "http://%s:%d/mcp" % inner.address("http"))
    key = c.tenant(TENANT, "*", "prompt:*", "resource:*")
    c.start()
    for row in c.json("upstream", "sync", "fixture"):
        if row["said"] != "stored":
            leave(1, f"the upstream's {row['there']} was not stored, but {row['said']}: {row['why']}")
    return key


# --- a run and its judgement

def server_list(path):
    """The entries of the list `server` in a requirements or an expected-failures file."""
    entries, inside = [], False
    for line in path.read_text().splitlines():
        if re.match(r"[^\s#-]", line):
            inside = line.startswith("server")
        found = inside and re.match(r"\s*-\s+(\S+)", line)
        if found:
            entries.append(found.group(1))
    return entries


def results(out):
    """scenario -> its checks."""
    got = {}
    for folder in sorted(out.glob("server-*")):
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\dZ-]+$", "", folder.name)
        try:
            got[scenario] = json.loads((folder / "checks.json").read_text())
        except (OSError, ValueError):
            got[scenario] = [{"id": "-", "status": "FAILURE", "errorMessage": "the scenario left no results"}]
    return got


def judge(way, revision, got, expected, scored):
    """Print what failed; true when nothing failed that may not."""
    open_, counts = [], {"SUCCESS": 0, "known": 0}
    judged = [name for name in got if name in scored or name in ALSO[revision] or name.startswith("tasks-")]
    clean = 0
    for name in judged:
        bad = [check for check in got[name] if check["status"] in ("FAILURE", "WARNING")]
        clean += not bad
        counts["SUCCESS"] += sum(check["status"] == "SUCCESS" for check in got[name])
        for check in bad:
            if name in expected or f"{name}:{check['id']}" in expected:
                counts["known"] += 1
            else:
                reason = " ".join((check.get("errorMessage") or "").split())[:300]
                open_.append(f"{check['status']} {name}:{check['id']} {reason}")
    open_ += [f"MISSING {name}: did not run" for name in [*scored, *ALSO[revision]] if name not in got]
    open_ += [f"STALE {line}: not a scenario that {revision} scores" for line in expected
              if line.partition(":")[0] not in scored]
    for line in open_:
        print("   ", line)
    print(f"{way} {revision}: {clean} of {len(judged)} scenarios clean, {counts['SUCCESS']} checks passed, "
          f"{counts['known']} failed as expected, {len(open_)} open")
    return not open_


def run(node, folder, url, key, way, revision, out):
    """All that a revision requires; true when the server conforms."""
    expected = HERE / f"expected-{revision}.yaml"
    env = dict(os.environ, TOOLCRIB_KEY=key)
    with open(out / "log", "w", encoding="utf-8") as log:
        code = subprocess.run([node, "--import", HERE / "bearer.mjs", folder / PACKAGE / "dist/index.js", "server", "--url",
                               url, "--requirements", revision, "-o", out, "--expected-failures", expected],
                              env=env, stdout=log, stderr=log, timeout=RUN_SECONDS).returncode
    fine = judge(way, revision, results(out), server_list(expected),
                 server_list(folder / PACKAGE / "requirements" / f"{revision}.yaml"))
    if code != 0 or not fine:
        print("".join((out / "log").read_text().partition("=== SUMMARY")[1:])[-6000:] or (out / "log").read_text()[-2000:])
    return code == 0 and fine


def one(node, folder, url, key, revision, scenario, out):
    """One scenario with every check, for whoever mends it."""
    return subprocess.run([node, "--import", HERE / "bearer.mjs", folder / PACKAGE / "dist/index.js", "server", "--url", url,
                           "--scenario", scenario, "--spec-version", revision, "--verbose", "--force", "-o", out],
                          env=dict(os.environ, TOOLCRIB_KEY=key), timeout=RUN_SECONDS).returncode == 0


def all_of(args, node, folder, way, c, key):
    """The revisions asked for against one daemon; true when it conforms."""
    url, fine = "http://%s:%d/mcp" % c.address("http"), True
    for revision in [args.revision] if args.revision else ALSO:
        out = (pathlib.Path(args.keep).resolve() if args.keep else c.dir / "results") / way / revision
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        if args.scenario:
            fine &= one(node, folder, url, key, revision, args.scenario, out)
        else:
            fine &= run(node, folder, url, key, way, revision, out)
    return fine


def stopped(c):
    """Stop a daemon; true when it ended well."""
    log = c.log
    if c.stop() in (0, None):
        return True
    print("toolcribd did not end well:\n" + log.read_text()[-4000:])
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", metavar="DIR", help="keep every check as JSON below DIR")
    parser.add_argument("--way", choices=WAYS, help="how the fixture server is reached")
    parser.add_argument("revision", nargs="?", choices=list(ALSO))
    parser.add_argument("scenario", nargs="?")
    args = parser.parse_args()
    folder = pathlib.Path(os.environ.get("TOOLCRIB_CONFORMANCE", crib.BUILD / "tests/conformance/suite")).resolve()
    node = install(folder)
    inner, outer = crib.Crib(), crib.Crib()
    fine = True
    try:
        key = serve(inner)
        for way in [args.way] if args.way else WAYS:
            c, its = (inner, key) if way == "native" else (outer, serve_behind(outer, inner, key))
            fine &= all_of(args, node, folder, way, c, its)
        for c in (outer, inner):
            fine &= stopped(c)
    finally:
        outer.close()
        inner.close()
    sys.exit(0 if fine else 1)


main()
