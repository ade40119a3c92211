-- name: step_0017_pending_version
-- pending_version: a version of a definition that nobody sees before a second administrator agrees.  version = the one that
-- waits; where it is the tool's own version too, none was ever in force.  state = what the tool becomes then, as tool.state;
-- actor = who made it, "uid 1000".  The row goes when it is decided; the version stays in tool_version.
CREATE TABLE pending_version(
  tool_id INTEGER PRIMARY KEY REFERENCES tool(id),
  version INTEGER NOT NULL,
  state INTEGER NOT NULL,
  actor TEXT NOT NULL,
  created_us INTEGER NOT NULL
) STRICT;
