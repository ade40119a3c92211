/* What is legal but makes real hosts stumble (MCP B-31, B-32), and how an output schema is shown to R3 and R4. */

#include "config.h"

#include <string.h>

#include "base/text.h"
#include "json/json.h"
#include "registry_int.h"
#include "schema/schema.h"

enum { DESCRIPTION_WIDE = 1024 };       /* bytes: what the model interfaces of large hosts accept */

struct forward {
	define_warn_fn *warn;
	void *arg;
	const char *prefix;
};

static void forward_warning(void *arg, const char *pointer, const char *text)
{
	const struct forward *f = arg;
	struct str at = STR_INIT;

	str_puts(&at, f->prefix);
	str_puts(&at, pointer);
	f->warn(f->arg, str_text(&at), text);
	str_fini(&at);
}

static bool has_reference(const json_t *v)
{
	const char *key;
	json_t *child;
	size_t i;

	json_object_foreach((json_t *)(uintptr_t)v, key, child)
		if (strcmp(key, "$ref") == 0 || strcmp(key, "$dynamicRef") == 0 || has_reference(child))
			return true;
	json_array_foreach(v, i, child)
		if (has_reference(child))
			return true;
	return false;
}

enum reg_output define_output_form(const json_t *schema)
{
	const char *type = json_string_value(json_object_get(schema, "type"));

	if (!schema)
		return REG_OUTPUT_NONE;
	if (type && strcmp(type, "object") == 0)
		return REG_OUTPUT_OBJECT;
	return has_reference(schema) ? REG_OUTPUT_HIDDEN : REG_OUTPUT_WRAPPED;
}

void define_lint(const json_t *doc, define_warn_fn *warn, void *arg)
{
	struct forward f = { warn, arg, "/inputSchema" };
	const json_t *input = json_object_get(doc, "inputSchema"), *output = json_object_get(doc, "outputSchema");
	const char *name = json_string_value(json_object_get(doc, "name"));
	enum reg_kind kind;
	struct err ignored;

	if (define_kind_of(doc, &kind, &ignored) < 0 || kind != REG_TOOL)
		return;                 /* what hosts stumble over is known of tools */
	if (name && strchr(name, '.'))
		warn(arg, "/name", "some hosts refuse tool names with a dot");
	if (json_string_length(json_object_get(doc, "description")) > DESCRIPTION_WIDE)
		warn(arg, "/description", "some hosts cut or refuse descriptions of more than 1024 bytes");
	if (json_is_object(input))
		schema_lint(input, forward_warning, &f);
	f.prefix = "/outputSchema";
	if (json_is_object(output))
		schema_lint(output, forward_warning, &f);
	switch (define_output_form(output)) {
	case REG_OUTPUT_NONE:
	case REG_OUTPUT_OBJECT:
		break;
	case REG_OUTPUT_WRAPPED:
		warn(arg, "/outputSchema",
		     "the root is not type object: clients of 2025-06-18 and 2025-11-25 see it wrapped as {result: …}");
		break;
	case REG_OUTPUT_HIDDEN:
		warn(arg, "/outputSchema",
		     "the root is not type object and has $ref: clients of 2025-06-18 and 2025-11-25 do not see it");
		break;
	}
}
