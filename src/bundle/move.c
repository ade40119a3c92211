/* Sealed files in other places (bundle/seal.h): the same file under another name, compared with the catalog's row and
 * with what was read, and never in the place of another.  Any thread, also of a program without a store. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "bundle/seal.h"
#include "db/db.h"
#include "forms/forms.h"
#include "segment/segment.h"

enum { PIECE = 1 << 20 };

/* --- what the catalog lists */

int audit_sealed_next(struct db *db, struct audit_sealed *ret, char **ret_origin, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_NEXT_FILE);
	int rc;

	db_bind_i64(st, 1, ret->log);
	db_bind_i64(st, 2, ret->from);
	rc = db_step(st, err);
	if (rc == 1) {
		size_t digest_len = 0, root_len = 0;
		const void *digest = db_col_blob(st, 3, &digest_len), *root = db_col_blob(st, 4, &root_len);
		const char *path = db_col_text(st, 5, NULL);

		*ret = (struct audit_sealed){ .log = db_col_i64(st, 0), .from = db_col_i64(st, 1),
			.to = db_col_i64(st, 2) };
		if (digest_len != sizeof(ret->digest) || root_len != sizeof(ret->root) ||
		    !forms_is_name(path, ret->log, ret->from) ||
		    snprintf(ret->path, sizeof(ret->path), "%s", path) >= (int)sizeof(ret->path)) {
			rc = err_set(err, ERR_CORRUPT, "seg", "the catalog has a file of log %" PRId64 " that is called as none is",
				     ret->log);
		} else {
			memcpy(ret->digest, digest, sizeof(ret->digest));
			memcpy(ret->root, root, sizeof(ret->root));
			*ret_origin = db_col_dup(st, 6);
		}
	}
	db_stmt_put(&st);
	return rc;
}

/* 0; ERR_CORRUPT: it is another file than the catalog lists; errors of segment_open(). */
static int check_is(const char *path, const char *origin, const struct audit_sealed *listed, struct err *err)
{
	uint8_t digest[DIGEST_SIZE], root[TREE_HASH];
	struct segment *s = NULL;
	int64_t texts = 0;
	int rc = segment_open(path, &s, err);

	if (rc == 0) {
		const struct segment_info *info = segment_info(s);

		tree_root(&info->after, root);
		if (strcmp(info->origin, origin) != 0 || info->from != listed->from || info->to != listed->to ||
		    memcmp(root, listed->root, sizeof(root)) != 0)
			rc = err_set(err, ERR_CORRUPT, path, "%s has records %" PRId64 " to %" PRId64 " of %s: it is another file than the "
				     "catalog says", path, info->from, info->to - 1, info->origin);
	}
	if (rc == 0)
		rc = segment_digest(s, digest, &texts, err);
	if (rc == 0 && memcmp(digest, listed->digest, sizeof(digest)) != 0)
		rc = err_set(err, ERR_CORRUPT, path, "%s has other content than the catalog says", path);
	segment_close(&s);
	return rc;
}

/* --- bytes */

static int fail(const char *path, const char *what, struct err *err)
{
	return err_set(err, ERR_IO, path, "%s cannot be %s: %s", path, what, strerror(errno));
}

/* The next bytes, up to a piece; 0: there are no more; below 0: errno. */
static ssize_t read_piece(int fd, char *piece)
{
	ssize_t n;

	do
		n = read(fd, piece, PIECE);
	while (n < 0 && errno == EINTR);
	return n;
}

static bool write_piece(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t put = write(fd, p, n);

		if (put < 0 && errno != EINTR)
			return false;
		p += put > 0 ? put : 0;
		n -= put > 0 ? (size_t)put : 0;
	}
	return true;
}

static int copy_bytes(int in, const char *from, int out, const char *to, uint8_t ret[DIGEST_SIZE], struct err *err)
{
	char *piece = mem_alloc(PIECE);
	struct digest *d = digest_new();
	ssize_t n = 0;
	int rc = 0;

	while (rc == 0 && (n = read_piece(in, piece)) > 0) {
		digest_put(d, piece, (size_t)n);
		if (!write_piece(out, piece, (size_t)n))
			rc = fail(to, "written", err);
	}
	if (rc == 0 && n < 0)
		rc = fail(from, "read", err);
	digest_end(&d, ret);
	free(piece);
	return rc;
}

/* What the disk has, where that can be asked. */
static int compare(int fd, const char *to, const uint8_t want[DIGEST_SIZE], struct err *err)
{
	char *piece = mem_alloc(PIECE);
	struct digest *d = digest_new();
	uint8_t got[DIGEST_SIZE];
	ssize_t n = -1;

	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (lseek(fd, 0, SEEK_SET) == 0)
		while ((n = read_piece(fd, piece)) > 0)
			digest_put(d, piece, (size_t)n);
	digest_end(&d, got);
	free(piece);
	if (n < 0)
		return fail(to, "read", err);
	return memcmp(got, want, sizeof(got)) == 0 ? 0
		: err_set(err, ERR_IO, to, "%s reads otherwise than it was written: its disk fails", to);
}

static bool same_state(const struct stat *a, const struct stat *b)
{
	return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* As old as the other, so that the next copy finds it. */
static int fill(int in, const char *from, int out, const char *to, const struct stat *was, struct err *err)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, was->st_mtim };
	uint8_t digest[DIGEST_SIZE];
	struct stat now;
	int rc = copy_bytes(in, from, out, to, digest, err);

	if (rc == 0 && (fstat(in, &now) != 0 || !same_state(was, &now)))
		rc = err_set(err, ERR_BUSY, from, "%s was changed while it was copied: try again", from);
	if (rc == 0 && (futimens(out, times) != 0 || fsync(out) != 0))
		rc = fail(to, "made durable", err);
	return rc < 0 ? rc : compare(out, to, digest, err);
}

/* --- the copy */

static int look_at(const char *from, const char *to, const char *origin, const struct audit_sealed *listed,
		   const struct stat *was, bool *ret_there, struct err *err)
{
	struct stat is;
	struct err why = { 0 };

	*ret_there = false;
	if (lstat(to, &is) != 0)
		return 0;
	*ret_there = S_ISREG(is.st_mode) && same_state(was, &is);
	if (*ret_there || check_is(to, origin, listed, &why) == 0)
		return 0;
	(void)err_set(err, ERR_CONFLICT, to, "%s is there, and is not the copy of %s: %s", to, from, why.msg);
	err_hint(err, "move it away, or name another directory");
	return ERR_CONFLICT;
}

static int copy_as(int in, const char *from, const char *tmp, const char *to, const char *origin,
		   const struct audit_sealed *listed, const struct stat *was, struct err *err)
{
	int out, rc;

	(void)unlink(tmp);              /* of who did not finish */
	out = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return fail(tmp, "made", err);
	rc = fill(in, from, out, tmp, was, err);
	close(out);
	if (rc == 0)
		rc = check_is(tmp, origin, listed, err);
	if (rc < 0 && rc != ERR_BUSY && rc != ERR_IO)
		err_wrap(err, "the copy of %s", from);
	if (rc == 0 && rename(tmp, to) != 0)
		rc = fail(to, "put in its place", err);
	if (rc < 0)
		(void)unlink(tmp);
	return rc < 0 ? rc : path_sync_parent(to, err);
}

/* Its name is durable with the names of the folders above it. */
static int make_folder(const char *to, struct err *err)
{
	char *folder = mem_strndup(to, (size_t)(strrchr(to, '/') - to));
	int rc = path_mkdirs(folder, 0700, err);

	if (rc == 0)
		rc = path_sync_parent(folder, err);
	free(folder);
	return rc;
}

static int not_here(const char *from, struct err *err)
{
	(void)err_set(err, ERR_NOT_FOUND, from, "the sealed file %s is not here, and the catalog says it is", from);
	err_hint(err, "try again if it was pruned just now; else toolcrib audit verify says what is missing");
	return ERR_NOT_FOUND;
}

int audit_sealed_copy(const char *from, const char *to, const char *origin, const struct audit_sealed *listed,
		      bool *ret_new, struct err *err)
{
	const int in = open(from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char *tmp = mem_printf("%s.tmp", to);
	bool there = false;
	struct stat was;
	int rc = 0;

	if (in < 0)
		rc = errno == ENOENT ? not_here(from, err) : fail(from, "opened", err);
	else if (fstat(in, &was) != 0 || !S_ISREG(was.st_mode))
		rc = err_set(err, ERR_CORRUPT, from, "%s is no file", from);
	if (rc == 0)
		rc = look_at(from, to, origin, listed, &was, &there, err);
	if (rc == 0 && !there)
		rc = make_folder(to, err);
	if (rc == 0 && !there)
		rc = copy_as(in, from, tmp, to, origin, listed, &was, err);
	if (in >= 0)
		close(in);
	free(tmp);
	if (rc == 0)
		*ret_new = !there;
	return rc;
}
