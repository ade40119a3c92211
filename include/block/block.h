#ifndef BLOCK_BLOCK_H
#define BLOCK_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "block/row.h"
#include "tlog/tree.h"

/* Blocks of format 1: the records of one log from an index on, without a gap, by columns
 * (contrib/doc/block-format.md; SCALE 5).  A form of records beside their rows: what it gives back are the same
 * columns, bytes and leaves (SC-102).  Nothing signs a block, so whoever reads one believes nothing of it.  Pure
 * functions of bytes: an object belongs to one thread at a time. */

enum {
	BLOCK_FORMAT = 1,               /* of records in encoding 1 */
	BLOCK_RECORDS_MAX = 4096,
	BLOCK_STREAM_MAX = 4 << 20,     /* bytes of a column as it is inflated; of all that does not compress (SC-201) */
	BLOCK_DEFLATE_MIN = 64,         /* a shorter column stands as it is */
	BLOCK_BLOB_MAX = 65536,         /* bytes of a value */
	BLOCK_PAYLOADS_MAX = 256,       /* records of a group of payloads */
	BLOCK_BODY_MAX = 4 << 20,       /* bytes of such a group */
	BLOCK_ORIGIN_MAX = 512,
};

struct block_bytes { const void *p; size_t len; };

/* A row of table blk, but for its log.  Bytes are borrowed. */
struct block {
	int64_t first, cnt, fmt;        /* index of the first record, how many, BLOCK_FORMAT */
	int64_t ts_min, ts_max;
	struct block_bytes cols, hash, zone;
};

/* --- making */

struct block_maker;
struct block_maker *block_maker_new(void);
void block_maker_free(struct block_maker **m);
/* The next row: its idx is the first one's plus how many there are (else ERR_INTERNAL); of log only the presence is
 * looked at.  0: it is in the block.  1: it is not, the block is full: block_maker_end(), then once
 * more.  ERR_INVALID: format 1 cannot carry it, whatever else is in the block (SC-204); where is "idx/42", and what
 * was there before stays. */
int block_maker_add(struct block_maker *m, const struct audit_row *row, struct err *err) MUST_CHECK;
int64_t block_maker_count(const struct block_maker *m);
/* The block of what was added, at least one row; its bytes stay until the next block_maker_end() or _free().  The
 * maker begins anew. */
void block_maker_end(struct block_maker *m, struct block *ret);

/* --- reading */

/* The texts that ids stand for.  fn(): 1 and a text that stays as long as the reader; 0: there is no such id of
 * that kind, which is the tag of the column; or an error. */
typedef int block_text_fn(void *arg, uint16_t kind, int64_t id, const char **ret, size_t *ret_len, struct err *err);
/* Ids in a block may be those of a sealed file: id() turns one into what the reader gives out, and fn() knows.
 * 1: *ret; 0: there is no such text; or an error.  NULL: ids stay. */
typedef int block_id_fn(void *id_arg, uint16_t kind, int64_t id, int64_t *ret, struct err *err);
struct block_texts { int64_t log; const char *origin; block_text_fn *fn; void *arg; block_id_fn *id; void *id_arg; };

#define BLOCK_COLUMN(col) (UINT64_C(1) << (col))
#define BLOCK_ALL_COLUMNS ((UINT64_C(1) << COL_COUNT) - 1)

struct block_reader;
/* texts (borrowed) may be NULL for who asks for no rows. */
struct block_reader *block_reader_new(const struct block_texts *texts);
/* Blocks of another log come: texts as before, but for the log and its origin. */
void block_reader_go_on(struct block_reader *r, const struct block_texts *texts);
void block_reader_free(struct block_reader **r);
/* Inflates and decodes these columns of a block (BLOCK_COLUMN(COL_TS) | …) and no others, but those without which
 * one of them cannot be told (SC-206), and looks at nothing else: what is said of the rest of the block is said by
 * a reading of all.  b and its bytes are borrowed until the next one.  ERR_CORRUPT: PARSE, the block is not what an
 * encoder writes, or an id has no text where ids are turned; where names the column.  ERR_INVALID: the format, or a
 * column, is of a later release.  ERR_LIMIT: there is no memory.  After an error no block is open. */
int block_open(struct block_reader *r, const struct block *b, uint64_t columns, struct err *err) MUST_CHECK;
/* The same of which records have a value in these columns alone, for block_has(). */
int block_open_present(struct block_reader *r, const struct block *b, uint64_t columns, struct err *err) MUST_CHECK;
/* Those whose values stand in hash, in its order; for others it may be missing. */
#define BLOCK_HASH_ORDER(X) X(CALL) X(CM) X(SH) X(PREV) X(TRACE)
#define BLOCK_OR_COLUMN(col) | BLOCK_COLUMN(COL_##col)
#define BLOCK_HASHED (UINT64_C(0) BLOCK_HASH_ORDER(BLOCK_OR_COLUMN))
int64_t block_first(const struct block_reader *r);
int64_t block_count(const struct block_reader *r);
/* The columns that some record has a value of, of those that were asked for. */
FOR_TESTS uint64_t block_columns(const struct block_reader *r);
/* The value of the i-th record (below block_count()) in a column that was asked for and is no BLOB; false: NULL. */
bool block_number(const struct block_reader *r, enum audit_column col, int64_t i, int64_t *ret);
/* Whether it has one, whatever the column is. */
bool block_has(const struct block_reader *r, enum audit_column col, int64_t i);
/* The i-th record with what was asked for, log and idx; it borrows from the reader until the next
 * block_open().  ERR_CORRUPT: an id has no text. */
int block_row(struct block_reader *r, int64_t i, struct audit_row *ret, struct err *err) MUST_CHECK;
/* The same into a row that this has filled for another record of the same block, or that is all zero: a third of the
 * cost for whoever wants all of them. */
int block_row_over(struct block_reader *r, int64_t i, struct audit_row *row, struct err *err) MUST_CHECK;
/* The leaf of the i-th record; all columns were asked for.  Errors of block_row(). */
int block_leaf(struct block_reader *r, int64_t i, uint8_t ret[TREE_HASH], struct err *err) MUST_CHECK;

/* The same of a block that is open with its own ids, whose rows have all been asked for: its numbers are those that
 * id() gives from then on.  ERR_CORRUPT: an id has no text; no block is open then. */
int block_turn(struct block_reader *r, block_id_fn *id, void *arg, struct err *err) MUST_CHECK;

/* What is beside the columns and derived from them, of a block that is open with all columns: its times and its
 * zone are what a count of the records gives.  ERR_CORRUPT: INDEX, queries would lie (SC-207). */
int block_derived(struct block_reader *r, struct err *err) MUST_CHECK;
/* SC-203: decodes the block whole, and each record has the leaf that it had as a row.  ERR_CORRUPT, "idx/42", when
 * it has not, and errors of block_open() and block_derived(). */
int block_check(struct block_reader *r, const struct block *b, const uint8_t (*leaf)[TREE_HASH],
			  struct err *err) MUST_CHECK;

/* --- payloads: the body of a row of blkpay */

/* What table pay has of a record; salt.p NULL: nothing.  Else nonce.p and ct.p may be NULL. */
struct block_payload { struct block_bytes salt, nonce, ct; };
/* Of n records, 1 to BLOCK_PAYLOADS_MAX.  *ret_n: the first so many are in it, as many as BLOCK_BODY_MAX bytes
 * hold, at least one.  ERR_INVALID: the first one is too large by itself, or is no payload (a nonce or ciphertext
 * without salt). */
int block_payloads_write(const struct block_payload *v, size_t n, struct audit_bytes *out, size_t *ret_n,
			 struct err *err) MUST_CHECK;
/* Into v, which borrows from the body.  ERR_CORRUPT as above. */
int block_payloads_read(const void *body, size_t len, struct block_payload v[BLOCK_PAYLOADS_MAX],
			size_t *ret_n, struct err *err) MUST_CHECK;

#endif
