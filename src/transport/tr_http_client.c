/* Whose address stands in records: the peer's, or the one that a listed proxy names (SEC S-107).
 *
 * Each proxy appends who came to it, so the list is read from its end: addresses of listed proxies are passed over, and
 * the first other one is the client.  What stands before it was written by the client itself, and is never looked at. */

#include "config.h"

#include "tr_http_int.h"

#include <stdio.h>
#include <string.h>

/* "192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]:80". */
static bool read_address(struct http_text t, struct addr *ret)
{
	char text[ADDR_TEXT_SIZE];

	if (t.len == 0 || t.len >= sizeof(text))
		return false;
	memcpy(text, t.p, t.len);
	text[t.len] = '\0';
	if (addr_from_host(text, ret))
		return true;
	if (text[0] == '[' && text[t.len - 1] == ']') {
		text[t.len - 1] = '\0';
		return strchr(text, ':') && addr_from_host(text + 1, ret);
	}
	return addr_parse(text, ret, NULL) == 0;
}

/* The value of for= in an element of Forwarded, without its quotes (RFC 7239 4). */
static struct http_text for_of(struct http_text element)
{
	static const char name[] = "for=";
	struct http_text pair;

	while (http_part_next(&element, ';', &pair)) {
		if (pair.len <= 4 || !http_text_is_nocase((struct http_text){ pair.p, 4 }, name))
			continue;
		pair = (struct http_text){ pair.p + 4, pair.len - 4 };
		if (pair.len >= 2 && pair.p[0] == '"' && pair.p[pair.len - 1] == '"')
			pair = (struct http_text){ pair.p + 1, pair.len - 2 };
		return pair;
	}
	return (struct http_text){ NULL, 0 };
}

/* The last element of *list; it is cut off. */
static bool last_of(struct http_text *list, struct http_text *ret)
{
	const char *comma;

	if (!list->p)
		return false;
	comma = memrchr(list->p, ',', list->len);
	*ret = comma ? (struct http_text){ comma + 1, list->len - (size_t)(comma + 1 - list->p) } : *list;
	*list = comma ? (struct http_text){ list->p, (size_t)(comma - list->p) } : (struct http_text){ NULL, 0 };
	while (ret->len > 0 && (ret->p[0] == ' ' || ret->p[0] == '\t'))
		*ret = (struct http_text){ ret->p + 1, ret->len - 1 };
	while (ret->len > 0 && (ret->p[ret->len - 1] == ' ' || ret->p[ret->len - 1] == '\t'))
		ret->len--;
	return true;
}

/* 1: it is the client; 0: a proxy of ours, look on; -1: nothing that can be believed. */
static int judge(const struct tr_http *t, struct http_text element, struct addr *ret)
{
	if (!read_address(t->conf->forwarded ? for_of(element) : element, ret))
		return -1;
	return front_is_proxy(&t->front, ret) ? 0 : 1;
}

static bool find_client(const struct tr_http *t, const struct http_head *h, struct addr *ret)
{
	const char *name = t->conf->forwarded ? "forwarded" : "x-forwarded-for";

	for (size_t i = h->nheaders; i-- > 0;) {
		struct http_text list = h->header[i].value, element;

		if (!http_text_is_nocase(h->header[i].name, name))
			continue;
		while (last_of(&list, &element)) {
			int verdict = judge(t, element, ret);

			if (verdict != 0)
				return verdict > 0;
		}
	}
	return false;
}

const char *http_client(const struct hconn *c, const struct http_head *h, char ret[TR_HTTP_CLIENT_SIZE])
{
	char client[ADDR_TEXT_SIZE];
	struct addr a;

	if (!c->proxied || !find_client(c->t, h, &a))
		return c->from;
	(void)snprintf(ret, TR_HTTP_CLIENT_SIZE, "%s via %s", addr_format_host(&a, client), c->from);
	return ret;
}
