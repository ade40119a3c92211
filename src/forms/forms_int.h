#ifndef FORMS_FORMS_INT_H
#define FORMS_FORMS_INT_H

#include "block/block.h"
#include "block/zone.h"
#include "db/db.h"
#include "db/vtab.h"
#include "forms/forms.h"

/* Inside of src/forms: blocks and sealed files that are open, for the cursors of one connection. */

enum { FORMS_ID, FORMS_ENC, FORMS_LEAF, FORMS_FIRST };  /* columns of rec: then those of audit_columns[] */

/* The place that an id of a record in a block says. */
static inline void forms_place(int64_t id, int64_t *ret_log, int64_t *ret_idx)
{
	const uint64_t at = (uint64_t)id - (uint64_t)INT64_MIN;

	*ret_log = (int64_t)(at >> FORMS_IDX_BITS);
	*ret_idx = (int64_t)(at & ((UINT64_C(1) << FORMS_IDX_BITS) - 1));
}

enum { FORMS_KEPT = 4 };                /* blocks; a cursor has its own beyond them */
enum { FORMS_FILES = 32 };              /* sealed files; a report has this twice (SC-108) */

/* One for each connection. */
struct forms {
	struct db *db;
	struct forms_slot *kept[FORMS_KEPT];
	unsigned loose;                 /* blocks that cursors have beside them */
	uint64_t clock;
	struct map *texts;              /* by id, for leaves */
	struct block_zones *zones;      /* room for those of one block; made when first used */
	struct forms_file *file[FORMS_FILES];
	struct forms_absent *absent;    /* NULL: a file that is not here is an error */
};
extern const struct db_vtab forms_pay, forms_parts, forms_meets;

/* --- files.c */

struct forms_file *forms_file_pin(struct forms_file *file);     /* once more; NULL: nothing */
bool forms_file_stale(const struct forms_file *file);   /* another one has its place by now; NULL: it has not */
int forms_file_bad(const struct forms_file *file, int rc, struct err *err);     /* puts its name in front; rc */
/* A zone of one of its blocks; NULL: of the store. */
int forms_file_zones(struct forms_file *file, struct block_zones *zones, struct err *err) MUST_CHECK;
void forms_files_free(struct forms *f);

enum { WALK_ZONE = 5 };                 /* of forms_blocks_up */
/* Blocks of a log in order, from whatever file; all zero: at its end. */
struct forms_walk {
	struct forms *f;
	int64_t log, sealed;
	bool backwards;
	int64_t lo, hi;                 /* positions that are still to be asked for */
	struct db_stmt *st;             /* at a block, as forms_blocks_up gives it */
	struct db_stmt *bytes;          /* of that block, once they were asked for */
	struct forms_file *file;        /* that has it; NULL: the store */
	int64_t jumped;                 /* a file was left out, since it is not here: where the next block joins; -1: none */
};
void forms_walk_begin(struct forms_walk *w, struct forms *f, int64_t log, int64_t sealed, bool backwards);
void forms_walk_over(struct forms_walk *w, int64_t lo, int64_t hi);     /* blocks from the one that has lo on */
bool forms_walk_has(const struct forms_walk *w);
int forms_walk_step(struct forms_walk *w, struct err *err) MUST_CHECK;  /* 1: the next block; 0: that was all */
/* cols of the block that it is at; borrowed until the next step. */
int forms_walk_bytes(struct forms_walk *w, struct block *b, struct err *err) MUST_CHECK;
void forms_walk_end(struct forms_walk *w);

/* A block, decoded as far as somebody asked. */
struct forms_slot;
/* The block of a row of blk, of a file (NULL: the store), whose cols are copied unless it is there already; its hash is
 * read when a value needs it, in the transaction of who has it pinned, until it is put.  columns: which a statement may
 * ask for, so that they are inflated together.  ERR_LIMIT: it has no ids. */
int forms_slot_get(struct forms *f, int64_t log, struct forms_file *file, const struct block *b, uint64_t columns,
		   struct forms_slot **ret, struct err *err) MUST_CHECK;
void forms_slot_put(struct forms_slot **slot);
/* The number of the i-th record in a column; 1, or 0: NULL. */
int forms_slot_number(struct forms_slot *slot, enum audit_column col, int64_t i, int64_t *ret,
		      struct err *err) MUST_CHECK;
/* The i-th record as an entry of one, by itself: NULL is -1, also in n_req.  words: of struct block_sum, by their
 * places, the keys and whether it has a call; columns: numbers, of dur, n_req and n_res. */
enum { SUM_WORD_CALLED = 2, SUM_WORD_KEY };
int forms_slot_sum(struct forms_slot *slot, int64_t first, int64_t i, uint64_t words, uint64_t columns,
		   struct block_sum *ret, struct err *err) MUST_CHECK;
/* The value of any column of table rec.  Borrowed until the next of this slot. */
int forms_slot_value(struct forms_slot *slot, unsigned col, int64_t i, struct db_value *ret,
		     struct err *err) MUST_CHECK;

/* --- chapter.c */

/* Of the book that begins at a record, if its records are of times from since to before until; days: by days, and words
 * is of BLOCK_DAYS_WORDS and numbers but n_req.  1; 0: there is none, or it is partial.  *ret has its records and the
 * time of one; block_sums_fini() in any case. */
struct forms_book_ask { int64_t log, first, since, until; uint64_t words; bool hists, days; };
struct forms_booked { int64_t cnt, ts; };
int forms_book_sums(struct forms *f, const struct forms_book_ask *ask, struct forms_booked *ret,
		    struct block_sums *sums, struct err *err) MUST_CHECK;

/* --- meet.c */

/* The block that a cursor has open beside what it is at, for records at places; all zero: none.  The slot is put by
 * who has it. */
struct forms_place { struct forms_slot *slot; int64_t first, cnt; };
/* Opens the block of a log's record idx, unless it is the one that is open; columns: as forms_slot_get() has them.  1;
 * 0: it is in a file that is not here.  ERR_CORRUPT: it is missing. */
int forms_place_open(struct forms *f, int64_t log, int64_t sealed, int64_t idx, uint64_t columns,
		     struct forms_place *at, struct err *err) MUST_CHECK;
/* The same of one that may be gone, as a begin that was pruned is: 0. */
int forms_place_find(struct forms *f, int64_t log, int64_t sealed, int64_t idx, uint64_t columns,
		     struct forms_place *at, struct err *err) MUST_CHECK;

/* Records of a log, positions from lo to hi, times from since to before until, that are no begin and have one id in
 * each of some columns: bit k of keys, is[k]. */
struct forms_meeting { int64_t log, lo, hi, since, until; uint32_t keys; int64_t is[SUM_KEYS]; };
/* Which chapters may have one, by their sums and those of their books; what is beside the question is where it was
 * asked last.  at: put by who has it. */
struct forms_meet {
	struct forms *f;
	const struct forms_meeting *asked;
	int64_t sealed;
	int64_t book, book_end;         /* the book that was looked at last, */
	bool book_may;                  /* and whether it may have one */
	struct forms_place at;
};
/* 1: a record of the chapter may be such a one; 0: none is.  The sums are believed, as zones are. */
int forms_meet_may(struct forms_meet *m, int64_t first, int64_t cnt, struct err *err) MUST_CHECK;

#endif
