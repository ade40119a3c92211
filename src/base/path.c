/* Whole files, directories and default places. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"

static const char *rule;                /* set before there are threads */

void path_set_rule(const char *text)
{
	rule = text;
}

static void explain(struct err *err)
{
	if (rule && errno == EACCES)
		err_hint(err, "%s", rule);
}

/* Fill *err for the errno of a failed system call. */
static int fail(struct err *err, enum err_code code, const char *path, const char *what)
{
	int e = errno;

	(void)err_set(err, code, path, "cannot %s %s: %s", what, path, strerror(e));
	errno = e;
	explain(err);
	return code;
}

/* --- files that somebody has lent */

static _Thread_local const struct path_lent *lent;
static _Thread_local size_t nlent;

void path_lend(const struct path_lent *list, size_t n)
{
	lent = list;
	nlent = n;
}

int path_borrow(const char *path)
{
	for (size_t i = 0; i < nlent; i++) {
		if (strcmp(lent[i].path, path) == 0 && lseek(lent[i].fd, 0, SEEK_SET) == 0)
			return fcntl(lent[i].fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	}
	return -1;
}

void path_unmake(const char *path)
{
	int fd = path_borrow(path);

	if (fd < 0) {
		(void)unlink(path);
		return;
	}
	(void)!ftruncate(fd, 0);
	close(fd);
}

/* --- files that somebody named */

static int no_file(mode_t mode, const char *path, struct err *err)
{
	const char *what = S_ISDIR(mode) ? "directory" : S_ISFIFO(mode) ? "FIFO" : S_ISSOCK(mode) ? "socket" : "device";

	(void)err_set(err, ERR_UNREACHABLE, path, "%s is no file but a %s", path, what);
	err_hint(err, "name a regular file");
	return ERR_UNREACHABLE;
}

/* Whose it is counts as much as its mode: who owns a file may give himself any right to it. */
static int check_secret(const struct stat *st, unsigned how, const char *path, struct err *err)
{
	const mode_t others = how & PATH_PRIVATE ? S_IRWXG | S_IRWXO : S_IWGRP | S_IRWXO;
	uid_t me = geteuid();

	if (me != 0 && st->st_uid != 0 && st->st_uid != me) {
		(void)err_set(err, ERR_DENIED, path, "%s holds a secret and belongs to uid %u, neither to root nor to uid %u",
			      path, (unsigned)st->st_uid, (unsigned)me);
		err_hint(err, "chown it to the user that reads it");
		return ERR_DENIED;
	}
	if (!(st->st_mode & others))
		return 0;
	(void)err_set(err, ERR_DENIED, path, "%s holds a secret and others may use it: its mode is %03o", path,
		      st->st_mode & 0777u);
	err_hint(err, how & PATH_PRIVATE ? "chmod 600" : "chmod 600, or 640 with a group that only the server is in");
	return ERR_DENIED;
}

static int check_opened(int fd, unsigned how, const char *path, size_t max, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return fail(err, ERR_UNREACHABLE, path, "open");
	if (!S_ISREG(st.st_mode))
		return no_file(st.st_mode, path, err);
	if (st.st_size > 0 && (uintmax_t)st.st_size > max)
		return err_set(err, ERR_LIMIT, path, "%s is larger than %zu bytes", path, max);
	return how & (PATH_SECRET | PATH_PRIVATE) ? check_secret(&st, how, path, err) : 0;
}

int path_is_file(const char *path, struct err *err)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode) ? no_file(st.st_mode, path, err) : 0;
}

/* Looked at by name first, since opening alone can act: a device may rewind, a writer of a FIFO wakes.  What is put in
 * its place then does not block, and is found by its descriptor. */
int path_open(const char *path, unsigned how, size_t max, int *ret_fd, struct err *err)
{
	int flags = O_CLOEXEC | O_NOCTTY | O_NONBLOCK, fd = how ? -1 : path_borrow(path), rc = 0;

	if (fd < 0)
		rc = path_is_file(path, err);
	if (rc < 0)
		return rc;
	flags |= how & PATH_APPEND ? O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW : O_RDONLY;
	flags |= how & PATH_NO_LINK ? O_NOFOLLOW : 0;
	if (fd < 0)
		fd = open(path, flags, 0644);
	if (fd < 0 && errno == ELOOP && how & PATH_NO_LINK) {
		(void)err_set(err, ERR_UNREACHABLE, path, "%s is a link", path);
		err_hint(err, "name the file that it leads to");
		return ERR_UNREACHABLE;
	}
	if (fd < 0)
		return fail(err, ERR_UNREACHABLE, path, "open");
	rc = check_opened(fd, how, path, max, err);
	if (rc < 0)
		close(fd);
	else
		*ret_fd = fd;
	return rc;
}

int path_open_stream(const char *path, FILE **ret, struct err *err)
{
	int fd = -1, rc = path_open(path, 0, SIZE_MAX, &fd, err);
	FILE *f;

	if (rc < 0)
		return rc;
	f = fdopen(fd, "rb");
	if (!f) {
		rc = fail(err, ERR_UNREACHABLE, path, "open");
		close(fd);
		return rc;
	}
	*ret = f;
	return 0;
}

static int read_all(int fd, const char *path, size_t max, struct str *ret, struct err *err)
{
	char buf[16 * 1024];
	int rc = 0;

	for (;;) {
		ssize_t n = read(fd, buf, sizeof(buf));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = fail(err, ERR_UNREACHABLE, path, "read");
		else if ((size_t)n > max - ret->len)
			rc = err_set(err, ERR_LIMIT, path, "%s is larger than %zu bytes", path, max);
		if (n <= 0 || rc < 0)
			break;
		str_put(ret, buf, (size_t)n);
	}
	explicit_bzero(buf, sizeof(buf));       /* some files are keys */
	return rc;
}

/* All of fd, behind what is in ret. */
static int take(int fd, const char *path, size_t max, struct str *ret, struct err *err)
{
	struct str content = STR_SECRET_INIT;
	int rc = read_all(fd, path, max, &content, err);

	if (rc == 0) {
		str_put(ret, content.p, content.len);
		if (ret->failed)
			rc = err_set(err, ERR_LIMIT, path, "%s is larger than allowed here", path);
	}
	str_wipe(&content);
	return rc;
}

int path_read_as(const char *path, unsigned how, size_t max, struct str *ret, struct err *err)
{
	int fd = -1, rc = path_open(path, how, max, &fd, err);

	if (rc < 0)
		return rc;
	rc = take(fd, path, max, ret, err);
	close(fd);
	return rc;
}

int path_read(const char *path, size_t max, struct str *ret, struct err *err)
{
	return path_read_as(path, 0, max, ret, err);
}

int path_read_input(const char *path, size_t max, struct str *ret, struct err *err)
{
	bool is_stdin = strcmp(path, "-") == 0;
	int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY), rc;

	if (fd < 0)
		return fail(err, ERR_UNREACHABLE, path, "open");
	rc = take(fd, path, max, ret, err);
	if (!is_stdin)
		close(fd);
	return rc;
}

/* --- writing */

static int write_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t done = write(fd, p, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -1;
		p += done;
		n -= (size_t)done;
	}
	return 0;
}

#define TREE_DESCRIPTORS 16             /* open at once */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	(void)remove(path);
	return 0;
}

void path_remove_tree(const char *dir)
{
	(void)nftw(dir, remove_one, TREE_DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
}

int path_sync_parent(const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	char *dir = !slash ? mem_strdup(".") : mem_strndup(path, slash == path ? 1 : (size_t)(slash - path));
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (fd < 0 || fsync(fd) != 0)
		rc = fail(err, ERR_IO, dir, "sync");
	if (fd >= 0)
		close(fd);
	free(dir);
	return rc;
}

int path_nameless(const char *dir)
{
	char *path = path_join(dir, "nameless-XXXXXX");
	int fd = mkostemp(path, O_CLOEXEC);

	if (fd >= 0)
		(void)unlink(path);
	free(path);
	return fd;
}

int path_make(const char *path, int *ret_fd, bool *ret_lent, struct err *err)
{
	int fd = path_borrow(path);
	struct stat st;

	*ret_lent = fd >= 0;
	if (fd < 0)
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if ((fd < 0 && errno == EEXIST) || (*ret_lent && (fstat(fd, &st) != 0 || st.st_size > 0))) {
		if (fd >= 0)
			close(fd);
		return err_set(err, ERR_CONFLICT, path, "%s exists already", path);
	}
	if (fd < 0)
		return fail(err, ERR_UNREACHABLE, path, "create");
	*ret_fd = fd;
	return 0;
}

int path_create(const char *path, unsigned mode, const void *p, size_t n, struct err *err)
{
	bool is_lent = false;
	int fd = -1, rc = path_make(path, &fd, &is_lent, err);

	if (rc < 0)
		return rc;
	/* fchmod(), since open() would take the umask off; what is lent has the mode that its owner gave it. */
	if (write_all(fd, p, n) != 0 || (!is_lent && fchmod(fd, (mode_t)mode) != 0) || fsync(fd) != 0)
		rc = fail(err, ERR_IO, path, "write");
	if (close(fd) != 0 && rc == 0)
		rc = fail(err, ERR_IO, path, "write");
	if (rc == 0 && !is_lent)
		rc = path_sync_parent(path, err);
	if (rc < 0)
		path_unmake(path);
	return rc;
}

int path_sync_all(const char *dir, struct err *err)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return fail(err, ERR_IO, dir, "open");
	if (syncfs(fd) != 0)
		rc = fail(err, ERR_IO, dir, "write");
	close(fd);
	return rc;
}

int path_prepare(const char *path, unsigned mode, const void *p, size_t n, struct err *err)
{
	char *temp = mem_printf("%s.new", path);
	int rc;

	(void)unlink(temp);     /* of somebody who died here */
	rc = path_create(temp, mode, p, n, err);
	free(temp);
	return rc;
}

int path_put_in_place(const char *path, struct err *err)
{
	char *temp = mem_printf("%s.new", path);
	int rc = 0;

	if (rename(temp, path) != 0) {
		rc = fail(err, ERR_IO, path, "replace");
		(void)unlink(temp);
	}
	if (rc == 0)
		rc = path_sync_parent(path, err);
	free(temp);
	return rc;
}

int path_replace(const char *path, unsigned mode, const void *p, size_t n, struct err *err)
{
	int rc = path_prepare(path, mode, p, n, err);

	return rc < 0 ? rc : path_put_in_place(path, err);
}

int path_mkdirs(const char *path, unsigned mode, struct err *err)
{
	char *part = mem_strdup(path);
	struct stat st;
	int rc = 0, why;

	for (char *p = part; rc == 0 && *p;) {
		char kept;

		p += strspn(p, "/");
		p += strcspn(p, "/");
		kept = *p;
		*p = '\0';
		if (mkdir(part, (mode_t)mode) != 0 && errno != EEXIST) {
			why = errno;            /* EACCES, where looking says that there is none */
			if (stat(part, &st) != 0 || !S_ISDIR(st.st_mode)) {
				errno = why;
				rc = fail(err, ERR_UNREACHABLE, part, "create directory");
			}
		}
		*p = kept;
	}
	if (rc == 0 && (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)))
		rc = err_set(err, ERR_CONFLICT, path, "%s is not a directory", path);
	free(part);
	return rc;
}

bool path_is_plain(const char *path, size_t len)
{
	if (len == 0 || *path != '/')
		return false;
	for (size_t at = 0; at < len;) {
		const char *part = path + ++at;
		size_t n = 0;

		while (at + n < len && part[n] != '/')
			n++;
		if (n == 0 || text_eq(part, n, ".") || text_eq(part, n, ".."))
			return false;
		at += n;
	}
	return true;
}

bool path_exists(const char *path)
{
	return access(path, F_OK) == 0;
}

/* A variable that is set and not empty. */
static const char *env_text(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

int path_default_store(char **ret, struct err *err)
{
	const char *dir;

	if ((dir = env_text("TOOLCRIB_STORE")))
		*ret = mem_strdup(dir);
	else if (geteuid() == 0)
		*ret = mem_strdup("/var/lib/toolcrib");
	else if ((dir = env_text("XDG_STATE_HOME")) && *dir == '/')     /* XDG: relative ones are ignored */
		*ret = path_join(dir, "toolcrib");
	else if ((dir = env_text("HOME")))
		*ret = path_join(dir, ".local/state/toolcrib");
	else
		return err_set(err, ERR_INVALID, "HOME", "no default store: neither TOOLCRIB_STORE nor HOME is set");
	return 0;
}

char *path_join(const char *dir, const char *name)
{
	size_t len = strlen(dir);

	if (len == 0)
		return mem_strdup(name);
	return mem_printf("%s%s%s", dir, dir[len - 1] == '/' ? "" : "/", name);
}

char *path_absolute(const char *path)
{
	char *cwd, *ret;

	if (*path == '/')
		return mem_strdup(path);
	while (path[0] == '.' && path[1] == '/')
		path += 2 + strspn(path + 2, "/");
	cwd = getcwd(NULL, 0);
	if (!cwd)
		return mem_strdup(path);        /* the directory is gone: whoever opens it will say so */
	ret = strcmp(path, ".") == 0 || *path == '\0' ? mem_strdup(cwd) : path_join(cwd, path);
	free(cwd);
	return ret;
}

char *path_program(const char *name, const char *variable)
{
	const char *set = getenv(variable);
	char exe[4096], *beside;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (set && set[0] == '/')
		return mem_strdup(set);
	exe[n > 0 ? n : 0] = '\0';
	slash = strrchr(exe, '/');
	if (slash) {
		*slash = '\0';
		beside = mem_printf("%s/%s", exe, name);
		if (access(beside, X_OK) == 0)
			return beside;
		free(beside);
	}
	return mem_printf("%s/%s", LIBEXECDIR, name);
}
