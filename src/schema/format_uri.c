/* Addresses: IPv4 and IPv6, URI (RFC 3986), IRI (RFC 3987) and URI templates (RFC 6570). */
#include "config.h"

#include "format_int.h"

#include <string.h>

/* IP */

static bool take_octet(struct cursor *c)
{
	const char *from = c->p;
	unsigned n = 0;

	while (c->p < c->end && format_is_digit(*c->p) && c->p - from < 3)
		n = n * 10 + (unsigned)(*c->p++ - '0');
	return c->p > from && n <= 255 && (*from != '0' || c->p - from == 1);
}

bool format_ipv4(const char *p, size_t len)
{
	struct cursor c = { p, p + len };

	for (int i = 0; i < 4; i++)
		if ((i && !cursor_eat(&c, '.')) || !take_octet(&c))
			return false;
	return c.p == c.end;
}

bool format_ipv6(const char *p, size_t len)
{
	struct cursor c = { p, p + len };
	int groups = 0;
	bool gap = false;

	if (len >= 2 && p[0] == ':' && p[1] == ':') {
		gap = true;
		c.p += 2;
	}
	while (c.p < c.end) {
		const char *from = c.p;

		while (c.p < c.end && format_is_hex(*c.p))
			c.p++;
		if (c.p < c.end && *c.p == '.') {
			groups += 2;
			return (gap ? groups <= 7 : groups == 8) && format_ipv4(from, (size_t)(c.end - from));
		}
		if (c.p == from || c.p - from > 4 || ++groups > 8)
			return false;
		if (c.p == c.end)
			break;
		if (!cursor_eat(&c, ':') || c.p == c.end)
			return false;
		if (cursor_eat(&c, ':')) {
			if (gap)
				return false;
			gap = true;
		}
	}
	return gap ? groups <= 7 : groups == 8;
}

/* URI AND IRI */

#define UNRESERVED "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"
#define SUB_DELIMS "!$&'()*+,;="

/* ucschar of RFC 3987, with private use where that is allowed: the query. */
static bool take_wide(struct cursor *c, bool private)
{
	const unsigned char *p = (const unsigned char *)c->p;
	size_t n = *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
	uint32_t code = (uint32_t)*p & (0x7fu >> n);

	for (size_t i = 1; i < n; i++)
		code = code << 6 | (p[i] & 0x3fu);
	c->p += n;
	if (code < 0xa0 || (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) == 0xfffe)
		return false;
	if ((code >= 0xe000 && code <= 0xf8ff) || code >= 0xf0000)
		return private;
	return code < 0xfff0 || code > 0xffff;
}

/* Characters of the set, %xx, and with wide those beyond ASCII. */
static bool take_chars(struct cursor *c, const char *set, bool wide, bool private)
{
	while (c->p < c->end) {
		if ((unsigned char)*c->p >= 0x80) {
			if (!wide || !take_wide(c, private))
				return false;
		} else if (*c->p == '%') {
			if (c->end - c->p < 3 || !format_is_hex(c->p[1]) || !format_is_hex(c->p[2]))
				return false;
			c->p += 3;
		} else if (*c->p && strchr(set, *c->p)) {
			c->p++;
		} else {
			return false;
		}
	}
	return true;
}

static bool all_chars(const char *p, const char *end, const char *set, bool wide, bool private)
{
	struct cursor c = { p, end };

	return take_chars(&c, set, wide, private);
}

/* Behind '[': IPv6, or v1.anything of a future. */
static bool is_ip_literal(const char *p, const char *end)
{
	const char *dot;

	if (p == end || (*p | 0x20) != 'v')
		return format_ipv6(p, (size_t)(end - p));
	dot = memchr(p, '.', (size_t)(end - p));
	if (!dot || dot == p + 1 || dot + 1 == end || memchr(dot, '%', (size_t)(end - dot)))
		return false;
	for (const char *h = p + 1; h < dot; h++)
		if (!format_is_hex(*h))
			return false;
	return all_chars(dot + 1, end, UNRESERVED SUB_DELIMS ":", false, false);
}

static bool is_authority(const char *p, const char *end, bool wide)
{
	const char *at = memchr(p, '@', (size_t)(end - p)), *host = at ? at + 1 : p, *port;

	if (at && !all_chars(p, at, UNRESERVED SUB_DELIMS ":", wide, false))
		return false;
	if (host < end && *host == '[') {
		const char *close = memchr(host, ']', (size_t)(end - host));

		if (!close || !is_ip_literal(host + 1, close))
			return false;
		port = close + 1;
	} else {
		port = memchr(host, ':', (size_t)(end - host));
		if (!port)
			port = end;
		if (!all_chars(host, port, UNRESERVED SUB_DELIMS, wide, false))
			return false;
	}
	if (port == end)
		return true;
	if (*port != ':')
		return false;
	while (++port < end)
		if (!format_is_digit(*port))
			return false;
	return true;
}

static const char *until(const char *p, const char *end, const char *stop)
{
	while (p < end && !(*p && strchr(stop, *p)))
		p++;
	return p;
}

static bool is_reference(const char *p, size_t len, bool wide, bool absolute)
{
	const char *end = p + len, *stop = until(p, end, ":/?#");
	bool scheme = stop < end && *stop == ':';

	if (scheme) {
		if (stop == p || !format_is_alpha(*p))
			return false;
		for (; p < stop; p++)
			if (!format_is_alpha(*p) && !format_is_digit(*p) && !strchr("+-.", *p))
				return false;
		p++;
	}
	if (absolute && !scheme)
		return false;
	if (end - p >= 2 && p[0] == '/' && p[1] == '/') {
		stop = until(p + 2, end, "/?#");
		if (!is_authority(p + 2, stop, wide))
			return false;
		p = stop;
	}
	stop = until(p, end, "?#");
	if (!all_chars(p, stop, UNRESERVED SUB_DELIMS ":@/", wide, false))
		return false;
	p = stop;
	if (p < end && *p == '?') {
		stop = until(p, end, "#");
		if (!all_chars(p + 1, stop, UNRESERVED SUB_DELIMS ":@/?", wide, wide))
			return false;
		p = stop;
	}
	return p == end || all_chars(p + 1, end, UNRESERVED SUB_DELIMS ":@/?", wide, false);
}

bool format_uri(const char *p, size_t len)
{
	return is_reference(p, len, false, true);
}

bool format_uri_reference(const char *p, size_t len)
{
	return is_reference(p, len, false, false);
}

bool format_iri(const char *p, size_t len)
{
	return is_reference(p, len, true, true);
}

bool format_iri_reference(const char *p, size_t len)
{
	return is_reference(p, len, true, false);
}

/* TEMPLATES */

static bool take_variable(struct cursor *c)
{
	bool dot = true;        /* not at the begin, nor behind another */
	int digits = 0;

	for (; c->p < c->end; c->p++) {
		if (*c->p == '.' && !dot) {
			dot = true;
			continue;
		}
		if (*c->p == '%' && c->end - c->p >= 3 && format_is_hex(c->p[1]) && format_is_hex(c->p[2]))
			c->p += 2;
		else if (!format_is_alpha(*c->p) && !format_is_digit(*c->p) && *c->p != '_')
			break;
		dot = false;
	}
	if (dot)
		return false;
	if (cursor_eat(c, '*'))
		return true;
	if (!cursor_eat(c, ':'))
		return true;
	if (c->p == c->end || *c->p == '0')
		return false;
	for (; c->p < c->end && format_is_digit(*c->p); c->p++)
		digits++;
	return digits >= 1 && digits <= 4;
}

static bool is_expression(const char *p, const char *end)
{
	struct cursor c = { p, end };

	if (p < end && *p && strchr("+#./;?&=,!@|", *p) && *p != ',')
		c.p++;
	do {
		if (!take_variable(&c))
			return false;
	} while (cursor_eat(&c, ','));
	return c.p == c.end;
}

bool format_uri_template(const char *p, size_t len)
{
	const char *end = p + len;

	while (p < end) {
		const char *close;

		if (*p == '%') {
			if (end - p < 3 || !format_is_hex(p[1]) || !format_is_hex(p[2]))
				return false;
			p += 3;
		} else if (*p == '{') {
			close = memchr(p, '}', (size_t)(end - p));
			if (!close || !is_expression(p + 1, close))
				return false;
			p = close + 1;
		} else if ((unsigned char)*p <= 0x20 || *p == 0x7f || strchr("\"<>\\^`|}", *p)) {
			return false;
		} else {
			p++;
		}
	}
	return true;
}
