-- name: step_0006_sandbox_level
-- Records say how far a tool's process was confined.

-- sbox: dict, the level that the process of a call reached (SEC S-510); NULL = it had none.
ALTER TABLE rec ADD COLUMN sbox INTEGER;
DROP VIEW rec_text;
CREATE VIEW rec_text AS
SELECT r.id AS id, r.log AS log, r.idx AS idx, r.kind AS kind, r.ts AS ts, r.call AS call, r.cred AS cred_id,
  r.prn AS prn_id, r.tool AS tool_id, r.actor AS actor, r.authn AS authn, r.tport AS tport, r.n_req AS n_req,
  r.n_res AS n_res, r.flags AS flags, r.outcome AS outcome, r.xstat AS xstat, r.sig AS sig, r.dur AS dur,
  r.beg AS beg, r.prev AS prev, r.ext AS ext, d_cred.text AS cred, d_prn.text AS prn, d_rev.text AS rev,
  d_tool.text AS tool, d_tdef.text AS tdef, d_rule.text AS rule, d_obj.text AS obj, d_sbox.text AS sbox
FROM rec r
LEFT JOIN dict d_cred ON d_cred.id = r.cred
LEFT JOIN dict d_prn ON d_prn.id = r.prn
LEFT JOIN dict d_rev ON d_rev.id = r.rev
LEFT JOIN dict d_tool ON d_tool.id = r.tool
LEFT JOIN dict d_tdef ON d_tdef.id = r.tdef
LEFT JOIN dict d_rule ON d_rule.id = r.rule
LEFT JOIN dict d_obj ON d_obj.id = r.obj
LEFT JOIN dict d_sbox ON d_sbox.id = r.sbox;
