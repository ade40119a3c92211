-- name: keys_step_0002_erased
-- erased: what has been erased, so that it goes again when the store is put back from an older copy while this file stays
-- (AUDIT A-515).  origin of the log, idx and leaf of the record of the erase, and its ext, which says what it was about.
CREATE TABLE erased(
  id INTEGER PRIMARY KEY,
  origin TEXT NOT NULL,
  idx INTEGER NOT NULL,
  leaf BLOB NOT NULL,
  ext BLOB NOT NULL,
  UNIQUE(origin, idx, leaf)
) STRICT;
