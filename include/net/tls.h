#ifndef NET_TLS_H
#define NET_TLS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* TLS by OpenSSL: what a listener shows and asks for, the handshake, and the bytes of one connection.
 * 1.2 and 1.3, ECDHE with AEAD only; no compression, renegotiation, 0-RTT, tickets or resumption (SEC S-117).  The loop
 * thread's, but for tls_server_new(), which any thread may call. */

#define TLS_HANDSHAKE_MS 5000           /* SEC S-116 */
#define TLS_FILE_MAX (1u << 20)         /* bytes of a file with certificates */
#define TLS_KEY_MAX (64u << 10)         /* and of one with a key: less than these */
#define TLS_CHAIN_MAX 8                 /* certificates behind the server's own */
#define TLS_CRLS_MAX 64                 /* lists of revoked certificates */
#define TLS_NAMES_MAX 64                /* of a client's certificate; what stands behind them is not looked at */

struct ev_loop;
struct tls;             /* one connection, behind its handshake */
struct tls_handshake;
struct tls_server;      /* a listener's certificate and rules */

struct tls_opt {
	const char *cert, *key;         /* PEM: the server's own first, then its chain; without a passphrase */
	const char *client_ca;          /* PEM: who vouches for clients; NULL = none is asked for a certificate */
	const char *client_crl;         /* PEM: which certificates of clients are revoked; NULL = none */
	bool client_required;           /* a client without one is turned away */
	bool only_1_3;
	/* static: the one protocol spoken here; NULL: a client that asks for any is turned away */
	const char *alpn;
	/* NULL, or what wrong dates say instead of failing: code, where and message of the first, of the server's and the
	 * clients' certificates and lists; code 0: none is wrong. */
	struct err *late;
};
/* Read and check the files: readable, not too large, certificates valid now and for servers, the key theirs and nobody
 * else's to read, lists of revoked ones by those who vouch for clients, and not over.  ERR_INVALID, ERR_LIMIT,
 * ERR_UNREACHABLE, ERR_DENIED, ERR_INTERNAL; where = the file. */
int tls_server_new(const struct tls_opt *o, struct tls_server **ret, struct err *err) MUST_CHECK;
/* From the next handshake on s is what *next is, which is freed.  Open connections keep what they began with. */
void tls_server_replace(struct tls_server *s, struct tls_server **next);
uint64_t tls_server_expires_us(const struct tls_server *s);     /* of its certificate; wall clock */
void tls_server_free(struct tls_server **s);

/* fd is taken.  fn once, never from inside a call of this module: t is taken and its descriptor fd open, or t is NULL
 * and the connection is gone: refused, broken, or not done in TLS_HANDSHAKE_MS.  from: the peer, for the log. */
typedef void tls_ready_fn(void *arg, struct tls *t);
struct tls_handshake *tls_accept(struct tls_server *s, struct ev_loop *loop, int fd, const char *from, tls_ready_fn *fn,
				 void *arg);
void tls_handshake_cancel(struct tls_handshake **h);            /* closes fd; fn is not called */

/* The client's side.  What it is made of is read anew for each connection, since files are renewed. */
struct tls_client {
	const char *ca;                 /* PEM: who vouches for the server; NULL: the system's */
	const char *cert, *key;         /* PEM: what we show if we are asked; NULL: nothing */
};
/* Can its files be used?  The errors of tls_server_new(). */
int tls_client_check(const struct tls_client *c, struct err *err) MUST_CHECK;
/* For the server: fd is a connected socket that does not block.  It is taken when this returns 0; then as tls_accept(),
 * and while fn(NULL) runs tls_handshake_why() says what was wrong. */
int tls_begin(struct ev_loop *loop, int fd, const char *host, const struct tls_client *c, tls_ready_fn *fn, void *arg,
	      struct tls_handshake **ret, struct err *err) MUST_CHECK;
/* refused: by us, its certificate. */
const char *tls_handshake_why(const struct tls_handshake *h, bool *ret_refused);

/* For commands: fd is a connected socket that does not block; it stays the caller's.  The
 * certificate must lead to one of ca (PEM; NULL: the system's) and have host, a name or an address.  Waits for
 * TLS_HANDSHAKE_MS. */
int tls_connect(int fd, const char *host, const char *ca, struct tls **ret, struct err *err) MUST_CHECK;

/* Bytes.  More than 0: that many; 0: the peer has ended its side properly (close_notify).  TLS_AGAIN: not now.
 * TLS_BROKEN: a violation, or a connection that ended without close_notify: what came may be cut short. */
#define TLS_AGAIN (-1)
#define TLS_BROKEN (-2)
long tls_read(struct tls *t, void *p, size_t n);
/* After TLS_AGAIN the next call has the same bytes at its front. */
long tls_write(struct tls *t, const void *p, size_t n);
/* Say that nothing more will come.  0, TLS_AGAIN, TLS_BROKEN; said only once. */
int tls_end(struct tls *t);
bool tls_pending(const struct tls *t);          /* tls_read() has something although the descriptor may be silent */
bool tls_wants_write(const struct tls *t);      /* what said TLS_AGAIN waits for room to write */
void tls_free(struct tls **t);                  /* the descriptor stays open */

/* What the peer's certificate says, verified up to client_ca; never its CN (SEC S-118). */
enum tls_name { TLS_URI, TLS_DNS, TLS_SPKI };   /* SPKI: SHA-256 of the public key, in lower-case hex */
bool tls_has_cert(const struct tls *t);
uint64_t tls_cert_until(const struct tls *t);   /* its end, microseconds since 1970; 0: there is none */
bool tls_cert_is(const struct tls *t, enum tls_name kind, const char *value);

#endif
