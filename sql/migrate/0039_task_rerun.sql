-- name: step_0039_task_rerun
-- Tasks whose runs may be made again (TK-35, decision 0127).  Of a row, reruns is how often that may still be; what is there has 0.

-- v_records: as in step 0038, with the name of the kind 1027.  The views on top of it find it again by theirs.
DROP VIEW v_records;
CREATE VIEW v_records AS
SELECT strftime('%Y-%m-%dT%H:%M:%S', r.ts / 1000000, 'unixepoch') || printf('.%06dZ', r.ts % 1000000) AS time,
  l.origin AS log, t.name AS tenant, r.idx AS idx,
  CASE r.kind
    WHEN 1 THEN 'log.open' WHEN 2 THEN 'log.close' WHEN 1001 THEN 'call.begin' WHEN 1002 THEN 'call.end'
    WHEN 1003 THEN 'call.denied' WHEN 1004 THEN 'call.recovered' WHEN 1005 THEN 'call.denied.summary' WHEN 1010 THEN 'list'
    WHEN 1011 THEN 'notify' WHEN 1012 THEN 'message.dropped'
    WHEN 1013 THEN 'resource.subscribe' WHEN 1014 THEN 'resource.unsubscribe'
    WHEN 1021 THEN 'task.create' WHEN 1022 THEN 'task.input' WHEN 1023 THEN 'task.cancel' WHEN 1024 THEN 'task.end'
    WHEN 1025 THEN 'task.read' WHEN 1026 THEN 'task.expire' WHEN 1027 THEN 'task.rerun'
    WHEN 1031 THEN 'call.held' WHEN 1032 THEN 'call.approved' WHEN 1033 THEN 'call.refused' WHEN 1034 THEN 'call.lapsed'
    WHEN 1035 THEN 'call.recalled'
    WHEN 1101 THEN 'auth.fail' WHEN 1102 THEN 'auth.fail.summary' WHEN 1103 THEN 'cred.first_use'
    WHEN 1104 THEN 'alias.new' WHEN 1201 THEN 'cred.create' WHEN 1202 THEN 'cred.rotate' WHEN 1203 THEN 'cred.revoke'
    WHEN 1204 THEN 'cred.expire' WHEN 1205 THEN 'cred.suspend' WHEN 1206 THEN 'cred.resume' WHEN 1301 THEN 'tenant.create'
    WHEN 1302 THEN 'tenant.suspend' WHEN 1303 THEN 'tenant.resume' WHEN 1304 THEN 'tenant.delete' WHEN 1305 THEN 'tenant.change'
    WHEN 1401 THEN 'policy.change' WHEN 1402 THEN 'scope.change' WHEN 1403 THEN 'limit.change' WHEN 1404 THEN 'level.change'
    WHEN 1405 THEN 'grant.add' WHEN 1406 THEN 'grant.change' WHEN 1407 THEN 'grant.remove' WHEN 1501 THEN 'tool.register'
    WHEN 1502 THEN 'tool.change' WHEN 1503 THEN 'tool.approve' WHEN 1504 THEN 'tool.enable' WHEN 1505 THEN 'tool.disable'
    WHEN 1506 THEN 'tool.delete' WHEN 1507 THEN 'tool.drift' WHEN 1511 THEN 'upstream.add' WHEN 1512 THEN 'upstream.change'
    WHEN 1513 THEN 'upstream.accept' WHEN 1514 THEN 'upstream.remove' WHEN 1521 THEN 'secret.set' WHEN 1522 THEN 'secret.remove'
    WHEN 1531 THEN 'definition.add' WHEN 1532 THEN 'definition.change' WHEN 1533 THEN 'definition.remove' WHEN 1534 THEN 'registry.vouch'
    WHEN 1535 THEN 'tool.pin' WHEN 1540 THEN 'registry.quarantine'
    WHEN 1601 THEN 'server.start'
    WHEN 1602 THEN 'server.stop' WHEN 1603 THEN 'server.crash' WHEN 1604 THEN 'config.load' WHEN 1605 THEN 'clock.step'
    WHEN 1606 THEN 'time.sync' WHEN 1607 THEN 'sandbox.degraded' WHEN 1608 THEN 'space.low' WHEN 1609 THEN 'space.ok'
    WHEN 1610 THEN 'audit.fail' WHEN 1612 THEN 'backup.test' WHEN 1613 THEN 'store.restore' WHEN 1615 THEN 'backup.broken' WHEN 1701 THEN 'admin.cmd' WHEN 1801 THEN 'audit.read' WHEN 1802 THEN 'audit.export'
    WHEN 1803 THEN 'audit.verify' WHEN 1804 THEN 'audit.review'
    WHEN 1811 THEN 'alert.open' WHEN 1812 THEN 'alert.ack' WHEN 1813 THEN 'review.done' WHEN 1814 THEN 'alert.silence' WHEN 1815 THEN 'sink.change' WHEN 1821 THEN 'inventory.change' WHEN 1822 THEN 'system.change' WHEN 1901 THEN 'hold.set' WHEN 1902 THEN 'hold.release'
    WHEN 1903 THEN 'retention.change' WHEN 1904 THEN 'prune' WHEN 1905 THEN 'prune.done' WHEN 1906 THEN 'erase'
    WHEN 1907 THEN 'erase.done' WHEN 1908 THEN 'key.rotate' WHEN 1909 THEN 'key.destroy' WHEN 1910 THEN 'approval.request'
    WHEN 1911 THEN 'approval.grant' WHEN 1912 THEN 'segment.seal' WHEN 1913 THEN 'segment.move' WHEN 2001 THEN 'logs.commit' WHEN 2002 THEN 'anchor.receipt' WHEN 2003 THEN 'epoch.start'
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
  d_obo.text AS on_behalf_of, d_peer.text AS address, d_client.text AS client, d_sys.text AS system, d_mdl.text AS model, d_rev.text AS revision,
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
  (WITH RECURSIVE f(p, n) AS (
    SELECT 1, instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, 1 + 4, 2)), 4, 1)) - 4369
    UNION ALL SELECT p + n + 6, instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 1, 1)) * 4096
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 2, 1)) * 256 + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 3, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(r.ext, p + n + 6 + 4, 2)), 4, 1)) - 4369
    FROM f WHERE p + n + 6 < length(r.ext))
    SELECT CAST(substr(r.ext, p + 6, n) AS TEXT) FROM f WHERE hex(substr(r.ext, p, 2)) = '011B' LIMIT 1) AS decision,
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
LEFT JOIN dict d_sys ON d_sys.id = r.sys
LEFT JOIN dict d_mdl ON d_mdl.id = r.mdl
LEFT JOIN dict d_boot ON d_boot.id = r.boot
LEFT JOIN dict d_build ON d_build.id = r.build;
