/* The header of an age file: the version, a stanza for each recipient, the MAC.  Nothing is computed before all of it
 * has been read and its stanzas counted. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/id.h"

#include "age_int.h"

#define FORMAT "age-encryption.org/v1\n"
#define STANZA "-> "
#define KIND "X25519"
#define MAC "---"
#define INFO "age-encryption.org/v1/X25519"
enum { COLUMNS = 64, KEY_TEXT = 43 };   /* of a body; 32 bytes as base64 without padding */

/* --- made */

static void put_key(struct str *to, const uint8_t key[32])
{
	char text[48];

	text_base64(key, 32, text);
	str_put(to, text, KEY_TEXT);
}

static void wrap_key(const uint8_t shared[CURVE_SIZE], const uint8_t share[CURVE_SIZE], const uint8_t point[CURVE_SIZE],
		     uint8_t ret[DIGEST_SIZE])
{
	uint8_t salt[2 * CURVE_SIZE];

	memcpy(salt, share, CURVE_SIZE);
	memcpy(salt + CURVE_SIZE, point, CURVE_SIZE);
	digest_hkdf(salt, sizeof(salt), shared, CURVE_SIZE, INFO, ret);
}

static void put_stanza(struct str *to, const struct age_recipient *r, const uint8_t key[AGE_FILE_KEY])
{
	static const uint8_t nonce[CHACHA_NONCE];
	uint8_t secret[CURVE_SIZE], share[CURVE_SIZE], shared[CURVE_SIZE], wrap[DIGEST_SIZE], body[AGE_FILE_KEY + AEAD_TAG];

	id_random(secret, sizeof(secret));
	curve_public(secret, share);
	if (curve_share(secret, r->point, shared) < 0)
		abort();                /* age_recipient_parse() has tried it */
	wrap_key(shared, share, r->point, wrap);
	chacha_seal(wrap, nonce, key, AGE_FILE_KEY, body);
	str_puts(to, STANZA KIND " ");
	put_key(to, share);
	str_putc(to, '\n');
	put_key(to, body);
	str_putc(to, '\n');
	secret_wipe(secret, sizeof(secret));
	secret_wipe(shared, sizeof(shared));
	secret_wipe(wrap, sizeof(wrap));
}

static void make_mac(const uint8_t key[AGE_FILE_KEY], const char *p, size_t n, uint8_t ret[DIGEST_SIZE])
{
	uint8_t by[DIGEST_SIZE];

	digest_hkdf("", 0, key, AGE_FILE_KEY, "header", by);
	digest_hmac(by, &(struct digest_part){ p, n }, 1, ret);
	secret_wipe(by, sizeof(by));
}

void age_header_make(const struct age_recipient *to, size_t n, const uint8_t key[AGE_FILE_KEY], struct str *ret)
{
	uint8_t mac[DIGEST_SIZE];

	str_puts(ret, FORMAT);
	for (size_t i = 0; i < n; i++)
		put_stanza(ret, &to[i], key);
	str_puts(ret, MAC);
	make_mac(key, ret->p, ret->len, mac);
	str_putc(ret, ' ');
	put_key(ret, mac);
	str_putc(ret, '\n');
}

/* --- read */

struct scan { const char *p, *end; struct err *err; };

static int bad(struct scan *s, const char *what)
{
	return err_set(s->err, ERR_CORRUPT, "", "no file of age: %s", what);
}

/* 1: a line, without its end; 0: it is not all there. */
static int line(struct scan *s, const char **ret, size_t *ret_len)
{
	const char *stop = memchr(s->p, '\n', (size_t)(s->end - s->p));

	if (!stop)
		return 0;
	*ret = s->p;
	*ret_len = (size_t)(stop - s->p);
	s->p = stop + 1;
	return 1;
}

/* Of exactly 32 bytes, in the one way that they are written. */
static bool read_key(const char *p, size_t len, uint8_t ret[32])
{
	char text[48];
	size_t n = 0;

	if (len != KEY_TEXT)
		return false;
	memcpy(text, p, KEY_TEXT);
	text[KEY_TEXT] = '=';
	if (text_unbase64(text, KEY_TEXT + 1, ret, 32, &n) < 0 || n != 32)
		return false;
	text_base64(ret, 32, text);
	return memcmp(text, p, KEY_TEXT) == 0;
}

static bool is_base64(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!((p[i] >= 'A' && p[i] <= 'Z') || (p[i] >= 'a' && p[i] <= 'z') || (p[i] >= '0' && p[i] <= '9') ||
		      p[i] == '+' || p[i] == '/'))
			return false;
	return len % 4 != 1;
}

/* Words with one space between them. */
static bool are_words(const char *p, size_t len)
{
	bool space = true;

	for (size_t i = 0; i < len; i++) {
		if (p[i] == ' ' ? space : p[i] < 33 || p[i] > 126)
			return false;
		space = p[i] == ' ';
	}
	return !space;
}

/* Behind "-> ": the words are there, the body follows. */
static int stanza(struct scan *s, const char *words, size_t len, struct age_header *h)
{
	const size_t head = sizeof(KIND " ") - 1;
	const bool ours = len >= head && memcmp(words, KIND " ", head) == 0;
	const char *body, *text = NULL;
	size_t n, lines = 0, text_len = 0;

	if (!are_words(words, len))
		return bad(s, "a stanza without words");
	do {
		int rc = line(s, &body, &n);

		if (rc <= 0)
			return rc;
		if (n > COLUMNS || !is_base64(body, n))
			return bad(s, "a stanza's body is no base64");
		text = text ? text : body;
		text_len = lines++ ? text_len : n;
	} while (n == COLUMNS);
	if (h->n + h->others == AGE_STANZAS_MAX)
		return err_set(s->err, ERR_LIMIT, "", "a file of age for more than %d recipients", AGE_STANZAS_MAX);
	if (!ours) {
		h->others++;
		return 1;
	}
	if (lines != 1 || !read_key(words + head, len - head, h->stanza[h->n].share) ||
	    !read_key(text, text_len, h->stanza[h->n].body))
		return bad(s, "a stanza of X25519 has other parts");
	h->n++;
	return 1;
}

static int last_line(struct scan *s, const char *from, const char *l, size_t len, struct age_header *h)
{
	const size_t head = sizeof(MAC " ") - 1;

	if (len < head || memcmp(l, MAC " ", head) != 0 || !read_key(l + head, len - head, h->mac))
		return bad(s, "a line that is neither stanza nor MAC");
	if (h->n + h->others == 0)
		return bad(s, "it is for nobody");
	h->signed_len = (size_t)(l - from) + sizeof(MAC) - 1;
	h->len = (size_t)(s->p - from);
	return 1;
}

int age_header_parse(const char *p, size_t n, struct age_header *ret, struct err *err)
{
	const size_t head = sizeof(FORMAT) - 1, arrow = sizeof(STANZA) - 1;
	struct age_header h = { .n = 0 };
	struct scan s = { p, p + (n < AGE_HEADER_MAX ? n : AGE_HEADER_MAX), err };
	const char *l = NULL;
	size_t len = 0;
	int rc;

	if (n > 0 && memcmp(p, FORMAT, n < head ? n : head) != 0)
		return bad(&s, "it does not begin with age-encryption.org/v1");
	if (n < head)
		return 0;
	s.p += head;
	while ((rc = line(&s, &l, &len)) == 1 && len >= arrow && memcmp(l, STANZA, arrow) == 0) {
		rc = stanza(&s, l + arrow, len - arrow, &h);
		if (rc != 1)
			break;
	}
	if (rc == 1)
		rc = last_line(&s, p, l, len, &h);
	if (rc == 0 && n >= AGE_HEADER_MAX)
		return err_set(err, ERR_LIMIT, "", "a file of age with a header of more than %d bytes", AGE_HEADER_MAX);
	if (rc == 1)
		*ret = h;
	return rc;
}

static bool unwrap(const struct age_stanza *st, const struct age_identity *id, uint8_t ret[AGE_FILE_KEY])
{
	static const uint8_t nonce[CHACHA_NONCE];
	uint8_t shared[CURVE_SIZE], point[CURVE_SIZE], wrap[DIGEST_SIZE];
	bool fits;

	if (curve_share(id->secret, st->share, shared) < 0)
		return false;
	curve_public(id->secret, point);
	wrap_key(shared, st->share, point, wrap);
	fits = chacha_open(wrap, nonce, st->body, sizeof(st->body), ret) == 0;
	secret_wipe(shared, sizeof(shared));
	secret_wipe(wrap, sizeof(wrap));
	return fits;
}

int age_header_open(const struct age_header *h, const char *text, const struct age_identity *ids, size_t n,
		    uint8_t ret[AGE_FILE_KEY], struct err *err)
{
	uint8_t mac[DIGEST_SIZE], key[AGE_FILE_KEY];
	bool found = false;

	for (size_t i = 0; i < h->n && !found; i++)
		for (size_t k = 0; k < n && !found; k++)
			found = unwrap(&h->stanza[i], &ids[k], key);
	if (!found)
		return err_set(err, ERR_DENIED, "", "it is encrypted, and for none of the identities that were given");
	make_mac(key, text, h->signed_len, mac);
	found = secret_equal(mac, h->mac, sizeof(mac));
	if (found)
		memcpy(ret, key, sizeof(key));
	secret_wipe(key, sizeof(key));
	return found ? 0 : err_set(err, ERR_CORRUPT, "", "no file of age: its header was changed");
}
