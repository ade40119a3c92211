-- Statements of toolcrib store move (CLUSTER 15), whose reader and writer of rows is db/move.c.

-- read_logs(): logs and their heads as they are.
-- name: move_heads
-- any tenant: a store moves whole
SELECT l.id, l.origin, l.min_idx, h.size, h.root, h.frontier FROM log l JOIN head h ON h.log = l.id ORDER BY l.id;

-- put_heads(): the head of a log, as its records say.  Primary key.
-- name: move_head
-- any tenant: a store moves whole
-- takes: int int blob blob
UPDATE head SET size = ?2, root = ?3, frontier = ?4 WHERE log = ?1;

-- make_months(): whose partitions come before their rows.
-- name: move_span
-- any tenant: a store moves whole
SELECT min(ts), max(ts) FROM rec;

-- make_months(): up to ?1, from ?2 to ?3 by ?4.
-- name: move_months
-- takes: int int int int
-- only: pgsql
SELECT sum(make_month(least(x, ?1)))::int8 FROM generate_series(?2, ?3, ?4) x;

-- look_there(): is there a schema, and a store in it?
-- name: move_there
-- only: pgsql
SELECT (to_regnamespace('toolcrib') IS NOT NULL)::int, (to_regclass('toolcrib.meta') IS NOT NULL)::int;

-- look_there(): one that is marked is unfinished, or has left.  Primary key.
-- name: move_marked
-- only: pgsql
SELECT count(*) FROM meta WHERE key = 'moving';

-- move_store(), into_server(): what was marked is whole.  Primary key.
-- name: move_done
-- only: pgsql
DELETE FROM meta WHERE key = 'moving';

-- move_store(): in what spans of rows there are any, of a file.
-- name: move_spans
-- any tenant: a store moves whole
-- only: sqlite
INSERT OR IGNORE INTO span(n) SELECT DISTINCT id >> 12 FROM rec;

-- make_room()
-- name: move_drop
-- only: pgsql
DROP SCHEMA toolcrib CASCADE;

-- is_idle(): a server that has written a moment ago.
-- name: move_idle
-- only: pgsql
SELECT name FROM node WHERE boot <> '' AND beat_us > now_us() - 5000000 ORDER BY name LIMIT 1;

-- leave(): each transaction of a server ends with its row in node (decision 0163): behind this lock and another epoch nothing of it is
-- committed, and what was, heads tell.
-- name: move_lock
-- only: pgsql
LOCK TABLE node IN SHARE ROW EXCLUSIVE MODE;

-- name: move_fence
-- only: pgsql
UPDATE node SET epoch = epoch + 1;

-- name: move_sizes
-- any tenant: a store moves whole
-- only: pgsql
SELECT coalesce(sum(size), 0)::int8 FROM head;
