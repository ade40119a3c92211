/* Access tokens on HTTP: a bearer that is no key is checked by its issuer's word, for which a request may have to wait at
 * its head; and what those are told who have none, or one that is not enough (SEC 7, MCP 17). */

#include "config.h"

#include "tr_http_int.h"

#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/mem.h"
#include "base/text.h"
#include "oauth/oauth.h"
#include "tenant/scope.h"

#define WELL_KNOWN "/.well-known/oauth-protected-resource"

static bool has_tokens(const struct tr_http *t)
{
	return oauth_has_issuers(t->env.oauth) && !t->conf->tenant;
}

/* --- the URL that was asked for, and its document */

/* The path of the MCP endpoint behind prefix: the tenant's own, when the path names what can be one, whether or not there
 * is such a tenant (MCP B-30); /sse and /messages belong to /mcp. */
static void put_path(const struct tr_http *t, const char *prefix, struct http_text tenant, struct str *out)
{
	str_puts(out, t->origin);
	str_puts(out, prefix);
	if (tenant.p && text_entity_name(tenant.p, tenant.len)) {
		str_puts(out, "/t/");
		str_put(out, tenant.p, tenant.len);
	}
	str_puts(out, "/mcp");
}

bool http_route_metadata(const struct tr_http *t, struct http_text path, struct http_text *ret_tenant)
{
	static const char prefix[] = WELL_KNOWN;
	const size_t n = sizeof(prefix) - 1;

	*ret_tenant = (struct http_text){ NULL, 0 };
	if (!has_tokens(t) || path.len < n || memcmp(path.p, prefix, n) != 0)
		return false;
	path = (struct http_text){ path.p + n, path.len - n };
	if (path.len == 0)                              /* the root form speaks for /mcp (MCP A-04) */
		return true;
	return http_route(path, ret_tenant) == ROUTE_MCP && (!ret_tenant->p || text_entity_name(ret_tenant->p, ret_tenant->len));
}

void http_metadata(const struct tr_http *t, struct http_text tenant, struct str *out)
{
	struct str resource = STR_INIT;

	put_path(t, "", tenant, &resource);
	oauth_metadata(t->env.oauth, str_text(&resource), out);
	str_fini(&resource);
}

/* --- challenges */

static void put_challenge(const struct tr_http *t, struct http_text tenant, struct oauth_challenge *c, struct str *out)
{
	struct str metadata = STR_INIT;

	put_path(t, WELL_KNOWN, tenant, &metadata);
	c->metadata = str_text(&metadata);
	str_puts(out, "WWW-Authenticate: ");
	oauth_challenge(t->env.oauth, c, out);
	str_puts(out, "\r\n");
	str_fini(&metadata);
}

void http_unauthorized(const struct tr_http *t, struct http_text tenant, bool had_one, struct str *out)
{
	/* What every client begins with: a list shows what may be called.  More is asked for when it is needed. */
	struct oauth_challenge c = { .error = had_one ? "invalid_token" : NULL, .rights = SCOPE_TOOLS_LIST | SCOPE_TOOLS_CALL };

	if (has_tokens(t))
		put_challenge(t, tenant, &c, out);
	else
		str_puts(out, "WWW-Authenticate: Bearer realm=\"toolcrib\"\r\n");
}

static unsigned rights_of(const struct scopes *s)
{
	unsigned rights = 0;

	for (unsigned right = SCOPE_ANYONE << 1; right <= SCOPE_ADMIN; right <<= 1)
		rights |= scope_has(s, right) ? right : 0;
	return rights;
}

/* What is lacking and what is there already, at once: a client that asks for less would lose the rest (MCP A-10). */
void http_insufficient(const struct hreq *q, const char *scope, struct str *out)
{
	struct oauth_challenge c = { .error = "insufficient_scope", .issuer = q->issuer };
	struct scopes *lacks = NULL;

	if (!q->issuer || scopes_parse(scope, strlen(scope), &lacks, NULL) < 0) {
		str_printf(out, "WWW-Authenticate: Bearer realm=\"toolcrib\", error=\"insufficient_scope\", scope=\"%s\"\r\n", scope);
		return;
	}
	c.rights = rights_of(lacks) | rights_of(q->who->scopes);
	scopes_unref(&lacks);
	put_challenge(q->t, (struct http_text){ q->tenant, q->tenant ? strlen(q->tenant) : 0 }, &c, out);
}

/* --- the check */

/* What is known of it is known: who, or why not.  0, or the status that refuses. */
static int settle(struct hreq *q, int rc, const struct oauth_pass *pass, const struct err *err, struct http_refusal *no)
{
	struct http_text tenant = { q->tenant, q->tenant ? strlen(q->tenant) : 0 };

	if (rc == 0) {
		q->who = pass->who;
		q->issuer = pass->issuer;
		return http_admit(q->c, tenant, q->who, no);
	}
	snprintf(no->text, sizeof(no->text), "%s\n", err->msg);
	if (rc != ERR_DENIED) {
		no->retry_s = (err->retry_ms + 999) / 1000;
		return 503;
	}
	http_unauthorized(q->t, tenant, true, &no->headers);
	http_not_known(q->c);
	http_punish(q->c);
	return 401;
}

static void on_checked(void *arg, int rc, const struct oauth_pass *pass, const struct err *err)
{
	struct hreq *q = arg;
	struct http_refusal no = { .headers = STR_INIT };
	int status;

	q->check = NULL;
	status = settle(q, rc, pass, err, &no);
	if (status == 0 && q->later.status) {
		status = q->later.status;
		str_puts(&no.headers, q->later.headers);
		snprintf(no.text, sizeof(no.text), "%s", q->later.text);
	}
	if (status == 0) {
		http_go_on(q->r);
		return;
	}
	if (no.retry_s)
		str_printf(&no.headers, "Retry-After: %u\r\n", no.retry_s);
	hreq_refuse(q, status, str_text(&no.headers), no.text);
	str_fini(&no.headers);
}

int hreq_check_token(struct hreq *q, struct http_text token, struct http_refusal *no)
{
	const struct cred_source source = { q->from, AUDIT_HTTP };
	struct oauth_pass pass = { 0 };
	struct str resource = STR_INIT;
	struct err err = { 0 };
	int rc;

	put_path(q->t, "", (struct http_text){ q->tenant, q->tenant ? strlen(q->tenant) : 0 }, &resource);
	rc = oauth_check(q->t->env.oauth, &(struct oauth_ask){ token.p, token.len, str_text(&resource), &source }, on_checked, q,
			 &pass, &q->check, &err);
	str_fini(&resource);
	return rc == 1 ? HTTP_LATER : settle(q, rc, &pass, &err, no);
}
