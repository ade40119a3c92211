-- name: step_0009_views
-- What reviewers read: views with texts instead of ids (man page toolcrib-audit(7)), and the indexes of the reports.

-- Each index has its reports (AUDIT A-627).  rec_prn: audit calls --principal, subject, anomalies.  rec_cred: audit
-- credential, blast-radius, after-revocation, key list --unused-scopes.  rec_tool: audit calls --tool, tool-health.
-- rec_out: audit calls --outcome.  rec_kind: every report on events, which are few beside the calls: denied,
-- auth-failures, admin, access, continuity, clock, keys and the like.
CREATE INDEX rec_prn ON rec(log, prn, ts) WHERE kind <> 1001;
CREATE INDEX rec_cred ON rec(log, cred, ts) WHERE kind <> 1001;
CREATE INDEX rec_tool ON rec(log, tool, ts) WHERE kind <> 1001;
CREATE INDEX rec_out ON rec(log, outcome, ts) WHERE outcome <> 0;
CREATE INDEX rec_kind ON rec(log, kind, ts) WHERE kind <> 1001 AND kind <> 1002;

-- v_records: every record with its texts.  Times are RFC 3339 UTC; detail, generation to approver are fields of
-- ext.  log_id, ts, kind_code, outcome_code, prn_id, cred_id, tool_id, beg are the columns behind the texts:
-- what filters on them is fast.  In the views of events +ts keeps the planner with rec_kind.
CREATE VIEW v_records AS
SELECT strftime('%Y-%m-%dT%H:%M:%S', r.ts / 1000000, 'unixepoch') || printf('.%06dZ', r.ts % 1000000) AS time,
  l.origin AS log, t.name AS tenant, r.idx AS idx,
  CASE r.kind
    WHEN 1 THEN 'log.open' WHEN 2 THEN 'log.close' WHEN 1001 THEN 'call.begin' WHEN 1002 THEN 'call.end'
    WHEN 1003 THEN 'call.denied' WHEN 1004 THEN 'call.recovered' WHEN 1005 THEN 'call.denied.summary' WHEN 1010 THEN 'list'
    WHEN 1011 THEN 'notify' WHEN 1101 THEN 'auth.fail' WHEN 1102 THEN 'auth.fail.summary' WHEN 1103 THEN 'cred.first_use'
    WHEN 1104 THEN 'alias.new' WHEN 1201 THEN 'cred.create' WHEN 1202 THEN 'cred.rotate' WHEN 1203 THEN 'cred.revoke'
    WHEN 1204 THEN 'cred.expire' WHEN 1205 THEN 'cred.suspend' WHEN 1206 THEN 'cred.resume' WHEN 1301 THEN 'tenant.create'
    WHEN 1302 THEN 'tenant.suspend' WHEN 1303 THEN 'tenant.resume' WHEN 1304 THEN 'tenant.delete' WHEN 1305 THEN 'tenant.change'
    WHEN 1401 THEN 'policy.change' WHEN 1402 THEN 'scope.change' WHEN 1403 THEN 'limit.change' WHEN 1404 THEN 'level.change'
    WHEN 1405 THEN 'grant.add' WHEN 1406 THEN 'grant.change' WHEN 1407 THEN 'grant.remove' WHEN 1501 THEN 'tool.register'
    WHEN 1502 THEN 'tool.change' WHEN 1503 THEN 'tool.approve' WHEN 1504 THEN 'tool.enable' WHEN 1505 THEN 'tool.disable'
    WHEN 1506 THEN 'tool.delete' WHEN 1507 THEN 'tool.drift' WHEN 1511 THEN 'upstream.add' WHEN 1512 THEN 'upstream.change'
    WHEN 1513 THEN 'upstream.accept' WHEN 1514 THEN 'upstream.remove' WHEN 1521 THEN 'secret.set' WHEN 1522 THEN 'secret.remove'
    WHEN 1531 THEN 'definition.add' WHEN 1532 THEN 'definition.change' WHEN 1533 THEN 'definition.remove' WHEN 1601 THEN 'server.start'
    WHEN 1602 THEN 'server.stop' WHEN 1603 THEN 'server.crash' WHEN 1604 THEN 'config.load' WHEN 1605 THEN 'clock.step'
    WHEN 1606 THEN 'time.sync' WHEN 1607 THEN 'sandbox.degraded' WHEN 1608 THEN 'space.low' WHEN 1609 THEN 'space.ok'
    WHEN 1610 THEN 'audit.fail' WHEN 1701 THEN 'admin.cmd' WHEN 1801 THEN 'audit.read' WHEN 1802 THEN 'audit.export'
    WHEN 1803 THEN 'audit.verify' WHEN 1804 THEN 'audit.review' WHEN 1901 THEN 'hold.set' WHEN 1902 THEN 'hold.release'
    WHEN 1903 THEN 'retention.change' WHEN 1904 THEN 'prune' WHEN 1905 THEN 'prune.done' WHEN 1906 THEN 'erase'
    WHEN 1907 THEN 'erase.done' WHEN 1908 THEN 'key.rotate' WHEN 1909 THEN 'key.destroy' WHEN 1910 THEN 'approval.request'
    WHEN 1911 THEN 'approval.grant' WHEN 2001 THEN 'logs.commit' WHEN 2002 THEN 'anchor.receipt' WHEN 2003 THEN 'epoch.start'
    ELSE CAST(r.kind AS TEXT) END AS kind,
  CASE WHEN r.call IS NOT NULL THEN lower(substr(hex(r.call), 1, 8) || '-' || substr(hex(r.call), 9, 4) || '-'
    || substr(hex(r.call), 13, 4) || '-' || substr(hex(r.call), 17, 4) || '-' || substr(hex(r.call), 21)) END AS call,
  coalesce(p.name, d_prn.text) AS principal, d_prn.text AS pseudonym, d_cred.text AS "key", d_tool.text AS tool,
  CASE r.outcome WHEN 0 THEN 'ok' WHEN 1 THEN 'tool_error' WHEN 2 THEN 'invalid' WHEN 3 THEN 'denied' WHEN 4 THEN 'rate_limited' WHEN 5 THEN 'timeout' WHEN 6 THEN 'cancelled' WHEN 7 THEN 'input_required' WHEN 8 THEN 'crashed' WHEN 9 THEN 'aborted' WHEN 10 THEN 'overload' WHEN 11 THEN 'unknown'
    ELSE CAST(r.outcome AS TEXT) END AS outcome,
  d_rule.text AS rule, r.dur / 1000.0 AS ms,
  CASE r.tport WHEN 1 THEN 'stdio' WHEN 2 THEN 'tcp' WHEN 3 THEN 'unix' WHEN 4 THEN 'http' WHEN 5 THEN 'admin' END AS transport,
  CASE r.authn WHEN 1 THEN 'key' WHEN 2 THEN 'jwt' WHEN 3 THEN 'mtls' WHEN 4 THEN 'uid' WHEN 5 THEN 'bound' WHEN 6 THEN 'none' END AS authn,
  CASE r.actor WHEN 1 THEN 'service' WHEN 2 THEN 'human' WHEN 3 THEN 'admin' WHEN 4 THEN 'uid' WHEN 5 THEN 'system' END AS actor,
  d_obo.text AS on_behalf_of, d_peer.text AS address, d_client.text AS client, d_rev.text AS revision,
  d_tdef.text AS definition, d_pol.text AS policy, d_scope.text AS scopes, d_sbox.text AS sandbox, d_obj.text AS object,
  (WITH RECURSIVE f(p, n) AS (
    SELECT 1, instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 4, 1)) - 4369
    UNION ALL SELECT p + n + 6, instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 4, 1)) - 4369
    FROM f WHERE p + n + 6 < length(r.ext))
    SELECT CAST(substr(r.ext, p + 6, n) AS TEXT) FROM f WHERE hex(substr(r.ext, p, 2)) IN ('0113', '0114') LIMIT 1) AS detail,
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
      SELECT x FROM v WHERE i = 17) FROM f WHERE hex(substr(r.ext, p, 2)) = '010D' LIMIT 1) AS generation,
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
      SELECT x FROM v WHERE i = 17) FROM f WHERE hex(substr(r.ext, p, 2)) = '010E' LIMIT 1) AS receivers,
  (WITH RECURSIVE f(p, n) AS (
    SELECT 1, instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 4, 1)) - 4369
    UNION ALL SELECT p + n + 6, instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 4, 1)) - 4369
    FROM f WHERE p + n + 6 < length(r.ext))
    SELECT lower(hex(substr(r.ext, p + 6, n))) FROM f WHERE hex(substr(r.ext, p, 2)) = '0100' LIMIT 1) AS before,
  (WITH RECURSIVE f(p, n) AS (
    SELECT 1, instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 4, 1)) - 4369
    UNION ALL SELECT p + n + 6, instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 4, 1)) - 4369
    FROM f WHERE p + n + 6 < length(r.ext))
    SELECT lower(hex(substr(r.ext, p + 6, n))) FROM f WHERE hex(substr(r.ext, p, 2)) = '0101' LIMIT 1) AS after,
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
      SELECT x FROM v WHERE i = 17) FROM f WHERE hex(substr(r.ext, p, 2)) = '0102' LIMIT 1) AS range_from,
  (WITH RECURSIVE f(p, n) AS (
    SELECT 1, instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 4, 1)) - 4369
    UNION ALL SELECT p + n + 6, instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 4, 1)) - 4369
    FROM f WHERE p + n + 6 < length(r.ext))
    SELECT (WITH RECURSIVE v(i, h, x) AS (SELECT 1, hex(substr(r.ext, p + 14, 8)), 0
      UNION ALL SELECT i + 1, h, x * 16 + instr('0123456789ABCDEF', substr(h, i, 1)) - 1 FROM v WHERE i <= 16)
      SELECT x FROM v WHERE i = 17) FROM f WHERE hex(substr(r.ext, p, 2)) = '0102' LIMIT 1) AS range_to,
  (WITH RECURSIVE f(p, n) AS (
    SELECT 1, instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 4, 1)) - 4369
    UNION ALL SELECT p + n + 6, instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 4, 1)) - 4369
    FROM f WHERE p + n + 6 < length(r.ext))
    SELECT CAST(substr(r.ext, p + 6, n) AS TEXT) FROM f WHERE hex(substr(r.ext, p, 2)) = '0104' LIMIT 1) AS ground,
  (WITH RECURSIVE f(p, n) AS (
    SELECT 1, instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 4, 1)) - 4369
    UNION ALL SELECT p + n + 6, instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 4, 1)) - 4369
    FROM f WHERE p + n + 6 < length(r.ext))
    SELECT CAST(substr(r.ext, p + 6, n) AS TEXT) FROM f WHERE hex(substr(r.ext, p, 2)) = '0105' LIMIT 1) AS ticket,
  (WITH RECURSIVE f(p, n) AS (
    SELECT 1, instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 4, 1)) - 4369
    UNION ALL SELECT p + n + 6, instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 4, 1)) - 4369
    FROM f WHERE p + n + 6 < length(r.ext))
    SELECT CAST(substr(r.ext, p + 6, n) AS TEXT) FROM f WHERE hex(substr(r.ext, p, 2)) = '0106' LIMIT 1) AS approver,
  r.n_req AS request_bytes, r.n_res AS result_bytes, r.n_sto AS stored_bytes,
  CASE WHEN r.kind BETWEEN 1001 AND 1004 THEN
    CASE coalesce(r.flags, 0) & 3 WHEN 0 THEN 'metadata' WHEN 1 THEN 'request' WHEN 2 THEN 'request_response' END END AS level,
  r.flags AS flags,
  r.xstat AS status, r.sig AS signal, r.cpu / 1000.0 AS cpu_ms, r.rss AS rss_kib,
  CASE r.clk WHEN 1 THEN 'synchronised' WHEN 2 THEN 'not synchronised' WHEN 3 THEN 'stepped' END AS clock,
  d_boot.text AS boot, d_build.text AS build,
  CASE WHEN r.prev IS NOT NULL THEN lower(substr(hex(r.prev), 1, 8) || '-' || substr(hex(r.prev), 9, 4) || '-'
    || substr(hex(r.prev), 13, 4) || '-' || substr(hex(r.prev), 17, 4) || '-' || substr(hex(r.prev), 21)) END AS previous,
  nullif(lower(hex(r.trace)), '') AS trace, lower(hex(r.leaf)) AS leaf,
  r.log AS log_id, r.ts AS ts, r.kind AS kind_code, r.outcome AS outcome_code, r.prn AS prn_id, r.cred AS cred_id,
  r.tool AS tool_id, r.obj AS obj_id, r.beg AS beg
FROM rec r
JOIN log l ON l.id = r.log
LEFT JOIN tenant t ON t.id = l.tenant_id
LEFT JOIN dict d_prn ON d_prn.id = r.prn
LEFT JOIN principal p ON p.tenant_id = l.tenant_id AND p.pseudonym = d_prn.text
LEFT JOIN dict d_cred ON d_cred.id = r.cred
LEFT JOIN dict d_tool ON d_tool.id = r.tool
LEFT JOIN dict d_rule ON d_rule.id = r.rule
LEFT JOIN dict d_obo ON d_obo.id = r.obo
LEFT JOIN dict d_peer ON d_peer.id = r.peer
LEFT JOIN dict d_client ON d_client.id = r.client
LEFT JOIN dict d_rev ON d_rev.id = r.rev
LEFT JOIN dict d_tdef ON d_tdef.id = r.tdef
LEFT JOIN dict d_pol ON d_pol.id = r.pol
LEFT JOIN dict d_scope ON d_scope.id = r.scope
LEFT JOIN dict d_sbox ON d_sbox.id = r.sbox
LEFT JOIN dict d_obj ON d_obj.id = r.obj
LEFT JOIN dict d_boot ON d_boot.id = r.boot
LEFT JOIN dict d_build ON d_build.id = r.build;

-- v_calls: one row for each call that has ended, however it ended, and for each that was refused; who and how come from
-- its begin.
CREATE VIEW v_calls AS
SELECT e.time AS time, e.tenant AS tenant, e.tool AS tool, e.principal AS principal, e."key" AS "key", e.outcome AS outcome,
  e.ms AS ms, coalesce(e.rule, d_rule.text) AS rule,
  CASE WHEN e.kind_code = 1003 THEN e.transport ELSE CASE b.tport WHEN 1 THEN 'stdio' WHEN 2 THEN 'tcp' WHEN 3 THEN 'unix' WHEN 4 THEN 'http' WHEN 5 THEN 'admin' END END AS transport,
  coalesce(e.revision, d_rev.text) AS revision,
  CASE WHEN e.kind_code = 1003 THEN e.authn ELSE CASE b.authn WHEN 1 THEN 'key' WHEN 2 THEN 'jwt' WHEN 3 THEN 'mtls' WHEN 4 THEN 'uid' WHEN 5 THEN 'bound' WHEN 6 THEN 'none' END END AS authn,
  coalesce(e.on_behalf_of, d_obo.text) AS on_behalf_of, coalesce(e.address, d_peer.text) AS address,
  coalesce(e.client, d_client.text) AS client, coalesce(e.definition, d_tdef.text) AS definition,
  coalesce(e.policy, d_pol.text) AS policy, coalesce(e.scopes, d_scope.text) AS scopes,
  coalesce(e.sandbox, d_sbox.text) AS sandbox, e.status AS status, e.signal AS signal, e.cpu_ms AS cpu_ms,
  e.rss_kib AS rss_kib, coalesce(e.request_bytes, b.n_req) AS request_bytes, e.result_bytes AS result_bytes,
  e.level AS level, coalesce(e.flags, 0) & 32 <> 0 AS undelivered, coalesce(e.flags, 0) & 64 <> 0 AS not_executed,
  coalesce(e.flags, 0) & 128 <> 0 AS broke_schema, e.call AS call, e.previous AS previous, nullif(lower(hex(b.trace)), '') AS trace,
  e.detail AS detail, strftime('%Y-%m-%dT%H:%M:%S', b.ts / 1000000, 'unixepoch') || printf('.%06dZ', b.ts % 1000000) AS began,
  e.log AS log, e.idx AS idx, e.beg AS beg, e.log_id AS log_id, e.ts AS ts, e.kind_code AS kind_code,
  e.outcome_code AS outcome_code, e.prn_id AS prn_id, e.cred_id AS cred_id, e.tool_id AS tool_id
FROM v_records e
LEFT JOIN rec b ON b.log = e.log_id AND b.idx = e.beg
LEFT JOIN dict d_rule ON d_rule.id = b.rule
LEFT JOIN dict d_rev ON d_rev.id = b.rev
LEFT JOIN dict d_obo ON d_obo.id = b.obo
LEFT JOIN dict d_peer ON d_peer.id = b.peer
LEFT JOIN dict d_client ON d_client.id = b.client
LEFT JOIN dict d_tdef ON d_tdef.id = b.tdef
LEFT JOIN dict d_pol ON d_pol.id = b.pol
LEFT JOIN dict d_scope ON d_scope.id = b.scope
LEFT JOIN dict d_sbox ON d_sbox.id = b.sbox
WHERE e.kind_code <> 1001 AND e.kind_code IN (1002, 1003, 1004);

-- v_denied: calls that were refused before they ran, and the minutes in which there were too many to record each.
CREATE VIEW v_denied AS
SELECT e.time AS time, e.tenant AS tenant, e.tool AS tool, e.principal AS principal, e."key" AS "key",
  e.outcome AS outcome, e.rule AS rule, e.transport AS transport, e.authn AS authn, e.revision AS revision,
  e.address AS address, e.client AS client, e.call AS call, e.detail AS detail, e.kind AS kind, e.log AS log,
  e.idx AS idx, e.log_id AS log_id, e.ts AS ts, e.kind_code AS kind_code, e.outcome_code AS outcome_code,
  e.prn_id AS prn_id, e.cred_id AS cred_id, e.tool_id AS tool_id
FROM v_records e WHERE e.kind_code <> 1001 AND e.kind_code <> 1002 AND e.kind_code IN (1003, 1005);

-- v_auth_failures: who was not let in: single failures, and sums of those that were too many.
CREATE VIEW v_auth_failures AS
SELECT e.time AS time, e.tenant AS tenant, e."key" AS "key", e.rule AS rule, e.transport AS transport,
  e.authn AS authn, e.address AS address, e.client AS client, e.detail AS detail, e.kind AS kind, e.log AS log,
  e.idx AS idx, e.log_id AS log_id, e.ts AS ts, e.kind_code AS kind_code, e.cred_id AS cred_id
FROM v_records e WHERE e.kind_code <> 1001 AND e.kind_code <> 1002 AND e.kind_code IN (1101, 1102);

-- v_admin: what administrators and the server did: everything but calls, lists and notices.
CREATE VIEW v_admin AS
SELECT e.time AS time, e.tenant AS tenant, e.kind AS kind, e.object AS object, e.actor AS actor,
  e.principal AS principal, e."key" AS "key", e.detail AS detail, e.before AS before, e.after AS after,
  e.log AS log, e.idx AS idx, e.log_id AS log_id, +e.ts AS ts, e.kind_code AS kind_code, e.cred_id AS cred_id,
  e.obj_id AS obj_id
FROM v_records e WHERE e.kind_code <> 1001 AND e.kind_code <> 1002 AND e.kind_code >= 1101 AND e.kind_code <> 1104;

-- v_keys: the life of keys.
CREATE VIEW v_keys AS
SELECT e.time AS time, e.tenant AS tenant, e.kind AS kind, e.object AS object, e.principal AS principal,
  e."key" AS "key", e.actor AS actor, e.detail AS detail, e.before AS before, e.after AS after, e.log AS log,
  e.idx AS idx, e.log_id AS log_id, +e.ts AS ts, e.kind_code AS kind_code, e.cred_id AS cred_id
FROM v_records e WHERE e.kind_code <> 1001 AND e.kind_code <> 1002 AND e.kind_code BETWEEN 1103 AND 1206 AND e.kind_code <> 1104;

-- v_definitions: tools, upstreams, prompts, resources and schemas: added, changed, approved, removed.
CREATE VIEW v_definitions AS
SELECT e.time AS time, e.tenant AS tenant, e.kind AS kind, e.object AS object, e.actor AS actor,
  e.detail AS detail, e.before AS before, e.after AS after, e.log AS log, e.idx AS idx, e.log_id AS log_id,
  +e.ts AS ts, e.kind_code AS kind_code, e.obj_id AS obj_id
FROM v_records e WHERE e.kind_code <> 1001 AND e.kind_code <> 1002 AND e.kind_code BETWEEN 1501 AND 1533 AND e.kind_code NOT IN (1521, 1522);

-- v_lists: lists that agents asked for.
CREATE VIEW v_lists AS
SELECT e.time AS time, e.tenant AS tenant, e.principal AS principal, e."key" AS "key", e.transport AS transport,
  e.revision AS revision, e.client AS client, e.generation AS generation, e.kind AS kind, e.log AS log,
  e.idx AS idx, e.log_id AS log_id, +e.ts AS ts, e.kind_code AS kind_code, e.prn_id AS prn_id,
  e.cred_id AS cred_id
FROM v_records e WHERE e.kind_code <> 1001 AND e.kind_code <> 1002 AND e.kind_code = 1010;

-- v_notify: notices of changed lists, and how many got them.
CREATE VIEW v_notify AS
SELECT e.time AS time, e.tenant AS tenant, e.generation AS generation, e.receivers AS receivers,
  e.detail AS detail, e.kind AS kind, e.log AS log, e.idx AS idx, e.log_id AS log_id, +e.ts AS ts,
  e.kind_code AS kind_code
FROM v_records e WHERE e.kind_code <> 1001 AND e.kind_code <> 1002 AND e.kind_code = 1011;

-- v_lifecycle: starts, stops and crashes, configuration, clock, space and failures of the audit itself.
CREATE VIEW v_lifecycle AS
SELECT e.time AS time, e.tenant AS tenant, e.kind AS kind, e.object AS object, e.detail AS detail,
  e.clock AS clock, e.boot AS boot, e.build AS build, e.log AS log, e.idx AS idx, e.log_id AS log_id,
  +e.ts AS ts, e.kind_code AS kind_code
FROM v_records e WHERE e.kind_code <> 1001 AND e.kind_code <> 1002 AND e.kind_code IN (1, 2, 1601, 1602, 1603, 1604, 1605, 1606, 1607,
  1608, 1609, 1610);

-- v_reads: who read, exported, verified and reviewed the audit.
CREATE VIEW v_reads AS
SELECT e.time AS time, e.tenant AS tenant, e.kind AS kind, e.actor AS actor, e.transport AS transport,
  e.detail AS detail, e.log AS log, e.idx AS idx, e.log_id AS log_id, +e.ts AS ts, e.kind_code AS kind_code
FROM v_records e WHERE e.kind_code <> 1001 AND e.kind_code <> 1002 AND e.kind_code BETWEEN 1801 AND 1804;

-- v_retention: holds, retention, pruning, erasure, keys of payloads, and who approved.
CREATE VIEW v_retention AS
SELECT e.time AS time, e.tenant AS tenant, e.kind AS kind, e.object AS object, e.actor AS actor,
  e.detail AS detail, e.range_from AS range_from, e.range_to AS range_to, e.ground AS ground, e.ticket AS ticket,
  e.approver AS approver, e.before AS before, e.after AS after, e.log AS log, e.idx AS idx, e.log_id AS log_id,
  +e.ts AS ts, e.kind_code AS kind_code, e.obj_id AS obj_id
FROM v_records e WHERE e.kind_code <> 1001 AND e.kind_code <> 1002 AND e.kind_code BETWEEN 1901 AND 1911;

-- v_checkpoints: signed checkpoints of the logs, anchors outside, epochs of the signing key.
CREATE VIEW v_checkpoints AS
SELECT e.time AS time, e.tenant AS tenant, e.kind AS kind, e.object AS object, e.detail AS detail, e.log AS log,
  e.idx AS idx, e.log_id AS log_id, +e.ts AS ts, e.kind_code AS kind_code
FROM v_records e WHERE e.kind_code <> 1001 AND e.kind_code <> 1002 AND e.kind_code BETWEEN 2001 AND 2003;
