/* A listener's certificate, key and rules: files read, checked and put into a context that handshakes are made from. */
#include "config.h"

#include "tls_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"

#define VERIFY_DEPTH 4                  /* certificates between a client's own and the CA's */
#define CLIENT_CERTS_MAX (32u << 10)    /* bytes of all that a client shows */

static const char ciphers_1_2[] =
	"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
	"ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
static const char ciphers_1_3[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
static const char groups[] = "X25519:P-256:P-384";

const char *tls_reason(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_last_error());
	return text ? text : "no reason given";
}

/* --- files --------------------------------------------------------------------------------------- */

/* A key that others may read or the group may change is no secret. */
static int open_key(const char *path, int *ret_fd, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	if (fd < 0)
		return err_set(err, ERR_UNREACHABLE, path, "cannot read it: %s", strerror(errno));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return err_set(err, ERR_INVALID, path, "it is no file");
	}
	if (st.st_mode & (S_IRWXO | S_IWGRP)) {
		close(fd);
		err_set(err, ERR_DENIED, path, "others may use this private key: its mode is %03o", st.st_mode & 0777u);
		err_hint(err, "chmod 600, or 640 with a group that only the server is in");
		return ERR_DENIED;
	}
	*ret_fd = fd;
	return 0;
}

/* The whole file into text[0..TLS_KEY_MAX). */
static int read_all(int fd, const char *path, char *text, size_t *ret_len, struct err *err)
{
	size_t len = 0;
	ssize_t n;
	while ((n = read(fd, text + len, TLS_KEY_MAX - len)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, ERR_UNREACHABLE, path, "cannot read it: %s", strerror(errno));
		len += (size_t)n;
		if (len == TLS_KEY_MAX)
			return err_set(err, ERR_LIMIT, path, "a key has less than %u bytes", TLS_KEY_MAX);
	}
	*ret_len = len;
	return 0;
}

/* Nobody is there to type one. */
static int no_passphrase(char *p, int size, int writing, void *asked)
{
	*(bool *)asked = true;
	return -1;
}

static int parse_key(const char *path, const char *text, size_t len, EVP_PKEY **ret, struct err *err)
{
	bool asked = false;
	BIO *bio = BIO_new_mem_buf(text, (int)len);
	EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, &asked) : NULL;
	BIO_free(bio);
	if (key) {
		*ret = key;
		return 0;
	}
	if (!asked)
		return err_set(err, ERR_INVALID, path, "there is no private key in PEM form in it");
	err_set(err, ERR_INVALID, path, "the private key is encrypted, and nobody is there to type the passphrase");
	err_hint(err, "openssl pkey -in FILE -out NEW takes the passphrase off");
	return ERR_INVALID;
}

static int read_key(const char *path, EVP_PKEY **ret, struct err *err)
{
	size_t len = 0;
	int fd = -1, rc = open_key(path, &fd, err);
	if (rc)
		return rc;
	char *text = secret_alloc(TLS_KEY_MAX);
	rc = read_all(fd, path, text, &len, err);
	close(fd);
	if (rc == 0)
		rc = parse_key(path, text, len, ret, err);
	secret_free(text);
	return rc;
}

static const char *day_of(const ASN1_TIME *t, char *ret, size_t size)
{
	struct tm tm;
	if (!ASN1_TIME_to_tm(t, &tm) || strftime(ret, size, "%Y-%m-%d %H:%M UTC", &tm) == 0)
		ret[0] = '\0';
	return ret;
}

static int check_dates(const char *path, X509 *cert, struct err *err)
{
	char name[128], day[32];
	X509_NAME_oneline(X509_get_subject_name(cert), name, sizeof(name));
	if (X509_cmp_current_time(X509_get0_notAfter(cert)) <= 0)
		return err_set(err, ERR_INVALID, path, "the certificate of %s expired on %s", name,
			       day_of(X509_get0_notAfter(cert), day, sizeof(day)));
	if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
		return err_set(err, ERR_INVALID, path, "the certificate of %s is not valid before %s", name,
			       day_of(X509_get0_notBefore(cert), day, sizeof(day)));
	return 0;
}

/* A file of PEM, of which n things have been read. */
struct pem_file {
	struct str text;
	BIO *bio;
	size_t n;
};

static int pem_open(struct pem_file *f, const char *path, struct err *err)
{
	*f = (struct pem_file){ .text = STR_INIT };
	int rc = path_read(path, TLS_FILE_MAX, &f->text, err);
	if (rc)
		return rc;
	ERR_clear_error();
	f->bio = BIO_new_mem_buf(str_text(&f->text), (int)f->text.len);
	return f->bio ? 0 : err_set(err, ERR_INTERNAL, path, "%s", tls_reason());
}

/* rc: how the reading went.  All of it must have been read, and be at least one; what: it is called so. */
static int pem_close(struct pem_file *f, int rc, const char *path, const char *what, struct err *err)
{
	if (rc == 0 && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
		rc = err_set(err, ERR_INVALID, path, "%s %zu cannot be read: %s", what, f->n + 1, tls_reason());
	else if (rc == 0 && f->n == 0)
		rc = err_set(err, ERR_INVALID, path, "there is no %s in PEM form in it", what);
	ERR_clear_error();
	BIO_free(f->bio);
	str_fini(&f->text);
	return rc;
}

typedef int cert_fn(void *arg, const char *path, X509 *cert, size_t i, struct err *err);

/* Each certificate of a file in turn, with its dates checked; at most max of them. */
static int each_cert(const char *path, size_t max, cert_fn *fn, void *arg, struct err *err)
{
	struct pem_file f;
	int rc = pem_open(&f, path, err);
	for (X509 *cert; rc == 0 && (cert = PEM_read_bio_X509(f.bio, NULL, NULL, NULL)); f.n++) {
		rc = f.n < max ? check_dates(path, cert, err) :
				 err_set(err, ERR_LIMIT, path, "there are more than %zu certificates in it", max);
		if (rc == 0)
			rc = fn(arg, path, cert, f.n, err);
		X509_free(cert);
	}
	return pem_close(&f, rc, path, "certificate", err);
}

/* --- what the context is made of ----------------------------------------------------------------- */

uint64_t tls_end_of(const X509 *cert)
{
	struct tm tm;
	time_t t = ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) ? timegm(&tm) : 0;
	return t > 0 ? (uint64_t)t * 1000000 : 0;
}

/* The first is the server's own. */
static int take_own(void *arg, const char *path, X509 *cert, size_t i, struct err *err)
{
	struct tls_server *s = arg;
	if (i > 0)
		return SSL_CTX_add1_chain_cert(s->ctx, cert) ? 0 :
			err_set(err, ERR_INVALID, path, "certificate %zu is refused: %s", i + 1, tls_reason());
	if (X509_check_purpose(cert, X509_PURPOSE_SSL_SERVER, 0) != 1)
		return err_set(err, ERR_INVALID, path, "the first certificate is not one for servers");
	s->expires_us = tls_end_of(cert);
	if (SSL_CTX_use_certificate(s->ctx, cert) != 1)
		return err_set(err, ERR_INVALID, path, "the certificate is refused: %s", tls_reason());
	return 0;
}

static int take_ca(void *arg, const char *path, X509 *cert, size_t i, struct err *err)
{
	SSL_CTX *ctx = arg;
	if (!X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), cert) || !SSL_CTX_add_client_CA(ctx, cert))
		return err_set(err, ERR_INVALID, path, "certificate %zu is refused: %s", i + 1, tls_reason());
	return 0;
}

/* --- revoked certificates of clients -------------------------------------------------------------- */

/* From one of those who vouch for clients, by its signature? */
static bool is_theirs(X509_STORE *store, X509_CRL *crl)
{
	STACK_OF(X509_OBJECT) *all = X509_STORE_get0_objects(store);
	for (int i = 0; i < sk_X509_OBJECT_num(all); i++) {
		X509 *ca = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(all, i));
		if (ca && X509_NAME_cmp(X509_get_subject_name(ca), X509_CRL_get_issuer(crl)) == 0 &&
		    X509_CRL_verify(crl, X509_get0_pubkey(ca)) == 1)
			return true;
	}
	return false;
}

/* OpenSSL asks for its dates at each handshake: a list that is over lets nobody in. */
static int take_crl(X509_STORE *store, const char *path, X509_CRL *crl, size_t i, struct err *err)
{
	const ASN1_TIME *next = X509_CRL_get0_nextUpdate(crl);
	char day[32];
	if (!is_theirs(store, crl))
		return err_set(err, ERR_INVALID, path, "list %zu is not signed by one of client_ca", i + 1);
	if (X509_cmp_current_time(X509_CRL_get0_lastUpdate(crl)) > 0)
		return err_set(err, ERR_INVALID, path, "list %zu is not valid before %s", i + 1,
			       day_of(X509_CRL_get0_lastUpdate(crl), day, sizeof(day)));
	if (next && X509_cmp_current_time(next) <= 0)
		return err_set(err, ERR_INVALID, path, "list %zu was to be replaced by %s", i + 1, day_of(next, day, sizeof(day)));
	if (!X509_STORE_add_crl(store, crl))
		return err_set(err, ERR_INVALID, path, "list %zu is refused: %s", i + 1, tls_reason());
	return 0;
}

static int set_crls(SSL_CTX *ctx, const char *path, struct err *err)
{
	X509_STORE *store = SSL_CTX_get_cert_store(ctx);
	struct pem_file f;
	int rc = pem_open(&f, path, err);
	for (X509_CRL *crl; rc == 0 && (crl = PEM_read_bio_X509_CRL(f.bio, NULL, NULL, NULL)); f.n++) {
		rc = f.n < TLS_CRLS_MAX ? take_crl(store, path, crl, f.n, err) :
			err_set(err, ERR_LIMIT, path, "there are more than %d lists in it", TLS_CRLS_MAX);
		X509_CRL_free(crl);
	}
	if (rc == 0)
		X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
	return pem_close(&f, rc, path, "list of revoked certificates", err);
}

static int set_own(struct tls_server *s, const struct tls_opt *o, struct err *err)
{
	EVP_PKEY *key = NULL;
	int rc = each_cert(o->cert, 1 + TLS_CHAIN_MAX, take_own, s, err);
	if (rc == 0)
		rc = read_key(o->key, &key, err);
	if (rc == 0 && X509_check_private_key(SSL_CTX_get0_certificate(s->ctx), key) != 1)
		rc = err_set(err, ERR_INVALID, o->key, "this key does not belong to the first certificate of %s", o->cert);
	if (rc == 0 && SSL_CTX_use_PrivateKey(s->ctx, key) != 1)
		rc = err_set(err, ERR_INVALID, o->key, "the key is refused: %s", tls_reason());
	EVP_PKEY_free(key);
	ERR_clear_error();
	return rc;
}

static int set_clients(struct tls_server *s, const struct tls_opt *o, struct err *err)
{
	if (!o->client_ca)
		return 0;
	SSL_CTX_set_verify(s->ctx, SSL_VERIFY_PEER | (o->client_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
	SSL_CTX_set_verify_depth(s->ctx, VERIFY_DEPTH);
	SSL_CTX_set_max_cert_list(s->ctx, CLIENT_CERTS_MAX);
	int rc = each_cert(o->client_ca, SIZE_MAX, take_ca, s->ctx, err);
	return rc || !o->client_crl ? rc : set_crls(s->ctx, o->client_crl, err);
}

/* A peer that asks for other protocols than ours means somebody else (RFC 7301 3.2). */
static int choose_alpn(SSL *ssl, const unsigned char **ret, unsigned char *ret_len, const unsigned char *in, unsigned len,
		       void *alpn)
{
	size_t n = alpn ? strlen(alpn) : 0;
	for (unsigned i = 0; i < len; i += 1u + in[i]) {
		if (n == 0 || in[i] != n || len - i - 1 < n || memcmp(in + i + 1, alpn, n) != 0)
			continue;
		*ret = in + i + 1;
		*ret_len = in[i];
		return SSL_TLSEXT_ERR_OK;
	}
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int set_rules(struct tls_server *s, const struct tls_opt *o, struct err *err)
{
	SSL_CTX *ctx = s->ctx;
	SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
			    SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA | SSL_OP_CLEANSE_PLAINTEXT);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	/* One turn of tls_read() ends with what the buffer holds, whatever kind of records a peer sends. */
	SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_read_ahead(ctx, 1);         /* one system call for a record, not two */
	SSL_CTX_set_alpn_select_cb(ctx, choose_alpn, (void *)(uintptr_t)o->alpn);
	if (!SSL_CTX_set_num_tickets(ctx, 0) || !SSL_CTX_set_max_early_data(ctx, 0) ||
	    !SSL_CTX_set_min_proto_version(ctx, o->only_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION) ||
	    !SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) || !SSL_CTX_set_cipher_list(ctx, ciphers_1_2) ||
	    !SSL_CTX_set_ciphersuites(ctx, ciphers_1_3) || !SSL_CTX_set1_groups_list(ctx, (uintptr_t)groups))
		return err_set(err, ERR_INTERNAL, "", "OpenSSL does not take the rules for TLS: %s", tls_reason());
	return 0;
}

int tls_server_new(const struct tls_opt *o, struct tls_server **ret, struct err *err)
{
	struct tls_server *s = mem_zalloc(sizeof(*s));
	int rc = 0;
	ERR_clear_error();
	s->ctx = SSL_CTX_new(TLS_server_method());
	if (!s->ctx)
		rc = err_set(err, ERR_INTERNAL, "", "OpenSSL does not start: %s", tls_reason());
	if (rc == 0)
		rc = set_rules(s, o, err);
	if (rc == 0)
		rc = set_own(s, o, err);
	if (rc == 0)
		rc = set_clients(s, o, err);
	if (rc) {
		tls_server_free(&s);
		return rc;
	}
	*ret = s;
	return 0;
}

void tls_server_replace(struct tls_server *s, struct tls_server **next)
{
	SSL_CTX_free(s->ctx);
	*s = **next;
	free(*next);
	*next = NULL;
}

uint64_t tls_server_expires_us(const struct tls_server *s)
{
	return s->expires_us;
}

void tls_server_free(struct tls_server **ps)
{
	if (!ps || !*ps)
		return;
	SSL_CTX_free((*ps)->ctx);
	free(*ps);
	*ps = NULL;
}
