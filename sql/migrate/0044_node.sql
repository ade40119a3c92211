-- name: step_0044_node
-- The twin of pgsql/0004_node.sql, which makes nothing here: nobody shares a store in files (decision 0171).
SELECT 0;
