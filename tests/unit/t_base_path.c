/* Files, directories and default places. */

#include "config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "suite.h"

static char *top;               /* the directory of one test */
static int home;                /* where the program was started */

static int make_top(void **state)
{
	const char *tmp = getenv("TMPDIR");

	top = path_join(tmp ? tmp : "/tmp", "toolcrib-path-XXXXXX");
	home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	umask(077);
	return home >= 0 && mkdtemp(top) && chdir(top) == 0 ? 0 : -1;
}

/* Files first, then directories, deepest first: what the tests below leave. */
static int remove_top(void **state)
{
	static const char *const left[] = { "f", "g", "d/e/f", "d/e", "d" };

	for (size_t i = 0; i < NELEMS(left); i++)
		(void)remove(left[i]);
	if (fchdir(home) != 0 || rmdir(top) != 0)
		return -1;
	close(home);
	free(top);
	return 0;
}

static void created_files_come_back(void **state)
{
	struct str s = STR_INIT;
	struct stat st;
	struct err err;

	assert_int_equal(path_create("f", 0444, "a\0b", 3, &err), 0);
	assert_int_equal(stat("f", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0444);
	str_puts(&s, ">");
	assert_int_equal(path_read("f", 3, &s, &err), 0);
	assert_int_equal(s.len, 4);
	assert_memory_equal(s.p, ">a\0b", 5);
	str_fini(&s);
}

static void create_does_not_replace(void **state)
{
	struct str s = STR_INIT;
	struct err err;

	assert_int_equal(path_create("f", 0600, "old", 3, &err), 0);
	assert_int_equal(path_create("f", 0600, "new", 3, &err), ERR_CONFLICT);
	assert_string_equal(err.where, "f");
	assert_int_equal(symlink("nowhere", "g"), 0);
	assert_int_equal(path_create("g", 0600, "new", 3, &err), ERR_CONFLICT);
	assert_int_equal(path_create("no/f", 0600, "new", 3, &err), ERR_UNREACHABLE);
	assert_int_equal(path_read("f", 10, &s, &err), 0);
	assert_string_equal(s.p, "old");
	str_fini(&s);
}

static void read_refuses_above_the_limit(void **state)
{
	struct str s = STR_INIT;
	char big[40000];
	struct err err;

	memset(big, 'x', sizeof big);
	assert_int_equal(path_create("f", 0600, big, sizeof big, &err), 0);
	assert_int_equal(path_read("f", sizeof big - 1, &s, &err), ERR_LIMIT);
	assert_int_equal(s.len, 0);
	assert_false(s.failed);
	assert_int_equal(path_read("f", sizeof big, &s, &err), 0);
	assert_int_equal(s.len, sizeof big);
	str_fini(&s);
}

/* HARDENING F-11: none of these is waited for; the test would not end. */
static void test_f11_only_files_are_opened(void **state)
{
	struct str s = STR_INIT;
	FILE *f = NULL;
	struct err err;
	int fd = -1;

	assert_int_equal(mkfifo("f", 0600), 0);
	assert_int_equal(path_read("f", 10, &s, &err), ERR_UNREACHABLE);
	assert_string_equal(err.msg, "f is no file but a FIFO");
	assert_string_equal(err.where, "f");
	assert_int_equal(path_open("f", PATH_APPEND, SIZE_MAX, &fd, &err), ERR_UNREACHABLE);
	assert_int_equal(path_open_stream("f", &f, &err), ERR_UNREACHABLE);
	assert_int_equal(path_is_file("f", &err), ERR_UNREACHABLE);
	assert_int_equal(path_is_file("missing", &err), 0);
	assert_int_equal(symlink("/dev/zero", "g"), 0);
	assert_int_equal(path_read("g", 10, &s, &err), ERR_UNREACHABLE);
	assert_string_equal(err.msg, "g is no file but a device");
	assert_int_equal(path_read(".", 10, &s, &err), ERR_UNREACHABLE);
	assert_string_equal(err.msg, ". is no file but a directory");
	assert_null(s.p);
	assert_null(f);
	assert_int_equal(fd, -1);
}

static void test_f11_files_of_any_size_are_refused_by_their_size(void **state)
{
	struct str s = STR_INIT;
	struct err err;
	int fd = -1;

	assert_int_equal(path_create("f", 0600, "0123456789", 10, &err), 0);
	assert_int_equal(path_open("f", 0, 9, &fd, &err), ERR_LIMIT);
	assert_int_equal(path_open("f", 0, 10, &fd, &err), 0);
	close(fd);
	assert_int_equal(truncate("f", (off_t)1 << 40), 0);
	assert_int_equal(path_read("f", 10, &s, &err), ERR_LIMIT);
	assert_null(s.p);
}

/* HARDENING F-11: nor are secrets taken from where others put or read them. */
static void test_f11_secrets_are_ours_alone(void **state)
{
	static const struct { mode_t mode; int secret, private; } modes[] = {
		{ 0400, 0, 0 }, { 0600, 0, 0 }, { 0640, 0, ERR_DENIED }, { 0620, ERR_DENIED, ERR_DENIED },
		{ 0604, ERR_DENIED, ERR_DENIED }, { 0602, ERR_DENIED, ERR_DENIED }, { 0601, ERR_DENIED, ERR_DENIED },
	};
	struct str s = STR_INIT;
	struct err err;

	assert_int_equal(path_create("f", 0600, "k", 1, &err), 0);
	for (size_t i = 0; i < NELEMS(modes); i++) {
		assert_int_equal(chmod("f", modes[i].mode), 0);
		assert_int_equal(path_read_as("f", PATH_SECRET, 1, &s, &err), modes[i].secret);
		assert_int_equal(path_read_as("f", PATH_PRIVATE, 2, &s, &err), modes[i].private);
		str_reset(&s);
	}
	assert_string_equal(err.msg, "f holds a secret and others may use it: its mode is 601");
	str_fini(&s);
	assert_int_equal(symlink("nowhere", "g"), 0);
	assert_int_equal(path_open("g", PATH_APPEND, SIZE_MAX, &(int){ -1 }, &err), ERR_UNREACHABLE);
	assert_false(path_exists("nowhere"));
}

static void read_names_what_it_cannot_read(void **state)
{
	struct str s = STR_INIT;
	struct err err;

	assert_int_equal(path_read("missing", 10, &s, &err), ERR_UNREACHABLE);
	assert_string_equal(err.where, "missing");
	assert_string_equal(err.msg, "cannot open missing: No such file or directory");
	assert_int_equal(path_read(".", 10, &s, &err), ERR_UNREACHABLE);
	assert_int_equal(path_read("missing", 10, &s, NULL), ERR_UNREACHABLE);
	assert_null(s.p);
}

static void mkdirs_makes_all_missing_parts(void **state)
{
	char *deep = path_join(top, "d//e/");
	struct stat st;
	struct err err;

	assert_int_equal(path_mkdirs(deep, 0700, &err), 0);
	assert_int_equal(path_mkdirs(deep, 0700, &err), 0);
	assert_int_equal(path_mkdirs("d/e", 0700, &err), 0);
	assert_int_equal(stat("d/e", &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(path_create("d/e/f", 0600, "", 0, &err), 0);
	assert_int_equal(path_mkdirs("d/e/f", 0700, &err), ERR_CONFLICT);
	assert_int_equal(path_mkdirs("d/e/f/g", 0700, &err), ERR_UNREACHABLE);
	free(deep);
}

static void exists_is_about_names(void **state)
{
	struct err err;

	assert_false(path_exists("f"));
	assert_int_equal(path_create("f", 0, "", 0, &err), 0);
	assert_true(path_exists("f"));
	assert_true(path_exists("."));
}

static void check_take(char *got, const char *want)
{
	assert_string_equal(got, want);
	free(got);
}

static void join_puts_one_slash(void **state)
{
	check_take(path_join("a", "b"), "a/b");
	check_take(path_join("a/", "b"), "a/b");
	check_take(path_join("/", "b"), "/b");
	check_take(path_join("", "b"), "b");
}

static void absolute_starts_at_the_working_directory(void **state)
{
	char *cwd = getcwd(NULL, 0), *want = path_join(cwd, "a/../b");

	check_take(path_absolute("/x/../y"), "/x/../y");
	check_take(path_absolute("a/../b"), want);
	check_take(path_absolute(".//./a/../b"), want);
	check_take(path_absolute("."), cwd);
	free(want);
	free(cwd);
}

static void default_store_follows_the_environment(void **state)
{
	struct err err;
	char *dir = NULL;

	setenv("TOOLCRIB_STORE", "/s", 1);
	assert_int_equal(path_default_store(&dir, &err), 0);
	check_take(dir, "/s");
	setenv("TOOLCRIB_STORE", "", 1);
	setenv("XDG_STATE_HOME", "/x", 1);
	setenv("HOME", "/h", 1);
	assert_int_equal(path_default_store(&dir, &err), 0);
	if (geteuid() == 0) {
		check_take(dir, "/var/lib/toolcrib");
		return;
	}
	check_take(dir, "/x/toolcrib");
	setenv("XDG_STATE_HOME", "relative", 1);
	assert_int_equal(path_default_store(&dir, &err), 0);
	check_take(dir, "/h/.local/state/toolcrib");
	unsetenv("HOME");
	assert_int_equal(path_default_store(&dir, &err), ERR_INVALID);
}

SINGLE_THREAD_SUITE(path)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(created_files_come_back, make_top, remove_top),
		cmocka_unit_test_setup_teardown(create_does_not_replace, make_top, remove_top),
		cmocka_unit_test_setup_teardown(read_refuses_above_the_limit, make_top, remove_top),
		cmocka_unit_test_setup_teardown(test_f11_only_files_are_opened, make_top, remove_top),
		cmocka_unit_test_setup_teardown(test_f11_files_of_any_size_are_refused_by_their_size, make_top, remove_top),
		cmocka_unit_test_setup_teardown(test_f11_secrets_are_ours_alone, make_top, remove_top),
		cmocka_unit_test_setup_teardown(read_names_what_it_cannot_read, make_top, remove_top),
		cmocka_unit_test_setup_teardown(mkdirs_makes_all_missing_parts, make_top, remove_top),
		cmocka_unit_test_setup_teardown(exists_is_about_names, make_top, remove_top),
		cmocka_unit_test_setup_teardown(absolute_starts_at_the_working_directory, make_top, remove_top),
		cmocka_unit_test(join_puts_one_slash),
		cmocka_unit_test(default_store_follows_the_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
