/* What a request's head says, copied into the request's own block: the body may come long after the head has gone.
 * Whose address stands in records, and which requests may reach the core.  Called by tr_http.c for each head, before
 * any of the body is read. */

#include "config.h"

#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "net/addr.h"
#include "net/listen.h"
#include "oauth/oauth.h"

#include "tr_http_int.h"

/* The next part of *list up to sep, without the white space around it; *list becomes what follows. */
static bool http_part_next(struct http_text *list, char sep, struct http_text *ret)
{
	const char *end, *stop, *p = list->p;

	if (!p)
		return false;
	stop = p + list->len;
	end = memchr(p, sep, list->len);
	*list = end ? (struct http_text){ end + 1, (size_t)(stop - end - 1) } : (struct http_text){ NULL, 0 };
	if (!end)
		end = stop;
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*ret = (struct http_text){ p, (size_t)(end - p) };
	return true;
}

bool http_list_next(struct http_text *list, struct http_text *ret)
{
	while (http_part_next(list, ',', ret)) {
		if (ret->len > 0)
			return true;
	}
	return false;
}

struct pen { char *at; };

static const char *pen_copy(struct pen *pen, struct http_text t)
{
	char *begin = pen->at;

	if (!t.p)
		return NULL;
	memcpy(begin, t.p, t.len);
	begin[t.len] = '\0';
	pen->at += t.len + 1;
	return begin;
}

static const char *pen_lower(struct pen *pen, struct http_text t)
{
	char *begin = pen->at;

	for (size_t i = 0; i < t.len; i++)
		begin[i] = t.p[i] >= 'A' && t.p[i] <= 'Z' ? (char)(t.p[i] + 32) : t.p[i];
	begin[t.len] = '\0';
	pen->at += t.len + 1;
	return begin;
}

/* "q=0", "q=0.000": not wanted at all (RFC 9110 12.4.2). */
static bool is_refused(struct http_text params)
{
	struct http_text param;

	while (http_part_next(&params, ';', &param)) {
		if (param.len < 3 || (param.p[0] != 'q' && param.p[0] != 'Q') || param.p[1] != '=' || param.p[2] != '0')
			continue;
		for (size_t i = 3; i < param.len; i++) {
			if (param.p[i] != '.' && param.p[i] != '0')
				return false;
		}
		return true;
	}
	return false;
}

/* No Accept, a wildcard, or the type itself (MCP B-26); what says more about the type wins. */
static bool accepts_sse(const struct http_head *h)
{
	static const char *const ranges[] = { "*/*", "text/*", "text/event-stream" };
	bool said = false, ok = false;
	size_t best = 0;

	for (size_t i = 0; i < h->nheaders; i++) {
		struct http_text list = h->header[i].value, range, type;

		if (!http_text_is_nocase(h->header[i].name, "accept"))
			continue;
		while (http_list_next(&list, &range)) {
			said = true;
			(void)http_part_next(&range, ';', &type);
			for (size_t k = best; k < sizeof(ranges) / sizeof(ranges[0]); k++) {
				if (!http_text_is_nocase(type, ranges[k]))
					continue;
				best = k;
				ok = !is_refused(range);
			}
		}
	}
	return ok || !said;
}

static const char *single(struct pen *pen, const struct http_head *h, const char *name, bool *duplicate)
{
	unsigned count = 0;
	struct http_text value = http_head_get(h, name, &count);

	*duplicate = *duplicate || count > 1;
	return pen_copy(pen, value);
}

static void copy_params(struct hreq *q, struct pen *pen, const struct http_head *h)
{
	static const char prefix[] = "mcp-param-";
	const size_t n = sizeof(prefix) - 1;

	for (size_t i = 0; i < h->nheaders; i++) {
		struct http_text name = h->header[i].name, value = h->header[i].value;

		if (name.len <= n || !http_text_is_nocase((struct http_text){ name.p, n }, prefix))
			continue;
		if (q->http.nparams == TR_HTTP_PARAMS_MAX) {
			q->http.duplicate = true;       /* more than any tool can ask for */
			return;
		}
		struct mcp_param *param = &q->params[q->http.nparams++];

		param->name = pen_lower(pen, (struct http_text){ name.p + n, name.len - n });
		param->value = pen_copy(pen, value);
		param->len = value.len;
		for (size_t k = 0; k + 1 < q->http.nparams; k++)
			q->http.duplicate = q->http.duplicate || strcmp(q->params[k].name, param->name) == 0;
	}
}

static const char *http_client(const struct hconn *c, const struct http_head *h, char ret[TR_HTTP_CLIENT_SIZE]);

struct hreq *hreq_new(struct hconn *c, struct http_request *r, const struct http_head *h, struct http_text tenant)
{
	char client[TR_HTTP_CLIENT_SIZE];
	const char *from = http_client(c, h, client);
	size_t room = h->query.len + tenant.len + strlen(from) + 3;

	for (size_t i = 0; i < h->nheaders; i++)
		room += h->header[i].name.len + h->header[i].value.len + 2;
	struct hreq *q = mem_alloc(sizeof(*q) + room);
	struct pen pen = { q->text };

	memset(q, 0, offsetof(struct hreq, params));
	q->t = c->t;
	q->c = c;
	q->r = r;
	list_push_back(&c->t->open, &q->node);
	q->http.version = single(&pen, h, "mcp-protocol-version", &q->http.duplicate);
	q->http.session = single(&pen, h, "mcp-session-id", &q->http.duplicate);
	q->http.method = single(&pen, h, "mcp-method", &q->http.duplicate);
	q->http.name = single(&pen, h, "mcp-name", &q->http.duplicate);
	q->http.traceparent = pen_copy(&pen, http_head_get(h, "traceparent", NULL));
	q->http.tracestate = pen_copy(&pen, http_head_get(h, "tracestate", NULL));
	q->http.model = pen_copy(&pen, http_head_get(h, "x-model", NULL));
	q->http.sse_ok = accepts_sse(h);
	q->origin = pen_copy(&pen, http_cors_origin(c->t, h));
	q->query = pen_copy(&pen, h->query);
	q->from = pen_copy(&pen, (struct http_text){ from, strlen(from) });
	q->tenant = pen_copy(&pen, tenant);
	copy_params(q, &pen, h);
	q->http.params = q->params;
	q->http.request = http_request_id(r);
	return q;
}

/* --- whose address stands in records */

/* The peer's, or the one that a listed proxy names (SEC S-107).  Each proxy appends who came to it, so the list is
 * read from its end: addresses of listed proxies are passed over, and the first other one is the client.  What stands
 * before it was written by the client itself, and is never looked at. */

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

/* The client's address, which is ret or the connection's own text. */
static const char *http_client(const struct hconn *c, const struct http_head *h, char ret[TR_HTTP_CLIENT_SIZE])
{
	char client[ADDR_TEXT_SIZE];
	struct addr a;

	if (!c->proxied || !find_client(c->t, h, &a))
		return c->from;
	(void)snprintf(ret, TR_HTTP_CLIENT_SIZE, "%s via %s", addr_format_host(&a, client), c->from);
	return ret;
}

/* --- which requests may reach the core */

/* The route table, Host and Origin, the credential.  Each refusal is decided here before a body is read (SEC S-104,
 * S-106, S-115). */

enum hroute http_route(struct http_text path, struct http_text *ret_tenant)
{
	static const char prefix[] = "/t/", suffix[] = "/mcp";
	const size_t np = sizeof(prefix) - 1, ns = sizeof(suffix) - 1;

	*ret_tenant = (struct http_text){ NULL, 0 };
	if (http_text_is(path, suffix))
		return ROUTE_MCP;
	if (http_text_is(path, "/sse"))                 /* the tenant is the credential's (MCP B-30) */
		return ROUTE_SSE;
	if (http_text_is(path, "/messages"))
		return ROUTE_MESSAGES;
	if (path.len <= np + ns || memcmp(path.p, prefix, np) != 0 || memcmp(path.p + path.len - ns, suffix, ns) != 0)
		return ROUTE_NONE;
	*ret_tenant = (struct http_text){ path.p + np, path.len - np - ns };
	return memchr(ret_tenant->p, '/', ret_tenant->len) ? ROUTE_NONE : ROUTE_MCP;
}

#define NO_PORT UINT64_MAX

/* A host with an optional port: its name without the port, or p NULL.  *ret_port = the port, or NO_PORT. */
static struct http_text host_split(struct http_text host, uint64_t *ret_port)
{
	const struct http_text bad = { NULL, 0 };
	const char *end = host.p + host.len, *from = host.p, *colon;

	*ret_port = NO_PORT;
	if (host.len > 0 && host.p[0] == '[') {
		from = memchr(host.p, ']', host.len);
		if (!from)
			return bad;
	}
	colon = memchr(from, ':', (size_t)(end - from));
	if (!colon)
		return host;
	if (text_u64(colon + 1, (size_t)(end - colon - 1), ret_port) < 0 || end - colon > 6 || *ret_port > UINT16_MAX)
		return bad;
	return (struct http_text){ host.p, (size_t)(colon - host.p) };
}

static struct http_text host_name(struct http_text host)
{
	uint64_t port;

	return host_split(host, &port);
}

static bool is_loopback_name(struct http_text name)
{
	return name.p && (http_text_is_nocase(name, "localhost") || http_text_is(name, "127.0.0.1") ||
			  http_text_is(name, "[::1]"));
}

static bool is_address(struct http_text name)
{
	char text[ADDR_TEXT_SIZE];
	struct addr a;

	if (!name.p || name.len + sizeof(":0") > sizeof(text))
		return false;
	memcpy(mempcpy(text, name.p, name.len), ":0", sizeof(":0"));
	return addr_parse(text, &a, NULL) == 0;
}

static bool listed(struct http_text value, char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (http_text_is_nocase(value, list[i]))
			return true;
	}
	return false;
}

/* A name of the list, as clients write it: without a port, or with the listener's or the one that its scheme has by
 * itself.  A name with a port means that port alone, which a client leaves out where it is the scheme's. */
static bool host_listed(const struct tr_http *t, struct http_text host)
{
	const uint64_t usual = t->conf->tls ? 443 : 80;
	uint64_t port, want;
	struct http_text name = host_split(host, &port);

	for (size_t i = 0; name.p && i < t->conf->nhosts; i++) {
		const char *row = t->conf->hosts[i];
		struct http_text listed = host_split((struct http_text){ row, strlen(row) }, &want);

		if (!listed.p || listed.len != name.len || strncasecmp(listed.p, name.p, name.len) != 0)
			continue;
		if (want != NO_PORT ? (port != NO_PORT ? port : usual) == want
				    : port == NO_PORT || port == usual || port == t->port)
			return true;
	}
	return false;
}

/* A name that a web page could have pointed at us is refused: on loopback only loopback's names pass, elsewhere
 * addresses and what the configuration lists (DNS rebinding, SEC S-T20). */
static bool host_allowed(const struct tr_http *t, struct http_text host)
{
	struct http_text name = host_name(host);

	if (host_listed(t, host))
		return true;
	return t->loopback ? is_loopback_name(name) : is_address(name);
}

static bool origin_allowed(const struct tr_http *t, struct http_text origin)
{
	if (listed(origin, t->conf->origins, t->conf->norigins))
		return true;
	if (!t->loopback)
		return false;
	for (size_t i = 0; i < 2; i++) {
		const char *scheme = i == 0 ? "http://" : "https://";
		size_t n = strlen(scheme);

		if (origin.len > n && memcmp(origin.p, scheme, n) == 0)
			return is_loopback_name(host_name((struct http_text){ origin.p + n, origin.len - n }));
	}
	return false;
}

/* Whoever wonders why finds it in the answer and in the log, with what lists it. */
static int not_served(const struct hconn *c, const char *what, struct http_text value, const char *list, char *ret_text,
		      size_t size)
{
	static struct log_site site;
	const struct log_ctx ctx = { .peer = c->from };
	char shown[TR_HTTP_SHOWN_SIZE];

	text_printable(value.p ? value.p : "", value.len, shown, sizeof(shown));
	(void)snprintf(ret_text, size, "the %s \"%s\" is not served here: %s of this listener lists what is\n", what, shown,
		       list);
	if (log_allow(&site))
		log_info(&ctx, "%s is not served, %s of this listener would list it listener=%s value=\"%s\"", what, list,
			 listen_address(c->t->listener), shown);
	return 403;
}

int http_guard_host(const struct hconn *c, const struct http_head *h, char *ret_text, size_t size)
{
	unsigned origins = 0;
	struct http_text host = http_head_get(h, "host", NULL);
	struct http_text origin = http_head_get(h, "origin", &origins);

	if (!host.p || !host_allowed(c->t, host))
		return not_served(c, "Host", host, "hosts", ret_text, size);
	if (origins > 1 || (origin.p && !origin_allowed(c->t, origin)))
		return not_served(c, "Origin", origin, "origins", ret_text, size);
	return 0;
}

/* Loopback's names may call a loopback listener, but a page there reads nothing unless it is listed. */
struct http_text http_cors_origin(const struct tr_http *t, const struct http_head *h)
{
	struct http_text origin = http_head_get(h, "origin", NULL);

	return listed(origin, t->conf->origins, t->conf->norigins) ? origin : (struct http_text){ NULL, 0 };
}

/* Tokens never begin like keys, also not like those of administrators; what does is told to be no good by the check
 * of keys, and no issuer is asked about it. */
static bool is_token(const struct tr_http *t, struct http_text value)
{
	static const char keys[][4] = { { 't', 'c', 'k', '_' }, { 't', 'c', 'a', '_' } };

	for (size_t i = 0; i < NELEMS(keys); i++)
		if (value.len >= sizeof(keys[i]) && memcmp(value.p, keys[i], sizeof(keys[i])) == 0)
			return false;
	return oauth_has_issuers(t->env.oauth) && value.len > 0;
}

int http_guard_who(const struct hconn *c, const struct http_head *h, struct http_asker *ret, char *ret_text,
		   size_t size)
{
	struct tr_http *t = c->t;
	static const char scheme[] = "Bearer ";
	const size_t n = sizeof(scheme) - 1;
	char client[TR_HTTP_CLIENT_SIZE];
	const struct cred_source source = { http_client(c, h, client), AUDIT_HTTP };
	unsigned count = 0;
	struct http_text value = http_head_get(h, "authorization", &count);
	struct err err;
	int rc;

	if (count > 1) {                                /* MCP B-37 */
		snprintf(ret_text, size, "Authorization came twice\n");
		return 400;
	}
	rc = transport_cert_who(&t->env, t->conf, c->tls, &source, &ret->who);
	if (rc < 0)
		snprintf(ret_text, size, "this certificate names nobody here\n");
	if (rc)
		return rc < 0 ? 401 : 0;
	if (t->conf->tenant) {
		rc = principal_named(t->env.tenants, t->conf->tenant, t->conf->principal, AUDIT_AUTHN_BOUND, &ret->who,
				     &err);
		if (rc < 0)
			cred_refused(t->env.tenants, &source, CRED_SUSPENDED);
		snprintf(ret_text, size, "the tenant of this listener is not served\n");
		return rc < 0 ? 401 : 0;
	}
	if (value.len <= n || !http_text_is_nocase((struct http_text){ value.p, n }, scheme))
		value = (struct http_text){ scheme, n };        /* as a wrong key: the same work, the same words */
	ret->had_one = count > 0;
	ret->token = (struct http_text){ value.p + n, value.len - n };
	if (is_token(t, ret->token))
		return HTTP_TOKEN;
	rc = cred_check(t->env.tenants, value.p + n, value.len - n, &source, &ret->who, &err);
	if (rc < 0)
		snprintf(ret_text, size, "%s\n", err.msg);
	return rc < 0 ? 401 : 0;
}
