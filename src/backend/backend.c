/* Parts that every handler uses: the choice of the handler for a block, the head of a run, the sentence for a cancelled
 * one, the arguments on one line, levels of confinement as texts.  Handlers, calls and commands call them; all but the
 * head of a run, which belongs to the loop thread, are pure and may run on any thread. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "backend/handler.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "sandbox/level.h"

static int unknown_type(const char *type, const char *const *names, size_t n, struct err *err)
{
	const char *near = text_nearest(type, names, n);
	struct str known = STR_INIT;

	(void)err_set(err, ERR_INVALID, "/type", "unknown handler type %.40s", type);
	for (size_t i = 0; i < n; i++)
		str_printf(&known, "%s%s", i == 0 ? "" : i + 1 == n ? " and " : ", ", names[i]);
	if (near)
		err_hint(err, "did you mean %s?", near);
	else
		err_hint(err, "%s are known", str_text(&known));
	str_fini(&known);
	return ERR_INVALID;
}

int backend_bind(const struct backend_ops *const *table, const json_t *handler, struct arena *mem,
		 const struct backend_ops **ret_ops, const void **ret_plan, struct err *err)
{
	const char *names[BACKEND_TABLE_MAX];
	const char *type = NULL;
	size_t n = 0;

	if (!json_is_object(handler))
		return err_set(err, ERR_INVALID, "", "must be an object, is %s", jx_type_name(handler));
	int rc = jx_get_string(handler, "", "type", JX_REQUIRED, &type, err);
	if (rc < 0)
		return rc;
	for (const struct backend_ops *const *ops = table; *ops && n < NELEMS(names); ops++) {
		names[n++] = (*ops)->name;
		if (!text_eq(type, strlen(type), (*ops)->name))
			continue;
		rc = (*ops)->bind(handler, mem, ret_plan, err);
		if (rc == 0)
			*ret_ops = *ops;
		return rc;
	}
	return unknown_type(type, names, n, err);
}

void backend_op_init(struct backend_op *op, const struct backend_env *env, const struct backend_sink *sink,
		void *arg)
{
	op->loop = env->loop;
	op->sink = *sink;
	op->arg = arg;
}

void backend_op_text(struct backend_op *op, const char *p, size_t len)
{
	struct backend_result res = { .content = json_array() };

	json_array_append_new(res.content, content_text(p, len));
	op->sink.result(op->arg, &res);
}

int backend_cancel_err(enum cancel_why why, struct err *err)
{
	switch (why) {
	case CANCEL_BY_CLIENT:
		return err_set(err, ERR_CANCELLED, "", "cancelled by the client");
	case CANCEL_DEADLINE:
		return err_set(err, ERR_TIMEOUT, "", "the tool did not finish in time");
	case CANCEL_REVOKED:
		return err_set(err, ERR_CANCELLED, "", "cancelled: the credential is no longer valid");
	case CANCEL_STOPPED:
		return err_set(err, ERR_CANCELLED, "", "cancelled by an administrator");
	case CANCEL_SHUTDOWN:
		return err_set(err, ERR_CANCELLED, "", "cancelled: the server is shutting down");
	}
	return err_set(err, ERR_INTERNAL, "", "unknown reason to cancel: %d", (int)why);
}

void backend_unwatch(struct backend_watch **wp, bool recorded)
{
	struct backend_watch *w = *wp;

	*wp = NULL;
	if (w)
		w->end(w, recorded);
}

void backend_put_args(const struct backend_req *req, struct str *out)
{
	size_t from = out->len;

	if (req->args_len == 0) {
		str_puts(out, "{}");
		return;
	}
	str_put(out, req->args_text, req->args_len);
	/* A string holds no raw control byte, so these are white space between tokens. */
	for (size_t i = from; i < out->len; i++) {
		if (out->p[i] == '\n' || out->p[i] == '\r')
			out->p[i] = ' ';
	}
}

/* --- levels of confinement, as texts */

int backend_level_check(const char *level, struct err *err)
{
	struct sandbox_level ignored;

	return sandbox_level_parse(level, &ignored, err);
}

void backend_sandbox_require(struct backend_sandbox *sandbox, const char *level)
{
	struct sandbox_level reached = { 0 }, wanted = { 0 }, more = { 0 };

	/* A text that is none was refused when it was set: if it stands here all the same, nothing is enough. */
	bool known = sandbox_level_parse(sandbox->level, &reached, NULL) == 0 &&
		     sandbox_level_parse(sandbox->wanted, &wanted, NULL) == 0 &&
		     sandbox_level_parse(level, &more, NULL) == 0;
	wanted = sandbox_level_both(&wanted, &more);
	sandbox_level_format(&wanted, sandbox->wanted);
	sandbox->enough = known && sandbox_level_meets(&reached, &wanted);
}

/* What closes what the default asks for, and what would do with less. */
static const char *ways_out(const struct backend_sandbox *sandbox)
{
	if (!sandbox->by_default)
		return "";
	if (!strstr(sandbox->level, "+landlock"))
		return ": give tools users of their own (sandbox.uids, newuidmap), or take a kernel with Landlock";
	return ": give tools users of their own (sandbox.uids, newuidmap), or set sandbox.require: base+landlock:1";
}

int backend_sandbox_check(const struct backend_sandbox *sandbox, struct err *err)
{
	if (sandbox->enough)
		return 0;
	(void)err_set(err, ERR_DENIED, "", "this tool must run in a sandbox of level %s, and would reach %s here%s",
		      sandbox->wanted, sandbox->level, ways_out(sandbox));
	err_hint(err, "sandbox.require in toolcribd.yaml, in the definition and of the tenant say what is needed; see "
		 "toolcrib-run(8)");
	return ERR_DENIED;
}
