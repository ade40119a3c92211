-- name: step_0043_book
-- What chapters of a log come to, so that what is asked of all of it is not a look at each (decision 0141).

-- book: 16 chapters of a log, one behind the other: records first to first + cnt - 1.  The newest chapters have none yet, nor have those
-- that were made anew since.  ts_min, ts_max: of the times of their records.  sums: what they come to, without days.  All of it
-- is derived.
CREATE TABLE book(
  log INTEGER NOT NULL REFERENCES log(id),
  first INTEGER NOT NULL,
  cnt INTEGER NOT NULL,
  ts_min INTEGER NOT NULL,
  ts_max INTEGER NOT NULL,
  sums BLOB NOT NULL,
  PRIMARY KEY(log, first)
) STRICT;
