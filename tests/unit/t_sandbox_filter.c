/* Filters made of the table of system calls: groups allow, rows come first, what nobody knows is not there. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "sandbox/filter.h"
#include "suite.h"

#define NEWER 511                               /* a call that no kernel has yet */

/* What the call fails with in a process that has put the filter on; 0: nothing. */
static int under(const struct filter *f, long nr, long a, long b, long c)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		struct err err;
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || filter_put_on(f, NULL, &err))
			_exit(255);
		_exit(syscall(nr, a, b, c) < 0 ? errno : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_not_equal(WEXITSTATUS(status), 255);
	return WEXITSTATUS(status);
}

static void groups_are_allowed_and_nothing_else(void **state)
{
	const struct filter core = { .groups = FILTER_CORE }, files = { .groups = FILTER_CORE | FILTER_FILES };
	if (!filter_available())
		skip();
	assert_int_equal(under(&core, SYS_getpid, 0, 0, 0), 0);
	assert_int_equal(under(&core, SYS_openat, AT_FDCWD, (long)"/", O_RDONLY), EPERM);
	assert_int_equal(under(&files, SYS_openat, AT_FDCWD, (long)"/", O_RDONLY), 0);
	assert_int_equal(under(&files, SYS_fchmodat, AT_FDCWD, (long)"/nonexistent", 0600), EPERM);
	assert_int_equal(under(&files, SYS_socket, AF_INET, SOCK_STREAM, 0), EPERM);
	assert_int_equal(under(&files, SYS_execve, (long)"/nonexistent", 0, 0), EPERM);
}

/* HARDENING 1.2: what the table does not know is newer than it; what it knows as dangerous is in no group. */
static void f8_what_is_dangerous_or_new_is_in_no_group(void **state)
{
	const struct filter all = { .groups = ~0u }, none = { .groups = FILTER_CORE };
	if (!filter_available())
		skip();
	for (const struct filter *const *f = (const struct filter *[]){ &all, &none, NULL }; *f; f++) {
		assert_int_equal(under(*f, SYS_ptrace, 0, 0, 0), EPERM);
		assert_int_equal(under(*f, SYS_shmget, 0, 4096, 0600), EPERM);
		assert_int_equal(under(*f, SYS_mount, 0, 0, 0), EPERM);
		assert_int_equal(under(*f, SYS_io_uring_setup, 1, 0, 0), EPERM);
		assert_int_equal(under(*f, SYS_clone3, 0, 0, 0), ENOSYS);
		assert_int_equal(under(*f, NEWER, 0, 0, 0), ENOSYS);
		assert_int_equal(under(*f, NEWER + 1, 0, 0, 0), ENOSYS);
		assert_int_equal(under(*f, 100000, 0, 0, 0), ENOSYS);
	}
}

static void first_row_that_matches_decides(void **state)
{
	const struct filter_row rows[] = {
		{ SYS_openat, FILTER_UNSUPPORTED, 2, { 0 }, { 0 } },            /* when does not hold */
		{ SYS_openat, FILTER_REFUSE, 1, { 2, FILTER_HAS, FILTER_ALL, O_WRONLY }, { 0 } },
		{ SYS_openat, FILTER_ABSENT, 0, { 2, FILTER_IS, O_DIRECTORY, O_DIRECTORY },
		  { 2, FILTER_IS_NOT, O_CLOEXEC, O_CLOEXEC } },
		{ SYS_ptrace, FILTER_ALLOW, 0, { 0, FILTER_IS, FILTER_ALL, 0xffff }, { 0 } },
	};
	const struct filter f = { .groups = FILTER_CORE | FILTER_FILES, .rows = rows, .nrows = NELEMS(rows), .when = 1 };
	if (!filter_available())
		skip();
	assert_int_equal(under(&f, SYS_openat, AT_FDCWD, (long)"/dev/null", O_WRONLY), EPERM);
	assert_int_equal(under(&f, SYS_openat, AT_FDCWD, (long)"/", O_DIRECTORY), ENOSYS);
	assert_int_equal(under(&f, SYS_openat, AT_FDCWD, (long)"/", O_DIRECTORY | O_CLOEXEC), 0);
	assert_int_equal(under(&f, SYS_openat, AT_FDCWD, (long)"/", O_RDONLY), 0);
	assert_int_not_equal(under(&f, SYS_ptrace, 0xffff, 0, 0), EPERM);
	assert_int_equal(under(&f, SYS_ptrace, 0, 0, 0), EPERM);
}

static void *nothing(void *arg)
{
	return arg;
}

/* 0: a thread can be started, and no process. */
static int threads_alone(const struct filter *f)
{
	pthread_t t;
	struct err err;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || filter_put_on(f, NULL, &err))
		return 1;
	if (pthread_create(&t, NULL, nothing, NULL) || pthread_join(t, NULL))
		return 2;
	if (fork() >= 0 || errno != EPERM)
		return 3;
	return unshare(CLONE_NEWUSER) == 0 || errno != EPERM ? 4 : 0;
}

static void threads_are_no_processes(void **state)
{
	const struct filter f = { .groups = FILTER_CORE | FILTER_THREADS };
	int status;
	if (!filter_available())
		skip();
	pid_t pid = fork();
	if (pid == 0)
		_exit(threads_alone(&f));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void who_asks_nobody_is_told(void **state)
{
	const struct filter_row rows[] = { { SYS_kill, FILTER_ASK, 0, { 0 }, { 0 } } };
	const struct filter f = { .groups = FILTER_CORE, .rows = rows, .nrows = 1 };
	struct err err;
	if (!filter_available())
		skip();
	assert_int_equal(filter_put_on(&f, NULL, &err), ERR_INVALID);
}

SINGLE_THREAD_SUITE(filter)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_are_allowed_and_nothing_else),
		cmocka_unit_test(f8_what_is_dangerous_or_new_is_in_no_group),
		cmocka_unit_test(first_row_that_matches_decides),
		cmocka_unit_test(threads_are_no_processes),
		cmocka_unit_test(who_asks_nobody_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
