/* Shared by the members of this room. */
#ifndef TRANSPORT_INT_H
#define TRANSPORT_INT_H

#include "transport/transport.h"

#include "base/map.h"
#include "mcp/mcp.h"
#include "conf/conf.h"
#include "net/gate.h"
#include "net/listen.h"
#include "net/tls.h"
#include "tenant/tenant.h"

#define TRANSPORT_MESSAGE_MAX (10u << 20)       /* one setting for all ways in (SEC S-113) */
#define TRANSPORT_CREDENTIAL_MAX 4096           /* credential line (MCP B-28) */
#define TRANSPORT_CREDENTIAL_MS 5000

struct transport {
	const struct transport_ops *ops;
	struct tls_server *tls;         /* NULL: plain */
};

/* --- who may connect (front.c) */

struct front {                          /* of one listener */
	struct gate *gate;              /* of all; NULL in tests */
	struct addr_block proxies[CONF_NAMES_MAX];
	size_t nproxies;
};
/* No I/O. */
int front_open(struct front *f, const struct transport_env *env, const struct conf_listener *c, struct err *err) MUST_CHECK;
bool front_is_proxy(const struct front *f, const struct addr *a);
/* Before a handshake of TLS: its pass is in a.  Front, as the first argument of a door. */
bool front_knock(void *front, struct accepted *a);
/* False: it has been sent away, with a status where http, and is not counted any more. */
bool front_enter(const struct front *f, struct listener *l, const struct accepted *a, bool http, struct gate_pass *ret);
/* --- TLS and what clients' certificates say (transport.c) */

/* With c->tls: from now on l's connections pass f's gate, and then make their handshake first. */
int transport_tls_open(struct transport *t, const struct conf_listener *c, struct listener *l, struct front *f,
		       struct err *err) MUST_CHECK;
/* Whom the certificate of this connection names.  1: *ret counted; 0: it shows none, or the listener maps none: a key is
 * due; ERR_DENIED: it names nobody who is served, or has expired, which is counted and told. */
int transport_cert_who(const struct transport_env *env, const struct conf_listener *c, const struct tls *tls,
		       const struct cred_source *source, struct principal **ret);
/* Is who still the one that it names? */
bool transport_cert_holds(const struct conf_listener *c, const struct tls *tls, const struct principal *who);

/* --- byte streams (tr_line.c) */

struct line_home {                      /* what all peers of a listener share */
	const struct transport_env *env;
	const struct conf_listener *conf;       /* NULL for stdio */
	struct listener *listener;              /* NULL for stdio */
	struct front front;
	struct list peers;
	int tport;                              /* enum audit_tport */
	void (*ended)(void *arg);               /* stdio: the one peer has gone */
	void *arg;
};
/* tls NULL: plain; pass NULL: of stdio. */
struct line_way { int in_fd, out_fd; struct tls *tls; const char *from; const struct gate_pass *pass; };
/* who NULL: a credential line is due.  Takes the descriptors and tls, counts who. */
void line_peer_new(struct line_home *home, const struct line_way *way, struct principal *who);
void line_peers_close(struct line_home *home);

#endif
