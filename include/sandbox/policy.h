#ifndef SANDBOX_POLICY_H
#define SANDBOX_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sandbox/level.h"

/* What toolcrib-run does to become one tool.  The server encodes it to bytes and hands them over by
 * descriptor 3, a socket; the launcher decodes them strictly: length-prefixed, bounded, no trailing bytes.
 *
 * What comes back on descriptor 3: SANDBOX_READY, the level reached and a newline once the sandbox stands and only the
 * exec is left; when a step or the exec fails, "STEP: reason" as text (SEC S-502); while the tool runs SANDBOX_SIZE,
 * the bytes of its own directory and a newline, whenever they have changed; last SANDBOX_USAGE and what the tool has
 * used, "CPU_US RSS_KIB" and a newline.  The end of the server's side of the socket ends the tool and all that it has
 * started (SEC S-B15). */

#define SANDBOX_POLICY_MAX (256u << 10)     /* bytes of an encoded policy */
#define SANDBOX_ARGS_MAX 256
#define SANDBOX_ENV_MAX 128
#define SANDBOX_PATHS_MAX 64                /* of each list of paths */
#define SANDBOX_HIDE_MAX 256                /* of that of hidden ones: SANDBOX_ARGS_MAX is what a list can have */
#define SANDBOX_PORTS_MAX 64                /* of each list of ports */
#define SANDBOX_HEAD_SIZE 8                 /* magic and length of the rest: what is read first */
#define SANDBOX_FD 3
#define SANDBOX_USERS_FD 4                  /* of the launcher's, where tools' users are in a namespace */
#define SANDBOX_SHA256_TEXT 65              /* bytes of a digest's text with its NUL */
#define SANDBOX_READY '+'
#define SANDBOX_USAGE "\n="                 /* no reason holds a newline */
#define SANDBOX_SIZE "\n~"
#define SANDBOX_REPORT_MAX 512              /* bytes of a report */

enum sandbox_net {
	SANDBOX_NET_NONE,                   /* no sockets but pairs */
	SANDBOX_NET_PORTS,                  /* TCP to and from the listed ports; needs Landlock 4 */
	SANDBOX_NET_ANY,                    /* IPv4 and IPv6 */
};

struct sandbox_policy {
	const char *program;            /* absolute path */
	const char *const *argv;        /* NULL-terminated, argv[0] first */
	const char *const *env;         /* NULL-terminated "K=V"; nothing is inherited */
	const char *cwd;                /* absolute; NULL = the own directory, without one "/" */
	const char *scratch;            /* absolute: an own directory is made in it, $HOME and $TMPDIR unless env has
					 * them, and removed at the end; NULL = none */
	const char *bwrap;              /* with level.ns, else NULL: absolute, the program of bubblewrap */
	const char *sha256;             /* of the program, which does not run when it has another; NULL = any */
	const char *cgroup;             /* with level.cgroup, else NULL: absolute, one for the tool is made in it */
	uint64_t cpu_s;                 /* RLIMIT_CPU; 0 = inherited */
	uint64_t memory_bytes;          /* RLIMIT_AS, and memory.max of the cgroup; 0 = inherited */
	uint64_t file_bytes;            /* RLIMIT_FSIZE */
	uint64_t open_files;            /* RLIMIT_NOFILE */
	uint64_t processes;             /* processes and threads of the whole tree; 0 = any number */
	uint64_t scratch_bytes;         /* of the own directory, which is counted so far; 0 = it is not counted */
	struct sandbox_level level;         /* the layers to put on; what does not hold is a refusal */
	/* With level.landlock; NULL-terminated, NULL = empty.  Absolute paths; beside them what every program needs. */
	const char *const *read;        /* to be read and executed; must exist */
	const char *const *write;       /* also to be written; must exist */
	const char *const *files;       /* to be read where they are regular files */
	const char *const *hide;        /* never visible, whatever the others say */
	enum sandbox_net net;               /* with level.seccomp, else any */
	const uint16_t *connect_ports; size_t nconnect; /* SANDBOX_NET_PORTS */
	const uint16_t *bind_ports; size_t nbind;
	bool udp;                       /* SANDBOX_NET_PORTS: UDP as well, to any port */
};

/* May what it starts read this absolute path, by its lists and what every program reads?  *ret_hidden: no list can
 * allow it.  By name: links are not followed, and nothing is looked at. */
bool sandbox_policy_reads(const struct sandbox_policy *p, const char *path, bool *ret_hidden);
/* The same of changing it and, where it is a directory, of making files in it.  *ret_closed: no list can allow it,
 * because what no tool may see lies in it, or it in that. */
bool sandbox_policy_writes(const struct sandbox_policy *p, const char *path, bool *ret_closed);
/* 64 digits, small letters. */
bool sandbox_sha256_valid(const char *text);
struct str;
/* ERR_INVALID, ERR_LIMIT; where names the member. */
int sandbox_policy_encode(const struct sandbox_policy *p, struct str *out, struct err *err) MUST_CHECK;
/* The number of bytes that follow a head; ERR_INVALID, ERR_LIMIT. */
int sandbox_policy_head(const void *head, size_t *ret_len, struct err *err) MUST_CHECK;
/* Decode head and rest into one block: *ret points into itself; free() it. */
int sandbox_policy_decode(const void *p, size_t len, struct sandbox_policy **ret, struct err *err) MUST_CHECK;

#endif
