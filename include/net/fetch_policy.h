#ifndef NET_FETCH_POLICY_H
#define NET_FETCH_POLICY_H

#include "base/err.h"
#include "net/addr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which addresses outbound requests may reach (SEC section 10).  Pure functions.
 *
 * Without any switch: https on port 443 to public addresses.  `private_ok` adds private addresses (loopback, private
 * networks, shared address space), on any port and by plain http.  An entry "host:port" adds exactly that: the port,
 * plain http, and private addresses behind the name; when the host is an address, that address whatever it is.  An
 * entry "10.0.0.0/8" adds the addresses in it, on any port and by plain http.  The unspecified address, 0/8,
 * multicast and broadcast are never reached, and our own listeners only by an entry with their very address and port. */

#define FETCH_ALLOW_MAX 64              /* entries of one policy */

struct arena;
struct url;

struct fetch_allow {                    /* one entry: host and port, or (host NULL) a range */
	const char *host;
	uint16_t port;
	bool literal;                   /* host is an address */
	uint8_t net[16];                /* IPv6 form; IPv4 as v4-mapped */
	unsigned bits;
};
struct fetch_policy {
	bool private_ok;
	const struct fetch_allow *allow; size_t nallow;
	const char *ca_file;            /* NULL = the system's authorities */
};
struct fetch_own { struct addr *addr; size_t n; };      /* what this process listens on, wildcards spelled out */

enum addr_class {
	ADDR_PUBLIC, ADDR_LOOPBACK, ADDR_PRIVATE, ADDR_SHARED, ADDR_LINK_LOCAL, ADDR_SPECIAL, ADDR_NEVER,
};
/* The parts of an address, unwrapped (SEC S-704): itself, and each IPv4 address inside of it. */
#define ADDR_PARTS_MAX 5
struct addr_part { uint8_t ip[16]; enum addr_class cls; };
size_t addr_unwrap(const struct addr *a, struct addr_part ret[ADDR_PARTS_MAX]);
const char *addr_class_name(enum addr_class cls);       /* "private", … */

/* One entry of a list.  What ret points to is in mem.  ERR_INVALID, where = at. */
int fetch_allow_parse(const char *text, const char *at, struct arena *mem, struct fetch_allow *ret,
		      struct err *err) MUST_CHECK;
/* What can be said without resolving the name: may this URL pass for any address?  ERR_DENIED with a hint. */
int fetch_policy_url(const struct fetch_policy *p, const struct url *u, struct err *err) MUST_CHECK;
/* May a connection for this URL go to this address?  ERR_DENIED; the text names the kind of address, not the address. */
int fetch_policy_addr(const struct fetch_policy *p, const struct fetch_own *own, const struct url *u,
		      const struct addr *a, struct err *err) MUST_CHECK;

#endif
