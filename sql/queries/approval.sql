-- Statements on approval.  Each names its caller and its index.

-- name: approval_find
-- adm_second: by digest.  UNIQUE(digest).
SELECT id, digest, command, tenant_id, asked_by, asked_us, granted_by, granted_us FROM approval WHERE digest = ?1;

-- name: approval_get
-- admin: approval grant, deny.  Primary key.
SELECT id, digest, command, tenant_id, asked_by, asked_us, granted_by, granted_us FROM approval WHERE id = ?1;

-- name: approval_list
-- admin: approval list.  Primary key; there are few.
SELECT id, digest, command, tenant_id, asked_by, asked_us, granted_by, granted_us FROM approval ORDER BY id;

-- name: approval_count
-- A new request.  Walk of an index; there are few.
SELECT count(*) FROM approval;

-- name: approval_insert
-- A new request.
INSERT INTO approval(digest, command, tenant_id, asked_by, asked_us) VALUES (?1, ?2, ?3, ?4, ?5);

-- name: approval_grant
-- admin: approval grant.  Primary key.
UPDATE approval SET granted_by = ?2, granted_us = ?3 WHERE id = ?1;

-- name: approval_delete
-- It is used up, or denied.  Primary key.
DELETE FROM approval WHERE id = ?1;

-- name: approval_expire
-- A new request: those that came too late, by the day on which they were asked or granted.  Walk of the table; there are few.
DELETE FROM approval WHERE coalesce(granted_us, asked_us) <= ?1;
