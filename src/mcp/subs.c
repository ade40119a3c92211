/* Subscriptions to resources: resources/subscribe and resources/unsubscribe of the legacy era, the URIs of a modern
 * listen (MCP U-03, N-07). */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "metrics/metric.h"
#include "registry/registry.h"
#include "tenant/tenant.h"

#include "method_int.h"

struct mcp_sub { char *uri; int64_t version_id; };

/* 0: there is none, or not for who has these scopes. */
static int64_t version_of(const struct reg_snapshot *snap, const struct scopes *scopes, const char *uri)
{
	const struct reg_tool *line = reg_find_uri(snap, uri, strlen(uri), NULL);

	return line && reg_in_scope(line, scopes) ? line->def->version_id : 0;
}

#define MARKED (-1)                     /* the version of no definition */

static size_t find(const struct mcp_subs *s, const char *uri)
{
	size_t i = 0;

	while (i < s->n && strcmp(s->sub[i].uri, uri) != 0)
		i++;
	return i;
}

enum subs_added subs_add(struct mcp_subs *s, const struct reg_snapshot *snap, const struct mcp_exchange *x, const char *uri)
{
	struct mcp_tenant *t = mcp_tenant_get(x->srv, snap->tenant_id);
	int64_t version_id = version_of(snap, x->who->scopes, uri);

	if (version_id == 0)
		return SUBS_UNKNOWN;
	if (find(s, uri) < s->n)
		return SUBS_ADDED;
	if (s->n == MCP_SUBSCRIPTIONS_MAX || t->nsubs == MCP_SUBSCRIPTIONS_TENANT_MAX || !watch_join(t, snap, uri))
		return SUBS_FULL;
	s->sub = mem_realloc(s->sub, (s->n + 1) * sizeof *s->sub);
	s->sub[s->n++] = (struct mcp_sub){ mem_strdup(uri), version_id };
	s->tenant = t;
	return SUBS_ADDED;
}

void subs_remove(struct mcp_subs *s, const char *uri)
{
	size_t i = find(s, uri);

	if (i == s->n)
		return;
	watch_leave(s->tenant, uri);
	free(s->sub[i].uri);
	s->sub[i] = s->sub[--s->n];
}

void subs_fini(struct mcp_subs *s)
{
	for (size_t i = 0; i < s->n; i++) {
		watch_leave(s->tenant, s->sub[i].uri);
		free(s->sub[i].uri);
	}
	free(s->sub);
	*s = (struct mcp_subs){ .sub = NULL };
}

const char *subs_uri(const struct mcp_subs *s, size_t i)
{
	return s->sub[i].uri;
}

void subs_mark(struct mcp_subs *s, const char *uri)
{
	size_t i = find(s, uri);

	if (i < s->n)
		s->sub[i].version_id = MARKED;
}

size_t subs_tell(struct mcp_subs *s, const struct reg_snapshot *snap, subs_fn *fn, void *arg)
{
	size_t told = 0;

	for (size_t i = 0; i < s->n; i++) {
		int64_t now = version_of(snap, NULL, s->sub[i].uri);

		if (now == s->sub[i].version_id)
			continue;
		s->sub[i].version_id = now;
		fn(arg, s->sub[i].uri);
		met_inc(MET_resource_updates_sent);
		told++;
	}
	return told;
}

/* The URI of a request, NUL-terminated; false: refused and answered. */
static bool read_uri(struct mcp_req *req, const struct mcp_msg *msg, char ret[MCP_URI_SIZE])
{
	struct rpc_error e;
	size_t len;

	if (!rpc_string(msg->rpc->uri, ret, MCP_URI_SIZE, &len) || strlen(ret) != len)
		rpc_error_arguments(&e, "params.uri must be a string");
	else if (!exchange_memory(req->x))
		rpc_error_init(&e, FAULT_PARAMS, "A subscription needs a session: initialize first");
	else
		return true;
	req_fault(req, &e);
	return false;
}

void m_subscribe(struct mcp_req *req, const struct mcp_msg *msg)
{
	struct mcp_server *srv = req->x->srv;
	struct reg_snapshot *snap;
	enum subs_added added;
	struct rpc_error e;
	char uri[MCP_URI_SIZE];

	if (!read_uri(req, msg, uri))
		return;
	snap = reg_acquire(srv->env.registry, req->x->who->tenant_id);
	added = subs_add(&exchange_memory(req->x)->subs, snap, req->x, uri);
	reg_release(srv->env.registry, &snap);
	switch (added) {
	case SUBS_ADDED:
		req_result(req, &(struct enc_result){ .kind = ENC_EMPTY });
		return;
	case SUBS_UNKNOWN:
		rpc_error_unknown_resource(&e, req->rev, uri, strlen(uri));
		break;
	case SUBS_FULL:
		met_inc(MET_subscriptions_refused);
		rpc_error_init(&e, FAULT_LISTENS, "Too many subscriptions: at most %d", MCP_SUBSCRIPTIONS_MAX);
		break;
	}
	req_fault(req, &e);
}

void m_unsubscribe(struct mcp_req *req, const struct mcp_msg *msg)
{
	char uri[MCP_URI_SIZE];

	if (!read_uri(req, msg, uri))
		return;
	subs_remove(&exchange_memory(req->x)->subs, uri);
	req_result(req, &(struct enc_result){ .kind = ENC_EMPTY });
}
