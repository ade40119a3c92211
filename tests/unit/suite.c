/*
 * The main() of the unit tests of a room.  Each suite runs in a process of its own, so that clocks, metrics, log and
 * file systems that one replaces are the real ones for the next, and the end of one is no other's.  cmocka prints each
 * test's name before it runs, so that the last name is the one that crashed.
 *
 *	t_ROOM                 every suite
 *	t_ROOM NAME[:TEST]…    those whose names match the patterns; TEST is a pattern of the test's name
 *	t_ROOM --list          the names of the suites
 *
 * One suite alone runs in the first process, where a debugger looks for it.
 */

#include "config.h"

#include <errno.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "suite.h"

static struct suite *suites;            /* by name */

void suite_add(struct suite *s)
{
	struct suite **at = &suites;

	while (*at && strcmp((*at)->name, s->name) < 0)
		at = &(*at)->next;
	s->next = *at;
	*at = s;
}

/* Whether the word NAME[:TEST] means s; *ret_test: what follows the colon, or NULL. */
static bool means(const char *word, const struct suite *s, const char **ret_test)
{
	const char *colon = strchr(word, ':');
	char name[64];

	(void)snprintf(name, sizeof(name), "%.*s", colon ? (int)(colon - word) : (int)strlen(word), word);
	*ret_test = colon ? colon + 1 : NULL;
	return fnmatch(name, s->name, 0) == 0;
}

static bool chosen(const struct suite *s, int argc, char **argv, const char **ret_test)
{
	*ret_test = NULL;
	for (int i = 1; i < argc; i++)
		if (means(argv[i], s, ret_test))
			return true;
	return argc < 2;
}

static int run_here(const struct suite *s, const char *test)
{
	int rc;

	if (test)
		cmocka_set_test_filter(test);
	rc = s->run() == 0 ? 0 : 1;
	/* The sanitizer has threads of its own. */
	if (s->single && !LOOKS_FOR_RACES && !__libc_single_threaded) {
		(void)fprintf(stderr, "%s: a SINGLE_THREAD_SUITE has started a thread: make it a SUITE\n", s->name);
		rc = 1;
	}
	return rc;
}

/* In a process of its own. */
static int run_apart(const struct suite *s, const char *test)
{
	struct rusage used;
	int status;
	pid_t pid;

	printf("== suite %s\n", s->name);
	(void)fflush(NULL);
	pid = fork();
	if (pid == 0)
		exit(run_here(s, test));
	while (pid < 0 || wait4(pid, &status, 0, &used) < 0)
		if (pid < 0 || errno != EINTR) {
			perror(s->name);
			return 1;
		}
	if (WIFSIGNALED(status))
		printf("== suite %s: died of signal %d, %s\n", s->name, WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		printf("== suite %s: %s, %.2f s CPU\n", s->name, WEXITSTATUS(status) ? "FAILED" : "passed",
		       (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
		       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
	return status != 0;
}

static bool left_out(const struct suite *s)
{
	if (!LOOKS_FOR_RACES || !s->single || getenv("TOOLCRIB_ALL_SUITES"))
		return false;
	printf("== suite %s: left out, one thread has no races\n", s->name);
	return true;
}

/* Stores lie in memory where TMPDIR names no other place: the end of a process does not depend on what a flush does,
 * and disks that fail are played by faultvfs.h. */
static void choose_place(void)
{
	struct statvfs place;

	if (!getenv("TMPDIR") && access("/dev/shm", W_OK) == 0 && statvfs("/dev/shm", &place) == 0 &&
	    (uint64_t)place.f_bavail * place.f_frsize > 256u << 20)
		(void)setenv("TMPDIR", "/dev/shm", 1);
}

int main(int argc, char **argv)
{
	const struct suite *only = NULL;
	const char *test;
	unsigned n = 0;
	int failed = 0;

	for (const struct suite *s = suites; s; s = s->next)
		if (argc == 2 && strcmp(argv[1], "--list") == 0)
			puts(s->name);
		else if (chosen(s, argc, argv, &test)) {
			only = s;
			n++;
		}
	if (argc == 2 && strcmp(argv[1], "--list") == 0)
		return 0;
	if (n == 0) {
		(void)fprintf(stderr, "%s: no such suite; --list names them\n", argv[0]);
		return 2;
	}
	choose_place();
	if (n == 1) {
		(void)chosen(only, argc, argv, &test);
		return run_here(only, test);
	}
	for (const struct suite *s = suites; s; s = s->next)
		if (chosen(s, argc, argv, &test))
			failed |= left_out(s) ? 0 : run_apart(s, test);
	return failed;
}
