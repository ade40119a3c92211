/* Tables, cells and formats: full in pipes, as wide as the terminal on one. */

#include "config.h"

#include "ctl_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "suite.h"

static const struct command_column columns[] = {
	{ "name", "NAME", COL_PLAIN }, { "state", "STATE", COL_PLAIN }, { "n", "N", COL_PLAIN },
	{ "at", "AT (NOT EVIDENCE)", COL_TIME }, { "empty", "EMPTY", COL_PLAIN }, { "note", "NOTE", COL_PLAIN },
	{ NULL, NULL, COL_PLAIN } };
static const struct command list = { .noun = "thing", .verb = "list", .columns = columns, .shape = ADM_TABLE };
static const struct command lint = { .noun = "thing", .verb = "lint", .columns = columns, .shape = ADM_FINDINGS };
static const struct command show = { .noun = "thing", .verb = "show", .columns = columns, .shape = ADM_ITEM };
static const struct command add = { .noun = "thing", .verb = "add", .shape = ADM_DONE };
static const struct command_column log_columns[] = {
	{ "time", "TIME", COL_TIME }, { "call", "CALL", COL_PLAIN }, { "outcome", "OUTCOME", COL_PLAIN }, { NULL, NULL, COL_PLAIN } };
static const struct command report = { .noun = "audit", .verb = "calls", .columns = log_columns, .shape = ADM_REPORT };
static const struct command export = { .noun = "audit", .verb = "export", .shape = ADM_REPORT, .stream = true };

#define ROW "{\"row\":{\"name\":\"%s\",\"state\":\"active\",\"n\":5,\"at\":\"2026-07-28T10:00:00.000000Z\",\"empty\":null," \
	"\"note\":\"%s\"}}\n"

static char *print(struct ctl_print p, const char *rows)
{
	struct str text = STR_INIT;
	char *out, *err;
	size_t n;

	str_puts(&text, rows);
	p.out = open_memstream(&out, &n);
	p.err = open_memstream(&err, &n);
	(void)ctl_print_rows(&p, &text);
	fclose(p.out);
	fclose(p.err);
	free(err);
	str_fini(&text);
	return out;
}

static void says(struct ctl_print p, const char *rows, const char *want)
{
	char *out = print(p, rows);

	assert_string_equal(out, want);
	free(out);
}

static char *row_of(const char *name, const char *note)
{
	struct str text = STR_INIT;

	str_printf(&text, ROW, name, note);
	return str_take(&text);
}

static void a_pipe_gets_everything(void **state)
{
	char *row = row_of("a_name_that_is_rather_long_for_a_tool", "and a note that is rather long as well, so that nothing fits");

	says((struct ctl_print){ .cmd = &list }, row,
	     "NAME                                   STATE   N  AT (NOT EVIDENCE)          EMPTY  NOTE\n"
	     "a_name_that_is_rather_long_for_a_tool  active  5  2026-07-28 10:00:00 +0000  -      "
	     "and a note that is rather long as well, so that nothing fits\n");
	free(row);
}

/* What is empty goes first, then titles are broken, then texts are cut; the name is cut last. */
static void a_terminal_gets_what_fits(void **state)
{
	struct ctl_print p = { .cmd = &list, .tty = true, .utf8 = true, .width = 60 };
	char *row = row_of("name_of_a_tool", "and a note that is rather long as well");

	says(p, row,
	     "NAME            STATE   N  AT (NOT           NOTE\n"
	     "                           EVIDENCE)\n"
	     "name_of_a_tool  active  5  2026-07-28 10:00  and a note tha\xe2\x80\xa6\n");
	p.utf8 = false;
	p.width = 53;
	says(p, row,
	     "NAME            STATE   N  AT (NOT           NOTE\n"
	     "                           EVIDENCE)\n"
	     "name_of_a_tool  active  5  2026-07-28 10:00  and a...\n");
	p.width = 48;
	says(p, row,
	     "NAME       STATE   N  AT (NOT           NOTE\n"
	     "                      EVIDENCE)\n"
	     "name_o...  active  5  2026-07-28 10:00  and a...\n");
	free(row);
}

static void no_line_is_wider_than_the_terminal(void **state)
{
	char *row = row_of("name_of_a_tool", "a note of \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\x98\x80\xf0\x9f\x98\x80 and more, and more, and more");

	for (size_t width = 48; width <= 130; width++) {
		const struct command *const cmds[] = { &list, &lint };

		for (size_t i = 0; i < NELEMS(cmds); i++) {
			char *out = print((struct ctl_print){ .cmd = cmds[i], .tty = true, .utf8 = true, .width = width }, row);

			for (const char *line = out, *nl; (nl = strchr(line, '\n')); line = nl + 1)
				assert_true(ctl_width(line, (size_t)(nl - line)) <= width);
			free(out);
		}
	}
	free(row);
}

/* Where there is no room for it beside the others. */
static void what_names_a_row_goes_below_it(void **state)
{
	static const struct command_column cols[] = { { "time", "TIME", COL_TIME }, { "tool", "TOOL", COL_PLAIN },
		{ "outcome", "OUTCOME", COL_PLAIN }, { "call", "CALL", COL_PLAIN }, { NULL, NULL, COL_PLAIN } };
	const struct command calls = { .noun = "audit", .verb = "calls", .columns = cols, .shape = ADM_REPORT };
	static const char rows[] = "{\"header\":{\"report\":\"audit calls\"},\"columns\":[\"time\",\"tool\",\"outcome\",\"call\"]}\n"
		"{\"row\":{\"time\":\"2026-07-28T10:00:01.000000Z\",\"tool\":\"the_name_of_a_tool\",\"outcome\":\"rate_limited\","
		"\"call\":\"0123456789012345678901234567890123\"}}\n";

	says((struct ctl_print){ .cmd = &calls, .tty = true, .utf8 = true, .width = 68 }, rows,
	     "report    audit calls\n\nTIME      TOOL      OUTCOME       CALL\n2026-07-28 +0000\n"
	     "10:00:01  the_nam\xe2\x80\xa6  rate_limited  0123456789012345678901234567890123\n");
	says((struct ctl_print){ .cmd = &calls, .tty = true, .utf8 = true, .width = 67 }, rows,
	     "report    audit calls\n\nTIME      TOOL                OUTCOME\n          CALL\n2026-07-28 +0000\n"
	     "10:00:01  the_name_of_a_tool  rate_limited\n          0123456789012345678901234567890123\n");
}

/* Nothing of a finding is lost. */
static void findings_are_broken_and_not_cut(void **state)
{
	char *row = row_of("name", "one two three four five six seven");

	says((struct ctl_print){ .cmd = &lint, .tty = true, .utf8 = true, .width = 52 }, row,
	     "NAME  STATE   N  AT (NOT           NOTE\n"
	     "                 EVIDENCE)\n"
	     "name  active  5  2026-07-28 10:00  one two three\n"
	     "                                   four five six\n"
	     "                                   seven\n");
	free(row);
}

static void wide_signs_count_two_and_marks_none(void **state)
{
	static const char text[] = "a\xe6\xbc\xa2\xf0\x9f\x98\x80" "e\xcc\x81\xff";

	assert_int_equal(ctl_width(text, strlen(text)), 7);
	for (size_t cells = 1; cells <= 7; cells++) {
		static const size_t want[] = { 0, 1, 1, 4, 4, 8, 11, 12 };      /* half of a sign is none */
		const char *rest = text;

		assert_int_equal(ctl_wrap(&rest, cells), want[cells]);
	}
	says((struct ctl_print){ .cmd = &list, .quiet = true }, "{\"row\":{\"name\":\"\xe6\xbc\xa2\"}}\n", "\xe6\xbc\xa2\n");
	says((struct ctl_print){ .cmd = &list }, "{\"row\":{\"name\":\"\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\",\"state\":\"x\"}}\n",
	     "NAME    STATE  N  AT (NOT EVIDENCE)  EMPTY  NOTE\n"
	     "\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2  x      -  -                  -      -\n");
}

static void texts_are_broken_at_blanks_where_there_are_any(void **state)
{
	static const struct { const char *text; size_t cells; const char *pieces[4]; } tests[] = {
		{ "one two", 7, { "one two" } }, { "one two", 6, { "one", "two" } }, { "one two", 3, { "one", "two" } },
		{ "onetwo", 3, { "one", "two" } }, { "", 3, { "" } }, { "\xe6\xbc\xa2\xe6\xbc\xa2", 1, { "\xe6\xbc\xa2", "\xe6\xbc\xa2" } },
		{ " a", 1, { " ", "a" } },
	};

	for (size_t i = 0; i < NELEMS(tests); i++) {
		const char *rest = tests[i].text;
		size_t k = 0;

		do {
			const char *p = rest;
			size_t n = ctl_wrap(&rest, tests[i].cells);

			assert_non_null(tests[i].pieces[k]);
			assert_int_equal(n, strlen(tests[i].pieces[k]));
			assert_memory_equal(p, tests[i].pieces[k], n);
			k++;
		} while (*rest);
		assert_null(tests[i].pieces[k]);
	}
}

#define HEAD "{\"header\":{\"report\":\"audit calls\"},\"columns\":[\"time\",\"outcome\",\"call\",\"ms\"]}\n"
#define CALL(time, outcome, call) "{\"row\":{\"time\":\"" time "\",\"outcome\":\"" outcome "\",\"call\":" call ",\"ms\":1}}\n"

static void times_are_short_below_their_date(void **state)
{
	static const char rows[] = HEAD CALL("2026-07-28T10:00:01.000000Z", "ok", "\"a\"") CALL("2026-07-28T09:00:00.000000Z", "denied", "\"b\"")
		CALL("2026-07-27T09:00:00.000000Z", "odd", "\"c\"");

	says((struct ctl_print){ .cmd = &report, .tty = true, .utf8 = true, .width = 80 }, rows,
	     "report    audit calls\n\n"
	     "TIME      CALL  OUTCOME\n2026-07-28 +0000\n10:00:01  a     ok\n09:00:00  b     denied\n2026-07-27 +0000\n09:00:00  c     odd\n");
	says((struct ctl_print){ .cmd = &report }, rows,
	     "report    audit calls\n\n"
	     "TIME                       CALL  OUTCOME\n2026-07-28 10:00:01 +0000  a     ok\n2026-07-28 09:00:00 +0000  b     denied\n"
	     "2026-07-27 09:00:00 +0000  c     odd\n");
}

/* Titles are bold; nothing but a state has a colour. */
static void colour_is_for_states_alone(void **state)
{
	says((struct ctl_print){ .cmd = &report, .tty = true, .colour = true, .width = 80 },
	     HEAD CALL("2026-07-28T10:00:01.000000Z", "ok", "\"ok\"") CALL("2026-07-28T10:00:01.000000Z", "denied", "\"b\"")
	     CALL("2026-07-28T10:00:01.000000Z", "odd", "\"b\""),
	     "\x1b[1mreport  \x1b[0m  audit calls\n\n\x1b[1mTIME      CALL  OUTCOME\x1b[0m\n\x1b[1m2026-07-28 +0000\x1b[0m\n"
	     "10:00:01  ok    \x1b[32mok\x1b[0m\n10:00:01  b     \x1b[31mdenied\x1b[0m\n10:00:01  b     odd\n");
	says((struct ctl_print){ .cmd = &show, .tty = true, .colour = true, .width = 80 },
	     "{\"row\":{\"name\":\"active\",\"state\":\"suspended\"}}\n",
	     "\x1b[1mNAME\x1b[0m               active\n\x1b[1mSTATE\x1b[0m              \x1b[33msuspended\x1b[0m\n");
}

static void quiet_reports_print_what_names_a_row(void **state)
{
	struct ctl_print p = { .cmd = &report, .quiet = true };

	says(p, HEAD CALL("2026-07-28T10:00:01.000000Z", "ok", "\"a\"") CALL("2026-07-28T10:00:01.000000Z", "denied", "null"), "a\ndenied\n");
	says(p, "{\"header\":{},\"columns\":[\"hash\",\"time\",\"index\"]}\n{\"row\":{\"hash\":7,\"time\":\"x\",\"index\":12}}\n", "12\n");
	says(p, "{\"header\":{},\"columns\":[\"tool\",\"calls\"]}\n{\"row\":{\"tool\":null,\"calls\":3}}\n", "3\n");
	says(p, "{\"header\":{},\"columns\":[\"tool\"]}\n{\"row\":{\"tool\":null}}\n", "-\n");
}

static void lists_and_reports_have_the_same_formats(void **state)
{
	static const char rows[] = "{\"row\":{\"name\":\"=1+1\",\"n\":1,\"more\":true}}\n{\"row\":{\"name\":\"b\\\"\"}}\n";
	const struct command *const cmds[] = { &list, &lint, &show };

	for (size_t i = 0; i < NELEMS(cmds); i++) {
		struct ctl_print p = { .cmd = cmds[i], .format = CTL_JSON };

		says(p, rows, "{\"columns\":[\"name\",\"state\",\"n\",\"at\",\"empty\",\"note\"],\n\"rows\":[\n"
		     "{\"name\":\"=1+1\",\"n\":1,\"more\":true}\n,{\"name\":\"b\\\"\"}\n]}\n");
		says(p, "", "{\"columns\":[\"name\",\"state\",\"n\",\"at\",\"empty\",\"note\"],\n\"rows\":[\n]}\n");
		p.format = CTL_JSONL;
		says(p, rows, "{\"name\":\"=1+1\",\"n\":1,\"more\":true}\n{\"name\":\"b\\\"\"}\n");
		p.format = CTL_CSV;
		says(p, rows, "\"name\",\"state\",\"n\",\"at\",\"empty\",\"note\"\r\n\"'=1+1\",\"\",\"1\",\"\",\"\",\"\"\r\n"
		     "\"b\"\"\",\"\",\"\",\"\",\"\",\"\"\r\n");
	}
	says((struct ctl_print){ .cmd = &report, .format = CTL_JSON }, HEAD CALL("x", "ok", "\"a\""),
	     "{\"header\":{\"report\":\"audit calls\"},\n\"columns\":[\"time\",\"outcome\",\"call\",\"ms\"],\n\"rows\":[\n"
	     "{\"time\":\"x\",\"outcome\":\"ok\",\"call\":\"a\",\"ms\":1}\n]}\n");
	says((struct ctl_print){ .cmd = &report, .json = true }, HEAD CALL("x", "ok", "\"a\""),
	     "{\"time\":\"x\",\"outcome\":\"ok\",\"call\":\"a\",\"ms\":1}\n");
}

static void formats_are_known_by_name(void **state)
{
	const struct command commands[] = { list, report, show, export, lint, add, { .noun = NULL } };
	const struct command *const tables[] = { commands, NULL };
	static const struct { const struct command *cmd; const char *name; enum ctl_format want; const char *error; } tests[] = {
		{ &list, NULL, CTL_TABLE, NULL }, { &list, "table", CTL_TABLE, NULL }, { &report, "csv", CTL_CSV, NULL },
		{ &show, "json", CTL_JSON, NULL }, { &export, NULL, CTL_JSONL, NULL }, { &export, "ocsf", CTL_OCSF, NULL },
		{ &report, "ocsf", 0, "say table, json, jsonl or csv" }, { &export, "xml", 0, "or ocsf" },
		{ &lint, "", 0, "is none" }, { &add, "csv", 0, "for lists and reports" }, { &add, NULL, CTL_TABLE, NULL },
	};

	for (size_t i = 0; i < NELEMS(tests); i++) {
		char words[5][16] = { "toolcrib", "", "", "--format", "" }, *argv[5];
		const char *noun;
		struct ctl_line line;
		struct err err = { 0 };
		int rc;

		for (int k = 0; k < 5; k++)
			argv[k] = words[k];
		snprintf(words[1], sizeof words[1], "%s", tests[i].cmd->noun);
		snprintf(words[2], sizeof words[2], "%s", tests[i].cmd->verb);
		snprintf(words[4], sizeof words[4], "%s", tests[i].name ? tests[i].name : "");
		rc = ctl_args_parse(tables, tests[i].name ? 5 : 3, argv, &line, &noun, &err);
		assert_int_equal(rc, tests[i].error ? ERR_INVALID : 0);
		if (tests[i].error)
			assert_non_null(strstr(err.msg, tests[i].error));
		else
			assert_int_equal(line.format, tests[i].want);
		ctl_line_fini(&line);
	}
}

SINGLE_THREAD_SUITE(table)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pipe_gets_everything),
		cmocka_unit_test(a_terminal_gets_what_fits),
		cmocka_unit_test(no_line_is_wider_than_the_terminal),
		cmocka_unit_test(what_names_a_row_goes_below_it),
		cmocka_unit_test(findings_are_broken_and_not_cut),
		cmocka_unit_test(wide_signs_count_two_and_marks_none),
		cmocka_unit_test(texts_are_broken_at_blanks_where_there_are_any),
		cmocka_unit_test(times_are_short_below_their_date),
		cmocka_unit_test(colour_is_for_states_alone),
		cmocka_unit_test(quiet_reports_print_what_names_a_row),
		cmocka_unit_test(lists_and_reports_have_the_same_formats),
		cmocka_unit_test(formats_are_known_by_name),
	};

	setenv("TZ", "UTC", 1);
	tzset();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
