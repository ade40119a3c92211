/* The part of the sql handler that runs in a worker: it opens a database read-only, runs one SELECT and writes the
 * rows as JSON text.  Databases and statements stay for the next request, which is of the same tenant; a database whose
 * file is another one, or was written, is opened anew, and statements follow its schema by themselves (decision
 * 0148). */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "handlers/handlers.h"
#include "json/json.h"
#include "worker/proto.h"
#include "worker/serve.h"

#include "sql_int.h"

#define INT_EXACT_MAX (1ll << 53)       /* beyond it a double, and so many a reader of JSON, loses digits */
#define DATABASES 4                     /* that are open: each may have 2 MiB of pages in memory */
#define STATEMENTS 32                   /* of each that are prepared */
#define STATEMENT_MAX 8192              /* bytes of one that is kept */
#define PARAM_LEAST 5                   /* bytes of a parameter of a request */

struct statement {
	char *sql; size_t len;
	struct db_stmt *st;             /* NULL: the place is free */
	uint64_t used;
};
struct database {
	struct db *db;                  /* NULL: the place is free */
	char *path;
	struct str tables;              /* each with its NUL */
	dev_t dev; ino_t ino;           /* of its file, when it was opened */
	off_t size; struct timespec changed;
	uint64_t used;
	struct statement statements[STATEMENTS];
};
/* One request at a time, so that what is kept is the process's. */
static struct database databases[DATABASES];
static uint64_t uses;                   /* which of them has not been used longest */

/* --- what is asked */

static const char *take_text(struct worker_cursor *c, struct arena *mem)
{
	size_t len;
	const char *p = worker_take_bytes(c, &len);
	const char *copy = memchr(p, 0, len) ? NULL : arena_strndup(mem, p, len);

	c->failed = c->failed || !copy;
	return copy;
}

/* How many there are of what takes at least so many bytes each: nothing is allocated for what cannot be there. */
static size_t take_count(struct worker_cursor *c, size_t each)
{
	size_t n = worker_take(c, 4);

	c->failed = c->failed || n > c->len / each;
	return c->failed ? 0 : n;
}

static const char *const *take_tables(struct worker_cursor *c, struct arena *mem, size_t *ret_n)
{
	size_t n = take_count(c, 4);
	const char **tables = arena_alloc(mem, n * sizeof(*tables) + 1);

	c->failed = c->failed || n > SQL_TABLES_MAX || !tables;
	for (size_t i = 0; i < n && !c->failed; i++)
		tables[i] = take_text(c, mem);
	*ret_n = c->failed ? 0 : n;
	return tables;
}

static void take_param(struct worker_cursor *c, struct sql_param *ret)
{
	uint64_t bits = 0, type;

	ret->name = worker_take_bytes(c, &ret->name_len);
	type = worker_take(c, 1);
	c->failed = c->failed || type >= SQL_TYPE_COUNT;
	ret->type = c->failed ? SQL_NULL : (enum sql_type)type;
	if (ret->type == SQL_INT || ret->type == SQL_FLOAT)
		bits = worker_take(c, 8);
	else if (ret->type == SQL_TEXT)
		ret->text = worker_take_bytes(c, &ret->len);
	if (ret->type == SQL_INT)
		ret->i = (int64_t)bits;
	else if (ret->type == SQL_FLOAT)
		memcpy(&ret->f, &bits, sizeof(ret->f));
}

static const struct sql_param *take_params(struct worker_cursor *c, struct arena *mem, size_t *ret_n)
{
	size_t n = take_count(c, PARAM_LEAST);
	struct sql_param *params = arena_alloc(mem, n * sizeof(*params) + 1);

	c->failed = c->failed || !params;
	for (size_t i = 0; i < n && !c->failed; i++)
		take_param(c, &params[i]);
	*ret_n = c->failed ? 0 : n;
	return params;
}

/* Texts point into p, or into mem.  ERR_INVALID: the server does not write that. */
static int decode(const char *p, size_t len, struct arena *mem, struct sql_ask *ret)
{
	struct worker_cursor c = { p, len, false };
	struct sql_ask ask = { 0 };

	ask.path = take_text(&c, mem);
	ask.store = take_text(&c, mem);
	ask.zone = take_text(&c, mem);
	ask.tables = take_tables(&c, mem, &ask.ntables);
	ask.rows_max = (int64_t)worker_take(&c, 8);
	ask.sql = worker_take_bytes(&c, &ask.sql_len);
	ask.params = take_params(&c, mem, &ask.nparams);
	if (c.failed || c.len > 0)
		return ERR_INVALID;
	*ret = ask;
	return 0;
}

/* --- what is kept */

static void forget_statement(struct statement *s)
{
	if (s->st)
		db_stmt_put(&s->st);
	free(s->sql);
	*s = (struct statement){ 0 };
}

static void forget_database(struct database *d)
{
	for (size_t i = 0; i < STATEMENTS; i++)
		forget_statement(&d->statements[i]);
	db_close(&d->db);
	free(d->path);
	str_fini(&d->tables);
	*d = (struct database){ 0 };
}

static void print_tables(const struct sql_ask *ask, struct str *ret)
{
	for (size_t i = 0; i < ask->ntables; i++)
		str_put(ret, ask->tables[i], strlen(ask->tables[i]) + 1);
}

/* Not by SQLite alone: who copies another database over this one leaves it the counter by which SQLite would see that
 * pages in memory are old, when both were made alike.  So whatever was written is opened anew. */
static bool is_same_file(const struct database *d, const struct stat *st)
{
	return d->dev == st->st_dev && d->ino == st->st_ino && d->size == st->st_size &&
		d->changed.tv_sec == st->st_ctim.tv_sec && d->changed.tv_nsec == st->st_ctim.tv_nsec;
}

static bool is_asked(const struct database *d, const struct sql_ask *ask, const struct str *tables)
{
	return d->db && strcmp(d->path, ask->path) == 0 && d->tables.len == tables->len &&
		(tables->len == 0 || memcmp(d->tables.p, tables->p, tables->len) == 0);
}

/* The one that has this path and these tables, else the one whose place is to be had. */
static struct database *place_of(const struct sql_ask *ask, const struct str *tables)
{
	struct database *oldest = &databases[0];

	for (size_t i = 0; i < DATABASES; i++) {
		struct database *d = &databases[i];

		if (is_asked(d, ask, tables))
			return d;
		if (d->used < oldest->used)
			oldest = d;
	}
	return oldest;
}

static int open_at(struct database *d, const struct sql_ask *ask, const struct stat *st, struct str *tables,
		   struct err *err)
{
	int rc = db_foreign_check(ask->path, *ask->store ? ask->store : NULL, err);

	forget_database(d);
	if (rc == 0)
		rc = db_open(ask->path, DB_FOREIGN, false, &d->db, err);
	if (rc < 0)
		return rc;
	db_foreign_tables(d->db, ask->tables, ask->ntables);
	d->path = mem_strdup(ask->path);
	d->tables = *tables;
	str_init(tables, 0);
	d->dev = st->st_dev;
	d->ino = st->st_ino;
	d->size = st->st_size;
	d->changed = st->st_ctim;
	return 0;
}

static int get_database(const struct sql_ask *ask, struct database **ret, struct err *err)
{
	struct str tables = STR_INIT;
	struct database *d;
	struct stat st;
	int rc = 0;

	if (stat(ask->path, &st) != 0)
		return err_set(err, ERR_UNREACHABLE, ask->path, "cannot open: %s", strerror(errno));
	print_tables(ask, &tables);
	d = place_of(ask, &tables);
	if (!is_asked(d, ask, &tables) || !is_same_file(d, &st))
		rc = open_at(d, ask, &st, &tables, err);
	str_fini(&tables);
	d->used = ++uses;
	*ret = d;
	return rc;
}

static int get_statement(struct database *d, const struct sql_ask *ask, struct statement **ret, struct err *err)
{
	struct statement *s = &d->statements[0];
	int rc;

	for (size_t i = 0; i < STATEMENTS; i++) {
		struct statement *t = &d->statements[i];

		if (t->st && t->len == ask->sql_len && memcmp(t->sql, ask->sql, t->len) == 0) {
			t->used = ++uses;
			*ret = t;
			return 0;
		}
		if (t->used < s->used)
			s = t;
	}
	forget_statement(s);
	rc = db_stmt_adhoc(d->db, ask->sql, ask->sql_len, &s->st, err);
	if (rc < 0)
		return rc;
	s->sql = mem_strndup(ask->sql, ask->sql_len);
	s->len = ask->sql_len;
	s->used = ++uses;
	*ret = s;
	return 0;
}

/* --- parameters */

static const struct sql_param *param_find(const struct sql_ask *ask, const char *name)
{
	for (size_t i = 0; i < ask->nparams; i++) {
		if (text_eq(ask->params[i].name, ask->params[i].name_len, name))
			return &ask->params[i];
	}
	return NULL;
}

static void bind_one(struct db_stmt *st, unsigned pos, const struct sql_param *p)
{
	switch (p ? p->type : SQL_NULL) {
	case SQL_NULL:
	case SQL_TYPE_COUNT:
		db_bind_null(st, pos);
		break;
	case SQL_INT:
		db_bind_i64(st, pos, p->i);
		break;
	case SQL_FLOAT:
		db_bind_f64(st, pos, p->f);
		break;
	case SQL_TEXT:
		db_bind_text(st, pos, p->text, p->len);
		break;
	}
}

/* SEC S-B08: arguments reach a statement as parameters only.  A missing one is NULL. */
static int bind_params(const struct sql_ask *ask, struct db_stmt *st, struct err *err)
{
	for (unsigned pos = 1; pos <= db_param_count(st); pos++) {
		const char *name = db_param_name(st, pos);

		if (!name || name[0] != ':')
			return err_set(err, ERR_INVALID, "", "parameter %u must have a name like :name", pos);
		bind_one(st, pos, param_find(ask, name + 1));
	}
	return 0;
}

/* --- rows */

static int too_much(const struct str *out, struct err *err)
{
	return err_set(err, ERR_LIMIT, "", "the result is larger than %zu bytes", out->max);
}

/* The shortest spelling that reads back as the same number. */
static void put_f64(struct str *out, double v)
{
	char buf[40];

	if (!isfinite(v)) {
		str_puts(out, v > 0 ? "\"Infinity\"" : "\"-Infinity\"");
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(buf, sizeof(buf), "%.*g", digits, v);
		if (strtod(buf, NULL) == v)
			break;
	}
	str_puts(out, buf);
	if (!strpbrk(buf, ".e"))
		str_puts(out, ".0");
}

static void put_i64(struct str *out, int64_t v)
{
	bool exact = v >= -INT_EXACT_MAX && v <= INT_EXACT_MAX;

	str_printf(out, exact ? "%lld" : "\"%lld\"", (long long)v);
}

static void put_blob(struct str *out, const void *p, size_t len)
{
	if (len / 3 > out->max / 4) {
		out->failed = true;
		return;
	}
	char *text = mem_alloc(text_base64_size(len));
	text_base64(p, len, text);
	str_printf(out, "\"%s\"", text);
	free(text);
}

static void put_value(struct db_stmt *st, unsigned col, struct str *out)
{
	size_t len = 0;
	const void *p;

	switch (db_col_type(st, col)) {
	case DB_NULL:
		str_puts(out, "null");
		break;
	case DB_INT:
		put_i64(out, db_col_i64(st, col));
		break;
	case DB_FLOAT:
		put_f64(out, db_col_f64(st, col));
		break;
	case DB_TEXT:
		p = db_col_text(st, col, &len);
		jx_write_string(out, p, len);
		break;
	case DB_BLOB:
		p = db_col_blob(st, col, &len);
		put_blob(out, p, len);
		break;
	}
}

static void put_columns(struct db_stmt *st, struct str *out)
{
	str_puts(out, "{\"columns\":[");
	for (unsigned i = 0; i < db_col_count(st); i++) {
		if (i > 0)
			str_putc(out, ',');
		jx_write_stringz(out, db_col_name(st, i));
	}
	str_puts(out, "],\"rows\":[");
}

static void put_row(struct db_stmt *st, struct str *out)
{
	str_putc(out, '[');
	for (unsigned i = 0; i < db_col_count(st) && !out->failed; i++) {
		if (i > 0)
			str_putc(out, ',');
		put_value(st, i, out);
	}
	str_putc(out, ']');
}

static int fetch_rows(const struct sql_ask *ask, struct db_stmt *st, struct str *out, struct err *err)
{
	int64_t rows = 0;
	int rc = db_step(st, err);

	if (rc >= 0)
		put_columns(st, out);           /* as the first step has found them: the schema may have changed */
	for (; rc == 1 && rows < ask->rows_max; rc = db_step(st, err)) {
		if (rows++ > 0)
			str_putc(out, ',');
		put_row(st, out);
		if (out->failed)
			return too_much(out, err);
	}
	if (rc < 0)
		return rc;
	str_printf(out, "],\"truncated\":%s}", rc == 1 ? "true" : "false");
	return out->failed ? too_much(out, err) : 0;
}

/* --- a request */

/* What is about the statement says so by its place, which is "sql". */
static int run_query(struct database *d, const struct sql_ask *ask, struct str *out, struct err *err)
{
	struct statement *s = NULL;
	int rc = get_statement(d, ask, &s, err);

	if (rc == 0)
		rc = bind_params(ask, s->st, err);
	if (rc == 0)
		rc = fetch_rows(ask, s->st, out, err);
	if (s && (rc < 0 || s->len > STATEMENT_MAX))
		forget_statement(s);
	else if (s)
		db_stmt_again(s->st);
	if (rc < 0)
		(void)snprintf(err->where, sizeof(err->where), "sql");
	return rc;
}

static int answer(const struct worker_run *r, const struct sql_ask *ask, struct err *err)
{
	const size_t begun = r->out->len;
	struct database *d = NULL;
	int rc = get_database(ask, &d, err);

	for (unsigned tries = 0; rc == 0 && tries < 2; tries++) {
		db_deadline(d->db, r->until_us);
		rc = run_query(d, ask, r->out, err);
		if (tries > 0 || rc == 0 || !db_foreign_is_old(err))
			break;
		r->out->len = begun;
		forget_database(d);
		rc = get_database(ask, &d, err);
	}
	if (d && (rc == ERR_IO || rc == ERR_CORRUPT || rc == ERR_UNREACHABLE))
		forget_database(d);
	return rc;
}

int sql_work(const struct worker_run *r, struct err *err)
{
	struct arena *mem = arena_new(SIZE_MAX);        /* of a message, which is bounded */
	struct sql_ask ask;
	int rc = decode(r->p, r->len, mem, &ask);

	if (rc < 0) {
		arena_free(&mem);
		return err_set(err, rc, "worker", "the request cannot be read");
	}
	if (*ask.zone && (!getenv("TZ") || strcmp(getenv("TZ"), ask.zone) != 0))
		(void)setenv("TZ", ask.zone, 1);
	db_memory_max(r->memory - r->memory / 8);
	rc = answer(r, &ask, err);
	arena_free(&mem);
	return rc;
}
