-- Statements on meta and on the file as a whole.  Each names its caller and its index.

-- db_migrate(): is the file empty?
-- name: meta_count_schema
SELECT count(*) FROM sqlite_schema;

-- db_migrate(): what there is, to be compared with what the steps make (AUDIT A-629).
-- name: meta_list_schema
SELECT name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name;

-- db_check_structure(): tables with an index, or that are one; but ?1.
-- name: meta_list_indexed
SELECT name FROM sqlite_schema t WHERE type = 'table' AND name <> ?1 AND (sql LIKE '%WITHOUT ROWID%'
  OR EXISTS(SELECT 1 FROM sqlite_schema i WHERE i.type = 'index' AND i.tbl_name = t.name));

-- app_init_store(): has an owner ever started here?  rec_kind, whose terms are said.
-- name: meta_was_used
SELECT EXISTS(SELECT 1 FROM rec WHERE log = 1 AND kind = 1601 AND kind <> 1001 AND kind <> 1002);

-- app_checkpoints_start().  Primary key.
-- name: meta_delete_value
DELETE FROM meta WHERE key = ?1;

-- db_backup().
-- name: meta_backup
VACUUM INTO ?1;

-- audit: instance and open_from.  Primary key.
-- name: meta_get_value
SELECT value FROM meta WHERE key = ?1;

-- name: meta_set_value
INSERT INTO meta(key, value) VALUES(?1, ?2) ON CONFLICT(key) DO UPDATE SET value = excluded.value;
