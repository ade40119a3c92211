/* toolcrib-launcher: starts the programs of a fixed table for the server that has started it, tells how they end, and
 * leaves nothing of them behind (HARDENING 1.1, 1.5).  Its descriptor 0 is the server's socketpair; nothing else comes
 * in.  One thread, one poll: the server, and the ends of children.
 *
 * What a dead child leaves becomes a child of ours, because we are the next subreaper above toolcrib-run (SEC S-513):
 * whatever is our child and in no slot is killed, and an end is told when a look found nothing of that kind. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sanitized.h"
#include "base/path.h"
#include "base/served.h"
#include "base/text.h"
#include "sandbox/filter.h"
#include "sandbox/policy.h"

#include "launcher_int.h"

#define SERVER_FD STDIN_FILENO
#define SWEEP_FIRST_MS 1                /* between two looks at what is left; doubles */
#define SWEEP_LAST_MS 50
#define SWEEP_GIVE_UP_MS 2000           /* then the end is told all the same */
#define SLOTS (LAUNCHER_CHILDREN_MAX * 2)       /* those that run, and what is still to be told */
#define BUCKETS 1024

/* The programs.  Nothing is started whose file others could have replaced. */
static const struct row { const char *name, *variable; } rows[LAUNCHER_ROWS] = {
	[LAUNCHER_RUN] = { "toolcrib-run", "TOOLCRIB_RUN" },
	[LAUNCHER_SIGN] = { "toolcrib-sign", "TOOLCRIB_SIGN" },
	[LAUNCHER_WORKER] = { "toolcrib-worker", "TOOLCRIB_WORKER" },
	[LAUNCHER_REPORT] = { "toolcrib-report", "TOOLCRIB_REPORT" },
	[LAUNCHER_VERIFIER] = { "toolcrib-verifier", "TOOLCRIB_VERIFIER" },
	[LAUNCHER_SHIP] = { "toolcrib-ship", "TOOLCRIB_SHIP" },
	[LAUNCHER_CONSOLE] = { "toolcrib-console", "TOOLCRIB_CONSOLE" },
};

enum state { FREE, RUNS, ENDED, FAILED };       /* ENDED, FAILED: still to be told */
struct slot { uint64_t id; pid_t pid; enum state state; int status; uint16_t next; };

struct us {
	struct slot slots[SLOTS];
	uint16_t by_pid[BUCKETS];       /* those that run: 1 + the first slot of each bucket, 0 = none */
	size_t used;                    /* slots behind this one are free */
	size_t running, untold;
	int files[LAUNCHER_ROWS];       /* opened with O_PATH */
	char *paths[LAUNCHER_ROWS];
	int missing[LAUNCHER_ROWS];     /* errno where there is none */
	int children_fd, signal_fd, null_fd;
	size_t children_max;
	struct launcher_uids uids;
	int users_fd;                   /* the namespace in which they are users; -1 = ours */
	bool over;                      /* the server is gone */
	bool complained;
	int64_t sweep_ms, give_up_ms;   /* 0: nothing is swept */
};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --- slots */

static struct slot *slot_new(struct us *us, uint64_t id)
{
	for (size_t i = 0; i < SLOTS; i++) {
		if (us->slots[i].state != FREE)
			continue;
		us->used = i >= us->used ? i + 1 : us->used;
		us->slots[i] = (struct slot){ .id = id };
		return &us->slots[i];
	}
	return NULL;
}

static void slot_free(struct us *us, struct slot *s)
{
	s->state = FREE;
	while (us->used > 0 && us->slots[us->used - 1].state == FREE)
		us->used--;
}

static struct slot *slot_of(struct us *us, pid_t pid)
{
	for (unsigned i = us->by_pid[pid % BUCKETS]; i > 0; i = us->slots[i - 1].next)
		if (us->slots[i - 1].pid == pid)
			return &us->slots[i - 1];
	return NULL;
}

static void enter(struct us *us, struct slot *slot)
{
	uint16_t *first = &us->by_pid[slot->pid % BUCKETS];

	slot->next = *first;
	*first = (uint16_t)(slot - us->slots + 1);
}

static void leave(struct us *us, const struct slot *slot)
{
	uint16_t *at = &us->by_pid[slot->pid % BUCKETS];

	while (*at != slot - us->slots + 1)
		at = &us->slots[*at - 1].next;
	*at = slot->next;
}

/* --- the start */

/* From fork to exec.  errno is left for the parent, which shares our memory until then. */
struct plan {
	bool run;                       /* toolcrib-run, which needs our capabilities; nobody else does */
	int file;
	const char *path;
	int fds[LAUNCHER_FDS + 1];      /* the last one: users_fd */
	size_t nfds;
	char *const *argv;
	volatile int failed;
};

/* --- capabilities: to give tools other users, and to end these, where they are no namespace's */

static const unsigned char needed[] = LAUNCHER_CAPABILITIES;
static bool has_needed;                 /* the launcher has them, and no others */

static bool set_capabilities(uint32_t which)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = { { which, which, which } };

	return syscall(SYS_capset, &head, caps) == 0;
}

static uint32_t needed_mask(void)
{
	uint32_t mask = 0;

	for (size_t i = 0; i < NELEMS(needed); i++)
		mask |= UINT32_C(1) << needed[i];
	return mask;
}

/* False, errno EPERM: we lack one of them. */
static bool keep_needed(void)
{
	has_needed = set_capabilities(needed_mask());
	return has_needed;
}

/* Over exec, by ambient ones where the user is not root. */
static bool pass_capabilities(bool run)
{
	if (!has_needed)
		return true;
	if (!run)
		return set_capabilities(0);
	for (size_t i = 0; i < NELEMS(needed); i++)
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, needed[i], 0, 0))
			return false;
	return true;
}

static bool become(const struct plan *p)
{
	static char *const env[] = { NULL };
	sigset_t none;

	if (setpgid(0, 0))
		return false;
	/* All of them lie above what they become, so no dup2 hits one that is still needed. */
	for (size_t i = 0; i < p->nfds; i++)
		if (dup2(p->fds[i], (int)i) < 0)
			return false;
	sigemptyset(&none);
	if (!pass_capabilities(p->run) || sigprocmask(SIG_SETMASK, &none, NULL))
		return false;
	syscall(SYS_execveat, p->file, "", p->argv, env, AT_EMPTY_PATH);
	if (errno == ENOENT)            /* a script: its interpreter opens it once more, by name */
		execve(p->path, p->argv, env);
	return false;
}

static pid_t start(struct plan *p)
{
	pid_t pid = vfork();

	if (pid == 0) {
		if (!become(p))
			p->failed = errno;
		_exit(127);
	}
	return pid;
}

/* Arguments behind the name, as they were sent. */
static bool read_args(const struct launcher_message *m, char *argv[], size_t room, const char *name)
{
	size_t n = 0;

	argv[n++] = (char *)(uintptr_t)name;
	for (const char *at = m->text; at < m->text + m->head.len; at += strlen(at) + 1) {
		if (n + 1 >= room)
			return false;
		argv[n++] = (char *)(uintptr_t)at;
	}
	argv[n] = NULL;
	return true;
}

_Static_assert(SANDBOX_USERS_FD == LAUNCHER_FDS, "it lies behind what the server gives");

/* toolcrib-run's only arguments: whom its tool is to be, and that the namespace lies beside its other descriptors. */
static void put_user(const struct us *us, uint32_t number, char *argv[], char uid[16], char gid[16])
{
	static char user[] = "--user", inside[] = "--user-inside";

	snprintf(uid, 16, "%u", us->uids.first + number);
	snprintf(gid, 16, "%u", us->uids.first_gid + number);
	argv[1] = us->users_fd < 0 ? user : inside;
	argv[2] = uid;
	argv[3] = gid;
	argv[4] = NULL;
}

/* 0 or errno. */
static int run_row(struct us *us, const struct launcher_message *m, struct slot *slot)
{
	char *argv[16];
	char uid[16], gid[16];
	struct plan p = { .run = m->head.row == LAUNCHER_RUN, .file = us->files[m->head.row],
		.path = us->paths[m->head.row], .argv = argv,
			  .nfds = LAUNCHER_FDS };
	pid_t pid;

	if (us->running >= us->children_max)
		return EAGAIN;
	if (p.file < 0)
		return us->missing[m->head.row];
	if (!read_args(m, argv, NELEMS(argv), rows[m->head.row].name))
		return E2BIG;
	if (p.run && m->head.number >= us->uids.count && us->uids.count > 0)
		return ERANGE;
	if (p.run && us->uids.count > 0)
		put_user(us, m->head.number, argv, uid, gid);
	if (p.run) {
		memcpy(p.fds, m->fds, sizeof(m->fds));
		p.fds[LAUNCHER_FDS] = us->users_fd;
		p.nfds += us->users_fd >= 0;
	} else {
		p.nfds = 2;
		p.fds[0] = m->fds[0];
		p.fds[1] = us->null_fd;
	}
	pid = start(&p);
	if (pid < 0)
		return errno;
	if (p.failed) {
		waitpid(pid, NULL, 0);
		return p.failed;
	}
	(void)setpgid(pid, pid);        /* it has done so itself, but where vfork() is fork(), perhaps not yet */
	slot->pid = pid;
	slot->state = RUNS;
	enter(us, slot);
	us->running++;
	return 0;
}

static void handle_start(struct us *us, const struct launcher_message *m)
{
	struct slot *slot = slot_new(us, m->head.id);
	int failed = slot ? run_row(us, m, slot) : EAGAIN;

	if (!slot || failed == 0)
		return;
	slot->state = FAILED;
	slot->status = failed;
	us->untold++;
}

static void handle_signal(struct us *us, const struct launcher_message *m)
{
	for (size_t i = 0; i < us->used; i++)
		if (us->slots[i].state == RUNS && us->slots[i].id == m->head.id)
			kill(-us->slots[i].pid, m->head.status);
}

/* A message that is none ends nothing and starts nothing. */
static void on_server(struct us *us)
{
	static struct launcher_message m;
	static char buf[LAUNCHER_MESSAGE_MAX];
	ssize_t n = launcher_message_recv(SERVER_FD, buf, sizeof(buf), &m, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EMSGSIZE))
		return;
	if (n <= 0) {
		us->over = true;
	} else if (!launcher_request_parse(buf, (size_t)n, m.nfds, &m)) {
		if (!us->complained)
			fputs("toolcrib-launcher: a message that is none; more of them are not told\n", stderr);
		us->complained = true;
	} else if (m.head.op == LAUNCHER_OP_START) {
		handle_start(us, &m);
	} else {
		handle_signal(us, &m);
	}
	while (m.nfds > 0)
		close(m.fds[--m.nfds]);
}

/* --- the end */

/* Kill what is a child of ours and in no slot, and reap it.  False when nothing is left. */
static bool sweep(struct us *us)
{
	char buf[4096];
	off_t at = 0;
	bool left = false;

	for (ssize_t got; (got = pread(us->children_fd, buf, sizeof(buf) - 1, at)) > 0;) {
		char *end, *p = buf;

		buf[got] = '\0';
		end = strrchr(buf, ' ');        /* a number that the buffer cuts is read again with the next piece */
		if (!end)
			break;
		at += end + 1 - buf;
		while (p < end) {
			pid_t pid = (pid_t)strtol(p, &p, 10);

			while (*p == ' ')
				p++;
			if (slot_of(us, pid))
				continue;
			kill(pid, SIGKILL);     /* not reaped, so the number is still its own */
			left = waitpid(pid, NULL, WNOHANG) != pid || left;
		}
	}
	return left;
}

static void reap(struct us *us)
{
	siginfo_t si;

	for (;;) {
		struct slot *slot;

		si.si_pid = 0;
		if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) || si.si_pid == 0)
			return;
		slot = slot_of(us, si.si_pid);
		if (slot)
			kill(-si.si_pid, SIGKILL);      /* its group, as long as the number is its own */
		waitpid(si.si_pid, NULL, 0);
		if (!slot)
			continue;
		leave(us, slot);
		slot->state = ENDED;
		slot->status = si.si_code == CLD_EXITED ? si.si_status : -si.si_status;
		us->running--;
		us->untold++;
		if (us->sweep_ms == 0) {
			us->sweep_ms = SWEEP_FIRST_MS;
			us->give_up_ms = now_ms() + SWEEP_GIVE_UP_MS;
		}
	}
}

/* What has ended and was swept, or was not started.  False: the server has no room for it now. */
static bool tell(struct us *us)
{
	for (size_t i = 0; i < us->used && us->untold > 0; i++) {
		struct slot *slot = &us->slots[i];
		struct launcher_message m = { .head = { .magic = LAUNCHER_MAGIC, .id = slot->id, .status = slot->status } };

		if (slot->state != FAILED && (slot->state != ENDED || us->sweep_ms != 0))
			continue;
		m.head.op = slot->state == FAILED ? LAUNCHER_OP_FAILED : LAUNCHER_OP_ENDED;
		if (!us->over && !launcher_message_send(SERVER_FD, &m, MSG_DONTWAIT)) {
			if (errno == EAGAIN)
				return false;
			us->over = true;
		}
		us->untold--;
		slot_free(us, slot);
	}
	return true;
}

/* Milliseconds until the next look, -1: none is due. */
static int look_after(struct us *us)
{
	int wait = -1;

	reap(us);
	if (us->sweep_ms > 0 && sweep(us) && now_ms() < us->give_up_ms) {
		wait = (int)us->sweep_ms;
		us->sweep_ms = us->sweep_ms * 2 > SWEEP_LAST_MS ? SWEEP_LAST_MS : us->sweep_ms * 2;
	} else {
		us->sweep_ms = 0;
	}
	return wait;
}

static void serve(struct us *us)
{
	enum { SERVER, SIGNALS };
	struct signalfd_siginfo si;

	while (!us->over) {
		int wait = look_after(us);
		bool told = tell(us);
		struct pollfd fds[] = {
			/* Without a free slot nothing is heard: the server waits in its send. */
			[SERVER] = { .fd = SERVER_FD, .events = (short)((us->running + us->untold < SLOTS ? POLLIN : 0) |
									(told ? 0 : POLLOUT)) },
			[SIGNALS] = { .fd = us->signal_fd, .events = POLLIN },
		};

		if (poll(fds, NELEMS(fds), wait) < 0 && errno != EINTR)
			return;
		if (fds[SIGNALS].revents)
			(void)!read(us->signal_fd, &si, sizeof(si));
		if (fds[SERVER].revents & (POLLIN | POLLHUP | POLLERR))
			on_server(us);
	}
}

/* The server's ends of their sockets are closed as well: they end by themselves, or are killed. */
static void end_all(struct us *us)
{
	int64_t until = now_ms() + SWEEP_GIVE_UP_MS;

	while (us->running > 0 && now_ms() < until) {
		struct pollfd fd = { .fd = us->signal_fd, .events = POLLIN };
		struct signalfd_siginfo si;

		reap(us);
		if (us->running > 0 && poll(&fd, 1, SWEEP_LAST_MS) > 0)
			(void)!read(us->signal_fd, &si, sizeof(si));
	}
	for (size_t i = 0; i < us->used; i++)
		if (us->slots[i].state == RUNS)
			kill(-us->slots[i].pid, SIGKILL);
	memset(us->by_pid, 0, sizeof(us->by_pid));      /* from here on all are strays */
	for (until = now_ms() + SWEEP_GIVE_UP_MS; sweep(us) && now_ms() < until;)
		(void)poll(NULL, 0, SWEEP_FIRST_MS);
}

/* --- its own start */

/* Say what became of the start; a server of another version does not understand it, and that is an answer too. */
static bool greet(int status, bool users, const char *text)
{
	struct launcher_message m = { .head = { .magic = LAUNCHER_MAGIC, .op = LAUNCHER_OP_READY, .status = status,
						.number = users, .len = (uint32_t)strlen(text) } };

	memcpy(m.text, text, m.head.len);
	return launcher_message_send(SERVER_FD, &m, 0) && status == 0;
}

/* Not somebody else's to write. */
static bool is_safe(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_uid == 0 || st.st_uid == geteuid()) &&
	       !(st.st_mode & S_IWOTH) && (!(st.st_mode & S_IWGRP) || st.st_gid == 0 || st.st_gid == getegid());
}

static void open_rows(struct us *us)
{
	for (size_t i = 0; i < LAUNCHER_ROWS; i++) {
		us->paths[i] = path_program(rows[i].name, rows[i].variable);
		us->files[i] = open(us->paths[i], O_PATH | O_CLOEXEC);
		us->missing[i] = us->files[i] < 0 ? errno : EPERM;
		if (us->files[i] >= 0 && !is_safe(us->files[i])) {
			close(us->files[i]);
			us->files[i] = -1;
		}
	}
}

/* $TOOLCRIB_CHILDREN (tests) makes it less. */
static size_t children_max(void)
{
	const char *set = getenv("TOOLCRIB_CHILDREN");
	uint64_t n = LAUNCHER_CHILDREN_MAX;

	return set && text_u64(set, strlen(set), &n) == 0 && n < LAUNCHER_CHILDREN_MAX ? (size_t)n : LAUNCHER_CHILDREN_MAX;
}

/* --- the filter: what neither we nor anything that we start may do (SEC S-603) */

#define WITH_NAMESPACE 1u               /* of the filter: toolcrib-run enters that of tools' users */

/* bubblewrap makes namespaces and what is in them, and toolcrib-run looks at a socket of its tool; a tool's own filter,
 * which comes on top, refuses that. */
static const struct filter_row for_our_programs[] = {
	{ SYS_clone, FILTER_ALLOW, 0, { 0 }, { 0 } }, { SYS_unshare, FILTER_ALLOW, 0, { 0 }, { 0 } },
	{ SYS_mount, FILTER_ALLOW, 0, { 0 }, { 0 } }, { SYS_umount2, FILTER_ALLOW, 0, { 0 }, { 0 } },
	{ SYS_pivot_root, FILTER_ALLOW, 0, { 0 }, { 0 } }, { SYS_pidfd_getfd, FILTER_ALLOW, 0, { 0 }, { 0 } },
	{ SYS_setns, FILTER_ALLOW, WITH_NAMESPACE, { 1, FILTER_IS, FILTER_ALL, CLONE_NEWUSER }, { 0 } },
};

/* All groups: the filter is the union of what toolcrib-run, tools and the other programs may do.  A kernel without
 * filters has no cages either, and the server says so. */
static int put_filter_on(const struct us *us)
{
	const struct filter f = {
		.groups = FILTER_CORE | FILTER_THREADS | FILTER_FILES | FILTER_MODES | FILTER_WATCH | FILTER_NET | FILTER_START |
			  FILTER_SIGNALS | FILTER_SCHED | FILTER_USERS | FILTER_MEMFD | FILTER_CONFINE,
		.rows = for_our_programs, .nrows = NELEMS(for_our_programs), .when = us->users_fd < 0 ? 0 : WITH_NAMESPACE,
	};

	return SANITIZED || !filter_available() ? 0 : filter_put_on(&f, NULL, NULL);
}

/* --- users for tools where the launcher has no capabilities (HARDENING 1.1): a user namespace with the range in it */

/* newuidmap and newgidmap enter it, which have no privilege behind no_new_privs.  The launcher stays outside, and so
 * does toolcrib-run: owners of files keep their numbers for them, and as owners of the namespace they may signal and
 * end what is in it.  Nobody in it is anybody of the server: the range alone has numbers there. */

#define MAPPER_MS 10000                 /* for newuidmap, which may ask a directory for its user */
#define MAPPER_SAYS 200                 /* bytes of its complaint that are told */

/* Where distributions put them; $PATH is not asked. */
static const char *const places[] = { "/usr/bin", "/usr/local/bin", "/run/wrappers/bin" };

/* A process that holds a new namespace until there is a descriptor of it. */
struct holder { pid_t pid; int fd; };

/* errno of its attempt comes back; our end closes, it ends. */
static void stay_inside(int fd)
{
	int failed = unshare(CLONE_NEWUSER) ? errno : 0;
	char byte;

	if (write(fd, &failed, sizeof(failed)) == sizeof(failed))
		(void)!read(fd, &byte, 1);
	_exit(0);
}

static void let_go(struct holder *h)
{
	close(h->fd);
	waitpid(h->pid, NULL, 0);
}

static int hold(struct holder *ret, struct err *err)
{
	struct holder h;
	int s[2], failed = 0;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s))
		return err_set(err, ERR_IO, "", "socketpair: %s", strerror(errno));
	h = (struct holder){ fork(), s[0] };
	if (h.pid == 0) {
		close(s[0]);
		stay_inside(s[1]);
	}
	close(s[1]);
	if (h.pid < 0) {
		close(s[0]);
		return err_set(err, ERR_IO, "", "fork: %s", strerror(errno));
	}
	if (read(h.fd, &failed, sizeof(failed)) != sizeof(failed))
		failed = EIO;
	if (failed == 0) {
		*ret = h;
		return 0;
	}
	let_go(&h);
	return err_set(err, ERR_DENIED, "", "user namespaces are refused here: %s", strerror(failed));
}

/* Its file is root's, and nobody else could have put another there. */
static bool is_there(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == 0 && !(st.st_mode & (S_IWGRP | S_IWOTH)) &&
	       access(path, X_OK) == 0;
}

static int find_mapper(const char *name, char *path, size_t size, struct err *err)
{
	for (size_t i = 0; i < NELEMS(places); i++) {
		snprintf(path, size, "%s/%s", places[i], name);
		if (is_there(path))
			return 0;
	}
	return err_set(err, ERR_NOT_FOUND, "", "there is no %s/%s: install the package uidmap", places[0], name);
}

static int spawn_mapper(const char *path, char *const argv[], int says, pid_t *ret)
{
	static char *const env[] = { NULL };
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t none;
	int rc;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&fa);     /* both cannot fail in glibc */
	posix_spawnattr_init(&attr);
	rc = posix_spawn_file_actions_addopen(&fa, STDIN_FILENO, "/dev/null", O_RDWR, 0);
	rc = rc ? rc : posix_spawn_file_actions_adddup2(&fa, STDIN_FILENO, STDOUT_FILENO);
	rc = rc ? rc : posix_spawn_file_actions_adddup2(&fa, says, STDERR_FILENO);
	rc = rc ? rc : posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	rc = rc ? rc : posix_spawnattr_setsigmask(&attr, &none);
	rc = rc ? rc : posix_spawn(ret, path, &fa, &attr, argv, env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&fa);
	return rc;
}

/* What it says until it ends, as one line.  False: it does not end. */
static bool listen_to(int fd, char *text, size_t size)
{
	size_t len = 0;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char buf[256];

	for (;;) {
		ssize_t n;

		if (poll(&p, 1, MAPPER_MS) != 1)
			return false;
		n = read(fd, buf, sizeof(buf));
		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n && len + 1 < size; i++)
			text[len++] = (char)(buf[i] >= ' ' && buf[i] <= '~' ? buf[i] : ' ');
	}
	while (len > 0 && text[len - 1] == ' ')
		len--;
	text[len] = '\0';
	return true;
}

/* The range as itself.  That the caller may do so is what newuidmap finds out, from /etc/subuid. */
static int enter_range(const char *name, pid_t pid, uint32_t first, uint32_t count, struct err *err)
{
	char path[64], of[16], from[16], many[16], says[MAPPER_SAYS] = "";
	char *argv[] = { path, of, from, from, many, NULL };
	pid_t mapper = -1;
	int fds[2], status = -1, rc = find_mapper(name, path, sizeof(path), err);
	bool ended;

	if (rc < 0)
		return rc;
	snprintf(of, sizeof(of), "%d", (int)pid);
	snprintf(from, sizeof(from), "%u", first);
	snprintf(many, sizeof(many), "%u", count);
	if (pipe2(fds, O_CLOEXEC))
		return err_set(err, ERR_IO, "", "pipe: %s", strerror(errno));
	rc = spawn_mapper(path, argv, fds[1], &mapper);
	close(fds[1]);
	if (rc) {
		close(fds[0]);
		return err_set(err, ERR_IO, "", "%s: %s", path, strerror(rc));
	}
	ended = listen_to(fds[0], says, sizeof(says));
	close(fds[0]);
	if (!ended)
		kill(mapper, SIGKILL);
	waitpid(mapper, &status, 0);
	if (ended && status == 0)
		return 0;
	return err_set(err, ERR_DENIED, "", "%s", !ended ? "newuidmap does not end" : *says ? says : "newuidmap failed");
}

/* In the way in which toolcrib-run will: the whole range, so the last of it. */
static int try_out(int fd, const struct launcher_uids *uids, struct err *err)
{
	uint32_t last = uids->count - 1;
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		bool ok = setns(fd, CLONE_NEWUSER) == 0 && syscall(SYS_setgroups, 0, NULL) == 0 &&
			  syscall(SYS_setresgid, uids->first_gid + last, uids->first_gid + last, uids->first_gid + last) == 0 &&
			  syscall(SYS_setresuid, uids->first + last, uids->first + last, uids->first + last) == 0;
		_exit(ok ? 0 : errno & 0x7f);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return err_set(err, ERR_IO, "", "the user namespace cannot be tried out: %s", strerror(errno));
	if (WEXITSTATUS(status) == 0)
		return 0;
	return err_set(err, ERR_DENIED, "", "the user namespace cannot be used: %s", strerror(WEXITSTATUS(status)));
}

static int open_of(pid_t pid, int *ret, struct err *err)
{
	char path[48];
	int fd, high;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, ERR_IO, "", "%s: %s", path, strerror(errno));
	high = fcntl(fd, F_DUPFD_CLOEXEC, LAUNCHER_FDS + 1);    /* above what programs get */
	close(fd);
	if (high < 0)
		return err_set(err, ERR_IO, "", "%s: %s", path, strerror(errno));
	*ret = high;
	return 0;
}

static int open_namespace(const struct launcher_uids *uids, int *ret_fd, struct err *err)
{
	struct holder h = { -1, -1 };
	int fd = -1, rc = hold(&h, err);

	if (rc < 0)
		return rc;
	rc = enter_range("newuidmap", h.pid, uids->first, uids->count, err);
	rc = rc ? rc : enter_range("newgidmap", h.pid, uids->first_gid, uids->count, err);
	rc = rc ? rc : open_of(h.pid, &fd, err);
	let_go(&h);
	rc = rc ? rc : try_out(fd, uids, err);
	if (rc == 0)
		*ret_fd = fd;
	else if (fd >= 0)
		close(fd);
	return rc;
}

/* --- whom tools are, and what we give up */

/* As launcher_open() has put them. */
static bool read_uids(char **argv, struct launcher_uids *ret)
{
	uint64_t gid = 0;

	if (launcher_uids_parse(argv[1], ret, NULL) < 0 || text_u64(argv[2], strlen(argv[2]), &gid) != 0 ||
	    gid < LAUNCHER_UID_MIN || gid + ret->count > UINT32_MAX)
		return false;
	ret->first_gid = (uint32_t)gid;
	ret->may_fail = strcmp(argv[3], LAUNCHER_MAY_FAIL) == 0;
	return true;
}

/* How tools get their users, or why they do not, in *how.  By capabilities where we have them, else by a namespace. */
static int find_users(struct us *us, struct str *how)
{
	struct err err = { 0 };

	if (us->uids.count == 0)
		return 0;
	if (keep_needed() || open_namespace(&us->uids, &us->users_fd, &err) == 0) {
		str_printf(how, "%u:%u, by %s", us->uids.first, us->uids.count, has_needed ? "capabilities" : "newuidmap");
		return 0;
	}
	us->uids.count = 0;
	if (us->uids.may_fail)
		str_puts(how, err.msg);
	else
		str_printf(how, "users of tools need root, CAP_SETUID, CAP_SETGID and CAP_KILL, or newuidmap (%s)", err.msg);
	return -1;
}

/* NULL, or the step that failed. */
static const char *set_up_users(struct us *us, struct str *how)
{
	if (find_users(us, how) < 0 && !us->uids.may_fail) {
		errno = EPERM;
		return str_text(how);
	}
	/* What a service manager has given is of no use without a range. */
	if (!has_needed && geteuid() != 0 && !set_capabilities(0))
		return "capabilities";
	if (prctl(PR_SET_DUMPABLE, 0))  /* not before newuidmap has looked whose we are */
		return "no look at us";
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return "no new privileges";
	return put_filter_on(us) < 0 ? "filter" : NULL;
}

/* NULL, or the step that failed. */
static const char *set_up(struct us *us)
{
	char path[64];
	sigset_t all;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	us->children_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (us->children_fd < 0)
		return "children";
	us->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (us->null_fd < 0)
		return "/dev/null";
	sigfillset(&all);
	/* A terminal and its user speak to the server. */
	if (sigprocmask(SIG_SETMASK, &all, NULL))
		return "signals";
	sigemptyset(&all);
	sigaddset(&all, SIGCHLD);
	us->signal_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	if (us->signal_fd < 0)
		return "signals";
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		return "subreaper";
	if (fcntl(SERVER_FD, F_SETFD, FD_CLOEXEC))
		return "socket";
	us->children_max = children_max();
	open_rows(us);
	return NULL;
}

/* For people and package checks; the server passes none of these. */
static bool answer(const char *option)
{
	if (!strcmp(option, "--version"))
		served_put_version("toolcrib-launcher");
	else if (!strcmp(option, "--help"))
		puts("toolcrib-launcher is started by toolcribd, with a socket on descriptor 0; see toolcrib-launcher(8)");
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	static struct us us = { .users_fd = -1 };
	struct str how = STR_INIT;
	const char *failed;
	bool ready;
	int type = 0;
	socklen_t len = sizeof(type);

	if (argc == 2 && answer(argv[1]))
		return 0;
	if (getsockopt(SERVER_FD, SOL_SOCKET, SO_TYPE, &type, &len) || type != SOCK_SEQPACKET ||
	    (argc != 1 && (argc != 4 || !read_uids(argv, &us.uids)))) {
		fputs("toolcrib-launcher: it is started by toolcribd, with a socket on descriptor 0\n", stderr);
		return 1;
	}
	failed = set_up(&us);
	if (!failed)
		failed = set_up_users(&us, &how);
	ready = greet(failed ? errno : 0, us.uids.count > 0, failed ? failed : str_text(&how));
	str_fini(&how);
	if (!ready)
		return 1;
	serve(&us);
	end_all(&us);
	return 0;
}
