/* A schema to a program: the walk over subschemas, what nodes share, the limits. */
#include "config.h"

#include "compile_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"

#define DIALECT_2020 "https://json-schema.org/draft/2020-12/schema"
#define DIALECT_7 "http://json-schema.org/draft-07/schema"

/* PLACES AND MEMORY */

int compile_fail(struct compiler *c, enum err_code code, const char *fmt, ...)
{
	char text[sizeof c->err->msg];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return err_set(c->err, code, str_text(&c->pointer), "%s", text);
}

int compile_fail_memory(struct compiler *c)
{
	return compile_fail(c, ERR_LIMIT, "the compiled schema is larger than %u MiB", SCHEMA_MEMORY_MAX >> 20);
}

void *compile_take(struct compiler *c, size_t n)
{
	return arena_alloc(c->mem, n);
}

size_t compile_enter(struct compiler *c, const char *name)
{
	size_t mark = c->pointer.len;

	jx_pointer_add(&c->pointer, name);
	return mark;
}

size_t compile_enter_index(struct compiler *c, size_t i)
{
	size_t mark = c->pointer.len;

	str_printf(&c->pointer, "/%zu", i);
	return mark;
}

void compile_leave(struct compiler *c, size_t mark)
{
	c->pointer.len = mark;
	c->pointer.p[mark] = '\0';
}

/* NODES */

/* Schemas that only name types are many and alike: one node for each set of types. */
static int node_of_types(struct compiler *c, unsigned types, const struct node **ret)
{
	struct node *n = c->by_type[types];

	if (!n) {
		n = compile_take(c, sizeof *n);
		if (!n)
			return compile_fail_memory(c);
		n->types = (uint8_t)types;
		n->never = types == 0;
		n->plain = true;
		c->by_type[types] = n;
	}
	*ret = n;
	return 0;
}

static bool is_plain(const struct node *n)
{
	return !n->constants[0] && !n->constants[1] && !n->num && !n->str && !n->arr && !n->obj && !n->logic;
}

static int keep_node(struct compiler *c, const struct node *built, const json_t *doc, const struct node **ret)
{
	struct node *n;

	if (is_plain(built) && !c->ref_target)
		return node_of_types(c, built->types, ret);
	n = arena_dup(c->mem, built, sizeof *built);
	if (!n)
		return compile_fail_memory(c);
	(void)map_set_u64(c->seen, (uintptr_t)doc, n);
	*ret = n;
	return c->ref_target ? compile_add_ref(c, n) : 0;
}

static int read_members(struct compiler *c, const json_t *doc, struct node *n)
{
	json_t *obj = (json_t *)(uintptr_t)doc; /* jansson iterates without const */
	const json_t *ref = json_object_get(doc, "$ref");
	int rc = 0;

	/* Draft-07: what stands beside a $ref does not count. */
	if (c->draft7 && ref) {
		size_t mark = compile_enter(c, "$ref");

		rc = compile_ref(c, ref);
		compile_leave(c, mark);
		return rc;
	}
	for (void *it = json_object_iter(obj); it && !rc; it = json_object_iter_next(obj, it)) {
		const char *name = json_object_iter_key(it);
		size_t mark = compile_enter(c, name);

		c->object = doc;
		rc = compile_keyword(c, n, name, json_object_iter_value(it));
		compile_leave(c, mark);
	}
	return rc;
}

static int compile_object(struct compiler *c, const json_t *doc, const struct node **ret)
{
	const struct node *known = map_get_u64(c->seen, (uintptr_t)doc);
	const json_t *outer_ref = c->ref_target;
	struct node n = { .types = TYPE_ANY };
	int rc;

	if (known) {
		*ret = known;
		return 0;
	}
	if (++c->nnodes > SCHEMA_NODES_MAX)
		return compile_fail(c, ERR_LIMIT, "more than %d subschemas", SCHEMA_NODES_MAX);
	if (c->depth == SCHEMA_DEPTH_MAX)
		return compile_fail(c, ERR_LIMIT, "subschemas are nested deeper than %d levels", SCHEMA_DEPTH_MAX);
	c->depth++;
	c->ref_target = NULL;
	rc = read_members(c, doc, &n);
	if (!rc)
		rc = keep_node(c, &n, doc, ret);
	c->ref_target = outer_ref;
	c->depth--;
	return rc;
}

int compile_schema(struct compiler *c, const json_t *doc, const struct node **ret)
{
	if (json_is_boolean(doc))
		return node_of_types(c, json_is_true(doc) ? TYPE_ANY : 0, ret);
	if (!json_is_object(doc))
		return compile_fail(c, ERR_INVALID, "a schema must be an object, true or false");
	return compile_object(c, doc, ret);
}

int compile_list(struct compiler *c, const json_t *doc, struct node_list *ret)
{
	size_t n = json_array_size(doc);
	int rc = 0;

	if (!json_is_array(doc) || n == 0)
		return compile_fail(c, ERR_INVALID, "must be an array with at least one schema");
	ret->nodes = compile_take(c, n * sizeof *ret->nodes);
	if (!ret->nodes)
		return compile_fail_memory(c);
	for (ret->n = 0; ret->n < n && !rc; ret->n++) {
		size_t mark = compile_enter_index(c, ret->n);

		rc = compile_schema(c, json_array_get(doc, ret->n), &ret->nodes[ret->n]);
		compile_leave(c, mark);
	}
	return rc;
}

/* THE WHOLE */

static bool is_dialect(const char *uri, const char *dialect)
{
	size_t n = strlen(dialect);

	return strncmp(uri, dialect, n) == 0 && (uri[n] == '\0' || strcmp(uri + n, "#") == 0);
}

static int choose_dialect(struct compiler *c)
{
	const json_t *v = json_object_get(c->doc, "$schema");
	size_t mark;
	int rc = 0;

	if (!v)
		return 0;               /* 2020-12 (MCP Q-02) */
	mark = compile_enter(c, "$schema");
	c->draft7 = json_is_string(v) && is_dialect(json_string_value(v), DIALECT_7);
	if (!json_is_string(v)) {
		rc = compile_fail(c, ERR_INVALID, "must be a string");
	} else if (!c->draft7 && !is_dialect(json_string_value(v), DIALECT_2020)) {
		rc = compile_fail(c, ERR_INVALID, "the dialect \"%.120s\" is not supported", json_string_value(v));
		err_hint(c->err, "leave $schema out for 2020-12, or name " DIALECT_7 "#");
	}
	compile_leave(c, mark);
	return rc;
}

static int check_size(struct compiler *c)
{
	struct str text;
	bool over;

	str_init(&text, SCHEMA_TEXT_MAX);
	jx_write(c->doc, &text);
	over = text.failed;
	str_fini(&text);
	return over ? compile_fail(c, ERR_LIMIT, "the schema is longer than %u KiB", SCHEMA_TEXT_MAX >> 10) : 0;
}

static int compile_all(struct compiler *c)
{
	int rc = check_size(c);

	if (!rc)
		rc = choose_dialect(c);
	c->id = json_string_value(json_object_get(c->doc, "$id"));
	if (!rc)
		rc = compile_schema(c, c->doc, &c->s->root);
	if (!rc)
		rc = compile_pending_refs(c);
	if (!rc)
		rc = compile_check_circles(c);
	return rc;
}

int schema_compile(const json_t *doc, struct schema **ret, struct err *err)
{
	struct compiler c = { .doc = doc, .err = err, .pointer = STR_INIT };
	int rc;

	c.s = mem_zalloc(sizeof *c.s);
	c.mem = c.s->mem = arena_new(SCHEMA_MEMORY_MAX);
	c.seen = map_new();
	str_puts(&c.pointer, "");
	rc = compile_all(&c);
	c.s->draft7 = c.draft7;
	for (size_t i = 0; i < c.nrefs; i++)
		free(c.refs[i].pointer);
	free(c.refs);
	map_free(&c.seen);
	str_fini(&c.pointer);
	if (rc)
		schema_free(&c.s);
	else
		*ret = c.s;
	return rc;
}

void schema_free(struct schema **s)
{
	if (!*s)
		return;
	arena_free(&(*s)->mem);
	free(*s);
	*s = NULL;
}

size_t schema_memory(const struct schema *s)
{
	return sizeof *s + arena_used(s->mem);
}
