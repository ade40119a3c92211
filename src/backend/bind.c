/* Members that the blocks of several handlers have: a word of a list, and where a request may go (`allow`, `ca`).  Pure
 * functions of bind(), on any thread. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "backend/handler.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "net/fetch.h"

int backend_bind_full(const char *at, struct err *err)
{
	return err_set(err, ERR_LIMIT, at, "the handler block is too large");
}

int backend_get_word(const json_t *obj, const char *name, const char *const *words, size_t n, unsigned *ret,
		struct err *err)
{
	const char *word = NULL;
	char at[80];

	int rc = jx_get_string(obj, "", name, JX_OPTIONAL, &word, err);
	if (rc < 0 || !word)
		return rc;
	for (unsigned i = 0; i < n; i++) {
		if (strcmp(word, words[i]) == 0) {
			*ret = i;
			return 0;
		}
	}
	struct str list = STR_INIT;
	for (size_t i = 0; i < n; i++)
		str_printf(&list, "%s%s", i == 0 ? "" : i + 1 == n ? " or " : ", ", words[i]);
	snprintf(at, sizeof(at), "/%s", name);
	rc = err_set(err, ERR_INVALID, at, "must be %s, is %.40s", str_text(&list), word);
	str_fini(&list);
	const char *near = text_nearest(word, words, n);
	if (near)
		err_hint(err, "did you mean %s?", near);
	return rc;
}

/* --- allow, ca */

static int bind_allow(const json_t *handler, struct arena *mem, struct fetch_policy *policy, struct err *err)
{
	static const char *const known[] = { "private", "hosts" };
	json_t *allow = NULL, *hosts = NULL;
	const json_t *v;
	char at[40];
	size_t i;

	int rc = jx_get_object(handler, "", "allow", JX_OPTIONAL, &allow, err);
	if (rc < 0 || !allow)
		return rc;
	rc = jx_only(allow, "/allow", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_bool(allow, "/allow", "private", JX_OPTIONAL, &policy->private_ok, err);
	if (rc == 0)
		rc = jx_get_array(allow, "/allow", "hosts", JX_OPTIONAL, &hosts, err);
	if (rc < 0 || !hosts)
		return rc;
	if (json_array_size(hosts) > FETCH_ALLOW_MAX)
		return err_set(err, ERR_LIMIT, "/allow/hosts", "has more than %d entries", FETCH_ALLOW_MAX);
	struct fetch_allow *list = arena_alloc(mem, json_array_size(hosts) * sizeof(*list) + 1);
	if (!list)
		return backend_bind_full("/allow/hosts", err);
	json_array_foreach(hosts, i, v) {
		const char *text = json_string_value(v);
		snprintf(at, sizeof(at), "/allow/hosts/%zu", i);
		if (!text || memchr(text, '\0', json_string_length(v)))
			return err_set(err, ERR_INVALID, at, "must be a text like api.example.com:8443 or 10.0.0.0/8");
		rc = fetch_allow_parse(text, at, mem, &list[i], err);
		if (rc < 0)
			return rc;
	}
	policy->allow = list;
	policy->nallow = json_array_size(hosts);
	return 0;
}

/* SEC S-709: a private authority by file. */
static int bind_ca(const json_t *handler, struct arena *mem, struct fetch_policy *policy, struct err *err)
{
	const char *file = NULL;

	int rc = jx_get_string(handler, "", "ca", JX_OPTIONAL, &file, err);
	if (rc < 0 || !file)
		return rc;
	if (file[0] != '/')
		return err_set(err, ERR_INVALID, "/ca", "must be an absolute path, is %.60s", file);
	policy->ca_file = arena_strdup(mem, file);
	return policy->ca_file ? 0 : backend_bind_full("/ca", err);
}

int backend_bind_fetch(const json_t *block, struct arena *mem, struct fetch_policy *ret, struct err *err)
{
	int rc = bind_allow(block, mem, ret, err);

	return rc < 0 ? rc : bind_ca(block, mem, ret, err);
}
