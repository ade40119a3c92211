/* Crash points of test builds. */

#include "config.h"

#include "base/mem.h"

#ifdef CRASH_POINTS
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void crash_at(const char *name)
{
	static _Atomic unsigned long passed;
	const char *at = getenv("TOOLCRIB_CRASH_AT");
	size_t len = strlen(name);

	if (!at || strncmp(at, name, len) != 0 || (at[len] && at[len] != ':'))
		return;
	if (++passed >= (at[len] ? strtoul(at + len + 1, NULL, 10) : 1))
		_exit(137);
}
#else
typedef int nothing_here;       /* a file may not be empty */
#endif
