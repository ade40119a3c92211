-- Statements on grant, all of them, with those by which records vouch for its rows.  Each names its caller and its index.

-- name: grant_visible
-- takes: int
-- reg_change_*: what a tenant's grants match; a pattern without a kind in front of it speaks of tools alone.  UNIQUE(tenant_id, glob); tool by name, or for a pattern what
-- begins as it does (CROSS JOIN: the grants first, whatever the planner thinks of their number); UNIQUE(tool_id, version).
SELECT t.id, t.name, v.id, v.list_digest, g.id, g.glob, g.alias, g.concurrency, g.rate_count, g.rate_per_s, v.kind, v.uri, v.version <> t.version,
  g.approve
FROM tool_grant AS g CROSS JOIN tool AS t JOIN tool_version AS v ON v.tool_id = t.id AND v.version = coalesce(g.version, t.version)
WHERE g.tenant_id = ?1 AND t.name = g.glob AND t.state = 1
UNION ALL
SELECT t.id, t.name, v.id, v.list_digest, g.id, g.glob, g.alias, g.concurrency, g.rate_count, g.rate_per_s, v.kind, v.uri, v.version <> t.version,
  g.approve
FROM tool_grant AS g CROSS JOIN tool AS t JOIN tool_version AS v ON v.tool_id = t.id AND v.version = t.version
WHERE g.tenant_id = ?1 AND (instr(g.glob, '*') > 0 OR instr(g.glob, char(63)) > 0)
-- only: sqlite
AND t.name >= substr(g.glob, 1, min(ifnull(nullif(instr(g.glob, '*'), 0), 999), ifnull(nullif(instr(g.glob, char(63)), 0), 999)) - 1)
AND t.name < substr(g.glob, 1, min(ifnull(nullif(instr(g.glob, '*'), 0), 999), ifnull(nullif(instr(g.glob, char(63)), 0), 999)) - 1) || char(1114111)
-- only: all
AND t.name GLOB g.glob
AND (instr(g.glob, ':') > 0) = (instr(t.name, ':') > 0) AND t.state = 1;

-- name: grant_tenants_of_tool
-- takes: text
-- reg_change_tools: who has a grant for this name.  All grants; a change of a tool is rare.
SELECT DISTINCT tenant_id FROM tool_grant WHERE ?1 GLOB glob AND (instr(glob, ':') > 0) = (instr(?1, ':') > 0);

-- name: grant_insert
-- takes: int text text int int int int int
-- admin: grant add.
INSERT INTO tool_grant(tenant_id, glob, alias, concurrency, rate_count, rate_per_s, created_us, version)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) RETURNING id;

-- name: grant_delete
-- takes: int text
-- admin: grant remove.  UNIQUE(tenant_id, glob).
DELETE FROM tool_grant WHERE tenant_id = ?1 AND glob = ?2;

-- name: admin_grant_list
-- takes: int
-- grant list, grant add and grant set.  UNIQUE(tenant_id, glob).
SELECT id, glob, alias, concurrency, rate_count, rate_per_s, created_us, version, approve FROM tool_grant WHERE tenant_id = ?1 ORDER BY glob;

-- name: grant_who
-- takes: int int
-- grant who: each principal with each key of it that is active at ?2, or with none.  UNIQUE(tenant_id, name), index cred_principal.
-- Who is a system that is prohibited is as one that is suspended.
SELECT p.name, CASE WHEN i.risk = 'prohibited' THEN 2 ELSE p.state END, c.id, c.scopes FROM principal p
LEFT JOIN system s ON s.tenant_id = p.tenant_id AND s.id = p.system_id AND s.state < 3
LEFT JOIN inventory i ON i.subject_kind = 5 AND i.subject_id = s.id AND i.tenant_id = s.tenant_id
LEFT JOIN cred c ON c.tenant_id = p.tenant_id AND c.principal_id = p.id AND c.revoked_us IS NULL AND c.suspended_us IS NULL
  AND c.enrol_ttl_us IS NULL AND (c.expires_us IS NULL OR c.expires_us > ?2) AND (c.not_before_us IS NULL OR c.not_before_us <= ?2)
WHERE p.tenant_id = ?1 ORDER BY p.name, c.id;

-- name: admin_grant_find
-- takes: int text
-- grant add, remove, set.  UNIQUE(tenant_id, glob).
SELECT id, glob, alias, concurrency, rate_count, rate_per_s, created_us, version, approve FROM tool_grant WHERE tenant_id = ?1 AND glob = ?2;

-- name: admin_grant_of_tool
-- takes: text text
-- tool_row_granted().  UNIQUE name of tenant, UNIQUE(tenant_id, glob).
SELECT 1 FROM tenant AS t JOIN tool_grant AS g ON g.tenant_id = t.id
WHERE t.name = ?1 AND ?2 GLOB g.glob AND (instr(g.glob, ':') > 0) = (instr(?2, ':') > 0) LIMIT 1;

-- name: admin_grant_pages
-- takes: int text int
-- grant add: resources that tools of this name or pattern name as their pages, and that the tenant is not granted.  Walks of tool,
-- UNIQUE(tool_id, version) of tool_version, UNIQUE(tenant_id, glob).
WITH page AS MATERIALIZED (SELECT json_extract(v.definition, '$._meta.ui.resourceUri') AS uri
FROM tool AS t JOIN tool_version AS v ON v.tool_id = t.id AND v.version = t.version
WHERE t.name GLOB ?2 AND instr(t.name, ':') = 0 AND t.state <> 3 AND instr(v.definition, '"resourceUri"') > 0)
SELECT t.name FROM tool AS t JOIN tool_version AS v ON v.tool_id = t.id AND v.version = t.version
WHERE EXISTS (SELECT 1 FROM page) AND t.name GLOB 'resource:*' AND t.state <> 3 AND v.uri IN (SELECT uri FROM page)
AND NOT EXISTS (SELECT 1 FROM tool_grant AS g WHERE g.tenant_id = ?1 AND t.name GLOB g.glob AND instr(g.glob, ':') > 0)
ORDER BY t.name LIMIT ?3;

-- name: admin_grant_set
-- takes: int int text int int int int text
-- grant set.  Primary key.
UPDATE tool_grant SET alias = ?3, concurrency = ?4, rate_count = ?5, rate_per_s = ?6, version = ?7, approve = ?8
WHERE tenant_id = ?1 AND id = ?2;

-- name: admin_grant_delete_all
-- takes: int
-- tenant remove.  UNIQUE(tenant_id, glob).
DELETE FROM tool_grant WHERE tenant_id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_grant
-- takes: int int
SELECT rec_log, rec_idx, id, tenant_id, glob, alias, concurrency, rate_count, rate_per_s, created_us, version, approve FROM tool_grant
WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_grant
-- takes: int int int
UPDATE tool_grant SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;
