/*
 * What is not the store: data sources of the sql handler, with statements that came with a tool's definition, not with
 * us, where only reading gets past the authorizer, whatever the text says; copies of the store; how SQLite opens
 * what has a file's name, or none; and how it writes the log of who owns the store.
 */

#include "config.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "db/server.h"

#include "db_int.h"

enum { OPS_BETWEEN_LOOKS = 200 };       /* instructions between two looks at clock and memory: well under 1 ms */
#define MEMORY_MAX (256ll << 20)        /* bytes that SQLite may have more than when a query began: sorting, grouping */

/* Functions that compute from their arguments and the rows, and nothing else (SEC S-720).  What a later SQLite or an
 * extension that is linked into it brings along is refused until it stands here.  Operators are functions, too. */
static const char *const functions[] = {
	"abs", "char", "coalesce", "concat", "concat_ws", "format", "glob", "hex", "ifnull", "iif", "instr", "length",
		"like",
	"likelihood", "likely", "lower", "ltrim", "max", "min", "nullif", "octet_length", "printf", "quote", "random",
	"randomblob", "replace", "round", "rtrim", "sign", "soundex", "sqlite_version", "substr", "substring", "trim",
	"typeof", "unhex", "unicode", "unlikely", "upper", "zeroblob",
	"avg", "count", "group_concat", "string_agg", "sum", "total",
	"cume_dist", "dense_rank", "first_value", "lag", "last_value", "lead", "nth_value", "ntile", "percent_rank",
		"rank",
	"row_number",
	"current_date", "current_time", "current_timestamp", "date", "datetime", "julianday", "strftime", "time",
		"timediff",
	"unixepoch",
	"acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "ceiling", "cos", "cosh", "degrees", "exp",
		"floor",
	"ln", "log", "log10", "log2", "mod", "pi", "pow", "power", "radians", "sin", "sinh", "sqrt", "tan", "tanh",
		"trunc",
	"->", "->>", "json", "json_array", "json_array_length", "json_error_position", "json_extract",
		"json_group_array",
	"json_group_object", "json_insert", "json_object", "json_patch", "json_pretty", "json_quote", "json_remove",
	"json_replace", "json_set", "json_type", "json_valid",
	"bm25", "highlight", "match", "snippet",
};

/* Once for each use in a statement, when it is compiled. */
static bool may_call(const char *name)
{
	for (size_t i = 0; name && i < NELEMS(functions); i++) {
		if (sqlite3_stricmp(name, functions[i]) == 0)
			return true;
	}
	return false;
}

/* SQLite knows the table of all tables by its old name. */
static const char *real_name(const char *table)
{
	return sqlite3_stricmp(table, "sqlite_schema") == 0 ? "sqlite_master" : table;
}

/* table: the name that it has in its schema, whatever the statement calls it.  The name of the view or of the WITH by
 * which it is read says nothing: a statement may call its own parts as it likes. */
static bool may_read(const struct db *db, const char *table)
{
	for (size_t i = 0; table && i < db->ntables; i++) {
		if (sqlite3_stricmp(real_name(db->tables[i]), real_name(table)) == 0)
			return true;
	}
	return db->ntables == 0 || db->asks ||
		(table && (sqlite3_stricmp(table, "json_each") == 0 || sqlite3_stricmp(table, "json_tree") == 0));
}

static int authorize(void *arg, int action, const char *a, const char *b, const char *schema, const char *trigger)
{
	const struct db *db = arg;

	switch (action) {
	case SQLITE_READ:
		return may_read(db, a) ? SQLITE_OK : SQLITE_DENY;
	case SQLITE_SELECT:
	case SQLITE_RECURSIVE:
		return SQLITE_OK;
	case SQLITE_FUNCTION:
		return may_call(b) ? SQLITE_OK : SQLITE_DENY;
	case SQLITE_PRAGMA:             /* full-text tables look whether others have written */
		return !db->compiling && !b && sqlite3_stricmp(a, "data_version") == 0 ? SQLITE_OK : SQLITE_DENY;
	default:
		return SQLITE_DENY;
	}
}

/* The table functions over JSON declare themselves at their first use, which the authorizer takes for a
 * CREATE TABLE; so they are used once before it is set. */
static void declare_table_functions(struct db *db)
{
	static const char *const uses[] = { "SELECT 1 FROM json_each('[]')", "SELECT 1 FROM json_tree('[]')",
					    "SELECT 1 FROM pragma_page_count", "SELECT 1 FROM pragma_page_size",
					    "SELECT 1 FROM pragma_freelist_count", "SELECT 1 FROM dbstat" };

	for (size_t i = 0; i < (db->mode == DB_REPORTER ? NELEMS(uses) : 2); i++) {
		sqlite3_stmt *st = NULL;

		(void)sqlite3_prepare_v2(db->native, uses[i], -1, &st, NULL);   /* a SQLite without them has none */
		sqlite3_finalize(st);
	}
}

/* So does a full-text table, which then reads its own settings; it is connected until the schema changes. */
static void connect_full_text(struct db *db)
{
	static const char list[] = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage = 0 "
		"AND sql LIKE 'CREATE VIRTUAL TABLE % USING fts%' LIMIT 256";
	sqlite3_stmt *names = NULL, *st = NULL;

	if (sqlite3_prepare_v2(db->native, list, -1, &names, NULL) != SQLITE_OK)
		return;                         /* no database: the first statement says so */
	while (sqlite3_step(names) == SQLITE_ROW) {
		char *use = sqlite3_mprintf("SELECT 1 FROM \"%w\"", (const char *)sqlite3_column_text(names, 0));

		if (use)
			(void)sqlite3_prepare_v2(db->native, use, -1, &st, NULL);       /* whoever reads it hears why not */
		sqlite3_finalize(st);
		sqlite3_free(use);
		st = NULL;
	}
	sqlite3_finalize(names);
}

bool db_foreign_is_old(const struct err *err)
{
	return err->code == ERR_INVALID && strstr(err->msg, "vtable constructor failed");
}

/* Of the release's own statements, so that a mistake in one shows nothing that its report does not (SCALE SC-504). */
static int authorize_report(void *arg, int action, const char *a, const char *b, const char *schema,
			    const char *trigger)
{
	const struct db *db = arg;

	switch (action) {
	case SQLITE_READ:
		return db->may(db->may_arg, a ? a : "", b ? b : "") ? SQLITE_OK : SQLITE_DENY;
	case SQLITE_SELECT:
	case SQLITE_RECURSIVE:
		return SQLITE_OK;
	case SQLITE_FUNCTION:
		return may_call(b) || sqlite3_stricmp(b, "row_out") == 0 ? SQLITE_OK : SQLITE_DENY;
	case SQLITE_PRAGMA:             /* what the functions pragma_… ask */
		return !b && db->may(db->may_arg, "pragma", a) ? SQLITE_OK : SQLITE_DENY;
	default:
		return SQLITE_DENY;
	}
}

void db_guard_new(struct db *db)
{
	declare_table_functions(db);
	if (db->mode == DB_FOREIGN)
		connect_full_text(db);
	sqlite3_set_authorizer(db->native, db->mode == DB_FOREIGN ? authorize : authorize_report, db);
}

void db_guard(struct db *db, bool on)
{
	if (db->guest)          /* what its program allows is its own */
		return;
	on = on && db->mode == DB_REPORTER && db->may;
	sqlite3_set_authorizer(db->native, on ? authorize_report : NULL, db);
}

void db_foreign_tables(struct db *db, const char *const *tables, size_t n)
{
	assert(db->mode == DB_FOREIGN && !db->tables && !db->lent);
	if (n == 0)
		return;
	db->tables_mem = arena_new(SIZE_MAX);
	db->tables = arena_alloc(db->tables_mem, n * sizeof(*db->tables));
	for (; db->ntables < n; db->ntables++)
		db->tables[db->ntables] = arena_strdup(db->tables_mem, tables[db->ntables]);
}

void db_memory_max(uint64_t bytes)
{
	(void)sqlite3_hard_heap_limit64((int64_t)bytes);
}

int db_foreign_check(const char *path, const char *store, struct err *err)
{
	struct stat st, inside;
	DIR *dir = store ? opendir(store) : NULL;
	int rc = path_is_file(path, err);

	if (rc == 0 && dir && stat(path, &st) == 0) {
		for (struct dirent *e; rc == 0 && (e = readdir(dir)) != NULL; ) {
			if (fstatat(dirfd(dir), e->d_name, &inside, AT_SYMLINK_NOFOLLOW) == 0 &&
			    inside.st_ino == st.st_ino &&
			    inside.st_dev == st.st_dev)
				rc = err_set(err, ERR_DENIED, path,
					     "%s is a file of the store, which is no data source", path);
		}
	}
	if (dir)
		closedir(dir);
	return rc;
}

/* Which tables there are to be read, as far as there is room. */
static int refused_table(struct db *db, const char *why, struct err *err)
{
	struct str names = STR_INIT;
	int rc;

	for (size_t i = 0; i < db->ntables; i++)
		str_printf(&names, "%s%s", i ? ", " : "", db->tables[i]);
	rc = err_set(err, ERR_INVALID, "sql", "%s; these tables may be read: %s", why, str_text(&names));
	str_fini(&names);
	return rc;
}

static int refused(struct db *db, int rc, struct err *err)
{
	int at = sqlite3_error_offset(db->native);

	if (rc == SQLITE_AUTH && db->ntables > 0 && !strstr(sqlite3_errmsg(db->native), "function"))
		return refused_table(db, sqlite3_errmsg(db->native), err);
	if (rc == SQLITE_AUTH)
		return err_set(err, ERR_INVALID, "sql", "only reading is allowed, and functions that compute: %s",
			       sqlite3_errmsg(db->native));
	if ((rc & 0xff) != SQLITE_ERROR)
		return db_fail(db, rc, "sql", err);
	if (at >= 0)
		return err_set(err, ERR_INVALID, "sql", "%s (at byte %d)", sqlite3_errmsg(db->native), at);
	return err_set(err, ERR_INVALID, "sql", "%s", sqlite3_errmsg(db->native));
}

/* True when nothing but blanks, comments and semicolons follows. */
static bool at_end(struct db *db, const char *tail, const char *end)
{
	while (tail < end) {
		sqlite3_stmt *next = NULL;
		const char *from = tail;
		bool more;

		if (sqlite3_prepare_v3(db->native, tail, (int)(end - tail), 0, &next, &tail) != SQLITE_OK)
			return false;
		more = next != NULL;
		sqlite3_finalize(next);
		if (more)
			return false;
		if (tail == from)
			break;
	}
	return true;
}

/* The authorizer is not told of each table: one that is joined by USING and gives no column is none that it hears of.
 * What a program opens it says itself, so that is looked at as well. */

/* The table whose rows, or whose index, begin at this page. */
static bool may_open(struct db *db, sqlite3_stmt *tables, sqlite3_int64 page)
{
	bool may = false;

	if (page == 1)
		return may_read(db, "sqlite_master");
	sqlite3_reset(tables);
	sqlite3_bind_int64(tables, 1, page);
	while (sqlite3_step(tables) == SQLITE_ROW)
		may = may_read(db, (const char *)sqlite3_column_text(tables, 0));
	return may;
}

/* Virtual tables have no page: of those that are stored, all must be allowed before any is opened. */
static bool may_open_virtual(struct db *db, sqlite3_stmt *tables)
{
	bool may = true;

	sqlite3_reset(tables);
	sqlite3_bind_int64(tables, 1, 0);
	while (sqlite3_step(tables) == SQLITE_ROW)
		may = may && may_read(db, (const char *)sqlite3_column_text(tables, 0));
	return may;
}

/* One instruction of a program: columns of EXPLAIN are address, name, p1, p2, p3. */
static bool may_run(struct db *db, sqlite3_stmt *program, sqlite3_stmt *tables)
{
	const char *name = (const char *)sqlite3_column_text(program, 1);

	if (strcmp(name, "VOpen") == 0)
		return may_open_virtual(db, tables);
	if (strncmp(name, "OpenRead", 8) != 0 && strncmp(name, "OpenWrite", 9) != 0 && strncmp(name, "Reopen", 6) != 0)
		return true;
	return sqlite3_column_int(program, 4) == 0 && may_open(db, tables, sqlite3_column_int64(program, 3));
}

static bool opens_nothing_else(struct db *db, const char *sql, size_t len)
{
	static const char list[] = "SELECT tbl_name FROM sqlite_schema WHERE rootpage = ?1 AND type IN ('table', 'index')";
	char *explain = mem_printf("EXPLAIN %.*s", (int)len, sql);
	sqlite3_stmt *program = NULL, *tables = NULL;
	int rc = sqlite3_prepare_v3(db->native, explain, -1, 0, &program, NULL);
	bool may = rc == SQLITE_OK && program && sqlite3_stmt_isexplain(program) == 1;

	db->asks = true;
	rc = sqlite3_prepare_v3(db->native, list, -1, 0, &tables, NULL);
	db->asks = false;
	may = may && rc == SQLITE_OK;
	while (may && (rc = sqlite3_step(program)) == SQLITE_ROW)
		may = may_run(db, program, tables);
	sqlite3_finalize(program);
	sqlite3_finalize(tables);
	free(explain);
	return may && rc == SQLITE_DONE;
}

static int compile(struct db *db, const char *sql, size_t len, struct db_stmt **ret, struct err *err)
{
	struct db_stmt *st;
	sqlite3_stmt *native = NULL;
	const char *tail = NULL;
	int rc;

	assert(db->mode == DB_FOREIGN);
	if (len > INT_MAX || memchr(sql, 0, len))
		return err_set(err, ERR_INVALID, "sql", "the statement is too long or holds a NUL byte");
	rc = sqlite3_prepare_v3(db->native, sql, (int)len, 0, &native, &tail);
	if (rc != SQLITE_OK)
		return refused(db, rc, err);
	if (!native)
		return err_set(err, ERR_INVALID, "sql", "the statement is empty");
	if (!sqlite3_stmt_readonly(native) || sqlite3_stmt_isexplain(native) || sqlite3_column_count(native) == 0) {
		sqlite3_finalize(native);
		return err_set(err, ERR_INVALID, "sql", "only a SELECT is allowed");
	}
	if (!at_end(db, tail, sql + len)) {
		sqlite3_finalize(native);
		return err_set(err, ERR_INVALID, "sql", "one statement is allowed, another text follows it");
	}
	if (db->ntables > 0 && !opens_nothing_else(db, sql, len)) {
		sqlite3_finalize(native);
		return refused_table(db, "it reads another table", err);
	}
	st = db_stmt_new(db, "sql", NULL, (unsigned)sqlite3_bind_parameter_count(native));
	st->native = native;
	st->lent = st->temp = true;
	db->lent++;
	*ret = st;
	return 0;
}

int db_stmt_adhoc(struct db *db, const char *sql, size_t len, struct db_stmt **ret, struct err *err)
{
	int rc;

	db->compiling = true;
	rc = compile(db, sql, len, ret, err);
	db->compiling = false;
	return rc;
}

void db_stmt_again(struct db_stmt *st)
{
	st->engine->reset(st);
	memset(st->bind, 0, st->params * sizeof(st->bind[0]));
	st->stepped = false;
	st->no_param = 0;
	st->bound = 0;
}

unsigned db_param_index(struct db_stmt *st, const char *name)
{
	return (unsigned)sqlite3_bind_parameter_index(st->native, name);
}

unsigned db_param_count(struct db_stmt *st)
{
	return st->params;
}

const char *db_param_name(struct db_stmt *st, unsigned pos)
{
	return sqlite3_bind_parameter_name(st->native, (int)pos);
}

/* The memory is that of all connections: a query may fail for another's greed, but none takes all there is. */
static int look(void *arg)
{
	struct db *db = arg;

	db->memory_spent = sqlite3_memory_used() > db->memory_max;
	return db->memory_spent || (db->deadline_us && clock_mono_us() >= db->deadline_us);
}

void db_deadline(struct db *db, uint64_t mono_us)
{
	if (db->engine->deadline) {
		db->engine->deadline(db, mono_us);
		return;
	}
	db->deadline_us = mono_us;
	db->memory_max = sqlite3_memory_used() + MEMORY_MAX;
	sqlite3_progress_handler(db->native, OPS_BETWEEN_LOOKS, look, db);
}

void db_interrupt(struct db *db)
{
	if (db->engine->interrupt)
		db->engine->interrupt(db);
	else
		sqlite3_interrupt(db->native);
}

/* --- copies, and SQLite's calls */

/* What a peer has lent us, or we have opened, has a name for SQLite that nobody else has, and no file of that name. */
static _Thread_local const char *copy_name;
static _Thread_local int copy_fd;

static bool is_copy(const char *path)
{
	return copy_name && strcmp(path, copy_name) == 0;
}

/* SQLite opens what has the name, the log beside it as well, and would wait for the writer of a FIFO (HARDENING F-11).
 * It asks for directories too, to sync them, and for random bytes. */
static int open_file(const char *path, int flags, int mode)
{
	int fd = is_copy(path) ? fcntl(copy_fd, F_DUPFD_CLOEXEC, 3) : open(path, flags | O_NONBLOCK | O_NOCTTY, (mode_t)mode);
	struct stat st;

	if (fd < 0 || (fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) ||
	    strcmp(path, "/dev/urandom") == 0)
		return fd;
	close(fd);
	errno = EINVAL;
	return -1;
}

static int stat_file(const char *path, struct stat *ret)
{
	return is_copy(path) ? fstat(copy_fd, ret) : stat(path, ret);
}

void db_set_calls(void)
{
	sqlite3_vfs *vfs = sqlite3_vfs_find("unix");

	if (!vfs || vfs->iVersion < 3)
		return;
	(void)vfs->xSetSystemCall(vfs, "open", (sqlite3_syscall_ptr)open_file);
	(void)vfs->xSetSystemCall(vfs, "stat", (sqlite3_syscall_ptr)stat_file);
}

int db_open_fd(int fd, const char *path, enum db_mode mode, struct db **ret, struct err *err)
{
	char uri[80], *name = mem_printf("/toolcrib-fd-%d", fd);
	int rc;

	/* SQLite follows links of a name by itself; of this one there are none.  In another program it has to. */
#ifdef DB_EXTENSION
	(void)snprintf(uri, sizeof(uri), "file:/proc/self/fd/%d?immutable=1", fd);
#else
	(void)snprintf(uri, sizeof(uri), "file:%s?immutable=1", name);
#endif
	copy_name = name;
	copy_fd = fd;
	rc = db_open_as(uri, path, mode, ret, err);
	copy_name = NULL;
	free(name);
	return rc;
}

/* The copy is a write for query_only and an attached file for the limit. */
static int copy_into(struct db *db, const char *path, struct err *err)
{
	struct db_stmt *st;
	int rc = db_pragma(db, "PRAGMA query_only=off", err);

	sqlite3_limit(db->native, SQLITE_LIMIT_ATTACHED, 1);
	if (rc == 0) {
		st = db_stmt_get(db, SQL_META_BACKUP);
		db_bind_textz(st, 1, path);
		rc = db_run(&st, err);
	}
	sqlite3_limit(db->native, SQLITE_LIMIT_ATTACHED, 0);
	if (db_pragma(db, "PRAGMA query_only=on", rc < 0 ? NULL : err) < 0 && rc == 0)
		rc = ERR_INTERNAL;
	return rc;
}

int db_backup(struct db *db, const char *path, struct err *err)
{
	struct db *plain = NULL;
	bool is_lent = false;
	char *name;
	int fd = -1, rc;

	assert(db->mode == DB_READER);
	if (db_is_shared(db)) {
		rc = err_set(err, ERR_CONFLICT, path, "a store on PostgreSQL is not copied into a file");
		err_hint(err, "back up the database with its own tools, and master.key and the signer's folder beside it");
		return rc;
	}
	/* VACUUM makes the indexes of a table by its name, which a temporary one would hide. */
	rc = db->computed_names ? db_open_as(db->path, db->path, DB_READER, &plain, err) : 0;
	if (rc < 0)
		return rc;
	rc = path_make(path, &fd, &is_lent, err);       /* VACUUM INTO takes an empty file, and keeps its mode */
	if (rc < 0) {
		db_close(&plain);
		return rc;
	}
	name = is_lent ? mem_printf("%s-copy-%d", db->path, fd) : mem_strdup(path);
	copy_name = is_lent ? name : NULL;
	copy_fd = fd;
	rc = copy_into(plain ? plain : db, name, err);
	db_close(&plain);
	copy_name = NULL;
	if (rc == 0 && fsync(fd) != 0)
		rc = err_set(err, ERR_IO, path, "cannot sync the copy: %s", strerror(errno));
	close(fd);
	if (rc == 0 && !is_lent)
		rc = path_sync_parent(path, err);
	free(name);
	if (rc < 0)
		path_unmake(path);
	return rc;
}

#ifndef DB_EXTENSION
/* --- one write for each commit (decision 0139) */

/* SQLite writes a frame of the log as two: head and page (walWriteOneFrame() of its wal.c; file format, 4.1).
 * What is to be written goes on at the end of what waits, or that goes first.  So it does before anything else
 * is done with the file, and when the last frame of a commit is there, which its head says: readers follow the
 * log's index, which is written behind that. */
enum { FRAME_HEAD = 24 };

struct log_file {
	sqlite3_file base;
	sqlite3_file *real;
	uint8_t *p; size_t len, room;   /* waits, from position `at` on */
	sqlite3_int64 at;
	sqlite3_int64 last;             /* where the page of a commit's last frame comes; -1: its head is not there yet */
};

static struct { pthread_once_t once; sqlite3_vfs vfs; } log_vfs = { .once = PTHREAD_ONCE_INIT };

static struct log_file *log_file(sqlite3_file *f)
{
	return (struct log_file *)(void *)f;
}

/* What fails is not tried again: SQLite gives the transaction up. */
static int write_out(struct log_file *f)
{
	const size_t len = f->len;

	f->len = 0;
	f->last = -1;
	return len == 0 ? SQLITE_OK : f->real->pMethods->xWrite(f->real, f->p, (int)len, f->at);
}

static int log_write(sqlite3_file *file, const void *p, int size, sqlite3_int64 at)
{
	struct log_file *f = log_file(file);
	const size_t n = (size_t)size;
	const bool goes_on = at == f->at + (sqlite3_int64)f->len && n <= DB_WAL_WAITS_MAX - f->len;
	const sqlite3_int64 last = f->last;
	int rc = goes_on ? SQLITE_OK : write_out(f);

	if (rc != SQLITE_OK || n > DB_WAL_WAITS_MAX)
		return rc != SQLITE_OK ? rc : f->real->pMethods->xWrite(f->real, p, size, at);
	if (f->len + n > f->room) {
		f->room = f->len + n > 2 * f->room ? f->len + n : 2 * f->room;
		f->p = mem_realloc(f->p, f->room);
	}
	if (f->len == 0)
		f->at = at;
	memcpy(f->p + f->len, p, n);
	f->len += n;
	f->last = n == FRAME_HEAD && memcmp((const uint8_t *)p + 4, "\0\0\0", 4) != 0 ? at + size : -1;
	return at == last ? write_out(f) : SQLITE_OK;
}

static int log_close(sqlite3_file *file)
{
	struct log_file *f = log_file(file);
	int rc = f->real->pMethods->xClose(f->real);    /* what still waits belongs to no commit */

	free(f->real);
	free(f->p);
	return rc;
}

static int log_read(sqlite3_file *file, void *p, int n, sqlite3_int64 at)
{
	int rc = write_out(log_file(file));

	return rc != SQLITE_OK ? rc : log_file(file)->real->pMethods->xRead(log_file(file)->real, p, n, at);
}

static int log_truncate(sqlite3_file *file, sqlite3_int64 n)
{
	int rc = write_out(log_file(file));

	return rc != SQLITE_OK ? rc : log_file(file)->real->pMethods->xTruncate(log_file(file)->real, n);
}

static int log_sync(sqlite3_file *file, int flags)
{
	int rc = write_out(log_file(file));

	return rc != SQLITE_OK ? rc : log_file(file)->real->pMethods->xSync(log_file(file)->real, flags);
}

static int log_size(sqlite3_file *file, sqlite3_int64 *ret)
{
	int rc = write_out(log_file(file));

	return rc != SQLITE_OK ? rc : log_file(file)->real->pMethods->xFileSize(log_file(file)->real, ret);
}

static int log_lock(sqlite3_file *file, int level)
{
	return log_file(file)->real->pMethods->xLock(log_file(file)->real, level);
}

static int log_unlock(sqlite3_file *file, int level)
{
	return log_file(file)->real->pMethods->xUnlock(log_file(file)->real, level);
}

static int log_reserved(sqlite3_file *file, int *ret)
{
	return log_file(file)->real->pMethods->xCheckReservedLock(log_file(file)->real, ret);
}

static int log_control(sqlite3_file *file, int op, void *arg)
{
	return log_file(file)->real->pMethods->xFileControl(log_file(file)->real, op, arg);
}

static int log_sector(sqlite3_file *file)
{
	return log_file(file)->real->pMethods->xSectorSize(log_file(file)->real);
}

static int log_traits(sqlite3_file *file)
{
	return log_file(file)->real->pMethods->xDeviceCharacteristics(log_file(file)->real);
}

static const sqlite3_io_methods log_methods = {
	.iVersion = 1, .xClose = log_close, .xRead = log_read, .xWrite = log_write, .xTruncate = log_truncate,
	.xSync = log_sync, .xFileSize = log_size, .xLock = log_lock, .xUnlock = log_unlock,
	.xCheckReservedLock = log_reserved, .xFileControl = log_control, .xSectorSize = log_sector,
	.xDeviceCharacteristics = log_traits,
};

/* All other files are those of the default VFS, without anything in between. */
static int log_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
	sqlite3_vfs *real = sqlite3_vfs_find(NULL);
	struct log_file *f = log_file(file);
	int rc;

	assert(real->szOsFile <= vfs->szOsFile);
	if (!(flags & SQLITE_OPEN_WAL))
		return real->xOpen(real, name, file, flags, ret_flags);
	*f = (struct log_file){ .real = mem_zalloc((size_t)real->szOsFile), .last = -1 };
	rc = real->xOpen(real, name, f->real, flags, ret_flags);
	if (f->real->pMethods)
		f->base.pMethods = &log_methods;
	else
		free(f->real);
	return rc;
}

static void make_vfs(void)
{
	log_vfs.vfs = *sqlite3_vfs_find(NULL);
	log_vfs.vfs.zName = "toolcrib-writer";
	log_vfs.vfs.pNext = NULL;
	log_vfs.vfs.xOpen = log_open;
	if (log_vfs.vfs.szOsFile < (int)sizeof(struct log_file))
		log_vfs.vfs.szOsFile = sizeof(struct log_file);
	(void)sqlite3_vfs_register(&log_vfs.vfs, 0);    /* else it is not found when a file is opened */
}

const char *db_wal_vfs(void)
{
	pthread_once(&log_vfs.once, make_vfs);
	return log_vfs.vfs.zName;
}
#endif
