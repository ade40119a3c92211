/* A database of its own with some tables of a store and all its views, for programs that know neither blocks nor this
 * one: made in a file without a name, row by row, in one transaction that nobody else sees.  Called by whoever reads
 * the store, on his thread; a crash leaves nothing. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"

#include "db_int.h"

/* Of one statement into one table. */
struct put { const struct db_stmt *of; char *table; sqlite3_stmt *native; };
enum {
	PUTS_MAX = 8,
	ROOM_SHARE = 2,                 /* of the room that is left a copy takes one part in so many */
};
struct db_copy {
	struct db *db;
	struct put put[PUTS_MAX];
	unsigned puts;
};

static int fail(struct db_copy *c, int rc, const char *what, struct err *err)
{
	if ((rc & 0xff) != SQLITE_FULL)
		return db_fail(c->db, rc, what, err);
	metric_inc(METRIC_copies_too_large);
	(void)err_set(err, ERR_LIMIT, "", "the file would take more than half of the room that is left where the store is");
	err_hint(err, "a shorter time makes it smaller");
	return ERR_LIMIT;
}

static int run(struct db_copy *c, const char *sql, struct err *err)
{
	int rc = sqlite3_exec(c->db->native, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : fail(c, rc, "a copy", err);
}

int db_copy_bound(struct db_copy *c, uint64_t pages, struct err *err)
{
	char sql[60];

	(void)snprintf(sql, sizeof(sql), "PRAGMA max_page_count = %" PRIu64, pages);
	return run(c, sql, err);
}

/* Calls need the other part as well. */
static int limit(struct db_copy *c, const char *dir, struct err *err)
{
	struct statvfs fs;

	if (statvfs(dir, &fs) != 0)
		return err_set(err, ERR_IO, dir, "cannot see how much room there is: %s", strerror(errno));
	return db_copy_bound(c, (uint64_t)fs.f_bavail * fs.f_frsize / ROOM_SHARE / DB_PAGE_SIZE + 1, err);
}

static bool is_one_of(const char *name, const char *const *tables)
{
	for (; *tables; tables++)
		if (strcmp(name, *tables) == 0)
			return true;
	return false;
}

/* As they stand in the file: what a connection computes beside it is not of it. */
static int make_objects(struct db_copy *c, struct db *from, const char *const *tables, struct err *err)
{
	struct db_stmt *st = db_stmt_get(from, SQL_META_LIST_OBJECTS);
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		const bool view = strcmp(db_col_text(st, 0, NULL), "view") == 0;

		if (!view && !is_one_of(db_col_text(st, 1, NULL), tables))
			continue;
		rc = run(c, db_col_text(st, 2, NULL), err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc;
}

static int open_file(struct db_copy *c, const char *dir, int *ret_fd, struct err *err)
{
	char *path = path_join(dir, "nameless-XXXXXX");
	int fd = mkostemp(path, O_CLOEXEC), rc = 0;

	c->db = db_new(DB_READER, path);
	if (fd < 0)
		rc = err_set(err, ERR_IO, dir, "a copy cannot be written: %s", strerror(errno));
	else if (sqlite3_open_v2(path, &c->db->native,
				 SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, NULL) != SQLITE_OK)
		rc = err_set(err, ERR_IO, dir, "a copy cannot be opened: %s", sqlite3_errmsg(c->db->native));
	/* Now it has a lock, and no need of its name. */
	rc = rc < 0 ? rc : run(c, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -8192; "
			       "PRAGMA trusted_schema = OFF; BEGIN EXCLUSIVE", err);
	if (fd >= 0)
		(void)unlink(path);
	free(path);
	*ret_fd = fd;
	return rc;
}

int db_copy_new(struct db *from, const char *dir, const char *const *tables, struct db_copy **ret, int *ret_fd,
		struct err *err)
{
	struct db_copy *c = mem_zalloc(sizeof(*c));
	int fd = -1, rc = open_file(c, dir, &fd, err);

	if (rc == 0)
		rc = limit(c, dir, err);
	if (rc == 0)
		rc = make_objects(c, from, tables, err);
	if (rc < 0) {
		db_copy_free(&c);
		if (fd >= 0)
			close(fd);
		return rc;
	}
	*ret = c;
	*ret_fd = fd;
	return 0;
}

/* INSERT of as many columns as the statement has, which are called alike. */
static int prepare(struct db_copy *c, const char *table, struct db_stmt *st, struct put **ret, struct err *err)
{
	struct put *p = &c->put[c->puts];
	struct str sql = STR_INIT;
	int rc;

	if (c->puts == PUTS_MAX)
		return err_set(err, ERR_INTERNAL, table, "more than %d statements", PUTS_MAX);
	str_printf(&sql, "INSERT OR IGNORE INTO \"%s\"(", table);
	for (unsigned i = 0; i < db_col_count(st); i++)
		str_printf(&sql, "%s\"%s\"", i ? ", " : "", db_col_name(st, i));
	str_puts(&sql, ") VALUES(");
	for (unsigned i = 0; i < db_col_count(st); i++)
		str_puts(&sql, i ? ", ?" : "?");
	str_puts(&sql, ")");
	rc = sqlite3_prepare_v2(c->db->native, str_text(&sql), -1, &p->native, NULL);
	str_fini(&sql);
	if (rc != SQLITE_OK)
		return db_fail(c->db, rc, table, err);
	p->of = st;
	p->table = mem_strdup(table);
	c->puts++;
	*ret = p;
	return 0;
}

int db_copy_row(struct db_copy *c, const char *table, struct db_stmt *st, struct err *err)
{
	struct put *p = NULL;
	int rc = 0;

	for (unsigned i = 0; i < c->puts; i++)
		if (c->put[i].of == st && strcmp(c->put[i].table, table) == 0)
			p = &c->put[i];
	if (!p)
		rc = prepare(c, table, st, &p, err);
	if (rc < 0)
		return rc;
	for (int i = 0; i < (int)db_col_count(st); i++)
		sqlite3_bind_value(p->native, i + 1, sqlite3_column_value(st->native, i));
	rc = sqlite3_step(p->native);
	rc = rc == SQLITE_DONE ? 0 : fail(c, rc, table, err);
	sqlite3_reset(p->native);
	return rc;
}

struct db *db_copy_db(struct db_copy *c)
{
	return c->db;
}

int db_copy_index(struct db_copy *c, const char *name, const char *of, struct err *err)
{
	char *sql = mem_printf("CREATE INDEX \"%s\" ON %s", name, of);
	int rc = run(c, sql, err);

	free(sql);
	return rc;
}

int db_copy_end(struct db_copy **cp, struct err *err)
{
	int rc = run(*cp, "COMMIT", err);

	db_copy_free(cp);
	return rc;
}

void db_copy_free(struct db_copy **cp)
{
	struct db_copy *c = *cp;

	*cp = NULL;
	if (!c)
		return;
	for (unsigned i = 0; i < c->puts; i++) {
		sqlite3_finalize(c->put[i].native);
		free(c->put[i].table);
	}
	db_close(&c->db);
	free(c);
}
