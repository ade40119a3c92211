/* Commands on limits (SEC S-801): limit set stores what a tenant, a principal, a key or a tool of a tenant may do,
 * on the writer; limit show says on the loop what is in force.  Documents store limits of tenants through
 * limit_write(). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "call/call.h"
#include "command/rows.h"
#include "db/db.h"
#include "limit/limit.h"
#include "people/people.h"
#include "registry/registry.h"
#include "tenant/tenant.h"

#define CONCURRENCY_MAX 100000
#define QUEUE_MAX 100000

/* Whose limits a command is about. */
struct whose {
	char tenant[64], principal[64];         /* "": not named */
	const char *accessor, *tool;            /* NULL: not named */
};

static const char *text_or_null(const char *text)
{
	return text && *text ? text : NULL;
}

static int take_who(const struct command_call *c, struct whose *ret, struct err *err)
{
	const char *who = arg_text(c, "who"), *key = arg_text(c, "key");
	int rc = 0;

	*ret = (struct whose){ .accessor = text_or_null(key), .tool = text_or_null(arg_text(c, "tool")) };
	if (who && key)
		return err_set(err, ERR_INVALID, "key", "name a tenant, a principal or a key, one of them");
	if (who && strchr(who, '/'))
		rc = arg_split(who, ret->tenant, ret->principal, err);
	else
		arg_copy(c, "who", ret->tenant, sizeof(ret->tenant));
	if (rc == 0 && ret->tool && (*ret->principal || key))
		return err_set(err, ERR_INVALID, "tool", "a tool's limits are those of a whole tenant: name the tenant alone");
	return rc;
}

static int take_bytes(const struct command_call *c, uint64_t *ret, struct err *err)
{
	const char *text = arg_text(c, "bytes-per-day");

	if (text && strcmp(text, "0") == 0)
		*ret = 0;
	else if (text && text_size(text, ret) < 0) {
		(void)err_set(err, ERR_INVALID, "bytes-per-day", "\"%.40s\" is no size", text);
		err_hint(err, "write it as 512KiB, 100MiB or 2GiB; 0 removes the limit");
		return ERR_INVALID;
	}
	return 0;
}

/* Those that are given, over those that are set. */
static int take_limits(const struct command_call *c, struct tenant_limits *set, struct err *err)
{
	set->concurrency = arg_uint(c, "concurrency", set->concurrency);
	set->queue = arg_uint(c, "queue", set->queue);
	if (arg_given(c, "rate") || arg_flag(c, "no-rate"))
		set->rate = arg_rate(c, "rate");
	if (arg_given(c, "requests") || arg_flag(c, "no-requests"))
		set->requests = arg_rate(c, "requests");
	if (arg_given(c, "calls-per-day"))
		set->calls_day = arg_uint(c, "calls-per-day", 0);
	return take_bytes(c, &set->bytes_day, err);
}

static int check_limits(const struct command_call *c, struct err *err)
{
	uint64_t bytes;

	if ((arg_given(c, "rate") && arg_flag(c, "no-rate")) || (arg_given(c, "requests") && arg_flag(c, "no-requests")))
		return err_set(err, ERR_INVALID, "", "an option and its --no- contradict each other");
	if (arg_uint(c, "concurrency", 0) > CONCURRENCY_MAX)
		return err_set(err, ERR_LIMIT, "concurrency", "concurrency is at most %d", CONCURRENCY_MAX);
	if (arg_uint(c, "queue", 0) > QUEUE_MAX)
		return err_set(err, ERR_LIMIT, "queue", "the queue is at most %d calls long", QUEUE_MAX);
	return take_bytes(c, &bytes, err);
}

static bool any_given(const struct command_call *c)
{
	static const char *const names[] = { "concurrency", "queue", "rate", "no-rate", "requests", "no-requests",
		"calls-per-day", "bytes-per-day" };

	for (size_t i = 0; i < NELEMS(names); i++)
		if (arg_given(c, names[i]))
			return true;
	return false;
}

static int limit_set_check(struct command_call *c, struct err *err)
{
	struct whose who;
	int rc = take_who(c, &who, err);

	if (rc == 0)
		rc = check_limits(c, err);
	if (rc < 0)
		return rc;
	if (!*who.tenant && !who.accessor)
		return err_set(err, ERR_INVALID, "who", "whose limits? Name a tenant, TENANT/PRINCIPAL or --key");
	if (arg_given(c, "queue") && (*who.principal || who.accessor || who.tool))
		return err_set(err, ERR_INVALID, "queue", "the length of the queue is a limit of tenants");
	if ((arg_given(c, "requests") || arg_flag(c, "no-requests")) && who.tool)
		return err_set(err, ERR_INVALID, "requests", "a tool has no requests but calls: use --rate");
	if (!any_given(c))
		return err_set(err, ERR_INVALID, "", "nothing to set: name --concurrency, --rate, --requests, --queue, "
			       "--calls-per-day or --bytes-per-day");
	return 0;
}

/* --- set */

struct target {
	struct tenant_row tenant;
	enum tenant_scope scope;
	int64_t subject;
	char what[160], obj[160];       /* for people; for the record */
	char accessor[16], prn[32];
};

static int find_key(struct db *db, const char *accessor, struct target *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_KEY_FIND);
	char tenant[80] = "";
	int rc;

	db_bind_textz(st, 1, accessor);
	rc = db_step(st, err);
	if (rc == 1) {
		ret->scope = TENANT_SCOPE_KEY;
		ret->subject = db_col_i64(st, 0);
		(void)snprintf(tenant, sizeof(tenant), "%.*s", 79, db_col_text(st, 2, NULL));
		(void)snprintf(ret->accessor, sizeof(ret->accessor), "%s", accessor);
		(void)snprintf(ret->what, sizeof(ret->what), "key %s", accessor);
		(void)snprintf(ret->obj, sizeof(ret->obj), "limit/%s", accessor);
	}
	db_stmt_put(&st);
	if (rc == 0)
		return err_set(err, ERR_NOT_FOUND, "", "key %.15s: not found", accessor);
	return rc < 0 ? rc : tenant_row_find(db, tenant, &ret->tenant, err);
}

static int find_principal(struct db *db, const struct whose *who, struct target *ret, struct err *err)
{
	struct principal_row p;
	int rc = principal_row_find(db, &ret->tenant, who->principal, &p, err);

	if (rc < 0)
		return rc;
	ret->scope = TENANT_SCOPE_PRINCIPAL;
	ret->subject = p.id;
	(void)snprintf(ret->prn, sizeof(ret->prn), "%s", p.pseudonym);
	(void)snprintf(ret->what, sizeof(ret->what), "principal %s/%s", who->tenant, p.name);
	(void)snprintf(ret->obj, sizeof(ret->obj), "limit/%s", p.pseudonym);
	return 0;
}

static int find_tool(struct db *db, const struct whose *who, struct target *ret, struct err *err)
{
	struct tool_row tool;
	int rc = tool_row_find(db, who->tool, &tool, err);

	if (rc < 0)
		return rc;
	ret->scope = TENANT_SCOPE_TOOL;
	ret->subject = tool.id;
	(void)snprintf(ret->what, sizeof(ret->what), "%s for %s", tool.name, who->tenant);
	(void)snprintf(ret->obj, sizeof(ret->obj), "limit/%s/%s", who->tenant, tool.name);
	return 0;
}

static int find_target(struct db *db, const struct whose *who, struct target *ret, struct err *err)
{
	int rc;

	*ret = (struct target){ .scope = TENANT_SCOPE_TENANT };
	if (who->accessor)
		return find_key(db, who->accessor, ret, err);
	rc = tenant_row_find(db, who->tenant, &ret->tenant, err);
	if (rc < 0)
		return rc;
	(void)snprintf(ret->what, sizeof(ret->what), "tenant %s", ret->tenant.name);
	(void)snprintf(ret->obj, sizeof(ret->obj), "limit/%s", ret->tenant.name);
	if (*who->principal)
		return find_principal(db, who, ret, err);
	return who->tool ? find_tool(db, who, ret, err) : 0;
}

/* A tenant's concurrency and rate stand in its own row. */
static int read_set(struct db *db, const struct target *at, struct tenant_limits *ret, struct err *err)
{
	struct db_stmt *st;
	int rc;

	*ret = (struct tenant_limits){ 0 };
	if (at->scope == TENANT_SCOPE_TENANT) {
		*ret = at->tenant.more;
		ret->concurrency = (uint32_t)at->tenant.concurrency;
		ret->rate = at->tenant.rate;
		return 0;
	}
	st = db_stmt_get(db, SQL_LIMIT_GET);
	db_bind_i64(st, 1, at->tenant.id);
	db_bind_i64(st, 2, at->scope);
	db_bind_i64(st, 3, at->subject);
	rc = db_step(st, err);
	if (rc == 1)
		tenant_limits_read(st, 2, ret);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int limit_write(struct db *db, int64_t tenant_id, enum tenant_scope scope, int64_t subject,
		const struct tenant_limits *set, struct err *err)
{
	static const struct tenant_limits none;
	bool empty = limit_same(set, &none);
	struct db_stmt *st = db_stmt_get(db, empty ? SQL_LIMIT_DELETE : SQL_LIMIT_PUT);

	db_bind_i64(st, 1, tenant_id);
	db_bind_i64(st, 2, scope);
	db_bind_i64(st, 3, subject);
	if (!empty) {
		db_bind_i64(st, 4, set->concurrency);
		db_bind_i64(st, 5, set->queue);
		db_bind_i64(st, 6, set->rate.count);
		db_bind_i64(st, 7, set->rate.per_s);
		db_bind_i64(st, 8, set->requests.count);
		db_bind_i64(st, 9, set->requests.per_s);
		db_bind_i64(st, 10, (int64_t)set->calls_day);
		db_bind_i64(st, 11, (int64_t)set->bytes_day);
	}
	return db_run(&st, err);
}

bool limit_same(const struct tenant_limits *a, const struct tenant_limits *b)
{
	return a->concurrency == b->concurrency && a->queue == b->queue && a->rate.count == b->rate.count &&
		a->rate.per_s == b->rate.per_s && a->requests.count == b->requests.count &&
		a->requests.per_s == b->requests.per_s && a->calls_day == b->calls_day && a->bytes_day == b->bytes_day;
}

static int write_set(struct db *db, struct target *at, const struct tenant_limits *set, struct err *err)
{
	if (at->scope != TENANT_SCOPE_TENANT)
		return limit_write(db, at->tenant.id, at->scope, at->subject, set, err);
	at->tenant.concurrency = set->concurrency;
	at->tenant.rate = set->rate;
	at->tenant.more = *set;
	at->tenant.more.concurrency = 0;
	at->tenant.more.rate = (struct text_rate){ 0, 0 };
	return tenant_write(db, &at->tenant, err);
}

static void say_rate(struct str *s, const char *name, struct text_rate a, struct text_rate b)
{
	char x[40] = "none", y[40] = "none";

	if (a.count == b.count && a.per_s == b.per_s)
		return;
	if (a.count)
		(void)text_format_rate(a, x, sizeof(x));
	if (b.count)
		(void)text_format_rate(b, y, sizeof(y));
	str_printf(s, "%s%s %s -> %s", s->len ? ", " : "", name, x, y);
}

static void say_count(struct str *s, const char *name, uint64_t a, uint64_t b)
{
	if (a != b)
		str_printf(s, "%s%s %llu -> %llu", s->len ? ", " : "", name, (unsigned long long)a, (unsigned long long)b);
}

static int record(struct command_call *c, struct db *db, struct audit_logs *logs, const struct target *at,
		  const struct tenant_limits *a, const struct tenant_limits *b, struct err *err)
{
	struct str reason = STR_INIT;
	int rc;

	say_count(&reason, "concurrency", a->concurrency, b->concurrency);
	say_count(&reason, "queue", a->queue, b->queue);
	say_rate(&reason, "rate", a->rate, b->rate);
	say_rate(&reason, "requests", a->requests, b->requests);
	say_count(&reason, "calls-per-day", a->calls_day, b->calls_day);
	say_count(&reason, "bytes-per-day", a->bytes_day, b->bytes_day);
	rc = command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_LIMIT_CHANGE, .tenant_id = at->tenant.id,
		.obj = at->obj,
		.accessor = *at->accessor ? at->accessor : NULL, .prn = *at->prn ? at->prn : NULL, .reason = str_text(&reason) },
		err);
	str_fini(&reason);
	return rc;
}

static int limit_set_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct tenant_limits before, after;
	struct target at;
	struct whose who;
	int rc = take_who(c, &who, err);

	if (rc == 0)
		rc = find_target(db, &who, &at, err);
	if (rc == 0)
		rc = read_set(db, &at, &before, err);
	if (rc < 0)
		return rc;
	after = before;
	rc = take_limits(c, &after, err);
	if (rc < 0)
		return rc;
	if (!limit_same(&before, &after)) {
		rc = write_set(db, &at, &after, err);
		if (rc == 0)
			rc = record(c, db, logs, &at, &before, &after, err);
		if (rc == 0)
			rc = command_changed_people(c, db, at.tenant.id, err);
	}
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_text(c->out, "what", at.what);
	reply_row_end(c->out);
	return 0;
}

/* --- for documents */

int limit_store(struct command_call *c, struct db *db, struct audit_logs *logs, const struct limit_of *of,
		const struct tenant_limits *set, struct tenant_limits *ret_before, int64_t *ret_tenant_id, struct err *err)
{
	struct whose who = { .accessor = NULL };
	struct target at;
	int rc;

	(void)snprintf(who.tenant, sizeof(who.tenant), "%s", of->tenant);
	rc = find_target(db, &who, &at, err);
	if (rc < 0) {
		err_at(err, "/tenant");
		return rc;
	}
	*ret_tenant_id = at.tenant.id;
	if (of->scope == TENANT_SCOPE_PRINCIPAL)
		(void)snprintf(who.principal, sizeof(who.principal), "%.63s", of->name);
	else if (of->scope == TENANT_SCOPE_KEY)
		who.accessor = of->name;
	else
		who.tool = of->name;
	rc = find_target(db, &who, &at, err);
	if (rc == 0 && at.tenant.id != *ret_tenant_id)
		rc = err_set(err, ERR_NOT_FOUND, "", "key %.15s: not found", of->name);
	if (rc == 0)
		rc = read_set(db, &at, ret_before, err);
	if (rc < 0 || limit_same(ret_before, set))
		return rc;
	rc = write_set(db, &at, set, err);
	if (rc == 0)
		rc = record(c, db, logs, &at, ret_before, set, err);
	return rc < 0 ? rc : 1;
}

struct found { struct limit_of of; struct tenant_limits set; };

int limit_each(struct db *db, const struct tenant_row *t, limit_each_fn *fn, void *arg, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_LIMIT_WRITTEN);
	struct found *all = NULL;
	size_t n = 0;
	int rc;

	db_bind_i64(st, 1, t->id);
	while ((rc = db_step(st, err)) == 1) {
		struct found f = { .of = { .scope = (enum tenant_scope)db_col_i64(st, 0) } };

		if (db_col_type(st, 10) == DB_NULL)
			continue;       /* what it is about is gone */
		(void)snprintf(f.of.tenant, sizeof(f.of.tenant), "%.63s", t->name);
		(void)snprintf(f.of.name, sizeof(f.of.name), "%s", db_col_text(st, 10, NULL));
		tenant_limits_read(st, 2, &f.set);
		all = mem_realloc(all, (n + 1) * sizeof(*all));
		all[n++] = f;
	}
	db_stmt_put(&st);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = fn(arg, &all[i].of, &all[i].set, err);
	free(all);
	return rc;
}

/* --- show: on the loop, from what is in force */

/* now: what is used of it, or -1. */
static void put_text_row(struct reply *o, const char *of, const char *limit, const char *value, const char *from,
			 int64_t now)
{
	reply_row_begin(o);
	reply_text(o, "of", of);
	reply_text(o, "limit", limit);
	reply_text(o, "value", value);
	reply_text(o, "from", value ? from : NULL);
	if (now >= 0)
		reply_int(o, "now", now);
	else
		reply_raw(o, "now", "null", 4);
	reply_row_end(o);
}

/* value 0: there is none. */
static void put_row(struct reply *o, const char *of, const char *limit, uint64_t value, const char *from, int64_t now)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value); /* fits */
	put_text_row(o, of, limit, value ? text : NULL, from, now);
}

static void put_rate_row(struct reply *o, const char *of, const char *limit, struct text_rate rate, const char *from)
{
	char text[40];

	put_text_row(o, of, limit, rate.count ? text_format_rate(rate, text, sizeof(text)) : NULL, from, -1);
}

static void show_server(struct command_call *c)
{
	static const struct limit_conf def = LIMIT_CONF_DEFAULT;
	const struct command_env *env = command_env(c);

	for (unsigned i = 0; i < LIMIT_POOLS; i++) {
		struct limit_pool_view v = limit_pool_see(env->limiter, (enum limit_pool)i);

		put_row(c->out, "server", limit_pools[i], v.ceiling, v.ceiling == def.ceiling[i] ? "default" : "config",
			(int64_t)v.used);
	}
}

/* Not for whoever manages one tenant: a share tells how many have one. */
static void show_shares(struct command_call *c, const struct tenant *t)
{
	char of[80];

	(void)snprintf(of, sizeof(of), "tenant %s", t->name);
	for (unsigned i = 0; i < LIMIT_POOLS; i++) {
		struct limit_pool_view v = limit_pool_see(command_env(c)->limiter, (enum limit_pool)i);
		char name[32];

		(void)snprintf(name, sizeof(name), "share of %s", limit_pools[i]); /* fits */
		put_row(c->out, of, name, v.share, "config", -1);
	}
}

static void show_day(struct command_call *c, const char *of, const char *from, const struct tenant_limits *set,
		     const struct limit_view *v)
{
	put_row(c->out, of, "calls-per-day", set ? set->calls_day : 0, from, (int64_t)v->calls);
	put_row(c->out, of, "bytes-per-day", set ? set->bytes_day : 0, from, (int64_t)v->bytes);
}

static void show_tenant(struct command_call *c, const struct tenant *t)
{
	const struct command_env *env = command_env(c);
	const struct tenant_limits *set = tenant_limits(env->tenants, t->id, TENANT_SCOPE_TENANT, 0);
	const struct limit_view v = limit_see(env->limiter, LIMIT_TENANT, t->id, 0, clock_wall_us());
	const char *queue_from = set && set->queue ? "tenant" : env->tenant_queue == LIMIT_TENANT_QUEUE ? "default" : "config";
	const char *requests_from = env->requests == LIMIT_REQUESTS ? "default" : "config";
	struct text_rate requests = { env->requests, 1 };
	char of[80];

	(void)snprintf(of, sizeof(of), "tenant %s", t->name);
	if (set && set->requests.count) {
		requests = set->requests;
		requests_from = "tenant";
	}
	put_row(c->out, of, "concurrency", t->concurrency,
		t->concurrency == TENANT_CONCURRENCY_DEFAULT ? "default" : "tenant", v.running);
	put_row(c->out, of, "queue", set && set->queue ? set->queue : env->tenant_queue, queue_from, v.waiting);
	put_rate_row(c->out, of, "rate", t->rate, "tenant");
	put_rate_row(c->out, of, "requests", requests, requests_from);
	show_day(c, of, "tenant", set, &v);
}

/* Of a principal or a key: what it has of its own. */
static void show_subject(struct command_call *c, const char *of, int64_t tenant_id, enum limit_scope scope,
			 int64_t subject)
{
	static const enum tenant_scope scopes[] = { [LIMIT_PRINCIPAL] = TENANT_SCOPE_PRINCIPAL,
		[LIMIT_KEY] = TENANT_SCOPE_KEY };
	const struct command_env *env = command_env(c);
	const struct tenant_limits *set = tenant_limits(env->tenants, tenant_id, scopes[scope], subject);
	const struct limit_view v = limit_see(env->limiter, scope, tenant_id, subject, clock_wall_us());
	const char *from = limit_scopes[scope];
	const struct text_rate none = { 0, 0 };

	put_row(c->out, of, "concurrency", set ? set->concurrency : 0, from, set ? (int64_t)v.running : -1);
	put_rate_row(c->out, of, "rate", set ? set->rate : none, from);
	put_rate_row(c->out, of, "requests", set ? set->requests : none, from);
	show_day(c, of, from, set, &v);
}

static const struct reg_tool *find_line(const struct reg_snapshot *snap, const char *name)
{
	for (unsigned k = 0; k < REG_KINDS; k++)
		for (size_t i = 0; i < snap->list[k].count; i++)
			if (strcmp(snap->list[k].items[i].full_name, name) == 0)
				return &snap->list[k].items[i];
	return reg_find(snap, REG_TOOL, name, strlen(name));
}

/* The least of what the definition, the grant and `limit set` say, and which of them it is. */
static void show_tool_lines(struct command_call *c, const char *of, int64_t tenant_id, const struct reg_tool *tool,
			    const struct reg_compiled *compiled)
{
	const struct command_env *env = command_env(c);
	const struct tenant_limits *set = tenant_limits(env->tenants, tenant_id, TENANT_SCOPE_TOOL, tool->def->tool_id);
	const struct limit_view v = limit_see(env->limiter, LIMIT_TOOL, tenant_id, tool->def->tool_id, clock_wall_us());
	static const char *const from[] = { "tool", "grant", "limit" };
	const uint32_t slots[] = { compiled->concurrency, tool->concurrency, set ? set->concurrency : 0 };
	const struct text_rate rates[] = { compiled->rate, tool->rate, set ? set->rate : (struct text_rate){ 0, 0 } };
	unsigned s = 0, r = 0;

	for (unsigned i = 1; i < NELEMS(slots); i++) {
		if (slots[i] && (!slots[s] || slots[i] < slots[s]))
			s = i;
		if (rates[i].count && (!rates[r].count ||
				       (uint64_t)rates[i].count * rates[r].per_s < (uint64_t)rates[r].count * rates[i].per_s))
			r = i;
	}
	put_row(c->out, of, "concurrency", slots[s], from[s], v.running);
	put_rate_row(c->out, of, "rate", rates[r], from[r]);
	show_day(c, of, "limit", set, &v);
}

/* What to show; nothing is said before all of it is found. */
struct shown {
	const struct tenant *tenant;
	int64_t principal_id, cred_id;
	struct reg_snapshot *snap;
	const struct reg_tool *tool;
	const struct reg_compiled *compiled;
};

static int find_shown_tool(struct command_call *c, const char *name, struct shown *ret, struct err *err)
{
	struct registry *reg = command_env(c)->registry;

	ret->snap = reg_acquire(reg, ret->tenant->id);
	ret->tool = find_line(ret->snap, name);
	if (!ret->tool)
		return err_set(err, ERR_NOT_FOUND, "", "tool %.64s: not granted to tenant %s", name, ret->tenant->name);
	return reg_compile(reg, ret->tool->def, &ret->compiled, err);
}

static int find_shown(struct command_call *c, const struct whose *who, struct shown *ret, struct err *err)
{
	const struct tenants *tenants = command_env(c)->tenants;
	int64_t tenant_id = 0;

	if (who->accessor) {
		ret->cred_id = tenant_key_id(tenants, who->accessor, &tenant_id, &ret->principal_id);
		if (!ret->cred_id)
			return err_set(err, ERR_NOT_FOUND, "", "key %.15s: not found", who->accessor);
		ret->tenant = tenant_by_id(tenants, tenant_id);
		return 0;
	}
	if (!*who->tenant)
		return 0;
	ret->tenant = tenant_by_name(tenants, who->tenant, strlen(who->tenant));
	if (!ret->tenant)
		return err_set(err, ERR_NOT_FOUND, "", "tenant %.64s: not found", who->tenant);
	if (who->tool)
		return find_shown_tool(c, who->tool, ret, err);
	if (!*who->principal)
		return 0;
	ret->principal_id = tenant_principal_id(tenants, ret->tenant->id, who->principal);
	if (!ret->principal_id)
		return err_set(err, ERR_NOT_FOUND, "", "principal %s/%.64s: not found", ret->tenant->name, who->principal);
	return 0;
}

static int limit_show_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct command_env *env = command_env(c);
	const bool all = actor_may(c->admin, &c->who, ADM_READ, NULL);    /* else his tenant and nothing beside it */
	struct shown s = { 0 };
	struct whose who;
	char of[160];
	int rc = take_who(c, &who, err);

	(void)db;
	(void)logs;
	if (rc == 0 && who.tool && !*who.tenant)
		rc = err_set(err, ERR_INVALID, "tool", "for which tenant? Name it in front");
	if (rc == 0)
		rc = find_shown(c, &who, &s, err);
	if (rc == 0) {
		limiter_set_tenants(env->limiter, tenants_count(env->tenants));
		if (all)
			show_server(c);
		if (s.tenant)
			show_tenant(c, s.tenant);
		if (s.tenant && all)
			show_shares(c, s.tenant);
	}
	if (rc == 0 && s.principal_id) {
		(void)snprintf(of, sizeof(of), *who.principal ? "principal %s/%s" : "its principal", who.tenant, who.principal);
		show_subject(c, of, s.tenant->id, LIMIT_PRINCIPAL, s.principal_id);
	}
	if (rc == 0 && s.cred_id) {
		(void)snprintf(of, sizeof(of), "key %s", who.accessor);
		show_subject(c, of, s.tenant->id, LIMIT_KEY, s.cred_id);
	}
	if (rc == 0 && s.tool) {
		(void)snprintf(of, sizeof(of), "%s for %s", s.tool->full_name, s.tenant->name);
		show_tool_lines(c, of, s.tenant->id, s.tool, s.compiled);
	}
	if (s.snap)
		reg_release(env->registry, &s.snap);
	return rc;
}

/* --- rows of the command table */

#define LIMIT_WHO \
	MAYBE("who", "TENANT[/PRINCIPAL]", COMPLETE_TENANT, "A tenant, or one of its principals."), \
	OPT("key", "ACCESSOR", ARG_TEXT, COMPLETE_KEY, "A key instead, by its public part."), \
	OPT("tool", "TOOL", ARG_TEXT, COMPLETE_TOOL, "One tool of the tenant, by its own name.")
static const struct command_arg limit_set_args[] = {
	LIMIT_WHO, CONCURRENCY_OPT, RATE_OPT, FLAG("no-rate", "Remove the limit of the rate."),
	OPT("requests", "N/UNIT", ARG_RATE, COMPLETE_NONE, "Messages per time, calls apart: lists, listens and all others."),
	FLAG("no-requests", "Remove the limit of messages; of a tenant that of the server counts again."),
	OPT("queue", "N", ARG_UINT, COMPLETE_NONE, "Calls of the tenant that may wait for their turn; 0: as the server says."),
	OPT("calls-per-day", "N", ARG_UINT, COMPLETE_NONE, "Calls of a day, which ends at midnight UTC; 0 removes the limit."),
	OPT("bytes-per-day", "SIZE", ARG_TEXT, COMPLETE_NONE, "Bytes of arguments and results of a day: 100MiB; 0 removes "
		"the limit.  A call whose arguments alone are more never runs."),
	ARG_END };
static const struct command_arg limit_show_args[] = { LIMIT_WHO, ARG_END };
static const struct command_column limit_show_cols[] = {
	COL("of", "OF"), COL("limit", "LIMIT"), COL("value", "VALUE"), COL("from", "FROM"),
	COL("now", "NOW (NOT EVIDENCE)"), COL_END };

const struct command limit_commands[] = {
	{ .noun = "limit", .verb = "set", .help = "Limit what a tenant, a principal, a key or a tool may do",
	  .detail = "What is not named stays as it is.  A call counts for its tenant, its principal, its key and its tool, "
		    "and "
		    "whichever of them has the least left decides.  A call whose slots are taken waits for its turn; one that comes "
		    "too often is refused, with the time after which it may come again.  Takes effect for the next message.",
	  .args = limit_set_args, .done = "limits of %{what} set", .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = limit_set_check, .body = limit_set_body },
	{ .noun = "limit", .verb = "show", .help = "Show the limits in force, where each comes from and what is used of it",
	  .detail = "Without a tenant those of the server alone.  FROM is default, config (the server's configuration), "
		    "tenant, "
		    "principal, key, or of a tool: tool (its definition), grant, limit (limit set).  NOW is what runs, waits or is "
		    "open, or what was used today.  A share is what a tenant is sure of, whatever the others do.  "
		    "A tenant-admin names its tenant, and sees neither the server's nor the shares.",
	  .args = limit_show_args, .columns = limit_show_cols, .shape = ADM_TABLE, .role = ADM_READ, .console = true,
	  .own = "who",
	  .where = ADM_ON_LOOP,
	  .body = limit_show_body },
	{ .noun = NULL },
};
