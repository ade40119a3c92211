/*
 * The schema: which one a file has (application_id says whose file it is, user_version which schema),
 * how it moves forward, and whether it is exactly what the steps make of it (AUDIT A-629).
 */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "db/server.h"
#include "db/owner.h"

#include "db_int.h"

enum { LEAN_SINCE = 24 };      /* the step that brought blocks; later ones must not need what db_make_lean() drops */

/* What a file must be, and which steps lead there. */
struct schema {
	int application_id;
	int first, steps;               /* ids of the steps */
	const char *what;
	const uint8_t (*digest)[DIGEST_SIZE];   /* of what the steps make, up to each */
	bool is_plain;                  /* neither triggers nor views */
	const uint8_t (*lean)[DIGEST_SIZE];     /* of the same without the indexes that db_make_lean() drops; or NULL */
};
static const struct schema store_schema = { DB_APPLICATION_ID, 0, SQL__STEPS, "toolcrib store", db_store_digest,
	false, db_lean_digest };
static const struct schema keys_schema = { DB_KEYS_APPLICATION_ID, SQL__STEPS, SQL__KEYS_STEPS, "toolcrib key file",
	db_keys_digest, true, NULL };
static const struct schema segment_schema = { DB_SEGMENT_APPLICATION_ID, SQL__STEPS + SQL__KEYS_STEPS,
	SQL__SEGMENT_STEPS, "sealed file", db_segment_digest, true, NULL };

int db_schema_version(void)
{
	return SQL__STEPS;
}

const char *db_schema_step(int step)
{
	return sql_sqlite[step - 1].name + sizeof("step_") - 1;
}

static int refuse_newer(const struct db *db, const struct schema *s, int64_t version, struct err *err)
{
	char copy[DB_BEFORE_NAME_SIZE];

	(void)err_set(err, ERR_CONFLICT, db->path, "made by a newer toolcrib: schema %" PRId64 ", this one knows %d", version,
		      s->steps);
	if (s == &store_schema && db_before_for(db->path, s->steps, version, copy))
		err_hint(err, "use the newer program; or go back to %s beside it, without what was recorded since: toolcribd(8), "
			 "UPGRADES", copy);
	else
		err_hint(err, "use the newer program, or a backup from before the upgrade");
	return ERR_CONFLICT;
}

/* version 0 with *ret_fresh: an empty file, to be made a store. */
static int read_version(struct db *db, const struct schema *s, int *ret_version, bool *ret_fresh, struct err *err)
{
	struct db_stmt *st;
	int64_t app = 0, version = 0;
	int rc = db_pragma_int(db, "application_id", &app, err);

	if (rc == 0)
		rc = db_pragma_int(db, "user_version", &version, err);
	if (rc < 0)
		return rc;
	if (app == 0 && version == 0) {
		st = db_stmt_get(db, SQL_META_COUNT_SCHEMA);
		rc = db_step(st, err);
		*ret_fresh = rc == 1 && db_col_i64(st, 0) == 0;
		db_stmt_put(&st);
		if (rc < 0)
			return rc;
		if (*ret_fresh) {
			*ret_version = 0;
			return 0;
		}
	}
	if (app != s->application_id || version < 1)
		return err_set(err, ERR_INVALID, db->path, "this is not a %s", s->what);
	if (version > s->steps)
		return refuse_newer(db, s, version, err);
	*ret_fresh = false;
	*ret_version = (int)version;
	return 0;
}

/* A store that has lost all the other indexes loses that of positions as well. */
static int drop_places(struct db *db, struct err *err)
{
	unsigned left = 0;
	int rc = db_lean_left(db, &left, err);

	return rc == 0 && left == 1 ? db_make_lean(db, 1, err) : rc;
}

static int run_step(struct db *db, const struct schema *s, int step, struct err *err)
{
	const struct sql_text *sql = &sql_sqlite[s->first + step - 1];    /* steps come first, in order */
	char pragma[96];
	int rc = db_txn_begin(db, true, err);

	if (rc < 0)
		return rc;
	rc = sqlite3_exec(db->native, sql->text, NULL, NULL, NULL);
	rc = rc == SQLITE_OK ? 0 : db_fail(db, rc, sql->name, err);
	if (rc == 0 && s == &store_schema && step == DB_PLACED_SINCE)
		rc = drop_places(db, err);
	if (rc == 0) {
		snprintf(pragma, sizeof(pragma), "PRAGMA application_id=%d; PRAGMA user_version=%d", s->application_id,
			 step);
		rc = db_pragma(db, pragma, err);
	}
	CRASH_AT("migrate.step");
	return db_txn_end(db, rc, err);
}

/* --- is it what the steps make? */

/* A row of the schema, borrowed until the statement's next step; rc as that of db_step(). */
enum { S_TYPE, S_NAME, S_TABLE, S_SQL, S_WIDTH };
struct object { int rc; const char *p[S_WIDTH]; size_t len[S_WIDTH]; };

static struct object next_object(struct db_stmt *st, struct err *err)
{
	struct object o = { .rc = db_step(st, err) };

	for (unsigned i = 0; o.rc == 1 && i < S_WIDTH; i++)
		o.p[i] = db_col_text(st, i, &o.len[i]);
	return o;
}

/* As SQLite sorts them, by the columns from S_TYPE on. */
static int order_of(const struct object *a, const struct object *b, unsigned columns)
{
	for (unsigned i = 0; i < columns; i++) {
		size_t len = a->len[i] < b->len[i] ? a->len[i] : b->len[i];
		int order = memcmp(a->p[i], b->p[i], len);

		if (order == 0 && a->len[i] != b->len[i])
			order = a->len[i] < b->len[i] ? -1 : 1;
		if (order != 0)
			return order;
	}
	return 0;
}

/* Names are whatever somebody wrote into the file. */
static int refuse_object(struct db *db, const struct object *o, const char *what, struct err *err)
{
	char shown[S_SQL][64];

	for (unsigned i = 0; i < S_SQL; i++)
		text_printable(o->p[i], o->len[i], shown[i], sizeof(shown[i]));
	err_set(err, ERR_CORRUPT, db->path, "the schema is not this release's own: %s %s of %s %s", shown[S_TYPE],
		shown[S_NAME], shown[S_TABLE], what);
	err_hint(err, "another program has written to the file, and what it holds may be forged: keep a copy, and put "
		 "it back from a backup");
	return ERR_CORRUPT;
}

/* Walks both schemas in one order. */
static int compare_schema(struct db *db, struct db *model, struct err *err)
{
	struct db_stmt *have_st = db_stmt_get(db, SQL_META_LIST_SCHEMA);
	struct db_stmt *want_st = db_stmt_get(model, SQL_META_LIST_SCHEMA);
	struct object have, want;
	int rc;

	do {
		have = next_object(have_st, err);
		want = next_object(want_st, err);
		rc = have.rc < 0 ? have.rc : want.rc < 0 ? want.rc : 0;
	} while (rc == 0 && have.rc == 1 && want.rc == 1 && order_of(&have, &want, S_WIDTH) == 0);
	if (rc == 0 && (have.rc == 1 || want.rc == 1)) {
		int order = have.rc == 0 ? 1 : want.rc == 0 ? -1 : order_of(&have, &want, S_TABLE);

		rc = refuse_object(db, order > 0 ? &want : &have,
				   order > 0 ? "is missing" : order < 0 ? "was added" : "was changed", err);
	}
	db_stmt_put(&have_st);
	db_stmt_put(&want_st);
	return rc;
}

/* Running all steps costs ten times as much as all else of a start.  A SQLite that words its schema differently than
 * the one of the build only loses that time. */
static int as_built(struct db *db, const struct schema *s, int version, bool *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_META_LIST_SCHEMA);
	struct digest *d = digest_new();
	uint8_t digest[DIGEST_SIZE];
	struct object o;

	while ((o = next_object(st, err)).rc == 1)
		for (unsigned i = 0; i < S_WIDTH; i++)
			db_digest_column(d, o.p[i], o.len[i]);
	db_stmt_put(&st);
	digest_end(&d, digest);
	*ret = memcmp(digest, s->digest[version - 1], sizeof(digest)) == 0 ||
		(s->lean && version >= LEAN_SINCE && memcmp(digest, s->lean[version - 1], sizeof(digest)) == 0);
	return o.rc;
}

int db_lean_left(struct db *db, unsigned *ret, struct err *err)
{
	struct db_stmt *st;
	int rc;

	if (db_is_shared(db)) {         /* rows are all that it has */
		*ret = DB_LEAN_INDEXES;
		return 0;
	}
	st = db_stmt_get(db, SQL_META_LEAN_LEFT);
	rc = db_step(st, err);

	if (rc == 1)
		*ret = (unsigned)db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int db_is_lean(struct db *db, struct err *err)
{
	unsigned left = 0;
	int rc = db->lean_known ? 0 : db_lean_left(db, &left, err);

	if (rc < 0)
		return rc;
	if (!db->lean_known)
		db->lean = left == 0;
	db->lean_known = true;
	return db->lean;
}

int db_make_lean(struct db *db, unsigned n, struct err *err)
{
	static const enum sql_id drops[DB_LEAN_INDEXES] = { SQL_META_DROP_CALL, SQL_META_DROP_TS, SQL_META_DROP_PRN,
		SQL_META_DROP_CRED, SQL_META_DROP_TOOL, SQL_META_DROP_OUT, SQL_META_DROP_KIND, SQL_META_DROP_POS };
	unsigned left = 0;
	int rc = db_lean_left(db, &left, err);

	if (rc < 0 || db_is_shared(db))
		return rc;
	for (unsigned i = DB_LEAN_INDEXES - left; i < DB_LEAN_INDEXES && n > 0 && rc == SQLITE_OK; i++, n--)
		rc = sqlite3_exec(db->native, sql_sqlite[drops[i]].text, NULL, NULL, NULL);
	return rc == SQLITE_OK ? 0 : db_fail(db, rc, "the indexes of rows", err);
}

/* AUDIT A-629: of the steps up to version. */
static int check_schema(struct db *db, const struct schema *s, int version, struct err *err)
{
	struct db *model = NULL;
	unsigned left = DB_LEAN_INDEXES;
	bool known = false;
	int rc = as_built(db, s, version, &known, err);

	if (rc < 0 || known)
		return rc;
	rc = db_open_model(&model, err);
	for (int step = 1; rc == 0 && step <= version; step++)
		rc = run_step(model, s, step, err);
	if (rc == 0 && s->lean)
		rc = db_lean_left(db, &left, err);
	if (rc == 0 && version >= LEAN_SINCE)   /* a migration was cut off when these were left (decision 0075) */
		rc = db_make_lean(model, DB_LEAN_INDEXES - left, err);
	if (rc == 0)
		rc = compare_schema(db, model, err);
	db_close(&model);
	return rc;
}

int db_check_version(struct db *db, int *ret_version, struct err *err)
{
	bool fresh = false;
	int rc;

	if (db->engine->version)
		return db->engine->version(db, ret_version, err);
	rc = read_version(db, &store_schema, ret_version, &fresh, err);

	if (rc == 0 && fresh) {
		err_set(err, ERR_INVALID, db->path, "the store is empty");
		err_hint(err, HINT_BACKUP);     /* what init left half done has no master.key, and is told so */
		return ERR_INVALID;
	}
	return rc < 0 ? rc : check_schema(db, &store_schema, *ret_version, err);
}

int db_schema_due(struct db *db, int *ret_from, struct err *err)
{
	bool fresh = false;
	int rc;

	if (db_is_shared(db))           /* its owner takes it forward, never a start (CLUSTER K-701) */
		return 0;
	rc = read_version(db, &store_schema, ret_from, &fresh, err);
	return rc < 0 ? rc : !fresh && *ret_from < store_schema.steps;
}

static int refuse_old(const struct db *db, const struct schema *s, struct err *err)
{
	return err_set(err, ERR_CONFLICT, db->path, "this %s is of an older release: start the server once", s->what);
}

int db_check_schema(struct db *db, struct err *err)
{
	int version = 0, rc = db_check_version(db, &version, err);

	return rc == 0 && version < store_schema.steps ? refuse_old(db, &store_schema, err) : rc;
}

static int open_store(struct db_where at, enum db_mode mode, struct db **ret, struct err *err)
{
	char *path = at.file ? mem_strdup(at.file) : path_join(at.store, DB_FILE);
	struct db *db = NULL;
	int version, rc = db_open(path, mode, false, &db, err);

	free(path);
	if (rc == 0)
		rc = db_check_version(db, &version, err);
	if (rc == ERR_CORRUPT && err && !*err->hint)
		err_hint(err, HINT_BACKUP);
	if (rc < 0)
		db_close(&db);
	else
		*ret = db;
	return rc;
}

int db_open_store(struct db_where at, struct db **ret, struct err *err)
{
	return open_store(at, DB_READER, ret, err);
}

int db_open_reporter(struct db_where at, const char *dir, db_may_fn *may, const void *arg, struct db **ret,
		     struct err *err)
{
	int rc = setenv("SQLITE_TMPDIR", dir, 1) ? err_set(err, ERR_IO, dir, "no memory") : 0;

	if (rc == 0)
		rc = open_store(at, DB_REPORTER, ret, err);
	if (rc < 0)
		return rc;
	(*ret)->may = may;
	(*ret)->may_arg = arg;
	if (!db_is_shared(*ret))        /* there it is a role */
		db_guard_new(*ret);
	return 0;
}

char *db_beside(const struct db *db, const char *name)
{
	const char *end = strrchr(db->path, '/');

	return *name == '/' || !end ? mem_strdup(name) : mem_printf("%.*s/%s", (int)(end - db->path), db->path, name);
}

int db_open_beside(const struct db *db, struct db **ret, struct err *err)
{
	if (db->mode != DB_READER || db->in_txn)
		return err_set(err, ERR_CONFLICT, db->path,
			       "only a reader outside of a transaction has others beside it");
	return db_is_shared(db) ? db_open_server_beside(db, ret, err) : db_open(db->path, DB_READER, false, ret, err);
}

int db_check_integrity(struct db *db, struct err *err)
{
	char said[160];
	int rc;

	if (db_is_shared(db))           /* its pages are the server's, and its records the verifier's */
		return 0;
	rc = db_pragma_get(db, "integrity_check(1)", said, sizeof(said), err);

	if (rc == 0 && strcmp(said, "ok") != 0)
		return err_set(err, ERR_CORRUPT, db->path, "%s", said);
	return rc;
}

/* 1: SQLite says ok. */
static int is_ok(struct db *db, const char *check, struct err *err)
{
	char said[160];
	int rc = db_pragma_get(db, check, said, sizeof(said), err);

	return rc < 0 ? rc : strcmp(said, "ok") == 0;
}

int db_check_structure(struct db *db, const char *but, struct err *err)
{
	struct db_stmt *st;
	char check[72];
	int good = db_is_shared(db) ? 1 : is_ok(db, "quick_check(1)", err), rc = 0;

	if (good != 1 || db_is_shared(db))
		return good;
	st = db_stmt_get(db, SQL_META_LIST_INDEXED);
	db_bind_textz(st, 1, but);
	while (good == 1 && (rc = db_step(st, err)) == 1) {
		const char *name = db_col_text(st, 0, NULL);

		/* Names of ours are words of this length; what is not is no table of ours. */
		if (strlen(name) > 40 || strspn(name, "abcdefghijklmnopqrstuvwxyz_") != strlen(name)) {
			good = 0;
			break;
		}
		(void)snprintf(check, sizeof(check), "integrity_check(\"%s\")", name);
		good = is_ok(db, check, err);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : good;
}

static int run_steps(struct db *db, const struct schema *s, int version, bool fresh, struct err *err)
{
	int rc = 0;

	if (version < s->steps && db->mode != DB_WRITER)
		return refuse_old(db, s, err);
	for (int step = version + 1; rc == 0 && step <= s->steps; step++) {
		rc = run_step(db, s, step, err);
		if (rc == 0 && !fresh)
			log_info(NULL, "store migrated schema=%d step=%s", step, sql_sqlite[s->first + step - 1].name);
	}
	return rc;
}

/* An empty transaction: who commits after it and is not us is found out by the next (AUDIT A-607). */
static int begin_watch(struct db *db, struct err *err)
{
	int rc = db_txn_begin(db, true, err);

	return rc < 0 ? rc : db_txn_end(db, 0, err);
}

/* A step must not meet what somebody else has put there, so that the file is looked at before the first one as well.
 * From that look on nobody else may write. */
static int migrate(struct db *db, const struct schema *s, struct err *err)
{
	bool fresh = false;
	int version = 0;
	int rc = db->mode == DB_WRITER ? begin_watch(db, err) : 0;

	if (rc == 0)
		rc = read_version(db, s, &version, &fresh, err);
	if (rc == 0 && !fresh)
		rc = check_schema(db, s, version, err);
	if (rc == 0 && version < s->steps) {
		rc = run_steps(db, s, version, fresh, err);
		if (rc == 0)
			rc = check_schema(db, s, s->steps, err);
	}
	if (rc == 0 && s->is_plain) {
		sqlite3_db_config(db->native, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
		sqlite3_db_config(db->native, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	}
	return rc;
}

int db_migrate(struct db *db, struct err *err)
{
	return db->engine->migrate ? db->engine->migrate(db, false, err) : migrate(db, &store_schema, err);
}

int db_migrate_keys(struct db *db, struct err *err)
{
	return db->engine->migrate ? db->engine->migrate(db, true, err) : migrate(db, &keys_schema, err);
}

/* --- sealed files */

enum { HEAD_SIZE = 100, AT_PAGE_SIZE = 16, AT_VERSIONS = 18, AT_PAGES = 28, AT_APPLICATION = 68, SEGMENT_PAGE = 8192 };

int db_segment_make(const char *path, struct db **ret, struct err *err)
{
	struct db *db = NULL;
	int rc = path_create(path, 0600, "", 0, err);

	if (rc < 0)
		return rc;
	rc = db_open(path, DB_SEALER, false, &db, err);
	for (int step = 1; rc == 0 && step <= segment_schema.steps; step++)
		rc = run_step(db, &segment_schema, step, err);
	if (rc < 0) {
		db_close(&db);
		path_unmake(path);
		return rc;
	}
	*ret = db;
	return 0;
}

static uint64_t number_at(const uint8_t *head, unsigned at, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes; i++)
		v = v << 8 | head[at + i];
	return v;
}

/* What the file says it is: 1, a sealed one; 0, something else.  SQLite would take a file that was cut for a while. */
static int look_at_head(int fd, uint8_t head[HEAD_SIZE])
{
	static const char magic[16] = "SQLite format 3";

	return pread(fd, head, HEAD_SIZE, 0) == HEAD_SIZE && memcmp(head, magic, sizeof(magic)) == 0 &&
		number_at(head, AT_APPLICATION, 4) == DB_SEGMENT_APPLICATION_ID;
}

static int check_head(int fd, const char *path, uint64_t max, struct err *err)
{
	uint8_t head[HEAD_SIZE];
	struct stat st;

	if (fstat(fd, &st) != 0 || !look_at_head(fd, head))
		return err_set(err, ERR_INVALID, path, "this is no sealed file");
	if ((uint64_t)st.st_size > max)
		return err_set(err, ERR_LIMIT, path, "the file is larger than %llu bytes", (unsigned long long)max);
	if (number_at(head, AT_PAGE_SIZE, 2) != SEGMENT_PAGE || number_at(head, AT_VERSIONS, 2) != 0x0101)
		return err_set(err, ERR_CORRUPT, path, "the file was not made as sealed files are");
	if ((uint64_t)st.st_size != number_at(head, AT_PAGES, 4) * SEGMENT_PAGE)
		return err_set(err, ERR_CORRUPT, path,
			       "the file has %lld bytes, and says that it has %llu: it was cut, or something was added",
			       (long long)st.st_size, (unsigned long long)number_at(head, AT_PAGES, 4) * SEGMENT_PAGE);
	return 0;
}

bool db_is_segment(const char *path)
{
	uint8_t head[HEAD_SIZE];
	int fd = -1;
	bool is;

	if (path_open(path, 0, SIZE_MAX, &fd, NULL) < 0)
		return false;
	is = look_at_head(fd, head);
	close(fd);
	return is;
}

int db_segment_open(const char *path, uint64_t max, struct db **ret, struct err *err)
{
	struct db *db = NULL;
	bool fresh = false;
	int fd = -1, version = 0, rc = path_open(path, PATH_NO_LINK, SIZE_MAX, &fd, err);

	if (rc < 0)
		return rc;
	rc = check_head(fd, path, max, err);
	if (rc == 0)
		rc = db_open_fd(fd, path, DB_SEGMENT, &db, err);
	close(fd);
	if (rc == 0)
		rc = read_version(db, &segment_schema, &version, &fresh, err);
	if (rc == 0)
		rc = check_schema(db, &segment_schema, version, err);
	if (rc < 0)
		db_close(&db);
	else
		*ret = db;
	return rc;
}

/* --- the engine */

/* 3.51.3, and the releases of older branches that took the fix over. */
bool db_engine_is_fixed(int number)
{
	return number >= 3051003 || (number >= 3050007 && number < 3051000) || (number >= 3044006 && number < 3045000);
}

const char *db_engine(bool *ret_fixed)
{
	*ret_fixed = db_engine_is_fixed(sqlite3_libversion_number());
	return sqlite3_libversion();
}
