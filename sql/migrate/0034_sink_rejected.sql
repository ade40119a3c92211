-- name: step_0034_sink_rejected
-- What a sink did not want (OP-305): n of the records from_idx <= idx < to_idx of a log, given up at at_us since the receiver
-- said so (why).  A row goes when an administrator says that it is settled, or has records sent again.
CREATE TABLE sink_rejected(
  sink TEXT NOT NULL REFERENCES sink(name),
  log INTEGER NOT NULL REFERENCES log(id),
  from_idx INTEGER NOT NULL,
  to_idx INTEGER NOT NULL,
  n INTEGER NOT NULL,
  at_us INTEGER NOT NULL,
  why TEXT NOT NULL,
  PRIMARY KEY(sink, log, from_idx, to_idx)
) STRICT, WITHOUT ROWID;
