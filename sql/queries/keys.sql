-- Statements on keys.db, which no other statement touches.  Each names its caller and its index.

-- keys_dek(): the key of a tenant that is in force.  kek_live.
-- name: keys_get_kek
-- takes: int
SELECT id, key_id, box FROM kek WHERE tenant_id = ?1 AND gone_us IS NULL ORDER BY id DESC LIMIT 1;

-- keys_find(), keys_rewrap(): a kek by its id.  Primary key.
-- name: keys_get_kek_by_id
-- takes: int
SELECT tenant_id, key_id, box FROM kek WHERE id = ?1;

-- keys_open(): ids are given by us, for the boxes name them.  Primary keys.
-- name: keys_last_ids
SELECT (SELECT coalesce(max(id), 0) FROM kek), (SELECT coalesce(max(id), 0) FROM dek);

-- name: keys_insert_kek
-- takes: int int text blob int
INSERT INTO kek(id, tenant_id, key_id, box, created_us) VALUES(?1, ?2, ?3, ?4, ?5);

-- keys_dek(): the key of a subject's month.  dek_live.
-- name: keys_get_dek
-- takes: int text int
SELECT id, box FROM dek WHERE kek_id = ?1 AND subject = ?2 AND month = ?3 AND gone_us IS NULL;

-- name: keys_insert_dek
-- takes: int int text int blob int
INSERT INTO dek(id, kek_id, subject, month, box, created_us) VALUES(?1, ?2, ?3, ?4, ?5, ?6);

-- keys_find(): the key that a record names.  Primary key.
-- name: keys_get_dek_by_id
-- takes: int
SELECT kek_id, subject, month, box FROM dek WHERE id = ?1;

-- keys_of_subject(): what there is to destroy.  kek_live for the tenant, then a walk of its keys by dek_live; destroyed keks
-- have no live dek.
-- name: keys_list_subject
-- takes: int text
SELECT d.id FROM dek d JOIN kek k ON k.id = d.kek_id
WHERE k.tenant_id = ?1 AND k.gone_us IS NULL AND d.subject = ?2 AND d.gone_us IS NULL ORDER BY d.id;

-- keys_destroy().  Primary key.
-- name: keys_destroy_dek
-- takes: int int
UPDATE dek SET box = NULL, gone_us = ?2 WHERE id = ?1 AND gone_us IS NULL;

-- keys_destroy_tenant(): the keys below go with those that wrap them.  kek_live, dek_live.
-- name: keys_destroy_deks_of
-- takes: int int
UPDATE dek SET box = NULL, gone_us = ?2
WHERE kek_id IN (SELECT id FROM kek WHERE tenant_id = ?1 AND gone_us IS NULL) AND gone_us IS NULL;

-- name: keys_destroy_keks_of
-- takes: int int
UPDATE kek SET box = NULL, gone_us = ?2 WHERE tenant_id = ?1 AND gone_us IS NULL;

-- keys_begin(): under which key files there are keys.  Walk of kek; one row for each tenant.
-- name: keys_list_files
SELECT DISTINCT key_id FROM kek WHERE gone_us IS NULL;

-- keys_stale(), keys_rewrap(): those under another key file, and the next of one file.  Walks of kek; one row for each tenant.
-- name: keys_count_stale
-- takes: text
SELECT key_id, count(*) FROM kek WHERE gone_us IS NULL AND key_id <> ?1 GROUP BY key_id;

-- name: keys_list_stale
-- takes: text int
SELECT id, tenant_id, key_id, box FROM kek WHERE gone_us IS NULL AND key_id = ?1 LIMIT ?2;

-- name: keys_rewrap_kek
-- takes: int text blob
UPDATE kek SET key_id = ?2, box = ?3 WHERE id = ?1;

-- keys_note_erased(): once for each record.  erased's own index.
-- name: keys_insert_erased
-- takes: text int blob blob
INSERT INTO erased(origin, idx, leaf, ext) VALUES(?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING;

-- keys_next_erased(), keys_drop_erased().  Primary key.
-- name: keys_next_erased
-- takes: int
SELECT id, origin, idx, leaf, ext FROM erased WHERE id > ?1 ORDER BY id LIMIT 1;

-- name: keys_delete_erased
-- takes: int
DELETE FROM erased WHERE id = ?1;
