#ifndef SANDBOX_INT_H
#define SANDBOX_INT_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "sandbox/policy.h"

/* --- level.c: Landlock */

/* own_dir: NULL = none. */
int landlock_confine(const struct sandbox_policy *p, const char *own_dir, struct err *err) MUST_CHECK;

/* The i-th path that every program may read, as long as there is one. */
const char *landlock_everywhere(size_t i);
/* Is path inside dir, or dir itself?  Both without links. */
bool sandbox_is_below(const char *path, const char *dir);

/* --- tool_filter.c */

/* *ret_listener is set when the supervisor is asked about some calls. */
int filter_confine(const struct sandbox_policy *p, int *ret_listener, struct err *err) MUST_CHECK;

/* --- bwrap.c */

/* What it starts is this program again, with these words and descriptors. */
#define SANDBOX_INSIDE "--inside"
#define SANDBOX_INSIDE_CHAN_FD 4
#define SANDBOX_INSIDE_POLICY_FD 5
#define SANDBOX_INSIDE_PROGRAM_FD 6     /* what was checked, to be compared */
/* own_dir: NULL = none.  chan, program: descriptors.  Does not return but for an error. */
int bwrap_become(const struct sandbox_policy *p, const char *own_dir, int chan, int program,
		 struct err *err) MUST_CHECK;

/* --- cgroup.c */

/* A cgroup for one tool, bounded as the policy says.  *ret is its directory; free() it. */
int cgroup_make(const struct sandbox_policy *p, char **ret, struct err *err) MUST_CHECK;
/* This process, and all that it starts, is in it. */
int cgroup_enter(const char *dir, struct err *err) MUST_CHECK;
/* The number behind name at the start of a line, "max " of pids.events; 0 when there is none. */
uint64_t cgroup_value(const char *dir, const char *file, const char *name);
void cgroup_kill(const char *dir);
/* Nobody may be in it any more. */
void cgroup_remove(const char *dir);

/* --- policy.c */

/* What bounds the tree: bubblewrap's own two processes count as well. */
uint64_t sandbox_processes(const struct sandbox_policy *p);

/* --- attributes.c */

struct supervisor;
struct seccomp_notif;
/* Do what the tool has asked for, where it may: what its call returns, 0 or a negative errno. */
int attributes_answer(const struct supervisor *s, const struct sandbox_policy *p, const struct seccomp_notif *notif,
		      int notify_fd);

/* --- supervise.c */

struct supervisor {
	int signal_fd, timer_fd, children_fd;
	char *writable[SANDBOX_PATHS_MAX + 2];  /* without links; of the tool; NULL-terminated */
	bool gathered;
	char *cgroup;                   /* of the tool; NULL = none */
	const char *own_dir;            /* of the tool; NULL = none */
	int (*become_user)(struct err *err);    /* the tool's, for ever */
	uid_t user; gid_t group;        /* the same by number; 0 = ours, or one of a namespace in which we may all */
};
/* Before the tool is started: from here on signals wait, and orphans come to us. */
int supervise_prepare(const struct sandbox_policy *p, struct supervisor *ret, struct err *err) MUST_CHECK;
/* Stay with the tool until it and all that it has started are dead, which is when it ends or the server closes its
 * side of SANDBOX_FD.  listener_fd: where the tool sends its filter's listener; taken.  Returns the tool's status as
 * from waitpid(). */
int supervise(const struct supervisor *s, const struct sandbox_policy *p, pid_t tool, int listener_fd);

#endif
