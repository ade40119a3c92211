/* What is done around every run, whichever the handler: it gets its secrets, and what it says passes through here
 * before anybody else sees it. */
#include "config.h"

#include "backend/handler.h"

#include <stdlib.h>
#include <string.h>

#include "backend/secrets.h"
#include "base/mem.h"
#include "base/text.h"
#include "sanitize_int.h"

struct backend_run {
	struct backend_op op;           /* its sink is the caller's */
	const struct backend_ops *ops;
	struct backend_op *inner;
	struct open_secrets *secrets;
};

static void run_free(struct backend_run *r)
{
	open_secrets_free(&r->secrets);
	free(r);
}

/* A short text for people: blanked, then cut. */
static const char *short_text(const struct backend_run *r, const char *z, struct str *ret)
{
	struct str blanked = STR_INIT;

	if (!z)
		return NULL;
	mask_text(r->secrets, z, strlen(z), &blanked);
	sanitize_put_note(str_text(&blanked), blanked.len, ret);
	str_fini(&blanked);
	return str_text(ret);
}

static void on_progress(void *arg, double done, double total, const char *note)
{
	struct backend_run *r = arg;
	struct str text = STR_INIT;

	r->op.sink.progress(r->op.arg, done, total, short_text(r, note, &text));
	str_fini(&text);
}

static void on_log(void *arg, int level, const char *logger, json_t *data)
{
	struct backend_run *r = arg;
	struct str text = STR_INIT;

	r->op.sink.log(r->op.arg, level, short_text(r, logger, &text), mask_json(r->secrets, data));
	str_fini(&text);
}

static void end_error(struct backend_run *r, struct err *err, int rpc_code, json_t *data)
{
	mask_err(r->secrets, err);
	sanitize_err(err);
	r->op.sink.error(r->op.arg, err, rpc_code, mask_json(r->secrets, data));
	run_free(r);
}

static void on_result(void *arg, struct backend_result *res)
{
	struct backend_run *r = arg;
	struct backend_result out = *res;
	struct err err;

	out.content = mask_json(r->secrets, out.content);
	out.structured = mask_json(r->secrets, out.structured);
	out.meta = mask_json(r->secrets, out.meta);
	if (sanitize_result(&out, &err) < 0) {
		json_decref(out.content);
		json_decref(out.structured);
		json_decref(out.meta);
		end_error(r, &err, 0, NULL);
		return;
	}
	r->op.sink.result(r->op.arg, &out);
	run_free(r);
}

/* A state goes to the client and comes back: blanking would break it, so it must hold no secret. */
static bool state_is_clean(const struct backend_run *r, const struct backend_ask *ask)
{
	struct str text = STR_INIT;

	if (ask->state_len == 0 || !open_secrets_any(r->secrets))
		return true;
	mask_text(r->secrets, ask->state, ask->state_len, &text);
	bool clean = text.len == ask->state_len && memcmp(text.p, ask->state, text.len) == 0;
	str_fini(&text);
	return clean;
}

static void on_ask(void *arg, struct backend_ask *ask)
{
	struct backend_run *r = arg;
	struct backend_ask out = *ask;
	struct err err;

	if (!state_is_clean(r, ask)) {
		json_decref(out.requests);
		(void)err_set(&err, ERR_TOOL, "", "the tool put a secret into its state, which goes to the client");
		end_error(r, &err, 0, NULL);
		return;
	}
	out.requests = mask_json(r->secrets, out.requests);
	r->op.sink.ask(r->op.arg, &out);
	run_free(r);
}

static void on_error(void *arg, const struct err *err, int rpc_code, json_t *data)
{
	struct err out = *err;

	end_error(arg, &out, rpc_code, data);
}

static void on_used(void *arg, uint64_t cpu_us, uint64_t rss_kib)
{
	struct backend_run *r = arg;

	r->op.sink.used(r->op.arg, cpu_us, rss_kib);
}

void backend_start(const struct backend_ops *ops, const struct backend_env *env, const struct backend_req *req,
		   const struct backend_sink *sink, void *arg, struct backend_op **ret)
{
	static const struct backend_sink around = { on_progress, on_log, on_result, on_ask, on_error, on_used };
	struct backend_run *r = mem_zalloc(sizeof(*r));
	struct backend_req inner = *req;

	backend_op_init(&r->op, env, sink, arg);
	r->ops = ops;
	inner.secrets = r->secrets = open_secrets_new(env->secrets);
	*ret = &r->op;
	ops->start(env, &inner, &around, r, &r->inner);
}

void backend_cancel(struct backend_op *op, enum cancel_why why)
{
	struct backend_run *r = CONTAINER_OF(op, struct backend_run, op);

	r->ops->cancel(r->inner, why);
}
