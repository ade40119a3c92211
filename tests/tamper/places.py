"""How rows are found by their position (A-T141 to A-T144, 0042_span.sql): who asks by it is told of fewer records, of one twice, or in
another order, and every record that is there is as it was."""
import tamperings as t
from kinds import Kind

SPAN = 4096


def beyond(s):
    """An id in the span behind the newest."""
    n = s.one("SELECT max(id) FROM rec") // SPAN + 1
    s.run("INSERT INTO span(n) VALUES(?)", n)
    return n * SPAN


def span_gone(s, rnd):
    """The rows of a span are found by nobody who asks by position"""
    assert s.run("DELETE FROM span WHERE n = ?", s.pick(rnd)["id"] // SPAN) == 1


def twice(s, rnd):
    """A row is there again, in another span"""
    row = {**s.pick(rnd), "id": beyond(s)}
    s.run(f"INSERT INTO rec({','.join(map(t.quoted, row))}) VALUES({','.join('?' * len(row))})", *row.values())


def moved(s, rnd):
    """A row stands behind those that came after it"""
    log = rnd.choice(s.tenants())
    row = s.pick(rnd, f"idx < {s.size(log) - 1}", log)
    to = beyond(s)
    s.run("UPDATE rec SET id = ? WHERE id = ?", to, row["id"])
    s.run("UPDATE pay SET rec = ? WHERE rec = ?", to, row["id"])


def tail_hidden(s, rnd):
    """Rows that wait to become blocks are said to be in some"""
    s.run("INSERT OR REPLACE INTO meta(key, value) VALUES('tail_from', ?)", str(beyond(s) + rnd.randrange(SPAN)))


KINDS = [Kind("A-T141", span_gone, each=("INDEX",)), Kind("A-T142", twice, each=("INDEX",)), Kind("A-T143", moved, each=("INDEX",)),
         Kind("A-T144", tail_hidden, one_of=("GAP", "TRUNCATED", "ROOT")),
         Kind("A-T141b", span_gone, each=("INDEX",), form="leftovers"), Kind("A-T142b", twice, each=("INDEX",), form="leftovers"),
         Kind("A-T143b", moved, each=("INDEX",), form="leftovers"), Kind("A-T144b", tail_hidden, one_of=("GAP", "TRUNCATED", "ROOT"), form="blocks")]
