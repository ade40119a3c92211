#ifndef NET_LISTEN_H
#define NET_LISTEN_H

#include "base/err.h"
#include "net/addr.h"
#include "net/gate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Listening sockets.  Accepting pauses above the connection limit and for 100 ms at EMFILE (SEC S-811).
 * Loop thread. */

struct ev_loop;
struct listener;
struct tls;
struct tls_server;

/* A connection: fd is non-blocking, CLOEXEC, TCP_NODELAY; taken.  from: the peer's address without port, or
 * "unix"; uid, pid: of a Unix peer (SO_PEERCRED), else -1. */
struct accepted {
	int fd;
	struct addr peer;
	char from[ADDR_TEXT_SIZE];
	int64_t uid, pid;
	struct tls *tls;                /* of a listener with TLS: taken, its handshake is done; else NULL */
	struct gate_pass pass;          /* and what enter() of its door gave */
};
typedef void listen_fn(void *arg, const struct accepted *a);
void listen_drop(const struct accepted *a);                /* hang up; it still counts */

int listen_tcp(struct ev_loop *loop, const char *address, unsigned connections_max, listen_fn *fn, void *arg,
	       struct listener **ret, struct err *err) MUST_CHECK;
/* Could listen_tcp() listen there just now? */
int listen_probe(const char *address, struct err *err) MUST_CHECK;
/* Removes a stale socket file first: the caller holds the store's lock (SEC S-103).  mode as for chmod. */
int listen_unix(struct ev_loop *loop, const char *path, unsigned mode, unsigned connections_max, listen_fn *fn,
		void *arg, struct listener **ret, struct err *err) MUST_CHECK;
/* One that listens already (net/given.h); fd is taken.  Its path stays where it is. */
int listen_given(struct ev_loop *loop, int fd, const char *address, unsigned connections_max, listen_fn *fn, void *arg,
		 struct listener **ret, struct err *err) MUST_CHECK;
/* Right after it: the server before us had opened it, so it is ours to close, and its path to remove. */
void listen_own(struct listener *l);
bool listen_is_own(const struct listener *l);
/* Borrowed, for a process that takes over; -1: it is closed.  While it is kept for that, an end or a close leaves
 * socket and path alone (OP-901). */
int listen_fd(const struct listener *l);
void listen_keep(struct listener *l, bool kept);
/* A connection that another process has accepted there, fd taken: as if it had come just now. */
void listen_adopt(struct listener *l, int fd);
/* Right after listen_tcp(): each connection is handed over behind its handshake; a pause ends those under way. */
struct listen_door {                    /* copied; what it names is borrowed for l's life */
	struct tls_server *server;
	bool (*enter)(void *arg, struct accepted *a);   /* may it begin one?  May fill a->pass */
	void (*failed)(void *arg, struct accepted *a);  /* one that has entered is not handed over */
	void *arg;
};
void listen_tls(struct listener *l, const struct listen_door *door);
const char *listen_address(const struct listener *l);      /* as bound: the port is the kernel's choice for 0 */
/* Each accepted connection counts until the callee says it is gone. */
void listen_conn_gone(struct listener *l);
unsigned listen_live(const struct listener *l);
void listen_pause(struct listener *l, bool paused);
/* For good: our own socket is closed, so that who connects from here on is refused at once, and a Unix socket unlinked;
 * one that was given stays, and who connects waits for the next server (OP-907). */
void listen_shut(struct listener *l);
/* While it is on, LISTEN_SLOW connections a turn of the loop are taken at most: whatever is open has its turn before
 * the next ones, and nobody is locked out (SEC S-807). */
#define LISTEN_SLOW 2
void listen_slow(struct listener *l, bool on);
void listen_close(struct listener **l);                    /* unlinks a Unix socket */

#endif
