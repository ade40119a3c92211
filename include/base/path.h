#ifndef BASE_PATH_H
#define BASE_PATH_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct str;

/* Read a whole file of at most max bytes ("-" = stdin).  ERR_UNREACHABLE, ERR_LIMIT; where = path. */
int path_read(const char *path, size_t max, struct str *ret, struct err *err) MUST_CHECK;
/* Write a new file of this mode, fsync it and its directory.  ERR_CONFLICT when it exists. */
int path_create(const char *path, unsigned mode, const void *p, size_t n, struct err *err) MUST_CHECK;
/* The same over what is there: written beside it, then renamed, so that either content is whole at any moment. */
int path_replace(const char *path, unsigned mode, const void *p, size_t n, struct err *err) MUST_CHECK;
/* Its halves: the new content is whole, under another name; it is in its place. */
int path_prepare(const char *path, unsigned mode, const void *p, size_t n, struct err *err) MUST_CHECK;
int path_put_in_place(const char *path, struct err *err) MUST_CHECK;
/* Make the name of a new file durable: fsync() of the directory that holds it.  ERR_IO; where = the directory. */
int path_sync_parent(const char *path, struct err *err) MUST_CHECK;
/* Make all missing parts; existing ones are fine. */
int path_mkdirs(const char *path, unsigned mode, struct err *err) MUST_CHECK;
bool path_exists(const char *path);
/* The default store directory: $TOOLCRIB_STORE, else /var/lib/toolcrib for root, else
 * $XDG_STATE_HOME/toolcrib, else $HOME/.local/state/toolcrib.  free() it.  ERR_INVALID without HOME. */
int path_default_store(char **ret, struct err *err) MUST_CHECK;
char *path_join(const char *dir, const char *name);             /* free() it */
/* An absolute path without resolving links; free() it. */
char *path_absolute(const char *path);

#endif
