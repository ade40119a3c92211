/* Programs of this package beside the server: one socket, one process, told from the strays of tools by its number. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "ev/helper.h"

#include "ev_int.h"

struct ev_helper {
	struct ev_loop *loop;
	pid_t pid;
	int pidfd;
	struct ev_io *io;               /* once it was killed: when is it dead? */
	struct ev_leaver leaver;
};

char *ev_helper_path(const char *name, const char *variable)
{
	const char *set = getenv(variable);
	char exe[4096], *beside;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash = n > 0 ? memrchr(exe, '/', (size_t)n) : NULL;

	if (set && set[0] == '/')
		return mem_strdup(set);
	if (slash) {
		*slash = '\0';
		beside = mem_printf("%s/%s", exe, name);
		if (access(beside, X_OK) == 0)
			return beside;
		free(beside);
	}
	return mem_printf("%s/%s", LIBEXECDIR, name);
}

static int set_actions(posix_spawn_file_actions_t *fa, posix_spawnattr_t *attr, int theirs)
{
	sigset_t none, all;
	int rc = posix_spawn_file_actions_adddup2(fa, theirs, STDIN_FILENO);

	sigemptyset(&none);
	sigfillset(&all);
	rc = rc ? rc : posix_spawn_file_actions_addopen(fa, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	rc = rc ? rc : posix_spawn_file_actions_addclosefrom_np(fa, STDERR_FILENO + 1);
	/* A group of its own: what a terminal sends to the server is not for its helper, which ends after it. */
	rc = rc ? rc : posix_spawnattr_setflags(attr,
						POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	rc = rc ? rc : posix_spawnattr_setpgroup(attr, 0);
	rc = rc ? rc : posix_spawnattr_setsigmask(attr, &none);
	return rc ? rc : posix_spawnattr_setsigdefault(attr, &all);
}

static int spawn(const char *path, const char *const argv[], int theirs, pid_t *ret, struct err *err)
{
	char *args[16], *const env[] = { NULL };
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	size_t n = 0;
	int rc;

	for (; argv[n] && n + 1 < NELEMS(args); n++)
		args[n] = mem_strdup(argv[n]);
	args[n] = NULL;
	posix_spawn_file_actions_init(&fa);     /* both cannot fail in glibc */
	posix_spawnattr_init(&attr);
	rc = set_actions(&fa, &attr, theirs);
	rc = rc ? rc : posix_spawn(ret, path, &fa, &attr, args, env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&fa);
	while (n > 0)
		free(args[--n]);
	if (rc == 0)
		return 0;
	return err_set(err, rc == ENOENT || rc == EACCES ? ERR_UNREACHABLE : ERR_IO, path, "%s cannot be started: %s",
		       path,
		       strerror(rc));
}

/* Children that are not tools' are left alone by the sweep of child.c. */
static void claim(struct ev_nursery *n, pid_t pid)
{
	n->foreign = mem_realloc(n->foreign, (n->nforeign + 1) * sizeof(*n->foreign));
	n->foreign[n->nforeign++] = pid;
}

static void disclaim(struct ev_nursery *n, pid_t pid)
{
	size_t kept = 0;

	for (size_t i = 0; i < n->nforeign; i++)
		if (n->foreign[i] != pid)
			n->foreign[kept++] = n->foreign[i];
	n->nforeign = kept;
}

int ev_helper_start(struct ev_loop *loop, const char *path, const char *const argv[], int *ret_fd,
		    struct ev_helper **ret, struct err *err)
{
	struct ev_helper *h = mem_zalloc(sizeof(*h));
	int s[2] = { -1, -1 }, rc = 0;

	ev_assert_thread(loop);
	h->loop = loop;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s))
		rc = err_set(err, ERR_IO, "socketpair", "%s", strerror(errno));
	if (rc == 0)
		rc = spawn(path, argv, s[1], &h->pid, err);
	if (s[1] >= 0)
		close(s[1]);
	if (rc == 0) {
		h->pidfd = pidfd_open(h->pid, 0);
		claim(&loop->nursery, h->pid);
		*ret_fd = s[0];
		*ret = h;
		return 0;
	}
	if (s[0] >= 0)
		close(s[0]);
	free(h);
	return rc;
}

static void reap(struct ev_helper *h)
{
	while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void free_helper(void *arg)
{
	struct ev_helper *h = arg;

	disclaim(&h->loop->nursery, h->pid);
	ev_io_free(&h->io);
	if (h->pidfd >= 0)
		close(h->pidfd);
	free(h);
}

void ev_helper_end(struct ev_helper **hp, uint32_t wait_ms)
{
	struct ev_helper *h = *hp;
	struct pollfd fd;

	if (!h)
		return;
	*hp = NULL;
	fd = (struct pollfd){ .fd = h->pidfd, .events = POLLIN };
	if (h->pidfd < 0 || poll(&fd, 1, (int)wait_ms) < 1)
		kill(h->pid, SIGKILL);
	reap(h);
	free_helper(h);
}

/* It was killed before, so that this does not take long. */
static void on_free(void *arg)
{
	struct ev_helper *h = arg;

	reap(h);
	free_helper(h);
}

static void on_pidfd(void *arg, bool readable, bool writable)
{
	struct ev_helper *h = arg;

	(void)readable;
	(void)writable;
	if (waitpid(h->pid, NULL, WNOHANG) == 0)
		return;
	list_unlink(&h->leaver.node);
	ev_io_want(h->io, false, false);
	ev_defer(h->loop, free_helper, h);
}

void ev_helper_kill(struct ev_helper **hp)
{
	struct ev_helper *h = *hp;

	if (!h)
		return;
	*hp = NULL;
	kill(h->pid, SIGKILL);
	if (h->pidfd < 0) {
		on_free(h);
		return;
	}
	h->io = ev_io_new(h->loop, h->pidfd, on_pidfd, h);
	ev_io_want(h->io, true, false);
	ev_at_free(h->loop, &h->leaver, on_free, h);
}
