/*
 * Sealed text: "v1." base64url(payload) "." base64url(tag).
 * tag = HMAC-SHA-256(key, purpose, 0x00, length of context as 8 bytes little-endian, context, payload).
 * The length keeps a byte from moving between context and payload under the same tag.
 */

#include "config.h"

#include "base/crypto.h"

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/mem.h"
#include "base/text.h"

#define SEAL_VERSION "v1."
enum { TAG_SIZE = crypto_auth_hmacsha256_BYTES, TAG_TEXT_SIZE = 44 };   /* with NUL */

struct seal {
	char *purpose;
	uint8_t *key;           /* SECRET_KEY_SIZE, locked */
};

struct seal *seal_new(const uint8_t master[32], const char *purpose)
{
	struct seal *s = mem_zalloc(sizeof *s);

	s->purpose = mem_strdup(purpose);
	s->key = secret_alloc(SECRET_KEY_SIZE);
	secret_derive(master, purpose, s->key);
	return s;
}

void seal_free(struct seal **s)
{
	if (!s || !*s)
		return;
	secret_free((*s)->key);
	free((*s)->purpose);
	free(*s);
	*s = NULL;
}

static void make_tag(const struct seal *s, const void *context, size_t context_len, const void *payload,
		     size_t len, uint8_t ret[TAG_SIZE])
{
	crypto_auth_hmacsha256_state state;
	uint8_t size[8];

	for (unsigned i = 0; i < sizeof size; i++)
		size[i] = (uint8_t)((uint64_t)context_len >> (8 * i));
	crypto_auth_hmacsha256_init(&state, s->key, SECRET_KEY_SIZE);
	crypto_auth_hmacsha256_update(&state, (const unsigned char *)s->purpose, strlen(s->purpose) + 1);
	crypto_auth_hmacsha256_update(&state, size, sizeof size);
	crypto_auth_hmacsha256_update(&state, context, context_len);
	crypto_auth_hmacsha256_update(&state, payload, len);
	crypto_auth_hmacsha256_final(&state, ret);
	secret_wipe(&state, sizeof state);
}

void seal_make(const struct seal *s, const void *context, size_t context_len, const void *payload, size_t len,
	       struct str *ret)
{
	uint8_t tag[TAG_SIZE];
	char tag_text[TAG_TEXT_SIZE];
	char *text = mem_alloc(text_base64url_size(len));

	make_tag(s, context, context_len, payload, len, tag);
	text_base64url(payload, len, text);
	text_base64url(tag, sizeof tag, tag_text);
	str_puts(ret, SEAL_VERSION);
	str_puts(ret, text);
	str_putc(ret, '.');
	str_puts(ret, tag_text);
	free(text);
}

int seal_open(const struct seal *s, const void *context, size_t context_len, const char *text, size_t len,
	      struct str *ret)
{
	const size_t head_len = strlen(SEAL_VERSION), tail_len = TAG_TEXT_SIZE;      /* "." and 43 digits */
	uint8_t tag[TAG_SIZE], want[TAG_SIZE], *payload = NULL;
	size_t n, body_len;
	int rc = ERR_INVALID;

	if (len < head_len + tail_len || memcmp(text, SEAL_VERSION, head_len) != 0 || text[len - tail_len] != '.')
		return ERR_INVALID;
	if (text_unbase64url(text + len - tail_len + 1, tail_len - 1, tag, sizeof tag, &n) < 0)
		return ERR_INVALID;
	body_len = len - head_len - tail_len;
	payload = mem_alloc(body_len);
	if (text_unbase64url(text + head_len, body_len, payload, body_len, &n) < 0)
		goto out;
	make_tag(s, context, context_len, payload, n, want);
	if (!secret_equal(tag, want, sizeof tag))
		goto out;
	str_put(ret, payload, n);
	rc = ret->failed ? ERR_INVALID : 0;
out:
	free(payload);
	return rc;
}
