/* static: a fixed result, with arguments inserted where it says so.  bind() on any thread, runs on the loop.  The
 * smallest handler: read it first to see what backend/backend.h asks of one. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "backend/handler.h"
#include "base/mem.h"
#include "base/text.h"
#include "ev/ev.h"
#include "handlers/handlers.h"
#include "json/json.h"

/* Text, not trees: a plan is arena memory and is dropped as a whole. */
struct static_plan {
	const char *text;               /* the text block, or NULL */
	const char *content;            /* JSON texts; NULL = absent */
	const char *structured, *meta;
	size_t text_len;
	size_t inserts;                 /* braces of all texts; 0: nothing is inserted */
	bool is_error;
};

struct static_op {
	struct backend_op op;
	struct backend_result result;   /* what is still to be handed over */
	struct err err;                 /* code 0: it is a result */
};

/* Room for what rendering templates of one result takes at once: freed with the walk. */
#define TEMPLATE_MEMORY_MAX (4u << 20)

/* The JSON text of a member in arena memory; NULL when it is absent. */
static int keep_json(const json_t *v, struct arena *mem, const char **ret, struct err *err)
{
	struct str s = STR_INIT;

	if (!v)
		return 0;
	jx_write(v, &s);
	*ret = arena_strndup(mem, str_text(&s), s.len);
	str_fini(&s);
	return *ret ? 0 : backend_bind_full("/result", err);
}

/* --- templates: the texts below a value, checked when it is stored, filled in for each run */

static int check_text(const char *text, const char *at, struct static_plan *plan, struct err *err)
{
	struct arena *mem = arena_new(TEMPLATE_MEMORY_MAX);
	const struct tpl *t;
	int rc = tpl_compile(text, at, TPL_ARGS_MAYBE, mem, &t, err);

	for (const char *p = text; *p; p++)
		plan->inserts += *p == '{' || *p == '}';
	arena_free(&mem);
	return rc;
}

static int check_texts(const json_t *v, const char *at, struct static_plan *plan, struct err *err)
{
	const char *name;
	json_t *child;
	size_t i;
	int rc = 0;

	if (json_is_string(v))
		return check_text(json_string_value(v), at, plan, err);
	json_object_foreach((json_t *)(uintptr_t)v, name, child) {
		rc = check_texts(child, at, plan, err);
		if (rc < 0)
			return rc;
	}
	json_array_foreach(v, i, child) {
		rc = check_texts(child, at, plan, err);
		if (rc < 0)
			return rc;
	}
	return rc;
}

/* A new reference in *ret; NULL when the text stays as it is. */
static int fill_text(const char *text, const struct backend_req *req, json_t **ret, struct err *err)
{
	struct str out = STR_INIT;
	const struct tpl *t = NULL;
	struct arena *mem;
	int rc;

	*ret = NULL;
	if (!strpbrk(text, "{}"))
		return 0;
	mem = arena_new(TEMPLATE_MEMORY_MAX);
	rc = tpl_compile(text, "", TPL_ARGS_MAYBE, mem, &t, err);
	if (rc == 0)
		rc = tpl_render(t, req, &out, err);
	if (rc == 0)
		*ret = json_stringn(str_text(&out), out.len);
	arena_free(&mem);
	str_fini(&out);
	return rc;
}

/* All texts below v, in place.  The depth is the parser's. */
static int fill_texts(json_t *v, const struct backend_req *req, struct err *err)
{
	const char *name;
	json_t *child, *filled;
	size_t i;
	int rc;

	json_object_foreach(v, name, child) {
		rc = json_is_string(child) ? fill_text(json_string_value(child), req, &filled, err) :
			fill_texts(child, req, err);
		if (rc < 0)
			return rc;
		if (json_is_string(child) && filled)
			json_object_set_new(v, name, filled);
	}
	json_array_foreach(v, i, child) {
		rc = json_is_string(child) ? fill_text(json_string_value(child), req, &filled, err) :
			fill_texts(child, req, err);
		if (rc < 0)
			return rc;
		if (json_is_string(child) && filled)
			json_array_set_new(v, i, filled);
	}
	return 0;
}

/* --- binding */

static int check_shapes(const json_t *result, struct err *err)
{
	static const struct {
		const char *name, *at;
		int (*check)(const json_t *array, const char *at, struct err *err);
	} shapes[] = {
		{ "content", "/result/content", content_check_all },
		{ "messages", "/result/messages", content_check_messages },
		{ "contents", "/result/contents", content_check_contents },
	};
	unsigned found = 0;

	for (size_t i = 0; i < NELEMS(shapes); i++) {
		json_t *array = NULL;
		int rc = jx_get_array(result, "/result", shapes[i].name, JX_OPTIONAL, &array, err);

		if (rc == 0 && array)
			rc = shapes[i].check(array, shapes[i].at, err);
		if (rc < 0)
			return rc;
		found += array != NULL;
	}
	if (found == 1)
		return 0;
	return err_set(err, ERR_INVALID, found ? "/result" : "/result/content",
		       found ? "has more than one of content, messages and contents" : "is missing");
}

/* What prompts and resources give is the structured part of a result (call/shape.c). */
static json_t *structured_of(const json_t *result)
{
	const char *const names[] = { "messages", "contents" };
	const json_t *description = json_object_get(result, "description");
	json_t *shaped;

	for (size_t i = 0; i < NELEMS(names); i++) {
		json_t *array = json_object_get(result, names[i]);

		if (!array)
			continue;
		shaped = json_object();
		json_object_set_new(shaped, names[i], json_incref(array));
		if (description)
			json_object_set_new(shaped, "description", json_incref((json_t *)(uintptr_t)description));
		return shaped;
	}
	return json_incref(json_object_get(result, "structuredContent"));
}

static int bind_result(const json_t *result, struct arena *mem, struct static_plan *plan, struct err *err)
{
	static const char *const known[] = { "content", "structuredContent", "messages", "description", "contents",
		"isError", "_meta" };
	json_t *meta = NULL, *structured = structured_of(result);
	const char *description = NULL;

	int rc = jx_only(result, "/result", known, NELEMS(known), err);
	if (rc == 0)
		rc = check_shapes(result, err);
	if (rc == 0)
		rc = jx_get_string(result, "/result", "description", JX_OPTIONAL, &description, err);
	if (rc == 0 && description && !json_object_get(result, "messages"))
		rc = err_set(err, ERR_INVALID, "/result/description", "belongs to messages");
	if (rc == 0)
		rc = jx_get_bool(result, "/result", "isError", JX_OPTIONAL, &plan->is_error, err);
	if (rc == 0)
		rc = jx_get_object(result, "/result", "_meta", JX_OPTIONAL, &meta, err);
	if (rc == 0)
		rc = keep_json(json_object_get(result, "content"), mem, &plan->content, err);
	if (rc == 0)
		rc = keep_json(meta, mem, &plan->meta, err);
	if (rc == 0)
		rc = keep_json(structured, mem, &plan->structured, err);
	json_decref(structured);
	return rc;
}

static int bind_text(const char *text, struct arena *mem, struct static_plan *plan, struct err *err)
{
	plan->text_len = strlen(text);
	plan->text = arena_strndup(mem, text, plan->text_len);
	return plan->text ? 0 : backend_bind_full("/text", err);
}

static int static_bind(const json_t *handler, struct arena *mem, const void **ret_plan, struct err *err)
{
	static const char *const known[] = { "type", "result", "text", "template" };
	struct static_plan *plan = arena_alloc(mem, sizeof(*plan));
	const char *text = NULL;
	json_t *result = NULL;
	bool template = false;

	if (!plan)
		return backend_bind_full("", err);
	int rc = jx_only(handler, "", known, NELEMS(known), err);
	if (rc < 0 && json_object_get(handler, "file"))
		err_hint(err, "toolcrib reads such a file when it reads the document from one");
	if (rc == 0)
		rc = jx_get_bool(handler, "", "template", JX_OPTIONAL, &template, err);
	if (rc == 0)
		rc = jx_get_string(handler, "", "text", JX_OPTIONAL, &text, err);
	if (rc == 0)
		rc = jx_get_object(handler, "", "result", JX_OPTIONAL, &result, err);
	if (rc < 0)
		return rc;
	if (!text == !result)
		return err_set(err, ERR_INVALID, "", "a static handler has either result or text");
	rc = result ? bind_result(result, mem, plan, err) : bind_text(text, mem, plan, err);
	if (rc == 0 && template)
		rc = text ? check_text(text, "/text", plan, err) : check_texts(result, "/result", plan, err);
	if (rc == 0)
		*ret_plan = plan;
	return rc;
}

/* The text was written from a tree by bind, so it parses. */
static json_t *tree_of(const char *text)
{
	json_t *v = NULL;

	if (text && jx_parse_scanned(text, strlen(text), &v, NULL) < 0)
		return NULL;
	return v;
}

static void static_end(void *arg)
{
	struct static_op *s = arg;

	if (s->err.code)
		s->op.sink.error(s->op.arg, &s->err, 0, NULL);
	else
		s->op.sink.result(s->op.arg, &s->result);
	free(s);
}

static json_t *content_of(const struct static_plan *plan)
{
	json_t *content;

	if (!plan->text)
		return plan->content ? tree_of(plan->content) : json_array();
	content = json_array();
	json_array_append_new(content, content_text(plan->text, plan->text_len));
	return content;
}

/* What a caller sends stands at most once for each brace. */
static int fill(struct backend_result *res, const struct static_plan *plan, const struct backend_req *req,
		struct err *err)
{
	int rc;

	if (plan->inserts / 2 * req->args_len > req->result_max)
		return err_set(err, ERR_LIMIT, "", "the arguments are too long");
	rc = fill_texts(res->content, req, err);
	return rc < 0 ? rc : fill_texts(res->structured, req, err);
}

static void static_start(const struct backend_env *env, const struct backend_req *req,
			 const struct backend_sink *sink, void *arg, struct backend_op **ret)
{
	struct static_op *s = mem_zalloc(sizeof(*s));
	const struct static_plan *plan = req->plan;

	backend_op_init(&s->op, env, sink, arg);
	s->result = (struct backend_result){ .content = content_of(plan), .structured = tree_of(plan->structured),
		.meta = tree_of(plan->meta), .is_error = plan->is_error };
	if (plan->inserts && fill(&s->result, plan, req, &s->err) < 0) {
		json_decref(s->result.content);
		json_decref(s->result.structured);
		json_decref(s->result.meta);
	}
	*ret = &s->op;
	ev_defer(env->loop, static_end, s);
}

/* The end is on its way already. */
static void static_cancel(struct backend_op *op, enum cancel_why why)
{
}

const struct backend_ops handler_static = {
	.name = "static", .bind = static_bind, .start = static_start, .cancel = static_cancel,
};
