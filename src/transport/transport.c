/* What the members of this room share: the front (gate and proxies), TLS, the certificates of clients.  Members call it
 * when they open and for each connection, on the loop's thread.  A connection passes the gate before its handshake. */

#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "conf/conf.h"

#include "transport_int.h"

#define UNIX_MODE 0660                  /* of a socket that we make */

int transport_listen(const struct transport_env *env, const struct conf_listener *c, listen_fn *fn, void *arg,
		     struct listener **ret, struct err *err)
{
	bool own = false;
	int fd = given_take(env->given, c->address, &own), rc;

	if (fd >= 0) {
		rc = listen_given(env->loop, fd, c->address, c->connections_max, fn, arg, ret, err);
		if (rc == 0 && own)
			listen_own(*ret);
		return rc;
	}
	if (c->transport == CONF_UNIX)
		return listen_unix(env->loop, c->address, UNIX_MODE, c->connections_max, fn, arg, ret, err);
	return listen_tcp(env->loop, c->address, c->connections_max, fn, arg, ret, err);
}

/* --- the front of TCP and HTTP listeners: the gate that all share, the proxies that each of them lists */

int front_open(struct front *f, const struct transport_env *env, const struct conf_listener *c, struct err *err)
{
	f->gate = env->gate;
	f->nproxies = 0;
	for (size_t i = 0; i < c->nproxies; i++) {
		if (!addr_block_parse(c->proxies[i], &f->proxies[f->nproxies++]))
			return err_set(err, ERR_INVALID, c->address,
				       "\"%s\" is no address of a proxy: 10.0.0.1 or 10.0.0.0/8", c->proxies[i]);
	}
	return 0;
}

bool front_is_proxy(const struct front *f, const struct addr *a)
{
	for (size_t i = 0; i < f->nproxies; i++) {
		if (addr_block_has(&f->proxies[i], a))
			return true;
	}
	return false;
}

/* Before a handshake of TLS: its pass is in a.  Front, as the first argument of a door. */
static bool front_knock(void *front, struct accepted *a)
{
	const struct front *f = front;
	uint32_t wait_ms;

	return !f->shut[0] && gate_enter(f->gate, &a->peer, front_is_proxy(f, &a->peer), &a->pass, &wait_ms) == GATE_OPEN;
}

bool front_enter(const struct front *f, struct listener *l, const struct accepted *a, bool http, struct gate_pass *ret)
{
	char text[160];
	uint32_t wait_ms;

	if (a->tls) {                   /* it has knocked */
		*ret = a->pass;
		return true;
	}
	if (gate_enter(f->gate, &a->peer, front_is_proxy(f, &a->peer), ret, &wait_ms) == GATE_OPEN)
		return true;
	if (http) {
		const char *status = wait_ms ? "429 Too Many Requests" : "503 Service Unavailable";
		int n = snprintf(text, sizeof(text),
				 "HTTP/1.1 %s\r\nRetry-After: %u\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
				 status, wait_ms ? (wait_ms + 999) / 1000 : 1);

		/* A socket that has no room for it at its very beginning has no reader either. */
		(void)!write(a->fd, text, (size_t)n);
	}
	close(a->fd);
	listen_conn_gone(l);
	return false;
}

/* --- TLS */

int transport_tls_load(const struct conf_listener *c, struct tls_server **ret, struct err *late, struct err *err)
{
	if (!c->tls)
		return 0;
	const struct tls_opt opt = { .cert = c->tls->cert, .key = c->tls->key, .client_ca = c->tls->client_ca,
		.client_crl = c->tls->client_crl,
		.client_required = c->tls->client_required, .only_1_3 = c->tls->only_1_3,
		.alpn = c->transport == CONF_HTTP ? "http/1.1" : NULL, .late = late };

	return tls_server_new(&opt, ret, err);
}

static void knocked_in_vain(void *front, struct accepted *a)
{
	gate_leave(&a->pass);
}

int transport_tls_open(struct transport *t, const struct conf_listener *c, struct listener *l, struct front *f,
		       struct err *err)
{
	struct err late = { 0 };
	int rc = transport_tls_load(c, &t->tls, &late, err);

	t->front = f;
	if (late.code)
		(void)snprintf(f->shut, sizeof(f->shut), "%s: %s", late.where, late.msg);
	if (rc == 0 && t->tls)
		listen_tls(l, &(struct listen_door){ t->tls, front_knock, knocked_in_vain, f });
	return rc;
}

void transport_tls_renew(struct transport *t, struct tls_server **next)
{
	if (!t->tls || !*next)
		return;
	tls_server_replace(t->tls, next);
	t->front->shut[0] = '\0';
}

const char *transport_shut(const struct transport *t)
{
	return t->tls && t->front->shut[0] ? t->front->shut : NULL;
}

uint64_t transport_tls_expires_us(const struct transport *t)
{
	return t->tls ? tls_server_expires_us(t->tls) : 0;
}

/* --- clients' certificates (SEC S-118) */

/* The first row that the certificate fits, or NULL. */
static const struct conf_client *row_of(const struct conf_tls *t, const struct tls *tls)
{
	static const enum tls_name kinds[] = { [CONF_BY_URI] = TLS_URI, [CONF_BY_DNS] = TLS_DNS,
					       [CONF_BY_SPKI] = TLS_SPKI };

	for (size_t i = 0; i < t->nclients; i++)
		if (tls_cert_is(tls, kinds[t->clients[i].by], t->clients[i].value))
			return &t->clients[i];
	return NULL;
}

/* Does a certificate say who it is, here? */
static bool is_mapped(const struct conf_listener *c, const struct tls *tls)
{
	return c && c->tls && c->tls->nclients > 0 && tls && tls_has_cert(tls);
}

/* A certificate that was good when its handshake was. */
static bool is_over(const struct tls *tls)
{
	uint64_t until = tls ? tls_cert_until(tls) : 0;

	return until && until <= clock_wall_us();
}

int transport_cert_who(const struct transport_env *env, const struct conf_listener *c, const struct tls *tls,
		       const struct cred_source *source, struct principal **ret)
{
	enum cred_refusal why = CRED_UNKNOWN;

	if (is_over(tls)) {
		cred_refused(env->tenants, source, CRED_EXPIRED);
		return ERR_DENIED;
	}
	if (!is_mapped(c, tls))
		return 0;
	const struct conf_client *row = row_of(c->tls, tls);

	if (row) {
		why = CRED_SUSPENDED;
		if (principal_named(env->tenants, row->tenant, row->principal, AUDIT_AUTHN_MTLS, ret, NULL) == 0) {
			(*ret)->expires_us = tls_cert_until(tls);       /* what it opens ends with it (SEC S-410) */
			return 1;
		}
	}
	cred_refused(env->tenants, source, why);
	return ERR_DENIED;
}

bool transport_cert_holds(const struct conf_listener *c, const struct tls *tls, const struct principal *who)
{
	if (is_over(tls))
		return false;
	if (!is_mapped(c, tls))
		return who->authn != AUDIT_AUTHN_MTLS;
	const struct conf_client *row = row_of(c->tls, tls);

	return row && strcmp(row->tenant, who->tenant) == 0 &&
	       strcmp(row->principal ? row->principal : "default", who->name) == 0;
}
