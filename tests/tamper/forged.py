"""Kinds of tampering that make check-forgery has found, and nobody had thought of (A-T92)."""
from kinds import Kind


def stray_head(s, rnd):
    """A head of a log that is not there: shares of the store are of all heads."""
    s.run("INSERT INTO head(log, size, root, frontier) SELECT ?, ?, root, frontier FROM head WHERE log = 1",
          rnd.randrange(50, 99), rnd.randrange(1, 1 << 40))


KINDS = [Kind("A-T92", stray_head, each=("LOG_MISSING",), never=("LEAF", "ROOT"))]
