/* sql: a read-only query of an SQLite database.  Binding is pure; a run asks a worker (sql_work.c), which is killed at
 * the deadline, when the run is cancelled and when the server stops, whatever the statement does (HARDENING F-2).  What
 * the worker answers is JSON that is scanned as if a stranger had sent it. */
#include "config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backend/handler.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "ev/ev.h"
#include "handlers/handlers.h"
#include "json/json.h"
#include "worker/proto.h"
#include "worker/worker.h"

#include "sql_int.h"

#define ROWS_DEFAULT 1000
#define ROWS_MAX 100000
#define DATABASES_MAX 64
#define TABLE_NAME_MAX 128
#define SCHEME "sqlite:"
#define ASK_USUAL 512                   /* bytes of a question, which grows if it has more */

struct sql_choice { const char *name, *path; };

struct sql_plan {
	const char *path;               /* the one database, or NULL */
	const struct tpl *choice;       /* else: which of these */
	const struct sql_choice *choices; size_t nchoices;
	const char *query;              /* fixed text, or NULL */
	const struct tpl *statement;    /* else: the caller's */
	const char *const *tables; size_t ntables;      /* that may be read; none = all */
	int64_t rows;
	uint64_t memory;                /* bytes; 0 = as workers have it */
};

struct sql_op {
	struct backend_op op;
	struct worker_job *job;         /* NULL: there is none, or it is over */
	struct err err;                 /* why there is none */
	size_t result_max;
	bool cancelled; enum cancel_why why;
	bool adhoc, author;
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

/* --- a fixed statement reads: what it is, as far as that can be said without its tables; each run asks SQLite again */

static bool is_letter(char c)
{
	return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
}

/* Behind white space, comments, and what stands in quotes or brackets of any kind. */
static const char *skip_quoted(const char *p)
{
	static const char open[] = "'\"`[", close[] = "'\"`]";
	const char *quote = strchr(open, *p);

	p = strchr(p + 1, close[quote - open]);
	return p ? p + 1 : "";
}

static const char *skip_comment(const char *p)
{
	const char *end = *p == '-' ? strchr(p, '\n') : strstr(p + 2, "*/");

	return !end ? "" : *p == '-' ? end : end + 2;
}

/* The next word outside of parentheses; *ret_after: behind a closing one.  NULL: there is no more. */
static const char *next_word(const char *p, size_t *ret_len, bool *ret_after)
{
	unsigned depth = 0;

	*ret_after = false;
	while (*p) {
		if (strncmp(p, "--", 2) == 0 || strncmp(p, "/*", 2) == 0) {
			p = skip_comment(p);
		} else if (strchr("'\"`[", *p)) {
			p = skip_quoted(p);
		} else if (is_letter(*p)) {
			size_t n = 1;

			while (is_letter(p[n]) || (p[n] >= '0' && p[n] <= '9'))
				n++;
			if (depth == 0) {
				*ret_len = n;
				return p;
			}
			p += n;
		} else {
			depth += *p == '(';
			depth -= *p == ')' && depth > 0;
			*ret_after = *p == ')' ? depth == 0 : strchr(" \t\r\n", *p) ? *ret_after : false;
			p++;
		}
	}
	return NULL;
}

static bool is_word(const char *p, size_t len, const char *word)
{
	return len == strlen(word) && strncasecmp(p, word, len) == 0;
}

/* The word that says what the statement does: the first, or behind the tables of a WITH. */
static const char *verb_of(const char *sql, size_t *ret_len)
{
	bool after;
	const char *p = next_word(sql, ret_len, &after);
	bool with = p && is_word(p, *ret_len, "WITH");

	while (p && with) {
		p = next_word(p + *ret_len, ret_len, &after);
		if (p && after && !is_word(p, *ret_len, "AS"))
			break;
	}
	return p;
}

static int check_reads(const char *sql, struct err *err)
{
	size_t len = 0;
	const char *verb = verb_of(sql, &len);

	if (verb && (is_word(verb, len, "SELECT") || is_word(verb, len, "VALUES")))
		return 0;
	if (verb)
		(void)err_set(err, ERR_INVALID, "/query", "only a SELECT is allowed, this is %.*s", len > 40 ? 40 : (int)len,
			      verb);
	else
		(void)err_set(err, ERR_INVALID, "/query", "the statement is empty");
	err_hint(err, "tools of SQL read; let an exec tool write");
	return ERR_INVALID;
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
	if (query && check_reads(query, err) < 0)
		return ERR_INVALID;
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

/* The names of tables that a statement may read. */
static int bind_tables(const json_t *handler, struct arena *mem, struct sql_plan *plan, struct err *err)
{
	json_t *list = NULL;
	int rc = jx_get_array(handler, "", "tables", JX_OPTIONAL, &list, err);
	size_t n = json_array_size(list);

	if (rc < 0 || !list)
		return rc;
	if (n == 0 || n > SQL_TABLES_MAX)
		return err_set(err, ERR_INVALID, "/tables", "must name 1 to %d tables", SQL_TABLES_MAX);
	const char **tables = arena_alloc(mem, n * sizeof(*tables));
	for (size_t i = 0; i < n; i++) {
		const char *name = json_string_value(json_array_get(list, i));
		size_t len = name ? json_string_length(json_array_get(list, i)) : 0;
		char at[32];

		(void)snprintf(at, sizeof(at), "/tables/%zu", i);
		if (len == 0 || len > TABLE_NAME_MAX || strlen(name) != len)
			return err_set(err, ERR_INVALID, at, "must be the name of a table, 1 to %d bytes", TABLE_NAME_MAX);
		if (!tables || !(tables[i] = arena_strdup(mem, name)))
			return backend_bind_full(at, err);
	}
	plan->tables = tables;
	plan->ntables = n;
	return 0;
}

static int bind_memory(const json_t *handler, struct sql_plan *plan, struct err *err)
{
	const char *text = NULL;
	int rc = jx_get_string(handler, "", "memory", JX_OPTIONAL, &text, err);

	if (rc < 0 || !text)
		return rc;
	if (text_size(text, &plan->memory) == 0 && plan->memory >= WORKER_MEMORY_LEAST && plan->memory <= WORKER_MEMORY_MAX)
		return 0;
	return err_set(err, ERR_INVALID, "/memory", "must be a size of %u to %uMiB, like 64MiB, is %.60s",
		       WORKER_MEMORY_LEAST >> 20, WORKER_MEMORY_MAX >> 20, text);
}

static int sql_bind(const json_t *handler, struct arena *mem, const void **ret_plan, struct err *err)
{
	static const char *const known[] = { "type", "database", "databases", "query", "statement", "rows",
					     "tables", "memory" };
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
		rc = bind_tables(handler, mem, plan, err);
	if (rc == 0)
		rc = bind_memory(handler, plan, err);
	if (rc == 0)
		*ret_plan = plan;
	return rc;
}

/* --- run */

static void sql_free(struct sql_op *s)
{
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

static void put_text(struct str *out, const char *text)
{
	worker_put_bytes(out, text, strlen(text));
}

static void put_f64(struct str *out, double f)
{
	uint64_t bits;

	memcpy(&bits, &f, sizeof(bits));
	worker_put(out, SQL_FLOAT, 1);
	worker_put(out, bits, 8);
}

static void put_json(struct str *out, const json_t *v)
{
	struct str text = STR_INIT;

	jx_write(v, &text);
	worker_put(out, SQL_TEXT, 1);
	worker_put_bytes(out, text.p, text.len);
	str_fini(&text);
}

/* A top-level member; arrays and objects as JSON text, for json_each(:list), and so are numbers that neither a 64-bit
 * integer nor a double holds. */
static void put_param(struct str *out, const char *name, const json_t *v)
{
	put_text(out, name);
	if (json_is_integer(v) || json_is_boolean(v)) {
		worker_put(out, SQL_INT, 1);
		worker_put(out, (uint64_t)(json_is_integer(v) ? json_integer_value(v) : json_is_true(v)), 8);
	} else if (json_is_real(v) && jx_number(v).kind == JX_REAL) {
		put_f64(out, jx_number(v).d);
	} else if (json_is_string(v)) {
		worker_put(out, SQL_TEXT, 1);
		worker_put_bytes(out, json_string_value(v), json_string_length(v));
	} else if (json_is_null(v)) {
		worker_put(out, SQL_NULL, 1);
	} else {
		put_json(out, v);
	}
}

static void encode(const struct sql_plan *plan, const char *path, const char *store, const struct str *sql,
		   const json_t *args, struct str *out)
{
	const char *zone = getenv("TZ"), *name;
	json_t *v;

	put_text(out, path);
	put_text(out, store);
	put_text(out, zone ? zone : "");
	worker_put(out, plan->ntables, 4);
	for (size_t i = 0; i < plan->ntables; i++)
		put_text(out, plan->tables[i]);
	worker_put(out, (uint64_t)plan->rows, 8);
	if (plan->statement)
		worker_put_bytes(out, str_text(sql), sql->len);
	else
		put_text(out, plan->query);
	worker_put(out, json_object_size(args), 4);
	/* jansson's iterator takes no const. */
	json_object_foreach((json_t *)(uintptr_t)args, name, v)
		put_param(out, name, v);
}

static int print_ask(const struct backend_env *env, const struct backend_req *req, struct str *ret, struct err *err)
{
	const struct sql_plan *plan = req->plan;
	struct str sql = STR_INIT;
	const char *path;
	int rc = choose(plan, req, &path, err);

	if (rc == 0 && plan->statement)
		rc = tpl_render(plan->statement, req, &sql, err);
	if (rc == 0) {
		str_room(ret, ASK_USUAL);
		encode(plan, path, env->store ? env->store : "", &sql, req->args, ret);
	}
	str_fini(&sql);
	return rc;
}

/* For who wrote the tool, in the record. */
static void give_hint(const struct sql_op *s, const struct err *said, bool of_sql)
{
	char text[BACKEND_HINT_MAX];

	if (!s->op.sink.hint || s->author)      /* whom the message tells */
		return;
	if (of_sql)
		(void)snprintf(text, sizeof(text), "the query: %s", said->msg);
	else
		(void)snprintf(text, sizeof(text), "%s: %.200s", said->where, said->msg);
	s->op.sink.hint(s->op.arg, text);
}

/* What a client reads names no path and, for a fixed query, no SQL; the log has it (house rule 19). */
static void explain(const struct sql_op *s, const struct err *said, struct err *err)
{
	const struct log_ctx ctx = { .tenant = s->tenant, .principal = s->principal, .call = s->call };
	const bool of_sql = strcmp(said->where, "sql") == 0;

	if (said->code == ERR_TIMEOUT) {
		(void)err_set(err, ERR_TIMEOUT, "", "%s", strcmp(said->where, "wait") == 0 ? said->msg :
			      "the query took too long");
	} else if (said->code == ERR_LIMIT && strcmp(said->where, "answer") == 0) {
		(void)err_set(err, ERR_LIMIT, "", "the result is larger than %zu bytes", s->result_max);
	} else if (said->code == ERR_LIMIT) {
		(void)err_set(err, ERR_LIMIT, "", "%s", said->msg);
	} else if (of_sql && s->adhoc) {
		(void)err_set(err, ERR_TOOL, "", "%s", said->msg);
	} else {
		log_warn(&ctx, "query failed tool=%s reason=%s: %s", s->tool, said->where, said->msg);
		give_hint(s, said, of_sql);
		if (strcmp(said->where, "worker") == 0)
			(void)err_set(err, ERR_TOOL, "", "the query was broken off: %s", said->msg);
		else if (s->author)
			(void)err_set(err, ERR_TOOL, of_sql ? "/handler/query" : "/handler/database", "%s%s%s: %s", of_sql ?
				      "the tool's query failed" : "the tool's database cannot be opened", of_sql ? "" : ": ",
				      of_sql ? "" : said->where, said->msg);
		else
			(void)err_set(err, ERR_TOOL, "", of_sql ? "the tool's query failed" :
				      "the tool's database cannot be opened");
	}
}

static void give_rows(struct sql_op *s, const char *p, size_t len)
{
	struct backend_result res = { .content = json_array() };
	struct err err;

	if (jx_parse(p, len, &res.structured, &err) < 0 || !json_is_object(res.structured)) {
		json_decref(res.content);
		json_decref(res.structured);
		(void)err_set(&err, ERR_LIMIT, "", "the result has too many values");
		s->op.sink.error(s->op.arg, &err, 0, NULL);
		return;
	}
	json_array_append_new(res.content, content_text(p, len));       /* MCP T-27 */
	s->op.sink.result(s->op.arg, &res);
}

static void on_ended(void *arg, const struct err *said, const char *p, size_t len)
{
	struct sql_op *s = arg;
	struct err err;

	s->job = NULL;
	if (said) {
		explain(s, said, &err);
		s->op.sink.error(s->op.arg, &err, 0, NULL);
	} else {
		give_rows(s, p, len);
	}
	sql_free(s);
}

/* It was not started, or was cancelled. */
static void give_failure(void *arg)
{
	struct sql_op *s = arg;

	if (s->cancelled)
		(void)backend_cancel_err(s->why, &s->err);
	s->op.sink.error(s->op.arg, &s->err, 0, NULL);
	sql_free(s);
}

static int ask_worker(struct sql_op *s, const struct backend_env *env, const struct backend_req *req, struct err *err)
{
	const struct sql_plan *plan = req->plan;
	struct str bytes = STR_INIT;
	int rc = print_ask(env, req, &bytes, err);

	if (rc == 0 && !env->pool)
		rc = err_set(err, ERR_TOOL, "", "there is no worker for queries here");
	if (rc == 0)
		rc = worker_start(env->pool, &(const struct worker_req){
			.name = SQL_WORK, .tenant_id = req->tenant_id, .p = bytes.p, .len = bytes.len, .memory = plan->memory,
			.answer_max = req->result_max, .deadline_us = req->deadline_us, .ended = on_ended, .arg = s,
		}, &s->job, err);
	if (rc == ERR_BUSY)
		rc = err_set(err, ERR_TOOL, "", "too many queries are waiting; try again");
	str_fini(&bytes);
	return rc;
}

static void sql_start(const struct backend_env *env, const struct backend_req *req,
		      const struct backend_sink *sink, void *arg, struct backend_op **ret)
{
	struct sql_op *s = mem_zalloc(sizeof(*s));
	const struct sql_plan *plan = req->plan;

	backend_op_init(&s->op, env, sink, arg);
	s->adhoc = plan->statement != NULL;
	s->author = req->author;
	s->result_max = req->result_max;
	s->tool = mem_strdup(req->tool);
	s->tenant = mem_strdup(req->tenant);
	s->principal = mem_strdup(req->principal);
	id_format(req->call_id, s->call);
	*ret = &s->op;
	if (ask_worker(s, env, req, &s->err) < 0)
		ev_defer(env->loop, give_failure, s);
}

static void sql_cancel(struct backend_op *op, enum cancel_why why)
{
	struct sql_op *s = CONTAINER_OF(op, struct sql_op, op);

	if (s->cancelled)
		return;
	s->cancelled = true;
	s->why = why;
	if (!s->job)                    /* its end is on its way */
		return;
	worker_cancel(&s->job);
	ev_defer(op->loop, give_failure, s);
}

const struct backend_ops handler_sql = {
	.name = "sql", .bind = sql_bind, .start = sql_start, .cancel = sql_cancel,
};
