/* toolcribd.yaml: the scalar keys, one row of conf.def each, the issuers of OAuth and the roles.  The list of
 * listeners has a file of its own.  Read at the start and at each reload, on the loop's thread or before it. */
#include "config.h"

#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "conf/conf.h"
#include "json/json.h"
#include "json/yaml.h"

#include "conf_int.h"

/* --- The list oauth.issuers */

/* Whose tokens are accepted, and what their claims mean here (SEC 7). */

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

static int conf_oauth_read(const json_t *list, struct conf *c, struct err *err)
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
static int conf_oauth_check(const struct conf *c, struct err *err)
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

static void conf_oauth_free(struct conf *c)
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

static void conf_oauth_sample(struct str *out)
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

/* --- The list of roles: who may administer or audit. */

#define KEY_CHARS 64                    /* SHA-256 in hex */

static const char *const names[CONF_ROLE_COUNT] = {
	[CONF_ADMIN] = "admin", [CONF_OPERATOR] = "operator", [CONF_AUDITOR] = "auditor",
		[CONF_TENANT_AUDITOR] = "tenant-auditor",
	[CONF_TENANT_ADMIN] = "tenant-admin",
};

const char *conf_role_name(enum conf_role_kind kind)
{
	return names[kind];
}

static int read_kind(const json_t *obj, const char *at, enum conf_role_kind *ret, struct err *err)
{
	const char *name = NULL;
	int rc = jx_get_string(obj, at, "role", JX_REQUIRED, &name, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < NELEMS(names); i++) {
		if (strcmp(names[i], name) == 0) {
			*ret = (enum conf_role_kind)i;
			return 0;
		}
	}
	return conf_err(err, at, "role",
			"must be one of admin, operator, auditor, tenant-auditor, tenant-admin, is \"%s\"", name);
}

static int read_key(const json_t *obj, const char *at, struct conf_role *r, struct err *err)
{
	static const char hex[] = "0123456789abcdef";
	const char *key = NULL, *name = NULL;

	if (jx_get_string(obj, at, "key", JX_REQUIRED, &key, err) < 0 ||
	    jx_get_string(obj, at, "name", JX_REQUIRED, &name, err) < 0)
		return conf_named(err);
	if (strlen(key) != KEY_CHARS || strspn(key, hex) != KEY_CHARS) {
		(void)conf_err(err, at, "key", "must be %d hex digits in lower case, not the key itself", KEY_CHARS);
		err_hint(err, "toolcrib admin-key NAME makes a key and says what stands here");
		return ERR_INVALID;
	}
	if (!text_entity_name(name, strlen(name)) || strlen(name) > CONF_KEY_NAME_MAX)
		return conf_err(err, at, "name",
				"\"%s\" is no name of at most %d bytes: lower-case letters, digits, _ . -", name,
				CONF_KEY_NAME_MAX);
	r->key = mem_strdup(key);
	r->name = mem_strdup(name);
	return 0;
}

/* One of uid, gid, group and key. */
static int read_whose(const json_t *obj, const char *at, struct conf_role *r, struct err *err)
{
	const bool by_uid = json_object_get(obj, "uid") != NULL, by_gid = json_object_get(obj, "gid") != NULL;
	const bool by_key = json_object_get(obj, "key") != NULL;
	const char *name = NULL;
	const struct group *group;
	int64_t id = 0;

	if (jx_get_string(obj, at, "group", JX_OPTIONAL, &name, err) < 0)
		return conf_named(err);
	if (by_uid + by_gid + (name != NULL) + by_key != 1)
		return conf_err(err, at, "uid", "say whose role it is: one of uid, gid and group, or of key");
	if (by_key)
		return read_key(obj, at, r, err);
	if (json_object_get(obj, "name"))
		return conf_err(err, at, "name", "only a key has a name");
	if (!name && jx_get_int(obj, at, by_uid ? "uid" : "gid", JX_REQUIRED, 0, UINT32_MAX - 1, &id, err) < 0)
		return conf_named(err);
	r->by_group = !by_uid;
	r->id = (uint32_t)id;
	if (!name)
		return 0;
	group = getgrnam(name);
	if (!group)
		return conf_err(err, at, "group", "this machine has no group \"%s\"", name);
	r->id = group->gr_gid;
	return 0;
}

static int read_role(const json_t *obj, const char *at, struct conf_role *r, struct err *err)
{
	static const char *const known[] = { "role", "uid", "gid", "group", "key", "name", "person", "tenant" };
	const char *tenant = NULL, *person = NULL;
	bool of_tenant;

	if (!json_is_object(obj))
		return err_set(err, ERR_INVALID, at, "must be a map with role, and uid or another that says whose");
	if (jx_only(obj, at, known, NELEMS(known), err) < 0 || read_kind(obj, at, &r->kind, err) < 0 ||
	    read_whose(obj, at, r, err) < 0 || jx_get_string(obj, at, "tenant", JX_OPTIONAL, &tenant, err) < 0 ||
	    jx_get_string(obj, at, "person", JX_OPTIONAL, &person, err) < 0)
		return conf_named(err);
	if (person && !text_entity_name(person, strlen(person)))
		return conf_err(err, at, "person", "\"%s\" is no name: lower-case letters, digits, _ . -", person);
	if (person && r->by_group)
		return conf_err(err, at, "person", "a group is no person: name the user ids");
	r->person = mem_strdup0(person);
	if (tenant && !text_entity_name(tenant, strlen(tenant)))
		return conf_err(err, at, "tenant", "\"%s\" is no name: lower-case letters, digits, _ . -", tenant);
	of_tenant = r->kind == CONF_TENANT_AUDITOR || r->kind == CONF_TENANT_ADMIN;
	if (of_tenant && !tenant)
		return conf_err(err, at, "tenant", "the role %s needs the tenant that it is for", names[r->kind]);
	if (tenant && !of_tenant)
		return conf_err(err, at, "tenant", "only the roles tenant-auditor and tenant-admin have a tenant");
	r->tenant = tenant ? mem_strdup(tenant) : NULL;
	return 0;
}

/* A user id, or a key by what records call it, is one person's (HARDENING F-15). */
static int check_persons(const struct conf *c, const char *at, struct err *err)
{
	const struct conf_role *r = &c->roles[c->nroles - 1];

	for (const struct conf_role *o = c->roles; o < r && r->person; o++) {
		bool same = r->key && o->key ? strcmp(r->name, o->name) == 0 : !r->key && !o->key && !o->by_group && r->id == o->id;

		if (same && o->person && strcmp(o->person, r->person) != 0)
			return conf_err(err, at, "person", "the same one is %s in another line", o->person);
	}
	return 0;
}

static int conf_roles_read(const json_t *list, struct conf *c, struct err *err)
{
	json_t *item;
	size_t i;
	int rc = 0;

	if (!json_is_array(list) || json_array_size(list) > CONF_ROLES_MAX)
		return err_set(err, ERR_INVALID, "/roles", "must be a list of at most %d roles", CONF_ROLES_MAX);
	c->roles = mem_calloc(json_array_size(list) + 1, sizeof(*c->roles));
	json_array_foreach(list, i, item) {
		char *at = mem_printf("/roles/%zu", i);

		rc = read_role(item, at, &c->roles[c->nroles++], err);
		if (rc == 0)
			rc = check_persons(c, at, err);
		free(at);
		if (rc < 0)
			return rc;
	}
	return 0;
}

void conf_roles_take(struct conf *c, struct conf *next)
{
	struct conf_role *roles = c->roles;
	size_t n = c->nroles;

	c->roles = next->roles;
	c->nroles = next->nroles;
	next->roles = roles;
	next->nroles = n;
}

static void conf_roles_free(struct conf *c)
{
	for (size_t i = 0; i < c->nroles; i++) {
		free(c->roles[i].tenant);
		free(c->roles[i].key);
		free(c->roles[i].name);
		free(c->roles[i].person);
	}
	free(c->roles);
	c->roles = NULL;
	c->nroles = 0;
}

static void conf_roles_sample(struct str *out)
{
	str_puts(out,
		 "\n# Who may give commands, by user id or by group; they reach the server by admin.socket, or, with a "
		 "key that\n"
		 "# toolcrib admin-key made, by admin.listen.  Root always may.  The user of the server, as which "
		 "tools run, may\n"
		 "# until a user or a group here has the role admin; from then on only by its own uid.  role: admin, "
		 "operator\n"
		 "# (no keys, no definitions), auditor (reads, changes nothing), tenant-auditor (reads one tenant's "
		 "audit) or\n"
		 "# tenant-admin (one tenant's keys and grants).  Lines with the same person are one administrator, who "
		 "agrees to\n"
		 "# nothing that he asked for himself.  Reloadable.\n"
		 "#roles:\n"
		 "#  - {role: admin, uid: 1000, person: anna}\n"
		 "#  - {role: operator, gid: 2000}              # or group: NAME\n"
		 "#  - {role: auditor, uid: 1001}\n"
		 "#  - {role: tenant-auditor, uid: 1002, tenant: acme}\n"
		 "#  - {role: operator, key: c04c2e0a2b1b5c1b5f7d4e6f8a9b0c1d2e3f405162738495a6b7c8d9eaf0b1c2, name: "
		 "ci}\n");
}

/* --- the whole file */

#define CONF_FILE_MAX (1u << 20)
#define CONF_FILE "toolcribd.yaml"

enum row_type { ROW_UINT, ROW_TEXT };
enum row_reload { LIVE, START };

struct row {
	const char *key, *unit;         /* unit of a number, choices of a text */
	enum row_type type;
	enum row_reload reload;
	uint32_t min, max, def;
	const char *def_text;
	size_t offset;                  /* in struct conf */
	const char *help;
};

static const struct row rows[] = {
#define CONF_UINT(member, key, unit, min, max, def, reload, help) \
	{ key, unit, ROW_UINT, reload, min, max, def, NULL, offsetof(struct conf, member), help },
#define CONF_TEXT(member, key, choices, def, reload, help) \
	{ key, choices, ROW_TEXT, reload, 0, 0, 0, def, offsetof(struct conf, member), help },
#include "conf/conf.def"
#undef CONF_UINT
#undef CONF_TEXT
};

static uint32_t *uint_of(struct conf *c, const struct row *row)
{
	return (uint32_t *)(void *)((char *)c + row->offset);
}

static char **text_of(struct conf *c, const struct row *row)
{
	return (char **)(void *)((char *)c + row->offset);
}

static void set_text(char **at, const char *value)
{
	char *copy = mem_strdup0(value);

	free(*at);
	*at = copy;
}

static struct conf *conf_new(void)
{
	struct conf *c = mem_zalloc(sizeof(*c));

	c->lists = json_object();
	c->places = mem_calloc(NELEMS(rows), sizeof(*c->places));
	for (size_t i = 0; i < NELEMS(rows); i++) {
		if (rows[i].type == ROW_UINT)
			*uint_of(c, &rows[i]) = rows[i].def;
		else
			set_text(text_of(c, &rows[i]), rows[i].def_text);
	}
	return c;
}

void conf_free(struct conf **cp)
{
	struct conf *c = cp ? *cp : NULL;

	if (!c)
		return;
	for (size_t i = 0; i < NELEMS(rows); i++) {
		if (rows[i].type == ROW_TEXT)
			free(*text_of(c, &rows[i]));
		free(c->places[i]);
	}
	free(c->places);
	json_decref(c->lists);
	conf_list_free(c);
	conf_roles_free(c);
	conf_oauth_free(c);
	free(c->file);
	free(c);
	*cp = NULL;
}

/* Is value one of "a|b|c"?  A placeholder "<…>" takes any text but the empty one. */
static bool is_choice(const char *choices, const char *value)
{
	size_t len = strlen(value);

	if (*choices == '<')
		return len > 0;
	for (const char *p = choices; *p; ) {
		size_t n = strcspn(p, "|");

		if (n == len && memcmp(p, value, n) == 0)
			return true;
		p += n + (p[n] == '|');
	}
	return false;
}

static int read_row(struct conf *c, const struct row *row, const json_t *obj, const char *at, const char *name,
		    struct err *err)
{
	const char *text = NULL;
	int64_t n = 0;
	int rc;

	if (row->type == ROW_UINT) {
		rc = jx_get_int(obj, at, name, JX_REQUIRED, row->min, row->max, &n, err);
		if (rc == 0)
			*uint_of(c, row) = (uint32_t)n;
		return rc < 0 ? err_wrap(err, "%s (%s)", row->key, row->unit) : 0;
	}
	rc = jx_get_string(obj, at, name, JX_REQUIRED, &text, err);
	if (rc < 0)
		return err_wrap(err, "%s", row->key);
	if (!is_choice(row->unit, text)) {
		return conf_err(err, at, name, "%s must be %s%s, is \"%s\"", row->key,
			      *row->unit == '<' ? "a " : "one of ", row->unit, text);
	}
	set_text(text_of(c, row), text);
	return 0;
}

/* The row with this very key, or NULL; *ret_group says whether keys lie below it ("audit"). */
static const struct row *row_find(const char *key, bool *ret_group)
{
	size_t len = strlen(key);

	*ret_group = false;
	for (size_t i = 0; i < NELEMS(rows); i++) {
		if (strcmp(rows[i].key, key) == 0)
			return &rows[i];
		if (strncmp(rows[i].key, key, len) == 0 && rows[i].key[len] == '.')
			*ret_group = true;
	}
	return NULL;
}

static const struct list {
	const char *key;
	int (*read)(const json_t *value, struct conf *c, struct err *err);
} lists[] = {
	{ CONF_LISTENERS, conf_list_read }, { CONF_ROLES, conf_roles_read }, { CONF_ISSUERS, conf_oauth_read },
};

static const struct list *list_find(const char *key)
{
	for (size_t i = 0; i < NELEMS(lists); i++)
		if (strcmp(lists[i].key, key) == 0)
			return &lists[i];
	return NULL;
}

static int unknown_key(const char *at, const char *name, const char *key, struct err *err)
{
	const char *keys[NELEMS(rows) + NELEMS(lists)];
	const char *near;
	size_t n = 0;
	int rc;

	for (size_t i = 0; i < NELEMS(rows); i++)
		keys[n++] = rows[i].key;
	for (size_t i = 0; i < NELEMS(lists); i++)
		keys[n++] = lists[i].key;
	rc = conf_err(err, at, name, "unknown key %s", key);
	near = text_nearest(key, keys, n);
	if (near)
		err_hint(err, "did you mean %s?", near);
	return rc;
}

/* One level of the document: top (prefix "") or a group of keys ("audit."). */
static int read_level(struct conf *c, const json_t *obj, const char *at, const char *prefix, struct err *err)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)obj, name, value) {
		char *key = mem_printf("%s%s", prefix, name);
		bool group;
		const struct row *row = row_find(key, &group);
		int rc = 0;

		if (row) {
			rc = read_row(c, row, obj, at, name, err);
		} else if (group && !*prefix) {
			char *below = mem_printf("/%s", name);
			char *dotted = mem_printf("%s.", name);

			if (json_is_object(value))
				rc = read_level(c, value, below, dotted, err);
			else
				rc = err_set(err, ERR_INVALID, below, "%s must be a map", key);
			free(below);
			free(dotted);
		} else if (list_find(key)) {
			rc = list_find(key)->read(value, c, err);
			(void)json_object_set(c->lists, key, value);
		} else {
			rc = unknown_key(at, name, key, err);
		}
		free(key);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Whether the endpoint is one is for who asks it (otel/otel.h). */
static int conf_otel_check(const struct conf *c, struct err *err)
{
	const char *lone = c->otel_headers_file ? "headers_file" : c->otel_ca ? "ca" : c->otel_resource ? "resource" : NULL;

	return c->otel_endpoint || !lone ? 0 : conf_err(err, "/otel", lone, "it is for otel.endpoint, which is missing");
}

static int read_root(struct conf *c, const json_t *root, struct err *err)
{
	int rc = read_level(c, root, "", "", err);

	if (rc == 0)
		rc = conf_admin_check(c, err);
	if (rc == 0)
		rc = conf_metrics_check(c, err);
	if (rc == 0)
		rc = conf_otel_check(c, err);
	return rc < 0 ? rc : conf_oauth_check(c, err);
}

/* Where each key stands, for who finds a fault in its value later. */
static void note_places(struct conf *c, const struct yaml_docs *docs)
{
	for (size_t i = 0; i < NELEMS(rows); i++) {
		const char *dot = strchr(rows[i].key, '.');
		char *group = mem_strndup(rows[i].key, dot ? (size_t)(dot - rows[i].key) : 0);
		const json_t *level = dot ? json_object_get(yaml_root(docs, 0), group) : yaml_root(docs, 0);
		const char *name = dot ? dot + 1 : rows[i].key;
		char *at = mem_printf("%s%s/%s", dot ? "/" : "", group, name), where[sizeof(((struct err *)0)->where)];

		if (json_object_get(level, name)) {
			yaml_where(docs, 0, at, where, sizeof(where));
			set_text(&c->places[i], where);
		}
		free(group);
		free(at);
	}
}

const char *conf_where(const struct conf *c, const char *key)
{
	for (size_t i = 0; i < NELEMS(rows); i++)
		if (strcmp(rows[i].key, key) == 0 && c->places[i])
			return c->places[i];
	return c->file ? c->file : "";
}

static int read_file(struct conf *c, const char *file, struct err *err)
{
	struct str text = STR_INIT;
	struct yaml_docs *docs = NULL;
	json_t *root;
	int rc = path_read(file, CONF_FILE_MAX, &text, err);

	if (rc == 0 && text.len == 0)   /* a disk was full, an editor died; the defaults are what a comment says */
		rc = err_set(err, ERR_INVALID, file, "the file is empty; for the defaults write a comment, or name no file");
	if (rc < 0)
		goto out;
	digest_sha256(str_text(&text), text.len, c->digest);
	rc = yaml_load(file, str_text(&text), text.len, &docs, err);
	if (rc < 0)
		goto out;
	if (yaml_count(docs) == 0)
		goto out;               /* a file of comments only: the defaults */
	root = yaml_root(docs, 0);
	if (yaml_count(docs) > 1)
		rc = err_set(err, ERR_INVALID, file, "more than one document");
	else if (json_is_object(root))
		rc = read_root(c, root, err);
	else if (!json_is_null(root))
		rc = err_set(err, ERR_INVALID, "", "must be a map of keys, is %s", jx_type_name(root));
	if (rc < 0 && err && yaml_count(docs) == 1) {
		char where[sizeof(err->where)];

		yaml_where(docs, 0, err->where, where, sizeof(where));
		memcpy(err->where, where, sizeof(where));
	}
	if (rc == 0)
		note_places(c, docs);
out:
	yaml_free(&docs);
	str_fini(&text);
	return rc;
}

int conf_digest(const char *file, uint8_t ret[32], struct err *err)
{
	struct str text = STR_INIT;
	int rc = path_read(file, CONF_FILE_MAX, &text, err);

	if (rc == 0)
		digest_sha256(text.p, text.len, ret);
	str_fini(&text);
	return rc;
}

/* The first default file that exists, or NULL; free() it. */
static char *default_file(void)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char *file = mem_strdup(SYSCONFDIR "/toolcrib/" CONF_FILE);

	if (path_exists(file))
		return file;
	free(file);
	file = NULL;
	if (config && *config == '/')
		file = mem_printf("%s/toolcrib/" CONF_FILE, config);
	else if (home && *home == '/')
		file = mem_printf("%s/.config/toolcrib/" CONF_FILE, home);
	if (file && !path_exists(file)) {
		free(file);
		file = NULL;
	}
	return file;
}

int conf_load(const char *file, struct conf **ret, struct err *err)
{
	struct conf *c = conf_new();
	int rc = 0;

	c->file = file ? mem_strdup(file) : default_file();
	if (c->file)
		rc = read_file(c, c->file, err);
	if (rc < 0) {
		conf_free(&c);
		return rc;
	}
	if (c->nlisteners == 0)
		conf_list_default(c);
	*ret = c;
	return 0;
}

static const char *example_of(const struct row *row)
{
	static const char *const like[][2] = { { "store", "/var/lib/toolcrib" }, { "user", "crib" }, { "files", "/srv" },
		{ "signer.dir", "/var/lib/toolcrib-sign" }, { "signer.socket", "/run/toolcrib-sign/sign.sock" },
		{ "anchor.file", "/mnt/elsewhere/notes" }, { "anchor.cmd", "/usr/local/bin/keep-note" },
		{ "admin.cert", "/etc/toolcrib/admin.crt" }, { "admin.key", "/etc/toolcrib/admin.key" },
		{ "admin.listen", "127.0.0.1:8810" }, { "admin.socket", "/run/toolcrib/admin.sock" },
		{ "metrics.listen", "127.0.0.1:9464" }, { "metrics.cert", "/etc/toolcrib/metrics.crt" },
		{ "metrics.key", "/etc/toolcrib/metrics.key" }, { "metrics.token_file", "/etc/toolcrib/metrics.token" },
		{ "otel.endpoint", "https://otel.example.com:4318" }, { "otel.headers_file", "/etc/toolcrib/otel.headers" },
		{ "otel.ca", "/etc/toolcrib/otel-ca.crt" }, { "otel.resource", "deployment.environment.name=prod" } };

	for (size_t i = 0; i < NELEMS(like); i++)
		if (strcmp(row->key, like[i][0]) == 0)
			return like[i][1];
	return strcmp(row->unit, "<URL>") == 0 ? "https://tools.example.com" : row->unit;
}

static void sample_row(struct str *out, const struct row *row, const char *indent, const char *name)
{
	str_printf(out, "\n%s# %s\n", indent, row->help);
	if (row->type == ROW_UINT) {
		str_printf(out, "%s# Unit: %s, %u to %u, %s.\n", indent, row->unit, (unsigned)row->min,
			   (unsigned)row->max,
			   row->reload == LIVE ? "reloadable" : "needs a restart");
		str_printf(out, "#%s%s: %u\n", indent, name, (unsigned)row->def);
		return;
	}
	str_printf(out, "%s# Value: %s, %s.\n", indent, row->unit, row->reload == LIVE ? "reloadable"
		   : "needs a restart");
	str_printf(out, "#%s%s: %s\n", indent, name, row->def_text ? row->def_text : example_of(row));
}

void conf_sample(struct str *out)
{
	const char *group = "";
	size_t group_len = 0;

	str_puts(out, "# toolcribd.yaml: every key with its default.  See toolcribd.yaml(5).\n");
	for (size_t i = 0; i < NELEMS(rows); i++) {
		const char *dot = strchr(rows[i].key, '.');

		if (!dot) {
			sample_row(out, &rows[i], "", rows[i].key);
			continue;
		}
		if (strncmp(group, rows[i].key, group_len) != 0 || group_len == 0) {
			group = rows[i].key;
			group_len = (size_t)(dot - group) + 1;
			str_printf(out, "\n#%.*s:\n", (int)group_len - 1, group);
		}
		sample_row(out, &rows[i], "  ", dot + 1);
		if (strcmp(rows[i].key, "oauth.jwks_max_age") == 0)     /* the group's last */
			conf_oauth_sample(out);
	}
	conf_list_sample(out);
	conf_roles_sample(out);
}
