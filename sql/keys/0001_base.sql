-- name: keys_step_0001_base
-- keys.db: the keys of payloads, in a file of its own with a shorter backup life than the store's (AUDIT A-503).  Its steps
-- count by themselves and are append-only as well.  Times are microseconds UTC since 1970.  A row stays when its key is
-- destroyed, so that an id is never given twice: box is then NULL and gone_us says when.

-- kek: the key of a tenant (0: of the system log) that wraps the keys below it.  The newest is in force; an older one whose
-- key file was lost stays, for the file may come back.  box = box of base/aead.h under the key
-- file key_id, bound to this row.
CREATE TABLE kek(
  id INTEGER PRIMARY KEY,
  tenant_id INTEGER NOT NULL,
  key_id TEXT NOT NULL,
  box BLOB,
  created_us INTEGER NOT NULL,
  gone_us INTEGER
) STRICT;
CREATE INDEX kek_live ON kek(tenant_id) WHERE gone_us IS NULL;

-- dek: the key of one subject's payloads of one month; its id is rec.key.  subject = a pseudonym, '' = nobody in
-- particular.  month = 202607.  box = box under the kek, bound to this row.
CREATE TABLE dek(
  id INTEGER PRIMARY KEY,
  kek_id INTEGER NOT NULL REFERENCES kek(id),
  subject TEXT NOT NULL,
  month INTEGER NOT NULL,
  box BLOB,
  created_us INTEGER NOT NULL,
  gone_us INTEGER
) STRICT;
CREATE UNIQUE INDEX dek_live ON dek(kek_id, subject, month) WHERE gone_us IS NULL;
