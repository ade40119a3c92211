/* Hexadecimal and base64, both directions.  Decoders are strict: one text for each sequence of bytes. */

#include "config.h"

#include "base/text.h"

#include "base/err.h"

static const char hex_digits[] = "0123456789abcdef";

void text_hex(const void *p, size_t n, char *ret)
{
	const uint8_t *u = p;

	for (size_t i = 0; i < n; i++) {
		*ret++ = hex_digits[u[i] >> 4];
		*ret++ = hex_digits[u[i] & 15];
	}
	*ret = '\0';
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int text_unhex(const char *p, size_t len, void *ret, size_t size)
{
	uint8_t *out = ret;

	if (len % 2 || len / 2 != size)
		return ERR_INVALID;
	for (size_t i = 0; i < len; i++)
		if (hex_value(p[i]) < 0)
			return ERR_INVALID;
	for (size_t i = 0; i < size; i++)
		out[i] = (uint8_t)(hex_value(p[2 * i]) << 4 | hex_value(p[2 * i + 1]));
	return 0;
}

size_t text_base64url_size(size_t n)
{
	return n / 3 * 4 + (n % 3 ? n % 3 + 1 : 0) + 1;
}

void text_base64url(const void *p, size_t n, char *ret)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	const uint8_t *u = p;
	uint32_t bits = 0;
	unsigned have = 0;

	for (size_t i = 0; i < n; i++) {
		bits = bits << 8 | u[i];
		for (have += 8; have >= 6; have -= 6)
			*ret++ = digits[bits >> (have - 6) & 63];
	}
	if (have)
		*ret++ = digits[bits << (6 - have) & 63];
	*ret = '\0';
}

size_t text_base64_size(size_t n)
{
	return (n + 2) / 3 * 4 + 1;
}

void text_base64(const void *p, size_t n, char *ret)
{
	char *end = ret + text_base64_size(n) - 1;

	/* The same digits but for the last two, then the padding. */
	text_base64url(p, n, ret);
	for (; *ret; ret++) {
		if (*ret == '-')
			*ret = '+';
		else if (*ret == '_')
			*ret = '/';
	}
	while (ret < end)
		*ret++ = '=';
	*ret = '\0';
}

static int base64_value(char c, char c62, char c63)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == c62)
		return 62;
	if (c == c63)
		return 63;
	return -1;
}

/* Digits only, a possible length, and no bits set that no byte takes. */
static bool digits_valid(const char *p, size_t len, char c62, char c63)
{
	static const int unused_bits[4] = { 0, 0, 15, 3 };

	if (len % 4 == 1)
		return false;
	for (size_t i = 0; i < len; i++)
		if (base64_value(p[i], c62, c63) < 0)
			return false;
	return len == 0 || (base64_value(p[len - 1], c62, c63) & unused_bits[len % 4]) == 0;
}

/* Decode len valid digits. */
static int decode(const char *p, size_t len, const char last[2], void *ret, size_t size, size_t *ret_len)
{
	uint8_t *out = ret;
	size_t n = len / 4 * 3 + (len % 4 ? len % 4 - 1 : 0);
	uint32_t bits = 0;
	unsigned have = 0;

	if (n > size)
		return ERR_LIMIT;
	for (size_t i = 0; i < len; i++) {
		bits = bits << 6 | (uint32_t)base64_value(p[i], last[0], last[1]);
		have += 6;
		if (have >= 8) {
			have -= 8;
			*out++ = (uint8_t)(bits >> have);
		}
	}
	*ret_len = n;
	return 0;
}

int text_unbase64url(const char *p, size_t len, void *ret, size_t size, size_t *ret_len)
{
	if (!digits_valid(p, len, '-', '_'))
		return ERR_INVALID;
	return decode(p, len, "-_", ret, size, ret_len);
}

/* The number of digits before the padding; SIZE_MAX when the padding is wrong. */
static size_t without_padding(const char *p, size_t len)
{
	if (len % 4)
		return SIZE_MAX;
	if (len && p[len - 1] == '=')
		len -= p[len - 2] == '=' ? 2 : 1;
	return len;
}

bool text_base64_valid(const char *p, size_t len)
{
	size_t n = without_padding(p, len);

	return n != SIZE_MAX && digits_valid(p, n, '+', '/');
}

int text_unbase64(const char *p, size_t len, void *ret, size_t size, size_t *ret_len)
{
	if (!text_base64_valid(p, len))
		return ERR_INVALID;
	return decode(p, without_padding(p, len), "+/", ret, size, ret_len);
}
