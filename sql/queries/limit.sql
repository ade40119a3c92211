-- Statements on limits and what was used of them.  Each names its caller and its index.

-- name: limit_of_tenant
-- takes: int
-- tenant_image_load: all limits of a tenant and of what belongs to it.  Primary key.
SELECT scope, subject, concurrency, queue, rate_count, rate_per_s, requests_count, requests_per_s, calls_day, bytes_day
FROM limit_row WHERE tenant_id = ?1 ORDER BY scope, subject;

-- name: limit_written
-- takes: int
-- apply --prune, export: what is below a tenant, by name; column 10 is NULL when it is gone.  Primary keys.
SELECT l.scope, l.subject, l.concurrency, l.queue, l.rate_count, l.rate_per_s, l.requests_count, l.requests_per_s, l.calls_day,
       l.bytes_day, CASE l.scope WHEN 2 THEN (SELECT p.name FROM principal p WHERE p.id = l.subject AND p.tenant_id = ?1)
       WHEN 3 THEN (SELECT c.accessor FROM cred c WHERE c.id = l.subject AND c.tenant_id = ?1 AND c.revoked_us IS NULL)
       ELSE (SELECT t.name FROM tool t WHERE t.id = l.subject AND t.state <> 3) END AS name
FROM limit_row l WHERE l.tenant_id = ?1 AND l.scope > 1 ORDER BY l.scope, name;

-- name: limit_get
-- takes: int int int
-- admin: limit set, tenant set, apply.  Primary key.
SELECT scope, subject, concurrency, queue, rate_count, rate_per_s, requests_count, requests_per_s, calls_day, bytes_day
FROM limit_row WHERE tenant_id = ?1 AND scope = ?2 AND subject = ?3;

-- name: limit_put
-- takes: int int int int int int int int int int int
-- admin: limit set, apply.  Primary key.
INSERT INTO limit_row(tenant_id, scope, subject, concurrency, queue, rate_count, rate_per_s, requests_count, requests_per_s,
  calls_day, bytes_day) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT(tenant_id, scope, subject) DO UPDATE SET concurrency = ?4, queue = ?5, rate_count = ?6, rate_per_s = ?7,
  requests_count = ?8, requests_per_s = ?9, calls_day = ?10, bytes_day = ?11;

-- name: limit_delete
-- takes: int int int
-- admin: limit set, apply: nothing is limited any more.  Primary key.
DELETE FROM limit_row WHERE tenant_id = ?1 AND scope = ?2 AND subject = ?3;

-- name: usage_of_day
-- takes: int
-- At a start.  Walk of the table, which has one row for each tenant and quota.
SELECT tenant_id, scope, subject, calls, bytes FROM usage_day WHERE day = ?1 ORDER BY tenant_id;

-- name: usage_put
-- takes: int int int int int int
-- Each minute and at stop.  Primary key.  A tenant that is gone leaves nothing.
INSERT INTO usage_day(tenant_id, scope, subject, day, calls, bytes)
SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE EXISTS (SELECT 1 FROM tenant WHERE id = ?1)
ON CONFLICT(tenant_id, scope, subject) DO UPDATE SET day = ?4, calls = ?5, bytes = ?6;
