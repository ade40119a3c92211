#ifndef SANDBOX_SANDBOX_H
#define SANDBOX_SANDBOX_H

#include "sandbox/level.h"

/* SEC S-518, HARDENING 1.1: without one of them a tool is one hole away from the store.  Before ABI 3 Landlock does not
 * see that a file is emptied. */
#define SANDBOX_REQUIRE_AUTO "auto"
#define SANDBOX_REQUIRE_USERS "base+uid"            /* what it means where tools have users of their own */
#define SANDBOX_REQUIRE_RULES "base+landlock:3"     /* and where they have not */

/* The sandbox: what confines every process that a tool or an upstream is.
 *
 *   level.h    how far, as text and as layers; what this kernel offers
 *   policy.h   instructions for one process, and what comes back
 *   filter.h   filters on system calls, for tools and for programs of this package
 *   cgroup.h   the server's place for cgroups
 *
 * Walk.  At its start the server probes the best level and fills struct sandbox.  For each process the exec room weighs
 * a definition's block against it and fills a policy; ev_child starts toolcrib-run and hands it the policy; that
 * program puts the layers on (limits, cgroup, bubblewrap, Landlock, the filter), executes the tool and stays beside it
 * as its supervisor until all of its processes are dead. */

/* What a server says about the sandboxes of all its tools; fixed at its start. */
struct sandbox {
	struct sandbox_level best;          /* sandbox_level_probe() */
	struct sandbox_level require;       /* a process that cannot reach this is not started */
	bool require_auto;                  /* nobody has said so: it follows from best */
	const char *const *hide;        /* paths that no tool sees; NULL-terminated */
	const char *scratch;            /* where the own directories of processes are made */
	const char *bwrap;              /* the program of bubblewrap; NULL = it is not used, and best says so */
	const char *cgroup;             /* where their cgroups are made; NULL = nowhere, and best says so */
};

#endif
