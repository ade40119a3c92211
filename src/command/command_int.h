#ifndef COMMAND_INT_H
#define COMMAND_INT_H

#include <pthread.h>

#include "audit/second.h"
#include "base/map.h"
#include "limit/limit.h"

#include "command/call.h"

struct reg_change;
struct reg_news;
struct tenant_image;

/* --- one running command */

struct commands {
	struct command_env env;
	unsigned refs;                  /* its owner, and each command under way */
	bool closed;                    /* env is gone */
	struct db *reader[2];           /* idle read-only connections of the pool */
	struct limit_bucket refused;    /* records of commands of those who have no right to them */
	struct list streams;            /* commands that wait for their next part */
	struct list running;            /* struct command_run.running: those that can be cancelled */
	uint64_t texts;                 /* bytes of documents that are kept for commands under way; loop thread */
	uint64_t serial;                /* of the last of them, where there is no mcp */
	uint64_t unrecorded;            /* such commands without a record, since the last one */
};
#define ADM_REFUSED_PER_S 10

/* What was read of one log. */
struct command_seen { int64_t tenant_id, from, to; uint64_t rows; };

struct command_run {
	struct command_call c;
	const struct command *cmd;
	command_reply_fn *reply;
	void *arg;
	struct reply out;
	json_t *args;
	struct path_lent *files; size_t nfiles;
	pthread_t owner; bool owned;    /* the thread that has args; not owned while a body waits for its turn */
	char *line;                     /* the command without values that may be secret, for the record */
	char *asked;                    /* the same with names of principals, for a second administrator; then the reasons */
	size_t nreason;
	uint8_t action[32];             /* digest of the command, once a second administrator was asked for */
	int64_t approval;               /* whose grant it is done by; 0: none */
	char approver[ACTOR_SIZE + 32];
	char *agreed;                   /* what the second administrator was shown; NULL: there is none, or none is needed */
	bool unapproved;                /* there is none: body() is refused, or at its end what it did */
	int64_t request;                /* that was filed */
	struct audit_logs *logs;        /* in a body on the writer's thread; else NULL */
	struct db *db;                  /* borrowed from admin->reader for a POOL body */
	struct reg_change **change; size_t nchange;
	struct tenant_image **image; size_t nimage;
	struct reg_news *told; size_t ntold;
	int64_t record_tenant;          /* whose log was read; 0 = the system log */
	int record;                     /* as the row says, or command_record_as() */
	struct command_seen *seen; size_t nseen;
	size_t reads_out;               /* records of what was read that are not durable yet */
	int reads_rc;
	void (*reads_done)(struct command_run *run, int rc);
	char *how;                      /* what the second record says; NULL: it is not written yet */
	const char *result;             /* its one word; "done" */
	bool recorded;                  /* the command's own record is written */
	void (*ended)(struct command_run *run);
	struct err err;
	int rc;
	bool gathered, gathering;       /* gathering: command_gathered() is awaited */
	struct command_pieces *pieces;  /* documents, of a row with `pieces` */
	uint8_t documents[32];          /* digest of them in their order, whatever the pieces were */
	bool expects;                   /* a further piece of them */
	struct audit_policy policy; bool policy_read;   /* in its body, of such a row */
	const struct command_sink *sink;    /* of a stream */
	struct ev_timer *timer;         /* between its parts; NULL before the second */
	struct list streams;            /* in admin.streams while there is a timer */
	struct list running;            /* in admin.running, from body() to the end */
	uint64_t id, since_us;          /* then */
	bool left;                      /* who gave it is gone */
};
struct command_run *command_run_of(const struct command_call *c);

/* --- documents that come in pieces (args.c) */

void command_pieces_free(struct command_pieces **p);
/* No more documents of a command and bytes of all of them than these; SIZE_MAX, UINT64_MAX: as ever. */
FOR_TESTS void command_pieces_bound(size_t documents, uint64_t texts);
/* Loop: keep what this array holds, behind what came before; run->err says why not: ERR_LIMIT, ERR_IO. */
int command_pieces_take(struct command_run *run, const json_t *documents, bool more) MUST_CHECK;

/* --- who may what (authority.c) */

int actor_check(const struct command_run *run, struct err *err) MUST_CHECK;

/* --- records of commands (admin_record.c) */

void command_record_line(struct command_run *run);
void command_record_event(const struct command_run *run, int kind, int64_t tenant_id, struct audit_event *ev);
/* The command's own record: with the change on the writer thread, or at its end; ended() follows, perhaps at once. */
int command_record_done(struct command_run *run, struct db *db, struct audit_logs *logs, struct err *err) MUST_CHECK;
void command_record_end(struct command_run *run, void (*ended)(struct command_run *run));
/* done() once the records are durable, not before this has returned when they are submitted. */
void command_record_reads(struct command_run *run, void (*done)(struct command_run *run, int rc));
/* The second ones, of what was told of them. */
void command_record_told(struct command_run *run, const struct command_told *told,
			 void (*done)(struct command_run *run, int rc));

/* The end of an answer to one line, as all sockets of commands have it (socket.c): rows, NULL: none; then the error, or
 * that it is done where err is NULL.  Wiped behind it. */
struct stream;
void command_send_reply(struct stream *to, const struct str *rows, const struct err *err);

#endif
