/* sql: a read-only query of a SQLite database.  This file binds the block, prepares the job and reports its end;
 * the query itself runs on the pool (sql_job.c). */
#include "config.h"

#include "backend/handler.h"
#include "sql_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "ev/ev.h"
#include "handlers/handlers.h"
#include "json/json.h"

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

/* --- bind ---------------------------------------------------------------------------------------- */

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

/* --- run ----------------------------------------------------------------------------------------- */

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
