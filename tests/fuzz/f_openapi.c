/* Fuzz target: a description of a REST API as JSON.  Each document has a name of its own that tools may have, and an
 * object as inputSchema whose references lead into it; notes point into the description. */

#include "config.h"

#include <string.h>

#include "base/text.h"
#include "fuzz.h"
#include "json/json.h"
#include "openapi/openapi.h"

static void check_references(const json_t *v, const json_t *defs)
{
	const char *ref = json_string_value(json_object_get(v, "$ref")), *name;
	json_t *child;
	size_t i;

	FUZZ_CHECK(!ref || strncmp(ref, "#/$defs/", 8) != 0 || json_object_get(defs, ref + 8));
	json_object_foreach((json_t *)(uintptr_t)v, name, child)
		if (strcmp(name, "default") != 0 && strcmp(name, "enum") != 0 && strcmp(name, "const") != 0)
			check_references(child, defs);
	json_array_foreach(v, i, child)
		check_references(child, defs);
}

static void take(void *arg, const char *pointer, const char *name, json_t *doc)
{
	json_t *names = arg;
	const json_t *input = json_object_get(doc, "inputSchema");

	FUZZ_CHECK(strncmp(pointer, "/paths/", 7) == 0);
	FUZZ_CHECK(text_tool_name(name, strlen(name)) && !json_object_get(names, name));
	FUZZ_CHECK(strcmp(json_string_value(json_object_get(input, "type")), "object") == 0);
	check_references(json_object_get(input, "properties"), json_object_get(input, "$defs"));
	(void)json_object_set_new(names, name, json_true());
	json_decref(doc);
}

static void note(void *arg, const char *pointer, const char *text)
{
	FUZZ_CHECK(*pointer == '/' && *text);
}

FUZZ_TARGET(openapi)
{
	static const struct openapi_sink sink = { take, note };
	const struct openapi_options options = { .server = "https://a.example" };
	json_t *doc = NULL, *names = json_object();
	struct err err = { 0 };

	if (jx_parse((const char *)data, size, &doc, NULL) == 0 && openapi_convert(doc, &options, &sink, names, &err) < 0)
		FUZZ_CHECK(err.code && *err.msg);
	json_decref(names);
	json_decref(doc);
	return 0;
}
