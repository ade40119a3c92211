-- Statements on principal.  Each names its caller and its index.

-- name: principal_list
-- tenant_image_load.  UNIQUE(tenant_id, name), then sorted by id.
SELECT id, name, pseudonym, state FROM principal WHERE tenant_id = ?1 ORDER BY id;

-- name: principal_insert
-- admin: tenant add, key create, principal add.
INSERT INTO principal(tenant_id, name, pseudonym, state, created_us) VALUES (?1, ?2, ?3, 1, ?4);

-- name: principal_set_state
-- admin: principal set.  Primary key.
UPDATE principal SET state = ?3 WHERE tenant_id = ?1 AND id = ?2;
