-- name: step_0046_days
-- Books say what their days come to (decision 0179): in front of their sums, so that who asks by days reads a page.  Books are derived;
-- what folds makes them anew.
DROP TABLE book;

-- book: 16 chapters of a log, or fewer, one behind the other: records first to first + cnt - 1.  The newest chapters have none yet, nor have
-- those that were made anew since.  ts_min, ts_max: of the times of their records.  days: what they come to by day, half of the day,
-- whether there is a call, kind and outcome.  sums: by all keys, without days.  All of it is derived.
CREATE TABLE book(
  log INTEGER NOT NULL REFERENCES log(id),
  first INTEGER NOT NULL,
  cnt INTEGER NOT NULL,
  ts_min INTEGER NOT NULL,
  ts_max INTEGER NOT NULL,
  days BLOB NOT NULL,
  sums BLOB NOT NULL,
  PRIMARY KEY(log, first)
) STRICT;
