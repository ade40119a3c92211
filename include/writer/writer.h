#ifndef WRITER_WRITER_H
#define WRITER_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/audit.h"
#include "base/err.h"

/* The only thread that writes.  It takes what waits (at most batch_max items), tenants in turn (AUDIT
 * A-215), runs each job in a savepoint of its own (an event is one INSERT and needs none), commits all as
 * one transaction, posts the completions in order and looks again.  While a commit runs the next batch
 * gathers, and what one turn of the loop submits goes together: no timer, and an idle server pays one flush
 * (AUDIT A-214).  Checkpoints between batches.
 *
 * All functions: loop thread, unless said otherwise. */

struct ev_loop;
struct db;
struct keyfile_place;
struct writer;

struct writer_limits {
	size_t queue_max;               /* items waiting, and as many that nobody waits for; more: ERR_AUDIT / ERR_BUSY; ends
					 * of calls always get in */
	size_t batch_max;
	uint32_t deadline_ms;           /* an item not durable by then counts as failed */
	uint64_t space_floor;           /* free bytes of the file system below which calls are refused */
	unsigned space_warn;            /* percent of it that are free below which it is recorded; 0 = never */
	int64_t waiting_max;            /* records that may wait in a store that was never folded (SC-305); 0 = any */
	/* Loop thread: something of a tenant is about to be recorded, in about so many bytes; low: less than space_warn is
	 * free.  NULL: nobody counts. */
	void (*counted)(void *arg, int64_t tenant_id, size_t bytes, bool low);
	void *arg;
	uint32_t rest_ms;               /* without work, until pages and memory that a burst has left are given back */
	const char *node;               /* where nodes share a store: its name; NULL: that of the machine */
	bool of_command;                /* the same: a name of its own for each folder, whose lock it has, instead */
};
#define WRITER_LIMITS_DEFAULT { 16384, 256, 2000, 8u << 20, 10, 0, NULL, NULL, 5000, NULL, false }
#define WRITER_RECORD_BYTES 512         /* that a record takes beside its texts and values: leaf, indexes, box */

/* Who watches over the logs from outside (signed checkpoints). */
struct writer_guard {
	/* Before anything is written, on the loop thread: are these the logs that were left?  Refuses, or says in *ret_tails
	 * (to be freed) what AUDIT_TAG_TAILS of the first record shall say; NULL: nothing. */
	int (*before)(void *arg, struct db *db, struct audit_logs *logs, uint8_t **ret_tails, size_t *ret_len,
		      struct err *err);
	/* Instead, where nodes share the store and another one keeps it: that has the signer.  ERR_CONFLICT: this one could
	 * not take its place. */
	int (*away)(void *arg, struct audit_logs *logs, struct err *err);
	/* In the transaction of the start, behind its record, on the loop thread: what before() has found to say.  NULL:
	 * nothing. */
	int (*begun)(void *arg, struct db *db, struct audit_logs *logs, struct err *err);
	/* Before the thread begins, in the transaction of the start, behind audit_recover(); and in that which closes the
	 * calls of another node, behind them.  NULL: nobody. */
	int (*recover)(struct db *db, struct audit_logs *logs, struct err *err);
	/* On the writer thread, when there is nothing else to do any more: in the last transaction, before server.stop;
	 * negative undoes what it did, and the stop is recorded without.  Then after that has become durable. */
	int (*stopping)(void *arg, struct db *db, struct audit_logs *logs, struct err *err);
	void (*stopped)(void *arg, struct db *db, struct audit_logs *logs);
	/* On the loop thread, before the store is copied, as its schema goes forward: what a copy of it needs to start, to
	 * this new file. */
	int (*copying)(void *arg, const char *path, struct err *err);
	void *arg;
	/* On the writer thread, before a checkpoint and behind it: whoever follows the log may come to its end, and then let
	 * it begin anew.  NULL: nobody does. */
	void (*checkpoint)(void *checkpoint_arg);
	void *checkpoint_arg;
	const char *const *adopt;       /* what a person takes over by name: KEYS_FILE_ADOPT; NULL-terminated, or NULL */
	/* Rows that the start takes out of service (audit_quarantine()), NULL-terminated, and who said so; or NULL */
	const char *const *quarantine, *quarantined_by;
	bool no_copy;                   /* of a store whose schema goes forward (db_before_make()) */
	/* Calls that another process runs on with, which the start does not close, and when the first of them began
	 * (OP-903); or NULL */
	const struct audit_calls *elsewhere;
	uint64_t elsewhere_us;
};

/* Opens toolcrib.db and keys.db in place->store as DB_WRITER, migrates them, recovers dangling calls (count in
 * *ret_recovered), writes server.crash when the last record of the system log says that we did not stop, then
 * server.start (detail = mode). guard NULL: nobody watches. */
int writer_open(struct ev_loop *loop, const struct keyfile_place *place, const char *mode,
		const struct writer_limits *limits,
		const struct writer_guard *guard, struct writer **ret, size_t *ret_recovered, struct err *err) MUST_CHECK;

/* rc 0 after the COMMIT that holds the record, ERR_AUDIT once the deadline passed or it failed; never
 * before the submitting call has returned; receipt is NULL unless rc is 0.  After ERR_AUDIT the end of a call
 * is kept and tried again until the writer closes. */
typedef void writer_audit_fn(void *arg, int rc, const struct audit_receipt *receipt);
/* Copies *ev with its texts.  done NULL: nobody waits (a notice, not a call).  ERR_AUDIT: queue full, no room
 * on the disk (for call.begin), deadline passed or store failed: refuse the work, never drop the record. */
int writer_audit(struct writer *w, const struct audit_event *ev, writer_audit_fn *done, void *arg) MUST_CHECK;
/* Records and what they change, as one: up to WRITER_CHANGE_EVENTS events, all of one log, and a function on rows, in
 * one savepoint.  The function is one of few, and what it works on are plain bytes, which are copied: no pointer of the
 * loop's crosses, and another process could be handed the item.
 *
 * done: once, with what is true: what the writer has taken is waited for beyond the deadline.  rc 0 after the COMMIT,
 * with the receipt of the first event.  Else nothing was changed or recorded: ERR_AUDIT, or what rows->run() returned.
 * An item with the end of a call is kept while the disk is full, like those of writer_audit(); its function
 * had better not fail. */
enum { WRITER_CHANGE_EVENTS = 4 };
struct writer_rows {                    /* static */
	const char *name;               /* for the log */
	/* Writer thread, behind the events' records. */
	int (*run)(const void *bytes, size_t len, struct db *db, struct audit_logs *logs, struct err *err);
};
int writer_change(struct writer *w, const struct audit_event *ev, size_t n, const struct writer_rows *rows,
		  const void *bytes, size_t len, writer_audit_fn *done, void *arg) MUST_CHECK;

/* A call.begin that became durable after it had been refused: loop thread, with its event,
 * borrowed; the callee writes the end, outcome aborted, not executed. */
typedef void writer_late_fn(void *arg, const struct audit_event *begin);
void writer_on_late(struct writer *w, writer_late_fn *fn, void *arg);

/* --- where nodes share a store (CLUSTER 5) */

/* A name: [a-z0-9-]; that of the machine where none is said.  NULL: the store is ours alone. */
enum { WRITER_NODE_SIZE = 33 };
bool writer_node_is_name(const char *name);
bool writer_is_shared(const struct writer *w);          /* nodes may share the store */
/* From now on this node beats, and `changed` hears that another one has changed what is not a record: with a version,
 * once until writer_share_applied() says that it is shown here, or 0: it could not be.  Calls whose begin has become
 * durable behind such a change wait for that (CLUSTER K-115).  Nothing where the store is ours alone; again with NULL:
 * nobody hears it any more. */
void writer_share_start(struct writer *w, void (*changed)(void *arg, int64_t version), void *arg);
void writer_share_applied(struct writer *w, int64_t version);
/* One of them keeps the store: it has the signer, and whoever finds that it does not write any more takes its place
 * (CLUSTER K-204).  True where the store is ours alone. */
bool writer_keeps(const struct writer *w);
/* Loop thread, once: from now on it is this one. */
void writer_on_keeper(struct writer *w, void (*fn)(void *arg), void *arg);
bool writer_drains(const struct writer *w);             /* an administrator wants this one to stop: node drain */
#define WRITER_DEAD_US 5000000          /* without a beat a node is dead to the others (CLUSTER K-205) */
/* Loop thread: it keeps the store from now on, or has closed the calls of one that died.  What that one was at, as rows
 * say it, is this one's to go on with.  fn NULL: nobody does any more. */
void writer_on_inherit(struct writer *w, void (*fn)(void *arg), void *arg);
/* When the keeper began the round that it had signed last, by its clock and as this one saw it, who is not it. */
uint64_t writer_share_signed(const struct writer *w);

struct writer_job {
	const char *name;               /* static text, for log and metrics */
	/* Writer thread, in a savepoint of its own; sees arg, db, logs and nothing else.  Must append at
	 * least one record: the writer checks and fails the item with ERR_INTERNAL otherwise. */
	int (*run)(void *arg, struct db *db, struct audit_logs *logs, struct err *err);
	/* True for what no record has to vouch for (last_used_us, checkpoints): none is asked for. */
	bool volatile_only;
	/* True: run() comes after the COMMIT instead, with no transaction open, and writes no row: upkeep of the files. */
	bool between;
	/* True: it may run beyond the deadline, and is no sign then that the disk does not answer. */
	bool patient;
	/* Loop thread, after COMMIT (rc 0) or when it failed; err valid for the call.  May be NULL.  ERR_AUDIT:
	 * nothing was changed.  A job that runs is waited for beyond the deadline: only its outcome is true. */
	void (*done)(void *arg, int rc, const struct err *err);
};
int writer_submit(struct writer *w, const struct writer_job *job, void *arg) MUST_CHECK;   /* ERR_BUSY, ERR_AUDIT */

/* Why the writer has just refused something with rc, then what comes of it: "the disk is full; nothing was done". */
void writer_refused(const struct writer *w, int rc, const char *what, struct err *err);

/* Bytes of a file system that are for calls. */
uint64_t writer_space_floor(const struct writer *w);

/* Reservation before a call is admitted: room for begin and end in bytes.  ERR_AUDIT when the disk
 * has not enough; book until the end is durable. */
int writer_reserve(struct writer *w, size_t bytes) MUST_CHECK;
void writer_release(struct writer *w, size_t bytes);
/* ERR_OK, or why calls are refused now ("disk full"); for status. */
int writer_state(const struct writer *w, const char **ret_reason);
/* The same as one of a closed set, the first that holds: of a failed store, a disk that does not answer, one that is
 * full or cannot be written, a stop, writer_hold(), writer_hold_sink(), rows that are not folded, room for calls. */
enum writer_why {
	WRITER_TAKES, WRITER_FAILED, WRITER_STALLED, WRITER_FULL, WRITER_STOPS, WRITER_HELD, WRITER_SINK, WRITER_BEHIND,
	WRITER_ROOM,
	WRITER_WHYS
};
enum writer_why writer_why(const struct writer *w);
/* When a transaction came back last, of clock_mono_us(), however it went; 0: none yet.  While the store cannot be
 * written the writer tries again and again, also when nobody waits. */
uint64_t writer_turned_us(const struct writer *w);
const char *writer_why_name(enum writer_why why);       /* a word, as a label of metrics; any thread */

/* Room on the disk of the store, as it was looked at last: enough, less than space_warn, less than space_floor. */
enum writer_room { WRITER_ROOM_ENOUGH, WRITER_ROOM_LOW, WRITER_ROOM_NONE };
enum writer_room writer_room(const struct writer *w);

/* Refuse calls for this reason (static text), or go on (NULL); jobs and other records are still taken. */
void writer_hold(struct writer *w, const char *reason);
/* The same for who carries copies outside, whose reason is a text that stays until the next one. */
void writer_hold_sink(struct writer *w, const char *reason);
/* The wall clock is kept right, or not, or nobody knows: records say so from the next transaction on.  When the
 * writer was opened it was as the kernel said then. */
void writer_clock(struct writer *w, enum clock_sync sync);
/* Records have become durable; called once for what finished together.  What jobs with volatile_only append is not
 * told. */
void writer_on_records(struct writer *w, void (*fn)(void *arg), void *arg);

/* --- a store that becomes another process's while calls of ours run (OP-903): relay.c */

/* As writer_close(), but that the writer stays: what it is given from here on leaves through say(), a record as bytes
 * with a number, and is done when writer_relayed() says so.  What begins a call, changes rows or is a job is refused:
 * the other process does that.  say() returns false: it did not leave. */
struct writer_relay {
	bool (*say)(void *arg, uint64_t number, const void *p, size_t len);
	void *arg;
};
#define WRITER_RELAY_WAITING_MAX 8192   /* records that were not answered yet; more are refused */
int writer_leave(struct writer *w, uint32_t deadline_ms, const struct writer_relay *to, struct err *err) MUST_CHECK;
void writer_relayed(struct writer *w, uint64_t number, int rc, const struct audit_receipt *receipt);
void writer_relay_broken(struct writer *w);     /* nobody answers any more: ERR_AUDIT, for what waits and what comes */
size_t writer_relay_waiting(const struct writer *w);
/* The other side: as writer_audit(), of such bytes.  ERR_INVALID: they are none that this program knows. */
#define WRITER_RELAY_BYTES_MAX (32u << 20)
int writer_audit_relayed(struct writer *w, const void *p, size_t len, writer_audit_fn *done, void *arg) MUST_CHECK;
/* What another process ran on with has no end there any more: call.recovered for each that is open.  Loop thread. */
int writer_recover(struct writer *w, const struct audit_calls *calls) MUST_CHECK;

/* Drains the queue, writes server.stop, checkpoints (TRUNCATE), joins; outstanding completions are called
 * before the return.  ERR_TIMEOUT when the deadline passed: a thread hangs in the kernel, end the process.
 * ERR_IO, ERR_CORRUPT: the store had failed, there is no server.stop. */
int writer_close(struct writer **w, uint32_t deadline_ms, struct err *err);

FOR_TESTS unsigned writer_rested(const struct writer *w);      /* how often; any thread */

#endif
