-- Statements on pay and alias.  Each names its caller and its index.

-- audit_payload_store().  Primary key.
-- name: payload_insert
-- takes: int blob blob blob
-- only: sqlite
INSERT INTO main.pay(rec, salt, nonce, ct) VALUES(?1, ?2, ?3, ?4);

-- The same by its place.
-- name: payload_insert_at
-- takes: int int int blob blob blob
-- only: pgsql
INSERT INTO pay(log, idx, ts, salt, nonce, ct) VALUES(?1, ?2, ?3, ?4, ?5, ?6);

-- audit_logs_insert(): of some records at once.
-- name: payload_insert_all
-- takes: row
-- only: sqlite
INSERT OR FAIL INTO main.pay(rec, salt, nonce, ct) SELECT c0, c1, c2, c3 FROM rows_in(?1);

-- audit_open_record(): one record with what is kept of it.  rec_pos, primary key.
-- name: payload_get
-- takes: int int
SELECT r.cm, r."key", r.kind, p.salt, p.nonce, p.ct, l.origin
-- only: sqlite
FROM rec r JOIN log l ON l.id = r.log LEFT JOIN pay p ON p.rec = r.id WHERE r.log = ?1 AND r.idx = ?2;
-- only: pgsql
FROM rec r JOIN log l ON l.id = r.log LEFT JOIN pay p ON p.log = r.log AND p.idx = r.idx AND p.ts = r.ts WHERE r.log = ?1 AND r.idx = ?2;

-- admin: audit payload.  rec_pos, primary keys.
-- name: payload_people
-- takes: int int
SELECT p.text, c.text FROM rec r LEFT JOIN dict p ON p.id = r.peer LEFT JOIN dict c ON c.id = r.client
WHERE r.log = ?1 AND r.idx = ?2;

-- audit_open_alias(): what a row of alias is bound to.  Primary key.
-- name: alias_origin
-- takes: int
SELECT origin FROM log WHERE id = ?1;

-- audit_alias_fill(): the pseudonym of a value.  Unique index.
-- name: alias_find
-- takes: int int blob
SELECT name FROM alias WHERE log = ?1 AND kind = ?2 AND token = ?3;

-- audit_alias_fill(), audit_open_alias(): the row of a pseudonym.  Unique index.
-- name: alias_get
-- takes: text
SELECT log, kind, "key", nonce, ct, idx FROM alias WHERE name = ?1;

-- name: alias_insert
-- takes: int int blob text int int blob blob
INSERT INTO alias(log, kind, token, name, idx, "key", nonce, ct) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- audit_alias_fill(): the name that a principal's pseudonym stands for.  Unique index.
-- name: alias_get_person
-- takes: int text
SELECT name FROM principal WHERE pseudonym = ?2 AND tenant_id = ?1;

-- audit_erase_record(): the row of one record.  rec_order, primary key.
-- name: erase_payload_at
-- takes: int int
-- only: sqlite
DELETE FROM main.pay WHERE rec = (SELECT id FROM main.rec_at WHERE log = ?1 AND idx = ?2);
-- only: pgsql
DELETE FROM pay WHERE log = ?1 AND idx = ?2;

-- audit_erase_slice(): the next records that have a payload key, from an index on and before another; of each what its payload
-- goes by in its log, the number of its row or its index.  rec_order.
-- name: erase_list_keys
-- takes: int int int int
-- only: sqlite
SELECT r.idx, r."key", r.id, p.rec IS NOT NULL FROM main.rec_at r LEFT JOIN main.pay p ON p.rec = r.id
WHERE r.log = ?1 AND r.idx >= ?2 AND r.idx < ?4 ORDER BY r.span, r.idx LIMIT ?3;
-- only: pgsql
SELECT r.idx, r."key", r.idx, p.idx IS NOT NULL FROM rec r LEFT JOIN pay p ON p.log = r.log AND p.idx = r.idx AND p.ts = r.ts
WHERE r.log = ?1 AND r.idx >= ?2 AND r.idx < ?4 ORDER BY r.idx LIMIT ?3;

-- name: erase_payload
-- takes: int int
-- only: sqlite
DELETE FROM main.pay WHERE rec = ?2 AND ?1 > 0;
-- only: pgsql
DELETE FROM pay WHERE log = ?1 AND idx = ?2;

-- audit_erase_slice(): what one key encrypts.  Walk of the log's aliases by their unique index.
-- name: erase_aliases
-- takes: int int
DELETE FROM alias WHERE log = ?1 AND "key" = ?2;

-- name: erase_all_aliases
-- takes: int
DELETE FROM alias WHERE log = ?1;

-- verify_payloads(): a page of records with what is kept of them.  rec_pos, primary keys; a plus keeps it there.
-- name: verify_list_payloads
-- takes: int int int int
-- only: sqlite
SELECT r.idx, r.kind, r.cm, r.sh, r.n_sto, r."key", p.rec, p.salt, p.nonce, p.ct, d.text
FROM rec r LEFT JOIN pay p ON p.rec = r.id LEFT JOIN dict d ON d.id = r.obj
-- only: pgsql
SELECT r.idx, r.kind, r.cm, r.sh, r.n_sto, r."key", p.idx, p.salt, p.nonce, p.ct, d.text
FROM rec r LEFT JOIN pay p ON p.log = r.log AND p.idx = r.idx AND p.ts = r.ts LEFT JOIN dict d ON d.id = r.obj
-- only: all
WHERE r.log = ?1 AND r.idx >= ?2 AND r.idx < ?3 ORDER BY r.idx LIMIT ?4;

-- verify_payloads(): pseudonyms of a log with their records and, of persons, the registry's names.  Unique indexes, rec_pos.
-- name: verify_list_aliases
-- takes: int
SELECT a.id, a.name, a.kind, a.idx, a."key", a.nonce, a.ct, r.kind, r.cm, r."key", d.text, p.salt, n.name
FROM alias a LEFT JOIN rec r ON r.log = a.log AND r.idx = a.idx LEFT JOIN dict d ON d.id = r.obj
-- only: sqlite
LEFT JOIN pay p ON p.rec = r.id JOIN log l ON l.id = a.log
-- only: pgsql
LEFT JOIN pay p ON p.log = r.log AND p.idx = r.idx AND p.ts = r.ts JOIN log l ON l.id = a.log
-- only: all
LEFT JOIN principal n ON n.pseudonym = a.name AND n.tenant_id = l.tenant_id AND a.kind = 1
WHERE a.log = ?1 ORDER BY a.id;

-- check_unnamed(): principals of a tenant whose pseudonym no record has named.  UNIQUE of principal, of alias.
-- name: verify_list_unnamed
-- takes: int
SELECT n.name, n.pseudonym FROM principal n WHERE n.tenant_id = ?1 AND NOT EXISTS (SELECT 1 FROM alias a WHERE a.name = n.pseudonym)
ORDER BY n.name;
