/* What a store was before its schema goes forward (OPERATE OP-911): a copy of the file beside it, before-NN.db, NN the
 * schema that it goes to, and in meta a mark until the record of the start tells of both.  The owner of the store makes
 * it, while nothing of the file is open in his process: to close a file that SQLite has open would drop its locks (trap
 * 18).  A crash leaves half a copy under another name, which the next one takes the place of. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"

#include "db_int.h"

#define PREFIX "before-"
#define SUFFIX ".db"
#define SIGNER ".signer.tar"            /* instead of SUFFIX: what the signer remembered then */
#define HALF ".new"                     /* behind the name: half a copy */

enum {
	PIECE = 1 << 20,
	AT_WRITE_FORMAT = 18,           /* of the file's head: 2, 2 = with a log beside it */
	AT_USER_VERSION = 60,
	AT_APPLICATION_ID = 68,
	HEAD = 72,
	NEWER_MAX = 1000,               /* schemas of newer programs that a copy is looked for of */
};

static void name_of(int to, char ret[DB_BEFORE_NAME_SIZE])
{
	(void)snprintf(ret, DB_BEFORE_NAME_SIZE, PREFIX "%d" SUFFIX, to);
}

/* In the folder of the file; free() it. */
static char *beside(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');

	return mem_printf("%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, name);
}

/* --- the copy */

static int fail(struct err *err, const char *path, const char *what)
{
	return err_set(err, ERR_IO, path, "the copy of before cannot be %s: %s", what, strerror(errno));
}

static int write_all(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t put = write(fd, p, n);

		if (put < 0 && errno != EINTR)
			return -1;
		p += put > 0 ? put : 0;
		n -= put > 0 ? (size_t)put : 0;
	}
	return 0;
}

/* What is read of `in` from its beginning goes to `out` (-1: it is the copy already), as a file without a log. */
static int pump(int in, int out, const char *path, struct db_before *b, struct err *err)
{
	struct digest *d = digest_new();
	char *piece = mem_alloc(PIECE);
	ssize_t n;
	int rc = 0;

	b->bytes = 0;
	while (rc == 0 && (n = read(in, piece, PIECE)) != 0) {
		if (n < 0) {
			rc = errno == EINTR ? 0 : fail(err, path, "read");
			continue;
		}
		if (b->bytes == 0 && n >= HEAD)
			memset(piece + AT_WRITE_FORMAT, 1, 2);
		digest_put(d, piece, (size_t)n);
		if (out >= 0 && write_all(out, piece, (size_t)n) < 0)
			rc = fail(err, path, "written");
		b->bytes += (uint64_t)n;
	}
	digest_end(&d, b->digest);
	free(piece);
	return rc;
}

static uint64_t room_at(const char *path)
{
	char *dir = beside(path, ".");
	struct statvfs fs;
	uint64_t room = statvfs(dir, &fs) == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize : UINT64_MAX;

	free(dir);
	return room;
}

static int check_room(int in, const char *path, const struct db_before *b, struct err *err)
{
	const uint64_t room = room_at(path);
	struct stat st;

	if (fstat(in, &st) != 0)
		return fail(err, path, "read");
	if ((uint64_t)st.st_size + DB_BEFORE_SPARE <= room)
		return 0;
	(void)err_set(err, ERR_LIMIT, path, "schema %d goes to %d, and the copy of before takes %" PRIu64 " bytes, of which "
		      "the disk has %" PRIu64 "; nothing was changed", b->from, b->to,
		      (uint64_t)st.st_size + DB_BEFORE_SPARE, room);
	err_hint(err, "make room there, or make a backup elsewhere and go on without a copy: toolcrib migrate --no-copy");
	return ERR_LIMIT;
}

/* Shared blocks where the file system has such, else all bytes. */
static int copy(const char *from, int out, const char *path, struct db_before *b, struct err *err)
{
	static const char no_log[2] = { 1, 1 };
	int in = -1, rc = path_open(from, PATH_NO_LINK, SIZE_MAX, &in, err);

	if (rc < 0)
		return rc;
	if (ioctl(out, FICLONE, in) == 0) {
		rc = pwrite(out, no_log, sizeof(no_log), AT_WRITE_FORMAT) == (ssize_t)sizeof(no_log) ? pump(out, -1, path, b, err)
			: fail(err, path, "written");
	} else {
		rc = check_room(in, path, b, err);
		if (rc == 0)
			rc = pump(in, out, path, b, err);
	}
	close(in);
	if (rc == 0 && fsync(out) != 0)
		rc = fail(err, path, "written");
	return rc;
}

int db_before_make(const char *path, struct db_before *b, struct err *err)
{
	const uint64_t begun_us = clock_mono_us();
	char *to, *half;
	int fd, rc = 0;

	name_of(b->to, b->name);
	to = beside(path, b->name);
	half = mem_printf("%s" HALF, to);
	(void)unlink(half);             /* of somebody who died here */
	fd = open(half, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		rc = fail(err, half, "made");
	if (rc == 0)
		rc = copy(path, fd, half, b, err);
	if (fd >= 0)
		close(fd);
	if (rc < 0)
		(void)unlink(half);
	else
		rc = path_put_in_place(to, err);
	if (rc == 0)
		log_info(NULL, "the store was copied before its schema goes forward copy=%s bytes=%" PRIu64 " ms=%" PRIu64, to,
			 b->bytes, (clock_mono_us() - begun_us) / 1000);
	free(half);
	free(to);
	return rc;
}

/* --- the mark */

#define MARK_NONE "-"                   /* for name and digest: there is no copy */

int db_before_note(struct db *db, const struct db_before *b, struct err *err)
{
	char hex[2 * DIGEST_SIZE + 1] = MARK_NONE, *text;
	struct db_stmt *st = db_stmt_get(db, SQL_META_SET_VALUE);
	int rc;

	if (*b->name)
		text_hex(b->digest, DIGEST_SIZE, hex);
	text = mem_printf("%d %s %s", b->from, *b->name ? b->name : MARK_NONE, hex);
	db_bind_textz(st, 1, DB_META_BEFORE);
	db_bind_textz(st, 2, text);
	rc = db_run(&st, err);
	free(text);
	return rc;
}

static int refuse_mark(const struct db *db, struct err *err)
{
	(void)err_set(err, ERR_CORRUPT, db->path, "meta: the mark of a schema that goes forward is damaged");
	err_hint(err, HINT_BACKUP);
	return ERR_CORRUPT;
}

int db_before_noted(struct db *db, struct db_before *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_META_GET_VALUE);
	struct db_before b = { .to = SQL__STEPS };
	char hex[2 * DIGEST_SIZE + 1];
	int of = 0, rc;

	db_bind_textz(st, 1, DB_META_BEFORE);
	rc = db_step(st, err);
	if (rc == 1) {
		const char *text = db_col_text(st, 0, NULL);

		_Static_assert(sizeof(b.name) == 24 && sizeof(hex) == 65, "bounds of the words below");
		if (sscanf(text, "%9d %23s %64s", &b.from, b.name, hex) != 3)
			rc = refuse_mark(db, err);
		else if (sscanf(b.name, PREFIX "%9d" SUFFIX, &of) != 1 || text_unhex(hex, strlen(hex), b.digest, DIGEST_SIZE) < 0)
			*b.name = '\0';
		else
			name_of(of, b.name);
	}
	db_stmt_put(&st);
	if (rc == 1)
		*ret = b;
	return rc;
}

int db_before_forget(struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_META_DELETE_VALUE);

	db_bind_textz(st, 1, DB_META_BEFORE);
	return db_run(&st, err);
}

/* --- what there is of them */

/* The schema that a copy was made before, or 0: it is none. */
static int schema_of(const char *name)
{
	char want[DB_BEFORE_NAME_SIZE];
	int to = 0;

	if (sscanf(name, PREFIX "%9d" SUFFIX, &to) != 1)
		return 0;
	name_of(to, want);
	return strcmp(name, want) == 0 && to > 0 ? to : 0;
}

/* Of the name without what stands behind it, or 0. */
static int schema_without(const char *name, const char *end, const char *instead)
{
	const size_t len = strlen(name), n = strlen(end);
	char *whole = len > n && strcmp(name + len - n, end) == 0 ? mem_printf("%.*s%s", (int)(len - n), name, instead) : NULL;
	const int to = whole ? schema_of(whole) : 0;

	free(whole);
	return to;
}

char *db_before_signer(const char *store, int to)
{
	return mem_printf("%s/" PREFIX "%d" SIGNER, store, to);
}

int db_before_drop(const char *store, enum db_before_which which, unsigned *ret, struct err *err)
{
	const uint64_t now_s = clock_wall_us() / 1000000;
	DIR *d = opendir(store);
	unsigned n = 0;
	int rc = 0;

	if (!d)
		return err_set(err, ERR_UNREACHABLE, store, "cannot be listed: %s", strerror(errno));
	for (const struct dirent *e; rc == 0 && (e = readdir(d));) {
		const bool half = which == DB_BEFORE_OLD && schema_without(e->d_name, HALF, "") > 0;
		const bool copy = schema_of(e->d_name) > 0, signer = schema_without(e->d_name, SIGNER, SUFFIX) > 0;
		struct stat st;

		if ((!half && !copy && !signer) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		if (!half && which == DB_BEFORE_OLD && (uint64_t)st.st_mtime + DB_BEFORE_KEEP_S > now_s)
			continue;
		if (unlinkat(dirfd(d), e->d_name, 0) != 0) {
			rc = err_set(err, ERR_IO, store, "cannot remove %s: %s", e->d_name, strerror(errno));
			continue;
		}
		n += copy;
		log_info(NULL, "removed, it was made before the schema went forward copy=%s/%s", store, e->d_name);
	}
	closedir(d);
	*ret = n;
	return rc;
}

bool db_before_newest(const char *store, char ret_name[DB_BEFORE_NAME_SIZE], uint64_t *ret_made_us)
{
	DIR *d = opendir(store);
	int newest = 0;

	for (const struct dirent *e; d && (e = readdir(d));) {
		const int to = schema_of(e->d_name);
		struct stat st;

		if (to <= newest || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
			continue;
		newest = to;
		*ret_made_us = (uint64_t)st.st_mtime * 1000000;
		name_of(to, ret_name);
	}
	if (d)
		closedir(d);
	return newest > 0;
}

/* Big-endian at its place, or -1: there is no such file. */
static int64_t schema_in(const char *path)
{
	uint8_t head[HEAD];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	int64_t v[2] = { 0, 0 };

	if (fd < 0)
		return -1;
	if (read(fd, head, HEAD) != HEAD)
		memset(head, 0, sizeof(head));
	close(fd);
	for (unsigned i = 0; i < 4; i++) {
		v[0] = v[0] << 8 | head[AT_USER_VERSION + i];
		v[1] = v[1] << 8 | head[AT_APPLICATION_ID + i];
	}
	return v[1] == DB_APPLICATION_ID ? v[0] : -1;
}

/* The first that was made when the store went beyond what this program knows. */
bool db_before_for(const char *path, int known, int64_t version, char ret_name[DB_BEFORE_NAME_SIZE])
{
	bool found = false;

	for (int64_t to = (int64_t)known + 1; !found && to <= version && to <= known + NEWER_MAX; to++) {
		char *copy_path;
		int64_t schema;

		name_of((int)to, ret_name);
		copy_path = beside(path, ret_name);
		schema = schema_in(copy_path);
		found = schema >= 1 && schema <= known;
		free(copy_path);
	}
	return found;
}

uint64_t db_before_room(const char *path, uint64_t *ret_room)
{
	struct stat st;

	*ret_room = room_at(path);
	return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}
