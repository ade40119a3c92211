#ifndef FORMS_FORMS_H
#define FORMS_FORMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/crypto.h"
#include "base/err.h"
#include "block/block.h"
#include "db/db.h"

struct str;

/* Records in all their forms as one table (SCALE SC-101, SC-102).  A record counts in a sealed file when it is below
 * the end of its log's last one, else in a block when it is below the end of its log's newest block, else as a row;
 * what is below these lines beside them is a leftover, and is not there.
 *
 * A connection that reads sees tables "rec" and "pay" with the columns that the file's tables have, and views over
 * them: statements are what they were.  Of a record in a block, id is a number below 0 that says its place, ascending
 * with it, and leaf is computed, when somebody asks.  A block that cannot be read, that meets another one or leaves a
 * gap behind it ends a statement with ERR_CORRUPT, which names log and block: never with fewer rows.  What stands
 * beside the columns of a block (times, zone) is believed: the verifier counts it anew. */

#define FORMS_FOLDER "segments"         /* of the store: in it sealed files, in a folder for each log, by its number */
#define FORMS_FILE_END ".tcs"
enum { FORMS_MONTH_DIGITS = 6 };
/* Whether the catalog may call the file of a log so whose records begin there: "segments/2/202611-0.tcs", or in an
 * archive "/mnt/archive/2/202611-0.tcs".  No archive is called "segments", as the
 * folders of stores are.  What it calls otherwise is not opened: who writes to the store could have named any file. */
enum { FORMS_PATH_MAX = 512 };          /* of the second, whose folder is path_is_plain() */
bool forms_is_name(const char *path, int64_t log, int64_t from);
static inline bool forms_is_archived(const char *path)
{
	return *path == '/';
}
/* Where the records of a file with this name begin, "202611-0.tcs"; *ret_tmp: it was not finished, and has ".tmp"
 * behind that.  -1: it is called otherwise. */
int64_t forms_name_first(const char *name, bool *ret_tmp);
/* A sealed file goes as a whole: *cut, where one lies around it, is where that begins; *ret_next: where it ends, else
 * *cut. */
int forms_cut(struct db *db, int64_t log, int64_t *cut, int64_t *ret_next, struct err *err) MUST_CHECK;
/* Pruning, on the writer's thread.  In the transaction that moves the log's begin to a cut: the catalog has no file
 * before it any more.  keep: those in archives are not to be removed.  ERR_CONFLICT: one lies around the cut. */
int forms_prune(struct db *db, int64_t log, int64_t cut, bool keep, struct err *err) MUST_CHECK;
/* Later, in a transaction, until *ret_more says that none was left: one file whose name says that it begins before the
 * log does goes, durably, then one that was in an archive.  Links are not followed.  ERR_UNREACHABLE: it cannot be
 * removed, or its archive is not here. */
int forms_remove_pruned(struct db *db, int64_t log, bool *ret_more, struct err *err) MUST_CHECK;

/* Behind what is in ret: how many sealed files of the catalog are not here, and which; nothing, when all are.  Any
 * thread. */
int forms_away(struct db *db, struct str *ret, struct err *err) MUST_CHECK;

/* Sealed files that are not here, or cannot be opened, for who answers without them and says so (SC-002).  Each once; v
 * has the first ones. */
enum { FORMS_ABSENT_MAX = 64 };
struct forms_absent {
	struct { int64_t log, month; char name[64], why[320]; } v[FORMS_ABSENT_MAX];    /* why: "", it is not here */
	size_t n;
};

/* What records come to: tables "rollup" and "rollup_hist", over sums of chapters where they serve and records where
 * they do not, so that what a statement says never depends on the form (SC-401, SC-402).  A statement says
 *
 *	FROM rollup WHERE log = ? AND since = ? AND until = ?	since <= ts < until; these three it has to say
 *	AND "by" = ',tool,day,'		which keys differ; without it those whose columns the statement names
 *	AND of_tool = ? ...		the id that must be there, -1: any; also of_prn, of_cred, of_outcome
 *	AND kind IN (...) ...		any key: the value, or the values, that it must have
 *
 * and gets a row, or several that it has to add up, for each combination of day (since 1970, UTC), night (before 6 or
 * from 22 h), called (it has a call), and of the keys of block_sum_key by their names; NULL where it differs by
 * none.  Keys and n_req of ends are those of their begins where v_calls has it so.  n: records that are no call.begin;
 * timed, dur, dur_max, n_req, n_res, idx_min, idx_max, ts_min, ts_max: of them.
 *
 * rollup_hist: asked by log, since, until, of_tool, and "every", how much time is a slot: 0 is the first, from since
 * on; not said: all is one.  Rows with a step: how many calls that have ended (n) took how long, by slot, tool, class
 * (block_class) and step (block_step_of()).  Rows without: how many records of calls (n) there were, and the longest
 * duration (dur_max), by slot, tool, kind and outcome.  Both of one pass through the log.
 *
 * parts: asked by log, since, until, lo, hi, chapters and of_kind; positions from lo to below hi in their order, as
 * parts from first to below, each with how many records (n) of that time and kind (-1: of calls: call.end, call.denied
 * and call.recovered) it has: a block, or with chapters = 1 a chapter where one is whole.  NULL where its zone does not
 * say: of rows, all of which are one part, and at the edges of positions and times.
 *
 * meets: asked by log, since, until, lo, hi, of_tool, of_prn, of_cred, of_outcome and of_kind; positions (idx) from lo
 * to hi, the newest first, of records of that time that are no call.begin and have each of these ids, -1: any.  Sums of
 * chapters and books leave out those in which no record has all, whatever their zones have.
 *
 * Whether the store has blocks or not; outside of statements. */
int forms_see_sums(struct db *db, struct forms_absent *absent, struct err *err) MUST_CHECK;

/* 64 blocks that were put get zone and sums of all their records (SCALE D2, block/zone.h), and 16 chapters the sums of
 * a book, which begins with 4 of them and grows.  What is not enough for a chapter yet gets small ones, of 8 blocks, in
 * whose place that comes (decisions 0141, 0179).
 *
 *	a thread that reads	forms_chapter_next() -> a proposal, as long as there is one
 *	the writer		forms_chapter_put(), in a transaction
 *
 * Nothing waits for a chapter or a book: what has none is read. */
enum { FORMS_CHAPTER_BLOCKS = 64, FORMS_CHAPTER_PART = 8, FORMS_BOOK_CHAPTERS = 16, FORMS_BOOK_FEW = 4 };
/* Fewer in tests.  part, chapters, few 0: there are no small ones, no books, and none that grow. */
struct forms_chapter_sizes { unsigned blocks, part, chapters, few; };
#define FORMS_CHAPTER_SIZES { FORMS_CHAPTER_BLOCKS, FORMS_CHAPTER_PART, FORMS_BOOK_CHAPTERS, FORMS_BOOK_FEW }
struct forms_chapter { int64_t log, first, cnt; bool book; };   /* owned by who has it, any thread */
/* Of the oldest blocks of a log that are in no whole chapter, else of the oldest chapters behind its newest book.  1:
 * *ret; 0: there are fewer.  ERR_CORRUPT: one cannot be read, or does not join.  Reads up to 262,144 records, some
 * 0.2 s, in one transaction. */
int forms_chapter_next(struct db *db, int64_t log, const struct forms_chapter_sizes *sizes, struct forms_chapter **ret,
		       struct err *err) MUST_CHECK;
void forms_chapter_free(struct forms_chapter **chapter);
/* ERR_CONFLICT: another was put, or what it is of is being pruned; nothing was changed. */
int forms_chapter_put(struct db *db, const struct forms_chapter *chapter, struct err *err) MUST_CHECK;

/* Says of each book that ends behind one record and begins before another what is not so: it is of whole chapters,
 * and says what these come to, with the records that stand apart in them and their begins, which are looked up in
 * blocks, also of sealed files. The chapters are believed: who checks looks at them as well, and at blocks; of such
 * as cannot be read nothing is said. */
typedef void forms_book_bad_fn(void *arg, int64_t first, int64_t cnt, const char *what);
int forms_books_check(struct db *db, int64_t log, int64_t behind, int64_t below, forms_book_bad_fn *fn, void *arg,
		      struct err *err) MUST_CHECK;

/* Makes db, which reads, see them, unless the store has indexes of rows and no block: then nothing changes.  Cheap
 * when it is done already, or there is none, so that who keeps a connection asks before each use.  Outside of
 * statements. */
int forms_see(struct db *db, struct err *err) MUST_CHECK;
/* The same, but what is in a sealed file that cannot be opened is left out and noted.  absent: borrowed by the
 * connection; NULL: it is an error, as in forms_see(). */
int forms_see_without(struct db *db, struct forms_absent *absent, struct err *err) MUST_CHECK;
bool forms_seen(const struct db *db);
/* Where blocks and sealed files of a log end and its rows begin; INT64_MIN: it has none.  ERR_CORRUPT. */
int forms_line(struct db *db, int64_t log, int64_t *ret, struct err *err) MUST_CHECK;
/* Where its sealed files end; 0: it has none. */
int forms_sealed(struct db *db, int64_t log, int64_t *ret, struct err *err) MUST_CHECK;
/* ERR_CONFLICT: records of the log, 0: of any, are in sealed files, which are not `done` yet ("pruned"). */
int forms_unsealed(struct db *db, int64_t log, const char *done, struct err *err) MUST_CHECK;
/* The id of a record in a block. */
enum { FORMS_IDX_BITS = 40, FORMS_LOG_BITS = 22 };
static inline int64_t forms_id(int64_t log, int64_t idx)
{
	return INT64_MIN + (log << FORMS_IDX_BITS | idx);
}
/* Sealed files for who decodes their blocks himself, open beside those of db's tables: by the thread that has db. */
struct forms;
struct forms_file;
/* Borrows both; absent: as in forms_see_without(). */
struct forms *forms_new(struct db *db, struct forms_absent *absent);
void forms_free(void *forms);
/* The file that has a record, pinned until it is put: 1; 0: there is none. */
int forms_file_get(struct forms *f, int64_t log, int64_t idx, struct forms_file **ret, struct err *err) MUST_CHECK;
void forms_file_put(struct forms_file **file);
struct db *forms_file_db(const struct forms_file *file);        /* NULL: it is not here, which was noted */
/* The store's id of a text that has this one in the file: 1; 0: one of them has no such text.  A block_id_fn; arg: the
 * file. */
int forms_file_id(void *arg, uint16_t kind, int64_t id, int64_t *ret, struct err *err);
/* One that the caller has open, listed or not, for that alone; both borrowed.  Its texts stay, who has it open may trim
 * them.  name: in front of what is wrong. */
struct segment;
struct forms_file *forms_file_over(struct forms *f, struct segment *segment, const char *name);
void forms_file_drop(struct forms_file **file);
/* Puts log and block in front of what is wrong; rc. */
int forms_bad(int64_t log, int64_t first, int rc, struct err *err);
/* db_open_store(), and that. */
int forms_open_store(struct db_where at, struct db **ret, struct err *err) MUST_CHECK;

/* Rows are found by position span after span (0042_span.sql).  On the writer's thread, in its transaction: beside
 * row id its span, unless the row before (0: none) was in it; when rows have gone, the spans before the oldest that is
 * left go. */
int forms_span_put(struct db *db, int64_t before, int64_t id, struct err *err) MUST_CHECK;
int forms_spans_drop(struct db *db, struct err *err) MUST_CHECK;

/* What is kept beside at most BLOCK_PAYLOADS_MAX records in blocks, to be changed on the writer's thread, in its
 * transaction; v points into body. */
struct forms_group { int64_t first; struct audit_bytes body; struct block_payload v[BLOCK_PAYLOADS_MAX]; size_t n; };

/* The group that has the record: 1, free it; 0: nothing is kept of it, *ret NULL.  ERR_CORRUPT; errors of db. */
int forms_group_read(struct db *db, int64_t log, int64_t idx, struct forms_group **ret, struct err *err) MUST_CHECK;
void forms_group_free(struct forms_group **group);              /* takes NULL inside */
/* As its bytes, new or in the place of the one that begins there. */
int forms_group_put(struct db *db, int64_t log, int64_t first, const struct audit_bytes *body,
		    struct err *err) MUST_CHECK;
/* What is left of it, in its place; without anything left, there is none. */
int forms_group_write(struct db *db, int64_t log, const struct forms_group *group, struct err *err) MUST_CHECK;
/* What is kept lies on one side of cut or the other from now on. */
int forms_group_cut(struct db *db, int64_t log, int64_t cut, struct err *err) MUST_CHECK;

/* The tail, in the order of arrival: rows whose rec.id is no greater than this are all leftovers.  Where a log cannot
 * be folded it stays below that log's first row.  0: nobody has said so yet. */
#define FORMS_META_TAIL_FROM "tail_from"
int forms_tail_set(struct db *db, int64_t id, struct err *err) MUST_CHECK;
int forms_tail_get(struct db *db, int64_t *ret, struct err *err) MUST_CHECK;

/* How much waits to become blocks, whether there is one, and whether all that there was went into blocks once (SC-305).
 * Of a release that had no blocks, rows are counted by their numbers, with those that were pruned between others. */
struct forms_rows { int64_t waiting; bool any, once; };
int forms_count(struct db *db, struct forms_rows *ret, struct err *err) MUST_CHECK;

/* A start, in its transaction: a store whose records are in blocks, but for a tail, loses the indexes that find rows by
 * time, call, principal, key, tool, outcome and kind: who reads sees forms, which walk the tail by position, and each
 * record dirtied a page of each (SCALE D1).  *ret_made: they went now. */
enum {
	FORMS_LEAN_ROWS_MAX = 3 << 19,  /* rows of a store whose indexes are dropped in one transaction: plain_rows, a tail */
	FORMS_LEAN_TAIL_MAX = 1 << 17,  /* of these, rows that are in no block: what is asked of them reads all of a log */
};
int forms_make_lean(struct db *db, bool *ret_made, struct err *err) MUST_CHECK;

/* Rows of one transaction, each with its payload, that are inserted together (decision 0173).  The writer's thread. */
struct forms_batch;
struct forms_batch *forms_batch_new(void);        /* free() */
void forms_batch_drop(struct forms_batch *rows);  /* what waits is forgotten */
/* Copied.  False: there is no room for it, with so many bytes of payload. */
bool forms_batch_add(struct forms_batch *rows, const struct audit_row *r, const uint8_t leaf[TREE_HASH],
		    size_t payload) MUST_CHECK;
/* All that waits.  last: the number that the last of them gets; ERR_INTERNAL when it gets another. */
int forms_batch_insert(struct forms_batch *rows, struct db *db, int64_t last, struct err *err) MUST_CHECK;
/* ret_id: or NULL. */
int forms_row_insert(struct db *db, const struct audit_row *r, const uint8_t leaf[TREE_HASH], int64_t *ret_id,
		     struct err *err) MUST_CHECK;
/* What is kept of row rec, which was the last: it waits if that does.  kept: not the salt alone. */
struct forms_payload { int64_t rec; bool kept; struct digest_part salt, nonce, ct; };
int forms_payload_put(struct forms_batch *rows, struct db *db, const struct forms_payload *p,
		      struct err *err) MUST_CHECK;

#endif
