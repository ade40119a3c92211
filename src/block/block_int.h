#ifndef BLOCK_BLOCK_INT_H
#define BLOCK_BLOCK_INT_H

#include <string.h>

#include "base/varint.h"
#include "block/block.h"

/* Inside of src/block: numbers and streams as bytes. */

struct block_zlib;              /* what deflates and inflates; made when first used */
void block_zlib_free(struct block_zlib **z);
/* A stream: the number len << 1 | raw, then the bytes, raw or as a zlib stream that is shorter. */
void block_stream_put(struct block_zlib **z, const uint8_t *p, size_t len, struct audit_bytes *out);
/* Behind a stream's number n, which is not 0: its bytes inflated, in *into or where they stand; at most max come
 * out.  *at moves on.  ERR_CORRUPT, ERR_LIMIT (no memory). */
int block_stream_get(struct block_zlib **z, uint64_t n, const uint8_t **at, const uint8_t *end, size_t max,
		     struct audit_bytes *into, struct block_bytes *ret, const char *where, struct err *err);
int block_bad(struct err *err, const char *where, const char *what);   /* ERR_CORRUPT */

enum {
	BLOCK_FIRST_COLUMN = COL_CALL,  /* log and idx stand beside the block */
	BLOCK_CALL_SIZE = 16, BLOCK_CALL_TIME = 6,      /* the first bytes of a UUIDv7 */
	BLOCK_COMMITMENT = 32, BLOCK_CM_SIZE = 2 + BLOCK_COMMITMENT,
	BLOCK_ID_SIZE = 16,             /* of sh, prev, trace */
};

#define BLOCK_IDX_MAX (INT64_MAX - BLOCK_RECORDS_MAX)

/* How the values of a column stand. */
enum block_form {
	BLOCK_PLACE, BLOCK_NUMBER, BLOCK_DIFFERENCE, BLOCK_BEGIN, BLOCK_CALL, BLOCK_CM, BLOCK_HASH, BLOCK_BLOB
};
static inline enum block_form block_form(enum audit_column col)
{
	static const uint8_t forms[COL_COUNT] = {
		[COL_LOG] = BLOCK_PLACE + 1, [COL_IDX] = BLOCK_PLACE + 1, [COL_TS] = BLOCK_DIFFERENCE + 1,
		[COL_MONO] = BLOCK_DIFFERENCE + 1, [COL_BEG] = BLOCK_BEGIN + 1, [COL_CALL] = BLOCK_CALL + 1,
		[COL_CM] = BLOCK_CM + 1, [COL_SH] = BLOCK_HASH + 1, [COL_PREV] = BLOCK_HASH + 1, [COL_TRACE] = BLOCK_HASH + 1,
		[COL_EXT] = BLOCK_BLOB + 1,
	};

	return forms[col] ? (enum block_form)(forms[col] - 1) : BLOCK_NUMBER;
}

/* A record without them is none: the schema says NOT NULL. */
static inline bool block_must_have(enum audit_column col)
{
	return col == COL_LOG || col == COL_IDX || col == COL_TS || col == COL_KIND;
}

/* Room for so many more bytes behind b->len. */
uint8_t *block_room(struct audit_bytes *b, size_t more);

static inline void block_put(struct audit_bytes *b, uint64_t v)
{
	b->len = (size_t)(put_varint(block_room(b, VARINT_MAX), v) - b->p);
}

/* A number that is at most max. */
static inline const uint8_t *get_up_to(const uint8_t *p, const uint8_t *end, uint64_t max, uint64_t *ret)
{
	p = get_varint(p, end, ret);
	return p && *ret <= max ? p : NULL;
}

static inline bool bit_at(const uint8_t *bits, size_t i)
{
	return bits[i >> 3] >> (i & 7) & 1;
}

#endif
