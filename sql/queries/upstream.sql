-- Statements on upstream and upstream_tool.  Each names its caller and its index.

-- name: upstream_all
-- upstreams_load, and the candidates of "did you mean".  Walk of the index on name.
SELECT id, name, state, definition FROM upstream WHERE state <> 3 ORDER BY name;

-- name: upstream_find
-- upstream show, set, sync, accept, remove.  UNIQUE(name).
SELECT id, name, state, digest, prefix, revision, server, synced_us, created_us, definition FROM upstream
WHERE name = ?1 AND state <> 3;

-- name: upstream_insert
-- upstream add.
INSERT INTO upstream(name, state, definition, digest, prefix, revision, server, created_us)
VALUES (?1, 1, ?2, ?3, ?4, '', '', ?5);

-- name: upstream_set
-- upstream add of a changed document, upstream set.  Primary key.
UPDATE upstream SET state = ?2, definition = ?3, digest = ?4, prefix = ?5 WHERE id = ?1;

-- name: upstream_remove
-- upstream remove: the row stays for its records, the name is free again.  Primary key.
UPDATE upstream SET state = 3, name = substr(name, 1, 40) || '~' || id WHERE id = ?1;

-- name: upstream_list
-- upstream list.  Walk of the index on name; UNIQUE(upstream_id, remote).
SELECT u.id, u.name, u.state, u.definition, u.revision, u.synced_us,
       (SELECT count(*) FROM upstream_tool WHERE upstream_id = u.id AND tool_id IS NOT NULL),
       (SELECT count(*) FROM upstream_tool WHERE upstream_id = u.id AND state <> 1)
FROM upstream u WHERE u.state <> 3 ORDER BY u.name;

-- name: upstream_tools
-- upstream show, sync, accept, remove.  UNIQUE(upstream_id, remote); the tools' primary key.
SELECT r.id, r.remote, r.state, r.tool_id, r.pinned, r.seen, r.held, r.note, t.name, t.state, t.version
FROM upstream_tool r LEFT JOIN tool t ON t.id = r.tool_id WHERE r.upstream_id = ?1 ORDER BY r.remote;

-- name: upstream_forget_tools
-- upstream remove.  UNIQUE(upstream_id, remote).
DELETE FROM upstream_tool WHERE upstream_id = ?1;
