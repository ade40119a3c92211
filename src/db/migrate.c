/*
 * The schema: which one a file has (application_id says whose file it is, user_version which schema),
 * how it moves forward, and whether it is exactly what the steps make of it (AUDIT A-629).
 */

#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "db/db.h"

#include "db_int.h"

/* What a file must be, and which steps lead there. */
struct schema {
	int application_id;
	int first, steps;               /* ids of the steps */
	const char *what;
	const uint8_t *digest;          /* of the schema that they make; NULL: not known before they are run */
};
static const struct schema store_schema = { DB_APPLICATION_ID, 0, SQL__STEPS, "toolcrib store", db_store_digest };
static const struct schema keys_schema = { DB_KEYS_APPLICATION_ID, SQL__STEPS, SQL__KEYS_STEPS, "toolcrib key file",
	NULL };

int db_schema_version(void)
{
	return SQL__STEPS;
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
	if (version > s->steps) {
		err_set(err, ERR_CONFLICT, db->path, "made by a newer toolcrib: schema %lld, this one knows %d",
			(long long)version, s->steps);
		err_hint(err, "use the newer program, or a backup from before the upgrade");
		return ERR_CONFLICT;
	}
	*ret_fresh = false;
	*ret_version = (int)version;
	return 0;
}

int db_check_version(struct db *db, int *ret_version, struct err *err)
{
	bool fresh = false;
	int rc = read_version(db, &store_schema, ret_version, &fresh, err);

	if (rc == 0 && fresh) {
		err_set(err, ERR_INVALID, db->path, "the store is empty");
		err_hint(err, "run: toolcrib init");
		return ERR_INVALID;
	}
	return rc;
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
	if (rc == 0) {
		snprintf(pragma, sizeof(pragma), "PRAGMA application_id=%d; PRAGMA user_version=%d", s->application_id,
			 step);
		rc = db_pragma(db, pragma, err);
	}
	CRASH_AT("migrate.step");
	return db_txn_end(db, rc, err);
}

/* Walks both schemas in the order of their names. */
static int compare_schema(struct db *db, struct db *model, struct err *err)
{
	struct db_stmt *have = db_stmt_get(db, SQL_META_LIST_SCHEMA);
	struct db_stmt *want = db_stmt_get(model, SQL_META_LIST_SCHEMA);
	int rc, rw;

	for (;;) {
		rc = db_step(have, err);
		rw = rc < 0 ? rc : db_step(want, err);
		if (rc <= 0 && rw <= 0)
			break;
		if (rc != rw || strcmp(db_col_text(have, 0, NULL), db_col_text(want, 0, NULL)) != 0 ||
		    strcmp(db_col_text(have, 1, NULL), db_col_text(want, 1, NULL)) != 0) {
			const char *name = db_col_text(rc == 1 ? have : want, 0, NULL);

			rc = err_set(err, ERR_CORRUPT, db->path, "the schema is not this release's own: look at %s",
				     name);
			break;
		}
	}
	db_stmt_put(&have);
	db_stmt_put(&want);
	return rc < 0 ? rc : rw;
}

/* Running all steps costs ten times as much as all else of a start.  A SQLite that words its schema differently than
 * the one of the build only loses that time. */
static int as_built(struct db *db, const struct schema *s, bool *ret, struct err *err)
{
	struct db_stmt *have = db_stmt_get(db, SQL_META_LIST_SCHEMA);
	struct digest *d = digest_new();
	uint8_t digest[DIGEST_SIZE];
	const char *text;
	size_t len;
	int rc;

	while ((rc = db_step(have, err)) == 1) {
		for (unsigned col = 0; col < 2; col++) {
			text = db_col_text(have, col, &len);
			digest_put(d, text, len + 1);
		}
	}
	db_stmt_put(&have);
	digest_end(&d, digest);
	*ret = s->digest && memcmp(digest, s->digest, sizeof(digest)) == 0;
	return rc;
}

static int check_schema(struct db *db, const struct schema *s, struct err *err)
{
	struct db *model = NULL;
	bool known = false;
	int rc = as_built(db, s, &known, err);

	if (rc < 0 || known)
		return rc;
	rc = db_open_model(&model, err);
	for (int step = 1; rc == 0 && step <= s->steps; step++)
		rc = run_step(model, s, step, err);
	if (rc == 0)
		rc = compare_schema(db, model, err);
	db_close(&model);
	return rc;
}

int db_check_schema(struct db *db, struct err *err)
{
	return check_schema(db, &store_schema, err);
}

int db_check_integrity(struct db *db, struct err *err)
{
	char said[160];
	int rc = db_pragma_get(db, "integrity_check(1)", said, sizeof(said), err);

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
	int good = is_ok(db, "quick_check(1)", err), rc = 0;

	if (good != 1)
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

static int migrate(struct db *db, const struct schema *s, struct err *err)
{
	bool fresh = false;
	int version = 0;
	int rc = read_version(db, s, &version, &fresh, err);

	for (int step = version + 1; rc == 0 && step <= s->steps; step++) {
		const char *name = sql_sqlite[s->first + step - 1].name;

		if (db->mode != DB_WRITER)
			return err_set(err, ERR_CONFLICT, db->path,
				       "this %s is of an older release: start the server once", s->what);
		rc = run_step(db, s, step, err);
		if (rc == 0 && !fresh)
			log_info(NULL, "store migrated schema=%d step=%s", step, name);
	}
	return rc < 0 ? rc : check_schema(db, s, err);
}

int db_migrate(struct db *db, struct err *err)
{
	return migrate(db, &store_schema, err);
}

int db_migrate_keys(struct db *db, struct err *err)
{
	return migrate(db, &keys_schema, err);
}
