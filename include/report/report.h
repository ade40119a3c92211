#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/crypto.h"
#include "base/err.h"
#include "db/db.h"
#include "json/reply.h"

/* Reports are statements (sql/queries/report.sql) with a header in front (AUDIT 12).  What a report is stands in a row
 * of reports[] (table.c); who may ask for it and how, in the command table (review).  Nothing here knows a command: it
 * reads a store, and says rows. */

enum report_scope {
	SCOPE_REPORT,           /* of a way: as its report says */
	SCOPE_TENANT,           /* a tenant's log, which must be named */
	SCOPE_EITHER,           /* a tenant's, or the system's when none is named */
	SCOPE_ALL,              /* a tenant's, or every log one after another */
	SCOPE_TENANTS,          /* likewise, without the system log */
	SCOPE_SYSTEM,
	SCOPE_KEY,              /* the log of the tenant of the key that is named */
};

struct report_ask;
struct report_out;
struct report_column;
#define REPORT_KINDS 5
struct report_way {
	const char *option;             /* the flag or option that asks for this one; NULL: none needed */
	const char *method;             /* what --method has to be for it; NULL: anything */
	enum sql_id sql;
	enum sql_id forms;              /* of a store with blocks, where rows have an index and sums are less work; or 0 */
	bool paged;                     /* gives _ts and _idx, and is asked again from there */
	bool walked;                    /* takes a part of a log, from which position to which, and tests row by row */
	bool must_be_empty;             /* rows are findings: exit status 4 (AUDIT A-1103) */
	enum report_scope scope;
	const char *not_evidence;       /* columns that nothing vouches for (contrib/doc/vouched.tsv); or NULL */
	bool sums;                      /* rows are counts, and those of several logs are added up */
	bool counted;                   /* by sums of chapters: the header says how many have none (SC-407) */
	int kind[REPORT_KINDS], outcome;        /* walked: its rows have one of these kinds, this outcome; 0: any */
	bool either;                    /* one of the kinds or the outcome, and not both */
	bool own;                       /* its rows are records that have all that is asked themselves */
	const struct report_column *columns;    /* texts.c makes its rows of what the statement hands over; or NULL */
	bool chosen;                    /* its header says which records were chosen, if not all were */
	bool drawn;                     /* a sample: what limits its rows is how many were asked for */
	/* What answers when it is more than the statement's rows; or NULL. */
	int (*body)(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err);
};
#define REPORT_WAYS 4
struct report {
	const char *noun, *verb;
	enum report_scope scope;
	struct report_way way[REPORT_WAYS];   /* the last one needs nothing */
	const char *text;               /* the option or word whose text is parameter 11, or NULL */
	const char *text_in;            /* what it may be: " rule tool "; NULL: anything */
	bool text_list;                 /* several of them, with commas */
	bool room;                      /* the header says how full the disk is */
	const char *reads;              /* tables beside those that all reports read: " cred tool_grant "; or NULL */
};
/* As db_may_fn, of a struct report: may its statements read this (SCALE SC-504)? */
bool report_may_read(const void *report, const char *table, const char *column);
const struct report *report_find(const char *noun, const char *verb);

/* What is asked for, copied from the arguments on the loop. */
struct report_ask {
	const struct report *report;
	const struct report_way *way;
	char *line;                     /* the command, as its record has it */
	uint8_t question[DIGEST_SIZE];  /* of what was given, but how many rows and from where on */
	char *after;                    /* the cursor that the page before ended with, or NULL */
	char *store;                    /* its directory */
	char tenant[80], tool[80], principal[64], key[32], text[512];
	uint64_t since_us, until_us;    /* from, before */
	int outcome;
	int64_t kind;                   /* tail, export: records of this kind alone; 0: of any */
	int64_t look;                   /* walked: so many records are read at most, for REPORT_LOOK_US; 0: any */
	int64_t number, limit;          /* limit 0: all; of a sample: the seed, and how many */
	int64_t to;                     /* a sample: the last position it is drawn from; -1: the newest */
	bool as_text;                   /* parameter 11 is set */
	uint64_t step_us;               /* stats: how much time a row stands for */
	bool follow;                    /* tail, export: go on with what is written from now on */
	int64_t newest;                 /* tail: so many of the records that are there; -1: all */
	int64_t rate;                   /* tail that follows: so many rows in a second at most; 0: all */
	uint64_t lag_us;                /* export-check: how long a record may wait */
	json_t *cursor;                 /* export, export-check: origin -> next index; or NULL */
	uint8_t log_key[SIGN_PUBLIC_SIZE];
	bool has_key;                   /* the logs are signed, with this key */
	/* found in the store */
	int64_t log, tenant_id;         /* log 0: all of them; tenant_id 0: the system's */
	char pseudonym[64];
	int64_t population;             /* a sample by rank: how many records it was drawn from; -1: nobody counted */
};
#define REPORT_SAMPLE_MAX 100000    /* records of one by rank */
#define REPORT_BY_RANK "rank"       /* the method of a way that names none */
#define REPORT_PAGE 1000            /* rows of one */
#define REPORT_LOOK_US 700000
#define REPORT_SLOTS_MAX 1000       /* rows of stats */

/* Where a report goes. */
struct report_out {
	struct reply *reply;
	/* Record idx of this tenant's log (0: the system's) is shown or counted; -1: the log is read. */
	void (*seen)(void *arg, int64_t tenant_id, int64_t idx);
	/* Records from <= idx < to are what rows were chosen from. */
	void (*looked)(void *arg, int64_t tenant_id, int64_t from, int64_t to);
	/* What was said so far may leave and be forgotten.  part: no statement is open, and whoever takes it may take his
	 * time; hold: one is, and it has to be kept.  NULL: all stays. */
	int (*part)(void *arg, struct err *err);
	int (*hold)(void *arg, struct err *err);
	void *arg;
	bool findings;                  /* there were rows where there must be none */
	bool more;                      /* the limit has left rows out, or it was not looked further */
	uint64_t looked_us;             /* the latter: the time of the newest record that was not looked at; else 0 */
	char *next;                     /* then: the cursor of the next page (SC-003); free() it.  NULL: it has none */
};
#define REPORT_HELD (1u << 20)      /* bytes that a statement's rows may take before they are held elsewhere */

/* The log and the pseudonym, from the store. */
int report_ask_find(struct db *db, struct report_ask *ask, struct err *err) MUST_CHECK;
void report_ask_fini(struct report_ask *ask);
static inline enum report_scope report_ask_scope(const struct report_ask *ask)
{
	return ask->way->scope ? ask->way->scope : ask->report->scope;
}
/* report_ask_find(), then the header and the rows.  Of one log paged ones come by position, the newest first; of
 * several they are merged by time, each log's in its order; sums are added up, others come log by log.  Not of tail and
 * export. */
int report_answer(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err) MUST_CHECK;

/* The first and the last record of a log by time, from since to before until: 1; 0: there is none, and *ret_first and
 * *ret_last stay. */
int report_span(struct db *db, int64_t log, int64_t since, int64_t until, int64_t *ret_first, int64_t *ret_last,
		struct err *err) MUST_CHECK;

/* Of tail and export: not all records are wanted. */
static inline bool report_is_chosen(const struct report_ask *ask)
{
	return ask->outcome >= 0 || ask->kind > 0 || *ask->tool || *ask->key || *ask->principal;
}
/* tail and export: records in the order of their logs, a part after another, each one read transaction (AUDIT A-623,
 * A-1010).  ask is borrowed. */
struct report_feed;
enum report_more { REPORT_NO_MORE, REPORT_MORE_NOW, REPORT_MORE_LATER };
struct report_feed *report_feed_new(struct report_ask *ask);
int report_feed_part(struct report_feed *feed, struct report_out *out, struct db *db, enum report_more *ret,
		     struct err *err) MUST_CHECK;
void report_feed_free(struct report_feed **feed);

#endif
