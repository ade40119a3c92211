/* Networks that a key may be used from.  All addresses are of 128 bits: those of IPv4 in their mapped form. */

#include "config.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "tenant/cidr.h"

enum { V4_BITS = 32, V6_BITS = 128, MAPPED_BITS = V6_BITS - V4_BITS, HOST_MAX = INET6_ADDRSTRLEN };

struct cidrs {
	size_t n;
	struct cidr { uint8_t address[16]; unsigned bits; } cidr[CIDRS_MAX];
};

/* Bits of such an address, 0: it is none. */
static unsigned parse_address(const char *text, uint8_t ret[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (strchr(text, ':'))
		return inet_pton(AF_INET6, text, ret) == 1 ? V6_BITS : 0;
	memcpy(ret, mapped, sizeof(mapped));
	return inet_pton(AF_INET, text, ret + sizeof(mapped)) == 1 ? V4_BITS : 0;
}

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned rest = bits % 8;

	if (memcmp(a, b, bits / 8) != 0)
		return false;
	return rest == 0 || (a[bits / 8] ^ b[bits / 8]) >> (8 - rest) == 0;
}

static bool is_network(const struct cidr *c)
{
	static const uint8_t zeros[16];
	uint8_t host[16];

	memcpy(host, c->address, sizeof(host));
	for (unsigned i = 0; i < c->bits; i++)
		host[i / 8] &= (uint8_t)~(0x80u >> i % 8);
	return memcmp(host, zeros, sizeof(host)) == 0;
}

static int parse_one(const char *text, size_t len, struct cidr *ret, struct err *err)
{
	const char *slash = memchr(text, '/', len);
	size_t host_len = slash ? (size_t)(slash - text) : len;
	char host[HOST_MAX + 1], shown[80];
	uint64_t bits = 0;
	unsigned all;

	text_printable(text, len, shown, sizeof(shown));
	if (host_len > HOST_MAX || memchr(text, '\0', len))
		return err_set(err, ERR_INVALID, "cidr", "%s is no network", shown);
	memcpy(host, text, host_len);
	host[host_len] = '\0';
	all = parse_address(host, ret->address);
	if (all == 0)
		return err_set(err, ERR_INVALID, "cidr", "%s: not an address like 10.0.0.0/8 or 2001:db8::/32", shown);
	if (slash && (text_u64(slash + 1, len - host_len - 1, &bits) < 0 || bits > all))
		return err_set(err, ERR_INVALID, "cidr", "%s: the length behind / is a number up to %u", shown, all);
	ret->bits = (slash ? (unsigned)bits : all) + (all == V4_BITS ? MAPPED_BITS : 0);
	if (!is_network(ret)) {
		(void)err_set(err, ERR_INVALID, "cidr", "%s: has bits beyond its length", shown);
		err_hint(err, "for the address alone leave the length out");
		return ERR_INVALID;
	}
	return 0;
}

int cidrs_parse(const char *text, size_t len, struct cidrs **ret, struct err *err)
{
	struct cidrs *c = mem_zalloc(sizeof(*c));
	const char *p = text, *end = text + len;
	int rc = 0;

	while (rc == 0 && p < end) {
		const char *blank = memchr(p, ' ', (size_t)(end - p));
		size_t n = (size_t)((blank ? blank : end) - p);

		if (n > 0 && c->n == CIDRS_MAX)
			rc = err_set(err, ERR_LIMIT, "cidr", "there are more than %d networks", CIDRS_MAX);
		else if (n > 0)
			rc = parse_one(p, n, &c->cidr[c->n++], err);
		p += n + 1;
	}
	if (rc == 0)
		*ret = c;
	else
		free(c);
	return rc;
}

void cidrs_free(struct cidrs **c)
{
	if (!c)
		return;
	free(*c);
	*c = NULL;
}

bool cidrs_hold(const struct cidrs *c, const char *from)
{
	bool here = strcmp(from, "unix") == 0 || strcmp(from, "stdio") == 0;
	size_t len = strcspn(from, " ");        /* "CLIENT via PROXY": the client's */
	char host[HOST_MAX + 1];
	uint8_t address[16];

	if (len > HOST_MAX)
		return false;
	memcpy(host, from, len);
	host[len] = '\0';
	if (parse_address(here ? "127.0.0.1" : host, address) == 0)
		return false;
	for (size_t i = 0; i < c->n; i++)
		if (same_bits(address, c->cidr[i].address, c->cidr[i].bits))
			return true;
	return false;
}
