-- name: step_0042_span
-- Rows found by their position through an index that grows at its right end alone (SCALE SC-601, decision 0152).

-- span: of which rows the table rec has some, 4,096 ids each, as id >> 12.  A log's positions ascend with the ids of its rows, so that who
-- walks the spans in order, and in each of them the log's part of rec_order, walks the log; a record dirties a page of the newest
-- span and not one of its log.  More spans than there are rows of do no harm.
CREATE TABLE span(n INTEGER PRIMARY KEY) STRICT;
CREATE UNIQUE INDEX rec_order ON rec(id >> 12, log, idx);
INSERT INTO span(n) SELECT DISTINCT id >> 12 FROM rec UNION SELECT 0;

-- rec_at: rows by position: WHERE log = ? AND idx >= ? ... ORDER BY span, idx.  The plus keeps the comparison to the index's own.
-- rec_tail: the same of the spans that have rows which are in no block yet, which meta.tail_from says.
CREATE VIEW rec_at AS SELECT s.n AS span, r.* FROM span s CROSS JOIN rec r INDEXED BY rec_order ON r.id >> 12 = +s.n;
CREATE VIEW rec_tail AS SELECT s.n AS span, r.* FROM span s CROSS JOIN rec r INDEXED BY rec_order ON r.id >> 12 = +s.n
WHERE s.n >= coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'tail_from'), 0) >> 12;
