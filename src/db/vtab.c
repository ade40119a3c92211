/* Virtual tables of SQLite as a struct of functions, for rooms above that do not know SQLite.  A table is made for one
 * connection, as a temporary one, and serves that connection's thread.  What a function fails with is kept beside the
 * connection until the statement that asked fails (db_fail()). */
#include "config.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "db/vtab.h"

#include "db_int.h"

struct module { struct db *db; const struct db_vtab *table; void *arg; };
struct vtab { sqlite3_vtab base; const struct module *m; };
struct cursor {
	sqlite3_vtab_cursor base;
	const struct module *m;
	void *at;
	bool end;
};

/* A program that is not ours tells what SQLite has to say. */
static int fail(struct cursor *c, const struct err *err)
{
	if (c->m->db->guest) {
		sqlite3_free(c->base.pVtab->zErrMsg);
		c->base.pVtab->zErrMsg = sqlite3_mprintf("%s", err->msg);
	} else {
		c->m->db->computed = *err;
	}
	return SQLITE_ERROR;
}

/* --- plans, which come back to filter() as text: the order, the columns, three letters for each term */

enum { PLAN_HEAD = 17, PLAN_TERM = 4 };
static const char op_letter[] = { '=', '!', '<', '[', '>', ']' };

static int op_of(unsigned char native)
{
	switch (native) {
	case SQLITE_INDEX_CONSTRAINT_EQ:
		return DB_VTAB_EQ;
	case SQLITE_INDEX_CONSTRAINT_NE:
		return DB_VTAB_NE;
	case SQLITE_INDEX_CONSTRAINT_LT:
		return DB_VTAB_LT;
	case SQLITE_INDEX_CONSTRAINT_LE:
		return DB_VTAB_LE;
	case SQLITE_INDEX_CONSTRAINT_GT:
		return DB_VTAB_GT;
	case SQLITE_INDEX_CONSTRAINT_GE:
		return DB_VTAB_GE;
	default:
		return -1;
	}
}

/* All values of an IN at once, where SQLite can (what: 1, -1: whether it can); else it asks for one after the other,
 * and sorts. */
static bool take_in(sqlite3_index_info *info, int i, int what)
{
#if SQLITE_VERSION_NUMBER >= 3038000
	return sqlite3_vtab_in(info, i, what) != 0;
#else
	return false;
#endif
}

static void put_order(const sqlite3_index_info *info, struct db_vtab_plan *plan)
{
	if (info->nOrderBy > DB_VTAB_ORDER_MAX)
		return;
	for (int i = 0; i < info->nOrderBy; i++) {
		if (info->aOrderBy[i].iColumn < 0) {
			plan->orders = 0;
			return;
		}
		plan->order[plan->orders].col = (unsigned)info->aOrderBy[i].iColumn;
		plan->order[plan->orders++].desc = info->aOrderBy[i].desc;
	}
}

static char *plan_text(sqlite3_index_info *info, const struct db_vtab_plan *plan, const int *from)
{
	char text[PLAN_HEAD + PLAN_TERM * DB_VTAB_TERMS_MAX + 1];
	int n = snprintf(text, sizeof(text), "%c%016llx", plan->backwards ? 'v' : '^',
			 (unsigned long long)info->colUsed);

	for (unsigned i = 0, arg = 0; i < plan->terms; i++) {
		if (!plan->term[i].use)
			continue;
		info->aConstraintUsage[from[i]].argvIndex = (int)++arg;
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%c%02x%c", op_letter[plan->term[i].op],
			      plan->term[i].col, plan->term[i].several && take_in(info, from[i], 1) ? 'i' : '.');
	}
	return sqlite3_mprintf("%s", text);
}

static int best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
	const struct module *m = ((struct vtab *)base)->m;
	struct db_vtab_plan plan = { .cost = 1e9, .rows = 1000000 };
	int from[DB_VTAB_TERMS_MAX];

	for (int i = 0; i < info->nConstraint && plan.terms < DB_VTAB_TERMS_MAX; i++) {
		const int op = op_of(info->aConstraint[i].op), col = info->aConstraint[i].iColumn;

		if (!info->aConstraint[i].usable || op < 0 || col < 0)
			continue;
		from[plan.terms] = i;
		plan.term[plan.terms++] = (struct db_vtab_term){ .col = (unsigned)col, .op = (enum db_vtab_op)op,
			.several = op == DB_VTAB_EQ && take_in(info, i, -1) };
	}
	put_order(info, &plan);
	m->table->plan(m->arg, &plan);
	info->idxStr = plan_text(info, &plan, from);
	if (!info->idxStr)
		return SQLITE_NOMEM;
	info->needToFreeIdxStr = 1;
	info->orderByConsumed = plan.ordered && plan.orders > 0;
	info->estimatedCost = plan.cost;
	info->estimatedRows = plan.rows;
	if (plan.unique)
		info->idxFlags |= SQLITE_INDEX_SCAN_UNIQUE;
	return SQLITE_OK;
}

/* --- rows */

static void to_value(sqlite3_value *v, struct db_value *ret)
{
	*ret = (struct db_value){ .type = DB_NULL, .p = "" };
	switch (sqlite3_value_type(v)) {
	case SQLITE_INTEGER:
		ret->type = DB_INT;
		ret->n = sqlite3_value_int64(v);
		break;
	case SQLITE_FLOAT:
		ret->type = DB_FLOAT;
		ret->d = sqlite3_value_double(v);
		break;
	case SQLITE_TEXT:
	case SQLITE_BLOB:
		ret->type = sqlite3_value_type(v) == SQLITE_TEXT ? DB_TEXT : DB_BLOB;
		ret->p = sqlite3_value_blob(v);
		ret->len = ret->p ? (size_t)sqlite3_value_bytes(v) : 0;
		break;
	default:
		break;
	}
}

/* Values of an IN, at most DB_VTAB_IN_MAX; false: there are more, or others, and the term is left to SQLite. */
static bool values_of(sqlite3_value *given, struct db_value **ret, unsigned *ret_n)
{
#if SQLITE_VERSION_NUMBER >= 3038000
	sqlite3_value *v = NULL;
	unsigned room = 0;
	int rc;

	for (rc = sqlite3_vtab_in_first(given, &v); rc == SQLITE_OK && v; rc = sqlite3_vtab_in_next(given, &v)) {
		if (*ret_n == DB_VTAB_IN_MAX)
			return false;
		if (*ret_n == room)
			*ret = mem_realloc(*ret, (room = room ? 4 * room : 16) * sizeof(**ret));
		to_value(v, &(*ret)[*ret_n]);
		if ((*ret)[*ret_n].type == DB_TEXT || (*ret)[*ret_n].type == DB_BLOB)
			return false;           /* its bytes are gone with the next */
		(*ret_n)++;
	}
	return rc == SQLITE_OK || rc == SQLITE_DONE;
#else
	return false;
#endif
}

struct asked { struct db_vtab_ask ask; struct db_value one[DB_VTAB_TERMS_MAX], *in[DB_VTAB_TERMS_MAX]; };

static void read_plan(const char *text, int n, sqlite3_value **given, struct asked *ret)
{
	char hex[PLAN_HEAD];

	memset(ret, 0, sizeof(*ret));
	ret->ask.backwards = text[0] == 'v';
	memcpy(hex, text + 1, PLAN_HEAD - 1);
	hex[PLAN_HEAD - 1] = '\0';
	ret->ask.columns = strtoull(hex, NULL, 16);
	for (int i = 0; i < n && i < DB_VTAB_TERMS_MAX; i++) {
		const char *term = text + PLAN_HEAD + PLAN_TERM * i;
		struct db_vtab_given *g = &ret->ask.term[ret->ask.terms];
		const bool in = term[3] == 'i';

		memcpy(hex, term + 1, 2);
		hex[2] = '\0';
		g->col = (unsigned)strtoul(hex, NULL, 16);
		g->op = (enum db_vtab_op)((const char *)memchr(op_letter, term[0], sizeof(op_letter)) - op_letter);
		g->n = 0;
		if (in && !values_of(given[i], &ret->in[i], &g->n))
			continue;
		ret->one[i].type = DB_NULL;
		if (!in) {
			to_value(given[i], &ret->one[i]);
			g->n = 1;
		}
		g->value = ret->in[i] ? ret->in[i] : &ret->one[i];
		ret->ask.terms++;
	}
}

static int at_row(struct cursor *c, int rc, const struct err *err)
{
	c->end = rc != 1;
	return rc < 0 ? fail(c, err) : SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *base, int num, const char *text, int n, sqlite3_value **given)
{
	struct cursor *c = (struct cursor *)base;
	struct err err = { 0 };
	struct asked asked;
	int rc;

	read_plan(text, n, given, &asked);
	rc = c->m->table->filter(c->at, &asked.ask, &err);
	for (size_t i = 0; i < NELEMS(asked.in); i++)
		free(asked.in[i]);
	return at_row(c, rc, &err);
}

static int next(sqlite3_vtab_cursor *base)
{
	struct cursor *c = (struct cursor *)base;
	struct err err = { 0 };

	return at_row(c, c->m->table->next(c->at, &err), &err);
}

static int eof(sqlite3_vtab_cursor *base)
{
	return ((struct cursor *)base)->end;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int col)
{
	struct cursor *c = (struct cursor *)base;
	struct db_value v = { .type = DB_NULL };
	struct err err = { 0 };
	int rc = c->m->table->column(c->at, (unsigned)col, &v, &err);

	if (rc < 0 && c->m->db->guest)
		sqlite3_result_error(ctx, err.msg, -1);
	if (rc < 0)
		return fail(c, &err);
	switch (v.type) {
	case DB_INT:
		sqlite3_result_int64(ctx, v.n);
		break;
	case DB_FLOAT:
		sqlite3_result_double(ctx, v.d);
		break;
	case DB_TEXT:
		sqlite3_result_text64(ctx, v.p ? v.p : "", v.len, SQLITE_TRANSIENT, SQLITE_UTF8);
		break;
	case DB_BLOB:
		sqlite3_result_blob64(ctx, v.p ? v.p : "", v.len, SQLITE_TRANSIENT);
		break;
	case DB_NULL:
		sqlite3_result_null(ctx);
		break;
	}
	return SQLITE_OK;
}

static int row_id(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
	const struct cursor *c = (const struct cursor *)base;

	*ret = c->m->table->id(c->at);
	return SQLITE_OK;
}

/* --- the table */

static int open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **ret)
{
	const struct module *m = ((struct vtab *)base)->m;
	struct cursor *c = mem_zalloc(sizeof(*c));

	c->m = m;
	c->at = m->table->open(m->arg);
	c->end = true;
	*ret = &c->base;
	return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
	struct cursor *c = (struct cursor *)base;

	c->m->table->close(c->at);
	free(c);
	return SQLITE_OK;
}

static int attach(sqlite3 *native, void *arg, int argc, const char *const *argv, sqlite3_vtab **ret, char **ret_err)
{
	const struct module *m = arg;
	char *sql = mem_printf("CREATE TABLE x(%s)", m->table->columns);
	int rc = sqlite3_declare_vtab(native, sql);
	struct vtab *v;

	free(sql);
	/* Views may read it although the schema of the file is not trusted: it does nothing but give rows. */
	if (rc == SQLITE_OK)
		rc = sqlite3_vtab_config(native, SQLITE_VTAB_INNOCUOUS);
	if (rc != SQLITE_OK)
		return rc;
	v = mem_zalloc(sizeof(*v));
	v->m = m;
	m->db->tables_open++;
	*ret = &v->base;
	return SQLITE_OK;
}

/* Another function than attach(): the table exists by CREATE alone, not by the name of the module. */
static int create(sqlite3 *native, void *arg, int argc, const char *const *argv, sqlite3_vtab **ret, char **ret_err)
{
	return attach(native, arg, argc, argv, ret, ret_err);
}

/* SQLite closes no connection that has statements left, and gives up its tables first. */
static int detach(sqlite3_vtab *base)
{
	struct vtab *v = (struct vtab *)base;

	if (--v->m->db->tables_open == 0 && v->m->db->guest)
		db_stmt_free_all(v->m->db);
	free(v);
	return SQLITE_OK;
}

static void module_free(void *arg)
{
	struct module *m = arg;
#ifdef DB_EXTENSION
	struct db *db = m->db;
#endif

	if (m->table->free)
		m->table->free(m->arg);
	free(m);
#ifdef DB_EXTENSION
	if (db->tables_made > 0 && --db->tables_made == 0)
		db_guest_free(&db);
#endif
}

static const sqlite3_module functions = {
	.iVersion = 1, .xCreate = create, .xConnect = attach, .xBestIndex = best_index, .xDisconnect = detach,
	.xDestroy = detach, .xOpen = open_cursor, .xClose = close_cursor, .xFilter = filter, .xNext = next, .xEof = eof,
	.xColumn = column, .xRowid = row_id,
};

/* A temporary object is a write for query_only, and nothing that a guard allows. */
static int make(struct db *db, const char *sql, struct err *err)
{
	const bool reads = db->mode != DB_WRITER && !db->guest;
	int rc = reads ? db_pragma(db, "PRAGMA query_only=off", err) : 0;

	if (rc < 0)
		return rc;
	rc = sqlite3_exec(db->native, sql, NULL, NULL, NULL);
	rc = rc == SQLITE_OK ? 0 : db_fail(db, rc, "a temporary table", err);
	if (reads && db_pragma(db, "PRAGMA query_only=on", rc < 0 ? NULL : err) < 0 && rc == 0)
		rc = ERR_INTERNAL;
	return rc;
}

int db_vtab_make(struct db *db, const struct db_vtab *table, void *arg, struct err *err)
{
	struct module *m = mem_alloc(sizeof(*m));
	char *name = mem_printf("computed_%s", table->name), *sql;
	int rc;

	*m = (struct module){ db, table, arg };
	rc = sqlite3_create_module_v2(db->native, name, &functions, m, module_free);    /* m is freed in any case */
	if (rc != SQLITE_OK) {
		rc = db_fail(db, rc, name, err);
		free(name);
		return rc;
	}
	db->tables_made++;
	sql = mem_printf("CREATE VIRTUAL TABLE temp.\"%s\" USING %s", table->name, name);
	db_guard(db, false);
	rc = make(db, sql, err);
	db_guard(db, true);
	free(sql);
	if (rc == 0) {
		char *names = mem_printf("%s %s ", db->computed_names ? db->computed_names : "", name);

		free(db->computed_names);
		db->computed_names = names;
	}
	free(name);
	return rc;
}

bool db_vtab_can(const struct db *db)
{
	return db->native != NULL;
}

bool db_vtab_has(const struct db *db, const char *name)
{
	char module[64];

	(void)snprintf(module, sizeof(module), "computed_%s", name);
	return db->computed_names && strstr(db->computed_names, module);
}

/* --- views */

/* Each is copied for the first statement that names it: most connections ask none, and together they are as long as the
 * rest of the schema (decision 0156). */
struct db_view { const char *name, *text; bool copied; };

/* The text of a view, as SQLite keeps it, begins with these words. */
#define VIEW_WORDS "CREATE VIEW "

static bool in_name(char c)
{
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool names(const char *text, const char *name)
{
	const size_t len = strlen(name);

	for (const char *p = text; (p = strstr(p, name)); p += len)
		if ((p == text || !in_name(p[-1])) && !in_name(p[len]))
			return true;
	return false;
}

static bool lacks(const struct db_view *view, const char *text)
{
	return !view->copied && names(text, view->name);
}

static int copy_named(struct db *db, const char *text, struct err *err);

static int copy_view(struct db *db, struct db_view *view, struct err *err)
{
	const char *text = view->text + strlen(VIEW_WORDS);
	char *sql;
	int rc;

	view->copied = true;            /* no view names itself */
	sql = mem_printf("CREATE TEMP VIEW IF NOT EXISTS %s", text);
	rc = copy_named(db, text, err);
	if (rc == 0)
		rc = make(db, sql, err);
	view->copied = rc == 0;
	free(sql);
	return rc;
}

static int copy_named(struct db *db, const char *text, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < db->nview; i++)
		if (lacks(&db->view[i], text))
			rc = copy_view(db, &db->view[i], err);
	return rc;
}

/* Before a statement is compiled.  A rollback takes copies that its transaction made. */
static int view(struct db_stmt *st, struct err *err)
{
	struct db *db = st->db;
	size_t i = 0;
	int rc = 0;

	if (st->viewed == db->undone + 1)
		return 0;
	for (; db->seen_undone != db->undone && i < db->nview; i++)
		db->view[i].copied = false;
	db->seen_undone = db->undone;
	i = 0;
	while (i < db->nview && !lacks(&db->view[i], st->text))
		i++;
	if (i < db->nview) {            /* a guard that changes has all that is compiled compiled again */
		db_guard(db, false);
		rc = copy_named(db, st->text, err);
		db_guard(db, true);
	}
	st->viewed = rc == 0 ? db->undone + 1 : 0;
	return rc;
}

static void on_rollback(void *arg)
{
	struct db *db = arg;

	db->undone++;
}

static int read_views(struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_META_LIST_VIEWS);
	struct arena *mem = arena_new(SIZE_MAX);
	struct db_view *list = arena_alloc(mem, DB_VIEWS_MAX * sizeof(*list));
	bool short_of = !list;
	size_t n = 0;
	int rc = 0;

	while (!short_of && (rc = db_step(st, err)) == 1 && n < DB_VIEWS_MAX) {
		list[n] = (struct db_view){ arena_strdup(mem, db_col_text(st, 0, NULL)),
					    arena_strdup(mem, db_col_text(st, 1, NULL)), false };
		short_of = !list[n].name || !list[n].text || !*list[n].text;    /* "": SQLite had none */
		if (short_of || strncmp(list[n++].text, VIEW_WORDS, strlen(VIEW_WORDS)) != 0)
			break;
	}
	db_stmt_put(&st);
	if (short_of)
		rc = err_set(err, ERR_LIMIT, "schema", "there is no memory for the views");
	else if (rc == 1)
		rc = n == DB_VIEWS_MAX ? err_set(err, ERR_CORRUPT, "schema", "there are more than %d views", DB_VIEWS_MAX)
			: err_set(err, ERR_CORRUPT, "schema", "a view is not as the steps make it");
	if (rc < 0) {
		arena_free(&mem);
		return rc;
	}
	db->view = list;
	db->nview = n;
	db->views_mem = mem;
	db->viewer = view;
	return 0;
}

int db_vtab_views(struct db *db, struct err *err)
{
	int rc;

	if (db->nview > 0)
		return err_set(err, ERR_INTERNAL, "schema", "its views were copied before");
	if (!db->guest)
		sqlite3_rollback_hook(db->native, on_rollback, db);
	db_guard(db, false);
	rc = read_views(db, err);
	/* Whoever has the connection says what nobody here has seen. */
	for (size_t i = 0; rc == 0 && db->guest && i < db->nview; i++)
		if (!db->view[i].copied)
			rc = copy_view(db, &db->view[i], err);
	db_guard(db, true);
	return rc;
}

/* --- another program's connection */

bool db_is_guest(const struct db *db)
{
	return db->guest;
}

#ifdef DB_EXTENSION
int db_guest_new(void *native, struct db **ret, struct err *err)
{
	const char *file = sqlite3_db_filename(native, "main");
	struct db *db = db_new(DB_READER, file ? file : "the store");
	int64_t id = 0;
	int rc;

	db->native = native;
	db->guest = true;
	rc = db_pragma_int(db, "main.application_id", &id, err);
	if (rc == 0 && id != DB_APPLICATION_ID)
		rc = err_set(err, ERR_INVALID, "", "open the toolcrib.db of a store first");
	if (rc == 0)
		rc = db_check_schema(db, err);
	if (rc < 0)
		db_guest_free(&db);
	else
		*ret = db;
	return rc;
}

void db_guest_free(struct db **dbp)
{
	struct db *db = *dbp;

	*dbp = NULL;
	if (!db || db->tables_made > 0)
		return;
	db_stmt_free_all(db);
	arena_free(&db->views_mem);
	free(db->computed_names);
	free(db->path);
	free(db);
}
#endif

void db_vtab_plan_given(struct db_vtab_plan *plan, unsigned must, unsigned asked, unsigned end, double cost)
{
	const double without = 1e15;
	unsigned said = 0;

	for (unsigned i = 0; i < plan->terms; i++) {
		struct db_vtab_term *t = &plan->term[i];

		if (t->op != DB_VTAB_EQ || t->col >= end)
			continue;
		t->use = true;
		if (t->col < asked)
			t->several = false;
		said |= t->col < must ? 1u << t->col : 0;
	}
	plan->cost = said == (1u << must) - 1 ? cost : without;
	plan->rows = said == (1u << must) - 1 ? 1000 : INT64_C(1000000000);
}
