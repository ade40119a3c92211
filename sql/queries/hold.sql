-- Statements on hold.  Each names its caller and its index; a log stands for its tenant.

-- name: hold_insert
-- takes: int int int text
-- admin: hold set.
INSERT INTO hold(log, from_idx, to_idx, prn, set_by) VALUES (?1, ?2, ?3, ?4, -1) RETURNING id;

-- name: hold_bind
-- takes: int int
-- admin: hold set, when the index of its record is known.  Primary key.
UPDATE hold SET set_by = ?2 WHERE id = ?1;

-- name: hold_release
-- takes: int int
-- admin: hold release.  Primary key.
UPDATE hold SET released_by = ?2 WHERE id = ?1;

-- name: hold_get
-- takes: int
-- admin: hold release.  Primary key.
SELECT h.id, h.log, l.tenant_id, t.name, h.from_idx, h.to_idx, h.prn, h.set_by, h.released_by
FROM hold h JOIN log l ON l.id = h.log JOIN tenant t ON t.id = l.tenant_id WHERE h.id = ?1;

-- name: hold_list
-- takes: int int
-- admin: hold list, of one tenant or of all, perhaps released ones too.  Walk of the table; there are few.
SELECT h.id, h.log, l.tenant_id, t.name, h.from_idx, h.to_idx, h.prn, h.set_by, h.released_by
FROM hold h JOIN log l ON l.id = h.log JOIN tenant t ON t.id = l.tenant_id
WHERE (?1 = 0 OR l.tenant_id = ?1) AND (?2 <> 0 OR h.released_by IS NULL) ORDER BY h.id;

-- name: hold_times
-- takes: int int int
-- admin: hold set by times: the first and the last of the records between.  rec_ts, both ends.
SELECT * FROM (SELECT coalesce(beg, idx) FROM rec WHERE log = ?1 AND kind <> 1001 AND ts >= ?2 AND ts < ?3 ORDER BY ts LIMIT 1) AS a,
  (SELECT idx + 1 FROM rec WHERE log = ?1 AND kind <> 1001 AND ts >= ?2 AND ts < ?3 ORDER BY ts DESC LIMIT 1) AS z;

-- name: hold_of_range
-- takes: int int int
-- adm_held: a hold of the log or of some of these records.  Walk of the table.
SELECT id FROM hold WHERE log = ?1 AND released_by IS NULL
  AND ((from_idx IS NULL AND prn IS NULL) OR (from_idx < ?3 AND to_idx > ?2)) ORDER BY id LIMIT 1;

-- name: hold_of_subject
-- takes: int text
-- adm_held: a hold of the log or of this principal, or of a range with a record of it.  Walk of the table, rec_pos.
SELECT id FROM hold AS h WHERE log = ?1 AND released_by IS NULL
  AND ((from_idx IS NULL AND prn IS NULL) OR prn = ?2
    OR EXISTS (SELECT 1 FROM rec WHERE log = ?1 AND idx >= h.from_idx AND idx < h.to_idx
      AND prn = (SELECT id FROM dict WHERE kind = 17 AND text = ?2))) ORDER BY id LIMIT 1;

-- name: hold_subject_in
-- takes: int int int
-- adm_held: a hold of a principal that has records in a range.  Walk of the table, rec_pos.
SELECT id FROM hold AS h WHERE log = ?1 AND released_by IS NULL AND prn IS NOT NULL
  AND EXISTS (SELECT 1 FROM rec WHERE log = ?1 AND idx >= ?2 AND idx < ?3
    AND prn = (SELECT id FROM dict WHERE kind = 17 AND text = h.prn)) ORDER BY id LIMIT 1;

-- name: hold_any
-- takes: int
-- adm_held: any hold in a log.  Walk of the table.
SELECT id FROM hold WHERE log = ?1 AND released_by IS NULL ORDER BY id LIMIT 1;

-- name: verify_hold_set
-- takes: int int
-- verify_keep(): the hold that a record set.  Walk of the table.
SELECT from_idx, to_idx, prn FROM hold WHERE log = ?1 AND set_by = ?2;

-- name: verify_hold_release
-- takes: int int
-- verify_keep(): the hold that a record released.  Walk of the table.
SELECT id FROM hold WHERE log = ?1 AND released_by = ?2;
