/* Processes: the start, the end and what is left behind.
 *
 * A child is spawned as the launcher in a process group of its own and gets its instructions by a
 * socket.  The launcher stays beside the tool as its supervisor, and its end is the end of all that the
 * tool has started; to close our side of the socket is to ask for it.  Its pidfd wakes the loop; it stays
 * a zombie, which keeps its number and its group's number from being used again, until we have looked
 * after it (house, trap 10): when the supervisor itself was killed, what it had to end is now a child of
 * ours, because we are the next subreaper (SEC S-513). */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "ev/child.h"
#include "sandbox/policy.h"

#include "ev_int.h"

#define SWEEP_FIRST_US 500              /* between two looks at what is left; doubles */
#define SWEEP_LAST_US 50000
#define SWEEP_GIVE_UP_US 2000000        /* then the end is reported all the same */

enum child_state { CHILD_RUNS, CHILD_SWEEPS, CHILD_DEAD };

struct ev_child {
	struct list node;               /* in the loop's nursery */
	struct ev_loop *loop;
	enum child_state state;
	pid_t pid;                      /* also the number of its group */
	int pidfd, policy_fd;
	struct ev_io *pid_io, *policy_io;
	struct ev_timer *timer;         /* the end after TERM, KILL after the end; then the next sweep */
	bool ending;                    /* the supervisor was told */
	uint64_t sweep_us, give_up_us;
	struct str policy;              /* what the launcher has not taken yet */
	char level[SANDBOX_LEVEL_TEXT]; /* that it must reach */
	/* SANDBOX_READY, the level, a newline; then why it went wrong after all, or the usage */
	char report[SANDBOX_REPORT_MAX];
	size_t report_len;
	struct ev_child_usage usage;
	void (*ended)(void *arg, int status, const char *refused);
	void *arg;
};

/* Where the launcher is: $TOOLCRIB_RUN (tests), beside the running program (build tree), else LIBEXECDIR. */
static const char *ev_child_launcher(void)
{
	static char path[4096];
	const char *set = getenv("TOOLCRIB_RUN");
	if (set && set[0] == '/')
		return set;
	if (path[0])
		return path;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;
	size_t room = slash ? sizeof(path) - (size_t)(slash - path) : 0;
	if (room > sizeof("/toolcrib-run")) {
		snprintf(slash, room, "/toolcrib-run");
		if (access(path, X_OK) == 0)
			return path;
	}
	snprintf(path, sizeof(path), "%s/toolcrib-run", LIBEXECDIR);
	return path;
}

/* --- what is left behind */

static bool is_known(const struct ev_nursery *n, pid_t pid)
{
	LIST_FOREACH(node, &n->children) {
		if (CONTAINER_OF(node, struct ev_child, node)->pid == pid)
			return true;
	}
	for (size_t i = 0; i < n->nforeign; i++) {
		if (n->foreign[i] == pid)
			return true;
	}
	return false;
}

/* Call visit for each child of this process, as the kernel lists them. */
static void each_child(struct ev_nursery *n, bool (*visit)(struct ev_nursery *n, pid_t pid), bool *any)
{
	char buf[4096];
	off_t at = 0;
	ssize_t got;
	*any = false;
	while ((got = pread(n->list_fd, buf, sizeof(buf) - 1, at)) > 0) {
		buf[got] = '\0';
		/* A number that the buffer cuts is read again with the next piece. */
		char *end = memrchr(buf, ' ', (size_t)got);
		if (!end)
			return;
		end[1] = '\0';
		at += end + 1 - buf;
		for (char *p = buf; p < end;) {
			long pid = strtol(p, &p, 10);
			if (visit(n, (pid_t)pid))
				*any = true;
			while (*p == ' ')
				p++;
		}
	}
}

/* True when this is a stray that is still there. */
static bool kill_stray(struct ev_nursery *n, pid_t pid)
{
	siginfo_t si = { 0 };
	if (is_known(n, pid))
		return false;
	kill(pid, SIGKILL);     /* not reaped, so the number is still its own */
	return !(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG) == 0 && si.si_pid == pid);
}

static bool note_foreign(struct ev_nursery *n, pid_t pid)
{
	n->foreign = mem_realloc(n->foreign, (n->nforeign + 1) * sizeof(*n->foreign));
	n->foreign[n->nforeign++] = pid;
	return true;
}

/* Kill what has no living ancestor but us, and reap it.  False when nothing is left. */
static bool sweep(struct ev_loop *loop)
{
	bool left;
	each_child(&loop->nursery, kill_stray, &left);
	return left;
}

/* With the loop. */
static void end_nursery(struct ev_loop *loop)
{
	ev_child_kill_all(loop);
	close(loop->nursery.list_fd);
}

/* Before the first child: from now on orphans come to us. */
static int open_nursery(struct ev_loop *loop, struct err *err)
{
	struct ev_nursery *n = &loop->nursery;
	char path[64];
	bool any;
	if (n->list_fd >= 0)
		return 0;
	/* Orphans go to the main thread, which is the one that runs the loop. */
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	n->list_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (n->list_fd < 0)
		return err_set(err, ERR_IO, path, "cannot be read: %s", strerror(errno));
	n->end = end_nursery;
	each_child(n, note_foreign, &any);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		return err_set(err, ERR_IO, "subreaper", "%s", strerror(errno));
	return 0;
}

/* --- the end */

static void free_child(void *arg)
{
	struct ev_child *c = arg;
	ev_io_free(&c->pid_io);
	ev_io_free(&c->policy_io);
	ev_timer_free(&c->timer);
	if (c->pidfd >= 0)
		close(c->pidfd);
	if (c->policy_fd >= 0)
		close(c->policy_fd);
	str_fini(&c->policy);
	free(c);
}

/* False when there is nothing more to come. */
static bool read_report(struct ev_child *c)
{
	size_t room = sizeof(c->report) - 1 - c->report_len;
	ssize_t n = room > 0 ? recv(c->policy_fd, c->report + c->report_len, room, MSG_DONTWAIT) : 0;
	if (n > 0)
		c->report_len += (size_t)n;
	c->report[c->report_len] = '\0';
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Another level than the one that stands in the record (SEC S-510). */
static bool is_other_level(const struct ev_child *c)
{
	const char *end = c->report[0] == SANDBOX_READY ? strchr(c->report, '\n') : NULL;
	size_t n = end ? (size_t)(end - c->report) - 1 : 0;
	return end && (n != strlen(c->level) || memcmp(c->report + 1, c->level, n) != 0);
}

/* NULL when the tool has run. */
static const char *refusal(const struct ev_child *c)
{
	const char *end = strchr(c->report, '\n');
	if (c->report[0] == '\0')
		return "launcher: it died before the tool was started";
	if (c->report[0] != SANDBOX_READY || !end)
		return c->report;
	if (is_other_level(c))
		return "level: the launcher reached another one than was asked for";
	return end[1] ? end + 1 : NULL;
}

/* Take the usage off the report. */
static void take_usage(struct ev_child *c)
{
	struct ev_child_usage got = { 0 };
	char *at = strstr(c->report, SANDBOX_USAGE), *cpu = at ? at + strlen(SANDBOX_USAGE) : NULL;
	const char *rss = cpu ? strchr(cpu, ' ') : NULL, *end = rss ? strchr(rss, '\n') : NULL;
	if (end && text_u64(cpu, (size_t)(rss - cpu), &got.cpu_us) == 0 &&
	    text_u64(rss + 1, (size_t)(end - rss) - 1, &got.rss_kib) == 0)
		c->usage = got;
	if (at)
		*at = '\0';
}

struct ev_child_usage ev_child_usage(const struct ev_child *c)
{
	return c->usage;
}

static void finish(struct ev_child *c)
{
	siginfo_t si = { 0 };
	int status = -SIGKILL;
	if (waitid(P_PIDFD, (id_t)c->pidfd, &si, WEXITED | WNOHANG) == 0 && si.si_pid == c->pid)
		status = si.si_code == CLD_EXITED ? si.si_status : -si.si_status;
	c->state = CHILD_DEAD;
	list_unlink(&c->node);
	ev_timer_stop(c->timer);
	ev_defer(c->loop, free_child, c);
	take_usage(c);
	c->ended(c->arg, status, refusal(c));
}

static void on_sweep(struct ev_child *c)
{
	kill(-c->pid, SIGKILL);
	if (sweep(c->loop)) {
		if (ev_now_us(c->loop) < c->give_up_us) {
			ev_timer_start(c->timer, c->sweep_us);
			c->sweep_us = c->sweep_us * 2 > SWEEP_LAST_US ? SWEEP_LAST_US : c->sweep_us * 2;
			return;
		}
		log_warn(NULL, "process does not die launcher_pid=%d", (int)c->pid);
	}
	finish(c);
}

static void on_pidfd(void *arg, bool readable, bool writable)
{
	struct ev_child *c = arg;
	siginfo_t si = { 0 };
	/* Somebody else has waited for it: the end that is told goes on for ever, and the number is not its own any
	 * more. */
	bool gone = waitid(P_PIDFD, (id_t)c->pidfd, &si, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
	if (!gone && si.si_pid != c->pid)
		return;
	ev_io_want(c->pid_io, false, false);
	ev_io_want(c->policy_io, false, false);
	while (errno = 0, read_report(c) && errno == 0)
		;
	if (gone) {
		finish(c);
		return;
	}
	c->state = CHILD_SWEEPS;
	c->sweep_us = SWEEP_FIRST_US;
	c->give_up_us = ev_now_us(c->loop) + SWEEP_GIVE_UP_US;
	ev_timer_stop(c->timer);
	on_sweep(c);
}

/* It did not end by itself. */
static void end_tree(struct ev_child *c)
{
	if (c->ending)
		return;
	c->ending = true;
	metric_inc(METRIC_children_killed);
	shutdown(c->policy_fd, SHUT_WR);
	ev_timer_start(c->timer, SWEEP_GIVE_UP_US);
}

static void on_timer(void *arg)
{
	struct ev_child *c = arg;
	if (c->state == CHILD_SWEEPS) {
		on_sweep(c);
	} else if (!c->ending) {
		end_tree(c);
	} else {
		log_warn(NULL, "supervisor does not end its tool launcher_pid=%d", (int)c->pid);
		kill(-c->pid, SIGKILL);
	}
}

void ev_child_stop(struct ev_child *c, uint32_t term_ms)
{
	if (c->state != CHILD_RUNS || c->ending)
		return;
	if (term_ms == 0) {
		end_tree(c);
		return;
	}
	kill(-c->pid, SIGTERM);
	if (!ev_timer_armed(c->timer))
		ev_timer_start(c->timer, (uint64_t)term_ms * 1000);
}

/* --- the start */

static void push_policy(struct ev_child *c)
{
	ssize_t n = send(c->policy_fd, c->policy.p, c->policy.len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n > 0)
		str_drop_front(&c->policy, (size_t)n);
	else if (errno != EAGAIN && errno != EINTR)
		str_reset(&c->policy);  /* it died; its end says why */
	ev_io_want(c->policy_io, c->report_len < sizeof(c->report) - 1, c->policy.len > 0);
}

static void on_policy(void *arg, bool readable, bool writable)
{
	struct ev_child *c = arg;
	if (writable)
		push_policy(c);
	if (!readable)
		return;
	if (!read_report(c))
		ev_io_want(c->policy_io, false, c->policy.len > 0);
	if (is_other_level(c))
		end_tree(c);
}

/* theirs: the child's 0, 1, 2 and SANDBOX_FD. */
static int make_pipes(int ours[3], int theirs[4], int *policy_fd, struct err *err)
{
	for (int i = 0; i < 3; i++) {
		int p[2];
		if (pipe2(p, O_CLOEXEC))
			return err_set(err, ERR_IO, "pipe", "%s", strerror(errno));
		int mine = i == 0 ? 1 : 0;
		ours[i] = p[mine];
		theirs[i] = p[!mine];
		if (fcntl(ours[i], F_SETFL, O_NONBLOCK))
			return err_set(err, ERR_IO, "pipe", "%s", strerror(errno));
	}
	int s[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s))
		return err_set(err, ERR_IO, "socketpair", "%s", strerror(errno));
	*policy_fd = s[0];
	theirs[3] = s[1];
	return 0;
}

static int set_actions(posix_spawn_file_actions_t *fa, posix_spawnattr_t *attr, const int theirs[4])
{
	sigset_t none, all;
	sigemptyset(&none);
	sigfillset(&all);
	int rc = 0;
	/* All of theirs lie above 2, so no dup2 hits one that is still needed but SANDBOX_FD, the last. */
	for (int i = 0; i < 4 && !rc; i++) {
		assert(theirs[i] > 2);
		rc = posix_spawn_file_actions_adddup2(fa, theirs[i], i);
	}
	rc = rc ? rc : posix_spawn_file_actions_addclosefrom_np(fa, SANDBOX_FD + 1);
	rc = rc ? rc : posix_spawnattr_setflags(attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
						POSIX_SPAWN_SETSIGDEF);
	rc = rc ? rc : posix_spawnattr_setpgroup(attr, 0);
	rc = rc ? rc : posix_spawnattr_setsigmask(attr, &none);
	return rc ? rc : posix_spawnattr_setsigdefault(attr, &all);
}

static int spawn(const int theirs[4], pid_t *ret_pid, struct err *err)
{
	const char *path = ev_child_launcher();
	char name[] = "toolcrib-run";
	char *const argv[] = { name, NULL }, *const env[] = { NULL };
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	if (posix_spawn_file_actions_init(&fa))
		return err_set(err, ERR_IO, path, "cannot be started: out of memory");
	if (posix_spawnattr_init(&attr)) {
		posix_spawn_file_actions_destroy(&fa);
		return err_set(err, ERR_IO, path, "cannot be started: out of memory");
	}
	int rc = set_actions(&fa, &attr, theirs);
	rc = rc ? rc : posix_spawn(ret_pid, path, &fa, &attr, argv, env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&fa);
	if (rc == 0)
		return 0;
	enum err_code code = rc == ENOENT || rc == EACCES ? ERR_UNREACHABLE : ERR_IO;
	return err_set(err, code, path, "the launcher cannot be started: %s", strerror(rc));
}

static void close_fds(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

/* A spawned process that cannot be watched must not stay. */
static int watch(struct ev_child *c, struct err *err)
{
	c->pidfd = pidfd_open(c->pid, 0);
	if (c->pidfd < 0) {
		int rc = err_set(err, ERR_IO, "pidfd", "%s", strerror(errno));
		kill(-c->pid, SIGKILL);
		waitpid(c->pid, NULL, 0);
		return rc;
	}
	metric_inc(METRIC_children_started);
	list_push_back(&c->loop->nursery.children, &c->node);
	c->timer = ev_timer_new(c->loop, on_timer, c);
	c->pid_io = ev_io_new(c->loop, c->pidfd, on_pidfd, c);
	c->policy_io = ev_io_new(c->loop, c->policy_fd, on_policy, c);
	ev_io_want(c->pid_io, true, false);
	push_policy(c);
	return 0;
}

int ev_child_start(struct ev_loop *loop, const struct ev_child_req *req, int ret_fds[3], struct ev_child **ret,
		   struct err *err)
{
	ev_assert_thread(loop);
	int ours[3] = { -1, -1, -1 }, theirs[4] = { -1, -1, -1, -1 };
	struct ev_child *c = mem_zalloc(sizeof(*c));
	*c = (struct ev_child){ .loop = loop, .pidfd = -1, .policy_fd = -1, .ended = req->ended,
				.arg = req->arg };
	list_init(&c->node);
	sandbox_level_format(&req->policy->level, c->level);

	int rc = open_nursery(loop, err);
	rc = rc ? rc : sandbox_policy_encode(req->policy, &c->policy, err);
	rc = rc ? rc : make_pipes(ours, theirs, &c->policy_fd, err);
	rc = rc ? rc : spawn(theirs, &c->pid, err);
	rc = rc ? rc : watch(c, err);
	close_fds(theirs, NELEMS(theirs));
	if (rc) {
		close_fds(ours, NELEMS(ours));
		free_child(c);
		return rc;
	}
	memcpy(ret_fds, ours, sizeof(ours));
	*ret = c;
	return 0;
}

/* Wait until a child is over, and make sure of it. */
static void await_end(struct ev_child *c, uint64_t until_us)
{
	struct pollfd fd = { .fd = c->pidfd, .events = POLLIN };
	uint64_t now = clock_mono_us();
	if (poll(&fd, 1, now < until_us ? (int)((until_us - now) / 1000) : 0) < 1)
		kill(-c->pid, SIGKILL);
	waitid(P_PIDFD, (id_t)c->pidfd, &(siginfo_t){ 0 }, WEXITED);
}

void ev_child_kill_all(struct ev_loop *loop)
{
	struct ev_nursery *n = &loop->nursery;
	uint64_t until_us = clock_mono_us() + SWEEP_GIVE_UP_US;
	LIST_FOREACH(node, &n->children)
		shutdown(CONTAINER_OF(node, struct ev_child, node)->policy_fd, SHUT_WR);
	LIST_FOREACH_SAFE(node, next, &n->children) {
		struct ev_child *c = CONTAINER_OF(node, struct ev_child, node);
		await_end(c, until_us);
		list_unlink(&c->node);
		free_child(c);
	}
	const struct timespec pause = { .tv_nsec = SWEEP_FIRST_US * 1000 };
	for (uint64_t t = 0; n->list_fd >= 0 && t < SWEEP_GIVE_UP_US && sweep(loop); t += SWEEP_FIRST_US)
		nanosleep(&pause, NULL);
}
