-- Statements for audit_unfold().  A log stands for its tenant.

-- name: unfold_log
-- takes: int
-- put_everything().  Primary key.
SELECT id, origin, tenant_id, state, min_idx, pruned_by FROM log WHERE id = ?1;

-- name: unfold_tenant
-- takes: int
-- put_everything(): what the views name.  Primary key.
SELECT id, name, title, state, 0 AS generation, x'' AS list_digest, 0 AS concurrency, 0 AS rate_count, 0 AS rate_per_s, created_us
FROM tenant WHERE id = ?1;

-- name: unfold_principals
-- takes: int
-- put_everything().  UNIQUE(tenant_id, name).
SELECT id, tenant_id, name, pseudonym, state, created_us FROM principal WHERE tenant_id = ?1;

-- name: unfold_records
-- takes: int int int int int
-- put_page(): records of a log by position, ?2 <= idx < ?3, of a time.  rec_pos, or blocks.
SELECT enc, leaf, log, idx, call, ts, mono, boot, clk, cred, prn, actor, authn, obo, peer, client, tport, rev,
  kind, tool, tdef, build, pol, rule, scope, cm, sh, n_req, n_res, n_sto, flags, "key", outcome, xstat, sig,
  dur, cpu, rss, sbox, beg, prev, trace, obj, ext, sys, mdl
FROM rec WHERE log = ?1 AND idx >= ?2 AND idx < ?3 AND ts >= ?4 AND ts < ?5 ORDER BY idx;

-- name: unfold_lost
-- takes: int
-- put_begins(), of the copy: begins of calls whose end is there, and which are not.  rec_place.
SELECT DISTINCT e.beg FROM rec e WHERE e.log = ?1 AND e.beg IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM rec b WHERE b.log = e.log AND b.idx = e.beg);

-- name: unfold_record
-- takes: int int
-- put_begins().  rec_pos, or its block.
SELECT enc, leaf, log, idx, call, ts, mono, boot, clk, cred, prn, actor, authn, obo, peer, client, tport, rev,
  kind, tool, tdef, build, pol, rule, scope, cm, sh, n_req, n_res, n_sto, flags, "key", outcome, xstat, sig,
  dur, cpu, rss, sbox, beg, prev, trace, obj, ext, sys, mdl
FROM rec WHERE log = ?1 AND idx = ?2;

-- name: unfold_text
-- takes: int
-- put_record().  Primary key.
SELECT id, kind, text FROM dict WHERE id = ?1;
