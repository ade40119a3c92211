#ifndef TRANSPORT_TRANSPORT_H
#define TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The ways in.  A transport authenticates, frames and limits; it knows no MCP: facts go into mcp_headers,
 * bytes into mcp_input().  Loop thread. */

struct conf_listener;
struct ev_loop;
struct gate;
struct given;
struct listener;
struct mcp_server;
struct oauth;
struct tenants;
struct tls_server;
struct transport;

struct transport_env {                  /* borrowed for the transport's life */
	struct ev_loop *loop;
	struct mcp_server *mcp;
	struct tenants *tenants;
	struct oauth *oauth;            /* access tokens on HTTP; NULL: keys alone */
	const char *resource;           /* how clients reach HTTP, without a path; NULL: by the listener's address */
	uint32_t drain_ms;              /* after EOF of a byte stream (MCP B-56) */
	struct gate *gate;              /* who may connect; NULL: anybody */
	struct given *given;            /* listeners that are open already, to be taken; NULL: none */
};
/* How full the server is (SEC S-807).  Nearly: connections of those who fill it are not kept.  Full: new ones are
 * taken slowly, too, and those that are of nobody yet are hurried. */
enum transport_pressure { TRANSPORT_CALM, TRANSPORT_NEARLY_FULL, TRANSPORT_FULL };
struct transport_ops {
	const char *name;                                            /* "stdio", "tcp", "unix", "http" */
	int (*check)(const struct conf_listener *c, struct err *err);        /* no I/O */
	int (*open)(const struct transport_env *env, const struct conf_listener *c, struct transport **ret,
		    struct err *err);
	void (*drain)(struct transport *t);     /* accept no more, for good; what is open ends when it is answered */
	/* The same while another process takes over: nobody is refused meanwhile, and each connection that nobody is asking
	 * on is handed to take(), which takes the descriptor.  listen_pause() ends it. */
	void (*leave)(struct transport *t, void (*take)(void *arg, int fd), void *arg);
	unsigned (*busy)(const struct transport *t);    /* open connections on which anything is to be said */
	struct listener *(*listener)(struct transport *t);
	void (*pressure)(struct transport *t, enum transport_pressure pressure);
	unsigned (*live)(const struct transport *t);                 /* open connections */
	const char *(*address)(const struct transport *t);           /* "127.0.0.1:8808" as bound; a path; "stdio" */
	/* At once; what was open is told so in the deferred work of this turn, so mcp and tenants must outlive that. */
	void (*close)(struct transport **t);
};
/* Read and check the files that c->tls names; no tls: *ret is NULL.  late: as in struct tls_opt. */
int transport_tls_load(const struct conf_listener *c, struct tls_server **ret, struct err *late,
		       struct err *err) MUST_CHECK;
/* Why nobody comes in though it is open: it was opened with certificates whose dates are wrong; or NULL. */
const char *transport_shut(const struct transport *t);
/* Its next handshakes use *next, which is taken; the other connections go on, and one that was shut is not any more.  t
 * and *next both have TLS, or neither. */
void transport_tls_renew(struct transport *t, struct tls_server **next);
/* When its certificate expires, wall clock; 0 = plain. */
uint64_t transport_tls_expires_us(const struct transport *t);
extern const struct transport_ops tr_tcp, tr_unix, tr_http;
FOR_TESTS extern const struct transport_ops *const transport_all[];     /* NULL-terminated */

/* stdio: one peer on two descriptors (taken), bound to a principal; ended(arg) once, when input has ended and all was
 * written, or the peer is gone. */
struct principal;
int tr_stdio_open(const struct transport_env *env, int in_fd, int out_fd, struct principal *who,
		  void (*ended)(void *arg), void *arg, struct transport **ret, struct err *err) MUST_CHECK;
void tr_stdio_close(struct transport **t);

#endif
