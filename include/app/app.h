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
struct app_take_over;
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
	/* Instead of owner, with APP_DAEMON: the server that has the store, borrowed for life; its place is taken when all
	 * is ready that can be. */
	struct app_take_over *take_over;
	int ready_fd;                   /* gets a byte when the server is ready, and is closed; 0 = nobody waits for it */
	/* Names of unsigned tails to take over (AUDIT A-722); NULL-terminated, borrowed, or NULL */
	const char *const *adopt;
	/* Rows to take out of service (audit_quarantine()), likewise */
	const char *const *quarantine;
	bool no_copy;                   /* of a store whose schema goes forward (db_before_make()) */
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
/* Cancels, writer last but one, lock last, which another server may get.  0, or the exit status: 1 when not all could
 * be written, or nobody got it. */
int app_close(struct app **a);

/* Ask the server that owns the store, at the other end of fd, which is taken, what it would hand over (OP-901).
 * Nothing happens yet, and freeing it ends the conversation.  Main thread, before app_start().  ERR_CONFLICT: it
 * refuses; ERR_UNREACHABLE: it does not answer; ERR_DENIED: it is another user's. */
int app_take_over_open(const char *store, int fd, struct app_take_over **ret, struct err *err) MUST_CHECK;
/* Before: would a start change the store?  ERR_CONFLICT: yes. */
int app_take_over_check(const char *store, struct err *err) MUST_CHECK;
bool app_take_over_managed(const struct app_take_over *t);      /* that one was started by a service manager */
void app_take_over_free(struct app_take_over **t);

/* All commands, for command_env and for the program toolcrib; ended by NULL. */
extern const struct command *const app_commands[];

/* Become the configuration's `user` for ever, when root has started us: before anything else is opened.  ERR_NOT_FOUND,
 * ERR_DENIED, ERR_INVALID; where = "user". */
int app_become_user(const struct conf *conf, const char *store, struct err *err) MUST_CHECK;
/* What only this machine and its files can tell of a configuration: users, levels, paths, the listeners' certificates
 * and keys.  where = "file:line:column", or the file at fault. */
int app_conf_check(const struct conf *conf, struct err *err) MUST_CHECK;

/* The first start of a store, with which its logs are signed for the first time, and its keys in their text form, which
 * somebody outside should pin; free() both. */
int app_first_keys(const char *store, struct db_owner *owner, char **ret_log, char **ret_epoch,
		   struct err *err) MUST_CHECK;
/* Each door of a configuration, with what its certificate's files say. */
struct app_door {
	const char *name, *cert;        /* for people; its file, or NULL: it is plain */
	uint64_t expires_us;            /* wall clock; 0: it is plain, or cannot be opened */
	const struct err *err;          /* why it cannot be opened, or NULL */
};
void app_doors(const struct conf *conf, void (*fn)(void *arg, const struct app_door *door), void *arg);
/* What tools are held by, as a server with this configuration would find it: the launcher is started, asked, ended.
 * fn gets the texts of `status`: levels and users. */
int app_sandbox_look(struct conf *conf, char *store, void (*fn)(void *arg, const char *levels, const char *users),
		     void *arg, struct err *err) MUST_CHECK;
/* Where the owner of a store listens for commands; free() it.  In the store, or, where that path is too long for
 * a socket, in $XDG_RUNTIME_DIR or /run/toolcrib. */
char *app_admin_socket(const char *store);
/* Likewise, where a server is asked to hand over. */
char *app_handover_socket(const char *store);

#endif
