/* Who decides beside us (PD-01 to PD-08): the policy decision points of a call's tenant are asked at each run, behind
 * all questions of admission and before its begin, since nothing runs that they do not allow.  What they have said goes
 * into its next record.  The engine asks; loop thread. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/metric.h"
#include "pdp/pdp.h"
#include "tenant/tenant.h"

#include "call_int.h"

static const char *rule_of(const struct pdp_verdict *v, char *ret, size_t size)
{
	(void)snprintf(ret, size, "pdp/%s%s", v->against->name, v->word == PDP_NONE ? "/unreachable" : "");
	return ret;
}

/* What its caller is told, and its record: in c->trouble, or as the end of one that runs already. */
static int refuse(struct call *c, const struct pdp_verdict *v)
{
	struct call_trouble *t;
	char rule[sizeof(t->rule)];
	const bool none = v->word == PDP_NONE;

	(void)rule_of(v, rule, sizeof(rule));   /* fits: names are short */
	free(c->hint);
	c->hint = mem_printf("%s%s%s", rule, *v->against->why ? ": " : "", v->against->why);
	t = call_trouble(c);
	t->refusal = none ? REFUSE_UNDECIDED : REFUSE_POLICY;
	memcpy(t->rule, rule, sizeof(t->rule));
	return err_set(&t->err, none ? ERR_UNREACHABLE : ERR_DENIED, "", "%s%s%s",
		       none ? "The policy could not be asked" : "Refused by policy", *v->reason ? ": " : "", v->reason);
}

static void on_verdict(void *arg, const struct pdp_verdict *v)
{
	struct call *c = arg;

	c->eng->decided(c, v->word == PDP_ALLOW ? 0 : refuse(c, v));
}

int call_decide(struct call *c)
{
	struct pdps *pdps = c->eng->env.pdps;
	const struct pdp_verdict *v;

	if (!pdp_applies(pdps, c->who->tenant))
		return 0;
	call_draw_id(c);
	pdp_forget(&c->asking);         /* of a round before */
	c->asking = pdp_ask(pdps, &(struct pdp_question){ .who = c->who, .tool = c->tool, .compiled = c->compiled,
		.kind = c->kind, .completing = c->completing, .uri = c->kind == REG_RESOURCE ? c->tool_name : NULL,
		.client = c->client, .tport = c->tport, .args = c->args, .args_text = c->args_text, .args_len = c->args_len,
		.call_id = c->id }, on_verdict, c);
	v = pdp_verdict(c->asking);
	if (!v)
		return 1;
	return v->word == PDP_ALLOW ? 0 : refuse(c, v);
}
