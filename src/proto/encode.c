/* Messages as text: content blocks and results by revision, errors, notices.  Pure functions that append to a text;
 * what a revision does not know is left out or said in its words. */
#include "config.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "proto/caps.h"
#include "proto/encode.h"

/* --- Content blocks by revision (MCP B-14, T-31 to T-36), and what R0 had instead of them. */

/* Members of a block, or of a block's resource, that came after the revision. */
struct drop { bool meta, icons, last_modified; };

static const char *text_of(const json_t *block, const char *name)
{
	const char *s = json_string_value(json_object_get(block, name));

	return s ? s : "";
}

static void put_text(struct str *out, const char *p, size_t len)
{
	str_puts(out, "{\"type\":\"text\",\"text\":");
	jx_write_string(out, p, len);
	str_putc(out, '}');
}

static size_t base64_bytes(const json_t *data)
{
	size_t len = json_string_length(data);
	const char *p = json_string_value(data);

	while (len && p[len - 1] == '=')
		len--;
	return len / 4 * 3 + (len % 4) * 3 / 4;
}

/* A copy of an object without the members of `drop`. */
static void put_object(struct str *out, const json_t *obj, struct drop drop)
{
	const char *key;
	json_t *value;
	bool first = true;

	str_putc(out, '{');
	json_object_foreach((json_t *)(uintptr_t)obj, key, value) {
		if ((drop.meta && strcmp(key, "_meta") == 0) || (drop.icons && strcmp(key, "icons") == 0) ||
		    (drop.last_modified && strcmp(key, "lastModified") == 0))
			continue;
		if (!first)
			str_putc(out, ',');
		first = false;
		jx_write_stringz(out, key);
		str_putc(out, ':');
		if (strcmp(key, "resource") == 0 && json_is_object(value))
			put_object(out, value, (struct drop){ .meta = drop.meta });
		else if (strcmp(key, "annotations") == 0 && json_is_object(value))
			put_object(out, value, (struct drop){ .last_modified = drop.last_modified });
		else
			jx_write(value, out);
	}
	str_putc(out, '}');
}

static void put_audio_note(struct str *out, const json_t *block)
{
	struct str note = STR_INIT;

	str_printf(&note, "[audio %s, %zu bytes]", text_of(block, "mimeType"),
		   base64_bytes(json_object_get(block, "data")));
	put_text(out, note.p, note.len);
	str_fini(&note);
}

static void put_link_note(struct str *out, const json_t *block)
{
	struct str note = STR_INIT;

	str_printf(&note, "[resource %s: %s]", text_of(block, "name"), text_of(block, "uri"));
	put_text(out, note.p, note.len);
	str_fini(&note);
}

static void put_block(struct str *out, enum rev rev, const json_t *block)
{
	const struct rev_row *row = &rev_table[rev];
	const char *type = text_of(block, "type");
	const json_t *text = json_object_get(block, "text");

	if (strcmp(type, "text") == 0 && json_is_string(text) && json_object_size(block) == 2)
		put_text(out, json_string_value(text), json_string_length(text));
	else if (strcmp(type, "audio") == 0 && !row->audio)
		put_audio_note(out, block);
	else if (strcmp(type, "resource_link") == 0 && !row->resource_link)
		put_link_note(out, block);
	else if (row->icons)
		jx_write(block, out);
	else    /* `_meta` and lastModified came with R3 (MCP M-02, T-34), icons with R4 (T-33) */
		put_object(out, block, (struct drop){ .meta = !row->tool_meta, .icons = true,
						      .last_modified = !row->tool_meta });
}

static bool has_text(const json_t *content)
{
	size_t i;
	json_t *block;

	json_array_foreach((json_t *)(uintptr_t)content, i, block)
		if (strcmp(text_of(block, "type"), "text") == 0)
			return true;
	return false;
}

/* Would put_block() write it as jx_write() does? */
static bool is_whole(const struct rev_row *row, const json_t *block)
{
	const json_t *text = json_object_get(block, "text");

	if (!row->icons || !row->audio || !row->resource_link)
		return false;
	return json_object_size(block) != 2 || !json_is_string(text) ||
	       strcmp(json_object_iter_key(json_object_iter((json_t *)(uintptr_t)block)), "type") == 0;
}

/* What has been written already, when this revision shows all of it. */
static bool put_written(struct str *out, enum rev rev, const struct enc_result *r)
{
	size_t i;
	json_t *block;

	if (!r->content_text.p || r->text || (r->structured && !has_text(r->content)))
		return false;
	json_array_foreach((json_t *)(uintptr_t)r->content, i, block)
		if (!is_whole(&rev_table[rev], block))
			return false;
	str_put(out, r->content_text.p, r->content_text.len);
	return true;
}

/* An answer without a text gets its structured part as one. */
static void put_structured_text(struct str *out, const struct enc_result *r)
{
	struct str copy = STR_INIT;

	if (r->structured_text.p) {
		put_text(out, r->structured_text.p, r->structured_text.len);
		return;
	}
	jx_write(r->structured, &copy);
	put_text(out, str_text(&copy), copy.len);
	str_fini(&copy);
}

/* Content blocks of a tool's result for a revision; ensures a text block when `structured` is there (MCP T-27). */
static void content_write(struct str *out, enum rev rev, const struct enc_result *r)
{
	size_t i;
	json_t *block;

	if (put_written(out, rev, r))
		return;
	str_putc(out, '[');
	if (r->text)
		put_text(out, r->text, strlen(r->text));
	json_array_foreach((json_t *)(uintptr_t)r->content, i, block) {
		if (i || r->text)
			str_putc(out, ',');
		put_block(out, rev, block);
	}
	if (r->structured && !r->text && !has_text(r->content)) {
		if (json_array_size(r->content))
			str_putc(out, ',');
		put_structured_text(out, r);
	}
	str_putc(out, ']');
}

static void content_write_messages(struct str *out, enum rev rev, const json_t *messages)
{
	size_t i;
	json_t *message;

	str_putc(out, '[');
	json_array_foreach((json_t *)(uintptr_t)messages, i, message) {
		str_puts(out, i ? ",{\"role\":" : "{\"role\":");
		jx_write_stringz(out, text_of(message, "role"));
		str_puts(out, ",\"content\":");
		put_block(out, rev, json_object_get(message, "content"));
		str_putc(out, '}');
	}
	str_putc(out, ']');
}

/* Messages of a prompt, parts of a resource. */
static void content_write_parts(struct str *out, enum rev rev, const json_t *parts)
{
	size_t i;
	json_t *part;

	str_putc(out, '[');
	json_array_foreach((json_t *)(uintptr_t)parts, i, part) {
		if (i)
			str_putc(out, ',');
		put_object(out, part, (struct drop){ .meta = !rev_table[rev].tool_meta });     /* MCP M-02 */
	}
	str_putc(out, ']');
}

/* The texts of all text blocks, a newline between them. */
static void join_text(const struct enc_result *r, struct str *ret)
{
	size_t i;
	json_t *block;

	if (r->text)
		str_puts(ret, r->text);
	json_array_foreach((json_t *)(uintptr_t)r->content, i, block) {
		const json_t *text = json_object_get(block, "text");

		if (strcmp(text_of(block, "type"), "text") != 0)
			continue;
		if (ret->len)
			str_putc(ret, '\n');
		str_put(ret, json_string_value(text), json_string_length(text));
	}
}

static void put_failure(struct str *out, const struct enc_result *r, const struct str *text)
{
	const json_t *status = json_object_get(r->structured, "status");

	str_puts(out, "{\"error\":");
	jx_write_string(out, str_text(text), text->len);
	str_puts(out, ",\"status\":");
	if (json_is_string(status) || json_is_integer(status))
		jx_write(status, out);
	else
		str_puts(out, "\"error\"");
	str_putc(out, '}');
}

/* The value of R0's toolResult (MCP D). */
static void content_write_tool_result(struct str *out, const struct enc_result *r)
{
	struct str text = STR_INIT;
	json_t *parsed = NULL;

	join_text(r, &text);
	if (r->is_error) {
		put_failure(out, r, &text);
	} else if (r->structured) {
		jx_write(r->structured, out);
	} else if (json_array_size(r->content) == 1 && text.len &&
		   jx_parse(text.p, text.len, &parsed, NULL) == 0) {
		jx_write(parsed, out);
	} else {
		jx_write_string(out, str_text(&text), text.len);
	}
	json_decref(parsed);
	str_fini(&text);
}

/* --- messages */

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
	if (s->text && rev_table[rev].title) {
		str_puts(out, s->text);
		return;
	}
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

char *enc_server_text(const struct enc_server *s)
{
	const struct enc_server plain = { s->name, s->title, s->version, NULL };
	struct str text = STR_INIT;

	put_server(&text, REV_R5, &plain);
	return str_take(&text);
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

	if ((!modern(to->rev) || !to->server) && !r->call_id && !r->meta)
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
	if (modern(to->rev) && to->server) {    /* MCP M-08 */
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
	if (modern(rev) || (has & ENC_HAS_PAGES)) {     /* TK-01, UI-03 */
		str_printf(out, "\"extensions\":{%s%s%s},", modern(rev) ? "\"" CAP_TASKS_NAME "\":{}" : "",
			   modern(rev) && (has & ENC_HAS_PAGES) ? "," : "",
			   has & ENC_HAS_PAGES ? "\"" CAP_UI_NAME "\":{}" : "");
	}
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

static void put_time(struct str *out, const char *name, uint64_t us)
{
	char text[32];

	str_puts(out, name);
	str_put(out, clock_format_utc(us, text, sizeof(text)), strlen("2026-07-28T12:00:00.000"));
	str_puts(out, "Z\"");
}

/* TK-05 */
static void put_task(struct str *out, const struct enc_task *t)
{
	comma(out);
	str_puts(out, "\"taskId\":");
	jx_write_stringz(out, t->id);
	str_puts(out, ",\"status\":");
	jx_write_stringz(out, t->status);
	if (t->message && *t->message) {
		str_puts(out, ",\"statusMessage\":");
		jx_write_stringz(out, t->message);
	}
	put_time(out, ",\"createdAt\":\"", t->created_us);
	put_time(out, ",\"lastUpdatedAt\":\"", t->updated_us);
	str_puts(out, ",\"ttlMs\":");
	str_put_u64(out, t->ttl_ms);
	str_puts(out, ",\"pollIntervalMs\":");
	str_put_u64(out, t->poll_ms);
	if (t->part) {
		str_puts(out, ",\"");
		str_puts(out, t->part);
		str_puts(out, "\":");
		str_put(out, t->text, t->text_len);
	}
}

static const char *result_type(enum enc_kind kind)
{
	return kind == ENC_INPUT ? "input_required" : kind == ENC_TASK ? "task" : "complete";
}

void encode_result(struct str *out, const struct enc_to *to, const struct enc_result *r)
{
	put_head(out, to->id);
	str_puts(out, ",\"result\":");
	encode_result_object(out, to, r);
	str_putc(out, '}');
}

void encode_result_object(struct str *out, const struct enc_to *to, const struct enc_result *r)
{
	str_putc(out, '{');
	if (modern(to->rev)) {  /* MCP J-12, J-13 */
		str_puts(out, "\"resultType\":\"");
		str_puts(out, result_type(r->kind));
		str_putc(out, '"');
	}
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
	case ENC_TASK:
	case ENC_TASK_STATE:
		put_task(out, r->task);
		break;
	case ENC_EMPTY:
	case ENC_LISTEN_END:
		break;
	}
	put_meta(out, to, r);
	str_putc(out, '}');
}

void encode_error_object(struct str *out, const struct rpc_error *e)
{
	str_puts(out, "{\"code\":");
	str_put_i64(out, e->code);
	str_puts(out, ",\"message\":");
	jx_write_string(out, str_text(&e->message), e->message.len);
	if (e->data.len) {
		str_puts(out, e->whole ? ",\"data\":" : ",\"data\":{");
		str_put(out, e->data.p, e->data.len);
		if (!e->whole)
			str_putc(out, '}');
	}
	str_putc(out, '}');
}

void encode_error(struct str *out, const struct enc_to *to, const struct rpc_error *e)
{
	if (to->id.p) {
		put_head(out, to->id);
	} else {                /* MCP B-05 */
		bool omit = to->rev == REV_R4 || to->rev == REV_R5;

		str_puts(out, omit ? "{\"jsonrpc\":\"2.0\"" : "{\"jsonrpc\":\"2.0\",\"id\":null");
	}
	str_puts(out, ",\"error\":");
	encode_error_object(out, e);
	str_putc(out, '}');
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

void encode_task_notice(struct str *out, struct jx_span subscription, const struct enc_task *task)
{
	put_notice(out, "notifications/tasks");
	str_puts(out, ",\"params\":{");
	put_task(out, task);
	str_putc(out, ',');
	put_subscription(out, subscription);
	str_puts(out, "}}");
}

static void put_texts(struct str *out, const char *member, const char *const *texts, size_t n)
{
	if (n == 0)
		return;
	comma(out);
	str_puts(out, member);
	for (size_t i = 0; i < n; i++) {
		comma(out);
		jx_write_stringz(out, texts[i]);
	}
	str_putc(out, ']');
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
	put_texts(out, "\"resourceSubscriptions\":[", filter->uris, filter->nuris);
	put_texts(out, "\"taskIds\":[", filter->tasks, filter->ntasks);
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
