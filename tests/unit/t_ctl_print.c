/* Answers as text: shapes for people, lines for programs, nothing that a terminal would obey. */

#include "config.h"

#include "ctl_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tmpdir.h"
#include "suite.h"

static const struct command_column columns[] = {
	{ "name", "NAME", COL_PLAIN }, { "n", "N", COL_PLAIN }, { "at", "AT", COL_TIME }, { "note", "NOTE", COL_PLAIN },
	{ NULL, NULL, COL_PLAIN } };
static const struct command list = { .noun = "thing", .verb = "list", .columns = columns, .shape = ADM_TABLE };
static const struct command show = { .noun = "thing", .verb = "show", .columns = columns, .shape = ADM_ITEM };
static const struct command add = { .noun = "thing", .verb = "add", .done = "thing %{name} of %{n} added", .shape = ADM_DONE };
static const struct command key = { .noun = "key", .verb = "create", .columns = columns, .done = "%{name} is shown once",
				    .shape = ADM_SECRET };
static const struct command lint = { .noun = "thing", .verb = "lint", .columns = columns, .shape = ADM_FINDINGS };
static const struct command call = { .noun = "call", .shape = ADM_CONTENT };

struct said {
	char *out, *err;
	enum ctl_exit status;
};
static struct said print(struct ctl_print p, const char *text)
{
	struct str rows = STR_INIT;
	struct said said;
	size_t n;

	str_puts(&rows, text);
	p.out = open_memstream(&said.out, &n);
	p.err = open_memstream(&said.err, &n);
	said.status = ctl_print_rows(&p, &rows);
	fclose(p.out);
	fclose(p.err);
	str_fini(&rows);
	return said;
}

static void says(struct ctl_print p, const char *rows, const char *out, const char *err, enum ctl_exit status)
{
	struct said said = print(p, rows);

	assert_string_equal(said.out, out);
	assert_string_equal(said.err, err);
	assert_int_equal(said.status, status);
	free(said.out);
	free(said.err);
}

#define TWO "{\"row\":{\"name\":\"a\",\"n\":5,\"at\":\"2026-07-28T10:00:00.000000Z\",\"note\":null}}\n" \
	"{\"row\":{\"name\":\"longer\",\"n\":123,\"at\":null,\"note\":[\"x\",\"y\"]}}\n"

static void tables_are_aligned_without_blanks_at_the_end(void **state)
{
	struct ctl_print p = { .cmd = &list };

	says(p, TWO,
	     "NAME      N  AT                         NOTE\n"
	     "a         5  2026-07-28 10:00:00 +0000  -\n"
	     "longer  123  -                          x, y\n", "", CTL_DONE);
	says(p, "", "NAME  N  AT  NOTE\n", "", CTL_DONE);
	p.quiet = true;
	says(p, TWO, "a\nlonger\n", "", CTL_DONE);
	p.quiet = false;
	p.colour = true;
	says(p, "{\"row\":{\"name\":\"a\",\"n\":5}}\n", "\x1b[1mNAME  N  AT  NOTE\x1b[0m\na     5  -   -\n", "", CTL_DONE);
}

static void json_is_one_object_per_line_in_the_order_given(void **state)
{
	struct ctl_print p = { .cmd = &list, .json = true };

	says(p, TWO,
	     "{\"name\":\"a\",\"n\":5,\"at\":\"2026-07-28T10:00:00.000000Z\",\"note\":null}\n"
	     "{\"name\":\"longer\",\"n\":123,\"at\":null,\"note\":[\"x\",\"y\"]}\n", "", CTL_DONE);
	says(p, "", "", "", CTL_DONE);
	/* DEL and C1 controls, which JSON allows as they are, become escapes. */
	says(p, "{\"row\":{\"name\":\"\\u001b[31m\x7f\xc2\x9b\xc3\xa9\"}}\n", "{\"name\":\"\\u001b[31m\\u007f\\u009b\xc3\xa9\"}\n", "",
	     CTL_DONE);
}

static void names_cannot_move_the_cursor(void **state)
{
	struct ctl_print p = { .cmd = &list, .quiet = true };

	says(p, "{\"row\":{\"name\":\"a\\u001b[2J\\nb\xc2\x9bz\xe2\x80\xae\"}}\n", "a\\x1b[2J\\x0ab\\u{9b}z\\u{202e}\n", "", CTL_DONE);
	p = (struct ctl_print){ .cmd = &add };
	says(p, "{\"row\":{\"name\":\"\\u001b]0;x\\u0007\",\"n\":true}}\n", "thing \\x1b]0;x\\x07 of yes added\n", "", CTL_DONE);
}

static void items_name_each_member_and_nest_as_yaml(void **state)
{
	struct ctl_print p = { .cmd = &show };

	says(p, "{\"row\":{\"name\":\"a\",\"n\":{\"type\":\"object\"},\"note\":[]}}\n",
	     "NAME  a\nN\n  type: object\nNOTE  -\n", "", CTL_DONE);
	p.quiet = true;
	says(p, "{\"row\":{\"name\":\"a\",\"n\":1}}\n", "a\n", "", CTL_DONE);
}

static void sentences_are_filled_and_quiet_when_asked(void **state)
{
	struct ctl_print p = { .cmd = &add };

	says(p, "{\"row\":{\"name\":\"a\",\"n\":3}}\n{\"row\":{\"name\":\"b\"}}\n", "thing a of 3 added\nthing b of - added\n", "",
	     CTL_DONE);
	p.quiet = true;
	says(p, "{\"row\":{\"name\":\"a\",\"n\":3}}\n", "", "", CTL_DONE);
}

static void a_secret_stands_alone_on_standard_output(void **state)
{
	struct ctl_print p = { .cmd = &key };

	says(p, "{\"row\":{\"name\":\"tck_x\",\"n\":1}}\n", "tck_x\n", "tck_x is shown once\n", CTL_DONE);
	p.quiet = true;
	says(p, "{\"row\":{\"name\":\"tck_x\",\"n\":1}}\n", "tck_x\n", "", CTL_DONE);
}

static void findings_are_status_4_and_none_are_silent(void **state)
{
	struct ctl_print p = { .cmd = &lint };

	says(p, "", "", "", CTL_DONE);
	p.quiet = true;
	says(p, "{\"row\":{\"name\":\"a\"}}\n", "a\n", "", CTL_FINDINGS);
	p = (struct ctl_print){ .cmd = &lint, .json = true };
	says(p, "{\"row\":{\"name\":\"a\"}}\n", "{\"name\":\"a\"}\n", "", CTL_FINDINGS);
}

static void content_goes_raw_to_files_and_printable_to_terminals(void **state)
{
	struct ctl_print p = { .cmd = &call };
	static const char rows[] = "{\"row\":{\"content\":[{\"type\":\"text\",\"text\":\"a\\u001b[1m\\nb\"},"
		"{\"type\":\"image\",\"mimeType\":\"image/png\",\"data\":\"QUJD\"}]}}\n";

	says(p, rows, "a\x1b[1m\nb\n[ image image/png, 4 characters of base64 ]\n", "", CTL_DONE);
	p.tty = true;
	says(p, rows, "a\\x1b[1m\nb\n[ image image/png, 4 characters of base64 ]\n", "", CTL_DONE);
	says(p, "{\"row\":{\"content\":[],\"structuredContent\":{\"n\":1}}}\n", "{\n  \"n\": 1\n}\n", "", CTL_DONE);
}

static void a_tool_error_is_status_1(void **state)
{
	struct ctl_print p = { .cmd = &call };

	says(p, "{\"row\":{\"content\":[{\"type\":\"text\",\"text\":\"no\"}],\"isError\":true}}\n", "no\n",
	     "toolcrib: the tool reports an error\n", CTL_FAILED);
	p.json = true;
	says(p, "{\"row\":{\"isError\":true}}\n", "{\"isError\":true}\n", "", CTL_FAILED);
}

static void errors_are_one_line_and_perhaps_a_hint(void **state)
{
	struct err err;
	char *text;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	(void)err_set(&err, ERR_NOT_FOUND, "", "tool get_wether: not found");
	err_hint(&err, "did you mean get_weather?");
	ctl_print_error(f, false, "", &err);
	(void)err_set(&err, ERR_UNREACHABLE, "", "no store\nin \x1b[1m");
	err_hint(&err, "run: toolcrib init");
	ctl_print_error(f, false, "", &err);
	(void)err_set(&err, ERR_INVALID, "", "unknown member");
	ctl_print_error(f, true, "bad.yaml:3:1", &err);
	fclose(f);
	assert_string_equal(text, "toolcrib: tool get_wether: not found; did you mean get_weather?\n"
		"toolcrib: no store\\x0ain \\x1b[1m\nhint: run: toolcrib init\n"
		"\x1b[31mtoolcrib:\x1b[0m bad.yaml:3:1: unknown member\n");
	free(text);
}

static void places_are_found_across_files_and_documents(void **state)
{
	char *dir = tmpdir_make(), path[2][256], place[256], want[300];
	json_t *paths = json_array(), *documents = json_array();
	const struct command cmd = { .noun = "tool" };
	struct ctl_files *files = NULL;
	struct err err;
	bool more;

	for (int i = 0; i < 2; i++) {
		FILE *f = fopen(tmpdir_path(dir, i ? "b.yaml" : "a.yaml", path[i], sizeof path[i]), "w");

		fputs("name: x\n---\nname: y\nschema:\n  type: object\n", f);
		fclose(f);
		json_array_append_new(paths, json_string(path[i]));
	}
	assert_int_equal(ctl_files_load(paths, &cmd, documents, &files, &more, &err), 0);
	assert_int_equal(json_array_size(documents), 4);
	assert_true(ctl_files_where(files, "/documents/3/schema/type", place, sizeof place));
	snprintf(want, sizeof want, "%s:5:3", path[1]);
	assert_string_equal(place, want);
	assert_true(ctl_files_where(files, "/documents/0", place, sizeof place));
	snprintf(want, sizeof want, "%s:1:1", path[0]);
	assert_string_equal(place, want);
	assert_false(ctl_files_where(files, "/documents/4", place, sizeof place));
	assert_false(ctl_files_where(files, "/documents/x", place, sizeof place));
	assert_false(ctl_files_where(files, "/schema", place, sizeof place));
	ctl_files_free(&files);
	json_array_append_new(paths, json_string("/no/such.yaml"));
	assert_int_equal(ctl_files_load(paths, &cmd, documents, &files, &more, &err), ERR_UNREACHABLE);
	assert_string_equal(err.where, "");
	json_decref(paths);
	json_decref(documents);
	tmpdir_remove(dir);
}

SINGLE_THREAD_SUITE(print)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_are_aligned_without_blanks_at_the_end),
		cmocka_unit_test(json_is_one_object_per_line_in_the_order_given),
		cmocka_unit_test(names_cannot_move_the_cursor),
		cmocka_unit_test(items_name_each_member_and_nest_as_yaml),
		cmocka_unit_test(sentences_are_filled_and_quiet_when_asked),
		cmocka_unit_test(a_secret_stands_alone_on_standard_output),
		cmocka_unit_test(findings_are_status_4_and_none_are_silent),
		cmocka_unit_test(content_goes_raw_to_files_and_printable_to_terminals),
		cmocka_unit_test(a_tool_error_is_status_1),
		cmocka_unit_test(errors_are_one_line_and_perhaps_a_hint),
		cmocka_unit_test(places_are_found_across_files_and_documents),
	};

	setenv("TZ", "UTC", 1);
	tzset();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
