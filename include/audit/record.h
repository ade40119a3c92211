#ifndef AUDIT_RECORD_H
#define AUDIT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/row.h"
#include "base/err.h"
#include "tlog/tree.h"

struct db;

/* Reading records, page by page in the order of a log, by any connection.  The reader trusts nothing: storage
 * classes, ids and the stored leaf are checked, and what is wrong with a record is a set of findings beside it, so
 * that the walk goes on. */

/* What is wrong with a record by itself; names as in AUDIT 8. */
#define AUDIT_FOUND_TYPE (1u << 0)
#define AUDIT_FOUND_DICT (1u << 1)
#define AUDIT_FOUND_ENCODING (1u << 2)
#define AUDIT_FOUND_LEAF (1u << 3)

struct audit_page {
	int64_t log, from, to;          /* indexes from <= idx < to; from moves on */
	const char *origin;
	int64_t rows;                   /* the reader's own: of this page */
	bool begun;
};
struct audit_read {
	struct audit_row row;           /* borrows from the reader until the next record */
	int64_t idx;
	uint8_t leaf[TREE_HASH];        /* computed from the columns */
	unsigned findings;
};
struct audit_reader;
struct audit_reader *audit_reader_new(struct db *db);
void audit_reader_free(struct audit_reader **r);
/* 1 and the next record by index; 0: no more; or an error of the database. */
int audit_reader_next(struct audit_reader *r, struct audit_page *page, struct audit_read *ret,
		      struct err *err) MUST_CHECK;

/* The bytes that are hashed, made anew from the columns, and the leaf that they give.  Positions from <=
 * idx < to; origin is borrowed.  1 = a record, 0 = the end; its bytes stay until the next. */
struct audit_record { int64_t idx; int enc; const uint8_t *bytes; size_t len; uint8_t leaf[32]; };
struct audit_walk;
struct audit_walk *audit_walk_new(struct db *db, int64_t log, const char *origin, int64_t from, int64_t to);
int audit_walk_next(struct audit_walk *w, struct audit_record *ret, struct err *err) MUST_CHECK;
void audit_walk_free(struct audit_walk **w);

#endif
