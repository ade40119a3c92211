#ifndef SINK_SINK_H
#define SINK_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/metric.h"

/* Copies of records carried outside (OP-301 to OP-320).  What is durable is read, a part of a log after another, and
 * handed to each sink of the configuration; no queue is kept: the log is the queue, and a sink that is away costs
 * nothing but its position.  That is kept for each sink and log in the store, moves on what the sink's type calls
 * acknowledged and on nothing earlier, and is written at most once in SINK_TICK_MS.  So a death repeats what was sent
 * since, unless the type knows better: a file is cut back to what its position says, and has each record exactly
 * once.
 *
 * A sink never delays a call: records are read and files are written on a lane of their own, in parts, for a share of
 * one processor that is the environment's to say.  But for one that is required (OP-316): when what waits for it is
 * older than it says, calls are refused until it is not (writer_hold_sink()).  A server that starts takes calls until
 * it has seen that.  Loop thread. */

#define SINK_TICK_MS 1000               /* between two writings of positions; a copy is so late when all is well */
#define SINK_PART_ROWS 500              /* of a batch, and of a read transaction (OP-007) */
#define SINK_PART_BYTES (512u << 10)    /* a batch ends behind the record that reaches this */
#define SINK_RETRY_FIRST_MS 1000        /* doubled each time, and a fifth more or less by chance (OP-305) */
#define SINK_RETRY_MOST_MS 60000
#define SINK_TELL_MS 60000              /* between two records of one sink that say how it is (OP-309) */
#define SINK_UNWANTED_MOST 16           /* records in a row that a receiver may not want */
#define SINK_REJECTED_MAX 1000          /* refusals of a sink that wait to be settled; then it gets nothing more */
#define SINK_SYSLOG_MAX 8192            /* bytes of a message of syslog (RFC 5425 4.3.1) */
#define SINK_REST_MS 2000               /* until a log is looked at again whose records no checkpoint covers yet */
#define SINK_STOP_MS 5000               /* for what is under way, when the server stops */

struct conf;
struct ev_loop;
struct fetcher;
struct sinks;
struct str;
struct writer;

/* Whether what the list sinks names is there: kinds of records, directories of files.  store: its folder, in which no
 * sink writes; NULL: not known yet.  ERR_INVALID, ERR_DENIED; where = "sinks". */
int sinks_check(const struct conf *conf, const char *store, struct err *err) MUST_CHECK;

struct sinks_env {                      /* copied; what it names is borrowed for life */
	struct ev_loop *loop;
	struct writer *writer;
	struct fetcher *fetcher;
	const struct conf *conf;        /* its list of sinks, which stays as it is */
	const char *store;              /* its folder */
	/* How many percent of one processor reading may have now: 100 = all of it, 0 = nothing. */
	unsigned (*share)(void *arg);
	/* The signed checkpoint of the system log's first `size` records is in a bucket (OP-353); receipt: what that said. */
	void (*anchored)(void *arg, uint64_t size, const struct str *note, const char *receipt);
	void *arg;
};
/* Reads where each sink is, and begins.  ERR_CORRUPT and those of db. */
int sinks_open(const struct sinks_env *env, struct sinks **ret, struct err *err) MUST_CHECK;
/* What is under way ends, in SINK_STOP_MS at most, and positions are written; before the writer closes. */
void sinks_close(struct sinks **s);

enum sink_state {
	SINK_UP,                        /* it takes what there is */
	SINK_RETRIES,                   /* it did not take the last batch, which is sent again */
	SINK_REFUSED,                   /* likewise, and will not before a person has mended something */
	SINK_PAUSED,                    /* an administrator said so */
	SINK_STOPPED,                   /* nothing is sent until a person has looked */
	SINK_STATES
};
const char *sink_state_name(enum sink_state state);
struct sink_view {
	const char *name, *type;
	enum sink_state state;
	const char *why;                /* the last failure, while it lasts; "" = none */
	uint64_t behind;                /* records that wait for it */
	uint64_t behind_s;              /* how old the oldest of them may be */
	uint64_t required_s;            /* calls are refused when that is more; 0: never */
	bool late;                      /* and it is */
	uint64_t retry_s;               /* when it is tried again; 0: now */
	/* Since the server started; pruned: gone before they were sent; cut: sent without their text; refused: sent, and not
	 * wanted. */
	uint64_t sent, pruned, cut, refused, batches, failures;
	size_t rejected;                /* rows of sinks_rejected() */
	bool clear;                     /* it gets names */
};
typedef void sink_view_fn(void *arg, const struct sink_view *v);
void sinks_each(const struct sinks *s, sink_view_fn *fn, void *arg);
/* For people, one behind the other: "siem: up; lake: retries, 12345 records behind: disk full". */
void sinks_describe(const struct sinks *s, struct str *ret);
/* Families of metrics, with the name of a sink as their label (OP-320). */
void sinks_expose(const struct sinks *s, enum metric_format format, struct str *ret);

/* ERR_NOT_FOUND: there is no such sink.  Until the next start.  One that goes on does so at once, also where it waits
 * to try again. */
int sinks_pause(struct sinks *s, const char *name, bool pause, struct err *err) MUST_CHECK;
/* It goes on at record `to` of the log with this origin, NULL: of all; below 0: behind the last one.  ERR_NOT_FOUND:
 * there is no such sink, or log; ERR_INVALID: the log has not so many; ERR_BUSY: a batch is under way, try again. */
int sinks_seek(struct sinks *s, const char *name, const char *log, int64_t to, struct err *err) MUST_CHECK;

/* What it did not want and nobody has settled, as it came: so many records of from <= index < to, borrowed for the
 * call.  ERR_NOT_FOUND. */
struct sink_rejected { const char *log; int64_t from, to, records; uint64_t at_us; const char *why; };
typedef void sink_rejected_fn(void *arg, const struct sink_rejected *r);
int sinks_rejected(struct sinks *s, const char *name, sink_rejected_fn *fn, void *arg, struct err *err) MUST_CHECK;
/* Somebody has looked: none of it is in the list any more, *ret_n were.  ERR_NOT_FOUND. */
int sinks_settle(struct sinks *s, const char *name, size_t *ret_n, struct err *err) MUST_CHECK;

#endif
