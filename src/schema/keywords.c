/* The table of keywords: what each does, in which dialect, and what is refused by name.  Handlers that
 * read one number, one schema or a map of schemas are shared; the row says where the result goes. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#include "compile_int.h"

/* The handlers behind the rows of keywords.c. */

struct keyword;
typedef int keyword_fn(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v);
struct keyword {
	const char *name;
	unsigned dialects, vocabulary;
	enum sub sub;
	keyword_fn *read;
	size_t offset;          /* of the result in its group of rules */
};

/* --- Keywords that judge a value by itself: its type, constants, numbers, strings. */

static struct num_rules *compile_num(struct compiler *c, struct node *n)
{
	if (!n->num)
		n->num = compile_take(c, sizeof(*n->num));
	return n->num;
}

static struct str_rules *compile_str(struct compiler *c, struct node *n)
{
	if (!n->str) {
		n->str = compile_take(c, sizeof(*n->str));
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

static int kw_type(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
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

static int compile_constant(struct compiler *c, const json_t *v, struct constant *ret);

static int constant_array(struct compiler *c, const json_t *v, struct constant *ret)
{
	struct constant *children = compile_take(c, (json_array_size(v) + 1) * sizeof(*children));
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
	struct constant *children = compile_take(c, (json_object_size(v) + 1) * sizeof(*children));
	struct name *names = compile_take(c, (json_object_size(v) + 1) * sizeof(*names));
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
static int compile_constant(struct compiler *c, const json_t *v, struct constant *ret)
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

static int compile_index(struct compiler *c, const void *items, size_t stride, size_t n, struct name_index *ret);

static int index_texts(struct compiler *c, struct constants *set)
{
	struct name *texts = compile_take(c, set->n * sizeof(*texts));

	if (!texts)
		return compile_fail_memory(c);
	for (size_t i = 0; i < set->n; i++)
		texts[i] = (struct name){ set->values[i].text, set->values[i].len };
	set->texts = texts;
	return compile_index(c, texts, sizeof(*texts), set->n, &set->index);
}

static int read_constants(struct compiler *c, const json_t *const *values, size_t count, bool is_const,
			  const struct constants **ret)
{
	struct constants *set = compile_take(c, sizeof(*set));
	struct constant *copies = compile_take(c, (count + 1) * sizeof(*copies));
	uint64_t *hashes = compile_take(c, (count + 1) * sizeof(*hashes));
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

static int kw_const(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return read_constants(c, &v, 1, true, &n->constants);
}

static int kw_enum(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	size_t count = json_array_size(v);
	const json_t **values;
	int rc;

	/* Draft-04, 5.5.1, has a MUST where the later ones have a SHOULD. */
	if (!json_is_array(v) || (count == 0 && (!c->options.lenient || compile_is(c, D4))))
		return compile_fail(c, ERR_INVALID, "must be an array with at least one value");
	values = mem_calloc(count + 1, sizeof(*values));
	for (size_t i = 0; i < count; i++)
		values[i] = json_array_get(v, i);
	rc = read_constants(c, values, count, false, &n->constants);
	free(values);
	return rc;
}

/* NUMBERS */

static int kw_bound(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
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

static int kw_multiple(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
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

static int kw_read_count(struct compiler *c, const json_t *v, size_t *ret)
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

static int kw_str_count(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct str_rules *rules = compile_str(c, n);

	if (!rules)
		return compile_fail_memory(c);
	return kw_read_count(c, v, (size_t *)(void *)((char *)rules + kw->offset));
}

/* Compile a pattern; failures point at what is being read. */
static int kw_read_pattern(struct compiler *c, const char *p, size_t len, const struct regex **ret)
{
	struct err e = { 0 };
	int rc = regex_compile(c->mem, p, len, ret, &e);

	return rc ? compile_fail(c, e.code, "%s", e.msg) : 0;
}

static int kw_pattern(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct str_rules *rules = compile_str(c, n);

	if (!json_is_string(v))
		return compile_fail(c, ERR_INVALID, "must be a string");
	if (!rules)
		return compile_fail_memory(c);
	return kw_read_pattern(c, json_string_value(v), json_string_length(v), &rules->pattern);
}

/* Formats are annotations unless the caller or the dialect says more; unknown ones always. */
static int kw_format(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
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
static int kw_content(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
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

/* --- Keywords of arrays and objects, and those that combine schemas. */

#define NEEDED_MAX 64           /* bits of a word */

/* ARRAYS */

static struct arr_rules *compile_arr(struct compiler *c, struct node *n)
{
	if (!n->arr) {
		n->arr = compile_take(c, sizeof(*n->arr));
		if (n->arr) {
			n->arr->marks = compile_is(c, D2020);
			n->arr->max = n->arr->max_contains = SIZE_MAX;
			n->arr->min_contains = 1;
		}
	}
	return n->arr;
}

static int kw_arr_count(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct arr_rules *rules = compile_arr(c, n);

	if (!rules)
		return compile_fail_memory(c);
	return kw_read_count(c, v, (size_t *)(void *)((char *)rules + kw->offset));
}

static int kw_arr_schema(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct arr_rules *rules = compile_arr(c, n);

	if (!rules)
		return compile_fail_memory(c);
	return compile_schema(c, v, (const struct node **)(void *)((char *)rules + kw->offset));
}

static int kw_unique(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct arr_rules *rules = compile_arr(c, n);

	if (!json_is_boolean(v))
		return compile_fail(c, ERR_INVALID, "must be true or false");
	if (!rules)
		return compile_fail_memory(c);
	rules->unique = json_is_true(v);
	return 0;
}

static int kw_prefix(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct arr_rules *rules = compile_arr(c, n);

	return rules ? compile_list(c, v, &rules->prefix) : compile_fail_memory(c);
}

static int kw_items(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct arr_rules *rules = compile_arr(c, n);

	if (!rules)
		return compile_fail_memory(c);
	if (!json_is_array(v))
		return compile_schema(c, v, &rules->items);
	rules->old_items = !compile_is(c, D2020);
	if (rules->old_items)
		return json_array_size(v) ? compile_list(c, v, &rules->prefix) : 0;
	(void)compile_fail(c, ERR_INVALID, "a list of schemas belongs to 2019-09, this schema is 2020-12");
	err_hint(c->err, "use prefixItems");
	return ERR_INVALID;
}

/* Counts only beside a list in items. */
static int kw_additional_items(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct arr_rules *rules = compile_arr(c, n);
	const struct node *unused;

	if (!rules)
		return compile_fail_memory(c);
	return compile_schema(c, v, json_is_array(json_object_get(c->reading->object, "items")) ? &rules->items
			      : &unused);
}

/* OBJECTS */

static struct obj_rules *compile_obj(struct compiler *c, struct node *n)
{
	if (!n->obj) {
		n->obj = compile_take(c, sizeof(*n->obj));
		if (n->obj)
			n->obj->max = SIZE_MAX;
	}
	return n->obj;
}

static int kw_rest(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	if (!n->rest)
		n->rest = compile_take(c, sizeof(*n->rest));
	if (!n->rest)
		return compile_fail_memory(c);
	return compile_schema(c, v, (const struct node **)(void *)((char *)n->rest + kw->offset));
}

static int kw_obj_count(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct obj_rules *rules = compile_obj(c, n);

	if (!rules)
		return compile_fail_memory(c);
	return kw_read_count(c, v, (size_t *)(void *)((char *)rules + kw->offset));
}

static int kw_obj_schema(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct obj_rules *rules = compile_obj(c, n);

	if (!rules)
		return compile_fail_memory(c);
	return compile_schema(c, v, (const struct node **)(void *)((char *)rules + kw->offset));
}

static int order_names(const void *a, const void *b)
{
	return schema_order_names(a, b);
}

static int copy_name(struct compiler *c, const char *p, size_t len, struct name *ret)
{
	ret->len = len;
	ret->p = arena_strndup(c->mem, p, len);
	return ret->p ? 0 : compile_fail_memory(c);
}

/* A list of different names; they keep their order. */
static int compile_names(struct compiler *c, const json_t *doc, struct name_list *ret)
{
	size_t n = json_array_size(doc);
	struct name *sorted;
	int rc = 0;

	if (!json_is_array(doc))
		return compile_fail(c, ERR_INVALID, "must be an array of names");
	ret->names = compile_take(c, (n + 1) * sizeof(*ret->names));
	if (!ret->names)
		return compile_fail_memory(c);
	for (ret->n = 0; ret->n < n && !rc; ret->n++) {
		const json_t *name = json_array_get(doc, ret->n);

		if (json_is_string(name))
			rc = copy_name(c, json_string_value(name), json_string_length(name), &ret->names[ret->n]);
		else
			rc = compile_fail(c, ERR_INVALID, "must be an array of names");
	}
	if (rc || n == 0)
		return rc;
	sorted = mem_dup(ret->names, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), order_names);
	for (size_t i = 1; i < n && !rc; i++)
		if (order_names(&sorted[i - 1], &sorted[i]) == 0)
			rc = compile_fail(c, ERR_INVALID, "\"%.80s\" is listed twice", sorted[i].p);
	free(sorted);
	return rc;
}

/* The slots by which names are found; items begin with a struct name each. */
static int compile_index(struct compiler *c, const void *items, size_t stride, size_t n, struct name_index *ret)
{
	struct name_index x = { .shift = 63 };
	struct name_slot *slots;

	if (!n)
		return 0;
	while (((size_t)1 << (64 - x.shift)) < 2 * n)
		x.shift--;
	slots = compile_take(c, sizeof(*slots) << (64 - x.shift));
	if (!slots)
		return compile_fail_memory(c);
	x.slots = slots;
	x.seed[0] = c->seed[0];
	x.seed[1] = c->seed[1];
	for (size_t i = 0; i < n; i++) {
		const struct name *name = (const void *)((const char *)items + i * stride);
		const struct name_key k = schema_name_key(name->p, name->len);
		size_t at = schema_name_slot(&x, k, name->len);

		while (slots[at].item)
			at = (at + 1) & (((size_t)1 << (64 - x.shift)) - 1);
		slots[at] = (struct name_slot){ k.head, k.tail, (uint32_t)name->len, (uint32_t)i + 1 };
	}
	*ret = x;
	return 0;
}

static int kw_required(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct obj_rules *rules = compile_obj(c, n);

	return rules ? compile_names(c, v, &rules->required) : compile_fail_memory(c);
}

/* Names that are only required get an entry too, behind the others. */
static int make_properties(struct compiler *c, struct obj_rules *rules, size_t n)
{
	n += json_array_size(json_object_get(c->reading->object, "required"));
	if (!rules->props)
		rules->props = compile_take(c, (n + 1) * sizeof(*rules->props));
	return rules->props ? 0 : ERR_LIMIT;
}

static int kw_properties(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	json_t *obj = (json_t *)(uintptr_t)v;   /* jansson iterates without const */
	struct obj_rules *rules = compile_obj(c, n);
	int rc = 0;

	if (!json_is_object(v))
		return compile_fail(c, ERR_INVALID, "must be an object of schemas");
	if (!rules || make_properties(c, rules, json_object_size(v)) != 0)
		return compile_fail_memory(c);
	for (void *it = json_object_iter(obj); it && !rc; it = json_object_iter_next(obj, it)) {
		struct property *p = &rules->props[rules->nprops++];
		size_t mark = compile_enter(c, json_object_iter_key(it));

		rc = copy_name(c, json_object_iter_key(it), json_object_iter_key_len(it), &p->name);
		if (!rc)
			rc = compile_schema(c, json_object_iter_value(it), &p->node);
		compile_leave(c, mark);
	}
	return rc;
}

static int kw_pattern_properties(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	json_t *obj = (json_t *)(uintptr_t)v;   /* jansson iterates without const */
	struct obj_rules *rules = compile_obj(c, n);
	int rc = 0;

	if (!json_is_object(v))
		return compile_fail(c, ERR_INVALID, "must be an object of schemas");
	if (rules)
		rules->patterns = compile_take(c, (json_object_size(v) + 1) * sizeof(*rules->patterns));
	if (!rules || !rules->patterns)
		return compile_fail_memory(c);
	for (void *it = json_object_iter(obj); it && !rc; it = json_object_iter_next(obj, it)) {
		struct pattern_property *p = &rules->patterns[rules->npatterns++];
		size_t mark = compile_enter(c, json_object_iter_key(it));

		rc = kw_read_pattern(c, json_object_iter_key(it), json_object_iter_key_len(it), &p->re);
		if (!rc)
			rc = compile_schema(c, json_object_iter_value(it), &p->node);
		compile_leave(c, mark);
	}
	return rc;
}

/* The first names that are required have a bit each, so that one walk over the members finds them all. */
static void note_required(struct obj_rules *o)
{
	size_t known = o->nprops;

	for (size_t i = 0; i < o->required.n && i < NEEDED_MAX; i++) {
		const struct name *name = &o->required.names[i];
		struct property *p = o->props;

		while (p < o->props + known && schema_order_names(&p->name, name) != 0)
			p++;
		if (p == o->props + known)
			p = &o->props[o->nprops++];
		p->name = *name;
		p->needed = (uint64_t)1 << i;
		o->needed |= p->needed;
		o->nneeded++;
	}
}

int compile_finish_object(struct compiler *c, struct obj_rules *o)
{
	bool any = o->npatterns || o->additional || o->names;

	o->walk = o->nprops || any;
	o->sparse = !any;
	if (o->walk) {
		if (make_properties(c, o, 0) != 0)
			return compile_fail_memory(c);
		note_required(o);
	}
	return compile_index(c, o->props, sizeof(*o->props), o->nprops, &o->index);
}

/* The entry for a name: dependentRequired and dependentSchemas may both have one. */
static int find_dependent(struct compiler *c, struct obj_rules *rules, const char *p, size_t len,
			  struct dependent **ret)
{
	const struct name name = { p, len };

	for (size_t i = 0; i < rules->ndependents; i++)
		if (schema_order_names(&rules->dependents[i].name, &name) == 0) {
			*ret = &rules->dependents[i];
			return 0;
		}
	*ret = &rules->dependents[rules->ndependents++];
	return copy_name(c, p, len, &(*ret)->name);
}

static int make_dependents(struct compiler *c, struct obj_rules *rules)
{
	static const char *const keywords[] = { "dependencies", "dependentRequired", "dependentSchemas" };
	size_t n = 1;

	for (size_t i = 0; i < NELEMS(keywords); i++)
		n += json_object_size(json_object_get(c->reading->object, keywords[i]));
	if (!rules->dependents)
		rules->dependents = compile_take(c, n * sizeof(*rules->dependents));
	return rules->dependents ? 0 : compile_fail_memory(c);
}

/* An array is a list of names, anything else a schema; draft-07 has both in one keyword. */
static int kw_dependents(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	json_t *obj = (json_t *)(uintptr_t)v;   /* jansson iterates without const */
	struct obj_rules *rules = compile_obj(c, n);
	bool names = strcmp(kw->name, "dependentRequired") == 0, schemas = strcmp(kw->name, "dependentSchemas") == 0;
	int rc;

	if (!json_is_object(v))
		return compile_fail(c, ERR_INVALID, "must be an object");
	if (!rules)
		return compile_fail_memory(c);
	rules->old_dependencies = !names && !schemas;
	rc = make_dependents(c, rules);
	for (void *it = json_object_iter(obj); it && !rc; it = json_object_iter_next(obj, it)) {
		const json_t *child = json_object_iter_value(it);
		size_t mark = compile_enter(c, json_object_iter_key(it));
		struct dependent *d = NULL;

		rc = find_dependent(c, rules, json_object_iter_key(it), json_object_iter_key_len(it), &d);
		if (!rc && (names || (!schemas && json_is_array(child))))
			rc = compile_names(c, child, &d->required);
		else if (!rc)
			rc = compile_schema(c, child, &d->node);
		compile_leave(c, mark);
	}
	return rc;
}

/* LOGIC */

static struct logic *compile_logic(struct compiler *c, struct node *n)
{
	if (!n->logic) {
		n->logic = compile_take(c, sizeof(*n->logic));
		if (n->logic) {
			n->logic->before = c->logics;
			c->logics = n->logic;
		}
	}
	return n->logic;
}

static int kw_logic_list(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct logic *l = compile_logic(c, n);

	if (!l)
		return compile_fail_memory(c);
	return compile_list(c, v, (struct node_list *)(void *)((char *)l + kw->offset));
}

static int kw_logic_schema(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct logic *l = compile_logic(c, n);

	if (!l)
		return compile_fail_memory(c);
	return compile_schema(c, v, (const struct node **)(void *)((char *)l + kw->offset));
}

/* Compiled though nothing may refer to them: what is not supported is refused, never skipped. */
static int kw_definitions(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	json_t *obj = (json_t *)(uintptr_t)v;   /* jansson iterates without const */
	const struct node *unused;
	int rc = 0;

	if (!json_is_object(v))
		return compile_fail(c, ERR_INVALID, "must be an object of schemas");
	for (void *it = json_object_iter(obj); it && !rc; it = json_object_iter_next(obj, it)) {
		size_t mark = compile_enter(c, json_object_iter_key(it));

		rc = compile_schema(c, json_object_iter_value(it), &unused);
		compile_leave(c, mark);
	}
	return rc;
}

/* --- the table of keywords */

#define ALL (D4 | D6 | D7 | D2019 | D2020)
#define FROM6 (ALL & ~D4)
#define FROM7 (FROM6 & ~D6)
#define UPTO7 (D4 | D6 | D7)
#define NEW (D2019 | D2020)

static int kw_note(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return 0;
}

static int kw_note_text(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return json_is_string(v) ? 0 : compile_fail(c, ERR_INVALID, "must be a string");
}

/* resource.c has followed $id, $anchor and their kin before. */
static int kw_noted(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return kw_note_text(c, n, kw, v);
}

static int kw_dialect(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct dialect d = c->in->dialect;
	size_t mark = c->pointer.len;
	int rc;

	if (c->options.lenient)
		return 0;
	compile_leave(c, mark - strlen("/$schema"));
	rc = dialect_choose(c, v, &d);
	str_puts(&c->pointer, rc ? "" : "/$schema");
	if (!rc && d.draft != c->in->dialect.draft)
		return compile_fail(c, ERR_INVALID, "a subschema cannot have a dialect of its own without an $id");
	return rc;
}

static int kw_ref(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return compile_ref(c, n, v);
}

static int kw_jump(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return compile_jump(c, n, kw->name, v);
}

static int kw_vocabulary(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return json_is_object(v) ? 0 : compile_fail(c, ERR_INVALID, "must be an object");
}

static int kw_flag(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return json_is_boolean(v) ? 0 : compile_fail(c, ERR_INVALID, "must be true or false");
}

#define AT(group, member) offsetof(struct group, member)

static const struct keyword keywords[] = {
	{ "$ref", ALL, VOC_CORE, SUB_NONE, kw_ref, 0 },
	{ "type", ALL, VOC_VALIDATION, SUB_NONE, kw_type, 0 },
	{ "properties", ALL, VOC_APPLICATOR, SUB_MAP, kw_properties, 0 },
	{ "required", ALL, VOC_VALIDATION, SUB_NONE, kw_required, 0 },
	{ "items", ALL, VOC_APPLICATOR, SUB_ITEMS, kw_items, 0 },
	{ "enum", ALL, VOC_VALIDATION, SUB_NONE, kw_enum, 0 },
	{ "const", FROM6, VOC_VALIDATION, SUB_NONE, kw_const, 0 },
	{ "pattern", ALL, VOC_VALIDATION, SUB_NONE, kw_pattern, 0 },
	{ "minLength", ALL, VOC_VALIDATION, SUB_NONE, kw_str_count, AT(str_rules, min) },
	{ "maxLength", ALL, VOC_VALIDATION, SUB_NONE, kw_str_count, AT(str_rules, max) },
	{ "minimum", ALL, VOC_VALIDATION, SUB_NONE, kw_bound, AT(num_rules, min) },
	{ "maximum", ALL, VOC_VALIDATION, SUB_NONE, kw_bound, AT(num_rules, max) },
	{ "exclusiveMinimum", FROM6, VOC_VALIDATION, SUB_NONE, kw_bound, AT(num_rules, above) },
	{ "exclusiveMaximum", FROM6, VOC_VALIDATION, SUB_NONE, kw_bound, AT(num_rules, below) },
	{ "exclusiveMinimum", D4, VOC_VALIDATION, SUB_NONE, kw_flag, 0 },
	{ "exclusiveMaximum", D4, VOC_VALIDATION, SUB_NONE, kw_flag, 0 },
	{ "multipleOf", ALL, VOC_VALIDATION, SUB_NONE, kw_multiple, 0 },
	{ "minItems", ALL, VOC_VALIDATION, SUB_NONE, kw_arr_count, AT(arr_rules, min) },
	{ "maxItems", ALL, VOC_VALIDATION, SUB_NONE, kw_arr_count, AT(arr_rules, max) },
	{ "uniqueItems", ALL, VOC_VALIDATION, SUB_NONE, kw_unique, 0 },
	{ "contains", FROM6, VOC_APPLICATOR, SUB_SCHEMA, kw_arr_schema, AT(arr_rules, contains) },
	{ "minContains", NEW, VOC_VALIDATION, SUB_NONE, kw_arr_count, AT(arr_rules, min_contains) },
	{ "maxContains", NEW, VOC_VALIDATION, SUB_NONE, kw_arr_count, AT(arr_rules, max_contains) },
	{ "prefixItems", D2020, VOC_APPLICATOR, SUB_LIST, kw_prefix, 0 },
	{ "additionalItems", UPTO7 | D2019, VOC_APPLICATOR, SUB_SCHEMA, kw_additional_items, 0 },
	{ "unevaluatedItems", NEW, VOC_UNEVALUATED, SUB_SCHEMA, kw_rest, AT(rest, items) },
	{ "minProperties", ALL, VOC_VALIDATION, SUB_NONE, kw_obj_count, AT(obj_rules, min) },
	{ "maxProperties", ALL, VOC_VALIDATION, SUB_NONE, kw_obj_count, AT(obj_rules, max) },
	{ "additionalProperties", ALL, VOC_APPLICATOR, SUB_SCHEMA, kw_obj_schema, AT(obj_rules, additional) },
	{ "propertyNames", FROM6, VOC_APPLICATOR, SUB_SCHEMA, kw_obj_schema, AT(obj_rules, names) },
	{ "patternProperties", ALL, VOC_APPLICATOR, SUB_MAP, kw_pattern_properties, 0 },
	{ "unevaluatedProperties", NEW, VOC_UNEVALUATED, SUB_SCHEMA, kw_rest, AT(rest, props) },
	{ "dependentRequired", NEW, VOC_VALIDATION, SUB_NONE, kw_dependents, 0 },
	{ "dependentSchemas", NEW, VOC_APPLICATOR, SUB_MAP, kw_dependents, 0 },
	{ "dependencies", UPTO7, VOC_APPLICATOR, SUB_MAP, kw_dependents, 0 },
	{ "allOf", ALL, VOC_APPLICATOR, SUB_LIST, kw_logic_list, AT(logic, all) },
	{ "anyOf", ALL, VOC_APPLICATOR, SUB_LIST, kw_logic_list, AT(logic, any) },
	{ "oneOf", ALL, VOC_APPLICATOR, SUB_LIST, kw_logic_list, AT(logic, one) },
	{ "not", ALL, VOC_APPLICATOR, SUB_SCHEMA, kw_logic_schema, AT(logic, not) },
	{ "if", FROM7, VOC_APPLICATOR, SUB_SCHEMA, kw_logic_schema, AT(logic, cond) },
	{ "then", FROM7, VOC_APPLICATOR, SUB_SCHEMA, kw_logic_schema, AT(logic, then) },
	{ "else", FROM7, VOC_APPLICATOR, SUB_SCHEMA, kw_logic_schema, AT(logic, other) },
	{ "$defs", ALL, VOC_CORE, SUB_MAP, kw_definitions, 0 },
	{ "definitions", ALL, VOC_CORE, SUB_MAP, kw_definitions, 0 },
	{ "$schema", ALL, VOC_CORE, SUB_NONE, kw_dialect, 0 },
	{ "$id", FROM6, VOC_CORE, SUB_NONE, kw_noted, 0 },
	{ "id", D4, VOC_CORE, SUB_NONE, kw_noted, 0 },
	{ "$anchor", NEW, VOC_CORE, SUB_NONE, kw_noted, 0 },
	{ "$dynamicAnchor", D2020, VOC_CORE, SUB_NONE, kw_noted, 0 },
	{ "$dynamicRef", D2020, VOC_CORE, SUB_NONE, kw_jump, 0 },
	{ "$recursiveAnchor", D2019, VOC_CORE, SUB_NONE, kw_flag, 0 },
	{ "$recursiveRef", D2019, VOC_CORE, SUB_NONE, kw_jump, 0 },
	{ "$vocabulary", NEW, VOC_CORE, SUB_NONE, kw_vocabulary, 0 },
	/* annotations, unless formats are asserted */
	{ "format", ALL, VOC_FORMAT, SUB_NONE, kw_format, 0 },
	{ "contentEncoding", FROM7, VOC_CONTENT, SUB_NONE, kw_content, 0 },
	{ "contentMediaType", FROM7, VOC_CONTENT, SUB_NONE, kw_content, 0 },
	/* annotations */
	{ "contentSchema", NEW, VOC_CONTENT, SUB_SCHEMA, kw_note, 0 },
	{ "$comment", ALL, VOC_CORE, SUB_NONE, kw_note_text, 0 },
	{ "title", ALL, VOC_META, SUB_NONE, kw_note_text, 0 },
	{ "description", ALL, VOC_META, SUB_NONE, kw_note_text, 0 },
	{ "default", ALL, VOC_META, SUB_NONE, kw_note, 0 },
	{ "examples", ALL, VOC_META, SUB_NONE, kw_note, 0 },
	{ "deprecated", ALL, VOC_META, SUB_NONE, kw_note, 0 },
	{ "readOnly", ALL, VOC_META, SUB_NONE, kw_note, 0 },
	{ "writeOnly", ALL, VOC_META, SUB_NONE, kw_note, 0 },
	/* annotations of editors and of OpenAPI that never decide about a value */
	{ "example", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "externalDocs", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "xml", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "markdownDescription", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "markdownEnumDescriptions", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "enumDescriptions", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "enumNames", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "defaultSnippets", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "deprecationMessage", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "errorMessage", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "propertyOrder", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "propertyOrdering", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "tsType", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
};

/* The row of a name in a dialect; *ret_other = a row of other dialects, when only those have the name. */
static const struct keyword *find_keyword(const struct dialect *d, const char *name, const struct keyword **ret_other)
{
	for (size_t i = 0; i < NELEMS(keywords); i++) {
		const struct keyword *kw = &keywords[i];

		if (kw->name[0] != name[0] || kw->name[1] != name[1] || strcmp(kw->name, name) != 0)
			continue;
		if (kw->dialects & d->draft)
			return kw;
		*ret_other = kw;
	}
	return NULL;
}

enum sub keyword_sub(const struct dialect *d, const char *name)
{
	const struct keyword *other = NULL, *kw = find_keyword(d, name, &other);

	if (!kw && other && strcmp(name, "dependencies") == 0)
		kw = other;             /* compile_keyword() may take it */
	return kw && (kw->vocabulary & d->vocabularies) ? kw->sub : SUB_NONE;
}

bool keyword_is_new(const struct dialect *d, const char *name)
{
	const struct dialect newest = dialect_default();
	const struct keyword *other = NULL, *kw = find_keyword(&newest, name, &other);

	return kw && !find_keyword(d, name, &other);
}

/* The drafts of a row in words: the newest that is older than the schema's, else the oldest. */
static const char *draft_words(const struct keyword *kw, unsigned draft)
{
	for (unsigned d = draft >> 1; d; d >>= 1)
		if (kw->dialects & d)
			return dialect_name(d);
	return dialect_name(kw->dialects & (0u - kw->dialects));
}

static int refuse_dialect(struct compiler *c, const struct keyword *kw)
{
	const char *to = "prefixItems and items";
	int rc = compile_fail(c, ERR_INVALID, "\"%s\" belongs to %s, this schema is %s", kw->name,
			      draft_words(kw, c->in->dialect.draft), dialect_name(c->in->dialect.draft));

	if (strcmp(kw->name, "dependencies") == 0)
		to = "dependentRequired or dependentSchemas";
	else if (strncmp(kw->name, "$recursive", 10) == 0)
		to = "$dynamicRef and $dynamicAnchor";
	else if (strcmp(kw->name, "id") == 0)
		to = "$id";
	if (c->in->dialect.draft == D2020)
		err_hint(c->err, "use %s", to);
	else
		err_hint(c->err, "leave $schema out to use 2020-12");
	return rc;
}

/* Refuse a member that no row knows, with the nearest name as a hint. */
static int refuse_unknown(struct compiler *c, const char *name)
{
	const char *known[NELEMS(keywords)], *near;
	int rc = compile_fail(c, ERR_INVALID, "not a keyword of JSON Schema");

	for (size_t i = 0; i < NELEMS(keywords); i++)
		known[i] = keywords[i].name;
	near = text_nearest(name, known, NELEMS(known));
	if (near)
		err_hint(c->err, "did you mean %s?", near);
	else if (strcmp(name, "nullable") == 0)
		err_hint(c->err, "add \"null\" to the list of types");
	else
		err_hint(c->err, "annotations of your own begin with \"x-\"");
	return rc;
}

int compile_keyword(struct compiler *c, struct node *n, const char *name, const json_t *v)
{
	const struct keyword *other = NULL, *kw = find_keyword(&c->in->dialect, name, &other);

	/* The newer dialects say that draft-07's keyword may go on to work. */
	if (!kw && other && c->options.lenient && strcmp(name, "dependencies") == 0)
		kw = other;
	if (kw)
		return kw->vocabulary & c->in->dialect.vocabularies ? kw->read(c, n, kw, v) : 0;
	if (c->options.lenient || strncmp(name, "x-", 2) == 0)
		return 0;
	return other ? refuse_dialect(c, other) : refuse_unknown(c, name);
}
