#ifndef SANDBOX_LEVEL_H
#define SANDBOX_LEVEL_H

#include <stdbool.h>

#include "base/err.h"

/* How far a tool's process is confined, as it stands in records (SEC S-510): "base", then the layers that take
 * effect, in this order:
 *
 *   +uid         another user than the server's, each tenant its own (launcher/launcher.h)
 *   +landlock:N  files by rules; N is the kernel's ABI as far as its rules are used: 3 truncation, 4 TCP ports,
 *                5 device ioctls, 6 signals and abstract sockets
 *   +seccomp     dangerous system calls refused, processes counted
 *   +net0        no sockets but pairs
 *   +ns          namespaces of bubblewrap: files, processes, IPC, user, and the network where there is none
 *   +cgroup      memory and processes bounded for the whole tree of processes, and all of it ended at once
 *
 * base is always there: no new privileges, no capabilities, limits, a closed environment, no descriptors. */

#define SANDBOX_LANDLOCK_MAX 6
#define SANDBOX_LANDLOCK_PORTS 4            /* from here on TCP ports can be listed */
#define SANDBOX_LEVEL_TEXT 64               /* bytes of a level's text with its NUL */

struct sandbox_level {
	unsigned landlock;              /* 0 = none */
	bool uid, seccomp, net0, ns, cgroup;
};

const char *sandbox_level_format(const struct sandbox_level *level, char ret[SANDBOX_LEVEL_TEXT]);
/* ERR_INVALID: another word, an unknown layer, or layers in another order. */
int sandbox_level_parse(const char *text, struct sandbox_level *ret, struct err *err) MUST_CHECK;
/* Has reached every layer of wanted? */
bool sandbox_level_meets(const struct sandbox_level *reached, const struct sandbox_level *wanted);
FOR_TESTS bool sandbox_level_equal(const struct sandbox_level *a, const struct sandbox_level *b);
/* Every layer of either. */
struct sandbox_level sandbox_level_both(const struct sandbox_level *a, const struct sandbox_level *b);
/* What this kernel offers to a program that does not need the network, but for cgroups, which are given, not had
 * (sandbox/cgroup.h), and for bubblewrap.  It asks, and changes nothing. */
struct sandbox_level sandbox_level_probe(void);

#endif
