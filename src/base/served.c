/* The main() of a program that the server starts and that speaks to it over descriptor 0 alone: toolcrib-report,
 * toolcrib-verifier, toolcrib-worker; and what the first two give up, which read what others wrote.  By hand it says
 * what it is, and does nothing. */
#include "config.h"

#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sanitized.h"
#include "base/served.h"

#define IOPRIO_CLASS_SHIFT 13
#define IOPRIO_WHO_PROCESS 1
#define IOPRIO_CLASS_BE 2
#define IOPRIO_CLASS_IDLE 3
#define IOPRIO_LOWEST 7

static void put_usage(const struct served *s, FILE *to)
{
	(void)fprintf(to, "usage: %s\n       %s --version | --help\n", s->name, s->name);
}

static bool say(const struct served *s, const char *word)
{
	if (strcmp(word, "--version") == 0) {
		printf("%s " PACKAGE_VERSION "\n", s->name);
		return true;
	}
	if (strcmp(word, "--help") != 0)
		return false;
	put_usage(s, stdout);
	printf("\n%s\nStarted by hand it does nothing.  See %s.\n", s->does, s->page);
	return true;
}

int served_main(const struct served *s, int argc, char **argv)
{
	struct stat st;

	if (argc == 2 && say(s, argv[1]))
		return SERVED_DONE;
	if (argc > 1) {
		put_usage(s, stderr);
		return SERVED_USAGE;
	}
	if (fstat(STDIN_FILENO, &st) != 0 || !S_ISSOCK(st.st_mode)) {
		(void)fprintf(stderr, "%s is started by toolcribd, not by hand\n", s->name);
		return SERVED_BY_HAND;
	}
	return s->serve();
}

/* --- what it gives up */

static bool bound(int what, uint64_t most)
{
	struct rlimit r;

	if (getrlimit(what, &r) != 0)
		return false;
	r.rlim_cur = r.rlim_max = most < r.rlim_max ? most : r.rlim_max;
	return setrlimit(what, &r) == 0;
}

bool served_shut(unsigned nfiles)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || null < 0 ||
	    signal(SIGPIPE, SIG_IGN) == SIG_ERR || signal(SIGXFSZ, SIG_IGN) == SIG_ERR || dup2(null, STDOUT_FILENO) < 0)
		return false;
	if (!SANITIZED && dup2(null, STDERR_FILENO) < 0)
		return false;
	if (close_range(STDERR_FILENO + 1, ~0u, 0))
		return false;
	(void)mallopt(M_ARENA_MAX, 1);
	return bound(RLIMIT_CORE, 0) && bound(RLIMIT_NOFILE, nfiles);
}

void served_step_back(enum served_class class)
{
	static const struct { int policy, io; } to[] = {
		[SERVED_IDLE] = { SCHED_IDLE, IOPRIO_CLASS_IDLE << IOPRIO_CLASS_SHIFT },
		[SERVED_BATCH] = { SCHED_BATCH, IOPRIO_CLASS_BE << IOPRIO_CLASS_SHIFT | IOPRIO_LOWEST },
	};
	const struct sched_param none = { 0 };
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		(void)!write(fd, "1000", 4);
		close(fd);
	}
	if (class == SERVED_NORMAL)
		return;
	(void)sched_setscheduler(0, to[class].policy, &none);
	(void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, to[class].io);
}

bool served_bound(uint64_t memory, uint64_t file)
{
	if (!SANITIZED && (prctl(PR_SET_DUMPABLE, 0) || !bound(RLIMIT_AS, memory)))
		return false;
	return bound(RLIMIT_FSIZE, file);
}
