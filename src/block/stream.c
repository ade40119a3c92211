/* Streams of bytes as blocks have them: raw, or deflated where that is shorter.  What zlib says of a stream is not
 * enough: it ends where its bytes end, and gives no more than was allowed for (SC-201).  For makers and readers of
 * blocks; the thread of each. */

#include "config.h"

#define ZLIB_CONST              /* its input is only read */
#include <stdlib.h>
#include <zlib.h>

#include "base/mem.h"

#include "block_int.h"

enum { LEVEL = 4, STEP = 49152 };       /* STEP: more than a column of numbers can have */
/* A column of up to SMALL bytes has a window of that size, whose tables are an eighth of the full one's: to empty those
 * costs more than such a column. */
enum { SMALL = 2048, SMALL_BITS = 11, SMALL_MEM = 5, FULL_BITS = 15, FULL_MEM = 8 };

struct block_zlib {
	z_stream in, out[2];            /* out: full, small */
	bool has_in, has_out[2];
	struct audit_bytes scratch;
};

/* Never NULL, so that zlib does not fail. */
static void *give(void *opaque, unsigned n, unsigned size)
{
	(void)opaque;
	return mem_calloc(n, size);
}

static void take(void *opaque, void *p)
{
	(void)opaque;
	free(p);
}

static struct block_zlib *made(struct block_zlib **z)
{
	if (!*z)
		*z = mem_zalloc(sizeof(**z));
	return *z;
}

void block_zlib_free(struct block_zlib **z)
{
	if (!*z)
		return;
	if ((*z)->has_in)
		inflateEnd(&(*z)->in);
	for (size_t i = 0; i < NELEMS((*z)->out); i++)
		if ((*z)->has_out[i])
			deflateEnd(&(*z)->out[i]);
	free((*z)->scratch.p);
	free(*z);
	*z = NULL;
}

uint8_t *block_room(struct audit_bytes *b, size_t more)
{
	if (b->len + more > b->cap) {
		b->cap = 2 * (b->len + more);
		b->p = mem_realloc(b->p, b->cap);
	}
	return b->p + b->len;
}

int block_bad(struct err *err, const char *where, const char *what)
{
	return err_set(err, ERR_CORRUPT, where, "this is no block of format 1: %s", what);
}

/* The deflated bytes into scratch when they are fewer than len, else nothing. */
static bool deflated(struct block_zlib *z, const uint8_t *p, size_t len)
{
	const bool small = len <= SMALL;
	z_stream *s = &z->out[small];
	int rc;

	if (!z->has_out[small]) {
		s->zalloc = give;
		s->zfree = take;
		z->has_out[small] = deflateInit2(s, LEVEL, Z_DEFLATED, small ? SMALL_BITS : FULL_BITS, small ? SMALL_MEM : FULL_MEM,
						 Z_DEFAULT_STRATEGY) == Z_OK;
	}
	if (!z->has_out[small] || deflateReset(s) != Z_OK)
		return false;
	z->scratch.len = 0;
	s->next_in = p;
	s->avail_in = (unsigned)len;
	s->next_out = block_room(&z->scratch, len);
	s->avail_out = (unsigned)len - 1;
	rc = deflate(s, Z_FINISH);
	z->scratch.len = len - 1 - s->avail_out;
	return rc == Z_STREAM_END;
}

void block_stream_put(struct block_zlib **zp, const uint8_t *p, size_t len, struct audit_bytes *out)
{
	struct block_zlib *z = made(zp);
	const bool raw = len < BLOCK_DEFLATE_MIN || !deflated(z, p, len);
	const size_t n = raw ? len : z->scratch.len;

	block_put(out, (uint64_t)n << 1 | raw);
	memcpy(block_room(out, n), raw ? p : z->scratch.p, n);
	out->len += n;
}

/* As far as it goes, but not beyond max bytes and one. */
static int inflate_all(z_stream *s, size_t max, struct audit_bytes *into, const char *where, struct err *err)
{
	int rc = Z_BUF_ERROR;

	into->len = 0;
	s->avail_out = 0;
	/* Z_FINISH: what came out is not kept as a window, as long as all of it finds room at once. */
	while (rc == Z_BUF_ERROR && s->avail_out == 0 && into->len <= max) {
		size_t room = max + 1 - into->len;

		if (room > STEP)
			room = STEP;
		if (into->len + room > into->cap) {
			const size_t cap = 2 * into->cap + room;
			uint8_t *p = mem_try_realloc(into->p, cap);

			if (!p)
				return err_set(err, ERR_LIMIT, where, "there is no memory for a column of a block");
			into->p = p;
			into->cap = cap;
		}
		s->next_out = into->p + into->len;
		s->avail_out = (unsigned)room;
		rc = inflate(s, Z_FINISH);
		into->len += room - s->avail_out;
	}
	if (into->len > max)
		return block_bad(err, where, "more comes out of a stream than it can have");
	return rc == Z_STREAM_END && s->avail_in == 0 ? 0 :
		block_bad(err, where, "a stream is damaged, or something stands behind it");
}

static int inflated(struct block_zlib *z, const uint8_t *p, size_t len, size_t max, struct audit_bytes *into,
		    const char *where, struct err *err)
{
	z_stream *s = &z->in;
	int rc;

	if (!z->has_in) {
		s->zalloc = give;
		s->zfree = take;
		z->has_in = inflateInit(s) == Z_OK;
	}
	if (!z->has_in || inflateReset(s) != Z_OK)
		return err_set(err, ERR_INTERNAL, where, "zlib cannot be used");
	s->next_in = p;
	s->avail_in = (unsigned)len;
	rc = inflate_all(s, max, into, where, err);
	if (rc == 0 && (into->len < BLOCK_DEFLATE_MIN || into->len <= len))
		return block_bad(err, where, "a stream is deflated that is no shorter so");
	return rc;
}

int block_stream_get(struct block_zlib **z, uint64_t n, const uint8_t **at, const uint8_t *end, size_t max,
		     struct audit_bytes *into, struct block_bytes *ret, const char *where, struct err *err)
{
	const uint8_t *p = *at;
	const uint64_t len = n >> 1;
	int rc;

	if (len > (uint64_t)(end - p) || len > BLOCK_STREAM_MAX)
		return block_bad(err, where, "a stream is longer than what is there");
	*at = p + len;
	if (n & 1) {
		*ret = (struct block_bytes){ p, (size_t)len };
		return len <= max ? 0 : block_bad(err, where, "a stream is longer than it can be");
	}
	rc = inflated(made(z), p, (size_t)len, max, into, where, err);
	*ret = (struct block_bytes){ into->p, into->len };
	return rc;
}
