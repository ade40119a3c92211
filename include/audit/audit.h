#ifndef AUDIT_AUDIT_H
#define AUDIT_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/fields.h"
#include "base/clock.h"
#include "base/err.h"

/* The audit: records of what happened, one log for each tenant and one for the system, each a Merkle tree.
 *
 * An audit_event says what a caller knows.  audit_append() makes a row of it (block/row.h), gives it its place in the
 * log, the ids of its texts and the pseudonyms of persons, and adds its hash to the log's tree.  audit_logs is the
 * writer's picture of all logs; it lives from the opening of the store to its closing, belongs to the writer thread,
 * and follows the transaction: what was appended since a mark can be rolled back.
 *
 * Reading needs no picture: audit_query() and audit/record.h work on any connection, in any thread.  What is beside the
 * records: payloads (audit/payload.h), checkpoints (audit/checkpoint.h), what goes (audit/keep.h, audit/erase.h), rows
 * of the registry that records vouch for (audit/rows.h).
 *
 * A walk: call -> writer_audit() -> the writer's transaction -> audit_append() for each event -> audit_logs_flush() ->
 * COMMIT -> audit_logs_commit() -> the caller is told. */

/* What a record means: kinds, columns (AUDIT 3, 4.2).  Codes are part of the format and never change meaning. */
#define AUDIT_KINDS(X) \
	X(LOG_OPEN, 1, "log.open") \
	X(LOG_CLOSE, 2, "log.close") \
	X(CALL_BEGIN, 1001, "call.begin") \
	X(CALL_END, 1002, "call.end") \
	X(CALL_DENIED, 1003, "call.denied") \
	X(CALL_RECOVERED, 1004, "call.recovered") \
	X(CALL_DENIED_SUMMARY, 1005, "call.denied.summary") \
	X(LIST, 1010, "list") X(NOTIFY, 1011, "notify") \
	X(MESSAGE_DROPPED, 1012, "message.dropped") \
	X(RESOURCE_SUBSCRIBE, 1013, "resource.subscribe") X(RESOURCE_UNSUBSCRIBE, 1014, "resource.unsubscribe") \
	X(TASK_CREATE, 1021, "task.create") X(TASK_INPUT, 1022, "task.input") X(TASK_CANCEL, 1023, "task.cancel") \
	X(TASK_END, 1024, "task.end") X(TASK_READ, 1025, "task.read") X(TASK_EXPIRE, 1026, "task.expire") \
	X(TASK_RERUN, 1027, "task.rerun") \
	X(CALL_HELD, 1031, "call.held") X(CALL_APPROVED, 1032, "call.approved") X(CALL_REFUSED, 1033, "call.refused") \
	X(CALL_LAPSED, 1034, "call.lapsed") X(CALL_RECALLED, 1035, "call.recalled") \
	X(AUTH_FAIL, 1101, "auth.fail") \
	X(AUTH_FAIL_SUMMARY, 1102, "auth.fail.summary") \
	X(CRED_FIRST_USE, 1103, "cred.first_use") \
	X(ALIAS_NEW, 1104, "alias.new") \
	X(CRED_CREATE, 1201, "cred.create") X(CRED_ROTATE, 1202, "cred.rotate") \
	X(CRED_REVOKE, 1203, "cred.revoke") X(CRED_EXPIRE, 1204, "cred.expire") \
	X(CRED_SUSPEND, 1205, "cred.suspend") \
	X(CRED_RESUME, 1206, "cred.resume") \
	X(TENANT_CREATE, 1301, "tenant.create") \
	X(TENANT_SUSPEND, 1302, "tenant.suspend") \
	X(TENANT_RESUME, 1303, "tenant.resume") \
	X(TENANT_DELETE, 1304, "tenant.delete") \
	X(TENANT_CHANGE, 1305, "tenant.change") \
	X(POLICY_CHANGE, 1401, "policy.change") \
	X(SCOPE_CHANGE, 1402, "scope.change") \
	X(LIMIT_CHANGE, 1403, "limit.change") \
	X(LEVEL_CHANGE, 1404, "level.change") \
	X(GRANT_ADD, 1405, "grant.add") \
	X(GRANT_CHANGE, 1406, "grant.change") \
	X(GRANT_REMOVE, 1407, "grant.remove") \
	X(TOOL_REGISTER, 1501, "tool.register") \
	X(TOOL_CHANGE, 1502, "tool.change") \
	X(TOOL_APPROVE, 1503, "tool.approve") \
	X(TOOL_ENABLE, 1504, "tool.enable") \
	X(TOOL_DISABLE, 1505, "tool.disable") \
	X(TOOL_DELETE, 1506, "tool.delete") \
	X(TOOL_DRIFT, 1507, "tool.drift") \
	X(UPSTREAM_ADD, 1511, "upstream.add") \
	X(UPSTREAM_CHANGE, 1512, "upstream.change") \
	X(UPSTREAM_ACCEPT, 1513, "upstream.accept") \
	X(UPSTREAM_REMOVE, 1514, "upstream.remove") \
	X(SECRET_SET, 1521, "secret.set") \
	X(SECRET_REMOVE, 1522, "secret.remove") \
	X(DEFINITION_ADD, 1531, "definition.add") \
	X(DEFINITION_CHANGE, 1532, "definition.change") \
	X(DEFINITION_REMOVE, 1533, "definition.remove") \
	X(REGISTRY_VOUCH, 1534, "registry.vouch") \
	X(TOOL_PIN, 1535, "tool.pin") \
	X(REGISTRY_QUARANTINE, 1540, "registry.quarantine") \
	X(SERVER_START, 1601, "server.start") \
	X(SERVER_STOP, 1602, "server.stop") \
	X(SERVER_CRASH, 1603, "server.crash") \
	X(CONFIG_LOAD, 1604, "config.load") \
	X(CLOCK_STEP, 1605, "clock.step") \
	X(TIME_SYNC, 1606, "time.sync") \
	X(SANDBOX_DEGRADED, 1607, "sandbox.degraded") \
	X(SPACE_LOW, 1608, "space.low") \
	X(SPACE_OK, 1609, "space.ok") \
	X(AUDIT_FAIL, 1610, "audit.fail") X(BACKUP_TEST, 1612, "backup.test") \
	X(STORE_RESTORE, 1613, "store.restore") X(BACKUP_BROKEN, 1615, "backup.broken") \
	X(ADMIN_CMD, 1701, "admin.cmd") \
	X(AUDIT_READ, 1801, "audit.read") \
	X(AUDIT_EXPORT, 1802, "audit.export") \
	X(AUDIT_VERIFY, 1803, "audit.verify") \
	X(AUDIT_REVIEW, 1804, "audit.review") X(ALERT_OPEN, 1811, "alert.open") X(ALERT_ACK, 1812, "alert.ack") \
	X(REVIEW_DONE, 1813, "review.done") X(ALERT_SILENCE, 1814, "alert.silence") X(SINK_CHANGE, 1815, "sink.change") \
	X(INVENTORY_CHANGE, 1821, "inventory.change") X(SYSTEM_CHANGE, 1822, "system.change") \
	X(HOLD_SET, 1901, "hold.set") X(HOLD_RELEASE, 1902, "hold.release") \
	X(RETENTION_CHANGE, 1903, "retention.change") X(PRUNE, 1904, "prune") \
	X(PRUNE_DONE, 1905, "prune.done") X(ERASE, 1906, "erase") \
	X(ERASE_DONE, 1907, "erase.done") \
	X(KEY_ROTATE, 1908, "key.rotate") \
	X(KEY_DESTROY, 1909, "key.destroy") \
	X(APPROVAL_REQUEST, 1910, "approval.request") \
	X(APPROVAL_GRANT, 1911, "approval.grant") X(SEGMENT_SEAL, 1912, "segment.seal") \
	X(SEGMENT_MOVE, 1913, "segment.move") X(LOGS_COMMIT, 2001, "logs.commit") \
	X(ANCHOR_RECEIPT, 2002, "anchor.receipt") \
	X(EPOCH_START, 2003, "epoch.start")
enum audit_kind {
#define AUDIT_KIND_ENUM(sym, code, name) AUDIT_##sym = code,
	AUDIT_KINDS(AUDIT_KIND_ENUM)
#undef AUDIT_KIND_ENUM
};
/* "1999" style text for unknown ones is the caller's matter: NULL */
const char *audit_kind_name(int kind);

enum audit_outcome {                                    /* AUDIT A-302 */
	AUDIT_OK, AUDIT_TOOL_ERROR, AUDIT_INVALID, AUDIT_DENIED, AUDIT_RATE_LIMITED, AUDIT_TIMEOUT, AUDIT_CANCELLED,
	AUDIT_INPUT_REQUIRED, AUDIT_CRASHED, AUDIT_ABORTED, AUDIT_OVERLOAD, AUDIT_UNKNOWN,
	AUDIT_OUTCOME_COUNT
};
const char *audit_outcome_name(int outcome);           /* "ok", "tool_error", … */
int audit_outcome_from_name(const char *name);         /* or -1 */

enum audit_actor { AUDIT_BY_SERVICE = 1, AUDIT_BY_HUMAN, AUDIT_BY_ADMIN, AUDIT_BY_UID, AUDIT_BY_SYSTEM };
enum audit_authn { AUDIT_AUTHN_KEY = 1, AUDIT_AUTHN_JWT, AUDIT_AUTHN_MTLS, AUDIT_AUTHN_UID, AUDIT_AUTHN_BOUND,
		   AUDIT_AUTHN_NONE };
enum audit_clock { AUDIT_CLOCK_SYNCED = 1, AUDIT_CLOCK_UNSYNCED, AUDIT_CLOCK_STEPPED };
enum audit_tport { AUDIT_STDIO = 1, AUDIT_TCP, AUDIT_UNIX, AUDIT_HTTP, AUDIT_ADMIN_SOCKET };
const char *audit_tport_name(int tport);
#define AUDIT_FLAG_UNDELIVERED (1u << 5)
#define AUDIT_FLAG_NOT_EXECUTED (1u << 6)
#define AUDIT_FLAG_BROKE_SCHEMA (1u << 7)
#define AUDIT_FLAG_DETACHED (1u << 9)

/* What a caller knows of an event; position and dictionary ids are the writer's business.  Texts may be
 * NULL = absent; 0 in numbers marked (0) = absent. */
struct audit_event {
	enum audit_kind kind;
	int64_t tenant_id;              /* 0: the system log */
	uint64_t time_us, mono_us;      /* filled by audit_event_init() */
	bool has_call, has_prev, has_trace, has_outcome, has_xstat;
	uint8_t call[16], prev[16], trace[16];
	const char *cred;               /* accessor, never the secret */
	const char *prn;                /* pseudonym */
	int actor, authn, tport;        /* (0) */
	const char *rev;                /* "2026-07-28" */
	const char *tool;
	const uint8_t *tdef;            /* 32 bytes: digest of the definition in force */
	const char *rule;               /* who allowed or what refused: "grant/12", "rate", "schema", "unknown_tool" */
	int64_t n_req, n_res;           /* -1 = absent */
	uint32_t flags;
	int outcome;                    /* with has_outcome */
	int64_t xstat;                  /* with has_xstat: exit status, HTTP status or error code; of a negative one
					 * the magnitude is kept */
	int sig;                        /* (0) */
	uint64_t dur_us, cpu_us, rss_kib;       /* (0) */
	const char *sbox;               /* level of a process: "base+landlock:6+seccomp+net0" */
	const char *sys, *mdl;          /* the AI system of the principal, the model as its client told */
	const char *obj;                /* "tool/get_weather@3", "cred/7Qm3…", "tenant/acme" */
	const char *detail;             /* readable text (a command without secrets, a reason): ext tag 0113 or 0114;
					 * cut at AUDIT_DETAIL_MAX bytes */
	const uint8_t *before, *after;  /* 32-byte digests, ext 0100, 0101; or NULL */
	uint64_t generation, receivers; /* ext 010D, 010E (0) */
	const struct audit_field *field;        /* further ones, tags ascending, none of those above */
	size_t nfield;                  /* at most AUDIT_FIELDS_MAX */
	const struct audit_payload *payload;    /* values that the record commits to (audit/payload.h), or NULL */
	const char *peer, *client;      /* address of the peer, client as claimed: pseudonyms stand in the record */
};
#define AUDIT_TEXT_MAX 512              /* any other text; a longer one, or no UTF-8, is ERR_INVALID */
#define AUDIT_DETAIL_MAX 4096
/* Zero, kind, both clocks, n_req = n_res = -1. */
void audit_event_init(struct audit_event *ev, enum audit_kind kind, int64_t tenant_id);

struct audit_receipt {
	int64_t log, idx;               /* where the record stands */
};

struct db;
/* The writer's picture of all logs: next index of each, dictionary, calls that are open.  Writer thread. */
struct audit_logs;
int audit_logs_open(struct db *db, struct audit_logs **ret, struct err *err) MUST_CHECK;
void audit_logs_close(struct audit_logs **logs);
/* The keys of payloads, taken over; without them a record with values is refused. */
struct keys;
void audit_logs_give_keys(struct audit_logs *logs, struct keys **keys);
struct keys *audit_logs_keys(const struct audit_logs *logs);            /* or NULL */
/* What records say of the wall clock from now on; before, they say what the kernel said when the logs were opened. */
void audit_logs_clock(struct audit_logs *logs, enum clock_sync sync);
/* Append inside the writer's open transaction.  What was appended since the last mark is forgotten by
 * audit_logs_rollback() (savepoint or transaction undone) and kept by audit_logs_commit().  A failed append leaves
 * nothing but perhaps a text in the dictionary: it needs no savepoint of its own.  ERR_NOT_FOUND: the tenant has
 * no log. */
int audit_append(struct audit_logs *logs, struct db *db, const struct audit_event *ev, struct audit_receipt *ret,
		 struct err *err) MUST_CHECK;
struct audit_mark { size_t undo; };
struct audit_mark audit_logs_mark(const struct audit_logs *logs);      /* undo grows with every append */
void audit_logs_rollback(struct audit_logs *logs, struct audit_mark mark);
/* Last thing in a transaction that appended: the heads of logs that have grown; _rows: if they are due (SC-104). */
int audit_logs_flush(struct audit_logs *logs, struct db *db, struct err *err) MUST_CHECK;
int audit_logs_flush_rows(struct audit_logs *logs, struct db *db, struct err *err) MUST_CHECK;
void audit_heads_due(struct audit_logs *logs);  /* somebody looks at them next; else a start finds the rows alone */
void audit_logs_commit(struct audit_logs *logs);                        /* after the COMMIT */
/* Create the log of a new tenant (writes log.open as its record 0).  System log (tenant 0) at store creation:
 * it must be the first, and draws the id of the instance. */
int audit_log_create(struct audit_logs *logs, struct db *db, int64_t tenant_id, const char *tenant_name,
		     struct err *err) MUST_CHECK;
/* The id of the first record that may belong to an open call: stored in meta.open_from with a checkpoint. */
int audit_save_open_from(struct audit_logs *logs, struct db *db, struct err *err) MUST_CHECK;
/* How many records a log has had: the index of the next. */
int audit_size(const struct audit_logs *logs, int64_t tenant_id, int64_t *ret, struct err *err) MUST_CHECK;
/* Kind of the newest record of a log, 0 when it has none; its time too when ret_us is not NULL. */
int audit_last_kind(struct audit_logs *logs, struct db *db, int64_t tenant_id, int *ret, uint64_t *ret_us,
		    struct err *err) MUST_CHECK;

/* Reading; any thread with its own DB_READER. */
struct audit_filter {
	int64_t tenant_id;              /* required: 0 = system log */
	uint64_t since_us, until_us;    /* 0 = open */
	const char *tool, *prn, *cred;  /* NULL = any */
	int outcome;                    /* -1 = any */
	int kind;                       /* 0 = any but begins */
	unsigned limit;                 /* rows, newest first */
};
struct audit_view {                     /* texts borrowed until the next row */
	int64_t idx, beg;
	int kind, outcome, authn, tport, actor, sig;
	uint64_t ts_us, dur_us;
	bool has_call, has_outcome, has_xstat, has_prev;
	uint8_t call[16], prev[16];
	const char *cred, *prn, *rev, *tool, *tdef, *rule, *obj, *sbox, *detail;
	int64_t xstat, n_req, n_res;
	uint32_t flags;
	uint64_t generation, receivers;
	const void *ext; size_t ext_len;        /* for audit_field_find() */
};
typedef int audit_row_fn(void *arg, const struct audit_view *row);   /* non-zero ends the walk */
int audit_query(struct db *db, const struct audit_filter *f, audit_row_fn *fn, void *arg, struct err *err) MUST_CHECK;
/* All records of a call, in order of idx; none is no error.  A tenant without a log: ERR_NOT_FOUND, from both. */
int audit_query_call(struct db *db, int64_t tenant_id, const uint8_t call[16], audit_row_fn *fn, void *arg,
		     struct err *err) MUST_CHECK;

/* The record at a position, such as the begin of an end (view.beg); none is no error.  May be called inside fn. */
int audit_query_at(struct db *db, int64_t tenant_id, int64_t idx, audit_row_fn *fn, void *arg,
		   struct err *err) MUST_CHECK;

#endif
