/*
 * A tool of the build: runs the steps of sql/migrate in memory and prints what schema they make, as a digest, so that
 * a server need not run them all at each start to know its own schema again (migrate.c).
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "base/crypto.h"
#include "db/db.h"

static int fail(sqlite3 *db, const char *where)
{
	fprintf(stderr, "mkdigest: %s: %s\n", where, sqlite3_errmsg(db));
	sqlite3_close(db);
	return 1;
}

static void print(const uint8_t digest[DIGEST_SIZE])
{
	printf("/* generated from sql/migrate by src/db/mkdigest; do not edit */\n#include \"config.h\"\n\n#include "
	       "\"src/db/db_int.h\"\n\n"
	       "const uint8_t db_store_digest[DIGEST_SIZE] = {");
	for (size_t i = 0; i < DIGEST_SIZE; i++)
		printf("%s0x%02x,", i % 8 ? " " : "\n\t", digest[i]);
	printf("\n};\n");
}

int main(void)
{
	struct digest *d = digest_new();
	uint8_t digest[DIGEST_SIZE];
	sqlite3_stmt *st = NULL;
	sqlite3 *db = NULL;
	int rc;

	if (sqlite3_open(":memory:", &db) != SQLITE_OK)
		return fail(db, "memory");
	for (int step = 0; step < SQL__STEPS; step++)
		if (sqlite3_exec(db, sql_sqlite[step].text, NULL, NULL, NULL) != SQLITE_OK)
			return fail(db, sql_sqlite[step].name);
	if (sqlite3_prepare_v2(db, sql_sqlite[SQL_META_LIST_SCHEMA].text, -1, &st, NULL) != SQLITE_OK)
		return fail(db, "schema");
	while ((rc = sqlite3_step(st)) == SQLITE_ROW)
		for (int col = 0; col < 2; col++)
			digest_put(d, sqlite3_column_text(st, col), (size_t)sqlite3_column_bytes(st, col) + 1);
	digest_end(&d, digest);
	sqlite3_finalize(st);
	if (rc != SQLITE_DONE)
		return fail(db, "schema");
	sqlite3_close(db);
	print(digest);
	return 0;
}
