/* Keywords that judge a value by itself: its type, constants, numbers, strings. */
#include "config.h"

#include "keywords_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

struct num_rules *compile_num(struct compiler *c, struct node *n)
{
	if (!n->num)
		n->num = compile_take(c, sizeof *n->num);
	return n->num;
}

struct str_rules *compile_str(struct compiler *c, struct node *n)
{
	if (!n->str) {
		n->str = compile_take(c, sizeof *n->str);
		if (n->str)
			n->str->max = SIZE_MAX;
	}
	return n->str;
}

/* TYPE */

static int read_type(struct compiler *c, const json_t *v, uint8_t *types)
{
	static const char *const names[] = { "object", "array", "string", "number", "integer", "boolean", "null" };
	const char *name = json_string_value(v), *near;
	unsigned bit;
	int rc;

	if (!name)
		return compile_fail(c, ERR_INVALID, "must be the name of a type");
	bit = schema_type_of_name(name);
	if (!bit) {
		near = text_nearest(name, names, NELEMS(names));
		rc = compile_fail(c, ERR_INVALID, "\"%.40s\" is not a type", name);
		if (near)
			err_hint(c->err, "did you mean %s?", near);
		return rc;
	}
	if (*types & bit)
		return compile_fail(c, ERR_INVALID, "the type \"%s\" is listed twice", name);
	*types = (uint8_t)(*types | bit);
	return 0;
}

int kw_type(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	uint8_t types = 0;
	int rc = 0;

	if (!json_is_array(v)) {
		rc = read_type(c, v, &types);
	} else if (json_array_size(v) == 0) {
		rc = compile_fail(c, ERR_INVALID, "must list at least one type");
	}
	for (size_t i = 0; i < json_array_size(v) && !rc; i++) {
		size_t mark = compile_enter_index(c, i);

		rc = read_type(c, json_array_get(v, i), &types);
		compile_leave(c, mark);
	}
	n->types = types;
	return rc;
}

/* CONSTANTS */

/* The number, with a text of its own. */
static int take_number(struct compiler *c, const json_t *v, struct jx_number *ret)
{
	*ret = jx_number(v);
	if (ret->kind == JX_TEXT)
		ret->text = arena_strdup(c->mem, ret->text);
	return ret->kind == JX_TEXT && !ret->text ? compile_fail_memory(c) : 0;
}

static int constant_array(struct compiler *c, const json_t *v, struct constant *ret)
{
	struct constant *children = compile_take(c, (json_array_size(v) + 1) * sizeof *children);
	int rc = 0;

	if (!children)
		return compile_fail_memory(c);
	ret->children = children;
	for (ret->n = 0; ret->n < json_array_size(v) && !rc; ret->n++)
		rc = compile_constant(c, json_array_get(v, ret->n), &children[ret->n]);
	return rc;
}

static int constant_object(struct compiler *c, const json_t *v, struct constant *ret)
{
	json_t *obj = (json_t *)(uintptr_t)v;   /* jansson iterates without const */
	struct constant *children = compile_take(c, (json_object_size(v) + 1) * sizeof *children);
	struct name *names = compile_take(c, (json_object_size(v) + 1) * sizeof *names);
	int rc = 0;

	if (!children || !names)
		return compile_fail_memory(c);
	ret->children = children;
	ret->names = names;
	for (void *it = json_object_iter(obj); it && !rc; it = json_object_iter_next(obj, it)) {
		names[ret->n].len = json_object_iter_key_len(it);
		names[ret->n].p = arena_strndup(c->mem, json_object_iter_key(it), names[ret->n].len);
		if (!names[ret->n].p)
			return compile_fail_memory(c);
		rc = compile_constant(c, json_object_iter_value(it), &children[ret->n++]);
	}
	return rc;
}

/* Recursion ends with the depth of the tree. */
int compile_constant(struct compiler *c, const json_t *v, struct constant *ret)
{
	unsigned bits = schema_type_bits(v);

	ret->type = bits & TYPE_NUMBER ? TYPE_NUMBER : bits;
	switch (ret->type) {
	case TYPE_OBJECT:
		return constant_object(c, v, ret);
	case TYPE_ARRAY:
		return constant_array(c, v, ret);
	case TYPE_STRING:
		ret->len = json_string_length(v);
		ret->text = arena_strndup(c->mem, json_string_value(v), ret->len);
		return ret->text ? 0 : compile_fail_memory(c);
	case TYPE_NUMBER:
		return take_number(c, v, &ret->number);
	default:
		ret->truth = json_is_true(v);
		return 0;
	}
}

static int index_texts(struct compiler *c, struct constants *set)
{
	struct name *texts = compile_take(c, set->n * sizeof *texts);

	if (!texts)
		return compile_fail_memory(c);
	for (size_t i = 0; i < set->n; i++)
		texts[i] = (struct name){ set->values[i].text, set->values[i].len };
	set->texts = texts;
	return compile_index(c, texts, sizeof *texts, set->n, &set->index);
}

static int read_constants(struct compiler *c, const json_t *const *values, size_t count, bool is_const,
			  const struct constants **ret)
{
	struct constants *set = compile_take(c, sizeof *set);
	struct constant *copies = compile_take(c, (count + 1) * sizeof *copies);
	uint64_t *hashes = compile_take(c, (count + 1) * sizeof *hashes);
	size_t steps = 0;
	int rc = 0;

	if (!set || !copies || !hashes)
		return compile_fail_memory(c);
	for (size_t i = 0; i < count && !rc; i++) {
		rc = compile_constant(c, values[i], &copies[i]);
		hashes[i] = schema_hash(values[i], &steps);
		set->types |= copies[i].type;
	}
	set->values = copies;
	set->hashes = hashes;
	set->n = count;
	set->is_const = is_const;
	set->strings = set->types == TYPE_STRING;
	set->next = *ret;
	*ret = set;
	return rc || !set->strings ? rc : index_texts(c, set);
}

int kw_const(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return read_constants(c, &v, 1, true, &n->constants);
}

int kw_enum(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	size_t count = json_array_size(v);
	const json_t **values;
	int rc;

	/* Draft-04, 5.5.1, has a MUST where the later ones have a SHOULD. */
	if (!json_is_array(v) || (count == 0 && (!c->options.lenient || compile_is(c, D4))))
		return compile_fail(c, ERR_INVALID, "must be an array with at least one value");
	values = mem_calloc(count + 1, sizeof *values);
	for (size_t i = 0; i < count; i++)
		values[i] = json_array_get(v, i);
	rc = read_constants(c, values, count, false, &n->constants);
	free(values);
	return rc;
}

/* NUMBERS */

int kw_bound(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct num_rules *rules = compile_num(c, n);
	struct bound *b;

	if (!json_is_number(v))
		return compile_fail(c, ERR_INVALID, "must be a number");
	if (!rules)
		return compile_fail_memory(c);
	b = (struct bound *)(void *)((char *)rules + kw->offset);
	if (compile_is(c, D4) && json_is_true(json_object_get(c->reading->object, b == &rules->min ?
	    "exclusiveMinimum" : "exclusiveMaximum")))
		b = b == &rules->min ? &rules->above : &rules->below;
	b->set = true;
	return take_number(c, v, &b->n);
}

static int make_divisor(struct compiler *c, struct jx_number n, struct divisor *ret)
{
	struct jx_decimal d;

	jx_decimal(n, &d);
	if (n.kind == JX_INTEGER)
		ret->whole = n.i;
	ret->exp10 = d.exp10;
	ret->n = d.n;
	ret->digits = arena_strndup(c->mem, d.digits, d.n);
	if (!ret->digits)
		return compile_fail_memory(c);
	if (text_u64(d.digits, d.n, &ret->small) != 0)
		ret->small = 0;
	return 0;
}

int kw_multiple(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct num_rules *rules = compile_num(c, n);
	int rc;

	if (!json_is_number(v) || jx_compare(jx_number(v), (struct jx_number){ .kind = JX_INTEGER, .i = 0 }) <= 0)
		return compile_fail(c, ERR_INVALID, "must be a number above 0");
	if (!rules)
		return compile_fail_memory(c);
	rules->step.set = true;
	rc = take_number(c, v, &rules->step.n);
	return rc ? rc : make_divisor(c, rules->step.n, &rules->by);
}

/* STRINGS */

int kw_read_count(struct compiler *c, const json_t *v, size_t *ret)
{
	const struct jx_number zero = { .kind = JX_INTEGER, .i = 0 }, end = { .kind = JX_INTEGER, .i = INT64_MAX };

	if (!json_is_number(v) || !jx_is_integer(v) || jx_compare(jx_number(v), zero) < 0)
		return compile_fail(c, ERR_INVALID, "must be a whole number from 0 on");
	if (jx_compare(jx_number(v), end) >= 0)
		*ret = SIZE_MAX;
	else
		*ret = json_is_integer(v) ? (size_t)json_integer_value(v) : (size_t)jx_nearest(v);
	return 0;
}

int kw_str_count(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct str_rules *rules = compile_str(c, n);

	if (!rules)
		return compile_fail_memory(c);
	return kw_read_count(c, v, (size_t *)(void *)((char *)rules + kw->offset));
}

int kw_read_pattern(struct compiler *c, const char *p, size_t len, const struct regex **ret)
{
	struct err e = { 0 };
	int rc = regex_compile(c->mem, p, len, ret, &e);

	return rc ? compile_fail(c, e.code, "%s", e.msg) : 0;
}

int kw_pattern(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct str_rules *rules = compile_str(c, n);

	if (!json_is_string(v))
		return compile_fail(c, ERR_INVALID, "must be a string");
	if (!rules)
		return compile_fail_memory(c);
	return kw_read_pattern(c, json_string_value(v), json_string_length(v), &rules->pattern);
}

/* Formats are annotations unless the caller or the dialect says more; unknown ones always. */
int kw_format(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	const struct format *format;
	struct str_rules *rules;
	struct err e = { 0 };
	int rc;

	if (!json_is_string(v))
		return compile_fail(c, ERR_INVALID, "must be a string");
	if (!c->options.assert_format && !(c->in->dialect.vocabularies & VOC_ASSERT))
		return 0;
	rc = format_compile(c->mem, json_string_value(v), &format, &e);
	if (rc)
		return compile_fail(c, e.code, "%s", e.msg);
	if (!format)
		return 0;
	rules = compile_str(c, n);
	if (!rules)
		return compile_fail_memory(c);
	rules->format = format;
	return 0;
}

/* In draft-07 they may decide, from 2019-09 on they never do. */
int kw_content(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct str_rules *rules;

	if (!json_is_string(v))
		return compile_fail(c, ERR_INVALID, "must be a string");
	if (!c->options.assert_format || !compile_is(c, D7))
		return 0;
	rules = compile_str(c, n);
	if (!rules)
		return compile_fail_memory(c);
	rules->base64 |= strcmp(kw->name, "contentEncoding") == 0 && strcmp(json_string_value(v), "base64") == 0;
	rules->json |= strcmp(kw->name, "contentMediaType") == 0 &&
		       strcmp(json_string_value(v), "application/json") == 0;
	return 0;
}
