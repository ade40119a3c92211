/* Sealed files that somebody hands over (SCALE SC-908).  The first byte says what the rest is: 'r', a whole file; 'e', edits
 * of an honest one, each the place (three bytes, little-endian) and the byte that stands there; 'c', edits of its columns,
 * each the column, the row, the place (two bytes) and the byte, by SQLite.  Whatever comes, verifying ends with findings
 * or an error, and what is found whole under the pinned key has the records that were sealed. */
#include "config.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "bundle/segment.h"
#include "db/db.h"
#include "db/owner.h"
#include "forms/forms.h"

#include "../unit/seal_rig.h"
#include "../unit/tmpdir.h"
#include "fuzz.h"

enum { RECORDS = 600, TO = 512, EDIT = 4, COLUMN_EDIT = 5 };
#define OK(expr) FUZZ_CHECK((expr) >= 0)

static struct { char *dir, file[600]; struct seal_rig store; struct str honest; struct audit_segment got; } rig;

static void ignore(void *arg, const struct audit_finding *f)
{
	(void)arg;
	FUZZ_CHECK(audit_finding_name(f->code) && f->from <= f->to);
}

/* Whether it is whole. */
static bool verify(struct audit_segment *ret)
{
	const struct audit_evidence with = { .key = &rig.store.pin, .nkey = 1 };
	struct audit_coverage sum;
	struct err err = { 0 };
	const int rc = audit_segment_verify(rig.file, &with, ignore, NULL, ret, &sum, &err);

	FUZZ_CHECK(rc == 0 || *err.msg);
	return rc == 0 && sum.bad == 0 && sum.gaps == 0;
}

static void put_file(const void *p, size_t len)
{
	struct err err;

	(void)unlink(rig.file);
	OK(path_create(rig.file, 0600, p, len, &err));
}

static void remove_store(void)
{
	str_fini(&rig.honest);
	tmpdir_remove(rig.dir);
}

static void set_up(void)
{
	struct audit_segment_req req = { SEAL_LOG, 0, TO, rig.store.origin, NULL };
	struct db *db = NULL;
	char path[600];
	struct err err;

	if (rig.dir)
		return;
	rig.dir = tmpdir_make();
	tmpdir_path(rig.dir, "1.tcs", rig.file, sizeof(rig.file));
	tmpdir_path(rig.dir, DB_FILE, path, sizeof(path));
	OK(seal_rig_make(rig.dir, RECORDS, &rig.store, &err));
	clock_real();
	OK(forms_open_store(db_of_file(path), &db, &err));
	OK(audit_segment_write(db, &req, rig.file, &err));
	db_close(&db);
	FUZZ_CHECK(verify(&rig.got));
	OK(path_read(rig.file, 16 << 20, &rig.honest, &err));
	(void)atexit(remove_store);
}

static void edit_bytes(const uint8_t *p, size_t n)
{
	uint8_t *copy = mem_dup(rig.honest.p, rig.honest.len);

	for (; n >= EDIT; p += EDIT, n -= EDIT)
		copy[(size_t)(p[0] | p[1] << 8 | p[2] << 16) % rig.honest.len] = p[3];
	put_file(copy, rig.honest.len);
	free(copy);
}

static const struct { const char *table, *column; } columns[] = {
	{ "info", "origin" }, { "info", "from_peaks" }, { "info", "to_peaks" }, { "info", "note" }, { "info", "growth" },
	{ "epoch", "pk" }, { "epoch", "cert" }, { "blk", "cols" }, { "blk", "hash" }, { "blk", "zone" }, { "blkpay", "body" },
	{ "text", "text" },
};

/* One byte of one column's value. */
static void edit_column(sqlite3 *db, const uint8_t p[COLUMN_EDIT])
{
	const size_t col = p[0] % NELEMS(columns);
	char *rowid = sqlite3_mprintf("SELECT rowid FROM %s LIMIT 1 OFFSET %d", columns[col].table, p[1] % 4);
	sqlite3_stmt *st = NULL;
	sqlite3_blob *blob = NULL;

	if (sqlite3_prepare_v2(db, rowid, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW &&
	    sqlite3_blob_open(db, "main", columns[col].table, columns[col].column, sqlite3_column_int64(st, 0), 1, &blob) == SQLITE_OK &&
	    sqlite3_blob_bytes(blob) > 0)
		(void)sqlite3_blob_write(blob, p + 4, 1, (p[2] | p[3] << 8) % sqlite3_blob_bytes(blob));
	sqlite3_blob_close(blob);
	sqlite3_finalize(st);
	sqlite3_free(rowid);
}

static void edit_columns(const uint8_t *p, size_t n)
{
	sqlite3 *db = NULL;

	put_file(rig.honest.p, rig.honest.len);
	FUZZ_CHECK(sqlite3_open(rig.file, &db) == SQLITE_OK);
	(void)sqlite3_exec(db, "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF", NULL, NULL, NULL);
	for (; n >= COLUMN_EDIT; p += COLUMN_EDIT, n -= COLUMN_EDIT)
		edit_column(db, p);
	sqlite3_close(db);
}

FUZZ_TARGET(segment)
{
	struct audit_segment got;

	if (size == 0)
		return 0;
	set_up();
	if (data[0] == 'r')
		put_file(data + 1, size - 1);
	else if (data[0] == 'e')
		edit_bytes(data + 1, size - 1);
	else if (data[0] == 'c')
		edit_columns(data + 1, size - 1);
	else
		return 0;
	if (verify(&got))
		FUZZ_CHECK(got.from == rig.got.from && got.to == rig.got.to && memcmp(got.root, rig.got.root, sizeof(got.root)) == 0);
	return 0;
}
