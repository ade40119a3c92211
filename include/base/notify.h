#ifndef BASE_NOTIFY_H
#define BASE_NOTIFY_H

/* What the service manager is told, by the protocol of sd_notify(3). */

#include <stdbool.h>

/* Tell who started this program `state`, such as "READY=1": one datagram to $NOTIFY_SOCKET, a path or, with '@', an
 * abstract name.  flags: MSG_DONTWAIT where a manager that does not read must not hold up the caller, else 0.  Returns
 * false when there is such a socket and it took nothing; true also when nobody asked to be told.  Any thread. */
bool notify_manager(const char *state, int flags);

#endif
