#ifndef SRC_JSON_JSON_INT_H
#define SRC_JSON_JSON_INT_H

/* What scan, parse and write share about the bytes of a JSON text. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JX_REPLACEMENT 0xfffd           /* stands for a lone surrogate or a byte that is not UTF-8 */

static inline bool jx_utf8_tail(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

/* Bytes of the UTF-8 sequence at p (left >= 1); 0 when it is not well-formed (RFC 3629 4). */
static inline size_t jx_utf8_len(const unsigned char *p, size_t left)
{
	unsigned char c = p[0];

	if (c < 0x80)
		return 1;
	if (c < 0xc2 || c > 0xf4 || left < 2 || !jx_utf8_tail(p[1]))
		return 0;
	if (c < 0xe0)
		return 2;
	if (left < 3 || !jx_utf8_tail(p[2]))
		return 0;
	if (c < 0xf0)
		return (c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] > 0x9f) ? 0 : 3;
	if (left < 4 || !jx_utf8_tail(p[3]))
		return 0;
	return (c == 0xf0 && p[1] < 0x90) || (c == 0xf4 && p[1] > 0x8f) ? 0 : 4;
}

static inline int jx_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The value of four hex digits, or -1. */
static inline int jx_hex4(const char *p)
{
	int v = 0;

	for (int i = 0; i < 4; i++) {
		int d = jx_hex_digit(p[i]);

		if (d < 0)
			return -1;
		v = v << 4 | d;
	}
	return v;
}

/* Is it strict JSON with at most so many members and elements, however long? */
bool jx_is_large_json(const char *text, size_t len, size_t items_max);

/* Unescape the inside of a well-formed string literal; at most size bytes go to ret.  Returns the
 * length that the whole has. */
size_t jx_unescape(const char *p, size_t len, char *ret, size_t size);

/* Read one reference token of a JSON pointer, *p behind its slash, and step over it; false when an escape
 * is wrong or the token is longer than any member name can be.  ret has JX_NAME_MAX + 1 bytes. */
bool jx_pointer_token(const char **p, char *ret);
/* The array index that a reference token means; false when it is none. */
bool jx_pointer_index(const char *token, size_t *ret);

#endif
