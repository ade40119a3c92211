/*
 * A tool of the build: runs the steps of sql/migrate, sql/keys and sql/segment in memory and prints what schema they
 * make up to each, as digests, so that a server need not run them all at each start to know its own schema again
 * (migrate.c).  With --list for contrib/check-schemas.
 */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "base/crypto.h"
#include "db/db.h"

#include "db_int.h"

static int fail(sqlite3 *db, const char *where)
{
	fprintf(stderr, "mkdigest: %s: %s\n", where, sqlite3_errmsg(db));
	sqlite3_close(db);
	return 1;
}

/* lean: of this step without the indexes that it can be without; 0: with all. */
static int digest_schema(sqlite3 *db, int lean, uint8_t ret[DIGEST_SIZE])
{
	struct digest *d = digest_new();
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db, sql_sqlite[SQL_META_LIST_SCHEMA].text, -1, &st, NULL);

	while (rc == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW) {
		if (lean > 0 && db_is_lean_left_out((const char *)sqlite3_column_text(st, 1), lean))
			continue;
		for (int col = 0; col < 4; col++) {
			const char *text = (const char *)sqlite3_column_text(st, col);

			db_digest_column(d, text ? text : "", (size_t)sqlite3_column_bytes(st, col));
		}
	}
	rc = sqlite3_finalize(st);
	digest_end(&d, ret);
	return rc;
}

/* Of steps from first on: C, or for list lines with name and version. */
static int print(const char *name, int first, int steps, bool lean, bool list)
{
	uint8_t digest[DIGEST_SIZE];
	sqlite3 *db = NULL;

	if (sqlite3_open(":memory:", &db) != SQLITE_OK)
		return fail(db, "memory");
	if (!list)
		printf("const uint8_t db_%s_digest[%d][DIGEST_SIZE] = {\n", name, steps);
	for (int step = 0; step < steps; step++) {
		const struct sql_text *sql = &sql_sqlite[first + step];

		if (sqlite3_exec(db, sql->text, NULL, NULL, NULL) != SQLITE_OK ||
		    digest_schema(db, lean ? step + 1 : 0, digest) != SQLITE_OK)
			return fail(db, sql->name);
		if (list)
			printf("%s %d ", name, step + 1);
		for (size_t i = 0; i < DIGEST_SIZE; i++)
			printf(list ? "%02x" : i == 0 ? "\t{ 0x%02x" : ", 0x%02x", digest[i]);
		puts(list ? "" : " },");
	}
	if (!list)
		puts("};");
	sqlite3_close(db);
	return 0;
}

int main(int argc, char **argv)
{
	bool list = argc == 2 && strcmp(argv[1], "--list") == 0;

	if (!list)
		puts("/* generated from sql/ by src/db/mkdigest; do not edit */\n#include \"config.h\"\n\n"
		     "#include \"src/db/db_int.h\"\n");
	return print("store", 0, SQL__STEPS, false, list) || print("lean", 0, SQL__STEPS, true, list) ||
		print("keys", SQL__STEPS, SQL__KEYS_STEPS, false, list) ||
		print("segment", SQL__STEPS + SQL__KEYS_STEPS, SQL__SEGMENT_STEPS, false, list);
}
