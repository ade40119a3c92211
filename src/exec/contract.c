/* The child contract: what is written to a program and what its lines mean (toolcrib-tool(5)).  run.c feeds bytes in
 * and takes messages out, on the loop thread; there are no descriptors here, so all of it can be fuzzed. */
#include "config.h"

#include <string.h>

#include "base/id.h"
#include "base/mem.h"
#include "json/json.h"
#include "proto/caps.h"

#include "exec_int.h"

typedef int line_fn(const json_t *body, struct child_msg *msg, struct err *err);

static int parse_progress(const json_t *body, struct child_msg *msg, struct err *err)
{
	static const char *const known[] = { "done", "total", "message" };
	const json_t *done = json_object_get(body, "done"), *total = json_object_get(body, "total");

	int rc = jx_only(body, "/progress", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_string(body, "/progress", "message", JX_OPTIONAL, &msg->text, err);
	if (rc < 0)
		return rc;
	if (!json_is_number(done) || jx_nearest(done) < 0)
		return err_set(err, ERR_INVALID, "/progress/done", "must be a number, at least 0");
	if (total && (!json_is_number(total) || jx_nearest(total) < 0))
		return err_set(err, ERR_INVALID, "/progress/total", "must be a number, at least 0");
	msg->done = jx_nearest(done);
	msg->total = total ? jx_nearest(total) : -1;
	return 0;
}

static int parse_log(const json_t *body, struct child_msg *msg, struct err *err)
{
	static const char *const known[] = { "level", "data", "logger" };
	static const char *const levels[] = {
		"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency",
	};
	const char *level = NULL;

	int rc = jx_only(body, "/log", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_string(body, "/log", "level", JX_REQUIRED, &level, err);
	if (rc == 0)
		rc = jx_get_string(body, "/log", "logger", JX_OPTIONAL, &msg->text, err);
	if (rc < 0)
		return rc;
	msg->data = json_object_get(body, "data");
	if (!msg->data)
		return err_set(err, ERR_INVALID, "/log/data", "is missing");
	for (size_t i = 0; i < NELEMS(levels); i++) {
		if (strcmp(level, levels[i]) == 0) {
			msg->level = (int)i;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, "/log/level",
		       "must be debug, info, notice, warning, error, critical, alert or emergency");
}

static int parse_task(const json_t *body, struct child_msg *msg, struct err *err)
{
	static const char *const known[] = { "message" };
	int rc = jx_only(body, "/task", known, NELEMS(known), err);

	return rc ? rc : jx_get_string(body, "/task", "message", JX_OPTIONAL, &msg->text, err);
}

static int parse_content(const json_t *body, struct child_msg *msg, struct err *err)
{
	return content_check(body, "/content", err);    /* msg->data is the block */
}

/* Whether the client can answer it is the caller's matter: it knows what was declared. */
static int check_question(const json_t *request, const char *at, struct err *err)
{
	static const char *const known[] = { "method", "params" };
	const char *method = NULL;
	json_t *params = NULL;

	if (!json_is_object(request))
		return err_set(err, ERR_INVALID, at, "must be an object, is %s", jx_type_name(request));
	int rc = jx_only(request, at, known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_string(request, at, "method", JX_REQUIRED, &method, err);
	if (rc == 0)
		rc = jx_get_object(request, at, "params", JX_OPTIONAL, &params, err);
	if (rc == 0 && caps_for_request(method, params) == 0)
		rc = err_set(err, ERR_INVALID, at, "%.40s is no question to a client", method);
	return rc;
}

static int parse_ask(const json_t *body, struct child_msg *msg, struct err *err)
{
	static const char *const known[] = { "requests", "state" };
	const json_t *state = json_object_get(body, "state");
	struct str at = STR_INIT;
	json_t *request;
	const char *key;

	int rc = jx_only(body, "/ask", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_object(body, "/ask", "requests", JX_REQUIRED, &msg->data, err);
	if (rc < 0)
		return rc;
	size_t n = json_object_size(msg->data);
	if (n == 0 || n > ASK_REQUESTS_MAX)
		return err_set(err, ERR_INVALID, "/ask/requests", "must hold 1 to %d questions",
			       ASK_REQUESTS_MAX);
	if (state && !json_is_string(state))
		return err_set(err, ERR_INVALID, "/ask/state", "must be a string, is %s",
			       jx_type_name(state));
	if (state && json_string_length(state) > ASK_STATE_MAX)
		return err_set(err, ERR_LIMIT, "/ask/state", "is longer than %u bytes", ASK_STATE_MAX);
	msg->state = json_string_value(state);
	msg->state_len = state ? json_string_length(state) : 0;
	json_object_foreach(msg->data, key, request) {
		str_reset(&at);
		str_puts(&at, "/ask/requests");
		jx_pointer_add(&at, key);
		rc = check_question(request, str_text(&at), err);
		if (rc < 0)
			break;
	}
	str_fini(&at);
	return rc;
}

static int parse_result(const json_t *body, struct child_msg *msg, struct err *err)
{
	static const char *const known[] = { "content", "structuredContent", "isError", "_meta" };

	int rc = jx_only(body, "/result", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_array(body, "/result", "content", JX_OPTIONAL, &msg->content, err);
	if (rc == 0 && msg->content)
		rc = content_check_all(msg->content, "/result/content", err);
	if (rc == 0)
		rc = jx_get_bool(body, "/result", "isError", JX_OPTIONAL, &msg->is_error, err);
	if (rc == 0)
		rc = jx_get_object(body, "/result", "_meta", JX_OPTIONAL, &msg->meta, err);
	msg->structured = json_object_get(body, "structuredContent");
	return rc;
}

static int parse_error(const json_t *body, struct child_msg *msg, struct err *err)
{
	static const char *const known[] = { "code", "message", "data" };
	int64_t code = 0;

	int rc = jx_only(body, "/error", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_int(body, "/error", "code", JX_REQUIRED, INT32_MIN, INT32_MAX, &code, err);
	if (rc == 0)
		rc = jx_get_string(body, "/error", "message", JX_REQUIRED, &msg->text, err);
	if (rc == 0 && code == 0)
		rc = err_set(err, ERR_INVALID, "/error/code", "must not be 0");
	msg->code = (int)code;
	msg->data = json_object_get(body, "data");
	return rc;
}

static const struct line_type { const char *name; line_fn *parse; bool last; } line_types[] = {
	[CHILD_PROGRESS] = { "progress", parse_progress, false },
	[CHILD_LOG] = { "log", parse_log, false },
	[CHILD_TASK] = { "task", parse_task, false },
	[CHILD_CONTENT] = { "content", parse_content, false },
	[CHILD_ASK] = { "ask", parse_ask, true },
	[CHILD_RESULT] = { "result", parse_result, true },
	[CHILD_ERROR] = { "error", parse_error, true },
};

static int parse_message(const json_t *tree, struct child_msg *msg, struct err *err)
{
	static const char *const known[] = { "progress", "log", "task", "content", "ask", "result", "error" };

	if (!json_is_object(tree))
		return err_set(err, ERR_INVALID, "", "must be an object, is %s", jx_type_name(tree));
	int rc = jx_only(tree, "", known, NELEMS(known), err);
	if (rc < 0)
		return rc;
	if (json_object_size(tree) != 1)
		return err_set(err, ERR_INVALID, "", "must have one member, has %zu", json_object_size(tree));
	for (size_t i = 0; i < NELEMS(line_types); i++) {
		json_t *body = json_object_get(tree, line_types[i].name);
		if (!body)
			continue;
		msg->kind = (enum child_kind)i;
		msg->data = body;
		if (!json_is_object(body))
			return err_set(err, ERR_INVALID, line_types[i].name, "must be an object, is %s",
				       jx_type_name(body));
		return line_types[i].parse(body, msg, err);
	}
	return err_set(err, ERR_INTERNAL, "", "a known member is not found");
}

/* What the client reads names the line and the place in it; a hint of the parser comes along. */
static int bad_line(const struct child_reader *r, const struct err *why, struct err *err)
{
	int code = why->code == ERR_LIMIT ? ERR_LIMIT : ERR_TOOL;

	return err_set(err, (enum err_code)code, "", "line %zu of the tool's output: %s%s%s%s%s", r->lines,
		       why->where, why->where[0] ? ": " : "", why->msg, why->hint[0] ? "; " : "", why->hint);
}

static int one_line(struct child_reader *r, const char *p, size_t n, child_msg_fn *fn, void *arg,
		    struct err *err)
{
	struct jx_want want = { "/result/structuredContent", { NULL, 0 } };
	struct child_msg msg = { .len = n, .total = -1 };
	json_t *tree = NULL;
	struct err why;

	r->lines++;
	if (r->over)
		return err_set(err, ERR_TOOL, "", "line %zu of the tool's output comes after the last one",
			       r->lines);
	int rc = jx_scan(p, n, &want, 1, &why);
	if (rc == 0)
		rc = jx_parse_scanned(p, n, &tree, &why);
	if (rc < 0) {
		(void)err_wrap(&why, "not JSON");
		return bad_line(r, &why, err);
	}
	rc = parse_message(tree, &msg, &why);
	if (rc < 0) {
		rc = bad_line(r, &why, err);
	} else {
		r->over = line_types[msg.kind].last;
		msg.structured_text = want.span.p;
		msg.structured_len = want.span.len;
		rc = fn(arg, &msg, err);
	}
	json_decref(tree);
	return rc;
}

static int line_too_long(const struct child_reader *r, struct err *err)
{
	return err_set(err, ERR_LIMIT, "", "line %zu of the tool's output is longer than 1 MiB",
		       r->lines + 1);
}

int child_read(struct child_reader *r, const char *p, size_t n, child_msg_fn *fn, void *arg, struct err *err)
{
	while (n > 0) {
		const char *nl = memchr(p, '\n', n);
		size_t part = nl ? (size_t)(nl - p) : n;
		int rc = 0;
		if (r->line.len + part > CHILD_LINE_MAX)
			return line_too_long(r, err);
		if (!nl || r->line.len > 0)
			str_put(&r->line, p, part);
		if (!nl)
			return 0;
		if (r->line.len > 0) {
			rc = one_line(r, r->line.p, r->line.len, fn, arg, err);
			str_reset(&r->line);
		} else {
			rc = one_line(r, p, part, fn, arg, err);
		}
		if (rc < 0)
			return rc;
		p += part + 1;
		n -= part + 1;
	}
	return 0;
}

int child_read_end(struct child_reader *r, child_msg_fn *fn, void *arg, struct err *err)
{
	if (r->line.len == 0)
		return 0;
	int rc = one_line(r, r->line.p, r->line.len, fn, arg, err);
	str_reset(&r->line);
	return rc;
}

void child_reader_fini(struct child_reader *r)
{
	str_fini(&r->line);
}

static void write_member(struct str *out, const char *name, const char *value)
{
	str_printf(out, ",\"%s\":", name);
	jx_write_stringz(out, value);
}

void child_write_request(const struct backend_req *req, uint64_t timeout_ms, struct str *out)
{
	char id[ID_TEXT_SIZE];
	json_t *caps = caps_to_json(req->caps);

	str_puts(out, "{\"tool\":");
	jx_write_stringz(out, req->tool);
	str_puts(out, ",\"arguments\":");
	backend_put_args(req, out);
	write_member(out, "call", id_format(req->call_id, id));
	write_member(out, "tenant", req->tenant);
	write_member(out, "principal", req->principal);
	str_puts(out, ",\"deadlineMs\":");
	str_put_u64(out, timeout_ms);
	str_puts(out, ",\"client\":{\"revision\":");
	jx_write_stringz(out, req->rev);
	str_puts(out, ",\"capabilities\":");
	jx_write(caps, out);
	str_putc(out, '}');
	json_decref(caps);
	if (req->answers) {
		str_puts(out, ",\"answers\":");
		jx_write(req->answers, out);
	}
	if (req->state) {
		str_puts(out, ",\"state\":");
		jx_write_string(out, req->state, req->state_len);
	}
	str_puts(out, "}\n");
}
