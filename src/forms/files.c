/* Sealed files of a store (forms/forms.h): opened when a statement needs one, few at a time, those that were used
 * longest ago go, and those in whose place is another one by now, since something was erased in it or it was moved;
 * and blocks of a log in order, wherever they are.  Texts have ids of their own there, which become those of the
 * store.  Any thread with a connection that reads. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "segment/segment.h"

#include "forms_int.h"

enum { FILE_FROM, FILE_TO, FILE_MONTH, FILE_PATH };     /* columns of forms_file_at */
enum { IDS_FIRST = 256 };
#define OF_A_STORE "/" FORMS_FOLDER     /* no archive is called so */

struct forms_file {
	struct forms *f;
	int64_t log, from, to;
	char *name;                     /* in the catalog */
	char *path;                     /* where that is */
	struct segment *segment;        /* NULL: it is not here, which is noted */
	bool borrowed;                  /* that is somebody else's */
	dev_t dev; ino_t ino;           /* of what was there before it was opened */
	bool stale;                     /* something else is there now: nobody gets it any more */
	int64_t *ids; size_t nids;      /* of the store, by those of the file; 0: not asked for yet */
	unsigned pins;
	uint64_t used;
};

static void file_free(struct forms_file *file)
{
	if (!file->borrowed)
		segment_close(&file->segment);
	free(file->ids);
	free(file->path);
	free(file->name);
	free(file);
}

void forms_files_free(struct forms *f)
{
	for (size_t i = 0; i < FORMS_FILES; i++)
		if (f->file[i])
			file_free(f->file[i]);
}

/* --- one file */

bool forms_is_name(const char *path, int64_t log, int64_t from)
{
	const char *month = strrchr(path, '/');
	const size_t len = strlen(path);
	char want[80];
	size_t n;

	if (!month || strspn(month + 1, "0123456789") != FORMS_MONTH_DIGITS)
		return false;
	n = (size_t)snprintf(want, sizeof(want), "/%" PRId64 "/%.*s-%" PRId64 FORMS_FILE_END, log, FORMS_MONTH_DIGITS,
			     month + 1, from);
	if (len <= n || len >= FORMS_PATH_MAX || strcmp(path + len - n, want) != 0)
		return false;
	if (text_eq(path, len - n, FORMS_FOLDER))
		return true;
	return path_is_plain(path, len - n) && (len - n < strlen(OF_A_STORE) ||
		!text_eq(path + len - n - strlen(OF_A_STORE), strlen(OF_A_STORE), OF_A_STORE));
}

static int note_absent(const struct forms *f, const struct forms_file *file, int64_t month, const struct err *why)
{
	struct forms_absent *absent = f->absent;
	const char *name = strrchr(file->name, '/');
	size_t at = 0;

	name = name ? name + 1 : file->name;
	while (at < absent->n && at < FORMS_ABSENT_MAX &&
	       (strcmp(absent->v[at].name, name) != 0 || absent->v[at].log != file->log))
		at++;
	if (at < absent->n && at < FORMS_ABSENT_MAX)
		return 0;
	if (at < FORMS_ABSENT_MAX) {
		absent->v[at].log = file->log;
		absent->v[at].month = month;
		(void)snprintf(absent->v[at].name, sizeof(absent->v[at].name), "%s", name);
		(void)snprintf(absent->v[at].why, sizeof(absent->v[at].why), "%s", why ? why->msg : "");
	}
	absent->n++;
	return 0;
}

/* What the catalog says is what the file says of itself. */
static int check_file(const struct forms_file *file, const char *path, struct err *err)
{
	const struct segment_info *info = segment_info(file->segment);
	struct db_stmt *st = db_stmt_get(file->f->db, SQL_FORMS_ORIGIN);
	int rc;

	db_bind_i64(st, 1, file->log);
	rc = db_step(st, err);
	if (rc >= 0 && (rc == 0 || strcmp(db_col_text(st, 0, NULL), info->origin) != 0 || info->from != file->from ||
			info->to != file->to))
		rc = err_set(err, ERR_CORRUPT, path, "the sealed file %s has records %" PRId64 " to %" PRId64
			     " of %s, which are not those that belong there", file->name, info->from, info->to - 1, info->origin);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* Whether what is there is something else than before it was opened.  What is replaced in between is opened once more
 * than it takes. */
static bool is_other(const struct forms_file *file)
{
	struct stat st;

	return lstat(file->path, &st) != 0 || st.st_dev != file->dev || st.st_ino != file->ino;
}

static void note_place(struct forms_file *file)
{
	struct stat st = { 0 };

	if (lstat(file->path, &st) == 0) {
		file->dev = st.st_dev;
		file->ino = st.st_ino;
	}
}

static int open_file(struct forms_file *file, int64_t month, struct err *err)
{
	const char *path = file->path = db_beside(file->f->db, file->name);
	const bool named = forms_is_name(file->name, file->log, file->from), here = named && path_exists(path);
	int rc;

	note_place(file);
	rc = here ? segment_open(path, &file->segment, err) : err_set(err, named ? ERR_UNREACHABLE : ERR_CORRUPT, path,
		named ? "the sealed file %s is not here" : "the sealed file %s is called as none is", file->name);

	if (rc == ERR_INVALID || rc == ERR_LIMIT || rc == ERR_CONFLICT)         /* by itself: to the store it is damage */
		rc = err_set(err, ERR_CORRUPT, path, "%s", err->msg);
	if (rc == 0)
		rc = check_file(file, path, err);
	if (rc < 0 && rc != ERR_CANCELLED && file->f->absent) {
		segment_close(&file->segment);
		rc = note_absent(file->f, file, month, here || !named ? err : NULL);
	}
	return rc;
}

static int find_file(struct forms *f, int64_t log, int64_t idx, struct forms_file **ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(f->db, SQL_FORMS_FILE_AT);
	int64_t month = 0;
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, idx);
	rc = db_step(st, err);
	if (rc == 1 && idx >= db_col_i64(st, FILE_TO))
		rc = 0;
	if (rc == 1) {
		*ret = mem_zalloc(sizeof(**ret));
		**ret = (struct forms_file){ .f = f, .log = log, .from = db_col_i64(st, FILE_FROM), .to = db_col_i64(st, FILE_TO),
			.name = db_col_dup(st, FILE_PATH) };
		month = db_col_i64(st, FILE_MONTH);
	}
	db_stmt_put(&st);
	if (rc != 1)
		return rc;
	rc = open_file(*ret, month, err);
	if (rc < 0) {
		file_free(*ret);
		*ret = NULL;
	}
	return rc < 0 ? rc : 1;
}

bool forms_file_stale(const struct forms_file *file)
{
	return file && file->stale;
}

/* Of the old file nothing is shown any more, and its descriptor goes with the last block or cursor that is of it. */
static void forget_other(struct forms *f, int64_t log, int64_t idx)
{
	for (size_t i = 0; i < FORMS_FILES; i++) {
		struct forms_file *file = f->file[i];

		if (!file || file->stale || !file->segment || file->log != log || idx < file->from || idx >= file->to)
			continue;
		if (!is_other(file))
			return;
		file->stale = true;
		file->pins++;
		forms_file_put(&file);
		return;
	}
}

int forms_file_get(struct forms *f, int64_t log, int64_t idx, struct forms_file **ret, struct err *err)
{
	struct forms_file **place = NULL;
	int rc;

	forget_other(f, log, idx);
	for (size_t i = 0; i < FORMS_FILES; i++) {
		struct forms_file *file = f->file[i];

		if (file && !file->stale && file->log == log && idx >= file->from && idx < file->to) {
			file->pins++;
			file->used = ++f->clock;
			*ret = file;
			return 1;
		}
		if (!file || (file->pins == 0 && (!place || (*place && file->used < (*place)->used))))
			place = &f->file[i];
	}
	if (!place)
		return err_set(err, ERR_LIMIT, "", "more than %d sealed files are read at once", FORMS_FILES);
	rc = find_file(f, log, idx, ret, err);
	if (rc != 1)
		return rc;
	if (*place)
		file_free(*place);
	*place = *ret;
	(*ret)->pins = 1;
	(*ret)->used = ++f->clock;
	return 1;
}

struct forms_file *forms_file_pin(struct forms_file *file)
{
	if (file)
		file->pins++;
	return file;
}

void forms_file_put(struct forms_file **fp)
{
	struct forms_file *file = *fp;

	*fp = NULL;
	if (!file || --file->pins > 0 || !file->stale)
		return;
	for (size_t i = 0; i < FORMS_FILES; i++)
		if (file->f->file[i] == file)
			file->f->file[i] = NULL;
	file_free(file);
}

struct db *forms_file_db(const struct forms_file *file)
{
	return file->segment ? segment_db(file->segment) : NULL;
}

int forms_file_bad(const struct forms_file *file, int rc, struct err *err)
{
	if (rc < 0)
		err_wrap(err, "the sealed file %s", file->name);
	return rc;
}

/* --- ids of texts */

static int ask_id(struct forms_file *file, uint16_t kind, int64_t id, struct err *err)
{
	const char *text = NULL;
	size_t len = 0;
	struct db_stmt *st;
	int rc = segment_text(file->segment, kind, id, &text, &len, err);

	if (rc != 1)
		return forms_file_bad(file, rc, err);
	st = db_stmt_get(file->f->db, SQL_AUDIT_GET_TEXT);
	db_bind_i64(st, 1, kind);
	db_bind_text(st, 2, text, len);
	rc = db_step(st, err);
	if (rc == 1)
		file->ids[id] = db_col_i64(st, 0);
	db_stmt_put(&st);
	if (!file->borrowed)
		segment_trim(file->segment);
	return rc;
}

int forms_file_id(void *arg, uint16_t kind, int64_t id, int64_t *ret, struct err *err)
{
	struct forms_file *file = arg;
	int rc = 1;

	if (id < 1 || id > SEGMENT_TEXTS_MAX)
		return 0;
	if ((size_t)id >= file->nids) {
		size_t n = file->nids ? file->nids : IDS_FIRST;

		while (n <= (size_t)id)
			n *= 2;
		file->ids = mem_realloc(file->ids, n * sizeof(*file->ids));
		memset(file->ids + file->nids, 0, (n - file->nids) * sizeof(*file->ids));
		file->nids = n;
	}
	if (file->ids[id] == 0)
		rc = ask_id(file, kind, id, err);
	if (rc == 1)
		*ret = file->ids[id];
	return rc;
}

int forms_file_zones(struct forms_file *file, struct block_zones *zones, struct err *err)
{
	return file ? block_zones_turn(zones, forms_file_id, file, err) : 0;
}

/* --- blocks in order */

void forms_walk_begin(struct forms_walk *w, struct forms *f, int64_t log, int64_t sealed, bool backwards)
{
	forms_walk_end(w);
	*w = (struct forms_walk){ .f = f, .log = log, .sealed = sealed, .backwards = backwards, .hi = -1, .jumped = -1 };
}

int forms_walk_bytes(struct forms_walk *w, struct block *b, struct err *err)
{
	struct db *db = w->file ? forms_file_db(w->file) : w->f->db;
	struct db_stmt *st = w->bytes = db_stmt_get(db, w->file ? SQL_SEGMENT_BLOCK_COLS : SQL_FORMS_BLOCK_COLS);
	int rc;

	db_bind_i64(st, 1, w->log);
	db_bind_i64(st, 2, b->first);
	rc = db_step(st, err);
	if (rc != 1)                    /* in one snapshot it is there */
		return rc < 0 ? rc : err_set(err, ERR_CORRUPT, "", "its bytes are not there");
	b->cols.p = db_col_blob(st, 0, &b->cols.len);
	b->hash = (struct block_bytes){ "", 0 };
	return 0;
}

void forms_walk_end(struct forms_walk *w)
{
	if (w->bytes)
		db_stmt_put(&w->bytes);
	if (w->st)
		db_stmt_put(&w->st);
	forms_file_put(&w->file);
	w->lo = 0;
	w->hi = -1;
}

void forms_walk_over(struct forms_walk *w, int64_t lo, int64_t hi)
{
	forms_walk_end(w);
	w->lo = lo;
	w->hi = hi;
}

static void ask(struct forms_walk *w, struct db *db, enum sql_id id, int64_t lo, int64_t hi)
{
	w->st = db_stmt_get(db, id);
	db_bind_i64(w->st, 1, w->log);
	db_bind_i64(w->st, 2, lo);
	db_bind_i64(w->st, 3, hi);
}

/* What the store itself has of what is left. */
static void ask_store(struct forms_walk *w)
{
	const int64_t lo = w->lo > w->sealed ? w->lo : w->sealed;

	ask(w, w->f->db, w->backwards ? SQL_FORMS_BLOCKS_DOWN : SQL_FORMS_BLOCKS_UP, lo, w->hi);
	if (w->backwards)
		w->hi = lo - 1;
	else
		w->lo = w->hi + 1;
}

/* No file has the record: what lies before the first one was pruned. */
static int skip_pruned(struct forms_walk *w, int64_t at, struct err *err)
{
	struct db_stmt *st = db_stmt_get(w->f->db, SQL_FORMS_FIRST_FILE);
	int64_t first = -1;
	int rc;

	db_bind_i64(st, 1, w->log);
	rc = db_step(st, err);
	if (rc == 1)
		first = db_col_i64(st, 0);
	db_stmt_put(&st);
	if (rc < 0)
		return rc;
	if (at >= first)
		return err_set(err, ERR_CORRUPT, "seg", "no sealed file has record %" PRId64 " of log %" PRId64, at, w->log);
	if (w->backwards)
		w->hi = w->lo - 1;
	else
		w->lo = first;
	return 0;
}

/* What the next file has of it. */
static int ask_file(struct forms_walk *w, struct err *err)
{
	const int64_t at = w->backwards ? w->hi : w->lo;
	int64_t lo, hi;
	struct db *db;
	int rc = forms_file_get(w->f, w->log, at, &w->file, err);

	if (rc == 0)
		return skip_pruned(w, at, err);
	if (rc < 0)
		return rc;
	lo = w->lo > w->file->from ? w->lo : w->file->from;
	hi = w->hi < w->file->to ? w->hi : w->file->to - 1;
	db = forms_file_db(w->file);
	w->jumped = db ? -1 : w->backwards ? lo : hi + 1;
	if (w->backwards)
		w->hi = lo - 1;
	else
		w->lo = hi + 1;
	if (db) {
		ask(w, db, w->backwards ? SQL_SEGMENT_BLOCKS_DOWN : SQL_SEGMENT_BLOCKS_UP, lo, hi);
		return 0;
	}
	forms_file_put(&w->file);
	return 0;
}

static int ask_next(struct forms_walk *w, struct err *err)
{
	if (w->backwards ? w->hi >= w->sealed : w->lo >= w->sealed) {
		ask_store(w);
		return 0;
	}
	return ask_file(w, err);
}

bool forms_walk_has(const struct forms_walk *w)
{
	return w->st || (w->f && w->lo <= w->hi);
}

int forms_walk_step(struct forms_walk *w, struct err *err)
{
	int rc = 0;

	if (w->bytes)
		db_stmt_put(&w->bytes);
	while (rc == 0 && forms_walk_has(w)) {
		if (!w->st) {
			rc = ask_next(w, err);
			continue;
		}
		rc = db_step(w->st, err);
		if (rc < 0 && w->file)
			rc = forms_file_bad(w->file, rc, err);
		if (rc == 0) {
			db_stmt_put(&w->st);
			forms_file_put(&w->file);
		}
	}
	return rc;
}

/* --- a file that is open */

struct forms_file *forms_file_over(struct forms *f, struct segment *segment, const char *name)
{
	struct forms_file *file = mem_zalloc(sizeof(*file));

	*file = (struct forms_file){ .f = f, .name = mem_strdup(name), .segment = segment, .borrowed = true };
	return file;
}

void forms_file_drop(struct forms_file **file)
{
	if (*file)
		file_free(*file);
	*file = NULL;
}
