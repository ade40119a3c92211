-- Statements of audit drill: each changes a copy of a store as somebody would who can write its file (AUDIT 9), in a
-- transaction that is undone.  ?1 is a log, which stands for its tenant, ?2 the index of one of its records.

-- adm_audit_drill_body(): the first end of a call that is left, when a checkpoint covers it.  rec_pos, primary key.
-- name: drill_pick
SELECT idx FROM rec WHERE log = ?1 AND idx < (SELECT max(size) FROM cp WHERE log = ?1) AND kind = 1002 ORDER BY idx LIMIT 1;

-- name: drill_unfreeze
DROP TRIGGER rec_frozen;

-- As sql/migrate/0001_base.sql has it, to the letter.
-- name: drill_freeze
CREATE TRIGGER IF NOT EXISTS rec_frozen BEFORE UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END;

-- name: drill_outcome
UPDATE rec SET outcome = 1 - min(outcome, 1) WHERE log = ?1 AND idx = ?2;

-- name: drill_time
UPDATE rec SET ts = ts + 1 WHERE log = ?1 AND idx = ?2;

-- name: drill_person
UPDATE rec SET prn = NULL WHERE log = ?1 AND idx = ?2;

-- name: drill_leaf
UPDATE rec SET leaf = zeroblob(32) WHERE log = ?1 AND idx = ?2;

-- name: drill_remove
DELETE FROM rec WHERE log = ?1 AND idx = ?2;

-- name: drill_cut
DELETE FROM rec WHERE log = ?1 AND idx >= ?2;

-- name: drill_word
UPDATE dict SET text = text || '2' WHERE id = (SELECT tool FROM rec WHERE log = ?1 AND idx = ?2);

-- name: drill_payload
DELETE FROM pay WHERE rec = (SELECT id FROM rec WHERE log = ?1 AND idx = ?2);

-- name: drill_note
UPDATE cp SET note = CAST(replace(CAST(note AS TEXT), char(10) || size || char(10), char(10) || (size + 1) || char(10)) AS BLOB)
WHERE log = ?1 AND size > ?2;

-- name: drill_trigger
CREATE TRIGGER sqliteX_drill AFTER UPDATE ON cred WHEN NEW.revoked_us IS NOT NULL
BEGIN UPDATE cred SET revoked_us = NULL WHERE id = NEW.id; END;

-- name: drill_old_version
UPDATE tool_version SET definition = definition || ' ' WHERE version < (SELECT version FROM tool WHERE id = tool_id);

-- name: drill_setting
INSERT OR REPLACE INTO meta(key, value)
SELECT 'approvals', CASE (SELECT value FROM meta WHERE key = 'approvals') WHEN 'one' THEN 'two' ELSE 'one' END;

-- name: drill_relabel
UPDATE log SET tenant_id = tenant_id + 1000000 WHERE id = ?1;

-- name: drill_approval
INSERT INTO rec(enc, log, idx, kind, ts, actor, authn, obj, ext, leaf)
SELECT enc, log, idx + 1, 1911, ts, actor, authn, obj, ext, leaf FROM rec WHERE log = 1 ORDER BY idx DESC LIMIT 1;
