-- Statements of admin commands: what they look up, list and write.  Each names its caller and its index.

-- name: admin_tenant_find
-- takes: text
-- adm_find_tenant.  UNIQUE(name), primary key of limit_row.
SELECT t.id, t.name, t.title, t.state, t.generation, t.concurrency, t.rate_count, t.rate_per_s, t.created_us, t.sandbox, l.concurrency, l.queue,
       l.rate_count, l.rate_per_s, l.requests_count, l.requests_per_s, l.calls_day, l.bytes_day
FROM tenant t LEFT JOIN limit_row l ON l.tenant_id = t.id AND l.scope = 1 AND l.subject = 0
WHERE t.name = ?1 AND t.state <> 3;

-- name: admin_tenant_list
-- tenant list, and the candidates of "did you mean".  Walk of the index on name, primary key of limit_row.
SELECT t.id, t.name, t.title, t.state, t.generation, t.concurrency, t.rate_count, t.rate_per_s, t.created_us, t.sandbox, l.concurrency, l.queue,
       l.rate_count, l.rate_per_s, l.requests_count, l.requests_per_s, l.calls_day, l.bytes_day
FROM tenant t LEFT JOIN limit_row l ON l.tenant_id = t.id AND l.scope = 1 AND l.subject = 0
WHERE t.state <> 3 ORDER BY t.name;

-- name: admin_tenant_set
-- takes: int text int int int text
-- tenant set.  Primary key.
UPDATE tenant SET title = ?2, concurrency = ?3, rate_count = ?4, rate_per_s = ?5, sandbox = ?6 WHERE id = ?1;

-- name: admin_tenant_remove
-- takes: int
-- tenant remove: the row stays for its records, the name is free again.  Primary key.
UPDATE tenant SET state = 3, name = substr(name, 1, 40) || '~' || id WHERE id = ?1;

-- name: admin_tenant_counts
-- takes: int
-- tenant show: principals, keys that are not revoked, grants.  Indexes that begin with tenant_id.
SELECT (SELECT count(*) FROM principal WHERE tenant_id = ?1),
       (SELECT count(*) FROM cred WHERE tenant_id = ?1 AND revoked_us IS NULL),
       (SELECT count(*) FROM tool_grant WHERE tenant_id = ?1);

-- name: admin_grant_count
-- takes: int
-- grant add, apply: is there room for one more?  Index that begins with tenant_id.
SELECT count(*) FROM tool_grant WHERE tenant_id = ?1;

-- name: admin_principal_find
-- takes: int text
-- adm_find_principal.  UNIQUE(tenant_id, name).
SELECT p.id, p.name, p.pseudonym, p.state, p.created_us, s.name FROM principal p
LEFT JOIN system s ON s.tenant_id = p.tenant_id AND s.id = p.system_id AND s.state < 3 WHERE p.tenant_id = ?1 AND p.name = ?2;

-- name: admin_principal_list
-- takes: int
-- principal list, and names for pseudonyms in audit reports.  UNIQUE(tenant_id, name).
SELECT p.id, p.name, p.pseudonym, p.state, p.created_us, s.name FROM principal p
LEFT JOIN system s ON s.tenant_id = p.tenant_id AND s.id = p.system_id AND s.state < 3 WHERE p.tenant_id = ?1 ORDER BY p.name;

-- name: admin_principal_count
-- takes: int
-- adm_add_principal.  UNIQUE(tenant_id, name).
SELECT count(*) FROM principal WHERE tenant_id = ?1;

-- name: admin_key_find
-- takes: text
-- adm_find_key.  UNIQUE(accessor), cred_parent; the tenant is in the row.
SELECT c.id, c.tenant_id, t.name, p.name, c.accessor, c.label, c.created_us, c.expires_us, c.revoked_us,
       c.last_used_us, c.not_before_us, c.rotated_us, c.old_until_us, c.enrol_ttl_us, c.scopes, c.cidr, c.arg_rules,
       (SELECT m.accessor FROM cred m WHERE m.id = c.parent_id), (SELECT count(*) FROM cred k WHERE k.parent_id = c.id),
       c.hash, p.id, p.pseudonym, p.state, t.state, c.suspended_us
FROM cred c JOIN tenant t ON t.id = c.tenant_id JOIN principal p ON p.id = c.principal_id
WHERE c.accessor = ?1 AND t.state <> 3;

-- name: admin_key_list
-- takes: int
-- key list TENANT.  Indexes cred_principal, cred_parent.
SELECT c.id, c.tenant_id, t.name, p.name, c.accessor, c.label, c.created_us, c.expires_us, c.revoked_us,
       c.last_used_us, c.not_before_us, c.rotated_us, c.old_until_us, c.enrol_ttl_us, c.scopes, c.cidr, c.arg_rules,
       (SELECT m.accessor FROM cred m WHERE m.id = c.parent_id), (SELECT count(*) FROM cred k WHERE k.parent_id = c.id),
       c.hash, p.id, p.pseudonym, p.state, t.state, c.suspended_us
FROM cred c JOIN tenant t ON t.id = c.tenant_id JOIN principal p ON p.id = c.principal_id
WHERE c.tenant_id = ?1 ORDER BY p.name, c.id;

-- name: admin_key_count
-- takes: int
-- key create: keys of a tenant that are not revoked.  Index cred_principal.
SELECT count(*) FROM cred WHERE tenant_id = ?1 AND revoked_us IS NULL;

-- name: admin_key_revoke_all
-- takes: int int
-- tenant remove.  Index cred_principal.
UPDATE cred SET revoked_us = ?2 WHERE tenant_id = ?1 AND revoked_us IS NULL;

-- name: admin_tool_find
-- takes: text
-- adm_find_tool: also removed ones.  UNIQUE(name), UNIQUE(tool_id, version).
SELECT t.id, t.name, t.state, t.version, t.created_us, v.id, v.digest, v.created_us, v.kind, v.uri
FROM tool t JOIN tool_version v ON v.tool_id = t.id AND v.version = t.version WHERE t.name = ?1;

-- name: admin_tool_list
-- takes: text
-- tool list, prompt list, resource list, and the candidates of "did you mean": the names with this prefix, '' for
-- tools.  Walk of the index on name.
SELECT t.id, t.name, t.state, t.version, t.created_us, v.id, v.digest, v.created_us, v.kind, v.uri
FROM tool t JOIN tool_version v ON v.tool_id = t.id AND v.version = t.version
WHERE t.state <> 3 AND substr(t.name, 1, instr(t.name, ':')) = ?1 ORDER BY t.name;

-- name: admin_tool_last_version
-- takes: int
-- tool add.  UNIQUE(tool_id, version).
SELECT max(version) FROM tool_version WHERE tool_id = ?1;

-- name: admin_tool_versions
-- takes: int text text
-- tool history, newest first, with the grants that keep a tenant on it: of all, or of this one alone, to whom others' are no
-- business.  UNIQUE(tool_id, version); the grants once for each.
SELECT id, version, digest, actor, created_us,
       (SELECT count(*) FROM tool_grant g JOIN tenant t ON t.id = g.tenant_id
        WHERE g.glob = ?2 AND g.version = v.version AND t.state <> 3 AND (?3 IS NULL OR t.name = ?3))
FROM tool_version v WHERE tool_id = ?1 ORDER BY version DESC;

-- name: admin_tool_version
-- takes: int int
-- tool show.  UNIQUE(tool_id, version).
SELECT id, version, digest, actor, created_us, definition FROM tool_version WHERE tool_id = ?1 AND version = ?2;

-- name: admin_tool_grants
-- takes: text
-- tool show: how many grants name this very tool.  Walk of the grants: they are few, and globs are not counted.
SELECT count(*) FROM tool_grant g JOIN tenant t ON t.id = g.tenant_id WHERE g.glob = ?1 AND t.state <> 3;

-- any tenant: counts of the whole store.
-- name: admin_counts
-- status.  Walks of the small tables.
SELECT (SELECT count(*) FROM tenant WHERE state <> 3), (SELECT count(*) FROM tool WHERE state <> 3 AND instr(name, ':') = 0),
       (SELECT count(*) FROM cred WHERE revoked_us IS NULL), (SELECT CAST(coalesce(sum(size), 0) AS INTEGER) FROM head);
