-- Statements on rows that records vouch for, whatever tenant they belong to.  Each names its caller and its index.

-- audit_append_rows(), audit_rows_pending(): rows that no record vouches for.  The indexes *_unvouched, which are empty
-- but for what the present transaction has written.
-- any tenant: the record that follows is looked for by the row.
-- name: rows_pending
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
  UNION ALL SELECT kind, id, rec_log, rec_idx FROM row_gone)
ORDER BY kind, id LIMIT ?1;

-- audit_append_rows(): a deleted row is on record.  Primary key.
-- name: rows_forget_gone
DELETE FROM row_gone WHERE kind = ?1 AND id = ?2;

-- audit_append_rows(), audit_rows_check(): what the record says that vouched for a row.  rec_pos.
-- name: rows_get_record
SELECT kind, ext FROM rec WHERE log = ?1 AND idx = ?2;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_tenant
SELECT rec_log, rec_idx, id, name, title, state, concurrency, rate_count, rate_per_s, created_us, sandbox, audit_level
FROM tenant WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_tenant
UPDATE tenant SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_principal
SELECT rec_log, rec_idx, id, tenant_id, pseudonym, state, created_us FROM principal WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_principal
UPDATE principal SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_cred
SELECT rec_log, rec_idx, id, tenant_id, principal_id, accessor, hash, created_us, expires_us, revoked_us,
  not_before_us, scopes, cidr, arg_rules, rotated_us, old_hash, old_until_us, enrol_ttl_us, parent_id, expired_us,
  suspended_us
FROM cred WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_cred
UPDATE cred SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_tool
SELECT t.rec_log, t.rec_idx, t.id, t.name, t.state, t.version, t.created_us, v.kind, v.uri, v.digest, v.definition
FROM tool t LEFT JOIN tool_version v ON v.tool_id = t.id AND v.version = t.version WHERE t.id >= ?1 ORDER BY t.id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_tool
UPDATE tool SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_schema
SELECT rec_log, rec_idx, id, uri, state, digest, definition, created_us FROM shared_schema WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_schema
UPDATE shared_schema SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_upstream
SELECT rec_log, rec_idx, id, name, state, definition, digest, prefix, created_us FROM upstream WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_upstream
UPDATE upstream SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_secret
SELECT rec_log, rec_idx, id, name, created_us, changed_us FROM secret WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_secret
UPDATE secret SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_limit
SELECT rec_log, rec_idx, id, tenant_id, scope, subject, concurrency, queue, rate_count, rate_per_s, requests_count,
  requests_per_s, calls_day, bytes_day
FROM limit_row WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_limit
UPDATE limit_row SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_level
SELECT rec_log, rec_idx, id, tenant_id, tool, level FROM tool_level WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_level
UPDATE tool_level SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;

-- audit_row_digest(), audit_rows_walk(): without what changes by use, without names of persons.  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_upstream_tool
SELECT rec_log, rec_idx, id, upstream_id, remote, tool_id, pinned FROM upstream_tool WHERE id >= ?1 ORDER BY id LIMIT ?2;

-- audit_append_rows().  Primary key.
-- any tenant: the row is known by its id.
-- name: rows_vouch_upstream_tool
UPDATE upstream_tool SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1;
