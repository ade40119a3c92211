#ifndef DB_DB_H
#define DB_DB_H

#include "base/err.h"
#include "db/sql_gen.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* SQLite, and only here.  A struct db is one connection, used by one thread at a time.  No statement
 * text outside sql/ but PRAGMAs; every statement has a name (enum sql_id, generated).  Engine-neutral:
 * nothing above names SQLite. */

enum db_mode {
	DB_WRITER,    /* one per process, on the writer thread; the only one that checkpoints (AUDIT A-611) */
	DB_READER,    /* read-only, query_only, no checkpoint on close */
	DB_REPORTER,  /* a reader that sorts in a file, in a process that holds nothing else: db_open_reporter() */
	DB_FOREIGN,   /* a data source of the sql handler: read-only, authorizer; never the store itself */
	DB_SEALER,    /* a sealed file that is being made: db_segment_make() */
	DB_SEGMENT,   /* one that is read: db_segment_open() */
};

struct db;
struct db_stmt;

/* Which store: that in a folder, or the file itself, of those who have nothing else of it.  By value, borrowed for the
 * call. */
struct db_where { const char *store, *file; };
static inline struct db_where db_in(const char *store)
{
	return (struct db_where){ .store = store };
}
static inline struct db_where db_of_file(const char *path)
{
	return (struct db_where){ .file = path };
}

/* path: the database file.  DB_WRITER creates it (0600) when create is true.  Settings of AUDIT A-621 are
 * made and read back.  ERR_UNREACHABLE (where = path), ERR_CORRUPT. */
int db_open(const char *path, enum db_mode mode, bool create, struct db **ret, struct err *err) MUST_CHECK;
void db_close(struct db **db);
#define DB_META_PUT_BACK "put_back"     /* in meta: a writer found that the file is a copy, and no record says so yet */
/* A name of a file in the folder that the database is in; an absolute one stays.  free() it. */
char *db_beside(const struct db *db, const char *name);
/* Another reader of the same file, for another thread.  ERR_CONFLICT: what db does is seen by db alone. */
int db_open_beside(const struct db *db, struct db **ret, struct err *err) MUST_CHECK;

/* Schema version: forward only.  ERR_CONFLICT when the store is newer than this program ("made by a newer
 * toolcrib: schema 3, this one knows 1"); ERR_INVALID when it is no toolcrib store. */
int db_migrate(struct db *db, struct err *err) MUST_CHECK;           /* DB_WRITER; each step a transaction */
/* Which schema the file says it has, current <= known, and whether all objects in it are exactly those that the steps
 * up to that one make (AUDIT A-629): ERR_CORRUPT names one that is not. */
int db_check_version(struct db *db, int *ret_version, struct err *err) MUST_CHECK;
/* The same, and it is today's; ERR_CONFLICT: an older one. */
int db_check_schema(struct db *db, struct err *err) MUST_CHECK;
/* A store without the indexes that only rows without blocks need is the release's own, too (decision 0061), and so is
 * one that has lost the first of them, in one order (decision 0075).  How many are left; drops the next n of these, or
 * all that there are, in a transaction of a DB_WRITER. */
enum { DB_LEAN_INDEXES = 8 };
int db_lean_left(struct db *db, unsigned *ret, struct err *err) MUST_CHECK;
/* 1: none is left, so nothing can go by them; 0.  Asked once for each connection: none is made again, and from a store
 * that had them they go when it has blocks. */
int db_is_lean(struct db *db, struct err *err) MUST_CHECK;
int db_make_lean(struct db *db, unsigned n, struct err *err) MUST_CHECK;
/* A DB_READER of the store itself, after db_check_version(): what the store's own readers open. */
int db_open_store(struct db_where at, struct db **ret, struct err *err) MUST_CHECK;
/* The same, DB_REPORTER: a statement that reads another table, or another column of one, than `may` allows is
 * ERR_DENIED.  What it sorts is in a file without a name in dir (one for the process; copied). */
typedef bool db_may_fn(const void *arg, const char *table, const char *column);
int db_open_reporter(struct db_where at, const char *dir, db_may_fn *may, const void *arg, struct db **ret,
		     struct err *err) MUST_CHECK;
/* Whether the file and its indexes are sound, which reads all of it.  ERR_CORRUPT with what is wrong. */
int db_check_integrity(struct db *db, struct err *err) MUST_CHECK;
/* The same without looking up the rows of one table in its indexes, which is most of the work.  1: sound; 0: it is
 * not. */
int db_check_structure(struct db *db, const char *but, struct err *err) MUST_CHECK;
/* The same for keys.db, whose schema counts by itself: forward, then whole as the steps make it; a DB_READER only
 * looks. */
int db_migrate_keys(struct db *db, struct err *err) MUST_CHECK;
int db_schema_version(void);                                         /* what this program knows */
const char *db_schema_step(int step);           /* 1 .. db_schema_version(): "0026_segment"; static */
/* DB_WRITER, or a reader.  1: db_migrate() has steps to do, from schema *ret_from on; 0: it has none, or all, as of an
 * empty file. */
int db_schema_due(struct db *db, int *ret_from, struct err *err) MUST_CHECK;

/* A copy of a store, before-NN.db beside it, as it was before db_migrate() brought it to schema NN (OP-911): all of the
 * file, without a log, 0600, the owner's; what db_backup() makes could stand in its place.  For the owner alone. */
#define DB_META_BEFORE "before"         /* in meta: steps have been begun, and no record says so yet */
#define DB_BEFORE_NAME_SIZE 24
#define DB_BEFORE_KEEP_S (14 * 24 * 3600)
#define DB_BEFORE_SPARE (UINT64_C(16) << 20)    /* bytes that the disk must have beside the copy, for the steps */
struct db_before {
	int from, to;                   /* schemas */
	uint64_t bytes;                 /* db_before_make(): of the copy */
	char name[DB_BEFORE_NAME_SIZE]; /* "": no copy was made */
	uint8_t digest[32];             /* SHA-256 of the copy */
};
/* path: the store's file, its log empty (db_truncate_log()), and nothing of it open in this process.  b: from and to;
 * name, bytes and digest are filled in.  Durable, or not there: one of that name goes when its follower is whole.
 * ERR_LIMIT: the disk has no room for it; ERR_IO. */
int db_before_make(const char *path, struct db_before *b, struct err *err) MUST_CHECK;
/* Where beside it the signer's state of then is, for whoever makes it; free() it. */
char *db_before_signer(const char *store, int to);
/* DB_WRITER: the mark in meta, durable before the first step, so that steps which are cut off are gone on with without
 * another copy, which would be of half a migration; whether there is one (1), with b->to what this program knows; and
 * in the transaction of the record that tells of it, gone again. */
int db_before_note(struct db *db, const struct db_before *b, struct err *err) MUST_CHECK;
int db_before_noted(struct db *db, struct db_before *ret, struct err *err) MUST_CHECK;
int db_before_forget(struct db *db, struct err *err) MUST_CHECK;
/* Remove all copies in the directory of a store, or those older than DB_BEFORE_KEEP_S and, which the owner alone may,
 * halves that a crash has left.  *ret: how many; any thread. */
enum db_before_which { DB_BEFORE_OLD, DB_BEFORE_ALL };
int db_before_drop(const char *store, enum db_before_which which, unsigned *ret, struct err *err) MUST_CHECK;
/* The copy of the newest schema that there is in the directory; false: none. */
bool db_before_newest(const char *store, char ret_name[DB_BEFORE_NAME_SIZE], uint64_t *ret_made_us);
/* Bytes that the copy of the file at path would take, and *ret_room, those that its disk has for it. */
uint64_t db_before_room(const char *path, uint64_t *ret_room);

/* Sealed files (segment/segment.h).  A new one with its tables; ERR_CONFLICT: there is one.  What is put into it is in
 * one transaction; who fails removes it. */
int db_segment_make(const char *path, struct db **ret, struct err *err) MUST_CHECK;
/* One that somebody hands over, which nobody changes meanwhile: no lock is taken, and nothing but this very file is
 * opened.  ERR_UNREACHABLE: it cannot be opened, or is no file of its own but a link or a directory; ERR_INVALID: it is
 * none; ERR_CONFLICT: it is of a newer release; ERR_LIMIT: it is larger than max; ERR_CORRUPT: it was cut, or its
 * tables are not the release's own, to the letter. */
int db_segment_open(const char *path, uint64_t max, struct db **ret, struct err *err) MUST_CHECK;
/* Whether the file says that it is one; false also when it cannot be read. */
bool db_is_segment(const char *path);

/* A transaction is a scope: db_txn_end() commits when rc >= 0, else rolls back, and returns the final
 * code.  A write scope is BEGIN IMMEDIATE.  ERR_AUDIT: disk full, or the file is not where it was (AUDIT A-604); the
 * transaction is gone, later ones may succeed; ERR_IO: a failed flush, the connection must not be used again (AUDIT
 * */
int db_txn_begin(struct db *db, bool write, struct err *err) MUST_CHECK;
int db_txn_end(struct db *db, int rc, struct err *err);
bool db_txn_alive(const struct db *db);               /* false: the engine has undone it, end it with an error */
/* A savepoint inside a write scope: one item fails alone.  db_item_end() rolls the item back when rc < 0
 * and returns rc, or a worse code when even that failed. */
int db_item_begin(struct db *db, struct err *err) MUST_CHECK;
int db_item_end(struct db *db, int rc, struct err *err);

/* Statements by name, prepared once per connection.  get never returns NULL: a failure shows in the first
 * step.  put resets and clears the bindings; column pointers die with it. */
struct db_stmt *db_stmt_get(struct db *db, enum sql_id id);
void db_stmt_put(struct db_stmt **st);
void db_bind_i64(struct db_stmt *st, unsigned pos, int64_t v);       /* pos from 1 (?1) */
void db_bind_f64(struct db_stmt *st, unsigned pos, double v);
void db_bind_text(struct db_stmt *st, unsigned pos, const char *p, size_t len);   /* borrowed until put */
void db_bind_textz(struct db_stmt *st, unsigned pos, const char *z);              /* NULL binds NULL */
void db_bind_blob(struct db_stmt *st, unsigned pos, const void *p, size_t len);
void db_bind_null(struct db_stmt *st, unsigned pos);
/* Whether a value of another type than the statement takes ("-- takes:" in sql/queries) is refused by its first step.
 * Builds with crash points do, and who has opened a server; of the whole process.  Returns what was. */
bool db_check_types(bool on);
/* 1 = a row, 0 = done, negative = error (constraint: ERR_CONFLICT). */
int db_step(struct db_stmt *st, struct err *err) MUST_CHECK;
/* Step a statement that returns no row, and put it. */
int db_run(struct db_stmt **st, struct err *err) MUST_CHECK;
/* The same of one that returns a row of one number, as an INSERT … RETURNING id. */
int db_run_id(struct db_stmt **st, int64_t *ret, struct err *err) MUST_CHECK;
enum db_type { DB_NULL, DB_INT, DB_FLOAT, DB_TEXT, DB_BLOB };
unsigned db_col_count(struct db_stmt *st);
enum db_type db_col_type(struct db_stmt *st, unsigned col);          /* col from 0 */
int64_t db_col_i64(struct db_stmt *st, unsigned col);
double db_col_f64(struct db_stmt *st, unsigned col);
const char *db_col_text(struct db_stmt *st, unsigned col, size_t *ret_len);   /* "" for NULL; borrowed until step/put */
void db_col_copy(struct db_stmt *st, unsigned col, char *ret, size_t size);     /* the text, cut to size with its NUL */
char *db_col_dup(struct db_stmt *st, unsigned col);        /* the text, "" for NULL; free() it */
/* Append "did you mean" to err from column col of the rows that *st still has, 2,000 at most; puts *st. */
void db_did_you_mean(struct db_stmt **st, unsigned col, const char *word, struct err *err);
const void *db_col_blob(struct db_stmt *st, unsigned col, size_t *ret_len);
const char *db_col_name(struct db_stmt *st, unsigned col);
/* Of statements that read millions of rows: SELECT row_out(?pos, a, b, ...) hands a, b, ... over at once, at a third of
 * the cost of asking for each.  NULL: the last step did not; else they live until the next.  n: of DB_INT; d: of
 * DB_FLOAT; p, len: of texts and blobs. */
struct db_value { enum db_type type; union { int64_t n; double d; }; const void *p; size_t len; };
void db_bind_row(struct db_stmt *st, unsigned pos);
const struct db_value *db_row(struct db_stmt *st, unsigned n);
int64_t db_last_id(struct db *db);                                   /* rowid of the last insert, of SQLite alone */
int64_t db_changes(struct db *db);                                   /* rows of the last statement */
/* Table meta; "" when absent. */
int db_meta_get(struct db *db, const char *key, char *ret, size_t size, struct err *err) MUST_CHECK;
int db_meta_set(struct db *db, const char *key, const char *value, struct err *err) MUST_CHECK;

/* Before a path of a definition is opened: ERR_DENIED when it is, by any name, a file of this store's directory.  Even
 * to look into one and close it again would drop the locks that this process has on it (trap 18).  store NULL: no
 * store. */
int db_foreign_check(const char *path, const char *store, struct err *err) MUST_CHECK;
/* DB_FOREIGN only: one SELECT (or VALUES, WITH … SELECT) statement; ERR_INVALID for anything else, a second
 * statement, or what the authorizer refuses (writes, ATTACH, PRAGMA, load_extension).  put frees it. */
int db_stmt_adhoc(struct db *db, const char *sql, size_t len, struct db_stmt **ret, struct err *err) MUST_CHECK;
/* Of an error of such a statement: it searches a full-text table of a schema that has changed since the database was
 * opened; opened anew it will be found. */
bool db_foreign_is_old(const struct err *err);
/* The same statement again, without what was bound. */
void db_stmt_again(struct db_stmt *st);
/* DB_FOREIGN, before its first statement: of all tables these alone may be read, by the names that they have there,
 * whatever a statement calls them; a view, or a virtual table, needs those behind it as well.  n 0: all may.  The table
 * functions over JSON always may. */
void db_foreign_tables(struct db *db, const char *const *tables, size_t n);
/* Of the whole process: so many bytes SQLite may have; what needs more ends with ERR_LIMIT. */
void db_memory_max(uint64_t bytes);
/* Position of a named parameter (":name"), 0 = none; and how many there are, and the name of one. */
FOR_TESTS unsigned db_param_index(struct db_stmt *st, const char *name);
unsigned db_param_count(struct db_stmt *st);
const char *db_param_name(struct db_stmt *st, unsigned pos);
/* A step that runs past this monotonic time ends with ERR_TIMEOUT; 0 = none. */
void db_deadline(struct db *db, uint64_t mono_us);
/* any thread: the running step ends, ERR_CANCELLED */
FOR_TESTS void db_interrupt(struct db *db);

/* Writer's spare time: a passive checkpoint when the log has at least min_pages.  What readers hold back stays
 * for later, and is no error.  db_close() of a DB_WRITER empties the log (TRUNCATE). */
int db_checkpoint(struct db *db, unsigned min_pages, struct err *err) MUST_CHECK;
/* The log into the file, and the log empty: what was deleted is then in neither (AUDIT A-509).  ERR_BUSY: readers are
 * in the way, until 2 s or the deadline are over; try again. */
int db_truncate_log(struct db *db, struct err *err) MUST_CHECK;
/* A compact copy by VACUUM INTO from a reader; path must not exist (AUDIT A-612). */
int db_backup(struct db *db, const char *path, struct err *err) MUST_CHECK;
/* A database in a file without a name in dir: tables of these names (NULL ends them) and all views of a reader's store.
 * It grows to half of the room that is left there (ERR_LIMIT).  *ret_fd: the file, to be read once db_copy_end() was
 * there; the caller's to close. */
struct db_copy;
int db_copy_new(struct db *from, const char *dir, const char *const *tables, struct db_copy **ret, int *ret_fd,
		struct err *err) MUST_CHECK;
/* At most so many pages instead. */
FOR_TESTS int db_copy_bound(struct db_copy *copy, uint64_t pages, struct err *err) MUST_CHECK;
/* The row that the statement is at, into the columns that are called alike; one that is there already stays. */
int db_copy_row(struct db_copy *copy, const char *table, struct db_stmt *row, struct err *err) MUST_CHECK;
/* of: "rec(log, idx)" */
int db_copy_index(struct db_copy *copy, const char *name, const char *of, struct err *err) MUST_CHECK;
struct db *db_copy_db(struct db_copy *copy);          /* for statements that ask it; borrowed */
int db_copy_end(struct db_copy **copy, struct err *err) MUST_CHECK;
void db_copy_free(struct db_copy **copy);              /* without db_copy_end(): nothing is left */

/* The version of the SQLite that runs, and whether it has the fix of the WAL-reset bug (AUDIT A-613). */
const char *db_engine(bool *ret_fixed);
FOR_TESTS bool db_engine_is_fixed(int number);        /* as sqlite3_libversion_number() counts: 3051003 */
/* Pages that it keeps beside the file: forgotten, while no statement is under way; how many it may keep. */
void db_give_back(struct db *db);
int db_keep_pages(struct db *db, unsigned kib, struct err *err) MUST_CHECK;
/* Pages of the write-ahead log not yet copied, for metrics. */
unsigned db_wal_pages(struct db *db);
#ifdef BENCH_BUILD
/* benchmarks only: synchronous=OFF, the baseline of make bench */
int db_bench_no_sync(struct db *db, struct err *err) MUST_CHECK;
#endif

#endif
