#ifndef NET_HTTP_INT_H
#define NET_HTTP_INT_H

#include "net/http_head.h"

#include <stddef.h>

/* The search for the end of a head that arrives in pieces, each byte looked at once.  Zero it for each request. */
struct http_scan {
	size_t line;                    /* where the line begins that is looked at */
	size_t seen;                    /* bytes looked at */
	unsigned lines;                 /* complete ones */
};
/* p[0..len) begins with the request's first byte.  Returns as http_head_parse(), and *ret_why. */
long http_head_scan(struct http_scan *s, const char *p, size_t len, const char **ret_why);

#endif
