/* Internet addresses as text and back. */
#include "config.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "net/addr.h"

static struct sockaddr_in *v4(struct addr *a) { return (struct sockaddr_in *)(void *)&a->sa; }
static struct sockaddr_in6 *v6(struct addr *a) { return (struct sockaddr_in6 *)(void *)&a->sa; }
static const struct sockaddr_in *cv4(const struct addr *a) { return (const void *)&a->sa; }
static const struct sockaddr_in6 *cv6(const struct addr *a) { return (const void *)&a->sa; }

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };    /* before an IPv4 address */

int addr_parse(const char *text, struct addr *ret, struct err *err)
{
	char host[INET6_ADDRSTRLEN];
	bool bracket = text[0] == '[';
	const char *start = text + bracket, *colon = strrchr(text, ':');
	const char *end = bracket ? strchr(text, ']') : colon;
	uint64_t port;
	if (!colon || !end || (bracket && end + 1 != colon) || end - start >= (ptrdiff_t)sizeof(host) ||
	    text_u64(colon + 1, strlen(colon + 1), &port) || port > UINT16_MAX)
		return err_set(err, ERR_INVALID, text, "not an address like 127.0.0.1:8808 or [::1]:8808");
	memcpy(host, start, (size_t)(end - start));
	host[end - start] = '\0';

	struct addr a = { .len = 0 };
	void *to;
	if (bracket) {
		a.len = sizeof(struct sockaddr_in6);
		v6(&a)->sin6_family = AF_INET6;
		v6(&a)->sin6_port = htons((uint16_t)port);
		to = &v6(&a)->sin6_addr;
	} else {
		a.len = sizeof(struct sockaddr_in);
		v4(&a)->sin_family = AF_INET;
		v4(&a)->sin_port = htons((uint16_t)port);
		to = &v4(&a)->sin_addr;
	}
	if (inet_pton(a.sa.ss_family, host, to) != 1)
		return err_set(err, ERR_INVALID, text, "the host is not a numeric address");
	*ret = a;
	return 0;
}

bool addr_is_loopback(const struct addr *a)
{
	if (a->sa.ss_family == AF_INET)
		return ntohl(cv4(a)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	if (a->sa.ss_family != AF_INET6)
		return false;
	const struct in6_addr *ip = &cv6(a)->sin6_addr;
	return IN6_IS_ADDR_LOOPBACK(ip) || (IN6_IS_ADDR_V4MAPPED(ip) && ip->s6_addr[12] == IN_LOOPBACKNET);
}

static bool addr_ip(const struct addr *a, uint8_t ret[16])
{
	if (a->sa.ss_family == AF_INET) {
		memcpy(ret, mapped, sizeof(mapped));
		memcpy(ret + sizeof(mapped), &cv4(a)->sin_addr, 4);
		return true;
	}
	if (a->sa.ss_family != AF_INET6)
		return false;
	memcpy(ret, &cv6(a)->sin6_addr, 16);
	return true;
}

bool addr_source(const struct addr *a, uint8_t ret[16])
{
	if (!addr_ip(a, ret))
		return false;
	if (!addr_ip_is_v4(ret))
		memset(ret + 8, 0, 8);
	return true;
}

bool addr_from_host(const char *text, struct addr *ret)
{
	struct addr a = { .len = 0 };
	if (inet_pton(AF_INET, text, &v4(&a)->sin_addr) == 1) {
		a.len = sizeof(struct sockaddr_in);
		v4(&a)->sin_family = AF_INET;
	} else if (inet_pton(AF_INET6, text, &v6(&a)->sin6_addr) == 1) {
		a.len = sizeof(struct sockaddr_in6);
		v6(&a)->sin6_family = AF_INET6;
	} else {
		return false;
	}
	*ret = a;
	return true;
}

bool addr_block_parse(const char *text, struct addr_block *ret)
{
	char host[INET6_ADDRSTRLEN];
	const char *slash = strchr(text, '/');
	size_t n = slash ? (size_t)(slash - text) : strlen(text);
	struct addr_block b;
	struct addr a;
	if (n >= sizeof(host))
		return false;
	memcpy(host, text, n);
	host[n] = '\0';
	if (!addr_from_host(host, &a) || !addr_ip(&a, b.ip))
		return false;
	uint64_t most = a.sa.ss_family == AF_INET ? 32 : 128, bits = most;
	if (slash && (text_u64(slash + 1, strlen(slash + 1), &bits) || bits > most))
		return false;
	b.bits = (unsigned)(bits + 128 - most);
	*ret = b;
	return true;
}

bool addr_block_has(const struct addr_block *b, const struct addr *a)
{
	uint8_t ip[16];
	unsigned whole = b->bits / 8, rest = b->bits % 8;
	if (!addr_ip(a, ip) || memcmp(ip, b->ip, whole) != 0)
		return false;
	return rest == 0 || (ip[whole] ^ b->ip[whole]) >> (8 - rest) == 0;
}

char *addr_format_host(const struct addr *a, char ret[ADDR_TEXT_SIZE])
{
	const void *ip = a->sa.ss_family == AF_INET6 ? (const void *)&cv6(a)->sin6_addr :
						       (const void *)&cv4(a)->sin_addr;
	if (!inet_ntop(a->sa.ss_family, ip, ret, ADDR_TEXT_SIZE))
		ret[0] = '\0';  /* another family: no text */
	return ret;
}

char *addr_format(const struct addr *a, char ret[ADDR_TEXT_SIZE])
{
	char host[ADDR_TEXT_SIZE];
	bool six = a->sa.ss_family == AF_INET6;
	unsigned port = ntohs(six ? cv6(a)->sin6_port : cv4(a)->sin_port);
	/* INET6_ADDRSTRLEN and a port fit with room to spare. */
	snprintf(ret, ADDR_TEXT_SIZE, six ? "[%.45s]:%u" : "%.45s:%u", addr_format_host(a, host), port);
	return ret;
}
