/*
 * Who may call what, now: the checks before anything is recorded as begun, cheap ones first.  Limits come before the
 * schema, so that a flood of bad arguments is stopped by its rate.
 */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/metric.h"
#include "call_int.h"
#include "ev/ev.h"
#include "limit/limit.h"
#include "proto/caps.h"
#include "schema/schema.h"
#include "tenant/arg_rule.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

/* rule: what refused, for the record. */
static int refuse(struct call *c, enum call_refusal refusal, const char *rule)
{
	struct call_trouble *t = call_trouble(c);

	t->refusal = refusal;
	(void)snprintf(t->rule, sizeof t->rule, "%.40s", rule); /* short words of ours */
	return t->err.code;
}

/* Its slots, or a place in the queue for them. */
static int take_slots(struct call *c)
{
	const struct call_env *env = &c->eng->env;
	struct call_sets sets;
	struct limit_req req;
	struct err err;

	call_limits(c->eng, &(struct call_charged){ c->who, c->tool, c->compiled }, &sets, &req);
	req.bytes = c->args_len;
	if (limit_enter(env->limiter, &req, call_on_turn, c, &c->ticket, &err) == 0)
		return 0;
	call_trouble(c)->err = err;
	return refuse(c, err.code == ERR_BUSY ? REFUSE_BUSY : REFUSE_RATE, err.where);
}

void call_count_budget(int rc, const struct schema_report *report)
{
	if (rc == ERR_LIMIT && report->match_limit)
		metric_inc(METRIC_schema_match_limit);
	else if (rc == ERR_LIMIT)
		metric_inc(METRIC_schema_step_limit);
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
	t->report = mem_zalloc(sizeof *t->report);
	rc = schema_explain(c->compiled->input, c->args, &redact, t->report);
	call_count_budget(rc, t->report);
	(void)err_set(&t->err, rc, "", "%s", t->report->count ? t->report->failure[0].text : "the arguments are not valid");
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
	/* Answers may come without a state (MCP R-08): the handler gets what the client says, and no state to go with it. */
	if (!req->sealed_state)
		return 0;
	if (call_open_state(c, req->sealed_state, req->sealed_len) < 0) {
		(void)err_set(&call_trouble(c)->err, ERR_INVALID, "", "the request state is not valid");
		return refuse(c, REFUSE_STATE, "state");
	}
	if (!c->answers)
		c->answers = json_object();
	return 0;
}

static int check_caps(struct call *c)
{
	uint32_t missing = c->compiled->needs_caps & ~c->caps;

	if (!missing)
		return 0;
	(void)err_set(&call_trouble(c)->err, ERR_CAPABILITY, "",
		      "%s %s needs the client capability %s, which this client did not declare", reg_kinds[c->kind].noun,
		      c->tool_name, caps_word(missing));
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

	(void)err_set(&call_trouble(c)->err, ERR_NOT_FOUND, "", "Unknown %s: %s", reg_kinds[c->kind].noun, c->tool_name);
	return line ? refuse(c, REFUSE_SCOPE, "scope") : refuse(c, REFUSE_UNKNOWN_TOOL, unknown[c->kind]);
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

static int check_cage(struct call *c)
{
	struct err err;

	if (call_check_cage(c, &err) == 0)
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

int call_admit(struct call *c, const struct call_req *req)
{
	int rc = check_standing(c);

	if (rc == 0)
		rc = find_tool(c, req->complete);
	if (rc < 0)             /* no limit of calls has seen it: it is a message like others (SEC S-803) */
		call_charge_more(c->eng, c->who, 1);
	if (rc == 0)
		rc = take_slots(c);
	if (rc == 0)
		rc = check_caps(c);
	if (rc == 0)
		rc = check_cage(c);
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

int call_admit_turn(struct call *c)
{
	struct registry *registry = c->eng->env.registry;
	struct reg_snapshot *now = reg_acquire(registry, c->who->tenant_id);
	bool gone = now != c->snap && !find_line(c, now);

	reg_release(registry, &now);
	return gone ? refuse_unknown(c, NULL) : call_admit_last(c);
}

int call_admit_last(struct call *c)
{
	const size_t bytes = call_reserve_bytes(c);
	int rc = check_standing(c);     /* it may have waited for its slots */

	if (rc == 0 && writer_reserve(c->eng->env.writer, bytes) < 0) {
		(void)err_set(&call_trouble(c)->err, ERR_AUDIT, "", "the call cannot be recorded, nothing has run");
		rc = refuse(c, REFUSE_AUDIT, "space");
	}
	c->reserved = rc == 0 ? bytes : 0;
	return rc;
}
