#ifndef SANDBOX_FILTER_H
#define SANDBOX_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* A filter on system calls, made from one table of all that this release knows (src/sandbox/filter.c): for the tools,
 * and for any program of this package that wants to confine itself.
 *
 * The table puts each call into a group.  A filter names the groups that it allows, and rows of its own, which come
 * first: what no row decides is allowed when its group is, is EPERM when it is of another group or known as dangerous,
 * and ENOSYS when the table does not have it: it is newer than the table, and libraries then take what came before.
 * clone3 is ENOSYS for all, because its flags are where no filter can look.  Numbers of another architecture kill.
 *
 *	static const struct filter_row rows[] = {
 *		{ SYS_ioctl, FILTER_REFUSE, 0, { 1, FILTER_IS_NOT, FILTER_ALL, FIONREAD }, { 0 } },
 *	};
 *	const struct filter f = { .groups = FILTER_CORE | FILTER_FILES, .rows = rows, .nrows = NELEMS(rows) };
 *	rc = filter_put_on(&f, NULL, &err);
 *
 * Put it on last: it is for ever, for this thread and what it starts.  Any thread; asks nobody
 * and allocates nothing. */

enum filter_group {
	FILTER_CORE = 1 << 0,           /* memory, time, what is open, waiting, own signals, own limits, exit, sync */
	FILTER_THREADS = 1 << 1,        /* new threads of this process, no processes */
	FILTER_FILES = 1 << 2,          /* open, look, make, rename and remove by name */
	FILTER_MODES = 1 << 3,          /* modes, owners, times, attributes */
	FILTER_WATCH = 1 << 4,          /* inotify */
	FILTER_NET = 1 << 5,            /* sockets; what is done with one that is open is CORE */
	FILTER_START = 1 << 6,          /* processes: fork, exec, wait, groups and sessions */
	FILTER_SIGNALS = 1 << 7,        /* to any process */
	FILTER_SCHED = 1 << 8,          /* priorities, processors and limits, of others too; locked memory */
	FILTER_USERS = 1 << 9,          /* user, groups, capabilities */
	FILTER_MEMFD = 1 << 10,         /* memory that no limit of a process counts */
	FILTER_CONFINE = 1 << 11,       /* further filters, Landlock */
};

enum filter_action {
	FILTER_REFUSE,                  /* EPERM */
	FILTER_ALLOW,
	FILTER_ABSENT,                  /* ENOSYS */
	FILTER_UNSUPPORTED,             /* EOPNOTSUPP */
	FILTER_ASK,                     /* whoever has the listener decides */
};
enum filter_op { FILTER_NONE, FILTER_IS, FILTER_IS_NOT, FILTER_HAS };   /* (argument & mask) ==, !=, & value */
#define FILTER_ALL 0xffffffffu                  /* the mask of a whole argument */

/* Of arguments the lower 32 bits are compared, because that is what the kernel looks at where they are ints and flags:
 * never compare pointers or sizes. */
struct filter_cond { unsigned char arg, op; unsigned mask, value; };
/* The first row of a call whose conditions hold decides.  when: 0, or bits of which one must be in filter.when. */
struct filter_row { int nr; enum filter_action action; unsigned when; struct filter_cond a, b; };

struct filter {
	unsigned groups;                /* enum filter_group, or-ed */
	const struct filter_row *rows; size_t nrows;
	unsigned when;
	bool all_threads;               /* also those that run already; then no row may ask */
};

/* Can this kernel do all of it, on this architecture? */
bool filter_available(void);
/* Needs no_new_privs, or CAP_SYS_ADMIN.  *ret_listener is set when a row asks, else left alone; NULL: none does.
 * ERR_IO: the kernel does not; ERR_LIMIT: too many rows. */
int filter_put_on(const struct filter *f, int *ret_listener, struct err *err) MUST_CHECK;
/* For a program of this package that reads what others wrote: it works on what is open, and on files by name, which
 * Landlock looks at, and gets no new code; and these groups.  Nothing where there are no filters, or in a build with a
 * sanitizer.  ERR_IO. */
int filter_reader(unsigned groups, struct err *err) MUST_CHECK;

#endif
