/* Erasing in sealed files (bundle/seal.h): a file in which something is to go is made anew beside itself, on a thread
 * that reads, and takes its own place on the writer's, which alone knows that the catalog still has it.  What is
 * evidence in it is the same to the byte; of what has gone no page is left. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/erase.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "bundle/seal.h"
#include "db/db.h"
#include "forms/forms.h"
#include "segment/segment.h"

#include "bundle_int.h"

/* --- what is to go */

static int by_number(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void sort_keys(struct audit_erased *e)
{
	if (e->nkeys > 0)
		qsort(e->keys, e->nkeys, sizeof(*e->keys), by_number);
}

/* What the erasures of a log that are not done name, keys in order. */
static int read_erased(struct db *db, int64_t log, struct audit_erased *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_DEED_ERASED);
	int rc;

	*ret = (struct audit_erased){ 0 };
	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, AUDIT_ERASE);
	while ((rc = db_step(st, err)) == 1) {
		size_t len = 0;
		const void *ext = db_col_blob(st, 1, &len);

		rc = audit_erased_add(ret, db_col_i64(st, 0), ext, len, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	sort_keys(ret);
	if (rc < 0)
		audit_erased_fini(ret);
	return rc < 0 ? rc : 0;
}

static bool has_key(const struct audit_erased *e, int64_t key)
{
	return e->nkeys > 0 && bsearch(&key, e->keys, e->nkeys, sizeof(*e->keys), by_number);
}

/* Records of a file that an erasure names, a bit for each: at most 512 KiB. */
struct gone { int64_t from, to; uint8_t *bit; };

static void set_gone(struct gone *g, int64_t idx)
{
	g->bit[(idx - g->from) / 8] |= (uint8_t)(1u << (idx - g->from) % 8);
}

static bool is_gone(void *arg, int64_t idx)
{
	const struct gone *g = arg;

	return idx >= g->from && idx < g->to && g->bit[(idx - g->from) / 8] & 1u << (idx - g->from) % 8;
}

struct looking {
	struct gone *gone;
	const struct audit_erased *what;
	struct block_reader *reader;
	const atomic_bool *stop;
};

static int look_at_block(void *arg, const struct block *b, struct err *err)
{
	const struct looking *l = arg;
	int rc = l->stop && atomic_load(l->stop) ? err_set(err, ERR_CANCELLED, "", "it was stopped") : 0;
	int64_t key;

	if (rc == 0)
		rc = block_open(l->reader, b, BLOCK_COLUMN(COL_KEY), err);
	if (rc == 0 && (b->first < l->gone->from || b->first > l->gone->to - block_count(l->reader)))
		rc = err_set(err, ERR_CORRUPT, "", "a block has records that cannot be there");
	for (int64_t i = 0; rc == 0 && i < block_count(l->reader); i++)
		if (block_number(l->reader, COL_KEY, i, &key) && has_key(l->what, key))
			set_gone(l->gone, b->first + i);
	return rc;
}

static int find_gone(struct segment *s, const struct audit_erased *what, const atomic_bool *stop, struct gone *g,
		     struct err *err)
{
	struct looking l = { .gone = g, .what = what, .stop = stop };
	int rc = 0;

	g->bit = mem_zalloc((size_t)(g->to - g->from + 7) / 8);
	for (size_t i = 0; i < what->nspans; i++) {
		const struct audit_span *span = &what->span[i];

		for (int64_t idx = span->from > g->from ? span->from : g->from; idx < span->to && idx < g->to; idx++)
			set_gone(g, idx);
	}
	if (what->nkeys == 0)
		return 0;
	l.reader = block_reader_new(NULL);
	rc = segment_blocks(s, look_at_block, &l, err);
	block_reader_free(&l.reader);
	return rc;
}

/* 1: something is kept of one of them; 0: nothing is. */
static int is_any_kept(struct segment *s, struct gone *g, struct err *err)
{
	struct block_payload kept;
	int rc = 0;

	for (int64_t idx = g->from; rc == 0 && idx < g->to; idx++)
		if (is_gone(g, idx))
			rc = segment_kept(s, idx, &kept, err);
	return rc;
}

/* --- the file anew */

static int check_room(const char *path, int64_t bytes, uint64_t floor, struct err *err)
{
	struct statvfs fs;
	uint64_t left;

	if (statvfs(path, &fs) != 0)
		return 0;
	left = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (left >= floor && left - floor >= (uint64_t)bytes)
		return 0;
	return err_set(err, ERR_LIMIT, path, "what is erased in %s takes %" PRId64 " bytes for a while, and %" PRIu64
		       " are free, of which %" PRIu64 " are for calls", path, bytes, left, floor);
}

static int check_file(struct segment *s, const char *path, const struct audit_sealed *is, bool anew, struct err *err)
{
	uint8_t digest[DIGEST_SIZE];
	int64_t texts = 0;
	int rc = segment_digest(s, digest, &texts, err);

	if (rc == 0 && memcmp(digest, is->digest, sizeof(digest)) != 0)
		rc = err_set(err, ERR_CORRUPT, path, anew ? "%s was made anew, and has not the records that it had"
			     : "%s has other content than the catalog says", path);
	return rc;
}

/* What was made is opened again, as if it were a stranger's. */
static int check_made(const char *tmp, const struct audit_sealed *is, struct gone *g, struct err *err)
{
	struct segment *s = NULL;
	int rc = segment_open(tmp, &s, err);

	if (rc == 0)
		rc = segment_sound(s, err);
	if (rc == 0)
		rc = check_file(s, tmp, is, true, err);
	if (rc == 0)
		rc = is_any_kept(s, g, err);
	if (rc == 1)
		rc = err_set(err, ERR_INTERNAL, tmp, "%s still has what was to be erased", tmp);
	segment_close(&s);
	return rc;
}

static int check_place(const char *path, uint64_t floor, struct err *err)
{
	char *folder = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
	int rc = bundle_check_folder(folder, err);
	struct stat st;

	if (rc == 0 && lstat(path, &st) == 0)
		rc = check_room(path, st.st_size, floor, err);
	free(folder);
	return rc;
}

static int make_anew(struct segment *s, const char *path, struct audit_sealed *is, struct gone *g, uint64_t floor,
		     const atomic_bool *stop, struct err *err)
{
	char *tmp = mem_printf("%s.tmp", path);
	struct stat st;
	int rc = check_file(s, path, is, false, err);

	if (rc == 0)
		rc = check_place(path, floor, err);
	if (rc == 0) {
		path_unmake(tmp);               /* of who did not finish */
		rc = segment_copy(s, tmp, is_gone, g, stop, err);
		if (rc == 0)
			rc = check_made(tmp, is, g, err);
		if (rc == 0 && lstat(tmp, &st) != 0)
			rc = err_set(err, ERR_IO, tmp, "it is not there any more");
		if (rc < 0)
			path_unmake(tmp);
		else
			is->bytes = st.st_size;
	}
	free(tmp);
	return rc;
}

static int check_is(struct segment *s, const char *path, const char *origin, const struct audit_sealed *is,
		    struct err *err)
{
	const struct segment_info *info = segment_info(s);

	if (strcmp(info->origin, origin) == 0 && info->from == is->from && info->to == is->to)
		return 0;
	return err_set(err, ERR_CORRUPT, path, "%s has records %" PRId64 " to %" PRId64 " of %s: it is another file than the "
		       "catalog says", path, info->from, info->to - 1, info->origin);
}

static int erase_in(const char *path, const char *origin, struct audit_sealed *is, const struct audit_erased *what,
		    uint64_t floor, const atomic_bool *stop, bool *ret_made, struct err *err)
{
	struct gone gone = { .from = is->from, .to = is->to };
	struct segment *s = NULL;
	struct stat st;
	int rc = segment_open(path, &s, err);

	if (rc == 0 && lstat(path, &st) == 0)
		is->bytes = st.st_size;
	if (rc == 0)
		rc = check_is(s, path, origin, is, err);
	if (rc == 0)
		rc = find_gone(s, what, stop, &gone, err);
	if (rc == 0)
		rc = is_any_kept(s, &gone, err);
	*ret_made = rc == 1;
	if (rc == 1)
		rc = make_anew(s, path, is, &gone, floor, stop, err);
	segment_close(&s);
	free(gone.bit);
	return rc;
}

/* ERR_UNREACHABLE whatever it is: a file that cannot be renamed is no failure of the store (AUDIT A-216). */
static int rename_it(const char *tmp, const char *path, struct err *err)
{
	if (rename(tmp, path) == 0)
		return 0;
	return err_set(err, ERR_UNREACHABLE, path, "what was erased cannot be taken out of %s: %s", path, strerror(errno));
}

/* Whether the file may have some of it: else it need not be here. */
static bool concerns(const struct audit_erased *what, const struct audit_sealed *is)
{
	for (size_t i = 0; i < what->nspans; i++)
		if (what->span[i].from < is->to && what->span[i].to > is->from)
			return true;
	return what->nkeys > 0;
}

/* What is erased goes from a file that has not its name yet. */
static int erase_before(const char *path, const char *origin, const struct audit_sealed *is, struct audit_erased *what,
		    uint64_t floor, const atomic_bool *stop, struct err *err)
{
	char *tmp = mem_printf("%s.tmp", path);
	struct audit_sealed now = *is;
	bool made = false;
	int rc;

	sort_keys(what);
	rc = concerns(what, is) ? erase_in(path, origin, &now, what, floor, stop, &made, err) : 0;
	if (rc >= 0 && made)
		rc = rename_it(tmp, path, err);
	if (rc < 0)
		path_unmake(tmp);
	free(tmp);
	return rc < 0 ? rc : 0;
}

int audit_attach_place(struct db *db, const struct audit_sealed *s, const char *origin, struct audit_erased *erased,
		       uint64_t floor, const atomic_bool *stop, char to[AUDIT_SEAL_PATH_MAX], struct err *err)
{
	char *tmp = db_beside(db, AUDIT_ATTACH_TMP), *folder, *path;
	int rc;

	(void)snprintf(to, AUDIT_SEAL_PATH_MAX, FORMS_FOLDER "/%" PRId64 "%s", s->log, strrchr(s->path, '/'));
	path = db_beside(db, to);
	folder = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
	rc = bundle_own_folder(folder, err);
	if (rc == 0)
		rc = erase_before(tmp, origin, s, erased, floor, stop, err);
	if (rc == 0 && rename(tmp, path) != 0)
		rc = err_set(err, ERR_IO, path, "%s cannot be put in its place: %s", path, strerror(errno));
	if (rc == 0) {
		CRASH_AT("attach.placed");
		rc = path_sync_parent(path, err);
	}
	if (rc == 0)
		rc = path_sync_parent(folder, err);
	if (rc < 0)
		(void)unlink(tmp);
	free(path);
	free(folder);
	free(tmp);
	return rc;
}

int audit_sealed_erase(struct db *db, int64_t log, int64_t at, uint64_t floor, const atomic_bool *stop,
		       struct audit_sealed *ret, bool *ret_made, struct err *err)
{
	struct audit_erased what = { 0 };
	char *origin = NULL, *path;
	int rc;

	*ret = (struct audit_sealed){ .log = log, .from = at - 1 };
	*ret_made = false;
	rc = audit_sealed_next(db, ret, &origin, err);
	if (rc == 1 && ret->log != log)
		rc = 0;
	if (rc != 1) {
		ret->to = ret->log == log ? ret->to : 0;
		free(origin);
		return rc;
	}
	path = db_beside(db, ret->path);
	rc = read_erased(db, log, &what, err);
	if (rc == 0 && concerns(&what, ret))
		rc = erase_in(path, origin, ret, &what, floor, stop, ret_made, err);
	audit_erased_fini(&what);
	free(path);
	free(origin);
	return rc < 0 ? rc : 1;
}

/* --- in its place */

/* 1: the catalog has it; 0: it was pruned meanwhile, or is elsewhere. */
static int is_listed(struct db *db, const struct audit_sealed *s, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_FILE_AT);
	int rc;

	db_bind_i64(st, 1, s->log);
	db_bind_i64(st, 2, s->from);
	rc = db_step(st, err);
	if (rc == 1)
		rc = strcmp(db_col_text(st, 0, NULL), s->path) == 0;
	db_stmt_put(&st);
	return rc;
}

int audit_sealed_erase_sync(struct db *db, const struct audit_sealed *s, struct err *err)
{
	char *path = db_beside(db, s->path);
	struct err why;
	int rc = path_sync_parent(path, &why);

	if (rc < 0)
		rc = err_set(err, ERR_UNREACHABLE, path, "what was erased may come back into %s: %s", path, why.msg);
	free(path);
	return rc;
}

static int set_bytes(struct db *db, const struct audit_sealed *s, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_SET_BYTES);

	db_bind_i64(st, 1, s->log);
	db_bind_i64(st, 2, s->from);
	db_bind_i64(st, 3, s->bytes);
	return db_run(&st, err);
}

int audit_sealed_erase_put(struct db *db, const struct audit_sealed *s, bool made, struct err *err)
{
	char *path = db_beside(db, s->path), *tmp = mem_printf("%s.tmp", path);
	const int listed = is_listed(db, s, err);
	int rc = listed < 0 ? listed : 0;

	if (made)
		CRASH_AT("erase.made");
	if (made && listed == 1)
		rc = rename_it(tmp, path, err);
	if (made && (rc < 0 || listed != 1))
		path_unmake(tmp);
	if (made)
		CRASH_AT("erase.renamed");
	if (listed == 1 && rc == 0)             /* a death may have come between the two */
		rc = set_bytes(db, s, err);
	free(tmp);
	free(path);
	return rc;
}
