/* kill -9 at a place that a test chooses, preloaded into the programs: the process dies before it tells the disk for the
 * TOOLCRIB_TEST_DIE-th time to keep what it wrote.  TOOLCRIB_TEST_FLUSHES: a file that gets a byte for each time.
 * TOOLCRIB_TEST_ROOM: bytes that every disk says it has.  While there is the file TOOLCRIB_TEST_HANG the disk keeps nothing
 * and does not answer; while there is TOOLCRIB_TEST_BAD it says that it failed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

static int is_there(const char *variable)
{
	const char *path = getenv(variable);

	return path && access(path, F_OK) == 0;
}

/* Negative: with errno. */
static int flush(void)
{
	static long times;
	const char *die = getenv("TOOLCRIB_TEST_DIE"), *path = getenv("TOOLCRIB_TEST_FLUSHES");
	int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;

	if (fd >= 0) {
		(void)!write(fd, ".", 1);
		(void)close(fd);
	}
	if (die && ++times == strtol(die, NULL, 10))
		(void)kill(getpid(), SIGKILL);
	while (is_there("TOOLCRIB_TEST_HANG"))
		(void)poll(NULL, 0, 5);
	errno = EIO;
	return is_there("TOOLCRIB_TEST_BAD") ? -1 : 0;
}

int fdatasync(int fd)
{
	return flush() < 0 ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
	return flush() < 0 ? -1 : (int)syscall(SYS_fsync, fd);
}

int statvfs(const char *restrict path, struct statvfs *restrict ret)
{
	const char *room = getenv("TOOLCRIB_TEST_ROOM");
	struct statfs fs;

	if (statfs(path, &fs) != 0)
		return -1;
	*ret = (struct statvfs){ .f_bsize = (unsigned long)fs.f_bsize, .f_frsize = (unsigned long)fs.f_frsize,
		.f_blocks = fs.f_blocks, .f_bfree = fs.f_bfree, .f_bavail = fs.f_bavail, .f_files = fs.f_files,
		.f_ffree = fs.f_ffree, .f_favail = fs.f_ffree, .f_namemax = (unsigned long)fs.f_namelen };
	if (room) {
		ret->f_frsize = 1;
		ret->f_blocks = ret->f_bfree = ret->f_bavail = strtoul(room, NULL, 10);
	}
	return 0;
}
