/* Fuzz target: URI templates read backwards.  The first line is a template, the rest a URI.  A match begins with the
 * template's literal text, has only values that a handler may see (MCP U-05), and is the same a second time. */

#include "config.h"

#include <jansson.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "fuzz.h"
#include "registry/registry.h"

static void check_value(const json_t *value)
{
	const char *p = json_string_value(value);
	size_t len = json_string_length(value);

	FUZZ_CHECK(p && strlen(p) == len && text_utf8_valid(p, len));
	for (;;) {
		size_t n = strcspn(p, "/\\");

		FUZZ_CHECK(!text_eq(p, n, ".") && !text_eq(p, n, ".."));
		if (p[n] == '\0')
			return;
		p += n + 1;
	}
}

FUZZ_TARGET(uri)
{
	const char *text = (const char *)data, *end = size ? memchr(text, '\n', size) : NULL, *name;
	json_t *values = NULL, *again = NULL, *value;
	char *pattern;
	size_t n, begin;

	if (!end || memchr(text, '\0', (size_t)(end - text)))
		return 0;
	pattern = mem_strndup(text, (size_t)(end - text));
	n = size - (size_t)(end + 1 - text);
	if (reg_uri_match(pattern, end + 1, n, &values)) {
		begin = strcspn(pattern, "{");
		FUZZ_CHECK(n <= REG_URI_MAX && begin <= n && memcmp(pattern, end + 1, begin) == 0);
		json_object_foreach(values, name, value)
			check_value(value);
		FUZZ_CHECK(reg_uri_match(pattern, end + 1, n, &again) && json_equal(values, again));
		FUZZ_CHECK(reg_uri_match(pattern, end + 1, n, NULL));
	}
	json_decref(values);
	json_decref(again);
	free(pattern);
	return 0;
}
