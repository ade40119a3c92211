-- The rows of audit calls, tail and export by the views, which is how they were made before src/report/texts.c makes them:
-- test_texts.py asks both, and tests/tamper/forgery.py these.  Parameters as in sql/queries/report.sql.

-- audit calls.  rec_pos.
-- name: report_calls
SELECT time, tenant, tool, principal, "key", outcome, ms, rule, transport, revision, authn, definition, sandbox,
  request_bytes, result_bytes, status, signal, undelivered, not_executed, broke_schema, on_behalf_of, address, client, system, model, policy,
  scopes, level, call, previous, detail, ts AS _ts, idx AS _idx
FROM v_calls WHERE log_id = ?1 AND idx < ?9 AND idx >= ?10 AND +ts >= ?2 AND +ts < ?3
  AND (?5 IS NULL OR +prn_id = (SELECT id FROM dict WHERE kind = 17 AND text = ?5))
  AND (?6 IS NULL OR +cred_id = (SELECT id FROM dict WHERE kind = 16 AND text = ?6))
  AND (?4 IS NULL OR +tool_id = (SELECT id FROM dict WHERE kind = 34 AND text = ?4))
  AND (?7 < 0 OR +outcome_code = ?7)
ORDER BY idx DESC LIMIT ?8;

-- audit tail.  rec_pos.
-- name: report_tail
SELECT idx AS "index", log, time, tenant, kind, tool, principal, outcome, ms, rule, object, call, detail
FROM v_records WHERE log_id = ?1 AND idx >= ?2 AND idx < ?3 AND +ts < ?5 ORDER BY idx LIMIT ?4;

-- audit export.  rec_pos.
-- name: report_export
SELECT idx AS "index", log, time, tenant, kind, call, principal, pseudonym, "key", tool, outcome, rule, ms, transport, authn, actor,
  on_behalf_of, address, client, system, model, revision, definition, policy, scopes, sandbox, object, detail, generation, receivers, before,
  after, range_from, range_to, ground, ticket, approver, decision, request_bytes, result_bytes, stored_bytes, level, flags, status, signal,
  cpu_ms, rss_kib, clock, boot, build, previous, trace, beg AS begin
FROM v_records WHERE log_id = ?1 AND idx >= ?2 AND idx < ?3 AND +ts < ?5 ORDER BY idx LIMIT ?4;
