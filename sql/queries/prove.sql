-- Statements of proofs.  Each names its caller and its index.

-- audit_prove(): the log of a tenant.  Unique index.
-- name: prove_get_log
-- takes: int
SELECT id, origin, min_idx FROM log WHERE tenant_id IS nullif(?1, 0);

-- audit_prove(): the newest checkpoint.  Primary key.
-- name: prove_get_note
-- takes: int
SELECT note FROM cp WHERE log = ?1 ORDER BY size DESC LIMIT 1;
