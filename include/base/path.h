#ifndef BASE_PATH_H
#define BASE_PATH_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct str;

/* Whatever configuration, a document or an administrator's option names is opened by one of these: regular files only,
 * and at once.  A FIFO, a device, a socket or a directory is refused, not waited for (HARDENING F-11).  Where nothing
 * else is said: ERR_UNREACHABLE, ERR_LIMIT above max bytes; where = path. */
enum path_how {
	PATH_SECRET = 1,        /* nobody else may read or change it but its group read it, and it belongs to root or to us,
				 * unless we are root; else ERR_DENIED */
	PATH_PRIVATE = 2,       /* the same, and its group may not read it either */
	PATH_APPEND = 4,        /* for writing at its end; made (0644) when it is missing; no link */
	PATH_NO_LINK = 8,       /* not what a link leads to: ERR_UNREACHABLE */
};
/* What a peer of ours has opened for us, because we may not (HARDENING 1.3): on this thread, until the next call, the
 * functions here that open a file, or make one, take the descriptor that stands beside its path.  One to be made is
 * empty; it stays there when that fails, empty, and is its owner's to remove.  Borrowed. */
struct path_lent { char *path; int fd; };
void path_lend(const struct path_lent *list, size_t n);
/* A descriptor of one's own, at the file's beginning; -1: it is not lent. */
int path_borrow(const char *path);
/* What is said beside "permission denied" from now on; static, NULL = nothing. */
void path_set_rule(const char *rule);
int path_open(const char *path, unsigned how, size_t max, int *ret_fd, struct err *err) MUST_CHECK;
int path_open_stream(const char *path, FILE **ret, struct err *err) MUST_CHECK;        /* for reading, of any size */
/* What path is, if it is anything: for libraries that open by name. */
int path_is_file(const char *path, struct err *err) MUST_CHECK;
/* Read a whole file of at most max bytes, behind what is in ret. */
int path_read(const char *path, size_t max, struct str *ret, struct err *err) MUST_CHECK;
int path_read_as(const char *path, unsigned how, size_t max, struct str *ret, struct err *err) MUST_CHECK;
/* For commands alone, of what the person at the terminal hands over: a pipe may be it, and "-" is standard input. */
int path_read_input(const char *path, size_t max, struct str *ret, struct err *err) MUST_CHECK;
/* Write a new file of this mode, fsync it and its directory.  ERR_CONFLICT when it exists. */
int path_create(const char *path, unsigned mode, const void *p, size_t n, struct err *err) MUST_CHECK;
/* Make all that was written to the file system of dir durable: many files at once. */
int path_sync_all(const char *dir, struct err *err) MUST_CHECK;
/* path_create() over what is there: written beside it, then renamed, so that either content is whole at any moment. */
int path_replace(const char *path, unsigned mode, const void *p, size_t n, struct err *err) MUST_CHECK;
/* Its halves: the new content is whole, under another name; it is in its place. */
int path_prepare(const char *path, unsigned mode, const void *p, size_t n, struct err *err) MUST_CHECK;
int path_put_in_place(const char *path, struct err *err) MUST_CHECK;
/* A file without a name in dir's file system, to read and write: what is in it goes with its last descriptor.  The
 * descriptor, which is the caller's, or -1 and errno. */
int path_nameless(const char *dir);
/* A new, empty file (0600) to read and write.  *ret_lent: it was lent, and its owner makes its name durable. */
int path_make(const char *path, int *ret_fd, bool *ret_lent, struct err *err) MUST_CHECK;
/* What was made and failed: half a file is worse than none. */
void path_unmake(const char *path);
/* A directory of ours with all that is below it; links are removed, not followed.  What cannot go stays. */
void path_remove_tree(const char *dir);
/* Make the name of a new file durable: fsync() of the directory that holds it.  ERR_IO; where = the directory. */
int path_sync_parent(const char *path, struct err *err) MUST_CHECK;
/* Make all missing parts; existing ones are fine. */
int path_mkdirs(const char *path, unsigned mode, struct err *err) MUST_CHECK;
bool path_exists(const char *path);
/* Absolute, and each part a name: "/a/b", no "/", "/a/", "/a//b", "/a/../b". */
bool path_is_plain(const char *path, size_t len);
/* The default store directory: $TOOLCRIB_STORE, else /var/lib/toolcrib for root, else
 * $XDG_STATE_HOME/toolcrib, else $HOME/.local/state/toolcrib.  free() it.  ERR_INVALID without HOME. */
int path_default_store(char **ret, struct err *err) MUST_CHECK;
char *path_join(const char *dir, const char *name);             /* free() it */
/* Where a program of this package is: $VARIABLE (tests), beside the running program (build tree), else LIBEXECDIR.
 * free() it. */
char *path_program(const char *name, const char *variable);
/* An absolute path without resolving links; free() it. */
char *path_absolute(const char *path);

#endif
