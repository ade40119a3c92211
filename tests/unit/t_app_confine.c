/* The server's confinement: what a process may not do any more, and what it still does (HARDENING F-12). */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "sandbox/filter.h"

#include "app_int.h"
#include "suite.h"

static void *nothing(void *arg)
{
	return arg;
}

static bool refused(long rc)
{
	return rc == -1 && errno == EPERM;
}

static bool starts_a_process(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid >= 0;
}

static bool starts_a_program(void)
{
	static char *const argv[] = { (char *)(uintptr_t)"true", NULL };

	return !refused(execve("/bin/true", argv, argv + 1));
}

static bool becomes_another(void)
{
	return !refused(setresuid(65534, 65534, 65534));
}

static bool signals_another(void)
{
	return !refused(kill(getppid(), 0));
}

static bool traces_another(void)
{
	return !refused(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL));
}

static bool mounts_or_leaves(void)
{
	return !refused(chroot("/"));
}

/* Each is true in a server. */
static bool works(void)
{
	pthread_t thread;
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC), s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && s >= 0 && pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0 &&
	       prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
}

/* In a process of its own, which is confined for ever. */
static int confined(bool (*does)(void))
{
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(app_confine_process(NULL) < 0 ? 2 : does() ? 1 : 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void f12_a_confined_server_starts_no_program_and_becomes_nobody_else(void **state)
{
	bool (*const attacks[])(void) = { starts_a_process, starts_a_program, becomes_another, signals_another, traces_another,
					  mounts_or_leaves };

	(void)state;
	if (!filter_available())
		skip();
	for (size_t i = 0; i < NELEMS(attacks); i++) {
		if (confined(attacks[i]) != 0)
			fail_msg("attack %zu got through", i);
	}
	assert_int_equal(confined(works), 1);
}

SUITE(confine)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(f12_a_confined_server_starts_no_program_and_becomes_nobody_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
