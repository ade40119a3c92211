"""Whether refusals can be told apart by their time: python3 tests/bench/timing.py [SAMPLES]   (100000 of each kind)

A server with 1,000 keys is asked over loopback by tests/bench/b_timing.  The usual reading of Welch's t: beyond 4.5 in
either direction two kinds are told apart.  Then another tenant asks for a task that is there, for one that is not, and so for a page
(show 8 of issue 20), in turns, a fifth as often, over one connection."""
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

BUILD = pathlib.Path(os.environ.get("TOOLCRIB_BUILDDIR", "."))
SOURCE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SOURCE / "integ"))
import crib  # noqa: E402  (its path depends on ours)

KEYS, LIMIT = 1000, 4.5


def run(samples):
    c = crib.Crib().init()
    try:
        c.cli("tenant", "add", "acme")
        c.start()
        keys = [c.key("acme/bot") for _ in range(KEYS)]
        host, port = c.address("http")
        got = json.loads(subprocess.run([BUILD / "tests/bench/b_timing", f"{host}:{port}", keys[KEYS // 2][4:16], samples], check=True,
                                        capture_output=True, text=True).stdout)
    finally:
        c.close()
    for kind in ("unknown", "wrong", "malformed"):
        row = got[kind]
        print(f"{kind:10} {row['samples']} samples, mean {row['mean_ns'] / 1000:.2f} us, median {row['median_ns'] / 1000:.2f} us")
    for pair in ("unknown/wrong", "unknown/malformed"):
        t, cropped = got[pair]["t"], got[pair]["t_cropped"]
        said = "not told apart" if max(abs(t), abs(cropped)) < LIMIT else "told apart"
        print(f"{pair:18} Welch's t {t:+.2f}, below the 90th percentile {cropped:+.2f}: {said}")


def welch(a, b):
    return (statistics.fmean(a) - statistics.fmean(b)) / (statistics.variance(a) / len(a) + statistics.variance(b) / len(b)) ** 0.5


def foreign(samples):
    """What is somebody else's beside what is nobody's: the answers have the same bytes (tests/integ/test_isolation.py)."""
    ext = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    page = ("name: {0}\nkind: resource\nuri: ui://{0}/board.html\nmimeType: text/html;profile=mcp-app\ndescription: A page.\n"
            "handler: {{type: static, text: \"<p>here</p>\"}}\n")
    c = crib.Crib().init()
    try:
        c.tool(crib.tool_yaml("naps", "{type: builtin, function: sleep}", "{type: object, properties: {ms: {type: integer}}}",
                              "task: {support: required}\nlimits: {timeout: 10m}\n"), "naps.yaml")
        for name in ("mine", "yours"):
            (c.dir / f"{name}.yaml").write_text(page.format(name))
            c.cli("resource", "add", c.dir / f"{name}.yaml")
        a, b = c.tenant("acme", "*"), c.tenant("other", "naps", "resource:yours")
        c.start("limits: {requests: 0}\n")
        owner, peer = c.tcp(a), c.tcp(b)
        task = owner.call("naps", {"ms": 600000}, crib.MODERN, ext)["result"]["taskId"]
        digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
        rng = random.Random(20)
        asked = {"task": ("tasks/get", "taskId", task, lambda: "".join(rng.choices(digits, k=22))),
                 "page": ("resources/read", "uri", "ui://mine/board.html", lambda: f"ui://{''.join(rng.choices('imnex', k=4))}/board.html")}
        for what, (method, name, theirs, nobodys) in asked.items():
            ns = {"somebody's": [], "nobody's": []}
            said = {of: set() for of in ns}
            for _ in range(samples):
                for of in rng.sample(list(ns), 2):
                    message = json.dumps(peer.request(method, {name: theirs if of == "somebody's" else nobodys()}, crib.MODERN, ext, id=1)).encode() + b"\n"
                    begun = time.perf_counter_ns()
                    peer.raw(message)
                    line = peer.line()
                    ns[of].append(time.perf_counter_ns() - begun)
                    said[of].add(len(line))
            assert said["somebody's"] == said["nobody's"] and len(said["nobody's"]) == 1, said
            for of, values in ns.items():
                print(f"{what} {of:10} {len(values)} samples, mean {statistics.fmean(values) / 1000:.2f} us, median {statistics.median(values) / 1000:.2f} us")
            cut = [sorted(values)[:len(values) * 9 // 10] for values in ns.values()]
            t, cropped = welch(*ns.values()), welch(*cut)
            print(f"{what}: Welch's t {t:+.2f}, below the 90th percentile {cropped:+.2f}: "
                  f"{'not told apart' if max(abs(t), abs(cropped)) < LIMIT else 'told apart'}")
    finally:
        c.close()


if __name__ == "__main__":
    run(sys.argv[1] if len(sys.argv) > 1 else "100000")
    foreign(int(sys.argv[1] if len(sys.argv) > 1 else "100000") // 5)
