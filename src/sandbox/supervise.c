/* The supervisor: what remains of the launcher beside the tool.  It lies outside the sandbox and is the subreaper of
 * all that the tool starts, so that nothing survives: neither the tool's own end, nor the server's, however either
 * comes about (SEC S-513, S-B15).  Called by toolcrib-run, in its one thread. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/policy.h"

#include "landlock_abi.h"
#include "sandbox_int.h"

/* It counts processes and threads every now and then and ends a tool that has too many: RLIMIT_NPROC counts the whole
 * user, and not at all for root.  (The tool's filter could ask it about each one, but then fork() fails with EINTR when
 * a signal comes while it waits, which no program expects.)  In a cgroup the kernel counts; who was refused one more is
 * ended likewise.  The filter does ask about signals where Landlock does not see them: those to the tool's own
 * processes are allowed; and about modes, times and listen() (attributes.c). */

#define COUNT_FIRST_NS 20000000         /* until processes are counted for the first time, and again */
#define COUNT_NEXT_NS 100000000
#define ANCESTORS_MAX 4096              /* steps from a process up to us */

struct own_sizes { uint64_t bytes, memory; };   /* of the own directory; of what is known to be in memory */
struct own_size {
	const char *dir;                /* NULL = none */
	uint64_t max;                   /* it is not counted further; 0 = all of it */
	int (*become_user)(struct err *err);
	bool memory;                    /* look at what processes have mapped, too */
	pid_t pid;                      /* the process that looks; 0 = none */
	int fd;                         /* what it says; -1 = there is none */
	int64_t began_ms, due_ms;
};

struct watch {
	const struct supervisor *supervisor;
	const struct sandbox_policy *policy;
	pid_t tool;
	int status;                     /* of the tool, from waitpid() */
	bool tool_ended;
	int listener_fd, notify_fd, signal_fd, timer_fd, children_fd;
	bool gathered;                  /* kill(-1) reaches the tool's processes and no others */
	const char *cgroup;             /* the tool's; NULL = none */
	struct own_size size;           /* what looks at bytes */
	uint64_t told;                  /* bytes of the own directory that the server knows */
	bool too_many, too_large;
};

/* Where /proc hides the processes of others (hidepid, ProtectProc of systemd) we look as the tool's user: as far as
 * files go, so that it may not signal us meanwhile. */
static void look_as(uid_t user, gid_t group)
{
	syscall(SYS_setfsgid, group);
	syscall(SYS_setfsuid, user);
}

static void look_as_tool(const struct watch *w)
{
	if (w->supervisor->user)
		look_as(w->supervisor->user, w->supervisor->group);
}

static void look_as_ours(const struct watch *w)
{
	if (w->supervisor->user)
		look_as(geteuid(), getegid());
}

/* --- counting */

#define TREE_MAX 4096                   /* processes that are looked at when they are counted */
struct tree { pid_t at[TREE_MAX]; size_t n; uint64_t threads; };

/* Numbers, a space after each. */
static void add_listed(struct tree *t, int fd)
{
	char buf[4096], *end, *p;
	off_t at = 0;

	for (ssize_t n; t->n < TREE_MAX && (n = pread(fd, buf, sizeof(buf) - 1, at)) > 0;) {
		buf[n] = '\0';
		end = strrchr(buf, ' ');
		if (!end)
			return;
		*end = '\0';            /* a number that the buffer cuts is read again with the next piece */
		at += end + 1 - buf;
		for (p = buf; p < end && t->n < TREE_MAX;)
			t->at[t->n++] = (pid_t)strtol(p, &p, 10);
	}
}

/* The threads of a process, and what each of them has started. */
static void add_process(struct tree *t, pid_t pid)
{
	char path[64];
	struct dirent *e;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	DIR *d = opendir(path);
	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		t->threads++;
		snprintf(path, sizeof(path), "%.20s/children", e->d_name);
		int fd = openat(dirfd(d), path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0) {
			add_listed(t, fd);
			close(fd);
		}
	}
	if (d)
		closedir(d);
}

/* The sum of the lines that begin so, names with the newline before them; 0 where it cannot be read. */
static uint64_t proc_kib(pid_t pid, const char *file, const char *const *names)
{
	char path[64], text[4096];
	uint64_t sum = 0;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	for (; *names; names++) {
		const char *at = strstr(text, *names);
		if (at)
			sum += strtoull(at + strlen(*names), NULL, 10);
	}
	return sum;
}

/* Could they have more memory in all than they may?  What they share is in this sum for each of them, so that only
 * who looks closer can say that they have. */
static bool may_be_large(const struct watch *w, const struct tree *t)
{
	static const char *const names[] = { "\nRssAnon:", "\nRssShmem:", NULL };
	uint64_t kib = 0;

	for (size_t i = 0; i < t->n; i++)
		kib += proc_kib(t->at[i], "status", names);
	return w->policy->memory_bytes && kib > w->policy->memory_bytes / 1024;
}

/* True when there are more than the bound, or one more was refused. */
static bool is_over(struct watch *w)
{
	uint64_t max = sandbox_processes(w->policy);

	if (w->cgroup)
		return max && cgroup_value(w->cgroup, "pids.events", "max ") > 0;
	struct tree *t = mem_zalloc(sizeof(*t));
	look_as_tool(w);
	add_listed(t, w->children_fd);
	for (size_t i = 0; i < t->n && (!max || t->threads <= max); i++)
		if (t->at[i] != w->size.pid)
			add_process(t, t->at[i]);
	bool over = max && t->threads > max;
	bool large = may_be_large(w, t);
	look_as_ours(w);
	if (large && !w->size.memory)
		w->size.due_ms = 0;
	w->size.memory = large;
	free(t);
	return over;
}

/* --- how much the tool holds: bytes of its own directory (HARDENING F-10), and of memory in all where no cgroup counts
 * it (F-8).  We have another user and no time: a process of the tool's user looks, sends two numbers and ends.
 *
 * The tool changes what is looked at.  Nothing of it is followed but by descriptors, downwards; whatever makes the look
 * endless makes the sum larger, and above the bound it ends. */

#define ENTRY_BYTES 4096                /* what each file counts at least: a million empty ones are something as well */
#define DEPTH_MAX 128                   /* directories in each other; deeper is above every bound */
#define HELD_MAX 4096                   /* files without a name that are told apart */
#define FIRST_MS 100                    /* until the first look */
#define PAUSE_MS 1000                   /* between two, and this many times what one has taken */
#define PAUSE_LARGE_MS 200              /* while there may be too much memory */
#define PAUSE_PARTS 10
#define PAUSE_MAX_MS 5000
#define NICE 10

struct look {
	uint64_t bytes, max;            /* it is over when bytes are more; 0 = no bound */
	uint64_t memory;
	dev_t dev;                      /* where the own directory is */
	struct { dev_t dev; ino_t ino; } held[HELD_MAX];
	size_t nheld;
};

/* --- the directory */

static bool is_entry(const struct dirent *e)
{
	return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

/* One that its owner has closed to himself is opened again: what is in it counts. */
static DIR *open_dir(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	char link[32];

	if (fd < 0 && errno == EACCES) {
		int path = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		snprintf(link, sizeof(link), "/proc/self/fd/%d", path);
		if (path >= 0 && fstat(path, &st) == 0 && chmod(link, (st.st_mode & ALLPERMS) | S_IRWXU) == 0)
			fd = open(link, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (path >= 0)
			close(path);
	}
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d && fd >= 0)
		close(fd);
	return d;
}

static bool is_above(const struct look *l)
{
	return l->max && l->bytes > l->max;
}

/* A file of several names is counted in parts. */
static void add_file(struct look *l, const struct stat *st)
{
	uint64_t bytes = (uint64_t)st->st_blocks * 512;

	if (!S_ISDIR(st->st_mode) && st->st_nlink > 1)
		bytes /= st->st_nlink;
	l->bytes += bytes < ENTRY_BYTES ? ENTRY_BYTES : bytes;
}

static void look_into(struct look *l, const char *path)
{
	DIR *open[DEPTH_MAX] = { open_dir(AT_FDCWD, path) };
	size_t depth = open[0] != NULL;
	struct dirent *e;
	struct stat st;

	if (depth > 0 && fstat(dirfd(open[0]), &st) == 0)
		l->dev = st.st_dev;
	while (depth > 0) {
		DIR *at = open[depth - 1];
		e = is_above(l) ? NULL : readdir(at);
		if (!e) {
			closedir(at);
			depth--;
			continue;
		}
		if (!is_entry(e) || fstatat(dirfd(at), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		add_file(l, &st);
		if (!S_ISDIR(st.st_mode))
			continue;
		if (depth == DEPTH_MAX)
			l->bytes = UINT64_MAX / 2;
		else if ((open[depth] = open_dir(dirfd(at), e->d_name)) != NULL)
			depth++;
	}
}

/* --- what has no name any more */

static bool is_new(struct look *l, const struct stat *st)
{
	for (size_t i = 0; i < l->nheld; i++) {
		if (l->held[i].dev == st->st_dev && l->held[i].ino == st->st_ino)
			return false;
	}
	if (l->nheld < HELD_MAX) {
		l->held[l->nheld].dev = st->st_dev;
		l->held[l->nheld++].ino = st->st_ino;
	}
	return true;
}

/* Files that a process has open without a name: where the own directory is they are taken for its. */
static void look_at_open(struct look *l, pid_t pid)
{
	struct dirent *e;
	struct stat st;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	DIR *d = opendir(path);
	while (d && (e = readdir(d)) != NULL) {
		if (!is_entry(e) || fstatat(dirfd(d), e->d_name, &st, 0) || !S_ISREG(st.st_mode) || st.st_nlink > 0)
			continue;               /* a file of memfd_create() has another device, and needs a cgroup */
		if (st.st_dev == l->dev && is_new(l, &st))
			add_file(l, &st);
	}
	if (d)
		closedir(d);
}

/* All processes that are below us now, or the first of them; free() it. */
static struct tree *tree_below(int children_fd)
{
	struct tree *t = mem_zalloc(sizeof(*t));

	add_listed(t, children_fd);
	for (size_t i = 0; i < t->n; i++)
		add_process(t, t->at[i]);
	return t;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void look(const struct own_size *o, int children_fd, int to)
{
	struct look *l = mem_zalloc(sizeof(*l));
	struct tree *t = tree_below(children_fd);
	/* What several processes share counts once. */
	static const char *const pss[] = { "\nPss_Anon:", "\nPss_Shmem:", NULL };

	l->max = o->max;
	if (o->dir)
		look_into(l, o->dir);
	for (size_t i = 0; i < t->n && !is_above(l); i++) {
		if (t->at[i] == getpid())
			continue;
		look_at_open(l, t->at[i]);
		if (o->memory)
			l->memory += proc_kib(t->at[i], "smaps_rollup", pss) * 1024;
	}
	const struct own_sizes found = { l->bytes, l->memory };
	(void)!write(to, &found, sizeof(found));
	free(t);
	free(l);
}

static void own_size_begin(struct own_size *o, const char *dir, uint64_t max, int (*become_user)(struct err *err))
{
	*o = (struct own_size){ .dir = dir, .max = max, .become_user = become_user, .fd = -1,
				.due_ms = now_ms() + FIRST_MS };
}

static void own_size_tick(struct own_size *o, int children_fd)
{
	int to[2];

	if (o->pid > 0 || o->fd >= 0 || now_ms() < o->due_ms || pipe2(to, O_CLOEXEC | O_NONBLOCK))
		return;
	o->began_ms = now_ms();
	o->pid = fork();
	if (o->pid == 0) {
		struct err err;
		if (o->become_user(&err) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0) {
			(void)setpriority(PRIO_PROCESS, 0, NICE);
			look(o, children_fd, to[1]);
		}
		_exit(0);
	}
	close(to[1]);
	o->fd = to[0];
	if (o->pid < 0) {
		close(o->fd);
		o->fd = -1;
	}
}

static bool own_size_take(struct own_size *o, struct own_sizes *ret)
{
	bool got = read(o->fd, ret, sizeof(*ret)) == sizeof(*ret);
	int64_t now = now_ms(), pause = (now - o->began_ms) * PAUSE_PARTS, least = o->memory ? PAUSE_LARGE_MS : PAUSE_MS;

	close(o->fd);
	o->fd = -1;
	o->due_ms = now + (pause < least ? least : pause > PAUSE_MAX_MS ? PAUSE_MAX_MS : pause);
	return got;
}

/* Before the server ends the tool for it, it must know. */
static void report_size(struct watch *w, uint64_t bytes)
{
	char text[32];
	int n = snprintf(text, sizeof(text), SANDBOX_SIZE "%" PRIu64 "\n", bytes);

	if (bytes != w->told && send(SANDBOX_FD, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) == n)
		w->told = bytes;
}

static void take_size(struct watch *w)
{
	struct own_sizes got;

	if (!own_size_take(&w->size, &got))
		return;
	if (w->policy->scratch_bytes)
		report_size(w, got.bytes);
	w->too_large = !w->cgroup && w->policy->memory_bytes && got.memory > w->policy->memory_bytes;
}

/* True when the tool is over a bound that we hold. */
static bool tick(struct watch *w)
{
	uint64_t ticks;

	if (read(w->timer_fd, &ticks, sizeof(ticks)) <= 0)
		return false;
	w->too_many = is_over(w);
	if (!w->too_many)
		own_size_tick(&w->size, w->children_fd);
	return w->too_many;
}

/* --- signals */

static pid_t parent_of(pid_t pid)
{
	char path[64], buf[512];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	if (fd >= 0)
		close(fd);
	buf[n > 0 ? n : 0] = '\0';
	/* pid (name) state parent; the name may hold anything. */
	const char *end = strrchr(buf, ')');
	return end && strlen(end) > 4 ? (pid_t)strtol(end + 4, NULL, 10) : 0;
}

static bool is_ours(pid_t pid)
{
	pid_t us = getpid();

	for (int i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
		pid = parent_of(pid);
		if (pid == us)
			return true;
	}
	return false;
}

static bool is_signal(const struct seccomp_data *call)
{
	return call->nr == SYS_kill || call->nr == SYS_tkill || call->nr == SYS_tgkill || call->nr == SYS_rt_sigqueueinfo ||
	       call->nr == SYS_rt_tgsigqueueinfo;
}

/* Process 0 is the caller's group.  A group is judged by the process that it is named after: the tool's session is its
 * own, so all members are the tool's or none is. */
static bool may_signal(const struct watch *w, const struct seccomp_data *call)
{
	pid_t pid = (pid_t)call->args[0];

	if (w->size.pid > 0 && pid == w->size.pid)      /* it is below us, and not the tool's */
		return false;
	if (call->nr == SYS_tkill || call->nr == SYS_tgkill || call->nr == SYS_rt_tgsigqueueinfo)
		return pid > 0 && is_ours(pid);
	return pid == 0 || (pid > 0 ? is_ours(pid) : pid != -1 && is_ours(-pid));
}

/* --- the filter's questions */

static void answer(struct watch *w)
{
	/* Zeroed, and with room: a later kernel may know larger ones. */
	union { struct seccomp_notif it; char room[512]; } ask = { .room = { 0 } };
	union { struct seccomp_notif_resp it; char room[512]; } reply = { .room = { 0 } };

	if (ioctl(w->notify_fd, SECCOMP_IOCTL_NOTIF_RECV, &ask))
		return;                 /* it was killed meanwhile */
	look_as_tool(w);
	reply.it.id = ask.it.id;
	if (!is_signal(&ask.it.data))
		reply.it.error = attributes_answer(w->supervisor, w->policy, &ask.it, w->notify_fd);
	else if (may_signal(w, &ask.it.data))      /* its arguments are numbers: they cannot change behind our back */
		reply.it.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	else
		reply.it.error = -EPERM;
	look_as_ours(w);
	(void)ioctl(w->notify_fd, SECCOMP_IOCTL_NOTIF_SEND, &reply);   /* it may have been killed meanwhile */
}

/* The tool sends the listener of its filter, or ends. */
static void take_listener(struct watch *w)
{
	union { struct cmsghdr head; char room[CMSG_SPACE(sizeof(int))]; } control;
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(w->listener_fd, &msg, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = n == 1 ? CMSG_FIRSTHDR(&msg) : NULL;

	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(&w->notify_fd, CMSG_DATA(c), sizeof(int));
	close(w->listener_fd);
	w->listener_fd = -1;
}

/* --- the end */

static void note_end(struct watch *w, pid_t pid, int status)
{
	if (pid == w->tool) {
		w->status = status;
		w->tool_ended = true;
	} else if (pid == w->size.pid) {
		w->size.pid = 0;
	}
}

static void reap(struct watch *w)
{
	int status;

	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
		note_end(w, pid, status);
}

static void signal_all(const struct watch *w, int sig)
{
	struct tree *t = mem_zalloc(sizeof(*t));

	look_as_tool(w);
	add_listed(t, w->children_fd);
	for (size_t i = 0, signalled = 0; i < t->n; i++) {
		while (signalled < t->n)        /* before it takes time to look below any of them */
			kill(t->at[signalled++], sig);
		add_process(t, t->at[i]);
	}
	look_as_ours(w);
	free(t);
}

/* Whom a dead one leaves becomes our child, so it is over when we have none.  Where nothing ends them all at once,
 * those that are stopped at least start no others while we look for the rest.  All that are dead are taken away in
 * between: they stand in the list of our children in front of those that live. */
static void end_all(struct watch *w)
{
	int status;
	pid_t pid = 0;

	if (w->cgroup)
		cgroup_kill(w->cgroup);
	while (pid >= 0 || errno != ECHILD) {
		if (w->gathered) {
			kill(-1, SIGKILL);
		} else {
			signal_all(w, SIGSTOP);
			signal_all(w, SIGKILL);
		}
		pid = waitpid(-1, &status, 0);
		if (pid > 0) {
			note_end(w, pid, status);
			reap(w);
		}
	}
}

/* To the tool's stderr, for who reads the result.  Nobody else writes there any more: it does not block. */
static void tell_bound(uint64_t bound, const char *what)
{
	struct pollfd fd = { .fd = STDERR_FILENO, .events = POLLOUT };

	if (poll(&fd, 1, 0) == 1 && (fd.revents & POLLOUT))
		dprintf(STDERR_FILENO, "toolcrib-run: ended, because it had more than %" PRIu64 " %s\n", bound, what);
}

static void tell_bounds(const struct watch *w)
{
	if (w->too_many)
		tell_bound(w->policy->processes, "processes and threads");
	else if (w->too_large || (w->cgroup && w->policy->memory_bytes &&
				  cgroup_value(w->cgroup, "memory.events", "oom_kill ")))
		tell_bound(w->policy->memory_bytes, "bytes of memory in all");
}

static pid_t first_child(pid_t pid)
{
	char path[64];
	struct tree *t = mem_zalloc(sizeof(*t));

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		add_listed(t, fd);
		close(fd);
	}
	pid = t->n > 0 ? t->at[0] : 0;
	free(t);
	return pid;
}

/* bubblewrap waits for the first process of its namespace, and that one for the tool. */
static pid_t inside_of(pid_t bwrap)
{
	pid_t first = first_child(bwrap), tool = first > 0 ? first_child(first) : 0;

	return tool > 0 ? tool : bwrap;
}

static void take_signal(struct watch *w)
{
	struct signalfd_siginfo si;

	if (read(w->signal_fd, &si, sizeof(si)) != sizeof(si))
		return;
	if (si.ssi_signo == SIGTERM) {
		look_as_tool(w);
		pid_t tool = w->policy->bwrap ? inside_of(w->tool) : w->tool;
		look_as_ours(w);
		if (kill(-tool, SIGTERM))               /* it has no group of its own yet */
			kill(tool, SIGTERM);
	} else if (si.ssi_signo == SIGCHLD) {
		reap(w);
	}
}

static void run(struct watch *w)
{
	enum { SERVER, SIGNALS, TIMER, LISTENER, NOTIFY, SIZE };

	while (!w->tool_ended) {
		struct pollfd fds[] = {
			[SERVER] = { .fd = SANDBOX_FD, .events = POLLIN },
			[SIGNALS] = { .fd = w->signal_fd, .events = POLLIN },
			[TIMER] = { .fd = w->timer_fd, .events = POLLIN },
			[LISTENER] = { .fd = w->listener_fd, .events = POLLIN },
			[NOTIFY] = { .fd = w->notify_fd, .events = POLLIN },
			[SIZE] = { .fd = w->size.fd, .events = POLLIN },
		};
		if (poll(fds, NELEMS(fds), -1) < 0 && errno != EINTR)
			return;
		if (fds[SERVER].revents)        /* it has nothing more to say but that it is over */
			return;
		if (fds[SIZE].revents)
			take_size(w);
		if (w->too_large || (fds[TIMER].revents && tick(w)))
			return;
		if (fds[SIGNALS].revents)
			take_signal(w);
		if (fds[LISTENER].revents)
			take_listener(w);
		if (fds[NOTIFY].revents & POLLIN) {
			answer(w);
		} else if (fds[NOTIFY].revents) {       /* nobody is left to ask */
			close(w->notify_fd);
			w->notify_fd = -1;
		}
	}
}

/* From here on this process reaches with signals only what it starts; true when that is certain (ABI 6). */
static bool landlock_gather(void)
{
	const struct ll_ruleset attr = { .scoped = LL_SCOPE_SIGNAL };
	int fd = (int)syscall(LL_CREATE_RULESET, &attr, sizeof(attr), 0);
	bool done = fd >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(LL_RESTRICT_SELF, fd, 0) == 0;

	if (fd >= 0)
		close(fd);
	/* Our parent has our user: nothing else would keep us from it. */
	return done && kill(getppid(), 0) != 0 && errno == EPERM;
}

int supervise_prepare(const struct sandbox_policy *p, struct supervisor *ret, struct err *err)
{
	char path[64];
	sigset_t all, wanted;
	const struct itimerspec often = { .it_value.tv_nsec = COUNT_FIRST_NS, .it_interval.tv_nsec = COUNT_NEXT_NS };

	sigfillset(&all);
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGCHLD);
	sigaddset(&wanted, SIGTERM);
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	ret->children_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (ret->children_fd < 0)
		return err_set(err, ERR_IO, "supervisor", "%s: %s", path, strerror(errno));
	ret->signal_fd = signalfd(-1, &wanted, SFD_CLOEXEC);
	ret->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	/* What the tool leaves behind falls to us. */
	if (ret->signal_fd < 0 || ret->timer_fd < 0 ||
	    ((p->processes || p->memory_bytes || p->scratch_bytes) && timerfd_settime(ret->timer_fd, 0, &often, NULL)) ||
	    sigprocmask(SIG_SETMASK, &all, NULL) || prctl(PR_SET_CHILD_SUBREAPER, 1))
		return err_set(err, ERR_IO, "supervisor", "%s", strerror(errno));
	ret->gathered = p->level.landlock >= 6 && landlock_gather();
	return 0;
}

/* Where we may, we come before what the tool has running: thousands of processes would keep us waiting for seconds. */
static void set_urgent(bool on)
{
	const struct sched_param param = { .sched_priority = on ? 1 : 0 };

	(void)sched_setscheduler(0, (on ? SCHED_RR : SCHED_OTHER) | SCHED_RESET_ON_FORK, &param);
}

int supervise(const struct supervisor *s, const struct sandbox_policy *p, pid_t tool, int listener_fd)
{
	/* Killed, unless it ends otherwise. */
	struct watch w = { .supervisor = s, .policy = p, .tool = tool, .status = SIGKILL, .signal_fd = s->signal_fd,
			   .children_fd = s->children_fd, .listener_fd = listener_fd, .notify_fd = -1,
			   .gathered = s->gathered, .cgroup = s->cgroup, .timer_fd = s->timer_fd };

	own_size_begin(&w.size, p->scratch_bytes ? s->own_dir : NULL, p->scratch_bytes, s->become_user);
	set_urgent(true);
	run(&w);
	end_all(&w);
	set_urgent(false);
	tell_bounds(&w);
	/* bubblewrap says it as a shell does. */
	if (p->bwrap && WIFEXITED(w.status) && WEXITSTATUS(w.status) > 128 && WEXITSTATUS(w.status) <= 128 + SIGSYS)
		return WEXITSTATUS(w.status) - 128;
	return w.status;
}
