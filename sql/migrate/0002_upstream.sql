-- name: step_0002_upstream
-- MCP servers whose tools are hosted.

-- upstream: state 1 enabled, 2 disabled, 3 removed (the row stays, its name is freed by a suffix).
-- definition = the document of kind upstream as JSON text, with references to secrets, never values; digest = SHA-256
-- of its canonical form.  prefix stands in front of the names of its tools.  revision and server: what it spoke and
-- called itself at the last sync, '' = never.  synced_us: NULL = never.
CREATE TABLE upstream(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  state INTEGER NOT NULL,
  definition TEXT NOT NULL,
  digest BLOB NOT NULL,
  prefix TEXT NOT NULL,
  revision TEXT NOT NULL,
  server TEXT NOT NULL,
  synced_us INTEGER,
  created_us INTEGER NOT NULL
) STRICT;

-- upstream_tool: a tool that an upstream listed.  remote = its name there.  state 1 in force, 2 changed there,
-- 3 gone there, 4 new: not accepted yet, 5 cannot be a tool here.  tool_id: NULL = never accepted.  pinned = SHA-256
-- of the tool object that was accepted, NULL = none; seen = of the one last listed; pending = its JSON text while it
-- waits to be accepted.  held 1 = the drift has disabled our tool.  note = why it cannot be a tool here, '' = it can.
CREATE TABLE upstream_tool(
  id INTEGER PRIMARY KEY,
  upstream_id INTEGER NOT NULL REFERENCES upstream(id),
  remote TEXT NOT NULL,
  state INTEGER NOT NULL,
  tool_id INTEGER REFERENCES tool(id),
  pinned BLOB,
  seen BLOB,
  pending TEXT,
  held INTEGER NOT NULL,
  note TEXT NOT NULL,
  UNIQUE(upstream_id, remote)
) STRICT;
CREATE INDEX upstream_tool_tool ON upstream_tool(tool_id);
