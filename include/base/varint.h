#ifndef BASE_VARINT_H
#define BASE_VARINT_H

#include <stddef.h>
#include <stdint.h>

/* Numbers of any size as bytes: seven bits in each, the lowest first, the top bit where more follow (LEB128).  Each
 * number has one way to be written, and what is read is strict.  Blocks and heads of logs consist of them, which others
 * read as well (contrib/verify/verify.py).  Pure; any thread. */

#define VARINT_MAX 10           /* bytes of the largest */

/* Behind what was written; p has room for VARINT_MAX. */
static inline uint8_t *put_varint(uint8_t *p, uint64_t v)
{
	while (v >= 0x80) {
		*p++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*p++ = (uint8_t)v;
	return p;
}

/* Behind what was read.  NULL: it is cut off, longer than it need be, or more than 64 bits. */
static inline const uint8_t *get_varint(const uint8_t *p, const uint8_t *end, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned shift = 0; p < end && shift < 7 * VARINT_MAX; shift += 7) {
		const uint8_t byte = *p++;

		if ((shift == 63 && byte > 1) || (byte == 0 && shift > 0))
			return NULL;
		v |= (uint64_t)(byte & 0x7F) << shift;
		if (byte < 0x80) {
			*ret = v;
			return p;
		}
	}
	return NULL;
}

/* Small numbers of either sign as small ones without: 0, -1, 1, -2, … */
static inline uint64_t zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static inline int64_t unzigzag(uint64_t v)
{
	return (int64_t)(v >> 1 ^ -(v & 1));
}

#endif
