#ifndef ADMIN_ADMIN_H
#define ADMIN_ADMIN_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The one command table: on the owner's socket, or in-process in the CLI (house D.7).  Loop thread unless a
 * member says otherwise.  Arguments and replies are JSON objects; the table describes the arguments, so that
 * the CLI's parsing, --help, man page and completion come from the row. */

struct admin;
struct audit_logs;
struct call_engine;
struct db;
struct ev_loop;
struct limiter;
struct mcp_server;
struct registry;
struct tenants;
struct writer;

enum adm_role { ADM_READ, ADM_OPERATE, ADM_OWNER };
enum adm_where { ADM_ON_LOOP, ADM_ON_POOL, ADM_ON_WRITER };   /* where body() runs */

enum adm_arg_type { ARG_TEXT, ARG_FLAG, ARG_UINT, ARG_DURATION, ARG_RATE, ARG_TIME, ARG_FILE, ARG_KEYVALUES, ARG_NAMES };
enum adm_complete { COMPLETE_NONE, COMPLETE_TENANT, COMPLETE_PRINCIPAL, COMPLETE_KEY, COMPLETE_TOOL, COMPLETE_FILE };
struct adm_arg {
	const char *name;               /* member of the arguments object; "--name" for an option */
	const char *value;              /* placeholder in usage: "TENANT", "FILE…"; NULL for flags */
	enum adm_arg_type type;
	bool option, required, repeated;
	enum adm_complete complete;
	const char *help;
};

struct adm_who { uint32_t uid; int64_t pid; bool embedded; };  /* peer of the socket, or our own process */

struct adm_call {                       /* one running command */
	struct admin *admin;
	struct adm_who who;
	const json_t *args;             /* by name; read in check() only */
	json_t *reply;                  /* filled in after(); an object, or {"rows": […]} */
	void *priv; void (*free_priv)(void *priv);
	/* ADM_ON_LOOP commands that end later (call): set in check(), then adm_finish(). */
	bool later;
};
struct adm_column { const char *member, *title; };              /* how the CLI prints rows */
struct adm_cmd {
	const char *noun, *verb;        /* "tool", "add"; verb NULL for one-word commands */
	const char *help;               /* one line */
	const char *detail;             /* a paragraph for --help and the man page, or NULL */
	const struct adm_arg *args;     /* ended by name NULL */
	const struct adm_column *columns;       /* of rows, ended by member NULL; or NULL: members of the reply */
	const char *done;               /* what to print for people: "tenant %{name} added"; or NULL */
	bool destructive;               /* the CLI asks, or needs --yes */
	enum adm_role role;             /* checked before anything of the handler runs */
	enum adm_where where;           /* WRITER: body runs as a writer job and appends its record itself */
	int (*check)(struct adm_call *c, struct err *err);                      /* loop; parse, dry run, no I/O */
	int (*body)(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err);      /* plain memory only; logs NULL unless WRITER */
	void (*after)(struct adm_call *c);                                      /* loop, after COMMIT */
};
extern const struct adm_cmd admin_table[];              /* ended by noun NULL */
const struct adm_cmd *admin_find(const char *noun, const char *verb);

struct admin_env {                      /* borrowed for life; mcp may be NULL (embedded) */
	struct ev_loop *loop;
	const char *store;
	struct tenants *tenants;
	struct registry *registry;
	struct limiter *limiter;
	struct writer *writer;
	struct call_engine *calls;
	struct mcp_server *mcp;
	const uint8_t *master;
	uint32_t owner_uid;             /* ADM_OWNER: this uid and root */
	uint64_t started_us;
	json_t *(*listeners)(void *arg); void *arg;     /* for status; may be NULL */
};
struct admin *admin_new(const struct admin_env *env);
void admin_free(struct admin **a);

struct adm_req { struct adm_who who; const char *noun, *verb; const json_t *args; };
/* Once, not before admin_run() has returned.  err NULL = done; reply borrowed. */
typedef void adm_reply_fn(void *arg, const json_t *reply, const struct err *err);
void admin_run(struct admin *a, const struct adm_req *req, adm_reply_fn *reply, void *arg);
void adm_finish(struct adm_call *c, const struct err *err);     /* ends a `later` command */

/* The owner's socket: one JSON line in {"command":"tool add","args":{…}}, one line back {"reply":{…}} or
 * {"error":{"code":"not_found","where":…,"message":…,"hint":…}}.  Peer uid by SO_PEERCRED: the owner's uid and root. */
struct admin_sock;
int admin_sock_open(struct admin *a, struct ev_loop *loop, const char *path, struct admin_sock **ret, struct err *err) MUST_CHECK;
void admin_sock_close(struct admin_sock **s);
#define ADMIN_LINE_MAX (16u << 20)

#endif
