-- name: pgsql_step_0005_zone
-- The twin of 0045_zone.sql, which makes nothing here: there are no blocks (decision 0159).
SET LOCAL search_path = toolcrib, pg_temp;
