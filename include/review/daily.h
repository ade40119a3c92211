#ifndef REVIEW_DAILY_H
#define REVIEW_DAILY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* The server's own verification (AUDIT A-803, SCALE SC-708, decision 0098): once a day, and when `audit daily` asks for
 * it, toolcrib-verifier reads what is new since the mark that the last run left in STORE/verify, and the thirtieth of
 * what is old that was read longest ago.  How it ends is a record (audit.verify) in the system's log, a line of the log
 * that names the first findings, two metrics, and a line of `status`.  One runs at a time; a stop ends it, and the next
 * start goes on.  Loop thread. */

struct command_call;
struct ev_loop;
struct str;
struct writer;

#define DAILY_FOLDER "verify"           /* of the store */
#define DAILY_SCRUB 30                  /* runs in which each old record is read again */
#define DAILY_WAITING_MAX 8             /* who wait for the end of one; one more is ERR_BUSY */
#define DAILY_LONGEST_S (23 * 3600u)    /* then it is ended; the next one goes on */

struct daily;
struct daily_opt {
	const char *store;              /* copied */
	struct writer *writer;
	const char *at;                 /* "03:00", UTC; another text: only when it is asked for */
	unsigned landlock;              /* for the verifier; 0 = none */
	const char *archive;            /* copied; NULL: there is none */
};
/* It reads what the last one has left.  Nothing runs yet. */
struct daily *daily_new(struct ev_loop *loop, const struct daily_opt *opt);
/* From now on it runs at its time; at once where the last time passed while no server ran, or a run was cut off. */
void daily_start(struct daily *d);
/* What runs ends, to be gone on with; whoever waits for it is told so; none begins any more. */
void daily_stop(struct daily *d);
/* After commands_free(). */
void daily_free(struct daily **d);
/* For people: what came of the last one, what runs, when the next one does. */
void daily_describe(const struct daily *d, struct str *out);

#endif
