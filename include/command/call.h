#ifndef COMMAND_CALL_H
#define COMMAND_CALL_H

#include "command/command.h"
#include "base/err.h"
#include "base/text.h"
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

/* --- what a command says: rows as text, so that no tree crosses a thread */

struct reply {
	struct str text;
	bool any;                       /* the open row has a member already */
	size_t rows;
};
bool reply_full(const struct reply *o);         /* nothing more is taken: the command will be refused; stop */
void reply_row_begin(struct reply *o);
void reply_row_end(struct reply *o);
void reply_text(struct reply *o, const char *name, const char *value);      /* NULL: null */
void reply_int(struct reply *o, const char *name, int64_t value);
void reply_bool(struct reply *o, const char *name, bool value);
void reply_time(struct reply *o, const char *name, uint64_t wall_us);       /* 0: null */
void reply_rate(struct reply *o, const char *name, struct text_rate rate);  /* count 0: null */
void reply_json(struct reply *o, const char *name, const json_t *value);
void reply_raw(struct reply *o, const char *name, const char *json, size_t len);
void reply_ms(struct reply *o, const char *name, uint64_t us);                /* milliseconds, one decimal */
void reply_hex(struct reply *o, const char *name, const void *p, size_t n);

/* --- which command it is */

const char *command_noun(const struct command_call *c);         /* of the command: "tool", "prompt", … */
const char *command_verb(const struct command_call *c);
const char *command_line(const struct command_call *c);         /* what its record says of it */

/* --- arguments, after command_args_check(): on the thread that has them, see command_call */

int command_args_check(const struct command *cmd, const json_t *args, struct err *err) MUST_CHECK;
const char *arg_text(const struct command_call *c, const char *name);               /* or NULL */
const json_t *arg_json(const struct command_call *c, const char *name);             /* as it was given, or NULL */
void arg_copy(const struct command_call *c, const char *name, char *ret, size_t size);      /* absent: "" */
bool arg_given(const struct command_call *c, const char *name);
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
#define ADM_STATUS_FINDINGS 4
#define ADM_STATUS_GAPS 5
/* An event of this kind by whoever gave the command, in the system's log. */
void command_event_of(const struct command_call *c, int kind, struct audit_event *ev);

/* In after() of a WRITER row that has set c->later: the end, instead of the return. */
void command_ended(struct command_call *c, const struct err *err);

reg_bind_fn *command_bind(const struct command_call *c);        /* of handler blocks; any thread */

/* What the server has; borrowed, gone once commands_closed(). */
const struct command_env *command_env(const struct command_call *c);

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

/* --- who may what */

/* tenant: whose audit is meant, or NULL.  For options that need more than their command does. */
bool actor_may(const struct commands *a, const struct actor *who, enum authority authority, const char *tenant);

#endif
