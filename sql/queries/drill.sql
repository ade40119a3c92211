-- Statements of audit drill: each changes a copy of a store as somebody would who can write its file (AUDIT 9), in a
-- transaction that is undone.  ?1 is a log, which stands for its tenant, ?2 the index of one of its records.

-- adm_audit_drill_body(): the first end of a call that is a row and that a checkpoint covers, or else the newest one.  rec_pos,
-- primary keys.
-- name: drill_pick
-- takes: int
SELECT idx FROM (SELECT coalesce((SELECT idx FROM rec WHERE log = ?1 AND idx < (SELECT max(size) FROM cp WHERE log = ?1) AND kind = 1002
    AND idx >= coalesce((SELECT first + cnt FROM blk WHERE log = ?1 ORDER BY first DESC LIMIT 1), 0) ORDER BY idx LIMIT 1),
  (SELECT idx FROM rec WHERE log = ?1 AND idx < (SELECT max(size) FROM cp WHERE log = ?1) AND kind = 1002 ORDER BY idx DESC LIMIT 1)) AS idx)
WHERE idx IS NOT NULL;

-- name: drill_unfreeze
DROP TRIGGER main.rec_frozen;

-- As sql/migrate/0001_base.sql has it, to the letter.
-- name: drill_freeze
CREATE TRIGGER IF NOT EXISTS main.rec_frozen BEFORE UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END;

-- name: drill_outcome
-- takes: int int
UPDATE main.rec SET outcome = 1 - min(outcome, 1) WHERE id = (SELECT id FROM main.rec_at WHERE log = ?1 AND idx = ?2);

-- name: drill_time
-- takes: int int
UPDATE main.rec SET ts = ts + 1 WHERE id = (SELECT id FROM main.rec_at WHERE log = ?1 AND idx = ?2);

-- name: drill_person
-- takes: int int
UPDATE main.rec SET prn = NULL WHERE id = (SELECT id FROM main.rec_at WHERE log = ?1 AND idx = ?2);

-- name: drill_leaf
-- takes: int int
UPDATE main.rec SET leaf = zeroblob(32) WHERE id = (SELECT id FROM main.rec_at WHERE log = ?1 AND idx = ?2);

-- But not what a block has replaced, which may go.
-- name: drill_remove
-- takes: int int
DELETE FROM main.rec WHERE id = (SELECT id FROM main.rec_at WHERE log = ?1 AND idx = ?2)
  AND idx >= coalesce((SELECT first + cnt FROM main.blk WHERE log = ?1 ORDER BY first DESC LIMIT 1), 0);

-- name: drill_cut
-- takes: int int
DELETE FROM main.rec WHERE id IN (SELECT id FROM main.rec_at WHERE log = ?1 AND idx >= ?2);

-- name: drill_word
-- takes: int int
UPDATE dict SET text = text || '2' WHERE id = (SELECT tool FROM rec WHERE log = ?1 AND idx = ?2);

-- name: drill_payload
-- takes: int int
DELETE FROM main.pay WHERE rec = (SELECT id FROM rec WHERE log = ?1 AND idx = ?2);

-- name: drill_note
-- takes: int int
UPDATE cp SET note = CAST(replace(CAST(note AS TEXT), char(10) || size || char(10), char(10) || (size + 1) || char(10)) AS BLOB)
WHERE log = ?1 AND size > ?2;

-- Of the newest block that counts: what lies before the end of the files is a leftover.
-- name: drill_columns
-- takes: int
UPDATE main.blk SET cols = CAST(substr(cols, 1, length(cols) / 2)
  || CASE hex(substr(cols, length(cols) / 2 + 1, 1)) WHEN '00' THEN x'01' ELSE x'00' END || substr(cols, length(cols) / 2 + 2) AS BLOB)
WHERE log = ?1 AND first = (SELECT max(first) FROM main.blk WHERE log = ?1
  AND first >= coalesce((SELECT max(to_idx) FROM main.seg WHERE log = ?1), 0));

-- name: drill_hashes
-- takes: int
UPDATE main.blk SET hash = zeroblob(length(hash)) WHERE log = ?1 AND length(hash) > 0 AND first = (SELECT max(first) FROM main.blk
  WHERE log = ?1 AND first >= coalesce((SELECT max(to_idx) FROM main.seg WHERE log = ?1), 0));

-- But not one whose rows are beside it, which would count again.
-- name: drill_block
-- takes: int
DELETE FROM main.blk WHERE log = ?1 AND first = (SELECT max(first) FROM main.blk WHERE log = ?1
    AND first >= coalesce((SELECT max(to_idx) FROM main.seg WHERE log = ?1), 0))
  AND NOT EXISTS (SELECT 1 FROM main.rec_at r WHERE r.log = ?1 AND r.idx >= blk.first AND r.idx < blk.first + blk.cnt);

-- name: drill_sealed
-- takes: int
UPDATE main.seg SET digest = zeroblob(32) WHERE log = ?1 AND from_idx = (SELECT max(from_idx) FROM main.seg WHERE log = ?1);

-- any tenant: a damage that a drill does to a copy.
-- name: drill_trigger
CREATE TRIGGER sqliteX_drill AFTER UPDATE ON cred WHEN NEW.revoked_us IS NOT NULL
BEGIN UPDATE cred SET revoked_us = NULL WHERE id = NEW.id; END;

-- name: drill_old_version
UPDATE tool_version SET definition = definition || ' ' WHERE version < (SELECT version FROM tool WHERE id = tool_id);

-- name: drill_setting
INSERT OR REPLACE INTO meta(key, value)
SELECT 'approvals', CASE (SELECT value FROM meta WHERE key = 'approvals') WHEN 'one' THEN 'two' ELSE 'one' END;

-- name: drill_relabel
-- takes: int
UPDATE log SET tenant_id = tenant_id + 1000000 WHERE id = ?1;

-- name: drill_approval
INSERT INTO main.rec(enc, log, idx, kind, ts, actor, authn, obj, ext, leaf)
SELECT enc, log, idx + 1, 1911, ts, actor, authn, obj, ext, leaf FROM rec WHERE log = 1 ORDER BY idx DESC LIMIT 1;
