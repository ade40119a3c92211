-- name: step_0010_approval
-- approval: what waits for a second administrator, or has one and waits to be done (AUDIT A-909).  digest = SHA-256 of the
-- action; command = as it was asked, for the one who decides; tenant_id = whose log is concerned, 0 = none but the system's;
-- *_by = "uid 1000".  The row goes when the action is done, denied or too late; records 1910 and 1911 stay.
CREATE TABLE approval(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  digest BLOB NOT NULL UNIQUE,
  command TEXT NOT NULL,
  tenant_id INTEGER NOT NULL,
  asked_by TEXT NOT NULL,
  asked_us INTEGER NOT NULL,
  granted_by TEXT,
  granted_us INTEGER
) STRICT;
