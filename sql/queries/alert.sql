-- Statements on alerts (alert/alert.h).  tenant_id 0: of the whole server.

-- name: alert_insert
-- takes: text text int int int int int text int int
-- write_open().
INSERT INTO alert(rule, subject, tenant_id, severity, state, first_us, last_us, count, text, value, usual)
VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, ?7, ?8, ?9, ?10) RETURNING id;

-- name: alert_count
-- takes: int int int int int text int int
-- write_change().  Primary key.
UPDATE alert SET severity = ?3, last_us = ?4, count = ?5, text = ?6, value = ?7, usual = ?8
WHERE id = ?1 AND tenant_id = ?2 AND state < 2;

-- name: alert_again
-- takes: int int int int int text int int
-- write_change(): worse than what somebody acknowledged.  Primary key.
UPDATE alert SET severity = ?3, last_us = ?4, count = ?5, text = ?6, value = ?7, usual = ?8, state = 0, acked_us = NULL,
  acked_by = NULL, note = NULL WHERE id = ?1 AND tenant_id = ?2 AND state < 2;

-- name: alert_end
-- takes: int int int int int
-- write_over().  Primary key.
UPDATE alert SET last_us = ?3, count = ?4, over_us = ?5, state = 2 WHERE id = ?1 AND tenant_id = ?2 AND state < 2;

-- any tenant: so many stay of all.
-- name: alert_forget
-- takes: int
-- forget(): those that are over, but the newest.  Primary key.
DELETE FROM alert WHERE id <= (SELECT max(id) FROM alert) - ?1 AND state = 2;

-- any tenant: the server's own picture of them.
-- name: alert_load
-- load(): what is open.  Index alert_open.
SELECT id, rule, subject, tenant_id, severity, state, first_us, last_us, count, text, value, usual FROM alert WHERE state < 2;

-- name: alert_list
-- takes: int int int int
-- alerts list: of one tenant or of all (?1 NULL), open ones or all.  Walk of the table, at most ALERT_KEPT and what is open.
SELECT a.id, a.rule, a.subject, t.name, a.severity, a.state, a.first_us, a.last_us, a.count, a.text, a.value, a.usual,
  a.over_us, a.acked_us, a.acked_by, a.note
FROM alert a LEFT JOIN tenant t ON t.id = a.tenant_id
WHERE (?1 IS NULL OR a.tenant_id = ?1) AND (?2 <> 0 OR a.state < 2) AND (?3 IS NULL OR a.id = ?3)
ORDER BY a.state = 2, a.severity DESC, a.id DESC LIMIT ?4;

-- name: alert_get
-- takes: int int
-- alerts ack, of one tenant or of any (?2 NULL).  Primary key.
SELECT tenant_id, rule, subject, state FROM alert WHERE id = ?1 AND (?2 IS NULL OR tenant_id = ?2);

-- name: alert_ack
-- takes: int int int int text text
-- alerts ack.  Primary key.
UPDATE alert SET state = ?3, acked_us = ?4, acked_by = ?5, note = ?6, over_us = CASE WHEN ?3 = 2 THEN ?4 END
WHERE id = ?1 AND tenant_id = ?2 AND state = 0;

-- any tenant: a count of the store.
-- name: alert_counts
-- alerts_describe(): what nobody has acknowledged.  Index alert_open.
SELECT severity, count(*) FROM alert WHERE state = 0 GROUP BY severity;

-- any tenant: rules are of the server.
-- name: alert_silences
-- load(), alerts rules.  Walk of the table: a row for each rule at most.
SELECT rule, until_us, set_by, note FROM alert_silence;

-- any tenant: as alert_silences.
-- name: alert_silence
-- takes: text int text text
-- alerts silence.  Primary key.
INSERT INTO alert_silence(rule, until_us, set_by, note) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT(rule) DO UPDATE SET until_us = ?2, set_by = ?3, note = ?4;

-- any tenant: a place in the system's log.
-- name: alert_place
-- read_body(): up to where the system's log has been read, and when a verification of the whole store was last asked for.
SELECT idx, verified_us, verified, tested_us, untested_us FROM alert_place WHERE log = 1;

-- name: alert_place_put
-- takes: int int int int int
-- keep_place().
INSERT INTO alert_place(log, idx, verified_us, verified, tested_us, untested_us) VALUES (1, ?1, ?2, ?3, ?4, ?5)
ON CONFLICT(log) DO UPDATE SET idx = ?1, verified_us = ?2, verified = ?3, tested_us = ?4, untested_us = ?5;

-- name: alert_newest
-- read_body(): the first time.  rec_pos.
SELECT idx FROM rec WHERE log = 1 ORDER BY idx DESC LIMIT 1;

-- name: alert_records
-- takes: int int
-- read_body(): a page of the system's log.  rec_pos.
SELECT r.idx, r.kind, r.ts, r.xstat, r.ext, o.text FROM rec r LEFT JOIN dict o ON o.id = r.obj
WHERE r.log = 1 AND r.idx >= ?1 AND r.idx < ?2 ORDER BY r.idx;

-- any tenant: alerts about keys are of each tenant that has such.
-- name: alert_keys
-- takes: int int int
-- read_body(): keys that end between ?1 and ?2, by tenant; the first of each.  Index cred_expiry.
-- only: sqlite
SELECT c.tenant_id, t.name, count(*), min(c.expires_us), c.accessor FROM cred c JOIN tenant t ON t.id = c.tenant_id
WHERE c.expires_us > ?1 AND c.expires_us <= ?2 AND c.revoked_us IS NULL AND c.expired_us IS NULL
GROUP BY c.tenant_id ORDER BY min(c.expires_us) LIMIT ?3;
-- only: pgsql
SELECT c.tenant_id, min(t.name), count(*), min(c.expires_us), (array_agg(c.accessor ORDER BY c.expires_us, c.id))[1]
FROM cred c JOIN tenant t ON t.id = c.tenant_id
WHERE c.expires_us > ?1 AND c.expires_us <= ?2 AND c.revoked_us IS NULL AND c.expired_us IS NULL
GROUP BY c.tenant_id ORDER BY min(c.expires_us) LIMIT ?3;

-- any tenant: secrets belong to the store.
-- name: alert_secrets
-- takes: int
-- read_body(): how many were last set before ?1, and the first of these.  Walk of the table; there are few.
-- only: sqlite
SELECT count(*), min(changed_us), name FROM secret WHERE changed_us <= ?1;
-- only: pgsql
SELECT count(*), min(changed_us), (array_agg(name ORDER BY changed_us))[1] FROM secret WHERE changed_us <= ?1;

-- any tenant: the server's own picture of what its ways out were told.
-- name: alert_out_load
-- alert_ways_open(): what was told and is not over, or is and was not told.  Walk of the table; primary key of alert.
SELECT o.way, o.alert, o.severity, o.told_us, a.rule, a.subject, a.tenant_id, a.severity, a.state, a.first_us, a.last_us,
  a.count, a.text, a.value, a.usual, a.over_us
FROM alert_out o LEFT JOIN alert a ON a.id = o.alert;

-- any tenant: as alert_out_load.
-- name: alert_out_put
-- takes: text int int int
-- put_told().  Primary key.
INSERT INTO alert_out(way, alert, severity, told_us) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT(way, alert) DO UPDATE SET severity = ?3, told_us = ?4;

-- any tenant: as alert_out_load.
-- name: alert_out_forget
-- takes: text int
-- put_told(): it is over, and that was told.  Primary key.
DELETE FROM alert_out WHERE way = ?1 AND alert = ?2;

-- any tenant: all logs, one after the other.
-- name: baseline_log
-- takes: int
-- next_log(): the next log of a tenant, up to where it was read and how far it goes.  Primary keys, rec_pos.
SELECT l.id, t.id, t.name, coalesce(p.idx, -1),
  coalesce((SELECT r.idx FROM rec r WHERE r.log = l.id ORDER BY r.idx DESC LIMIT 1), -1)
FROM log l JOIN tenant t ON t.id = l.tenant_id LEFT JOIN alert_place p ON p.log = l.id
WHERE l.id >= ?1 AND l.id > 1 ORDER BY l.id LIMIT 1;

-- name: baseline_probe
-- takes: int int
-- find_first(): the first record from a position on.  rec_pos.
SELECT r.idx, r.ts FROM rec r WHERE r.log = ?1 AND r.idx >= ?2 ORDER BY r.idx LIMIT 1;

-- name: baseline_page
-- takes: int int int
-- read_page(): what began and what was refused in a part of a log, by principal, tool and hour.  rec_pos.
SELECT p.text, t.text, r.kind, r.ts / 3600000000, count(*), min(r.ts)
FROM rec r JOIN dict p ON p.id = r.prn LEFT JOIN dict t ON t.id = r.tool
WHERE r.log = ?1 AND r.idx >= ?2 AND r.idx < ?3 AND +r.kind IN (1001, 1003) GROUP BY r.prn, r.tool, +r.kind, r.ts / 3600000000
-- only: pgsql
, p.text, t.text, r.kind;

-- name: baseline_sums
-- takes: int int int
-- read_sums(): sums of refusals, which a flood of them is recorded as.  rec_pos.
SELECT p.text, r.ts, r.ext FROM rec r JOIN dict p ON p.id = r.prn
WHERE r.log = ?1 AND r.idx >= ?2 AND r.idx < ?3 AND +r.kind = 1005;

-- name: baseline_pair
-- takes: int text text
-- see_pair(): has it called this tool before?  Primary key.
SELECT first_us FROM baseline_tool WHERE tenant_id = ?1 AND prn = ?2 AND tool = ?3;

-- name: baseline_tools
-- takes: int text
-- see_pair(): since when it is known, and how many tools it has called.  Primary key.
SELECT min(first_us), count(*) FROM baseline_tool WHERE tenant_id = ?1 AND prn = ?2;

-- any tenant: there is one bound.
-- name: baseline_pairs
-- see_pair(): how many there are.  Walk of the table, at most ALERT_PAIRS_MAX.
SELECT count(*) FROM baseline_tool;

-- name: baseline_put
-- takes: int text int int int
-- write_page().  Primary key.
INSERT INTO baseline(tenant_id, prn, hour, n, denied) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT(tenant_id, prn, hour) DO UPDATE SET n = baseline.n + excluded.n,
  denied = baseline.denied + excluded.denied;

-- name: baseline_pair_put
-- takes: int text text int
-- write_page().  Primary key.
INSERT INTO baseline_tool(tenant_id, prn, tool, first_us) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING;

-- any tenant: the log stands for it.
-- name: baseline_place
-- takes: int int
-- write_page(): up to where a log was read.  Primary key.
INSERT INTO alert_place(log, idx, verified_us, verified) VALUES (?1, ?2, 0, 0) ON CONFLICT(log) DO UPDATE SET idx = ?2;

-- any tenant: what is old goes.
-- name: baseline_forget
-- takes: int
-- write_page().  Index baseline_hour.
DELETE FROM baseline WHERE hour < ?1;

-- any tenant: whoever has called lately, behind one.
-- name: baseline_who
-- takes: int int text int
-- compare(): Index baseline_hour.
SELECT b.tenant_id, t.name, b.prn FROM baseline b JOIN tenant t ON t.id = b.tenant_id
WHERE b.hour >= ?1 AND (b.tenant_id > ?2 OR (b.tenant_id = ?2 AND b.prn > ?3))
GROUP BY b.tenant_id, b.prn
-- only: pgsql
, t.name
-- only: all
ORDER BY b.tenant_id, b.prn LIMIT ?4;

-- name: baseline_hours
-- takes: int text int
-- load_hours(): of one principal, from an hour on.  Primary key.
SELECT hour, n, denied FROM baseline WHERE tenant_id = ?1 AND prn = ?2 AND hour >= ?3 ORDER BY hour;
