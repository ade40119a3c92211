#ifndef TESTS_FAKE_MCP_H
#define TESTS_FAKE_MCP_H

/* A core for the tests of transports, linked in the real one's place: it implements what they call of mcp/mcp.h,
 * holds its half of the contract to the letter and counts what it is told.
 *
 * A message is "VERB ID ERA [NUMBER]":
 *	now	answered in this turn		later	held for fake_finish()
 *	notes	NUMBER notices, then answered	never	held
 *	quiet	taken, nothing to say		stop	answered, then the byte stream is closed
 *	big	answered with NUMBER bytes	status	answered with HTTP status NUMBER
 *	flood	NUMBER notices of 64 KiB, held	deny	answered with 401
 *	session	answered with a session's id
 * An answer is "ID ERA TENANT", then "x…" for a big one; a notice "note ID TENANT N". */

#include <stdbool.h>
#include <stddef.h>

#include "base/map.h"
#include "ev/ev.h"
#include "mcp/mcp.h"

#define FAKE_SEEN_MAX 2048
#define FAKE_PARAMS_MAX 20
#define FAKE_FLOOD_BYTES (64u << 10)
#define FAKE_SESSION "session-of-acme"

struct fake_param { char name[64], value[64]; };
/* A message as it came; header texts are "" when they did not. */
struct fake_seen {
	char text[64];                  /* its beginning */
	size_t len;
	char tenant[64];
	int tport;
	char peer[160];                 /* its address, "" without one */
	bool http, duplicate, sse_ok;
	char version[64], session[64], method[64], name[64], traceparent[64];
	struct fake_param params[FAKE_PARAMS_MAX];
	size_t nparams;
};

struct mcp_server {
	struct ev_loop *loop;
	struct list open;               /* struct mcp_exchange: without their finish() */
	struct fake_seen seen[FAKE_SEEN_MAX];
	size_t nseen;
	unsigned finished;              /* finish() was called */
	unsigned gone;                  /* HTTP: told that the peer left */
	unsigned cancelled;             /* their channel was closed, or its drain is over */
	unsigned channels, channels_closed, eofs;
	bool input;                     /* mcp_input() is on the stack */
	const struct mcp_push_ops *stream_ops;  /* of the one session's GET stream, or NULL */
	void *stream_peer;
	unsigned streams, streams_gone, sessions_ended;
	const char *crowd;              /* the tenant that fills the server, or NULL */
};

/* Answer the held message, or send a notice of it; both fail when there is no such message. */
void fake_finish(struct mcp_server *srv, const char *id, const char *tenant);
void fake_finish_big(struct mcp_server *srv, const char *id, const char *tenant, size_t extra);
void fake_notice(struct mcp_server *srv, const char *id, const char *tenant);
const struct fake_seen *fake_last(const struct mcp_server *srv);

#endif
