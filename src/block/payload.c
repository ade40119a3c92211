/* Payloads of records in a block: salts, nonces, ciphertexts of a group, which an erasure writes anew without those
 * that go (SC-804).  A pure function of bytes. */

#include "config.h"

#include "block_int.h"

enum { PIECES = 3, HEAD_MAX = 2 + BLOCK_PAYLOADS_MAX * PIECES * VARINT_MAX };

/* 0: nothing; else the length and one. */
static uint64_t told(const struct block_bytes *b)
{
	return b->p ? (uint64_t)b->len + 1 : 0;
}

static size_t size_of(const struct block_payload *v)
{
	return v->salt.len + v->nonce.len + v->ct.len;
}

static int look(const struct block_payload *v, struct err *err)
{
	const size_t most = BLOCK_BODY_MAX - HEAD_MAX;

	if (!v->salt.p && (v->nonce.p || v->ct.p))
		return err_set(err, ERR_INVALID, "pay", "block format 1 cannot carry a payload without a salt");
	if (v->salt.len > most || v->nonce.len > most || v->ct.len > most || size_of(v) > most)
		return err_set(err, ERR_INVALID, "pay", "block format 1 cannot carry a payload of 4 MiB");
	return 0;
}

static void put_bytes(struct audit_bytes *out, const struct block_bytes *b)
{
	if (b->len > 0)
		memcpy(block_room(out, b->len), b->p, b->len);
	out->len += b->len;
}

int block_payloads_write(const struct block_payload *v, size_t n, struct audit_bytes *out, size_t *ret_n,
			 struct err *err)
{
	size_t size = HEAD_MAX, taken = 0;

	while (taken < n && taken < BLOCK_PAYLOADS_MAX) {
		int rc = look(&v[taken], taken == 0 ? err : NULL);

		if (rc < 0 && taken == 0)
			return rc;
		if (rc < 0 || size + size_of(&v[taken]) > BLOCK_BODY_MAX)
			break;
		size += size_of(&v[taken++]);
	}
	out->len = 0;
	block_put(out, taken);
	for (size_t i = 0; i < taken; i++) {
		block_put(out, told(&v[i].salt));
		block_put(out, told(&v[i].nonce));
		block_put(out, told(&v[i].ct));
	}
	for (size_t i = 0; i < taken; i++) {
		put_bytes(out, &v[i].salt);
		put_bytes(out, &v[i].nonce);
		put_bytes(out, &v[i].ct);
	}
	*ret_n = taken;
	return 0;
}

/* Lengths first; then where the bytes are, as far as they go. */
static const uint8_t *read_lengths(const uint8_t *p, const uint8_t *end, size_t n, struct block_payload *v,
				   size_t *ret_sum)
{
	uint64_t len[PIECES];
	size_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		struct block_bytes *piece[PIECES] = { &v[i].salt, &v[i].nonce, &v[i].ct };

		for (unsigned k = 0; k < PIECES; k++) {
			p = p ? get_up_to(p, end, BLOCK_BODY_MAX, &len[k]) : NULL;
			if (!p)
				return NULL;
			*piece[k] = (struct block_bytes){ len[k] ? p : NULL, len[k] ? (size_t)len[k] - 1 : 0 };
			sum += piece[k]->len;
		}
		if (len[0] == 0 && (len[1] | len[2]) != 0)
			return NULL;
	}
	*ret_sum = sum;
	return p;
}

int block_payloads_read(const void *body, size_t len, struct block_payload v[BLOCK_PAYLOADS_MAX], size_t *ret_n,
			struct err *err)
{
	const uint8_t *p = body, *end = p + len;
	uint64_t n = 0;
	size_t sum = 0;

	p = len > 0 && len <= BLOCK_BODY_MAX ? get_up_to(p, end, BLOCK_PAYLOADS_MAX, &n) : NULL;
	if (p && n > 0)
		p = read_lengths(p, end, (size_t)n, v, &sum);
	if (!p || n == 0 || sum != (size_t)(end - p))
		return block_bad(err, "blkpay", "lengths do not make up the payloads that are there");
	for (size_t i = 0; i < n; i++) {
		struct block_bytes *piece[PIECES] = { &v[i].salt, &v[i].nonce, &v[i].ct };

		for (unsigned k = 0; k < PIECES; k++)
			if (piece[k]->p) {
				piece[k]->p = p;
				p += piece[k]->len;
			}
	}
	*ret_n = (size_t)n;
	return 0;
}
