#ifndef NOTARY_NOTARY_H
#define NOTARY_NOTARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/text.h"

/* Has the logs of a store signed: within a second after a record, every ten minutes when nothing happens, at the
 * end, and on demand (AUDIT ); less often it has the system log say the heads of the others (SC-506).  It
 * starts the signer or connects to it, compares at start what the store has with what the signer remembers (A-721,
 * A-722), and has calls refused when checkpoints stay away for too long.  Signing waits on a thread of its own.
 * Where nodes share a store, the one that keeps it does so for all (CLUSTER K-209); the others look whether it does,
 * and one of them goes on when it is gone.  Loop thread. */

struct db;
struct ev_loop;
struct notary;
struct writer;
struct writer_guard;

struct notary_opt {
	struct ev_loop *loop;
	const char *store;              /* directory */
	const char *dir;                /* of a signer that is started here; NULL: what the store says, else STORE/signer */
	const char *socket;             /* of one that listens; NULL: none.  At most one of both */
	uint32_t max_age_s;             /* how long records may stay without a checkpoint before calls are refused */
	uint32_t commit_every_s;        /* the system log says heads of tenants' logs at most that often */
	const char *anchor_file;        /* checkpoints are appended to it; or NULL */
	const char *anchor_cmd;         /* a program that gets them on standard input; or NULL */
	uint32_t anchor_every_s;
	const char *const *adopt;       /* tails that are taken over by name; NULL-terminated, or NULL */
	bool may_keep;                  /* where nodes share the store: it stays, and needs a signer that others have */
};
#define NOTARY_MAX_AGE_S 60
#define NOTARY_COMMIT_EVERY_S 10

/* ERR_UNREACHABLE: there is no signer. */
int notary_open(const struct notary_opt *opt, struct notary **ret, struct err *err) MUST_CHECK;
const char *notary_place(const struct notary *n);       /* for people: "child DIR", "socket PATH" */
/* The directory of a signer that is started here; NULL: it listens elsewhere.  Constant, any thread. */
const char *notary_dir(const struct notary *n);
/* The key of the logs, once it was started; SIGN_PUBLIC_SIZE bytes, which stay. */
const uint8_t *notary_log_key(const struct notary *n);
/* Since when something is not signed, monotonic; 0: nothing. */
uint64_t notary_unsigned_us(const struct notary *n);
/* For writer_open(): the checks of the start, the last checkpoint. */
void notary_guard(struct notary *n, struct writer_guard *ret);
/* The first checkpoint and a new epoch, durable on return; then the beats. */
int notary_start(struct notary *n, struct writer *w, struct err *err) MUST_CHECK;
/* A checkpoint of the system log's first `size` records is outside, put there by somebody else: on record as soon as
 * that can be, or not at all.  receipt: what is known of it there.  Copied.  n NULL, or one that stops: nothing. */
struct notary_object { uint64_t size; const char *note; size_t note_len; const char *receipt; };
void notary_object(struct notary *n, const struct notary_object *o);
/* anchor.cmd is not started any more, and ended if it runs.  Before ev_child_kill_all(). */
void notary_no_commands(struct notary *n);
/* No beats any more; waits for the one that runs.  Before writer_close(). */
void notary_stop(struct notary *n);
void notary_close(struct notary **n);                   /* after writer_close() */

/* Whether the signer at this socket answers, and signs for this store or for none yet; db NULL: for any.  It may wait
 * some seconds, and the signer speaks with one at a time: for a store that no server has.  ERR_UNREACHABLE,
 * ERR_TIMEOUT, ERR_CONFLICT. */
int notary_look(const char *socket, struct db *db, struct err *err) MUST_CHECK;

/* Sign now what is not signed yet.  done() once, when it is durable or failed; not before the return. */
typedef void notary_done_fn(void *arg, int rc, const struct err *err);
void notary_now(struct notary *n, notary_done_fn *done, void *arg);

/* The signer's directory in a backup: what it remembers and the two keys that it signs with now, as a tar archive that
 * unpacks to the folder `signer`.  A store that is put back starts with the signer as it was just before its copy was
 * made, and with no other (decision 0051).  It holds secrets.  Any thread. */

struct notary_copy {
	struct str tar;
	uint64_t epoch;
	size_t logs;
};
/* Before the store is copied.  dir: notary_dir().  ERR_NOT_FOUND: it has no keys yet; ERR_UNREACHABLE, ERR_CORRUPT. */
int notary_copy_take(const char *dir, struct notary_copy *ret, struct err *err) MUST_CHECK;
/* Behind that: 1 when the two belong together, 0 when a log or an epoch began meanwhile. */
int notary_copy_holds(const struct notary_copy *c, const char *dir, struct err *err) MUST_CHECK;
/* To a new file (0600), durable.  ERR_CONFLICT when it exists, ERR_IO. */
int notary_copy_write(const struct notary_copy *c, const char *path, struct err *err) MUST_CHECK;
void notary_copy_fini(struct notary_copy *c);

#endif
