#ifndef NET_GIVEN_H
#define NET_GIVEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Sockets that listen already, opened by whoever has started this process: a service manager, by the protocol of
 * sd_listen_fds(3) (OP-907).  Each is known by the address at which it listens, "127.0.0.1:8808" or the path of a Unix
 * socket.  Main thread. */

#define GIVEN_MAX 32                    /* as many as a configuration has listeners */
#define GIVEN_ADDRESS_SIZE 128          /* of an address or a path, with its NUL */
#define GIVEN_NAME_SIZE 64              /* of what of a name is shown */

struct given;

/* What $LISTEN_PID, $LISTEN_FDS and $LISTEN_FDNAMES say, which are unset, for this process: nobody that it starts has
 * any of it.  *ret NULL: nothing is given.  ERR_INVALID: the variables cannot be read, or one of the descriptors is no
 * listening stream socket of IPv4, IPv6 or Unix with a path, or takes IPv4 on an address of IPv6; ERR_LIMIT. */
int given_by_manager(struct given **ret, struct err *err) MUST_CHECK;
/* The same of these texts, each of which may be NULL, and of descriptors from first on. */
FOR_TESTS int given_by(const char *pid, const char *fds, const char *names, int first, struct given **ret,
		       struct err *err) MUST_CHECK;
/* One more, fd taken, into *g, which is made where it is NULL.  own: the server that gives it has opened it.  Errors as
 * above. */
int given_add(struct given **g, int fd, bool own, struct err *err) MUST_CHECK;
/* Those that nobody has taken are closed. */
void given_free(struct given **g);
/* Somebody will take the one at this address, as the configuration writes it.  False: there is none. */
bool given_want(struct given *g, const char *address);         /* g may be NULL */
/* One that nobody wants: its address, and its name or "".  NULL: there is none. */
const char *given_stray(const struct given *g, const char **ret_name);
/* The descriptor is the caller's from here on, non-blocking and CLOEXEC.  -1: there is none for this address; g may be
 * NULL. */
int given_take(struct given *g, const char *address, bool *ret_own);

#endif
