#ifndef MAIN_INT_H
#define MAIN_INT_H

#include "base/err.h"

/* Copy lines both ways between two descriptors and the owner's MCP socket, after the credential line made from key.
 * 0: our side ended and so did the owner's.  ERR_UNREACHABLE, ERR_DENIED. */
int relay_run(const char *socket_path, const char *key, int in_fd, int out_fd, struct err *err) MUST_CHECK;
/* A connection to a socket of the owner's.  ERR_UNREACHABLE: nobody listens there. */
int relay_connect(const char *path, int *ret, struct err *err) MUST_CHECK;

#endif
