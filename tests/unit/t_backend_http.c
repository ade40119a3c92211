/* The http handler: what it sends, what an answer becomes, what it does not do. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "../../src/handlers/http_int.h"
#include "backend_run.h"
#include "../unit/handler_table.h"
#include "base/mem.h"
#include "base/clock.h"
#include "base/text.h"
#include "ev/ev.h"
#include "json/json.h"
#include "base/metric.h"
#include "net/breaker.h"
#include "proto/trace.h"

#include "../unit/http_peer.h"
#include "suite.h"

#define OK_EMPTY "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

static struct peer peer;

static int set_up(void **state)
{
	peer_open(&peer, run_loop(), "127.0.0.1:0");
	return 0;
}

static int tear_down(void **state)
{
	peer_close(&peer);
	return 0;
}

/* block: members of the handler behind type, url and allow; ' for ". */
static json_t *handler(const char *path, const char *block)
{
	char *text = mem_printf("{'type':'http','url':'http://127.0.0.1:%u%s','allow':{'private':true}%s%s}", peer.port, path,
				*block ? "," : "", block);
	json_t *h = handler_json(text);

	free(text);
	return h;
}

static void call(struct run *r, const char *path, const char *block, const char *args)
{
	run_it(r, handler(path, block), OPTS(.args = args));
}

/* An answer with this Content-Type ("" = none) and body. */
static void answers(int status, const char *type, const char *body, size_t len)
{
	static struct str s;

	str_reset(&s);
	str_printf(&s, "HTTP/1.1 %d Whatever\r\n%s%s%sContent-Length: %zu\r\n\r\n", status, *type ? "Content-Type: " : "", type,
		   *type ? "\r\n" : "", len);
	str_put(&s, body, len);
	peer.answer = s.p;
	peer.answer_len = s.len;
	peer.keep = true;
}
#define ANSWERS(status, type, body) answers(status, type, body, strlen(body))

/* --- definitions --------------------------------------------------------------------------------- */

static int bind_it(json_t *h, struct err *err)
{
	struct arena *mem = arena_new(1 << 20);
	const struct backend_ops *ops = NULL;
	const void *plan = NULL;

	*err = (struct err){ 0 };
	int rc = bind_handler(h, mem, &ops, &plan, err);
	json_decref(h);
	arena_free(&mem);
	return rc;
}

static void wrong_definitions_are_refused_at_the_place(void **state)
{
	static const struct { const char *handler, *where, *msg, *hint; } bad[] = {
		{ "{'type':'http'}", "/url", "missing", "" },
		{ "{'type':'http','url':'https://h/','metod':'GET'}", "/metod", "", "method" },
		{ "{'type':'http','url':'https://h/','method':'get'}", "/method", "must be GET", "" },
		{ "{'type':'http','url':'https://h/','method':'CONNECT'}", "/method", "must be GET", "" },
		{ "{'type':'http','url':'http://h/'}", "/url", "plain http", "h:80" },
		{ "{'type':'http','url':'https://h:1/'}", "/url", "port 1", "h:1" },
		{ "{'type':'http','url':'https://10.0.0.1/'}", "/url", "private address", "private: true" },
		{ "{'type':'http','url':'https://169.254.169.254/','allow':{'private':true}}", "/url", "link-local", "" },
		{ "{'type':'http','url':'https://h/','allow':{'hosts':['h']}}", "/allow/hosts/0", "neither", "" },
		{ "{'type':'http','url':'https://h/','allow':{'hosts':[1]}}", "/allow/hosts/0", "must be a text", "" },
		{ "{'type':'http','url':'https://h/','allow':{'prvate':true}}", "/allow/prvate", "", "private" },
		{ "{'type':'http','url':'https://h/','ca':'ca.pem'}", "/ca", "absolute", "" },
		{ "{'type':'http','url':'https://h/','headers':{'Host':'x'}}", "/headers/Host", "belongs to the connection", "" },
		{ "{'type':'http','url':'https://h/','headers':{'a b':'x'}}", "/headers/a b", "not a header name", "" },
		{ "{'type':'http','url':'https://h/','headers':{'{/a}':'x'}}", "/headers/{~1a}", "not a header name", "" },
		{ "{'type':'http','url':'https://h/','headers':{'A':'x\\ny'}}", "/headers/A", "control characters", "" },
		{ "{'type':'http','url':'https://h/','headers':{'A':'x','a':'y'}}", "/headers/a", "twice", "" },
		{ "{'type':'http','url':'https://h/','headers':{'A':1}}", "/headers/A", "must be a string", "" },
		{ "{'type':'http','url':'https://h/','query':{'A':'{/x'}}", "/query/A", "lone {", "" },
		{ "{'type':'http','url':'https://h/','body':'arguments'}", "/body", "GET has no body", "" },
		{ "{'type':'http','url':'https://h/','method':'POST','body':1}", "/body", "must be arguments", "" },
		{ "{'type':'http','url':'https://h/','method':'POST','body':{'a':['{/x']}}", "/body/a/0", "lone {", "" },
		{ "{'type':'http','url':'https://h/','method':'POST','body':'[{/a}]','headers':{'content-type':'application/json'}}",
		  "/body", "would not be encoded", "as an object" },
		{ "{'type':'http','url':'https://h/','method':'POST','body':{'a':{}},"
		  "'headers':{'content-type':'application/x-www-form-urlencoded'}}", "/body", "plain values", "" },
		{ "{'type':'http','url':'https://h/','encoding':'base64'}", "/encoding", "one argument", "" },
		{ "{'type':'http','url':'https://h/','method':'POST','body':'x{/b}','encoding':'base64'}", "/encoding", "one argument", "" },
		{ "{'type':'http','url':'https://h/','method':'POST','body':{'b':'{/b}'},'encoding':'base64'}", "/encoding", "one argument", "" },
		{ "{'type':'http','url':'https://h/','method':'POST','body':'{/b}','encoding':'hex'}", "/encoding", "must be base64", "" },
		{ "{'type':'http','url':'https://h/','result':'json'}", "/result", "must be auto or text", "" },
		{ "{'type':'http','url':'https://h/','result':{'pointer':'data'}}", "/result/pointer", "JSON pointer", "" },
		{ "{'type':'http','url':'https://h/','result':{}}", "/result/pointer", "missing", "" },
	};

	for (size_t i = 0; i < NELEMS(bad); i++) {
		struct err err;
		int rc = bind_it(handler_json(bad[i].handler), &err);
		if (rc != ERR_INVALID || strcmp(err.where, bad[i].where) != 0 || !strstr(err.msg, bad[i].msg) ||
		    !strstr(err.hint, bad[i].hint))
			fail_msg("%s: %d %s: %s (%s)", bad[i].handler, rc, err.where, err.msg, err.hint);
	}
}

static void members_at_their_limit_are_taken_and_one_more_is_not(void **state)
{
	static const char *const members[] = { "headers", "query" };
	struct err err;

	for (size_t m = 0; m < 2; m++) {
		for (int over = 0; over < 2; over++) {
			json_t *map = json_object();
			char name[10];
			for (int i = 0; i < HTTP_PAIRS_MAX + over; i++) {
				snprintf(name, sizeof(name), "x%d", i);
				json_object_set_new(map, name, json_string("v"));
			}
			json_t *h = json_pack("{s:s, s:s, s:o}", "type", "http", "url", "https://h/", members[m], map);
			assert_int_equal(bind_it(h, &err), over ? ERR_LIMIT : 0);
		}
	}
	for (int over = 0; over < 2; over++) {
		json_t *list = json_array(), *hosts = json_array();
		for (int i = 0; i < HTTP_BODY_NODES_MAX + over; i++)
			json_array_append_new(list, json_integer(i));
		for (int i = 0; i < FETCH_ALLOW_MAX + over; i++)
			json_array_append_new(hosts, json_string("h:1"));
		assert_int_equal(bind_it(json_pack("{s:s, s:s, s:s, s:o}", "type", "http", "method", "POST", "url", "https://h/", "body",
						list), &err), over ? ERR_LIMIT : 0);
		assert_int_equal(bind_it(json_pack("{s:s, s:s, s:{s:o}}", "type", "http", "url", "https://h/", "allow", "hosts", hosts),
				      &err), over ? ERR_LIMIT : 0);
	}
}

/* --- requests ------------------------------------------------------------------------------------ */

/* The request that was sent has this part. */
static void sent(const char *part)
{
	if (!strstr(str_text(&peer.seen), part))
		fail_msg("%s\nhas no %s", str_text(&peer.seen), part);
}

static void not_sent(const char *part)
{
	if (strstr(str_text(&peer.seen), part))
		fail_msg("%s\nhas %s", str_text(&peer.seen), part);
}

static void request_is_made_from_templates(void **state)
{
	struct run r;

	peer_says(&peer, OK_EMPTY, true);
	call(&r, "/users/{id}?v=1",
	     "'query':{'q':'{/q}','who':'{principal}@{tenant}','gone':'{/gone}'},'headers':{'X-A':'a {/q}','X-Gone':'{/gone}'}",
	     "{\"id\":\"a/b\",\"q\":\"x&y=\\u00e9\"}");
	assert_int_equal(r.kind, END_RESULT);
	sent("GET /users/a%2Fb?v=1&q=x%26y%3D%C3%A9&who=bot%40acme HTTP/1.1\r\n");
	sent("\r\nX-A: a x&y=\xc3\xa9\r\n");
	not_sent("X-Gone");
	not_sent("Content-");
	run_free(&r);
}

static void bodies_are_encoded_for_their_type(void **state)
{
	static const struct { const char *block, *args, *type, *body; } list[] = {
		{ "'body':'arguments'", "{\"b\": 1.50,\"a\":\"x\"}", "application/json", "{\"b\": 1.50,\"a\":\"x\"}" },
		{ "'body':{'n':'{/n}','t':'{/t}','s':'<{/s}>','l':[1,'{/gone}',true,null],'o':{'gone':'{/gone}'}}",
		  "{\"n\":1.50,\"t\":[1, 2],\"s\":\"\\\"}\"}", "application/json",
		  "{\"n\":1.50,\"t\":[1, 2],\"s\":\"<\\\"}>\",\"l\":[1,null,true,null],\"o\":{}}" },
		{ "'body':['{/s}']", "{\"s\":\"a\\nb\"}", "application/json", "[\"a\\nb\"]" },
		{ "'body':{'a':'{/a}','l':'{/l}','n':3,'gone':'{/gone}'},'headers':{'Content-Type':'application/x-www-form-urlencoded'}",
		  "{\"a\":\"x&y\",\"l\":[\"p q\",1]}", "application/x-www-form-urlencoded", "a=x%26y&l=p%20q&l=1&n=3" },
		{ "'body':'say {/s}!'", "{\"s\":\"hi\"}", "text/plain; charset=utf-8", "say hi!" },
		{ "'body':'{/x}','headers':{'content-type':'application/sql'}", "{\"x\":\"SELECT 1\"}", "application/sql", "SELECT 1" },
		{ "'body':'{/b}','encoding':'base64'", "{\"b\":\"aGk+Lw==\"}", "application/octet-stream", "hi>/" },
		{ "'body':'{/b}','encoding':'base64','headers':{'content-type':'image/x'}", "{\"b\":\"\"}", "image/x", "" },
		{ "'body':'{/b}','encoding':'{/e}'", "{\"b\":\"aGk=\"}", "application/octet-stream", "hi" },
		{ "'body':'{/b}','encoding':'{/e}'", "{\"b\":\"aGk=\",\"e\":\"base64\"}", "application/octet-stream", "hi" },
		{ "'body':'{/b}','encoding':'{/e}'", "{\"b\":\"aGk=\",\"e\":\"text\"}", "application/octet-stream", "aGk=" },
		{ "'body':'{{}}','headers':{'content-type':'application/json'}", "{}", "application/json", "{}" },
		{ "'body':'{/v}','headers':{'content-type':'application/json'}", "{\"v\":[1.50, \"x\"]}", "application/json", "[1.50, \"x\"]" },
		{ "'body':'{/v}','headers':{'content-type':'application/json'}", "{\"v\":\"a\\nb\"}", "application/json", "\"a\\nb\"" },
		{ "'body':'{/v}','headers':{'content-type':'application/x+json; v=1'}", "{\"v\":true}", "application/x+json; v=1", "true" },
		{ "'body':'{/v}','headers':{'content-type':'application/json'}", "{}", "application/json", "" },
	};

	for (size_t i = 0; i < NELEMS(list); i++) {
		char *block = mem_printf("'method':'POST',%s", list[i].block), *type = mem_printf("ype: %s\r\n", list[i].type);
		struct run r;
		peer_says(&peer, OK_EMPTY, true);
		call(&r, "/", block, list[i].args);
		assert_int_equal(r.kind, END_RESULT);
		sent(type);
		assert_string_equal(strstr(str_text(&peer.seen), "\r\n\r\n") + 4, list[i].body);
		run_free(&r);
		free(block);
		free(type);
	}
}

/* SEC S-345 */
static void secrets_go_out_and_do_not_come_back(void **state)
{
	struct run r;

	run_secret_set("token", "S3cr3t-value");
	answers(200, "application/json", "{\"echo\":\"S3cr3t-value\"}", 23);
	call(&r, "/", "'method':'POST','headers':{'Authorization':'Bearer {secret:token}'},'query':{'k':'{secret:token}'},"
	     "'body':{'k':'{secret:token}'}", "{}");
	sent("\r\nAuthorization: Bearer S3cr3t-value\r\n");
	sent("POST /?k=S3cr3t-value HTTP/1.1");
	sent("{\"k\":\"S3cr3t-value\"}");
	assert_int_equal(r.kind, END_RESULT);
	run_free(&r);
	call(&r, "/", "'headers':{'A':'{secret:missing}'}", "{}");
	assert_int_equal(r.kind, END_ERROR);
	assert_int_equal(r.err.code, ERR_TOOL);
	assert_non_null(strstr(r.err.msg, "missing"));
	run_free(&r);
}

static void arguments_that_would_bend_the_request_send_nothing(void **state)
{
	static const struct { const char *path, *block, *args, *msg; } list[] = {
		{ "/a/{x}/b", "", "{\"x\":\"..\"}", ". or .." },
		{ "/{x}", "", "{\"x\":\".\"}", ". or .." },
		{ "/{+x}", "", "{\"x\":\"a/../b\"}", ". or .." },
		{ "/{+x}", "", "{\"x\":\"..\"}", ". or .." },
		{ "/", "'headers':{'A':'{/x}'}", "{\"x\":\"a\\r\\nB: c\"}", "control characters" },
		{ "/", "'headers':{'A':'{/x}'}", "{\"x\":\"a\\u0000\"}", "U+0000" },
		{ "/", "'query':{'a':'<{/x}>'}", "{}", "/x is missing" },
		{ "/{x}", "", "{}", "x is missing" },
		{ "/", "'method':'POST','body':'{/b}','encoding':'base64'", "{\"b\":\"aGk\"}", "no base64" },
		{ "/", "'method':'POST','body':'{/b}','encoding':'base64'", "{\"b\":\"aG\\nk=\"}", "no base64" },
		{ "/", "'method':'POST','body':'{/b}','encoding':'{/e}'", "{\"b\":\"aGk=\",\"e\":\"hex\"}", "base64 or text" },
	};

	for (size_t i = 0; i < NELEMS(list); i++) {
		struct run r;
		call(&r, list[i].path, list[i].block, list[i].args);
		assert_int_equal(r.kind, END_ERROR);
		if (r.err.code != ERR_TOOL || !strstr(r.err.msg, list[i].msg))
			fail_msg("%s %s: %s", list[i].path, list[i].args, r.err.msg);
		run_free(&r);
	}
	assert_int_equal(peer.connections, 0);
}

static void url_of_arguments_is_bounded(void **state)
{
	struct str args = STR_INIT;
	struct run r;

	str_puts(&args, "{\"x\":\"");
	for (int i = 0; i < URL_MAX; i++)
		str_putc(&args, 'a');
	str_puts(&args, "\"}");
	call(&r, "/{x}", "", str_text(&args));
	assert_int_equal(r.kind, END_ERROR);
	assert_int_equal(r.err.code, ERR_LIMIT);
	run_free(&r);
	str_fini(&args);
}

static void body_at_its_limit_is_made_and_one_byte_more_is_not(void **state)
{
	struct arena *mem = arena_new(1 << 20);
	const struct backend_ops *ops = NULL;
	const void *plan = NULL;
	struct err err;

	json_t *h = handler_json("{'type':'http','url':'https://h/','method':'POST','body':'{/a}{/a}{/b}'}");
	assert_int_equal(bind_handler(h, mem, &ops, &plan, &err), 0);
	json_decref(h);
	char *half = mem_alloc(HTTP_SEND_MAX / 2);
	memset(half, 'x', HTTP_SEND_MAX / 2);
	for (int over = 0; over < 2; over++) {
		struct http_message m;
		json_t *args = json_object();
		json_object_set_new(args, "a", json_stringn(half, HTTP_SEND_MAX / 2));
		json_object_set_new(args, "b", json_string(over ? "y" : ""));
		const struct backend_req req = { .args = args, .tenant = "acme", .principal = "bot" };
		assert_int_equal(http_message_make(plan, &req, &m, &err), over ? ERR_LIMIT : 0);
		assert_int_equal(m.body_len, over ? 0 : HTTP_SEND_MAX);
		http_message_fini(&m);
		json_decref(args);
	}
	free(half);
	arena_free(&mem);
}

/* The most headers that there can be, with a body's type and the caller's trace (OP-404). */
static void trace_goes_along_unless_the_definition_says_otherwise(void **state)
{
	static const struct { const char *more; size_t want; const char *last, *value; } cases[] = {
		{ "", HTTP_PAIRS_MAX + 3, "tracestate", "a=1" },
		{ ",'trace':true", HTTP_PAIRS_MAX + 3, "tracestate", "a=1" },
		{ ",'trace':false", HTTP_PAIRS_MAX + 1, "Content-Type", "application/json" },
	};
	const struct trace trace = { .parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", .state = "a=1" };

	for (size_t i = 0; i <= NELEMS(cases); i++) {
		const bool own = i == NELEMS(cases);    /* one of them is the definition's own */
		struct arena *mem = arena_new(1 << 20);
		struct str text = STR_INIT;
		const struct backend_ops *ops = NULL;
		const void *plan = NULL;
		struct http_message m;
		struct err err;
		json_t *h, *args = json_object();

		str_puts(&text, "{'type':'http','url':'https://h/','method':'POST','body':'arguments','headers':{");
		for (int n = 0; n < HTTP_PAIRS_MAX - own; n++)
			str_printf(&text, "%s'X-%d':'v'", n > 0 ? "," : "", n);
		str_printf(&text, "%s}%s}", own ? ",'TraceParent':'mine'" : "", own ? "" : cases[i].more);
		h = handler_json(str_text(&text));
		assert_int_equal(bind_handler(h, mem, &ops, &plan, &err), 0);
		const struct backend_req req = { .args = args, .tenant = "acme", .principal = "bot", .trace = &trace };
		assert_int_equal(http_message_make(plan, &req, &m, &err), 0);
		assert_int_equal(m.nheaders, own ? HTTP_PAIRS_MAX + 1 : cases[i].want);
		if (!own) {
			assert_string_equal(m.headers[m.nheaders - 1].name, cases[i].last);
			assert_string_equal(m.headers[m.nheaders - 1].value, cases[i].value);
		}
		http_message_fini(&m);
		json_decref(args);
		json_decref(h);
		str_fini(&text);
		arena_free(&mem);
	}
}

/* --- answers ------------------------------------------------------------------------------------- */

static const char *block_text(const struct run *r, const char *member)
{
	const char *text = json_string_value(json_object_get(json_array_get(r->res.content, 0), member));

	return text ? text : "";
}

static void json_becomes_structured_content_and_text(void **state)
{
	static const char *const types[] = { "application/json", "Application/JSON; charset=utf-8", "application/problem+json",
					     "text/json", "" };

	for (size_t i = 0; i < NELEMS(types); i++) {
		struct run r;
		ANSWERS(200, types[i], "{\"n\": 1.50, \"l\": [1]}");
		call(&r, "/", "", "{}");
		assert_int_equal(r.kind, END_RESULT);
		assert_true(r.res.has_xstat);
		assert_int_equal(r.res.xstat, 200);
		assert_string_equal(run_text(&r), "{\"n\": 1.50, \"l\": [1]}");
		assert_int_equal(json_integer_value(json_array_get(json_object_get(r.res.structured, "l"), 0)), 1);
		run_free(&r);
	}
}

static void number_that_no_tree_holds_stays_in_the_text(void **state)
{
	struct str body = STR_INIT;
	struct run r;

	for (size_t over = 0; over < 2; over++) {
		str_reset(&body);
		str_puts(&body, "{\"n\":");
		for (size_t i = 0; i < JX_DIGITS_MAX + over; i++)
			str_putc(&body, '1');
		str_putc(&body, '}');
		answers(200, "application/json", body.p, body.len);
		call(&r, "/", "", "{}");
		assert_int_equal(r.kind, END_RESULT);
		assert_string_equal(run_text(&r), body.p);
		assert_int_equal(r.res.structured == NULL, over);
		run_free(&r);
	}
	str_fini(&body);
}

static void pointer_takes_a_part(void **state)
{
	struct run r;

	ANSWERS(200, "application/json", "{\"data\":{\"items\":[{\"a\":1}]},\"s\":\"x\\ny\",\"z\":null}");
	call(&r, "/", "'result':{'pointer':'/data/items'}", "{}");
	assert_string_equal(run_text(&r), "[{\"a\":1}]");
	assert_true(json_is_array(r.res.structured));
	run_free(&r);
	call(&r, "/", "'result':{'pointer':'/s'}", "{}");
	assert_string_equal(run_text(&r), "x\ny");
	run_free(&r);
	call(&r, "/", "'result':{'pointer':'/z'}", "{}");
	assert_string_equal(run_text(&r), "null");
	run_free(&r);
	call(&r, "/", "'result':{'pointer':'/data/missing'}", "{}");
	assert_int_equal(r.kind, END_ERROR);
	assert_int_equal(r.err.code, ERR_TOOL);
	assert_non_null(strstr(r.err.msg, "has no /data/missing"));
	run_free(&r);
}

static void text_stays_text(void **state)
{
	static const char *const types[] = { "text/html", "text/csv; charset=utf-8", "application/xml", "application/x-ndjson", "" };
	struct run r;

	for (size_t i = 0; i < NELEMS(types); i++) {
		ANSWERS(200, types[i], "<p>h\xc3\xa9</p>");
		call(&r, "/", "", "{}");
		assert_int_equal(r.kind, END_RESULT);
		assert_string_equal(run_text(&r), "<p>h\xc3\xa9</p>");
		assert_null(r.res.structured);
		run_free(&r);
	}
	ANSWERS(200, "application/json", "{\"a\":1}");
	call(&r, "/", "'result':'text'", "{}");
	assert_string_equal(run_text(&r), "{\"a\":1}");
	assert_null(r.res.structured);
	run_free(&r);
	ANSWERS(204, "", "");
	call(&r, "/", "", "{}");
	assert_string_equal(run_text(&r), "HTTP 204 No Content");
	assert_int_equal(r.res.xstat, 204);
	run_free(&r);
}

static void bytes_become_blocks_by_their_type(void **state)
{
	static const struct { const char *type, *block, *mime; } list[] = {
		{ "image/png", "image", "image/png" }, { "Image/SVG+xml; x=y", "image", "image/svg+xml" },
		{ "audio/ogg", "audio", "audio/ogg" }, { "application/pdf", "resource", "application/pdf" },
		{ "application/octet-stream", "resource", "application/octet-stream" },
		{ "", "resource", "application/octet-stream" }, { "nonsense", "resource", "application/octet-stream" },
		{ "a b/c", "resource", "application/octet-stream" },
	};

	for (size_t i = 0; i < NELEMS(list); i++) {
		struct run r;
		answers(200, list[i].type, "\xff\x00\xfe", 3);
		call(&r, "/", "", "{}");
		assert_int_equal(r.kind, END_RESULT);
		assert_string_equal(block_text(&r, "type"), list[i].block);
		const json_t *b = json_array_get(r.res.content, 0), *res = json_object_get(b, "resource");
		assert_string_equal(json_string_value(json_object_get(res ? res : b, "mimeType")), list[i].mime);
		assert_string_equal(json_string_value(json_object_get(res ? res : b, res ? "blob" : "data")), "/wD+");
		if (res)
			assert_string_equal(json_string_value(json_object_get(res, "uri")),
					    "urn:uuid:01020300-0000-0000-0000-000000000000");
		run_free(&r);
	}
}

static void answers_that_lie_fail(void **state)
{
	static const struct { const char *type, *body, *msg; } list[] = {
		{ "application/json", "{\"a\":", "not usable JSON" }, { "application/json", "{\"a\":1,\"a\":2}", "not usable JSON" },
		{ "application/json", "<html>", "not usable JSON" }, { "application/json", "{\"a\":\"\xff\"}", "not usable JSON" },
		{ "text/plain", "\xff\xfe", "not UTF-8" }, { "text/plain", "\xed\xa0\x80", "not UTF-8" },
	};
	struct run r;

	for (size_t i = 0; i < NELEMS(list); i++) {
		ANSWERS(200, list[i].type, list[i].body);
		call(&r, "/", "", "{}");
		assert_int_equal(r.kind, END_ERROR);
		assert_int_equal(r.err.code, ERR_TOOL);
		assert_non_null(strstr(r.err.msg, list[i].msg));
		run_free(&r);
	}
	peer_says(&peer, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", true);
	call(&r, "/", "", "{}");
	assert_int_equal(r.kind, END_ERROR);
	assert_non_null(strstr(r.err.msg, "compressed"));
	run_free(&r);
}

static void status_of_an_error_makes_a_bounded_clean_excerpt(void **state)
{
	struct str body = STR_INIT;
	struct run r;

	ANSWERS(404, "text/plain", "no such\x1b[31m user\nline 2");
	call(&r, "/", "", "{}");
	assert_int_equal(r.kind, END_RESULT);
	assert_true(r.res.is_error);
	assert_int_equal(r.res.xstat, 404);
	assert_string_equal(run_text(&r), "HTTP 404 Not Found\nno such [31m user\nline 2");
	run_free(&r);
	ANSWERS(500, "image/png", "\xff\xfe");
	call(&r, "/", "", "{}");
	assert_true(r.res.is_error);
	assert_string_equal(run_text(&r), "HTTP 500 Internal Server Error (2 bytes of image/png)");
	run_free(&r);
	for (size_t over = 0; over < 3; over++) {       /* the last character has two bytes: it stays or goes as a whole */
		str_reset(&body);
		while (body.len < HTTP_EXCERPT_MAX - 2 + over)
			str_putc(&body, 'x');
		str_puts(&body, "\xc3\xa9");
		answers(400, "text/plain", body.p, body.len);
		call(&r, "/", "", "{}");
		size_t head = strlen("HTTP 400 Bad Request\n");
		const char *text = run_text(&r) + head;
		assert_int_equal(strlen(text), over == 0 ? HTTP_EXCERPT_MAX : HTTP_EXCERPT_MAX - 2 + over + 4);
		assert_int_equal(strcmp(text + strlen(text) - 4, " ...") == 0, over > 0);
		assert_true(text_utf8_valid(text, strlen(text)));
		run_free(&r);
	}
	peer_says(&peer, "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", true);
	call(&r, "/", "", "{}");
	assert_true(r.res.is_error);
	assert_string_equal(run_text(&r), "HTTP 302 Found: redirects are not followed");
	run_free(&r);
	str_fini(&body);
}

static void secret_at_the_cut_of_an_excerpt_does_not_show(void **state)
{
	struct str body = STR_INIT;
	struct run r;

	run_secret_set("token", "S3cr3t-value");
	while (body.len < HTTP_EXCERPT_MAX - 6)
		str_putc(&body, 'x');
	str_puts(&body, "S3cr3t-value");
	answers(400, "text/plain", body.p, body.len);
	call(&r, "/", "'headers':{'A':'{secret:token}'}", "{}");
	assert_true(r.res.is_error);
	assert_null(strstr(run_text(&r), "S3cr3"));
	run_free(&r);
	str_fini(&body);
}

/* --- tries --------------------------------------------------------------------------------------- */

static unsigned after;          /* so many answers with 503, then 200 */
static const char *busy_head;

static void busy_first(struct peer *p)
{
	static char busy[200];

	snprintf(busy, sizeof(busy), "HTTP/1.1 503 Busy\r\n%sContent-Length: 0\r\n\r\n", busy_head);
	peer_says(p, p->requests <= after ? busy : "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true);
}

static void tries(const char *method, unsigned busy, const char *head, uint64_t timeout_us, struct run *r)
{
	char *block = mem_printf("'method':'%s'", method);

	peer.choose = busy_first;
	peer.requests = 0;
	after = busy;
	busy_head = head;
	run_it(r, handler("/", block), OPTS(.timeout_us = timeout_us));
	free(block);
}

static void idempotent_requests_are_tried_again(void **state)
{
	static const char *const methods[] = { "GET", "PUT", "DELETE", "HEAD" };
	uint64_t before = metric_get(METRIC_http_retries);
	struct run r;

	for (size_t i = 0; i < NELEMS(methods); i++) {
		tries(methods[i], 1, "", 0, &r);
		assert_int_equal(peer.requests, 2);
		assert_int_equal(r.kind, END_RESULT);
		assert_false(r.res.is_error);
		run_free(&r);
	}
	assert_int_equal(metric_get(METRIC_http_retries) - before, NELEMS(methods));
	tries("GET", HTTP_TRIES_MAX - 1, "", 0, &r);
	assert_false(r.res.is_error);
	assert_int_equal(peer.requests, HTTP_TRIES_MAX);
	run_free(&r);
	tries("GET", HTTP_TRIES_MAX, "", 0, &r);
	assert_true(r.res.is_error);
	assert_int_equal(r.res.xstat, 503);
	assert_int_equal(peer.requests, HTTP_TRIES_MAX);
	run_free(&r);
	tries("GET", 0, "", 0, &r);
	run_free(&r);
}

static void other_requests_are_sent_once(void **state)
{
	static const char *const methods[] = { "POST", "PATCH" };
	struct run r;

	for (size_t i = 0; i < NELEMS(methods); i++) {
		tries(methods[i], 1, "", 0, &r);
		assert_int_equal(peer.requests, 1);
		assert_true(r.res.is_error);
		run_free(&r);
	}
	peer.choose = NULL;
	ANSWERS(500, "", "");
	peer.requests = 0;
	call(&r, "/", "", "{}");
	assert_int_equal(peer.requests, 1);     /* 500 may be the argument's fault */
	run_free(&r);
}

static void retry_after_is_honoured_within_the_deadline(void **state)
{
	struct run r;
	uint64_t begun = clock_mono_us();

	tries("GET", 1, "Retry-After: 1\r\n", 0, &r);
	assert_true(clock_mono_us() - begun >= 1000000);
	assert_int_equal(peer.requests, 2);
	assert_false(r.res.is_error);
	run_free(&r);
	begun = clock_mono_us();
	tries("GET", 1, "Retry-After: 3600\r\n", 0, &r);
	assert_true(clock_mono_us() - begun < 5000000);
	assert_int_equal(peer.requests, 1);
	assert_true(r.res.is_error);
	run_free(&r);
	tries("GET", 1, "Retry-After: 1\r\n", 1000000, &r);    /* no time for another */
	assert_int_equal(peer.requests, 1);
	assert_true(r.res.is_error);
	run_free(&r);
	tries("GET", 0, "", 0, &r);
	run_free(&r);
}

/* RFC 9110 10.2.3 */
static void retry_after_may_be_a_date(void **state)
{
	char head[80], date[40];
	struct run r;
	time_t soon = (time_t)(clock_wall_us() / 1000000) + 10;
	struct tm tm;

	assert_non_null(gmtime_r(&soon, &tm));
	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
	snprintf(head, sizeof(head), "Retry-After: %s\r\n", date);
	tries("GET", 1, head, 5000000, &r);     /* later than the deadline: our own waiting would be in time */
	assert_int_equal(peer.requests, 1);
	assert_true(r.res.is_error);
	run_free(&r);
	tries("GET", 1, "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 0, &r);      /* it has passed */
	assert_int_equal(peer.requests, 2);
	run_free(&r);
	tries("GET", 1, "Retry-After: soon\r\n", 0, &r);
	assert_int_equal(peer.requests, 2);
	run_free(&r);
	tries("GET", 0, "", 0, &r);
	run_free(&r);
}

static void cancel_between_two_tries_ends_the_run(void **state)
{
	struct run r;

	peer.choose = busy_first;
	peer.requests = 0;
	after = 1;
	busy_head = "Retry-After: 5\r\n";
	run_start(&r, handler("/", ""), NO_OPTS);
	while (peer.requests == 0)
		run_turns(1);
	for (int i = 0; i < 20; i++)
		run_turns(1);
	assert_false(r.done);
	backend_cancel(r.op, CANCEL_BY_CLIENT);
	backend_cancel(r.op, CANCEL_BY_CLIENT);
	run_wait(&r);
	assert_int_equal(r.err.code, ERR_CANCELLED);
	run_free(&r);
	tries("GET", 0, "", 0, &r);
	run_free(&r);
}

static void broken_connection_is_tried_again_too(void **state)
{
	struct run r;

	peer.choose = NULL;
	peer.requests = 0;
	peer_says(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", false);
	call(&r, "/", "", "{}");
	assert_int_equal(peer.requests, HTTP_TRIES_MAX);
	assert_int_equal(r.kind, END_ERROR);
	assert_int_equal(r.err.code, ERR_TOOL);
	assert_string_equal(r.err.msg, "the connection ended before the answer did");
	run_free(&r);
	tries("GET", 0, "", 0, &r);
	run_free(&r);
}

static void failing_server_rests(void **state)
{
	struct run r;

	peer.choose = NULL;
	peer_says(&peer, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", true);
	for (int i = 0; i < BREAKER_FAILURES; i++) {
		call(&r, "/", "'method':'POST'", "{}");
		assert_true(r.res.is_error);
		run_free(&r);
	}
	unsigned requests = peer.requests;
	call(&r, "/", "'method':'POST'", "{}");
	assert_int_equal(r.kind, END_ERROR);
	assert_int_equal(r.err.code, ERR_TOOL);
	assert_non_null(strstr(r.err.msg, "rests"));
	assert_int_equal(peer.requests, requests);
	run_free(&r);
}

static void refused_address_says_so_and_no_more(void **state)
{
	struct run r;
	char *text = mem_printf("{'type':'http','url':'http://localhost:%u/','allow':{'hosts':['10.0.0.0/8']}}", peer.port);

	run_it(&r, handler_json(text), NO_OPTS);
	assert_int_equal(r.kind, END_ERROR);
	assert_int_equal(r.err.code, ERR_TOOL);
	assert_string_equal(r.err.msg, "the host has a loopback address, which is not allowed");
	assert_int_equal(peer.connections, 0);
	run_free(&r);
	free(text);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

SINGLE_THREAD_SUITE(http)
{
	const struct CMUnitTest tests[] = {
		TEST(wrong_definitions_are_refused_at_the_place),
		TEST(members_at_their_limit_are_taken_and_one_more_is_not),
		TEST(request_is_made_from_templates),
		TEST(bodies_are_encoded_for_their_type),
		TEST(secrets_go_out_and_do_not_come_back),
		TEST(arguments_that_would_bend_the_request_send_nothing),
		TEST(url_of_arguments_is_bounded),
		TEST(body_at_its_limit_is_made_and_one_byte_more_is_not),
		cmocka_unit_test(trace_goes_along_unless_the_definition_says_otherwise),
		TEST(json_becomes_structured_content_and_text),
		TEST(number_that_no_tree_holds_stays_in_the_text),
		TEST(pointer_takes_a_part),
		TEST(text_stays_text),
		TEST(bytes_become_blocks_by_their_type),
		TEST(answers_that_lie_fail),
		TEST(status_of_an_error_makes_a_bounded_clean_excerpt),
		TEST(secret_at_the_cut_of_an_excerpt_does_not_show),
		TEST(idempotent_requests_are_tried_again),
		TEST(other_requests_are_sent_once),
		TEST(retry_after_is_honoured_within_the_deadline),
		TEST(retry_after_may_be_a_date),
		TEST(cancel_between_two_tries_ends_the_run),
		TEST(broken_connection_is_tried_again_too),
		TEST(failing_server_rests),
		TEST(refused_address_says_so_and_no_more),
	};
	return cmocka_run_group_tests_name("http handler", tests, NULL, NULL);
}
