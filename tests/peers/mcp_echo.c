/* A small MCP server over stdin and stdout for tests and benchmarks, well behaved or not, as its options say:
 *
 *	--revision REV   speaks this one alone (default: all of them, both eras)
 *	--tools N        lists N more tools, filler_0 ..., in pages of 100
 *	--salt TEXT      stands in the description of every tool: another text, other digests
 *	--salt-file FILE the same from a file, read at every tools/list
 *	--storm MS       says that its tools changed every so many milliseconds
 *	--hosted         has prompts, resources, a template and completion too, and the tools touch, subs, news and links; logs
 *	                 only what is asked for
 *	--log FILE       appends each message that comes to FILE
 *	--stall-file FILE  answers no method that stands in FILE, which is read each time
 *	--stubborn       goes neither at the end of its input nor by SIGTERM
 *	--twins          lists two tools more: x, and ev_x
 *	--late           asks something and logs a line, when a call has been cancelled
 *	--mute, --garbage, --flood, --endless, --deaf   answers nothing; writes no JSON; asks without end; writes a line
 *	                 without end; does not read
 *
 * Tools: echo {text}, add {a, b}, env {name}, fill {n}, slow {ms}, steps {n}, say {text}, ask {message}, bad {how}, die {}.
 * With --hosted: touch {uri} says that a resource has changed, subs {} lists what is subscribed to, news {of} says that the
 * list of prompts or resources has changed, links {} links to resources. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#define MODERN "2026-07-28"
#define KEY "io.modelcontextprotocol/"
#define PAGE 100

static const char *only, *salt = "", *salt_file, *stall_file, *log_file;
static int fillers, storm_ms;
static bool hosted, level_set, late, twins, stubborn;
static json_t *client_caps;             /* of an older client */

/* What has been asked and waits: a slow call, or one whose question is out. */
struct job { json_t *id, *args; double due; int asked; bool prompt; struct job *next; };
static struct job *jobs;
static int questions;

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void put(json_t *msg)
{
	char *text = json_dumps(msg, JSON_COMPACT);

	fputs(text, stdout);
	putchar('\n');
	free(text);
	json_decref(msg);
}

static void answer(json_t *id, json_t *result, bool modern)
{
	if (modern && !json_object_get(result, "resultType"))
		json_object_set_new(result, "resultType", json_string("complete"));
	put(json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result));
}

static void refuse(json_t *id, int code, const char *text, json_t *data)
{
	put(json_pack("{s:s, s:O, s:{s:i, s:s, s:o*}}", "jsonrpc", "2.0", "id", id, "error", "code", code, "message", text,
		      "data", data));
}

static json_t *text_result(const char *text)
{
	return json_pack("{s:[{s:s, s:s}]}", "content", "type", "text", "text", text);
}

static json_t *tool(const char *name, const char *properties)
{
	char text[600], description[400];

	snprintf(description, sizeof(description), "The tool %s.%s", name, salt);
	snprintf(text, sizeof(text), "{\"type\":\"object\",\"properties\":%s}", properties);
	return json_pack("{s:s, s:s, s:o}", "name", name, "description", description, "inputSchema", json_loads(text, 0, NULL));
}

static const struct { const char *name, *properties; } tools[] = {
	{ "add", "{\"a\":{\"type\":\"number\"},\"b\":{\"type\":\"number\"}}" },
	{ "ask", "{\"message\":{\"type\":\"string\"}}" },
	{ "bad", "{\"how\":{\"type\":\"string\"}}" },
	{ "die", "{}" },
	{ "echo", "{\"text\":{\"type\":\"string\"}}" },
	{ "env", "{\"name\":{\"type\":\"string\"}}" },
	{ "fill", "{\"n\":{\"type\":\"integer\"}}" },
	{ "say", "{\"text\":{\"type\":\"string\"}}" },
	{ "slow", "{\"ms\":{\"type\":\"integer\"}}" },
	{ "steps", "{\"n\":{\"type\":\"integer\"}}" },
	{ "touch", "{\"uri\":{\"type\":\"string\"}}" },
	{ "subs", "{}" },
	{ "news", "{\"of\":{\"type\":\"string\"}}" },
	{ "links", "{}" },
};
#define HOSTED_TOOLS 4

/* 0 for what is no whole number of up to nine digits. */
static int number(const char *text)
{
	size_t digits = strspn(text, "0123456789");

	return digits > 0 && digits < 10 && !text[digits] ? (int)strtol(text, NULL, 10) : 0;
}

static bool is_stalled(const char *method)
{
	char text[300];
	FILE *f = stall_file ? fopen(stall_file, "r") : NULL;

	if (!f)
		return false;
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	fclose(f);
	return strstr(text, method) != NULL;
}

static void read_salt(void)
{
	static char text[300];
	FILE *f = salt_file ? fopen(salt_file, "r") : NULL;

	if (!f)
		return;
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	salt = text;
	fclose(f);
}

static void list_tools(json_t *id, const json_t *params, bool modern)
{
	const char *cursor = json_string_value(json_object_get(params, "cursor"));
	int from = cursor ? number(cursor) : 0, all = (int)(sizeof(tools) / sizeof(tools[0])) - (hosted ? 0 : HOSTED_TOOLS) + fillers;
	json_t *list = json_array(), *result = json_pack("{s:o}", "tools", list);
	char text[40];

	read_salt();
	for (int i = from; i < all && i < from + PAGE; i++) {
		if (i < fillers) {
			snprintf(text, sizeof(text), "filler_%d", i);
			json_array_append_new(list, tool(text, "{}"));
			continue;
		}
		json_array_append_new(list, tool(tools[i - fillers].name, tools[i - fillers].properties));
		if (strcmp(tools[i - fillers].name, "add") == 0)
			json_object_set_new(json_array_get(list, json_array_size(list) - 1), "outputSchema",
					    json_loads("{\"type\":\"object\",\"properties\":{\"sum\":{\"type\":\"number\"}}}", 0, NULL));
	}
	if (twins && from == 0) {
		json_array_append_new(list, tool("x", "{}"));
		json_array_append_new(list, tool("ev_x", "{}"));
	}
	if (from + PAGE < all) {
		snprintf(text, sizeof(text), "%d", from + PAGE);
		json_object_set_new(result, "nextCursor", json_string(text));
	}
	if (modern)
		json_object_update_new(result, json_pack("{s:i, s:s}", "ttlMs", 0, "cacheScope", "private"));
	answer(id, result, modern);
}

static void bad_answer(json_t *id, const char *how)
{
	if (strcmp(how, "content") == 0)
		answer(id, json_pack("{s:[{s:s}]}", "content", "type", "text"), false);
	else if (strcmp(how, "shape") == 0)
		answer(id, json_pack("{s:s}", "content", "text"), false);
	else if (strcmp(how, "result") == 0)
		answer(id, json_string("text"), false);
	else if (strcmp(how, "error") == 0)
		refuse(id, -32602, "that \x1b[31mwas wrong", json_pack("{s:s}", "reason", "wrong"));
	else if (strcmp(how, "big") == 0)
		printf("{\"jsonrpc\":\"2.0\",\"id\":%lld,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"%0*d\"}]}}\n",
		       (long long)json_integer_value(id), 2000000, 0);
	else if (strcmp(how, "line") == 0)
		printf("%0*d\n", 12000000, 0);
	else if (strcmp(how, "twice") == 0) {
		answer(id, text_result("one"), false);
		answer(id, text_result("two"), false);
	} else if (strcmp(how, "stranger") == 0) {
		json_t *other = json_integer(987654321);

		answer(other, text_result("not yours"), false);
		json_decref(other);
		answer(id, text_result("yours"), false);
	} else if (strcmp(how, "meta") == 0)
		answer(id, json_pack("{s:[{s:s, s:s, s:{s:s, s:i}}, {s:s, s:s, s:s}], s:{s:s, s:{s:s}}}", "content", "type", "text",
				     "text", "kept", "_meta", KEY "x", "y", "v.example/z", 1, "type", "resource_link", "uri",
				     "file:///x", "name", "x", "_meta", KEY "related-task", "t", "v.example/a", "b", "c"), false);
	else
		answer(id, text_result("nothing bad"), false);
}

/* --- prompts, resources, completion */

static json_t *subscribed;              /* URI -> id of the listen, or true */
static int touched;

static json_t *message(const char *text)
{
	return json_pack("{s:s, s:[{s:s, s:{s:s, s:s, s:{s:s, s:i}}}]}", "description", "What to say", "messages", "role", "user",
			 "content", "type", "text", "text", text, "_meta", KEY "x", "y", "v.example/z", 1);
}

static void list_hosted(json_t *id, const char *method, bool modern)
{
	json_t *result;
	char about[400];

	read_salt();
	snprintf(about, sizeof(about), "Something to try.%s", salt);
	if (strcmp(method, "prompts/list") == 0)
		result = json_pack("{s:[{s:s, s:s, s:[{s:s, s:b, s:s}, {s:s}]}, {s:s, s:s}]}", "prompts", "name", "greet", "description",
				   about, "arguments", "name", "who", "required", 1, "description", "Whom.", "name", "style", "name",
				   "ask first!", "description", about);
	else if (strcmp(method, "resources/list") == 0)
		result = json_pack("{s:[{s:s, s:s, s:s, s:s, s:i, s:{s:s, s:f}}, {s:s, s:s}, {s:s, s:s}]}", "resources", "uri",
				   "memo://one", "name", "memo", "description", about, "mimeType", "text/plain", "size", touched,
				   "annotations", "lastModified", "2025-01-12T15:00:58Z", "priority", 0.5, "uri", "memo://two", "name",
				   "memo", "uri", "https://example.com/page", "name", "A page, of the web");
	else
		result = json_pack("{s:[{s:s, s:s, s:s}, {s:s, s:s}]}", "resourceTemplates", "uriTemplate", "memo://{book}/{page}",
				   "name", "page", "description", about, "uriTemplate", "memo://all{/path*}", "name", "odd");
	if (modern)
		json_object_update_new(result, json_pack("{s:i, s:s}", "ttlMs", 0, "cacheScope", "private"));
	answer(id, result, modern);
}

static void read_resource(json_t *id, const char *uri, bool modern)
{
	char text[300];
	json_t *result;

	snprintf(text, sizeof(text), "%s %d\x1b[31m", uri, touched);
	if (strcmp(uri, "memo://two") == 0)
		result = json_pack("{s:[{s:s, s:s, s:s}]}", "contents", "uri", uri, "mimeType", "image/png", "blob", "aGVsbG8=");
	else if (strcmp(uri, "memo://bad/shape") == 0)
		result = json_pack("{s:[{s:s}]}", "contents", "uri", uri);
	else if (strcmp(uri, "memo://bad/blob") == 0)
		result = json_pack("{s:[{s:s, s:s}]}", "contents", "uri", uri, "blob", "a+");
	else if (strcmp(uri, "memo://bad/empty") == 0)
		result = json_pack("{s:[]}", "contents");
	else if (strncmp(uri, "memo://none/", 12) == 0) {
		refuse(id, modern ? -32602 : -32002, "Resource not found", json_pack("{s:s}", "uri", uri));
		return;
	} else if (strcmp(uri, "memo://slow/0") == 0) {
		struct job *j = calloc(1, sizeof(*j));

		*j = (struct job){ .id = json_incref(id), .due = now_ms() + 600000, .next = jobs };
		jobs = j;
		return;
	} else if (strcmp(uri, "memo://bad/big") == 0) {
		printf("{\"jsonrpc\":\"2.0\",\"id\":%lld,\"result\":{\"contents\":[{\"uri\":\"x:y\",\"text\":\"%0*d\"}]}}\n",
		       (long long)json_integer_value(id), 2000000, 0);
		return;
	} else {
		result = json_pack("{s:[{s:s, s:s, s:{s:s}, s:s}]}", "contents", "uri", uri, "text", text, "_meta", KEY "x", "y", "odd",
				   "member");
	}
	if (modern)
		json_object_update_new(result, json_pack("{s:i, s:s}", "ttlMs", 0, "cacheScope", "private"));
	answer(id, result, modern);
}

static void complete(json_t *id, const json_t *params, bool modern)
{
	static const char *const known[] = { "Albert", "Alice", "Bob" };
	const char *value = json_string_value(json_object_get(json_object_get(params, "argument"), "value"));
	json_t *settled = json_object_get(json_object_get(params, "context"), "arguments");
	json_t *values = json_array();

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (value && strncmp(known[i], value, strlen(value)) == 0)
			json_array_append_new(values, json_string(known[i]));
	if (json_object_size(settled) > 0)
		json_array_append_new(values, json_string(json_string_value(json_object_iter_value(json_object_iter(settled)))));
	answer(id, json_pack("{s:{s:o, s:b}}", "completion", "values", values, "hasMore", 0), modern);
}

static void acknowledge(json_t *id, const json_t *params)
{
	json_t *filter = json_object_get(params, "notifications"), *uri;
	size_t i;

	json_array_foreach(json_object_get(filter, "resourceSubscriptions"), i, uri)
		json_object_set(subscribed, json_string_value(uri), id);
	put(json_pack("{s:s, s:s, s:{s:O, s:{s:O}}}", "jsonrpc", "2.0", "method", "notifications/subscriptions/acknowledged",
		      "params", "notifications", filter, "_meta", KEY "subscriptionId", id));
}

static void touch(const char *uri)
{
	const json_t *id = json_object_get(subscribed, uri);

	touched++;
	if (id)
		put(json_pack("{s:s, s:s, s:{s:s, s:{s:O}}}", "jsonrpc", "2.0", "method", "notifications/resources/updated", "params",
			      "uri", uri, "_meta", KEY "subscriptionId", id));
}

static void finish_prompt(json_t *id, const char *text, bool prompt, bool modern)
{
	answer(id, prompt ? message(text) : text_result(text), modern);
}

static void ask(json_t *id, json_t *args, const json_t *params, bool modern, bool prompt)
{
	const char *message = json_string_value(json_object_get(args, "message"));
	json_t *question = json_pack("{s:s, s:s, s:{s:s, s:{s:{s:s}}}}", "mode", "form", "message", message ? message : "Well?",
				     "requestedSchema", "type", "object", "properties", "word", "type", "string");
	char text[200];

	if (!modern && !json_object_get(client_caps, "elicitation")) {
		json_decref(question);
		finish_prompt(id, "you cannot be asked", prompt, false);
	} else if (!modern) {
		struct job *j = calloc(1, sizeof(*j));

		*j = (struct job){ json_incref(id), json_incref(args), 0, ++questions, prompt, jobs };
		jobs = j;
		snprintf(text, sizeof(text), "q-%d", questions);
		put(json_pack("{s:s, s:s, s:s, s:o}", "jsonrpc", "2.0", "id", text, "method", "elicitation/create", "params",
			      question));
	} else if (!json_object_get(params, "inputResponses")) {
		answer(id, json_pack("{s:s, s:{s:{s:s, s:o}}, s:s}", "resultType", "input_required", "inputRequests", "word",
				     "method", "elicitation/create", "params", question, "requestState", "state-1"), true);
	} else {
		const json_t *got = json_object_get(json_object_get(params, "inputResponses"), "word");
		const char *word = json_string_value(json_object_get(json_object_get(got, "content"), "word"));
		const char *state = json_string_value(json_object_get(params, "requestState"));

		json_decref(question);
		snprintf(text, sizeof(text), "%s %s %s", json_string_value(json_object_get(got, "action")), word ? word : "-",
			 state ? state : "-");
		finish_prompt(id, text, prompt, true);
	}
}

static bool call_hosted(json_t *id, const char *name, const json_t *args, bool modern)
{
	const char *uri = json_string_value(json_object_get(args, "uri")), *of = json_string_value(json_object_get(args, "of")), *key;
	json_t *all, *value;
	char text[100];

	if (strcmp(name, "touch") == 0) {
		touch(uri ? uri : "");
		answer(id, text_result("touched"), modern);
	} else if (strcmp(name, "news") == 0) {
		snprintf(text, sizeof(text), "notifications/%s/list_changed", of ? of : "tools");
		put(json_pack("{s:s, s:s}", "jsonrpc", "2.0", "method", text));
		answer(id, text_result("told"), modern);
	} else if (strcmp(name, "links") == 0) {
		answer(id, json_pack("{s:[{s:s, s:s, s:s, s:s}, {s:s, s:s, s:s}, {s:s, s:s, s:s}]}", "content", "type", "resource_link", "uri",
				     "memo://one", "name", "one", "description", "The\x1b[31m first", "type", "resource_link", "uri",
				     "memo:nowhere", "name", "none", "type", "resource_link", "uri", "https://example.com/", "name", "web"),
		       modern);
	} else if (strcmp(name, "subs") == 0) {
		all = json_array();
		json_object_foreach(subscribed, key, value)
			json_array_append_new(all, json_string(key));
		answer(id, json_pack("{s:[{s:s, s:s}], s:{s:o}}", "content", "type", "text", "text", "see", "structuredContent", "uris", all),
		       modern);
	} else {
		return false;
	}
	return true;
}

static bool serve_hosted(json_t *id, const char *method, json_t *params, bool modern)
{
	const char *name = json_string_value(json_object_get(params, "name")), *uri = json_string_value(json_object_get(params, "uri"));
	const json_t *args = json_object_get(params, "arguments");
	const char *who = json_string_value(json_object_get(args, "who")), *style = json_string_value(json_object_get(args, "style"));
	char text[200];

	if (!hosted)
		return false;
	if (strcmp(method, "prompts/list") == 0 || strcmp(method, "resources/list") == 0 ||
	    strcmp(method, "resources/templates/list") == 0) {
		list_hosted(id, method, modern);
	} else if (strcmp(method, "prompts/get") == 0 && name && strcmp(name, "greet") == 0) {
		snprintf(text, sizeof(text), "Greet %s%s%s.\x07", who ? who : "-", style ? " " : "", style ? style : "");
		answer(id, message(text), modern);
	} else if (strcmp(method, "prompts/get") == 0) {
		ask(id, params, params, modern, true);
	} else if (strcmp(method, "resources/read") == 0 && uri) {
		read_resource(id, uri, modern);
	} else if (strcmp(method, "completion/complete") == 0) {
		complete(id, params, modern);
	} else if (strcmp(method, "resources/subscribe") == 0 && uri) {
		json_object_set_new(subscribed, uri, json_true());
		answer(id, json_object(), false);
	} else if (strcmp(method, "resources/unsubscribe") == 0 && uri) {
		json_object_del(subscribed, uri);
		answer(id, json_object(), false);
	} else {
		return false;
	}
	return true;
}

static void call(json_t *id, const json_t *params, bool modern)
{
	const char *name = json_string_value(json_object_get(params, "name"));
	json_t *args = json_object_get(params, "arguments");
	const json_t *token = json_object_get(json_object_get(params, "_meta"), "progressToken");
	const char *text = json_string_value(json_object_get(args, "text"));

	if (!name) {
		refuse(id, -32602, "no name", NULL);
	} else if (strcmp(name, "echo") == 0) {
		answer(id, text_result(text ? text : ""), modern);
	} else if (strcmp(name, "add") == 0) {
		double sum = json_number_value(json_object_get(args, "a")) + json_number_value(json_object_get(args, "b"));

		answer(id, json_pack("{s:[], s:{s:f}}", "content", "structuredContent", "sum", sum), modern);
	} else if (strcmp(name, "env") == 0) {
		const char *value = getenv(json_string_value(json_object_get(args, "name")));

		answer(id, text_result(value ? value : "-"), modern);
	} else if (strcmp(name, "fill") == 0) {
		char *filled = calloc(1, (size_t)json_integer_value(json_object_get(args, "n")) + 1);

		memset(filled, 'x', (size_t)json_integer_value(json_object_get(args, "n")));
		answer(id, text_result(filled), modern);
		free(filled);
	} else if (strcmp(name, "slow") == 0) {
		struct job *j = calloc(1, sizeof(*j));

		*j = (struct job){ json_incref(id), NULL, now_ms() + json_number_value(json_object_get(args, "ms")), 0, false, jobs };
		jobs = j;
	} else if (strcmp(name, "steps") == 0) {
		for (int i = 1; token && i <= json_integer_value(json_object_get(args, "n")); i++)
			put(json_pack("{s:s, s:s, s:{s:O, s:i, s:i, s:s}}", "jsonrpc", "2.0", "method", "notifications/progress",
				      "params", "progressToken", token, "progress", i, "total", 3, "message", "step"));
		answer(id, text_result(token ? "done" : "no token"), modern);
	} else if (strcmp(name, "say") == 0) {
		bool asked = modern ? json_object_get(json_object_get(params, "_meta"), KEY "logLevel") != NULL : level_set;

		if (!hosted || asked)
			put(json_pack("{s:s, s:s, s:{s:s, s:s, s:s}}", "jsonrpc", "2.0", "method", "notifications/message", "params",
				      "level", "warning", "logger", "echo", "data", text ? text : ""));
		answer(id, text_result("said"), modern);
	} else if (strcmp(name, "ask") == 0) {
		ask(id, args, params, modern, false);
	} else if (strcmp(name, "bad") == 0) {
		bad_answer(id, json_string_value(json_object_get(args, "how")) ? json_string_value(json_object_get(args, "how")) : "");
	} else if (strcmp(name, "die") == 0) {
		fputs("dying as told\n", stderr);
		raise(SIGKILL);
	} else if (hosted && call_hosted(id, name, args, modern)) {
		;
	} else if (strncmp(name, "filler_", 7) == 0) {
		answer(id, text_result(name), modern);
	} else {
		refuse(id, -32602, "Unknown tool", NULL);
	}
}

static json_t *capabilities(void)
{
	json_t *caps = json_pack("{s:{s:b}, s:{}}", "tools", "listChanged", 1, "logging");

	if (hosted)
		json_object_update_new(caps, json_pack("{s:{s:b}, s:{s:b, s:b}, s:{}}", "prompts", "listChanged", 1, "resources",
						       "listChanged", 1, "subscribe", 1, "completions"));
	return caps;
}

static void initialize(json_t *id, const json_t *params)
{
	static const char *const known[] = { "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25" };
	const char *asked = json_string_value(json_object_get(params, "protocolVersion")), *rev = only ? only : known[3];

	for (size_t i = 0; !only && asked && i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(known[i], asked) == 0)
			rev = asked;
	json_decref(client_caps);
	client_caps = json_incref(json_object_get(params, "capabilities"));
	answer(id, json_pack("{s:s, s:o, s:{s:s, s:s}}", "protocolVersion", rev, "capabilities", capabilities(), "serverInfo", "name",
			     "echo", "version", "1"), false);
}

static void answered(const json_t *msg)
{
	const char *id = json_string_value(json_object_get(msg, "id"));
	int question = id && strncmp(id, "q-", 2) == 0 ? number(id + 2) : 0;

	for (struct job **at = &jobs, *j; question && (j = *at); at = &j->next) {
		const json_t *result = json_object_get(msg, "result");
		const char *action = json_string_value(json_object_get(result, "action"));
		const char *word = json_string_value(json_object_get(json_object_get(result, "content"), "word"));
		char text[200];

		if (j->asked != question)
			continue;
		snprintf(text, sizeof(text), "%s %s", action ? action : "refused", word ? word : "-");
		finish_prompt(j->id, text, j->prompt, false);
		*at = j->next;
		json_decref(j->id);
		json_decref(j->args);
		free(j);
		return;
	}
}

/* Of a listen: what it was for ends with it. */
static void forget_listen(const json_t *id)
{
	const char *key;
	json_t *value;
	void *tmp;

	json_object_foreach_safe(subscribed, tmp, key, value)
		if (json_equal(value, id))
			json_object_del(subscribed, key);
}

/* It speaks of a call that is over. */
static void say_late(void)
{
	put(json_pack("{s:s, s:s, s:s, s:{s:s, s:{s:s, s:{}}}}", "jsonrpc", "2.0", "id", "late", "method", "elicitation/create", "params",
		      "message", "late question", "requestedSchema", "type", "object", "properties"));
	put(json_pack("{s:s, s:s, s:{s:s, s:s}}", "jsonrpc", "2.0", "method", "notifications/message", "params", "level", "emergency",
		      "data", "late line"));
}

static void cancelled(const json_t *params)
{
	if (late)
		say_late();
	forget_listen(json_object_get(params, "requestId"));
	for (struct job **at = &jobs, *j; (j = *at); at = &j->next) {
		if (!json_equal(j->id, json_object_get(params, "requestId")))
			continue;
		*at = j->next;
		json_decref(j->id);
		json_decref(j->args);
		free(j);
		return;
	}
}

static void log_line(const char *line, size_t len)
{
	FILE *f = log_file ? fopen(log_file, "a") : NULL;

	if (!f)
		return;
	fprintf(f, "%.*s\n", (int)len, line);
	fclose(f);
}

static void take(const char *line, size_t len)
{
	json_t *msg = json_loadb(line, len, 0, NULL), *id = json_object_get(msg, "id"), *params = json_object_get(msg, "params");
	const char *method = json_string_value(json_object_get(msg, "method"));
	bool claim = json_object_get(json_object_get(params, "_meta"), KEY "protocolVersion") != NULL;
	bool legacy_only = only && strcmp(only, MODERN) != 0, modern_only = only && !legacy_only;

	log_line(line, len);
	if (!method) {
		answered(msg);
	} else if (!id) {
		if (strcmp(method, "notifications/cancelled") == 0)
			cancelled(params);
	} else if (is_stalled(method)) {
		;
	} else if (claim && legacy_only) {
		refuse(id, -32601, "what is that?", NULL);
	} else if (!claim && modern_only) {
		refuse(id, -32602, "no claim", NULL);
	} else if (strcmp(method, "initialize") == 0) {
		initialize(id, params);
	} else if (strcmp(method, "server/discover") == 0) {
		answer(id, json_pack("{s:[s], s:o, s:i, s:s, s:{s:{s:s, s:s}}}", "supportedVersions", MODERN, "capabilities",
				     capabilities(), "ttlMs", 0, "cacheScope", "private", "_meta", KEY "serverInfo", "name", "echo",
				     "version", "2"), true);
	} else if (strcmp(method, "logging/setLevel") == 0) {
		level_set = true;
		answer(id, json_object(), false);
	} else if (strcmp(method, "ping") == 0) {
		answer(id, json_object(), false);
	} else if (strcmp(method, "subscriptions/listen") == 0) {
		acknowledge(id, params);
	} else if (strcmp(method, "tools/list") == 0) {
		list_tools(id, params, claim);
	} else if (strcmp(method, "tools/call") == 0) {
		call(id, params, claim);
	} else if (serve_hosted(id, method, params, claim)) {
		;
	} else {
		refuse(id, -32601, "Method not found", NULL);
	}
	json_decref(msg);
}

static void finish_slow(void)
{
	for (struct job **at = &jobs, *j; (j = *at); ) {
		if (j->asked || j->due > now_ms()) {
			at = &j->next;
			continue;
		}
		*at = j->next;
		answer(j->id, text_result("slept"), false);
		json_decref(j->id);
		free(j);
	}
}

static int wait_ms(double next_storm)
{
	double due = storm_ms ? next_storm : 0;

	for (const struct job *j = jobs; j; j = j->next)
		if (!j->asked && (due == 0 || j->due < due))
			due = j->due;
	if (due == 0)
		return -1;
	due -= now_ms();
	return due < 0 ? 0 : (int)due + 1;
}

static void misbehave(const char *how)
{
	if (strcmp(how, "--deaf") == 0 || strcmp(how, "--mute") == 0) {
		char buf[4096];

		while (strcmp(how, "--deaf") == 0 || read(0, buf, sizeof(buf)) > 0)
			if (strcmp(how, "--deaf") == 0)
				pause();
		exit(0);
	}
	while (strcmp(how, "--garbage") == 0)
		puts("<html>this is no JSON</html>");
	while (strcmp(how, "--endless") == 0)
		fputs("{\"jsonrpc\":\"2.0\",", stdout);
	for (int i = 0; strcmp(how, "--flood") == 0; i++)
		printf("{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n", i);
}

int main(int argc, char **argv)
{
	static char buf[16 << 20];
	size_t len = 0;
	double storm = 0;

	subscribed = json_object();
	for (int i = 1; i < argc; i++) {
		bool more = i + 1 < argc;

		if (strcmp(argv[i], "--revision") == 0 && more)
			only = argv[++i];
		else if (strcmp(argv[i], "--tools") == 0 && more)
			fillers = number(argv[++i]);
		else if (strcmp(argv[i], "--salt") == 0 && more)
			salt = argv[++i];
		else if (strcmp(argv[i], "--salt-file") == 0 && more)
			salt_file = argv[++i];
		else if (strcmp(argv[i], "--stall-file") == 0 && more)
			stall_file = argv[++i];
		else if (strcmp(argv[i], "--log") == 0 && more)
			log_file = argv[++i];
		else if (strcmp(argv[i], "--stubborn") == 0)
			stubborn = true;
		else if (strcmp(argv[i], "--hosted") == 0)
			hosted = true;
		else if (strcmp(argv[i], "--late") == 0)
			late = true;
		else if (strcmp(argv[i], "--twins") == 0)
			twins = true;
		else if (strcmp(argv[i], "--storm") == 0 && more)
			storm_ms = number(argv[++i]);
		else
			misbehave(argv[i]);
	}
	if (stubborn)
		signal(SIGTERM, SIG_IGN);
	for (;;) {
		struct pollfd p = { .fd = 0, .events = POLLIN };
		int ready = poll(&p, 1, wait_ms(storm));

		finish_slow();
		if (storm_ms && now_ms() >= storm) {
			storm = now_ms() + storm_ms;
			put(json_pack("{s:s, s:s}", "jsonrpc", "2.0", "method", "notifications/tools/list_changed"));
		}
		if (ready > 0) {
			ssize_t n = read(0, buf + len, sizeof(buf) - len);
			char *from = buf, *nl;

			while (n <= 0 && stubborn)
				pause();
			if (n <= 0)
				return 0;
			len += (size_t)n;
			while ((nl = memchr(from, '\n', len - (size_t)(from - buf)))) {
				take(from, (size_t)(nl - from));
				from = nl + 1;
			}
			len -= (size_t)(from - buf);
			memmove(buf, from, len);
			if (len == sizeof(buf))
				return 1;
		}
		fflush(stdout);
	}
}
