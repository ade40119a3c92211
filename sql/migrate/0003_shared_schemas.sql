-- name: step_0003_shared_schemas
-- Schemas that definitions share by $ref, and who refers to them.

-- shared_schema: uri = its $id.  state 1 in the catalogue, 3 removed: the text stays as long as a stored version of a
-- tool refers to it, for records name that version.  digest = SHA-256 of the canonical schema; definition = the schema
-- as JSON text; actor = who stored it.
CREATE TABLE shared_schema(
  id INTEGER PRIMARY KEY,
  uri TEXT NOT NULL UNIQUE,
  state INTEGER NOT NULL,
  digest BLOB NOT NULL,
  definition TEXT NOT NULL,
  actor TEXT NOT NULL,
  created_us INTEGER NOT NULL
) STRICT;

-- tool_schema: this version of a tool refers to this schema, directly or through others.
CREATE TABLE tool_schema(
  version_id INTEGER NOT NULL REFERENCES tool_version(id),
  schema_id INTEGER NOT NULL REFERENCES shared_schema(id),
  PRIMARY KEY(version_id, schema_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tool_schema_by ON tool_schema(schema_id);

-- schema_schema: this schema (from_id) refers to that one (to_id), directly or through others.
CREATE TABLE schema_schema(
  from_id INTEGER NOT NULL REFERENCES shared_schema(id),
  to_id INTEGER NOT NULL REFERENCES shared_schema(id),
  PRIMARY KEY(from_id, to_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX schema_schema_by ON schema_schema(to_id);
