/* The JSON-RPC envelope.  The strict scan of json decides whether a text is JSON; what is here walks text
 * that has passed it, so it looks at brackets and quotes only and cannot run past the end. */

#include "config.h"

#include <string.h>

#include "base/text.h"
#include "proto/rpc.h"

enum { W_VERSION, W_ID, W_METHOD, W_PARAMS, W_RESULT, W_ERROR, W_META, W_NAME, W_URI, W_TASK, W_ARGUMENTS,
	W_CURSOR, W_STATE, W_RESPONSES, W_COUNT };

int rpc_scan(const char *text, size_t len, struct rpc_msg *ret, struct err *err)
{
	struct jx_want want[W_COUNT] = {
		[W_VERSION] = { "/jsonrpc", { NULL, 0 } },
		[W_ID] = { "/id", { NULL, 0 } },
		[W_METHOD] = { "/method", { NULL, 0 } },
		[W_PARAMS] = { "/params", { NULL, 0 } },
		[W_RESULT] = { "/result", { NULL, 0 } },
		[W_ERROR] = { "/error", { NULL, 0 } },
		[W_META] = { "/params/_meta", { NULL, 0 } },
		[W_NAME] = { "/params/name", { NULL, 0 } },
		[W_URI] = { "/params/uri", { NULL, 0 } },
		[W_TASK] = { "/params/taskId", { NULL, 0 } },
		[W_ARGUMENTS] = { "/params/arguments", { NULL, 0 } },
		[W_CURSOR] = { "/params/cursor", { NULL, 0 } },
		[W_STATE] = { "/params/requestState", { NULL, 0 } },
		[W_RESPONSES] = { "/params/inputResponses", { NULL, 0 } },
	};
	int rc = jx_scan(text, len, want, W_COUNT, err);

	memset(ret, 0, sizeof(*ret));
	if (rc < 0) {           /* what was read before the fault may still be answered */
		if (rpc_is_id(want[W_ID].span))
			ret->id = want[W_ID].span;
		return rc;
	}
	while (*text == ' ' || *text == '\t' || *text == '\n' || *text == '\r')
		text++;
	ret->object = *text == '{';
	ret->array = *text == '[';
	ret->version = want[W_VERSION].span;
	ret->raw_id = want[W_ID].span;
	ret->raw_method = want[W_METHOD].span;
	ret->params = want[W_PARAMS].span;
	ret->result = want[W_RESULT].span;
	ret->error = want[W_ERROR].span;
	ret->meta = want[W_META].span;
	ret->name = want[W_NAME].span;
	ret->uri = want[W_URI].span;
	ret->task_id = want[W_TASK].span;
	ret->arguments = want[W_ARGUMENTS].span;
	ret->cursor = want[W_CURSOR].span;
	ret->state = want[W_STATE].span;
	ret->responses = want[W_RESPONSES].span;
	if (ret->params.p && *ret->params.p != '{') {
		ret->params_bad = true;
		ret->params = (struct jx_span){ NULL, 0 };
	}
	return 0;
}

int rpc_check(struct rpc_msg *msg, struct err *err)
{
	bool has_id = msg->raw_id.p, id_ok = has_id && rpc_is_id(msg->raw_id);

	if (id_ok)
		msg->id = msg->raw_id;
	if (!rpc_is(msg->version, '"') || !text_eq(msg->version.p, msg->version.len, "\"2.0\""))
		return err_set(err, ERR_INVALID, "/jsonrpc", "A message needs \"jsonrpc\":\"2.0\"");
	if (!msg->raw_method.p) {
		if (!msg->result.p == !msg->error.p)
			return err_set(err, ERR_INVALID, "/method",
				       "A message needs a method, or either a result or an error");
		msg->kind = RPC_RESPONSE;
		return 0;
	}
	if (!rpc_string(msg->raw_method, msg->method, sizeof(msg->method), NULL))
		return err_set(err, ERR_INVALID, "/method", "The method must be a string");
	if (has_id && !id_ok)   /* MCP J-02, B-04 */
		return err_set(err, ERR_INVALID, "/id",
			       "The id must be an integer or a string of at most %d bytes", RPC_ID_MAX);
	msg->kind = has_id ? RPC_REQUEST : RPC_NOTICE;
	return 0;
}

void rpc_meta_read(struct jx_span meta, struct rpc_meta *ret)
{
	static const struct { const char *name; size_t offset; } keys[] = {
		{ "io.modelcontextprotocol/protocolVersion", offsetof(struct rpc_meta, claim) },
		{ "io.modelcontextprotocol/clientCapabilities", offsetof(struct rpc_meta, caps) },
		{ "io.modelcontextprotocol/clientInfo", offsetof(struct rpc_meta, client) },
		{ "io.modelcontextprotocol/logLevel", offsetof(struct rpc_meta, level) },
		{ "progressToken", offsetof(struct rpc_meta, token) },
		{ "traceparent", offsetof(struct rpc_meta, traceparent) },
		{ "tracestate", offsetof(struct rpc_meta, tracestate) },
		{ "dev.toolcrib/model", offsetof(struct rpc_meta, model) },
	};
	struct rpc_walk w;
	struct jx_span value;
	char name[64];

	memset(ret, 0, sizeof(*ret));
	if (!rpc_is(meta, '{'))
		return;
	rpc_walk_start(&w, meta);
	while (rpc_walk_member(&w, name, sizeof(name), &value))
		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
			if (strcmp(name, keys[i].name) == 0)
				memcpy((char *)ret + keys[i].offset, &value, sizeof(value));
}

static void skip_space(struct rpc_walk *w)
{
	while (w->p < w->end && (*w->p == ' ' || *w->p == '\t' || *w->p == '\n' || *w->p == '\r'))
		w->p++;
}

/* Behind the closing quote of the string that starts at p. */
static const char *string_end(const char *p, const char *end)
{
	const char *from = p + 1, *quote = memchr(from, '"', (size_t)(end - from));
	const char *escape = quote ? memchr(from, '\\', (size_t)(quote - from)) : NULL;

	if (!escape)
		return quote ? quote + 1 : end;
	for (p = escape; p < end && *p != '"'; p++)     /* a search behind each escape would look at the rest each time */
		if (*p == '\\')
			p++;
	return p < end ? p + 1 : end;
}

static const char *value_end(const char *p, const char *end)
{
	size_t depth = 0;

	if (*p == '"')
		return string_end(p, end);
	if (*p != '{' && *p != '[') {
		while (p < end && !memchr(",]} \t\r\n", *p, 7))
			p++;
		return p;
	}
	while (p < end) {
		if (*p == '"') {
			p = string_end(p, end);
			continue;
		}
		if (*p == '{' || *p == '[')
			depth++;
		else if ((*p == '}' || *p == ']') && --depth == 0)
			return p + 1;
		p++;
	}
	return end;
}

void rpc_walk_start(struct rpc_walk *w, struct jx_span container)
{
	w->p = container.p + 1;
	w->end = container.p + container.len;
}

bool rpc_walk_element(struct rpc_walk *w, struct jx_span *ret_value)
{
	const char *end;

	skip_space(w);
	if (w->p < w->end && *w->p == ',') {
		w->p++;
		skip_space(w);
	}
	if (w->p >= w->end || *w->p == ']' || *w->p == '}')
		return false;
	end = value_end(w->p, w->end);
	*ret_value = (struct jx_span){ w->p, (size_t)(end - w->p) };
	w->p = end;
	return true;
}

bool rpc_walk_member(struct rpc_walk *w, char *name, size_t size, struct jx_span *ret_value)
{
	struct jx_span raw;

	if (!rpc_walk_element(w, &raw))
		return false;
	(void)rpc_string(raw, name, size, NULL);        /* names are strings: the text has been scanned */
	skip_space(w);
	w->p++;                                         /* the colon */
	return rpc_walk_element(w, ret_value);
}

/* n bytes at most, not cut inside a character. */
static size_t cut(const char *p, size_t len, size_t max)
{
	if (len <= max)
		return len;
	while (max > 0 && ((unsigned char)p[max] & 0xC0) == 0x80)
		max--;
	return max;
}

bool rpc_string(struct jx_span raw, char *ret, size_t size, size_t *ret_len)
{
	json_t *v = NULL;
	const char *p;
	size_t len;

	if (!rpc_is(raw, '"'))
		return false;
	p = raw.p + 1;
	len = raw.len - 2;
	if (memchr(p, '\\', len)) {
		if (jx_parse_scanned(raw.p, raw.len, &v, NULL) < 0)
			return false;
		p = json_string_value(v);
		len = json_string_length(v);
	}
	len = cut(p, len, size - 1);
	memcpy(ret, p, len);
	ret[len] = '\0';
	if (ret_len)
		*ret_len = len;
	json_decref(v);
	return true;
}

bool rpc_is(struct jx_span raw, char first)
{
	return raw.p && *raw.p == first;
}

bool rpc_is_null(struct jx_span raw)
{
	return rpc_is(raw, 'n');
}

bool rpc_is_id(struct jx_span raw)
{
	if (rpc_is(raw, '"'))
		return raw.len <= RPC_ID_MAX + 2;
	if (!raw.p || raw.len > RPC_ID_MAX || (*raw.p != '-' && (*raw.p < '0' || *raw.p > '9')))
		return false;
	for (size_t i = 1; i < raw.len; i++)
		if (raw.p[i] < '0' || raw.p[i] > '9')
			return false;
	return true;
}
