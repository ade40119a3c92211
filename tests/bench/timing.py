"""Whether refusals of keys can be told apart by their time: python3 tests/bench/timing.py [SAMPLES]   (100000 of each kind)

A server with 1,000 keys is asked over loopback by tests/bench/b_timing.  The usual reading of Welch's t: beyond 4.5 in
either direction two kinds are told apart."""
import json
import os
import pathlib
import subprocess
import sys

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


if __name__ == "__main__":
    run(sys.argv[1] if len(sys.argv) > 1 else "100000")
