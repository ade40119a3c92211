-- name: step_0030_baseline
-- What is usual of whom, by the records of calls (OP-602): for alerts alone, no report reads it.

-- baseline: one row for a principal and an hour in which it called, kept for 30 days.  prn: its pseudonym.  hour: of the
-- wall clock, in UTC, since 1970.  n: calls that began; denied: calls that were refused.
CREATE TABLE baseline(
  tenant_id INTEGER NOT NULL,
  prn TEXT NOT NULL,
  hour INTEGER NOT NULL,
  n INTEGER NOT NULL,
  denied INTEGER NOT NULL,
  PRIMARY KEY(tenant_id, prn, hour)
) STRICT, WITHOUT ROWID;
CREATE INDEX baseline_hour ON baseline(hour, tenant_id, prn);

-- baseline_tool: one row for a principal and a tool that it has called.  first_us: when, the first time that was seen.
CREATE TABLE baseline_tool(
  tenant_id INTEGER NOT NULL,
  prn TEXT NOT NULL,
  tool TEXT NOT NULL,
  first_us INTEGER NOT NULL,
  PRIMARY KEY(tenant_id, prn, tool)
) STRICT, WITHOUT ROWID;
