/* A wall clock that a test has put back or on, preloaded into the programs: seconds in TOOLCRIB_TEST_SHIFT are added, or those
 * that stand in the file it names, so that the clock can be set while a program runs.  What is measured and waited for goes by
 * the other clocks. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long read_file(const char *path)
{
	char text[32] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	return n > 0 ? strtol(text, NULL, 10) : 0;
}

int clock_gettime(clockid_t id, struct timespec *ret)
{
	const char *shift = getenv("TOOLCRIB_TEST_SHIFT");
	int rc = (int)syscall(SYS_clock_gettime, id, ret);

	if (rc == 0 && id == CLOCK_REALTIME && shift)
		ret->tv_sec += *shift == '/' ? read_file(shift) : strtol(shift, NULL, 10);
	return rc;
}
