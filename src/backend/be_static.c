/* static: a fixed result.  The smallest member: it proves the interface. */
#include "config.h"

#include "backend_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"
#include "ev/ev.h"
#include "json/json.h"

/* Text, not trees: a plan is arena memory and is dropped as a whole. */
struct static_plan {
	const char *text;               /* the text block, or NULL */
	const char *content;            /* JSON texts; NULL = absent */
	const char *structured, *meta;
	size_t text_len;
	bool is_error;
};

struct static_op {
	struct backend_op op;
	const struct static_plan *plan;
};

/* The JSON text of a member in arena memory; NULL when it is absent. */
static int keep_json(const json_t *v, struct arena *mem, const char **ret, struct err *err)
{
	struct str s = STR_INIT;

	if (!v)
		return 0;
	jx_write(v, &s);
	*ret = arena_strndup(mem, str_text(&s), s.len);
	str_fini(&s);
	return *ret ? 0 : be_bind_full("/result", err);
}

static int bind_result(const json_t *result, struct arena *mem, struct static_plan *plan, struct err *err)
{
	static const char *const known[] = { "content", "structuredContent", "isError", "_meta" };
	json_t *content = NULL, *meta = NULL;

	int rc = jx_only(result, "/result", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_array(result, "/result", "content", JX_REQUIRED, &content, err);
	if (rc == 0)
		rc = content_check_all(content, "/result/content", err);
	if (rc == 0)
		rc = jx_get_bool(result, "/result", "isError", JX_OPTIONAL, &plan->is_error, err);
	if (rc == 0)
		rc = jx_get_object(result, "/result", "_meta", JX_OPTIONAL, &meta, err);
	if (rc == 0)
		rc = keep_json(content, mem, &plan->content, err);
	if (rc == 0)
		rc = keep_json(meta, mem, &plan->meta, err);
	if (rc == 0)
		rc = keep_json(json_object_get(result, "structuredContent"), mem, &plan->structured, err);
	return rc;
}

static int static_bind(const json_t *handler, struct arena *mem, const void **ret_plan, struct err *err)
{
	static const char *const known[] = { "type", "result", "text" };
	struct static_plan *plan = arena_alloc(mem, sizeof(*plan));
	const char *text = NULL;
	json_t *result = NULL;

	if (!plan)
		return be_bind_full("", err);
	int rc = jx_only(handler, "", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_string(handler, "", "text", JX_OPTIONAL, &text, err);
	if (rc == 0)
		rc = jx_get_object(handler, "", "result", JX_OPTIONAL, &result, err);
	if (rc < 0)
		return rc;
	if (!text == !result)
		return err_set(err, ERR_INVALID, "", "a static handler has either result or text");
	if (result) {
		rc = bind_result(result, mem, plan, err);
	} else {
		plan->text_len = strlen(text);
		plan->text = arena_strndup(mem, text, plan->text_len);
		rc = plan->text ? 0 : be_bind_full("/text", err);
	}
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
	const struct static_plan *plan = s->plan;

	if (plan->text) {
		be_op_text(&s->op, plan->text, plan->text_len);
	} else {
		struct backend_result res = {
			.content = tree_of(plan->content), .structured = tree_of(plan->structured),
			.meta = tree_of(plan->meta), .is_error = plan->is_error,
		};
		s->op.sink.result(s->op.arg, &res);
	}
	free(s);
}

static void static_start(const struct backend_env *env, const struct backend_req *req,
			 const struct backend_sink *sink, void *arg, struct backend_op **ret)
{
	struct static_op *s = mem_zalloc(sizeof(*s));

	be_op_init(&s->op, env, sink, arg);
	s->plan = req->plan;
	*ret = &s->op;
	ev_defer(env->loop, static_end, s);
}

/* The end is on its way already. */
static void static_cancel(struct backend_op *op, enum cancel_why why)
{
}

const struct backend_ops be_static = {
	.name = "static", .bind = static_bind, .start = static_start, .cancel = static_cancel,
};
