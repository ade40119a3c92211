#ifndef SINK_INT_H
#define SINK_INT_H

#include "base/map.h"
#include "base/text.h"
#include "conf/conf.h"
#include "report/carry.h"
#include "sink/sink.h"

/* What the files of this room share: sink.c says what happens when, read.c makes batches, save.c keeps positions, and
 * each type has a file, which delivers. */

struct db;
struct ev_timer;
struct hook_answer;
struct sink;
struct utsname;

/* Records of one log, which are sent together and taken together. */
struct sink_batch {
	struct str body;                /* lines */
	size_t n;                       /* records in it */
	char uid[REPORT_UID_SIZE];      /* of the first of them */
	int64_t ts_us;                  /* likewise */
	size_t log;                     /* place in struct sinks */
	int64_t from, to;               /* positions that it is made of */
	uint64_t pruned;                /* records of these that are gone */
	uint64_t cut;                   /* records of these that were too long for the type */
	size_t end[SINK_PART_ROWS];     /* where each record ends in body */
	int64_t idx[SINK_PART_ROWS];    /* its position */
	size_t done, part;              /* of a type that sends less at once: records that are settled; under way, 0 = none */
};

/* How batches of a type are delivered.  Loop thread. */
struct sink_type {
	/* Is what the configuration names there?  NULL: there is nothing to look at. */
	int (*check)(const struct conf_sink *conf, struct err *err);
	int (*open)(struct sink *s, struct err *err);   /* sets s->own */
	/* Ends with taken(), failed() or not_yet(), not before it has returned.  The batch stays until then. */
	void (*send)(struct sink *s, const struct sink_batch *b);
	void (*close)(struct sink *s);  /* nothing is under way */
	/* On the reading lane: a record as the type sends it, behind what is in body.  line: of the sink's format, without
	 * an end.  NULL: that line. */
	int (*put)(struct sink *s, struct str *body, const struct report_carried *r, const char *line, size_t len,
		   struct err *err);
	/* NULL: as soon as there is a record.  May the log at this place have a batch now? */
	bool (*ready)(const struct sink *s, size_t at);
	/* On the reading lane, instead of put(): of->from <= idx < of->to are there; a batch of the first of them, from
	 * batch.from on, or none, when to is from: then it rests. */
	int (*make)(struct sink *s, struct db *db, struct report_carrier *carrier, struct report_carry *of, struct err *err);
};
extern const struct sink_type sink_file, sink_webhook, sink_syslog, sink_hec, sink_otlp, sink_s3;

#define SINK_MEND UINT64_MAX            /* see failed() */

/* What a file sink keeps in the store beside its positions. */
struct sink_file_at { int64_t inode, bytes, number; };

/* What was sent in the last for_us and may have to go again, by logs; for_us 0: nothing has. */
#define SINK_MARKS 9                    /* of a log; each stands for an eighth of the time */
struct sink_marks {
	unsigned n;
	struct { int64_t from; uint64_t first_us, last_us; } v[SINK_MARKS];     /* the oldest first */
};
struct sink_resend { uint64_t for_us; struct sink_marks *log; size_t nlogs; };

/* refused.c: records that a sink did not want, until somebody settles it. */
struct sink_refusal {
	int64_t log, from, to, records; /* so many of from <= idx < to */
	uint64_t at_us;                 /* wall clock */
	char *why;
};
struct sink_refusals {
	struct sink_refusal *v; size_t n;
	size_t written;                 /* of these, in the store; the others come behind them */
	bool anew;                      /* the store has others: all are to be written */
};

enum sink_wanted { SINK_UNASKED, SINK_UNWANTED, SINK_WANTED };
struct sink_place {
	int64_t next, goal;
	uint64_t taken_us, rest_us;     /* of a type that waits: the last batch; nothing before this */
	bool dirty; uint8_t wanted;
};
#define SINK_KIND_CODES 2560            /* records of kinds beyond are sent to all */
struct sink {
	struct sinks *all;
	const struct conf_sink *conf;
	const struct sink_type *type;
	void *own;                      /* the type's */
	struct sink_resend resend;      /* where what was taken may go again */
	uint8_t *kinds;                 /* a bit for each kind that it wants; NULL: all */
	struct sink_place *place;       /* as many as there are logs */
	size_t turn;                    /* the log that is looked at next */
	struct sink_batch batch;
	bool full, busy;                /* there is a batch; it is under way */
	bool mend;                      /* what failed is for a person to mend */
	bool waits;                     /* for what it has put into file to be durable */
	bool paused, stopped;
	bool known, placed;             /* the store had its name, and a position */
	char *text;                     /* what the configuration said of it then; "": nothing */
	unsigned failures;              /* in a row */
	char why[256];                  /* of the last one; "" = the last batch was taken */
	struct ev_timer *retry;
	uint64_t retry_us;              /* when it ends; monotonic */
	uint64_t has_us, goal_us;       /* it has all that was durable then, monotonic; will have, when at all goals */
	uint64_t told_us;               /* when a record said how it is; 0: never */
	bool told_down;                 /* and that was: it is away */
	uint64_t sent, pruned, cut, refused, batches, failed;
	struct sink_refusals refusals;
	uint64_t refused_told, refused_us;      /* of these, when a record said so; monotonic */
	char refused_why[160];          /* the last of them */
	struct str refused_at;          /* places of those that no record has named yet */
	struct sink_file_at file, file_stored;  /* as it is, as the store has it */
	bool file_dirty;
};

struct sink_log { int64_t id, tenant_id, size; char *origin, *tenant; };
struct sinks {
	struct sinks_env env;
	const struct sink_ends *on;
	struct sink *v; size_t n;
	struct sink_log *log; size_t nlogs;     /* by id */
	struct ev_timer *tick, *pace;
	struct sink_save *saving;       /* the writer has it; NULL: nothing */
	bool save_soon;                 /* somebody waits for positions to be durable */
	char **gone; size_t ngone;      /* sinks that the configuration had and has not */
	bool sized;                     /* how long logs are is known */
	uint64_t sized_us;              /* what was durable then is in these sizes; monotonic */
	char held[CONF_SINK_NAME_MAX + 48];     /* why calls are refused, of a sink that is required; "" = they are not */
	uint64_t recorded;              /* records of this process, when sizes were last asked for */
	struct sink_reading *reading;   /* the lane has it; NULL: nothing */
	const struct sink *reading_of;
	size_t turn;
	struct db *db;                  /* the reading lane's */
	struct report_carrier *carrier[2];      /* the same; without names, with names */
	uint64_t paced_us;              /* nothing is read before this */
	unsigned lanes;                 /* jobs of types that are on the lane */
	unsigned naming;                /* jobs of sinks_put_names() */
	bool closing, idle;
};

/* sink.c: what becomes of what the others have begun. */
struct sink_ends {
	void (*read)(struct sink *s, int rc, const struct err *err);    /* s->batch is there */
	void (*saved)(struct sinks *a, bool well);
	void (*taken)(struct sink *s);
	/* why: as a person reads it.  The same batch is sent again, after so long; 0: as is usual; SINK_MEND: seldom, as a
	 * person has to mend something. */
	void (*failed)(struct sink *s, const char *why, uint64_t after_us);
	/* The type needs what it has put into s->file to be durable first; then the batch is sent again. */
	void (*not_yet)(struct sink *s);
	/* All that s->resend has goes again, and what is under way is of another place then; failed() or go() follows.  Was
	 * there any? */
	bool (*again)(struct sink *s);
	/* So many records of the batch are not wanted, and are given up; the batch goes on.  idx: which, -1 = nobody knows.
	 * Not when s->refusals is full. */
	void (*refused)(struct sink *s, uint64_t n, int64_t idx, const char *why);
	void (*settle)(struct sinks *a);        /* ends the waiting of sinks_close() when nothing is under way */
	void (*go)(struct sinks *a);            /* whatever can begin */
};

/* read.c */
bool sink_read(struct sink *s, size_t log);     /* begins, when the lane takes it; ends with read() */

/* The text of a member of r's object, as it is written there; NULL: it has none, or is no text. */
const char *sink_member(const struct report_carried *r, const char *name, size_t *ret_len);
enum sink_severity { SINK_INFO, SINK_WARNING, SINK_ERROR };
enum sink_severity sink_severity(const struct report_carried *r);
const char *sink_host(struct utsname *room);    /* this machine's name; "-": it has none that can be said */

/* http.c: types that send parts of a batch by POST. */
struct sink_post {
	/* A request of its own for the part [p, p + len); NULL: that part. */
	void (*body)(const char *p, size_t len, struct str *ret);
	const char *content;            /* its type */
	const char *path, *scheme;      /* behind the URL, in front of the secret (net/hook.h); NULL: nothing */
	bool is_signed;
	bool (*mend)(const struct hook_answer *a);      /* is a 400 about all requests?  NULL: it is about its records */
	/* What a 2xx says; NULL: it takes the part.  It calls sink_http_settled() or failed(), now or later. */
	void (*look)(struct sink *s, const struct hook_answer *a);
};
struct sink_http;
int sink_http_check(const struct conf_sink *conf, const struct sink_post *post, struct err *err) MUST_CHECK;
/* header: one more, borrowed for life; NULL: none.  It is s->own, or that has it. */
int sink_http_open(struct sink *s, const struct sink_post *post, const char *header, const char *value,
		   struct sink_http **ret, struct err *err) MUST_CHECK;
void sink_http_send(struct sink_http *h);       /* what is next of the sink's batch */
void sink_http_settled(struct sink_http *h);    /* what was under way is with the receiver */
void sink_http_close(struct sink_http **h);

/* refused.c.  Rows are copied. */
void sink_refusals_fini(struct sink_refusals *l);
void sink_refusals_add(struct sink_refusals *l, const struct sink_refusal *row);
/* From that record on; log 0: of all. */
void sink_refusals_forget(struct sink_refusals *l, int64_t log, int64_t from);
int sink_refusals_load(struct sink_refusals *l, struct db *db, const char *sink, struct err *err) MUST_CHECK;
bool sink_refusals_take(struct sink_refusals *l, struct sink_refusals *ret);    /* what is to be written: any? */
void sink_refusals_keep(struct sink_refusals *l);       /* what was taken was not written */
/* Writer thread, of what was taken. */
int sink_refusals_write(const struct sink_refusals *l, struct db *db, const char *sink, struct err *err) MUST_CHECK;

/* save.c */
int sinks_load(struct sinks *a, struct err *err) MUST_CHECK;
/* err with the sink's name in front; returns its code. */
int sink_fault(const struct conf_sink *conf, struct err *err);
/* What the configuration says of each.  ERR_BUSY, ERR_AUDIT: it will be done at the next start. */
int sinks_put_names(struct sinks *a) MUST_CHECK;
/* From where a log goes again when a connection breaks. */
void sink_resend_add(struct sink_resend *r, size_t log, int64_t from);          /* what was sent now begins there */
FOR_TESTS bool sink_resend_expire(struct sink_resend *r, size_t log);     /* forgets what is older; was there any? */
/* next: nothing is to go again. */
int64_t sink_resend_from(const struct sink_resend *r, size_t log, int64_t next);
void sink_resend_forget(struct sink_resend *r, size_t log);
void sinks_save(struct sinks *a);       /* positions that have moved; and learn how long logs are */

#endif
