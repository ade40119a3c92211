-- name: step_0016_vouched
-- Rows of the registry and credentials name the record that vouches for them (AUDIT A-417): it has their digests.

-- rec_log, rec_idx: log and index of the record that made the row what it is; rec_idx NULL or negative (-1 - index): the
-- row has been written since, and no record says so yet.  A writer that leaves one behind has a fault (A-206).
-- row_gone: a row that was deleted and no record says so yet; kind as in include/audit/rows.h.
CREATE TABLE row_gone(
  kind INTEGER NOT NULL,
  id INTEGER NOT NULL,
  rec_log INTEGER,
  rec_idx INTEGER,
  PRIMARY KEY(kind, id)
) STRICT;

ALTER TABLE tenant ADD COLUMN rec_log INTEGER;
ALTER TABLE tenant ADD COLUMN rec_idx INTEGER;
CREATE INDEX tenant_unvouched ON tenant(id) WHERE coalesce(rec_idx, -1) < 0;
CREATE TRIGGER tenant_touched AFTER UPDATE OF name, title, state, concurrency, rate_count, rate_per_s, created_us, sandbox,
  audit_level ON tenant WHEN NEW.rec_idx >= 0
BEGIN UPDATE tenant SET rec_idx = -1 - rec_idx WHERE id = NEW.id; END;
CREATE TRIGGER tenant_gone AFTER DELETE ON tenant
BEGIN INSERT OR REPLACE INTO row_gone(kind, id, rec_log, rec_idx) VALUES(1, OLD.id, OLD.rec_log, OLD.rec_idx); END;

ALTER TABLE principal ADD COLUMN rec_log INTEGER;
ALTER TABLE principal ADD COLUMN rec_idx INTEGER;
CREATE INDEX principal_unvouched ON principal(id) WHERE coalesce(rec_idx, -1) < 0;
CREATE TRIGGER principal_touched AFTER UPDATE OF tenant_id, pseudonym, state, created_us ON principal WHEN NEW.rec_idx >= 0
BEGIN UPDATE principal SET rec_idx = -1 - rec_idx WHERE id = NEW.id; END;
CREATE TRIGGER principal_gone AFTER DELETE ON principal
BEGIN INSERT OR REPLACE INTO row_gone(kind, id, rec_log, rec_idx) VALUES(2, OLD.id, OLD.rec_log, OLD.rec_idx); END;

ALTER TABLE cred ADD COLUMN rec_log INTEGER;
ALTER TABLE cred ADD COLUMN rec_idx INTEGER;
CREATE INDEX cred_unvouched ON cred(id) WHERE coalesce(rec_idx, -1) < 0;
CREATE TRIGGER cred_touched AFTER UPDATE OF tenant_id, principal_id, accessor, hash, created_us, expires_us, revoked_us ON cred WHEN NEW.rec_idx >= 0
BEGIN UPDATE cred SET rec_idx = -1 - rec_idx WHERE id = NEW.id; END;
CREATE TRIGGER cred_gone AFTER DELETE ON cred
BEGIN INSERT OR REPLACE INTO row_gone(kind, id, rec_log, rec_idx) VALUES(3, OLD.id, OLD.rec_log, OLD.rec_idx); END;

ALTER TABLE tool_grant ADD COLUMN rec_log INTEGER;
ALTER TABLE tool_grant ADD COLUMN rec_idx INTEGER;
CREATE INDEX tool_grant_unvouched ON tool_grant(id) WHERE coalesce(rec_idx, -1) < 0;
CREATE TRIGGER tool_grant_touched AFTER UPDATE OF tenant_id, glob, alias, concurrency, rate_count, rate_per_s, created_us ON tool_grant WHEN NEW.rec_idx >= 0
BEGIN UPDATE tool_grant SET rec_idx = -1 - rec_idx WHERE id = NEW.id; END;
CREATE TRIGGER tool_grant_gone AFTER DELETE ON tool_grant
BEGIN INSERT OR REPLACE INTO row_gone(kind, id, rec_log, rec_idx) VALUES(4, OLD.id, OLD.rec_log, OLD.rec_idx); END;

ALTER TABLE tool ADD COLUMN rec_log INTEGER;
ALTER TABLE tool ADD COLUMN rec_idx INTEGER;
CREATE INDEX tool_unvouched ON tool(id) WHERE coalesce(rec_idx, -1) < 0;
CREATE TRIGGER tool_touched AFTER UPDATE OF name, state, version, created_us ON tool WHEN NEW.rec_idx >= 0
BEGIN UPDATE tool SET rec_idx = -1 - rec_idx WHERE id = NEW.id; END;
CREATE TRIGGER tool_gone AFTER DELETE ON tool
BEGIN INSERT OR REPLACE INTO row_gone(kind, id, rec_log, rec_idx) VALUES(5, OLD.id, OLD.rec_log, OLD.rec_idx); END;

ALTER TABLE shared_schema ADD COLUMN rec_log INTEGER;
ALTER TABLE shared_schema ADD COLUMN rec_idx INTEGER;
CREATE INDEX shared_schema_unvouched ON shared_schema(id) WHERE coalesce(rec_idx, -1) < 0;
CREATE TRIGGER shared_schema_touched AFTER UPDATE OF uri, state, digest, definition, created_us ON shared_schema WHEN NEW.rec_idx >= 0
BEGIN UPDATE shared_schema SET rec_idx = -1 - rec_idx WHERE id = NEW.id; END;
CREATE TRIGGER shared_schema_gone AFTER DELETE ON shared_schema
BEGIN INSERT OR REPLACE INTO row_gone(kind, id, rec_log, rec_idx) VALUES(6, OLD.id, OLD.rec_log, OLD.rec_idx); END;

ALTER TABLE upstream ADD COLUMN rec_log INTEGER;
ALTER TABLE upstream ADD COLUMN rec_idx INTEGER;
CREATE INDEX upstream_unvouched ON upstream(id) WHERE coalesce(rec_idx, -1) < 0;
CREATE TRIGGER upstream_touched AFTER UPDATE OF name, state, definition, digest, prefix, created_us ON upstream WHEN NEW.rec_idx >= 0
BEGIN UPDATE upstream SET rec_idx = -1 - rec_idx WHERE id = NEW.id; END;
CREATE TRIGGER upstream_gone AFTER DELETE ON upstream
BEGIN INSERT OR REPLACE INTO row_gone(kind, id, rec_log, rec_idx) VALUES(7, OLD.id, OLD.rec_log, OLD.rec_idx); END;

ALTER TABLE secret ADD COLUMN rec_log INTEGER;
ALTER TABLE secret ADD COLUMN rec_idx INTEGER;
CREATE INDEX secret_unvouched ON secret(id) WHERE coalesce(rec_idx, -1) < 0;
CREATE TRIGGER secret_touched AFTER UPDATE OF name, created_us, changed_us ON secret WHEN NEW.rec_idx >= 0
BEGIN UPDATE secret SET rec_idx = -1 - rec_idx WHERE id = NEW.id; END;
CREATE TRIGGER secret_gone AFTER DELETE ON secret
BEGIN INSERT OR REPLACE INTO row_gone(kind, id, rec_log, rec_idx) VALUES(8, OLD.id, OLD.rec_log, OLD.rec_idx); END;

ALTER TABLE tool_level ADD COLUMN rec_log INTEGER;
ALTER TABLE tool_level ADD COLUMN rec_idx INTEGER;
CREATE INDEX tool_level_unvouched ON tool_level(id) WHERE coalesce(rec_idx, -1) < 0;
CREATE TRIGGER tool_level_touched AFTER UPDATE OF tenant_id, tool, level ON tool_level WHEN NEW.rec_idx >= 0
BEGIN UPDATE tool_level SET rec_idx = -1 - rec_idx WHERE id = NEW.id; END;
CREATE TRIGGER tool_level_gone AFTER DELETE ON tool_level
BEGIN INSERT OR REPLACE INTO row_gone(kind, id, rec_log, rec_idx) VALUES(10, OLD.id, OLD.rec_log, OLD.rec_idx); END;

ALTER TABLE upstream_tool ADD COLUMN rec_log INTEGER;
ALTER TABLE upstream_tool ADD COLUMN rec_idx INTEGER;
CREATE INDEX upstream_tool_unvouched ON upstream_tool(id) WHERE coalesce(rec_idx, -1) < 0;
CREATE TRIGGER upstream_tool_touched AFTER UPDATE OF upstream_id, remote, tool_id, pinned ON upstream_tool WHEN NEW.rec_idx >= 0
BEGIN UPDATE upstream_tool SET rec_idx = -1 - rec_idx WHERE id = NEW.id; END;
CREATE TRIGGER upstream_tool_gone AFTER DELETE ON upstream_tool
BEGIN INSERT OR REPLACE INTO row_gone(kind, id, rec_log, rec_idx) VALUES(11, OLD.id, OLD.rec_log, OLD.rec_idx); END;
