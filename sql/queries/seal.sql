-- Statements on the store for sealed files (bundle/segment.h).  A log stands for its tenant.

-- audit_segment_write(): the first note that covers the end of the records.  Primary key.
-- name: seal_get_note
-- takes: int int
SELECT size, epoch, note FROM cp WHERE log = ?1 AND size >= ?2 ORDER BY size LIMIT 1;

-- audit_segment_write(): what is kept beside records, in whatever form.  rec_pos, primary key.
-- name: seal_list_kept
-- takes: int int int
SELECT r.idx, p.salt, p.nonce, p.ct FROM rec r JOIN pay p ON p.rec = r.id
WHERE r.log = ?1 AND r.idx >= ?2 AND r.idx < ?3 ORDER BY r.idx;

-- audit_seal_next(): where the sealed files of a log end, where its blocks do, its first row, what is signed of it, erasures, and
-- whether something of it is to be pruned or erased.  Primary keys, rec_order.
-- name: seal_bounds
-- takes: int
SELECT coalesce((SELECT to_idx FROM main.seg WHERE log = l.id ORDER BY from_idx DESC LIMIT 1), l.min_idx),
  coalesce((SELECT first + cnt FROM main.blk WHERE log = l.id ORDER BY first DESC LIMIT 1), 0),
  (SELECT idx FROM main.rec_at WHERE log = l.id ORDER BY span, idx LIMIT 1), coalesce((SELECT max(size) FROM main.cp WHERE log = l.id), 0),
  coalesce((SELECT CAST(value AS INTEGER) FROM main.meta WHERE key = 'erasures'), 0),
  EXISTS(SELECT 1 FROM main.deed WHERE log = l.id)
FROM main.log l WHERE l.id = ?1;

-- audit_seal_next(): when a record was; the first one of a later time.  rec_pos, or blocks by their zones.
-- name: seal_time_at
-- takes: int int
SELECT ts FROM rec WHERE log = ?1 AND idx = ?2;

-- name: seal_first_since
-- takes: int int int int
SELECT idx FROM rec WHERE log = ?1 AND idx >= ?2 AND idx < ?3 AND ts >= ?4 ORDER BY idx LIMIT 1;

-- audit_seal_put(): books of chapters that are replaced.  Primary key.
-- name: seal_delete_books
-- takes: int int int
DELETE FROM main.book WHERE log = ?1 AND first < ?3 AND first + cnt > ?2;

-- audit_seal_put(): chapters of blocks that are sealed, and those in their place.  Primary key.
-- name: seal_delete_chapters
-- takes: int int int
DELETE FROM main.chap WHERE log = ?1 AND first < ?3 AND first + cnt > ?2;

-- name: seal_put_chapter
-- takes: int int int int int blob blob
INSERT INTO main.chap(log, first, cnt, ts_min, ts_max, zone, sums) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: seal_put_file
-- takes: int int int int int int int blob blob int text
INSERT INTO main.seg(log, from_idx, to_idx, month, ts_min, ts_max, bytes, digest, root, set_by, path)
VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11);

-- audit_seal_drop(), forms_sealed(): where the files of a log end; some blocks, and groups of what is kept, below.  Primary keys.
-- name: seal_line
-- takes: int
SELECT to_idx FROM main.seg WHERE log = ?1 ORDER BY from_idx DESC LIMIT 1;

-- name: seal_drop_blocks
-- takes: int int int
DELETE FROM main.blk WHERE log = ?1 AND first IN (SELECT first FROM main.blk WHERE log = ?1 AND first < ?2 ORDER BY first LIMIT ?3);

-- name: seal_drop_groups
-- takes: int int int
DELETE FROM main.blkpay WHERE log = ?1 AND first IN (SELECT first FROM main.blkpay WHERE log = ?1 AND first < ?2 ORDER BY first LIMIT ?3);

-- audit_seal_sweep(), audit_sealed_erase_put(): the file that begins there; how large it is now.  Primary key.
-- name: seal_file_at
-- takes: int int
SELECT path, bytes FROM main.seg WHERE log = ?1 AND from_idx = ?2;

-- name: seal_set_bytes
-- takes: int int int
UPDATE main.seg SET bytes = ?3 WHERE log = ?1 AND from_idx = ?2;

-- audit_seal_chapters_same(): chapters of a file, whatever they say they have; with the first file those of before.  Primary keys.
-- name: seal_list_chapters
-- takes: int int int
SELECT first, cnt, ts_min, ts_max, zone, sums FROM main.chap WHERE log = ?1 AND first < ?3
  AND (first >= ?2 OR first + cnt > ?2 OR NOT EXISTS (SELECT 1 FROM main.seg WHERE log = ?1 AND from_idx < ?2)) ORDER BY first;

-- audit_seal_left(): are blocks, or groups of what is kept, beside the files that have them?  Primary keys.
-- name: seal_left
-- takes: int
SELECT EXISTS(SELECT 1 FROM main.blk WHERE log = s.log AND first < s.to_idx) OR
  EXISTS(SELECT 1 FROM main.blkpay WHERE log = s.log AND first < s.to_idx)
FROM main.seg s WHERE s.log = ?1 ORDER BY s.from_idx DESC LIMIT 1;

-- audit_seal_room(): bytes of blocks, and of what is kept beside them.  Primary keys; no page of a large value is read.
-- name: seal_bytes
-- takes: int int int
SELECT coalesce((SELECT sum(length(cols) + length(hash) + length(zone)) FROM main.blk WHERE log = ?1 AND first >= ?2 AND first < ?3), 0)
  + coalesce((SELECT sum(length(body)) FROM main.blkpay WHERE log = ?1 AND first >= ?2 AND first < ?3), 0);

-- audit_seal_listed(): has the catalog a file, of whatever records?  Walk of the table, where a file stands that should not.
-- any tenant: a name has to be nobody's.
-- name: seal_listed
-- takes: text
SELECT 1 FROM main.seg WHERE path = ?1 LIMIT 1;

-- audit_sealed_next(): a file of the catalog behind another.  Primary keys.
-- any tenant: a copy of a store has all of them.
-- name: seal_next_file
-- takes: int int
SELECT s.log, s.from_idx, s.to_idx, s.digest, s.root, s.path, l.origin FROM main.seg s JOIN main.log l ON l.id = s.log
WHERE (s.log, s.from_idx) > (?1, ?2) ORDER BY s.log, s.from_idx LIMIT 1;

-- audit_archive_next(): a file in the folder of the store whose records are all older, behind another.  Primary keys.
-- any tenant: an administrator moves those of all.
-- name: seal_next_to_move
-- takes: int int int int
SELECT s.log, s.from_idx, s.to_idx, s.digest, s.root, s.path, l.origin, s.bytes,
  coalesce((SELECT CAST(value AS INTEGER) FROM main.meta WHERE key = 'erasures'), 0)
FROM main.seg s JOIN main.log l ON l.id = s.log
WHERE (s.log, s.from_idx) > (?1, ?2) AND s.log <> 1 AND (?3 = 0 OR s.log = ?3) AND s.ts_max < ?4 AND substr(s.path, 1, 1) <> '/'
ORDER BY s.log, s.from_idx LIMIT 1;

-- audit_attach_copy(): the file of the records from an index on, of the log of that name.  Unique index, primary keys.
-- any tenant: the origin says whose it is.
-- name: seal_file_of
-- takes: text int
SELECT s.log, s.from_idx, s.to_idx, s.digest, s.root, s.path, l.origin,
  coalesce((SELECT CAST(value AS INTEGER) FROM main.meta WHERE key = 'erasures'), 0)
FROM main.seg s JOIN main.log l ON l.id = s.log WHERE l.origin = ?1 AND s.from_idx = ?2;

-- audit_moved_put(): where it is from now on, by which record.  Primary key.
-- name: seal_moved
-- takes: int int text int
UPDATE main.seg SET path = ?3, moved_by = ?4 WHERE log = ?1 AND from_idx = ?2;

-- writer/seal.c: how many records are in blocks and could be sealed: whole tiles, of which none is a row as well.  Primary keys, rec_order.
-- any tenant: all logs are sealed.
-- name: seal_hot
SELECT coalesce(sum(max(0, min((SELECT first + cnt FROM main.blk WHERE log = l.id ORDER BY first DESC LIMIT 1),
    coalesce((SELECT idx FROM main.rec_at WHERE log = l.id ORDER BY span, idx LIMIT 1), 9223372036854775807))
  - coalesce((SELECT to_idx FROM main.seg WHERE log = l.id ORDER BY from_idx DESC LIMIT 1), l.min_idx)) / 256 * 256), 0)
FROM main.log l;

-- writer/seal.c: the next log; that of a tenant.  Primary key; the table of tenants is small.
-- any tenant: all logs are sealed.
-- name: seal_next_log
-- takes: int
SELECT min(id) FROM main.log WHERE id > ?1;

-- name: seal_log_of
-- takes: text
SELECT l.id FROM main.log l JOIN main.tenant t ON t.id = l.tenant_id WHERE t.name = ?1;
