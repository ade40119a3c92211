#ifndef BLOCK_ZONE_H
#define BLOCK_ZONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "block/block.h"
#include "block/row.h"

/* What is derived from blocks so that readers can leave them out (SCALE 5, SC-206, SC-207): zones say which ids a
 * block or a chapter has, sums what its records come to.  Whoever reads them for evidence counts them anew: one
 * content has one form, so that bytes are compared.  Pure functions of bytes: an object belongs to one thread at a
 * time. */

struct block_reader;

/* --- zones */

enum { BLOCK_ZONE_IDS_MAX = 1024, BLOCK_CHAPTER_BLOCKS = 64, BLOCK_CHAPTER_MAX = 64 * 4096 };
enum { BLOCK_BOOK_CHAPTERS = 16, BLOCK_BOOK_MAX = BLOCK_BOOK_CHAPTERS * BLOCK_CHAPTER_MAX };

/* In the order of their bytes. */
#define BLOCK_ZONES(X) X(KIND) X(OUTCOME) X(PRN) X(CRED) X(TOOL) X(TDEF) X(OBJ) X(KEY)
enum block_zone_column {
#define BLOCK_ZONE_ENUM(col) ZONE_##col,
	BLOCK_ZONES(BLOCK_ZONE_ENUM)
#undef BLOCK_ZONE_ENUM
	ZONE_COUNT
};
extern const enum audit_column block_zone_columns[ZONE_COUNT];

/* The ids of a column, ascending, and how many records have each; many: more than there is room for, and none is
 * named. */
struct block_zone { bool many; unsigned n; struct { int64_t id, count; } v[BLOCK_ZONE_IDS_MAX]; };
struct block_zones { struct block_zone of[ZONE_COUNT]; };

/* Strict, of cnt records, at most BLOCK_CHAPTER_MAX.  ERR_CORRUPT; *ret is whatever was read. */
int block_zones_read(const void *p, size_t len, int64_t cnt, struct block_zones *ret,
			       struct err *err) MUST_CHECK;
/* Ids of texts become what id() says (block/block.h), ascending again.  ERR_CORRUPT: one has no text. */
int block_zones_turn(struct block_zones *zones, block_id_fn *id, void *arg, struct err *err) MUST_CHECK;
/* Whether a record may have that id there: false is certain. */
bool block_zone_may_have(const struct block_zones *zones, enum block_zone_column col, int64_t id);

/* Counts what zones are made of. */
struct block_zoner;
struct block_zoner *block_zoner_new(void);
void block_zoner_free(struct block_zoner **z);
void block_zoner_add(struct block_zoner *z, enum block_zone_column col, int64_t id);
/* All records of a block that is open, with the columns of zones. */
void block_zoner_add_block(struct block_zoner *z, const struct block_reader *r);
/* What another zone counted: the zone of a chapter is that of its blocks. */
void block_zoner_add_zones(struct block_zoner *z, const struct block_zones *zones);
/* The bytes in place of what out has; begins anew. */
void block_zoner_end(struct block_zoner *z, struct audit_bytes *out);

/* --- sums of a chapter, over every record that is no begin */

enum {
	BLOCK_SUMS_SHARE = 8,           /* records for each entry of a list; fewer: partial */
	BLOCK_HIST_SUB = 8,             /* steps of a histogram for each power of two */
	BLOCK_HIST_STEPS = BLOCK_HIST_SUB * 40,         /* the last one has what is longer than 2^42 us too */
};

/* What entries are by, besides day and night.  In the order of their bytes, which is that of the tags as well; the
 * tags say it, so that later ones find their place. */
#define BLOCK_SUM_KEYS(X) X(CRED) X(PRN) X(AUTHN) X(OBO) X(PEER) X(CLIENT) X(TPORT) X(REV) X(KIND) X(TOOL) X(TDEF) \
	X(RULE) X(OUTCOME) X(SBOX)
enum block_sum_key {
#define BLOCK_SUM_ENUM(col) SUM_##col,
	BLOCK_SUM_KEYS(BLOCK_SUM_ENUM)
#undef BLOCK_SUM_ENUM
	SUM_KEYS
};
extern const enum audit_column block_sum_columns[SUM_KEYS];

/* day: since 1970, UTC; night: before 6 or from 22 h; called: the records have a call.  A key is -1 where it is
 * NULL. */
struct block_sum {
	int64_t day, night, called, key[SUM_KEYS];
	int64_t count, timed;           /* records; of these, such with a duration */
	int64_t dur, dur_max, n_req, n_res;     /* sums; the longest, 0 without any */
	int64_t idx_min, idx_max, ts_min, ts_max;
};
/* Outcomes as tool-health and stats tell them apart. */
enum block_class { CLASS_OK = 1, CLASS_ERROR, CLASS_TIMEOUT, CLASS_REFUSED, CLASS_OTHER };
/* How many calls of a tool (-1: none) that have ended took so long: steps as in stats. */
struct block_hist { int64_t day, night, tool, class, step, count; };
struct block_sums {
	bool partial;                   /* nothing is said: the blocks have to be read */
	struct block_sum *sum; size_t sums;
	struct block_hist *hist; size_t hists;
	int64_t *apart; size_t aparts;  /* records that are in neither: their begins are of before the chapter */
};

/* An end says little of its call, the begin the rest; sums are of both (as v_calls is). */

/* Its keys, and those of its begin; NULL: it has none. */
void block_sum_join(int64_t key[SUM_KEYS], const int64_t *begin);
void block_sum_at(struct block_sum *sum, int64_t ts);   /* day and night */
/* Adds what e counts; false: more than 63 bits, and *to is of no use any more. */
bool block_sum_merge(struct block_sum *to, const struct block_sum *e);
enum block_class block_class_of(int64_t outcome);
int64_t block_step_of(uint64_t us);

struct block_summer;
struct block_summer *block_summer_new(void);
void block_summer_free(struct block_summer **s);
/* All records of a block that is open, with all columns; blocks of a chapter come in their order. */
void block_summer_add(struct block_summer *s, const struct block_reader *r);
/* What other sums came to, of records from `first` on. */
void block_summer_add_sums(struct block_summer *s, int64_t first, const struct block_sums *sums);

/* A book is up to 16 chapters, and its sums are theirs without days and halves: block_summer_add_sums() of each
 * chapter in order, and of each record that stands apart in it one of the two below: added, when its begin (kind
 * 1001) stands before it in the book, else apart there too.  A book of which a chapter is partial is partial. */
struct block_summer *block_summer_new_book(void);
/* Days of a book: sums by day, half, whether there is a call, kind and outcome alone, in the form of a chapter's, with
 * neither steps nor records apart: all of them are added, with begin NULL.  n_req is 0. */
struct block_summer *block_summer_new_days(void);
/* Words of struct block_sum that they are by: day, night, called and two keys, which stand behind these. */
#define BLOCK_DAYS_WORDS (UINT64_C(7) | UINT64_C(1) << (3 + SUM_KIND) | UINT64_C(1) << (3 + SUM_OUTCOME))
/* own: what the record says by itself, n_req -1 where it says none. */
void block_summer_add_one(struct block_summer *s, const struct block_sum *own, const struct block_sum *begin);
void block_summer_add_apart(struct block_summer *s, int64_t idx);
/* The bytes in place of what out has; begins anew. */
void block_summer_end(struct block_summer *s, struct audit_bytes *out);
/* Strict, of a chapter of cnt records from first on.  ERR_CORRUPT, ERR_LIMIT (no memory); block_sums_fini() in any
 * case. */
int block_sums_read(const void *p, size_t len, int64_t first, int64_t cnt, struct block_sums *ret,
		    struct err *err) MUST_CHECK;
/* The same for who asks and does not check: of entries these words (bits by their place in struct block_sum; others
 * are 0, NULL stays -1), and steps or none.  What is not wanted is not inflated, nor looked at. */
#define BLOCK_SUM_ALL ((UINT64_C(1) << (sizeof(struct block_sum) / sizeof(int64_t))) - 1)
int block_sums_read_some(const void *p, size_t len, int64_t first, int64_t cnt, uint64_t words, bool hists,
			 struct block_sums *ret, struct err *err) MUST_CHECK;
/* The same of a book, whose entries have day and night 0. */
FOR_TESTS int block_book_read(const void *p, size_t len, int64_t first, int64_t cnt, struct block_sums *ret,
		    struct err *err) MUST_CHECK;
int block_book_read_some(const void *p, size_t len, int64_t first, int64_t cnt, uint64_t words, bool hists,
			 struct block_sums *ret, struct err *err) MUST_CHECK;
/* The same of a book's days; no other key is named. */
FOR_TESTS int block_days_read(const void *p, size_t len, int64_t first, int64_t cnt, struct block_sums *ret,
			      struct err *err) MUST_CHECK;
int block_days_read_some(const void *p, size_t len, int64_t first, int64_t cnt, uint64_t words, struct block_sums *ret,
			 struct err *err) MUST_CHECK;
bool block_days_same(struct block_bytes a, struct block_bytes b, int64_t first, int64_t cnt, struct err *err);
bool block_book_same(struct block_bytes a, struct block_bytes b, int64_t first, int64_t cnt, struct err *err);
void block_sums_fini(struct block_sums *sums);
/* Whether two say the same of such a chapter: numbers are compared, what zlib makes of them is its own.  err: why one
 * cannot be read, which is not the same then. */
bool block_sums_same(struct block_bytes a, struct block_bytes b, int64_t first, int64_t cnt, struct err *err);

#endif
