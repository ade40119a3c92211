#ifndef RUN_INT_H
#define RUN_INT_H

#include "base/err.h"

struct run_policy;

/* The steps of the launcher, in the order of SEC S-502.  Each fills *err with the step's name as where
 * and the system's reason as text. */
int confine_limits(const struct run_policy *p, struct err *err) MUST_CHECK;
int confine_parent(const struct run_policy *p, struct err *err) MUST_CHECK;
int confine_privileges(struct err *err) MUST_CHECK;
/* The program, checked: *ret_fd is CLOEXEC and good for fexecve() only. */
int confine_open(const struct run_policy *p, int *ret_fd, struct err *err) MUST_CHECK;
/* Everything from RUN_FD + 1 on is closed, except keep_fd. */
int confine_descriptors(int keep_fd, struct err *err) MUST_CHECK;

#endif
