/* What SQLite alone has: its errors, its words for transactions, its PRAGMAs. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "db/db.h"

#include "db_int.h"

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

int db_ctl(struct db *db, enum db_ctl which, struct err *err)
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
