-- name: step_0013_retention
-- log.min_idx: first record that is still there = end of the newest prune (AUDIT A-902); pruned_by = idx of the record 1904
-- that says so, NULL = nothing was pruned.
ALTER TABLE log ADD COLUMN min_idx INTEGER NOT NULL DEFAULT 0;
ALTER TABLE log ADD COLUMN pruned_by INTEGER;

-- tile: C2SP tiles of at most 256 hashes, level 1 and up; level 0 is rec.leaf.  hashes = 32 bytes each.
CREATE TABLE tile(
  log INTEGER NOT NULL REFERENCES log(id),
  level INTEGER NOT NULL,
  n INTEGER NOT NULL,
  hashes BLOB NOT NULL,
  PRIMARY KEY(log, level, n)
) STRICT;

-- retention: how long records of a log are kept (AUDIT A-901): those from from_idx on at least min_days, and as long as they
-- were promised before; max_days = prune takes what is older, NULL = nothing by itself.  The newest row is in force; set_by
-- = idx of its record 1903.
CREATE TABLE retention(
  log INTEGER NOT NULL REFERENCES log(id),
  set_by INTEGER NOT NULL,
  from_idx INTEGER NOT NULL,
  min_days INTEGER NOT NULL,
  max_days INTEGER,
  PRIMARY KEY(log, set_by)
) STRICT;

-- deed: an intent, record idx of kind 1904 or 1906, that has not been driven to its end (AUDIT A-305).
CREATE TABLE deed(
  log INTEGER NOT NULL REFERENCES log(id),
  idx INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  PRIMARY KEY(log, idx)
) STRICT;
