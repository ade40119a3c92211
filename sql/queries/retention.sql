-- Statements on retention, deed and the cut of a log.  Each names its caller and its index; a log stands for its tenant.

-- name: verify_retention
-- verify_keep(): the period that a record set.  Primary key.
SELECT min_days, max_days FROM retention WHERE log = ?1 AND set_by = ?2;

-- name: verify_count_kept
-- verify_keep_end(): rows whose records are from ?2 on, and whether a record before it is there.  Walks of small tables, rec_pos.
SELECT (SELECT count(*) FROM hold WHERE log = ?1 AND set_by >= ?2), (SELECT count(*) FROM hold WHERE log = ?1 AND released_by >= ?2),
  (SELECT count(*) FROM retention WHERE log = ?1 AND set_by >= ?2), EXISTS (SELECT 1 FROM rec WHERE log = ?1 AND idx < ?2);

-- name: deed_insert
-- audit_cut_set().
INSERT INTO deed(log, idx, kind) VALUES (?1, ?2, ?3);

-- name: deed_delete
-- audit_deed_step(): it is done.  Primary key.
DELETE FROM deed WHERE log = ?1 AND idx = ?2;

-- name: deed_next
-- audit_deed_next(): the oldest, of a kind or of any.  Walk of the table; there are few.
SELECT l.tenant_id, d.log, d.idx, d.kind FROM deed d JOIN log l ON l.id = d.log
WHERE ?1 = 0 OR d.kind = ?1 ORDER BY d.log, d.idx LIMIT 1;

-- name: deed_set_cut
-- audit_cut_set().  Primary key.
UPDATE log SET min_idx = ?2, pruned_by = ?3 WHERE id = ?1 AND min_idx < ?2;

-- name: deed_prune_slice
-- audit_deed_step(): some of the records before the cut.  rec_pos.
DELETE FROM rec WHERE id IN (SELECT id FROM rec WHERE log = ?1 AND idx < (SELECT min_idx FROM log WHERE id = ?1)
  ORDER BY idx LIMIT ?2);
