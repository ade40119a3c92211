/* The document of an upstream, checked and compiled: where the server is, what it is given, how it is shared.  Commands
 * check documents on any thread; upstream.c keeps the compiled form, counted, on the loop. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "net/fetch.h"

#include "upstream_int.h"

#define CONF_MEMORY_MAX (1u << 20)

bool upstream_prefix_valid(const char *prefix)
{
	size_t n = strlen(prefix);

	return n == 0 || (n <= UPSTREAM_PREFIX_MAX && text_tool_name(prefix, n));
}

/* Characters of a scheme (RFC 3986 3.1), since one follows. */
static bool uri_prefix_valid(const char *prefix)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t n = strlen(prefix);

	return n == 0 || (n <= UPSTREAM_PREFIX_MAX && strchr(letters, prefix[0]) &&
			  strspn(prefix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.") == n);
}

/* Without one it is made of the name: `docs+`, so that two upstreams may both have file:///README. */
static void default_uri_prefix(struct upstream_conf *c)
{
	size_t n = 0;

	if (c->name[0] < 'a' || c->name[0] > 'z')
		c->uri_prefix[n++] = 'u';
	for (const char *p = c->name; *p && n < UPSTREAM_PREFIX_MAX - 1; p++)
		c->uri_prefix[n++] = *p == '_' ? '-' : *p;
	c->uri_prefix[n] = '+';
}

static int read_uri_prefix(const json_t *doc, struct upstream_conf *c, struct err *err)
{
	const char *prefix = NULL;
	int rc = jx_get_string(doc, "", "uriPrefix", JX_OPTIONAL, &prefix, err);

	if (rc < 0)
		return rc;
	if (!prefix) {
		default_uri_prefix(c);
		return 0;
	}
	if (!uri_prefix_valid(prefix))
		return err_set(err, ERR_INVALID, "/uriPrefix",
			       "%.80s cannot stand before a URI: a letter, then letters, digits, + . -, at most %d",
			       prefix, UPSTREAM_PREFIX_MAX);
	if (upstream_uri_prefix_hides(prefix)) {
		(void)err_set(err, ERR_INVALID, "/uriPrefix", "%s could make another URI look like http: or ui:", prefix);
		err_hint(err, "end it with +, for example %s+", prefix);
		return ERR_INVALID;
	}
	(void)snprintf(c->uri_prefix, sizeof(c->uri_prefix), "%s", prefix);     /* fits */
	return 0;
}

static int read_names(const json_t *doc, struct upstream_conf *c, struct err *err)
{
	const char *name = NULL, *prefix = NULL;
	int rc = jx_get_string(doc, "", "name", JX_REQUIRED, &name, err);

	if (rc == 0 && !text_entity_name(name, strlen(name))) {
		rc = err_set(err, ERR_INVALID, "/name", "%.80s is no name of an upstream", name);
		err_hint(err, "lower-case letters, digits and _ . -, at most 63, for example github");
	}
	if (rc == 0)
		rc = jx_get_string(doc, "", "prefix", JX_OPTIONAL, &prefix, err);
	if (rc < 0)
		return rc;
	if (prefix && !upstream_prefix_valid(prefix))
		return err_set(err, ERR_INVALID, "/prefix", "%.80s is no prefix: letters, digits, _ . -, at most %d",
			       prefix, UPSTREAM_PREFIX_MAX);
	memcpy(c->name, name, strlen(name) + 1);
	/* SEC S-731: names that a server chooses get a prefix; of a long name, what fits. */
	if (prefix)
		(void)snprintf(c->prefix, sizeof(c->prefix), "%s", prefix);
	else
		(void)snprintf(c->prefix, sizeof(c->prefix), "%.*s_", UPSTREAM_PREFIX_MAX - 1, name);
	return read_uri_prefix(doc, c, err);
}

static int read_command(const json_t *doc, struct upstream_conf *c, struct err *err)
{
	json_t *command = NULL;
	char at[32];
	int rc = jx_get_array(doc, "", "command", JX_OPTIONAL, &command, err);
	size_t n = json_array_size(command);

	if (rc < 0 || !command)
		return rc;
	if (n == 0 || n > UPSTREAM_ARGV_MAX)
		return err_set(err, ERR_INVALID, "/command", "must hold 1 to %d elements", UPSTREAM_ARGV_MAX);
	const char **argv = arena_alloc(c->mem, (n + 1) * sizeof(*argv));
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(command, i);

		(void)snprintf(at, sizeof(at), "/command/%zu", i);
		if (!json_is_string(v))
			return err_set(err, ERR_INVALID, at, "must be a string, is %s", jx_type_name(v));
		if (memchr(json_string_value(v), '\0', json_string_length(v)))
			return err_set(err, ERR_INVALID, at, "must not contain U+0000");
		/* SEC S-345: a command line is public. */
		if (strstr(json_string_value(v), "{secret:")) {
			(void)err_set(err, ERR_INVALID, at, "a secret cannot be part of a command line");
			err_hint(err, "give it to the server as a variable in env");
			return ERR_INVALID;
		}
		if (!argv || !(argv[i] = arena_strdup(c->mem, json_string_value(v))))
			return backend_bind_full(at, err);
	}
	if (argv[0][0] != '/')          /* SEC S-504 */
		return err_set(err, ERR_INVALID, "/command/0", "the program must be an absolute path, is %.60s",
			       argv[0]);
	c->argv = argv;
	return 0;
}

/* A literal where a credential belongs would stand readable in the store. */
static bool wants_secret(const char *header)
{
	static const char *const words[] = { "auth", "cookie", "key", "secret", "token" };

	for (size_t i = 0; i < NELEMS(words); i++)
		if (strcasestr(header, words[i]))
			return true;
	return false;
}

static int check_header(const char *name, const char *value, const char *at, struct err *err)
{
	static const char *const ours[] = { "accept", "content-type", "origin", "last-event-id" };
	int rc = fetch_check_header_name(name, at, err);

	if (rc == 0)
		rc = fetch_check_header_value(value, strlen(value), at, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < NELEMS(ours); i++)
		if (strcasecmp(name, ours[i]) == 0)
			return err_set(err, ERR_INVALID, at, "this header is set by the server itself");
	if (strncasecmp(name, "mcp-", 4) == 0)
		return err_set(err, ERR_INVALID, at, "this header is set by the server itself");
	if (wants_secret(name) && !strstr(value, "{secret:")) {
		(void)err_set(err, ERR_INVALID, at, "a credential must come from a secret");
		err_hint(err, "toolcrib secret set NAME, then for example: Bearer {secret:NAME}");
		return ERR_INVALID;
	}
	return 0;
}

static int check_variable(const char *name, const char *at, struct err *err)
{
	if (!*name || (*name >= '0' && *name <= '9') ||
	    name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")])
		return err_set(err, ERR_INVALID, at, "is no name of a variable");
	if (strcmp(name, "PATH") == 0)
		return err_set(err, ERR_INVALID, at, "PATH is fixed: /usr/bin:/bin");
	return 0;
}

/* What the server is given besides: one link serves many calls, so it knows none of them. */
static int check_inserts(const struct upstream_conf *c, const char *text, const char *at, struct err *err)
{
	if (strstr(text, "{principal}") || strstr(text, "{call}"))
		return err_set(err, ERR_INVALID, at,
			       "one link serves many calls: {tenant} and {secret:NAME} can stand here");
	if (c->shared && strstr(text, "{tenant}"))
		return err_set(err, ERR_INVALID, at, "a shared upstream has no {tenant}");
	return 0;
}

static int read_values(const json_t *doc, const char *member, size_t max, struct upstream_conf *c, struct err *err)
{
	json_t *obj = NULL, *v;
	const char *name;
	char at[sizeof(err->where)];
	size_t i = 0;
	int rc = jx_get_object(doc, "", member, JX_OPTIONAL, &obj, err);

	if (rc < 0 || !obj)
		return rc;
	(void)snprintf(at, sizeof(at), "/%s", member);
	if (json_object_size(obj) > max)
		return err_set(err, ERR_INVALID, at, "holds more than %zu members", max);
	struct upstream_value *values = arena_alloc(c->mem, json_object_size(obj) * sizeof(*values) + 1);
	json_object_foreach(obj, name, v) {
		const char *text = NULL, *in = at;

		(void)snprintf(at, sizeof(at), "/%s", member);
		rc = jx_get_string(obj, in, name, JX_REQUIRED, &text, err);
		(void)snprintf(at, sizeof(at), "/%s/%.60s", member, name);
		if (rc == 0)
			rc = c->argv ? check_variable(name, at, err) : check_header(name, text, at, err);
		if (rc == 0)
			rc = check_inserts(c, text, at, err);
		if (rc < 0)
			return rc;
		if (!values || !(values[i].name = arena_strdup(c->mem, name)))
			return backend_bind_full(at, err);
		rc = tpl_compile(text, at, TPL_SECRETS, c->mem, &values[i++].value, err);
		if (rc < 0)
			return rc;
	}
	c->values = values;
	c->nvalues = i;
	return 0;
}

static int read_cwd(const json_t *doc, struct upstream_conf *c, struct err *err)
{
	const char *cwd = NULL;
	int rc = jx_get_string(doc, "", "cwd", JX_OPTIONAL, &cwd, err);

	if (rc < 0 || !cwd)
		return rc;
	if (cwd[0] != '/')
		return err_set(err, ERR_INVALID, "/cwd", "must be an absolute path");
	c->cwd = arena_strdup(c->mem, cwd);
	return c->cwd ? 0 : backend_bind_full("/cwd", err);
}

/* As for exec; what runs for days has no limit of its time and, since some runtimes reserve what they never use, none
 * of its address space, unless they are given. */
static int read_sandbox(const json_t *doc, struct upstream_conf *c, struct err *err)
{
	const json_t *box = json_object_get(doc, "sandbox");
	int rc = exec_sandbox_bind(doc, c->mem, &c->sandbox, err);

	if (!json_object_get(box, "cpu"))
		c->sandbox.cpu_s = 0;
	if (!json_object_get(box, "memory"))
		c->sandbox.memory_bytes = 0;
	return rc;
}

static int read_url(const json_t *doc, struct upstream_conf *c, struct err *err)
{
	static const char *const words[] = { "http", "sse" };
	const char *url = NULL;
	unsigned transport = 0;
	int rc = jx_get_string(doc, "", "url", JX_OPTIONAL, &url, err);

	if (rc < 0 || !url)
		return rc;
	rc = url_parse(url, strlen(url), "/url", &c->base, err);
	if (rc < 0)
		return rc;
	c->url = arena_strdup(c->mem, url);
	if (!c->url)
		return backend_bind_full("/url", err);
	rc = backend_get_word(doc, "transport", words, NELEMS(words), &transport, err);
	c->transport = transport == 0 ? UPSTREAM_HTTP : UPSTREAM_SSE;
	if (rc == 0)
		rc = backend_bind_fetch(doc, c->mem, &c->policy, err);
	if (rc < 0 || fetch_policy_url(&c->policy, &c->base, err) == 0)
		return rc;
	err_at(err, "/url");
	if (err)
		err->code = ERR_INVALID;
	return ERR_INVALID;
}

static int read_idle(const json_t *doc, struct upstream_conf *c, struct err *err)
{
	const char *text = NULL;
	uint64_t ms = UPSTREAM_IDLE_DEFAULT_MS;
	int rc = jx_get_string(doc, "", "idle", JX_OPTIONAL, &text, err);

	if (rc == 0 && text &&
	    (text_duration_ms(text, &ms) < 0 || ms < UPSTREAM_IDLE_MIN_MS || ms > UPSTREAM_IDLE_MAX_MS))
		return err_set(err, ERR_INVALID, "/idle", "must be a duration from 1s to 24h, is %.40s", text);
	c->idle_ms = (uint32_t)ms;
	return rc;
}

/* A scheme and a host, perhaps a port, as a csp has it, no path. */
static bool is_origin(const char *text, size_t len)
{
	const char *host = strstr(text, "://");
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-*:[]";

	if (!host || strlen(text) != len || len > 255)
		return false;
	if (strncmp(text, "https://", 8) != 0 && strncmp(text, "wss://", 6) != 0 && strncmp(text, "http://", 7) != 0)
		return false;
	host += 3;
	return *host && host[strspn(host, letters)] == '\0';
}

static int read_origins(const json_t *ui, const char *member, struct upstream_conf *c, const char *const **ret,
			size_t *ret_n, struct err *err)
{
	json_t *list = NULL, *v;
	char at[32];
	size_t i;
	int rc = jx_get_array(ui, "/ui", member, JX_OPTIONAL, &list, err);

	if (rc < 0)
		return rc;
	(void)snprintf(at, sizeof(at), "/ui/%s", member); /* fits */
	if (json_array_size(list) > UPSTREAM_ORIGINS_MAX)
		return err_set(err, ERR_INVALID, at, "holds more than %d origins", UPSTREAM_ORIGINS_MAX);
	const char **origins = arena_alloc(c->mem, (json_array_size(list) + 1) * sizeof(*origins));
	json_array_foreach(list, i, v) {
		if (!json_is_string(v) || !is_origin(json_string_value(v), json_string_length(v)))
			return err_set(err, ERR_INVALID, at, "each must be an origin, as https://api.example.com is one");
		if (!origins || !(origins[i] = arena_strdup(c->mem, json_string_value(v))))
			return backend_bind_full(at, err);
	}
	*ret = origins;
	*ret_n = json_array_size(list);
	return 0;
}

static int read_ui(const json_t *doc, struct upstream_conf *c, struct err *err)
{
	static const char *const known[] = { "connect", "resources" };
	json_t *ui = NULL;
	int rc = jx_get_object(doc, "", "ui", JX_OPTIONAL, &ui, err);

	if (rc < 0 || !ui)
		return rc;
	c->ui.given = true;
	rc = jx_only(ui, "/ui", known, NELEMS(known), err);
	if (rc == 0)
		rc = read_origins(ui, "connect", c, &c->ui.connect, &c->ui.nconnect, err);
	return rc < 0 ? rc : read_origins(ui, "resources", c, &c->ui.resources, &c->ui.nresources, err);
}

/* A member that belongs to the other way of reaching a server. */
static int check_way(const json_t *doc, const struct upstream_conf *c, struct err *err)
{
	static const char *const of_process[] = { "env", "cwd", "sandbox" };
	static const char *const of_url[] = { "headers", "transport", "allow", "ca" };
	const char *const *wrong = c->argv ? of_url : of_process;
	size_t n = c->argv ? NELEMS(of_url) : NELEMS(of_process);
	char at[24];

	if (!c->argv == !c->url) {
		(void)err_set(err, ERR_INVALID, "", "an upstream has either command or url");
		err_hint(err, "command starts a server and speaks over its stdin and stdout, url reaches one by HTTP");
		return ERR_INVALID;
	}
	for (size_t i = 0; i < n; i++) {
		if (!json_object_get(doc, wrong[i]))
			continue;
		(void)snprintf(at, sizeof(at), "/%s", wrong[i]);
		return err_set(err, ERR_INVALID, at, "belongs to an upstream with %s", c->argv ? "url" : "command");
	}
	return 0;
}

static int check_head(const json_t *doc, struct err *err)
{
	static const char *const known[] = { "kind", "name", "description", "command", "env", "cwd", "sandbox", "url",
		"headers", "transport", "allow", "ca", "prefix", "uriPrefix", "shared", "asks", "ui", "idle" };
	const char *kind = "upstream", *text = NULL;

	if (!json_is_object(doc))
		return err_set(err, ERR_INVALID, "", "an upstream must be an object, is %s", jx_type_name(doc));
	int rc = jx_get_string(doc, "", "kind", JX_OPTIONAL, &kind, err);
	if (rc == 0 && strcmp(kind, "upstream") != 0)
		rc = err_set(err, ERR_INVALID, "/kind", "must be upstream, is %.40s", kind);
	if (rc == 0)
		rc = jx_only(doc, "", known, NELEMS(known), err);
	return rc < 0 ? rc : jx_get_string(doc, "", "description", JX_OPTIONAL, &text, err);
}

int upstream_conf_new(const json_t *doc, struct upstream_conf **ret, struct err *err)
{
	struct upstream_conf *c = mem_zalloc(sizeof(*c));

	c->mem = arena_new(CONF_MEMORY_MAX);
	c->refs = 1;
	int rc = check_head(doc, err);
	if (rc == 0)
		rc = read_names(doc, c, err);
	if (rc == 0)
		rc = jx_get_bool(doc, "", "shared", JX_OPTIONAL, &c->shared, err);
	if (rc == 0)
		rc = jx_get_bool(doc, "", "asks", JX_OPTIONAL, &c->asks, err);
	if (rc == 0)
		rc = read_command(doc, c, err);
	if (rc == 0)
		rc = read_cwd(doc, c, err);
	if (rc == 0)
		rc = read_sandbox(doc, c, err);
	if (rc == 0)
		rc = read_url(doc, c, err);
	if (rc == 0)
		rc = check_way(doc, c, err);
	if (rc == 0)
		rc = c->argv ? read_values(doc, "env", UPSTREAM_ENV_MAX, c, err)
			     : read_values(doc, "headers", UPSTREAM_HEADERS_MAX, c, err);
	if (rc == 0)
		rc = read_ui(doc, c, err);
	if (rc == 0)
		rc = read_idle(doc, c, err);
	if (rc < 0)
		upstream_conf_free(&c);
	else
		*ret = c;
	return rc;
}

struct upstream_conf *upstream_conf_ref(struct upstream_conf *c)
{
	c->refs++;
	return c;
}

void upstream_conf_free(struct upstream_conf **conf)
{
	struct upstream_conf *c = *conf;

	*conf = NULL;
	if (!c || --c->refs > 0)
		return;
	arena_free(&c->mem);
	free(c);
}

int upstream_define(const json_t *doc, struct upstream_doc *ret, struct err *err)
{
	struct upstream_conf *c = NULL;
	struct str text = STR_INIT;
	int rc = upstream_conf_new(doc, &c, err);

	if (rc < 0)
		return rc;
	jx_write(doc, &text);
	if (text.len > UPSTREAM_TEXT_MAX) {
		rc = err_set(err, ERR_LIMIT, "", "the document has %zu bytes, more than %u", text.len,
			     UPSTREAM_TEXT_MAX);
	} else {
		struct str canon = STR_INIT;

		jx_write_canon(doc, &canon);
		digest_sha256(canon.p, canon.len, ret->digest);
		str_fini(&canon);
		memcpy(ret->name, c->name, sizeof(ret->name));
		memcpy(ret->prefix, c->prefix, sizeof(ret->prefix));
		memcpy(ret->uri_prefix, c->uri_prefix, sizeof(ret->uri_prefix));
		ret->text = str_take(&text);
	}
	str_fini(&text);
	upstream_conf_free(&c);
	return rc;
}

void upstream_doc_free(struct upstream_doc *d)
{
	free(d->text);
	d->text = NULL;
}
