/* Shared by the members of this room. */
#ifndef TRANSPORT_INT_H
#define TRANSPORT_INT_H

#include "transport/transport.h"

#include "base/list.h"
#include "mcp/mcp.h"
#include "conf/conf.h"
#include "net/gate.h"
#include "net/listen.h"

#define TRANSPORT_MESSAGE_MAX (10u << 20)       /* one setting for all ways in (SEC S-113) */
#define TRANSPORT_CREDENTIAL_MAX 4096           /* credential line (MCP B-28) */
#define TRANSPORT_CREDENTIAL_MS 5000

struct transport {
	const struct transport_ops *ops;
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
/* False: it has been sent away, with a status where http, and is not counted any more. */
bool front_enter(const struct front *f, struct listener *l, const struct accepted *a, bool http, struct gate_pass *ret);

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
/* who NULL: a credential line is due.  Takes the descriptors, counts who.  pass NULL: of stdio. */
void line_peer_new(struct line_home *home, int in_fd, int out_fd, struct principal *who, const char *from,
		   const struct gate_pass *pass);
void line_peers_close(struct line_home *home);

#endif
