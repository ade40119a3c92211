/* A store from one engine to another (db/move.h).  What a table has is asked of its catalogue, so that a column that a
 * step adds is moved as well; rows go by COPY there, and by one statement here.  Called by toolcrib store move. */
#include "config.h"

#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "db/move.h"
#include "db/vtab.h"

#include "db_int.h"

#ifdef HAVE_PGSQL

#include "pg_int.h"

enum { COLUMNS_MAX = 64, SEND_BYTES = 1 << 18, BATCH_ROWS = 50000 };

/* --- what a table has, by PostgreSQL's catalogue */

enum { OID_BYTEA = 17, OID_INT8 = 20, OID_INT2 = 21, OID_INT4 = 23, OID_TEXT = 25, OID_FLOAT8 = 701 };
struct column { char name[64]; int64_t oid; bool identity; };
struct table { const char *name; struct column column[COLUMNS_MAX]; unsigned n; };

static struct db_stmt *ask(struct db *db, const char *text)
{
	struct db_stmt *st = db_stmt_new(db, "store move", text, 0);

	st->types = "";
	st->lent = st->temp = true;
	db->lent++;
	return st;
}

static struct db *server_of(const struct db_move *m)
{
	return m->from->pg ? m->from : m->to;
}

static int read_table(struct db *server, const char *name, struct table *ret, struct err *err)
{
	char sql[400];
	struct db_stmt *st;
	int rc;

	*ret = (struct table){ .name = name };
	(void)snprintf(sql, sizeof(sql), "SELECT attname::text, atttypid::int8, attidentity <> '' FROM pg_attribute "
		       "WHERE attrelid = 'toolcrib.%s'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum", name);
	st = ask(server, sql);
	while ((rc = db_step(st, err)) == 1 && ret->n < COLUMNS_MAX) {
		struct column *c = &ret->column[ret->n++];

		db_col_copy(st, 0, c->name, sizeof(c->name));
		c->oid = db_col_i64(st, 1);
		c->identity = db_col_i64(st, 2);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : ret->n > 0 && rc == 0 ? 0 : err_set(err, ERR_INTERNAL, name, "has no columns that can be moved");
}

static unsigned column_of(const struct table *t, const char *name)
{
	unsigned i = 0;

	while (i < t->n && strcmp(t->column[i].name, name) != 0)
		i++;
	return i;
}

static void put_names(struct str *out, const struct table *t)
{
	for (unsigned i = 0; i < t->n; i++)
		str_printf(out, "%s\"%s\"", i ? ", " : "", t->column[i].name);
}

/* --- writing: COPY */

struct sink {
	struct db *to;
	const struct table *t;
	struct str bytes;               /* for the server */
	sqlite3_stmt *native;           /* into a file */
	int64_t rows;
};

static void put_be(struct str *out, uint64_t n, unsigned bytes)
{
	for (unsigned i = bytes; i-- > 0;)
		str_putc(out, (char)(n >> 8 * i));
}

static int send_bytes(struct sink *s, size_t least, struct err *err)
{
	if (s->bytes.len < least || s->bytes.len == 0)
		return 0;
	if (pg.PQputCopyData(s->to->pg->c, s->bytes.p, (int)s->bytes.len) != 1)
		return pg_unsent(s->to, s->t->name, err);
	str_reset(&s->bytes);
	return 0;
}

static int copy_begin(struct sink *s, struct err *err)
{
	static const char head[] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0";
	struct str sql = STR_INIT;
	PGresult *r = NULL;
	int rc = 0;

	str_printf(&sql, "COPY toolcrib.%s(", s->t->name);
	put_names(&sql, s->t);
	str_puts(&sql, ") FROM STDIN (FORMAT binary)");
	(void)pg.PQsetnonblocking(s->to->pg->c, 0);
	if (!pg.PQsendQuery(s->to->pg->c, sql.p) || (rc = pg_next(s->to, &r, err)) < 0 || !r)
		rc = rc < 0 ? rc : pg_unsent(s->to, s->t->name, err);
	else if (pg.PQresultStatus(r) != PGRES_COPY_IN)
		rc = pg_fail(s->to, r, s->t->name, err);
	else
		pg.PQclear(r);
	str_fini(&sql);
	str_put(&s->bytes, head, sizeof(head) - 1);
	return rc;
}

static int copy_end(struct sink *s, int rc, struct err *err)
{
	PGresult *r = NULL;
	int failed = 0;

	if (rc == 0) {
		put_be(&s->bytes, 0xffff, 2);
		rc = send_bytes(s, 0, err);
	}
	if (s->to->pg->c && pg.PQputCopyEnd(s->to->pg->c, rc < 0 ? "given up" : NULL) == 1)
		while (pg_next(s->to, &r, rc < 0 ? NULL : err) == 0 && r) {
			if (pg.PQresultStatus(r) == PGRES_COMMAND_OK)
				pg.PQclear(r);
			else if (rc < 0 || failed < 0)
				(void)pg_fail(s->to, r, s->t->name, NULL);
			else
				failed = pg_fail(s->to, r, s->t->name, err);
			if (!s->to->pg->c)
				break;
		}
	if (s->to->pg->c)
		(void)pg.PQsetnonblocking(s->to->pg->c, 1);
	return rc < 0 ? rc : failed < 0 ? failed : s->to->pg->c ? 0 : pg_unsent(s->to, s->t->name, err);
}

static int copy_value(struct sink *s, struct db_stmt *st, unsigned i, struct err *err)
{
	const struct column *c = &s->t->column[i];
	const enum db_type type = db_col_type(st, i);
	size_t len = 0;
	const void *p;
	double d;
	uint64_t bits;

	if (type == DB_NULL) {
		put_be(&s->bytes, UINT32_MAX, 4);
		return 0;
	}
	switch (c->oid) {
	case OID_INT8:
	case OID_INT4:
	case OID_INT2: {
		const int64_t n = db_col_i64(st, i);
		const unsigned bytes = c->oid == OID_INT8 ? 8 : c->oid == OID_INT4 ? 4 : 2;

		if (type != DB_INT || (bytes < 8 && (n >> (8 * bytes - 1)) != 0 && (n >> (8 * bytes - 1)) != -1))
			break;
		put_be(&s->bytes, bytes, 4);
		put_be(&s->bytes, (uint64_t)n, bytes);
		return 0;
	}
	case OID_FLOAT8:
		d = db_col_f64(st, i);
		memcpy(&bits, &d, sizeof(bits));
		put_be(&s->bytes, 8, 4);
		put_be(&s->bytes, bits, 8);
		return 0;
	case OID_TEXT:
	case OID_BYTEA:
		p = c->oid == OID_TEXT ? db_col_text(st, i, &len) : db_col_blob(st, i, &len);
		if (type != (c->oid == OID_TEXT ? DB_TEXT : DB_BLOB) || len > PG_VALUE_MAX)
			break;
		put_be(&s->bytes, len, 4);
		str_put(&s->bytes, p, len);
		return 0;
	default:
		break;
	}
	return err_set(err, ERR_CORRUPT, s->t->name, "row %" PRId64 ": %s has a value that its column cannot have", s->rows,
		       c->name);
}

/* --- writing: a file */

static int insert_begin(struct sink *s, struct err *err)
{
	const bool pay = strcmp(s->t->name, "pay") == 0;
	struct str sql = STR_INIT;
	int rc;

	str_printf(&sql, "INSERT INTO main.%s(", s->t->name);
	if (!pay)
		put_names(&sql, s->t);
	str_puts(&sql, pay ? "rec, salt, nonce, ct) VALUES (?7, ?4, ?5, ?6)" : ") VALUES (");
	for (unsigned i = 0; i < s->t->n && !pay; i++)
		str_printf(&sql, "%s?%u", i ? ", " : "", i + 1);
	if (!pay)
		str_putc(&sql, ')');
	rc = sqlite3_prepare_v2(s->to->native, sql.p, -1, &s->native, NULL);
	str_fini(&sql);
	return rc == SQLITE_OK ? 0 : db_fail(s->to, rc, s->t->name, err);
}

static void insert_value(struct sink *s, struct db_stmt *st, unsigned i)
{
	const int pos = (int)i + 1;
	size_t len = 0;
	const void *p;

	switch (db_col_type(st, i)) {
	case DB_NULL:
		(void)sqlite3_bind_null(s->native, pos);
		break;
	case DB_INT:
		(void)sqlite3_bind_int64(s->native, pos, db_col_i64(st, i));
		break;
	case DB_FLOAT:
		(void)sqlite3_bind_double(s->native, pos, db_col_f64(st, i));
		break;
	case DB_TEXT:
		p = db_col_text(st, i, &len);
		(void)sqlite3_bind_text(s->native, pos, p, (int)len, SQLITE_STATIC);
		break;
	case DB_BLOB:
		p = db_col_blob(st, i, &len);
		(void)sqlite3_bind_blob(s->native, pos, len ? p : "", (int)len, SQLITE_STATIC);
	}
}

static int insert_row(struct sink *s, struct db_stmt *st, struct err *err)
{
	const unsigned n = db_col_count(st);
	int rc;

	for (unsigned i = 0; i < n; i++)
		insert_value(s, st, i);
	rc = sqlite3_step(s->native);
	(void)sqlite3_reset(s->native);
	return rc == SQLITE_DONE ? 0 : db_fail(s->to, rc, s->t->name, err);
}

/* --- a table */

static int put_row(struct sink *s, struct db_stmt *st, struct err *err)
{
	int rc = 0;

	if (!s->to->pg)
		return insert_row(s, st, err);
	put_be(&s->bytes, s->t->n, 2);
	for (unsigned i = 0; rc == 0 && i < s->t->n; i++)
		rc = copy_value(s, st, i, err);
	return rc < 0 ? rc : send_bytes(s, SEND_BYTES, err);
}

/* Rows of a file are in the order in which they came, by which much is found there: here that is their time, which
 * within a log never goes back (sql/migrate/0042_span.sql).  A payload there names the number of its record's row. */
#define ORDER_OF_RECORDS "max(ts) OVER (PARTITION BY log ORDER BY idx), log, idx"
static void put_question(struct str *sql, const struct db *from, const struct table *t, int64_t log)
{
	const bool rec = strcmp(t->name, "rec") == 0, pay = strcmp(t->name, "pay") == 0;
	const bool seen = db_vtab_has(from, "rec");
	const char *rows = seen ? "rec" : "rec_at";

	str_puts(sql, "SELECT ");
	if (pay && from->pg)
		str_puts(sql, "p.ts, p.idx, p.log, p.salt, p.nonce, p.ct, r.n FROM toolcrib.pay p JOIN (SELECT log, idx, ts, "
			 "row_number() OVER (ORDER BY at, log, idx) AS n FROM (SELECT log, idx, ts, max(ts) OVER "
			 "(PARTITION BY log ORDER BY idx) AS at FROM toolcrib.rec) x) r ON r.log = p.log "
			 "AND r.idx = p.idx AND r.ts = p.ts ORDER BY r.n");
	else if (pay)
		str_printf(sql, "r.ts, r.idx, r.log, p.salt, p.nonce, p.ct FROM %s r CROSS JOIN pay p ON p.rec = r.id "
			   "WHERE r.log = %" PRId64 " AND r.idx >= 0", rows, log);
	else
		put_names(sql, t);
	if (!pay)
		str_printf(sql, " FROM %s%s", from->pg ? "toolcrib." : "", rec && !from->pg ? rows : t->name);
	if (strcmp(t->name, "meta") == 0)
		str_puts(sql, " WHERE \"key\" NOT IN ('schema', 'tail_from', 'open_from', 'moving', 'keeper', 'signed')");
	else if (rec && from->pg)
		str_puts(sql, " ORDER BY " ORDER_OF_RECORDS);
	else if (rec)
		str_printf(sql, " WHERE log = %" PRId64 " AND idx >= 0 ORDER BY %sidx", log, seen ? "" : "span, ");
	else if (column_of(t, "id") < t->n)
		str_puts(sql, " ORDER BY id");
}

struct told { db_moved_fn *fn; void *arg; };
static int move_rows(const struct db_move *m, struct sink *s, int64_t of_log, const struct told *told, struct err *err)
{
	const unsigned log = column_of(s->t, "log"), idx = column_of(s->t, "idx"), leaf = column_of(s->t, "leaf");
	struct str sql = STR_INIT;
	struct db_stmt *st;
	int rc = 0;

	put_question(&sql, m->from, s->t, of_log);
	st = ask(m->from, sql.p);
	while (rc == 0 && (rc = db_step(st, err)) == 1) {
		size_t len = 0;
		const void *p = told->fn ? db_col_blob(st, leaf, &len) : NULL;

		if (told->fn)
			told->fn(told->arg, db_col_i64(st, log), db_col_i64(st, idx), p, len);
		rc = put_row(s, st, err);
		s->rows++;
		if (rc == 0 && !s->to->pg && s->rows % BATCH_ROWS == 0) {       /* what nobody reads yet need not be one */
			rc = db_txn_end(s->to, 0, err);
			rc = rc < 0 ? rc : db_txn_begin(s->to, true, err);
		}
	}
	db_stmt_put(&st);
	str_fini(&sql);
	return rc;
}

static int number(struct db *db, const char *sql, int64_t *ret, struct err *err)
{
	struct db_stmt *st = ask(db, sql);
	int rc = db_step(st, err);

	*ret = rc == 1 ? db_col_i64(st, 0) : 0;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* Of a file log by log, in each by position: no index has them all in that order. */
static int move_logs(const struct db_move *m, struct sink *s, const struct told *told, struct err *err)
{
	struct db_stmt *st = ask(m->from, "SELECT id FROM log ORDER BY id");
	int rc;

	while ((rc = db_step(st, err)) == 1 && (rc = move_rows(m, s, db_col_i64(st, 0), told, err)) == 0)
		;
	db_stmt_put(&st);
	return rc;
}

int db_move_table(struct db_move *m, const char *table, db_moved_fn *fn, void *arg, struct err *err)
{
	struct db *to = m->to;
	const bool records = strcmp(table, "rec") == 0;
	const bool by_log = (records || strcmp(table, "pay") == 0) && !m->from->pg;
	const struct told told = { fn, arg };
	struct table t;
	struct sink s = { .to = to, .t = &t, .bytes = STR_INIT };
	int rc = read_table(server_of(m), table, &t, err);

	assert(!fn || records);
	if (rc == 0)
		rc = to->pg ? copy_begin(&s, err) : insert_begin(&s, err);
	if (rc < 0)
		return rc;
	rc = by_log ? move_logs(m, &s, &told, err) : move_rows(m, &s, 0, &told, err);
	if (to->pg)
		rc = copy_end(&s, rc, err);
	else
		(void)sqlite3_finalize(s.native);
	str_fini(&s.bytes);
	return rc;
}

/* --- indexes, and whether a log is there: made of many rows at once they cost a part of what they cost row by row */

#define OF_RECORDS " IN ('toolcrib.rec'::regclass, 'toolcrib.pay'::regclass)"
static const char made_there[] =
	"SELECT coalesce(string_agg(gone, '; '), ''), coalesce(string_agg(made, '; '), '') FROM (SELECT "
	"'ALTER TABLE ' || conrelid::regclass || ' DROP CONSTRAINT ' || quote_ident(conname) AS gone, "
	"'ALTER TABLE ' || conrelid::regclass || ' ADD CONSTRAINT ' || quote_ident(conname) || ' ' || "
	"pg_get_constraintdef(oid) AS made FROM pg_constraint WHERE conrelid" OF_RECORDS " AND contype = 'f' "
	"UNION ALL SELECT 'DROP INDEX ' || indexrelid::regclass, replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON ') "
	"FROM pg_index WHERE indrelid" OF_RECORDS " AND NOT indisprimary) x";
static const char made_here[] =
	"SELECT coalesce(group_concat('DROP INDEX main.' || name, '; '), ''), coalesce(group_concat(sql, '; '), '') FROM ("
	"SELECT name, sql FROM main.sqlite_schema WHERE type = 'index' AND tbl_name = 'rec' AND sql IS NOT NULL "
	"ORDER BY rowid)";

static int run_all(struct db *db, const char *sql, struct err *err)
{
	int rc;

	if (db->pg)
		return *sql ? pg_exec(db, sql, NULL, err) : 0;
	rc = sqlite3_exec(db->native, sql, NULL, NULL, NULL);
	return rc == SQLITE_OK ? 0 : db_fail(db, rc, "store move", err);
}

static int make_bare(struct db_move *m, struct err *err)
{
	struct db_stmt *st = ask(m->to, m->to->pg ? made_there : made_here);
	int rc = db_step(st, err);
	char *gone = rc == 1 ? db_col_dup(st, 0) : NULL;

	m->later = rc == 1 ? db_col_dup(st, 1) : NULL;
	db_stmt_put(&st);
	rc = gone ? run_all(m->to, gone, err) : rc;
	free(gone);
	return rc < 0 ? rc : 0;
}

/* And what the planner has to know of tables that were empty a moment ago. */
static int make_whole(struct db_move *m, struct err *err)
{
	struct str sql = STR_INIT;
	int rc = run_all(m->to, m->later, err);

	for (const char *const *t = m->tables; *t; t++)
		str_printf(&sql, "%s toolcrib.%s", t == m->tables ? "ANALYZE" : ",", *t);
	if (rc == 0 && m->to->pg)
		rc = run_all(m->to, sql.p, err);
	str_fini(&sql);
	return rc;
}

/* --- begin and end */

int db_move_begin(struct db_move *m, struct err *err)
{
	struct db *to = m->to;
	int rc = 0;

	if (to->pg)
		rc = pg_exec(to, "SET idle_in_transaction_session_timeout = 0; SET lock_timeout = 0", NULL, err);
	if (rc == 0)
		rc = m->keys ? db_migrate_keys(to, err) : db_migrate(to, err);
	if (rc == 0 && to->pg)
		rc = pg_exec(to, "INSERT INTO toolcrib.meta(key, value) VALUES ('moving', '1')", NULL, err);
	if (rc == 0)
		rc = db_txn_begin(to, true, err);
	if (rc < 0 || m->keys)
		return rc;
	rc = make_bare(m, err);
	return rc < 0 ? db_move_end(m, rc, err) : 0;
}

/* An id is never given twice: the row that had it may be gone. */
static int move_id(const struct db_move *m, const char *table, struct err *err)
{
	const bool there = m->to->pg != NULL;
	struct table t;
	struct db_stmt *st;
	char sql[300];
	int64_t last = 0;
	int rc = read_table(server_of(m), table, &t, err);

	if (rc < 0 || column_of(&t, "id") == t.n || !t.column[column_of(&t, "id")].identity || (m->keys && !there))
		return rc;                      /* of keys a row stays where it was */
	(void)snprintf(sql, sizeof(sql), !there ? "SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence("
		       "'toolcrib.%s', 'id')::regclass), 0)" : m->keys ? "SELECT max(id) FROM main.%s"
		       : "SELECT max(n) FROM (SELECT max(id) AS n FROM main.%s "
		       "UNION ALL SELECT seq FROM sqlite_sequence WHERE name = '%s')", table, table);
	rc = number(m->from, sql, &last, err);
	if (rc < 0 || last < 1)
		return rc;
	if (there) {
		(void)snprintf(sql, sizeof(sql), "SELECT setval(pg_get_serial_sequence('toolcrib.%s', 'id'), %" PRId64 ")",
			       table, last);
		return number(m->to, sql, &last, err);
	}
	(void)snprintf(sql, sizeof(sql), "DELETE FROM sqlite_sequence WHERE name = '%s'", table);
	st = ask(m->to, sql);
	rc = db_run(&st, err);
	(void)snprintf(sql, sizeof(sql), "INSERT INTO sqlite_sequence(name, seq) VALUES ('%s', %" PRId64 ")", table, last);
	st = ask(m->to, sql);
	return rc < 0 ? (db_stmt_put(&st), rc) : db_run(&st, err);
}

int db_move_end(struct db_move *m, int rc, struct err *err)
{
	for (const char *const *t = m->tables; rc == 0 && *t; t++)
		rc = move_id(m, *t, err);
	if (rc == 0 && !m->keys)
		rc = make_whole(m, err);
	free(m->later);
	m->later = NULL;
	return db_txn_end(m->to, rc, err);
}

#endif
