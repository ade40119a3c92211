-- Statements of a verification that reads the whole table rec and its indexes.  Each names its caller; none asks for one log.

-- verify_index(): what the indexes are made of, from the table itself.  A walk by primary key.
-- name: verify_scan_rec
-- takes: row
SELECT row_out(?1, id, log, idx, ts, kind, cred, prn, tool, outcome, call, id >> 12) FROM main.rec NOT INDEXED ORDER BY id;

-- verify_index(): the entries of each index, in its order; the terms are the index's own.
-- name: verify_scan_pos
-- takes: row
SELECT row_out(?1, log, idx, id) FROM main.rec INDEXED BY rec_pos ORDER BY log, idx;

-- name: verify_scan_order
-- takes: row
SELECT row_out(?1, id >> 12, log, idx, id) FROM main.rec INDEXED BY rec_order ORDER BY id >> 12, log, idx;

-- verify_index(): a row that such a walk does not come to; one whose position is there twice, or that does not stand where it came.  Walks of
-- rec_order, primary keys.
-- name: verify_misplaced
SELECT 'row ' || id || ' is not found by its position: its span is missing' FROM main.rec INDEXED BY rec_order
WHERE id >> 12 NOT IN (SELECT n FROM main.span)
UNION ALL SELECT 'the row of record ' || idx || ' of log ' || log || ' is there twice, or not in its place'
FROM (SELECT l.id AS log, r.idx AS idx, r.id AS id, lag(r.idx) OVER place AS was, lag(r.id) OVER place AS before
  FROM main.log l CROSS JOIN main.rec_at r ON r.log = l.id WINDOW place AS (PARTITION BY l.id ORDER BY r.span, r.idx))
WHERE idx <= was OR id <= before
LIMIT 1;

-- name: verify_scan_call
-- takes: row
SELECT row_out(?1, call, id) FROM main.rec INDEXED BY rec_call WHERE kind <> 1001 AND call IS NOT NULL ORDER BY call;

-- name: verify_scan_ts
-- takes: row
SELECT row_out(?1, log, ts, id) FROM main.rec INDEXED BY rec_ts WHERE kind <> 1001 ORDER BY log, ts;

-- name: verify_scan_prn
-- takes: row
SELECT row_out(?1, log, prn, ts, id) FROM main.rec INDEXED BY rec_prn WHERE kind <> 1001 ORDER BY log, prn, ts;

-- name: verify_scan_cred
-- takes: row
SELECT row_out(?1, log, cred, ts, id) FROM main.rec INDEXED BY rec_cred WHERE kind <> 1001 ORDER BY log, cred, ts;

-- name: verify_scan_tool
-- takes: row
SELECT row_out(?1, log, tool, ts, id) FROM main.rec INDEXED BY rec_tool WHERE kind <> 1001 ORDER BY log, tool, ts;

-- name: verify_scan_out
-- takes: row
SELECT row_out(?1, log, outcome, ts, id) FROM main.rec INDEXED BY rec_out WHERE outcome <> 0 ORDER BY log, outcome, ts;

-- name: verify_scan_kind
-- takes: row
SELECT row_out(?1, log, kind, ts, id) FROM main.rec INDEXED BY rec_kind WHERE kind <> 1001 AND kind <> 1002 ORDER BY log, kind, ts;

-- verify_index(): the indexes that there are.
-- name: verify_list_indexes
SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'rec' ORDER BY name;

-- verify_index(): how many entries the pages of rec_call have, NULLs included.
-- name: verify_count_calls
SELECT coalesce(sum(ncell), 0) FROM dbstat WHERE name = 'rec_call' AND aggregate = 1;

-- name: verify_version
-- takes: int
-- verify_registry: a version that was taken as it was.  Primary key.
SELECT digest, definition FROM tool_version WHERE id = ?1;

-- name: verify_instance
-- verify_registry: a store whose meta has another name than its system log.  Primary keys.
SELECT 1 WHERE (SELECT origin FROM log WHERE id = 1) IS NOT (SELECT value FROM meta WHERE key = 'instance');

-- verify_forms: blocks of a log, in order.  Primary key.
-- name: verify_list_blocks
-- takes: int
SELECT first, cnt, fmt, ts_min, ts_max, cols, hash, zone FROM main.blk WHERE log = ?1 ORDER BY first;

-- verify_forms: chapters of a log: the first that ends behind ?2, the next from ?2 on; none behind ?3.  Primary key.
-- name: verify_first_chapter
-- takes: int int int
SELECT first, cnt, ts_min, ts_max, zone, sums FROM main.chap WHERE log = ?1 AND first + cnt > ?2 AND first <= ?3
ORDER BY first LIMIT 1;

-- name: verify_next_chapter
-- takes: int int int
SELECT first, cnt, ts_min, ts_max, zone, sums FROM main.chap WHERE log = ?1 AND first >= ?2 AND first <= ?3
ORDER BY first LIMIT 1;

-- name: verify_last_chapter
-- takes: int
SELECT max(first) FROM main.chap WHERE log = ?1;

-- verify_forms: books of a log that end behind ?2 and begin before ?3.  Primary key.
-- name: verify_list_books
-- takes: int int int
SELECT first, cnt, ts_min, ts_max, days, sums FROM main.book WHERE log = ?1 AND first + cnt > ?2 AND first < ?3 ORDER BY first;

-- verify_forms: blocks of a chapter.  Primary key.
-- name: verify_list_part
-- takes: int int int
SELECT first, cnt, fmt, ts_min, ts_max, cols, hash, zone FROM main.blk WHERE log = ?1 AND first >= ?2 AND first < ?3
ORDER BY first;

-- verify_forms: where the blocks of a log are.  Primary key.
-- name: verify_list_places
-- takes: int
SELECT first, cnt FROM main.blk WHERE log = ?1 ORDER BY first;

-- plan(): the block that has a record, or the last one before it.  Primary key.
-- name: verify_place_at
-- takes: int int
SELECT first, cnt FROM main.blk WHERE log = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1;

-- plan(): the first row from an index on.  rec_order.
-- name: verify_row_from
-- takes: int int int
SELECT idx FROM main.rec_tail WHERE log = ?1 AND idx >= ?2 AND idx < ?3 ORDER BY span, idx LIMIT 1;

-- read_block(): one block, and what is kept beside it.  Primary keys.
-- name: verify_get_block
-- takes: int int
SELECT cnt, fmt, ts_min, ts_max, cols, hash, zone FROM main.blk WHERE log = ?1 AND first = ?2;

-- name: verify_list_groups
-- takes: int int int
SELECT first, body FROM main.blkpay
WHERE log = ?1 AND first >= coalesce((SELECT max(first) FROM main.blkpay WHERE log = ?1 AND first <= ?2), ?2) AND first < ?3
ORDER BY first;

-- blame(): groups of what is kept beside the blocks of a log.  Primary key.
-- name: verify_list_bodies
-- takes: int
SELECT first, body FROM main.blkpay WHERE log = ?1 ORDER BY first;

-- verify_forms: what is kept beside rows that blocks have replaced (from ?2 on, before ?3) and is not what is kept beside the
-- blocks: whether something else is, which gives an id of forms_id().  rec_order, primary keys.
-- name: verify_list_kept_twice
-- takes: int int int
SELECT m.idx, p.rec IS NOT NULL FROM main.rec_at m CROSS JOIN main.pay k ON k.rec = m.id
LEFT JOIN pay p ON p.rec = (m.log << 40 | m.idx) - 9223372036854775807 - 1
WHERE m.log = ?1 AND m.idx >= ?2 AND m.idx < ?3
  AND (p.rec IS NULL OR p.salt IS NOT k.salt OR p.nonce IS NOT k.nonce OR p.ct IS NOT k.ct)
ORDER BY m.span, m.idx;

-- forms_again(): has a log rows in a range that blocks have replaced?  rec_order.
-- name: verify_any_leftover
-- takes: int int int
SELECT EXISTS(SELECT 1 FROM main.rec_at WHERE log = ?1 AND idx >= ?2 AND idx < ?3);

-- walk_kept(): what is kept beside rows, of records that are in the file; then groups of records that no block has.
-- Primary keys.
-- name: verify_list_kept_rows
-- takes: int
-- only: pgsql
SELECT r.log, r.idx, p.log::int8 << 40 | p.idx FROM pay p LEFT JOIN rec r ON r.log = p.log AND r.idx = p.idx AND r.ts = p.ts
WHERE (p.log::int8 << 40 | p.idx) > ?1;
-- only: sqlite
SELECT r.log, r.idx, p.rec FROM main.pay p LEFT JOIN main.rec r ON r.id = p.rec WHERE p.rec > ?1;

-- name: verify_list_kept_groups
SELECT g.log FROM (SELECT log, min(first) AS a, max(first) AS z FROM main.blkpay p
  WHERE first >= coalesce((SELECT to_idx FROM main.seg WHERE log = p.log ORDER BY from_idx DESC LIMIT 1), -9223372036854775807) GROUP BY log) g
WHERE a < coalesce((SELECT min(first) FROM main.blk WHERE log = g.log), 9223372036854775807)
  OR z >= coalesce((SELECT first + cnt FROM main.blk WHERE log = g.log ORDER BY first DESC LIMIT 1), 0);

-- check_open(): begins in blocks whose end has not come, as the store has them for a start after a crash.  Primary key.
-- name: verify_list_open
-- takes: int
SELECT idx, call FROM main.open_call WHERE log = ?1 ORDER BY idx;

-- check_open(): a record behind what was read, of the same call.  rec_call.
-- name: verify_ended_since
-- takes: int int blob
SELECT EXISTS(SELECT 1 FROM main.rec_at WHERE log = ?1 AND idx >= ?2 AND call = ?3 AND kind <> 1001 AND call IS NOT NULL);

-- verify_forms: logs with blocks, of one tenant and the system's or of all.  Primary keys.
-- name: verify_list_folded
-- takes: int
SELECT l.id, l.origin, l.min_idx FROM log l WHERE (?1 = 0 OR l.id = 1 OR l.tenant_id = ?1)
  AND EXISTS (SELECT 1 FROM main.blk b WHERE b.log = l.id) ORDER BY l.id;

-- name: verify_list_texts
-- check_texts(): the dictionary, in the order in which it grew.  A walk by primary key.
SELECT id, kind, text FROM dict NOT INDEXED ORDER BY id;

-- verify_sealed: logs with sealed files, of one tenant and the system's or of all.  Primary keys.
-- name: verify_list_sealed
-- takes: int
SELECT l.id, l.origin, l.min_idx FROM log l WHERE (?1 = 0 OR l.id = 1 OR l.tenant_id = ?1)
  AND EXISTS (SELECT 1 FROM main.seg s WHERE s.log = l.id) ORDER BY l.id;

-- verify_sealed: the catalog of a log; the file that a record speaks of.  Primary key.
-- name: verify_list_files
-- takes: int
SELECT from_idx, to_idx, ts_min, ts_max, bytes, digest, root, set_by, path, moved_by FROM main.seg WHERE log = ?1 ORDER BY from_idx;

-- name: verify_file_of
-- takes: int int
SELECT from_idx, to_idx, ts_min, ts_max, bytes, digest, root, set_by, path, moved_by FROM main.seg WHERE log = ?1 AND (+set_by = ?2 OR +moved_by = ?2);

-- sealed.c: the newest record that moved the file which begins there.  Primary key.
-- name: verify_moved_by
-- takes: int int
SELECT moved_by FROM main.seg WHERE log = ?1 AND from_idx = ?2;

-- restore_run(): how far each log goes, by its records or by what its head says, its newest checkpoint, time and kind of
-- the last record.  rec_order, backwards; primary keys.
-- name: restore_list_logs
SELECT l.id, l.origin, max(h.size, coalesce((SELECT idx + 1 FROM main.rec_at WHERE log = l.id ORDER BY span DESC, idx DESC LIMIT 1), 0)),
  coalesce((SELECT max(size) FROM cp WHERE log = l.id), 0), (SELECT ts FROM main.rec_at WHERE log = l.id ORDER BY span DESC, idx DESC LIMIT 1),
  (SELECT kind FROM main.rec_at WHERE log = l.id ORDER BY span DESC, idx DESC LIMIT 1) FROM log l JOIN head h ON h.log = l.id ORDER BY l.id;
