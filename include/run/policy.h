#ifndef RUN_POLICY_H
#define RUN_POLICY_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* What toolcrib-run does to become one tool.  The server encodes it to bytes and hands them over by
 * descriptor 3, a socket; the launcher decodes them strictly: length-prefixed, bounded, no trailing bytes.
 *
 * What comes back on descriptor 3: RUN_READY once every limit holds and only the exec is left, and, when
 * a step or the exec fails, "STEP: reason" as text.  The descriptor is CLOEXEC, so RUN_READY and then
 * end of file mean that the tool runs (SEC S-502). */

#define RUN_POLICY_MAX (256u << 10)     /* bytes of an encoded policy */
#define RUN_ARGS_MAX 256
#define RUN_ENV_MAX 128
#define RUN_HEAD_SIZE 8                 /* magic and length of the rest: what is read first */
#define RUN_FD 3
#define RUN_READY '+'
#define RUN_REPORT_MAX 256              /* bytes of a report */

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
/* ERR_INVALID, ERR_LIMIT; where names the member. */
int run_policy_encode(const struct run_policy *p, struct str *out, struct err *err) MUST_CHECK;
/* The number of bytes that follow a head; ERR_INVALID, ERR_LIMIT. */
int run_policy_head(const void *head, size_t *ret_len, struct err *err) MUST_CHECK;
/* Decode head and rest into one block: *ret points into itself; free() it. */
int run_policy_decode(const void *p, size_t len, struct run_policy **ret, struct err *err) MUST_CHECK;

#endif
