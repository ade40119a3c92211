#ifndef SANDBOX_SANDBOX_H
#define SANDBOX_SANDBOX_H

#include "sandbox/level.h"

#define SANDBOX_REQUIRE_DEFAULT "base+landlock:1"   /* SEC S-518: without it a tool can read the store */

/* What a server says about the sandboxes of all its tools; fixed at its start. */
struct sandbox {
	struct sandbox_level best;          /* sandbox_level_probe() */
	struct sandbox_level require;       /* a process that cannot reach this is not started */
	const char *const *hide;        /* paths that no tool sees; NULL-terminated */
	const char *scratch;            /* where the own directories of processes are made */
	const char *bwrap;              /* the program of bubblewrap; NULL = it is not used, and best says so */
	const char *cgroup;             /* where their cgroups are made; NULL = nowhere, and best says so */
};

#endif
