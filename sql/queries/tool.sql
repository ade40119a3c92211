-- Statements on tool.  Each names its caller and its index.

-- name: tool_current_all
-- reg_change_all: the versions in force.  Walk of tool by id, UNIQUE(tool_id, version) of tool_version.
SELECT t.id, t.name, t.state, v.id, v.version, v.digest, v.definition, v.kind, v.uri
FROM tool AS t JOIN tool_version AS v ON v.tool_id = t.id AND v.version = t.version
WHERE t.state = 1 ORDER BY t.id;

-- name: tool_current
-- takes: int
-- reg_change_tools: the same of one tool, whatever its state.  Primary key, UNIQUE(tool_id, version).
SELECT t.id, t.name, t.state, v.id, v.version, v.digest, v.definition, v.kind, v.uri
FROM tool AS t JOIN tool_version AS v ON v.tool_id = t.id AND v.version = t.version
WHERE t.id = ?1;

-- name: tool_of_version
-- takes: int
-- reg_change_*: the same of a version that a grant names and that is not the one in force.  Primary keys.
SELECT t.id, t.name, t.state, v.id, v.version, v.digest, v.definition, v.kind, v.uri
FROM tool_version AS v JOIN tool AS t ON t.id = v.tool_id WHERE v.id = ?1;

-- name: tool_insert
-- takes: text int int
-- admin: tool add, a new name.
INSERT INTO tool(name, state, version, created_us) VALUES (?1, 1, ?2, ?3) RETURNING id;

-- name: tool_insert_version
-- takes: int int blob blob text text int int text
-- admin: tool add.
INSERT INTO tool_version(tool_id, version, digest, list_digest, definition, actor, created_us, kind, uri)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) RETURNING id;

-- name: tool_set_version
-- takes: int int int int
-- admin: tool add, a new version and its state.  Primary key; no row when somebody was faster.
UPDATE tool SET version = ?3, state = ?4 WHERE id = ?1 AND version = ?2;

-- name: tool_set_state
-- takes: int int
-- admin: tool enable, disable, remove.  Primary key.
UPDATE tool SET state = ?2 WHERE id = ?1;

-- name: tool_written
-- takes: int int
-- apply --prune, export: what no upstream has brought, of kind ?2; ?1 = what this tenant is granted, 0 = all.
-- Walk of the index on name; upstream_tool_tool, UNIQUE(tenant_id, glob).
SELECT t.id, t.name, v.definition FROM tool AS t JOIN tool_version AS v ON v.tool_id = t.id AND v.version = t.version
WHERE t.state <> 3 AND v.kind = ?2 AND NOT EXISTS (SELECT 1 FROM upstream_tool AS r WHERE r.tool_id = t.id)
AND (?1 = 0 OR EXISTS (SELECT 1 FROM tool_grant AS g WHERE g.tenant_id = ?1 AND t.name GLOB g.glob)) ORDER BY t.name;
