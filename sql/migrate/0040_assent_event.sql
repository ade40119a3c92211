-- name: step_0040_assent_event
-- What has become of approvals, in the order of its commits, for who watches (HA-07, decision 0133).

-- assent_event: one row for each request, vote and end, as long as the request's row.  seq: position, ascending with the commits, never
-- used again.  what: 1 asked for, 2 granted, 3 refused, 4 lapsed, 5 used, 6 recalled, 7 agreed to by one of several.  who: the person,
-- "" of calls and of the server.  said: the reason.
CREATE TABLE assent_event(
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant_id INTEGER NOT NULL,
  assent_id INTEGER NOT NULL,
  what INTEGER NOT NULL,
  us INTEGER NOT NULL,
  who TEXT NOT NULL,
  said TEXT NOT NULL
) STRICT;
CREATE INDEX assent_event_of ON assent_event(assent_id);

-- What waits, or was granted, when the step is made.
INSERT INTO assent_event(tenant_id, assent_id, what, us, who, said)
SELECT tenant_id, id, 1, asked_us, '', '' FROM assent WHERE state IN (1, 2) ORDER BY id;
