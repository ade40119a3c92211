-- name: step_0001_base
-- The store of release 0.1: registry, credentials and audit in one file, so that a change and its
-- record are one transaction (AUDIT A-601).  Times are microseconds UTC since 1970.  Steps are
-- append-only: a released one is never edited.

-- meta: facts about the store itself.  instance = random id of this store; open_from = smallest rec.id
-- that may belong to a call without an end (AUDIT A-104).
CREATE TABLE meta(
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

-- tenant: state 1 active, 2 suspended, 3 removed (the row stays, its name is freed by a suffix).
-- generation counts changes of the visible tool set; list_digest is SHA-256 over what tools/list shows, so
-- that a change without a visible difference raises nothing (MCP B-19).
-- concurrency: calls running at once, 0 = server default.  rate_count per rate_per_s seconds, 0 = no limit.
CREATE TABLE tenant(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  title TEXT NOT NULL,
  state INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  list_digest BLOB NOT NULL,
  concurrency INTEGER NOT NULL,
  rate_count INTEGER NOT NULL,
  rate_per_s INTEGER NOT NULL,
  created_us INTEGER NOT NULL
) STRICT;

-- principal: an agent or person of a tenant.  pseudonym = prn_… stands in records instead of the name
-- (AUDIT A-511).  state 1 active, 2 suspended.
CREATE TABLE principal(
  id INTEGER PRIMARY KEY,
  tenant_id INTEGER NOT NULL REFERENCES tenant(id),
  name TEXT NOT NULL,
  pseudonym TEXT NOT NULL UNIQUE,
  state INTEGER NOT NULL,
  created_us INTEGER NOT NULL,
  UNIQUE(tenant_id, name)
) STRICT;

-- cred: a key.  accessor = public part; hash = keyed BLAKE2b of the secret (SEC S-304).
-- expires_us, revoked_us, last_used_us: NULL = never.
CREATE TABLE cred(
  id INTEGER PRIMARY KEY,
  tenant_id INTEGER NOT NULL REFERENCES tenant(id),
  principal_id INTEGER NOT NULL REFERENCES principal(id),
  accessor TEXT NOT NULL UNIQUE,
  hash BLOB NOT NULL,
  label TEXT NOT NULL,
  created_us INTEGER NOT NULL,
  expires_us INTEGER,
  revoked_us INTEGER,
  last_used_us INTEGER
) STRICT;
CREATE INDEX cred_principal ON cred(tenant_id, principal_id);

-- tool: state 1 enabled, 2 disabled, 3 removed (versions stay).  version = the one in force.
CREATE TABLE tool(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  state INTEGER NOT NULL,
  version INTEGER NOT NULL,
  created_us INTEGER NOT NULL
) STRICT;

-- tool_version: digest = SHA-256 of the canonical definition; list_digest = SHA-256 of the part that
-- tools/list shows; definition = the document as JSON text, members in the author's order.
CREATE TABLE tool_version(
  id INTEGER PRIMARY KEY,
  tool_id INTEGER NOT NULL REFERENCES tool(id),
  version INTEGER NOT NULL,
  digest BLOB NOT NULL,
  list_digest BLOB NOT NULL,
  definition TEXT NOT NULL,
  actor TEXT NOT NULL,
  created_us INTEGER NOT NULL,
  UNIQUE(tool_id, version)
) STRICT;

-- tool_grant: this tenant may use the tools whose name matches glob ('*', '?'), a literal one perhaps
-- under an alias ('' = none).  rate and concurrency lower the tool's own limits, 0 = as the tool says.
CREATE TABLE tool_grant(
  id INTEGER PRIMARY KEY,
  tenant_id INTEGER NOT NULL REFERENCES tenant(id),
  glob TEXT NOT NULL,
  alias TEXT NOT NULL,
  concurrency INTEGER NOT NULL,
  rate_count INTEGER NOT NULL,
  rate_per_s INTEGER NOT NULL,
  created_us INTEGER NOT NULL,
  UNIQUE(tenant_id, glob)
) STRICT;

-- log: one row per log; 1 is the system log, each tenant has its own (AUDIT 6.2).  state 1 open, 2 closed.
CREATE TABLE log(
  id INTEGER PRIMARY KEY,
  origin TEXT NOT NULL UNIQUE,
  tenant_id INTEGER UNIQUE,
  state INTEGER NOT NULL
) STRICT;

-- head: how many records a log has; written in the same transaction as the records.
CREATE TABLE head(
  log INTEGER PRIMARY KEY REFERENCES log(id),
  size INTEGER NOT NULL
) STRICT;

-- dict: interned texts of records; kind = tag of the column that uses it (AUDIT A-406).
CREATE TABLE dict(
  id INTEGER PRIMARY KEY,
  kind INTEGER NOT NULL,
  text TEXT NOT NULL,
  UNIQUE(kind, text)
) STRICT;

-- rec: the records, encoding 1 of AUDIT 4.2; columns that no record of this release fills come with the
-- release that fills them (ADD COLUMN, NULL: AUDIT A-408).  Inserted once, never updated.
-- log, idx: which log, position in it.  kind: event code.  ts: wall clock, mono: monotonic.  boot: dict, boot id.
-- call: call id.  cred, prn: dict, accessor and pseudonym.  actor: 1 service 2 human 3 admin 4 local uid 5 system.
-- authn: 1 key 2 JWT 3 mTLS 4 peer uid 5 bound listener 6 none.  tport: 1 stdio 2 tcp 3 unix 4 http 5 admin.
-- rev: dict, protocol revision.  tool, tdef: dict, tool name and digest of the definition in force (hex).
-- build: dict, build id.  rule: dict, what decided (a grant, a refusal's reason).  n_req, n_res: bytes of
-- arguments and result.  flags: bits of AUDIT 0043.  outcome: AUDIT A-302.  xstat, sig: exit status or error
-- code, signal.  dur: microseconds.  beg: idx of the begin.  prev: call id of the round before.
-- trace: W3C trace id.  obj: dict, object of an event.  ext: TLV of AUDIT A-413.  xstat holds the magnitude of
-- a negative code: integers of a record are never negative (A-403).
CREATE TABLE rec(
  id INTEGER PRIMARY KEY,
  enc INTEGER NOT NULL,
  log INTEGER NOT NULL,
  idx INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  ts INTEGER NOT NULL,
  mono INTEGER,
  boot INTEGER,
  call BLOB,
  cred INTEGER,
  prn INTEGER,
  actor INTEGER,
  authn INTEGER,
  tport INTEGER,
  rev INTEGER,
  tool INTEGER,
  tdef INTEGER,
  build INTEGER,
  rule INTEGER,
  n_req INTEGER,
  n_res INTEGER,
  flags INTEGER,
  outcome INTEGER,
  xstat INTEGER,
  sig INTEGER,
  dur INTEGER,
  beg INTEGER,
  prev BLOB,
  trace BLOB,
  obj INTEGER,
  ext BLOB
) STRICT;
-- rec_pos: order and gaps of a log.  rec_call: audit show CALL.  rec_ts: audit calls --since.  A begin is
-- in rec_pos only: a call has exactly one row that is not a begin (AUDIT 4.2).
CREATE UNIQUE INDEX rec_pos ON rec(log, idx);
CREATE INDEX rec_call ON rec(call) WHERE kind <> 1001 AND call IS NOT NULL;
CREATE INDEX rec_ts ON rec(log, ts) WHERE kind <> 1001;
CREATE TRIGGER rec_frozen BEFORE UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END;
-- rec_text: records with their texts, for reports.  tool_id, prn_id, cred_id are for filters.
CREATE VIEW rec_text AS
SELECT r.id AS id, r.log AS log, r.idx AS idx, r.kind AS kind, r.ts AS ts, r.call AS call, r.cred AS cred_id,
  r.prn AS prn_id, r.tool AS tool_id, r.actor AS actor, r.authn AS authn, r.tport AS tport, r.n_req AS n_req,
  r.n_res AS n_res, r.flags AS flags, r.outcome AS outcome, r.xstat AS xstat, r.sig AS sig, r.dur AS dur,
  r.beg AS beg, r.prev AS prev, r.ext AS ext, d_cred.text AS cred, d_prn.text AS prn, d_rev.text AS rev,
  d_tool.text AS tool, d_tdef.text AS tdef, d_rule.text AS rule, d_obj.text AS obj
FROM rec r
LEFT JOIN dict d_cred ON d_cred.id = r.cred
LEFT JOIN dict d_prn ON d_prn.id = r.prn
LEFT JOIN dict d_rev ON d_rev.id = r.rev
LEFT JOIN dict d_tool ON d_tool.id = r.tool
LEFT JOIN dict d_tdef ON d_tdef.id = r.tdef
LEFT JOIN dict d_rule ON d_rule.id = r.rule
LEFT JOIN dict d_obj ON d_obj.id = r.obj;
