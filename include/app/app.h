#ifndef APP_APP_H
#define APP_APP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Wiring shared by both programs: one table walked forward at start, backward at stop; a profile selects
 * rows.  Main thread. */

struct command;
struct commands;
struct app;
struct conf;
struct db_owner;
struct ev_loop;
struct str;

enum app_profile { APP_DAEMON, APP_STDIO, APP_EMBEDDED };

struct app_opt {
	enum app_profile profile;
	const char *store;              /* directory */
	struct conf *conf;              /* borrowed for life, its LIVE keys change on SIGHUP; NULL with APP_EMBEDDED */
	/* APP_EMBEDDED: whose sandbox.* holds, borrowed for life; NULL = the defaults */
	const struct conf *tools;
	const struct conf_role *roles; size_t nroles;   /* APP_EMBEDDED: who is more than an admin, borrowed for life */
	struct db_owner *owner;         /* taken already, by db_owner_take(); the app drops it last */
	/* Names of unsigned tails to take over (AUDIT A-722); NULL-terminated, borrowed, or NULL */
	const char *const *adopt;
	/* Rows to take out of service (audit_quarantine()), likewise */
	const char *const *quarantine;
	bool confine;                   /* the process that this is: for ever, when it is ready (HARDENING 1.3) */
};
/* Open the store, recover, load, listen.  On failure everything is closed again, the owner lock too. */
int app_start(const struct app_opt *opt, struct app **ret, struct err *err) MUST_CHECK;
struct ev_loop *app_loop(struct app *a);
struct commands *app_admin(struct app *a);
/* APP_STDIO: serve one peer on these descriptors (taken); app_run() returns when it ends.  Who it is says the key
 * ("tck_…"), or, without one, tenant. */
int app_serve_stdio(struct app *a, int in_fd, int out_fd, const char *tenant, const char *key,
		    struct err *err) MUST_CHECK;
/* Run until a signal or app_stop(); 0, or the exit status. */
int app_run(struct app *a);
/* Drain, then end the loop; called again: do not wait for running calls. */
void app_stop(struct app *a);
void app_close(struct app **a);         /* cancels, writer last but one, lock last */

/* All commands, for command_env and for the program toolcrib; ended by NULL. */
extern const struct command *const app_commands[];

/* Become the configuration's `user` for ever, when root has started us: before anything else is opened.  ERR_NOT_FOUND,
 * ERR_DENIED, ERR_INVALID; where = "user". */
int app_become_user(const struct conf *conf, const char *store, struct err *err) MUST_CHECK;
/* What only this machine and its files can tell of a configuration: users, levels, paths, the listeners' certificates
 * and keys.  where = "file:line:column", or the file at fault. */
int app_conf_check(const struct conf *conf, struct err *err) MUST_CHECK;

/* Create a store: directory 0700, master.key 0400, toolcrib.db, system log.  ERR_CONFLICT when there is one. */
int app_init_store(const char *store, struct err *err) MUST_CHECK;
/* Start as the owner, and end: that migrates, takes rows (NULL: none) out of service, and leaves its records.
 * ERR_BUSY: somebody owns it. */
int app_start_once(const char *store, const char *const *quarantine, struct err *err) MUST_CHECK;
/* Rows that keep the store from starting, by reading it, as lines of JSON: {"row":{"row","what","closing"}}. */
int app_fsck(const char *store, struct str *rows, struct err *err) MUST_CHECK;
/* toolcrib migrate, as the owner: steps of the schema, then what a start does not do, records that wait and their
 * indexes (writer/fold.h).  What was done, or would be, as a line of JSON: {"row":{"from","to","said",...}}.
 * ERR_UNREACHABLE: the store is damaged, or a newer program made it. */
struct app_migrate_way {
	bool dry_run;
	bool fold;                      /* also where a server would do it by itself */
	bool shown;                     /* a bar on stderr */
};
int app_migrate(const char *store, const struct app_migrate_way *way, struct str *rows, struct err *err) MUST_CHECK;
/* The first start of a store, with which its logs are signed for the first time, and its keys in their text form, which
 * somebody outside should pin; free() both. */
int app_first_keys(const char *store, struct db_owner *owner, char **ret_log, char **ret_epoch,
		   struct err *err) MUST_CHECK;
/* What is wrong around a store, or will be soon (OP-180), as lines of JSON, {"row":{…}} with class (ok, warn or fail),
 * what, where, said and do.  Nothing is changed, but that root becomes the user of the server, for ever. */
struct app_doctor_opt {
	const char *config;             /* file; NULL = the default one */
	const char *store;              /* directory; NULL = the configuration's, or the default one */
	/* The one row of a command without arguments, asked of the server that listens there: new reference. */
	int (*ask)(void *arg, const char *socket, const char *noun, json_t **ret, struct err *err);
	void *arg;
};
void app_doctor(const struct app_doctor_opt *opt, struct str *rows);
/* Where the owner of a store listens for commands; free() it.  In the store, or, where that path is too long for
 * a socket, in $XDG_RUNTIME_DIR or /run/toolcrib. */
char *app_admin_socket(const char *store);

#endif
