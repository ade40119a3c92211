#ifndef NET_GATE_H
#define NET_GATE_H

#include "base/err.h"
#include "net/addr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who may connect, for all listeners of a process together: connections of a source, of a tenant, and of those that
 * have not said who they are; how long a source waits after a fault (SEC S-316, S-808).  A source is an IPv4 address
 * or a /64 of IPv6; for faults a /48, where many of those have some.  Unix peers, sources that the caller exempts and,
 * unless the limits say otherwise, loopback are counted for their tenant alone.  Loop thread. */

/* Sources of a family whose faults are remembered.  A new one beyond them takes the place of the oldest that had one
 * fault; it is not remembered when all have had more. */
#define GATE_FAULTS_MAX 4096
#define GATE_NET_FAULTS_MAX 16          /* of these in one /48; with one more the /48 waits as a single source */

struct ev_loop;
struct gate;
struct gate_source;
struct gate_tenant;

struct gate_limits {
	uint32_t per_source, per_tenant;        /* connections; 0: as many as a listener takes */
	/* Of n connections that are not known: none is refused below start, percent of 100 at start, more above,
	 * all from full on.  full 0: none. */
	uint32_t start, percent, full;
	/* After a failed authentication, after a message that broke a parser: so long no connection is taken, twice as
	 * long each time, up to the longest.  0: no penalty. */
	uint32_t failed_ms, broken_ms, longest_ms;
	bool loopback;                          /* is a source like any other */
	/* Bytes of messages that have not come whole, over all connections, of a source, of a tenant.  0: any. */
	size_t bodies, bodies_source, bodies_tenant;
};
struct gate *gate_new(const struct ev_loop *loop, const struct gate_limits *limits);
/* No connection has a pass any more. */
void gate_free(struct gate **g);
/* From now on; connections that are there stay. */
void gate_limit(struct gate *g, const struct gate_limits *limits);

enum gate_verdict {
	GATE_OPEN,
	GATE_CROWDED,                   /* too many connections of this source */
	GATE_DROPPED,                   /* too many that are not known, and the lot fell on this one */
	GATE_PENALTY,
};
/* A connection's place, part of its own struct; the members are the gate's. */
struct gate_pass {
	struct gate *gate;
	struct gate_source *source;     /* NULL: exempt */
	struct gate_tenant *tenant;     /* NULL: of none yet */
	bool stranger;                  /* counts as not known */
	size_t held;                    /* gate_hold() */
};
/* Of a message of at most these bytes, strangers may hold a part; and the eighth of all that large ones leave to them
 * is theirs.  The rest of a larger one over HTTP is read behind what all others send (stream_behind()). */
#define GATE_SMALL_MAX (64u << 10)
/* g NULL: everything is open.  Anything but GATE_OPEN: *ret needs no gate_leave(), *ret_wait_ms (0 = soon) says when
 * to come again. */
enum gate_verdict gate_enter(struct gate *g, const struct addr *from, bool exempt, struct gate_pass *ret,
			     uint32_t *ret_wait_ms);
void gate_leave(struct gate_pass *p);
/* It has said who it is, and is of no tenant. */
void gate_known(struct gate_pass *p);
/* It has said who it is: a connection of this tenant from now on.  False: the tenant has too many. */
bool gate_join(struct gate_pass *p, int64_t tenant_id);
/* So many bytes of a message wait for the rest of it, in all; 0: none any more, which is always right.  ERR_BUSY: that
 * is too much, *err says which budget and what changes it; ERR_DENIED: of a stranger's.  Nothing has changed then. */
int gate_hold(struct gate_pass *p, size_t bytes, struct err *err) MUST_CHECK;
/* What a tenant has, and may have; 0 = any. */
struct gate_tenant_view { uint64_t bodies, bodies_max, connections, connections_max; };
struct gate_tenant_view gate_tenant_see(const struct gate *g, int64_t tenant_id);
void gate_release(struct gate_pass *p);                 /* gate_hold() of 0 */
/* A fault of this source; from as in struct accepted.  A fault while its penalty runs adds nothing. */
void gate_failed(struct gate *g, const char *from);
void gate_broke(const struct gate_pass *p);
/* How long the source of a connection that is not known has to wait; 0: not at all. */
uint32_t gate_penalty_ms(const struct gate_pass *p);

#endif
