#ifndef NET_TLS_INT_H
#define NET_TLS_INT_H

#include "net/tls.h"

#include <openssl/ssl.h>

struct tls_server {
	SSL_CTX *ctx;                   /* counted: connections hold theirs */
	uint64_t expires_us;
};

/* What OpenSSL says of the last failure, in its words; static text. */
const char *tls_reason(void);

/* When it ends, microseconds since 1970; 0: nobody can say. */
uint64_t tls_end_of(const X509 *cert);

/* tls_conn.c: ssl is taken, and knows its side and its descriptor. */
struct tls *tls_wrap(SSL *ssl);
/* A step of the handshake: 0 = done, TLS_AGAIN, TLS_BROKEN with a reason, whose text is static. */
int tls_shake(struct tls *t, const char **ret_why);

#endif
