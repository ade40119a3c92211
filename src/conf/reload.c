/* What differs between the configuration in force and one that was read after it, and what of that takes effect at
 * once.  The app asks when it reads its file again; loop thread. */
#include "config.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/text.h"
#include "conf/conf.h"
#include "json/json.h"

#include "conf_int.h"

enum reload { LIVE, START };

static const struct row {
	const char *key;
	bool is_text;
	enum reload reload;
	size_t offset;                  /* in struct conf */
} rows[] = {
#define CONF_UINT(member, key, unit, min, max, def, reload, help) { key, false, reload, offsetof(struct conf, member) },
#define CONF_TEXT(member, key, choices, def, reload, help) { key, true, reload, offsetof(struct conf, member) },
#include "conf/conf.def"
#undef CONF_UINT
#undef CONF_TEXT
};

static void *member_of(const struct conf *c, const struct row *row)
{
	return (char *)(uintptr_t)c + row->offset;
}

static char *text_of(const struct conf *c, const struct row *row)
{
	return *(char **)member_of(c, row);
}

static uint32_t number_of(const struct conf *c, const struct row *row)
{
	return *(uint32_t *)member_of(c, row);
}

static bool is_same(const struct conf *a, const struct conf *b, const struct row *row)
{
	const char *x, *y;

	if (!row->is_text)
		return number_of(a, row) == number_of(b, row);
	x = text_of(a, row);
	y = text_of(b, row);
	return x && y ? strcmp(x, y) == 0 : x == y;
}

/* --- what differs */

struct walk { conf_change_fn *fn; void *arg; bool restart; };

static void tell(const struct walk *w, const char *key, const char *before, const char *after)
{
	w->fn(w->arg, &(struct conf_change){ key, before, after, w->restart });
}

static void tell_row(struct walk *w, const struct conf *a, const struct conf *b, const struct row *row)
{
	char before[16], after[16];

	w->restart = row->reload == START;
	if (row->is_text) {
		tell(w, row->key, text_of(a, row), text_of(b, row));
		return;
	}
	(void)snprintf(before, sizeof(before), "%u", (unsigned)number_of(a, row));
	(void)snprintf(after, sizeof(after), "%u", (unsigned)number_of(b, row));
	tell(w, row->key, before, after);
}

/* As people write it; NULL: there is none. */
static char *text_of_value(const json_t *v)
{
	struct str text = STR_INIT;

	if (!v)
		return NULL;
	if (json_is_string(v))
		return mem_strdup(json_string_value(v));
	jx_write(v, &text);
	return str_take(&text);
}

static void tell_value(const struct walk *w, const char *key, const json_t *a, const json_t *b)
{
	char *before = text_of_value(a), *after = text_of_value(b);

	tell(w, key, before, after);
	free(before);
	free(after);
}

static void compare(const struct walk *w, const char *key, const json_t *a, const json_t *b);

static void compare_members(const struct walk *w, const char *key, const json_t *a, const json_t *b)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)a, name, value) {
		char *path = mem_printf("%s.%s", key, name);

		compare(w, path, value, json_object_get(b, name));
		free(path);
	}
	json_object_foreach((json_t *)(uintptr_t)b, name, value) {
		char *path = mem_printf("%s.%s", key, name);

		if (!json_object_get(a, name))
			compare(w, path, NULL, value);
		free(path);
	}
}

static void compare_element(const struct walk *w, const char *key, size_t i, const json_t *a, const json_t *b)
{
	char *path = mem_printf("%s[%zu]", key, i);

	compare(w, path, a, b);
	free(path);
}

/* What stands in front and behind alike is left out, so that one that comes or goes is one change. */
static void compare_elements(const struct walk *w, const char *key, const json_t *a, const json_t *b)
{
	size_t from = 0, na = json_array_size(a), nb = json_array_size(b);

	while (from < na && from < nb && json_equal(json_array_get(a, from), json_array_get(b, from)))
		from++;
	while (na > from && nb > from && json_equal(json_array_get(a, na - 1), json_array_get(b, nb - 1))) {
		na--;
		nb--;
	}
	for (size_t i = from; na == nb && i < na; i++)
		compare_element(w, key, i, json_array_get(a, i), json_array_get(b, i));
	for (size_t i = from; na != nb && i < na; i++)
		compare_element(w, key, i, json_array_get(a, i), NULL);
	for (size_t i = from; na != nb && i < nb; i++)
		compare_element(w, key, i, NULL, json_array_get(b, i));
}

static void compare(const struct walk *w, const char *key, const json_t *a, const json_t *b)
{
	if (a && b && json_equal(a, b))
		return;
	if (json_is_object(a) && json_is_object(b))
		compare_members(w, key, a, b);
	else if (json_is_array(a) && json_is_array(b))
		compare_elements(w, key, a, b);
	else
		tell_value(w, key, a, b);
}

static bool issuers_equal(const struct conf *a, const struct conf *b)
{
	return strcmp(a->issuers_text ? a->issuers_text : "[]", b->issuers_text ? b->issuers_text : "[]") == 0;
}

static const char *const lists[] = { CONF_LISTENERS, CONF_ROLES, CONF_ISSUERS, CONF_SINKS, CONF_ALERTS, CONF_PDPS };

/* Is it one that takes effect at once? */
static bool is_live(const struct conf *c, const struct conf *next, const char *list)
{
	if (strcmp(list, CONF_LISTENERS) == 0)
		return conf_list_equal(c, next);
	if (strcmp(list, CONF_SINKS) == 0 || strcmp(list, CONF_ALERTS) == 0 || strcmp(list, CONF_PDPS) == 0)
		return json_equal(json_object_get(c->lists, list), json_object_get(next->lists, list));
	return strcmp(list, CONF_ROLES) == 0 || issuers_equal(c, next);
}

void conf_changes(const struct conf *c, const struct conf *next, conf_change_fn *fn, void *arg)
{
	struct walk w = { .fn = fn, .arg = arg };
	json_t *none = json_array();

	for (size_t i = 0; i < NELEMS(rows); i++)
		if (!is_same(c, next, &rows[i]))
			tell_row(&w, c, next, &rows[i]);
	for (size_t i = 0; i < NELEMS(lists); i++) {
		const json_t *a = json_object_get(c->lists, lists[i]), *b = json_object_get(next->lists, lists[i]);

		w.restart = !is_live(c, next, lists[i]);
		compare(&w, lists[i], a ? a : none, b ? b : none);
	}
	json_decref(none);
}

/* --- what takes effect */

static void take_list(struct conf *c, const struct conf *next, const char *list)
{
	json_t *value = json_object_get(next->lists, list);

	if (value)
		(void)json_object_set(c->lists, list, value);
	else
		(void)json_object_del(c->lists, list);
}

void conf_reload(struct conf *c, struct conf *next)
{
	memcpy(c->digest, next->digest, sizeof(c->digest));
	for (size_t i = 0; i < NELEMS(lists); i++)
		if (is_live(c, next, lists[i]))
			take_list(c, next, lists[i]);
	if (conf_list_equal(c, next))
		conf_list_take_tls(c, next);
	conf_roles_take(c, next);
	for (size_t i = 0; i < NELEMS(rows); i++) {
		const struct row *row = &rows[i];

		if (row->reload == START || is_same(c, next, row))
			continue;
		if (row->is_text) {
			free(text_of(c, row));
			*(char **)member_of(c, row) = mem_strdup0(text_of(next, row));
		} else {
			*(uint32_t *)member_of(c, row) = number_of(next, row);
		}
	}
}
