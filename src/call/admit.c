/*
 * Who may call what, now: the checks before anything is recorded as begun, cheap ones first.  Limits come before the
 * schema, so that a flood of bad arguments is stopped by its rate.
 */

#include "config.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "ev/ev.h"
#include "json/json.h"
#include "limit/limit.h"
#include "proto/caps.h"
#include "schema/schema.h"
#include "tenant/arg_rule.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "call_int.h"

/* --- whom a message is charged to, by which limits, and what is charged beside calls */


static uint32_t lower(uint32_t a, uint32_t b)
{
	return a && b ? (a < b ? a : b) : a + b;        /* 0 = no limit */
}

/* Whoever says something later may lower the rate, never raise it (product.md 4). */
static struct text_rate lower_rate(struct text_rate a, struct text_rate b)
{
	if (a.count == 0 || b.count == 0)
		return a.count ? a : b;
	return (uint64_t)a.count * b.per_s <= (uint64_t)b.count * a.per_s ? a : b;
}

static struct limit_set set_of(const struct tenant_limits *l)
{
	if (!l)
		return (struct limit_set){ 0 };
	return (struct limit_set){
		.concurrency = l->concurrency, .queue = l->queue, .rate = l->rate, .requests = l->requests,
		.calls_day = l->calls_day, .bytes_day = l->bytes_day,
	};
}

static void of_tenant(const struct call_engine *eng, int64_t tenant_id, struct limit_set *ret)
{
	const struct tenant *tenant = tenant_by_id(eng->env.tenants, tenant_id);

	*ret = set_of(tenant_limits(eng->env.tenants, tenant_id, TENANT_SCOPE_TENANT, 0));
	if (tenant) {           /* else it has been removed meanwhile */
		ret->concurrency = tenant->concurrency;
		ret->rate = tenant->rate;
	}
	if (!ret->queue)
		ret->queue = eng->env.queue;
	if (!ret->requests.count && eng->env.requests)
		ret->requests = (struct text_rate){ eng->env.requests, 1 };
}

/* Of a message. */
static void find_limits(const struct call_engine *eng, const struct principal *who, struct call_limits *ret)
{
	const struct tenants *tenants = eng->env.tenants;
	const struct tenant_limits *principal = tenant_limits(tenants, who->tenant_id, TENANT_SCOPE_PRINCIPAL,
							      who->principal_id),
		*key = who->cred_id ? tenant_limits(tenants, who->tenant_id, TENANT_SCOPE_KEY, who->cred_id) : NULL;

	ret->who = who;
	ret->req = (struct limit_req){
		.tenant_id = who->tenant_id, .principal_id = who->principal_id, .cred_id = who->cred_id,
		.now_us = ev_now_us(eng->env.loop), .wall_us = clock_turn_us(),
	};
	of_tenant(eng, who->tenant_id, &ret->of[LIMIT_TENANT]);
	ret->req.set[LIMIT_TENANT] = &ret->of[LIMIT_TENANT];
	ret->of[LIMIT_PRINCIPAL] = set_of(principal);
	if (principal)
		ret->req.set[LIMIT_PRINCIPAL] = &ret->of[LIMIT_PRINCIPAL];
	ret->of[LIMIT_KEY] = set_of(key);
	if (key)
		ret->req.set[LIMIT_KEY] = &ret->of[LIMIT_KEY];
	limiter_set_tenants(eng->env.limiter, tenants_count(tenants));
}

/* And of the tool that is called: the least of what the definition, the grant and `limit set` say. */
static void add_tool(const struct call *c, struct call_limits *ret)
{
	const struct tenants *tenants = c->eng->env.tenants;
	struct limit_set *set = &ret->of[LIMIT_TOOL];

	*set = set_of(tenant_limits(tenants, c->who->tenant_id, TENANT_SCOPE_TOOL, c->tool->def->tool_id));
	set->concurrency = lower(set->concurrency, lower(c->compiled->concurrency, c->tool->concurrency));
	set->rate = lower_rate(set->rate, lower_rate(c->compiled->rate, c->tool->rate));
	ret->req.set[LIMIT_TOOL] = set;
	ret->req.tool_id = c->tool->def->tool_id;
	ret->req.again = c->task || c->hold;
	ret->req.bytes = c->args_len;
}

int call_charge(struct call_engine *eng, const struct principal *who, unsigned cost, bool loose, struct err *err)
{
	eng->is_call = false;
	find_limits(eng, who, &eng->charged);
	return limit_charge(eng->env.limiter, &eng->charged.req, cost, loose, err);
}

void call_charge_more(struct call_engine *eng, const struct principal *who, unsigned cost)
{
	struct call_limits limits;

	find_limits(eng, who, &limits);
	limit_charge_more(eng->env.limiter, &limits.req, cost);
}

void call_charge_back(struct call_engine *eng, const struct principal *who, unsigned cost)
{
	if (eng->charged.who != who)
		find_limits(eng, who, &eng->charged);
	limit_charge_back(eng->env.limiter, &eng->charged.req, cost);
	eng->is_call = true;
}

bool call_shed(const struct call_engine *eng, const struct principal *who, unsigned percent)
{
	if (!limit_shed(eng->env.limiter, who->tenant_id, percent))
		return false;
	metric_inc(METRIC_requests_shed);
	return true;
}

bool call_crowds(const struct call_engine *eng, const struct principal *who)
{
	return limit_crowds(eng->env.limiter, who->tenant_id);
}

int call_hold_stream(struct call_engine *eng, int64_t tenant_id, struct err *err)
{
	limiter_set_tenants(eng->env.limiter, tenants_count(eng->env.tenants));
	return limit_hold_stream(eng->env.limiter, tenant_id, err);
}

void call_drop_stream(struct call_engine *eng, int64_t tenant_id)
{
	limit_drop_stream(eng->env.limiter, tenant_id);
}

/* --- Mcp-Param-* headers against the arguments of the body (MCP T-43 to T-45): one comparison, the body counts */

#define SAFE_INTEGER_MAX 9007199254740991       /* 2^53 - 1 */

static const struct call_param *find_header(const struct call_req *req, const char *name)
{
	for (size_t i = 0; i < req->nparams; i++)
		if (strcasecmp(req->params[i].name, name) == 0)
			return &req->params[i];
	return NULL;
}

/* Decimal digits with a sign, perhaps a fraction of zeros: 42.0 is 42. */
static bool read_integer(const char *p, size_t len, int64_t *ret)
{
	const char *dot = memchr(p, '.', len);
	size_t whole = dot ? (size_t)(dot - p) : len;

	if (dot && (whole + 1 == len || strspn(dot + 1, "0") < len - whole - 1))
		return false;
	return text_i64(p, whole, ret) == 0 && *ret <= SAFE_INTEGER_MAX && *ret >= -SAFE_INTEGER_MAX;
}

static bool equal(const struct reg_param *p, const json_t *value, const struct call_param *header)
{
	int64_t n;

	switch (p->type) {
	case REG_PARAM_STRING:
		return json_string_length(value) == header->value_len &&
		       memcmp(json_string_value(value), header->value, header->value_len) == 0;
	case REG_PARAM_INTEGER:
		return read_integer(header->value, header->value_len, &n) &&
		       jx_compare(jx_number(value), (struct jx_number){ .kind = JX_INTEGER, .i = n }) == 0;
	case REG_PARAM_BOOLEAN:
		return text_eq(header->value, header->value_len, json_is_true(value) ? "true" : "false");
	}
	return false;
}

static bool has_type(const struct reg_param *p, const json_t *value)
{
	switch (p->type) {
	case REG_PARAM_STRING:
		return json_is_string(value);
	case REG_PARAM_INTEGER:
		return json_is_number(value);
	case REG_PARAM_BOOLEAN:
		return json_is_boolean(value);
	}
	return false;
}

/* params.c (MCP T-43 to T-45) */
static int call_check_params(const struct call *c, const struct call_req *req, struct err *err)
{
	for (size_t i = 0; i < c->compiled->nparams; i++) {
		const struct reg_param *p = &c->compiled->params[i];
		const json_t *value = jx_at(c->args, p->pointer);
		const struct call_param *header = find_header(req, p->header);

		if (!value || json_is_null(value)) {
			if (header)
				return err_set(err, ERR_INVALID, p->pointer,
					       "Mcp-Param-%s has a value, the arguments have none", p->header);
			continue;
		}
		if (!header)
			return err_set(err, ERR_INVALID, p->pointer, "Mcp-Param-%s is missing", p->header);
		/* A value of another type is the schema's matter. */
		if (has_type(p, value) && !equal(p, value, header))
			return err_set(err, ERR_INVALID, p->pointer, "Mcp-Param-%s differs from the arguments",
				       p->header);
	}
	return 0;
}

/* --- the sandbox of what a call starts (SEC S-510, S-511) */

/* Settled before its begin record, which names the level.  Where it is less than the machine has, because the
 * definition asks for the network, the tenant's log says so once for each definition as long as the process lives. */

#define DEGRADED_MAX 4096               /* definitions that are remembered; then all are said again */

struct degraded_key { int64_t tenant_id; uint8_t tdef[32]; };

/* sandbox.c: how the call's process will be confined.  Is that enough?  0, or a message in *err. */
static int call_check_sandbox(struct call *c, struct err *err)
{
	const struct backend_env env = call_backend_env(c->eng);

	if (!c->ops->sandbox)
		return 0;
	c->ops->sandbox(&env, c->plan, &c->sandbox);
	c->sandboxed = *c->sandbox.level != '\0';
	if (!c->sandboxed)
		return 0;
	const struct tenant *tenant = tenant_by_id(c->eng->env.tenants, c->who->tenant_id);
	if (tenant && *tenant->sandbox)
		backend_sandbox_require(&c->sandbox, tenant->sandbox);
	return backend_sandbox_check(&c->sandbox, err);
}

int call_note_sandbox(struct call *c)
{
	struct degraded_key key = { .tenant_id = c->who->tenant_id };
	struct audit_event ev;

	if (!c->sandboxed || strcmp(c->sandbox.level, c->sandbox.best) == 0)
		return 0;
	memcpy(key.tdef, c->tool->def->digest, sizeof(key.tdef));
	if (map_get(c->eng->degraded, &key, sizeof(key)))
		return 0;
	if (map_count(c->eng->degraded) >= DEGRADED_MAX) {
		map_free(&c->eng->degraded);
		c->eng->degraded = map_new();
	}
	(void)map_set(c->eng->degraded, &key, sizeof(key), c->eng); /* any value: it is a set */
	log_warn(NULL, "tool is confined less than it could be tool=%s level=%s best=%s", c->tool->full_name,
		 c->sandbox.level, c->sandbox.best);
	audit_event_init(&ev, AUDIT_SANDBOX_DEGRADED, c->who->tenant_id);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.tool = c->tool->full_name;
	ev.tdef = c->tool->def->digest;
	ev.sbox = c->sandbox.level;
	ev.detail = c->sandbox.best;
	return writer_audit(c->eng->env.writer, &ev, NULL, NULL);
}

/* rule: what refused, for the record. */
static int refuse(struct call *c, enum call_refusal refusal, const char *rule)
{
	struct call_trouble *t = call_trouble(c);

	t->refusal = refusal;
	(void)snprintf(t->rule, sizeof(t->rule), "%.40s", rule); /* short words of ours */
	return t->err.code;
}

/* Its slots, or a place in the queue for them. */
static int take_slots(struct call *c, bool charged, limit_turn_fn *on_turn)
{
	struct call_limits *limits = &c->eng->charged;
	struct err err;
	int rc;

	if (!charged || limits->who != c->who)
		find_limits(c->eng, c->who, limits);
	add_tool(c, limits);
	rc = limit_enter(c->eng->env.limiter, &limits->req, on_turn, c, &c->ticket, &err);
	limits->who = NULL;             /* a call's, not a message's any more */
	if (rc == 0)
		return 0;
	call_trouble(c)->err = err;
	return refuse(c, err.code == ERR_BUSY ? REFUSE_BUSY : REFUSE_RATE, err.where);
}

/* The first run stops at the first failure; only a refusal pays for the whole report. */
static int check_arguments(struct call *c)
{
	const struct schema_redact redact = { c->compiled->redact, c->compiled->nredact };
	struct call_trouble *t;
	int rc = c->compiled->input && !c->completing ? schema_run(c->compiled->input, c->args, NULL) : 0;

	if (rc == 0)
		return 0;
	t = call_trouble(c);
	t->report = mem_zalloc(sizeof(*t->report));
	rc = schema_explain(c->compiled->input, c->args, &redact, t->report);
	call_count_budget(rc, t->report);
	(void)err_set(&t->err, rc, "", "%s",
		      t->report->count ? t->report->failure[0].text : "the arguments are not valid");
	return refuse(c, REFUSE_ARGUMENTS, "schema");
}

/* SEC S-314: of a value that the schema allows, but not this key. */
static int check_rules(struct call *c)
{
	struct err err;

	if (c->kind != REG_TOOL || arg_rules_check(c->who->rules, c->tool->name, c->args, &err) == 0)
		return 0;
	call_trouble(c)->err = err;
	return refuse(c, REFUSE_RULES, "arg-rule");
}

static int check_state(struct call *c, const struct call_req *req)
{
	/* Answers may come without a state (MCP R-08): the handler gets what the client says, and no state with it. */
	if (!req->sealed_state)
		return 0;
	if (call_open_state(c, req->sealed_state, req->sealed_len) < 0) {
		(void)err_set(&call_trouble(c)->err, ERR_INVALID, "", "the request state is not valid");
		return refuse(c, REFUSE_STATE, "state");
	}
	if (!c->answers && !c->form_back)
		c->answers = json_object();
	return 0;
}

static int check_caps(struct call *c)
{
	uint32_t missing = c->compiled->needs_caps & ~c->caps;

	if (!missing)
		return 0;
	(void)err_set(&call_trouble(c)->err, ERR_CAPABILITY, "",
		      "%s %s needs the client capability %s, which this client did not declare",
		      reg_kinds[c->kind].noun, c->tool_name, caps_word(missing));
	call_trouble(c)->missing_caps = missing;
	return refuse(c, REFUSE_CAPABILITY, "capability");
}

static const struct reg_tool *find_line(const struct call *c, const struct reg_snapshot *snap)
{
	switch (c->kind) {
	case REG_TOOL:
	case REG_PROMPT:
		return reg_find(snap, c->kind, c->tool_name, c->tool_len);
	case REG_RESOURCE:
		return reg_find_uri(snap, c->tool_name, c->tool_len, NULL);
	case REG_TEMPLATE:
		return reg_find_template(snap, c->tool_name, c->tool_len);
	case REG_KINDS:
		break;
	}
	return NULL;
}

/* MCP B-13: what is not granted, or beyond the key's scopes, looks like unknown; only the record knows more. */
static int refuse_unknown(struct call *c, const struct reg_tool *line)
{
	static const char *const unknown[REG_KINDS] = { [REG_TOOL] = "unknown_tool", [REG_PROMPT] = "unknown_prompt",
		[REG_RESOURCE] = "unknown_resource", [REG_TEMPLATE] = "unknown_resource" };

	(void)err_set(&call_trouble(c)->err, ERR_NOT_FOUND, "", "Unknown %s: %s", reg_kinds[c->kind].noun,
		      c->tool_name);
	if (line)
		return refuse(c, REFUSE_SCOPE, "scope");
	return refuse(c, REFUSE_UNKNOWN_TOOL, c->ambiguous ? "ambiguous_app_tool" : unknown[c->kind]);
}

/* What runs: the handler, or that of one argument's completion. */
static int choose_handler(struct call *c, const char *argument)
{
	c->ops = c->compiled->ops;
	c->plan = c->compiled->plan;
	if (!argument)
		return 0;
	for (size_t i = 0; i < c->compiled->ncompletions; i++) {
		const struct reg_completion *how = &c->compiled->completions[i];

		if (strcmp(how->argument, argument) != 0 || !how->ops)
			continue;
		c->ops = how->ops;
		c->plan = how->plan;
		return 0;
	}
	(void)err_set(&call_trouble(c)->err, ERR_INTERNAL, "", "no handler completes this argument");
	return refuse(c, REFUSE_INTERNAL, "definition");
}

static int find_tool(struct call *c, const char *complete)
{
	const struct reg_tool *line = find_line(c, c->snap);
	struct err err;

	if (!line || !reg_in_scope(line, c->who->scopes))
		return refuse_unknown(c, line);
	c->tool = line;
	if (reg_compile(c->eng->env.registry, c->tool->def, &c->compiled, &err) < 0) {
		call_trouble(c)->err = err;
		return refuse(c, REFUSE_INTERNAL, "definition");
	}
	return choose_handler(c, complete);
}

static int check_params(struct call *c, const struct call_req *req)
{
	struct err err;

	if (!req->check_params || call_check_params(c, req, &err) == 0)
		return 0;
	call_trouble(c)->err = err;
	return refuse(c, REFUSE_PARAMS, "params");
}

static int check_sandbox(struct call *c)
{
	struct err err;

	if (call_check_sandbox(c, &err) == 0)
		return 0;
	call_trouble(c)->err = err;
	return refuse(c, REFUSE_SANDBOX, "sandbox");
}

static int check_standing(struct call *c)
{
	struct err err;

	if (principal_check(c->eng->env.tenants, c->who, &err) == 0)
		return 0;
	call_trouble(c)->err = err;
	return refuse(c, REFUSE_NONE, "standing");
}

/* May it become a task, must it?  ERR_CAPABILITY: it must, and cannot. */
static int may_task(struct call *c, struct err *err)
{
	const enum reg_task_support support = c->kind == REG_TOOL && !c->completing ? c->compiled->task.support :
		REG_TASK_FORBIDDEN;
	const bool can = c->modern && (c->caps & CAP_TASKS) && c->eng->env.tasks;

	if (c->task)                    /* another round */
		return 0;
	c->may_task = can && support != REG_TASK_FORBIDDEN;
	/* A command waits as long as it takes. */
	if (can || support != REG_TASK_REQUIRED || c->tport == AUDIT_ADMIN_SOCKET)
		return 0;
	return err_set(err, ERR_CAPABILITY, "", "tool %s needs a client that can wait for tasks", c->tool_name);
}

/* TK-20; who needs a task and has too many is told so before anything runs. */
static int check_task(struct call *c)
{
	struct err err;

	if (may_task(c, &err) == 0) {
		if (!c->may_task || c->compiled->task.support != REG_TASK_REQUIRED ||
		    task_room(c->eng->env.tasks, c->who->tenant_id, c->who->principal_id))
			return 0;
		(void)err_set(&call_trouble(c)->err, ERR_RATE, "tenant/tasks", "too many tasks are open or kept");
		c->trouble->err.retry_ms = CALL_TASK_RETRY_MS;
		return refuse(c, REFUSE_RATE, "tenant/tasks");
	}
	call_trouble(c)->err = err;
	call_trouble(c)->missing_caps = CAP_TASKS;
	return refuse(c, REFUSE_CAPABILITY, "capability");
}

int call_admit(struct call *c, const struct call_req *req, limit_turn_fn *on_turn)
{
	bool charged = c->eng->is_call;         /* its message was, just now */
	int rc = req->in_standing ? 0 : check_standing(c);

	c->eng->is_call = false;
	if (rc == 0)
		rc = find_tool(c, req->complete);
	if (rc == 0)
		rc = check_task(c);
	if (rc < 0)             /* no limit of calls has seen it: it is a message like others (SEC S-803) */
		call_charge_more(c->eng, c->who, 1);
	if (rc == 0)
		rc = take_slots(c, charged, on_turn);
	if (rc == 0)
		rc = check_caps(c);
	if (rc == 0)
		rc = check_sandbox(c);
	if (rc == 0)
		rc = check_params(c, req);
	if (rc == 0)
		rc = check_state(c, req);
	if (rc == 0)
		rc = check_arguments(c);
	if (rc == 0)
		rc = check_rules(c);
	return rc;
}

int call_admit_again(struct call *c)
{
	struct registry *registry = c->eng->env.registry;
	struct reg_snapshot *now = reg_acquire(registry, c->who->tenant_id);
	bool gone = now != c->snap && !find_line(c, now);

	reg_release(registry, &now);
	return gone ? refuse_unknown(c, NULL) : check_standing(c);
}

int call_admit_turn(struct call *c)
{
	const int rc = call_admit_again(c);       /* it has waited */

	return rc < 0 || c->reserved ? rc : call_admit_last(c);
}

int call_admit_last(struct call *c)
{
	const size_t bytes = call_reserve_bytes(c);
	int rc = 0;

	if (writer_reserve(c->eng->env.writer, bytes) < 0) {
		(void)err_set(&call_trouble(c)->err, ERR_AUDIT, "", "the call cannot be recorded, nothing has run");
		rc = refuse(c, REFUSE_AUDIT, "space");
	}
	c->reserved = rc == 0 ? bytes : 0;
	return rc;
}

/* --- hearing of it when what a resource gives is another */

int call_watch(struct call_engine *eng, struct reg_def *def, const struct backend_watch_req *req,
	       struct backend_watch **ret, struct err *err)
{
	struct backend_watch_req full = *req;

	const struct tenant *tenant = tenant_by_id(eng->env.tenants, req->tenant_id);
	const struct backend_env env = call_backend_env(eng);
	const struct reg_compiled *compiled;

	if (!tenant || reg_compile(eng->env.registry, def, &compiled, NULL) < 0 || !compiled->ops->watch)
		return 0;
	full.plan = compiled->plan;
	full.tenant = tenant->name;
	return compiled->ops->watch(&env, &full, ret, err);
}
