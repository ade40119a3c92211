-- Statements on nodes, which PostgreSQL alone has (CLUSTER 5).  Each names its caller and its index.  All times are the server's.

-- wnode_open(): the node of this name, locked, and what time it is there.  Unique index.
-- name: node_find
-- takes: text
-- only: pgsql
SELECT id, epoch, boot, open_us, CASE WHEN boot = '' THEN 9223372036854775807 ELSE now_us() - beat_us END, place, now_us()
FROM node WHERE name = ?1 FOR UPDATE;

-- name: node_add
-- takes: text
-- only: pgsql
INSERT INTO node(name, epoch, boot, place, batch, open_us, beat_us, since_us) VALUES(?1, 0, '', '', 0, 0, 0, 0) ON CONFLICT (name) DO NOTHING;

-- wnode_open(): from now on no other process is this node.  Primary key.
-- name: node_take
-- takes: int int text int text
-- only: pgsql
UPDATE node SET epoch = epoch + 1, boot = ?3, open_us = ?4, place = ?5, batch = 0, beat_us = now_us(), since_us = now_us()
WHERE id = ?1 AND epoch = ?2 RETURNING epoch;

-- wnode_begin(): in the transaction of the start, when calls of the process before have their end.  Primary key.
-- name: node_boot
-- takes: int int text
-- only: pgsql
UPDATE node SET boot = ?3, open_us = 0, beat_us = now_us() WHERE id = ?1 AND epoch = ?2 RETURNING (SELECT version FROM registry);

-- wnode_move(): in each transaction, last; no row: another process is this node.  Primary keys.
-- name: node_move
-- takes: int int int int
-- only: pgsql
UPDATE node SET batch = ?3, open_us = ?4, beat_us = now_us() WHERE id = ?1 AND epoch = ?2 RETURNING (SELECT version FROM registry);

-- wnode_resolve(): behind a commit that nobody has answered for.  Primary key.
-- name: node_resolve
-- takes: int int text
-- only: pgsql
UPDATE node SET epoch = epoch + 1, beat_us = now_us() WHERE id = ?1 AND epoch >= ?2 AND boot = ?3 RETURNING epoch, batch;

-- wnode_stop(): it stops, and leaves nothing.  Primary key.
-- name: node_leave
-- takes: int int
-- only: pgsql
UPDATE node SET boot = '', open_us = 0 WHERE id = ?1 AND epoch = ?2;

-- bury(): one that has not beaten for so long, unless somebody is at it.  A walk of a small table.
-- name: node_dead
-- takes: int int
-- only: pgsql
SELECT id, name, epoch, boot, open_us FROM node WHERE boot <> '' AND id <> ?1 AND beat_us < now_us() - ?2 ORDER BY id LIMIT 1
FOR UPDATE SKIP LOCKED;

-- bury(): it writes nothing any more.  Primary key.
-- name: node_fence
-- takes: int int
-- only: pgsql
UPDATE node SET epoch = epoch + 1, boot = '', open_us = 0 WHERE id = ?1 AND epoch = ?2;

-- wnode_move(): others have to look.  One row.
-- name: node_change
-- only: pgsql
UPDATE registry SET version = version + 1 RETURNING version;

-- wnode_open(), and each hour: months of records, before they come.
-- name: node_make_months
-- takes: int int
-- only: pgsql
SELECT make_month(?1), make_month(?2);
