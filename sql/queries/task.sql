-- Statements on tasks (task/task.h).

-- tasks_open(), and audit verify: all of them, or a tenant's.  any tenant: the index of the server.  Walks the table.
-- name: task_list
-- takes: int
SELECT tid, tenant_id, principal_id, prn, tool, state, call, created_us, updated_us, ends_us, poll_ms, note, bytes, name,
  round, cred
FROM task WHERE ?1 = 0 OR tenant_id = ?1;

-- The writer: one begins.  Index task.tid.
-- name: task_add
-- takes: text int int text text text blob blob int int int text int int text int blob blob int
INSERT INTO task(tid, tenant_id, principal_id, prn, cred, tool, tdef, state, round, reruns, first_call, call, created_us,
  updated_us, ends_us, poll_ms, bytes, name, note, key, nonce, body)
VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?13, 0, ?19, ?8, ?8, ?9, ?9, ?10, ?11, ?14, ?12, ?15, ?16, ?17, ?18);

-- The writer: one is parked, has got answers, or a round of it begins.  Index task.tid.
-- name: task_move
-- takes: text int int int text int blob int int blob blob
UPDATE task SET state = ?3, updated_us = ?4, note = ?5, round = ?6, call = coalesce(?7, call),
  bytes = coalesce(?8, bytes), key = coalesce(?9, key), nonce = coalesce(?10, nonce), body = coalesce(?11, body)
WHERE tid = ?1 AND tenant_id = ?2 AND state NOT IN (3, 4, 5);

-- The writer: one has ended.  Index task.tid.
-- name: task_end
-- takes: text int int int int text int int blob blob
UPDATE task SET state = ?3, updated_us = ?4, ends_us = ?5, note = ?6, bytes = ?7, key = ?8, nonce = NULL, body = NULL,
  rnonce = ?9, result = ?10
WHERE tid = ?1 AND tenant_id = ?2 AND state NOT IN (3, 4, 5);

-- The writer, at a start, or behind the end of calls of a node that died: those that ran.  any tenant: nobody runs them any
-- more.  Walks the table; where others may run some, index rec_call for each that does.
-- name: task_cut
-- only: sqlite
SELECT tid, tenant_id, prn, cred, tool, call, created_us, ends_us, reruns > 0 AND body IS NOT NULL FROM task WHERE state = 1;
-- only: pgsql
SELECT tid, tenant_id, prn, cred, tool, call, created_us, ends_us, CASE WHEN reruns > 0 AND body IS NOT NULL THEN 1 ELSE 0 END FROM task t
WHERE state = 1 AND EXISTS(SELECT 1 FROM rec r WHERE r.call = t.call AND r.kind = 1004);

-- The writer, at a start: one of them is to run again.  Index task.tid.
-- name: task_rerun
-- takes: text int int
UPDATE task SET state = 7, updated_us = ?3, note = NULL, reruns = reruns - 1 WHERE tid = ?1 AND tenant_id = ?2 AND state = 1 AND reruns > 0;

-- A reader: what has been sealed of one that has ended.  Index task.tid.
-- name: task_sealed
-- takes: text int
SELECT key, rnonce, result FROM task WHERE tid = ?1 AND tenant_id = ?2;

-- A reader: what another round of one that is parked needs.  Index task.tid.
-- name: task_body
-- takes: text int
SELECT key, nonce, body, round FROM task WHERE tid = ?1 AND tenant_id = ?2;

-- The writer: some whose time is over.  any tenant: each in its turn.  Index task_ends.
-- name: task_due
-- takes: int int
SELECT id, tenant_id, tid FROM task WHERE ends_us <= ?1 AND state IN (3, 4, 5) ORDER BY ends_us LIMIT ?2;

-- The writer: one goes.  Primary key.
-- name: task_drop
-- takes: int int
DELETE FROM task WHERE id = ?1 AND tenant_id = ?2;

-- task list.  any tenant: by its name.  Walks the table.
-- name: task_show
-- takes: text
SELECT t.tid, n.name, coalesce(p.name, t.prn), t.tool, t.state, t.created_us, t.updated_us, t.ends_us, t.call, t.note, t.bytes
FROM tenant n JOIN task t ON t.tenant_id = n.id LEFT JOIN principal p ON p.id = t.principal_id
WHERE n.name = ?1 ORDER BY t.created_us DESC, t.id DESC;

-- audit show: whose it is, and its newest call.  any tenant: its log is asked for the records, and one that is named has to be
-- it.  Index task.tid.
-- name: task_newest
-- takes: text text
SELECT t.call, n.name FROM task t JOIN tenant n ON n.id = t.tenant_id WHERE t.tid = ?1 AND (?2 = '' OR n.name = ?2);

-- task show.  any tenant: by its name.  Index task.tid.
-- name: task_of
-- takes: text text
SELECT t.tid, n.name, coalesce(p.name, t.prn), t.tool, t.state, t.created_us, t.updated_us, t.ends_us, t.call, t.note, t.bytes
FROM tenant n JOIN task t ON t.tenant_id = n.id LEFT JOIN principal p ON p.id = t.principal_id
WHERE n.name = ?1 AND t.tid = ?2;

-- audit show: what is on record of a task and is of no call, in order.  rec_kind.
-- name: task_records
-- takes: int text int int
SELECT r.idx FROM log l CROSS JOIN rec r WHERE r.log = l.id
AND l.tenant_id = ?1 AND r.kind IN (1022, 1023, 1024, 1025, 1027) AND r.kind <> 1001 AND r.kind <> 1002 AND r.ts >= ?3
  AND instr(r.ext, CAST(?2 AS BLOB)) > 0 ORDER BY r.idx LIMIT ?4;
