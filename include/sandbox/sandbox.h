#ifndef SANDBOX_SANDBOX_H
#define SANDBOX_SANDBOX_H

#include "sandbox/level.h"

#define RUN_REQUIRE_DEFAULT "base+landlock:1"   /* SEC S-518: without it a tool can read the store */

/* What a server says about the cages of all its tools; fixed at its start. */
struct run_cage {
	struct run_level best;          /* run_level_probe() */
	struct run_level require;       /* a process that cannot reach this is not started */
	const char *const *hide;        /* paths that no tool sees; NULL-terminated */
	const char *scratch;            /* where the own directories of processes are made */
	const char *bwrap;              /* the program of bubblewrap; NULL = it is not used, and best says so */
	const char *cgroup;             /* where their cgroups are made; NULL = nowhere, and best says so */
};

#endif
