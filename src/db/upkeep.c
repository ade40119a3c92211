/* Upkeep of the file: checkpoints, the size of the log, backups. */

#include "config.h"

#include "db/db.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"

#include "db_int.h"

unsigned db_wal_pages(struct db *db)
{
	return db->wal_frames - db->wal_copied;
}

int db_wal_copy(struct db *db, int how, struct err *err)
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

static int sync_file(const char *path, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc = 0;

	if (fd < 0 || fsync(fd) != 0)
		rc = err_set(err, ERR_IO, path, "cannot sync the copy: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return rc;
}

int db_backup(struct db *db, const char *path, struct err *err)
{
	struct db_stmt *st;
	int rc;

	assert(db->mode == DB_READER);
	rc = path_create(path, 0600, "", 0, err);       /* VACUUM INTO takes an empty file, and keeps its mode */
	if (rc < 0)
		return rc;
	/* The copy is a write for query_only and an attached file for the limit. */
	rc = db_pragma(db, "PRAGMA query_only=off", err);
	sqlite3_limit(db->native, SQLITE_LIMIT_ATTACHED, 1);
	if (rc == 0) {
		st = db_stmt_get(db, SQL_META_BACKUP);
		db_bind_textz(st, 1, path);
		rc = db_run(&st, err);
	}
	sqlite3_limit(db->native, SQLITE_LIMIT_ATTACHED, 0);
	if (db_pragma(db, "PRAGMA query_only=on", rc < 0 ? NULL : err) < 0 && rc == 0)
		rc = ERR_INTERNAL;
	if (rc == 0)
		rc = sync_file(path, err);
	if (rc < 0)
		(void)unlink(path);     /* half a copy is worse than none */
	return rc;
}

#ifdef BENCH_BUILD
int db_bench_no_sync(struct db *db, struct err *err)
{
	return db_pragma(db, "PRAGMA synchronous=off", err);
}
#endif
