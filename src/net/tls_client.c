/* A command's own connection: who the server is by its certificate, and the handshake, which is waited for. */
#include "config.h"

#include "tls_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "base/clock.h"

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

static int set_rules(SSL_CTX *ctx, const char *ca, struct err *err)
{
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	if (!SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION))
		return err_set(err, ERR_INTERNAL, "", "OpenSSL does not take the rules for TLS: %s", tls_reason());
	if (ca ? SSL_CTX_load_verify_file(ctx, ca) : SSL_CTX_set_default_verify_paths(ctx))
		return 0;
	return err_set(err, ERR_INVALID, ca ? ca : "", "%s has no certificates that can be read: %s", ca ? ca : "this machine",
		       tls_reason());
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

int tls_connect(int fd, const char *host, const char *ca, struct tls **ret, struct err *err)
{
	struct tls *t = NULL;
	SSL *ssl = NULL;
	ERR_clear_error();
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	int rc = ctx ? set_rules(ctx, ca, err) : err_set(err, ERR_INTERNAL, "", "OpenSSL does not start: %s", tls_reason());
	if (rc == 0) {
		ssl = SSL_new(ctx);
		if (!ssl || !SSL_set_fd(ssl, fd) || !expect(ssl, host))
			rc = err_set(err, ERR_INTERNAL, "", "OpenSSL takes no connection to %s: %s", host, tls_reason());
	}
	if (rc == 0) {
		SSL_set_connect_state(ssl);
		t = tls_wrap(ssl);
		ssl = NULL;
		rc = shake(t, fd, err);
	}
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	ERR_clear_error();
	if (rc)
		tls_free(&t);
	else
		*ret = t;
	return rc;
}
