-- Statements on approval.  Each names its caller and its index.

-- name: approval_find
-- takes: blob
-- adm_second: by digest.  UNIQUE(digest).
SELECT id, digest, command, tenant_id, asked_by, asked_us, granted_by, granted_us FROM approval WHERE digest = ?1;

-- name: approval_get
-- takes: int
-- admin: approval grant, deny.  Primary key.
SELECT id, digest, command, tenant_id, asked_by, asked_us, granted_by, granted_us FROM approval WHERE id = ?1;

-- name: approval_list
-- takes: int
-- admin: approval list.  Primary key; there are few.
SELECT id, digest, command, tenant_id, asked_by, asked_us, granted_by, granted_us FROM approval ORDER BY id LIMIT ?1;

-- name: approval_count
-- A new request.  Walk of an index; there are few.
SELECT count(*) FROM approval;

-- name: approval_insert
-- takes: blob text int text int
-- A new request.
INSERT INTO approval(digest, command, tenant_id, asked_by, asked_us) VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id;

-- name: approval_grant
-- takes: int text int
-- admin: approval grant.  Primary key.
UPDATE approval SET granted_by = ?2, granted_us = ?3 WHERE id = ?1;

-- name: approval_delete
-- takes: int
-- It is used up, or denied.  Primary key.
DELETE FROM approval WHERE id = ?1;

-- name: approval_expire
-- takes: int
-- A new request: those that came too late, by the day on which they were asked or granted.  Walk of the table; there are few.
DELETE FROM approval WHERE coalesce(granted_us, asked_us) <= ?1;

-- name: second_commit
-- takes: int
-- audit_second: the newest logs.commit of those before ?1.  rec_pos, backwards; there is one in each beat.
SELECT idx FROM rec WHERE log = 1 AND idx < ?1 AND kind = 2001 ORDER BY idx DESC LIMIT 1;

-- name: second_request
-- takes: int
-- audit_second: the first record since the oldest request, not before ?1.  rec_ts.
SELECT idx FROM rec WHERE log = 1 AND kind <> 1001 AND ts >= max(?1, (SELECT min(asked_us) FROM approval)) ORDER BY ts, idx LIMIT 1;

-- name: second_of_object
-- takes: text
-- audit_second_author(): requests about an object, the newest first.  rec_kind.
SELECT idx FROM rec WHERE log = 1 AND kind <> 1001 AND kind <> 1002 AND kind = 1910
  AND obj = (SELECT id FROM dict WHERE kind = 112 AND text = ?1) ORDER BY ts DESC LIMIT 16;
