-- name: step_0012_checkpoint
-- Signed checkpoints (AUDIT A-703, A-706, A-731): what a log was at a time, by keys that the store does not have.

-- n: number of the epoch, from 0.  pk: its public Ed25519 key.  cert: the signature of the key of n - 1 over "epoch", n and
-- pk; NULL for 0, whose key is pinned outside.  from_ts: when it began, in microseconds.
CREATE TABLE epoch(n INTEGER PRIMARY KEY, pk BLOB NOT NULL, cert BLOB, from_ts INTEGER NOT NULL) STRICT;

-- log: whose.  size: how many records it covers.  epoch: whose key signed it, beside the log's.  ts: when, in microseconds,
-- not signed; only which notes are kept depends on it.  note: the signed note.  frontier: the hashes of the perfect
-- subtrees at that size, biggest first, from which its root follows: from there a start reads on.
CREATE TABLE cp(log INTEGER NOT NULL, size INTEGER NOT NULL, epoch INTEGER NOT NULL, ts INTEGER NOT NULL, note BLOB NOT NULL,
  frontier BLOB NOT NULL, PRIMARY KEY(log, size)) STRICT;

-- A checkpoint of the system log that was taken outside.  kind: 1 a file, 2 a command.  size: of that checkpoint.  note:
-- what was handed over.  receipt: what came back.  ts: when, in microseconds.
CREATE TABLE anchor(id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, size INTEGER NOT NULL, note BLOB NOT NULL, receipt BLOB,
  ts INTEGER NOT NULL) STRICT;
