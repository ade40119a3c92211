/* Is jansson laid out as json/direct.h says? */
#include "config.h"

#include "json/direct.h"

#include <string.h>

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
	return jx_string(string)->len == json_string_length(string) && jx_string(string)->p == json_string_value(string);
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
