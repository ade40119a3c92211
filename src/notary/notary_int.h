#ifndef NOTARY_NOTARY_INT_H
#define NOTARY_NOTARY_INT_H

#include <stddef.h>

#include "audit/checkpoint.h"
#include "base/map.h"
#include "base/text.h"
#include "notary/notary.h"
#include "sign/client.h"
#include "succession/succession.h"

/* Inside of src/notary. */

struct db;
struct ev_helper;
struct ev_timer;
struct map;

enum {
	CALL_MS = 5000,                 /* for one reply of the signer */
	GREET_MS = 30000,               /* for its first, which comes when it has been started: a machine may be slow */
	BEAT_MS = 500,                  /* after a record; the rest of the second is for signing */
	RETRY_MS = 1000,                /* after a failure */
	HEARTBEAT_S = 600,
	EPOCH_S = 86400,
	TENANTS_MAX = 200,              /* notes of tenants in one beat (AUDIT A-705) */
	CYCLE_MS = 800,                 /* for the beats of all of them, when they are more */
	PAIRS_CHECKED = 8,              /* of the signatures of one reply */
	HELPER_END_MS = 2000,
	START_MS = 60000,
	ANCHOR_POLL_MS = 5,
};

/* What the signer has signed last of a log. */
struct base {
	uint64_t size;
	uint8_t root[TREE_HASH];
	bool has_tree, seen;            /* seen: the store has this log */
	struct tree tree;               /* with has_tree: at that size */
};

/* What the signer is to be asked, and what came of it. */
struct round {
	struct audit_beat beat;
	bool rotate, rotated;           /* an epoch shall begin with it; has */
	bool closes;                    /* the last one of its epoch */
	enum audit_saying say;
	struct str *note;               /* of each head; empty = not signed */
	struct sign_who *epoch;         /* an epoch that the store does not have yet, or NULL */
	uint64_t number;                /* the epoch that signed */
};

struct waiter { struct list node; notary_done_fn *done; void *arg; };

enum notary_state { NOTARY_IDLE, NOTARY_COLLECTS, NOTARY_SIGNS, NOTARY_STORES };

struct notary {
	struct ev_loop *loop;
	struct writer *writer;          /* from notary_start() on */
	char *store, *dir, *socket, *place;
	uint32_t max_age_s, commit_every_s;
	const char *const *adopt;
	/* The signer.  Whoever runs the round has it: the loop, its lane, at the end the writer's thread. */
	int fd;                         /* -1: not connected */
	struct ev_helper *helper;
	struct sign_who *who;           /* as of the newest greeting or rotation; NULL before */
	bool greeted;                   /* on this connection */
	uint8_t log_key[SIGN_PUBLIC_SIZE];      /* from notary_start() on */
	bool known;                     /* the store has an epoch: the signer must be the one that it knows */
	struct audit_epoch stored;      /* the newest epoch of the store, with known */
	struct map *bases;              /* struct base by the name under which a log is signed */
	struct map *numbers;            /* by origin, the number of the name of a log that went on behind a restore */
	/* Of a start that goes on behind a restore: epochs that the store has lost, oldest first, and what it gives up. */
	bool starting, epochs_lost;
	struct sign_who *past; size_t npast;
	struct succession *given; size_t ngiven;
	struct db *reader;
	/* The loop */
	enum notary_state state;
	struct round round;
	struct err err;                 /* of the round */
	int rc;
	struct ev_timer *timer, *heartbeat, *heads;     /* heads: when those that were not said are due */
	uint64_t unsigned_us;           /* since when something is not signed, monotonic; 0 = nothing */
	uint64_t round_us;              /* when this round began */
	uint64_t epoch_us;              /* when this process began its epoch; 0 = not yet */
	uint64_t said_us;               /* when the round began that last said heads; 0 = none yet */
	bool closed;                    /* the epoch ends with the next round */
	bool always, again, stopping;
	bool refused;                   /* the signer has contradicted, which does not pass */
	bool shared;                    /* nodes may share the store: the signer is asked when it is known who keeps that */
	bool may_keep;                  /* as of struct notary_opt */
	bool away;                      /* another node keeps the store, and signs */
	bool joins;                     /* it was away: what was signed meanwhile is looked at in the next round */
	uint64_t seen;                  /* away: how far the keeper has signed */
	bool stuck;                     /* a round did not end before the stop: nothing of it may be touched */
	struct list waiters, running;   /* for the next round; for this one */
	/* anchor.c */
	char *anchor_file, *anchor_cmd;
	uint32_t anchor_every_s;
	uint64_t anchored_us;           /* when the last one began; 0 = none yet */
	struct anchoring *anchoring;    /* what is on its way */
	bool no_commands;
};

/* For whoever has put one of the two back and not the other. */
#define HINT_TOGETHER "put the store and its signer back together: toolcribd(8), BAD NIGHTS"

/* guard.c, for writer_guard.before: NULL in *ret_tails when nothing is unsigned. */
struct audit_logs;
int notary_before(void *arg, struct db *db, struct audit_logs *logs, uint8_t **ret_tails, size_t *ret_len,
		  struct err *err) MUST_CHECK;
int notary_begun(void *arg, struct db *db, struct audit_logs *logs, struct err *err) MUST_CHECK;
/* guard.c, for writer_guard.away. */
int notary_away(void *arg, struct audit_logs *logs, struct err *err) MUST_CHECK;
/* guard.c: first of a round that joins, on the writer's thread: what other nodes have had signed. */
int notary_join(struct notary *n, struct db *db, struct audit_logs *logs, struct err *err) MUST_CHECK;
/* behind.c: a store that was put back to before what the signer has signed, and goes on without that. */
struct behind;
struct behind *behind_new(struct notary *n, struct db *db, struct err *err);    /* NULL: error */
void behind_free(struct behind **b);
/* Of a log as the store has it: whether the signer has more, or has it under a newer name. */
bool behind_look(struct behind *b, const char *origin, uint64_t size);
/* That one goes on from this root. */
void behind_root(struct behind *b, const uint8_t root[TREE_HASH]);
/* All logs were looked at: logs that the store lacks; then what a person has to give up, and if it was, the signer is
 * told. */
int behind_end(struct behind *b, struct err *err) MUST_CHECK;
/* link.c */
int notary_connect(struct notary *n, struct err *err) MUST_CHECK;       /* loop thread */
void notary_disconnect(struct notary *n, uint32_t wait_ms);             /* loop thread; a child that stays is killed */
/* and list what it has signed */
int notary_greet(struct notary *n, const char *instance, struct err *err) MUST_CHECK;
/* What the signer has signed last under a name; NULL: it does not know it. */
struct base *notary_base(struct notary *n, const char *origin);
/* The name under which a log is signed, from the start on. */
void notary_name(const struct notary *n, const char *origin, char ret[NOTE_NAME_MAX + 1]);
/* SIGNER_AHEAD, of epochs. */
int notary_epoch_ahead(const struct notary *n, struct err *err);
#define LOST "lost:"                    /* what a person says to give up records, before the log's name */
/* anchor.c: the system log's checkpoint of this round, out of the house if it is time. */
void notary_anchor(struct notary *n, const struct round *r);
void notary_anchor_wait(struct notary *n);

#endif
