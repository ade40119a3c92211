-- Statements on approvals of calls (assent/assent.h).

-- assents_open(): what is open, and what was refused since then.  any tenant: the index of the server.  Index assent_open,
-- and a walk of those of assent_tenant.
-- name: assent_list
-- takes: int
SELECT a.id, a.tenant_id, a.principal_id, a.prn, a.digest, a.tool, a.name, a.tdef, a.rule, a.state, a.asked_us, a.due_us,
  a.decided_us, a.use_by_us, a.call, a.said, n.name, coalesce(p.name, '')
FROM assent a JOIN tenant n ON n.id = a.tenant_id LEFT JOIN principal p ON p.id = a.principal_id
WHERE a.state IN (1, 2) OR (a.state = 3 AND a.decided_us > ?1);

-- assents_open(): the number of the next one is above this.  any tenant: they share their numbers.  Primary key.
-- name: assent_last
-- only: sqlite
SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'assent';
-- only: pgsql
SELECT coalesce(pg_sequence_last_value('assent_id_seq'), 0);

-- Of one approval: who has agreed, first come first.  Primary key.
-- name: assent_votes
-- takes: int int
SELECT who, name, us, reason FROM assent_vote WHERE assent_id = ?1 AND tenant_id = ?2 AND yes = 1 ORDER BY us, who;

-- The writer: somebody has to agree.  Primary key.
-- name: assent_add
-- takes: int int int text text blob text text blob text int int blob int blob blob
INSERT INTO assent(id, tenant_id, principal_id, prn, cred, digest, tool, name, tdef, rule, state, asked_us, due_us, call, key,
  nonce, body)
VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 1, ?11, ?12, ?13, ?14, ?15, ?16);

-- The writer: some of a tenant that are long over go.  Index assent_tenant.
-- name: assent_old
-- takes: int int
DELETE FROM assent WHERE id IN (SELECT id FROM assent WHERE tenant_id = ?1 AND state > 2 AND decided_us < ?2 LIMIT 16);

-- The writer: and their votes.  Walks those of 16.
-- name: assent_old_votes
-- takes: int int
DELETE FROM assent_vote WHERE tenant_id = ?1 AND assent_id IN (SELECT id FROM assent WHERE tenant_id = ?1 AND state > 2 AND
  decided_us < ?2 LIMIT 16);

-- The writer: and what became of them.  Index assent_event_of.
-- name: assent_old_events
-- takes: int int
DELETE FROM assent_event WHERE tenant_id = ?1 AND assent_id IN (SELECT id FROM assent WHERE tenant_id = ?1 AND state > 2 AND
  decided_us < ?2 LIMIT 16);

-- The writer: something has become of one, beside the record that says so.
-- name: assent_event_add
-- takes: int int int int text text
INSERT INTO assent_event(tenant_id, assent_id, what, us, who, said) VALUES(?1, ?2, ?3, ?4, ?5, ?6);

-- approve watch, on a reader: the newest position there was.  any tenant: they share their positions.  Primary key.
-- name: assent_event_last
-- only: sqlite
SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'assent_event';
-- only: pgsql
SELECT coalesce(pg_sequence_last_value('assent_event_seq_seq'), 0);

-- approve watch: when that was.  any tenant: nothing but the time.  Primary key.
-- name: assent_event_at
-- takes: int
SELECT us FROM assent_event WHERE seq = ?1;

-- approve watch: what has become of approvals behind a position.  any tenant: the command leaves out what is not for whoever asks.
-- Primary keys.
-- name: assent_events
-- takes: int int
SELECT e.seq, e.us, e.what, e.who, e.said, a.id, a.tenant_id, n.name, a.tool, coalesce(p.name, a.prn), coalesce(p.name, ''), a.rule,
  CASE WHEN e.what = 2 THEN a.use_by_us ELSE a.due_us END
FROM assent_event e JOIN assent a ON a.id = e.assent_id AND a.tenant_id = e.tenant_id JOIN tenant n ON n.id = a.tenant_id
LEFT JOIN principal p ON p.id = a.principal_id
WHERE e.seq > ?1 ORDER BY e.seq LIMIT ?2;

-- approve watch, at its beginning: of those that are open, behind one position and up to another.  any tenant: as above.  Index
-- assent_open, and assent_event_of of each.
-- name: assent_events_open
-- takes: int int int
SELECT e.seq, e.us, e.what, e.who, e.said, a.id, a.tenant_id, n.name, a.tool, coalesce(p.name, a.prn), coalesce(p.name, ''), a.rule,
  CASE WHEN e.what = 2 THEN a.use_by_us ELSE a.due_us END
FROM assent a JOIN assent_event e ON e.assent_id = a.id AND e.tenant_id = a.tenant_id JOIN tenant n ON n.id = a.tenant_id
LEFT JOIN principal p ON p.id = a.principal_id
WHERE a.state IN (1, 2) AND e.seq > ?1 AND e.seq <= ?3 ORDER BY e.seq LIMIT ?2;

-- The writer: one is used, once.  Primary key.
-- name: assent_use
-- takes: int int blob int
UPDATE assent SET state = 5, used = ?3, decided_us = ?4 WHERE id = ?1 AND tenant_id = ?2 AND state = 2 AND use_by_us >= ?4;

-- The writer: one is over.  Primary key.
-- name: assent_end
-- takes: int int int int text
UPDATE assent SET state = ?3, decided_us = ?4, said = ?5 WHERE id = ?1 AND tenant_id = ?2 AND state IN (1, 2);

-- The writer: one is granted.  Primary key.
-- name: assent_grant
-- takes: int int int int
UPDATE assent SET state = 2, decided_us = ?3, use_by_us = ?4 WHERE id = ?1 AND tenant_id = ?2 AND state = 1;

-- The writer: a vote.  Primary key.
-- name: assent_vote_add
-- takes: int int text text int int text
INSERT INTO assent_vote(tenant_id, assent_id, who, name, yes, us, reason) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- Commands: one of them.  any tenant: an approver's tenants are looked at when it was found.  Primary key.
-- name: assent_get
-- takes: int
SELECT a.id, a.tenant_id, a.digest, a.tool, a.rule, a.state, a.due_us, a.use_by_us, a.call, a.prn, a.cred
FROM assent a WHERE a.id = ?1;

-- A reader: what is sealed.  Primary key.
-- name: assent_sealed
-- takes: int int
SELECT key, nonce, body FROM assent WHERE id = ?1 AND tenant_id = ?2;

-- approve list and show, on a reader: those with these numbers, newest first.  any tenant: commands leave out what is not
-- for whoever asks.  Primary key.
-- name: assent_show
-- takes: int int
SELECT a.id, n.name, a.tool, coalesce(p.name, a.prn), a.state, a.asked_us, a.due_us, a.use_by_us, a.rule, a.said, a.call, a.used,
  a.cred, a.tdef, a.tenant_id, (SELECT count(*) FROM assent_vote v WHERE v.assent_id = a.id AND v.tenant_id = a.tenant_id AND v.yes = 1),
  a.decided_us, a.digest, a.prn
FROM assent a JOIN tenant n ON n.id = a.tenant_id LEFT JOIN principal p ON p.id = a.principal_id
WHERE a.id BETWEEN ?1 AND ?2 ORDER BY a.id DESC;

-- approve show: since when the definition is as it is, and who made it so.  Walks the versions with this digest.
-- name: assent_version
-- takes: text blob
SELECT v.version, v.created_us, v.actor, v.definition FROM tool_version v JOIN tool t ON t.id = v.tool_id
WHERE t.name = ?1 AND v.digest = ?2 ORDER BY v.version LIMIT 1;

-- approve show: what came of what the same caller asked for before.  Index assent_tenant.
-- name: assent_before
-- takes: int text text int
SELECT sum(CASE WHEN state IN (2, 5) THEN 1 ELSE 0 END), sum(CASE WHEN state = 3 THEN 1 ELSE 0 END), count(*) FROM assent
WHERE tenant_id = ?1 AND prn = ?2 AND tool = ?3 AND id < ?4 AND state >= 1;

-- approve show: the newest votes of whoever reads it, and how long each took.  any tenant: they are his.  Index assent_voter.
-- name: assent_own
-- takes: text
SELECT v.yes, v.us - a.asked_us FROM assent_vote v JOIN assent a ON a.id = v.assent_id AND a.tenant_id = v.tenant_id
WHERE v.who = ?1 ORDER BY v.us DESC LIMIT 1000;

-- audit verify: those of a tenant; changed: when the row says something else than before.  Index assent_tenant.
-- name: assent_rows
-- takes: int
SELECT id, state, digest, coalesce(decided_us, asked_us), rule FROM assent WHERE tenant_id = ?1;
