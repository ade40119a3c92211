/* The list of policy decision points: a map each.  Files, sockets and hosts are named only; nothing is opened here
 * (pdp/pdp.h looks at them). */
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

#define PDPS_AT "/" CONF_PDPS
#define TIMEOUT_MS 300
#define TIMEOUT_MS_MIN 10
#define TIMEOUT_MS_MAX 5000
#define CACHE_MS_MAX 86400000
#define PATH_DEFAULT "/access/v1/evaluation"
#define PATH_BYTES_MAX 1024
#define SECRET_BYTES_MAX 64

static int read_time(const json_t *obj, const char *at, const char *name, uint64_t least_ms, uint64_t most_ms,
		     const char *range, uint64_t *ret_ms, struct err *err)
{
	const char *text = NULL;

	if (jx_get_string(obj, at, name, JX_OPTIONAL, &text, err) < 0)
		return conf_named(err);
	if (text && (text_duration_ms(text, ret_ms) < 0 || *ret_ms < least_ms || *ret_ms > most_ms))
		return conf_err(err, at, name, "%s must be a time from %s, is \"%s\"", name, range, text);
	return 0;
}

/* A secret of the store as bearer token, or a certificate. */
static int read_auth(const json_t *obj, const char *at, struct conf_pdp *p, struct err *err)
{
	static const char *const known[] = { "secret", "cert", "key" };
	const char *secret = NULL;
	json_t *auth = NULL;
	char *below;
	int rc = jx_get_object(obj, at, "auth", JX_OPTIONAL, &auth, err);

	if (rc < 0 || !auth)
		return rc < 0 ? conf_named(err) : 0;
	below = mem_printf("%s/auth", at);
	if (jx_only(auth, below, known, NELEMS(known), err) < 0 ||
	    jx_get_string(auth, below, "secret", JX_OPTIONAL, &secret, err) < 0)
		rc = conf_named(err);
	rc = rc ? rc : conf_read_path(auth, below, "cert", JX_OPTIONAL, &p->cert, err);
	rc = rc ? rc : conf_read_path(auth, below, "key", JX_OPTIONAL, &p->key, err);
	if (rc == 0 && secret && (!text_tool_name(secret, strlen(secret)) || strlen(secret) > SECRET_BYTES_MAX))
		rc = conf_err(err, below, "secret", "\"%.80s\" is no name of a secret, as toolcrib secret set has it", secret);
	if (rc == 0 && ((p->cert == NULL) != (p->key == NULL) || (!secret && !p->cert) || (secret && p->cert)))
		rc = err_set(err, ERR_INVALID, below, "auth is a secret, or cert and key, each of them a file");
	if (rc == 0 && p->cert && !p->url)
		rc = err_set(err, ERR_INVALID, below, "cert and key are for a url");
	free(below);
	p->secret = mem_strdup0(secret);
	return rc;
}

static int read_place(json_t *obj, const char *at, struct conf_pdp *p, struct err *err)
{
	const char *url = NULL, *path = PATH_DEFAULT;

	if (jx_get_string(obj, at, "url", JX_OPTIONAL, &url, err) < 0 ||
	    jx_get_string(obj, at, "path", JX_OPTIONAL, &path, err) < 0)
		return conf_named(err);
	p->url = mem_strdup0(url);
	p->has_path = json_object_get(obj, "path") != NULL;
	p->path = mem_strdup(path);
	if (conf_read_path(obj, at, "socket", JX_OPTIONAL, &p->socket, err) < 0 ||
	    conf_read_path(obj, at, "ca", JX_OPTIONAL, &p->ca, err) < 0)
		return err->code;
	if ((p->url == NULL) == (p->socket == NULL))
		return err_set(err, ERR_INVALID, at, "a policy decision point has a url, or a socket");
	if (p->socket && (!path_is_plain(p->socket, strlen(p->socket)) || strlen(p->socket) > CONF_PDP_SOCKET_MAX))
		return conf_err(err, at, "socket",
				"\"%.120s\" must be an absolute path of at most %d bytes, without \".\" and \"..\"", p->socket,
				CONF_PDP_SOCKET_MAX);
	if (p->socket && p->ca)
		return conf_err(err, at, "ca", "ca is for a url");
	if (*path != '/' || strlen(path) > PATH_BYTES_MAX)
		return conf_err(err, at, "path", "\"%.80s\" must be a path on the server, like " PATH_DEFAULT, path);
	if (p->url)
		conf_hide_url(obj, p->url);
	return 0;
}

static int read_rest(const json_t *obj, const char *at, struct conf_pdp *p, struct err *err)
{
	static const char *const words[] = { [CONF_PDP_DIGEST] = "digest", [CONF_PDP_CHOSEN] = "chosen",
					     [CONF_PDP_ALL] = "all" };
	static const struct conf_texts tenants = { "tenants", CONF_PDP_TENANTS_MAX, text_entity_name,
						   "no name of a tenant: lower-case letters, digits, _ . -" };
	const char *reason = NULL;
	unsigned arguments = CONF_PDP_DIGEST;

	p->timeout_ms = TIMEOUT_MS;
	if (conf_read_word(obj, at, "arguments", words, NELEMS(words), JX_OPTIONAL, &arguments, err) < 0 ||
	    conf_read_texts(obj, at, &tenants, &p->tenants, &p->ntenants, err) < 0 ||
	    read_time(obj, at, "timeout", TIMEOUT_MS_MIN, TIMEOUT_MS_MAX, "10ms to 5s", &p->timeout_ms, err) < 0 ||
	    read_time(obj, at, "cache_max", 0, CACHE_MS_MAX, "0s to 24h", &p->cache_ms, err) < 0)
		return err->code;
	p->arguments = (enum conf_pdp_arguments)arguments;
	if (jx_get_string(obj, at, "reason", JX_OPTIONAL, &reason, err) < 0)
		return conf_named(err);
	if (reason && !jx_pointer_valid(reason))
		return conf_err(err, at, "reason", "\"%.80s\" must be a JSON pointer into its answers, like /context/reason_user/403",
				reason);
	p->reason = mem_strdup0(reason);
	return 0;
}

static int read_pdp(json_t *obj, const char *at, struct conf_pdp *p, struct err *err)
{
	static const char *const known[] = { "name", "url", "socket", "path", "ca", "auth", "timeout", "cache_max", "tenants",
					     "arguments", "reason" };
	const char *name = NULL;

	if (!json_is_object(obj))
		return err_set(err, ERR_INVALID, at, "must be a map with name, and url or socket");
	if (jx_only(obj, at, known, NELEMS(known), err) < 0 ||
	    jx_get_string(obj, at, "name", JX_REQUIRED, &name, err) < 0)
		return conf_named(err);
	if (!text_entity_name(name, strlen(name)) || strlen(name) > CONF_PDP_NAME_MAX)
		return conf_err(err, at, "name", "\"%s\" is no name of at most %d bytes: lower-case letters, digits, _ . -", name,
				CONF_PDP_NAME_MAX);
	p->name = mem_strdup(name);
	if (read_place(obj, at, p, err) < 0 || read_auth(obj, at, p, err) < 0)
		return err->code;
	return read_rest(obj, at, p, err);
}

static int check_others(const struct conf *c, const char *at, struct err *err)
{
	const struct conf_pdp *p = &c->pdps[c->npdps - 1];

	for (const struct conf_pdp *o = c->pdps; o < p; o++)
		if (strcmp(o->name, p->name) == 0)
			return conf_err(err, at, "name", "%s is there twice", p->name);
	return 0;
}

int conf_pdps_read(const json_t *list, struct conf *c, struct err *err)
{
	json_t *item;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > CONF_PDPS_MAX)
		return err_set(err, ERR_INVALID, PDPS_AT, "must be a list of at most %d policy decision points", CONF_PDPS_MAX);
	c->pdps = mem_calloc(json_array_size(list) + 1, sizeof(*c->pdps));
	json_array_foreach(list, i, item) {
		char *at = mem_printf(PDPS_AT "/%zu", i);
		int rc = read_pdp(item, at, &c->pdps[c->npdps++], err);

		rc = rc ? rc : check_others(c, at, err);
		free(at);
		if (rc < 0)
			return rc;
	}
	return 0;
}

void conf_pdps_free(struct conf *c)
{
	for (size_t i = 0; i < c->npdps; i++) {
		struct conf_pdp *p = &c->pdps[i];

		for (size_t k = 0; k < p->ntenants; k++)
			free(p->tenants[k]);
		free(p->tenants);
		free(p->name);
		free(p->url);
		free(p->socket);
		free(p->path);
		free(p->ca);
		free(p->secret);
		free(p->cert);
		free(p->key);
		free(p->reason);
	}
	free(c->pdps);
	c->pdps = NULL;
	c->npdps = 0;
}

void conf_pdps_sample(struct str *out)
{
	str_puts(out, "\n"
		 "# Policy decision points (OpenID AuthZEN 1.0), asked before each run of a tool, prompt or resource; what they do\n"
		 "# not allow does not run, nor does anything while one that applies gives no answer.  tenants: all, where it is\n"
		 "# missing.  See Policy decision points in toolcribd.yaml(5).  Needs a restart.\n"
		 "#pdp:\n"
		 "#  - {name: opa, url: \"https://pdp.example.com\", auth: {secret: pdp-token}, timeout: 300ms, cache_max: 0s}\n"
		 "#  - {name: local, socket: /run/pdp.sock, path: /access/v1/evaluation, tenants: [acme], arguments: chosen}\n");
}
