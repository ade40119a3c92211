/* x-mcp-header: which arguments a modern HTTP client repeats as Mcp-Param-* headers (MCP T-41, T-42). */

#include "config.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "json/json.h"
#include "registry_int.h"

enum { HEADER_NAME_MAX = 64 };

struct walk {
	struct str at;                  /* where we are, from the schema's root */
	struct str arg;                 /* the argument that this schema describes */
	struct arena *mem;
	struct reg_param params[DEFINE_PARAMS_MAX];
	size_t n;
	struct err *err;
};

static bool is_token(const char *s)
{
	/* RFC 9110 5.6.2 */
	return *s && s[strspn(s, "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")] == '\0';
}

static int take_param(struct walk *w, const json_t *schema, const json_t *value, bool reachable)
{
	static const char *const types[] = { "string", "integer", "boolean" };
	const char *name = json_string_value(value), *type = json_string_value(json_object_get(schema, "type")), *at;
	struct reg_param *p;

	at = str_text(&w->at);
	if (!reachable)
		return err_set(w->err, ERR_INVALID, at,
			       "x-mcp-header stands only on properties that are reached through properties alone");
	if (!name || !is_token(name) || strlen(name) != json_string_length(value) || strlen(name) > HEADER_NAME_MAX)
		return err_set(w->err, ERR_INVALID, at, "must be a header name of 1 to %d characters", HEADER_NAME_MAX);
	for (size_t i = 0; i < w->n; i++)
		if (strcasecmp(w->params[i].header, name) == 0)
			return err_set(w->err, ERR_INVALID, at, "%s is used twice", name);
	if (w->n == DEFINE_PARAMS_MAX)
		return err_set(w->err, ERR_LIMIT, at, "more than %d properties with x-mcp-header", DEFINE_PARAMS_MAX);
	p = &w->params[w->n];
	for (size_t i = 0; i < NELEMS(types) && type; i++) {
		if (strcmp(type, types[i]) != 0)
			continue;
		p->type = (enum reg_param_type)i;
		p->header = arena_strdup(w->mem, name);
		p->pointer = arena_strdup(w->mem, str_text(&w->arg));
		if (!p->header || !p->pointer)
			return err_set(w->err, ERR_LIMIT, at, "the definition is too large");
		w->n++;
		return 0;
	}
	return err_set(w->err, ERR_INVALID, at, "x-mcp-header needs type string, integer or boolean beside it");
}

static bool is_word(const char *key, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(key, words[i]) == 0)
			return true;
	return false;
}

static int walk_schema(struct walk *w, const json_t *schema, bool reachable);

/* A keyword whose value maps names to schemas. */
static int walk_map(struct walk *w, json_t *map, bool reachable)
{
	const char *name;
	json_t *sub;

	json_object_foreach(map, name, sub) {
		size_t at = pointer_push(&w->at, name), arg = pointer_push(&w->arg, name);
		int rc = walk_schema(w, sub, reachable);

		pointer_pop(&w->at, at);
		pointer_pop(&w->arg, arg);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int walk_list(struct walk *w, const json_t *list)
{
	json_t *sub;
	size_t i;

	json_array_foreach(list, i, sub) {
		int rc = walk_schema(w, sub, false);

		if (rc < 0)
			return rc;
	}
	return 0;
}

/* The schema compiled, so its depth is bounded. */
static int walk_schema(struct walk *w, const json_t *schema, bool reachable)
{
	static const char *const maps[] = { "properties", "patternProperties", "$defs", "definitions", "dependentSchemas" };
	static const char *const data[] = { "enum", "const", "default", "examples" };
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)schema, key, v) {
		size_t at = pointer_push(&w->at, key);
		int rc = 0;

		if (strcmp(key, "x-mcp-header") == 0)
			rc = take_param(w, schema, v, reachable);
		else if (is_word(key, maps, NELEMS(maps)))
			rc = walk_map(w, v, reachable && strcmp(key, "properties") == 0);
		else if (!is_word(key, data, NELEMS(data)))
			rc = json_is_array(v) ? walk_list(w, v) : walk_schema(w, v, false);
		pointer_pop(&w->at, at);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int define_params(const json_t *schema, struct arena *mem, const struct reg_param **ret, size_t *ret_n,
		  struct err *err)
{
	struct walk w = { .at = STR_INIT, .arg = STR_INIT, .mem = mem, .err = err };
	int rc = walk_schema(&w, schema, true);

	if (rc == 0 && w.n > 0) {
		struct reg_param *params = arena_dup(mem, w.params, w.n * sizeof w.params[0]);

		rc = params ? 0 : err_set(err, ERR_LIMIT, "", "the definition is too large");
		*ret = params;
		*ret_n = w.n;
	}
	str_fini(&w.at);
	str_fini(&w.arg);
	if (rc < 0)
		err_at(err, "/inputSchema");
	return rc;
}

int define_no_params(const json_t *schema, struct err *err)
{
	struct walk w = { .at = STR_INIT, .arg = STR_INIT, .err = err };
	int rc = walk_schema(&w, schema, false);

	str_fini(&w.at);
	str_fini(&w.arg);
	return rc;
}
