/* The text of a key (SEC S-301): "tck_" accessor "_" secret crc.  Pure functions of bytes, any thread.
 *
 * accessor: 12 base62 characters, public.  secret: 32 random bytes as a big-endian number in 43 base62 digits.
 * crc: CRC-32 of all before it in 6 base62 digits; it finds typing errors and protects nothing (SEC S-303).
 * Digits are 0-9 A-Z a-z in this order.  Stored is BLAKE2b-256(pepper, "toolcrib/cred/1" 0x00 secret bytes).
 */

#include "config.h"

#include <string.h>

#include "base/crypto.h"
#include "base/id.h"
#include "base/mem.h"
#include "tenant/tenant.h"

#define KEY_PREFIX "tck_"
#define KEY_HASH_PREFIX "toolcrib/cred/1"       /* hashed with its NUL */

enum {
	PREFIX_LEN = 4,
	ACCESSOR_LEN = KEY_ACCESSOR_SIZE - 1,
	SECRET_LEN = 43,
	SECRET_AT = PREFIX_LEN + ACCESSOR_LEN + 1,
	CRC_AT = SECRET_AT + SECRET_LEN,
	CRC_LEN = 6,
	KEY_LEN = CRC_AT + CRC_LEN,
	SECRET_LIMBS = 8,               /* of 32 bits, the last one least */
	CHUNK_DIGITS = 5,               /* as many as a limb can hold */
};
_Static_assert(KEY_LEN + 1 == KEY_TEXT_SIZE, "the face names the size of a key");

static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'Z')
		return c - 'A' + 10;
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 36;
	return -1;
}

static bool all_digits(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (digit_value(p[i]) < 0)
			return false;
	return true;
}

static void write_crc(const char *text, char ret[CRC_LEN])
{
	uint32_t crc = digest_crc32(text, CRC_AT);

	for (int i = CRC_LEN - 1; i >= 0; i--) {
		ret[i] = digits[crc % 62];
		crc /= 62;
	}
}

/* False when the number needs more than 32 bytes.  Asked for each HTTP request: several digits in one pass. */
static bool decode_secret(const char *secret, uint8_t ret[32])
{
	uint32_t limb[SECRET_LIMBS] = { 0 };
	uint64_t carry = 0;

	for (unsigned i = 0; i < SECRET_LEN && carry == 0;) {
		uint32_t chunk = 0, scale = 1;

		for (unsigned end = i + CHUNK_DIGITS; i < end && i < SECRET_LEN; i++) {
			chunk = chunk * 62 + (uint32_t)digit_value(secret[i]);
			scale *= 62;
		}
		carry = chunk;
		for (int k = SECRET_LIMBS - 1; k >= 0; k--) {
			carry += (uint64_t)limb[k] * scale;
			limb[k] = (uint32_t)carry;
			carry >>= 32;
		}
	}
	for (unsigned i = 0; i < 32; i++)
		ret[i] = (uint8_t)(limb[i / 4] >> (24 - 8 * (i % 4)));
	secret_wipe(limb, sizeof(limb));
	return carry == 0;
}

static void encode_secret(const uint8_t secret[32], char ret[SECRET_LEN])
{
	uint8_t n[32];

	memcpy(n, secret, sizeof(n));
	for (int i = SECRET_LEN - 1; i >= 0; i--) {
		unsigned rest = 0;

		for (unsigned k = 0; k < sizeof(n); k++) {
			rest = rest << 8 | n[k];
			n[k] = (uint8_t)(rest / 62);
			rest %= 62;
		}
		ret[i] = digits[rest];
	}
	secret_wipe(n, sizeof(n));
}

void key_pepper_derive(const uint8_t master[32], struct key_pepper *ret)
{
	secret_derive(master, "toolcrib/pepper/1", ret->k);
}

void key_make(const struct key_pepper *pepper, struct key_new *ret)
{
	char accessor[KEY_ACCESSOR_SIZE];

	id_random_text(accessor, ACCESSOR_LEN);
	key_remake(pepper, accessor, ret);
}

void key_remake(const struct key_pepper *pepper, const char *accessor, struct key_new *ret)
{
	uint8_t secret[32];

	id_random(secret, sizeof(secret));
	memcpy(ret->accessor, accessor, KEY_ACCESSOR_SIZE);
	memcpy(ret->text, KEY_PREFIX, PREFIX_LEN);
	memcpy(ret->text + PREFIX_LEN, ret->accessor, ACCESSOR_LEN);
	ret->text[SECRET_AT - 1] = '_';
	encode_secret(secret, ret->text + SECRET_AT);
	write_crc(ret->text, ret->text + CRC_AT);
	ret->text[KEY_LEN] = '\0';
	secret_wipe(secret, sizeof(secret));
	key_hash(pepper, ret->text + SECRET_AT, ret->hash);
}

/* What is no key costs what a key does, wherever it goes wrong (SEC S-309): the rest of the work is done on
 * another one. */
int key_parse(const char *text, size_t len, const char **ret_accessor, const char **ret_secret)
{
	static const char stand_in[KEY_TEXT_SIZE] = "tck_000000000000_0000000000000000000000000000000000000000000000000";
	bool shaped = len == KEY_LEN && memcmp(text, KEY_PREFIX, PREFIX_LEN) == 0 && text[SECRET_AT - 1] == '_' &&
		all_digits(text + PREFIX_LEN, ACCESSOR_LEN) && all_digits(text + SECRET_AT, SECRET_LEN + CRC_LEN);
	const char *p = shaped ? text : stand_in;
	uint8_t secret[32];
	char crc[CRC_LEN];
	bool whole, fits;

	write_crc(p, crc);
	whole = memcmp(crc, p + CRC_AT, CRC_LEN) == 0;
	fits = decode_secret(p + SECRET_AT, secret);
	secret_wipe(secret, sizeof(secret));
	if (!shaped || !whole || !fits)
		return ERR_INVALID;
	*ret_accessor = text + PREFIX_LEN;
	*ret_secret = text + SECRET_AT;
	return 0;
}

void key_hash(const struct key_pepper *pepper, const char *secret, uint8_t ret[32])
{
	uint8_t bytes[32];

	(void)decode_secret(secret, bytes); /* key_parse() saw that it fits */
	digest_keyed(pepper->k, KEY_HASH_PREFIX, sizeof(KEY_HASH_PREFIX), bytes, sizeof(bytes), ret);
	secret_wipe(bytes, sizeof(bytes));
}
