#ifndef SETUP_SETUP_H
#define SETUP_SETUP_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

/* What is done to a store while no server has it, or around one: make it, look at it, take it forward.  Main thread. */

struct str;

/* Create a store: directory 0700, master.key 0400, toolcrib.db, system log.  ERR_CONFLICT when there is one.  args: of
 * toolcrib init, which may name databases of PostgreSQL instead; its tables are made by their owner, whose connections
 * differ in the user alone.  NULL: in files. */
#define SETUP_DATABASE_OWNER "toolcrib_owner"
int setup_store(const char *store, const json_t *args, struct err *err) MUST_CHECK;
/* Start as the owner, and end: that migrates, with a copy of before or without one, takes rows (NULL: none) out of
 * service, and leaves its records.  ERR_BUSY: somebody owns it. */
int setup_start_once(const char *store, const char *const *quarantine, bool no_copy, struct err *err) MUST_CHECK;
/* Rows that keep the store from starting, by reading it, as lines of JSON: {"row":{"row","what","closing"}}. */
int setup_fsck(const char *store, struct str *rows, struct err *err) MUST_CHECK;
/* toolcrib migrate, as the owner: steps of the schema, then what a start does not do, records that wait and their
 * indexes (writer/fold.h).  What was done, or would be, as a line of JSON: {"row":{"from","to","said",...}}.
 * ERR_UNREACHABLE: the store is damaged, or a newer program made it; ERR_LIMIT: no room for a copy. */
struct setup_migrate_way {
	bool dry_run;
	bool fold;                      /* also where a server would do it by itself */
	bool no_copy;                   /* of before the first step */
	bool drop_copy;                 /* do nothing but remove those that there are */
	bool shown;                     /* a bar on stderr */
};
int setup_migrate(const char *store, const struct setup_migrate_way *way, struct str *rows, struct err *err) MUST_CHECK;
/* toolcrib store move: all of a stopped store's folder but its key files into the databases of `to`, by which address
 * servers then find it; or back, `from`, or a copy of it, whose servers go on.  {"row":{"log","records","root"}} for
 * each log.  ERR_CONFLICT: the target is not empty, or unfinished, unless again; ERR_BUSY: a server has it;
 * ERR_CORRUPT: a log's records are not those of its head.  Then nothing is moved. */
struct setup_move_way {
	const char *to, *from;          /* one of them: an address, as of toolcrib init */
	const char *keys;               /* that of payload keys; NULL: beside it, by its name */
	const char *owner;              /* who makes the tables there */
	bool no_standby, copy, again;
	bool shown;                     /* a bar on stderr */
};
int setup_move(const char *store, const struct setup_move_way *way, struct str *rows, struct err *err) MUST_CHECK;
/* What is wrong around a store, or will be soon (OP-180), as lines of JSON, {"row":{…}} with class (ok, warn or fail),
 * what, where, said and do.  Nothing is changed, but that root becomes the user of the server, for ever. */
struct setup_doctor_opt {
	const char *config;             /* file; NULL = the default one */
	const char *store;              /* directory; NULL = the configuration's, or the default one */
	/* The one row of a command without arguments, asked of the server that listens there: new reference. */
	int (*ask)(void *arg, const char *socket, const char *noun, json_t **ret, struct err *err);
	void *arg;
};
void setup_doctor(const struct setup_doctor_opt *opt, struct str *rows);

#endif
