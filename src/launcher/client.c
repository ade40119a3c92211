/* The server's end of the launcher: whom tools are to be, its start, what is asked of it, what it tells. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
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
#include "base/text.h"

#include "launcher_int.h"

/* --- the users that the server's own user may give away, by subuid(5) and subgid(5) */

#define LINES_MAX (4u << 20)            /* bytes of a file */

/* OWNER:FIRST:COUNT */
static bool read_line(const char *line, size_t len, const char *owner, uint64_t *ret_first, uint64_t *ret_count)
{
	size_t n = strlen(owner);
	const char *from = line + n + 1, *end = line + len, *colon;

	if (n == 0 || len <= n || memcmp(line, owner, n) != 0 || line[n] != ':')
		return false;
	colon = memchr(from, ':', (size_t)(end - from));
	return colon && text_u64(from, (size_t)(colon - from), ret_first) == 0 &&
	       text_u64(colon + 1, (size_t)(end - colon - 1), ret_count) == 0 && *ret_count <= UINT32_MAX &&
	       *ret_first <= UINT32_MAX && *ret_first + *ret_count <= UINT32_MAX;
}

struct range { uint64_t first, count; };

/* The longest range of the file that is this owner's. */
static struct range longest(const char *text, const char *name, const char *number)
{
	struct range found = { 0, 0 };

	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");
		struct range r = { 0, 0 };

		if ((read_line(line, len, name, &r.first, &r.count) || read_line(line, len, number, &r.first, &r.count)) &&
		    r.count > found.count)
			found = r;
		line += len + (line[len] == '\n');
	}
	return found;
}

/* The upper half: programs that start containers begin with the lower one. */
static int read_half(const char *file, const char *name, const char *number, struct range *ret, struct err *err)
{
	const char *who = *name ? name : number;
	struct str text = STR_INIT;
	struct range r = { 0, 0 };

	if (path_read(file, LINES_MAX, &text, NULL) == 0)       /* one that is missing has no lines */
		r = longest(str_text(&text), name, number);
	str_fini(&text);
	if (r.count == 0)
		return err_set(err, ERR_NOT_FOUND, "", "%s has no line for %s", file, who);
	*ret = (struct range){ r.first + (r.count - r.count / 2), r.count / 2 };
	if (ret->count >= LAUNCHER_UIDS_MIN && ret->first >= LAUNCHER_UID_MIN)
		return 0;
	return err_set(err, ERR_NOT_FOUND, "", "the line of %s in %s has too few ids, or such of users: at least %d from %d "
		       "on", who, file, LAUNCHER_UIDS_MIN * 2, LAUNCHER_UID_MIN);
}

int launcher_uids_find(const char *subuid, const char *subgid, const char *name, uint32_t uid,
		       struct launcher_uids *ret, struct err *err)
{
	struct range uids = { 0, 0 }, gids = { 0, 0 };
	char number[16];
	int rc;

	snprintf(number, sizeof(number), "%u", uid);
	rc = read_half(subuid, name, number, &uids, err);
	rc = rc ? rc : read_half(subgid, name, number, &gids, err);
	if (rc < 0)
		return rc;
	*ret = (struct launcher_uids){ .first = (uint32_t)uids.first, .first_gid = (uint32_t)gids.first,
		.count = (uint32_t)(uids.count < gids.count ? uids.count : gids.count) };
	return 0;
}

int launcher_uids_own(struct launcher_uids *ret, struct err *err)
{
	const struct passwd *pw;

	if (geteuid() == 0)             /* whose line should it be? */
		return err_set(err, ERR_NOT_FOUND, "", "a server that root has started uses what sandbox.uids names");
	pw = getpwuid(geteuid());
	return launcher_uids_find("/etc/subuid", "/etc/subgid", pw ? pw->pw_name : "", geteuid(), ret, err);
}

/* --- the launcher */

#define LAUNCHER_HOW_MAX 400

struct launcher {
	pid_t pid;
	int fd;
	uint64_t last_id;
	bool has_users;
	char how[LAUNCHER_HOW_MAX];     /* or why not */
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
		    strncmp(*e, "TOOLCRIB_WORKER=", 16) == 0 || strncmp(*e, "TOOLCRIB_REPORT=", 16) == 0 ||
		    strncmp(*e, "TOOLCRIB_VERIFIER=", 18) == 0 || strncmp(*e, "TOOLCRIB_CONSOLE=", 17) == 0 ||
		    strncmp(*e, "TOOLCRIB_CHILDREN=", 18) == 0)
			env[n++] = *e;
	env[n] = NULL;
	return n;
}

static int spawn(const char *path, const struct launcher_uids *uids, int theirs, pid_t *ret, struct err *err)
{
	static char may[] = LAUNCHER_MAY_FAIL, must_not[] = LAUNCHER_MUST_NOT_FAIL;
	char name[] = "toolcrib-launcher", range[32], gid[16], *argv[] = { name, NULL, gid, must_not, NULL }, *env[8];
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	int rc;

	if (uids && uids->count) {
		snprintf(range, sizeof(range), "%u:%u", uids->first, uids->count);
		snprintf(gid, sizeof(gid), "%u", uids->first_gid);
		argv[1] = range;
		argv[3] = uids->may_fail ? may : must_not;
	}
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
static int greet(struct launcher *l, const char *path, struct err *err)
{
	char buf[LAUNCHER_MESSAGE_MAX];
	struct launcher_message m;
	ssize_t n = wait_for(l->fd, LAUNCHER_GREET_MS) ? launcher_message_recv(l->fd, buf, sizeof(buf), &m, MSG_DONTWAIT) : -1;

	if (n < (ssize_t)sizeof(m.head))
		return err_set(err, ERR_UNREACHABLE, path, "the launcher does not answer");
	memcpy(&m.head, buf, sizeof(m.head));
	if (m.head.magic != LAUNCHER_MAGIC || m.head.op != LAUNCHER_OP_READY || m.head.len != (size_t)n - sizeof(m.head))
		return err_set(err, ERR_UNREACHABLE, path, "the launcher is of another version");
	if (m.head.status == 0) {
		l->has_users = m.head.number != 0;
		snprintf(l->how, sizeof(l->how), "%.*s", (int)m.head.len, buf + sizeof(m.head));
		return 0;
	}
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

bool launcher_has_users(const struct launcher *l, const char **ret_how)
{
	*ret_how = l->how;
	return l->has_users;
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
