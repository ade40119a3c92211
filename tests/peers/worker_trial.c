/* A worker for tests: work that is well behaved or not.  What it says of itself is for tests of worker/pool.c. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "worker/serve.h"

static int echo(const struct worker_run *r, struct err *err)
{
	(void)err;
	str_put(r->out, r->p, r->len);
	return 0;
}

static int number(const struct worker_run *r, struct err *err)
{
	(void)err;
	str_printf(r->out, "%d", (int)getpid());
	return 0;
}

static int fail(const struct worker_run *r, struct err *err)
{
	return err_set(err, ERR_CONFLICT, "/there", "%.*s", (int)r->len, r->p);
}

static int spin(const struct worker_run *r, struct err *err)
{
	(void)r;
	(void)err;
	for (volatile unsigned long i = 0;; i++)
		;
	return 0;
}

static int wait_on(const struct worker_run *r, struct err *err)
{
	(void)r;
	(void)err;
	for (;;)
		(void)sleep(1);
	return 0;
}

/* Until there is a file of this name. */
static int until(const struct worker_run *r, struct err *err)
{
	char path[4096];

	(void)err;
	(void)snprintf(path, sizeof(path), "%.*s", (int)r->len, r->p);
	while (access(path, F_OK) != 0)
		(void)usleep(500);
	str_puts(r->out, "until");
	return 0;
}

/* More than a moment of processor time. */
static int busy(const struct worker_run *r, struct err *err)
{
	struct rusage from, now;
	long us;

	(void)err;
	(void)getrusage(RUSAGE_SELF, &from);
	do {
		(void)getrusage(RUSAGE_SELF, &now);
		us = (now.ru_utime.tv_sec - from.ru_utime.tv_sec + now.ru_stime.tv_sec - from.ru_stime.tv_sec) * 1000000 +
			now.ru_utime.tv_usec - from.ru_utime.tv_usec + now.ru_stime.tv_usec - from.ru_stime.tv_usec;
	} while (us < 100000 || (getpriority(PRIO_PROCESS, 0) == 0 && us < 2000000));   /* its timer counts ticks */
	str_printf(r->out, "%d %d", (int)getpid(), getpriority(PRIO_PROCESS, 0));
	return 0;
}

/* What is left of its moment. */
static int brisk(const struct worker_run *r, struct err *err)
{
	const struct itimerval none = { 0 };
	struct itimerval left;

	if (setitimer(ITIMER_PROF, &none, &left) != 0)
		return err_set(err, ERR_UNREACHABLE, "brisk", "it cannot be asked");
	str_printf(r->out, "%ld", (long)left.it_value.tv_sec * 1000000 + (long)left.it_value.tv_usec);
	return 0;
}

/* Takes memory until there is none, and says how many MiB there were. */
static int eat(const struct worker_run *r, struct err *err)
{
	unsigned n = 0;

	(void)err;
	while (n < 4096 && mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		n++;
	str_printf(r->out, "%u", n);
	return 0;
}

static int greed(const struct worker_run *r, struct err *err)
{
	(void)r;
	(void)err;
	for (;;)
		memset(mem_alloc(1 << 20), 1, 1 << 20);
	return 0;
}

static int die(const struct worker_run *r, struct err *err)
{
	(void)r;
	(void)err;
	_exit(0);
}

/* An answer that is as large as the request says, in words of its own; and one that is none. */
static int flood(const struct worker_run *r, struct err *err)
{
	static char bytes[65536];
	uint64_t n = 0;

	(void)err;
	(void)text_u64(r->p, r->len, &n);
	while (n > 0) {
		uint64_t piece = n < sizeof(bytes) ? n : sizeof(bytes);

		str_put(r->out, bytes, piece);
		n -= piece;
	}
	return 0;
}

static int rubbish(const struct worker_run *r, struct err *err)
{
	(void)err;
	if (write(STDIN_FILENO, r->p, r->len) < 0)
		return ERR_IO;
	for (;;)
		(void)usleep(1000);
}

/* --- what it can reach: a word for each attempt that got through */

static void tried(struct str *out, const char *what, long rc)
{
	if (rc >= 0)
		str_printf(out, "%s ", what);
}

static void try_descriptors(struct str *out)
{
	for (int fd = 3; fd < 64; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			str_printf(out, "descriptor-%d ", fd);
}

static int reach(const struct worker_run *r, struct err *err)
{
	char path[4096], *const none[] = { NULL };
	struct rlimit core;

	(void)err;
	(void)snprintf(path, sizeof(path), "%.*s", (int)r->len, r->p);
	try_descriptors(r->out);
	tried(r->out, "exec", execve("/bin/true", none, none));
	tried(r->out, "fork", syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
#if defined(SYS_fork)
	tried(r->out, "plain-fork", syscall(SYS_fork));
#endif
	/* The kernel would say EINVAL; libraries then take clone. */
	tried(r->out, "clone3", syscall(SYS_clone3, NULL, 0) < 0 && errno == ENOSYS ? -1 : 0);
	tried(r->out, "socket", socket(AF_INET, SOCK_STREAM, 0));
	tried(r->out, "unix-socket", socket(AF_UNIX, SOCK_STREAM, 0));
	tried(r->out, "pair", socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){ 0, 0 }));
	tried(r->out, "kill", kill(getppid(), 0));
	tried(r->out, "ptrace", syscall(SYS_ptrace, 16, getppid(), 0, 0));
	tried(r->out, "truncate", open(path, O_RDWR | O_TRUNC));
	tried(r->out, "write", open(path, O_WRONLY));
	tried(r->out, "unlink", unlink(path));
	tried(r->out, "mkdir", mkdir("/tmp/worker-trial", 0700));
	tried(r->out, "code",
	      mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0);
	tried(r->out, "memfd", syscall(SYS_memfd_create, "x", 0));
	tried(r->out, "shm", syscall(SYS_shmget, 1, 4096, 01600));
	tried(r->out, "io_uring", syscall(SYS_io_uring_setup, 1, NULL) < 0 && errno != EPERM ? 0 : -1);
	tried(r->out, "setuid", syscall(SYS_setuid, getuid()));
	tried(r->out, "other-limits", syscall(SYS_prlimit64, getppid(), RLIMIT_CORE, NULL, &core));
	str_puts(r->out, "end");
	return 0;
}

int main(void)
{
	static const struct worker_work table[] = {
		{ "echo", echo }, { "number", number }, { "fail", fail }, { "spin", spin }, { "wait", wait_on }, { "busy", busy },
		{ "until", until },
		{ "brisk", brisk }, { "eat", eat }, { "greed", greed }, { "die", die }, { "flood", flood }, { "rubbish", rubbish },
		{ "reach", reach },
	};

	return worker_serve(table, NELEMS(table));
}
