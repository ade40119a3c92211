/*
 * Loads 1,000 tenants with 50 granted tools each, 50,000 definitions of 2 KB, as a start does, and prints one JSON
 * line: what loading took and what it holds, and the first list of all tenants.
 * Usage: b_registry [TENANTS [TOOLS]]
 */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "registry/registry.h"
#include "tenant/tenant.h"

enum { TEXT_BYTES = 2048 };

static const uint8_t master[32] = { 1 };

static _Noreturn void fail(const struct err *err)
{
	fprintf(stderr, "b_registry: %s: %s\n", err->where, err->msg);
	exit(1);
}

static void run(struct db_stmt *st)
{
	struct err err;

	int rc;

	do
		rc = db_step(st, &err);
	while (rc == 1);                /* the id */
	if (rc < 0)
		fail(&err);
	db_stmt_put(&st);
}

static void add_tool(struct db *db, int64_t tool_id, const char *name)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TOOL_INSERT);
	struct str text = STR_INIT;
	uint8_t digest[32];

	db_bind_textz(st, 1, name);
	db_bind_i64(st, 2, 1);
	db_bind_i64(st, 3, 1);
	run(st);
	str_printf(&text, "{\"name\":\"%s\",\"inputSchema\":{\"type\":\"object\"},\"handler\":{},\"description\":\"", name);
	while (text.len < TEXT_BYTES - 2)
		str_putc(&text, 'x');
	str_puts(&text, "\"}");
	digest_sha256(text.p, text.len, digest);
	st = db_stmt_get(db, SQL_TOOL_INSERT_VERSION);
	db_bind_i64(st, 1, tool_id);
	db_bind_i64(st, 2, 1);
	db_bind_blob(st, 3, digest, sizeof digest);
	db_bind_blob(st, 4, digest, sizeof digest);
	db_bind_text(st, 5, text.p, text.len);
	db_bind_textz(st, 6, "uid/0");
	db_bind_i64(st, 7, 1);
	db_bind_i64(st, 8, 1);
	db_bind_null(st, 9);
	run(st);
	str_fini(&text);
}

static void add_grant(struct db *db, int64_t tenant_id, const char *name)
{
	struct db_stmt *st = db_stmt_get(db, SQL_GRANT_INSERT);

	db_bind_i64(st, 1, tenant_id);
	db_bind_textz(st, 2, name);
	db_bind_textz(st, 3, "");
	for (unsigned i = 4; i <= 7; i++)
		db_bind_i64(st, i, 0);
	db_bind_null(st, 8);
	run(st);
}

static void fill(struct db *db, int64_t tenants, int64_t tools)
{
	for (int64_t t = 1; t <= tenants; t++) {
		char name[48];
		struct db_stmt *st = db_stmt_get(db, SQL_TENANT_INSERT);

		(void)snprintf(name, sizeof name, "tenant%lld", (long long)t); /* fits */
		db_bind_textz(st, 1, name);
		db_bind_textz(st, 2, name);
		for (unsigned i = 3; i <= 6; i++)
			db_bind_i64(st, i, 0);
		db_bind_textz(st, 7, "");
		run(st);
		for (int64_t i = 1; i <= tools; i++) {
			(void)snprintf(name, sizeof name, "t%lld_%lld", (long long)t, (long long)i); /* fits */
			add_tool(db, (t - 1) * tools + i, name);
			add_grant(db, t, name);
		}
	}
}

static double rss_mb(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%*d %ld", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static double list_all(struct registry *reg, int64_t tenants)
{
	uint64_t start = clock_mono_us();

	for (int64_t t = 1; t <= tenants; t++) {
		struct reg_snapshot *snap = reg_acquire(reg, t);
		const struct reg_ask ask = { .kind = REG_TOOL, .rev = REV_R5 };
		struct reg_page page;
		struct err err;

		if (reg_page(reg, snap, &ask, &page, &err) < 0)
			fail(&err);
		reg_release(reg, &snap);
	}
	return (double)(clock_mono_us() - start) / 1000;
}

static void measure(const char *path, int64_t tenants, int64_t tools)
{
	struct tenants *ten = NULL;
	struct registry *reg = registry_new(NULL);
	struct reg_change *change = NULL;
	struct db *db = NULL;
	struct err err;
	double load_ms, loaded_mb, before_mb = rss_mb();
	uint64_t start = clock_mono_us();

	if (db_open(path, DB_READER, false, &db, &err) < 0 || tenants_open(master, db, &ten, &err) < 0 ||
	    reg_change_all(db, &change, &err) < 0)
		fail(&err);
	reg_apply(reg, &change, NULL, NULL);
	load_ms = (double)(clock_mono_us() - start) / 1000;
	loaded_mb = rss_mb();
	printf("{\"scenario\":\"registry\",\"tenants\":%lld,\"tools\":%lld,\"load_ms\":%.0f,\"rss_before_mb\":%.0f,"
	       "\"rss_mb\":%.0f,\"first_list_ms\":%.0f,", (long long)tenants, (long long)tools, load_ms, before_mb,
	       loaded_mb, list_all(reg, tenants));
	printf("\"rss_listed_mb\":%.0f}\n", rss_mb());
	registry_free(&reg);
	tenants_close(&ten);
	db_close(&db);
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/b_registry.XXXXXX", path[64];
	uint64_t tenants = 1000, tools = 50;
	struct db *db = NULL;
	struct err err;

	if ((argc > 1 && text_u64(argv[1], strlen(argv[1]), &tenants) < 0) ||
	    (argc > 2 && text_u64(argv[2], strlen(argv[2]), &tools) < 0) || secret_init() < 0 || !mkdtemp(dir))
		return 2;
	(void)snprintf(path, sizeof path, "%s/toolcrib.db", dir); /* fits */
	if (db_open(path, DB_WRITER, true, &db, &err) < 0 || db_migrate(db, &err) < 0 || db_txn_begin(db, true, &err) < 0)
		fail(&err);
	fill(db, (int64_t)tenants, (int64_t)tools);
	if (db_txn_end(db, 0, &err) < 0)
		fail(&err);
	db_close(&db);
	measure(path, (int64_t)tenants, (int64_t)tools);
	(void)unlink(path);
	(void)rmdir(dir);
	return 0;
}
