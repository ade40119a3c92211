-- Statements for bundles.  Each names its caller and its index; a log stands for its tenant.

-- name: bundle_list_notes
-- takes: int int int
-- audit_bundle_write(): notes of a range, and the first one that covers its end.  Primary key.
SELECT size, epoch, note FROM cp WHERE log = ?1 AND size > ?2
  AND size <= coalesce((SELECT min(size) FROM cp WHERE log = ?1 AND size >= ?3), ?3) ORDER BY size;

-- name: bundle_list_epochs
-- audit_bundle_write().  Primary key; one a day.
SELECT n, pk, cert, from_ts FROM epoch ORDER BY n;

-- name: bundle_find_log
-- takes: text
-- audit_bundle_join().  UNIQUE(origin).
SELECT l.id, l.min_idx, h.size FROM log l JOIN head h ON h.log = l.id WHERE l.origin = ?1;
