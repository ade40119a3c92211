-- Statements on blocks as the writer makes them, and on the rows that become blocks (audit/fold.h).  They name the tables
-- of the file.  A log stands for its tenant.

-- read_line(): where the newest block, or sealed file, ends, the first record of the log, erasures so far.  Primary keys.
-- name: fold_line
-- takes: int
SELECT coalesce((SELECT first + cnt FROM main.blk WHERE log = l.id ORDER BY first DESC LIMIT 1),
    (SELECT to_idx FROM main.seg WHERE log = l.id ORDER BY from_idx DESC LIMIT 1)), l.min_idx,
  (SELECT CAST(value AS INTEGER) FROM main.meta WHERE key = 'erasures'), l.origin
FROM main.log l WHERE l.id = ?1;

-- audit_folder_next(): what is kept beside rows.  rec_order, primary key.
-- name: fold_list_kept
-- takes: int int int
SELECT k.idx, p.salt, p.nonce, p.ct FROM (SELECT id, idx FROM main.rec_tail WHERE log = ?1 AND idx >= ?2 AND idx < ?3
  ORDER BY span, idx LIMIT ?3 - ?2) k CROSS JOIN main.pay p ON p.rec = k.id;

-- audit_folder_left(): the oldest leftover, and the block that has it.  rec_order, primary key.
-- name: fold_oldest_left
-- takes: int int
SELECT first, cnt, fmt, ts_min, ts_max, cols, hash, zone, l.idx
FROM (SELECT idx FROM main.rec_at WHERE log = ?1 AND idx < ?2 ORDER BY span, idx LIMIT 1) l CROSS JOIN main.blk
WHERE log = ?1 AND first = (SELECT max(first) FROM main.blk WHERE log = ?1 AND first <= l.idx);

-- writer/fold.c: rows that have come, in the order of arrival.  Primary key.
-- any tenant: what waits is counted of all logs, and goes in the order of arrival.
-- name: fold_list_rows
-- takes: int int int
SELECT id, log, idx FROM main.rec WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3;

-- writer/fold.c: the first row of a log that is not folded.  rec_order.
-- name: fold_row_at
-- takes: int int
SELECT id FROM main.rec_at WHERE log = ?1 AND idx >= ?2 ORDER BY span, idx LIMIT 1;

-- writer/fold.c: how many rows there are, about.  Primary key.
-- any tenant: a count of the store.
-- name: fold_oldest_row
SELECT coalesce(min(id), 0) FROM main.rec;

-- audit_fold_put().
-- name: fold_put_block
-- takes: int int int int int int blob blob blob
INSERT INTO main.blk(log, first, cnt, fmt, ts_min, ts_max, cols, hash, zone) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: fold_put_open
-- takes: int int blob
INSERT INTO main.open_call(log, idx, call) VALUES(?1, ?2, ?3);

-- audit_append(): the end of a call whose begin is in a block.  Primary key.
-- name: fold_end_open
-- takes: int int
DELETE FROM main.open_call WHERE log = ?1 AND idx = ?2;

-- audit_recover(): begins in blocks that have no end.  Walk of the table, which is small.
-- any tenant: recovery looks at all logs.
-- name: fold_list_open
SELECT log, idx, call FROM main.open_call ORDER BY log, idx;

-- audit_fold_drop(): what is kept beside the rows that fold_drop_rows takes next, which are never all: the newest id is
-- not given out again, or meta.open_from would name a later row.  rec_order, primary key.
-- name: fold_drop_kept
-- takes: int int int int int
DELETE FROM main.pay WHERE rec IN (SELECT id FROM main.rec_at WHERE log = ?1 AND idx >= ?2 AND idx < ?3 AND span <= ?5 >> 12
  AND id < (SELECT max(id) FROM main.rec) AND id <= ?5 ORDER BY span, idx LIMIT ?4);

-- name: fold_drop_rows
-- takes: int int int int int
DELETE FROM main.rec WHERE id IN (SELECT id FROM main.rec_at WHERE log = ?1 AND idx >= ?2 AND idx < ?3 AND span <= ?5 >> 12
  AND id < (SELECT max(id) FROM main.rec) AND id <= ?5 ORDER BY span, idx LIMIT ?4);

-- forms_count(): rows, about; did all that there was go into blocks once; does the store know blocks, and sealed files; and spans?
-- Primary keys, a walk of the schema.
-- any tenant: a count of the store.
-- name: fold_count_rows
SELECT coalesce((SELECT max(id) FROM main.rec) - (SELECT min(id) FROM main.rec) + 1, 0),
  EXISTS(SELECT 1 FROM main.meta WHERE key = 'tail_from'),
  (SELECT count(*) FROM sqlite_schema NOT INDEXED WHERE type = 'table' AND name IN ('seg', 'span'));

-- forms_count(): records that are in no block; is any in one?  rec_order, primary keys, a step for each log.
-- any tenant: a count of the store.
-- name: fold_count_waiting
SELECT coalesce(sum(max(0, coalesce((SELECT idx + 1 FROM main.rec_tail WHERE log = l.id ORDER BY span DESC, idx DESC LIMIT 1), 0)
  - coalesce((SELECT first + cnt FROM main.blk WHERE log = l.id ORDER BY first DESC LIMIT 1),
    (SELECT to_idx FROM main.seg WHERE log = l.id ORDER BY from_idx DESC LIMIT 1), l.min_idx))), 0),
  EXISTS(SELECT 1 FROM main.blk) FROM main.log l;

-- The same of a store whose steps up to 0042_span.sql are to be made.  rec_pos, primary keys, a step for each log.
-- any tenant: a count of the store.
-- name: fold_count_waiting_before
SELECT coalesce(sum(max(0, coalesce((SELECT idx + 1 FROM main.rec WHERE log = l.id ORDER BY idx DESC LIMIT 1), 0)
  - coalesce((SELECT first + cnt FROM main.blk WHERE log = l.id ORDER BY first DESC LIMIT 1),
    (SELECT to_idx FROM main.seg WHERE log = l.id ORDER BY from_idx DESC LIMIT 1), l.min_idx))), 0),
  EXISTS(SELECT 1 FROM main.blk) FROM main.log l;

-- writer_fold_offline(): the next log.  Primary key.
-- any tenant: all logs are folded.
-- name: fold_next_log
-- takes: int
SELECT id FROM main.log WHERE id > ?1 ORDER BY id LIMIT 1;

-- forms_make_lean(): is any record in a block, are there at most ?1 rows, and at most ?2 that are not leftovers?  rec_order,
-- primary keys, a step for each log.
-- any tenant: a count of the store.
-- name: fold_is_small
-- takes: int int
SELECT (EXISTS(SELECT 1 FROM main.blk) OR EXISTS(SELECT 1 FROM main.seg))
  AND (SELECT max(id) FROM main.rec) - (SELECT min(id) FROM main.rec) < ?1 AND ?2 >= (
  SELECT sum(coalesce((SELECT idx + 1 FROM main.rec_tail WHERE log = l.id ORDER BY span DESC, idx DESC LIMIT 1), 0)
    - coalesce((SELECT first + cnt FROM main.blk WHERE log = l.id ORDER BY first DESC LIMIT 1),
      (SELECT to_idx FROM main.seg WHERE log = l.id ORDER BY from_idx DESC LIMIT 1), l.min_idx)) FROM main.log l);

-- fold_erased(): one more erasure.  Primary key.
-- any tenant: a count of the store.
-- name: fold_erased
INSERT INTO main.meta(key, value) VALUES('erasures', '1')
ON CONFLICT(key) DO UPDATE SET value = CAST(CAST(meta.value AS INTEGER) + 1 AS TEXT);

-- fold_erase_block(), fold_prune(): the first block that ends behind an index.  Primary key.
-- name: fold_next_block
-- takes: int int
SELECT first, cnt, fmt, ts_min, ts_max, cols, hash, zone FROM main.blk
WHERE log = ?1 AND first >= coalesce((SELECT max(first) FROM main.blk WHERE log = ?1 AND first <= ?2), 0) AND first + cnt > ?2
ORDER BY first LIMIT 1;

-- forms_chapter_next(): chapters of blocks, the newest first, and how many blocks they have.  Primary keys.
-- name: fold_list_parts
-- takes: int
SELECT c.first, c.cnt, (SELECT count(*) FROM main.blk b WHERE b.log = c.log AND b.first >= c.first AND b.first < c.first + c.cnt)
FROM main.chap c WHERE c.log = ?1 AND c.first >= coalesce((SELECT to_idx FROM main.seg WHERE log = ?1 ORDER BY from_idx DESC LIMIT 1), 0)
ORDER BY c.first DESC;

-- Where blocks that are in no chapter may begin: none is pruned.  Primary keys.
-- name: fold_loose_from
-- takes: int
SELECT max(min_idx, coalesce((SELECT first + cnt FROM main.chap WHERE log = ?1 ORDER BY first DESC LIMIT 1), 0)) FROM main.log WHERE id = ?1;

-- Blocks from there on, at most ?3; how many.  Primary keys.
-- name: fold_list_chapter
-- takes: int int int
SELECT first, cnt, fmt, ts_min, ts_max, cols, hash, zone FROM main.blk WHERE log = ?1 AND first >= ?2 ORDER BY first LIMIT ?3;

-- name: fold_count_loose
-- takes: int int int
SELECT count(*) FROM (SELECT 1 FROM main.blk WHERE log = ?1 AND first >= ?2 LIMIT ?3);

-- forms_chapter_put(): behind all others, or in the place of small ones that it ends behind, of blocks that are there.  Primary keys.
-- name: fold_put_chapter
-- takes: int int int int int blob blob
INSERT INTO main.chap(log, first, cnt, ts_min, ts_max, zone, sums)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE EXISTS(SELECT 1 FROM main.blk WHERE log = ?1 AND first = ?2)
  AND ?2 >= (SELECT min_idx FROM main.log WHERE id = ?1)
  AND ?2 + ?3 > coalesce((SELECT first + cnt FROM main.chap WHERE log = ?1 ORDER BY first DESC LIMIT 1), 0)
  AND ?2 >= coalesce((SELECT first + cnt FROM main.chap WHERE log = ?1 AND first < ?2 ORDER BY first DESC LIMIT 1), 0)
ON CONFLICT(log, first) DO UPDATE SET cnt = excluded.cnt, ts_min = excluded.ts_min, ts_max = excluded.ts_max, zone = excluded.zone,
  sums = excluded.sums;

-- name: fold_drop_parts
-- takes: int int int
DELETE FROM main.chap WHERE log = ?1 AND first > ?2 AND first < ?2 + ?3;

-- forms_chapter_next(): chapters from ?2 on, but for pruned ones, and where the books end that begin there and go on without a gap.
-- Primary keys: a step for each book.
-- name: fold_list_book
-- takes: int int
SELECT c.first, c.cnt, CASE WHEN EXISTS(SELECT 1 FROM main.book b WHERE b.log = ?1 AND b.first = c.first) THEN (
  SELECT e.first + e.cnt FROM main.book e WHERE e.log = ?1 AND e.first >= c.first
    AND NOT EXISTS(SELECT 1 FROM main.book n WHERE n.log = ?1 AND n.first = e.first + e.cnt) ORDER BY e.first LIMIT 1) END
FROM main.chap c WHERE c.log = ?1 AND c.first >= max(?2, (SELECT min_idx FROM main.log WHERE id = ?1)) ORDER BY c.first;

-- forms_chapter_next(): the book that ends where ?2 begins, and how many chapters it has.  Primary keys.
-- name: fold_book_before
-- takes: int int
SELECT b.first, (SELECT count(*) FROM main.chap c WHERE c.log = ?1 AND c.first >= b.first AND c.first < ?2) FROM main.book b
WHERE b.log = ?1 AND b.first = (SELECT max(first) FROM main.book WHERE log = ?1 AND first < ?2) AND b.first + b.cnt = ?2;

-- forms_chapter_put(): a book that lies upon no other, of so many chapters that are there; or one that has grown.  Primary keys.
-- name: fold_put_book
-- takes: int int int int int blob blob int
INSERT INTO main.book(log, first, cnt, ts_min, ts_max, days, sums)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE (SELECT count(*) = ?8 AND sum(cnt) = ?3 FROM main.chap WHERE log = ?1 AND first >= ?2 AND first < ?2 + ?3)
  AND ?2 >= max((SELECT min_idx FROM main.log WHERE id = ?1),
    coalesce((SELECT first + cnt FROM main.book WHERE log = ?1 AND first < ?2 ORDER BY first DESC LIMIT 1), 0))
  AND NOT EXISTS(SELECT 1 FROM main.book WHERE log = ?1 AND first > ?2 AND first < ?2 + ?3)
ON CONFLICT(log, first) DO UPDATE SET cnt = excluded.cnt, ts_min = excluded.ts_min, ts_max = excluded.ts_max, days = excluded.days,
  sums = excluded.sums WHERE excluded.cnt > cnt;

-- fold_prune(): books that a cut goes through or behind, before their chapters.  Primary key.
-- name: fold_prune_books
-- takes: int int
DELETE FROM main.book WHERE log = ?1 AND first < ?2;

-- fold_prune(): some chapters that a cut goes through or behind.  Primary key.
-- name: fold_prune_chapters
-- takes: int int int
DELETE FROM main.chap WHERE log = ?1 AND first IN (SELECT first FROM main.chap WHERE log = ?1 AND first < ?2
  ORDER BY first LIMIT ?3);

-- fold_prune(): some blocks below a cut, the oldest first.  Primary key.
-- name: fold_prune_blocks
-- takes: int int int
DELETE FROM main.blk WHERE log = ?1 AND first IN (SELECT first FROM main.blk WHERE log = ?1 AND first < ?2 AND first + cnt <= ?2
  ORDER BY first LIMIT ?3);

-- fold_prune(): what is kept beside them.  Primary key.
-- name: fold_prune_groups
-- takes: int int
DELETE FROM main.blkpay WHERE log = ?1 AND first < ?2
  AND first < coalesce((SELECT min(first) FROM main.blk WHERE log = ?1), ?2);

-- fold_prune(): calls that began below a cut; there is none.  Primary key.
-- name: fold_prune_open
-- takes: int int
DELETE FROM main.open_call WHERE log = ?1 AND idx < ?2;

-- fold_prune(): the block that a cut goes through.  Primary key.
-- name: fold_delete_block
-- takes: int int
DELETE FROM main.blk WHERE log = ?1 AND first = ?2;
