/* Fuzz target: lines of JSON, a schema, a value for it, and shared schemas https://example.com/1 and so on.
 * A refusal points into the schema; a verdict does not depend on whether anybody asks for reasons; reasons
 * come with a failure and only then; a schema in the words of 2020-12 judges as it did in its own. */

#include "config.h"

#include <string.h>

#include "fuzz.h"
#include "json/json.h"
#include "schema/schema.h"

enum { SHARED_MAX = 9 };

struct input {
	json_t *doc, *value;
	json_t *shared[SHARED_MAX];
	size_t nshared;
};

static const json_t *find_shared(void *arg, const char *uri)
{
	static const char base[] = "https://example.com/";
	const struct input *in = arg;
	size_t i;

	FUZZ_CHECK(!strchr(uri, '#'));
	if (strncmp(uri, base, sizeof base - 1) != 0)
		return NULL;
	uri += sizeof base - 1;
	i = (size_t)(uri[0] - '1');
	return *uri >= '1' && uri[1] == '\0' && i < in->nshared ? in->shared[i] : NULL;
}

static void check_warning(void *arg, const char *pointer, const char *text)
{
	FUZZ_CHECK((*pointer == '\0' || *pointer == '/') && *text);
}

static void check_report(const struct schema_report *report, int rc)
{
	FUZZ_CHECK((report->count > 0) == (rc != 0) && report->count <= SCHEMA_ERRORS_MAX);
	FUZZ_CHECK(rc == ERR_LIMIT || !report->match_limit);
	for (size_t i = 0; i < report->count; i++)
		FUZZ_CHECK(strncmp(report->failure[i].text, "Invalid argument: ", 18) == 0 ||
			   strncmp(report->failure[i].text, "Missing required argument: ", 27) == 0);
}

/* What is said of a value is its verdict in other words, and a redacted place shows nothing of its own. */
static void check_words(const struct schema *s, const json_t *value, int rc)
{
	static const char *const all[] = { "" };
	const struct schema_redact redact = { all, 1 };
	struct schema_report plain, open, closed;

	FUZZ_CHECK(schema_run(s, value, &plain) == rc);
	FUZZ_CHECK(schema_explain(s, value, NULL, &open) == rc);
	FUZZ_CHECK(schema_explain(s, value, &redact, &closed) == rc);
	check_report(&open, rc);
	check_report(&closed, rc);
	FUZZ_CHECK(plain.count == open.count && plain.count == closed.count);
	for (size_t i = 0; i < closed.count; i++)
		FUZZ_CHECK(!strstr(closed.failure[i].text, "; got "));
}

/* False when a budget was spent: such a run is long, and one of them is enough. */
static bool check_run(const struct schema *s, const json_t *value)
{
	struct schema_report report;
	int rc = schema_run(s, value, &report), quick = schema_run(s, value, NULL);

	FUZZ_CHECK(rc == 0 || rc == ERR_INVALID || rc == ERR_LIMIT);
	check_report(&report, rc);
	/* Without a report the run ends at the first failure, perhaps before the budget does. */
	FUZZ_CHECK((quick == 0) == (rc == 0));
	if (rc == ERR_LIMIT)
		return false;
	FUZZ_CHECK(schema_run(s, value, NULL) == quick);
	check_words(s, value, rc);
	return true;
}

/* Where draft-07 asserts formats it asserts content* as well, which no newer dialect does: not compared. */
static void check_translation(const struct input *in, const struct schema_options *options, const struct schema *s)
{
	struct schema *modern = NULL;
	json_t *translated = NULL, *again = NULL;
	struct err e = { 0 };
	int rc = schema_translate(in->doc, &translated, &e), before, after;

	FUZZ_CHECK(rc == 0 || rc == 1 || (rc == ERR_INVALID && *e.msg));
	if (rc == 1) {
		FUZZ_CHECK(schema_translate(translated, &again, &e) == 0);
		FUZZ_CHECK(schema_compile_with(translated, options, &modern, &e) == 0);
		before = schema_run(s, in->value, NULL);
		after = schema_run(modern, in->value, NULL);
		FUZZ_CHECK(before == after || before == ERR_LIMIT || after == ERR_LIMIT);
	}
	json_decref(translated);
	schema_free(&modern);
}

/* What a list of tools shows stands alone: it compiles without the catalogue, and there is nothing more to do to it. */
static void check_bundle(struct input *in)
{
	const struct schema_options with = { .lenient = true, .find = find_shared, .find_arg = in };
	const struct schema_options alone = { .lenient = true, .scale = 2 };
	json_t *bundle = NULL, *again = NULL;
	struct schema *s = NULL;
	struct err e = { 0 };
	int rc = schema_bundle(in->doc, &with, &bundle, &e);

	FUZZ_CHECK(rc == 0 || rc == 1 || ((rc == ERR_INVALID || rc == ERR_LIMIT) && *e.msg));
	if (rc == 1) {
		FUZZ_CHECK(schema_compile_with(bundle, &alone, &s, &e) == 0);
		FUZZ_CHECK(schema_bundle(bundle, &alone, &again, &e) == 0);
	}
	schema_free(&s);
	json_decref(bundle);
}

/* Formats decide, members of any name are taken, shared schemas are there or not. */
static void check_options(struct input *in)
{
	const struct schema_options options[] = {
		{ .lenient = true, .assert_format = true },
		{ .lenient = true, .scale = 2, .find = find_shared, .find_arg = in },
		{ .assert_format = true, .find = find_shared, .find_arg = in },
	};
	bool goes_on = true;

	for (size_t i = 0; i < sizeof options / sizeof *options && goes_on; i++) {
		struct schema *s = NULL;
		struct err e = { 0 };

		if (schema_compile_with(in->doc, &options[i], &s, &e) != 0) {
			FUZZ_CHECK(!s && *e.msg && (e.code == ERR_INVALID || e.code == ERR_LIMIT));
			continue;
		}
		FUZZ_CHECK(schema_memory(s) <= 2 * SCHEMA_MEMORY_MAX + sizeof(void *) * 2);
		goes_on = check_run(s, in->value);
		if (goes_on && !options[i].assert_format)
			check_translation(in, &options[i], s);
		schema_free(&s);
	}
}

/* The next line as JSON, NULL when it is none. */
static json_t *take_line(const char **p, const char *end)
{
	const char *from = *p, *line = from < end ? memchr(from, '\n', (size_t)(end - from)) : NULL;
	json_t *v = NULL;

	*p = line ? line + 1 : end;
	if (jx_parse(from, (size_t)((line ? line : end) - from), &v, NULL) != 0)
		return NULL;
	return v;
}

FUZZ_TARGET(schema)
{
	const char *p = (const char *)data, *end = p + size;
	struct input in = { .doc = take_line(&p, end) };
	struct schema *s = NULL;
	struct err e = { 0 };

	in.value = take_line(&p, end);
	while (p < end && in.nshared < SHARED_MAX && (in.shared[in.nshared] = take_line(&p, end)))
		in.nshared++;
	if (in.doc) {
		schema_lint(in.doc, check_warning, NULL);
		if (schema_compile(in.doc, &s, &e) != 0)
			FUZZ_CHECK(!s && *e.msg && (e.code == ERR_INVALID || e.code == ERR_LIMIT));
	}
	if (in.doc && in.value && (!s || check_run(s, in.value)))
		check_options(&in);
	if (in.doc)
		check_bundle(&in);
	schema_free(&s);
	json_decref(in.doc);
	json_decref(in.value);
	for (size_t i = 0; i < in.nshared; i++)
		json_decref(in.shared[i]);
	return 0;
}
