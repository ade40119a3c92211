-- Statements on principal.  Each names its caller and its index.

-- name: principal_list
-- takes: int
-- tenant_image_load.  UNIQUE(tenant_id, name), then sorted by id.  Who is a system that is prohibited is as one that is suspended.
SELECT p.id, p.name, p.pseudonym, CASE WHEN i.risk = 'prohibited' THEN 2 ELSE p.state END, s.name FROM principal p
LEFT JOIN system s ON s.tenant_id = p.tenant_id AND s.id = p.system_id AND s.state < 3
LEFT JOIN inventory i ON i.subject_kind = 5 AND i.subject_id = s.id AND i.tenant_id = s.tenant_id
WHERE p.tenant_id = ?1 ORDER BY p.id;

-- name: principal_insert
-- takes: int text text int
-- admin: tenant add, key create, principal add.
INSERT INTO principal(tenant_id, name, pseudonym, state, created_us) VALUES (?1, ?2, ?3, 1, ?4) RETURNING id;

-- name: principal_set_state
-- takes: int int int
-- admin: principal set.  Primary key.
UPDATE principal SET state = ?3 WHERE tenant_id = ?1 AND id = ?2;
