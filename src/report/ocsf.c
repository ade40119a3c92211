/* A record as an event of the Open Cybersecurity Schema Framework 1.9.0: API Activity, class 6003, with the profiles
 * trace and ai_operation (AUDIT A-1004, OP-332).  What it has no place for stands under unmapped, and so does what
 * makes a record checkable: the profile record_integrity is about the bytes of an event, our leaf about those of a
 * record.  The program toolcrib writes exports with it; any thread. */
#include "config.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/text.h"
#include "json/json.h"
#include "report/carry.h"

#define SCHEMA_VERSION "1.9.0"
#define SELF "toolcrib"

enum { CLASS = 6003, CATEGORY = 6, OTHER = 99, CREATE = 1, READ = 2, UPDATE = 3, DELETE = 4 };
enum { SUCCESS = 1, FAILURE = 2, INFORMATIONAL = 1, LOW = 2, MEDIUM = 3 };
enum { UID_BYTES = 16 };                /* of a record's name elsewhere */

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
		{ ".change", UPDATE }, { ".rotate", UPDATE }, { ".enable", UPDATE }, { ".disable", UPDATE },
		{ ".accept", UPDATE }, { ".remove", DELETE }, { ".delete", DELETE }, { ".revoke", DELETE },
		{ ".destroy", DELETE }, { "erase.done", DELETE }, { "prune.done", DELETE }, { ".read", READ },
		{ ".export", READ }, { ".verify", READ }, { "list", READ },
	};

	for (size_t i = 0; i < sizeof(by_tail) / sizeof(*by_tail); i++)
		if (ends_with(kind, by_tail[i].tail))
			return by_tail[i].activity;
	return OTHER;
}

static int status_of(const char *kind, const char *outcome)
{
	if (outcome)
		return strcmp(outcome, "ok") == 0 || strcmp(outcome, "input_required") == 0 ? SUCCESS : FAILURE;
	return strstr(kind, "fail") || strstr(kind, "denied") || ends_with(kind, ".crash") ? FAILURE : SUCCESS;
}

static int severity_of(const char *kind, int status)
{
	if (status == SUCCESS)
		return INFORMATIONAL;
	return strstr(kind, "auth.fail") || ends_with(kind, ".crash") ? MEDIUM : LOW;
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

/* OP-304: the same at each sending, and nobody else's. */
static void put_uid(const json_t *record, json_t *m)
{
	const char *origin = text(record, "log"), *leaf = text(record, "leaf");
	const json_t *index = json_object_get(record, "index");
	uint8_t bytes[DIGEST_SIZE], digest[DIGEST_SIZE], at[8];
	char hex[2 * UID_BYTES + 1];

	if (!origin || !leaf || !json_is_integer(index) || text_unhex(leaf, strlen(leaf), bytes, sizeof(bytes)) < 0)
		return;
	for (size_t i = 0; i < sizeof(at); i++)
		at[i] = (uint8_t)((uint64_t)json_integer_value(index) >> (56 - 8 * i));
	const struct digest_part parts[] = { { origin, strlen(origin) + 1 }, { at, sizeof(at) }, { bytes, sizeof(bytes) } };

	digest_sha256_parts(parts, sizeof(parts) / sizeof(*parts), digest);
	text_hex(digest, UID_BYTES, hex);
	(void)json_object_set_new(m, "uid", json_string(hex));
}

static json_t *metadata(const json_t *record)
{
	json_t *m = json_pack("{s:s, s:{s:s, s:s, s:s}, s:[s, s]}", "version", SCHEMA_VERSION, "product", "name", SELF,
			      "vendor_name", SELF, "version", PACKAGE_VERSION, "profiles", "trace", "ai_operation");

	put_uid(record, m);
	put(m, "log_name", json_object_get(record, "log"));
	put(m, "sequence", json_object_get(record, "index"));
	put(m, "correlation_uid", json_object_get(record, "call"));
	put(m, "tenant_uid", json_object_get(record, "tenant"));
	put(m, "original_time", json_object_get(record, "time"));
	return m;
}

/* The server itself, where a record has nobody's name; who gave a command stands in its detail. */
static json_t *actor(const json_t *record)
{
	const char *key = text(record, "key");
	json_t *a = json_object(), *user = json_object();

	put(user, "name", json_object_get(record, "principal"));
	put(user, "uid", json_object_get(record, "pseudonym"));
	if (json_object_size(user) > 0 && key)
		(void)json_object_set_new(user, "programmatic_credentials", json_pack("[{s:s}]", "uid", key));
	put_object(a, "user", user);
	if (json_object_size(a) == 0)
		(void)json_object_set_new(a, "application", json_pack("{s:s}", "name", SELF));
	return a;
}

static json_t *api(const json_t *record, const char *kind)
{
	const char *tool = text(record, "tool");
	json_t *a = json_pack("{s:s, s:{s:s}}", "operation", tool ? tool : kind, "service", "name", SELF);
	json_t *request = json_object(), *response = json_object();

	put(a, "version", json_object_get(record, "revision"));
	put(request, "uid", json_object_get(record, "call"));
	put(response, "code", json_object_get(record, "status"));
	put(response, "message", json_object_get(record, "outcome"));
	put_object(a, "request", request);
	put_object(a, "response", response);
	return a;
}

/* Whence it came: an address, which is a pseudonym, or this machine. */
static json_t *source(const json_t *record)
{
	json_t *s = json_object();

	put(s, "uid", json_object_get(record, "address"));
	if (json_object_size(s) == 0)
		(void)json_object_set_new(s, "svc_name", json_string(SELF));
	return s;
}

/* Members of profiles. */
static void put_profiles(const json_t *record, json_t *event)
{
	json_t *trace = json_object(), *agent = json_object();

	put(trace, "uid", json_object_get(record, "trace"));
	put(agent, "name", json_object_get(record, "client"));
	put_object(event, "trace", trace);
	put_object(event, "ai_agent", agent);
}

/* Under their own names.  on_behalf_of is a person, and OCSF's delegation a grant, which records do not have. */
static json_t *unmapped(const json_t *record, const char *kind)
{
	static const char *const names[] = { "actor", "key", "rule", "definition", "policy", "scopes", "sandbox", "detail",
		"before", "after", "level", "ms", "request_bytes", "result_bytes", "on_behalf_of", "transport", "authn",
		"previous", "system", "model", "enc", "leaf", "bytes" };
	json_t *u = json_pack("{s:s}", "kind", kind);

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		put(u, names[i], json_object_get(record, names[i]));
	return u;
}

json_t *report_ocsf(const json_t *record)
{
	const char *kind = text(record, "kind") ? text(record, "kind") : "unknown", *time = text(record, "time");
	const int activity = activity_of(kind), status = status_of(kind, text(record, "outcome"));
	const json_t *ms = json_object_get(record, "ms");
	uint64_t us = 0;
	json_t *event;

	if (time)
		(void)clock_parse(time, clock_wall_us(), &us);
	event = json_pack("{s:i, s:s, s:i, s:s, s:i, s:i, s:I, s:i, s:i}", "class_uid", CLASS, "class_name",
			  "API Activity", "category_uid", CATEGORY, "category_name", "Application Activity", "activity_id",
			  activity, "type_uid", CLASS * 100 + activity, "time", (json_int_t)(us / 1000), "status_id", status,
			  "severity_id", severity_of(kind, status));
	if (activity == OTHER)
		(void)json_object_set_new(event, "activity_name", json_string(kind));
	(void)json_object_set_new(event, "metadata", metadata(record));
	(void)json_object_set_new(event, "actor", actor(record));
	(void)json_object_set_new(event, "api", api(record, kind));
	(void)json_object_set_new(event, "src_endpoint", source(record));
	put_profiles(record, event);
	put(event, "status_detail", json_object_get(record, "outcome"));
	if (json_is_number(ms))         /* whole ones there */
		(void)json_object_set_new(event, "duration", json_integer((json_int_t)(jx_nearest(ms) + 0.5)));
	if (text(record, "object"))
		(void)json_object_set_new(event, "resources", json_pack("[{s:s}]", "uid", text(record, "object")));
	(void)json_object_set_new(event, "unmapped", unmapped(record, kind));
	return event;
}
