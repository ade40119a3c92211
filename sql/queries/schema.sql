-- Statements on shared_schema.  Each names its caller and its index.

-- name: schema_current_all
-- reg_change_all: the catalogue.  Walk of the table.
SELECT uri, digest, definition FROM shared_schema WHERE state = 1 ORDER BY id;

-- name: schema_current
-- takes: text
-- reg_change_schema: one of it.  UNIQUE(uri).
SELECT uri, digest, definition FROM shared_schema WHERE uri = ?1 AND state = 1;

-- name: schema_find
-- takes: text
-- admin: one by name, also removed ones.  UNIQUE(uri).
SELECT id, uri, state, digest, actor, created_us, definition FROM shared_schema WHERE uri = ?1;

-- name: schema_list
-- schema list, export, and the candidates of "did you mean".  Walk of the index on uri.
SELECT id, uri, state, digest, actor, created_us, definition FROM shared_schema WHERE state = 1 ORDER BY uri;

-- name: schema_insert
-- takes: text blob text text int
-- schema add, a new name.
INSERT INTO shared_schema(uri, state, digest, definition, actor, created_us) VALUES (?1, 1, ?2, ?3, ?4, ?5);

-- name: schema_set
-- takes: int blob text text int
-- schema add: another text, or a removed one again.  Primary key.
UPDATE shared_schema SET state = 1, digest = ?2, definition = ?3, actor = ?4, created_us = ?5 WHERE id = ?1;

-- name: schema_retire
-- takes: int
-- schema remove, of one that stored versions refer to.  Primary key.
UPDATE shared_schema SET state = 3 WHERE id = ?1;

-- name: schema_delete
-- takes: int
-- schema remove, of one that nobody refers to.  Primary key.
DELETE FROM shared_schema WHERE id = ?1;

-- name: schema_totals
-- schema add: how many there are, and their bytes.  Walk of the table.
SELECT count(*), coalesce(sum(length(CAST(definition AS BLOB))), 0) FROM shared_schema WHERE state = 1;

-- name: schema_tools
-- takes: int
-- Tools that are not removed and whose version in force refers to a schema.  Index tool_schema_by, primary keys.
SELECT t.name, v.version FROM tool_schema AS s JOIN tool_version AS v ON v.id = s.version_id
JOIN tool AS t ON t.id = v.tool_id AND t.version = v.version WHERE s.schema_id = ?1 AND t.state <> 3 ORDER BY t.name;

-- name: schema_versions
-- takes: int
-- All stored versions that refer to a schema, of removed tools as well.  Index tool_schema_by, primary keys.
SELECT t.name, v.version FROM tool_schema AS s JOIN tool_version AS v ON v.id = s.version_id
JOIN tool AS t ON t.id = v.tool_id WHERE s.schema_id = ?1 ORDER BY t.name, v.version;

-- name: schema_users
-- takes: int
-- Schemas in force that refer to one.  Index schema_schema_by, primary key.
SELECT f.uri FROM schema_schema AS r JOIN shared_schema AS f ON f.id = r.from_id
WHERE r.to_id = ?1 AND f.state = 1 ORDER BY f.uri;

-- name: schema_refs
-- takes: int
-- schema show: what one refers to.  Primary key.
SELECT t.uri FROM schema_schema AS r JOIN shared_schema AS t ON t.id = r.to_id WHERE r.from_id = ?1 ORDER BY t.uri;

-- name: schema_drop_refs
-- takes: int
-- schema add and remove.  Primary key.
DELETE FROM schema_schema WHERE from_id = ?1;

-- name: schema_add_ref
-- takes: int text blob
-- schema add: by the other's name and digest, so that what was checked is what is there.  UNIQUE(uri).
INSERT INTO schema_schema(from_id, to_id) SELECT ?1, id FROM shared_schema WHERE uri = ?2 AND digest = ?3 AND state = 1;

-- name: schema_add_tool
-- takes: int text blob
-- tool add: likewise.  UNIQUE(uri).
INSERT INTO tool_schema(version_id, schema_id) SELECT ?1, id FROM shared_schema WHERE uri = ?2 AND digest = ?3 AND state = 1;

-- name: schema_written
-- takes: int
-- apply --prune, export: the catalogue; ?1 = what the tools granted to this tenant refer to, 0 = all.  Walk of the
-- index on uri; tool_schema_by, UNIQUE(tenant_id, glob).
SELECT s.uri, s.definition FROM shared_schema AS s WHERE s.state = 1 AND (?1 = 0 OR EXISTS (
SELECT 1 FROM tool_schema AS u JOIN tool_version AS v ON v.id = u.version_id
JOIN tool AS t ON t.id = v.tool_id AND t.version = v.version JOIN tool_grant AS g ON t.name GLOB g.glob
WHERE u.schema_id = s.id AND g.tenant_id = ?1 AND t.state <> 3)) ORDER BY s.uri;
