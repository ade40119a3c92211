-- Statements on nodes, which PostgreSQL alone has (CLUSTER 5).  Each names its caller and its index.  All times are the server's.

-- wnode_open(), node drain, node remove: the node of this name, locked, and what time it is there.  Unique index.
-- name: node_find
-- takes: text
-- only: pgsql
SELECT id, epoch, boot, open_us, CASE WHEN boot = '' THEN 9223372036854775807 ELSE now_us() - beat_us END, place, now_us(), leaves
FROM node WHERE name = ?1 FOR UPDATE;

-- name: node_add
-- takes: text
-- only: pgsql
INSERT INTO node(name, epoch, boot, place, batch, open_us, beat_us, since_us) VALUES(?1, 0, '', '', 0, 0, 0, 0) ON CONFLICT (name) DO NOTHING;

-- wnode_open(): from now on no other process is this node.  Primary key.
-- name: node_take
-- takes: int int text int text
-- only: pgsql
UPDATE node SET epoch = epoch + 1, boot = ?3, open_us = ?4, place = ?5, batch = 0, leaves = 0, beat_us = now_us(),
  since_us = now_us()
WHERE id = ?1 AND epoch = ?2 RETURNING epoch;

-- wnode_begin(): in the transaction of the start, when calls of the process before have their end.  Primary key.
-- name: node_boot
-- takes: int int text
-- only: pgsql
UPDATE node SET boot = ?3, open_us = 0, beat_us = now_us() WHERE id = ?1 AND epoch = ?2 RETURNING (SELECT version FROM registry);

-- wnode_move(): in each transaction, last; no row: another process is this node.  And shall it stop?  Primary keys.
-- name: node_move
-- takes: int int int int
-- only: pgsql
UPDATE node SET batch = ?3, open_us = ?4, beat_us = now_us() WHERE id = ?1 AND epoch = ?2 RETURNING (SELECT version FROM registry), leaves;

-- wnode_resolve(): behind a commit that nobody has answered for, unless it is removed.  Primary key.
-- name: node_resolve
-- takes: int int text
-- only: pgsql
UPDATE node SET epoch = epoch + 1, beat_us = now_us() WHERE id = ?1 AND epoch >= ?2 AND boot = ?3 AND leaves < 2 RETURNING epoch, batch;

-- wnode_stop(): it stops, and leaves nothing.  Primary key.
-- name: node_leave
-- takes: int int
-- only: pgsql
UPDATE node SET boot = '', open_us = 0, beat_us = now_us() WHERE id = ?1 AND epoch = ?2;

-- bury(): one that has not beaten for so long, unless somebody is at it.  A walk of a small table.
-- name: node_dead
-- takes: int int
-- only: pgsql
SELECT id, name, epoch, boot, open_us, beat_us FROM node WHERE boot <> '' AND id <> ?1 AND beat_us < now_us() - ?2 ORDER BY id LIMIT 1
FOR UPDATE SKIP LOCKED;

-- bury(): it writes nothing any more.  Primary key.
-- name: node_fence
-- takes: int int
-- only: pgsql
UPDATE node SET epoch = epoch + 1, boot = '', open_us = 0 WHERE id = ?1 AND epoch = ?2;

-- node drain, node remove: what is wanted of it; 2 fences it, and it is dead for whoever looks for such.  Primary key.
-- name: node_leaves
-- takes: int int
-- only: pgsql
UPDATE node SET leaves = ?2, epoch = epoch + CASE ?2 WHEN 2 THEN 1 ELSE 0 END, beat_us = CASE ?2 WHEN 2 THEN 0 ELSE beat_us END WHERE id = ?1;

-- node remove, bury(): one that is to go and has nothing open any more.  Primary key.
-- name: node_forget
-- takes: int
-- only: pgsql
DELETE FROM node WHERE id = ?1 AND boot = '' AND leaves = 2;

-- wnode_move(): others have to look.  One row.
-- name: node_change
-- only: pgsql
UPDATE registry SET version = version + 1 RETURNING version;

-- wnode_open(), and each hour: months of records, before they come.
-- name: node_make_months
-- takes: int int
-- only: pgsql
SELECT make_month(?1), make_month(?2);

-- keep(): which node keeps the store (CLUSTER K-204), in a row of meta that is locked before it is decided.  Primary key.
-- name: node_keeper_make
-- only: pgsql
INSERT INTO meta(key, value) VALUES('keeper', '') ON CONFLICT (key) DO NOTHING;

-- name: node_keeper_lock
-- only: pgsql
SELECT value FROM meta WHERE key = 'keeper' FOR UPDATE;

-- keep(), wnode_beat(): nobody does: who did has stopped, so long ago that his last checkpoint is signed, or was fenced.  Primary keys.
-- name: node_keeper_free
-- takes: int
-- only: pgsql
SELECT 1 FROM meta m WHERE m.key = 'keeper' AND (m.value = '' OR NOT EXISTS(SELECT 1 FROM node n WHERE n.id::text = m.value
  AND (n.boot <> '' OR n.beat_us > now_us() - ?1)));

-- name: node_keeper_set
-- takes: int
-- only: pgsql
UPDATE meta SET value = ?1::text WHERE key = 'keeper';

-- wnode_unkeep(): the last is signed.  Primary key.
-- name: node_keeper_end
-- takes: int
-- only: pgsql
UPDATE meta SET value = '' WHERE key = 'keeper' AND value = ?1::text;

-- wnode_beat(): how far the keeper has signed, by the time of its round.  Primary key.
-- name: node_signed
-- only: pgsql
SELECT value::int8 FROM meta WHERE key = 'signed';

-- node list: all that there ever were, but commands that have ended.  A walk of a small table.
-- name: node_list
-- takes: int
-- only: pgsql
SELECT n.name, CASE WHEN n.boot = '' THEN 'stopped' WHEN n.leaves = 2 THEN 'removed' WHEN n.beat_us < now_us() - ?1 THEN 'dead'
  WHEN n.leaves = 1 THEN 'drains' ELSE 'serves' END, n.since_us, n.beat_us, n.place, CASE WHEN n.boot <> '' AND n.id::text = (SELECT value FROM meta WHERE key = 'keeper') THEN 1 ELSE 0 END
FROM node n WHERE n.boot <> '' OR n.name NOT LIKE 'cli-%' ORDER BY n.name;
