#ifndef NET_ADDR_H
#define NET_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"

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
/* The 16 bytes of an IPv6 address; IPv4 as ::ffff:a.b.c.d.  False: another family. */
static inline bool addr_ip_is_v4(const uint8_t ip[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(ip, mapped, sizeof(mapped)) == 0;
}
/* Whom limits of a source count (SEC S-316): the same of IPv4, the /64 of IPv6 with zeros behind it. */
bool addr_source(const struct addr *a, uint8_t ret[16]);
/* "127.0.0.1", "::1": no port (0), no brackets.  False: no address; errors are the caller's to word. */
bool addr_from_host(const char *text, struct addr *ret);
/* "10.0.0.0/8", "2001:db8::/32", or one address. */
struct addr_block { uint8_t ip[16]; unsigned bits; };
bool addr_block_parse(const char *text, struct addr_block *ret);
bool addr_block_has(const struct addr_block *b, const struct addr *a);

#endif
