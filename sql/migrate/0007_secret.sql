-- name: step_0007_secret
-- secret: values that handlers get by name (SEC S-341 to S-345).  value = box of base/aead.h under the key key_id,
-- bound to this row; the current key is meta.secret_key, else the one made from master.key.  actor = who set it last.
-- An id is never given twice, so that an old box fits no new row.
CREATE TABLE secret(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  key_id TEXT NOT NULL,
  value BLOB NOT NULL,
  created_us INTEGER NOT NULL,
  changed_us INTEGER NOT NULL,
  actor TEXT NOT NULL
) STRICT;
