-- Statements on pending_version.  Each names its caller and its index.

-- name: pending_find
-- takes: int
-- tool add, enable, approve, reject: what waits of this tool.  Primary key, UNIQUE(tool_id, version).
SELECT p.version, p.state, p.actor, p.created_us, v.digest FROM pending_version p
JOIN tool_version v ON v.tool_id = p.tool_id AND v.version = p.version WHERE p.tool_id = ?1;

-- name: pending_set
-- takes: int int int text int
-- tool add: in the place of what waited before.  Primary key.
INSERT INTO pending_version(tool_id, version, state, actor, created_us) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT(tool_id) DO UPDATE SET version = ?2, state = ?3, actor = ?4, created_us = ?5;

-- name: pending_delete
-- takes: int
-- tool approve, reject, remove, and tool add where nothing waits any more.  Primary key.
DELETE FROM pending_version WHERE tool_id = ?1;

-- name: pending_list
-- tool pending.  There are few; UNIQUE(tool_id, version).
SELECT t.name, p.version, t.version, p.actor, p.created_us, v.digest FROM pending_version p JOIN tool t ON t.id = p.tool_id
JOIN tool_version v ON v.tool_id = p.tool_id AND v.version = p.version ORDER BY t.name;

-- name: pending_drift
-- tool drift: what waits here, and what is not as it was accepted there.  Few wait; walk of upstream_tool.
SELECT t.name, 'waits', 'version ' || p.version || ' of ' || p.actor, '' FROM pending_version p JOIN tool t ON t.id = p.tool_id
UNION ALL
SELECT coalesce(t.name, ut.remote), CASE ut.state WHEN 2 THEN 'changed' WHEN 3 THEN 'gone' WHEN 4 THEN 'new' ELSE 'refused' END,
       'upstream ' || u.name, ut.note
FROM upstream_tool ut JOIN upstream u ON u.id = ut.upstream_id LEFT JOIN tool t ON t.id = ut.tool_id
WHERE ut.state <> 1 AND u.state <> 3 ORDER BY 1, 2;
