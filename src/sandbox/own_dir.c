/* The directory of one tool: made before it starts, removed when all its processes are dead (SEC S-507). */
#include "config.h"

#include "sandbox_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

int own_dir_make(const char *parent, char **ret, struct err *err)
{
	char *path = mem_printf("%s/toolcrib-XXXXXX", parent);
	if (!mkdtemp(path)) {           /* mode 0700 */
		int rc = err_set(err, ERR_IO, "own directory", "%.100s: %s", parent, strerror(errno));
		free(path);
		return rc;
	}
	*ret = path;
	return 0;
}

/* Take away what forbids to look into a directory or to move it.  False: it is none.  Nobody can put a link in its
 * place meanwhile. */
static bool make_open(int parent, const char *name)
{
	struct stat st;
	return fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
	       fchmodat(parent, name, S_IRWXU, 0) == 0;
}

static DIR *open_dir(int parent, const char *name)
{
	if (!make_open(parent, name))
		return NULL;
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d && fd >= 0)
		close(fd);
	return d;
}

static bool is_entry(const struct dirent *e)
{
	return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

/* A directory that moves changes its "..": it has to be writable itself. */
static bool move_up(int from, const char *name, int top, unsigned *count)
{
	char moved[24];
	if (!make_open(from, name))
		return false;
	do
		snprintf(moved, sizeof(moved), "%u", ++*count);
	while (renameat2(from, name, top, moved, RENAME_NOREPLACE) && errno == EEXIST);
	return faccessat(from, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
}

/* Empty the directory `name` of top: what is no directory goes, directories move up into top under new names, so that
 * no depth of theirs needs depth of ours.  False when nothing could be done. */
static bool flatten(int top, const char *name, unsigned *count)
{
	DIR *d = open_dir(top, name);
	bool progress = false;
	if (!d)
		return false;
	for (struct dirent *e; (e = readdir(d));) {
		if (is_entry(e) && (unlinkat(dirfd(d), e->d_name, 0) == 0 || move_up(dirfd(d), e->d_name, top, count)))
			progress = true;
	}
	closedir(d);
	return unlinkat(top, name, AT_REMOVEDIR) == 0 || progress;
}

void own_dir_remove(const char *path)
{
	unsigned count = 0;
	DIR *d = open_dir(AT_FDCWD, path);
	/* What moves up during a pass is seen by the next one at the latest. */
	for (bool progress = d != NULL; progress;) {
		progress = false;
		rewinddir(d);
		for (struct dirent *e; (e = readdir(d));) {
			if (is_entry(e) && (unlinkat(dirfd(d), e->d_name, 0) == 0 || flatten(dirfd(d), e->d_name, &count)))
				progress = true;
		}
	}
	if (d)
		closedir(d);
	(void)rmdir(path);      /* one that stays shows that something went wrong here */
}
