-- name: pgsql_step_0003_book
-- The twin of 0043_book.sql, which makes nothing here: there are no blocks (decision 0159).
SET LOCAL search_path = toolcrib, pg_temp;
