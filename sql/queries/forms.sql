-- Statements on records in all their forms: blocks, and rows behind the newest block of a log (forms/forms.h).  They name
-- the tables of the file, since "rec" and "pay" are, to whoever sees forms, what these statements make.

-- forms_see(): is any record in a block, or a sealed file?
-- name: forms_any
SELECT EXISTS(SELECT 1 FROM main.blk) OR EXISTS(SELECT 1 FROM main.seg);

-- The newest block of a log.  Primary key.
-- name: forms_newest
-- takes: int
SELECT first, cnt FROM main.blk WHERE log = ?1 ORDER BY first DESC LIMIT 1;

-- The sealed file that may have the record at ?2; the next one from there on.  Primary key.
-- name: forms_file_at
-- takes: int int
SELECT from_idx, to_idx, month, path FROM main.seg WHERE log = ?1 AND from_idx <= ?2 ORDER BY from_idx DESC LIMIT 1;

-- Where the first sealed file of a log begins: before it, records were pruned.  Primary key.
-- name: forms_first_file
-- takes: int
SELECT from_idx FROM main.seg WHERE log = ?1 ORDER BY from_idx LIMIT 1;

-- forms_remove_pruned(): where a log begins; forms_prune(): the catalog has only files with records from a cut on.  Primary keys.
-- name: forms_begin
-- takes: int
SELECT min_idx FROM main.log WHERE id = ?1;

-- name: forms_prune
-- takes: int int
DELETE FROM main.seg WHERE log = ?1 AND to_idx <= ?2;

-- forms_prune(): which of them are in archives; forms_remove_pruned(): one of them, which has gone.  Primary keys.
-- name: forms_prune_archived
-- takes: int int
INSERT INTO main.seg_gone(path, log, from_idx) SELECT path, log, from_idx FROM main.seg
WHERE log = ?1 AND to_idx <= ?2 AND substr(path, 1, 1) = '/';

-- name: forms_gone
-- takes: int
SELECT from_idx, path FROM main.seg_gone WHERE log = ?1 ORDER BY from_idx LIMIT 1;

-- name: forms_forget_gone
-- takes: int int
DELETE FROM main.seg_gone WHERE log = ?1 AND from_idx = ?2;

-- forms_away(): where all files should be.  Walk of the table.
-- any tenant: a file that is not here is said to whoever keeps the store.
-- name: forms_all_files
SELECT path FROM main.seg ORDER BY log, from_idx;

-- All sealed files behind one.  Primary key.
-- name: forms_next_file
-- takes: int int
SELECT log, from_idx FROM main.seg WHERE log > ?1 OR (log = ?1 AND from_idx > ?2) ORDER BY log, from_idx LIMIT 1;

-- The next log that has records, also one that is not in table log.  rec_order, primary keys.
-- name: forms_next_log
-- takes: int
SELECT min(x) FROM (SELECT (SELECT log FROM main.rec WHERE id >> 12 = +s.n AND log > ?1 ORDER BY log LIMIT 1) AS x FROM main.span s UNION ALL SELECT min(log) FROM main.blk WHERE log > ?1
  UNION ALL SELECT min(log) FROM main.seg WHERE log > ?1);

-- Blocks from the one that has ?2, or the next, to the one that has ?3, without their bytes: a step reads what it gives, and
-- most blocks are left out by their zones.  Primary key.
-- name: forms_blocks_up
-- takes: int int int
SELECT first, cnt, fmt, ts_min, ts_max, zone FROM main.blk
WHERE log = ?1 AND first >= coalesce((SELECT max(first) FROM main.blk WHERE log = ?1 AND first <= ?2), ?2) AND first <= ?3
ORDER BY first;

-- name: forms_blocks_down
-- takes: int int int
SELECT first, cnt, fmt, ts_min, ts_max, zone FROM main.blk
WHERE log = ?1 AND first >= coalesce((SELECT max(first) FROM main.blk WHERE log = ?1 AND first <= ?2), ?2) AND first <= ?3
ORDER BY first DESC;

-- The bytes of one of them, and the nine tenths of it that do not compress, which few ask for.  Primary key.
-- name: forms_block_cols
-- takes: int int
SELECT cols FROM main.blk WHERE log = ?1 AND first = ?2;

-- name: forms_block_hash
-- takes: int int
SELECT hash FROM main.blk WHERE log = ?1 AND first = ?2;

-- Rows of a log, or those of a call alone: another row is read to its column call and goes no further.  rec_order.
-- name: forms_rows_up
-- takes: int int int blob
SELECT id, enc, leaf, log, idx, call, ts, mono, boot, clk, cred, prn, actor, authn, obo, peer, client, tport, rev,
  kind, tool, tdef, build, pol, rule, scope, cm, sh, n_req, n_res, n_sto, flags, "key", outcome, xstat, sig,
  dur, cpu, rss, sbox, beg, prev, trace, obj, ext, sys, mdl
FROM main.rec_tail WHERE log = ?1 AND idx >= ?2 AND idx <= ?3 AND (?4 IS NULL OR call = ?4)
ORDER BY span, idx;

-- name: forms_rows_down
-- takes: int int int blob
SELECT id, enc, leaf, log, idx, call, ts, mono, boot, clk, cred, prn, actor, authn, obo, peer, client, tport, rev,
  kind, tool, tdef, build, pol, rule, scope, cm, sh, n_req, n_res, n_sto, flags, "key", outcome, xstat, sig,
  dur, cpu, rss, sbox, beg, prev, trace, obj, ext, sys, mdl
FROM main.rec_tail WHERE log = ?1 AND idx >= ?2 AND idx <= ?3 AND (?4 IS NULL OR call = ?4)
ORDER BY span DESC, idx DESC;

-- One row.  Primary key.
-- name: forms_row
-- takes: int
SELECT id, enc, leaf, log, idx, call, ts, mono, boot, clk, cred, prn, actor, authn, obo, peer, client, tport, rev,
  kind, tool, tdef, build, pol, rule, scope, cm, sh, n_req, n_res, n_sto, flags, "key", outcome, xstat, sig,
  dur, cpu, rss, sbox, beg, prev, trace, obj, ext, sys, mdl
FROM main.rec WHERE id = ?1;

-- The origin of a log.  Primary key.
-- name: forms_origin
-- takes: int
SELECT origin FROM main.log WHERE id = ?1;

-- What is kept beside rows, with the place of the record: of one row, of all.  Primary keys.
-- name: forms_kept
-- takes: int
SELECT p.rec, p.salt, p.nonce, p.ct, r.log, r.idx FROM main.pay p LEFT JOIN main.rec r ON r.id = p.rec WHERE p.rec = ?1;

-- name: forms_all_kept
SELECT p.rec, p.salt, p.nonce, p.ct, r.log, r.idx FROM main.pay p LEFT JOIN main.rec r ON r.id = p.rec ORDER BY p.rec;

-- What is kept beside blocks: the group that may have the record at ?2, the next group.  Primary key.
-- name: forms_group
-- takes: int int
SELECT log, first, body FROM main.blkpay WHERE log = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1;

-- name: forms_all_groups
SELECT log, first, body FROM main.blkpay ORDER BY log, first;

-- Chapters of a log, from the one that has ?2, or the next, to the one that has ?3, without their sums: these are a hundred
-- times what the rest is, and a step reads what it gives.  Primary key.
-- name: forms_chapters_up
-- takes: int int int
SELECT first, cnt, ts_min, ts_max, zone FROM main.chap WHERE log = ?1
  AND first >= coalesce((SELECT max(first) FROM main.chap WHERE log = ?1 AND first <= ?2), ?2) AND first <= ?3 ORDER BY first;

-- name: forms_chapters_down
-- takes: int int int
SELECT first, cnt, ts_min, ts_max, zone FROM main.chap WHERE log = ?1
  AND first >= coalesce((SELECT max(first) FROM main.chap WHERE log = ?1 AND first <= ?2), ?2) AND first <= ?3 ORDER BY first DESC;

-- The sums of one of them.  Primary key.
-- name: forms_chapter_sums
-- takes: int int
SELECT sums FROM main.chap WHERE log = ?1 AND first = ?2;

-- forms_book_sums(): of the book that begins at ?2, if all of it is in a span of time.  Primary key.
-- name: forms_book
-- takes: int int int int
SELECT cnt, ts_min, sums FROM main.book WHERE log = ?1 AND first = ?2 AND ts_min >= ?3 AND ts_max < ?4;

-- The same, by days: these stand in front of sums.
-- name: forms_book_days
-- takes: int int int int
SELECT cnt, ts_min, days FROM main.book WHERE log = ?1 AND first = ?2 AND ts_min >= ?3 AND ts_max < ?4;

-- The book that a record is in, or the one before it.  Primary key.
-- name: forms_book_around
-- takes: int int
SELECT first, cnt, sums FROM main.book WHERE log = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1;

-- forms_book_count(): the chapters that a book is of.  Primary key.
-- name: forms_book_chapters
-- takes: int int int
SELECT first, cnt, ts_min, ts_max, sums FROM main.chap WHERE log = ?1 AND first >= ?2 AND first < ?3 ORDER BY first;

-- Sums of rows: ids of those of a log that has no blocks, in a span of time: all, of a key, of a principal, of a kind that is
-- no call; and behind the blocks of one that has some.  rec_ts, rec_cred, rec_prn, rec_kind, rec_pos.
-- name: forms_sums_times
-- takes: int int int
SELECT id FROM main.rec WHERE log = ?1 AND kind <> 1001 AND ts >= ?2 AND ts < ?3;

-- name: forms_sums_cred
-- takes: int int int int
SELECT id FROM main.rec WHERE log = ?1 AND cred = ?4 AND kind <> 1001 AND ts >= ?2 AND ts < ?3;

-- name: forms_sums_prn
-- takes: int int int int
SELECT id FROM main.rec WHERE log = ?1 AND prn = ?4 AND kind <> 1001 AND ts >= ?2 AND ts < ?3;

-- name: forms_sums_kind
-- takes: int int int int
SELECT id FROM main.rec WHERE log = ?1 AND kind = ?4 AND kind <> 1001 AND kind <> 1002 AND ts >= ?2 AND ts < ?3;

-- name: forms_sums_tail
-- takes: int int int int
SELECT id FROM main.rec_tail WHERE log = ?1 AND idx >= ?4 AND +kind <> 1001 AND +ts >= ?2 AND +ts < ?3;

-- What such a row says; what a record says in either form.  Primary key; rec_pos.
-- name: forms_sums_row
-- takes: int
SELECT ts, idx, call IS NOT NULL, beg, dur, n_req, n_res, cred, prn, authn, obo, peer, client, tport, rev, kind, tool, tdef,
  rule, outcome, sbox FROM main.rec WHERE id = ?1;

-- name: forms_sums_record
-- takes: int int
SELECT ts, idx, call IS NOT NULL, beg, dur, n_req, n_res, cred, prn, authn, obo, peer, client, tport, rev, kind, tool, tdef,
  rule, outcome, sbox FROM rec WHERE log = ?1 AND idx = ?2;

-- forms_unsealed(): does a log, or any, have sealed files?  Primary key.
-- any tenant: it is asked of the store as well.
-- name: forms_any_file
-- takes: int
SELECT 1 FROM main.seg WHERE ?1 = 0 OR log = ?1 LIMIT 1;

-- forms_group_read(): the group that may have a record; what folding, erasing and a cut leave of one.  Primary key.
-- name: forms_group_of
-- takes: int int
SELECT first, body FROM main.blkpay WHERE log = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1;

-- name: forms_put_group
-- takes: int int blob
INSERT INTO main.blkpay(log, first, body) VALUES(?1, ?2, ?3) ON CONFLICT(log, first) DO UPDATE SET body = excluded.body;

-- name: forms_delete_group
-- takes: int int
DELETE FROM main.blkpay WHERE log = ?1 AND first = ?2;

-- forms_span_put(): the span of a row; forms_spans_drop(): those before the oldest row.  Primary keys.
-- any tenant: rows of all logs are in a span.
-- name: forms_put_span
-- takes: int
INSERT OR IGNORE INTO main.span(n) VALUES(?1 >> 12);

-- name: forms_drop_spans
-- any tenant: rows of all logs are in a span.
DELETE FROM main.span WHERE n < (SELECT min(id) >> 12 FROM main.rec);
