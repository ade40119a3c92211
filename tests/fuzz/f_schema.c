/* Fuzz target: a schema on the first line, a value behind it.  A refusal points into the schema; a verdict
 * does not depend on whether anybody asks for reasons; reasons come with a failure and only then. */

#include "config.h"

#include <string.h>

#include "fuzz.h"
#include "json/json.h"
#include "schema/schema.h"

static void ignore_warning(void *arg, const char *pointer, const char *text)
{
}

static void check_run(const struct schema *s, const json_t *value)
{
	struct schema_report report;
	int rc = schema_run(s, value, &report);

	FUZZ_CHECK(rc == 0 || rc == ERR_INVALID || rc == ERR_LIMIT);
	FUZZ_CHECK((report.count > 0) == (rc != 0) && report.count <= SCHEMA_ERRORS_MAX);
	for (size_t i = 0; i < report.count; i++)
		FUZZ_CHECK(strncmp(report.failure[i].text, "Invalid argument: ", 18) == 0 ||
			   strncmp(report.failure[i].text, "Missing required argument: ", 27) == 0);
	/* Without a report the run ends at the first failure, perhaps before the budget does. */
	FUZZ_CHECK((schema_run(s, value, NULL) == 0) == (rc == 0));
}

/* Formats decide, members of any name are taken, and the same schema in the words of 2020-12 judges alike. */
static void check_leniently(const json_t *doc, const json_t *value)
{
	const struct schema_options options = { .lenient = true, .assert_format = true };
	struct schema *s = NULL, *modern = NULL;
	json_t *translated = NULL;
	struct err e = { 0 };

	if (schema_compile_with(doc, &options, &s, &e) == 0) {
		check_run(s, value);
		if (schema_translate(doc, &translated, &e) == 1 &&
		    schema_compile_with(translated, &options, &modern, &e) == 0) {
			int before = schema_run(s, value, NULL), after = schema_run(modern, value, NULL);

			FUZZ_CHECK(before == after || before == ERR_LIMIT || after == ERR_LIMIT);
		}
	}
	json_decref(translated);
	schema_free(&modern);
	schema_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *line = memchr(text, '\n', size);
	size_t len = line ? (size_t)(line - text) : size;
	json_t *doc = NULL, *value = NULL;
	struct schema *s = NULL;
	struct err e = { 0 };

	if (jx_parse(text, len, &doc, NULL) != 0)
		return 0;
	schema_lint(doc, ignore_warning, NULL);
	if (schema_compile(doc, &s, &e) != 0)
		FUZZ_CHECK(!s && *e.msg && (e.code == ERR_INVALID || e.code == ERR_LIMIT));
	if (line && jx_parse(line + 1, size - len - 1, &value, NULL) == 0) {
		if (s)
			check_run(s, value);
		check_leniently(doc, value);
	}
	json_decref(doc);
	json_decref(value);
	schema_free(&s);
	return 0;
}
