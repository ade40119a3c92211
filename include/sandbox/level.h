#ifndef SANDBOX_LEVEL_H
#define SANDBOX_LEVEL_H

#include <stdbool.h>
#include <stddef.h>

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

/* --- Landlock for a program of this package itself */

enum places_may {
	PLACES_READ = 1,
	PLACES_WRITE = 2,               /* all that is done with files, directories and sockets, and read */
	PLACES_APPEND = 4,              /* files are written and made, none removed or read */
	PLACES_SOCKETS = 8,             /* sockets are made and removed */
};
struct confine_place { const char *path; unsigned may; };
/* From here on this thread, and what it starts, opens by name nothing but what libraries read, and what lies at or
 * below these places as they say; one that is not there is passed over.  It executes nothing.  Needs no_new_privs.
 * abi: as of sandbox_level_probe(), or less; 0 = nothing is done.  ERR_IO. */
int places_confine(const struct confine_place *places, size_t n, unsigned abi, struct err *err) MUST_CHECK;
/* The same without what libraries read: these places alone. */
int places_only(const struct confine_place *places, size_t n, unsigned abi, struct err *err) MUST_CHECK;

#endif
