-- name: step_0021_grant_note
-- Why a tenant has a grant, in the words of who gave it.

-- note: for people, NULL = none.
ALTER TABLE tool_grant ADD COLUMN note TEXT;
DROP TRIGGER tool_grant_touched;
CREATE TRIGGER tool_grant_touched AFTER UPDATE OF tenant_id, glob, alias, concurrency, rate_count, rate_per_s, created_us,
  note ON tool_grant WHEN NEW.rec_idx >= 0
BEGIN UPDATE tool_grant SET rec_idx = -1 - rec_idx WHERE id = NEW.id; END;
