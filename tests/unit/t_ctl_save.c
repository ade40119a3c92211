/* The file of a command that sends one: whole and as it was sent, or not there. */
#include "config.h"

#include "ctl_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "suite.h"

/* SHA-256 of "abcdef" */
#define SUM "bef57ec7f53a6d40beb640a780a639c83bc29ac8a9816f1fc6c5c6dcd93c4721"
#define ABC "{\"row\":{\"data\":\"YWJj\"}}\n"
#define DEF "{\"row\":{\"data\":\"ZGVm\"}}\n"
#define LAST "{\"row\":{\"records\":2,\"sha256\":\"" SUM "\"}}\n"

static const struct command_arg arguments[] = { { .name = "range", .type = ARG_TEXT }, { .name = "file", .type = ARG_PATH }, { .name = NULL } };
static const struct command command = { .args = arguments };
static char folder[] = "/tmp/t_ctl_save-XXXXXX";

/* What comes of these parts; the last one stands in for the reply. */
static int save(const char *const *parts, bool whole, struct str *ret, char **ret_path)
{
	struct ctl_line line = { .cmd = &command, .args = json_object() };
	struct ctl_save *s = NULL;
	struct err err = { 0 };
	int rc;

	*ret_path = path_join(folder, "file");
	json_object_set_new(line.args, "file", json_string(*ret_path));
	assert_int_equal(ctl_save_new(&line, &s, &err), 0);
	for (; *parts; parts++) {
		struct str rows = STR_INIT;

		str_puts(&rows, *parts);
		ctl_save_feed(s, &rows);
		str_fini(&rows);
	}
	rc = ctl_save_end(&s, whole, ret, &err);
	assert_true(rc == 0 || strstr(err.msg, *ret_path));
	json_decref(line.args);
	return rc;
}

static void what_is_whole_is_kept(void **state)
{
	static const char *const parts[] = { ABC DEF, LAST, NULL };
	struct str row = STR_INIT, text = STR_INIT;
	struct stat st;
	char *path;

	(void)state;
	assert_int_equal(save(parts, true, &row, &path), 0);
	assert_int_equal(path_read(path, 100, &text, NULL), 0);
	assert_string_equal(str_text(&text), "abcdef");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_non_null(strstr(str_text(&row), path));
	assert_non_null(strstr(str_text(&row), "\"records\":2"));
	(void)unlink(path);
	free(path);
	str_fini(&row);
	str_fini(&text);
}

static void what_is_not_is_removed(void **state)
{
	static const struct { const char *part[4]; bool whole; } wrong[] = {
		{ { ABC, DEF, LAST }, false },                  /* the command failed behind it */
		{ { ABC, LAST }, true },
		{ { DEF, ABC, LAST }, true },
		{ { ABC, DEF }, true },                         /* nobody says what it is */
		{ { ABC, "{\"row\":{\"data\":\"ZGV\"}}\n", LAST }, true },
		{ { ABC, "{\"row\":{\"data\"\n", LAST }, true },
		{ { "{\"row\":{}}\n" }, true },
		{ { "" }, true },
	};

	(void)state;
	for (size_t i = 0; i < NELEMS(wrong); i++) {
		struct str row = STR_INIT;
		char *path;
		int rc = save(wrong[i].part, wrong[i].whole, &row, &path);

		if ((rc < 0) != wrong[i].whole || row.len > 0 || path_exists(path))
			fail_msg("%zu: %d, \"%s\"", i, rc, str_text(&row));
		free(path);
		str_fini(&row);
	}
}

static void what_is_there_stays(void **state)
{
	char *path = path_join(folder, "file"), *link = path_join(folder, "link");
	struct ctl_line line = { .cmd = &command, .args = json_object() };
	struct ctl_save *s = NULL;
	struct err err;

	(void)state;
	assert_int_equal(path_create(path, 0600, "mine", 4, NULL), 0);
	assert_int_equal(symlink("nowhere", link), 0);
	json_object_set_new(line.args, "file", json_string(path));
	assert_int_equal(ctl_save_new(&line, &s, &err), ERR_CONFLICT);
	json_object_set_new(line.args, "file", json_string(link));
	assert_int_equal(ctl_save_new(&line, &s, &err), ERR_CONFLICT);
	assert_null(s);
	assert_true(path_exists(path));
	(void)unlink(path);
	(void)unlink(link);
	json_decref(line.args);
	free(path);
	free(link);
}

/* Between the first part and the last one. */
static void what_came_meanwhile_stays(void **state)
{
	char *path = path_join(folder, "file");
	struct ctl_line line = { .cmd = &command, .args = json_object() };
	struct str rows = STR_INIT, row = STR_INIT, text = STR_INIT;
	struct ctl_save *s = NULL;
	struct err err;

	(void)state;
	json_object_set_new(line.args, "file", json_string(path));
	assert_int_equal(ctl_save_new(&line, &s, &err), 0);
	str_puts(&rows, ABC DEF LAST);
	ctl_save_feed(s, &rows);
	assert_false(path_exists(path));
	assert_int_equal(path_create(path, 0600, "mine", 4, NULL), 0);
	assert_int_equal(ctl_save_end(&s, true, &row, &err), ERR_CONFLICT);
	assert_int_equal(path_read(path, 100, &text, NULL), 0);
	assert_string_equal(str_text(&text), "mine");
	(void)unlink(path);
	json_decref(line.args);
	free(path);
	str_fini(&rows);
	str_fini(&row);
	str_fini(&text);
}

static int start(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	return rmdir(folder);
}

SINGLE_THREAD_SUITE(save)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_whole_is_kept),
		cmocka_unit_test(what_is_not_is_removed),
		cmocka_unit_test(what_is_there_stays),
		cmocka_unit_test(what_came_meanwhile_stays),
	};

	return cmocka_run_group_tests(tests, start, end);
}
