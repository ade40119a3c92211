/* Rows become blocks while no server runs (SCALE SC-305): all that wait, a batch of blocks in a transaction, then
 * chapters, then the indexes that only rows need go, one by one.  Whoever dies anywhere begins where he was: what is
 * left to do is told by the store alone.  Any thread; who calls holds the lock of the store. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "audit/fold.h"
#include "base/log.h"
#include "base/path.h"
#include "db/db.h"
#include "db/owner.h"
#include "forms/forms.h"
#include "writer/fold.h"

#include "writer_int.h"

enum {
	BATCH = 16,                     /* blocks of one transaction, some 4 MiB */
	ROOM_A_RECORD = 192,            /* its share of a block, and of the index that goes, in the log of the file */
};

struct offline {
	struct db *db, *reader;
	struct audit_logs *logs;
	struct audit_folder *folder;
	const struct writer_offline_way *way;
	struct writer_offline *ret;
	int64_t waiting, tail;          /* at the beginning; no row up to this one waits */
};

static void tell(const struct offline *o, const char *what, int64_t done, int64_t of)
{
	if (o->way->told)
		o->way->told(o->way->arg, what, done, of);
}

/* --- blocks */

static int put_all(struct offline *o, struct audit_folded *const *made, size_t n, struct err *err)
{
	int rc = db_txn_begin(o->db, true, err);
	int64_t records = 0;

	if (rc < 0)
		return rc;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = audit_fold_put(o->logs, o->db, made[i], err);
		records += made[i]->cnt;
	}
	rc = db_txn_end(o->db, rc, err);
	if (rc == 0)
		rc = db_checkpoint(o->db, CHECKPOINT_PAGES, err);
	if (rc < 0)
		return rc;
	o->ret->records += records;
	tell(o, "records", o->ret->records, o->waiting);
	return 0;
}

/* The next blocks of a log: how many; fewer than a batch: it has no more, and *ret_why says if a row is to blame. */
static int fold_some(struct offline *o, int64_t log, struct err *ret_why, struct err *err)
{
	struct audit_folded *made[BATCH];
	int rc = 0, n = 0;

	while (n < BATCH && (rc = audit_folder_next(o->folder, log, INT64_MAX, &made[n], ret_why)) == 1)
		audit_folder_go_on(o->folder, made[n++]);
	if (rc < 0 && rc != ERR_CORRUPT && rc != ERR_INVALID)
		*err = *ret_why;
	else
		rc = n > 0 ? put_all(o, made, (size_t)n, err) : 0;
	for (int i = 0; i < n; i++)
		audit_folded_free(&made[i]);
	return rc < 0 ? rc : n;
}

/* What still waits of a log when it is done: a row that cannot be folded, or all behind blocks that wait to go. */
static int look_behind(struct offline *o, int64_t log, const struct err *why, struct err *err)
{
	struct db_stmt *st;
	int64_t line = 0;
	bool waits;
	int rc = audit_folder_line(o->folder, log, &line, &waits, err);

	if (rc < 0)
		return rc;
	st = db_stmt_get(o->reader, SQL_FOLD_ROW_AT);
	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, line);
	rc = db_step(st, err);
	if (rc == 1 && db_col_i64(st, 0) <= o->tail)
		o->tail = db_col_i64(st, 0) - 1;
	db_stmt_put(&st);
	if (rc == 1 && why->code && !*o->ret->stuck)
		(void)snprintf(o->ret->stuck, sizeof(o->ret->stuck), "%s: %s", why->where, why->msg);
	return rc < 0 ? rc : 0;
}

static int fold_log(struct offline *o, int64_t log, struct err *err)
{
	struct err why = { 0 };
	int n;

	do
		n = fold_some(o, log, &why, err);
	while (n == BATCH);
	return n < 0 ? n : look_behind(o, log, &why, err);
}

/* Of what waits to be read in one statement of 64 blocks. */
static int make_chapters(struct offline *o, int64_t log, struct err *err)
{
	static const struct forms_chapter_sizes sizes = FORMS_CHAPTER_SIZES;
	struct forms_chapter *c = NULL;
	struct err why;
	int rc;

	while ((rc = forms_chapter_next(o->reader, log, &sizes, &c, &why)) == 1) {
		rc = db_txn_begin(o->db, true, err);
		if (rc == 0)
			rc = db_txn_end(o->db, forms_chapter_put(o->db, c, err), err);
		if (rc == 0)
			rc = db_checkpoint(o->db, CHECKPOINT_PAGES, err);
		forms_chapter_free(&c);
		if (rc < 0)
			return rc;
	}
	if (rc == ERR_CORRUPT) {        /* its blocks are read without; the verifier says what is wrong */
		log_err(NULL, "blocks do not become a chapter why=\"%s\"", why.msg);
		return 0;
	}
	if (rc < 0)
		*err = why;
	return rc;
}

static int each_log(struct offline *o, int (*fn)(struct offline *o, int64_t log, struct err *err), struct err *err)
{
	int64_t log = 0;
	int rc = 0;

	while (rc == 0) {
		struct db_stmt *st = db_stmt_get(o->reader, SQL_FOLD_NEXT_LOG);

		db_bind_i64(st, 1, log);
		rc = db_step(st, err);
		if (rc == 1)
			log = db_col_i64(st, 0);
		db_stmt_put(&st);
		if (rc <= 0)
			break;
		rc = fn(o, log, err);
	}
	return rc;
}

static int save_tail(struct offline *o, struct err *err)
{
	int rc = db_txn_begin(o->db, true, err);

	return rc < 0 ? rc : db_txn_end(o->db, forms_tail_set(o->db, o->tail, err), err);
}

/* --- indexes: each one's pages are written over when it goes, and the log of the file grows by them */

static int drop_indexes(struct offline *o, struct err *err)
{
	struct forms_rows is = { 0 };
	unsigned left = 0;
	int rc = forms_count(o->db, &is, err);

	if (rc < 0 || !is.any || is.waiting > FORMS_LEAN_TAIL_MAX)
		return rc;
	for (rc = db_lean_left(o->db, &left, err); rc == 0 && left > 0; left--) {
		tell(o, "indexes", DB_LEAN_INDEXES - left, DB_LEAN_INDEXES);
		rc = db_txn_begin(o->db, true, err);
		if (rc == 0)
			rc = db_txn_end(o->db, db_make_lean(o->db, 1, err), err);
		if (rc == 0)
			rc = db_truncate_log(o->db, err);
		o->ret->indexes += rc == 0;
	}
	return rc;
}

/* --- the whole */

static int look_for_room(const struct offline *o, const char *store, struct err *err)
{
	const uint64_t need = (uint64_t)o->waiting * ROOM_A_RECORD;
	struct statvfs fs;

	if (statvfs(store, &fs) != 0 || (uint64_t)fs.f_bavail * fs.f_frsize >= need)
		return 0;       /* when the system does not say, the disk will */
	(void)err_set(err, ERR_LIMIT, store,
		      "blocks of %" PRId64 " records need some %" PRIu64 " MiB of room, and %" PRIu64 " MiB are free",
		      o->waiting, need >> 20, (uint64_t)fs.f_bavail * fs.f_frsize >> 20);
	err_hint(err, "make room where the store is, or move it to a larger disk; nothing was changed");
	return ERR_LIMIT;
}

static int open_all(struct offline *o, const char *store, struct err *err)
{
	struct forms_rows is = { 0 };
	char *file = path_join(store, DB_FILE);
	int last = 0, rc = db_open(file, DB_WRITER, false, &o->db, err);

	if (rc == 0)
		rc = db_check_schema(o->db, err);
	if (rc == 0)
		rc = forms_count(o->db, &is, err);
	o->waiting = is.waiting;
	if (rc == 0)
		rc = look_for_room(o, store, err);
	if (rc == 0)
		rc = audit_logs_open(o->db, &o->logs, err);
	if (rc == 0)
		rc = audit_last_kind(o->logs, o->db, 0, &last, NULL, err);
	if (rc == 0 && last != AUDIT_SERVER_STOP)
		rc = 1;
	if (rc == 0)
		rc = db_open_store(db_in(store), &o->reader, err);
	if (rc == 0)
		o->folder = audit_folder_new(o->reader);
	free(file);
	return rc;
}

static void close_reader(struct offline *o)
{
	audit_folder_free(&o->folder);
	db_close(&o->reader);
}

int writer_fold_offline(const char *store, bool records, const struct writer_offline_way *way,
			struct writer_offline *ret, struct err *err)
{
	struct offline o = { .way = way, .ret = ret };
	int rc;

	*ret = (struct writer_offline){ 0 };
	rc = open_all(&o, store, err);
	if (rc == 0 && records) {
		o.tail = audit_newest_row(o.logs);
		rc = each_log(&o, fold_log, err);
		if (rc == 0)
			rc = save_tail(&o, err);
		if (rc == 0)
			rc = each_log(&o, make_chapters, err);
	}
	close_reader(&o);                       /* what reads is in the way of emptying the log of the file */
	if (rc == 0)
		rc = drop_indexes(&o, err);
	audit_logs_close(&o.logs);
	db_close(&o.db);
	return rc;
}
