/* References between schemas: RFC 3986 5.2 on text, and fragments. */
#include "config.h"

#include "uri_int.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

/* RFC 3986 appendix B; a part that is absent has p NULL. */
struct part { const char *p; size_t len; };
struct uri { struct part scheme, authority, path, query; };

static struct part take_until(const char **p, const char *stop)
{
	const struct part part = { *p, strcspn(*p, stop) };

	*p += part.len;
	return part;
}

static bool has_scheme(const char *p)
{
	size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");

	return n > 0 && p[n] == ':' && strcspn(p, "0123456789+.-") > 0;
}

static struct uri split(const char *p)
{
	struct uri u = { { NULL, 0 }, { NULL, 0 }, { NULL, 0 }, { NULL, 0 } };

	if (has_scheme(p)) {
		u.scheme = take_until(&p, ":");
		p++;
	}
	if (strncmp(p, "//", 2) == 0) {
		p += 2;
		u.authority = take_until(&p, "/?#");
	}
	u.path = take_until(&p, "?#");
	if (*p == '?') {
		p++;
		u.query = take_until(&p, "#");
	}
	return u;
}

bool uri_is_absolute(const char *uri)
{
	return has_scheme(uri);
}

/* RFC 3986 5.2.4; segments of out are dropped from its end for "..", never those in front of start. */
static void put_without_dots(struct str *out, const char *p, size_t len)
{
	size_t start = out->len;
	const char *end = p + len;

	while (p < end) {
		const char *slash = memchr(p + 1, '/', (size_t)(end - p - 1));
		const char *next = slash ? slash : end;
		const char *name = *p == '/' ? p + 1 : p;
		size_t n = (size_t)(next - name);
		bool up = n == 2 && memcmp(name, "..", 2) == 0, here = n == 1 && *name == '.';

		if (up) {
			while (out->len > start && out->p[out->len - 1] != '/')
				out->len--;
			if (out->len > start)
				out->len--;
		}
		if (!up && !here)
			str_put(out, p, (size_t)(next - p));
		else if (next == end)
			str_putc(out, '/');
		p = next;
	}
}

static void put_merged(struct str *out, const struct uri *base, const struct part *path)
{
	struct str merged = STR_INIT;
	size_t keep = base->path.len;

	while (keep && base->path.p[keep - 1] != '/')
		keep--;
	str_put(&merged, base->path.p, keep);
	if (!keep && base->authority.p)
		str_putc(&merged, '/');
	str_put(&merged, path->p, path->len);
	put_without_dots(out, str_text(&merged), merged.len);
	str_fini(&merged);
}

static void put_path(struct str *out, const struct uri *base, const struct uri *ref)
{
	if (ref->path.len && *ref->path.p == '/')
		put_without_dots(out, ref->path.p, ref->path.len);
	else if (ref->path.len)
		put_merged(out, base, &ref->path);
	else
		str_put(out, base->path.p, base->path.len);
}

char *uri_resolve(const char *base, const char *reference)
{
	const struct uri b = split(base), r = split(reference);
	const struct part *scheme = r.scheme.p ? &r.scheme : &b.scheme;
	const struct part *authority = r.scheme.p || r.authority.p ? &r.authority : &b.authority;
	const struct part *query = r.scheme.p || r.authority.p || r.path.len || r.query.p ? &r.query : &b.query;
	struct str out = STR_INIT;

	if (scheme->p) {
		str_put(&out, scheme->p, scheme->len);
		str_putc(&out, ':');
	}
	if (authority->p) {
		str_puts(&out, "//");
		str_put(&out, authority->p, authority->len);
	}
	/* Names of a scheme without a hierarchy, as urn:, are taken as they are. */
	if (r.scheme.p && (!r.path.len || *r.path.p != '/'))
		str_put(&out, r.path.p, r.path.len);
	else if (r.scheme.p || r.authority.p)
		put_without_dots(&out, r.path.p, r.path.len);
	else
		put_path(&out, &b, &r);
	if (query->p) {
		str_putc(&out, '?');
		str_put(&out, query->p, query->len);
	}
	return str_take(&out);
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

char *uri_fragment(const char *reference)
{
	const char *p = strchr(reference, '#');
	char *copy = mem_strdup(p ? p + 1 : ""), *to = copy;

	for (p = copy; *p; p++) {
		char c = *p;

		if (c == '%') {
			int high = hex(p[1]), low = high < 0 ? -1 : hex(p[2]);

			if (low < 0 || (high | low) == 0) {
				free(copy);
				return NULL;
			}
			c = (char)(high << 4 | low);
			p += 2;
		}
		*to++ = c;
	}
	*to = '\0';
	return copy;
}
