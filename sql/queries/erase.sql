-- Statements on what is erased.  Each names its caller and its index; a log stands for its tenant.

-- name: erase_count
-- takes: int text blob
-- admin: erase: how many records of a log, of a principal in it or of a call have something kept.  rec_call for a call, else
-- rec_pos over the log.
-- only: sqlite
SELECT count(*) FROM pay p JOIN rec r ON r.id = p.rec WHERE r.log = ?1
-- only: pgsql
SELECT count(*) FROM pay p JOIN rec r ON r.log = p.log AND r.idx = p.idx AND r.ts = p.ts WHERE r.log = ?1
-- only: all
  AND (?2 IS NULL OR r.prn = (SELECT id FROM dict WHERE kind = 17 AND text = ?2)) AND (?3 IS NULL OR r.call = ?3);
