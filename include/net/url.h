#ifndef NET_URL_H
#define NET_URL_H

#include "base/err.h"
#include "net/addr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Absolute http and https URLs, read once and strictly (SEC S-702): visible ASCII, no user information, no fragment,
 * no back slash, whole %XX triplets, host names in ASCII (IDNA) that no resolver can take for a number, addresses in
 * their one usual form, no `.` and `..` segments, however they are written (SEC S-708). */

#define URL_MAX 8192                    /* bytes */
#define URL_HOST_MAX 253

struct url {
	bool tls;
	char host[URL_HOST_MAX + 1];    /* lower case; an IPv6 address without its brackets */
	uint16_t port;                  /* 443 or 80 when the URL names none */
	bool literal;                   /* host is an address, and here it is with the port */
	struct addr addr;
	size_t target;                  /* where the path (or `?`) begins in the text; its length when it has none */
};
/* ERR_INVALID, ERR_LIMIT; where = at. */
int url_parse(const char *text, size_t len, const char *at, struct url *ret, struct err *err) MUST_CHECK;
/* "host:port" and "[v6]:port", as in a list of allowed hosts: fills host, port, literal, addr. */
int url_parse_host_port(const char *text, const char *at, struct url *ret, struct err *err) MUST_CHECK;
/* Its host is this machine: localhost, or a loopback address. */
bool url_is_here(const struct url *u);
/* A path and query: no `.` or `..` segment, no byte that must be encoded. */
FOR_TESTS int url_check_target(const char *p, size_t len, const char *at, struct err *err) MUST_CHECK;

#endif
