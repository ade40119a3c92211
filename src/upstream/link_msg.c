/* Messages to and from a server: text in, values out, no state. */
#include "config.h"

#include "link_parts_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "proto/caps.h"
#include "proto/trace.h"

#define KEY "io.modelcontextprotocol/"
#define CLIENT_INFO "{\"name\":\"toolcrib\",\"version\":\"" PACKAGE_VERSION "\"}"
#define ALL_CAPS (CAP_ROOTS | CAP_SAMPLING | CAP_SAMPLING_TOOLS | CAP_ELICITATION_FORM | CAP_ELICITATION_URL)

static void put_id(struct str *out, uint64_t id)
{
	str_puts(out, ",\"id\":");
	str_put_u64(out, id);
}

static void put_caps(struct str *out, uint32_t caps)
{
	json_t *v = caps_to_json(caps);

	jx_write(v, out);
	json_decref(v);
}

void link_msg_begin(struct str *out, uint64_t id, const char *method)
{
	str_reset(out);
	str_puts(out, "{\"jsonrpc\":\"2.0\"");
	if (id)
		put_id(out, id);
	str_printf(out, ",\"method\":\"%s\",\"params\":{", method);
}

void link_msg_end(struct str *out)
{
	str_puts(out, "}}");
}

void link_msg_meta(struct str *out, bool modern, uint32_t caps, uint64_t token)
{
	link_msg_call_meta(out, &(struct link_meta){ modern, caps, token, LINK_LOG_OFF, NULL });
}

static void put_modern(struct str *out, const struct link_meta *m)
{
	str_puts(out, "\"" KEY "protocolVersion\":\"");
	str_puts(out, rev_table[REV_R5].text);
	str_puts(out, "\",\"" KEY "clientInfo\":" CLIENT_INFO ",\"" KEY "clientCapabilities\":");
	put_caps(out, m->caps);
	if (m->log_level < LINK_LOG_OFF)
		str_printf(out, ",\"" KEY "logLevel\":\"%s\"", link_msg_level_word(m->log_level));
}

static void put_trace(struct str *out, const struct trace *trace, bool first)
{
	str_printf(out, "%s\"traceparent\":\"%s\"", first ? "" : ",", trace->parent);       /* hexadecimal */
	if (!trace->state[0])
		return;
	str_puts(out, ",\"tracestate\":");
	jx_write_stringz(out, trace->state);
}

void link_msg_call_meta(struct str *out, const struct link_meta *m)
{
	if (!m->modern && !m->token && !m->trace)
		return;
	str_puts(out, "\"_meta\":{");
	if (m->modern)
		put_modern(out, m);
	if (m->token) {
		str_puts(out, m->modern ? ",\"progressToken\":" : "\"progressToken\":");
		str_put_u64(out, m->token);
	}
	if (m->trace)
		put_trace(out, m->trace, !m->modern && !m->token);
	str_putc(out, '}');
}

void link_msg_initialize(struct str *out, uint64_t id, bool asks)
{
	link_msg_begin(out, id, "initialize");
	str_printf(out, "\"protocolVersion\":\"%s\",\"capabilities\":", rev_table[REV_LEGACY_NEWEST].text);
	put_caps(out, asks ? ALL_CAPS : 0);
	str_puts(out, ",\"clientInfo\":" CLIENT_INFO);
	link_msg_end(out);
}

static void answer_begin(struct str *out, struct jx_span id)
{
	str_reset(out);
	str_puts(out, "{\"jsonrpc\":\"2.0\",\"id\":");
	str_put(out, id.p, id.len);
}

void link_msg_answer(struct str *out, struct jx_span id, const json_t *result)
{
	answer_begin(out, id);
	str_puts(out, ",\"result\":");
	if (result)
		jx_write(result, out);
	else
		str_puts(out, "{}");
	str_putc(out, '}');
}

void link_msg_refusal(struct str *out, struct jx_span id, int code, const char *text)
{
	answer_begin(out, id);
	str_printf(out, ",\"error\":{\"code\":%d,\"message\":", code);
	jx_write_stringz(out, text);
	str_puts(out, "}}");
}

void link_msg_cancelled(struct str *out, uint64_t id, bool modern)
{
	link_msg_begin(out, 0, "notifications/cancelled");
	str_puts(out, "\"requestId\":");
	str_put_u64(out, id);
	if (modern) {
		str_putc(out, ',');
		link_msg_meta(out, true, 0, 0);
	}
	link_msg_end(out);
}

bool link_msg_id(struct jx_span raw, uint64_t *ret)
{
	return raw.p && text_u64(raw.p, raw.len, ret) == 0;
}

void link_msg_error(struct jx_span error, int *ret_code, char *ret, size_t size, json_t **ret_data)
{
	struct rpc_walk w;
	struct jx_span v;
	char name[16];

	*ret_code = -32603;
	*ret_data = NULL;
	ret[0] = '\0';
	if (rpc_is(error, '{'))
		rpc_walk_start(&w, error);
	while (rpc_is(error, '{') && rpc_walk_member(&w, name, sizeof(name), &v)) {
		int64_t code;

		if (strcmp(name, "code") == 0 && text_i64(v.p, v.len, &code) == 0 && code >= INT32_MIN && code <= INT32_MAX) {
			*ret_code = (int)code;
		} else if (strcmp(name, "message") == 0) {
			(void)rpc_string(v, ret, size, NULL);
			ret[text_without_hidden(ret, strlen(ret), ret)] = '\0';
		} else if (strcmp(name, "data") == 0 && !*ret_data && jx_parse_scanned(v.p, v.len, ret_data, NULL) < 0) {
			*ret_data = NULL;       /* numbers that no tree can hold */
		}
	}
	if (!*ret)
		(void)text_printable("unknown error", 13, ret, size);
}

static const char *const levels[LINK_LOG_OFF] = { "debug", "info", "notice", "warning", "error", "critical", "alert",
	"emergency" };

const char *link_msg_level_word(int level)
{
	return levels[level];
}

int link_msg_level(const char *word)
{
	for (size_t i = 0; i < NELEMS(levels); i++)
		if (strcmp(word, levels[i]) == 0)
			return (int)i;
	return -1;
}
