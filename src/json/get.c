/* Typed getters of object members; every refusal points at the member. */
#include "config.h"

#include "json/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* at + "/" + name, cut at the size of err.where. */
static int fail_at(struct err *err, const char *at, const char *name, const char *text)
{
	struct str where = STR_INIT;

	str_puts(&where, at);
	jx_pointer_add(&where, name);
	err_set(err, ERR_INVALID, str_text(&where), "%s", text);
	str_fini(&where);
	return ERR_INVALID;
}

static int fail_type(struct err *err, const char *at, const char *name, const char *must, const json_t *is)
{
	char text[96];

	(void)snprintf(text, sizeof text, "must be %s, is %s %s", must,
		       strchr("aio", *jx_type_name(is)) ? "an" : "a", jx_type_name(is));
	if (json_is_null(is))
		(void)snprintf(text, sizeof text, "must be %s, is null", must);
	return fail_at(err, at, name, text);
}

/* The member; *ret NULL when it is absent and may be. */
static int find(const json_t *obj, const char *at, const char *name, enum jx_need need, json_t **ret, struct err *err)
{
	*ret = json_object_get(obj, name);
	if (!*ret && need == JX_REQUIRED)
		return fail_at(err, at, name, "is missing");
	return 0;
}

int jx_get_string(const json_t *obj, const char *at, const char *name, enum jx_need need, const char **ret,
		  struct err *err)
{
	json_t *v;
	int rc = find(obj, at, name, need, &v, err);

	if (rc || !v)
		return rc;
	if (!json_is_string(v))
		return fail_type(err, at, name, "a string", v);
	if (memchr(json_string_value(v), '\0', json_string_length(v)))
		return fail_at(err, at, name, "must not contain U+0000");
	*ret = json_string_value(v);
	return 0;
}

int jx_get_bool(const json_t *obj, const char *at, const char *name, enum jx_need need, bool *ret, struct err *err)
{
	json_t *v;
	int rc = find(obj, at, name, need, &v, err);

	if (rc || !v)
		return rc;
	if (!json_is_boolean(v))
		return fail_type(err, at, name, "true or false", v);
	*ret = json_is_true(v);
	return 0;
}

int jx_get_int(const json_t *obj, const char *at, const char *name, enum jx_need need, int64_t min, int64_t max,
	       int64_t *ret, struct err *err)
{
	json_t *v;
	char text[96];
	int64_t i;
	int rc = find(obj, at, name, need, &v, err);

	if (rc || !v)
		return rc;
	if (!json_is_integer(v))
		return fail_type(err, at, name, "an integer", v);
	i = json_integer_value(v);
	if (i < min || i > max) {
		(void)snprintf(text, sizeof text, "must be between %" PRId64 " and %" PRId64 ", is %" PRId64,
			       min, max, i);
		return fail_at(err, at, name, text);
	}
	*ret = i;
	return 0;
}

int jx_get_object(const json_t *obj, const char *at, const char *name, enum jx_need need, json_t **ret,
		  struct err *err)
{
	json_t *v;
	int rc = find(obj, at, name, need, &v, err);

	if (rc || !v)
		return rc;
	if (!json_is_object(v))
		return fail_type(err, at, name, "an object", v);
	*ret = v;
	return 0;
}

int jx_get_array(const json_t *obj, const char *at, const char *name, enum jx_need need, json_t **ret,
		 struct err *err)
{
	json_t *v;
	int rc = find(obj, at, name, need, &v, err);

	if (rc || !v)
		return rc;
	if (!json_is_array(v))
		return fail_type(err, at, name, "an array", v);
	*ret = v;
	return 0;
}

int jx_only(const json_t *obj, const char *at, const char *const *known, size_t nknown, struct err *err)
{
	json_t *o = (json_t *)(uintptr_t)obj;   /* jansson iterates without const */

	for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it)) {
		const char *name = json_object_iter_key(it), *near;
		size_t i = 0;

		while (i < nknown && strcmp(known[i], name) != 0)
			i++;
		if (i < nknown)
			continue;
		(void)fail_at(err, at, name, "is not known here");
		near = text_nearest(name, known, nknown);
		if (near)
			err_hint(err, "did you mean %s?", near);
		return ERR_INVALID;
	}
	return 0;
}
