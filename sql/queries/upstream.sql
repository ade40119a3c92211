-- Statements on upstream and upstream_tool.  Each names its caller and its index.

-- name: upstream_all
-- upstreams_load, and the candidates of "did you mean".  Walk of the index on name.
SELECT id, name, state, definition FROM upstream WHERE state <> 3 ORDER BY name;

-- name: upstream_find
-- takes: text
-- upstream show, set, sync, accept, remove.  UNIQUE(name).
SELECT id, name, state, digest, prefix, revision, server, synced_us, created_us, definition FROM upstream
WHERE name = ?1 AND state <> 3;

-- name: upstream_insert
-- takes: text text blob text int
-- upstream add.
INSERT INTO upstream(name, state, definition, digest, prefix, revision, server, created_us)
VALUES (?1, 1, ?2, ?3, ?4, '', '', ?5);

-- name: upstream_set
-- takes: int int text blob text
-- upstream add of a changed document, upstream set.  Primary key.
UPDATE upstream SET state = ?2, definition = ?3, digest = ?4, prefix = ?5 WHERE id = ?1;

-- name: upstream_remove
-- takes: int
-- upstream remove: the row stays for its records, the name is free again.  Primary key.
UPDATE upstream SET state = 3, name = substr(name, 1, 40) || '~' || id WHERE id = ?1;

-- name: upstream_list
-- upstream list.  Walk of the index on name; UNIQUE(upstream_id, remote).
SELECT u.id, u.name, u.state, u.definition, u.revision, u.synced_us,
       (SELECT count(*) FROM upstream_tool WHERE upstream_id = u.id AND tool_id IS NOT NULL AND remote NOT GLOB 'prompt:*'
        AND remote NOT GLOB 'resource:*' AND remote NOT GLOB 'template:*'),
       (SELECT count(*) FROM upstream_tool WHERE upstream_id = u.id AND state <> 1),
       (SELECT count(*) FROM upstream_tool WHERE upstream_id = u.id AND tool_id IS NOT NULL AND remote GLOB 'prompt:*'),
       (SELECT count(*) FROM upstream_tool WHERE upstream_id = u.id AND tool_id IS NOT NULL
        AND (remote GLOB 'resource:*' OR remote GLOB 'template:*'))
FROM upstream u WHERE u.state <> 3 ORDER BY u.name;

-- name: upstream_tools
-- takes: int
-- upstream show, sync, accept, remove.  UNIQUE(upstream_id, remote); the tools' primary key.
SELECT r.id, r.remote, r.state, r.tool_id, r.pinned, r.seen, r.held, r.note, t.name, t.state, t.version
FROM upstream_tool r LEFT JOIN tool t ON t.id = r.tool_id WHERE r.upstream_id = ?1 ORDER BY r.remote;

-- name: upstream_forget_tools
-- takes: int
-- upstream remove.  UNIQUE(upstream_id, remote).
DELETE FROM upstream_tool WHERE upstream_id = ?1;

-- name: upstream_synced
-- takes: int text text int
-- upstream sync.  Primary key.
UPDATE upstream SET revision = ?2, server = ?3, synced_us = ?4 WHERE id = ?1;

-- name: upstream_tool_insert
-- takes: int text blob text
-- upstream sync: a tool that was not there before.
INSERT INTO upstream_tool(upstream_id, remote, state, seen, pending, held, note) VALUES (?1, ?2, 4, ?3, ?4, 0, '')
RETURNING id;

-- name: upstream_tool_pending
-- takes: int int blob text int text
-- upstream sync: what waits to be accepted, or that nothing does.  Primary key.
UPDATE upstream_tool SET state = ?2, seen = ?3, pending = ?4, held = ?5, note = ?6 WHERE id = ?1;

-- name: upstream_tool_pin
-- takes: int int blob
-- upstream sync, accept: this is what is called from now on.  Primary key.
UPDATE upstream_tool SET state = 1, tool_id = ?2, pinned = ?3, seen = ?3, pending = NULL, held = 0, note = '' WHERE id = ?1;

-- name: upstream_tool_text
-- takes: int
-- upstream accept: the tool that waits.  Primary key.
SELECT pending FROM upstream_tool WHERE id = ?1;

-- name: upstream_tool_delete
-- takes: int
-- upstream accept of one that is gone, upstream sync of one that was never accepted and is gone.  Primary key.
DELETE FROM upstream_tool WHERE id = ?1;

-- name: upstream_uri_owner
-- takes: text text
-- upstream sync, accept: who else has this URI?  Walk of tool, UNIQUE(tool_id, version) of tool_version.
SELECT t.name FROM tool AS t JOIN tool_version AS v ON v.tool_id = t.id AND v.version = t.version
WHERE v.uri = ?1 AND t.name <> ?2 AND t.state <> 3 LIMIT 1;

-- name: upstream_tool_owner
-- takes: int
-- upstream sync, accept: whose tool is it?  Index upstream_tool_tool.
SELECT id FROM upstream_tool WHERE tool_id = ?1;
