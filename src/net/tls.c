/* TLS by OpenSSL: connections and their peers' certificates, the handshake of an accepted one within its time, a
 * command's own connection to a server, a listener's certificate, key and rules.  stream.c reads and writes by it,
 * listen.c accepts by it, on the loop's thread; only tls_connect() waits. */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "ev/ev.h"
#include "net/addr.h"
#include "net/stream.h"
#include "net/tls.h"

struct tls_server {
	SSL_CTX *ctx;                   /* counted: connections hold theirs */
	uint64_t expires_us;
};

/* --- One TLS connection over a socket that does not block */

/* A step of its handshake, its bytes, what the peer's certificate says.  Nothing here waits or calls up. */

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

/* ssl is taken, and knows its side and its descriptor. */
static struct tls *tls_wrap(SSL *ssl)
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

/* --- the peer's certificate */

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

static uint64_t tls_end_of(const X509 *cert);

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

/* --- bytes */

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

static const char *tls_reason(void);

/* A step of the handshake: 0 = done, TLS_AGAIN, TLS_BROKEN with a reason, whose text is static. */
static int tls_shake(struct tls *t, const char **ret_why)
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

/* --- The handshake of one accepted connection, within its time. */

struct tls_handshake {
	struct ev_loop *loop;
	struct tls *tls;
	int fd;
	struct ev_io *io;
	struct ev_timer *timer;
	struct stream *farewell;        /* after a failure: our alert is still to be read */
	char from[ADDR_TEXT_SIZE];
	bool client;                    /* ours; whoever asked for it says why it failed */
	char why[128];
	tls_ready_fn *fn;
	void *arg;
};

static void release(struct tls_handshake *h)
{
	ev_io_free(&h->io);
	ev_timer_free(&h->timer);
	stream_close(&h->farewell);
	tls_free(&h->tls);
	if (h->fd >= 0)
		close(h->fd);
	ev_defer(h->loop, free, h);
}

const char *tls_handshake_why(const struct tls_handshake *h, bool *ret_refused)
{
	*ret_refused = h->tls && SSL_get_verify_result(h->tls->ssl) != X509_V_OK;
	return h->why;
}

void tls_handshake_cancel(struct tls_handshake **ph)
{
	if (!ph || !*ph)
		return;
	release(*ph);
	*ph = NULL;
}

static void report(struct tls_handshake *h, const char *why)
{
	static struct log_site site;
	const struct log_ctx ctx = { .peer = h->from };
	(void)snprintf(h->why, sizeof(h->why), "%s", why);
	if (h->client)
		return;
	metric_inc(METRIC_tls_handshakes_failed);
	if (log_allow(&site))
		log_info(&ctx, "TLS handshake failed why=\"%s\"", why);
}

static void on_late(void *arg)
{
	struct tls_handshake *h = arg;
	report(h, "it was not done in time");
	h->fn(h->arg, NULL);
	release(h);
}

static size_t on_farewell_data(void *arg, const char *p, size_t len)
{
	return len;
}

static void on_farewell_end(void *arg, enum stream_end why)
{
	struct tls_handshake *h = arg;
	h->fn(h->arg, NULL);
	release(h);
}

/* What the peer still sends must not reset the connection before it has read why: it lingers like any other, and counts
 * as one until then. */
static void refuse(struct tls_handshake *h, const char *why)
{
	static const struct stream_ops ops = { on_farewell_data, on_farewell_end, NULL };
	report(h, why);
	ev_io_free(&h->io);
	ev_timer_stop(h->timer);
	h->farewell = stream_new(h->loop, h->fd, h->fd, 1, &ops, h);
	h->fd = -1;
	stream_half_close(h->farewell);
}

static void on_io(void *arg, bool readable, bool writable)
{
	struct tls_handshake *h = arg;
	const char *why = "";
	int rc = tls_shake(h->tls, &why);
	if (rc == TLS_AGAIN) {
		bool write = tls_wants_write(h->tls);
		ev_io_want(h->io, !write, write);
		return;
	}
	if (rc == TLS_BROKEN) {
		refuse(h, why);
		return;
	}
	struct tls *t = h->tls;
	const int on = 1;
	if (!h->client)
		metric_inc(METRIC_tls_handshakes);
	/* Nothing of ours carries the acknowledgement of the peer's last message: one that gathers small segments would
	 * wait 40 ms with its first request. */
	(void)setsockopt(h->fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));    /* not a TCP socket: no matter */
	ev_io_free(&h->io);             /* before the descriptor's next owner waits for it */
	h->tls = NULL;
	h->fd = -1;
	h->fn(h->arg, t);
	release(h);
}

static void on_start_failed(void *arg)
{
	struct tls_handshake *h = arg;
	report(h, "OpenSSL has no memory for it");
	h->fn(h->arg, NULL);
	release(h);
}

static struct tls *begin(struct tls_server *s, int fd)
{
	SSL *ssl = SSL_new(s->ctx);
	if (!ssl || !SSL_set_fd(ssl, fd)) {
		SSL_free(ssl);
		return NULL;
	}
	SSL_set_accept_state(ssl);
	return tls_wrap(ssl);
}

/* tls: NULL = there is no memory for it. */
static struct tls_handshake *handshake_new(struct tls *tls, struct ev_loop *loop, int fd, tls_ready_fn *fn, void *arg)
{
	struct tls_handshake *h = mem_zalloc(sizeof(*h));
	h->loop = loop;
	h->fd = fd;
	h->fn = fn;
	h->arg = arg;
	h->tls = tls;
	h->timer = ev_timer_new(loop, h->tls ? on_late : on_start_failed, h);
	ev_timer_start(h->timer, h->tls ? TLS_HANDSHAKE_MS * 1000ull : 0);
	h->io = ev_io_new(loop, fd, on_io, h);
	return h;
}

struct tls_handshake *tls_accept(struct tls_server *s, struct ev_loop *loop, int fd, const char *from, tls_ready_fn *fn,
				 void *arg)
{
	struct tls_handshake *h = handshake_new(begin(s, fd), loop, fd, fn, arg);
	snprintf(h->from, sizeof(h->from), "%s", from);
	ev_io_want(h->io, h->tls, false);
	return h;
}

/* --- Our own connections to servers */

/* Who the server is by its certificate, and the handshake: a command waits for it, the server does not. */

static bool is_address(const char *host)
{
	struct in6_addr a;
	return inet_pton(AF_INET, host, &a) == 1 || inet_pton(AF_INET6, host, &a) == 1;
}

/* Names are sent along (SNI), addresses are not. */
static bool expect(SSL *ssl, const char *host)
{
	if (is_address(host))
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	/* Names are those of subjectAltName; what a CN says is a text for people. */
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, host) && SSL_set_tlsext_host_name(ssl, (uintptr_t)host);
}

/* The authorities in a file of PEM. */
static int take_authorities(SSL_CTX *ctx, const char *ca, struct err *err)
{
	struct str text = STR_INIT;
	int rc = path_read(ca, TLS_FILE_MAX, &text, err);
	BIO *bio = rc == 0 ? BIO_new_mem_buf(str_text(&text), (int)text.len) : NULL;
	bool all = true;
	size_t n = 0;
	for (X509 *cert; bio && all && (cert = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL)); n++) {
		all = X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), cert) == 1;
		X509_free(cert);
	}
	if (rc == 0 && (!all || n == 0 || ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE))
		rc = err_set(err, ERR_INVALID, ca, "%s has no certificates that can be read: %s", ca, tls_reason());
	BIO_free(bio);
	str_fini(&text);
	return rc;
}

static int set_rules(SSL_CTX *ctx, const char *ca, struct err *err)
{
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	if (!SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION))
		return err_set(err, ERR_INTERNAL, "", "OpenSSL does not take the rules for TLS: %s", tls_reason());
	if (ca)
		return take_authorities(ctx, ca, err);
	if (SSL_CTX_set_default_verify_paths(ctx))
		return 0;
	return err_set(err, ERR_INVALID, "", "this machine has no certificates that can be read: %s", tls_reason());
}

static int await(int fd, bool write, uint64_t until_us, struct err *err)
{
	struct pollfd p = { .fd = fd, .events = write ? POLLOUT : POLLIN };
	uint64_t now = clock_mono_us();
	int n = now < until_us ? poll(&p, 1, (int)((until_us - now) / 1000 + 1)) : 0;
	if (n > 0 || (n < 0 && errno == EINTR))
		return 0;
	return err_set(err, ERR_TIMEOUT, "", "the server does not finish the handshake of TLS");
}

static int shake(struct tls *t, int fd, struct err *err)
{
	uint64_t until_us = clock_mono_us() + TLS_HANDSHAKE_MS * 1000ull;
	const char *why = "";
	int rc;
	while ((rc = tls_shake(t, &why)) == TLS_AGAIN) {
		if (await(fd, tls_wants_write(t), until_us, err))
			return err->code;
	}
	return rc == 0 ? 0 : err_set(err, ERR_UNREACHABLE, "", "no TLS with the server: %s", why);
}

static int set_client(SSL_CTX *ctx, const struct tls_client *c, struct err *err);

/* One that is to begin the handshake. */
static int client_new(int fd, const char *host, const struct tls_client *c, struct tls **ret, struct err *err)
{
	SSL *ssl = NULL;
	ERR_clear_error();
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	int rc = ctx ? set_rules(ctx, c->ca, err) : err_set(err, ERR_INTERNAL, "", "OpenSSL does not start: %s",
							    tls_reason());
	if (rc == 0 && c->cert)
		rc = set_client(ctx, c, err);
	if (rc == 0 && fd >= 0) {
		ssl = SSL_new(ctx);
		if (!ssl || !SSL_set_fd(ssl, fd) || !expect(ssl, host))
			rc = err_set(err, ERR_INTERNAL, "", "OpenSSL takes no connection to %s: %s", host,
				     tls_reason());
	}
	if (rc == 0 && ssl) {
		SSL_set_connect_state(ssl);
		*ret = tls_wrap(ssl);
		ssl = NULL;
	}
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	ERR_clear_error();
	return rc;
}

int tls_client_check(const struct tls_client *c, struct err *err)
{
	struct tls *none = NULL;
	return client_new(-1, "", c, &none, err);
}

int tls_connect(int fd, const char *host, const char *ca, struct tls **ret, struct err *err)
{
	struct tls *t = NULL;
	int rc = client_new(fd, host, &(struct tls_client){ .ca = ca }, &t, err);
	if (rc == 0)
		rc = shake(t, fd, err);
	if (rc)
		tls_free(&t);
	else
		*ret = t;
	return rc;
}

int tls_begin(struct ev_loop *loop, int fd, const char *host, const struct tls_client *c, tls_ready_fn *fn, void *arg,
	      struct tls_handshake **ret, struct err *err)
{
	struct tls *t = NULL;
	int rc = client_new(fd, host, c, &t, err);
	if (rc < 0)
		return rc;
	*ret = handshake_new(t, loop, fd, fn, arg);
	(*ret)->client = true;
	ev_io_want((*ret)->io, false, true);    /* we speak first */
	return 0;
}

#define VERIFY_DEPTH 4                  /* certificates between a client's own and the CA's */
#define CLIENT_CERTS_MAX (32u << 10)    /* bytes of all that a client shows */

static const char ciphers_1_2[] =
	"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
	"ECDHE-RSA-AES256-GCM-SHA384:"
	"ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
static const char ciphers_1_3[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
static const char groups[] = "X25519:P-256:P-384";

/* What OpenSSL says of the last failure, in its words; static text. */
static const char *tls_reason(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_last_error());
	return text ? text : "no reason given";
}

/* --- files */

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
	struct str text = STR_SECRET_INIT;
	int rc = path_read_as(path, PATH_SECRET, TLS_KEY_MAX - 1, &text, err);
	if (rc == ERR_LIMIT)
		rc = err_set(err, ERR_LIMIT, path, "a key has less than %u bytes", TLS_KEY_MAX);
	if (rc == 0)
		rc = parse_key(path, str_text(&text), text.len, ret, err);
	str_wipe(&text);
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

/* rc: of a look at dates. */
static int forgive(int rc, const struct tls_opt *o, const struct err *err)
{
	if (rc == 0 || !o->late)
		return rc;
	if (o->late->code == 0)
		*o->late = *err;
	return 0;
}

/* Each certificate of a file in turn, with its dates checked; at most max of them. */
static int each_cert(const char *path, const struct tls_opt *o, size_t max, cert_fn *fn, void *arg, struct err *err)
{
	struct pem_file f;
	int rc = pem_open(&f, path, err);
	for (X509 *cert; rc == 0 && (cert = PEM_read_bio_X509(f.bio, NULL, NULL, NULL)); f.n++) {
		rc = f.n < max ? forgive(check_dates(path, cert, err), o, err) :
				 err_set(err, ERR_LIMIT, path, "there are more than %zu certificates in it", max);
		if (rc == 0)
			rc = fn(arg, path, cert, f.n, err);
		X509_free(cert);
	}
	return pem_close(&f, rc, path, "certificate", err);
}

/* --- what the context is made of */

static uint64_t tls_end_of(const X509 *cert)
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

/* --- revoked certificates of clients */

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
static int check_crl_dates(const char *path, const X509_CRL *crl, size_t i, struct err *err)
{
	const ASN1_TIME *next = X509_CRL_get0_nextUpdate(crl);
	char day[32];
	if (X509_cmp_current_time(X509_CRL_get0_lastUpdate(crl)) > 0)
		return err_set(err, ERR_INVALID, path, "list %zu is not valid before %s", i + 1,
			       day_of(X509_CRL_get0_lastUpdate(crl), day, sizeof(day)));
	if (next && X509_cmp_current_time(next) <= 0)
		return err_set(err, ERR_INVALID, path, "list %zu was to be replaced by %s", i + 1,
			       day_of(next, day, sizeof(day)));
	return 0;
}

static int take_crl(X509_STORE *store, const char *path, const struct tls_opt *o, X509_CRL *crl, size_t i,
		    struct err *err)
{
	if (!is_theirs(store, crl))
		return err_set(err, ERR_INVALID, path, "list %zu is not signed by one of client_ca", i + 1);
	int rc = forgive(check_crl_dates(path, crl, i, err), o, err);
	if (rc)
		return rc;
	if (!X509_STORE_add_crl(store, crl))
		return err_set(err, ERR_INVALID, path, "list %zu is refused: %s", i + 1, tls_reason());
	return 0;
}

static int set_crls(SSL_CTX *ctx, const struct tls_opt *o, struct err *err)
{
	const char *path = o->client_crl;
	X509_STORE *store = SSL_CTX_get_cert_store(ctx);
	struct pem_file f;
	int rc = pem_open(&f, path, err);
	for (X509_CRL *crl; rc == 0 && (crl = PEM_read_bio_X509_CRL(f.bio, NULL, NULL, NULL)); f.n++) {
		rc = f.n < TLS_CRLS_MAX ? take_crl(store, path, o, crl, f.n, err) :
			err_set(err, ERR_LIMIT, path, "there are more than %d lists in it", TLS_CRLS_MAX);
		X509_CRL_free(crl);
	}
	if (rc == 0)
		X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
	return pem_close(&f, rc, path, "list of revoked certificates", err);
}

static int set_key(SSL_CTX *ctx, const char *cert, const char *file, struct err *err)
{
	EVP_PKEY *key = NULL;
	int rc = read_key(file, &key, err);
	if (rc == 0 && X509_check_private_key(SSL_CTX_get0_certificate(ctx), key) != 1)
		rc = err_set(err, ERR_INVALID, file, "this key does not belong to the first certificate of %s", cert);
	if (rc == 0 && SSL_CTX_use_PrivateKey(ctx, key) != 1)
		rc = err_set(err, ERR_INVALID, file, "the key is refused: %s", tls_reason());
	EVP_PKEY_free(key);
	ERR_clear_error();
	return rc;
}

static int set_own(struct tls_server *s, const struct tls_opt *o, struct err *err)
{
	int rc = each_cert(o->cert, o, 1 + TLS_CHAIN_MAX, take_own, s, err);
	return rc ? rc : set_key(s->ctx, o->cert, o->key, err);
}

/* The first is what we show, as a client. */
static int take_shown(void *arg, const char *path, X509 *cert, size_t i, struct err *err)
{
	SSL_CTX *ctx = arg;
	if (i > 0 ? SSL_CTX_add1_chain_cert(ctx, cert) : SSL_CTX_use_certificate(ctx, cert))
		return 0;
	return err_set(err, ERR_INVALID, path, "certificate %zu is refused: %s", i + 1, tls_reason());
}

static int set_client(SSL_CTX *ctx, const struct tls_client *c, struct err *err)
{
	int rc = each_cert(c->cert, &(struct tls_opt){ .late = NULL }, 1 + TLS_CHAIN_MAX, take_shown, ctx, err);
	return rc ? rc : set_key(ctx, c->cert, c->key, err);
}

static int set_clients(struct tls_server *s, const struct tls_opt *o, struct err *err)
{
	if (!o->client_ca)
		return 0;
	SSL_CTX_set_verify(s->ctx, SSL_VERIFY_PEER | (o->client_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
	SSL_CTX_set_verify_depth(s->ctx, VERIFY_DEPTH);
	SSL_CTX_set_max_cert_list(s->ctx, CLIENT_CERTS_MAX);
	int rc = each_cert(o->client_ca, o, SIZE_MAX, take_ca, s->ctx, err);
	return rc || !o->client_crl ? rc : set_crls(s->ctx, o, err);
}

/* A peer that asks for other protocols than ours means somebody else (RFC 7301 3.2). */
static int choose_alpn(SSL *ssl, const unsigned char **ret, unsigned char *ret_len, const unsigned char *in,
		       unsigned len,
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

static int tls_set_rules(struct tls_server *s, const struct tls_opt *o, struct err *err)
{
	SSL_CTX *ctx = s->ctx;
	SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
			    SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA | SSL_OP_CLEANSE_PLAINTEXT);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	/* One turn of tls_read() ends with what the buffer holds, whatever kind of records a peer sends. */
	SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
			 SSL_MODE_RELEASE_BUFFERS);
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
		rc = tls_set_rules(s, o, err);
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
