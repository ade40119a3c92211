-- name: step_0015_payload
-- What records commit to: erasable salts and ciphertexts, clear names of pseudonyms, and how much is kept (AUDIT 5, A-220).

-- pay: rec = rec.id.  salt: of the record's commitments.  nonce, ct: the kept values, encrypted; NULL when none is kept.
CREATE TABLE pay(
  rec INTEGER PRIMARY KEY,
  salt BLOB NOT NULL,
  nonce BLOB,
  ct BLOB
) STRICT;

-- alias: who or what a pseudonym of a log is.  kind: 1 principal, 2 on behalf of, 3 address, 4 claimed client.  token:
-- keyed hash of the value, to find it again.  name: the pseudonym, as in dict.  idx: of its record alias.new.  key, nonce,
-- ct: the value, encrypted.
CREATE TABLE alias(
  id INTEGER PRIMARY KEY,
  log INTEGER NOT NULL REFERENCES log(id),
  kind INTEGER NOT NULL,
  token BLOB NOT NULL,
  name TEXT NOT NULL UNIQUE,
  idx INTEGER NOT NULL,
  "key" INTEGER NOT NULL,
  nonce BLOB NOT NULL,
  ct BLOB NOT NULL,
  UNIQUE(log, kind, token)
) STRICT;

-- tenant.audit_level, tool_level.level: 0 metadata, 1 request, 2 request_response.  tenant: NULL = the server's default.
-- tool_level: for one tool of a tenant, by its full name; it wins over the tenant's.
ALTER TABLE tenant ADD COLUMN audit_level INTEGER CHECK(audit_level BETWEEN 0 AND 2);
CREATE TABLE tool_level(
  id INTEGER PRIMARY KEY,
  tenant_id INTEGER NOT NULL REFERENCES tenant(id),
  tool TEXT NOT NULL,
  level INTEGER NOT NULL CHECK(level BETWEEN 0 AND 2),
  UNIQUE(tenant_id, tool)
) STRICT;
