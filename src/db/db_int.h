#ifndef DB_DB_INT_H
#define DB_DB_INT_H

#include <string.h>

#include "base/err.h"
#include "base/crypto.h"
#include "db/db.h"

#ifdef DB_EXTENSION             /* of somebody else's SQLite: src/forms/extension.c */
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT3
#else
#include <sqlite3.h>
#endif
#include <sys/types.h>

/* Inside of src/db: the connection and the statement. */

enum db_ctl { CTL_BEGIN, CTL_BEGIN_WRITE, CTL_COMMIT, CTL_ROLLBACK, CTL_ITEM, CTL_ITEM_KEEP, CTL_ITEM_UNDO,
	CTL_DATA_VERSION, CTL__COUNT };

/* Where a file of the store was when it was opened; ino 0 = not seen yet. */
struct db_place { dev_t dev; ino_t ino; };
struct pg_conn;

/* What an engine does for db.c, which is the face of all.  Values wait in st->bind: an engine is asked once for all
 * of a statement, not for each. */
struct db_engine {
	const char *name;
	const struct sql_text *sql;             /* by enum sql_id */
	void (*close)(struct db *db);           /* what is the engine's; db.c frees the rest */
	int (*control)(struct db *db, enum db_ctl what, struct err *err);
	bool (*alive)(const struct db *db);     /* a transaction is there, which the engine has not undone */
	int (*start)(struct db_stmt *st, struct err *err);      /* compiled at its first use, with st->bind[] */
	int (*step)(struct db_stmt *st, struct err *err);       /* 1 = a row, 0 = done */
	void (*reset)(struct db_stmt *st);      /* what st->bind[] leads to is the caller's again */
	void (*finish)(struct db_stmt *st);
	unsigned (*columns)(struct db_stmt *st);                /* also before its start, as column_name */
	const char *(*column_name)(struct db_stmt *st, unsigned col);
	enum db_type (*type)(const struct db_stmt *st, unsigned col);
	int64_t (*i64)(const struct db_stmt *st, unsigned col);
	double (*f64)(const struct db_stmt *st, unsigned col);
	const char *(*text)(const struct db_stmt *st, unsigned col, size_t *ret_len);
	const void *(*blob)(const struct db_stmt *st, unsigned col, size_t *ret_len);
	const struct db_value *(*row)(struct db_stmt *st, unsigned n);  /* db_row() */
	int64_t (*last_id)(const struct db *db), (*changes)(const struct db *db);
	/* NULL of SQLite, whose own are behind the face in migrate.c and foreign.c: */
	int (*migrate)(struct db *db, bool keys, struct err *err);
	int (*version)(struct db *db, int *ret, struct err *err);
	void (*deadline)(struct db *db, uint64_t mono_us);
	void (*interrupt)(struct db *db);       /* any thread */
};

struct db {
	const struct db_engine *engine;
	sqlite3 *native;
	struct pg_conn *pg;
	enum db_mode mode;
	char *path;
	struct db_stmt *named[SQL__COUNT];      /* prepared at first use */
	sqlite3_stmt *ctl[CTL__COUNT];          /* transaction control, prepared at first use */
	bool in_txn, in_write;
	bool guest;                             /* the connection is somebody else's (vtab.c) */
	unsigned tables_made, tables_open;      /* guest: computed ones */
	unsigned lent;                          /* statements between get and put */
	int txn_rc;                             /* what made the engine give the transaction up, or 0 */
	bool lean_known, lean;                  /* db_is_lean() */
	bool dead;                              /* a flush failed: never used again (AUDIT A-216) */
	int64_t data_version;                   /* 0 = not yet known */
	struct err computed;                    /* what a function of a computed table failed with; code 0: none (vtab.c) */
	char *computed_names;
	struct db_view *view; size_t nview;     /* of the file, for statements that name one (vtab.c) */
	struct arena *views_mem;
	int (*viewer)(struct db_stmt *st, struct err *err);     /* asked before a statement is compiled; NULL: nobody */
	unsigned undone, seen_undone;           /* how often temporary objects may have been rolled back; as vtab.c knows */
	char *wal;                              /* DB_WRITER: path of the log */
	struct db_place at, wal_at;             /* DB_WRITER */
	uint64_t deadline_us;                   /* 0 = none */
	int64_t memory_max; bool memory_spent;  /* of SQLite, while a foreign query runs */
	const char **tables; size_t ntables;    /* DB_FOREIGN: that may be read; none = all */
	db_may_fn *may; const void *may_arg;    /* DB_REPORTER */
	bool compiling;                 /* DB_FOREIGN: a text of somebody else */
	struct arena *tables_mem;
	bool asks;                              /* a statement of ours is compiled, which may read the schema */
	unsigned wal_frames;                    /* in the log after the last commit or checkpoint */
	unsigned wal_copied;                    /* of them copied to the file */
	unsigned wal_stuck;                     /* left over by the last checkpoint because of readers */
};

struct db_row;
struct pg_stmt;
struct db_stmt {
	struct db *db;
	sqlite3_stmt *native;                   /* NULL: does not prepare, the first step says why */
	const struct db_engine *engine;
	struct pg_stmt *pg;
	enum sql_id id;                         /* SQL__COUNT: of an ad hoc one */
	const char *name, *text;                /* of sql/; "sql" and NULL for an ad hoc one */
	bool lent, temp, stepped;               /* temp: freed by put */
	unsigned viewed;                        /* views that it names are there: db->undone + 1 */
	unsigned no_param;                      /* bound, and not there; 0 = none */
	unsigned row_param;                     /* db_bind_row(); 0 = none */
	uint64_t bound;                         /* bit pos - 1 */
	uint64_t filled;                        /* the same: what SQLite has is not NULL */
	struct db_row *row;                     /* of row_out(), or NULL */
	const struct db_value *rows; size_t rows_width, rows_n;         /* db_bind_rows() */
	unsigned params;
	const char *types;                      /* of them, a letter each (contrib/sqlgen.awk); NULL of an ad hoc one */
	struct db_value bind[];                 /* borrowed; an ad hoc one's are NULL until they are bound */
};

#define HINT_BACKUP "put the newest backup back: toolcribd(8), BAD NIGHTS"

/* Turn a result of SQLite into an error code, fill *err and remember what ended the transaction.
 * where: a path or a statement's name. */
int db_fail(struct db *db, int rc, const char *where, struct err *err);
/* The same of what a function of a computed table failed with: it is what its statement says. */
static inline int db_fail_computed(struct db *db, struct err *err)
{
	const int code = db->computed.code;

	if (err)
		*err = db->computed;
	db->computed.code = 0;
	return code;
}

/* A connection that is not open yet; db_close() ends it at any time. */
struct db *db_new(enum db_mode mode, const char *path);
struct db_stmt *db_stmt_new(struct db *db, const char *name, const char *text, unsigned params);
/* Statements are prepared anew when they are asked for again. */
void db_stmt_free_all(struct db *db);
int db_pragma(struct db *db, const char *sql, struct err *err) MUST_CHECK;
/* First column of the first row of a PRAGMA as text; ret has size bytes. */
int db_pragma_get(struct db *db, const char *name, char *ret, size_t size, struct err *err) MUST_CHECK;
int db_pragma_int(struct db *db, const char *name, int64_t *ret, struct err *err) MUST_CHECK;
/* Of the schema that the steps make, up to each of them (mkdigest.c): the columns of the rows of SQL_META_LIST_SCHEMA,
 * each by db_digest_column(). */
extern const uint8_t db_store_digest[SQL__STEPS][DIGEST_SIZE], db_keys_digest[SQL__KEYS_STEPS][DIGEST_SIZE],
	db_segment_digest[SQL__SEGMENT_STEPS][DIGEST_SIZE];
/* The same of a store without the indexes that db_make_lean() drops; rec_pos goes when there is rec_order. */
extern const uint8_t db_lean_digest[SQL__STEPS][DIGEST_SIZE];
enum { DB_PLACED_SINCE = 42 };
static inline bool db_is_lean_left_out(const char *name, int step)
{
	static const char *const names[] = { "rec_call", "rec_ts", "rec_prn", "rec_cred", "rec_tool", "rec_out", "rec_kind",
		"rec_pos" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) - (step < DB_PLACED_SINCE); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}
/* With its length: SQLite reads a definition up to a NUL, and what stands behind could pass for the next row. */
static inline void db_digest_column(struct digest *d, const char *p, size_t len)
{
	const uint8_t head[4] = { (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len };

	digest_put(d, head, sizeof(head));
	digest_put(d, p, len);
}
/* Whether beside the file at path, of schema version, there is a copy that a program which knows `known` can open. */
bool db_before_for(const char *path, int known, int64_t version, char ret_name[DB_BEFORE_NAME_SIZE]);
/* A private store in memory with this program's schema, to compare with. */
int db_open_model(struct db **ret, struct err *err) MUST_CHECK;
/* --- row_out(), rows_in() */
#define DB_ROW_POINTER "db_stmt"
FOR_TESTS int db_row_define(sqlite3 *native);             /* both; a result code of SQLite */
/* How SQLite opens files; once (foreign.c). */
void db_set_calls(void);
/* The VFS of who writes: frames of a commit wait, and are one write, before its flush and before a reader can know of
 * them (foreign.c; decision 0139); 31 at most, since SQLite's own VFS writes no more than that at once.  Any thread. */
enum { DB_WAL_WAITS_MAX = 0x1ffff };
const char *db_wal_vfs(void);
#ifdef DB_EXTENSION
#define DB_VFS(mode) NULL
#else
#define DB_VFS(mode) ((mode) == DB_WRITER ? db_wal_vfs() : NULL)
#endif
/* db_open() of what stands behind a descriptor, which stays the caller's, under a name that is nobody's. */
int db_open_fd(int fd, const char *path, enum db_mode mode, struct db **ret, struct err *err) MUST_CHECK;
/* The same of a name for SQLite; path is what errors say. */
int db_open_as(const char *name, const char *path, enum db_mode mode, struct db **ret, struct err *err) MUST_CHECK;
/* db_open_beside() of a server's database: as the same role, at the same address. */
int db_open_server_beside(const struct db *db, struct db **ret, struct err *err) MUST_CHECK;
/* The authorizer of a DB_FOREIGN or DB_REPORTER. */
void db_guard_new(struct db *db);
/* While it is off the connection may make temporary objects (vtab.c). */
void db_guard(struct db *db, bool on);
enum { DB_VIEWS_MAX = 64 };             /* that db_vtab_views() knows */

/* "TCRB": tells a toolcrib store from any other SQLite file; user_version is the schema. */
#define DB_APPLICATION_ID 0x54435242
#define DB_KEYS_APPLICATION_ID 0x54434b59       /* "TCKY" */
#define DB_SEGMENT_APPLICATION_ID 0x54435331    /* "TCS1" */
#define DB_PAGE_SIZE 4096

#endif
