#ifndef REPORT_INT_H
#define REPORT_INT_H

#include "report/report.h"

/* place.c: where a list goes on (SC-003).  Of each log that has more the position below which that is, logs ascending.
 * ERR_INVALID: ask->after is none, or one of another question; else ask's since and until become those of its first
 * page, whatever they are relative to.  place: free() it. */
struct report_place { int64_t log, below; };
struct report_cursor { struct report_place *place; size_t n; };
int report_cursor_read(struct db *db, struct report_ask *ask, struct report_cursor *ret, struct err *err) MUST_CHECK;
/* free() *ret; NULL when there are too many logs. */
int report_cursor_text(struct db *db, const struct report_ask *ask, const struct report_place *place, size_t n,
		       char **ret, struct err *err) MUST_CHECK;

/* rows.c: of the parameters that statements have (sql/queries/report.sql), those of this one: the question's, and which
 * part of which log, from position low to below. */
void report_bind(struct db_stmt *st, const struct report_ask *ask, int64_t log, int64_t low, int64_t below,
		 int64_t rows);

/* look.c: a place in a log; the record that a statement finds at one, or beside it: 1; 0: there is none. */
struct report_record { int64_t idx, id, ts; };
int report_record_at(struct db *db, enum sql_id id, int64_t log, int64_t idx, struct report_record *ret,
		     struct err *err) MUST_CHECK;
/* What is kept from one look to the next; free(steps) in the end. */
struct report_look { const struct report_ask *ask; struct report_steps *steps; };
/* Whether a part of a log may have a row that the question chooses, by what says so beside the records (SC-206): 1, or
 * 0 when there is none; *ret_newest: where the newest one is, or -1, when nobody knows. */
int report_look(struct report_look *l, struct db *db, int64_t log, int64_t low, int64_t below, int64_t *ret_newest,
		struct err *err) MUST_CHECK;
/* Positions of a part that is read record by record; *ret_first: of the one that is looked at first, more when several
 * ids are wanted and sums know where they meet (SC-206). */
int64_t report_part(const struct report_ask *ask, const struct db *db, int64_t *ret_first);
int report_may_have(struct db *db, const struct report_ask *ask, int64_t log, int64_t low, int64_t below,
		    struct err *err) MUST_CHECK;
#define REPORT_LOOK 1024                /* positions of a part that is read when not all records are wanted */

/* head.c: the line {"header":{...},"columns":[...]}; the columns from a statement, without those that begin with _ or
 * were not asked for, or by name. */
int report_head(struct reply *o, struct db *db, const struct report_ask *ask, struct db_stmt *columns,
		    const char *const *names, struct err *err) MUST_CHECK;
/* Those that begin with _ are ours.  A statement that groups has all columns that one may group by: those that were not
 * asked for are no part of the answer. */
bool report_is_asked(const struct report_ask *ask, const char *column);
/* Of the row that the statement stands at: the columns that report_head() named, as members. */
void report_columns(struct reply *o, const struct report_ask *ask, struct db_stmt *st);
/* The newest verification, of the whole store or of the log alone, that the records which the log key signed tell of.
 * us 0: there is none.  result: "INTACT", "INCOMPLETE", "DAMAGED", or why there is none. */
struct report_verified { uint64_t us; const char *result; };
int report_verified(struct db *db, const struct report_ask *ask, int64_t log, struct report_verified *ret,
		    struct err *err) MUST_CHECK;
/* The next log behind *log, 0 = there is none; *ret_tenant may be NULL.  Blocks that have come are seen then. */
int report_next_log(struct db *db, int64_t *log, int64_t *ret_tenant, struct err *err) MUST_CHECK;

/* The span of time that is asked, as statements have it. */
static inline int64_t report_since(const struct report_ask *ask)
{
	return ask->since_us < INT64_MAX ? (int64_t)ask->since_us : INT64_MAX;
}
static inline int64_t report_until(const struct report_ask *ask)
{
	return ask->until_us && ask->until_us < INT64_MAX ? (int64_t)ask->until_us : INT64_MAX;
}

/* As report_span(), but by position: where the clock was set back these are others.  Of a store with blocks, whose
 * times say it. */
int report_edges(struct db *db, int64_t log, int64_t since, int64_t until, int64_t *ret_first, int64_t *ret_last,
		 struct err *err) MUST_CHECK;

/* texts.c: rows of statements that hand over records (row_out()), with the columns that are listed there, then more. */
struct report_column { const char *name; uint8_t how, at, begin; uint16_t more; };      /* ended by name NULL */
extern const struct report_column report_calls_columns[], report_tail_columns[], report_export_columns[];
struct report_texts;
/* sparse: what has no value is left out, but for the first column, which always has one. */
struct report_texts *report_texts_new(struct db *db, const struct report_column *columns, const char *const *more,
				      bool sparse);
void report_texts_free(struct report_texts **t);
const char *const *report_texts_names(const struct report_texts *t);
/* What comes is of another transaction, or log. */
void report_texts_page(struct report_texts *t, int64_t log, int64_t tenant_id);
/* Of the row that the statement stands at; kind and outcome -1: there is none. */
void report_texts_basics(struct db_stmt *st, int64_t *ret_ts, int *ret_kind, int *ret_outcome);
/* The members of a row. */
int report_texts_row(struct report_texts *t, struct db_stmt *st, struct reply *o, struct err *err) MUST_CHECK;

/* Bodies of reports[]; those of samples are sample.c. */
int report_tool_health(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err) MUST_CHECK;
int report_stats(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err) MUST_CHECK;
int report_export_check(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err) MUST_CHECK;
int report_segments(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err) MUST_CHECK;
int report_sample(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err) MUST_CHECK;
int report_sample_hash(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err) MUST_CHECK;

#endif
