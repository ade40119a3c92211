/* A connection to SQLite: opening with settings that are read back, statements that are prepared once and lent out,
 * transactions, items, errors, the log and copies of the file.  Each connection belongs to one thread.  After a failed
 * flush it is never used again.  Foreign sources are in foreign.c, the schema in migrate.c, the lock in owner.c. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"

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

int db_row_define(sqlite3 *native)
{
	return sqlite3_create_function_v2(native, "row_out", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL, row_out, NULL,
					  NULL, NULL);
}

const struct db_value *db_row(struct db_stmt *st, unsigned n)
{
	struct db_row *row = st->row;

	/* A plan that sorts would have made all rows before the first one comes out. */
	if (!row || row->n != n || row->number != db_col_i64(st, 0))
		return NULL;
	for (unsigned i = 0; i < n; i++)
		if (row->v[i].type == DB_TEXT || row->v[i].type == DB_BLOB)
			row->v[i].p = row->bytes + row->at[i];
		else
			row->v[i].p = "";
	return row->v;
}

char *db_col_dup(struct db_stmt *st, unsigned col)
{
	size_t len;
	const char *text = db_col_text(st, col, &len);

	return mem_strndup(text, len);
}

void db_col_copy(struct db_stmt *st, unsigned col, char *ret, size_t size)
{
	size_t len;
	const char *text = db_col_text(st, col, &len);

	(void)snprintf(ret, size, "%.*s", (int)(len < size ? len : size - 1), text);
}

#define CANDIDATES_MAX 2000             /* names that "did you mean" looks at */

void db_did_you_mean(struct db_stmt **st, unsigned col, const char *word, struct err *err)
{
	char **names = mem_calloc(CANDIDATES_MAX, sizeof(*names));
	const char *near;
	size_t n = 0;

	while (n < CANDIDATES_MAX && db_step(*st, NULL) == 1) {
		size_t len;
		const char *text = db_col_text(*st, col, &len);

		names[n++] = mem_strndup(text, len);
	}
	db_stmt_put(st);
	near = text_nearest(word, (const char *const *)names, n);
	if (near)
		err_hint(err, "did you mean %s?", near);
	while (n > 0)
		free(names[--n]);
	free(names);
}

/* --- Statements: prepared once per connection, lent out, bound, stepped, read. */

struct db_stmt *db_stmt_new(struct db *db, const char *name, const char *text, unsigned params)
{
	struct db_stmt *st = mem_zalloc(sizeof(*st) + params * sizeof(st->bind[0]));

	st->db = db;
	st->engine = db->engine;
	st->name = name;
	st->text = text;
	st->params = params;
	return st;
}

struct db_stmt *db_stmt_get(struct db *db, enum sql_id id)
{
	const struct sql_text *sql = &db->engine->sql[id];
	struct db_stmt *st = db->named[id];

	/* The same statement inside its own loop gets a second program that lives until put. */
	if (!st || st->lent) {
		struct db_stmt *fresh = db_stmt_new(db, sql->name, sql->text, sql->params);

		fresh->temp = st != NULL;
		if (!st)
			db->named[id] = fresh;
		st = fresh;
	}
	st->lent = true;
	st->stepped = false;
	st->no_param = st->row_param = 0;
	st->bound = 0;
	db->lent++;
	return st;
}

static void stmt_free(struct db_stmt *st)
{
	st->engine->finish(st);
	free(st);
}

void db_stmt_put(struct db_stmt **stp)
{
	struct db_stmt *st = stp ? *stp : NULL;

	if (!st)
		return;
	*stp = NULL;
	assert(st->lent && st->db->lent);
	st->lent = false;
	st->db->lent--;
	if (st->temp)
		stmt_free(st);
	else
		st->engine->reset(st);
}

void db_stmt_free_all(struct db *db)
{
	for (size_t i = 0; i < SQL__COUNT; i++) {
		if (db->named[i])
			stmt_free(db->named[i]);
		db->named[i] = NULL;
	}
}

/* Values wait for the first step, which hands all of them over. */
static inline void bind(struct db_stmt *st, unsigned pos, struct db_value v)
{
	if (pos < 1 || pos > st->params) {
		st->no_param = pos;
		return;
	}
	st->bind[pos - 1] = v;
	if (pos <= 64)
		st->bound |= UINT64_C(1) << (pos - 1);
}

void db_bind_i64(struct db_stmt *st, unsigned pos, int64_t v)
{
	bind(st, pos, (struct db_value){ .type = DB_INT, .n = v });
}

void db_bind_f64(struct db_stmt *st, unsigned pos, double v)
{
	bind(st, pos, (struct db_value){ .type = DB_FLOAT, .d = v });
}

void db_bind_text(struct db_stmt *st, unsigned pos, const char *p, size_t len)
{
	bind(st, pos, (struct db_value){ .type = DB_TEXT, .p = p ? p : "", .len = len });
}

void db_bind_textz(struct db_stmt *st, unsigned pos, const char *z)
{
	if (z)
		db_bind_text(st, pos, z, strlen(z));
	else
		db_bind_null(st, pos);
}

void db_bind_blob(struct db_stmt *st, unsigned pos, const void *p, size_t len)
{
	bind(st, pos, (struct db_value){ .type = DB_BLOB, .p = p ? p : "", .len = len });
}

void db_bind_null(struct db_stmt *st, unsigned pos)
{
	bind(st, pos, (struct db_value){ .type = DB_NULL });
}

void db_bind_row(struct db_stmt *st, unsigned pos)
{
	db_bind_null(st, pos);
	st->row_param = pos;
}

/* What the caller forgot, before the first step of a named statement. */
static int check_bindings(const struct db_stmt *st, struct err *err)
{
	uint64_t all = st->params >= 64 ? UINT64_MAX : (UINT64_C(1) << st->params) - 1;

	if (st->no_param)
		return err_set(err, ERR_INTERNAL, st->name, "there is no parameter ?%u", st->no_param);
	if (st->text && st->bound != all)
		return err_set(err, ERR_INTERNAL, st->name, "parameter ?%d is not bound",
			       __builtin_ctzll(~st->bound) + 1);
	return 0;
}

static int start(struct db_stmt *st, struct err *err)
{
	int rc = check_bindings(st, err);

	if (rc == 0)
		rc = st->engine->start(st, err);
	st->stepped = rc == 0;
	return rc;
}

int db_step(struct db_stmt *st, struct err *err)
{
	int rc = st->stepped ? 0 : start(st, err);

	return rc < 0 ? rc : st->engine->step(st, err);
}

int db_run(struct db_stmt **st, struct err *err)
{
	int rc = db_step(*st, err);

	if (rc == 1)
		rc = err_set(err, ERR_INTERNAL, (*st)->name, "returned a row that nobody reads");
	db_stmt_put(st);
	return rc;
}

unsigned db_col_count(struct db_stmt *st)
{
	return st->engine->columns(st);
}

enum db_type db_col_type(struct db_stmt *st, unsigned col)
{
	return st->engine->type(st, col);
}

int64_t db_col_i64(struct db_stmt *st, unsigned col)
{
	return st->engine->i64(st, col);
}

double db_col_f64(struct db_stmt *st, unsigned col)
{
	return st->engine->f64(st, col);
}

const char *db_col_text(struct db_stmt *st, unsigned col, size_t *ret_len)
{
	return st->engine->text(st, col, ret_len);
}

const void *db_col_blob(struct db_stmt *st, unsigned col, size_t *ret_len)
{
	return st->engine->blob(st, col, ret_len);
}

const char *db_col_name(struct db_stmt *st, unsigned col)
{
	return st->engine->column_name(st, col);
}

int64_t db_last_id(struct db *db)
{
	return db->engine->last_id(db);
}

int64_t db_changes(struct db *db)
{
	return db->engine->changes(db);
}

/* --- SQLite: statements */

static int prepare(struct db_stmt *st)
{
	return st->native ? SQLITE_OK
		: sqlite3_prepare_v3(st->db->native, st->text, -1, SQLITE_PREPARE_PERSISTENT, &st->native, NULL);
}

static int lite_start(struct db_stmt *st, struct err *err)
{
	int rc = prepare(st);

	for (unsigned i = 0; rc == SQLITE_OK && i < st->params; i++) {
		const struct db_value *v = &st->bind[i];
		const int pos = (int)i + 1;

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
	if (rc == SQLITE_OK && st->row_param)
		rc = sqlite3_bind_pointer(st->native, (int)st->row_param, st, DB_ROW_POINTER, NULL);
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
}

static void lite_finish(struct db_stmt *st)
{
	sqlite3_finalize(st->native);
	db_row_free(&st->row);
}

static unsigned lite_columns(struct db_stmt *st)
{
	(void)prepare(st);                      /* its first step says what is wrong */
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
	const char *name = prepare(st) == SQLITE_OK ? sqlite3_column_name(st->native, (int)col) : NULL;

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

/* --- Upkeep of the file: checkpoints, the size of the log, backups. */

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
	/* What a reader held back last time is not tried again before as much has come on top. */
	if (db_wal_pages(db) < min_pages + db->wal_stuck)
		return 0;
	return db_wal_copy(db, SQLITE_CHECKPOINT_PASSIVE, err);
}

int db_truncate_log(struct db *db, struct err *err)
{
	int frames = 0, copied = 0;

	assert(db->mode == DB_WRITER && !db->in_txn);
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
	{ "cache_size", "-16384", "-16384", ON_WRITER },        /* 16 MiB: + 25 % rows/s against 2 MiB */
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
		db_foreign_guard(db);
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
	free(db->computed_names);
	free(db->wal);
}

/* AUDIT A-607: nobody but us may commit to the store.  Asked inside the transaction, so that nothing
 * can slip in between. */
static int check_data_version(struct db *db, struct err *err)
{
	int rc = db_ctl(db, CTL_DATA_VERSION, err);
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
		rc = db_ctl(db, what, err);
	if (rc < 0 || what != CTL_BEGIN_WRITE)
		return rc;
	rc = check_data_version(db, err);
	if (rc < 0 && lite_alive(db))
		(void)db_ctl(db, CTL_ROLLBACK, NULL);
	return rc;
}

static const struct db_engine sqlite = {
	.name = "sqlite", .sql = sql_sqlite, .close = lite_close, .control = lite_control, .alive = lite_alive,
	.start = lite_start, .step = lite_step, .reset = lite_reset, .finish = lite_finish, .columns = lite_columns,
	.type = lite_type, .i64 = lite_i64, .f64 = lite_f64, .text = lite_text, .blob = lite_blob,
	.column_name = lite_column_name, .last_id = lite_last_id, .changes = lite_changes,
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

int db_open(const char *path, enum db_mode mode, bool create, struct db **ret, struct err *err)
{
	int rc = 0;

	assert(mode == DB_WRITER || !create);
	if (create)
		rc = path_create(path, 0600, "", 0, err);       /* SQLite would make it 0644 */
	return rc < 0 && rc != ERR_CONFLICT ? rc : db_open_as(path, path, mode, ret, err);
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

/* --- the face again: transactions */

void db_close(struct db **dbp)
{
	struct db *db = dbp ? *dbp : NULL;

	if (!db)
		return;
	*dbp = NULL;
	assert(!db->lent);
	if (db->in_txn)
		(void)db_txn_end(db, ERR_CANCELLED, NULL);      /* nobody asked for what is left to stay */
	db_stmt_free_all(db);
	db->engine->close(db);
	free(db->path);
	free(db);
}

int db_txn_begin(struct db *db, bool write, struct err *err)
{
	int rc;

	assert(!db->in_txn && (!write || db->mode == DB_WRITER || db->mode == DB_SEALER));
	if (db->dead)
		return err_set(err, ERR_IO, db->path, "the store failed before; restart to recover");
	db->txn_rc = 0;
	rc = db->engine->control(db, write ? CTL_BEGIN_WRITE : CTL_BEGIN, err);
	if (rc < 0)
		return rc;
	db->in_txn = true;
	db->in_write = write;
	return 0;
}

int db_txn_end(struct db *db, int rc, struct err *err)
{
	assert(db->in_txn);
	db->in_txn = db->in_write = false;
	if (db->lent && rc >= 0)
		rc = err_set(err, ERR_INTERNAL, db->path, "%u statements are still open at the end of a transaction",
			     db->lent);
	if (rc >= 0 && !db->engine->alive(db))
		rc = err_set(err, db->txn_rc ? (enum err_code)db->txn_rc : ERR_INTERNAL, db->path,
			     "the transaction was given up before its end");
	if (rc >= 0) {
		int failed = db->engine->control(db, CTL_COMMIT, err);

		if (failed < 0)
			rc = failed;
	}
	if (rc < 0)
		(void)db->engine->control(db, CTL_ROLLBACK, NULL);
	return rc;
}

bool db_txn_alive(const struct db *db)
{
	return db->in_txn && db->engine->alive(db);
}

int db_item_begin(struct db *db, struct err *err)
{
	assert(db->in_write);
	return db->engine->control(db, CTL_ITEM, err);
}

int db_item_end(struct db *db, int rc, struct err *err)
{
	int failed;

	assert(db->in_write);
	if (!db->engine->alive(db))                     /* nothing left to go back to */
		return db->txn_rc ? db->txn_rc : err_set(err, ERR_INTERNAL, db->path, "the transaction is gone");
	failed = rc < 0 ? db->engine->control(db, CTL_ITEM_UNDO, NULL) : 0;
	if (failed == 0)
		failed = db->engine->control(db, CTL_ITEM_KEEP, rc < 0 ? NULL : err);
	return failed < 0 ? failed : rc;
}
