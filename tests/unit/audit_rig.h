#ifndef TESTS_AUDIT_RIG_H
#define TESTS_AUDIT_RIG_H

/* A store with the logs of the audit open for writing, and what verification found in it last. */

#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "verify/verify.h"

#include "store.h"
#include "suite.h"
#include "tmpdir.h"

struct fix {
	char *dir, path[600];
	struct db *db;
	struct audit_logs *logs;
	struct err err;
	int64_t idx;                    /* of the last append, where a suite keeps it */
	unsigned count[AUDIT_FINDING_COUNT];
	char last[400];
	struct audit_coverage sum;
};

#define OK(expr) do { if ((expr) != 0) fail_msg("%s: %s: %s", #expr, f->err.where, f->err.msg); } while (0)

static inline void begin(struct fix *f)
{
	OK(db_txn_begin(f->db, true, &f->err));
}

static inline void commit(struct fix *f)
{
	OK(audit_logs_flush(f->logs, f->db, &f->err));
	OK(db_txn_end(f->db, 0, &f->err));
	audit_logs_commit(f->logs);
}

static inline void open_store(struct fix *f)
{
	OK(db_open(f->path, DB_WRITER, false, &f->db, &f->err));
	OK(db_migrate(f->db, &f->err));
	OK(audit_logs_open(f->db, &f->logs, &f->err));
}

/* As it is, which may be damaged. */
static inline void reopen_store(struct fix *f)
{
	OK(db_open(f->path, DB_WRITER, false, &f->db, &f->err));
	OK(audit_logs_open(f->db, &f->logs, &f->err));
}

static inline void close_store(struct fix *f)
{
	audit_logs_close(&f->logs);
	db_close(&f->db);
}

static inline void create_log(struct fix *f, int64_t tenant, const char *name)
{
	OK(audit_log_create(f->logs, f->db, tenant, name, &f->err));
}

/* The file of a store without rows, not open yet. */
static inline struct fix *fix_new(void)
{
	struct fix *f = mem_zalloc(sizeof(*f));

	f->dir = tmpdir_make();
	tmpdir_path(f->dir, DB_FILE, f->path, sizeof(f->path));
	OK(store_copy(f->path, &f->err));
	return f;
}

/* Teardown, also of the clock. */
static inline int fix_free(void **state)
{
	struct fix *f = *state;

	close_store(f);
	tmpdir_remove(f->dir);
	free(f);
	clock_real();
	return 0;
}

/* A closed store as a set-up has made it, its files in memory, and the fake clock as it was then: made once, and laid
 * out anew for each test that begins there. */
struct fix_model {
	size_t n;
	struct { char name[64]; struct str bytes; } file[4];
	uint64_t wall_us, mono_us;
};

static inline void fix_keep(struct fix *f, struct fix_model *ret)
{
	DIR *dir = opendir(f->dir);
	char path[700];

	assert_non_null(dir);
	for (const struct dirent *e; (e = readdir(dir));) {
		if (e->d_name[0] == '.')
			continue;
		assert_true(ret->n < NELEMS(ret->file) && strlen(e->d_name) < sizeof(ret->file[0].name));
		strcpy(ret->file[ret->n].name, e->d_name);
		OK(path_read(tmpdir_path(f->dir, e->d_name, path, sizeof(path)), 64 << 20, &ret->file[ret->n].bytes, &f->err));
		ret->n++;
	}
	closedir(dir);
	ret->wall_us = clock_wall_us();
	ret->mono_us = clock_mono_us();
}

static inline struct fix *fix_laid_out(const struct fix_model *m)
{
	struct fix *f = mem_zalloc(sizeof(*f));
	char path[700];

	f->dir = tmpdir_make();
	tmpdir_path(f->dir, DB_FILE, f->path, sizeof(f->path));
	for (size_t i = 0; i < m->n; i++)
		OK(store_write(tmpdir_path(f->dir, m->file[i].name, path, sizeof(path)), &m->file[i].bytes, &f->err));
	clock_fake(m->wall_us, m->mono_us);
	return f;
}

/* What make(which) makes, which closes the store and is asked once in a process. */
static inline struct fix *fix_like(struct fix_model *m, struct fix *(*make)(unsigned which), unsigned which)
{
	if (m->n == 0) {
		struct fix *f = make(which);

		fix_keep(f, m);
		(void)fix_free((void **)&f);
	}
	return fix_laid_out(m);
}

/* Behind the back of who has the store open. */
static inline void raw(const struct fix *f, const char *sql)
{
	char *why = NULL;
	sqlite3 *db;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
	sqlite3_exec(db, "PRAGMA synchronous=OFF", NULL, NULL, NULL);
	if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
		fail_msg("%s: %s", sql, why);
	sqlite3_close(db);
}

static inline void found(void *arg, const struct audit_finding *finding)
{
	struct fix *f = arg;

	f->count[finding->code]++;
	snprintf(f->last, sizeof(f->last), "%s %s %d-%d %s", audit_finding_name(finding->code),
		 finding->origin ? finding->origin : "-", (int)finding->from, (int)finding->to,
		 finding->detail ? finding->detail : "-");
}

/* What one verification found: counted in fix, and as text. */
struct found_and_said { struct fix *f; struct str said; };

static inline void found_and_said(void *arg, const struct audit_finding *finding)
{
	struct found_and_said *told = arg;

	found(told->f, finding);
	str_printf(&told->said, "%s %s %" PRId64 "-%" PRId64 " %s%s\n", audit_finding_name(finding->code),
		   finding->origin ? finding->origin : "-", finding->from, finding->to, finding->gap ? "gap " : "",
		   finding->detail ? finding->detail : "-");
}

/* How many findings there are in the logs of tenant, 0: in all.  What is found, and in which order, does not depend on
 * how many threads look (SC-701): five, then two or one in turn.  In those are no races that are not in five. */
static inline unsigned verify(struct fix *f, int64_t tenant)
{
	static unsigned turn;
	const unsigned threads[] = { 5, 1 + turn++ % 2 };
	struct str first = STR_INIT;
	struct audit_coverage sum[NELEMS(threads)];
	const size_t times = LOOKS_FOR_RACES ? 1 : NELEMS(threads);
	unsigned n = 0;

	for (size_t i = 0; i < times; i++) {
		const struct audit_evidence with = { .threads = threads[i] };
		struct found_and_said told = { .f = f, .said = STR_INIT };
		struct db *reader = NULL;

		memset(f->count, 0, sizeof(f->count));
		f->last[0] = '\0';
		OK(db_open(f->path, DB_READER, false, &reader, &f->err));
		OK(audit_verify_with(reader, tenant, &with, found_and_said, &told, &sum[i], &f->err));
		db_close(&reader);
		if (i == 0)
			str_puts(&first, str_text(&told.said));
		if (strcmp(str_text(&first), str_text(&told.said)) != 0)
			fail_msg("%u threads find:\n%s%u:\n%s", threads[i], str_text(&told.said), threads[0], str_text(&first));
		str_fini(&told.said);
		assert_int_equal(sum[0].records, sum[i].records);
		assert_int_equal(sum[0].shut, sum[i].shut);
		assert_int_equal(sum[0].bad, sum[i].bad);
	}
	str_fini(&first);
	f->sum = sum[times - 1];
	for (int i = 0; i < AUDIT_FINDING_COUNT; i++)
		n += f->count[i];
	assert_int_equal(n, f->sum.bad + f->sum.gaps);
	return n;
}

#endif
