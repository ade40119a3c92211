-- Statements on copies that are carried outside (sink/sink.h).

-- sinks_open(): how far each of them is.  Walks; primary keys.
-- name: sink_list
SELECT name, text, file_inode, file_bytes, file_number FROM sink;

-- name: sink_cursors
-- takes: text
SELECT log, next FROM sink_cursor WHERE sink = ?1;

-- sinks_open(): all logs, with those of tenants that are gone.  Primary keys.
-- name: sink_logs
-- takes: int
SELECT l.id, l.tenant_id, l.origin, t.name FROM log l LEFT JOIN tenant t ON t.id = l.tenant_id WHERE l.id > ?1 ORDER BY l.id;

-- The writer: what the configuration says of one.  Primary key.
-- name: sink_put
-- takes: text text
INSERT INTO sink(name, text) VALUES(?1, ?2) ON CONFLICT(name) DO UPDATE SET text = ?2;

-- The writer: which file it writes, and how far that is.  Primary key.
-- name: sink_put_file
-- takes: text int int int
UPDATE sink SET file_inode = ?2, file_bytes = ?3, file_number = ?4 WHERE name = ?1;

-- The writer: a position.  Primary key.
-- name: sink_put_cursor
-- takes: text int int
INSERT INTO sink_cursor(sink, log, next) VALUES(?1, ?2, ?3) ON CONFLICT(sink, log) DO UPDATE SET next = ?3;

-- sinks_open(): what a sink did not want, at most SINK_REJECTED_MAX rows.  Primary key.
-- name: sink_rejected_list
-- takes: text
SELECT log, from_idx, to_idx, n, at_us, why FROM sink_rejected WHERE sink = ?1 ORDER BY at_us, log, from_idx;

-- The writer: one more, or the same again.  Primary key.
-- name: sink_rejected_put
-- takes: text int int int int int text
INSERT INTO sink_rejected(sink, log, from_idx, to_idx, n, at_us, why) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT(sink, log, from_idx, to_idx) DO UPDATE SET n = ?5, at_us = ?6, why = ?7;

-- The writer: all of one, before those that are left are put again.  Primary key.
-- name: sink_rejected_drop
-- takes: text
DELETE FROM sink_rejected WHERE sink = ?1;
