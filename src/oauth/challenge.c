/* What is told to clients without a token that is good enough: the document of the resource (RFC 9728) and
 * challenges. */

#include "config.h"

#include <string.h>

#include "base/text.h"
#include "conf/conf.h"
#include "json/json.h"
#include "tenant/scope.h"

#include "oauth_int.h"

static bool knows(const struct oauth_issuer *s, const char *word)
{
	for (size_t i = 0; i < s->nwords; i++) {
		if (strcmp(s->words[i].word, word) == 0)
			return true;
	}
	return false;
}

/* A client may go to any issuer with it: only a word that all of them know is a good one. */
static bool is_common(const struct oauth *o, const char *word)
{
	for (size_t i = 0; i < o->nissuers; i++) {
		if (!knows(&o->issuers[i], word))
			return false;
	}
	return true;
}

void oauth_metadata(const struct oauth *o, const char *resource, struct str *out)
{
	const struct oauth_issuer *first = &o->issuers[0];
	const char *comma = "";

	str_puts(out, "{\"resource\":");
	jx_write_stringz(out, resource);
	str_puts(out, ",\"authorization_servers\":[");
	for (size_t i = 0; i < o->nissuers; i++) {
		str_puts(out, i ? "," : "");
		jx_write_stringz(out, o->issuers[i].conf->issuer);
	}
	str_puts(out, "],\"scopes_supported\":[");
	for (size_t i = 0; i < first->nwords; i++) {
		/* It is about the client and the issuer, never about this resource (MCP A-12). */
		if (!is_common(o, first->words[i].word) || strcmp(first->words[i].word, "offline_access") == 0)
			continue;
		str_puts(out, comma);
		jx_write_stringz(out, first->words[i].word);
		comma = ",";
	}
	str_puts(out, "],\"bearer_methods_supported\":[\"header\"],\"resource_name\":\"toolcrib\"}");
}

/* For each right the first word that gives it, each word once. */
static void put_scope(const struct oauth *o, const struct oauth_challenge *c, struct str *out)
{
	const struct oauth_issuer *s = c->issuer ? c->issuer : &o->issuers[0];
	bool put[CONF_WORDS_MAX] = { false };
	const char *blank = "";

	for (unsigned right = SCOPE_ANYONE << 1; right <= SCOPE_ADMIN; right <<= 1) {
		for (size_t i = 0; (c->rights & right) && i < s->nwords; i++) {
			if (!scope_has(s->words[i].scopes, right) || (!c->issuer && !is_common(o, s->words[i].word)))
				continue;
			put[i] = true;
			break;
		}
	}
	for (size_t i = 0; i < s->nwords; i++) {
		if (!put[i] || strcmp(s->words[i].word, "offline_access") == 0)
			continue;
		str_printf(out, "%s%s", blank, s->words[i].word);
		blank = " ";
	}
}

void oauth_challenge(const struct oauth *o, const struct oauth_challenge *c, struct str *out)
{
	struct str scope = STR_INIT;

	str_puts(out, "Bearer realm=\"toolcrib\"");
	if (c->error)
		str_printf(out, ", error=\"%s\"", c->error);
	put_scope(o, c, &scope);
	if (scope.len > 0)
		str_printf(out, ", scope=\"%s\"", scope.p);
	str_printf(out, ", resource_metadata=\"%s\"", c->metadata);
	str_fini(&scope);
}
