#ifndef SANDBOX_CGROUP_H
#define SANDBOX_CGROUP_H

/* Cgroups (v2) of tools: one for each process that is started, so that its limits hold for all of its children together
 * and one write ends them all (SEC S-510, S-513).  A server gets a place for them from a service manager (Delegate= in
 * systemd) or a container, and takes it at its start, while it has one thread; the launcher makes the cgroup of its
 * tool there. */

/* Take the cgroup that this process is alone in: it moves to the leaf "server", and those of tools are made beside it.
 * Returns the cgroup's directory, free() it; NULL: *ret_why is for the log, and nothing is changed. */
char *sandbox_cgroup_claim(const char **ret_why);

#endif
