/* One TLS connection over a socket that does not block: a step of its handshake, its bytes, what the peer's certificate
 * says.  Nothing here waits or calls up. */
#include "config.h"

#include "tls_int.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"

struct name {
	enum tls_name kind;
	size_t len;
	char *text;                     /* as in the certificate: it may hold a NUL, and then equals no value */
};

struct tls {
	SSL *ssl;
	bool starved;                   /* the last read found nothing whole in the buffer */
	bool wants_write, broken, ended;
	X509 *cert;                     /* the peer's, counted; or NULL */
	struct name *names;
	size_t nnames;
};

struct tls *tls_wrap(SSL *ssl)
{
	struct tls *t = mem_zalloc(sizeof(*t));
	t->ssl = ssl;
	return t;
}

void tls_free(struct tls **pt)
{
	if (!pt || !*pt)
		return;
	struct tls *t = *pt;
	*pt = NULL;
	for (size_t i = 0; i < t->nnames; i++)
		free(t->names[i].text);
	free(t->names);
	X509_free(t->cert);
	SSL_free(t->ssl);
	free(t);
}

/* --- the peer's certificate ---------------------------------------------------------------------- */

static void add_name(struct tls *t, enum tls_name kind, const void *p, size_t len)
{
	struct name *n = &t->names[t->nnames++];
	n->kind = kind;
	n->len = len;
	n->text = mem_alloc(len + 1);
	memcpy(n->text, p, len);
	n->text[len] = '\0';
}

static void add_key(struct tls *t)
{
	uint8_t digest[DIGEST_SIZE];
	char hex[2 * DIGEST_SIZE + 1];
	unsigned char *der = NULL;
	int n = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(t->cert), &der);
	if (n <= 0)
		return;
	digest_sha256(der, (size_t)n, digest);
	OPENSSL_free(der);
	text_hex(digest, sizeof(digest), hex);
	add_name(t, TLS_SPKI, hex, sizeof(hex) - 1);
}

static void note_cert(struct tls *t)
{
	t->cert = SSL_get1_peer_certificate(t->ssl);
	if (!t->cert)
		return;
	t->names = mem_calloc(TLS_NAMES_MAX + 1, sizeof(*t->names));
	add_key(t);
	GENERAL_NAMES *all = X509_get_ext_d2i(t->cert, NID_subject_alt_name, NULL, NULL);
	for (int i = 0; i < sk_GENERAL_NAME_num(all) && i < TLS_NAMES_MAX; i++) {
		const GENERAL_NAME *g = sk_GENERAL_NAME_value(all, i);
		const ASN1_IA5STRING *text = g->type == GEN_URI || g->type == GEN_DNS ? g->d.ia5 : NULL;
		if (text)
			add_name(t, g->type == GEN_URI ? TLS_URI : TLS_DNS, ASN1_STRING_get0_data(text),
				 (size_t)ASN1_STRING_length(text));
	}
	GENERAL_NAMES_free(all);
	ERR_clear_error();
}

bool tls_has_cert(const struct tls *t)
{
	return t->cert;
}

uint64_t tls_cert_until(const struct tls *t)
{
	return t->cert ? tls_end_of(t->cert) : 0;
}

bool tls_cert_is(const struct tls *t, enum tls_name kind, const char *value)
{
	for (size_t i = 0; i < t->nnames; i++)
		if (t->names[i].kind == kind && text_eq(t->names[i].text, t->names[i].len, value))
			return true;
	return false;
}

/* --- bytes --------------------------------------------------------------------------------------- */

/* What rc, the result of a call of OpenSSL, means.  0: the peer has ended its side. */
static int judge(struct tls *t, int rc)
{
	switch (SSL_get_error(t->ssl, rc)) {
	case SSL_ERROR_WANT_READ:
		t->wants_write = false;
		return TLS_AGAIN;
	case SSL_ERROR_WANT_WRITE:
		t->wants_write = true;
		return TLS_AGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	}
	t->broken = true;
	return TLS_BROKEN;
}

int tls_shake(struct tls *t, const char **ret_why)
{
	ERR_clear_error();
	int rc = SSL_do_handshake(t->ssl);
	if (rc == 1) {
		t->wants_write = false;
		note_cert(t);
		return 0;
	}
	if (judge(t, rc) == TLS_AGAIN)
		return TLS_AGAIN;
	t->broken = true;
	long verdict = SSL_get_verify_result(t->ssl);
	if (ERR_peek_last_error() == 0)
		*ret_why = "the peer left";
	else
		*ret_why = verdict != X509_V_OK ? X509_verify_cert_error_string(verdict) : tls_reason();
	ERR_clear_error();
	return TLS_BROKEN;
}

static int broken(struct tls *t)
{
	metric_inc(METRIC_tls_cut_off);
	ERR_clear_error();
	return TLS_BROKEN;
}

long tls_read(struct tls *t, void *p, size_t n)
{
	if (t->broken)
		return TLS_BROKEN;
	ERR_clear_error();
	int rc = SSL_read(t->ssl, p, n < INT_MAX ? (int)n : INT_MAX);
	t->starved = rc <= 0;
	if (rc > 0) {
		t->wants_write = false;
		return rc;
	}
	rc = judge(t, rc);
	return rc == TLS_BROKEN ? broken(t) : rc;
}

/* A record a turn, as many as go. */
long tls_write(struct tls *t, const void *p, size_t n)
{
	size_t done = 0, part;
	if (t->broken)
		return TLS_BROKEN;
	ERR_clear_error();
	while (done < n) {
		int rc = SSL_write_ex(t->ssl, (const char *)p + done, n - done, &part);
		if (rc == 1) {
			done += part;
			continue;
		}
		/* Behind the handshake nothing that is written waits for the peer, unless it plays games. */
		if (judge(t, rc) == TLS_AGAIN && t->wants_write)
			break;
		t->broken = true;
		return broken(t);
	}
	t->wants_write = done < n;
	return done > 0 || n == 0 ? (long)done : TLS_AGAIN;
}

int tls_end(struct tls *t)
{
	if (t->ended)
		return 0;
	if (t->broken)
		return TLS_BROKEN;
	ERR_clear_error();
	int rc = SSL_shutdown(t->ssl);
	if (rc < 0 && judge(t, rc) == TLS_AGAIN && t->wants_write)
		return TLS_AGAIN;
	t->ended = true;
	t->wants_write = false;
	ERR_clear_error();
	return rc < 0 ? TLS_BROKEN : 0;
}

bool tls_pending(const struct tls *t)
{
	return !t->broken && !t->starved && SSL_has_pending(t->ssl);
}

bool tls_wants_write(const struct tls *t)
{
	return t->wants_write;
}
