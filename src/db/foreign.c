/*
 * Data sources of the sql handler: statements that came with a tool's definition, not with us.  Only
 * reading gets past the authorizer, whatever the text says.
 */

#include "config.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "db/db.h"

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

static int authorize(void *arg, int action, const char *a, const char *b, const char *schema, const char *trigger)
{
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_READ:
	case SQLITE_RECURSIVE:
		return SQLITE_OK;
	case SQLITE_FUNCTION:
		return may_call(b) ? SQLITE_OK : SQLITE_DENY;
	default:
		return SQLITE_DENY;
	}
}

/* The table functions over JSON declare themselves at their first use, which the authorizer takes for a
 * CREATE TABLE; so they are used once before it is set. */
static void declare_table_functions(struct db *db)
{
	static const char *const uses[] = { "SELECT 1 FROM json_each('[]')", "SELECT 1 FROM json_tree('[]')" };

	for (size_t i = 0; i < NELEMS(uses); i++) {
		sqlite3_stmt *st = NULL;

		(void)sqlite3_prepare_v2(db->native, uses[i], -1, &st, NULL);   /* a SQLite without them has none */
		sqlite3_finalize(st);
	}
}

void db_foreign_guard(struct db *db)
{
	declare_table_functions(db);
	sqlite3_set_authorizer(db->native, authorize, NULL);
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

static int refused(struct db *db, int rc, struct err *err)
{
	int at = sqlite3_error_offset(db->native);

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

int db_stmt_adhoc(struct db *db, const char *sql, size_t len, struct db_stmt **ret, struct err *err)
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
	st = mem_zalloc(sizeof(*st));
	st->db = db;
	st->native = native;
	st->name = "sql";
	st->lent = st->temp = true;
	db->lent++;
	*ret = st;
	return 0;
}

unsigned db_param_index(struct db_stmt *st, const char *name)
{
	return (unsigned)sqlite3_bind_parameter_index(st->native, name);
}

unsigned db_param_count(struct db_stmt *st)
{
	return (unsigned)sqlite3_bind_parameter_count(st->native);
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
	db->deadline_us = mono_us;
	db->memory_max = sqlite3_memory_used() + MEMORY_MAX;
	sqlite3_progress_handler(db->native, OPS_BETWEEN_LOOKS, look, db);
}

void db_interrupt(struct db *db)
{
	sqlite3_interrupt(db->native);
}
