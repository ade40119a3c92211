-- Statements on retention, deed and the cut of a log.  Each names its caller and its index; a log stands for its tenant.

-- name: verify_retention
-- takes: int int
-- verify_keep(): the period that a record set.  Primary key.
SELECT min_days, max_days, from_idx FROM retention WHERE log = ?1 AND set_by = ?2;

-- name: verify_count_kept
-- takes: int int
-- count_rows(): rows whose records are from ?2 on, and those of records that were pruned, or never were; whether records
-- before ?2 are there, and such before the first.  Walks of small tables, rec_pos.
SELECT (SELECT count(*) FROM hold WHERE log = ?1 AND (set_by >= ?2 OR set_by < 0)),
  (SELECT count(*) FROM hold WHERE log = ?1 AND (released_by >= ?2 OR released_by < 0)),
  (SELECT count(*) FROM retention WHERE log = ?1 AND (set_by >= ?2 OR set_by < 0)),
  EXISTS (SELECT 1 FROM rec WHERE log = ?1 AND idx >= 0 AND idx < ?2), EXISTS (SELECT 1 FROM rec WHERE log = ?1 AND idx < 0),
  (SELECT count(*) FROM hold WHERE log = ?1 AND set_by >= 0 AND set_by < ?2)
    + (SELECT count(*) FROM hold WHERE log = ?1 AND released_by >= 0 AND released_by < ?2)
    + (SELECT count(*) FROM retention WHERE log = ?1 AND set_by >= 0 AND set_by < ?2);

-- name: deed_insert
-- takes: int int int
-- audit_cut_set().
INSERT INTO deed(log, idx, kind) VALUES (?1, ?2, ?3);

-- name: deed_delete
-- takes: int int
-- audit_deed_step(): it is done.  Primary key.
DELETE FROM deed WHERE log = ?1 AND idx = ?2;

-- name: deed_next
-- takes: int int int
-- audit_job_next(): the next behind another, of a kind or of any.  Walk of the table; there are few.
SELECT l.tenant_id, deed.log, deed.idx, deed.kind FROM deed JOIN log l ON l.id = deed.log
WHERE (?1 = 0 OR deed.kind = ?1) AND (deed.log, deed.idx) > (?2, ?3) ORDER BY deed.log, deed.idx LIMIT 1;

-- name: deed_set_cut
-- takes: int int int
-- audit_cut_set().  Primary key.
UPDATE log SET min_idx = ?2, pruned_by = ?3 WHERE id = ?1 AND min_idx < ?2;

-- name: deed_prune_payloads
-- takes: int int
-- audit_deed_step(): what is kept of the records that deed_prune_slice takes next.  rec_order, primary key.
-- only: sqlite
DELETE FROM main.pay WHERE rec IN (SELECT id FROM main.rec_at WHERE log = ?1 AND idx < (SELECT min_idx FROM log WHERE id = ?1)
  ORDER BY span, idx LIMIT ?2);
-- only: pgsql
DELETE FROM pay WHERE log = ?1 AND idx IN (SELECT idx FROM rec WHERE log = ?1 AND idx < (SELECT min_idx FROM log WHERE id = ?1)
  ORDER BY idx LIMIT ?2);

-- name: deed_prune_slice
-- takes: int int
-- audit_deed_step(): some of the records before the cut.  rec_order.
-- only: sqlite
DELETE FROM main.rec WHERE id IN (SELECT id FROM main.rec_at WHERE log = ?1 AND idx < (SELECT min_idx FROM log WHERE id = ?1)
  ORDER BY span, idx LIMIT ?2);
-- only: pgsql
DELETE FROM rec WHERE log = ?1 AND idx IN (SELECT idx FROM rec WHERE log = ?1 AND idx < (SELECT min_idx FROM log WHERE id = ?1)
  ORDER BY idx LIMIT ?2);

-- name: retention_list
-- takes: int
-- admin: the periods of a log, the newest first.  Primary key.
SELECT set_by, from_idx, min_days, max_days FROM retention WHERE log = ?1 ORDER BY set_by DESC;

-- name: retention_insert
-- takes: int int int int
-- admin: retention set.
INSERT INTO retention(log, set_by, from_idx, min_days, max_days) VALUES (?1, ?2, ?2, ?3, ?4);

-- name: retention_first_since
-- takes: int int int int
-- admin: retention prune, where the cut is.  rec_pos, from the front of the log up to the cut.
SELECT idx FROM rec WHERE log = ?1 AND idx >= ?2 AND idx < ?3 AND ts >= ?4 ORDER BY idx LIMIT 1;

-- name: retention_log
-- takes: int
-- admin: retention show, prune; the head may lag (decision 0061).  Primary keys, rec_pos.
SELECT l.min_idx, max(h.size, coalesce((SELECT idx + 1 FROM rec WHERE log = l.id ORDER BY idx DESC LIMIT 1), 0)),
  (SELECT ts FROM rec WHERE log = l.id AND idx = l.min_idx), l.origin
FROM log l JOIN head h ON h.log = l.id WHERE l.id = ?1;

-- name: retention_signed
-- takes: int
-- admin: retention prune, whether anything is signed here, and how much of a log is.  Primary keys.
SELECT EXISTS (SELECT 1 FROM epoch), (SELECT max(size) FROM cp WHERE log = ?1);

-- name: hold_newest
-- admin: retention prune.  Primary key.
SELECT coalesce(max(id), 0) FROM hold;

-- name: deed_ext
-- takes: int int
-- audit_deed_step(): what an erase record names, and which record it is.  rec_pos, primary key.
SELECT r.ext, r.leaf, l.origin FROM rec r JOIN log l ON l.id = r.log WHERE r.log = ?1 AND r.idx = ?2;

-- name: deed_erased
-- takes: int int
-- audit_erased_read(): records that name what is to be erased.  Primary key, rec_pos.
SELECT d.idx, r.ext FROM deed d JOIN rec r ON r.log = d.log AND r.idx = d.idx WHERE d.log = ?1 AND d.kind = ?2 ORDER BY d.idx;

-- name: deed_known
-- takes: text int
-- audit_erase_replay(): whether the store still has the record of an erase; a log that is not there had nothing to erase.
-- log's own index, rec_pos.
SELECT coalesce(l.tenant_id, 0), l.min_idx, r.leaf FROM log l LEFT JOIN rec r ON r.log = l.id AND r.idx = ?2 WHERE l.origin = ?1;

-- name: deed_unvouch_tenant
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE tenant SET rec_idx = -1 - rec_idx WHERE rec_log = ?1 AND rec_idx >= 0 AND rec_idx < ?2;

-- name: deed_unvouch_principal
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE principal SET rec_idx = -1 - rec_idx WHERE rec_log = ?1 AND rec_idx >= 0 AND rec_idx < ?2;

-- name: deed_unvouch_cred
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE cred SET rec_idx = -1 - rec_idx WHERE rec_log = ?1 AND rec_idx >= 0 AND rec_idx < ?2;

-- name: deed_unvouch_tool_grant
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE tool_grant SET rec_idx = -1 - rec_idx WHERE rec_log = ?1 AND rec_idx >= 0 AND rec_idx < ?2;

-- name: deed_unvouch_tool
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE tool SET rec_idx = -1 - rec_idx WHERE rec_log = ?1 AND rec_idx >= 0 AND rec_idx < ?2;

-- name: deed_unvouch_shared_schema
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE shared_schema SET rec_idx = -1 - rec_idx WHERE rec_log = ?1 AND rec_idx >= 0 AND rec_idx < ?2;

-- name: deed_unvouch_upstream
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE upstream SET rec_idx = -1 - rec_idx WHERE rec_log = ?1 AND rec_idx >= 0 AND rec_idx < ?2;

-- name: deed_unvouch_secret
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE secret SET rec_idx = -1 - rec_idx WHERE rec_log = ?1 AND rec_idx >= 0 AND rec_idx < ?2;

-- name: deed_unvouch_limit_row
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE limit_row SET rec_idx = -1 - rec_idx WHERE rec_log = ?1 AND rec_idx >= 0 AND rec_idx < ?2;

-- name: deed_unvouch_tool_level
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE tool_level SET rec_idx = -1 - rec_idx WHERE rec_log = ?1 AND rec_idx >= 0 AND rec_idx < ?2;

-- name: deed_unvouch_upstream_tool
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE upstream_tool SET rec_idx = -1 - rec_idx WHERE rec_log = ?1 AND rec_idx >= 0 AND rec_idx < ?2;

-- name: deed_unvouch_inventory
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE inventory SET rec_idx = -1 - rec_idx WHERE rec_log = ?1 AND rec_idx >= 0 AND rec_idx < ?2;

-- name: deed_unvouch_system
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE system SET rec_idx = -1 - rec_idx WHERE rec_log = ?1 AND rec_idx >= 0 AND rec_idx < ?2;

-- name: deed_unvouch_tool_version
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE tool_version SET rec_idx = -1 - rec_idx WHERE rec_log = ?1 AND rec_idx >= 0 AND rec_idx < ?2;

-- name: deed_unvouch_meta
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE meta SET rec_idx = -1 - rec_idx WHERE rec_log = ?1 AND rec_idx >= 0 AND rec_idx < ?2;

-- name: deed_unvouch_pending_version
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE pending_version SET rec_idx = -1 - rec_idx WHERE rec_log = ?1 AND rec_idx >= 0 AND rec_idx < ?2;

-- name: deed_unvouch_log
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE log SET rec_idx = -1 - rec_idx WHERE rec_log = ?1 AND rec_idx >= 0 AND rec_idx < ?2;

-- name: deed_unvouch_hold
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE hold SET rec_idx = -1 - rec_idx WHERE rec_log = ?1 AND rec_idx >= 0 AND rec_idx < ?2;

-- name: deed_unvouch_upstream_tool_state
-- takes: int int
-- audit_cut_rows(): rows whose record will be pruned wait for another one.  Walk of the table.
-- any tenant: the log stands for it.
UPDATE upstream_tool SET state_idx = -1 - state_idx WHERE state_log = ?1 AND state_idx >= 0 AND state_idx < ?2;

-- name: compact_texts
-- audit_compact(): texts that no record uses.  Walks of rec, one for each column; offline.
DELETE FROM dict WHERE id NOT IN (
SELECT boot FROM rec WHERE boot IS NOT NULL
  UNION SELECT cred FROM rec WHERE cred IS NOT NULL
  UNION SELECT prn FROM rec WHERE prn IS NOT NULL
  UNION SELECT obo FROM rec WHERE obo IS NOT NULL
  UNION SELECT peer FROM rec WHERE peer IS NOT NULL
  UNION SELECT client FROM rec WHERE client IS NOT NULL
  UNION SELECT rev FROM rec WHERE rev IS NOT NULL
  UNION SELECT tool FROM rec WHERE tool IS NOT NULL
  UNION SELECT tdef FROM rec WHERE tdef IS NOT NULL
  UNION SELECT build FROM rec WHERE build IS NOT NULL
  UNION SELECT pol FROM rec WHERE pol IS NOT NULL
  UNION SELECT rule FROM rec WHERE rule IS NOT NULL
  UNION SELECT scope FROM rec WHERE scope IS NOT NULL
  UNION SELECT obj FROM rec WHERE obj IS NOT NULL
  UNION SELECT sbox FROM rec WHERE sbox IS NOT NULL
  UNION SELECT sys FROM rec WHERE sys IS NOT NULL
  UNION SELECT mdl FROM rec WHERE mdl IS NOT NULL);

-- name: compact_aliases
-- audit_compact(): clear names of pseudonyms that no record uses any more.  Walk of alias, unique index of dict; offline.
DELETE FROM alias WHERE NOT EXISTS (SELECT 1 FROM dict WHERE kind IN (17, 20, 21, 22) AND text = alias.name);
