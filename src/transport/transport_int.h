/* Shared by the members of this room. */
#ifndef TRANSPORT_INT_H
#define TRANSPORT_INT_H

#include "transport/transport.h"

#include "base/list.h"
#include "mcp/mcp.h"
#include "net/listen.h"

#define TRANSPORT_MESSAGE_MAX (10u << 20)       /* one setting for all ways in (SEC S-113) */
#define TRANSPORT_CREDENTIAL_MAX 4096           /* credential line (MCP B-28) */
#define TRANSPORT_CREDENTIAL_MS 5000

struct transport {
	const struct transport_ops *ops;
};

/* --- byte streams (tr_line.c) */

struct line_home {                      /* what all peers of a listener share */
	const struct transport_env *env;
	const struct conf_listener *conf;       /* NULL for stdio */
	struct listener *listener;              /* NULL for stdio */
	struct list peers;
	int tport;                              /* enum audit_tport */
	void (*ended)(void *arg);               /* stdio: the one peer has gone */
	void *arg;
};
/* who NULL: a credential line is due.  Takes the descriptors, counts who. */
void line_peer_new(struct line_home *home, int in_fd, int out_fd, struct principal *who, const char *from);
void line_peers_close(struct line_home *home);

#endif
