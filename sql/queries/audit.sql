-- Statements on audit.  Each names its caller and its index.  A log stands for its tenant: ?1 is the log
-- where it is known, and only recovery looks at all of them.

-- audit_logs_open(): all logs with what head and the records themselves say of their size, the newest note, and whether
-- the last thing was a stop.  rec_order, primary keys.
-- name: audit_list_logs
-- only: sqlite
SELECT l.id, l.tenant_id, l.origin, h.size, (SELECT idx + 1 FROM rec WHERE log = l.id ORDER BY idx DESC LIMIT 1), c.size, c.epoch, c.ts,
  l.min_idx, (SELECT kind FROM main.rec_at WHERE log = 1 ORDER BY span DESC, idx DESC LIMIT 1) IS 1602
FROM log l JOIN head h ON h.log = l.id
LEFT JOIN cp c ON c.log = l.id AND c.size = (SELECT max(size) FROM cp WHERE log = l.id);
-- only: pgsql
SELECT l.id, l.tenant_id, l.origin, h.size, (SELECT idx + 1 FROM rec WHERE log = l.id ORDER BY idx DESC LIMIT 1), c.size, c.epoch, c.ts,
  l.min_idx, 1 FROM log l JOIN head h ON h.log = l.id
LEFT JOIN cp c ON c.log = l.id AND c.size = (SELECT max(size) FROM cp WHERE log = l.id);

-- audit_logs_open(): the newest row of any log.  Primary key.
-- name: audit_last_id
-- only: sqlite
SELECT max(id) FROM main.rec;

-- audit_log_create(): is the origin taken?  Unique index.
-- name: audit_get_origin
-- takes: text
SELECT id FROM log WHERE origin = ?1;

-- name: audit_insert_log
-- takes: text int
INSERT INTO log(origin, tenant_id, state) VALUES(?1, ?2, 1) RETURNING id;

-- name: audit_insert_head
-- takes: int
INSERT INTO head(log, size) VALUES(?1, 0);

-- audit_logs_flush().  Primary key.
-- name: audit_update_head
-- takes: int int blob blob
UPDATE head SET size = ?2, root = ?3, frontier = ?4 WHERE log = ?1;

-- audit_growth_open().  Primary key.
-- name: audit_get_head
-- takes: int
SELECT root, frontier FROM head WHERE log = ?1;

-- save_head(): the same where others append as well: when it is what the writer took it for.  Primary key.
-- name: audit_move_head
-- takes: int int blob blob int
-- only: pgsql
UPDATE head SET size = ?2, root = ?3, frontier = ?4 WHERE log = ?1 AND size = ?5;

-- audit_logs_again(): what another node has made of it; locked until the transaction ends.  Primary key.
-- name: audit_lock_head
-- takes: int
-- only: pgsql
SELECT size, root, frontier FROM head WHERE log = ?1 FOR UPDATE;

-- audit_shared_heads(): which logs others have made longer.  A walk of head, of two numbers a log.
-- name: audit_list_heads
-- only: pgsql
SELECT log, size FROM head;

-- audit_shared_heads(), audit_shared_meet(): the same without a lock.  Primary key.
-- name: audit_look_at_head
-- takes: int
-- only: pgsql
SELECT size, root, frontier FROM head WHERE log = ?1;

-- audit_shared_notes(): what the keeper before has had signed.  Primary key.
-- name: audit_list_notes
-- only: pgsql
SELECT c.log, c.size, c.epoch, c.ts FROM cp c WHERE c.size = (SELECT max(size) FROM cp WHERE log = c.log);

-- audit_logs_again(): logs that another node has made.  Primary keys.
-- name: audit_list_new_logs
-- takes: int
-- only: pgsql
SELECT l.id, l.tenant_id, l.origin, h.size, l.min_idx FROM log l JOIN head h ON h.log = l.id WHERE l.id > ?1 ORDER BY l.id;

-- audit_recover(): calls of a process that is no more, from when the first of them began.  rec_brin, rec_call.
-- name: audit_list_dead
-- takes: int text
-- only: pgsql
SELECT r.log, r.idx, r.call FROM rec r JOIN dict b ON b.id = r.boot AND b.text = ?2
WHERE r.ts >= ?1 AND r.kind = 1001 AND r.call IS NOT NULL AND NOT EXISTS (SELECT 1 FROM rec e WHERE e.call = r.call
  AND e.call IS NOT NULL AND e.kind <> 1001 AND e.log = r.log AND e.kind IN (1002, 1004)) ORDER BY r.log, r.idx;

-- audit_append(): a text that is not in memory.  Unique index.
-- name: audit_get_text
-- takes: int text
SELECT id FROM dict WHERE kind = ?1 AND text = ?2;

-- name: audit_insert_text
-- takes: int text
INSERT INTO dict(kind, text) VALUES(?1, ?2) RETURNING id;

-- The same where others do it as well: no row, when one has meanwhile.  Unique index.
-- name: audit_share_text
-- takes: int text
-- only: pgsql
INSERT INTO dict(kind, text) VALUES(?1, ?2) ON CONFLICT (kind, text) DO NOTHING RETURNING id;

-- audit_append().
-- name: audit_insert_rec
-- takes: int blob int int blob int int int int int int int int int int int int int int int int int int int int blob
-- takes: blob int int int int int int int int int int int int int blob blob int blob int int
INSERT INTO main.rec(enc, leaf, log, idx, call, ts, mono, boot, clk, cred, prn, actor, authn, obo, peer, client,
  tport, rev, kind, tool, tdef, build, pol, rule, scope, cm, sh, n_req, n_res, n_sto, flags, "key", outcome,
  xstat, sig, dur, cpu, rss, sbox, beg, prev, trace, obj, ext, sys, mdl)
VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,
  ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40, ?41, ?42, ?43, ?44, ?45, ?46);

-- audit_logs_insert(): the same of some rows at once, columns in the order of the table, id NULL.
-- name: audit_insert_recs
-- takes: row
-- only: sqlite
INSERT OR FAIL INTO main.rec(id, enc, log, idx, kind, ts, mono, boot, call, cred, prn, actor, authn, tport, rev, tool,
  tdef, build, rule, n_req, n_res, flags, outcome, xstat, sig, dur, beg, prev, trace, obj, ext, leaf, sbox, clk, obo,
  peer, client, pol, scope, cm, sh, n_sto, "key", cpu, rss, sys, mdl)
SELECT c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, c16, c17, c18, c19, c20, c21, c22, c23,
  c24, c25, c26, c27, c28, c29, c30, c31, c32, c33, c34, c35, c36, c37, c38, c39, c40, c41, c42, c43, c44, c45, c46 FROM
  rows_in(?1);

-- audit_last_kind().  rec_pos.
-- name: audit_last_kind
-- takes: int
SELECT kind, ts FROM rec WHERE log = ?1 ORDER BY idx DESC LIMIT 1;

-- audit_recover(): rows of calls from meta.open_from on, but for leftovers of blocks.  Primary keys.
-- name: audit_list_tail
-- takes: int
-- only: sqlite
SELECT id, log, idx, kind, call FROM main.rec r WHERE id >= ?1 AND call IS NOT NULL
  AND idx >= coalesce((SELECT first + cnt FROM main.blk WHERE log = r.log ORDER BY first DESC LIMIT 1), 0) ORDER BY id;

-- audit_recover(): what call.recovered repeats of its begin.  Primary key.
-- name: audit_get_begin
-- takes: int
-- only: sqlite
SELECT actor, authn, tport, cred, prn, rev, tool, tdef, sbox FROM rec_text WHERE id = ?1;

-- The same by its place.  Primary key.
-- name: audit_get_begin_at
-- takes: int int
-- only: pgsql
SELECT actor, authn, tport, cred, prn, rev, tool, tdef, sbox FROM rec_text WHERE log = ?1 AND idx = ?2;

-- audit_reader_next(): a page of a log with all that is hashed, in the order of audit_columns[].  rec_order.
-- name: audit_list_rows
-- takes: int int int int row
SELECT row_out(?5, enc, leaf, log, idx, call, ts, mono, boot, clk, cred, prn, actor, authn, obo, peer, client, tport, rev,
  kind, tool, tdef, build, pol, rule, scope, cm, sh, n_req, n_res, n_sto, flags, "key", outcome, xstat, sig,
  dur, cpu, rss, sbox, beg, prev, trace, obj, ext, sys, mdl)
-- only: sqlite
FROM main.rec_tail WHERE log = ?1 AND idx >= ?2 AND idx < ?3 ORDER BY span, idx LIMIT ?4;
-- only: pgsql
FROM rec WHERE log = ?1 AND idx >= ?2 AND idx < ?3 ORDER BY idx LIMIT ?4;

-- The same of a store with blocks, whose records have no other leaf than the one that is computed.
-- name: audit_list_forms
-- takes: int int int int row
SELECT row_out(?5, enc, CASE WHEN id >= 0 THEN leaf END, log, idx, call, ts, mono, boot, clk, cred, prn, actor, authn, obo, peer, client, tport, rev,
  kind, tool, tdef, build, pol, rule, scope, cm, sh, n_req, n_res, n_sto, flags, "key", outcome, xstat, sig,
  dur, cpu, rss, sbox, beg, prev, trace, obj, ext, sys, mdl)
FROM rec WHERE log = ?1 AND idx >= ?2 AND idx < ?3 ORDER BY idx LIMIT ?4;

-- The same of rows that blocks have replaced.  rec_order.
-- name: audit_list_leftovers
-- takes: int int int int row
SELECT row_out(?5, enc, leaf, log, idx, call, ts, mono, boot, clk, cred, prn, actor, authn, obo, peer, client, tport, rev,
  kind, tool, tdef, build, pol, rule, scope, cm, sh, n_req, n_res, n_sto, flags, "key", outcome, xstat, sig,
  dur, cpu, rss, sbox, beg, prev, trace, obj, ext, sys, mdl)
FROM main.rec_at WHERE log = ?1 AND idx >= ?2 AND idx < ?3 ORDER BY span, idx LIMIT ?4;

-- audit_reader_next().  Primary key.
-- name: audit_get_entry
-- takes: int
SELECT kind, text FROM dict WHERE id = ?1;

-- audit_verify(): the next log, of one tenant or of all, with what its head and its records say, and whether the last
-- thing was a stop.  Primary key, rec_order.
-- name: audit_next_head
-- takes: int int
SELECT l.id, l.origin, h.size, coalesce((SELECT idx + 1 FROM rec WHERE log = l.id ORDER BY idx DESC LIMIT 1), 0), h.root, l.min_idx, l.pruned_by,
  (SELECT max(size) FROM cp WHERE log = l.id), coalesce(l.tenant_id, 0),
  (SELECT kind FROM main.rec_at WHERE log = 1 ORDER BY span DESC, idx DESC LIMIT 1) IS 1602,
  (SELECT epoch FROM cp WHERE log = l.id ORDER BY size DESC LIMIT 1), (SELECT note FROM cp WHERE log = l.id ORDER BY size DESC LIMIT 1)
FROM log l JOIN head h ON h.log = l.id WHERE l.id > ?1 AND (?2 = 0 OR l.tenant_id = ?2) ORDER BY l.id LIMIT 1;

-- audit_verify(): how many records are to be read, as far as can be said before.  Primary keys.
-- name: verify_count
-- takes: int
SELECT CAST(coalesce(sum(max(h.size - l.min_idx, 0)), 0) AS INTEGER) FROM log l JOIN head h ON h.log = l.id WHERE ?1 = 0 OR l.tenant_id = ?1;

-- read_life(): the last start, stop or crash that the system's log has.  rec_pos, backwards.
-- name: verify_get_life
SELECT kind, ts, ext FROM rec WHERE log = 1 AND kind IN (1601, 1602, 1603) ORDER BY idx DESC LIMIT 1;

-- read_steps(): when the clock was set.  rec_kind.
-- name: verify_list_steps
SELECT ts, ext FROM rec WHERE log = 1 AND kind <> 1001 AND kind <> 1002 AND kind = 1605;

-- audit_verify(): texts that the dictionary has twice; as bytes, so that no index is asked and a BLOB counts as well.
-- name: verify_list_twins
-- only: sqlite
SELECT 'the text "' || CAST(text AS TEXT) || '" of kind ' || kind FROM dict NOT INDEXED GROUP BY kind, CAST(text AS BLOB)
HAVING count(*) > 1;
-- only: pgsql
SELECT 'the text "' || text || '" of kind ' || kind FROM dict GROUP BY kind, text HAVING count(*) > 1;

-- audit_verify(): tenants without a log, logs without a head, records and rows of no log.  rec_pos, a step for each log;
-- walks of small tables; of holds, which have no index by log, the last such log.
-- name: audit_list_logless
SELECT 'tenant/' || name FROM tenant WHERE id NOT IN (SELECT tenant_id FROM log WHERE tenant_id IS NOT NULL)
UNION ALL SELECT origin FROM log WHERE id NOT IN (SELECT log FROM head)
UNION ALL SELECT 'records of log ' || x || ', which is not there' FROM (
  WITH RECURSIVE l(x) AS (SELECT * FROM (SELECT log FROM rec WHERE log >= -9223372036854775807 - 1 ORDER BY log LIMIT 1) c
    UNION ALL SELECT (SELECT log FROM rec WHERE log > x ORDER BY log LIMIT 1) FROM l WHERE x IS NOT NULL)
  SELECT x FROM l WHERE x IS NOT NULL AND x NOT IN (SELECT id FROM log)) a
UNION ALL SELECT 'rows of ' || n || ' of log ' || x || ', which is not there' FROM (
  SELECT 'cp' AS n, log AS x FROM (SELECT DISTINCT log FROM cp) c
  UNION ALL SELECT 'hold', x FROM (SELECT max(log) AS x FROM hold WHERE log NOT IN (SELECT id FROM log)) e WHERE x IS NOT NULL
  UNION ALL SELECT 'retention', log FROM (SELECT DISTINCT log FROM retention) f
  UNION ALL SELECT 'alias', log FROM (SELECT DISTINCT log FROM alias) g
  UNION ALL SELECT 'tile', log FROM (SELECT DISTINCT log FROM tile) h UNION ALL SELECT 'seg', log FROM (SELECT DISTINCT log FROM seg) i
  UNION ALL SELECT 'head', log FROM head) b WHERE x NOT IN (SELECT id FROM log);

-- audit_query(): the log of a tenant.  Unique index.
-- name: audit_get_log
-- takes: int
SELECT id FROM log WHERE tenant_id = ?1;

-- audit_query(): newest first, begins left out.  rec_ts.
-- name: audit_list_rec
-- takes: int int int text text text int int int
SELECT idx, kind, ts, call, actor, authn, tport, n_req, n_res, flags, outcome, xstat, sig, dur, beg, prev, ext, cred, prn, rev,
  tool, tdef, rule, obj, sbox
FROM rec_text
WHERE log = ?1 AND kind <> 1001 AND ts >= ?2 AND ts < ?3
  AND (?4 IS NULL OR tool_id = (SELECT id FROM dict WHERE kind = 34 AND text = ?4))
  AND (?5 IS NULL OR prn_id = (SELECT id FROM dict WHERE kind = 17 AND text = ?5))
  AND (?6 IS NULL OR cred_id = (SELECT id FROM dict WHERE kind = 16 AND text = ?6))
  AND (?7 < 0 OR outcome = ?7) AND (?8 = 0 OR kind = ?8)
-- only: sqlite
ORDER BY ts DESC, id DESC LIMIT ?9;
-- only: pgsql
ORDER BY ts DESC, idx DESC LIMIT ?9;

-- audit_query(): of one kind, newest first: neither begins nor ends of calls.  rec_kind.
-- name: audit_list_kind
-- takes: int int int text text text int int int
SELECT idx, kind, ts, call, actor, authn, tport, n_req, n_res, flags, outcome, xstat, sig, dur, beg, prev, ext, cred, prn, rev,
  tool, tdef, rule, obj, sbox
FROM rec_text
WHERE log = ?1 AND kind <> 1001 AND kind <> 1002 AND kind = ?8 AND ts >= ?2 AND ts < ?3
  AND (?4 IS NULL OR tool_id = (SELECT id FROM dict WHERE kind = 34 AND text = ?4))
  AND (?5 IS NULL OR prn_id = (SELECT id FROM dict WHERE kind = 17 AND text = ?5))
  AND (?6 IS NULL OR cred_id = (SELECT id FROM dict WHERE kind = 16 AND text = ?6))
  AND (?7 < 0 OR outcome = ?7)
-- only: sqlite
ORDER BY ts DESC, id DESC LIMIT ?9;
-- only: pgsql
ORDER BY ts DESC, idx DESC LIMIT ?9;

-- audit_query(): begins alone, newest first.  rec_pos.
-- name: audit_list_begin
-- takes: int int int text text text int
SELECT idx, kind, ts, call, actor, authn, tport, n_req, n_res, flags, outcome, xstat, sig, dur, beg, prev, ext, cred, prn, rev,
  tool, tdef, rule, obj, sbox
FROM rec_text
WHERE log = ?1 AND kind = 1001 AND ts >= ?2 AND ts < ?3
  AND (?4 IS NULL OR tool_id = (SELECT id FROM dict WHERE kind = 34 AND text = ?4))
  AND (?5 IS NULL OR prn_id = (SELECT id FROM dict WHERE kind = 17 AND text = ?5))
  AND (?6 IS NULL OR cred_id = (SELECT id FROM dict WHERE kind = 16 AND text = ?6))
ORDER BY idx DESC LIMIT ?7;

-- audit_query_call(): a call that has ended, its begin found by the end.  rec_call, rec_pos; the plus
-- keeps the planner from walking through the whole log by rec_ts.
-- name: audit_list_call
-- takes: int blob
SELECT idx, kind, ts, call, actor, authn, tport, n_req, n_res, flags, outcome, xstat, sig, dur, beg, prev, ext, cred, prn, rev,
  tool, tdef, rule, obj, sbox
FROM rec_text
WHERE log = ?1 AND idx IN (
  SELECT idx FROM rec WHERE call = ?2 AND kind <> 1001 AND +log = ?1
  UNION SELECT beg FROM rec WHERE call = ?2 AND kind <> 1001 AND +log = ?1)
ORDER BY idx;

-- audit_query_call(): a call that has ended of a store with blocks, its own records from ?3 to ?4.  Primary keys.
-- name: audit_list_call_forms
-- takes: int blob int int
WITH e(idx, beg) AS MATERIALIZED (
  SELECT idx, beg FROM rec WHERE log = ?1 AND call = ?2 AND kind <> 1001 AND idx >= ?3 AND idx <= ?4)
SELECT idx, kind, ts, call, actor, authn, tport, n_req, n_res, flags, outcome, xstat, sig, dur, beg, prev, ext, cred, prn, rev,
  tool, tdef, rule, obj, sbox
FROM rec_text
WHERE log = ?1 AND idx IN (SELECT idx FROM e UNION SELECT beg FROM e)
ORDER BY idx;

-- audit_query_call(): at times from ?3 to before ?4: 1, an end; 0, a begin alone; or NULL; and where they are.  Times of blocks.
-- name: audit_find_call_forms
-- takes: int blob int int
SELECT max(kind <> 1001), min(idx), max(idx) FROM rec WHERE log = ?1 AND call = ?2 AND ts >= ?3 AND ts < ?4;

-- audit_query_call(): whether a clock was ever set.  Zones of the system's log.
-- name: audit_was_clock_set
SELECT 1 FROM rec WHERE log = 1 AND kind = 1605 LIMIT 1;

-- audit_query_call(): a call that runs, whose begin is in a block.  Primary key; there are as many as calls that run.
-- name: audit_get_open_call
-- takes: int blob
SELECT idx FROM open_call WHERE log = ?1 AND call = ?2 ORDER BY idx LIMIT 1;

-- audit_query_call(): a call that runs, not before meta.open_from.  Primary key.
-- name: audit_list_running
-- takes: int blob int
SELECT idx, kind, ts, call, actor, authn, tport, n_req, n_res, flags, outcome, xstat, sig, dur, beg, prev, ext, cred, prn, rev,
  tool, tdef, rule, obj, sbox
FROM rec_text
WHERE id >= ?3 AND kind = 1001 AND call = ?2 AND +log = ?1
ORDER BY id LIMIT 1;

-- audit_query_at(): the begin that an end points to.  rec_pos.
-- name: audit_list_at
-- takes: int int
SELECT idx, kind, ts, call, actor, authn, tport, n_req, n_res, flags, outcome, xstat, sig, dur, beg, prev, ext, cred, prn, rev,
  tool, tdef, rule, obj, sbox
FROM rec_text
WHERE log = ?1 AND idx = ?2;
