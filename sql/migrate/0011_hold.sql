-- name: step_0011_hold
-- hold: what neither prune nor erase may touch (AUDIT A-908).  Of a log: records from_idx <= idx < to_idx, or those of the
-- principal with the pseudonym prn, or all when both are NULL.  set_by, released_by = idx of the records 1901 and 1902.
CREATE TABLE hold(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  log INTEGER NOT NULL REFERENCES log(id),
  from_idx INTEGER,
  to_idx INTEGER,
  prn TEXT,
  set_by INTEGER NOT NULL,
  released_by INTEGER
) STRICT;
