/* Definitions as commands see them: as rows by their full names, and what of a new version breaks those who rely on
 * the old one.  Any thread, with its connection.
 *
 * Of schemas there is one question for both sides: which values of `from` does `to` refuse?  Of arguments `from` is the
 * old schema, of results the new one.  The walk is bounded by SCHEMA_DEPTH_MAX and STEPS_MAX; what it does not
 * understand it says, and does not guess. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "json/json.h"
#include "registry/tool_rows.h"
#include "schema/schema.h"

#include "registry_int.h"

void tool_row_read(struct db_stmt *st, struct tool_row *ret)
{
	size_t len;
	const void *digest = db_col_blob(st, 6, &len);

	*ret = (struct tool_row){ .id = db_col_i64(st, 0), .state = (int)db_col_i64(st, 2), .version = db_col_i64(st, 3),
		.created_us = db_col_i64(st, 4), .version_id = db_col_i64(st, 5), .changed_us = db_col_i64(st, 7) };
	ret->kind = (int)db_col_i64(st, 8);
	db_col_copy(st, 1, ret->name, sizeof(ret->name));
	db_col_copy(st, 9, ret->uri, sizeof(ret->uri));
	if (len == sizeof(ret->digest))
		memcpy(ret->digest, digest, len);
}

int tool_row_get(struct db *db, const char *name, struct tool_row *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_TOOL_FIND);
	int rc;

	db_bind_textz(st, 1, name);
	rc = db_step(st, err);
	if (rc == 1)
		tool_row_read(st, ret);
	db_stmt_put(&st);
	return rc;
}

int tool_row_find(struct db *db, const char *name, struct tool_row *ret, struct err *err)
{
	struct tool_row tool;
	struct db_stmt *st;
	int rc = tool_row_get(db, name, &tool, err);

	if (rc < 0)
		return rc;
	if (rc == 1 && tool.state != ADM_TOOL_REMOVED) {
		*ret = tool;
		return 0;
	}
	(void)err_set(err, ERR_NOT_FOUND, "", "%s %.64s: not found", tool_noun(name), tool_bare_name(name));
	st = db_stmt_get(db, SQL_ADMIN_TOOL_LIST);
	db_bind_text(st, 1, name, (size_t)(tool_bare_name(name) - name));
	db_did_you_mean(&st, 1, name, err);
	return ERR_NOT_FOUND;
}

int tool_row_granted(struct db *db, const char *tenant, const char *name, bool removed, struct tool_row *ret,
		     struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_GRANT_OF_TOOL);
	int rc;

	db_bind_textz(st, 1, tenant);
	db_bind_textz(st, 2, name);
	rc = db_step(st, err);
	db_stmt_put(&st);
	if (rc == 1)
		rc = tool_row_get(db, name, ret, err);
	if (rc == 0 || (rc == 1 && !removed && ret->state == ADM_TOOL_REMOVED))
		return err_set(err, ERR_NOT_FOUND, "", "%s %.64s: not found among what is granted to %s", tool_noun(name),
			       tool_bare_name(name), tenant);
	return rc < 0 ? rc : 0;
}

const char *tool_bare_name(const char *full_name)
{
	const char *colon = strchr(full_name, ':');

	return colon ? colon + 1 : full_name;
}

const char *tool_noun(const char *full_name)
{
	static const char *const nouns[] = { "prompt", "resource" };

	for (size_t i = 0; i < NELEMS(nouns); i++)
		if (strncmp(full_name, nouns[i], strlen(nouns[i])) == 0 && full_name[strlen(nouns[i])] == ':')
			return nouns[i];
	return "tool";
}

void tool_full_name(const char *noun, const char *name, char *ret, size_t size)
{
	bool tool = strcmp(noun, "tool") == 0, full = strcmp(tool_noun(name), noun) == 0 && tool_bare_name(name) != name;

	(void)snprintf(ret, size, "%s%s%s", tool || full ? "" : noun, tool || full ? "" : ":", name);
}

const char *tool_state_name(int state)
{
	static const char *const names[] = { [ADM_TOOL_ENABLED] = "enabled", [ADM_TOOL_DISABLED] = "disabled",
		[ADM_TOOL_REMOVED] = "removed" };

	return state >= 1 && state <= 3 ? names[state] : "unknown";
}

#define STEPS_MAX 10000                 /* pairs of subschemas that are looked at */
#define VALUE_BYTES 60                  /* of a value that a sentence repeats */

enum {
	T_NULL = 1, T_BOOLEAN = 2, T_OBJECT = 4, T_ARRAY = 8, T_FRACTION = 16, T_INTEGER = 32, T_STRING = 64,
	T_NUMBER = T_FRACTION | T_INTEGER, T_ALL = 127
};
static const struct { const char *name; unsigned mask; } types[] = {
	{ "null", T_NULL }, { "boolean", T_BOOLEAN }, { "object", T_OBJECT }, { "array", T_ARRAY },
	{ "number", T_NUMBER }, { "integer", T_INTEGER }, { "string", T_STRING },
};

struct walk {
	enum define_side side;
	const json_t *from_root, *to_root;
	bool from_formats, to_formats;
	define_break_fn *fn;            /* NULL: a probe, which only counts */
	void *arg;
	struct str at;
	bool references;                /* what is equal may mean something else */
	bool too_large;
	size_t found, steps;
	unsigned depth;
	struct { const json_t *from, *to; } on[SCHEMA_DEPTH_MAX];       /* looked at now: references may lead back */
	json_t *anything;               /* {} */
};

static void compare(struct walk *w, const json_t *from, const json_t *to);

/* --- what is said */

static size_t down(struct walk *w, const char *token)
{
	size_t mark = w->at.len;

	jx_pointer_add(&w->at, token);
	return mark;
}

static void up(struct walk *w, size_t mark)
{
	w->at.len = mark;
	if (w->at.p)
		w->at.p[mark] = '\0';
}

static void found(struct walk *w, const char *keyword, bool certain, const char *text)
{
	size_t mark = w->at.len;

	w->found++;
	if (!w->fn)
		return;
	if (keyword)
		jx_pointer_add(&w->at, keyword);
	w->fn(w->arg, str_text(&w->at), certain, text);
	up(w, mark);
}

static void unknown(struct walk *w, const char *keyword)
{
	char text[80];

	(void)snprintf(text, sizeof(text), "%.40s differs", keyword);
	found(w, keyword, false, text);
}

static void put_value(const json_t *v, const char *none, struct str *out)
{
	struct str text = STR_INIT;
	size_t n;

	if (!v) {
		str_puts(out, none);
		return;
	}
	jx_write(v, &text);
	n = text.len < VALUE_BYTES ? text.len : VALUE_BYTES;
	while (n > 0 && n < text.len && ((unsigned char)text.p[n] & 0xc0) == 0x80)
		n--;
	str_put(out, str_text(&text), n);
	if (n < text.len)
		str_puts(out, "...");
	str_fini(&text);
}

/* "was 1, is 5", by the order of the versions. */
static void narrowed(struct walk *w, const char *keyword, const json_t *from, const json_t *to, const char *none)
{
	bool input = w->side == DEFINE_INPUT;
	struct str text = STR_INIT;

	str_puts(&text, "was ");
	put_value(input ? from : to, none, &text);
	str_puts(&text, ", is ");
	put_value(input ? to : from, none, &text);
	found(w, keyword, true, str_text(&text));
	str_fini(&text);
}

/* By the side: what callers may no longer send, or what may come that never came. */
static const char *say(const struct walk *w, const char *input, const char *output)
{
	return w->side == DEFINE_INPUT ? input : output;
}

static const json_t *newer(const struct walk *w, const json_t *from, const json_t *to)
{
	return w->side == DEFINE_INPUT ? to : from;
}

/* --- schemas */

/* Keywords that say nothing about values. */
static bool is_note(const char *key)
{
	static const char *const notes[] = { "title", "description", "default", "examples", "deprecated", "readOnly",
		"writeOnly", "$comment", "$id", "id", "$schema", "$anchor", "$dynamicAnchor", "$recursiveAnchor",
		"$vocabulary", "$defs", "definitions", "contentMediaType", "contentEncoding", "contentSchema" };

	for (size_t i = 0; i < NELEMS(notes); i++)
		if (strcmp(key, notes[i]) == 0)
			return true;
	return strncmp(key, "x-", 2) == 0;
}

/* The only keyword that decides, or NULL. */
static const char *only_keyword(const json_t *schema)
{
	const char *key, *only = NULL;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)schema, key, value) {
		if (is_note(key))
			continue;
		if (only)
			return NULL;
		only = key;
	}
	return only;
}

static bool accepts_all(const json_t *schema)
{
	const char *key;
	json_t *value;

	if (!json_is_object(schema))
		return json_is_true(schema);
	json_object_foreach((json_t *)(uintptr_t)schema, key, value)
		if (!is_note(key))
			return false;
	return true;
}

static bool has_reference(const json_t *v)
{
	const char *key;
	json_t *value;
	size_t i;

	json_array_foreach(v, i, value)
		if (has_reference(value))
			return true;
	json_object_foreach((json_t *)(uintptr_t)v, key, value)
		if (strcmp(key, "$ref") == 0 || strcmp(key, "$dynamicRef") == 0 || strcmp(key, "$recursiveRef") == 0 ||
		    has_reference(value))
			return true;
	return false;
}

/* Equal, whatever they refer to. */
static bool same(const struct walk *w, const json_t *a, const json_t *b)
{
	if (!a || !b)
		return a == b;
	return jx_equal(a, b) && (!w->references || !has_reference(a));
}

/* Through references within the document; NULL: it leads elsewhere. */
static const json_t *resolve(const json_t *root, const json_t *schema)
{
	for (unsigned i = 0; i < SCHEMA_DEPTH_MAX; i++) {
		const json_t *ref = json_is_object(schema) ? json_object_get(schema, "$ref") : NULL;
		const char *text = json_string_value(ref);

		if (!ref)
			return schema;
		if (!text || *text != '#' || strchr(text, '%') || (text[1] && text[1] != '/') || !only_keyword(schema))
			return NULL;
		schema = jx_at(root, text + 1);
		if (!schema)
			return NULL;
	}
	return NULL;
}

static unsigned type_of(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_NULL:
		return T_NULL;
	case JSON_TRUE:
	case JSON_FALSE:
		return T_BOOLEAN;
	case JSON_OBJECT:
		return T_OBJECT;
	case JSON_ARRAY:
		return T_ARRAY;
	case JSON_STRING:
		return T_STRING;
	case JSON_INTEGER:
	case JSON_REAL:
		break;
	}
	return jx_is_integer(v) ? T_INTEGER : T_FRACTION;
}

static unsigned mask_of_name(const char *name)
{
	for (size_t i = 0; name && i < NELEMS(types); i++)
		if (strcmp(types[i].name, name) == 0)
			return types[i].mask;
	return 0;
}

/* The types that `type` lets pass. */
static unsigned type_mask(const json_t *schema)
{
	const json_t *type = json_object_get(schema, "type"), *one;
	unsigned mask = 0;
	size_t i;

	if (json_is_false(schema))
		return 0;
	if (!type)
		return T_ALL;
	if (json_is_string(type))
		return mask_of_name(json_string_value(type));
	json_array_foreach(type, i, one)
		mask |= mask_of_name(json_string_value(one));
	return mask;
}

/* --- values that are counted up */

static bool is_finite(const json_t *schema)
{
	return json_object_get(schema, "enum") || json_object_get(schema, "const");
}

static bool is_listed(const json_t *schema, const json_t *v)
{
	const json_t *list = json_object_get(schema, "enum"), *one = json_object_get(schema, "const"), *entry;
	size_t i;

	if (one && !jx_equal(one, v))
		return false;
	if (!list)
		return true;
	json_array_foreach(list, i, entry)
		if (jx_equal(entry, v))
			return true;
	return false;
}

static void compare_value(struct walk *w, const json_t *v, const json_t *from, const json_t *to)
{
	struct str text = STR_INIT;

	if (!is_listed(from, v) || !(type_mask(from) & type_of(v)) ||
	    (is_listed(to, v) && (type_mask(to) & type_of(v))))
		return;
	put_value(v, "", &text);
	str_puts(&text, say(w, " is not accepted any more", " may come, and could not before"));
	found(w, json_object_get(to, "enum") ? "enum" : json_object_get(to, "const") ? "const" : "type", true,
	      str_text(&text));
	str_fini(&text);
}

/* True: all is said about types and values. */
static bool compare_values(struct walk *w, const json_t *from, const json_t *to)
{
	const json_t *list = json_object_get(from, "enum"), *one = json_object_get(from, "const"), *v;
	const char *keyword = json_object_get(to, "enum") ? "enum" : "const";
	unsigned gone = type_mask(from) & ~type_mask(to);
	size_t i;

	if (is_finite(from)) {
		if (one)
			compare_value(w, one, from, to);
		json_array_foreach(list, i, v)
			if (!one)
				compare_value(w, v, from, to);
		return true;
	}
	if (gone)
		narrowed(w, "type", json_object_get(from, "type"), json_object_get(to, "type"), "any");
	if (is_finite(to) && (type_mask(from) & type_mask(to)))
		narrowed(w, keyword, NULL, json_object_get(to, keyword), "anything");
	return false;
}

/* --- bounds */

static int order(const json_t *a, const json_t *b)
{
	return jx_compare(jx_number(a), jx_number(b));
}

/* A bound that `to` has closer.  none: what stands for a missing one of `from`, NULL = no bound. */
static void compare_bound(struct walk *w, const char *keyword, int sign, const json_t *none, const json_t *from,
			  const json_t *to)
{
	const json_t *a = json_object_get(from, keyword), *b = json_object_get(to, keyword);

	if (!a)
		a = none;
	if (json_is_number(b) && (!json_is_number(a) || sign * order(b, a) > 0))
		narrowed(w, keyword, a, b, "none");
}

static const json_t *tighter(const json_t *a, const json_t *b, int sign)
{
	return !json_is_number(a) ? b : !json_is_number(b) || sign * order(a, b) > 0 ? a : b;
}

/* One side of a range: `to` has another bound, with or without itself, that `from` does not keep. */
static void compare_range(struct walk *w, const char *plain, const char *open, int sign, const json_t *from,
			  const json_t *to)
{
	const json_t *ap = json_object_get(from, plain), *ao = json_object_get(from, open);
	const json_t *bp = json_object_get(to, plain), *bo = json_object_get(to, open);
	const json_t *a = tighter(ap, ao, sign);

	if (json_is_boolean(ao) || json_is_boolean(bo)) {       /* draft-04 */
		if ((ap && bp ? !jx_equal(ap, bp) : ap != bp) || json_is_true(ao) != json_is_true(bo))
			unknown(w, plain);
		return;
	}
	if (json_is_number(bp) && (!json_is_number(a) || sign * order(bp, a) > 0))
		narrowed(w, plain, a, bp, "none");
	/* An open bound at 5 keeps what is above 5, not 5 itself. */
	if (json_is_number(bo) && (!json_is_number(a) || sign * order(bo, a) > 0 ||
				   (order(bo, a) == 0 && !(json_is_number(ao) && order(ao, a) == 0))))
		narrowed(w, open, a, bo, "none");
}

static void compare_multiple(struct walk *w, const json_t *from, const json_t *to, unsigned both)
{
	const json_t *a = json_object_get(from, "multipleOf"), *b = json_object_get(to, "multipleOf");
	json_int_t of = json_is_integer(b) ? json_integer_value(b) : 0;

	if (!b || (a && jx_equal(a, b)) || (of == 1 && !(both & T_FRACTION)))
		return;
	if (!a || (json_is_integer(a) && of > 0 && json_integer_value(a) % of != 0))
		narrowed(w, "multipleOf", a, b, "any");
	else if (!json_is_integer(a) || of == 0)
		unknown(w, "multipleOf");
}

static void compare_text(struct walk *w, const char *keyword, const json_t *a, const json_t *b)
{
	if (!b || (a && jx_equal(a, b)))
		return;
	if (a)
		unknown(w, keyword);
	else
		narrowed(w, keyword, NULL, b, "any");
}

static void compare_numbers(struct walk *w, const json_t *from, const json_t *to, unsigned both)
{
	compare_range(w, "minimum", "exclusiveMinimum", 1, from, to);
	compare_range(w, "maximum", "exclusiveMaximum", -1, from, to);
	compare_multiple(w, from, to, both);
}

static void compare_strings(struct walk *w, const json_t *from, const json_t *to)
{
	json_t *zero = json_integer(0);

	compare_bound(w, "minLength", 1, zero, from, to);
	compare_bound(w, "maxLength", -1, NULL, from, to);
	compare_text(w, "pattern", json_object_get(from, "pattern"), json_object_get(to, "pattern"));
	if (w->to_formats)
		compare_text(w, "format", w->from_formats ? json_object_get(from, "format") : NULL,
			     json_object_get(to, "format"));
	json_decref(zero);
}

/* --- objects */

static bool requires(const json_t *schema, const char *name)
{
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(schema, "required"), i, one)
		if (json_is_string(one) && strcmp(json_string_value(one), name) == 0)
			return true;
	return false;
}

static void compare_required(struct walk *w, const json_t *from, const json_t *to)
{
	const json_t *one, *props = json_object_get(newer(w, from, to), "properties");
	size_t i;

	json_array_foreach(json_object_get(to, "required"), i, one) {
		const char *name = json_string_value(one);
		bool described = name && json_object_get(props, name);
		size_t mark = w->at.len;
		char *text;

		if (!name || requires(from, name))
			continue;
		text = described ? mem_strdup(say(w, "is required now", "may be missing now"))
				 : mem_printf("\"%.60s\" %s", name, say(w, "is required now", "may be missing now"));
		if (described)
			(void)down(w, "properties");
		found(w, described ? name : "required", true, text);
		up(w, mark);
		free(text);
	}
}

/* What `schema` says about a member that it does not list; NULL: patterns may speak of it. */
static const json_t *of_others(const struct walk *w, const json_t *schema)
{
	const json_t *more = json_object_get(schema, "additionalProperties");

	return json_object_get(schema, "patternProperties") ? NULL : more ? more : w->anything;
}

static void compare_property(struct walk *w, const char *name, const json_t *a, const json_t *b)
{
	size_t mark = w->at.len;

	(void)down(w, "properties");
	(void)down(w, name);
	if (!b)
		found(w, NULL, false, "patternProperties may speak of it");
	else if (json_is_false(b) && !json_is_false(a))
		found(w, NULL, true, say(w, "is not accepted any more", "may come, and could not before"));
	else
		compare(w, a, b);
	up(w, mark);
}

static void compare_properties(struct walk *w, const json_t *from, const json_t *to)
{
	const json_t *props = json_object_get(to, "properties"), *listed = json_object_get(from, "properties");
	const json_t *more = json_object_get(from, "additionalProperties");
	const char *name;
	json_t *a, *b;

	json_object_foreach((json_t *)(uintptr_t)listed, name, a) {
		b = json_object_get(props, name);
		compare_property(w, name, a, b ? b : of_others(w, to));
	}
	/* One that is new is nobody's yet, unless the old schema said how others have to be. */
	json_object_foreach((json_t *)(uintptr_t)props, name, b)
		if (json_is_object(more) && !accepts_all(more) && !json_object_get(listed, name))
			compare_property(w, name, more, b);
}

static void compare_patterns(struct walk *w, const json_t *from, const json_t *to)
{
	const json_t *a = json_object_get(from, "patternProperties"), *b = json_object_get(to, "patternProperties");

	if ((a || b) && !same(w, a, b))
		unknown(w, "patternProperties");
}

static void compare_others(struct walk *w, const json_t *from, const json_t *to)
{
	const json_t *a = json_object_get(from, "additionalProperties"), *b = json_object_get(to, "additionalProperties");
	size_t mark;

	if (!b || json_is_false(a))
		return;
	if (json_is_false(b)) {
		found(w, "additionalProperties", true, say(w, "others are not accepted any more",
			"others may come, and could not before"));
		return;
	}
	mark = down(w, "additionalProperties");
	compare(w, a ? a : w->anything, b);
	up(w, mark);
}

static void compare_objects(struct walk *w, const json_t *from, const json_t *to)
{
	json_t *zero = json_integer(0);

	compare_required(w, from, to);
	compare_properties(w, from, to);
	compare_patterns(w, from, to);
	compare_others(w, from, to);
	compare_bound(w, "minProperties", 1, zero, from, to);
	compare_bound(w, "maxProperties", -1, NULL, from, to);
	json_decref(zero);
}

/* --- arrays */

static const json_t *first_items(const json_t *schema)
{
	const json_t *items = json_object_get(schema, "items");

	return json_is_array(items) ? items : json_object_get(schema, "prefixItems");
}

static const json_t *other_items(const struct walk *w, const json_t *schema)
{
	const json_t *items = json_object_get(schema, "items");

	if (json_is_array(items))
		items = json_object_get(schema, "additionalItems");
	return items ? items : w->anything;
}

static void compare_items(struct walk *w, const json_t *from, const json_t *to)
{
	const json_t *a = first_items(from), *b = first_items(to);
	size_t n = json_array_size(a) > json_array_size(b) ? json_array_size(a) : json_array_size(b), mark;
	char index[24];

	for (size_t i = 0; i < n; i++) {
		mark = down(w, "prefixItems");
		(void)snprintf(index, sizeof(index), "%zu", i);
		(void)down(w, index);
		compare(w, i < json_array_size(a) ? json_array_get(a, i) : other_items(w, from),
			i < json_array_size(b) ? json_array_get(b, i) : other_items(w, to));
		up(w, mark);
	}
	mark = down(w, "items");
	compare(w, other_items(w, from), other_items(w, to));
	up(w, mark);
}

static void compare_arrays(struct walk *w, const json_t *from, const json_t *to)
{
	const json_t *a = json_object_get(from, "uniqueItems"), *b = json_object_get(to, "uniqueItems");
	json_t *zero = json_integer(0);

	compare_items(w, from, to);
	compare_bound(w, "minItems", 1, zero, from, to);
	compare_bound(w, "maxItems", -1, NULL, from, to);
	if (json_is_true(b) && !json_is_true(a))
		narrowed(w, "uniqueItems", a, b, "false");
	json_decref(zero);
}

/* --- schemas of schemas */

/* Does `to` take all of `from`, as far as can be told? */
static bool fits(struct walk *w, const json_t *from, const json_t *to)
{
	define_break_fn *fn = w->fn;
	size_t before = w->found;
	bool none;

	w->fn = NULL;
	compare(w, from, to);
	none = w->found == before;
	w->fn = fn;
	w->found = before;
	return none;
}

static bool fits_one_of(struct walk *w, const json_t *from, const json_t *list, size_t *ret_met)
{
	const json_t *to_root = w->to_root, *one, *real;
	size_t i;
	bool found_one = false;

	*ret_met = 0;
	json_array_foreach(list, i, one) {
		real = resolve(to_root, one);
		*ret_met += !real || (type_mask(from) & type_mask(real)) != 0;
		found_one = found_one || fits(w, from, one);
	}
	return found_one;
}

/* Members of a list of schemas one by one. */
static bool fits_each(struct walk *w, const json_t *a, const json_t *b)
{
	if (json_array_size(a) != json_array_size(b) || json_array_size(a) == 0)
		return false;
	for (size_t i = 0; i < json_array_size(a); i++)
		if (!fits(w, json_array_get(a, i), json_array_get(b, i)))
			return false;
	return true;
}

static void compare_union(struct walk *w, const char *keyword, const json_t *from, const json_t *to)
{
	const json_t *a = json_object_get(from, keyword), *b = json_object_get(to, keyword);
	bool one_of = strcmp(keyword, "oneOf") == 0;
	size_t met = 0;

	if (!b || (a && same(w, a, b)) || (!one_of && fits_each(w, a, b)))
		return;
	if (fits_one_of(w, from, b, &met) && (!one_of || met == 1))
		return;
	if (met == 0)
		found(w, keyword, true, say(w, "none of them accepts what was accepted", "what may come now is none of them"));
	else
		unknown(w, keyword);
}

static void compare_all_of(struct walk *w, const json_t *from, const json_t *to)
{
	const json_t *a = json_object_get(from, "allOf"), *b = json_object_get(to, "allOf"), *part, *own;
	size_t i, k;

	if (!b || (a && same(w, a, b)))
		return;
	json_array_foreach(b, i, part) {
		bool kept = fits(w, from, part);

		json_array_foreach(a, k, own)
			kept = kept || fits(w, own, part);
		if (!kept) {
			unknown(w, "allOf");
			return;
		}
	}
}

/* Keywords that are as before, or are gone; of what else changed there nothing can be told. */
static void compare_rest(struct walk *w, const json_t *from, const json_t *to)
{
	static const char *const alone[] = { "not", "propertyNames", "dependentRequired", "dependentSchemas",
		"dependencies", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef", "$ref" };
	static const char *const groups[][3] = { { "if", "then", "else" }, { "contains", "minContains", "maxContains" } };

	for (size_t i = 0; i < NELEMS(alone); i++) {
		const json_t *a = json_object_get(from, alone[i]), *b = json_object_get(to, alone[i]);

		if (b && (!a || !same(w, a, b)))
			unknown(w, alone[i]);
	}
	for (size_t i = 0; i < NELEMS(groups); i++) {
		bool differs = false;

		for (size_t k = 0; k < NELEMS(groups[i]); k++) {
			const json_t *a = json_object_get(from, groups[i][k]), *b = json_object_get(to, groups[i][k]);

			differs = differs || (a || b ? !a || !b || !same(w, a, b) : false);
		}
		if (differs && json_object_get(to, groups[i][0]))
			unknown(w, groups[i][0]);
	}
}

/* One of several: each has to be taken.  False: `from` says something beside. */
static bool compare_each_branch(struct walk *w, const json_t *from, const json_t *to)
{
	const char *only = only_keyword(from);
	const json_t *branch;
	size_t i;

	if (!only || (strcmp(only, "anyOf") != 0 && strcmp(only, "oneOf") != 0) || same(w, from, to))
		return false;
	json_array_foreach(json_object_get(from, only), i, branch)
		compare(w, branch, to);
	return true;
}

static void compare_bounds(struct walk *w, const json_t *from, const json_t *to, unsigned both)
{
	if (both & T_OBJECT)
		compare_objects(w, from, to);
	if (both & T_ARRAY)
		compare_arrays(w, from, to);
	if (both & T_NUMBER)
		compare_numbers(w, from, to, both);
	if (both & T_STRING)
		compare_strings(w, from, to);
}

/* Values that are counted up need not be what a new bound leaves out. */
static bool probe_bounds(struct walk *w, const json_t *from, const json_t *to, unsigned both)
{
	define_break_fn *fn = w->fn;
	size_t before = w->found;
	bool none;

	w->fn = NULL;
	compare_bounds(w, from, to, both);
	none = w->found == before;
	w->fn = fn;
	w->found = before;
	return none;
}

static void compare_pair(struct walk *w, const json_t *from, const json_t *to)
{
	unsigned both = type_mask(from) & type_mask(to);

	if (accepts_all(to) || json_is_false(from) || same(w, from, to))
		return;
	if (json_is_false(to)) {
		found(w, NULL, true, say(w, "nothing is accepted any more", "anything may come, and nothing could before"));
		return;
	}
	if (json_is_true(from))
		from = w->anything;
	if (compare_each_branch(w, from, to))
		return;
	if (compare_values(w, from, to)) {
		if (!is_finite(to) && !probe_bounds(w, from, to, both))
			found(w, NULL, false, "its bounds differ");
	} else {
		compare_bounds(w, from, to, both);
	}
	compare_union(w, "anyOf", from, to);
	compare_union(w, "oneOf", from, to);
	compare_all_of(w, from, to);
	compare_rest(w, from, to);
}

static void compare(struct walk *w, const json_t *from, const json_t *to)
{
	const json_t *a = resolve(w->from_root, from), *b = resolve(w->to_root, to);

	if (w->steps >= STEPS_MAX || w->depth >= SCHEMA_DEPTH_MAX) {
		w->too_large = true;    /* said once, at the end */
		w->found += !w->fn;
		return;
	}
	if (!a || !b) {
		if (!jx_equal(from, to) && !accepts_all(to))
			unknown(w, "$ref");
		return;
	}
	for (unsigned i = 0; i < w->depth; i++)
		if (w->on[i].from == a && w->on[i].to == b)
			return;         /* what refers to itself holds if the rest does */
	w->steps++;
	w->on[w->depth].from = a;
	w->on[w->depth].to = b;
	w->depth++;
	compare_pair(w, a, b);
	w->depth--;
}

size_t define_schema_breaks(const struct define_pair *pair, enum define_side side, define_break_fn *fn, void *arg)
{
	bool input = side == DEFINE_INPUT;
	struct walk w = { .side = side, .fn = fn, .arg = arg, .at = STR_INIT, .anything = json_object(),
		.from_root = input ? pair->old : pair->now, .to_root = input ? pair->now : pair->old,
		.from_formats = input ? pair->old_formats : pair->now_formats,
		.to_formats = input ? pair->now_formats : pair->old_formats };
	const json_t *was = json_object_get(pair->old, "$schema"), *is = json_object_get(pair->now, "$schema");

	if (was && is && !jx_equal(was, is))
		unknown(&w, "$schema");
	w.references = !jx_equal(pair->old, pair->now) && (has_reference(pair->old) || has_reference(pair->now));
	compare(&w, w.from_root, w.to_root);
	if (w.too_large)
		found(&w, NULL, false, "it is too large to compare");
	json_decref(w.anything);
	str_fini(&w.at);
	return w.found;
}

/* --- what of a new version breaks who uses it */

struct breaks { define_break_fn *fn; void *arg; const char *at; size_t n; };

static void pass_on(void *arg, const char *pointer, bool certain, const char *why)
{
	const struct breaks *b = arg;
	char *where = mem_printf("%s%s", b->at, pointer);

	if (b->fn)
		b->fn(b->arg, where, certain, why);
	free(where);
}

static bool asserts_formats(const json_t *doc)
{
	const char *text = json_string_value(json_object_get(doc, "formats"));

	return text && strcmp(text, "assert") == 0;
}

static void compare_schemas(struct breaks *b, const char *at, enum define_side side, const struct define_pair *pair)
{
	b->at = at;
	b->n += define_schema_breaks(pair, side, pass_on, b);
}

static void compare_tools(struct breaks *b, const json_t *old, const json_t *now)
{
	struct define_pair pair = { json_object_get(old, "inputSchema"), json_object_get(now, "inputSchema"),
		asserts_formats(old), asserts_formats(now) };

	if (!pair.old || !pair.now)
		return;
	compare_schemas(b, "/inputSchema", DEFINE_INPUT, &pair);
	pair.old = json_object_get(old, "outputSchema");
	pair.now = json_object_get(now, "outputSchema");
	if (pair.old && pair.now)
		compare_schemas(b, "/outputSchema", DEFINE_OUTPUT, &pair);
	b->at = "";
	if (pair.old && !pair.now) {
		pass_on(b, "/outputSchema", true, "results are no longer described");
		b->n++;
	}
}

static void compare_prompts(struct breaks *b, const json_t *old, const json_t *now)
{
	json_t *was = define_prompt_schema(old), *is = define_prompt_schema(now);

	compare_schemas(b, "/arguments", DEFINE_INPUT, &(struct define_pair){ .old = was, .now = is });
	json_decref(was);
	json_decref(is);
}

size_t define_breaks(const json_t *old, const json_t *now, define_break_fn *fn, void *arg)
{
	static const char *const names[] = { "uri", "uriTemplate" };
	struct breaks b = { .fn = fn, .arg = arg, .at = "" };

	compare_tools(&b, old, now);
	if (json_is_array(json_object_get(old, "messages")) || json_is_array(json_object_get(old, "arguments")))
		compare_prompts(&b, old, now);
	for (size_t i = 0; i < NELEMS(names); i++) {
		const json_t *was = json_object_get(old, names[i]), *is = json_object_get(now, names[i]);
		char at[16];

		if (!was || !is || json_equal(was, is))
			continue;
		(void)snprintf(at, sizeof(at), "/%s", names[i]);
		pass_on(&b, at, i == 0, i == 0 ? "nothing is read under the old one" : "uriTemplate differs");
		b.n++;
	}
	return b.n;
}
