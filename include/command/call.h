#ifndef COMMAND_CALL_H
#define COMMAND_CALL_H

#include "command/command.h"
#include "base/err.h"
#include "base/text.h"
#include "json/reply.h"
#include "registry/registry.h"
#include "command/approval.h"
#include "command/actor.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the bodies of commands have: what was asked for, a place for the answer, records, and what their rows change
 * in memory. */

struct audit_event;
struct audit_field;
struct audit_logs;
struct audit_receipt;
struct db;
struct db_stmt;

typedef int command_check_fn(struct command_call *c, struct err *err);
typedef int command_body_fn(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err);
typedef void command_after_fn(struct command_call *c);
typedef void command_gather_fn(struct command_call *c);

/* What storing a document did. */
enum row_stored { ADM_UNCHANGED, ADM_ADDED, ADM_CHANGED };

/* --- which command it is */

const char *command_noun(const struct command_call *c);         /* of the command: "tool", "prompt", … */
const char *command_verb(const struct command_call *c);
const char *command_line(const struct command_call *c);         /* what its record says of it */
/* In check(): it says a default as well, as the answer cannot be had again without it. */
void command_line_default(struct command_call *c, const char *name, const char *value);

/* --- arguments, after command_args_check(): on the thread that has them, see command_call */

int command_args_check(const struct command *cmd, const json_t *args, struct err *err) MUST_CHECK;
const char *arg_text(const struct command_call *c, const char *name);               /* or NULL */
const json_t *arg_json(const struct command_call *c, const char *name);             /* as it was given, or NULL */
void arg_copy(const struct command_call *c, const char *name, char *ret, size_t size);      /* absent: "" */
bool arg_given(const struct command_call *c, const char *name);
bool arg_is_known(const struct command_call *c, const char *name);  /* has the command such an argument? */
bool arg_flag(const struct command_call *c, const char *name);                      /* flags, yes/no */
uint32_t arg_uint(const struct command_call *c, const char *name, uint32_t def);
uint64_t arg_duration_ms(const struct command_call *c, const char *name, uint64_t def);
struct text_rate arg_rate(const struct command_call *c, const char *name);          /* absent: count 0 */
uint64_t arg_time(const struct command_call *c, const char *name);                  /* absent: 0 */
/* How many of a repeated argument; of one that is not: 0 or 1. */
size_t arg_count(const struct command_call *c, const char *name);
const char *arg_nth(const struct command_call *c, const char *name, size_t i);
/* "tenant/principal" into its halves; ERR_INVALID unless both are names. */
int arg_split(const char *text, char ret_tenant[64], char ret_name[64], struct err *err) MUST_CHECK;
#define REASON_SIZE 400
#define TICKET_SIZE 80
/* A text that goes into a record: not empty when it is given. */
int arg_reason(const struct command_call *c, const char *name, char *ret, size_t size, struct err *err) MUST_CHECK;
/* Of rows with REASON_OPT: bytes that a command's line in its record has room for, whoever gives it. */
#define COMMAND_REASON_MAX 256
int command_reason_check(struct command_call *c, struct err *err) MUST_CHECK;

/* --- documents of rows with `pieces`, from gather() on, on whatever thread runs the command */

size_t command_documents(const struct command_call *c);
/* *ret: new reference, as it was sent.  ERR_IO. */
int command_document(const struct command_call *c, size_t i, json_t **ret, struct err *err) MUST_CHECK;

/* --- inside a WRITER body */

struct command_record {
	int kind;                       /* enum audit_kind */
	int64_t tenant_id;              /* 0: the system log */
	const char *obj;                /* "tool/get_weather@3" */
	const uint8_t *before, *after;  /* 32 bytes, or NULL */
	const char *accessor, *prn;     /* key and pseudonym of the principal concerned, or NULL */
	const char *reason;             /* beside the command; or NULL */
	const struct audit_field *field;        /* further ones, tags ascending */
	size_t nfield;
	struct audit_receipt *ret;      /* or NULL */
};
int command_record(struct command_call *c, struct db *db, struct audit_logs *logs, const struct command_record *r,
		   struct err *err) MUST_CHECK;
/* What the rows just written change in memory; applied after COMMIT, before after() and the reply. */
int command_changed_tools(struct command_call *c, struct db *db, const int64_t *ids, size_t n,
			  struct err *err) MUST_CHECK;
int command_changed_schema(struct command_call *c, struct db *db, const char *uri, struct err *err) MUST_CHECK;
int command_changed_tenant(struct command_call *c, struct db *db, int64_t tenant_id, struct err *err) MUST_CHECK;
/* Keys and principals of a tenant, its state and limits. */
int command_changed_people(struct command_call *c, struct db *db, int64_t tenant_id, struct err *err) MUST_CHECK;
/* In check() or body(), for rows that read the audit: the log that is read, when no record of it is shown.  Neither
 * this nor command_seen(): the system's. */
void command_record_in(struct command_call *c, int64_t tenant_id);
/* In check(), when it is the arguments that make a row read the audit: what its `record` would say. */
void command_record_as(struct command_call *c, int kind);
/* In body(), for rows that read the audit: record idx of this tenant's log (0: the system's) is shown or counted.
 * What was read is recorded in each such log, with the range, before the answer leaves; of more logs than
 * ADM_SEEN_MAX in the system's.  c->status is in it: set it when the exit status of the command is not 0 and the
 * shape does not say so. */
void command_seen(struct command_call *c, int64_t tenant_id, int64_t idx);
#define ADM_SEEN_MAX 64
/* The same of many records at once, of positions from <= i < to. */
void command_seen_span(struct command_call *c, int64_t tenant_id, int64_t from, int64_t to, uint64_t rows);
#define ADM_STATUS_FINDINGS 4
#define ADM_STATUS_GAPS 5
/* An event of this kind by whoever gave the command, in the system's log. */
void command_event_of(const struct command_call *c, int kind, struct audit_event *ev);

void command_gathered(struct command_call *c, const struct err *err);   /* err NULL: body() follows */
void command_finish(struct command_call *c, const struct err *err);     /* ends a `later` command; err NULL = done */
/* In after() of a WRITER row that has set c->later: the end, instead of the return. */
void command_ended(struct command_call *c, const struct err *err);

reg_bind_fn *command_bind(const struct command_call *c);        /* of handler blocks; any thread */

/* What the server has; borrowed, gone once commands_closed(). */
const struct command_env *command_env(const struct command_call *c);

/* --- of a command that is answered elsewhere; loop */

/* A command that reads the audit and is answered by another process.  What is asked is on record before start(); what
 * comes of it is command_part()'s and at last command_told()'s.  Loop. */
struct command_elsewhere {
	int (*start)(struct command_call *c, struct err *err);
	/* Nobody waits for it any more, or an administrator has stopped it: it ends by command_told(), now. */
	void (*cancel)(struct command_call *c, bool stopped);
};

/* 1: a part may come, 0: not yet, its reader is slow; negative: there is none any more. */
int command_room(struct command_call *c);
void command_part(struct command_call *c, const struct str *lines);        /* borrowed */
/* Again, as at its beginning: a reload may have taken the role away.  ERR_DENIED. */
int command_still_may(struct command_call *c, struct err *err) MUST_CHECK;
/* Its end: a second record in each log that was read says how, how many rows left, and their digest (SCALE SC-501);
 * then the reply.  err NULL: all of them did. */
struct command_told { const char *how; uint64_t rows; uint8_t digest[32]; };
void command_told(struct command_call *c, const struct command_told *told, const struct err *err);

/* How far it is, to who gave it and asked by the flag `progress`; total below 0: unknown.  Loop. */
void command_progress(struct command_call *c, double done, double total, const char *note);

/* Give c->priv n zeroed bytes that free() releases. */
void *command_priv(struct command_call *c, size_t n);

/* What check() and body() find done, for work that gather() starts: on this thread the command's files are those that
 * its peer has opened, until command_lend(NULL). */
void command_lend(const struct command_call *c);

/* --- for what goes on behind a command */

void commands_ref(struct commands *a);
void commands_unref(struct commands *a);
const struct command_env *commands_env(const struct commands *a);
bool commands_closed(const struct commands *a);         /* env is gone */

/* Commands that run and can be cancelled, as session list has them. */
struct command_view {
	uint64_t id;                    /* of those of mcp_peers() */
	const char *tenant, *principal; /* as whom; NULL: as nobody */
	const char *line;               /* who gave which command */
	uint64_t since_us;              /* wall clock */
};
typedef void command_view_fn(void *arg, const struct command_view *v);
void commands_running(const struct commands *a, const char *tenant /* NULL = all */, command_view_fn *fn, void *arg);
/* By an administrator; false: there is none with this id (of this tenant, NULL = any). */
bool commands_cancel(const struct commands *a, const char *tenant, uint64_t id);

/* --- who may what */

/* tenant: whose audit is meant, or NULL.  For options that need more than their command does. */
bool actor_may(const struct commands *a, const struct actor *who, enum authority authority, const char *tenant);
/* May he run this row with this tenant's name, or NULL: without one?  And does he manage this tenant? */
bool actor_may_run(const struct commands *a, const struct actor *who, const struct command *cmd, const char *tenant);
bool actor_manages(const struct commands *a, const struct actor *who, const char *tenant);

#endif
