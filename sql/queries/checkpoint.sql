-- Statements on checkpoints and epochs.  They are about logs, and signed: no statement changes a row.

-- audit_cp_find(): the newest note that is not larger.  Primary key.
-- name: cp_get_before
-- takes: int int
SELECT size, epoch, ts, note, frontier FROM cp WHERE log = ?1 AND size <= ?2 ORDER BY size DESC LIMIT 1;

-- setup_doctor(): when the system log was signed last.  Primary key.
-- name: doctor_last_signed
SELECT ts FROM cp WHERE log = 1 ORDER BY size DESC LIMIT 1;

-- audit_beat_store().  Primary key.
-- name: cp_insert
-- takes: int int int int blob blob
INSERT INTO cp(log, size, epoch, ts, note, frontier) VALUES(?1, ?2, ?3, ?4, ?5, ?6);

-- audit_beat_store(): the note before is of no more use: of the same epoch and hour, and not taken outside (A-706).
-- name: cp_delete_passed
-- takes: int int int int
DELETE FROM cp WHERE log = ?1 AND size = ?2 AND epoch = ?3 AND ts / 3600000000 = ?4 / 3600000000
  AND NOT (log = 1 AND EXISTS(SELECT 1 FROM anchor a WHERE a.size = cp.size));

-- audit_beat_store(): notes of tenants, from where the last turn has come to (A-706).  Primary key.
-- name: cp_list_on
-- takes: int int int
SELECT log, size, epoch, ts FROM cp WHERE (log, size) > (?1, ?2) ORDER BY log, size LIMIT ?3;

-- audit_beat_store(): one that is thinned out.  Primary key.
-- name: cp_delete
-- takes: int int
DELETE FROM cp WHERE log = ?1 AND size = ?2;

-- audit_epoch_begin().
-- name: epoch_insert
-- takes: int blob blob int
INSERT INTO epoch(n, pk, cert, from_ts) VALUES(?1, ?2, ?3, ?4);

-- audit_epoch_newest(), audit keys.  Primary key.
-- name: epoch_get_newest
SELECT n, pk, cert, from_ts FROM epoch ORDER BY n DESC LIMIT 1;

-- audit_grow(): stored leaves of a log, for a proof that the signer checks.  rec_pos.
-- name: audit_list_leaves
-- takes: int int int
SELECT idx, leaf FROM rec WHERE log = ?1 AND idx >= ?2 AND idx < ?3 ORDER BY idx;

-- audit_at().  rec_pos.
-- name: audit_get_time
-- takes: int int
SELECT ts, kind FROM rec WHERE log = ?1 AND idx = ?2;

-- verify_keys_open(): the name of the instance.  Primary key.
-- name: verify_get_system
SELECT origin FROM log WHERE id = 1;

-- verify_keys_open().  Primary key.
-- name: verify_list_epochs
-- takes: int
SELECT n, pk, cert FROM epoch WHERE n >= ?1 ORDER BY n;

-- verify_notes_at().  Primary key.
-- name: verify_next_note
-- takes: int int int
SELECT size, epoch, note FROM cp WHERE log = ?1 AND size > ?2 AND size <= ?3 ORDER BY size LIMIT 1;

-- checkpoints_end(): whether one was stored since the log's head was read.  Primary key.
-- name: verify_newest_note
-- takes: int
SELECT max(size) FROM cp WHERE log = ?1;

-- look_at_cuts(): logs of which something was pruned.  Primary key.
-- name: verify_list_cuts
SELECT id, min_idx FROM log WHERE min_idx > 0 ORDER BY id;

-- note_receipt(): the next row, which the next record anchor.receipt vouches for.  Primary key.
-- name: verify_next_anchor
-- takes: int
SELECT id, kind, size, note, receipt, ts FROM anchor WHERE id > ?1 ORDER BY id LIMIT 1;

-- check_receipts(): rows that no record vouched for, and records that came since the head was read.  Primary key, rec_kind.
-- name: verify_count_anchors
-- takes: int int
SELECT (SELECT count(*) FROM anchor WHERE id > ?1),
  (SELECT count(*) FROM rec WHERE log = 1 AND kind <> 1001 AND kind <> 1002 AND kind = 2002 AND idx >= ?2);

-- receipt_run().
-- name: anchor_insert
-- takes: int int blob blob int
INSERT INTO anchor(kind, size, note, receipt, ts) VALUES(?1, ?2, ?3, ?4, ?5);

-- audit_succession_add().
-- name: succession_insert
-- takes: text int int blob int blob int int int
INSERT INTO succession(origin, n, size, root, lost, lost_root, epoch_from, epoch_to, idx) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- audit_succession_each(): a row for each log and restore.
-- name: succession_list
SELECT origin, n, size, root, lost, lost_root, epoch_from, epoch_to, idx FROM succession ORDER BY origin, n;
