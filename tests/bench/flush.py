#!/usr/bin/env python3
"""make bench-flush: how long a write and its fdatasync() take here, which is what each figure of durable calls hangs on (SP-604)."""
import os
import statistics
import sys
import tempfile
import time

ROUNDS = 200
SIZES = (4, 20, 80, 256)        # KiB


def flush(fd, at, data):
    begun = time.perf_counter()
    os.pwrite(fd, data, at)
    os.fdatasync(fd)
    return (time.perf_counter() - begun) * 1000


def main(folder):
    with tempfile.TemporaryFile(dir=folder) as f:
        for size in SIZES:
            data = bytes(size * 1024)
            for grown in (True, False):         # behind the end, as a log grows; over what is there, as one is used again
                times = sorted(flush(f.fileno(), i * len(data), data) for i in range(ROUNDS))
                print(f"{size} KiB, {'behind the end' if grown else 'over what is there'}: "
                      f"median {statistics.median(times):.3f} ms, 99th percentile {times[ROUNDS * 99 // 100]:.3f} ms")
            f.truncate(0)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
