/* The escapes of JSON strings, read.  The scan has checked their form before. */
#include "config.h"

#include "json_int.h"

#include <string.h>

static size_t put_utf8(uint32_t cp, char ret[4])
{
	if (cp < 0x80) {
		ret[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		ret[0] = (char)(0xc0 | cp >> 6);
		ret[1] = (char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		ret[0] = (char)(0xe0 | cp >> 12);
		ret[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		ret[2] = (char)(0x80 | (cp & 0x3f));
		return 3;
	}
	ret[0] = (char)(0xf0 | cp >> 18);
	ret[1] = (char)(0x80 | (cp >> 12 & 0x3f));
	ret[2] = (char)(0x80 | (cp >> 6 & 0x3f));
	ret[3] = (char)(0x80 | (cp & 0x3f));
	return 4;
}

uint32_t jx_unescape_u(const char *p, const char *end, size_t *ret_len)
{
	int high = jx_hex4(p + 2), low;

	*ret_len = 6;
	if (high < 0xd800 || high > 0xdfff)
		return (uint32_t)high;
	if (high > 0xdbff || end - p < 12 || p[6] != '\\' || p[7] != 'u')
		return JX_REPLACEMENT;
	low = jx_hex4(p + 8);
	if (low < 0xdc00 || low > 0xdfff)
		return JX_REPLACEMENT;
	*ret_len = 12;
	return 0x10000 + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
}

static char unescape_letter(char c)
{
	switch (c) {
	case 'b':
		return '\b';
	case 'f':
		return '\f';
	case 'n':
		return '\n';
	case 'r':
		return '\r';
	case 't':
		return '\t';
	default:
		return c;               /* quote, backslash, slash */
	}
}

size_t jx_unescape(const char *p, size_t len, char *ret, size_t size)
{
	const char *end = p + len;
	size_t out = 0;

	while (p < end) {
		char piece[4];
		size_t n = 1, used = 1;

		if (*p != '\\') {
			piece[0] = *p;
		} else if (p[1] != 'u') {
			piece[0] = unescape_letter(p[1]);
			used = 2;
		} else {
			n = put_utf8(jx_unescape_u(p, end, &used), piece);
		}
		if (out + n <= size)
			memcpy(ret + out, piece, n);
		out += n;
		p += used;
	}
	return out;
}
