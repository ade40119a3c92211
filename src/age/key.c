/* Recipients and identities as text: Bech32 (BIP 173) of 32 bytes. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"

#include "age_int.h"

#define IDENTITY_FILE_MAX 65536
enum { WORDS = 52, SUM = 6 };           /* of five bits: 256 of them and four of padding; the checksum */

static const char charset[] = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";

static uint32_t polymod(uint32_t sum, unsigned word)
{
	static const uint32_t gen[] = { 0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3 };
	const uint32_t top = sum >> 25;

	sum = (sum & 0x1ffffff) << 5 ^ word;
	for (unsigned i = 0; i < 5; i++)
		sum ^= top >> i & 1 ? gen[i] : 0;
	return sum;
}

static uint32_t polymod_prefix(const char *prefix)
{
	uint32_t sum = 1;

	for (const char *p = prefix; *p; p++)
		sum = polymod(sum, (unsigned)*p >> 5);
	sum = polymod(sum, 0);
	for (const char *p = prefix; *p; p++)
		sum = polymod(sum, (unsigned)*p & 31);
	return sum;
}

/* prefix in lower case; the text is all of one case, that of `upper`. */
static bool decode(const char *prefix, bool upper, const char *text, size_t len, uint8_t ret[CURVE_SIZE])
{
	const size_t head = strlen(prefix);
	uint32_t sum = polymod_prefix(prefix), bits = 0;
	uint8_t out[CURVE_SIZE];
	unsigned nbits = 0;
	size_t n = 0;

	if (len != head + 1 + WORDS + SUM || text[head] != '1')
		return false;
	for (size_t i = 0; i < len; i++) {
		const bool cased = upper ? text[i] >= 'A' && text[i] <= 'Z' : text[i] >= 'a' && text[i] <= 'z';
		const char c = (char)(cased && upper ? text[i] + ('a' - 'A') : text[i]);
		const char *at = c ? strchr(charset, c) : NULL;
		const bool letter = (c >= 'a' && c <= 'z');

		if (letter && !cased)
			return false;
		if (i < head && c != prefix[i])
			return false;
		if (i <= head)
			continue;
		if (!at)
			return false;
		sum = polymod(sum, (unsigned)(at - charset));
		if (i > head + WORDS)
			continue;
		bits = bits << 5 | (uint32_t)(at - charset);
		nbits += 5;
		if (nbits >= 8 && n < sizeof(out)) {
			nbits -= 8;
			out[n++] = (uint8_t)(bits >> nbits);
		}
	}
	if (sum != 1 || (bits & ((1u << nbits) - 1)) != 0)
		return false;
	memcpy(ret, out, sizeof(out));
	secret_wipe(out, sizeof(out));
	return true;
}

static void encode(const char *prefix, const uint8_t key[CURVE_SIZE], char *ret)
{
	uint32_t sum = polymod_prefix(prefix), bits = 0;
	unsigned nbits = 0;
	char *at = ret + strlen(prefix);

	memcpy(ret, prefix, strlen(prefix));
	*at++ = '1';
	for (size_t i = 0, words = 0; words < WORDS; words++) {
		if (nbits < 5) {
			bits = bits << 8 | (i < CURVE_SIZE ? key[i] : 0);
			i++;
			nbits += 8;
		}
		nbits -= 5;
		sum = polymod(sum, bits >> nbits & 31);
		*at++ = charset[bits >> nbits & 31];
	}
	for (unsigned i = 0; i < SUM; i++)
		sum = polymod(sum, 0);
	sum ^= 1;
	for (unsigned i = 0; i < SUM; i++)
		*at++ = charset[sum >> 5 * (SUM - 1 - i) & 31];
	*at = '\0';
}

int age_recipient_parse(const char *text, struct age_recipient *ret, struct err *err)
{
	static const uint8_t secret[CURVE_SIZE] = { 1 };
	uint8_t shared[CURVE_SIZE];

	/* Of a few points all secrets are alike (RFC 7748 6.1): nobody could read what is for them. */
	if (decode("age", false, text, strlen(text), ret->point) && curve_share(secret, ret->point, shared) == 0)
		return 0;
	(void)err_set(err, ERR_INVALID, "", "\"%.80s\" is no recipient of age", text);
	err_hint(err, "age-keygen prints one behind \"Public key:\"; it begins with age1");
	return ERR_INVALID;
}

int age_recipients_parse(const char *list, struct age_recipient ret[AGE_RECIPIENTS_MAX], size_t *ret_n, struct err *err)
{
	char *text = mem_strdup(list), *rest = NULL;
	size_t n = 0;
	int rc = 0;

	for (char *one = strtok_r(text, ",", &rest); one && rc == 0; one = strtok_r(NULL, ",", &rest)) {
		if (n == AGE_RECIPIENTS_MAX)
			rc = err_set(err, ERR_LIMIT, "", "more than %d recipients", AGE_RECIPIENTS_MAX);
		else
			rc = age_recipient_parse(one, &ret[n++], err);
	}
	free(text);
	if (rc == 0 && n == 0)
		rc = err_set(err, ERR_INVALID, "", "no recipient");
	if (rc == 0)
		*ret_n = n;
	return rc;
}

void age_recipient_print(const struct age_recipient *r, char ret[AGE_RECIPIENT_SIZE])
{
	encode("age", r->point, ret);
}

void age_recipient_of(const struct age_identity *id, struct age_recipient *ret)
{
	curve_public(id->secret, ret->point);
}

int age_identity_parse(const char *text, size_t len, struct age_identity *ret, struct err *err)
{
	return decode("age-secret-key-", true, text, len, ret->secret) ? 0
		: err_set(err, ERR_INVALID, "", "a line that is no identity of age, which begins with AGE-SECRET-KEY-1");
}

int age_identities_read(const char *path, struct age_identity ret[AGE_IDENTITIES_MAX], size_t *ret_n, struct err *err)
{
	struct str text = STR_INIT;
	size_t n = 0, line = 0;
	int rc = path_read(path, IDENTITY_FILE_MAX, &text, err);

	for (const char *at = str_text(&text), *end = at + text.len; rc == 0 && at < end; line++) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		const size_t len = (size_t)((stop ? stop : end) - at);
		const size_t bare = len - (len > 0 && at[len - 1] == '\r');

		if (bare > 0 && *at != '#') {
			if (n == AGE_IDENTITIES_MAX)
				rc = err_set(err, ERR_LIMIT, path, "more than %d identities", AGE_IDENTITIES_MAX);
			else
				rc = age_identity_parse(at, bare, &ret[n++], err);
			if (rc == ERR_INVALID)
				(void)err_wrap(err, "%s, line %zu", path, line + 1);
		}
		at += len + (stop != NULL);
	}
	str_wipe(&text);
	if (rc == 0 && n == 0)
		rc = err_set(err, ERR_INVALID, path, "%s has no identity", path);
	if (rc == 0)
		*ret_n = n;
	return rc;
}
