/* Fuzz target: what a server that is an upstream may say.  The first byte chooses: 's' feeds the rest to the reader of
 * events in pieces; else it is lines of a link, with calls of ours in its midst, whose results and whose lists are made into
 * ours. */

#include "config.h"

#include <string.h>

#include "../../src/upstream/mcp_int.h"
#include "../../src/upstream/link_http_int.h"
#include "../unit/fake_wire.h"
#include "../unit/handler_table.h"
#include "base/mem.h"
#include "fuzz.h"

#define CALLS 3

struct seen { unsigned ends, asks; struct link_call *call; };

static void on_progress(void *arg, double done, double total, const char *note)
{
	FUZZ_CHECK(done >= 0 && total >= -1);
	FUZZ_CHECK(((struct seen *)arg)->ends == 0);
}

static void on_log(void *arg, int level, const char *logger, json_t *data)
{
	FUZZ_CHECK(level >= 0 && level <= 7 && data);
	json_decref(data);
}

static int on_question(void *arg, const char *handle, const char *method, json_t *params)
{
	struct seen *s = arg;

	FUZZ_CHECK(strlen(handle) == LINK_HANDLE_SIZE - 1 && params);
	json_decref(params);
	if (s->asks++ % 2)
		return ERR_CAPABILITY;
	s->call = NULL;
	s->ends++;
	return 0;
}

static void end(struct seen *s)
{
	s->ends++;
	FUZZ_CHECK(s->ends == 1);
	s->call = NULL;
}

/* As each kind could get it: what is taken has the form that is promised. */
static void take(struct jx_span span)
{
	static const struct mcp_plan plans[] = { { .kind = UPSTREAM_TOOL }, { .kind = UPSTREAM_PROMPT }, { .kind = UPSTREAM_RESOURCE },
		{ .kind = UPSTREAM_PROMPT, .argument = "a" } };

	static const char *const origins[] = { "https://a" };
	const struct upstream_conf conf = { .uri_prefix = "u+", .ui = { .given = true, .connect = origins, .nconnect = 1 } };

	for (size_t i = 0; i < NELEMS(plans); i++) {
		struct backend_result res = { .content = NULL };
		json_t *result = NULL;
		struct err err;

		if (jx_parse_scanned(span.p, span.len, &result, &err) < 0 || !json_is_object(result)) {
			json_decref(result);
			return;
		}
		if (mcp_take(&plans[i], &conf, result, &res, &err) == 0) {
			FUZZ_CHECK(json_is_array(res.content) && content_check_all(res.content, "", &err) == 0);
			FUZZ_CHECK(i == 0 || json_is_object(res.structured));
			json_decref(res.content);
			json_decref(res.structured);
			json_decref(res.meta);
		} else {
			FUZZ_CHECK(err.msg[0]);
		}
		json_decref(result);
	}
}

static void on_result(void *arg, struct jx_span result)
{
	FUZZ_CHECK(result.p && result.len > 0);
	take(result);
	end(arg);
}

/* Each item becomes a document with a handler, or the reason why not is said. */
static void on_list(void *arg, struct upstream_list *list, const struct err *why)
{
	struct upstream_naming naming = { .upstream = "u", .prefix = "u_", .uri_prefix = "u+" };

	FUZZ_CHECK(!list == (why != NULL));
	for (size_t i = 0; list && i < 2 * list->count; i++) {
		const struct upstream_item *t = &list->item[i / 2];
		struct arena *mem = arena_new(1 << 20);
		const struct backend_ops *ops;
		const void *plan;
		json_t *doc = NULL;
		struct err err;

		naming.marked = i % 2;
		if (upstream_document(&naming, t, &doc, &err) == 0)
			FUZZ_CHECK(json_is_string(json_object_get(doc, "name")) &&
				   bind_handler(json_object_get(doc, "handler"), mem, &ops, &plan, &err) == 0);
		else
			FUZZ_CHECK(err.msg[0]);
		json_decref(doc);
		arena_free(&mem);
	}
	upstream_list_free(&list);
}

static void on_error(void *arg, int code, const char *message, json_t *data)
{
	FUZZ_CHECK(*message);
	json_decref(data);
	end(arg);
}

static void on_failed(void *arg, const struct err *err)
{
	FUZZ_CHECK(err->code < 0 && err->msg[0]);
	end(arg);
}

static void fuzz_link(const char *p, size_t size, bool asks, enum link_era era)
{
	static const struct link_call_sink sink = { on_progress, on_log, on_question, on_result, on_error, on_failed };
	struct seen seen[CALLS] = { { 0, 0, NULL } };
	struct fake f;

	fake_begin(&f, asks, era);
	(void)link_list(f.link, on_list, NULL);
	link_watch(f.link, "a:b", true, true);
	for (unsigned i = 0; i < CALLS; i++) {
		struct str params = STR_INIT;
		const struct link_call_req req = { .who = i % 2 ? "1/bot" : "1/ann", .recorded = true, .method = "tools/call", .name = "echo", .key = "echo",
			.params = &params };

		str_puts(&params, "\"name\":\"echo\",\"arguments\":{}");
		if (link_call_start(f.link, &req, &sink, &seen[i], &seen[i].call, NULL) < 0)
			seen[i].ends++;
		str_fini(&params);
	}
	for (const char *e = p + size; p < e; ) {
		const char *nl = memchr(p, '\n', (size_t)(e - p)), *stop = nl ? nl : e;

		if (stop > p)
			fake_say(&f, p, (size_t)(stop - p));
		p = stop + 1;
	}
	if (seen[0].call)
		link_call_cancel(&seen[0].call, true);
	fake_end(&f);
	for (unsigned i = 1; i < CALLS; i++)
		FUZZ_CHECK(seen[i].ends == 1);          /* each call of a link has one end */
}

static bool on_event(void *arg, const char *event, const char *data, size_t len)
{
	str_printf(arg, "%s:", event);
	str_put(arg, data, len);
	str_putc(arg, '|');
	return true;
}

static void feed(const char *p, size_t size, size_t n, struct str *out)
{
	struct link_sse s;

	link_sse_init(&s);
	for (size_t at = 0; at < size; at += n)
		FUZZ_CHECK(link_sse_feed(&s, p + at, size - at < n ? size - at : n, on_event, out) == 0);
	link_sse_fini(&s);
}

FUZZ_TARGET(upstream)
{
	const char *p = (const char *)data;

	if (size == 0)
		return 0;
	if (*p == 's') {
		struct str whole = STR_INIT, pieces = STR_INIT;

		feed(p + 1, size - 1, size, &whole);
		feed(p + 1, size - 1, 1 + size % 7, &pieces);
		FUZZ_CHECK(whole.len == pieces.len && memcmp(str_text(&whole), str_text(&pieces), whole.len) == 0);
		str_fini(&whole);
		str_fini(&pieces);
	} else {
		fuzz_link(p + 1, size - 1, *p == 'a', *p == 'm' ? LINK_ERA_UNKNOWN : LINK_ERA_LEGACY);
	}
	return 0;
}
