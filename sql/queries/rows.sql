-- Statements on rows that records vouch for, whatever tenant they belong to.  Each names its caller and its index.

-- audit_append_rows(), audit_rows_pending(): rows that no record vouches for.  The indexes *_unvouched, which are empty
-- but for what the present transaction has written.
-- any tenant: the record that follows is looked for by the row.
-- name: rows_pending
-- takes: int
SELECT * FROM (
  SELECT 1 AS kind, id, rec_log, rec_idx FROM tenant WHERE coalesce(rec_idx, -1) < 0
  UNION ALL SELECT 2 AS kind, id, rec_log, rec_idx FROM principal WHERE coalesce(rec_idx, -1) < 0
  UNION ALL SELECT 3 AS kind, id, rec_log, rec_idx FROM cred WHERE coalesce(rec_idx, -1) < 0
  UNION ALL SELECT 4 AS kind, id, rec_log, rec_idx FROM tool_grant WHERE coalesce(rec_idx, -1) < 0
  UNION ALL SELECT 5 AS kind, id, rec_log, rec_idx FROM tool WHERE coalesce(rec_idx, -1) < 0
  UNION ALL SELECT 6 AS kind, id, rec_log, rec_idx FROM shared_schema WHERE coalesce(rec_idx, -1) < 0
  UNION ALL SELECT 7 AS kind, id, rec_log, rec_idx FROM upstream WHERE coalesce(rec_idx, -1) < 0
  UNION ALL SELECT 8 AS kind, id, rec_log, rec_idx FROM secret WHERE coalesce(rec_idx, -1) < 0
  UNION ALL SELECT 9 AS kind, id, rec_log, rec_idx FROM limit_row WHERE coalesce(rec_idx, -1) < 0
  UNION ALL SELECT 10 AS kind, id, rec_log, rec_idx FROM tool_level WHERE coalesce(rec_idx, -1) < 0
  UNION ALL SELECT 11 AS kind, id, rec_log, rec_idx FROM upstream_tool WHERE coalesce(rec_idx, -1) < 0
  UNION ALL SELECT 12 AS kind, id, rec_log, rec_idx FROM inventory WHERE coalesce(rec_idx, -1) < 0
  UNION ALL SELECT 13 AS kind, id, rec_log, rec_idx FROM system WHERE coalesce(rec_idx, -1) < 0
  UNION ALL SELECT 19 AS kind, id, rec_log, rec_idx FROM tool_version WHERE coalesce(rec_idx, -1) < 0
  UNION ALL SELECT 20 AS kind, CASE key WHEN 'audit_level' THEN 1 WHEN 'approvals' THEN 2 WHEN 'versions' THEN 3 END, rec_log, rec_idx
    FROM meta WHERE key IN ('approvals', 'audit_level', 'versions') AND coalesce(rec_idx, -1) < 0
  UNION ALL SELECT 21 AS kind, tool_id, rec_log, rec_idx FROM pending_version WHERE coalesce(rec_idx, -1) < 0
  UNION ALL SELECT 22 AS kind, id, rec_log, rec_idx FROM log WHERE coalesce(rec_idx, -1) < 0
  UNION ALL SELECT 23 AS kind, id, rec_log, rec_idx FROM hold WHERE coalesce(rec_idx, -1) < 0
  UNION ALL SELECT 24 AS kind, id, state_log, state_idx FROM upstream_tool WHERE coalesce(state_idx, -1) < 0
  UNION ALL SELECT kind, id, rec_log, rec_idx FROM row_gone) AS p
ORDER BY kind, id LIMIT ?1;

-- audit_append_rows(): a deleted row is on record.  Primary key.
-- name: rows_forget_gone
-- takes: int int
DELETE FROM row_gone WHERE kind = ?1 AND id = ?2;

-- audit_append_start(): the newest record that took rows as they were.  rec_kind, whose terms are said.
-- name: rows_last_vouch
SELECT ext FROM rec WHERE log = 1 AND idx = (SELECT max(idx) FROM rec WHERE log = 1 AND kind = 1534 AND kind <> 1001 AND kind <> 1002);

-- audit_append_rows(), audit_rows_check(), audit_seal_check(): what the record says that vouched for a row.  rec_pos.
-- name: rows_get_record
-- takes: int int
SELECT kind, ext, ts FROM rec WHERE log = ?1 AND idx = ?2;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_tenant
-- takes: int int
SELECT rec_log, rec_idx, id, name, title, state, concurrency, rate_count, rate_per_s, created_us, sandbox, audit_level
FROM tenant WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_tenant
-- takes: int int int
UPDATE tenant SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_principal
-- takes: int int
SELECT rec_log, rec_idx, id, tenant_id, pseudonym, state, created_us, system_id FROM principal WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_principal
-- takes: int int int
UPDATE principal SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_cred
-- takes: int int
SELECT rec_log, rec_idx, id, tenant_id, principal_id, accessor, hash, created_us, expires_us, revoked_us,
  not_before_us, scopes, cidr, arg_rules, rotated_us, old_hash, old_until_us, enrol_ttl_us, parent_id, expired_us,
  suspended_us
FROM cred WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_cred
-- takes: int int int
UPDATE cred SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_tool
-- takes: int int
SELECT t.rec_log, t.rec_idx, t.id, t.name, t.state, t.version, t.created_us, v.kind, v.uri, v.digest, v.definition
FROM tool t LEFT JOIN tool_version v ON v.tool_id = t.id AND v.version = t.version WHERE t.id >= ?1 ORDER BY t.id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_tool
-- takes: int int int
UPDATE tool SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_schema
-- takes: int int
SELECT rec_log, rec_idx, id, uri, state, digest, definition, created_us FROM shared_schema WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_schema
-- takes: int int int
UPDATE shared_schema SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_upstream
-- takes: int int
SELECT rec_log, rec_idx, id, name, state, definition, digest, prefix, created_us FROM upstream WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_upstream
-- takes: int int int
UPDATE upstream SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_secret
-- takes: int int
SELECT rec_log, rec_idx, id, name, created_us, changed_us FROM secret WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_secret
-- takes: int int int
UPDATE secret SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_limit
-- takes: int int
SELECT rec_log, rec_idx, id, tenant_id, scope, subject, concurrency, queue, rate_count, rate_per_s, requests_count,
  requests_per_s, calls_day, bytes_day
FROM limit_row WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_limit
-- takes: int int int
UPDATE limit_row SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_level
-- takes: int int
SELECT rec_log, rec_idx, id, tenant_id, tool, level FROM tool_level WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_level
-- takes: int int int
UPDATE tool_level SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_upstream_tool
-- takes: int int
SELECT rec_log, rec_idx, id, upstream_id, remote, tool_id, pinned FROM upstream_tool WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_upstream_tool
-- takes: int int int
UPDATE upstream_tool SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): all of it.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_inventory
-- takes: int int
SELECT rec_log, rec_idx, id, subject_kind, subject_id, tenant_id, owner, contact, purpose, risk, data, oversight, review_days,
  since_us, set_us, set_by, reviewed_us, reviewed_by, note, seen_version
FROM inventory WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_inventory
-- takes: int int int
UPDATE inventory SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): all of it.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_system
-- takes: int int
SELECT rec_log, rec_idx, id, tenant_id, name, provider, model, version, role, state, created_us FROM system
WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_system
-- takes: int int int
UPDATE system SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): each version, in force or not.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_version
-- takes: int int
SELECT rec_log, rec_idx, id, tool_id, version, digest, list_digest, definition, actor, created_us, kind, uri FROM tool_version
WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_version
-- takes: int int int
UPDATE tool_version SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): keys of meta that steer something.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_setting
-- takes: int int
SELECT * FROM (SELECT rec_log, rec_idx, CASE key WHEN 'audit_level' THEN 1 WHEN 'approvals' THEN 2 WHEN 'versions' THEN 3 END AS id, key, value
FROM meta WHERE key IN ('approvals', 'audit_level', 'versions')) AS s WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_setting
-- takes: int int int
UPDATE meta SET rec_log = ?2, rec_idx = ?3
WHERE key = CASE ?1 WHEN 1 THEN 'audit_level' WHEN 2 THEN 'approvals' WHEN 3 THEN 'versions' END;

-- audit_row_digest(), audit_rows_walk(): what waits.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_pending_version
-- takes: int int
SELECT rec_log, rec_idx, tool_id, version, state, actor, created_us FROM pending_version
WHERE tool_id >= ?1 ORDER BY tool_id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_pending
-- takes: int int int
UPDATE pending_version SET rec_log = ?2, rec_idx = ?3 WHERE tool_id = ?1;

-- audit_row_digest(), audit_rows_walk(): whose log it is.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_log
-- takes: int int
SELECT rec_log, rec_idx, id, origin, tenant_id, state FROM log WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_log
-- takes: int int int
UPDATE log SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): all of it.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_hold
-- takes: int int
SELECT rec_log, rec_idx, id, log, from_idx, to_idx, prn, set_by, released_by FROM hold
WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_hold
-- takes: int int int
UPDATE hold SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): how it stands here.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_remote_state
-- takes: int int
SELECT state_log, state_idx, id, state, seen, pending, held, note FROM upstream_tool
WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_remote_state
-- takes: int int int
UPDATE upstream_tool SET state_log = ?2, state_idx = ?3 WHERE id = ?1;

-- audit_rows_bad(): rows that somebody deleted and no record speaks of.  Walk of the table, which is empty but for them.
-- name: rows_gone
SELECT kind, id FROM row_gone ORDER BY kind, id;

-- audit_quarantine(), all below: a row that is not what its record says closes what it opens.  Whose it is, is not believed:
-- the tenants of the row and of the log that spoke of it.  Primary keys.
-- any tenant: the row is known by its id.
-- name: rows_close_tenant
-- takes: int
UPDATE tenant SET state = 3, name = substr(name, 1, 40) || '~' || id WHERE id = ?1;

-- any tenant: the row is known by its id.
-- name: rows_close_principal
-- takes: int
UPDATE principal SET state = 2 WHERE id = ?1;

-- Its keys, wherever they say that they belong.  Walk of the table; rare.
-- any tenant: the principal is known by its id.
-- name: rows_close_keys
-- takes: int int
UPDATE cred SET revoked_us = ?2 WHERE principal_id = ?1 AND revoked_us IS NULL;

-- any tenant: the row is known by its id.
-- name: rows_close_cred
-- takes: int int
UPDATE cred SET revoked_us = min(coalesce(revoked_us, ?2), ?2), old_hash = NULL, old_until_us = NULL WHERE id = ?1;

-- any tenant: the row is known by its id.
-- name: rows_close_grant
-- takes: int
DELETE FROM tool_grant WHERE id = ?1;

-- any tenant: they belong to the store.
-- name: rows_close_tool
-- takes: int
UPDATE tool SET state = 3 WHERE id = ?1;

-- any tenant: they belong to the store.
-- name: rows_close_schema
-- takes: int
UPDATE shared_schema SET state = 3 WHERE id = ?1;

-- any tenant: they belong to the store.
-- name: rows_close_upstream
-- takes: int
UPDATE upstream SET state = 3, name = substr(name, 1, 40) || '~' || id WHERE id = ?1;

-- any tenant: secrets belong to the store.
-- name: rows_close_secret
-- takes: int
DELETE FROM secret WHERE id = ?1;

-- any tenant: the row is known by its id.
-- name: rows_close_limit
-- takes: int
DELETE FROM limit_row WHERE id = ?1;

-- any tenant: the row is known by its id.
-- name: rows_close_level
-- takes: int
DELETE FROM tool_level WHERE id = ?1;

-- The risk of a tool may have been prohibited: it is disabled.
-- any tenant: the row is known by its id.
-- name: rows_close_rated
-- takes: int
UPDATE tool SET state = 2 WHERE state = 1 AND id = (SELECT subject_id FROM inventory WHERE id = ?1 AND subject_kind = 3);

-- any tenant: the row is known by its id.
-- name: rows_close_inventory
-- takes: int
DELETE FROM inventory WHERE id = ?1;

-- Those who are the system.  Index principal_system.
-- any tenant: the row is known by its id.
-- name: rows_close_members
-- takes: int
UPDATE principal SET state = 2 WHERE system_id = ?1;

-- any tenant: the row is known by its id.
-- name: rows_close_system
-- takes: int
UPDATE system SET state = 3 WHERE id = ?1;

-- any tenant: they belong to the store.
-- name: rows_close_version
-- takes: int
UPDATE tool_version SET definition = '{}', digest = zeroblob(32), list_digest = zeroblob(32) WHERE id = ?1;

-- The tool where it is in force, whose row is digested with it.  Primary keys.
-- any tenant: tools belong to the store.
-- name: rows_close_in_force
-- takes: int
UPDATE tool SET state = 3 WHERE (id, version) = (SELECT tool_id, version FROM tool_version WHERE id = ?1);

-- any tenant: versions belong to the store.
-- name: rows_close_pending
-- takes: int
DELETE FROM pending_version WHERE tool_id = ?1;

-- What waited may never have been approved: a tool that is disabled is not enabled by that.
-- any tenant: they belong to the store.
-- name: rows_close_waiting
-- takes: int
UPDATE tool SET state = 3 WHERE id = ?1 AND state = 2;

-- Tenants of a row of kind ?1, by the row and by the log that spoke of it; a row that is gone is known by its log.
-- any tenant: the row is known by its id.
-- name: rows_tenants
-- takes: int int
SELECT tenant_id FROM tool_grant WHERE ?1 = 4 AND id = ?2
UNION SELECT tenant_id FROM limit_row WHERE ?1 = 9 AND id = ?2
UNION SELECT tenant_id FROM tool_level WHERE ?1 = 10 AND id = ?2
UNION SELECT l.tenant_id FROM tool_grant r JOIN log l ON l.id = r.rec_log WHERE ?1 = 4 AND r.id = ?2 AND l.tenant_id IS NOT NULL
UNION SELECT l.tenant_id FROM limit_row r JOIN log l ON l.id = r.rec_log WHERE ?1 = 9 AND r.id = ?2 AND l.tenant_id IS NOT NULL
UNION SELECT l.tenant_id FROM tool_level r JOIN log l ON l.id = r.rec_log WHERE ?1 = 10 AND r.id = ?2 AND l.tenant_id IS NOT NULL
UNION SELECT l.tenant_id FROM row_gone r JOIN log l ON l.id = r.rec_log WHERE r.kind = ?1 AND r.id = ?2 AND l.tenant_id IS NOT NULL;

-- name: rows_suspend_tenant
-- takes: int
UPDATE tenant SET state = 2 WHERE id = ?1 AND state = 1;
