/* Revisions and client capabilities. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proto/caps.h"
#include "proto/rev.h"
#include "suite.h"

static void every_revision_finds_itself(void **state)
{
	for (enum rev r = REV_R0; r < REV_COUNT; r++) {
		assert_int_equal(rev_find(rev_table[r].text, strlen(rev_table[r].text)), r);
		assert_int_equal(rev_table[r].era, r == REV_R5 ? ERA_MODERN : ERA_LEGACY);
	}
	assert_int_equal(rev_find("", 0), REV_COUNT);
	assert_int_equal(rev_find("2025-11-2", 9), REV_COUNT);
	assert_int_equal(rev_find("2025-11-255", 11), REV_COUNT);
}

/* MCP B-27: string order, so that rubbish like v999 counts as newer. */
static void modern_is_string_order(void **state)
{
	static const struct { const char *text; bool modern; } rows[] = {
		{ "2026-07-28", true }, { "2026-07-29", true }, { "2026-07-28x", true }, { "2027", true },
			{ "v999.0.0", true },
		{ "2026-07-27", false }, { "2026-07-2", false }, { "2025-11-25", false }, { "1.0", false },
			{ "", false },
	};

	for (size_t i = 0; i < NELEMS(rows); i++)
		assert_int_equal(rev_at_least_modern(rows[i].text, strlen(rows[i].text)), rows[i].modern);
}

/* MCP table A: what was there once stays, but for batches. */
static void features_are_not_lost_again(void **state)
{
	for (enum rev r = REV_R1; r < REV_COUNT; r++) {
		const struct rev_row *a = &rev_table[r - 1], *b = &rev_table[r];

		assert_true(b->annotations >= a->annotations && b->title >= a->title && b->icons >= a->icons);
		assert_true(b->output_schema >= a->output_schema && b->tool_meta >= a->tool_meta);
		assert_true(b->audio >= a->audio && b->resource_link >= a->resource_link);
		assert_true(b->structured_any >= a->structured_any &&
			b->progress_message >= a->progress_message);
		assert_true(b->invalid_args_is_error >= a->invalid_args_is_error);
		assert_int_equal(a->asks & ~b->asks, 0);
		assert_int_equal(b->batches, r == REV_R1 || r == REV_R2);
	}
}

static uint32_t caps_of(const char *roots, const char *sampling, const char *elicitation)
{
	json_t *caps = json_object(), *v;
	uint32_t ret;

	if (roots)
		json_object_set_new(caps, "roots", json_object());
	if (sampling) {
		v = json_object();
		if (*sampling)
			json_object_set_new(v, sampling, json_object());
		json_object_set_new(caps, "sampling", v);
	}
	if (elicitation) {
		v = json_object();
		for (; *elicitation; elicitation++)
			json_object_set_new(v, *elicitation == 'f' ? "form" : "url", json_object());
		json_object_set_new(caps, "elicitation", v);
	}
	ret = caps_from_json(caps);
	json_decref(caps);
	return ret;
}

/* MCP X-03, L-10. */
static void elicitation_without_a_mode_means_form(void **state)
{
	assert_int_equal(caps_of(NULL, NULL, ""), CAP_ELICITATION_FORM);
	assert_int_equal(caps_of(NULL, NULL, "u"), CAP_ELICITATION_URL);
	assert_int_equal(caps_of(NULL, NULL, "fu"), CAP_ELICITATION_FORM | CAP_ELICITATION_URL);
	assert_int_equal(caps_of("", "", NULL), CAP_ROOTS | CAP_SAMPLING);
	assert_int_equal(caps_of(NULL, "tools", NULL), CAP_SAMPLING | CAP_SAMPLING_TOOLS);
	assert_int_equal(caps_of(NULL, "unknown", NULL), CAP_SAMPLING);
	assert_int_equal(caps_from_json(NULL), 0);
}

static void wrong_types_declare_nothing(void **state)
{
	json_t *caps = json_object();

	json_object_set_new(caps, "roots", json_true());
	json_object_set_new(caps, "sampling", json_null());
	json_object_set_new(caps, "elicitation", json_integer(1));
	json_object_set_new(caps, "future", json_object());
	assert_int_equal(caps_from_json(caps), 0);
	json_decref(caps);
}

static void bits_survive_the_round_trip(void **state)
{
	for (uint32_t caps = 0; caps < 128; caps++) {
		json_t *v = caps_to_json(caps);
		uint32_t want = caps & CAP_SAMPLING_TOOLS ? caps | CAP_SAMPLING : caps;

		assert_int_equal(caps_from_json(v), want);
		json_decref(v);
	}
}

/* UI-03: an object with the type that is meant among its mimeTypes. */
static void pages_are_shown_by_who_names_their_type(void **state)
{
	static const struct { const char *value; bool shows; } cases[] = {
		{ "{\"mimeTypes\":[\"text/html;profile=mcp-app\"]}", true },
		{ "{\"mimeTypes\":[7,\"x\",\"text/html;profile=mcp-app\"],\"more\":1}", true },
		{ "{}", false }, { "{\"mimeTypes\":[]}", false }, { "{\"mimeTypes\":[\"text/html\"]}", false },
		{ "{\"mimeTypes\":\"text/html;profile=mcp-app\"}", false }, { "[]", false }, { "true", false },
		{ "{\"mimeTypes\":[[\"text/html;profile=mcp-app\"]]}", false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *v = json_loads(cases[i].value, JSON_DECODE_ANY, NULL);
		json_t *caps = json_pack("{s:{s:o}}", "extensions", CAP_UI_NAME, v);

		assert_int_equal(caps_from_json(caps), cases[i].shows ? CAP_UI : 0);
		json_decref(caps);
	}
}

/* MCP */
static void questions_need_what_they_use(void **state)
{
	json_t *url = json_object(), *tools = json_object();

	json_object_set_new(url, "mode", json_string("url"));
	json_object_set_new(tools, "tools", json_array());
	assert_int_equal(caps_for_request("elicitation/create", NULL), CAP_ELICITATION_FORM);
	assert_int_equal(caps_for_request("elicitation/create", url), CAP_ELICITATION_URL);
	assert_int_equal(caps_for_request("sampling/createMessage", url), CAP_SAMPLING);
	assert_int_equal(caps_for_request("sampling/createMessage", tools), CAP_SAMPLING | CAP_SAMPLING_TOOLS);
	assert_int_equal(caps_for_request("roots/list", NULL), CAP_ROOTS);
	assert_int_equal(caps_for_request("tools/call", NULL), 0);
	assert_int_equal(caps_from_word("sampling.tools"), CAP_SAMPLING | CAP_SAMPLING_TOOLS);
	assert_int_equal(caps_from_word("elicitation"), CAP_ELICITATION_FORM);
	assert_int_equal(caps_from_word("elicitations"), 0);
	assert_string_equal(caps_word(CAP_ELICITATION_FORM | CAP_ROOTS), "elicitation");
	assert_string_equal(caps_word(CAP_SAMPLING_TOOLS), "sampling.tools");
	assert_null(caps_word(0));
	json_decref(url);
	json_decref(tools);
}

SINGLE_THREAD_SUITE(rev)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_revision_finds_itself),
		cmocka_unit_test(modern_is_string_order),
		cmocka_unit_test(features_are_not_lost_again),
		cmocka_unit_test(elicitation_without_a_mode_means_form),
		cmocka_unit_test(wrong_types_declare_nothing),
		cmocka_unit_test(bits_survive_the_round_trip),
		cmocka_unit_test(pages_are_shown_by_who_names_their_type),
		cmocka_unit_test(questions_need_what_they_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
