-- name: step_0018_key_life
-- What a key may do, from where, since when; its two secrets while one replaces the other; keys that make one key.

-- not_before_us: not valid before; NULL = from the start.
-- scopes: words of include/tenant/scope.h; NULL = whatever the tenant's grants show.
-- cidr: networks it may be used from, blanks between them; NULL = from anywhere.
-- arg_rules: one rule of include/tenant/arg_rule.h on each line; NULL = none.
-- rotated_us: when its secret became the one in force; NULL = with created_us.
-- old_hash, old_until_us: the secret before it and the end of that; NULL = there is none.
-- enrol_ttl_us: not NULL: it calls nothing, it makes one other key, which lives so long.
-- parent_id: the key that made it; NULL = an administrator did.
-- expired_us: when the end of its life was recorded (cred.expire); NULL = not yet.
ALTER TABLE cred ADD COLUMN not_before_us INTEGER;
ALTER TABLE cred ADD COLUMN scopes TEXT;
ALTER TABLE cred ADD COLUMN cidr TEXT;
ALTER TABLE cred ADD COLUMN arg_rules TEXT;
ALTER TABLE cred ADD COLUMN rotated_us INTEGER;
ALTER TABLE cred ADD COLUMN old_hash BLOB;
ALTER TABLE cred ADD COLUMN old_until_us INTEGER;
ALTER TABLE cred ADD COLUMN enrol_ttl_us INTEGER;
ALTER TABLE cred ADD COLUMN parent_id INTEGER REFERENCES cred(id);
ALTER TABLE cred ADD COLUMN expired_us INTEGER;
CREATE INDEX cred_parent ON cred(parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX cred_expiry ON cred(expires_us) WHERE revoked_us IS NULL AND expired_us IS NULL;
DROP TRIGGER cred_touched;
CREATE TRIGGER cred_touched AFTER UPDATE OF tenant_id, principal_id, accessor, hash, created_us, expires_us, revoked_us,
  not_before_us, scopes, cidr, arg_rules, rotated_us, old_hash, old_until_us, enrol_ttl_us, parent_id, expired_us ON cred WHEN NEW.rec_idx >= 0
BEGIN UPDATE cred SET rec_idx = -1 - rec_idx WHERE id = NEW.id; END;
