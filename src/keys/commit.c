/* Commitments and payloads (AUDIT 5): pure functions of bytes, any thread. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "keys/commit.h"

/* All numbers are big-endian; labels end with 0x00.
 *
 *	r    = HMAC-SHA-256(DEK, "toolcrib/r/1" 00, salt, origin, idx (8), ctag (2))
 *	C    = HMAC-SHA-256(r, "toolcrib/c/1" 00, ctag (2), value)
 *	sh   = the first 16 bytes of SHA-256("toolcrib/s/1" 00, salt)
 *	ekey = HMAC-SHA-256(DEK, "toolcrib/e/1" 00)
 *	ct   = XChaCha20-Poly1305-IETF(ekey, values; "toolcrib/p/1" 00, salt, idx (8), key id (8), origin)
 *	       values: for each tag, ascending: tag (2), length (4), bytes
 *	alias: XChaCha20-Poly1305-IETF(ekey, value; "toolcrib/a/1" 00, kind (8), key id (8), origin 00, pseudonym)
 */

/* With the NUL. */
static const char label_r[] = "toolcrib/r/1", label_c[] = "toolcrib/c/1", label_s[] = "toolcrib/s/1";
static const char label_e[] = "toolcrib/e/1", label_p[] = "toolcrib/p/1", label_a[] = "toolcrib/a/1";

static void put_be(uint8_t *p, uint64_t v, unsigned bytes)
{
	while (bytes > 0)
		*p++ = (uint8_t)(v >> 8 * --bytes);
}

static uint64_t get_be(const uint8_t *p, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes; i++)
		v = v << 8 | p[i];
	return v;
}

const char *audit_ctag_name(unsigned ctag)
{
#define CTAG_NAME(sym, tag, name) case tag: return name;
	switch (ctag) {
	AUDIT_CTAGS(CTAG_NAME)
	}
#undef CTAG_NAME
	return NULL;
}

void audit_opening(const uint8_t dek[32], const uint8_t salt[AUDIT_SALT_SIZE], const struct audit_at *at, unsigned ctag,
		   uint8_t ret[32])
{
	uint8_t tail[10];
	const struct digest_part parts[] = {
		{ label_r, sizeof(label_r) }, { salt, AUDIT_SALT_SIZE }, { at->origin, at->origin_len }, { tail, sizeof(tail) },
	};

	put_be(tail, at->idx, 8);
	put_be(tail + 8, ctag, 2);
	digest_hmac(dek, parts, sizeof(parts) / sizeof(parts[0]), ret);
}

void audit_commitment(const uint8_t opening[32], unsigned ctag, const void *value, size_t len, uint8_t ret[32])
{
	uint8_t tag[2];
	const struct digest_part parts[] = { { label_c, sizeof(label_c) }, { tag, sizeof(tag) }, { value, len } };

	put_be(tag, ctag, 2);
	digest_hmac(opening, parts, sizeof(parts) / sizeof(parts[0]), ret);
}

void audit_salt_check(const uint8_t salt[AUDIT_SALT_SIZE], uint8_t ret[16])
{
	uint8_t text[sizeof(label_s) + AUDIT_SALT_SIZE], digest[DIGEST_SIZE];

	memcpy(text, label_s, sizeof(label_s));
	memcpy(text + sizeof(label_s), salt, AUDIT_SALT_SIZE);
	digest_sha256(text, sizeof(text), digest);
	memcpy(ret, digest, 16);
}

void audit_payload_key(const uint8_t dek[32], uint8_t ret[32])
{
	const struct digest_part part = { label_e, sizeof(label_e) };

	digest_hmac(dek, &part, 1, ret);
}

bool audit_cm_read(const uint8_t *p, size_t len, struct audit_cm ret[AUDIT_COMMITS_MAX], size_t *ret_n)
{
	size_t n = len / 34;

	if (len % 34 != 0 || n == 0 || n > AUDIT_COMMITS_MAX)
		return false;
	for (size_t i = 0; i < n; i++, p += 34) {
		ret[i] = (struct audit_cm){ (unsigned)get_be(p, 2), p + 2 };
		if (ret[i].ctag == 0 || (i > 0 && ret[i].ctag <= ret[i - 1].ctag))
			return false;
	}
	*ret_n = n;
	return true;
}

bool audit_kept_read(const uint8_t *p, size_t len, struct audit_kept ret[AUDIT_COMMITS_MAX], size_t *ret_n)
{
	size_t n = 0;

	for (unsigned last = 0; len > 0; n++) {
		size_t size;

		if (len < 6 || n == AUDIT_COMMITS_MAX)
			return false;
		size = (size_t)get_be(p + 2, 4);
		ret[n] = (struct audit_kept){ (unsigned)get_be(p, 2), p + 6, size };
		if (ret[n].ctag <= last || size > len - 6)
			return false;
		last = ret[n].ctag;
		p += 6 + size;
		len -= 6 + size;
	}
	*ret_n = n;
	return true;
}

/* Associated data.  PLACE_ROOM holds that of a usual origin. */
enum { PLACE_ROOM = 512 };
struct place { uint8_t *p; size_t len; uint8_t room[PLACE_ROOM]; };

static void place_begin(struct place *ad, size_t size)
{
	ad->p = size <= sizeof(ad->room) ? ad->room : mem_alloc(size);
	ad->len = 0;
}

static void place_put(struct place *ad, const void *p, size_t len)
{
	memcpy(ad->p + ad->len, p, len);
	ad->len += len;
}

static void place_end(struct place *ad)
{
	if (ad->p != ad->room)
		free(ad->p);
}

/* Of a payload. */
static void put_place(struct place *ad, int64_t key_id, const uint8_t salt[AUDIT_SALT_SIZE], const struct audit_at *at)
{
	uint8_t numbers[16];

	put_be(numbers, at->idx, 8);
	put_be(numbers + 8, (uint64_t)key_id, 8);
	place_begin(ad, sizeof(label_p) + AUDIT_SALT_SIZE + sizeof(numbers) + at->origin_len);
	place_put(ad, label_p, sizeof(label_p));
	place_put(ad, salt, AUDIT_SALT_SIZE);
	place_put(ad, numbers, sizeof(numbers));
	place_put(ad, at->origin, at->origin_len);
}

void audit_payload_seal(const uint8_t ekey[32], int64_t key_id, const uint8_t salt[AUDIT_SALT_SIZE],
			const struct audit_at *at, const uint8_t *values, size_t len, uint8_t ret_nonce[24], uint8_t *ret)
{
	struct place ad;

	put_place(&ad, key_id, salt, at);
	aead_encrypt(ekey, ad.p, ad.len, values, len, ret_nonce, ret);
	place_end(&ad);
}

static int open_with(const uint8_t ekey[32], struct place *ad, const uint8_t nonce[24], const uint8_t *ct, size_t len,
		     uint8_t *ret)
{
	int rc = aead_decrypt(ekey, ad->p, ad->len, nonce, ct, len, ret);

	place_end(ad);
	return rc < 0 ? ERR_CORRUPT : 0;
}

int audit_payload_open(const uint8_t ekey[32], int64_t key_id, const uint8_t salt[AUDIT_SALT_SIZE],
		       const struct audit_at *at, const uint8_t nonce[24], const uint8_t *ct, size_t len, uint8_t *ret)
{
	struct place ad;

	put_place(&ad, key_id, salt, at);
	return open_with(ekey, &ad, nonce, ct, len, ret);
}

static void put_alias_place(struct place *ad, int64_t key_id, int kind, const char *origin, const char *name)
{
	const size_t origin_len = strlen(origin) + 1, name_len = strlen(name);
	uint8_t numbers[16];

	put_be(numbers, (uint64_t)kind, 8);
	put_be(numbers + 8, (uint64_t)key_id, 8);
	place_begin(ad, sizeof(label_a) + sizeof(numbers) + origin_len + name_len);
	place_put(ad, label_a, sizeof(label_a));
	place_put(ad, numbers, sizeof(numbers));
	place_put(ad, origin, origin_len);
	place_put(ad, name, name_len);
}

void audit_pseudonym_seal(const uint8_t ekey[32], int64_t key_id, int kind, const char *origin, const char *name,
		      const void *value, size_t len, uint8_t ret_nonce[24], uint8_t *ret)
{
	struct place ad;

	put_alias_place(&ad, key_id, kind, origin, name);
	aead_encrypt(ekey, ad.p, ad.len, value, len, ret_nonce, ret);
	place_end(&ad);
}

int audit_pseudonym_open(const uint8_t ekey[32], int64_t key_id, int kind, const char *origin, const char *name,
		     const uint8_t nonce[24], const uint8_t *ct, size_t len, uint8_t *ret)
{
	struct place ad;

	put_alias_place(&ad, key_id, kind, origin, name);
	return open_with(ekey, &ad, nonce, ct, len, ret);
}
