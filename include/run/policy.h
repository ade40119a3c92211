#ifndef RUN_POLICY_H
#define RUN_POLICY_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* What toolcrib-run does to become one tool.  The server encodes it to bytes and hands them over by
 * descriptor 3; the launcher decodes them strictly: length-prefixed, bounded, no trailing bytes. */

#define RUN_POLICY_MAX (256u << 10)     /* bytes of an encoded policy */
#define RUN_ARGS_MAX 256
#define RUN_ENV_MAX 128

struct run_policy {
	const char *program;            /* absolute path */
	const char *const *argv;        /* NULL-terminated, argv[0] first */
	const char *const *env;         /* NULL-terminated "K=V"; nothing is inherited */
	const char *cwd;                /* absolute; NULL = "/" */
	uint64_t cpu_s;                 /* RLIMIT_CPU; 0 = inherited */
	uint64_t memory_bytes;          /* RLIMIT_AS; 0 = inherited */
	uint64_t file_bytes;            /* RLIMIT_FSIZE */
	uint64_t open_files;            /* RLIMIT_NOFILE */
	int64_t parent_pid;             /* the launcher ends itself when this is not its parent any more */
};

struct str;
int run_policy_encode(const struct run_policy *p, struct str *out, struct err *err) MUST_CHECK;
/* Decode into one block: *ret points into itself; free() it. */
int run_policy_decode(const void *p, size_t len, struct run_policy **ret, struct err *err) MUST_CHECK;

#endif
