-- Statements on the store for sealed files (bundle/segment.h).  A log stands for its tenant.

-- audit_segment_write(): the first note that covers the end of the records.  Primary key.
-- name: seal_get_note
SELECT size, epoch, note FROM cp WHERE log = ?1 AND size >= ?2 ORDER BY size LIMIT 1;

-- audit_segment_write(): what is kept beside records, in whatever form.  rec_pos, primary key.
-- name: seal_list_kept
SELECT r.idx, p.salt, p.nonce, p.ct FROM rec r JOIN pay p ON p.rec = r.id
WHERE r.log = ?1 AND r.idx >= ?2 AND r.idx < ?3 ORDER BY r.idx;
