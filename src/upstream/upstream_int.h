#ifndef UPSTREAM_INT_H
#define UPSTREAM_INT_H

#include "backend/handler.h"
#include "exec/sandbox.h"
#include "net/fetch.h"
#include "net/url.h"
#include "upstream/upstream.h"

/* The parts of upstreams: a document as a plan (document.c), what it has as definitions
 * (item.c, item.c). */

enum upstream_transport { UPSTREAM_PIPE, UPSTREAM_HTTP, UPSTREAM_SSE };

struct upstream_value { const char *name; const struct tpl *value; };

/* `ui`: from where its pages may load, and where they may ask (UI-08); whatever else they want of csp is taken out. */
struct upstream_ui { bool given; const char *const *connect, *const *resources; size_t nconnect, nresources; };

struct upstream_conf {                  /* in its own arena, mem; counted */
	struct arena *mem;
	unsigned refs;
	char name[64];
	char prefix[UPSTREAM_PREFIX_MAX + 1];
	char uri_prefix[UPSTREAM_PREFIX_MAX + 1];
	enum upstream_transport transport;
	const char *const *argv;        /* NULL-terminated; argv[0] is an absolute path */
	const char *cwd;                /* NULL = its own directory */
	struct exec_sandbox sandbox;
	const char *url; struct url base;
	struct fetch_policy policy;
	const struct upstream_value *values; size_t nvalues;    /* environment, or headers */
	bool shared;                    /* one link for all tenants */
	bool asks;                      /* its questions go to the caller (MCP B-45) */
	struct upstream_ui ui;
	uint32_t idle_ms;
};
int upstream_conf_new(const json_t *doc, struct upstream_conf **ret, struct err *err) MUST_CHECK;
struct upstream_conf *upstream_conf_ref(struct upstream_conf *conf);
void upstream_conf_free(struct upstream_conf **conf);   /* gives a reference back */

/* item.c: a URI there as it is shown here, and back: there(here(x)) is x.  Free. */
FOR_TESTS char *upstream_uri_here(const char *uri, const char *prefix);
char *upstream_uri_there(const char *uri, const char *prefix);
/* References of a `_meta` to pages, likewise; what cannot be one is taken out. */
FOR_TESTS void upstream_refs_here(json_t *meta, const char *prefix);
bool upstream_uri_prefix_hides(const char *prefix);     /* with it a URI could look like a page, or like anybody's */

/* On whose behalf a link is used.  principal NULL: on nobody's, to read lists and to hear of changes. */
struct upstream_caller { int64_t tenant_id; const char *tenant, *principal; };
/* The link that a call goes over, opened if need be.  Where questions come over a wire that names no call, it has no
 * other call, and is of this principal alone (HARDENING F-3).  ERR_TOOL; the message names the upstream. */
struct link;
int upstreams_link(struct upstreams *u, const char *name, const struct upstream_caller *who, struct link **ret,
		   struct err *err) MUST_CHECK;
/* What its links were given becomes something to be blanked from what a run says. */
void upstreams_use_secrets(const struct upstreams *u, const char *name, const struct backend_req *req);
/* fn of req: the resource with this URI there may give something else now.  ERR_LIMIT. */
int upstreams_watch(struct upstreams *u, const char *name, const char *uri, const struct backend_watch_req *req,
		    struct backend_watch **ret, struct err *err) MUST_CHECK;
struct map *upstreams_parked(struct upstreams *u);
const struct upstream_conf *upstreams_conf(const struct upstreams *u, const char *name);        /* NULL: not known */

#endif
