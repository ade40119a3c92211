/* Hexadecimal and base64, both directions, written by libsodium.  Decoders are strict: one text for each sequence of
 * bytes.  Apart from text.c, so that toolcrib-run, which is started for each call, does not load libsodium. */
#include "config.h"

#include <stdint.h>

#include <sodium.h>

#include "base/err.h"
#include "base/text.h"

void text_hex(const void *p, size_t n, char *ret)
{
	(void)sodium_bin2hex(ret, 2 * n + 1, p, n);
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

void text_base64url(const void *p, size_t n, char *ret)
{
	(void)sodium_bin2base64(ret, text_base64url_size(n), p, n, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

size_t text_base64_size(size_t n)
{
	return sodium_base64_ENCODED_LEN(n, sodium_base64_VARIANT_ORIGINAL);
}

void text_base64(const void *p, size_t n, char *ret)
{
	(void)sodium_bin2base64(ret, text_base64_size(n), p, n, sodium_base64_VARIANT_ORIGINAL);
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
static int decode(const char *p, size_t len, int variant, void *ret, size_t size, size_t *ret_len)
{
	if (len / 4 * 3 + (len % 4 ? len % 4 - 1 : 0) > size)
		return ERR_LIMIT;
	return sodium_base642bin(ret, size, p, len, NULL, ret_len, NULL, variant) ? ERR_INVALID : 0;
}

int text_unbase64url(const char *p, size_t len, void *ret, size_t size, size_t *ret_len)
{
	if (!digits_valid(p, len, '-', '_'))
		return ERR_INVALID;
	return decode(p, len, sodium_base64_VARIANT_URLSAFE_NO_PADDING, ret, size, ret_len);
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
	return decode(p, without_padding(p, len), sodium_base64_VARIANT_ORIGINAL_NO_PADDING, ret, size, ret_len);
}
