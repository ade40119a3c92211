/* Messages as text: results by revision, errors, notices. */

#include "config.h"

#include "proto/encode.h"

#include <math.h>
#include <string.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"

#include "proto_int.h"

#define PREFIX_RESERVED "io.modelcontextprotocol/"
#define KEY_CALL_ID "dev.toolcrib/callId"

static bool modern(enum rev rev)
{
	return rev_table[rev].era == ERA_MODERN;
}

static void put_span(struct str *out, struct jx_span s)
{
	str_put(out, s.p, s.len);
}

static void put_server(struct str *out, enum rev rev, const struct enc_server *s)
{
	str_puts(out, "{\"name\":");
	jx_write_stringz(out, s->name);
	if (rev_table[rev].title) {
		str_puts(out, ",\"title\":");
		jx_write_stringz(out, s->title);
	}
	str_puts(out, ",\"version\":");
	jx_write_stringz(out, s->version);
	str_putc(out, '}');
}

/* A comma unless an object or array has just been opened. */
static void comma(struct str *out)
{
	if (out->len && out->p[out->len - 1] != '{' && out->p[out->len - 1] != '[')
		str_putc(out, ',');
}

/* What a tool put into its result, without the keys that are the protocol's or ours (MCP B-44). */
static void put_tool_meta(struct str *out, const json_t *meta)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)meta, key, value) {
		if (strncmp(key, PREFIX_RESERVED, strlen(PREFIX_RESERVED)) == 0 || strcmp(key, KEY_CALL_ID) == 0)
			continue;
		comma(out);
		jx_write_stringz(out, key);
		str_putc(out, ':');
		jx_write(value, out);
	}
}

/* `_meta` of a result, when there is something to say in this revision. */
static void put_meta(struct str *out, const struct enc_to *to, const struct enc_result *r)
{
	char id[ID_TEXT_SIZE];

	if (!modern(to->rev) && !r->call_id && !r->meta)
		return;
	comma(out);
	str_puts(out, "\"_meta\":{");
	put_tool_meta(out, r->meta);
	if (r->call_id) {       /* AUDIT A-203 */
		comma(out);
		str_puts(out, "\"" KEY_CALL_ID "\":\"");
		str_puts(out, id_format(r->call_id, id));
		str_putc(out, '"');
	}
	if (r->kind == ENC_LISTEN_END) {        /* MCP N-06 */
		comma(out);
		str_puts(out, "\"" PREFIX_RESERVED "subscriptionId\":");
		put_span(out, to->id);
	}
	if (modern(to->rev)) {  /* MCP M-08 */
		comma(out);
		str_puts(out, "\"" PREFIX_RESERVED "serverInfo\":");
		put_server(out, to->rev, to->server);
	}
	str_putc(out, '}');
}

/* logging: what handlers of calls say, to whoever asks for it (MCP G-01). */
static void put_capabilities(struct str *out, enum rev rev, unsigned has)
{
	str_puts(out, ",\"capabilities\":{");
	if ((has & ENC_HAS_COMPLETIONS) && rev >= REV_R2)       /* MCP L-09 */
		str_puts(out, "\"completions\":{},");
	str_puts(out, "\"logging\":{},");
	if (has & ENC_HAS_PROMPTS)
		str_puts(out, "\"prompts\":{\"listChanged\":true},");
	if (has & ENC_HAS_RESOURCES)
		str_puts(out, "\"resources\":{\"listChanged\":true,\"subscribe\":true},");
	str_puts(out, "\"tools\":{\"listChanged\":true}}");
}

static void put_cache(struct str *out, unsigned ttl_ms)
{
	str_puts(out, ",\"ttlMs\":");
	str_put_u64(out, ttl_ms);
	str_puts(out, ",\"cacheScope\":\"private\"");   /* MCP T-09, B-47 */
}

static void put_initialize(struct str *out, const struct enc_to *to, const struct enc_result *r)
{
	str_puts(out, "\"protocolVersion\":\"");
	str_puts(out, rev_table[to->rev].text);
	str_putc(out, '"');
	put_capabilities(out, to->rev, r->has);
	str_puts(out, ",\"serverInfo\":");
	put_server(out, to->rev, to->server);
}

static void put_discover(struct str *out, const struct enc_to *to, const struct enc_result *r)
{
	str_puts(out, ",\"supportedVersions\":");
	str_puts(out, rpc_versions);
	put_capabilities(out, to->rev, r->has);
	put_cache(out, ENC_DISCOVER_TTL_MS);
}

static const char *const list_names[] = {
	[ENC_TOOLS] = "tools", [ENC_PROMPTS] = "prompts", [ENC_RESOURCES] = "resources",
	[ENC_TEMPLATES] = "resourceTemplates",
};

static void put_list(struct str *out, const struct enc_to *to, const struct enc_result *r)
{
	comma(out);
	str_putc(out, '"');
	str_puts(out, list_names[r->list]);
	str_puts(out, "\":");
	str_put(out, r->page, r->page_len);
	if (r->next) {          /* MCP T-04, T-06: left out, never "" */
		str_puts(out, ",\"nextCursor\":");
		jx_write_string(out, r->next, r->next_len);
	}
	if (modern(to->rev))
		put_cache(out, ENC_LIST_TTL_MS);
}

static void put_structured(struct str *out, const struct enc_to *to, const struct enc_result *r)
{
	const struct rev_row *row = &rev_table[to->rev];
	bool wrap = !row->structured_any && (r->wrapped || !json_is_object(r->structured));

	if (!r->structured || !row->output_schema || (wrap && r->unwrapped))
		return;
	str_puts(out, ",\"structuredContent\":");
	if (wrap)               /* MCP B-16: the schema is listed in the same wrapping */
		str_puts(out, "{\"result\":");
	if (r->structured_text.p)
		put_span(out, r->structured_text);
	else
		jx_write(r->structured, out);
	if (wrap)
		str_putc(out, '}');
}

static void put_call(struct str *out, const struct enc_to *to, const struct enc_result *r)
{
	comma(out);
	if (to->rev == REV_R0) {
		str_puts(out, "\"toolResult\":");
		content_write_tool_result(out, r);
		str_putc(out, ',');
	}
	str_puts(out, "\"content\":");
	content_write(out, to->rev, r);
	put_structured(out, to, r);
	if (r->is_error)
		str_puts(out, ",\"isError\":true");
}

static void put_prompt(struct str *out, const struct enc_to *to, const struct enc_result *r)
{
	const json_t *description = json_object_get(r->structured, "description");

	comma(out);
	if (description) {
		str_puts(out, "\"description\":");
		jx_write(description, out);
		str_putc(out, ',');
	}
	str_puts(out, "\"messages\":");
	content_write_messages(out, to->rev, json_object_get(r->structured, "messages"));
}

static void put_read(struct str *out, const struct enc_to *to, const struct enc_result *r)
{
	comma(out);
	str_puts(out, "\"contents\":");
	content_write_parts(out, to->rev, json_object_get(r->structured, "contents"));
	if (modern(to->rev))
		put_cache(out, ENC_READ_TTL_MS);
}

static void put_completion(struct str *out, const struct enc_result *r)
{
	comma(out);
	str_puts(out, "\"completion\":");
	jx_write(r->structured, out);
}

static void put_input(struct str *out, const struct enc_result *r)
{
	if (r->requests) {
		str_puts(out, ",\"inputRequests\":");
		jx_write(r->requests, out);
	}
	if (r->state) {
		str_puts(out, ",\"requestState\":");
		jx_write_stringz(out, r->state);
	}
}

static void put_head(struct str *out, struct jx_span id)
{
	str_puts(out, "{\"jsonrpc\":\"2.0\",\"id\":");
	put_span(out, id);
}

void encode_result(struct str *out, const struct enc_to *to, const struct enc_result *r)
{
	put_head(out, to->id);
	str_puts(out, ",\"result\":{");
	if (modern(to->rev))    /* MCP J-12, J-13 */
		str_puts(out, r->kind == ENC_INPUT ? "\"resultType\":\"input_required\"" :
			 "\"resultType\":\"complete\"");
	switch (r->kind) {
	case ENC_INITIALIZE:
		put_initialize(out, to, r);
		break;
	case ENC_DISCOVER:
		put_discover(out, to, r);
		break;
	case ENC_LIST:
		put_list(out, to, r);
		break;
	case ENC_CALL:
		put_call(out, to, r);
		break;
	case ENC_PROMPT:
		put_prompt(out, to, r);
		break;
	case ENC_READ:
		put_read(out, to, r);
		break;
	case ENC_COMPLETE:
		put_completion(out, r);
		break;
	case ENC_INPUT:
		put_input(out, r);
		break;
	case ENC_EMPTY:
	case ENC_LISTEN_END:
		break;
	}
	put_meta(out, to, r);
	str_puts(out, "}}");
}

void encode_error(struct str *out, const struct enc_to *to, const struct rpc_error *e)
{
	if (to->id.p) {
		put_head(out, to->id);
	} else {                /* MCP B-05 */
		bool omit = to->rev == REV_R4 || to->rev == REV_R5;

		str_puts(out, omit ? "{\"jsonrpc\":\"2.0\"" : "{\"jsonrpc\":\"2.0\",\"id\":null");
	}
	str_puts(out, ",\"error\":{\"code\":");
	str_put_i64(out, e->code);
	str_puts(out, ",\"message\":");
	jx_write_string(out, str_text(&e->message), e->message.len);
	if (e->data.len) {
		str_puts(out, e->whole ? ",\"data\":" : ",\"data\":{");
		str_put(out, e->data.p, e->data.len);
		if (!e->whole)
			str_putc(out, '}');
	}
	str_puts(out, "}}");
}

static void put_notice(struct str *out, const char *method)
{
	str_puts(out, "{\"jsonrpc\":\"2.0\",\"method\":\"");
	str_puts(out, method);
	str_putc(out, '"');
}

static void put_number(struct str *out, double v)
{
	if (!isfinite(v))
		str_putc(out, '0');
	else if (v == floor(v) && fabs(v) < 1e15)
		str_put_i64(out, (long long)v);
	else
		str_printf(out, "%.15g", v);
}

void encode_progress(struct str *out, enum rev rev, const struct enc_progress *p)
{
	put_notice(out, "notifications/progress");
	str_puts(out, ",\"params\":{\"progressToken\":");
	put_span(out, p->token);
	str_puts(out, ",\"progress\":");
	put_number(out, p->done);
	if (p->total >= 0) {
		str_puts(out, ",\"total\":");
		put_number(out, p->total);
	}
	if (p->note && rev_table[rev].progress_message) {       /* MCP P-02 */
		str_puts(out, ",\"message\":");
		jx_write_stringz(out, p->note);
	}
	str_puts(out, "}}");
}

static const char *const levels[] = {
	"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency",
};

int encode_log_level(const char *name)
{
	for (size_t i = 0; i < NELEMS(levels); i++)
		if (strcmp(levels[i], name) == 0)
			return (int)i;
	return -1;
}

void encode_log(struct str *out, int level, const char *logger, const json_t *data)
{
	if (level < 0)
		level = 0;
	if (level >= (int)NELEMS(levels))
		level = (int)NELEMS(levels) - 1;
	put_notice(out, "notifications/message");
	str_puts(out, ",\"params\":{\"level\":\"");
	str_puts(out, levels[level]);
	str_putc(out, '"');
	if (logger) {
		str_puts(out, ",\"logger\":");
		jx_write_stringz(out, logger);
	}
	str_puts(out, ",\"data\":");
	if (data)
		jx_write(data, out);
	else
		str_puts(out, "null");
	str_puts(out, "}}");
}

static void put_subscription(struct str *out, struct jx_span subscription)
{
	str_puts(out, "\"_meta\":{\"" PREFIX_RESERVED "subscriptionId\":");
	put_span(out, subscription);
	str_putc(out, '}');
}

void encode_list_changed(struct str *out, enum enc_list list, struct jx_span subscription)
{
	static const char *const methods[] = {
		[ENC_TOOLS] = "notifications/tools/list_changed", [ENC_PROMPTS] = "notifications/prompts/list_changed",
		[ENC_RESOURCES] = "notifications/resources/list_changed",
		[ENC_TEMPLATES] = "notifications/resources/list_changed",
	};

	put_notice(out, methods[list]);
	if (subscription.p) {   /* MCP M-11 */
		str_puts(out, ",\"params\":{");
		put_subscription(out, subscription);
		str_putc(out, '}');
	}
	str_putc(out, '}');
}

void encode_updated(struct str *out, const char *uri, struct jx_span subscription)
{
	put_notice(out, "notifications/resources/updated");
	str_puts(out, ",\"params\":{\"uri\":");
	jx_write_stringz(out, uri);
	if (subscription.p) {
		str_putc(out, ',');
		put_subscription(out, subscription);
	}
	str_puts(out, "}}");
}

void encode_listen_ack(struct str *out, struct jx_span subscription, const struct enc_filter *filter)
{
	static const char *const members[] = {
		[ENC_TOOLS] = "\"toolsListChanged\":true", [ENC_PROMPTS] = "\"promptsListChanged\":true",
		[ENC_RESOURCES] = "\"resourcesListChanged\":true",
	};

	put_notice(out, "notifications/subscriptions/acknowledged");
	str_puts(out, ",\"params\":{\"notifications\":{");
	for (size_t i = 0; i < NELEMS(members); i++)
		if (filter->lists & 1u << i) {
			comma(out);
			str_puts(out, members[i]);
		}
	if (filter->nuris) {
		comma(out);
		str_puts(out, "\"resourceSubscriptions\":[");
		for (size_t i = 0; i < filter->nuris; i++) {
			comma(out);
			jx_write_stringz(out, filter->uris[i]);
		}
		str_putc(out, ']');
	}
	str_puts(out, "},");
	put_subscription(out, subscription);
	str_puts(out, "}}");
}

void encode_cancelled(struct str *out, struct jx_span id, const char *reason)
{
	put_notice(out, "notifications/cancelled");
	str_puts(out, ",\"params\":{\"requestId\":");
	put_span(out, id);
	str_puts(out, ",\"reason\":");
	jx_write_stringz(out, reason);
	str_puts(out, "}}");
}

void encode_request(struct str *out, uint64_t id, const char *method, const json_t *params)
{
	str_puts(out, "{\"jsonrpc\":\"2.0\",\"id\":");
	str_put_u64(out, id);
	str_puts(out, ",\"method\":");
	jx_write_stringz(out, method);
	if (params) {
		str_puts(out, ",\"params\":");
		jx_write(params, out);
	}
	str_putc(out, '}');
}
