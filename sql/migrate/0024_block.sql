-- name: step_0024_block
-- Records in another form than rows: thousands of one log as one block (SCALE 4, 5; include/block/block.h).

-- A record has one form that counts: below the end of its log's newest block (first + cnt of the row of blk with the
-- greatest first) it is in a block, else it is a row of rec.  Rows of rec below that line are leftovers that wait for
-- deletion; who reads passes over them (SC-101).  Blocks of a log join without a gap.

-- blk: records first to first + cnt - 1 of a log.  fmt: 1.  ts_min, ts_max: of their times.  cols, hash: what can be
-- deflated of them, by columns, and what cannot.  zone: which ids they have of what is asked for, before what is large, so
-- that who leaves a block out does not read it; ts_min, ts_max and zone are derived.
CREATE TABLE blk(
  log INTEGER NOT NULL REFERENCES log(id),
  first INTEGER NOT NULL,
  cnt INTEGER NOT NULL,
  fmt INTEGER NOT NULL,
  ts_min INTEGER NOT NULL,
  ts_max INTEGER NOT NULL,
  zone BLOB NOT NULL,
  cols BLOB NOT NULL,
  hash BLOB NOT NULL,
  PRIMARY KEY(log, first)
) STRICT;
CREATE INDEX blk_ts ON blk(log, ts_min, ts_max);

-- blkpay: what is kept beside records in blocks, so that it can be erased: salts, nonces, ciphertexts of at most 256
-- records of one block, from first on.  A record that is in no group has nothing kept; body says of how many a group is.
CREATE TABLE blkpay(
  log INTEGER NOT NULL REFERENCES log(id),
  first INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY(log, first)
) STRICT;

-- open_call: records call.begin in blocks whose end has not come.  idx, call: as in the record (SC-307).
CREATE TABLE open_call(
  log INTEGER NOT NULL REFERENCES log(id),
  idx INTEGER NOT NULL,
  call BLOB NOT NULL,
  PRIMARY KEY(log, idx)
) STRICT;
