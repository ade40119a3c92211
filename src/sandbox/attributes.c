/* What a tool's filter asks about and the supervisor does itself: modes, owners and times of files, which Landlock does
 * not see, and listen() (HARDENING F-7, F-14).  Called by supervise.c, in its one thread, outside the sandbox.
 *
 * The tool's threads can change what its arguments point to and what its descriptors are at any time, so no call that
 * was looked at is let through.  What it means is opened here, looked at here, and changed through that descriptor.
 * What belongs to the tool is what lies below its own directory or its list of what may be written, under the name
 * that the kernel gives it, and has the tool's own user: the supervisor may have privileges that the tool has not. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include <utime.h>

#include "base/mem.h"
#include "base/text.h"
#include "sandbox/policy.h"

#include "filter_calls.h"
#include "sandbox_int.h"

#define OWN_MODES 01777u                /* the filter has refused the others already */

struct ask {
	const struct supervisor *s;
	const struct sandbox_policy *policy;
	const struct seccomp_notif *notif;
	int notify_fd;
};

/* --- what the tool means */

/* Its thread may be dead, and its number another's by now. */
static bool is_alive(const struct ask *a)
{
	uint64_t id = a->notif->id;

	return ioctl(a->notify_fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

static int open_proc(const struct ask *a, const char *name, int flags)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "/proc/%d/%s", (int)a->notif->pid, name);
	int fd = n < PATH_MAX ? open(path, flags | O_CLOEXEC) : -1;

	if (n >= PATH_MAX)
		return -ENAMETOOLONG;
	return fd < 0 ? -errno : fd;
}

/* Bytes of its memory, as many as there are up to n. */
static ssize_t read_memory(const struct ask *a, uint64_t at, void *p, size_t n)
{
	int fd = open_proc(a, "mem", O_RDONLY);

	if (fd < 0)
		return -EPERM;
	ssize_t got = is_alive(a) ? pread(fd, p, n, (off_t)at) : -1;
	close(fd);
	return got < 0 ? -EFAULT : got;
}

static int read_text(const struct ask *a, uint64_t at, char ret[PATH_MAX])
{
	size_t n = 0;

	/* Page by page: what follows the text need not be there. */
	while (n < PATH_MAX) {
		size_t left = 4096 - (size_t)((at + n) % 4096);
		ssize_t got = read_memory(a, at + n, ret + n, left < PATH_MAX - n ? left : PATH_MAX - n);
		if (got <= 0)
			return got < 0 ? (int)got : -EFAULT;
		if (memchr(ret + n, '\0', (size_t)got))
			return 0;
		n += (size_t)got;
	}
	return -ENAMETOOLONG;
}

/* A descriptor of the tool's, or its working directory; ours is for names alone. */
static int open_descriptor(const struct ask *a, int fd)
{
	char name[32];

	if (fd == AT_FDCWD)
		return open_proc(a, "cwd", O_PATH | O_DIRECTORY);
	snprintf(name, sizeof(name), "fd/%d", fd);
	int rc = fd < 0 ? -EBADF : open_proc(a, name, O_PATH);
	return rc == -ENOENT ? -EBADF : rc;
}

/* What begins with /proc/self means the tool. */
static int open_absolute(const struct ask *a, const char *path, int flags)
{
	static const char *const selves[] = { "/proc/self/", "/proc/thread-self/" };

	for (size_t i = 0; i < NELEMS(selves); i++) {
		if (strncmp(path, selves[i], strlen(selves[i])) == 0)
			return open_proc(a, path + strlen(selves[i]), flags);
	}
	int fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_named(const struct ask *a, int dir, uint64_t at, int flags)
{
	int how = O_PATH | (flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0);
	char path[PATH_MAX];
	int rc = read_text(a, at, path);

	if (rc)
		return rc;
	if (path[0] == '\0')
		return flags & AT_EMPTY_PATH ? open_descriptor(a, dir) : -ENOENT;
	if (path[0] == '/')
		return open_absolute(a, path, how);
	dir = open_descriptor(a, dir);
	if (dir < 0)
		return dir;
	int fd = openat(dir, path, how | O_CLOEXEC);
	rc = fd < 0 ? -errno : fd;
	close(dir);
	return rc;
}

/* The link by which fd is opened again, and changed. */
static void link_of(int fd, char ret[32])
{
	snprintf(ret, 32, "/proc/self/fd/%d", fd);
}

/* 0: it is the tool's to change. */
static int check_own(const struct ask *a, int fd, struct stat *st)
{
	char link[32], name[PATH_MAX];
	bool below = false;

	link_of(fd, link);
	ssize_t n = readlink(link, name, sizeof(name) - 1);
	name[n > 0 ? n : 0] = '\0';
	for (char *const *dir = a->s->writable; *dir && !below; dir++)
		below = sandbox_is_below(name, *dir);
	if (!below || fstat(fd, st) || st->st_uid != geteuid() || !is_alive(a))
		return -EPERM;
	return 0;
}

/* --- calls */

static int set_mode(const struct ask *a, int fd, uint64_t mode)
{
	struct stat st;
	char link[32];
	int rc = check_own(a, fd, &st);

	if (rc)
		return rc;
	if (S_ISLNK(st.st_mode))
		return -EOPNOTSUPP;
	link_of(fd, link);
	return chmod(link, (mode_t)(mode & OWN_MODES)) ? -errno : 0;
}

/* To what it is already: nothing else could a program without privileges do. */
static int set_owner(const struct ask *a, int fd, uint64_t user, uint64_t group)
{
	struct stat st;
	uid_t uid = (uid_t)user;
	gid_t gid = (gid_t)group;
	int rc = check_own(a, fd, &st);

	if (rc)
		return rc;
	return (uid == (uid_t)-1 || uid == st.st_uid) && (gid == (gid_t)-1 || gid == st.st_gid) ? 0 : -EPERM;
}

/* times: NULL = now. */
static int set_times(const struct ask *a, int fd, const struct timespec *times)
{
	struct stat st;
	char link[32];
	int rc = check_own(a, fd, &st);

	if (rc)
		return rc;
	link_of(fd, link);
	return utimensat(AT_FDCWD, link, times, 0) ? -errno : 0;
}

/* The three forms in which times come. */
static int read_times(const struct ask *a, int nr, uint64_t at, struct timespec ret[2])
{
	union { struct timespec spec[2]; struct timeval val[2]; struct utimbuf buf; } got;
	size_t size = sizeof(got.spec);

#if defined(__x86_64__)
	size = nr == SYS_utime ? sizeof(got.buf) : sizeof(got.spec);
#endif
	ssize_t n = read_memory(a, at, &got, size);
	if (n != (ssize_t)size)
		return n < 0 ? (int)n : -EFAULT;
	for (int i = 0; i < 2; i++) {
#if defined(__x86_64__)
		if (nr == SYS_utime) {
			ret[i] = (struct timespec){ .tv_sec = i == 0 ? got.buf.actime : got.buf.modtime };
			continue;
		}
		if (nr != SYS_utimensat) {
			if (got.val[i].tv_usec < 0 || got.val[i].tv_usec >= 1000000)
				return -EINVAL;
			ret[i] = (struct timespec){ got.val[i].tv_sec, got.val[i].tv_usec * 1000 };
			continue;
		}
#endif
		ret[i] = got.spec[i];
	}
	return 0;
}

struct target { int dir; uint64_t path; int flags; bool by_descriptor; };

/* Takes what the target is; then the arguments that follow it. */
static int change(const struct ask *a, const struct target *t, uint64_t x, uint64_t y)
{
	struct timespec times[2];
	int nr = a->notif->data.nr, rc;

	if (t->flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	int fd = t->by_descriptor ? open_descriptor(a, t->dir) : open_named(a, t->dir, t->path, t->flags);
	if (fd < 0)
		return fd;
	switch (nr) {
#if defined(__x86_64__)
	case SYS_chmod:
#endif
	case SYS_fchmod: case SYS_fchmodat: case SYS_fchmodat2:
		rc = set_mode(a, fd, x);
		break;
#if defined(__x86_64__)
	case SYS_chown: case SYS_lchown:
#endif
	case SYS_fchown: case SYS_fchownat:
		rc = set_owner(a, fd, x, y);
		break;
	default:
		rc = x ? read_times(a, nr, x, times) : 0;
		rc = rc ? rc : set_times(a, fd, x ? times : NULL);
		break;
	}
	close(fd);
	return rc;
}

/* --- sockets */

/* The process of a thread: descriptors are got from processes. */
static pid_t process_of(const struct ask *a)
{
	char text[4096];
	int fd = open_proc(a, "status", O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	const char *at = strstr(text, "\nTgid:");
	return at ? (pid_t)strtol(at + strlen("\nTgid:"), NULL, 10) : -1;
}

static bool is_bound(const struct sandbox_policy *p, int fd)
{
	union { struct sockaddr any; struct sockaddr_in in; struct sockaddr_in6 in6; } name = { .any.sa_family = 0 };
	socklen_t len = sizeof(name);
	bool ip = getsockname(fd, &name.any, &len) == 0 &&
		  (name.any.sa_family == AF_INET || name.any.sa_family == AF_INET6);
	/* It lies at the same place in both. */
	uint16_t port = ip ? ntohs(name.in.sin_port) : 0;

	for (size_t i = 0; i < p->nbind; i++) {
		if (port != 0 && port == p->bind_ports[i])
			return true;
	}
	return false;
}

/* Who looks at another's descriptors has his user, as the real one, or may trace anybody.  Meanwhile the tool could
 * signal us but for its filter, which asks us, and for Landlock. */
static int get_descriptor(const struct ask *a, int pidfd, int n)
{
	const uid_t same = (uid_t)-1;
	uid_t our_user = getuid();
	gid_t our_group = getgid();
	bool wears = a->s->user && syscall(SYS_setresgid, a->s->group, same, same) == 0 &&
		     syscall(SYS_setresuid, a->s->user, same, same) == 0;
	int fd = !a->s->user || wears ? pidfd_getfd(pidfd, n, 0) : -1;

	if (a->s->user && (syscall(SYS_setresuid, our_user, same, same) || syscall(SYS_setresgid, our_group, same, same)))
		_exit(EXIT_FAILURE);            /* the launcher ends what is left of the tool */
	return fd;
}

/* Only what bind() has brought past Landlock listens. */
static int start_listening(const struct ask *a)
{
	int pidfd = pidfd_open(process_of(a), 0);
	int fd = pidfd < 0 ? -1 : get_descriptor(a, pidfd, (int)a->notif->data.args[0]);
	int rc = fd < 0 || !is_alive(a) || !is_bound(a->policy, fd) ? -EPERM : 0;

	if (rc == 0 && listen(fd, (int)a->notif->data.args[1]))
		rc = -errno;
	if (fd >= 0)
		close(fd);
	if (pidfd >= 0)
		close(pidfd);
	return rc;
}

/* --- the face */

int attributes_answer(const struct supervisor *s, const struct sandbox_policy *p, const struct seccomp_notif *notif,
		      int notify_fd)
{
	const struct ask a = { s, p, notif, notify_fd };
	const __u64 *arg = notif->data.args;
	int fd = (int)arg[0];

	switch (notif->data.nr) {
	case SYS_listen:
		return start_listening(&a);
	case SYS_fchmod:
	case SYS_fchown:
		return change(&a, &(struct target){ fd, 0, 0, true }, arg[1], arg[2]);
	case SYS_fchmodat:
		return change(&a, &(struct target){ fd, arg[1], 0, false }, arg[2], 0);
	case SYS_fchmodat2:
		return change(&a, &(struct target){ fd, arg[1], (int)arg[3], false }, arg[2], 0);
	case SYS_fchownat:
		return change(&a, &(struct target){ fd, arg[1], (int)arg[4], false }, arg[2], arg[3]);
	case SYS_utimensat:
		return change(&a, &(struct target){ fd, arg[1], (int)arg[3], arg[1] == 0 }, arg[2], 0);
#if defined(__x86_64__)
	case SYS_chmod:
	case SYS_chown:
	case SYS_utime:
	case SYS_utimes:
		return change(&a, &(struct target){ AT_FDCWD, arg[0], 0, false }, arg[1], arg[2]);
	case SYS_lchown:
		return change(&a, &(struct target){ AT_FDCWD, arg[0], AT_SYMLINK_NOFOLLOW, false }, arg[1], arg[2]);
	case SYS_futimesat:
		return change(&a, &(struct target){ fd, arg[1], 0, arg[1] == 0 }, arg[2], 0);
#endif
	default:
		return -EPERM;
	}
}
