-- Statements on secret.  Each names its caller and its index.

-- name: secret_all
-- vault_open: every box.  Walk of the table.
SELECT id, name, key_id, value FROM secret ORDER BY id;

-- name: secret_list
-- admin: secret list.  UNIQUE(name).
SELECT name, key_id, created_us, changed_us, actor FROM secret ORDER BY name;

-- name: secret_find
-- takes: text
-- vault_set, vault_remove, admin: is it set?  UNIQUE(name).
SELECT id FROM secret WHERE name = ?1;

-- name: secret_count
-- vault_set.  Walk of an index; there are few.
SELECT count(*) FROM secret;

-- name: secret_insert
-- takes: text text int text
-- vault_set: the row, whose id its box needs.
INSERT INTO secret(name, key_id, value, created_us, changed_us, actor) VALUES (?1, ?2, x'', ?3, ?3, ?4)
RETURNING id;

-- name: secret_set_value
-- takes: int text blob int text
-- vault_set.  Primary key.
UPDATE secret SET key_id = ?2, value = ?3, changed_us = ?4, actor = ?5 WHERE id = ?1;

-- name: secret_delete
-- takes: int
-- vault_remove.  Primary key.
DELETE FROM secret WHERE id = ?1;

-- name: secret_stale
-- takes: text int
-- vault_rekey: boxes under other keys than the current one.  Walk of the table; there are few.
SELECT id, name, key_id, value FROM secret WHERE key_id <> ?1 ORDER BY id LIMIT ?2;

-- name: secret_count_stale
-- takes: text
-- vault_rekey.  Walk of the table.
SELECT count(*) FROM secret WHERE key_id <> ?1;

-- name: secret_rewrite
-- takes: int text blob
-- vault_rekey.  Primary key.
UPDATE secret SET key_id = ?2, value = ?3 WHERE id = ?1;

-- name: secret_tools
-- admin: which tools and upstreams name secrets?  Disabled ones too.  Walks of tool and upstream, UNIQUE(tool_id, version).
SELECT t.name, t.state, v.definition
FROM tool AS t JOIN tool_version AS v ON v.tool_id = t.id AND v.version = t.version
WHERE t.state <> 3 AND instr(v.definition, '{secret:') > 0
UNION ALL
SELECT 'upstream/' || name, state, definition FROM upstream WHERE state <> 3 AND instr(definition, '{secret:') > 0
ORDER BY 1;
