-- Statements on key.  Each names its caller and its index.

-- name: key_checkable
-- takes: int int
-- tenant_image_load: also expired ones and the ?2 that were revoked last, so that their owner may be told.  Index
-- cred_principal, then sorted by id.
SELECT id, principal_id, accessor, hash, expires_us, revoked_us, last_used_us, not_before_us, old_hash, old_until_us,
  enrol_ttl_us, scopes, cidr, arg_rules, suspended_us
FROM cred WHERE tenant_id = ?1 AND (revoked_us IS NULL OR id IN (SELECT id FROM cred WHERE tenant_id = ?1
  AND revoked_us IS NOT NULL ORDER BY revoked_us DESC, id DESC LIMIT ?2)) ORDER BY id;

-- name: key_set_last_used
-- takes: int int int
-- tenant_used_write.  Primary key.
UPDATE cred SET last_used_us = ?3 WHERE tenant_id = ?1 AND id = ?2 AND coalesce(last_used_us, 0) < ?3;

-- name: key_insert
-- takes: int int text blob text int int int text text text int int
-- admin: key create, key enroll.
INSERT INTO cred(tenant_id, principal_id, accessor, hash, label, created_us, expires_us, not_before_us, scopes, cidr, arg_rules,
  enrol_ttl_us, parent_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13);

-- name: key_set_revoked
-- takes: int int int
-- admin: key revoke.  Primary key.
UPDATE cred SET revoked_us = ?3 WHERE tenant_id = ?1 AND id = ?2 AND revoked_us IS NULL;

-- name: key_set_suspended
-- takes: int int int
-- admin: key suspend, key resume.  ?3 NULL: it is not any more.  Primary key.
UPDATE cred SET suspended_us = ?3 WHERE tenant_id = ?1 AND id = ?2;

-- name: key_children
-- takes: int int
-- admin: key revoke; what a key has made and still may be used.  Index cred_parent.
SELECT accessor FROM cred WHERE tenant_id = ?1 AND parent_id = ?2 AND revoked_us IS NULL ORDER BY id;

-- name: key_set_secret
-- takes: int int blob int int int
-- admin: key rotate.  ?5 NULL: what was in force ends now.  Primary key.
UPDATE cred SET old_hash = CASE WHEN ?5 IS NULL THEN NULL ELSE hash END, old_until_us = ?5, hash = ?3, rotated_us = ?4, expires_us = ?6,
  expired_us = NULL
WHERE tenant_id = ?1 AND id = ?2;

-- name: key_expired
-- takes: int int
-- tenant_expired_find, tenant_expired_write: the end of their life has come and is not on record.  Index cred_expiry.
SELECT c.tenant_id, c.id, c.accessor, p.pseudonym FROM cred c JOIN principal p ON p.id = c.principal_id
WHERE c.expires_us <= ?1 AND c.revoked_us IS NULL AND c.expired_us IS NULL ORDER BY c.expires_us LIMIT ?2;

-- name: key_set_expired
-- takes: int int int
-- tenant_expired_write.  Primary key.
UPDATE cred SET expired_us = ?3 WHERE tenant_id = ?1 AND id = ?2;

-- tenant_expiring_count: keys that end between ?1 and ?2, ?3 and ?4, which rise.  Index cred_expiry.
-- any tenant: a figure of the whole store, which names nobody.
-- name: key_expiring
-- takes: int int int int
SELECT count(*) FILTER (WHERE expires_us <= ?2), count(*) FILTER (WHERE expires_us <= ?3), count(*) FROM cred
WHERE expires_us > ?1 AND expires_us <= ?4 AND revoked_us IS NULL AND expired_us IS NULL;
