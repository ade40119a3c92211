#ifndef TESTS_TR_RIG_H
#define TESTS_TR_RIG_H

/* A transport with two tenants of a store of the test's own, a core behind it (mostly its double, fake_mcp.h), and peers
 * that speak to it over real descriptors on the same loop. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "mcp/mcp.h"
#include "net/addr.h"
#include "net/gate.h"
#include "tenant/tenant.h"
#include "transport/transport.h"

#define TR_DRAIN_MS 15
#define TR_PEERS_MAX 512
#define TR_BOX_MAX 1024

struct tr_rig {
	struct ev_loop *loop;
	struct tenants *tenants;
	struct mcp_server *srv;
	struct transport_env env;
	struct gate *gate;              /* without limits */
	struct conf_listener conf;      /* may be changed between tr_open() and tr_listen() */
	const struct transport_ops *ops;        /* NULL: stdio, a transport for each peer */
	bool sse;
	struct transport *t;
	struct addr addr;               /* where it listens */
	char address[128];
	struct key_new acme, other;     /* keys */
	struct tr_peer *peers[TR_PEERS_MAX];
	size_t npeers;
	unsigned stdio_ended;
	bool poke;                      /* something happened at a peer */
};

/* For the group: the store, its tenants acme and other, a key each. */
int tr_store_open(void **state);
int tr_store_close(void **state);
/* name: "http", "sse" (that of 2024-11-05), "tcp", "unix" or "stdio". */
void tr_open(struct tr_rig *rig, const char *name);
void tr_listen(struct tr_rig *rig);
/* Closes the transport and all peers, and checks that nothing of them is left. */
void tr_close(struct tr_rig *rig);
/* The same around a loop, tenants and core that the caller has set and keeps; dir: of the socket. */
void tr_attach(struct tr_rig *rig, const char *name, const char *dir, uint32_t drain_ms);
void tr_detach(struct tr_rig *rig);
/* All peers leave and are freed; the server has yet to notice. */
void tr_drop_peers(struct tr_rig *rig);
/* What is ready, then wait at most 1 ms for more. */
void tr_turn(struct tr_rig *rig);
/* Some turns: enough for what must not happen to happen. */
void tr_settle(struct tr_rig *rig);
void tr_tenant_state(struct tr_rig *rig, const char *tenant, enum tenant_state to);

/* Real time, whatever the test does to the clock. */
#define TR_WAIT_MS 60000
uint64_t tr_real_ms(void);
#define TR_WAIT(rig, what) do { \
		uint64_t tr_end = tr_real_ms() + TR_WAIT_MS; \
		while (!(what) && tr_real_ms() < tr_end) \
			tr_turn(rig); \
		if (!(what)) \
			fail_msg("waited in vain for %s", #what); \
	} while (0)

/* A message that a peer has received; status: of the HTTP answer that it came in. */
struct tr_text { char *p; size_t len; int status; };

struct tr_peer {
	struct tr_rig *rig;
	bool http;
	char tenant[64], key[KEY_TEXT_SIZE];
	int in_fd, out_fd;              /* ours; equal for sockets */
	struct ev_io *io;
	struct transport *stdio;
	struct tr_peer *door;           /* sse: the connection that POSTs; this one is the stream */
	char endpoint[64];              /* sse: where it POSTs */
	struct str in;
	size_t at;                      /* of in: taken */
	struct tr_text box[TR_BOX_MAX];
	size_t n, read;
	bool eof;                       /* or reset */
	/* HTTP */
	enum { TR_HEAD, TR_BODY, TR_CHUNK } state;
	size_t left;                    /* of the body or chunk */
	int status;                     /* of the last head */
	char head[4096];                /* the last one */
	struct str body;                /* the last one, or what is left of an event stream */
	unsigned replies, heads;        /* whole answers; their heads */
	unsigned comments;              /* on event streams */
};

/* A connection.  tenant NULL: no credential of any kind is sent. */
struct tr_peer *tr_dial(struct tr_rig *rig, const char *tenant);
void tr_hang_up(struct tr_peer **p);            /* close() on both sides */
void tr_vanish(struct tr_peer **p);             /* a reset, where the member has one */
void tr_end_input(struct tr_peer *p);
void tr_read(struct tr_peer *p, bool on);       /* off: a slow reader */

void tr_raw(struct tr_peer *p, const void *bytes, size_t len);          /* all of it, or until the peer is cut off */
void tr_rawz(struct tr_peer *p, const char *text);
/* One message, in a POST of its own on HTTP. */
void tr_say(struct tr_peer *p, const char *text);
void tr_frame(const struct tr_peer *p, const char *text, struct str *out);
/* The next message; waits.  Valid until the peer's end. */
const struct tr_text *tr_next(struct tr_peer *p);
void tr_expect(struct tr_peer *p, const char *want);
void tr_nothing(struct tr_peer *p);             /* nothing has come, and nothing comes */
void tr_ended(struct tr_peer *p);               /* waits for the server's end */

#endif
