/* What a request's head says, copied into the request's own block: the body may come long after the head has gone. */

#include "config.h"

#include "tr_http_int.h"

#include <string.h>

#include "base/mem.h"

bool http_part_next(struct http_text *list, char sep, struct http_text *ret)
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

struct hreq *hreq_new(struct hconn *c, struct http_request *r, const struct http_head *h, struct http_text tenant)
{
	char client[TR_HTTP_CLIENT_SIZE];
	const char *from = http_client(c, h, client);
	size_t room = h->query.len + tenant.len + strlen(from) + 3;

	for (size_t i = 0; i < h->nheaders; i++)
		room += h->header[i].name.len + h->header[i].value.len + 2;
	struct hreq *q = mem_alloc(sizeof(*q) + room);
	struct pen pen = { q->text };

	memset(q, 0, sizeof(*q));
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
