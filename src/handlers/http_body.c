/* Bodies that a definition writes as an object: compiled once, written as JSON or as a form.  What is inserted is
 * encoded for where it goes, so it stays a value (SEC S-708). */
#include "config.h"

#include "http_int.h"

#include <stdio.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

enum node_kind { NODE_FIXED, NODE_TEXT, NODE_VALUE, NODE_OBJECT, NODE_ARRAY };

struct http_node {
	enum node_kind kind;
	const char *name;               /* of a member; NULL in arrays and at the top */
	const char *fixed;              /* JSON text */
	const struct tpl *tpl;
	const char *pointer;            /* NODE_VALUE: the argument's */
	const struct http_node *first, *next;   /* children; the next of the same parent */
};

/* --- compile ------------------------------------------------------------------------------------- */

struct compiling { struct arena *mem; size_t nodes; struct err *err; };

static int compile_node(struct compiling *c, const json_t *v, const char *at, struct http_node *n);

static int too_many(const char *at, struct err *err)
{
	return err_set(err, ERR_LIMIT, at, "the body has more than %d values", HTTP_BODY_NODES_MAX);
}

/* Depth is bounded by the parser's. */
static int compile_children(struct compiling *c, const json_t *v, const char *at, struct http_node *parent)
{
	const struct http_node **link = &parent->first;
	struct str where = STR_INIT;
	void *it = json_object_iter((json_t *)(uintptr_t)v);    /* jansson's iterators take no const */
	char index[24];
	int rc = 0;

	for (size_t i = 0; rc == 0 && (json_is_object(v) ? it != NULL : i < json_array_size(v)); i++) {
		const char *name = json_is_object(v) ? json_object_iter_key(it) : NULL;
		const json_t *child = name ? json_object_iter_value(it) : json_array_get(v, i);
		struct http_node *n = arena_alloc(c->mem, sizeof(*n));

		if (!n || ++c->nodes > HTTP_BODY_NODES_MAX) {
			rc = n ? too_many(at, c->err) : backend_bind_full(at, c->err);
			break;
		}
		snprintf(index, sizeof(index), "%zu", i);
		str_reset(&where);
		str_puts(&where, at);
		jx_pointer_add(&where, name ? name : index);
		n->name = name ? arena_strdup(c->mem, name) : NULL;
		rc = compile_node(c, child, str_text(&where), n);
		*link = n;
		link = &n->next;
		if (name)
			it = json_object_iter_next((json_t *)(uintptr_t)v, it);
	}
	str_fini(&where);
	return rc;
}

static int compile_string(struct compiling *c, const json_t *v, const char *at, struct http_node *n)
{
	const char *text = json_string_value(v);

	if (memchr(text, '\0', json_string_length(v)))
		return err_set(c->err, ERR_INVALID, at, "must not contain U+0000");
	int rc = tpl_compile(text, at, TPL_ARGS | TPL_SECRETS, c->mem, &n->tpl, c->err);
	if (rc < 0)
		return rc;
	n->kind = NODE_TEXT;
	if (!tpl_is_one_argument(n->tpl))
		return 0;
	n->kind = NODE_VALUE;
	n->pointer = tpl_pointer(n->tpl);
	return 0;
}

static int compile_node(struct compiling *c, const json_t *v, const char *at, struct http_node *n)
{
	struct str text = STR_INIT;

	if (json_is_string(v))
		return compile_string(c, v, at, n);
	if (json_is_object(v) || json_is_array(v)) {
		n->kind = json_is_object(v) ? NODE_OBJECT : NODE_ARRAY;
		return compile_children(c, v, at, n);
	}
	n->kind = NODE_FIXED;
	jx_write(v, &text);
	n->fixed = arena_strdup(c->mem, str_text(&text));
	str_fini(&text);
	return n->fixed ? 0 : backend_bind_full(at, c->err);
}

int http_body_compile(const json_t *v, const char *at, struct arena *mem, const struct http_node **ret, struct err *err)
{
	struct compiling c = { .mem = mem, .err = err };
	struct http_node *n = arena_alloc(mem, sizeof(*n));

	if (!n)
		return backend_bind_full(at, err);
	int rc = compile_node(&c, v, at, n);
	if (rc == 0)
		*ret = n;
	return rc;
}

/* --- write --------------------------------------------------------------------------------------- */

bool http_has_value(const struct tpl *t, const struct backend_req *req)
{
	const json_t *v = tpl_is_one_argument(t) ? jx_at(req->args, tpl_pointer(t)) : NULL;

	return !tpl_is_one_argument(t) || (v && !json_is_null(v));
}

bool http_body_has_value(const struct http_node *n, const struct backend_req *req)
{
	return n->kind != NODE_VALUE || http_has_value(n->tpl, req);
}

static void wipe(struct str *s)
{
	if (s->p)
		secret_wipe(s->p, s->cap);
	str_fini(s);
}

static int put_json_text(const struct http_node *n, const struct backend_req *req, struct str *out, struct err *err)
{
	struct str text = STR_INIT;
	int rc = tpl_render(n->tpl, req, &text, err);

	if (rc == 0)
		jx_write_string(out, str_text(&text), text.len);
	wipe(&text);
	return rc;
}

static int put_json_value(const struct http_node *n, const struct backend_req *req, struct str *out, struct err *err)
{
	const json_t *v = jx_at(req->args, n->pointer);

	if (!v || json_is_null(v)) {
		str_puts(out, "null");  /* an element of an array */
		return 0;
	}
	if (json_is_string(v)) {
		jx_write_string(out, json_string_value(v), json_string_length(v));
		return 0;
	}
	return tpl_render(n->tpl, req, out, err);
}

int http_body_json(const struct http_node *n, const struct backend_req *req, struct str *out, struct err *err)
{
	unsigned count = 0;
	int rc = 0;

	switch (n->kind) {
	case NODE_FIXED:
		str_puts(out, n->fixed);
		return 0;
	case NODE_TEXT:
		return put_json_text(n, req, out, err);
	case NODE_VALUE:
		return put_json_value(n, req, out, err);
	case NODE_OBJECT:
	case NODE_ARRAY:
		break;
	}
	str_putc(out, n->kind == NODE_OBJECT ? '{' : '[');
	for (const struct http_node *c = n->first; c && rc == 0; c = c->next) {
		if (c->name && !http_body_has_value(c, req))
			continue;
		if (count++ > 0)
			str_putc(out, ',');
		if (c->name) {
			jx_write_stringz(out, c->name);
			str_putc(out, ':');
		}
		rc = http_body_json(c, req, out, err);
	}
	str_putc(out, n->kind == NODE_OBJECT ? '}' : ']');
	return rc;
}

static void put_pair(const char *name, const char *value, size_t len, struct str *out)
{
	if (out->len > 0)
		str_putc(out, '&');
	uri_encode(name, strlen(name), false, out);
	str_putc(out, '=');
	uri_encode(value, len, false, out);
}

/* A list goes as the same name again and again; what has no text goes as JSON. */
static int put_form_value(const struct http_node *n, const struct backend_req *req, struct str *out, struct err *err)
{
	const json_t *v = n->kind == NODE_VALUE ? jx_at(req->args, n->pointer) : NULL;
	struct str text = STR_INIT;
	const json_t *item;
	size_t i;
	int rc = 0;

	if (json_is_array(v)) {
		json_array_foreach(v, i, item) {
			str_reset(&text);
			if (json_is_string(item))
				str_put(&text, json_string_value(item), json_string_length(item));
			else
				jx_write(item, &text);
			put_pair(n->name, str_text(&text), text.len, out);
		}
	} else {
		rc = n->kind == NODE_FIXED ? 0 : tpl_render(n->tpl, req, &text, err);
		if (n->kind == NODE_FIXED)
			str_puts(&text, n->fixed);
		if (rc == 0)
			put_pair(n->name, str_text(&text), text.len, out);
	}
	wipe(&text);
	return rc;
}

int http_body_form(const struct http_node *n, const struct backend_req *req, struct str *out, struct err *err)
{
	int rc = 0;

	for (const struct http_node *c = n->first; c && rc == 0; c = c->next) {
		if (http_body_has_value(c, req))
			rc = put_form_value(c, req, out, err);
	}
	return rc;
}

bool http_body_is_flat(const struct http_node *n)
{
	for (const struct http_node *c = n->first; c; c = c->next) {
		if (c->kind == NODE_OBJECT || c->kind == NODE_ARRAY)
			return false;
	}
	return n->kind == NODE_OBJECT;
}
