/* The list oauth.issuers: whose tokens are accepted, and what their claims mean here (SEC 7). */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "conf/conf.h"
#include "json/json.h"

#include "conf_int.h"

#define ISSUERS_AT "/oauth/issuers"
#define URL_BYTES_MAX 2048
#define VALUE_BYTES_MAX 512             /* of a claim, of a scope's word */

/* A URL of ours or of an issuer, as it is compared and as it is put into headers: no blank, no quote, nothing behind
 * it. */
static bool is_url(const char *text)
{
	size_t scheme = strncmp(text, "https://", 8) == 0 ? 8 : strncmp(text, "http://", 7) == 0 ? 7 : 0;

	if (scheme == 0 || strlen(text) > URL_BYTES_MAX || text[scheme] == '\0' || text[scheme] == '/')
		return false;
	for (const char *p = text; *p; p++) {
		if (*p <= ' ' || *p >= 0x7f || strchr("\"\\<>#?^`{|}", *p))
			return false;
	}
	return true;
}

static int read_text(const json_t *obj, const char *at, const char *name, char **ret, struct err *err)
{
	const char *text = NULL;
	int rc = jx_get_string(obj, at, name, JX_OPTIONAL, &text, err);

	if (rc < 0 || !text)
		return rc;
	if (*text == '\0' || strlen(text) > VALUE_BYTES_MAX)
		return conf_err(err, at, name, "must have 1 to %d bytes", VALUE_BYTES_MAX);
	*ret = mem_strdup(text);
	return 0;
}

static int read_url(const json_t *obj, const char *at, const char *name, char **ret, struct err *err)
{
	const char *text = NULL;
	int rc = jx_get_string(obj, at, name, JX_OPTIONAL, &text, err);

	if (rc < 0 || !text)
		return rc;
	if (!is_url(text))
		return conf_err(err, at, name, "\"%s\" is no URL with https:// or http://, a host and perhaps a path",
				text);
	*ret = mem_strdup(text);
	return 0;
}

static int read_path(const json_t *obj, const char *at, const char *name, char **ret, struct err *err)
{
	const char *text = NULL;
	int rc = jx_get_string(obj, at, name, JX_OPTIONAL, &text, err);

	if (rc < 0 || !text)
		return rc;
	if (text[0] != '/')
		return conf_err(err, at, name, "must be an absolute path");
	*ret = mem_strdup(text);
	return 0;
}

static int read_entity(const json_t *obj, const char *at, const char *name, char **ret, struct err *err)
{
	const char *text = NULL;
	int rc = jx_get_string(obj, at, name, JX_OPTIONAL, &text, err);

	if (rc < 0 || !text)
		return rc;
	if (!text_entity_name(text, strlen(text)))
		return conf_err(err, at, name, "\"%s\" is no name: lower-case letters, digits, _ . -", text);
	*ret = mem_strdup(text);
	return 0;
}

/* Values of a claim and the names that they stand for. */
static int read_table(const json_t *obj, const char *at, const char *name, struct conf_claim *claim, struct err *err)
{
	json_t *table = NULL, *value;
	const char *key;
	int rc = jx_get_object(obj, at, name, JX_OPTIONAL, &table, err);

	if (rc < 0 || !table)
		return rc;
	if (json_object_size(table) > CONF_CLAIMED_MAX)
		return conf_err(err, at, name, "at most %d values", CONF_CLAIMED_MAX);
	claim->values = mem_calloc(json_object_size(table) + 1, sizeof(*claim->values));
	json_object_foreach(table, key, value) {
		struct conf_claimed *one = &claim->values[claim->nvalues++];

		if (!json_is_string(value) || !text_entity_name(json_string_value(value), json_string_length(value)))
			return conf_err(err, at, name, "%s: must be a name: lower-case letters, digits, _ . -", key);
		one->value = mem_strdup(key);
		one->name = mem_strdup(json_string_value(value));
	}
	return 0;
}

static int read_words(const json_t *obj, const char *at, struct conf_issuer *s, struct err *err)
{
	json_t *table = NULL, *list, *item;
	const char *word;
	size_t i;
	int rc = jx_get_object(obj, at, "scopes", JX_REQUIRED, &table, err);

	if (rc < 0)
		return rc;
	if (json_object_size(table) == 0 || json_object_size(table) > CONF_WORDS_MAX)
		return conf_err(err, at, "scopes", "must have 1 to %d words", CONF_WORDS_MAX);
	s->words = mem_calloc(json_object_size(table), sizeof(*s->words));
	json_object_foreach(table, word, list) {
		struct conf_word *w = &s->words[s->nwords++];

		/* RFC 6749 3.3: what may stand between the blanks of a scope. */
		for (const char *p = word; *p; p++) {
			if (*p <= ' ' || *p >= 0x7f || *p == '"' || *p == '\\')
				return conf_err(err, at, "scopes",
						"a word of a scope has no blanks, quotes or accents");
		}
		if (*word == '\0' || strlen(word) > VALUE_BYTES_MAX || !json_is_array(list) ||
		    json_array_size(list) == 0 ||
		    json_array_size(list) > CONF_WORD_SCOPES_MAX)
			return conf_err(err, at, "scopes", "%s: must be a list of 1 to %d scopes", word,
					CONF_WORD_SCOPES_MAX);
		w->word = mem_strdup(word);
		w->scopes = mem_calloc(json_array_size(list), sizeof(*w->scopes));
		json_array_foreach(list, i, item) {
			if (!json_is_string(item) || json_string_length(item) == 0)
				return conf_err(err, at, "scopes", "%s: entry %zu must be a text", word, i + 1);
			w->scopes[w->nscopes++] = mem_strdup(json_string_value(item));
		}
	}
	return 0;
}

static int read_introspection(const json_t *obj, const char *at, struct conf_issuer *s, struct err *err)
{
	static const char *const known[] = { "uri", "client", "secret", "secret_file" };
	json_t *block = NULL;
	char *here;
	int rc = jx_get_object(obj, at, "introspection", JX_OPTIONAL, &block, err);

	if (rc < 0 || !block)
		return rc;
	here = mem_printf("%s/introspection", at);
	rc = jx_only(block, here, known, NELEMS(known), err);
	if (rc == 0)
		rc = read_url(block, here, "uri", &s->ask_uri, err);
	if (rc == 0)
		rc = read_text(block, here, "client", &s->ask_client, err);
	if (rc == 0)
		rc = read_text(block, here, "secret", &s->ask_secret, err);
	if (rc == 0)
		rc = read_path(block, here, "secret_file", &s->ask_secret_file, err);
	if (rc == 0 && (!s->ask_uri || !s->ask_client || !s->ask_secret == !s->ask_secret_file))
		rc = err_set(err, ERR_INVALID, here,
			     "needs uri, client, and one of secret (a name of the store) and secret_file");
	free(here);
	return rc;
}

static int read_allow(const json_t *obj, const char *at, struct conf_issuer *s, struct err *err)
{
	json_t *list = NULL, *item;
	size_t i;
	int rc = jx_get_array(obj, at, "allow", JX_OPTIONAL, &list, err);

	if (rc < 0 || !list)
		return rc;
	if (json_array_size(list) > CONF_ISSUER_ALLOW_MAX)
		return conf_err(err, at, "allow", "at most %d entries", CONF_ISSUER_ALLOW_MAX);
	json_array_foreach(list, i, item) {
		if (!json_is_string(item) || json_string_length(item) == 0)
			return conf_err(err, at, "allow", "entry %zu must be a text like \"login.internal:8443\"",
					i + 1);
		s->allow[s->nallow++] = mem_strdup(json_string_value(item));
	}
	return 0;
}

/* What may stand together. */
static int check_issuer(const struct conf_issuer *s, const char *at, struct err *err)
{
	const char *uri = s->jwks_uri ? s->jwks_uri : s->ask_uri;

	if (!s->issuer)
		return conf_err(err, at, "issuer", "issuer is missing");
	if ((s->jwks_file != NULL) + (s->jwks_uri != NULL) + (s->ask_uri != NULL) != 1)
		return err_set(err, ERR_INVALID, at, "needs one of jwks_file, jwks_uri and introspection");
	if (uri && strncmp(uri, "https://", 8) != 0 && s->nallow == 0) {
		int rc = conf_err(err, at, s->jwks_uri ? "jwks_uri" : "introspection", "must be reached by https");

		err_hint(err,
			 "a server of your own may be named in allow: its \"host:port\" is then reached by http as "
			 "well");
		return rc;
	}
	if (!s->tenant.fixed == !s->tenant.claim)
		return err_set(err, ERR_INVALID, at, "needs one of tenant and tenant_claim");
	if (s->tenant.nvalues > 0 && !s->tenant.claim)
		return conf_err(err, at, "tenants", "are values of tenant_claim, which is missing");
	if (s->principal.fixed && s->principal.claim)
		return err_set(err, ERR_INVALID, at, "has both principal and principal_claim");
	if (s->principal.nvalues > 0 && !s->principal.claim)
		return conf_err(err, at, "principals", "are values of principal_claim, which is missing");
	return 0;
}

static int read_issuer(const json_t *obj, const char *at, struct conf_issuer *s, struct err *err)
{
	static const char *const known[] = { "issuer", "jwks_file", "jwks_uri", "introspection", "allow", "ca",
		"tenant", "tenant_claim",
		"tenants", "principal", "principal_claim", "principals", "scopes" };

	if (!json_is_object(obj))
		return err_set(err, ERR_INVALID, at, "must be a map with issuer, keys, tenant and scopes");
	if (jx_only(obj, at, known, NELEMS(known), err) < 0 || read_url(obj, at, "issuer", &s->issuer, err) < 0 ||
	    read_path(obj, at, "jwks_file", &s->jwks_file, err) < 0 ||
		read_url(obj, at, "jwks_uri", &s->jwks_uri, err) < 0 ||
	    read_introspection(obj, at, s, err) < 0 || read_allow(obj, at, s, err) < 0 ||
	    read_path(obj, at, "ca", &s->ca_file, err) < 0 ||
		read_entity(obj, at, "tenant", &s->tenant.fixed, err) < 0 ||
	    read_text(obj, at, "tenant_claim", &s->tenant.claim, err) < 0 ||
	    read_table(obj, at, "tenants", &s->tenant, err) < 0 ||
	    read_entity(obj, at, "principal", &s->principal.fixed, err) < 0 ||
	    read_text(obj, at, "principal_claim", &s->principal.claim, err) < 0 ||
	    read_table(obj, at, "principals", &s->principal, err) < 0 || read_words(obj, at, s, err) < 0)
		return conf_named(err);
	return check_issuer(s, at, err);
}

/* An opaque token does not say whose it is: only one issuer may be asked about it, or one would see another's
 * tokens. */
static int check_all(const struct conf *c, struct err *err)
{
	const struct conf_issuer *asked = NULL;

	for (size_t i = 0; i < c->nissuers; i++) {
		const struct conf_issuer *s = &c->issuers[i];
		char *at = mem_printf(ISSUERS_AT "/%zu", i);
		int rc = 0;

		for (size_t k = 0; rc == 0 && k < i; k++) {
			if (strcmp(c->issuers[k].issuer, s->issuer) == 0)
				rc = conf_err(err, at, "issuer", "%s is there twice", s->issuer);
		}
		if (rc == 0 && s->ask_uri && asked)
			rc = conf_err(err, at, "introspection",
				      "only one issuer can have it: an opaque token does not say whose it is");
		free(at);
		if (rc < 0)
			return rc;
		asked = s->ask_uri ? s : asked;
	}
	return 0;
}

int conf_oauth_read(const json_t *list, struct conf *c, struct err *err)
{
	struct str text = STR_INIT;
	json_t *item;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > CONF_ISSUERS_MAX)
		return err_set(err, ERR_INVALID, ISSUERS_AT, "must be a list of at most %d issuers",
			       CONF_ISSUERS_MAX);
	c->issuers = mem_calloc(json_array_size(list) + 1, sizeof(*c->issuers));
	json_array_foreach(list, i, item) {
		char *at = mem_printf(ISSUERS_AT "/%zu", i);
		int rc = read_issuer(item, at, &c->issuers[c->nissuers++], err);

		free(at);
		if (rc < 0)
			return rc;
	}
	jx_write_canon(list, &text);
	c->issuers_text = str_take(&text);
	return check_all(c, err);
}

/* The URL by which clients know this server is what tokens are for; on loopback it follows from the address. */
int conf_oauth_check(const struct conf *c, struct err *err)
{
	size_t len = c->oauth_resource ? strlen(c->oauth_resource) : 0;

	if (len > 0 && (!is_url(c->oauth_resource) || c->oauth_resource[len - 1] == '/'))
		return err_set(err, ERR_INVALID, "/oauth/resource",
			       "must be a URL without / at its end, like https://tools.example.com");
	if (c->nissuers == 0 || len > 0)
		return 0;
	for (size_t i = 0; i < c->nlisteners; i++) {
		const struct conf_listener *l = &c->listeners[i];

		if (l->transport == CONF_HTTP && !conf_is_loopback(l->address))
			return err_set(err, ERR_INVALID, ISSUERS_AT,
				       "oauth.resource is missing: tokens must be for the URL by which clients reach "
				       "%s", l->address);
	}
	return 0;
}

static void free_claim(struct conf_claim *claim)
{
	for (size_t i = 0; i < claim->nvalues; i++) {
		free(claim->values[i].value);
		free(claim->values[i].name);
	}
	free(claim->values);
	free(claim->fixed);
	free(claim->claim);
}

void conf_oauth_free(struct conf *c)
{
	for (size_t i = 0; i < c->nissuers; i++) {
		struct conf_issuer *s = &c->issuers[i];

		for (size_t k = 0; k < s->nwords; k++) {
			for (size_t n = 0; n < s->words[k].nscopes; n++)
				free(s->words[k].scopes[n]);
			free(s->words[k].scopes);
			free(s->words[k].word);
		}
		for (size_t k = 0; k < s->nallow; k++)
			free(s->allow[k]);
		free_claim(&s->tenant);
		free_claim(&s->principal);
		free(s->words);
		free(s->issuer);
		free(s->jwks_file);
		free(s->jwks_uri);
		free(s->ca_file);
		free(s->ask_uri);
		free(s->ask_client);
		free(s->ask_secret);
		free(s->ask_secret_file);
	}
	free(c->issuers);
	free(c->issuers_text);
	c->issuers = NULL;
	c->issuers_text = NULL;
	c->nissuers = 0;
}

void conf_oauth_sample(struct str *out)
{
	str_puts(out,
		 "\n"
		 "  # Authorization servers whose access tokens are accepted on HTTP beside keys.  Needs a restart.\n"
		 "#  issuers:\n"
		 "#    - issuer: https://login.example.com\n"
		 "#      jwks_uri: https://login.example.com/jwks   # or jwks_file: /etc/toolcrib/login.json\n"
		 "#      tenant_claim: org                          # or tenant: acme\n"
		 "#      tenants: {org-17: acme}                    # without: the claim is the tenant's name\n"
		 "#      principal: agent                           # or principal_claim: …; without: each sub is its "
		 "own\n"
		 "#      scopes:                                    # words of its tokens, and what they give here\n"
		 "#        tools.read: [\"tools:list\"]\n"
		 "#        tools.use: [\"tools:list\", \"tools:call:*\"]\n"
		 "#    - issuer: https://other.example.com          # opaque tokens: it is asked about each\n"
		 "#      introspection: {uri: \"https://other.example.com/introspect\", client: toolcrib, secret: "
		 "other-introspection}\n"
		 "#      tenant: acme\n"
		 "#      scopes: {mcp: [\"tools:list\", \"tools:call:*\"]}\n");
}
