-- name: pgsql_step_0002_span
-- The twin of 0042_span.sql, which makes nothing here: a record's position is the key of its row (decision 0152).
SET LOCAL search_path = toolcrib, pg_temp;
