/* Values of parsed trees, on any thread: type names, JSON pointers, equality, typed getters of members, differences,
 * the end of trees that held secrets, and the test whether jansson is laid out as json/direct.h says. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "json/direct.h"
#include "json/json.h"

#include "json_int.h"

/* --- The end of trees that held secrets (SEC S-344). */

/* What somebody else holds, too, is left to the last one.  As deep as the tree: parsed ones have JX_DEPTH_MAX. */
static void overwrite(json_t *v)
{
	const char *name;
	json_t *member;
	size_t i;

	if (v->refcount != 1)
		return;
	if (json_is_string(v))
		explicit_bzero((char *)(uintptr_t)json_string_value(v), json_string_length(v));
	json_array_foreach(v, i, member)
		overwrite(member);
	json_object_foreach(v, name, member)
		overwrite(member);
}

void jx_wipe(json_t **v)
{
	if (*v)
		overwrite(*v);
	json_decref(*v);
	*v = NULL;
}

/* --- Is jansson laid out as json/direct.h says? */

static bool object_fits(json_t *object)
{
	const struct jx_member *m;
	void *it;

	if (jx_object(object)->n != json_object_size(object))
		return false;
	m = jx_first_member(object);
	for (it = json_object_iter(object); it && m; it = json_object_iter_next(object, it)) {
		if ((const void *)&m->in_order != it || m->name != json_object_iter_key(it) ||
		    m->len != json_object_iter_key_len(it) || m->value != json_object_iter_value(it))
			return false;
		m = jx_next_member(object, m);
	}
	return !it && !m;
}

static bool array_fits(const json_t *array)
{
	if (jx_array(array)->n != json_array_size(array))
		return false;
	for (size_t i = 0; i < json_array_size(array); i++)
		if (jx_array(array)->values[i] != json_array_get(array, i))
			return false;
	return true;
}

static bool string_fits(const json_t *string)
{
	return jx_string(string)->len == json_string_length(string) &&
		jx_string(string)->p == json_string_value(string);
}

bool jx_direct_fits(void)
{
	json_t *object, *array, *string;
	bool fits;

	if (jansson_version_cmp(2, 14, 0) < 0)
		return false;
	object = json_object();
	array = json_array();
	string = json_string("text");
	(void)json_array_append_new(array, json_null());
	(void)json_array_append(array, string);
	(void)json_object_set_new(object, "first", json_object());
	(void)json_object_set(object, "a name of some length", array);
	fits = object && array && string && object_fits(object) && object_fits(json_object_get(object, "first")) &&
	       array_fits(array) && string_fits(string);
	json_decref(object);
	json_decref(array);
	json_decref(string);
	return fits;
}

/* --- Typed getters of object members; every refusal points at the member. */

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

	(void)snprintf(text, sizeof(text), "must be %s, is %s %s", must,
		       strchr("aio", *jx_type_name(is)) ? "an" : "a", jx_type_name(is));
	if (json_is_null(is))
		(void)snprintf(text, sizeof(text), "must be %s, is null", must);
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
		(void)snprintf(text, sizeof(text), "must be between %" PRId64 " and %" PRId64 ", is %" PRId64,
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

/* --- What differs between two trees. */

struct diff {
	struct str pointer;
	jx_diff_fn *fn;
	void *arg;
};

static void compare(struct diff *d, const json_t *a, const json_t *b);

static size_t enter(struct diff *d, const char *token)
{
	size_t mark = d->pointer.len;

	jx_pointer_add(&d->pointer, token);
	return mark;
}

static void leave(struct diff *d, size_t mark)
{
	d->pointer.len = mark;
	d->pointer.p[mark] = '\0';
}

/* In the order of a, then what is new in b. */
static void compare_objects(struct diff *d, const json_t *a, const json_t *b)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)a, name, v) {
		size_t mark = enter(d, name);

		compare(d, v, json_object_get(b, name));
		leave(d, mark);
	}
	json_object_foreach((json_t *)(uintptr_t)b, name, v) {
		size_t mark;

		if (json_object_get(a, name))
			continue;
		mark = enter(d, name);
		compare(d, NULL, v);
		leave(d, mark);
	}
}

static void compare_arrays(struct diff *d, const json_t *a, const json_t *b)
{
	size_t n = json_array_size(a), m = json_array_size(b);

	for (size_t i = 0; i < n || i < m; i++) {
		size_t mark = d->pointer.len;

		str_printf(&d->pointer, "/%zu", i);
		compare(d, json_array_get(a, i), json_array_get(b, i));
		leave(d, mark);
	}
}

/* The depth is the parser's. */
static void compare(struct diff *d, const json_t *a, const json_t *b)
{
	if (json_is_object(a) && json_is_object(b))
		compare_objects(d, a, b);
	else if (json_is_array(a) && json_is_array(b))
		compare_arrays(d, a, b);
	else if (!a || !b || !jx_equal(a, b))
		d->fn(d->arg, str_text(&d->pointer), a, b);
}

void jx_diff(const json_t *a, const json_t *b, jx_diff_fn *fn, void *arg)
{
	struct diff d = { .pointer = STR_INIT, .fn = fn, .arg = arg };

	compare(&d, a, b);
	str_fini(&d.pointer);
}

/* --- values */

const char *jx_type_name(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return "object";
	case JSON_ARRAY:
		return "array";
	case JSON_STRING:
		return "string";
	case JSON_INTEGER:
		return "integer";
	case JSON_REAL:
		return "number";
	case JSON_TRUE:
	case JSON_FALSE:
		return "boolean";
	case JSON_NULL:
		return "null";
	}
	return "nothing";
}

/* POINTERS */

bool jx_pointer_token(const char **p, char *ret)
{
	size_t n = 0;

	for (; **p && **p != '/'; ++*p) {
		char c = **p;

		if (c == '~') {
			c = *++*p;
			if (c != '0' && c != '1')
				return false;
			c = c == '0' ? '~' : '/';
		}
		if (n == JX_NAME_MAX)
			return false;
		ret[n++] = c;
	}
	ret[n] = '\0';
	return true;
}

bool jx_pointer_index(const char *token, size_t *ret)
{
	size_t i = 0;

	if (!*token || (token[0] == '0' && token[1]))
		return false;
	for (; *token; token++) {
		if (*token < '0' || *token > '9' || i > JX_MEMBERS_MAX)
			return false;
		i = i * 10 + (size_t)(*token - '0');
	}
	*ret = i;
	return true;
}

json_t *jx_at(const json_t *root, const char *pointer)
{
	char token[JX_NAME_MAX + 1];
	/* jansson's getters take const and return the child without it. */
	json_t *v = (json_t *)(uintptr_t)root;
	size_t i;

	while (v && *pointer) {
		if (*pointer++ != '/' || !jx_pointer_token(&pointer, token))
			return NULL;
		if (json_is_object(v))
			v = json_object_get(v, token);
		else
			v = json_is_array(v) && jx_pointer_index(token, &i) ? json_array_get(v, i) : NULL;
	}
	return v;
}

bool jx_pointer_valid(const char *pointer)
{
	char token[JX_NAME_MAX + 1];

	while (*pointer)
		if (*pointer++ != '/' || !jx_pointer_token(&pointer, token))
			return false;
	return true;
}

void jx_pointer_add(struct str *pointer, const char *token)
{
	str_putc(pointer, '/');
	for (;;) {
		size_t n = strcspn(token, "~/");

		str_put(pointer, token, n);
		if (!token[n])
			return;
		str_puts(pointer, token[n] == '~' ? "~0" : "~1");
		token += n + 1;
	}
}

/* EQUALITY */

static bool equal_objects(const json_t *a, const json_t *b)
{
	json_t *obj = (json_t *)(uintptr_t)a;   /* jansson iterates without const */

	if (json_object_size(a) != json_object_size(b))
		return false;
	for (void *it = json_object_iter(obj); it; it = json_object_iter_next(obj, it)) {
		const json_t *other = json_object_getn(b, json_object_iter_key(it), json_object_iter_key_len(it));

		if (!other || !jx_equal(json_object_iter_value(it), other))
			return false;
	}
	return true;
}

static bool equal_arrays(const json_t *a, const json_t *b)
{
	if (json_array_size(a) != json_array_size(b))
		return false;
	for (size_t i = 0; i < json_array_size(a); i++)
		if (!jx_equal(json_array_get(a, i), json_array_get(b, i)))
			return false;
	return true;
}

bool jx_equal(const json_t *a, const json_t *b)
{
	if (json_is_number(a) && json_is_number(b))
		return jx_compare(jx_number(a), jx_number(b)) == 0;
	if (json_typeof(a) != json_typeof(b))
		return false;
	switch (json_typeof(a)) {
	case JSON_OBJECT:
		return equal_objects(a, b);
	case JSON_ARRAY:
		return equal_arrays(a, b);
	case JSON_STRING:
		return json_string_length(a) == json_string_length(b) &&
		       memcmp(json_string_value(a), json_string_value(b), json_string_length(a)) == 0;
	case JSON_INTEGER:
	case JSON_REAL:
	case JSON_TRUE:
	case JSON_FALSE:
	case JSON_NULL:
		break;
	}
	return true;
}
