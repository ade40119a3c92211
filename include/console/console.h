#ifndef CONSOLE_CONSOLE_H
#define CONSOLE_CONSOLE_H

/* toolcrib-console: pages for browsers (CONSOLE).  The server starts it, and says one message over its descriptor 0:
 * the name under which browsers find it, as "host:port", or as "https://host/path" where a proxy stands before it, and
 * a NUL, and with it descriptors: the socket that listens
 * there, and its doors, by which it gives commands (command/visit.h).  It has no store, no key and no file, makes no
 * socket, and ends when descriptor 0 does. */

#define CONSOLE_DOORS 12                /* commands at once, of which tails and exports take 6 at most */
#define CONSOLE_FDS (1 + CONSOLE_DOORS)
#define CONSOLE_NAME_MAX 256            /* with its NUL */
#define CONSOLE_HOST "toolcrib.localhost"       /* browsers resolve it by themselves, and cookies stay there (C-305) */

#endif
