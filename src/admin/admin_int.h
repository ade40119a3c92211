#ifndef ADMIN_INT_H
#define ADMIN_INT_H

#include "admin/admin.h"
#include "base/err.h"
#include "base/map.h"
#include "base/text.h"
#include "db/db.h"
#include "limit/limit.h"
#include "tenant/tenant.h"
#include "adm_second.h"
#include "adm_who.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map;
struct reg_change;
struct reg_news;
struct audit_event;
struct audit_field;
struct audit_logs;
struct audit_receipt;

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

/* --- what a definition is called: a full name is "prompt:greet", "resource:readme", or a tool's bare name */

reg_bind_fn *adm_bind(const struct adm_call *c);        /* of handler blocks; any thread */
const char *adm_noun(const struct adm_call *c);         /* of the command: "tool", "prompt", … */
const char *adm_verb(const struct adm_call *c);
const char *adm_line(const struct adm_call *c);         /* what its record says of it */
const char *adm_noun_of(const char *full_name);
const char *adm_bare(const char *full_name);
/* The full name of what a command of this noun calls `name`: the bare name, or the full one. */
void adm_full_name(const char *noun, const char *name, char *ret, size_t size);

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

/* --- look-ups shared by commands, any thread with its connection */

struct adm_tenant {
	int64_t id;
	char name[80], title[256];
	int state;
	int64_t generation, concurrency, created_us;
	struct text_rate rate;
	char sandbox[64];               /* the level that is required beside others; "" = none */
	struct tenant_limits more;      /* all but concurrency and rate */
};
/* By name; removed ones are not found.  ERR_NOT_FOUND with "did you mean". */
int adm_find_tenant(struct db *db, const char *name, struct adm_tenant *ret, struct err *err) MUST_CHECK;
struct adm_principal { int64_t id, created_us; char name[64], pseudonym[32]; int state; };
int adm_find_principal(struct db *db, const struct adm_tenant *t, const char *name, struct adm_principal *ret,
		       struct err *err) MUST_CHECK;
/* What a statement counts that takes the tenant alone. */
int adm_count_of_tenant(struct db *db, enum sql_id sql, int64_t tenant_id, int64_t *ret, struct err *err) MUST_CHECK;
/* Insert one with a fresh pseudonym.  ERR_LIMIT: the tenant has TENANT_PRINCIPALS_MAX. */
int adm_add_principal(struct db *db, const struct adm_tenant *t, const char *name, struct adm_principal *ret,
		      struct err *err) MUST_CHECK;
/* Any definition, by its full name. */
struct adm_tool {
	int64_t id, version, version_id, created_us, changed_us;
	int state, kind;                /* kind: tool_version.kind */
	char name[80], uri[2049];       /* uri: "" for tools and prompts */
	uint8_t digest[32];
};
int adm_find_tool(struct db *db, const char *name, struct adm_tool *ret, struct err *err) MUST_CHECK;
/* Removed ones as well: 1 = found, 0 = there never was one. */
int adm_find_tool_row(struct db *db, const char *name, struct adm_tool *ret, struct err *err) MUST_CHECK;
enum { ADM_TOOL_ENABLED = 1, ADM_TOOL_DISABLED = 2, ADM_TOOL_REMOVED = 3 };
const char *adm_tool_state_name(int state);
const char *adm_state_name(int state);          /* of tenants and principals */
/* The row that a statement admin_<what>_find or _list stands at. */
void adm_read_tenant(struct db_stmt *st, struct adm_tenant *ret);
void adm_read_principal(struct db_stmt *st, struct adm_principal *ret);
void adm_read_tool(struct db_stmt *st, struct adm_tool *ret);

#define ADM_GLOB_SIZE 80                /* with the kind in front and NUL */
struct adm_grant {
	int64_t id, created_us;
	char glob[ADM_GLOB_SIZE], alias[65];    /* alias "" = none */
	uint32_t concurrency;           /* 0 = as the tool says */
	struct text_rate rate;          /* likewise, count 0 */
};
/* The row that admin_grant_find or admin_grant_list stands at. */
void adm_read_grant(struct db_stmt *st, struct adm_grant *ret);

/* Names of a tenant's principals by pseudonym, for showing records. */
int adm_names_load(struct db *db, int64_t tenant_id, struct map **ret, struct err *err) MUST_CHECK;
void adm_names_free(struct map **names);
const char *adm_person(const struct map *names, const char *pseudonym);         /* its name, or itself; NULL for NULL */

/* Give c->priv n zeroed bytes that free() releases. */
void *adm_priv(struct adm_call *c, size_t n);

/* --- one running command (admin.c) */

struct admin {
	struct admin_env env;
	unsigned refs;                  /* its owner, and each command under way */
	bool closed;                    /* env is gone */
	struct db *reader[2];           /* idle read-only connections of the pool */
	struct limit_bucket refused;    /* records of commands of those who have no right to them */
	struct list streams;            /* commands that wait for their next part */
	uint64_t unrecorded;            /* such commands without a record, since the last one */
};
#define ADM_REFUSED_PER_S 10

/* What was read of one log. */
struct adm_seen { int64_t tenant_id, from, to; uint64_t rows; };

struct adm_run {
	struct adm_call c;
	const struct adm_cmd *cmd;
	adm_reply_fn *reply;
	void *arg;
	struct adm_out out;
	json_t *args;
	char *line;                     /* the command without values that may be secret, for the record */
	char *asked;                    /* the same with names of principals, for a second administrator; then the reasons */
	size_t nreason;
	uint8_t action[32];             /* digest of the command, once a second administrator was asked for */
	char approver[ADM_WHO_SIZE + 32];
	bool unapproved;                /* there is none: body() is refused, or at its end what it did */
	int64_t request;                /* that was filed */
	struct db *db;                  /* borrowed from admin->reader for a POOL body */
	struct reg_change **change; size_t nchange;
	struct tenant_image **image; size_t nimage;
	struct reg_news *told; size_t ntold;
	int64_t record_tenant;          /* whose log was read; 0 = the system log */
	int record;                     /* as the row says, or adm_record_as() */
	struct adm_seen *seen; size_t nseen;
	size_t reads_out;               /* records of what was read that are not durable yet */
	int reads_rc;
	void (*reads_done)(struct adm_run *run, int rc);
	bool recorded;                  /* the command's own record is written */
	void (*ended)(struct adm_run *run);
	struct err err;
	int rc;
	bool gathered;
	const struct adm_sink *sink;    /* of a stream */
	struct ev_timer *timer;         /* between its parts; NULL before the second */
	struct list streams;            /* in admin.streams while there is a timer */
};
struct adm_run *adm_run_of(const struct adm_call *c);

/* In after() of a WRITER row that has set c->later: the end, instead of the return. */
void adm_ended(struct adm_call *c, const struct err *err);
void adm_ref(struct admin *a);
void adm_unref(struct admin *a);

/* --- adm_course.c */

/* All deeds that are not done, one after the other; done() at the end, or NULL. */
typedef void adm_course_fn(void *arg, const struct err *err);

/* --- who may what (adm_role.c) */

/* tenant: whose audit is meant, or NULL.  For options that need more than their command does. */
bool adm_may(const struct admin *a, const struct adm_who *who, enum adm_role authority, const char *tenant);
int adm_role_check(const struct adm_run *run, struct err *err) MUST_CHECK;
size_t adm_groups_with_role(const struct admin *a, const uint32_t *gid, size_t n, uint32_t **ret);     /* free *ret */

/* --- records of commands (admin_record.c) */

void adm_record_line(struct adm_run *run);
void adm_record_event(const struct adm_run *run, int kind, int64_t tenant_id, struct audit_event *ev);
/* The command's own record: with the change on the writer thread, or at its end; ended() follows, perhaps at once. */
int adm_record_done(struct adm_run *run, struct db *db, struct audit_logs *logs, struct err *err) MUST_CHECK;
void adm_record_end(struct adm_run *run, void (*ended)(struct adm_run *run));
bool adm_is_read(const struct adm_run *run);
/* done() once the records are durable, not before this has returned when they are submitted. */
void adm_record_reads(struct adm_run *run, void (*done)(struct adm_run *run, int rc));

#endif
