/* A record as an event of the Open Cybersecurity Schema Framework 1.3: API Activity, class 6003 (AUDIT A-1004).  What it
 * has no place for stands under unmapped.  The program toolcrib writes exports with it; any thread. */
#include "config.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "review/review.h"

enum { CLASS = 6003, CATEGORY = 6, OTHER = 99, CREATE = 1, READ = 2, UPDATE = 3, DELETE = 4 };
enum { SUCCESS = 1, FAILURE = 2, INFORMATIONAL = 1, LOW = 2, MEDIUM = 3 };

static const char *text(const json_t *record, const char *name)
{
	return json_string_value(json_object_get(record, name));
}

static bool ends_with(const char *s, const char *tail)
{
	size_t n = strlen(s), m = strlen(tail);

	return n >= m && strcmp(s + n - m, tail) == 0;
}

/* By the last word of the kind: "tool.register", "grant.remove", "audit.read". */
static int activity_of(const char *kind)
{
	static const struct { const char *tail; int activity; } by_tail[] = {
		{ ".create", CREATE }, { ".add", CREATE }, { ".register", CREATE }, { ".set", UPDATE },
			{ ".change", UPDATE },
		{ ".rotate", UPDATE }, { ".enable", UPDATE }, { ".disable", UPDATE }, { ".accept", UPDATE },
			{ ".remove", DELETE },
		{ ".delete", DELETE }, { ".revoke", DELETE }, { ".destroy", DELETE }, { "erase.done", DELETE },
			{ "prune.done", DELETE },
		{ ".read", READ }, { ".export", READ }, { ".verify", READ }, { "list", READ },
	};

	for (size_t i = 0; i < sizeof(by_tail) / sizeof(*by_tail); i++)
		if (ends_with(kind, by_tail[i].tail))
			return by_tail[i].activity;
	return OTHER;
}

/* Success, failure, or 0 for what is neither. */
static int status_of(const char *kind, const char *outcome)
{
	if (outcome)
		return strcmp(outcome, "ok") == 0 || strcmp(outcome, "input_required") == 0 ? SUCCESS : FAILURE;
	return strstr(kind, "fail") || strstr(kind, "denied") || ends_with(kind, ".crash") ? FAILURE : SUCCESS;
}

static void put(json_t *object, const char *name, const json_t *value)
{
	if (value && !json_is_null(value))
		(void)json_object_set(object, name, (json_t *)(uintptr_t)value);
}

static void put_object(json_t *event, const char *name, json_t *object)
{
	if (json_object_size(object) > 0)
		(void)json_object_set_new(event, name, object);
	else
		json_decref(object);
}

static json_t *metadata(const json_t *record)
{
	json_t *m = json_pack("{s:s, s:{s:s, s:s, s:s}, s:[s]}", "version", "1.3.0", "product", "name", "toolcrib",
			      "vendor_name",
			      "toolcrib", "version", PACKAGE_VERSION, "profiles", "record_integrity");

	put(m, "log_name", json_object_get(record, "log"));
	put(m, "sequence", json_object_get(record, "index"));
	put(m, "correlation_uid", json_object_get(record, "call"));
	put(m, "tenant_uid", json_object_get(record, "tenant"));
	put(m, "original_time", json_object_get(record, "time"));
	return m;
}

static json_t *actor(const json_t *record)
{
	json_t *a = json_object(), *user = json_object();

	put(user, "name", json_object_get(record, "principal"));
	put(user, "uid", json_object_get(record, "pseudonym"));
	put(user, "credential_uid", json_object_get(record, "key"));
	put(user, "type", json_object_get(record, "actor"));
	put_object(a, "user", user);
	put(a, "app_name", json_object_get(record, "client"));
	return a;
}

static json_t *api(const json_t *record, const char *kind)
{
	const char *tool = text(record, "tool");
	json_t *a = json_pack("{s:s, s:{s:s}}", "operation", tool ? tool : kind, "service", "name", "toolcrib");
	json_t *request = json_object(), *response = json_object();

	put(a, "version", json_object_get(record, "revision"));
	put(request, "uid", json_object_get(record, "call"));
	put(response, "code", json_object_get(record, "status"));
	put(response, "message", json_object_get(record, "outcome"));
	put_object(a, "request", request);
	put_object(a, "response", response);
	return a;
}

/* Under their own names, what makes a record checkable and what OCSF does not know. */
static json_t *unmapped(const json_t *record, const char *kind)
{
	static const char *const names[] = { "rule", "definition", "policy", "scopes", "sandbox", "detail", "before",
		"after", "level",
		"request_bytes", "result_bytes", "on_behalf_of", "transport", "authn", "previous", "enc", "leaf",
			"bytes" };
	json_t *u = json_pack("{s:s}", "kind", kind);

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		put(u, names[i], json_object_get(record, names[i]));
	return u;
}

json_t *review_ocsf(const json_t *record)
{
	const char *kind = text(record, "kind") ? text(record, "kind") : "unknown", *time = text(record, "time");
	int activity = activity_of(kind), status = status_of(kind, text(record, "outcome"));
	json_t *event, *source = json_object();
	uint64_t us = 0;

	if (time)
		(void)clock_parse(time, clock_wall_us(), &us);
	event = json_pack("{s:i, s:s, s:i, s:s, s:i, s:i, s:I, s:i, s:i}", "class_uid", CLASS, "class_name",
			  "API Activity",
			  "category_uid", CATEGORY, "category_name", "Application Activity", "activity_id", activity,
				"type_uid",
			  CLASS * 100 + activity, "time", (json_int_t)(us / 1000), "status_id", status, "severity_id",
			  status == SUCCESS ? INFORMATIONAL : strstr(kind, "auth.fail") || ends_with(kind, ".crash")
				? MEDIUM : LOW);
	(void)json_object_set_new(event, "metadata", metadata(record));
	put_object(event, "actor", actor(record));
	(void)json_object_set_new(event, "api", api(record, kind));
	put(source, "uid", json_object_get(record, "address"));
	put_object(event, "src_endpoint", source);
	put(event, "status_detail", json_object_get(record, "outcome"));
	put(event, "duration", json_object_get(record, "ms"));
	if (text(record, "object"))
		(void)json_object_set_new(event, "resources", json_pack("[{s:s}]", "uid", text(record, "object")));
	(void)json_object_set_new(event, "unmapped", unmapped(record, kind));
	return event;
}
