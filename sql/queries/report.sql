-- Statements of the reports (toolcrib audit ...).  Their columns are the reports': names, order and values are what
-- json, jsonl and csv say.  A column that begins with _ is for the engine alone.  Parameters have the same place in all:
-- 1 log, 2 and 3 time (from, before), 4 tool, 5 pseudonym, 6 accessor, 7 outcome (-1: any), 8 rows, 9 below which position,
-- 11 a text, 12 a number.  Paged ones are ordered by position, newest first, and give _ts and _idx; of several logs the
-- engine merges them by these.  Those with parameter 10, from which position on, walk that part of the log in its order, and
-- test row by row; the engine asks them for parts in which the probes at the end have found something.  Counts of several
-- logs are added up by the engine: rows.c says by which columns.

-- audit calls: records of ends and refusals, with the begins of calls; texts.c makes texts of them.  rec_pos.
-- name: report_calls
-- takes: int int int text text text int int int int text int row
SELECT row_out(?13, e.idx, e.kind, e.ts, e.call, e.prev, e.trace, e.ext, e.cred, e.prn, e.tool, e.rule, e.obo, e.peer, e.client,
  e.rev, e.tdef, e.pol, e.scope, e.sbox, e.obj, e.boot, e.build, e.actor, e.authn, e.tport, e.clk, e.outcome, e.flags, e.n_req,
  e.n_res, e.n_sto, e.xstat, e.sig, e.dur, e.cpu, e.rss, e.beg, e.sys, e.mdl, b.rule, b.obo, b.peer, b.client, b.rev, b.tdef,
  b.pol, b.scope, b.sbox, b.authn, b.tport, b.n_req, b.sys, b.mdl) AS _row, e.ts AS _ts, e.idx AS _idx
FROM rec e LEFT JOIN rec b ON b.log = e.log AND b.idx = e.beg
WHERE e.log = ?1 AND e.idx < ?9 AND e.idx >= ?10 AND +e.ts >= ?2 AND +e.ts < ?3 AND +e.kind IN (1002, 1003, 1004)
  AND (?5 IS NULL OR +e.prn = (SELECT id FROM dict WHERE kind = 17 AND text = ?5))
  AND (?6 IS NULL OR +e.cred = (SELECT id FROM dict WHERE kind = 16 AND text = ?6))
  AND (?4 IS NULL OR +e.tool = (SELECT id FROM dict WHERE kind = 34 AND text = ?4))
  AND (?7 < 0 OR +e.outcome = ?7)
ORDER BY e.idx DESC LIMIT ?8;

-- audit calls --group-by: the names in ?11, with commas around.  Sums.
-- name: report_calls_grouped
-- takes: int int int text text text int int int int text
SELECT CASE WHEN instr(?11, ',client,') > 0 THEN coalesce((SELECT text FROM dict WHERE id = r.client), 'none') END AS claimed_client,
  CASE WHEN instr(?11, ',obo,') > 0 THEN coalesce((SELECT text FROM dict WHERE id = r.obo), 'none') END AS on_behalf_of,
  CASE WHEN instr(?11, ',tool,') > 0 THEN coalesce((SELECT text FROM dict WHERE id = r.tool), 'none') END AS tool,
  CASE WHEN instr(?11, ',principal,') > 0 THEN coalesce((SELECT coalesce(p.name, d.text) FROM dict d LEFT JOIN principal p ON p.tenant_id = l.tenant_id
    AND p.pseudonym = d.text WHERE d.id = r.prn), 'none') END AS principal,
  CASE WHEN instr(?11, ',key,') > 0 THEN coalesce((SELECT text FROM dict WHERE id = r.cred), 'none') END AS "key",
  CASE WHEN instr(?11, ',outcome,') > 0 THEN CASE r.outcome WHEN 0 THEN 'ok' WHEN 1 THEN 'tool_error' WHEN 2 THEN 'invalid' WHEN 3 THEN 'denied' WHEN 4 THEN 'rate_limited'
    WHEN 5 THEN 'timeout' WHEN 6 THEN 'cancelled' WHEN 7 THEN 'input_required' WHEN 8 THEN 'crashed' WHEN 9 THEN 'aborted'
    WHEN 10 THEN 'overload' WHEN 11 THEN 'unknown' ELSE CAST(r.outcome AS TEXT) END END AS outcome,
  CASE WHEN instr(?11, ',transport,') > 0 THEN CASE r.tport WHEN 1 THEN 'stdio' WHEN 2 THEN 'tcp' WHEN 3 THEN 'unix' WHEN 4 THEN 'http' WHEN 5 THEN 'admin' END END AS transport,
  CASE WHEN instr(?11, ',revision,') > 0 THEN coalesce((SELECT text FROM dict WHERE id = r.rev), 'none') END AS revision,
  CASE WHEN instr(?11, ',day,') > 0 THEN strftime('%Y-%m-%d', r.day * 86400, 'unixepoch') END AS day,
  CASE WHEN instr(?11, ',tenant,') > 0 THEN (SELECT name FROM tenant WHERE id = l.tenant_id) END AS tenant,
  sum(r.n) AS calls, sum(CASE WHEN r.outcome <> 0 THEN r.n WHEN r.outcome = 0 THEN 0 END) AS not_ok, CAST(round(sum(r.dur) / 1000.0 / nullif(sum(r.timed), 0), 3) AS REAL) AS average_ms,
  strftime('%Y-%m-%dT%H:%M:%S', min(r.ts_min) / 1000000, 'unixepoch') || printf('.%06dZ', min(r.ts_min) % 1000000) AS first,
  strftime('%Y-%m-%dT%H:%M:%S', max(r.ts_max) / 1000000, 'unixepoch') || printf('.%06dZ', max(r.ts_max) % 1000000) AS last, sum(r.timed) AS _timed
FROM log l CROSS JOIN rollup r WHERE l.id = ?1 AND r.log = ?1 AND r.since = ?2 AND r.until = ?3
-- only: sqlite
  AND r."by" = ?11 || 'outcome,'
-- only: all
  AND r.kind IN (1002, 1003, 1004) AND r.of_outcome = max(?7, -1)
  AND r.of_prn = CASE WHEN ?5 IS NULL THEN -1 ELSE coalesce((SELECT id FROM dict WHERE kind = 17 AND text = ?5), -2) END
  AND r.of_cred = CASE WHEN ?6 IS NULL THEN -1 ELSE coalesce((SELECT id FROM dict WHERE kind = 16 AND text = ?6), -2) END
  AND r.of_tool = CASE WHEN ?4 IS NULL THEN -1 ELSE coalesce((SELECT id FROM dict WHERE kind = 34 AND text = ?4), -2) END
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 ORDER BY calls DESC, 1, 2, 3, 4, 5, 6, 7 NULLS FIRST, 8, 9, 10 NULLS FIRST LIMIT ?8;

-- audit denied.  rec_pos.
-- name: report_denied
-- takes: int int int text text text int int int int
SELECT time, tool, principal, "key", CASE kind_code WHEN 1005 THEN coalesce(rule, 'summary') ELSE rule END AS rule, outcome,
  transport, authn, revision, address, client, call, detail, ts AS _ts, idx AS _idx
FROM v_records WHERE log_id = ?1 AND idx < ?9 AND idx >= ?10 AND +ts >= ?2 AND +ts < ?3 AND +kind_code IN (1003, 1005)
  AND (+kind_code = 1003 OR (?4 IS NULL AND ?5 IS NULL AND ?7 < 0))
  AND (?5 IS NULL OR +prn_id = (SELECT id FROM dict WHERE kind = 17 AND text = ?5))
  AND (?6 IS NULL OR +cred_id = (SELECT id FROM dict WHERE kind = 16 AND text = ?6))
  AND (?4 IS NULL OR +tool_id = (SELECT id FROM dict WHERE kind = 34 AND text = ?4))
  AND (?7 < 0 OR +outcome_code = ?7)
ORDER BY idx DESC LIMIT ?8;

-- audit denied --by.  Sums.
-- name: report_denied_by
-- takes: int int int text text text int int int int text
SELECT CASE ?11 WHEN 'rule' THEN (SELECT text FROM dict WHERE id = r.rule) WHEN 'tool' THEN (SELECT text FROM dict WHERE id = r.tool)
    WHEN 'principal' THEN (SELECT coalesce(p.name, d.text) FROM dict d LEFT JOIN principal p ON p.tenant_id = l.tenant_id
    AND p.pseudonym = d.text WHERE d.id = r.prn)
    WHEN 'key' THEN (SELECT text FROM dict WHERE id = r.cred) WHEN 'day' THEN strftime('%Y-%m-%d', r.day * 86400, 'unixepoch')
    ELSE CASE r.outcome WHEN 0 THEN 'ok' WHEN 1 THEN 'tool_error' WHEN 2 THEN 'invalid' WHEN 3 THEN 'denied' WHEN 4 THEN 'rate_limited'
    WHEN 5 THEN 'timeout' WHEN 6 THEN 'cancelled' WHEN 7 THEN 'input_required' WHEN 8 THEN 'crashed' WHEN 9 THEN 'aborted'
    WHEN 10 THEN 'overload' WHEN 11 THEN 'unknown' ELSE CAST(r.outcome AS TEXT) END END AS value,
  sum(r.n) AS denied, count(DISTINCT r.prn) AS principals,
  strftime('%Y-%m-%dT%H:%M:%S', min(r.ts_min) / 1000000, 'unixepoch') || printf('.%06dZ', min(r.ts_min) % 1000000) AS first,
  strftime('%Y-%m-%dT%H:%M:%S', max(r.ts_max) / 1000000, 'unixepoch') || printf('.%06dZ', max(r.ts_max) % 1000000) AS last
FROM log l CROSS JOIN rollup r WHERE l.id = ?1 AND r.log = ?1 AND r.since = ?2 AND r.until = ?3
-- only: sqlite
  AND r."by" = ',principal,' || ?11 || ','
-- only: all
  AND r.kind = 1003 AND r.of_outcome = max(?7, -1)
  AND r.of_prn = CASE WHEN ?5 IS NULL THEN -1 ELSE coalesce((SELECT id FROM dict WHERE kind = 17 AND text = ?5), -2) END
  AND r.of_cred = CASE WHEN ?6 IS NULL THEN -1 ELSE coalesce((SELECT id FROM dict WHERE kind = 16 AND text = ?6), -2) END
  AND r.of_tool = CASE WHEN ?4 IS NULL THEN -1 ELSE coalesce((SELECT id FROM dict WHERE kind = 34 AND text = ?4), -2) END
GROUP BY 1 ORDER BY denied DESC, value NULLS FIRST LIMIT ?8;

-- audit auth-failures.  rec_pos.
-- name: report_auth_failures
-- takes: int int int text text text int int int int
SELECT time, tenant, kind, "key", rule, transport, authn, address, client, detail, ts AS _ts, idx AS _idx
FROM v_records WHERE log_id = ?1 AND idx < ?9 AND idx >= ?10 AND +ts >= ?2 AND +ts < ?3 AND +kind_code IN (1101, 1102)
  AND (?6 IS NULL OR (+kind_code = 1101 AND +cred_id = (SELECT id FROM dict WHERE kind = 16 AND text = ?6)))
ORDER BY idx DESC LIMIT ?8;

-- audit auth-failures --by.  rec_kind.
-- name: report_auth_failures_by
-- takes: int int int text text text int int int int text
SELECT CASE ?11 WHEN 'source' THEN coalesce(address, 'unknown') WHEN 'rule' THEN rule WHEN 'key' THEN coalesce("key", 'unknown')
  WHEN 'transport' THEN transport ELSE substr(time, 1, 13) END AS value, tenant,
  count(*) AS failures, min(time) AS first, max(time) AS last
FROM v_auth_failures WHERE log_id = ?1 AND kind_code = 1101 AND ts >= ?2 AND ts < ?3 AND (?6 IS NULL OR +cred_id = (SELECT id FROM dict WHERE kind = 16 AND text = ?6))
GROUP BY 1
-- only: pgsql
, tenant
-- only: all
ORDER BY failures DESC, value NULLS FIRST LIMIT ?8;

-- audit admin.  rec_kind.
-- name: report_admin
-- takes: int int int text text text int int int
SELECT time, idx AS "index", kind, object, principal, "key", actor, detail, before, after, ts AS _ts, idx AS _idx
FROM v_admin WHERE log_id = ?1 AND +ts >= ?2 AND +ts < ?3 AND +idx < ?9
ORDER BY +idx DESC LIMIT ?8;

-- audit access: who read, exported, verified, reviewed.  With ?11, a call, what begins with it: the first of the command's
-- arguments, so that no text of another one counts; but not who asked this question.  rec_kind.
-- name: report_access
-- takes: int int int text text text int int int int text
SELECT time, tenant, kind, actor, transport, detail, ts AS _ts, idx AS _idx
FROM v_reads WHERE log_id = ?1 AND +ts >= ?2 AND +ts < ?3 AND +idx < ?9
  AND (?11 IS NULL OR (substr(detail, instr(detail, '=') - 5, 42) = ' call=' || ?11
    AND substr(detail, instr(detail, ': '), 15) <> ': audit access '))
ORDER BY +idx DESC LIMIT ?8;

-- audit credentials: the life of keys.  rec_kind.
-- name: report_credentials
-- takes: int int int text text text int int int
SELECT time, tenant, kind, "key", principal, object, actor, detail, before, after, ts AS _ts, idx AS _idx
FROM v_keys WHERE log_id = ?1 AND +ts >= ?2 AND +ts < ?3 AND +idx < ?9
ORDER BY +idx DESC LIMIT ?8;

-- audit config: configuration and policies.  rec_kind.
-- name: report_config
-- takes: int int int text text text int int int
SELECT time, tenant, kind, object, detail, before, after, ts AS _ts, idx AS _idx
FROM v_admin WHERE log_id = ?1 AND +ts >= ?2 AND +ts < ?3 AND +idx < ?9 AND kind_code IN (1401, 1402, 1403, 1404, 1604)
ORDER BY +idx DESC LIMIT ?8;

-- audit clock: steps and states of the clock.  rec_kind.
-- name: report_clock
-- takes: int int int text text text int int int
SELECT time, kind, clock, detail, ts AS _ts, idx AS _idx
FROM v_lifecycle WHERE log_id = ?1 AND +ts >= ?2 AND +ts < ?3 AND +idx < ?9 AND kind_code IN (1605, 1606)
ORDER BY +idx DESC LIMIT ?8;

-- audit key-history: keys at rest, secrets.  rec_kind.
-- name: report_keys
-- takes: int int int text text text int int int
SELECT time, tenant, kind, object, actor, detail, before, after, ts AS _ts, idx AS _idx
FROM v_admin WHERE log_id = ?1 AND +ts >= ?2 AND +ts < ?3 AND +idx < ?9 AND kind_code IN (1521, 1522, 1908, 1909, 2003)
ORDER BY +idx DESC LIMIT ?8;

-- audit reviews.  rec_kind.
-- name: report_reviews
-- takes: int int int text text text int int int
SELECT time, tenant, actor, detail, ts AS _ts, idx AS _idx
FROM v_reads WHERE log_id = ?1 AND +ts >= ?2 AND +ts < ?3 AND +idx < ?9 AND kind_code = 1804
ORDER BY +idx DESC LIMIT ?8;

-- audit erasures: asked for, done, ground, who approved.  rec_kind.
-- name: report_erasures
-- takes: int int int text text text int int int
SELECT time, tenant, kind, object, range_from, range_to - 1 AS range_to, ground, ticket, approver, detail, ts AS _ts, idx AS _idx
FROM v_retention WHERE log_id = ?1 AND +ts >= ?2 AND +ts < ?3 AND +idx < ?9 AND kind_code IN (1906, 1907)
ORDER BY +idx DESC LIMIT ?8;

-- audit dual-control: destructive acts that no two administrators did, by the records: nobody else was asked (or could be, as
-- for registry.quarantine), or whoever
-- granted it was not recorded as somebody else than who asked.  rec_kind; approvals by rec_kind of the system log.
-- name: report_dual_control
-- takes: int int int text text text int int int
SELECT time, tenant, kind, object, approver, detail, ts AS _ts, idx AS _idx
FROM v_retention d WHERE log_id = ?1 AND +ts >= ?2 AND +ts < ?3 AND +idx < ?9
  AND (kind_code IN (1902, 1904, 1906) OR (kind_code = 1903 AND approver IS NOT NULL))
  AND (approver IS NULL OR instr(approver, ' approval/') = 0
    OR NOT EXISTS (SELECT 1 FROM v_records q CROSS JOIN v_records g
      WHERE q.log_id = 1 AND q.kind_code = 1910 AND q.kind_code <> 1001 AND q.kind_code <> 1002
      AND g.log_id = 1 AND g.kind_code = 1911 AND g.kind_code <> 1001 AND g.kind_code <> 1002
      AND q.object = substr(d.approver, instr(d.approver, ' approval/') + 1) AND g.object = q.object AND g.ts <= d.ts
      AND g.approver || ' ' || g.object = d.approver
      AND substr(replace(q.detail, ' (cli):', ':'), 1, length(g.approver) + 1) <> g.approver || ':'))
UNION ALL SELECT time, tenant, kind, object, approver, detail, ts, +idx
FROM v_records WHERE log_id = ?1 AND +ts >= ?2 AND +ts < ?3 AND +idx < ?9 AND kind_code = 1540
  AND kind_code <> 1001 AND kind_code <> 1002
ORDER BY _idx DESC LIMIT ?8;

-- audit anchors: what was taken outside, the oldest record that it does not cover, and epochs of the signing key, by the
-- records epoch.start, of which none is pruned.  A walk of a small table; rec_pos, rec_kind.
-- audit segments: the catalog; log 0: of every log.  Primary key, or a walk of the table, which is small.
-- any tenant: who asks for every log may read them.
-- name: report_segments
-- takes: int int int text text text int int
-- only: sqlite
SELECT l.tenant_id, (SELECT t.name FROM tenant t WHERE t.id = l.tenant_id), s.month, s.to_idx - s.from_idx, s.bytes, s.path, s.from_idx,
  s.log, (SELECT r.ts FROM rec r WHERE r.log = s.log AND r.idx = s.set_by)
FROM log l JOIN seg s ON s.log = l.id
WHERE (?1 = 0 OR l.id = ?1) AND s.ts_max >= ?2 AND s.ts_min < ?3 ORDER BY s.log, s.from_idx LIMIT ?8;
-- only: pgsql
SELECT l.tenant_id, NULL::text, 0::int8, 0::int8, 0::int8, NULL::text, 0::int8, 0::int8, 0::int8 FROM log l WHERE l.id < 0 LIMIT ?8;

-- name: report_anchors
-- takes: int int int text text text int int
SELECT strftime('%Y-%m-%dT%H:%M:%S', a.ts / 1000000, 'unixepoch') || printf('.%06dZ', a.ts % 1000000) AS time,
  CASE a.kind WHEN 1 THEN 'anchor in a file' WHEN 2 THEN 'anchor by a command' WHEN 3 THEN 'anchor in a bucket' ELSE 'anchor ' || a.kind END AS what, a.size AS covers,
  (SELECT h.size FROM head h WHERE h.log = 1) - a.size AS behind,
  (SELECT strftime('%Y-%m-%dT%H:%M:%S', r.ts / 1000000, 'unixepoch') || printf('.%06dZ', r.ts % 1000000)
    FROM rec r WHERE r.log = 1 AND r.idx = a.size) AS uncovered_since
FROM anchor a WHERE a.ts >= ?2 AND a.ts < ?3
UNION ALL
SELECT strftime('%Y-%m-%dT%H:%M:%S', s.ts / 1000000, 'unixepoch') || printf('.%06dZ', s.ts % 1000000), 'epoch ' || s.n || ' begins',
  NULL, NULL, NULL
FROM (SELECT r.ts AS ts, row_number() OVER (ORDER BY r.idx) - 1 AS n FROM rec r
  WHERE r.log = 1 AND r.kind = 2003 AND r.kind <> 1001 AND r.kind <> 1002) s
WHERE s.ts >= ?2 AND s.ts < ?3 ORDER BY time DESC LIMIT ?8;

-- tool history --events: what was done to a definition (?11), who asked for a version, who approved or rejected it; requests
-- and grants of what needed a second administrator.  A rejection is a command's record, so these are looked through from the
-- first request on.  rec_kind; objects by the unique index.
-- name: report_definition_events
-- takes: int int int text text text int int int int text
WITH name(id) AS (
    SELECT id FROM dict WHERE kind = 112 AND text = ?11
    UNION ALL SELECT id FROM dict WHERE kind = 112 AND text >= ?11 || '@' AND text < ?11 || 'A'),
  agreed(object) AS (
    SELECT substr(approver, instr(approver, ' approval/') + 1) FROM v_records WHERE log_id = ?1 AND kind_code <> 1001
      AND kind_code <> 1002 AND kind_code BETWEEN 1501 AND 1533 AND +obj_id IN (SELECT id FROM name)
      AND instr(approver, ' approval/') > 0),
  asked(ts) AS (
    SELECT min(r.ts) FROM rec r WHERE r.log = ?1 AND r.kind <> 1001 AND r.kind <> 1002 AND r.kind = 1910
      AND r.obj IN (SELECT id FROM name))
SELECT time, kind, object, actor, approver, detail, before, after, +ts AS _ts, idx AS _idx
FROM v_records WHERE log_id = ?1 AND kind_code <> 1001 AND kind_code <> 1002 AND kind_code BETWEEN 1501 AND 1533 AND kind_code NOT IN (1521, 1522)
  AND +obj_id IN (SELECT id FROM name)
  AND +ts >= ?2 AND +ts < ?3 AND +idx < ?9
UNION ALL
SELECT time, kind, object, actor, approver, detail, before, after, +ts AS _ts, idx AS _idx
FROM v_records WHERE log_id = ?1 AND kind_code <> 1001 AND kind_code <> 1002 AND kind_code IN (1910, 1911)
  AND +obj_id IN (SELECT id FROM name UNION ALL SELECT d.id FROM agreed a JOIN dict d ON d.kind = 112 AND d.text = a.object)
  AND +ts >= ?2 AND +ts < ?3 AND +idx < ?9
UNION ALL
SELECT time, kind, object, actor, approver, detail, before, after, +ts AS _ts, idx AS _idx
FROM v_records WHERE log_id = ?1 AND kind_code <> 1001 AND kind_code <> 1002 AND kind_code = 1701
  AND +obj_id IN (SELECT id FROM name) AND ts >= (SELECT ts FROM asked) AND +ts >= ?2 AND +ts < ?3 AND +idx < ?9
ORDER BY _idx DESC LIMIT ?8;

-- audit credential: from where a key was used, and for what.  Sums.
-- name: report_credential
-- takes: int int int text text text int int
SELECT CASE r.tport WHEN 1 THEN 'stdio' WHEN 2 THEN 'tcp' WHEN 3 THEN 'unix' WHEN 4 THEN 'http' WHEN 5 THEN 'admin' END AS transport, (SELECT text FROM dict WHERE id = r.peer) AS address,
  (SELECT text FROM dict WHERE id = r.client) AS client, (SELECT text FROM dict WHERE id = r.rev) AS revision,
  (SELECT text FROM dict WHERE id = r.tool) AS tool, CASE r.outcome WHEN 0 THEN 'ok' WHEN 1 THEN 'tool_error' WHEN 2 THEN 'invalid' WHEN 3 THEN 'denied' WHEN 4 THEN 'rate_limited'
    WHEN 5 THEN 'timeout' WHEN 6 THEN 'cancelled' WHEN 7 THEN 'input_required' WHEN 8 THEN 'crashed' WHEN 9 THEN 'aborted'
    WHEN 10 THEN 'overload' WHEN 11 THEN 'unknown' ELSE CAST(r.outcome AS TEXT) END AS outcome,
  sum(r.n) AS calls, strftime('%Y-%m-%dT%H:%M:%S', min(r.ts_min) / 1000000, 'unixepoch') || printf('.%06dZ', min(r.ts_min) % 1000000) AS first,
  strftime('%Y-%m-%dT%H:%M:%S', max(r.ts_max) / 1000000, 'unixepoch') || printf('.%06dZ', max(r.ts_max) % 1000000) AS last
FROM rollup r WHERE r.log = ?1 AND r.since = ?2 AND r.until = ?3 AND r.kind IN (1002, 1003, 1004)
  AND r.of_cred = (SELECT id FROM dict WHERE kind = 16 AND text = ?6)
GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY first, 1 NULLS FIRST, 2 NULLS FIRST, 3 NULLS FIRST, 4 NULLS FIRST, 5 NULLS FIRST, 6 NULLS FIRST LIMIT ?8;

-- audit credential --timeline: all that was done with a key and to it.  rec_pos.
-- name: report_credential_timeline
-- takes: int int int text text text int int int int
SELECT time, kind, tool, outcome, rule, principal, object, call, detail, ts AS _ts, idx AS _idx
FROM v_records WHERE log_id = ?1 AND idx < ?9 AND idx >= ?10 AND +ts >= ?2 AND +ts < ?3 AND +cred_id = (SELECT id FROM dict WHERE kind = 16 AND text = ?6) AND +kind_code <> 1001
ORDER BY idx DESC LIMIT ?8;

-- audit subject: what there is about a principal; names are those of the first record of each.  Sums, rec_pos.
-- name: report_subject
-- takes: int int int text text text int int
WITH kinds(n, a, z, idx) AS MATERIALIZED (
    SELECT sum(n), min(ts_min), max(ts_max), min(idx_min) FROM rollup r WHERE r.log = ?1 AND r.since = ?2 AND r.until = ?3
      AND r.of_prn = (SELECT id FROM dict WHERE kind = 17 AND text = ?5) GROUP BY kind, tool)
SELECT v.tenant AS tenant, v.principal AS principal, v.pseudonym AS pseudonym, v.kind AS kind, v.tool AS tool, k.n AS records,
  strftime('%Y-%m-%dT%H:%M:%S', k.a / 1000000, 'unixepoch') || printf('.%06dZ', k.a % 1000000) AS first,
  strftime('%Y-%m-%dT%H:%M:%S', k.z / 1000000, 'unixepoch') || printf('.%06dZ', k.z % 1000000) AS last
FROM kinds k CROSS JOIN v_records v WHERE v.log_id = ?1 AND v.idx = k.idx
ORDER BY records DESC, kind, tool NULLS FIRST LIMIT ?8;

-- audit subject --export: all of it.  rec_pos.
-- name: report_subject_export
-- takes: int int int text text text int int int int
SELECT time, idx AS "index", kind, tool, outcome, ms, rule, principal, pseudonym, "key", object, transport, revision, definition, sandbox,
  address, client, on_behalf_of, request_bytes, result_bytes, stored_bytes, level, call, detail, ts AS _ts, idx AS _idx
FROM v_records WHERE log_id = ?1 AND idx < ?9 AND idx >= ?10 AND +ts >= ?2 AND +ts < ?3 AND +prn_id = (SELECT id FROM dict WHERE kind = 17 AND text = ?5) AND +kind_code <> 1001
ORDER BY idx DESC LIMIT ?8;

-- audit coverage: each day that has records, and what the server did then.  Sums; the first record of a day by position is the
-- first by time as well unless the clock was set back: rec_pos, else rec_ts, or blocks of that time.
-- name: report_coverage
-- takes: int int int text text text int int
WITH RECURSIVE
  own(d, called, kind, n, a, z, low, high) AS MATERIALIZED (
    SELECT day, called, kind, sum(n), min(ts_min), max(ts_max), min(idx_min), max(idx_max) FROM rollup r
    WHERE r.log = ?1 AND r.since = ?2 AND r.until = ?3 GROUP BY day, called, kind),
  sys(d, kind, n) AS MATERIALIZED (
    SELECT d, kind, n FROM own WHERE ?1 = 1
    UNION ALL SELECT day, kind, sum(n) FROM rollup WHERE ?1 <> 1 AND log = 1 AND since = ?2 AND until = ?3
      AND kind IN (1601, 1602, 1603, 2001) GROUP BY day, kind),
  around(before, behind) AS MATERIALIZED (
    SELECT CASE WHEN ?2 > 0 THEN EXISTS (SELECT 1 FROM rec WHERE log = ?1 AND kind <> 1001 AND ts < ?2) END,
      CASE WHEN ?3 < 9223372036854775807 THEN EXISTS (SELECT 1 FROM rec WHERE log = ?1 AND kind <> 1001 AND ts >= ?3) END),
  bounds(lo, hi) AS (
    SELECT CASE WHEN before THEN ?2 ELSE (SELECT min(a) FROM own) END, CASE WHEN behind THEN ?3 - 1 ELSE (SELECT max(z) FROM own) END
    FROM around),
  days(d) AS (
    SELECT lo / 86400000000 FROM bounds WHERE lo <= hi
    UNION ALL SELECT d + 1 FROM days WHERE d < (SELECT hi / 86400000000 FROM bounds)),
  newest(d, a, z, low, high) AS (
    SELECT days.d, min(o.a), max(o.z), min(o.low), max(o.high) FROM days LEFT JOIN own o ON o.d = days.d
    GROUP BY days.d ORDER BY days.d DESC LIMIT ?8)
SELECT (SELECT t.name FROM log l JOIN tenant t ON t.id = l.tenant_id WHERE l.id = ?1) AS tenant,
  strftime('%Y-%m-%d', d * 86400, 'unixepoch') AS day,
  coalesce((SELECT idx FROM rec WHERE log = ?1 AND idx = newest.low AND ts = a),
    (SELECT idx FROM rec WHERE log = ?1 AND kind <> 1001 AND ts >= a AND ts <= a ORDER BY ts, idx LIMIT 1)) AS first,
  coalesce((SELECT idx FROM rec WHERE log = ?1 AND idx = newest.high AND ts = z),
    (SELECT idx FROM rec WHERE log = ?1 AND kind <> 1001 AND ts >= z AND ts <= z ORDER BY ts DESC, idx DESC LIMIT 1)) AS last,
  (SELECT CAST(coalesce(sum(n), 0) AS INTEGER) FROM own o WHERE o.d = newest.d AND called = 1) AS calls,
  (SELECT CAST(coalesce(sum(n), 0) AS INTEGER) FROM own o WHERE o.d = newest.d AND kind = 1003) AS denied,
  (SELECT CAST(coalesce(sum(n), 0) AS INTEGER) FROM sys o WHERE o.d = newest.d AND kind = 1601) AS starts,
  (SELECT CAST(coalesce(sum(n), 0) AS INTEGER) FROM sys o WHERE o.d = newest.d AND kind = 1602) AS stops,
  (SELECT CAST(coalesce(sum(n), 0) AS INTEGER) FROM sys o WHERE o.d = newest.d AND kind = 1603) AS crashes,
  (SELECT CAST(coalesce(sum(n), 0) AS INTEGER) FROM sys o WHERE o.d = newest.d AND kind = 2001) AS checkpoints
FROM newest ORDER BY d DESC LIMIT ?8;

-- audit sample: the call at a position (?10), which has this rank (?12) of all that were counted.  rec_pos.
-- name: report_sample
-- takes: int int int text text text int int int int text int
SELECT ?12 AS rank, time, idx AS "index", tool, principal, outcome, call FROM v_records WHERE log_id = ?1 AND idx = ?10;

-- audit sample --kind.  rec_pos.
-- name: report_sample_kind
-- takes: int int int text text text int int int int text int
SELECT ?12 AS rank, time, idx AS "index", kind, object, principal, detail FROM v_records WHERE log_id = ?1 AND idx = ?10;

-- audit sample: how many calls a part of a log has; with ?12 records of this kind, one of those of a call.  rec_pos.
-- name: report_sample_count
-- takes: int int int text text text int int int int text int
SELECT count(*) FROM rec WHERE log = ?1 AND idx < ?9 AND idx >= ?10 AND +ts >= ?2 AND +ts < ?3
  AND (+kind = ?12 OR (?12 IS NULL AND +kind IN (1002, 1003, 1004)));

-- audit sample: how many parts of a log have, ?8: chapters where there are such; NULL: they are to be counted.  Zones.
-- name: report_sample_parts
-- takes: int int int text text text int int int int text int
SELECT first, below, n FROM parts WHERE log = ?1 AND since = ?2 AND until = ?3 AND lo = ?10 AND hi = ?9 AND chapters = ?8
  AND of_kind = coalesce(?12, -1);

-- audit sample: where they stand.  rec_pos.
-- name: report_sample_places
-- takes: int int int text text text int int int int text int
SELECT idx FROM rec WHERE log = ?1 AND idx < ?9 AND idx >= ?10 AND +ts >= ?2 AND +ts < ?3
  AND (+kind = ?12 OR (?12 IS NULL AND +kind IN (1002, 1003, 1004))) ORDER BY idx;

-- The same two of any other kind, which are few beside the calls.  rec_kind.
-- name: report_sample_kind_count
-- takes: int int int text text text int int int int text int
SELECT count(*) FROM rec WHERE log = ?1 AND kind = ?12 AND kind <> 1001 AND kind <> 1002 AND ts >= ?2 AND ts < ?3
  AND +idx < ?9 AND +idx >= ?10;

-- name: report_sample_kind_places
-- takes: int int int text text text int int int int text int
SELECT idx FROM rec WHERE log = ?1 AND kind = ?12 AND kind <> 1001 AND kind <> 1002 AND ts >= ?2 AND ts < ?3
  AND +idx < ?9 AND +idx >= ?10 ORDER BY +idx;

-- audit sample --method hash: the ?8 calls with the smallest hash of position and seed (?12), as before 0.2.0.  rec_ts.
-- name: report_sample_hash
-- takes: int int int text text text int int int int text int
WITH p(idx, x) AS (
    SELECT idx, (idx * 48271 + ?12 * 69621 + 1) % 2147483647 FROM rec
    WHERE log = ?1 AND kind <> 1001 AND call IS NOT NULL AND ts >= ?2 AND ts < ?3 AND +idx < ?9),
  q(idx, x, y) AS (SELECT idx, x, (x * x + ?12) % 2147483647 FROM p),
  s(idx, hash) AS (SELECT idx, (y * y + x) % 2147483647 FROM q ORDER BY 2, 1 LIMIT ?8)
SELECT s.hash AS hash, v.time AS time, v.idx AS "index", v.tool AS tool, v.principal AS principal, v.outcome AS outcome, v.call AS call
FROM s CROSS JOIN v_records v WHERE v.log_id = ?1 AND v.idx = s.idx ORDER BY v.idx;

-- Where there are blocks: whether there is a call at a position, and what the statement above says of it.  rec_pos.
-- name: report_sample_hash_call
-- takes: int int int text text text int int int int
SELECT 1 FROM rec WHERE log = ?1 AND idx = ?10 AND kind <> 1001 AND call IS NOT NULL AND ts >= ?2 AND ts < ?3;

-- name: report_sample_hash_row
-- takes: int int int text text text int int int int text int
SELECT ?12 AS hash, time, idx AS "index", tool, principal, outcome, call FROM v_records WHERE log_id = ?1 AND idx = ?10;

-- The same of a kind.  rec_kind.
-- name: report_sample_kind_hash
-- takes: int int int text text text int int int int text int
WITH p(idx, x) AS (
    SELECT idx, (idx * 48271 + ?12 * 69621 + 1) % 2147483647 FROM rec
    WHERE log = ?1 AND kind <> 1001 AND kind <> 1002 AND kind = CAST(?11 AS INTEGER) AND ts >= ?2 AND ts < ?3 AND +idx < ?9),
  q(idx, x, y) AS (SELECT idx, x, (x * x + ?12) % 2147483647 FROM p),
  s(idx, hash) AS (SELECT idx, (y * y + x) % 2147483647 FROM q ORDER BY 2, 1 LIMIT ?8)
SELECT s.hash AS hash, v.time AS time, v.idx AS "index", v.kind AS kind, v.object AS object, v.principal AS principal, v.detail AS detail
FROM s CROSS JOIN v_records v WHERE v.log_id = ?1 AND v.idx = s.idx ORDER BY v.idx;

-- audit after-revocation: calls that began behind the record of the key's end; of those that are said, the texts.
-- rec_kind, rec_cred, rec_pos.
-- name: report_after_revocation
-- takes: int int int text text text int int int
WITH f(idx, ended) AS (
    SELECT r.idx, min(x.idx) FROM rec x CROSS JOIN rec r
    WHERE x.log = ?1 AND x.kind <> 1001 AND x.kind <> 1002 AND x.kind IN (1203, 1204)
      AND r.log = ?1 AND r.cred = x.cred AND r.kind <> 1001 AND r.kind IN (1002, 1004) AND r.beg > x.idx
      AND r.ts >= ?2 AND r.ts < ?3 AND +r.idx < ?9
    GROUP BY r.idx ORDER BY r.idx DESC LIMIT ?8)
SELECT e.time AS time, e.tenant AS tenant, e."key" AS "key", e.principal AS principal, e.tool AS tool, e.outcome AS outcome,
  e.call AS call, f.ended AS ended_at, e.beg AS began_at, e.ts AS _ts, e.idx AS _idx
FROM f CROSS JOIN v_records e WHERE e.log_id = ?1 AND e.idx = f.idx ORDER BY e.idx DESC LIMIT ?8;

-- The same where blocks have no index of keys: all keys that have ended at once, in one walk of what has one of them.
-- name: report_after_revocation_forms
-- takes: int int int text text text int int int
WITH x(cred, idx) AS MATERIALIZED (
    SELECT cred, min(idx) FROM rec WHERE log = ?1 AND kind <> 1001 AND kind <> 1002 AND kind IN (1203, 1204) AND cred IS NOT NULL
    GROUP BY cred),
  f(idx, ended) AS MATERIALIZED (
    SELECT r.idx, (SELECT x.idx FROM x WHERE x.cred = r.cred) FROM rec r
    WHERE r.log = ?1 AND r.cred IN (SELECT cred FROM x) AND r.kind IN (1002, 1004) AND r.idx > (SELECT min(idx) FROM x)
      AND r.idx < ?9 AND r.ts >= ?2 AND r.ts < ?3 AND r.beg > (SELECT x.idx FROM x WHERE x.cred = r.cred)
    ORDER BY r.idx DESC LIMIT ?8)
SELECT e.time AS time, e.tenant AS tenant, e."key" AS "key", e.principal AS principal, e.tool AS tool, e.outcome AS outcome,
  e.call AS call, f.ended AS ended_at, e.beg AS began_at, e.ts AS _ts, e.idx AS _idx
FROM f CROSS JOIN v_records e WHERE e.log_id = ?1 AND e.idx = f.idx ORDER BY e.idx DESC LIMIT ?8;

-- audit continuity: runs of the server, how each ended, how long nothing ran until the next; with ?11 those of commands
-- without a server as well.  rec_kind of the system log.
-- name: report_continuity
-- takes: int int int text text text int int int int text
WITH life(ts, idx, kind, detail, shown) AS (
    SELECT ts, idx, kind_code, detail, kind_code = 1601 AND (?11 IS NOT NULL OR coalesce(detail, '') NOT LIKE 'cli,%')
    FROM v_lifecycle WHERE log_id = ?1 AND kind_code IN (1601, 1602, 1603)),
  run(ts, idx, shown, detail, next_kind, next_ts, start_ts) AS (
    SELECT ts, idx, shown, detail, lead(kind) OVER (ORDER BY idx + 0), lead(ts) OVER (ORDER BY idx + 0),
      min(CASE WHEN shown THEN ts END) OVER (ORDER BY idx + 0 ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)
    FROM life)
SELECT strftime('%Y-%m-%dT%H:%M:%S', ts / 1000000, 'unixepoch') || printf('.%06dZ', ts % 1000000) AS started,
  CASE WHEN next_ts IS NOT NULL THEN strftime('%Y-%m-%dT%H:%M:%S', next_ts / 1000000, 'unixepoch')
    || printf('.%06dZ', next_ts % 1000000) END AS ended,
  CASE next_kind WHEN 1602 THEN 'stop' WHEN 1603 THEN 'crash' WHEN 1601 THEN 'no stop recorded' ELSE 'runs' END AS how,
  CAST(round((next_ts - ts) / 1e6, 3) AS REAL) AS ran_s, CAST(round((start_ts - next_ts) / 1e6, 3) AS REAL) AS down_s,
  (SELECT count(*) FROM rec x WHERE x.log = ?1 AND x.kind <> 1001 AND x.kind <> 1002 AND x.kind IN (1608, 1610)
    AND x.ts >= run.ts AND x.ts < coalesce(next_ts, 9223372036854775807)) AS audit_failures, detail
FROM run WHERE shown AND ts >= ?2 AND ts < ?3 ORDER BY idx DESC LIMIT ?8;

-- audit continuity --executions: calls that began while nothing could be recorded, although nothing may run then.  The record
-- of a failure has the time of its end, and how long it was; no call is longer than the longest.  rec_kind of the system log,
-- sums, rec_ts.
-- name: report_continuity_executions
-- takes: int int int text text text int int int
WITH f(a, z) AS (
    SELECT x.ts - coalesce(x.dur, 0), x.ts FROM rec x WHERE x.log = 1 AND x.kind <> 1001 AND x.kind <> 1002 AND x.kind = 1610)
SELECT e.time AS time, e.tenant AS tenant, e.tool AS tool, e.principal AS principal, e.outcome AS outcome, e.call AS call,
  e.ts AS _ts, e.idx AS _idx
FROM f CROSS JOIN v_calls e WHERE e.log_id = ?1 AND e.ts > max(f.a, ?2 - 1)
  AND e.ts < min(?3, f.z + 2 + (SELECT coalesce(max(dur_max), 0) FROM rollup WHERE log = ?1 AND since = ?2 AND until = ?3
    AND kind = 1002)) AND +e.idx < ?9
  AND e.ts - coalesce(e.ms, 0) * 1000 > f.a AND e.ts - coalesce(e.ms, 0) * 1000 < f.z AND e.kind_code = 1002 AND NOT e.not_executed
ORDER BY +e.idx DESC LIMIT ?8;

-- audit blast-radius --key: what a key was used for, and what else its tenant's grants open to it.  Sums.
-- name: report_blast_key
-- takes: int int int text text text int int
SELECT (SELECT text FROM dict WHERE id = r.tool) AS tool, (SELECT text FROM dict WHERE id = r.tdef) AS definition, sum(r.n) AS calls,
  sum(CASE WHEN r.outcome = 0 THEN r.n WHEN r.outcome <> 0 THEN 0 END) AS ok, strftime('%Y-%m-%dT%H:%M:%S', min(r.ts_min) / 1000000, 'unixepoch') || printf('.%06dZ', min(r.ts_min) % 1000000) AS first,
  strftime('%Y-%m-%dT%H:%M:%S', max(r.ts_max) / 1000000, 'unixepoch') || printf('.%06dZ', max(r.ts_max) % 1000000) AS last, 'used' AS how
FROM rollup r WHERE r.log = ?1 AND r.since = ?2 AND r.until = ?3 AND r.kind IN (1002, 1003, 1004)
  AND r.of_cred = (SELECT id FROM dict WHERE kind = 16 AND text = ?6) GROUP BY 1, 2
UNION ALL
SELECT g.glob, NULL, 0, 0, NULL, NULL, CASE WHEN g.alias <> '' THEN 'granted as ' || g.alias ELSE 'granted' END
FROM tool_grant g JOIN log l ON l.tenant_id = g.tenant_id WHERE l.id = ?1
ORDER BY calls DESC, tool NULLS FIRST, definition NULLS FIRST, how LIMIT ?8;

-- audit blast-radius --tool-hash: who called this definition of a tool.  Sums.
-- name: report_blast_tool
-- takes: int int int text text text int int int int text
SELECT (SELECT name FROM tenant WHERE id = l.tenant_id) AS tenant, (SELECT text FROM dict WHERE id = r.tool) AS tool,
  (SELECT coalesce(p.name, d.text) FROM dict d LEFT JOIN principal p ON p.tenant_id = l.tenant_id
    AND p.pseudonym = d.text WHERE d.id = r.prn) AS principal,
  (SELECT text FROM dict WHERE id = r.cred) AS "key", sum(r.n) AS calls, sum(CASE WHEN r.outcome = 0 THEN r.n WHEN r.outcome <> 0 THEN 0 END) AS ok,
  strftime('%Y-%m-%dT%H:%M:%S', min(r.ts_min) / 1000000, 'unixepoch') || printf('.%06dZ', min(r.ts_min) % 1000000) AS first,
  strftime('%Y-%m-%dT%H:%M:%S', max(r.ts_max) / 1000000, 'unixepoch') || printf('.%06dZ', max(r.ts_max) % 1000000) AS last
FROM log l CROSS JOIN rollup r WHERE l.id = ?1 AND r.log = ?1 AND r.since = ?2 AND r.until = ?3 AND r.kind IN (1002, 1003, 1004)
  AND r.tdef = (SELECT id FROM dict WHERE kind = 35 AND text = ?11)
GROUP BY 1, 2, 3, 4 ORDER BY calls DESC, tool NULLS FIRST, principal NULLS FIRST, 4 NULLS FIRST LIMIT ?8;

-- audit drift: calls whose definition was never stored here.  Such texts of the dictionary first, then between which positions
-- calls have one: sums, rec_pos.
-- name: report_drift
-- takes: int int int text text text int int int
WITH bad(id) AS MATERIALIZED (SELECT d.id FROM dict d WHERE d.kind = 35
  AND NOT EXISTS (SELECT 1 FROM tool_version v WHERE lower(hex(v.digest)) = d.text)),
  hit(lo, hi) AS MATERIALIZED (SELECT min(r.idx_min), max(r.idx_max) FROM (SELECT 1 FROM bad LIMIT 1) one CROSS JOIN rollup r
    WHERE r.log = ?1 AND r.since = ?2 AND r.until = ?3 AND r.kind IN (1002, 1003, 1004) AND r.tdef IN (SELECT id FROM bad))
SELECT e.time AS time, e.tenant AS tenant, e.tool AS tool, e.definition AS definition, e.principal AS principal, e.call AS call,
  e.ts AS _ts, e.idx AS _idx
FROM hit CROSS JOIN v_calls e WHERE e.log_id = ?1 AND e.idx >= hit.lo AND e.idx <= hit.hi AND e.idx < ?9
  AND +e.ts >= ?2 AND +e.ts < ?3 AND e.definition IN (SELECT text FROM dict WHERE id IN (SELECT id FROM bad))
ORDER BY e.idx DESC LIMIT ?8;

-- audit isolation: keys and principals of one tenant in the log of another.  rec_cred, rec_prn: a look for each.
-- name: report_isolation
-- takes: int int int text text text int int
SELECT 'key' AS what, c.accessor AS who, t.name AS belongs_to, l.origin AS found_in
FROM log l JOIN cred c ON c.tenant_id <> l.tenant_id JOIN tenant t ON t.id = c.tenant_id
JOIN dict d ON d.kind = 16 AND d.text = c.accessor
WHERE l.id = ?1 AND EXISTS (SELECT 1 FROM rec r WHERE r.log = ?1 AND r.cred = d.id AND r.kind <> 1001)
UNION ALL
SELECT 'principal', p.pseudonym, t.name, l.origin
FROM log l JOIN principal p ON p.tenant_id <> l.tenant_id JOIN tenant t ON t.id = p.tenant_id
JOIN dict d ON d.kind = 17 AND d.text = p.pseudonym
WHERE l.id = ?1 AND EXISTS (SELECT 1 FROM rec r WHERE r.log = ?1 AND r.prn = d.id AND r.kind <> 1001)
LIMIT ?8;

-- The same of a store with blocks.  Sums.
-- name: report_isolation_forms
-- takes: int int int text text text int int
WITH seen(cred, prn) AS MATERIALIZED (SELECT DISTINCT cred, prn FROM rollup WHERE log = ?1 AND since = 0 AND until = 9223372036854775807)
SELECT 'key' AS what, c.accessor AS who, t.name AS belongs_to, l.origin AS found_in
FROM log l JOIN cred c ON c.tenant_id <> l.tenant_id JOIN tenant t ON t.id = c.tenant_id
JOIN dict d ON d.kind = 16 AND d.text = c.accessor
WHERE l.id = ?1 AND d.id IN (SELECT cred FROM seen)
UNION ALL
SELECT 'principal', p.pseudonym, t.name, l.origin
FROM log l JOIN principal p ON p.tenant_id <> l.tenant_id JOIN tenant t ON t.id = p.tenant_id
JOIN dict d ON d.kind = 17 AND d.text = p.pseudonym
WHERE l.id = ?1 AND d.id IN (SELECT prn FROM seen)
LIMIT ?8;

-- audit sandbox: how far each tool's processes were confined.  Sums.
-- name: report_sandbox
-- takes: int int int text text text int int
SELECT (SELECT name FROM tenant WHERE id = l.tenant_id) AS tenant, (SELECT text FROM dict WHERE id = r.tool) AS tool,
  coalesce((SELECT text FROM dict WHERE id = r.sbox), 'no process') AS sandbox, sum(r.n) AS calls,
  strftime('%Y-%m-%dT%H:%M:%S', min(r.ts_min) / 1000000, 'unixepoch') || printf('.%06dZ', min(r.ts_min) % 1000000) AS first,
  strftime('%Y-%m-%dT%H:%M:%S', max(r.ts_max) / 1000000, 'unixepoch') || printf('.%06dZ', max(r.ts_max) % 1000000) AS last
FROM log l CROSS JOIN rollup r WHERE l.id = ?1 AND r.log = ?1 AND r.since = ?2 AND r.until = ?3 AND r.kind = 1002
  AND r.of_tool = CASE WHEN ?4 IS NULL THEN -1 ELSE coalesce((SELECT id FROM dict WHERE kind = 34 AND text = ?4), -2) END
GROUP BY 1, 2, 3 ORDER BY calls DESC, tool NULLS FIRST, sandbox LIMIT ?8;

-- audit oversight: calls that asked a person, and the round that brought the answer; calls that a person had to agree to, what
-- was said last, and the call that it let run.  rec_pos, rec_prn, rec_call.
-- name: report_oversight
-- takes: int int int text text text int int int int
SELECT q.time AS time, CASE q.kind_code WHEN 1031 THEN 'approval' ELSE 'question' END AS what, q.tool AS tool, q.principal AS principal, q.call AS call,
  strftime('%Y-%m-%dT%H:%M:%S', coalesce(d.ts, a.ts) / 1000000, 'unixepoch') || printf('.%06dZ', coalesce(d.ts, a.ts) % 1000000) AS answered,
  CASE d.kind WHEN 1031 THEN 'asked' WHEN 1032 THEN CASE
-- only: sqlite
(WITH RECURSIVE f(p, n) AS (
    SELECT 1, instr('0123456789ABCDEF', substr(hex(substr(d.ext, 1 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(d.ext, 1 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(d.ext, 1 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(d.ext, 1 + 4, 2)), 4, 1)) - 4369
    UNION ALL SELECT p + n + 6, instr('0123456789ABCDEF', substr(hex(substr(d.ext, p + n + 6 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(d.ext, p + n + 6 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(d.ext, p + n + 6 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(d.ext, p + n + 6 + 4, 2)), 4, 1)) - 4369
    FROM f WHERE p + n + 6 < length(d.ext))
    SELECT hex(substr(d.ext, p + 46, 1)) FROM f WHERE hex(substr(d.ext, p, 2)) = '011D' LIMIT 1)
-- only: pgsql
encode(substr(ext_at(d.ext, 285), 41, 1), 'hex')
-- only: all
 WHEN '01' THEN 'agreed' ELSE 'granted' END
    WHEN 1033 THEN 'refused' WHEN 1034 THEN 'lapsed' WHEN 1035 THEN 'recalled' END AS answer,
-- only: sqlite
(WITH RECURSIVE f(p, n) AS (
    SELECT 1, instr('0123456789ABCDEF', substr(hex(substr(d.ext, 1 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(d.ext, 1 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(d.ext, 1 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(d.ext, 1 + 4, 2)), 4, 1)) - 4369
    UNION ALL SELECT p + n + 6, instr('0123456789ABCDEF', substr(hex(substr(d.ext, p + n + 6 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(d.ext, p + n + 6 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(d.ext, p + n + 6 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(d.ext, p + n + 6 + 4, 2)), 4, 1)) - 4369
    FROM f WHERE p + n + 6 < length(d.ext))
    SELECT CAST(substr(d.ext, p + 6, n) AS TEXT) FROM f WHERE hex(substr(d.ext, p, 2)) = '0106' LIMIT 1)
-- only: pgsql
ext_text(d.ext, 262)
-- only: all
 AS "by",
  CASE WHEN a.call IS NOT NULL THEN lower(substr(hex(a.call), 1, 8) || '-' || substr(hex(a.call), 9, 4) || '-'
    || substr(hex(a.call), 13, 4) || '-' || substr(hex(a.call), 17, 4) || '-' || substr(hex(a.call), 21)) END AS next_round,
  q.kind_code <> 1031 AND a.outcome IS NOT NULL AS answered_by_caller, q.ts AS _ts, q.idx AS _idx
FROM v_records q CROSS JOIN rec r ON r.log = ?1 AND r.idx = q.idx
LEFT JOIN rec d ON d.id = (SELECT max(x.id) FROM rec x WHERE q.kind_code = 1031 AND x.call = r.call AND x.kind <> 1001 AND +x.kind IN (1032, 1033, 1034, 1035)
  AND +x.log = ?1)
LEFT JOIN rec a ON a.id = (SELECT min(x.id) FROM rec x
    WHERE (q.kind_code <> 1031 OR d.kind = 1032) AND x.log = ?1 AND x.kind <> 1001 AND x.prn = r.prn AND x.ts >= r.ts AND x.prev = r.call)
WHERE q.log_id = ?1 AND q.idx < ?9 AND q.idx >= ?10 AND +q.ts >= ?2 AND +q.ts < ?3
  AND (+q.kind_code = 1031 OR (+q.outcome_code = 7 AND +q.kind_code IN (1002, 1003, 1004)))
ORDER BY q.idx DESC LIMIT ?8;

-- The same of a store with blocks, which are read in their order up to the answer.
-- name: report_oversight_forms
-- takes: int int int text text text int int int int
SELECT q.time AS time, CASE q.kind_code WHEN 1031 THEN 'approval' ELSE 'question' END AS what, q.tool AS tool, q.principal AS principal, q.call AS call,
  strftime('%Y-%m-%dT%H:%M:%S', coalesce(d.ts, a.ts) / 1000000, 'unixepoch') || printf('.%06dZ', coalesce(d.ts, a.ts) % 1000000) AS answered,
  CASE d.kind WHEN 1031 THEN 'asked' WHEN 1032 THEN CASE
-- only: sqlite
(WITH RECURSIVE f(p, n) AS (
    SELECT 1, instr('0123456789ABCDEF', substr(hex(substr(d.ext, 1 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(d.ext, 1 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(d.ext, 1 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(d.ext, 1 + 4, 2)), 4, 1)) - 4369
    UNION ALL SELECT p + n + 6, instr('0123456789ABCDEF', substr(hex(substr(d.ext, p + n + 6 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(d.ext, p + n + 6 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(d.ext, p + n + 6 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(d.ext, p + n + 6 + 4, 2)), 4, 1)) - 4369
    FROM f WHERE p + n + 6 < length(d.ext))
    SELECT hex(substr(d.ext, p + 46, 1)) FROM f WHERE hex(substr(d.ext, p, 2)) = '011D' LIMIT 1)
-- only: pgsql
encode(substr(ext_at(d.ext, 285), 41, 1), 'hex')
-- only: all
 WHEN '01' THEN 'agreed' ELSE 'granted' END
    WHEN 1033 THEN 'refused' WHEN 1034 THEN 'lapsed' WHEN 1035 THEN 'recalled' END AS answer,
-- only: sqlite
(WITH RECURSIVE f(p, n) AS (
    SELECT 1, instr('0123456789ABCDEF', substr(hex(substr(d.ext, 1 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(d.ext, 1 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(d.ext, 1 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(d.ext, 1 + 4, 2)), 4, 1)) - 4369
    UNION ALL SELECT p + n + 6, instr('0123456789ABCDEF', substr(hex(substr(d.ext, p + n + 6 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(d.ext, p + n + 6 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(d.ext, p + n + 6 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(d.ext, p + n + 6 + 4, 2)), 4, 1)) - 4369
    FROM f WHERE p + n + 6 < length(d.ext))
    SELECT CAST(substr(d.ext, p + 6, n) AS TEXT) FROM f WHERE hex(substr(d.ext, p, 2)) = '0106' LIMIT 1)
-- only: pgsql
ext_text(d.ext, 262)
-- only: all
 AS "by",
  CASE WHEN a.call IS NOT NULL THEN lower(substr(hex(a.call), 1, 8) || '-' || substr(hex(a.call), 9, 4) || '-'
    || substr(hex(a.call), 13, 4) || '-' || substr(hex(a.call), 17, 4) || '-' || substr(hex(a.call), 21)) END AS next_round,
  q.kind_code <> 1031 AND a.outcome IS NOT NULL AS answered_by_caller, q.ts AS _ts, q.idx AS _idx
FROM v_records q CROSS JOIN rec r ON r.log = ?1 AND r.idx = q.idx
LEFT JOIN rec d ON d.id = (SELECT x.id FROM rec x WHERE q.kind_code = 1031 AND x.log = ?1 AND x.kind <> 1001 AND x.kind IN (1032, 1033, 1034, 1035)
  AND x.call = r.call ORDER BY x.idx DESC LIMIT 1)
LEFT JOIN rec a ON a.id = (SELECT x.id FROM rec x
    WHERE (q.kind_code <> 1031 OR d.kind = 1032) AND x.log = ?1 AND x.kind <> 1001 AND x.prn = r.prn AND x.ts >= r.ts AND x.prev = r.call ORDER BY x.idx LIMIT 1)
WHERE q.log_id = ?1 AND q.idx < ?9 AND q.idx >= ?10 AND +q.ts >= ?2 AND +q.ts < ?3
  AND (+q.kind_code = 1031 OR (+q.outcome_code = 7 AND +q.kind_code IN (1002, 1003, 1004)))
ORDER BY q.idx DESC LIMIT ?8;

-- audit approvals: what was asked of persons, and what came of it, a row for each record.  seconds: since it was asked.  rec_pos,
-- rec_call.
-- name: report_approvals
-- takes: int int int text text text int int int int
SELECT v.time AS time, v.tenant AS tenant,
-- only: sqlite
(WITH RECURSIVE f(p, n) AS (
    SELECT 1, instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 4, 1)) - 4369
    UNION ALL SELECT p + n + 6, instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 4, 1)) - 4369
    FROM f WHERE p + n + 6 < length(r.ext))
    SELECT (WITH RECURSIVE v(i, h, x) AS (SELECT 1, hex(substr(r.ext, p + 6, 8)), 0
      UNION ALL SELECT i + 1, h, x * 16 + instr('0123456789ABCDEF', substr(h, i, 1)) - 1 FROM v WHERE i <= 16)
      SELECT x FROM v WHERE i = 17) FROM f WHERE hex(substr(r.ext, p, 2)) = '011D' LIMIT 1)
-- only: pgsql
ext_number(r.ext, 285, 0)
-- only: all
 AS approval,
  CASE r.kind WHEN 1031 THEN 'asked' WHEN 1032 THEN CASE
-- only: sqlite
(WITH RECURSIVE f(p, n) AS (
    SELECT 1, instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 4, 1)) - 4369
    UNION ALL SELECT p + n + 6, instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 4, 1)) - 4369
    FROM f WHERE p + n + 6 < length(r.ext))
    SELECT hex(substr(r.ext, p + 46, 1)) FROM f WHERE hex(substr(r.ext, p, 2)) = '011D' LIMIT 1)
-- only: pgsql
encode(substr(ext_at(r.ext, 285), 41, 1), 'hex')
-- only: all
 WHEN '01' THEN 'agreed' ELSE 'granted' END
    WHEN 1033 THEN 'refused' WHEN 1034 THEN 'lapsed' WHEN 1035 THEN 'recalled' END AS what,
  v.tool AS tool, v.principal AS principal, CASE v.kind_code WHEN 1031 THEN NULL ELSE v.approver END AS "by",
  CASE WHEN v.kind_code <> 1031 THEN CAST(round((v.ts - h.ts) / 1000000.0, 3) AS REAL) END AS seconds,
-- only: sqlite
(WITH RECURSIVE f(p, n) AS (
    SELECT 1, instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 4, 1)) - 4369
    UNION ALL SELECT p + n + 6, instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 4, 1)) - 4369
    FROM f WHERE p + n + 6 < length(r.ext))
    SELECT CAST(substr(r.ext, p + 6, n) AS TEXT) FROM f WHERE hex(substr(r.ext, p, 2)) = '0113' LIMIT 1)
-- only: pgsql
ext_text(r.ext, 275)
-- only: all
 AS reason,
  v.call AS call, v.ts AS _ts, v.idx AS _idx
FROM v_records v CROSS JOIN rec r ON r.log = ?1 AND r.idx = v.idx
LEFT JOIN rec h ON h.id = (SELECT min(x.id) FROM rec x WHERE x.call = r.call AND x.kind <> 1001 AND +x.kind = 1031
      AND +x.log = ?1)
WHERE v.log_id = ?1 AND v.idx < ?9 AND v.idx >= ?10 AND +v.ts >= ?2 AND +v.ts < ?3 AND +v.kind_code BETWEEN 1031 AND 1035
  AND (?5 IS NULL OR +v.prn_id = (SELECT id FROM dict WHERE kind = 17 AND text = ?5))
  AND (?4 IS NULL OR +v.tool_id = (SELECT id FROM dict WHERE kind = 34 AND text = ?4))
ORDER BY v.idx DESC LIMIT ?8;

-- The same of a store with blocks.  Zones of blocks.
-- name: report_approvals_forms
-- takes: int int int text text text int int int int
SELECT v.time AS time, v.tenant AS tenant,
-- only: sqlite
(WITH RECURSIVE f(p, n) AS (
    SELECT 1, instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 4, 1)) - 4369
    UNION ALL SELECT p + n + 6, instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 4, 1)) - 4369
    FROM f WHERE p + n + 6 < length(r.ext))
    SELECT (WITH RECURSIVE v(i, h, x) AS (SELECT 1, hex(substr(r.ext, p + 6, 8)), 0
      UNION ALL SELECT i + 1, h, x * 16 + instr('0123456789ABCDEF', substr(h, i, 1)) - 1 FROM v WHERE i <= 16)
      SELECT x FROM v WHERE i = 17) FROM f WHERE hex(substr(r.ext, p, 2)) = '011D' LIMIT 1)
-- only: pgsql
ext_number(r.ext, 285, 0)
-- only: all
 AS approval,
  CASE r.kind WHEN 1031 THEN 'asked' WHEN 1032 THEN CASE
-- only: sqlite
(WITH RECURSIVE f(p, n) AS (
    SELECT 1, instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 4, 1)) - 4369
    UNION ALL SELECT p + n + 6, instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 4, 1)) - 4369
    FROM f WHERE p + n + 6 < length(r.ext))
    SELECT hex(substr(r.ext, p + 46, 1)) FROM f WHERE hex(substr(r.ext, p, 2)) = '011D' LIMIT 1)
-- only: pgsql
encode(substr(ext_at(r.ext, 285), 41, 1), 'hex')
-- only: all
 WHEN '01' THEN 'agreed' ELSE 'granted' END
    WHEN 1033 THEN 'refused' WHEN 1034 THEN 'lapsed' WHEN 1035 THEN 'recalled' END AS what,
  v.tool AS tool, v.principal AS principal, CASE v.kind_code WHEN 1031 THEN NULL ELSE v.approver END AS "by",
  CASE WHEN v.kind_code <> 1031 THEN CAST(round((v.ts - h.ts) / 1000000.0, 3) AS REAL) END AS seconds,
-- only: sqlite
(WITH RECURSIVE f(p, n) AS (
    SELECT 1, instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 4, 1)) - 4369
    UNION ALL SELECT p + n + 6, instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 4, 1)) - 4369
    FROM f WHERE p + n + 6 < length(r.ext))
    SELECT CAST(substr(r.ext, p + 6, n) AS TEXT) FROM f WHERE hex(substr(r.ext, p, 2)) = '0113' LIMIT 1)
-- only: pgsql
ext_text(r.ext, 275)
-- only: all
 AS reason,
  v.call AS call, v.ts AS _ts, v.idx AS _idx
FROM v_records v CROSS JOIN rec r ON r.log = ?1 AND r.idx = v.idx
LEFT JOIN rec h ON h.id = (SELECT x.id FROM rec x WHERE x.log = ?1 AND x.kind <> 1001 AND x.kind = 1031 AND x.call = r.call
  ORDER BY x.idx LIMIT 1)
WHERE v.log_id = ?1 AND v.idx < ?9 AND v.idx >= ?10 AND +v.ts >= ?2 AND +v.ts < ?3 AND +v.kind_code BETWEEN 1031 AND 1035
  AND (?5 IS NULL OR +v.prn_id = (SELECT id FROM dict WHERE kind = 17 AND text = ?5))
  AND (?4 IS NULL OR +v.tool_id = (SELECT id FROM dict WHERE kind = 34 AND text = ?4))
ORDER BY v.idx DESC LIMIT ?8;

-- audit approvals --by: how many, how many of those that were decided were refused, and half of the decisions came within so
-- many seconds.  rec_kind, rec_call.
-- name: report_approvals_by
-- takes: int int int text text text int int int int text
WITH said(who, kind, waited) AS MATERIALIZED (
    SELECT CASE ?11 WHEN 'person' THEN substr(v.approver, 1, instr(v.approver || ' (', ' (') - 1) WHEN 'tool' THEN v.tool
      ELSE v.principal END, v.kind_code, v.ts - h.ts
    FROM v_records v CROSS JOIN rec r ON r.log = ?1 AND r.idx = v.idx
    LEFT JOIN rec h ON h.id = (SELECT min(x.id) FROM rec x WHERE x.call = r.call AND x.kind <> 1001 AND +x.kind = 1031
      AND +x.log = ?1)
    WHERE v.log_id = ?1 AND v.kind_code IN (1031, 1032, 1033, 1034, 1035) AND v.kind_code <> 1001 AND v.kind_code <> 1002
      AND v.ts >= ?2 AND v.ts < ?3
      AND (?5 IS NULL OR +v.prn_id = (SELECT id FROM dict WHERE kind = 17 AND text = ?5))
      AND (?4 IS NULL OR +v.tool_id = (SELECT id FROM dict WHERE kind = 34 AND text = ?4))),
  ranked(who, waited, at, n) AS (
    SELECT who, waited, row_number() OVER (PARTITION BY who ORDER BY waited), count(*) OVER (PARTITION BY who)
    FROM said WHERE kind IN (1032, 1033) AND waited IS NOT NULL)
SELECT (SELECT t.name FROM log l JOIN tenant t ON t.id = l.tenant_id WHERE l.id = ?1) AS tenant, who AS value,
  count(CASE WHEN kind = 1031 THEN 1 END) AS asked, count(CASE WHEN kind = 1032 THEN 1 END) AS agreed, count(CASE WHEN kind = 1033 THEN 1 END) AS refused, count(CASE WHEN kind = 1034 THEN 1 END) AS lapsed,
  count(CASE WHEN kind = 1035 THEN 1 END) AS recalled, CAST(round(100.0 * count(CASE WHEN kind = 1033 THEN 1 END) / nullif(count(CASE WHEN kind IN (1032, 1033) THEN 1 END), 0), 1) AS REAL) AS refused_percent,
  (SELECT CAST(round(k.waited / 1000000.0, 3) AS REAL) FROM ranked k WHERE k.who = s.who AND k.at = (k.n + 1) / 2) AS median_seconds
FROM said s WHERE who IS NOT NULL GROUP BY who ORDER BY count(CASE WHEN kind IN (1032, 1033) THEN 1 END) DESC, value LIMIT ?8;

-- The same of a store with blocks.  Zones of blocks.
-- name: report_approvals_by_forms
-- takes: int int int text text text int int int int text
WITH said(who, kind, waited) AS MATERIALIZED (
    SELECT CASE ?11 WHEN 'person' THEN substr(v.approver, 1, instr(v.approver || ' (', ' (') - 1) WHEN 'tool' THEN v.tool
      ELSE v.principal END, v.kind_code, v.ts - h.ts
    FROM v_records v CROSS JOIN rec r ON r.log = ?1 AND r.idx = v.idx
    LEFT JOIN rec h ON h.id = (SELECT x.id FROM rec x WHERE x.log = ?1 AND x.kind <> 1001 AND x.kind = 1031 AND x.call = r.call
      ORDER BY x.idx LIMIT 1)
    WHERE v.log_id = ?1 AND v.kind_code IN (1031, 1032, 1033, 1034, 1035) AND v.kind_code <> 1001 AND v.kind_code <> 1002
      AND v.ts >= ?2 AND v.ts < ?3
      AND (?5 IS NULL OR +v.prn_id = (SELECT id FROM dict WHERE kind = 17 AND text = ?5))
      AND (?4 IS NULL OR +v.tool_id = (SELECT id FROM dict WHERE kind = 34 AND text = ?4))),
  ranked(who, waited, at, n) AS (
    SELECT who, waited, row_number() OVER (PARTITION BY who ORDER BY waited), count(*) OVER (PARTITION BY who)
    FROM said WHERE kind IN (1032, 1033) AND waited IS NOT NULL)
SELECT (SELECT t.name FROM log l JOIN tenant t ON t.id = l.tenant_id WHERE l.id = ?1) AS tenant, who AS value,
  count(CASE WHEN kind = 1031 THEN 1 END) AS asked, count(CASE WHEN kind = 1032 THEN 1 END) AS agreed, count(CASE WHEN kind = 1033 THEN 1 END) AS refused, count(CASE WHEN kind = 1034 THEN 1 END) AS lapsed,
  count(CASE WHEN kind = 1035 THEN 1 END) AS recalled, CAST(round(100.0 * count(CASE WHEN kind = 1033 THEN 1 END) / nullif(count(CASE WHEN kind IN (1032, 1033) THEN 1 END), 0), 1) AS REAL) AS refused_percent,
  (SELECT CAST(round(k.waited / 1000000.0, 3) AS REAL) FROM ranked k WHERE k.who = s.who AND k.at = (k.n + 1) / 2) AS median_seconds
FROM said s WHERE who IS NOT NULL GROUP BY who ORDER BY count(CASE WHEN kind IN (1032, 1033) THEN 1 END) DESC, value LIMIT ?8;

-- audit tasks: a row for each task that was made, and how its end is on record: in the end of a call, or in a record of its own.
-- A task of one run has it beside its call; of several, it is sought among what the principal did later.  rec_pos, rec_call, rec_prn.
-- name: report_tasks
-- takes: int int int text text text int int int int
SELECT v.time AS time, v.tenant AS tenant,
-- only: sqlite
  CAST(substr(r.ext, instr(r.ext, x'011900000016') + 6, 22) AS TEXT)
-- only: pgsql
  ext_text(r.ext, 281)
-- only: all
  AS task,
  CASE hex(substr(e.ext, instr(e.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) + 34, 1)) WHEN '03' THEN 'completed' WHEN '04' THEN 'failed'
    WHEN '05' THEN 'cancelled' ELSE 'open' END AS state, v.tool AS tool, v.principal AS principal,
  strftime('%Y-%m-%dT%H:%M:%S', e.ts / 1000000, 'unixepoch') || printf('.%06dZ', e.ts % 1000000) AS ended,
  CAST(round((e.ts - v.ts) / 1000000.0, 3) AS REAL) AS seconds, v.call AS call, v.ts AS _ts, v.idx AS _idx
FROM v_records v CROSS JOIN rec r ON r.log = ?1 AND r.idx = v.idx
LEFT JOIN rec e ON e.id = coalesce((SELECT min(x.id) FROM rec x WHERE x.call = r.call AND x.kind <> 1001 AND +x.log = ?1
      AND substr(x.ext, instr(x.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) + 28, 6) = x'011a00000001' AND instr(x.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) > 0),
    (SELECT min(x.id) FROM rec x WHERE x.log = ?1 AND x.kind <> 1001 AND x.prn = r.prn AND x.ts >= r.ts AND +x.kind IN (1002, 1004, 1024)
      AND substr(x.ext, instr(x.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) + 28, 6) = x'011a00000001' AND instr(x.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) > 0))
WHERE v.log_id = ?1 AND v.idx < ?9 AND v.idx >= ?10 AND +v.ts >= ?2 AND +v.ts < ?3 AND +v.kind_code = 1021
  AND (?5 IS NULL OR +v.prn_id = (SELECT id FROM dict WHERE kind = 17 AND text = ?5))
  AND (?4 IS NULL OR +v.tool_id = (SELECT id FROM dict WHERE kind = 34 AND text = ?4))
ORDER BY v.idx DESC LIMIT ?8;

-- The same of a store with blocks, which are read in their order up to the end.
-- name: report_tasks_forms
-- takes: int int int text text text int int int int
SELECT v.time AS time, v.tenant AS tenant,
-- only: sqlite
  CAST(substr(r.ext, instr(r.ext, x'011900000016') + 6, 22) AS TEXT)
-- only: pgsql
  ext_text(r.ext, 281)
-- only: all
  AS task,
  CASE hex(substr(e.ext, instr(e.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) + 34, 1)) WHEN '03' THEN 'completed' WHEN '04' THEN 'failed'
    WHEN '05' THEN 'cancelled' ELSE 'open' END AS state, v.tool AS tool, v.principal AS principal,
  strftime('%Y-%m-%dT%H:%M:%S', e.ts / 1000000, 'unixepoch') || printf('.%06dZ', e.ts % 1000000) AS ended,
  CAST(round((e.ts - v.ts) / 1000000.0, 3) AS REAL) AS seconds, v.call AS call, v.ts AS _ts, v.idx AS _idx
FROM v_records v CROSS JOIN rec r ON r.log = ?1 AND r.idx = v.idx
LEFT JOIN rec e ON e.id = (SELECT x.id FROM rec x WHERE x.log = ?1 AND x.kind <> 1001 AND x.prn = r.prn AND x.ts >= r.ts AND +x.kind IN (1002, 1004, 1024)
      AND substr(x.ext, instr(x.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) + 28, 6) = x'011a00000001' AND instr(x.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) > 0
      ORDER BY x.idx LIMIT 1)
WHERE v.log_id = ?1 AND v.idx < ?9 AND v.idx >= ?10 AND +v.ts >= ?2 AND +v.ts < ?3 AND +v.kind_code = 1021
  AND (?5 IS NULL OR +v.prn_id = (SELECT id FROM dict WHERE kind = 17 AND text = ?5))
  AND (?4 IS NULL OR +v.tool_id = (SELECT id FROM dict WHERE kind = 34 AND text = ?4))
ORDER BY v.idx DESC LIMIT ?8;

-- audit tasks --open: those that have no end on record.
-- name: report_tasks_open
-- takes: int int int text text text int int int int
SELECT v.time AS time, v.tenant AS tenant,
-- only: sqlite
  CAST(substr(r.ext, instr(r.ext, x'011900000016') + 6, 22) AS TEXT)
-- only: pgsql
  ext_text(r.ext, 281)
-- only: all
  AS task,
  CASE hex(substr(e.ext, instr(e.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) + 34, 1)) WHEN '03' THEN 'completed' WHEN '04' THEN 'failed'
    WHEN '05' THEN 'cancelled' ELSE 'open' END AS state, v.tool AS tool, v.principal AS principal,
  strftime('%Y-%m-%dT%H:%M:%S', e.ts / 1000000, 'unixepoch') || printf('.%06dZ', e.ts % 1000000) AS ended,
  CAST(round((e.ts - v.ts) / 1000000.0, 3) AS REAL) AS seconds, v.call AS call, v.ts AS _ts, v.idx AS _idx
FROM v_records v CROSS JOIN rec r ON r.log = ?1 AND r.idx = v.idx
LEFT JOIN rec e ON e.id = coalesce((SELECT min(x.id) FROM rec x WHERE x.call = r.call AND x.kind <> 1001 AND +x.log = ?1
      AND substr(x.ext, instr(x.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) + 28, 6) = x'011a00000001' AND instr(x.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) > 0),
    (SELECT min(x.id) FROM rec x WHERE x.log = ?1 AND x.kind <> 1001 AND x.prn = r.prn AND x.ts >= r.ts AND +x.kind IN (1002, 1004, 1024)
      AND substr(x.ext, instr(x.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) + 28, 6) = x'011a00000001' AND instr(x.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) > 0))
WHERE v.log_id = ?1 AND v.idx < ?9 AND v.idx >= ?10 AND +v.ts >= ?2 AND +v.ts < ?3 AND +v.kind_code = 1021 AND e.id IS NULL
  AND (?5 IS NULL OR +v.prn_id = (SELECT id FROM dict WHERE kind = 17 AND text = ?5))
  AND (?4 IS NULL OR +v.tool_id = (SELECT id FROM dict WHERE kind = 34 AND text = ?4))
ORDER BY v.idx DESC LIMIT ?8;

-- The same of a store with blocks.
-- name: report_tasks_open_forms
-- takes: int int int text text text int int int int
SELECT v.time AS time, v.tenant AS tenant,
-- only: sqlite
  CAST(substr(r.ext, instr(r.ext, x'011900000016') + 6, 22) AS TEXT)
-- only: pgsql
  ext_text(r.ext, 281)
-- only: all
  AS task,
  CASE hex(substr(e.ext, instr(e.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) + 34, 1)) WHEN '03' THEN 'completed' WHEN '04' THEN 'failed'
    WHEN '05' THEN 'cancelled' ELSE 'open' END AS state, v.tool AS tool, v.principal AS principal,
  strftime('%Y-%m-%dT%H:%M:%S', e.ts / 1000000, 'unixepoch') || printf('.%06dZ', e.ts % 1000000) AS ended,
  CAST(round((e.ts - v.ts) / 1000000.0, 3) AS REAL) AS seconds, v.call AS call, v.ts AS _ts, v.idx AS _idx
FROM v_records v CROSS JOIN rec r ON r.log = ?1 AND r.idx = v.idx
LEFT JOIN rec e ON e.id = (SELECT x.id FROM rec x WHERE x.log = ?1 AND x.kind <> 1001 AND x.prn = r.prn AND x.ts >= r.ts AND +x.kind IN (1002, 1004, 1024)
      AND substr(x.ext, instr(x.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) + 28, 6) = x'011a00000001' AND instr(x.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) > 0
      ORDER BY x.idx LIMIT 1)
WHERE v.log_id = ?1 AND v.idx < ?9 AND v.idx >= ?10 AND +v.ts >= ?2 AND +v.ts < ?3 AND +v.kind_code = 1021 AND e.id IS NULL
  AND (?5 IS NULL OR +v.prn_id = (SELECT id FROM dict WHERE kind = 17 AND text = ?5))
  AND (?4 IS NULL OR +v.tool_id = (SELECT id FROM dict WHERE kind = 34 AND text = ?4))
ORDER BY v.idx DESC LIMIT ?8;

-- audit tasks --by: how many, how they ended, and half of those within so many seconds.  rec_kind, rec_call, rec_prn.
-- name: report_tasks_by
-- takes: int int int text text text int int int int text
WITH made(what, state, waited) AS MATERIALIZED (
    SELECT CASE ?11 WHEN 'tool' THEN v.tool WHEN 'principal' THEN v.principal ELSE CASE hex(substr(e.ext, instr(e.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) + 34, 1)) WHEN '03' THEN 'completed' WHEN '04' THEN 'failed'
    WHEN '05' THEN 'cancelled' ELSE 'open' END END,
      CASE hex(substr(e.ext, instr(e.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) + 34, 1)) WHEN '03' THEN 'completed' WHEN '04' THEN 'failed'
    WHEN '05' THEN 'cancelled' ELSE 'open' END, e.ts - v.ts
    FROM v_records v CROSS JOIN rec r ON r.log = ?1 AND r.idx = v.idx
    LEFT JOIN rec e ON e.id = coalesce((SELECT min(x.id) FROM rec x WHERE x.call = r.call AND x.kind <> 1001 AND +x.log = ?1
      AND substr(x.ext, instr(x.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) + 28, 6) = x'011a00000001' AND instr(x.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) > 0),
    (SELECT min(x.id) FROM rec x WHERE x.log = ?1 AND x.kind <> 1001 AND x.prn = r.prn AND x.ts >= r.ts AND +x.kind IN (1002, 1004, 1024)
      AND substr(x.ext, instr(x.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) + 28, 6) = x'011a00000001' AND instr(x.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) > 0))
    WHERE v.log_id = ?1 AND v.kind_code = 1021 AND v.kind_code <> 1001 AND v.kind_code <> 1002 AND v.ts >= ?2 AND v.ts < ?3
      AND (?5 IS NULL OR +v.prn_id = (SELECT id FROM dict WHERE kind = 17 AND text = ?5))
  AND (?4 IS NULL OR +v.tool_id = (SELECT id FROM dict WHERE kind = 34 AND text = ?4))),
  ranked(what, waited, at, n) AS (
    SELECT what, waited, row_number() OVER (PARTITION BY what ORDER BY waited), count(*) OVER (PARTITION BY what)
    FROM made WHERE waited IS NOT NULL)
SELECT (SELECT t.name FROM log l JOIN tenant t ON t.id = l.tenant_id WHERE l.id = ?1) AS tenant, what AS value, count(*) AS made,
  count(CASE WHEN state = 'completed' THEN 1 END) AS completed, count(CASE WHEN state = 'failed' THEN 1 END) AS failed, count(CASE WHEN state = 'cancelled' THEN 1 END) AS cancelled,
  count(CASE WHEN state = 'open' THEN 1 END) AS open, (SELECT CAST(round(k.waited / 1000000.0, 3) AS REAL) FROM ranked k WHERE k.what = m.what AND k.at = (k.n + 1) / 2) AS median_seconds
FROM made m WHERE what IS NOT NULL GROUP BY what ORDER BY made DESC, value LIMIT ?8;

-- The same of a store with blocks.  Zones of blocks.
-- name: report_tasks_by_forms
-- takes: int int int text text text int int int int text
WITH made(what, state, waited) AS MATERIALIZED (
    SELECT CASE ?11 WHEN 'tool' THEN v.tool WHEN 'principal' THEN v.principal ELSE CASE hex(substr(e.ext, instr(e.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) + 34, 1)) WHEN '03' THEN 'completed' WHEN '04' THEN 'failed'
    WHEN '05' THEN 'cancelled' ELSE 'open' END END,
      CASE hex(substr(e.ext, instr(e.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) + 34, 1)) WHEN '03' THEN 'completed' WHEN '04' THEN 'failed'
    WHEN '05' THEN 'cancelled' ELSE 'open' END, e.ts - v.ts
    FROM v_records v CROSS JOIN rec r ON r.log = ?1 AND r.idx = v.idx
    LEFT JOIN rec e ON e.id = (SELECT x.id FROM rec x WHERE x.log = ?1 AND x.kind <> 1001 AND x.prn = r.prn AND x.ts >= r.ts AND +x.kind IN (1002, 1004, 1024)
      AND substr(x.ext, instr(x.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) + 28, 6) = x'011a00000001' AND instr(x.ext, substr(r.ext, instr(r.ext, x'011900000016'), 28)) > 0
      ORDER BY x.idx LIMIT 1)
    WHERE v.log_id = ?1 AND v.kind_code = 1021 AND v.kind_code <> 1001 AND v.kind_code <> 1002 AND v.ts >= ?2 AND v.ts < ?3
      AND (?5 IS NULL OR +v.prn_id = (SELECT id FROM dict WHERE kind = 17 AND text = ?5))
  AND (?4 IS NULL OR +v.tool_id = (SELECT id FROM dict WHERE kind = 34 AND text = ?4))),
  ranked(what, waited, at, n) AS (
    SELECT what, waited, row_number() OVER (PARTITION BY what ORDER BY waited), count(*) OVER (PARTITION BY what)
    FROM made WHERE waited IS NOT NULL)
SELECT (SELECT t.name FROM log l JOIN tenant t ON t.id = l.tenant_id WHERE l.id = ?1) AS tenant, what AS value, count(*) AS made,
  count(CASE WHEN state = 'completed' THEN 1 END) AS completed, count(CASE WHEN state = 'failed' THEN 1 END) AS failed, count(CASE WHEN state = 'cancelled' THEN 1 END) AS cancelled,
  count(CASE WHEN state = 'open' THEN 1 END) AS open, (SELECT CAST(round(k.waited / 1000000.0, 3) AS REAL) FROM ranked k WHERE k.what = m.what AND k.at = (k.n + 1) / 2) AS median_seconds
FROM made m WHERE what IS NOT NULL GROUP BY what ORDER BY made DESC, value LIMIT ?8;

-- audit anomalies: plain rules.  A tool that a principal had not used before; a day with ten times the calls of the days
-- before it (at least 50); calls between 22 and 6 h UTC by who makes less than a twentieth of its calls then; a day with 20
-- refusals or more.  Sums.
-- name: report_anomalies
-- takes: int int int text text text int int
WITH c(prn, tool, day, night, kind, n, a, z) AS MATERIALIZED (
    SELECT prn, tool, day, night, kind, sum(n), min(ts_min), max(ts_max) FROM rollup r WHERE r.log = ?1 AND r.since = ?2 AND r.until = ?3 AND r.called = 1
    GROUP BY prn, tool, day, night, kind HAVING prn IS NOT NULL),
  ever(prn, ts) AS MATERIALIZED (
    SELECT prn, min(ts_min) FROM rollup WHERE log = ?1 AND since = 0 AND until = ?3 AND called = 1 GROUP BY prn),
  past(prn, tool) AS MATERIALIZED (
    SELECT DISTINCT prn, tool FROM rollup WHERE log = ?1 AND since = 0 AND until = ?2),
  daily(prn, day, n, refused) AS MATERIALIZED (
    SELECT prn, day, sum(n), sum(CASE WHEN kind = 1003 THEN n ELSE 0 END) FROM c GROUP BY prn, day),
  firsts(prn, tool, ts) AS (
    SELECT prn, tool, min(a) FROM c WHERE kind <> 1003 AND tool IS NOT NULL GROUP BY prn, tool),
  found(what, prn, tool, ts, seen, usual) AS (
    SELECT 'new tool', prn, tool, ts, 1, 0 FROM firsts f
    WHERE EXISTS (SELECT 1 FROM ever e WHERE e.prn = f.prn AND e.ts < f.ts)
      AND NOT EXISTS (SELECT 1 FROM past x WHERE x.prn = f.prn AND x.tool = f.tool)
    UNION ALL
    SELECT 'volume', x.prn, NULL, x.day * 86400000000, x.n, avg(y.n)
    FROM daily x JOIN daily y ON y.prn = x.prn AND y.day < x.day AND y.day >= x.day - 30 WHERE x.n >= 50
    GROUP BY x.prn, x.day, x.n HAVING x.n >= 10 * avg(y.n)
    UNION ALL
    SELECT 'odd hours', prn, NULL, max(CASE WHEN night = 1 THEN z END), sum(CASE WHEN night = 1 THEN n ELSE 0 END), sum(n)
    FROM c GROUP BY prn HAVING sum(n) >= 20 AND sum(CASE WHEN night = 1 THEN n ELSE 0 END) BETWEEN 1 AND sum(n) / 20
    UNION ALL
    SELECT 'denials', prn, NULL, day * 86400000000, refused, n FROM daily WHERE refused >= 20)
SELECT strftime('%Y-%m-%dT%H:%M:%S', f.ts / 1000000, 'unixepoch') || printf('.%06dZ', f.ts % 1000000) AS time, f.what AS what,
  coalesce(p.name, d.text) AS principal, g.text AS tool, CAST(f.seen AS INTEGER) AS seen, CAST(round(f.usual, 1) AS REAL) AS usual
FROM found f LEFT JOIN dict d ON d.id = f.prn LEFT JOIN dict g ON g.id = f.tool
LEFT JOIN principal p ON p.pseudonym = d.text AND p.tenant_id = (SELECT tenant_id FROM log WHERE id = ?1)
ORDER BY f.ts DESC, what, 3, 4 NULLS FIRST LIMIT ?8;

-- audit capacity: each log's share, and how it grew.  Primary key, rec_ts.
-- name: report_capacity
-- takes: int int int text text text int int int int text int
SELECT l.origin AS log, (SELECT t.name FROM tenant t WHERE t.id = l.tenant_id) AS tenant, h.size AS records,
  (SELECT h.size - x.idx FROM rec x WHERE x.log = l.id AND x.kind <> 1001 AND x.ts >= ?12 - 86400000000 ORDER BY x.ts LIMIT 1) AS last_day,
  (SELECT h.size - x.idx FROM rec x WHERE x.log = l.id AND x.kind <> 1001 AND x.ts >= ?12 - 604800000000 ORDER BY x.ts LIMIT 1) AS last_week,
  CAST(round(100.0 * h.size / (SELECT max(CAST(sum(size) AS INTEGER), 1) FROM head), 1) AS REAL) AS percent
FROM log l JOIN head h ON h.log = l.id ORDER BY records DESC, log LIMIT ?8;

-- The same of a store with blocks: what comes first by position says before which time the first one is.  Times of blocks.
-- name: report_capacity_forms
-- takes: int int int text text text int int int int text int
SELECT l.origin AS log, (SELECT t.name FROM tenant t WHERE t.id = l.tenant_id) AS tenant, h.size AS records,
  h.size - (SELECT x.idx FROM rec x WHERE x.log = l.id AND x.kind <> 1001 AND x.ts >= ?12 - 86400000000
    AND x.ts <= (SELECT y.ts FROM rec y WHERE y.log = l.id AND y.kind <> 1001 AND y.ts >= ?12 - 86400000000 ORDER BY y.idx LIMIT 1)
    ORDER BY x.ts LIMIT 1) AS last_day,
  h.size - (SELECT x.idx FROM rec x WHERE x.log = l.id AND x.kind <> 1001 AND x.ts >= ?12 - 604800000000
    AND x.ts <= (SELECT y.ts FROM rec y WHERE y.log = l.id AND y.kind <> 1001 AND y.ts >= ?12 - 604800000000 ORDER BY y.idx LIMIT 1)
    ORDER BY x.ts LIMIT 1) AS last_week,
  CAST(round(100.0 * h.size / (SELECT max(CAST(sum(size) AS INTEGER), 1) FROM head), 1) AS REAL) AS percent
FROM log l JOIN head h ON h.log = l.id ORDER BY records DESC, log LIMIT ?8;

-- audit capacity --tables: what each table and each index takes of the file, by looking at all its pages, and of each record
-- that it has: rows, records in blocks, or all.  dbstat; rec_order, primary keys.
-- name: report_capacity_tables
-- takes: int int int text text text int int
-- only: sqlite
WITH of(cut, size, line, row) AS MATERIALIZED (
  SELECT l.min_idx, h.size,
    coalesce((SELECT b.first + b.cnt FROM main.blk b WHERE b.log = l.id ORDER BY b.first DESC LIMIT 1),
      (SELECT s.to_idx FROM main.seg s WHERE s.log = l.id ORDER BY s.from_idx DESC LIMIT 1), 0),
    max(coalesce((SELECT x.idx FROM main.rec_at x WHERE x.log = l.id ORDER BY x.span, x.idx LIMIT 1), h.size), l.min_idx)
  FROM log l JOIN head h ON h.log = l.id)
SELECT coalesce(m.tbl_name, s.name) AS "table", CASE WHEN m.type = 'index' THEN s.name END AS "index", s.pgsize AS bytes,
  s.unused AS unused_bytes,
  round(1.0 * s.pgsize / (SELECT max(CASE WHEN m.tbl_name IN ('rec', 'pay') THEN sum(size - row)
    WHEN m.tbl_name IN ('blk', 'blkpay', 'chap', 'book') THEN sum(max(line - cut, 0)) ELSE sum(size - cut) END, 1) FROM of), 1) AS bytes_per_record,
  round(100.0 * s.pgsize / (SELECT page_count FROM pragma_page_count) / (SELECT page_size FROM pragma_page_size), 1) AS percent
FROM dbstat s LEFT JOIN sqlite_master m ON m.name = s.name WHERE s.aggregate = TRUE ORDER BY bytes DESC, "table", "index" LIMIT ?8;
-- only: pgsql
WITH part(oid, name) AS (
    SELECT c.oid, CASE WHEN c.relispartition THEN (SELECT p.relname FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent WHERE i.inhrelid = c.oid)
      ELSE c.relname END FROM pg_class c WHERE c.relnamespace = 'toolcrib'::regnamespace AND c.relkind = 'r'),
  one("table", "index", bytes) AS (
    SELECT p.name::text, NULL::text, pg_table_size(p.oid) FROM part p
    UNION ALL SELECT p.name::text, coalesce((SELECT g.relname FROM pg_inherits h JOIN pg_class g ON g.oid = h.inhparent WHERE h.inhrelid = x.indexrelid), c.relname)::text,
      pg_relation_size(x.indexrelid) FROM part p JOIN pg_index x ON x.indrelid = p.oid JOIN pg_class c ON c.oid = x.indexrelid),
  all_of(n) AS (SELECT max(CAST(sum(h.size - l.min_idx) AS int8), 1::int8) FROM log l JOIN head h ON h.log = l.id)
SELECT o."table" AS "table", o."index" AS "index", CAST(sum(o.bytes) AS int8) AS bytes, 0::int8 AS unused_bytes,
  CAST(round(1.0 * sum(o.bytes) / (SELECT n FROM all_of), 1) AS float8) AS bytes_per_record,
  CAST(round(100.0 * sum(o.bytes) / pg_database_size(current_database()), 1) AS float8) AS percent
FROM one o
GROUP BY 1, 2 ORDER BY bytes DESC, "table", "index" NULLS FIRST LIMIT ?8;

-- audit capacity --events: when room was short.  rec_kind of the system log.
-- name: report_capacity_events
-- takes: int int int text text text int int int
SELECT time, kind, detail, ts AS _ts, idx AS _idx FROM v_lifecycle
WHERE log_id = ?1 AND kind_code IN (1608, 1609, 1610) AND +ts >= ?2 AND +ts < ?3 AND +idx < ?9
ORDER BY +idx DESC LIMIT ?8;

-- key list --review.  Index cred_principal; rec_kind, rec_cred for the newest record of each key.
-- name: report_key_review
-- takes: int int int text text text int int int int text int
SELECT c.accessor AS accessor, t.name || '/' || p.name AS principal,
  CASE WHEN c.revoked_us IS NOT NULL THEN 'revoked' WHEN c.expires_us <= ?12 THEN 'expired' WHEN p.state <> 1 OR c.suspended_us IS NOT NULL THEN 'suspended'
    WHEN t.state <> 1 THEN 'tenant not active' ELSE 'active' END AS state,
  (?12 - c.created_us) / 86400000000 AS age_days,
  strftime('%Y-%m-%dT%H:%M:%S', c.created_us / 1000000, 'unixepoch') || printf('.%06dZ', c.created_us % 1000000) AS created,
  CASE WHEN c.expires_us IS NOT NULL THEN strftime('%Y-%m-%dT%H:%M:%S', c.expires_us / 1000000, 'unixepoch')
    || printf('.%06dZ', c.expires_us % 1000000) END AS expires,
  CASE WHEN c.last_used_us IS NOT NULL THEN strftime('%Y-%m-%dT%H:%M:%S', c.last_used_us / 1000000, 'unixepoch')
    || printf('.%06dZ', c.last_used_us % 1000000) END AS last_used,
  CASE WHEN c.rotated_us IS NOT NULL THEN strftime('%Y-%m-%dT%H:%M:%S', c.rotated_us / 1000000, 'unixepoch')
    || printf('.%06dZ', c.rotated_us % 1000000) END AS rotated,
  c.scopes AS scopes, (SELECT group_concat(g.glob, ' ') FROM (SELECT glob FROM tool_grant WHERE tenant_id = c.tenant_id ORDER BY glob) g) AS grants, c.label AS label
FROM log l JOIN tenant t ON t.id = l.tenant_id JOIN cred c ON c.tenant_id = t.id JOIN principal p ON p.id = c.principal_id
WHERE l.id = ?1 AND (?5 IS NULL OR p.pseudonym = ?5) ORDER BY p.name, c.id LIMIT ?8;

-- key list --stale: keys that may still be used but were not since ?2, whose secret is older, or that never end.  Index
-- cred_principal.
-- name: report_key_stale
-- takes: int int int text text text int int int int text int
SELECT c.accessor AS accessor, t.name || '/' || p.name AS principal,
  CASE WHEN c.last_used_us IS NULL THEN 'never used' WHEN c.last_used_us < ?2 THEN 'not used since'
    WHEN c.expires_us IS NULL THEN 'no expiry' ELSE 'not rotated since' END AS why,
  (?12 - c.created_us) / 86400000000 AS age_days,
  CASE WHEN c.last_used_us IS NOT NULL THEN strftime('%Y-%m-%dT%H:%M:%S', c.last_used_us / 1000000, 'unixepoch')
    || printf('.%06dZ', c.last_used_us % 1000000) END AS last_used, c.label AS label
FROM log l JOIN tenant t ON t.id = l.tenant_id JOIN cred c ON c.tenant_id = t.id JOIN principal p ON p.id = c.principal_id
WHERE l.id = ?1 AND (?5 IS NULL OR p.pseudonym = ?5) AND c.revoked_us IS NULL AND (c.expires_us IS NULL OR c.expires_us > ?12)
  AND (c.expires_us IS NULL OR coalesce(c.last_used_us, c.created_us) < ?2 OR coalesce(c.rotated_us, c.created_us) < ?2)
ORDER BY p.name, c.id LIMIT ?8;

-- key list --unused-scopes: grants that a key could use and did not since ?2.  Index cred_principal, rec_cred.
-- name: report_key_unused
-- takes: int int int text text text int int int int text int
SELECT c.accessor AS accessor, t.name || '/' || p.name AS principal, g.glob AS "grant", nullif(g.alias, '') AS alias,
  (?12 - g.created_us) / 86400000000 AS granted_days, c.label AS label
FROM log l JOIN tenant t ON t.id = l.tenant_id JOIN cred c ON c.tenant_id = t.id JOIN principal p ON p.id = c.principal_id
JOIN tool_grant g ON g.tenant_id = t.id
WHERE l.id = ?1 AND (?5 IS NULL OR p.pseudonym = ?5) AND c.revoked_us IS NULL AND (c.expires_us IS NULL OR c.expires_us > ?12)
  AND NOT EXISTS (SELECT 1 FROM dict d JOIN rec r ON r.cred = d.id JOIN dict n ON n.id = r.tool
    WHERE d.kind = 16 AND d.text = c.accessor AND r.log = ?1 AND r.kind <> 1001 AND r.ts >= ?2
      AND (n.text = g.alias OR (g.alias = '' AND n.text GLOB g.glob)))
ORDER BY p.name, c.id, g.glob LIMIT ?8;

-- The same of a store with blocks.  Sums.
-- name: report_key_unused_forms
-- takes: int int int text text text int int int int text int
WITH used("key", tool) AS MATERIALIZED (SELECT DISTINCT d.text, n.text FROM rollup r JOIN dict d ON d.id = r.cred JOIN dict n ON n.id = r.tool
  WHERE r.log = ?1 AND r.since = ?2 AND r.until = 9223372036854775807 AND d.kind = 16)
SELECT c.accessor AS accessor, t.name || '/' || p.name AS principal, g.glob AS "grant", nullif(g.alias, '') AS alias,
  (?12 - g.created_us) / 86400000000 AS granted_days, c.label AS label
FROM log l JOIN tenant t ON t.id = l.tenant_id JOIN cred c ON c.tenant_id = t.id JOIN principal p ON p.id = c.principal_id
JOIN tool_grant g ON g.tenant_id = t.id
WHERE l.id = ?1 AND (?5 IS NULL OR p.pseudonym = ?5) AND c.revoked_us IS NULL AND (c.expires_us IS NULL OR c.expires_us > ?12)
  AND NOT EXISTS (SELECT 1 FROM used u WHERE u."key" = c.accessor
      AND (u.tool = g.alias OR (g.alias = '' AND u.tool GLOB g.glob)))
ORDER BY p.name, c.id, g.glob LIMIT ?8;

-- tool-health, stats: calls by tool, or by slots of time that are ?12 long: how many of a kind and outcome, the longest; and
-- with a step how many took how long.  Sums, in one pass.
-- name: report_durations
-- takes: int int int text
-- only: sqlite
SELECT r.tool, r.kind, r.outcome, r.step, r.n, r.dur_max FROM rollup_hist r
WHERE r.log = ?1 AND r.since = ?2 AND r.until = ?3
  AND r.of_tool = CASE WHEN ?4 IS NULL THEN -1 ELSE coalesce((SELECT id FROM dict WHERE kind = 34 AND text = ?4), -2) END;
-- only: pgsql
SELECT r.tool, r.kind, r.outcome, NULL::int8, count(*), max(coalesce(r.dur, 0)) FROM rec r
WHERE r.kind <> 1001 AND r.log = ?1 AND r.ts >= ?2 AND r.ts < ?3 AND r.call IS NOT NULL
  AND (?4 IS NULL OR r.tool = (SELECT id FROM dict WHERE kind = 34 AND text = ?4)) GROUP BY 1, 2, 3
UNION ALL SELECT r.tool, r.kind, NULL, step_of(r.dur), count(*), NULL FROM rec r
WHERE r.kind = 1002 AND r.log = ?1 AND r.ts >= ?2 AND r.ts < ?3 AND r.call IS NOT NULL
  AND (?4 IS NULL OR r.tool = (SELECT id FROM dict WHERE kind = 34 AND text = ?4)) GROUP BY 1, 2, 4;

-- name: report_durations_by_time
-- takes: int int int text text text int int int int text int
-- only: sqlite
SELECT r.slot, r.kind, r.outcome, r.step, r.n, r.dur_max FROM rollup_hist r
WHERE r.log = ?1 AND r.since = ?2 AND r.until = ?3 AND r.every = ?12
  AND r.of_tool = CASE WHEN ?4 IS NULL THEN -1 ELSE coalesce((SELECT id FROM dict WHERE kind = 34 AND text = ?4), -2) END;
-- only: pgsql
SELECT (r.ts - ?2) / ?12, r.kind, r.outcome, NULL::int8, count(*), max(coalesce(r.dur, 0)) FROM rec r
WHERE r.kind <> 1001 AND r.log = ?1 AND r.ts >= ?2 AND r.ts < ?3 AND r.call IS NOT NULL
  AND (?4 IS NULL OR r.tool = (SELECT id FROM dict WHERE kind = 34 AND text = ?4)) GROUP BY 1, 2, 3
UNION ALL SELECT (r.ts - ?2) / ?12, r.kind, NULL, step_of(r.dur), count(*), NULL FROM rec r
WHERE r.kind = 1002 AND r.log = ?1 AND r.ts >= ?2 AND r.ts < ?3 AND r.call IS NOT NULL
  AND (?4 IS NULL OR r.tool = (SELECT id FROM dict WHERE kind = 34 AND text = ?4)) GROUP BY 1, 2, 4;

-- The header of a report: the log.  Primary keys.
-- name: report_head
-- takes: int
SELECT l.origin, (SELECT t.name FROM tenant t WHERE t.id = l.tenant_id), h.size, l.min_idx
FROM log l JOIN head h ON h.log = l.id WHERE l.id = ?1;

-- Positions of the first and last record in a span of time.  rec_ts.
-- name: report_head_span
-- takes: int int int
SELECT (SELECT idx FROM rec WHERE log = ?1 AND kind <> 1001 AND ts >= ?2 AND ts < ?3 ORDER BY ts, idx LIMIT 1),
  (SELECT idx FROM rec WHERE log = ?1 AND kind <> 1001 AND ts >= ?2 AND ts < ?3 ORDER BY ts DESC, idx DESC LIMIT 1);

-- The same of a store with blocks: what comes first by position says before which time the first one is, so that blocks of
-- other times are left out.  Times of blocks.
-- name: report_head_span_forms
-- takes: int int int
SELECT (SELECT idx FROM rec WHERE log = ?1 AND kind <> 1001 AND ts >= ?2 AND ts < ?3
    AND ts <= (SELECT ts FROM rec WHERE log = ?1 AND kind <> 1001 AND ts >= ?2 AND ts < ?3 ORDER BY idx LIMIT 1) ORDER BY ts, idx LIMIT 1),
  (SELECT idx FROM rec WHERE log = ?1 AND kind <> 1001 AND ts >= ?2 AND ts < ?3
    AND ts >= (SELECT ts FROM rec WHERE log = ?1 AND kind <> 1001 AND ts >= ?2 AND ts < ?3 ORDER BY idx DESC LIMIT 1)
    ORDER BY ts DESC, idx DESC LIMIT 1);

-- Of a store with blocks: the first and the last record by position that are of a span of time.  Times of blocks.
-- name: report_edges
-- takes: int int int
SELECT (SELECT idx FROM rec WHERE log = ?1 AND ts >= ?2 AND ts < ?3 ORDER BY idx LIMIT 1),
  (SELECT idx FROM rec WHERE log = ?1 AND ts >= ?2 AND ts < ?3 ORDER BY idx DESC LIMIT 1);

-- The header: the newest record of a verification, of those that are signed.  rec_kind.
-- name: report_head_verified
-- takes: int int
SELECT idx FROM rec WHERE log = ?1 AND kind <> 1001 AND kind <> 1002 AND kind = 1803 AND +idx < ?2 ORDER BY ts DESC LIMIT 1;

-- The header: how far a log is signed, and the time of the last record in it; that of the checkpoint's row is nobody's word.
-- Primary keys, rec_pos.
-- name: report_head_signed
-- takes: int
SELECT r.ts, c.size FROM cp c LEFT JOIN rec r ON r.log = c.log AND r.idx = c.size - 1
WHERE c.log = ?1 AND c.size <= (SELECT h.size FROM head h WHERE h.log = ?1) ORDER BY c.size DESC LIMIT 1;

-- The header: when a checkpoint was last taken outside, by the record of that.  rec_kind.
-- name: report_head_anchor
SELECT ts, idx FROM rec WHERE log = 1 AND kind <> 1001 AND kind <> 1002 AND kind = 2002 ORDER BY ts DESC LIMIT 1;

-- The header: how many of a kind.  rec_kind.
-- name: report_head_count
-- takes: int int
SELECT count(*) FROM rec WHERE log = ?1 AND kind <> 1001 AND kind <> 1002 AND kind = ?2;

-- The header of what counts by sums: chapters that have none, in a span of time.  Primary key.
-- name: report_head_decoded
-- takes: int int int
-- only: sqlite
SELECT count(*) FROM chap WHERE log = ?1 AND ts_max >= ?2 AND ts_min < ?3 AND length(sums) = 1;
-- only: pgsql
SELECT 0::int8 WHERE ?3 IS NOT NULL;

-- The header of audit capacity: bytes of the file, those of them that no page uses, records that are there, records since ?1,
-- the time of the first.  rec_ts, rec_pos.
-- name: report_room
-- takes: int
-- only: sqlite
SELECT (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size),
  (SELECT freelist_count FROM pragma_freelist_count) * (SELECT page_size FROM pragma_page_size),
-- only: pgsql
SELECT pg_database_size(current_database()), 0::int8,
-- only: all
  CAST(coalesce(sum(h.size - l.min_idx), 0) AS INTEGER),
  CAST(coalesce(sum(h.size - (SELECT x.idx FROM rec x WHERE x.log = h.log AND x.kind <> 1001 AND x.ts >= ?1
    ORDER BY x.ts LIMIT 1)), 0) AS INTEGER),
  (SELECT x.ts FROM rec x JOIN log s ON s.id = 1 WHERE x.log = 1 AND x.idx = s.min_idx)
FROM head h JOIN log l ON l.id = h.log;

-- The same of a store with blocks, as report_capacity_forms.
-- name: report_room_in_forms
-- takes: int
SELECT (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size),
  (SELECT freelist_count FROM pragma_freelist_count) * (SELECT page_size FROM pragma_page_size), coalesce(sum(h.size - l.min_idx), 0),
  coalesce(sum(h.size - (SELECT x.idx FROM rec x WHERE x.log = h.log AND x.kind <> 1001 AND x.ts >= ?1
    AND x.ts <= (SELECT y.ts FROM rec y WHERE y.log = h.log AND y.kind <> 1001 AND y.ts >= ?1 ORDER BY y.idx LIMIT 1)
    ORDER BY x.ts LIMIT 1)), 0),
  (SELECT x.ts FROM rec x JOIN log s ON s.id = 1 WHERE x.log = 1 AND x.idx = s.min_idx)
FROM head h JOIN log l ON l.id = h.log;

-- The header of audit capacity: records that are rows alone, records in blocks or files, bytes of a record in blocks (by the newest 64
-- blocks, without what is kept beside them), rows that a plain sqlite3 has, and from when on it has a row of every record; NULL: of all.  rec_order, primary keys.
-- name: report_room_forms
-- only: sqlite
WITH of(log, cut, size, line, row) AS MATERIALIZED (
  SELECT l.id, l.min_idx, h.size,
    coalesce((SELECT b.first + b.cnt FROM main.blk b WHERE b.log = l.id ORDER BY b.first DESC LIMIT 1), 0),
    max(coalesce((SELECT x.idx FROM main.rec_at x WHERE x.log = l.id ORDER BY x.span, x.idx LIMIT 1), h.size), l.min_idx)
  FROM log l JOIN head h ON h.log = l.id)
SELECT sum(size - max(line, cut)), sum(max(line - cut, 0)),
  (SELECT sum(n) / sum(cnt) FROM (SELECT b.cnt AS cnt, length(b.cols) + length(b.hash) + length(b.zone) AS n
    FROM main.blk b ORDER BY b.rowid DESC LIMIT 64)),
  sum(size - row),
  max(CASE WHEN row > cut THEN coalesce((SELECT b.ts_max FROM main.blk b WHERE b.log = of.log AND b.first < row
      ORDER BY b.first DESC LIMIT 1),
    (SELECT s.ts_max FROM main.seg s WHERE s.log = of.log AND s.from_idx < row ORDER BY s.from_idx DESC LIMIT 1)) END)
FROM of;
-- only: pgsql
SELECT CAST(sum(h.size - l.min_idx) AS int8), 0::int8, NULL::int8, CAST(sum(h.size - l.min_idx) AS int8), NULL::int8
FROM log l JOIN head h ON h.log = l.id;

-- audit tail, export; texts.c makes texts of them.  rec_pos.
-- name: report_records
-- takes: int int int int int row
SELECT row_out(?6, e.idx, e.kind, e.ts, e.call, e.prev, e.trace, e.ext, e.cred, e.prn, e.tool, e.rule, e.obo, e.peer, e.client,
  e.rev, e.tdef, e.pol, e.scope, e.sbox, e.obj, e.boot, e.build, e.actor, e.authn, e.tport, e.clk, e.outcome, e.flags, e.n_req,
  e.n_res, e.n_sto, e.xstat, e.sig, e.dur, e.cpu, e.rss, e.beg, e.sys, e.mdl) AS _row, e.idx AS _at
FROM rec e WHERE e.log = ?1 AND e.idx >= ?2 AND e.idx < ?3 AND +e.ts < ?5 ORDER BY e.idx LIMIT ?4;

-- The same when not all are wanted: those of a part from ?10 to below ?9 that ?12, a kind or 0, and the others choose.  rec_pos.
-- name: report_records_chosen
-- takes: int int int text text text int int int int text int row
SELECT row_out(?13, e.idx, e.kind, e.ts, e.call, e.prev, e.trace, e.ext, e.cred, e.prn, e.tool, e.rule, e.obo, e.peer, e.client,
  e.rev, e.tdef, e.pol, e.scope, e.sbox, e.obj, e.boot, e.build, e.actor, e.authn, e.tport, e.clk, e.outcome, e.flags, e.n_req,
  e.n_res, e.n_sto, e.xstat, e.sig, e.dur, e.cpu, e.rss, e.beg, e.sys, e.mdl) AS _row, e.idx AS _at
FROM rec e WHERE e.log = ?1 AND e.idx >= ?10 AND e.idx < ?9 AND +e.ts >= ?2 AND +e.ts < ?3
  AND (?5 IS NULL OR +e.prn = (SELECT id FROM dict WHERE kind = 17 AND text = ?5))
  AND (?6 IS NULL OR +e.cred = (SELECT id FROM dict WHERE kind = 16 AND text = ?6))
  AND (?4 IS NULL OR +e.tool = (SELECT id FROM dict WHERE kind = 34 AND text = ?4))
  AND (?7 < 0 OR +e.outcome = ?7) AND (?12 = 0 OR +e.kind = ?12)
ORDER BY e.idx LIMIT ?8;

-- audit tail: the newest of them in a part.  rec_pos.
-- name: report_newest_chosen
-- takes: int int int text text text int int int int text int
SELECT e.idx FROM rec e WHERE e.log = ?1 AND e.idx >= ?10 AND e.idx < ?9 AND +e.ts >= ?2 AND +e.ts < ?3
  AND (?5 IS NULL OR +e.prn = (SELECT id FROM dict WHERE kind = 17 AND text = ?5))
  AND (?6 IS NULL OR +e.cred = (SELECT id FROM dict WHERE kind = 16 AND text = ?6))
  AND (?4 IS NULL OR +e.tool = (SELECT id FROM dict WHERE kind = 34 AND text = ?4))
  AND (?7 < 0 OR +e.outcome = ?7) AND (?12 = 0 OR +e.kind = ?12)
ORDER BY e.idx DESC LIMIT ?8;

-- The same for copies that are carried outside: carry.c.  rec_pos.
-- name: report_carried
-- takes: int int int row
SELECT row_out(?4, e.idx, e.kind, e.ts, e.call, e.prev, e.trace, e.ext, e.cred, e.prn, e.tool, e.rule, e.obo, e.peer, e.client,
  e.rev, e.tdef, e.pol, e.scope, e.sbox, e.obj, e.boot, e.build, e.actor, e.authn, e.tport, e.clk, e.outcome, e.flags, e.n_req,
  e.n_res, e.n_sto, e.xstat, e.sig, e.dur, e.cpu, e.rss, e.beg, e.sys, e.mdl) AS _row, e.idx AS _at, e.leaf AS _leaf
FROM rec e WHERE e.log = ?1 AND e.idx >= ?2 AND e.idx < ?3 ORDER BY e.idx;

-- A word of a record.  Primary key.
-- name: report_word
-- takes: int
SELECT text FROM dict WHERE id = ?1;

-- Who is meant by a pseudonym of a tenant's log (?2), as long as anybody knows.  Primary key; index principal.
-- name: report_person
-- takes: int int
SELECT coalesce(p.name, d.text) FROM dict d LEFT JOIN principal p ON p.tenant_id = ?2 AND p.pseudonym = d.text WHERE d.id = ?1;

-- audit export-check.  Primary key.
-- name: report_export_check
-- takes: int
SELECT l.origin, h.size FROM log l JOIN head h ON h.log = l.id WHERE l.id = ?1;

-- audit export-check: the time of a record.  rec_pos.
-- name: report_record_time
-- takes: int int
SELECT ts FROM rec WHERE log = ?1 AND idx >= ?2 ORDER BY idx LIMIT 1;

-- The log of a tenant, also of a removed one.  UNIQUE(name), unique index.
-- name: report_find_log
-- takes: text
SELECT l.id, t.id FROM tenant t JOIN log l ON l.tenant_id = t.id WHERE t.name = ?1;

-- The log of a key's tenant, which may have to be a certain one.  UNIQUE(accessor).
-- name: report_find_key
-- takes: text text
SELECT l.id, l.tenant_id FROM cred c JOIN log l ON l.tenant_id = c.tenant_id JOIN tenant t ON t.id = c.tenant_id
WHERE c.accessor = ?1 AND (?2 IS NULL OR t.name = ?2);

-- The next log behind ?1.  Primary key.
-- name: report_next_log
-- takes: int
SELECT id, tenant_id FROM log WHERE id > ?1 ORDER BY id LIMIT 1;

-- Where a report has to look: is there anything of a principal (?6: its pseudonym) in the part of a log between two places
-- (ids ?4 and ?5, of times from ?2 to before ?3)?  The engine knows what times a part can have: walk.c.  rec_prn.
-- name: report_probe_prn
-- takes: int int int int int text
SELECT 1 FROM rec WHERE log = ?1 AND prn = (SELECT id FROM dict WHERE kind = 17 AND text = ?6) AND kind <> 1001
  AND ts >= ?2 AND ts < ?3 AND +id >= ?4 AND +id <= ?5 LIMIT 1;

-- The same of a key.  rec_cred.
-- name: report_probe_cred
-- takes: int int int int int text
SELECT 1 FROM rec WHERE log = ?1 AND cred = (SELECT id FROM dict WHERE kind = 16 AND text = ?6) AND kind <> 1001
  AND ts >= ?2 AND ts < ?3 AND +id >= ?4 AND +id <= ?5 LIMIT 1;

-- The same of a tool.  rec_tool.
-- name: report_probe_tool
-- takes: int int int int int text
SELECT 1 FROM rec WHERE log = ?1 AND tool = (SELECT id FROM dict WHERE kind = 34 AND text = ?6) AND kind <> 1001
  AND ts >= ?2 AND ts < ?3 AND +id >= ?4 AND +id <= ?5 LIMIT 1;

-- The same of an outcome but ok.  rec_out.
-- name: report_probe_out
-- takes: int int int int int int
SELECT 1 FROM rec WHERE log = ?1 AND outcome = ?6 AND outcome <> 0
  AND ts >= ?2 AND ts < ?3 AND +id >= ?4 AND +id <= ?5 LIMIT 1;

-- The same of a kind of record.  rec_kind.
-- name: report_probe_kind
-- takes: int int int int int int
SELECT 1 FROM rec WHERE log = ?1 AND kind = ?6 AND kind <> 1001 AND kind <> 1002
  AND ts >= ?2 AND ts < ?3 AND +id >= ?4 AND +id <= ?5 LIMIT 1;

-- The same five of a store with blocks: between two positions (?4 and ?5).  Zones of blocks.
-- name: report_forms_prn
-- takes: int int int int int text
SELECT 1 FROM rec WHERE log = ?1 AND prn = (SELECT id FROM dict WHERE kind = 17 AND text = ?6) AND kind <> 1001
  AND ts >= ?2 AND ts < ?3 AND idx >= ?4 AND idx <= ?5 LIMIT 1;

-- name: report_forms_cred
-- takes: int int int int int text
SELECT 1 FROM rec WHERE log = ?1 AND cred = (SELECT id FROM dict WHERE kind = 16 AND text = ?6) AND kind <> 1001
  AND ts >= ?2 AND ts < ?3 AND idx >= ?4 AND idx <= ?5 LIMIT 1;

-- name: report_forms_tool
-- takes: int int int int int text
SELECT 1 FROM rec WHERE log = ?1 AND tool = (SELECT id FROM dict WHERE kind = 34 AND text = ?6) AND kind <> 1001
  AND ts >= ?2 AND ts < ?3 AND idx >= ?4 AND idx <= ?5 LIMIT 1;

-- name: report_forms_out
-- takes: int int int int int int
SELECT 1 FROM rec WHERE log = ?1 AND outcome = ?6 AND ts >= ?2 AND ts < ?3 AND idx >= ?4 AND idx <= ?5 LIMIT 1;

-- name: report_forms_kind
-- takes: int int int int int int
SELECT 1 FROM rec WHERE log = ?1 AND kind = ?6 AND ts >= ?2 AND ts < ?3 AND idx >= ?4 AND idx <= ?5 LIMIT 1;

-- The same of several ids that one record has to have: the newest such one that is no begin; a tool, a pseudonym and a key, NULL:
-- any, an outcome and a kind, -1: any.  Sums.
-- name: report_meets
-- takes: int int int int int text text text int int
-- only: sqlite
SELECT idx FROM meets WHERE log = ?1 AND since = ?2 AND until = ?3 AND lo = ?4 AND hi = ?5
  AND of_tool = CASE WHEN ?6 IS NULL THEN -1 ELSE coalesce((SELECT id FROM dict WHERE kind = 34 AND text = ?6), -2) END
  AND of_prn = CASE WHEN ?7 IS NULL THEN -1 ELSE coalesce((SELECT id FROM dict WHERE kind = 17 AND text = ?7), -2) END
  AND of_cred = CASE WHEN ?8 IS NULL THEN -1 ELSE coalesce((SELECT id FROM dict WHERE kind = 16 AND text = ?8), -2) END
  AND of_outcome = ?9 AND of_kind = ?10 LIMIT 1;

-- The record at a position of a log or the next one behind it, and the last one below.  rec_pos.
-- name: report_place_from
-- takes: int int
SELECT idx,
-- only: sqlite
 id,
-- only: pgsql
 idx,
-- only: all
 ts FROM rec WHERE log = ?1 AND idx >= ?2 ORDER BY idx LIMIT 1;

-- name: report_place_below
-- takes: int int
SELECT idx,
-- only: sqlite
 id,
-- only: pgsql
 idx,
-- only: all
 ts FROM rec WHERE log = ?1 AND idx < ?2 ORDER BY idx DESC LIMIT 1;

-- Between which times the records of a part are, positions ?2 to below ?3; no row, where ids say it (the statement below).  Primary
-- key, which has times.
-- name: report_part_times
-- takes: int int int
-- only: sqlite
SELECT 0, 0 WHERE ?3 IS NULL;
-- only: pgsql
SELECT min(ts), max(ts) FROM rec WHERE log = ?1 AND idx >= ?2 AND idx < ?3;

-- When the clock was set, by the records of that.  rec_kind.
-- name: report_steps
-- takes: int
SELECT
-- only: sqlite
 id,
-- only: pgsql
 idx,
-- only: all
 ts FROM rec WHERE log = 1 AND kind = 1605 AND kind <> 1001 AND kind <> 1002 ORDER BY ts LIMIT ?1;
