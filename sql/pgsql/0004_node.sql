-- name: pgsql_step_0004_node
-- What an administrator wants of a node (decision 0171).
SET LOCAL search_path = toolcrib, pg_temp;
-- leaves: 1, it shall stop by itself; 2, its row goes as soon as its calls have their end.
ALTER TABLE node ADD COLUMN leaves int2 NOT NULL DEFAULT 0;
GRANT DELETE ON node TO toolcrib;
