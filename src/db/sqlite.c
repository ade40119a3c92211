/* SQLite as an engine: opening with settings that are read back, statements, errors, the log.  Called by db.c, and by
 * what is SQLite's own beside it. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "db/vtab.h"

#include "db_int.h"

/* --- row_out() */

/* A row's values in one call of a function instead of two or three for each column. */

enum { ROW_COLUMNS = 64 };

/* Values are valid during the call alone, so that bytes are copied. */
struct db_row {
	int64_t number;                 /* of the call; the statement's column says it again */
	unsigned n;
	struct db_value v[ROW_COLUMNS];
	size_t at[ROW_COLUMNS];         /* where the bytes of a value begin */
	char *bytes;
	size_t len, cap;
};

static void db_row_free(struct db_row **row)
{
	if (*row)
		free((*row)->bytes);
	free(*row);
	*row = NULL;
}

static void put_bytes(struct db_row *row, unsigned i, enum db_type type, sqlite3_value *v)
{
	const void *p = sqlite3_value_blob(v);
	size_t len = p ? (size_t)sqlite3_value_bytes(v) : 0;

	if (row->len + len > row->cap) {
		row->cap = 2 * (row->len + len);
		row->bytes = mem_realloc(row->bytes, row->cap);
	}
	if (len > 0)
		memcpy(row->bytes + row->len, p, len);
	row->v[i] = (struct db_value){ .type = type, .len = len };
	row->at[i] = row->len;
	row->len += len;
}

static void put_value(struct db_row *row, unsigned i, sqlite3_value *v)
{
	switch (sqlite3_value_type(v)) {
	case SQLITE_INTEGER:
		row->v[i] = (struct db_value){ .type = DB_INT, .n = sqlite3_value_int64(v) };
		break;
	case SQLITE_TEXT:
		put_bytes(row, i, DB_TEXT, v);
		break;
	case SQLITE_BLOB:
		put_bytes(row, i, DB_BLOB, v);
		break;
	case SQLITE_FLOAT:
		row->v[i] = (struct db_value){ .type = DB_FLOAT, .d = sqlite3_value_double(v) };
		break;
	default:
		row->v[i] = (struct db_value){ .type = DB_NULL };
		break;
	}
}

static void row_out(sqlite3_context *ctx, int n, sqlite3_value **value)
{
	struct db_stmt *st = n > 0 ? sqlite3_value_pointer(value[0], DB_ROW_POINTER) : NULL;

	if (!st || n > ROW_COLUMNS + 1) {
		sqlite3_result_error(ctx, "row_out() without its statement", -1);
		return;
	}
	if (!st->row) {
		st->row = mem_zalloc(sizeof(*st->row));
		st->row->bytes = mem_alloc(st->row->cap = 256);
	}
	st->row->n = (unsigned)n - 1;
	st->row->len = 0;
	for (int i = 1; i < n; i++)
		put_value(st->row, (unsigned)i - 1, value[i]);
	sqlite3_result_int64(ctx, ++st->row->number);
}

/* --- rows_in(): values in memory as a table, c0, c1, … */

struct rows_cursor { sqlite3_vtab_cursor base; const struct db_value *at, *end; size_t width; };

static int rows_connect(sqlite3 *native, void *arg, int argc, const char *const *argv, sqlite3_vtab **ret, char **why)
{
	struct str text = STR_INIT;
	int rc;

	(void)arg, (void)argc, (void)argv, (void)why;
	for (int i = 0; i < DB_ROWS_IN_MAX; i++)
		str_printf(&text, "%sc%d", i == 0 ? "CREATE TABLE x(" : ", ", i);
	str_puts(&text, ", rows HIDDEN)");
	rc = sqlite3_declare_vtab(native, str_text(&text));
	str_fini(&text);
	if (rc != SQLITE_OK)
		return rc;
	(void)sqlite3_vtab_config(native, SQLITE_VTAB_DIRECTONLY);
	*ret = mem_zalloc(sizeof(**ret));
	return SQLITE_OK;
}

static int rows_disconnect(sqlite3_vtab *table)
{
	free(table);
	return SQLITE_OK;
}

static int rows_best_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
	(void)table;
	for (int i = 0; i < info->nConstraint; i++) {
		if (info->aConstraint[i].iColumn != DB_ROWS_IN_MAX || !info->aConstraint[i].usable)
			continue;
		info->aConstraintUsage[i].argvIndex = 1;
		info->aConstraintUsage[i].omit = 1;
		return SQLITE_OK;
	}
	return SQLITE_CONSTRAINT;
}

static int rows_open(sqlite3_vtab *table, sqlite3_vtab_cursor **ret)
{
	struct rows_cursor *c = mem_zalloc(sizeof(*c));

	(void)table;
	*ret = &c->base;
	return SQLITE_OK;
}

static int rows_close(sqlite3_vtab_cursor *cursor)
{
	free(cursor);
	return SQLITE_OK;
}

static int rows_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int n, sqlite3_value **value)
{
	struct rows_cursor *c = (struct rows_cursor *)cursor;
	const struct db_stmt *st = n == 1 ? sqlite3_value_pointer(value[0], DB_ROW_POINTER) : NULL;

	(void)number, (void)text;
	if (!st || !st->rows)
		return SQLITE_MISUSE;
	c->at = st->rows;
	c->width = st->rows_width;
	c->end = c->at + st->rows_n * c->width;
	return SQLITE_OK;
}

static int rows_next(sqlite3_vtab_cursor *cursor)
{
	struct rows_cursor *c = (struct rows_cursor *)cursor;

	c->at += c->width;
	return SQLITE_OK;
}

static int rows_eof(sqlite3_vtab_cursor *cursor)
{
	const struct rows_cursor *c = (const struct rows_cursor *)cursor;

	return c->at >= c->end;
}

/* NULL is what a column is of which nothing is said. */
static int rows_column(sqlite3_vtab_cursor *cursor, sqlite3_context *ctx, int i)
{
	const struct rows_cursor *c = (const struct rows_cursor *)cursor;
	const struct db_value *v = &c->at[i];

	if (i < 0 || (size_t)i >= c->width)
		return SQLITE_OK;
	if (v->type == DB_INT)
		sqlite3_result_int64(ctx, v->n);
	else if (v->type == DB_BLOB)
		sqlite3_result_blob64(ctx, v->p, v->len, SQLITE_STATIC);
	else if (v->type == DB_TEXT)
		sqlite3_result_text64(ctx, v->p, v->len, SQLITE_STATIC, SQLITE_UTF8);
	else if (v->type == DB_FLOAT)
		sqlite3_result_double(ctx, v->d);
	return SQLITE_OK;
}

static int rows_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *ret)
{
	*ret = (sqlite3_int64)(intptr_t)((const struct rows_cursor *)cursor)->at;
	return SQLITE_OK;
}

static const sqlite3_module rows_in = {
	.xConnect = rows_connect, .xBestIndex = rows_best_index, .xDisconnect = rows_disconnect, .xOpen = rows_open,
	.xClose = rows_close, .xFilter = rows_filter, .xNext = rows_next, .xEof = rows_eof, .xColumn = rows_column,
	.xRowid = rows_rowid,
};

int db_row_define(sqlite3 *native)
{
	int rc = sqlite3_create_function_v2(native, "row_out", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL, row_out, NULL,
					    NULL, NULL);

	return rc == SQLITE_OK ? sqlite3_create_module_v2(native, "rows_in", &rows_in, NULL, NULL) : rc;
}

static int64_t lite_i64(const struct db_stmt *st, unsigned col);

static const struct db_value *lite_row(struct db_stmt *st, unsigned n)
{
	struct db_row *row = st->row;

	/* A plan that sorts would have made all rows before the first one comes out. */
	if (!row || row->n != n || row->number != lite_i64(st, 0))
		return NULL;
	for (unsigned i = 0; i < n; i++)
		if (row->v[i].type == DB_TEXT || row->v[i].type == DB_BLOB)
			row->v[i].p = row->bytes + row->at[i];
		else
			row->v[i].p = "";
	return row->v;
}

/* --- statements */

static int look(struct db_stmt *st, struct err *err)
{
	return st->db->viewer ? st->db->viewer(st, err) : 0;
}

static int prepare(struct db_stmt *st)
{
	return st->native ? SQLITE_OK
		: sqlite3_prepare_v3(st->db->native, st->text, -1, SQLITE_PREPARE_PERSISTENT, &st->native, NULL);
}

/* A parameter keeps its value from run to run, and is NULL at first: half of a record's stay so.  To bind one costs a
 * hundred instructions. */
static bool stays_null(struct db_stmt *st, unsigned i)
{
	const uint64_t bit = i < 64 ? UINT64_C(1) << i : 0;
	const bool was_null = bit && !(st->filled & bit);

	if (st->bind[i].type != DB_NULL) {
		st->filled |= bit;
		return false;
	}
	st->filled &= ~bit;
	return was_null;
}

static int lite_start(struct db_stmt *st, struct err *err)
{
	int rc = look(st, err);

	if (rc < 0)
		return rc;
	rc = prepare(st);
	for (unsigned i = 0; rc == SQLITE_OK && i < st->params; i++) {
		const struct db_value *v = &st->bind[i];
		const int pos = (int)i + 1;

		if (stays_null(st, i))
			continue;
		if (v->type == DB_INT)
			rc = sqlite3_bind_int64(st->native, pos, v->n);
		else if (v->type == DB_NULL)
			rc = sqlite3_bind_null(st->native, pos);
		else if (v->type == DB_BLOB)
			rc = sqlite3_bind_blob64(st->native, pos, v->p, v->len, SQLITE_STATIC);
		else if (v->type == DB_TEXT)
			rc = sqlite3_bind_text64(st->native, pos, v->p, v->len, SQLITE_STATIC, SQLITE_UTF8);
		else
			rc = sqlite3_bind_double(st->native, pos, v->d);
	}
	if (rc == SQLITE_OK && st->row_param) {
		rc = sqlite3_bind_pointer(st->native, (int)st->row_param, st, DB_ROW_POINTER, NULL);
		st->filled |= st->row_param <= 64 ? UINT64_C(1) << (st->row_param - 1) : 0;
	}
	return rc == SQLITE_OK ? 0 : db_fail(st->db, rc, st->name, err);
}

static int lite_step(struct db_stmt *st, struct err *err)
{
	int rc = sqlite3_step(st->native);

	if (rc == SQLITE_ROW)
		return 1;
	return rc == SQLITE_DONE ? 0 : db_fail(st->db, rc, st->name, err);
}

static void lite_reset(struct db_stmt *st)
{
	/* Before its next step all is bound again, so that what it knows of these is not looked at any more. */
	sqlite3_reset(st->native);
	st->rows = NULL;
}

static void lite_finish(struct db_stmt *st)
{
	sqlite3_finalize(st->native);
	db_row_free(&st->row);
}

static unsigned lite_columns(struct db_stmt *st)
{
	if (look(st, NULL) == 0)                /* its first step says what is wrong */
		(void)prepare(st);
	return (unsigned)sqlite3_column_count(st->native);
}

static enum db_type lite_type(const struct db_stmt *st, unsigned col)
{
	switch (sqlite3_column_type(st->native, (int)col)) {
	case SQLITE_INTEGER:
		return DB_INT;
	case SQLITE_FLOAT:
		return DB_FLOAT;
	case SQLITE_TEXT:
		return DB_TEXT;
	case SQLITE_BLOB:
		return DB_BLOB;
	default:
		return DB_NULL;
	}
}

static int64_t lite_i64(const struct db_stmt *st, unsigned col)
{
	return sqlite3_column_int64(st->native, (int)col);
}

static double lite_f64(const struct db_stmt *st, unsigned col)
{
	return sqlite3_column_double(st->native, (int)col);
}

static const char *lite_text(const struct db_stmt *st, unsigned col, size_t *ret_len)
{
	const char *p = (const char *)sqlite3_column_text(st->native, (int)col);

	if (ret_len)
		*ret_len = p ? (size_t)sqlite3_column_bytes(st->native, (int)col) : 0;
	return p ? p : "";
}

static const void *lite_blob(const struct db_stmt *st, unsigned col, size_t *ret_len)
{
	const void *p = sqlite3_column_blob(st->native, (int)col);

	if (ret_len)
		*ret_len = p ? (size_t)sqlite3_column_bytes(st->native, (int)col) : 0;
	return p ? p : "";
}

static const char *lite_column_name(struct db_stmt *st, unsigned col)
{
	const char *name = look(st, NULL) == 0 && prepare(st) == SQLITE_OK ? sqlite3_column_name(st->native, (int)col) : NULL;

	return name ? name : "";
}

static int64_t lite_last_id(const struct db *db)
{
	return sqlite3_last_insert_rowid(db->native);
}

static int64_t lite_changes(const struct db *db)
{
	return sqlite3_changes64(db->native);
}

/* --- errors, and words of its own */

static const char *const ctl_text[CTL__COUNT] = {
	[CTL_BEGIN] = "BEGIN",
	[CTL_BEGIN_WRITE] = "BEGIN IMMEDIATE",
	[CTL_COMMIT] = "COMMIT",
	[CTL_ROLLBACK] = "ROLLBACK",
	[CTL_ITEM] = "SAVEPOINT item",
	[CTL_ITEM_KEEP] = "RELEASE item",
	[CTL_ITEM_UNDO] = "ROLLBACK TO item",
	[CTL_DATA_VERSION] = "PRAGMA data_version",
};

static bool no_space(sqlite3 *native, int rc)
{
	int e = sqlite3_system_errno(native);

	if ((rc & 0xff) == SQLITE_FULL || rc == SQLITE_IOERR_SHMSIZE)
		return true;
	return (rc & 0xff) == SQLITE_IOERR && rc != SQLITE_IOERR_FSYNC && rc != SQLITE_IOERR_DIR_FSYNC &&
		(e == ENOSPC || e == EDQUOT || e == EFBIG);
}

static int code_of(struct db *db, int rc)
{
	if (no_space(db->native, rc))
		return ERR_AUDIT;
	switch (rc & 0xff) {
	case SQLITE_IOERR:
		return ERR_IO;
	case SQLITE_CONSTRAINT:
		return rc == SQLITE_CONSTRAINT_DATATYPE || rc == SQLITE_CONSTRAINT_NOTNULL ||
			rc == SQLITE_CONSTRAINT_TRIGGER ? ERR_INTERNAL : ERR_CONFLICT;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return ERR_BUSY;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return ERR_CORRUPT;
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
	case SQLITE_READONLY:
		return ERR_UNREACHABLE;
	case SQLITE_INTERRUPT:
		if (db->memory_spent)
			return ERR_LIMIT;
		return db->deadline_us && clock_mono_us() >= db->deadline_us ? ERR_TIMEOUT : ERR_CANCELLED;
	case SQLITE_TOOBIG:
		return ERR_LIMIT;
	case SQLITE_NOMEM:
		return db->mode == DB_FOREIGN || db->mode == DB_REPORTER ? ERR_LIMIT : ERR_INTERNAL;
	case SQLITE_AUTH:
		return ERR_DENIED;
	default:
		return db->mode == DB_FOREIGN ? ERR_INVALID : ERR_INTERNAL;
	}
}

int db_fail(struct db *db, int rc, const char *where, struct err *err)
{
	char said[sizeof(err->msg)];
	int code, sys;

	if (db->computed.code)
		return db_fail_computed(db, err);
	code = code_of(db, rc);
	sys = (rc & 0xff) == SQLITE_IOERR || (rc & 0xff) == SQLITE_CANTOPEN ? sqlite3_system_errno(db->native) : 0;
	if (code == ERR_IO && db->mode == DB_WRITER)
		db->dead = true;
	if (code == ERR_IO || code == ERR_AUDIT || code == ERR_CORRUPT)
		db->txn_rc = code;
	if (code == ERR_AUDIT)
		err_set(err, code, where, "no space is left on the disk of the store");
	else if (code == ERR_LIMIT && (db->memory_spent || (rc & 0xff) == SQLITE_NOMEM))
		err_set(err, code, where, "the query needs too much memory");
	else if (code == ERR_TIMEOUT)
		err_set(err, code, where, "the query took too long");
	else if (sys)
		err_set(err, code, where, "%s (%s)", sqlite3_errmsg(db->native), strerror(sys));
	else    /* it names things by the bytes of the file, which may be damaged, or hostile */
		err_set(err, code, where, "%s", text_printable(sqlite3_errmsg(db->native),
							       strlen(sqlite3_errmsg(db->native)),
							       said, sizeof(said)));
	return code;
}

/* Step a transaction control statement; 1: it has a row, which the caller reads and resets. */
static int run_control(struct db *db, enum db_ctl which, struct err *err)
{
	int rc = SQLITE_OK;

	if (!db->ctl[which])
		rc = sqlite3_prepare_v3(db->native, ctl_text[which], -1, SQLITE_PREPARE_PERSISTENT, &db->ctl[which],
					NULL);
	if (rc == SQLITE_OK) {
		rc = sqlite3_step(db->ctl[which]);
		if (rc == SQLITE_ROW)
			return 1;       /* the caller reads and resets */
		if (rc == SQLITE_DONE)
			rc = SQLITE_OK;
	}
	if (rc != SQLITE_OK) {
		int code = db_fail(db, rc, ctl_text[which], err);

		sqlite3_reset(db->ctl[which]);
		return code;
	}
	sqlite3_reset(db->ctl[which]);
	return 0;
}

int db_pragma(struct db *db, const char *sql, struct err *err)
{
	int rc = sqlite3_exec(db->native, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : db_fail(db, rc, sql, err);
}

int db_pragma_get(struct db *db, const char *name, char *ret, size_t size, struct err *err)
{
	sqlite3_stmt *st = NULL;
	char sql[80];
	int rc;

	snprintf(sql, sizeof(sql), "PRAGMA %s", name);
	rc = sqlite3_prepare_v2(db->native, sql, -1, &st, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(st, 0);

		snprintf(ret, size, "%s", text ? text : "");
		sqlite3_finalize(st);
		return 0;
	}
	if (rc == SQLITE_DONE)          /* mmap_size answers nothing when it is compiled out */
		rc = err_set(err, ERR_NOT_FOUND, sql, "no answer");
	else
		rc = db_fail(db, rc, sql, err);
	sqlite3_finalize(st);
	return rc;
}

int db_pragma_int(struct db *db, const char *name, int64_t *ret, struct err *err)
{
	char text[32];
	int rc = db_pragma_get(db, name, text, sizeof(text), err);

	if (rc < 0)
		return rc;
	*ret = strtoll(text, NULL, 10);
	return 0;
}

/* --- Upkeep of the file: checkpoints, the size of the log, backups. */

void db_give_back(struct db *db)
{
	if (!db->native)
		return;
	(void)sqlite3_db_release_memory(db->native);
}

int db_keep_pages(struct db *db, unsigned kib, struct err *err)
{
	char sql[40];

	(void)snprintf(sql, sizeof(sql), "PRAGMA cache_size=-%u", kib);
	return db_pragma(db, sql, err);
}

unsigned db_wal_pages(struct db *db)
{
	return db->wal_frames - db->wal_copied;
}

/* A checkpoint, how = SQLITE_CHECKPOINT_…; that readers are in the way is no error. */
static int db_wal_copy(struct db *db, int how, struct err *err)
{
	int frames = 0, copied = 0;
	int rc = sqlite3_wal_checkpoint_v2(db->native, "main", how, &frames, &copied);

	if (how == SQLITE_CHECKPOINT_TRUNCATE)
		CRASH_AT("wal.truncate");
	else
		CRASH_AT("wal.passive");

	if (rc != SQLITE_OK && rc != SQLITE_BUSY) {
		db->wal_stuck = db_wal_pages(db);
		return db_fail(db, rc, db->path, err);
	}
	if (frames >= 0 && copied >= 0) {
		db->wal_frames = (unsigned)frames;
		db->wal_copied = (unsigned)copied;
		db->wal_stuck = (unsigned)(frames - copied);
	}
	return 0;
}

int db_checkpoint(struct db *db, unsigned min_pages, struct err *err)
{
	assert(db->mode == DB_WRITER && !db->in_txn);
	if (!db->native)
		return 0;
	/* What a reader held back last time is not tried again before as much has come on top. */
	if (db_wal_pages(db) < min_pages + db->wal_stuck)
		return 0;
	return db_wal_copy(db, SQLITE_CHECKPOINT_PASSIVE, err);
}

int db_truncate_log(struct db *db, struct err *err)
{
	int frames = 0, copied = 0;

	assert(db->mode == DB_WRITER && !db->in_txn);
	if (!db->native)
		return 0;
	int rc = sqlite3_wal_checkpoint_v2(db->native, "main", SQLITE_CHECKPOINT_TRUNCATE, &frames, &copied);
	if (rc != SQLITE_OK)
		return db_fail(db, rc, db->path, err);
	db->wal_frames = db->wal_copied = db->wal_stuck = 0;
	return 0;
}

#ifdef BENCH_BUILD
int db_bench_no_sync(struct db *db, struct err *err)
{
	return db_pragma(db, "PRAGMA synchronous=off", err);
}
#endif

/* --- the connection */

enum {
	BUSY_WAIT_MS = 2000,            /* for locks of readers that recover or close */
	VALUE_MAX = 16 << 20,           /* one text or blob */
	SQL_MAX = 1 << 20,
	SCHEMA_MAX = 64 << 20,          /* memory to open a file; our schema takes less than 1 MiB */
	FOREIGN_OPS_MAX = 100000,       /* instructions of one program, not steps */
	FOREIGN_DEPTH_MAX = 200,
};

/* AUDIT A-621.  Text, not numbers: PRAGMAs answer in their own words. */
struct setting {
	const char *name, *set, *want;
	unsigned modes;                 /* bit per db_mode */
};
#define ON_WRITER (1u << DB_WRITER)
#define ON_READER (1u << DB_READER)
#define ON_FOREIGN (1u << DB_FOREIGN)
#define ON_REPORTER (1u << DB_REPORTER)
#define ON_SEALER (1u << DB_SEALER)
#define ON_SEGMENT (1u << DB_SEGMENT)
#define ON_ALL (ON_WRITER | ON_READER | ON_FOREIGN | ON_REPORTER | ON_SEALER | ON_SEGMENT)
static const struct setting settings[] = {
	{ "page_size", "8192", "8192", ON_SEALER },             /* before anything is written */
	{ "journal_mode", "wal", "wal", ON_WRITER },
	{ "journal_mode", "memory", "memory", ON_SEALER },      /* half a file goes; the next one deletes its journal */
	{ "synchronous", "full", "2", ON_WRITER | ON_SEALER },
	{ "wal_autocheckpoint", "0", "0", ON_WRITER | ON_READER | ON_REPORTER },      /* */
	{ "secure_delete", "on", "1", ON_WRITER },
	{ "foreign_keys", "on", "1", ON_WRITER },
	{ "trusted_schema", "off", "0", ON_ALL },
	{ "cell_size_check", "on", "1", ON_ALL },
	{ "mmap_size", "0", "0", ON_ALL },      /* an I/O error under mmap is SIGBUS */
	{ "temp_store", "memory", "2", ON_ALL & ~ON_REPORTER },
	{ "temp_store", "file", "1", ON_REPORTER },
	{ "cache_size", "-8192", "-8192", ON_REPORTER | ON_SEALER },
	{ "cache_size", "-1024", "-1024", ON_SEGMENT },         /* many are open at once (SCALE SC-108) */
	{ "cache_size", "-4096", "-4096", ON_WRITER },  /* each split walks through it (decision 0153) */
	{ "cache_size", "-2048", "-2048", ON_READER | ON_FOREIGN },
	{ "query_only", "on", "1", ON_READER | ON_FOREIGN | ON_REPORTER | ON_SEGMENT },
	{ "encoding", NULL, "UTF-8", ON_ALL & ~ON_FOREIGN },
	{ "page_size", NULL, "4096", ON_WRITER },
};

/* A store without a log is what db_backup() makes, and what no writer has had since: the store says so before it gets
 * its log, and until a record does. */
static int note_copy(struct db *db, struct err *err)
{
	sqlite3_stmt *st = NULL;
	int64_t id = 0;
	int rc = db_pragma_int(db, "application_id", &id, err);

	if (rc < 0 || id != DB_APPLICATION_ID)
		return rc;
	rc = sqlite3_prepare_v2(db->native, sql_sqlite[SQL_META_SET_VALUE].text, -1, &st, NULL);
	if (rc == SQLITE_OK) {
		sqlite3_bind_text(st, 1, DB_META_PUT_BACK, -1, SQLITE_STATIC);
		sqlite3_bind_text(st, 2, "1", -1, SQLITE_STATIC);
		rc = sqlite3_step(st);
	}
	rc = rc == SQLITE_DONE ? 0 : db_fail(db, rc, db->path, err);
	sqlite3_finalize(st);
	return rc;
}

static int apply(struct db *db, const struct setting *s, struct err *err)
{
	char sql[80], now[32];
	int rc;

	if (strcmp(s->name, "journal_mode") == 0) {
		rc = db_pragma_get(db, s->name, now, sizeof(now), err);
		if (rc < 0)
			return rc;
		if (strcmp(now, s->want) != 0)
			rc = note_copy(db, err);
		if (rc < 0)
			return rc;
	}
	if (s->set) {
		snprintf(sql, sizeof(sql), "PRAGMA %s=%s", s->name, s->set);
		rc = db_pragma(db, sql, err);
		if (rc < 0)
			return rc;
	}
	rc = db_pragma_get(db, s->name, now, sizeof(now), err);
	if (rc == ERR_NOT_FOUND && strcmp(s->want, "0") == 0)
		return 0;
	if (rc < 0)
		return rc;
	if (strcmp(now, s->want) != 0)
		return err_set(err, ERR_UNREACHABLE, db->path, "setting %s is %s and cannot be made %s", s->name, now,
			       s->want);
	return 0;
}

/* Nobody else writes, so a lock is held for moments only: by a reader that recovers the log, or closes. */
static int busy(void *arg, int count)
{
	const struct db *db = arg;
	struct timespec ms = { 0, 1000000 };

	if (count >= BUSY_WAIT_MS || (db->deadline_us && clock_mono_us() >= db->deadline_us))
		return 0;
	nanosleep(&ms, NULL);
	return 1;
}

static int wal_grown(void *arg, sqlite3 *native, const char *schema, int frames)
{
	struct db *db = arg;

	if ((unsigned)frames < db->wal_frames)          /* the log has begun anew */
		db->wal_copied = db->wal_stuck = 0;
	db->wal_frames = (unsigned)frames;
	return SQLITE_OK;
}

static void configure(struct db *db)
{
	sqlite3 *n = db->native;

	sqlite3_extended_result_codes(n, 1);
	sqlite3_busy_handler(n, busy, db);
	sqlite3_db_config(n, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(n, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);  /* before the first statement reads it */
	sqlite3_db_config(n, SQLITE_DBCONFIG_ENABLE_TRIGGER, db->mode == DB_WRITER, NULL);
	sqlite3_db_config(n, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
	sqlite3_db_config(n, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
	sqlite3_db_config(n, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
	sqlite3_db_config(n, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, db->mode != DB_WRITER, NULL);
	sqlite3_limit(n, SQLITE_LIMIT_LENGTH, VALUE_MAX);
	sqlite3_limit(n, SQLITE_LIMIT_SQL_LENGTH, SQL_MAX);
	sqlite3_limit(n, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_limit(n, SQLITE_LIMIT_WORKER_THREADS, 0);
	if (db->mode == DB_FOREIGN) {
		sqlite3_limit(n, SQLITE_LIMIT_VDBE_OP, FOREIGN_OPS_MAX);
		sqlite3_limit(n, SQLITE_LIMIT_EXPR_DEPTH, FOREIGN_DEPTH_MAX);
	}
}

static int refuse_own_store(struct db *db, struct err *err)
{
	int64_t id = 0;
	int rc = db_pragma_int(db, "application_id", &id, err);

	if (rc < 0)
		return rc;
	if (id == DB_APPLICATION_ID || id == DB_KEYS_APPLICATION_ID)
		return err_set(err, ERR_DENIED, db->path, "a toolcrib store cannot be a data source");
	return 0;
}

/* The first of them reads the schema, which is as long as whoever wrote the file liked.  The limit is that of all
 * connections, so that one comes after the other. */
static int apply_all(struct db *db, struct err *err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	sqlite3_int64 before, soft, now;
	int rc = 0;

	pthread_mutex_lock(&lock);
	before = sqlite3_hard_heap_limit64(-1);
	soft = sqlite3_soft_heap_limit64(-1);   /* a hard limit lowers it as well */
	now = sqlite3_memory_used() + SCHEMA_MAX;
	if (before == 0 || now < before)
		sqlite3_hard_heap_limit64(now);
	for (size_t i = 0; rc == 0 && i < NELEMS(settings); i++)
		if (settings[i].modes & 1u << db->mode)
			rc = apply(db, &settings[i], err);
	sqlite3_hard_heap_limit64(before);
	sqlite3_soft_heap_limit64(soft);
	pthread_mutex_unlock(&lock);
	return rc;
}

static int set_up(struct db *db, struct err *err)
{
	int rc;

	configure(db);
	rc = apply_all(db, err);
	if (rc == 0 && db->mode != DB_FOREIGN && db_row_define(db->native) != SQLITE_OK)
		rc = err_set(err, ERR_INTERNAL, db->path, "%s", sqlite3_errmsg(db->native));
	if (rc == 0 && db->mode == DB_WRITER) {
		sqlite3_wal_hook(db->native, wal_grown, db);    /* after wal_autocheckpoint, which takes it away */
		if (path_sync_parent(db->path, err) < 0)        /* AUDIT A-625: SQLite ignores a failure of its own */
			rc = err_set(err, ERR_UNREACHABLE, db->path, "cannot sync the directory");
	}
	if (rc == 0 && db->mode == DB_FOREIGN) {
		rc = refuse_own_store(db, err);
		db_guard_new(db);
	}
	if (rc < 0 && err)
		err_wrap(err, "%s", db->path);
	return rc;
}

/* ERR_AUDIT: the path leads elsewhere than to the file that is open. */
static int check_place(const char *path, struct db_place *at, struct err *err)
{
	struct stat st;
	int rc = stat(path, &st);

	if (rc != 0 && errno == ENOENT && !at->ino)
		return 0;
	if (rc == 0 && !at->ino)
		*at = (struct db_place){ st.st_dev, st.st_ino };
	if (rc == 0 && st.st_nlink == 1 && st.st_dev == at->dev && st.st_ino == at->ino)
		return 0;
	return err_set(err, ERR_AUDIT, path, rc == 0 ? "the file was replaced or linked while in use"
		       : "the file was moved or removed while in use");
}

/* AUDIT A-604: what is written to a file that nobody will find is not recorded.  Asked before each transaction, by
 * path: opening it would drop SQLite's locks. */
static int check_places(struct db *db, struct err *err)
{
	int rc = check_place(db->path, &db->at, err);

	return rc < 0 ? rc : check_place(db->wal, &db->wal_at, err);
}

static void lite_close(struct db *db)
{
	for (size_t i = 0; i < CTL__COUNT; i++)
		sqlite3_finalize(db->ctl[i]);
	/* After a failed flush what is in the log must wait for the recovery of the next start. */
	if (db->mode == DB_WRITER && !db->dead)
		(void)db_wal_copy(db, SQLITE_CHECKPOINT_TRUNCATE, NULL);        /* the next start does it */
	if (db->dead)
		sqlite3_db_config(db->native, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	sqlite3_close(db->native);
	arena_free(&db->tables_mem);
	arena_free(&db->views_mem);
	free(db->computed_names);
	free(db->wal);
}

/* AUDIT A-607: nobody but us may commit to the store.  Asked inside the transaction, so that nothing
 * can slip in between. */
static int check_data_version(struct db *db, struct err *err)
{
	int rc = run_control(db, CTL_DATA_VERSION, err);
	int64_t now;

	if (rc < 0)
		return rc;
	now = sqlite3_column_int64(db->ctl[CTL_DATA_VERSION], 0);
	sqlite3_reset(db->ctl[CTL_DATA_VERSION]);
	if (db->data_version && db->data_version != now) {
		db->dead = true;
		return err_set(err, ERR_CORRUPT, db->path, "another program has written to the store");
	}
	db->data_version = now;
	return 0;
}

static bool lite_alive(const struct db *db)
{
	return !sqlite3_get_autocommit(db->native);
}

static int lite_control(struct db *db, enum db_ctl what, struct err *err)
{
	int rc = 0;

	/* Some errors have undone the transaction already; a failing ROLLBACK leaves nothing to do. */
	if (what == CTL_ROLLBACK && !lite_alive(db))
		return 0;
	if (what == CTL_BEGIN_WRITE && db->wal)
		rc = check_places(db, err);
	if (rc == 0)
		rc = run_control(db, what, err);
	if (what == CTL_ITEM_UNDO)              /* of a ROLLBACK SQLite says it */
		db->undone++;
	if (rc < 0 || what != CTL_BEGIN_WRITE)
		return rc;
	rc = check_data_version(db, err);
	if (rc < 0 && lite_alive(db))
		(void)run_control(db, CTL_ROLLBACK, NULL);
	return rc;
}

static const struct db_engine sqlite = {
	.name = "sqlite", .sql = sql_sqlite, .close = lite_close, .control = lite_control, .alive = lite_alive,
	.start = lite_start, .step = lite_step, .reset = lite_reset, .finish = lite_finish, .columns = lite_columns,
	.type = lite_type, .i64 = lite_i64, .f64 = lite_f64, .text = lite_text, .blob = lite_blob,
	.row = lite_row, .column_name = lite_column_name, .last_id = lite_last_id, .changes = lite_changes,
};

struct db *db_new(enum db_mode mode, const char *path)
{
	struct db *db = mem_zalloc(sizeof(*db));

	db->engine = &sqlite;
	db->mode = mode;
	db->path = mem_strdup(path);
	return db;
}

int db_open_as(const char *name, const char *path, enum db_mode mode, struct db **ret, struct err *err)
{
#ifndef DB_EXTENSION
	static pthread_once_t once = PTHREAD_ONCE_INIT;
#endif
	int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
	struct db *db;
	int rc;

#ifndef DB_EXTENSION                    /* where the calls are those of another program */
	pthread_once(&once, db_set_calls);
#endif
	flags |= mode == DB_WRITER || mode == DB_SEALER ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
	flags |= mode == DB_SEGMENT ? SQLITE_OPEN_URI : 0;
	db = db_new(mode, path);
	rc = sqlite3_open_v2(name, &db->native, flags, DB_VFS(mode));
	if (rc != SQLITE_OK)
		rc = err_set(err, ERR_UNREACHABLE, path, "cannot open: %s",
			     sqlite3_system_errno(db->native) ? strerror(sqlite3_system_errno(db->native))
							     : sqlite3_errmsg(db->native));
	else
		rc = set_up(db, err);
	if (rc == 0 && mode == DB_WRITER) {
		db->wal = mem_printf("%s-wal", path);
		rc = check_places(db, err);
	}
	if (rc < 0) {
		db_close(&db);
		return rc;
	}
	*ret = db;
	return 0;
}

int db_open_model(struct db **ret, struct err *err)
{
	struct db *db = db_new(DB_WRITER, ":memory:");
	int rc;

	rc = sqlite3_open_v2(db->path, &db->native, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX,
			     NULL);
	if (rc != SQLITE_OK) {
		rc = db_fail(db, rc, db->path, err);
		db_close(&db);
		return rc;
	}
	configure(db);
	*ret = db;
	return 0;
}
