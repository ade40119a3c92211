/* A new store, and what keeps an old one from starting.  A new one has a directory, a database with the system log and
 * a master key.  The key comes last, so that a store which has one is whole, and one without it that nobody has used is
 * an init that was cut off: it is finished (FAULT F2). */

#include "config.h"

#include <inttypes.h>
#include <stdlib.h>

#include <jansson.h>

#include "app/app.h"
#include "audit/audit.h"
#include "audit/rows.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "db/owner.h"
#include "forms/forms.h"
#include "json/json.h"

static int fill(struct db *db, struct err *err)
{
	struct audit_logs *logs = NULL;
	int rc = db_migrate(db, err);

	if (rc == 0)
		rc = audit_logs_open(db, &logs, err);
	if (rc < 0)
		return rc;
	rc = db_txn_begin(db, true, err);
	if (rc == 0) {
		int last;

		rc = audit_last_kind(logs, db, 0, &last, NULL, err);
		if (rc == ERR_NOT_FOUND)
			rc = audit_log_create(logs, db, 0, "system", err);
		if (rc == 0)
			rc = audit_logs_flush(logs, db, err);
		rc = db_txn_end(db, rc, err);
	}
	if (rc == 0)
		audit_logs_commit(logs);
	audit_logs_close(&logs);
	return rc;
}

/* 1: an owner has started on it. */
static int was_used(struct db *db, struct err *err)
{
	int version, rc = db_check_version(db, &version, NULL);

	if (rc < 0)     /* empty, or not ours, which the migration says */
		return 0;
	if (version == db_schema_version() && forms_see(db, err) < 0)
		return err->code;
	struct db_stmt *st = db_stmt_get(db, SQL_META_WAS_USED);
	rc = db_step(st, err);
	if (rc == 1)
		rc = db_col_i64(st, 0) != 0;
	db_stmt_put(&st);
	return rc;
}

static int create(const char *store, struct err *err)
{
	char *file = path_join(store, DB_FILE), *key_file = path_join(store, DB_MASTER_KEY);
	uint8_t *key = secret_alloc(SECRET_KEY_SIZE);
	struct db *db = NULL;
	int rc = 0;

	if (path_exists(key_file)) {
		rc = err_set(err, ERR_CONFLICT, store, "there is a store at %s already; nothing was changed", store);
		goto out;
	}
	rc = db_open(file, DB_WRITER, true, &db, err);
	if (rc == 0)
		rc = was_used(db, err);
	if (rc == 1) {
		rc = err_set(err, ERR_CONFLICT, store,
			     "there is a store at %s already, without its master.key; nothing was changed", store);
		err_hint(err, "put the key back from where you keep it");
	}
	if (rc == 0)
		rc = fill(db, err);
	db_close(&db);
	id_random(key, SECRET_KEY_SIZE);
	if (rc == 0)
		rc = path_create(key_file, 0400, key, SECRET_KEY_SIZE, err);
out:
	secret_free(key);
	free(file);
	free(key_file);
	return rc;
}

int app_init_store(const char *store, struct err *err)
{
	struct db_owner *owner = NULL;
	struct db_card card;
	int rc = path_mkdirs(store, 0700, err);

	if (rc == 0)
		rc = db_owner_take(store, &owner, &card, err);
	if (rc == 1)
		return err_set(err, ERR_CONFLICT, store, "there is a store at %s already, in use by process %lld",
			       store,
			       (long long)card.pid);
	if (rc == 0)
		rc = create(store, err);
	db_owner_drop(&owner);
	return rc;
}

/* --- a store that is there: its schema, and a start that ends at once */

int app_schema_of(const char *store, int *ret, struct err *err)
{
	char *file = path_join(store, DB_FILE);
	struct db *db = NULL;
	int rc = db_open(file, DB_READER, false, &db, err);

	if (rc == 0)
		rc = db_check_version(db, ret, err);
	db_close(&db);
	free(file);
	return rc;
}

/* Starting as the owner migrates, takes rows out of service, and leaves its records. */
int app_start_once(const char *store, const char *const *quarantine, struct err *err)
{
	struct app_opt opt = { .profile = APP_EMBEDDED, .store = store, .quarantine = quarantine };
	struct db_card card;
	struct app *app = NULL;
	int rc = db_owner_take(store, &opt.owner, &card, err);

	if (rc == 1) {
		(void)err_set(err, ERR_BUSY, store, "process %lld holds the store", (long long)card.pid);
		err_hint(err, "stop the server first");
		return ERR_BUSY;
	}
	if (rc == 0)
		rc = app_start(&opt, &app, err);
	app_close(&app);
	return rc;
}

/* --- what keeps a store from starting */

static int put_bad(void *arg, unsigned kind, int64_t id, bool gone, struct err *err)
{
	const char *closing = audit_row_closing(kind);
	char *name = mem_printf("%s/%" PRId64, audit_row_name(kind), id);
	json_t *row = json_pack("{s:{s:s, s:s, s:s?}}", "row", "row", name, "what",
				gone ? "is gone, and no record says so" : "is not what its record says", "closing", closing);
	struct str *rows = arg;

	(void)err;
	jx_write(row, rows);
	str_putc(rows, '\n');
	json_decref(row);
	free(name);
	return 0;
}

int app_fsck(const char *store, struct str *rows, struct err *err)
{
	char *file = path_join(store, DB_FILE);
	struct db *db = NULL;
	int version, rc = db_open(file, DB_READER, false, &db, err);

	if (rc == 0)
		rc = db_check_version(db, &version, err);
	if (rc == 0 && version < db_schema_version()) {
		rc = err_set(err, ERR_CONFLICT, store, "the store has schema %d, this program looks at %d", version,
			     db_schema_version());
		err_hint(err, "toolcrib migrate, or the fsck of the release that made it");
	}
	if (rc == 0)
		rc = forms_see(db, err);
	if (rc == 0)
		rc = audit_rows_bad(db, put_bad, rows, err);
	db_close(&db);
	free(file);
	return rc;
}
