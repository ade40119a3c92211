#ifndef SANDBOX_INT_H
#define SANDBOX_INT_H

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct sandbox_policy;

/* The steps of the launcher, in the order of SEC S-502.  Each fills *err with the step's name as where
 * and the system's reason as text. */
int confine_limits(const struct sandbox_policy *p, struct err *err) MUST_CHECK;
/* The last of the limits, because the steps between need memory themselves. */
int confine_memory(const struct sandbox_policy *p, struct err *err) MUST_CHECK;
/* A session of its own, and death with the supervisor. */
int confine_parent(pid_t supervisor, struct err *err) MUST_CHECK;
/* No capabilities, and none to gain. */
int confine_privileges(struct err *err) MUST_CHECK;
/* The program, checked: *ret_fd is CLOEXEC and good for fexecve() only. */
int confine_open(const struct sandbox_policy *p, int *ret_fd, struct err *err) MUST_CHECK;
/* The same, checked before: inside, owners have other numbers. */
int confine_reopen(const struct sandbox_policy *p, int *ret_fd, struct err *err) MUST_CHECK;
/* Everything from SANDBOX_FD + 1 on is closed, except these two, which lie there. */
int confine_descriptors(int keep_fd, int also_fd, struct err *err) MUST_CHECK;

/* landlock.c: the ABI whose rules hold here, at most SANDBOX_LANDLOCK_MAX; 0 = no Landlock. */
unsigned landlock_abi(void);
/* own_dir: NULL = none. */
int landlock_confine(const struct sandbox_policy *p, const char *own_dir, struct err *err) MUST_CHECK;

/* The i-th path that every program may read, as long as there is one. */
const char *landlock_everywhere(size_t i);
/* Is path inside dir, or dir itself?  Both without links. */
bool sandbox_is_below(const char *path, const char *dir);

/* From here on this process reaches with signals only what it starts; true when that is certain (ABI 6). */
bool landlock_gather(void);

/* filter.c */
bool filter_available(void);
/* *ret_listener is set when the supervisor is asked about some calls. */
int filter_confine(const struct sandbox_policy *p, int *ret_listener, struct err *err) MUST_CHECK;

/* bwrap.c: become bubblewrap, which starts this program again in namespaces: with SANDBOX_INSIDE and the own directory as its
 * words, the instructions and the supervisor's channel in these descriptors, and SANDBOX_FD.  chan: the channel.  Returns when
 * it has failed. */
#define SANDBOX_INSIDE "--inside"
#define SANDBOX_INSIDE_CHAN_FD 4
#define SANDBOX_INSIDE_POLICY_FD 5
int bwrap_become(const struct sandbox_policy *p, const char *own_dir, int chan, struct err *err) MUST_CHECK;

/* own_dir.c: a directory for one tool.  *ret is its path; free() it. */
int own_dir_make(const char *parent, char **ret, struct err *err) MUST_CHECK;
/* With everything in it, whatever the tool has made of it; nobody else may be at work there. */
void own_dir_remove(const char *path);

/* cgroup.c: a cgroup for one tool, bounded as the policy says.  *ret is its directory; free() it. */
int cgroup_make(const struct sandbox_policy *p, char **ret, struct err *err) MUST_CHECK;
/* This process, and all that it starts, is in it. */
int cgroup_enter(const char *dir, struct err *err) MUST_CHECK;
/* The number behind name at the start of a line, "max " of pids.events; 0 when there is none. */
uint64_t cgroup_value(const char *dir, const char *file, const char *name);
void cgroup_kill(const char *dir);
/* Nobody may be in it any more. */
void cgroup_remove(const char *dir);

/* What bounds the tree: bubblewrap's own two processes count as well. */
uint64_t sandbox_processes(const struct sandbox_policy *p);

/* supervise.c */
struct supervisor {
	int signal_fd, timer_fd, children_fd;
	bool gathered;
	char *cgroup;                   /* of the tool; NULL = none */
};
/* Before the tool is started: from here on signals wait, and orphans come to us. */
int supervise_prepare(const struct sandbox_policy *p, struct supervisor *ret, struct err *err) MUST_CHECK;
/* Stay with the tool until it and all that it has started are dead, which is when it ends or the server closes its
 * side of SANDBOX_FD.  listener_fd: where the tool sends its filter's listener; taken.  Returns the tool's status as from
 * waitpid(). */
int supervise(const struct supervisor *s, const struct sandbox_policy *p, pid_t tool, int listener_fd);

#endif
