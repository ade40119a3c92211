-- name: step_0025_chapter
-- What blocks of a log come to, so that reports need not read them (SCALE D2; include/block/zone.h).

-- chap: a chapter is 64 blocks of a log, one behind the other: records first to first + cnt - 1.  The newest blocks of a log
-- have none yet; chapters of a log join without a gap.  ts_min, ts_max: of the times of their records.  zone: which ids they
-- have of what is asked for.  sums: counts of them by day and by what reports group by.  All of it is derived.
CREATE TABLE chap(
  log INTEGER NOT NULL REFERENCES log(id),
  first INTEGER NOT NULL,
  cnt INTEGER NOT NULL,
  ts_min INTEGER NOT NULL,
  ts_max INTEGER NOT NULL,
  zone BLOB NOT NULL,
  sums BLOB NOT NULL,
  PRIMARY KEY(log, first)
) STRICT;
