/* Which addresses outbound requests may reach: kinds of addresses, what is wrapped in them, the switches. */
#include "config.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "net/fetch.h"
#include "net/url.h"

#define HTTPS_PORT 443
#define V4_BITS 96                      /* of the v4-mapped prefix */

struct range { uint8_t ip[16]; unsigned bits; enum addr_class cls; };

/* SEC S-705, after RFC 6890 and its registries.  The first that matches decides. */
static const struct range v4_ranges[] = {
	{ { 0 }, 8, ADDR_NEVER },
	{ { 10 }, 8, ADDR_PRIVATE },
	{ { 100, 64 }, 10, ADDR_SHARED },
	{ { 127 }, 8, ADDR_LOOPBACK },
	{ { 169, 254 }, 16, ADDR_LINK_LOCAL },          /* 169.254.169.254 among them */
	{ { 172, 16 }, 12, ADDR_PRIVATE },
	{ { 192, 0, 0 }, 24, ADDR_SPECIAL },
	{ { 192, 0, 2 }, 24, ADDR_SPECIAL },            /* documentation */
	{ { 192, 31, 196 }, 24, ADDR_SPECIAL },
	{ { 192, 52, 193 }, 24, ADDR_SPECIAL },
	{ { 192, 88, 99 }, 24, ADDR_SPECIAL },
	{ { 192, 168 }, 16, ADDR_PRIVATE },
	{ { 192, 175, 48 }, 24, ADDR_SPECIAL },
	{ { 198, 18 }, 15, ADDR_SPECIAL },              /* benchmarking */
	{ { 198, 51, 100 }, 24, ADDR_SPECIAL },
	{ { 203, 0, 113 }, 24, ADDR_SPECIAL },
	{ { 255, 255, 255, 255 }, 32, ADDR_NEVER },
	{ { 224 }, 4, ADDR_NEVER },                     /* multicast */
	{ { 240 }, 4, ADDR_SPECIAL },
};
static const struct range v6_ranges[] = {
	{ { 0 }, 128, ADDR_NEVER },
	{ { [15] = 1 }, 128, ADDR_LOOPBACK },
	{ { 0 }, 96, ADDR_SPECIAL },                    /* v4-compatible */
	{ { [8] = 0xff, 0xff }, 96, ADDR_SPECIAL },     /* v4-translated (RFC 2765) */
	{ { 0x00, 0x64, 0xff, 0x9b }, 96, ADDR_PUBLIC },        /* NAT64: what is inside decides */
	{ { 0x00, 0x64, 0xff, 0x9b, 0, 1 }, 48, ADDR_PRIVATE }, /* local NAT64 (RFC 8215) */
	{ { 0x20, 0x01, 0x00, 0x00 }, 32, ADDR_PUBLIC },        /* Teredo: what is inside decides */
	{ { 0x20, 0x01, 0x0d, 0xb8 }, 32, ADDR_SPECIAL },
	{ { 0x20, 0x01 }, 23, ADDR_SPECIAL },
	{ { 0x20, 0x02 }, 16, ADDR_PUBLIC },                    /* 6to4: what is inside decides */
	{ { 0x3f, 0xff }, 20, ADDR_SPECIAL },                   /* documentation (RFC 9637) */
	{ { 0xfc }, 7, ADDR_PRIVATE },
	{ { 0xfe, 0x80 }, 10, ADDR_LINK_LOCAL },
	{ { 0xfe, 0xc0 }, 10, ADDR_PRIVATE },                   /* site-local, once */
	{ { 0xff }, 8, ADDR_NEVER },
	{ { 0x20 }, 3, ADDR_PUBLIC },                           /* global unicast: all that is given out */
};
static const uint8_t mapped[12] = { [10] = 0xff, 0xff };
static const uint8_t isatap[2][4] = { { 0, 0, 0x5e, 0xfe }, { 2, 0, 0x5e, 0xfe } };

static bool in_range(const uint8_t *ip, const uint8_t *net, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(ip, net, whole) != 0)
		return false;
	return rest == 0 || ((ip[whole] ^ net[whole]) & (0xff << (8 - rest)) & 0xff) == 0;
}

static enum addr_class classify(const uint8_t *ip, const struct range *r, size_t n, enum addr_class otherwise)
{
	for (size_t i = 0; i < n; i++) {
		if (in_range(ip, r[i].ip, r[i].bits))
			return r[i].cls;
	}
	return otherwise;
}

static void put_v4(struct addr_part *part, const uint8_t *ip4)
{
	memcpy(part->ip, mapped, sizeof(mapped));
	memcpy(part->ip + sizeof(mapped), ip4, 4);
	part->cls = classify(ip4, v4_ranges, NELEMS(v4_ranges), ADDR_PUBLIC);
}

/* The IPv4 addresses in an IPv6 one, SEC S-704. */
static size_t unwrap_v6(const uint8_t *ip, struct addr_part *ret)
{
	static const uint8_t nat64[12] = { 0x00, 0x64, 0xff, 0x9b };
	static const uint8_t nat64_local[6] = { 0x00, 0x64, 0xff, 0x9b, 0, 1 };
	static const uint8_t translated[12] = { [8] = 0xff, 0xff };
	static const uint8_t zeros[12];
	size_t n = 0;

	if (memcmp(ip, nat64, 12) == 0 || memcmp(ip, translated, 12) == 0 ||
	    (memcmp(ip, zeros, 12) == 0 && (ip[12] || ip[13] || ip[14] || ip[15] > 1)))
		put_v4(&ret[n++], ip + 12);
	if (ip[0] == 0x20 && ip[1] == 0x02)
		put_v4(&ret[n++], ip + 2);
	if (memcmp(ip, nat64_local, 6) == 0) {  /* RFC 6052 2.2: a prefix of 48 bits, or of 96; zeros are no address */
		const uint8_t split[4] = { ip[6], ip[7], ip[9], ip[10] };
		if (memcmp(split, zeros, 4) != 0)
			put_v4(&ret[n++], split);
		if (memcmp(ip + 12, zeros, 4) != 0)
			put_v4(&ret[n++], ip + 12);
	}
	if (ip[0] == 0x20 && ip[1] == 0x01 && ip[2] == 0 && ip[3] == 0) {       /* Teredo: server, client */
		const uint8_t client[4] = { (uint8_t)~ip[12], (uint8_t)~ip[13], (uint8_t)~ip[14], (uint8_t)~ip[15] };
		put_v4(&ret[n++], ip + 4);
		put_v4(&ret[n++], client);
	}
	if (memcmp(ip + 8, isatap[0], 4) == 0 || memcmp(ip + 8, isatap[1], 4) == 0)
		put_v4(&ret[n++], ip + 12);
	return n;
}

static size_t addr_unwrap(const struct addr *a, struct addr_part ret[ADDR_PARTS_MAX])
{
	if (a->sa.ss_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)&a->sa;
		put_v4(&ret[0], (const uint8_t *)&in->sin_addr);
		return 1;
	}
	if (a->sa.ss_family != AF_INET6) {
		ret[0] = (struct addr_part){ .cls = ADDR_NEVER };
		return 1;
	}
	const uint8_t *ip = ((const struct sockaddr_in6 *)(const void *)&a->sa)->sin6_addr.s6_addr;
	if (memcmp(ip, mapped, sizeof(mapped)) == 0) {
		put_v4(&ret[0], ip + sizeof(mapped));
		return 1;
	}
	memcpy(ret[0].ip, ip, 16);
	ret[0].cls = classify(ip, v6_ranges, NELEMS(v6_ranges), ADDR_SPECIAL);
	return 1 + unwrap_v6(ip, ret + 1);
}

/* "private", … */
static const char *addr_class_name(enum addr_class cls)
{
	switch (cls) {
	case ADDR_PUBLIC:
		return "public";
	case ADDR_LOOPBACK:
		return "loopback";
	case ADDR_PRIVATE:
		return "private";
	case ADDR_SHARED:
		return "shared";
	case ADDR_LINK_LOCAL:
		return "link-local";
	case ADDR_SPECIAL:
		return "special-purpose";
	case ADDR_NEVER:
		return "unspecified or multicast";
	}
	return "unknown";
}

/* --- entries */

static int parse_range(const char *text, const char *slash, const char *at, struct fetch_allow *ret, struct err *err)
{
	char full[ADDR_TEXT_SIZE];
	struct addr a;
	struct addr_part parts[ADDR_PARTS_MAX];
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	uint64_t bits = 0;

	bool six = memchr(text, ':', len) != NULL;
	if (len > 45)
		return err_set(err, ERR_INVALID, at, "is not an address range");
	snprintf(full, sizeof(full), six ? "[%.*s]:1" : "%.*s:1", (int)len, text);
	if (addr_parse(full, &a, NULL) < 0) {
		(void)err_set(err, ERR_INVALID, at, "%.60s is neither host:port nor an address range", text);
		err_hint(err, "write api.example.com:8443, 10.0.0.0/8 or fd00::/8");
		return ERR_INVALID;
	}
	const unsigned max = six ? 128 : 32;
	if (!slash)
		bits = max;
	else if (text_u64(slash + 1, strlen(slash + 1), &bits) < 0 || bits > max)
		return err_set(err, ERR_INVALID, at, "the prefix length must be 0 to %u", max);
	(void)addr_unwrap(&a, parts);
	ret->host = NULL;
	memcpy(ret->net, parts[0].ip, 16);
	ret->bits = (unsigned)bits + (six ? 0 : V4_BITS);
	for (unsigned i = ret->bits; i < 128; i++) {
		if (ret->net[i / 8] & (0x80 >> i % 8))
			return err_set(err, ERR_INVALID, at, "%.60s has bits behind its prefix", text);
	}
	return 0;
}

int fetch_allow_parse(const char *text, const char *at, struct arena *mem, struct fetch_allow *ret, struct err *err)
{
	const char *slash = strchr(text, '/');
	const char *colon = strrchr(text, ':');
	struct fetch_allow a = { .port = 0 };
	struct url u;

	/* An IPv6 address without brackets has several colons and is a range of one. */
	if (slash || !colon || (text[0] != '[' && strchr(text, ':') != colon)) {
		int rc = parse_range(text, slash, at, &a, err);
		if (rc == 0)
			*ret = a;
		return rc;
	}
	int rc = url_parse_host_port(text, at, &u, err);
	if (rc < 0)
		return rc;
	a.host = arena_strdup(mem, u.host);
	if (!a.host)
		return err_set(err, ERR_LIMIT, at, "the list of allowed hosts is too large");
	a.port = u.port;
	a.literal = u.literal;
	*ret = a;
	return 0;
}

/* --- decisions */

static const struct fetch_allow *find_host(const struct fetch_policy *p, const struct url *u)
{
	for (size_t i = 0; i < p->nallow; i++) {
		const struct fetch_allow *a = &p->allow[i];
		if (a->host && a->port == u->port && strcmp(a->host, u->host) == 0)
			return a;
	}
	return NULL;
}

static bool find_range(const struct fetch_policy *p, const uint8_t *ip)
{
	for (size_t i = 0; i < p->nallow; i++) {
		const struct fetch_allow *a = &p->allow[i];
		if (!a->host && in_range(ip, a->net, a->bits))
			return true;
	}
	return false;
}

static bool has_range(const struct fetch_policy *p)
{
	for (size_t i = 0; i < p->nallow; i++) {
		if (!p->allow[i].host)
			return true;
	}
	return false;
}

static int deny_plain(const struct url *u, struct err *err)
{
	const char *open = u->literal && strchr(u->host, ':') ? "[" : "", *close = *open ? "]" : "";

	if (u->tls)
		(void)err_set(err, ERR_DENIED, "", "port %u is not allowed, only 443 is", u->port);
	else
		(void)err_set(err, ERR_DENIED, "", "plain http is not allowed");
	err_hint(err, "allow: {hosts: [\"%s%.120s%s:%u\"]} would", open, u->host, close, u->port);
	return ERR_DENIED;
}

int fetch_policy_url(const struct fetch_policy *p, const struct url *u, struct err *err)
{
	static const struct fetch_own nothing;

	if (u->literal)
		return fetch_policy_addr(p, &nothing, u, &u->addr, err);
	if ((u->tls && u->port == HTTPS_PORT) || p->private_ok || has_range(p) || find_host(p, u))
		return 0;
	return deny_plain(u, err);
}

int fetch_policy_place(const struct url *u, const char *ca_file, const char *at, struct arena *mem,
		       struct fetch_allow *allow, struct fetch_policy *ret, struct err *err)
{
	char entry[URL_HOST_MAX + 16];

	(void)snprintf(entry, sizeof(entry), strchr(u->host, ':') ? "[%s]:%u" : "%s:%u", u->host, u->port);
	if (fetch_allow_parse(entry, at, mem, allow, err) < 0)
		return err->code;
	allow->literal = false;
	*ret = (struct fetch_policy){ .private_ok = true, .allow = allow, .nallow = 1, .ca_file = ca_file };
	return fetch_policy_url(ret, u, err);
}

static bool part_allowed(const struct fetch_policy *p, const struct url *u, const struct fetch_allow *listed,
			 const struct addr_part *part)
{
	switch (part->cls) {
	case ADDR_PUBLIC:
		return listed || (u->tls && u->port == HTTPS_PORT) || find_range(p, part->ip);
	case ADDR_LOOPBACK:
	case ADDR_PRIVATE:
	case ADDR_SHARED:
		return p->private_ok || listed || find_range(p, part->ip);
	case ADDR_LINK_LOCAL:
	case ADDR_SPECIAL:
		return (listed && listed->literal) || find_range(p, part->ip);
	case ADDR_NEVER:
		return false;
	}
	return false;
}

static unsigned port_of(const struct addr *a)
{
	return ntohs(a->sa.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)(const void *)&a->sa)->sin6_port :
						   ((const struct sockaddr_in *)(const void *)&a->sa)->sin_port);
}

static bool is_own(const struct fetch_own *own, unsigned port, const uint8_t *ip)
{
	struct addr_part part[ADDR_PARTS_MAX];

	for (size_t i = 0; i < own->n; i++) {
		(void)addr_unwrap(&own->addr[i], part);
		if (port_of(&own->addr[i]) == port && memcmp(part[0].ip, ip, 16) == 0)
			return true;
	}
	return false;
}

int fetch_policy_addr(const struct fetch_policy *p, const struct fetch_own *own, const struct url *u,
		      const struct addr *a, struct err *err)
{
	const struct fetch_allow *listed = find_host(p, u);
	struct addr_part parts[ADDR_PARTS_MAX];
	size_t n = addr_unwrap(a, parts);

	for (size_t i = 0; i < n; i++) {
		if (is_own(own, port_of(a), parts[i].ip) && !(listed && listed->literal))
			return err_set(err, ERR_DENIED, "", "this is the server's own address");
		if (part_allowed(p, u, listed, &parts[i]))
			continue;
		if (parts[i].cls == ADDR_PUBLIC)
			return deny_plain(u, err);
		(void)err_set(err, ERR_DENIED, "", "the host has a %s address, which is not allowed",
			      addr_class_name(parts[i].cls));
		if (parts[i].cls == ADDR_LOOPBACK || parts[i].cls == ADDR_PRIVATE || parts[i].cls == ADDR_SHARED)
			err_hint(err, "allow: {private: true} would, or this host and port in allow: {hosts: […]}");
		return ERR_DENIED;
	}
	return 0;
}

/* --- headers that a caller may set */

int fetch_check_header_name(const char *name, const char *at, struct err *err)
{
	static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	static const char *const ours[] = { "host", "connection", "content-length", "transfer-encoding", "te",
		"trailer", "upgrade", "keep-alive", "expect", "proxy-connection", "proxy-authorization",
			"accept-encoding" };
	size_t len = strlen(name);

	if (len == 0 || len > 128 || strspn(name, token) != len)
		return err_set(err, ERR_INVALID, at, "%.40s is not a header name", name);
	for (size_t i = 0; i < NELEMS(ours); i++) {
		if (strcasecmp(name, ours[i]) == 0)
			return err_set(err, ERR_INVALID, at,
				       "the header %s belongs to the connection and cannot be set", ours[i]);
	}
	return 0;
}

int fetch_check_header_value(const char *value, size_t len, const char *at, struct err *err)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)value[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return err_set(err, ERR_INVALID, at, "a header value must not have control characters");
	}
	return 0;
}

/* --- our own listeners */

#define OWN_MAX 1024                    /* addresses of this machine times its listeners */

static void add_own(struct fetch_own *own, const struct addr *a)
{
	if (own->n == OWN_MAX) {
		log_warn(NULL, "too many addresses of our own; requests to the others are not refused");
		return;
	}
	own->addr = mem_realloc(own->addr, (own->n + 1) * sizeof(*a));
	own->addr[own->n++] = *a;
}

/* A wildcard listens on each address of the machine. */
static void add_interfaces(struct fetch_own *own, int family, in_port_t port)
{
	struct ifaddrs *all = NULL;

	if (getifaddrs(&all) < 0)
		return;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		struct addr a = { .len = 0 };

		if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET &&
				     (i->ifa_addr->sa_family != AF_INET6 || family != AF_INET6)))
			continue;
		bool six = i->ifa_addr->sa_family == AF_INET6;
		a.len = six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
		memcpy(&a.sa, i->ifa_addr, a.len);
		if (six)
			((struct sockaddr_in6 *)(void *)&a.sa)->sin6_port = port;
		else
			((struct sockaddr_in *)(void *)&a.sa)->sin_port = port;
		add_own(own, &a);
	}
	freeifaddrs(all);
}

void fetch_own_add(struct fetch_own *own, const char *address)
{
	struct addr a;

	if (addr_parse(address, &a, NULL) < 0)
		return;         /* a path */
	add_own(own, &a);
	const struct sockaddr_in *v4 = (const void *)&a.sa;
	const struct sockaddr_in6 *v6 = (const void *)&a.sa;
	if (a.sa.ss_family == AF_INET && v4->sin_addr.s_addr == htonl(INADDR_ANY))
		add_interfaces(own, AF_INET, v4->sin_port);
	else if (a.sa.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr))
		add_interfaces(own, AF_INET6, v6->sin6_port);
}
