/* The server's end of the launcher: its start, what is asked of it, what it tells. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"

#include "launcher_int.h"

struct launcher {
	pid_t pid;
	int fd;
	uint64_t last_id;
};

static int set_actions(posix_spawn_file_actions_t *fa, posix_spawnattr_t *attr, int theirs)
{
	sigset_t none, all;
	int rc = posix_spawn_file_actions_adddup2(fa, theirs, STDIN_FILENO);

	sigemptyset(&none);
	sigfillset(&all);
	rc = rc ? rc : posix_spawn_file_actions_addopen(fa, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	rc = rc ? rc : posix_spawn_file_actions_addclosefrom_np(fa, STDERR_FILENO + 1);
	/* A group of its own: what a terminal sends to the server is not for its launcher, which ends after it. */
	rc = rc ? rc : posix_spawnattr_setflags(attr,
						POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	rc = rc ? rc : posix_spawnattr_setpgroup(attr, 0);
	rc = rc ? rc : posix_spawnattr_setsigmask(attr, &none);
	return rc ? rc : posix_spawnattr_setsigdefault(attr, &all);
}

/* Of our environment only what says where programs of this package are. */
static size_t pick_env(char *env[], size_t room)
{
	extern char **environ;
	size_t n = 0;

	for (char **e = environ; e && *e && n + 1 < room; e++)
		if (strncmp(*e, "TOOLCRIB_RUN=", 13) == 0 || strncmp(*e, "TOOLCRIB_SIGN=", 14) == 0 ||
		    strncmp(*e, "TOOLCRIB_WORKER=", 16) == 0 || strncmp(*e, "TOOLCRIB_CHILDREN=", 18) == 0)
			env[n++] = *e;
	env[n] = NULL;
	return n;
}

static int spawn(const char *path, const struct launcher_uids *uids, int theirs, pid_t *ret, struct err *err)
{
	char name[] = "toolcrib-launcher", range[32] = "", *argv[] = { name, range, NULL }, *env[6];
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	int rc;

	if (uids && uids->count)
		snprintf(range, sizeof(range), "%u:%u", uids->first, uids->count);
	(void)pick_env(env, NELEMS(env));
	posix_spawn_file_actions_init(&fa);     /* both cannot fail in glibc */
	posix_spawnattr_init(&attr);
	rc = set_actions(&fa, &attr, theirs);
	rc = rc ? rc : posix_spawn(ret, path, &fa, &attr, argv, env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&fa);
	if (rc == 0)
		return 0;
	return err_set(err, rc == ENOENT || rc == EACCES ? ERR_UNREACHABLE : ERR_IO, path,
		       "the launcher cannot be started: %s", strerror(rc));
}

static bool wait_for(int fd, int wait_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	do
		n = poll(&p, 1, wait_ms);
	while (n < 0 && errno == EINTR);
	return n == 1;
}

/* Its greeting: that it is ready, or the step that failed. */
static int greet(const struct launcher *l, const char *path, struct err *err)
{
	char buf[LAUNCHER_MESSAGE_MAX];
	struct launcher_message m;
	ssize_t n = wait_for(l->fd, LAUNCHER_GREET_MS) ? launcher_message_recv(l->fd, buf, sizeof(buf), &m, MSG_DONTWAIT) : -1;

	if (n < (ssize_t)sizeof(m.head))
		return err_set(err, ERR_UNREACHABLE, path, "the launcher does not answer");
	memcpy(&m.head, buf, sizeof(m.head));
	if (m.head.magic != LAUNCHER_MAGIC || m.head.op != LAUNCHER_OP_READY || m.head.len != (size_t)n - sizeof(m.head))
		return err_set(err, ERR_UNREACHABLE, path, "the launcher is of another version");
	if (m.head.status == 0)
		return 0;
	return err_set(err, ERR_DENIED, "launcher", "%.*s: %s", (int)m.head.len, buf + sizeof(m.head),
		       strerror(m.head.status));
}

int launcher_open(const struct launcher_uids *uids, struct launcher **ret, struct err *err)
{
	const struct timeval patience = { LAUNCHER_WAIT_MS / 1000, 0 };
	char *path = path_program("toolcrib-launcher", "TOOLCRIB_LAUNCHER");
	struct launcher *l = mem_zalloc(sizeof(*l));
	int s[2] = { -1, -1 }, rc = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s))
		rc = err_set(err, ERR_IO, "socketpair", "%s", strerror(errno));
	l->fd = s[0];
	if (rc == 0 && setsockopt(l->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)))
		rc = err_set(err, ERR_IO, "socketpair", "%s", strerror(errno));
	rc = rc ? rc : spawn(path, uids, s[1], &l->pid, err);
	if (s[1] >= 0)
		close(s[1]);
	if (rc == 0)
		rc = greet(l, path, err);
	free(path);
	if (rc == 0)
		*ret = l;
	else
		launcher_close(&l);
	return rc;
}

void launcher_close(struct launcher **lp)
{
	struct launcher *l = *lp;
	struct launcher_event ev;

	if (!l)
		return;
	*lp = NULL;
	if (l->fd >= 0) {
		shutdown(l->fd, SHUT_WR);
		while (wait_for(l->fd, LAUNCHER_WAIT_MS) && launcher_next(l, &ev) > 0)
			;
		close(l->fd);
	}
	if (l->pid > 0) {
		kill(l->pid, SIGKILL);          /* it has said all that it had to say */
		while (waitpid(l->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	free(l);
}

int launcher_fd(const struct launcher *l)
{
	return l->fd;
}

int launcher_start(struct launcher *l, const struct launcher_ask *ask, uint64_t *ret_id, struct err *err)
{
	struct launcher_message m = { .head = { .magic = LAUNCHER_MAGIC, .op = LAUNCHER_OP_START, .id = l->last_id + 1,
						.row = ask->row, .number = ask->number },
				      .nfds = launcher_row_fds(ask->row) };

	for (const char *const *arg = ask->args; arg && *arg; arg++) {
		size_t n = strlen(*arg) + 1;

		if (n > sizeof(m.text) - m.head.len)
			return err_set(err, ERR_LIMIT, "launcher", "the arguments have more than %d bytes", LAUNCHER_ARGS_MAX);
		memcpy(m.text + m.head.len, *arg, n);
		m.head.len += (uint32_t)n;
	}
	memcpy(m.fds, ask->fds, sizeof(m.fds));
	if (!launcher_message_send(l->fd, &m, 0))
		return err_set(err, ERR_UNREACHABLE, "launcher", "it cannot be asked: %s", strerror(errno));
	*ret_id = ++l->last_id;
	return 0;
}

void launcher_signal(struct launcher *l, uint64_t id, int signal)
{
	const struct launcher_message m = { .head = { .magic = LAUNCHER_MAGIC, .op = LAUNCHER_OP_SIGNAL, .id = id,
						      .status = signal } };

	(void)launcher_message_send(l->fd, &m, 0);      /* one that is gone has ended them all */
}

int launcher_next(struct launcher *l, struct launcher_event *ret)
{
	struct launcher_message m;
	ssize_t n = launcher_message_recv(l->fd, &m.head, sizeof(m.head), &m, MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return 0;
	while (n > 0 && m.nfds > 0)
		close(m.fds[--m.nfds]);
	if (n != sizeof(m.head) || m.head.magic != LAUNCHER_MAGIC ||
	    (m.head.op != LAUNCHER_OP_ENDED && m.head.op != LAUNCHER_OP_FAILED))
		return ERR_UNREACHABLE;
	*ret = (struct launcher_event){ m.head.op == LAUNCHER_OP_ENDED ? LAUNCHER_ENDED : LAUNCHER_FAILED, m.head.id,
					m.head.status };
	return 1;
}
