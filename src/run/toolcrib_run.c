/* toolcrib-run: reads instructions from descriptor 3, builds the cage, becomes one tool (SEC S-501,
 * S-502).  It takes nothing from its arguments or its environment, and it is a program of its own so
 * that nothing has to be done between fork and exec in a server with threads. */
#include "config.h"

#include "run/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "run_int.h"

#define EXIT_NOT_STARTED 126    /* for the log only: what counts is the report */

static int read_all(void *p, size_t n, struct err *err)
{
	char *at = p;
	while (n > 0) {
		ssize_t got = recv(RUN_FD, at, n, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_set(err, ERR_IO, "instructions", "%s", strerror(errno));
		if (got == 0)
			return err_set(err, ERR_IO, "instructions", "cut short");
		at += got;
		n -= (size_t)got;
	}
	return 0;
}

static int read_policy(struct run_policy **ret, struct err *err)
{
	unsigned char head[RUN_HEAD_SIZE];
	size_t rest = 0;
	int rc = read_all(head, sizeof(head), err);
	rc = rc ? rc : run_policy_head(head, &rest, err);
	if (rc)
		return rc;
	unsigned char *bytes = mem_alloc(sizeof(head) + rest);
	memcpy(bytes, head, sizeof(head));
	rc = read_all(bytes + sizeof(head), rest, err);
	rc = rc ? rc : run_policy_decode(bytes, sizeof(head) + rest, ret, err);
	free(bytes);
	return rc;
}

static void report(const char *text, size_t len)
{
	(void)!send(RUN_FD, text, len, MSG_NOSIGNAL);   /* a server that is gone needs no report */
}

/* A script is opened once more by its interpreter, by name, so it has to be started by name; what else
 * runs is what was checked. */
static bool is_script(const char *program)
{
	char start[2] = { 0 };
	int fd = open(program, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;   /* execute permission alone is enough for a binary */
	ssize_t n = read(fd, start, sizeof(start));
	close(fd);
	return n == 2 && memcmp(start, "#!", 2) == 0;
}

static int become(const struct run_policy *p, struct err *err)
{
	int fd = -1;
	int rc = confine_limits(p, err);
	rc = rc ? rc : confine_parent(p, err);
	rc = rc ? rc : confine_open(p, &fd, err);
	if (!rc && chdir(p->cwd ? p->cwd : "/"))
		rc = err_set(err, ERR_IO, "cwd", "%s", strerror(errno));
	rc = rc ? rc : confine_privileges(err);
	rc = rc ? rc : confine_descriptors(fd, err);
	if (rc)
		return rc;

	bool script = is_script(p->program);
	/* exec takes lists of char * but writes to none of them. */
	char *const *argv = (char *const *)(uintptr_t)p->argv, *const *env = (char *const *)(uintptr_t)p->env;
	const char ready = RUN_READY;
	report(&ready, 1);
	if (script)
		execve(p->program, argv, env);
	else
		fexecve(fd, argv, env);
	return err_set(err, ERR_IO, "exec", "%s", strerror(errno));
}

/* For people and package checks; the server passes no arguments. */
static bool answer(const char *option)
{
	if (!strcmp(option, "--version"))
		puts("toolcrib-run " PACKAGE_VERSION);
	else if (!strcmp(option, "--help"))
		puts("toolcrib-run is started by toolcribd, with its instructions on descriptor 3; see toolcrib-run(8)");
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	if (argc == 2 && answer(argv[1]))
		return 0;
	if (fcntl(RUN_FD, F_SETFD, FD_CLOEXEC)) {
		fputs("toolcrib-run: it is started by toolcribd, with its instructions on descriptor 3\n", stderr);
		return EXIT_NOT_STARTED;
	}
	struct err err = { 0 };
	struct run_policy *policy = NULL;
	setpgid(0, 0);          /* the server has done it already; started otherwise, it still holds */
	int rc = read_policy(&policy, &err);
	if (!rc)
		rc = become(policy, &err);
	char text[sizeof(err.where) + sizeof(err.msg) + 2];
	int n = snprintf(text, sizeof(text), "%s: %s", err.where, err.msg);
	report(text, n < RUN_REPORT_MAX ? (size_t)n : RUN_REPORT_MAX - 1);
	free(policy);
	return EXIT_NOT_STARTED;
}
