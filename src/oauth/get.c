/* One request to a server of an issuer: its keys, or what it knows of a token. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "net/fetch.h"
#include "net/fetch_policy.h"
#include "net/url.h"

#include "oauth_int.h"

#define SCOPE ":oauth"                  /* of connections: no tenant has this name */
#define POLICY_BYTES 65536

struct oauth_server {
	unsigned refs;                  /* of requests under way, which need the policy to their end, and of the owner */
	struct arena *mem;
	struct fetch_policy policy;
};

struct oauth_get {
	struct oauth_server *server;
	struct fetch *fetch;
	struct str body;
	int status;
	oauth_got_fn *got;              /* NULL: nobody waits any more */
	void *arg;
};

int oauth_server_new(const struct conf_issuer *conf, struct oauth_server **ret, struct err *err)
{
	const char *url = conf->jwks_uri ? conf->jwks_uri : conf->ask_uri;
	struct oauth_server *s = mem_zalloc(sizeof *s);
	struct fetch_allow *list;
	struct url u;
	int rc = 0;

	s->refs = 1;
	s->mem = arena_new(POLICY_BYTES);
	list = arena_alloc(s->mem, CONF_ISSUER_ALLOW_MAX * sizeof *list);
	for (size_t i = 0; rc == 0 && i < conf->nallow; i++)
		rc = fetch_allow_parse(conf->allow[i], "oauth.issuers", s->mem, &list[i], err);
	s->policy = (struct fetch_policy){ .allow = list, .nallow = conf->nallow,
		.ca_file = conf->ca_file ? arena_strdup(s->mem, conf->ca_file) : NULL };
	if (rc == 0)
		rc = url_parse(url, strlen(url), "oauth.issuers", &u, err);
	if (rc == 0)
		rc = fetch_policy_url(&s->policy, &u, err);
	if (rc < 0) {
		oauth_server_drop(&s);
		return rc;
	}
	*ret = s;
	return 0;
}

void oauth_server_drop(struct oauth_server **s)
{
	if (!*s)
		return;
	if (--(*s)->refs == 0) {
		arena_free(&(*s)->mem);
		free(*s);
	}
	*s = NULL;
}

static void on_head(void *arg, const struct fetch_head *h)
{
	struct oauth_get *g = arg;

	g->status = fetch_head_status(h);
}

static int on_data(void *arg, const void *p, size_t len)
{
	struct oauth_get *g = arg;

	str_put(&g->body, p, len);
	return 0;
}

static void on_done(void *arg, int rc, const struct err *err)
{
	struct oauth_get *g = arg;
	struct err bad;

	if (rc == 0 && g->status != 200)
		rc = err_set(&bad, ERR_IO, "", "its server answered with status %d", g->status);
	else if (rc < 0)
		bad = *err;
	if (g->got)
		g->got(g->arg, rc, &g->body, &bad);
	oauth_server_drop(&g->server);
	str_wipe(&g->body);
	free(g);
}

int oauth_get_start(struct fetcher *f, struct oauth_server *server, const struct oauth_get_req *req, oauth_got_fn *got,
		    void *arg, struct oauth_get **ret, struct err *err)
{
	static const struct fetch_sink sink = { on_head, on_data, on_done };
	struct fetch_header headers[3] = { { "accept", "application/json" } };
	struct fetch_req fr = { .method = req->form ? "POST" : "GET", .url = req->url, .policy = &server->policy, .scope = SCOPE,
		.headers = headers, .nheaders = 1, .body = req->form, .body_len = req->form ? strlen(req->form) : 0,
		.deadline_us = req->deadline_us, .body_max = JWKS_BYTES_MAX };
	struct oauth_get *g = mem_zalloc(sizeof *g);
	int rc;

	if (req->form)
		headers[fr.nheaders++] = (struct fetch_header){ "content-type", "application/x-www-form-urlencoded" };
	if (req->authorization)
		headers[fr.nheaders++] = (struct fetch_header){ "authorization", req->authorization };
	g->server = server;
	g->got = got;
	g->arg = arg;
	str_init(&g->body, JWKS_BYTES_MAX);
	rc = fetch_start(f, &fr, &sink, g, &g->fetch, err);
	if (rc < 0) {
		free(g);
		return rc;
	}
	server->refs++;
	*ret = g;
	return 0;
}

void oauth_get_cancel(struct oauth_get **g)
{
	if (!*g)
		return;
	(*g)->got = NULL;
	fetch_cancel((*g)->fetch);
	*g = NULL;
}
