-- name: segment_step_0001_base
-- A sealed file (SCALE 4, 6): records of one log, from one tile's begin to another's end, that nobody changes any more but
-- by erasing.  It verifies alone (contrib/doc/segment-format.md).  Its steps count by themselves and are append-only.

-- info: one row.  origin: of the log.  from_idx, to_idx: records from <= idx < to.  from_peaks, to_peaks: the hashes of the
-- perfect subtrees that the log's first from_idx, and to_idx, records make up, biggest first.  note: a signed checkpoint of the log that
-- covers to_idx, by the key of that epoch.  growth: how the tree grew from to_idx to it (RFC 6962, 2.1.2), 32 bytes for
-- each hash.  release: of the program that made it, for people.
CREATE TABLE info(
  origin TEXT NOT NULL,
  from_idx INTEGER NOT NULL,
  to_idx INTEGER NOT NULL,
  from_peaks BLOB NOT NULL,
  to_peaks BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  note BLOB NOT NULL,
  growth BLOB NOT NULL,
  release TEXT NOT NULL
) STRICT;

-- epoch: the keys from the first epoch to the note's.  cert: of the key before; NULL for the first.
CREATE TABLE epoch(n INTEGER PRIMARY KEY, pk BLOB NOT NULL, cert BLOB) STRICT;

-- blk: as in the store, but ids of texts are those of table text here.
CREATE TABLE blk(
  first INTEGER PRIMARY KEY,
  cnt INTEGER NOT NULL,
  fmt INTEGER NOT NULL,
  ts_min INTEGER NOT NULL,
  ts_max INTEGER NOT NULL,
  cols BLOB NOT NULL,
  hash BLOB NOT NULL,
  zone BLOB NOT NULL
) STRICT;

-- blkpay: as in the store: what is kept beside records of one tile, so that it can be erased.
CREATE TABLE blkpay(first INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;

-- text: what ids of blocks stand for, in the order in which records use them.  kind: tag of the column.
CREATE TABLE text(
  id INTEGER PRIMARY KEY,
  kind INTEGER NOT NULL,
  text TEXT NOT NULL,
  UNIQUE(kind, text)
) STRICT;
