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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/sanitized.h"
#include "conf/conf.h"
#include "sandbox/filter.h"
#include "sandbox/level.h"

#include "app_int.h"
#include "suite.h"
#include "tmpdir.h"

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

	return execve("/bin/true", argv, argv + 1) != -1 || (errno != EPERM && errno != EACCES);
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

/* --- files: a store, a configuration beside it, and what is nobody's business */

static char *top;

static const char *at(const char *name)
{
	static char path[4][256];
	static unsigned next;
	char *ret = path[next++ % 4];

	(void)snprintf(ret, sizeof(path[0]), "%s/%s", top, name);
	return ret;
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(at(name), "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int make_places(void **state)
{
	static const char *const dirs[] = { "store", "conf", "other", "more" };

	(void)state;
	top = tmpdir_make();
	if (!top)
		return -1;
	for (size_t i = 0; i < NELEMS(dirs); i++) {
		if (mkdir(at(dirs[i]), 0700))
			return -1;
	}
	put("store/toolcrib.db", "store");
	put("other/canary", "canary");
	put("more/canary", "canary");
	(void)symlink(at("other/canary"), at("store/link"));
	return 0;
}

static int remove_places(void **state)
{
	(void)state;
	tmpdir_remove(top);
	return 0;
}

static bool opened(const char *name, int flags)
{
	int fd = open(at(name), flags | O_CLOEXEC, 0600);

	return fd >= 0 || errno != EACCES;
}

static bool reads(void) { return opened("other/canary", O_RDONLY); }
static bool reads_by_link(void) { return opened("store/link", O_RDONLY); }
static bool reads_dots(void) { return opened("store/../other/canary", O_RDONLY); }
static bool lists(void) { return opened("other", O_RDONLY | O_DIRECTORY); }
static bool writes(void) { return opened("other/canary", O_WRONLY); }
static bool empties(void) { return opened("other/canary", O_WRONLY | O_TRUNC); }
static bool makes(void) { return opened("other/new", O_WRONLY | O_CREAT); }
static bool makes_in_conf(void) { return opened("conf/new", O_WRONLY | O_CREAT); }
static bool writes_conf(void) { return opened("conf/toolcribd.yaml", O_WRONLY); }
static bool removes(void) { return unlink(at("other/canary")) == 0; }
static bool removes_conf(void) { return unlink(at("conf/toolcribd.yaml")) == 0; }
static bool moves_in(void) { return rename(at("other/canary"), at("store/canary")) == 0; }
static bool moves_out(void) { return rename(at("store/toolcrib.db"), at("other/db")) == 0; }
static bool links_in(void) { return link(at("other/canary"), at("store/hard")) == 0; }
static bool makes_folder(void) { return mkdir(at("other/d"), 0700) == 0; }

static bool own_files_work(void)
{
	return opened("conf/toolcribd.yaml", O_RDONLY) && opened("conf/later.crt", O_RDONLY) && opened("store/toolcrib.db", O_RDWR) &&
	       opened("store/new", O_RDWR | O_CREAT) && rename(at("store/new"), at("store/newer")) == 0 &&
	       unlink(at("store/newer")) == 0 && opened("more/canary", O_RDWR) && opened("/../../etc/hosts", O_RDONLY);
}

/* As the start does it, in a process of its own. */
static int with_own_files(bool (*does)(void), unsigned landlock)
{
	struct conf *c = NULL;
	struct app a = { .opt.confine = true };
	int status = 0;
	pid_t pid;

	put("conf/toolcribd.yaml", "# the defaults\n");
	put("conf/later.crt", "");
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (conf_load(at("conf/toolcribd.yaml"), &c, NULL) < 0)
			_exit(3);
		a.store = mem_strdup(at("store"));
		c->files = mem_strdup(at("more"));
		a.opt.conf = c;
		a.sandbox.best.landlock = landlock;
		if (app_confine_files(&a, NULL) < 0)
			_exit(2);
		_exit(does() ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Each ABI that this kernel has: what an older one lacks is not asked of it. */
static void f12_a_confined_server_opens_no_other_file(void **state)
{
	static const struct { const char *name; bool (*does)(void); } attacks[] = {
		{ "reads", reads }, { "reads_by_link", reads_by_link }, { "reads_dots", reads_dots },
		{ "lists", lists }, { "writes", writes }, { "empties", empties }, { "makes", makes },
		{ "makes_in_conf", makes_in_conf }, { "writes_conf", writes_conf }, { "removes", removes },
		{ "removes_conf", removes_conf }, { "moves_in", moves_in }, { "moves_out", moves_out }, { "links_in", links_in },
		{ "makes_folder", makes_folder }, { "runs", starts_a_program },
	};
	unsigned best = sandbox_level_probe().landlock;

	(void)state;
	if (best == 0 || SANITIZED || COVERAGE)
		skip();
	for (unsigned abi = 1; abi <= best; abi++) {
		for (size_t i = 0; i < NELEMS(attacks); i++) {
			if (with_own_files(attacks[i].does, abi) != 0)
				fail_msg("%s got through at ABI %u", attacks[i].name, abi);
		}
		assert_int_equal(with_own_files(own_files_work, abi), 1);
	}
	assert_int_equal(with_own_files(reads, 0), 1);  /* nothing else would have refused it */
}

SUITE(confine)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(f12_a_confined_server_starts_no_program_and_becomes_nobody_else),
		cmocka_unit_test_setup_teardown(f12_a_confined_server_opens_no_other_file, make_places, remove_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
