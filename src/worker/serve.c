/* The inside of a worker: it confines itself, says that it is ready, and serves one request after the other.  Its
 * confinement is a list of system calls, bounds of memory and processor time for each request, memory that no other
 * process may read, and the end with the server.  A request that has taken more than a moment goes on at the lowest
 * priority and is the last one: the process is replaced by one that begins afresh. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sanitized.h"
#include "base/text.h"
#include "sandbox/filter.h"
#include "worker/proto.h"
#include "worker/serve.h"
#include "worker/worker.h"

enum { EXIT_ENDED = 0, EXIT_FAILED = 1 };

#define IDLE_PRIORITY 19
#define FILES_MAX 64
#define FILE_MAX (4u << 20)             /* bytes: what SQLite keeps beside a database in WAL mode */
#define CPU_MORE_S 2                    /* beyond the time of the request, which the server ends itself */
#define CPU_REQUESTS 64                 /* for which that holds: less than a moment each, so less than a second of it */
#define IN_SIZE 65536                   /* bytes that are read ahead; a larger request has its own */

static volatile sig_atomic_t spent;     /* this request has taken more than a moment */

/* --- the list of calls */

/* What is allowed; with BUT as long as the argument has none of the bits.  All else is refused: no program, process,
 * thread, socket, no signal to others. */
#define YES(call) { SYS_##call, FILTER_ALLOW, 0, { 0 }, { 0 } }
#define BUT(call, arg, bits) { SYS_##call, FILTER_ALLOW, 0, { arg, FILTER_IS, bits, 0 }, { 0 } }
#define OF_OTHERS 8u                    /* in F_SETOWN, F_SETSIG, F_SETOWN_EX and in no call that locks */
#define NO_WRITER (O_WRONLY | O_TRUNC)  /* SQLite opens for reading, or the index of a log for both */
#define SET_ID 07000u

static const struct filter_row rows[] = {
	YES(read), YES(write), YES(pread64), YES(pwrite64), YES(readv), YES(writev), YES(lseek), YES(close), YES(fstat),
	YES(newfstatat), YES(statfs), YES(fstatfs), YES(faccessat), YES(readlinkat), YES(getdents64), YES(getcwd),
	YES(ftruncate), YES(fdatasync), YES(fsync),
	YES(fchown), BUT(fchmod, 1, SET_ID), BUT(openat, 2, NO_WRITER), BUT(fcntl, 1, OF_OTHERS),
#if defined(__x86_64__)
	YES(stat), YES(lstat), YES(access), YES(readlink), BUT(open, 1, NO_WRITER),
#endif
#if defined(SYS_statx)
	YES(statx),
#endif
#if defined(SYS_faccessat2)
	YES(faccessat2),
#endif
	BUT(mmap, 2, PROT_EXEC), BUT(mprotect, 2, PROT_EXEC), YES(munmap), YES(mremap), YES(madvise), YES(brk),
	YES(futex), YES(getrandom), YES(clock_gettime), YES(gettimeofday), YES(nanosleep), YES(clock_nanosleep),
	YES(getpid), YES(gettid), YES(getuid), YES(geteuid), YES(getgid), YES(getegid), YES(getrusage), YES(setitimer),
	BUT(prlimit64, 0, FILTER_ALL), BUT(setpriority, 1, FILTER_ALL), YES(getpriority), YES(uname),
	{ SYS_sched_setscheduler, FILTER_ALLOW, 0, { 0, FILTER_IS, FILTER_ALL, 0 }, { 1, FILTER_IS, FILTER_ALL, SCHED_IDLE } },
	YES(rt_sigaction), YES(rt_sigprocmask), YES(rt_sigreturn), YES(restart_syscall), YES(exit), YES(exit_group),
};

/* Sanitizers need more than a list could say; and there is no list for every machine. */
static int filter(void)
{
	const struct filter list = { .rows = rows, .nrows = NELEMS(rows) };

	return SANITIZED || !filter_available() ? 0 : filter_put_on(&list, NULL, NULL);
}

/* --- bounds */

static bool bound(int what, uint64_t soft, uint64_t hard)
{
	struct rlimit r;

	if (getrlimit(what, &r) != 0)
		return false;
	r.rlim_max = hard < r.rlim_max ? hard : r.rlim_max;     /* that of the service may be less */
	r.rlim_cur = soft < r.rlim_max ? soft : r.rlim_max;
	return setrlimit(what, &r) == 0;
}

/* Of address space: what this process has now. */
static uint64_t mapped(void)
{
	char text[64] = "";
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	if (fd >= 0)
		close(fd);
	return n > 0 ? strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* Address space beyond own: what was granted, with room for what was brought and for the answer while it grows. */
static bool bound_memory(uint64_t own, uint64_t memory, uint64_t answer_max, uint64_t len)
{
	static uint64_t is;             /* a call of the system less where it is that already */
	const uint64_t hard = own + WORKER_MEMORY_MAX + 4ull * WORKER_ANSWER_MAX + 2ull * WORKER_REQUEST_MAX;
	const uint64_t soft = own + memory + 4 * answer_max + 2 * (len > IN_SIZE ? len : IN_SIZE);

	if (SANITIZED || soft == is)
		return true;
	is = bound(RLIMIT_AS, soft < hard ? soft : hard, hard) ? soft : 0;
	return is != 0;
}

static void on_spent(int signo)
{
	const struct sched_param none = { 0 };

	(void)signo;
	spent = 1;
	(void)sched_setscheduler(0, SCHED_IDLE, &none);         /* all others come first, at once */
	(void)setpriority(PRIO_PROCESS, 0, IDLE_PRIORITY);
}

static uint64_t used_s(void)
{
	struct rusage ru;

	return getrusage(RUSAGE_SELF, &ru) == 0 ? (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) : 0;
}

/* Enough for this one and those behind it that have no more time. */
static bool bound_processor(uint64_t time_s)
{
	static uint64_t is_s;
	static unsigned left;

	if (left > 0 && is_s == time_s) {
		left--;
		return true;
	}
	is_s = time_s;
	left = bound(RLIMIT_CPU, used_s() + time_s + CPU_MORE_S, RLIM_INFINITY) ? CPU_REQUESTS : 0;
	return left > 0;
}

/* What a request may take: memory, processor time should the server be unable to end it, and a moment as long as it is
 * brisk. */
static bool bound_request(uint64_t own, const struct worker_msg *m)
{
	const uint64_t brisk = m->brisk_us < 1 ? 1 : m->brisk_us < WORKER_BRISK_US ? m->brisk_us : WORKER_BRISK_US;
	const struct itimerval moment = { .it_value = { .tv_usec = (suseconds_t)brisk } };

	return bound_memory(own, m->memory, m->answer_max, m->len) &&
		bound_processor(m->time_us / 1000000) &&
		setitimer(ITIMER_PROF, &moment, NULL) == 0;
}

static void unbound_request(void)
{
	const struct itimerval none = { 0 };

	(void)setitimer(ITIMER_PROF, &none, NULL);
}

static int confine(void)
{
	struct sigaction on = { .sa_handler = on_spent, .sa_flags = SA_RESTART };
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	/* It ends with the server; nobody may look into it, no dump stays behind. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || prctl(PR_SET_DUMPABLE, 0) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    sigaction(SIGPROF, &on, NULL) || signal(SIGPIPE, SIG_IGN) == SIG_ERR || null < 0)
		return -1;
	if (!bound(RLIMIT_CORE, 0, 0) || !bound(RLIMIT_NOFILE, FILES_MAX, FILES_MAX) ||
	    !bound(RLIMIT_FSIZE, FILE_MAX, FILE_MAX) || signal(SIGXFSZ, SIG_IGN) == SIG_ERR || dup2(null, STDOUT_FILENO) < 0)
		return -1;
	if (!SANITIZED && dup2(null, STDERR_FILENO) < 0)        /* the log is the server's */
		return -1;
	if (close_range(STDERR_FILENO + 1, ~0u, 0))
		return -1;
	(void)mallopt(M_ARENA_MAX, 1);
	return filter();
}

/* --- messages */

/* What was read and not taken yet: several requests come in one piece. */
static struct { char p[IN_SIZE]; size_t at, len; } in;

/* Up to size bytes more, 0: there are none. */
static size_t read_some(void *p, size_t size)
{
	ssize_t n;

	do
		n = read(STDIN_FILENO, p, size);
	while (n < 0 && errno == EINTR);
	return n > 0 ? (size_t)n : 0;
}

/* len bytes, at most IN_SIZE, which stay until the next call; NULL: there are no more. */
static const char *take(size_t len)
{
	const char *p;

	if (in.at + len > IN_SIZE) {
		memmove(in.p, in.p + in.at, in.len - in.at);
		in.len -= in.at;
		in.at = 0;
	}
	while (in.len - in.at < len) {
		const size_t n = read_some(in.p + in.len, IN_SIZE - in.len);

		if (n == 0)
			return NULL;
		in.len += n;
	}
	p = in.p + in.at;
	in.at += len;
	if (in.at == in.len)
		in.at = in.len = 0;     /* what is returned stays as it is */
	return p;
}

/* The same of any length; *ret_own: the caller's to free. */
static const char *take_large(size_t len, char **ret_own)
{
	char *p;

	*ret_own = NULL;
	if (len <= IN_SIZE)
		return take(len);
	p = *ret_own = mem_alloc(len);
	for (size_t have = 0; have < len;) {
		const size_t most = len - have, more = in.len - in.at;
		const size_t n = more == 0 ? read_some(p + have, most) : more < most ? more : most;

		if (n == 0)
			return NULL;
		if (more > 0) {
			memcpy(p + have, in.p + in.at, n);
			in.at += n;
		}
		have += n;
	}
	return p;
}

static bool say(const struct worker_msg *m)
{
	struct str out = STR_INIT;
	size_t at = 0;
	bool said;

	worker_msg_encode(m, &out);
	while (at < out.len) {
		ssize_t n = write(STDIN_FILENO, out.p + at, out.len - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		at += (size_t)n;
	}
	said = at == out.len;
	str_fini(&out);
	return said;
}

static int run(const struct worker_work *table, size_t n, const struct worker_msg *m, struct str *out, struct err *err)
{
	const struct worker_run r = { .p = m->p, .len = m->len, .until_us = clock_mono_us() + m->time_us,
				      .memory = m->memory, .out = out };

	for (size_t i = 0; i < n; i++)
		if (strcmp(table[i].name, m->name) == 0)
			return table[i].body(&r, err);
	return err_set(err, ERR_NOT_FOUND, "worker", "this worker knows no work %s", m->name);
}

/* False: this was the last one. */
static bool answer(const struct worker_work *table, size_t n, uint64_t own, const struct worker_msg *m)
{
	struct worker_msg reply = { .op = WORKER_DONE };
	struct str out;
	bool said;
	int rc;

	str_init(&out, m->answer_max);
	if (bound_request(own, m))
		rc = run(table, n, m, &out, &reply.err);
	else    /* nothing runs without bounds */
		rc = err_set(&reply.err, ERR_UNREACHABLE, "worker", "its worker cannot be bounded");
	if (rc >= 0 && out.failed)
		rc = err_set(&reply.err, ERR_LIMIT, "answer", "the answer is larger than %zu bytes", (size_t)m->answer_max);
	if (rc < 0)
		reply.op = WORKER_FAILED;
	unbound_request();
	reply.last = spent != 0;
	reply.p = out.p;
	reply.len = out.len;
	said = say(&reply);
	str_fini(&out);
	return said && !reply.last;
}

int worker_serve(const struct worker_work *table, size_t n)
{
	const char *head;
	bool more = true;
	uint64_t own;

	if (confine() != 0) {
		fputs("toolcrib-worker: it cannot be confined\n", stderr);
		return EXIT_FAILED;
	}
	own = mapped();
	if (own == 0 || !say(&(const struct worker_msg){ .op = WORKER_READY }))
		return EXIT_FAILED;
	while (more && (head = take(WORKER_HEAD_SIZE)) != NULL) {
		size_t len = worker_msg_length(head);
		struct worker_msg m;
		const char *body;
		char *large;

		if (len > WORKER_REQUEST_MAX)
			return EXIT_FAILED;
		body = take_large(len, &large);
		more = body && worker_msg_decode(body, len, &m) == 0 && m.op == WORKER_RUN && answer(table, n, own, &m);
		free(large);
	}
	return EXIT_ENDED;
}
