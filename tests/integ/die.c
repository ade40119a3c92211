/* kill -9 at a place that a test chooses, preloaded into the programs: the process dies before it tells the disk for the
 * TOOLCRIB_TEST_DIE-th time to keep what it wrote.  TOOLCRIB_TEST_FLUSHES: a file that gets a byte for each time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void flush(void)
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
}

int fdatasync(int fd)
{
	flush();
	return (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
	flush();
	return (int)syscall(SYS_fsync, fd);
}
