/* What every result passes, whichever handler gave it: shapes, base64, numbers of blocks, control characters, cuts. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend_run.h"
#include "base/mem.h"
#include "base/text.h"
#include "suite.h"

#define FFFD "\xef\xbf\xbd"

/* A child that says one result line; format as of printf(1). */
static void say(struct run *r, const char *format)
{
	char *script = mem_printf("printf '%s\\n'", format);

	run_it(r, handler_sh(script, "stream"), NO_OPTS);
	free(script);
}

static const char *block_text(const struct run *r, size_t i)
{
	return json_string_value(json_object_get(json_array_get(r->res.content, i), "text"));
}

static void control_characters_of_a_text_become_a_mark(void **state)
{
	static const struct { const char *said, *want; } texts[] = {
		{ "plain \\\\u00e9 \\\\ud83d\\\\ude00", "plain \xc3\xa9 \xf0\x9f\x98\x80" },
		{ "a run of plain \\\\u4e2d\\\\u0085\\\\u4e2d and behind it a \\\\u007f, a \\\\\"quote\\\\\"",
		  "a run of plain \xe4\xb8\xad" FFFD "\xe4\xb8\xad and behind it a " FFFD ", a \"quote\"" },
		{ "tab\\\\tline\\\\r\\\\nend", "tab\tline\r\nend" },
		{ "\\\\u001b[31mred\\\\u001b[0m", FFFD "[31mred" FFFD "[0m" },
		{ "\\\\u0007\\\\u007f\\\\u0080\\\\u009fx\\\\u00a0", FFFD FFFD FFFD FFFD "x\xc2\xa0" },
	};

	for (size_t i = 0; i < NELEMS(texts); i++) {
		struct run r;
		char *line = mem_printf("{\"content\":{\"type\":\"text\",\"text\":\"%s\"}}", texts[i].said);
		say(&r, line);
		assert_int_equal(r.kind, END_RESULT);
		assert_string_equal(block_text(&r, 0), texts[i].want);
		run_free(&r);
		free(line);
	}
}

static void nul_in_a_text_does_not_end_it(void **state)
{
	struct run r;

	say(&r, "{\"content\":{\"type\":\"text\",\"text\":\"a\\\\u0000b\"}}");
	assert_int_equal(json_string_length(json_object_get(json_array_get(r.res.content, 0), "text")), 5);
	assert_string_equal(block_text(&r, 0), "a" FFFD "b");
	run_free(&r);
}

static void text_of_an_embedded_resource_is_cleaned_and_the_rest_stays(void **state)
{
	struct run r;

	say(&r, "{\"content\":{\"type\":\"resource\",\"resource\":{\"uri\":\"x:y\",\"text\":\"\\\\u001bz\"}}}");
	const json_t *resource = json_object_get(json_array_get(r.res.content, 0), "resource");
	assert_string_equal(json_string_value(json_object_get(resource, "text")), FFFD "z");
	assert_string_equal(json_string_value(json_object_get(resource, "uri")), "x:y");
	run_free(&r);
}

/* What is data stays data: JSON escapes it wherever it goes. */
static void structured_content_is_left_alone(void **state)
{
	struct run r;

	say(&r, "{\"result\":{\"structuredContent\":{\"a\":\"\\\\u001bz\"}}}");
	assert_string_equal(json_string_value(json_object_get(r.res.structured, "a")), "\033z");
	assert_null(strchr(block_text(&r, 0), '\033'));
	run_free(&r);
}

static void definition_keeps_its_own_blocks(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct run r;
		run_it(&r, handler_json("{'type':'static','text':'a\\u001bb'}"), NO_OPTS);
		assert_string_equal(run_text(&r), "a" FFFD "b");
		run_free(&r);
	}
}

static void message_of_an_error_has_no_control_character(void **state)
{
	struct run r;

	say(&r, "{\"error\":{\"code\":1,\"message\":\"a\\\\u001bb\\\\nc\"}}");
	assert_int_equal(r.kind, END_ERROR);
	assert_string_equal(r.err.msg, "a b\nc");
	run_free(&r);
}

static void blocks_up_to_the_limit_pass_and_one_more_does_not(void **state)
{
	for (int n = 1000; n <= 1001; n++) {
		struct run r;
		char *script = mem_printf("i=0; while [ $i -lt %d ]; do echo '{\"content\":{\"type\":\"text\",\"text\":\"x\"}}'; "
					  "i=$((i+1)); done", n);
		run_it(&r, handler_sh(script, "stream"), NO_OPTS);
		assert_int_equal(r.kind, n == 1000 ? END_RESULT : END_ERROR);
		assert_int_equal(r.err.code, n == 1000 ? 0 : ERR_LIMIT);
		run_free(&r);
		free(script);
	}
}

static void meta_up_to_the_limit_passes_and_one_byte_more_does_not(void **state)
{
	const int room = (64 << 10) - (int)strlen("{\"x/y\":\"\"}");

	for (int n = room; n <= room + 1; n++) {
		struct run r;
		char *line = mem_printf("{\"result\":{\"_meta\":{\"x/y\":\"%%%ds\"}}}", n);
		char *script = mem_printf("printf '%s\\n' x | tr ' ' x", line);
		run_it(&r, handler_sh(script, "stream"), NO_OPTS);
		assert_int_equal(r.kind, n == room ? END_RESULT : END_ERROR);
		run_free(&r);
		free(script);
		free(line);
	}
}

static void long_note_is_cut_between_characters(void **state)
{
	struct run r;

	run_it(&r, handler_sh("a=$(printf '%1023s' x | tr ' ' x); echo '{\"log\":{\"level\":\"info\",\"data\":1,\"logger\":\"'\"$a\"'éé\"}}'",
			      "stream"), NO_OPTS);
	assert_int_equal(r.kind, END_RESULT);
	assert_int_equal(r.nlog, 1);
	assert_true(r.logger_len == 1023);
	run_free(&r);
}

SINGLE_THREAD_SUITE(care)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(control_characters_of_a_text_become_a_mark),
		cmocka_unit_test(nul_in_a_text_does_not_end_it),
		cmocka_unit_test(text_of_an_embedded_resource_is_cleaned_and_the_rest_stays),
		cmocka_unit_test(structured_content_is_left_alone),
		cmocka_unit_test(definition_keeps_its_own_blocks),
		cmocka_unit_test(message_of_an_error_has_no_control_character),
		cmocka_unit_test(blocks_up_to_the_limit_pass_and_one_more_does_not),
		cmocka_unit_test(meta_up_to_the_limit_passes_and_one_byte_more_does_not),
		cmocka_unit_test(long_note_is_cut_between_characters),
	};
	return cmocka_run_group_tests_name("care of results", tests, NULL, NULL);
}
