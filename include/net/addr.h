#ifndef NET_ADDR_H
#define NET_ADDR_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* Internet addresses as text: "127.0.0.1:8808", "[::1]:0".  No names are resolved. */

#define ADDR_TEXT_SIZE 64

struct addr {
	struct sockaddr_storage sa;
	socklen_t len;
};
int addr_parse(const char *text, struct addr *ret, struct err *err) MUST_CHECK;
char *addr_format(const struct addr *a, char ret[ADDR_TEXT_SIZE]);          /* with port */
char *addr_format_host(const struct addr *a, char ret[ADDR_TEXT_SIZE]);     /* without port: a source */
bool addr_is_loopback(const struct addr *a);

#endif
