-- name: step_0008_encoding
-- The rest of the columns that encoding 1 covers (AUDIT 4.2).  NULL in older records, which leaves their bytes as they were.

-- clk: of the wall clock, 1 synchronised, 2 not, 3 stepped.  obo, peer, client: dict, pseudonyms of the person on whose
-- behalf, of the peer's address, of the claimed client.  pol, scope: dict, revision of the policy and scopes used.
ALTER TABLE rec ADD COLUMN clk INTEGER;
ALTER TABLE rec ADD COLUMN obo INTEGER;
ALTER TABLE rec ADD COLUMN peer INTEGER;
ALTER TABLE rec ADD COLUMN client INTEGER;
ALTER TABLE rec ADD COLUMN pol INTEGER;
ALTER TABLE rec ADD COLUMN scope INTEGER;
-- cm, sh: commitments to values (AUDIT A-414), salt check.  n_sto: bytes stored of the values.  key: id of the payload key.
ALTER TABLE rec ADD COLUMN cm BLOB;
ALTER TABLE rec ADD COLUMN sh BLOB;
ALTER TABLE rec ADD COLUMN n_sto INTEGER;
ALTER TABLE rec ADD COLUMN "key" INTEGER;
-- cpu: us, rss: KiB, of the process of a call.
ALTER TABLE rec ADD COLUMN cpu INTEGER;
ALTER TABLE rec ADD COLUMN rss INTEGER;
DROP VIEW rec_text;
CREATE VIEW rec_text AS
SELECT r.id AS id, r.log AS log, r.idx AS idx, r.kind AS kind, r.ts AS ts, r.clk AS clk, r.call AS call, r.cred AS cred_id,
  r.prn AS prn_id, r.tool AS tool_id, r.actor AS actor, r.authn AS authn, r.tport AS tport, r.cm AS cm, r.sh AS sh,
  r.n_req AS n_req, r.n_res AS n_res, r.n_sto AS n_sto, r.flags AS flags, r."key" AS "key", r.outcome AS outcome,
  r.xstat AS xstat, r.sig AS sig, r.dur AS dur, r.cpu AS cpu, r.rss AS rss, r.beg AS beg, r.prev AS prev,
  r.trace AS trace, r.ext AS ext, d_cred.text AS cred, d_prn.text AS prn, d_obo.text AS obo, d_peer.text AS peer,
  d_client.text AS client, d_rev.text AS rev, d_tool.text AS tool, d_tdef.text AS tdef, d_build.text AS build,
  d_pol.text AS pol, d_rule.text AS rule, d_scope.text AS scope, d_obj.text AS obj, d_sbox.text AS sbox
FROM rec r
LEFT JOIN dict d_cred ON d_cred.id = r.cred
LEFT JOIN dict d_prn ON d_prn.id = r.prn
LEFT JOIN dict d_obo ON d_obo.id = r.obo
LEFT JOIN dict d_peer ON d_peer.id = r.peer
LEFT JOIN dict d_client ON d_client.id = r.client
LEFT JOIN dict d_rev ON d_rev.id = r.rev
LEFT JOIN dict d_tool ON d_tool.id = r.tool
LEFT JOIN dict d_tdef ON d_tdef.id = r.tdef
LEFT JOIN dict d_build ON d_build.id = r.build
LEFT JOIN dict d_pol ON d_pol.id = r.pol
LEFT JOIN dict d_rule ON d_rule.id = r.rule
LEFT JOIN dict d_scope ON d_scope.id = r.scope
LEFT JOIN dict d_obj ON d_obj.id = r.obj
LEFT JOIN dict d_sbox ON d_sbox.id = r.sbox;
