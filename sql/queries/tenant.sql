-- Statements on tenant.  Each names its caller and its index.

-- name: tenant_ids
-- ten_load_all, reg_change_all.  Walk of the table by id; removed tenants stay out.
SELECT id FROM tenant WHERE state <> 3 ORDER BY id;

-- name: tenant_get
-- takes: int
-- tenant_image_load.  Primary keys of tenant and limit_row.  The columns of admin_tenant_find, and the level.
SELECT t.id, t.name, t.title, t.state, t.generation, t.concurrency, t.rate_count, t.rate_per_s, t.created_us, t.sandbox, l.concurrency, l.queue,
       l.rate_count, l.rate_per_s, l.requests_count, l.requests_per_s, l.calls_day, l.bytes_day, t.audit_level
FROM tenant t LEFT JOIN limit_row l ON l.tenant_id = t.id AND l.scope = 1 AND l.subject = 0
WHERE t.id = ?1;

-- name: tenant_tool_levels
-- takes: int
-- tenant_image_load.  Primary key.
SELECT tool, level FROM tool_level WHERE tenant_id = ?1 ORDER BY tool;

-- name: tenant_get_list
-- takes: int
-- reg_change_*: what the tenant's last lists were.  Primary key.
SELECT name, state, generation, list_digest, prompt_generation, prompt_digest, resource_generation, resource_digest
FROM tenant WHERE id = ?1;

-- name: tenant_set_list
-- takes: int int blob int blob int blob
-- reg_change_*: a list differs now.  Primary key.
UPDATE tenant SET generation = ?2, list_digest = ?3, prompt_generation = ?4, prompt_digest = ?5,
resource_generation = ?6, resource_digest = ?7 WHERE id = ?1;

-- name: tenant_insert
-- takes: text text int int int int text
-- admin: tenant add.  32 zero bytes: the digest of an empty list (registry change.c).
INSERT INTO tenant(name, title, state, generation, list_digest, concurrency, rate_count, rate_per_s, created_us, sandbox)
VALUES (?1, ?2, 1, 0, zeroblob(32), ?3, ?4, ?5, ?6, ?7);

-- name: tenant_set_state
-- takes: int int
-- admin: tenant suspend, resume.  Primary key.
UPDATE tenant SET state = ?2 WHERE id = ?1;
