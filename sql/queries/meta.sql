-- Statements on meta and on the file as a whole.  Each names its caller and its index.

-- db_migrate(): is the file empty?
-- name: meta_count_schema
SELECT count(*) FROM sqlite_master NOT INDEXED;

-- db_check_schema(): all there is, to be compared with what the steps make (AUDIT A-629), but what ANALYZE makes.  A file
-- may bring an index of this table that leaves rows out.
-- name: meta_list_schema
SELECT type, name, tbl_name, sql FROM sqlite_master NOT INDEXED
WHERE (type, name, tbl_name, sql) IS NOT ('table', 'sqlite_stat1', 'sqlite_stat1', 'CREATE TABLE sqlite_stat1(tbl,idx,stat)')
  AND (type, name, tbl_name, sql) IS NOT
    ('table', 'sqlite_stat4', 'sqlite_stat4', 'CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)')
ORDER BY type, name, tbl_name, sql;

-- db_vtab_views(): views with the release's text.  A walk of a small table.
-- name: meta_list_views
SELECT name, sql FROM main.sqlite_master WHERE type = 'view' AND name NOT IN ('rec_at', 'rec_tail') ORDER BY rowid;

-- db_copy_new(): tables first.  A walk of a small table.
-- name: meta_list_objects
SELECT type, name, sql FROM main.sqlite_master WHERE type IN ('table', 'view') AND name NOT IN ('rec_at', 'rec_tail')
ORDER BY type, rowid;

-- db_check_structure(): tables with an index, or that are one; but ?1.
-- name: meta_list_indexed
-- takes: text
SELECT name FROM sqlite_schema t WHERE type = 'table' AND name <> ?1 AND (sql LIKE '%WITHOUT ROWID%'
  OR EXISTS(SELECT 1 FROM sqlite_schema i WHERE i.type = 'index' AND i.tbl_name = t.name));

-- setup_store(): has an owner ever started here?  rec_kind, whose terms are said.
-- name: meta_was_used
SELECT EXISTS(SELECT 1 FROM rec WHERE log = 1 AND kind = 1601 AND kind <> 1001 AND kind <> 1002);

-- db_make_lean(): what finds rows of a store without blocks, and costs each record a page (decision 0061).
-- name: meta_drop_call
DROP INDEX main.rec_call;

-- name: meta_drop_ts
DROP INDEX main.rec_ts;

-- name: meta_drop_prn
DROP INDEX main.rec_prn;

-- name: meta_drop_cred
DROP INDEX main.rec_cred;

-- name: meta_drop_tool
DROP INDEX main.rec_tool;

-- name: meta_drop_out
DROP INDEX main.rec_out;

-- name: meta_drop_kind
DROP INDEX main.rec_kind;

-- name: meta_drop_pos
DROP INDEX main.rec_pos;

-- db_lean_left().  Walk of the schema.
-- name: meta_lean_left
SELECT count(*) FROM sqlite_schema NOT INDEXED WHERE type = 'index'
  AND name IN ('rec_call', 'rec_ts', 'rec_prn', 'rec_cred', 'rec_tool', 'rec_out', 'rec_kind', 'rec_pos');

-- app_checkpoints_start().  Primary key.
-- name: meta_delete_value
-- takes: text
DELETE FROM meta WHERE key = ?1;

-- db_backup().
-- name: meta_backup
-- takes: text
VACUUM INTO ?1;

-- audit: instance and open_from.  Primary key.
-- name: meta_get_value
-- takes: text
SELECT value FROM meta WHERE key = ?1;

-- name: meta_set_value
-- takes: text text
INSERT INTO meta(key, value) VALUES(?1, ?2) ON CONFLICT(key) DO UPDATE SET value = excluded.value;

-- keys_begin(), for a store from before it remembered: the last key that a pseudonym is under, and the key files of secrets.
-- Walks of alias and secret, once.
-- name: meta_last_key
SELECT coalesce(max("key"), 0) FROM alias;

-- name: meta_secret_files
SELECT DISTINCT key_id FROM secret;
