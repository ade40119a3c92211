/* A run of a handler, from outside: secrets are given to it, and what it says is masked and sanitized on its way to the
 * caller's sink.  The call engine and `tool test` start runs here; loop thread.  Nothing of a handler reaches anybody
 * by another way: whoever adds a way back adds it here. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "backend/handler.h"
#include "backend/secrets.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "json/json.h"

#define SANITIZE_META_MAX (64u << 10)       /* bytes of its _meta as JSON */
#define SANITIZE_NOTE_MAX 1024              /* bytes of a progress message or a logger's name; the rest is cut */

/* --- sanitizing */

/* What every result passes before anybody sees it, whichever the handler: the shapes of its blocks, their base64, their
 * number, and characters that would act on a terminal or end a text early.  Sizes of payloads are the engine's matter.
 */

#define FFFD "\xef\xbf\xbd"

/* C0 but tab, line feed and carriage return; DEL; C1 (two bytes in UTF-8).  0 = none at p, else its length. */
static size_t control_at(const char *p, size_t len)
{
	unsigned char c = (unsigned char)*p;

	if (c < 0x20 || c == 0x7f)
		return c != '\t' && c != '\n' && c != '\r';
	return c == 0xc2 && len > 1 && (unsigned char)p[1] < 0xa0 ? 2 : 0;
}

static size_t first_control(const char *p, size_t len)
{
	size_t i = 0;

	while (i < len) {
		size_t run = text_plain_run(p + i, len - i);
		const char *del = memchr(p + i, 0x7f, run);

		if (del)
			return (size_t)(del - p);
		for (i += run; i < len; i++) {
			if (control_at(p + i, len - i) > 0)
				return i;
			if ((unsigned char)p[i] < 0x80) {
				i++;
				break;
			}
		}
	}
	return len;
}

static bool sanitize_is_clean(const char *p, size_t len)
{
	return first_control(p, len) == len;
}

/* appends */
static void sanitize_put_clean(const char *p, size_t len, struct str *out)
{
	while (len > 0) {
		size_t n = first_control(p, len);
		str_put(out, p, n);
		p += n;
		len -= n;
		if (len == 0)
			break;
		n = control_at(p, len);
		str_puts(out, FFFD);
		p += n;
		len -= n;
	}
}

/* the same, and cut */
static void sanitize_put_note(const char *p, size_t len, struct str *out)
{
	if (len > SANITIZE_NOTE_MAX) {
		len = SANITIZE_NOTE_MAX;
		while (len > 0 && ((unsigned char)p[len] & 0xc0) == 0x80)       /* between characters only */
			len--;
	}
	sanitize_put_clean(p, len, out);
}

/* Control characters but tab, line feed and carriage return become U+FFFD. */
static void sanitize_err(struct err *err)
{
	for (char *p = err->msg; *p; p++) {
		if (control_at(p, strlen(p)) == 1)
			*p = ' ';
	}
}

static bool text_is_clean(const json_t *text)
{
	return !json_is_string(text) || sanitize_is_clean(json_string_value(text), json_string_length(text));
}

static json_t *clean_text(const json_t *text)
{
	struct str out = STR_INIT;

	sanitize_put_clean(json_string_value(text), json_string_length(text), &out);
	json_t *copy = json_stringn_nocheck(str_text(&out), out.len);
	str_fini(&out);
	return copy;
}

/* A plan's own blocks must stay as they are. */
static json_t *sanitize_block(json_t *block)
{
	json_t *text = json_object_get(block, "text"), *inner = json_object_get(block, "resource");
	json_t *inner_text = json_object_get(inner, "text");

	if (text_is_clean(text) && text_is_clean(inner_text))
		return json_incref(block);
	json_t *copy = json_copy(block);
	if (!text_is_clean(text))
		json_object_set_new(copy, "text", clean_text(text));
	if (!text_is_clean(inner_text)) {
		json_t *resource = json_copy(inner);
		json_object_set_new(resource, "text", clean_text(inner_text));
		json_object_set_new(copy, "resource", resource);
	}
	return copy;
}

json_t *backend_clean_block(json_t *block)
{
	return sanitize_block(block);
}

json_t *backend_clean_text(json_t *text)
{
	json_t *copy;

	if (text_is_clean(text))
		return text;
	copy = clean_text(text);
	json_decref(text);
	return copy;
}

static bool content_is_clean(const json_t *content)
{
	const json_t *block;
	size_t i;

	json_array_foreach(content, i, block) {
		if (!text_is_clean(json_object_get(block, "text")) ||
		    !text_is_clean(json_object_get(json_object_get(block, "resource"), "text")))
			return false;
	}
	return true;
}

static void clean_content(json_t **content)
{
	json_t *copy, *block;
	size_t i;

	if (content_is_clean(*content))
		return;
	copy = json_array();
	json_array_foreach(*content, i, block)
		json_array_append_new(copy, sanitize_block(block));
	json_decref(*content);
	*content = copy;
}

static int check_meta(const json_t *meta, struct err *err)
{
	struct str text;

	if (!meta)
		return 0;
	str_init(&text, SANITIZE_META_MAX);
	jx_write(meta, &text);
	bool fits = !text.failed;
	str_fini(&text);
	return fits ? 0 : err_set(err, ERR_LIMIT, "", "the _meta of the tool's result is larger than %u bytes",
				  SANITIZE_META_MAX);
}

/* Check a result and make its texts clean, in place.  ERR_TOOL: a block is none; ERR_LIMIT. */
static int sanitize_result(struct backend_result *res, struct err *err)
{
	struct err why;

	if (json_array_size(res->content) > BACKEND_BLOCKS_MAX)
		return err_set(err, ERR_LIMIT, "",
			       "the tool's result has %zu content blocks, more than the limit of %d",
			       json_array_size(res->content), BACKEND_BLOCKS_MAX);
	if (content_check_all(res->content, "content", &why) < 0)
		return err_set(err, ERR_TOOL, "", "the tool's result: %s: %s", why.where, why.msg);
	int rc = check_meta(res->meta, err);
	if (rc == 0)
		clean_content(&res->content);
	return rc;
}

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

static void on_hint(void *arg, const char *text)
{
	struct backend_run *r = arg;

	struct str blanked = STR_INIT;

	if (!r->op.sink.hint)
		return;
	mask_text(r->secrets, text, strlen(text), &blanked);
	r->op.sink.hint(r->op.arg, str_text(&blanked));
	str_fini(&blanked);
}

static void on_far(void *arg, const void *state, size_t len)
{
	struct backend_run *r = arg;

	if (r->op.sink.far)
		r->op.sink.far(r->op.arg, state, len);
}

static void on_lasts(void *arg, const char *note)
{
	struct backend_run *r = arg;
	struct str text = STR_INIT;

	if (r->op.sink.lasts)
		r->op.sink.lasts(r->op.arg, short_text(r, note, &text));
	str_fini(&text);
}

int backend_start(const struct backend_ops *ops, const struct backend_env *env, const struct backend_req *req,
		  const struct backend_sink *sink, void *arg, struct backend_op **ret, struct err *err)
{
	static const struct backend_sink around = { on_progress, on_log, on_result, on_ask, on_error, on_used,
		on_hint, on_far, on_lasts };
	struct backend_req inner = *req;
	struct backend_run *r;

	if (!req->recorded) {
		metric_inc(METRIC_handlers_unrecorded);
		return err_set(err, ERR_AUDIT, "", "its begin is not on record, nothing has run");
	}
	r = mem_zalloc(sizeof(*r));
	backend_op_init(&r->op, env, sink, arg);
	r->ops = ops;
	inner.secrets = r->secrets = open_secrets_new(env->secrets);
	*ret = &r->op;
	ops->start(env, &inner, &around, r, &r->inner);
	return 0;
}

void backend_cancel(struct backend_op *op, enum cancel_why why)
{
	struct backend_run *r = CONTAINER_OF(op, struct backend_run, op);

	r->ops->cancel(r->inner, why);
}
