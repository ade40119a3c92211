-- name: step_0019_limit
-- Limits beside those of tenants, tools and grants, and what was used of the quotas (SEC S-801, S-806, S-840).

-- limit_row: what one tenant, principal, key or tool of a tenant may do; 0 = no limit of its own.
-- scope 1 tenant, 2 principal, 3 key, 4 tool; subject: 0, or the id of the principal, credential or tool.
-- concurrency, rate_*: calls running, calls per time; of a tenant they stand in its own row and are 0 here.  queue: calls that
-- wait.  requests_*: all messages by their cost.  calls_day, bytes_day: of a day of UTC.
CREATE TABLE limit_row(
  id INTEGER PRIMARY KEY,
  tenant_id INTEGER NOT NULL REFERENCES tenant(id),
  scope INTEGER NOT NULL,
  subject INTEGER NOT NULL,
  concurrency INTEGER NOT NULL,
  queue INTEGER NOT NULL,
  rate_count INTEGER NOT NULL,
  rate_per_s INTEGER NOT NULL,
  requests_count INTEGER NOT NULL,
  requests_per_s INTEGER NOT NULL,
  calls_day INTEGER NOT NULL,
  bytes_day INTEGER NOT NULL,
  rec_log INTEGER,
  rec_idx INTEGER,
  UNIQUE(tenant_id, scope, subject)
) STRICT;
CREATE INDEX limit_row_unvouched ON limit_row(id) WHERE coalesce(rec_idx, -1) < 0;
CREATE TRIGGER limit_row_touched AFTER UPDATE OF tenant_id, scope, subject, concurrency, queue, rate_count, rate_per_s, requests_count,
  requests_per_s, calls_day, bytes_day ON limit_row WHEN NEW.rec_idx >= 0
BEGIN UPDATE limit_row SET rec_idx = -1 - rec_idx WHERE id = NEW.id; END;
CREATE TRIGGER limit_row_gone AFTER DELETE ON limit_row
BEGIN INSERT OR REPLACE INTO row_gone(kind, id, rec_log, rec_idx) VALUES(9, OLD.id, OLD.rec_log, OLD.rec_idx); END;

-- usage_day: calls, and bytes of arguments and results, of the last day on which there were any; day since 1970.
CREATE TABLE usage_day(
  tenant_id INTEGER NOT NULL REFERENCES tenant(id),
  scope INTEGER NOT NULL,
  subject INTEGER NOT NULL,
  day INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY(tenant_id, scope, subject)
) STRICT, WITHOUT ROWID;
