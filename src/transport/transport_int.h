/* Shared by the members of this room. */
#ifndef TRANSPORT_INT_H
#define TRANSPORT_INT_H

#include "base/map.h"
#include "conf/conf.h"
#include "mcp/mcp.h"
#include "net/gate.h"
#include "net/given.h"
#include "net/listen.h"
#include "net/tls.h"
#include "tenant/tenant.h"
#include "transport/transport.h"

#define TRANSPORT_MESSAGE_MAX (10u << 20)       /* one setting for all ways in (SEC S-113) */
#define TRANSPORT_CREDENTIAL_MAX 4096           /* credential line (MCP B-28) */
#define TRANSPORT_CREDENTIAL_MS 5000
#define TRANSPORT_SHUT_SIZE 500

struct transport {
	const struct transport_ops *ops;
	struct tls_server *tls;         /* NULL: plain */
	struct front *front;            /* with tls */
};

/* A listener at the address of c, one that was given where there is one. */
int transport_listen(const struct transport_env *env, const struct conf_listener *c, listen_fn *fn, void *arg,
		     struct listener **ret, struct err *err) MUST_CHECK;

/* --- who may connect */

struct front {                          /* of one listener */
	struct gate *gate;              /* of all; NULL in tests */
	struct addr_block proxies[CONF_NAMES_MAX];
	size_t nproxies;
	char shut[TRANSPORT_SHUT_SIZE]; /* why nobody comes in over TLS; "" = they do */
};
/* No I/O. */
int front_open(struct front *f, const struct transport_env *env, const struct conf_listener *c,
	       struct err *err) MUST_CHECK;
bool front_is_proxy(const struct front *f, const struct addr *a);
/* False: it has been sent away, with a status where http, and is not counted any more. */
bool front_enter(const struct front *f, struct listener *l, const struct accepted *a, bool http, struct gate_pass *ret);
/* --- TLS and what clients' certificates say */

/* With c->tls: from now on l's connections pass f's gate, and then make their handshake first. */
int transport_tls_open(struct transport *t, const struct conf_listener *c, struct listener *l, struct front *f,
		       struct err *err) MUST_CHECK;
/* Whom the certificate of this connection names.  1: *ret counted; 0: it shows none, or the listener maps none: a
 * key is due; ERR_DENIED: it names nobody who is served, or has expired, which is counted and told. */
int transport_cert_who(const struct transport_env *env, const struct conf_listener *c, const struct tls *tls,
		       const struct cred_source *source, struct principal **ret);
/* Is who still the one that it names? */
bool transport_cert_holds(const struct conf_listener *c, const struct tls *tls, const struct principal *who);

#endif
