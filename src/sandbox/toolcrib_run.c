/* toolcrib-run: reads instructions from descriptor 3, starts one tool in the sandbox that they describe (SEC S-501,
 * S-502), and stays beside it as its supervisor.  It takes nothing from its arguments or its environment, and it is a
 * program of its own so that nothing has to be done between fork and exec in a server with threads. */
#include "config.h"

#include "sandbox/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdnoreturn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox_int.h"

#define EXIT_NOT_STARTED 126    /* for the log only: what counts is the report */

static int read_all(int from, void *p, size_t n, struct err *err)
{
	char *at = p;
	while (n > 0) {
		ssize_t got = read(from, at, n);
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

static int read_policy(int from, struct sandbox_policy **ret, struct err *err)
{
	unsigned char head[SANDBOX_HEAD_SIZE];
	size_t rest = 0;
	int rc = read_all(from, head, sizeof(head), err);
	rc = rc ? rc : sandbox_policy_head(head, &rest, err);
	if (rc)
		return rc;
	unsigned char *bytes = mem_alloc(sizeof(head) + rest);
	memcpy(bytes, head, sizeof(head));
	rc = read_all(from, bytes + sizeof(head), rest, err);
	rc = rc ? rc : sandbox_policy_decode(bytes, sizeof(head) + rest, ret, err);
	free(bytes);
	return rc;
}

static void report(const char *text, size_t len)
{
	(void)!send(SANDBOX_FD, text, len, MSG_NOSIGNAL);   /* a server that is gone needs no report */
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

/* --- the tool ------------------------------------------------------------------------------------ */

/* The environment of the policy, and the own directory where it says nothing else. */
struct env { const char *at[SANDBOX_ENV_MAX + 3]; char home[256], tmpdir[256]; };

static bool env_has(const struct env *e, size_t n, const char *name)
{
	size_t len = strlen(name);
	for (size_t i = 0; i < n; i++) {
		if (strncmp(e->at[i], name, len) == 0)
			return true;
	}
	return false;
}

static void build_env(const struct sandbox_policy *p, const char *own_dir, struct env *e)
{
	size_t n = 0;
	for (; p->env[n]; n++)
		e->at[n] = p->env[n];
	snprintf(e->home, sizeof(e->home), "HOME=%s", own_dir ? own_dir : "");
	snprintf(e->tmpdir, sizeof(e->tmpdir), "TMPDIR=%s", own_dir ? own_dir : "");
	if (own_dir && !env_has(e, n, "HOME="))
		e->at[n++] = e->home;
	if (own_dir && !env_has(e, n, "TMPDIR="))
		e->at[n++] = e->tmpdir;
	e->at[n] = NULL;
}

static int send_listener(int fd, int listener, struct err *err)
{
	union { struct cmsghdr head; char room[CMSG_SPACE(sizeof(int))]; } control = { .room = { 0 } };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &listener, sizeof(int));
	return sendmsg(fd, &msg, MSG_NOSIGNAL) == 1 ? 0 : err_set(err, ERR_IO, "seccomp", "%s", strerror(errno));
}

/* In this order, because each step would be in the way of those before it.  fd: the program. */
static int confine(const struct sandbox_policy *p, const char *own_dir, int chan, int fd, struct err *err)
{
	const char *cwd = p->cwd ? p->cwd : own_dir ? own_dir : "/";
	int listener = -1;
	int rc = chdir(cwd) ? err_set(err, ERR_IO, "cwd", "%s", strerror(errno)) : 0;
	rc = rc ? rc : confine_privileges(err);
	rc = rc ? rc : landlock_confine(p, own_dir, err);
	rc = rc ? rc : confine_descriptors(fd, chan, err);
	rc = rc ? rc : filter_confine(p, &listener, err);
	if (!rc && listener >= 0)
		rc = send_listener(chan, listener, err);
	return rc;
}

static void report_level(const struct sandbox_policy *p)
{
	char level[SANDBOX_LEVEL_TEXT], text[SANDBOX_LEVEL_TEXT + 2];
	int n = snprintf(text, sizeof(text), "%c%s\n", SANDBOX_READY, sandbox_level_format(&p->level, level));
	report(text, (size_t)n);
}

static int become_tool(const struct sandbox_policy *p, const char *own_dir, int chan, int fd, struct err *err)
{
	struct env env;
	sigset_t none;
	int rc = confine(p, own_dir, chan, fd, err);
	bool script = !rc && is_script(p->program);
	rc = rc ? rc : confine_memory(p, err);
	if (rc)
		return rc;

	build_env(p, own_dir, &env);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* exec takes lists of char * but writes to none of them. */
	char *const *argv = (char *const *)(uintptr_t)p->argv, *const *envp = (char *const *)(uintptr_t)env.at;
	report_level(p);
	if (script)
		execve(p->program, argv, envp);
	else
		fexecve(fd, argv, envp);
	return err_set(err, ERR_IO, "exec", "%s", strerror(errno));
}

static int become(const struct sandbox_policy *p, const char *own_dir, const char *cgroup, pid_t supervisor, int chan,
		  struct err *err)
{
	int fd = -1;
	int rc = cgroup ? cgroup_enter(cgroup, err) : 0;
	rc = rc ? rc : confine_limits(p, err);
	rc = rc ? rc : confine_parent(supervisor, err);
	rc = rc ? rc : confine_open(p, &fd, err);
	if (rc || !p->bwrap)
		return rc ? rc : become_tool(p, own_dir, chan, fd, err);
	return bwrap_become(p, own_dir, chan, err);
}

/* --- the supervisor ------------------------------------------------------------------------------ */

static void report_failure(const struct err *err)
{
	char text[sizeof(err->where) + sizeof(err->msg) + 2];
	int n = snprintf(text, sizeof(text), "%s: %s", err->where, err->msg);
	report(text, n < SANDBOX_REPORT_MAX / 2 ? (size_t)n : SANDBOX_REPORT_MAX / 2);
}

/* All are dead and counted.  What the tool's own process had before it was one does not matter: we are small. */
static void report_usage(const char *cgroup)
{
	struct rusage ru = { .ru_maxrss = 0 };
	char text[64];
	getrusage(RUSAGE_CHILDREN, &ru);
	uint64_t cpu_us = cgroup ? cgroup_value(cgroup, "cpu.stat", "usage_usec ") : 0;
	uint64_t rss_kib = cgroup ? cgroup_value(cgroup, "memory.peak", "") / 1024 : 0;         /* since Linux 5.19 */
	if (cpu_us == 0)
		cpu_us = (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000 +
			 (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
	if (rss_kib == 0)
		rss_kib = (uint64_t)ru.ru_maxrss;
	int n = snprintf(text, sizeof(text), SANDBOX_USAGE "%" PRIu64 " %" PRIu64 "\n", cpu_us, rss_kib);
	report(text, (size_t)n);
}

/* Our end is the tool's: the server sees only us. */
static noreturn void end_like(int status)
{
	sigset_t none;
	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status));
	sigemptyset(&none);
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	sigprocmask(SIG_SETMASK, &none, NULL);
	raise(SIGKILL);
	_exit(EXIT_NOT_STARTED);
}

static int start(const struct sandbox_policy *p, const char *own_dir, const char *cgroup, pid_t *ret_tool, int *ret_chan,
		 struct err *err)
{
	pid_t supervisor = getpid();
	int chan[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, chan))
		return err_set(err, ERR_IO, "socketpair", "%s", strerror(errno));
	*ret_tool = fork();
	if (*ret_tool < 0)
		return err_set(err, ERR_IO, "fork", "%s", strerror(errno));
	if (*ret_tool == 0) {
		(void)become(p, own_dir, cgroup, supervisor, chan[1], err);
		report_failure(err);
		_exit(EXIT_NOT_STARTED);
	}
	close(chan[1]);
	*ret_chan = chan[0];
	return 0;
}

static int run(const struct sandbox_policy *p, struct err *err)
{
	struct supervisor s = { .cgroup = NULL };
	char *own_dir = NULL;
	pid_t tool = 0;
	int chan = -1, status = 0;
	int rc = supervise_prepare(p, &s, err);
	if (!rc && p->scratch)
		rc = own_dir_make(p->scratch, &own_dir, err);
	if (!rc && p->cgroup)
		rc = cgroup_make(p, &s.cgroup, err);
	rc = rc ? rc : start(p, own_dir, s.cgroup, &tool, &chan, err);
	if (!rc) {
		/* No core of ours, no look into us, and no end of the tool's pipes that it could wait for. */
		prctl(PR_SET_DUMPABLE, 0);
		close_range(STDIN_FILENO, STDOUT_FILENO, 0);
		status = supervise(&s, p, tool, chan);
		report_usage(s.cgroup);
	}
	if (own_dir)
		own_dir_remove(own_dir);
	free(own_dir);
	if (s.cgroup)
		cgroup_remove(s.cgroup);
	free(s.cgroup);
	if (!rc)
		end_like(status);
	return rc;
}

/* Started by bubblewrap: what is left to do in its namespaces.  A session of its own once more, so that a signal to the
 * tool's group does not hit bubblewrap. */
static int sandbox_inside(const char *own_dir)
{
	struct err err = { 0 };
	struct sandbox_policy *policy = NULL;
	int fd = -1;
	int rc = fcntl(SANDBOX_FD, F_SETFD, FD_CLOEXEC) || fcntl(SANDBOX_INSIDE_CHAN_FD, F_SETFD, FD_CLOEXEC) || setsid() < 0
			 ? err_set(&err, ERR_IO, "inside", "%s", strerror(errno)) : 0;
	rc = rc ? rc : read_policy(SANDBOX_INSIDE_POLICY_FD, &policy, &err);
	rc = rc ? rc : confine_reopen(policy, &fd, &err);
	rc = rc ? rc : become_tool(policy, *own_dir ? own_dir : NULL, SANDBOX_INSIDE_CHAN_FD, fd, &err);
	report_failure(&err);
	return EXIT_NOT_STARTED;
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
	if (argc == 3 && !strcmp(argv[1], SANDBOX_INSIDE))
		return sandbox_inside(argv[2]);
	if (fcntl(SANDBOX_FD, F_SETFD, FD_CLOEXEC)) {
		fputs("toolcrib-run: it is started by toolcribd, with its instructions on descriptor 3\n", stderr);
		return EXIT_NOT_STARTED;
	}
	struct err err = { 0 };
	struct sandbox_policy *policy = NULL;
	setpgid(0, 0);          /* the server has done it already; started otherwise, it still holds */
	int rc = read_policy(SANDBOX_FD, &policy, &err);
	if (!rc)
		rc = run(policy, &err);
	report_failure(&err);
	free(policy);
	return EXIT_NOT_STARTED;
}
