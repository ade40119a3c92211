-- name: step_0020_key_suspended
-- Keys that are put out for a time.

-- suspended_us: since when it is refused; NULL = it is not.
ALTER TABLE cred ADD COLUMN suspended_us INTEGER;
DROP TRIGGER cred_touched;
CREATE TRIGGER cred_touched AFTER UPDATE OF tenant_id, principal_id, accessor, hash, created_us, expires_us, revoked_us,
  not_before_us, scopes, cidr, arg_rules, rotated_us, old_hash, old_until_us, enrol_ttl_us, parent_id, expired_us, suspended_us
ON cred WHEN NEW.rec_idx >= 0
BEGIN UPDATE cred SET rec_idx = -1 - rec_idx WHERE id = NEW.id; END;
