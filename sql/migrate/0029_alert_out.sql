-- name: step_0029_alert_out
-- Who was told of which alert (alert/alert.h; OP-604).

-- alert_out: one row for an alert that a way out of the configuration is to be told of, until it was told that it is over.
-- way: its name there.  alert: its id.  severity: as it was told, 0 info, 1 warn, 2 page; -1: it was not.  told_us: when, the
-- last time; 0: never.
CREATE TABLE alert_out(
  way TEXT NOT NULL,
  alert INTEGER NOT NULL,
  severity INTEGER NOT NULL,
  told_us INTEGER NOT NULL,
  PRIMARY KEY(way, alert)
) STRICT, WITHOUT ROWID;
