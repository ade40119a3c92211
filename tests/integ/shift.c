/* A wall clock that a test has put back or on, preloaded into the programs: seconds in TOOLCRIB_TEST_SHIFT are added, or those
 * that stand in the file it names, so that the clock can be set while a program runs.  What is measured and waited for goes by
 * the other clocks; TOOLCRIB_TEST_LATER, the same way, moves those on as well, as if the program had run for so long: what the
 * kernel waits for comes in its own time, so that something has to wake the program.  TOOLCRIB_TEST_SYNC, the same way: 1 the kernel says that the clock is synchronised, 2 it is not, 0 the
 * kernel does not say. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timex.h>
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

static long number(const char *value)
{
	return *value == '/' ? read_file(value) : strtol(value, NULL, 10);
}

int clock_gettime(clockid_t id, struct timespec *ret)
{
	const char *shift = getenv("TOOLCRIB_TEST_SHIFT"), *later = getenv("TOOLCRIB_TEST_LATER");
	int rc = (int)syscall(SYS_clock_gettime, id, ret);

	if (rc == 0 && id == CLOCK_REALTIME && shift)
		ret->tv_sec += number(shift);
	if (rc == 0 && later && (id == CLOCK_REALTIME || id == CLOCK_MONOTONIC))
		ret->tv_sec += number(later);
	return rc;
}

int adjtimex(struct timex *tx)
{
	const char *sync = getenv("TOOLCRIB_TEST_SYNC");
	long state = sync ? number(sync) : 0;

	if (!sync)
		return (int)syscall(SYS_adjtimex, tx);
	memset(tx, 0, sizeof(*tx));
	tx->maxerror = state == 1 ? 12000 : 16000000;
	tx->status = state == 1 ? STA_PLL : STA_UNSYNC;
	if (state == 1 || state == 2)
		return state == 1 ? TIME_OK : TIME_ERROR;
	errno = EPERM;
	return -1;
}
