#ifndef KEYS_SECRETS_H
#define KEYS_SECRETS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Where secrets come from, as a run of a tool sees it: a definition says {secret:NAME}, and the value is asked for
 * here at the run.  The vault is one such source, tests bring their own.  Loop thread. */

struct secret_source {
	void *arg;
	/* A copy in memory of secret_alloc(), NUL-terminated, for the caller to secret_free(); len does not count the
	 * NUL.  ERR_NOT_FOUND: nobody has set it.  Others: it cannot be opened. */
	int (*open)(void *arg, const char *name, char **ret, size_t *ret_len, struct err *err);
	/* Moves whenever a value is set or removed: who keeps one longer than a run compares and starts afresh. */
	uint64_t (*version)(void *arg);
};

#endif
