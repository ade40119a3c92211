/* The payload of an age file: 16 random bytes, then chunks of 64 KiB under a nonce that counts them and marks the last.
 * A writer keeps one chunk back, and so does a reader, since only what follows says whether it is the last. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/mem.h"

#include "age_int.h"

enum { NONCE = 16, SEALED = AGE_CHUNK + AEAD_TAG };

struct stream { uint8_t key[DIGEST_SIZE]; uint64_t count; };

static void begin(struct stream *s, const uint8_t key[AGE_FILE_KEY], const uint8_t nonce[NONCE])
{
	digest_hkdf(nonce, NONCE, key, AGE_FILE_KEY, "payload", s->key);
	s->count = 0;
}

/* 11 bytes of counter, the high ones zero, and one that is 1 for the last chunk. */
static void next_nonce(struct stream *s, bool last, uint8_t ret[CHACHA_NONCE])
{
	memset(ret, 0, CHACHA_NONCE);
	for (unsigned i = 0; i < 8; i++)
		ret[10 - i] = (uint8_t)(s->count >> 8 * i);
	ret[11] = last;
	s->count++;
}

/* --- writing */

struct age_writer {
	struct stream stream;
	struct str head;                /* still to be put */
	age_put_fn *put;
	void *arg;
	size_t n;
	uint8_t plain[AGE_CHUNK], sealed[SEALED];
};

struct age_writer *age_writer_new(const struct age_recipient *to, size_t n, age_put_fn *put, void *arg)
{
	struct age_writer *w = mem_zalloc(sizeof(*w));
	struct { uint8_t key[AGE_FILE_KEY], nonce[NONCE]; } drawn;

	_Static_assert(sizeof(drawn) > ID_POOL_TAKE, "a key is the kernel's own");
	w->put = put;
	w->arg = arg;
	id_random(&drawn, sizeof(drawn));
	w->head = (struct str)STR_INIT;
	age_header_make(to, n, drawn.key, &w->head);
	str_put(&w->head, drawn.nonce, sizeof(drawn.nonce));
	begin(&w->stream, drawn.key, drawn.nonce);
	secret_wipe(&drawn, sizeof(drawn));
	return w;
}

static int seal_chunk(struct age_writer *w, bool last, struct err *err)
{
	uint8_t nonce[CHACHA_NONCE];
	int rc = w->head.len > 0 ? w->put(w->arg, w->head.p, w->head.len, err) : 0;

	str_reset(&w->head);
	if (rc < 0)
		return rc;
	next_nonce(&w->stream, last, nonce);
	chacha_seal(w->stream.key, nonce, w->plain, w->n, w->sealed);
	rc = w->put(w->arg, w->sealed, w->n + AEAD_TAG, err);
	w->n = 0;
	return rc;
}

int age_writer_put(struct age_writer *w, const void *p, size_t n, struct err *err)
{
	const uint8_t *at = p;
	int rc = 0;

	while (rc == 0 && n > 0) {
		size_t part;

		if (w->n == AGE_CHUNK)
			rc = seal_chunk(w, false, err);
		part = n < AGE_CHUNK - w->n ? n : AGE_CHUNK - w->n;
		memcpy(w->plain + w->n, at, part);
		w->n += part;
		at += part;
		n -= part;
	}
	return rc;
}

int age_writer_end(struct age_writer **wp, struct err *err)
{
	int rc = seal_chunk(*wp, true, err);

	age_writer_free(wp);
	return rc;
}

void age_writer_free(struct age_writer **wp)
{
	struct age_writer *w = *wp;

	*wp = NULL;
	if (!w)
		return;
	str_fini(&w->head);
	secret_wipe(w, sizeof(*w));
	free(w);
}

/* --- reading */

struct age_reader {
	struct stream stream;
	struct age_identity ids[AGE_IDENTITIES_MAX];
	size_t nids;
	struct str head;
	bool opened;
	age_put_fn *put;
	void *arg;
	size_t n;
	uint8_t sealed[SEALED], plain[AGE_CHUNK];
};

struct age_reader *age_reader_new(const struct age_identity *ids, size_t n, age_put_fn *put, void *arg)
{
	struct age_reader *r = mem_zalloc(sizeof(*r));

	r->nids = n < AGE_IDENTITIES_MAX ? n : AGE_IDENTITIES_MAX;
	memcpy(r->ids, ids, r->nids * sizeof(*ids));
	r->put = put;
	r->arg = arg;
	r->head = (struct str)STR_INIT;
	return r;
}

static int changed(struct err *err)
{
	return err_set(err, ERR_CORRUPT, "", "encrypted bytes were changed or cut off");
}

static int open_chunk(struct age_reader *r, bool last, struct err *err)
{
	uint8_t nonce[CHACHA_NONCE];
	const bool first = r->stream.count == 0;

	next_nonce(&r->stream, last, nonce);
	if (r->n < AEAD_TAG || (r->n == AEAD_TAG && !first) ||
	    chacha_open(r->stream.key, nonce, r->sealed, r->n, r->plain) < 0)
		return changed(err);
	r->n -= AEAD_TAG;
	if (r->n > 0 && r->put(r->arg, r->plain, r->n, err) < 0)
		return err ? err->code : ERR_IO;
	r->n = 0;
	return 0;
}

static int take_chunks(struct age_reader *r, const uint8_t *at, size_t n, struct err *err)
{
	int rc = 0;

	while (rc == 0 && n > 0) {
		size_t part;

		if (r->n == SEALED)
			rc = open_chunk(r, false, err);
		part = n < SEALED - r->n ? n : SEALED - r->n;
		memcpy(r->sealed + r->n, at, part);
		r->n += part;
		at += part;
		n -= part;
	}
	return rc;
}

/* Header and nonce are there. */
static int open_head(struct age_reader *r, const struct age_header *h, struct err *err)
{
	uint8_t key[AGE_FILE_KEY];
	int rc = age_header_open(h, r->head.p, r->ids, r->nids, key, err);

	if (rc < 0)
		return rc;
	begin(&r->stream, key, (const uint8_t *)r->head.p + h->len);
	secret_wipe(key, sizeof(key));
	r->opened = true;
	return take_chunks(r, (const uint8_t *)r->head.p + h->len + NONCE, r->head.len - h->len - NONCE, err);
}

int age_reader_put(struct age_reader *r, const void *p, size_t n, struct err *err)
{
	struct age_header h;
	int rc;

	if (r->opened)
		return take_chunks(r, p, n, err);
	str_put(&r->head, p, n);
	rc = age_header_parse(str_text(&r->head), r->head.len, &h, err);
	if (rc <= 0 || r->head.len < h.len + NONCE)
		return rc < 0 ? rc : 0;
	rc = open_head(r, &h, err);
	str_fini(&r->head);
	return rc;
}

int age_reader_end(struct age_reader **rp, struct err *err)
{
	int rc = (*rp)->opened ? open_chunk(*rp, true, err) : changed(err);

	age_reader_free(rp);
	return rc;
}

void age_reader_free(struct age_reader **rp)
{
	struct age_reader *r = *rp;

	*rp = NULL;
	if (!r)
		return;
	str_fini(&r->head);
	secret_wipe(r, sizeof(*r));
	free(r);
}
