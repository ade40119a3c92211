-- Statements on key.  Each names its caller and its index.

-- name: key_checkable
-- tenant_image_load: also revoked and expired ones, so that their owner may be told.  Index cred_principal,
-- then sorted by id.
SELECT id, principal_id, accessor, hash, expires_us, revoked_us, last_used_us FROM cred WHERE tenant_id = ?1 ORDER BY id;

-- name: key_set_last_used
-- tenant_used_write.  Primary key.
UPDATE cred SET last_used_us = ?3 WHERE tenant_id = ?1 AND id = ?2 AND coalesce(last_used_us, 0) < ?3;

-- name: key_insert
-- admin: key create.
INSERT INTO cred(tenant_id, principal_id, accessor, hash, label, created_us, expires_us)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: key_set_revoked
-- admin: key revoke.  Primary key.
UPDATE cred SET revoked_us = ?3 WHERE tenant_id = ?1 AND id = ?2 AND revoked_us IS NULL;
