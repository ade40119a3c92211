#ifndef TESTS_TMPDIR_H
#define TESTS_TMPDIR_H

/* A directory of the test's own, and what is in it, gone at the end. */

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline int tmpdir_unlink(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

static inline char *tmpdir_make(void)
{
	const char *base = getenv("TMPDIR");
	char path[512];

	snprintf(path, sizeof path, "%s/toolcrib-test-XXXXXX", base && *base ? base : "/tmp");
	return mkdtemp(path) ? strdup(path) : NULL;
}

static inline void tmpdir_remove(char *path)
{
	(void)nftw(path, tmpdir_unlink, 16, FTW_DEPTH | FTW_PHYS);
	free(path);
}

/* dir/name in a static buffer of the caller. */
static inline const char *tmpdir_path(const char *dir, const char *name, char *buf, size_t size)
{
	snprintf(buf, size, "%s/%s", dir, name);
	return buf;
}

#endif
