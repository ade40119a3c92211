#ifndef EV_CHILD_H
#define EV_CHILD_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ev_loop;
struct ev_child;
struct launcher_uids;
struct sandbox_policy;

/* Start the launcher of this loop (launcher/launcher.h): before the first thread, before a stranger's byte is read.
 * Without this the first start of a program does it, with no users for tools.  uids may be NULL. 
 * As launcher_open(). */
int ev_launcher_open(struct ev_loop *loop, const struct launcher_uids *uids, struct err *err) MUST_CHECK;
/* As launcher_has_users(), of a loop that has a launcher. */
bool ev_launcher_has_users(const struct ev_loop *loop, const char **ret_how);

/* Processes of tools: the launcher starts toolcrib-run, which builds the sandbox that the policy describes and becomes
 * the tool (SEC S-501, S-502).  Loop thread only (SEC S-516). */
struct ev_child_req {
	const struct sandbox_policy *policy;  /* program, argv, environment, limits: by fd 3, never by argv */
	uint32_t number;                /* whose it is: of the range of users for tools; 0 = the server's own command */
	/* Once and last, not before ev_child_start() has returned; all processes of the group are dead.
	 * refused != NULL: the tool could not be started ("exec: No such file or directory")
	 * and nothing of it has run; else status as from waitid(): exit status, or -signal. */
	void (*ended)(void *arg, int status, const char *refused);
	void *arg;
};
/* The number of a tenant, whose ids the store never gives again; too large for a range is no number of it. */
static inline uint32_t ev_child_number(int64_t tenant_id)
{
	return tenant_id < 0 || tenant_id >= UINT32_MAX ? UINT32_MAX : (uint32_t)tenant_id;
}

/* What a child and all that it has started have used: processor time, and the most memory of one process or, in a
 * cgroup, of all together.  0 = nobody knows. */
struct ev_child_usage { uint64_t cpu_us, rss_kib; };

/* How many bytes own directories may hold, of one number and in all; 0 = any (HARDENING F-10).  Their supervisors count
 * them while they run.  Above a bound the child with the largest is ended, of this number or, in all, of the one that
 * has most. */
struct ev_child_bounds { uint64_t tenant, all; };
void ev_child_bound(struct ev_loop *loop, const struct ev_child_bounds *bounds);
/* What they hold of one number, until they are removed, and may hold. */
uint64_t ev_child_bytes(const struct ev_loop *loop, uint32_t number, uint64_t *ret_allowed);

/* ret_fds: our ends of the child's 0, 1, 2 (non-blocking, CLOEXEC); taken by the caller.  ERR_IO,
 * ERR_UNREACHABLE when the launcher is missing (where = its path) or gone; ERR_LIMIT: own directories of its number are
 * at their bound, and the words are for its caller. */
int ev_child_start(struct ev_loop *loop, const struct ev_child_req *req, int ret_fds[3], struct ev_child **ret,
		   struct err *err) MUST_CHECK;
/* TERM to the whole group now, KILL after term_ms (0: KILL at once).  ended() still comes. */
void ev_child_stop(struct ev_child *c, uint32_t term_ms);
/* In ended() alone. */
struct ev_child_usage ev_child_usage(const struct ev_child *c);
/* In ended() alone: why we have ended it, for its caller; NULL = we have not, or were asked to. */
const char *ev_child_why(const struct ev_child *c);
/* Kill and reap everything at exit; no ended() any more. */
void ev_child_kill_all(struct ev_loop *loop);

#endif
