#ifndef REVIEW_REPORTS_H
#define REVIEW_REPORTS_H

#include <stddef.h>
#include <stdint.h>

#include "report/question.h"

/* The reporters of a server: a process for each report that is asked for (SCALE D4), so many at once, and some that
 * wait for their turn.  What follows a log without an end has its place beside them.  Loop thread. */

struct ev_loop;
struct reports;

#define REPORTS_AT_ONCE 2               /* without a configuration */
#define REPORTS_AT_ONCE_MAX 8
#define REPORTS_WAIT_MAX 8              /* further ones; the next is told that it is busy, unless it says wait */
#define REPORTS_FOLLOW_MAX 16           /* that follow */
#define REPORT_MEMORY_MIB 192
#define REPORT_TEMP_MIB 1024

struct reports_opt {
	const char *store;              /* copied */
	unsigned at_once;
	struct report_bounds bounds;    /* scratch is made in the store */
};
struct reports *reports_new(struct ev_loop *loop, const struct reports_opt *opt);
/* NULL: nothing.  All of them end, as their second records say; none begins any more. */
void reports_stop(struct reports *r);
/* After commands_free(). */
void reports_free(struct reports **r);

#endif
