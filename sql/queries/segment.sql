-- Statements on sealed files (segment/segment.h), which no other statement touches; each has one log.

-- segment_maker_…().
-- name: segment_put_info
-- takes: text int int blob blob int blob blob text
INSERT INTO info(origin, from_idx, to_idx, from_peaks, to_peaks, epoch, note, growth, release) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: segment_put_epoch
-- takes: int blob blob
INSERT INTO epoch(n, pk, cert) VALUES(?1, ?2, ?3);

-- name: segment_put_block
-- takes: int int int int int blob blob blob
INSERT INTO blk(first, cnt, fmt, ts_min, ts_max, cols, hash, zone) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- name: segment_put_group
-- takes: int blob
INSERT INTO blkpay(first, body) VALUES(?1, ?2);

-- name: segment_put_text
-- takes: int int text
INSERT INTO text(id, kind, text) VALUES(?1, ?2, ?3);

-- segment_open(): one row; a second one is refused.
-- name: segment_get_info
SELECT origin, from_idx, to_idx, from_peaks, to_peaks, epoch, note, growth, release FROM info LIMIT 2;

-- segment_epochs(), segment_blocks(), segment_kept(), segment_texts(): all, in order.  Primary keys.
-- name: segment_list_epochs
SELECT n, pk, cert FROM epoch ORDER BY n;

-- name: segment_list_blocks
SELECT first, cnt, fmt, ts_min, ts_max, cols, hash, zone FROM blk ORDER BY first;

-- name: segment_list_groups
SELECT first, body FROM blkpay ORDER BY first;

-- name: segment_list_texts
SELECT id, kind, text FROM text NOT INDEXED ORDER BY id;

-- segment_text().  Primary key.
-- name: segment_get_text
-- takes: int
SELECT kind, text FROM text WHERE id = ?1;

-- forms: blocks from the one that has ?2, or the next, to the one that has ?3, as those of a store (?1 is its log).  Primary key.
-- name: segment_blocks_up
-- takes: int int int
SELECT first, cnt, fmt, ts_min, ts_max, zone FROM blk
WHERE ?1 > 0 AND first >= coalesce((SELECT max(first) FROM blk WHERE first <= ?2), ?2) AND first <= ?3 ORDER BY first;

-- name: segment_blocks_down
-- takes: int int int
SELECT first, cnt, fmt, ts_min, ts_max, zone FROM blk
WHERE ?1 > 0 AND first >= coalesce((SELECT max(first) FROM blk WHERE first <= ?2), ?2) AND first <= ?3 ORDER BY first DESC;

-- name: segment_block_cols
-- takes: int int
SELECT cols FROM blk WHERE ?1 > 0 AND first = ?2;

-- name: segment_block_hash
-- takes: int int
SELECT hash FROM blk WHERE ?1 > 0 AND first = ?2;

-- units: as verify_place_at, verify_get_block and verify_list_groups of a store.  Primary keys.
-- name: segment_place_at
-- takes: int int
SELECT first, cnt FROM blk WHERE ?1 > 0 AND first <= ?2 ORDER BY first DESC LIMIT 1;

-- name: segment_get_block
-- takes: int int
SELECT cnt, fmt, ts_min, ts_max, cols, hash, zone FROM blk WHERE ?1 > 0 AND first = ?2;

-- name: segment_groups_over
-- takes: int int int
SELECT first, body FROM blkpay
WHERE ?1 > 0 AND first >= coalesce((SELECT max(first) FROM blkpay WHERE first <= ?2), ?2) AND first < ?3 ORDER BY first;

-- forms: the group of what is kept that may have the record at ?2; all of them.  Primary key.
-- name: segment_group
-- takes: int int
SELECT ?1, first, body FROM blkpay WHERE first <= ?2 ORDER BY first DESC LIMIT 1;

-- name: segment_all_groups
-- takes: int
SELECT ?1, first, body FROM blkpay ORDER BY first;
