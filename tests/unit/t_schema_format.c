/* Formats: annotations by default, assertions when the caller or the dialect asks. */
#include "config.h"

#include "schema/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "json_text.h"
#include "suite.h"

static struct schema *compile(const char *text, const struct schema_options *options)
{
	struct schema *s = NULL;
	json_t *doc = parse(text);
	struct err e;

	if (schema_compile_with(doc, options, &s, &e) != 0)
		fail_msg("%s\nrefused at %s: %s", text, e.where, e.msg);
	json_decref(doc);
	return s;
}

struct row { const char *format, *good, *bad; };

static const struct row rows[] = {
	{ "date", "[\"2024-02-29\",\"2000-02-29\",1]", "[\"2023-02-29\",\"1900-02-29\",\"2024-13-01\",\"2024-1-1\",\"\"]" },
	{ "time", "[\"00:00:00Z\",\"23:59:60z\",\"00:29:60-23:30\",\"01:02:03.4+05:06\"]",
	  "[\"24:00:00Z\",\"22:59:60Z\",\"00:00:00\",\"00:00:00.Z\",\"00:00:00+24:00\"]" },
	{ "date-time", "[\"2024-02-29T00:00:00Z\",\"2024-02-29t00:00:00z\"]", "[\"2024-02-29 00:00:00Z\",\"2024-02-29T00:00:00Z\\n\"]" },
	{ "duration", "[\"P1Y2M3DT4H5M6S\",\"PT1M\",\"P2W\"]", "[\"P\",\"PT\",\"P1YT\",\"P1Y2D\",\"P1D2T3H\",\"P1WT1H\",\"P1Y2W\"]" },
	{ "email", "[\"a.b@c.d\",\"\\\"a b\\\"@c\",\"a@[127.0.0.1]\",\"a@[IPv6:::1]\"]",
	  "[\"a\",\"@c\",\"a@\",\".a@c\",\"a..b@c\",\"a b@c\",\"\\u00e9@c\",\"a@[127.0.0.300]\"]" },
	{ "idn-email", "[\"\\u00e9@\\u00e9\"]", "[\"\\u00e9\"]" },
	{ "hostname", "[\"a.b-c.d\",\"xn--zca\",\"1\"]", "[\"\",\".\",\"a.\",\"-a\",\"a_b\",\"xn--X\",\"\\u00e9\"]" },
	{ "idn-hostname", "[\"\\u00e9.a\",\"l\\u00b7l\",\"\\u30fb\\u3041\",\"\\u05d0\"]",
	  "[\"a\\u00b7l\",\"\\u30fb\",\"a\\u05d0\",\"\\u0300a\",\"a..b\",\"xn--example-\"]" },
	{ "ipv4", "[\"0.0.0.0\",\"255.255.255.255\"]", "[\"256.0.0.0\",\"01.0.0.0\",\"1.2.3\",\"1.2.3.4.5\",\"1.2.3.4 \"]" },
	{ "ipv6", "[\"::\",\"::1\",\"1:2:3:4:5:6:7:8\",\"1::1.2.3.4\",\"1:2:3:4:5:6:7::\"]",
	  "[\":\",\"1:2:3:4:5:6:7\",\"1::2::3\",\"12345::\",\"1:2:3:4:5:6:7:8:9\",\":1:2:3:4:5:6:7\",\"::1%a\",\"1:\"]" },
	{ "uri", "[\"a:\",\"http://u@h:1/p?q#f\",\"http://[::1]/\",\"urn:a:b\"]",
	  "[\"/a\",\"http://h:x\",\"http://[::1\",\"a:%6\",\"a:b c\",\"1a:b\",\"a:\\u00e9\",\"http://a@b@c/\"]" },
	{ "uri-reference", "[\"\",\"//\",\"a\",\"?q\",\"#f\"]", "[\"1:b\",\"/[\",\"a\\\\b\"]" },
	{ "iri", "[\"a:\\u00e9\"]", "[\"\\u00e9\"]" },
	{ "iri-reference", "[\"\\u00e9\"]", "[\"a\\\\\"]" },
	{ "uri-template", "[\"\",\"/a/{b}\",\"{+a,b*,c:3}\"]", "[\"{\",\"}\",\"{}\",\"{a:0}\",\"{a:10000}\",\"{a..b}\",\"a b\"]" },
	{ "json-pointer", "[\"\",\"/a~0~1\"]", "[\"a\",\"/~2\",\"/~\"]" },
	{ "relative-json-pointer", "[\"0\",\"1/a\",\"0#\"]", "[\"\",\"01\",\"/a\",\"0##\"]" },
	{ "uuid", "[\"2eb8aa08-AA98-11ea-b4aa-73b441d16380\"]", "[\"2eb8aa08aa98-11ea-b4aa-73b441d16380\",\"\"]" },
	{ "regex", "[\"^a+$\"]", "[\"(\",\"\\\\a\",\"(?i)a\"]" },
	{ "no-such-format", "[\"x\"]", "[]" },
};

static void judge(const struct schema *s, const char *format, const char *values, int expected)
{
	json_t *list = parse(values), *v;
	size_t i;

	json_array_foreach(list, i, v)
		if (schema_run(s, v, NULL) != expected)
			fail_msg("%s: element %zu of %s is judged wrongly", format, i, values);
	json_decref(list);
}

static void formats_decide_when_asked(void **state)
{
	const struct schema_options asserting = { .assert_format = true }, usual = { .assert_format = false };

	for (size_t i = 0; i < NELEMS(rows); i++) {
		char text[80];
		struct schema *s;

		(void)snprintf(text, sizeof text, "{\"format\":\"%s\"}", rows[i].format);
		s = compile(text, &asserting);
		judge(s, rows[i].format, rows[i].good, 0);
		judge(s, rows[i].format, rows[i].bad, ERR_INVALID);
		schema_free(&s);
		s = compile(text, &usual);
		judge(s, rows[i].format, rows[i].bad, 0);
		schema_free(&s);
	}
}

static void failures_name_the_format_with_an_example(void **state)
{
	const struct schema_options asserting = { .assert_format = true };
	struct schema *s = compile("{\"properties\":{\"day\":{\"format\":\"date\"}}}", &asserting);
	json_t *v = parse("{\"day\":\"SECRET\"}");
	struct schema_report report;

	assert_int_equal(schema_run(s, v, &report), ERR_INVALID);
	assert_string_equal(report.failure[0].text, "Invalid argument: day: must be a date like 2024-02-29");
	assert_string_equal(report.failure[0].keyword, "/properties/day/format");
	json_decref(v);
	schema_free(&s);
}

static void draft_07_content_decides_when_asked(void **state)
{
	const struct schema_options asserting = { .assert_format = true };
	struct schema *s = compile("{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"contentEncoding\":\"base64\","
				   "\"contentMediaType\":\"application/json\"}", &asserting);

	judge(s, "content", "[\"e30=\",1]", 0);
	judge(s, "content", "[\"e30\",\"ezp9\",\"{}\"]", ERR_INVALID);
	schema_free(&s);
	s = compile("{\"contentEncoding\":\"base64\"}", &asserting);
	judge(s, "content", "[\"!\"]", 0);
	schema_free(&s);
}

static const json_t *find(void *arg, const char *uri)
{
	return arg;
}

static void a_dialect_may_assert_formats(void **state)
{
	json_t *meta = parse("{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"$vocabulary\":{"
			     "\"https://json-schema.org/draft/2020-12/vocab/core\":true,"
			     "\"https://json-schema.org/draft/2020-12/vocab/format-assertion\":true}}");
	const struct schema_options options = { .find = find, .find_arg = meta };
	struct schema *s = compile("{\"$schema\":\"https://e.x/m\",\"format\":\"ipv4\"}", &options);

	judge(s, "ipv4", "[\"1.2.3.4\"]", 0);
	judge(s, "ipv4", "[\"1\"]", ERR_INVALID);
	schema_free(&s);
	json_decref(meta);
}

SINGLE_THREAD_SUITE(format)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formats_decide_when_asked),
		cmocka_unit_test(failures_name_the_format_with_an_example),
		cmocka_unit_test(draft_07_content_decides_when_asked),
		cmocka_unit_test(a_dialect_may_assert_formats),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
