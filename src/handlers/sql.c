/* sql: a read-only query of an SQLite database.  Binding is pure; a run prepares a job on the loop, a thread of the
 * pool works on it, the loop reports its end.  No JSON tree crosses threads: the job is plain memory, and nobody but
 * the thread that has it touches it, `db` and `stop` excepted. */
#include "config.h"

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/handler.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "ev/ev.h"
#include "handlers/handlers.h"
#include "json/json.h"

/* One query as plain memory: filled on the loop, run on a pool thread (sql.c), read on the loop again.
 * No JSON tree crosses: arguments come as structs, the result goes back as text. */

struct db;

enum sql_type { SQL_NULL, SQL_INT, SQL_FLOAT, SQL_TEXT };
struct sql_param {              /* a top-level member of the arguments */
	const char *name;
	enum sql_type type;
	int64_t i;
	double f;
	const char *text; size_t len;
};
struct sql_job {
	/* the loop's, read by the pool */
	const char *path;
	const char *store;      /* no file of it is a data source */
	const char *sql; size_t sql_len;
	const struct sql_param *params; size_t nparams;
	int64_t rows_max;
	size_t result_max;
	uint64_t deadline_us;
	/* both: an interrupt needs the connection, so it stays open until the loop has the job back */
	_Atomic(struct db *) db;
	atomic_bool stop;
	/* the pool's, read by the loop after the end */
	struct str out;         /* {"columns":[…],"rows":[[…]],"truncated":false} */
	int rc;
	struct err err;
	bool sql_failed;        /* err is about the statement, not about the database or a limit */
};

/* --- on a thread of the pool */

/* The part that runs on a pool thread: it opens the database read-only, runs one SELECT, writes the rows as
 * JSON text. */

#define INT_EXACT_MAX (1ll << 53)       /* beyond it a double, and so many a reader of JSON, loses digits */

static int too_much(const struct sql_job *job, struct err *err)
{
	return err_set(err, ERR_LIMIT, "", "the result is larger than %zu bytes", job->result_max);
}

static const struct sql_param *param_find(const struct sql_job *job, const char *name)
{
	for (size_t i = 0; i < job->nparams; i++) {
		if (strcmp(job->params[i].name, name) == 0)
			return &job->params[i];
	}
	return NULL;
}

static void bind_one(struct db_stmt *st, unsigned pos, const struct sql_param *p)
{
	switch (p ? p->type : SQL_NULL) {
	case SQL_NULL:
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
static int bind_params(const struct sql_job *job, struct db_stmt *st, struct err *err)
{
	for (unsigned pos = 1; pos <= db_param_count(st); pos++) {
		const char *name = db_param_name(st, pos);
		if (!name || name[0] != ':')
			return err_set(err, ERR_INVALID, "", "parameter %u must have a name like :name", pos);
		bind_one(st, pos, param_find(job, name + 1));
	}
	return 0;
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

static void put_blob(struct str *out, const void *p, size_t len, size_t max)
{
	if (len / 3 > max / 4) {
		out->failed = true;
		return;
	}
	char *text = mem_alloc(text_base64_size(len));
	text_base64(p, len, text);
	str_printf(out, "\"%s\"", text);
	free(text);
}

static void put_value(const struct sql_job *job, struct db_stmt *st, unsigned col, struct str *out)
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
		put_blob(out, p, len, job->result_max);
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

static void put_row(const struct sql_job *job, struct db_stmt *st, struct str *out)
{
	str_putc(out, '[');
	for (unsigned i = 0; i < db_col_count(st) && !out->failed; i++) {
		if (i > 0)
			str_putc(out, ',');
		put_value(job, st, i, out);
	}
	str_putc(out, ']');
}

static int fetch_rows(struct sql_job *job, struct db_stmt *st, struct err *err)
{
	struct str *out = &job->out;
	int64_t rows = 0;
	int rc;

	put_columns(st, out);
	while ((rc = db_step(st, err)) == 1 && rows < job->rows_max) {
		if (atomic_load(&job->stop))
			return err_set(err, ERR_CANCELLED, "", "cancelled");
		if (rows++ > 0)
			str_putc(out, ',');
		put_row(job, st, out);
		if (out->failed)
			return too_much(job, err);
	}
	if (rc < 0)
		return rc;
	str_printf(out, "],\"truncated\":%s}", rc == 1 ? "true" : "false");
	return out->failed ? too_much(job, err) : 0;
}

static int run_query(struct sql_job *job, struct db *db, struct err *err)
{
	struct db_stmt *st = NULL;

	db_deadline(db, job->deadline_us);
	int rc = db_stmt_adhoc(db, job->sql, job->sql_len, &st, err);
	if (rc == 0)
		rc = bind_params(job, st, err);
	if (rc == 0)
		rc = fetch_rows(job, st, err);
	if (st)
		db_stmt_put(&st);
	job->sql_failed = rc < 0 && rc != ERR_TIMEOUT && rc != ERR_CANCELLED && rc != ERR_LIMIT;
	return rc;
}

/* pool thread */
static void sql_job_run(void *arg)
{
	struct sql_job *job = arg;
	struct db *db = NULL;

	str_init(&job->out, job->result_max);
	if (atomic_load(&job->stop)) {
		job->rc = err_set(&job->err, ERR_CANCELLED, "", "cancelled");
		return;
	}
	if (clock_mono_us() >= job->deadline_us) {      /* it waited too long for a thread */
		job->rc = err_set(&job->err, ERR_TIMEOUT, "", "no thread was free in time");
		return;
	}
	job->rc = db_foreign_check(job->path, job->store, &job->err);
	if (job->rc < 0)
		return;
	job->rc = db_open(job->path, DB_FOREIGN, false, &db, &job->err);
	if (job->rc < 0)
		return;
	atomic_store(&job->db, db);
	job->rc = run_query(job, db, &job->err);
}

#define ROWS_DEFAULT 1000
#define ROWS_MAX 100000
#define DATABASES_MAX 64
#define SCHEME "sqlite:"
#define INTERRUPT_US 20000              /* an interrupt between two steps is lost: it is repeated */

struct sql_choice { const char *name, *path; };

struct sql_plan {
	const char *path;               /* the one database, or NULL */
	const struct tpl *choice;       /* else: which of these */
	const struct sql_choice *choices; size_t nchoices;
	const char *query;              /* fixed text, or NULL */
	const struct tpl *statement;    /* else: the caller's */
	int64_t rows;
};

struct sql_op {
	struct backend_op op;
	struct sql_job job;
	struct arena *mem;              /* of the job's inputs */
	struct ev_timer *again;         /* the next interrupt */
	bool cancelled; enum cancel_why why;
	bool adhoc;
	char *tool, *tenant, *principal;
	char call[ID_TEXT_SIZE];
};

/* --- bind */

static int bind_path(const char *dsn, const char *at, struct arena *mem, const char **ret, struct err *err)
{
	size_t n = strlen(SCHEME);

	if (strncmp(dsn, SCHEME, n) != 0)
		return err_set(err, ERR_INVALID, at, "must be sqlite:PATH, is %.60s", dsn);
	if (dsn[n] != '/')
		return err_set(err, ERR_INVALID, at, "the path of a database must be absolute, is %.60s",
			       dsn + n);
	*ret = arena_strdup(mem, dsn + n);
	return *ret ? 0 : backend_bind_full(at, err);
}

static int bind_choices(json_t *list, struct arena *mem, struct sql_plan *plan, struct err *err)
{
	size_t n = json_object_size(list), i = 0;
	char at[sizeof(err->where)];
	const char *name;
	json_t *value;

	if (n == 0 || n > DATABASES_MAX)
		return err_set(err, ERR_INVALID, "/databases", "must name 1 to %d databases", DATABASES_MAX);
	struct sql_choice *choices = arena_alloc(mem, n * sizeof(*choices));
	json_object_foreach(list, name, value) {
		const char *dsn = NULL;
		int rc = jx_get_string(list, "/databases", name, JX_REQUIRED, &dsn, err);
		if (rc < 0)
			return rc;
		snprintf(at, sizeof(at), "/databases/%s", name);
		if (!choices || !(choices[i].name = arena_strdup(mem, name)))
			return backend_bind_full(at, err);
		rc = bind_path(dsn, at, mem, &choices[i].path, err);
		if (rc < 0)
			return rc;
		i++;
	}
	plan->choices = choices;
	plan->nchoices = n;
	return 0;
}

static int bind_database(const json_t *handler, struct arena *mem, struct sql_plan *plan, struct err *err)
{
	const char *database = NULL;
	json_t *list = NULL;

	int rc = jx_get_string(handler, "", "database", JX_REQUIRED, &database, err);
	if (rc == 0)
		rc = jx_get_object(handler, "", "databases", JX_OPTIONAL, &list, err);
	if (rc < 0)
		return rc;
	if (!list && !strpbrk(database, "{}"))
		return bind_path(database, "/database", mem, &plan->path, err);
	if (!list) {
		(void)err_set(err, ERR_INVALID, "/database", "a path takes no template");
		err_hint(err,
			 "list the choices in databases: {NAME: sqlite:PATH} and choose by \"{/database}\"");
		return ERR_INVALID;
	}
	rc = tpl_compile(database, "/database", TPL_ARGS, mem, &plan->choice, err);
	if (rc == 0 && !tpl_is_one_argument(plan->choice))
		rc = err_set(err, ERR_INVALID, "/database",
			     "with databases it must be one argument, like \"{/database}\"");
	return rc < 0 ? rc : bind_choices(list, mem, plan, err);
}

static int bind_statement(const json_t *handler, struct arena *mem, struct sql_plan *plan, struct err *err)
{
	const char *query = NULL, *statement = NULL;

	int rc = jx_get_string(handler, "", "query", JX_OPTIONAL, &query, err);
	if (rc == 0)
		rc = jx_get_string(handler, "", "statement", JX_OPTIONAL, &statement, err);
	if (rc < 0)
		return rc;
	if (!query == !statement)
		return err_set(err, ERR_INVALID, "", "a sql handler has either query or statement");
	if (query) {
		plan->query = arena_strdup(mem, query);
		return plan->query ? 0 : backend_bind_full("/query", err);
	}
	rc = tpl_compile(statement, "/statement", TPL_ARGS, mem, &plan->statement, err);
	if (rc == 0 && !tpl_is_one_argument(plan->statement)) {
		/* SEC S-B08: an argument is a whole statement or a parameter, never a part of one */
		rc = err_set(err, ERR_INVALID, "/statement", "must be one argument, like \"{/query}\"");
		err_hint(err, "a fixed statement is query, its values are :name");
	}
	return rc;
}

static int sql_bind(const json_t *handler, struct arena *mem, const void **ret_plan, struct err *err)
{
	static const char *const known[] = { "type", "database", "databases", "query", "statement", "rows" };
	struct sql_plan *plan = arena_alloc(mem, sizeof(*plan));

	if (!plan)
		return backend_bind_full("", err);
	plan->rows = ROWS_DEFAULT;
	int rc = jx_only(handler, "", known, NELEMS(known), err);
	if (rc == 0)
		rc = bind_database(handler, mem, plan, err);
	if (rc == 0)
		rc = bind_statement(handler, mem, plan, err);
	if (rc == 0)
		rc = jx_get_int(handler, "", "rows", JX_OPTIONAL, 1, ROWS_MAX, &plan->rows, err);
	if (rc == 0)
		*ret_plan = plan;
	return rc;
}

/* --- run */

static void sql_free(struct sql_op *s)
{
	struct db *db = atomic_load(&s->job.db);

	db_close(&db);
	ev_timer_free(&s->again);
	arena_free(&s->mem);
	str_fini(&s->job.out);
	free(s->tool);
	free(s->tenant);
	free(s->principal);
	free(s);
}

static int choose(const struct sql_plan *plan, const struct backend_req *req, const char **ret,
		  struct err *err)
{
	struct str name = STR_INIT;

	*ret = plan->path;
	if (plan->path)
		return 0;
	int rc = tpl_render(plan->choice, req, &name, err);
	for (size_t i = 0; i < plan->nchoices && rc == 0 && !*ret; i++) {
		if (text_eq(name.p, name.len, plan->choices[i].name))
			*ret = plan->choices[i].path;
	}
	str_reset(&name);
	for (size_t i = 0; i < plan->nchoices; i++)
		str_printf(&name, "%s%s", i ? ", " : "", plan->choices[i].name);
	if (rc == 0 && !*ret)
		rc = err_set(err, ERR_TOOL, "", "no such database; there are: %s", str_text(&name));
	str_fini(&name);
	return rc;
}

/* Plain copies of the top-level members; arrays and objects as JSON text, for json_each(:list), and so are
 * numbers that neither a 64-bit integer nor a double holds. */
static struct sql_param *copy_params(const json_t *args, struct arena *mem)
{
	struct sql_param *params = arena_alloc(mem, json_object_size(args) * sizeof(*params) + 1);
	struct sql_param *p = params;
	struct str text = STR_INIT;
	const char *name;
	json_t *v;

	/* jansson's iterator takes no const. */
	json_object_foreach((json_t *)(uintptr_t)args, name, v) {
		p->name = arena_strdup(mem, name);
		if (json_is_integer(v) || json_is_boolean(v)) {
			p->type = SQL_INT;
			p->i = json_is_integer(v) ? json_integer_value(v) : json_is_true(v);
		} else if (json_is_real(v) && jx_number(v).kind == JX_REAL) {
			p->type = SQL_FLOAT;
			p->f = jx_number(v).d;
		} else if (json_is_string(v)) {
			p->type = SQL_TEXT;
			p->len = json_string_length(v);
			p->text = arena_strndup(mem, json_string_value(v), p->len);
		} else if (!json_is_null(v)) {
			str_reset(&text);
			jx_write(v, &text);
			p->type = SQL_TEXT;
			p->len = text.len;
			p->text = arena_strndup(mem, str_text(&text), text.len);
		}
		p++;
	}
	str_fini(&text);
	return params;
}

static int prepare(struct sql_op *s, const struct sql_plan *plan, const struct backend_req *req,
		   struct err *err)
{
	struct sql_job *job = &s->job;
	struct str sql = STR_INIT;

	job->rows_max = plan->rows;
	job->result_max = req->result_max;
	job->deadline_us = req->deadline_us;
	s->adhoc = plan->statement != NULL;
	int rc = choose(plan, req, &job->path, err);
	if (rc == 0 && s->adhoc)
		rc = tpl_render(plan->statement, req, &sql, err);
	if (rc < 0) {
		str_fini(&sql);
		return rc;
	}
	job->sql_len = s->adhoc ? sql.len : strlen(plan->query);
	job->sql = arena_strndup(s->mem, s->adhoc ? str_text(&sql) : plan->query, job->sql_len);
	str_fini(&sql);
	job->path = arena_strdup(s->mem, job->path);
	job->nparams = json_object_size(req->args);
	job->params = copy_params(req->args, s->mem);
	return 0;
}

/* What a client reads names no path and, for a fixed query, no SQL; the log has it (house rule 19). */
static void explain(const struct sql_op *s, struct err *err)
{
	const struct sql_job *job = &s->job;
	const struct log_ctx ctx = { .tenant = s->tenant, .principal = s->principal, .call = s->call };

	if (job->rc == ERR_TIMEOUT || job->rc == ERR_LIMIT) {
		*err = job->err;
	} else if (job->sql_failed && s->adhoc) {
		(void)err_set(err, ERR_TOOL, "", "%s", job->err.msg);
	} else {
		log_warn(&ctx, "query failed tool=%s reason=%s: %s", s->tool, job->err.where, job->err.msg);
		(void)err_set(err, ERR_TOOL, "", job->sql_failed ? "the tool's query failed" :
			      "the tool's database cannot be opened");
	}
}

static void give_rows(struct sql_op *s)
{
	struct str *out = &s->job.out;
	struct backend_result res = { .content = json_array() };
	struct err err;

	if (jx_parse(out->p, out->len, &res.structured, &err) < 0) {
		json_decref(res.content);
		(void)err_set(&err, ERR_LIMIT, "", "the result has too many values");
		s->op.sink.error(s->op.arg, &err, 0, NULL);
		return;
	}
	json_array_append_new(res.content, content_text(out->p, out->len));     /* MCP T-27 */
	s->op.sink.result(s->op.arg, &res);
}

static void sql_end(void *arg)
{
	struct sql_op *s = CONTAINER_OF((struct sql_job *)arg, struct sql_op, job);
	struct err err;

	if (s->cancelled) {
		(void)backend_cancel_err(s->why, &err);
		s->op.sink.error(s->op.arg, &err, 0, NULL);
	} else if (s->job.rc < 0) {
		explain(s, &err);
		s->op.sink.error(s->op.arg, &err, 0, NULL);
	} else {
		give_rows(s);
	}
	sql_free(s);
}

static void give_failure(void *arg)
{
	struct sql_op *s = arg;

	s->op.sink.error(s->op.arg, &s->job.err, 0, NULL);
	sql_free(s);
}

static void interrupt(void *arg)
{
	struct sql_op *s = arg;
	struct db *db = atomic_load(&s->job.db);

	if (db)
		db_interrupt(db);
	ev_timer_start(s->again, INTERRUPT_US);
}

static void sql_start(const struct backend_env *env, const struct backend_req *req,
		      const struct backend_sink *sink, void *arg, struct backend_op **ret)
{
	struct sql_op *s = mem_zalloc(sizeof(*s));

	backend_op_init(&s->op, env, sink, arg);
	s->mem = arena_new(SIZE_MAX);   /* copies of arguments, which are bounded by the message */
	s->tool = mem_strdup(req->tool);
	s->tenant = mem_strdup(req->tenant);
	s->principal = mem_strdup(req->principal);
	id_format(req->call_id, s->call);
	*ret = &s->op;
	s->job.store = env->store ? arena_strdup(s->mem, env->store) : NULL;
	int rc = prepare(s, req->plan, req, &s->job.err);
	if (rc == 0 && ev_work(env->loop, EV_LANE_TOOL, sql_job_run, sql_end, &s->job) < 0)
		rc = err_set(&s->job.err, ERR_TOOL, "", "too many queries are waiting; try again");
	if (rc < 0)
		ev_defer(env->loop, give_failure, s);
}

static void sql_cancel(struct backend_op *op, enum cancel_why why)
{
	struct sql_op *s = CONTAINER_OF(op, struct sql_op, op);

	if (s->cancelled)
		return;
	s->cancelled = true;
	s->why = why;
	atomic_store(&s->job.stop, true);
	s->again = ev_timer_new(op->loop, interrupt, s);
	interrupt(s);
}

const struct backend_ops handler_sql = {
	.name = "sql", .bind = sql_bind, .start = sql_start, .cancel = sql_cancel,
};
