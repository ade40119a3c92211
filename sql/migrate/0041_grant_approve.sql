-- name: step_0041_grant_approve
-- Grants whose calls a person has to agree to (HA-01, decision 0131).

-- approve: the block of that name as canonical JSON, NULL = the grant asks nobody.  It is the last column of the row's digest, which
-- leaves NULL out: digests of grants without it are what they were.
ALTER TABLE tool_grant ADD COLUMN approve TEXT;
DROP TRIGGER tool_grant_touched;
CREATE TRIGGER tool_grant_touched AFTER UPDATE OF tenant_id, glob, alias, concurrency, rate_count, rate_per_s, created_us, version, approve ON tool_grant
WHEN NEW.rec_idx >= 0
BEGIN UPDATE tool_grant SET rec_idx = -1 - rec_idx WHERE id = NEW.id; END;
