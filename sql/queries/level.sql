-- Statements on how much of calls is kept.  Each names its caller and its index.

-- name: level_get_tenant
-- takes: int
-- admin: level set.  Primary key.
SELECT audit_level FROM tenant WHERE id = ?1;

-- name: level_set_tenant
-- takes: int int
-- admin: level set.  Primary key.
UPDATE tenant SET audit_level = ?2 WHERE id = ?1;

-- name: level_get_tool
-- takes: int text
-- admin: level set --tool.  Primary key.
SELECT level FROM tool_level WHERE tenant_id = ?1 AND tool = ?2;

-- name: level_set_tool
-- takes: int text int
-- admin: level set --tool.  Primary key.
INSERT INTO tool_level(tenant_id, tool, level) VALUES(?1, ?2, ?3) ON CONFLICT(tenant_id, tool) DO UPDATE SET level = excluded.level;

-- name: level_delete_tool
-- takes: int text
-- admin: level set default --tool.  Primary key.
DELETE FROM tool_level WHERE tenant_id = ?1 AND tool = ?2;

-- name: level_tool_between
-- takes: int int int
-- admin: level set, of a tenant: a tool that was not below it and would be.  Primary key.
SELECT tool FROM tool_level WHERE tenant_id = ?1 AND level >= ?2 AND level < ?3 ORDER BY tool LIMIT 1;

-- name: level_definition_between
-- takes: int
-- admin: level set, of a tenant: the levels that definitions say, where the tenant says none for them.  Walk of the tools.
SELECT own FROM (SELECT json_extract(v.definition, '$.audit.level') AS own, t.name AS name
FROM tool AS t JOIN tool_version AS v ON v.tool_id = t.id AND v.version = t.version WHERE t.state <> 3) AS d
WHERE own IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tool_level AS l WHERE l.tenant_id = ?1 AND l.tool = d.name);

-- name: level_get_version
-- takes: int int
-- admin: what stores a definition.  UNIQUE(tool_id, version).
SELECT json_extract(definition, '$.audit.level') FROM tool_version WHERE tool_id = ?1 AND version = ?2;

-- name: level_highest
-- admin: what stores a definition.  Walk of the tenants.
SELECT max(audit_level) FROM tenant WHERE state <> 3;

-- name: level_list
-- takes: text
-- admin: level list.  Walk of the tenants, primary key of tool_level.
SELECT t.name, NULL AS tool, t.audit_level FROM tenant t WHERE t.state <> 3 AND (?1 IS NULL OR t.name = ?1)
UNION ALL
SELECT t.name, l.tool, l.level FROM tool_level l JOIN tenant t ON t.id = l.tenant_id
WHERE t.state <> 3 AND (?1 IS NULL OR t.name = ?1) ORDER BY 1, 2;
