#ifndef TESTS_REPLAY_CLIENT_H
#define TESTS_REPLAY_CLIENT_H

/* A scripted client: the same messages over any way in.  On a byte stream it is one connection; on HTTP each message is
 * a POST on a connection of its own, with the headers that its revision wants; on HTTP+SSE a GET and POSTs. */

#include "mcp_rig.h"
#include "tr_rig.h"

enum way { WAY_TCP, WAY_UNIX, WAY_STDIO, WAY_SSE, WAY_HTTP, WAY_COUNT };
extern const char *const way_names[WAY_COUNT];

struct world {
	struct rig core;
	struct tr_rig tr[WAY_COUNT];    /* WAY_SSE: that of WAY_HTTP is used */
};
void world_open(struct world *w);
void world_close(struct world *w);
void world_pump(struct world *w);       /* until nothing more can happen without the clock */

#define CLIENT_CONNS_MAX 128
#define CLIENT_HEADERS_MAX 8

struct client {
	struct world *world;
	enum way way;
	char name[16];
	struct tr_peer *conn[CLIENT_CONNS_MAX];         /* as they were opened; NULL when closed */
	unsigned heads[CLIENT_CONNS_MAX], taken[CLIENT_CONNS_MAX];
	size_t nconns;
	struct rig_box box;
	char session[64];                               /* of HTTP, as the server has given it */
	int status;                                     /* of the last HTTP answer */
	char *header[CLIENT_HEADERS_MAX];               /* "Name: value" for the next POST; "Name:" leaves it out */
	size_t nheaders;
};
void client_send(struct client *c, const char *text, const char *rev);
void client_get(struct client *c);                      /* the session's notice stream */
void client_delete(struct client *c);
void client_gather(struct client *c);                   /* take over what has come */
void client_header(struct client *c, const char *line);
/* All its connections: closed, reset, or only their way to the server. */
void client_close(struct client *c);
void client_vanish(struct client *c);
void client_end_input(struct client *c);
bool client_ended(const struct client *c);              /* the server has ended all that it opened */
void client_free(struct client *c);

#endif
