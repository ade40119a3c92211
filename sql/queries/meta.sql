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

-- What is there, a line for each thing: its kind and name, a colon, what it is (CLUSTER K-704).  Months of records are not named: one
-- that is none of rec's any more is a table by itself.  Whoever owns the schema owns all in it.
-- name: meta_list_catalogue
-- only: sqlite
SELECT type || ' ' || name FROM sqlite_schema ORDER BY 1;
-- only: pgsql
WITH rel(oid, name, kind, owner, acl, secured) AS (
    SELECT c.oid, c.relname::text, c.relkind, c.relowner, c.relacl, c.relrowsecurity FROM pg_class c
    WHERE c.relnamespace = 'toolcrib'::regnamespace AND NOT c.relispartition AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S', 'c')),
  rights(name, who, what) AS (
    SELECT r.name, a.grantee, a.privilege_type FROM rel r, aclexplode(r.acl) a WHERE a.grantee <> r.owner
    UNION ALL SELECT r.name || '.' || b.attname, a.grantee, a.privilege_type FROM rel r JOIN pg_attribute b ON b.attrelid = r.oid, aclexplode(b.attacl) a
    WHERE a.grantee <> r.owner)
SELECT line FROM (
  SELECT CASE kind WHEN 'r' THEN 'table ' WHEN 'p' THEN 'table ' WHEN 'v' THEN 'view ' WHEN 'S' THEN 'sequence ' ELSE 'relation ' END || name || ': ' ||
    CASE WHEN kind = 'v' THEN md5(pg_get_viewdef(oid)) WHEN kind = 'p' THEN 'by months' ELSE 'plain' END || CASE WHEN secured THEN ', by policies' ELSE '' END ||
    CASE WHEN owner <> (SELECT nspowner FROM pg_namespace WHERE oid = 'toolcrib'::regnamespace) THEN ', somebody else''s' ELSE '' END AS line FROM rel
  UNION ALL SELECT 'column ' || r.name || '.' || a.attname || ': ' || format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END ||
    coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '') || CASE a.attidentity WHEN '' THEN '' ELSE ' identity' END
  FROM rel r JOIN pg_attribute a ON a.attrelid = r.oid LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
  WHERE r.kind NOT IN ('S') AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL SELECT 'constraint ' || r.name || '.' || c.conname || ': ' || pg_get_constraintdef(c.oid) || CASE WHEN c.convalidated THEN '' ELSE ' not validated' END
  FROM rel r JOIN pg_constraint c ON c.conrelid = r.oid WHERE c.contype <> 'n'
  UNION ALL SELECT 'index ' || c.relname || ': ' || pg_get_indexdef(c.oid) || CASE WHEN i.indisvalid THEN '' ELSE ' invalid' END
  FROM rel r JOIN pg_index i ON i.indrelid = r.oid JOIN pg_class c ON c.oid = i.indexrelid
  UNION ALL SELECT 'trigger ' || r.name || '.' || t.tgname || ': ' || pg_get_triggerdef(t.oid) || CASE t.tgenabled WHEN 'O' THEN '' ELSE ' switched off' END
  FROM rel r JOIN pg_trigger t ON t.tgrelid = r.oid WHERE NOT t.tgisinternal
  UNION ALL SELECT 'rule ' || r.name || '.' || w.rulename || ': a rule' FROM rel r JOIN pg_rewrite w ON w.ev_class = r.oid WHERE w.rulename <> '_RETURN'
  UNION ALL SELECT 'function ' || p.proname || '(' || pg_get_function_identity_arguments(p.oid) || '): ' || pg_get_function_result(p.oid) || ' ' || md5(p.prosrc) ||
    ' ' || p.provolatile::text || CASE WHEN p.prosecdef THEN ' as its owner' ELSE '' END || coalesce(' ' || array_to_string(p.proconfig, ' '), '')
  FROM pg_proc p WHERE p.pronamespace = 'toolcrib'::regnamespace
  UNION ALL SELECT 'right ' || g.name || ' ' || coalesce(pg_get_userbyid(nullif(g.who, 0)), 'everybody') || ': ' || string_agg(g.what, ' ' ORDER BY g.what)
  FROM rights g WHERE NOT (g.name ~~ 'v\_%' AND g.what = 'SELECT' AND pg_get_userbyid(g.who) = 'toolcrib_views') GROUP BY g.name, g.who) x
ORDER BY line COLLATE "C";
