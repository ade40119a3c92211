/* Words to rows and arguments: what is taken, what is a usage error, what the table says as help and completion. */

#include "config.h"

#include "ctl_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "json/json.h"
#include "suite.h"

#define END { NULL, NULL, ARG_TEXT, false, false, false, COMPLETE_NONE, NULL }
static const struct command_arg none[] = { END };
static const struct command_arg add_args[] = {
	{ "file", "FILE", ARG_FILE, false, true, true, COMPLETE_FILE, "Documents." }, END };
static const struct command_arg grant_args[] = {
	{ "tenant", "TENANT", ARG_TEXT, false, true, false, COMPLETE_TENANT, "Who." },
	{ "tool", "TOOL", ARG_TEXT, false, true, true, COMPLETE_TOOL, "What." },
	{ "as", "ALIAS", ARG_TEXT, true, false, false, COMPLETE_NONE, "The name seen." },
	{ "rate", "N/UNIT", ARG_RATE, true, false, false, COMPLETE_NONE, "How often." },
	{ "count", "N", ARG_UINT, true, false, false, COMPLETE_NONE, "How many." },
	{ "ttl", "TIME", ARG_DURATION, true, false, false, COMPLETE_NONE, "How long." },
	{ "since", "TIME", ARG_TIME, true, false, false, COMPLETE_NONE, "From when." },
	{ "on", "yes|no", ARG_YESNO, true, false, false, COMPLETE_NONE, "Whether." },
	{ "label", "TEXT", ARG_TEXT, true, false, true, COMPLETE_NONE, "Notes." },
	{ "dry-run", NULL, ARG_FLAG, true, false, false, COMPLETE_NONE, "Only say." }, END };
static const struct command_arg call_args[] = {
	{ "tenant", "TENANT", ARG_TEXT, false, true, false, COMPLETE_TENANT, "Who." },
	{ "tool", "TOOL", ARG_TEXT, false, true, false, COMPLETE_TOOL, "What." },
	{ "values", "NAME=VALUE", ARG_KEYVALUES, false, false, true, COMPLETE_NONE, "Arguments." },
	{ "args", "JSON", ARG_JSON, true, false, false, COMPLETE_NONE, "Arguments." }, END };
static const struct command_arg test_args[] = {
	{ "file", "FILE", ARG_FILE, false, true, false, COMPLETE_FILE, "A document." },
	{ "values", "NAME=VALUE", ARG_KEYVALUES, false, false, true, COMPLETE_NONE, "Arguments." }, END };
static const struct command_arg backup_args[] = {
	{ "file", "FILE", ARG_PATH, false, true, false, COMPLETE_FILE, "Where to." }, END };
static const struct command_arg move_args[] = {
	{ "from", "FROM", ARG_TEXT, false, true, true, COMPLETE_NONE, "What." },
	{ "to", "TO", ARG_TEXT, false, true, false, COMPLETE_NONE, "Where." },
	{ "mode", "MODE", ARG_TEXT, true, true, false, COMPLETE_NONE, "How." }, END };

static const struct command table[] = {
	{ .noun = "status", .help = "Show the store", .args = none },
	{ .noun = "backup", .help = "Copy the store", .args = backup_args },
	{ .noun = "tool", .verb = "add", .help = "Store tools", .args = add_args },
	{ .noun = "tool", .verb = "show", .help = "Show tools", .args = none },
	{ .noun = "tool", .verb = "test", .help = "Try a tool", .args = test_args },
	{ .noun = "tool", .verb = "move", .help = "Move tools", .args = move_args, .destructive = true },
	{ .noun = "grant", .verb = "add", .help = "Grant tools", .args = grant_args },
	{ .noun = "call", .help = "Call a tool", .args = call_args },
	{ .noun = NULL },
};
static const struct command *const tables[] = { table, NULL };

#define WORDS_MAX 16
/* Parse "tool add x", split at blanks. */
static int parse(const char *text, struct ctl_line *line, struct err *err)
{
	char program[] = "toolcrib", *words[WORDS_MAX + 1] = { program }, *copy = mem_strdup(text), *save = NULL;
	const char *noun;
	int n = 1, rc;

	for (char *word = strtok_r(copy, " ", &save); word && n < WORDS_MAX; word = strtok_r(NULL, " ", &save))
		words[n++] = word;
	memset(err, 0, sizeof *err);
	rc = ctl_args_parse(tables, n, words, line, &noun, err);
	free(copy);     /* texts of line->opt are not looked at */
	return rc;
}

static void takes(const char *text, const char *args)
{
	struct str got = STR_INIT;
	struct ctl_line line;
	struct err err;

	if (parse(text, &line, &err) < 0)
		fail_msg("%s: %s", text, err.msg);
	jx_write(line.args, &got);
	assert_string_equal(str_text(&got), args);
	str_fini(&got);
	ctl_line_fini(&line);
}

/* The message begins with `says`; the hint is `hint`. */
static void refuses(const char *text, const char *says, const char *hint)
{
	struct ctl_line line;
	struct err err;

	assert_int_equal(parse(text, &line, &err), ERR_INVALID);
	if (strncmp(err.msg, says, strlen(says)) != 0)
		fail_msg("%s: \"%s\" instead of \"%s\"", text, err.msg, says);
	assert_string_equal(err.hint, hint);
	ctl_line_fini(&line);
}

static void words_become_members_in_any_order_with_options(void **state)
{
	takes("status", "{}");
	takes("grant add acme a b c", "{\"tenant\":\"acme\",\"tool\":[\"a\",\"b\",\"c\"]}");
	takes("grant add --as x acme --rate=10/s a --dry-run", "{\"as\":\"x\",\"rate\":\"10/s\",\"dry-run\":true,\"tenant\":\"acme\",\"tool\":[\"a\"]}");
	takes("grant add acme a --label x --label y", "{\"label\":[\"x\",\"y\"],\"tenant\":\"acme\",\"tool\":[\"a\"]}");
	takes("tool move --mode=fast a b c", "{\"mode\":\"fast\",\"from\":[\"a\",\"b\"],\"to\":\"c\"}");
	takes("call acme echo text=a=b n=", "{\"tenant\":\"acme\",\"tool\":\"echo\",\"values\":{\"text\":\"a=b\",\"n\":\"\"}}");
	takes("call acme echo --args {\"n\":1} x=2", "{\"args\":{\"n\":1},\"tenant\":\"acme\",\"tool\":\"echo\",\"values\":{\"x\":\"2\"}}");
	takes("backup /tmp/x", "{\"file\":\"/tmp/x\"}");
}

static void two_dashes_end_the_options(void **state)
{
	takes("grant add -- acme --as -x", "{\"tenant\":\"acme\",\"tool\":[\"--as\",\"-x\"]}");
	takes("-- grant add acme --yes", "{\"tenant\":\"acme\",\"tool\":[\"--yes\"]}");
	takes("grant add acme -", "{\"tenant\":\"acme\",\"tool\":[\"-\"]}");
}

static void global_options_may_stand_anywhere(void **state)
{
	struct ctl_line line;
	struct err err;

	assert_int_equal(parse("--json tool --quiet add x.yaml -y --store /s", &line, &err), 0);
	assert_true(line.opt.json && line.opt.quiet && line.opt.yes && !line.opt.help);
	assert_non_null(line.opt.store);
	assert_null(line.opt.socket);
	assert_ptr_equal(line.cmd, &table[2]);
	assert_string_equal(json_string_value(json_array_get(line.files, 0)), "x.yaml");
	ctl_line_fini(&line);
	refuses("--json=1 status", "no value belongs to --json", "");
	refuses("status --store", "status: a value is missing after --store", "");
}

static void files_are_kept_apart(void **state)
{
	struct ctl_line line;
	struct err err;

	assert_int_equal(parse("tool test weather.yaml location=Oslo", &line, &err), 0);
	assert_int_equal(json_array_size(line.files), 1);
	assert_string_equal(json_string_value(json_object_get(json_object_get(line.args, "values"), "location")), "Oslo");
	ctl_line_fini(&line);
	refuses("tool add", "tool add: FILE is missing", "");
	refuses("tool test a.yaml b.yaml", "tool test: \"b.yaml\" is not of the form NAME=VALUE", "");
}

static void unknown_words_are_answered_with_the_nearest(void **state)
{
	refuses("tol add x", "tol: no such command", "did you mean tool?");
	refuses("tool shwo", "tool shwo: no such command", "did you mean show?");
	refuses("xyzzy", "xyzzy: no such command", "toolcrib --help lists what there is");
	refuses("grant add acme a --rat 1/s", "grant add: unknown option --rat", "did you mean --rate?");
	refuses("grant add acme a --jsn", "grant add: unknown option --jsn", "did you mean --json?");
	refuses("grant add acme a -z", "grant add: unknown option -z", "");
	refuses("--jsno status", "unknown option --jsno", "did you mean --json?");
}

static void what_is_missing_or_too_much_is_named(void **state)
{
	refuses("", "no command given", "");
	refuses("tool", "tool: say what to do with it", "");
	refuses("grant add", "grant add: TENANT is missing", "");
	refuses("grant add acme", "grant add: TOOL is missing", "");
	refuses("tool move a b", "tool move: --mode is missing", "");
	refuses("status now", "status: one word too many: now", "");
	refuses("grant add acme a --as x --as y", "grant add: --as is given twice", "");
	refuses("grant add acme a --dry-run=1", "grant add: no value belongs to --dry-run", "");
	refuses("call acme echo a=1 a=2", "call: a is given twice", "");
	refuses("call acme echo =1", "call: \"=1\" is not of the form NAME=VALUE", "");
	refuses("call acme echo --args [1]", "call: args: must be an object like {\"name\": \"value\"}, is an array", "");
	refuses("call acme echo --args {", "call: args: ", "");
}

static void values_are_checked_by_type(void **state)
{
	refuses("grant add acme a --rate often", "grant add: rate: \"often\"", "");
	refuses("grant add acme a --ttl 10y", "grant add: ttl: \"10y\"", "");
	refuses("grant add acme a --count -1", "grant add: count: \"-1\"", "");
	refuses("grant add acme a --count 4294967296", "grant add: count: \"4294967296\"", "");
	takes("grant add acme a --count 4294967295", "{\"count\":\"4294967295\",\"tenant\":\"acme\",\"tool\":[\"a\"]}");
	refuses("grant add acme a --since yesterdayish", "grant add: since: \"yesterdayish\"", "");
	refuses("grant add acme a --on maybe", "grant add: on: ", "");
	refuses("grant add acme \xff", "grant add: tool is not UTF-8 text", "");
}

static void help_needs_no_arguments(void **state)
{
	struct ctl_line line;
	struct str text = STR_INIT;
	struct err err;

	assert_int_equal(parse("grant add --help", &line, &err), 0);
	assert_true(line.opt.help);
	ctl_help_command(line.cmd, &text);
	assert_non_null(strstr(text.p, "usage: toolcrib grant add TENANT TOOL... [--as ALIAS]"));
	assert_non_null(strstr(text.p, "--dry-run"));
	ctl_line_fini(&line);
	assert_int_equal(parse("tool --help", &line, &err), 0);
	assert_null(line.cmd);
	assert_int_equal(parse("--version", &line, &err), 0);
	assert_true(line.opt.version);
	str_fini(&text);
}

static void every_row_is_in_help_page_and_completion(void **state)
{
	static const char *const shells[] = { "bash", "zsh", "fish" };
	struct str help = STR_INIT, man = STR_INIT, text[3] = { STR_INIT, STR_INIT, STR_INIT };
	struct err err;

	ctl_help_all(tables, &help);
	ctl_man_commands(tables, &man);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ctl_complete(tables, shells[i], &text[i], &err), 0);
	for (const struct command *c = table; c->noun; c++) {
		struct str name = STR_INIT;

		ctl_command_name(c, &name);
		assert_non_null(strstr(help.p, name.p));
		assert_non_null(strstr(man.p, name.p));
		for (int i = 0; i < 3; i++)
			assert_non_null(strstr(text[i].p, c->verb ? c->verb : c->noun));
		str_fini(&name);
	}
	assert_non_null(strstr(man.p, ".It Ic grant add Ar TENANT Ar TOOL ... Oo Fl -as Ar ALIAS Oc"));
	for (int i = 0; i < 2; i++)
		assert_non_null(strstr(text[i].p, "'grant add 0') _toolcrib_tenant ;;\n\t'grant add '*) _toolcrib_tool ;;"));
	assert_non_null(strstr(text[0].p, "'grant add --on') _toolcrib_words yes no ;;"));
	assert_non_null(strstr(text[1].p, "'grant add --on') _toolcrib_words yes '' no '' ;;"));
	assert_non_null(strstr(text[2].p, "\tcase 'grant add 0'\n\t\t_toolcrib_tenant\n\tcase 'grant add *'\n\t\t_toolcrib_tool\n"));
	assert_int_equal(ctl_complete(tables, "tcsh", &help, &err), ERR_INVALID);
	assert_string_equal(err.msg, "no completion for tcsh; there is one for bash, zsh and fish");
	for (int i = 0; i < 3; i++)
		str_fini(&text[i]);
	str_fini(&help);
	str_fini(&man);
}

SINGLE_THREAD_SUITE(args)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_become_members_in_any_order_with_options),
		cmocka_unit_test(two_dashes_end_the_options),
		cmocka_unit_test(global_options_may_stand_anywhere),
		cmocka_unit_test(files_are_kept_apart),
		cmocka_unit_test(unknown_words_are_answered_with_the_nearest),
		cmocka_unit_test(what_is_missing_or_too_much_is_named),
		cmocka_unit_test(values_are_checked_by_type),
		cmocka_unit_test(help_needs_no_arguments),
		cmocka_unit_test(every_row_is_in_help_page_and_completion),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
