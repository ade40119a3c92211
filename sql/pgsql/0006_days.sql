-- name: pgsql_step_0006_days
-- The twin of 0046_days.sql, which makes nothing here: there are no blocks (decision 0159).
SET LOCAL search_path = toolcrib, pg_temp;
