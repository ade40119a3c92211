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
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "bundle/seal.h"
#include "db/db.h"
#include "forms/forms.h"
#include "segment/segment.h"

#include "bundle_int.h"

enum { PIECE = 1 << 20 };

/* --- what the catalog lists */

/* log, from_idx, to_idx, digest, root, path, origin, in these columns. */
static int take_row(struct db_stmt *st, struct audit_sealed *ret, char **ret_origin, struct err *err)
{
	size_t digest_len = 0, root_len = 0;
	const void *digest = db_col_blob(st, 3, &digest_len), *root = db_col_blob(st, 4, &root_len);
	const char *path = db_col_text(st, 5, NULL);

	*ret = (struct audit_sealed){ .log = db_col_i64(st, 0), .from = db_col_i64(st, 1), .to = db_col_i64(st, 2) };
	if (digest_len != sizeof(ret->digest) || root_len != sizeof(ret->root) ||
	    !forms_is_name(path, ret->log, ret->from) ||
	    snprintf(ret->path, sizeof(ret->path), "%s", path) >= (int)sizeof(ret->path))
		return err_set(err, ERR_CORRUPT, "seg", "the catalog has a file of log %" PRId64 " that is called as none is",
			       ret->log);
	memcpy(ret->digest, digest, sizeof(ret->digest));
	memcpy(ret->root, root, sizeof(ret->root));
	*ret_origin = db_col_dup(st, 6);
	return 1;
}

int audit_sealed_next(struct db *db, struct audit_sealed *ret, char **ret_origin, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_NEXT_FILE);
	int rc;

	db_bind_i64(st, 1, ret->log);
	db_bind_i64(st, 2, ret->from);
	rc = db_step(st, err);
	if (rc == 1)
		rc = take_row(st, ret, ret_origin, err);
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

static int go_on(const atomic_bool *stop, struct err *err)
{
	return stop && atomic_load(stop) ? err_set(err, ERR_CANCELLED, "", "it was stopped") : 0;
}

static int copy_bytes(int in, const char *from, int out, const char *to, const atomic_bool *stop,
		      uint8_t ret[DIGEST_SIZE], struct err *err)
{
	char *piece = mem_alloc(PIECE);
	struct digest *d = digest_new();
	ssize_t n = 0;
	int rc = 0;

	while (rc == 0 && (n = read_piece(in, piece)) > 0) {
		digest_put(d, piece, (size_t)n);
		if (!write_piece(out, piece, (size_t)n))
			rc = fail(to, "written", err);
		else
			rc = go_on(stop, err);
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
static int fill(int in, const char *from, int out, const char *to, const struct stat *was, const atomic_bool *stop,
		struct err *err)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, was->st_mtim };
	uint8_t digest[DIGEST_SIZE];
	struct stat now;
	int rc = copy_bytes(in, from, out, to, stop, digest, err);

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

/* Nothing is left of it after a failure. */
static int make_copy(int in, const char *from, const char *tmp, const struct stat *was, const atomic_bool *stop,
		     struct err *err)
{
	int out, rc;

	(void)unlink(tmp);              /* of who did not finish */
	out = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return fail(tmp, "made", err);
	rc = fill(in, from, out, tmp, was, stop, err);
	close(out);
	if (rc < 0)
		(void)unlink(tmp);
	return rc;
}

static int copy_as(int in, const char *from, const char *tmp, const char *to, const char *origin,
		   const struct audit_sealed *listed, const struct stat *was, const atomic_bool *stop, struct err *err)
{
	int rc = make_copy(in, from, tmp, was, stop, err);

	if (rc == 0)
		rc = check_is(tmp, origin, listed, err);
	if (rc < 0 && rc != ERR_BUSY && rc != ERR_IO && rc != ERR_CANCELLED)
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

/* -1: what it is not, in *err. */
static int open_regular(const char *from, struct stat *ret, struct err *err)
{
	const int borrowed = path_borrow(from), fd = borrowed >= 0 ? borrowed
		: open(from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0) {
		(void)(errno == ENOENT ? not_here(from, err) : fail(from, "opened", err));
		return -1;
	}
	if (fstat(fd, ret) == 0 && S_ISREG(ret->st_mode))
		return fd;
	(void)err_set(err, ERR_CORRUPT, from, "%s is no file", from);
	close(fd);
	return -1;
}

int audit_sealed_copy(const char *from, const char *to, const char *origin, const struct audit_sealed *listed,
		      const atomic_bool *stop, bool *ret_new, struct err *err)
{
	struct stat was;
	const int in = open_regular(from, &was, err);
	char *tmp = mem_printf("%s.tmp", to);
	bool there = false;
	int rc = in < 0 ? (int)err->code : 0;

	if (rc == 0)
		rc = look_at(from, to, origin, listed, &was, &there, err);
	if (rc == 0 && !there)
		rc = make_folder(to, err);
	if (rc == 0 && !there)
		rc = copy_as(in, from, tmp, to, origin, listed, &was, stop, err);
	if (in >= 0)
		close(in);
	free(tmp);
	if (rc == 0)
		*ret_new = !there;
	return rc;
}

/* --- into an archive */

int audit_archive_next(struct db *db, int64_t log, int64_t before_us, struct audit_sealed *ret, char **ret_origin,
		       struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_NEXT_TO_MOVE);
	int rc;

	db_bind_i64(st, 1, ret->log);
	db_bind_i64(st, 2, ret->from);
	db_bind_i64(st, 3, log);
	db_bind_i64(st, 4, before_us);
	rc = db_step(st, err);
	if (rc == 1)
		rc = take_row(st, ret, ret_origin, err);
	if (rc == 1) {
		ret->bytes = db_col_i64(st, 7);
		ret->erasures = db_col_i64(st, 8);
	}
	db_stmt_put(&st);
	return rc;
}

static int check_space(const char *folder, int64_t bytes, uint64_t floor, struct err *err)
{
	struct statvfs fs;
	uint64_t left;

	if (statvfs(folder, &fs) != 0)
		return 0;
	left = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (left >= floor && left - floor >= (uint64_t)bytes)
		return 0;
	return err_set(err, ERR_LIMIT, folder, "a sealed file of %" PRId64 " bytes does not fit into %s: %" PRIu64 " are "
		       "free, of which %" PRIu64 " have to stay so", bytes, folder, left, floor);
}

int audit_archive_copy(struct db *db, const char *archive, const struct audit_sealed *s, const char *origin,
		       uint64_t floor, const atomic_bool *stop, char to[AUDIT_SEAL_PATH_MAX], struct err *err)
{
	char *from = db_beside(db, s->path), *folder = mem_printf("%s/%" PRId64, archive, s->log);
	bool ignored;
	struct stat st;
	int rc = 0;

	if (stat(archive, &st) != 0 || !S_ISDIR(st.st_mode))
		rc = err_set(err, ERR_UNREACHABLE, archive, "the archive %s is not here", archive);
	else if (snprintf(to, AUDIT_SEAL_PATH_MAX, "%s%s", folder, strrchr(s->path, '/')) >= AUDIT_SEAL_PATH_MAX)
		rc = err_set(err, ERR_LIMIT, archive, "the path of the archive is too long");
	if (rc == 0)
		rc = bundle_own_folder(folder, err);
	if (rc == 0)
		rc = check_space(folder, s->bytes, floor, err);
	if (rc == 0)
		rc = audit_sealed_copy(from, to, origin, s, stop, &ignored, err);
	if (rc == 0)
		CRASH_AT("archive.copied");
	free(folder);
	free(from);
	return rc;
}

/* The original of a file that is listed in an archive which has it.  Compared once more: nothing else is left then. */
static int clean_one(struct db *db, const struct audit_sealed *s, const char *origin, size_t *n, struct err *err)
{
	char *name = mem_printf(FORMS_FOLDER "/%" PRId64 "%s", s->log, strrchr(s->path, '/')), *path = db_beside(db, name);
	struct stat was, is;
	int rc = 0;

	free(name);
	if (lstat(path, &was) == 0 && S_ISREG(was.st_mode) && lstat(s->path, &is) == 0 && S_ISREG(is.st_mode)) {
		CRASH_AT("archive.listed");
		rc = check_is(s->path, origin, s, err);
		if (rc == 0 && unlink(path) != 0)
			rc = err_set(err, ERR_IO, path, "what is in an archive now cannot be removed: %s", strerror(errno));
		CRASH_AT("archive.removed");
		if (rc == 0)
			rc = path_sync_parent(path, err);
		*n += rc == 0;
	}
	free(path);
	return rc;
}

int audit_archive_clean(struct db *db, size_t *ret_n, struct err *err)
{
	struct audit_sealed s = { .from = -1 };
	char *origin;
	int rc;

	*ret_n = 0;
	while ((rc = audit_sealed_next(db, &s, &origin, err)) == 1) {
		rc = forms_is_archived(s.path) ? clean_one(db, &s, origin, ret_n, err) : 0;
		free(origin);
		if (rc < 0)
			break;
	}
	return rc;
}

int audit_archive_kept(struct db *db, int64_t log, int64_t from, int64_t to, int64_t *ret_to, uint8_t root[32],
		       uint8_t digest[32], struct err *err)
{
	struct audit_sealed s = { .log = log, .from = from - 1 };
	struct digest *d = digest_new();
	char *origin = NULL;
	int64_t end = from;
	int rc;

	while ((rc = audit_sealed_next(db, &s, &origin, err)) == 1) {
		if (s.log != log || s.from != end || s.to > to || !forms_is_archived(s.path))
			break;
		rc = path_exists(s.path) ? check_is(s.path, origin, &s, err)
			: err_set(err, ERR_UNREACHABLE, s.path, "%s is not here", s.path);
		if (rc < 0)
			break;
		digest_put(d, s.digest, sizeof(s.digest));
		memcpy(root, s.root, sizeof(s.root));
		end = s.to;
		free(origin);
		origin = NULL;
	}
	free(origin);
	digest_end(&d, digest);
	*ret_to = end;
	if (rc >= 0 && end == from)
		rc = err_set(err, ERR_NOT_FOUND, "", "nothing to prune and keep: record %" PRId64 " is in no file of an archive "
			     "whose records are all old enough", from);
	return rc < 0 ? rc : 0;
}

/* --- out of one */

static int row_of(struct db *db, const char *origin, int64_t from, struct audit_sealed *ret, char **ret_origin,
		  struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_FILE_OF);
	int rc;

	db_bind_textz(st, 1, origin);
	db_bind_i64(st, 2, from);
	rc = db_step(st, err);
	if (rc == 1)
		rc = take_row(st, ret, ret_origin, err);
	if (rc == 1)
		ret->erasures = db_col_i64(st, 7);
	db_stmt_put(&st);
	return rc;
}

/* Which row it is of, by what it says of itself, which is compared then. */
static int find_row(struct db *db, const char *file, const char *tmp, struct audit_sealed *ret, char **ret_origin,
		    struct err *err)
{
	const struct segment_info *info;
	struct segment *s = NULL;
	int rc = segment_open(tmp, &s, err);

	if (rc < 0) {
		(void)err_set(err, (enum err_code)rc, file, "%s is not attached: %s", file, err->msg);
		return rc;
	}
	info = segment_info(s);
	rc = row_of(db, info->origin, info->from, ret, ret_origin, err);
	if (rc == 0)
		rc = err_set(err, ERR_NOT_FOUND, file, "the catalog has no file of the records from %" PRId64 " on of %s, which "
			     "%s has", info->from, info->origin, file);
	segment_close(&s);
	return rc < 0 ? rc : 0;
}

static int check_row(struct db *db, const char *file, const char *tmp, const struct audit_sealed *s, const char *origin,
		     struct err *err)
{
	char *path = db_beside(db, s->path);
	int rc = 0;

	if (!forms_is_archived(s->path) && path_exists(path))
		rc = err_set(err, ERR_CONFLICT, file, "the sealed file %s is here", s->path);
	if (rc == 0)
		rc = check_is(tmp, origin, s, err);
	if (rc == ERR_CORRUPT)
		(void)err_set(err, ERR_CORRUPT, file, "%s is not attached: it is another file than %s, which the catalog has "
			      "for these records", file, s->path);
	free(path);
	return rc;
}

int audit_attach_copy(struct db *db, const char *file, uint64_t floor, const atomic_bool *stop,
		      struct audit_sealed *ret, char **ret_origin, struct err *err)
{
	char *tmp = db_beside(db, AUDIT_ATTACH_TMP), *folder = db_beside(db, FORMS_FOLDER);
	struct stat was;
	const int in = open_regular(file, &was, err);
	int rc = in < 0 ? (int)err->code : bundle_own_folder(folder, err);

	*ret_origin = NULL;
	if (rc == 0)
		rc = check_space(folder, was.st_size, floor, err);
	if (rc == 0)
		rc = make_copy(in, file, tmp, &was, stop, err);
	if (in >= 0)
		close(in);
	if (rc == 0) {
		rc = find_row(db, file, tmp, ret, ret_origin, err);
		if (rc == 0)
			rc = check_row(db, file, tmp, ret, *ret_origin, err);
		if (rc < 0)
			(void)unlink(tmp);
		else
			ret->bytes = was.st_size;
	}
	free(folder);
	free(tmp);
	return rc;
}
