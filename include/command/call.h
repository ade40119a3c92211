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

/* What the bodies of commands have: what was asked for, a place for the answer, records, and what their rows change in memory. */

struct audit_event;
struct audit_field;
struct audit_logs;
struct audit_receipt;
struct db;
struct db_stmt;

typedef int adm_check_fn(struct adm_call *c, struct err *err);
typedef int adm_body_fn(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err);
typedef void adm_after_fn(struct adm_call *c);
typedef void adm_gather_fn(struct adm_call *c);

/* What storing a document did. */
enum adm_stored { ADM_UNCHANGED, ADM_ADDED, ADM_CHANGED };

/* --- what a command says: rows as text, so that no tree crosses a thread */

struct adm_out {
	struct str text;
	bool any;                       /* the open row has a member already */
	size_t rows;
};
bool adm_full(const struct adm_out *o);         /* nothing more is taken: the command will be refused; stop */
void adm_row_begin(struct adm_out *o);
void adm_row_end(struct adm_out *o);
void adm_put_text(struct adm_out *o, const char *name, const char *value);      /* NULL: null */
void adm_put_int(struct adm_out *o, const char *name, int64_t value);
void adm_put_bool(struct adm_out *o, const char *name, bool value);
void adm_put_time(struct adm_out *o, const char *name, uint64_t wall_us);       /* 0: null */
void adm_put_rate(struct adm_out *o, const char *name, struct text_rate rate);  /* count 0: null */
void adm_put_json(struct adm_out *o, const char *name, const json_t *value);
void adm_put_raw(struct adm_out *o, const char *name, const char *json, size_t len);
void adm_put_ms(struct adm_out *o, const char *name, uint64_t us);                /* milliseconds, one decimal */
void adm_put_hex(struct adm_out *o, const char *name, const void *p, size_t n);

/* --- which command it is */

const char *adm_noun(const struct adm_call *c);         /* of the command: "tool", "prompt", … */
const char *adm_verb(const struct adm_call *c);
const char *adm_line(const struct adm_call *c);         /* what its record says of it */

/* --- arguments, after admin_args_check(): loop thread, in check() */

int admin_args_check(const struct adm_cmd *cmd, const json_t *args, struct err *err) MUST_CHECK;
const char *adm_text(const struct adm_call *c, const char *name);               /* or NULL */
void adm_copy(const struct adm_call *c, const char *name, char *ret, size_t size);      /* absent: "" */
bool adm_has(const struct adm_call *c, const char *name);
bool adm_flag(const struct adm_call *c, const char *name);                      /* flags, yes/no */
uint32_t adm_uint(const struct adm_call *c, const char *name, uint32_t def);
uint64_t adm_duration_ms(const struct adm_call *c, const char *name, uint64_t def);
struct text_rate adm_rate(const struct adm_call *c, const char *name);          /* absent: count 0 */
uint64_t adm_time(const struct adm_call *c, const char *name);                  /* absent: 0 */
size_t adm_count(const struct adm_call *c, const char *name);                   /* of a repeated argument */
const char *adm_nth(const struct adm_call *c, const char *name, size_t i);
/* "tenant/principal" into its halves; ERR_INVALID unless both are names. */
int adm_split(const char *text, char ret_tenant[64], char ret_name[64], struct err *err) MUST_CHECK;
#define ADM_REASON_SIZE 400
#define ADM_TICKET_SIZE 80
/* A text that goes into a record: not empty when it is given. */
int adm_reason(const struct adm_call *c, const char *name, char *ret, size_t size, struct err *err) MUST_CHECK;

/* --- inside a WRITER body */

struct adm_record {
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
int adm_record(struct adm_call *c, struct db *db, struct audit_logs *logs, const struct adm_record *r, struct err *err) MUST_CHECK;
/* What the rows just written change in memory; applied after COMMIT, before after() and the reply. */
int adm_changed_tools(struct adm_call *c, struct db *db, const int64_t *ids, size_t n, struct err *err) MUST_CHECK;
int adm_changed_schema(struct adm_call *c, struct db *db, const char *uri, struct err *err) MUST_CHECK;
int adm_changed_tenant(struct adm_call *c, struct db *db, int64_t tenant_id, struct err *err) MUST_CHECK;
/* Keys and principals of a tenant, its state and limits. */
int adm_changed_people(struct adm_call *c, struct db *db, int64_t tenant_id, struct err *err) MUST_CHECK;
/* In check() or body(), for rows that read the audit: the log that is read, when no record of it is shown.  Neither this
 * nor adm_seen(): the system's. */
void adm_record_in(struct adm_call *c, int64_t tenant_id);
/* In check(), when it is the arguments that make a row read the audit: what its `record` would say. */
void adm_record_as(struct adm_call *c, int kind);
/* In body(), for rows that read the audit: record idx of this tenant's log (0: the system's) is shown or counted.  What
 * was read is recorded in each such log, with the range, before the answer leaves; of more logs than ADM_SEEN_MAX in the
 * system's.  c->status is in it: set it when the exit status of the command is not 0 and the shape does not say so. */
void adm_seen(struct adm_call *c, int64_t tenant_id, int64_t idx);
#define ADM_SEEN_MAX 64
#define ADM_STATUS_FINDINGS 4
#define ADM_STATUS_GAPS 5
/* An event of this kind by whoever gave the command, in the system's log. */
void adm_event(const struct adm_call *c, int kind, struct audit_event *ev);

/* In after() of a WRITER row that has set c->later: the end, instead of the return. */
void adm_ended(struct adm_call *c, const struct err *err);

reg_bind_fn *adm_bind(const struct adm_call *c);        /* of handler blocks; any thread */

/* What the server has; borrowed, gone once adm_closed(). */
const struct admin_env *adm_env(const struct adm_call *c);

/* Give c->priv n zeroed bytes that free() releases. */
void *adm_priv(struct adm_call *c, size_t n);

/* --- for what goes on behind a command */

void adm_ref(struct admin *a);
void adm_unref(struct admin *a);
const struct admin_env *adm_env_of(const struct admin *a);
bool adm_closed(const struct admin *a);         /* env is gone */

/* --- who may what */

/* tenant: whose audit is meant, or NULL.  For options that need more than their command does. */
bool adm_may(const struct admin *a, const struct adm_who *who, enum adm_role authority, const char *tenant);

#endif
